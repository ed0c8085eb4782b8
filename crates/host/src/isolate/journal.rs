//! The journal: the file of a run that says what it has changed, for whoever undoes it.
//!
//! It goes when everything in it is undone. What the host refuses to take back stays in it, for the next start of the
//! program and for `mpps isolate --undo`.

use super::tree::Tree;
use super::undo::{Line, Undone, lines, undo, unread};
use mpps_sys::journal::{Entry, abandoned, files, foreign};
use mpps_sys::private;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How the names of the files begin.
const PREFIX: &str = "isolate-";
/// How long processes that are left in a control group may take to be moved.
const PATIENCE: Duration = Duration::from_secs(2);

/// A journal that is being written.
#[derive(Debug)]
pub(super) struct Journal {
    tree: Tree,
    /// `None`: all that can be undone was.
    entry: Option<Entry>,
    lines: Vec<Line>,
}

/// Where a host's journals lie.
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
    /// When the file can't be written: nothing may be changed then.
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

    /// How many lines there are.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Writes a line: its change may follow.
    pub(super) fn note(&mut self, line: Line) -> io::Result<()> {
        if let Some(entry) = &mut self.entry {
            entry.append(&line.text())?;
        }
        self.lines.push(line);
        Ok(())
    }

    /// Notes what the last change has become.
    pub(super) fn set(&mut self, value: String) {
        if let Some(entry) = &mut self.entry {
            // Without it the value is put back whatever it is by then.
            let _ = entry.append(&Line::Set { value: value.clone() }.text());
        }
        if let Some(Line::Write { set, .. }) = self.lines.last_mut() {
            *set = Some(value);
        }
    }

    /// Undoes the lines from `first` on. In the file they stay: undoing them once more does nothing. Those that the
    /// host refuses to undo stay here, too, for another try at the end.
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

/// Lets go of a journal of which this is left.
fn close(tree: &Tree, mut entry: Entry, failed: &[Line]) {
    if failed.is_empty() {
        return entry.done();
    }
    let first = Line::Boot {
        id: boot(tree),
        again: true,
    };
    let text: String = std::iter::once(&first).chain(failed).map(Line::text).collect();
    // Where it can't be written, all lines stay: the others find everything as it was.
    let _ = entry.replace(&text);
}

#[cfg(test)]
impl Journal {
    /// As after a kill: the file stays, and is locked no longer.
    pub(super) fn forget(&mut self) {
        self.lines.clear();
        let Some(entry) = self.entry.take() else { return };
        let path = entry.path().to_owned();
        drop(entry);
        // Another test may be starting a program: the child holds the lock, too, between fork and exec.
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
    /// How many belong to runs that live, or to somebody who undoes them just now.
    pub held: usize,
    /// The files of those that nobody holds.
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

/// What came of undoing what earlier runs have left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// A line for each run, and for each thing that stays.
    pub told: Vec<String>,
    /// Changes that the host refuses to undo: they stay noted.
    pub stay: usize,
}

/// Puts back what runs that were killed, or that could not undo all of it, have left.
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
                // Of another boot nothing is left to undo, and a run that was killed at once had changed nothing.
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
        // What has stayed before is not waited for at each start of the program.
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
