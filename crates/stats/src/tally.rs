//! Counts of a row: in plain memory within a burst, in counters between the lane and the collector.

use crate::counter::Counter;
use crate::histogram::Moments;
use crate::times::Times;

/// Counts of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets sent.
    pub tx: u64,
    /// Departures missed.
    pub missed: u64,
    /// Packets received intact, once, in time.
    pub rx: u64,
    /// The same packets, in the row in which they arrived.
    pub arrived: u64,
    /// Packets that came back after the settle time.
    pub late: u64,
    /// Further copies of packets already counted.
    pub duplicates: u64,
    /// Packets that arrived after a later packet of their flow.
    pub reordered: u64,
    /// Sum of the distances of the reordered packets, packets.
    pub distance_sum: u64,
    /// Packets with a wrong checksum or wrong data.
    pub corrupt: u64,
    /// Packets that are not of this test.
    pub foreign: u64,
    /// Packets sent of which nobody can know whether they came: those of streams without a tag.
    pub untagged: u64,
    /// Packets that came with the headers of such a stream, or of no number that was sent.
    pub untagged_came: u64,
    /// Packets that the sequence numbers say were sent (receivers without a sender). Negative if a gap that was counted
    /// in an earlier row is no longer believed.
    pub expected: i64,
    /// Time for which lanes waited for room to send, ns.
    pub blocked_ns: u64,
    /// Looks at receive rings.
    pub fill_looks: u64,
    /// Sum of the shares of the rings that the looks found in use, ppm.
    pub fill_sum_ppm: u64,
    /// Highest of these shares, ppm.
    pub fill_highest_ppm: u64,
    /// Times of the packets received.
    pub times: Times<Moments>,
}

impl Tally {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.tx += other.tx;
        self.missed += other.missed;
        self.rx += other.rx;
        self.arrived += other.arrived;
        self.late += other.late;
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
        self.distance_sum += other.distance_sum;
        self.corrupt += other.corrupt;
        self.foreign += other.foreign;
        self.untagged += other.untagged;
        self.untagged_came += other.untagged_came;
        self.expected += other.expected;
        self.blocked_ns += other.blocked_ns;
        self.fill_looks += other.fill_looks;
        self.fill_sum_ppm += other.fill_sum_ppm;
        self.fill_highest_ppm = self.fill_highest_ppm.max(other.fill_highest_ppm);
        for (own, other) in self.times.0.iter_mut().zip(&other.times.0) {
            own.merge(other);
        }
    }
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct MomentCells {
    count: Counter,
    sum: Counter,
    min_complement: Counter,
    max: Counter,
}

impl MomentCells {
    #[inline]
    fn add(&self, m: &Moments) {
        if m.count != 0 {
            self.count.add(m.count);
            self.sum.add(m.sum);
            self.min_complement.raise(m.min_complement);
            self.max.raise(m.max);
        }
    }

    fn take(&self) -> Moments {
        let m = Moments {
            count: self.count.get(),
            sum: self.sum.get(),
            min_complement: self.min_complement.get(),
            max: self.max.get(),
        };
        if m.count != 0 {
            for cell in [&self.count, &self.sum, &self.min_complement, &self.max] {
                cell.set(0);
            }
        }
        m
    }
}

/// Number of plain counters in a row.
const PLAIN: usize = 12;

/// One row of the ring: a [`Tally`] in counters.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    plain: [Counter; PLAIN],
    /// Apart from the plain counters, as the next four: these five are added to outside of the packet path.
    arrived: Counter,
    blocked_ns: Counter,
    fill_looks: Counter,
    fill_sum_ppm: Counter,
    fill_highest_ppm: Counter,
    times: Times<MomentCells>,
}

impl Slot {
    /// Adds all of `t` except arrivals, the time blocked and the fill of rings. For these see [`Slot::add_arrived`],
    /// [`Slot::add_blocked`] and [`Slot::add_fill`]. For the single writer only.
    #[inline]
    pub(crate) fn add(&self, t: &Tally) {
        let values = [
            t.tx,
            t.missed,
            t.rx,
            t.late,
            t.duplicates,
            t.reordered,
            t.distance_sum,
            t.corrupt,
            t.foreign,
            t.expected.cast_unsigned(),
            t.untagged,
            t.untagged_came,
        ];
        for (cell, value) in self.plain.iter().zip(values) {
            if value != 0 {
                cell.add(value);
            }
        }
        for (cells, moments) in self.times.0.iter().zip(&t.times.0) {
            cells.add(moments);
        }
    }

    /// Adds packets that were sent in this row. For the single writer only.
    #[inline]
    pub(crate) fn add_sent(&self, packets: u64) {
        self.plain[0].add(packets);
    }

    /// Adds packets that arrived in this row. For the single writer only.
    pub(crate) fn add_arrived(&self, packets: u64) {
        self.arrived.add(packets);
    }

    /// Adds time for which the lane waited for room to send. For the single writer only.
    pub(crate) fn add_blocked(&self, ns: u64) {
        self.blocked_ns.add(ns);
    }

    /// Adds a look at a receive ring that found the share `ppm` in use. For the single writer only.
    pub(crate) fn add_fill(&self, ppm: u64) {
        self.fill_looks.add(1);
        self.fill_sum_ppm.add(ppm);
        self.fill_highest_ppm.raise(ppm);
    }

    /// Returns the counts and leaves zeros. Only while the writer is at another row.
    pub(crate) fn take(&self) -> Tally {
        let [
            tx,
            missed,
            rx,
            late,
            duplicates,
            reordered,
            distance_sum,
            corrupt,
            foreign,
            expected,
            untagged,
            untagged_came,
        ] = self.plain.each_ref().map(|cell| {
            let n = cell.get();
            if n != 0 {
                cell.set(0);
            }
            n
        });
        let seldom = [
            &self.arrived,
            &self.blocked_ns,
            &self.fill_looks,
            &self.fill_sum_ppm,
            &self.fill_highest_ppm,
        ];
        let [arrived, blocked_ns, fill_looks, fill_sum_ppm, fill_highest_ppm] = seldom.map(|cell| {
            let n = cell.get();
            if n != 0 {
                cell.set(0);
            }
            n
        });
        Tally {
            arrived,
            blocked_ns,
            fill_looks,
            fill_sum_ppm,
            fill_highest_ppm,
            tx,
            missed,
            rx,
            late,
            duplicates,
            reordered,
            distance_sum,
            corrupt,
            foreign,
            untagged,
            untagged_came,
            expected: expected.cast_signed(),
            times: Times::of(|time| self.times[time].take()),
        }
    }
}
