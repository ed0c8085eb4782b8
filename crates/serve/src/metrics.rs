//! The metrics in Prometheus' text format 0.0.4.
//!
//! Names and types follow <https://prometheus.io/docs/practices/naming/>: base units, `_total` on counters only, and
//! what can fall (packets lost, when they come late) is a gauge.

use crate::buckets::Buckets;
use crate::state::{About, Phase, State};
use mpps_stats::Latency;
use mpps_stats::fields::{FAULTS, Fault};
use std::fmt::{Display, Write};
use std::sync::Arc;

/// Value of `Content-Type`, exactly so: Prometheus 3 refuses any other.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics: name, type and help text. One more per entry of [`FAULTS`] is added to them.
const NAMES: &[(&str, &str, &str)] = &[
    (
        "mpps_run_info",
        "gauge",
        "What runs: command, path, device and version.",
    ),
    (
        "mpps_run_state",
        "gauge",
        "1 for the state that the run is in: waiting, running, settling, between trials, ended.",
    ),
    (
        "mpps_run_start_time_seconds",
        "gauge",
        "Start of the run, or of the newest trial of a method, since 1970.",
    ),
    ("mpps_run_elapsed_seconds", "gauge", "Time since that start."),
    (
        "mpps_run_settling",
        "gauge",
        "1 while sending is over and packets under way are waited for.",
    ),
    (
        "mpps_run_trials",
        "gauge",
        "Trials begun: 1, of a method one after another.",
    ),
    (
        "mpps_run_valid",
        "gauge",
        "1: the numbers can be believed, 0: they can't; only once the run is over.",
    ),
    (
        "mpps_expectation_met",
        "gauge",
        "1 for each --expect that was met, 0 for others; only once the run is over.",
    ),
    (
        "mpps_transmitted_packets_total",
        "counter",
        "Packets sent. Counters are of all trials, read every 250 ms.",
    ),
    ("mpps_received_packets_total", "counter", "Packets received."),
    (
        "mpps_settled_transmitted_packets_total",
        "counter",
        "Packets sent of which it is known what became of them: the base of loss.",
    ),
    (
        "mpps_settled_lost_packets",
        "gauge",
        "Of these, packets lost. It falls when packets come late: delta(), not rate().",
    ),
    (
        "mpps_host_dropped_packets_total",
        "counter",
        "Packets that this host dropped before mpps could take them, where the path can tell.",
    ),
    (
        "mpps_host_wait_seconds_total",
        "counter",
        "Time for which scheduler and hypervisor kept lanes from running, over all lanes: of each lane, and steal.",
    ),
    (
        "mpps_intended_packets_per_second",
        "gauge",
        "Rate asked for; not there where none was.",
    ),
    ("mpps_link_up", "gauge", "0 while the device is down."),
    (
        "mpps_lane_transmitted_packets_total",
        "counter",
        "Packets that the lane sent.",
    ),
    (
        "mpps_lane_received_packets_total",
        "counter",
        "Frames that the lane received, the test's or not.",
    ),
    (
        "mpps_lane_host_dropped_packets_total",
        "counter",
        "Packets dropped before the lane could take them, where the path can tell.",
    ),
    (
        "mpps_lane_refused_packets_total",
        "counter",
        "Packets that the lane gave up because the path took none.",
    ),
    (
        "mpps_lane_busy_ratio",
        "gauge",
        "Share of its newest time that the lane spent in loops that moved something.",
    ),
    (
        "mpps_lane_not_running_seconds_total",
        "counter",
        "Time for which the lane waited for its core.",
    ),
    (
        "mpps_stream_settled_transmitted_packets_total",
        "counter",
        "Packets of the stream that were sent and of which it is known what became of them. Of 256 streams at most.",
    ),
    (
        "mpps_stream_settled_received_packets_total",
        "counter",
        "Of these, packets received.",
    ),
    (
        "mpps_stream_settled_lost_packets",
        "gauge",
        "Of these, packets lost. It falls when packets come late: delta(), not rate().",
    ),
    (
        "mpps_group_settled_transmitted_packets_total",
        "counter",
        "The same of a group of streams. Of 256 groups at most.",
    ),
    (
        "mpps_group_settled_received_packets_total",
        "counter",
        "Of these, packets received.",
    ),
    (
        "mpps_group_settled_lost_packets",
        "gauge",
        "Of these, packets lost. It falls when packets come late: delta(), not rate().",
    ),
    (
        "mpps_latency_seconds",
        "histogram",
        "Latency from the actual time of sending.",
    ),
    (
        "mpps_latency_scheduled_seconds",
        "histogram",
        "Latency from the scheduled time of sending.",
    ),
    (
        "mpps_latency_arrival_seconds",
        "histogram",
        "Latency from the actual time of sending to the arrival that kernel or card have noted.",
    ),
    (
        "mpps_wake_up_seconds",
        "histogram",
        "Time from the arrival to the lane's reading.",
    ),
    (
        "mpps_row_latency_seconds",
        "gauge",
        "Percentiles of the newest row, from its own histogram.",
    ),
    (
        "mpps_search_bound_packets_per_second",
        "gauge",
        "What a search knows: highest rate that passed (lower), lowest that did not (upper).",
    ),
];

/// Returns all metrics: name, type and help text.
pub fn metrics() -> Vec<(String, &'static str, String)> {
    let owned = |(name, kind, help): &(&str, &'static str, &str)| (name.to_string(), *kind, help.to_string());
    let mut all: Vec<_> = NAMES.iter().map(owned).collect();
    let faults = FAULTS.iter().map(|fault| {
        let mut about = fault.about().chars();
        let first = about.next().map(|first| first.to_ascii_uppercase());
        let help = first.into_iter().chain(about).chain(['.']).collect();
        (metric(fault), "counter", help)
    });
    all.extend(faults);
    all
}

/// Returns the metric of a fault.
fn metric(fault: &Fault) -> String {
    format!("mpps_{}_total", fault.column)
}

const STATES: [Phase; 5] = [
    Phase::Waiting,
    Phase::Running,
    Phase::Settling,
    Phase::Between,
    Phase::Ended,
];

/// Returns the text of all metrics.
pub fn text(state: &State) -> String {
    text_of(state, &[])
}

/// Returns the same text with further labels on every metric, name and value, that differ from run to run. So texts of
/// several runs can be read together: the textfile collector of the node exporter refuses all of them if two have a
/// metric with the same labels.
pub(crate) fn text_of(state: &State, of_run: &[(&str, String)]) -> String {
    text_with(state, of_run, |_| true)
}

/// Returns the same text for a run that failed: its labels, and that it is over and not valid. No measurements are
/// kept.
pub(crate) fn text_of_failed(about: About, of_run: &[(&str, String)]) -> String {
    text_without_result(about, Phase::Ended, Some(false), of_run)
}

/// Returns the text of a run that has not opened anything so far.
pub(crate) fn text_of_begun(about: About, of_run: &[(&str, String)]) -> String {
    text_without_result(about, Phase::Waiting, None, of_run)
}

fn text_without_result(about: About, phase: Phase, valid: Option<bool>, of_run: &[(&str, String)]) -> String {
    let state = State {
        about: Arc::new(about),
        phase,
        valid,
        ..State::default()
    };
    let known = ["mpps_run_info", "mpps_run_state", "mpps_run_valid"];
    text_with(&state, of_run, |name| known.contains(&name))
}

fn text_with(state: &State, of_run: &[(&str, String)], wanted: impl Fn(&str) -> bool) -> String {
    let mut all = Text {
        text: String::new(),
        of_run,
    };
    for (name, kind, help) in metrics().into_iter().filter(|(name, ..)| wanted(name)) {
        let before = all.text.len();
        // Writing to a String does not fail.
        let _ = write!(all.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        let head = all.text.len();
        put(&mut all, &name, state);
        if all.text.len() == head {
            all.text.truncate(before);
        }
    }
    all.text
}

struct Text<'l> {
    text: String,
    /// First labels of every metric.
    of_run: &'l [(&'l str, String)],
}

impl Text<'_> {
    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(name);
        let mut open = '{';
        let of_run = self.of_run.iter().map(|(label, text)| (*label, text.as_str()));
        for (label, text) in of_run.chain(labels.iter().copied()) {
            let _ = write!(self.text, "{open}{label}=\"{}\"", escaped(text));
            open = ',';
        }
        if open == ',' {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.line(name, labels, value);
    }

    fn count(&mut self, name: &str, value: u64) {
        self.line(name, &[], value);
    }

    fn histogram(&mut self, name: &str, of: &Buckets) {
        if of.count == 0 {
            return;
        }
        let bucket = format!("{name}_bucket");
        for (end_ns, packets) in of.up_to() {
            self.line(&bucket, &[("le", &(end_ns as f64 / 1e9).to_string())], packets);
        }
        self.line(&bucket, &[("le", "+Inf")], of.count);
        self.line(&format!("{name}_sum"), &[], of.sum_ns / 1e9);
        self.line(&format!("{name}_count"), &[], of.count);
    }
}

/// Returns a label's value with escapes, backslashes first. Characters that a terminal would obey are replaced.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    mpps_sys::text::plain(&text, '\u{fffd}')
}

fn put(all: &mut Text, name: &str, state: &State) {
    let (counts, start) = (&state.counts, &state.start);
    let seconds = |ns: u64| ns as f64 / 1e9;
    let begun = state.trial > 0;
    match name {
        "mpps_run_info" => {
            let about = &state.about;
            let labels = [
                ("workload", about.workload.as_str()),
                ("path", &about.path),
                ("device", &about.device),
                ("version", &about.version),
            ];
            all.value(name, &labels, 1.0);
        }
        "mpps_run_state" => {
            for of in STATES {
                all.value(name, &[("state", of.name())], f64::from(u8::from(of == state.phase)));
            }
        }
        "mpps_run_start_time_seconds" if begun => all.value(name, &[], seconds(start.started.utc_ns)),
        "mpps_run_elapsed_seconds" if begun => all.value(name, &[], seconds(state.elapsed_ns)),
        "mpps_run_settling" => all.count(name, u64::from(state.phase == Phase::Settling)),
        "mpps_run_trials" => all.count(name, state.trial),
        "mpps_run_valid" => {
            if let Some(valid) = state.valid {
                all.count(name, u64::from(valid));
            }
        }
        "mpps_expectation_met" => {
            for (expected, met) in &state.expectations {
                all.value(name, &[("expression", expected)], f64::from(u8::from(*met)));
            }
        }
        "mpps_transmitted_packets_total" => all.count(name, counts.tx),
        "mpps_received_packets_total" => all.count(name, counts.rx),
        "mpps_settled_transmitted_packets_total" => all.count(name, counts.settled_tx),
        "mpps_settled_lost_packets" => all.value(name, &[], counts.settled_lost as f64),
        "mpps_host_dropped_packets_total" => {
            if let Some(dropped) = counts.host_dropped {
                all.count(name, dropped);
            }
        }
        "mpps_host_wait_seconds_total" => all.value(name, &[], seconds(counts.host_wait_ns)),
        "mpps_intended_packets_per_second" => {
            if let Some(pps) = start.intended_at(state.elapsed_ns).filter(|_| begun) {
                all.value(name, &[], pps);
            }
        }
        "mpps_link_up" if begun => all.count(name, u64::from(!state.lanes.iter().any(|lane| lane.down))),
        "mpps_latency_seconds" => all.histogram(name, &state.latency),
        "mpps_latency_scheduled_seconds" => all.histogram(name, &state.scheduled),
        "mpps_latency_arrival_seconds" => all.histogram(name, &state.arrival),
        "mpps_wake_up_seconds" => all.histogram(name, &state.wake_up),
        "mpps_row_latency_seconds" => row_latency(all, name, state.recent.as_ref()),
        "mpps_search_bound_packets_per_second" => {
            for goal in &state.goals {
                let size = goal.frame_size.to_string();
                for (bound, pps) in [("lower", goal.lower), ("upper", goal.upper)] {
                    let labels = [("goal", goal.name.as_str()), ("frame_size", &size), ("bound", bound)];
                    if let Some(pps) = pps {
                        all.value(name, &labels, pps as f64);
                    }
                }
            }
        }
        _ => match FAULTS.iter().find(|fault| metric(fault) == name) {
            Some(fault) => all.count(name, counts.fault(fault.key)),
            None => {
                of_lanes(all, name, state);
                of_streams(all, name, state);
            }
        },
    }
}

fn row_latency(all: &mut Text, name: &str, recent: Option<&Latency>) {
    let Some(percentiles) = recent.and_then(|latency| latency.percentiles) else {
        return;
    };
    for (percentile, ns) in [
        ("50", percentiles.p50),
        ("90", percentiles.p90),
        ("99", percentiles.p99),
        ("99.9", percentiles.p999),
    ] {
        all.value(name, &[("percentile", percentile)], ns as f64 / 1e9);
    }
}

fn of_lanes(all: &mut Text, name: &str, state: &State) {
    for (number, lane) in state.lanes.iter().enumerate() {
        let value = match name {
            "mpps_lane_transmitted_packets_total" => Some(lane.tx as f64),
            "mpps_lane_received_packets_total" => Some(lane.rx as f64),
            "mpps_lane_host_dropped_packets_total" => lane.dropped.map(|dropped| dropped as f64),
            "mpps_lane_refused_packets_total" => Some(lane.refused as f64),
            "mpps_lane_busy_ratio" => lane.busy,
            "mpps_lane_not_running_seconds_total" => lane.not_running_ns.map(|ns| ns as f64 / 1e9),
            _ => None,
        };
        if let Some(value) = value {
            let (number, queue) = (number.to_string(), lane.queue.to_string());
            all.value(name, &[("lane", &number), ("queue", &queue)], value);
        }
    }
}

fn of_streams(all: &mut Text, name: &str, state: &State) {
    for of in state.streams.all() {
        let kind = of.kind.as_str();
        let Some(what) = name.strip_prefix("mpps_").and_then(|name| name.strip_prefix(kind)) else {
            continue;
        };
        let labels = [(kind, &*of.name)];
        match what {
            "_settled_transmitted_packets_total" => all.line(name, &labels, of.tx),
            "_settled_received_packets_total" => all.line(name, &labels, of.rx),
            "_settled_lost_packets" => all.line(name, &labels, of.lost),
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
