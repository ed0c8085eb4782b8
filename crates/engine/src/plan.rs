//! Validated plans: a run's work, with every choice made. The program makes them from arguments.

use crate::headers::numbered::Numbered;
use crate::headers::{mirrored, without_tag};
use crate::stamped::StampMemory;
use crate::streams::Streams;
use mpps_io::packet_ring::PacketProducer;
use mpps_io::selection::Headers;
use mpps_io::{AddressRange, Error, FlowSet, Pacing, Rate, RateStep, Rates, Result};
use mpps_io::{OnFull, Work};
use mpps_replay::{Frames, Schedule};
use mpps_stats::{HostFact, Remark};
use mpps_sys::clock::ClockTime;
use mpps_sys::sched::Priority;
use mpps_trace::KernelDrops;
use mpps_wire::changes::FieldAt;
use mpps_wire::image::Sizes;
use mpps_wire::{CaptureFilter, ImageSpec, MacAddr, ReflectFilter, Rewrite, TakeFilter};
use std::fmt::Debug;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// One lane: a thread, its roles, its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LanePlan {
    /// Whether the lane receives.
    pub rx: bool,
    /// Whether the lane sends test traffic.
    pub tx: bool,
    /// Core to pin the lane to; `None` leaves it to the scheduler.
    pub core: Option<usize>,
}

impl LanePlan {
    /// A lane that receives and sends, on any core.
    pub const BOTH: Self = Self {
        rx: true,
        tx: true,
        core: None,
    };
}

/// Thread of a run that has opened all that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// Lane with this number: its pool and queue are made, and the peer's address is known.
    Lane(usize),
    /// Main thread, which started the lanes. It comes after them.
    Main,
}

/// Party for which a run takes place. It knows what the engine does not: privileges, and programs in the kernel that
/// watch the run.
pub trait Owner: Debug + Send + Sync {
    /// Has the calling thread give up the privileges that it no longer needs. Each thread of the run calls this once,
    /// before the start.
    ///
    /// # Errors
    /// If they can't be given up: there is no run then.
    fn opened(&self, _thread: Opened) -> std::io::Result<()> {
        Ok(())
    }

    /// Returns memory in which a lane, by its number, notes the times that it stamps packets with; `None`: no program
    /// uses them. Called with a trace, when all threads are ready, before the lane's first packet.
    fn stamps(&self, _lane: usize) -> Option<StampMemory> {
        None
    }

    /// Returns packets of the run that the kernel dropped; `None`: no program looked. Called with a trace, once the
    /// lanes have ended, before the verdict.
    fn kernel_drops(&self) -> Option<KernelDrops> {
        None
    }
}

/// Owner without privileges and programs.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl Owner for Nobody {}

/// Name of the fact that lists the UDP ports which a listener leaves to programs of the host: the remarks look for it.
pub const LEFT_TO_HOST_PORTS: &str = "left_to_host_ports";

/// Settings that every run has.
#[derive(Clone, Debug)]
pub struct Common {
    /// The lanes; lane `i` drives queue `i` of the port (forwarding between more than two: see [`ForwardPlan::seat`]).
    pub lanes: Vec<LanePlan>,
    /// Length of the sending (or receiving) phase; `None`: until interrupted.
    pub duration: Option<Duration>,
    /// Instant at which the lanes start, all together; `None`: once all is ready.
    pub start_at: Option<ClockTime>,
    /// Test packets to send, over all lanes of a way: sending ends with the last of them. `None`: as many as there is
    /// time for.
    pub count: Option<u64>,
    /// Handle by which the caller starts, stops and slows down streams while the run goes on; `None`: they do as the
    /// plan says. Not for a number of packets, and not supported by programs in the kernel.
    pub streams: Option<Streams>,
    /// Length of a row.
    pub interval: Duration,
    /// How long a packet may take to come back and count as received, and how long receiving goes on at the end.
    pub settle: Duration,
    /// Receiving ends before the settle time is over, once every packet is back and none has come for a while.
    pub settle_early: bool,
    /// Most frames received in a burst, 1 to [`mpps_io::MAX_BURST`]; [`TrafficPlan::tx_burst`] limits sent ones.
    pub burst: usize,
    /// Never sleep, even when idle.
    pub busy_poll: bool,
    /// Scheduling priority of the lanes' threads; `None`: as other threads.
    pub priority: Option<Priority>,
    /// Lanes outnumber cores, or two are pinned to one: a lane that is idle sleeps at once.
    pub share_cores: bool,
    /// Seed of the payload data and of random gaps.
    pub seed: u64,
    /// Facts for the report, beside those that the engine adds.
    pub host: Vec<HostFact>,
    /// Warnings that the planning found.
    pub warnings: Vec<Remark>,
    /// Party for which the run takes place.
    pub owner: Arc<dyn Owner>,
    /// Options for recording each round of the lanes; `None`: nothing is recorded.
    pub trace: Option<TraceOptions>,
    /// Frames to be copied for a thread that writes them to a file meanwhile; `None`: none. A run in the kernel ignores
    /// this, as only lanes have frames.
    pub sample: Option<SampleOptions>,
    /// Number of the run, at random.
    pub run_id: u64,
}

/// One of every so many frames of each lane, as it was received or sent. The rings serve one trial: a lane closes its
/// own at the end.
#[derive(Clone, Debug)]
pub struct SampleOptions {
    /// Received frames per copied one, and sent frames per copied one; 1 or more.
    pub every: u64,
    /// Most bytes kept of a frame.
    pub snap_len: usize,
    /// Each lane's way to the writer; the lane takes it.
    pub rings: Arc<[Mutex<Option<PacketProducer>>]>,
}

/// Options for recording rounds of the lanes.
///
/// Each lane writes into a ring, and the newest record takes the place of the oldest. Windows around events of interest
/// are kept from there: of all lanes, as the cause may be at another one.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// A window for a round, or a lane that woke too late, by more than this.
    pub stall: Option<Duration>,
    /// A window for a packet that left later than this after its time.
    pub late: Option<Duration>,
    /// A window for each row that lost packets: as long as the row.
    pub loss: bool,
    /// A window whenever this host dropped packets: from the reading of its counters before to the reading that shows
    /// the drops.
    pub drop: bool,
    /// Everything that is still in the rings at the end of a run is kept if the run is not valid.
    pub invalid: bool,
    /// Time by which a window begins before its cause.
    pub before: Duration,
    /// Time by which a window ends after its cause.
    pub after: Duration,
    /// Most windows that are kept.
    pub windows: usize,
    /// Time after a window's cause in which another cause gets no window of its own.
    pub cool_down: Duration,
    /// Everything is kept, in place of windows.
    pub all: bool,
    /// Memory for kept records, bytes. Further records are left out.
    pub memory: usize,
    /// Memory for the rings of all lanes together, bytes; a round takes 64.
    pub ring_bytes: usize,
}

impl Default for TraceOptions {
    /// No cause gives a window.
    fn default() -> Self {
        Self {
            stall: None,
            late: None,
            loss: false,
            drop: false,
            invalid: false,
            before: Duration::from_millis(5),
            after: Duration::from_millis(1),
            windows: 50,
            cool_down: Duration::from_millis(20),
            all: false,
            memory: 256 << 20,
            ring_bytes: 64 << 20,
        }
    }
}

impl Default for Common {
    /// Has no lanes, which the caller gives, and no end. Has a number at random, rows of 10 ms, no time to settle,
    /// bursts of 32, threads as all others, and records nothing.
    fn default() -> Self {
        Self {
            lanes: Vec::new(),
            duration: None,
            start_at: None,
            count: None,
            streams: None,
            interval: Duration::from_millis(10),
            settle: Duration::ZERO,
            settle_early: false,
            burst: 32,
            busy_poll: false,
            priority: None,
            share_cores: false,
            seed: 1,
            host: Vec::new(),
            warnings: Vec::new(),
            owner: Arc::new(Nobody),
            trace: None,
            sample: None,
            run_id: mpps_sys::random_number(),
        }
    }
}

impl Common {
    /// Has the calling thread give up privileges that it no longer needs.
    pub(crate) fn opened(&self, opened: Opened) -> Result<()> {
        let whose = || match opened {
            Opened::Lane(number) => format!("lane {number}"),
            Opened::Main => "the main thread".to_owned(),
        };
        self.owner
            .opened(opened)
            .map_err(|e| Error::os("give up privileges of", whose(), &e))
    }
}

impl Common {
    /// Returns cores that lanes are pinned to.
    pub(crate) fn cores(&self) -> Vec<usize> {
        self.lanes.iter().filter_map(|lane| lane.core).collect()
    }
}

/// Layer 2 of an Ethernet path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Our MAC address.
    pub mac: MacAddr,
    /// VLAN identifier of the test's packets.
    pub vlan: Option<u16>,
    /// Addresses that mpps answers for (ARP, neighbour solicitation, ping). Empty if the host does so itself.
    pub answer_for: Vec<AddressRange>,
    /// Addresses whose pings are not answered: our own other addresses, and addresses of our subnets that no host has.
    pub unanswered: Vec<IpAddr>,
    /// The peer's MAC address, if known; else [`Link::next_hop`] is resolved before the run.
    pub dest_mac: Option<MacAddr>,
    /// The address to resolve: the peer's, or its gateway's.
    pub next_hop: Option<IpAddr>,
    /// Advice and a likely cause if nobody answers for [`Link::next_hop`], as the end of the error's sentence.
    pub hint: String,
}

impl Link {
    /// Returns whether the next hop's MAC address must be found out.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.dest_mac.is_none() && self.next_hop.is_some()
    }
}

/// Packets of any headers, each known by the tag at its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Packets {
    /// Streams, one or more; their flows are numbered over all of them, without gaps.
    pub streams: Vec<PacketStream>,
    /// The port at which packets arrive takes their outermost VLAN tag off: the second port, or the only one; and the
    /// first.
    pub stripped: [bool; 2],
    /// Next hops beside that of [`TrafficPlan::link`], of streams that leave by the first port.
    pub hops: Vec<Hop>,
    /// They are those of the way back: the lanes send the streams that leave by the second port.
    pub turned: bool,
}

/// Further next hop of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Next hop, and the VLAN in which it is asked; all else is as in [`TrafficPlan::link`].
    pub link: Link,
    /// Address that it is asked from.
    pub src: IpAddr,
}

/// One stream.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketStream {
    /// Name, unique among the streams.
    pub name: String,
    /// It leaves by the second of two ports, and arrives at the first.
    pub back: bool,
    /// Group whose results are added up.
    pub group: Option<String>,
    /// Percentiles of its own, also among many streams.
    pub tracked: bool,
    /// Headers, fields that vary, checksums and payload, for each size of its frames, smallest first; empty if it is a
    /// replay. The engine sets the run of the tags.
    pub specs: Vec<Arc<ImageSpec>>,
    /// Frames of a capture that it sends, in place of packets that are made.
    pub replay: Option<Replay>,
    /// Bytes of the headers that the kernel writes in front of each of its frames; 0 on Ethernet paths.
    pub kernel_headers: usize,
    /// Order of these sizes.
    pub sizes: Sizes,
    /// Mean length of its frames with FCS, bytes.
    pub mean_size: f64,
    /// The destination MAC address is that of a next hop, not the one in the headers: 0 is that of
    /// [`TrafficPlan::link`], others are those of [`Packets::hops`].
    pub to_next_hop: Option<usize>,
    /// The source MAC address is the port's, not the one in the headers.
    pub from_port: bool,
    /// Bytes behind Ethernet header and VLAN tags of its largest frame: the length that an MTU limits.
    pub packet_len: usize,
    /// Source and destination addresses of the outermost IP header.
    pub ends: [Vec<AddressRange>; 2],
    /// How a receiver knows its packets.
    pub known_by: KnownBy,
    /// Fields of the headers that are compared in packets that arrive.
    pub fields: Arc<[FieldAt]>,
    /// When its packets leave; `None`: as the plan says ([`TrafficPlan::rate`]).
    pub load: Option<StreamLoad>,
    /// Places among the lanes that send, in ascending order: those that send it. Empty: all. No more are used than it
    /// has flows.
    pub lanes: Vec<usize>,
}

/// How a receiver knows the packets of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum KnownBy {
    /// By the tag at their end; packets of a capture also by their content.
    #[default]
    Tag,
    /// By addresses, ports and sequence number of TCP.
    Number(Arc<Numbered>),
    /// By headers alone: that some came, and not which.
    Headers,
}

/// Frames of a capture, as a stream. Each lane that sends has a flow of its own, in the order of the capture.
#[derive(Clone, Debug)]
pub struct Replay {
    /// Frames.
    pub frames: Arc<Frames>,
    /// Spacing of the frames, at the rate of its [`StreamLoad`]; `None`: they have none of their own.
    pub schedule: Option<Schedule>,
    /// Highest rate over the settle time, as a multiple of the mean rate; 1 without a spacing.
    pub peak: f64,
    /// Number of its first flow among those of all streams.
    pub first_flow: u32,
    /// Key of its tags.
    pub seed: u64,
}

impl PartialEq for Replay {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.frames, &other.frames)
            && (self.schedule, self.first_flow, self.seed) == (other.schedule, other.first_flow, other.seed)
    }
}

/// Load of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLoad {
    /// Rate over all lanes; `None`: it takes turns with the other streams without a rate, as fast as the path takes
    /// packets. Either all streams have a rate, or none has.
    pub rate: Option<Rate>,
    /// How departures are spread.
    pub pacing: Pacing,
    /// Packets of it for each packet of a stream of weight 1, without a rate; 1 or more.
    pub weight: u32,
    /// Time from the start of the run to its start, ns.
    pub start_ns: u64,
    /// Number of its packets; `None`: as many as there is time for.
    pub packets: Option<u64>,
}

impl Packets {
    /// Returns the only stream, if it has one size, no load of its own, and a flow for each of `senders` lanes.
    pub fn plain(&self, senders: usize) -> Option<&PacketStream> {
        let simple = |one: &PacketStream| {
            let bare = !one.back && one.replay.is_none() && one.load.is_none() && one.lanes.is_empty();
            bare && one.specs.len() == 1 && one.known_by == KnownBy::Tag
        };
        match &self.streams[..] {
            [one] if simple(one) && one.flows() as usize >= senders => Some(one),
            _ => None,
        }
    }

    /// Returns whether streams go both ways between two ports.
    pub(crate) fn go_back(&self) -> bool {
        self.streams.iter().any(|stream| stream.back)
    }

    /// Returns whether the lanes of this way send a stream.
    pub(crate) fn sends(&self, stream: &PacketStream) -> bool {
        stream.back == self.turned
    }

    /// Returns the bytes of the largest frame, without FCS.
    pub(crate) fn frame_len(&self) -> usize {
        self.streams.iter().flat_map(PacketStream::lens).max().unwrap_or(0)
    }

    /// Returns whether there are times in which a stream sends nothing: no packet coming is then no outage.
    pub(crate) fn pause(&self) -> bool {
        let pauses =
            |load: &StreamLoad| load.start_ns > 0 || load.packets.is_some() || matches!(load.pacing, Pacing::Bursts(_));
        self.streams
            .iter()
            .filter_map(|stream| stream.load.as_ref())
            .any(pauses)
    }
}

impl PacketStream {
    /// Returns the number of flows.
    pub fn flows(&self) -> u32 {
        match &self.replay {
            Some(replay) => replay.frames.lanes().max(1) as u32,
            None => self.specs.first().map_or(1, |spec| spec.flows.max(1)),
        }
    }

    /// Returns the lengths of its frames, ascending, bytes without FCS.
    pub fn lens(&self) -> Vec<usize> {
        match &self.replay {
            Some(replay) => replay.frames.lens().to_vec(),
            None => self.specs.iter().map(|spec| spec.frame_len).collect(),
        }
    }

    /// Returns the stream that goes the other way, with its ends exchanged and flows from `first_flow` on.
    pub fn mirrored(self, first_flow: u32) -> Self {
        let [src, dst] = self.ends;
        let turned = |spec: &Arc<ImageSpec>| {
            let spec = mirrored(spec);
            Arc::new(ImageSpec { first_flow, ..spec })
        };
        Self {
            back: !self.back,
            specs: self.specs.iter().map(turned).collect(),
            to_next_hop: self.from_port.then_some(0),
            from_port: self.to_next_hop.is_some(),
            ends: [dst, src],
            ..self
        }
    }

    /// Returns the headers by which its packets are known without a tag; `None`: they have no IP header.
    pub fn headers(&self) -> Option<Headers> {
        without_tag(&self.ends, self.specs.first()?)
    }

    /// Returns the number of its first flow among those of all streams.
    pub fn first_flow(&self) -> u32 {
        match &self.replay {
            Some(replay) => replay.first_flow,
            None => self.specs.first().map_or(0, |spec| spec.first_flow),
        }
    }

    /// Returns the places, among `senders` lanes that send, of those that send it. `number`: that of the stream.
    /// Streams of few flows have different ones. Flow `f` is sent by the one at place `f` modulo their number.
    pub fn senders(&self, number: usize, senders: usize) -> Vec<usize> {
        let all: Vec<usize> = match self.lanes.is_empty() {
            true => (0..senders).collect(),
            false => self.lanes.iter().copied().filter(|lane| *lane < senders).collect(),
        };
        let used = all.len().min(self.flows() as usize);
        let first = if used < all.len() { number } else { 0 };
        let mut used: Vec<usize> = (0..used).map(|at| all[(first + at) % all.len()]).collect();
        used.sort_unstable();
        used
    }
}

/// Most ports that run beside each other.
pub const MOST_BESIDE: usize = 16;

/// Plan of `sendrecv` and `send`.
#[derive(Clone, Debug)]
pub struct TrafficPlan {
    /// Settings that every run has.
    pub common: Common,
    /// Packets come back and are received; else they are only sent.
    pub receive: bool,
    /// First source address of the packets; the flows contain the number of addresses. Questions for MAC addresses come
    /// from it.
    pub src: IpAddr,
    /// First destination address of the packets.
    pub dst: IpAddr,
    /// Ports, and how many addresses.
    pub flows: FlowSet,
    /// Packets of any headers, in place of UDP between these addresses and ports; [`TrafficPlan::flows`] then only
    /// numbers the flows, and `payload_len`, `ttl` and `dscp` are not used. On payload paths their images have no
    /// headers, and each stream has a load; a frame's flow is then its number among those of all streams.
    pub packets: Option<Packets>,
    /// UDP payload, bytes; 16 or more.
    pub payload_len: usize,
    /// Frame with FCS, bytes, as rates count it.
    pub frame_size: usize,
    /// Rate over all lanes; `None`: as fast as the path takes packets.
    pub rate: Option<Rate>,
    /// Another rate from some time on; ignored without a rate, and not supported by programs in the kernel.
    pub then: Option<RateStep>,
    /// How departures are spread.
    pub pacing: Pacing,
    /// Most packets of a burst that is sent, 1 to [`mpps_io::MAX_BURST`]; [`Common::burst`] is the limit for received
    /// ones.
    pub tx_burst: usize,
    /// How far a lane may fall behind its schedule and still catch up; departures that are older are missed.
    pub catch_up: Duration,
    /// Largest |offered − intended| / intended of a valid trial.
    pub tolerance: f64,
    /// TTL or hop limit.
    pub ttl: u8,
    /// DSCP.
    pub dscp: u8,
    /// Layer 2; `None` on payload paths.
    pub link: Option<Link>,
    /// Layer 2 of the port at which packets arrive as they were sent, if that is another port than they leave by
    /// ([`crate::run_traffic`] on two ports). With traffic both ways, packets also leave by this port. `None`: packets
    /// come back turned round, their addresses and ports exchanged.
    pub far: Option<Link>,
    /// Facts of the way back for the report, in place of the plan's. Packets then go both ways at the same time, the
    /// others from the port at which the first arrive. `None`: packets go one way.
    pub back: Option<Vec<HostFact>>,
    /// Plans of the ports after the first, which run beside it ([`TrafficPlan::with_beside`]). The packets of each come
    /// back at its own port. Empty: there are no such ports.
    pub beside: Vec<TrafficPlan>,
}

impl TrafficPlan {
    /// Joins plans of one port each: they run beside each other, with one start and one end, and each with counts and a
    /// verdict of its own. Their seeds differ, so that packets which arrive at another port are none of its own. Times,
    /// rows and all else that a run has once are those of the first plan. The lanes are
    /// those of all plans, one plan after the other.
    ///
    /// # Panics
    /// Without a plan, with more than [`MOST_BESIDE`], or if one of them has a second port or a number of packets.
    pub fn with_beside(plans: Vec<Self>) -> Self {
        let alone = |plan: &Self| {
            plan.far.is_none() && plan.back.is_none() && plan.beside.is_empty() && plan.common.count.is_none()
        };
        assert!(plans.iter().all(alone), "each plan has one port, and sends for a time");
        assert!(plans.len() <= MOST_BESIDE, "too many ports beside each other");
        let lanes = plans
            .iter()
            .flat_map(|plan| plan.common.lanes.iter().copied())
            .collect();
        let mut plans = plans.into_iter();
        let mut first = plans.next().expect("a plan");
        first.beside = plans.collect();
        first.common.lanes = lanes;
        first
    }

    /// Returns this plan and those beside it.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.beside)
    }

    /// Returns the number of lanes that the first port has, if other ports run beside it: the first lanes of the plan.
    pub(crate) fn own_lanes(&self) -> usize {
        let beside = self.beside.iter().map(|plan| plan.common.lanes.len());
        self.common.lanes.len() - beside.sum::<usize>()
    }

    /// Returns the load of a stream without one of its own.
    pub(crate) fn load(&self) -> StreamLoad {
        StreamLoad {
            rate: self.rate,
            pacing: self.pacing,
            weight: 1,
            start_ns: 0,
            packets: None,
        }
    }

    /// Returns the packets of send lane `lane` of `lanes`, if the plan counts them and no schedule does. `None`: no
    /// limit.
    pub(crate) fn share(&self, lane: u32, lanes: u32) -> Option<u64> {
        let count = self.common.count.filter(|_| self.rate.is_none())?;
        let (lane, lanes) = (u64::from(lane), u64::from(lanes.max(1)));
        Some(count / lanes + u64::from(count % lanes > lane))
    }

    /// Returns the bytes of an IP packet: the length that an MTU limits, without VLAN tags before it.
    pub(crate) fn packet_len(&self) -> usize {
        if let Some(packets) = &self.packets {
            return packets
                .streams
                .iter()
                .map(|stream| stream.packet_len)
                .max()
                .unwrap_or(0);
        }
        let ip = if self.src.is_ipv4() { 20 } else { 40 };
        ip + 8 + self.payload_len
    }

    /// Returns the rate over time; `None`: as fast as the path takes packets.
    pub fn rates(&self) -> Option<Rates> {
        let then = self.then;
        self.rate.map(|first| Rates { first, then })
    }

    /// Returns the plan of the way back between two ports: with the same rate, sizes and flows, its addresses and links
    /// exchanged, and the next seed. Of streams, each goes its own way. Its lanes are those of the run.
    pub fn way_back(&self) -> Self {
        Self {
            common: Common {
                seed: self.common.seed.wrapping_add(1),
                host: self.back.clone().unwrap_or_default(),
                ..self.common.clone()
            },
            src: self.dst,
            dst: self.src,
            link: self.far.clone(),
            far: self.link.clone(),
            packets: self.packets.clone().map(|packets| Packets {
                turned: !packets.turned,
                // The second port has one next hop.
                hops: Vec::new(),
                ..packets
            }),
            ..self.clone()
        }
    }
}

/// Plan of `drop`.
#[derive(Clone, Debug)]
pub struct DropPlan {
    /// Settings that every run has.
    pub common: Common,
    /// Only packets to one of these addresses (Ethernet paths).
    pub ip: Option<AddressRange>,
    /// Only packets to these ports (Ethernet paths).
    pub ports: Option<RangeInclusive<u16>>,
    /// Ports among them that belong to other programs (the host's own sockets), in ascending order.
    pub excluded_ports: Box<[u16]>,
    /// Verify stamps and data; else every UDP packet counts as received. Tagged packets are counted by their tags in
    /// any case: if this is false, only the data before the tag are not verified.
    pub verify: bool,
    /// Test packets are those with a tag of [`Common::seed`], whatever their headers, which are so many bytes: data are
    /// verified behind them. `ip`, `ports` and `excluded_ports` then select nothing.
    pub tagged: Option<usize>,
    /// Streams that tagged packets are of, by the number of their flow, for results of each stream and group. Name,
    /// group, flows and mean size of each are used, and no more. `None`: there are no results of streams.
    pub streams: Option<Arc<Packets>>,
    /// Number of flows to follow by sequence number.
    pub max_flows: u32,
    /// Layer 2; `None` on payload paths.
    pub link: Option<Link>,
}

/// Plan of `forward`.
///
/// Ports form pairs in their order, the first with the second, the third with the fourth; frames go between the two of
/// a pair. An odd last port sends its frames back. A lane serves one pair (or the odd port). The first pair's lanes
/// come first, and each pair has as many as any other. With the directions split, a pair has twice as many as the odd
/// port.
#[derive(Clone, Debug)]
pub struct ForwardPlan {
    /// Settings that every run has. A lane receives on one port and sends on another, or on the same.
    pub common: Common,
    /// One port or more.
    pub ports: Vec<ForwardPort>,
    /// Lanes of a pair with an even number serve the way from its first port to its second, the others the way back.
    /// Otherwise each lane serves both ways.
    pub split_directions: bool,
    /// How long a frame may be held until a burst is full; zero: nothing is held.
    pub drain: Duration,
    /// Handling of frames that a port does not take at once.
    pub on_full: OnFull,
    /// Work on each frame beside forwarding it.
    pub work: Work,
}

/// Ports that a lane of `forward` serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardSeat {
    /// Place of the lane's port, or of the first of its pair.
    pub first: usize,
    /// Place of the pair's second port; `None`: an odd port, which sends its frames back.
    pub second: Option<usize>,
    /// Number of the lane among lanes that serve the same ports: its queue of each port.
    pub index: usize,
}

impl ForwardPlan {
    /// Returns the ports that lane `lane` serves.
    pub fn seat(&self, lane: usize) -> ForwardSeat {
        let (pairs, odd) = (self.ports.len() / 2, self.ports.len() % 2);
        let ways = if self.split_directions { 2 } else { 1 };
        let of_a_pair = ways * (self.common.lanes.len() / (pairs * ways + odd).max(1)).max(1);
        match lane / of_a_pair {
            pair if pair < pairs => ForwardSeat {
                first: 2 * pair,
                second: Some(2 * pair + 1),
                index: lane % of_a_pair,
            },
            _ => ForwardSeat {
                first: 2 * pairs,
                second: None,
                index: lane - pairs * of_a_pair,
            },
        }
    }

    /// Returns whether lane `lane` serves the way from its pair's first port to the second, and whether it serves the
    /// way back.
    pub fn directions(&self, lane: usize) -> [bool; 2] {
        let even = self.seat(lane).index.is_multiple_of(2);
        match self.split_directions {
            true => [even, !even],
            false => [true, true],
        }
    }

    /// Returns whether lane `lane` forwards frames from the port at `place`.
    pub fn takes(&self, lane: usize, place: usize) -> bool {
        let ForwardSeat { first, second, .. } = self.seat(lane);
        let [there, back] = self.directions(lane);
        match second {
            None => first == place,
            Some(second) => first == place && there || second == place && back,
        }
    }
}

/// A port of `forward`.
#[derive(Clone, Debug)]
pub struct ForwardPort {
    /// Name of the port, as the user wrote it.
    pub name: String,
    /// Filter for frames that come in by the port.
    pub take: TakeFilter,
    /// Changes to frames that leave by the port.
    pub rewrite: Rewrite,
}

/// Plan of `reflect`.
#[derive(Clone, Debug)]
pub struct ReflectPlan {
    /// Settings that every run has.
    pub common: Common,
    /// Filter for packets (Ethernet paths).
    pub filter: ReflectFilter,
    /// Layer 2; `None` on payload paths.
    pub link: Option<Link>,
    /// Handling of packets that the port does not take at once.
    pub on_full: OnFull,
}

/// Plan of `capture`.
#[derive(Debug)]
pub struct CapturePlan {
    /// Settings that every run has.
    pub common: Common,
    /// Filter for packets.
    pub filter: CaptureFilter,
    /// Most bytes kept of a packet.
    pub snap_len: usize,
    /// Number of packets after which the run ends; `None`: no limit.
    pub count: Option<u64>,
    /// Each lane's way to the writer; the lane takes it, and drops it as it ends.
    pub rings: Vec<Mutex<Option<PacketProducer>>>,
}
