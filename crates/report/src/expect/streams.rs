//! Quantities of one stream or of one group of streams: `p99(gold)`.

use mpps_stats::{StreamSummary, Summary};
use mpps_sys::near::nearest;

/// Most names that an error lists.
const MOST_NAMES: usize = 8;

/// Returns a quantity's name, and the name of the stream or group behind it: of `p99(gold)` `p99` and `gold`.
///
/// # Errors
/// One line, if the name in parentheses is missing.
pub fn name_of_stream(text: &str) -> Result<(&str, Option<&str>), String> {
    let Some((name, of)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) else {
        return Ok((text, None));
    };
    let (name, of) = (name.trim_end(), of.trim());
    match of {
        "" => Err(format!("'{text}': want a stream or a group, such as {name}(gold)")),
        of => Ok((name, Some(of))),
    }
}

/// Returns the results of a stream, or of a group if no stream has the name.
///
/// # Errors
/// One line with the names that there are.
pub fn stream_named<'s>(run: &'s Summary, name: &str) -> Result<&'s StreamSummary, String> {
    let all = || run.streams.iter().chain(&run.groups);
    let found = all().find(|of| of.name == name);
    found.ok_or_else(|| no_stream(name, all().map(|of| of.name.as_str())))
}

/// Returns an error that no stream and no group has a name. `names` are those that there are.
pub fn no_stream<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> String {
    let mut all: Vec<&str> = Vec::new();
    // A stream and a group may have one name.
    names.for_each(|name| {
        if !all.contains(&name) {
            all.push(name);
        }
    });
    let there = match (nearest(name, all.iter().copied()), all.len()) {
        (Some(near), _) => return format!("no stream or group '{name}': did you mean '{near}'?"),
        (None, 0) => "the run has none: want --traffic FILE, or no name".to_owned(),
        (None, count) => {
            let shown = &all[..count.min(MOST_NAMES)];
            let more = match count - shown.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("want {}{more}", shown.join(", "))
        }
    };
    format!("no stream or group '{name}': {there}")
}

/// Returns the results of a stream as those of a run that has sent nothing else.
pub(super) fn as_run(of: &StreamSummary, run: &Summary) -> Summary {
    Summary {
        workload: run.workload,
        plan: run.plan.clone(),
        duration_ns: run.duration_ns,
        interrupted: run.interrupted,
        tx: of.tx,
        untagged: of.untagged,
        rx: of.rx,
        lost: of.lost,
        late: of.late,
        duplicates: of.duplicates,
        reordered: of.reordered,
        corrupt: of.corrupt,
        missed: of.missed,
        due: of.due,
        intended_pps: of.intended_pps,
        offered_pps: of.offered_pps,
        received_pps: of.received_pps,
        loss_ratio: of.loss_ratio,
        latency: of.latency,
        latency_scheduled: of.latency_scheduled,
        latency_arrival: of.latency_arrival,
        wake_up: of.wake_up,
        ..Summary::default()
    }
}
