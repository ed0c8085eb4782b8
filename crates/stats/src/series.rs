//! The interval series of one lane: a ring of rows that the lane writes and the collector reads after it has closed.
//!
//! Ownership of a row passes back and forth without a lock. The lane writes row `r` only while
//! `closed ≤ r < consumed + capacity`; it then publishes a higher `closed` (release) and never touches the rows below
//! again. The collector reads the rows below every lane's `closed` (acquire), zeroes them, and publishes `consumed`
//! (release), which lets the lane use their places again. Should the collector be kept from running for so long that
//! the ring is full, the lane books into one overflow row, so the totals stay exact and only their place in time is
//! lost. Within a burst the lane adds up in plain memory and touches the ring once.

mod timing;

pub use timing::{MIN_PERIOD_NS, Timing};

use crate::arrivals::Arrivals;
use crate::counter::Counter;
use crate::histogram::{Histogram, Moments, SharedHistogram};
use crate::tally::{Slot, Tally};
use crate::times::{Delay, Time, Times};

/// Histograms of one period: of the latencies, and of the other two if arrivals have times.
pub(crate) type PeriodSlot = Times<Option<SharedHistogram>>;

/// The series of one lane, shared between the lane (through its one [`Recorder`]) and the collector.
#[derive(Debug)]
pub struct LaneSeries {
    pub(crate) timing: Timing,
    pub(crate) rows: Box<[Slot]>,
    periods: Box<[PeriodSlot]>,
    /// Rows of one histogram period.
    pub(crate) rows_per_period: u64,
    /// Rows below this will not be written again. Written by the lane.
    closed: Counter,
    /// Rows below this have been read and zeroed. Written by the collector.
    consumed: Counter,
    /// Packets that came back after their row had closed. Written by the lane.
    pub(crate) late_after_close: Counter,
    /// Largest distance of a reordered packet. Written by the lane.
    pub(crate) distance_max: Counter,
    /// Counts booked out of place because the ring was full: running totals, written by the lane.
    pub(crate) overflow: Slot,
    pub(crate) overflowed: Counter,
    /// Whether the recorder was taken: there is only one, ever.
    taken: std::sync::atomic::AtomicBool,
}

/// Value of `closed` once the lane has ended.
const ENDED: u64 = u64::MAX;

impl LaneSeries {
    /// Returns the bytes that [`LaneSeries::new`] takes with the same arguments, all of them touched; with
    /// [`LaneSeries::with_arrivals`] if arrivals are `timed`.
    pub fn bytes(timing: Timing, receives: bool, timed: bool) -> u64 {
        let capacity = timing.open_rows().next_power_of_two();
        let periods = if receives {
            capacity / timing.rows_per_period() + 2
        } else {
            0
        };
        let histograms = Self::histogram_bytes(timed);
        capacity * size_of::<Slot>() as u64 + periods * (size_of::<PeriodSlot>() as u64 + histograms)
    }

    /// Creates a series for one lane. Memory: about 256 bytes per row open at once (settle time + 4 s), and 230 kB per
    /// histogram period for lanes that receive, touched as used.
    pub fn new(timing: Timing, receives: bool) -> Self {
        let capacity = timing.open_rows().next_power_of_two();
        let periods = capacity / timing.rows_per_period() + 2;
        let periods = if receives { periods } else { 0 };
        Self::shaped(timing, capacity, timing.rows_per_period(), periods)
    }

    /// Creates a series of one lane and one stream, whose rows are 100 ms or longer. `ranked`: latencies are kept for
    /// percentiles, of the whole run only: in periods as long as a row stays open, of which there are few. Memory:
    /// about 40 kB, and 690 kB if ranked, with a settle time of a second.
    pub fn of_stream(timing: Timing, ranked: bool) -> Self {
        let (capacity, per) = Self::stream_rows(timing);
        Self::shaped(timing, capacity, per, if ranked { capacity / per + 1 } else { 0 })
    }

    /// Returns the bytes that [`LaneSeries::of_stream`] takes with the same arguments.
    pub fn bytes_of_stream(timing: Timing, ranked: bool, timed: bool) -> u64 {
        let (capacity, per) = Self::stream_rows(timing);
        let histograms = if ranked { Self::histogram_bytes(timed) } else { 0 };
        size_of::<Self>() as u64 + capacity * size_of::<Slot>() as u64 + (capacity / per + 1) * histograms
    }

    /// Returns the bytes of the histograms of one period.
    fn histogram_bytes(timed: bool) -> u64 {
        Time::ranked(timed).len() as u64 * crate::histogram::BUCKETS as u64 * 4
    }

    /// Returns the series with histograms of arrivals and of what follows them, for a path that notes when packets
    /// arrive. Memory: as much again as for the latencies.
    #[must_use]
    pub fn with_arrivals(mut self, timed: bool) -> Self {
        for slot in self.periods.iter_mut().filter(|_| timed) {
            slot[Time::Arrival] = Some(SharedHistogram::new());
            slot[Time::WakeUp] = Some(SharedHistogram::new());
        }
        self
    }

    /// Returns the rows of a stream's ring, and of one of its periods: a whole period fits beside rows that are open.
    fn stream_rows(timing: Timing) -> (u64, u64) {
        let per = timing.open_rows().next_power_of_two();
        (2 * per, per)
    }

    fn shaped(timing: Timing, capacity: u64, rows_per_period: u64, count: u64) -> Self {
        let mut rows = Vec::new();
        rows.resize_with(capacity as usize, Slot::default);
        let mut periods = Vec::new();
        let slot = |time| Time::ranked(false).contains(&time).then(SharedHistogram::new);
        periods.resize_with(count as usize, || PeriodSlot::of(slot));
        Self {
            timing,
            rows: rows.into_boxed_slice(),
            periods: periods.into_boxed_slice(),
            rows_per_period,
            closed: Counter::default(),
            consumed: Counter::default(),
            late_after_close: Counter::default(),
            distance_max: Counter::default(),
            overflow: Slot::default(),
            overflowed: Counter::default(),
            taken: std::sync::atomic::AtomicBool::new(false),
        }
    }

    /// Turns this series into that of another run, whose start is set later. Returns false if the other run needs room
    /// of another size. The memory is there, touched, and zero once a collector has finished: no page is requested
    /// again.
    pub fn renew(&mut self, timing: Timing) -> bool {
        let periods = self.capacity() / timing.rows_per_period() + 2;
        let fits = self.capacity() == timing.open_rows().next_power_of_two()
            && (self.periods.is_empty() || self.periods.len() as u64 == periods);
        if fits {
            self.timing = timing;
            self.rows_per_period = timing.rows_per_period();
            for counter in [
                &self.closed,
                &self.consumed,
                &self.late_after_close,
                &self.distance_max,
                &self.overflowed,
            ] {
                counter.set(0);
            }
            *self.taken.get_mut() = false;
        }
        fits
    }

    /// Returns the writer; there is only one.
    ///
    /// # Panics
    /// When it was taken before: a second writer would lose counts.
    pub fn recorder(&self) -> Recorder<'_> {
        assert!(
            !self.taken.swap(true, std::sync::atomic::Ordering::Relaxed),
            "a lane's series has one writer"
        );
        Recorder {
            series: self,
            row: 0,
            row_lo: self.timing.start_ns,
            row_hi: self.timing.start_ns + self.timing.interval_ns,
            period: 0,
            in_ring: true,
            tally: Tally::default(),
            dirty: false,
            arrivals: Arrivals::default(),
            closed: 0,
            close_at: 0,
        }
    }

    /// Sets the start of the run, which is best chosen once the memory is there.
    ///
    /// # Panics
    /// When the writer was taken: it has read the start.
    pub fn set_start(&mut self, start_ns: u64) {
        assert!(!*self.taken.get_mut(), "the start is set before a lane writes");
        self.timing.start_ns = start_ns;
    }

    /// Returns how time is cut into rows.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// Returns the number below which rows are closed; `u64::MAX` once the lane has ended.
    pub(crate) fn closed(&self) -> u64 {
        self.closed.get_published()
    }

    pub(crate) fn take_row(&self, row: u64) -> Tally {
        self.rows[row as usize & (self.rows.len() - 1)].take()
    }

    /// Moves the histograms of a period into `into`.
    pub(crate) fn drain_period(&self, period: u64, mut into: Times<&mut Histogram>) {
        if !self.periods.is_empty() {
            let slot = &self.periods[(period % self.periods.len() as u64) as usize];
            for (histogram, into) in slot.0.iter().zip(&mut into.0) {
                if let Some(histogram) = histogram {
                    histogram.drain_into(into);
                }
            }
        }
    }

    pub(crate) fn set_consumed(&self, rows: u64) {
        self.consumed.publish(rows);
    }

    pub(crate) fn late_after_close(&self) -> u64 {
        self.late_after_close.get()
    }

    pub(crate) fn distance_max(&self) -> u64 {
        self.distance_max.get()
    }

    pub(crate) fn overflowed(&self) -> u64 {
        self.overflowed.get()
    }

    /// Returns the counts that found no row, once the lane has ended.
    pub(crate) fn take_overflow(&self) -> Tally {
        self.overflow.take()
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.rows.len() as u64
    }
}

/// Writer of a lane's series. Adds up within a burst; call [`Recorder::flush`] at the end of each burst.
#[derive(Debug)]
pub struct Recorder<'s> {
    pub(crate) series: &'s LaneSeries,
    row: u64,
    row_lo: u64,
    row_hi: u64,
    period: usize,
    pub(crate) in_ring: bool,
    tally: Tally,
    dirty: bool,
    pub(crate) arrivals: Arrivals,
    pub(crate) closed: u64,
    close_at: u64,
}

impl Recorder<'_> {
    /// Enters the row of a packet sent (or an event) at `at_ns`. Returns false if that row has closed.
    #[inline]
    fn enter(&mut self, at_ns: u64) -> bool {
        if at_ns >= self.row_lo && at_ns < self.row_hi {
            return self.row >= self.closed;
        }
        self.enter_other(at_ns)
    }

    #[cold]
    fn enter_other(&mut self, at_ns: u64) -> bool {
        self.enter_row(self.series.timing.row_of(at_ns))
    }

    /// As [`Recorder::enter`], by the row's number.
    pub(crate) fn enter_row(&mut self, row: u64) -> bool {
        self.flush();
        let timing = self.series.timing;
        self.row = row;
        self.row_lo = timing.start_ns + self.row * timing.interval_ns;
        self.row_hi = self.row_lo + timing.interval_ns;
        let periods = self.series.periods.len() as u64;
        self.period = if periods == 0 {
            0
        } else {
            (self.row / self.series.rows_per_period % periods) as usize
        };
        self.in_ring = self.has_room(row);
        self.row >= self.closed
    }

    /// Books `n` packets sent at `at_ns` (now or a little earlier).
    #[inline]
    pub fn sent(&mut self, at_ns: u64, n: u64) {
        self.enter(at_ns);
        self.tally.tx += n;
        self.dirty = true;
    }

    /// Books `n` packets, which are among those of [`Recorder::sent`], as ones that have no tag.
    #[cold]
    pub fn sent_untagged(&mut self, at_ns: u64, n: u64) {
        self.event(at_ns, |tally| tally.untagged += n);
    }

    /// Books `n` packets sent at `at_ns` in the ring at once: for one of many recorders, each of which has few packets
    /// of a burst.
    #[inline]
    pub fn sent_now(&mut self, at_ns: u64, n: u64) {
        self.enter(at_ns);
        match self.in_ring {
            true => self.series.rows[self.row as usize & (self.series.rows.len() - 1)].add_sent(n),
            false => {
                self.tally.tx += n;
                self.dirty = true;
            }
        }
    }

    /// Returns whether counts wait for [`Recorder::flush`].
    #[inline]
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Books `n` departures due at `at_ns` and not sent.
    #[cold]
    pub fn missed(&mut self, at_ns: u64, n: u64) {
        if n > 0 {
            self.event(at_ns, |tally| tally.missed += n);
        }
    }

    /// Returns how long a packet may take and be in time, ns.
    #[inline]
    pub fn settle_ns(&self) -> u64 {
        self.series.timing.settle_ns
    }

    /// Returns the end of the row that contains `at_ns`, ns.
    pub fn row_end_ns(&self, at_ns: u64) -> u64 {
        let timing = self.series.timing;
        timing.start_ns + (timing.row_of(at_ns) + 1) * timing.interval_ns
    }

    /// Books a packet received intact for the first time, sent at `sent_ns`. `slip_ns` is how much later than scheduled
    /// it was sent, if known. `distance` is not 0 if it was reordered. Returns true if it was in time, false if it
    /// counts as late.
    #[inline]
    pub fn received(&mut self, sent_ns: u64, delay: Delay, slip_ns: Option<u64>, distance: u64) -> bool {
        let in_time = delay.until_arrival_ns() <= self.series.timing.settle_ns;
        if !self.took_n(sent_ns, delay.latency_ns, in_time, 1, slip_ns.as_slice()) {
            return false;
        }
        if delay.arrival_ns.is_some() {
            self.timed(delay.latency_ns, delay.arrival_ns.as_slice());
        }
        if distance != 0 {
            self.reordered(distance);
        }
        true
    }

    /// As [`Recorder::received`] for `n` (1 or more) packets sent in one burst and received in one, in order.
    /// `slips_ns` are the known slips, at most `n`. When they arrived follows in [`Recorder::timed`]: if it is known,
    /// they were read within the settle time.
    #[inline]
    pub fn received_n(&mut self, sent_ns: u64, received_ns: u64, n: u32, slips_ns: &[u64]) -> bool {
        let latency = received_ns.saturating_sub(sent_ns);
        let in_time = latency <= self.series.timing.settle_ns;
        self.took_n(sent_ns, latency, in_time, n, slips_ns)
    }

    #[inline]
    fn took_n(&mut self, sent_ns: u64, latency: u64, in_time: bool, n: u32, slips_ns: &[u64]) -> bool {
        debug_assert!(slips_ns.len() <= n as usize);
        let open = self.enter(sent_ns);
        self.dirty = true;
        if !in_time || !open {
            return self.late(open, n);
        }
        self.tally.rx += u64::from(n);
        self.took(latency, n);
        if !slips_ns.is_empty() {
            self.book_each(Time::Scheduled, slips_ns.iter().map(|slip| latency + slip));
        }
        true
    }

    /// Books the latency of `n` packets.
    #[inline]
    fn took(&mut self, latency: u64, n: u32) {
        self.tally.times[Time::Latency].record_n(latency, u64::from(n));
        if let Some(histogram) = self.histogram(Time::Latency) {
            histogram.record(latency, n);
        }
    }

    /// Books when packets arrived, ns after they were sent: of those booked last, which had one latency, and of which
    /// none arrived after it was read.
    #[inline]
    pub fn timed(&mut self, latency: u64, arrivals_ns: &[u64]) {
        self.book_each(Time::Arrival, arrivals_ns.iter().copied());
        self.book_each(Time::WakeUp, arrivals_ns.iter().map(|arrival| latency - arrival));
    }

    /// As [`Recorder::received`] for a packet whose latency is not known: it was sent at `sent_ns` or before.
    pub fn counted(&mut self, sent_ns: u64, received_ns: u64) -> bool {
        let open = self.enter(sent_ns);
        self.dirty = true;
        if received_ns.saturating_sub(sent_ns) > self.series.timing.settle_ns || !open {
            return self.late(open, 1);
        }
        self.tally.rx += 1;
        true
    }

    /// Books values of one time, ns, in the row booked last.
    #[inline]
    fn book_each(&mut self, time: Time, values: impl Iterator<Item = u64> + Clone) {
        let moments = Moments::of(values.clone());
        self.tally.times[time].merge(&moments);
        if let Some(histogram) = self.histogram(time) {
            histogram.record_each(values, &moments);
        }
    }

    /// Returns a histogram of the current period; `None` while the ring is full, or if it is not kept.
    #[inline]
    pub(crate) fn histogram(&self, time: Time) -> Option<&SharedHistogram> {
        let slot = self.series.periods.get(self.period).filter(|_| self.in_ring)?;
        slot[time].as_ref()
    }

    #[cold]
    fn late(&mut self, open: bool, n: u32) -> bool {
        if open {
            self.tally.late += u64::from(n);
        } else {
            self.series.late_after_close.add(u64::from(n));
        }
        false
    }

    #[cold]
    fn reordered(&mut self, distance: u64) {
        self.tally.reordered += 1;
        self.tally.distance_sum += distance;
        self.series.distance_max.raise(distance);
    }

    /// Books a packet received on a receiver without a sender, at the time of arrival, with its latency if the clocks
    /// allow one.
    #[inline]
    pub fn arrived(&mut self, at_ns: u64, delay: Option<Delay>, distance: u64) {
        self.arrived_n(at_ns, 1, delay.map(|delay| delay.latency_ns));
        if let Some(delay) = delay {
            self.timed(delay.latency_ns, delay.arrival_ns.as_slice());
        }
        if distance != 0 {
            self.reordered(distance);
        }
    }

    /// Books `n` packets received at `at_ns`, in order, with the latency that each had, if it was taken.
    #[inline]
    pub fn arrived_n(&mut self, at_ns: u64, n: u32, latency_ns: Option<u64>) {
        self.enter(at_ns);
        self.dirty = true;
        self.tally.rx += u64::from(n);
        if let Some(latency) = latency_ns {
            self.took(latency, n);
        }
    }

    /// Adds `n` to the packets that the sequence numbers say were sent, in the row booked last.
    #[inline]
    pub fn expected(&mut self, n: i64) {
        self.tally.expected += n;
    }

    /// Books events by their time: applies `change` to the tally of the row of `at_ns`, or of the oldest open row if
    /// that row has closed. For rare events.
    pub fn event(&mut self, at_ns: u64, change: impl FnOnce(&mut Tally)) {
        if !self.enter(at_ns) {
            let timing = self.series.timing;
            self.enter_other(timing.start_ns + self.closed * timing.interval_ns);
        }
        change(&mut self.tally);
        self.dirty = true;
    }

    /// Books that the lane has waited for room to send for `ns` until `until_ns`: each row gets its part.
    #[cold]
    pub fn blocked(&mut self, until_ns: u64, ns: u64) {
        let (timing, mut at) = (
            self.series.timing,
            until_ns.saturating_sub(ns).max(self.series.timing.start_ns),
        );
        while at < until_ns {
            let row = timing.row_of(at).max(self.closed);
            let end = (timing.start_ns + (row + 1) * timing.interval_ns).clamp(at + 1, until_ns);
            self.slot(row).add_blocked(end - at);
            at = end;
        }
    }

    /// Books a look at a receive ring at `at_ns`, which found the share `ppm` of it in use.
    #[cold]
    pub fn filled(&mut self, at_ns: u64, ppm: u64) {
        let row = self.series.timing.row_of(at_ns).max(self.closed);
        self.slot(row).add_fill(ppm);
    }

    /// Whether the ring has a free place for an open row and for all rows of its period: the last period's rows may be
    /// consumed one by one.
    fn has_room(&self, row: u64) -> bool {
        let per = self.series.rows_per_period;
        (row / per + 1) * per <= self.series.consumed.get_published() + self.series.capacity()
    }

    /// Returns the place where an open row is counted: in the ring, or in the overflow row if the ring has no room.
    pub(crate) fn slot(&self, row: u64) -> &Slot {
        let rows = &self.series.rows;
        match self.has_room(row) {
            true => &rows[row as usize & (rows.len() - 1)],
            false => &self.series.overflow,
        }
    }

    /// Moves the counts of the burst to the ring. Call once per burst.
    #[inline]
    pub fn flush(&mut self) {
        if self.dirty {
            let series = self.series;
            if self.in_ring {
                series.rows[self.row as usize & (series.rows.len() - 1)].add(&self.tally);
            } else {
                series.overflow.add(&self.tally);
                series.overflowed.add(1);
            }
            self.tally = Tally::default();
            self.dirty = false;
        }
    }

    /// Informs the collector how far the lane has come: rows whose settle time is over by `now_ns` close. Call once per
    /// loop, with the time read before the last receive or earlier.
    #[inline]
    pub fn advance(&mut self, now_ns: u64) {
        if now_ns >= self.close_at {
            self.close_rows(now_ns);
        }
    }

    #[cold]
    fn close_rows(&mut self, now_ns: u64) {
        self.flush();
        self.flush_arrivals();
        let timing = self.series.timing;
        let row = timing.closable(now_ns);
        if row > self.closed {
            self.closed = row;
            self.series.closed.publish(row);
        }
        self.close_at = timing.start_ns + (self.closed + 1) * timing.interval_ns + timing.keep_ns();
    }

    /// Ends the lane's series: every row is closed.
    pub fn end(mut self) {
        self.flush();
        self.flush_arrivals();
        self.series.closed.publish(ENDED);
    }
}
