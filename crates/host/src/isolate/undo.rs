//! The recorded changes, line by line, and how each is undone.
//!
//! A line is written before its change. The value that the kernel reads back afterwards follows in a line of its own,
//! so that a value that somebody else has set since is left alone. Each line can be undone twice: the second time finds
//! everything as it was.

use super::cgroup;
use super::cpus::Cpus;
use super::heirs;
use super::plan::{Step, Undo, said, started};
use super::tree::Tree;
use serde::{Deserialize, Serialize};
use std::io;
use std::time::{Duration, Instant};

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub(super) enum Line {
    /// First line: the boot in which the journal was written. After another start nothing is left to undo.
    Boot {
        /// `/proc/sys/kernel/random/boot_id`.
        id: String,
        /// Whether undoing was already tried: the other lines are what could not be undone.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        again: bool,
    },
    /// A value is about to be written.
    Write {
        path: String,
        before: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        undo: Option<String>,
        /// Value read back after the write; in the journal it is the next line.
        #[serde(skip)]
        set: Option<String>,
    },
    /// The value that the write of the line before has set.
    Set { value: String },
    /// A control group is about to be made.
    Folder { path: String, home: String },
    /// Threads are about to be moved; their lines follow. Threads that they start from this time on, in ticks since
    /// boot, begin on the cores that they have by then.
    Threads { since: u64 },
    /// A thread is about to be moved.
    Affinity {
        thread: i32,
        started: u64,
        before: String,
        after: String,
    },
}

impl Line {
    /// Returns the line that undoes a step; `None`: the step ends with the process, or with its group.
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

    /// Returns the line in the form of the journal, followed by the value read back.
    pub(super) fn text(&self) -> String {
        let text = |line: &Self| serde_json::to_string(line).unwrap_or_default() + "\n";
        match self {
            Self::Write { set: Some(set), .. } => text(self) + &text(&Self::Set { value: set.clone() }),
            _ => text(self),
        }
    }
}

/// Parses the lines of a journal. A last line that was half written is left out, since its change was not made.
pub(super) fn lines(text: &str) -> Vec<Line> {
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

/// Counts the lines that [`lines`] does not reach, because a line before them was changed. Half a line at the end is
/// not counted, since its change was not made.
pub(super) fn unread(text: &str) -> usize {
    let is_line = |line: &&str| serde_json::from_str::<Line>(line).is_ok();
    let left = text.lines().skip_while(is_line);
    match text.ends_with('\n') {
        true => left.count(),
        false => left.count().saturating_sub(1),
    }
}

/// Result of undoing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Undone {
    /// Changes that were put back.
    pub(super) count: usize,
    /// Changes that were not put back, one line each.
    pub(super) left: Vec<String>,
    /// Lines that the host refused to undo, in order: another try may work. Values that somebody else has changed since
    /// are not among them.
    pub(super) failed: Vec<Line>,
}

impl Undone {
    /// Records the result of a line.
    fn add(&mut self, line: &Line, came: Result<bool, Left>) {
        match came {
            Ok(true) => self.count += 1,
            Ok(false) => {}
            Err(Left::Theirs(why)) => self.left.push(why),
            Err(Left::Failed(why)) => {
                self.left.push(why);
                self.failed.push(line.clone());
            }
        }
    }
}

/// Reason why a change is not undone.
#[derive(Debug)]
enum Left {
    /// Somebody else has changed the value since, or uses it: it is left to them.
    Theirs(String),
    /// The host refuses.
    Failed(String),
}

/// Undoes the changes in `lines`, the last first. A control group that something still uses is waited for, for this
/// long.
pub(super) fn undo(tree: &Tree, lines: &[Line], patience: Duration) -> Undone {
    let mut undone = Undone::default();
    for (at, line) in lines.iter().enumerate().rev() {
        let came = match line {
            Line::Boot { .. } | Line::Set { .. } => continue,
            Line::Threads { since } => {
                move_heirs_back(tree, *since, &lines[at + 1..], &mut undone);
                continue;
            }
            Line::Write {
                path, undo: Some(undo), ..
            } => take_back(tree, path, undo),
            Line::Write { path, before, set, .. } => write_back(tree, path, before, set.as_deref()),
            Line::Folder { path, home } => remove_group(tree, path, home, patience),
            Line::Affinity {
                thread,
                started,
                before,
                after,
            } => move_back(tree, *thread, *started, before, after),
        };
        undone.add(line, came);
    }
    undone.failed.reverse();
    undone
}

/// Returns the file's text; `None`: the file went with its control group, or its device.
fn value(tree: &Tree, path: &str) -> Result<Option<String>, Left> {
    match tree.read(path) {
        Ok(now) => Ok(Some(now)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Left::Failed(format!("/{path}: {}", said(&error)))),
    }
}

fn by_hand(path: &str, value: &str, error: &io::Error) -> String {
    format!("/{path}: {}: want `echo {value} > /{path}` as root", said(error))
}

fn write_back(tree: &Tree, path: &str, before: &str, set: Option<&str>) -> Result<bool, Left> {
    let Some(now) = value(tree, path)? else {
        return Ok(false);
    };
    if now == before {
        return Ok(false);
    }
    if let Some(set) = set.filter(|&set| set != now) {
        return Err(Left::Theirs(format!(
            "/{path}: it was set to '{set}' and is '{now}' by now: left to whoever changed it (it was '{before}')"
        )));
    }
    let written = tree.write(path, before).map(|()| true);
    written.map_err(|error| Left::Failed(by_hand(path, before, &error)))
}

/// Removes a word from a file that may contain other words (`-cpuset`). Words added by other programs stay.
fn take_back(tree: &Tree, path: &str, undo: &str) -> Result<bool, Left> {
    let word = undo.trim_start_matches('-');
    match value(tree, path)? {
        Some(now) if now.split_whitespace().any(|one| one == word) => {}
        _ => return Ok(false),
    }
    let used = |by: &str| Left::Theirs(format!("/{path}: {word} is used by {by} by now: left on"));
    if let Some(group) = cgroup::user(tree, path) {
        return Err(used(&format!("/{group}")));
    }
    match tree.write(path, undo) {
        Ok(()) => Ok(true),
        // A group below passes it on to groups of its own.
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Err(used("groups below")),
        Err(error) => Err(Left::Failed(by_hand(path, undo, &error))),
    }
}

fn remove_group(tree: &Tree, path: &str, home: &str, patience: Duration) -> Result<bool, Left> {
    if !tree.exists(path) {
        return Ok(false);
    }
    let procs = format!("{path}/cgroup.procs");
    let deadline = Instant::now() + patience;
    loop {
        // A process that ends takes a moment to leave; a process that forks has a child here.
        for process in tree.read(&procs).unwrap_or_default().split_whitespace() {
            let _ = tree.write(&format!("{home}/cgroup.procs"), process);
        }
        match tree.remove_folder(path) {
            Ok(()) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => {
                let why = format!("/{path}: {}: want `rmdir /{path}` as root", said(&error));
                return Err(Left::Failed(why));
            }
        }
    }
}

fn move_back(tree: &Tree, thread: i32, since: u64, before: &str, after: &str) -> Result<bool, Left> {
    // Checks that this is the thread itself, not another with its number by now. `/proc/TID` exists for threads of any
    // process.
    let stat = tree.read(&format!("proc/{thread}/stat"));
    if stat.ok().and_then(|stat| started(&stat)) != Some(since) {
        return Ok(false);
    }
    let (Ok(now), Some(before)) = (tree.affinity(thread), Cpus::of_list(before)) else {
        return Ok(false);
    };
    if now.list() != after {
        // The thread was never moved, or somebody else has moved it since.
        return Ok(false);
    }
    match tree.set_affinity(thread, &before) {
        Ok(()) => Ok(true),
        // The thread has ended meanwhile.
        Err(error) if error.raw_os_error() == Some(ESRCH) => Ok(false),
        Err(error) => Err(Left::Failed(format!(
            "thread {thread}: {}: want `taskset -pc {} {thread}` as root",
            said(&error),
            before.list()
        ))),
    }
}

const ESRCH: i32 = 3;

/// Most rounds of looking for heirs: a thread that is not back yet may start another.
const ROUNDS: usize = 10;

/// Moves back threads that moved threads have started. The moved ones are already back.
fn move_heirs_back(tree: &Tree, since: u64, moved: &[Line], undone: &mut Undone) {
    for round in 1..=ROUNDS {
        let mut found = Undone::default();
        for heir in heirs::of(tree, since, moved) {
            let Line::Affinity {
                thread,
                started,
                before,
                after,
            } = &heir
            else {
                continue;
            };
            found.add(&heir, move_back(tree, *thread, *started, before, after));
        }
        undone.count += found.count;
        if found.count == 0 || round == ROUNDS {
            undone.left.extend(found.left);
            // In the same order as all others: the last first.
            undone.failed.extend(found.failed.into_iter().rev());
            return;
        }
    }
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
        assert_eq!(lines(&text), [write(Some("2")), group.clone()]);
        assert_eq!(lines(&text[..text.len() - 5]), [write(Some("2"))]);
        assert_eq!((unread(&text), unread(&text[..text.len() - 5])), (0, 0));
        assert_eq!(unread(&text.replacen("do", "d0", 1)), 3);
        assert_eq!([write(Some("2")).text(), group.text()].concat(), text);
    }

    proptest! {
        #[test]
        fn no_journal_makes_it_panic(text in ".{0,200}") {
            let _ = (lines(&text), unread(&text));
        }
    }
}
