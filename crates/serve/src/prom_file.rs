//! The metrics as a file, for the textfile collector of the node exporter and its like.

use crate::board::Board;
use crate::metrics;
use crate::state::About;
use mpps_report::{JsonTarget, Notes, ReportError};
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval of writing the file during the run.
const EVERY: Duration = Duration::from_secs(1);

/// A file that is replaced in one step, once a second and at the end. A thread of its own writes it.
pub struct PromFile {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<Result<(), ReportError>>>,
    notes: Notes,
}

impl PromFile {
    /// Checks that the file can be written, and starts the thread that writes it. The thread calls `ready` first.
    ///
    /// # Errors
    /// When the file can't be written, or can't be replaced in one step.
    pub fn create(path: &Path, board: Board, ready: impl FnOnce() + Send + 'static) -> Result<Self, ReportError> {
        let target = JsonTarget::prepare(path)?.for_everybody();
        if let Some(why) = target.halves() {
            let told = format!("it can't be replaced in one step ({why}): want a file in a folder that can be written");
            return Err(ReportError::io("open for writing", path, io::Error::other(told)));
        }
        let (end, ended) = channel();
        let notes = Notes::new();
        let told = notes.clone();
        let labels = labels_of(path);
        let file = path.to_owned();
        let body = move || {
            ready();
            write((&file, target, &labels), &board, &ended, &told)
        };
        let thread = mpps_sys::thread::spawn("mpps-prom", body);
        let thread = thread.map_err(|e| ReportError::io("start the thread that writes", path, e))?;
        Ok(Self {
            end: Some(end),
            thread: Some(thread),
            notes,
        })
    }

    /// Writes the state of a run that waits for its first packet, in place of an earlier run's.
    ///
    /// # Errors
    /// Same as [`PromFile::create`], when the file can't be written.
    pub fn begun(path: &Path, about: About) -> Result<(), ReportError> {
        once(path, metrics::text_of_begun(about, &labels_of(path)))
    }

    /// Writes the state of a run that failed: `mpps_run_valid` is 0. If the run failed before it began, no older state
    /// stays.
    ///
    /// # Errors
    /// Same as [`PromFile::create`], when the file can't be written.
    pub fn failed(path: &Path, about: About) -> Result<(), ReportError> {
        once(path, metrics::text_of_failed(about, &labels_of(path)))
    }

    /// Returns the board of notes about write errors. Each error appears there when it happens.
    pub fn notes(&self) -> Notes {
        self.notes.clone()
    }

    /// Writes the file for the last time.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn finish(mut self) -> Result<(), ReportError> {
        self.ended()
    }

    fn ended(&mut self) -> Result<(), ReportError> {
        drop(self.end.take());
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(written)) => written,
            _ => Ok(()),
        }
    }
}

impl Drop for PromFile {
    /// Ends the writing thread, so that others may write the file next.
    fn drop(&mut self) {
        let _ = self.ended();
    }
}

/// Writes the file once, over its old contents if it can't be replaced in one step.
fn once(path: &Path, text: String) -> Result<(), ReportError> {
    let target = JsonTarget::prepare(path)?.for_everybody();
    match target.is_file() {
        true => target.write_state(&text),
        false => Ok(()),
    }
}

/// Returns the labels of the file's metrics. Files that are read together differ in their names, or lie in several
/// folders.
fn labels_of(path: &Path) -> [(&'static str, String); 2] {
    let run = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let whole = std::path::absolute(path).unwrap_or_default();
    let folder = whole.parent().unwrap_or(Path::new("")).to_string_lossy().into_owned();
    [("run", run), ("folder", folder)]
}

fn write(
    (path, mut target, labels): (&Path, JsonTarget, &[(&str, String)]),
    board: &Board,
    ended: &Receiver<()>,
    notes: &Notes,
) -> Result<(), ReportError> {
    let mut seen = None;
    loop {
        // The state that an earlier run has left does not belong to this one, so the first write does not wait.
        let wait = if seen.is_none() { Duration::ZERO } else { EVERY };
        let over = !matches!(ended.recv_timeout(wait), Err(RecvTimeoutError::Timeout));
        let version = board.version();
        // Without a new state there is nothing to write.
        if !over && seen == Some(version) {
            continue;
        }
        seen = Some(version);
        let written = target.write_state(&metrics::text_of(&board.newest(), labels));
        if over {
            return written;
        }
        if let Err(error) = written {
            notes.tell(format!("prom: {error}"));
        }
        // A lock belongs to the file that exists now. So a run that fails does not touch the file of one that
        // continues.
        if let Ok(again) = JsonTarget::prepare(path) {
            target = again.for_everybody();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_replaced_is_refused_and_the_last_state_is_written() {
        let folder = std::env::temp_dir().join(format!("mpps-prom-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        for path in ["-", "/dev/null"] {
            assert!(
                PromFile::create(Path::new(path), Board::default(), || ()).is_err(),
                "{path}"
            );
        }
        let path = folder.join("mpps.prom");
        let board = Board::default();
        let file = PromFile::create(&path, board.clone(), || ()).expect("a file");
        board.publish(&crate::state::State {
            trial: 41,
            ..Default::default()
        });
        file.finish().expect("written");
        let text = std::fs::read_to_string(&path).expect("the file");
        let line = format!("mpps_run_trials{{run=\"mpps\",folder=\"{}\"}} 41\n", folder.display());
        assert!(text.contains(&line), "{text}");
        assert_eq!(
            std::fs::read_dir(&folder).expect("the folder").count(),
            1,
            "nothing beside it"
        );
        std::fs::remove_dir_all(&folder).expect("ours");
    }
}
