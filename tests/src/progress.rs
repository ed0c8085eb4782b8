//! How far a run is, by the rows that it has written.

use crate::{Scratch, wait_until};

/// Rows so far in which packets came back.
pub fn returning(scratch: &Scratch) -> usize {
    let text = std::fs::read_to_string(scratch.file("run.csv")).unwrap_or_default();
    let came_back = |row: &&str| row.split(',').nth(2).is_some_and(|rx| rx != "0");
    text.lines().skip(1).filter(came_back).count()
}

/// Rows in which every packet sent was lost.
pub fn silent(scratch: &Scratch) -> usize {
    let text = std::fs::read_to_string(scratch.file("run.csv")).unwrap_or_default();
    let lost = |row: &&str| row.split(',').nth(3).is_some_and(|ratio| ratio == "1.000000000");
    text.lines().skip(1).filter(lost).count()
}

/// Waits until there are three more than now.
///
/// # Panics
/// When they do not come in time.
pub fn wait_for_more(what: &str, count: impl Fn() -> usize) {
    let before = count();
    wait_until(what, || count() >= before + 3);
}
