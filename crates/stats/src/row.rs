//! Rows of the time series: plain data, made by the collector, written by `mpps-report`.

use crate::fill::RowFill;
use serde::{Deserialize, Serialize};

/// Latency of one interval or one run in ns. All zero when [`Latency::count`] is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Packets measured.
    pub count: u64,
    /// Smallest, ns; exact.
    pub min: u64,
    /// Mean, ns; exact.
    pub mean: f64,
    /// Percentiles, ns; within 0.05 % of the value. `None` if no histogram was kept (intervals below 100 ms).
    pub percentiles: Option<Percentiles>,
    /// Largest, ns; exact.
    pub max: u64,
}

/// Percentiles in ns; each within 0.05 % (or 1 ns) of the true value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    /// 50th.
    pub p50: u64,
    /// 90th.
    pub p90: u64,
    /// 99th.
    pub p99: u64,
    /// 99.9th.
    pub p999: u64,
}

/// Kind of a run. It decides what the rows and the summary count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workload {
    /// Sends and receives back: rows by the interval of sending.
    #[default]
    SendRecv,
    /// Sends only: nothing comes back, nothing is lost.
    Send,
    /// Receives and verifies: rows by the interval of arrival, loss from gaps in the sequence numbers.
    Drop,
    /// Turns packets round: rows by the interval of arrival.
    Reflect,
    /// Takes frames from one port to another: rows by the interval of arrival.
    Forward,
    /// Keeps packets in a file: rows by the interval of arrival. Sent counts the packets that the filter took, received
    /// those handed to the writer, and lost those that the writer had no room for.
    Capture,
}

impl Workload {
    /// Whether the workload makes packets itself and so knows what was sent: `sendrecv`, `send`.
    pub fn generates(self) -> bool {
        matches!(self, Self::SendRecv | Self::Send)
    }

    /// Whether the workload sends on packets of another sender: `reflect`, `forward`. A packet that it can't take is a
    /// loss for that sender.
    pub fn passes_on(self) -> bool {
        matches!(self, Self::Reflect | Self::Forward)
    }
}

/// One interval, closed: nothing can change it any more.
///
/// The sums over all rows of a run equal the summary's counts exactly. A packet that comes back after its row was
/// written moves from lost to late in the row then written, so `lost` can be negative there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Number of the interval; it starts at `index` times the interval's length.
    pub index: u64,
    /// Start, ns since the start of the run.
    pub start_ns: u64,
    /// Length, ns (the last row of a run may be shorter than the interval).
    pub length_ns: u64,
    /// Packets sent.
    pub tx: u64,
    /// Packets received: each once, intact, within the settle time.
    pub rx: u64,
    /// Packets received in this interval, whenever they were sent. The last row includes the packets of the settle
    /// time. `None` if nothing counts arrivals, or if the workload receives nothing.
    pub rx_by_arrival: Option<u64>,
    /// Packets lost.
    pub lost: i64,
    /// Packets that came back after the settle time.
    pub late: u64,
    /// Further copies of packets already counted.
    pub duplicates: u64,
    /// Packets that arrived after a later one of their flow (they count in `rx` too).
    pub reordered: u64,
    /// Packets whose checksum or data was wrong; their originals count as lost. By the interval of arrival.
    pub corrupt: u64,
    /// Packets that are not of this test. By the interval of arrival.
    pub foreign: u64,
    /// Packets sent of which nobody can know whether they came: those of streams without a tag. They are in `tx`, and
    /// in no other count.
    pub untagged: u64,
    /// Departures that were due but not sent, because the generator had fallen too far behind.
    pub missed: u64,
    /// Latency from the actual send time.
    pub latency: Latency,
    /// Latency from the scheduled send time; `None` when not paced.
    pub latency_scheduled: Option<Latency>,
    /// Latency from the actual send time to the arrival; `None` if only lanes take times.
    pub latency_arrival: Option<Latency>,
    /// Time from the arrival to the lane's reading; `None` if only one of the two is known.
    pub wake_up: Option<Latency>,
    /// Time in this interval for which the scheduler or the hypervisor kept lanes from running, ns over all lanes.
    /// `None` if the host does not report it, or if rows are shorter than 100 ms.
    pub host_wait_ns: Option<u64>,
    /// Packets that this host dropped before mpps could take them: all since the previous reading of the path's
    /// counters, even if that reading belongs to an earlier row. `None` if no reading belongs to this row.
    pub host_dropped: Option<u64>,
    /// CPU time in this interval of this program's threads other than the lanes, ns. At most this much of
    /// `host_wait_ns` is this program's own doing. `None` when `host_wait_ns` is.
    pub own_threads_ns: Option<u64>,
    /// Time in this interval for which lanes had packets to send and the path took none, ns over all lanes; `None` if
    /// the kernel sends.
    pub blocked_ns: Option<u64>,
    /// Fill of the lanes' receive rings; `None` if nobody looked in this row, or if no path can report it.
    pub rx_fill: Option<RowFill>,
}
