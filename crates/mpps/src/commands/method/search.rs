//! A search for the highest rates at which no more than so many packets are lost, at one frame size.

use super::bench::Bench;
use super::limits::{LimitedBy, OF_CEILING};
use super::measure::{Ask, Measured, Phase};
use super::{Step, Stop};
use crate::fail::usage;
use mpps_method::{End, Limits, Next, Outcome, Search, Trial, Verdict};

/// A search as far as it has come.
pub(crate) struct Found {
    pub(crate) frame_size: usize,
    pub(crate) limited_by: LimitedBy,
    pub(crate) search: Search,
    pub(crate) trials: Vec<Measured>,
    /// Void trials before this place count no more: they were an earlier command's, or at a highest rate that was given
    /// up.
    forgiven: usize,
}

impl Found {
    pub(crate) fn new(frame_size: usize, search: Search, limited_by: LimitedBy) -> Self {
        Self {
            frame_size,
            limited_by,
            search,
            trials: Vec::new(),
            forgiven: 0,
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.search.limits()
    }

    /// What the search goes by.
    pub(crate) fn trials(&self) -> Vec<Trial> {
        let all = self.trials.iter().map(|measured| measured.trial).enumerate();
        all.filter(|(at, trial)| *at >= self.forgiven || trial.verdict != Verdict::Void)
            .map(|(_, trial)| trial)
            .collect()
    }

    /// What they say of each goal.
    pub(crate) fn outcomes(&self) -> Vec<Outcome> {
        self.search.results(&self.trials())
    }

    /// The lowest rate that was really sent at a load, packets per second.
    pub(crate) fn offered_at(&self, load: u64) -> f64 {
        let counted = self.trials.iter().filter(|trial| trial.counts());
        let there = counted.filter(|trial| trial.trial.input.load == load);
        there.map(|trial| trial.offered_pps).fold(f64::INFINITY, f64::min)
    }

    /// The highest load at which nothing was lost, packets per second, and in how many seconds of trials.
    pub(crate) fn best_so_far(&self) -> Option<(u64, f64)> {
        let clean = self.trials.iter().filter(|told| told.counts() && told.loss().1 == 0);
        let load = clean.clone().map(|told| told.trial.input.load).max()?;
        let there = clean.filter(|told| told.trial.input.load == load);
        let ns: u64 = there.map(|told| told.trial.effective_ns).sum();
        Some((load, ns as f64 / 1e9))
    }

    /// The last trials, as far as they were void one after another.
    fn void_at_last(&self) -> &[Measured] {
        let first = self.trials.iter().rposition(Measured::counts).map_or(0, |at| at + 1);
        &self.trials[first.max(self.forgiven.min(self.trials.len()))..]
    }

    /// After void trials at the highest rate, which is this host's own limit: a lower one, by what was reached. False
    /// where that is not so, or there is no lower one.
    fn lower_max(&mut self) -> bool {
        let (void, limits) = (self.void_at_last(), self.limits());
        if !void
            .iter()
            .all(|trial| trial.outpaced && trial.trial.input.load == limits.max)
        {
            return false;
        }
        let reached = void
            .iter()
            .map(|trial| trial.offered_pps)
            .fold(limits.max as f64, f64::min);
        let max = (reached * OF_CEILING) as u64;
        let Ok(search) = self.search.within(Limits { max, ..limits }) else {
            return false;
        };
        (self.search, self.limited_by) = (search, LimitedBy::Generator);
        self.forgiven = self.trials.len();
        true
    }

    /// Goes through the trials; `tell` is called after each.
    pub(crate) fn go(&mut self, bench: &mut Bench<'_, '_>, tell: &mut dyn FnMut(&Bench<'_, '_>, &Self)) -> Step<()> {
        loop {
            let trials = self.trials();
            let input = match self.search.next(&trials) {
                Next::Trial(input) => input,
                Next::Done(End::Found) => return Ok(()),
                Next::Done(End::OutOfTime) => return Err(Stop::OutOfTime),
                // The highest rate can't be kept up after all.
                Next::Done(End::Void) if self.lower_max() => continue,
                Next::Done(End::Void) if bench.replayed() => {
                    self.forgiven = self.trials.len();
                    continue;
                }
                Next::Done(End::Void) => {
                    let last = self.trials.last().map(|last| last.reasons.join("; "));
                    return Err(Stop::Void(last.unwrap_or_default()));
                }
            };
            let measured = bench.trial(&Ask::of(Phase::Search, self.frame_size, input))?.clone();
            self.trials.push(measured);
            tell(bench, self);
            bench.check_answers()?;
        }
    }
}

/// A wrong limit as a wrong argument.
pub(crate) fn search_of(goals: Vec<mpps_method::Goal>, limits: Limits, most_ns: u64, binary: bool) -> Step<Search> {
    let search = match binary {
        true => Search::binary(goals, limits, most_ns),
        false => Search::new(goals, limits, most_ns),
    };
    search.map_err(|e| Stop::Failed(usage(e)))
}
