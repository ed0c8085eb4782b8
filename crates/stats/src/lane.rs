//! What a lane counts about itself, independent of the rows: the basis of the live view and a check on the rows.

use crate::counter::Counter;
use crate::fill::FillGauge;
use crate::gaps::GapLog;
use crate::stages::StageTable;

/// Frames of the largest burst that is told apart from larger ones.
const LARGEST: usize = 256;

/// How many receive calls gave how many frames.
#[derive(Debug)]
pub struct BurstSizes(Box<[Counter; LARGEST + 1]>);

impl Default for BurstSizes {
    fn default() -> Self {
        Self(Box::new(std::array::from_fn(|_| Counter::default())))
    }
}

impl BurstSizes {
    /// Ranges of sizes of which [`BurstSizes::by_power`] tells: 1, 2 to 3, 4 to 7, …, 128 to 255, 256.
    pub const POWERS: usize = 9;

    /// A call gave so many frames. For the lane only.
    #[inline]
    pub fn add(&self, frames: usize) {
        self.0[frames.min(LARGEST)].add(1);
    }

    /// Sizes that there were, from the smallest on, each with its calls.
    pub fn all(&self) -> Vec<(u32, u64)> {
        let all = self.0.iter().zip(0..).map(|(calls, frames)| (frames, calls.get()));
        all.filter(|(_, calls)| *calls > 0).collect()
    }

    /// Calls by size, a range for each power of two.
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
    /// Those that gave frames, by how many.
    pub rx_burst_sizes: BurstSizes,
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
    /// Time in which packets could not leave for another reason, ns: by the number of the reason.
    pub no_way_ns: [Counter; NO_WAYS],
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
