//! What a run works on: its workload, together with the port or ports whose queues the lanes own.
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

/// How long the peer may take to answer for its MAC address.
pub(crate) const RESOLVE_NS: u64 = 3_000_000_000;
/// How often it is asked.
pub(crate) const ASK_EVERY_NS: u64 = 100_000_000;

/// The ways in which a lane sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneWays {
    pub(crate) sends: usize,
    pub(crate) takes: usize,
}

/// What the main thread asks of a workload and its ports. One type to it, whatever the path: it is asked a few times a
/// run, or once per row, and not compiled for each.
pub(crate) trait Desk: Sync {
    /// Lane `lane`'s number among those that serve the same ports: that of its queues.
    fn queue_number(&self, lane: usize) -> usize {
        lane
    }
    /// The ways in which packets go at the same time, each with books and a verdict of its own, by name; none where
    /// they go in one.
    fn ways(&self) -> &'static [&'static str] {
        &[]
    }
    /// The ways in which lane `lane` sends and receives: two where there are two.
    fn ways_of(&self, _lane: usize) -> LaneWays {
        LaneWays { sends: 0, takes: 0 }
    }
    /// Counters of the lane's queues: one entry a port, empty for those that it has no queue of. Of what concerns one
    /// `way`, or (`None`) of all.
    fn counters(&self, lane: usize, way: Option<usize>) -> Vec<QueueCounters>;
    /// Packets that this host dropped before lane `lane` could take them from the port at `place`
    /// ([`Port::rx_dropped`]), of one way or of all; `None` where that can't be told.
    fn rx_dropped(&self, lane: usize, place: usize, way: Option<usize>) -> Option<u64>;
    /// Whether a lane that receives takes what comes in by the port at `place`.
    fn takes(&self, _lane: usize, _place: usize) -> bool {
        true
    }
    /// Whether the port at `place` counts its drops by queue, and not all of them at the first.
    fn drops_by_queue(&self, _place: usize) -> bool {
        true
    }
    /// Whether packets are sent by the kernel, not by the lanes' threads.
    fn kernel_sends(&self) -> bool {
        false
    }
    /// The path or paths, for the report.
    fn path(&self) -> String;
    /// What the port or ports say about themselves.
    fn port_facts(&self) -> Vec<HostFact>;
    /// Whether one drop of the port may be of many packets.
    fn coalesces(&self) -> bool {
        false
    }
    /// Watches of the interfaces that packets leave by, each with the place of its port.
    fn watches(&self) -> Vec<(usize, Box<dyn Watch>)> {
        Vec::new()
    }
    /// The ports by name, where the report tells them apart; else none.
    fn port_names(&self) -> Vec<String> {
        Vec::new()
    }
    /// By how much lanes are let go ahead of the start, ns: what they need to get going, where they keep to the start
    /// themselves.
    fn ahead_ns(&self) -> u64 {
        0
    }
    /// By how much the end of a run that is interrupted lies ahead, ns: what it takes for all lanes to know.
    fn notice_ns(&self) -> u64 {
        0
    }
    /// Start and end (`u64::MAX`: not known) are chosen. Called once, before any lane runs.
    fn begin(&self, _start_ns: u64, _end_ns: u64) {}
    /// Where latency is taken, if not where the workload usually does. `measured`: there is one.
    fn latency_note(&self, _measured: bool) -> Option<&'static str> {
        None
    }
}

/// A workload and its ports.
pub(crate) trait Job: Desk {
    /// State of one trial, made again for the next; `()` where a job has one trial only.
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
    /// Whether the thread of lane `lane` moves no packets, and only reads the kernel's counters.
    fn only_reads(&self, _lane: usize) -> bool {
        false
    }
    /// Layer 2, where mpps itself has a part in it.
    fn link(&self) -> Option<&Link> {
        None
    }
    /// Layer 2 of the port of lane `lane`, where lanes have different ones.
    fn link_of(&self, _lane: usize) -> Option<&Link> {
        self.link()
    }
    /// Whether lane `lane`, which receives no test packets, looks now and then for somebody who asks for our addresses.
    fn attends(&self, _lane: usize) -> bool {
        false
    }
    /// The address that neighbours are asked from.
    fn src(&self) -> Option<IpAddr> {
        None
    }
    /// That of the port of lane `lane`, where lanes have different ones.
    fn src_of(&self, _lane: usize) -> Option<IpAddr> {
        self.src()
    }
    /// Whether the neighbours of its port are those of the first (0) or of a second (1).
    fn neighbors_of(&self, _lane: usize) -> usize {
        0
    }
    /// For the summary of one way or of all.
    fn facts(&self, _trial: &Self::Trial, _way: Option<usize>) -> WorkFacts {
        WorkFacts::default()
    }
    /// What the run is in one way, where that is not what it is as a whole.
    fn common_of<'t>(&'t self, _trial: &'t Self::Trial, _way: usize) -> Option<&'t Common> {
        None
    }
    /// Finds the peer's MAC address where one is needed. `ended`: the run is over before it began.
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
    /// How packets of a trial are known once it is over, where there may be another.
    fn traces(&self, _trial: &Self::Trial) -> Option<Arc<Traces>> {
        None
    }
    /// Between two trials: empties what a lane receives by, and answers who asks. Returns how many packets were of the
    /// trials that left `traces`.
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

/// Facts as the report takes them.
pub(crate) fn told(facts: Vec<Fact>) -> Vec<HostFact> {
    let told = |fact: Fact| HostFact {
        name: fact.name.to_owned(),
        value: fact.value,
        shown: fact.shown,
    };
    facts.into_iter().map(told).collect()
}

/// The watches of ports, each with the place of its port.
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

    /// Every lane asks if it sends and listens if it receives, until one has heard.
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

/// Finds the MAC addresses of the next hops of these links, where they are not known and are needed, each with the
/// place where any lane notes it. Asks for that of its own link, `neighbor`'s, until it is heard, and answers for the
/// addresses of that until all are.
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

/// What is told when nobody has answered.
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
