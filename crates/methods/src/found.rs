//! A search for the highest rates at which no more than so many packets are lost, at one frame size.

use crate::bench::{Bench, MOST_VOID};
use crate::limits::{LimitedBy, OF_CEILING};
use crate::measure::{Ask, Measured, Phase};
use crate::search::{End, Limits, Next, Outcome, Search, Trial, Verdict};
use crate::setup::{Step, Stop};
use mpps_run::fail::usage;
use mpps_stats::{KeptOffBy, count};
use std::time::Duration;

/// Highest rate tried after a rate at which this host was disturbed three times in a row, as a share of that rate. A
/// lane that has time to spare catches up after a disturbance that ends a trial at the limit.
const LOWER: f64 = 0.8;
/// Rates that are given up one after another, with no trial between them that held, before the disturbance is taken
/// not to depend on the rate: the highest one, and the two below it that were tried to find that out.
const MOST_GIVEN_UP: usize = 3;

/// State of a search so far.
pub(crate) struct Found {
    pub(crate) frame_size: usize,
    /// Frames sent back to back, if not as the options have it.
    pub(crate) burst: Option<u32>,
    pub(crate) limited_by: LimitedBy,
    pub(crate) search: Search,
    pub(crate) trials: Vec<Measured>,
    /// Their numbers among all trials of the test, from 1.
    pub(crate) numbers: Vec<usize>,
    /// Void trials before this place count no more: they were an earlier command's, or at a highest rate that was given
    /// up.
    forgiven: usize,
    /// Highest rate before a disturbance lowered it, and what that rate is limited by.
    undisturbed: Option<(Limits, LimitedBy)>,
    /// A trial has held at a lowered rate, and the rate before it has had another try.
    tried_again: bool,
}

impl Found {
    pub(crate) fn new(frame_size: usize, search: Search, limited_by: LimitedBy) -> Self {
        Self {
            frame_size,
            burst: None,
            limited_by,
            search,
            trials: Vec::new(),
            numbers: Vec::new(),
            forgiven: 0,
            undisturbed: None,
            tried_again: false,
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.search.limits()
    }

    /// Returns the trials that the search uses: all but the void ones that are forgiven.
    pub(crate) fn trials(&self) -> Vec<Trial> {
        let all = self.trials.iter().map(|measured| &measured.trial).enumerate();
        all.filter(|(at, trial)| *at >= self.forgiven || trial.verdict != Verdict::Void)
            .map(|(_, trial)| trial.clone())
            .collect()
    }

    /// Returns the outcome of each goal, computed from `trials()`.
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

    /// Returns the void trials at the end that are not forgiven.
    fn void_at_last(&self) -> &[Measured] {
        let first = self.trials.iter().rposition(Measured::counts).map_or(0, |at| at + 1);
        &self.trials[first.max(self.forgiven.min(self.trials.len()))..]
    }

    /// After void trials at a rate, a lower one as the highest: by what was reached where that rate is this host's own
    /// limit, else a step down, since a disturbance may do no harm there. Where a rate above that has passed already,
    /// one between it and the void one is left to try, until they are as close as the goal asks. What is known above
    /// the highest rate stays known. False where no goal has a lower rate left, or where trials are void at lower rates
    /// as well: the disturbance does not depend on the rate then, and the highest rate is again what it was.
    fn lower_max(&mut self) -> bool {
        let (void, limits) = (self.void_at_last(), self.limits());
        let outpaced = void.iter().all(|trial| trial.outpaced);
        let load = void.last().map_or(limits.max, |trial| trial.trial.input.load);
        let reached = void.iter().map(|trial| trial.offered_pps).fold(load as f64, f64::min);
        let in_vain = !outpaced && self.given_up() >= MOST_GIVEN_UP;
        // A device that lets a small part through has its limit far below. This host may offer that undisturbed.
        let back = void.iter().map(|trial| trial.received_pps).fold(0.0, f64::max);
        let far_below = in_vain && (back * 2.0) as u64 > limits.min && back * 4.0 < load as f64;
        let step = match outpaced {
            true => (reached * OF_CEILING) as u64,
            false if far_below => (back * 2.0) as u64,
            false => (load as f64 * LOWER.powi(self.given_up() as i32)) as u64,
        };
        // Highest rate wanted for each goal. A goal that passed at the void rate or above asks for none below.
        let outcomes = self.outcomes();
        let wants = self.search.goals().iter().zip(&outcomes).filter_map(|(goal, outcome)| {
            let passed = outcome.bounds.lower.unwrap_or(0);
            let max = match far_below {
                true => step.max(passed),
                false => step.max(passed + load.saturating_sub(passed) / 2),
            };
            let hopeless = in_vain && passed == 0 && !far_below;
            let known = outcome.regular || goal.is_within(passed, load);
            (passed < load && !hopeless && !known).then_some(max)
        });
        let Some(max) = wants.max().filter(|max| *max < limits.max) else {
            if in_vain && outcomes.iter().all(|outcome| outcome.bounds.lower.is_none()) {
                self.raise_max();
            }
            return false;
        };
        let Ok(search) = self.search.within(Limits { max, ..limits }) else {
            return false;
        };
        self.search = search;
        if !outpaced && self.undisturbed.is_none() {
            self.undisturbed = Some((limits, self.limited_by));
        }
        // Once others were in the way, what is found is less than it might be.
        if self.limited_by != LimitedBy::Host {
            self.limited_by = if outpaced {
                LimitedBy::Generator
            } else {
                LimitedBy::Host
            };
        }
        self.forgiven = self.trials.len();
        true
    }

    /// Makes the highest rate what it was before a disturbance lowered it. Returns false if none has.
    fn raise_max(&mut self) -> bool {
        let Some((limits, limited_by)) = self.undisturbed.take() else {
            return false;
        };
        let Ok(search) = self.search.within(limits) else {
            return false;
        };
        (self.search, self.limited_by) = (search, limited_by);
        self.forgiven = self.trials.len();
        true
    }

    /// After a trial that held at a lowered highest rate, the rate before it is tried once more. The disturbance may be
    /// over; if it is not, it depends on the rate.
    fn try_again(&mut self) -> bool {
        let held = self
            .trials
            .last()
            .is_some_and(|trial| trial.counts() && trial.trial.input.load == self.limits().max && trial.loss().1 == 0);
        if !held || self.tried_again || self.undisturbed.is_none() {
            return false;
        }
        self.tried_again = true;
        self.raise_max()
    }

    /// Returns how often a highest rate has been given up since a trial last held, this time included.
    fn given_up(&self) -> usize {
        let void = self.trials.iter().rev().take_while(|trial| !trial.counts()).count();
        (void / MOST_VOID).max(1)
    }

    /// Returns a sentence on how this host limited the result; `None` if each goal's answer is the device's.
    pub(crate) fn hindered(&self) -> Option<String> {
        let ended = self.trials.iter().rev().take_while(|trial| !trial.counts()).count() >= MOST_VOID;
        let open = |outcome: &Outcome| outcome.bounds.upper.is_none() && !outcome.regular;
        if !(self.limited_by == LimitedBy::Host || ended) || !self.outcomes().iter().any(open) {
            return None;
        }
        let loads = |counts: bool| {
            let trials = self.trials.iter().filter(move |trial| trial.counts() == counts);
            trials.map(|trial| trial.trial.input.load)
        };
        let last = self.evidence()?;
        let above = Some(last.trial.input.load) > loads(true).max();
        let why = format!("{} (at {} pps)", last.disturbance(), count(last.trial.input.load));
        Some(match (loads(true).max(), loads(false).max(), loads(false).min()) {
            (Some(most), ..) if above => format!(
                "this host could not offer more than {} pps undisturbed: {why}",
                count(most)
            ),
            (Some(most), ..) => format!(
                "this host offered {} pps undisturbed, but no longer: {why}",
                count(most)
            ),
            (None, Some(most), Some(least)) if most > least => format!(
                "this host could offer no rate undisturbed, from {} pps down to {} pps: {why}",
                count(most),
                count(least)
            ),
            (None, most, _) => format!(
                "this host could not offer {} pps undisturbed: {why}",
                count(most.unwrap_or(self.limits().max))
            ),
        })
    }

    /// Returns the void trial that shows the disturbance: the last at a rate above those that held, if there is one.
    fn evidence(&self) -> Option<&Measured> {
        let counted = self.trials.iter().filter(|trial| trial.counts());
        let most = counted.map(|trial| trial.trial.input.load).max();
        let mut void = self.trials.iter().filter(|trial| !trial.counts());
        let above = void.clone().rfind(|trial| Some(trial.trial.input.load) > most);
        above.or_else(|| void.next_back())
    }

    /// Returns a sentence on what the user can do about the cause that `hindered` reports; `None` if `hindered` names
    /// the remedy itself, or nothing helps.
    pub(crate) fn remedy(&self) -> Option<&'static str> {
        self.hindered()?;
        let last = self.evidence()?;
        let by = last.kept_off.as_ref().map(|of| of.by);
        (by == Some(KeptOffBy::OtherThreads))
            .then_some("what may help: mpps isolate N -- mpps … --cores N, which keeps others off the lanes' cores")
    }

    /// The last void trials were at the highest rate, and this host could not send as fast.
    fn outpaced_at_max(&self) -> bool {
        let max = self.limits().max;
        let void = self.void_at_last();
        void.iter().all(|trial| trial.outpaced && trial.trial.input.load == max)
    }

    /// The bounds of all goals are as close as asked for.
    fn is_regular(&self) -> bool {
        self.outcomes().iter().all(|outcome| outcome.regular)
    }

    /// Returns the reasons why the last void trial was void.
    fn why_void(&self) -> String {
        let void = self.trials.iter().rfind(|trial| !trial.counts());
        void.map(|void| void.reasons.join("; ")).unwrap_or_default()
    }

    /// Returns how long the rest of the search takes if the device is steady, ns, with `between` two trials.
    pub(crate) fn left_ns(&self, between: Duration) -> u64 {
        // The search only knows that void trials are repeated; after three it would end.
        let mut counted = self.trials();
        counted.retain(|trial| trial.verdict != Verdict::Void);
        let (trials, ns) = self.search.estimate(&counted);
        ns + u64::from(trials) * between.as_nanos() as u64
    }

    /// Time that the search has taken, ns: its trials, void ones too, and the waits after those.
    fn spent_ns(&self, waited_ns: u64) -> u64 {
        let trials = self.trials.iter().map(|trial| trial.trial.effective_ns);
        trials.fold(waited_ns, u64::saturating_add)
    }

    /// Runs the trials of the search; `tell` is called after each.
    pub(crate) fn go(&mut self, bench: &mut Bench<'_, '_>, tell: &mut dyn FnMut(&Bench<'_, '_>, &Self)) -> Step<()> {
        let waited = bench.waited_ns;
        loop {
            let trials = self.trials();
            let next = self.search.next(&trials);
            let over = self.spent_ns(bench.waited_ns - waited) >= self.search.most_ns();
            // Void trials decide nothing, and take as long as others.
            if over && next != Next::Done(End::Found) {
                return Err(Stop::OutOfTime);
            }
            let input = match next {
                Next::Trial(input) => input,
                // Bounds that are as close as asked for hold whatever was in the way above them.
                Next::Done(End::Found) if self.limited_by == LimitedBy::Host && !self.is_regular() => {
                    return Err(Stop::Void(self.why_void()));
                }
                Next::Done(End::Found) => return Ok(()),
                Next::Done(End::OutOfTime) => return Err(Stop::OutOfTime),
                // An earlier command's host was in its way, which says nothing of now.
                Next::Done(End::Void) if bench.replayed() && !self.outpaced_at_max() => {
                    self.forgiven = self.trials.len();
                    continue;
                }
                Next::Done(End::Void) if self.lower_max() => {
                    bench.say(&format!(
                        "{} bytes: no trial held at this rate: going on with {} pps at the most",
                        self.frame_size,
                        count(self.limits().max)
                    ));
                    continue;
                }
                Next::Done(End::Void) => return Err(Stop::Void(self.why_void())),
            };
            let ask = Ask {
                burst: self.burst,
                ..Ask::of(Phase::Search, self.frame_size, input)
            };
            let measured = bench.trial(&ask)?.clone();
            self.trials.push(measured);
            self.numbers.push(bench.trials.len());
            bench.show(self);
            tell(bench, self);
            bench.check_answers()?;
            if self.try_again() {
                bench.say(&format!(
                    "{} bytes: a trial held: trying {} pps again",
                    self.frame_size,
                    count(self.limits().max)
                ));
            }
        }
    }
}

/// A wrong limit as a wrong argument.
pub(crate) fn search_of(goals: Vec<crate::search::Goal>, limits: Limits, most_ns: u64, binary: bool) -> Step<Search> {
    let search = match binary {
        true => Search::binary(goals, limits, most_ns),
        false => Search::new(goals, limits, most_ns),
    };
    search.map_err(|e| Stop::Failed(usage(e)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Subject, measured};
    use crate::search::{Goal, Input, Ratio};
    use mpps_stats::{KeptOff, Remark, RemarkName, Shortfall, Summary};

    /// Returns a trial that this host disturbed; `outpaced`: because it can send no faster.
    fn void(load: u64, reached: f64, outpaced: bool) -> Measured {
        let ask = Ask::of(Phase::Search, 64, Input { load, duration_ns: 1 });
        let summary = Summary {
            offered_pps: reached,
            shortfall: outpaced.then_some(Shortfall::Outpaced),
            invalid_reasons: vec![Remark::new(RemarkName::MissedDepartures, "why")],
            ..Summary::default()
        };
        measured(ask, &summary, Vec::new(), &Subject::default())
    }

    fn passed(load: u64) -> Measured {
        let mut told = void(load, load as f64, false);
        told.trial.verdict = Verdict::Counted { due: load, missing: 0 };
        (told.trial.input.duration_ns, told.trial.effective_ns) = (1_000_000_000, 1_000_000_000);
        told
    }

    fn found(trials: Vec<Measured>) -> Found {
        let goal = Goal {
            sum_ns: 1_000_000_000,
            ..Goal::csit(Ratio::ZERO)
        };
        let limits = Limits { min: 1, max: 1000 };
        let search = Search::new(vec![goal], limits, u64::MAX).unwrap();
        Found {
            numbers: (1..=trials.len()).collect(),
            trials,
            ..Found::new(64, search, LimitedBy::MaxRate)
        }
    }

    #[test]
    fn a_rate_of_streams_that_ended_within_a_trial_is_given_with_the_mean_that_was_sent() {
        let mut trials = vec![passed(1000); 2];
        trials[0].offered_pps = 520.4;
        let found = found(trials);
        let outcome = found.outcomes()[0];
        let said = "1,000 pps while all streams send, 520 pps over a trial";
        assert_eq!(
            crate::outcome::in_short(&outcome, &found),
            format!("{said} or more (--max-rate)")
        );
        let whole = crate::outcome::verdict(&outcome, &found);
        assert!(whole.starts_with(&format!("{said} or more: ")), "{whole}");
    }

    #[test]
    fn a_rate_at_which_the_host_is_disturbed_is_given_up_for_a_lower_one() {
        let mut one = found(vec![void(1000, 900.0, false); 3]);
        assert!(one.lower_max());
        assert_eq!((one.limits().max, one.limited_by), (800, LimitedBy::Host));
        // Forgiven: the search goes on at the new highest rate.
        assert!(matches!(one.search.next(&one.trials()), Next::Trial(input) if input.load == 800));
        assert_eq!(one.why_void(), "why");
        // A limit of its own is what it reached.
        let mut two = found(vec![void(1000, 900.0, true); 3]);
        assert!(two.lower_max());
        assert_eq!((two.limits().max, two.limited_by), (891, LimitedBy::Generator));
    }

    #[test]
    fn rates_between_one_that_passed_and_a_void_one_are_tried_until_they_are_as_close_as_asked_for() {
        let mut trials = vec![passed(700)];
        trials.extend(vec![void(800, 700.0, false); 3]);
        let mut found = found(trials);
        let mut highest = Vec::new();
        // A host that is disturbed at each of them.
        while found.lower_max() {
            let load = found.limits().max;
            highest.push(load);
            assert!(highest.len() < 20);
            match found.search.next(&found.trials()) {
                Next::Trial(input) => assert!((700..=load).contains(&input.load), "{input:?}"),
                Next::Done(end) => panic!("{end:?} at {load}"),
            }
            found.trials.extend(vec![void(load, 700.0, false); 3]);
        }
        assert_eq!(highest[0], 750);
        assert!(highest.is_sorted_by(|one, next| one > next), "{highest:?}");
        assert!(highest.last().is_some_and(|load| *load <= 708), "{highest:?}");
        assert_eq!(found.limited_by, LimitedBy::Host);
    }

    #[test]
    fn a_goal_goes_on_below_a_void_rate_where_another_has_passed_above_it() {
        let lossy = |load: u64, missing: u64| {
            let mut told = passed(load);
            told.trial.verdict = Verdict::Counted { due: load, missing };
            told
        };
        // Without loss up to 500, with 10 % of it up to 900.
        let mut trials = vec![passed(500), lossy(600, 1), lossy(900, 50)];
        trials.extend(vec![void(550, 540.0, false); 3]);
        let mut found = found(trials);
        let goals = [Ratio::ZERO, Ratio::of_share(0.1).unwrap()].map(|loss| Goal {
            loss,
            sum_ns: 1_000_000_000,
            ..Goal::csit(loss)
        });
        found.search = Search::new(goals.to_vec(), Limits { min: 1, max: 1000 }, u64::MAX).unwrap();
        assert!(found.lower_max());
        assert_eq!(found.limits().max, 525);
        assert_eq!(
            found.outcomes()[1].bounds.lower,
            Some(900),
            "what is known above stays known"
        );
        let told = crate::outcome::verdict(&found.outcomes()[1], &found);
        assert_eq!(told, "900 pps or more; no higher rate was tried");
        assert!(matches!(found.search.next(&found.trials()), Next::Trial(input) if input.load < 550));
    }

    #[test]
    fn a_disturbance_at_lower_rates_as_well_does_not_depend_on_the_rate_and_lowers_none() {
        for top in [1000, 637_000] {
            let mut found = found(vec![void(top, 900.0, false); 3]);
            found.search = found.search.within(Limits { min: 1, max: top }).unwrap();
            let mut tried = vec![top];
            while found.lower_max() {
                let load = found.limits().max;
                tried.push(load);
                found.trials.extend(vec![void(load, 1.0, false); 3]);
            }
            assert_eq!(tried, [top, top * 4 / 5, top * 512 / 1000]);
            assert_eq!((found.limits().max, found.limited_by), (top, LimitedBy::MaxRate));
            assert_eq!(
                found.hindered().unwrap(),
                format!(
                    "this host could offer no rate undisturbed, from {} pps down to {} pps: why (at {1} pps)",
                    count(top),
                    count(top * 512 / 1000)
                )
            );
            let told = crate::outcome::verdict(&found.outcomes()[0], &found);
            assert_eq!(told, "not known: no rate has passed or failed");
        }
    }

    #[test]
    fn a_device_far_below_what_this_host_can_send_is_looked_for_where_it_lets_packets_through() {
        let mut found = found(vec![void(1_000_000, 900_000.0, false); 3]);
        let limits = Limits { min: 1, max: 1_000_000 };
        found.search = found.search.within(limits).unwrap();
        let void = |load: u64| {
            let mut trial = void(load, 1.0, false);
            trial.received_pps = 30_000.0;
            vec![trial; 3]
        };
        let mut tried = Vec::new();
        while found.lower_max() {
            let load = found.limits().max;
            tried.push(load);
            found.trials.extend(void(load));
        }
        assert_eq!(tried, [800_000, 512_000, 60_000]);
        // A trial that held is not named as one that void trials at lower rates prevented.
        found.trials.push(passed(700_000));
        found.trials.extend(void(60_000));
        let told = found.hindered().unwrap();
        assert!(told.ends_with("(at 800,000 pps)"), "{told}");
    }

    #[test]
    fn a_rate_given_up_is_tried_once_more_after_a_lower_one_has_held() {
        let mut found = found(vec![void(1000, 900.0, false); 3]);
        assert!(found.lower_max());
        assert_eq!(found.limits().max, 800);
        assert!(!found.try_again(), "nothing has held yet");
        found.trials.push(passed(800));
        assert!(found.try_again());
        assert_eq!((found.limits().max, found.limited_by), (1000, LimitedBy::MaxRate));
        // There the disturbance comes again, which shows that it depends on the rate.
        found.trials.extend(vec![void(1000, 900.0, false); 3]);
        assert!(found.lower_max());
        let max = found.limits().max;
        assert!((800..1000).contains(&max), "{max}");
        found.trials.push(passed(max));
        assert!(!found.try_again(), "once is enough");
        assert_eq!((found.limits().max, found.limited_by), (max, LimitedBy::Host));
    }

    #[test]
    fn void_trials_and_the_waits_after_them_take_time_of_the_search() {
        let mut trials = vec![passed(700)];
        let mut long = void(800, 700.0, false);
        long.trial.effective_ns = 2_000_000_000;
        trials.extend(vec![long; 3]);
        let mut found = found(trials);
        assert_eq!(found.spent_ns(500_000_000), 7_500_000_000);
        assert!(found.lower_max(), "what is forgiven has taken its time all the same");
        assert_eq!(found.spent_ns(0), 7_000_000_000);
    }

    #[test]
    fn a_rate_that_passes_below_void_ones_is_told_as_the_host_s_limit() {
        let mut trials = vec![void(1000, 900.0, false); 3];
        trials.extend(vec![passed(800); 3]);
        let mut found = found(trials);
        found.search = found.search.within(Limits { min: 1, max: 800 }).unwrap();
        found.limited_by = LimitedBy::Host;
        let outcome = found.outcomes()[0];
        assert!(outcome.at_max);
        assert_eq!(
            found.hindered().unwrap(),
            "this host could not offer more than 800 pps undisturbed: why (at 1,000 pps)"
        );
        let told = crate::outcome::verdict(&outcome, &found);
        assert_eq!(told, "not known: 800 pps passed, and no more could be offered");
        assert_eq!(found.remedy(), None, "for no reason that is known");
        let mut of = |by| {
            found.trials[2].kept_off = Some(KeptOff {
                by,
                sentence: "cc1 ran".to_owned(),
                named: true,
            });
            assert!(
                found
                    .hindered()
                    .unwrap()
                    .ends_with("undisturbed: cc1 ran (at 1,000 pps)")
            );
            found.remedy()
        };
        assert!(of(KeptOffBy::OtherThreads).unwrap().contains("mpps isolate N -- "));
        for by in [KeptOffBy::OwnThreads, KeptOffBy::CpuQuota, KeptOffBy::Hypervisor] {
            assert_eq!(of(by), None);
        }
        // A device that has failed at a higher rate has an upper bound of its own.
        found.limited_by = LimitedBy::MaxRate;
        assert_eq!((found.hindered(), found.remedy()), (None, None));
    }
}
