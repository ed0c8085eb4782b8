//! Forwarding over the paths without a kernel: what goes in comes out or is counted, whichever way it goes.

mod forwards;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forwards::{run_forward, run_forward_pair};
use mpps_engine::{Common, ForwardPlan, ForwardPort, LanePlan, OnFull, Work};
use mpps_io::loopback::{LoopConfig, LoopPort};
use mpps_io::null::{NullConfig, NullPort, NullQueue, Source, Sources};
use mpps_io::{Burst, Capabilities, Error, ErrorKind, Fact, Port, Queue, QueueCounters, Result, Wait};
use mpps_stats::{Event, Sink, Summary};
use mpps_sys::clock::monotonic_ns;
use mpps_wire::{Rewrite, TakeFilter};

struct NoSink;

impl Sink for NoSink {
    fn event(&mut self, _: &Event<'_>) {}
}

fn sinks() -> Vec<Box<dyn Sink>> {
    vec![Box::new(NoSink)]
}

fn plan(ports: usize, lanes: usize, split_directions: bool) -> ForwardPlan {
    let port = |name: &str| ForwardPort {
        name: name.to_owned(),
        take: TakeFilter::All,
        rewrite: Rewrite::MacSwap,
    };
    ForwardPlan {
        common: Common {
            lanes: vec![LanePlan::BOTH; lanes],
            // So long that each lane gets its turn on a host that is busy.
            duration: Some(Duration::from_millis(400)),
            interval: Duration::from_millis(5),
            share_cores: true,
            ..Common::default()
        },
        ports: ["a", "b", "c", "d", "e"][..ports]
            .iter()
            .map(|name| port(name))
            .collect(),
        split_directions,
        drain: Duration::ZERO,
        on_full: OnFull::Wait,
        work: Work::default(),
    }
}

/// So many frames of each of some lengths, whatever the number of calls.
struct Frames {
    left: u64,
    lengths: &'static [usize],
}

impl Source for Frames {
    fn fill(&mut self, frame: &mut [u8]) -> usize {
        if self.left == 0 {
            return 0;
        }
        self.left -= 1;
        let len = self.lengths[self.left as usize % self.lengths.len()];
        frame[..len].fill(7);
        len
    }
}

fn null(queues: usize, left: u64, lengths: &'static [usize]) -> NullPort<impl Sources> {
    let frames = move |_: usize| Frames { left, lengths };
    NullPort::new(NullConfig::default(), queues, [2, 0, 0, 0, 0, 1], frames)
}

fn echo() -> impl Port {
    LoopPort::new(LoopConfig::default(), 1, monotonic_ns, |_: &mut [u8]| true)
}

/// What `port` counted: received, sent, and by reason.
fn port(s: &Summary, place: usize) -> (u64, u64, Vec<(&str, u64)>) {
    let port = &s.ports[place];
    let reasons = port.reasons.iter().map(|(why, n)| (why.as_str(), *n)).collect();
    (port.rx_packets, port.tx_packets, reasons)
}

#[test]
fn every_frame_goes_from_each_port_to_the_other_moved_or_copied() {
    let moved = run_forward(
        &[null(1, 1000, &[60]), null(1, 300, &[1514])],
        &plan(2, 1, false),
        &mut sinks(),
    );
    let copied = run_forward_pair(
        (&null(1, 1000, &[60]), &null(1, 300, &[1514])),
        &plan(2, 1, false),
        &mut sinks(),
    );
    let mut busy = plan(2, 1, false);
    (busy.work.ns, busy.work.reads, busy.work.writes, busy.work.memory) = (2_000, 3, 3, 4096);
    let ends = [null(1, 1000, &[60]), null(1, 300, &[1514])];
    let worked = run_forward(&ends, &busy, &mut sinks());
    for summary in [moved, copied, worked].map(|done| done.expect("a run")) {
        assert_eq!(port(&summary, 0), (1000, 300, vec![]));
        assert_eq!(port(&summary, 1), (300, 1000, vec![]));
        assert_eq!(
            (summary.ports[0].rx_bytes, summary.ports[1].rx_bytes),
            (60_000, 300 * 1514)
        );
        assert_eq!((summary.rx, summary.tx, summary.lost), (1300, 1300, 0));
        assert!(summary.valid, "{:?}", summary.invalid_reasons);
        assert!(
            summary.lanes[0]
                .busy_ratio
                .is_some_and(|busy| (0.0..=1.0).contains(&busy))
        );
        let lane = &summary.lanes[0];
        let seconds = lane.busy_ns.expect("a lane's time") as f64 / 1e9;
        let rates = lane.at_full_load().expect("it moved packets");
        for (rate, packets) in rates.into_iter().zip([lane.rx_packets, lane.tx_packets]) {
            assert!(
                (rate * seconds - packets as f64).abs() < 1e-6,
                "{rates:?} in {seconds} s"
            );
        }
    }
}

#[test]
fn what_goes_into_a_loop_comes_back_through_two_copies() {
    let summary = run_forward_pair(
        (&null(1, 500, &[60, 61, 1514]), &echo()),
        &plan(2, 1, false),
        &mut sinks(),
    )
    .expect("a run");
    assert_eq!(port(&summary, 0), (500, 500, vec![]));
    assert_eq!(port(&summary, 1), (500, 500, vec![]));
    assert_eq!(summary.ports[0].rx_bytes, summary.ports[1].rx_bytes);
}

#[test]
fn each_of_split_directions_has_lanes_of_its_own() {
    let ends = [null(4, 100, &[60]), null(4, 7, &[60])];
    let summary = run_forward(&ends, &plan(2, 4, true), &mut sinks()).expect("a run");
    // Lanes 0 and 2 receive on the first port, 1 and 3 on the second.
    assert_eq!(port(&summary, 0), (200, 14, vec![]));
    assert_eq!(port(&summary, 1), (14, 200, vec![]));
    let by_lane: Vec<_> = summary.lanes.iter().map(|lane| lane.rx_packets).collect();
    assert_eq!(by_lane, [100, 7, 100, 7]);
}

#[test]
fn frames_that_can_not_go_are_counted_where_they_ended() {
    // 14 bytes are an Ethernet header, 13 none; the second port carries 114.
    let small = NullConfig {
        mtu: 100,
        ..NullConfig::default()
    };
    let lengths: &[usize] = &[13, 14, 114, 115];
    let end = |config: NullConfig, left| {
        NullPort::new(config, 1, [2, 0, 0, 0, 0, 1], move |_: usize| Frames { left, lengths })
    };
    for copied in [false, true] {
        let ends = [end(NullConfig::default(), 400), end(small.clone(), 0)];
        let plan = plan(2, 1, false);
        let summary = match copied {
            false => run_forward(&ends, &plan, &mut sinks()),
            true => run_forward_pair((&ends[0], &ends[1]), &plan, &mut sinks()),
        }
        .expect("a run");
        assert_eq!(port(&summary, 0), (400, 0, vec![("short", 100)]));
        assert_eq!(port(&summary, 1), (0, 200, vec![("too_long", 100)]));
        assert_eq!((summary.rx, summary.tx, summary.lost), (400, 200, 200));
    }
    let mut none = plan(1, 1, false);
    none.ports[0].take = TakeFilter::Udp { ip: None, ports: None };
    let summary = run_forward(&[null(1, 50, &[60])], &none, &mut sinks()).expect("a run");
    assert_eq!(port(&summary, 0), (0, 0, vec![("not_taken", 50)]));
    assert_eq!(summary.rx, 0);
}

#[test]
fn ports_form_pairs_in_their_order_and_an_odd_one_sends_back() {
    let counts = [100, 20, 3, 4, 50];
    for ports in 1..=5 {
        let ends: Vec<_> = counts[..ports].iter().map(|&n| null(1, n, &[60])).collect();
        let lanes = ports.div_ceil(2);
        let summary = run_forward(&ends, &plan(ports, lanes, false), &mut sinks()).expect("a run");
        assert_eq!(summary.ports.len(), ports);
        for place in 0..ports {
            let other = if place ^ 1 < ports { place ^ 1 } else { place };
            let want = (counts[place], counts[other], vec![]);
            assert_eq!(port(&summary, place), want, "port {place} of {ports}");
        }
        let all: u64 = counts[..ports].iter().sum();
        assert_eq!((summary.rx, summary.tx, summary.lost), (all, all, 0));
        // Each lane serves one pair, by its first queue.
        let by_lane: Vec<_> = summary.lanes.iter().map(|l| (l.rx_packets, l.queue)).collect();
        let want: Vec<_> = counts[..ports].chunks(2).map(|pair| (pair.iter().sum(), 0)).collect();
        assert_eq!(by_lane, want);
    }
}

#[test]
fn each_pair_has_lanes_of_its_own_and_what_it_drops_is_told_at_its_ports() {
    // Two lanes a direction: lanes 0 to 3 serve the first pair, 4 to 7 the second, 8 and 9 the odd port.
    let ends: Vec<_> = [(4, 1), (4, 10), (4, 100), (4, 1000), (2, 7)]
        .into_iter()
        .map(|(queues, frames)| null(queues, frames, if frames == 100 { &[13, 60] } else { &[60] }))
        .collect();
    let summary = run_forward(&ends, &plan(5, 10, true), &mut sinks()).expect("a run");
    let lanes: Vec<_> = summary.lanes.iter().map(|l| (l.queue, l.rx_packets)).collect();
    let pair = |there, back| [(0, there), (1, back), (2, there), (3, back)];
    let want = [&pair(1, 10)[..], &pair(100, 1000), &[(0, 7), (1, 7)]].concat();
    assert_eq!(lanes, want);
    assert_eq!(port(&summary, 0), (2, 20, vec![]));
    assert_eq!(port(&summary, 1), (20, 2, vec![]));
    assert_eq!(port(&summary, 2), (200, 2000, vec![("short", 100)]));
    assert_eq!(port(&summary, 3), (2000, 100, vec![]));
    assert_eq!(port(&summary, 4), (14, 14, vec![]));
    assert_eq!((summary.rx, summary.tx, summary.lost), (2236, 2136, 100));
}

/// Rows in which as many frames left as came.
struct Even;

impl Sink for Even {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Row(row) = event {
            assert_eq!((row.tx, row.lost), (row.rx, 0), "row {}", row.index);
        }
    }
}

/// A frame a call.
struct Single(Frames);

impl Source for Single {
    fn begin(&mut self, _room: usize) -> usize {
        1
    }

    fn fill(&mut self, frame: &mut [u8]) -> usize {
        self.0.fill(frame)
    }
}

#[test]
fn with_a_drain_time_all_is_sent_by_the_end_and_booked_to_the_row_it_came_in() {
    for drain in [Duration::from_micros(100), Duration::from_millis(10)] {
        let single = |left| {
            let frames = move |_: usize| Single(Frames { left, lengths: &[60] });
            NullPort::new(NullConfig::default(), 1, [2, 0, 0, 0, 0, 1], frames)
        };
        let mut plan = plan(3, 2, false);
        plan.drain = drain;
        plan.common.interval = Duration::from_millis(1);
        // More than can come, so that frames are held at the end.
        let ends = [single(500), single(u64::MAX), single(u64::MAX)];
        let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(Even)];
        let summary = run_forward(&ends, &plan, &mut sinks).expect("a run");
        assert!(summary.rx > 0);
        assert_eq!((summary.tx, summary.lost), (summary.rx, 0), "{drain:?}");
        let [(a, to_a, _), (b, to_b, _), (c, to_c, _)] = [0, 1, 2].map(|place| port(&summary, place));
        assert_eq!((to_a, to_b, to_c), (b, a, c), "{drain:?}");
    }
}

/// A null device that refuses to send: because it is full, down, or gone.
struct Refusing<S: Sources> {
    null: NullPort<S>,
    kind: Option<ErrorKind>,
    asked: AtomicU64,
}

struct RefusingQueue<'p, S: Source> {
    null: NullQueue<'p, S>,
    kind: Option<ErrorKind>,
    asked: &'p AtomicU64,
}

impl<S: Sources> Port for Refusing<S> {
    type Pool = <NullPort<S> as Port>::Pool;
    type Queue<'p>
        = RefusingQueue<'p, S::Source>
    where
        Self: 'p;

    fn capabilities(&self) -> &Capabilities {
        self.null.capabilities()
    }

    fn pool(&self, queue: usize) -> Result<Self::Pool> {
        self.null.pool(queue)
    }

    fn queue<'p>(&'p self, queue: usize, pool: &'p Self::Pool) -> Result<Self::Queue<'p>> {
        Ok(RefusingQueue {
            null: self.null.queue(queue, pool)?,
            kind: self.kind,
            asked: &self.asked,
        })
    }

    fn counters(&self, queue: usize) -> QueueCounters {
        self.null.counters(queue)
    }

    fn facts(&self) -> Vec<Fact> {
        self.null.facts()
    }
}

impl<'p, S: Source> Queue for RefusingQueue<'p, S> {
    type Frame = <NullQueue<'p, S> as Queue>::Frame;

    fn receive(&mut self, burst: &mut Burst<Self::Frame>) -> Result<usize> {
        self.null.receive(burst)
    }

    fn allocate(&mut self, burst: &mut Burst<Self::Frame>, n: usize) -> Result<usize> {
        self.null.allocate(burst, n)
    }

    fn transmit(&mut self, _: &mut Burst<Self::Frame>) -> Result<usize> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match self.kind {
            None => Ok(0),
            Some(kind) => Err(Error::new("send on", "a port of a test", "it does not", kind)),
        }
    }

    fn wait(&mut self, what: Wait, timeout: Duration) -> Result<()> {
        self.null.wait(what, timeout)
    }
}

#[test]
fn a_port_that_does_not_send_costs_the_frames_for_it_by_reason() {
    for (kind, reason, ended) in [
        (None, "tx_full", false),
        (Some(ErrorKind::LinkDown), "port_down", false),
        (Some(ErrorKind::Gone), "port_down", true),
    ] {
        let refusing = Refusing {
            null: null(1, 20, &[60]),
            kind,
            asked: AtomicU64::new(0),
        };
        let summary =
            run_forward_pair((&null(1, 64, &[60]), &refusing), &plan(2, 1, false), &mut sinks()).expect("a run");
        assert!(refusing.asked.load(Ordering::Relaxed) > 0);
        let (back, sent, reasons) = port(&summary, 1);
        assert_eq!(sent, 0, "{kind:?}");
        assert_eq!(summary.valid, !ended, "{kind:?} {:?}", summary.invalid_reasons);
        let (came, went, _) = port(&summary, 0);
        assert_eq!(reasons, [(reason, came)], "{kind:?}");
        // The way back goes on, unless the run has ended.
        assert_eq!(went, back, "{kind:?}");
        if !ended {
            assert_eq!((came, back), (64, 20), "{kind:?}");
        }
    }
}

#[test]
fn pairs_of_ports_that_share_no_packet_memory_copy_and_count_each_for_itself() {
    let end = |left| Refusing {
        null: null(1, left, &[60]),
        kind: None,
        asked: AtomicU64::new(0),
    };
    let ends = [end(32), end(20), end(5)];
    let summary = run_forward(&ends, &plan(3, 2, false), &mut sinks()).expect("a run");
    let came = [0, 1, 2].map(|place| port(&summary, place).0);
    assert!(came[0] > 0 && came[2] > 0, "{came:?}");
    for (place, from) in [(0, 1), (1, 0), (2, 2)] {
        let (_, sent, reasons) = port(&summary, place);
        let want: Vec<_> = [("tx_full", came[from])].into_iter().filter(|(_, n)| *n > 0).collect();
        assert_eq!((sent, reasons), (0, want), "port {place}");
    }
}
