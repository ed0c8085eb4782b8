//! The journal: what was changed, and how it is put back.
//!
//! A line is written before its change. What a change has become as the kernel reads it back follows in a line of its
//! own, so that a value that somebody else has set since is left to them. Each line can be undone twice: the second
//! time finds everything as it was.

use super::cpus::Cpus;
use super::plan::{Step, Undo, said, started};
use super::tree::Tree;
use mpps_sys::journal::{Entry, abandoned, files};
use mpps_sys::private;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How the names of the files begin.
const PREFIX: &str = "isolate-";
/// How long processes that are left in a control group may take to be moved.
const LEAVE_LIMIT: Duration = Duration::from_secs(2);

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub(super) enum Line {
    /// The first one: of which boot it tells. After another start nothing of it is left.
    Boot {
        /// `/proc/sys/kernel/random/boot_id`.
        id: String,
    },
    /// A value is about to be written.
    Write {
        path: String,
        before: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        undo: Option<String>,
        /// As it was read back; in the journal it is the next line.
        #[serde(skip)]
        set: Option<String>,
    },
    /// The value of the line before was written, and is this.
    Set { value: String },
    /// A control group is about to be made.
    Folder { path: String, home: String },
    /// A thread is about to be moved.
    Affinity {
        thread: i32,
        started: u64,
        before: String,
        after: String,
    },
}

impl Line {
    /// What undoes a step; `None`: it ends with the process, or with its group.
    pub(super) fn of(step: &Step) -> Option<Self> {
        Some(match step {
            Step::Write { undo: Undo::Gone, .. } | Step::Hold { .. } => return None,
            Step::Write { path, before, undo, .. } => Self::Write {
                path: path.clone(),
                before: before.clone(),
                undo: match undo {
                    Undo::By(value) => Some((*value).to_owned()),
                    _ => None,
                },
                set: None,
            },
            Step::Folder { path, home } => Self::Folder {
                path: path.clone(),
                home: home.clone(),
            },
            Step::Affinity {
                thread,
                started,
                before,
                after,
                ..
            } => Self::Affinity {
                thread: *thread,
                started: *started,
                before: before.list(),
                after: after.list(),
            },
        })
    }

    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

/// The lines of a journal; a last one that was half written is none, since its change was not made.
fn lines(text: &str) -> Vec<Line> {
    let mut all: Vec<Line> = Vec::new();
    for line in text.lines() {
        let Ok(line) = serde_json::from_str(line) else { break };
        match (line, all.last_mut()) {
            (Line::Set { value }, Some(Line::Write { set, .. })) => *set = Some(value),
            (Line::Set { .. }, _) => {}
            (line, _) => all.push(line),
        }
    }
    all
}

/// Puts back what lines tell of, the last first. What could not be put back: a line each for the user.
pub(super) fn undo(tree: &Tree, lines: &[Line]) -> Undone {
    let mut undone = Undone::default();
    for line in lines.iter().rev() {
        let told = match line {
            Line::Boot { .. } | Line::Set { .. } => continue,
            Line::Write {
                path,
                before,
                undo,
                set,
            } => write_back(tree, path, before, undo.as_deref(), set.as_deref()),
            Line::Folder { path, home } => remove_group(tree, path, home),
            Line::Affinity {
                thread,
                started,
                before,
                after,
            } => move_back(tree, *thread, *started, before, after),
        };
        match told {
            Ok(true) => undone.count += 1,
            Ok(false) => {}
            Err(why) => undone.left.push(why),
        }
    }
    undone
}

/// What came of undoing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Undone {
    /// Changes that were put back.
    pub(super) count: usize,
    /// Those that could not be, one line each.
    pub(super) left: Vec<String>,
}

fn write_back(tree: &Tree, path: &str, before: &str, undo: Option<&str>, set: Option<&str>) -> Result<bool, String> {
    let now = match tree.read(path) {
        Ok(now) => now,
        // It went with its control group, or its device.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(format!("/{path}: {}", said(&error))),
    };
    if now == before {
        return Ok(false);
    }
    if let Some(set) = set.filter(|&set| set != now) {
        return Err(format!(
            "/{path}: it was set to '{set}' and is '{now}' by now: left to whoever changed it (it was '{before}')"
        ));
    }
    let value = undo.unwrap_or(before);
    tree.write(path, value)
        .map(|()| true)
        .map_err(|error| format!("/{path}: {}: want `echo {value} > /{path}` as root", said(&error)))
}

fn remove_group(tree: &Tree, path: &str, home: &str) -> Result<bool, String> {
    if !tree.exists(path) {
        return Ok(false);
    }
    let procs = format!("{path}/cgroup.procs");
    let deadline = Instant::now() + LEAVE_LIMIT;
    loop {
        // A process that ends takes a moment to leave; one that forks has a child here.
        for process in tree.read(&procs).unwrap_or_default().split_whitespace() {
            let _ = tree.write(&format!("{home}/cgroup.procs"), process);
        }
        match tree.remove_folder(path) {
            Ok(()) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) if Instant::now() > deadline => {
                return Err(format!("/{path}: {}: want `rmdir /{path}` as root", said(&error)));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn move_back(tree: &Tree, thread: i32, since: u64, before: &str, after: &str) -> Result<bool, String> {
    // The thread itself, not another that has its number by now. `/proc/TID` is there for threads of any process.
    let stat = tree.read(&format!("proc/{thread}/stat"));
    if stat.ok().and_then(|stat| started(&stat)) != Some(since) {
        return Ok(false);
    }
    let (Ok(now), Some(before)) = (tree.affinity(thread), Cpus::of_list(before)) else {
        return Ok(false);
    };
    if now.list() != after {
        // Never moved, or moved by somebody else since.
        return Ok(false);
    }
    match tree.set_affinity(thread, &before) {
        Ok(()) => Ok(true),
        // It has ended meanwhile.
        Err(error) if error.raw_os_error() == Some(ESRCH) => Ok(false),
        Err(error) => Err(format!(
            "thread {thread}: {}: want `taskset -pc {} {thread}` as root",
            said(&error),
            before.list()
        )),
    }
}

const ESRCH: i32 = 3;

/// A journal that is being written.
#[derive(Debug)]
pub(super) struct Journal {
    tree: Tree,
    /// `None`: all of it was undone.
    entry: Option<Entry>,
    lines: Vec<Line>,
}

/// Where a host's journals lie.
fn folder(tree: &Tree) -> PathBuf {
    match tree.is_live() {
        true => private::runtime_path(),
        false => tree.path("run/mpps"),
    }
}

fn boot(tree: &Tree) -> String {
    tree.read("proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Runs of `isolate` that live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Others(pub usize);

/// How many other runs of `isolate` have changed this host and live. Two at a time would each put back what the other
/// has set.
pub fn others(tree: &Tree) -> Others {
    Others(files(&folder(tree), PREFIX).len())
}

impl Journal {
    /// # Errors
    /// When the file can't be written: nothing may be changed then.
    pub(super) fn begin(tree: &Tree) -> io::Result<Self> {
        let folder = folder(tree);
        private::folder(&folder)?;
        let id = boot(tree);
        let entry = Entry::create(&folder, PREFIX, &Line::Boot { id }.text())?;
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

    /// Undoes the lines from `first` on, which stay in the file: undoing them once more does nothing.
    pub(super) fn undo_from(&mut self, first: usize) -> Undone {
        let last = self.lines.split_off(first.min(self.lines.len()));
        undo(&self.tree, &last)
    }

    /// Undoes everything.
    pub(super) fn end(&mut self) -> Undone {
        let undone = self.undo_from(0);
        if let Some(entry) = self.entry.take() {
            entry.done();
        }
        undone
    }
}

#[cfg(test)]
impl Journal {
    /// As after a kill: the file stays, and is locked no longer.
    pub(super) fn forget(&mut self) {
        self.lines.clear();
        drop(self.entry.take());
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

/// Puts back what runs that were killed have left. A line for each run, and for each thing that stays.
pub fn mend(tree: &Tree) -> Vec<String> {
    let folder = folder(tree);
    match private::is_own_folder(&folder) {
        true => mend_in(tree, &folder),
        false => Vec::new(),
    }
}

fn mend_in(tree: &Tree, folder: &Path) -> Vec<String> {
    let mut told = Vec::new();
    for mut entry in abandoned(folder, PREFIX) {
        let lines = lines(&entry.text().unwrap_or_default());
        let here = Line::Boot { id: boot(tree) };
        if lines.first() != Some(&here) {
            entry.done();
            continue;
        }
        let undone = undo(tree, &lines);
        if undone.count > 0 {
            told.push(format!(
                "isolate: {} changes of a run that was killed are undone",
                undone.count
            ));
        }
        told.extend(
            undone
                .left
                .into_iter()
                .map(|why| format!("isolate: left by a run that was killed: {why}")),
        );
        entry.done();
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_journal_is_read_as_it_was_written_and_half_a_line_is_none() {
        let write = |set: Option<&str>| Line::Write {
            path: "a".into(),
            before: "1".into(),
            undo: None,
            set: set.map(str::to_owned),
        };
        let group = Line::Folder {
            path: "g".into(),
            home: "h".into(),
        };
        let set = Line::Set { value: "2".into() };
        let text = [write(None).text(), set.text(), group.text()].concat();
        assert_eq!(lines(&text), [write(Some("2")), group]);
        assert_eq!(lines(&text[..text.len() - 5]), [write(Some("2"))]);
    }

    proptest! {
        #[test]
        fn no_journal_makes_it_panic(text in ".{0,200}") {
            let _ = lines(&text);
        }
    }
}
