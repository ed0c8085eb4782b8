//! `ndr`: the highest rates at which no more than so many packets are lost, by one search on ports that stay open.

mod tell;

use crate::bench::Bench;
use crate::document::last;
use crate::expect;
use crate::found::{Found, search_of};
use crate::measure::Subject;
use crate::search::{Goal, Ratio};
use crate::setup::{Ended, Setup, Step, Stop, rates_json};
use crate::{Common, View};
use mpps_run::Host;
use mpps_run::fail::{Result, usage};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// `--quick`: longest duration sum, ns, and least width.
const QUICK: (u64, f64) = (5_000_000_000, 0.02);
/// Default settle time: how long a packet may take to come back.
const SETTLE: Duration = Duration::from_millis(200);

/// Settings of `ndr`.
#[derive(Clone, Debug)]
pub struct Ndr {
    /// Goals of the search, all at once.
    pub goals: Vec<Goal>,
    /// Time that all trials together may take.
    pub search_time: Duration,
}

impl Ndr {
    /// Creates the settings from the goals that are given, or else the usual ones; with `quick`, coarser ones.
    pub fn new(given: &[Goal], quick: bool, search_time: Duration) -> Self {
        let half = Ratio::of_share(0.005).unwrap_or_default();
        let mut goals = match given.is_empty() {
            true => vec![Goal::csit(Ratio::ZERO), Goal::csit(half)],
            false => given.to_vec(),
        };
        for goal in goals.iter_mut().filter(|_| quick) {
            goal.sum_ns = goal.sum_ns.min(QUICK.0.max(goal.final_ns));
            goal.width = goal.width.max(QUICK.1);
        }
        Self { goals, search_time }
    }
}

/// Runs the search and returns the exit code.
///
/// # Errors
/// If the settings are wrong, or the search could not begin.
pub fn run(common: &Common, ndr: &Ndr, caller: (&Host<'_>, &dyn View)) -> Result<u8> {
    let Ndr { goals, search_time } = ndr;
    if search_time.is_zero() {
        return Err(usage("--search-time: 0: want a time above 0"));
    }
    let setup = Setup::new(common, None, Duration::ZERO, SETTLE, true)?;
    let streams = || goals.iter().filter_map(|goal| goal.stream.as_deref());
    for name in streams() {
        setup
            .check_stream(name)
            .map_err(|why| usage(format!("--goal 'loss({name})': {why}")))?;
    }
    let frame_size = setup.frame_size();
    setup.rates(frame_size, None)?;
    expect::check(&common.expect, "ndr", &tell::finds(goals))?;
    let params = json!({ "goals": goals_json(goals), "rates": rates_json(common) });
    let began = Instant::now();
    setup.on_bench("ndr", params, caller, &mut |bench| {
        bench.subject = Subject {
            streams: streams().map(str::to_owned).collect(),
            only: streams().count() == goals.len(),
        };
        let mut found = None;
        let stop = search(ndr, frame_size, bench, &mut found).err();
        let document = tell::document(&setup, ndr, bench, found.as_ref(), began.elapsed(), stop.as_ref());
        Ended {
            reached: found.map_or_else(Vec::new, |found| tell::reached(goals, &found)),
            table: Vec::new(),
            last: last(&document),
            code: stop.as_ref().map_or(0, Stop::code),
            document,
        }
    })
}

/// The search, which is in `found` however it ends.
fn search(ndr: &Ndr, frame_size: usize, bench: &mut Bench<'_, '_>, found: &mut Option<Found>) -> Step<()> {
    let goals = &ndr.goals;
    let (limits, limited_by) = bench.limits(frame_size)?;
    let search = search_of(goals.clone(), limits, ndr.search_time.as_nanos() as u64, false)?;
    let found = found.insert(Found::new(frame_size, search, limited_by));
    tell::start(goals, bench, found);
    found.go(bench, &mut |bench, found| tell::trial(goals, bench, found))
}

/// Goals as the record and the result have them.
pub(super) fn goals_json(goals: &[Goal]) -> Value {
    let goal = |goal: &Goal| {
        json!({
            "stream": goal.stream,
            "loss_ratio": goal.loss.share(),
            "exceed_ratio": goal.exceed.share(),
            "width": goal.width,
            "initial_s": goal.initial_ns as f64 / 1e9,
            "final_s": goal.final_ns as f64 / 1e9,
            "sum_s": goal.sum_ns as f64 / 1e9,
        })
    };
    goals.iter().map(goal).collect()
}
