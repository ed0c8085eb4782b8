//! Input and outcome of a trial.

use super::Ratio;

/// Input of the next trial: RFC 9971's Trial Input. All else is the same for all trials of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// Packets per second over all lanes, one way.
    pub load: u64,
    /// Sending time, ns.
    pub duration_ns: u64,
}

/// Outcome of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The numbers of the trial hold.
    Counted {
        /// Packets that the device under test was to forward: all packets of the schedule, including those that it did
        /// not take.
        due: u64,
        /// Part of these packets that has not come back in time.
        missing: u64,
    },
    /// This host was at fault, and the numbers say nothing about the device.
    Void,
}

/// A trial that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Input of the trial.
    pub input: Input,
    /// Time that the trial adds to the duration sums, ns: RFC 9971's effective duration.
    pub effective_ns: u64,
    /// Outcome of the trial.
    pub verdict: Verdict,
}

impl Trial {
    /// Returns the share that is missing; `None` for a void trial.
    pub fn loss(&self) -> Option<f64> {
        match self.verdict {
            Verdict::Counted { due, missing } => Some(missing as f64 / due.max(1) as f64),
            Verdict::Void => None,
        }
    }

    /// Returns the packets per second that were forwarded: the load less what is missing; `None` for a void trial.
    pub fn forwarding_rate(&self) -> Option<f64> {
        self.loss().map(|loss| self.input.load as f64 * (1.0 - loss))
    }

    /// Whether more is missing than `goal` allows; `None` for a void trial.
    pub fn is_high_loss(&self, goal: Ratio) -> Option<bool> {
        match self.verdict {
            Verdict::Counted { due, missing } => Some(goal.is_exceeded(missing, due)),
            Verdict::Void => None,
        }
    }
}
