//! One book of a run: its rows, totals and histograms. Most runs have one book. If packets go in several tracks at the
//! same time, each track has its own book, and their sum has one as well.

use crate::collector::Totals;
use crate::histogram::Histogram;
use crate::stretches::Stretching;
use crate::tally::Tally;
use crate::times::{Time, Times};
use crate::{Latency, Row, RowFill, Timing, Wants, Workload};
use std::collections::VecDeque;

/// Rows of a run in the making, and their totals.
#[derive(Debug)]
pub(crate) struct Book {
    timing: Timing,
    rows_per_period: u64,
    workload: Workload,
    paced: bool,
    /// Latencies have percentiles.
    ranked: bool,
    /// The book is of the run or of a track, and has histograms of periods.
    of_run: bool,
    corrections_seen: u64,
    /// Packets that rows counted as sent but that were not sent: the next rows are reduced by this number.
    owed: u64,
    pub(crate) totals: Totals,
    pub(crate) wants: Wants,
    total: Times<Histogram>,
    period: Times<Histogram>,
    /// (time of the sample, then since the sample before: ns of host wait, ns of this program's own threads).
    host_waits: VecDeque<(u64, u64, u64)>,
    host_wait_known: bool,
    /// Whether lanes send themselves and so know when they can't.
    pub(crate) sees_blocked: bool,
    /// Whether the receiver knows the time of arrival (`sendrecv` only).
    pub(crate) sees_arrivals: bool,
    /// Taker of the times of arrival.
    arrivals: ArrivalTimes,
    pub(crate) recent: Option<Latency>,
    loss: Stretching,
    missed: Stretching,
    drops: HostDrops,
}

/// Taker of the times of arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArrivalTimes {
    /// Nobody: only the lane takes a time.
    #[default]
    Unknown,
    /// The path, beside the lane.
    Noted,
    /// The path alone: there is no lane, and latency ends with the arrival.
    OfLatency,
}

impl ArrivalTimes {
    /// Returns the latencies until arrival, and what follows until the lane's reading, where these are known.
    fn of(self, latency: Latency, times: impl Fn(Time) -> Latency) -> [Option<Latency>; 2] {
        match self {
            Self::Unknown => [None, None],
            // Of two ports one may note nothing.
            Self::Noted => [Time::Arrival, Time::WakeUp]
                .map(|time| Some(times(time)).filter(|of| of.count > 0 || latency.count == 0)),
            Self::OfLatency => [Some(latency), None],
        }
    }
}

/// Packets that this host dropped, as noted.
#[derive(Debug, Default)]
struct HostDrops {
    /// Newest reading: ns since the start, and the packets dropped until then.
    read: Option<(u64, u64)>,
    /// (row, packets) not yet handed on.
    waiting: VecDeque<(u64, u64)>,
    stretches: Stretching,
}

impl Book {
    pub(crate) fn new(timing: Timing, workload: Workload, paced: bool) -> Self {
        let latency = |time| match time {
            Time::Latency | Time::Scheduled => Histogram::default(),
            Time::Arrival | Time::WakeUp => Histogram::none(),
        };
        Self {
            total: Times::of(latency),
            period: Times::of(latency),
            ..Self::empty(timing, workload, paced)
        }
    }

    fn empty(timing: Timing, workload: Workload, paced: bool) -> Self {
        Self {
            timing,
            rows_per_period: timing.rows_per_period(),
            workload,
            paced,
            ranked: true,
            of_run: true,
            corrections_seen: 0,
            owed: 0,
            totals: Totals::default(),
            wants: Wants::ALL,
            total: Times::of(|_| Histogram::none()),
            period: Times::of(|_| Histogram::none()),
            host_waits: VecDeque::new(),
            host_wait_known: false,
            sees_blocked: true,
            sees_arrivals: true,
            arrivals: ArrivalTimes::Unknown,
            recent: None,
            loss: Stretching::default(),
            missed: Stretching::default(),
            drops: HostDrops::default(),
        }
    }

    /// Makes the book of a stream, with percentiles of the whole run if it is `ranked`.
    pub(crate) fn of_stream(
        timing: Timing,
        rows_per_period: u64,
        workload: Workload,
        (paced, ranked): (bool, bool),
    ) -> Self {
        let histogram = |time| match time {
            Time::Latency | Time::Scheduled if ranked => Histogram::default(),
            _ => Histogram::none(),
        };
        Self {
            rows_per_period,
            ranked,
            of_run: false,
            wants: Wants::default(),
            total: Times::of(histogram),
            sees_blocked: false,
            sees_arrivals: false,
            ..Self::empty(timing, workload, paced)
        }
    }

    /// Notes who takes the times of arrivals: nobody, until this is called.
    pub(crate) fn time_arrivals(&mut self, arrivals: ArrivalTimes) {
        self.arrivals = arrivals;
        if arrivals == ArrivalTimes::Noted && self.ranked {
            for time in [Time::Arrival, Time::WakeUp] {
                self.total[time] = Histogram::default();
                if self.of_run {
                    self.period[time] = Histogram::default();
                }
            }
        }
    }

    pub(crate) fn note_host_wait(&mut self, now_ns: u64, waited_ns: u64, own_ns: u64) {
        self.host_wait_known = true;
        if waited_ns > 0 || own_ns > 0 {
            self.host_waits.push_back((now_ns, waited_ns, own_ns));
        }
    }

    /// As [`crate::Collector::note_host_drops`]; rows below `next_row` were handed on, and `last_row` is the last row
    /// once the end is known.
    pub(crate) fn note_host_drops(&mut self, now_ns: u64, total: u64, (next_row, last_row): (u64, Option<u64>)) {
        let at = now_ns.saturating_sub(self.timing.start_ns);
        let (before, had) = self.drops.read.unwrap_or((0, 0));
        let total = total.max(had);
        let step = self.rows_per_period * self.timing.interval_ns;
        let due = ((at / step * step) / self.timing.interval_ns).saturating_sub(1);
        let row = last_row.unwrap_or(due).max(next_row);
        self.drops.waiting.push_back((row, total - had));
        self.drops.stretches.add(before, at, (total - had).cast_signed());
        self.drops.read = Some((at, total));
    }

    /// Returns the packets that this host dropped so far, as last noted.
    pub(crate) fn host_dropped(&self) -> Option<u64> {
        self.drops.read.map(|(_, total)| total)
    }

    /// Whether a time keeps a histogram of the period apart from the totals: only if a sink wants it.
    fn keeps_periods(&self) -> Times<bool> {
        let rows = self.rows_per_period == 1;
        Times::of(|time| match time {
            Time::Latency | Time::Arrival | Time::WakeUp => self.wants.histograms || (rows && self.wants.percentiles),
            Time::Scheduled => (rows || self.wants.histograms) && self.wants.scheduled_percentiles,
        })
    }

    /// Returns the histograms that count the current period.
    pub(crate) fn histograms(&mut self) -> Times<&mut Histogram> {
        let keeps = self.keeps_periods();
        let of = self.period.zip_mut(&mut self.total).zip(keeps.0);
        let mut chosen = of.map(|((period, total), keeps)| if keeps { period } else { total });
        Times::of(|_| chosen.next().expect("one for each time"))
    }

    /// Returns the current period's values of each time; empty where there is none, or if no sink wants them.
    pub(crate) fn buckets(&self) -> Times<Vec<(u64, u64)>> {
        Times::of(|time| match time {
            Time::Scheduled if !self.paced => Vec::new(),
            Time::Arrival if self.arrivals == ArrivalTimes::OfLatency => self.period[Time::Latency].buckets().collect(),
            _ => self.period[time].buckets().collect(),
        })
    }

    /// Merges the histograms of the current period into the totals. Call after they were handed on.
    pub(crate) fn close_period(&mut self) {
        for (of_period, total) in self.period.zip_mut(&mut self.total) {
            if of_period.count() > 0 {
                total.merge(of_period);
                of_period.clear();
            }
        }
    }

    /// Turns the tally of row `index` into a [`Row`]. `corrections`: packets so far that came back after their row had
    /// closed; `last_row`: the last row of the run, if it is known.
    pub(crate) fn row(
        &mut self,
        index: u64,
        mut tally: Tally,
        length_ns: u64,
        corrections: u64,
        last_row: Option<u64>,
    ) -> Row {
        tally.late += corrections - self.corrections_seen;
        self.corrections_seen = corrections;

        let rows = self.rows_per_period;
        let keeps = self.keeps_periods();
        let host = self.host_wait_until(self.timing.start_ns + index * self.timing.interval_ns + length_ns);
        let times = |time: Time| {
            let kept = keeps[time] && rows == 1;
            tally.times[time].latency(kept.then_some(&self.period[time]))
        };
        let (latency, scheduled) = (times(Time::Latency), self.paced.then(|| times(Time::Scheduled)));
        let [arrival, wake_up] = self.arrivals.of(latency, times);
        let (tx, lost) = match self.workload {
            Workload::SendRecv => (
                tally.tx,
                (tally.tx as i64 - tally.untagged as i64) - tally.rx as i64 - tally.late as i64,
            ),
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
            rx_by_arrival: match self.workload {
                Workload::SendRecv => self.sees_arrivals.then_some(tally.arrived),
                Workload::Send => None,
                // Their rows are by arrival.
                Workload::Drop | Workload::Reflect | Workload::Forward | Workload::Capture => Some(tally.rx),
            },
            lost,
            late: tally.late,
            duplicates: tally.duplicates,
            reordered: tally.reordered,
            corrupt: tally.corrupt,
            foreign: tally.foreign,
            untagged: tally.untagged,
            missed: tally.missed,
            latency,
            latency_scheduled: scheduled,
            latency_arrival: arrival,
            wake_up,
            host_wait_ns: host.map(|(waited, _)| waited),
            own_threads_ns: host.map(|(_, own)| own),
            host_dropped: self.host_dropped_until(index, last_row),
            blocked_ns: self.sees_blocked.then_some(tally.blocked_ns),
            rx_fill: (tally.fill_looks > 0).then(|| RowFill {
                highest_ppm: tally.fill_highest_ppm,
                mean_ppm: tally.fill_sum_ppm / tally.fill_looks,
            }),
        };
        self.loss.add(start_ns, start_ns + length_ns, lost);
        self.missed
            .add(start_ns, start_ns + length_ns, tally.missed.cast_signed());
        self.totals.tally.merge(&tally);
        self.totals.lost += lost;
        self.totals.rows += 1;
        if row.latency.count > 0 {
            self.recent = Some(row.latency);
        }
        row
    }

    /// Returns the totals. Call after the last row was handed on.
    pub(crate) fn end(&mut self, distance_max: u64) -> Totals {
        let mut totals = self.totals.clone();
        totals.tally.tx = totals.tally.tx.saturating_sub(self.owed);
        let moments = totals.tally.times;
        let times = |time: Time| moments[time].latency(self.ranked.then_some(&self.total[time]));
        totals.latency = times(Time::Latency);
        totals.scheduled = times(Time::Scheduled);
        [totals.arrival, totals.wake_up] = self.arrivals.of(totals.latency, times);
        if self.ranked {
            totals.unranked = totals.latency.count.saturating_sub(self.total[Time::Latency].count());
        }
        totals.distance_max = distance_max;
        totals.loss = std::mem::take(&mut self.loss).end();
        totals.missed = std::mem::take(&mut self.missed).end();
        totals.host_dropped = self.host_dropped();
        totals.host_drops = std::mem::take(&mut self.drops.stretches).end();
        totals
    }

    fn host_dropped_until(&mut self, row: u64, last_row: Option<u64>) -> Option<u64> {
        // Nothing follows the last row.
        let row = if last_row == Some(row) { u64::MAX } else { row };
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

    /// Returns the host wait and the work of own threads, ns, sampled by `end_ns` and not in a row yet.
    fn host_wait_until(&mut self, end_ns: u64) -> Option<(u64, u64)> {
        let mut sum = (0, 0);
        while let Some(&(at, waited, own)) = self.host_waits.front() {
            if at > end_ns {
                break;
            }
            sum = (sum.0 + waited, sum.1 + own);
            self.host_waits.pop_front();
        }
        (self.host_wait_known && self.timing.has_long_rows()).then_some(sum)
    }
}
