//! Streams and groups that a run will have results of, by name, before anything is opened.

use crate::fail::{Result, usage};
use mpps_engine::MOST_RANKED;
use mpps_plan::{Plan, Workload};
use mpps_report::{Expect, no_stream};
use mpps_traffic::{Stream, Traffic};

/// Returns the streams that a run of a plan has results of by name: none if it has one packet without a name.
fn streams_of(plan: &Plan) -> &[Stream] {
    let of = match plan.workload {
        Workload::Sendrecv | Workload::Send => plan.traffic.streams.as_deref(),
        Workload::Drop => plan.selection.streams.as_deref(),
        _ => None,
    };
    of.filter(|traffic: &&Traffic| !traffic.is_one_packet())
        .map_or(&[], |traffic| &traffic.streams)
}

/// Checks that a run of a plan will have results of a stream or a group, and (`ranked`) percentiles of it.
///
/// # Errors
/// One line with the names that there are.
pub fn check_stream(plan: &Plan, name: &str, ranked: bool) -> std::result::Result<(), String> {
    let streams = streams_of(plan);
    let groups = streams.iter().filter_map(|stream| stream.group.as_deref());
    // Both ways, each stream has one that goes back.
    let there = name.strip_suffix("-back").filter(|_| plan.traffic.both_ways);
    let named = |stream: &&Stream| stream.name == name || Some(stream.name.as_str()) == there;
    if let Some(stream) = streams.iter().find(named) {
        return match ranked && streams.len() > MOST_RANKED && !stream.track {
            true => Err(format!(
                "stream {name}: among more than {MOST_RANKED} streams only groups have percentiles: want track = true \
                 in the stream, or its group"
            )),
            false => Ok(()),
        };
    }
    match groups.clone().any(|group| group == name) {
        true => Ok(()),
        false => {
            let names = streams.iter().map(|stream| stream.name.as_str());
            Err(no_stream(name, names.chain(groups)))
        }
    }
}

/// Checks that a run of a plan can meet demands: that it has the streams that they name, and that none is on the result
/// of a method.
///
/// # Errors
/// Names the demand, and what would be right.
pub fn check_expect(plan: &Plan, expect: &[Expect]) -> Result<()> {
    for one in expect {
        if let Some(found) = one.found() {
            return Err(usage(format!(
                "--expect '{one}': a run finds no {}: want a method (ndr, rfc2544, overload), or a demand on loss, \
                 received, p99 and the like",
                found.name()
            )));
        }
        if let Some(name) = one.stream() {
            check_stream(plan, name, one.is_on_percentile())
                .map_err(|why| usage(format!("--expect '{one}': {why}")))?;
        }
    }
    Ok(())
}
