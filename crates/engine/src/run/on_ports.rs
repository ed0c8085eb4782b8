//! Workloads on ports: a table says which lane has which queue of which port, and which packets are its own.
//!
//! A run on one port, one from a port to another, one both ways between two ports and `forward` on any number of ports
//! differ in this table alone.
//!
//! Between two ports no device turns packets round, so they arrive as they were sent. Each lane owns a queue of one
//! port. One way, the first lanes send by the first port, the others receive at the second. Both ways, each lane does
//! both. It sends packets of one track and receives packets of the other. The two have counts, rows and verdicts of
//! their own.

use crate::lane::neighbor::Found;
use crate::plan::{Common, ForwardPlan, ForwardSeat, Hop, LanePlan, Link, MOST_BESIDE, Packets, TrafficPlan};
use crate::run::any_port::{AnyPort, LaneStart, Start};
use crate::run::job::{AnyLane, Job, LaneTracks, host_facts, in_one, join};
use crate::workload::{TrafficTrial, Work, WorkFacts};
use mpps_io::around::Watch;
use mpps_io::{Capabilities, Port, QueueCounters, Result, counter};
use mpps_stats::{ArrivalTimes, HostFact};
use std::net::IpAddr;

/// Names of the two ways between two ports.
pub(crate) const WAYS: [&str; 2] = ["A to B", "B to A"];

/// Names of the packets of ports that run beside each other.
const BESIDE: [&str; MOST_BESIDE] = [
    "stream 0",
    "stream 1",
    "stream 2",
    "stream 3",
    "stream 4",
    "stream 5",
    "stream 6",
    "stream 7",
    "stream 8",
    "stream 9",
    "stream 10",
    "stream 11",
    "stream 12",
    "stream 13",
    "stream 14",
    "stream 15",
];

/// Counters of arriving packets, and of departing ones: with traffic both ways they belong to one way only.
const OF_ARRIVALS: [&str; 3] = [counter::LEFT_TO_HOST, counter::NO_SOCKET, counter::NO_ROOM_FOR_RX_TIME];
const OF_DEPARTURES: [&str; 1] = [counter::DROPPED_SENT];

/// A workload and its ports.
pub(crate) struct OnPorts<'r> {
    /// Ports of the run, by place.
    pub(crate) ports: Vec<&'r dyn AnyPort>,
    /// Layer 2 of each port, if mpps has a part in it, and the address that neighbours are asked from.
    links: Vec<(Option<&'r Link>, Option<IpAddr>)>,
    seats: Vec<Seat<'r>>,
    /// Names of the tracks, if there are several.
    tracks: &'static [&'static str],
    pub(crate) work: Work<'r>,
}

/// Place of a lane: its queues, and its part of the packets.
struct Seat<'r> {
    start: &'r dyn LaneStart,
    /// Number of its queue of each port that it has a queue of.
    queue: usize,
    /// Place of its port, or of the first.
    port: usize,
    /// Place of its second port.
    second: Option<usize>,
    /// Whether it takes packets from its port, and from the second.
    from: [bool; 2],
    /// Track of the packets that it sends.
    sends: Option<usize>,
    /// Track of the packets that it receives.
    takes: Option<usize>,
}

impl<'r> Seat<'r> {
    /// Makes the seat of a lane with one queue.
    fn new(port: &'r dyn AnyPort, place: usize, queue: usize) -> Self {
        Self {
            start: port,
            queue,
            port: place,
            second: None,
            from: [true, false],
            sends: Some(0),
            takes: Some(0),
        }
    }

    fn places(&self) -> impl Iterator<Item = usize> {
        [self.port].into_iter().chain(self.second)
    }
}

impl<'r> OnPorts<'r> {
    /// Makes a workload other than `forward` on one port: lane and queue have the same number.
    pub(crate) fn one(port: &'r dyn AnyPort, lanes: usize, work: Work<'r>) -> Self {
        Self {
            ports: vec![port],
            links: vec![work.link()],
            seats: (0..lanes).map(|lane| Seat::new(port, 0, lane)).collect(),
            tracks: &[],
            work,
        }
    }

    /// Makes `sendrecv` or `send` on one port, or between two. One way, sending lanes of the plan have the queues of
    /// the first port in their order, and receiving lanes those of the second. Both ways, it is the first half of the
    /// lanes, and the other.
    pub(crate) fn traffic(ports: &[&'r dyn AnyPort], plan: &'r TrafficPlan) -> Self {
        if !plan.beside.is_empty() {
            return Self::beside(ports, plan);
        }
        let (lanes, work) = (&plan.common.lanes, Work::Traffic(plan));
        let &[from, to] = ports else {
            return Self::one(ports[0], lanes.len(), work);
        };
        let both = plan.back.is_some();
        let mut queues = [0, 0];
        let seat = |(i, lane): (usize, &LanePlan)| {
            let first = if both { i < lanes.len() / 2 } else { lane.tx };
            let place = usize::from(!first);
            queues[place] += 1;
            let (sends, takes) = match both {
                true => (Some(place), Some(1 - place)),
                false => (first.then_some(0), (!first).then_some(0)),
            };
            Seat {
                sends,
                takes,
                ..Seat::new(ports[place], place, queues[place] - 1)
            }
        };
        Self {
            ports: vec![from, to],
            links: vec![work.link(), (plan.far.as_ref(), Some(plan.dst))],
            seats: lanes.iter().enumerate().map(seat).collect(),
            tracks: if both { &WAYS } else { &[] },
            work,
        }
    }

    /// Makes `sendrecv` or `send` on ports that run beside each other: the packets of each come back where they left.
    fn beside(ports: &[&'r dyn AnyPort], plan: &'r TrafficPlan) -> Self {
        assert_eq!(ports.len(), plan.each().count(), "a port for each plan");
        let lanes = plan.each().enumerate().map(|(place, of)| match place {
            0 => of.own_lanes(),
            _ => of.common.lanes.len(),
        });
        let seats = lanes.enumerate().flat_map(|(place, lanes)| {
            (0..lanes).map(move |queue| Seat {
                sends: Some(place),
                takes: Some(place),
                ..Seat::new(ports[place], place, queue)
            })
        });
        Self {
            ports: ports.to_vec(),
            links: plan.each().map(|of| (of.link.as_ref(), Some(of.src))).collect(),
            seats: seats.collect(),
            tracks: &BESIDE[..ports.len()],
            work: Work::Traffic(plan),
        }
    }

    /// Makes `forward`. `pairs`: the ports of each pair of the plan.
    pub(crate) fn forward(
        ports: &[&'r dyn AnyPort],
        pairs: &'r [Box<dyn LaneStart + 'r>],
        plan: &'r ForwardPlan,
    ) -> Self {
        let seat = |lane: usize| {
            let ForwardSeat { first, second, index } = plan.seat(lane);
            let from = |place| plan.takes(lane, place);
            Seat {
                start: second.map_or(ports[first], |_| &*pairs[first / 2]),
                second,
                from: [from(first), second.is_some_and(from)],
                ..Seat::new(ports[first], first, index)
            }
        };
        Self {
            ports: ports.to_vec(),
            links: vec![(None, None); ports.len()],
            seats: (0..plan.common.lanes.len()).map(seat).collect(),
            tracks: &[],
            work: Work::Forward(plan),
        }
    }

    fn each_port(&self) -> impl Iterator<Item = &'r dyn Port> {
        self.ports.iter().map(|port| port.port())
    }

    /// Returns the ports that packets of this track leave by and arrive at, or all.
    fn ports_of(&self, track: Option<usize>) -> impl Iterator<Item = &'r dyn Port> {
        let own = track.filter(|_| matches!(self.work, Work::Traffic(plan) if !plan.beside.is_empty()));
        let each = self.each_port().enumerate();
        each.filter(move |(place, _)| own.is_none_or(|own| own == *place))
            .map(|(_, port)| port)
    }

    /// Returns whether lane `lane` sends packets of this track, or of any.
    fn sends(&self, lane: usize, track: Option<usize>) -> bool {
        is_one_of(self.seats[lane].sends, track)
    }

    /// Returns whether lane `lane` receives packets of this track, or of any.
    fn takes_of(&self, lane: usize, track: Option<usize>) -> bool {
        is_one_of(self.seats[lane].takes, track)
    }

    /// Returns the capabilities of a lane's port, or of its first.
    pub(crate) fn capabilities_of(&self, lane: usize) -> &Capabilities {
        self.ports[self.seats[lane].port].port().capabilities()
    }

    /// Returns layer 2 of all ports and further next hops, each with the place where the next hop's address is noted.
    pub(crate) fn wanted<'a>(&'a self, found: &'a [Found]) -> Vec<(&'a Link, &'a Found)> {
        let links = self
            .links
            .iter()
            .map(|(link, _)| *link)
            .chain(self.hops().iter().map(|hop| Some(&hop.link)));
        links
            .zip(found)
            .filter_map(|(link, found)| Some((link?, found)))
            .collect()
    }

    /// Returns whether a lane looks at its queue between two trials: only a lane beside receiving ones does not.
    pub(crate) fn looks_between_trials(&self, lane: usize) -> bool {
        self.work.receives(lane) || self.attends(lane)
    }
}

/// Returns whether a lane's track is this one, or any.
fn is_one_of(own: Option<usize>, track: Option<usize>) -> bool {
    own.is_some_and(|own| track.is_none_or(|track| track == own))
}

impl Job for OnPorts<'_> {
    fn with_lane(&self, lane: usize, run: &mut dyn FnMut(&mut dyn AnyLane)) -> Result<()> {
        let Seat { start, queue, .. } = self.seats[lane];
        start.start(queue, Start { job: self, lane, run })
    }

    fn queue_number(&self, lane: usize) -> usize {
        self.seats[lane].queue
    }

    fn ports(&self) -> usize {
        self.ports.len()
    }

    fn port_of(&self, lane: usize) -> usize {
        self.seats[lane].port
    }

    fn link_of(&self, lane: usize) -> Option<&Link> {
        self.links[self.seats[lane].port].0
    }

    fn src_of(&self, lane: usize) -> Option<IpAddr> {
        self.links[self.seats[lane].port].1
    }

    fn hops(&self) -> &[Hop] {
        match self.work {
            Work::Traffic(plan) if plan.beside.is_empty() => plan.packets.as_ref().map_or(&[], |of| &of.hops),
            _ => &[],
        }
    }

    /// Only lanes that do not receive attend: a receiving lane answers as it receives.
    fn attends(&self, lane: usize) -> bool {
        self.seats[lane].takes.is_none()
    }

    fn ahead_ns(&self) -> u64 {
        self.work.ahead_ns()
    }

    fn tracks(&self) -> &'static [&'static str] {
        self.tracks
    }

    fn tracks_of(&self, lane: usize) -> LaneTracks {
        let Seat { sends, takes, .. } = self.seats[lane];
        LaneTracks {
            sends: sends.unwrap_or(0),
            takes: takes.unwrap_or(0),
        }
    }

    fn counters(&self, lane: usize, track: Option<usize>) -> Vec<QueueCounters> {
        let seat = &self.seats[lane];
        let mut counters = vec![QueueCounters::default(); self.ports.len()];
        for place in seat.places() {
            let own = &mut counters[place];
            *own = self.ports[place].port().counters(seat.queue);
            // Packets that arrive at a port without a receiving lane are none of the test's: they do not count as lost.
            if !self.takes_of(lane, track) {
                own.rx_dropped = 0;
            }
            if self.tracks.is_empty() {
                continue;
            }
            if !self.takes_of(lane, track) {
                own.other.retain(|(name, _)| !OF_ARRIVALS.contains(name));
            }
            if !self.sends(lane, track) {
                own.tx_failed = 0;
                own.other.retain(|(name, _)| !OF_DEPARTURES.contains(name));
            }
        }
        counters
    }

    fn rx_dropped(&self, lane: usize, place: usize, track: Option<usize>) -> Option<u64> {
        let seat = &self.seats[lane];
        if !self.takes_of(lane, track) || seat.places().all(|own| own != place) {
            return Some(0);
        }
        self.ports[place].port().rx_dropped(seat.queue)
    }

    fn takes(&self, lane: usize, place: usize) -> bool {
        let seat = &self.seats[lane];
        let from = [(Some(seat.port), seat.from[0]), (seat.second, seat.from[1])];
        from.contains(&(Some(place), true))
    }

    fn drops_by_queue(&self, place: usize) -> bool {
        self.ports[place].port().drops_by_queue()
    }

    fn arrival_times(&self) -> ArrivalTimes {
        let is_taken = |place: usize| (0..self.seats.len()).any(|lane| self.takes(lane, place));
        let noted = |(place, port): (usize, &&dyn AnyPort)| port.port().times_arrivals() && is_taken(place);
        let measures = matches!(self.work, Work::Traffic(_) | Work::Drop(_));
        match measures && self.ports.iter().enumerate().any(noted) {
            true => ArrivalTimes::Noted,
            false => ArrivalTimes::Unknown,
        }
    }

    fn path(&self, track: Option<usize>) -> String {
        in_one(self.ports_of(track).map(|port| port.capabilities().path.to_owned()))
    }

    fn watches(&self) -> Vec<(usize, Box<dyn Watch>)> {
        let all = self.each_port().enumerate();
        all.flat_map(|(place, port)| port.watches().into_iter().map(move |watch| (place, watch)))
            .collect()
    }

    fn port_facts(&self, track: Option<usize>) -> Vec<HostFact> {
        join(
            &self
                .ports_of(track)
                .map(|port| host_facts(port.facts()))
                .collect::<Vec<_>>(),
        )
    }

    fn coalesces(&self, track: Option<usize>) -> bool {
        let apart = !matches!(self.work, Work::Traffic(plan) if plan.far.is_some());
        let apart = apart && !matches!(self.work, Work::Forward(_));
        apart && self.ports_of(track).any(Port::coalesces)
    }

    fn port_names(&self) -> Vec<String> {
        match self.work {
            Work::Forward(plan) => plan.ports.iter().map(|port| port.name.clone()).collect(),
            _ => Vec::new(),
        }
    }

    fn latency_note(&self, measured: bool) -> Option<&'static str> {
        let across = matches!(self.work, Work::Traffic(plan) if plan.far.is_some());
        (measured && across).then_some(match self.tracks {
            [] => {
                "one way, from just before the packet is handed to the first port to just after it was taken from the \
                 second, in mpps: no clocks differ"
            }
            _ => {
                "one way, from just before the packet is handed to one port to just after it was taken from the other, \
                 in mpps: no clocks differ"
            }
        })
    }

    fn facts(&self, trial: &[TrafficTrial], track: Option<usize>) -> WorkFacts {
        let first = trial.get(track.unwrap_or(0));
        let facts = first.map(TrafficTrial::facts).unwrap_or_default();
        let same = |of: &TrafficTrial| of.plan.frame_size == facts.frame_size;
        match track {
            // Packets of several sizes have none.
            None if !trial.iter().all(same) => WorkFacts { frame_size: 0, ..facts },
            _ => facts,
        }
    }

    fn packets<'t>(&'t self, trial: &'t [TrafficTrial]) -> Option<&'t Packets> {
        match (&self.work, trial) {
            (Work::Drop(plan), _) => plan.streams.as_deref(),
            (_, [one]) => one.plan.packets.as_ref(),
            // Both ways have the streams of each.
            (Work::Traffic(plan), [one, ..]) if plan.beside.is_empty() => one.plan.packets.as_ref(),
            _ => None,
        }
    }

    fn common_of<'t>(&'t self, trial: &'t [TrafficTrial], track: usize) -> Option<&'t Common> {
        (!self.tracks.is_empty()).then(|| &trial[track].plan.common)
    }
}
