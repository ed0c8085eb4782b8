//! The collector: merges the rows of the lanes once all lanes have closed them, and hands them on. Runs on a thread of
//! its own.

use crate::book::{ArrivalTimes, Book};
use crate::histogram::Histogram;
use crate::series::LaneSeries;
use crate::stretches::Stretches;
use crate::tally::Tally;
use crate::times::{Time, Times};
use crate::{Event, Latency, Period, Row, Sink, StreamKind, StreamRows, Timing, Wants, Workload};

/// The totals of a run: exactly the sums of its rows.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Sums of the plain counts.
    pub tally: Tally,
    /// Packets lost (signed as in the rows; the sum is not negative for a run that has ended).
    pub lost: i64,
    /// Largest distance of a reordered packet.
    pub distance_max: u64,
    /// Latency from the actual send time.
    pub latency: Latency,
    /// Latency from the scheduled send time.
    pub scheduled: Latency,
    /// Latency from the actual send time to the arrival; `None` if only lanes take times.
    pub arrival: Option<Latency>,
    /// Time from the arrival to the lane's reading; `None` if only one of the two is known.
    pub wake_up: Option<Latency>,
    /// Bookings that are in the totals but in no particular row, because the collector could not keep up.
    pub overflowed: u64,
    /// Packets whose latency is in the moments and in no histogram, for the same reason: percentiles rest on others.
    pub unranked: u64,
    /// Rows handed on.
    pub rows: u64,
    /// Times when packets were lost.
    pub loss: Stretches,
    /// Times when departures were missed.
    pub missed: Stretches,
    /// Packets that this host dropped; `None` if that was not noted.
    pub host_dropped: Option<u64>,
    /// Times when this host dropped packets.
    pub host_drops: Stretches,
}

/// Merges lanes' series into rows.
///
/// If packets go in several tracks at the same time ([`Collector::of_tracks`]), each track has rows and totals of its
/// own, and so does their sum. Methods that name no track are about the sum. Streams are tracks as well
/// ([`Collector::of_streams`]); books beside theirs may add several of them up.
#[derive(Debug)]
pub struct Collector<'s> {
    /// Series by track, then by lane.
    tracks: Vec<Vec<&'s LaneSeries>>,
    timing: Timing,
    rows_per_period: u64,
    next_row: u64,
    /// The last row of the run, once the end is known.
    last_row: Option<u64>,
    end_ns: u64,
    /// Book of all tracks. If there are several tracks, the book of each follows. Of streams: what [`Collector::of`]
    /// names.
    books: Vec<Book>,
    /// Books that count the packets of each track, ascending.
    feeds: Vec<Vec<usize>>,
    /// Kind and name of each book; empty: the books are of the run and its tracks.
    of: Vec<(StreamKind, String)>,
    /// Histograms drained from one track, before they are merged into several books.
    drained: Option<Box<Times<Histogram>>>,
    wants: Wants,
    /// Totals by track, once all lanes have ended.
    ended: Vec<Totals>,
    /// Memory for the rows of one interval, by book: what is counted in them, and the rows.
    tallies: Vec<(Tally, u64)>,
    rows: Vec<Row>,
}

/// Book of streams: what it is of, and which packets it counts.
#[derive(Clone, Debug)]
pub struct StreamBook {
    /// Kind of what it is of.
    pub kind: StreamKind,
    /// Name of the stream, group or size.
    pub name: String,
    /// Tracks whose packets it counts.
    pub tracks: Vec<usize>,
    /// Whether latencies have percentiles.
    pub ranked: bool,
}

impl<'s> Collector<'s> {
    /// Creates a collector over the series of all lanes. `paced` says whether scheduled send times are known.
    ///
    /// # Panics
    /// When the lanes don't share one [`Timing`], or there are no lanes.
    pub fn new(lanes: Vec<&'s LaneSeries>, workload: Workload, paced: bool) -> Self {
        Self::of_tracks(vec![lanes], workload, paced)
    }

    /// As [`Collector::new`], over the series of all lanes in each of the tracks in which packets go.
    ///
    /// # Panics
    /// As [`Collector::new`].
    pub fn of_tracks(tracks: Vec<Vec<&'s LaneSeries>>, workload: Workload, paced: bool) -> Self {
        let several = tracks.len() > 1;
        let timing = tracks[0][0].timing();
        let books = if several { 1 + tracks.len() } else { 1 };
        let books = (0..books).map(|_| Book::new(timing, workload, paced)).collect();
        let feeds = (0..tracks.len()).map(|track| match several {
            true => vec![0, 1 + track],
            false => vec![0],
        });
        Self::with_books(tracks, books, feeds.collect())
    }

    /// As [`Collector::of_tracks`], over series of streams ([`LaneSeries::of_stream`]), with these books.
    ///
    /// # Panics
    /// As [`Collector::new`], and if a book names a track that there is not.
    pub fn of_streams(
        tracks: Vec<Vec<&'s LaneSeries>>,
        books: Vec<StreamBook>,
        workload: Workload,
        paced: bool,
    ) -> Self {
        let series = tracks[0][0];
        let mut feeds = vec![Vec::new(); tracks.len()];
        for (place, book) in books.iter().enumerate() {
            for track in &book.tracks {
                feeds[*track].push(place);
            }
        }
        let new = |book: &StreamBook| {
            let keeps = (paced, book.ranked);
            Book::of_stream(series.timing(), series.rows_per_period, workload, keeps)
        };
        Self {
            rows_per_period: series.rows_per_period,
            of: books.iter().map(|book| (book.kind, book.name.clone())).collect(),
            ..Self::with_books(tracks, books.iter().map(new).collect(), feeds)
        }
    }

    fn with_books(tracks: Vec<Vec<&'s LaneSeries>>, books: Vec<Book>, feeds: Vec<Vec<usize>>) -> Self {
        let timing = tracks[0][0].timing();
        assert!(
            tracks.iter().flatten().all(|lane| lane.timing() == timing),
            "lanes of one run share their timing"
        );
        Self {
            tracks,
            timing,
            rows_per_period: timing.rows_per_period(),
            next_row: 0,
            last_row: None,
            end_ns: 0,
            books,
            drained: feeds.iter().any(|books| books.len() > 1).then(Box::default),
            feeds,
            of: Vec::new(),
            wants: Wants::ALL,
            ended: Vec::new(),
            tallies: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Notes that the kernel sends and receives, not a lane. The time for which it could not send is then not known,
    /// and arrivals are known only as often as its counters are read.
    pub fn kernel_sends(&mut self) {
        for book in &mut self.books {
            book.sees_blocked = false;
            book.sees_arrivals = self.timing.has_long_rows();
        }
    }

    /// Notes who takes the times of arrivals: nobody, until this is called.
    pub fn time_arrivals(&mut self, arrivals: ArrivalTimes) {
        self.books.iter_mut().for_each(|book| book.time_arrivals(arrivals));
    }

    /// Sets what is wanted from now on; nothing else is computed. The totals stay whole.
    pub fn set_wants(&mut self, wants: Wants) {
        self.wants = wants;
        if self.of.is_empty() {
            self.books.iter_mut().for_each(|book| book.wants = wants);
        }
    }

    /// Whether rows show what kept lanes from running: short rows do not.
    pub fn tells_host_wait(&self) -> bool {
        self.timing.has_long_rows()
    }

    /// Notes that by `now_ns` the host has kept lanes from running for `waited_ns` since the last note, and this
    /// program's own threads have worked for `own_ns`. Both count for every track alike.
    pub fn note_host_wait(&mut self, now_ns: u64, waited_ns: u64, own_ns: u64) {
        for book in &mut self.books {
            book.note_host_wait(now_ns, waited_ns, own_ns);
        }
    }

    /// Returns the start of the run, ns on the clock of the lanes.
    pub fn start_ns(&self) -> u64 {
        self.timing.start_ns
    }

    /// Returns when the path's counters are to be read next after `now_ns`: at the end of a histogram period, which is
    /// one row or as many rows as make up 100 ms.
    pub fn next_reading_ns(&self, now_ns: u64) -> u64 {
        let step = self.rows_per_period * self.timing.interval_ns;
        let since_start = now_ns.saturating_sub(self.timing.start_ns);
        self.timing.start_ns + (since_start / step + 1) * step
    }

    /// Notes how many packets this host has dropped by `now_ns` since the start, by track. If the number is known of
    /// all ways, their sum is noted as well. The packets count in the row at whose end the reading was due, in the next
    /// row if that row was handed on, or in the last row once the end is known.
    pub fn note_host_drops(&mut self, now_ns: u64, totals: &[Option<u64>]) {
        let rows = (self.next_row, self.last_row);
        for (book, total) in self.books[1..].iter_mut().zip(totals) {
            if let Some(total) = total {
                book.note_host_drops(now_ns, *total, rows);
            }
        }
        if let Some(all) = totals.iter().copied().sum::<Option<u64>>() {
            self.books[0].note_host_drops(now_ns, all, rows);
        }
    }

    /// Returns the packets that this host dropped so far, as last noted.
    pub fn host_dropped(&self) -> Option<u64> {
        self.books[0].host_dropped()
    }

    /// Sets when sending (or, on a receiver, receiving) ended. What is booked later belongs to the last row.
    pub fn set_end(&mut self, end_ns: u64) {
        self.end_ns = end_ns;
        self.last_row = Some(
            self.timing
                .row_of(end_ns.max(self.timing.start_ns + 1) - 1)
                .max(self.next_row),
        );
    }

    fn lanes(&self) -> impl Iterator<Item = &&'s LaneSeries> {
        self.tracks.iter().flatten()
    }

    /// Hands on every row that has closed.
    pub fn poll(&mut self, sinks: &mut [Box<dyn Sink>]) {
        let closed = self.lanes().map(|lane| lane.closed()).min().unwrap_or(0);
        // When all lanes have ended, they have closed every possible row: only the end says which row is the last.
        let Some(limit) = self.last_row.or((closed != u64::MAX).then_some(u64::MAX)) else {
            return;
        };
        while self.next_row < closed.min(limit) {
            self.emit(|lane, row| lane.take_row(row), self.timing.interval_ns, sinks);
        }
    }

    /// Hands on the remaining rows once every lane has ended, and returns the totals.
    ///
    /// # Panics
    /// When [`Collector::set_end`] was not called or a lane still runs.
    pub fn finish(&mut self, sinks: &mut [Box<dyn Sink>]) -> Totals {
        assert!(
            self.lanes().all(|lane| lane.closed() == u64::MAX),
            "every lane has ended"
        );
        self.poll(sinks);
        let last = self.last_row.expect("the end is known");
        // Everything booked after the end of sending goes to the last row, which takes all that may still be in the
        // ring.
        let highest = last + self.lanes().map(|lane| lane.capacity()).max().unwrap_or(0);
        let period = last / self.rows_per_period;
        let count = highest / self.rows_per_period - period;
        for extra in 0..=count {
            self.drain_period(period + extra);
        }
        for (lanes, books) in self.tracks.iter().zip(&self.feeds) {
            let overflowed: u64 = lanes.iter().map(|lane| lane.overflowed()).sum();
            for book in books {
                self.books[*book].totals.overflowed += overflowed;
            }
        }
        let all_left = |lane: &LaneSeries, last: u64| {
            let mut tally = Tally::default();
            (last..highest).for_each(|row| tally.merge(&lane.take_row(row)));
            tally.merge(&lane.take_overflow());
            tally
        };
        let row_start = self.timing.start_ns + last * self.timing.interval_ns;
        let length = self.end_ns.saturating_sub(row_start).clamp(1, self.timing.interval_ns);
        self.emit(all_left, length, sinks);
        if last % self.rows_per_period != self.rows_per_period - 1 {
            self.close_period(period, sinks);
        }
        let mut farthest = vec![0; self.books.len()];
        for (lanes, books) in self.tracks.iter().zip(&self.feeds) {
            let of_track = lanes.iter().map(|lane| lane.distance_max()).max().unwrap_or(0);
            for book in books {
                farthest[*book] = of_track.max(farthest[*book]);
            }
        }
        let of_books = self.books.iter_mut().zip(&farthest);
        let mut ended: Vec<Totals> = of_books.map(|(book, farthest)| book.end(*farthest)).collect();
        if !self.of.is_empty() {
            self.ended = ended;
            return Totals::default();
        }
        self.ended = ended.split_off(1);
        ended.pop().unwrap_or_default()
    }

    /// Returns the totals of each track, if there are several tracks and all lanes have ended; of streams, those of
    /// each book.
    pub fn totals_of_tracks(&mut self) -> Vec<Totals> {
        std::mem::take(&mut self.ended)
    }

    /// Returns the sums over the rows so far: packets sent, packets lost.
    pub fn so_far(&self) -> (u64, i64) {
        (self.books[0].totals.tally.tx, self.books[0].totals.lost)
    }

    /// As [`Collector::so_far`], for each track if there are several.
    pub fn so_far_of_tracks(&self) -> impl Iterator<Item = (u64, i64)> {
        self.books[1..]
            .iter()
            .map(|book| (book.totals.tally.tx, book.totals.lost))
    }

    /// Returns the time up to which rows have been handed on, ns since the start.
    pub fn closed_ns(&self) -> u64 {
        self.next_row * self.timing.interval_ns
    }

    /// Returns the latency of the newest row that had any.
    pub fn recent_latency(&self) -> Option<Latency> {
        self.books[0].recent
    }

    fn drain_period(&mut self, period: u64) {
        for (lanes, books) in self.tracks.iter().zip(&self.feeds) {
            if let [book] = books[..] {
                for lane in lanes {
                    lane.drain_period(period, self.books[book].histograms());
                }
                continue;
            }
            let Some(drained) = self.drained.as_deref_mut() else {
                continue;
            };
            for lane in lanes {
                lane.drain_period(period, drained.each_mut());
            }
            for book in books {
                for (all, own) in self.books[*book].histograms().0.into_iter().zip(&drained.0) {
                    all.merge(own);
                }
            }
            drained.0.iter_mut().for_each(Histogram::clear);
        }
    }

    fn close_period(&mut self, period: u64, sinks: &mut [Box<dyn Sink>]) {
        let rows = self.rows_per_period;
        let length = rows * self.timing.interval_ns;
        for (place, book) in self.books.iter_mut().enumerate() {
            let buckets = if self.wants.histograms {
                book.buckets()
            } else {
                Times::default()
            };
            if !buckets[Time::Latency].is_empty() {
                let period = Period {
                    start_ns: period * length,
                    length_ns: length,
                    buckets: &buckets[Time::Latency],
                    scheduled: &buckets[Time::Scheduled],
                    arrival: &buckets[Time::Arrival],
                    wake_up: &buckets[Time::WakeUp],
                };
                let event = match place {
                    0 => Event::Period(period),
                    track => Event::PeriodOfTrack(track - 1, period),
                };
                sinks.iter_mut().for_each(|sink| sink.event(&event));
            }
            book.close_period();
        }
    }

    /// Hands on the rows of all books: those of tracks first, then the row of all.
    fn tell(&self, rows: &[Row], sinks: &mut [Box<dyn Sink>]) {
        let mut event = |event: &Event<'_>| sinks.iter_mut().for_each(|sink| sink.event(event));
        if !self.of.is_empty() {
            if self.wants.streams {
                event(&Event::Streams(StreamRows { of: &self.of, rows }));
            }
            return;
        }
        let Some((all, of_tracks)) = rows.split_first().filter(|_| self.wants.rows) else {
            return;
        };
        for (track, row) in of_tracks.iter().enumerate() {
            event(&Event::RowOfTrack(track, row));
        }
        event(&Event::Row(all));
    }

    /// Turns what `take` takes of each lane into row `next_row` of each book, hands the row on, and frees its place in
    /// the rings.
    fn emit(&mut self, take: impl Fn(&LaneSeries, u64) -> Tally, length_ns: u64, sinks: &mut [Box<dyn Sink>]) {
        let index = self.next_row;
        let rows = self.rows_per_period;
        let whole_period = index % rows == rows - 1;
        if whole_period {
            self.drain_period(index / rows);
        }
        let (mut tallies, mut rows_of) = (std::mem::take(&mut self.tallies), std::mem::take(&mut self.rows));
        tallies.resize(self.books.len(), (Tally::default(), 0));
        for (lanes, books) in self.tracks.iter().zip(&self.feeds) {
            let (mut tally, mut corrections) = (Tally::default(), 0);
            for lane in lanes {
                tally.merge(&take(lane, index));
                corrections += lane.late_after_close();
            }
            for book in books {
                let (all, all_corrections) = &mut tallies[*book];
                all.merge(&tally);
                *all_corrections += corrections;
            }
        }
        let closed = self.books.iter_mut().zip(tallies.drain(..));
        rows_of.extend(
            closed.map(|(book, (tally, corrections))| book.row(index, tally, length_ns, corrections, self.last_row)),
        );
        self.tell(&rows_of, sinks);
        rows_of.clear();
        (self.tallies, self.rows) = (tallies, rows_of);
        if whole_period {
            self.close_period(index / rows, sinks);
        }
        self.next_row += 1;
        for lane in self.tracks.iter().flatten() {
            lane.set_consumed(self.next_row);
        }
    }
}
