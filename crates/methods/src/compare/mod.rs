//! `compare`: which of several runs is better, and whether that can be said.
//!
//! Each run is a process of its own, as it would be without this command: ports are opened and privileges given up each
//! time, and a path that crashes ends one run. The caller starts these processes: see [`Runs`].

mod metric;
mod play;
mod record;
mod result;
mod rows;
mod searches;
mod tell;
mod trial;
mod unlike;

pub use metric::{Metric, Quantity, Setting};
pub use searches::of_document;

use crate::View;
use crate::bench::repeats;
use crate::folder::{self, SCHEMA};
use crate::statistics::{ALPHA, LEAST, MOST_ROUNDS, Turn, Turns};
use mpps_pages::document::files;
use mpps_report::no_stream;
use mpps_run::Plan;
use mpps_run::fail::{Failure, Result, failed, usage};
use mpps_run::streams::check_stream;
use play::play;
use record::Record;
use rows::Found;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use trial::{Figures, Trial};

/// Settings of a comparison.
#[derive(Clone, Debug)]
pub struct Compare {
    /// Metrics to compare, the most important first; empty: those that the workload measures by default.
    pub metrics: Vec<Metric>,
    /// Difference that does not matter, as a share.
    pub margin: f64,
    /// Compares runs that differ in more than they should.
    pub force: bool,
    /// Number of times that each run is run; `None`: as many as a verdict takes.
    pub rounds: Option<usize>,
    /// Pause between two runs.
    pub pause: Duration,
    /// Number of times that a run is repeated if it is not valid.
    pub retries: usize,
    /// Seed of the interval of earlier results.
    pub seed: u64,
    /// Folder for the record and the result.
    pub folder: Option<PathBuf>,
    /// Continues the comparison whose record is in the folder.
    pub resume: bool,
    /// Command line, as the result names it.
    pub command: Vec<String>,
    /// Version of the program, as the record names it.
    pub version: &'static str,
}

/// A run that is compared.
#[derive(Clone, Debug)]
pub struct Variant {
    /// A, B, …; or the settings that it has.
    pub name: String,
    /// Command line as it was typed.
    pub text: String,
    /// Plan of the run.
    pub plan: Plan,
    /// Frame size, bytes; of a run that sends.
    pub frame_size: Option<usize>,
    /// Time that a run takes, waiting for the last packets included.
    pub takes: Duration,
    /// Values of the settings, in the order of the settings.
    pub chosen: Vec<String>,
}

/// Results of earlier runs on one side.
#[derive(Clone, Debug)]
pub struct Side {
    /// A, B, ….
    pub name: String,
    /// Files as they were typed.
    pub text: String,
    /// Results, each with its file.
    pub results: Vec<(PathBuf, Value)>,
}

/// A setting in which the runs differ.
#[derive(Clone, Debug)]
pub struct Varied {
    /// Setting, and its values.
    pub setting: Setting,
    /// Target of the setting in words, such as `option --burst`.
    pub what: String,
}

/// The caller's part of a comparison of runs.
pub trait Runs {
    /// Runs a variant once, by its place.
    ///
    /// # Errors
    /// If the run could not be started.
    fn run(&self, variant: usize) -> Result<Ran>;

    /// Returns whether the end was requested.
    fn interrupted(&self) -> bool;
}

/// End of a run.
#[derive(Clone, Debug)]
pub enum Ran {
    /// The run printed a summary.
    Told(Value),
    /// The run printed no summary, or one that can't be read: its exit code, and the last line that it printed.
    Failed(Option<i32>, String),
    /// The user ended it with Ctrl-C.
    Interrupted,
}

/// A comparison, checked as a whole.
struct Setup<'a> {
    compare: &'a Compare,
    metrics: Vec<Metric>,
    names: Vec<String>,
    /// Description of each name: a command line or a file.
    texts: Vec<String>,
    /// First run as it was typed; with settings, the run that they vary. Empty if earlier results are compared.
    operand: String,
    /// Runs to start; empty if earlier results are compared.
    variants: Vec<Variant>,
    rounds: usize,
    settings: Vec<Varied>,
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

    fn turns(&self) -> Turns {
        Turns {
            variants: self.variants.len(),
            rounds: self.rounds,
            retries: self.compare.retries,
        }
    }

    /// Returns each setting with the variants that have each of its values, the other settings in one order.
    fn places(&self) -> Vec<(Setting, Vec<Vec<usize>>)> {
        let with = |at: usize, value: &String| {
            let all = self.variants.iter().enumerate();
            all.filter(|(_, variant)| variant.chosen[at] == *value)
                .map(|(place, _)| place)
                .collect()
        };
        let all = self.settings.iter().enumerate();
        all.map(|(at, Varied { setting, .. })| {
            let places = setting.values.iter().map(|value| with(at, value)).collect();
            (setting.clone(), places)
        })
        .collect()
    }

    /// Returns each setting, its values and what it changes.
    fn what_settings_are(&self) -> Vec<String> {
        let all = self.settings.iter();
        all.map(|of| format!("{} ({})", of.what, of.setting.values.join(", ")))
            .collect()
    }

    /// Returns the first line of the record, which identifies the comparison.
    fn header(&self) -> Value {
        let variant = |variant: &Variant| {
            let plan: Value = serde_json::from_str(&variant.plan.to_json()).unwrap_or_default();
            json!({ "name": variant.name, "command": variant.text, "plan": plan })
        };
        let variants: Vec<_> = self.variants.iter().map(variant).collect();
        let mut header =
            json!({ "schema": SCHEMA, "test": "compare", "retries": self.compare.retries, "variants": variants });
        // The record has figures of these streams alone.
        let mut streams: Vec<_> = self
            .metrics
            .iter()
            .filter_map(|metric| metric.stream.as_ref())
            .collect();
        streams.sort();
        streams.dedup();
        if !streams.is_empty() {
            header["streams"] = json!(streams);
        }
        folder::with_place(header, self.compare.version)
    }

    /// Returns how long the rest takes, if as many runs are not valid, and repeated, as so far.
    fn left(&self, done: &[Trial]) -> Duration {
        let all: Duration = self
            .variants
            .iter()
            .map(|variant| variant.takes + self.compare.pause)
            .sum();
        let all = all * self.rounds as u32;
        let valid = done.iter().filter(|trial| trial.figures.valid);
        let repeats = repeats(done.len(), done.len() - valid.clone().count());
        let gone: Duration = valid
            .map(|trial| self.variants[trial.turn.variant].takes + self.compare.pause)
            .sum();
        all.saturating_sub(gone).mul_f64(repeats)
    }
}

/// Returns the metrics to compare: those of `--metric`, or the defaults of the workload.
fn metrics(given: &[Metric], workload: &str, paced: bool, varied: bool) -> Result<Vec<Metric>> {
    for (at, metric) in given.iter().enumerate() {
        if !metric.quantity.is_of(workload) {
            let has = Quantity::ALL
                .into_iter()
                .filter(|quantity| quantity.is_of(workload))
                .map(Quantity::name);
            let has = has.collect::<Vec<_>>().join(", ");
            let name = metric.name();
            return Err(usage(format!(
                "--metric {name}: {workload} does not measure it: want one of {has}"
            )));
        }
        if given[..at].contains(metric) {
            return Err(usage(format!(
                "--metric {}: it is given twice: want it once",
                metric.name()
            )));
        }
    }
    Ok(match (given.is_empty(), workload) {
        (false, _) => given.to_vec(),
        (_, "send" | "reflect" | "forward") => vec![Quantity::OfferedPps.into()],
        // In runs as fast as possible, latency is that of queues.
        (_, "sendrecv") if paced && !varied => vec![Quantity::ReceivedPps.into(), Quantity::P99.into()],
        _ => vec![Quantity::ReceivedPps.into()],
    })
}

/// Compares runs in turns, and returns the exit code. `varied`: settings whose combinations the variants are, of the
/// run `operand`.
///
/// # Errors
/// If the runs can't be compared, or one of them could not take place.
pub fn runs(
    compare: &Compare,
    variants: Vec<Variant>,
    (operand, varied): (String, Vec<Varied>),
    (view, caller): (&dyn View, &dyn Runs),
) -> Result<u8> {
    let differ = unlike::of_runs(&variants, compare.force)?;
    let paced = variants
        .iter()
        .all(|variant| variant.plan.get("load.rate").is_some_and(|rate| !rate.is_null()));
    let metrics = metrics(
        &compare.metrics,
        variants[0].plan.workload().name(),
        paced,
        !varied.is_empty(),
    )?;
    for metric in &metrics {
        let Some(name) = &metric.stream else { continue };
        for variant in &variants {
            check_stream(variant.plan.fields(), name, metric.quantity.is_percentile())
                .map_err(|why| usage(format!("--metric '{}': {}: {why}", metric.name(), variant.name)))?;
        }
    }
    let several = (variants.len() - 1) * metrics.len();
    // So many that the least p-value stands among all comparisons.
    let least = (several as f64 * 2.0 / ALPHA).log2().ceil() as usize;
    let mut setup = Setup {
        compare,
        metrics,
        names: variants.iter().map(|variant| variant.name.clone()).collect(),
        texts: variants.iter().map(|variant| variant.text.clone()).collect(),
        operand,
        rounds: compare.rounds.unwrap_or(least.clamp(8, MOST_ROUNDS)),
        settings: varied,
        differ,
        plan: serde_json::from_str(&variants[0].plan.to_json()).unwrap_or_default(),
        variants,
    };
    let began = Instant::now();
    let (mut record, mut trials) = match &compare.folder {
        Some(folder) => {
            let (record, trials) = record::open(folder, compare.resume, &setup.header(), &setup.names)?;
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
    let ended = play(&setup, &mut trials, record.as_mut(), (view, caller));
    let found = rows::in_turns(
        &setup.names,
        setup.rounds,
        &setup.metrics,
        compare.margin,
        &setup.places(),
        &trials,
    );
    end(&setup, &found, &trials, ended, began.elapsed(), (record.as_ref(), view))
}

/// Compares results of earlier runs, or of searches. Returns the exit code.
///
/// # Errors
/// If the results can't be compared.
pub fn results(compare: &Compare, sides: &[Side], view: &dyn View) -> Result<u8> {
    if sides.len() < 2 {
        return Err(usage(format!(
            "'{}' alone: want results of another side, too",
            sides[0].text
        )));
    }
    if sides.iter().any(searches::is_of) {
        refuse_runs(sides)?;
        return searches::compare(compare, sides, view);
    }
    let setup = setup_of_results(compare, sides)?;
    let read = figures_of(sides, &setup.metrics);
    let found = rows::of_results(&read, &setup.metrics, compare.margin, compare.seed);
    let trials = trials_of(read);
    let record = record_of_results(compare, sides, &setup.names, &trials)?;
    end(
        &setup,
        &found,
        &trials,
        Ended::Done,
        Duration::ZERO,
        (record.as_ref(), view),
    )
}

/// Refuses the result of a run beside those of searches.
fn refuse_runs(sides: &[Side]) -> Result<()> {
    let runs = sides.iter().flat_map(|side| &side.results);
    let mut runs = runs.filter(|(_, result)| result.get("valid").is_some());
    if let Some((file, _)) = runs.next() {
        return Err(usage(format!(
            "{}: the result of a run beside that of a search: a rate that was measured is no rate that was \
             searched for: want results of ndr or rfc2544 alone, or of runs alone",
            file.display()
        )));
    }
    Ok(())
}

/// Returns the setup of a comparison of results that exist already.
fn setup_of_results<'c>(compare: &'c Compare, sides: &[Side]) -> Result<Setup<'c>> {
    let differ = unlike::of_results(sides, compare.force)?;
    let first = &sides[0].results[0].1;
    let mut all = sides.iter().flat_map(|side| &side.results);
    let paced = all.all(|(_, result)| result["intended_pps"].is_number());
    let workload = first["workload"].as_str().unwrap_or_default();
    let metrics = metrics(&compare.metrics, workload, paced, false)?;
    for (file, result) in sides.iter().flat_map(|side| &side.results) {
        let named = metrics
            .iter()
            .filter_map(|metric| Some((metric, metric.stream.as_ref()?)));
        for (metric, name) in named {
            if trial::stream(result, name).is_none() {
                let names = trial::streams(result).filter_map(|of| of["name"].as_str());
                let why = no_stream(name, names);
                return Err(usage(format!(
                    "--metric '{}': {}: {why}",
                    metric.name(),
                    file.display()
                )));
            }
        }
    }
    let text = |side: &Side| match side.results.as_slice() {
        [_] => side.text.clone(),
        all => format!("{} ({} results)", side.text, all.len()),
    };
    Ok(Setup {
        compare,
        metrics,
        names: sides.iter().map(|side| side.name.clone()).collect(),
        texts: sides.iter().map(text).collect(),
        operand: String::new(),
        variants: Vec::new(),
        // Values alone of few are what was asked for.
        rounds: sides.iter().map(|side| side.results.len()).min().unwrap_or(0),
        settings: Vec::new(),
        differ,
        plan: first["plan"].clone(),
    })
}

/// Returns the figures of each side's results, with the name of the side.
fn figures_of(sides: &[Side], metrics: &[Metric]) -> Vec<(String, Vec<Figures>)> {
    let figures = |side: &Side| {
        let results = side.results.iter();
        results.map(|(_, result)| Figures::of_run(result, metrics)).collect()
    };
    sides.iter().map(|side| (side.name.clone(), figures(side))).collect()
}

/// Returns results as the trials of a comparison: each side is a variant.
fn trials_of(read: Vec<(String, Vec<Figures>)>) -> Vec<Trial> {
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
    trials
}

/// Writes the record of a comparison of results, if it has a folder.
fn record_of_results(compare: &Compare, sides: &[Side], names: &[String], trials: &[Trial]) -> Result<Option<Record>> {
    let Some(folder) = &compare.folder else {
        return Ok(None);
    };
    let all = sides.iter().flat_map(|side| &side.results);
    let files: Vec<_> = all.map(|(file, _)| file.display().to_string()).collect();
    let header = json!({ "schema": SCHEMA, "test": "compare", "results": files });
    let (mut record, _) = record::open(folder, false, &header, names)?;
    for (at, trial) in trials.iter().enumerate() {
        record.line(&trial.json(at + 1, names));
    }
    Ok(Some(record))
}

/// Prints the result, writes its files, and gives the exit code.
fn end(
    setup: &Setup<'_>,
    found: &Found,
    trials: &[Trial],
    ended: Ended,
    took: Duration,
    (record, view): (Option<&Record>, &dyn View),
) -> Result<u8> {
    let worth_telling = match ended {
        Ended::Done => true,
        Ended::Interrupted => trials.iter().any(|trial| trial.figures.valid),
        Ended::Failed(_) => found.rows.iter().any(|row| row.estimate.is_some()),
    };
    let mut lines = match worth_telling {
        true => tell::lines(setup, found, trials.len(), took),
        false => Vec::new(),
    };
    if matches!(ended, Ended::Interrupted) {
        lines.push("not complete: it was interrupted".to_owned());
    }
    let document = result::document(setup, found, trials, &ended, took);
    view.result(&lines, &document)?;
    let mut unwritten = Vec::new();
    if let Some(record) = record {
        let broken = record.broken.as_ref();
        unwritten.extend(broken.map(|broken| format!("{broken}: the record ends before")));
        unwritten.extend(record.files(files(&document).map_err(failed)?));
    }
    view.end(&unwritten)?;
    match (ended, unwritten.is_empty()) {
        (Ended::Failed(failure), true) => Err(failure),
        (Ended::Failed(failure), false) => Err(failed(failure.line())),
        (_, false) => Ok(1),
        _ => Ok(if document.complete { 0 } else { 3 }),
    }
}

const _: () = assert!(LEAST <= 8);
