//! The JSON summary. Its keys are a contract: they change by addition only.

mod file;
pub mod keys;
mod lane;
mod run;
mod stream;

pub use file::{JsonSink, JsonWritten, write_json};
pub(crate) use lane::ASSUMED;

use keys::object;
use mpps_stats::{
    CaptureSummary, Direction, Expectation, Housekeeping, Known, Latency, LossTimes, Outage, PortSummary, Remark,
    SampleSummary, Stretch, Stretches, Summary, Withheld, Workload,
};
use mpps_trace::{ProgramRow, StageRow};
use run::RUN;
use serde_json::{Map, Value, json};

/// Bytes that a frame takes on layer 1 beyond its own: preamble, start of frame delimiter and gap (IEEE 802.3).
pub(crate) const LAYER1_OVERHEAD: usize = 20;

/// Returns the text of the JSON summary: [`json_value`], indented, with a final newline.
pub fn json_text(summary: &Summary) -> String {
    mpps_sys::text::json(format!("{:#}\n", json_value(summary)))
}

/// Returns the name of a workload on the command line: `sendrecv`, `send`, ….
pub fn workload_name(workload: Workload) -> &'static str {
    match workload {
        Workload::SendRecv => "sendrecv",
        Workload::Send => "send",
        Workload::Drop => "drop",
        Workload::Reflect => "reflect",
        Workload::Forward => "forward",
        Workload::Capture => "capture",
    }
}

/// Returns a rate in bit/s on layer 1; `None` when the frame size is unknown.
pub(crate) fn layer1_bps(pps: f64, frame_size: usize) -> Option<f64> {
    layer1_of(pps, frame_size as f64)
}

/// Returns a rate like [`layer1_bps`], of frames with this mean length.
pub(crate) fn layer1_of(pps: f64, frame_size: f64) -> Option<f64> {
    (frame_size > 0.0 && pps.is_finite()).then_some(pps * ((frame_size + LAYER1_OVERHEAD as f64) * 8.0))
}

/// Returns the summary as JSON. Numbers are finite; a value that was not measured is `null`.
pub fn json_value(s: &Summary) -> Value {
    Value::Object(object(&RUN, s))
}

/// Returns the reasons why a run is not valid, and then its warnings.
fn remarks(s: &Summary) -> Value {
    let reasons = s.invalid_reasons.iter().map(|of| remark(of, true));
    reasons.chain(s.warnings.iter().map(|of| remark(of, false))).collect()
}

/// Returns a remark, which makes the run `invalid` or not.
fn remark(of: &Remark, invalid: bool) -> Value {
    let values = of.values.iter().map(|(key, value)| ((*key).to_owned(), json!(value)));
    json!({
        "name": of.name.as_str(),
        "invalid": invalid,
        "sentence": of.sentence,
        "values": values.collect::<Map<_, _>>(),
    })
}

/// A quota that withheld CPU time.
fn withheld(of: &Withheld) -> Value {
    json!({
        "group": of.group,
        "quota_us": of.granted_us.map(|(quota, _)| quota),
        "period_us": of.granted_us.map(|(_, period)| period),
        "periods": of.periods,
        "throttled_periods": of.throttled,
        "withheld_ns": of.ns,
    })
}

fn expectation(of: &Expectation) -> Value {
    json!({
        "expected": of.expected,
        "measured": of.measured,
        "told": of.told,
        "met": of.met,
        "note": of.note,
    })
}

/// Returns a row of the stage table, with values derived from it.
fn stage(row: &StageRow) -> Value {
    let mut value = json!(row);
    if let Value::Object(object) = &mut value {
        object.extend([
            ("packets_per_call".to_owned(), Value::from(row.packets_per_call())),
            ("ns_per_packet".to_owned(), Value::from(row.ns_per_packet())),
            ("ns_per_call".to_owned(), Value::from(row.ns_per_call())),
        ]);
    }
    value
}

/// Returns a row of the table of programs, with values derived from it.
fn program(row: &ProgramRow) -> Value {
    let mut value = json!(row);
    if let Value::Object(object) = &mut value {
        object.extend([
            ("packets_per_run".to_owned(), Value::from(row.packets_per_run())),
            ("ns_per_packet".to_owned(), Value::from(row.ns_per_packet())),
            ("ns_per_run".to_owned(), Value::from(row.ns_per_run())),
        ]);
    }
    value
}

/// Returns one of several directions: its name, and everything that the summary of a run has.
fn direction(direction: &Direction) -> Value {
    let mut all = Map::from_iter([("name".to_owned(), Value::from(direction.name))]);
    if let Value::Object(summary) = json_value(&direction.summary) {
        all.extend(summary);
    }
    // These fields belong to the whole run.
    for key in ["command", "plan", "directions"] {
        all.remove(key);
    }
    Value::Object(all)
}

/// Returns times of losses, ns since the start of the run.
fn loss_times(times: &LossTimes) -> Value {
    json!({
        "first_lost_ns": times.first_ns,
        "last_lost_ns": times.last_ns,
        "received_after_ns": times.received_after_ns,
    })
}

/// Returns the longest outage, ns since the start of the run.
fn longest_outage(outage: &Outage) -> Value {
    json!({
        "from_ns": outage.from_ns,
        "to_ns": outage.to_ns,
        "length_ns": outage.to_ns.saturating_sub(outage.from_ns),
        "lost": outage.lost,
    })
}

/// Returns the largest stretches, in the order of time.
fn stretches(of: &Stretches, count: &str) -> Value {
    let one = |s: &Stretch| json!({ "from_s": s.from_ns as f64 / 1e9, "to_s": s.to_ns as f64 / 1e9, count: s.packets });
    of.named().largest.iter().map(one).collect()
}

/// Returns the other stretches, and packets found after a stretch had ended: `count` of the stretches + this - found =
/// the total.
fn outside(of: &Stretches, count: &str) -> Value {
    let of = of.named();
    json!({ "stretches": of.more, count: of.more_packets, "found_later": of.found_later })
}

fn housekeeping(h: &Housekeeping) -> Value {
    json!({
        "cpu_ns": h.cpu_ns,
        "core_percent": h.cpu_ns as f64 / h.run_ns.max(1) as f64 * 100.0,
        "longest_ns": h.longest_ns,
        "threads": counters(&h.threads),
    })
}

/// Returns a time of day, ns since 1970, in the form of RFC 3339, to the ns, in UTC.
pub fn rfc3339(ns: u64) -> String {
    let (seconds, ns) = (ns / 1_000_000_000, ns % 1_000_000_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days since 0000-03-01, so that a leap day is the last of its year.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ns:09}Z")
}

fn capture(c: &CaptureSummary) -> Value {
    json!({
        "snap_len_bytes": c.snap_len,
        "received": c.received,
        "taken": c.taken,
        "written": c.written,
        "dropped": { "ring_full": c.dropped_ring, "write_error": c.dropped_write },
        "written_bytes": c.bytes,
        "files": c.files,
        "files_removed": c.files_removed,
        "failure": c.failure,
    })
}

fn sample(s: &SampleSummary) -> Value {
    json!({
        "file": s.file,
        "every": s.every,
        "snap_len_bytes": s.snap_len,
        "received": s.received,
        "sent": s.sent,
        "written": s.written,
        "dropped": { "ring_full": s.dropped_ring, "write_error": s.dropped_write },
        "written_bytes": s.bytes,
        "failure": s.failure,
    })
}

fn port(p: &PortSummary) -> Value {
    json!({
        "port": p.port,
        "rx_packets": p.rx_packets,
        "rx_bytes": p.rx_bytes,
        "tx_packets": p.tx_packets,
        "reasons": counters(&p.reasons),
        "rx_dropped": p.rx_dropped,
        "tx_failed": p.tx_failed,
        "path_counters": counters(&p.path_counters),
    })
}

/// Returns min to max; all `null` when nothing was measured.
fn latency(l: &Latency) -> Map<String, Value> {
    let measured = |value: u64| if l.count > 0 { Value::from(value) } else { Value::Null };
    let percentile = |value: Option<u64>| value.map_or(Value::Null, measured);
    let mut object = Map::new();
    let mut put = |key: &str, value| object.insert(key.to_owned(), value);
    put("min", measured(l.min));
    put("mean", (l.count > 0).then_some(l.mean).into());
    put("p50", percentile(l.percentiles.map(|p| p.p50)));
    put("p90", percentile(l.percentiles.map(|p| p.p90)));
    put("p99", percentile(l.percentiles.map(|p| p.p99)));
    put("p999", percentile(l.percentiles.map(|p| p.p999)));
    put("max", measured(l.max));
    put("count", Value::from(l.count));
    object
}

fn counters(counters: &[(String, u64)]) -> Map<String, Value> {
    counters
        .iter()
        .map(|(name, count)| (name.clone(), Value::from(*count)))
        .collect()
}

/// Returns a part of a whole, 0 to 1; 0 when the whole is 0.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Returns a fact about the run's surroundings.
fn known(known: &Known) -> Value {
    let seconds = |ns: u64| Value::from(ns as f64 / 1e9);
    let once = match known.when_ns[..] {
        [once] => Some(once),
        _ => None,
    };
    json!({
        "kind": known.kind.as_str(),
        "sentence": known.sentence,
        "packets": known.packets,
        "from_s": once.map(|(from, _)| seconds(from)),
        "to_s": once.map(|(_, to)| seconds(to)),
    })
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn times_of_day_are_written_as_date_says_them() {
        // `date -u -d @N +%FT%T.%NZ`.
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000000007Z"),
            (951_782_400, "2000-02-29T00:00:00.000000007Z"),
            (1_077_926_399, "2004-02-27T23:59:59.000000007Z"),
            (1_767_225_599, "2025-12-31T23:59:59.000000007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000007Z"),
        ] {
            assert_eq!(rfc3339(seconds * 1_000_000_000 + 7), text);
        }
    }
}
