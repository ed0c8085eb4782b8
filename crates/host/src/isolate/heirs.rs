//! Threads that a moved thread has started: they begin on the cores that it was moved to, and no journal records them.
//!
//! With `--move-threads` these are all threads that a host starts during the run: shells, the children of an SSH
//! server. A thread that has itself chosen exactly these cores can't be distinguished from them, and is moved as well.

use super::plan::{is_bound, started};
use super::tree::Tree;
use super::undo::Line;
use std::collections::HashMap;

/// Most ancestors of a process that are examined.
const ANCESTORS: usize = 64;

/// Cores of a moved thread, as lists, and when it was started.
struct Moved<'a> {
    started: u64,
    before: &'a str,
    after: &'a str,
}

/// Returns a line for each thread that was started from `since` on, in ticks since boot, and may run where one of
/// `moved` was moved to. The thread gets the cores that its nearest moved ancestor had before.
pub(super) fn of(tree: &Tree, since: u64, moved: &[Line]) -> Vec<Line> {
    let mut known: HashMap<i32, Moved> = HashMap::new();
    let mut of_after: HashMap<&str, &str> = HashMap::new();
    for line in moved {
        if let Line::Affinity {
            thread,
            started,
            before,
            after,
        } = line
        {
            let started = *started;
            known.insert(*thread, Moved { started, before, after });
            // The first one is the host's first process, or a kernel thread: those have no cores of their own.
            of_after.entry(after).or_insert(before);
        }
    }
    let mut heirs = Vec::new();
    if known.is_empty() {
        return heirs;
    }
    let own = std::process::id().to_string();
    for process in tree.folders("proc") {
        let Ok(number) = process.parse::<i32>() else { continue };
        if tree.is_live() && process == own {
            continue;
        }
        for name in tree.folders(&format!("proc/{process}/task")) {
            let Ok(thread) = name.parse() else { continue };
            let stat = tree
                .read(&format!("proc/{process}/task/{name}/stat"))
                .unwrap_or_default();
            let Some(began) = started(&stat).filter(|&began| began >= since && !is_bound(&stat)) else {
                continue;
            };
            // The thread was moved itself: another line records it.
            if known.get(&thread).is_some_and(|moved| moved.started == began) {
                continue;
            }
            let Ok(now) = tree.affinity(thread) else { continue };
            let after = now.list();
            let before = inherited(tree, number, &after, &known).or_else(|| of_after.get(after.as_str()).copied());
            if let Some(before) = before.map(str::to_owned) {
                heirs.push(Line::Affinity {
                    thread,
                    started: began,
                    before,
                    after,
                });
            }
        }
    }
    heirs
}

/// Returns the earlier cores of the nearest one of a process and its ancestors that was moved to these cores.
fn inherited<'a>(tree: &Tree, process: i32, after: &str, known: &HashMap<i32, Moved<'a>>) -> Option<&'a str> {
    let mut at = process;
    for _ in 0..ANCESTORS {
        if let Some(moved) = known.get(&at).filter(|moved| moved.after == after) {
            return Some(moved.before);
        }
        // Parent of the process: field 4, behind the name in brackets.
        let stat = tree.read(&format!("proc/{at}/stat")).ok()?;
        at = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
    }
    None
}
