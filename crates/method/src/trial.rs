//! What a trial is asked for, and what has come of it.

use crate::Ratio;

/// What the next trial is to be: RFC 9971's Trial Input. All else is the same for all trials of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// Packets per second over all lanes, one way.
    pub load: u64,
    /// How long to send, ns.
    pub duration_ns: u64,
}

/// What came of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its numbers hold.
    Counted {
        /// Packets that the device under test was to forward: those of the schedule, also those that it did not take.
        due: u64,
        /// Of these, those that have not come back in time.
        missing: u64,
    },
    /// This host was at fault, and the numbers say nothing about the device.
    Void,
}

/// A trial that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// What was asked for.
    pub input: Input,
    /// By how much it adds to the duration sums, ns: RFC 9971's effective duration.
    pub effective_ns: u64,
    /// What came of it.
    pub verdict: Verdict,
}

impl Trial {
    /// Share that is missing; `None` of a void trial.
    pub fn loss(&self) -> Option<f64> {
        match self.verdict {
            Verdict::Counted { due, missing } => Some(missing as f64 / due.max(1) as f64),
            Verdict::Void => None,
        }
    }

    /// Packets per second that were forwarded: the load less what is missing; `None` of a void trial.
    pub fn forwarding_rate(&self) -> Option<f64> {
        self.loss().map(|loss| self.input.load as f64 * (1.0 - loss))
    }

    /// Whether more is missing than `goal` allows; `None` of a void trial.
    pub fn is_high_loss(&self, goal: Ratio) -> Option<bool> {
        match self.verdict {
            Verdict::Counted { due, missing } => Some(goal.is_exceeded(missing, due)),
            Verdict::Void => None,
        }
    }
}
