//! The known state of a run, or of the trials of a method, at one time.

use crate::buckets::Buckets;
use crate::spread::Spread;
use crate::streams::StreamSums;
use mpps_stats::fields::FAULTS;
use mpps_stats::{Latency, LiveLane, Start, TrackSnapshot, count};
use mpps_trace::Stage;
use serde_json::Value;
use std::sync::Arc;

/// Lateness of departures that is allowed at the end of a row, s: twice what --catch-up allows by default.
const LATE_S: f64 = 0.01;

/// Facts about a run that are known before the first packet.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Version of mpps.
    pub version: String,
    /// The command: `sendrecv`, `ndr`, ….
    pub workload: String,
    /// The path or paths, separated by commas.
    pub path: String,
    /// The device or devices, separated by commas.
    pub device: String,
    /// The command line.
    pub command: Vec<String>,
    /// Whether there is a single trial, which is the whole run.
    pub single: bool,
}

/// Purpose of a method's trial.
#[derive(Clone, Debug, Default)]
pub struct TrialAbout {
    /// `search`, `latency`, ….
    pub phase: String,
    /// Frame size with FCS, bytes.
    pub frame_size: usize,
    /// Packets per second; `None`: as fast as possible.
    pub load_pps: Option<u64>,
}

/// State of the search for a rate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Goal {
    /// Loss that is allowed.
    pub name: String,
    /// Frame size with FCS, bytes.
    pub frame_size: usize,
    /// Highest rate that has passed, packets per second.
    pub lower: Option<u64>,
    /// Lowest rate that has not passed, packets per second.
    pub upper: Option<u64>,
}

/// Phase of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The run has not begun.
    #[default]
    Waiting,
    /// A trial sends, or receives.
    Running,
    /// A trial waits for packets that are under way.
    Settling,
    /// A trial is over; others may follow.
    Between,
    /// The whole run is over.
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
    /// Packets of each fault, in the order of [`FAULTS`].
    pub(crate) faults: [u64; FAULTS.len()],
    pub(crate) host_dropped: Option<u64>,
    pub(crate) host_wait_ns: u64,
}

impl Counts {
    /// Returns the number of packets of the fault with this key.
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

/// State of a lane.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LaneState {
    pub(crate) queue: usize,
    pub(crate) tx: u64,
    pub(crate) rx: u64,
    pub(crate) refused: u64,
    pub(crate) dropped: Option<u64>,
    pub(crate) not_running_ns: Option<u64>,
    /// Share of the newest interval that the lane spent in loops that moved something.
    pub(crate) busy: Option<f64>,
    /// Whether its device was down in the newest interval.
    pub(crate) down: bool,
    /// Rates of the newest interval, packets/s.
    pub(crate) tx_pps: f64,
    pub(crate) rx_pps: f64,
    /// Average fill of its receive rings in the newest interval, as a share; `None`: nobody looked.
    pub(crate) fill: Option<f64>,
    /// Highest fill since the reading before.
    pub(crate) highest_fill: f64,
}

impl LaneState {
    /// Returns the state of a lane, with the counts of earlier trials added. `before` was read `passed_ns` ns before
    /// `now`.
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

/// The known state of a run. Counts are over all of its trials; a method has many.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub(crate) about: Arc<About>,
    pub(crate) phase: Phase,
    /// Number of the trial, from 1.
    pub(crate) trial: u64,
    pub(crate) trial_about: Option<TrialAbout>,
    pub(crate) goals: Vec<Goal>,
    /// Start of the newest trial.
    pub(crate) start: Start,
    pub(crate) elapsed_ns: u64,
    pub(crate) planned_ns: Option<u64>,
    /// End of the rows that have closed, ns since the start.
    pub(crate) closed_ns: u64,
    pub(crate) counts: Counts,
    /// Counts of the newest trial alone.
    pub(crate) of_trial: Counts,
    pub(crate) tx_pps: f64,
    pub(crate) rx_pps: f64,
    pub(crate) recent_loss: f64,
    pub(crate) latency: Buckets,
    pub(crate) scheduled: Buckets,
    pub(crate) arrival: Buckets,
    pub(crate) wake_up: Buckets,
    /// Latencies as spreads, for percentiles.
    pub(crate) latency_spread: Spread,
    pub(crate) scheduled_spread: Spread,
    pub(crate) arrival_spread: Spread,
    pub(crate) wake_up_spread: Spread,
    /// Latency of the newest row that had any; after a single run has ended, of all packets.
    pub(crate) recent: Option<Latency>,
    pub(crate) recent_scheduled: Option<Latency>,
    pub(crate) lanes: Vec<LaneState>,
    /// Packets of streams and groups, if the run has streams.
    pub(crate) streams: StreamSums,
    /// Share of each stage in the lanes' time of the last second.
    pub(crate) stages: [f64; Stage::COUNT],
    pub(crate) tracks: Vec<TrackSnapshot>,
    /// Notes to the user, the oldest first.
    pub(crate) notes: Vec<Arc<str>>,
    /// Whether the numbers can be trusted; `None` until the run is over.
    pub(crate) valid: Option<bool>,
    /// Demands and whether each was met; empty until the run is over.
    pub(crate) expectations: Vec<(String, bool)>,
    /// Result in the form that the page shows; `None` until the run is over.
    pub(crate) end: Option<Arc<Value>>,
}

impl State {
    /// Returns whether the whole run is over.
    pub(crate) fn ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Returns the reasons so far against the current trial. The verdict at the end checks more than these.
    pub(crate) fn against(&self) -> Vec<String> {
        let (of, mut all) = (&self.of_trial, Vec::new());
        let due = self
            .start
            .due_by(self.closed_ns.min(self.planned_ns.unwrap_or(u64::MAX)));
        if let Some(due) = due.filter(|due| *due >= 1.0 && self.start.workload.generates()) {
            // Packets that left a little late are in the next row: they are behind schedule, not missing.
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
