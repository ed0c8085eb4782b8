//! A lane's time by stage: a chain of readings of the clock through a round. The end of one stage is the start of the
//! next.
//!
//! A reading costs some 10 ns, as much as two packets on the fastest paths. So the loop's own readings measure what
//! they can, exactly: time in rounds that moved packets, in rounds that found nothing, asleep. Only how the first two
//! divide into stages is timed: in every round after one that was long ([`LONG_NS`]), else in every [`EVERY`]th that
//! begins with a reading. Whether a round is timed is settled before it is known what will come in it (or, after a long
//! one, by what comes in it alone), so that timed rounds represent the others.
//!
//! Time away is the time that the thread waited for its core, as the kernel reports it. If the thread was off its core
//! for longer without waiting for it (stopped by a signal), all of that time counts. The kernel is asked after each
//! stretch of [`LOOK_NS`] or more, and the time is taken from the stage of that stretch. Time away in shorter visits is
//! known in sum when the lane ends. Time that interrupts or the hypervisor took does not count as away: it stays in its
//! stage.
//!
//! With a flight recorder every round is timed and makes a record.

use crate::lane::ring::LaneRing;
use crate::lane::worst::Worst;
use mpps_stats::{LaneCounters, StageTable};
use mpps_sys::clock::Clock;
use mpps_sys::proc_stat::ThreadStat;
use mpps_trace::{Did, Round, SlowBurst, Stage};
use std::cell::Cell;
use std::time::Instant;

/// Mean number of rounds per timed one, of the rounds that begin with a reading and are not timed anyhow. The number of
/// rounds passed over differs each time, so that rounds which take turns are timed alike.
const EVERY: u32 = 16;
const FEWEST: u32 = 9;
/// Rounds that a timed one represents if a reading is taken in every fourth round only.
const SHORT_WEIGHT: u64 = (EVERY as u64 - 1) * 4 + 1;
/// Duration of a round that moved something from which on the next one is timed, ns: five readings are less than 1 %.
const LONG_NS: u64 = 12_000;
/// Length of a stretch after which the kernel is asked for the time away, ns: the question takes 1 µs.
const LOOK_NS: u64 = 250_000;
/// Length of a stretch, ns. Time beyond it counts as away if the kernel does not report time away.
const GUESS_NS: u64 = 1_000_000;
/// Longest record of a stretch of rounds that found nothing, ns, so that a reader of the recorder need not wait for the
/// end of the stretch.
const STRETCH_NS: u64 = 10_000_000;

/// The round is not timed.
const OFF: u8 = 0;
/// The round will be timed, if it does something.
const READY: u8 = 1;
/// The round is timed.
const ON: u8 = 2;

/// Limits beyond which a lane reports to the collector that something is worth a window, ns; `u64::MAX`: never.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Longest round, or delay of a wake-up, that is not reported.
    pub(crate) stall_ns: u64,
    /// Largest lateness of a packet, ns, that is not reported.
    pub(crate) late_ns: u64,
}

/// A lane's way into its flight recorder.
#[derive(Debug)]
pub(crate) struct Flight<'r> {
    ring: &'r LaneRing,
    limits: Limits,
    /// Record of the rounds in a row that found nothing.
    stretch: Round,
    receives: bool,
}

impl<'r> Flight<'r> {
    /// `receives`: a round that finds nothing has asked the path for packets.
    pub(crate) fn new(ring: &'r LaneRing, limits: Limits, receives: bool) -> Self {
        Self {
            ring,
            limits,
            stretch: Round::default(),
            receives,
        }
    }

    fn burst(&mut self, round: &Round) {
        self.end_stretch();
        self.ring.push(round);
        let took_ns = round.took_ns();
        if took_ns > self.limits.stall_ns || u64::from(round.late_ns) > self.limits.late_ns {
            self.ring.trigger(round.at_ns, round.end_ns());
        }
    }

    fn nothing(&mut self, at_ns: u64, ns: u64, sent_before: u64) {
        if ns > self.limits.stall_ns {
            self.ring.trigger(at_ns, at_ns + ns);
        }
        if self.stretch.polls > 0 && u64::from(self.stretch.parts[0]) + ns > STRETCH_NS {
            self.end_stretch();
        }
        let stretch = &mut self.stretch;
        if stretch.polls == 0 {
            *stretch = self::stretch(at_ns, sent_before);
            stretch.did = if self.receives { Did::Polled } else { Did::Spun };
        }
        stretch.parts[0] = stretch.parts[0].saturating_add(cut(ns));
        stretch.polls += 1;
    }

    /// Records a sleep from `at_ns` on that was to end by `by_ns`.
    fn slept(&mut self, at_ns: u64, ns: u64, by_ns: u64, sent_before: u64) {
        self.end_stretch();
        let mut round = stretch(at_ns, sent_before);
        round.did = Did::Slept;
        round.parts[0] = cut(ns);
        self.ring.push(&round);
        if (at_ns + ns).saturating_sub(by_ns) > self.limits.stall_ns {
            self.ring.trigger(by_ns, at_ns + ns);
        }
    }

    fn end_stretch(&mut self) {
        if self.stretch.polls > 0 {
            self.ring.push(&self.stretch);
            self.stretch.polls = 0;
        }
    }
}

fn stretch(at_ns: u64, sent_before: u64) -> Round {
    Round {
        at_ns,
        sent_before,
        fill: u32::MAX,
        ..Round::default()
    }
}

fn cut(ns: u64) -> u32 {
    ns.min(u64::from(u32::MAX)) as u32
}

/// Reads for how long the lane has waited for its core, ns, and how often it was put on a core.
pub(crate) type Waited<'r> = Box<dyn Fn() -> Option<(u64, u64)> + 'r>;

/// Returns a reader of the kernel's times of a thread; `None` if the kernel does not report them.
pub(crate) fn waited_of(times: Option<&ThreadStat>) -> Option<Waited<'_>> {
    let read = |times: &ThreadStat| times.read().map(|times| (times.waited_ns, times.stretches));
    times.map(|times| Box::new(move || read(times)) as Waited<'_>)
}

/// The chain of one lane.
pub(crate) struct Stages<'r> {
    table: &'r StageTable,
    state: Cell<u8>,
    /// Stage for the time that passed before the round was known to do something.
    first: Cell<Stage>,
    /// Time in ns when the round at hand began; 0: no round has begun.
    began_ns: Cell<u64>,
    /// Time in ns up to which the round is booked.
    last_ns: Cell<u64>,
    /// Time that each stage of the round took, ns, and the stages that have any.
    parts: [Cell<u64>; Stage::COUNT],
    seen: Cell<u16>,
    /// Part of each stage's time that the lane was away, ns.
    away: [Cell<u64>; Stage::COUNT],
    away_any: Cell<bool>,
    /// Time slept since a device is down, ns: in the round, and in the stage at hand.
    napped_ns: [Cell<u64>; 2],
    /// Part of [`Stage::Rest`] that is done once per reading, ns.
    once_ns: Cell<u64>,
    /// Time off the core that was neither chosen nor waited for, ns.
    held_ns: Cell<u64>,
    readings: Cell<u64>,
    /// Worst lateness of the round's packets, ns.
    late_ns: Cell<u64>,
    waited: Option<Waited<'r>>,
    /// Time that the lane has waited for its core, ns, as read at the start and as read last.
    waited_ns: [Cell<u64>; 2],
    stretches: Cell<u64>,
    reading_ns: u64,
    /// Rounds since the last reading that moved something.
    moved: u32,
    /// Readings at the start of a round until one is chosen, and the state that the next number of them is drawn from.
    left: u32,
    drawn: u32,
    chosen: bool,
    short: bool,
    /// The last round that moved something was long.
    long: bool,
    /// Start of a sleep, and the time when it was to end at the latest, ns; 0: the lane did not sleep.
    slept: (u64, u64),
    /// Packets that the lane had received and sent at the start of the round.
    counted: (u64, u64),
    /// Fill of the receive ring at the last look; `u32::MAX`: not known.
    fill: u32,
    slowest: Worst<SlowBurst>,
    flight: Option<Flight<'r>>,
}

impl<'r> Stages<'r> {
    pub(crate) fn new(table: &'r StageTable, waited: Option<Waited<'r>>, flight: Option<Flight<'r>>) -> Self {
        Self {
            table,
            state: Cell::new(OFF),
            first: Cell::new(Stage::Rest),
            began_ns: Cell::new(0),
            last_ns: Cell::new(0),
            parts: Default::default(),
            seen: Cell::new(0),
            away: Default::default(),
            away_any: Cell::new(false),
            napped_ns: Default::default(),
            once_ns: Cell::new(0),
            held_ns: Cell::new(0),
            readings: Cell::new(0),
            late_ns: Cell::new(0),
            waited,
            waited_ns: Default::default(),
            stretches: Cell::new(0),
            reading_ns: 0,
            moved: 0,
            left: EVERY,
            drawn: 1,
            chosen: false,
            short: false,
            long: false,
            slept: (0, 0),
            counted: (0, 0),
            fill: u32::MAX,
            slowest: Worst::new(),
            flight,
        }
    }

    /// Returns whether the round at hand is timed, or will be if it does something.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.state.get() != OFF
    }

    /// Returns whether the round is timed whatever it does.
    #[inline(always)]
    pub(crate) fn is_timed(&self) -> bool {
        self.state.get() == ON
    }

    /// Notes that the round at hand has found no packets, and is not timed as yet.
    #[inline(always)]
    pub(crate) fn found_none(&self) {
        self.first.set(Stage::EmptyPolls);
    }

    /// Notes that the round at hand does something, though it has received nothing. The time until now was spent on
    /// finding that out.
    #[cold]
    #[inline(never)]
    pub(crate) fn goes_on(&self, now_ns: u64) {
        self.note(self.first.replace(Stage::Rest), now_ns);
    }

    /// Works as [`Stages::goes_on`], and reads the time itself.
    #[cold]
    #[inline(never)]
    pub(crate) fn goes_on_unread(&self, clock: &Clock) {
        self.readings.set(self.readings.get() + 1);
        self.goes_on(clock.now_ns());
    }

    /// Books the work that is done once per reading: only rounds after a reading contain it.
    #[cold]
    #[inline(never)]
    pub(crate) fn read_once(&self, clock: &Clock) {
        self.read(Stage::Rest, clock);
        self.once_ns.set(self.parts[Stage::Rest.index()].get());
    }

    /// Notes that the lane has just slept for `ns` within a round, as its device is down.
    #[cold]
    pub(crate) fn napped(&self, ns: u64) {
        let asleep_ns = ns - self.away(ns, true).min(ns);
        self.table.asleep_ns.add(asleep_ns);
        self.table.call(Stage::Asleep, asleep_ns);
        self.napped_ns.iter().for_each(|napped| napped.set(napped.get() + ns));
    }

    /// Notes that the lane was off its core just now because it chose to.
    #[cold]
    pub(crate) fn chose_to_sleep(&self) {
        if let Some((_, stretches)) = self.waited.as_ref().and_then(|waited| waited()) {
            self.stretches.set(stretches);
        }
    }

    /// Reads the clock for the table, and books the time since the last reading to `stage`.
    #[cold]
    #[inline(never)]
    pub(crate) fn read(&self, stage: Stage, clock: &Clock) {
        self.readings.set(self.readings.get() + 1);
        self.note(stage, clock.now_ns());
    }

    /// Books the time since the last reading to `stage`.
    #[cold]
    #[inline(never)]
    pub(crate) fn note(&self, stage: Stage, now_ns: u64) {
        self.state.set(ON);
        let napped_ns = self.napped_ns[1].replace(0);
        let took_ns = now_ns.saturating_sub(self.last_ns.get() + napped_ns);
        self.last_ns.set(now_ns.max(self.last_ns.get()));
        let at = stage.index();
        self.parts[at].set(self.parts[at].get() + took_ns);
        self.seen.set(self.seen.get() | 1 << at);
        let away_ns = if took_ns > LOOK_NS {
            self.away(took_ns, stage == Stage::Asleep)
        } else {
            0
        };
        if away_ns > 0 {
            self.away[at].set(self.away[at].get() + away_ns);
            self.away_any.set(true);
        }
        // The reading itself is no part of the stage.
        self.table
            .call(stage, (took_ns - away_ns).saturating_sub(self.reading_ns));
    }

    /// Notes that a packet left `ns` after its time.
    #[inline]
    pub(crate) fn late(&self, ns: u64) {
        self.late_ns.set(self.late_ns.get().max(ns));
    }

    /// Notes the fill that a look found in the receive ring, or in the fuller of two.
    pub(crate) fn filled(&mut self, fill: u64) {
        self.fill = fill.min(u64::from(u32::MAX - 1)) as u32;
    }

    /// Notes that a round has moved something.
    #[inline(always)]
    pub(crate) fn moved(&mut self) {
        self.moved += 1;
    }

    /// Notes that the lane slept from `from_ns` until now, and was to sleep until `by_ns` at the latest.
    #[inline]
    pub(crate) fn slept(&mut self, from_ns: u64, by_ns: u64) {
        self.slept = (from_ns, by_ns);
    }

    /// Returns how long of the last `at_most_ns` the lane was away.
    #[cold]
    fn away(&self, at_most_ns: u64, asleep: bool) -> u64 {
        let away_ns = match self.waited.as_ref().and_then(|waited| waited()) {
            Some((now, stretches)) => {
                let waited_ns = now.saturating_sub(self.waited_ns[1].replace(now)).min(at_most_ns);
                // The lane was off its core, had not chosen to, and did not wait for it: stopped, or held in the
                // kernel.
                let held = stretches > self.stretches.replace(stretches) && !asleep;
                match held && at_most_ns - waited_ns > GUESS_NS {
                    true => {
                        self.held_ns.set(self.held_ns.get() + at_most_ns - waited_ns);
                        at_most_ns
                    }
                    false => waited_ns,
                }
            }
            None if asleep => 0,
            None => at_most_ns.saturating_sub(GUESS_NS),
        };
        if away_ns > 0 {
            self.table.away_ns.add(away_ns);
            self.table.call(Stage::Away, away_ns);
        }
        away_ns
    }

    /// Measures the cost of a reading, and reads the kernel's times, before the first round.
    pub(crate) fn begin(&mut self, clock: &Clock) {
        let price_ps = price_ps(|| clock.now_ns());
        self.table.reading_ps.set(price_ps);
        self.reading_ns = price_ps / 1000;
        if let Some((now, stretches)) = self.waited.as_ref().and_then(|waited| waited()) {
            self.stretches.set(stretches);
            self.waited_ns.iter().for_each(|waited| waited.set(now));
        }
    }

    /// Notes the time that was read at the start of a round. `short`: the time is not read at the start of each round.
    /// Returns whether it is to be read at the start of the next.
    #[inline]
    pub(crate) fn fresh(&mut self, now_ns: u64, short: bool, counters: &LaneCounters) -> bool {
        let took_ns = now_ns - self.began_ns.get();
        let plain = self.state.get() == OFF && self.moved > 0 && self.slept.0 == 0;
        if plain && took_ns <= self.slowest.floor().min(LOOK_NS) {
            self.table.busy_ns.add(took_ns);
            self.table.rounds.add(u64::from(self.moved));
        } else {
            self.close(now_ns, took_ns, counters);
        }
        self.left -= 1;
        if self.left == 0 {
            // A linear congruential generator's upper bits (Numerical Recipes): 9 to 23 readings, 16 on the average.
            self.drawn = self.drawn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            self.left = FEWEST + (self.drawn >> 16) % (2 * (EVERY - FEWEST) + 1);
            self.chosen = true;
        } else {
            self.chosen = self.flight.is_some();
        }
        let busy = self.moved > 0;
        if busy {
            self.long = took_ns > LONG_NS * u64::from(self.moved);
        }
        self.moved = 0;
        self.short = short;
        self.state.set(match (self.chosen, self.long, busy) {
            (true, ..) | (false, true, true) => ON,
            (false, true, false) => READY,
            (false, false, _) => OFF,
        });
        self.start(now_ns, counters);
        self.chosen
    }

    #[inline]
    fn start(&mut self, now_ns: u64, counters: &LaneCounters) {
        self.began_ns.set(now_ns);
        self.last_ns.set(now_ns);
        self.counted = (counters.rx_packets.get(), counters.tx_packets.get());
    }

    /// Books the rounds since the last reading, at the start of a round. If the round was timed, it is the only one.
    #[inline(never)]
    fn close(&mut self, now_ns: u64, took_ns: u64, counters: &LaneCounters) {
        if self.began_ns.get() == 0 || took_ns == 0 {
            // The first one begins here.
            return self.clear();
        }
        let (table, busy) = (self.table, self.moved > 0);
        let slept_ns = match self.slept {
            (0, _) => 0,
            (from_ns, _) => now_ns.saturating_sub(from_ns).min(took_ns),
        };
        let awake_to = now_ns - slept_ns;
        let napped_ns = self.napped_ns[0].get().min(took_ns - slept_ns);
        let awake_ns = took_ns - slept_ns - napped_ns;
        let mut away_ns = 0;
        if self.state.get() == ON {
            self.note(if busy { Stage::Rest } else { Stage::Spinning }, awake_to);
            if self.away_any.get() {
                away_ns = self.away.iter().map(Cell::get).sum();
            }
        } else if awake_ns > LOOK_NS {
            away_ns = self.away(awake_ns, false);
        }
        if slept_ns > 0 {
            let away_ns = if slept_ns > LOOK_NS {
                self.away(slept_ns, true)
            } else {
                0
            };
            table.asleep_ns.add(slept_ns - away_ns);
            table.call(Stage::Asleep, slept_ns - away_ns);
        }
        let class = if busy { &table.busy_ns } else { &table.idle_ns };
        class.add(awake_ns.saturating_sub(away_ns));
        match (busy, slept_ns) {
            (true, _) => table.rounds.add(u64::from(self.moved)),
            (false, 0) => table.spins.add(1),
            (false, _) => {}
        }
        // A round that found nothing counts only if it was chosen: the other timed ones all follow a round that moved
        // something.
        if self.state.get() == ON && (busy || self.chosen) {
            self.book(busy);
        }
        if busy && (awake_ns > self.slowest.floor() || self.flight.is_some()) {
            let round = self.round(awake_ns, counters);
            if let Some(flight) = &mut self.flight {
                flight.burst(&round);
            }
            if awake_ns > self.slowest.floor() {
                let away = self.away_parts(away_ns);
                self.slowest.keep(awake_ns, SlowBurst { lane: 0, round, away });
            }
        } else if let Some(flight) = &mut self.flight {
            flight.nothing(self.began_ns.get(), awake_ns, self.counted.1);
        }
        if let Some(flight) = self.flight.as_mut().filter(|_| napped_ns > 0) {
            flight.slept(awake_to - napped_ns, napped_ns, awake_to, counters.tx_packets.get());
        }
        if let Some(flight) = self.flight.as_mut().filter(|_| slept_ns > 0) {
            flight.slept(awake_to, slept_ns, self.slept.1, counters.tx_packets.get());
        }
        self.clear();
    }

    /// Adds the round's parts to the sums.
    fn book(&self, busy: bool) {
        let every = u64::from(EVERY);
        let (weight, once_weight) = match (self.flight.is_some() || self.long && busy, self.short) {
            (true, _) => (1, 1),
            (false, true) => (SHORT_WEIGHT, every),
            (false, false) => (every, every),
        };
        let once_ns = self.once_ns.get().saturating_sub(self.reading_ns);
        for at in bits(self.seen.get()) {
            let mut ns = (self.parts[at].get() - self.away[at].get()).saturating_sub(self.reading_ns);
            if at == Stage::Rest.index() {
                let once_ns = once_ns.min(ns);
                self.table.part(Stage::Rest, once_ns, once_weight, busy);
                ns -= once_ns;
            }
            self.table.part(Stage::ALL[at], ns, weight, busy);
        }
    }

    /// Returns times of stages as the parts of a record; `all_ns` counts if the round is not timed.
    fn by_part(&self, of: &[Cell<u64>; Stage::COUNT], all_ns: u64) -> [u32; Round::STAGES.len()] {
        let part = |stage: Stage| of[stage.index()].get();
        let mut parts = [0; Round::STAGES.len()];
        if self.state.get() == ON {
            let more = |stage: Stage| match stage {
                Stage::Receive => part(Stage::EmptyPolls),
                Stage::Rest => part(Stage::Asleep) + part(Stage::Spinning),
                _ => 0,
            };
            parts = Round::STAGES.map(|stage| cut(part(stage) + more(stage)));
        } else {
            parts[Round::STAGES.len() - 1] = cut(all_ns);
        }
        parts
    }

    /// Returns how long the lane did not have its core in each part of the record, ns. Guessed times count as 0.
    fn away_parts(&self, away_ns: u64) -> [u32; Round::STAGES.len()] {
        match &self.waited {
            Some(_) => self.by_part(&self.away, away_ns),
            None => [0; Round::STAGES.len()],
        }
    }

    /// Returns the record of the rounds at hand.
    fn round(&self, took_ns: u64, counters: &LaneCounters) -> Round {
        let parts = self.by_part(&self.parts, took_ns);
        let (rx, tx) = (counters.rx_packets.get(), counters.tx_packets.get());
        let most = u64::from(u16::MAX);
        Round {
            at_ns: self.began_ns.get(),
            sent_before: self.counted.1,
            parts,
            rx: (rx - self.counted.0).min(most) as u16,
            tx: (tx - self.counted.1).min(most) as u16,
            polls: 0,
            fill: self.fill,
            late_ns: cut(self.late_ns.get()),
            did: Did::Burst,
        }
    }

    fn clear(&mut self) {
        bits(self.seen.replace(0)).for_each(|at| self.parts[at].set(0));
        if self.away_any.replace(false) {
            self.away.iter().for_each(|away| away.set(0));
        }
        self.first.set(Stage::Rest);
        self.once_ns.set(0);
        self.napped_ns.iter().for_each(|napped| napped.set(0));
        self.late_ns.set(0);
        self.slept = (0, 0);
    }

    /// Books the last round. Returns the rounds that took longest.
    pub(crate) fn end(mut self, now_ns: u64, counters: &LaneCounters) -> Vec<SlowBurst> {
        let began = self.began_ns.get();
        // The result of the last round does not say whether packets came in it.
        if self.counted != (counters.rx_packets.get(), counters.tx_packets.get()) {
            self.moved();
        }
        self.close(now_ns.max(began), now_ns.saturating_sub(began), counters);
        if let Some(flight) = &mut self.flight {
            flight.end_stretch();
        }
        self.table.readings.set(self.readings.get());
        if let Some((now, _)) = self.waited.as_ref().and_then(|waited| waited()) {
            let all_ns = now.saturating_sub(self.waited_ns[0].get());
            self.table
                .unplaced_ns
                .set((all_ns + self.held_ns.get()).saturating_sub(self.table.away_ns.get()));
        }
        self.slowest.into_sorted()
    }
}

/// Returns the time of one call of `what`, ps: the least of some tries.
fn price_ps<T>(mut what: impl FnMut() -> T) -> u64 {
    const CALLS: u32 = 32;
    let price = |_| {
        let from = Instant::now();
        (0..CALLS).for_each(|_| {
            std::hint::black_box(what());
        });
        from.elapsed().as_nanos() as u64 * 1000 / u64::from(CALLS)
    };
    (0..8).map(price).min().unwrap_or(0)
}

/// Returns the cost of a reading with all that is booked for it, ps. Called once before the run: it makes a table of
/// its own.
pub(crate) fn mark_ps(clock: &Clock) -> u64 {
    let table = StageTable::default();
    let marks = Stages::new(&table, None, None);
    price_ps(|| marks.read(Stage::Rest, clock))
}

/// Returns the places of the bits that are set, among those that stages have.
#[inline]
fn bits(mut set: u16) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (at < Stage::COUNT).then_some(at)
    })
}

#[cfg(test)]
#[path = "stages_tests.rs"]
mod tests;
