//! A port with a full ring: with [`OnFull::Drop`] each packet was sent or is counted as dropped, by reason, by lane, in
//! the totals and in what is told of the lanes, and no lane has waited.

mod forwards;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use forwards::{run_forward, run_forward_pair};
use mpps_engine::{Common, ForwardPlan, ForwardPort, LanePlan, OnFull, ReflectPlan, Work, run_reflect};
use mpps_io::null::{NullConfig, NullPort, NullQueue, Source, Sources};
use mpps_io::{Burst, Capabilities, Fact, Port, Queue, QueueCounters, Result, Wait};
use mpps_stats::{Event, LiveLane, Sink, Summary};
use mpps_wire::{ChecksumMode, MacAddr, ReflectFilter, Rewrite, Stamp, TakeFilter, Template, TemplateSpec};

/// So many UDP packets.
struct Packets {
    left: u64,
    frame: Vec<u8>,
}

impl Source for Packets {
    fn fill(&mut self, frame: &mut [u8]) -> usize {
        if self.left == 0 {
            return 0;
        }
        self.left -= 1;
        let len = self.frame.len();
        frame[..len].copy_from_slice(&self.frame);
        len
    }
}

fn packet() -> Vec<u8> {
    let spec = TemplateSpec {
        src_mac: MacAddr([2, 0, 0, 0, 0, 9]),
        dst_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        vlan: None,
        src: [10, 9, 0, 1].into(),
        dst: [10, 9, 0, 2].into(),
        payload_len: 18,
        ttl: 64,
        dscp: 0,
        seed: 1,
        checksum: ChecksumMode::Software,
    };
    let template = Template::new(&spec).expect("a template");
    let mut frame = vec![0; template.frame_len()];
    template.write(&mut frame, 10_000, 9_000, Stamp { seq: 0, time_ns: 0 });
    frame
}

/// A null device that takes at most so many frames of a call.
struct Narrow<S: Sources> {
    null: NullPort<S>,
    most: usize,
}

struct NarrowQueue<'p, S: Source> {
    null: NullQueue<'p, S>,
    most: usize,
}

impl<S: Sources> Port for Narrow<S> {
    type Pool = <NullPort<S> as Port>::Pool;
    type Queue<'p>
        = NarrowQueue<'p, S::Source>
    where
        Self: 'p;

    fn capabilities(&self) -> &Capabilities {
        self.null.capabilities()
    }

    fn pool(&self, queue: usize) -> Result<Self::Pool> {
        self.null.pool(queue)
    }

    fn queue<'p>(&'p self, queue: usize, pool: &'p Self::Pool) -> Result<Self::Queue<'p>> {
        Ok(NarrowQueue {
            null: self.null.queue(queue, pool)?,
            most: self.most,
        })
    }

    fn counters(&self, queue: usize) -> QueueCounters {
        self.null.counters(queue)
    }

    fn facts(&self) -> Vec<Fact> {
        self.null.facts()
    }
}

impl<'p, S: Source> Queue for NarrowQueue<'p, S> {
    type Frame = <NullQueue<'p, S> as Queue>::Frame;

    fn receive(&mut self, burst: &mut Burst<Self::Frame>) -> Result<usize> {
        self.null.receive(burst)
    }

    fn allocate(&mut self, burst: &mut Burst<Self::Frame>, n: usize) -> Result<usize> {
        self.null.allocate(burst, n)
    }

    fn transmit(&mut self, burst: &mut Burst<Self::Frame>) -> Result<usize> {
        let taken = burst.len().min(self.most);
        drop(burst.drain(taken));
        Ok(taken)
    }

    fn wait(&mut self, what: Wait, timeout: Duration) -> Result<()> {
        self.null.wait(what, timeout)
    }
}

fn narrow(left: u64, most: usize) -> Narrow<impl Sources> {
    let packets = move |_: usize| Packets { left, frame: packet() };
    Narrow {
        null: NullPort::new(NullConfig::default(), 1, [2, 0, 0, 0, 0, 1], packets),
        most,
    }
}

fn common() -> Common {
    Common {
        lanes: vec![LanePlan::BOTH],
        // So long that all has come on a host that is busy.
        duration: Some(Duration::from_millis(400)),
        interval: Duration::from_millis(5),
        share_cores: true,
        ..Common::default()
    }
}

/// What was told of the lanes last, and how often.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<(Vec<LiveLane>, usize)>>);

impl Sink for Told {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Lanes(so_far) = event {
            let mut told = self.0.lock().expect("no panic");
            *told = (so_far.lanes.to_vec(), told.1 + 1);
        }
    }
}

/// Runs `run`, and expects each packet to be sent or counted; returns how many were dropped for want of room.
fn dropped(run: impl FnOnce(&mut [Box<dyn Sink>]) -> Summary) -> u64 {
    let told = Told::default();
    let summary = run(&mut [Box::new(told.clone())]);
    let of = |reasons: &[(String, u64)]| reasons.iter().map(|(_, n)| n).sum::<u64>();
    let full = |reasons: &[(String, u64)]| {
        let full = reasons.iter().find(|(name, _)| name == "tx_full");
        full.map_or(0, |(_, n)| *n)
    };
    assert!(summary.valid, "{:?}", summary.invalid_reasons);
    assert_eq!(summary.rx, summary.tx + full(&summary.reasons), "{:?}", summary.reasons);
    assert_eq!(of(&summary.reasons), full(&summary.reasons), "{:?}", summary.reasons);
    let lane = &summary.lanes[0];
    assert_eq!(lane.reasons, summary.reasons);
    let (lanes, times) = told.0.lock().expect("no panic").clone();
    let counted = [lanes[0].rx_packets, lanes[0].tx_packets, lanes[0].tx_given_up];
    assert_eq!(counted, [lane.rx_packets, lane.tx_packets, full(&summary.reasons)]);
    assert_eq!(
        (lanes[0].rx_bursts, lanes[0].rx_empty_polls),
        (lane.rx_bursts, lane.rx_empty_polls)
    );
    assert!(times >= 2, "as rows end, and at the end: {times}");
    assert!(lanes[0].busy_ns > 0 && lanes[0].busy_ns <= lanes[0].loop_ns);
    full(&summary.reasons)
}

fn waited(summary: &Summary) -> u64 {
    summary.lanes.iter().filter_map(|lane| lane.blocked_ns).sum()
}

#[test]
fn a_forwarder_drops_what_a_port_does_not_take_at_once() {
    let port = |name: &str| ForwardPort {
        name: name.to_owned(),
        take: TakeFilter::All,
        rewrite: Rewrite::MacSwap,
    };
    let plan = |ports: usize| ForwardPlan {
        common: common(),
        ports: vec![port("a"); ports],
        split_directions: false,
        drain: Duration::ZERO,
        on_full: OnFull::Drop,
        work: Work::default(),
    };
    // Bursts of 32, of which 20 go.
    let alone = dropped(|sinks| {
        let summary = run_forward(&[narrow(3200, 20)], &plan(1), sinks).expect("a run");
        assert_eq!((summary.rx, waited(&summary)), (3200, 0));
        summary
    });
    assert_eq!(alone, 1200);
    let both = dropped(|sinks| {
        let ends = (&narrow(3200, 32), &narrow(640, 0));
        let summary = run_forward_pair(ends, &plan(2), sinks).expect("a run");
        assert_eq!((summary.rx, waited(&summary)), (3840, 0));
        summary
    });
    assert_eq!(both, 3200);
}

#[test]
fn a_reflector_drops_what_the_port_does_not_take_at_once() {
    let reflect = |most: usize, on_full: OnFull, left: u64| {
        dropped(|sinks| {
            let plan = ReflectPlan {
                common: common(),
                // Packets that are alike get no probes.
                filter: ReflectFilter {
                    keep_ttl: true,
                    ..ReflectFilter::default()
                },
                link: None,
                on_full,
            };
            let summary = run_reflect(&narrow(left, most), &plan, sinks, &|| 0).expect("a run");
            assert_eq!(summary.rx, left);
            assert_eq!(waited(&summary) > 0, on_full == OnFull::Wait && most == 0);
            summary
        })
    };
    assert_eq!(reflect(20, OnFull::Drop, 3200), 1200);
    assert_eq!(reflect(0, OnFull::Drop, 3200), 3200);
    // One that waits gets all out that is taken bit by bit, and waits 10 ms for a port that takes nothing.
    assert_eq!(reflect(20, OnFull::Wait, 3200), 0);
    assert_eq!(reflect(0, OnFull::Wait, 64), 64);
}
