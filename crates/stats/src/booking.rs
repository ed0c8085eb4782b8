//! Books counts that another program has made: whole rows and histogram buckets instead of packets.
//!
//! Programs in the kernel keep rows of their own. A lane that reads them hands them on through its [`Recorder`], so
//! collector, sinks and verdict need not know who counted. A row is booked here once its source can't change it any
//! more, and before the recorder itself closes it: [`Timing::closable`] is the limit of both.

use crate::histogram::SharedHistogram;
use crate::series::{Recorder, Timing};
use crate::tally::Tally;
use crate::times::Time;

impl Recorder<'_> {
    /// Returns how time is cut into rows.
    pub fn timing(&self) -> Timing {
        self.series.timing
    }

    /// Adds all of `tally` to row `row`. If that row has closed, or the ring is full, it counts in the totals only, as
    /// with [`Recorder::book_out_of_place`].
    pub fn book(&mut self, row: u64, tally: &Tally) {
        let open = self.enter_row(row);
        if open && self.in_ring {
            let rows = &self.series.rows;
            rows[row as usize & (rows.len() - 1)].add(tally);
        } else {
            self.book_out_of_place(tally);
        }
    }

    /// Adds all of `tally` to the totals, in no particular row; the summary warns about that.
    pub fn book_out_of_place(&mut self, tally: &Tally) {
        self.series.overflow.add(tally);
        self.series.overflowed.add(1);
    }

    /// Adds `n` to bucket `bucket` (of [`crate::bucket_of`]) of one time of the packets in the period that contains row
    /// `row`. The count is dropped if that period has closed or the ring is full: percentiles then rest on the other
    /// packets. The moments are part of the tally.
    pub fn book_bucket(&mut self, row: u64, time: Time, bucket: usize, n: u64) {
        if let Some(histogram) = self.open_histogram(row, time) {
            histogram.add_bucket(bucket, n as u32);
        }
    }

    fn open_histogram(&mut self, row: u64, time: Time) -> Option<&SharedHistogram> {
        self.enter_row(row);
        let rows = self.series.rows_per_period;
        // The collector drains a period with its last row.
        let open = (row / rows + 1) * rows > self.closed;
        self.histogram(time).filter(|_| open)
    }

    /// Books `n` packets that came back after the settle time, whichever rows they were sent in.
    pub fn late_after_close(&mut self, n: u64) {
        self.series.late_after_close.add(n);
    }

    /// Notes that a reordered packet was `distance` behind the highest of its flow.
    pub fn farthest(&mut self, distance: u64) {
        self.series.distance_max.raise(distance);
    }
}
