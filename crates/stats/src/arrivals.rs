//! Counts packets by the row in which they arrived, beside the rows in which they were sent.
//!
//! A burst arrives at once, so this costs a lane a comparison and an addition per burst. Arrivals are added up here and
//! moved to the ring when a packet arrives in another row, or when rows close.

use crate::series::Recorder;

/// Arrivals in one row that are not in the ring yet.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    packets: u64,
    /// Start of the row, ns. If start and end are both 0, the first arrival finds its row.
    from_ns: u64,
    to_ns: u64,
}

impl Recorder<'_> {
    /// Books that `n` packets which count as received arrived at `at_ns`. Call once per burst, beside
    /// [`Recorder::received_n`], which books them by the time of sending.
    #[inline]
    pub fn by_arrival(&mut self, at_ns: u64, n: u64) {
        if at_ns < self.arrivals.from_ns || at_ns >= self.arrivals.to_ns {
            self.arrive_in_another_row(at_ns);
        }
        self.arrivals.packets += n;
    }

    #[cold]
    fn arrive_in_another_row(&mut self, at_ns: u64) {
        self.flush_arrivals();
        let timing = self.timing();
        let from_ns = timing.start_ns + timing.row_of(at_ns) * timing.interval_ns;
        self.arrivals.from_ns = from_ns;
        self.arrivals.to_ns = from_ns + timing.interval_ns;
    }

    /// Moves arrivals to their row, or to the oldest open row if their row has closed. That happens with a path that
    /// takes the time of arrival itself and hands packets over much later.
    pub(crate) fn flush_arrivals(&mut self) {
        if self.arrivals.packets > 0 {
            let row = self.timing().row_of(self.arrivals.from_ns).max(self.closed);
            self.slot(row).add_arrived(self.arrivals.packets);
            self.arrivals.packets = 0;
        }
    }
}
