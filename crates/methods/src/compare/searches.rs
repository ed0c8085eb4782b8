//! Comparison of the results of `ndr` and of `rfc2544`. These results are intervals.
//!
//! One search ends with a rate that passed and one that failed, as far apart as its goal allows. Of several on a side
//! the widest interval counts: from the least lower bound to the greatest upper one. Two intervals that overlap count
//! as the same; the others are judged by the margin.

use super::Side;
use super::{Compare, record, unlike};
use crate::View;
use crate::document::column;
use crate::folder::SCHEMA as TRIALS_SCHEMA;
use crate::search::Ratio;
use mpps_pages::document::{Definition, Document, SCHEMA, Table, Unit, files};
use mpps_run::fail::{Result, failed, usage};
use mpps_stats::count;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Key under which an operand's result holds what its searches have found.
const FOUND: &str = "searches";
/// Tests whose results hold searches.
const TESTS: [&str; 2] = ["ndr", "rfc2544"];

/// A size and a goal: bytes, the stream or group that it is about (empty: all packets), and loss allowed in millionths,
/// so that they can be a key.
type What = (u64, String, u64);

/// Interval that contains the answer, packets per second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Interval {
    lower: f64,
    /// Infinite if the highest rate that was tried passes.
    upper: f64,
    conditional: Option<f64>,
    regular: bool,
}

/// Converts the result of a test that searches for rates into one that can be compared; `None` of other tests, and of
/// files that do not hold what they should.
pub fn of_document(document: &Value) -> Option<Value> {
    let test = document.get("test")?.as_str()?;
    if !TESTS.contains(&test) {
        return None;
    }
    let params = document.get("params")?;
    let mut found = Vec::new();
    for result in document.get("results")?.as_array()? {
        let (of, loss, goal) = match test {
            "ndr" => {
                let goal = params.get("goals")?.get(result.get("goal")?.as_u64()? as usize)?;
                (result, goal.get("loss_ratio")?.as_f64()?, goal.clone())
            }
            _ => (
                result.get("throughput")?,
                params.get("loss_ratio")?.as_f64()?,
                Value::Null,
            ),
        };
        let size = result.get("frame_size_bytes")?.as_u64()?;
        found.push(json!({ "size": size, "loss": loss, "goal": goal, "of": of }));
    }
    let goals: Vec<_> = found.iter().map(|found| found["goal"].to_string()).collect();
    // All that makes two searches unlike, where `unlike` looks for it.
    let mut plan = document.get("plan").cloned().unwrap_or_default();
    if let Some(plan) = plan.as_object_mut() {
        plan.insert("goals".to_owned(), json!(goals.join(" ")));
        for key in [
            "pacing",
            "settle_s",
            "resolution_ratio",
            "full_trial_s",
            "first_trial_s",
            "search",
        ] {
            plan.insert(key.to_owned(), params.get(key).cloned().unwrap_or_default());
        }
    }
    Some(json!({ "workload": test, "host": document.get("tester"), "plan": plan, FOUND: found }))
}

/// Whether a side's results come from searches.
pub(super) fn is_of(side: &Side) -> bool {
    side.results.iter().any(|(_, result)| result.get(FOUND).is_some())
}

/// Returns the interval that a search found; `None` if it found neither bound.
fn interval(of: &Value) -> Option<Interval> {
    let number = |key: &str| {
        of.get(key)
            .and_then(Value::as_f64)
            .filter(|n| n.is_finite() && *n > 0.0)
    };
    let (lower, upper) = (number("lower_pps"), number("upper_pps"));
    lower.or(upper)?;
    Some(Interval {
        lower: lower.unwrap_or(0.0),
        upper: upper.unwrap_or(f64::INFINITY),
        conditional: number("conditional_throughput_pps"),
        regular: of.get("regular").and_then(Value::as_bool).unwrap_or(false),
    })
}

/// Returns the widest interval of a side's searches, and their number, by size and goal.
fn intervals(side: &Side) -> BTreeMap<What, (Interval, usize)> {
    let mut all: BTreeMap<What, Vec<Interval>> = BTreeMap::new();
    for (_, result) in &side.results {
        for found in result[FOUND].as_array().into_iter().flatten() {
            let what = (
                found["size"].as_u64().unwrap_or_default(),
                found["goal"]["stream"].as_str().unwrap_or_default().to_owned(),
                (found["loss"].as_f64().unwrap_or_default() * 1e6).round() as u64,
            );
            if let Some(interval) = interval(&found["of"]) {
                all.entry(what).or_default().push(interval);
            }
        }
    }
    let widest = |all: Vec<Interval>| {
        let mut through: Vec<f64> = all.iter().filter_map(|one| one.conditional).collect();
        through.sort_by(f64::total_cmp);
        let of = Interval {
            lower: all.iter().map(|one| one.lower).fold(f64::INFINITY, f64::min),
            upper: all.iter().map(|one| one.upper).fold(0.0, f64::max),
            conditional: through.get(through.len() / 2).copied(),
            regular: all.iter().all(|one| one.regular),
        };
        (of, all.len())
    };
    all.into_iter().map(|(what, all)| (what, widest(all))).collect()
}

/// One comparison.
#[derive(Debug)]
struct Row {
    subject: String,
    base: String,
    what: What,
    /// Intervals of the base and of the subject, each with its number of searches.
    sides: Option<[(Interval, usize); 2]>,
    low: f64,
    high: f64,
    verdict: &'static str,
}

/// Compares two intervals: returns the least and the greatest ratio, and a verdict.
fn judge(base: Interval, subject: Interval, margin: f64) -> (f64, f64, &'static str) {
    let ratio = |over: f64, under: f64| match (over, under) {
        (over, under) if over.is_infinite() || under == 0.0 => f64::INFINITY,
        (_, under) if under.is_infinite() => 0.0,
        (over, under) => over / under,
    };
    let (low, high) = (ratio(subject.lower, base.upper), ratio(subject.upper, base.lower));
    let verdict = match () {
        () if low > 1.0 + margin => "better",
        () if high < 1.0 - margin => "worse",
        () if low >= 1.0 => "a little better",
        () if high <= 1.0 => "a little worse",
        () if base.regular && subject.regular => "same",
        () => "undecided",
    };
    (low, high, verdict)
}

fn rows(sides: &[Side], margin: f64) -> Vec<Row> {
    let base = intervals(&sides[0]);
    let mut rows = Vec::new();
    for side in &sides[1..] {
        let found = intervals(side);
        let mut all: Vec<&What> = base.keys().chain(found.keys()).collect();
        all.sort_unstable();
        all.dedup();
        for what in all {
            let both = base.get(what).zip(found.get(what));
            let (low, high, verdict) = match both {
                Some((a, b)) => judge(a.0, b.0, margin),
                None => (f64::NAN, f64::NAN, "undecided"),
            };
            rows.push(Row {
                subject: side.name.clone(),
                base: sides[0].name.clone(),
                what: what.clone(),
                sides: both.map(|(a, b)| [*a, *b]),
                low,
                high,
                verdict,
            });
        }
    }
    rows
}

fn end(pps: f64) -> String {
    match pps.is_finite() {
        true => count(pps as u64),
        false => "more".to_owned(),
    }
}

impl Row {
    fn goal(&self) -> String {
        let (size, stream, loss) = &self.what;
        let loss = Ratio::of_share(*loss as f64 / 1e6).unwrap_or_default();
        let of = match stream.as_str() {
            "" => String::new(),
            stream => format!("({stream})"),
        };
        format!("loss{of} {loss}, frames of {size} bytes")
    }

    fn sentence(&self) -> String {
        let Self { subject, base, .. } = self;
        let Some([a, b]) = self.sides else {
            return format!("{}: {subject} or {base} has no rate: undecided", self.goal());
        };
        let of = |name: &str, (of, searches): (Interval, usize)| {
            let several = if searches > 1 {
                format!(" in {searches} searches")
            } else {
                String::new()
            };
            format!("{name} {} to {} pps{several}", end(of.lower), end(of.upper))
        };
        let ratio = match self.high.is_finite() {
            true => format!("{:.4} to {:.4}", self.low, self.high),
            false => format!("{:.4} or more", self.low),
        };
        let why = match self.verdict {
            "same" => ": the intervals overlap",
            "undecided" => ": bounds are missing, or further apart than their goals ask",
            _ => "",
        };
        format!(
            "{}: {subject} is {ratio} times {base}: {}{why} ({}; {})",
            self.goal(),
            self.verdict,
            of(base, a),
            of(subject, b)
        )
    }

    fn json(&self) -> Value {
        let finite = |n: f64| n.is_finite().then_some(n);
        let through = self
            .sides
            .and_then(|[(a, _), (b, _)]| Some(b.conditional? / a.conditional?));
        json!({
            "compares": "search",
            "subject": self.subject,
            "base": self.base,
            "metric": "throughput_pps",
            "better": "more",
            "frame_size_bytes": self.what.0,
            "stream": Some(&self.what.1).filter(|stream| !stream.is_empty()),
            "loss_ratio": self.what.2 as f64 / 1e6,
            "ratio": finite((self.low * self.high).sqrt()),
            "low": finite(self.low),
            "high": finite(self.high),
            "conditional_throughput_ratio": through,
            "verdict": self.verdict,
        })
    }
}

/// Compares the searches of all sides. Returns the exit code.
pub(super) fn compare(args: &Compare, sides: &[Side], view: &dyn View) -> Result<u8> {
    if !args.metrics.is_empty() {
        return Err(usage(
            "--metric: searches have found rates, and these are compared: want it left out",
        ));
    }
    let differ = unlike::of_results(sides, args.force)?;
    let rows = rows(sides, args.margin);
    if rows.is_empty() {
        return Err(usage(format!(
            "'{}': no rate is in it: want results of searches that found one",
            sides[0].text
        )));
    }
    let mut lines: Vec<_> = rows.iter().map(Row::sentence).collect();
    if sides.iter().any(|side| side.results.len() < 2) {
        lines.push(
            "Of one search a side: how far searches of one device lie apart is not in it. Several, with commas \
             between, say more."
                .to_owned(),
        );
    }
    if !differ.is_empty() {
        let all: Vec<_> = differ.iter().map(unlike::words).collect();
        lines.push(format!("They differ in {}.", all.join("; ")));
    }
    let document = document(args, sides, &rows, &lines);
    let of_side = |side: &Side| format!("{}  {}", side.name, side.text);
    let printed: Vec<_> = sides.iter().map(of_side).chain(lines).collect();
    view.result(&printed, &document)?;
    let Some(folder) = &args.folder else { return Ok(0) };
    let names: Vec<_> = sides.iter().map(|side| side.name.clone()).collect();
    let all = sides.iter().flat_map(|side| &side.results);
    let read: Vec<_> = all.map(|(file, _)| file.display().to_string()).collect();
    let header = json!({ "schema": TRIALS_SCHEMA, "test": "compare", "results": read });
    let (record, _) = record::open(folder, false, &header, &names)?;
    let unwritten = record.files(files(&document).map_err(failed)?);
    view.end(&unwritten)?;
    Ok(u8::from(!unwritten.is_empty()))
}

fn document(args: &Compare, sides: &[Side], rows: &[Row], lines: &[String]) -> Document {
    let names: Vec<_> = sides.iter().map(|side| side.name.clone()).collect();
    let finite = |n: f64| n.is_finite().then_some(n);
    let cells = |row: &Row| {
        let of = |at: usize| row.sides.map(|sides| sides[at].0);
        let bounds = |at: usize| [of(at).map(|of| of.lower), of(at).and_then(|of| finite(of.upper))];
        let mut cells = vec![json!(row.subject), json!(row.base), json!(row.goal())];
        cells.extend(bounds(1).into_iter().chain(bounds(0)).map(|bound| json!(bound)));
        cells.extend([json!(finite(row.low)), json!(finite(row.high)), json!(row.verdict)]);
        cells
    };
    let text = |side: &Side| vec![json!(side.name), json!(side.text), json!(side.results.len())];
    Document {
        schema: SCHEMA.to_owned(),
        test: "compare".to_owned(),
        title: format!("Comparison of searches: {}", names.join(", ")),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: args.command.clone(),
        complete: true,
        verdict: lines.to_vec(),
        params: json!({ "margin_ratio": args.margin, "alternated": false, "forced": args.force }),
        results: rows.iter().map(Row::json).collect(),
        tables: vec![
            Table {
                name: "verdicts".to_owned(),
                caption: "Rates with their bounds, and verdicts".to_owned(),
                columns: vec![
                    column("subject", "this", Unit::Plain),
                    column("base", "beside", Unit::Plain),
                    column("goal", "at", Unit::Plain),
                    column("subject_lower_pps", "this: lower bound", Unit::Pps),
                    column("subject_upper_pps", "upper bound", Unit::Pps),
                    column("base_lower_pps", "beside: lower bound", Unit::Pps),
                    column("base_upper_pps", "upper bound", Unit::Pps),
                    column("low", "ratio from", Unit::Plain),
                    column("high", "to", Unit::Plain),
                    column("verdict", "verdict", Unit::Plain),
                ],
                rows: rows.iter().map(cells).collect(),
            },
            Table {
                name: "variants".to_owned(),
                caption: "What is compared".to_owned(),
                columns: vec![
                    column("variant", "side", Unit::Plain),
                    column("files", "files", Unit::Plain),
                    column("searches", "searches", Unit::Count),
                ],
                rows: sides.iter().map(text).collect(),
            },
        ],
        definitions: [
            ("ratio", "From the least that both intervals allow to the greatest."),
            ("better, worse", "All that the intervals allow lies beyond the margin."),
            (
                "a little",
                "The intervals do not overlap, and are not apart by more than the margin.",
            ),
            ("same", "The intervals overlap, and each is as narrow as its goal asks."),
        ]
        .map(|(term, text)| Definition {
            term: term.to_owned(),
            text: text.to_owned(),
        })
        .to_vec(),
        tester: sides[0].results[0].1["host"].clone(),
        plan: sides[0].results[0].1["plan"].clone(),
        ..Document::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn of(lower: f64, upper: f64) -> Interval {
        Interval {
            lower,
            upper,
            conditional: None,
            regular: true,
        }
    }

    #[test]
    fn a_verdict_is_by_all_that_the_intervals_allow() {
        let judged = |a, b| judge(a, b, 0.02).2;
        assert_eq!(judged(of(100.0, 101.0), of(110.0, 111.0)), "better");
        assert_eq!(judged(of(110.0, 111.0), of(100.0, 101.0)), "worse");
        assert_eq!(judged(of(100.0, 101.0), of(101.5, 102.5)), "a little better");
        assert_eq!(judged(of(101.5, 102.5), of(100.0, 101.0)), "a little worse");
        assert_eq!(judged(of(100.0, 101.0), of(100.5, 101.5)), "same");
        // The highest rate passes: more than that may be.
        assert_eq!(judged(of(100.0, 101.0), of(200.0, f64::INFINITY)), "better");
        let open = Interval {
            regular: false,
            ..of(100.0, f64::INFINITY)
        };
        assert_eq!(judged(open, of(100.5, 101.5)), "undecided");
        assert_eq!(judged(open, of(50.0, 51.0)), "worse");
    }

    #[test]
    fn results_of_searches_are_read_and_others_are_not() {
        let document = |test: &str| {
            json!({
                "test": test, "plan": {"ports": ["loop:"]}, "tester": {"kernel": "6"},
                "params": {"goals": [{"loss_ratio": 0.005}], "loss_ratio": 0.0},
                "results": [{
                    "goal": 0, "frame_size_bytes": 64, "lower_pps": 100, "upper_pps": 102, "regular": true,
                    "throughput": {"lower_pps": 100, "upper_pps": 102, "regular": true},
                }],
            })
        };
        for (test, loss) in [("ndr", 5000), ("rfc2544", 0)] {
            let side = Side {
                name: "A".to_owned(),
                text: String::new(),
                results: vec![(PathBuf::new(), of_document(&document(test)).unwrap())],
            };
            let found = intervals(&side);
            assert_eq!(
                found.get(&(64, String::new(), loss)),
                Some(&(of(100.0, 102.0), 1)),
                "{test}"
            );
        }
        assert!(of_document(&document("overload")).is_none());
        assert!(of_document(&json!({ "test": "ndr", "params": {}, "results": [{}] })).is_none());
    }
}
