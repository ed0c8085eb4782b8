//! The collector: merges the lanes' rows once all have closed them, and hands them on. Runs on a thread of its own.

use crate::histogram::{Histogram, Moments};
use crate::series::LaneSeries;
use crate::stretches::{Stretches, Stretching};
use crate::tally::Tally;
use crate::{Event, Latency, Period, Row, Sink, Timing, Wants, Workload};
use std::collections::VecDeque;

/// Rows shorter than this carry no host wait: it is sampled more slowly.
const HOST_WAIT_ROW_NS: u64 = 100_000_000;

/// The totals of a run: exactly the sums of its rows.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Sums of the plain counts.
    pub tally: Tally,
    /// Lost (signed as in the rows; the sum is not negative for a run that has ended).
    pub lost: i64,
    /// Largest distance of a reordered packet.
    pub distance_max: u64,
    /// Latency from the actual send time.
    pub latency: Latency,
    /// Latency from the scheduled send time.
    pub scheduled: Latency,
    /// Bookings that are in the totals but in no particular row, because the collector could not keep up.
    pub overflowed: u64,
    /// Rows handed on.
    pub rows: u64,
    /// When packets were lost.
    pub loss: Stretches,
    /// Packets that this host dropped, where that was noted.
    pub host_dropped: Option<u64>,
    /// When.
    pub host_drops: Stretches,
}

/// Merges lanes' series into rows.
#[derive(Debug)]
pub struct Collector<'s> {
    lanes: Vec<&'s LaneSeries>,
    timing: Timing,
    workload: Workload,
    paced: bool,
    next_row: u64,
    /// The last row of the run, once the end is known.
    last_row: Option<u64>,
    end_ns: u64,
    corrections_seen: u64,
    /// Packets that rows have as sent and that were not, after all: the next rows have as many less.
    owed: u64,
    totals: Totals,
    wants: Wants,
    latency_total: Histogram,
    scheduled_total: Histogram,
    latency_period: Histogram,
    scheduled_period: Histogram,
    /// (sampled at, since the sample before: ns of host wait, ns of this program's own threads).
    host_waits: VecDeque<(u64, u64, u64)>,
    host_wait_known: bool,
    /// Lanes send themselves, and tell when they can't.
    sees_blocked: bool,
    recent: Option<Latency>,
    loss: Stretching,
    drops: HostDrops,
}

/// What this host dropped, as noted.
#[derive(Debug, Default)]
struct HostDrops {
    /// Newest reading: ns since the start, and the packets dropped until then.
    read: Option<(u64, u64)>,
    /// (row, packets): not handed on yet.
    waiting: VecDeque<(u64, u64)>,
    stretches: Stretching,
}

impl<'s> Collector<'s> {
    /// A collector over the series of all lanes. `paced` says whether scheduled send times are known.
    ///
    /// # Panics
    /// When the lanes don't share one [`Timing`], or there are none.
    pub fn new(lanes: Vec<&'s LaneSeries>, workload: Workload, paced: bool) -> Self {
        let timing = lanes[0].timing();
        assert!(
            lanes.iter().all(|lane| lane.timing() == timing),
            "lanes of one run share their timing"
        );
        Self {
            lanes,
            timing,
            workload,
            paced,
            next_row: 0,
            last_row: None,
            end_ns: 0,
            corrections_seen: 0,
            owed: 0,
            totals: Totals::default(),
            wants: Wants::ALL,
            latency_total: Histogram::default(),
            scheduled_total: Histogram::default(),
            latency_period: Histogram::default(),
            scheduled_period: Histogram::default(),
            host_waits: VecDeque::new(),
            host_wait_known: false,
            sees_blocked: true,
            recent: None,
            loss: Stretching::default(),
            drops: HostDrops::default(),
        }
    }

    /// The kernel sends, not a lane: for how long it could not is not known.
    pub fn kernel_sends(&mut self) {
        self.sees_blocked = false;
    }

    /// Works out no more than is wanted from now on. The totals stay whole.
    pub fn set_wants(&mut self, wants: Wants) {
        self.wants = wants;
    }

    /// Whether rows tell what kept lanes from running: short ones do not.
    pub fn tells_host_wait(&self) -> bool {
        self.timing.interval_ns >= HOST_WAIT_ROW_NS
    }

    /// Notes that by `now_ns` the host has kept lanes from running for `waited_ns` since the last note, and this
    /// program's own threads have worked for `own_ns`.
    pub fn note_host_wait(&mut self, now_ns: u64, waited_ns: u64, own_ns: u64) {
        self.host_wait_known = true;
        if waited_ns > 0 || own_ns > 0 {
            self.host_waits.push_back((now_ns, waited_ns, own_ns));
        }
    }

    /// When the run begins, ns on the clock of the lanes.
    pub fn start_ns(&self) -> u64 {
        self.timing.start_ns
    }

    /// When the path's counters are to be read next after `now_ns`: at the end of a row, or of as many as are 100 ms.
    pub fn next_reading_ns(&self, now_ns: u64) -> u64 {
        let step = self.timing.rows_per_period() * self.timing.interval_ns;
        let since_start = now_ns.saturating_sub(self.timing.start_ns);
        self.timing.start_ns + (since_start / step + 1) * step
    }

    /// Notes that by `now_ns` this host has dropped `total` packets since the start. They stand in the row at whose end
    /// the reading was due, or, where that was handed on, in the next; once the end is known, in the last.
    pub fn note_host_drops(&mut self, now_ns: u64, total: u64) {
        let at = now_ns.saturating_sub(self.timing.start_ns);
        let (before, had) = self.drops.read.unwrap_or((0, 0));
        let total = total.max(had);
        let step = self.timing.rows_per_period() * self.timing.interval_ns;
        let due = ((at / step * step) / self.timing.interval_ns).saturating_sub(1);
        let row = self.last_row.unwrap_or(due).max(self.next_row);
        self.drops.waiting.push_back((row, total - had));
        self.drops.stretches.add(before, at, (total - had).cast_signed());
        self.drops.read = Some((at, total));
    }

    /// Packets that this host dropped so far, as last noted.
    pub fn host_dropped(&self) -> Option<u64> {
        self.drops.read.map(|(_, total)| total)
    }

    /// Tells when sending (or, on a receiver, receiving) ended. What is booked later belongs to the last row.
    pub fn set_end(&mut self, end_ns: u64) {
        self.end_ns = end_ns;
        self.last_row = Some(
            self.timing
                .row_of(end_ns.max(self.timing.start_ns + 1) - 1)
                .max(self.next_row),
        );
    }

    /// Hands on every row that has closed.
    pub fn poll(&mut self, sinks: &mut [Box<dyn Sink>]) {
        let closed = self.lanes.iter().map(|lane| lane.closed()).min().unwrap_or(0);
        // Lanes that have all ended close every row there could be: which is the last, only the end tells.
        let Some(limit) = self.last_row.or((closed != u64::MAX).then_some(u64::MAX)) else {
            return;
        };
        while self.next_row < closed.min(limit) {
            let tally = self.take_row(self.next_row);
            self.emit(tally, self.timing.interval_ns, sinks);
        }
    }

    /// Hands on the remaining rows once every lane has ended, and returns the totals.
    ///
    /// # Panics
    /// When [`Collector::set_end`] was not called or a lane still runs.
    pub fn finish(&mut self, sinks: &mut [Box<dyn Sink>]) -> Totals {
        assert!(
            self.lanes.iter().all(|lane| lane.closed() == u64::MAX),
            "every lane has ended"
        );
        self.poll(sinks);
        let last = self.last_row.expect("the end is known");
        // Everything booked after the end of sending goes to the last row: that is what may still be in the ring.
        let mut tally = self.take_row(last);
        let highest = last + self.lanes.iter().map(|lane| lane.capacity()).max().unwrap_or(0);
        for row in last + 1..highest {
            let more = self.take_row(row);
            tally.merge(&more);
        }
        let period = last / self.timing.rows_per_period();
        let count = highest / self.timing.rows_per_period() - period;
        for extra in 0..=count {
            self.drain_period(period + extra);
        }
        for lane in &self.lanes {
            tally.merge(&lane.take_overflow());
            self.totals.overflowed += lane.overflowed();
        }
        let row_start = self.timing.start_ns + last * self.timing.interval_ns;
        let length = self.end_ns.saturating_sub(row_start).clamp(1, self.timing.interval_ns);
        self.emit(tally, length, sinks);
        if last % self.timing.rows_per_period() != self.timing.rows_per_period() - 1 {
            self.close_period(period, sinks);
        }
        let mut totals = self.totals.clone();
        totals.tally.tx = totals.tally.tx.saturating_sub(self.owed);
        totals.latency = totals.tally.latency.latency(Some(&self.latency_total));
        totals.scheduled = totals.tally.scheduled.latency(Some(&self.scheduled_total));
        totals.distance_max = self.lanes.iter().map(|lane| lane.distance_max()).max().unwrap_or(0);
        totals.loss = std::mem::take(&mut self.loss).end();
        totals.host_dropped = self.host_dropped();
        totals.host_drops = std::mem::take(&mut self.drops.stretches).end();
        totals
    }

    /// Sums over the rows so far: packets sent, lost.
    pub fn so_far(&self) -> (u64, i64) {
        (self.totals.tally.tx, self.totals.lost)
    }

    /// How far rows have been handed on, ns since the start.
    pub fn closed_ns(&self) -> u64 {
        self.next_row * self.timing.interval_ns
    }

    /// Latency of the newest row that had any.
    pub fn recent_latency(&self) -> Option<Latency> {
        self.recent
    }

    fn take_row(&self, row: u64) -> Tally {
        let mut tally = Tally::default();
        for lane in &self.lanes {
            tally.merge(&lane.take_row(row));
        }
        tally
    }

    /// Histograms of a period are kept apart from the totals only where somebody looks at them.
    fn keeps_periods(&self) -> [bool; 2] {
        let rows = self.timing.rows_per_period() == 1;
        let latency = self.wants.histograms || (rows && self.wants.percentiles);
        [latency, rows && self.wants.scheduled_percentiles]
    }

    fn drain_period(&mut self, period: u64) {
        let [latency, scheduled] = self.keeps_periods();
        let latency = if latency {
            &mut self.latency_period
        } else {
            &mut self.latency_total
        };
        let scheduled = if scheduled {
            &mut self.scheduled_period
        } else {
            &mut self.scheduled_total
        };
        for lane in &self.lanes {
            lane.drain_period(period, latency, scheduled);
        }
    }

    fn close_period(&mut self, period: u64, sinks: &mut [Box<dyn Sink>]) {
        let rows = self.timing.rows_per_period();
        let length = rows * self.timing.interval_ns;
        if self.wants.histograms && self.latency_period.count() > 0 {
            let buckets: Vec<_> = self.latency_period.buckets().collect();
            let period = Period {
                start_ns: period * length,
                length_ns: length,
                buckets: &buckets,
            };
            for sink in sinks.iter_mut() {
                sink.event(&Event::Period(period));
            }
        }
        for (of_period, total) in [
            (&mut self.latency_period, &mut self.latency_total),
            (&mut self.scheduled_period, &mut self.scheduled_total),
        ] {
            if of_period.count() > 0 {
                total.merge(of_period);
                of_period.clear();
            }
        }
    }

    /// Turns the tally of row `next_row` into a [`Row`], hands it on, and frees its place in the rings.
    fn emit(&mut self, mut tally: Tally, length_ns: u64, sinks: &mut [Box<dyn Sink>]) {
        let index = self.next_row;
        let rows = self.timing.rows_per_period();
        let corrections: u64 = self.lanes.iter().map(|lane| lane.late_after_close()).sum();
        tally.late += corrections - self.corrections_seen;
        self.corrections_seen = corrections;

        let whole_period = index % rows == rows - 1;
        if whole_period {
            self.drain_period(index / rows);
        }
        let [of_latency, of_scheduled] = self.keeps_periods().map(|kept| kept && rows == 1);
        let host = self.host_wait_until(self.timing.start_ns + index * self.timing.interval_ns + length_ns);
        let histogram = |kept: bool, h, m: &Moments| -> Latency { m.latency(if kept { Some(h) } else { None }) };
        let (tx, lost) = match self.workload {
            Workload::SendRecv => (tally.tx, tally.tx as i64 - tally.rx as i64 - tally.late as i64),
            Workload::Send => (tally.tx, 0),
            Workload::Drop | Workload::Capture => {
                let expected = tally.expected - self.owed.cast_signed();
                self.owed = expected.min(0).unsigned_abs();
                let lost = tally.expected - tally.rx as i64 - tally.late as i64;
                (expected.max(0).unsigned_abs(), lost)
            }
            Workload::Reflect | Workload::Forward => (tally.tx, tally.rx as i64 - tally.tx as i64),
        };
        tally.tx = tx;
        let start_ns = index * self.timing.interval_ns;
        let row = Row {
            index,
            start_ns,
            length_ns,
            tx,
            rx: tally.rx,
            lost,
            late: tally.late,
            duplicates: tally.duplicates,
            reordered: tally.reordered,
            corrupt: tally.corrupt,
            foreign: tally.foreign,
            missed: tally.missed,
            latency: histogram(of_latency, &self.latency_period, &tally.latency),
            latency_scheduled: self
                .paced
                .then(|| histogram(of_scheduled, &self.scheduled_period, &tally.scheduled)),
            host_wait_ns: host.map(|(waited, _)| waited),
            own_threads_ns: host.map(|(_, own)| own),
            host_dropped: self.host_dropped_until(index),
            blocked_ns: self.sees_blocked.then_some(tally.blocked_ns),
        };
        self.loss.add(start_ns, start_ns + length_ns, lost);
        self.totals.tally.merge(&tally);
        self.totals.lost += lost;
        self.totals.rows += 1;
        if row.latency.count > 0 {
            self.recent = Some(row.latency);
        }
        if self.wants.rows {
            for sink in sinks.iter_mut() {
                sink.event(&Event::Row(&row));
            }
        }
        if whole_period {
            self.close_period(index / rows, sinks);
        }
        self.next_row += 1;
        for lane in &self.lanes {
            lane.set_consumed(self.next_row);
        }
    }

    fn host_dropped_until(&mut self, row: u64) -> Option<u64> {
        // Nothing follows the last row.
        let row = if self.last_row == Some(row) { u64::MAX } else { row };
        let mut dropped = None;
        while let Some(&(at, n)) = self.drops.waiting.front() {
            if at > row {
                break;
            }
            *dropped.get_or_insert(0) += n;
            self.drops.waiting.pop_front();
        }
        dropped
    }

    /// Waits of the host and work of own threads sampled by `end_ns` and in no row yet, ns.
    fn host_wait_until(&mut self, end_ns: u64) -> Option<(u64, u64)> {
        let mut sum = (0, 0);
        while let Some(&(at, waited, own)) = self.host_waits.front() {
            if at > end_ns {
                break;
            }
            sum = (sum.0 + waited, sum.1 + own);
            self.host_waits.pop_front();
        }
        (self.host_wait_known && self.tells_host_wait()).then_some(sum)
    }
}
