//! A lane that sends: one call into the kernel for the whole run.
//!
//! Getting out of that call takes tens of milliseconds, so the program paces itself and the thread comes back only once
//! the schedule is at its end or the reader asks for it.

use super::trouble;
use crate::lane::Lane;
use crate::outcome::LaneOutcome;
use mpps_io::kernel::KernelPort;
use mpps_stats::{Histogram, Moments, Recorder};
use std::sync::atomic::{AtomicBool, Ordering};

/// State by which the reader gets a sending lane out of the kernel.
#[derive(Debug, Default)]
pub(super) struct Exit {
    /// The reader has asked the lane to leave the kernel. Written by the reader.
    asked: AtomicBool,
    /// The lane has left. Written by the lane.
    out: AtomicBool,
}

impl Exit {
    /// Asks the lane to leave. A lane that is about to enter the kernel may miss this: it must be repeated, with
    /// [`KernelPort::interrupt`], until the lane is out.
    pub(super) fn ask(&self, port: &dyn KernelPort, lane: usize) {
        self.asked.store(true, Ordering::Release);
        port.interrupt(lane);
    }

    /// Returns whether the lane will enter the kernel no more.
    pub(super) fn is_out(&self) -> bool {
        self.out.load(Ordering::Acquire)
    }

    fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }
}

/// Notes that the lane is out even if it panics: the reader waits for it.
struct Leaving<'r>(&'r Exit);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.out.store(true, Ordering::Release);
    }
}

/// Runs lane `index` until its schedule is at its end or it is asked to leave. `counted`: number of packets that it
/// sends; the last one of all lanes ends the run.
pub(super) fn run(
    port: &dyn KernelPort,
    index: usize,
    lane: &Lane<'_>,
    recorder: Recorder<'_>,
    exit: &Exit,
    counted: Option<u64>,
) -> LaneOutcome {
    let preempted = mpps_sys::sched::preemptions();
    // The reader books what this lane sends, so no row waits for the lane.
    recorder.end();
    lane.books().end();
    let leaving = Leaving(exit);
    while !exit.is_asked() && !lane.control.gone() {
        match port.send(index) {
            Ok(()) => {}
            Err(_) if exit.is_asked() => break,
            Err(error) => trouble(lane, &error),
        }
        let totals = port.lane_totals(index);
        if totals.done {
            // The time may have been over before.
            if counted.is_some_and(|share| totals.packets >= share) {
                lane.control.sent_all(totals.last_ns);
            }
            break;
        }
    }
    drop(leaving);
    let mut gaps = Histogram::default();
    let moments = port.gaps(index, &mut |bucket, n| gaps.add_bucket(bucket, n));
    lane.counters.phase.set(2);
    LaneOutcome {
        gaps: Some((gaps, Moments::new(moments.count, moments.sum, moments.min, moments.max))),
        sent: Some(port.lane_totals(index)),
        preempted: mpps_sys::sched::preemptions() - preempted,
        ..LaneOutcome::default()
    }
}
