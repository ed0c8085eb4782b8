//! Forwarding as a run's [`Job`]: on one port, between two that share packet memory, between two that do not.

use super::way::{CopyOver, Move, Step, Way};
use super::{Alone, Pair, run};
use crate::job::{Job, told};
use crate::outcome::LaneOutcome;
use crate::plan::ForwardPlan;
use crate::run::{RunError, run_job};
use crate::traffic::Lane;
use mpps_io::{Port, Queue, QueueCounters, Result};
use mpps_stats::{Recorder, Sink, Summary, Workload};
use mpps_wire::MacAddr;
use std::time::Instant;

/// Runs `forward` on one port: what comes in goes back out. As [`crate::run_traffic`].
///
/// # Errors
/// As [`crate::run_traffic`].
pub fn run_forward<P: Port>(
    port: &P,
    plan: &ForwardPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> std::result::Result<Summary, RunError> {
    start(&OnePort { port, plan }, plan, sinks, interruptions)
}

/// Runs `forward` between two ports of one path: frames move without a copy where the ports share packet memory
/// ([`Port::shares_pools_with`]), else they are copied once. As [`crate::run_traffic`].
///
/// # Errors
/// As [`crate::run_traffic`].
pub fn run_forward_alike<P: Port>(
    a: &P,
    b: &P,
    plan: &ForwardPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> std::result::Result<Summary, RunError> {
    if a.shares_pools_with(b) {
        start(&OnePool { a, b, plan }, plan, sinks, interruptions)
    } else {
        run_forward_pair(a, b, plan, sinks, interruptions)
    }
}

/// Runs `forward` between any two ports: frames are copied once. As [`crate::run_traffic`].
///
/// # Errors
/// As [`crate::run_traffic`].
pub fn run_forward_pair<A: Port, B: Port>(
    a: &A,
    b: &B,
    plan: &ForwardPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> std::result::Result<Summary, RunError> {
    start(&TwoPools { a, b, plan }, plan, sinks, interruptions)
}

fn start<J: Job>(
    job: &J,
    plan: &ForwardPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> std::result::Result<Summary, RunError> {
    run_job(job, &plan.common, Workload::Forward, 0, false, sinks, interruptions)
}

struct OnePort<'r, P> {
    port: &'r P,
    plan: &'r ForwardPlan,
}

impl<P: Port> Job for OnePort<'_, P> {
    type Pools = P::Pool;
    type Queues<'p>
        = P::Queue<'p>
    where
        Self: 'p;

    fn pools(&self, lane: usize) -> Result<P::Pool> {
        self.port.pool(lane)
    }

    fn queues<'p>(&'p self, lane: usize, pool: &'p P::Pool) -> Result<P::Queue<'p>> {
        self.port.queue(lane, pool)
    }

    fn counters(&self, lane: usize) -> Vec<QueueCounters> {
        vec![self.port.counters(lane)]
    }

    fn path(&self) -> String {
        self.port.capabilities().path.to_owned()
    }

    fn port_facts(&self) -> Vec<(String, String)> {
        told(self.port.facts())
    }

    fn port_names(&self) -> Vec<String> {
        names(self.plan)
    }

    fn lane(
        &self,
        _index: usize,
        lane: Lane<'_>,
        queue: &mut P::Queue<'_>,
        recorder: Recorder<'_>,
        _start_ns: u64,
        _dest_mac: Option<MacAddr>,
    ) -> LaneOutcome {
        let (max_frame, burst) = (self.port.capabilities().max_frame, lane.burst);
        run(lane, Alone::new(queue, &self.plan.ports[0], max_frame, burst), recorder)
    }
}

/// What both kinds of two ports have in common.
macro_rules! two_ports {
    () => {
        fn counters(&self, lane: usize) -> Vec<QueueCounters> {
            vec![self.a.counters(lane), self.b.counters(lane)]
        }

        fn path(&self) -> String {
            both(self.a.capabilities().path, self.b.capabilities().path)
        }

        fn port_facts(&self) -> Vec<(String, String)> {
            join(told(self.a.facts()), told(self.b.facts()))
        }

        fn port_names(&self) -> Vec<String> {
            names(self.plan)
        }
    };
}

struct OnePool<'r, P> {
    a: &'r P,
    b: &'r P,
    plan: &'r ForwardPlan,
}

impl<P: Port> Job for OnePool<'_, P> {
    type Pools = P::Pool;
    type Queues<'p>
        = (P::Queue<'p>, P::Queue<'p>)
    where
        Self: 'p;

    fn pools(&self, lane: usize) -> Result<P::Pool> {
        self.a.pool(lane)
    }

    fn queues<'p>(&'p self, lane: usize, pool: &'p P::Pool) -> Result<Self::Queues<'p>> {
        Ok((self.a.queue(lane, pool)?, self.b.queue(lane, pool)?))
    }

    two_ports!();

    fn lane<'p>(
        &self,
        index: usize,
        lane: Lane<'_>,
        (a, b): &mut (P::Queue<'p>, P::Queue<'p>),
        recorder: Recorder<'_>,
        _start_ns: u64,
        _dest_mac: Option<MacAddr>,
    ) -> LaneOutcome {
        let max_frames = [self.a.capabilities().max_frame, self.b.capabilities().max_frame];
        let pair = pair::<_, _, Move>(a, b, self.plan, index, max_frames, lane.burst);
        run(lane, pair, recorder)
    }
}

struct TwoPools<'r, A, B> {
    a: &'r A,
    b: &'r B,
    plan: &'r ForwardPlan,
}

impl<A: Port, B: Port> Job for TwoPools<'_, A, B> {
    type Pools = (A::Pool, B::Pool);
    type Queues<'p>
        = (A::Queue<'p>, B::Queue<'p>)
    where
        Self: 'p;

    fn pools(&self, lane: usize) -> Result<Self::Pools> {
        Ok((self.a.pool(lane)?, self.b.pool(lane)?))
    }

    fn queues<'p>(&'p self, lane: usize, pools: &'p Self::Pools) -> Result<Self::Queues<'p>> {
        Ok((self.a.queue(lane, &pools.0)?, self.b.queue(lane, &pools.1)?))
    }

    two_ports!();

    fn lane(
        &self,
        index: usize,
        lane: Lane<'_>,
        (a, b): &mut (A::Queue<'_>, B::Queue<'_>),
        recorder: Recorder<'_>,
        _start_ns: u64,
        _dest_mac: Option<MacAddr>,
    ) -> LaneOutcome {
        let max_frames = [self.a.capabilities().max_frame, self.b.capabilities().max_frame];
        let pair = pair::<_, _, CopyOver>(a, b, self.plan, index, max_frames, lane.burst);
        run(lane, pair, recorder)
    }
}

/// A lane's queues with the ways that it serves.
fn pair<'l, 'r, A: Queue, B: Queue, S>(
    a: &'l mut A,
    b: &'l mut B,
    plan: &'r ForwardPlan,
    lane: usize,
    max_frames: [usize; 2],
    burst: usize,
) -> Pair<'l, 'r, A, B, S>
where
    S: Step<A::Frame, B> + Step<B::Frame, A>,
{
    let [first, second] = [&plan.ports[0], &plan.ports[1]];
    let [there, back] = plan.directions(lane);
    Pair {
        a,
        b,
        there: there.then(|| Way::new(first, second, max_frames[1], burst)),
        back: back.then(|| Way::new(second, first, max_frames[0], burst)),
        turns: 0,
        awake: Instant::now(),
        wait_for_b: false,
    }
}

fn names(plan: &ForwardPlan) -> Vec<String> {
    plan.ports.iter().map(|port| port.name.clone()).collect()
}

/// One word where both ports have the same.
fn both(a: &str, b: &str) -> String {
    if a == b { a.to_owned() } else { format!("{a}, {b}") }
}

/// The facts of two ports: once where they agree, else first the one's, then the other's.
fn join(a: Vec<(String, String)>, b: Vec<(String, String)>) -> Vec<(String, String)> {
    let of = |facts: &[(String, String)], name: &str| {
        let found = facts.iter().find(|(n, _)| n == name);
        found.map_or_else(|| "-".to_owned(), |(_, value)| value.clone())
    };
    let only_b = b.iter().filter(|(name, _)| a.iter().all(|(n, _)| n != name));
    a.iter()
        .chain(only_b)
        .map(|(name, _)| (name.clone(), both(&of(&a, name), &of(&b, name))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::join;

    #[test]
    fn facts_of_two_ports_are_told_once_where_they_agree() {
        let facts = |list: &[(&str, &str)]| list.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let joined = join(
            facts(&[("interface", "a"), ("driver", "veth"), ("ring", "8")]),
            facts(&[("interface", "b"), ("driver", "veth"), ("frames", "9")]),
        );
        let want: Vec<(String, String)> = facts(&[
            ("interface", "a, b"),
            ("driver", "veth"),
            ("ring", "8, -"),
            ("frames", "-, 9"),
        ]);
        assert_eq!(joined, want);
    }
}
