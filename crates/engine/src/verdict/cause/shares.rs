//! How lanes spent their time, as shares of it.

use super::{percent, times};
use crate::verdict::meanwhile::LaneTime;

/// Returns the sum over the lanes.
pub(super) fn sum(lanes: &[LaneTime], of: fn(&LaneTime) -> u64) -> u64 {
    lanes.iter().map(of).sum()
}

/// Returns how long the lane did not run though it was to, ns: it waited for its core, or was away from its clock.
pub(super) fn off_ns(lane: &LaneTime) -> u64 {
    lane.away_ns.max(lane.waited_ns.unwrap_or(0))
}

/// Returns how long something held the lane other than waiting for its core, ns.
pub(super) fn held_ns(lane: &LaneTime) -> u64 {
    lane.away_ns.saturating_sub(lane.waited_ns.unwrap_or(0))
}

/// Returns the share of its loops' time in which a lane moved something.
pub(super) fn busy(lane: &LaneTime) -> f64 {
    (lane.busy_ns as f64 / lane.loop_ns.max(1) as f64).min(1.0)
}

/// Lanes' time by use, as shares of it.
#[derive(Default)]
pub(super) struct Shares {
    pub(super) longest_ns: u64,
    pub(super) busy: f64,
    pub(super) blocked: f64,
    pub(super) waited: f64,
    pub(super) away: f64,
    pub(super) away_times: u64,
    down: f64,
    /// Whether the lanes loop, and whether it is measured how long they wait for a core.
    loops: bool,
    waits: bool,
}

impl Shares {
    pub(super) fn of(lanes: &[LaneTime]) -> Self {
        let all: u64 = lanes.iter().map(|lane| lane.ns).sum();
        let sum = |of: fn(&LaneTime) -> u64| sum(lanes, of);
        let share = |of: fn(&LaneTime) -> u64| (sum(of) as f64 / all.max(1) as f64).min(1.0);
        Self {
            longest_ns: lanes.iter().map(|lane| lane.ns).max().unwrap_or(0),
            busy: sum(|lane| lane.busy_ns) as f64 / sum(|lane| lane.loop_ns).max(1) as f64,
            blocked: share(|lane| lane.blocked_ns),
            waited: share(|lane| lane.waited_ns.unwrap_or(0)),
            away: share(|lane| lane.away_ns),
            away_times: sum(|lane| lane.away),
            down: share(|lane| lane.down_ns),
            loops: lanes.iter().any(|lane| lane.loop_ns > 0),
            waits: lanes.iter().any(|lane| lane.waited_ns.is_some()),
        }
    }

    /// Returns the share of the time for which lanes were away other than waiting for their cores.
    pub(super) fn held(&self) -> f64 {
        (self.away - self.waited).max(0.0)
    }

    /// Returns the measurements, for a sentence without a cause.
    pub(super) fn measured(&self, whose: &str) -> String {
        let mut parts = Vec::new();
        if self.loops {
            parts.push(format!("worked for {}", percent(self.busy)));
        }
        if self.waits {
            parts.push(format!("waited for their cores for {}", percent(self.waited)));
        }
        for (share, text) in [
            (self.blocked, "for room to send"),
            (self.down, "for a link that was down"),
        ] {
            if share > 0.0 {
                parts.push(format!("waited {text} for {}", percent(share)));
            }
        }
        if self.loops {
            parts.push(match self.away_times {
                0 if self.away == 0.0 => "were never away from their clocks for more than 1 ms".to_owned(),
                n => format!(
                    "were away from their clocks {}, for {}",
                    times(n.max(1)),
                    percent(self.away)
                ),
            });
        }
        match parts.as_slice() {
            [] => "nothing was measured of the lanes".to_owned(),
            [all @ .., last] if !all.is_empty() => format!("{whose} {} and {last}", all.join(", ")),
            [one, ..] => format!("{whose} {one}"),
        }
    }
}
