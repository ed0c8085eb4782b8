//! The folder of `--out`: a record that grows by a line as each part of a test ends, and files that are written whole.

use crate::fail::{Failure, Result, failed, usage};
use crate::privilege::Clerk;
use mpps_sys::private;
use rustix::fs::OFlags;
use serde_json::Value;
use std::borrow::Borrow;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The record's file.
pub(crate) const FILE: &str = "trials.jsonl";
/// What a record's first line calls itself.
pub(crate) const SCHEMA: &str = "mpps.trials/1";
/// Of a file that is something else.
pub(crate) const NO_RECORD: &str = "line 1: want a record of trials (schema mpps.trials/1)";

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
/// Of somebody's file, which is no record and is not to be emptied.
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
    /// Why lines are missing.
    pub(crate) broken: Option<String>,
}

impl<C: Borrow<Clerk>> Folder<C> {
    /// Opens it, and keeps so many bytes of the record that there is; a record that is begun has this first line.
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
}

fn unwritable(folder: &Path, why: &impl std::fmt::Display) -> Failure {
    usage(format!(
        "--out {}: {why}: want a folder that can be made and written",
        folder.display()
    ))
}
