//! `sendrecv` over two ports: packets leave by one and are received at the other, with the device under test between
//! them.
//!
//! No device turns the packets round, so they arrive as they were sent. Each lane owns a queue of one port. One way,
//! the first lanes send by the first port, the others receive at the second. Both ways, each lane does both. It sends
//! packets of one way and receives packets of the other. The two ways have counts, rows and verdicts of their own.

use crate::error::RunError;
use crate::lane::Lane;
use crate::lane::neighbor::{Found, Neighbor};
use crate::plan::{Common, LanePlan, Link, TrafficPlan};
use crate::run::crew::{Order, run_job};
use crate::run::job::{Desk, Job, LaneWays, resolve, told, watches_of};
use crate::run::outcome::LaneOutcome;
use crate::run::solo::traffic;
use crate::run::traces::{self, Traces};
use crate::workload::forward::{in_one, join};
use crate::workload::{TrafficTrial, TrafficWork, Work, WorkFacts, send_and_take};
use mpps_io::around::Watch;
use mpps_io::{Port, QueueCounters, Result, counter};
use mpps_stats::{HostFact, Recorder, Sink, Summary};
use mpps_sys::clock::Clock;
use mpps_wire::MacAddr;
use std::net::IpAddr;
use std::sync::Arc;

/// Runs `sendrecv` from one port to another, or both ways ([`TrafficPlan::back`]). One way, sending lanes of the plan
/// have the queues of `from` in their order, receiving lanes have the queues of `to`, and no lane does both. The plan
/// says how packets leave ([`TrafficPlan::link`]) and how they arrive ([`TrafficPlan::far`]). Otherwise the run is as
/// with [`crate::run_traffic`].
///
/// # Errors
/// Returns the errors of [`crate::run_traffic`].
pub fn run_traffic_across<A: Port, B: Port>(
    from: &A,
    to: &B,
    plan: &TrafficPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> std::result::Result<Summary, RunError> {
    let work = TrafficWork { opening: plan };
    let job = Across::new(from, to, &work);
    let by_burst = [from.capabilities(), to.capabilities()].map(|port| port.one_flow_per_burst);
    run_job(&job, order(plan.clone(), None, by_burst), sinks, interruptions)
}

/// Returns the order of a trial from one port to another, or both ways, after trials that left `traces`.
///
/// Both ways, all lanes of the plan send and receive. The first half has the queues of the first port, the other half
/// those of the second. The plan is that of the way from the first to the second; both of its links
/// ([`TrafficPlan::link`], [`TrafficPlan::far`]) say how packets leave there and arrive. The way back has the same
/// rate, sizes and flows, with addresses and ports exchanged: its packets look like answers, so devices in between pass
/// them on. Its seed is the next one, so that a packet that is turned round on its way is not taken for a packet of the
/// other way. Payloads that hold no data (16 bytes) do not show the difference.
pub(crate) fn order(
    plan: TrafficPlan,
    traces: Option<Arc<Traces>>,
    one_flow_per_burst: [bool; 2],
) -> Order<Vec<TrafficTrial>> {
    if plan.back.is_none() {
        return traffic(plan, traces, one_flow_per_burst).map(|trial| vec![trial]);
    }
    let half = plan.common.lanes.len() / 2;
    let one_way = |way: usize| {
        let lane = |(i, lane): (usize, &LanePlan)| {
            let sends = usize::from(i >= half);
            LanePlan {
                rx: sends != way,
                tx: sends == way,
                ..*lane
            }
        };
        plan.common.lanes.iter().enumerate().map(lane).collect()
    };
    let there = TrafficPlan {
        common: Common {
            lanes: one_way(0),
            ..plan.common.clone()
        },
        ..plan.clone()
    };
    let mut back = plan.way_back();
    back.common.lanes = one_way(1);
    let traces_back = traces.as_deref().map(|traces| Arc::new(traces.back()));
    let back = TrafficTrial::back(back, traces_back, one_flow_per_burst[1]);
    Order {
        common: plan.common,
        ..traffic(there, traces, one_flow_per_burst).map(|there| vec![there, back])
    }
}

/// Names of the two ways between two ports.
pub(crate) const WAYS: [&str; 2] = ["A to B", "B to A"];

/// Counters of arriving packets, and of departing ones: with traffic both ways they belong to one way only.
const OF_ARRIVALS: [&str; 3] = [counter::LEFT_TO_HOST, counter::NO_SOCKET, counter::NO_ROOM_FOR_RX_TIME];
const OF_DEPARTURES: [&str; 1] = [counter::DROPPED_SENT];

/// Traffic between two ports, A and B.
pub(crate) struct Across<'r, A, B> {
    from: &'r A,
    to: &'r B,
    work: &'r TrafficWork<'r>,
    /// Packets go from the second port to the first, too.
    both: bool,
    /// For each lane: its port, and its queue there.
    seats: Vec<(End, usize)>,
}

/// End of the way: the port that it starts from, or the port that it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    From,
    To,
}

/// A lane's part of one port: of the first or of the second.
pub(crate) enum Half<A, B> {
    From(A),
    To(B),
}

impl<'r, A: Port, B: Port> Across<'r, A, B> {
    pub(crate) fn new(from: &'r A, to: &'r B, work: &'r TrafficWork<'r>) -> Self {
        let (lanes, both) = (&work.opening.common.lanes, work.opening.back.is_some());
        let end = |(i, lane): (usize, &LanePlan)| match (both, lane.tx) {
            (true, _) if i < lanes.len() / 2 => End::From,
            (false, true) => End::From,
            _ => End::To,
        };
        let mut queues = [0, 0];
        let mut seat = |end: End| {
            let queue = &mut queues[end as usize];
            *queue += 1;
            (end, *queue - 1)
        };
        Self {
            from,
            to,
            work,
            both,
            seats: lanes.iter().enumerate().map(end).map(&mut seat).collect(),
        }
    }

    /// Returns whether lane `lane` sends in this way, or in any.
    fn sends(&self, lane: usize, way: Option<usize>) -> bool {
        match (self.both, way) {
            (true, None) => true,
            (_, way) => self.seats[lane].0 as usize == way.unwrap_or(0),
        }
    }

    /// Returns whether lane `lane` receives packets of this way, or of any.
    fn takes(&self, lane: usize, way: Option<usize>) -> bool {
        match (self.both, way) {
            (true, None) => true,
            (_, way) => self.seats[lane].0 as usize != way.unwrap_or(0),
        }
    }

    /// Returns layer 2 of a port.
    fn link_at(&self, end: End) -> Option<&Link> {
        match end {
            End::From => self.work.link(),
            End::To => self.work.opening.far.as_ref(),
        }
    }
}

impl<A: Port, B: Port> Desk for Across<'_, A, B> {
    fn queue_number(&self, lane: usize) -> usize {
        self.seats[lane].1
    }

    fn ahead_ns(&self) -> u64 {
        self.work.ahead_ns()
    }

    fn ways(&self) -> &'static [&'static str] {
        if self.both { &WAYS } else { &[] }
    }

    fn ways_of(&self, lane: usize) -> LaneWays {
        match (self.both, self.seats[lane].0) {
            (false, _) => LaneWays { sends: 0, takes: 0 },
            (true, End::From) => LaneWays { sends: 0, takes: 1 },
            (true, End::To) => LaneWays { sends: 1, takes: 0 },
        }
    }

    fn counters(&self, lane: usize, way: Option<usize>) -> Vec<QueueCounters> {
        let (end, index) = self.seats[lane];
        let mut counters = match end {
            End::From => self.from.counters(index),
            End::To => self.to.counters(index),
        };
        // Packets that arrive at a port without a receiving lane are none of the test's: they do not count as lost.
        if !self.takes(lane, way) {
            counters.rx_dropped = 0;
        }
        if self.both && !self.takes(lane, way) {
            counters.other.retain(|(name, _)| !OF_ARRIVALS.contains(name));
        }
        if self.both && !self.sends(lane, way) {
            counters.tx_failed = 0;
            counters.other.retain(|(name, _)| !OF_DEPARTURES.contains(name));
        }
        match end {
            End::From => vec![counters, QueueCounters::default()],
            End::To => vec![QueueCounters::default(), counters],
        }
    }

    fn rx_dropped(&self, lane: usize, place: usize, way: Option<usize>) -> Option<u64> {
        match self.seats[lane] {
            _ if !self.takes(lane, way) => Some(0),
            (End::From, index) if place == 0 => self.from.rx_dropped(index),
            (End::To, index) if place == 1 => self.to.rx_dropped(index),
            _ => Some(0),
        }
    }

    fn takes(&self, lane: usize, place: usize) -> bool {
        self.seats[lane].0 as usize == place
    }

    fn drops_by_queue(&self, place: usize) -> bool {
        match place {
            0 => self.from.drops_by_queue(),
            _ => self.to.drops_by_queue(),
        }
    }

    fn path(&self) -> String {
        let paths = [self.from.capabilities().path, self.to.capabilities().path];
        in_one(paths.into_iter().map(str::to_owned))
    }

    fn watches(&self) -> Vec<(usize, Box<dyn Watch>)> {
        let to = self.to.watches().into_iter().map(|watch| (1, watch));
        watches_of([self.from]).into_iter().chain(to).collect()
    }

    fn port_facts(&self) -> Vec<HostFact> {
        join(&[told(self.from.facts()), told(self.to.facts())])
    }

    fn latency_note(&self, measured: bool) -> Option<&'static str> {
        measured.then_some(match self.both {
            false => {
                "one way, from just before the packet is handed to the first port to just after it was taken from the \
                 second, in mpps: no clocks differ"
            }
            true => {
                "one way, from just before the packet is handed to one port to just after it was taken from the other, \
                 in mpps: no clocks differ"
            }
        })
    }
}

impl<A: Port, B: Port> Job for Across<'_, A, B> {
    /// One trial per way.
    type Trial = Vec<TrafficTrial>;

    type Pools = Half<A::Pool, B::Pool>;

    type Queues<'p>
        = Half<A::Queue<'p>, B::Queue<'p>>
    where
        Self: 'p;

    fn pools(&self, lane: usize) -> Result<Self::Pools> {
        Ok(match self.seats[lane] {
            (End::From, index) => Half::From(self.from.pool(index)?),
            (End::To, index) => Half::To(self.to.pool(index)?),
        })
    }

    fn queues<'p>(&'p self, lane: usize, pools: &'p Self::Pools) -> Result<Self::Queues<'p>> {
        let (_, index) = self.seats[lane];
        Ok(match pools {
            Half::From(pool) => Half::From(self.from.queue(index, pool)?),
            Half::To(pool) => Half::To(self.to.queue(index, pool)?),
        })
    }

    fn link(&self) -> Option<&Link> {
        self.work.link()
    }

    fn link_of(&self, lane: usize) -> Option<&Link> {
        self.link_at(self.seats[lane].0)
    }

    /// Only lanes that do not receive attend: a receiving lane answers as it receives.
    fn attends(&self, lane: usize) -> bool {
        !self.both && self.seats[lane].0 == End::From
    }

    fn src(&self) -> Option<IpAddr> {
        self.work.src()
    }

    fn src_of(&self, lane: usize) -> Option<IpAddr> {
        let plan = self.work.opening;
        match self.seats[lane].0 {
            End::From => Some(plan.src),
            End::To => Some(plan.dst),
        }
    }

    fn neighbors_of(&self, lane: usize) -> usize {
        self.seats[lane].0 as usize
    }

    fn facts(&self, ways: &Vec<TrafficTrial>, way: Option<usize>) -> WorkFacts {
        self.work.facts(&ways[way.unwrap_or(0)])
    }

    fn common_of<'t>(&'t self, ways: &'t Vec<TrafficTrial>, way: usize) -> Option<&'t Common> {
        self.both.then(|| &ways[way].plan.common)
    }

    /// Asks for the MAC address of the next hop, on the lane's own port. Until the other port's lanes are done, too,
    /// the lane answers questions that arrive at its port.
    fn resolve(
        &self,
        queues: &mut Half<A::Queue<'_>, B::Queue<'_>>,
        [near, far]: &[Found; 2],
        clock: &Clock,
        ended: &dyn Fn(u64) -> bool,
    ) -> std::result::Result<Option<MacAddr>, RunError> {
        let plan = self.work.opening;
        let (Some(link), Some(far_link)) = (&plan.link, &plan.far) else {
            return Ok(None);
        };
        let wanted = [(link, near), (far_link, far)];
        let (own, found) = match queues {
            Half::From(queue) => {
                let neighbor = Neighbor::new(link, Some(plan.src), near);
                resolve(queue, &neighbor, &wanted, clock, ended)?;
                wanted[0]
            }
            Half::To(queue) => {
                let neighbor = Neighbor::new(far_link, Some(plan.dst), far);
                resolve(queue, &neighbor, &wanted, clock, ended)?;
                wanted[1]
            }
        };
        Ok(own.dest_mac.or(found.get().copied()))
    }

    fn lane(
        &self,
        index: usize,
        lane: Lane<'_>,
        queues: &mut Half<A::Queue<'_>, B::Queue<'_>>,
        recorder: Recorder<'_>,
        ways: &Vec<TrafficTrial>,
    ) -> LaneOutcome {
        let of = self.ways_of(index);
        let ways = [&ways[of.sends], &ways[of.takes]];
        match queues {
            Half::From(queue) => send_and_take(index, lane, queue, recorder, self.from.capabilities(), ways),
            Half::To(queue) => send_and_take(index, lane, queue, recorder, self.to.capabilities(), ways),
        }
    }

    fn traces(&self, ways: &Vec<TrafficTrial>) -> Option<Arc<Traces>> {
        self.work.traces(&ways[0])
    }

    fn attend(
        &self,
        lane: usize,
        queues: &mut Half<A::Queue<'_>, B::Queue<'_>>,
        found: &[Found; 2],
        traces: Option<&Traces>,
    ) -> u64 {
        let found = &found[self.neighbors_of(lane)];
        let link = self.link_of(lane);
        let neighbor = link.map(|link| Neighbor::new(link, self.src_of(lane), found));
        match queues {
            Half::From(queue) => {
                let back = traces.filter(|_| self.both).map(Traces::back);
                traces::attend(queue, neighbor.as_ref(), back.as_ref())
            }
            Half::To(queue) => traces::attend(queue, neighbor.as_ref(), traces),
        }
    }
}
