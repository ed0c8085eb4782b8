//! A lane's flight recorder: a ring of records that the lane writes and the collector copies from.
//!
//! The lane never waits: the newest record takes the place of the oldest. It claims a place, writes the record by plain
//! stores, and publishes it. The collector copies published records, and then looks at which places were claimed
//! meanwhile. A record in such a place is thrown away and counted as lost. So a record that is half old and half new is
//! never shown.

use crate::sync::{AtomicU64, Ordering, Round, fence};

/// Number of triggers that the collector has not seen yet and that are kept; more of them are near these.
const TRIGGERS: usize = 16;

/// The ring of one lane. The lane is its one writer.
#[derive(Debug)]
pub(crate) struct LaneRing {
    places: Box<[[AtomicU64; Round::WORDS]]>,
    /// Records whose place may have been written to, and records that are whole.
    claimed: AtomicU64,
    written: AtomicU64,
    /// Start and end of events that are worth a window, ns; the newest ones.
    triggers: [[AtomicU64; 2]; TRIGGERS],
    triggered: AtomicU64,
}

impl LaneRing {
    /// Makes a ring with room for `bytes` of records, and for 16 of them at the least.
    pub(crate) fn new(bytes: usize) -> Self {
        Self::of_places((bytes / size_of::<Round>()).max(16))
    }

    /// Makes a ring with room for `count` records.
    pub(crate) fn of_places(count: usize) -> Self {
        let mut places = Vec::new();
        // Zeros that the compiler does not see, as in `Histogram`: the memory is there before the run.
        let place = || std::array::from_fn(|_| AtomicU64::new(std::hint::black_box(0)));
        places.resize_with(count, place);
        Self {
            places: places.into_boxed_slice(),
            claimed: AtomicU64::new(0),
            written: AtomicU64::new(0),
            triggers: Default::default(),
            triggered: AtomicU64::new(0),
        }
    }

    fn place(&self, number: u64) -> &[AtomicU64; Round::WORDS] {
        &self.places[(number % self.places.len() as u64) as usize]
    }

    /// Writes a record. For the lane only.
    pub(crate) fn push(&self, round: &Round) {
        let number = self.written.load(Ordering::Relaxed);
        self.claimed.store(number + 1, Ordering::Relaxed);
        // A thread that sees a word of this record sees that its place was claimed.
        fence(Ordering::Release);
        for (place, word) in self.place(number).iter().zip(round.to_words()) {
            place.store(word, Ordering::Relaxed);
        }
        self.written.store(number + 1, Ordering::Release);
    }

    /// Notes an event between these times, ns, that is worth a window. For the lane only.
    #[cold]
    pub(crate) fn trigger(&self, from_ns: u64, to_ns: u64) {
        let number = self.triggered.load(Ordering::Relaxed);
        let [from, to] = &self.triggers[number as usize % TRIGGERS];
        from.store(from_ns, Ordering::Relaxed);
        to.store(to_ns, Ordering::Relaxed);
        self.triggered.store(number + 1, Ordering::Release);
    }

    /// Calls `tell` with the times of the triggers from number `seen` on; returns how many there have been.
    pub(crate) fn triggers_from(&self, seen: u64, mut tell: impl FnMut(u64, u64)) -> u64 {
        let all = self.triggered.load(Ordering::Acquire);
        for number in seen.max(all.saturating_sub(TRIGGERS as u64))..all {
            let [from, to] = &self.triggers[number as usize % TRIGGERS];
            // A trigger that is overwritten as it is read may mix two. The later one has a window of its own.
            let from = from.load(Ordering::Relaxed);
            tell(from, to.load(Ordering::Relaxed).max(from));
        }
        all
    }

    fn read(&self, number: u64) -> Round {
        let words = self.place(number);
        Round::from_words(std::array::from_fn(|at| words[at].load(Ordering::Relaxed)))
    }

    /// Returns the number of the oldest record that is still there.
    fn oldest(&self) -> u64 {
        let claimed = self.claimed.load(Ordering::Relaxed);
        claimed.saturating_sub(self.places.len() as u64)
    }

    /// Appends the records from number `from` on to `out`, up to `most` of them; returns the number after the last and
    /// how many of those in between were lost.
    pub(crate) fn since(&self, from: u64, most: usize, out: &mut Vec<Round>) -> (u64, u64) {
        let written = self.written.load(Ordering::Acquire);
        let first = from.max(self.oldest());
        let end = written.min(first.saturating_add(most as u64));
        if first >= end {
            return (first.max(from), first - from.min(first));
        }
        let start = out.len();
        out.extend((first..end).map(|number| self.read(number)));
        // A record whose place was claimed while it was read may be torn.
        fence(Ordering::Acquire);
        let torn = self.oldest().clamp(first, end) - first;
        out.drain(start..start + torn as usize);
        (end, first - from + torn)
    }

    /// Returns the number of records so far.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Appends the records of the time between two, ns, to `out`, up to `most` of them. Returns how many there were
    /// beyond these, and how many are known to be lost. Records overwritten before the collector came count as 1,
    /// however many they were.
    pub(crate) fn window(&self, from_ns: u64, to_ns: u64, most: usize, out: &mut Vec<Round>) -> (u64, u64) {
        let written = self.written.load(Ordering::Acquire);
        let oldest = self.oldest();
        // The first that ends after the beginning. Times in the ring grow. A record that is overwritten as it is looked
        // at seems newer, which the second look finds.
        let (mut low, mut high) = (oldest, written);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.read(middle).end_ns() > from_ns {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        let gone = u64::from(low == oldest && oldest > 0 && low < written && self.read(low).at_ns > from_ns);
        let (mut number, mut lost, start) = (low, 0, out.len());
        while number < written && out.len() - start < most {
            let round = self.read(number);
            fence(Ordering::Acquire);
            if self.oldest() > number {
                lost += 1;
            } else if round.at_ns > to_ns {
                break;
            } else {
                out.push(round);
            }
            number += 1;
        }
        let rest = number..written;
        let beyond = rest.take_while(|&number| self.read(number).at_ns <= to_ns).count();
        (beyond as u64, lost + gone)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn round(number: u64) -> Round {
        Round {
            at_ns: 1000 + number * 10,
            sent_before: number,
            parts: [2, 1, 1, 1, 1, 1, 3],
            late_ns: number as u32,
            ..Round::default()
        }
    }

    fn ring(places: usize) -> LaneRing {
        LaneRing::new(places * size_of::<Round>())
    }

    #[test]
    fn a_window_has_what_lies_in_it_and_what_reaches_into_it() {
        let ring = ring(64);
        (0..50).for_each(|number| ring.push(&round(number)));
        let mut out = Vec::new();
        assert_eq!(ring.window(1095, 1130, 100, &mut out), (0, 0));
        assert_eq!(out, (9..14).map(round).collect::<Vec<_>>());
        assert_eq!(ring.window(0, 500, 100, &mut out), (0, 0));
        assert_eq!(ring.window(5000, 6000, 100, &mut out), (0, 0));
        assert_eq!(out.len(), 5);
        // There is no room for all.
        assert_eq!(ring.window(1000, 6000, 3, &mut out), (47, 0));
        assert_eq!(ring.window(1000, 1095, 3, &mut out), (7, 0));
        assert_eq!(out.len(), 11);
    }

    #[test]
    fn what_was_overwritten_is_counted_as_lost() {
        let ring = ring(16);
        (0..40).for_each(|number| ring.push(&round(number)));
        let mut out = Vec::new();
        assert_eq!(ring.since(10, 100, &mut out), (40, 14));
        assert_eq!(out, (24..40).map(round).collect::<Vec<_>>());
        assert_eq!(ring.since(40, 100, &mut out), (40, 0));
        out.clear();
        assert_eq!(ring.window(1000, 9000, 100, &mut out), (0, 1));
        assert_eq!(out.len(), 16);
        // All of it is there.
        out.clear();
        assert_eq!(ring.window(1300, 9000, 100, &mut out), (0, 0));
        assert_eq!(out.len(), 10);
    }

    #[test]
    fn a_record_that_is_overwritten_as_it_is_read_is_never_told() {
        const RECORDS: u64 = if cfg!(miri) { 300 } else { 300_000 };
        let (ring, ended) = (ring(16), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..RECORDS).for_each(|number| ring.push(&round(number)));
                ended.store(true, Ordering::Release);
            });
            let (mut next, mut told, mut lost, mut out) = (0, 0, 0, Vec::new());
            loop {
                let last = ended.load(Ordering::Acquire);
                let (to, gone) = ring.since(next, usize::MAX, &mut out);
                (next, lost, told) = (to, lost + gone, told + out.len() as u64);
                for record in out.drain(..) {
                    assert_eq!(record, round(record.sent_before), "half of another");
                }
                if last && next == RECORDS {
                    break;
                }
            }
            assert_eq!(told + lost, RECORDS);
        });
    }

    #[test]
    fn triggers_are_told_once_each() {
        let ring = ring(16);
        let mut told = Vec::new();
        let seen = ring.triggers_from(0, |at, _| told.push(at));
        (1..=3).for_each(|at| ring.trigger(at, at + 1));
        let seen = ring.triggers_from(seen, |at, _| told.push(at));
        assert_eq!((seen, &told[..]), (3, &[1, 2, 3][..]));
        (4..=40).for_each(|at| ring.trigger(at, at));
        told.clear();
        assert_eq!(ring.triggers_from(seen, |at, _| told.push(at)), 40);
        assert_eq!(told, (25..=40).collect::<Vec<_>>());
    }
}
