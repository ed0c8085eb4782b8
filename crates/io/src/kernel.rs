//! Ports whose packets the kernel handles: programs inside it make, turn and count them, and this process feeds the
//! programs and reads what they counted.
//!
//! There are no queues of frames here, so [`crate::Port`] does not fit. A run needs the same things all the same: a
//! schedule that goes in; rows, histograms and counters that come out. Everything that is counted has one writer in the
//! kernel: the *lanes* that send, and the *sources* that receive (a queue of the device, or a CPU). A reader takes rows
//! once they can no longer change.

use crate::around::Watch;
use crate::{Capabilities, Fact, QueueCounters, Reason, Result};
use std::os::fd::OwnedFd;

/// Count, sum, least and largest of a set of latencies, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelMoments {
    /// Values.
    pub count: u64,
    /// Their sum, ns.
    pub sum: u64,
    /// The least, ns; 0 if there is none.
    pub min: u64,
    /// The largest, ns.
    pub max: u64,
}

/// Counts of one writer for one row. A row is an interval of the run: row `r` begins at `r · interval`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelRow {
    /// Packets sent.
    pub tx: u64,
    /// Departures that were due and given up.
    pub missed: u64,
    /// Packets received intact, once, in time.
    pub rx: u64,
    /// Further copies of packets.
    pub duplicates: u64,
    /// Packets that arrived behind a later one of their flow.
    pub reordered: u64,
    /// Sum of the distances of the reordered packets, packets.
    pub distance_sum: u64,
    /// Packets with a wrong checksum, length or data.
    pub corrupt: u64,
    /// Packets that are not of this test.
    pub foreign: u64,
    /// Packets that the sequence numbers say were sent (receivers without a sender). Negative if a gap that an earlier
    /// row counted is no longer believed.
    pub expected: i64,
    /// Latency from the actual send time.
    pub latency: KernelMoments,
    /// Latency from the scheduled send time.
    pub scheduled: KernelMoments,
}

/// Which of the two latencies a histogram holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelLatency {
    /// From the actual send time.
    Actual,
    /// From the scheduled send time.
    Scheduled,
}

/// Stream that packets are counted for, by its number; `None`: there are no streams, or the packets are of none.
pub type KernelStream = Option<usize>;

/// Track that packets are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelTrack {
    /// The run alone.
    Run,
    /// The run and the stream with this number.
    Stream(usize),
    /// The size of frames with this number alone: these packets are counted for a stream, too.
    Size(usize),
}

/// Running totals of a lane that sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneTotals {
    /// Packets sent.
    pub packets: u64,
    /// Readings of the clock at which at least one packet left: bursts of packets with one time.
    pub bursts: u64,
    /// Times that the program found nothing due.
    pub waits: u64,
    /// The schedule is at its end: nothing more will be sent.
    pub done: bool,
    /// When the last packet left, as [`KernelTimes`] count; 0: none has.
    pub last_ns: u64,
}

/// Running totals of a source that receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceTotals {
    /// Frames that the program saw and did not leave to the host.
    pub packets: u64,
    /// Frames that it left to the host.
    pub passed: u64,
    /// Poll loops of the driver that brought packets.
    pub polls: u64,
    /// Test packets counted as received (`reflect`, `forward`: taken).
    pub test: u64,
    /// Packets sent back or on.
    pub tx: u64,
    /// Bytes of the taken frames, without FCS (`forward`).
    pub bytes: u64,
    /// Packets that came back after the settle time. Never in a row.
    pub late: u64,
    /// Largest distance of a reordered packet.
    pub distance_max: u64,
    /// When the first packet was counted, ns on the run's clock; 0: none was.
    pub first_ns: u64,
    /// When the newest packet was counted.
    pub last_ns: u64,
}

/// A program of a port, whose time the kernel can count, and what it has handled so far.
#[derive(Debug)]
pub struct KernelProgram {
    /// Name of the program.
    pub name: String,
    /// Device that the program belongs to.
    pub device: String,
    /// The program.
    pub descriptor: OwnedFd,
    /// Packets so far; 0 if it handles none itself.
    pub packets: u64,
}

/// When a run begins and ends, ns of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelTimes {
    /// Rows are counted from here; nothing is sent or counted before.
    pub start_ns: u64,
    /// Packets that are due at this time or later are not sent; `u64::MAX` while unknown.
    pub end_ns: u64,
}

/// The departures of one lane, or of one of its streams: units of packets at equal distances, or spread at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSchedule {
    /// Time of the first unit after the start of the run, ns with 64 bits of fraction. Without a rate: the time at
    /// which a stream begins.
    pub first: u128,
    /// Time between this lane's units, ns with 64 bits of fraction; at random: its mean. Without a rate streams take
    /// turns, each after a distance in proportion to this.
    pub step: u128,
    /// Packets of a unit, which leave back to back; 1 or more.
    pub unit: u32,
    /// Packets of the whole run; `u64::MAX` if it has no end.
    pub packets: u64,
    /// Gaps are drawn from an exponential distribution, by a generator that begins here; what is left of the packets is
    /// spread over what is left of the run, so that their number is exact. `None`: equal gaps.
    pub random: Option<u64>,
    /// At random: time after the start of the run by which all packets leave, ns; `None`: at its end.
    pub until_ns: Option<u64>,
}

/// A device whose packets programs in the kernel handle, loaded for one run.
///
/// All methods may be called from any thread, except that each lane has one caller of [`KernelPort::send`] and one
/// thread calls [`KernelPort::take_rows`] and [`KernelPort::take_histograms`].
pub trait KernelPort: Sync {
    /// Returns the capabilities of the path on this device.
    fn capabilities(&self) -> &Capabilities;

    /// Facts for the report.
    fn facts(&self) -> Vec<Fact>;

    /// Names of the ports, if the report shows each port by itself (`forward`); else none.
    fn port_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Number of lanes that send.
    fn lanes(&self) -> usize;

    /// Number of sources that receive.
    fn sources(&self) -> usize;

    /// Number of streams that are counted each by itself; 0: there are none.
    fn streams(&self) -> usize {
        0
    }

    /// Number within its port of source `source` (a receive queue or a CPU), and the place of its port: 0 or 1.
    fn source_place(&self, source: usize) -> (usize, usize);

    /// Sets the MAC address that packets are sent to.
    fn set_dest_mac(&self, mac: [u8; 6]);

    /// Sends one frame as it is: a question for the peer's address.
    ///
    /// # Errors
    /// When the device refuses it.
    fn inject(&self, frame: &[u8]) -> Result<()>;

    /// The MAC address with which the next hop answered such a question.
    fn heard(&self) -> Option<[u8; 6]>;

    /// Starts the run: from `start_ns` on programs count and lanes send. One schedule a lane; none if the lanes send
    /// as fast as they can. With streams: of each lane one for each stream, one lane after the other.
    fn begin(&self, times: KernelTimes, schedules: &[LaneSchedule]);

    /// Sets the end of the run; an earlier one than set before takes effect at once.
    fn set_end(&self, end_ns: u64);

    /// Stops the counting: after this returns the programs count nothing more, so that totals and rows can be compared.
    /// The engine calls it once, when the settle time is over and before it takes the last rows and totals.
    fn stop(&self) {}

    /// Sends as lane `lane` on the calling thread, until the schedule is at its end or [`KernelPort::interrupt`] is
    /// called. A call that returns `Ok` before the lane is [done](LaneTotals::done) may be repeated.
    ///
    /// # Errors
    /// When the kernel refuses: device gone, not supported.
    fn send(&self, lane: usize) -> Result<()>;

    /// Makes [`KernelPort::send`] of that lane return soon. May come before or after its time: callers repeat it until
    /// the lane's thread has said that it ended.
    fn interrupt(&self, lane: usize);

    /// Departures of lane `lane`, of one stream of it, that were due before the end and did not leave. Only after its
    /// last [`KernelPort::send`].
    fn left_undone(&self, lane: usize, stream: KernelStream) -> u64;

    /// Running totals of lane `lane`.
    fn lane_totals(&self, lane: usize) -> LaneTotals;

    /// Gaps between departures of lane `lane`: moments, and each bucket of the histogram with its count. Only after its
    /// last [`KernelPort::send`]. Bucket numbers are those of `mpps_stats::bucket_of`.
    fn gaps(&self, lane: usize, bucket: &mut dyn FnMut(usize, u64)) -> KernelMoments;

    /// Running totals of source `source`.
    fn source_totals(&self, source: usize) -> SourceTotals;

    /// Number of sizes of frames that are counted each by itself.
    fn sizes(&self) -> usize {
        0
    }

    /// Packets of a stream or size that came back after the settle time, and the largest distance of a reordered one,
    /// so far.
    fn track_totals(&self, _track: KernelTrack) -> (u64, u64) {
        (0, 0)
    }

    /// Takes the counts of rows `from` to `to` (exclusive) of all writers, and leaves zeros. Rows come in order, each
    /// as often as it has writers. Only rows that can't change any more, or after the end.
    fn take_rows(&self, from: u64, to: u64, take: &mut dyn FnMut(u64, KernelTrack, &KernelRow));

    /// Takes the histograms of the period in which row `row` falls: (which latency, what for, bucket, count).
    fn take_histograms(&self, row: u64, take: &mut dyn FnMut(KernelLatency, KernelTrack, usize, u64));

    /// How many rows the programs keep: rows further back than this are overwritten.
    fn row_capacity(&self) -> u64;

    /// Counts by reason, over all sources of port `port`.
    fn reasons(&self, port: usize) -> Vec<(Reason, u64)>;

    /// The programs that are loaded, in an order that stays: for before a run and after it.
    fn programs(&self) -> Vec<KernelProgram> {
        Vec::new()
    }

    /// Counters of the kernel or device for port `port`.
    fn counters(&self, port: usize) -> QueueCounters;

    /// Phrase for the report: the two readings of the clock between which a latency lies. `one_way`: for packets that
    /// somebody else has sent and stamped.
    fn latency_note(&self, one_way: bool) -> &'static str {
        match one_way {
            false => {
                "round trip in the kernel, from the clock reading for a bulk of up to 16 packets that are sent to the \
                 one for those received, taken once per poll loop and every 16 packets"
            }
            true => {
                "one way, from the sender's stamp to the clock reading in the kernel, taken once per poll loop and \
                 every 16 packets; true only where both ends read the same clock (one host)"
            }
        }
    }

    /// Watches of the interfaces that packets leave by, as [`Port::watches`](crate::Port::watches).
    fn watches(&self) -> Vec<Box<dyn Watch>> {
        Vec::new()
    }

    /// Whether the device is there and up.
    ///
    /// # Errors
    /// `Gone` or `LinkDown`.
    fn check(&self) -> Result<()>;
}
