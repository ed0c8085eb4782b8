//! Several sinks in one. Notes of one sink reach the others.

use crate::Notes;
use mpps_stats::{Event, Sink, Wants};

/// Runs a function when the run begins.
pub struct AtBegin<F>(pub F);

impl<F: FnMut() + Send> Sink for AtBegin<F> {
    fn wants(&self) -> Wants {
        Wants::default()
    }

    fn event(&mut self, event: &Event<'_>) {
        if let Event::Start(_) = event {
            (self.0)();
        }
    }
}

/// Passes all events on to several sinks, in the order added, and also the notes of the watched boards. So the live
/// view shows that a disk is full as soon as it is.
#[derive(Default)]
pub struct Sinks {
    sinks: Vec<Box<dyn Sink>>,
    /// Watched boards, each with the number of its notes that were passed on.
    boards: Vec<(Notes, usize)>,
}

impl Sinks {
    /// Returns a list without sinks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a sink. Add the live view first: it is then finished first, and later notes appear below it.
    pub fn add(&mut self, sink: impl Sink + 'static) {
        self.sinks.push(Box::new(sink));
    }

    /// Passes on the notes of `board` too.
    pub fn watch(&mut self, board: Notes) {
        self.boards.push((board, 0));
    }
}

impl Sink for Sinks {
    fn wants(&self) -> Wants {
        self.sinks
            .iter()
            .fold(Wants::default(), |all, sink| all.and(sink.wants()))
    }

    fn event(&mut self, event: &Event<'_>) {
        if matches!(event, Event::Row(_) | Event::Live(_)) {
            for (board, told) in &mut self.boards {
                for note in board.from(told) {
                    let note = Event::Note(&note);
                    self.sinks.iter_mut().for_each(|sink| sink.event(&note));
                }
            }
        }
        self.sinks.iter_mut().for_each(|sink| sink.event(event));
    }

    fn finish(&mut self) -> Vec<String> {
        self.sinks.iter_mut().flat_map(|sink| sink.finish()).collect()
    }
}
