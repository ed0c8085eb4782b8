//! Class of a load by the trials at that load.

use super::{Goal, Trial};

/// Class of a load for a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The device meets the goal at this load, whatever further trials would say.
    Lower,
    /// The device does not meet the goal at this load, whatever further trials would say.
    Upper,
    /// More trials are needed to decide.
    Undecided,
}

/// Durations of the trials at one load, ns, by their result for a goal (RFC 9971, Appendix A).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Full-length trials with more loss than the goal allows.
    pub full_high: u64,
    /// Full-length trials with no more loss.
    pub full_low: u64,
    /// Shorter trials with more loss.
    pub short_high: u64,
    /// Shorter trials with no more loss.
    pub short_low: u64,
}

impl Sums {
    /// Returns the sums of the trials at `load`.
    pub fn of(goal: &Goal, load: u64, trials: &[Trial]) -> Self {
        let mut sums = Self::default();
        for trial in trials.iter().filter(|trial| trial.input.load == load) {
            sums.add(goal, trial);
        }
        sums
    }

    /// Adds a trial at the same load.
    pub(crate) fn add(&mut self, goal: &Goal, trial: &Trial) {
        let Some(high) = trial.is_high_loss(goal) else {
            return;
        };
        let sum = match (trial.input.duration_ns < goal.final_ns, high) {
            (false, true) => &mut self.full_high,
            (false, false) => &mut self.full_low,
            (true, true) => &mut self.short_high,
            (true, false) => &mut self.short_low,
        };
        *sum = sum.saturating_add(trial.effective_ns);
    }

    /// Returns the class of the load. The load is a bound if the class is the same in two cases: all that is missing
    /// from the duration sum goes well, and all of it goes badly.
    pub fn class(&self, goal: &Goal) -> Class {
        // Both sides are multiplied by what is left of one beside the exceed ratio, so that nothing is divided.
        let [full_high, full_low, short_high, short_low, sum] = [
            self.full_high,
            self.full_low,
            self.short_high,
            self.short_low,
            goal.sum_ns,
        ]
        .map(u128::from);
        let (exceed, rest) = (goal.exceed.part(), goal.exceed.rest());
        // Short trials can only count against a load: good ones make up for bad ones, and for no more.
        let against = (short_high * rest).saturating_sub(short_low * exceed);
        let high = full_high * rest + against;
        let whole = (full_low * rest + high).max(sum * rest);
        let one = super::Ratio::whole();
        // Both sides are below 2^64 ns times 2^30 times 2^30.
        let if_well = high * one <= whole * exceed;
        let if_badly = (whole - full_low * rest) * one <= whole * exceed;
        match (if_well, if_badly) {
            (true, true) => Class::Lower,
            (false, false) => Class::Upper,
            _ => Class::Undecided,
        }
    }
}

impl Goal {
    /// Returns the class of `load` by `trials`.
    pub fn class(&self, load: u64, trials: &[Trial]) -> Class {
        Sums::of(self, load, trials).class(self)
    }

    /// Returns RFC 9971's conditional throughput at a load, packets per second: the rate forwarded in the worst of the
    /// trials that the goal does not excuse. `None` if the trials are too few.
    pub fn conditional_throughput(&self, load: u64, trials: &[Trial]) -> Option<f64> {
        let full = |trial: &&Trial| trial.input.load == load && trial.input.duration_ns >= self.final_ns;
        let mut losses: Vec<_> = trials
            .iter()
            .filter(full)
            .filter_map(|trial| Some((trial.loss(self)?, u128::from(trial.effective_ns))))
            .collect();
        losses.sort_by(|a, b| a.0.total_cmp(&b.0));
        let sum: u128 = losses.iter().map(|(_, ns)| ns).sum();
        let mut remaining = (sum.max(u128::from(self.sum_ns)) * self.exceed.rest()) as i128;
        let mut worst = None;
        for (loss, ns) in losses {
            if remaining <= 0 && worst.is_some() {
                break;
            }
            worst = Some(loss);
            remaining -= (ns * super::Ratio::whole()) as i128;
        }
        worst.filter(|_| remaining <= 0).map(|loss| load as f64 * (1.0 - loss))
    }
}
