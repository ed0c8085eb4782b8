//! When to look at an RX ring again: at high rates, not at once.
//!
//! The ring's index lies in a cache line that the kernel writes for each packet. A lane that looks at it all the time
//! takes that line from the core that writes it, once per packet, and finds one or two packets at each look; then it
//! pays a system call for each two packets that it sends on. Both cost more than the packet. A lane that looks when
//! some packets have had the time to gather costs the sender nothing and sends them on in one go.
//!
//! This is for lanes that only receive (`drop`, `capture`, one direction of a forwarder): the wait, up to [`LONGEST`],
//! would otherwise be part of a latency that is measured. Further apart than [`NEAR`], packets are taken as they come.

use std::time::{Duration, Instant};

/// Mean time between packets at which gathering begins: half a million packets a second.
const NEAR: Duration = Duration::from_micros(2);
/// Packets to wait for.
const PACKETS: u32 = 16;
/// Longest wait.
const LONGEST: Duration = Duration::from_micros(10);

pub(crate) struct Gather {
    /// Last look that found something.
    last: Instant,
    /// Mean time between packets, over the last bursts.
    gap_ns: u32,
    /// Time before which the ring is not looked at.
    next: Instant,
}

impl Gather {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            last: now,
            gap_ns: u32::MAX,
            next: now,
        }
    }

    /// Whether a look would be too early to be worth it.
    #[inline]
    pub(crate) fn early(&self, now: Instant) -> bool {
        now < self.next
    }

    /// Notes that `packets` (1 at least) were found; `more`: there may be others.
    #[inline]
    pub(crate) fn received(&mut self, now: Instant, packets: usize, more: bool) {
        let since = now.saturating_duration_since(self.last).as_nanos() / packets.max(1) as u128;
        let gap = since.min(u128::from(u32::MAX)) as u32;
        // A pause ends the gathering at once; a single close pair does not begin it.
        self.gap_ns = if gap > self.gap_ns {
            gap
        } else {
            self.gap_ns - (self.gap_ns - gap) / 4
        };
        self.last = now;
        self.next = if more || u128::from(self.gap_ns) > NEAR.as_nanos() {
            now
        } else {
            now + Duration::from_nanos(u64::from(self.gap_ns) * u64::from(PACKETS)).min(LONGEST)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(gather: &mut Gather, start: Instant, gap: Duration, bursts: u32, packets: usize) -> Instant {
        let mut now = start;
        for _ in 0..bursts {
            now += gap * packets as u32;
            gather.received(now, packets, false);
        }
        now
    }

    #[test]
    fn packets_far_apart_are_taken_as_they_come() {
        let start = Instant::now();
        let mut gather = Gather::new(start);
        let now = after(&mut gather, start, Duration::from_micros(5), 100, 1);
        assert!(!gather.early(now));
    }

    #[test]
    fn close_packets_are_waited_for_and_never_for_long() {
        let start = Instant::now();
        let mut gather = Gather::new(start);
        let now = after(&mut gather, start, Duration::from_nanos(500), 100, 2);
        assert!(gather.early(now + Duration::from_micros(5)));
        assert!(!gather.early(now + LONGEST));
    }

    #[test]
    fn a_full_burst_is_followed_by_a_look_at_once_and_a_pause_ends_the_waiting() {
        let start = Instant::now();
        let mut gather = Gather::new(start);
        let now = after(&mut gather, start, Duration::from_nanos(500), 100, 2);
        gather.received(now + Duration::from_micros(1), 64, true);
        assert!(!gather.early(now + Duration::from_micros(1)));
        let now = now + Duration::from_millis(1);
        gather.received(now, 1, false);
        assert!(!gather.early(now));
    }
}
