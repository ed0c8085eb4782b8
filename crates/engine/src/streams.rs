//! Orders to the streams of a trial while it runs: start, stop, pause, another rate.
//!
//! An order names the instant at which it holds on all lanes. The instant lies far enough ahead for every lane to know
//! of the order by then: a lane with orders to follow looks for new ones every [`LOOK_NS`], asleep or not, and takes a
//! lock only if there is one, to copy it. A lane carries an order out by its schedule, not by the time at which it
//! looks: departures before the instant leave, late or not, and those from the instant on are of the new schedule.
//!
//! An order takes the place of the stream's orders that were to hold later: what was ordered can be brought forward or
//! called off. The book keeps all orders as they were given, and lanes do the same with them as it does.

use mpps_io::Rate;
use mpps_sys::clock::{ClockTime, monotonic_ns};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

/// Longest time between two looks of a lane for new orders, ns.
const LOOK_NS: u64 = 2_000_000;
/// Least time between an order and the instant at which it holds, ns.
const AHEAD_NS: u64 = 10_000_000;
/// Least such time once the order is in the book, ns: the caller's thread may have been held up.
const LEAST_NS: u64 = 3 * LOOK_NS;

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

impl Do {
    /// Returns whether a stream sends once this order holds. `sent`: it sent before.
    pub(crate) fn sends(self, sent: bool) -> bool {
        match self {
            Self::Start => true,
            Self::Pause | Self::Stop => false,
            Self::Rate(_) => sent,
        }
    }
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
    /// Packets of these that have not come back. One that comes back after the settle time is late, and lost no longer.
    pub lost: i64,
    /// The time, since the start.
    pub until: Duration,
    /// Nothing is sent any more and all packets are back or lost: the stream was stopped, or the trial is over.
    pub is_final: bool,
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
    /// Orders. Nobody but who orders and who copies takes this lock, so that lanes find it free.
    book: Mutex<Book>,
    /// Number of orders in the book, of all streams.
    orders: AtomicUsize,
    tallies: Mutex<Vec<Tallied>>,
    /// Start of the trial, ns; 0: none has begun.
    start_ns: AtomicU64,
    over: AtomicBool,
    /// Departures that lanes had taken beyond an order before they knew of it.
    overshot: AtomicU64,
}

/// Packets of a stream, and what is left of it.
#[derive(Clone, Copy, Debug, Default)]
struct Tallied {
    counts: StreamCounts,
    /// Lanes that have not sent their last packet, and the time of the last one that was, ns.
    lanes: usize,
    last_ns: u64,
}

#[derive(Debug, Default)]
struct Book {
    streams: Vec<Stream>,
    /// Orders given before the trial.
    early: Vec<(StreamId, Do, At)>,
    /// Streams of the trial that is about to begin, and its start, ns, as far as is known: early orders fit them.
    checked: Option<(Vec<StreamPlan>, u64)>,
}

/// Orders to a stream of a trial.
#[derive(Clone, Debug, Default)]
struct Stream {
    /// Rate of its plan; `None`: as fast as the path takes packets.
    rate: Option<Rate>,
    /// All orders with their instants, ns, as they were given.
    given: Vec<(u64, Do)>,
    /// Orders that stand, by their instants.
    standing: VecDeque<(u64, Do)>,
}

/// Puts an order behind those that hold before it, in place of those that hold later. Returns the latter.
fn put(standing: &mut VecDeque<(u64, Do)>, order: (u64, Do)) -> VecDeque<(u64, Do)> {
    let place = standing.partition_point(|(at_ns, _)| *at_ns <= order.0);
    let later = standing.split_off(place);
    standing.push_back(order);
    later
}

/// Stream as a trial has it at its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamPlan {
    /// Highest rate; `None`: as fast as the path takes packets.
    pub(crate) rate: Option<Rate>,
    /// Lanes that send it.
    pub(crate) lanes: usize,
}

impl Streams {
    /// Makes streams that nothing was ordered yet. They serve one trial.
    pub fn new() -> Self {
        Self::default()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.book.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Gives orders to streams, which all hold at one instant; if one of them is refused, none is given. Each takes the
    /// place of the stream's orders that were to hold later. Returns the instant, ns on the clock `CLOCK_MONOTONIC`;
    /// `None` before the trial. One beyond the planned end never comes.
    ///
    /// Before the trial orders are taken in any order, none takes another's place, and the trial refuses those that it
    /// can't follow. A stream sends from the start of the trial on, unless it is ordered to pause then.
    ///
    /// # Errors
    /// In a trial: an unknown stream, one that was stopped, a rate that is higher than the plan's or that a plan
    /// without rate can't have, an instant that is nearer than 10 ms.
    pub fn order(&self, orders: &[(StreamId, Do)], at: At) -> Result<Option<u64>, OrderError> {
        let mut book = self.book();
        if self.is_over() {
            return Err(OrderError("the trial is over: want an order before its end".to_owned()));
        }
        let Some(start_ns) = self.start_ns() else {
            return book.order_early(orders, at).map(|()| None);
        };
        let soonest_ns = monotonic_ns() + AHEAD_NS;
        let at_ns = match at {
            At::Soonest => soonest_ns.max(start_ns),
            at => at.resolve(start_ns).max(start_ns),
        };
        let too_near = |now_ns: u64| {
            let when = match at_ns.checked_sub(now_ns) {
                Some(ahead_ns) => format!("{} us ahead", ahead_ns / 1_000),
                None => format!("{} us ago", (now_ns - at_ns) / 1_000),
            };
            OrderError(format!(
                "an instant {when}: want one {} us ahead or more, so that every lane knows of the order by then",
                AHEAD_NS / 1_000
            ))
        };
        if at_ns < soonest_ns {
            return Err(too_near(soonest_ns - AHEAD_NS));
        }
        let all = orders.iter().map(|(stream, what)| (*stream, *what, at_ns));
        let mut given = add(&mut book.streams, all);
        // This thread may have been held up.
        let now_ns = monotonic_ns();
        if let Ok(later) = &mut given
            && now_ns + LEAST_NS > at_ns
        {
            take_back(&mut book.streams, std::mem::take(later));
            given = Err(too_near(now_ns));
        }
        self.0.publish(&book);
        given.map(|_| Some(at_ns))
    }

    /// Returns the packets of a stream so far; `None` before the trial, and for an unknown stream. They are counted as
    /// rows close: an interval and the settle time later.
    pub fn counts(&self, stream: StreamId) -> Option<StreamCounts> {
        self.tallies().get(stream.0).map(|of| of.counts)
    }

    fn tallies(&self) -> MutexGuard<'_, Vec<Tallied>> {
        self.0.tallies.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns whether the trial is over, or there was none: then no order is taken, and no count changes.
    pub fn is_over(&self) -> bool {
        self.0.over.load(Ordering::Acquire)
    }

    /// Ends these streams. Whoever runs their trial does so, also if it could not take place: another thread may wait
    /// for its counts.
    pub fn end(&self) {
        self.0.over.store(true, Ordering::Release);
        self.tallies().iter_mut().for_each(|of| of.counts.is_final = true);
    }

    /// Returns the start of the trial, ns on the clock `CLOCK_MONOTONIC`; `None`: not known yet.
    pub fn start_ns(&self) -> Option<u64> {
        let start_ns = self.0.start_ns.load(Ordering::Acquire);
        (start_ns != 0).then_some(start_ns)
    }

    /// Returns departures that lanes had taken beyond an order before they knew of it.
    pub(crate) fn overshot(&self) -> u64 {
        self.0.overshot.load(Ordering::Relaxed)
    }

    /// Checks the early orders for a trial with these streams that starts at `start_ns`, as far as is known. From then
    /// on an order that does not fit is refused as it is given.
    ///
    /// # Errors
    /// If one can't be followed, or these streams serve or have served another trial.
    pub(crate) fn check(&self, start_ns: u64, plans: &[StreamPlan]) -> Result<(), OrderError> {
        let mut book = self.book();
        if book.checked.is_some() || self.is_over() {
            return Err(OrderError(
                "these streams serve another trial: want new ones".to_owned(),
            ));
        }
        add(&mut streams_of(plans), book.early_orders(start_ns))?;
        book.checked = Some((plans.to_vec(), start_ns));
        Ok(())
    }

    /// Begins a trial.
    ///
    /// # Errors
    /// If an early order can't be followed, because the start is another than the one that it was checked for.
    pub(crate) fn begin(&self, start_ns: u64, plans: &[StreamPlan]) -> Result<(), OrderError> {
        let mut book = self.book();
        book.streams = streams_of(plans);
        let early = book.early_orders(start_ns);
        add(&mut book.streams, early)?;
        book.early.clear();
        let tallied = |plan: &StreamPlan| Tallied {
            lanes: plan.lanes,
            ..Tallied::default()
        };
        *self.tallies() = plans.iter().map(tallied).collect();
        self.0.start_ns.store(start_ns, Ordering::Release);
        self.0.publish(&book);
        Ok(())
    }

    /// Notes the counts up to `until_ns` since the start, packets sent and lost: of the whole run, and of each track if
    /// there are several.
    pub(crate) fn note(&self, until_ns: u64, all: (u64, i64), of_tracks: impl Iterator<Item = (u64, i64)>) {
        let start_ns = self.start_ns().unwrap_or(0);
        let until = Duration::from_nanos(until_ns);
        let note = |of: &mut Tallied, (sent, lost)| {
            let is_final = of.lanes == 0 && of.last_ns < start_ns + until_ns;
            of.counts = StreamCounts {
                sent,
                lost,
                until,
                is_final,
            };
        };
        match &mut self.tallies()[..] {
            // Both ways between two ports are one stream.
            [one] => note(one, all),
            several => several
                .iter_mut()
                .zip(of_tracks)
                .for_each(|(of, counts)| note(of, counts)),
        }
    }

    /// Returns whether a stream was to send at some time before `end_ns`.
    pub(crate) fn was_to_send(&self, stream: usize, end_ns: u64) -> bool {
        let book = self.book();
        let Some(of) = book.streams.get(stream) else {
            return true;
        };
        let (mut sends, mut since_ns) = (true, self.start_ns().unwrap_or(0));
        for (at_ns, what) in of.standing.iter().filter(|(at_ns, _)| *at_ns < end_ns) {
            if sends && *at_ns > since_ns {
                return true;
            }
            sends = what.sends(sends);
            since_ns = *at_ns;
        }
        sends && end_ns > since_ns
    }

    /// Returns a lane's view of one stream of a trial that has begun.
    pub(crate) fn followed(&self, stream: usize) -> Orders {
        let mut orders = Orders {
            shared: Arc::clone(&self.0),
            stream,
            seen: 0,
            copied: 0,
            next: VecDeque::with_capacity(64),
            look_ns: 0,
            sure_ns: 0,
        };
        orders.copy(&self.book());
        orders
    }
}

impl Shared {
    fn publish(&self, book: &Book) {
        self.orders.store(book.given(), Ordering::Release);
    }
}

impl At {
    /// Returns the instant in a trial that starts at `start_ns`.
    fn resolve(self, start_ns: u64) -> u64 {
        match self {
            Self::Soonest => start_ns,
            Self::AfterStart(time) => start_ns.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            Self::Time(time) => time.monotonic().0,
        }
    }
}

impl Book {
    /// Returns the number of orders of all streams.
    fn given(&self) -> usize {
        self.streams.iter().map(|stream| stream.given.len()).sum()
    }

    /// Takes orders before the trial.
    fn order_early(&mut self, orders: &[(StreamId, Do)], at: At) -> Result<(), OrderError> {
        let before = self.early.len();
        self.early
            .extend(orders.iter().map(|(stream, what)| (*stream, *what, at)));
        let Some((plans, start_ns)) = &self.checked else {
            return Ok(());
        };
        let fits = add(&mut streams_of(plans), self.early_orders(*start_ns));
        if fits.is_err() {
            self.early.truncate(before);
        }
        fits.map(drop)
    }

    /// Returns the early orders by their instants, for a trial that starts at `start_ns`.
    fn early_orders(&self, start_ns: u64) -> impl Iterator<Item = (StreamId, Do, u64)> + use<> {
        let early = self.early.iter();
        let mut early: Vec<_> = early
            .map(|(stream, what, at)| (*stream, *what, at.resolve(start_ns).max(start_ns)))
            .collect();
        early.sort_by_key(|(_, _, at_ns)| *at_ns);
        early.into_iter()
    }
}

fn streams_of(plans: &[StreamPlan]) -> Vec<Stream> {
    let stream = |plan: &StreamPlan| Stream {
        rate: plan.rate,
        ..Stream::default()
    };
    plans.iter().map(stream).collect()
}

/// Orders that were added, by stream, each with those that it took the place of.
type Added = Vec<(usize, VecDeque<(u64, Do)>)>;

/// Adds orders, all or none.
fn add(streams: &mut [Stream], orders: impl Iterator<Item = (StreamId, Do, u64)>) -> Result<Added, OrderError> {
    let mut added = Added::new();
    for (StreamId(number), what, at_ns) in orders {
        match fits(streams, number, what, at_ns) {
            Ok(of) => {
                of.given.push((at_ns, what));
                added.push((number, put(&mut of.standing, (at_ns, what))));
            }
            Err(why) => {
                take_back(streams, added);
                return Err(OrderError(format!("stream {number}: {why}")));
            }
        }
    }
    Ok(added)
}

/// Takes back what was added last.
fn take_back(streams: &mut [Stream], added: Added) {
    for (number, later) in added.into_iter().rev() {
        let of = &mut streams[number];
        of.given.pop();
        of.standing.pop_back();
        of.standing.extend(later);
    }
}

/// Returns the stream of this number, if it can follow such an order.
fn fits(streams: &mut [Stream], number: usize, what: Do, at_ns: u64) -> Result<&mut Stream, String> {
    let all = streams.len();
    let Some(of) = streams.get_mut(number) else {
        return Err(format!("the trial has none of this number: want 0 to {}", all - 1));
    };
    match (what, of.rate) {
        (Do::Rate(_), None) => return Err("a rate, though its plan has none: want a plan with a rate".to_owned()),
        (Do::Rate(rate), Some(highest)) if rate.pps() > highest.pps() => {
            return Err(format!(
                "{} pps: memory was made for the plan's rate: want {} pps or less",
                rate.pps(),
                highest.pps()
            ));
        }
        _ => {}
    }
    let before = of.standing.partition_point(|(standing_ns, _)| *standing_ns <= at_ns);
    match before.checked_sub(1).and_then(|last| of.standing.get(last)) {
        Some((_, Do::Stop)) => Err("it is stopped by then: want it paused, if it is to go on".to_owned()),
        _ => Ok(of),
    }
}

/// Orders to a stream, as one of its lanes knows them. The lane follows them one after the other.
#[derive(Debug)]
pub(crate) struct Orders {
    shared: Arc<Shared>,
    stream: usize,
    /// Number of orders in the book when it was last read.
    seen: usize,
    /// Number of the stream's orders that were copied.
    copied: usize,
    /// Orders to follow, with their instants.
    next: VecDeque<(u64, Do)>,
    look_ns: u64,
    /// Time before which no order holds that was not copied, ns.
    sure_ns: u64,
}

impl Orders {
    /// Returns when to look for orders again, ns.
    pub(crate) fn look_ns(&self) -> u64 {
        self.look_ns
    }

    /// Returns whether an order that is not known yet may hold by now. The lane then sends nothing: its departures are
    /// of another schedule, perhaps.
    pub(crate) fn may_hold(&self, now_ns: u64) -> bool {
        now_ns >= self.sure_ns
    }

    fn copy(&mut self, book: &Book) {
        if let Some(stream) = book.streams.get(self.stream) {
            for order in &stream.given[self.copied..] {
                put(&mut self.next, *order);
            }
            self.copied = stream.given.len();
        }
        self.seen = book.given();
    }

    /// Returns the next order that holds by now, with its instant.
    #[cold]
    pub(crate) fn next(&mut self, now_ns: u64) -> Option<(u64, Do)> {
        let mut again_ns = now_ns + LOOK_NS;
        let mut knows_all = true;
        if self.shared.orders.load(Ordering::Acquire) != self.seen {
            let shared = Arc::clone(&self.shared);
            // Nobody holds the lock for long. If somebody does, the lane looks again at once, and does not wait.
            match shared.book.try_lock() {
                Ok(book) => self.copy(&book),
                Err(TryLockError::Poisoned(book)) => self.copy(&book.into_inner()),
                Err(TryLockError::WouldBlock) => (again_ns, knows_all) = (now_ns, false),
            }
        }
        if knows_all {
            // Orders that come from now on hold later than this.
            self.sure_ns = now_ns + LEAST_NS;
        }
        match self.next.front() {
            Some((at_ns, _)) if *at_ns <= now_ns => self.next.pop_front(),
            next => {
                self.look_ns = next.map_or(u64::MAX, |(at_ns, _)| *at_ns).min(again_ns);
                None
            }
        }
    }

    /// Notes that a lane of the stream sends no more; its last packet left at `last_ns`.
    #[cold]
    pub(crate) fn ended(&self, last_ns: u64) {
        let mut tallies = self.shared.tallies.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(of) = tallies.get_mut(self.stream) {
            of.lanes = of.lanes.saturating_sub(1);
            of.last_ns = of.last_ns.max(last_ns);
        }
    }

    /// Notes departures that the lane had taken beyond an order before it knew of it.
    pub(crate) fn overshot(&self, packets: u64) {
        self.shared.overshot.fetch_add(packets, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
