//! The collector's loop: the main thread's work in a run while its lanes work.
//!
//! The main thread usually shares its core with a lane. So it sleeps nearly always, and does nothing that no sink
//! wants. It wakes when a row ends, or every 100 ms if rows are longer or of no interest, or at once for a signal or a
//! lane that has ended.

use crate::lane::away::Away;
use crate::plan::{Common, LanePlan};
use crate::run::control::Control;
use crate::run::flight::Keeper;
use crate::run::job::Job;
use crate::run::live::{self, HostWait, Live};
use crate::verdict::host_drops::{self, HostDrops};
use crate::verdict::withheld::Quotas;
use mpps_io::around::Watch;
use mpps_stats::{Collector, Event, FillGauge, LaneCounters, LanesSoFar, LiveLane, Sink, Timing, Wants};
use mpps_sys::clock::ClockSource;
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
    if sum(|lane| lane.rx_test.get()) < sum(|lane| lane.tx_packets.get()) {
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

/// Runs the collector until every lane has ended.
#[allow(clippy::too_many_arguments)]
pub(crate) fn collect(
    job: &dyn Job,
    (control, common, counters): (&Control, &Common, &[LaneCounters]),
    collector: &mut Collector<'_>,
    (drops, quotas, away, keeper): (&mut [HostDrops<'_>], &mut Quotas<'_>, &Away<'_>, &mut Keeper<'_>),
    watches: &mut Watches,
    clocks: &mut ClockSource,
    timing: Timing,
    host: &mut HostWait,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> Collected {
    let wants = sinks.iter().fold(Wants::default(), |all, sink| all.and(sink.wants()));
    collector.set_wants(wants);
    let clock = clocks.clock();
    let ticks = Ticks::new(timing);
    let mut asked = 0;
    let mut told = 0;
    let mut end_told = false;
    let mut live = Live::new(timing.start_ns, live::ways_of(job, common.lanes.len()));
    let mut collected = Collected::default();
    let mut row_at = timing.start_ns;
    let mut lanes_at = collector.next_reading_ns(timing.start_ns);
    let mut so_far = Vec::with_capacity(if wants.lanes { counters.len() } else { 0 });
    let mut lanes_work = false;
    let mut discipline_at = 0;
    let mut quiet_at = None;
    let mut now = clock.now_ns();
    let mut awake_since = sched::thread_cpu_ns();
    loop {
        let end_ns = control.end_ns();
        let mut until = ticks.wake(now, discipline_at);
        if now < end_ns {
            until = until.min(end_ns);
        }
        until = until.min(quiet_at.unwrap_or(u64::MAX).max(now));
        collected.longest_ns = collected.longest_ns.max(sched::thread_cpu_ns() - awake_since);
        away.sleeps_until(until.max(now));
        sleep(control, watches, Duration::from_nanos(until.saturating_sub(now)));
        awake_since = sched::thread_cpu_ns();
        now = clock.now_ns();
        away.look(now);
        look_around(watches, now, control);
        if !lanes_work && now >= timing.start_ns {
            lanes_work = true;
            host.restart();
            collected.longest_ns = 0;
        }
        if ticks.is_near(now, discipline_at) {
            discipline_at = now + clocks.discipline().as_nanos() as u64;
            now = clock.now_ns();
        }
        if interruptions() > asked {
            asked = interruptions();
            collected.interrupted = true;
            if now < control.end_ns() {
                control.end_at(now.max(timing.start_ns + 1) + job.notice_ns());
            } else {
                control.settle_end_at(now);
            }
        }
        if control.panicked() {
            control.end_at(now);
            control.settle_end_at(now);
        }
        let end_ns = control.end_ns();
        if now >= end_ns && !end_told {
            end_told = true;
            collector.set_end(end_ns);
        }
        // Once only: afterwards the collector sleeps until the lanes have ended.
        if common.settle_early && now >= end_ns && control.settle_end_ns() == u64::MAX {
            quiet_at = settled_early(common, counters, end_ns);
            if quiet_at.take_if(|at| now >= *at).is_some() {
                control.settle_end_at(now);
            }
        }
        // Once per row, when it ends.
        if wants.host_wait && collector.tells_host_wait() && now >= row_at {
            let (waited, own) = host.sample();
            collector.note_host_wait(ticks.last(now), waited, own);
            let rows = timing.row_of(now) + 1;
            row_at = timing.start_ns + (rows * timing.interval_ns).max(ticks.next(now) - timing.start_ns);
        }
        // Before the row that the drops belong to is handed on.
        host_drops::look(drops, now, job, collector);
        if lanes_work {
            quotas.look(now);
        }
        // If the end has not been reported yet, only rows that end before it may close.
        if end_told || now < end_ns {
            collector.poll(sinks);
        }
        keeper.look(
            now,
            (collector.closed_ns(), collector.so_far().1),
            collector.host_dropped(),
        );
        // The last notes are shown, too: every lane that adds notes has ended by now.
        let ended = control.ended() == common.lanes.len();
        for note in control.notes_from(&mut told) {
            sinks.iter_mut().for_each(|sink| sink.event(&Event::Note(&note)));
        }
        if wants.lanes && now > timing.start_ns && (now >= lanes_at || ended) {
            lanes_at = collector.next_reading_ns(now);
            so_far.clear();
            if wants.host_wait && !collector.tells_host_wait() {
                host.look();
            }
            let waited = host.waited_by_lane();
            so_far.extend(counters.iter().enumerate().map(|(number, lane)| LiveLane {
                queue: job.queue_number(number),
                not_running_ns: waited.get(number).copied().flatten().filter(|_| wants.host_wait),
                rx_fill_highest_ppm: lane.fill.iter().map(FillGauge::take_recent_ppm).max().unwrap_or(0),
                ..LiveLane::from(lane)
            }));
            host_drops::note_by_lane(drops, &mut so_far);
            let at_ns = now - timing.start_ns;
            let lanes = LanesSoFar {
                at_ns,
                lanes: &so_far,
                host_wait_ns: wants.host_wait.then(|| host.waited_ns()),
            };
            sinks.iter_mut().for_each(|sink| sink.event(&Event::Lanes(lanes)));
        }
        if wants.snapshots && live.is_due(now, ticks.tick_ns) {
            let snapshot = live.snapshot(now, end_ns, common.duration, counters, collector);
            sinks.iter_mut().for_each(|sink| sink.event(&Event::Live(&snapshot)));
        }
        if ended {
            return collected;
        }
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
