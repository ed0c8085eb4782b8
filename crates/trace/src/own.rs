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
pub(crate) mod tests;
