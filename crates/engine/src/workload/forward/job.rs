//! Forwarding as a run's [`Job`]: on any number of ports of one path, whether the two of a pair share packet memory or
//! not, and between two ports of different paths.

use super::way::{CopyOver, Move, Step, Way};
use super::{Alone, Pair, run};
use crate::error::RunError;
use crate::lane::Lane;
use crate::plan::{ForwardPlan, ForwardSeat};
use crate::run::crew::{Order, run_job};
use crate::run::job::{Desk, Job, told, watches_of};
use crate::run::outcome::LaneOutcome;
use mpps_io::around::Watch;
use mpps_io::{Port, Queue, QueueCounters, Result};
use mpps_stats::{HostFact, Recorder, Sink, Summary, Workload};
use std::time::Instant;

/// Runs `forward` on ports of one path: between the two of each pair, and back out of an odd last one
/// ([`ForwardPlan::ports`]). Frames of a pair move without a copy if its ports share packet memory
/// ([`Port::shares_pools_with`]), else they are copied once. `ports` contains a port for each of the plan's, in its
/// order, with a queue for each lane that serves it. Otherwise the run is as with [`crate::run_traffic`].
///
/// # Errors
/// Returns the errors of [`crate::run_traffic`].
pub fn run_forward<P: Port>(
    ports: &[P],
    plan: &ForwardPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> std::result::Result<Summary, RunError> {
    start(&Alike { ports, plan }, plan, sinks, interruptions)
}

/// Runs `forward` between two ports of any paths: frames are copied once. Otherwise the run is as with
/// [`crate::run_traffic`].
///
/// # Errors
/// Returns the errors of [`crate::run_traffic`].
pub fn run_forward_pair<A: Port, B: Port>(
    a: &A,
    b: &B,
    plan: &ForwardPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> std::result::Result<Summary, RunError> {
    start(&Unlike { a, b, plan }, plan, sinks, interruptions)
}

fn start<J: Job<Trial = ()>>(
    job: &J,
    plan: &ForwardPlan,
    sinks: &mut [Box<dyn Sink>],
    interruptions: &dyn Fn() -> u32,
) -> std::result::Result<Summary, RunError> {
    run_job(
        job,
        Order::of(&plan.common, Workload::Forward, ()),
        sinks,
        interruptions,
    )
}

/// Any number of ports of one path.
struct Alike<'r, P> {
    ports: &'r [P],
    plan: &'r ForwardPlan,
}

/// Packet memory of a lane.
enum Pools<P> {
    /// Memory for its one queue, or for both.
    One(P),
    /// Memory for each of two queues.
    Two(P, P),
}

/// Queues of a lane. The lane checks which case it is once, before its loop.
enum Queues<Q> {
    /// Queue of an odd port.
    Alone(Q),
    /// Queues of a pair, over one pool.
    Shared(Q, Q),
    /// Queues of a pair, each over a pool of its own.
    Apart(Q, Q),
}

impl<P: Port> Desk for Alike<'_, P> {
    fn queue_number(&self, lane: usize) -> usize {
        self.plan.seat(lane).index
    }

    fn counters(&self, lane: usize, _way: Option<usize>) -> Vec<QueueCounters> {
        let ForwardSeat { first, second, index } = self.plan.seat(lane);
        let mut counters = vec![QueueCounters::default(); self.ports.len()];
        for place in [first].into_iter().chain(second) {
            counters[place] = self.ports[place].counters(index);
        }
        counters
    }

    fn rx_dropped(&self, lane: usize, place: usize, _way: Option<usize>) -> Option<u64> {
        let ForwardSeat { first, second, index } = self.plan.seat(lane);
        if first != place && second != Some(place) {
            return Some(0);
        }
        self.ports[place].rx_dropped(index)
    }

    fn takes(&self, lane: usize, place: usize) -> bool {
        self.plan.takes(lane, place)
    }

    fn drops_by_queue(&self, place: usize) -> bool {
        self.ports[place].drops_by_queue()
    }

    fn path(&self) -> String {
        in_one(self.ports.iter().map(|port| port.capabilities().path.to_owned()))
    }

    fn watches(&self) -> Vec<(usize, Box<dyn Watch>)> {
        watches_of(self.ports)
    }

    fn port_facts(&self) -> Vec<HostFact> {
        join(&self.ports.iter().map(|port| told(port.facts())).collect::<Vec<_>>())
    }

    fn port_names(&self) -> Vec<String> {
        names(self.plan)
    }
}

impl<P: Port> Job for Alike<'_, P> {
    type Trial = ();

    type Pools = Pools<P::Pool>;

    type Queues<'p>
        = Queues<P::Queue<'p>>
    where
        Self: 'p;

    fn pools(&self, lane: usize) -> Result<Self::Pools> {
        let ForwardSeat { first, second, index } = self.plan.seat(lane);
        let pool = self.ports[first].pool(index)?;
        Ok(match second.map(|place| &self.ports[place]) {
            Some(second) if !self.ports[first].shares_pools_with(second) => Pools::Two(pool, second.pool(index)?),
            _ => Pools::One(pool),
        })
    }

    fn queues<'p>(&'p self, lane: usize, pools: &'p Self::Pools) -> Result<Self::Queues<'p>> {
        let ForwardSeat { first, second, index } = self.plan.seat(lane);
        let (Pools::One(pool) | Pools::Two(pool, _)) = pools;
        let queue = self.ports[first].queue(index, pool)?;
        Ok(match (second.map(|place| &self.ports[place]), pools) {
            (None, _) => Queues::Alone(queue),
            (Some(second), Pools::One(pool)) => Queues::Shared(queue, second.queue(index, pool)?),
            (Some(second), Pools::Two(_, pool)) => Queues::Apart(queue, second.queue(index, pool)?),
        })
    }

    fn lane<'p>(
        &self,
        index: usize,
        lane: Lane<'_>,
        queues: &mut Queues<P::Queue<'p>>,
        recorder: Recorder<'_>,
        _trial: &(),
    ) -> LaneOutcome {
        let (plan, burst) = (self.plan, lane.burst);
        let seat = plan.seat(index);
        let max_frame = |place: usize| self.ports[place].capabilities().max_frame;
        let max_frames = [max_frame(seat.first), max_frame(seat.second.unwrap_or(seat.first))];
        let ports = plan.ports.len();
        match queues {
            Queues::Alone(queue) => {
                let alone = Alone::new(
                    queue,
                    (&plan.ports[seat.first], seat.first),
                    max_frames[0],
                    burst,
                    (plan.drain, plan.on_full, plan.work),
                );
                run(lane, alone, recorder, seat, ports)
            }
            Queues::Shared(a, b) => {
                let pair = pair::<_, _, Move>(a, b, plan, index, max_frames, burst);
                run(lane, pair, recorder, seat, ports)
            }
            Queues::Apart(a, b) => {
                let pair = pair::<_, _, CopyOver>(a, b, plan, index, max_frames, burst);
                run(lane, pair, recorder, seat, ports)
            }
        }
    }
}

/// Two ports of any paths.
struct Unlike<'r, A, B> {
    a: &'r A,
    b: &'r B,
    plan: &'r ForwardPlan,
}

impl<A: Port, B: Port> Desk for Unlike<'_, A, B> {
    fn counters(&self, lane: usize, _way: Option<usize>) -> Vec<QueueCounters> {
        vec![self.a.counters(lane), self.b.counters(lane)]
    }

    fn rx_dropped(&self, lane: usize, place: usize, _way: Option<usize>) -> Option<u64> {
        match place {
            0 => self.a.rx_dropped(lane),
            _ => self.b.rx_dropped(lane),
        }
    }

    fn takes(&self, lane: usize, place: usize) -> bool {
        self.plan.takes(lane, place)
    }

    fn drops_by_queue(&self, place: usize) -> bool {
        match place {
            0 => self.a.drops_by_queue(),
            _ => self.b.drops_by_queue(),
        }
    }

    fn path(&self) -> String {
        in_one([self.a.capabilities().path, self.b.capabilities().path].map(str::to_owned))
    }

    fn watches(&self) -> Vec<(usize, Box<dyn Watch>)> {
        let to = self.b.watches().into_iter().map(|watch| (1, watch));
        watches_of([self.a]).into_iter().chain(to).collect()
    }

    fn port_facts(&self) -> Vec<HostFact> {
        join(&[told(self.a.facts()), told(self.b.facts())])
    }

    fn port_names(&self) -> Vec<String> {
        names(self.plan)
    }
}

impl<A: Port, B: Port> Job for Unlike<'_, A, B> {
    type Trial = ();

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

    fn lane(
        &self,
        index: usize,
        lane: Lane<'_>,
        (a, b): &mut (A::Queue<'_>, B::Queue<'_>),
        recorder: Recorder<'_>,
        _trial: &(),
    ) -> LaneOutcome {
        let max_frames = [self.a.capabilities().max_frame, self.b.capabilities().max_frame];
        let pair = pair::<_, _, CopyOver>(a, b, self.plan, index, max_frames, lane.burst);
        run(lane, pair, recorder, self.plan.seat(index), 2)
    }
}

/// Makes a lane's queues with the ways that it serves.
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
    let seat = plan.seat(lane);
    let places @ [a_place, b_place] = [seat.first, seat.second.unwrap_or(seat.first)];
    let [first, second] = places.map(|place| &plan.ports[place]);
    let [there, back] = plan.directions(lane);
    let plain = [a.gives_plain(), b.gives_plain()];
    let passing = (plan.drain, plan.on_full, plan.work);
    Pair {
        a,
        b,
        there: there.then(|| Way::new((first, plain[0]), second, places, max_frames[1], burst, passing)),
        back: back.then(|| {
            Way::new(
                (second, plain[1]),
                first,
                [b_place, a_place],
                max_frames[0],
                burst,
                passing,
            )
        }),
        turns: 0,
        awake: Instant::now(),
        wait_for_b: false,
    }
}

fn names(plan: &ForwardPlan) -> Vec<String> {
    plan.ports.iter().map(|port| port.name.clone()).collect()
}

/// Joins statements of ports: one if all agree, else one after the other.
pub(crate) fn in_one(said: impl IntoIterator<Item = String>) -> String {
    let mut said: Vec<String> = said.into_iter().collect();
    if said.windows(2).all(|two| two[0] == two[1]) {
        said.truncate(1);
    }
    said.join(", ")
}

/// Joins the facts of all ports: once if they agree, else in the order of the ports, `-` for one that has none.
pub(crate) fn join(ports: &[Vec<HostFact>]) -> Vec<HostFact> {
    let of = |facts: &[HostFact], name: &str| {
        let found = facts.iter().find(|fact| fact.name == name);
        found.map_or_else(|| "-".to_owned(), |fact| fact.value.clone())
    };
    let mut joined: Vec<HostFact> = Vec::new();
    for fact in ports.iter().flatten() {
        match joined.iter_mut().find(|known| known.name == fact.name) {
            Some(known) => known.shown |= fact.shown,
            None => joined.push(HostFact {
                value: in_one(ports.iter().map(|facts| of(facts, &fact.name))),
                ..fact.clone()
            }),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::join;
    use mpps_stats::HostFact;

    #[test]
    fn facts_of_several_ports_are_told_once_where_they_agree() {
        let facts = |list: &[(&str, &str)]| list.iter().map(|(n, v)| HostFact::new(*n, *v)).collect();
        let joined = join(&[
            facts(&[("interface", "a"), ("driver", "veth"), ("ring", "8")]),
            facts(&[("interface", "b"), ("driver", "veth"), ("frames", "9")]),
            facts(&[("interface", "c"), ("driver", "veth"), ("frames", "9"), ("ring", "8")]),
        ]);
        let want: Vec<HostFact> = facts(&[
            ("interface", "a, b, c"),
            ("driver", "veth"),
            ("ring", "8, -, 8"),
            ("frames", "-, 9, 9"),
        ]);
        assert_eq!(joined, want);
    }
}
