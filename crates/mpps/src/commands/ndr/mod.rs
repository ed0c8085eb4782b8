//! `ndr`: the highest rates at which no more than so many packets are lost, by one search on ports that stay open.

mod measure;
mod record;
mod tell;

use crate::cli::{Ndr, RateText};
use crate::fail::{Failure, Result, failed, usage};
use crate::plan::traffic::Draft;
use crate::privilege::{self, Clerk};
use crate::run::{Host, Plan, Session, on_session};
use measure::{CEILING_NS, Measured, measured};
use mpps_method::{End, Goal, Input, Limits, Next, Outcome, Ratio, Search, Trial, Verdict};
use mpps_wire::FrameSize;
use record::{Earlier, Header, Record};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Of the link's rate: the clocks of two ends differ (RFC 8239).
const OF_LINK: f64 = 0.9998;
/// Of what this host can send: at its very limit it misses departures.
const OF_CEILING: f64 = 0.99;
/// The highest rate by the lowest, unless that is given.
const SPAN: u64 = 1000;
/// Pause after a void trial, for each in a row.
const AFTER_VOID: Duration = Duration::from_millis(500);
/// `--quick`: longest duration sum, ns, and least width.
const QUICK: (u64, f64) = (5_000_000_000, 0.02);

/// What the highest rate is limited by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitedBy {
    MaxRate,
    Link,
    Generator,
}

impl LimitedBy {
    const ALL: [Self; 3] = [Self::MaxRate, Self::Link, Self::Generator];

    /// As the record and the result have it.
    fn name(self) -> &'static str {
        match self {
            Self::MaxRate => "max_rate",
            Self::Link => "link",
            Self::Generator => "generator",
        }
    }

    /// As people read it.
    fn words(self) -> &'static str {
        match self {
            Self::MaxRate => "--max-rate",
            Self::Link => "what the link carries",
            Self::Generator => "what this host can send",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|limit| limit.name() == name)
    }
}

/// Why a search has come to its end.
#[derive(Debug)]
enum Stopped {
    Search(End),
    /// By the user.
    Interrupted,
    /// A trial could not take place.
    Failed(Failure),
}

/// A search as far as it has come.
struct Found {
    limited_by: LimitedBy,
    search: Search,
    trials: Vec<Measured>,
    /// Void trials before this place count no more: they were an earlier command's, or at a highest rate that was given
    /// up.
    forgiven: usize,
    stopped: Stopped,
}

impl Found {
    fn limits(&self) -> Limits {
        self.search.limits()
    }

    /// What the search goes by.
    fn trials(&self) -> Vec<Trial> {
        let all = self.trials.iter().map(|measured| measured.trial).enumerate();
        all.filter(|(at, trial)| *at >= self.forgiven || trial.verdict != Verdict::Void)
            .map(|(_, trial)| trial)
            .collect()
    }

    /// What they say of each goal.
    fn outcomes(&self) -> Vec<Outcome> {
        self.search.results(&self.trials())
    }

    /// The last trials, as far as they were void one after another.
    fn void_at_last(&self) -> &[Measured] {
        let counted = |measured: &Measured| measured.trial.verdict != Verdict::Void;
        let first = self.trials.iter().rposition(counted).map_or(0, |at| at + 1);
        &self.trials[first..]
    }

    /// After void trials at the highest rate, which is this host's own limit: a lower one, by what was reached. False
    /// where that is not so, or there is no lower one.
    fn lower_max(&mut self) -> bool {
        let (void, limits) = (self.void_at_last(), self.limits());
        if !void
            .iter()
            .all(|trial| trial.outpaced && trial.trial.input.load == limits.max)
        {
            return false;
        }
        let reached = void
            .iter()
            .map(|trial| trial.offered_pps)
            .fold(limits.max as f64, f64::min);
        let max = (reached * OF_CEILING) as u64;
        let goals = self.search.goals().to_vec();
        let Ok(search) = Search::new(goals, Limits { max, ..limits }, self.search.most_ns()) else {
            return false;
        };
        (self.search, self.limited_by) = (search, LimitedBy::Generator);
        self.forgiven = self.trials.len();
        true
    }

    /// Whether all of two trials or more were lost: there is nobody who sends packets back.
    fn nothing_came(&self) -> bool {
        let counted = self.trials.iter().filter(|trial| trial.trial.verdict != Verdict::Void);
        let came: Vec<_> = counted.map(|trial| trial.received + trial.late).collect();
        came.len() >= 2 && came.iter().all(|packets| *packets == 0)
    }
}

/// What does not change in a search.
struct Setup<'a> {
    args: &'a Ndr,
    goals: Vec<Goal>,
    plan: Plan,
    frame_size: usize,
    /// Bits per second of a link that has a rate of its own.
    link_bps: Option<u64>,
    quiet: bool,
}

pub(crate) fn run(args: &Ndr) -> Result<ExitCode> {
    chosen_by_search(args)?;
    let mut draft = Draft::new(args.traffic.clone(), true)?;
    if draft.port.traits.in_kernel {
        // What the kernel runs is loaded once, for the highest rate, before privileges are given up.
        let Some(rate) = &args.max_rate else {
            return Err(usage(
                "--max-rate: missing: programs in the kernel are made for a highest rate: want --max-rate RATE",
            ));
        };
        let mut traffic = args.traffic.clone();
        traffic.run.plan.fill("load", "rate", rate.to_string());
        traffic.rate = Some(rate.clone());
        draft = Draft::knowing(Some(&draft.dest), traffic, true)?;
    }
    let link = draft.port.interface().filter(|device| !device.is_virtual);
    let setup = Setup {
        args,
        goals: goals(args),
        plan: Plan::of_run(&draft.args.run),
        frame_size: draft.frame_size,
        link_bps: link.and_then(|device| device.speed_bps),
        quiet: args.traffic.run.tell.quiet,
    };
    rates(&setup, None)?;
    let header = Header {
        plan: setup.plan.to_json(),
        goals: setup.goals.clone(),
        rates: [&args.min_rate, &args.max_rate].map(|rate| rate.as_ref().map(RateText::to_string)),
    };
    // The thread that writes files can get nothing more either.
    privilege::check_run(&args.traffic.run)?;
    let folder = args.out.as_deref();
    let clerk = folder
        .map(|folder| Clerk::hire(&args.traffic.run, &[&folder.join(record::FILE)]))
        .transpose()?;
    let out = clerk.as_ref().zip(folder);
    let earlier = match out {
        Some((clerk, folder)) => record::find(clerk, folder, args.resume, &header)?,
        None => None,
    };
    let record = std::cell::RefCell::new(None);
    let mut found = None;
    let mut opened = || {
        if let Some((clerk, folder)) = out {
            *record.borrow_mut() = Some(Record::open(clerk, folder, &header, earlier.as_ref())?);
        }
        Ok(())
    };
    let began = Instant::now();
    on_session(&draft, &setup.plan, &Host::program(), &mut opened, &mut |session| {
        found = search(&setup, session, earlier.clone(), record.borrow_mut().as_mut())?;
        Ok(())
    })?;
    let record = record.into_inner();
    let Some(found) = found else {
        eprintln!("mpps: interrupted before there was a rate to search from");
        return Ok(ExitCode::from(3));
    };
    tell::result(&setup, &found, began.elapsed(), record.as_ref())
}

/// Refuses what the search chooses itself.
fn chosen_by_search(args: &Ndr) -> Result<()> {
    let run = &args.traffic.run;
    let given = [
        (
            "--rate",
            args.traffic.rate.is_some(),
            "the search chooses it: want --max-rate and --min-rate",
        ),
        (
            "--then",
            args.traffic.then.is_some(),
            "a trial has one rate: want sendrecv … --rate RATE --then RATE@TIME",
        ),
        (
            "--duration",
            run.duration.is_some(),
            "a goal says how long trials are: want --goal …,final=TIME",
        ),
        (
            "--csv",
            run.tell.csv.is_some(),
            "a search has trials, not rows: want --out DIR",
        ),
        (
            "--json",
            run.tell.json.is_some(),
            "a search has a folder of results: want --out DIR",
        ),
        (
            "--hdr",
            run.tell.hdr.is_some(),
            "a search has trials, not rows: want --out DIR",
        ),
        (
            "--print-plan",
            run.print_plan,
            "a search varies a plan: want sendrecv … --print-plan",
        ),
        (
            "--resume",
            args.resume && args.out.is_none(),
            "it goes on with the search in a folder: want --out DIR as well",
        ),
        ("--search-time", args.search_time.is_zero(), "0: want a time above 0"),
    ];
    match given.into_iter().find(|(_, given, _)| *given) {
        Some((option, _, why)) => Err(usage(format!("{option}: {why}"))),
        None => Ok(()),
    }
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

/// Between which rates is searched, given what this host can send, packets per second; without that, whether what was
/// given can be.
///
/// # Errors
/// When there is no rate between them.
fn rates(setup: &Setup<'_>, ceiling: Option<f64>) -> Result<(Limits, LimitedBy)> {
    let rate = |option: &str, text: &Option<RateText>| match text {
        Some(text) => match text.resolve(setup.frame_size, setup.link_bps) {
            Ok(rate) => Ok(Some(rate.pps())),
            Err(want) => Err(usage(format!("{option} {text}: want {want}"))),
        },
        None => Ok(None),
    };
    let (lowest, highest) = (
        rate("--min-rate", &setup.args.min_rate)?,
        rate("--max-rate", &setup.args.max_rate)?,
    );
    let bits = FrameSize::from_fcs(setup.frame_size).l1_bits() as f64;
    let most = [
        (highest, LimitedBy::MaxRate),
        (setup.link_bps.map(|bps| bps as f64 / bits * OF_LINK), LimitedBy::Link),
        (ceiling.map(|pps| pps * OF_CEILING), LimitedBy::Generator),
    ];
    let known = most.into_iter().filter_map(|(pps, limit)| Some((pps?, limit)));
    let (max, limited_by) = known
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .unwrap_or((f64::MAX, LimitedBy::Generator));
    let max = max as u64;
    let limits = Limits {
        min: lowest.map_or(max / SPAN, |pps| pps as u64).max(1),
        max,
    };
    if limits.min >= limits.max {
        return Err(usage(format!(
            "--min-rate: {} pps is not below {}, {} pps: want a lower one",
            limits.min,
            limited_by.words(),
            limits.max
        )));
    }
    Ok((limits, limited_by))
}

/// Goes through the trials of a search. `None`: it was ended before it had begun.
fn search(
    setup: &Setup<'_>,
    session: &mut Session<'_>,
    earlier: Option<Earlier>,
    mut record: Option<&mut Record<'_>>,
) -> Result<Option<Found>> {
    let (limits, limited_by, trials) = match earlier {
        Some(earlier) => (earlier.limits, earlier.limited_by, earlier.trials),
        None => {
            // More than was allowed is not sent, not even to learn what could be.
            let ceiling = match setup.args.max_rate {
                Some(_) => None,
                None => {
                    let plan = setup.plan.with("times.duration", time(CEILING_NS))?;
                    let told = session.trial(&plan, &mut [])?;
                    if told.interrupted {
                        return Ok(None);
                    }
                    Some(told.offered_pps)
                }
            };
            let Some((limits, limited_by)) = reachable(setup, session, ceiling)? else {
                return Ok(None);
            };
            if let Some(record) = record.as_deref_mut() {
                record.limits(limits, limited_by);
            }
            (limits, limited_by, Vec::new())
        }
    };
    let most_ns = setup.args.search_time.as_nanos() as u64;
    let mut found = Found {
        search: Search::new(setup.goals.clone(), limits, most_ns).map_err(usage)?,
        limited_by,
        forgiven: trials.len(),
        trials,
        stopped: Stopped::Interrupted,
    };
    tell::start(setup, &found);
    loop {
        let trials = found.trials();
        let input = match found.search.next(&trials) {
            Next::Trial(input) => input,
            // The highest rate can't be kept up after all.
            Next::Done(End::Void) if found.lower_max() => continue,
            Next::Done(end) => {
                found.stopped = Stopped::Search(end);
                break;
            }
        };
        // What was in the way of a void trial may be over in a while.
        let pause = setup.args.pause.max(AFTER_VOID * found.void_at_last().len() as u32);
        if !found.trials.is_empty() && !wait(pause, session) {
            break;
        }
        match trial(setup, session, input) {
            Ok(Some(measured)) => {
                if let Some(record) = record.as_deref_mut() {
                    record.trial(found.trials.len() + 1, &measured);
                }
                found.trials.push(measured);
                tell::trial(setup, &found);
                if found.nothing_came() {
                    let why = "nothing came back in two trials: want a reflector (mpps reflect) at the destination, \
                               or the device's other port";
                    found.stopped = Stopped::Failed(failed(why));
                    break;
                }
            }
            Ok(None) => break,
            Err(failure) => {
                found.stopped = Stopped::Failed(failure);
                break;
            }
        }
    }
    Ok(Some(found))
}

/// Between which rates is searched. Sending at given times takes more than sending as fast as can be, so the highest
/// rate is tried, and lowered to what was reached. `None`: it was interrupted.
fn reachable(
    setup: &Setup<'_>,
    session: &mut Session<'_>,
    ceiling: Option<f64>,
) -> Result<Option<(Limits, LimitedBy)>> {
    /// Tries after which the search is left to find out.
    const MOST: u32 = 8;
    let mut found = rates(setup, ceiling)?;
    for _ in 0..MOST {
        let (limits, _) = found;
        let input = Input {
            load: limits.max,
            duration_ns: CEILING_NS,
        };
        let Some(tried) = trial(setup, session, input)? else {
            return Ok(None);
        };
        if tried.trial.verdict != Verdict::Void {
            break;
        }
        // Whatever else was in the way is no limit of this host's.
        if !tried.outpaced {
            if !wait(AFTER_VOID, session) {
                return Ok(None);
            }
            continue;
        }
        // At the limit a little of the time is missing in one second and not in the next.
        found = rates(setup, Some(tried.offered_pps.min(limits.max as f64)))?;
    }
    Ok(Some(found))
}

/// Runs a trial; `None`: it was interrupted, and says nothing.
fn trial(setup: &Setup<'_>, session: &mut Session<'_>, input: Input) -> Result<Option<Measured>> {
    let plan = setup.plan.with("load.rate", format!("{}pps", input.load))?;
    let plan = plan.with("times.duration", time(input.duration_ns))?;
    if session.interrupted() {
        return Ok(None);
    }
    let summary = session.trial(&plan, &mut [])?;
    Ok((!summary.interrupted).then(|| measured(input, &summary)))
}

/// Waits between two trials; false where the end has been asked for.
fn wait(pause: Duration, session: &Session<'_>) -> bool {
    let until = Instant::now() + pause;
    while !session.interrupted() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
    false
}

/// A time as a plan has it.
fn time(ns: u64) -> String {
    format!("{}us", ns / 1000)
}
