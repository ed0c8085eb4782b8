//! The runs, one after another.

use super::record::Record;
use super::trial::{Figures, Trial};
use super::{Ended, Setup, child, tell};
use crate::fail::{Result, failed, say, usage};
use mpps_methods::statistics::Turn;
use mpps_run::privilege::aside;
use mpps_sys::signal;
use std::time::{Duration, Instant};

/// Runs whatever is left, in turns.
pub(super) fn play(setup: &Setup<'_>, trials: &mut Vec<Trial>, mut record: Option<&mut Record>) -> Ended {
    let turns = setup.turns();
    if !setup.args.quiet {
        let count = setup.rounds * setup.variants.len();
        let left = tell::about(setup.left(trials));
        let pause = match setup.pause() {
            Duration::ZERO => String::new(),
            pause => format!(", a pause of {} s between two (--pause)", pause.as_secs_f64()),
        };
        say!(
            "{count} runs in {} rounds, in turns{pause}; left: about {left}",
            setup.rounds
        );
    }
    let mut rested = true;
    loop {
        let outcomes: Vec<_> = trials.iter().map(Trial::outcome).collect();
        let Some(turn) = turns.next(&outcomes) else {
            return Ended::Done;
        };
        if !rested && !wait(setup.pause()) || signal::interrupted() {
            return Ended::Interrupted;
        }
        rested = false;
        let figures = match one(setup, turn) {
            Ok(Some(figures)) => figures,
            Ok(None) => return Ended::Interrupted,
            Err(failure) => return Ended::Failed(failure),
        };
        let trial = Trial { turn, figures };
        if let Some(record) = record.as_deref_mut() {
            record.line(&trial.json(trials.len() + 1, &setup.names));
        }
        trials.push(trial);
        progress(setup, trials);
    }
}

/// One run; `None`: it was interrupted, and says nothing.
fn one(setup: &Setup<'_>, turn: Turn) -> Result<Option<Figures>> {
    let variant = &setup.variants[turn.variant];
    let name = &variant.name;
    Ok(match child::run(&variant.words, variant.quiet)? {
        child::Ended::Interrupted => None,
        child::Ended::Told(summary) if summary["interrupted"] == true => {
            Some(Figures::failed("it was ended from outside".to_owned()))
        }
        child::Ended::Told(summary) => Some(Figures::of_summary(&summary)),
        child::Ended::Failed(Some(2), said) => return Err(usage(format!("{name}: {said}"))),
        // Later a device may be away for a while.
        child::Ended::Failed(_, said) if turn.round == 0 => {
            return Err(failed(format!("{name}: {said}")));
        }
        child::Ended::Failed(_, said) => Some(Figures::failed(said)),
    })
}

/// A line per run.
fn progress(setup: &Setup<'_>, trials: &[Trial]) {
    let Some(last) = trials.last().filter(|_| !setup.args.quiet) else {
        return;
    };
    let (name, metric) = (&setup.names[last.turn.variant], setup.metrics[0]);
    let value = last.figures.value(metric).map(|value| tell::value(metric, value));
    let told = match (last.figures.valid, value) {
        (true, Some(value)) => format!("{} {value}", metric.name()),
        (true, None) => format!("no {}", metric.name()),
        (false, _) => format!("not valid: {}", last.figures.why_invalid()),
    };
    let left = tell::about(setup.left(trials));
    say!(
        "round {} of {}: {name}: {told}; left: about {left}",
        last.turn.round + 1,
        setup.rounds
    );
}

/// Waits between two runs; false where the end has been asked for.
fn wait(pause: Duration) -> bool {
    let _aside = aside();
    let until = Instant::now() + pause;
    while !signal::interrupted() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
    false
}
