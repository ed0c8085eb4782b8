//! Where the newest state is published: the collector never waits for a reader, and readers hold no lock but for as
//! long as it takes to take a pointer.

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
    /// Raised when there is something new.
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
    /// The newest state.
    pub fn newest(&self) -> Arc<State> {
        Arc::clone(&self.0.newest.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes with what is published.
    pub fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    /// Publishes a state, unless a reader is at it just now: the next one is not far.
    pub(crate) fn try_publish(&self, state: &State) -> bool {
        let state = Arc::new(state.clone());
        let Some(mut newest) = try_lock(&self.0.newest) else {
            return false;
        };
        // The last reference may be this one: what it holds is freed after the lock is given back.
        let before = std::mem::replace(&mut *newest, state);
        drop(newest);
        drop(before);
        self.0.version.fetch_add(1, Ordering::Release);
        true
    }

    /// Publishes a state, and waits until it can: at the beginning and end of a run, and between trials.
    pub(crate) fn publish(&self, state: &State) {
        let state = Arc::new(state.clone());
        *self.0.newest.lock().unwrap_or_else(PoisonError::into_inner) = state;
        self.0.version.fetch_add(1, Ordering::Release);
    }

    /// Adds points to the history, unless a reader is at it just now; they then stay where they are.
    pub(crate) fn try_add(&self, points: &mut Vec<Point>) {
        if let Some(mut history) = try_lock(&self.0.history) {
            points.drain(..).for_each(|point| history.push(point));
        }
    }

    /// As [`Board::try_add`], once nothing can be held up.
    pub(crate) fn add(&self, points: &mut Vec<Point>) {
        let mut history = self.0.history.lock().unwrap_or_else(PoisonError::into_inner);
        points.drain(..).for_each(|point| history.push(point));
    }

    /// The points of the history that hold rows after this one, the oldest first.
    pub(crate) fn points_after(&self, row: Option<u64>) -> Vec<Point> {
        let history = self.0.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.after(row)
    }
}

#[cfg(test)]
impl Board {
    /// As a reader that is kept from running while it reads.
    pub(crate) fn hold(&self) -> (MutexGuard<'_, Arc<State>>, MutexGuard<'_, History>) {
        (
            self.0.newest.lock().unwrap_or_else(PoisonError::into_inner),
            self.0.history.lock().unwrap_or_else(PoisonError::into_inner),
        )
    }
}
