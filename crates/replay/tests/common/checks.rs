//! Checks that hold for any bytes.

use mpps_replay::{
    Capture, Error, Facts, Frames, LARGEST, Matcher, NotRewritten, NotSent, Preparation, Reader, Rewrite,
};
use mpps_replay::{Selection, TAGGED, content_of, footprint};
use mpps_traffic::Packet;
use mpps_traffic::Vlans;
use mpps_wire::tagged::tag_of;
use mpps_wire::{Mark, TAG_LEN, Tag};
use std::io::Read;

/// Packet as it was read: its bytes, its original length, its due time.
pub type Kept = (Vec<u8>, u32, u64);

/// Room for what tests read, bytes.
pub const ROOM: u64 = 1 << 30;

/// Reads all that can be read.
pub fn read(file: impl Read, selection: &Selection) -> (Vec<Kept>, Facts, Option<Error>) {
    let mut kept = Vec::new();
    let mut reader = match Reader::new(file, selection.clone()) {
        Ok(reader) => reader,
        Err(error) => return (kept, Facts::default(), Some(error)),
    };
    let error = loop {
        match reader.next_packet() {
            Ok(Some(packet)) => kept.push((packet.bytes.to_vec(), packet.original_len, packet.due_ns)),
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    assert!(matches!(reader.next_packet(), Ok(None)), "nothing follows the end");
    (kept, reader.facts(), error)
}

/// Any bytes are read without a panic; packets are within their bounds and in order; the capture in memory has the same
/// packets and the same fault, however it was read; what was found says so.
pub fn capture_holds(bytes: &[u8]) {
    let all = Selection::default();
    let (kept, facts, error) = read(bytes, &all);
    assert_eq!(facts.packets, kept.len() as u64);
    assert_eq!(facts.read, facts.packets);
    assert_eq!(
        facts.bytes,
        kept.iter().map(|packet| packet.0.len() as u64).sum::<u64>()
    );
    let snapped = |packet: &&Kept| packet.0.len() < packet.1 as usize;
    assert_eq!(facts.snapped, kept.iter().filter(snapped).count() as u64);
    let first = kept.iter().position(|packet| snapped(&packet)).map(|at| at as u64 + 1);
    assert_eq!(facts.first_snapped, first);
    assert!(kept.is_sorted_by_key(|packet| packet.2));
    assert!(
        kept.iter()
            .all(|packet| packet.0.len() <= LARGEST as usize && packet.0.len() <= packet.1 as usize)
    );
    assert_eq!(facts.span_ns, kept.last().map_or(0, |packet| packet.2));
    if let Some(error) = &error {
        assert_eq!(error.packet, kept.len() as u64 + 1);
        let line = error.to_string();
        assert!(!line.is_empty() && !line.contains('\n'), "{line}");
    }
    let Ok(capture) = Capture::read(bytes, &all, ROOM) else {
        assert!(error.is_some() && kept.is_empty());
        return;
    };
    let same = capture
        .packets()
        .map(|packet| (packet.bytes, packet.original_len, packet.due_ns));
    let want = kept.iter().map(|packet| (&packet.0[..], packet.1, packet.2));
    assert!(same.eq(want));
    assert_eq!(capture.facts(), facts);
    assert_eq!(
        capture.fault().map(Error::to_string),
        error.as_ref().map(Error::to_string)
    );
    assert_eq!(footprint(facts.packets, facts.bytes), facts.bytes + 16 * facts.packets);
}

/// Texts of headers that packets may have.
const TEXTS: [&str; 6] = [
    "eth / vlan / ipv4 src=10.0.0.0/8 ttl=1..9 / udp dst=src",
    "eth / mpls / mpls / ipv6 / hopopts / frag / tcp mss=1460",
    "eth / ipv4 / gre key=1..9 / eth / qinq / arp",
    "eth / ipv4 / udp / gtpu qfi=3 / ipv6 / srh / icmp6",
    "eth / ipv4 / udp / geneve / ipv4 / tcp sackok wscale=7",
    "eth / pppoe / ipv4 / sctp tsn=7 / payload @3:2=9",
];

/// Any packets are tested against texts and changed without a panic: what a change says of the length is true, and
/// frames that can't be changed are as they were.
pub fn frames_hold(bytes: &[u8]) {
    let packet = |text: &str| Packet::parse(text).expect(text);
    let matchers = TEXTS.map(|text| Matcher::of(&packet(text)).expect(text));
    let rewrites = [
        (
            "eth dst=src / vlan vid=1..9 / ipv4 src=dst ttl=ipv4.ttl-1 / udp src=dst+1",
            Vlans::Set,
        ),
        (
            "eth / qinq vid=7 / vlan / ipv6 src=random(fd00::/8) hop=7 / tcp dst=1..9",
            Vlans::Push,
        ),
        ("eth src=02:00:00:00:00:07 / ipv6 dst=src / udp dst=7", Vlans::Replace),
    ];
    let rewrites = rewrites.map(|(text, tagging)| {
        let rewrite = Rewrite::of(&packet(text), 7).expect(text);
        rewrite.tagging(tagging).shift_ports(9)
    });
    for (lap, (frame, ..)) in (0..).zip(read(bytes, &Selection::default()).0) {
        for matcher in &matchers {
            matcher.matches(&frame);
        }
        for rewrite in &rewrites {
            let mut changed = frame.clone();
            changed.resize(frame.len() + rewrite.growth(), 0);
            match rewrite.apply(&mut changed, frame.len(), lap) {
                Ok(len) => assert!((14..=changed.len()).contains(&len)),
                Err(NotRewritten::Short) => assert!(frame.len() < 14 && changed.starts_with(&frame)),
                Err(refused) => panic!("{refused}"),
            }
        }
    }
}

/// Laps that are looked at: the first ones, and those at the end of what a lane counts.
const LAPS: [u64; 4] = [0, 1, 65_535, 1 << 40];

/// Frames of any capture, prepared in any way, are written without a panic in room for the longest. They have the
/// length that was said; a tag is found again, by its number and by the payload in front of it; each frame leaves by
/// one lane.
pub fn sent_hold(capture: &Capture, how: &Preparation) {
    const SEED: u64 = 7;
    let frames = match Frames::new(capture, how) {
        Ok(frames) => frames,
        Err(refused) => {
            let line = refused.to_string();
            assert!(!line.is_empty() && !line.contains('\n'), "{line}");
            assert!(!matches!(refused, NotSent::Cut { .. }) || !how.pad);
            return;
        }
    };
    let all = frames.len() as u64;
    assert_eq!(all, capture.len() as u64);
    assert!((1..=how.lanes.max(1)).contains(&frames.lanes()));
    let longest = frames.lens().last().copied().expect("a frame");
    let mut room = vec![0xee; longest];
    let (mut seen, mut tagged) = (0, 0);
    for lane in 0..frames.lanes() {
        let own = frames.of_lane(lane, all);
        assert!(own > 0, "a lane without frames");
        seen += own;
        for n in 0..own {
            for lap in LAPS {
                let sent = frames.sent(lane, lap * own + n);
                assert_eq!((sent.lap, frames.due(sent).0), (lap, lap));
                let len = frames.write(sent, &mut room);
                assert_eq!(len, frames.lens()[frames.size(sent)]);
                let frame = &mut room[..len];
                content_of(frame);
                if lap == 0 {
                    assert_eq!(frames.first_lap(sent.at as usize), frame);
                }
                let number = frames.tag_number(lane, sent);
                let Some((number, end)) = number.zip(frames.tag_end(sent)) else {
                    assert_eq!((number, frames.tag_end(sent)), (None, None));
                    continue;
                };
                tagged += u64::from(lap == 0);
                let same = frames.with_tag(lane, number).expect("a tag");
                assert_eq!((same.at, same.lap), (sent.at, sent.lap));
                let before = frame.to_vec();
                let tag = Tag {
                    number: number as u32,
                    run: 3,
                    flow: lane as u32,
                    time_ns: 9,
                    mark: Mark::Sent,
                };
                Frames::write_tag(frame, end, &tag.bytes(SEED));
                assert_eq!(frame[..end - TAGGED], before[..end - TAGGED]);
                assert_eq!(frame[end..], before[end..]);
                let whole: [u8; TAG_LEN] = frame[end - TAG_LEN..end].try_into().expect("16 bytes");
                assert!(frames.has_payload(sent, &frame[..end - TAG_LEN], &whole));
                // Of another frame, or of less.
                for cut in 0..end.min(40) {
                    frames.has_payload(same, &frame[..cut], &whole);
                }
                // Lengths that vary by lap move what a receiver takes for the end.
                if lap == 0 {
                    assert_eq!(
                        tag_of(frame, SEED).map(|(tag, at)| (tag.number, at)),
                        Some((number as u32, end))
                    );
                }
            }
        }
    }
    assert_eq!((seen, tagged), (all, frames.tagged()));
}
