//! What happens in a run, in order: the one stream that files, views and other programs read.

use crate::{BurstSizes, LaneCounters, Latency, Row, Started, Summary, Workload};
use mpps_trace::Stage;
use serde::{Deserialize, Serialize};

/// Something that happens in a run.
///
/// A stream is [`Event::Start`], any number of the others in the order in which they happen, and one [`Event::End`]:
/// none of them where the run did not begin. Rows come in order, without gaps. What nobody wants ([`Wants`]) may be
/// missing.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The run begins.
    Start(Start),
    /// A row has closed. Where packets go in several ways it is the sum of their rows.
    Row(&'a Row),
    /// Where packets go in several ways: a row of one of them, before the row of all.
    RowOfWay(usize, &'a Row),
    /// A period's latencies are complete.
    Period(Period<'a>),
    /// As [`Event::Period`], of one of several ways, after that of all.
    PeriodOfWay(usize, Period<'a>),
    /// What the lanes have done so far, read at the end of a row, or of as many rows as are 100 ms, and at the end of
    /// the run.
    Lanes(LanesSoFar<'a>),
    /// How it stands, about every 250 ms.
    Live(&'a Snapshot),
    /// Something that the user is to know at once: a device down, a disk full. Each is told once; what the summary's
    /// warnings say of the whole run is more.
    Note(&'a str),
    /// The run is over, and this is its result. Where a lane has panicked it is not valid, holds no more than the
    /// packets sent and received until then, and the run's error tells the same.
    End(&'a Summary),
}

/// What a run is, and when it begins.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Start {
    /// What it does.
    pub workload: Workload,
    /// The ways in which packets go at the same time, by name; none where they go in one.
    pub ways: &'static [&'static str],
    /// When.
    pub started: Started,
    /// Rate asked for, packets/s over all ways; `None` when not paced.
    pub intended_pps: Option<f64>,
    /// Another rate, packets/s, from a time after the start on, ns.
    pub then_pps: Option<(u64, f64)>,
    /// How far the offered rate of a valid run may be off the intended one, part of it.
    pub tolerance: f64,
}

impl Start {
    /// Rate asked for at a time after the start, packets/s.
    pub fn intended_at(&self, elapsed_ns: u64) -> Option<f64> {
        match self.then_pps {
            Some((at_ns, pps)) if elapsed_ns >= at_ns => Some(pps),
            _ => self.intended_pps,
        }
    }

    /// Packets that were to be sent by a time after the start.
    pub fn due_by(&self, elapsed_ns: u64) -> Option<f64> {
        let first = self.intended_pps?;
        let (at_ns, then) = self.then_pps.unwrap_or((u64::MAX, 0.0));
        let before = elapsed_ns.min(at_ns);
        Some((first * before as f64 + then * (elapsed_ns - before) as f64) / 1e9)
    }
}

/// The latencies of one period: 100 ms, or a row if that is longer.
#[derive(Clone, Copy, Debug)]
pub struct Period<'a> {
    /// From the start of the run, ns.
    pub start_ns: u64,
    /// ns.
    pub length_ns: u64,
    /// Latency, ns, and how many packets had it; none is empty.
    pub buckets: &'a [(u64, u64)],
    /// The same of the latency from the scheduled time; empty where nobody wants that, and where it is not paced.
    pub scheduled: &'a [(u64, u64)],
}

/// What the lanes have counted since the start.
#[derive(Clone, Copy, Debug)]
pub struct LanesSoFar<'a> {
    /// When they were read, ns since the start: those of one lane after those of another.
    pub at_ns: u64,
    /// In their order.
    pub lanes: &'a [LiveLane],
    /// Time that scheduler and hypervisor kept lanes from running, over all lanes, ns: the sum of
    /// [`LiveLane::not_running_ns`] and what the hypervisor took; `None`: nobody wanted it.
    pub host_wait_ns: Option<u64>,
}

/// What a lane has counted so far: see [`LaneCounters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveLane {
    /// Frames received, the test's or not.
    pub rx_packets: u64,
    /// Receive calls that gave frames.
    pub rx_bursts: u64,
    /// Those by how many frames they gave: 1, 2 to 3, 4 to 7, and so on to 128 to 255, and 256.
    pub rx_bursts_by_power: [u64; BurstSizes::POWERS],
    /// Receive calls that gave none.
    pub rx_empty_polls: u64,
    /// Test packets counted as received.
    pub rx_test: u64,
    /// Test frames sent.
    pub tx_packets: u64,
    /// Transmit calls that took frames.
    pub tx_bursts: u64,
    /// Transmit calls that took none, and allocations that gave none.
    pub tx_full: u64,
    /// Times asleep.
    pub waits: u64,
    /// Time in which packets were to be sent and the path took none, ns.
    pub blocked_ns: u64,
    /// Time in which the device was down, ns.
    pub down_ns: u64,
    /// Packets given up because the path took none, at once or for too long; of lanes that pass packets on.
    pub tx_given_up: u64,
    /// Time in loops that moved something, ns.
    pub busy_ns: u64,
    /// Time in loops, ns.
    pub loop_ns: u64,
    /// Looks at its receive rings.
    pub rx_fill_looks: u64,
    /// Sum of the shares of them that were found taken, ppm.
    pub rx_fill_sum_ppm: u64,
    /// The highest share since the reading before, ppm; of [`Event::Lanes`] only.
    pub rx_fill_highest_ppm: u64,
    /// Packets that this host dropped before the lane could take them, as last read; `None`: not read, or the path
    /// can't tell.
    pub rx_dropped: Option<u64>,
    /// Its number among the lanes of the same ports: that of its queue. Of [`Event::Lanes`] only, as what follows.
    pub queue: usize,
    /// Time for which the scheduler kept it from running, ns; `None` where nobody asked, or the host does not tell.
    pub not_running_ns: Option<u64>,
}

impl LiveLane {
    /// What was counted after the reading `before`. `rx_fill_highest_ppm` and `queue` are as they are.
    pub fn since(&self, before: &Self) -> Self {
        let less = |now: u64, before: u64| now.saturating_sub(before);
        let less_of = |now: Option<u64>, before: Option<u64>| now.map(|now| less(now, before.unwrap_or(0)));
        let mut rx_bursts_by_power = self.rx_bursts_by_power;
        for (now, before) in rx_bursts_by_power.iter_mut().zip(before.rx_bursts_by_power) {
            *now = less(*now, before);
        }
        Self {
            rx_packets: less(self.rx_packets, before.rx_packets),
            rx_bursts: less(self.rx_bursts, before.rx_bursts),
            rx_bursts_by_power,
            rx_empty_polls: less(self.rx_empty_polls, before.rx_empty_polls),
            rx_test: less(self.rx_test, before.rx_test),
            tx_packets: less(self.tx_packets, before.tx_packets),
            tx_bursts: less(self.tx_bursts, before.tx_bursts),
            tx_full: less(self.tx_full, before.tx_full),
            waits: less(self.waits, before.waits),
            blocked_ns: less(self.blocked_ns, before.blocked_ns),
            down_ns: less(self.down_ns, before.down_ns),
            tx_given_up: less(self.tx_given_up, before.tx_given_up),
            busy_ns: less(self.busy_ns, before.busy_ns),
            loop_ns: less(self.loop_ns, before.loop_ns),
            rx_fill_looks: less(self.rx_fill_looks, before.rx_fill_looks),
            rx_fill_sum_ppm: less(self.rx_fill_sum_ppm, before.rx_fill_sum_ppm),
            rx_fill_highest_ppm: self.rx_fill_highest_ppm,
            rx_dropped: less_of(self.rx_dropped, before.rx_dropped),
            queue: self.queue,
            not_running_ns: less_of(self.not_running_ns, before.not_running_ns),
        }
    }
}

impl From<&LaneCounters> for LiveLane {
    fn from(lane: &LaneCounters) -> Self {
        Self {
            rx_packets: lane.rx_packets.get(),
            rx_bursts: lane.rx_bursts.get(),
            rx_bursts_by_power: lane.rx_burst_sizes.by_power(),
            rx_empty_polls: lane.rx_empty_polls.get(),
            rx_test: lane.rx_test.get(),
            tx_packets: lane.tx_packets.get(),
            tx_bursts: lane.tx_bursts.get(),
            tx_full: lane.tx_full.get(),
            waits: lane.waits.get(),
            blocked_ns: lane.blocked_ns.get(),
            down_ns: lane.down_ns.get(),
            tx_given_up: lane.tx_given_up.get(),
            busy_ns: lane.busy_ns.get(),
            loop_ns: lane.loop_ns.get(),
            rx_fill_looks: lane.fill.iter().map(|ring| ring.looks.get()).sum(),
            rx_fill_sum_ppm: lane.fill.iter().map(|ring| ring.sum_ppm.get()).sum(),
            rx_fill_highest_ppm: 0,
            rx_dropped: None,
            queue: 0,
            not_running_ns: None,
        }
    }
}

/// Totals so far: sent and received at once, loss and latency from the newest closed row.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Since the start, ns.
    pub elapsed_ns: u64,
    /// Planned length of the sending phase, ns; `None` when it runs until interrupted.
    pub planned_ns: Option<u64>,
    /// Only receiving now: the settle time runs.
    pub settling: bool,
    /// Packets sent since the start.
    pub tx: u64,
    /// Packets received since the start.
    pub rx: u64,
    /// Send rate since the last snapshot, packets/s.
    pub tx_pps: f64,
    /// Receive rate since the last snapshot, packets/s.
    pub rx_pps: f64,
    /// Rows have closed up to here, ns since the start: of what was sent later it is not known what became of it.
    pub closed_ns: u64,
    /// Sum over the closed rows: packets sent.
    pub closed_tx: u64,
    /// Sum over the closed rows: packets lost.
    pub closed_lost: i64,
    /// Loss of the rows closed since the last snapshot: lost / tx.
    pub recent_loss_ratio: f64,
    /// Packets that this host dropped so far; `None` where the path can't tell.
    pub host_dropped: Option<u64>,
    /// Latency of the newest closed period that had any.
    pub recent_latency: Option<Latency>,
    /// Each lane's own counters so far.
    pub lanes: Vec<LiveLane>,
    /// What the lanes did with their time in the last second: the share of each stage, in the order of
    /// [`Stage::ALL`]; all 0 where that is not known.
    pub stage_shares: [f64; Stage::COUNT],
    /// Of each way, where packets go in two ways at the same time; else empty.
    pub ways: Vec<WaySnapshot>,
}

/// One of the ways, for the live view: totals so far, as of a [`Snapshot`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WaySnapshot {
    /// From which port to which.
    pub name: &'static str,
    /// Packets sent since the start.
    pub tx: u64,
    /// Packets received since the start.
    pub rx: u64,
    /// Send rate since the last snapshot, packets/s.
    pub tx_pps: f64,
    /// Receive rate since the last snapshot, packets/s.
    pub rx_pps: f64,
    /// Sum over the closed rows: packets sent.
    pub closed_tx: u64,
    /// Sum over the closed rows: packets lost.
    pub closed_lost: i64,
}

/// The events that a sink wants. The collector usually shares its core with a lane, so it works out nothing that no
/// sink wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Rows as they close ([`Event::Row`]).
    pub rows: bool,
    /// Percentiles in the latency of each row.
    pub percentiles: bool,
    /// Percentiles in the latency from the scheduled time, too.
    pub scheduled_percentiles: bool,
    /// What kept lanes from running in each row.
    pub host_wait: bool,
    /// [`Event::Period`].
    pub histograms: bool,
    /// [`Event::Live`].
    pub snapshots: bool,
    /// [`Event::Lanes`].
    pub lanes: bool,
}

impl Wants {
    /// Everything.
    pub const ALL: Self = Self {
        rows: true,
        percentiles: true,
        scheduled_percentiles: true,
        host_wait: true,
        histograms: true,
        snapshots: true,
        lanes: true,
    };

    /// The events that at least one of two sinks wants.
    pub fn and(self, other: Self) -> Self {
        Self {
            rows: self.rows | other.rows,
            percentiles: self.percentiles | other.percentiles,
            scheduled_percentiles: self.scheduled_percentiles | other.scheduled_percentiles,
            host_wait: self.host_wait | other.host_wait,
            histograms: self.histograms | other.histograms,
            snapshots: self.snapshots | other.snapshots,
            lanes: self.lanes | other.lanes,
        }
    }
}

/// Reads the events of a run, on the collector's thread, so it must not block for long. A reader that may block gets a
/// thread of its own, as files do.
pub trait Sink: Send {
    /// The events that it wants; asked once, before the run. It may get others, too.
    fn wants(&self) -> Wants {
        Wants::ALL
    }

    /// Something has happened.
    fn event(&mut self, event: &Event<'_>);

    /// All but [`Event::End`] has come. Returns notes for the summary's warnings (a file that could not be written
    /// whole).
    fn finish(&mut self) -> Vec<String> {
        Vec::new()
    }
}

impl<F: FnMut(&Event<'_>) + Send> Sink for F {
    fn event(&mut self, event: &Event<'_>) {
        self(event);
    }
}
