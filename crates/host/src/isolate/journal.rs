//! The journal: a file in which a run records its changes, so that they can be undone.
//!
//! The file is removed when everything in it is undone. Changes that the host refuses to undo stay in it, for the next
//! start of the program and for `mpps isolate --undo`.

use super::tree::Tree;
use super::undo::{Line, Undone, lines, undo, unread};
use mpps_sys::journal::{Entry, abandoned, files, foreign};
use mpps_sys::private;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Start of the files' names.
const PREFIX: &str = "isolate-";
/// Longest wait for processes that are left in a control group to be moved.
const PATIENCE: Duration = Duration::from_secs(2);

/// A journal that is being written.
#[derive(Debug)]
pub(super) struct Journal {
    tree: Tree,
    /// Entry of the journal's file; `None`: everything that can be undone was.
    entry: Option<Entry>,
    lines: Vec<Line>,
}

/// Returns the folder of a host's journals.
pub(super) fn folder(tree: &Tree) -> PathBuf {
    match tree.is_live() {
        true => private::runtime_path(),
        false => tree.path("run/mpps"),
    }
}

fn boot(tree: &Tree) -> String {
    tree.read("proc/sys/kernel/random/boot_id").unwrap_or_default()
}

impl Journal {
    /// # Errors
    /// When the file can't be written: then nothing may be changed.
    pub(super) fn begin(tree: &Tree) -> io::Result<Self> {
        let folder = folder(tree);
        private::folder(&folder)?;
        let first = Line::Boot {
            id: boot(tree),
            again: false,
        };
        let entry = Entry::create(&folder, PREFIX, &first.text())?;
        Ok(Self {
            tree: tree.clone(),
            entry: Some(entry),
            lines: Vec::new(),
        })
    }

    /// Returns the number of lines.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Writes a line; its change may follow.
    pub(super) fn note(&mut self, line: Line) -> io::Result<()> {
        if let Some(entry) = &mut self.entry {
            entry.append(&line.text())?;
        }
        self.lines.push(line);
        Ok(())
    }

    /// Records the value that the kernel reads back after the last change.
    pub(super) fn set(&mut self, value: String) {
        if let Some(entry) = &mut self.entry {
            // Without this line the value is restored whatever it is by then.
            let _ = entry.append(&Line::Set { value: value.clone() }.text());
        }
        if let Some(Line::Write { set, .. }) = self.lines.last_mut() {
            *set = Some(value);
        }
    }

    /// Undoes the lines from `first` on. In the file they stay: undoing them again does nothing. Lines that the host
    /// refuses to undo stay here too, for another try at the end.
    pub(super) fn undo_from(&mut self, first: usize) -> Undone {
        let last = self.lines.split_off(first.min(self.lines.len()));
        let undone = undo(&self.tree, &last, PATIENCE);
        self.lines.extend(undone.failed.iter().cloned());
        undone
    }

    /// Undoes everything.
    pub(super) fn end(&mut self) -> Undone {
        let undone = self.undo_from(0);
        if let Some(entry) = self.entry.take() {
            close(&self.tree, entry, &undone.failed);
        }
        undone
    }
}

/// Closes a journal with these lines left to undo.
fn close(tree: &Tree, mut entry: Entry, failed: &[Line]) {
    if failed.is_empty() {
        return entry.done();
    }
    let first = Line::Boot {
        id: boot(tree),
        again: true,
    };
    let text: String = std::iter::once(&first).chain(failed).map(Line::text).collect();
    // If the file can't be written, all lines stay: the other ones find everything as it was.
    let _ = entry.replace(&text);
}

#[cfg(test)]
impl Journal {
    /// Simulates a kill: the file stays, and its lock ends.
    pub(super) fn forget(&mut self) {
        self.lines.clear();
        let Some(entry) = self.entry.take() else { return };
        let path = entry.path().to_owned();
        drop(entry);
        // Another test may be starting a program: its child also holds the lock, between fork and exec.
        let is_left = || {
            abandoned(&folder(&self.tree), PREFIX)
                .iter()
                .any(|entry| entry.path() == path)
        };
        for _ in 0..10_000 {
            if is_left() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    pub(super) fn text(&self) -> String {
        let file = files(&folder(&self.tree), PREFIX).pop().expect("the journal");
        std::fs::read_to_string(file).expect("text")
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if self.entry.is_some() {
            self.end();
        }
    }
}

/// The journals of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journals {
    /// Number of journals that belong to running runs, or to a process that is undoing them just now.
    pub held: usize,
    /// Files of the journals that no process holds.
    pub left: Vec<PathBuf>,
}

/// Looks for journals.
pub fn journals(tree: &Tree) -> Journals {
    let folder = folder(tree);
    let all = files(&folder, PREFIX).len();
    let left: Vec<PathBuf> = abandoned(&folder, PREFIX)
        .iter()
        .map(|entry| entry.path().to_owned())
        .collect();
    Journals {
        held: all.saturating_sub(left.len()),
        left,
    }
}

/// Result of undoing what earlier runs have left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// One line for each run, and for each change that stays.
    pub told: Vec<String>,
    /// Number of changes that the host refuses to undo. They stay recorded.
    pub stay: usize,
}

/// Undoes what is left from runs that were killed, or that could not undo everything.
pub fn mend(tree: &Tree) -> Mended {
    let folder = folder(tree);
    match private::is_own_folder(&folder) {
        true => mend_in(tree, &folder),
        false => Mended::default(),
    }
}

fn mend_in(tree: &Tree, folder: &Path) -> Mended {
    let mut mended = Mended::default();
    for (path, why) in foreign(folder, PREFIX) {
        let path = path.display();
        mended.told.push(format!(
            "isolate: {path}: {why}: nothing is undone by it: want it removed"
        ));
    }
    for mut entry in abandoned(folder, PREFIX) {
        let path = entry.path().to_owned();
        let (lines, unread) = match entry.text() {
            Ok(text) => (lines(&text), unread(&text)),
            Err(error) => {
                let path = entry.path().display();
                mended
                    .told
                    .push(format!("isolate: read what a run has left in {path}: {error}"));
                mended.stay += 1;
                continue;
            }
        };
        let again = match lines.first() {
            Some(Line::Boot { id, again }) if *id == boot(tree) => *again,
            first => {
                // A journal of an earlier boot has nothing left to undo, and a run that was killed at once had changed
                // nothing.
                let other_boot = matches!(first, Some(Line::Boot { .. }));
                if !other_boot && (first.is_some() || unread > 0) {
                    let path = path.display();
                    mended.told.push(format!(
                        "isolate: {path}: it does not begin as a journal does: nothing is undone by it, and it goes"
                    ));
                }
                entry.done();
                continue;
            }
        };
        if unread > 0 {
            let path = path.display();
            mended.told.push(format!(
                "isolate: {path}: {unread} lines of it can't be read, so what they note stays as it is"
            ));
        }
        // Changes that earlier tries could not undo are not waited for at each start of the program.
        let (patience, done, left) = match again {
            false => (
                PATIENCE,
                "changes of a run that was killed are undone",
                "left by a run that was killed",
            ),
            true => (
                Duration::ZERO,
                "changes that an earlier run could not undo are undone",
                "left by an earlier run",
            ),
        };
        let undone = undo(tree, &lines, patience);
        if undone.count > 0 {
            mended.told.push(format!("isolate: {} {done}", undone.count));
        }
        let whys = undone.left.iter();
        mended.told.extend(whys.map(|why| format!("isolate: {left}: {why}")));
        mended.stay += undone.failed.len();
        close(tree, entry, &undone.failed);
    }
    mended
}
