//! What becomes of files when the program fails: those that are read as what became of a run never hold what an earlier
//! one has left.

use super::output::unwritable;
use crate::cli::words_of_program;
use crate::fail::{Failure, Result, tell_at_end};
use crate::privilege::as_user;
use mpps_report::{JsonLines, JsonTarget, ReportError, junit_without_result};
use mpps_serve::{About, PromFile};
use mpps_stats::Summary;
use serde_json::Map;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The program's JSON Lines.
enum Lines {
    /// They are not open, or nobody wants any.
    None,
    /// The run goes on.
    Open(JsonLines),
    /// Their last line is written.
    Ended,
}

static LINES: Mutex<Lines> = Mutex::new(Lines::None);

/// Whoever asks writes the last line.
fn lines() -> Lines {
    let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    match *lines {
        Lines::None => Lines::None,
        _ => std::mem::replace(&mut lines, Lines::Ended),
    }
}

/// The run's JSON Lines are open: whatever becomes of it is their last line.
pub(super) fn lines_are_open(of_run: JsonLines) {
    *LINES.lock().unwrap_or_else(PoisonError::into_inner) = Lines::Open(of_run);
}

/// Writes the last line of a run that has ended, if it has lines.
pub(super) fn last_line(summary: &Summary) {
    if let Lines::Open(lines) = lines() {
        // What could not be written is on its board.
        let _ = lines.end(summary);
    }
}

/// The files that a machine reads as the state of a run (`--junit`, `--prom`) hold its result.
static STATE_IS_TOLD: AtomicBool = AtomicBool::new(false);

/// The result is in the files that are read as a state, or was to be: a failure after that is none of the run.
pub(super) fn state_is_told() {
    STATE_IS_TOLD.store(true, Ordering::Relaxed);
}

/// The program fails: the files that it was to write say so, as far as they are read as what became of a run.
pub(crate) fn failed_in_files(failure: &Failure) {
    failed_in_lines(failure);
    if !STATE_IS_TOLD.load(Ordering::Relaxed) {
        failed_in_state(failure.line());
    }
}

/// Replaces what an earlier run has left in `--junit` and `--prom` by the error: a reader must not take it for the
/// result of this run.
fn failed_in_state(message: &str) {
    let words = words_of_program();
    let named = |option: &str| {
        let path = path_of(option, words.iter().cloned())?;
        // A failure that is about the file itself, or a file that has another meaning, too: it may be another's.
        let told = message.split(": ").next().unwrap_or_default();
        let is_about_it = told.split(" and ").any(|about| about == option);
        let others = words.iter().filter(|word| names_same(word, &path)).count() > 1;
        (!is_about_it && !others && !path.is_dir() && !is_of_no_folder(&path)).then_some(path)
    };
    let (to_junit, to_prom) = (named("--junit"), named("--prom"));
    if to_junit.is_none() && to_prom.is_none() {
        return;
    }
    let written = as_user(|| {
        let mut first = Ok(());
        if let Some(path) = to_junit {
            let written = JsonTarget::prepare(&path).and_then(|target| {
                let stdout = path == Path::new("-");
                // A pipe that nobody reads would hold up the end.
                let text = (stdout || target.is_file()).then(|| junit_without_result(&command(), message));
                text.map_or(Ok(()), |text| target.write_text(&text))
            });
            first = first.and(or_gone(written, &path).map_err(|e| unwritable("--junit", &e)));
        }
        if let Some(path) = to_prom {
            let about = About {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                workload: command(),
                ..About::default()
            };
            let written = PromFile::failed(&path, about);
            first = first.and(or_gone(written, &path).map_err(|e| unwritable("--prom", &e)));
        }
        first
    });
    if let Err(failure) = written {
        tell_at_end(failure.line());
    }
}

/// Whether a word of the command line is this file, or an option with it.
fn names_same(word: &OsString, path: &Path) -> bool {
    let value = word.to_str().and_then(|word| word.strip_prefix("--")?.split_once('='));
    let named = value.map_or(Path::new(word), |(_, value)| Path::new(value));
    named == path || mpps_report::same_file(named, path)
}

/// Whether a file is one of the folder of `--out`, which is not there: a refused run leaves none.
fn is_of_no_folder(path: &Path) -> bool {
    let out = path_of("--out", words_of_program().into_iter());
    let above = path.parent();
    above.is_some_and(|folder| out.as_deref() == Some(folder) && !folder.exists())
}

/// A file that another run writes is none of this one's. One that has no room for what became of this run goes: what an
/// earlier run has left says something else.
fn or_gone(written: std::result::Result<(), ReportError>, path: &Path) -> std::result::Result<(), ReportError> {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, ResourceBusy, StorageFull};
    match written {
        Err(ReportError::Io { source, .. }) if source.kind() == ResourceBusy => Ok(()),
        Err(ReportError::Io { op, path: of, source })
            if matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge) =>
        {
            if let Ok(Some(place)) = mpps_sys::private::Place::find(path) {
                let _ = place.remove();
            }
            Err(ReportError::Io { op, path: of, source })
        }
        other => other,
    }
}

/// Name of the command that was typed: `sendrecv`, `ndr`, …; empty where that is not known.
fn command() -> String {
    let word = words_of_program().into_iter().nth(1).unwrap_or_default();
    let word = word.to_string_lossy();
    if word.starts_with('-') {
        String::new()
    } else {
        word.into_owned()
    }
}

/// A file of `--junit`, which says until the run ends that it has not: who kills the program leaves that.
pub(super) fn junit_target(path: &Path) -> Result<JsonTarget> {
    let prepare = || JsonTarget::prepare(path).map_err(|e| unwritable("--junit", &e));
    let target = prepare()?;
    if !target.is_file() {
        return Ok(target);
    }
    let why = "it has not ended: it goes on, or was killed";
    let text = junit_without_result(&command(), why);
    target.write_text(&text).map_err(|e| unwritable("--junit", &e))?;
    // A lock is of the file that is there.
    drop(target);
    prepare()
}

/// The last of the run's JSON Lines says why it fails. Where the run has not opened them yet they are only that, in the
/// file that the command line names.
fn failed_in_lines(failure: &Failure) {
    let (message, exit_code) = (failure.line().to_owned(), failure.code());
    let told = match lines() {
        Lines::Ended => return,
        Lines::Open(lines) => lines.failed(&message, exit_code),
        Lines::None => {
            let named = |option: &str| path_of(option, words_of_program().into_iter());
            let Some(path) = named("--json-lines") else {
                return;
            };
            // A refused run leaves no folder, so a file in that of --out can't be opened, and that is no second fault.
            if is_of_no_folder(&path) {
                return;
            }
            // As the user whose file it is.
            let written = as_user(|| {
                let lines = JsonLines::create(&path, Map::new()).map_err(|e| unwritable("--json-lines", &e))?;
                Ok(lines.failed(&message, exit_code))
            });
            written.unwrap_or_else(|failure| vec![failure.line().to_owned()])
        }
    };
    // Where they can't be opened that is why it fails, and told already.
    let more = told.iter().filter(|line| **line != message);
    more.for_each(|line| tell_at_end(line));
}

/// The file or folder that an option names, of a command line that may not be right.
fn path_of(option: &str, words: impl Iterator<Item = OsString>) -> Option<PathBuf> {
    value_of(option, words)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

fn value_of(option: &str, mut words: impl Iterator<Item = OsString>) -> Option<OsString> {
    while let Some(word) = words.next() {
        if word == "--" {
            return None;
        }
        if word == option {
            return words.next();
        }
        let value = word
            .to_str()
            .and_then(|word| word.strip_prefix(option)?.strip_prefix('='));
        if let Some(value) = value {
            return Some(value.into());
        }
    }
    None
}
