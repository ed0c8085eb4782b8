//! Threads that used the cores while lanes waited for them, as far as they were seen before and after the run.

use super::Evidence;
use super::cause::span;
use mpps_stats::{KeptOffBy, LaneSummary};
use mpps_sys::evidence::Rival;
use std::collections::{BTreeMap, BTreeSet};

/// Most culprits that are named.
const NAMED: usize = 3;

/// Advice for two ends of a test on one host.
const REMEDY: &str = "give each end cores of its own (--cores)";

/// Returns a clause, in parentheses, on the threads that used the cores: the three that ran longest, and the number of
/// others. A thread that ran for less than a tenth of the lanes' waiting time kept no lane waiting. Own threads of mpps
/// are named from half of that time on. The clause is empty if no thread was seen. The kind says whether threads of
/// `mpps` are among the named ones.
pub(super) fn threads(e: &Evidence, lanes: &[LaneSummary], waited: u64) -> (KeptOffBy, String) {
    let mut whose = sharing(e, lanes, waited);
    let mut own = !whose.is_empty();
    let mut all = culprits(e, waited);
    all.sort_by_key(|culprit| std::cmp::Reverse(culprit.ran_ns));
    let counts = |ran_ns: u64| ran_ns >= waited / 10;
    let named = all
        .iter()
        .take_while(|culprit| counts(culprit.ran_ns))
        .count()
        .min(NAMED);
    let rest = all.split_off(named);
    own |= all.iter().any(|culprit| culprit.own);
    let mut unsure = all.iter().any(|culprit| !culprit.sure);
    whose.extend(all.into_iter().map(|culprit| culprit.said));
    let rest_ns: u64 = rest.iter().map(|culprit| culprit.ran_ns).sum();
    let more: usize = rest.iter().map(|culprit| culprit.threads).sum();
    if more > 0 && counts(rest_ns) {
        unsure |= rest.iter().any(|culprit| !culprit.sure);
        let (s, beside) = (if more == 1 { "" } else { "s" }, if named > 0 { "more " } else { "" });
        whose.push(format!("{more} {beside}thread{s} ran for {} in all", span(rest_ns)));
    }
    let open = unaccounted(e, lanes);
    match open.filter(|ns| *ns > waited / UNSEEN_PART) {
        Some(_) if e.traced => whose.push("see the trace for who had the lanes' cores".to_owned()),
        Some(ns) => {
            // Before names that explain less of the waiting time.
            let first = named == 0 || ns > waited / 2;
            whose.insert(if first { 0 } else { whose.len() }, not_seen(ns, waited));
        }
        None if unsure => whose.push(
            "threads that may run on other cores, too, may have been there: a run with --trace FILE names who had \
             the lanes' cores"
                .to_owned(),
        ),
        None => {}
    }
    let unread = e.unread_quota.as_ref();
    whose.extend(
        unread.map(|group| format!("a CPU quota of control group {group} can't be read, and may have had a part")),
    );
    let by = match unread {
        _ if own => KeptOffBy::OwnThreads,
        Some(_) if open.is_none_or(|ns| ns > waited / 2) => KeptOffBy::NotKnown,
        _ => KeptOffBy::OtherThreads,
    };
    match whose.is_empty() {
        true => (by, String::new()),
        false => (by, format!(" ({})", whose.join("; "))),
    }
}

/// Returns whether a time is half of the lanes' waiting time or more.
fn is_half(ns: u64, waited: u64) -> bool {
    waited > 0 && ns >= waited / 2
}

/// Returns clauses on lanes of this run that took cores from each other.
fn sharing(e: &Evidence, lanes: &[LaneSummary], waited: u64) -> Vec<String> {
    let mut clauses = Vec::new();
    let shares_core =
        |lane: &&LaneSummary| lane.core.is_some() && lanes.iter().filter(|other| other.core == lane.core).count() > 1;
    let sharing = lanes.iter().filter(shares_core);
    if is_half(sharing.filter_map(|lane| lane.run_delay_ns).sum(), waited) {
        let remedy = if e.cores == 1 { "" } else { " (--cores)" };
        clauses.push(format!("lanes of this run share a core{remedy}"));
    }
    let threads = lanes.iter().filter(|l| l.run_delay_ns.is_some()).count() as u64;
    if e.cores > 0 && threads > e.cores {
        clauses.push(format!("this run has {threads} lanes on {} cores", e.cores));
    }
    clauses
}

/// Returns all threads that were on the lanes' cores: lanes of other runs, other programs and own threads beside the
/// lanes.
fn culprits(e: &Evidence, waited: u64) -> Vec<Culprit> {
    let (lanes_of_others, others): (Vec<&Rival>, Vec<&Rival>) = e.rivals.iter().partition(|rival| rival.is_lane());
    let mut runs = in_one(lanes_of_others.into_iter());
    runs.sort_by_key(|run| std::cmp::Reverse(run.ran_ns));
    let by_runs: u64 = runs.iter().map(|run| run.ran_ns).sum();
    let mut all: Vec<Culprit> = runs.iter().map(|run| run.culprit(waited)).collect();
    // With one core there is none to give.
    if let Some(first) = all.first_mut().filter(|_| is_half(by_runs, waited) && e.cores != 1) {
        first.said = format!("{}: {REMEDY}", first.said);
    }
    // A thread that may run on other cores, too, may have been there meanwhile. A trace shows which threads used the
    // lanes' cores.
    let others: Vec<&Rival> = others.into_iter().filter(|rival| rival.bound || !e.traced).collect();
    all.extend(by_name(&others));
    all.extend(is_half(e.own_ns, waited).then(|| Culprit {
        ran_ns: e.own_ns,
        threads: 1,
        own: true,
        sure: true,
        said: format!(
            "mpps's own threads beside the lanes (the collector, files) ran for {}",
            span(e.own_ns)
        ),
    }));
    all
}

/// Least part of the lanes' waiting time that is worth a clause if unaccounted for: one in so many.
const UNSEEN_PART: u64 = 5;

/// Returns the time that lanes waited for their cores and that no thread that was seen can have taken, ns. A thread
/// that ended during the run is not seen, nor one that `/proc` hides. `None`: lanes wait for each other, so that it is
/// not known.
pub(super) fn unaccounted(e: &Evidence, lanes: &[LaneSummary]) -> Option<u64> {
    let waiting: Vec<(Option<usize>, u64)> = lanes.iter().filter_map(|l| Some((l.core, l.run_delay_ns?))).collect();
    let ran = |on: Option<usize>| -> u64 {
        let known = e.rivals.iter().filter(|rival| rival.bound || !e.traced);
        let there = known.filter(|rival| on.is_none_or(|core| rival.core == core));
        there.map(|rival| rival.ran_ns).sum()
    };
    let mut by_core: BTreeMap<Option<usize>, (usize, u64)> = BTreeMap::new();
    for (core, waited) in &waiting {
        let of = by_core.entry(*core).or_default();
        *of = (of.0 + 1, of.1 + waited);
    }
    let unbound = by_core.contains_key(&None);
    let shared = by_core.iter().any(|(core, (lanes, _))| core.is_some() && *lanes > 1);
    if shared || e.cores > 0 && waiting.len() as u64 > e.cores {
        return None;
    }
    let left: u64 = match unbound {
        true => waiting.iter().map(|(_, ns)| ns).sum::<u64>().saturating_sub(ran(None)),
        false => by_core
            .iter()
            .map(|(core, (_, ns))| ns.saturating_sub(ran(*core)))
            .sum(),
    };
    let withheld_ns = e.withheld.as_ref().map_or(0, |withheld| withheld.ns);
    Some(
        left.saturating_sub(e.own_ns)
            .saturating_sub(e.steal_ns)
            .saturating_sub(withheld_ns),
    )
}

/// Returns a clause on waiting time that no thread that was seen accounts for.
fn not_seen(unseen: u64, waited: u64) -> String {
    format!(
        "{} of the {} that lanes waited is accounted for at most: what took the other {} has ended since, or is hidden \
         from this process; a run with --trace FILE names it",
        span(waited.saturating_sub(unseen)),
        span(waited),
        span(unseen)
    )
}

/// Thread or group of threads that used a core.
struct Culprit {
    ran_ns: u64,
    threads: usize,
    /// The thread belongs to an `mpps`.
    own: bool,
    /// All of its time was on the lanes' cores.
    sure: bool,
    said: String,
}

/// Returns threads of other programs: threads of the same name are one culprit.
fn by_name(others: &[&Rival]) -> Vec<Culprit> {
    let mut names: BTreeMap<&str, Vec<&Rival>> = BTreeMap::new();
    for rival in others {
        names.entry(&rival.name).or_default().push(rival);
    }
    let culprit = |(name, threads): (&str, Vec<&Rival>)| {
        let ran_ns = threads.iter().map(|rival| rival.ran_ns).sum();
        let who = match threads.as_slice() {
            [one] => format!("thread {}", one.thread),
            all => format!("{} threads", all.len()),
        };
        let on: BTreeSet<usize> = threads.iter().map(|rival| rival.core).collect();
        Culprit {
            ran_ns,
            threads: threads.len(),
            own: false,
            sure: threads.iter().all(|rival| rival.bound),
            said: format!(
                "{name} ({who}) ran for {} meanwhile, last on {}",
                span(ran_ns),
                cores(&on)
            ),
        }
    };
    names.into_iter().map(culprit).collect()
}

/// Returns `core 1`, `cores 0, 1`, ….
fn cores(cores: &BTreeSet<usize>) -> String {
    let numbers: Vec<_> = cores.iter().map(usize::to_string).collect();
    format!(
        "core{} {}",
        if numbers.len() == 1 { "" } else { "s" },
        numbers.join(", ")
    )
}

/// The lanes of another process on cores of this run.
struct RivalRun {
    process: u32,
    threads: usize,
    /// Cores of these lanes, ascending.
    cores: BTreeSet<usize>,
    /// Time that all of them ran, ns.
    ran_ns: u64,
}

impl RivalRun {
    fn culprit(&self, waited: u64) -> Culprit {
        let lanes = match self.threads {
            1 => "a lane".to_owned(),
            n => format!("{n} lanes"),
        };
        let said = format!(
            "another mpps (process {}) has {lanes} on {}, too, which ran for {} in all, as these waited for {}",
            self.process,
            cores(&self.cores),
            span(self.ran_ns),
            span(waited)
        );
        Culprit {
            ran_ns: self.ran_ns,
            threads: self.threads,
            own: true,
            sure: true,
            said,
        }
    }
}

/// Groups lanes by process, in the order in which they are found: the lanes of one process are one culprit.
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
