//! MLRsearch: one search for several goals.
//!
//! The first trial is at the highest load, the second at the rate that came through in the first. From there each goal
//! goes through its stages. A stage moves outwards from the result of the coarser stage, by steps that double, until a
//! load meets the goal and one does not; then inwards. Loads lie on a grid, so that nearly equal ones are equal. All
//! goals read all trials. The next trial is at the lowest load that any goal wants, as more goals learn from it.

use super::grid::Grid;
use super::{Bounds, Class, Goal, Input, StreamLoss, Trial, Verdict};
use std::collections::BTreeSet;

/// Loads that a search may try, packets per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Lowest load.
    pub min: u64,
    /// Highest load.
    pub max: u64,
}

/// Reason why there is nothing to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLimits {
    /// The highest load is not above the lowest, or the lowest is 0.
    #[error("loads from {} to {} pps: want a lowest of 1 pps or more, and a higher one", .0.min, .0.max)]
    Empty(Limits),
    /// There is no goal.
    #[error("a search needs a goal")]
    NoGoal,
}

/// Void trials in a row after which the host is given up.
const MOST_VOID: usize = 3;

/// Settings of a search: all that does not depend on its trials.
#[derive(Clone, Debug)]
pub struct Search {
    goals: Vec<Goal>,
    limits: Limits,
    grid: Grid,
    /// Effective duration after which the search ends, ns.
    most_ns: u64,
    /// Whether the search is a binary one, as in other tools.
    halves: bool,
}

/// Next step of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Run this trial.
    Trial(Input),
    /// The search is over, for this reason.
    Done(End),
}

/// Reason why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All goals have their bounds, as far as they can be found.
    Found,
    /// The trials took as long as they may.
    OutOfTime,
    /// This host could not send as asked: the last trials were void.
    Void,
}

/// Result of a search for one goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Loads between which the answer lies.
    pub bounds: Bounds,
    /// Packets per second that came through at the lower bound: see [`Goal::conditional_throughput`].
    pub conditional_throughput: Option<f64>,
    /// Whether both bounds are known, and as close as the goal asks.
    pub regular: bool,
    /// Whether the highest load meets the goal: the device may do more.
    pub at_max: bool,
    /// Whether the lowest load fails the goal. Nothing is known of lower loads: one of them may still meet the goal.
    pub none_passes: bool,
}

/// Trial that a stage needs next.
struct Wish {
    input: Input,
    width: f64,
}

impl Search {
    /// Creates a search for all of `goals` that ends after `most_ns` of effective duration.
    ///
    /// # Errors
    /// When there is nothing to search for.
    pub fn new(goals: Vec<Goal>, limits: Limits, most_ns: u64) -> Result<Self, BadLimits> {
        if limits.min == 0 || limits.max <= limits.min {
            return Err(BadLimits::Empty(limits));
        }
        if goals.is_empty() {
            return Err(BadLimits::NoGoal);
        }
        let width = goals.iter().map(|goal| goal.width).fold(f64::INFINITY, f64::min);
        Ok(Self {
            grid: Grid::new(limits, width),
            goals,
            limits,
            most_ns,
            halves: false,
        })
    }

    /// As [`Search::new`], for one goal, with the trials of a binary search: the highest load, then the middle between
    /// the highest that has passed (0 at first) and the lowest that has failed, until the two are as close as the goal
    /// asks. One trial decides a load. A load that has passed is then confirmed by full trials, or counts as failed.
    ///
    /// # Errors
    /// As [`Search::new`].
    pub fn binary(goals: Vec<Goal>, limits: Limits, most_ns: u64) -> Result<Self, BadLimits> {
        Ok(Self {
            halves: true,
            ..Self::new(goals, limits, most_ns)?
        })
    }

    /// Returns the same search within other limits.
    ///
    /// # Errors
    /// As [`Search::new`].
    pub fn within(&self, limits: Limits) -> Result<Self, BadLimits> {
        let halves = self.halves;
        let search = Self::new(self.goals.clone(), limits, self.most_ns)?;
        Ok(Self { halves, ..search })
    }

    /// Returns the goals.
    pub fn goals(&self) -> &[Goal] {
        &self.goals
    }

    /// Returns the effective duration after which the search ends, ns.
    pub fn most_ns(&self) -> u64 {
        self.most_ns
    }

    /// Returns the loads that the search may try.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns the result for each goal after `trials`.
    pub fn results(&self, trials: &[Trial]) -> Vec<Outcome> {
        let of = |goal: &Goal| {
            let bounds = Bounds::of(goal, trials);
            let within = |(lower, upper)| goal.is_within(lower, upper);
            Outcome {
                bounds,
                conditional_throughput: bounds.lower.and_then(|load| goal.conditional_throughput(load, trials)),
                regular: bounds.lower.zip(bounds.upper).is_some_and(within),
                at_max: bounds.lower == Some(self.limits.max),
                none_passes: bounds.upper == Some(self.limits.min),
            }
        };
        self.goals.iter().map(of).collect()
    }

    /// Returns the next step after `trials`.
    pub fn next(&self, trials: &[Trial]) -> Next {
        let void = |trial: &&Trial| trial.verdict == Verdict::Void;
        match trials.last().filter(void) {
            Some(_) if trials.iter().rev().take_while(void).count() >= MOST_VOID => return Next::Done(End::Void),
            // The void trial has decided nothing.
            Some(last) => return Next::Trial(last.input),
            None => {}
        }
        let wishes = self.goals.iter().filter_map(|goal| self.wish(goal, trials));
        let least = |a: &Wish, b: &Wish| {
            let (one, other) = (a.input, b.input);
            one.load
                .cmp(&other.load)
                .then(other.duration_ns.cmp(&one.duration_ns))
                .then(b.width.total_cmp(&a.width))
        };
        let Some(wish) = wishes.min_by(least) else {
            return Next::Done(End::Found);
        };
        let spent = trials
            .iter()
            .fold(0u64, |sum, trial| sum.saturating_add(trial.effective_ns));
        match spent >= self.most_ns {
            true => Next::Done(End::OutOfTime),
            false => Next::Trial(wish.input),
        }
    }

    /// Returns the number of trials still to come, and their duration, ns. Assumes that the device goes on as it seems
    /// so far, and forwards one rate and no more.
    pub fn estimate(&self, trials: &[Trial]) -> (u32, u64) {
        /// Most trials of an estimate: beyond this number nobody wants to know more.
        const MOST: u32 = 1000;
        let Limits { min, max } = self.limits;
        let first = &self.goals[0];
        let known = Bounds::of(first, trials);
        let rates = trials.iter().filter_map(|trial| trial.forwarding_rate(first));
        let through = rates.fold(0.0, f64::max);
        let rate = match (known.lower, known.upper) {
            (Some(lower), Some(upper)) => (lower as f64 * upper as f64).sqrt(),
            (Some(lower), None) => lower as f64 * 1.01,
            _ if through > 0.0 => through,
            _ => (min as f64 * max as f64).sqrt(),
        };
        let (mut all, mut number, mut ns) = (trials.to_vec(), 0, 0);
        while let Next::Trial(input) = self.next(&all) {
            let due = (input.load as f64 * input.duration_ns as f64 / 1e9) as u64;
            let forwarded = (rate * input.duration_ns as f64 / 1e9) as u64;
            let missing = due.saturating_sub(forwarded);
            // Each stream loses the same share.
            let streams = self.goals.iter().filter_map(|goal| {
                let name = goal.stream.clone()?;
                Some(StreamLoss { name, due, missing })
            });
            all.push(Trial {
                input,
                effective_ns: input.duration_ns,
                verdict: Verdict::Counted { due, missing },
                streams: streams.collect(),
            });
            (number, ns) = (number + 1, ns + input.duration_ns);
            if number == MOST {
                break;
            }
        }
        (number, ns)
    }

    /// Returns the trial that brings a goal further; `None` once no trial would.
    fn wish(&self, goal: &Goal, trials: &[Trial]) -> Option<Wish> {
        if self.halves {
            return self.halved(goal, trials);
        }
        let mut coarser = Known::default();
        for stage in goal.stages() {
            let known = Known::of(Bounds::of(&stage, trials), &self.grid);
            if let Some(place) = self.place(&stage, known, coarser, trials) {
                return Some(Wish {
                    input: Input {
                        load: self.grid.load(place),
                        duration_ns: stage.final_ns,
                    },
                    width: stage.width,
                });
            }
            coarser = known;
        }
        None
    }

    /// Returns the next trial of a binary search.
    fn halved(&self, goal: &Goal, trials: &[Trial]) -> Option<Wish> {
        let Limits { min, max } = self.limits;
        let of = |high: bool| {
            let there = trials
                .iter()
                .filter(move |trial| trial.is_high_loss(goal) == Some(high));
            there.map(|trial| trial.input.load)
        };
        let failed = of(true).min();
        let passed = of(false)
            .filter(|load| failed.is_none_or(|failed| *load < failed))
            .max();
        let wish = |load: u64, duration_ns: u64| {
            Some(Wish {
                input: Input { load, duration_ns },
                width: goal.width,
            })
        };
        let (low, high) = match (passed, failed) {
            (None, None) => return wish(max, goal.initial_ns),
            (None, Some(high)) if high <= min => return None,
            (Some(low), None) => (low, low),
            (low, Some(high)) => (low.unwrap_or_default(), high),
        };
        if !goal.is_within(low, high) {
            return wish((low + (high - low) / 2).max(min), goal.initial_ns);
        }
        // Only one thing is missing: that the load passes for as long as it should.
        match passed {
            Some(low) if goal.class(low, trials) == Class::Lower => None,
            Some(low) => wish(low, goal.final_ns),
            None => wish(min, goal.initial_ns),
        }
    }

    /// Returns the place at which a stage wants a trial, given the result of the coarser stage before it. `None` if its
    /// bounds are as close as they need be, or if one of them is a limit of the search.
    fn place(&self, stage: &Goal, known: Known, coarser: Known, trials: &[Trial]) -> Option<u32> {
        let width = self.grid.width(stage.width);
        let inside = |place: Option<u32>| {
            place.filter(|&at| known.lower.is_none_or(|low| at > low) && known.upper.is_none_or(|high| at < high))
        };
        // The coarser stage left two widths or less: take the middle, as one end of the rest is then enough.
        if let (Some(lower), Some(upper)) = (coarser.lower, coarser.upper)
            && (2..=2 * width).contains(&(upper - lower))
            && known.lower.is_none_or(|place| place <= lower)
            && known.upper.is_none_or(|place| place >= upper)
        {
            return Some(between(lower, upper, width));
        }
        match (known.lower, known.upper) {
            (Some(lower), Some(upper)) if upper - lower <= width => None,
            (Some(lower), Some(upper)) => {
                let ends = inside(coarser.lower).or(inside(coarser.upper));
                ends.or_else(|| Some(self.inwards(stage, lower, upper, trials)))
            }
            (None, Some(0)) => None,
            (None, Some(upper)) => {
                inside(coarser.lower).or_else(|| Some(self.below(stage, upper, coarser.lower, trials)))
            }
            (Some(lower), None) if lower == self.grid.top() => None,
            (Some(lower), None) => {
                inside(coarser.upper).or_else(|| Some(self.above(stage, lower, coarser.upper, trials)))
            }
            (None, None) => coarser
                .lower
                .or(coarser.upper)
                .or_else(|| Some(self.first(stage, trials))),
        }
    }

    /// Returns the first place, while nothing is known: the highest load. If that load lost packets and does not
    /// decide, the rate that came through.
    fn first(&self, stage: &Goal, trials: &[Trial]) -> u32 {
        let at_max = trials.iter().find(|trial| trial.input.load == self.limits.max);
        at_max
            .and_then(|trial| self.through(trial, stage))
            .unwrap_or(self.grid.top())
    }

    /// Returns the place of the load at which a device that forwards as much as in `trial` would lose exactly what is
    /// allowed. `None` if `trial` lost no more than is allowed.
    fn through(&self, trial: &Trial, goal: &Goal) -> Option<u32> {
        if !trial.is_high_loss(goal)? {
            return None;
        }
        Some(
            self.grid
                .at_most(trial.forwarding_rate(goal)? / (1.0 - goal.loss.share())),
        )
    }

    /// Returns a place below `upper`: the rate that came through there, or a step down, twice the step before.
    fn below(&self, stage: &Goal, upper: u32, from: Option<u32>, trials: &[Trial]) -> u32 {
        // Start from a place where a trial passed that longer ones then did not confirm: failures above it say nothing
        // of how far down the search must go.
        let low = |trial: &&Trial| trial.is_high_loss(stage) == Some(false);
        let passed = trials
            .iter()
            .filter(low)
            .map(|trial| self.grid.at_least(trial.input.load as f64));
        let passed = passed.filter(|place| *place >= upper).min();
        let from = passed.or(from).unwrap_or(self.grid.top().saturating_sub(1));
        let failed = self.tried(trials, upper..=from);
        let step = self.grid.width(stage.width) << failed.saturating_sub(1).min(16);
        let through = self.through_at(upper, stage, trials);
        upper.saturating_sub(step).min(through.unwrap_or(u32::MAX))
    }

    /// As [`Self::through`], for the worst trial at a place.
    fn through_at(&self, place: u32, stage: &Goal, trials: &[Trial]) -> Option<u32> {
        let there = trials.iter().filter(|trial| trial.input.load == self.grid.load(place));
        there.filter_map(|trial| self.through(trial, stage)).min()
    }

    /// Returns a place above `lower`: a step up, twice the step before.
    fn above(&self, stage: &Goal, lower: u32, from: Option<u32>, trials: &[Trial]) -> u32 {
        let passed = self.tried(trials, from.unwrap_or(0)..=lower);
        let step = self.grid.width(stage.width) << passed.saturating_sub(1).min(16);
        (lower + step).min(self.grid.top())
    }

    /// Returns a place between two bounds: the middle. If the lower bound is about the rate that came through at the
    /// upper one, no more is to be expected: then a step up, if that is lower.
    fn inwards(&self, stage: &Goal, lower: u32, upper: u32, trials: &[Trial]) -> u32 {
        let width = self.grid.width(stage.width);
        let halved = between(lower, upper, width);
        // Far below that rate there is more to be found, and a trial that lost little does not show where.
        let about = |at: &u32| *at < upper && *at <= lower + width;
        match self.through_at(upper, stage, trials).filter(about) {
            Some(at) => halved.min(self.above(stage, lower, Some(at + 1), trials)),
            None => halved,
        }
    }

    /// Returns at how many of these places there were trials.
    fn tried(&self, trials: &[Trial], places: std::ops::RangeInclusive<u32>) -> u32 {
        let at = |trial: &Trial| self.grid.at_most(trial.input.load as f64);
        let tried: BTreeSet<u32> = trials.iter().map(at).filter(|at| places.contains(at)).collect();
        tried.len() as u32
    }
}

/// Bounds as places on the grid.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    lower: Option<u32>,
    upper: Option<u32>,
}

impl Known {
    fn of(bounds: Bounds, grid: &Grid) -> Self {
        Self {
            lower: bounds.lower.map(|load| grid.at_most(load as f64)),
            upper: bounds.upper.map(|load| grid.at_least(load as f64)),
        }
    }
}

/// Returns a place between two that are more than one apart. If possible it is a whole number of widths above the lower
/// one, so that halving leaves no rest, and neither part takes more steps than half of the next power of two.
fn between(lower: u32, upper: u32, width: u32) -> u32 {
    let all = (upper - lower).div_ceil(width);
    if all < 2 {
        return lower + (upper - lower) / 2;
    }
    let half = all.next_power_of_two() / 2;
    let below = (all - half).max(1 << (all / 2).ilog2());
    (lower + below * width).min(upper - 1)
}
