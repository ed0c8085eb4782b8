//! The board that publishes the newest state. The collector never waits for a reader, and readers hold a lock only for
//! as long as it takes to copy a pointer.

use crate::history::{History, Point};
use crate::state::State;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// The newest state and the history of a run, for every reader; clones share it.
#[derive(Clone, Default)]
pub struct Board(Arc<Inner>);

#[derive(Default)]
struct Inner {
    newest: Mutex<Arc<State>>,
    history: Mutex<History>,
    /// Number of publications so far.
    version: AtomicU64,
}

fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl Board {
    /// Returns the newest state.
    pub fn newest(&self) -> Arc<State> {
        Arc::clone(&self.0.newest.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a number that changes with each publication.
    pub fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    /// Publishes a state, unless a reader holds the lock just now: the next state comes soon. Returns whether it was
    /// published.
    pub(crate) fn try_publish(&self, state: &State) -> bool {
        let state = Arc::new(state.clone());
        let Some(mut newest) = try_lock(&self.0.newest) else {
            return false;
        };
        // The last reference may be this one: its state is freed after the lock is released.
        let before = std::mem::replace(&mut *newest, state);
        drop(newest);
        drop(before);
        self.0.version.fetch_add(1, Ordering::Release);
        true
    }

    /// Publishes a state, and waits for the lock if necessary: at the beginning and end of a run, and between trials.
    pub(crate) fn publish(&self, state: &State) {
        let state = Arc::new(state.clone());
        *self.0.newest.lock().unwrap_or_else(PoisonError::into_inner) = state;
        self.0.version.fetch_add(1, Ordering::Release);
    }

    /// Adds points to the history, unless a reader holds the lock just now; the points then stay in `points`.
    pub(crate) fn try_add(&self, points: &mut Vec<Point>) {
        if let Some(mut history) = try_lock(&self.0.history) {
            points.drain(..).for_each(|point| history.push(point));
        }
    }

    /// Adds points like [`Board::try_add`], but waits for the lock; used when no lane can be held up.
    pub(crate) fn add(&self, points: &mut Vec<Point>) {
        let mut history = self.0.history.lock().unwrap_or_else(PoisonError::into_inner);
        points.drain(..).for_each(|point| history.push(point));
    }

    /// Returns the points of the history with rows after this one, the oldest first.
    pub(crate) fn points_after(&self, row: Option<u64>) -> Vec<Point> {
        let history = self.0.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.after(row)
    }
}

#[cfg(test)]
impl Board {
    /// Holds both locks, like a reader that is kept from running while it reads.
    pub(crate) fn hold(&self) -> (MutexGuard<'_, Arc<State>>, MutexGuard<'_, History>) {
        (
            self.0.newest.lock().unwrap_or_else(PoisonError::into_inner),
            self.0.history.lock().unwrap_or_else(PoisonError::into_inner),
        )
    }
}
