//! The reader: takes the programs' counts and books them, watches for the end, and gets the lanes out.
//!
//! A program writes a row for as long as packets sent in it may come back. So a row is taken when the recorder would
//! close it ([`Timing::closable`]): settle time and grace are over. The programs keep a limited number of rows, in a
//! ring. A reader that was kept from running for longer leaves alone the places that are being written again. Their
//! counts are taken with the later row. If a port does not keep them, packets sent and received are corrected at the
//! end from the totals; the other counts have no second source. The run then warns as one whose collector was too slow.

use super::sender::Exit;
use super::{InKernel, trouble};
use crate::books::Books;
use crate::lane::Lane;
use crate::outcome::{LaneOutcome, PortCounts, SourceCounts};
use mpps_io::ErrorKind;
use mpps_io::kernel::{KernelLatency, KernelMoments, KernelPort, KernelRow, KernelTrack, SourceTotals};
use mpps_stats::{Moments, Recorder, Tally, Time, Times, Timing, Workload};
use std::thread;
use std::time::Duration;

/// Longest time between two looks of the reader, ns: rows that close and lanes that are done wait for it. A moved end
/// wakes it at once.
const TICK_NS: u64 = 50_000_000;
/// Time between two calls of lanes that are to leave the kernel, and the least time between looks, ns: for short rows,
/// of which the kernel keeps a limited number.
const CALL_NS: u64 = 10_000_000;
/// Most calls of lanes out of the kernel when the reader fails.
const LAST_CALLS: u32 = 300;

/// Runs the reader of a track until the end of the run and, if packets come back, of the settle time.
pub(super) fn run(job: &InKernel<'_>, track: usize, lane: &Lane<'_>, recorder: Recorder<'_>) -> LaneOutcome {
    let mut reader = Reader::new(job, track, lane, recorder);
    let _last_call = LastCall(reader.port, reader.exits);
    let mut checked_ns = lane.clock.now_ns();
    loop {
        reader.pause();
        let now = lane.clock.now_ns();
        let end_ns = lane.control.end_ns();
        reader.tell_end(end_ns);
        let checked = reader
            .port
            .check()
            .and_then(|()| job.beside().map_or(Ok(()), KernelPort::check));
        if let Err(error) = checked {
            if error.kind == ErrorKind::LinkDown {
                lane.counters.down_ns.add(now.saturating_sub(checked_ns));
            }
            trouble(lane, &error);
        }
        checked_ns = now;
        reader.total();
        reader.take(now);
        let all_out = reader.call_out(now, end_ns);
        if all_out && (lane.control.gone() || now >= reader.settled_ns(end_ns)) {
            break;
        }
    }
    let outcome = reader.finish();
    lane.counters.phase.set(2);
    outcome
}

/// Calls the lanes out of the kernel when the reader panics.
struct LastCall<'j>(&'j dyn KernelPort, &'j [Exit]);

impl Drop for LastCall<'_> {
    fn drop(&mut self) {
        for _ in 0..LAST_CALLS {
            let mut inside = self.1.iter().enumerate().filter(|(_, e)| !e.is_out()).peekable();
            if inside.peek().is_none() {
                return;
            }
            inside.for_each(|(lane, exit)| exit.ask(self.0, lane));
            thread::sleep(Duration::from_nanos(CALL_NS));
        }
    }
}

struct Reader<'j, 'l, 's> {
    job: &'j InKernel<'j>,
    /// Port of the reader's track, and the lanes that send in it.
    port: &'j dyn KernelPort,
    exits: &'j [Exit],
    lane: &'j Lane<'l>,
    recorder: Recorder<'s>,
    /// Entries by stream and size, and the late packets of each so far.
    books: Books<'l>,
    late_of: Vec<(KernelTrack, u64)>,
    timing: Timing,
    /// Time between two looks, ns.
    tick_ns: u64,
    /// First row that was not taken.
    next_row: u64,
    /// First histogram period that was not taken.
    next_period: u64,
    /// Number of moves of the end that were seen.
    ends_seen: u64,
    /// The end that the programs know.
    told_end_ns: u64,
    late: u64,
    /// Packets received by the last look, and the time of that look, ns.
    seen: (u64, u64),
    booked: Booked,
    /// Rows were taken too late to be sure of their place in the ring.
    starved: bool,
}

/// Packets booked so far.
#[derive(Clone, Copy, Debug, Default)]
struct Booked {
    tx: u64,
    rx: u64,
}

impl<'j, 'l, 's> Reader<'j, 'l, 's> {
    fn new(job: &'j InKernel<'j>, track: usize, lane: &'j Lane<'l>, recorder: Recorder<'s>) -> Self {
        let timing = recorder.timing();
        let port = job.ports[track];
        let streams = (0..port.streams()).map(KernelTrack::Stream);
        let sizes = (0..port.sizes()).map(KernelTrack::Size);
        let kept_ns = port.row_capacity().saturating_mul(timing.interval_ns);
        Self {
            timing,
            tick_ns: (kept_ns / 16).clamp(CALL_NS, TICK_NS),
            job,
            port,
            exits: &job.exits[track],
            books: lane.books(),
            late_of: streams.chain(sizes).map(|track| (track, 0)).collect(),
            lane,
            recorder,
            next_row: 0,
            next_period: 0,
            ends_seen: 0,
            told_end_ns: u64::MAX,
            late: 0,
            seen: (0, timing.start_ns),
            booked: Booked::default(),
            starved: false,
        }
    }

    /// Returns when the run is over for a reader that receives, ns.
    fn settled_ns(&self, end_ns: u64) -> u64 {
        let settle_ns = match self.job.workload {
            Workload::SendRecv => self.timing.settle_ns,
            _ => 0,
        };
        let settled = end_ns.saturating_add(settle_ns);
        settled.min(self.lane.control.settle_end_ns()).max(end_ns)
    }

    /// Sleeps for a tick, or less if the end comes before.
    fn pause(&mut self) {
        let now = self.lane.clock.now_ns();
        let end_ns = self.lane.control.end_ns();
        // A look at the end of a row shows how many packets arrived in it.
        let row_ns = self.timing.start_ns + (self.timing.row_of(now) + 1) * self.timing.interval_ns;
        let row_end = self.timing.has_long_rows().then_some(row_ns);
        let ends = [Some(end_ns), Some(self.settled_ns(end_ns)), row_end];
        let next = ends.into_iter().flatten().filter(|&at| at > now);
        let tick_ns = if now < end_ns { self.tick_ns } else { CALL_NS };
        let pause = next.map(|at| at - now).fold(tick_ns, u64::min);
        let timeout = Duration::from_nanos(pause);
        self.lane.control.sleep_until_moved(timeout, &mut self.ends_seen);
    }

    fn tell_end(&mut self, end_ns: u64) {
        if end_ns != self.told_end_ns {
            self.told_end_ns = end_ns;
            self.port.set_end(end_ns);
        }
    }

    /// Calls out the lanes that have nothing more to send. Returns true when all are out.
    fn call_out(&self, now_ns: u64, end_ns: u64) -> bool {
        let (job, port, control) = (self.job, self.port, self.lane.control);
        // Packets that were due before the end may still be sent.
        let catch_up = job.traffic.filter(|plan| plan.rate.is_some()).map(|plan| plan.catch_up);
        let last_ns = end_ns.saturating_add(catch_up.map_or(0, |d| d.as_nanos() as u64));
        let over = control.gone() || now_ns >= last_ns.min(control.settle_end_ns().max(end_ns));
        let mut all_out = true;
        for (index, exit) in self.exits.iter().enumerate().filter(|(_, exit)| !exit.is_out()) {
            all_out = false;
            if over || port.lane_totals(index).done {
                exit.ask(port, index);
            }
        }
        all_out
    }

    /// Brings the counters up to date, and books packets that came late.
    fn total(&mut self) {
        let port = self.port;
        let counters = self.lane.counters;
        let (mut tx, mut bursts, mut waits) = (0, 0, 0);
        for lane in (0..self.exits.len()).map(|lane| port.lane_totals(lane)) {
            tx += lane.packets;
            bursts += lane.bursts;
            waits += lane.waits;
        }
        let all = sum((0..port.sources()).map(|source| port.source_totals(source)));
        if self.job.workload.passes_on() {
            tx += all.tx;
        }
        counters.tx_packets.set(tx);
        counters.tx_bursts.set(bursts);
        counters.waits.set(waits);
        counters.rx_packets.set(all.packets);
        counters.rx_bursts.set(all.polls);
        counters.rx_test.set(all.test);
        counters.first_rx_ns.set(all.first_ns);
        counters.last_rx_ns.set(all.last_ns);
        self.arrivals(all.test);
        self.recorder.late_after_close(all.late.saturating_sub(self.late));
        self.late = self.late.max(all.late);
        self.recorder.farthest(all.distance_max);
        for (track, seen) in &mut self.late_of {
            let (late, distance) = port.track_totals(*track);
            self.books.book_totals(*track, late.saturating_sub(*seen), distance);
            *seen = late.max(*seen);
        }
    }

    /// Returns the last ns of a row.
    fn last_ns(&self, row: u64) -> u64 {
        self.timing.start_ns + (row + 1) * self.timing.interval_ns - 1
    }

    /// Books packets received since the last look by arrival: to the row that contains the middle of the time between
    /// the two looks, as looks are seldom late.
    fn arrivals(&mut self, received: u64) {
        let now_ns = self.lane.clock.now_ns();
        let (before, then_ns) = self.seen;
        if received > before {
            self.recorder.by_arrival(then_ns.midpoint(now_ns), received - before);
        }
        self.seen = (received.max(before), now_ns);
    }

    /// Takes and books every row that can change no more, and each period whose rows have all been taken.
    fn take(&mut self, now_ns: u64) {
        self.leave_overtaken(now_ns);
        let (from, limit) = (self.next_row, self.timing.closable(now_ns));
        if from < limit {
            self.take_rows(from, limit, limit);
            self.next_row = limit;
            // The reader may have been kept from running in between.
            self.starved |= self.timing.row_of(self.lane.clock.now_ns()) >= from + self.port.row_capacity();
        }
        let per = self.timing.rows_per_period();
        while (self.next_period + 1) * per <= self.next_row {
            self.take_histograms(self.next_period, u64::MAX);
            self.next_period += 1;
        }
        self.recorder.flush();
        self.recorder.advance(now_ns);
        self.books.advance(now_ns);
    }

    /// Steps over rows whose places may be written again by now.
    fn leave_overtaken(&mut self, now_ns: u64) {
        let capacity = self.port.row_capacity();
        let ahead = (self.tick_ns / self.timing.interval_ns + 1).min(capacity / 4);
        let oldest = (self.timing.row_of(now_ns) + ahead + 1).saturating_sub(capacity);
        if self.next_row < oldest {
            self.starved = true;
            self.next_row = oldest;
            self.next_period = self.next_period.max(oldest / self.timing.rows_per_period());
        }
    }

    /// Takes rows `from` to `to`. Rows from `bound` on can't have been reached yet, and contain counts of rows that
    /// were stepped over.
    fn take_rows(&mut self, from: u64, to: u64, bound: u64) {
        let timing = self.timing;
        let last_ns = |row: u64| timing.start_ns + (row + 1) * timing.interval_ns - 1;
        let (recorder, booked, books) = (&mut self.recorder, &mut self.booked, &mut self.books);
        self.port.take_rows(from, to, &mut |row, track, counts| {
            let tally = tally(counts);
            if tally == Tally::default() {
                return;
            }
            // Packets that are not of the test are of no stream.
            let own = Tally { foreign: 0, ..tally };
            books.book(track, last_ns(row.min(bound.saturating_sub(1))), &own);
            if matches!(track, KernelTrack::Size(_)) {
                return;
            }
            booked.tx += tally.tx;
            booked.rx += tally.rx;
            if row < bound {
                recorder.book(row, &tally);
            } else {
                recorder.book_out_of_place(&tally);
            }
        });
    }

    fn take_histograms(&mut self, period: u64, newest_row: u64) {
        let per = self.timing.rows_per_period();
        let row = ((period + 1) * per - 1).min(newest_row);
        let last_ns = self.last_ns(row);
        let (recorder, books) = (&mut self.recorder, &mut self.books);
        self.port.take_histograms(period * per, &mut |which, track, bucket, n| {
            let time = match which {
                KernelLatency::Actual => Time::Latency,
                KernelLatency::Scheduled => Time::Scheduled,
            };
            books.book_bucket(track, last_ns, (bucket, n), time);
            if matches!(track, KernelTrack::Size(_)) {
                return;
            }
            recorder.book_bucket(row, time, bucket, n);
        });
    }

    /// Takes the remaining counts, after the lanes are out and the settle time is over.
    fn finish(mut self) -> LaneOutcome {
        let port = self.port;
        let now = self.lane.clock.now_ns();
        self.tell_end(self.lane.control.end_ns());
        port.stop();
        self.total();
        self.leave_overtaken(now);
        let end_ns = self.told_end_ns.max(self.timing.start_ns + 1);
        let streams = port.streams();
        for stream in (0..streams.max(1)).map(|stream| (streams > 0).then_some(stream)) {
            let missed: u64 = (0..self.exits.len()).map(|lane| port.left_undone(lane, stream)).sum();
            if missed > 0 {
                let tally = Tally {
                    missed,
                    ..Tally::default()
                };
                self.recorder.book(self.timing.row_of(end_ns - 1), &tally);
                if let Some(stream) = stream {
                    self.books.book(KernelTrack::Stream(stream), end_ns - 1, &tally);
                }
            }
        }
        let newest = self.timing.row_of(now).max(self.next_row);
        let to = self.next_row + port.row_capacity();
        self.take_rows(self.next_row, to, newest + 1);
        for period in self.next_period..=to / self.timing.rows_per_period() {
            self.take_histograms(period, newest);
        }
        let sources = self.sources();
        if self.starved {
            self.make_good(&sources);
        } else {
            self.book_unfinished(end_ns);
        }
        let outcome = self.outcome(sources);
        self.recorder.end();
        self.books.end();
        outcome
    }

    /// Books packets that lanes have sent and not yet put into a row: of a lane that the kernel threw out (device gone)
    /// in the middle of a bulk.
    fn book_unfinished(&mut self, end_ns: u64) {
        if !self.job.workload.generates() {
            return;
        }
        let lanes = (0..self.exits.len()).map(|lane| self.port.lane_totals(lane).packets);
        let tx = lanes.sum::<u64>().saturating_sub(self.booked.tx);
        if tx > 0 {
            let tally = Tally { tx, ..Tally::default() };
            self.recorder.book(self.timing.row_of(end_ns - 1), &tally);
        }
    }

    fn sources(&self) -> Vec<SourceCounts> {
        let port = self.port;
        let source = |source| {
            let (number, place) = port.source_place(source);
            SourceCounts {
                number,
                port: place,
                totals: port.source_totals(source),
            }
        };
        (0..port.sources()).map(source).collect()
    }

    /// Books packets sent and received that the totals contain and the rows lost.
    fn make_good(&mut self, sources: &[SourceCounts]) {
        let job = self.job;
        let all = sum(sources.iter().map(|source| source.totals));
        let (tx, rx) = match job.workload {
            Workload::Reflect | Workload::Forward => (all.tx, all.test),
            _ => {
                let lanes = (0..self.exits.len()).map(|lane| self.port.lane_totals(lane).packets);
                (lanes.sum(), all.test)
            }
        };
        let rx = match job.workload {
            Workload::Send => 0,
            _ => rx.saturating_sub(self.booked.rx),
        };
        self.recorder.book_out_of_place(&Tally {
            tx: tx.saturating_sub(self.booked.tx),
            rx,
            // Packets that are not known to have been sent must not turn into loss.
            expected: if job.workload == Workload::Drop { rx as i64 } else { 0 },
            ..Tally::default()
        });
    }

    fn outcome(&self, sources: Vec<SourceCounts>) -> LaneOutcome {
        let port = self.port;
        let reasons = |place| {
            let mut reasons = port.reasons(place);
            reasons.retain(|(_, n)| *n > 0);
            reasons
        };
        let beside = self.job.beside().map(|port| port.reasons(0)).unwrap_or_default();
        let beside = beside.into_iter().filter(|(_, n)| *n > 0);
        let ports = self.job.port_names.len();
        let at = |place| sum(sources.iter().filter(|s| s.port == place).map(|s| s.totals));
        let moved = |place| {
            let received = at(place);
            PortCounts {
                rx_packets: received.test,
                rx_bytes: received.bytes,
                // With two ports, frames that leave by one have come in by the other.
                tx_packets: at(ports - 1 - place).tx,
                reasons: reasons(place),
            }
        };
        LaneOutcome {
            reasons: (0..self.job.counted_ports()).flat_map(reasons).chain(beside).collect(),
            ports: (0..ports).map(moved).collect(),
            sources: Some(sources),
            ..LaneOutcome::default()
        }
    }
}

/// Totals over all sources.
fn sum(sources: impl Iterator<Item = SourceTotals>) -> SourceTotals {
    sources.fold(SourceTotals::default(), |a, b| SourceTotals {
        packets: a.packets + b.packets,
        passed: a.passed + b.passed,
        polls: a.polls + b.polls,
        test: a.test + b.test,
        tx: a.tx + b.tx,
        bytes: a.bytes + b.bytes,
        late: a.late + b.late,
        distance_max: a.distance_max.max(b.distance_max),
        first_ns: match (a.first_ns, b.first_ns) {
            (0, first) | (first, 0) => first,
            (a, b) => a.min(b),
        },
        last_ns: a.last_ns.max(b.last_ns),
    })
}

fn tally(row: &KernelRow) -> Tally {
    Tally {
        tx: row.tx,
        missed: row.missed,
        rx: row.rx,
        arrived: 0,
        late: 0,
        duplicates: row.duplicates,
        reordered: row.reordered,
        distance_sum: row.distance_sum,
        corrupt: row.corrupt,
        foreign: row.foreign,
        untagged: 0,
        untagged_came: 0,
        expected: row.expected,
        blocked_ns: 0,
        fill_looks: 0,
        fill_sum_ppm: 0,
        fill_highest_ppm: 0,
        times: Times::of(|time| match time {
            Time::Latency => moments(&row.latency),
            Time::Scheduled => moments(&row.scheduled),
            Time::Arrival | Time::WakeUp => Moments::default(),
        }),
    }
}

fn moments(m: &KernelMoments) -> Moments {
    Moments::new(m.count, m.sum, m.min, m.max)
}
