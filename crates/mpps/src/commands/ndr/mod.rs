//! `ndr`: the highest rates at which no more than so many packets are lost, by one search on ports that stay open.

mod tell;

use super::method::bench::Bench;
use super::method::search::{Found, search_of};
use super::method::{Setup, Step, Stop, expect, no_tolerance, rates_json, report};
use crate::cli::Ndr;
use crate::fail::{Result, usage};
use mpps_methods::search::{Goal, Ratio};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// `--quick`: longest duration sum, ns, and least width.
const QUICK: (u64, f64) = (5_000_000_000, 0.02);
/// Default settle time: how long a packet may take to come back.
const SETTLE: Duration = Duration::from_millis(200);

pub(crate) fn run(args: &Ndr) -> Result<ExitCode> {
    if args.search_time.is_zero() {
        return Err(usage("--search-time: 0: want a time above 0"));
    }
    no_tolerance(&args.method)?;
    let setup = Setup::new(&args.method, None, Duration::ZERO, SETTLE, true)?;
    let goals = goals(args);
    let frame_size = setup.frame_size();
    setup.rates(frame_size, None)?;
    expect::check(&args.method, "ndr", &tell::finds(&goals))?;
    let params = json!({ "goals": goals_json(&goals), "rates": rates_json(&args.method) });
    let began = Instant::now();
    let mut code = 0;
    setup.on_bench("ndr", params, &mut || Ok(()), &mut |bench| {
        let mut found = None;
        let stop = search(args, &goals, frame_size, bench, &mut found).err();
        let mut document = tell::document(
            &setup,
            args,
            bench,
            &goals,
            found.as_ref(),
            began.elapsed(),
            stop.as_ref(),
        );
        let reached = found
            .as_ref()
            .map(|found| tell::reached(&goals, found))
            .unwrap_or_default();
        let judged = expect::judged(&args.method.traffic.args.tell.expect, &reached);
        let done = expect::add_to(&mut document, &judged, stop.as_ref().map_or(0, Stop::code));
        bench.leave_screen();
        let printed = report::print_lines(&document);
        code = report::write(bench, printed, &document, &judged, done);
        Ok(())
    })?;
    Ok(ExitCode::from(code))
}

/// The search, which is in `found` however it ends.
fn search(
    args: &Ndr,
    goals: &[Goal],
    frame_size: usize,
    bench: &mut Bench<'_, '_>,
    found: &mut Option<Found>,
) -> Step<()> {
    let (limits, limited_by) = bench.limits(frame_size)?;
    let search = search_of(goals.to_vec(), limits, args.search_time.as_nanos() as u64, false)?;
    let found = found.insert(Found::new(frame_size, search, limited_by));
    tell::start(goals, bench, found);
    found.go(bench, &mut |bench, found| tell::trial(goals, bench, found))
}

/// The goals, and with `--quick` coarser ones.
fn goals(args: &Ndr) -> Vec<Goal> {
    let half = Ratio::of_share(0.005).unwrap_or_default();
    let given = match args.goal.is_empty() {
        true => vec![Goal::csit(Ratio::ZERO), Goal::csit(half)],
        false => args.goal.clone(),
    };
    let quick = |goal: Goal| Goal {
        sum_ns: goal.sum_ns.min(QUICK.0.max(goal.final_ns)),
        width: goal.width.max(QUICK.1),
        ..goal
    };
    given
        .into_iter()
        .map(|goal| if args.quick { quick(goal) } else { goal })
        .collect()
}

/// Goals as the record and the result have them.
pub(super) fn goals_json(goals: &[Goal]) -> Value {
    let goal = |goal: &Goal| {
        json!({
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
