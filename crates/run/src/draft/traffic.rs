//! The plan of `sendrecv` and `send`.

mod flows;
mod load;
mod plan;
mod sockets;
mod streams;

use super::across::{self, Far};
use super::ends::{self, Destination, addresses};
use super::{kernel, lanes};
use crate::fail::{Result, usage};
use crate::paths::{self, Checked, Rules};
use crate::request::Run;
use load::highest_pps;
use mpps_engine::FlowSet;
use mpps_io::selection::From;
use mpps_io::{
    AddressRange, Layer, Marks, PortSpec, Request, Roles, Selection, SocketFlow, Task, To, addresses as ranges,
};
use mpps_netdev::NetDev;
use mpps_plan::{DEFAULT_SRC_PORTS, Workload};
use mpps_stats::Remark;
use mpps_traffic::{Pcap, Traffic};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::ops::RangeInclusive;
use std::sync::Arc;

pub(super) use flows::one_lane_a_flow;
pub use load::sizes;
pub(super) use plan::whose;
pub(in crate::draft) use streams::One;
pub(crate) use streams::{Streamed, Taken, of_listener};

/// Arguments, checked as far as possible without opening the device.
#[derive(Debug)]
pub struct Draft {
    /// Request, with its complete plan.
    pub args: Run,
    /// Port that packets leave by.
    pub port: Checked,
    pub(crate) roles: Vec<Roles>,
    /// Source address of the first flow.
    pub src: IpAddr,
    /// Destination.
    pub dest: Destination,
    pub(crate) flows: FlowSet,
    /// Packets of any headers, in place of UDP between two ends.
    pub(crate) stream: Option<Streamed>,
    pub(crate) payload_len: usize,
    /// Length of a frame with FCS, bytes.
    pub frame_size: usize,
    pub(crate) receive: bool,
    pub(crate) rules: Rules,
    /// Port at which packets arrive, if they do not arrive where they leave.
    pub(crate) far: Option<Far>,
    warnings: Vec<Remark>,
    device: Option<NetDev>,
    /// Memory that the flows take, bytes.
    pub(crate) flow_bytes: u64,
    /// Memory that the run takes, bytes.
    pub(crate) memory_bytes: u64,
    /// Random number of the run.
    pub(crate) run_id: u64,
    /// Source ports in place of the default ones.
    moved: Option<RangeInclusive<u16>>,
    /// Notes from the reservation of the flows.
    notes: Vec<Remark>,
}

impl Draft {
    /// Checks a run of `sendrecv` or `send`.
    pub fn new(args: Run) -> Result<Self> {
        Self::knowing(None, args)
    }

    /// Like [`Draft::new`], for another trial of a run: the destination's name is not looked up again, and the run
    /// keeps its number and the source ports that it has reserved.
    pub fn knowing(known: Option<&Self>, mut args: Run) -> Result<Self> {
        if let Some(known) = known {
            args.watchers = Arc::clone(&known.args.watchers);
        }
        let receive = args.plan.workload == Workload::Sendrecv;
        across::check_options(&args, receive)?;
        if let Some(frames) = args.plan.lanes.rx_burst.filter(|_| !receive) {
            return Err(usage(format!(
                "--rx-burst {frames}: packets are only sent here: want sendrecv, or it left out"
            )));
        }
        let task = across::task(&args, receive);
        let port = Checked::new(args.plan.port(), task)?;
        if port.traits.layer == Layer::Payload {
            sockets::as_ends(&mut args, &port)?;
        }
        let device = port.interface();
        let far = args
            .plan
            .far()
            .map(|spec| Far::new(spec, &port, &args, receive))
            .transpose()?;
        let far_device = far.as_ref().and_then(|far| far.device.as_ref());
        let found = known.map(|known| &known.dest);
        let roles = roles(&args, &port, far.as_ref(), receive)?;
        let known_streams = streams::Known {
            before: known.and_then(|known| known.stream.as_ref()),
            senders: streams::senders(&roles).len(),
            of_sockets: port.traits.socket.is_some(),
        };
        let mut stream = Streamed::of(&args, &port, far.as_ref().map(|far| &far.port), known_streams)?;
        let devices = (device.as_ref(), far_device);
        let (srcs, dest) = match &mut stream {
            Some(streams) => ends_of_all(&args, &port, devices, streams)?,
            None => addresses(&args, &port, devices, found)?,
        };
        if let Some(streams) = stream.as_mut().filter(|_| known_streams.of_sockets) {
            streams.sockets = Some(sockets::flows_of(streams, &port, &roles)?);
        }
        let src = *srcs.start();
        let (payload_len, frame_size) = match &stream {
            Some(stream) => (stream.payload_len(), stream.frame_size),
            None => sizes(&args, src.is_ipv6())?,
        };
        payload_path_options(&args, &port)?;
        let ports: Vec<_> = [&port].into_iter().chain(far.as_ref().map(|far| &far.port)).collect();
        if let Some(stream) = &stream {
            stream.check_receivers(&roles)?;
            stream.check_lanes(&roles)?;
            if port.traits.in_kernel {
                stream.check_in_kernel(args.plan.port(), known_streams.senders)?;
            }
        }
        paths::check_run(&args, &ports)?;
        let rules = match &far {
            None => Rules::of(&args, [(&port, &roles[..])])?,
            Some(far) => Rules::of(&args, [(&port, &far.sends[..]), (&far.port, &far.roles[..])])?,
        };
        let pps = match &stream {
            Some(streams) => streams.highest_pps(&args)?,
            None => highest_pps(&args, frame_size)?,
        };
        lanes::check_open_rows(*args.plan.times.interval, *args.plan.times.settle)?;
        across::one_lane_a_flow(&port, far.as_ref(), &roles)?;
        let far_port = far.as_ref().map(|far| &far.port);
        let mut warnings = match stream.as_ref().filter(|_| receive) {
            Some(streams) => streams.check_untagged(&port, far_port)?,
            None => Vec::new(),
        };
        let moved = known.and_then(|known| known.moved.clone());
        let flows = match &stream {
            Some(stream) => stream.flows(),
            None => flows::flows(&args, &port, &roles, (&srcs, &dest), moved.as_ref(), &mut warnings)?,
        };
        flows::check(&args, (&port, far.as_ref()), &roles, (&srcs, &dest), &flows)?;
        let (flow_bytes, memory_bytes) = flows::check_memory(
            &args,
            (&port, far.as_ref()),
            &roles,
            (&srcs, &dest),
            &flows,
            (pps, receive),
            stream.as_ref(),
        )?;
        let filled = far.as_ref().filter(|far| far.both).map_or(&roles[..], |far| &far.sends);
        fill(
            &mut args,
            &port,
            filled,
            (&srcs, &dest),
            (&flows, moved.is_some()),
            payload_len,
        );
        Ok(Self {
            args,
            port,
            roles,
            src,
            dest,
            flows,
            stream,
            payload_len,
            frame_size,
            receive,
            rules,
            far,
            warnings,
            device,
            flow_bytes,
            memory_bytes,
            run_id: known.map_or_else(mpps_sys::random_number, |known| known.run_id),
            moved,
            notes: known.map(|known| known.notes.clone()).unwrap_or_default(),
        })
    }

    /// Returns the packet as it was written, if it is not UDP between two ends.
    pub fn packet(&self) -> Option<String> {
        self.stream.as_ref().map(Streamed::text)
    }

    /// Returns whether packets come back and nobody knows which: of all streams of a name or group, or of all (`""`).
    pub fn counts_nothing_of(&self, name: &str) -> bool {
        self.stream
            .as_ref()
            .is_some_and(|streams| streams.counts_nothing_of(name))
    }

    /// Returns the captures that are sent, and whether their frames get tags.
    pub fn captures(&self) -> impl Iterator<Item = (&Pcap, bool)> {
        self.stream.iter().flat_map(Streamed::captures)
    }

    /// Returns the streams as a method has them, which sets the rate of those that may be scaled, or (`all`) of all of
    /// them; `None`: no stream has a rate of its own.
    pub fn weighted(&self, all: bool, link_bps: Option<u64>) -> Option<Traffic> {
        self.stream.as_ref()?.weighted(all, link_bps)
    }

    /// Returns whether the program may choose the source ports.
    pub(super) fn has_default_ports(&self) -> bool {
        let named = self.port.traits.socket.and_then(|socket| socket.port);
        self.args.plan.traffic.src_ports.is_none() && named.is_none()
    }

    /// Returns the indices of the interfaces whose packets other programs of this host could mistake for their own: the
    /// interface that packets leave by (0: none), and the one that they arrive at if that is another.
    pub(super) fn shared_interfaces(&self) -> Option<(u32, Option<u32>)> {
        if self.stream.is_some() {
            // Packets are known by their tags, not by their ports.
            return None;
        }
        let near = self.port.shared_interface();
        let far = self.far.as_ref().and_then(|far| far.port.shared_interface());
        (near.is_some() || far.is_some()).then(|| (near.unwrap_or(0), far))
    }

    /// Returns the same run with these source ports, if they were moved, and with these notes.
    pub(super) fn reserved(&self, moved: Option<RangeInclusive<u16>>, notes: Vec<Remark>) -> Result<Self> {
        let mut draft = match moved {
            None => Self::knowing(Some(self), self.args.clone())?,
            moved => {
                let mut known = Self::knowing(Some(self), self.args.clone())?;
                known.moved = moved;
                Self::knowing(Some(&known), self.args.clone())?
            }
        };
        draft.notes = notes;
        Ok(draft)
    }

    /// Returns the source addresses in use between two ends.
    pub(super) fn sources(&self) -> AddressRange {
        ranges::from(self.src, self.flows.address_counts().0)
    }

    /// Returns the destination addresses in use between two ends.
    pub(super) fn destinations(&self) -> AddressRange {
        ranges::from(self.dest.ip, self.flows.address_counts().1)
    }

    /// Returns all source addresses in use.
    fn all_sources(&self) -> Vec<AddressRange> {
        match &self.stream {
            Some(stream) => stream.sources(),
            None => vec![self.sources()],
        }
    }

    /// Returns all destination addresses in use.
    fn all_destinations(&self) -> Vec<AddressRange> {
        match &self.stream {
            Some(stream) => stream.destinations(),
            None => vec![self.destinations()],
        }
    }

    /// Returns the packets of the test that arrive, from and to these addresses and ports.
    fn arriving(&self, from: From, to: (AddressRange, RangeInclusive<u16>)) -> Selection {
        match &self.stream {
            Some(streams) => Selection::Tagged {
                seed: self.args.plan.seed,
                headers: streams.untagged(self.far.is_none()),
            },
            None => Selection::Udp {
                to: To::Only(to.0),
                ports: Some(to.1),
                excluded: Vec::new(),
                from: Some(from),
            },
        }
    }

    /// Returns the run's requests to its ports.
    pub(crate) fn requests(&self) -> Vec<(&Checked, Request<'_>)> {
        let Some(far) = &self.far else {
            return vec![(&self.port, self.request())];
        };
        let request = self.request();
        let near = Request {
            roles: &far.sends,
            cores: lanes::cores_of(&self.args, 0, far.sends.len()),
            selection: if far.both {
                request.selection
            } else {
                Selection::Nothing
            },
            ..self.request()
        };
        let arrives = Request {
            spec: &far.port.spec,
            task: if far.both { Task::Exchange } else { Task::Collect },
            roles: &far.roles,
            cores: lanes::cores_of(&self.args, far.sends.len(), far.roles.len()),
            selection: self.arriving(
                From {
                    ips: self.sources(),
                    ports: self.flows.src_ports(),
                },
                (self.destinations(), self.flows.dst_ports()),
            ),
            answer: far.answers(&self.all_destinations()),
            flows: None,
            seed: self.args.plan.seed,
        };
        vec![(&self.port, near), (&far.port, arrives)]
    }

    fn request(&self) -> Request<'_> {
        let selection = match self.receive {
            true => self.arriving(
                From {
                    ips: self.destinations(),
                    ports: self.flows.dst_ports(),
                },
                (self.sources(), self.flows.src_ports()),
            ),
            false => Selection::Nothing,
        };
        // The host answers for its own addresses.
        let answer = self.answers();
        Request {
            spec: self.args.plan.port(),
            task: across::task(&self.args, self.receive),
            roles: &self.roles,
            cores: lanes::cores_of(&self.args, 0, self.roles.len()),
            selection,
            answer,
            flows: self.port.traits.socket.map(|_| self.socket_flows()),
            seed: self.args.plan.seed,
        }
    }

    /// Returns the flows as sockets.
    fn socket_flows(&self) -> Vec<SocketFlow> {
        if let Some(sockets) = self.stream.as_ref().and_then(|streams| streams.sockets.as_ref()) {
            return sockets.clone();
        }
        let of = &self.args.plan.traffic;
        let marks = Marks {
            class: Some(of.dscp << 2),
            // The default is that of the host.
            ttl: (of.ttl != 64).then_some(of.ttl),
            label: None,
        };
        let flow = |flow: u32| {
            let ((src_port, dst_port), (src, dst)) = (self.flows.ports(flow), self.flows.addresses(flow));
            let dst = match ranges::at(self.dest.ip, dst) {
                IpAddr::V6(ip) => SocketAddrV6::new(ip, dst_port, 0, self.dest.scope).into(),
                ip => SocketAddr::new(ip, dst_port),
            };
            let ends = (SocketAddr::new(ranges::at(self.src, src), src_port), dst);
            SocketFlow { marks, ..ends.into() }
        };
        (0..self.flows.count()).map(flow).collect()
    }

    /// Returns whether all source addresses are assigned to the device, so that the host answers for them.
    fn own_address(&self) -> bool {
        self.device
            .as_ref()
            .is_some_and(|device| self.all_sources().iter().all(|ips| has_all(device, ips)))
    }

    /// Returns the source addresses, unless the host answers for all of them.
    fn answers(&self) -> Vec<AddressRange> {
        match self.own_address() {
            true => Vec::new(),
            false => self.all_sources(),
        }
    }
}

/// Gives each stream the addresses that its packet's text lacks. Returns those of the first with an IP header;
/// unspecified ones if none has.
fn ends_of_all(
    args: &Run,
    port: &Checked,
    devices: (Option<&NetDev>, Option<&NetDev>),
    streams: &mut Streamed,
) -> Result<(AddressRange, Destination)> {
    let mut first = None;
    for one in &mut streams.all {
        let (srcs, dest) = ends::of_stream(args, port, devices, one)?;
        one.set_addresses(*srcs.start(), dest.ip);
        one.know()?;
        match &first {
            Some((_, has_ip)) if *has_ip || !one.has_ip() => {}
            _ => first = Some(((srcs, dest), one.has_ip())),
        }
    }
    streams.check_numbered()?;
    let first = first.map(|(ends, _)| ends);
    Ok(first.expect("a run has a stream"))
}

/// Returns the roles of the lanes.
fn roles(args: &Run, port: &Checked, far: Option<&Far>, receive: bool) -> Result<Vec<Roles>> {
    if let Some(far) = far {
        Ok(far.lanes())
    } else if port.traits.in_kernel {
        kernel::check_traffic(args)?;
        Ok(kernel::senders(args))
    } else {
        lanes::traffic(
            args,
            args.plan.lanes.tx_lanes,
            args.plan.lanes.rx_lanes,
            receive,
            port.traits.split_lanes,
        )
    }
}

/// Returns whether an interface has each of these addresses.
pub(super) fn has_all(device: &NetDev, ips: &AddressRange) -> bool {
    let own: BTreeSet<_> = device.addresses.iter().map(|(ip, _)| *ip).collect();
    own.range(ips.clone()).count() as u64 == u64::from(ranges::count(ips))
}

/// Refuses options of Ethernet headers if the kernel writes the headers.
fn payload_path_options(args: &Run, port: &Checked) -> Result<()> {
    if port.traits.layer == Layer::Ethernet {
        if args.plan.traffic.gateway.is_some() && port.nobody_answers() {
            return Err(usage(format!(
                "--gateway: nobody is asked on {}: want it left out",
                args.plan.port()
            )));
        }
        return Ok(());
    }
    let given = [
        (args.plan.traffic.dest_mac.is_some(), "--dest-mac"),
        (args.plan.traffic.gateway.is_some(), "--gateway"),
        (args.plan.traffic.vlan.is_some(), "--vlan"),
        (args.plan.traffic.ttl != 64 && port.traits.socket.is_none(), "--ttl"),
        (args.plan.traffic.dscp != 0 && port.traits.socket.is_none(), "--dscp"),
    ];
    match given.iter().find(|(given, _)| *given) {
        Some((_, option)) => Err(usage(format!(
            "{option}: on {} the kernel writes the headers: want it left out, or the path af_packet",
            args.plan.port()
        ))),
        None => Ok(()),
    }
}

/// Fills in the plan's fields that were not given on the command line.
fn fill(
    args: &mut Run,
    port: &Checked,
    roles: &[Roles],
    (srcs, dest): (&AddressRange, &Destination),
    // `moved`: the source ports are not the default ones that the plan has.
    (flows, moved): (&FlowSet, bool),
    payload_len: usize,
) {
    // A run of a given number of packets lasts as long as they take.
    let duration = if args.plan.traffic.count.is_some() { "0" } else { "10s" };
    lanes::fill(args, roles, duration);
    let plan = &mut args.complete;
    if plan.traffic.streams.is_some() {
        return;
    }
    // If a socket is bound to no address, the kernel chooses the source.
    if !srcs.start().is_unspecified() {
        plan.fill("traffic.src", ranges::text(srcs));
    }
    let ip = bracketed(&dest.ips());
    plan.fill("traffic.dest", format!("{ip}:{}", dashed(&dest.ports)));
    // A port that names its source port has no range as well. Default ports of sockets follow from the lanes.
    if port.traits.socket.is_none() {
        let ports = if moved { DEFAULT_SRC_PORTS } else { flows.src_ports() };
        plan.fill("traffic.src_ports", dashed(&ports));
    }
    plan.fill("traffic.flows", flows.count());
    if !plan.has("traffic.frame_size") {
        plan.fill("traffic.payload_size", payload_len);
    }
}

/// Formats addresses as they are written in front of a port.
fn bracketed(ips: &AddressRange) -> String {
    match ips.start() {
        IpAddr::V4(_) => ranges::text(ips),
        IpAddr::V6(_) => format!("[{}]", ranges::text(ips)),
    }
}

/// Says what bounds the frames of a port: its path (`limited`), or the MTU.
fn limit_of(port: &PortSpec, limited: bool) -> String {
    let port = port.to_string();
    let port = port.trim_end_matches(':');
    match limited {
        true => format!("what the path can send on {port}"),
        false => format!("the MTU of {port}"),
    }
}

/// Formats a range of ports as it is written on the command line.
pub(crate) fn dashed(ports: &RangeInclusive<u16>) -> String {
    if ports.start() == ports.end() {
        ports.start().to_string()
    } else {
        format!("{}-{}", ports.start(), ports.end())
    }
}
