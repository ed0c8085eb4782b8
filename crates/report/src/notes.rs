//! Notes from writers on other threads, each shown once, and the reasons why a file is not complete.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A board that writers put notes on and the live view reads; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Notes(Arc<Mutex<Board>>);

#[derive(Debug, Default)]
struct Board {
    notes: Vec<String>,
    unwritten: Vec<String>,
}

impl Notes {
    /// Returns an empty board.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a note, unless the same note is already there.
    pub fn tell(&self, note: impl Into<String>) {
        let note = note.into();
        let notes = &mut self.board().notes;
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// Records that something is not in the file that the run was asked to write, and why.
    pub(crate) fn not_written(&self, why: impl Into<String>) {
        self.board().unwritten.push(why.into());
    }

    /// Returns the reasons why a file is not complete, once it is finished: the run has not done what it was asked for.
    pub fn unwritten(&self) -> Vec<String> {
        self.board().unwritten.clone()
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the notes that the caller has not seen yet, and updates the caller's number of seen notes.
    pub(crate) fn from(&self, told: &mut usize) -> Vec<String> {
        let notes = &self.board().notes;
        let new = notes[(*told).min(notes.len())..].to_vec();
        *told = notes.len();
        new
    }

    /// Returns all notes so far, oldest first.
    pub fn all(&self) -> Vec<String> {
        self.board().notes.clone()
    }
}
