//! Times of the wall clock (`CLOCK_REALTIME`), by which the kernel stamps packets, as readings of the host's
//! `CLOCK_MONOTONIC`.
//!
//! The kernel slews both clocks alike: how far they are apart changes by steps only (the time of day is set, a leap
//! second, a suspended host). So an offset that was found stays true until a reading contradicts it, and the more
//! readings agree, the narrower it gets.
//!
//! A packet may be stamped before a step and read after it. Where the step was is known only as lying between two
//! readings; by that either offset may be the packet's for times near the step if the step is shorter than the packet
//! has waited. Such a packet's time is then off by the step at the most; any other is right.

use super::{monotonic_ns, realtime_ns};
use std::num::NonZeroU64;

/// A packet that has waited longer is none: its time is that of another clock, or of another offset.
const OLDEST_NS: u64 = 10_000_000_000;

/// How far the wall clock is ahead, ns: not less than `least`, not more than `most`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offset {
    least: i64,
    most: i64,
}

impl Offset {
    /// Bounds by a reading of the wall clock between two of the other.
    fn read(before: u64, wall: u64, after: u64) -> Self {
        let ahead_of = |monotonic: u64| wall.cast_signed().wrapping_sub(monotonic.cast_signed());
        Self {
            least: ahead_of(after),
            most: ahead_of(before),
        }
    }

    fn width(self) -> u64 {
        self.most.abs_diff(self.least)
    }

    /// Both at once; `None` if they contradict each other.
    fn and(self, other: Self) -> Option<Self> {
        let both = Self {
            least: self.least.max(other.least),
            most: self.most.min(other.most),
        };
        (both.least <= both.most).then_some(both)
    }

    /// The reading that belongs to a time of the wall clock; `None` if that is after `latest`, by more than the offset
    /// may be wrong.
    #[inline]
    fn monotonic(self, wall_ns: u64, latest: u64) -> Option<u64> {
        let width = self.width();
        let ahead = self.least.wrapping_add((width / 2).cast_signed());
        let at = i64::try_from(wall_ns).ok()?.checked_sub(ahead)?;
        let at = u64::try_from(at).ok()?;
        (at <= latest.saturating_add(width)).then_some(at.min(latest))
    }
}

/// Turns times of the wall clock into readings of [`monotonic_ns`]. One for each queue of packets.
#[derive(Clone, Debug)]
pub struct WallClock {
    offset: Offset,
    /// No packet before this has the offset.
    since: u64,
    /// The offset before the last step, and a reading after which no packet has it.
    earlier: Option<(Offset, u64)>,
    /// The last reading, from its beginning to its end.
    seen: u64,
    now: u64,
}

impl WallClock {
    /// Reads both clocks a few times: a thread that loses its core between two readings has a wide offset.
    #[expect(clippy::new_without_default, reason = "it reads clocks")]
    pub fn new() -> Self {
        let (before, wall, after) = readings();
        let mut this = Self::of(before, wall, after);
        (1..8).for_each(|_| this.look());
        this
    }

    fn of(before: u64, wall: u64, after: u64) -> Self {
        Self {
            offset: Offset::read(before, wall, after),
            since: 0,
            earlier: None,
            seen: before,
            now: after,
        }
    }

    /// Reads both clocks: once for a burst of packets, after all of them have come. Three system (vDSO) calls.
    #[inline]
    pub fn look(&mut self) {
        let (before, wall, after) = readings();
        self.read(before, wall, after);
    }

    #[inline]
    fn read(&mut self, before: u64, wall: u64, after: u64) {
        let read = Offset::read(before, wall, after);
        match self.offset.and(read) {
            Some(both) => self.offset = both,
            None => self.stepped(read, after),
        }
        (self.seen, self.now) = (before, after);
    }

    #[cold]
    fn stepped(&mut self, read: Offset, after: u64) {
        self.earlier = Some((self.offset, after));
        self.since = self.seen;
        self.offset = read;
    }

    /// The reading of [`monotonic_ns`] that belongs to a time of the wall clock, ns since 1970; never after the last
    /// [`WallClock::look`]. `None`: no packet that came before that can have this time, or it would be older than 10 s.
    #[inline]
    pub fn monotonic_ns(&self, wall_ns: u64) -> Option<NonZeroU64> {
        let new = self.offset.monotonic(wall_ns, self.now);
        let at = match self.earlier {
            None => new?,
            Some((earlier, until)) => {
                let new = new.filter(|at| at.saturating_add(self.offset.width()) >= self.since);
                // If both are possible, the one nearer to now.
                new.max(earlier.monotonic(wall_ns, until))?
            }
        };
        NonZeroU64::new(at).filter(|_| self.now - at <= OLDEST_NS)
    }
}

/// A reading of the wall clock between two of the other.
#[inline]
fn readings() -> (u64, u64, u64) {
    let before = monotonic_ns();
    let wall = realtime_ns();
    (before, wall, monotonic_ns())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: u64 = 1_000_000_000_000;
    /// The time of day at the clock's zero.
    const AHEAD: i64 = 1_700_000_000_000_000_000;
    const S: i64 = 1_000_000_000;

    /// The wall clock over the other one, which is set now and then.
    struct Wall {
        steps: Vec<(u64, i64)>,
    }

    impl Wall {
        fn at(&self, monotonic: u64) -> u64 {
            let stepped: i64 = self
                .steps
                .iter()
                .filter(|(at, _)| *at <= monotonic)
                .map(|(_, by)| by)
                .sum();
            monotonic.checked_add_signed(AHEAD + stepped).expect("after 1970")
        }
    }

    #[test]
    fn a_time_of_now_is_now_and_the_offset_gets_narrower() {
        let mut clock = WallClock::new();
        let width = clock.offset.width();
        for _ in 0..100 {
            let before = monotonic_ns();
            let wall = realtime_ns();
            clock.look();
            let at = clock.monotonic_ns(wall).expect("just now").get();
            let slack = clock.offset.width();
            assert!(at + slack >= before && at <= clock.now, "{before} {at} {}", clock.now);
            assert!(slack <= width || clock.earlier.is_some());
        }
    }

    #[test]
    fn what_no_packet_can_have_is_no_time() {
        let wall = Wall { steps: vec![] };
        let now = START + 20 * S as u64;
        let clock = WallClock::of(now, wall.at(now), now);
        let at = |monotonic: u64| clock.monotonic_ns(wall.at(monotonic)).map(NonZeroU64::get);
        assert_eq!(at(now), Some(now));
        assert_eq!(at(now - OLDEST_NS), Some(now - OLDEST_NS));
        assert_eq!(at(now - OLDEST_NS - 1), None, "too old");
        assert_eq!(at(now + 1), None, "not yet");
        for absurd in [0, 1, START, AHEAD as u64 - 1, i64::MAX as u64, u64::MAX] {
            assert_eq!(clock.monotonic_ns(absurd), None, "{absurd}");
        }
    }

    #[test]
    fn a_time_within_the_error_of_the_offset_after_now_is_now() {
        let wall = Wall { steps: vec![] };
        let clock = WallClock::of(START, wall.at(START + 90), START + 100);
        let at = clock.monotonic_ns(wall.at(START + 95)).expect("a time").get();
        assert!((START + 45..=START + 100).contains(&at), "{at}");
    }

    #[test]
    fn a_slow_reading_moves_nothing() {
        let wall = Wall { steps: vec![] };
        let mut clock = WallClock::of(START, wall.at(START + 10), START + 20);
        let known = clock.offset;
        let later = START + 5_000_000;
        clock.read(later, wall.at(later + 1), later + 3_000_000);
        assert!(clock.offset.least >= known.least && clock.offset.most <= known.most);
        assert!(clock.earlier.is_none());
        assert_eq!(clock.now, later + 3_000_000);
    }

    /// Time between two looks: packets come, and the wall clock may be set once.
    #[derive(Clone, Debug)]
    struct Between {
        length: u64,
        step: Option<(u64, i64)>,
        packets: Vec<u64>,
        /// How long the look takes, before the wall clock is read and after.
        look: (u64, u64),
    }

    /// Calls `check` with the time that was made of each packet's, the time at which it came, and the step.
    fn run(looks: Vec<Between>, mut check: impl FnMut(&WallClock, Option<u64>, u64, i64)) {
        let mut wall = Wall { steps: vec![] };
        let mut now = START;
        let mut clock = WallClock::of(now, wall.at(now), now + 50);
        now += 50;
        for between in looks {
            let (begin, length, step) = (now, between.length, between.step);
            if let Some((at, by)) = step {
                wall.steps.push((begin + 1 + at % length, by));
            }
            let came: Vec<u64> = between.packets.iter().map(|p| begin + p % length).collect();
            let stamps: Vec<u64> = came.iter().map(|at| wall.at(*at)).collect();
            let read = begin + length + between.look.0;
            now = read + between.look.1;
            clock.read(begin + length, wall.at(read), now);
            for (came, stamp) in came.into_iter().zip(stamps) {
                let at = clock.monotonic_ns(stamp).map(NonZeroU64::get);
                check(&clock, at, came, step.map_or(0, |(_, by)| by));
            }
        }
    }

    /// Looks less than a second apart.
    fn looks(step: impl Strategy<Value = i64>) -> impl Strategy<Value = Vec<Between>> {
        let step = prop::option::of((any::<u64>(), step));
        let packets = prop::collection::vec(any::<u64>(), 0..8);
        let between = (1_000_u64..900_000_000, step, packets, (0_u64..60, 0_u64..60)).prop_map(
            |(length, step, packets, look)| Between {
                length,
                step,
                packets,
                look,
            },
        );
        prop::collection::vec(between, 1..20)
    }

    fn either_way(by: std::ops::Range<i64>) -> impl Strategy<Value = i64> {
        (by, any::<bool>()).prop_map(|(by, back)| if back { -by } else { by })
    }

    proptest! {
        #[test]
        fn a_step_that_is_longer_than_packets_wait_moves_nothing(looks in looks(either_way(S..1000 * S))) {
            run(looks, |clock, at, came, _| {
                let at = at.expect("a time");
                assert!(at.abs_diff(came) <= 120 && at <= clock.now, "{at} for {came}: {clock:?}");
            });
        }

        #[test]
        fn a_shorter_step_moves_no_time_by_more_than_itself_and_none_past_now(
            looks in looks(either_way(1_000..S)),
        ) {
            run(looks, |clock, at, came, step| {
                let at = at.expect("a time");
                let most = 120 + step.unsigned_abs();
                assert!(at.abs_diff(came) <= most && at <= clock.now, "{at} for {came}: {clock:?}");
            });
        }

        #[test]
        fn no_time_is_after_now_or_old_whatever_the_clocks_say(
            readings in prop::collection::vec((any::<u64>(), 0_u64..1 << 40, 0_u64..1 << 40), 1..10),
            stamps in prop::collection::vec(any::<u64>(), 1..10),
            near in -20 * S..20 * S,
        ) {
            let mut now = START;
            let mut clock = WallClock::of(now, START, now);
            for (wall, wait, width) in readings {
                let wall = wall >> 1;
                let before = now + wait;
                now = before + width;
                clock.read(before, wall, now);
                for stamp in stamps.iter().copied().chain([wall.saturating_add_signed(near)]) {
                    if let Some(at) = clock.monotonic_ns(stamp) {
                        prop_assert!(at.get() <= now && now - at.get() <= OLDEST_NS);
                    }
                }
            }
        }
    }
}
