//! The result of a test: what all tests say in the same way, and its files.

use crate::bench::Bench;
use crate::measure::Measured;
use crate::record::{Record, trial_json};
use crate::setup::{Setup, Stop, rates_json};
use mpps_pages::document::{Column, Definition, Document, SCHEMA, Table, Unit, files};
use mpps_pages::method_junit;
use mpps_plan::Written;
use mpps_report::{JsonTarget, rfc3339};
use mpps_run::fail::{Result, failed, usage};
use mpps_run::privilege::{Clerk, as_user};
use mpps_stats::Expectation;
use serde_json::{Map, Value, json};
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// Bytes of the longest note that is read.
const LONGEST: u64 = 64 << 10;

/// Returns the user's note about the device, from a file.
pub(crate) fn note(path: &Path) -> Result<String> {
    let read = || {
        // A FIFO would be waited for.
        if !std::fs::metadata(path)?.is_file() {
            return Err(std::io::Error::other("no regular file"));
        }
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let name = path.display();
    let bytes = as_user(|| Ok(read()))?
        .map_err(|e: std::io::Error| usage(format!("--dut-note {name}: {e}: want a text file")))?;
    if bytes.len() as u64 > LONGEST {
        return Err(usage(format!(
            "--dut-note {name}: want a text of {LONGEST} bytes at the most"
        )));
    }
    String::from_utf8(bytes).map_err(|_| usage(format!("--dut-note {name}: want UTF-8 text")))
}

/// Words that results of all tests use.
const WORDS: [(&str, &str); 8] = [
    (
        "load",
        "Packets that were to be sent in a second, by a schedule; with both ways, of each.",
    ),
    (
        "offered",
        "Packets that the path took in a second, as counted after each trial.",
    ),
    (
        "lost",
        "Sent, and not received once and intact within the settle time; late packets are lost.",
    ),
    (
        "late",
        "Received intact, but longer after sending than the settle time; counted as lost.",
    ),
    (
        "refused",
        "Due, and not taken by the path in front of the device, as its ring or queue was full; counted as lost.",
    ),
    (
        "void",
        "A trial that this host disturbed or could not send as asked: it decides nothing, and is repeated.",
    ),
    (
        "latency",
        "From the stamp before a packet is handed to the path to the clock read after it was received, in software, \
         there and back where a reflector answers; neither of the two definitions of RFC 1242, and nothing is taken \
         off.",
    ),
    (
        "PDV",
        "Packet delay variation: 99.9th percentile of the latency less its minimum (RFC 8219, 7.3.1).",
    ),
];

/// A document with what all tests say in the same way; the rest is the test's own.
pub(crate) fn document(
    setup: &Setup<'_>,
    bench: &Bench<'_, '_>,
    (test, title): (&str, String),
    took: Duration,
    stop: Option<&Stop>,
) -> Document {
    let trials = &bench.trials;
    let tester: Map<String, Value> = bench
        .tester
        .iter()
        .map(|(name, value)| (name.clone(), Value::from(value.clone())))
        .collect();
    let definition = |(term, text): (&str, &str)| Definition {
        term: term.to_owned(),
        text: text.to_owned(),
    };
    let incomplete = stop.map(Stop::why);
    Document {
        schema: SCHEMA.to_owned(),
        test: test.to_owned(),
        title,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: setup.common.command.clone(),
        started: trials
            .first()
            .map_or_else(String::new, |first| rfc3339(first.started_unix_ns)),
        // With --resume the time between two commands is part of it.
        took_s: match setup.common.resume {
            true => took.max(from_first_to_last(trials)),
            false => took,
        }
        .as_secs_f64(),
        complete: incomplete.is_none(),
        incomplete,
        deviations: deviations(setup),
        tables: vec![of_trials(trials)],
        definitions: WORDS.into_iter().map(definition).collect(),
        device: setup.device.clone(),
        tester: tester.into(),
        plan: serde_json::from_str(&setup.plan.to_json()).unwrap_or_default(),
        trials: trials
            .iter()
            .enumerate()
            .map(|(at, measured)| trial_json(at + 1, measured))
            .collect(),
        ..Document::default()
    }
}

/// Returns the time from the start of the first trial to the end of the last, by the time of day.
fn from_first_to_last(trials: &[Measured]) -> Duration {
    let (first, last) = (trials.first(), trials.last());
    let ends = first.zip(last).map(|(first, last)| {
        let end = last.started_unix_ns.saturating_add(last.sending_ns);
        end.saturating_sub(first.started_unix_ns)
    });
    Duration::from_nanos(ends.unwrap_or_default())
}

/// Returns the deviations from RFC 2544 that every test may have.
fn deviations(setup: &Setup<'_>) -> Vec<String> {
    let mut all = Vec::new();
    if setup.settle < Duration::from_secs(2) {
        all.push(format!(
            "{} s for packets under way, not 2 s (RFC 2544, 23)",
            setup.settle.as_secs_f64()
        ));
    }
    if setup.pause < Duration::from_secs(5) {
        all.push(format!(
            "a pause of {} s between trials, not 5 s (RFC 2544, 23)",
            setup.pause.as_secs_f64()
        ));
    }
    if setup.common.run.plan.far().is_some() && !setup.common.run.plan.traffic.goes_back() {
        all.push("packets in one direction, not in both at once (RFC 2544, 14)".to_owned());
    }
    if setup.device.is_none() {
        all.push("the device's configuration is not in this report: --dut-note (RFC 2544, 7)".to_owned());
    }
    all
}

/// A column of a table.
pub(crate) fn column(key: &str, title: &str, unit: Unit) -> Column {
    Column {
        key: key.to_owned(),
        title: title.to_owned(),
        unit,
    }
}

/// All trials as a table.
fn of_trials(trials: &[Measured]) -> Table {
    let row = |(at, told): (usize, &Measured)| -> Vec<Value> {
        let delay = told.latency.as_ref();
        let counted = told.counts().then(|| told.loss());
        vec![
            (at + 1).into(),
            told.ask.phase.name().into(),
            told.ask.frame_size.into(),
            told.trial.input.load.into(),
            told.offered_pps.into(),
            (told.ask.duration_ns as f64 / 1e9).into(),
            counted.map(|(due, _)| due).into(),
            counted.map(|(_, missing)| missing).into(),
            told.loss_ratio().into(),
            told.refused.into(),
            told.late.into(),
            // Counted in every trial, a void one too: these decide nothing there, and happened.
            told.sent.into(),
            told.received.into(),
            told.lost.into(),
            told.missed.into(),
            delay.map(|delay| delay.p50).into(),
            delay.map(|delay| delay.p99).into(),
            match told.counts() {
                true => "counted".into(),
                false => format!("void: {}", told.reasons.join("; ")).into(),
            },
        ]
    };
    Table {
        name: "trials".to_owned(),
        caption: "All trials".to_owned(),
        columns: vec![
            column("trial", "trial", Unit::Count),
            column("phase", "for", Unit::Plain),
            column("frame_size_bytes", "frame", Unit::Bytes),
            column("load_pps", "load", Unit::Pps),
            column("offered_pps", "offered", Unit::Pps),
            column("duration_s", "duration", Unit::S),
            column("due", "due", Unit::Count),
            column("missing", "lost", Unit::Count),
            column("loss_ratio", "loss", Unit::Ratio),
            column("refused", "refused", Unit::Count),
            column("late", "late", Unit::Count),
            column("sent", "sent", Unit::Count),
            column("received", "received", Unit::Count),
            column("lost", "not back", Unit::Count),
            column("missed", "not sent", Unit::Count),
            column("latency_p50_ns", "p50", Unit::Ns),
            column("latency_p99_ns", "p99", Unit::Ns),
            column("outcome", "outcome", Unit::Plain),
        ],
        rows: trials.iter().enumerate().map(row).collect(),
    }
}

/// Limits and times that all tests have, for the parameters.
pub(crate) fn params(setup: &Setup<'_>) -> Map<String, Value> {
    let rates = rates_json(setup.common);
    let of = json!({
        "min_rate": rates[0],
        "max_rate": rates[1],
        "pause_s": setup.pause.as_secs_f64(),
        "settle_s": setup.settle.as_secs_f64(),
        "settle_early": setup.early(),
        "load": if setup.common.run.plan.traffic.goes_back() { "of each way" } else { "of all lanes" },
        "effective_duration": "as intended",
        "pacing": setup.pacing.as_ref().map(Written::text),
        "link_bps": setup.link_bps,
    });
    let stream = setup.stream().map(|(name, text)| (name.to_owned(), Value::from(text)));
    match of {
        Value::Object(of) => of.into_iter().chain(stream).collect(),
        _ => Map::new(),
    }
}

/// Returns the lines that are printed after the verdict: how the test stands to the standard, and how long it took.
pub(crate) fn last(document: &Document) -> Vec<String> {
    let took = match &document.incomplete {
        Some(why) => format!("not complete: {why}"),
        None => format!("{} trials in {:.0} s", document.trials.len(), document.took_s),
    };
    document.compliance.iter().cloned().chain([took]).collect()
}

/// Writes the files of a result that is `printed`. Returns what could not be written.
pub(crate) fn write(
    record: Option<&Record<'_>>,
    junit: Option<(&Clerk, JsonTarget)>,
    printed: Result<()>,
    document: &Document,
    judged: &[Expectation],
) -> Vec<String> {
    let mut unwritten: Vec<_> = printed.err().iter().map(|failure| failure.line().to_owned()).collect();
    if let Some(Record(folder)) = record {
        let broken = folder.broken.as_ref();
        unwritten.extend(broken.map(|broken| format!("{broken}: the record ends before")));
        match files(document) {
            Ok(files) => unwritten.extend(folder.files(files)),
            Err(e) => unwritten.push(e.to_string()),
        }
        let junit = method_junit(document, judged, &unwritten).into_bytes();
        let written = folder.file("junit.xml", junit);
        unwritten.extend(written.err().map(|failure| failure.line().to_owned()));
    }
    // A file that is read as a state lists the errors of every other file.
    if let Some((clerk, target)) = junit {
        let text = method_junit(document, judged, &unwritten);
        let written = clerk.does(move || target.write_state(&text));
        let written = written.and_then(|written| written.map_err(failed));
        unwritten.extend(written.err().map(|failure| failure.line().to_owned()));
    }
    unwritten
}
