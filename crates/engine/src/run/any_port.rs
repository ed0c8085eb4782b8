//! Ports whose types are erased at the lane.
//!
//! A run knows its ports as [`AnyPort`]. On a lane's own thread the port makes its packet memory and its queue, and
//! hands the thread an [`AnyLane`]. That is one virtual call per lane and trial: the loop behind it is compiled for the
//! port's types. So a run over ports of several paths needs no code of its own. Only `forward` between two paths does,
//! as it copies from frames of one type to frames of another ([`pair`]).

use crate::error::RunError;
use crate::lane::Lane;
use crate::lane::neighbor::Found;
use crate::outcome::LaneOutcome;
use crate::plan::ForwardSeat;
use crate::receive::traces::{self, Traces};
use crate::run::job::{AnyLane, Job, resolve};
use crate::run::on_ports::OnPorts;
use crate::workload::forward::{self, CopyOver, Move, Step};
use crate::workload::loops::{AllLoops, Loops};
use crate::workload::{TrafficTrial, Work, capture, drop, reflect, send_and_take};
use mpps_io::{Port, Queue, Result};
use mpps_stats::Recorder;
use mpps_sys::clock::Clock;
use mpps_wire::MacAddr;
use std::any::Any;
use std::marker::PhantomData;

/// A port, or two of them, of which a lane gets its queues.
pub trait LaneStart: Sync {
    /// Makes the packet memory and the queues of number `queue` on the calling thread, and runs a lane on them.
    ///
    /// # Errors
    /// Returns the errors of [`Port::pool`] and [`Port::queue`].
    fn start(&self, queue: usize, lane: Start<'_>) -> Result<()>;
}

/// A lane that is about to get its queues, as [`LaneStart::start`] takes it.
pub struct Start<'l> {
    pub(crate) job: &'l OnPorts<'l>,
    /// Number of the lane in its run.
    pub(crate) lane: usize,
    pub(crate) run: &'l mut dyn FnMut(&mut dyn AnyLane),
}

/// A port of any path.
pub trait AnyPort: LaneStart {
    /// Returns the port, for whatever does not depend on its types.
    fn port(&self) -> &dyn Port;

    /// Returns the port as it was before its type was erased.
    fn as_any(&self) -> &dyn Any;

    /// Returns this port and `second` as one that gives a lane of `forward` a queue of each; `None` if they are of
    /// different types. Their frames move without a copy if they share packet memory ([`Port::shares_pools_with`]).
    fn with_alike<'p>(&'p self, second: &'p dyn AnyPort) -> Option<Box<dyn LaneStart + 'p>>;
}

/// A port for which no other loops than `L` are compiled. For a port by itself all are.
pub struct Only<P, L>(P, PhantomData<L>);

impl<P: Port, L: Loops> Only<P, L> {
    /// Takes a port.
    pub fn new(port: P) -> Self {
        Self(port, PhantomData)
    }
}

impl<P: Port + 'static> LaneStart for P {
    fn start(&self, queue: usize, lane: Start<'_>) -> Result<()> {
        start::<P, AllLoops>(self, queue, lane)
    }
}

impl<P: Port + 'static> AnyPort for P {
    fn port(&self) -> &dyn Port {
        self
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn with_alike<'p>(&'p self, second: &'p dyn AnyPort) -> Option<Box<dyn LaneStart + 'p>> {
        alike(self, second)
    }
}

impl<P: Port + 'static, L: Loops> LaneStart for Only<P, L> {
    fn start(&self, queue: usize, lane: Start<'_>) -> Result<()> {
        start::<P, L>(&self.0, queue, lane)
    }
}

impl<P: Port + 'static, L: Loops> AnyPort for Only<P, L> {
    fn port(&self) -> &dyn Port {
        &self.0
    }

    fn as_any(&self) -> &dyn Any {
        &self.0
    }

    fn with_alike<'p>(&'p self, second: &'p dyn AnyPort) -> Option<Box<dyn LaneStart + 'p>> {
        if const { L::FRAMES && L::LISTENS } {
            alike(&self.0, second)
        } else {
            None
        }
    }
}

/// Starts a lane on a queue of one port.
fn start<P: Port, L: Loops>(port: &P, queue: usize, Start { job, lane, run }: Start<'_>) -> Result<()> {
    let pool = port.pool(queue)?;
    let queue = port.queue(queue, &pool)?;
    run(&mut OnQueue {
        queue,
        job,
        lane,
        loops: PhantomData::<L>,
    });
    Ok(())
}

/// A lane on one queue.
struct OnQueue<'l, Q, L> {
    queue: Q,
    job: &'l OnPorts<'l>,
    lane: usize,
    loops: PhantomData<L>,
}

impl<Q: Queue, L: Loops> AnyLane for OnQueue<'_, Q, L> {
    /// Asks on lanes that send and listens on lanes that receive, until one of them has received the answer. Until the
    /// lanes of the other port are done, too, the lane answers questions that arrive at its port.
    fn resolve(
        &mut self,
        found: &[Found],
        clock: &Clock,
        ended: &dyn Fn(u64) -> bool,
    ) -> std::result::Result<Option<MacAddr>, RunError> {
        let (job, lane) = (self.job, self.lane);
        let (Some(link), Some(neighbor)) = (job.link_of(lane), job.neighbor(lane, found)) else {
            return Ok(None);
        };
        resolve(&mut self.queue, &neighbor, &job.wanted(found), clock, ended)?;
        // A lane that only receives knows the address that packets were sent to from the first port.
        let own = link.dest_mac.or(found[job.port_of(lane)].get().copied());
        Ok(own.or_else(|| found.first().and_then(|first| first.get().copied())))
    }

    fn attend(&mut self, found: &[Found], traces: Option<&Traces>) -> u64 {
        let (job, lane) = (self.job, self.lane);
        if !job.looks_between_trials(lane) {
            return 0;
        }
        traces::attend(&mut self.queue, job.neighbor(lane, found).as_ref(), traces)
    }

    /// Enters the workload's loop. Each loop is a function of its own, so that none changes how another is compiled.
    fn run(&mut self, lane: Lane<'_>, recorder: Recorder<'_>, trial: &[TrafficTrial]) -> LaneOutcome {
        let (job, index, queue) = (self.job, self.lane, &mut self.queue);
        let capabilities = job.capabilities_of(index);
        match &job.work {
            Work::Traffic(_) if const { L::GENERATES } => {
                let tracks = job.tracks_of(index);
                let tracks = [&trial[tracks.sends], &trial[tracks.takes]];
                send_and_take::<Q, L>(index, lane, queue, recorder, capabilities, tracks)
            }
            Work::Drop(plan) if const { L::LISTENS } => drop::run(lane, queue, plan, capabilities.layer, recorder),
            Work::Reflect(plan) if const { L::LISTENS } => {
                reflect::run(lane, queue, &plan.filter, capabilities.layer, plan.on_full, recorder)
            }
            Work::Capture(plan, quota) if const { L::LISTENS && L::FRAMES } => {
                let ring = plan.rings[index].lock().ok().and_then(|mut ring| ring.take());
                // Each lane runs once, and the plan has a ring for each.
                capture::run(lane, queue, plan, quota, ring.expect("a ring per lane"), recorder)
            }
            Work::Forward(plan) if const { L::LISTENS && L::FRAMES } => {
                forward::alone(lane, queue, plan, plan.seat(index), capabilities.max_frame, recorder)
            }
            _ => unreachable!("the plan was made for a port of another kind"),
        }
    }
}

/// Joins two ports of one type.
fn alike<'p, P: Port + 'static>(first: &'p P, second: &'p dyn AnyPort) -> Option<Box<dyn LaneStart + 'p>> {
    let second = second.as_any().downcast_ref::<P>()?;
    Some(match first.shares_pools_with(second) {
        true => Box::new(Shared(first, second)),
        false => pair(first, second),
    })
}

/// Joins two ports of any paths, for `forward`: frames are copied once.
pub fn pair<'p, A: Port, B: Port>(first: &'p A, second: &'p B) -> Box<dyn LaneStart + 'p> {
    Box::new(Apart(first, second))
}

/// Two ports that share packet memory: a lane has a queue of each, over one pool.
struct Shared<'p, P>(&'p P, &'p P);

impl<P: Port> LaneStart for Shared<'_, P> {
    fn start(&self, queue: usize, Start { job, lane, run }: Start<'_>) -> Result<()> {
        let pool = self.0.pool(queue)?;
        run(&mut OnPair {
            queues: (self.0.queue(queue, &pool)?, self.1.queue(queue, &pool)?),
            job,
            lane,
            step: PhantomData::<Move>,
        });
        Ok(())
    }
}

/// Two ports with packet memory of their own: a lane has a queue of each, over a pool of each.
struct Apart<'p, A, B>(&'p A, &'p B);

impl<A: Port, B: Port> LaneStart for Apart<'_, A, B> {
    fn start(&self, queue: usize, Start { job, lane, run }: Start<'_>) -> Result<()> {
        let (first, second) = (self.0.pool(queue)?, self.1.pool(queue)?);
        run(&mut OnPair {
            queues: (self.0.queue(queue, &first)?, self.1.queue(queue, &second)?),
            job,
            lane,
            step: PhantomData::<CopyOver>,
        });
        Ok(())
    }
}

/// A lane of `forward` on a queue of each of two ports.
struct OnPair<'l, A, B, S> {
    queues: (A, B),
    job: &'l OnPorts<'l>,
    lane: usize,
    step: PhantomData<S>,
}

impl<A: Queue, B: Queue, S> AnyLane for OnPair<'_, A, B, S>
where
    S: Step<A::Frame, B> + Step<B::Frame, A>,
{
    fn attend(&mut self, _found: &[Found], _traces: Option<&Traces>) -> u64 {
        traces::attend(&mut self.queues.0, None, None);
        traces::attend(&mut self.queues.1, None, None);
        0
    }

    fn run(&mut self, lane: Lane<'_>, recorder: Recorder<'_>, _trial: &[TrafficTrial]) -> LaneOutcome {
        let (job, index) = (self.job, self.lane);
        let Work::Forward(plan) = &job.work else {
            unreachable!("only forward has pairs");
        };
        let ForwardSeat { first, second, .. } = plan.seat(index);
        let max_frames = [first, second.unwrap_or(first)].map(|place| job.ports[place].port().capabilities().max_frame);
        forward::between::<A, B, S>(lane, &mut self.queues, plan, index, max_frames, recorder)
    }
}
