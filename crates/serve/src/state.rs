//! What is known of a run, or of the trials of a method, at one time.

use crate::buckets::Buckets;
use crate::spread::Spread;
use mpps_stats::fields::FAULTS;
use mpps_stats::{Latency, LiveLane, Start, WaySnapshot, count};
use mpps_trace::Stage;
use serde_json::Value;
use std::sync::Arc;

/// By how much of a second departures may be late at the end of a row: twice what --catch-up allows by default.
const LATE_S: f64 = 0.01;

/// What is known before the first packet.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Of mpps.
    pub version: String,
    /// The command: `sendrecv`, `ndr`, ….
    pub workload: String,
    /// The path or paths, separated by commas.
    pub path: String,
    /// The device or devices, separated by commas.
    pub device: String,
    /// The command line.
    pub command: Vec<String>,
    /// It has one trial, which is all of it.
    pub single: bool,
}

/// What a trial of a method is for.
#[derive(Clone, Debug, Default)]
pub struct TrialAbout {
    /// `search`, `latency`, ….
    pub phase: String,
    /// With FCS, bytes.
    pub frame_size: usize,
    /// Packets per second; `None`: as fast as can be.
    pub load_pps: Option<u64>,
}

/// A rate that is searched for, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Goal {
    /// The loss that is allowed.
    pub name: String,
    /// With FCS, bytes.
    pub frame_size: usize,
    /// Highest rate that has passed, packets per second.
    pub lower: Option<u64>,
    /// Lowest rate that has not.
    pub upper: Option<u64>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It has not begun.
    #[default]
    Waiting,
    /// A trial sends, or receives.
    Running,
    /// A trial waits for packets that are under way.
    Settling,
    /// A trial is over; others may come.
    Between,
    /// All is over.
    Ended,
}

impl Phase {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Settling => "settling",
            Self::Between => "between trials",
            Self::Ended => "ended",
        }
    }
}

/// Packets counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) tx: u64,
    pub(crate) rx: u64,
    pub(crate) settled_tx: u64,
    pub(crate) settled_lost: i64,
    /// As [`FAULTS`].
    pub(crate) faults: [u64; FAULTS.len()],
    pub(crate) host_dropped: Option<u64>,
    pub(crate) host_wait_ns: u64,
}

impl Counts {
    /// How many there are of the fault of this key.
    pub(crate) fn fault(&self, key: &str) -> u64 {
        let of = FAULTS.iter().zip(self.faults).find(|(fault, _)| fault.key == key);
        of.map_or(0, |(_, packets)| packets)
    }

    pub(crate) fn plus(&self, more: &Self) -> Self {
        Self {
            tx: self.tx + more.tx,
            rx: self.rx + more.rx,
            settled_tx: self.settled_tx + more.settled_tx,
            settled_lost: self.settled_lost + more.settled_lost,
            faults: std::array::from_fn(|at| self.faults[at] + more.faults[at]),
            host_dropped: match (self.host_dropped, more.host_dropped) {
                (None, None) => None,
                (a, b) => Some(a.unwrap_or(0) + b.unwrap_or(0)),
            },
            host_wait_ns: self.host_wait_ns + more.host_wait_ns,
        }
    }
}

/// A lane.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LaneState {
    pub(crate) queue: usize,
    pub(crate) tx: u64,
    pub(crate) rx: u64,
    pub(crate) refused: u64,
    pub(crate) dropped: Option<u64>,
    pub(crate) not_running_ns: Option<u64>,
    /// Share of the newest stretch that it spent in loops that moved something.
    pub(crate) busy: Option<f64>,
    /// Its device was down in the newest stretch.
    pub(crate) down: bool,
    /// Rates of the newest stretch, packets/s.
    pub(crate) tx_pps: f64,
    pub(crate) rx_pps: f64,
    /// Share of its receive rings that was taken in the newest stretch, on average; `None`: nobody looked.
    pub(crate) fill: Option<f64>,
    /// The highest share since the reading before.
    pub(crate) highest_fill: f64,
}

impl LaneState {
    /// With what was counted in earlier trials. `before`: so many ns before `now`.
    pub(crate) fn of(now: &LiveLane, (before, passed_ns): (&LiveLane, u64), base: &Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0) + b.unwrap_or(0)),
        };
        let newest = now.since(before);
        let (looped, looks) = (newest.loop_ns, newest.rx_fill_looks);
        let rate = |packets: u64| packets as f64 / passed_ns.max(1) as f64 * 1e9;
        Self {
            queue: now.queue,
            tx: base.tx + now.tx_packets,
            rx: base.rx + now.rx_packets,
            refused: base.refused + now.tx_given_up,
            dropped: sum(base.dropped, now.rx_dropped),
            not_running_ns: sum(base.not_running_ns, now.not_running_ns),
            busy: (looped > 0).then(|| (newest.busy_ns as f64 / looped as f64).min(1.0)),
            down: newest.down_ns > 0,
            tx_pps: rate(newest.tx_packets),
            rx_pps: rate(newest.rx_packets),
            fill: (looks > 0).then(|| newest.rx_fill_sum_ppm as f64 / looks as f64 / 1e6),
            highest_fill: now.rx_fill_highest_ppm as f64 / 1e6,
        }
    }
}

/// What is known of a run. Counts are over all of its trials, of which a method has many.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub(crate) about: Arc<About>,
    pub(crate) phase: Phase,
    /// Number of the trial, from 1.
    pub(crate) trial: u64,
    pub(crate) trial_about: Option<TrialAbout>,
    pub(crate) goals: Vec<Goal>,
    /// Of the newest trial.
    pub(crate) start: Start,
    pub(crate) elapsed_ns: u64,
    pub(crate) planned_ns: Option<u64>,
    /// Time of the rows that have closed, ns since the start.
    pub(crate) closed_ns: u64,
    pub(crate) counts: Counts,
    /// As `counts`, of the newest trial alone.
    pub(crate) of_trial: Counts,
    pub(crate) tx_pps: f64,
    pub(crate) rx_pps: f64,
    pub(crate) recent_loss: f64,
    pub(crate) latency: Buckets,
    pub(crate) scheduled: Buckets,
    /// The same, for percentiles.
    pub(crate) latency_spread: Spread,
    pub(crate) scheduled_spread: Spread,
    /// Of the newest row that had any; of all packets once a single run has ended.
    pub(crate) recent: Option<Latency>,
    pub(crate) recent_scheduled: Option<Latency>,
    pub(crate) lanes: Vec<LaneState>,
    /// What the lanes did in the last second: the share of each stage.
    pub(crate) stages: [f64; Stage::COUNT],
    pub(crate) ways: Vec<WaySnapshot>,
    /// What the user was told, the oldest first.
    pub(crate) notes: Vec<Arc<str>>,
    /// The numbers can be believed; once it is over.
    pub(crate) valid: Option<bool>,
    /// What was expected, and whether it was met; once it is over.
    pub(crate) expectations: Vec<(String, bool)>,
    /// The result as the page shows it, once it is over.
    pub(crate) end: Option<Arc<Value>>,
}

impl State {
    /// Whether all is over.
    pub(crate) fn ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// What speaks against the trial at hand so far. The verdict, at the end, looks at more than this.
    pub(crate) fn against(&self) -> Vec<String> {
        let (of, mut all) = (&self.of_trial, Vec::new());
        let due = self
            .start
            .due_by(self.closed_ns.min(self.planned_ns.unwrap_or(u64::MAX)));
        if let Some(due) = due.filter(|due| *due >= 1.0 && self.start.workload.generates()) {
            // What left a little late is in the next row: it is behind, and not missing.
            let behind = self.start.intended_at(self.closed_ns).unwrap_or(0.0) * LATE_S;
            let missing = (due - of.settled_tx as f64 - behind).max(of.fault("missed") as f64);
            if missing > self.start.tolerance * due && missing > self.lanes.len().max(1) as f64 + 1.0 {
                all.push(format!(
                    "{:.3} % fewer packets sent than were due ({:.3} % are allowed)",
                    missing / due * 100.0,
                    self.start.tolerance * 100.0
                ));
            }
        }
        if let Some(dropped) = of.host_dropped.filter(|dropped| *dropped > 0) {
            all.push(format!("{} packets dropped by this host", count(dropped)));
        }
        if of.settled_tx > 0 && of.rx == 0 && self.start.workload == mpps_stats::Workload::SendRecv {
            all.push("nothing has come back".to_owned());
        }
        if self.lanes.iter().any(|lane| lane.down) {
            all.push("the device is down".to_owned());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_stats::Workload;

    #[test]
    fn what_speaks_against_a_run_is_told_and_nothing_else() {
        let mut state = State {
            start: Start {
                workload: Workload::SendRecv,
                intended_pps: Some(1000.0),
                tolerance: 0.001,
                ..Start::default()
            },
            closed_ns: 10_000_000_000,
            ..State::default()
        };
        state.of_trial = Counts {
            settled_tx: 9_995,
            rx: 9_000,
            host_dropped: Some(0),
            ..Counts::default()
        };
        assert!(state.against().is_empty());
        state.of_trial.settled_tx = 9_900;
        state.of_trial.host_dropped = Some(3);
        state.of_trial.rx = 0;
        let told = state.against();
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[0].starts_with("0.900 % fewer packets"), "{told:?}");
    }
}
