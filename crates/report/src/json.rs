//! The JSON summary. Its keys are a contract: they change by addition only.

mod file;
mod lane;

pub use file::{JsonSink, JsonWritten, write_json};
pub(crate) use lane::ASSUMED;

use lane::lane;
use mpps_stats::fields::FAULTS;
use mpps_stats::{
    CaptureSummary, Direction, Expectation, Housekeeping, Known, Latency, LossTimes, Outage, PortSummary,
    SampleSummary, Stretch, Stretches, Summary, Withheld, Workload,
};
use mpps_trace::{ProgramRow, StageRow};
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
    (frame_size > 0 && pps.is_finite()).then(|| pps * ((frame_size + LAYER1_OVERHEAD) * 8) as f64)
}

/// Returns the summary as JSON. Numbers are finite; a value that was not measured is `null`.
pub fn json_value(s: &Summary) -> Value {
    let mut all = measured(s);
    all.extend(all_of(circumstances(s)));
    Value::Object(all)
}

/// Returns the counts and times of a run.
fn measured(s: &Summary) -> Map<String, Value> {
    // Rates of a sender are given however short the run was: the verdict says so if it was too short.
    let tells = s.workload.generates() || s.tells_rate();
    let (offered, received) = (tells.then_some(s.offered_pps), tells.then_some(s.received_pps));
    let layer1 = |pps: Option<f64>| pps.and_then(|pps| layer1_bps(pps, s.frame_size));
    let counted = json!({
        "workload": workload_name(s.workload),
        // In hexadecimal, because not every reader of JSON has 64-bit integers.
        "run_id": format!("{:016x}", s.run_id),
        "tx_packets": s.tx,
        "rx_packets": s.rx,
        "lost": s.lost,
        "loss_stretches": stretches(&s.loss_stretches, "lost"),
        "loss_outside_stretches": outside(&s.loss_stretches, "lost"),
        "loss_times": s.loss_times.as_ref().map(loss_times),
        "longest_outage": s.longest_outage.as_ref().map(longest_outage),
        "host_dropped": s.host_dropped,
        "host_drop_stretches": stretches(&s.host_drop_stretches, "dropped"),
        "host_dropped_outside_stretches": outside(&s.host_drop_stretches, "dropped"),
        "kernel_drops": s.kernel_drops.as_ref().map(|drops| kernel_drops(drops)),
    });
    let mut all = all_of(counted);
    all.extend(
        FAULTS
            .iter()
            .map(|fault| (fault.key.to_owned(), (fault.of_run)(s).into())),
    );
    all.extend(all_of(json!({
        "due_packets": s.due,
        "intended_pps": s.intended_pps.map(number),
        "offered_pps": offered.map(number),
        "received_pps": received.map(number),
        "frame_size_bytes": (s.frame_size > 0).then_some(s.frame_size),
        "intended_bps": s.intended_pps.and_then(|pps| layer1_bps(pps, s.frame_size)),
        "offered_bps": layer1(offered),
        "received_bps": layer1(received),
        "loss_ratio": number(s.loss_ratio),
        "duration_s": number(s.duration_ns as f64 / 1e9),
        "latency_ns": latency(&s.latency),
        "latency_scheduled_ns": s.latency_scheduled.as_ref().map(latency),
        "latency_note": s.latency_note,
        "reorder_distance": { "max": s.reorder_distance.max, "mean": number(s.reorder_distance.mean) },
        "departure_gap_ns": s.gaps.as_ref().map(|gaps| {
            let mut object = distribution(&gaps.measured);
            let intended = if gaps.intended_mean > 0.0 { number(gaps.intended_mean) } else { Value::Null };
            object.insert("intended_mean".to_owned(), intended);
            object
        }),
    })));
    all
}

/// Returns the keys and values of an object.
fn all_of(object: Value) -> Map<String, Value> {
    match object {
        Value::Object(all) => all,
        _ => Map::new(),
    }
}

/// Returns the verdict, and the circumstances of the measurement.
fn circumstances(s: &Summary) -> Value {
    json!({
        "valid": s.valid,
        "invalid_reasons": s.invalid_reasons,
        "warnings": s.warnings,
        "known": s.known.iter().map(known).collect::<Vec<_>>(),
        "interrupted": s.interrupted,
        "kept_off": s.kept_off.as_ref().map(|of| json!({
            "by": of.by.as_str(),
            "sentence": of.sentence,
            "named": of.named,
        })),
        "cpu_quota": s.withheld.as_ref().map(withheld),
        "cpu_quota_unread": s.unread_quota,
        "open_ended": s.open_ended,
        "housekeeping": s.housekeeping.as_ref().map(housekeeping),
        "reasons": counters(&s.reasons),
        "capture": s.capture.as_ref().map(capture),
        "sample": s.sample.as_ref().map(sample),
        "lanes": s.lanes.iter().map(|l| lane(l, &s.lanes)).collect::<Vec<_>>(),
        "stages": s.stages.iter().map(stage).collect::<Vec<_>>(),
        "programs": s.programs.iter().map(program).collect::<Vec<_>>(),
        "stage_cost": s.stage_cost.as_ref().map(|cost| json!(cost)),
        "expectations": s.expectations.iter().map(expectation).collect::<Vec<_>>(),
        "why": s.causes.iter().map(|cause| json!(cause)).collect::<Vec<_>>(),
        "started_utc": (s.started.utc_ns > 0).then(|| rfc3339(s.started.utc_ns)),
        "start_monotonic_ns": (s.started.monotonic_ns > 0).then_some(s.started.monotonic_ns),
        "start_error_ns": s.start_error_ns,
        "command": s.command,
        "plan": s.plan.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok()),
        "ports": s.ports.iter().map(port).collect::<Vec<_>>(),
        "directions": s.directions.iter().map(direction).collect::<Vec<_>>(),
        "host": s.host.iter().map(|fact| (fact.name.clone(), Value::from(fact.value.as_str()))).collect::<Map<_, _>>(),
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
        "measured": of.measured.map(number),
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
            ("packets_per_call".to_owned(), number(row.packets_per_call())),
            ("ns_per_packet".to_owned(), number(row.ns_per_packet())),
            ("ns_per_call".to_owned(), number(row.ns_per_call())),
        ]);
    }
    value
}

/// Returns a row of the table of programs, with values derived from it.
fn program(row: &ProgramRow) -> Value {
    let mut value = json!(row);
    if let Value::Object(object) = &mut value {
        object.extend([
            ("packets_per_run".to_owned(), number(row.packets_per_run())),
            ("ns_per_packet".to_owned(), number(row.ns_per_packet())),
            ("ns_per_run".to_owned(), number(row.ns_per_run())),
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

/// Lost packets that the kernel dropped, by reason.
fn kernel_drops(drops: &[(String, u64)]) -> Value {
    let drop = |(reason, packets): &(String, u64)| json!({ "reason": reason, "packets": packets });
    drops.iter().map(drop).collect()
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
        "core_percent": number(h.cpu_ns as f64 / h.run_ns.max(1) as f64 * 100.0),
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

/// Returns a finite number, else `null`.
fn number(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number)
}

fn latency(latency: &Latency) -> Value {
    Value::Object(distribution(latency))
}

/// Returns min to max; all `null` when nothing was measured.
fn distribution(l: &Latency) -> Map<String, Value> {
    let measured = |value: u64| if l.count > 0 { Value::from(value) } else { Value::Null };
    let percentile = |value: Option<u64>| value.map_or(Value::Null, measured);
    let mut object = Map::new();
    let mut put = |key: &str, value| object.insert(key.to_owned(), value);
    put("min", measured(l.min));
    put("mean", if l.count > 0 { number(l.mean) } else { Value::Null });
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
    let seconds = |ns: u64| number(ns as f64 / 1e9);
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
