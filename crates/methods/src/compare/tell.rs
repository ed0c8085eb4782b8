//! The result in words.

use super::Setup;
use super::rows::{Found, Kind, Of, Row};
use super::unlike;
use super::{Metric, Quantity};
use crate::statistics::{ALPHA, LEAST, MOST_ROUNDS, Spread, Verdict};
use mpps_report::units::{percent, pps, time};
use std::fmt::Write as _;
use std::time::Duration;

/// Columns of a line.
const COLUMNS: usize = 110;
/// Lines of the table of values.
const MOST_VALUES: usize = 8;

/// A value as people read it.
pub(super) fn value(metric: &Metric, value: f64) -> String {
    match metric.quantity {
        Quantity::ReceivedPps | Quantity::OfferedPps => pps(value),
        Quantity::Loss => percent(value),
        _ => time(value),
    }
}

/// A time as people read it.
pub(super) fn about(time: Duration) -> String {
    match time.as_secs_f64().round() as u64 {
        s @ 0..120 => format!("{s} s"),
        s => format!("{} min", s.div_ceil(60)),
    }
}

/// A margin as people write it: 2 %.
pub(super) fn margin(margin: f64) -> String {
    let percent = format!("{:.3}", margin * 100.0);
    format!("{} %", percent.trim_end_matches('0').trim_end_matches('.'))
}

/// A ratio to as many digits as its interval is wide: `1.08 (1.05 to 1.11)`.
pub(super) fn interval(of: &crate::statistics::Estimate) -> String {
    let width = of.high - of.low;
    let text = |ratio: f64| {
        // The first digit that the interval leaves open is the last one; of a wide one each number has two digits.
        let of_width = -(width / 2.0).log10().floor();
        let of_number = 1.0 - ratio.log10().floor();
        let decimals = match of.high < of.low * 3.0 {
            true if of.low >= 10.0 => (of_width + 1.0).min(2.0),
            true => of_width.clamp(2.0, 4.0).max(of_number),
            false => of_number,
        };
        match decimals {
            d if d < 0.0 => format!("{:.0}", (ratio * 10_f64.powf(d)).round() / 10_f64.powf(d)),
            d => format!("{ratio:.*}", d.min(9.0) as usize),
        }
    };
    format!("{} ({} to {})", text(of.ratio), text(of.low), text(of.high))
}

/// Returns the correction of a difference that was decided with others: `(Holm, two metrics)`; empty for one alone.
fn correction(metrics: usize, together: usize) -> String {
    const WORDS: [&str; 7] = ["two", "three", "four", "five", "six", "seven", "eight"];
    let number = |n: usize| {
        WORDS
            .get(n.wrapping_sub(2))
            .map_or_else(|| n.to_string(), |word| (*word).to_owned())
    };
    match together {
        0 | 1 => String::new(),
        n if n == metrics => format!(" (Holm, {} metrics)", number(n)),
        n => format!(" (Holm, {} comparisons)", number(n)),
    }
}

/// A comparison in one sentence; `together`: how many were decided with it, itself included.
pub(super) fn sentence(row: &Row, metrics: usize, together: usize, margin_: f64) -> String {
    let base = match row.kind {
        Kind::Variant if row.base.contains('=') => format!("the first, {},", row.base),
        _ => row.base.clone(),
    };
    let metric = row.metric.name();
    let Some(estimate) = &row.estimate else {
        let why = row.why.as_deref().unwrap_or_default();
        return match metrics {
            1 => format!("{} and {base}: no verdict: {why}", row.subject),
            _ => format!("{} and {base} in {metric}: no verdict: {why}", row.subject),
        };
    };
    let mut text = format!("{} is {} times {base} in {metric}: ", row.subject, interval(estimate));
    let margin = margin(margin_);
    match row.verdict {
        None => text += &format!("no verdict: {}", row.why.as_deref().unwrap_or_default()),
        Some(Verdict::Same) => text += &format!("same, within {margin}"),
        Some(Verdict::Undecided { rounds }) => {
            let why = match row.corrected {
                _ if estimate.low <= 1.0 && estimate.high >= 1.0 => {
                    format!("the interval holds 1 and goes beyond {margin}")
                }
                Some(p) => format!(
                    "p is {p:.2}{}, and {ALPHA} at the most decides",
                    correction(metrics, together)
                ),
                None => "the difference may be chance".to_owned(),
            };
            let rounds = rounds.map_or_else(|| format!("not even {MOST_ROUNDS}"), |rounds| rounds.to_string());
            let _ = write!(text, "undecided: {why}; {rounds} rounds might decide");
        }
        Some(verdict @ (Verdict::ALittleBetter | Verdict::ALittleWorse)) => {
            let how = correction(metrics, together);
            let _ = write!(text, "{}, maybe less than {margin}{how}", verdict.words());
        }
        Some(verdict) => {
            let _ = write!(text, "{}{}", verdict.words(), correction(metrics, together));
        }
    }
    text
}

/// Returns the sentences of the verdict that a reader wants: with settings, their effects and the best combination.
pub(super) fn sentences(setup: &Setup<'_>, found: &Found) -> Vec<String> {
    let (metrics, margin) = (setup.metrics.len(), setup.compare.margin);
    let sentence = |row: &Row| sentence(row, metrics, found.decided(row.kind), margin);
    let of_kind = |kind: Kind| found.rows.iter().filter(move |row| row.kind == kind);
    if let Some(why) = nothing_known(found) {
        return vec![format!("No verdict: {why}")];
    }
    if setup.settings.is_empty() {
        return of_kind(Kind::Variant).map(sentence).collect();
    }
    let mut all: Vec<String> = of_kind(Kind::Setting)
        .map(|row| {
            let text = sentence(row);
            match row.verdict {
                Some(Verdict::Better | Verdict::ALittleBetter) => format!("{text}: it helps"),
                _ => text,
            }
        })
        .collect();
    // With one setting of two values, its effect is all that there is to know.
    if matches!(&setup.settings[..], [of] if of.setting.values.len() == 2) {
        return all;
    }
    all.push(match found.best() {
        Some(row) => format!("Best: {}", sentence(row)),
        None if found.rows.iter().any(|row| row.estimate.is_some() && row.why.is_none()) => {
            format!("Best: the first, {}", found.of[0].name)
        }
        None => "Best: not known".to_owned(),
    });
    all
}

/// Returns the reason why there is no ratio at all, if it is a single one.
fn nothing_known(found: &Found) -> Option<&str> {
    let mut reasons = found
        .rows
        .iter()
        .map(|row| row.why.as_deref().filter(|_| row.estimate.is_none()));
    let first = reasons.next()??;
    reasons.all(|why| why == Some(first)).then_some(first)
}

/// Everything that is printed at the end.
pub(super) fn lines(setup: &Setup<'_>, found: &Found, runs: usize, took: Duration) -> Vec<String> {
    let mut lines = Vec::new();
    let cut = |text: &str| match text.chars().count() > COLUMNS {
        true => text.chars().take(COLUMNS - 1).chain(['…']).collect(),
        false => text.to_owned(),
    };
    if setup.settings.is_empty() {
        for (name, text) in setup.names.iter().zip(&setup.texts) {
            lines.push(cut(&format!("{name}  {text}")));
        }
    } else {
        lines.push(cut(&setup.operand));
        lines.push(cut(&format!("with {}", setup.what_settings_are().join(" and "))));
    }
    if !setup.differ.is_empty() && setup.settings.is_empty() {
        let full = setup.differ.iter().map(unlike::words).collect::<Vec<_>>().join(", ");
        let names = || {
            setup
                .differ
                .iter()
                .map(|(name, _)| name.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let all = if full.chars().count() < COLUMNS - 20 {
            full
        } else {
            names()
        };
        lines.push(cut(&format!("They differ in {all}.")));
    }
    if setup.is_of_results() {
        lines.push("Not alternated: drift of the host is in it.".to_owned());
    }
    if found.of.iter().any(|of| of.valid > 0) {
        lines.extend(values(setup, found));
    }
    lines.extend(sentences(setup, found));
    lines.extend(found.notes.iter().take(2).map(|note| format!("note: {note}")));
    lines.push(last(setup, found, runs, took));
    lines
}

/// Returns the table of values, the best first if there are many.
fn values(setup: &Setup<'_>, found: &Found) -> Vec<String> {
    let wide = found.of.iter().map(|of| of.name.chars().count()).max().unwrap_or(0);
    let names = setup.metrics.iter().map(|metric| metric.name().chars().count());
    let heading_wide = names.max().unwrap_or(0).max(12);
    let line = |metric: &str, name: &str, cells: [&str; 5]| {
        let [median, least, most, mad, void] = cells;
        format!("{metric:<heading_wide$}  {name:<wide$}  {median:>12}  {least:>12}  {most:>12}  {mad:>12}  {void:>9}")
    };
    let mut lines = vec![line("", "", ["median", "min", "max", "MAD", "not valid"])];
    let many = found.of.len() * setup.metrics.len() > MOST_VALUES;
    let metrics = if many { &setup.metrics[..1] } else { &setup.metrics[..] };
    for (at, metric) in metrics.iter().enumerate() {
        let mut of: Vec<&Of> = found.of.iter().collect();
        let median = |of: &Of| of.columns[at].spread.map_or(f64::NAN, |spread| spread.median);
        if !setup.settings.is_empty() {
            of.sort_by(|a, b| median(a).total_cmp(&median(b)));
            if metric.quantity.sense() == crate::statistics::Sense::More {
                of.reverse();
            }
        }
        for (place, of) in of.iter().take(MOST_VALUES).enumerate() {
            let cells = match of.columns[at].spread {
                Some(Spread {
                    median, min, max, mad, ..
                }) => [median, min, max, mad].map(|number| value(metric, number)),
                None => ["-", "-", "-", "-"].map(str::to_owned),
            };
            let void = format!("{} of {}", of.invalid, of.invalid + of.valid);
            let [median, least, most, mad] = &cells;
            let heading = if place == 0 { metric.name() } else { String::new() };
            lines.push(line(&heading, &of.name, [median, least, most, mad, &void]));
        }
        if of.len() > MOST_VALUES {
            lines.push(format!("… and {} more", of.len() - MOST_VALUES));
        }
    }
    lines
}

/// Returns the last line: how many runs there were, and how long they took.
fn last(setup: &Setup<'_>, found: &Found, runs: usize, took: Duration) -> String {
    let invalid: usize = found.of.iter().map(|of| of.invalid).sum();
    let valid = match invalid {
        0 => "all valid".to_owned(),
        n => format!("{n} not valid"),
    };
    let margin = margin(setup.compare.margin);
    if setup.is_of_results() {
        return format!("{runs} results, {valid}; margin {margin}");
    }
    let done = found.of.iter().map(|of| of.valid).min().unwrap_or(0);
    let rounds = match setup.rounds {
        all if done == all => format!("{all} rounds"),
        all => format!("{done} of {all} rounds"),
    };
    let few = if done < LEAST { ", too few for a verdict" } else { "" };
    format!("{rounds}{few}, {runs} runs, {valid}; margin {margin}; {}", about(took))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Estimate;

    fn row(low: f64, ratio: f64, high: f64, verdict: Verdict) -> Row {
        Row {
            kind: Kind::Variant,
            subject: "B".to_owned(),
            base: "A".to_owned(),
            metric: Quantity::ReceivedPps.into(),
            estimate: Some(Estimate {
                ratio,
                low,
                high,
                confidence: 0.96,
                p: 0.01,
                n: 8,
            }),
            corrected: Some(0.01),
            verdict: Some(verdict),
            why: None,
        }
    }

    #[test]
    fn verdicts_are_plain_sentences() {
        let said = |row: &Row| sentence(row, 1, 1, 0.02);
        assert_eq!(
            said(&row(1.05, 1.08, 1.11, Verdict::Better)),
            "B is 1.08 (1.05 to 1.11) times A in received_pps: better"
        );
        assert_eq!(
            said(&row(0.995, 1.0, 1.0051, Verdict::Same)),
            "B is 1.000 (0.995 to 1.005) times A in received_pps: same, within 2 %"
        );
        let undecided = Verdict::Undecided { rounds: Some(14) };
        assert!(
            said(&row(0.9, 1.0, 1.1, undecided))
                .ends_with("undecided: the interval holds 1 and goes beyond 2 %; 14 rounds might decide")
        );
        let none = Row {
            estimate: None,
            verdict: None,
            why: Some("3 rounds give values alone".to_owned()),
            ..row(1.0, 1.0, 1.0, Verdict::Same)
        };
        assert_eq!(said(&none), "B and A: no verdict: 3 rounds give values alone");
    }

    #[test]
    fn how_a_difference_was_decided_among_several_is_said_with_it() {
        let said = |row: &Row| sentence(row, 2, 2, 0.02);
        let better = row(1.05, 1.08, 1.11, Verdict::Better);
        assert!(said(&better).ends_with("better (Holm, two metrics)"));
        let little = row(1.01, 1.03, 1.05, Verdict::ALittleBetter);
        assert!(said(&little).ends_with("a little better, maybe less than 2 % (Holm, two metrics)"));
        let undecided = Row {
            corrected: Some(0.0781),
            ..row(1.05, 1.08, 1.11, Verdict::Undecided { rounds: None })
        };
        assert!(
            said(&undecided).ends_with(
                "undecided: p is 0.08 (Holm, two metrics), and 0.05 at the most decides; not even 200 rounds might \
                 decide"
            ),
            "{}",
            said(&undecided)
        );
        assert!(sentence(&better, 2, 6, 0.02).ends_with("better (Holm, six comparisons)"));
        assert!(sentence(&better, 1, 12, 0.02).ends_with("better (Holm, 12 comparisons)"));
    }

    #[test]
    fn ratios_have_the_digits_that_their_interval_allows() {
        let text = |low, ratio, high| interval(&row(low, ratio, high, Verdict::Same).estimate.unwrap());
        assert_eq!(text(0.9994, 1.0, 1.0006), "1.0000 (0.9994 to 1.0006)");
        assert_eq!(text(1.0, 1.0, 1.0), "1.0000 (1.0000 to 1.0000)");
        assert_eq!(text(0.8, 1.0, 1.3), "1.00 (0.80 to 1.30)");
        assert_eq!(text(1004.75, 1170.22, 1897.21), "1170 (1000 to 1900)");
        assert_eq!(text(28.97, 34.63, 40.41), "34.6 (29.0 to 40.4)");
        assert_eq!(text(1.46, 1.48, 1.5), "1.48 (1.46 to 1.50)");
        assert_eq!(text(0.001_51, 0.158, 367.0), "0.16 (0.0015 to 370)");
        assert_eq!(text(0.0002, 0.001, 0.002), "0.0010 (0.00020 to 0.0020)");
        assert_eq!((margin(0.02), margin(0.005)), ("2 %".to_owned(), "0.5 %".to_owned()));
    }
}
