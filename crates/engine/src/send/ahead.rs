//! Departures of a lane that sends a capture which is read meanwhile.

use crate::codec::captured::Flown;
use crate::plan::{PacketStream, Replay, StreamLoad};
use crate::send::pacing::Pacer;
use crate::send::replayed::{Ease, spacing};
use mpps_io::{Error, ErrorKind};
use mpps_replay::{Ring, Rings};
use mpps_sys::thread;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest wait for the first frames, and time between two looks for them.
const FILLED: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(1);

/// Time of a departure that is not known yet, as its frame was not read.
pub(crate) const WAITS: u64 = u64::MAX - 1;

/// Times of departures.
#[derive(Debug)]
enum Times {
    /// Times of the frames, from this start on, ns; there is none at the end, ns, and later.
    Captured(u64, u64),
    Even(Pacer),
    /// As fast as the path takes packets.
    None,
}

/// Frames of a lane that are read while they are sent.
#[derive(Debug)]
pub(crate) struct Ahead<'r> {
    name: String,
    rings: &'r Rings,
    ring: &'r Ring,
    times: Times,
    /// Frames left of all loops.
    left: u64,
    /// Place of the next frame in the ring, and end of the frames that are known to be there.
    at: u64,
    end: u64,
    /// Place of the frame that was taken last.
    taken: u64,
    /// Time of the next departure, ns; `u64::MAX`: there is none, [`WAITS`].
    next_ns: u64,
    /// Frames that were due before this time, ns, were read too late.
    late_ns: u64,
    ease: Ease,
    /// Number of these frames; without times, of waits for a frame.
    not_read: u64,
}

impl<'r> Ahead<'r> {
    /// Makes the departures of a lane that sends `count` frames. `pacer`: their times, if they have none of their own.
    /// The run begins at `start_ns` and ends at `end_ns`; departures that are late by `catch_up_ns` or more are not
    /// eased.
    pub(crate) fn new(
        (replay, load): (&Replay, &StreamLoad),
        (rings, ring): (&'r Rings, &'r Ring),
        pacer: Option<Pacer>,
        count: u64,
        (start_ns, end_ns): (u64, u64),
        catch_up_ns: u64,
    ) -> Self {
        let times = match (replay.schedule, pacer) {
            (Some(_), _) => Times::Captured(start_ns.saturating_add(load.start_ns), end_ns),
            (None, Some(pacer)) => Times::Even(pacer),
            (None, None) => Times::None,
        };
        let mut ahead = Self {
            name: replay
                .frames
                .read_ahead()
                .map_or_else(String::new, |ahead| ahead.name().to_owned()),
            rings,
            ring,
            times,
            left: count,
            at: 0,
            end: 0,
            taken: 0,
            next_ns: WAITS,
            late_ns: 0,
            ease: Ease::new(catch_up_ns),
            not_read: 0,
        };
        ahead.look(0);
        ahead
    }

    /// Returns whether its frames have times.
    pub(crate) fn is_timed(&self) -> bool {
        !matches!(self.times, Times::None)
    }

    /// Returns whether its next frame was not read yet.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.next_ns == WAITS
    }

    /// Looks at `now_ns` whether the frame that it waits for was read.
    #[cold]
    pub(crate) fn look(&mut self, now_ns: u64) {
        self.late_ns = now_ns;
        self.set_next();
    }

    /// Works out the time of the next departure.
    #[inline]
    fn set_next(&mut self) {
        if self.at == self.end {
            self.end = self.ring.end();
        }
        self.next_ns = match &self.times {
            _ if self.left == 0 => u64::MAX,
            Times::Even(pacer) if pacer.next_due().is_none() => u64::MAX,
            _ if self.at == self.end => WAITS,
            Times::Captured(start_ns, end_ns) => {
                let at = start_ns.saturating_add(self.ring.head(self.at).due_ns);
                if at < *end_ns { at } else { u64::MAX }
            }
            Times::Even(pacer) => pacer.next_due().unwrap_or(u64::MAX),
            Times::None => 0,
        };
    }

    /// Returns the number of departures due by `now_ns`, `most` at the most, as far as their frames were read.
    #[inline]
    pub(crate) fn due(&self, now_ns: u64, most: usize) -> usize {
        if self.next_ns.max(self.ease.not_before_ns()) > now_ns {
            return 0;
        }
        self.ease.look(self.next_ns, now_ns);
        let most = most.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let most = match &self.times {
            Times::Even(pacer) => pacer.due(now_ns, most),
            _ => most,
        };
        let (mut at, mut due) = (self.at, 0);
        while due < most && at != self.end {
            let head = self.ring.head(at);
            if let Times::Captured(start_ns, end_ns) = &self.times {
                let time_ns = start_ns.saturating_add(head.due_ns);
                if time_ns > now_ns || time_ns >= *end_ns || !self.ease.is_together(self.next_ns, time_ns) {
                    break;
                }
            }
            at = self.ring.behind(at, &head);
            due += 1;
        }
        due
    }

    /// Takes the next departure, and returns its time, ns; `None`: its frame was not read yet.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u64> {
        if self.next_ns >= WAITS {
            return None;
        }
        let at_ns = self.next_ns;
        self.not_read += u64::from(self.is_timed() && at_ns < self.late_ns);
        self.taken = self.at;
        self.step();
        match self.times {
            Times::Captured(_, end_ns) if self.next_ns < WAITS => self.ease.left(at_ns, self.next_ns, end_ns),
            _ => self.ease.reset(),
        }
        if self.waits() && !self.is_timed() {
            self.not_read += 1;
        }
        Some(at_ns)
    }

    #[inline]
    fn step(&mut self) {
        self.at = self.ring.behind(self.at, &self.ring.head(self.at));
        self.left -= 1;
        if let Times::Even(pacer) = &mut self.times {
            pacer.pop();
        }
        self.set_next();
    }

    /// Returns the place of the frame that was taken last, and notes the number that its tag gets: `tags`, those of the
    /// lane so far.
    #[inline]
    pub(crate) fn taken(&self, tags: u64) -> u64 {
        self.ring.set_number(self.taken, tags);
        self.taken
    }

    /// Gives back the memory of frames that have left.
    #[inline]
    pub(crate) fn free(&self) {
        self.ring.free(self.at);
    }

    /// Returns the time of the next departure, ns; [`WAITS`].
    #[inline]
    pub(crate) fn next_due(&self) -> Option<u64> {
        match self.next_ns {
            u64::MAX => None,
            next_ns => Some(next_ns.max(self.ease.not_before_ns())),
        }
    }

    /// Gives up departures before `before_ns`, and returns their number. Their frames are given up as well, unless
    /// their times are not those of the capture.
    #[cold]
    pub(crate) fn skip_before(&mut self, before_ns: u64) -> u64 {
        let mut skipped = 0;
        if let Times::Even(pacer) = &mut self.times {
            skipped = pacer.skip_before(before_ns);
            self.set_next();
            return skipped;
        }
        while self.next_ns < before_ns {
            self.step();
            skipped += 1;
        }
        self.ease.reset();
        skipped
    }

    /// Returns why no frame will come that it waits for.
    #[cold]
    pub(crate) fn fault(&self) -> Option<Error> {
        let rings = self.rings;
        if !(self.waits() && rings.has_ended() && self.ring.end() == self.at) {
            return None;
        }
        let fewer = "the file changed while it was sent: fewer of its packets are this lane's";
        Some(self.error(rings.fault().unwrap_or(fewer)))
    }

    /// Returns an error if a frame with a time was not read by now: nobody counts the departures behind it.
    #[cold]
    pub(crate) fn not_in_time(&self) -> Option<Error> {
        let starved = self.waits() && self.is_timed();
        starved.then(|| {
            self.error("its packets were not read as fast as they were due: want a lower rate, or memory for it")
        })
    }

    fn error(&self, why: &str) -> Error {
        Error::new("read", format!("pcap {}", self.name), why, ErrorKind::Other)
    }

    /// Returns a note if frames were read too late, or, without times, if the lane waited for some.
    #[cold]
    pub(crate) fn note(&self) -> Option<String> {
        let (name, n) = (&self.name, self.not_read);
        let note = match self.is_timed() {
            true => format!("pcap {name}: {n} packets left late, as the file was not read in time"),
            false => format!("pcap {name}: the lane waited {n} times for packets to be read"),
        };
        (n > 0).then_some(note)
    }
}

/// Thread that reads a capture for the lanes of a trial. It ends with the trial.
#[derive(Debug)]
pub(crate) struct Reading {
    rings: Arc<Rings>,
    thread: Option<JoinHandle<()>>,
}

impl Reading {
    /// Begins to read the capture of a stream, and waits until rings are full; `None`: it is in memory. `count`: number
    /// of the packets of the stream, if it has none of its own.
    pub(crate) fn begin(stream: &PacketStream, flown: &Flown, count: Option<u64>) -> Option<Self> {
        let (replay, rings) = (stream.replay.as_ref()?, Arc::clone(flown.rings()?));
        let spacing = stream.load.as_ref().and_then(|load| spacing(replay, load));
        let packets = stream.load.and_then(|load| load.packets).or(count);
        let laps = packets.map(|packets| packets.div_ceil(replay.frames.len() as u64));
        let (frames, to) = (Arc::clone(&replay.frames), Arc::clone(&rings));
        let feed = move || {
            if let Some(ahead) = frames.read_ahead() {
                ahead.feed(&to, spacing.as_ref(), laps, frames.lens());
            }
        };
        let thread = thread::spawn("mpps-pcap", feed);
        let reading = Self {
            thread: thread.map_err(|error| rings.fail(error.to_string())).ok(),
            rings,
        };
        let most = Instant::now() + FILLED;
        while !reading.rings.are_filled() && Instant::now() < most {
            std::thread::sleep(LOOK);
        }
        Some(reading)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.rings.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
#[path = "ahead_tests.rs"]
mod tests;
