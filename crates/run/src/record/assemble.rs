//! Puts a run's recording together from the records of the engine, the kernel and the rows.

use super::causes::gaps;
use super::rows::Rows;
use super::watched::Watched;
use super::withheld::Spans;
use crate::profile::Samples;
use mpps_stats::Summary;
use mpps_sys::clock;
use mpps_trace::{Explained, Kept, LaneTrace, LeftOut, Meta, Recording, Taker, TakerKind};

/// Returns all lanes with their thread IDs and cores, and the rounds that were kept.
pub fn with_threads(mut kept: Kept, summary: &Summary, watched: Option<&Watched>) -> Kept {
    let threads = watched.map_or(&[][..], |watched| &watched.lanes);
    let thread = |lane: u32| threads.iter().find(|thread| thread.lane == lane);
    let lane = |number: u32, core: Option<usize>, roles: (bool, bool)| LaneTrace {
        lane: number,
        name: match roles {
            (true, true) => format!("lane {number} (rx, tx)"),
            (true, false) => format!("lane {number} (rx)"),
            (false, true) => format!("lane {number} (tx)"),
            (false, false) => format!("lane {number}"),
        },
        tid: thread(number).map_or(0, |thread| thread.tid),
        cpu: core.map(|core| core as u32).or_else(|| thread(number)?.cpu),
        rounds: Vec::new(),
    };
    let mut lanes: Vec<LaneTrace> = summary
        .lanes
        .iter()
        .map(|of| lane(of.lane as u32, of.core, (of.rx_role, of.tx_role)))
        .collect();
    for kept in kept.lanes.drain(..) {
        match lanes.iter_mut().find(|lane| lane.lane == kept.lane) {
            Some(lane) => lane.rounds = kept.rounds,
            None => lanes.push(kept),
        }
    }
    Kept { lanes, ..kept }
}

/// Returns the part of the lanes' gaps that no event accounts for: all of it if no events were recorded.
fn unexplained(summary: &Summary, watched: &Watched, lanes: &[LaneTrace]) -> Vec<Taker> {
    let explained = Explained::new(&watched.events, &watched.own);
    let mut takers = explained.takers(&gaps(summary, lanes));
    takers.retain(|taker| taker.kind == TakerKind::Unexplained);
    takers
}

/// Builds the recording of a run.
pub fn recording(
    summary: &Summary,
    kept: Kept,
    watched: Watched,
    rows: &Rows,
    samples: Option<&Samples>,
    lack: Option<LeftOut>,
) -> Recording {
    let Kept { lanes, left_out } = kept;
    let mut takers = watched.takers.clone();
    takers.extend(unexplained(summary, &watched, &lanes));
    if summary.withheld.is_some() {
        let spans = Spans::of(summary, &gaps(summary, &lanes), &lanes, &watched.events);
        takers = spans.name_among(takers, &Explained::new(&watched.events, &watched.own));
    }
    let left_out = left_out.into_iter().chain(watched.left_out).chain(rows.left_out());
    let left_out: Vec<LeftOut> = left_out.chain(lack).collect();
    let fact = |name: &str| {
        let fact = summary.host.iter().find(|fact| fact.name == name);
        fact.map(|fact| fact.value.clone()).unwrap_or_default()
    };
    let started = summary.started;
    Recording {
        meta: Meta {
            program: format!("mpps {}", env!("CARGO_PKG_VERSION")),
            command: summary.command.join(" "),
            host: fact("hostname"),
            kernel: fact("kernel"),
            pid: std::process::id() as i32,
            utc_offset_ns: started.utc_ns as i64 - started.monotonic_ns as i64,
            boot_offset_ns: clock::suspended_ns() as i64,
            steal_ns: fact("steal_ms").parse::<u64>().ok().map(|ms| ms * 1_000_000),
            start_ns: started.monotonic_ns,
            end_ns: started.monotonic_ns + summary.duration_ns,
            // Most recordings are windows. The records of one lane leave no gap.
            whole: false,
            left_out,
            cost: summary.stage_cost.map(|cost| cost.to_string()).unwrap_or_default(),
            sampling: samples.map(|samples| samples.sampling.clone()),
        },
        lanes,
        kernel: watched.events,
        samples: samples.map(|samples| samples.samples.clone()).unwrap_or_default(),
        frames: samples.map(|samples| samples.frames.clone()).unwrap_or_default(),
        counters: rows.counters(),
        stages: summary.stages.clone(),
        programs: summary.programs.clone(),
        takers,
        causes: summary.causes.clone(),
    }
}
