//! Goals of a search.

use super::Ratio;

/// RFC 9971's Search Goal: which trials make a load a lower or an upper bound, and how close the two are to come.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// Stream, or group of streams, whose packets are counted; `None`: all packets.
    pub stream: Option<String>,
    /// Packets that may be missing, of those due.
    pub loss: Ratio,
    /// Share of the duration sum that may be of trials with more loss than `loss`.
    pub exceed: Ratio,
    /// Length of a full trial, ns.
    pub final_ns: u64,
    /// Length of the first trials, ns: at most that of a full one.
    pub initial_ns: u64,
    /// Duration of trials at one load after which they decide, ns.
    pub sum_ns: u64,
    /// How far apart the bounds may be, as a share of the upper one.
    pub width: f64,
}

/// Reason why a goal can't be searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadGoal {
    /// A duration is zero.
    #[error("a trial must take some time")]
    NoDuration,
    /// First trials are longer than full ones.
    #[error("first trials are longer than full ones")]
    InitialAboveFinal,
    /// The sum is shorter than one trial.
    #[error("the duration sum is below the length of a full trial")]
    SumBelowFinal,
    /// The width asks for no distance between the bounds, or allows any distance.
    #[error("the width must be above 0 and below 1")]
    Width,
}

const SECOND: u64 = 1_000_000_000;

impl Goal {
    /// Throughput as defined by RFC 2544: full trials of 60 s without loss.
    pub const RFC2544: Self = Self {
        stream: None,
        loss: Ratio::ZERO,
        exceed: Ratio::ZERO,
        final_ns: 60 * SECOND,
        initial_ns: 60 * SECOND,
        sum_ns: 60 * SECOND,
        width: 0.001,
    };

    /// Binary search with loss verification, as defined by ETSI's TST009.
    pub const TST009: Self = Self {
        exceed: Ratio::HALF,
        sum_ns: 120 * SECOND,
        ..Self::RFC2544
    };

    /// Returns the goal that FD.io's CSIT searches for with `loss`.
    pub fn csit(loss: Ratio) -> Self {
        Self {
            stream: None,
            loss,
            exceed: Ratio::HALF,
            final_ns: SECOND,
            initial_ns: SECOND,
            sum_ns: 21 * SECOND,
            width: 0.005,
        }
    }

    /// Checks that trials can reach the goal.
    ///
    /// # Errors
    /// When the goal can't be reached whatever the trials say.
    pub fn check(&self) -> Result<(), BadGoal> {
        if self.initial_ns == 0 || self.final_ns == 0 {
            return Err(BadGoal::NoDuration);
        }
        if self.initial_ns > self.final_ns {
            return Err(BadGoal::InitialAboveFinal);
        }
        if self.sum_ns < self.final_ns {
            return Err(BadGoal::SumBelowFinal);
        }
        if !(self.width > 0.0 && self.width < 1.0) {
            return Err(BadGoal::Width);
        }
        Ok(())
    }

    /// Returns the loss that the goal allows, in words: `loss 0.5 %`, `loss(gold) 0 %`.
    pub fn name(&self) -> String {
        match &self.stream {
            Some(stream) => format!("loss({stream}) {}", self.loss),
            None => format!("loss {}", self.loss),
        }
    }

    /// Whether two bounds are as close as the goal asks, or as close as whole packets per second can be.
    pub fn is_within(&self, lower: u64, upper: u64) -> bool {
        let apart = upper.saturating_sub(lower);
        apart as f64 <= self.width * upper as f64 + 1.0
    }

    /// Returns the goals on the way to this one, from coarse to the goal itself: with shorter sums, and wider by
    /// factors of two. They rule out most of the range in a fraction of the time.
    pub(crate) fn stages(&self) -> Vec<Self> {
        /// Number of stages before the goal itself, if its trials are shorter than the duration sum.
        const BEFORE: i32 = 2;
        let (first, last) = (self.initial_ns as f64, self.sum_ns as f64);
        let mut stages = Vec::new();
        for back in (1..=BEFORE).rev() {
            let sum = last * (first / last).powf(f64::from(back) / f64::from(BEFORE));
            let sum_ns = (sum as u64).max(self.initial_ns);
            stages.push(Self {
                final_ns: self.final_ns.min(sum_ns),
                sum_ns,
                width: (self.width * f64::from(1 << back)).min(0.5),
                ..self.clone()
            });
        }
        stages.push(self.clone());
        // If one trial is all that the goal takes, earlier stages gain nothing.
        stages.dedup_by_key(|stage| (stage.final_ns, stage.sum_ns));
        if let Some(last) = stages.last_mut() {
            last.width = self.width;
        }
        stages
    }
}
