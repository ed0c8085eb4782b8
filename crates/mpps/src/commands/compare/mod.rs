//! `compare`: which of several runs is better, and whether that can be said.
//!
//! Each run is a process of its own, as it would be without this command: ports are opened and privileges given up each
//! time, and a path that crashes ends one run. This process keeps what it was started with, to start the next one, and
//! puts it aside while a run goes on.

mod child;
mod operand;
mod play;
mod record;
mod result;
mod rows;
mod searches;
mod settings;
mod tell;
mod trial;
mod unlike;

pub(crate) use child::{end_with_parent, last_words, of_this_process, watch_parent};

use crate::cli::{Compare, Metric, Setting};
use crate::fail::{Failure, Result, failed, print_words, say, usage};
use mpps_methods::folder::{self, SCHEMA};
use mpps_methods::repeats;
use mpps_methods::statistics::{ALPHA, LEAST, MOST_ROUNDS, Turn, Turns};
use mpps_report::document::files;
use mpps_sys::signal;
use operand::{Operands, Side, Variant};
use play::play;
use record::Record;
use rows::Found;
use serde_json::{Value, json};
use settings::Of;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use trial::{Figures, Trial};

/// A comparison, checked as a whole.
struct Setup<'a> {
    args: &'a Compare,
    metrics: Vec<Metric>,
    names: Vec<String>,
    /// Description of each name: a command line or a file.
    texts: Vec<String>,
    /// First run as it was typed; with settings, the run that they vary. Empty if earlier results are compared.
    operand: String,
    /// Runs to start; empty if earlier results are compared.
    variants: Vec<Variant>,
    rounds: usize,
    /// Settings, what each of them changes, and the variants with each of its values, the other settings in one order.
    settings: Vec<(Setting, Of, Vec<Vec<usize>>)>,
    /// Differences between the operands.
    differ: Vec<unlike::Difference>,
    /// Plan of the first run.
    plan: Value,
}

/// Reason why there are no more runs.
enum Ended {
    Done,
    Interrupted,
    Failed(Failure),
}

impl Ended {
    /// Returns the reason why the result is not complete; `None`: it is.
    fn why(&self, found: &Found, setup: &Setup<'_>) -> Option<String> {
        match self {
            Self::Interrupted => Some("it was interrupted".to_owned()),
            Self::Failed(failure) => Some(failure.line().to_owned()),
            Self::Done if found.is_complete(setup.rounds) => None,
            Self::Done => {
                let why = found.rows.iter().find_map(|row| row.why.clone());
                Some(why.unwrap_or_else(|| "not every comparison has a verdict".to_owned()))
            }
        }
    }
}

impl Setup<'_> {
    fn is_of_results(&self) -> bool {
        self.variants.is_empty()
    }

    fn pause(&self) -> Duration {
        self.args.pause.unwrap_or(Duration::from_secs(5))
    }

    fn retries(&self) -> usize {
        self.args.retries.unwrap_or(2)
    }

    fn turns(&self) -> Turns {
        Turns {
            variants: self.variants.len(),
            rounds: self.rounds,
            retries: self.retries(),
        }
    }

    /// Returns each setting, its values and what it changes.
    fn what_settings_are(&self) -> Vec<String> {
        let all = self.settings.iter();
        all.map(|(setting, of, _)| format!("{} ({})", of.words(&setting.key), setting.values.join(", ")))
            .collect()
    }

    /// Returns the first line of the record, which identifies the comparison.
    fn header(&self) -> Value {
        let variant = |variant: &Variant| {
            let plan: Value = serde_json::from_str(&variant.plan.to_json()).unwrap_or_default();
            json!({ "name": variant.name, "command": variant.text, "plan": plan })
        };
        let variants: Vec<_> = self.variants.iter().map(variant).collect();
        let header = json!({ "schema": SCHEMA, "test": "compare", "retries": self.retries(), "variants": variants });
        folder::with_place(header, crate::cli::version::short())
    }

    /// Returns how long the rest takes, if as many runs are not valid, and repeated, as so far.
    fn left(&self, done: &[Trial]) -> Duration {
        let all: Duration = self.variants.iter().map(|variant| variant.takes + self.pause()).sum();
        let all = all * self.rounds as u32;
        let valid = done.iter().filter(|trial| trial.figures.valid);
        let repeats = repeats(done.len(), done.len() - valid.clone().count());
        let gone: Duration = valid
            .map(|trial| self.variants[trial.turn.variant].takes + self.pause())
            .sum();
        all.saturating_sub(gone).mul_f64(repeats)
    }
}

pub(crate) fn run(args: &Compare) -> Result<ExitCode> {
    if args.resume && args.out.is_none() {
        return Err(usage(
            "--resume: it goes on with the comparison in a folder: want --out DIR as well",
        ));
    }
    match operand::read(&args.operands)? {
        Operands::Runs(variants) => runs(args, variants),
        Operands::Results(sides) => results(args, &sides),
    }
}

/// Returns the metrics to compare: those of `--metric`, or the defaults of the workload.
fn metrics(args: &Compare, workload: &str, paced: bool) -> Result<Vec<Metric>> {
    for (at, metric) in args.metric.iter().enumerate() {
        if !metric.is_of(workload) {
            let has = Metric::ALL
                .into_iter()
                .filter(|metric| metric.is_of(workload))
                .map(Metric::name);
            let has = has.collect::<Vec<_>>().join(", ");
            let name = metric.name();
            return Err(usage(format!(
                "--metric {name}: {workload} does not measure it: want one of {has}"
            )));
        }
        if args.metric[..at].contains(metric) {
            return Err(usage(format!(
                "--metric {}: it is given twice: want it once",
                metric.name()
            )));
        }
    }
    Ok(match (args.metric.is_empty(), workload) {
        (false, _) => args.metric.clone(),
        (_, "send" | "reflect" | "forward") => vec![Metric::OfferedPps],
        // In runs as fast as possible, latency is that of queues.
        (_, "sendrecv") if paced && args.settings.is_empty() => vec![Metric::ReceivedPps, Metric::P99],
        _ => vec![Metric::ReceivedPps],
    })
}

/// Runs in turns.
fn runs(args: &Compare, mut variants: Vec<Variant>) -> Result<ExitCode> {
    let mut settings = Vec::new();
    let operand = variants[0].text.clone();
    match (variants.len(), args.settings.is_empty()) {
        (1, true) => {
            return Err(usage(
                "one run alone: want another to compare it with, or --settings 'KEY=VALUE|VALUE'",
            ));
        }
        (1, false) => {
            let base = variants.remove(0);
            variants = settings::combinations(&base, &args.settings)?;
            for (at, setting) in args.settings.iter().enumerate() {
                let has = |value: &String| {
                    let all = variants.iter().enumerate();
                    all.filter(|(_, variant)| variant.chosen[at] == *value)
                        .map(|(place, _)| place)
                        .collect()
                };
                let places = setting.values.iter().map(has).collect();
                settings.push((setting.clone(), Of::find(&setting.key, &base.workload), places));
            }
        }
        (n, false) => {
            return Err(usage(format!(
                "--settings: they are of one run, and {n} are given: want one"
            )));
        }
        _ => {}
    }
    let differ = unlike::of_runs(&variants, args.force)?;
    let paced = variants
        .iter()
        .all(|variant| variant.plan.get("load.rate").is_some_and(|rate| !rate.is_null()));
    let metrics = metrics(args, &variants[0].workload, paced)?;
    let several = (variants.len() - 1) * metrics.len();
    // So many that the least p-value stands among all comparisons.
    let least = (several as f64 * 2.0 / ALPHA).log2().ceil() as usize;
    let mut setup = Setup {
        args,
        metrics,
        names: variants.iter().map(|variant| variant.name.clone()).collect(),
        texts: variants.iter().map(|variant| variant.text.clone()).collect(),
        operand,
        rounds: args.rounds.unwrap_or(least.clamp(8, MOST_ROUNDS)),
        settings,
        differ,
        plan: serde_json::from_str(&variants[0].plan.to_json()).unwrap_or_default(),
        variants,
    };
    signal::catch_interrupts();
    let began = Instant::now();
    let (mut record, mut trials) = match &args.out {
        Some(folder) => {
            let (record, trials) = record::open(folder, args.resume, &setup.header(), &setup.names)?;
            (Some(record), trials)
        }
        None => (None, Vec::new()),
    };
    let recorded = trials.iter().map(|trial| trial.turn.round + 1).max().unwrap_or(0);
    if recorded > MOST_ROUNDS {
        return Err(usage(format!(
            "--resume: round {recorded} in the record: want {MOST_ROUNDS} at the most"
        )));
    }
    setup.rounds = setup.rounds.max(recorded);
    let ended = play(&setup, &mut trials, record.as_mut());
    tell(&setup, &trials, &ended, began.elapsed(), record.as_ref())
}

/// Results of earlier runs.
fn results(args: &Compare, sides: &[Side]) -> Result<ExitCode> {
    for (option, given) in [
        ("--rounds", args.rounds.is_some()),
        ("--pause", args.pause.is_some()),
        ("--retries", args.retries.is_some()),
        ("--settings", !args.settings.is_empty()),
        ("--resume", args.resume),
    ] {
        if given {
            return Err(usage(format!(
                "{option}: nothing is run of results that are there: want it left out"
            )));
        }
    }
    if sides.len() < 2 {
        return Err(usage(format!(
            "'{}' alone: want results of another side, too",
            sides[0].text
        )));
    }
    if sides.iter().any(searches::is_of) {
        let runs = sides.iter().flat_map(|side| &side.results);
        let mut runs = runs.filter(|(_, result)| result.get("valid").is_some());
        if let Some((file, _)) = runs.next() {
            return Err(usage(format!(
                "{}: the result of a run beside that of a search: a rate that was measured is no rate that was \
                 searched for: want results of ndr or rfc2544 alone, or of runs alone",
                file.display()
            )));
        }
        return searches::compare(args, sides);
    }
    let differ = unlike::of_results(sides, args.force)?;
    let first = &sides[0].results[0].1;
    let all = || sides.iter().flat_map(|side| &side.results);
    let paced = all().all(|(_, result)| result["intended_pps"].is_number());
    let metrics = metrics(args, first["workload"].as_str().unwrap_or_default(), paced)?;
    let figures = |side: &Side| {
        side.results
            .iter()
            .map(|(_, result)| Figures::of_summary(result))
            .collect()
    };
    let read: Vec<(String, Vec<Figures>)> = sides.iter().map(|side| (side.name.clone(), figures(side))).collect();
    let text = |side: &Side| match side.results.as_slice() {
        [_] => side.text.clone(),
        all => format!("{} ({} results)", side.text, all.len()),
    };
    let setup = Setup {
        args,
        metrics,
        names: sides.iter().map(|side| side.name.clone()).collect(),
        texts: sides.iter().map(text).collect(),
        operand: String::new(),
        variants: Vec::new(),
        // Values alone of few are what was asked for.
        rounds: read.iter().map(|(_, all)| all.len()).min().unwrap_or(0),
        settings: Vec::new(),
        differ,
        plan: first["plan"].clone(),
    };
    let found = rows::of_results(&read, &setup.metrics, args.margin, args.seed);
    let mut trials = Vec::new();
    for (variant, (_, all)) in read.into_iter().enumerate() {
        for (round, figures) in all.into_iter().enumerate() {
            let turn = Turn {
                round,
                variant,
                attempt: 0,
            };
            trials.push(Trial { turn, figures });
        }
    }
    let record = match &args.out {
        Some(folder) => {
            let files: Vec<_> = all().map(|(file, _)| file.display().to_string()).collect();
            let header = json!({ "schema": SCHEMA, "test": "compare", "results": files });
            let (mut record, _) = record::open(folder, false, &header, &setup.names)?;
            for (at, trial) in trials.iter().enumerate() {
                record.line(&trial.json(at + 1, &setup.names));
            }
            Some(record)
        }
        None => None,
    };
    say(&setup, &found, &trials, &Ended::Done, Duration::ZERO, record.as_ref())
}

/// Prints the results of runs.
fn tell(
    setup: &Setup<'_>,
    trials: &[Trial],
    ended: &Ended,
    took: Duration,
    record: Option<&Record>,
) -> Result<ExitCode> {
    let settings = setup
        .settings
        .iter()
        .map(|(setting, _, places)| (setting.clone(), places.clone()));
    let settings: Vec<_> = settings.collect();
    let found = rows::in_turns(
        &setup.names,
        setup.rounds,
        &setup.metrics,
        setup.args.margin,
        &settings,
        trials,
    );
    say(setup, &found, trials, ended, took, record)
}

/// Prints the result, writes its file, and gives the exit code.
fn say(
    setup: &Setup<'_>,
    found: &Found,
    trials: &[Trial],
    ended: &Ended,
    took: Duration,
    record: Option<&Record>,
) -> Result<ExitCode> {
    let why = ended.why(found, setup);
    let worth_telling = match ended {
        Ended::Done => true,
        Ended::Interrupted => trials.iter().any(|trial| trial.figures.valid),
        Ended::Failed(_) => found.rows.iter().any(|row| row.estimate.is_some()),
    };
    print_words(|out| {
        if worth_telling {
            for line in tell::lines(setup, found, trials.len(), took) {
                writeln!(out, "{line}")?;
            }
        }
        match ended {
            Ended::Interrupted => writeln!(out, "not complete: it was interrupted"),
            _ => Ok(()),
        }
    })?;
    let mut code = match (ended, &why) {
        (Ended::Failed(failure), _) => crate::fail::code(failure),
        (_, Some(_)) => 3,
        (_, None) => 0,
    };
    if let Ended::Failed(failure) = ended {
        let _ = crate::fail::report(failure);
    }
    if let Some(record) = record {
        if let Some(broken) = &record.broken {
            say!("{broken}: the record ends before");
            code = 1;
        }
        let document = result::document(setup, found, trials, ended, took);
        for (name, bytes) in files(&document).map_err(failed)? {
            if let Err(failure) = record.file(&name, bytes) {
                say!("{}", failure.line());
                code = 1;
            }
        }
    }
    Ok(ExitCode::from(code))
}

const _: () = assert!(LEAST <= 8);
