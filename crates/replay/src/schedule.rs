//! Times at which the packets of a replay are due: those of the capture, at another speed, lap after lap.
//!
//! Each time is worked out by itself from the place in the capture and the number of the lap, as a fraction that is
//! rounded once: no error of one packet is carried to the next, nor from lap to lap.

use crate::reader::Facts;
use mpps_traffic::Speed;

/// ns of a second.
const SECOND: u128 = 1_000_000_000;

/// Schedule of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Packets of a lap.
    packets: u64,
    /// Time from the first packet to the last, ns.
    span_ns: u64,
    /// Time from the last packet of a lap to the first of the next, ns.
    gap_ns: u64,
    /// Number of laps; `None`: without end.
    laps: Option<u64>,
    /// Time that the replay takes over that of the capture, as a fraction of numbers below 2^63.
    scale: (u128, u128),
}

impl Schedule {
    /// Schedules so many laps of a capture's packets. From the last packet of a lap to the first of the next it is the
    /// mean interval of the capture, or 0 if that is one packet.
    pub fn new(facts: &Facts, laps: Option<u64>, speed: Speed) -> Self {
        let (numerator, denominator) = speed.parts();
        Self {
            packets: facts.packets,
            span_ns: facts.span_ns,
            gap_ns: facts.span_ns / facts.packets.saturating_sub(1).max(1),
            laps,
            scale: (denominator.into(), numerator.into()),
        }
    }

    /// Returns the schedule with so much time between two laps, ns of the capture.
    #[must_use]
    pub fn with_gap(self, gap_ns: u64) -> Self {
        Self { gap_ns, ..self }
    }

    /// Returns the schedule at another speed: that at which `num / den` packets per second leave on average, both above
    /// 0. Packets of a capture that takes no time are all due at the start.
    #[must_use]
    pub fn at_rate(self, num: u64, den: u64) -> Self {
        let takes = u128::from(self.packets)
            .saturating_mul(SECOND)
            .saturating_mul(den.into());
        let took = self.period_ns().saturating_mul(num.into());
        Self {
            scale: reduced(takes, took.max(1)),
            ..self
        }
    }

    /// Returns the mean rate, packets per second, as numerator and denominator; `None` if the capture takes no time.
    pub fn rate(&self) -> Option<(u64, u64)> {
        if self.packets == 0 || self.period_ns() == 0 {
            return None;
        }
        let (takes, took) = self.scale;
        let (num, den) = reduced(
            u128::from(self.packets).saturating_mul(SECOND).saturating_mul(took),
            self.period_ns().saturating_mul(takes),
        );
        (num > 0).then_some((num as u64, den as u64))
    }

    /// Returns the time of a lap in the capture, ns.
    pub fn period_ns(&self) -> u128 {
        u128::from(self.span_ns) + u128::from(self.gap_ns)
    }

    /// Returns when a packet of a lap (from 0) is due that is due `offset_ns` after the first in the capture: ns after
    /// the start of the replay, rounded down; `u64::MAX` for all that is later.
    #[inline]
    pub fn due_ns(&self, lap: u64, offset_ns: u64) -> u64 {
        let lap = u128::from(lap).checked_mul(self.period_ns());
        let ns = lap.and_then(|lap| lap.checked_add(offset_ns.into()));
        let (takes, took) = self.scale;
        if let Some(due) = ns.and_then(|ns| scaled(ns, takes, took)) {
            return due;
        }
        let due = ns.and_then(|ns| {
            let whole = (ns / took).checked_mul(takes)?;
            whole.checked_add((ns % took) * takes / took)
        });
        due.map_or(u64::MAX, |due| u64::try_from(due).unwrap_or(u64::MAX))
    }

    /// Returns the lap of packet `n` of the replay, and its place in the capture, all from 0; `None` behind the last.
    #[inline]
    pub fn place(&self, n: u64) -> Option<(u64, u64)> {
        let lap = n.checked_div(self.packets)?;
        (self.laps.is_none_or(|laps| lap < laps)).then(|| (lap, n % self.packets))
    }

    /// Returns the number of packets of all laps, `u64::MAX` if it is larger; `None`: they have no end.
    pub fn packets(&self) -> Option<u64> {
        match self.packets {
            0 => Some(0),
            packets => self.laps.map(|laps| packets.saturating_mul(laps)),
        }
    }

    /// Returns when the last packet is due, ns after the start; `None`: there is none, or no end.
    pub fn last_ns(&self) -> Option<u64> {
        let lap = self.laps?.checked_sub(1).filter(|_| self.packets > 0)?;
        Some(self.due_ns(lap, self.span_ns))
    }
}

/// Returns `ns * takes / took`, rounded down, if no step takes more than 64 bits.
#[inline]
fn scaled(ns: u128, takes: u128, took: u128) -> Option<u64> {
    let (ns, takes, took) = (u64::try_from(ns).ok()?, takes as u64, took as u64);
    if takes == took {
        return Some(ns);
    }
    let rest = (ns % took).checked_mul(takes)? / took;
    (ns / took).checked_mul(takes)?.checked_add(rest)
}

/// Returns a fraction without what both have in common, and of fewer digits if they have 2^63 or more.
fn reduced(mut num: u128, mut den: u128) -> (u128, u128) {
    let (mut a, mut b) = (num, den);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    (num, den) = (num / a.max(1), den / a.max(1));
    while num.max(den) >= 1 << 63 {
        (num, den) = (num >> 1, den >> 1);
    }
    (num, den.max(1))
}
