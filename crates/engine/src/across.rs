//! `sendrecv` over two ports: packets leave by one and are received at the other, with the device under test between them.
//!
//! Nobody turns them round, so they arrive as they were sent: addresses and ports are not exchanged. Each lane owns a queue
//! of one port: the first lanes send by the first port, the others receive at the second.

use crate::crew::run_job;
use crate::error::RunError;
use crate::forward::{in_one, join};
use crate::job::{Job, resolve, told};
use crate::neighbor::{Found, Neighbor};
use crate::outcome::LaneOutcome;
use crate::plan::{Link, TrafficPlan};
use crate::run::traffic;
use crate::traces::{self, Traces};
use crate::traffic::Lane;
use crate::work::{TrafficTrial, TrafficWork, Work, WorkFacts};
use mpps_io::{Port, QueueCounters, Result};
use mpps_stats::{HostFact, Recorder, Sink, Summary};
use mpps_sys::clock::Clock;
use mpps_wire::MacAddr;
use std::net::IpAddr;
use std::sync::Arc;

/// Runs `sendrecv` from one port to another: lanes of the plan that send have the queues of `from` in their order, those that
/// receive have the queues of `to`; no lane does both. The plan says how packets leave ([`TrafficPlan::link`]) and how they
/// arrive ([`TrafficPlan::far`]). As [`crate::run_traffic`].
///
/// # Errors
/// As [`crate::run_traffic`].
pub fn run_traffic_across<A: Port, B: Port>(
    from: &A,
    to: &B,
    plan: &TrafficPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> std::result::Result<Summary, RunError> {
    let work = TrafficWork { opening: plan };
    let job = Across { from, to, work: &work };
    run_job(&job, traffic(plan.clone(), None), sinks, interruptions)
}

/// Traffic from one port to another.
pub(crate) struct Across<'r, A, B> {
    pub(crate) from: &'r A,
    pub(crate) to: &'r B,
    pub(crate) work: &'r TrafficWork<'r>,
}

/// What a lane has of the one port or of the other.
pub(crate) enum Half<A, B> {
    From(A),
    To(B),
}

impl<A, B> Across<'_, A, B> {
    /// Whether lane `lane` sends, and which queue of its port it has.
    fn seat(&self, lane: usize) -> (bool, usize) {
        let lanes = &self.work.opening.common.lanes;
        let sends = lanes[lane].tx;
        (sends, lanes[..lane].iter().filter(|other| other.tx == sends).count())
    }
}

impl<A: Port, B: Port> Job for Across<'_, A, B> {
    type Trial = TrafficTrial;
    type Pools = Half<A::Pool, B::Pool>;
    type Queues<'p>
        = Half<A::Queue<'p>, B::Queue<'p>>
    where
        Self: 'p;

    fn pools(&self, lane: usize) -> Result<Self::Pools> {
        Ok(match self.seat(lane) {
            (true, index) => Half::From(self.from.pool(index)?),
            (false, index) => Half::To(self.to.pool(index)?),
        })
    }

    fn queues<'p>(&'p self, lane: usize, pools: &'p Self::Pools) -> Result<Self::Queues<'p>> {
        let (_, index) = self.seat(lane);
        Ok(match pools {
            Half::From(pool) => Half::From(self.from.queue(index, pool)?),
            Half::To(pool) => Half::To(self.to.queue(index, pool)?),
        })
    }

    fn queue_number(&self, lane: usize) -> usize {
        self.seat(lane).1
    }

    fn counters(&self, lane: usize) -> Vec<QueueCounters> {
        match self.seat(lane) {
            // What comes in there is no packet of the test: nothing is lost with it.
            (true, index) => vec![
                QueueCounters {
                    rx_dropped: 0,
                    ..self.from.counters(index)
                },
                QueueCounters::default(),
            ],
            (false, index) => vec![QueueCounters::default(), self.to.counters(index)],
        }
    }

    fn rx_dropped(&self, lane: usize, place: usize) -> Option<u64> {
        match (self.seat(lane), place) {
            ((false, index), 1) => self.to.rx_dropped(index),
            _ => Some(0),
        }
    }

    fn takes(&self, lane: usize, place: usize) -> bool {
        place == 1 && !self.seat(lane).0
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

    fn port_facts(&self) -> Vec<HostFact> {
        join(&[told(self.from.facts()), told(self.to.facts())])
    }

    fn link(&self) -> Option<&Link> {
        self.work.link()
    }

    fn link_of(&self, lane: usize) -> Option<&Link> {
        match self.seat(lane) {
            (true, _) => self.work.link(),
            (false, _) => self.work.opening.far.as_ref(),
        }
    }

    fn attends(&self, lane: usize) -> bool {
        self.seat(lane).0
    }

    fn src(&self) -> Option<IpAddr> {
        self.work.src()
    }

    fn facts(&self, trial: &TrafficTrial) -> WorkFacts {
        self.work.facts(trial)
    }

    fn latency_note(&self, measured: bool) -> Option<&'static str> {
        measured.then_some(
            "one way, from just before the packet is handed to the first port to just after it was taken from the second, \
             in mpps: no clocks differ",
        )
    }

    /// Lanes that send ask at their port; the others answer at theirs, where the question may arrive.
    fn resolve(
        &self,
        queues: &mut Half<A::Queue<'_>, B::Queue<'_>>,
        found: &Found,
        clock: &Clock,
        ended: &dyn Fn(u64) -> bool,
    ) -> std::result::Result<Option<MacAddr>, RunError> {
        let Some(link) = self.work.link() else {
            return Ok(None);
        };
        match queues {
            Half::From(queue) => resolve(queue, (link, link), self.work.src(), found, clock, ended),
            Half::To(queue) => {
                let far = self.work.opening.far.as_ref().unwrap_or(link);
                resolve(queue, (link, far), None, found, clock, ended)
            }
        }
    }

    fn lane(
        &self,
        index: usize,
        lane: Lane<'_>,
        queues: &mut Half<A::Queue<'_>, B::Queue<'_>>,
        recorder: Recorder<'_>,
        trial: &TrafficTrial,
    ) -> LaneOutcome {
        let (work, capabilities) = (self.work, (self.from.capabilities(), self.to.capabilities()));
        match queues {
            Half::From(queue) => work.lane(index, lane, queue, recorder, capabilities.0, trial),
            Half::To(queue) => work.lane(index, lane, queue, recorder, capabilities.1, trial),
        }
    }

    fn traces(&self, trial: &TrafficTrial) -> Option<Arc<Traces>> {
        self.work.traces(trial)
    }

    fn attend(
        &self,
        lane: usize,
        queues: &mut Half<A::Queue<'_>, B::Queue<'_>>,
        found: &Found,
        traces: Option<&Traces>,
    ) -> u64 {
        let link = self.link_of(lane);
        let neighbor = |src| link.map(|link| Neighbor::new(link, src, found));
        match queues {
            Half::From(queue) => traces::attend(queue, neighbor(self.work.src()).as_ref(), None),
            Half::To(queue) => traces::attend(queue, neighbor(None).as_ref(), traces),
        }
    }
}
