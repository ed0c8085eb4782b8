//! The runs, one after another.

use super::record::Record;
use super::trial::{Figures, Trial};
use super::{Ended, Ran, Runs, Setup, tell};
use crate::View;
use crate::bench::wait;
use crate::statistics::Turn;
use mpps_run::fail::{Result, failed, usage};
use mpps_run::privilege::aside;
use std::time::Duration;

/// Runs whatever is left, in turns.
pub(super) fn play(
    setup: &Setup<'_>,
    trials: &mut Vec<Trial>,
    mut record: Option<&mut Record>,
    (view, caller): (&dyn View, &dyn Runs),
) -> Ended {
    let (turns, say) = (setup.turns(), view.teller());
    let count = setup.rounds * setup.variants.len();
    let left = tell::about(setup.left(trials));
    let pause = match setup.compare.pause {
        Duration::ZERO => String::new(),
        pause => format!(", a pause of {} s between two (--pause)", pause.as_secs_f64()),
    };
    say(&format!(
        "{count} runs in {} rounds, in turns{pause}; left: about {left}",
        setup.rounds
    ));
    let mut rested = true;
    loop {
        let outcomes: Vec<_> = trials.iter().map(Trial::outcome).collect();
        let Some(turn) = turns.next(&outcomes) else {
            return Ended::Done;
        };
        let pause = if rested { Duration::ZERO } else { setup.compare.pause };
        if !rest(pause, caller) {
            return Ended::Interrupted;
        }
        rested = false;
        let figures = match one(setup, turn, caller) {
            Ok(Some(figures)) => figures,
            Ok(None) => return Ended::Interrupted,
            Err(failure) => return Ended::Failed(failure),
        };
        let trial = Trial { turn, figures };
        if let Some(record) = record.as_deref_mut() {
            record.line(&trial.json(trials.len() + 1, &setup.names));
        }
        trials.push(trial);
        say(&progress(setup, trials));
    }
}

/// Waits between two runs, without privileges. Returns false if the end was requested.
fn rest(pause: Duration, caller: &dyn Runs) -> bool {
    let _aside = aside();
    wait(pause, &|| caller.interrupted())
}

/// One run; `None`: it was interrupted, and says nothing.
fn one(setup: &Setup<'_>, turn: Turn, caller: &dyn Runs) -> Result<Option<Figures>> {
    let name = &setup.names[turn.variant];
    Ok(match caller.run(turn.variant)? {
        Ran::Interrupted => None,
        Ran::Told(summary) if summary["interrupted"] == true => {
            Some(Figures::failed("it was ended from outside".to_owned()))
        }
        Ran::Told(summary) => Some(Figures::of_run(&summary, &setup.metrics)),
        Ran::Failed(Some(2), said) => return Err(usage(format!("{name}: {said}"))),
        // Later a device may be away for a while.
        Ran::Failed(_, said) if turn.round == 0 => {
            return Err(failed(format!("{name}: {said}")));
        }
        Ran::Failed(_, said) => Some(Figures::failed(said)),
    })
}

/// Returns the line on the last run.
fn progress(setup: &Setup<'_>, trials: &[Trial]) -> String {
    let Some(last) = trials.last() else {
        return String::new();
    };
    let (name, metric) = (&setup.names[last.turn.variant], &setup.metrics[0]);
    let value = last.figures.value(metric).map(|value| tell::value(metric, value));
    let told = match (last.figures.valid, value) {
        (true, Some(value)) => format!("{} {value}", metric.name()),
        (true, None) => format!("no {}", metric.name()),
        (false, _) => format!("not valid: {}", last.figures.why_invalid()),
    };
    let left = tell::about(setup.left(trials));
    format!(
        "round {} of {}: {name}: {told}; left: about {left}",
        last.turn.round + 1,
        setup.rounds
    )
}
