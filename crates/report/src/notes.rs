//! Notes: what a writer on another thread has to tell the reader, each told once.

use std::sync::{Arc, Mutex, PoisonError};

/// A board that writers put notes on and the live view reads; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    /// An empty board.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts up a note; a note that is already there is not repeated.
    pub fn tell(&self, note: impl Into<String>) {
        let note = note.into();
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// The notes that have come since `told` were told, which is raised.
    pub(crate) fn from(&self, told: &mut usize) -> Vec<String> {
        let notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = notes[(*told).min(notes.len())..].to_vec();
        *told = notes.len();
        new
    }

    /// All notes so far, oldest first.
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
