//! Whose threads had the cores while lanes waited for them, as far as that was seen before and after the run.

use super::Evidence;
use super::cause::span;
use mpps_stats::LaneSummary;
use mpps_sys::evidence::Rival;
use std::collections::BTreeSet;

/// Threads that are named, at the most.
const NAMED: usize = 3;

/// Those that account for half of the time that lanes waited, in parentheses, and threads of others that ran for a
/// tenth of it at the least. Nothing where nobody was seen.
pub(super) fn threads(e: &Evidence, lanes: &[LaneSummary], waited: u64) -> String {
    let half = |ns: u64| waited > 0 && ns >= waited / 2;
    let mut whose = Vec::new();
    let shares_core =
        |lane: &&LaneSummary| lane.core.is_some() && lanes.iter().filter(|other| other.core == lane.core).count() > 1;
    let sharing = lanes.iter().filter(shares_core);
    if half(sharing.filter_map(|lane| lane.run_delay_ns).sum()) {
        whose.push("lanes of this run share a core (--cores)".to_owned());
    }
    let threads = lanes.iter().filter(|l| l.run_delay_ns.is_some()).count() as u64;
    if e.cores > 0 && threads > e.cores {
        whose.push(format!("this run has {threads} lanes on {} cores", e.cores));
    }
    // One that has hardly run meanwhile kept nobody waiting.
    let counts = |ran_ns: u64| ran_ns >= waited / 10;
    let mut runs = in_one(e.rivals.iter().filter(|rival| rival.is_lane()));
    runs.retain(|run| counts(run.ran_ns));
    let run = |run: &RivalRun| {
        format!(
            "another mpps (process {}) has {}, too, which ran for {} in all, as these waited for {}",
            run.process,
            run.lanes(),
            span(run.ran_ns),
            span(waited)
        )
    };
    let all: Vec<_> = runs.iter().map(run).collect();
    if half(runs.iter().map(|run| run.ran_ns).sum()) {
        whose.push(format!("{}: give each end cores of its own (--cores)", all.join("; ")));
    } else {
        whose.extend(all);
    }
    if half(e.own_ns) {
        whose.push(format!(
            "mpps's own threads beside the lanes (the collector, files) ran for {}",
            span(e.own_ns)
        ));
    }
    let others = e.rivals.iter().filter(|rival| !rival.is_lane() && counts(rival.ran_ns));
    let mut others: Vec<&Rival> = others.collect();
    others.sort_by_key(|rival| (std::cmp::Reverse(rival.ran_ns), rival.thread));
    let other = |rival: &&Rival| {
        let Rival { name, thread, core, .. } = rival;
        format!(
            "{name} (thread {thread}) ran for {} meanwhile, last on core {core}",
            span(rival.ran_ns)
        )
    };
    whose.extend(others.iter().take(NAMED).map(other));
    match whose.is_empty() {
        true => String::new(),
        false => format!(" ({})", whose.join("; ")),
    }
}

/// The lanes of another process on cores of this run's.
struct RivalRun {
    process: u32,
    threads: usize,
    /// Ascending.
    cores: BTreeSet<usize>,
    /// Of all of them, ns.
    ran_ns: u64,
}

impl RivalRun {
    fn lanes(&self) -> String {
        let cores: Vec<_> = self.cores.iter().map(usize::to_string).collect();
        match (self.threads, cores.as_slice()) {
            (1, [core]) => format!("a lane on core {core}"),
            (n, [core]) => format!("{n} lanes on core {core}"),
            (n, _) => format!("{n} lanes on cores {}", cores.join(", ")),
        }
    }
}

/// Lanes by process, in the order in which they are found: however many it has, it is one to be told.
fn in_one<'r>(lanes: impl Iterator<Item = &'r Rival>) -> Vec<RivalRun> {
    let mut runs: Vec<RivalRun> = Vec::new();
    for lane in lanes {
        let at = runs.iter().position(|run| run.process == lane.process);
        let at = at.unwrap_or_else(|| {
            runs.push(RivalRun {
                process: lane.process,
                threads: 0,
                cores: BTreeSet::new(),
                ran_ns: 0,
            });
            runs.len() - 1
        });
        let run = &mut runs[at];
        run.threads += 1;
        run.cores.insert(lane.core);
        run.ran_ns += lane.ran_ns;
    }
    runs
}
