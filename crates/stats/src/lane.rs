//! What a lane counts about itself, independent of the rows: the basis of the live view and a check on the rows.

use crate::counter::Counter;
use crate::fill::FillGauge;
use crate::gaps::GapLog;
use crate::stages::StageTable;

/// Totals of one lane; the lane writes, anyone reads. Each lane's are on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct LaneCounters {
    /// Frames received, the test's or not.
    pub rx_packets: Counter,
    /// Receive calls that gave frames.
    pub rx_bursts: Counter,
    /// Receive calls that gave none.
    pub rx_empty_polls: Counter,
    /// When the first burst was received, ns on the lanes' clock; 0: none was.
    pub first_rx_ns: Counter,
    /// When the newest burst was received.
    pub last_rx_ns: Counter,
    /// Test packets counted as received.
    pub rx_test: Counter,
    /// Test frames sent.
    pub tx_packets: Counter,
    /// Transmit calls that took frames.
    pub tx_bursts: Counter,
    /// Transmit calls that took none, and allocations that gave none.
    pub tx_full: Counter,
    /// Packets given up because the path took none, at once or for too long; of lanes that pass packets on.
    pub tx_given_up: Counter,
    /// Time in which packets were to be sent and the path took none, ns.
    pub blocked_ns: Counter,
    /// Time in which the device was down and nothing could be done, ns.
    pub down_ns: Counter,
    /// Times asleep.
    pub waits: Counter,
    /// Time in loops that moved something, ns.
    pub busy_ns: Counter,
    /// Time in loops, ns.
    pub loop_ns: Counter,
    /// The lane's thread number, 0 before it runs.
    pub thread: Counter,
    /// 1 once the lane only receives (settling), 2 once it has ended.
    pub phase: Counter,
    /// When it was not back at its clock in time.
    pub away: GapLog,
    /// How full its receive ring is; of a lane that forwards, that of each port of its pair.
    pub fill: [FillGauge; 2],
    /// What it did with its time.
    pub stages: StageTable,
}
