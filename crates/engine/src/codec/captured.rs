//! Packets of a capture in a codec: what is written, and how it is known again.
//!
//! Frames with a tag are known by it. Those without are known by their content, as long as they come back to the
//! process that sent them: of each content it is known how many were sent and how many came. Which of several equal
//! ones came is not, so these have no number and no latency.

use crate::plan::Replay;
use crate::sync::{AtomicU64, Ordering};
use mpps_io::Frame;
use mpps_replay::{Frames, Place, Ring, Rings, Sent, content_of};
use mpps_wire::{Mark, TAG_LEN, Tag};
use std::sync::Arc;

/// Knowledge of a trial's frames that lanes which send and lanes which receive have in common.
#[derive(Debug)]
pub(crate) struct Flown {
    /// By lane: number of the newest tag.
    newest: Box<[AtomicU64]>,
    contents: Contents,
    /// Frames that are read while they are sent.
    rings: Option<Arc<Rings>>,
}

impl Flown {
    pub(crate) fn new(frames: &Frames) -> Self {
        Self {
            newest: (0..frames.lanes()).map(|_| AtomicU64::new(0)).collect(),
            contents: match frames.read_ahead() {
                None => Contents::of(frames),
                Some(_) => Contents::default(),
            },
            rings: frames.read_ahead().map(|ahead| Arc::new(ahead.rings())),
        }
    }

    /// Returns the rings of frames that are read while they are sent.
    pub(crate) fn rings(&self) -> Option<&Arc<Rings>> {
        self.rings.as_ref()
    }
}

/// Frames without a tag, by content.
#[derive(Debug, Default)]
struct Contents {
    /// Contents, ascending.
    keys: Box<[u64]>,
    counts: Box<[Counts]>,
    /// By frame: number of its content; `u32::MAX`: it has a tag.
    of_frame: Box<[u32]>,
}

/// Sends of one content that are kept, for those that come.
const KEPT: usize = 8;

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    came: AtomicU64,
    /// Newest sends, each by its number modulo their count: time, ns, and number of the length.
    sends: [(AtomicU64, AtomicU64); KEPT],
}

/// Arrival of a frame without a tag: the first of its content that was sent and has not come, or the oldest that is
/// kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Came {
    /// Time at which it was sent, ns.
    pub(crate) sent_ns: u64,
    /// Number of its image; of its length among those of its stream, until the codec of all streams knows it.
    pub(crate) image: usize,
    /// More came than were sent.
    pub(crate) again: bool,
}

impl Contents {
    fn of(frames: &Frames) -> Self {
        let untagged = |at: &usize| frames.tag_end(Sent { at: *at as u32, lap: 0 }).is_none();
        let own: Vec<(usize, u64)> = (0..frames.len())
            .filter(untagged)
            .map(|at| (at, content_of(&frames.first_lap(at))))
            .collect();
        let mut keys: Vec<u64> = own.iter().map(|(_, key)| *key).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut of_frame = vec![u32::MAX; frames.len()];
        for (at, key) in &own {
            of_frame[*at] = keys.binary_search(key).unwrap_or_default() as u32;
        }
        Self {
            counts: keys.iter().map(|_| Counts::default()).collect(),
            keys: keys.into(),
            of_frame: of_frame.into(),
        }
    }

    /// Notes that a frame is sent.
    #[inline]
    fn note(&self, frame: Sent, size: usize, now_ns: u64) {
        if let Some(counts) = self.counts.get(self.of_frame[frame.at as usize] as usize) {
            // Several lanes may send frames of one content.
            let number = counts.sent.load(Ordering::Relaxed);
            let (time, of_size) = &counts.sends[number as usize % KEPT];
            time.store(now_ns, Ordering::Relaxed);
            of_size.store(size as u64, Ordering::Relaxed);
            counts.sent.fetch_add(1, Ordering::Release);
        }
    }

    /// Returns the number of a frame's content, by its key; `None`: it is none of these, or none was sent.
    #[inline]
    fn find(&self, key: u64) -> Option<u32> {
        let place = self.keys.binary_search(&key).ok()?;
        (self.counts[place].sent.load(Ordering::Relaxed) > 0).then_some(place as u32)
    }

    /// Returns whether more of a content were sent than came.
    fn is_awaited(&self, content: u32) -> bool {
        let counts = &self.counts[content as usize];
        counts.came.load(Ordering::Relaxed) < counts.sent.load(Ordering::Acquire)
    }

    /// Counts a frame of this content that came.
    fn count(&self, content: u32) -> Came {
        let counts = &self.counts[content as usize];
        let sent = counts.sent.load(Ordering::Acquire);
        let one_more = |came: u64| (came < sent).then_some(came + 1);
        let counted = counts.came.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        let (Ok(number) | Err(number)) = counted;
        let number = number.clamp(sent.saturating_sub(KEPT as u64), sent.saturating_sub(1));
        let (time, size) = &counts.sends[number as usize % KEPT];
        Came {
            sent_ns: time.load(Ordering::Relaxed),
            image: size.load(Ordering::Relaxed) as usize,
            again: counted.is_err(),
        }
    }
}

/// Packets of a capture in a trial.
#[derive(Debug)]
pub(crate) struct Captured {
    frames: Arc<Frames>,
    /// None: nothing comes back.
    flown: Option<Arc<Flown>>,
    first_flow: u32,
    seed: u64,
    run: u8,
}

impl Captured {
    pub(crate) fn new(replay: &Replay, flown: Option<Arc<Flown>>, run: u8) -> Self {
        Self {
            frames: Arc::clone(&replay.frames),
            flown,
            first_flow: replay.first_flow,
            seed: replay.seed,
            run,
        }
    }

    /// Returns the ring of a lane, if frames are read while they are sent. The number of a frame is its place there.
    #[inline]
    fn ring(&self, lane: u32) -> Option<&Ring> {
        self.flown.as_ref()?.rings.as_ref()?.of(lane as usize)
    }

    /// Returns the number of a frame's length among all, and that of its tag; `None`: it has none.
    #[inline]
    pub(crate) fn size_and_tag(&self, lane: u32, n: u64) -> (usize, Option<u64>) {
        if let Some(ring) = self.ring(lane) {
            let head = ring.head(n);
            return (head.size, head.tag_end.map(|_| head.number));
        }
        let sent = self.frames.sent(lane as usize, n);
        (self.frames.size(sent), self.frames.tag_number(lane as usize, sent))
    }

    /// Returns the number of the length of the frame with tag `number`.
    #[inline]
    pub(crate) fn size_of_tagged(&self, lane: u32, number: u64) -> usize {
        let sent = self.frames.with_tag(lane as usize, number);
        sent.map_or(0, |sent| self.frames.size(sent))
    }

    /// Returns a length, bytes without FCS.
    #[inline]
    pub(crate) fn len(&self, size: usize) -> usize {
        self.frames.lens()[size]
    }

    /// Writes the frames of a lane from a place on, and moves the place. Calls `each` with the number of the length of
    /// each, and the number of its tag.
    #[inline(always)]
    pub(crate) fn write_all<F: Frame>(
        &self,
        burst: &mut [F],
        lane: u32,
        place: &mut Place,
        time_ns: u64,
        mut each: impl FnMut(usize, Option<u64>),
    ) {
        let (frames, lens) = (&*self.frames, self.frames.lens());
        let flown = self.flown.as_deref();
        let mut walk = frames.walk(lane as usize, *place);
        for frame in burst {
            let next = walk.next();
            frame.set_len(lens[next.size]);
            frame.set_flow(lane);
            let bytes = frame.bytes_mut();
            frames.write_next(&next, bytes);
            match (next.tag, flown) {
                (Some(tag), _) => self.tag(bytes, lane, tag, time_ns),
                (None, Some(flown)) => flown.contents.note(next.sent, next.size, time_ns),
                (None, None) => {}
            }
            each(next.size, next.tag.map(|(number, _)| number));
        }
        *place = walk.place();
    }

    /// Writes frame `n` of a lane.
    #[inline]
    pub(crate) fn write(&self, bytes: &mut [u8], lane: u32, n: u64, time_ns: u64) {
        if let Some(ring) = self.ring(lane) {
            return self.write_read(bytes, (lane, ring), n, time_ns);
        }
        let sent = self.frames.sent(lane as usize, n);
        self.frames.write(sent, bytes);
        match &self.flown {
            Some(flown) if self.frames.tag_end(sent).is_none() => {
                flown.contents.note(sent, self.frames.size(sent), time_ns);
            }
            _ => self.write_tag(bytes, (lane, sent), time_ns),
        }
    }

    /// Changes the send time of a frame written before.
    #[cold]
    pub(crate) fn restamp(&self, bytes: &mut [u8], lane: u32, n: u64, time_ns: u64) {
        if let Some(ring) = self.ring(lane) {
            return self.write_read(bytes, (lane, ring), n, time_ns);
        }
        let sent = self.frames.sent(lane as usize, n);
        if self.frames.tag_end(sent).is_some() {
            self.frames.write(sent, bytes);
            self.write_tag(bytes, (lane, sent), time_ns);
        }
    }

    /// Writes a frame that was read meanwhile.
    #[inline]
    fn write_read(&self, bytes: &mut [u8], (lane, ring): (u32, &Ring), n: u64, time_ns: u64) {
        ring.copy(n, bytes);
        let head = ring.head(n);
        if let Some(end) = head.tag_end {
            self.tag(bytes, lane, (head.number, end), time_ns);
        }
    }

    /// Writes the tag of a frame that has one.
    #[inline]
    fn write_tag(&self, bytes: &mut [u8], (lane, sent): (u32, Sent), time_ns: u64) {
        let number = self.frames.tag_number(lane as usize, sent);
        if let Some(tag) = number.zip(self.frames.tag_end(sent)) {
            self.tag(bytes, lane, tag, time_ns);
        }
    }

    /// Writes a tag with this number, which ends at `end`.
    #[inline]
    fn tag(&self, bytes: &mut [u8], lane: u32, (number, end): (u64, usize), time_ns: u64) {
        if let Some(flown) = &self.flown {
            flown.newest[lane as usize].store(number, Ordering::Relaxed);
        }
        let tag = Tag {
            number: number as u32,
            run: self.run,
            flow: self.first_flow + lane,
            time_ns,
            mark: Mark::Sent,
        };
        Frames::write_tag(bytes, end, &tag.bytes(self.seed));
    }

    /// Returns whether a packet has the payload of the frame that had its tag. `packet`: up to the end of the tag;
    /// `number`: the lowest bits of the tag's number.
    #[inline]
    pub(crate) fn is_intact(&self, packet: &[u8], lane: u32, number: u32) -> bool {
        let number = self.whole(lane, number);
        let Some(sent) = self.frames.with_tag(lane as usize, number) else {
            return false;
        };
        let Some((before, tag)) = packet.split_last_chunk::<TAG_LEN>() else {
            return false;
        };
        self.frames.has_payload(sent, before, tag)
    }

    /// Returns the number of a tag with these lowest bits: the newest one.
    #[inline]
    fn whole(&self, lane: u32, number: u32) -> u64 {
        let newest = self.flown.as_ref().and_then(|flown| flown.newest.get(lane as usize));
        let newest = newest.map_or(0, |newest| newest.load(Ordering::Relaxed));
        let ahead = number.wrapping_sub(newest as u32) as i32;
        newest.checked_add_signed(ahead.into()).unwrap_or(number.into())
    }

    /// Returns whether frames are known by their content.
    #[inline]
    pub(crate) fn has_contents(&self) -> bool {
        self.flown.as_ref().is_some_and(|flown| !flown.contents.keys.is_empty())
    }

    /// Returns the number of the content of a frame without a tag, by its [`content_of`]; `None`: it is none of these.
    #[inline]
    pub(crate) fn content(&self, key: u64) -> Option<u32> {
        self.flown.as_ref()?.contents.find(key)
    }

    /// Returns whether more of a content were sent than came.
    pub(crate) fn is_awaited(&self, content: u32) -> bool {
        self.flown
            .as_ref()
            .is_some_and(|flown| flown.contents.is_awaited(content))
    }

    /// Counts a frame of this content that came.
    pub(crate) fn came(&self, content: u32) -> Option<Came> {
        Some(self.flown.as_ref()?.contents.count(content))
    }
}
