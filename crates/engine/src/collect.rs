//! The collector's loop: what the main thread of a run does while its lanes work.

use crate::away::Away;
use crate::host_drops::HostDrops;
use crate::job::Job;
use crate::live::{HostWait, Live};
use crate::outcome::LaneOutcome;
use crate::run::Shared;
use mpps_stats::{Collector, LaneCounters, Sink, Timing};
use mpps_sys::clock::ClockSource;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

/// How often the collector looks.
pub(crate) const TICK: Duration = Duration::from_millis(20);

/// The collector's loop. True when the run was interrupted.
#[allow(clippy::too_many_arguments)]
pub(crate) fn collect<J: Job>(
    collector: &mut Collector<'_>,
    (drops, away): (&mut HostDrops, &Away<'_>),
    clocks: &mut ClockSource,
    timing: Timing,
    shared: &Shared<'_, J>,
    threads: &[ScopedJoinHandle<'_, Option<LaneOutcome>>],
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> bool {
    let clock = clocks.clock();
    let mut was_interrupted = false;
    let mut asked = 0;
    let mut end_told = false;
    let mut host = HostWait::default();
    let mut live = Live::new(timing.start_ns);
    loop {
        away.sleeps_until(clock.now_ns() + TICK.as_nanos() as u64);
        thread::sleep(TICK);
        clocks.discipline();
        let now = clock.now_ns();
        away.look(now);
        if interruptions() > asked {
            asked = interruptions();
            was_interrupted = true;
            if now < shared.control.end_ns() {
                shared
                    .control
                    .end_at(now.max(timing.start_ns + 1) + shared.job.notice_ns());
            } else {
                shared.control.settle_end_at(now);
            }
        }
        let panicked = |(t, c): (&ScopedJoinHandle<'_, _>, &LaneCounters)| t.is_finished() && c.phase.get() != 2;
        if threads.iter().zip(shared.counters).any(panicked) {
            shared.control.end_at(now);
            shared.control.settle_end_at(now);
        }
        let end_ns = shared.control.end_ns();
        if now >= end_ns && !end_told {
            end_told = true;
            collector.set_end(end_ns);
        }
        collector.note_host_wait(now, host.sample(shared.counters));
        // Before the row that it belongs to is handed on.
        drops.look(now, shared.job, collector);
        // Rows of the last sending may close before the end is told only if they end before it.
        if end_told || now < end_ns {
            collector.poll(sinks);
        }
        if now >= live.next_ns {
            let snapshot = live.snapshot(
                now,
                end_ns,
                shared.common.duration,
                shared.control,
                shared.counters,
                collector,
            );
            for sink in sinks.iter_mut() {
                sink.snapshot(&snapshot);
            }
        }
        if threads.iter().all(ScopedJoinHandle::is_finished) {
            return was_interrupted;
        }
    }
}
