//! What the collector tells while the run goes on: snapshots for the live view, and how the host treats the lanes.

use crate::control::Control;
use mpps_stats::{Collector, LaneCounters, Snapshot};
use mpps_sys::sched;
use std::time::Duration;

/// How often the live view is told.
const SNAPSHOT_NS: u64 = 250_000_000;

/// Samples how long the scheduler and the hypervisor kept lanes from running.
#[derive(Debug, Default)]
pub(crate) struct HostWait {
    run_delay: u64,
    steal: u64,
    begun: bool,
}

impl HostWait {
    /// Wait since the last sample, ns over all lanes.
    pub(crate) fn sample(&mut self, lanes: &[LaneCounters]) -> u64 {
        // A lane that has ended can't be asked any more; the sum then falls and counts as none.
        let run_delay: u64 = lanes
            .iter()
            .filter_map(|lane| sched::run_delay_ns(lane.thread.get() as i32))
            .sum();
        let steal = sched::steal_ns().unwrap_or(0);
        let waited = run_delay.saturating_sub(self.run_delay) + steal.saturating_sub(self.steal);
        let first = !std::mem::replace(&mut self.begun, true);
        (self.run_delay, self.steal) = (run_delay, steal);
        if first { 0 } else { waited }
    }
}

/// Makes snapshots from the lanes' own totals and the rows closed so far.
#[derive(Debug)]
pub(crate) struct Live {
    start_ns: u64,
    pub(crate) next_ns: u64,
    last: (u64, u64, u64),
    closed: (u64, i64),
}

impl Live {
    pub(crate) fn new(start_ns: u64) -> Self {
        Self {
            start_ns,
            next_ns: start_ns + SNAPSHOT_NS,
            last: (start_ns, 0, 0),
            closed: (0, 0),
        }
    }

    pub(crate) fn snapshot(
        &mut self,
        now_ns: u64,
        end_ns: u64,
        planned: Option<Duration>,
        control: &Control,
        lanes: &[LaneCounters],
        collector: &Collector<'_>,
    ) -> Snapshot {
        self.next_ns = now_ns + SNAPSHOT_NS;
        let tx = lanes.iter().map(|l| l.tx_packets.get()).sum();
        let rx = lanes.iter().map(|l| l.rx_test.get()).sum();
        let (then, tx_then, rx_then) = std::mem::replace(&mut self.last, (now_ns, tx, rx));
        let seconds = (now_ns - then).max(1) as f64 / 1e9;
        let closed = collector.so_far();
        let (sent, lost) = (closed.0 - self.closed.0, closed.1 - self.closed.1);
        self.closed = closed;
        Snapshot {
            elapsed_ns: now_ns.saturating_sub(self.start_ns),
            planned_ns: planned.map(|d| d.as_nanos() as u64),
            settling: now_ns >= end_ns,
            tx,
            rx,
            tx_pps: tx.saturating_sub(tx_then) as f64 / seconds,
            rx_pps: rx.saturating_sub(rx_then) as f64 / seconds,
            closed_ns: collector.closed_ns(),
            closed_tx: closed.0,
            closed_lost: closed.1,
            recent_loss_ratio: if sent == 0 {
                0.0
            } else {
                (lost.max(0) as f64 / sent as f64).min(1.0)
            },
            host_dropped: collector.host_dropped(),
            recent_latency: collector.recent_latency(),
            notes: control.notes(),
        }
    }
}
