//! Orders to the streams of a trial while it runs: start, stop, pause, another rate.
//!
//! An order names the instant at which it holds on all lanes. The instant lies far enough ahead for every lane to know
//! of the order by then: a lane with orders to follow looks for new ones every [`LOOK_NS`], asleep or not, and takes a
//! lock only if there is one. A lane carries an order out by its schedule, not by the time at which it looks:
//! departures before the instant leave, late or not, and those from the instant on are of the new schedule.

use mpps_io::Rate;
use mpps_sys::clock::{ClockTime, monotonic_ns};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Longest time between two looks of a lane for new orders, ns.
const LOOK_NS: u64 = 2_000_000;
/// Least time between an order and the instant at which it holds, ns.
const AHEAD_NS: u64 = 10_000_000;

/// Number of a stream, from 0 on. The packets of a plan are one stream, those of [`TrafficPlan::beside`] are others.
///
/// [`TrafficPlan::beside`]: crate::TrafficPlan::beside
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamId(pub usize);

/// Behaviour that an order asks of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Do {
    /// Send, at the stream's rate, from the instant on. A stream that sends is left as it is.
    Start,
    /// Send nothing from the instant on. Packets are numbered on without a gap after the next start. A burst that the
    /// path did not take before leaves as soon as it does.
    Pause,
    /// As [`Do::Pause`], for good. A trial whose streams have all stopped ends.
    Stop,
    /// Send at this rate, from the instant on or, if the stream pauses, from its next start. It is no higher than that
    /// of the plan, for which memory was made.
    Rate(Rate),
}

/// Instant at which an order holds.
#[derive(Clone, Copy, Debug)]
pub enum At {
    /// As soon as all lanes can know of it, 10 ms from now; for an order that is given before the trial, its start.
    Soonest,
    /// So long after the start of the trial.
    AfterStart(Duration),
    /// A time of a clock.
    Time(ClockTime),
}

/// Packets of a stream, from the start of the trial up to a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Packets sent by then.
    pub sent: u64,
    /// Packets of these that did not come back within the settle time.
    pub lost: i64,
    /// The time, since the start. Nothing that happens later changes the counts.
    pub until: Duration,
}

/// Reason why an order can't be followed: the stream, the order, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OrderError(pub(crate) String);

/// Streams of a trial, as its caller directs them: see [`Common::streams`](crate::Common::streams). Clones direct the
/// same streams.
#[derive(Clone, Debug, Default)]
pub struct Streams(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    book: Mutex<Book>,
    /// Number of orders in the book.
    orders: AtomicUsize,
}

#[derive(Debug, Default)]
struct Book {
    /// Start of the trial, ns; `None`: none has begun.
    start_ns: Option<u64>,
    /// Highest rate of each stream of the trial; `None`: it has no rate.
    rates: Vec<Option<Rate>>,
    /// Orders by their instant, once the trial has begun; those of one instant as they were given.
    orders: Vec<Order>,
    /// Orders given before the trial.
    early: Vec<(StreamId, Do, At)>,
    counts: Vec<StreamCounts>,
}

#[derive(Clone, Copy, Debug)]
struct Order {
    at_ns: u64,
    stream: usize,
    what: Do,
}

impl Streams {
    /// Makes streams that nothing was ordered yet. They serve one trial.
    pub fn new() -> Self {
        Self::default()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.book.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Gives orders to streams, which all hold at one instant; if one of them is refused, none is given. Before the trial
    /// any order is taken, and the trial refuses those that it can't follow. A stream sends from the start of the trial
    /// on, unless it is ordered to pause then.
    ///
    /// # Errors
    /// In a trial: an unknown stream, one that was stopped, a rate that is higher than the plan's or that a plan without
    /// rate can't have, an instant that is nearer than 10 ms.
    pub fn order(&self, orders: &[(StreamId, Do)], at: At) -> Result<(), OrderError> {
        let mut book = self.book();
        let Some(start_ns) = book.start_ns else {
            book.early
                .extend(orders.iter().map(|(stream, what)| (*stream, *what, at)));
            return Ok(());
        };
        let soonest_ns = monotonic_ns() + AHEAD_NS;
        let at_ns = match at {
            At::Soonest => soonest_ns,
            at => at.resolve(start_ns),
        };
        if at_ns < soonest_ns {
            let ahead_ns = i128::from(at_ns) - i128::from(soonest_ns - AHEAD_NS);
            return Err(OrderError(format!(
                "an instant {} us ahead: want {} us or more, so that every lane knows of the order by then",
                ahead_ns / 1_000,
                AHEAD_NS / 1_000
            )));
        }
        let before = book.orders.clone();
        let mut each = orders.iter();
        let given = each.try_for_each(|(stream, what)| book.add(*stream, *what, at_ns.max(start_ns)));
        if given.is_err() {
            book.orders = before;
        }
        self.0.orders.store(book.orders.len(), Ordering::Release);
        given
    }

    /// Returns the packets of a stream so far; `None` before the trial, and for an unknown stream. They are counted as
    /// rows close: an interval and the settle time later. A stream that was stopped or paused before
    /// [`StreamCounts::until`] has its final counts, while others go on.
    pub fn counts(&self, stream: StreamId) -> Option<StreamCounts> {
        self.book().counts.get(stream.0).copied()
    }

    /// Returns the start of the trial, ns on the clock `CLOCK_MONOTONIC`; `None`: not known yet.
    pub fn start_ns(&self) -> Option<u64> {
        self.book().start_ns
    }

    /// Begins a trial. `rates`: the highest rate of each of its streams.
    ///
    /// # Errors
    /// If an early order can't be followed, or these streams have served another trial.
    pub(crate) fn begin(&self, start_ns: u64, rates: Vec<Option<Rate>>) -> Result<(), OrderError> {
        let mut book = self.book();
        if book.start_ns.is_some() {
            return Err(OrderError(
                "these streams have served another trial: want new ones".to_owned(),
            ));
        }
        book.counts = vec![StreamCounts::default(); rates.len()];
        book.rates = rates;
        for (stream, what, at) in std::mem::take(&mut book.early) {
            let at_ns = at.resolve(start_ns).max(start_ns);
            book.add(stream, what, at_ns)?;
        }
        book.start_ns = Some(start_ns);
        self.0.orders.store(book.orders.len(), Ordering::Release);
        Ok(())
    }

    /// Notes the counts up to `until_ns` since the start, packets sent and lost: of the whole run, and of each track if
    /// there are several.
    pub(crate) fn note(&self, until_ns: u64, all: (u64, i64), of_tracks: impl Iterator<Item = (u64, i64)>) {
        let until = Duration::from_nanos(until_ns);
        let counts = &mut self.book().counts;
        let note = |of: &mut StreamCounts, (sent, lost)| *of = StreamCounts { sent, lost, until };
        match &mut counts[..] {
            // Both ways between two ports are one stream.
            [one] => note(one, all),
            several => several
                .iter_mut()
                .zip(of_tracks)
                .for_each(|(of, counts)| note(of, counts)),
        }
    }

    /// Returns a lane's view of one stream.
    pub(crate) fn followed(&self, stream: usize) -> Orders {
        Orders {
            shared: Arc::clone(&self.0),
            stream,
            seen: 0,
            followed: 0,
            next: None,
            look_ns: 0,
        }
    }
}

impl At {
    /// Returns the instant in a trial that starts at `start_ns`.
    fn resolve(self, start_ns: u64) -> u64 {
        match self {
            Self::Soonest => start_ns,
            Self::AfterStart(time) => start_ns.saturating_add(time.as_nanos() as u64),
            Self::Time(time) => time.monotonic().0,
        }
    }
}

impl Book {
    fn add(&mut self, StreamId(stream): StreamId, what: Do, at_ns: u64) -> Result<(), OrderError> {
        let refused = |why: String| Err(OrderError(format!("stream {stream}: {why}")));
        let Some(highest) = self.rates.get(stream) else {
            return refused(format!(
                "the trial has none of this number: want 0 to {}",
                self.rates.len() - 1
            ));
        };
        match (what, highest) {
            (Do::Rate(_), None) => {
                return refused("a rate, though its plan has none: want a plan with a rate".to_owned());
            }
            (Do::Rate(rate), Some(highest)) if rate.pps() > highest.pps() => {
                return refused(format!(
                    "{} pps: memory was made for the plan's rate: want {} pps or less",
                    rate.pps(),
                    highest.pps()
                ));
            }
            _ => {}
        }
        let stopped = |order: &&Order| order.stream == stream && order.what == Do::Stop;
        if self.orders.iter().find(stopped).is_some_and(|stop| stop.at_ns <= at_ns) {
            return refused("it is stopped by then: want it paused, if it is to go on".to_owned());
        }
        let place = self.orders.partition_point(|order| order.at_ns <= at_ns);
        self.orders.insert(place, Order { at_ns, stream, what });
        Ok(())
    }
}

/// A lane's view of the orders to its stream. It follows them one after the other.
#[derive(Debug)]
pub(crate) struct Orders {
    shared: Arc<Shared>,
    stream: usize,
    /// Number of orders in the book when it was last read.
    seen: usize,
    /// Orders that the lane has followed.
    followed: usize,
    /// Order to follow next, with its instant.
    next: Option<(u64, Do)>,
    look_ns: u64,
}

impl Orders {
    /// Returns when to look for orders again, ns.
    #[inline]
    pub(crate) fn look_ns(&self) -> u64 {
        self.look_ns
    }

    /// Returns the next order that holds by now, with its instant.
    #[cold]
    pub(crate) fn next(&mut self, now_ns: u64) -> Option<(u64, Do)> {
        let orders = self.shared.orders.load(Ordering::Acquire);
        // Nobody holds the lock for long. If somebody does, the lane looks again soon.
        if orders != self.seen
            && let Ok(book) = self.shared.book.try_lock()
        {
            let own = book.orders.iter().filter(|order| order.stream == self.stream);
            self.next = own.skip(self.followed).map(|order| (order.at_ns, order.what)).next();
            self.seen = book.orders.len();
        }
        self.look_ns = self.next.map_or(u64::MAX, |(at_ns, _)| at_ns).min(now_ns + LOOK_NS);
        let held = self.next.take_if(|(at_ns, _)| *at_ns <= now_ns)?;
        self.followed += 1;
        // The one after it is in the book.
        self.seen = usize::MAX;
        self.look_ns = now_ns;
        Some(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(pps: u64) -> Rate {
        Rate::new(pps, 1).expect("a rate")
    }

    #[test]
    fn a_lane_follows_the_orders_of_its_stream_in_the_order_of_their_instants() {
        let streams = Streams::new();
        let after = |ms| At::AfterStart(Duration::from_millis(ms));
        let start_ns = monotonic_ns() + 1_000_000_000;
        streams
            .order(&[(StreamId(1), Do::Pause)], At::Soonest)
            .expect("an order");
        streams.order(&[(StreamId(1), Do::Stop)], after(9)).expect("an order");
        streams.order(&[(StreamId(0), Do::Pause)], after(1)).expect("an order");
        streams.begin(start_ns, vec![None, Some(rate(10))]).expect("a trial");
        let mut lane = streams.followed(1);
        assert_eq!(lane.next(start_ns - 1), None);
        assert_eq!(lane.look_ns(), start_ns);
        assert_eq!(lane.next(start_ns), Some((start_ns, Do::Pause)));
        streams
            .order(&[(StreamId(1), Do::Rate(rate(5)))], after(3))
            .expect("an order");
        assert_eq!(lane.next(start_ns), None);
        assert_eq!(lane.look_ns(), start_ns + LOOK_NS);
        let late = start_ns + 20_000_000;
        assert_eq!(lane.next(late), Some((start_ns + 3_000_000, Do::Rate(rate(5)))));
        assert_eq!(lane.next(late), Some((start_ns + 9_000_000, Do::Stop)));
        assert_eq!(lane.next(late), None);
    }

    #[test]
    fn an_order_that_cannot_be_followed_is_refused_with_what_would_be_right() {
        let streams = Streams::new();
        streams
            .begin(monotonic_ns(), vec![None, Some(rate(10))])
            .expect("a trial");
        let far = At::AfterStart(Duration::from_secs(100));
        let near = At::AfterStart(Duration::from_millis(1));
        streams.order(&[(StreamId(1), Do::Stop)], far).expect("an order");
        for (stream, what, at, part) in [
            (2, Do::Pause, far, "want 0 to 1"),
            (0, Do::Rate(rate(1)), far, "want a plan with a rate"),
            (
                1,
                Do::Rate(rate(11)),
                At::Soonest,
                "11 pps: memory was made for the plan's rate: want 10 pps",
            ),
            (1, Do::Start, far, "stopped by then: want it paused"),
        ] {
            let refused = streams
                .order(&[(StreamId(stream), what)], at)
                .expect_err(part)
                .to_string();
            assert!(
                refused.starts_with(&format!("stream {stream}: ")) && refused.contains(part),
                "{refused}"
            );
        }
        let refused = streams
            .order(&[(StreamId(0), Do::Start)], near)
            .expect_err("too near")
            .to_string();
        assert!(refused.contains("want 10000 us or more"), "{refused}");
        // None of several orders is given if one is refused.
        let both = [(StreamId(0), Do::Stop), (StreamId(2), Do::Stop)];
        streams.order(&both, far).expect_err("no such stream");
        streams.order(&[(StreamId(0), Do::Start)], far).expect("not stopped");
        let again = streams.begin(0, vec![None]).expect_err("one trial");
        assert!(again.to_string().contains("want new ones"), "{again}");
        let early = Streams::new();
        early
            .order(&[(StreamId(7), Do::Stop)], At::Soonest)
            .expect("not known yet");
        assert!(early.begin(0, vec![None]).is_err());
    }
}
