//! `drop` takes test packets whose data is what was sent, at every length, and no others.

#[path = "programs/mod.rs"]
mod programs;
#[allow(dead_code, unreachable_pub, reason = "a part is used")]
#[path = "../src/sys.rs"]
mod sys;

use mpps_wire::fill_data;
use programs::abi::{self, flag};
use programs::{Constant, OWN_MAC, Object, Program, bytes_of, frames};
use std::sync::atomic::Ordering::Relaxed;

static DROP: Object<{ include_bytes!("../bpf/drop.bpf.o").len() }> = Object(*include_bytes!("../bpf/drop.bpf.o"));

const SEED: u64 = 77;
/// Sequence number and time.
const STAMP: usize = 16;

fn load() -> Program {
    let mut plan = programs::plan();
    plan.flags = flag::STAMPED | flag::CHECK_DATA;
    plan.seed = SEED;
    (plan.window_words, plan.max_flows, plan.table) = (16, 2, 4);
    let (all, none) = (programs::port_bits(|_| true), programs::port_bits(|_| false));
    let constants = [
        Constant("PORTS", bytes_of(&all)),
        Constant("HOST_PORTS", bytes_of(&none)),
    ];
    let entries = [
        ("POLLS", 1),
        ("WINDOWS", 2 * 16),
        ("HISTOGRAMS", abi::OCTAVES as u32),
        ("TABLE", 4),
        ("FLOWS", 2),
        ("DOUBTS", 2),
    ];
    programs::load_sized(&DROP.0, &plan, &constants, "drop", &entries)
}

/// What a packet was counted as since the last call.
#[derive(Debug, PartialEq, Eq)]
enum Counted {
    Received,
    Corrupt,
}

fn counted(program: &Program) -> Counted {
    let row = program.row();
    match (row.rx.swap(0, Relaxed), row.corrupt.swap(0, Relaxed)) {
        (1, 0) => Counted::Received,
        (0, 1) => Counted::Corrupt,
        other => panic!("received and corrupt: {other:?}"),
    }
}

#[test]
fn drop_takes_data_of_every_length_if_each_byte_is_what_was_sent() {
    if !programs::can_load() {
        return;
    }
    let program = load();
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
