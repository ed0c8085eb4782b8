//! Events of a run, in order. Files, views and other programs all read this one stream.

use crate::{BurstSizes, LaneCounters, Latency, Row, Started, Summary, Workload};
use mpps_trace::Stage;
use serde::{Deserialize, Serialize};

/// One event of a run.
///
/// A stream is [`Event::Start`], any number of the others in the order in which they happen, and one [`Event::End`]. If
/// the run did not begin, there are no events at all. Rows come in order, without gaps. Events that no sink wants
/// ([`Wants`]) may be missing.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The run begins.
    Start(Start),
    /// A row has closed. If packets go in several tracks, it is the sum of their rows.
    Row(&'a Row),
    /// A row of one of several tracks has closed; sent before the row of all tracks.
    RowOfTrack(usize, &'a Row),
    /// Rows of all streams, groups and sizes have closed, for the same time; of runs with streams only.
    Streams(StreamRows<'a>),
    /// A period's latencies are complete.
    Period(Period<'a>),
    /// As [`Event::Period`], for one of several tracks; sent after that of all tracks.
    PeriodOfTrack(usize, Period<'a>),
    /// Counters of the lanes so far, read at the end of a row, or of as many rows as make up 100 ms, and at the end of
    /// the run.
    Lanes(LanesSoFar<'a>),
    /// State of the run, about every 250 ms.
    Live(&'a Snapshot),
    /// Message that the user needs at once: a device is down, a disk is full. Each is sent once. The summary's warnings
    /// say more, as they cover the whole run.
    Note(&'a str),
    /// The run is over, and this is its result. If a lane has panicked, the result is not valid and holds only the
    /// packets sent and received until then; the run returns an error as well.
    End(&'a Summary),
}

/// Kind and start of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Start {
    /// Workload of the run.
    pub workload: Workload,
    /// Names of the tracks in which packets go at the same time; empty if they go in one track.
    pub tracks: &'static [&'static str],
    /// Start of the run.
    pub started: Started,
    /// Rate asked for, packets/s over all tracks; `None` when not paced.
    pub intended_pps: Option<f64>,
    /// Second rate: the time after the start from which it applies, ns, and the rate, packets/s.
    pub then_pps: Option<(u64, f64)>,
    /// Largest deviation of the offered rate from the intended rate in a valid run, as a share of the latter.
    pub tolerance: f64,
}

impl Start {
    /// Returns the rate asked for at a time after the start, packets/s.
    pub fn intended_at(&self, elapsed_ns: u64) -> Option<f64> {
        match self.then_pps {
            Some((at_ns, pps)) if elapsed_ns >= at_ns => Some(pps),
            _ => self.intended_pps,
        }
    }

    /// Returns the packets that are due by a time after the start.
    pub fn due_by(&self, elapsed_ns: u64) -> Option<f64> {
        let first = self.intended_pps?;
        let (at_ns, then) = self.then_pps.unwrap_or((u64::MAX, 0.0));
        let before = elapsed_ns.min(at_ns);
        Some((first * before as f64 + then * (elapsed_ns - before) as f64) / 1e9)
    }
}

/// Kind of what a row of [`StreamRows`] is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamKind {
    /// One stream.
    Stream,
    /// A group of streams.
    Group,
    /// Frames of one size, or of a range of sizes, over all streams.
    Size,
}

impl StreamKind {
    /// Returns the name in files: `stream`, `group`, `size`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Group => "group",
            Self::Size => "size",
        }
    }
}

/// Rows of streams, of groups and of sizes, in this order; each has a name.
#[derive(Clone, Copy, Debug)]
pub struct StreamRows<'a> {
    /// Kind and name of each row; the name is that in [`StreamSummary`](crate::StreamSummary).
    pub of: &'a [(StreamKind, String)],
    /// Rows of one interval, 100 ms or longer, one for each of `of`. Their latency has no percentiles. Times blocked,
    /// waits of the host and fill of rings are those of the run, and are in no row of a stream.
    pub rows: &'a [Row],
}

/// The latencies of one period: 100 ms, or a row if that is longer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Period<'a> {
    /// Start of the period, ns since the start of the run.
    pub start_ns: u64,
    /// Length of the period, ns.
    pub length_ns: u64,
    /// Latency, ns, and number of packets with that latency; no entry has 0 packets.
    pub buckets: &'a [(u64, u64)],
    /// The same for the latency from the scheduled time; empty if no sink wants that, or if the run is not paced.
    pub scheduled: &'a [(u64, u64)],
    /// The same for the latency to the arrival; empty if only lanes take times.
    pub arrival: &'a [(u64, u64)],
    /// The same for the time from the arrival to the lane's reading; empty if only one of the two is known.
    pub wake_up: &'a [(u64, u64)],
}

/// Counters of the lanes since the start.
#[derive(Clone, Copy, Debug)]
pub struct LanesSoFar<'a> {
    /// Time of the reading, ns since the start. The lanes are read one after another.
    pub at_ns: u64,
    /// Counters of each lane, in the order of the lanes.
    pub lanes: &'a [LiveLane],
    /// Time that scheduler and hypervisor kept lanes from running, over all lanes, ns: the sum of
    /// [`LiveLane::not_running_ns`] and what the hypervisor took. `None` if no sink wanted it.
    pub host_wait_ns: Option<u64>,
}

/// Counters of one lane so far: see [`LaneCounters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveLane {
    /// Frames received, the test's or not.
    pub rx_packets: u64,
    /// Receive calls that gave frames.
    pub rx_bursts: u64,
    /// Receive calls that gave frames, by number of frames: 1, 2 to 3, 4 to 7, and so on to 128 to 255, and 256 or
    /// more.
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
    /// Times that the lane went to sleep.
    pub waits: u64,
    /// Time in which the lane had packets to send and the path took none, ns.
    pub blocked_ns: u64,
    /// Time in which the device was down, ns.
    pub down_ns: u64,
    /// Packets given up because the path took none, at once or for too long; of lanes that pass packets on.
    pub tx_given_up: u64,
    /// Time in loops that moved something, ns.
    pub busy_ns: u64,
    /// Time in loops, ns.
    pub loop_ns: u64,
    /// Looks at the lane's receive rings.
    pub rx_fill_looks: u64,
    /// Sum of the shares of the rings that the looks found in use, ppm.
    pub rx_fill_sum_ppm: u64,
    /// Highest share since the reading before, ppm; set in [`Event::Lanes`] only.
    pub rx_fill_highest_ppm: u64,
    /// Packets that this host dropped before the lane could take them, as last read; `None` if not read, or if the path
    /// can't report them.
    pub rx_dropped: Option<u64>,
    /// Number of the lane among the lanes of the same ports: the number of its queue. This field and the next are set
    /// in [`Event::Lanes`] only.
    pub queue: usize,
    /// Time for which the scheduler kept the lane from running, ns; `None` if no sink wanted it, or if the host does
    /// not report it.
    pub not_running_ns: Option<u64>,
}

impl LiveLane {
    /// Returns the counts since the reading `before`. `rx_fill_highest_ppm` and `queue` stay as they are.
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

/// Totals so far: packets sent and received up to now, loss and latency from the newest closed row.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Time since the start, ns.
    pub elapsed_ns: u64,
    /// Planned length of the sending phase, ns; `None` when it runs until interrupted.
    pub planned_ns: Option<u64>,
    /// Whether the settle time runs: packets are only received now.
    pub settling: bool,
    /// Packets sent since the start.
    pub tx: u64,
    /// Packets received since the start.
    pub rx: u64,
    /// Send rate since the last snapshot, packets/s.
    pub tx_pps: f64,
    /// Receive rate since the last snapshot, packets/s.
    pub rx_pps: f64,
    /// End of the closed rows, ns since the start. Packets sent later may still come back.
    pub closed_ns: u64,
    /// Sum over the closed rows: packets sent.
    pub closed_tx: u64,
    /// Sum over the closed rows: packets lost.
    pub closed_lost: i64,
    /// Loss of the rows closed since the last snapshot: lost / tx.
    pub recent_loss_ratio: f64,
    /// Packets that this host dropped so far; `None` if the path can't report them.
    pub host_dropped: Option<u64>,
    /// Latency of the newest closed period that had any.
    pub recent_latency: Option<Latency>,
    /// Each lane's own counters so far.
    pub lanes: Vec<LiveLane>,
    /// Time of the lanes in the last second: the share of each stage, in the order of [`Stage::ALL`]; all 0 if it is
    /// not known.
    pub stage_shares: [f64; Stage::COUNT],
    /// State of each track, if packets go in several tracks at the same time; else empty.
    pub tracks: Vec<TrackSnapshot>,
}

/// State of one track for the live view: totals so far, as in a [`Snapshot`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrackSnapshot {
    /// Ports of the way: from which port to which.
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

/// Events that a sink wants. The collector usually shares its core with a lane, so it computes nothing that no sink
/// wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Rows as they close ([`Event::Row`]).
    pub rows: bool,
    /// Percentiles in the latency of each row.
    pub percentiles: bool,
    /// Percentiles in the latency from the scheduled time, too.
    pub scheduled_percentiles: bool,
    /// Time for which lanes were kept from running, in each row.
    pub host_wait: bool,
    /// [`Event::Period`].
    pub histograms: bool,
    /// [`Event::Live`].
    pub snapshots: bool,
    /// [`Event::Lanes`].
    pub lanes: bool,
    /// [`Event::Streams`].
    pub streams: bool,
}

impl Wants {
    /// All events.
    pub const ALL: Self = Self {
        rows: true,
        percentiles: true,
        scheduled_percentiles: true,
        host_wait: true,
        histograms: true,
        snapshots: true,
        lanes: true,
        streams: true,
    };

    /// Returns the events that at least one of two sinks wants.
    pub fn and(self, other: Self) -> Self {
        Self {
            rows: self.rows | other.rows,
            percentiles: self.percentiles | other.percentiles,
            scheduled_percentiles: self.scheduled_percentiles | other.scheduled_percentiles,
            host_wait: self.host_wait | other.host_wait,
            histograms: self.histograms | other.histograms,
            snapshots: self.snapshots | other.snapshots,
            lanes: self.lanes | other.lanes,
            streams: self.streams | other.streams,
        }
    }
}

/// Reads the events of a run. A sink runs on the collector's thread, so it must not block for long. A reader that may
/// block gets a thread of its own, as files do.
pub trait Sink: Send {
    /// Returns the events that the sink wants. Called once, before the run. The sink may get other events, too.
    fn wants(&self) -> Wants {
        Wants::ALL
    }

    /// Handles one event.
    fn event(&mut self, event: &Event<'_>);

    /// Ends the sink's work after all events but [`Event::End`] have come. Returns notes for the summary's warnings,
    /// such as a file that could not be written whole.
    fn finish(&mut self) -> Vec<String> {
        Vec::new()
    }
}

impl<F: FnMut(&Event<'_>) + Send> Sink for F {
    fn event(&mut self, event: &Event<'_>) {
        self(event);
    }
}
