//! Captures that are read while they are sent, because they take more memory than they may.
//!
//! A thread of its own reads the file, lap after lap, makes frames and puts them into a ring for each lane. A ring has
//! one writer and one reader, and is memory that was touched before: the lane neither locks nor waits for a page.

use crate::error::Error;
use crate::frames::{Maker, NotSent, Preparation};
use crate::reader::{Facts, LARGEST, Reader};
use crate::schedule::Schedule;
use crate::selection::Selection;
use std::fmt;
use std::io::{self, Read};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Words in front of a frame: its due time; its lengths and the end of its tag; the number of its tag.
const HEAD: u64 = 3;
/// Bits of a length, and of an offset in a frame.
const BITS: u32 = 24;
/// Words of the smallest ring, which has room for three of the largest frames.
const LEAST: usize = 1 << 17;
/// Time between two looks for room in a ring.
const PAUSE: Duration = Duration::from_micros(200);

const _: () = assert!(LEAST as u64 > 3 * (HEAD + LARGEST as u64 / 8 + 32));

/// File of a capture, opened for each lap.
pub trait Opened: Send + Sync {
    /// Returns its name.
    fn name(&self) -> &str;

    /// Opens the file at its beginning.
    ///
    /// # Errors
    /// Says why it can't be opened, or that it is another file than it was.
    fn open(&self) -> io::Result<Box<dyn Read + '_>>;
}

/// Error of a capture that is read ahead.
#[derive(Debug, thiserror::Error)]
pub enum NotRead {
    /// Fault of the file.
    #[error(transparent)]
    File(#[from] Error),
    /// Packet that can't be sent.
    #[error(transparent)]
    Packet(#[from] NotSent),
    /// File that can't be opened again.
    #[error("{0}")]
    Open(#[from] io::Error),
    /// File with other packets than it had when it was read before.
    #[error("packet {0} is not what it was: the file changed while it was sent")]
    Changed(u64),
}

/// Capture that is read while it is sent.
pub struct Ahead {
    pub(crate) file: Box<dyn Opened>,
    pub(crate) selection: Selection,
    pub(crate) how: Preparation,
    pub(crate) facts: Facts,
    /// By the lane that the flow of a frame has: the lane that sends it.
    pub(crate) lanes: Box<[Option<usize>]>,
    /// Bytes of all its rings.
    pub(crate) bytes: u64,
}

impl fmt::Debug for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut of = f.debug_struct("Ahead");
        of.field("facts", &self.facts).field("lanes", &self.lanes);
        of.finish_non_exhaustive()
    }
}

/// Frame in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Time at which it is due, ns after the start of the replay.
    pub due_ns: u64,
    /// Bytes without frame check sequence.
    pub len: usize,
    /// Number of its length among all.
    pub size: usize,
    /// End of its tag; `None`: it has none.
    pub tag_end: Option<usize>,
    /// Number of its tag: see [`Ring::set_number`].
    pub number: u64,
}

/// Frames on their way from the thread that reads to one lane. Places in it count words since the beginning.
#[derive(Debug)]
pub struct Ring {
    words: Box<[AtomicU64]>,
    /// Place behind the last frame. Written by the thread that reads.
    written: AtomicU64,
    /// Place in front of which memory may be used again. Written by the lane.
    freed: AtomicU64,
}

impl Ring {
    /// Makes a ring of `bytes` bytes at the most, all of them touched.
    fn new(bytes: u64) -> Self {
        let most = usize::try_from(bytes / 8).unwrap_or(usize::MAX);
        // The largest power of two that is not above it.
        let words = LEAST.max(1 << most.max(1).ilog2());
        Self {
            words: (0..words).map(|_| AtomicU64::new(u64::MAX)).collect(),
            written: AtomicU64::new(0),
            freed: AtomicU64::new(0),
        }
    }

    #[inline]
    fn word(&self, at: u64) -> &AtomicU64 {
        &self.words[at as usize & (self.words.len() - 1)]
    }

    /// Puts a frame behind the last; false: there is no room. Called by one thread.
    fn put(&self, head: &Head, frame: &[u8]) -> bool {
        let at = self.written.load(Ordering::Relaxed);
        let words = HEAD + frame.len().div_ceil(8) as u64;
        if at + words - self.freed.load(Ordering::Acquire) > self.words.len() as u64 {
            return false;
        }
        let tag_end = head.tag_end.unwrap_or(0) as u64;
        let lens = frame.len() as u64 | tag_end << BITS | (head.size as u64) << (2 * BITS);
        self.word(at).store(head.due_ns, Ordering::Relaxed);
        self.word(at + 1).store(lens, Ordering::Relaxed);
        for (word, bytes) in (at + HEAD..).zip(frame.chunks(8)) {
            let mut eight = [0; 8];
            eight[..bytes.len()].copy_from_slice(bytes);
            self.word(word).store(u64::from_le_bytes(eight), Ordering::Relaxed);
        }
        self.written.store(at + words, Ordering::Release);
        true
    }

    /// Returns the place behind the last frame.
    #[inline]
    pub fn end(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Returns the frame at a place in front of [`Ring::end`].
    #[inline]
    pub fn head(&self, at: u64) -> Head {
        let lens = self.word(at + 1).load(Ordering::Relaxed);
        let part = |bits: u32| (lens >> bits) as usize & ((1 << BITS) - 1);
        Head {
            due_ns: self.word(at).load(Ordering::Relaxed),
            len: part(0),
            size: (lens >> (2 * BITS)) as usize,
            tag_end: Some(part(BITS)).filter(|end| *end > 0),
            number: self.word(at + 2).load(Ordering::Relaxed),
        }
    }

    /// Returns the place behind a frame.
    #[inline]
    pub fn behind(&self, at: u64, head: &Head) -> u64 {
        at + HEAD + head.len.div_ceil(8) as u64
    }

    /// Gives the frame at a place the number of its tag. Called by the lane.
    #[inline]
    pub fn set_number(&self, at: u64, number: u64) {
        self.word(at + 2).store(number, Ordering::Relaxed);
    }

    /// Writes the first bytes of the frame at a place to `buffer`, which is no longer.
    #[inline]
    pub fn copy(&self, at: u64, buffer: &mut [u8]) {
        let mut place = at + HEAD;
        let (eights, rest) = buffer.as_chunks_mut::<8>();
        for eight in eights {
            *eight = self.word(place).load(Ordering::Relaxed).to_le_bytes();
            place += 1;
        }
        if !rest.is_empty() {
            let last = self.word(place).load(Ordering::Relaxed).to_le_bytes();
            rest.copy_from_slice(&last[..rest.len()]);
        }
    }

    /// Gives back the memory of all frames in front of a place. Called by the lane.
    #[inline]
    pub fn free(&self, to: u64) {
        self.freed.store(to, Ordering::Release);
    }
}

/// Rings of all lanes, and how reading goes.
#[derive(Debug)]
pub struct Rings {
    rings: Box<[Ring]>,
    /// A ring was full, or all was read.
    filled: AtomicBool,
    /// Nothing more will be put.
    ended: AtomicBool,
    /// The lanes want no more.
    stopped: AtomicBool,
    fault: OnceLock<String>,
}

impl Rings {
    /// Returns the ring of a lane.
    #[inline]
    pub fn of(&self, lane: usize) -> Option<&Ring> {
        self.rings.get(lane)
    }

    /// Returns whether nothing more will be put; all that was is seen by [`Ring::end`] then.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Returns why reading ended before the last frame, if it did.
    pub fn fault(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }

    /// Returns whether a ring has been full, or all has been read.
    pub fn are_filled(&self) -> bool {
        self.filled.load(Ordering::Relaxed) || self.has_ended()
    }

    /// Ends reading before it has begun.
    pub fn fail(&self, why: String) {
        let _ = self.fault.set(why);
        self.ended.store(true, Ordering::Release);
    }

    /// Has [`Ahead::feed`] end.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

impl Ahead {
    /// Makes rings for its lanes.
    pub fn rings(&self) -> Rings {
        let lanes = self.lanes.iter().flatten().count().max(1);
        Rings {
            rings: (0..lanes).map(|_| Ring::new(self.bytes / lanes as u64)).collect(),
            filled: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            fault: OnceLock::new(),
        }
    }

    /// Returns the name of its file.
    pub fn name(&self) -> &str {
        self.file.name()
    }

    /// Returns the bytes of memory that its rings and the reader take.
    pub fn footprint(&self) -> u64 {
        self.bytes.max((LEAST * 8 * self.lanes.len()) as u64) + (2 << 20)
    }

    /// Reads the file for each lap and puts its frames into the rings, until all laps are read or the rings are
    /// stopped. Without a schedule all are due at once. `lens`: lengths of its frames, ascending.
    pub fn feed(&self, rings: &Rings, schedule: Option<&Schedule>, laps: Option<u64>, lens: &[usize]) {
        let read = (0..laps.unwrap_or(u64::MAX)).try_for_each(|lap| self.lap(rings, schedule, lap, lens));
        if let Err(why) = read
            && !rings.stopped.load(Ordering::Relaxed)
        {
            let _ = rings.fault.set(why.to_string());
        }
        rings.ended.store(true, Ordering::Release);
    }

    fn lap(&self, rings: &Rings, schedule: Option<&Schedule>, lap: u64, lens: &[usize]) -> Result<(), NotRead> {
        // A long file may have few packets that are taken: each read of it looks whether the run has ended.
        let file = UntilStopped {
            file: self.file.open()?,
            stopped: &rings.stopped,
        };
        let mut reader = Reader::new(file, self.selection.clone())?;
        let (mut maker, mut packets) = (Maker::new(&self.how), 0);
        while packets < self.facts.packets {
            let Some(packet) = reader.next_packet()? else {
                return Err(NotRead::Changed(packets + 1));
            };
            packets += 1;
            let changed = || NotRead::Changed(packets);
            let number = packets as usize;
            let len = maker.tags(&packet, number)?;
            let lane = self.lanes.get(maker.lane(len)).copied().flatten().ok_or_else(changed)?;
            let made = maker.change(len, number, lap)?;
            let frame = maker.frame(len);
            let head = Head {
                due_ns: schedule.map_or(0, |schedule| schedule.due_ns(lap, packet.due_ns)),
                len,
                size: lens.binary_search(&len).map_err(|_| changed())?,
                tag_end: made.tag.map(|(end, _)| end),
                number: 0,
            };
            while !rings.rings[lane].put(&head, frame) {
                rings.filled.store(true, Ordering::Relaxed);
                if rings.stopped.load(Ordering::Relaxed) {
                    return Err(changed());
                }
                std::thread::sleep(PAUSE);
            }
        }
        let is_over = reader.next_packet()?.is_none();
        // Opening looks whether the file has changed.
        drop(self.file.open()?);
        match is_over && reader.facts() == self.facts {
            true => Ok(()),
            false => Err(NotRead::Changed(packets)),
        }
    }
}

/// File that can be read until reading is stopped.
struct UntilStopped<'r, R> {
    file: R,
    stopped: &'r AtomicBool,
}

impl<R: Read> Read for UntilStopped<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.stopped.load(Ordering::Relaxed) {
            true => Err(io::Error::other("stopped")),
            false => self.file.read(buffer),
        }
    }
}

#[cfg(test)]
#[path = "ahead_tests.rs"]
mod tests;
