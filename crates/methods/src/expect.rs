//! `--expect` of a method: a gate on what it finds, such as the highest rate without loss.

use crate::document::column;
use mpps_pages::document::{Document, Table, Unit};
use mpps_report::{Between, Expect, Found, NOT_DECIDED};
use mpps_run::fail::{Result, usage};
use mpps_stats::Expectation;
use serde_json::Value;

/// Exit code of a method that is done, and of which a demand was not met.
const NOT_MET: u8 = 4;

/// A result that a demand can be made on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reached {
    pub(crate) what: Found,
    /// Stream or group that it is of; `None`: all packets.
    pub(crate) stream: Option<String>,
    /// Frame size with FCS, bytes.
    pub(crate) frame_size: usize,
    pub(crate) between: Between,
}

/// Refuses a demand on what this test does not find: `found` is what it does, each with its stream or group.
///
/// # Errors
/// Then.
pub(crate) fn check(expect: &[Expect], test: &str, found: &[(Found, Option<&str>)]) -> Result<()> {
    let unknown = |expect: &&Expect| {
        let what = expect.in_method().map(|what| (what, expect.stream()));
        what.is_none_or(|what| !found.contains(&what))
    };
    let Some(expect) = expect.iter().find(unknown) else {
        return Ok(());
    };
    let of = |stream: Option<&str>| stream.map_or_else(String::new, |name| format!("({name})"));
    let names: Vec<_> = found
        .iter()
        .map(|(what, stream)| what.name().to_owned() + &of(*stream))
        .collect();
    let stream = of(expect.stream());
    let hint = match expect.in_method() {
        // A goal of the right kind brings it.
        Some(Found::Ndr) => format!(", or a --goal with loss{stream}=0"),
        Some(Found::Pdr) => format!(", or a --goal that allows loss, such as loss{stream}=0.5%"),
        Some(Found::Loss) | None => ", or sendrecv … --expect for one run".to_owned(),
        Some(_) => String::new(),
    };
    Err(usage(format!(
        "--expect '{expect}': {test} does not find that here: want a demand on {}{hint}",
        names.join(", ")
    )))
}

/// Judges each demand at each frame size.
pub(crate) fn judged(expects: &[Expect], results: &[Reached]) -> Vec<Expectation> {
    let several = results.iter().any(|result| result.frame_size != results[0].frame_size);
    let of = |expect: &Expect| -> Vec<Expectation> {
        let wanted: Vec<_> = results
            .iter()
            .filter(|of| expect.in_method() == Some(of.what) && expect.stream() == of.stream.as_deref())
            .collect();
        if wanted.is_empty() {
            return vec![expect.judge_found(Between::default(), 0)];
        }
        let judged = wanted.into_iter().map(|result| {
            let mut told = expect.judge_found(result.between, result.frame_size);
            if several {
                told.expected = format!("{} bytes: {}", result.frame_size, told.expected);
            }
            told
        });
        judged.collect()
    };
    expects.iter().flat_map(of).collect()
}

/// Adds what came of the demands to a result, and gives the exit code: `code`, or where all else is well 4 if one was
/// not met.
pub(crate) fn add_to(document: &mut Document, judged: &[Expectation], code: u8) -> u8 {
    if judged.is_empty() {
        return code;
    }
    // In agreement with the exit code: a result that is not complete proves nothing.
    let verdict = |of: &Expectation| match (of.met, code) {
        (true, 0) => "met",
        (true, _) => "met so far",
        (false, 1..) if of.note.as_deref() == Some(NOT_DECIDED) => NOT_DECIDED,
        (false, _) => "NOT met",
    };
    let lines = judged
        .iter()
        .map(|of| format!("expected, {}: {}: {}", verdict(of), of.expected, of.told));
    document.verdict.extend(lines);
    let row = |of: &Expectation| -> Vec<Value> {
        vec![of.expected.as_str().into(), of.told.as_str().into(), verdict(of).into()]
    };
    let table = Table {
        name: "expectations".to_owned(),
        caption: "What the result must reach (--expect)".to_owned(),
        columns: vec![
            column("expected", "expected", Unit::Plain),
            column("told", "found", Unit::Plain),
            column("met", "met", Unit::Plain),
        ],
        rows: judged.iter().map(row).collect(),
    };
    document.tables.insert(0, table);
    match code {
        0 if judged.iter().any(|of| !of.met) => NOT_MET,
        code => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expects(texts: &[&str]) -> Vec<Expect> {
        texts.iter().map(|text| Expect::parse(text).unwrap()).collect()
    }

    fn throughput(frame_size: usize, lower: f64) -> Reached {
        Reached {
            what: Found::Throughput,
            stream: None,
            frame_size,
            between: Between {
                lower: Some(lower),
                upper: Some(lower * 1.01),
            },
        }
    }

    #[test]
    fn each_frame_size_must_meet_a_demand() {
        let all = judged(
            &expects(&["throughput>1kpps"]),
            &[throughput(64, 2e3), throughput(1518, 500.0)],
        );
        let told: Vec<_> = all.iter().map(|of| (of.met, of.expected.as_str())).collect();
        assert_eq!(
            told,
            [
                (true, "64 bytes: throughput>1kpps"),
                (false, "1518 bytes: throughput>1kpps")
            ]
        );
        let mut document = Document::default();
        assert_eq!(add_to(&mut document, &all, 0), 4);
        assert_eq!(document.tables[0].rows.len(), 2);
        assert!(document.verdict[1].starts_with("expected, NOT met: 1518 bytes: throughput>1kpps: "));
    }

    #[test]
    fn a_result_that_is_not_complete_proves_nothing_and_what_was_not_found_meets_nothing() {
        let met = judged(&expects(&["throughput>1kpps"]), &[throughput(64, 2e3)]);
        let mut document = Document::default();
        assert_eq!(add_to(&mut document, &met, 3), 3);
        assert!(document.verdict[0].starts_with("expected, met so far: throughput>1kpps: "));
        assert_eq!(add_to(&mut Document::default(), &met, 0), 0);
        let missing = judged(&expects(&["reset<10s"]), &[throughput(64, 2e3)]);
        assert_eq!((missing[0].met, missing[0].told.as_str()), (false, "not found"));
        assert_eq!(add_to(&mut Document::default(), &[], 3), 3);
    }
}
