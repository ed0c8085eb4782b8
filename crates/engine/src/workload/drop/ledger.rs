//! Where a receiver without a sender books its packets: in the rows of the lane alone, or by stream as well.

use crate::books::Books;
use crate::plan::{PacketStream, Packets};
use mpps_stats::{Delay, Recorder, Tally};
use std::ops::Range;

/// Rows that packets are booked in. Without streams it is the lane's [`Recorder`], and nothing else is compiled.
pub(super) trait Ledger {
    /// Chooses the stream of the entries that follow, by the number of a flow among those of all streams; `None`: they
    /// are of no test packet. `before` books what waits for the stream as it was.
    #[inline(always)]
    fn turn_to(&mut self, _flow: Option<u32>, _before: impl FnOnce(&mut Self)) {}

    /// Books a packet, as [`Recorder::arrived`].
    fn arrived(&mut self, at_ns: u64, delay: Option<Delay>, distance: u64);

    /// Books packets, as [`Recorder::arrived_n`].
    fn arrived_n(&mut self, at_ns: u64, n: u32, latency_ns: Option<u64>);

    /// Books when they arrived, as [`Recorder::timed`].
    fn timed(&mut self, latency_ns: u64, arrivals_ns: &[u64]);

    /// Adds to the packets that were sent, as [`Recorder::expected`].
    fn expected(&mut self, n: i64);

    /// Books an event, as [`Recorder::event`].
    fn event(&mut self, at_ns: u64, change: impl Fn(&mut Tally));
}

impl Ledger for Recorder<'_> {
    #[inline(always)]
    fn arrived(&mut self, at_ns: u64, delay: Option<Delay>, distance: u64) {
        Recorder::arrived(self, at_ns, delay, distance);
    }

    #[inline(always)]
    fn timed(&mut self, latency_ns: u64, arrivals_ns: &[u64]) {
        Recorder::timed(self, latency_ns, arrivals_ns);
    }

    #[inline(always)]
    fn arrived_n(&mut self, at_ns: u64, n: u32, latency_ns: Option<u64>) {
        Recorder::arrived_n(self, at_ns, n, latency_ns);
    }

    #[inline(always)]
    fn expected(&mut self, n: i64) {
        Recorder::expected(self, n);
    }

    #[inline(always)]
    fn event(&mut self, at_ns: u64, change: impl Fn(&mut Tally)) {
        Recorder::event(self, at_ns, change);
    }
}

/// A lane's entries by stream.
pub(super) struct ByStream<'r> {
    pub(super) books: Books<'r>,
    /// By stream: its first flow. Ascending.
    firsts: Box<[u32]>,
    /// Number of flows of all streams.
    flows: u32,
    /// Stream of the entries that are made now; `None`: they are of none.
    stream: Option<usize>,
    /// Flows that are of that stream, or of none.
    own: Range<u32>,
    /// Packets of flows that no stream has.
    pub(super) strays: u64,
}

impl<'r> ByStream<'r> {
    pub(super) fn new(packets: &Packets, books: Books<'r>) -> Self {
        let streams = &packets.streams;
        Self {
            books,
            firsts: streams.iter().map(PacketStream::first_flow).collect(),
            flows: streams.last().map_or(0, |last| last.first_flow() + last.flows()),
            stream: None,
            own: 0..0,
            strays: 0,
        }
    }

    /// Returns the ledger of a burst.
    pub(super) fn with<'l>(&'l mut self, recorder: &'l mut Recorder<'r>) -> Both<'l, 'r> {
        Both {
            recorder,
            by_stream: self,
        }
    }

    fn choose(&mut self, flow: Option<u32>) {
        let after = self
            .firsts
            .partition_point(|first| flow.is_some_and(|flow| *first <= flow));
        (self.stream, self.own) = match (flow, after) {
            (None, _) => (None, 0..0),
            (Some(flow), 1..) if flow < self.flows => {
                let end = self.firsts.get(after).copied().unwrap_or(self.flows);
                (Some(after - 1), self.firsts[after - 1]..end)
            }
            _ => (None, self.flows..u32::MAX),
        };
    }
}

/// Ledger of a lane and of its streams: entries go to both.
pub(super) struct Both<'l, 'r> {
    recorder: &'l mut Recorder<'r>,
    by_stream: &'l mut ByStream<'r>,
}

impl Both<'_, '_> {
    #[inline]
    fn count_strays(&mut self, n: u32) {
        if self.by_stream.stream.is_none() {
            self.by_stream.strays += u64::from(n);
        }
    }
}

impl Ledger for Both<'_, '_> {
    #[inline]
    fn turn_to(&mut self, flow: Option<u32>, before: impl FnOnce(&mut Self)) {
        if flow.is_none_or(|flow| !self.by_stream.own.contains(&flow)) {
            before(self);
            self.by_stream.choose(flow);
        }
    }

    #[inline]
    fn arrived(&mut self, at_ns: u64, delay: Option<Delay>, distance: u64) {
        self.recorder.arrived(at_ns, delay, distance);
        self.count_strays(1);
        if let Some(stream) = self.by_stream.stream {
            self.by_stream.books.arrived(stream, at_ns, delay, distance);
        }
    }

    #[inline]
    fn timed(&mut self, latency_ns: u64, arrivals_ns: &[u64]) {
        self.recorder.timed(latency_ns, arrivals_ns);
        if let Some(stream) = self.by_stream.stream {
            self.by_stream.books.timed(stream, latency_ns, arrivals_ns);
        }
    }

    #[inline]
    fn arrived_n(&mut self, at_ns: u64, n: u32, latency_ns: Option<u64>) {
        self.recorder.arrived_n(at_ns, n, latency_ns);
        self.count_strays(n);
        if let Some(stream) = self.by_stream.stream {
            self.by_stream.books.arrived_n(stream, at_ns, n, latency_ns);
        }
    }

    #[inline]
    fn expected(&mut self, n: i64) {
        self.recorder.expected(n);
        if let Some(stream) = self.by_stream.stream {
            self.by_stream.books.expected(stream, n);
        }
    }

    #[inline]
    fn event(&mut self, at_ns: u64, change: impl Fn(&mut Tally)) {
        self.recorder.event(at_ns, &change);
        if let Some(stream) = self.by_stream.stream {
            self.by_stream.books.event(stream, at_ns, change);
        }
    }
}
