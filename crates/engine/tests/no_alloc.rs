//! Nothing on the packet path allocates.
//!
//! Nor does the collector, which as a rule shares a lane's core, where nobody wants what it could work out.
//!
//! A port around the real one raises the flag when the lane's
//! loop first moves packets, and lowers it when the lane gives its queue back. What is counted in between may be a few
//! things that a lane makes once, but must not grow with the packets or with the time.

mod counting;
mod forwards;
mod plans;

use std::cell::Cell;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use counting::{ALLOCATIONS, ON_PACKET_PATH};
use forwards::{run_forward, run_forward_pair};
use mpps_engine::source::{SourceTemplate, TestSource};
use mpps_engine::{
    CapturePlan, Common, DropPlan, ForwardPlan, ForwardPort, LanePlan, OnFull, Packets, Rate, ReflectPlan,
    SampleOptions, TraceOptions, TrafficPlan, Work, run_capture, run_drop, run_reflect, run_traffic,
};
use mpps_io::loopback::{LoopConfig, LoopPort};
use mpps_io::null::{NoSource, NullConfig, NullPort, Source};
use mpps_io::packet_ring::packet_ring;
use mpps_io::{Burst, Capabilities, Fact, Port, Queue, QueueCounters, Result, RoomUnit, RxRoom, Wait};
use mpps_stats::{Event, Sink, Summary, Wants};
use mpps_sys::clock::{ClockSource, monotonic_ns};
use mpps_traffic::Traffic;
use mpps_wire::image::{Image, Place};
use mpps_wire::{
    CaptureFilter, ChecksumMode, MacAddr, ReflectFilter, Rewrite, TakeFilter, Template, TemplateSpec, reflect_in_place,
};

/// A port whose lanes are watched.
struct Watched<P>(P);

/// A queue that raises the flag once it has moved packets, and lowers it in the end.
struct WatchedQueue<Q>(Q);

impl<P: Port> Port for Watched<P> {
    type Pool = P::Pool;
    type Queue<'p>
        = WatchedQueue<P::Queue<'p>>
    where
        Self: 'p;

    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }

    fn pool(&self, queue: usize) -> Result<P::Pool> {
        self.0.pool(queue)
    }

    fn queue<'p>(&'p self, queue: usize, pool: &'p P::Pool) -> Result<Self::Queue<'p>> {
        self.0.queue(queue, pool).map(WatchedQueue)
    }

    fn shares_pools_with(&self, other: &Self) -> bool {
        self.0.shares_pools_with(&other.0)
    }

    fn counters(&self, queue: usize) -> QueueCounters {
        self.0.counters(queue)
    }

    fn facts(&self) -> Vec<Fact> {
        self.0.facts()
    }
}

impl<Q: Queue> Queue for WatchedQueue<Q> {
    type Frame = Q::Frame;

    fn receive(&mut self, burst: &mut Burst<Q::Frame>) -> Result<usize> {
        let received = self.0.receive(burst);
        if received.as_ref().is_ok_and(|n| *n > 0) {
            ON_PACKET_PATH.with(|flag| flag.set(true));
        }
        received
    }

    fn allocate(&mut self, burst: &mut Burst<Q::Frame>, n: usize) -> Result<usize> {
        ON_PACKET_PATH.with(|flag| flag.set(true));
        self.0.allocate(burst, n)
    }

    fn transmit(&mut self, burst: &mut Burst<Q::Frame>) -> Result<usize> {
        self.0.transmit(burst)
    }

    fn rx_room(&self) -> Option<RxRoom> {
        Some(RxRoom {
            size: 512,
            count: 1,
            unit: RoomUnit::Bytes,
            every: Duration::from_micros(20),
        })
    }

    fn rx_fill(&mut self) -> Option<u64> {
        Some(128)
    }

    fn flush(&mut self) -> Result<()> {
        self.0.flush()
    }

    fn wait(&mut self, what: Wait, timeout: Duration) -> Result<()> {
        self.0.wait(what, timeout)
    }
}

impl<Q> Drop for WatchedQueue<Q> {
    fn drop(&mut self) {
        ON_PACKET_PATH.with(|flag| flag.set(false));
    }
}

struct NoSink;

impl Sink for NoSink {
    fn event(&mut self, _: &Event<'_>) {}
}

fn sinks() -> Vec<Box<dyn Sink>> {
    vec![Box::new(NoSink)]
}

fn common(lanes: usize, milliseconds: u64) -> Common {
    Common {
        lanes: vec![LanePlan::BOTH; lanes],
        duration: Some(Duration::from_millis(milliseconds)),
        interval: Duration::from_micros(100),
        settle: Duration::from_millis(50),
        // Each round is recorded; windows are the collector's to copy.
        trace: Some(TraceOptions {
            stall: Some(Duration::from_micros(50)),
            late: Some(Duration::from_micros(50)),
            ring_bytes: 1 << 20,
            ..TraceOptions::default()
        }),
        // Nobody empties the rings: they are full soon, which costs no more.
        sample: Some(SampleOptions {
            every: 3,
            snap_len: 128,
            rings: (0..lanes).map(|_| Mutex::new(Some(packet_ring(1 << 16).0))).collect(),
        }),
        ..Common::default()
    }
}

const ADDRESSES: [IpAddr; 2] = [
    IpAddr::V4(std::net::Ipv4Addr::new(10, 99, 0, 1)),
    IpAddr::V4(std::net::Ipv4Addr::new(10, 99, 0, 2)),
];

fn traffic(lanes: usize, milliseconds: u64, receive: bool, rate: Option<Rate>) -> TrafficPlan {
    TrafficPlan {
        receive,
        rate,
        catch_up: Duration::from_millis(1),
        ..plans::traffic(common(lanes, milliseconds))
    }
}

fn faulty_loop(lanes: usize) -> impl Port {
    let config = LoopConfig {
        delay_ns: 100_000,
        loss: 0.01,
        duplicate: 0.01,
        reorder: 0.01,
        corrupt: 0.01,
        ..LoopConfig::default()
    };
    let filter = ReflectFilter::default();
    Watched(LoopPort::new(config, lanes, monotonic_ns, move |frame: &mut [u8]| {
        reflect_in_place(frame, &filter, false).is_ok()
    }))
}

fn sources(_: usize) -> TestSource {
    let template = Template::new(&TemplateSpec {
        src_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        dst_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        vlan: None,
        src: ADDRESSES[1],
        dst: ADDRESSES[0],
        payload_len: 18,
        ttl: 64,
        dscp: 0,
        seed: 1,
        checksum: ChecksumMode::Software,
    })
    .expect("addresses of one family");
    TestSource::new(
        SourceTemplate::Frame(Box::new(template)),
        ClockSource::new().clock(),
        10_000,
        64,
    )
}

/// Runs must not overlap: the count is the whole process's.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs the workload for a short and for a long time, and compares what the lanes allocated.
fn assert_no_growth(what: &str, run: impl Fn(u64) -> Summary) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let measure = |milliseconds| {
        ALLOCATIONS.store(0, Ordering::Relaxed);
        let summary = run(milliseconds);
        let packets = summary
            .lanes
            .iter()
            .map(|lane| lane.rx_packets + lane.tx_packets)
            .sum::<u64>();
        (ALLOCATIONS.load(Ordering::Relaxed), packets)
    };
    // Lanes that were kept from their cores for most of a run tell nothing: they get another, for longer.
    let told = [1, 4, 16].into_iter().find_map(|times| {
        let [(few, little), (many, much)] = [measure(60 * times), measure(360 * times)];
        println!("{what}: {few} allocations for {little} packets, {many} for {much}");
        (little > 100 && much > little).then_some([(few, little), (many, much)])
    });
    let [(few, little), (many, much)] = told.unwrap_or_else(|| panic!("{what}: the runs tell nothing"));
    // What lanes make once as they end (lists of reasons, a note) is the same for both, but for reasons that only the
    // longer run has met.
    assert!(
        many <= few + 16,
        "{what}: {few} allocations for {little} packets, {many} for {much}"
    );
    assert!(many < 200, "{what}: {many} allocations");
}

#[test]
fn lanes_that_send_allocate_nothing_for_a_packet() {
    let port = || Watched(NullPort::new(NullConfig::default(), 2, [2, 0, 0, 0, 0, 1], NoSource));
    assert_no_growth("send, unpaced", |ms| {
        run_traffic(&[&port()], &traffic(2, ms, false, None), &mut sinks(), &|| 0).expect("a run")
    });
    assert_no_growth("send, paced", |ms| {
        run_traffic(
            &[&port()],
            &traffic(2, ms, false, Rate::new(50_000, 1)),
            &mut sinks(),
            &|| 0,
        )
        .expect("a run")
    });
}

#[test]
fn lanes_that_send_and_receive_through_every_fault_allocate_nothing_for_a_packet() {
    assert_no_growth("sendrecv, unpaced", |ms| {
        run_traffic(&[&faulty_loop(1)], &traffic(1, ms, true, None), &mut sinks(), &|| 0).expect("a run")
    });
    assert_no_growth("sendrecv, paced", |ms| {
        let plan = traffic(2, ms, true, Rate::new(50_000, 1));
        run_traffic(&[&faulty_loop(2)], &plan, &mut sinks(), &|| 0).expect("a run")
    });
}

#[test]
fn lanes_that_receive_or_reflect_allocate_nothing_for_a_packet() {
    let port = || Watched(NullPort::new(NullConfig::default(), 1, [2, 0, 0, 0, 0, 1], sources));
    assert_no_growth("drop", |ms| {
        let plan = DropPlan {
            common: common(1, ms),
            ip: None,
            ports: None,
            excluded_ports: Box::default(),
            verify: true,
            tagged: None,
            streams: None,
            max_flows: 4096,
            link: Some(plans::link()),
        };
        run_drop(&port(), &plan, &mut sinks(), &|| 0).expect("a run")
    });
    assert_no_growth("reflect", |ms| {
        let plan = ReflectPlan {
            common: common(1, ms),
            filter: ReflectFilter::default(),
            link: Some(plans::link()),
            on_full: OnFull::Wait,
        };
        run_reflect(&port(), &plan, &mut sinks(), &|| 0).expect("a run")
    });
    assert_no_growth("reflect, all left alone", |ms| {
        let filter = ReflectFilter {
            ports: Some(1..=1),
            ..ReflectFilter::default()
        };
        let plan = ReflectPlan {
            common: common(1, ms),
            filter,
            link: Some(plans::link()),
            on_full: OnFull::Wait,
        };
        run_reflect(&port(), &plan, &mut sinks(), &|| 0).expect("a run")
    });
}

/// Writes tagged packets that are no UDP, with the clock's time.
struct TaggedSource {
    image: Image,
    number: u64,
}

impl Source for TaggedSource {
    fn fill(&mut self, frame: &mut [u8]) -> usize {
        let (len, place) = (
            self.image.frame_len(),
            Place {
                flow: 0,
                number: self.number,
            },
        );
        self.image.write(&mut frame[..len], place, monotonic_ns());
        self.number += 1;
        len
    }
}

#[test]
fn lanes_that_know_packets_by_their_tag_allocate_nothing_for_a_packet() {
    let text = "[[stream]]\npacket = 'eth / ipv4 / tcp'\nsize = '128'\n";
    let forms = Traffic::parse(text, &[]).expect("traffic").forms(1).expect("a form");
    let image = forms[0].image(128, 7).expect("an image");
    let port = || {
        let image = image.clone();
        let source = move |_: usize| TaggedSource {
            image: image.clone(),
            number: 0,
        };
        Watched(NullPort::new(NullConfig::default(), 1, [2, 0, 0, 0, 0, 1], source))
    };
    let by_tag = |ms| DropPlan {
        common: common(1, ms),
        ip: None,
        ports: None,
        excluded_ports: Box::default(),
        verify: true,
        tagged: Some(0),
        streams: None,
        max_flows: 4096,
        link: Some(plans::link()),
    };
    assert_no_growth("drop by tag", |ms| {
        run_drop(&port(), &by_tag(ms), &mut sinks(), &|| 0).expect("a run")
    });
    let streams = Arc::new(Packets {
        streams: vec![plans::stream(&forms[0], "syn", Some("load"))],
        stripped: [false; 2],
        turned: false,
        hops: Vec::new(),
    });
    assert_no_growth("drop by stream", |ms| {
        let plan = DropPlan {
            streams: Some(Arc::clone(&streams)),
            ..by_tag(ms)
        };
        run_drop(&port(), &plan, &mut sinks(), &|| 0).expect("a run")
    });
    assert_no_growth("reflect by tag", |ms| {
        let plan = ReflectPlan {
            common: common(1, ms),
            filter: ReflectFilter {
                tagged: Some(1),
                ..ReflectFilter::default()
            },
            link: Some(plans::link()),
            on_full: OnFull::Wait,
        };
        run_reflect(&port(), &plan, &mut sinks(), &|| 0).expect("a run")
    });
}

#[test]
fn lanes_that_capture_allocate_nothing_for_a_packet_whether_the_ring_has_room_or_not() {
    let port = || Watched(NullPort::new(NullConfig::default(), 1, [2, 0, 0, 0, 0, 1], sources));
    for drained in [true, false] {
        assert_no_growth(&format!("capture, ring drained: {drained}"), |ms| {
            let (producer, mut consumer) = packet_ring(1 << 16);
            let plan = CapturePlan {
                common: common(1, ms),
                filter: CaptureFilter {
                    ports: Some(9000..=9000),
                    ..CaptureFilter::default()
                },
                snap_len: 50,
                count: None,
                rings: vec![Mutex::new(Some(producer))],
            };
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    let mut bytes = Vec::new();
                    while !consumer.closed() {
                        while drained && consumer.pop(&mut bytes).is_some() {}
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
                run_capture(&port(), &plan, &mut sinks(), &|| 0, |_, capture| {
                    capture.written = capture.taken - capture.dropped_ring;
                })
                .expect("a run")
            })
        });
    }
}

fn forwarding(ports: usize, milliseconds: u64, take: TakeFilter) -> ForwardPlan {
    let port = ForwardPort {
        name: "port".to_owned(),
        take,
        rewrite: Rewrite::FiveTupleSwap,
    };
    ForwardPlan {
        common: common(1, milliseconds),
        ports: vec![port; ports],
        split_directions: false,
        drain: Duration::ZERO,
        on_full: OnFull::Wait,
        work: Work::default(),
    }
}

#[test]
fn lanes_that_forward_allocate_nothing_for_a_frame_moved_copied_or_left() {
    let null = || Watched(NullPort::new(NullConfig::default(), 1, [2, 0, 0, 0, 0, 1], sources));
    assert_no_growth("forward, one port", |ms| {
        let plan = forwarding(1, ms, TakeFilter::All);
        run_forward(&[null()], &plan, &mut sinks()).expect("a run")
    });
    assert_no_growth("forward, moved", |ms| {
        let plan = forwarding(2, ms, TakeFilter::Foreign(Box::new([[192, 0, 2, 1].into()])));
        run_forward(&[null(), null()], &plan, &mut sinks()).expect("a run")
    });
    assert_no_growth("forward, held", |ms| {
        let mut plan = forwarding(3, ms, TakeFilter::All);
        plan.common.lanes = common(2, ms).lanes;
        plan.drain = Duration::from_millis(1);
        run_forward(&[null(), null(), null()], &plan, &mut sinks()).expect("a run")
    });
    assert_no_growth("forward, with work on each frame", |ms| {
        let mut plan = forwarding(1, ms, TakeFilter::All);
        (plan.work.reads, plan.work.writes, plan.work.memory) = (1, 1, 1 << 16);
        run_forward(&[null()], &plan, &mut sinks()).expect("a run")
    });
    assert_no_growth("forward, copied", |ms| {
        let plan = forwarding(2, ms, TakeFilter::All);
        run_forward_pair((&null(), &faulty_loop(1)), &plan, &mut sinks()).expect("a run")
    });
    assert_no_growth("forward, left", |ms| {
        let none = TakeFilter::Udp {
            ip: None,
            ports: Some(1..=1),
        };
        run_forward(&[null()], &forwarding(1, ms, none), &mut sinks()).expect("a run")
    });
}

/// Wants nothing.
struct Idle;

impl Sink for Idle {
    fn wants(&self) -> Wants {
        Wants::default()
    }

    fn event(&mut self, event: &Event<'_>) {
        assert!(!matches!(event, Event::Row(_)), "a row that nobody wants");
    }
}

#[test]
fn the_collector_allocates_nothing_in_a_look_at_rows_that_nobody_wants() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let measure = |milliseconds| {
        let (looks, allocated) = (Cell::new(0u64), Cell::new(0));
        ALLOCATIONS.store(0, Ordering::Relaxed);
        // The collector asks in each of its looks; what it does after the last lane has ended comes after the last one.
        let interruptions = || {
            ON_PACKET_PATH.with(|flag| flag.set(true));
            looks.set(looks.get() + 1);
            allocated.set(ALLOCATIONS.load(Ordering::Relaxed));
            0
        };
        let port = NullPort::new(NullConfig::default(), 1, [2, 0, 0, 0, 0, 1], NoSource);
        let mut plan = traffic(1, milliseconds, false, Rate::new(50_000, 1));
        plan.common.trace = None;
        let ran = run_traffic(&[&port], &plan, &mut [Box::new(Idle) as Box<dyn Sink>], &interruptions);
        ON_PACKET_PATH.with(|flag| flag.set(false));
        assert!(ran.expect("a run").tx > 100);
        (allocated.get(), looks.get())
    };
    let told = [1, 4, 16].into_iter().find_map(|times| {
        let [(few, short), (many, long)] = [measure(60 * times), measure(600 * times)];
        println!("{few} allocations in {short} looks, {many} in {long}");
        (long > short + 10).then_some([(few, short), (many, long)])
    });
    let [(few, short), (many, long)] = told.expect("runs that tell something");
    // On a busy host a list of the times at which departures were missed grows now and then.
    let most = few + 2 + (long - short) / 8;
    assert!(many <= most, "{few} allocations in {short} looks, {many} in {long}");
}
