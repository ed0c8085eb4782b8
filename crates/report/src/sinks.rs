//! Several sinks as one, with the notes of all of them in each snapshot.

use crate::Notes;
use mpps_stats::{Row, Sink, Snapshot, Started, Wants, Workload};

/// Does something when the run begins.
pub struct AtBegin<F>(pub F);

impl<F: FnMut() + Send> Sink for AtBegin<F> {
    fn wants(&self) -> Wants {
        Wants::default()
    }

    fn begin(&mut self, _: Started) {
        (self.0)();
    }

    fn row(&mut self, _: &Row) {}
}

/// Passes everything on to several sinks, in the order added. Snapshots are passed on with the notes of the boards
/// watched, so that the live view shows that a disk is full as soon as it is.
#[derive(Default)]
pub struct Sinks {
    sinks: Vec<Box<dyn Sink>>,
    boards: Vec<Notes>,
    buckets: Vec<(u64, u64)>,
}

impl Sinks {
    /// No sink yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a sink. Add the live view first: it is then finished first, and what is told later appears below it.
    pub fn add(&mut self, sink: impl Sink + 'static) {
        self.sinks.push(Box::new(sink));
    }

    /// Adds the notes of `board` to every snapshot.
    pub fn watch(&mut self, board: Notes) {
        self.boards.push(board);
    }
}

impl Sink for Sinks {
    fn wants(&self) -> Wants {
        self.sinks
            .iter()
            .fold(Wants::default(), |all, sink| all.and(sink.wants()))
    }

    fn workload(&mut self, workload: Workload) {
        self.sinks.iter_mut().for_each(|sink| sink.workload(workload));
    }

    fn ways(&mut self, names: &'static [&'static str]) {
        self.sinks.iter_mut().for_each(|sink| sink.ways(names));
    }

    fn begin(&mut self, started: Started) {
        self.sinks.iter_mut().for_each(|sink| sink.begin(started));
    }

    fn row(&mut self, row: &Row) {
        for sink in &mut self.sinks {
            sink.row(row);
        }
    }

    fn row_of_way(&mut self, way: usize, row: &Row) {
        for sink in &mut self.sinks {
            sink.row_of_way(way, row);
        }
    }

    fn snapshot(&mut self, snapshot: &Snapshot) {
        let notes: Vec<String> = self.boards.iter().flat_map(Notes::all).collect();
        if notes.is_empty() {
            self.sinks.iter_mut().for_each(|sink| sink.snapshot(snapshot));
            return;
        }
        let mut merged = snapshot.clone();
        merged.notes.extend(notes);
        self.sinks.iter_mut().for_each(|sink| sink.snapshot(&merged));
    }

    fn histogram(&mut self, start_ns: u64, length_ns: u64, buckets: &mut dyn Iterator<Item = (u64, u64)>) {
        self.buckets.clear();
        self.buckets.extend(buckets);
        for sink in &mut self.sinks {
            sink.histogram(start_ns, length_ns, &mut self.buckets.iter().copied());
        }
    }

    fn histogram_of_way(
        &mut self,
        way: usize,
        start_ns: u64,
        length_ns: u64,
        buckets: &mut dyn Iterator<Item = (u64, u64)>,
    ) {
        self.buckets.clear();
        self.buckets.extend(buckets);
        for sink in &mut self.sinks {
            sink.histogram_of_way(way, start_ns, length_ns, &mut self.buckets.iter().copied());
        }
    }

    fn finish(&mut self) -> Vec<String> {
        self.sinks.iter_mut().flat_map(|sink| sink.finish()).collect()
    }
}
