//! The collector's loop: the main thread's work in a run while its lanes work.
//!
//! The main thread usually shares its core with a lane. So it sleeps nearly always, and does nothing that no sink
//! wants. It wakes when a row ends, or every 100 ms if rows are longer or of no interest, or at once for a signal or a
//! lane that has ended.

use crate::lane::away::Away;
use crate::lane::control::Control;
use crate::plan::{Common, LanePlan};
use crate::run::flight::Keeper;
use crate::run::host_drops::{self, HostDrops};
use crate::run::job::Job;
use crate::run::live::{self, HostWait, Live};
use crate::verdict::withheld::Quotas;
use mpps_io::around::Watch;
use mpps_stats::{Collector, Event, FillGauge, LaneCounters, LanesSoFar, LiveLane, Sink, Timing, Wants};
use mpps_sys::clock::{Clock, ClockSource};
use mpps_sys::{sched, signal, wake};
use std::time::Duration;

/// Rows shorter than this are collected several at a time, ns.
const LEAST_TICK_NS: u64 = 20_000_000;
/// Longest sleep, ns: the clock is kept true, and a request to end without a signal is noticed.
const LONGEST_TICK_NS: u64 = 100_000_000;

/// Quiet time, once every packet is back, after which receiving ends early, ns; at most the settle time.
const QUIET_NS: u64 = 50_000_000;

/// Time at which receiving may end before the settle time is over, ns. `None` while packets are missing or a lane still
/// sends.
fn settled_early(common: &Common, counters: &[LaneCounters], end_ns: u64) -> Option<u64> {
    let sending = |(lane, counters): (&LanePlan, &LaneCounters)| lane.tx && counters.phase.get() == 0;
    if common.lanes.iter().zip(counters).any(sending) {
        return None;
    }
    let sum = |of: fn(&LaneCounters) -> u64| counters.iter().map(of).sum::<u64>();
    let awaited = sum(|lane| lane.tx_packets.get()).saturating_sub(sum(|lane| lane.tx_untagged.get()));
    if sum(|lane| lane.rx_test.get()) < awaited {
        return None;
    }
    let last_ns = counters.iter().map(|lane| lane.last_rx_ns.get()).max();
    Some(last_ns.unwrap_or(0).max(end_ns) + QUIET_NS.min(common.settle.as_nanos() as u64))
}

/// Findings of a run's collector beside the statistics.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Collected {
    /// The run was interrupted.
    pub(crate) interrupted: bool,
    /// The longest stretch of work between two sleeps, ns of processor time.
    pub(crate) longest_ns: u64,
}

/// When the collector looks at the rows: as rows end, so that what was sampled meanwhile is a row's.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    start_ns: u64,
    tick_ns: u64,
}

impl Ticks {
    fn new(timing: Timing) -> Self {
        let interval = timing.interval_ns;
        let tick_ns = if interval < LEAST_TICK_NS {
            interval * LEAST_TICK_NS.div_ceil(interval)
        } else {
            interval / interval.div_ceil(LONGEST_TICK_NS)
        };
        Self {
            start_ns: timing.start_ns,
            tick_ns,
        }
    }

    /// Returns the last tick up to `now_ns`.
    fn last(self, now_ns: u64) -> u64 {
        self.start_ns + now_ns.saturating_sub(self.start_ns) / self.tick_ns * self.tick_ns
    }

    /// Returns the first tick after `now_ns`.
    fn next(self, now_ns: u64) -> u64 {
        if now_ns < self.start_ns {
            return self.start_ns;
        }
        self.last(now_ns) + self.tick_ns
    }

    /// Returns when to wake after `now_ns`, if the clock's next pair is due at `clock_ns`. If a look at the rows is
    /// near, before or after, the pair is taken with it: that saves a wake-up.
    fn wake(self, now_ns: u64, clock_ns: u64) -> u64 {
        let tick = self.next(now_ns);
        if clock_ns + self.tick_ns / 2 < tick {
            clock_ns.max(now_ns)
        } else {
            tick
        }
    }

    /// Returns whether a look at `now_ns` takes the clock's pair, too.
    fn is_near(self, now_ns: u64, clock_ns: u64) -> bool {
        now_ns + self.tick_ns / 2 >= clock_ns
    }
}

/// Parts of a trial that its collector works with.
pub(crate) struct Parts<'c, 'r, 'k> {
    pub(crate) job: &'c dyn Job,
    pub(crate) control: &'c Control,
    pub(crate) common: &'c Common,
    pub(crate) counters: &'c [LaneCounters],
    pub(crate) timing: Timing,
    pub(crate) collector: &'c mut Collector<'r>,
    /// Collector of streams, groups and sizes, if there are some.
    pub(crate) by_stream: Option<&'c mut Collector<'r>>,
    pub(crate) drops: &'c mut [HostDrops<'r>],
    pub(crate) quotas: &'c mut Quotas<'r>,
    pub(crate) away: Away<'c>,
    pub(crate) keeper: &'c mut Keeper<'k>,
    pub(crate) watches: &'c mut Watches,
    pub(crate) clocks: &'c mut ClockSource,
    pub(crate) host: &'c mut HostWait,
    pub(crate) sinks: &'c mut [Box<dyn Sink>],
    pub(crate) interruptions: &'c dyn Fn() -> u32,
}

/// Runs the collector until every lane has ended.
pub(crate) fn collect(parts: Parts<'_, '_, '_>) -> Collected {
    Loop::new(parts).run()
}

/// State of the collector's loop.
struct Loop<'c, 'r, 'k> {
    of: Parts<'c, 'r, 'k>,
    wants: Wants,
    clock: Clock,
    ticks: Ticks,
    live: Live,
    collected: Collected,
    /// Time of this pass, ns.
    now: u64,
    /// Processor time of the thread when it last woke, ns.
    awake_since: u64,
    /// The start has come.
    lanes_work: bool,
    /// Interruptions that were heeded.
    interruptions: u32,
    /// Notes that the sinks have.
    notes: usize,
    /// The collector of rows knows the end.
    end_is_set: bool,
    /// Times of the next sample of the host's waits, of the next counters of the lanes, and of the clock's next pair.
    row_at: u64,
    lanes_at: u64,
    discipline_at: u64,
    /// Time at which receiving ends early.
    quiet_at: Option<u64>,
    /// Counters of the lanes, filled again each time.
    so_far: Vec<LiveLane>,
}

impl<'c, 'r, 'k> Loop<'c, 'r, 'k> {
    fn new(mut of: Parts<'c, 'r, 'k>) -> Self {
        let wants = of
            .sinks
            .iter()
            .fold(Wants::default(), |all, sink| all.and(sink.wants()));
        of.collector.set_wants(wants);
        if let Some(by_stream) = of.by_stream.as_deref_mut() {
            by_stream.set_wants(wants);
        }
        let (clock, start_ns) = (of.clocks.clock(), of.timing.start_ns);
        Self {
            wants,
            ticks: Ticks::new(of.timing),
            live: Live::new(start_ns, live::tracks_of(of.job, of.common.lanes.len())),
            collected: Collected::default(),
            lanes_work: false,
            interruptions: 0,
            notes: 0,
            end_is_set: false,
            row_at: start_ns,
            lanes_at: of.collector.next_reading_ns(start_ns),
            discipline_at: 0,
            quiet_at: None,
            so_far: Vec::with_capacity(if wants.lanes { of.counters.len() } else { 0 }),
            now: clock.now_ns(),
            awake_since: sched::thread_cpu_ns(),
            clock,
            of,
        }
    }

    fn run(mut self) -> Collected {
        loop {
            self.sleep();
            look_around(self.of.watches, self.now, self.of.control);
            self.see_start();
            self.discipline();
            self.heed_interruptions();
            let end_ns = self.of.control.end_ns();
            self.see_end(end_ns);
            self.settle_early(end_ns);
            self.sample_host_wait();
            self.close_rows(end_ns);
            let ended = self.of.control.ended() == self.of.common.lanes.len();
            self.report_notes();
            self.report_lanes(ended);
            self.report_snapshot(end_ns);
            if ended {
                return self.collected;
            }
        }
    }

    /// Sleeps until there is something to do.
    fn sleep(&mut self) {
        let control = self.of.control;
        let end_ns = control.end_ns();
        let mut until = self.ticks.wake(self.now, self.discipline_at);
        if self.now < end_ns {
            until = until.min(end_ns);
        }
        until = until.min(self.quiet_at.unwrap_or(u64::MAX).max(self.now));
        let worked_ns = sched::thread_cpu_ns() - self.awake_since;
        self.collected.longest_ns = self.collected.longest_ns.max(worked_ns);
        self.of.away.sleeps_until(until.max(self.now));
        let timeout = Duration::from_nanos(until.saturating_sub(self.now));
        sleep(control, self.of.watches, timeout);
        self.awake_since = sched::thread_cpu_ns();
        self.now = self.clock.now_ns();
        self.of.away.look(self.now);
    }

    /// Begins the host's sums, once the start has come.
    fn see_start(&mut self) {
        if !self.lanes_work && self.now >= self.of.timing.start_ns {
            self.lanes_work = true;
            self.of.host.restart();
            self.collected.longest_ns = 0;
        }
    }

    /// Takes the clock's next pair if that is due.
    fn discipline(&mut self) {
        if self.ticks.is_near(self.now, self.discipline_at) {
            self.discipline_at = self.now + self.of.clocks.discipline().as_nanos() as u64;
            self.now = self.clock.now_ns();
        }
    }

    /// Ends the sending, or else the settling, if the user asks for it; both if a lane has panicked.
    fn heed_interruptions(&mut self) {
        let (control, now) = (self.of.control, self.now);
        if (self.of.interruptions)() > self.interruptions {
            self.interruptions = (self.of.interruptions)();
            self.collected.interrupted = true;
            if now < control.end_ns() {
                control.end_at(now.max(self.of.timing.start_ns + 1) + self.of.job.notice_ns());
            } else {
                control.settle_end_at(now);
            }
        }
        if control.panicked() {
            control.end_at(now);
            control.settle_end_at(now);
        }
    }

    fn see_end(&mut self, end_ns: u64) {
        if self.now >= end_ns && !self.end_is_set {
            self.end_is_set = true;
            self.of.collector.set_end(end_ns);
            if let Some(by_stream) = self.of.by_stream.as_deref_mut() {
                by_stream.set_end(end_ns);
            }
        }
    }

    /// Ends receiving early if that is allowed and every packet is back.
    fn settle_early(&mut self, end_ns: u64) {
        let (control, now) = (self.of.control, self.now);
        // Once only: afterwards the collector sleeps until the lanes have ended.
        if self.of.common.settle_early && now >= end_ns && control.settle_end_ns() == u64::MAX {
            self.quiet_at = settled_early(self.of.common, self.of.counters, end_ns);
            if self.quiet_at.take_if(|at| now >= *at).is_some() {
                control.settle_end_at(now);
            }
        }
    }

    /// Samples the host's waits once per row, when it ends.
    fn sample_host_wait(&mut self) {
        let (now, timing) = (self.now, self.of.timing);
        if self.wants.host_wait && self.of.collector.tells_host_wait() && now >= self.row_at {
            let (waited, own) = self.of.host.sample();
            self.of.collector.note_host_wait(self.ticks.last(now), waited, own);
            let rows = timing.row_of(now) + 1;
            let next = self.ticks.next(now) - timing.start_ns;
            self.row_at = timing.start_ns + (rows * timing.interval_ns).max(next);
        }
    }

    /// Reads drops and quotas, hands rows that have closed to the sinks, and keeps rounds of the lanes.
    fn close_rows(&mut self, end_ns: u64) {
        let (of, now) = (&mut self.of, self.now);
        // Before the row that the drops belong to is handed on.
        host_drops::look(of.drops, now, of.job, of.collector);
        if self.lanes_work {
            of.quotas.look(now);
        }
        // If the end has not been reported yet, only rows that end before it may close.
        if self.end_is_set || now < end_ns {
            of.collector.poll(of.sinks);
            if let Some(by_stream) = of.by_stream.as_deref_mut() {
                by_stream.poll(of.sinks);
            }
        }
        let closed = (of.collector.closed_ns(), of.collector.so_far().1);
        if let Some(streams) = &of.common.streams {
            streams.note(closed.0, of.collector.so_far(), of.collector.so_far_of_tracks());
        }
        of.keeper.look(now, closed, of.collector.host_dropped());
    }

    /// Hands new notes to the sinks. The last notes are shown, too: every lane that adds notes has ended by then.
    fn report_notes(&mut self) {
        for note in self.of.control.notes_from(&mut self.notes) {
            self.event(&Event::Note(&note));
        }
    }

    /// Hands the counters of the lanes to the sinks, if they are due or the lanes have ended.
    fn report_lanes(&mut self, ended: bool) {
        let (of, now, wants) = (&mut self.of, self.now, self.wants);
        if !wants.lanes || now <= of.timing.start_ns || now < self.lanes_at && !ended {
            return;
        }
        self.lanes_at = of.collector.next_reading_ns(now);
        self.so_far.clear();
        if wants.host_wait && !of.collector.tells_host_wait() {
            of.host.look();
        }
        let waited = of.host.waited_by_lane();
        self.so_far
            .extend(of.counters.iter().enumerate().map(|(number, lane)| LiveLane {
                queue: of.job.queue_number(number),
                not_running_ns: waited.get(number).copied().flatten().filter(|_| wants.host_wait),
                rx_fill_highest_ppm: lane.fill.iter().map(FillGauge::take_recent_ppm).max().unwrap_or(0),
                ..LiveLane::from(lane)
            }));
        host_drops::note_by_lane(of.drops, &mut self.so_far);
        let lanes = LanesSoFar {
            at_ns: now - of.timing.start_ns,
            lanes: &self.so_far,
            host_wait_ns: wants.host_wait.then(|| of.host.waited_ns()),
        };
        of.sinks.iter_mut().for_each(|sink| sink.event(&Event::Lanes(lanes)));
    }

    /// Hands the state of the run to the sinks, if it is due.
    fn report_snapshot(&mut self, end_ns: u64) {
        let (of, now) = (&self.of, self.now);
        if self.wants.snapshots && self.live.is_due(now, self.ticks.tick_ns) {
            let duration = of.common.duration;
            let snapshot = self.live.snapshot(now, end_ns, duration, of.counters, of.collector);
            self.event(&Event::Live(&snapshot));
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        self.of.sinks.iter_mut().for_each(|sink| sink.event(event));
    }
}

/// Watches of interfaces, each with the place of its port.
pub(crate) type Watches = Vec<(usize, Box<dyn Watch>)>;

/// Looks for changes around the ports, and stops sending while a path would lose packets without an error. The run ends
/// if a port can no longer be used.
fn look_around(watches: &mut Watches, now_ns: u64, control: &Control) {
    let closed = |(port, watch): &mut (usize, Box<dyn Watch>)| {
        let open = watch.look(now_ns);
        if let Some(why) = watch.gone() {
            control.device_gone(now_ns, &why);
        }
        (!open).then(|| (*port, watch.interface().to_owned()))
    };
    control.set_closed(watches.iter_mut().filter_map(closed));
}

/// Sleeps for `timeout`, or until a signal comes, a lane ends or an interface changes.
fn sleep(control: &Control, watches: &Watches, timeout: Duration) {
    let lanes = control.waker();
    let signals = signal::waker().unwrap_or(lanes);
    // If even this fails, the only way left is to look again soon.
    let news = watches.iter().filter_map(|(_, watch)| watch.descriptor());
    if wake::sleep_beside([lanes, signals], news, timeout).is_err() {
        std::thread::sleep(timeout.min(Duration::from_millis(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_io::around::Surroundings;
    use std::os::fd::BorrowedFd;

    struct Link(bool);

    impl Watch for Link {
        fn interface(&self) -> &str {
            "eth7"
        }
        fn descriptor(&self) -> Option<BorrowedFd<'_>> {
            None
        }
        fn look(&mut self, _: u64) -> bool {
            self.0
        }
        fn gone(&self) -> Option<String> {
            (!self.0).then(|| "eth7 is gone".to_owned())
        }
        fn end(self: Box<Self>, _: u64) -> Surroundings {
            Surroundings::default()
        }
    }

    #[test]
    fn a_port_whose_link_is_down_keeps_only_those_from_sending_that_send_by_it() {
        let control = Control::new().expect("eventfd");
        for links in [[true, false], [false, true], [true, true], [false, false]] {
            let watch = |(port, open): (usize, bool)| (port, Box::new(Link(open)) as Box<dyn Watch>);
            let mut watches: Watches = links.into_iter().enumerate().map(watch).collect();
            look_around(&mut watches, 5, &control);
            assert_eq!([control.may_send(0), control.may_send(1)], links);
            let named = links.map(|open| if open { "" } else { "eth7" });
            assert_eq!([control.closed_by(0), control.closed_by(1)], named);
        }
    }

    #[test]
    fn a_port_that_is_gone_ends_the_run_and_says_why() {
        let control = Control::new().expect("eventfd");
        let mut watches: Watches = vec![(0, Box::new(Link(true)))];
        look_around(&mut watches, 5, &control);
        assert!(!control.gone());
        watches[0].1 = Box::new(Link(false));
        look_around(&mut watches, 7, &control);
        assert!(control.gone());
        assert_eq!(control.end_ns(), 7);
        assert_eq!(control.notes_from(&mut 0), ["eth7 is gone: the run ended early"]);
    }

    #[test]
    fn the_collector_looks_as_rows_end_and_neither_too_often_nor_too_rarely() {
        for interval_us in [100, 333, 1_000, 7_000, 20_000, 21_000, 100_000, 150_000, 1_000_000] {
            let timing = Timing {
                start_ns: 77,
                interval_ns: interval_us * 1_000,
                settle_ns: 0,
            };
            let ticks = Ticks::new(timing);
            assert!((LEAST_TICK_NS..=LONGEST_TICK_NS).contains(&ticks.tick_ns) || ticks.tick_ns < 2 * LEAST_TICK_NS);
            let whole = |a: u64, b: u64| a.is_multiple_of(b) || b.is_multiple_of(a);
            assert!(
                whole(ticks.tick_ns, timing.interval_ns),
                "{interval_us}: {}",
                ticks.tick_ns
            );
            assert_eq!(ticks.next(0), 77, "before the start");
            assert_eq!(ticks.next(77), 77 + ticks.tick_ns);
            assert_eq!(ticks.last(76 + ticks.tick_ns), 77);
            assert_eq!(ticks.last(77 + ticks.tick_ns), 77 + ticks.tick_ns);
        }
    }

    #[test]
    fn the_clock_costs_no_wake_up_of_its_own_where_rows_are_as_far_apart_as_its_pairs() {
        let timing = Timing {
            start_ns: 1_000_000,
            interval_ns: 100_000_000,
            settle_ns: 0,
        };
        let ticks = Ticks::new(timing);
        for phase in (0..100).map(|ms| ms * 1_000_000) {
            let (mut now, mut clock_at, mut pairs) = (timing.start_ns, timing.start_ns + phase, 0);
            for _ in 0..50 {
                // Every thread wakes a little late.
                now = ticks.wake(now, clock_at) + 60_000;
                if ticks.is_near(now, clock_at) {
                    clock_at = now + 100_000_000;
                    pairs += 1;
                }
            }
            let looks = (now - timing.start_ns) / ticks.tick_ns;
            assert!(looks >= 48, "{phase}: {looks} looks at rows by 50 wake-ups");
            assert!(pairs >= 48, "{phase}: {pairs} pairs");
        }
        // Pairs that are wanted sooner get wake-ups.
        assert_eq!(
            ticks.wake(timing.start_ns, timing.start_ns + 20_000_000),
            timing.start_ns + 20_000_000
        );
    }
}
