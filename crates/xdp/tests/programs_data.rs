//! `drop` takes test packets whose data is what was sent, at every length, and no others.

#[path = "programs/mod.rs"]
mod programs;
#[allow(dead_code, unreachable_pub, reason = "a part is used")]
#[path = "../src/sys.rs"]
mod sys;

use mpps_wire::tagged::{payload_start, tag_of};
use mpps_wire::{Mark, TAG_LEN, Tag, fill_back, fill_data, verify_back};
use programs::abi::{self, flag};
use programs::{Constant, OWN_MAC, Object, Program, bytes_of, frames};
use std::sync::atomic::Ordering::Relaxed;

static DROP: Object<{ include_bytes!("../bpf/drop.bpf.o").len() }> = Object(*include_bytes!("../bpf/drop.bpf.o"));

const SEED: u64 = 77;
/// Sequence number and time.
const STAMP: usize = 16;

fn load(name: &str) -> Program {
    let mut plan = programs::plan();
    plan.flags = flag::STAMPED | flag::CHECK_DATA;
    plan.seed = SEED;
    (plan.window_words, plan.max_flows, plan.table) = (16, 4, 8);
    let (all, none) = (programs::port_bits(|_| true), programs::port_bits(|_| false));
    let constants = [
        Constant("PORTS", bytes_of(&all)),
        Constant("HOST_PORTS", bytes_of(&none)),
    ];
    let entries = [
        ("POLLS", 1),
        ("WINDOWS", 4 * 16),
        ("HISTOGRAMS", abi::OCTAVES as u32),
        ("TABLE", 8),
        ("FLOWS", 4),
        ("DOUBTS", 4),
    ];
    programs::load_sized(&DROP.0, &plan, &constants, name, &entries)
}

/// What a packet was counted as since the last call.
#[derive(Debug, PartialEq, Eq)]
enum Counted {
    Received,
    Corrupt,
    /// The host's.
    Left,
}

fn counted(program: &Program) -> Counted {
    let row = program.row();
    match (row.rx.swap(0, Relaxed), row.corrupt.swap(0, Relaxed)) {
        (1, 0) => Counted::Received,
        (0, 1) => Counted::Corrupt,
        (0, 0) => Counted::Left,
        other => panic!("received and corrupt: {other:?}"),
    }
}

#[test]
fn drop_takes_data_of_every_length_if_each_byte_is_what_was_sent() {
    if !programs::can_load() {
        return;
    }
    let program = load("drop");
    // One flow by IPv4, one by IPv6.
    for udp in [frames::udp_v4, |tags: &[u16], _: &[u8], payload: &[u8]| {
        frames::udp_v6(tags, &[], payload)
    }] {
        for (seq, length) in (STAMP..STAMP + 300).chain(1400..1473).chain(2900..2938).enumerate() {
            let mut payload = vec![0; length];
            payload[..8].copy_from_slice(&(seq as u64).to_le_bytes());
            fill_data(SEED, seq as u64, &mut payload[STAMP..]);
            let frame = |payload: &[u8]| {
                let mut frame = udp(&[], &[], payload);
                frame[..6].copy_from_slice(&OWN_MAC);
                frame
            };
            // With a right checksum only the data says that a packet is none of the test's; and the other way round.
            assert_eq!(program.run_often(&frame(&payload), 1), programs::DROP);
            assert_eq!(counted(&program), Counted::Received, "{length}");
            for at in (STAMP..length).filter(|at| length < 64 || (at + length) % 67 == 0 || at + 9 > length) {
                payload[at] ^= 1 << (at % 8);
                let other_data = frame(&payload);
                payload[at] ^= 1 << (at % 8);
                let mut other_sum = frame(&payload);
                let first = other_sum.len() - length;
                other_sum[first + at] ^= 1 << (at % 8);
                for other in [other_data, other_sum] {
                    assert_eq!(program.run_often(&other, 1), programs::DROP);
                    assert_eq!(counted(&program), Counted::Corrupt, "byte {at} of {length}");
                }
            }
        }
    }
}

/// Returns a frame of these headers and so much data, with a tag.
fn tagged(headers: &[u8], data: usize, number: u32) -> Vec<u8> {
    let tag = Tag {
        number,
        run: 3,
        flow: 5,
        time_ns: 0,
        mark: Mark::Sent,
    };
    let mut bytes = vec![0; data];
    fill_back(SEED, 5 << 32 | u64::from(number), &mut bytes);
    let mut frame = [headers, &bytes, &tag.bytes(SEED)].concat();
    let length = frame.len();
    let field = |ip: usize| match frame[ip] >> 4 {
        4 => (ip + 2, length - ip),
        _ => (ip + 4, length - ip - 40),
    };
    if let Some(ip) = mpps_wire::tagged::outer_ip(&frame) {
        let (at, counted) = field(ip);
        frame[at..at + 2].copy_from_slice(&(counted as u16).to_be_bytes());
    }
    frame
}

#[test]
fn drop_takes_tagged_packets_of_any_headers_if_each_byte_of_their_data_is_what_was_sent() {
    if !programs::can_load() {
        return;
    }
    let ip4 = |protocol| {
        [
            &[0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol][..],
            &[0; 2],
            &[10, 0, 0, 1],
            &[10, 0, 0, 2],
        ]
        .concat()
    };
    let ip6 = |next| [&[0x60, 0, 0, 0, 0, 0, next, 64][..], &[0xfd; 32]].concat();
    let udp = |port: u16| [&[4, 0][..], &port.to_be_bytes(), &[0; 4]].concat();
    let tcp = [&[1; 12][..], &[0x50; 8]].concat();
    let eth = |rest: &[u8]| [&OWN_MAC[..], &[2, 0, 0, 0, 9, 9], rest].concat();
    let stacks = [
        eth(&[&[8, 0][..], &ip4(17), &udp(9000)].concat()),
        eth(&[&[0x81, 0, 0, 5, 0x86, 0xdd][..], &ip6(6), &tcp].concat()),
        eth(&[
            &[8, 0][..],
            &ip4(17),
            &udp(4789),
            &[8, 0, 0, 0, 0, 0, 0, 0],
            &[2; 12],
            &[8, 0],
            &ip4(6),
            &tcp,
        ]
        .concat()),
        eth(&[0x88, 0xb5]),
    ];
    for headers in stacks {
        let program = load("drop_tagged");
        for (number, data) in (0..100).chain(1400..1450).chain(2800..2817).enumerate() {
            let number = number as u32;
            let mut frame = tagged(&headers, data, number);
            assert_eq!(program.run_often(&frame, 1), programs::DROP);
            assert_eq!(counted(&program), Counted::Received, "{data}");
            let first = headers.len();
            let tag_at = frame.len() - TAG_LEN;
            for at in (first..frame.len()).filter(|at| data < 40 || (at + data) % 67 == 0 || at + 26 > tag_at) {
                frame[at] ^= 1 << (at % 8);
                let wanted = match tag_of(&frame, SEED) {
                    None => Counted::Left,
                    Some(_) => match payload_start(&frame) {
                        Some(start)
                            if !verify_back(SEED, 5 << 32 | u64::from(number), &frame[..tag_at], tag_at - start) =>
                        {
                            Counted::Corrupt
                        }
                        // The same number again is a copy.
                        _ => Counted::Left,
                    },
                };
                let verdict = if at < tag_at { programs::DROP } else { programs::PASS };
                assert_eq!(program.run_often(&frame, 1), verdict, "byte {at} of {data}");
                assert_eq!(counted(&program), wanted, "byte {at} of {data} behind {first}");
                frame[at] ^= 1 << (at % 8);
            }
        }
        let others = program
            .source()
            .reasons
            .iter()
            .map(|reason| reason.load(Relaxed))
            .sum::<u64>();
        let not_tagged = program.source().reasons[14].load(Relaxed);
        assert!(
            not_tagged > 100 && program.row().expected.load(Relaxed) == 167,
            "{others} {not_tagged}"
        );
    }
}
