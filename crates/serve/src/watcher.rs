//! Reads the events of a run on the collector's thread, and publishes the state four times a second.

use crate::board::Board;
use crate::history::Point;
use crate::state::{About, Counts, Goal, LaneState, Phase, State, TrialAbout};
use crate::streams::StreamSums;
use mpps_pages::document::{Document, runs, shown};
use mpps_report::json_value;
use mpps_stats::fields::FAULTS;
use mpps_stats::{Event, LanesSoFar, LiveLane, Period, Row, Sink, Snapshot, Start, Summary, Wants, sentences};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most notes kept, the newest ones.
const MOST_NOTES: usize = 50;
/// Shortest point, ns. Shorter rows are merged.
const SHORTEST_POINT_NS: u64 = 100_000_000;

type OnStart = Box<dyn FnOnce() + Send>;

/// Collects the state of a run; clones share it. Its sinks are those of one trial after another.
#[derive(Clone)]
pub struct Watcher(Arc<Mutex<Inner>>);

struct Inner {
    board: Board,
    state: State,
    /// Counts of the trials before.
    base: Counts,
    lanes_base: Vec<LaneState>,
    streams_base: StreamSums,
    /// Newest reading, and (`lanes_before`) the one at the last publication.
    lanes: Vec<LiveLane>,
    lanes_before: Vec<LiveLane>,
    /// Times of these readings, ns since the start.
    lanes_at_ns: u64,
    lanes_before_ns: u64,
    /// Point that rows are still added to, and (`points`) points that wait for a place in the history.
    open: Option<Point>,
    points: Vec<Point>,
    /// Number of rows of all trials.
    rows: u64,
    /// Time when the first trial began, and (`began_ns`) the start of this trial after that, ns.
    zero_ns: u64,
    began_ns: u64,
    /// Functions that run when the first trial begins.
    on_start: Vec<OnStart>,
}

impl Watcher {
    /// Returns a watcher of this run, which publishes on the board.
    pub fn new(about: About, board: Board) -> Self {
        let state = State {
            about: Arc::new(about),
            ..State::default()
        };
        board.publish(&state);
        Self(Arc::new(Mutex::new(Inner {
            board,
            state,
            base: Counts::default(),
            lanes_base: Vec::new(),
            streams_base: StreamSums::default(),
            lanes: Vec::new(),
            lanes_before: Vec::new(),
            lanes_at_ns: 0,
            lanes_before_ns: 0,
            open: None,
            points: Vec::new(),
            rows: 0,
            zero_ns: 0,
            began_ns: 0,
            on_start: Vec::new(),
        })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `what` when the first trial begins: every thread has given up its privileges then.
    pub fn when_begun(&self, what: impl FnOnce() + Send + 'static) {
        self.inner().on_start.push(Box::new(what));
    }

    /// Returns a reader of one trial's events.
    pub fn sink(&self) -> WatcherSink {
        WatcherSink(self.clone())
    }

    /// Records that a method begins a trial.
    pub fn trial(&self, about: TrialAbout) {
        self.inner().state.trial_about = Some(about);
    }

    /// Records the progress of a search. It replaces the progress recorded before for the same frame sizes.
    pub fn search(&self, goals: Vec<Goal>) {
        let inner = &mut *self.inner();
        let sizes: Vec<usize> = goals.iter().map(|goal| goal.frame_size).collect();
        inner.state.goals.retain(|goal| !sizes.contains(&goal.frame_size));
        inner.state.goals.extend(goals);
        inner.board.publish(&inner.state);
    }

    /// Adds a note to the user.
    pub fn note(&self, text: &str) {
        let inner = &mut *self.inner();
        inner.note(text);
        inner.board.publish(&inner.state);
    }

    /// Returns the notes to the user, the oldest first.
    pub fn notes(&self) -> Vec<Arc<str>> {
        self.inner().state.notes.clone()
    }

    /// Records that a method is over, with this result.
    pub fn done(&self, document: &Document) {
        let complete = document.complete;
        self.inner()
            .over(complete, Vec::new(), json!({ "document": shown(document) }));
    }
}

impl Inner {
    fn note(&mut self, text: &str) {
        let notes = &mut self.state.notes;
        if notes.len() == MOST_NOTES {
            notes.remove(0);
        }
        notes.push(text.into());
    }

    fn over(&mut self, valid: bool, expectations: Vec<(String, bool)>, mut told: Value) {
        told["valid"] = valid.into();
        self.state.phase = Phase::Ended;
        self.state.valid = Some(valid);
        self.state.expectations = expectations;
        self.state.end = Some(Arc::new(told));
        self.board.add(&mut self.points);
        self.board.publish(&self.state);
    }

    fn start(&mut self, start: &Start) {
        if self.state.trial == 0 {
            self.zero_ns = start.started.monotonic_ns;
            self.on_start.drain(..).for_each(|what| what());
        }
        self.began_ns = start.started.monotonic_ns.saturating_sub(self.zero_ns);
        self.base = self.state.counts;
        self.lanes_base.clone_from(&self.state.lanes);
        self.streams_base.clone_from(&self.state.streams);
        self.lanes.clear();
        self.lanes_before.clear();
        (self.lanes_at_ns, self.lanes_before_ns) = (0, 0);
        let state = &mut self.state;
        state.trial += 1;
        state.phase = Phase::Running;
        state.start = *start;
        state.of_trial = Counts::default();
        (state.elapsed_ns, state.closed_ns, state.planned_ns) = (0, 0, None);
        (state.recent, state.recent_scheduled) = (None, None);
        (state.tx_pps, state.rx_pps, state.recent_loss) = (0.0, 0.0, 0.0);
        self.board.publish(&self.state);
    }

    fn row(&mut self, row: &Row) {
        self.rows += 1;
        let of = &mut self.state.of_trial;
        of.settled_tx += row.tx;
        of.settled_lost += row.lost;
        for (sum, fault) in of.faults.iter_mut().zip(&FAULTS) {
            *sum += (fault.of_row)(row);
        }
        if let Some(dropped) = row.host_dropped {
            of.host_dropped = Some(of.host_dropped.unwrap_or(0) + dropped);
        }
        self.state.closed_ns = row.start_ns + row.length_ns;
        if row.latency.count > 0 {
            self.state.recent = Some(row.latency);
        }
        if let Some(scheduled) = row.latency_scheduled.filter(|scheduled| scheduled.count > 0) {
            self.state.recent_scheduled = Some(scheduled);
        }
        let intended = self.state.start.intended_at(row.start_ns);
        let point = Point::of(row, self.rows, (self.state.trial, self.began_ns), intended);
        match &mut self.open {
            Some(open) if open.length_ns < SHORTEST_POINT_NS && open.trial == point.trial => open.take(&point, true),
            open => self.points.extend(open.replace(point)),
        }
    }

    fn period(&mut self, period: &Period<'_>) {
        let state = &mut self.state;
        for (buckets, spread, of) in [
            (&mut state.latency, &mut state.latency_spread, period.buckets),
            (&mut state.scheduled, &mut state.scheduled_spread, period.scheduled),
            (&mut state.arrival, &mut state.arrival_spread, period.arrival),
            (&mut state.wake_up, &mut state.wake_up_spread, period.wake_up),
        ] {
            buckets.add(of);
            spread.add(of);
        }
        // Rows too short for percentiles show those of their period.
        let all: u64 = period.buckets.iter().map(|(_, packets)| packets).sum();
        let at = |part: f64| {
            let rank = (part * all as f64).ceil() as u64;
            let mut seen = 0;
            let reached = period.buckets.iter().find(|(_, packets)| {
                seen += packets;
                seen >= rank
            });
            reached.map(|(ns, _)| *ns)
        };
        if let Some(open) = self.open.as_mut().filter(|open| open.latency[0].is_none()) {
            let max = open.latency[3].or(period.buckets.last().map(|(ns, _)| *ns));
            open.latency = [at(0.5), at(0.99), at(0.999), max];
        }
    }

    fn lanes(&mut self, so_far: &LanesSoFar<'_>) {
        self.lanes.clear();
        self.lanes.extend_from_slice(so_far.lanes);
        self.lanes_at_ns = so_far.at_ns;
        self.state.of_trial.host_wait_ns = so_far.host_wait_ns.unwrap_or(0);
    }

    fn publish(&mut self, snapshot: &Snapshot) {
        let state = &mut self.state;
        state.phase = if snapshot.settling {
            Phase::Settling
        } else {
            Phase::Running
        };
        (state.elapsed_ns, state.planned_ns) = (snapshot.elapsed_ns, snapshot.planned_ns);
        (state.tx_pps, state.rx_pps) = (snapshot.tx_pps, snapshot.rx_pps);
        state.recent_loss = snapshot.recent_loss_ratio;
        (state.of_trial.tx, state.of_trial.rx) = (snapshot.tx, snapshot.rx);
        state.of_trial.host_dropped = snapshot.host_dropped.or(state.of_trial.host_dropped);
        state.recent = snapshot.recent_latency.or(state.recent);
        state.tracks.clone_from(&snapshot.tracks);
        state.stages = snapshot.stage_shares;
        self.take_lanes();
        self.sum();
        self.board.try_add(&mut self.points);
        self.board.try_publish(&self.state);
    }

    fn take_lanes(&mut self) {
        // At the end there may be no newer reading: the last rates then stay the newest.
        let passed_ns = self.lanes_at_ns.saturating_sub(self.lanes_before_ns);
        if passed_ns == 0 && self.lanes_before_ns > 0 {
            return;
        }
        let none = (LiveLane::default(), LaneState::default());
        let lanes = self.lanes.iter().enumerate().map(|(number, now)| {
            let before = self.lanes_before.get(number).unwrap_or(&none.0);
            LaneState::of(now, (before, passed_ns), self.lanes_base.get(number).unwrap_or(&none.1))
        });
        let lanes: Vec<_> = lanes.collect();
        if !lanes.is_empty() {
            self.state.lanes = lanes;
            self.lanes_before.clone_from(&self.lanes);
            self.lanes_before_ns = self.lanes_at_ns;
        }
    }

    /// Keeps counts from falling: a packet counted by a lane stays counted even if it turns out to be late.
    fn sum(&mut self) {
        let (before, mut now) = (self.state.counts, self.base.plus(&self.state.of_trial));
        (now.tx, now.rx) = (now.tx.max(before.tx), now.rx.max(before.rx));
        self.state.counts = now;
    }

    fn end(&mut self, summary: &Summary) {
        let of = &mut self.state.of_trial;
        (of.tx, of.rx) = (summary.tx, summary.rx);
        (of.settled_tx, of.settled_lost) = (summary.tx, summary.lost.cast_signed());
        of.host_dropped = summary.host_dropped.or(of.host_dropped);
        self.state.streams.end(&self.streams_base, summary);
        self.state.elapsed_ns = summary.duration_ns;
        (self.state.tx_pps, self.state.rx_pps) = (0.0, 0.0);
        self.take_lanes();
        self.sum();
        self.points.extend(self.open.take());
        if !self.state.about.single {
            self.state.phase = Phase::Between;
            self.board.add(&mut self.points);
            return self.board.publish(&self.state);
        }
        // After a run has ended, its latency is that of all its packets, like its other numbers.
        if summary.latency.count > 0 {
            self.state.recent = Some(summary.latency);
            self.state.recent_scheduled = summary.latency_scheduled.or(self.state.recent_scheduled);
        }
        let document = runs::document(&[runs::Run::new("this run", json_value(summary))]);
        let expectations = summary.expectations.iter().map(|of| (of.expected.clone(), of.met));
        let told = json!({
            "reasons": sentences(&summary.invalid_reasons),
            "warnings": sentences(&summary.warnings),
            "document": shown(&Document { charts: Vec::new(), ..document }),
        });
        self.over(summary.valid, expectations.collect(), told);
    }
}

/// A reader of one trial's events: see [`Watcher::sink`].
pub struct WatcherSink(Watcher);

impl Sink for WatcherSink {
    fn wants(&self) -> Wants {
        Wants::ALL
    }

    fn event(&mut self, event: &Event<'_>) {
        let inner = &mut *self.0.inner();
        match event {
            Event::Start(start) => inner.start(start),
            Event::Row(row) => inner.row(row),
            Event::Streams(rows) => inner.state.streams.add(rows),
            Event::Period(period) => inner.period(period),
            Event::Lanes(so_far) => inner.lanes(so_far),
            Event::Live(snapshot) => inner.publish(snapshot),
            Event::Note(note) => inner.note(note),
            Event::End(summary) => inner.end(summary),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_stats::{Latency, Started};

    fn begun(about: About) -> (Watcher, Board, WatcherSink) {
        let board = Board::default();
        let watcher = Watcher::new(about, board.clone());
        let mut sink = watcher.sink();
        sink.event(&Event::Start(Start {
            started: Started {
                monotonic_ns: 7,
                utc_ns: 9,
            },
            ..Start::default()
        }));
        (watcher, board, sink)
    }

    fn live(tx: u64, rx: u64) -> Snapshot {
        Snapshot {
            tx,
            rx,
            ..Snapshot::default()
        }
    }

    #[test]
    fn counters_go_up_only_over_trials_and_end_as_the_summaries_have_them() {
        let (_watcher, board, mut sink) = begun(About::default());
        sink.event(&Event::Live(&live(100, 90)));
        let summary = Summary {
            tx: 100,
            rx: 88,
            lost: 12,
            ..Summary::default()
        };
        sink.event(&Event::End(&summary));
        // Two that were counted as received turned out to be late.
        assert_eq!((board.newest().counts.tx, board.newest().counts.rx), (100, 90));
        assert_eq!(board.newest().counts.settled_lost, 12);
        sink.event(&Event::Start(Start::default()));
        assert_eq!(board.newest().counts.tx, 100);
        sink.event(&Event::Live(&live(10, 10)));
        assert_eq!((board.newest().counts.tx, board.newest().counts.rx), (110, 100));
        assert_eq!((board.newest().trial, board.newest().phase), (2, Phase::Running));
    }

    #[test]
    fn waiting_of_the_run_and_of_its_lanes_is_of_one_reading() {
        let (_watcher, board, mut sink) = begun(About::default());
        let lane = LiveLane {
            not_running_ns: Some(3),
            ..LiveLane::default()
        };
        for trial in 1..=2 {
            sink.event(&Event::Lanes(LanesSoFar {
                at_ns: 5,
                lanes: &[lane, lane],
                host_wait_ns: Some(7),
            }));
            // A row says when, and adds nothing.
            sink.event(&Event::Row(&Row {
                length_ns: 100_000_000,
                host_wait_ns: Some(100),
                ..Row::default()
            }));
            sink.event(&Event::Live(&live(1, 1)));
            let state = board.newest();
            assert_eq!(state.counts.host_wait_ns, 7 * trial);
            assert!(state.lanes.iter().all(|of| of.not_running_ns == Some(3 * trial)));
            sink.event(&Event::Start(Start::default()));
        }
    }

    #[test]
    fn what_has_ended_is_told_of_as_a_whole() {
        let (_watcher, board, mut sink) = begun(About {
            single: true,
            ..About::default()
        });
        let of = |count, mean| Latency {
            count,
            mean,
            ..Latency::default()
        };
        let row = Row {
            length_ns: 1_000_000_000,
            latency: of(10, 5.0),
            ..Row::default()
        };
        sink.event(&Event::Row(&row));
        sink.event(&Event::Live(&live(100, 100)));
        assert_eq!(board.newest().recent, Some(of(10, 5.0)));
        let summary = Summary {
            latency: of(100, 7.0),
            ..Summary::default()
        };
        sink.event(&Event::End(&summary));
        assert_eq!(board.newest().recent, Some(of(100, 7.0)));
    }

    #[test]
    fn short_rows_are_told_together_and_none_is_lost() {
        let (_watcher, board, mut sink) = begun(About {
            single: true,
            ..About::default()
        });
        for index in 0..95 {
            let row = Row {
                index,
                start_ns: index * 10_000_000,
                length_ns: 10_000_000,
                tx: 3,
                ..Row::default()
            };
            sink.event(&Event::Row(&row));
            if index % 10 == 9 {
                let buckets = [(5, 98), (7, 1), (9, 1)];
                sink.event(&Event::Period(Period {
                    start_ns: 0,
                    length_ns: 0,
                    buckets: &buckets,
                    ..Period::default()
                }));
            }
        }
        sink.event(&Event::End(&Summary {
            valid: true,
            ..Summary::default()
        }));
        let points = board.points_after(None);
        assert_eq!(points.len(), 10);
        assert_eq!((points[0].first, points[0].last, points[0].tx), (1, 10, 30));
        assert_eq!(points[0].latency, [Some(5), Some(7), Some(9), Some(9)]);
        assert_eq!(points.iter().map(|point| point.tx).sum::<u64>(), 95 * 3);
        assert_eq!((board.newest().valid, board.newest().ended()), (Some(true), true));
    }

    #[test]
    fn a_reader_that_holds_the_board_holds_up_nobody() {
        let (_watcher, board, mut sink) = begun(About::default());
        let held = board.hold();
        sink.event(&Event::Row(&Row {
            length_ns: 100_000_000,
            ..Row::default()
        }));
        sink.event(&Event::Row(&Row {
            length_ns: 100_000_000,
            ..Row::default()
        }));
        sink.event(&Event::Live(&live(1, 1)));
        drop(held);
        assert_eq!(board.newest().counts.tx, 0);
        sink.event(&Event::Live(&live(2, 2)));
        assert_eq!(board.newest().counts.tx, 2);
        assert_eq!(board.points_after(None).len(), 1);
    }
}
