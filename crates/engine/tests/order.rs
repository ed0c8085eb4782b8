//! Which packets a lane sends, in which order: flow by flow, each with its own ports, addresses and sequence numbers,
//! wherever a burst ends, with a schedule and without.

mod plans;

use mpps_engine::{Common, FlowSet, LanePlan, Rate, Step, TrafficPlan, run_traffic};
use mpps_io::null::{NullConfig, NullPort};
use mpps_io::{Burst, Capabilities, Fact, Frame, Port, Queue, QueueCounters, Result, Wait, addresses};
use mpps_wire::{Stamp, check_udp};
use plans::traffic;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SEED: u64 = 7;
/// Bursts that are looked at, of each lane: several times through all flows.
const BURSTS: usize = 80;
const LANES: u32 = 2;

/// A burst as it was sent: the flow that the path was told, and the bytes, of each frame.
type Sent = Vec<(Option<u32>, Vec<u8>)>;

/// A port that keeps the first bursts of each of its queues.
struct Watched {
    port: NullPort,
    capabilities: Capabilities,
    sent: Vec<Mutex<Vec<Sent>>>,
    /// Queues that have kept all.
    full: AtomicUsize,
}

impl Watched {
    fn new(one_flow_per_burst: bool) -> Self {
        let port = NullPort::new(
            NullConfig::default(),
            LANES as usize,
            [2, 0, 0, 0, 0, 1],
            mpps_io::null::NoSource,
        );
        Self {
            capabilities: Capabilities {
                one_flow_per_burst,
                ..port.capabilities().clone()
            },
            port,
            sent: (0..LANES).map(|_| Mutex::default()).collect(),
            full: AtomicUsize::new(0),
        }
    }
}

struct WatchedQueue<'p, Q> {
    queue: Q,
    sent: &'p Mutex<Vec<Sent>>,
    full: &'p AtomicUsize,
}

impl Port for Watched {
    type Pool = <NullPort as Port>::Pool;
    type Queue<'p> = WatchedQueue<'p, <NullPort as Port>::Queue<'p>>;

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn pool(&self, queue: usize) -> Result<Self::Pool> {
        self.port.pool(queue)
    }

    fn queue<'p>(&'p self, queue: usize, pool: &'p Self::Pool) -> Result<Self::Queue<'p>> {
        Ok(WatchedQueue {
            queue: self.port.queue(queue, pool)?,
            sent: &self.sent[queue],
            full: &self.full,
        })
    }

    fn counters(&self, queue: usize) -> QueueCounters {
        self.port.counters(queue)
    }

    fn facts(&self) -> Vec<Fact> {
        self.port.facts()
    }
}

impl<Q: Queue> Queue for WatchedQueue<'_, Q> {
    type Frame = Q::Frame;

    fn receive(&mut self, burst: &mut Burst<Q::Frame>) -> Result<usize> {
        self.queue.receive(burst)
    }

    fn allocate(&mut self, burst: &mut Burst<Q::Frame>, n: usize) -> Result<usize> {
        self.queue.allocate(burst, n)
    }

    fn transmit(&mut self, burst: &mut Burst<Q::Frame>) -> Result<usize> {
        let mut sent = self.sent.lock().unwrap();
        if sent.len() < BURSTS {
            let frames = burst.as_slice().iter();
            sent.push(frames.map(|frame| (frame.flow(), frame.bytes().to_vec())).collect());
            self.full
                .fetch_add(usize::from(sent.len() == BURSTS), Ordering::Relaxed);
        }
        self.queue.transmit(burst)
    }

    fn wait(&mut self, what: Wait, timeout: Duration) -> Result<()> {
        self.queue.wait(what, timeout)
    }
}

/// Sends these flows until enough has been seen.
fn watch(port: &Watched, flows: FlowSet, rate: Option<Rate>) -> TrafficPlan {
    let plan = TrafficPlan {
        receive: false,
        flows,
        rate,
        // So long a run goes on after its end.
        catch_up: Duration::from_millis(10),
        ..traffic(Common {
            lanes: vec![
                LanePlan {
                    rx: false,
                    ..LanePlan::BOTH
                };
                LANES as usize
            ],
            share_cores: true,
            seed: SEED,
            ..Common::default()
        })
    };
    let enough = || u32::from(port.full.load(Ordering::Relaxed) == LANES as usize);
    run_traffic(&[port], &plan, &mut [], &enough).unwrap();
    plan
}

#[test]
fn flows_leave_in_turn_each_with_its_own_ports_addresses_and_numbers() {
    for (ports, pairs, step) in [
        // One, two and three flows a lane; as many as a burst has packets, and more.
        (2, (1, 1), Step::Combine),
        (3, (1, 1), Step::Combine),
        (7, (1, 1), Step::Combine),
        (64, (1, 1), Step::Combine),
        (67, (1, 1), Step::Combine),
        // Addresses that vary.
        (3, (2, 3), Step::Combine),
        (35, (7, 5), Step::Together),
    ] {
        let flows = FlowSet::of(10_000..=9_999 + ports, 9000..=9000, pairs, step, None);
        for (one_flow_per_burst, rate) in [
            (false, None),
            (true, None),
            (false, Rate::new(10_000_000_000, 1)),
            (true, Rate::new(10_000_000_000, 1)),
        ] {
            let port = Watched::new(one_flow_per_burst);
            let plan = watch(&port, flows.clone(), rate);
            for (lane, bursts) in (0..).zip(&port.sent) {
                let own = flows.count_of_lane(lane, LANES);
                let mut numbers = vec![0; own as usize];
                let mut turn = 0;
                let bursts = bursts.lock().unwrap();
                // More is due than a burst takes, with a schedule as well.
                assert!(bursts.len() == BURSTS && bursts.iter().any(|burst| burst.len() == 32));
                for burst in bursts.iter() {
                    for (told, bytes) in burst {
                        let flow = lane + turn * LANES;
                        let about = format!("flow {flow} of {flows:?}, by burst {one_flow_per_burst}, {rate:?}");
                        let packet = check_udp(bytes, SEED, true).unwrap();
                        assert!(packet.checksum_ok && packet.data_ok, "{about}");
                        let (src, dst) = flows.addresses(flow);
                        let seq = &mut numbers[turn as usize];
                        assert_eq!(*told, Some(flow), "{about}");
                        assert_eq!(
                            (packet.packet.src_port, packet.packet.dst_port),
                            flows.ports(flow),
                            "{about}"
                        );
                        assert_eq!(packet.packet.src_ip(bytes), addresses::at(plan.src, src), "{about}");
                        assert_eq!(packet.packet.dst_ip(bytes), addresses::at(plan.dst, dst), "{about}");
                        assert_eq!(packet.stamp.map(|Stamp { seq, .. }| seq), Some(*seq), "{about}");
                        *seq += 1;
                        if !one_flow_per_burst {
                            turn = (turn + 1) % own;
                        }
                    }
                    if one_flow_per_burst {
                        turn = (turn + 1) % own;
                    }
                }
            }
        }
    }
}
