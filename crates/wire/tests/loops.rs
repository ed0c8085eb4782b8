//! No packet goes round for ever: not between two reflectors, and not between one and an echo server that gives each
//! answer a fresh time to live. And whoever only repeats himself is answered.

use mpps_wire::*;
use proptest::prelude::*;
use std::collections::VecDeque;

mod common;
use common::frames::*;

/// No packet may go round more often.
const MOST: usize = 255;

/// What a reflector makes of a frame, one of `weight` that came: as the engine does it.
fn answer(reflector: &mut Reflector<'_>, frame: &mut Vec<u8>, weight: u32) -> Result<bool, Left> {
    reflector.turn(frame, false)?;
    match reflector.look(frame, weight) {
        Look::Ordinary => Ok(false),
        Look::Withheld => Err(Left::Probed),
        Look::Probe(probe) => {
            let len = frame.len();
            frame.resize(len + PROBE_LEN, 0xee);
            let len = make_probe_in_place(frame, len, probe).expect("room");
            frame.truncate(len);
            Ok(true)
        }
    }
}

/// A socket's echo: ports and addresses exchanged, a fresh time to live.
fn echo(frame: &mut [u8], fresh: &[u8]) {
    let filter = ReflectFilter::default();
    reflect_in_place(frame, &filter, false).expect("a packet");
    let p = parse_udp(frame).expect("a packet");
    let l3 = usize::from(p.l3);
    if p.v6 {
        frame[l3 + 7] = 64;
    } else {
        frame[l3 + 8] = 64;
        frame[l3 + 10..l3 + 12].fill(0);
        let sum = naive_checksum(&[&frame[l3..usize::from(p.l4)]]);
        frame[l3 + 10..l3 + 12].copy_from_slice(&sum.to_be_bytes());
    }
    assert!(udp_checksum_ok(frame, &p) || fresh.is_empty());
}

proptest! {
    /// The header checksum stays right all the way down, whatever else is in the header.
    #[test]
    fn two_reflectors_that_face_each_other_stop(
        payload in prop::collection::vec(any::<u8>(), 0..100),
        tos: u8,
        ttl: u8,
        id: u16,
    ) {
        for (name, mut frame) in all_udp(&payload) {
            let p = parse_udp(&frame).unwrap();
            let l3 = usize::from(p.l3);
            if p.v6 {
                frame[l3 + 7] = ttl;
            } else {
                (frame[l3 + 1], frame[l3 + 8]) = (tos, ttl);
                frame[l3 + 4..l3 + 6].copy_from_slice(&id.to_be_bytes());
                frame[l3 + 10..l3 + 12].fill(0);
                let sum = naive_checksum(&[&frame[l3..usize::from(p.l4)]]);
                frame[l3 + 10..l3 + 12].copy_from_slice(&sum.to_be_bytes());
            }
            let filter = ReflectFilter::default();
            let mut ends = [Reflector::new(&filter, [1, 2]), Reflector::new(&filter, [3, 4])];
            for turn in 0..usize::from(ttl).saturating_sub(1) {
                prop_assert_eq!(ends[turn % 2].turn(&mut frame, false), Ok(()), "{} {}", name, turn);
                prop_assert!(parse_udp(&frame).is_ok());
            }
            let last = frame.clone();
            prop_assert_eq!(ends[0].turn(&mut frame, false), Err(Left::TtlExpired));
            prop_assert_eq!(frame, last);
        }
    }
}

/// Lets packets go round between a reflector and an echo server; how often the busiest went round before all stopped.
fn rounds(packets: Vec<Vec<u8>>, weight: u32) -> usize {
    let filter = ReflectFilter::default();
    let mut reflector = Reflector::new(&filter, [7, 9]);
    let mut way: VecDeque<(usize, Vec<u8>)> = packets.into_iter().map(|frame| (0, frame)).collect();
    let mut most = 0;
    while let Some((count, mut frame)) = way.pop_front() {
        most = most.max(count);
        assert!(count <= 10 * MOST, "for ever");
        if answer(&mut reflector, &mut frame, weight).is_ok() {
            echo(&mut frame, &[1]);
            way.push_back((count + 1, frame));
        }
    }
    most
}

#[test]
fn what_an_echo_server_returns_stops_for_one_packet_and_for_many_stamped_or_not() {
    for (i, (name, frame)) in all_udp(&[0; 18]).into_iter().enumerate() {
        assert!(rounds(vec![frame], 1) <= MOST, "{name} {i}");
    }
    for len in [0, 1, 5, 11, 12, 13, 16, 18, 700] {
        for n in [1, 2, 36, 1000] {
            let payload = vec![0x55; len];
            for make in [udp_v4(&[], &[], &payload), udp_v6(&[], &[], &payload)] {
                let most = rounds(vec![make; n], 1);
                assert!(most <= MOST, "{n} alike of {len} bytes: {most}");
            }
        }
    }
    for n in [1u64, 2, 36, 1000] {
        let stamped = |seq: u64| {
            let mut payload = [0; 18];
            payload[..8].copy_from_slice(&seq.to_le_bytes());
            udp_v4(&[], &[], &payload)
        };
        let most = rounds((0..n).map(stamped).collect(), 1);
        assert!(most <= MOST, "{n} stamped: {most}");
    }
}

#[test]
fn few_packets_do_not_push_each_other_out_of_what_has_been_seen() {
    // Too short for a probe in place of the first answer, so that each of them has to be found for itself.
    let short = |i: u8| udp_v4(&[], &[], &[i, 0, 3]);
    assert_eq!(rounds(vec![short(0)], 1), rounds((0..200).map(short).collect(), 1));
}

#[test]
fn one_that_repeats_itself_is_answered_but_for_a_few() {
    let filter = ReflectFilter::default();
    // Whoever waits for each answer looks as a loop does; so does the port of the reflector as a source.
    for (payload, lost) in [(vec![7; 18], 17), (Vec::new(), 34)] {
        let mut frame = udp_v4(&[], &[], &payload);
        frame[34..36].copy_from_slice(&DST_PORT.to_be_bytes());
        frame[40..42].fill(0);
        let mut reflector = Reflector::new(&filter, [7, 9]);
        let mut odd = 0;
        for _ in 0..1_000_000 {
            odd += usize::from(!matches!(answer(&mut reflector, &mut frame.clone(), 1), Ok(false)));
        }
        assert!(odd <= lost, "{odd}");
    }
    // A sender whose packets differ never sees one; nor does one whose packets a network doubles.
    let mut reflector = Reflector::new(&filter, [7, 9]);
    for seq in 0..300_000u64 {
        let mut payload = [0; 18];
        payload[..8].copy_from_slice(&(seq / 2).to_le_bytes());
        assert_eq!(answer(&mut reflector, &mut udp_v4(&[], &[], &payload), 32), Ok(false));
    }
}

#[test]
fn a_packet_that_goes_round_is_found_beside_other_traffic() {
    let filter = ReflectFilter::default();
    for others in [10u64, 1000, 5000] {
        let mut reflector = Reflector::new(&filter, [7, 9]);
        let (mut seq, mut rounds) = (0u64, 0);
        let mut frame = udp_v4(&[], &[], &[0x55; 18]);
        while answer(&mut reflector, &mut frame, 1).is_ok() {
            echo(&mut frame, &[1]);
            rounds += 1;
            assert!(rounds <= MOST, "{others} others a round");
            for _ in 0..others {
                let mut payload = [0; 18];
                payload[..8].copy_from_slice(&seq.to_le_bytes());
                let mut other = udp_v4(&[], &[], &payload);
                other[29] = 77;
                let sum = naive_checksum(&[&other[14..24], &other[26..34]]);
                other[24..26].copy_from_slice(&sum.to_be_bytes());
                let other = answer(&mut reflector, &mut other, 1);
                assert_eq!(other, Ok(false));
                seq += 1;
            }
        }
    }
}

#[test]
fn only_who_was_sent_a_probe_can_return_it() {
    let filter = ReflectFilter::default();
    let mut reflector = Reflector::new(&filter, [7, 9]);
    let ours = udp_v4(&[], &[], &[0x55; 18]);
    let mut probe = Vec::new();
    for _ in 0..40 {
        let mut frame = ours.clone();
        if answer(&mut reflector, &mut frame, 1) == Ok(true) {
            probe = frame;
        }
    }
    assert_eq!(parse_udp(&probe).unwrap().payload_len, PROBE_LEN as u16);
    assert!(probe.len() <= ours.len().max(60));
    echo(&mut probe, &[1]);
    // From another port it says nothing, and is answered like any other packet.
    let mut other = probe.clone();
    other[35] ^= 1;
    assert_eq!(reflector.turn(&mut other, false), Ok(()));
    assert_eq!(reflector.turn(&mut ours.clone(), false), Ok(()));
    assert_eq!(reflector.turn(&mut probe.clone(), false), Err(Left::Returned));
    // From then on nothing of that source is answered, and all of others, at the same address, too.
    let mut neighbour = ours.clone();
    neighbour[35] ^= 1;
    for _ in 0..200 {
        assert_eq!(reflector.turn(&mut ours.clone(), false), Err(Left::Returned));
        assert_eq!(reflector.turn(&mut neighbour.clone(), false), Ok(()));
    }
}

#[test]
fn what_comes_from_ourselves_from_everybody_or_from_within_a_host_is_left() {
    let (v4, v6) = (udp_v4(&[], &[], &[0; 18]), udp_v6(&[], &[], &[0; 18]));
    let filter = ReflectFilter {
        own: Box::new([[10, 99, 0, 77].into(), "fd00::77".parse().unwrap()]),
        broadcasts: Box::new([[10, 99, 0, 255].into(), [10, 99, 0, 0].into()]),
        ..ReflectFilter::default()
    };
    let within = ReflectFilter {
        loopback: true,
        ..filter.clone()
    };
    let changed = |from: [u8; 4], to: [u8; 4], port: u16| {
        let mut frame = v4.clone();
        frame[26..30].copy_from_slice(&from);
        frame[30..34].copy_from_slice(&to);
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        frame[24..26].fill(0);
        let sum = naive_checksum(&[&frame[14..34]]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    };
    let own = [10, 99, 0, 77];
    for (frame, want, inside) in [
        (changed([10, 99, 0, 1], own, 1), Ok(()), Ok(())),
        (changed(own, own, 1), Err(Left::OwnSource), Ok(())),
        (changed(own, own, DST_PORT), Err(Left::OwnSource), Err(Left::OwnSource)),
        (changed(own, [10, 99, 0, 2], 1), Err(Left::OwnSource), Ok(())),
        (
            changed([10, 99, 0, 255], own, 1),
            Err(Left::BadSource),
            Err(Left::BadSource),
        ),
        (
            changed([10, 99, 0, 1], [10, 99, 0, 255], 1),
            Err(Left::Multicast),
            Err(Left::Multicast),
        ),
        (changed([127, 0, 0, 5], own, 1), Err(Left::BadSource), Ok(())),
        (
            changed([10, 99, 0, 0], own, 1),
            Err(Left::BadSource),
            Err(Left::BadSource),
        ),
        (
            changed([0, 1, 2, 3], own, 1),
            Err(Left::BadSource),
            Err(Left::BadSource),
        ),
        (
            changed([240, 0, 0, 1], own, 1),
            Err(Left::BadSource),
            Err(Left::BadSource),
        ),
        (changed([127, 0, 0, 1], [127, 0, 0, 1], 1), Err(Left::OwnSource), Ok(())),
    ] {
        for (filter, want) in [(&filter, want), (&within, inside)] {
            // Twice: what is known of one must not let another through.
            let mut reflector = Reflector::new(filter, [1, 2]);
            for _ in 0..2 {
                assert_eq!(reflector.turn(&mut frame.clone(), false), want);
            }
        }
    }
    let mut loopback = v6.clone();
    loopback[22..38].copy_from_slice(&std::net::Ipv6Addr::LOCALHOST.octets());
    assert_eq!(reflect_in_place(&mut loopback, &filter, false), Err(Left::BadSource));
    let mut own = v6;
    own[22..38].copy_from_slice(&"fd00::77".parse::<std::net::Ipv6Addr>().unwrap().octets());
    assert_eq!(reflect_in_place(&mut own, &filter, false), Err(Left::OwnSource));
}

#[test]
fn a_sockets_peer_is_judged_by_the_same_rules() {
    let filter = ReflectFilter {
        own: Box::new([[10, 99, 0, 2].into()]),
        broadcasts: Box::new([[10, 99, 0, 255].into(), [10, 99, 0, 0].into()]),
        loopback: true,
        ..ReflectFilter::default()
    };
    for (peer, want) in [
        ("10.99.0.1:9000", Ok(())),
        ("10.99.0.2:9001", Ok(())),
        ("10.99.0.2:9000", Err(Left::OwnSource)),
        ("127.0.0.1:9000", Err(Left::OwnSource)),
        ("127.0.0.1:9001", Ok(())),
        ("[::ffff:127.0.0.1]:9000", Err(Left::OwnSource)),
        ("10.99.0.255:7", Err(Left::BadSource)),
        ("255.255.255.255:7", Err(Left::BadSource)),
        ("224.0.0.1:7", Err(Left::BadSource)),
        ("0.0.0.0:7", Err(Left::BadSource)),
        ("0.1.2.3:7", Err(Left::BadSource)),
        ("10.99.0.0:7", Err(Left::BadSource)),
        ("240.0.0.1:7", Err(Left::BadSource)),
        ("[::]:7", Err(Left::BadSource)),
        ("[ff02::1]:7", Err(Left::BadSource)),
        ("10.99.0.1:0", Err(Left::BadSource)),
    ] {
        assert_eq!(filter.check_peer(peer.parse().unwrap(), 9000), want, "{peer}");
    }
}
