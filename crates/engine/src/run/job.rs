//! The job of a run: its workload, together with the port or ports whose queues the lanes own.
//!
//! The common part of a run ([`crate::run::crew`]) knows neither how many ports there are nor what a lane does with its
//! queues. A [`Job`] does: most are a [`Solo`], a workload on one port; forwarding has its own.

use crate::error::RunError;
use crate::lane::Lane;
use crate::lane::neighbor::{Found, Neighbor};
use crate::plan::{Common, Link};
use crate::run::outcome::LaneOutcome;
use crate::run::traces::Traces;
use crate::workload::{Work, WorkFacts};
use mpps_io::around::Watch;
use mpps_io::{Burst, Fact, Port, Queue, QueueCounters, Result, Wait};
use mpps_stats::{HostFact, Recorder};
use mpps_sys::clock::Clock;
use mpps_wire::MacAddr;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Time in which the peer must answer for its MAC address, ns.
pub(crate) const RESOLVE_NS: u64 = 3_000_000_000;
/// Time between two questions for it, ns.
pub(crate) const ASK_EVERY_NS: u64 = 100_000_000;

/// The ways in which a lane sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneWays {
    pub(crate) sends: usize,
    pub(crate) takes: usize,
}

/// Questions of the main thread to a workload and its ports. It has one type for all paths: it is called a few times
/// per run, or once per row, and not compiled for each path.
pub(crate) trait Desk: Sync {
    /// Returns lane `lane`'s number among lanes that serve the same ports: the number of its queues.
    fn queue_number(&self, lane: usize) -> usize {
        lane
    }
    /// Returns the names of the ways in which packets go at the same time, each with counts and a verdict of its own;
    /// none if they go in one way.
    fn ways(&self) -> &'static [&'static str] {
        &[]
    }
    /// Returns the ways in which lane `lane` sends and receives: two different ones if there are two.
    fn ways_of(&self, _lane: usize) -> LaneWays {
        LaneWays { sends: 0, takes: 0 }
    }
    /// Returns counters of the lane's queues: one entry per port, empty for ports that it has no queue of. They are of
    /// one `way`, or (`None`) of all.
    fn counters(&self, lane: usize, way: Option<usize>) -> Vec<QueueCounters>;
    /// Returns packets that this host dropped before lane `lane` could take them from the port at `place`
    /// ([`Port::rx_dropped`]), of one way or of all; `None`: not known.
    fn rx_dropped(&self, lane: usize, place: usize, way: Option<usize>) -> Option<u64>;
    /// Returns whether a lane that receives takes packets from the port at `place`.
    fn takes(&self, _lane: usize, _place: usize) -> bool {
        true
    }
    /// Returns whether the port at `place` counts its drops by queue, and not all of them at the first.
    fn drops_by_queue(&self, _place: usize) -> bool {
        true
    }
    /// Returns whether packets are sent by the kernel, not by the lanes' threads.
    fn kernel_sends(&self) -> bool {
        false
    }
    /// Returns the path or paths, for the report.
    fn path(&self) -> String;
    /// Returns facts of the port or ports about themselves.
    fn port_facts(&self) -> Vec<HostFact>;
    /// Returns whether one drop of the port may be of many packets.
    fn coalesces(&self) -> bool {
        false
    }
    /// Returns watches of the interfaces that packets leave by, each with the place of its port.
    fn watches(&self) -> Vec<(usize, Box<dyn Watch>)> {
        Vec::new()
    }
    /// Returns the ports by name, if the report has a line for each; else none.
    fn port_names(&self) -> Vec<String> {
        Vec::new()
    }
    /// Returns how long before the start lanes may go, ns. They need this time to get going, and keep to the start
    /// themselves.
    fn ahead_ns(&self) -> u64 {
        0
    }
    /// Returns how far ahead the end of an interrupted run lies, ns: the time in which all lanes see it.
    fn notice_ns(&self) -> u64 {
        0
    }
    /// Called once, before any lane runs, with the chosen start and end (`u64::MAX`: not known).
    fn begin(&self, _start_ns: u64, _end_ns: u64) {}
    /// Returns where latency is taken, if not where the workload usually does. `measured`: a latency was measured.
    fn latency_note(&self, _measured: bool) -> Option<&'static str> {
        None
    }
}

/// A workload and its ports.
pub(crate) trait Job: Desk {
    /// State of one trial, made again for the next; `()` if a job has one trial only.
    type Trial: Send + Sync;
    /// Packet memory of one lane; made on the lane's thread.
    type Pools;
    /// One lane's queues over its memory.
    type Queues<'p>
    where
        Self: 'p;
    /// Makes the memory of lane `lane`.
    fn pools(&self, lane: usize) -> Result<Self::Pools>;
    /// Takes the queues of lane `lane` into use.
    fn queues<'p>(&'p self, lane: usize, pools: &'p Self::Pools) -> Result<Self::Queues<'p>>;
    /// Returns whether the thread of lane `lane` moves no packets, and only reads the kernel's counters.
    fn only_reads(&self, _lane: usize) -> bool {
        false
    }
    /// Returns layer 2, if mpps itself has a part in it.
    fn link(&self) -> Option<&Link> {
        None
    }
    /// Returns layer 2 of the port of lane `lane`, if lanes have different ones.
    fn link_of(&self, _lane: usize) -> Option<&Link> {
        self.link()
    }
    /// Returns whether lane `lane`, which receives no test packets, looks now and then for hosts that ask for our
    /// addresses.
    fn attends(&self, _lane: usize) -> bool {
        false
    }
    /// Returns the address that neighbours are asked from.
    fn src(&self) -> Option<IpAddr> {
        None
    }
    /// Returns the address that neighbours of lane `lane`'s port are asked from, if lanes have different ones.
    fn src_of(&self, _lane: usize) -> Option<IpAddr> {
        self.src()
    }
    /// Returns whether the neighbours of its port are those of the first (0) or of a second (1).
    fn neighbors_of(&self, _lane: usize) -> usize {
        0
    }
    /// Returns facts of the workload, for the summary of one way or of all.
    fn facts(&self, _trial: &Self::Trial, _way: Option<usize>) -> WorkFacts {
        WorkFacts::default()
    }
    /// Returns the settings of one way, if they differ from those of the whole run.
    fn common_of<'t>(&'t self, _trial: &'t Self::Trial, _way: usize) -> Option<&'t Common> {
        None
    }
    /// Finds the peer's MAC address if one is needed. `ended`: the run is over before it began.
    fn resolve(
        &self,
        _queues: &mut Self::Queues<'_>,
        _found: &[Found; 2],
        _clock: &Clock,
        _ended: &dyn Fn(u64) -> bool,
    ) -> std::result::Result<Option<MacAddr>, RunError> {
        Ok(None)
    }
    /// Runs lane `index` through a trial.
    fn lane(
        &self,
        index: usize,
        lane: Lane<'_>,
        queues: &mut Self::Queues<'_>,
        recorder: Recorder<'_>,
        trial: &Self::Trial,
    ) -> LaneOutcome;
    /// Returns data by which packets of a trial are recognised once it is over, if there may be another trial.
    fn traces(&self, _trial: &Self::Trial) -> Option<Arc<Traces>> {
        None
    }
    /// Empties a lane's receive queue between two trials, and answers questions for our addresses. Returns the number
    /// of packets of the trials that left `traces`.
    fn attend(
        &self,
        _lane: usize,
        _queues: &mut Self::Queues<'_>,
        _found: &[Found; 2],
        _traces: Option<&Traces>,
    ) -> u64 {
        0
    }
}

/// Returns facts in the form that the report takes.
pub(crate) fn told(facts: Vec<Fact>) -> Vec<HostFact> {
    let told = |fact: Fact| HostFact {
        name: fact.name.to_owned(),
        value: fact.value,
        shown: fact.shown,
    };
    facts.into_iter().map(told).collect()
}

/// Returns the watches of ports, each with the place of its port.
pub(crate) fn watches_of<'p, P: Port + 'p>(ports: impl IntoIterator<Item = &'p P>) -> Vec<(usize, Box<dyn Watch>)> {
    let all = ports.into_iter().enumerate();
    all.flat_map(|(place, port)| port.watches().into_iter().map(move |watch| (place, watch)))
        .collect()
}

/// A workload on one port: a lane owns one queue of it.
pub(crate) struct Solo<'r, P, W> {
    pub(crate) port: &'r P,
    pub(crate) work: &'r W,
}

impl<P: Port, W: Work> Desk for Solo<'_, P, W> {
    fn ahead_ns(&self) -> u64 {
        self.work.ahead_ns()
    }

    fn counters(&self, lane: usize, _way: Option<usize>) -> Vec<QueueCounters> {
        vec![self.port.counters(lane)]
    }

    fn rx_dropped(&self, lane: usize, _place: usize, _way: Option<usize>) -> Option<u64> {
        self.port.rx_dropped(lane)
    }

    fn drops_by_queue(&self, _place: usize) -> bool {
        self.port.drops_by_queue()
    }

    fn path(&self) -> String {
        self.port.capabilities().path.to_owned()
    }

    fn watches(&self) -> Vec<(usize, Box<dyn Watch>)> {
        watches_of([self.port])
    }

    fn port_facts(&self) -> Vec<HostFact> {
        told(self.port.facts())
    }

    fn coalesces(&self) -> bool {
        self.port.coalesces()
    }
}

impl<P: Port, W: Work> Job for Solo<'_, P, W> {
    type Trial = W::Trial;

    type Pools = P::Pool;

    type Queues<'p>
        = P::Queue<'p>
    where
        Self: 'p;

    fn pools(&self, lane: usize) -> Result<P::Pool> {
        self.port.pool(lane)
    }

    fn queues<'p>(&'p self, lane: usize, pools: &'p P::Pool) -> Result<P::Queue<'p>> {
        self.port.queue(lane, pools)
    }

    fn link(&self) -> Option<&Link> {
        self.work.link()
    }

    fn src(&self) -> Option<IpAddr> {
        self.work.src()
    }

    fn facts(&self, trial: &W::Trial, _way: Option<usize>) -> WorkFacts {
        self.work.facts(trial)
    }

    /// Asks on lanes that send and listens on lanes that receive, until one of them has received the answer.
    fn resolve(
        &self,
        queue: &mut P::Queue<'_>,
        [found, _]: &[Found; 2],
        clock: &Clock,
        ended: &dyn Fn(u64) -> bool,
    ) -> std::result::Result<Option<MacAddr>, RunError> {
        let Some(link) = self.work.link() else {
            return Ok(None);
        };
        let neighbor = Neighbor::new(link, self.work.src(), found);
        resolve(queue, &neighbor, &[(link, found)], clock, ended)?;
        Ok(link.dest_mac.or(found.get().copied()))
    }

    fn lane(
        &self,
        index: usize,
        lane: Lane<'_>,
        queue: &mut P::Queue<'_>,
        recorder: Recorder<'_>,
        trial: &W::Trial,
    ) -> LaneOutcome {
        let capabilities = self.port.capabilities();
        self.work.lane(index, lane, queue, recorder, capabilities, trial)
    }

    fn traces(&self, trial: &W::Trial) -> Option<Arc<Traces>> {
        self.work.traces(trial)
    }

    fn attend(&self, lane: usize, queue: &mut P::Queue<'_>, [found, _]: &[Found; 2], traces: Option<&Traces>) -> u64 {
        self.work.attend(lane, queue, found, traces)
    }
}

/// Finds the MAC addresses of the next hops of these links, if they are needed and not known. Each link comes with the
/// place where any lane notes its address. The lane asks for the next hop of its own link, `neighbor`'s, until it is
/// known. It answers for that link's own addresses until all next hops are known.
pub(crate) fn resolve<Q: Queue>(
    queue: &mut Q,
    neighbor: &Neighbor<'_>,
    wanted: &[(&Link, &Found)],
    clock: &Clock,
    ended: &dyn Fn(u64) -> bool,
) -> std::result::Result<(), RunError> {
    let missing = || {
        wanted
            .iter()
            .find(|(link, found)| link.is_asked_for() && found.get().is_none())
    };
    let begun = clock.now_ns();
    let mut ask_at = begun;
    let mut burst = Burst::new(32);
    let mut answers = Burst::new(32);
    while let Some((link, _)) = missing() {
        let now = clock.now_ns();
        if ended(now) {
            return Err(RunError::Interrupted);
        }
        if now - begun > RESOLVE_NS {
            return Err(RunError::Unresolved(unresolved(link)));
        }
        if now >= ask_at {
            neighbor.ask(queue)?;
            ask_at = now + ASK_EVERY_NS;
        }
        let n = queue.receive(&mut burst)?;
        for mut frame in burst.drain(n) {
            if neighbor.attend(&mut frame) == Some(true) {
                let _ = answers.push(frame);
            }
        }
        if !answers.is_empty() {
            queue.transmit(&mut answers)?;
            answers.clear();
        }
        if n == 0 {
            queue.wait(Wait { rx: true, tx: false }, Duration::from_millis(5))?;
        }
    }
    Ok(())
}

/// Returns the error text for a next hop that did not answer.
pub(crate) fn unresolved(link: &Link) -> String {
    let hop = link.next_hop.map(|ip| ip.to_string()).unwrap_or_default();
    let vlan = link
        .vlan
        .map(|id| format!("; in VLAN {id} the peer must have an interface, or mpps reflect --ip ADDRESS"))
        .unwrap_or_default();
    format!(
        "nobody answered for {hop} within {} s: is the peer up and on this link? (--dest-mac MAC skips the question; \
         --gateway IP asks a router instead){vlan}{}",
        RESOLVE_NS / 1_000_000_000,
        link.hint
    )
}
