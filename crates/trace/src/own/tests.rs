//! Recordings that are written and read back; other files, and damaged ones, are reported as errors.

use super::*;
use crate::{Caption, Event, LeftOut, Part, Sampling, Stage, Subject, TakerKind, Unit, ctf, perfetto, table};
use proptest::prelude::*;

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let one = (
        any::<u64>(),
        any::<u64>(),
        any::<[u32; 7]>(),
        any::<(u16, u16, u32, u32, u32)>(),
        0..4_u8,
    );
    let round = one.prop_map(
        |(at_ns, sent_before, parts, (rx, tx, polls, fill, late_ns), did)| Round {
            at_ns: at_ns >> 2,
            sent_before,
            parts: parts.map(|part| part >> 2),
            rx,
            tx,
            polls,
            fill,
            late_ns,
            did: [Did::Burst, Did::Polled, Did::Slept, Did::Spun][usize::from(did)],
        },
    );
    proptest::collection::vec(round, 0..50)
}

/// Any name: of a thread, a device, a function.
fn name() -> impl Strategy<Value = String> {
    proptest::collection::vec(any::<char>(), 0..6).prop_map(|chars| chars.into_iter().collect())
}

/// A number that JSON has.
fn number() -> impl Strategy<Value = f64> {
    use proptest::num::f64::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    NEGATIVE | NORMAL | POSITIVE | SUBNORMAL | ZERO
}

fn events() -> impl Strategy<Value = Vec<KernelEvent>> {
    let numbers = (any::<i32>(), any::<i32>(), any::<i64>(), any::<u32>(), any::<u64>());
    let one = (0..10_u8, numbers, name(), name(), any::<bool>()).prop_map(|(kind, (a, b, wide, c, ns), x, y, flag)| {
        let event = match kind {
            0 => Event::Switch {
                prev_tid: a,
                prev_comm: x,
                prev_state: wide,
                prev_prio: b,
                next_tid: c as i32,
                next_comm: y,
                next_prio: a,
            },
            1 => Event::Waking {
                tid: a,
                comm: x,
                target_cpu: c,
            },
            2 => Event::Irq {
                irq: c,
                name: x,
                took_ns: ns,
            },
            3 => Event::Softirq { vector: c, took_ns: ns },
            4 => Event::Vector { name: x, took_ns: ns },
            5 => Event::Signal { signal: a, tid: b },
            6 => Event::Drop(crate::Drop {
                reason: x.clone(),
                place: y,
                device: x,
                ours: flag,
                packets: c,
            }),
            7 => Event::SwitchedOut {
                tid: a,
                preempted: flag,
            },
            8 => Event::SwitchedIn { tid: a },
            _ => Event::Poll {
                device: x,
                work: c,
                budget: c / 2,
            },
        };
        KernelEvent {
            at_ns: ns,
            cpu: c % 5,
            event,
        }
    });
    proptest::collection::vec(one, 0..20)
}

fn samples() -> impl Strategy<Value = (Vec<Sample>, Vec<Frame>)> {
    let frame = (name(), name()).prop_map(|(name, module)| Frame { name, module });
    let frames = proptest::collection::vec(frame, 1..6);
    frames.prop_flat_map(|frames| {
        let stack = proptest::collection::vec(0..frames.len() as u32, 0..8);
        let sample = (any::<u64>(), 0..3_u32, any::<u32>(), stack).prop_map(|(at_ns, lane, cpu, stack)| Sample {
            at_ns,
            lane,
            cpu,
            stack,
        });
        (proptest::collection::vec(sample, 0..10), Just(frames))
    })
}

/// Any recording.
fn recordings() -> impl Strategy<Value = Recording> {
    let lane = (any::<u32>(), name(), any::<i32>(), any::<Option<u32>>(), rounds());
    let lanes = proptest::collection::vec(lane, 0..4);
    let points = proptest::collection::vec((any::<u64>(), number()), 0..5);
    let told = (name(), name(), any::<u64>(), number(), any::<Option<u32>>());
    (lanes, events(), samples(), points, told, any::<[u64; 7]>()).prop_map(
        |(lanes, kernel, (samples, frames), points, (text, other, count, share, lane), n)| {
            let mut recording = example(Vec::new());
            let lane_of = |(lane, name, tid, cpu, rounds)| LaneTrace {
                lane,
                name,
                tid,
                cpu,
                rounds,
            };
            let left_out = LeftOut {
                what: text.clone(),
                count,
                why: other.clone(),
            };
            recording.lanes = lanes.into_iter().map(lane_of).collect();
            recording.kernel = kernel;
            (recording.samples, recording.frames) = (samples, frames);
            recording.counters[0].points = points;
            recording.counters[0].lane = lane;
            (recording.stages[0].share, recording.stages[0].total_ns) = (share, n[0]);
            (recording.takers[0].total_ns, recording.takers[0].name) = (n[1], text.clone());
            (recording.causes[0].sentence, recording.causes[0].took_ns) = (other.clone(), n[2]);
            recording.meta = Meta {
                program: text.clone(),
                command: other.clone(),
                host: text,
                kernel: other,
                pid: n[3] as i32,
                utc_offset_ns: n[4] as i64,
                boot_offset_ns: n[5] as i64,
                steal_ns: (n[6] % 2 == 0).then_some(n[6]),
                start_ns: n[0],
                end_ns: n[1],
                whole: n[5] % 2 == 0,
                left_out: vec![left_out.clone()],
                cost: "some".to_owned(),
                sampling: Some(Sampling {
                    hz: n[2] as u32,
                    lanes: 3,
                    left_out: vec![left_out],
                    failed: lane.map(|lane| lane.to_string()),
                }),
            };
            recording
        },
    )
}

/// A recording with something in each of its parts.
pub(crate) fn example(rounds: Vec<Round>) -> Recording {
    let switch = |at_ns, prev: (i32, &str), next: (i32, &str)| KernelEvent {
        at_ns,
        cpu: 1,
        event: Event::Switch {
            prev_tid: prev.0,
            prev_comm: prev.1.to_owned(),
            prev_state: 0,
            prev_prio: 120,
            next_tid: next.0,
            next_comm: next.1.to_owned(),
            next_prio: 120,
        },
    };
    Recording {
        meta: Meta {
            program: "mpps 0.1.0".to_owned(),
            command: "mpps sendrecv loop".to_owned(),
            pid: 70,
            start_ns: 1_000_000,
            end_ns: 2_000_000,
            boot_offset_ns: 500,
            left_out: vec![LeftOut::default()],
            ..Meta::default()
        },
        lanes: vec![LaneTrace {
            lane: 0,
            name: "lane 0".to_owned(),
            tid: 77,
            cpu: Some(1),
            rounds,
        }],
        kernel: vec![
            switch(1_100_000, (77, "lane-0"), (99, "rustc")),
            switch(1_200_000, (99, "rustc"), (77, "lane-0")),
        ],
        samples: vec![Sample {
            at_ns: 1_050_000,
            lane: 0,
            cpu: 1,
            stack: vec![0, 1],
        }],
        frames: vec![
            Frame {
                name: "run".to_owned(),
                module: "mpps".to_owned(),
            },
            Frame {
                name: "udp_sendmsg".to_owned(),
                module: "[kernel]".to_owned(),
            },
        ],
        counters: vec![Counter {
            name: "sent".to_owned(),
            lane: Some(0),
            unit: Unit::Packets,
            points: vec![(1, 0.5)],
        }],
        programs: vec![ProgramRow {
            program: "receive".to_owned(),
            device: "veth1".to_owned(),
            runs: 1000,
            timed: 500,
            packets: 990,
            total_ns: 99_000,
            share: 0.099,
        }],
        stages: vec![StageRow {
            lane: 0,
            stage: Stage::Transmit,
            calls: 3,
            packets: 96,
            total_ns: 900,
            timed: 3,
            sd_ns: Some(5),
            p50_ns: 300,
            p99_ns: 310,
            max_ns: 310,
            share: 0.25,
        }],
        takers: vec![Taker {
            cpu: 1,
            lane: 0,
            kind: TakerKind::Thread,
            name: "rustc".to_owned(),
            tid: 99,
            count: 1,
            total_ns: 100_000,
            max_ns: 100_000,
            max_at_ns: 1_100_000,
        }],
        causes: vec![Cause {
            subject: Subject::Slow,
            at_ns: 1_100_000,
            took_ns: 100_000,
            lane: Some(0),
            packets: 32,
            sentence: "rustc had the core".to_owned(),
            parts: vec![Part {
                what: "rustc (99)".to_owned(),
                amount: 100_000,
            }],
        }],
    }
}

fn file(recording: &Recording) -> Vec<u8> {
    let mut bytes = Vec::new();
    perfetto::write(recording, &mut bytes).expect("memory takes it");
    bytes
}

proptest! {
    #[test]
    fn a_recording_is_read_back_as_it_was(recording in recordings()) {
        prop_assert_eq!(read(&file(&recording)), Ok(recording));
    }

    #[test]
    fn whatever_is_in_a_recording_it_can_be_shown(mut recording in recordings()) {
        // Each empty poll is an event of its own.
        recording.lanes.iter_mut().flat_map(|lane| &mut lane.rounds).for_each(|round| round.polls %= 1000);
        let (files, counts) = ctf::files(&recording);
        prop_assert_eq!(files.len() > 1, counts.by_trace().iter().any(|(_, events)| *events > 0));
        prop_assert!(table::stages(&recording.stages).lines().count() <= 2);
        let _ = (table::takers(&recording.takers), table::compare(&recording, &example(vec![])));
        let _ = (crate::over_time::text(&recording), crate::tree::stages(&recording));
        let _ = crate::tree::calls(&recording, &recording.samples);
        let folded = crate::folded(&recording.samples, &recording.frames);
        let counted = folded.lines().filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok());
        prop_assert_eq!(counted.sum::<usize>(), recording.samples.len());
        let caption = Caption::of_run("mpps", &recording.samples, &Sampling::default());
        prop_assert!(crate::flame_svg(&recording.samples, &recording.frames, &caption).ends_with("</svg>\n"));
    }

    #[test]
    fn a_file_that_was_cut_or_changed_is_told_or_read_and_never_a_panic(rounds in rounds(), at: usize, with: u8) {
        let mut bytes = file(&example(rounds));
        let at = at % bytes.len();
        let _ = read(&bytes[..at]);
        bytes[at] ^= with;
        let _ = read(&bytes);
    }

    #[test]
    fn any_bytes_are_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&bytes);
    }
}

#[test]
fn other_files_are_told_from_damaged_ones_and_newer_ones() {
    assert_eq!(read(b"{}"), Err(NotATrace::Foreign));
    assert_eq!(read(b""), Err(NotATrace::Foreign));
    let bytes = file(&example(vec![]));
    assert_eq!(
        read(&bytes[..bytes.len() - 1]),
        Err(NotATrace::Damaged("it ends too early"))
    );
    let newer = String::from_utf8_lossy(&bytes).find(SCHEMA).expect("its schema");
    let place = bytes
        .windows(SCHEMA.len())
        .position(|w| w == SCHEMA.as_bytes())
        .unwrap_or(newer);
    let mut bytes = bytes;
    bytes[place + SCHEMA.len() - 1] = b'7';
    assert_eq!(read(&bytes), Err(NotATrace::Schema("mpps.trace/7".to_owned())));
}

/// Returns a packet with an unknown field of this length.
fn stuffing(length: u64) -> (Vec<u8>, u64) {
    let mut field = Vec::new();
    put_varint(&mut field, 5 << 3 | u64::from(LENGTH));
    put_varint(&mut field, length);
    let mut head = Vec::new();
    put_varint(&mut head, FIRST_FIELD_OF_DATA);
    put_varint(&mut head, field.len() as u64 + length);
    head.extend(field);
    (head, length)
}

#[test]
fn what_is_not_the_recording_s_takes_no_memory() {
    let (head, length) = stuffing(64 << 20);
    let recording = example(vec![Round::default(); 100]);
    let bytes = file(&recording);
    let input = head.chain(std::io::repeat(7).take(length)).chain(&bytes[..]);
    let told = read_from(&mut std::io::BufReader::new(input), 1 << 20);
    assert_eq!(told.expect("memory is read"), Ok(recording));
    // Nor does what never ends, and is no packet.
    for byte in [0, 7, 0x0a, 0xff] {
        let told = read_from(&mut std::io::BufReader::new(std::io::repeat(byte)), 1 << 20);
        assert!(told.expect("it is read").is_err(), "{byte}");
    }
}

#[test]
fn a_recording_that_takes_more_memory_than_there_is_is_told() {
    let bytes = file(&example(vec![Round::default(); 100_000]));
    let of = |most| read_from(&mut &bytes[..], most).expect("memory is read");
    assert_eq!(of(2 << 20), Err(NotATrace::TooLarge(2)));
    assert!(of(8 << 20).is_ok());
    // The lengths of parts are a stranger's.
    for kind in [HEAD, ROUNDS] {
        let mut bytes = if kind == HEAD {
            Vec::new()
        } else {
            file(&example(vec![]))
        };
        let (mut part, length) = (Vec::new(), 1 << 40);
        put_varint(&mut part, u64::from(OWN_PART));
        put_varint(&mut part, length);
        part.push(kind);
        put_varint(&mut bytes, FIRST_FIELD_OF_DATA);
        put_varint(&mut bytes, part.len() as u64 - 1 + length);
        let whole = bytes.chain(&part[..]).chain(std::io::repeat(b' '));
        let told = read_from(&mut std::io::BufReader::new(whole), 1 << 20);
        assert!(told.expect("it is read").is_err(), "{kind}");
    }
}
