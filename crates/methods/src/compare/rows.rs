//! Conversion of runs into verdicts.

use super::trial::{Figures, Trial};
use super::{Metric, Setting};
use crate::statistics::{
    DRIFT, Estimate, LEAST, Spread, Turns, Verdict, holm, judge, paired, paired_of_logs, spearman, unpaired,
};

/// The values of a variant.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) metric: Metric,
    /// Values by round; `None`: no valid run, or one without this value. Earlier results: one after another.
    pub(super) values: Vec<Option<f64>>,
    pub(super) spread: Option<Spread>,
    /// Spearman's coefficient of the values with their order.
    pub(super) drift: Option<f64>,
}

/// A variant: its runs, and its values per metric.
#[derive(Clone, Debug)]
pub(super) struct Of {
    pub(super) name: String,
    pub(super) columns: Vec<Column>,
    pub(super) valid: usize,
    pub(super) invalid: usize,
    /// Reason why the last invalid run is not valid.
    pub(super) reason: Option<String>,
}

impl Of {
    /// Makes the columns of a variant from its runs, with the round of each.
    fn new<'f>(
        name: &str,
        metrics: &[Metric],
        rounds: usize,
        runs: impl Iterator<Item = (usize, &'f Figures)>,
    ) -> Self {
        let runs: Vec<_> = runs.collect();
        let valid: Vec<_> = runs.iter().filter(|(_, figures)| figures.valid).collect();
        let column = |metric: &Metric| {
            let mut values = vec![None; rounds];
            for (round, figures) in &valid {
                values[*round] = figures.value(metric);
            }
            let there: Vec<f64> = values.iter().copied().flatten().collect();
            Column {
                metric: metric.clone(),
                spread: Spread::of(&there),
                drift: spearman(&there),
                values,
            }
        };
        let last = runs.iter().rev().find(|(_, figures)| !figures.valid);
        Self {
            name: name.to_owned(),
            columns: metrics.iter().map(column).collect(),
            valid: valid.len(),
            invalid: runs.len() - valid.len(),
            reason: last.map(|(_, figures)| figures.why_invalid()),
        }
    }

    pub(super) fn has_too_many_invalid(&self) -> bool {
        Turns::too_many_invalid(self.invalid, self.valid)
    }
}

/// Kind of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A variant, compared with the first.
    Variant,
    /// A value of a setting, compared with its first value, over all combinations of the other settings.
    Setting,
}

/// A comparison.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) kind: Kind,
    pub(super) subject: String,
    pub(super) base: String,
    pub(super) metric: Metric,
    pub(super) estimate: Option<Estimate>,
    /// p-value among all comparisons that were made together.
    pub(super) corrected: Option<f64>,
    pub(super) verdict: Option<Verdict>,
    /// Reason why there is no verdict.
    pub(super) why: Option<String>,
}

/// Result of a comparison.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) of: Vec<Of>,
    pub(super) rows: Vec<Row>,
    pub(super) notes: Vec<String>,
}

impl Found {
    /// The best combination by the first metric, with its row; `None`: that is the first one, or nothing is known.
    pub(super) fn best(&self) -> Option<&Row> {
        let rows = self.rows.iter().filter(|row| row.kind == Kind::Variant);
        let metric = &self.rows.first()?.metric;
        let gain = |row: &Row| {
            let log = row.estimate.map(|of| of.ratio.ln())?;
            Some(match row.metric.quantity.sense() {
                crate::statistics::Sense::More => log,
                crate::statistics::Sense::Less => -log,
            })
        };
        let known = rows
            .filter(|row| row.metric == *metric && row.why.is_none())
            .filter_map(|row| Some((row, gain(row)?)));
        let best = known.max_by(|a, b| a.1.total_cmp(&b.1))?;
        (best.1 > 0.0).then_some(best.0)
    }

    /// Returns how many comparisons of this kind were decided together.
    pub(super) fn decided(&self, kind: Kind) -> usize {
        let together = self
            .rows
            .iter()
            .filter(|row| row.kind == kind && row.corrected.is_some());
        together.count()
    }

    /// Whether every comparison has the verdict that was asked for.
    pub(super) fn is_complete(&self, rounds: usize) -> bool {
        rounds < LEAST || self.rows.iter().all(|row| row.verdict.is_some())
    }
}

/// Runs in turns.
pub(super) fn in_turns(
    names: &[String],
    rounds: usize,
    metrics: &[Metric],
    margin: f64,
    settings: &[(Setting, Vec<Vec<usize>>)],
    trials: &[Trial],
) -> Found {
    let of = |(variant, name): (usize, &String)| {
        let runs = trials.iter().filter(move |trial| trial.turn.variant == variant);
        Of::new(
            name,
            metrics,
            rounds,
            runs.map(|trial| (trial.turn.round, &trial.figures)),
        )
    };
    let of: Vec<Of> = names.iter().enumerate().map(of).collect();
    let mut effects = Vec::new();
    for (at, metric) in metrics.iter().enumerate() {
        for (setting, places) in settings {
            for (value, variants) in setting.values.iter().zip(places).skip(1) {
                let estimate = paired_of_logs(&effect(&of, at, &places[0], variants));
                let mut row = row(Kind::Setting, "", "", metric, estimate);
                row.subject = format!("{}={value}", setting.key);
                row.base = format!("{}={}", setting.key, setting.values[0]);
                effects.push(row);
            }
        }
    }
    let mut rows = Vec::new();
    for (at, metric) in metrics.iter().enumerate() {
        for other in of.iter().skip(1) {
            let pairs = pairs(&of[0].columns[at], &other.columns[at]);
            let mut row = row(Kind::Variant, &other.name, &of[0].name, metric, paired(&pairs));
            row.why = row.why.map(|_| why_none(&of[0], other, pairs.len(), &pairs));
            if of[0].has_too_many_invalid() || other.has_too_many_invalid() {
                row.why = Some(why_none(&of[0], other, pairs.len(), &pairs));
            }
            rows.push(row);
        }
    }
    // Each table is read by itself.
    decide(&mut effects, margin);
    decide(&mut rows, margin);
    let notes = notes(&of);
    effects.extend(rows);
    Found {
        of,
        rows: effects,
        notes,
    }
}

/// Results of earlier runs, not in turns.
pub(super) fn of_results(sides: &[(String, Vec<Figures>)], metrics: &[Metric], margin: f64, seed: u64) -> Found {
    let of = |(name, all): &(String, Vec<Figures>)| Of::new(name, metrics, all.len(), all.iter().enumerate());
    let of: Vec<Of> = sides.iter().map(of).collect();
    let mut rows = Vec::new();
    for (at, metric) in metrics.iter().enumerate() {
        let values = |of: &Of| of.columns[at].values.iter().copied().flatten().collect::<Vec<f64>>();
        for other in of.iter().skip(1) {
            let (a, b) = (values(&of[0]), values(other));
            let mut row = row(Kind::Variant, &other.name, &of[0].name, metric, unpaired(&a, &b, seed));
            let pairs: Vec<_> = a.iter().copied().zip(b.iter().copied()).collect();
            if row.why.is_some() || of[0].has_too_many_invalid() || other.has_too_many_invalid() {
                let why = why_none(&of[0], other, a.len().min(b.len()), &pairs);
                let why = why.replace("round gives", "result on a side gives");
                row.why = Some(why.replace("rounds give", "results on a side give"));
            }
            rows.push(row);
        }
    }
    decide(&mut rows, margin);
    // Files have no order in time that says anything.
    Found {
        of,
        rows,
        notes: Vec::new(),
    }
}

fn row(kind: Kind, subject: &str, base: &str, metric: &Metric, estimate: Option<Estimate>) -> Row {
    Row {
        kind,
        subject: subject.to_owned(),
        base: base.to_owned(),
        metric: metric.clone(),
        estimate,
        corrected: None,
        verdict: None,
        why: estimate.is_none().then(|| "too few rounds".to_owned()),
    }
}

/// Values of the rounds in which both have one.
fn pairs(a: &Column, b: &Column) -> Vec<(f64, f64)> {
    let both = a.values.iter().zip(&b.values);
    both.filter_map(|(a, b)| Some(((*a)?, (*b)?))).collect()
}

/// Per round the mean logarithm of the ratios between combinations that differ in one setting alone.
fn effect(of: &[Of], metric: usize, base: &[usize], other: &[usize]) -> Vec<f64> {
    let usable = |at: &usize| !of[*at].has_too_many_invalid();
    let rounds = of.first().map_or(0, |of| of.columns[metric].values.len());
    let of_round = |round: usize| {
        let pairs = base.iter().zip(other).filter(|(a, b)| usable(a) && usable(b));
        let logs = pairs.filter_map(|(a, b)| {
            let value = |at: usize| of[at].columns[metric].values[round].filter(|value| *value > 0.0);
            Some(value(*b)?.ln() - value(*a)?.ln())
        });
        let logs: Vec<f64> = logs.collect();
        (!logs.is_empty()).then(|| logs.iter().sum::<f64>() / logs.len() as f64)
    };
    (0..rounds).filter_map(of_round).collect()
}

/// Returns the reason why two variants have no verdict.
fn why_none(a: &Of, b: &Of, n: usize, pairs: &[(f64, f64)]) -> String {
    for of in [a, b] {
        if of.has_too_many_invalid() {
            let all = of.invalid + of.valid;
            let reason = of.reason.as_deref().filter(|why| !why.is_empty());
            let reason = reason.map_or_else(String::new, |why| format!(": {why}"));
            return format!("{} of {all} runs of {} were not valid{reason}", of.invalid, of.name);
        }
    }
    if n < LEAST {
        let rounds = match n {
            1 => "1 round gives".to_owned(),
            n => format!("{n} rounds give"),
        };
        return format!("{rounds} values and their spread alone; {LEAST} or more give an interval");
    }
    match pairs.iter().any(|(a, b)| *a <= 0.0 || *b <= 0.0) {
        true => "0 in a run has no ratio".to_owned(),
        false => "it was not measured".to_owned(),
    }
}

/// Gives verdicts, by what all comparisons of a table say together.
fn decide(rows: &mut [Row], margin: f64) {
    let judged: Vec<usize> = (0..rows.len()).filter(|at| rows[*at].why.is_none()).collect();
    let p: Vec<f64> = judged
        .iter()
        .filter_map(|at| rows[*at].estimate.map(|of| of.p))
        .collect();
    let corrected = holm(&p);
    for (at, corrected) in judged.into_iter().zip(corrected) {
        let row = &mut rows[at];
        let Some(estimate) = row.estimate else { continue };
        row.corrected = Some(corrected);
        row.verdict = Some(judge(
            &estimate,
            corrected,
            p.len(),
            margin,
            row.metric.quantity.sense(),
        ));
    }
}

/// Returns the notes on the values.
fn notes(of: &[Of]) -> Vec<String> {
    let mut notes = Vec::new();
    for of in of {
        for column in &of.columns {
            if let Some(drift) = column.drift.filter(|drift| drift.abs() > DRIFT && of.valid >= LEAST) {
                let way = if drift > 0.0 { "rises" } else { "falls" };
                let (name, metric) = (&of.name, column.metric.name());
                notes.push(format!(
                    "{metric} of {name} {way} from round to round (Spearman {drift:.2}): something drifts"
                ));
            }
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Quantity;
    use crate::statistics::Turn;

    /// Eight rounds of these rates, with a little noise by round.
    fn trials(rates: &[f64]) -> Vec<Trial> {
        let of = |round: usize, variant: usize| {
            let noise = 1.0 + [0.001, -0.002, 0.003, -0.001, 0.002, 0.0, -0.003, 0.001][(round + variant) % 8];
            Trial {
                turn: Turn {
                    round,
                    variant,
                    attempt: 0,
                },
                figures: Figures {
                    valid: true,
                    received_pps: Some(rates[variant] * noise),
                    ..Figures::default()
                },
            }
        };
        (0..8)
            .flat_map(|round| (0..rates.len()).map(move |variant| of(round, variant)))
            .collect()
    }

    fn names(n: usize) -> Vec<String> {
        (0..n).map(|at| char::from(b'A' + at as u8).to_string()).collect()
    }

    const METRIC: [Metric; 1] = [Metric {
        quantity: Quantity::ReceivedPps,
        stream: None,
    }];

    #[test]
    fn the_faster_is_better_and_the_same_the_same() {
        let found = in_turns(&names(3), 8, &METRIC, 0.02, &[], &trials(&[1e6, 1.5e6, 1e6]));
        let said: Vec<_> = found.rows.iter().map(|row| row.verdict.unwrap()).collect();
        assert_eq!(said, [Verdict::Better, Verdict::Same]);
        assert_eq!(found.best().unwrap().subject, "B");
        assert!(found.is_complete(8));
    }

    #[test]
    fn a_variant_of_which_too_many_runs_are_not_valid_has_no_verdict() {
        let mut all = trials(&[1e6, 1.5e6]);
        for attempt in 1..4 {
            let mut void = all[1].clone();
            (void.turn.attempt, void.figures.valid) = (attempt, false);
            void.figures.reasons = vec!["late (9 of 9): kept off (cc1 (thread 7) ran)".to_owned()];
            all.push(void);
        }
        let found = in_turns(&names(2), 8, &METRIC, 0.02, &[], &all);
        let row = &found.rows[0];
        assert_eq!(row.verdict, None);
        assert_eq!(
            row.why.as_deref(),
            Some("3 of 11 runs of B were not valid: late: kept off (cc1 (thread 7) ran)")
        );
        assert!(!found.is_complete(8));
    }

    #[test]
    fn few_rounds_have_values_alone() {
        let few: Vec<_> = trials(&[1e6, 1.5e6])
            .into_iter()
            .filter(|trial| trial.turn.round < 3)
            .collect();
        let found = in_turns(&names(2), 3, &METRIC, 0.02, &[], &few);
        assert!(found.rows[0].verdict.is_none() && found.rows[0].why.as_ref().unwrap().starts_with("3 rounds"));
        assert_eq!(found.of[1].columns[0].spread.unwrap().n, 3);
        assert!(found.is_complete(3));
    }

    #[test]
    fn the_effect_of_a_setting_is_that_over_all_combinations_of_the_others() {
        // ring doubles the rate, burst does nothing.
        let setting = |key: &str| Setting {
            key: key.to_owned(),
            values: vec!["1".to_owned(), "2".to_owned()],
        };
        let settings = [
            (setting("ring"), vec![vec![0, 1], vec![2, 3]]),
            (setting("burst"), vec![vec![0, 2], vec![1, 3]]),
        ];
        let found = in_turns(
            &names(4),
            8,
            &METRIC,
            0.02,
            &settings,
            &trials(&[1e6, 1e6, 2e6, 2.01e6]),
        );
        let effects: Vec<_> = found.rows.iter().filter(|row| row.kind == Kind::Setting).collect();
        assert_eq!(
            (effects[0].subject.as_str(), effects[0].verdict),
            ("ring=2", Some(Verdict::Better))
        );
        assert_eq!(
            (effects[1].subject.as_str(), effects[1].verdict),
            ("burst=2", Some(Verdict::Same))
        );
        assert!((effects[0].estimate.unwrap().ratio - 2.0).abs() < 0.02);
        assert_eq!(found.best().unwrap().subject, "D");
    }

    #[test]
    fn a_drift_is_said() {
        let mut all = trials(&[1e6, 1e6]);
        for trial in &mut all {
            trial.figures.received_pps = Some(1e6 + 1e4 * trial.turn.round as f64);
        }
        let found = in_turns(&names(2), 8, &METRIC, 0.02, &[], &all);
        assert!(found.notes[0].contains("received_pps of A rises"), "{:?}", found.notes);
        assert_eq!(found.rows[0].verdict, Some(Verdict::Same), "pairs do not mind");
    }
}
