//! The folder of `--out`: a line per run the moment it ends, and the result.

use super::trial::Trial;
use crate::folder::{self, FILE, Folder, NO_RECORD, whole_lines};
use mpps_run::fail::{Result, usage};
use mpps_run::privilege::Clerk;
use serde_json::Value;
use std::path::Path;

/// Bytes of the longest record that is read.
const LONGEST: u64 = 32 << 20;

/// The record, open, and its folder.
pub(super) type Record = Folder<Clerk>;

/// The whole lines of a record: how many bytes they are, and the runs in them; `None` where there is none yet.
fn parse(text: &[u8], header: &Value, names: &[String]) -> std::result::Result<Option<(u64, Vec<Trial>)>, String> {
    let Some(whole) = whole_lines(text, header)? else {
        return Ok(None);
    };
    let mut trials = Vec::new();
    for (at, line) in whole.lines().enumerate() {
        let value: Value = serde_json::from_str(line).map_err(|e| format!("line {}: no JSON: {e}", at + 1))?;
        if at > 0 {
            let trial = Trial::of_line(&value, names);
            let trial = trial.ok_or_else(|| format!("line {}: no run of this comparison", at + 1))?;
            if let Some(why) = trial.figures.contradiction() {
                let want = "want the record as it was written, or another folder";
                return Err(format!(
                    "line {}: its numbers contradict each other ({why}): {want}",
                    at + 1
                ));
            }
            trials.push(trial);
        } else if value.get("schema") != header.get("schema") {
            return Err(NO_RECORD.to_owned());
        } else {
            folder::same_place(&value, header)?;
            if value == *header {
                continue;
            }
            return Err("line 1: it is of another comparison: want the same command as before, with --resume".into());
        }
    }
    Ok(Some((whole.len() as u64, trials)))
}

/// Opens the record in `folder`, and reads the runs that it holds.
///
/// # Errors
/// When there is a record and `resume` is not set, or none and `resume` is set, or when it can't be written.
pub(super) fn open(folder: &Path, resume: bool, header: &Value, names: &[String]) -> Result<(Record, Vec<Trial>)> {
    let clerk = Clerk::hire_for(&folder.join(FILE))?;
    let shown = folder.display();
    let there = folder::read(&clerk, folder, LONGEST)?;
    let (whole, trials) = match (&there, resume) {
        (Some(text), _) if text.len() as u64 > LONGEST => {
            return Err(usage(format!(
                "--out {shown}: {FILE} is longer than {LONGEST} bytes: want another folder"
            )));
        }
        (None, true) => {
            let why = format!("{shown} holds no {FILE}: want the folder of an earlier comparison, or no --resume");
            return Err(usage(format!("--resume: {why}")));
        }
        (None, false) => (0, Vec::new()),
        (Some(text), true) => parse(text, header, names)
            .map_err(|why| usage(format!("--resume: {shown}/{FILE}: {why}")))?
            .unwrap_or_default(),
        // The record was begun, and ended before there was a run.
        (Some(text), false) => match parse(text, header, names) {
            Ok(None) => (0, Vec::new()),
            Ok(Some((whole, trials))) if trials.is_empty() => (whole, trials),
            _ => {
                return Err(usage(format!(
                    "--out {shown}: it holds an earlier record: want another folder, or --resume to go on with it"
                )));
            }
        },
    };
    Ok((Folder::open(clerk, folder, whole, header)?, trials))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::trial::Figures;
    use crate::folder::SCHEMA;
    use crate::statistics::Turn;
    use proptest::prelude::*;
    use serde_json::json;

    fn header() -> Value {
        folder::with_place(
            json!({ "schema": SCHEMA, "test": "compare", "variants": ["A", "B"] }),
            "0.1.0",
        )
    }

    fn names() -> [String; 2] {
        ["A".to_owned(), "B".to_owned()]
    }

    fn record() -> (String, Trial) {
        let turn = Turn {
            round: 0,
            variant: 1,
            attempt: 0,
        };
        let trial = Trial {
            turn,
            figures: Figures {
                valid: true,
                ..Figures::default()
            },
        };
        (format!("{}\n{}\n", header(), trial.json(1, &names())), trial)
    }

    #[test]
    fn whole_lines_are_read_and_a_cut_one_is_left_out() {
        let (text, trial) = record();
        let cut = format!("{text}{{\"trial\":");
        assert_eq!(
            parse(cut.as_bytes(), &header(), &names()),
            Ok(Some((text.len() as u64, vec![trial])))
        );
        assert_eq!(parse(b"{\"sche", &header(), &names()), Ok(None));
        for (bad, part) in [
            ("notes of mine\n", "line 1: no JSON"),
            ("notes of mine", "want a record of trials"),
            ("{}\n", "want a record of trials"),
        ] {
            let refused = parse(bad.as_bytes(), &header(), &names()).unwrap_err();
            assert!(refused.contains(part), "{bad}: {refused}");
        }
        let other = text.replace("[\"A\",\"B\"]", "[\"A\",\"C\"]");
        assert!(
            parse(other.as_bytes(), &header(), &names())
                .unwrap_err()
                .contains("another comparison")
        );
    }

    proptest! {
        #[test]
        fn no_record_makes_the_reader_panic(at in 0_usize..400, byte: u8, cut in 0_usize..400) {
            let mut text = record().0.into_bytes();
            let at = at % text.len();
            text[at] = byte;
            text.truncate(cut.max(1));
            let _ = parse(&text, &header(), &names());
        }
    }
}
