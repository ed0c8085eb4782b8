//! The folder of `--out`: a record that grows by a line as each part of a test ends, and files that are written whole.

use mpps_run::fail::{Failure, Result, failed, usage};
use mpps_run::privilege::Clerk;
use mpps_sys::private;
use rustix::fs::OFlags;
use serde_json::{Value, json};
use std::borrow::Borrow;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The record's file.
pub(crate) const FILE: &str = "trials.jsonl";
/// Schema named in a record's first line.
pub(crate) const SCHEMA: &str = "mpps.trials/1";
/// Error for a file that is not a record of trials.
pub(crate) const NO_RECORD: &str = "line 1: want a record of trials (schema mpps.trials/1)";

/// Key of a record's first line for the place that it was measured on.
const MEASURED_ON: &str = "measured_on";
/// Keys that must be equal in two places, and how people call them.
const PLACE: [(&str, &str); 4] = [
    ("host", "host"),
    ("kernel", "kernel"),
    ("cpu", "processor"),
    ("version", "mpps"),
];

/// The first line of a record, with the place that it is measured on: name of the host, release of the kernel, model of
/// the processor (null if it can't be read), version of the program.
pub(crate) fn with_place(mut header: Value, version: &str) -> Value {
    let uname = rustix::system::uname();
    header[MEASURED_ON] = json!({
        "host": uname.nodename().to_string_lossy(),
        "kernel": uname.release().to_string_lossy(),
        "cpu": mpps_sys::processor::name(),
        "version": version,
    });
    header
}

/// Refuses a record that was begun elsewhere: on another host, kernel or processor, or by another version. Trials of
/// two of these are no one result.
///
/// # Errors
/// One line that names what differs.
pub(crate) fn same_place(there: &Value, here: &Value) -> std::result::Result<(), String> {
    let want = "want it gone on with there, or another folder: two of these are no one result";
    let (there, here) = (&there[MEASURED_ON], &here[MEASURED_ON]);
    if !there.is_object() {
        return Err(format!(
            "line 1: a version of mpps before {} wrote it, which did not note where it was: {want}",
            env!("CARGO_PKG_VERSION")
        ));
    }
    for (key, name) in PLACE {
        // A value that one of the two could not read is not known to differ.
        if let (Some(there), Some(here)) = (there[key].as_str(), here[key].as_str())
            && there != here
        {
            let there = mpps_sys::text::plain(&there.chars().take(80).collect::<String>(), '?');
            return Err(format!(
                "line 1: it was begun on another {name}, {there}; this is {here}: {want}"
            ));
        }
    }
    Ok(())
}

/// Reads the record in `folder`, if there is one, up to one byte more than `longest`.
///
/// # Errors
/// When it can't be read.
pub(crate) fn read(clerk: &Clerk, folder: &Path, longest: u64) -> Result<Option<Vec<u8>>> {
    let path = folder.join(FILE);
    let found = clerk.does(move || -> io::Result<Option<Vec<u8>>> {
        // No link is followed, and what is no file keeps nobody waiting.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        let mut text = Vec::new();
        file.take(longest + 1).read_to_end(&mut text)?;
        Ok(Some(text))
    })?;
    found.map_err(|e| unwritable(folder, &format!("read {FILE}: {e}")))
}

/// The whole lines of a record: one that was cut off is left out. `None` where there is none, and what there is begins
/// as `header` does.
///
/// # Errors
/// When the file is somebody else's: it is no record and must not be emptied.
pub(crate) fn whole_lines<'t>(text: &'t [u8], header: &Value) -> std::result::Result<Option<&'t str>, String> {
    let Some(end) = text.iter().rposition(|byte| *byte == b'\n') else {
        return match header.to_string().as_bytes().starts_with(text) {
            true => Ok(None),
            false => Err(NO_RECORD.to_owned()),
        };
    };
    let whole = std::str::from_utf8(&text[..=end]);
    whole.map(Some).map_err(|e| format!("not UTF-8: {e}"))
}

/// The folder, with its record open. The files are written by a clerk: its own, or one that others ask, too.
pub(crate) struct Folder<C: Borrow<Clerk>> {
    clerk: C,
    path: PathBuf,
    /// `None` once a line could not be written.
    record: Option<File>,
    /// Reason why lines are missing.
    pub(crate) broken: Option<String>,
}

impl<C: Borrow<Clerk>> Folder<C> {
    /// Opens the folder, and keeps this many bytes of an existing record; a new record begins with this first line.
    ///
    /// # Errors
    /// When the folder or the record can't be made.
    pub(crate) fn open(clerk: C, path: &Path, whole: u64, header: &Value) -> Result<Self> {
        let folder = path.to_path_buf();
        let opened = clerk.borrow().does(move || -> io::Result<File> {
            private::open_folder(&folder)?;
            let file = private::open(&folder.join(FILE), OFlags::APPEND)?;
            if !file.metadata()?.is_file() {
                return Err(io::Error::other(format!("{FILE} is no regular file")));
            }
            file.set_len(whole)?;
            Ok(file)
        })?;
        let mut folder = Self {
            clerk,
            path: path.to_path_buf(),
            record: Some(opened.map_err(|e| unwritable(path, &e))?),
            broken: None,
        };
        if whole == 0 {
            folder.line(header);
        }
        match folder.broken.take() {
            Some(why) => Err(failed(why)),
            None => Ok(folder),
        }
    }

    /// Writes a line of the record. Where that fails, the test goes on, and the rest is not written: a record with
    /// holes would be gone on with as if nothing were missing.
    pub(crate) fn line(&mut self, value: &Value) {
        let Some(mut file) = self.record.take() else { return };
        let line = mpps_sys::text::json(format!("{value}\n"));
        let written = self.clerk.borrow().does(move || {
            let result = file.write_all(line.as_bytes());
            (file, result)
        });
        match written {
            Ok((file, Ok(()))) => self.record = Some(file),
            Ok((_, Err(e))) => self.broken = Some(format!("write {}: {e}", self.path.join(FILE).display())),
            Err(Failure::Failed(why) | Failure::Usage(why)) => self.broken = Some(why),
        }
    }

    /// Writes another file, in one step.
    ///
    /// # Errors
    /// When it can't be written.
    pub(crate) fn file(&self, name: &str, bytes: Vec<u8>) -> Result<()> {
        let path = self.path.join(name);
        let written = self.clerk.borrow().does(move || -> io::Result<()> {
            let place = private::Place::find(&path)?.ok_or_else(|| io::Error::other("it is no file of its own"))?;
            place.replace(&bytes)
        })?;
        written.map_err(|e| failed(format!("write {}: {e}", self.path.join(name).display())))
    }

    /// Writes other files. Returns what could not be written.
    pub(crate) fn files(&self, files: Vec<(String, Vec<u8>)>) -> Vec<String> {
        let written = files.into_iter().map(|(name, bytes)| self.file(&name, bytes));
        written
            .filter_map(|written| Some(written.err()?.line().to_owned()))
            .collect()
    }
}

fn unwritable(folder: &Path, why: &impl std::fmt::Display) -> Failure {
    usage(format!(
        "--out {}: {why}: want a folder that can be made and written",
        folder.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_another_place_is_refused_by_what_differs_and_what_is_not_known_does_not_differ() {
        let here = with_place(json!({ "schema": SCHEMA }), "0.1.0");
        assert_eq!(same_place(&here, &here), Ok(()));
        for (key, value, told) in [
            ("host", "elsewhere", "begun on another host, elsewhere; this is "),
            ("kernel", "2.6.32", "begun on another kernel, 2.6.32; this is "),
            ("cpu", "Z80", "begun on another processor, Z80; this is "),
            ("version", "0.0.9 (abc)", "begun on another mpps, 0.0.9 (abc); this is "),
        ] {
            let mut there = here.clone();
            there[MEASURED_ON][key] = value.into();
            let why = same_place(&there, &here).unwrap_err();
            assert!(here[MEASURED_ON][key].is_null() || why.contains(told), "{why}");
            there[MEASURED_ON][key] = Value::Null;
            assert_eq!(same_place(&there, &here), Ok(()), "{key}");
        }
        let mut old = here.clone();
        old.as_object_mut().unwrap().remove(MEASURED_ON);
        assert!(
            same_place(&old, &here)
                .unwrap_err()
                .contains("did not note where it was")
        );
        let mut hostile = here.clone();
        hostile[MEASURED_ON]["host"] = "a\u{1b}[31m\n".into();
        let why = same_place(&hostile, &here).unwrap_err();
        assert!(!why.contains(char::is_control), "{why:?}");
    }
}
