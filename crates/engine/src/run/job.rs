//! The job of a run: its workload, together with its ports.
//!
//! The common part of a run ([`crate::run::crew`]) knows neither how many ports there are nor what a lane does with its
//! queues. A [`Job`] does: [`OnPorts`](crate::run::on_ports::OnPorts), or a workload that the kernel runs
//! (`kernel`). It has one type for all paths. On the lane's thread it hands over an [`AnyLane`], behind which
//! the loop is compiled for the types of the lane's port.

use crate::error::RunError;
use crate::lane::Lane;
use crate::lane::neighbor::{Found, Neighbor};
use crate::outcome::LaneOutcome;
use crate::plan::{Common, Hop, Link, Packets};
use crate::receive::traces::Traces;
use crate::workload::{TrafficTrial, WorkFacts};
use mpps_io::around::Watch;
use mpps_io::{Burst, Fact, Queue, QueueCounters, Result, Wait};
use mpps_stats::{ArrivalTimes, HostFact, Recorder};
use mpps_sys::clock::Clock;
use mpps_wire::MacAddr;
use std::net::IpAddr;
use std::time::Duration;

/// Time in which the peer must answer for its MAC address, ns.
pub(crate) const RESOLVE_NS: u64 = 3_000_000_000;
/// Time between two questions for it, ns.
pub(crate) const ASK_EVERY_NS: u64 = 100_000_000;

/// The tracks in which a lane sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneTracks {
    pub(crate) sends: usize,
    pub(crate) takes: usize,
}

/// A lane with what it owns: queues over their memory, or a place in the kernel. It stays on its thread.
pub(crate) trait AnyLane {
    /// Finds the peer's MAC address if one is needed. `found`: the neighbours of each port. `ended`: the run is over
    /// before it began.
    fn resolve(
        &mut self,
        _found: &[Found],
        _clock: &Clock,
        _ended: &dyn Fn(u64) -> bool,
    ) -> std::result::Result<Option<MacAddr>, RunError> {
        Ok(None)
    }
    /// Empties the receive queue between two trials, and answers questions for our addresses. Returns the number of
    /// packets of the trials that left `traces`.
    fn attend(&mut self, _found: &[Found], _traces: Option<&Traces>) -> u64 {
        0
    }
    /// Runs the lane through a trial. `trial`: data of each track, if the workload generates packets on lanes.
    fn run(&mut self, lane: Lane<'_>, recorder: Recorder<'_>, trial: &[TrafficTrial]) -> LaneOutcome;
}

/// A workload and its ports, as the main thread and the lanes' threads know them. Nothing here is called per packet.
pub(crate) trait Job: Sync {
    /// Makes the memory of lane `lane`, takes its queues into use, and calls `run` with them, on the calling thread.
    fn with_lane(&self, lane: usize, run: &mut dyn FnMut(&mut dyn AnyLane)) -> Result<()>;
    /// Returns the number of ports that have neighbours.
    fn ports(&self) -> usize;
    /// Returns the place of the port that lane `lane` sends by, or of the first of its ports.
    fn port_of(&self, lane: usize) -> usize;
    /// Returns whether the thread of lane `lane` moves no packets, and only reads the kernel's counters.
    fn only_reads(&self, _lane: usize) -> bool {
        false
    }
    /// Returns layer 2 of the port of lane `lane`, if mpps itself has a part in it.
    fn link_of(&self, lane: usize) -> Option<&Link>;
    /// Returns the address that neighbours of lane `lane`'s port are asked from.
    fn src_of(&self, lane: usize) -> Option<IpAddr>;
    /// Returns lane `lane`'s part in neighbour discovery. `found`: the neighbours of each port.
    fn neighbor<'a>(&'a self, lane: usize, found: &'a [Found]) -> Option<Neighbor<'a>> {
        let (link, port) = (self.link_of(lane)?, self.port_of(lane));
        let more = (self.hops(), &found[self.ports()..]);
        Some(Neighbor::new(link, self.src_of(lane), &found[port], more, port == 0))
    }
    /// Returns further next hops, of packets that leave by the first port. Their places are behind those of the ports.
    fn hops(&self) -> &[Hop] {
        &[]
    }
    /// Returns whether lane `lane`, which receives no test packets, looks now and then for hosts that ask for our
    /// addresses.
    fn attends(&self, _lane: usize) -> bool {
        false
    }
    /// Returns facts of the workload, for the summary of one track or of all.
    fn facts(&self, trial: &[TrafficTrial], track: Option<usize>) -> WorkFacts;
    /// Returns the streams that a trial has results of; `None`: it has none of streams.
    fn packets<'t>(&'t self, _trial: &'t [TrafficTrial]) -> Option<&'t Packets> {
        None
    }
    /// Returns the settings of one track, if they differ from those of the whole run.
    fn common_of<'t>(&'t self, trial: &'t [TrafficTrial], track: usize) -> Option<&'t Common>;
    /// Returns lane `lane`'s number among lanes that serve the same ports: the number of its queues.
    fn queue_number(&self, lane: usize) -> usize;
    /// Returns the names of the tracks in which packets go at the same time, each with counts and a verdict of its own;
    /// none if they go in one track.
    fn tracks(&self) -> &'static [&'static str];
    /// Returns the tracks in which lane `lane` sends and receives: two different ones if there are two.
    fn tracks_of(&self, lane: usize) -> LaneTracks;
    /// Returns counters of the lane's queues: one entry per port, empty for ports that it has no queue of. They are of
    /// one `track`, or (`None`) of all.
    fn counters(&self, lane: usize, track: Option<usize>) -> Vec<QueueCounters>;
    /// Returns packets that this host dropped before lane `lane` could take them from the port at `place`
    /// ([`Port::rx_dropped`](mpps_io::Port::rx_dropped)), of one track or of all; `None`: not known.
    fn rx_dropped(&self, lane: usize, place: usize, track: Option<usize>) -> Option<u64>;
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
    /// Returns who notes when packets arrive.
    fn arrival_times(&self) -> ArrivalTimes;
    /// Returns the path or paths, for the report on one track or on all.
    fn path(&self, track: Option<usize>) -> String;
    /// Returns facts of the port or ports about themselves.
    fn port_facts(&self, track: Option<usize>) -> Vec<HostFact>;
    /// Returns whether one drop of the port may be of many packets.
    fn coalesces(&self, _track: Option<usize>) -> bool {
        false
    }
    /// Returns watches of the interfaces that packets leave by, each with the place of its port.
    fn watches(&self) -> Vec<(usize, Box<dyn Watch>)>;
    /// Returns the ports by name, if the report has a line for each; else none.
    fn port_names(&self) -> Vec<String>;
    /// Returns how long before the start lanes may go, ns. They need this time to get going, and keep to the start
    /// themselves.
    fn ahead_ns(&self) -> u64;
    /// Returns how far ahead the end of an interrupted run lies, ns: the time in which all lanes see it.
    fn notice_ns(&self) -> u64 {
        0
    }
    /// Called once, before any lane runs, with the chosen start and end (`u64::MAX`: not known).
    fn begin(&self, _start_ns: u64, _end_ns: u64) {}
    /// Returns where latency is taken, if not where the workload usually does. `measured`: a latency was measured.
    fn latency_note(&self, measured: bool) -> Option<&'static str>;
}

/// Returns facts in the form that the report takes.
pub(crate) fn host_facts(facts: Vec<Fact>) -> Vec<HostFact> {
    let of_host = |fact: Fact| HostFact {
        name: fact.name.to_owned(),
        value: fact.value,
        shown: fact.shown,
    };
    facts.into_iter().map(of_host).collect()
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
    if let [one] = ports {
        return one.clone();
    }
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
        "nobody answered for {hop} within {} s: is the peer up and on this link?{}{vlan}",
        RESOLVE_NS / 1_000_000_000,
        link.hint
    )
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
