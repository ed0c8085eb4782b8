//! MLRsearch: one search for several goals.
//!
//! The first trial is at the highest load, the second at what came through of it. From there each goal goes through its
//! stages: out from what the coarser stage has found by steps that double until a load meets the goal and one does not,
//! then inwards. All goals read all trials; the next trial is the lowest load that any of them wants, as more goals
//! learn from it.

use crate::{Bounds, Goal, Input, Ratio, Trial, Verdict};

/// Loads that a search may try, packets per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The lowest.
    pub min: u64,
    /// The highest.
    pub max: u64,
}

/// Why there is nothing to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLimits {
    /// The highest load is not above the lowest, or that is 0.
    #[error("loads from {} to {} pps: want a lowest of 1 pps or more, and a higher one", .0.min, .0.max)]
    Empty(Limits),
    /// There is no goal.
    #[error("a search needs a goal")]
    NoGoal,
}

/// Void trials in a row after which the host is given up.
const MOST_VOID: usize = 3;

/// A search, as far as it does not depend on what its trials say.
#[derive(Clone, Debug)]
pub struct Search {
    goals: Vec<Goal>,
    limits: Limits,
    /// Effective durations after which it ends, ns.
    most_ns: u64,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// This trial.
    Trial(Input),
    /// Nothing.
    Done(End),
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All is known that can be.
    Found,
    /// The trials took as long as they may.
    OutOfTime,
    /// This host could not do what was asked of it: the last trials were void.
    Void,
}

/// What is known of a goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Between which loads the answer lies.
    pub bounds: Bounds,
    /// Packets per second that came through at the lower bound: see [`Goal::conditional_throughput`].
    pub conditional_throughput: Option<f64>,
    /// Both bounds are there, and as close as the goal asks.
    pub regular: bool,
    /// The highest load meets the goal: the device may do more.
    pub at_max: bool,
    /// The lowest load does not meet it: nothing is known of lower ones, which is not to say that there is no load.
    pub none_passes: bool,
}

/// What a stage would like to know.
struct Wish {
    input: Input,
    width: f64,
}

impl Search {
    /// A search for all of `goals` that ends after `most_ns` of effective duration.
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
        Ok(Self { goals, limits, most_ns })
    }

    /// The goals.
    pub fn goals(&self) -> &[Goal] {
        &self.goals
    }

    /// The loads that it may try.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// What `trials` say of each goal.
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

    /// What is to be done after `trials`.
    pub fn next(&self, trials: &[Trial]) -> Next {
        let void = |trial: &&Trial| trial.verdict == Verdict::Void;
        match trials.last().filter(void) {
            Some(_) if trials.iter().rev().take_while(void).count() >= MOST_VOID => return Next::Done(End::Void),
            // It has decided nothing.
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
        let spent: u64 = trials.iter().map(|trial| trial.effective_ns).sum();
        match spent >= self.most_ns {
            true => Next::Done(End::OutOfTime),
            false => Next::Trial(wish.input),
        }
    }

    /// The trial that is to bring a goal further; `None` once no trial would.
    fn wish(&self, goal: &Goal, trials: &[Trial]) -> Option<Wish> {
        let mut known = Bounds::default();
        for (number, stage) in goal.stages().iter().enumerate() {
            let bounds = Bounds::of(stage, trials);
            let coarser = (number > 0).then_some(known);
            if let Some(load) = self.load(stage, &bounds, coarser, trials) {
                return Some(Wish {
                    input: Input {
                        load,
                        duration_ns: stage.final_ns,
                    },
                    width: stage.width,
                });
            }
            known = bounds;
        }
        None
    }

    /// The load at which a stage wants to be measured, given what the coarser one before it has found; `None`: its
    /// bounds are as close as they need be, or there are none.
    fn load(&self, stage: &Goal, bounds: &Bounds, coarser: Option<Bounds>, trials: &[Trial]) -> Option<u64> {
        let Limits { min, max } = self.limits;
        match (bounds.lower, bounds.upper) {
            (Some(lower), Some(upper)) if stage.is_within(lower, upper) => return None,
            (Some(lower), None) if lower >= max => return None,
            (_, Some(upper)) if upper <= min => return None,
            _ => {}
        }
        let inside = |load: Option<u64>| load.filter(|load| bounds.contain(*load));
        let hint = coarser.unwrap_or_default();
        // Two widths or less are left by the coarser stage: its middle, as one end of it is then enough.
        if let (Some(lower), Some(upper)) = (hint.lower, hint.upper)
            && upper - lower > 1
            && parts(stage, lower, upper) <= 2
            && bounds.lower.is_none_or(|load| load <= lower)
            && bounds.upper.is_none_or(|load| load >= upper)
        {
            return Some(between(stage, lower, upper));
        }
        let load = match (bounds.lower, bounds.upper) {
            (Some(lower), Some(upper)) => inside(hint.lower)
                .or(inside(hint.upper))
                .unwrap_or_else(|| between(stage, lower, upper)),
            (None, Some(upper)) => inside(hint.lower).unwrap_or_else(|| self.below(stage, upper, hint.lower, trials)),
            (Some(lower), None) => inside(hint.upper).unwrap_or_else(|| self.above(stage, lower, hint.upper, trials)),
            (None, None) => hint.lower.or(hint.upper).unwrap_or_else(|| self.first(stage, trials)),
        };
        Some(load.clamp(min, max))
    }

    /// Where nothing is known yet: the highest load; then, as long as that is undecided, what came through of it.
    fn first(&self, stage: &Goal, trials: &[Trial]) -> u64 {
        let at_max = trials.iter().find(|trial| trial.input.load == self.limits.max);
        let through = at_max.and_then(|trial| self.through(trial, stage.loss));
        match through {
            // A load near the highest says nothing that this one does not.
            Some(load) if !stage.is_within(load, self.limits.max) => load,
            _ => self.limits.max,
        }
    }

    /// The load of which a device that forwarded as much as in `trial` would lose just what is allowed.
    fn through(&self, trial: &Trial, loss: Ratio) -> Option<u64> {
        if !trial.is_high_loss(loss)? {
            return None;
        }
        Some((trial.forwarding_rate()? / (1.0 - loss.share())) as u64)
    }

    /// A load below `upper`: what came through there, or a step down, twice that of the one before.
    fn below(&self, stage: &Goal, upper: u64, from: Option<u64>, trials: &[Trial]) -> u64 {
        let from = from.unwrap_or(self.limits.max);
        let failed = loads(trials, |load| load <= from && load < self.limits.max && load >= upper);
        let step = widths(stage.width, 1 << failed.saturating_sub(1).min(20));
        let stepped = (upper as f64 / step) as u64;
        let at_upper = trials.iter().filter(|trial| trial.input.load == upper);
        let through = at_upper.filter_map(|trial| self.through(trial, stage.loss)).min();
        // Many packets more than the device can take are no measure of what it can.
        stepped
            .min(through.unwrap_or(u64::MAX))
            .max(self.limits.min)
            .min(upper - 1)
    }

    /// A load above `lower`: a step up, twice that of the one before.
    fn above(&self, stage: &Goal, lower: u64, from: Option<u64>, trials: &[Trial]) -> u64 {
        let from = from.unwrap_or(self.limits.min);
        let passed = loads(trials, |load| load >= from && load <= lower);
        let step = widths(stage.width, 1 << passed.saturating_sub(1).min(20));
        ((lower as f64 * step) as u64).max(lower + 1).min(self.limits.max)
    }
}

/// How many loads have had trials, of those that `are` meant.
fn loads(trials: &[Trial], are: impl Fn(u64) -> bool) -> u32 {
    let mut loads: Vec<u64> = trials
        .iter()
        .map(|trial| trial.input.load)
        .filter(|&load| are(load))
        .collect();
    loads.sort_unstable();
    loads.dedup();
    loads.len() as u32
}

/// By which factor loads differ that are `number` widths apart.
fn widths(width: f64, number: u32) -> f64 {
    (1.0 - width).powi(-(number as i32))
}

/// How many widths lie between two loads, rounded up.
fn parts(stage: &Goal, lower: u64, upper: u64) -> u32 {
    let apart = (upper as f64 / lower.max(1) as f64).ln();
    (apart / -(1.0 - stage.width).ln() - 1e-6).ceil().max(1.0) as u32
}

/// A load between two, so that halving goes on without a rest: of an interval of many widths a whole number of them is
/// below it, and neither part takes more steps than half of the next power of two.
fn between(stage: &Goal, lower: u64, upper: u64) -> u64 {
    let all = parts(stage, lower, upper).max(2);
    let half = all.next_power_of_two() / 2;
    let power_below = 1 << (all / 2).ilog2();
    let part = (all - half.min(all)).max(power_below).min(all - 1);
    let share = f64::from(part) / f64::from(all);
    let load = lower as f64 * (upper as f64 / lower as f64).powf(share);
    (load.round() as u64).clamp(lower + 1, upper - 1)
}
