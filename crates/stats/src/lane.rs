//! Counters of a lane about itself, independent of the rows: the basis of the live view and a check on the rows.

use crate::counter::Counter;
use crate::fill::FillGauge;
use crate::gaps::GapLog;
use crate::stages::StageTable;

/// Largest burst, in frames, that has a counter of its own; larger bursts share the last counter.
const LARGEST: usize = 256;

/// Number of receive calls by the number of frames that they gave.
#[derive(Debug)]
pub struct BurstSizes(Box<[Counter; LARGEST + 1]>);

impl Default for BurstSizes {
    fn default() -> Self {
        Self(Box::new(std::array::from_fn(|_| Counter::default())))
    }
}

impl BurstSizes {
    /// Number of size ranges of [`BurstSizes::by_power`]: 1, 2 to 3, 4 to 7, …, 128 to 255, and 256 or more.
    pub const POWERS: usize = 9;

    /// Counts a receive call that gave `frames` frames. For the lane only.
    #[inline]
    pub fn add(&self, frames: usize) {
        self.0[frames.min(LARGEST)].add(1);
    }

    /// Returns the sizes that occurred, ascending, each with its number of calls.
    pub fn all(&self) -> Vec<(u32, u64)> {
        let all = self.0.iter().zip(0..).map(|(calls, frames)| (frames, calls.get()));
        all.filter(|(_, calls)| *calls > 0).collect()
    }

    /// Returns the calls by size, in one range per power of two.
    pub fn by_power(&self) -> [u64; Self::POWERS] {
        let mut powers = [0; Self::POWERS];
        for (frames, calls) in self.0.iter().enumerate().skip(1) {
            powers[frames.ilog2() as usize] += calls.get();
        }
        powers
    }
}

/// Number of reasons why packets can't leave though the device is there.
pub const NO_WAYS: usize = 7;

/// Totals of one lane; the lane writes, any thread reads. Each lane has cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct LaneCounters {
    /// Frames received, the test's or not.
    pub rx_packets: Counter,
    /// Receive calls that gave frames.
    pub rx_bursts: Counter,
    /// Receive calls that gave none.
    pub rx_empty_polls: Counter,
    /// Receive calls that gave frames, by number of frames.
    pub rx_burst_sizes: BurstSizes,
    /// Time of the first received burst, ns on the lanes' clock; 0 if there was none.
    pub first_rx_ns: Counter,
    /// Time of the newest received burst, ns on the lanes' clock.
    pub last_rx_ns: Counter,
    /// Test packets counted as received.
    pub rx_test: Counter,
    /// Test frames sent.
    pub tx_packets: Counter,
    /// Number of these of which nobody can know whether they come.
    pub tx_untagged: Counter,
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
    /// Time in which packets could not leave for another reason, ns: by the number of the reason.
    pub no_way_ns: [Counter; NO_WAYS],
    /// Times that the lane went to sleep.
    pub waits: Counter,
    /// Time in loops that moved something, ns.
    pub busy_ns: Counter,
    /// Time in loops, ns.
    pub loop_ns: Counter,
    /// The lane's thread number, 0 before it runs.
    pub thread: Counter,
    /// 1 once the lane only receives (settling), 2 once it has ended.
    pub phase: Counter,
    /// Times that the lane was not back at its clock when it should have been.
    pub away: GapLog,
    /// Fill of the lane's receive ring; of a lane that forwards, fill of the ring of each port of its pair.
    pub fill: [FillGauge; 2],
    /// Time of the lane by stage.
    pub stages: StageTable,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_told_apart_by_size_and_summed_by_power_of_two() {
        let sizes = BurstSizes::default();
        [1, 2, 3, 3, 128, 255, 256, 1000]
            .into_iter()
            .for_each(|frames| sizes.add(frames));
        assert_eq!(sizes.all(), [(1, 1), (2, 1), (3, 2), (128, 1), (255, 1), (256, 2)]);
        assert_eq!(sizes.by_power(), [1, 3, 0, 0, 0, 0, 0, 2, 2]);
    }
}
