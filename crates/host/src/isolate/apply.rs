//! Applies the plan.

use super::journal::Journal;
use super::plan::{Kind, Part, Plan, Step, Undo, said};
use super::tree::Tree;
use super::undo::Line;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Write};

/// A step that the host refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Object of the step: an interrupt, a sysctl.
    pub name: String,
    /// Reason of the refusal.
    pub why: String,
}

/// Outcome of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Kind of the part.
    pub part: Kind,
    /// Whether at least one of its steps is in force.
    pub applied: bool,
    /// Steps that are in force.
    pub changes: usize,
    /// Description of the effect; for a part that is not in force, the reason.
    pub told: String,
    /// Steps that the host refused.
    pub refused: Vec<Refusal>,
}

/// Result of undoing a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Changes that were undone.
    pub count: usize,
    /// One line for each change that was not undone.
    pub left: Vec<String>,
    /// Number of those changes that the host refuses to undo. They stay recorded, for another try.
    pub stay: usize,
}

/// Changes in force; undone when dropped.
#[derive(Debug)]
pub struct Applied {
    journal: Journal,
    /// Open files; closing them undoes their changes.
    held: Vec<File>,
    /// Outcome of each part, in the plan's order.
    pub outcomes: Vec<Outcome>,
    /// Paths of the `cgroup.procs` that the command joins.
    pub joins: Vec<String>,
}

impl Applied {
    /// Undoes everything.
    pub fn end(mut self) -> Restored {
        let held = self.held.drain(..).count();
        let undone = self.journal.end();
        Restored {
            count: undone.count + held,
            left: undone.left,
            stay: undone.failed.len(),
        }
    }
}

/// Applies the plan, as far as the host allows.
///
/// # Errors
/// When the journal can't be written: nothing was changed, or it was undone.
pub fn apply(tree: &Tree, plan: &Plan) -> io::Result<Applied> {
    let mut applied = Applied {
        journal: Journal::begin(tree)?,
        held: Vec::new(),
        outcomes: Vec::new(),
        joins: Vec::new(),
    };
    for part in &plan.parts {
        let outcome = applied.part(tree, part)?;
        applied.joins.extend(part.join.clone().filter(|_| outcome.applied));
        applied.outcomes.push(outcome);
    }
    Ok(applied)
}

impl Applied {
    fn part(&mut self, tree: &Tree, part: &Part) -> io::Result<Outcome> {
        let begin = self.journal.len();
        let (mut changes, mut refused) = (0, Vec::new());
        if part.kind == Kind::Threads
            && !part.steps.is_empty()
            && let Some(since) = tree.ticks()
        {
            self.journal.note(Line::Threads { since })?;
        }
        for step in &part.steps {
            match self.step(tree, step)? {
                Ok(()) => changes += 1,
                Err(refusal) => {
                    refused.push(refusal);
                    if part.whole {
                        let undone = self.journal.undo_from(begin);
                        changes = 0;
                        let left = undone.left.into_iter();
                        refused.extend(left.map(|why| Refusal {
                            name: "undo".to_owned(),
                            why,
                        }));
                        break;
                    }
                }
            }
        }
        let why = || match (&part.why_not, refused.first()) {
            (why, _) if !why.is_empty() => why.clone(),
            (_, Some(first)) => format!("{}: {}", first.name, first.why),
            (_, None) => "nothing to do".to_owned(),
        };
        Ok(Outcome {
            part: part.kind,
            applied: changes > 0,
            changes,
            told: if changes > 0 { part.what.clone() } else { why() },
            refused,
        })
    }

    /// Applies a step. The outer error comes from the journal.
    fn step(&mut self, tree: &Tree, step: &Step) -> io::Result<Result<(), Refusal>> {
        if let Some(line) = Line::of(step) {
            self.journal.note(line)?;
        }
        let refusal = |name: &str, why: String| Refusal {
            name: name.to_owned(),
            why,
        };
        Ok(match step {
            Step::Write {
                path,
                name,
                value,
                undo,
                expect,
                ..
            } => match tree.write(path, value) {
                Ok(()) => {
                    let now = tree.read(path).unwrap_or_default();
                    if *undo != Undo::Gone {
                        self.journal.set(now.clone());
                    }
                    match expect {
                        Some(wanted) if *wanted != now => {
                            Err(refusal(name, format!("the kernel answers '{now}' in /{path}")))
                        }
                        _ => Ok(()),
                    }
                }
                Err(error) => Err(refusal(name, why_not_written(path, &error))),
            },
            Step::Folder { path, .. } => {
                let made = tree.make_folder(path);
                made.map_err(|error| refusal(&format!("mkdir /{path}"), said(&error)))
            }
            Step::Hold { path } => {
                let opened = File::options().write(true).open(tree.path(path));
                // The longest wake-up time, µs, as a number of 32 bits (`admin-guide/pm/cpuidle.rst`).
                let held = opened.and_then(|mut file| file.write_all(&0i32.to_ne_bytes()).map(|()| file));
                held.map(|file| self.held.push(file))
                    .map_err(|error| refusal(&format!("/{path}"), said(&error)))
            }
            Step::Affinity {
                thread, name, after, ..
            } => match tree.set_affinity(*thread, after) {
                Err(error) if error.raw_os_error() != Some(ESRCH) => Err(refusal(name, said(&error))),
                _ => Ok(()),
            },
        })
    }
}

impl Part {
    /// Returns the steps that this process may not do, found by opening the files for writing; nothing is written. The
    /// kernel's answer to a value is known only when that is written.
    pub fn refused(&self, tree: &Tree) -> Vec<Refusal> {
        let ask = |step: &Step| {
            let (name, why) = match step {
                // The file is in a group that does not exist yet.
                Step::Write { undo: Undo::Gone, .. } | Step::Affinity { .. } => return None,
                Step::Write { path, name, .. } => (name.clone(), why_not_written(path, &tree.may_write(path).err()?)),
                Step::Folder { path, .. } => {
                    let above = path.rsplit_once('/').map_or("", |(above, _)| above);
                    (format!("mkdir /{path}"), said(&tree.may_write(above).err()?))
                }
                Step::Hold { path } => (format!("/{path}"), said(&tree.may_write(path).err()?)),
            };
            Some(Refusal { name, why })
        };
        self.steps.iter().filter_map(ask).collect()
    }
}

/// Errors of a write to the affinity of an interrupt that can't be moved; `ESRCH`: a thread has ended.
const EPERM: i32 = 1;
const EIO: i32 = 5;
const ESRCH: i32 = 3;

fn why_not_written(path: &str, error: &io::Error) -> String {
    match error.raw_os_error() {
        // The error depends on the version of the kernel. A user other than root can't even open the file (`EACCES`).
        Some(EPERM | EIO) if path.starts_with("proc/irq/") => {
            "the kernel places it by itself (managed, or a core's own)".to_owned()
        }
        _ => said(error),
    }
}

#[cfg(test)]
impl Applied {
    /// Simulates a kill.
    pub(super) fn forget(mut self) {
        self.journal.forget();
    }

    pub(super) fn journal_text(&self) -> String {
        self.journal.text()
    }
}
