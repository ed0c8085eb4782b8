//! Writer and reader of the recording itself, which is included in a trace file.
//!
//! A part is a byte for its kind, and its content: JSON for small data and data with names, numbers of variable length
//! for the records of lanes. Each number there is the difference from the record before.

use crate::perfetto::OWN_FIELD;
use crate::proto::{FIXED32, FIXED64, LENGTH, Reader, VARINT, put_signed, put_varint};
use crate::{
    Cause, Counter, Did, Frame, KernelEvent, LaneTrace, Meta, ProgramRow, Recording, Round, Sample, StageRow, Taker,
};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read};

/// Name of this file format.
pub const SCHEMA: &str = "mpps.trace/1";

const HEAD: u8 = 0;
const ROUNDS: u8 = 1;
const KERNEL: u8 = 2;
const SAMPLES: u8 = 3;

/// Most records, events or samples of a part.
const PART: usize = 4096;
/// Longest part after the head that is read, bytes: names such as a kernel's are short.
const LONGEST_PART: u64 = 64 << 20;
/// Memory that a byte of the head takes, about: texts are shorter there, numbers are longer.
const HEAD_IN_MEMORY: u64 = 4;
/// Most lanes of a recording: a lane's number is its place.
const MAX_LANES: usize = 4096;

/// Reason why a file has no recording, or only a part of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotATrace {
    /// The file is not a trace, or is a trace of another program.
    #[error("it is no trace of mpps: it has no part of schema {SCHEMA}")]
    Foreign,
    /// The file is of a newer version.
    #[error("its schema is {0}, this version reads {SCHEMA}")]
    Schema(String),
    /// The recording needs more memory than this limit, MiB.
    #[error("it holds more than {0} MiB of memory can take: want a host with more, or a run with less --trace-memory")]
    TooLarge(u64),
    /// The file ends too early, or was changed.
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
    /// Programs in the kernel; files of earlier versions have none.
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

/// Returns the parts of a recording, the head first.
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
    // Plain data with names as keys: writing can only fail for lack of memory. Numbers that JSON lacks become null, and
    // are read as damage.
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
        // An unknown fill (`u32::MAX`) is the most common one. Wrapped round it takes one byte, and so does a lateness
        // of 0.
        let wrapped = [round.fill, round.late_ns].map(|value| value.wrapping_add(1));
        let rest = [round.rx.into(), round.tx.into(), round.polls];
        for value in round.parts.into_iter().chain(rest).chain(wrapped) {
            put_varint(&mut bytes, value.into());
        }
    }
    bytes
}

/// Reads back a trace file (not compressed).
///
/// # Errors
/// [`NotATrace`]; reading never panics, whatever the bytes are.
pub fn read(mut bytes: &[u8]) -> Result<Recording, NotATrace> {
    // Reading from memory does not fail.
    read_from(&mut bytes, u64::MAX).unwrap_or(Err(NotATrace::Foreign))
}

/// Reads a trace file (not compressed) piece by piece. Only the recording takes memory, at most about `most` bytes.
/// Data for viewers, and other data in a file of unknown origin, take no memory, however long they are.
///
/// # Errors
/// Errors of `input`; then as [`read`].
pub fn read_from(input: &mut impl BufRead, most: u64) -> io::Result<Result<Recording, NotATrace>> {
    let mut assembly = Assembly::new(most);
    let mut file = Input { input };
    loop {
        match packet(&mut file, &mut assembly) {
            Ok(true) => {}
            Ok(false) => return Ok(assembly.recording.ok_or(NotATrace::Foreign)),
            Err(Stop::Io(error)) => return Err(error),
            Err(Stop::Short) => return Ok(Err(assembly.cut())),
            Err(Stop::Not(why)) => return Ok(Err(why)),
        }
    }
}

/// Reason why a file is not read any further.
enum Stop {
    /// The file can't be read.
    Io(io::Error),
    /// The file ends too early.
    Short,
    /// The file is not a trace.
    Not(NotATrace),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<NotATrace> for Stop {
    fn from(why: NotATrace) -> Self {
        Self::Not(why)
    }
}

/// Reads a packet; returns `false` at the end of the file.
fn packet(file: &mut Input<'_, impl BufRead>, assembly: &mut Assembly) -> Result<bool, Stop> {
    if file.is_over()? {
        return Ok(false);
    }
    // A trace consists of packets only.
    let mut left = u64::MAX;
    if file.varint(&mut left)? != Some(FIRST_FIELD_OF_DATA) {
        return Err(assembly.cut().into());
    }
    let early = || Stop::Not(NotATrace::Damaged("a packet ends too early"));
    let mut left = file.varint(&mut left)?.ok_or_else(early)?;
    while left > 0 {
        let tag = file.varint(&mut left)?.ok_or_else(early)?;
        // There is no field 0: the content of a decompression bomb ends here.
        let tag = u32::try_from(tag).ok().filter(|tag| tag >> 3 != 0).ok_or_else(early)?;
        let length = match tag & 7 {
            VARINT => {
                file.varint(&mut left)?.ok_or_else(early)?;
                continue;
            }
            FIXED64 => 8,
            LENGTH => file.varint(&mut left)?.ok_or_else(early)?,
            FIXED32 => 4,
            _ => return Err(early()),
        };
        left = left.checked_sub(length).ok_or_else(early)?;
        match tag {
            OWN_PART => assembly.part(file, length)?,
            _ => file.skip(length)?,
        }
    }
    Ok(true)
}

/// Tag of a trace's packets, and tag of our parts in them.
const FIRST_FIELD_OF_DATA: u64 = 1 << 3 | LENGTH as u64;
const OWN_PART: u32 = OWN_FIELD << 3 | LENGTH;

/// A file that is read as it comes.
struct Input<'f, R> {
    input: &'f mut R,
}

impl<R: BufRead> Input<'_, R> {
    fn is_over(&mut self) -> io::Result<bool> {
        Ok(self.buffered()?.is_empty())
    }

    fn buffered(&mut self) -> io::Result<&[u8]> {
        while matches!(self.input.fill_buf(), Err(e) if e.kind() == io::ErrorKind::Interrupted) {}
        self.input.fill_buf()
    }

    /// Reads a number; `None` if it is not a number of 64 bits, or is longer than the rest of its message.
    fn varint(&mut self, left: &mut u64) -> Result<Option<u64>, Stop> {
        let mut bytes = [0; 10];
        for (place, byte) in bytes.iter_mut().enumerate() {
            let Some(less) = left.checked_sub(1) else {
                return Ok(None);
            };
            *left = less;
            *byte = *self.buffered()?.first().ok_or(Stop::Short)?;
            self.input.consume(1);
            if *byte & 0x80 == 0 {
                return Ok(Reader::new(&bytes[..=place]).varint());
            }
        }
        Ok(None)
    }

    fn skip(&mut self, mut length: u64) -> Result<(), Stop> {
        while length > 0 {
            let there = self.buffered()?.len();
            let here = usize::try_from(length).map_or(there, |length| length.min(there));
            if here == 0 {
                return Err(Stop::Short);
            }
            self.input.consume(here);
            length -= here as u64;
        }
        Ok(())
    }

    fn take(&mut self, length: u64) -> Result<Vec<u8>, Stop> {
        let mut bytes = Vec::new();
        self.input.by_ref().take(length).read_to_end(&mut bytes)?;
        match bytes.len() as u64 == length {
            true => Ok(bytes),
            false => Err(Stop::Short),
        }
    }
}

/// A recording that is being put together.
struct Assembly {
    recording: Option<Recording>,
    /// Memory that the recording may take, and memory that it takes, bytes.
    most: u64,
    held: u64,
}

impl Assembly {
    fn new(most: u64) -> Self {
        Self {
            recording: None,
            most,
            held: 0,
        }
    }

    fn cut(&self) -> NotATrace {
        match self.recording {
            Some(_) => NotATrace::Damaged("it ends too early"),
            None => NotATrace::Foreign,
        }
    }

    /// Adds memory that the recording will take; an error if it exceeds the limit.
    fn hold(&mut self, bytes: u64) -> Result<(), NotATrace> {
        self.held = self.held.saturating_add(bytes);
        match self.held > self.most {
            true => Err(NotATrace::TooLarge(self.most >> 20)),
            false => Ok(()),
        }
    }

    /// Reads a part of this length.
    fn part(&mut self, file: &mut Input<'_, impl BufRead>, length: u64) -> Result<(), Stop> {
        let damaged = NotATrace::Damaged;
        let length = length.checked_sub(1).ok_or(damaged("an empty part"))?;
        let kind = file.take(1)?[0];
        if self.recording.is_none() && kind == HEAD {
            self.hold(length.saturating_mul(HEAD_IN_MEMORY))?;
            self.recording = Some(head(&file.take(length)?)?);
            return Ok(());
        }
        match (&self.recording, kind) {
            (None, _) => return Err(damaged("a part before the head").into()),
            (Some(_), HEAD) => return Err(damaged("two heads").into()),
            (Some(_), ROUNDS | KERNEL | SAMPLES) => {}
            // A part of a later version.
            _ => return file.skip(length),
        }
        if length > LONGEST_PART {
            return Err(damaged("a part is longer than any that is written").into());
        }
        let content = file.take(length)?;
        let recording = self.recording.get_or_insert_default();
        let bytes = match kind {
            ROUNDS => add_rounds(&content, recording).ok_or(damaged("the records of a lane"))?,
            KERNEL => {
                let events: Vec<KernelEvent> =
                    serde_json::from_slice(&content).map_err(|_| damaged("the kernel's events"))?;
                let bytes = events.len() * size_of::<KernelEvent>() + content.len();
                recording.kernel.extend(events);
                bytes
            }
            _ => {
                let samples: Vec<Sample> = serde_json::from_slice(&content).map_err(|_| damaged("the samples"))?;
                let known = recording.frames.len();
                let mut places = samples.iter().flat_map(|sample| &sample.stack);
                if places.any(|&frame| frame as usize >= known) {
                    return Err(damaged("a sample names a place that is not there").into());
                }
                let bytes = samples.len() * size_of::<Sample>() + content.len();
                recording.samples.extend(samples);
                bytes
            }
        };
        Ok(self.hold(bytes as u64)?)
    }
}

fn head(content: &[u8]) -> Result<Recording, NotATrace> {
    #[derive(Deserialize)]
    struct Named {
        schema: String,
    }
    let named: Named = serde_json::from_slice(content).map_err(|_| NotATrace::Damaged("its head"))?;
    if named.schema != SCHEMA {
        // The text comes from a file of unknown origin and is shown on a terminal.
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

/// Adds the records of a part. Returns the bytes that they take; `None` if the content is not valid.
fn add_rounds(content: &[u8], recording: &mut Recording) -> Option<usize> {
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
    reader.is_empty().then_some(count as usize * size_of::<Round>())
}

#[cfg(test)]
pub(crate) mod tests;
