//! The files of a run when the program fails. `--junit` and `--prom` are read as the state of the newest run, so they
//! never hold the result of an earlier one.

use crate::cli::{Word, values_of_program, words_of_program};
use crate::fail::unwritable;
use crate::fail::{Failure, Result, tell_at_end};
use mpps_pages::junit_without_result;
use mpps_report::{JsonLines, JsonTarget, ReportError};
use mpps_run::privilege::{as_user, lent};
use mpps_serve::{About, PromFile};
use mpps_stats::Summary;
use serde_json::Map;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The program's JSON Lines.
enum Lines {
    /// They are not open, or were not asked for.
    None,
    /// The run goes on.
    Open(JsonLines),
    /// Their last line is written.
    Ended,
}

static LINES: Mutex<Lines> = Mutex::new(Lines::None);

/// Takes the lines: the caller writes the last one.
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
        // Errors of writing are on the board of the lines.
        let _ = lines.end(summary);
    }
}

/// The files that a machine reads as the state of a run (`--junit`, `--prom`) hold its result.
static STATE_IS_TOLD: AtomicBool = AtomicBool::new(false);

/// The result is in the files that are read as a state, or was to be: a failure after that is none of the run.
pub(super) fn state_is_told() {
    STATE_IS_TOLD.store(true, Ordering::Relaxed);
}

/// State of the run that `--junit` and `--prom` show.
#[derive(Clone, Copy)]
enum Told<'a> {
    /// The run has begun. This state stays in the files if the program is killed.
    Begins,
    /// The run has failed, with this error.
    Failed(&'a str),
}

/// Marks `--junit` and `--prom` as a run begins, in place of the result of an earlier one. Errors are reported later,
/// when the files are opened.
pub(crate) fn begin_in_files() {
    let _ = tell_state(&values(), Told::Begins);
}

/// Writes the error into `--junit`, `--prom` and `--json-lines` as the program fails.
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

/// The values of the command line; none with `--print-plan`, which runs nothing.
fn values() -> Vec<Word> {
    match has_flag("--print-plan") {
        true => Vec::new(),
        false => values_of_program(),
    }
}

fn has_flag(flag: &str) -> bool {
    words_of_program().iter().any(|word| word == flag)
}

/// Runs `work` with the rights by which a run writes its files.
fn as_writer<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    match has_flag("--keep-privileges") && !lent() {
        true => work(),
        false => as_user(work),
    }
}

/// Replaces what an earlier run has left in `--junit` and `--prom`: a reader must not take it for the result of this
/// run. Returns what could not be written.
fn tell_state(values: &[Word], told: Told<'_>) -> Vec<String> {
    let [to_junit, to_prom] = ["junit", "prom"].map(|option| file_of(option, values).filter(|path| !path.is_dir()));
    if to_junit.is_none() && to_prom.is_none() {
        return Vec::new();
    }
    let written = as_writer(|| {
        let junit = to_junit.and_then(|path| junit_says(&path, told).err());
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
            written.err()
        });
        let errors = [("--junit", junit), ("--prom", prom)].into_iter();
        let ours = errors.filter_map(|(option, error)| Some((option, error.filter(|error| !is_of_another(error))?)));
        Ok(ours
            .map(|(option, error)| unwritable(option, &error))
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

/// The file that an option names. None where it has another meaning, too, or is one of the folder of `--out`: a refused
/// run leaves none, and none of its files in one of an earlier run.
fn file_of(option: &str, values: &[Word]) -> Option<PathBuf> {
    let is = |word: &Word, option: &str| word.option.as_deref() == Some(option);
    let at = values
        .iter()
        .position(|word| is(word, option) && !word.value.is_empty())?;
    let path = PathBuf::from(&values[at].value);
    let mut others = values
        .iter()
        .enumerate()
        .filter(|(other, word)| *other != at && word.may_be_file);
    let mut folders = values.iter().filter(|word| is(word, "out"));
    let in_folder = !has_flag("--resume") && folders.any(|out| path.parent() == Some(Path::new(&out.value)));
    (!in_folder && !others.any(|(_, word)| names_same(&word.value, &path))).then_some(path)
}

/// Whether a word, or a part of it (`loop:tx_pcap=FILE`), is this file.
fn names_same(value: &OsStr, path: &Path) -> bool {
    let is = |named: &Path| named == path || mpps_report::same_file(named, path);
    let parts = value.to_str().into_iter().flat_map(|text| text.split(','));
    let mut options = parts.filter_map(|part| part.split_once('='));
    is(Path::new(value)) || options.any(|(_, value)| is(Path::new(value)))
}

/// A file that another run writes is none of this one's.
fn is_of_another(error: &ReportError) -> bool {
    matches!(error, ReportError::Io { source, .. } if source.kind() == std::io::ErrorKind::ResourceBusy)
}

/// Returns the name of the command that was typed: `sendrecv`, `ndr`, …; empty if it is not known.
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
fn failed_in_lines(failure: &Failure, values: &[Word]) {
    let (message, exit_code) = (failure.line().to_owned(), crate::fail::code(failure));
    let told = match lines() {
        Lines::Ended => return,
        Lines::Open(lines) => lines.failed(&message, exit_code),
        Lines::None => {
            let Some(path) = file_of("json-lines", values) else {
                return;
            };
            // Written as the user whose file it is.
            let written = as_writer(|| match JsonLines::create(&path, Map::new()) {
                Ok(lines) => Ok(lines.failed(&message, exit_code)),
                Err(e) if is_of_another(&e) => Ok(Vec::new()),
                Err(e) => Err(unwritable("--json-lines", &e)),
            });
            written.unwrap_or_else(|failure| vec![failure.line().to_owned()])
        }
    };
    // If the files can't be opened, that is the run's error and already printed.
    let more = told.iter().filter(|line| **line != message);
    more.for_each(|line| tell_at_end(line));
}
