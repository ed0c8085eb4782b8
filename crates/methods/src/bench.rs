//! Trials on open ports, one after another, each recorded as it ends. What an earlier command has recorded is served
//! from there, so that a method goes on where it was by asking for the same trials again.

use crate::found::Found;
use crate::limits::LimitedBy;
use crate::measure::{Ask, Delay, Measured, Phase, Subject, measured, quantiles};
use crate::record::{Earlier, Record};
use crate::search::Limits;
use crate::setup::{Setup, Step, Stop};
use crate::view::{Teller, View};
use mpps_engine::Pacing;
use mpps_plan::Written;
use mpps_plan::values::rate::{RateText, StepText};
use mpps_run::fail::{Failure, Result, failed};
use mpps_run::{Plan, Session};
use mpps_stats::{Event, Histogram, HostFact, Sink, Summary, count};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Pause after a void trial, for each in a row up to three.
const AFTER_VOID: Duration = Duration::from_millis(500);
/// Void trials in a row after which this host is given up.
pub(crate) const MOST_VOID: usize = 3;
/// Length of a trial that measures how fast this host can send, ns.
const CEILING_NS: u64 = 1_000_000_000;
/// Rate of the learning frames, packets per second.
const LEARNING_PPS: u64 = 100;

/// Bench that runs a method's trials.
pub(crate) struct Bench<'b, 's> {
    setup: &'b Setup<'b>,
    view: &'b dyn View,
    session: &'b mut Session<'s>,
    /// `None` without a folder.
    pub(crate) record: Option<Record<'b>>,
    /// Trials of an earlier command that have not been asked for again yet.
    replay: Vec<Measured>,
    /// The last trial is one of these.
    replayed: bool,
    /// Trials in the record.
    written: usize,
    /// Trials that ran here and were void, one after another, up to now.
    void_here: usize,
    /// All trials, in order.
    pub(crate) trials: Vec<Measured>,
    /// Facts on the host and its ports, by name: from the first trial that ran here, or from an earlier command.
    pub(crate) tester: Vec<(String, String)>,
    /// Packets that the goals are about, by whose results trials are judged.
    pub(crate) subject: Subject,
    /// Reads the events of the trials that run here, too.
    pub(crate) watch: Option<Box<dyn Fn() -> Box<dyn Sink> + 'b>>,
    /// Estimated time of everything after the current test, ns.
    pub(crate) later_ns: u64,
    /// Time spent waiting after void trials, beyond the pause between any two, ns.
    pub(crate) waited_ns: u64,
    /// A trial has run here.
    begun: bool,
}

/// Returns a remaining time in words: seconds, minutes or hours.
pub(crate) fn about(ns: u64) -> String {
    match ns.div_ceil(1_000_000_000) {
        s @ 0..120 => format!("{s} s"),
        s @ 120..7200 => format!("{} min", s.div_ceil(60)),
        s => format!("{:.1} h", s as f64 / 3600.0),
    }
}

/// Returns how often a trial is run until it holds, on average, if `void` of `trials` trials were void. One that held
/// is added to them, so that a first trial that is void does not make the number infinite.
pub(crate) fn repeats(trials: usize, void: usize) -> f64 {
    (trials + 1) as f64 / (trials + 1).saturating_sub(void).max(1) as f64
}

/// Waits between two trials. Returns false if the end was requested.
pub(crate) fn wait(pause: Duration, interrupted: &dyn Fn() -> bool) -> bool {
    let until = Instant::now() + pause;
    while !interrupted() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
    false
}

impl<'b, 's> Bench<'b, 's> {
    pub(crate) fn new(
        setup: &'b Setup<'b>,
        view: &'b dyn View,
        session: &'b mut Session<'s>,
        record: Option<Record<'b>>,
        earlier: Earlier,
    ) -> Self {
        let written = earlier.trials.len();
        Self {
            setup,
            view,
            session,
            record,
            replay: earlier.trials,
            replayed: false,
            written,
            void_here: 0,
            trials: Vec::new(),
            tester: earlier.tester,
            subject: Subject::default(),
            watch: None,
            later_ns: 0,
            waited_ns: 0,
            begun: false,
        }
    }

    /// Whether the last trial was an earlier command's. That the host was in its way is no reason to give up now.
    pub(crate) fn replayed(&self) -> bool {
        self.replayed
    }

    /// Trials of an earlier command that have not been asked for again yet.
    pub(crate) fn left_of_record(&self) -> usize {
        self.replay.len()
    }

    /// Returns the void trials at the end, one after another.
    pub(crate) fn void_at_last(&self) -> &[Measured] {
        let first = self.trials.iter().rposition(Measured::counts).map_or(0, |at| at + 1);
        &self.trials[first..]
    }

    /// Trials that ran here and were void, one after another, up to now.
    pub(crate) fn void_here(&self) -> usize {
        self.void_here
    }

    /// Ways in which packets go at the same time.
    pub(crate) fn ways(&self) -> u64 {
        if self.setup.common.run.plan.traffic.goes_back() {
            2
        } else {
            1
        }
    }

    /// Between two trials, beside the trials themselves.
    pub(crate) fn between(&self) -> Duration {
        self.setup.between()
    }

    /// Prints the result of the last trial of a test that takes `ns` more, and the time left for all tests.
    pub(crate) fn say_left(&self, line: &str, ns: u64) {
        let left = self.left(ns);
        self.say_trial(&format!("{line}; left: about {left}"));
    }

    /// Prints the result of the last trial, by its number in the document.
    pub(crate) fn say_trial(&self, line: &str) {
        self.say(&format!("trial {}: {line}", self.trials.len()));
    }

    /// Returns the time left for all tests, in words, if the current one takes `ns` more on a steady device. Trials
    /// that are void are repeated, at the same rate as so far.
    pub(crate) fn left(&self, ns: u64) -> String {
        // A trial as fast as possible is void more often than not, and so is one whose link goes down in a reset.
        let others = [Phase::Ceiling, Phase::Reset];
        let tried = self.trials.iter().filter(|trial| !others.contains(&trial.ask.phase));
        let void = tried.clone().filter(|trial| !trial.counts()).count();
        about(((self.later_ns + ns) as f64 * repeats(tried.count(), void)) as u64)
    }

    /// Shows the user a line while the test goes on.
    pub(crate) fn say(&self, line: &str) {
        self.teller()(line);
    }

    /// Returns a function that does what [`Bench::say`] does, for a sink.
    pub(crate) fn teller(&self) -> Teller {
        self.view.teller()
    }

    /// Shows the bounds that a search knows so far.
    pub(crate) fn show(&self, found: &Found) {
        let bounds: Vec<_> = found.outcomes().iter().map(|outcome| outcome.bounds).collect();
        self.view.search(found.frame_size, found.search.goals(), &bounds);
    }

    /// Whether the port can send such frames.
    ///
    /// # Errors
    /// One line that says why not.
    pub(crate) fn check_size(&mut self, frame_size: usize) -> Result<()> {
        let mut plan = self.setup.plan.clone();
        if frame_size != self.setup.frame_size() {
            plan.fields_mut().traffic.set_frame_size(frame_size);
        }
        self.session.check(&plan)
    }

    /// Runs a trial once.
    pub(crate) fn trial(&mut self, ask: &Ask) -> Step<&Measured> {
        // Equal trials have equal results, in whatever order the tests run.
        let earlier = self.replay.iter().position(|earlier| earlier.ask == *ask);
        let measured = match earlier {
            Some(place) => self.replay.remove(place),
            None => self.run(ask)?,
        };
        self.replayed = earlier.is_some();
        self.void_here = match measured.counts() || earlier.is_some() {
            true => 0,
            false => self.void_here + 1,
        };
        if earlier.is_none() {
            self.written += 1;
            if let Some(record) = &mut self.record {
                record.trial(self.written, &measured);
            }
        }
        self.trials.push(measured);
        let measured = &self.trials[self.trials.len() - 1];
        Ok(measured)
    }

    /// Runs a trial until its numbers hold.
    ///
    /// # Errors
    /// Also when they did not, three times in a row.
    pub(crate) fn counted(&mut self, ask: &Ask) -> Step<Measured> {
        let mut void = 0;
        loop {
            let told = self.trial(ask)?.clone();
            if told.counts() {
                return Ok(told);
            }
            void += 1;
            let why = told.reasons.join("; ");
            self.say_void();
            if self.replayed {
                void = 0;
            }
            if void >= MOST_VOID {
                return Err(Stop::Void(why));
            }
        }
    }

    /// Prints that the last trial was void.
    pub(crate) fn say_void(&self) {
        let why = self.trials.last().map(Measured::void_in_short).unwrap_or_default();
        self.say_trial(&format!("void: {why}"));
    }

    /// Runs a trial, after the pause that it takes.
    fn run(&mut self, ask: &Ask) -> Step<Measured> {
        // The disturbance of a void trial may be over in a while.
        let void = self.void_at_last().len().min(MOST_VOID);
        let pause = self.setup.pause.max(AFTER_VOID * void as u32);
        self.waited_ns += (pause - self.setup.pause).as_nanos() as u64;
        if !self.trials.is_empty() && !wait(pause, &|| self.session.interrupted()) || self.session.interrupted() {
            return Err(Stop::Interrupted);
        }
        if ask.phase != Phase::Ceiling {
            self.learn(ask)?;
        }
        let plan = self.plan_of(ask);
        let histogram = Arc::new(Mutex::new(Histogram::default()));
        let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
        if ask.phase == Phase::Latency {
            sinks.push(Box::new(Periods(Arc::clone(&histogram))));
        }
        sinks.extend(self.watch.as_ref().map(|watch| watch()));
        sinks.extend(self.view.trial(ask));
        let summary = self.session_trial(&plan, &mut sinks)?;
        drop(sinks);
        if summary.interrupted {
            return Err(Stop::Interrupted);
        }
        let told = quantiles(&histogram.lock().unwrap_or_else(PoisonError::into_inner));
        let measured = measured(*ask, &summary, told, &self.subject);
        if !self.begun {
            self.begun = true;
            let fact = |fact: &HostFact| (fact.name.clone(), fact.value.clone());
            self.tester = summary.host.iter().map(fact).collect();
            if let Some(record) = &mut self.record {
                record.tester(&self.tester);
            }
        }
        Ok(measured)
    }

    /// Runs a trial on the ports. One that was interrupted before its first packet has no summary.
    fn session_trial(&mut self, plan: &Plan, sinks: &mut [Box<dyn Sink>]) -> Step<Summary> {
        self.session
            .trial(plan, sinks)
            .map_err(|e| match self.session.interrupted() {
                true => Stop::Interrupted,
                false => Stop::Failed(Failure::from(e)),
            })
    }

    /// Sends frames for the device to learn from, if they are asked for. Their fate is no result.
    fn learn(&mut self, ask: &Ask) -> Step<()> {
        let Some(learning) = self.setup.learning else {
            return Ok(());
        };
        let plan = self.plan_of(&Ask {
            load: Some(LEARNING_PPS),
            duration_ns: learning.as_nanos() as u64,
            then: None,
            settle: None,
            burst: None,
            ..*ask
        });
        match self.session_trial(&plan, &mut [])?.interrupted {
            true => Err(Stop::Interrupted),
            false => Ok(()),
        }
    }

    /// The plan of a trial.
    fn plan_of(&self, ask: &Ask) -> Plan {
        let mut plan = self.setup.plan.clone();
        let of = plan.fields_mut();
        if ask.frame_size != self.setup.frame_size() {
            of.traffic.set_frame_size(ask.frame_size);
        }
        of.load.rate = ask.load.map(RateText::pps);
        // Streams share the rate; without one, they take turns as they share it.
        if let Some(streams) = self.setup.weighted(ask.load.is_none()) {
            of.traffic.streams = Some(Written::new(streams.json().to_string(), streams));
        }
        let pacing = ask
            .burst
            .map(|frames| Written::new(format!("burst={frames}"), Pacing::Bursts(frames)));
        if let Some(pacing) = pacing
            .or_else(|| self.setup.pacing.clone())
            .filter(|_| ask.load.is_some())
        {
            of.load.pacing = pacing;
        }
        if let Some((load, at)) = ask.then {
            let step = StepText {
                rate: RateText::pps(load),
                after: Duration::from_nanos(at),
            };
            of.load.then = Some(Written::new(format!("{load}pps@{}", Written::ns(at)), step));
        }
        if let Some(settle) = ask.settle {
            of.times.settle = Written::ns(settle.as_nanos() as u64);
        }
        // These tests compute the device's recovery from lost and late packets, so they wait the whole settle time.
        of.times.settle_early &= !matches!(ask.phase, Phase::Recovery | Phase::Reset);
        of.times.duration = Some(Written::ns(ask.duration_ns));
        plan
    }

    /// Returns the lowest and the highest rate to test. The rate that this host can send is measured first, unless a
    /// highest rate is given. Sending at given times takes more than sending as fast as possible. So the highest rate
    /// is tried, and lowered to the rate that was reached.
    pub(crate) fn limits(&mut self, frame_size: usize) -> Step<(Limits, LimitedBy)> {
        /// Tries after which the test is left to find out.
        const MOST: u32 = 8;
        // More than was allowed is not sent, not even to learn what could be.
        let ceiling = match self.setup.common.max_rate {
            Some(_) => None,
            None => Some(self.ceiling(frame_size)?),
        };
        let mut found = self.setup.rates(frame_size, ceiling)?;
        let mut disturbed = 0;
        for _ in 0..MOST {
            let input = crate::search::Input {
                load: found.0.max,
                duration_ns: CEILING_NS,
            };
            let tried = self.trial(&Ask::of(Phase::Reach, frame_size, input))?.clone();
            if tried.counts() {
                break;
            }
            self.say_void();
            // Any other disturbance is no limit of this host's: the test finds out what can be done all the same.
            disturbed += usize::from(!tried.outpaced);
            if disturbed == MOST_VOID {
                break;
            }
            if tried.outpaced {
                // At the limit a little of the time is missing in one second and not in the next.
                let reached = tried.offered_pps.min(found.0.max as f64);
                found = self.setup.rates(frame_size, Some(reached))?;
            }
        }
        let (limits, limited_by) = found;
        self.say(&format!(
            "{frame_size} bytes: between {} and {} pps ({})",
            count(limits.min),
            count(limits.max),
            limited_by.words()
        ));
        Ok(found)
    }

    /// Measures how fast this host can send, packets per second. If other programs disturb all tries, the fastest
    /// counts: sending as fast as possible overloads the receiving end, too, so that few hosts have a valid try.
    fn ceiling(&mut self, frame_size: usize) -> Step<f64> {
        let mut most = 0.0f64;
        for _ in 0..MOST_VOID {
            let told = self.trial(&Ask {
                phase: Phase::Ceiling,
                frame_size,
                load: None,
                duration_ns: CEILING_NS,
                then: None,
                settle: None,
                burst: None,
            })?;
            most = most.max(told.offered_pps);
            if told.counts() {
                break;
            }
        }
        self.say(&format!(
            "{frame_size} bytes: this host sends {} pps as fast as it can; trying what it keeps up",
            count(most as u64)
        ));
        Ok(most)
    }

    /// Whether all was lost at two loads or more: there is nobody who sends packets back. A device that forwards
    /// nothing at the highest rate may do so at others.
    ///
    /// # Errors
    /// Then.
    pub(crate) fn check_answers(&self) -> Step<()> {
        let counted = self.trials.iter().filter(|trial| trial.counts());
        let loads: BTreeSet<_> = counted.clone().map(|trial| trial.trial.input.load).collect();
        if loads.len() >= 2 && counted.clone().all(|trial| trial.received + trial.late == 0) {
            return Err(Stop::Failed(failed(
                "nothing came back at two rates: want a reflector (mpps reflect) at the destination, or the device's \
                 other port",
            )));
        }
        Ok(())
    }
}

/// Gathers the latencies of a whole trial.
struct Periods(Arc<Mutex<Histogram>>);

impl Sink for Periods {
    fn wants(&self) -> mpps_stats::Wants {
        mpps_stats::Wants {
            histograms: true,
            ..mpps_stats::Wants::default()
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        if let Event::Period(period) = event {
            let mut histogram = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            for (ns, packets) in period.buckets {
                histogram.record_n(*ns, *packets);
            }
        }
    }
}

/// Percentile range that RFC 8219 (7.3.1) calls the packet delay variation, ns.
pub(crate) fn pdv(delay: &Delay) -> u64 {
    delay.p999.saturating_sub(delay.min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_allows_for_as_many_void_trials_as_there_were() {
        assert_eq!((repeats(0, 0), repeats(50, 0)), (1.0, 1.0));
        assert_eq!(repeats(1, 1), 2.0, "not endless");
        let third = repeats(300, 100);
        assert!((1.49..1.51).contains(&third), "{third}");
    }
}
