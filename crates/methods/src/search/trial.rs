//! Input and outcome of a trial.

use super::Goal;

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

/// Packets of a stream, or of a group of streams, in a trial that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamLoss {
    /// Name of the stream or group.
    pub name: String,
    /// Its packets that were due, as [`Verdict::Counted`] has them.
    pub due: u64,
    /// Part of these packets that has not come back in time.
    pub missing: u64,
}

/// A trial that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Input of the trial.
    pub input: Input,
    /// Time that the trial adds to the duration sums, ns: RFC 9971's effective duration.
    pub effective_ns: u64,
    /// Outcome of the trial.
    pub verdict: Verdict,
    /// Loss of the streams and groups that goals name.
    pub streams: Vec<StreamLoss>,
}

impl Trial {
    /// Returns the packets that a goal is about, and those of them that are missing; `None` for a void trial, and if
    /// the goal's stream was not counted.
    fn counts(&self, goal: &Goal) -> Option<(u64, u64)> {
        match (self.verdict, &goal.stream) {
            (Verdict::Void, _) => None,
            (Verdict::Counted { due, missing }, None) => Some((due, missing)),
            (Verdict::Counted { .. }, Some(name)) => {
                let of = self.streams.iter().find(|of| of.name == *name)?;
                Some((of.due, of.missing))
            }
        }
    }

    /// Returns the share that is missing of the packets that a goal is about; `None` for a void trial.
    pub fn loss(&self, goal: &Goal) -> Option<f64> {
        let (due, missing) = self.counts(goal)?;
        Some(missing as f64 / due.max(1) as f64)
    }

    /// Returns the packets per second that were forwarded: the load less the share that is missing; `None` for a void
    /// trial.
    pub fn forwarding_rate(&self, goal: &Goal) -> Option<f64> {
        self.loss(goal).map(|loss| self.input.load as f64 * (1.0 - loss))
    }

    /// Whether more is missing than `goal` allows; `None` for a void trial.
    pub fn is_high_loss(&self, goal: &Goal) -> Option<bool> {
        let (due, missing) = self.counts(goal)?;
        Some(goal.loss.is_exceeded(missing, due))
    }
}
