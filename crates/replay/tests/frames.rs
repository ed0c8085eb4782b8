//! Frames as they are sent: their tags, sums, lanes and changes.

use mpps_replay::{Capture, Frames, NotSent, Preparation, Rewrite, Selection, TAGGED, content_of};
use mpps_traffic::{Form, Moment, Packet, Traffic};
use mpps_wire::tagged::tag_of;
use mpps_wire::{Mark, TAG_LEN, Tag};
use std::io::Cursor;

mod common;

const SEED: u64 = 7;

fn form(packet: &str, size: u32) -> Form {
    let text = format!("[[stream]]\npacket = '{packet}'\nsize = {size}\nfill = 'text:abc'\ntag = 'none'\n");
    let traffic = Traffic::parse(&text, &[]).expect(packet);
    traffic.forms(SEED).expect(packet).remove(0)
}

/// Returns a capture of frames, one each ms.
fn capture(frames: &[Vec<u8>]) -> Capture {
    capture_of(frames, 0)
}

/// As [`capture`], with so many bytes of each frame left out.
fn capture_of(frames: &[Vec<u8>], cut: usize) -> Capture {
    let mut file = vec![
        0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0,
    ];
    for (at, frame) in frames.iter().enumerate() {
        let kept = frame.len() - cut;
        for number in [0, at * 1000, kept, frame.len()] {
            file.extend((number as u32).to_le_bytes());
        }
        file.extend(&frame[..kept]);
    }
    Capture::read(&mut Cursor::new(file), &Selection::default(), 1 << 20).expect("a capture")
}

fn tagging(lanes: usize) -> Preparation {
    Preparation {
        tag: true,
        lanes,
        ..Preparation::default()
    }
}

fn tag(number: u32) -> Tag {
    Tag {
        number,
        run: 3,
        flow: 0,
        time_ns: 0x1234_5678_9abc,
        mark: Mark::Sent,
    }
}

/// Sum of a whole packet of an upper layer, as a receiver works it out.
fn sum(bytes: &[u8]) -> u32 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|two| u32::from(two[0]) << 8 | u32::from(*two.get(1).unwrap_or(&0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum % 0xffff
}

#[test]
fn a_tag_keeps_each_checksum_that_covers_it_and_is_found_again() {
    // The sum of all bytes behind the Ethernet header stays, and with it each checksum of one of its parts: of whole
    // words, or shifted by a byte in tunnels.
    for packet in [
        "eth / ipv4 / udp",
        "eth / vlan / ipv6 / tcp",
        "eth / ipv4 / udp dst=4789 / vxlan / eth / ipv4 / udp",
        "eth / ipv6 / udp dst=4789 cksum=0x1234 / vxlan / eth / ipv6 / tcp",
        "eth / ipv4 / gre / ipv4 / icmp",
    ] {
        for size in [180, 181, 300] {
            let frame = form(packet, size).packet(0, Moment::default());
            let frames = Frames::new(&capture(std::slice::from_ref(&frame)), &tagging(1)).expect(packet);
            let sent = frames.sent(0, 5);
            let mut made = vec![0; frames.lens()[0]];
            assert_eq!(frames.write(sent, &mut made), frame.len());
            assert_eq!(made, frame, "{packet} {size}: untouched without its tag");
            let end = frames.tag_end(sent).expect(packet);
            Frames::write_tag(&mut made, end, &tag(5).bytes(SEED));
            let changed = made.iter().zip(&frame).position(|(one, other)| one != other);
            assert!(changed.is_some_and(|at| at >= end - TAGGED), "{packet} {size}");
            assert_eq!(sum(&made[14..]), sum(&frame[14..]), "{packet} {size}");
            let (found, at) = tag_of(&made, SEED).expect(packet);
            assert_eq!((found.number, at), (5, end));
            let whole: [u8; TAG_LEN] = made[end - TAG_LEN..end].try_into().expect("16 bytes");
            assert!(
                frames.has_payload(sent, &made[..end - TAG_LEN], &whole),
                "{packet} {size}"
            );
            for at in end - TAGGED - 4..end - TAG_LEN {
                let mut damaged = made.clone();
                damaged[at] ^= 0x10;
                assert!(
                    !frames.has_payload(sent, &damaged[..end - TAG_LEN], &whole),
                    "{packet} {at}"
                );
            }
        }
    }
}

#[test]
fn packets_without_room_or_with_a_crc_have_no_tag() {
    let frames: Vec<Vec<u8>> = [
        ("eth / ipv4 / tcp", 64),
        ("eth / ipv4 / sctp", 202),
        ("eth type=0x1234", 100),
        ("eth / ipv4 proto=99", 100),
        ("eth / ipv4 / udp", 64),
    ]
    .map(|(packet, size)| form(packet, size).packet(0, Moment::default()))
    .into();
    let frames = Frames::new(&capture(&frames), &tagging(1)).expect("frames");
    let tagged: Vec<bool> = (0..5).map(|n| frames.tag_end(frames.sent(0, n)).is_some()).collect();
    assert_eq!(tagged, [false, false, false, false, true]);
    assert_eq!(frames.tagged(), 1);
}

#[test]
fn tags_are_numbered_lap_after_lap_without_gaps() {
    let (long, short) = (form("eth / ipv4 / udp", 90), form("eth / ipv4 / tcp", 64));
    let packets: Vec<Vec<u8>> = [&long, &short, &long, &short, &short]
        .map(|form| form.packet(0, Moment::default()))
        .into();
    let frames = Frames::new(&capture(&packets), &tagging(1)).expect("frames");
    let numbers: Vec<Option<u64>> = (0..7).map(|n| frames.tag_number(0, frames.sent(0, n))).collect();
    assert_eq!(numbers, [Some(0), None, Some(1), None, None, Some(2), None]);
    for (n, number) in numbers.iter().enumerate() {
        let Some(number) = number else { continue };
        let (one, other) = (frames.sent(0, n as u64), frames.with_tag(0, *number).expect("a tag"));
        assert_eq!((one.at, one.lap), (other.at, other.lap));
    }
    let none = Frames::new(&capture(&packets), &Preparation::default()).expect("frames");
    assert!(none.with_tag(0, 0).is_none());
}

#[test]
fn the_content_is_that_of_a_packet_whose_headers_a_router_or_a_translator_changed() {
    let made = |packet: &str| {
        let size = if packet.contains("vlan") { 304 } else { 300 };
        form(packet, size).packet(3, Moment::default())
    };
    for (one, other) in [
        (
            "eth / ipv4 id=9 / udp src=7",
            "eth src=02:00:00:00:00:09 / vlan vid=7 / ipv4 id=9 ttl=3 dst=1.2.3.4 / udp src=9",
        ),
        (
            "eth / ipv6 / tcp seq=9",
            "eth / ipv6 hop=3 dscp=7 src=2001:db8::9 / tcp seq=9 dst=1",
        ),
        ("eth / ipv4 / icmp seq=9", "eth / ipv4 / icmp ident=8 seq=9"),
        ("eth type=0x1234", "eth type=0x1234 dst=02:00:00:00:00:77"),
    ] {
        assert_eq!(content_of(&made(one)), content_of(&made(other)), "{one} / {other}");
    }
    let [one, other] = ["eth / ipv4 id=9 / udp", "eth / ipv4 id=10 / udp"].map(made);
    assert_ne!(content_of(&one), content_of(&other), "another packet");
    let mut changed = one.clone();
    *changed.last_mut().expect("a byte") ^= 1;
    assert_ne!(content_of(&one), content_of(&changed), "another payload");
}

#[test]
fn both_directions_of_a_flow_leave_by_one_lane_in_order_and_each_packet_by_one() {
    let there = form("eth / ipv4 src=10.0.0.1 dst=10.0.0.2 / udp src=1000*40 dst=53", 90);
    let back = form("eth / ipv4 src=10.0.0.2 dst=10.0.0.1 / udp src=53 dst=1000*40", 90);
    let packets: Vec<Vec<u8>> = (0..80)
        .flat_map(|n| [&there, &back].map(|form| form.packet(n, Moment::default())))
        .collect();
    let frames = Frames::new(&capture(&packets), &tagging(3)).expect("frames");
    assert_eq!(frames.lanes(), 3);
    let mut seen = vec![None; packets.len()];
    for lane in 0..3 {
        let own = frames.of_lane(lane, packets.len() as u64);
        let mut last = None;
        for n in 0..own {
            let sent = frames.sent(lane, n);
            let due = frames.due(sent);
            assert!(last < Some(due), "in order");
            last = Some(due);
            let at = (due.1 / 1_000_000) as usize;
            assert_eq!(seen[at].replace(lane), None);
        }
        assert_eq!(frames.due(frames.sent(lane, own)).0, 1, "the next lap");
    }
    // Packets 2n and 2n + 1 are both directions of flow n modulo 40.
    for (at, lane) in seen.iter().enumerate() {
        assert!(lane.is_some() && *lane == seen[at % 80 / 2 * 2], "packet {at}");
    }
    let of = |packets| (0..3).map(|lane| frames.of_lane(lane, packets)).sum::<u64>();
    assert_eq!([of(0), of(1), of(159), of(161), of(1000)], [0, 1, 159, 161, 1000]);
}

#[test]
fn changes_that_differ_by_lap_are_made_when_a_frame_is_written() {
    let frame = form("eth / ipv4 / udp src=2000 dst=53", 90).packet(0, Moment::default());
    let rewrite = Packet::parse("eth / vlan vid=7 / ipv4 dst=10.9.0.1..10.9.0.9").expect("a packet");
    let how = Preparation {
        rewrite: Rewrite::of(&rewrite, SEED).expect("changes").shift_ports(3),
        ..tagging(1)
    };
    let frames = Frames::new(&capture(std::slice::from_ref(&frame)), &how).expect("frames");
    assert_eq!(frames.lens(), [frame.len() + 4]);
    for lap in [0u16, 1, 4] {
        let sent = frames.sent(0, lap.into());
        let mut made = vec![0; frames.lens()[0]];
        assert_eq!(frames.write(sent, &mut made), frame.len() + 4);
        assert_eq!(made[34..38], [10, 9, 0, 1 + lap as u8]);
        assert_eq!(made[38..40], (2000 + 3 * lap).to_be_bytes());
        let end = frames.tag_end(sent).expect("room");
        Frames::write_tag(&mut made, end, &tag(lap.into()).bytes(SEED));
        let whole: [u8; TAG_LEN] = made[end - TAG_LEN..end].try_into().expect("16 bytes");
        assert!(frames.has_payload(sent, &made[..end - TAG_LEN], &whole));
    }
}

#[test]
fn tags_that_are_taken_off_and_fields_that_move_on_go_together() {
    let frame = form("eth / qinq vid=5 / vlan vid=6 / ipv4 / udp src=2000 dst=53", 98).packet(0, Moment::default());
    let rewrite = Packet::parse("eth / ipv4 src=10.0.0.1..10.0.0.9").expect("a packet");
    let how = Preparation {
        rewrite: Rewrite::of(&rewrite, SEED)
            .expect("changes")
            .tagging(mpps_traffic::Vlans::Replace),
        ..tagging(1)
    };
    let frames = Frames::new(&capture(std::slice::from_ref(&frame)), &how).expect("frames");
    assert_eq!(
        (frames.lens(), frames.longest_untagged()),
        (&[frame.len() - 8][..], frame.len() - 8)
    );
    for lap in [0u8, 3] {
        let (sent, mut made) = (frames.sent(0, lap.into()), vec![0; frames.lens()[0]]);
        assert_eq!(frames.write(sent, &mut made), frame.len() - 8);
        assert_eq!(made[12..14], [8, 0]);
        assert_eq!(made[26..30], [10, 0, 0, 1 + lap]);
        let end = frames.tag_end(sent).expect("room");
        Frames::write_tag(&mut made, end, &tag(lap.into()).bytes(SEED));
        let whole: [u8; TAG_LEN] = made[end - TAG_LEN..end].try_into().expect("16 bytes");
        assert!(frames.has_payload(sent, &made[..end - TAG_LEN], &whole));
    }
}

#[test]
fn short_frames_that_a_device_fills_up_have_the_same_content() {
    let frame = form("eth / arp", 64).packet(0, Moment::default());
    assert_eq!(content_of(&frame[..42]), content_of(&[&frame[..42], &[0; 18]].concat()));
}

#[test]
fn packets_that_were_cut_are_refused_or_filled_up() {
    let frame = form("eth / ipv4 / udp", 90).packet(0, Moment::default());
    let cut = capture_of(std::slice::from_ref(&frame), 10);
    let refused = Frames::new(&cut, &tagging(1)).expect_err("cut");
    let (captured, original) = (frame.len() - 10, frame.len() as u32);
    assert_eq!(
        refused,
        NotSent::Cut {
            number: 1,
            captured,
            original
        }
    );
    let how = Preparation {
        pad: true,
        ..tagging(1)
    };
    let frames = Frames::new(&cut, &how).expect("filled up");
    let mut made = vec![9; frame.len()];
    assert_eq!(frames.write(frames.sent(0, 0), &mut made), frame.len());
    assert_eq!(made[frame.len() - 10..], [0; 10]);
}
