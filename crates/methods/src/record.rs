//! The record of a test: one JSON object per line, written as each trial ends, and read again by `--resume`.
//!
//! The first line says what is tested and how; each other is a trial. A line that was cut off, as by a full disk or by
//! `kill -9`, is left out.

use crate::folder::{self, FILE, Folder, NO_RECORD, SCHEMA, whole_lines};
use crate::measure::{Ask, Delay, Measured, Phase};
use crate::search::{Input, StreamLoss, Trial, Verdict};
use mpps_report::rfc3339;
use mpps_run::fail::{Result, usage};
use mpps_run::privilege::Clerk;
use mpps_stats::{KeptOff, KeptOffBy, count};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// Key of the line that describes the host and its ports.
const TESTER: &str = "tester";
/// Bytes of the longest record that is read: some ten thousand trials.
const LONGEST: u64 = 16 << 20;

/// Settings that the trials of a record share, as in its first line.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    /// Name of the test.
    pub(crate) test: &'static str,
    /// All that was chosen and that trials depend on.
    pub(crate) params: Value,
    /// The plan that trials vary, JSON.
    pub(crate) plan: String,
    /// Version of the program.
    pub(crate) version: &'static str,
}

impl Header {
    fn json(&self) -> Value {
        let plan: Value = serde_json::from_str(&self.plan).unwrap_or_default();
        let header = json!({ "schema": SCHEMA, "test": self.test, "params": self.params, "plan": plan });
        folder::with_place(header, self.version)
    }
}

/// A test that was broken off.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Earlier {
    pub(crate) trials: Vec<Measured>,
    /// Facts on the host and its ports, from the last of the commands, by name.
    pub(crate) tester: Vec<(String, String)>,
    /// Bytes of the record's whole lines.
    whole: u64,
}

/// A trial's line.
pub(crate) fn trial_json(number: usize, measured: &Measured) -> Value {
    let Measured { ask, trial, .. } = measured;
    let (due, missing) = match trial.verdict {
        Verdict::Counted { due, missing } => (Some(due), Some(missing)),
        Verdict::Void => (None, None),
    };
    let latency = measured.latency.as_ref().map(|told| {
        json!({
            "min": told.min, "mean": told.mean, "p50": told.p50, "p99": told.p99, "p999": told.p999, "max": told.max,
            "quantiles": told.quantiles,
        })
    });
    json!({
        "trial": number,
        "phase": ask.phase.name(),
        "frame_size_bytes": ask.frame_size,
        "load_pps": trial.input.load,
        "paced": ask.load.is_some(),
        "duration_ns": ask.duration_ns,
        "then_pps": ask.then.map(|(load, _)| load),
        "then_at_ns": ask.then.map(|(_, at)| at),
        "settle_ns": ask.settle.map(|settle| settle.as_nanos() as u64),
        "burst_frames": ask.burst,
        "effective_ns": trial.effective_ns,
        "outcome": if due.is_some() { "counted" } else { "void" },
        "due": due,
        "missing": missing,
        "loss_ratio": measured.loss_ratio(),
        "streams": trial.streams.iter().map(|of| json!({
            "name": of.name, "due": of.due, "missing": of.missing,
        })).collect::<Vec<_>>(),
        "sent": measured.sent,
        "received": measured.received,
        "lost": measured.lost,
        "late": measured.late,
        "refused": measured.refused,
        "missed": measured.missed,
        "sending_ns": measured.sending_ns,
        "offered_pps": measured.offered_pps,
        "received_pps": measured.received_pps,
        "latency_ns": latency,
        "lost_between_ns": measured.lost_between_ns,
        "outage_ns": measured.outage_ns,
        "link_down": measured.down,
        "outpaced": measured.outpaced,
        "started_unix_ns": measured.started_unix_ns,
        "started_utc": rfc3339(measured.started_unix_ns),
        "reasons": measured.reasons,
        "kept_off": measured.kept_off.as_ref().map(|of| json!({
            "by": of.by.as_str(),
            "sentence": of.sentence,
        })),
        "notes": measured.notes,
    })
}

/// A text from a record, as it is shown to people: anybody may have written it.
fn shown(text: &str) -> String {
    mpps_sys::text::plain(text, '?')
}

/// Reads what a trial's line says of a stream.
fn stream_of(of: &Value) -> Option<StreamLoss> {
    Some(StreamLoss {
        name: shown(of.get("name")?.as_str()?),
        due: of.get("due")?.as_u64()?,
        missing: of.get("missing")?.as_u64()?,
    })
}

/// Reads a trial's line.
fn trial_of(line: &Value) -> Option<Measured> {
    let count = |key: &str| line.get(key).and_then(Value::as_u64);
    // A key that is null, or holds what it should.
    let maybe = |key: &str| -> Option<Option<u64>> {
        match line.get(key)? {
            Value::Null => Some(None),
            value => Some(Some(value.as_u64()?)),
        }
    };
    let number = |key: &str| line.get(key).and_then(Value::as_f64).filter(|n| n.is_finite());
    let verdict = match line.get("outcome")?.as_str()? {
        "counted" => Verdict::Counted {
            due: count("due")?,
            missing: count("missing")?,
        },
        "void" => Verdict::Void,
        _ => return None,
    };
    let texts = |key: &str| -> Option<Vec<String>> {
        let texts = line.get(key)?.as_array()?;
        texts.iter().map(|text| text.as_str().map(shown)).collect()
    };
    let ends = |key: &str| -> Option<Option<[u64; 2]>> {
        match line.get(key)? {
            Value::Null => Some(None),
            both => Some(Some([both.get(0)?.as_u64()?, both.get(1)?.as_u64()?])),
        }
    };
    let load = count("load_pps").filter(|load| *load > 0)?;
    let duration_ns = count("duration_ns")?;
    Some(Measured {
        ask: Ask {
            phase: Phase::named(line.get("phase")?.as_str()?)?,
            frame_size: count("frame_size_bytes").filter(|size| *size <= 1 << 20)? as usize,
            load: line.get("paced")?.as_bool()?.then_some(load),
            duration_ns,
            then: maybe("then_pps")?.zip(maybe("then_at_ns")?),
            settle: maybe("settle_ns")?.map(Duration::from_nanos),
            // A record of an earlier version has none.
            burst: count("burst_frames").and_then(|frames| u32::try_from(frames).ok()),
        },
        trial: Trial {
            input: Input { load, duration_ns },
            effective_ns: count("effective_ns")?,
            verdict,
            streams: line
                .get("streams")?
                .as_array()?
                .iter()
                .map(stream_of)
                .collect::<Option<_>>()?,
        },
        sent: count("sent")?,
        received: count("received")?,
        lost: count("lost")?,
        late: count("late")?,
        refused: count("refused")?,
        missed: count("missed")?,
        sending_ns: count("sending_ns")?,
        offered_pps: number("offered_pps")?,
        received_pps: number("received_pps")?,
        latency: match line.get("latency_ns")? {
            Value::Null => None,
            told => Some(delay_of(told)?),
        },
        lost_between_ns: ends("lost_between_ns")?,
        outage_ns: ends("outage_ns")?,
        down: line.get("link_down")?.as_bool()?,
        outpaced: line.get("outpaced")?.as_bool()?,
        started_unix_ns: count("started_unix_ns")?,
        reasons: texts("reasons")?,
        kept_off: match line.get("kept_off") {
            // A record of an earlier version has none.
            None | Some(Value::Null) => None,
            Some(of) => Some(KeptOff {
                by: KeptOffBy::named(of.get("by")?.as_str()?)?,
                sentence: shown(of.get("sentence")?.as_str()?),
                named: true,
            }),
        },
        notes: texts("notes")?,
    })
}

/// Returns the reason why the numbers of a trial can't all be right; `None` if they can.
fn contradiction(told: &Measured) -> Option<String> {
    let sum = |parts: &[u64]| parts.iter().fold(0u64, |sum, part| sum.saturating_add(*part));
    let back = sum(&[told.received, told.lost, told.late]);
    if back != told.sent {
        return Some(format!(
            "{} received, {} lost and {} late of {} sent",
            count(told.received),
            count(told.lost),
            count(told.late),
            count(told.sent)
        ));
    }
    if let Verdict::Counted { due, missing } = told.trial.verdict {
        let (all, gone) = (
            sum(&[told.sent, told.refused]),
            sum(&[told.lost, told.late, told.refused]),
        );
        if (due, missing) != (all, gone) {
            let [due, missing, all, gone] = [due, missing, all, gone].map(count);
            return Some(format!("{missing} missing of {due} due, where {gone} of {all} are"));
        }
    }
    if let Some(of) = told.trial.streams.iter().find(|of| of.missing > of.due) {
        let [due, missing] = [of.due, of.missing].map(count);
        return Some(format!("{missing} missing of {due} due of stream {}", of.name));
    }
    if told.offered_pps < 0.0 || told.received_pps < 0.0 {
        return Some("a rate below 0".to_owned());
    }
    let delay = told.latency.as_ref()?;
    let fits = [delay.p50, delay.p99, delay.p999].is_sorted() && delay.min <= delay.max && delay.mean >= 0.0;
    (!fits).then(|| "percentiles of the latency that do not ascend".to_owned())
}

/// Reads the latency of a trial's line.
fn delay_of(told: &Value) -> Option<Delay> {
    let ns = |key: &str| told.get(key)?.as_u64();
    let share = |pair: &Value| Some((pair.get(0)?.as_f64()?, pair.get(1)?.as_u64()?));
    Some(Delay {
        min: ns("min")?,
        mean: told.get("mean")?.as_f64()?,
        p50: ns("p50")?,
        p99: ns("p99")?,
        p999: ns("p999")?,
        max: ns("max")?,
        quantiles: told
            .get("quantiles")?
            .as_array()?
            .iter()
            .map(share)
            .collect::<Option<_>>()?,
    })
}

/// Reads a record. `None` if it ends before any trial could be in it.
///
/// # Errors
/// One line that names the line and what would be right.
fn read(text: &[u8], header: &Header) -> std::result::Result<Option<Earlier>, String> {
    let want = header.json();
    let Some(text) = whole_lines(text, &want)? else {
        return Ok(None);
    };
    let mut lines = text.lines().enumerate().map(|(at, line)| {
        let value = serde_json::from_str::<Value>(line);
        value
            .map(|value| (at + 1, value))
            .map_err(|e| format!("line {}: no JSON: {e}", at + 1))
    });
    let Some(first) = lines.next().transpose()? else {
        return Ok(None);
    };
    if first.1.get("schema") != want.get("schema") {
        return Err(NO_RECORD.to_owned());
    }
    folder::same_place(&first.1, &want)?;
    for key in ["test", "params", "plan"] {
        let (there, here) = (first.1.get(key), want.get(key));
        if there != here {
            let part = differing(there, here).map_or_else(|| key.to_owned(), |part| format!("{key}.{}", shown(part)));
            return Err(format!(
                "line 1: its {part} is another than this command's: want the same command as before, with --resume"
            ));
        }
    }
    let mut trials = Vec::new();
    let mut tester = Vec::new();
    for line in lines {
        let (at, value) = line?;
        if let Some(facts) = value.get(TESTER).and_then(Value::as_object) {
            let text = |value: &Value| shown(value.as_str().unwrap_or_default());
            tester = facts.iter().map(|(name, value)| (shown(name), text(value))).collect();
            continue;
        }
        let trial = trial_of(&value).ok_or_else(|| format!("line {at}: no trial of this record's schema"))?;
        if let Some(why) = contradiction(&trial) {
            return Err(format!(
                "line {at}: its numbers contradict each other ({why}): want the record as it was written, or another \
                 folder"
            ));
        }
        trials.push(trial);
    }
    if trials.is_empty() {
        return Ok(None);
    }
    Ok(Some(Earlier {
        trials,
        tester,
        whole: text.len() as u64,
    }))
}

/// The first key in which two objects differ.
fn differing<'v>(one: Option<&'v Value>, other: Option<&'v Value>) -> Option<&'v str> {
    let (one, other) = (one?.as_object()?, other?.as_object()?);
    let differs = |key: &&String| one.get(*key) != other.get(*key);
    one.keys().chain(other.keys()).find(differs).map(String::as_str)
}

/// Looks for a record in `folder`: `None` if a new one is to be begun.
///
/// # Errors
/// When there is a record and `resume` is not set, or none and `resume` is set.
pub(crate) fn find(clerk: &Clerk, folder: &Path, resume: bool, header: &Header) -> Result<Option<Earlier>> {
    let name = folder.display();
    let text = folder::read(clerk, folder, LONGEST)?;
    match (text, resume) {
        (None, false) => Ok(None),
        (None, true) => Err(usage(format!(
            "--resume: {name} holds no {FILE}: want the folder of an earlier search, or no --resume"
        ))),
        // The record was begun, and ended before there was a trial.
        (Some(text), false) if matches!(read(&text, header), Ok(None)) => Ok(None),
        (Some(_), false) => Err(usage(format!(
            "--out {name}: it holds the record of an earlier search: want another folder, or --resume to go on with it"
        ))),
        (Some(text), true) if text.len() as u64 > LONGEST => Err(usage(format!(
            "--resume: {name}/{FILE} is longer than {LONGEST} bytes: want the record of a search"
        ))),
        (Some(text), true) => {
            let earlier = read(&text, header).map_err(|why| usage(format!("--resume: {name}/{FILE}: {why}")))?;
            Ok(earlier)
        }
    }
}

/// The record, open, and its folder.
pub(crate) struct Record<'c>(pub(crate) Folder<&'c Clerk>);

impl<'c> Record<'c> {
    /// Opens the record: a new one, or behind the whole lines of an existing one.
    ///
    /// # Errors
    /// When the folder or the file can't be made.
    pub(crate) fn open(clerk: &'c Clerk, path: &Path, header: &Header, earlier: Option<&Earlier>) -> Result<Self> {
        // A record that was begun and holds no trial is started again from its first line.
        let whole = earlier.map_or(0, |earlier| earlier.whole);
        Folder::open(clerk, path, whole, &header.json()).map(Self)
    }

    /// Writes what the host and its ports are.
    pub(crate) fn tester(&mut self, facts: &[(String, String)]) {
        let facts: serde_json::Map<_, _> = facts
            .iter()
            .map(|(name, value)| (name.clone(), Value::from(value.clone())))
            .collect();
        self.0.line(&json!({ TESTER: facts }));
    }

    /// Writes a trial that has ended, by its number.
    pub(crate) fn trial(&mut self, number: usize, measured: &Measured) {
        self.0.line(&trial_json(number, measured));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> Header {
        Header {
            plan: r#"{"mpps_plan":1,"workload":"sendrecv"}"#.to_owned(),
            test: "ndr",
            version: "0.1.0",
            params: json!({ "goals": [{ "loss_ratio": 0.0 }], "min_rate": null, "max_rate": "1Mpps" }),
        }
    }

    fn trial(load: u64, verdict: Verdict) -> Measured {
        let input = Input {
            load,
            duration_ns: 1_000_000_000,
        };
        Measured {
            ask: Ask {
                then: Some((load / 2, 500_000_000)),
                settle: Some(Duration::from_secs(3)),
                burst: Some(64),
                ..Ask::of(Phase::Search, 64, input)
            },
            trial: Trial {
                input,
                effective_ns: 1_000_000_000,
                verdict,
                streams: vec![StreamLoss {
                    name: "gold".to_owned(),
                    due: 9,
                    missing: 1,
                }],
            },
            sent: load,
            received: load - 1,
            lost: 1,
            late: 0,
            refused: 0,
            missed: 3,
            // Read by halves these would be others in their last bit.
            offered_pps: 39_999.400_008_999_86,
            received_pps: 31_415.926_535_897_93 / 7.0,
            sending_ns: 1_000_000_001,
            latency: Some(Delay {
                min: 1,
                mean: 2.5,
                p50: 2,
                p99: 3,
                p999: 4,
                max: 5,
                quantiles: vec![(0.5, 2), (0.99, 3)],
            }),
            lost_between_ns: Some([5, 7]),
            outage_ns: None,
            started_unix_ns: 1_700_000_000_123_456_789,
            down: true,
            outpaced: false,
            reasons: Vec::new(),
            kept_off: None,
            notes: Vec::new(),
        }
    }

    fn record(trials: &[Measured]) -> String {
        let mut text = format!("{}\n", header().json());
        for (at, trial) in trials.iter().enumerate() {
            text += &format!("{}\n", trial_json(at + 1, trial));
        }
        text
    }

    fn trials() -> Vec<Measured> {
        // 100 sent, one of them lost.
        let counted = Verdict::Counted { due: 100, missing: 1 };
        let void = Measured {
            latency: None,
            ask: Ask {
                load: None,
                then: None,
                settle: None,
                burst: None,
                ..trial(200, Verdict::Void).ask
            },
            reasons: vec!["the host interfered".to_owned()],
            kept_off: Some(KeptOff {
                by: KeptOffBy::CpuQuota,
                sentence: "a quota kept the lanes from running".to_owned(),
                named: true,
            }),
            ..trial(200, Verdict::Void)
        };
        vec![trial(100, counted), void]
    }

    #[test]
    fn a_record_cut_off_anywhere_holds_its_whole_lines() {
        let text = record(&trials());
        let all = read(text.as_bytes(), &header()).unwrap().unwrap();
        assert_eq!(all.trials, trials());
        for cut in 0..text.len() {
            let part = read(&text.as_bytes()[..cut], &header()).unwrap();
            let lines = text[..cut].matches('\n').count();
            assert_eq!(
                part.as_ref().map(|part| part.trials.len()),
                lines.checked_sub(1).filter(|trials| *trials > 0),
                "cut at {cut}"
            );
            if let Some(part) = part {
                assert_eq!(part.trials[..], trials()[..lines - 1]);
                assert!(text[..part.whole as usize].ends_with('\n'));
            }
        }
    }

    /// A file that is somebody's is not taken for a record that was hardly begun, and emptied.
    #[test]
    fn a_line_without_an_end_is_a_record_only_if_it_begins_as_one() {
        assert_eq!(read(b"", &header()), Ok(None));
        assert_eq!(read(b"{\"schema\"", &header()), Ok(None));
        for text in ["notes", "{\"schema\": \"other\"}", "\u{fffd}"] {
            let why = read(text.as_bytes(), &header()).unwrap_err();
            assert!(why.contains("line 1: want a record"), "{text}: {why}");
        }
    }

    #[test]
    fn the_record_of_another_search_is_refused() {
        let text = record(&trials());
        let other = Header {
            params: json!({ "goals": [{ "loss_ratio": 0.0 }], "min_rate": "1pps", "max_rate": "1Mpps" }),
            ..header()
        };
        let why = read(text.as_bytes(), &other).unwrap_err();
        assert!(why.contains("its params.min_rate is another"), "{why}");
        for (wrong, part) in [
            (text.replace("mpps.trials/1", "mpps.trials/2"), "line 1: want a record"),
            (text.replace("counted", "perhaps"), "line 2: no trial"),
            (text.replace("{\"trial\"", "[\"trial\""), "no JSON"),
        ] {
            let why = read(wrong.as_bytes(), &header()).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn trials_whose_numbers_contradict_each_other_are_refused() {
        let text = record(&trials());
        for (good, bad, told) in [
            (
                "\"lost\":1,",
                "\"lost\":4001,",
                "99 received, 4,001 lost and 0 late of 100 sent",
            ),
            (
                "\"sent\":100,",
                "\"sent\":0,",
                "99 received, 1 lost and 0 late of 0 sent",
            ),
            (
                "\"missing\":1,",
                "\"missing\":7,",
                "7 missing of 100 due, where 1 of 100 are",
            ),
            ("\"due\":100,", "\"due\":99,", "1 missing of 99 due, where 1 of 100 are"),
            ("\"late\":0,", "\"late\":18446744073709551615,", "late of 100 sent"),
            ("\"p50\":2,", "\"p50\":9,", "do not ascend"),
        ] {
            assert!(text.contains(good), "{good}: {text}");
            let why = read(text.replacen(good, bad, 1).as_bytes(), &header()).unwrap_err();
            assert!(
                why.contains("line 2: its numbers contradict each other") && why.contains(told),
                "{why}"
            );
        }
        let elsewhere = text.replacen("\"kernel\":\"", "\"kernel\":\"other-", 1);
        let why = read(elsewhere.as_bytes(), &header()).unwrap_err();
        assert!(why.contains("another kernel, other-"), "{why}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(junk in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..2000) {
            let mut text = record(&trials()).into_bytes();
            let at = at.min(text.len());
            text.splice(at..at, junk);
            let _ = read(&text, &header());
        }
    }
}
