//! The recording itself, as it goes along in a trace file, and its reader.
//!
//! A part is a byte that says what it is, and its content: JSON for what is small or has names, numbers of variable
//! length for the records of lanes, each as the difference from the one before.

use crate::perfetto::OWN_FIELD;
use crate::proto::{Reader, Value, put_signed, put_varint};
use crate::{
    Cause, Counter, Did, Frame, KernelEvent, LaneTrace, Meta, ProgramRow, Recording, Round, Sample, StageRow, Taker,
};
use serde::{Deserialize, Serialize};

/// What files of this form are called.
pub const SCHEMA: &str = "mpps.trace/1";

const HEAD: u8 = 0;
const ROUNDS: u8 = 1;
const KERNEL: u8 = 2;
const SAMPLES: u8 = 3;

/// Records, events or samples of a part, at the most.
const PART: usize = 4096;
/// Lanes of a recording, at the most: a lane's number is its place.
const MAX_LANES: usize = 4096;

/// A file that holds no recording, or only a part of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotATrace {
    /// It is no trace at all, or another program's.
    #[error("it is no trace of mpps: it has no part of schema {SCHEMA}")]
    Foreign,
    /// It is one of a newer version.
    #[error("its schema is {0}, this version reads {SCHEMA}")]
    Schema(String),
    /// It ends too early, or was changed.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Head {
    schema: String,
    meta: Meta,
    lanes: Vec<LaneHead>,
    frames: Vec<Frame>,
    counters: Vec<Counter>,
    stages: Vec<StageRow>,
    /// Files of earlier versions have none.
    #[serde(default)]
    programs: Vec<ProgramRow>,
    takers: Vec<Taker>,
    causes: Vec<Cause>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct LaneHead {
    lane: u32,
    name: String,
    tid: i32,
    cpu: Option<u32>,
}

/// The parts of a recording, the head first.
pub(crate) fn parts(recording: &Recording) -> impl Iterator<Item = Vec<u8>> {
    let head = Head {
        schema: SCHEMA.to_owned(),
        meta: recording.meta.clone(),
        lanes: recording.lanes.iter().map(LaneHead::of).collect(),
        frames: recording.frames.clone(),
        counters: recording.counters.clone(),
        stages: recording.stages.clone(),
        programs: recording.programs.clone(),
        takers: recording.takers.clone(),
        causes: recording.causes.clone(),
    };
    let rounds = recording.lanes.iter().enumerate();
    let rounds = rounds.flat_map(|(place, lane)| lane.rounds.chunks(PART).map(move |part| rounds_part(place, part)));
    [json(HEAD, &head)]
        .into_iter()
        .chain(rounds)
        .chain(recording.kernel.chunks(PART).map(|part| json(KERNEL, &part)))
        .chain(recording.samples.chunks(PART).map(|part| json(SAMPLES, &part)))
}

impl LaneHead {
    fn of(lane: &LaneTrace) -> Self {
        Self {
            lane: lane.lane,
            name: lane.name.clone(),
            tid: lane.tid,
            cpu: lane.cpu,
        }
    }
}

fn json(kind: u8, content: &impl Serialize) -> Vec<u8> {
    let mut bytes = vec![kind];
    // Plain data with names as keys: it can't fail but by memory. Numbers that JSON lacks become null, and are read
    // as damage.
    let _ = serde_json::to_writer(&mut bytes, content);
    bytes
}

fn rounds_part(place: usize, rounds: &[Round]) -> Vec<u8> {
    let mut bytes = vec![ROUNDS];
    put_varint(&mut bytes, place as u64);
    put_varint(&mut bytes, rounds.len() as u64);
    let (mut at, mut sent) = (0, 0);
    for round in rounds {
        put_signed(&mut bytes, round.at_ns.wrapping_sub(at) as i64);
        put_signed(&mut bytes, round.sent_before.wrapping_sub(sent) as i64);
        (at, sent) = (round.at_ns, round.sent_before);
        let did = match round.did {
            Did::Burst => 0,
            Did::Polled => 1,
            Did::Slept => 2,
            Did::Spun => 3,
        };
        bytes.push(did);
        // What is not known is the most common fill, and lateness of nothing: wrapped round they are one byte.
        let wrapped = [round.fill, round.late_ns].map(|value| value.wrapping_add(1));
        let rest = [round.rx.into(), round.tx.into(), round.polls];
        for value in round.parts.into_iter().chain(rest).chain(wrapped) {
            put_varint(&mut bytes, value.into());
        }
    }
    bytes
}

/// Reads a trace file (not compressed) back.
///
/// # Errors
/// [`NotATrace`]; whatever the bytes are, it never panics.
pub fn read(bytes: &[u8]) -> Result<Recording, NotATrace> {
    let damaged = NotATrace::Damaged;
    let mut recording: Option<Recording> = None;
    let mut packets = Reader::new(bytes);
    while !packets.is_empty() {
        let (1, Value::Data(packet)) = packets.field().ok_or_else(|| cut(recording.is_some()))? else {
            return Err(cut(recording.is_some()));
        };
        let mut fields = Reader::new(packet);
        while !fields.is_empty() {
            let (field, value) = fields.field().ok_or(damaged("a packet ends too early"))?;
            let (OWN_FIELD, Value::Data(part)) = (field, value) else {
                continue;
            };
            let (&kind, content) = part.split_first().ok_or(damaged("an empty part"))?;
            match (kind, &mut recording) {
                (HEAD, None) => recording = Some(head(content)?),
                (ROUNDS, Some(recording)) => {
                    add_rounds(content, recording).ok_or(damaged("the records of a lane"))?;
                }
                (KERNEL, Some(recording)) => {
                    let events: Vec<KernelEvent> =
                        serde_json::from_slice(content).map_err(|_| damaged("the kernel's events"))?;
                    recording.kernel.extend(events);
                }
                (SAMPLES, Some(recording)) => {
                    let samples: Vec<Sample> = serde_json::from_slice(content).map_err(|_| damaged("the samples"))?;
                    let known = recording.frames.len();
                    if samples
                        .iter()
                        .flat_map(|sample| &sample.stack)
                        .any(|&frame| frame as usize >= known)
                    {
                        return Err(damaged("a sample names a place that is not there"));
                    }
                    recording.samples.extend(samples);
                }
                (HEAD, Some(_)) => return Err(damaged("two heads")),
                (_, None) => return Err(damaged("a part before the head")),
                // A later version's.
                _ => {}
            }
        }
    }
    recording.ok_or(NotATrace::Foreign)
}

fn cut(begun: bool) -> NotATrace {
    match begun {
        true => NotATrace::Damaged("it ends too early"),
        false => NotATrace::Foreign,
    }
}

fn head(content: &[u8]) -> Result<Recording, NotATrace> {
    #[derive(Deserialize)]
    struct Named {
        schema: String,
    }
    let named: Named = serde_json::from_slice(content).map_err(|_| NotATrace::Damaged("its head"))?;
    if named.schema != SCHEMA {
        // What a stranger's file says goes to a terminal.
        let plain = named.schema.chars().filter(|c| c.is_ascii_graphic()).take(40).collect();
        return Err(NotATrace::Schema(plain));
    }
    let head: Head = serde_json::from_slice(content).map_err(|_| NotATrace::Damaged("its head"))?;
    if head.lanes.len() > MAX_LANES {
        return Err(NotATrace::Damaged("too many lanes"));
    }
    let lane = |head: LaneHead| LaneTrace {
        lane: head.lane,
        name: head.name,
        tid: head.tid,
        cpu: head.cpu,
        rounds: Vec::new(),
    };
    Ok(Recording {
        meta: head.meta,
        lanes: head.lanes.into_iter().map(lane).collect(),
        frames: head.frames,
        counters: head.counters,
        stages: head.stages,
        programs: head.programs,
        takers: head.takers,
        causes: head.causes,
        ..Recording::default()
    })
}

fn add_rounds(content: &[u8], recording: &mut Recording) -> Option<()> {
    let mut reader = Reader::new(content);
    let place = usize::try_from(reader.varint()?).ok()?;
    let lane = recording.lanes.get_mut(place)?;
    let count = reader.varint()?;
    let (mut at, mut sent) = (0_u64, 0_u64);
    for _ in 0..count {
        at = at.wrapping_add(reader.signed()? as u64);
        sent = sent.wrapping_add(reader.signed()? as u64);
        let did = match reader.bytes(1)? {
            [0] => Did::Burst,
            [1] => Did::Polled,
            [2] => Did::Slept,
            [3] => Did::Spun,
            _ => return None,
        };
        let mut number = || u32::try_from(reader.varint()?).ok();
        let mut parts = [0; 7];
        for part in &mut parts {
            *part = number()?;
        }
        let [rx, tx] = [number()?, number()?].map(|value| u16::try_from(value).ok());
        let (polls, fill, late_ns) = (number()?, number()?, number()?);
        lane.rounds.push(Round {
            at_ns: at,
            sent_before: sent,
            parts,
            rx: rx?,
            tx: tx?,
            polls,
            fill: fill.wrapping_sub(1),
            late_ns: late_ns.wrapping_sub(1),
            did,
        });
    }
    reader.is_empty().then_some(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Event, LeftOut, Part, Stage, Subject, TakerKind, Unit, perfetto};
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
        fn a_recording_is_read_back_as_it_was(rounds in rounds()) {
            let recording = example(rounds);
            prop_assert_eq!(read(&file(&recording)), Ok(recording));
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
}
