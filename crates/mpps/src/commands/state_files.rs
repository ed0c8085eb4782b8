//! What becomes of files when the program fails: those that are read as what became of a run never hold what an earlier
//! one has left.

use super::output::unwritable;
use crate::cli::{Cli, values_of_program, words_of_program};
use crate::fail::{Failure, tell_at_end};
use crate::privilege::as_user;
use mpps_report::{JsonLines, JsonTarget, ReportError, junit_without_result};
use mpps_serve::{About, PromFile};
use mpps_stats::Summary;
use serde_json::Map;
use std::ffi::{OsStr, OsString};
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

/// The values of this program's command line, with the long names of their options.
type Values = [(Option<String>, OsString)];

/// What a file is told that is read as what became of a run.
#[derive(Clone, Copy)]
enum Told<'a> {
    /// Who kills the program leaves this.
    Begins,
    Failed(&'a str),
}

/// A run begins: what an earlier one has left in the files that are read as its state is none of this one's. What can't
/// be written is told when the files are opened.
pub(crate) fn begin_in_files() {
    let _ = tell_state(&values(), Told::Begins);
}

/// The program fails: the files that it was to write say so, as far as they are read as what became of a run.
pub(crate) fn failed_in_files(failure: &Failure) {
    let values = values();
    failed_in_lines(failure, &values);
    if STATE_IS_TOLD.load(Ordering::Relaxed) {
        return;
    }
    let told = tell_state(&values, Told::Failed(failure.line()));
    let more = told.iter().filter(|line| **line != failure.line());
    more.for_each(|line| tell_at_end(line));
}

/// None of a command line that is only to be told.
fn values() -> Vec<(Option<String>, OsString)> {
    match words_of_program().iter().any(|word| word == "--print-plan") {
        true => Vec::new(),
        false => values_of_program(&Cli::definition()),
    }
}

/// Replaces what an earlier run has left in `--junit` and `--prom`: a reader must not take it for the result of this
/// run. Returns what could not be written.
fn tell_state(values: &Values, told: Told<'_>) -> Vec<String> {
    let [to_junit, to_prom] = ["junit", "prom"].map(|option| file_of(option, values).filter(|path| !path.is_dir()));
    if to_junit.is_none() && to_prom.is_none() {
        return Vec::new();
    }
    let written = as_user(|| {
        let junit = to_junit.and_then(|path| unless_of_another(junit_says(&path, told)).err());
        let prom = to_prom.and_then(|path| {
            let about = About {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                workload: command(),
                ..About::default()
            };
            let written = match told {
                Told::Begins => PromFile::begun(&path, about),
                Told::Failed(_) => PromFile::failed(&path, about),
            };
            unless_of_another(written).err()
        });
        let failures = [("--junit", junit), ("--prom", prom)].into_iter();
        Ok(failures
            .filter_map(|(option, error)| Some(unwritable(option, &error?)))
            .collect::<Vec<_>>())
    });
    let failures = written.unwrap_or_else(|failure| vec![failure]);
    failures.iter().map(|failure| failure.line().to_owned()).collect()
}

fn junit_says(path: &Path, told: Told<'_>) -> std::result::Result<(), ReportError> {
    let target = JsonTarget::prepare(path)?;
    let why = match told {
        Told::Begins => "it has not ended: it goes on, or was killed",
        Told::Failed(message) => message,
    };
    // A pipe has one text, and one that nobody reads would hold up the end.
    let stdout = path == Path::new("-") && matches!(told, Told::Failed(_));
    match stdout || target.is_file() {
        true => target.write_state(&junit_without_result(&command(), why)),
        false => Ok(()),
    }
}

/// The file that an option names. None where it has another meaning, too, or is one of the folder of `--out` that is
/// not there: a refused run leaves none.
fn file_of(option: &str, values: &Values) -> Option<PathBuf> {
    let is = |name: &Option<String>, option: &str| name.as_deref() == Some(option);
    let at = values
        .iter()
        .position(|(name, value)| is(name, option) && !value.is_empty())?;
    let path = PathBuf::from(&values[at].1);
    let mut others = values.iter().enumerate().filter(|(other, _)| *other != at);
    let mut folders = values.iter().filter(|(name, _)| is(name, "out"));
    let new_folder = folders.any(|(_, out)| path.parent() == Some(Path::new(out)) && !Path::new(out).exists());
    (!new_folder && !others.any(|(_, (_, value))| names_same(value, &path))).then_some(path)
}

/// Whether a word, or a part of it (`loop:tx_pcap=FILE`), is this file.
fn names_same(value: &OsStr, path: &Path) -> bool {
    let is = |named: &Path| named == path || mpps_report::same_file(named, path);
    let parts = value.to_str().into_iter().flat_map(|text| text.split(','));
    let mut options = parts.filter_map(|part| part.split_once('='));
    is(Path::new(value)) || options.any(|(_, value)| is(Path::new(value)))
}

/// A file that another run writes is none of this one's.
fn unless_of_another(written: std::result::Result<(), ReportError>) -> std::result::Result<(), ReportError> {
    match written {
        Err(ReportError::Io { source, .. }) if source.kind() == std::io::ErrorKind::ResourceBusy => Ok(()),
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

/// The last of the run's JSON Lines says why it fails. Where the run has not opened them yet they are only that, in the
/// file that the command line names.
fn failed_in_lines(failure: &Failure, values: &Values) {
    let (message, exit_code) = (failure.line().to_owned(), failure.code());
    let told = match lines() {
        Lines::Ended => return,
        Lines::Open(lines) => lines.failed(&message, exit_code),
        Lines::None => {
            let Some(path) = file_of("json-lines", values) else {
                return;
            };
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
