//! A way that holds, at times that the test chooses.

use super::{CopyOver, Move, Step, Way};
use crate::lane::Lane;
use crate::lane::control::Control;
use crate::lane::idle::Idle;
use crate::lane::stages::Stages;
use crate::plan::ForwardPort;
use mpps_io::null::{NullConfig, NullPort, NullQueue, Source};
use mpps_io::{Burst, ErrorKind, Frame, Port, Queue, Result, Wait};
use mpps_io::{OnFull, Work};
use mpps_stats::{LaneCounters, LaneSeries, Recorder, Timing};
use mpps_sys::clock::ClockSource;
use mpps_wire::{MacAddr, Rewrite, TakeFilter};
use std::time::Duration;

const DRAIN: Duration = Duration::from_micros(100);
/// The test's time begins here, ns.
const T0: u64 = 1_000_000_000;
const BURST: usize = 8;

/// So many frames a call of receive, of these lengths in turn.
struct Script {
    calls: Vec<usize>,
    lengths: Vec<usize>,
    frames: usize,
}

/// Content of the frame of this number: no two bytes that are swapped are alike.
fn content(frame: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + frame) as u8).collect()
}

impl Source for Script {
    fn begin(&mut self, room: usize) -> usize {
        match self.calls.is_empty() {
            true => 0,
            false => self.calls.remove(0).min(room),
        }
    }

    fn fill(&mut self, frame: &mut [u8]) -> usize {
        self.lengths.rotate_left(1);
        let len = self.lengths[self.lengths.len() - 1];
        frame[..len].copy_from_slice(&content(self.frames, len));
        self.frames += 1;
        len
    }
}

/// A queue whose path takes at most so many frames a call, or fails; what it took, a number each call.
struct Narrow<Q> {
    queue: Q,
    most: usize,
    fails: Option<ErrorKind>,
    sent: Vec<usize>,
    /// The frames themselves.
    left: Vec<Vec<u8>>,
}

impl<Q: Queue> Queue for Narrow<Q> {
    type Frame = Q::Frame;

    fn receive(&mut self, burst: &mut Burst<Q::Frame>) -> Result<usize> {
        self.queue.receive(burst)
    }

    fn allocate(&mut self, burst: &mut Burst<Q::Frame>, n: usize) -> Result<usize> {
        self.queue.allocate(burst, n)
    }

    fn transmit(&mut self, burst: &mut Burst<Q::Frame>) -> Result<usize> {
        if let Some(kind) = self.fails {
            return Err(mpps_io::Error::new("send on", "a port of a test", "it does not", kind));
        }
        let taken = self.most.min(burst.len());
        self.left.extend(burst.drain(taken).map(|frame| frame.bytes().to_vec()));
        self.sent.push(taken);
        Ok(taken)
    }

    fn wait(&mut self, _: Wait, _: Duration) -> Result<()> {
        Ok(())
    }
}

type Port1 = NullPort<fn(usize) -> Script>;
type Out<'p> = Narrow<NullQueue<'p, Script>>;

/// A way between two queues, both of which are there to be looked at.
struct Bench<'r, 'p, S> {
    lane: Lane<'r>,
    recorder: Recorder<'r>,
    from: NullQueue<'p, Script>,
    to: Out<'p>,
    way: Way<'r, <Out<'p> as Queue>::Frame, Out<'p>, S>,
}

impl<'p, S: Step<<Out<'p> as Queue>::Frame, Out<'p>>> Bench<'_, 'p, S> {
    /// A turn of the lane at `us` after the beginning; true when anything came or went.
    fn turn(&mut self, us: u64) -> bool {
        let now = T0 + us * 1000;
        let came = self.way.receive(&self.lane, &mut self.from, now, &mut self.recorder);
        self.way
            .pass_on(came, &self.lane, &mut self.to, now, &mut self.recorder)
    }

    fn sent(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.to.sent)
    }

    /// Received, sent, and dropped because there was no room or no port.
    fn counts(&self) -> [u64; 4] {
        let c = &self.way.counts;
        [c.rx, c.tx, c.tx_full, c.port_down]
    }
}

/// Runs `body` over a way that receives by `script`. `S` is [`Move`] with one pool, [`CopyOver`] with two.
fn with_way<S>(script: &'static [usize], drain: Duration, body: impl FnOnce(Bench<'_, '_, S>))
where
    S: for<'p> Step<<Out<'p> as Queue>::Frame, Out<'p>>,
{
    with_frames::<S>(script, &[60], (Rewrite::Io, false), (drain, OnFull::Wait), body);
}

/// Works as [`with_way`], with frames of these lengths in turn, to be rewritten. `plain`: the queue promises plain
/// frames.
fn with_frames<S>(
    script: &'static [usize],
    lengths: &'static [usize],
    (rewrite, plain): (Rewrite, bool),
    holding: (Duration, OnFull),
    body: impl FnOnce(Bench<'_, '_, S>),
) where
    S: for<'p> Step<<Out<'p> as Queue>::Frame, Out<'p>>,
{
    let sources: fn(usize) -> Script = |_| Script {
        calls: Vec::new(),
        lengths: vec![60],
        frames: 0,
    };
    let port: Port1 = NullPort::new(NullConfig::default(), 2, [2, 0, 0, 0, 0, 1], sources);
    let scripted = NullPort::new(NullConfig::default(), 1, [2, 0, 0, 0, 0, 2], move |_: usize| Script {
        calls: script.to_vec(),
        lengths: lengths.to_vec(),
        frames: 0,
    });
    let pool = port.pool(0).expect("a pool");
    let to = Narrow {
        queue: port.queue(0, &pool).expect("a queue"),
        most: usize::MAX,
        fails: None,
        sent: Vec::new(),
        left: Vec::new(),
    };
    let from = scripted.queue(0, &pool).expect("a queue");
    let (control, counters) = (Control::new().expect("eventfd"), LaneCounters::default());
    let timing = Timing {
        start_ns: T0,
        interval_ns: 1_000_000,
        settle_ns: 0,
    };
    let series = LaneSeries::new(timing, true);
    let ends = ForwardPort {
        name: "port".to_owned(),
        take: TakeFilter::All,
        rewrite,
    };
    body(Bench {
        lane: Lane {
            clock: ClockSource::new().clock(),
            control: &control,
            port: 0,
            counters: &counters,
            idle: Idle::new(true, false, false, ClockSource::new().clock(), &counters),
            stages: Stages::new(&counters.stages, None, None),
            sampler: None,
            stamps: None,
            neighbor: None,
            attends: false,
            burst: BURST,
            start_ns: 0,
            dest_mac: None,
            by_stream: None,
            arrivals: None,
            told_down: Default::default(),
            obstacle: Default::default(),
            down: Default::default(),
            napped_ns: Default::default(),
        },
        recorder: series.recorder(),
        from,
        to,
        way: Way::new(
            (&ends, plain),
            &ends,
            [0, 0],
            1500,
            BURST,
            (holding.0, holding.1, Work::default()),
        ),
    });
}

fn holds_until_full_or_due<S>()
where
    S: for<'p> Step<<Out<'p> as Queue>::Frame, Out<'p>>,
{
    // 3 and 4 are held; 6 more make a full burst, and 5 are left; another 3 fill it to the last place.
    with_way::<S>(&[3, 4, 6, 3, 2, 0, 0], DRAIN, |mut bench| {
        assert!(bench.turn(0) && bench.turn(40));
        assert_eq!((bench.sent(), bench.way.due_ns()), (vec![], T0 + 100_000));
        assert!(bench.turn(60));
        // What is left came at 60, and is due by then.
        assert_eq!((bench.sent(), bench.way.due_ns()), (vec![8], T0 + 160_000));
        assert!(bench.turn(70));
        assert_eq!((bench.sent(), bench.way.due_ns()), (vec![8], u64::MAX));
        assert!(bench.turn(1000));
        assert_eq!(bench.way.due_ns(), T0 + 1_100_000);
        // Nothing came: what is held goes when its time has come, not before.
        assert!(!bench.turn(1099));
        assert!(bench.sent().is_empty());
        assert!(bench.turn(1100));
        assert_eq!((bench.sent(), bench.way.due_ns()), (vec![2], u64::MAX));
        assert_eq!(bench.counts(), [18, 18, 0, 0]);
    });
}

#[test]
fn frames_are_held_until_a_burst_is_full_or_the_oldest_has_waited_for_the_drain_time() {
    holds_until_full_or_due::<Move>();
    holds_until_full_or_due::<CopyOver>();
}

#[test]
fn without_a_drain_time_what_came_is_sent_at_once() {
    with_way::<Move>(&[3, 8, 1], Duration::ZERO, |mut bench| {
        assert!(bench.turn(0) && bench.turn(1) && bench.turn(2) && !bench.turn(3));
        assert_eq!((bench.sent(), bench.way.due_ns()), (vec![3, 8, 1], u64::MAX));
    });
}

#[test]
fn what_is_held_at_the_end_is_sent() {
    with_way::<CopyOver>(&[3], DRAIN, |mut bench| {
        bench.turn(0);
        bench.way.release(&bench.lane, &mut bench.to, &mut bench.recorder);
        bench.way.release(&bench.lane, &mut bench.to, &mut bench.recorder);
        assert_eq!((bench.sent(), bench.way.due_ns()), (vec![3], u64::MAX));
        assert_eq!(bench.counts(), [3, 3, 0, 0]);
    });
}

#[test]
fn a_path_that_takes_few_at_a_time_gets_a_held_burst_in_parts_and_no_more_than_it() {
    with_way::<Move>(&[7, 7], DRAIN, |mut bench| {
        bench.to.most = 3;
        assert!(bench.turn(0) && bench.turn(1));
        assert_eq!((bench.sent(), bench.way.due_ns()), (vec![3, 3, 2], T0 + 101_000));
        assert_eq!(bench.counts(), [14, 8, 0, 0]);
    });
}

#[test]
fn held_frames_that_a_path_refuses_are_counted_and_no_longer_due() {
    with_way::<Move>(&[7, 7], DRAIN, |mut bench| {
        bench.to.most = 0;
        assert!(bench.turn(0) && bench.turn(1));
        assert_eq!((bench.counts(), bench.way.due_ns()), ([14, 0, 14, 0], u64::MAX));
    });
    with_way::<CopyOver>(&[7, 7, 2], DRAIN, |mut bench| {
        bench.to.fails = Some(ErrorKind::LinkDown);
        assert!(bench.turn(0) && bench.turn(1));
        assert_eq!((bench.counts(), bench.way.due_ns()), ([14, 0, 0, 14], u64::MAX));
        bench.to.fails = None;
        assert!(bench.turn(2) && bench.turn(102));
        assert_eq!((bench.sent(), bench.counts()), (vec![2], [16, 2, 0, 14]));
    });
}

#[test]
fn whatever_the_lengths_in_a_burst_each_frame_is_counted_by_its_own() {
    let mac = MacAddr([2, 0, 0, 0, 0, 9]);
    let l2fwd = Rewrite::L2Forward {
        source: mac,
        destination: mac,
    };
    // Bursts of one length, of several, of none that may go, and each length at each place.
    let lengths: [&[usize]; 8] = [
        &[60],
        &[14],
        &[1500],
        &[60, 60, 60, 61],
        &[13],
        &[1501],
        &[60, 13, 1501, 1500, 14, 16],
        &[13, 60],
    ];
    for (lengths, rewrite, plain) in lengths.into_iter().flat_map(|lengths| {
        [Rewrite::Io, Rewrite::MacSwap, Rewrite::FiveTupleSwap, l2fwd]
            .into_iter()
            .flat_map(move |rewrite| [(lengths, rewrite, false), (lengths, rewrite, true)])
    }) {
        let drain = if lengths.len() == 1 { Duration::ZERO } else { DRAIN };
        with_frames::<Move>(
            &[8, 7, 1, 8],
            lengths,
            (rewrite, plain),
            (drain, OnFull::Wait),
            |mut bench| {
                for us in 0..4 {
                    assert!(bench.turn(us) || !drain.is_zero());
                }
                bench.way.release(&bench.lane, &mut bench.to, &mut bench.recorder);
                let came: Vec<usize> = lengths.iter().copied().cycle().take(24).collect();
                let of = |wanted: fn(usize) -> bool| came.iter().filter(|len| wanted(**len)).count() as u64;
                let counts = &bench.way.counts;
                let told = [counts.rx, counts.rx_bytes, counts.tx, counts.short, counts.too_long];
                let bytes = came.iter().sum::<usize>() as u64;
                let sound = of(|len| (14..=1500).contains(&len));
                let want = [24, bytes, sound, of(|len| len < 14), of(|len| len > 1500)];
                assert_eq!(told, want, "{lengths:?} {rewrite:?} {plain}");
                let go = came.iter().enumerate().filter(|(_, len)| (14..=1500).contains(*len));
                let leave = go.map(|(frame, len)| {
                    let mut bytes = content(frame, *len);
                    rewrite.apply(&mut bytes).expect("long enough");
                    bytes
                });
                assert_eq!(
                    bench.to.left,
                    leave.collect::<Vec<_>>(),
                    "{lengths:?} {rewrite:?} {plain}"
                );
            },
        );
    }
}

fn drops_what_is_not_taken_at_once<S>()
where
    S: for<'p> Step<<Out<'p> as Queue>::Frame, Out<'p>>,
{
    let io = (Rewrite::Io, false);
    // Each burst is offered once: 3 of it go, or none.
    with_frames::<S>(&[8, 2, 5, 8], &[60], io, (Duration::ZERO, OnFull::Drop), |mut bench| {
        bench.to.most = 3;
        assert!(bench.turn(0) && bench.turn(1));
        assert_eq!((bench.sent(), bench.counts()), (vec![3, 2], [10, 5, 5, 0]));
        bench.to.most = 0;
        assert!(bench.turn(2));
        assert_eq!((bench.sent(), bench.counts()), (vec![0], [15, 5, 10, 0]));
        let counters = bench.lane.counters;
        assert_eq!((counters.tx_given_up.get(), counters.tx_full.get()), (10, 1));
        assert_eq!(counters.blocked_ns.get(), 0, "nobody waits");
        bench.to.most = usize::MAX;
        assert!(bench.turn(3));
        assert_eq!((bench.sent(), bench.counts()), (vec![8], [23, 13, 10, 0]));
        // Those that went are the first of their bursts.
        let first: Vec<_> = [0, 1, 2, 8, 9].iter().map(|frame| content(*frame, 60)).collect();
        assert_eq!(bench.to.left[..5], first);
    });
    // Held frames that were not offered yet go on being held.
    with_frames::<S>(&[7, 7, 0], &[60], io, (DRAIN, OnFull::Drop), |mut bench| {
        bench.to.most = 3;
        assert!(bench.turn(0) && bench.turn(1));
        assert_eq!((bench.sent(), bench.counts()), (vec![3], [14, 3, 5, 0]));
        assert_eq!(bench.way.due_ns(), T0 + 101_000);
        bench.to.most = 0;
        assert!(bench.turn(101));
        assert_eq!((bench.sent(), bench.counts()), (vec![0], [14, 3, 11, 0]));
        assert_eq!((bench.way.due_ns(), bench.way.out.len()), (u64::MAX, 0));
    });
    // A port that is down is still another reason.
    with_frames::<S>(&[4], &[60], io, (Duration::ZERO, OnFull::Drop), |mut bench| {
        bench.to.fails = Some(ErrorKind::LinkDown);
        assert!(bench.turn(0));
        assert_eq!(bench.counts(), [4, 0, 0, 4]);
    });
}

#[test]
fn a_way_that_does_not_wait_drops_what_the_path_does_not_take_at_once_and_counts_it() {
    drops_what_is_not_taken_at_once::<Move>();
    drops_what_is_not_taken_at_once::<CopyOver>();
}
