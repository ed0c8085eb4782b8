//! The folder of `--out`: a line per run the moment it ends, and the result.

use super::trial::Trial;
use crate::fail::{Failure, Result, failed, usage};
use crate::privilege::Clerk;
use mpps_sys::private;
use rustix::fs::OFlags;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The record's file in its folder.
const FILE: &str = "trials.jsonl";
/// Bytes of the longest record that is read.
const LONGEST: u64 = 32 << 20;

/// What the first line calls itself.
pub(super) const SCHEMA: &str = "mpps.trials/1";

/// The record, open.
pub(super) struct Record {
    clerk: Clerk,
    folder: PathBuf,
    /// `None` once a line could not be written.
    file: Option<File>,
    /// Why lines are missing.
    pub(super) broken: Option<String>,
}

/// The whole lines of a record: how many bytes they are, and the runs in them; `None` where there is none yet.
fn parse(text: &[u8], header: &Value, names: &[String]) -> std::result::Result<Option<(u64, Vec<Trial>)>, String> {
    let no_record = || format!("line 1: want a record of trials (schema {SCHEMA})");
    let Some(end) = text.iter().rposition(|byte| *byte == b'\n') else {
        // What is no part of a record is somebody's file.
        let begun = header.to_string().as_bytes().starts_with(text);
        return if begun { Ok(None) } else { Err(no_record()) };
    };
    let whole = std::str::from_utf8(&text[..=end]).map_err(|e| format!("not UTF-8: {e}"))?;
    let mut trials = Vec::new();
    for (at, line) in whole.lines().enumerate() {
        let value: Value = serde_json::from_str(line).map_err(|e| format!("line {}: no JSON: {e}", at + 1))?;
        if at > 0 {
            let trial = Trial::of_line(&value, names);
            trials.push(trial.ok_or_else(|| format!("line {}: no run of this comparison", at + 1))?);
        } else if value.get("schema") != header.get("schema") {
            return Err(no_record());
        } else if value != *header {
            return Err("line 1: it is of another comparison: want the same command as before, with --resume".into());
        }
    }
    Ok(Some((end as u64 + 1, trials)))
}

/// Reads the file, if there is one.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    // No link is followed, and what is no file keeps nobody waiting.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > LONGEST {
        return Err(io::Error::other(format!(
            "no regular file of {LONGEST} bytes at the most"
        )));
    }
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text)?;
    Ok(Some(text))
}

impl Record {
    /// Opens the record in `folder`, and reads the runs that it holds.
    ///
    /// # Errors
    /// Where there is one and it is not to be gone on with, or none and it is, or it can't be written.
    pub(super) fn open(folder: &Path, resume: bool, header: &Value, names: &[String]) -> Result<(Self, Vec<Trial>)> {
        let clerk = Clerk::hire_for(&folder.join(FILE))?;
        let (path, shown) = (folder.join(FILE), folder.display());
        let unwritable = |e: io::Error| {
            usage(format!(
                "--out {shown}: {e}: want a folder that can be made and written"
            ))
        };
        let there = clerk.does(move || read(&path))?.map_err(unwritable)?;
        let (whole, trials) = match (&there, resume) {
            (None, true) => {
                let why = format!("{shown} holds no {FILE}: want the folder of an earlier comparison, or no --resume");
                return Err(usage(format!("--resume: {why}")));
            }
            (None, false) => (0, Vec::new()),
            (Some(text), true) => parse(text, header, names)
                .map_err(|why| usage(format!("--resume: {shown}/{FILE}: {why}")))?
                .unwrap_or_default(),
            // It was begun, and ended before there was a run.
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
        let path = folder.to_path_buf();
        let opened = clerk.does(move || -> io::Result<File> {
            private::open_folder(&path)?;
            let file = private::open(&path.join(FILE), OFlags::APPEND)?;
            if !file.metadata()?.is_file() {
                return Err(io::Error::other(format!("{FILE} is no regular file")));
            }
            file.set_len(whole)?;
            Ok(file)
        })?;
        let mut record = Self {
            clerk,
            folder: folder.to_path_buf(),
            file: Some(opened.map_err(unwritable)?),
            broken: None,
        };
        if whole == 0 {
            record.line(header);
        }
        match record.broken.take() {
            Some(why) => Err(failed(why)),
            None => Ok((record, trials)),
        }
    }

    /// Writes a line. Where that fails, the comparison goes on, and the rest is not written: one with holes would be
    /// gone on with as if nothing were missing.
    pub(super) fn line(&mut self, value: &Value) {
        let Some(mut file) = self.file.take() else { return };
        let line = format!("{value}\n");
        let written = self.clerk.does(move || {
            let result = file.write_all(line.as_bytes());
            (file, result)
        });
        match written {
            Ok((file, Ok(()))) => self.file = Some(file),
            Ok((_, Err(e))) => self.broken = Some(format!("write {}: {e}", self.folder.join(FILE).display())),
            Err(Failure::Failed(why) | Failure::Usage(why)) => self.broken = Some(why),
        }
    }

    /// Writes another file into the folder, in one step.
    pub(super) fn file(&self, name: &str, bytes: Vec<u8>) -> Result<()> {
        let path = self.folder.join(name);
        let written = self.clerk.does(move || -> io::Result<()> {
            let place = private::Place::find(&path)?.ok_or_else(|| io::Error::other("it is no file of its own"))?;
            place.replace(&bytes)
        })?;
        written.map_err(|e| failed(format!("write {}: {e}", self.folder.join(name).display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::compare::trial::Figures;
    use mpps_method::compare::Turn;
    use proptest::prelude::*;
    use serde_json::json;

    fn header() -> Value {
        json!({ "schema": SCHEMA, "test": "compare", "variants": ["A", "B"] })
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
