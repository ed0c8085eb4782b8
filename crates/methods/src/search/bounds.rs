//! Bounds: the loads between which the answer lies.

use super::{Class, Goal, Sums, Trial};
use std::collections::BTreeMap;

/// The relevant bounds of a goal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Largest load below `upper` at which the goal is met, packets per second.
    pub lower: Option<u64>,
    /// Smallest load at which the goal is not met, packets per second. A load above this that meets the goal is not
    /// believed.
    pub upper: Option<u64>,
}

impl Bounds {
    /// Returns the bounds that `trials` show.
    pub fn of(goal: &Goal, trials: &[Trial]) -> Self {
        let mut loads: BTreeMap<u64, Sums> = BTreeMap::new();
        for trial in trials {
            loads.entry(trial.input.load).or_default().add(goal, trial);
        }
        let mut bounds = Self::default();
        for (load, sums) in loads {
            match sums.class(goal) {
                Class::Lower => bounds.lower = Some(load),
                Class::Upper => {
                    bounds.upper = Some(load);
                    break;
                }
                Class::Undecided => {}
            }
        }
        bounds
    }
}
