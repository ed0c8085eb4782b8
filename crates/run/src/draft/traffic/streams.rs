//! Packets of any headers (`--packet`, `--traffic`), worked out for the ports of a run.

mod loads;
mod refused;

use super::super::kernel;
use crate::fail::{Failure, Result, usage};
use crate::paths::{self, Checked};
use crate::privilege::as_user;
use crate::replay::{LastRead, Replayed};
use crate::request::Run;
use mpps_engine::{FlowSet, KnownBy, Link, Numbered, PacketStream, Packets, Replay};
use mpps_io::selection::Headers;
use mpps_io::{AddressRange, Capabilities, PortSpec, Roles, SocketFlow, addresses as ranges};
use mpps_netdev::NetDev;
use mpps_plan::Workload;
use mpps_stats::{Remark, RemarkName, count};
use mpps_traffic::{Form, Load, Pcap, Ranges, Size, Source, Speed, Stream, Tag, Traffic, Vary, VlanTag};
use mpps_wire::image::Sizes;
use mpps_wire::tagged::icmp_error;
use mpps_wire::{FrameSize, Image, ImageSpec, MacAddr};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::sync::Arc;

pub(super) use refused::options;
pub(crate) use refused::{Taken, of_listener};

/// Most fields that vary of a packet that programs in the kernel make.
const MOST_FIELDS: usize = 8;
/// Most sizes of a stream that programs in the kernel make.
const MOST_SIZES_IN_KERNEL: usize = 8;
/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Bytes of a VLAN tag.
const VLAN_TAG: usize = 4;
/// Most sizes over all streams: each takes an image of the packet.
const MOST_SIZES: usize = 65_536;

/// Streams of a run.
#[derive(Clone, Debug)]
pub(crate) struct Streamed {
    /// Streams, one or more.
    pub(in crate::draft) all: Vec<One>,
    /// Mean length of a frame with FCS over all streams, bytes, rounded.
    pub(crate) frame_size: usize,
    /// Option that gave them.
    pub(in crate::draft) option: &'static str,
    /// Flows of all streams as sockets, on a port that has these.
    pub(super) sockets: Option<Vec<SocketFlow>>,
    /// By stream: the one that it begins after.
    before: Vec<Option<usize>>,
}

/// One stream.
#[derive(Clone, Debug)]
pub(in crate::draft) struct One {
    content: Content,
    pub(in crate::draft) stream: Stream,
    /// Source and destination addresses of the outermost IP header; `None`: the packet's text has none.
    ends: Option<[Option<Ranges>; 2]>,
    v6: bool,
    /// The kernel writes its headers, and its flows are sockets.
    of_sockets: bool,
    /// Packets of it come back to this run.
    receives: bool,
    /// It leaves by the second port as its text says, which then has its source.
    from_far: bool,
    /// Number of its first flow, if it is the mirror of another stream that goes the other way.
    mirror: Option<u32>,
    /// How a receiver knows its packets.
    known_by: KnownBy,
    /// How a message names it: `--packet`, or `--traffic: stream NAME`.
    pub(in crate::draft) named: String,
}

/// Frames of a stream.
#[derive(Clone, Debug)]
enum Content {
    Made(Box<Form>),
    /// Frames of a capture, the number of the first flow, and the key of their tags.
    Replayed(Box<Replayed>, u32, u64),
}

/// Returns the option that gave streams.
pub(super) fn option_of(streams: &Traffic) -> &'static str {
    match (streams.is_one_packet(), streams.is_one_capture()) {
        (true, _) => "--packet",
        (_, true) => "--pcap",
        _ => "--traffic",
    }
}

/// Knowledge of a run while its streams are worked out.
#[derive(Clone, Copy, Debug)]
pub(in crate::draft) struct Known<'k> {
    /// Streams of an earlier trial, whose captures need not be read again.
    pub(in crate::draft) before: Option<&'k Streamed>,
    /// Number of lanes that send.
    pub(in crate::draft) senders: usize,
    /// The port that packets leave by has sockets.
    pub(in crate::draft) of_sockets: bool,
}

/// Works out each of the streams, whose flows are numbered over all of them.
fn all_of(args: &Run, streams: &Traffic, option: &str, known: Known<'_>) -> Result<Vec<One>> {
    let (mut all, mut flows, mut sizes) = (Vec::new(), 0u32, 0);
    let mut last = LastRead::default();
    for stream in &streams.streams {
        refused::keys(stream, &named(option, stream), args.plan.workload)?;
        let one = match &stream.pcap {
            None => One::new(stream.clone(), option, args, flows, known.of_sockets)?,
            Some(pcap) => One::replayed(stream.clone(), pcap, (option, args), flows, (known, &mut last))?,
        };
        flows = flows.saturating_add(one.flows().max(1));
        if flows > mpps_wire::TAG_FLOWS {
            return Err(one.wrong(format!(
                "{flows} flows with those before: want {} at most",
                mpps_wire::TAG_FLOWS
            )));
        }
        sizes += one.sizes_in_all();
        if sizes > MOST_SIZES {
            return Err(one.wrong(format!(
                "{sizes} sizes with those before: want {MOST_SIZES} at most, as each takes memory"
            )));
        }
        all.push(one);
    }
    Ok(all)
}

/// Adds to streams those that go the other way, each with its ends exchanged and a name of its own. Their flows follow
/// those of the others. `before`: by stream, the one that it begins after.
fn mirror(mut all: Vec<One>, mut before: Vec<Option<usize>>) -> Result<(Vec<One>, Vec<Option<usize>>)> {
    let own = all.len();
    let mut flows: u32 = all.iter().map(|one| one.flows().max(1)).sum();
    for at in 0..own {
        let mut one = all[at].clone();
        one.stream.name.push_str("-back");
        if all[..own].iter().any(|other| other.stream.name == one.stream.name) {
            let name = &one.stream.name;
            return Err(all[at].wrong(format!(
                "its way back is stream {name}, and there is one: want another name there"
            )));
        }
        one.mirror = Some(flows);
        one.named.push_str(", the way back");
        flows = flows.saturating_add(one.flows().max(1));
        if flows > mpps_wire::TAG_FLOWS {
            let most = mpps_wire::TAG_FLOWS;
            return Err(one.wrong(format!(
                "{flows} flows both ways with those before: want {most} at most"
            )));
        }
        all.push(one);
    }
    before.extend_from_within(..);
    for of in before[own..].iter_mut().flatten() {
        *of += own;
    }
    Ok((all, before))
}

/// Returns how messages name a stream.
pub(super) fn named(option: &str, stream: &Stream) -> String {
    match option {
        "--packet" | "--pcap" => option.to_owned(),
        _ => format!("{option}: stream {}", stream.name),
    }
}

/// Returns whether these are several addresses.
fn are_several(ips: &[AddressRange]) -> bool {
    ips.len() > 1 || ips.iter().any(|range| range.start() != range.end())
}

impl One {
    fn new(mut stream: Stream, option: &str, args: &Run, first_flow: u32, of_sockets: bool) -> Result<Self> {
        let named = named(option, &stream);
        let wrong = |why: &dyn std::fmt::Display| usage(format!("{named}: {why}"));
        if let Some(size) = args.plan.traffic.frame_size {
            if stream.size.is_some() {
                return Err(usage(format!(
                    "--frame-size {size}: {named} has a size: want one of the two"
                )));
            }
            let size = Size::parse(&size.to_string());
            stream.size = Some(size.map_err(|why| usage(format!("--frame-size {}", why.line)))?);
        }
        let form = Form::of(&stream, args.plan.seed, first_flow).map_err(|why| wrong(&why.line))?;
        let outer = form.outer_ip().map_err(|why| wrong(&why))?;
        let groups = |ips: &Ranges| {
            let group = |range: &AddressRange| range.start().is_multicast() || range.end().is_multicast();
            are_several(ips) && ips.iter().any(group)
        };
        let dests = outer.as_ref().and_then(|outer| outer.dst.as_ref());
        if dests.is_some_and(groups) && form.macs()[0].is_none() {
            return Err(wrong(
                &"each of several groups has a MAC address of its own: want dst=MAC in eth, or one group",
            ));
        }
        Ok(Self {
            v6: outer.as_ref().is_some_and(|outer| outer.v6),
            ends: outer.map(|outer| [outer.src, outer.dst]),
            of_sockets,
            receives: args.plan.workload == Workload::Sendrecv,
            from_far: stream.from == Some(1),
            mirror: None,
            known_by: KnownBy::Tag,
            content: Content::Made(Box::new(form)),
            stream,
            named,
        })
    }

    /// Reads the capture of a stream.
    fn replayed(
        mut stream: Stream,
        pcap: &Pcap,
        (option, args): (&str, &Run),
        first_flow: u32,
        (known, last): (Known<'_>, &mut LastRead),
    ) -> Result<Self> {
        let named = named(option, &stream);
        let wrong = |why: &dyn std::fmt::Display| usage(format!("{named}: {why}"));
        let (tag, lanes, seed) = (stream.tag == Tag::Tail, known.senders, args.plan.seed);
        let sends = args.plan.workload == Workload::Send;
        let lanes = if stream.lanes.is_empty() {
            lanes
        } else {
            lanes.min(stream.lanes.len())
        };
        let earlier = known.before.iter().flat_map(|before| &before.all);
        let mut earlier = earlier.filter_map(|one| match &one.content {
            Content::Replayed(replayed, ..) if replayed.is_of(pcap, tag, lanes, seed) => {
                Some(Replayed::clone(replayed))
            }
            _ => None,
        });
        let replayed = match earlier.next() {
            Some(replayed) => replayed,
            None => {
                let read = as_user(|| Ok(Replayed::read(pcap, (tag, sends), lanes, seed, last)))?;
                read.map_err(|why| wrong(&why))?
            }
        };
        let (all, packets) = (replayed.facts.packets, stream.packets.or(args.plan.traffic.count));
        if let Some(packets) = packets.filter(|n| replayed.frames.read_ahead().is_some() && n % all != 0) {
            return Err(wrong(&format!(
                "{packets} packets: its {all} packets are read while they are sent, and whole loops are: want loops, \
                 or last"
            )));
        }
        if option == "--pcap" && args.plan.load.rate.is_some() && stream.load == Load::Most {
            if pcap.speed != Speed::ONE {
                return Err(wrong(&"speed: beside --rate: want one of the two"));
            }
            // The total rate is that of the only stream.
            stream.load = Load::Weight(1);
        }
        if replayed.rate().is_none() && pcap.loops == Some(1) && stream.pacing.is_none() && stream.is_timed() {
            // All are due at once.
            stream.pcap.get_or_insert_default().flat_out = true;
        }
        if stream.is_timed() && replayed.rate().is_none() {
            return Err(wrong(
                &"its packets have no time between them, or too little: want speed = max, a rate, or a gap",
            ));
        }
        Ok(Self {
            content: Content::Replayed(Box::new(replayed), first_flow, seed),
            ends: None,
            v6: false,
            of_sockets: false,
            receives: args.plan.workload == Workload::Sendrecv,
            from_far: false,
            mirror: None,
            known_by: KnownBy::Tag,
            stream,
            named,
        })
    }

    /// Returns the form of packets that are made.
    pub(super) fn form(&self) -> Option<&Form> {
        match &self.content {
            Content::Made(form) => Some(form),
            Content::Replayed(..) => None,
        }
    }

    /// Returns the capture that it sends.
    pub(in crate::draft) fn capture(&self) -> Option<&Replayed> {
        match &self.content {
            Content::Made(_) => None,
            Content::Replayed(replayed, ..) => Some(replayed),
        }
    }

    /// Returns the number of flows.
    fn flows(&self) -> u32 {
        match &self.content {
            Content::Made(form) => form.flows(),
            Content::Replayed(replayed, ..) => replayed.frames.lanes() as u32,
        }
    }

    /// Returns the number of different sizes of its frames.
    fn sizes_in_all(&self) -> usize {
        match &self.content {
            Content::Made(form) => form.size_order().0.len(),
            Content::Replayed(replayed, ..) => replayed.frames.lens().len(),
        }
    }

    /// Returns its smallest and its largest frame, bytes with FCS.
    fn sizes(&self) -> (u64, u64) {
        match &self.content {
            Content::Made(form) => form.sizes(),
            Content::Replayed(replayed, ..) => {
                let (smallest, largest) = replayed.sizes();
                (smallest as u64, largest as u64)
            }
        }
    }

    /// Returns the mean size of its frames, bytes with FCS.
    fn mean_size(&self) -> f64 {
        match &self.content {
            Content::Made(form) => form.mean_size(),
            Content::Replayed(replayed, ..) => replayed.mean_size(),
        }
    }

    /// Returns the sum of sizes of so many frames, bytes with FCS, and their number, whose ratio is the mean.
    fn size_sum(&self) -> (u64, u64) {
        match &self.content {
            Content::Made(form) => form.size_sum(),
            Content::Replayed(replayed, ..) => {
                let frames = replayed.frames.len() as u64;
                ((self.mean_size() * frames as f64).round() as u64, frames)
            }
        }
    }

    /// Returns destination and source MAC address as far as they are given.
    fn macs(&self) -> [Option<MacAddr>; 2] {
        match &self.content {
            Content::Made(form) => form.macs(),
            // Each frame has its own.
            Content::Replayed(..) => [Some(MacAddr::BROADCAST); 2],
        }
    }

    fn vlans(&self) -> Vec<VlanTag> {
        self.form().map(Form::vlans).unwrap_or_default()
    }

    /// Makes a failure that names the stream.
    pub(in crate::draft) fn wrong(&self, why: impl std::fmt::Display) -> Failure {
        usage(format!("{}: {why}", self.named))
    }

    /// Returns the addresses of the outermost IP header at the first port and at the other end; `None`: there is no
    /// such header.
    fn near_and_far(&self) -> Option<[&Option<Ranges>; 2]> {
        let [src, dst] = self.ends.as_ref()?;
        Some(if self.from_far { [dst, src] } else { [src, dst] })
    }

    /// Returns whether its packets leave by the second port.
    pub(in crate::draft) fn goes_back(&self) -> bool {
        self.from_far ^ self.mirror.is_some()
    }

    /// Returns the first address at the other end, which packets from the first port go to; `None` without an IP
    /// header, or if the packet's text has none.
    pub(in crate::draft) fn first_dst(&self) -> Option<IpAddr> {
        let [_, dst] = self.near_and_far()?;
        dst.as_ref()?.first().map(|range| *range.start())
    }

    /// Returns the first address at the first port, as [`One::first_dst`].
    pub(in crate::draft) fn first_src(&self) -> Option<IpAddr> {
        let [src, _] = self.near_and_far()?;
        src.as_ref()?.first().map(|range| *range.start())
    }

    /// Returns whether the packets have an outermost IP header.
    pub(in crate::draft) fn has_ip(&self) -> bool {
        self.ends.is_some()
    }

    /// Returns whether that header is of IPv6.
    pub(in crate::draft) fn is_v6(&self) -> bool {
        self.v6
    }

    /// Gives the packets these addresses, at the first port and at the other end, where their text has none.
    pub(in crate::draft) fn set_addresses(&mut self, near: IpAddr, far: IpAddr) {
        let (src, dst) = if self.from_far { (far, near) } else { (near, far) };
        if let Content::Made(form) = &mut self.content {
            form.set_addresses(src, dst);
        }
        if let Some([of_src, of_dst]) = &mut self.ends {
            of_src.get_or_insert_with(|| vec![ranges::one(src)]);
            of_dst.get_or_insert_with(|| vec![ranges::one(dst)]);
        }
    }

    /// Works out how its packets are known, once their addresses are.
    ///
    /// # Errors
    /// Says why packets that are numbered by TCP can't be known.
    pub(in crate::draft) fn know(&mut self) -> Result<()> {
        if !self.receives || self.capture().is_some() {
            return Ok(());
        }
        self.known_by = match self.stream.tag {
            Tag::Tail => KnownBy::Tag,
            Tag::None => KnownBy::Headers,
            Tag::Tcp => {
                let specs = self.made(0).map(|made| made.specs).unwrap_or_default();
                let numbered = Numbered::new(&specs).map_err(|why| self.wrong(format!("tag tcp: {why}")))?;
                KnownBy::Number(Arc::new(numbered))
            }
        };
        Ok(())
    }

    /// Returns the addresses at the first port.
    pub(in crate::draft) fn sources(&self) -> Vec<AddressRange> {
        self.near_and_far()
            .and_then(|[near, _]| near.clone())
            .unwrap_or_default()
    }

    /// Returns the addresses at the other end.
    pub(in crate::draft) fn destinations(&self) -> Vec<AddressRange> {
        self.near_and_far().and_then(|[_, far]| far.clone()).unwrap_or_default()
    }

    /// Returns whether there are several destination addresses.
    fn has_destinations(&self) -> bool {
        are_several(&self.destinations())
    }

    /// Returns the destination MAC address of the packet's text, or that of its group.
    pub(in crate::draft) fn dest_mac(&self) -> Option<MacAddr> {
        let group = || match self.first_dst()? {
            IpAddr::V4(ip) if ip.is_multicast() => {
                let [_, b, c, d] = ip.octets();
                Some(MacAddr([1, 0, 0x5e, b & 0x7f, c, d]))
            }
            IpAddr::V4(Ipv4Addr::BROADCAST) => Some(MacAddr::BROADCAST),
            IpAddr::V6(ip) if ip.is_multicast() => {
                let [.., a, b, c, d] = ip.octets();
                Some(MacAddr([0x33, 0x33, a, b, c, d]))
            }
            _ => None,
        };
        let [dst, src] = self.macs();
        let own = if self.mirror.is_some() { src } else { dst };
        own.or_else(group)
    }

    /// Returns the VLAN in which neighbours are asked; `None`: without a tag, or nobody is asked.
    pub(in crate::draft) fn vlan(&self) -> Option<u16> {
        match self.vlans()[..] {
            [one] if !one.service => Some(one.vid),
            _ => None,
        }
    }

    /// Returns the statement that one MAC address stands for several hosts; empty: it does not.
    pub(in crate::draft) fn stands_for(&self, link: &Link) -> String {
        let varies = self.vlans().iter().any(|tag| tag.varies);
        let one_for_all = link.dest_mac.is_none() && (varies || self.has_destinations());
        match (one_for_all, link.vlan) {
            (false, _) => String::new(),
            (true, Some(vlan)) if varies => {
                format!(" in VLAN {vlan}, whose MAC address stands for all destinations and VLANs")
            }
            (true, _) => ", whose MAC address stands for all destinations".to_owned(),
        }
    }

    /// Refuses tags in which nobody can be asked for the next hop.
    ///
    /// # Errors
    /// Says that a MAC address is wanted.
    pub(in crate::draft) fn check_tags(&self) -> Result<()> {
        match self.vlans().is_empty() || self.vlan().is_some() {
            true => Ok(()),
            false => Err(self.wrong(
                "the next hop is asked for with one 802.1Q tag at most, and the packet has others: want dst=MAC in eth",
            )),
        }
    }

    /// Refuses values that have no period, and so make no flows, on several receive lanes: packets of one flow would
    /// come to several.
    fn check_receivers(&self, lanes: usize) -> Result<()> {
        let random = |vary: &&Vary| matches!(vary.source, Source::Random { period: None, .. });
        if let Some(replayed) = self.capture().filter(|_| lanes > 1) {
            return Err(self.wrong(format!(
                "{lanes} receive lanes: packets of a capture are counted in its order, by one lane: want --rx-lanes 1, \
                 or fewer --lanes, for its {} packets",
                replayed.frames.len()
            )));
        }
        let varies = self.form().map(Form::varies).unwrap_or_default();
        match varies.iter().find(random) {
            Some(vary) if lanes > 1 => Err(self.wrong(format!(
                "{}: its values have no period and make no flows, which {lanes} receive lanes need: want one lane, or \
                 a period, such as random(1..9)*1000",
                vary.name
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses frames that a port can't send. `room`: bytes that the headers of its family leave beyond what the port
    /// says. `limit`: what limits sockets, if it is not the interface.
    fn check_size(
        &self,
        (capabilities, room): (&Capabilities, usize),
        device: Option<&NetDev>,
        spec: &PortSpec,
        limit: Option<&str>,
    ) -> Result<()> {
        // The path's largest frame may be smaller than the device's. One VLAN tag does not count towards the MTU.
        let limited = device.is_some_and(|d| capabilities.max_frame < d.mtu + ETHERNET);
        let tags = match device.is_some() && !limited {
            true => match &self.content {
                Content::Made(form) => (form.link_len() - ETHERNET).min(VLAN_TAG),
                Content::Replayed(replayed, ..) => {
                    let longest = replayed.frames.lens().last().copied().unwrap_or(0);
                    longest - replayed.longest_untagged()
                }
            },
            false => 0,
        };
        let headers = if self.of_sockets { self.header_len() + room } else { 0 };
        let most = capabilities.max_frame + headers + tags + FrameSize::FCS_LEN;
        let (_, largest) = self.sizes();
        if largest as usize <= most {
            return Ok(());
        }
        let what = match (limit, limited) {
            (Some(limit), _) => limit.to_owned(),
            (None, true) => format!("what the path can send on {spec}"),
            (None, false) => format!("the MTU of {spec}"),
        };
        let named = match (self.named.as_str(), largest == self.sizes().0) {
            ("--packet", true) => format!("--frame-size {largest}"),
            (named, _) => format!("{named}: frames of {largest} bytes"),
        };
        Err(usage(format!("{named}: above {what}: want {most} at the most")))
    }

    /// Returns the places of its lanes among those that send.
    ///
    /// # Errors
    /// Names a lane that does not send.
    pub(in crate::draft) fn lanes(&self, senders: &[usize]) -> Result<Vec<usize>> {
        let place = |lane: &usize| {
            senders.iter().position(|sender| sender == lane).ok_or_else(|| {
                let all: Vec<String> = senders.iter().map(usize::to_string).collect();
                self.wrong(format!("lanes: {lane} does not send: want {}", all.join(", ")))
            })
        };
        let mut lanes = self.stream.lanes.iter().map(place).collect::<Result<Vec<usize>>>()?;
        lanes.sort_unstable();
        lanes.dedup();
        Ok(lanes)
    }

    /// Returns the places of its lanes among those that send, as the engine has them. `number`: that of the stream.
    pub(super) fn places(&self, number: usize, senders: &[usize]) -> Result<Vec<usize>> {
        let lanes = self.lanes(senders)?;
        let made = self.made(0).map(|made| PacketStream { lanes, ..made });
        Ok(made.map(|made| made.senders(number, senders.len())).unwrap_or_default())
    }

    /// Returns the bytes of its headers; of captures, those of Ethernet.
    fn header_len(&self) -> usize {
        self.form().map_or(ETHERNET, Form::header_len)
    }

    /// Returns the stream for the engine, without its load. `hop`: number of its next hop.
    fn made(&self, hop: usize) -> Option<PacketStream> {
        let Content::Made(form) = &self.content else {
            return self.made_of_capture();
        };
        let [dst, src] = form.macs();
        let (sizes, order) = form.size_order();
        let specs = sizes
            .iter()
            .map(|size| form.spec(*size).map(Arc::new))
            .collect::<Option<Vec<_>>>()?;
        let longest = specs.iter().map(|spec| spec.frame_len).max()?;
        let [near, far] = [self.sources(), self.destinations()];
        let made = PacketStream {
            name: self.stream.name.clone(),
            back: self.from_far,
            group: self.stream.group.clone(),
            tracked: self.stream.track,
            mean_size: form.mean_size(),
            to_next_hop: dst.is_none().then_some(hop),
            from_port: src.is_none(),
            packet_len: longest - form.link_len(),
            ends: if self.from_far { [far, near] } else { [near, far] },
            known_by: self.known_by.clone(),
            fields: form.fields_at().into(),
            specs,
            kernel_headers: 0,
            replay: None,
            sizes: order,
            load: None,
            lanes: Vec::new(),
        };
        if self.of_sockets {
            return Some(payloads(made));
        }
        let made = match self.mirror {
            Some(first_flow) => made.mirrored(first_flow),
            None => made,
        };
        // The second port has one next hop.
        let hop = if made.back { 0 } else { hop };
        Some(PacketStream {
            to_next_hop: made.to_next_hop.map(|_| hop),
            ..made
        })
    }

    /// Returns the stream of a capture for the engine, without its load.
    fn made_of_capture(&self) -> Option<PacketStream> {
        let Content::Replayed(replayed, first_flow, seed) = &self.content else {
            return None;
        };
        Some(PacketStream {
            name: self.stream.name.clone(),
            back: false,
            group: self.stream.group.clone(),
            tracked: self.stream.track,
            mean_size: self.mean_size(),
            to_next_hop: None,
            from_port: false,
            packet_len: replayed.longest_untagged().saturating_sub(ETHERNET),
            ends: Default::default(),
            known_by: KnownBy::Tag,
            fields: Arc::default(),
            specs: Vec::new(),
            kernel_headers: 0,
            replay: Some(Replay {
                frames: Arc::clone(&replayed.frames),
                schedule: self.stream.is_timed().then_some(replayed.schedule),
                peak: 1.0,
                first_flow: *first_flow,
                seed: *seed,
            }),
            sizes: Sizes::One,
            load: None,
            lanes: Vec::new(),
        })
    }
}

impl Streamed {
    /// Works out the streams of a run; `None`: its packets are UDP between two ends.
    pub(in crate::draft) fn of(
        args: &Run,
        port: &Checked,
        far: Option<&Checked>,
        known: Known<'_>,
    ) -> Result<Option<Self>> {
        let Some(streams) = &args.plan.traffic.streams else {
            return Ok(None);
        };
        let option = option_of(streams);
        for port in std::iter::once(port).chain(far).filter(|_| !known.of_sockets) {
            paths::check_headers(port, option)?;
        }
        refused::options(args, streams, option)?;
        let mut all = all_of(args, streams, option, known)?;
        let mut before = streams.before();
        if args.plan.traffic.both_ways {
            (all, before) = mirror(all, before)?;
        }
        let asks_nobody = all.iter().any(|one| one.macs()[0].is_some());
        if let Some(hop) = args.plan.traffic.gateway.as_ref().filter(|_| asks_nobody) {
            return Err(usage(format!(
                "--gateway {hop}: nobody is asked beside dst= in eth: want one of the two"
            )));
        }
        let frame_size = loads::mean_size(&all).round() as usize;
        let streamed = Self {
            all,
            frame_size,
            option,
            sockets: None,
            before,
        };
        // Rates of the link's speed are known later; all else is checked before anything is opened.
        streamed.loads(args, None, false)?;
        Ok(Some(streamed))
    }

    /// Refuses streams that are numbered by TCP and whose packets could be each other's.
    pub(in crate::draft) fn check_numbered(&self) -> Result<()> {
        let numbered = |one: &One| match &one.known_by {
            KnownBy::Number(numbered) => Some(Arc::clone(numbered)),
            _ => None,
        };
        let all: Vec<_> = self.all.iter().filter_map(|one| Some((one, numbered(one)?))).collect();
        for (at, (one, own)) in all.iter().enumerate() {
            let same_way = |other: &One| other.goes_back() == one.goes_back();
            let mut others = all[..at].iter();
            if let Some((other, _)) = others.find(|(other, of)| same_way(other) && own.meets(of)) {
                let name = &other.stream.name;
                return Err(one.wrong(format!(
                    "tag tcp: its packets can have the addresses and ports of stream {name}, by which a receiver knows \
                     them: want others, or tail"
                )));
            }
        }
        Ok(())
    }

    /// Returns whether it is known of no packet whether it comes, as [`super::Draft::counts_nothing_of`].
    pub(in crate::draft) fn counts_nothing_of(&self, name: &str) -> bool {
        let named = |one: &&One| {
            let stream = &one.stream;
            name.is_empty() || stream.name == name || stream.group.as_deref() == Some(name)
        };
        let mut of = self.all.iter().filter(named);
        of.all(|one| one.known_by == KnownBy::Headers)
    }

    /// Returns the packets that arrive of streams without a tag. `turned`: with their ends exchanged.
    pub(in crate::draft) fn untagged(&self, turned: bool) -> Vec<Headers> {
        let streams = self.all.iter().filter(|one| one.known_by != KnownBy::Tag);
        let headers = streams.filter_map(|one| one.made(0)?.headers());
        few(headers
            .map(|headers| if turned { headers.turned() } else { headers })
            .collect())
    }

    /// Returns the source addresses of all streams.
    pub(in crate::draft) fn sources(&self) -> Vec<AddressRange> {
        together(self.all.iter().flat_map(One::sources))
    }

    /// Returns the destination addresses of all streams.
    pub(in crate::draft) fn destinations(&self) -> Vec<AddressRange> {
        together(self.all.iter().flat_map(One::destinations))
    }

    /// Returns the packet as it was written, or the streams' names.
    pub(in crate::draft) fn text(&self) -> String {
        match &self.all[..] {
            [one] => match &one.stream.pcap {
                Some(pcap) => pcap.path.clone(),
                None => one.stream.packet.text.clone(),
            },
            all => {
                let names: Vec<&str> = all.iter().take(8).map(|one| one.stream.name.as_str()).collect();
                let more = if all.len() > names.len() { ", …" } else { "" };
                format!("{} streams: {}{more}", all.len(), names.join(", "))
            }
        }
    }

    /// Checks packets of captures that have no tag and come back: the port at which they arrive must take them, and
    /// nobody but this run can tell them from others. Returns a warning for each stream.
    ///
    /// # Errors
    /// Names the port whose programs take packets by their tags.
    pub(in crate::draft) fn check_untagged(&self, port: &Checked, far: Option<&Checked>) -> Result<Vec<Remark>> {
        let mut warnings = Vec::new();
        for one in self.all.iter().filter(|one| one.known_by != KnownBy::Tag) {
            if far.unwrap_or(port).traits.takes_from_host {
                return Err(one.wrong(format!(
                    "its packets have no tag, by which a program takes packets on {}: want tag = tail, or the path \
                     af_packet",
                    far.unwrap_or(port).spec
                )));
            }
            if one.known_by == KnownBy::Headers {
                let text = format!("{}: its packets have no tag: whether they come is not known", one.named);
                warnings.push(Remark::new(RemarkName::Untagged, text).with("stream", one.stream.name.clone()));
            }
        }
        for (one, replayed) in self.all.iter().filter_map(|one| Some((one, one.capture()?))) {
            let all = replayed.frames.len() as u64;
            let untagged = all - replayed.frames.tagged();
            if untagged == 0 {
                continue;
            }
            let arrives = far.unwrap_or(port);
            let why = match (arrives.traits.takes_from_host, far) {
                (true, _) => "a program takes packets by their tags",
                (_, None) if port.traits.returns_by_tag => "the far end returns packets by their tags",
                _ => "",
            };
            let of = match one.stream.tag {
                Tag::Tail => format!("{} of {} packets have no room for a tag", count(untagged), count(all)),
                Tag::Tcp | Tag::None => "its packets have no tag".to_owned(),
            };
            if !why.is_empty() {
                let want = match one.stream.tag {
                    Tag::Tail => "only = packets that have, or a path that takes all frames",
                    Tag::Tcp | Tag::None => "tag = tail, or send in place of sendrecv",
                };
                return Err(one.wrong(format!("{of}, and on {} {why}: want {want}", arrives.spec)));
            }
            let returned = if far.is_none() {
                "; mpps reflect does not return them"
            } else {
                ""
            };
            let text = format!(
                "{}: {of}: they are counted by their content, without latency and order{returned}",
                one.named
            );
            let warning = Remark::new(RemarkName::Untagged, text)
                .with("stream", one.stream.name.clone())
                .with("packets", untagged)
                .with("all_packets", all);
            warnings.push(warning);
        }
        Ok(warnings)
    }

    /// Returns the captures that are sent, and whether their frames get tags.
    pub(in crate::draft) fn captures(&self) -> impl Iterator<Item = (&Pcap, bool)> {
        let all = self.all.iter().map(|one| &one.stream);
        all.filter_map(|stream| Some((stream.pcap.as_deref()?, stream.tag == Tag::Tail)))
    }

    /// Returns whether streams have a spacing of their own, that of a capture.
    pub(in crate::draft) fn has_schedules(&self) -> bool {
        self.all.iter().any(|one| one.stream.is_timed())
    }

    /// Refuses what the programs in the kernel can't make.
    pub(in crate::draft) fn check_in_kernel(&self, port: &PortSpec, senders: usize) -> Result<()> {
        if self.option == "--pcap" {
            let device = &port.device;
            return Err(usage(format!(
                "--pcap: on port '{port}' the programs send no captures: want --packet, or af_xdp:{device}"
            )));
        }
        if self.goes_back() {
            let device = &port.device;
            return Err(usage(format!(
                "--both-ways: on port '{port}' the programs make no packets of any headers for two ways: want one way, \
                 or af_xdp:{device}"
            )));
        }
        kernel::check_streams(self.all.len(), port)?;
        let one_packet = self.option == "--packet";
        self.all.iter().try_for_each(|one| {
            let refused = |option: &str, why: &str, want: &str| {
                let device = &port.device;
                Err(usage(format!(
                    "{option}: on port '{port}' {why}: want {want}, or af_xdp:{device}"
                )))
            };
            let named = one.named.as_str();
            let Some(made) = one.made(0) else { return Ok(()) };
            if made.replay.is_some() {
                return refused(named, "the programs send no captures", "a packet");
            }
            let Some(spec) = made.specs.first() else { return Ok(()) };
            if made.specs.len() > MOST_SIZES_IN_KERNEL {
                let why = format!(
                    "the programs have room for {MOST_SIZES_IN_KERNEL} sizes of a stream, not {}",
                    made.specs.len()
                );
                return refused(named, &why, "fewer");
            }
            if one_packet && (spec.flows as usize) < senders {
                let why = format!("{senders} lanes send, each flow by one (flows: {})", spec.flows);
                return refused("--lanes", &why, "fewer lanes");
            }
            if spec.varied > 0 {
                let why = "the programs write no payload that varies";
                return refused(named, why, "fields of headers alone");
            }
            if icmp_error(&spec.headers).is_some() {
                let why = "the programs take no report of ICMP for a packet of the test";
                return refused(named, why, "another type");
            }
            let Some(parts) = Image::new(ImageSpec::clone(spec)).and_then(|image| image.parts()) else {
                let why = "the programs make no packet without a tag at its end, no payload but data, no CRC32c \
                           (SCTP), no wrong checksum, and no field of random values that shares a byte with another, \
                           has more than 64 bits, or is a part of others";
                return refused(named, why, "a packet without");
            };
            if parts.writers.len() > MOST_FIELDS {
                let why = format!(
                    "the programs have room for {MOST_FIELDS} fields that vary, not {}",
                    parts.writers.len()
                );
                return refused(named, &why, "fewer");
            }
            Ok(())
        })
    }

    /// Refuses several receive lanes for values at random.
    pub(in crate::draft) fn check_receivers(&self, roles: &[Roles]) -> Result<()> {
        // Both ways, each has its own half of the lanes.
        let lanes = roles.iter().filter(|role| role.rx).count() / if self.goes_back() { 2 } else { 1 };
        self.all.iter().try_for_each(|one| one.check_receivers(lanes))
    }

    /// Returns whether streams go both ways between two ports.
    pub(in crate::draft) fn goes_back(&self) -> bool {
        self.all.iter().any(One::goes_back)
    }

    /// Returns the lanes that send, of each way.
    pub(in crate::draft) fn senders(&self, roles: &[Roles]) -> Vec<usize> {
        let mut senders = senders(roles);
        if self.goes_back() {
            senders.truncate(senders.len() / 2);
        }
        senders
    }

    /// Refuses lanes of a stream that do not send.
    pub(in crate::draft) fn check_lanes(&self, roles: &[Roles]) -> Result<()> {
        let senders = self.senders(roles);
        self.all.iter().try_for_each(|one| one.lanes(&senders).map(drop))
    }

    /// Returns the flows of all streams.
    pub(in crate::draft) fn flows(&self) -> FlowSet {
        FlowSet::numbered(self.all.iter().map(|one| one.flows().max(1)).sum())
    }

    /// Returns the streams for the engine, without loads. `stripped`: the port at which they arrive takes the outermost
    /// VLAN tag off, and the first of two ports does. `hops`: number of each stream's next hop.
    pub(in crate::draft) fn packets(&self, stripped: [bool; 2], hops: &[usize]) -> Option<Packets> {
        let made = self.all.iter().zip(hops).map(|(one, hop)| one.made(*hop));
        Some(Packets {
            streams: made.collect::<Option<_>>()?,
            stripped,
            turned: false,
            hops: Vec::new(),
        })
    }

    /// Returns the bytes behind the headers of the first stream's smallest frame.
    pub(in crate::draft) fn payload_len(&self) -> usize {
        let one = &self.all[0];
        (one.sizes().0 as usize).saturating_sub(FrameSize::FCS_LEN + one.header_len())
    }

    /// Refuses frames that a port can't send. `limit`: what limits sockets, if it is not the interface.
    pub(in crate::draft) fn check_size(
        &self,
        capabilities: &Capabilities,
        device: Option<&NetDev>,
        spec: &PortSpec,
        limit: Option<&str>,
    ) -> Result<()> {
        // A port with sockets says how much fits behind the longest headers.
        let longest = self.all.iter().map(One::header_len).max().unwrap_or(0);
        self.all.iter().try_for_each(|one| {
            let room = longest - one.header_len();
            one.check_size((capabilities, room), device, spec, limit)
        })
    }
}

/// Returns a stream whose headers the kernel writes, so that its frames are payloads.
fn payloads(made: PacketStream) -> PacketStream {
    let kernel_headers = made.specs.first().map_or(0, |spec| spec.headers.len());
    let payload = |spec: &Arc<ImageSpec>| {
        Arc::new(ImageSpec {
            headers: Vec::new(),
            fields: Vec::new(),
            sums: Vec::new(),
            frame_len: spec.frame_len - kernel_headers,
            ..ImageSpec::clone(spec)
        })
    };
    PacketStream {
        specs: made.specs.iter().map(payload).collect(),
        kernel_headers,
        to_next_hop: None,
        from_port: false,
        fields: Arc::default(),
        ..made
    }
}

/// Returns packets of streams as so few as an interface has room for programs: each by itself or, of many streams,
/// those of a protocol together, from any of their ends to any.
pub(crate) fn few(headers: Vec<Headers>) -> Vec<Headers> {
    const MOST: usize = 16;
    let mut few: Vec<Headers> = Vec::new();
    for of in headers {
        if !few.contains(&of) {
            few.push(of);
        }
    }
    if few.len() <= MOST {
        return few;
    }
    let mut by_protocol: Vec<Headers> = Vec::new();
    let hull = |one: &RangeInclusive<u16>, other: &RangeInclusive<u16>| {
        *one.start().min(other.start())..=*one.end().max(other.end())
    };
    // No addresses are any.
    let union = |one: &[AddressRange], other: &[AddressRange]| match one.is_empty() || other.is_empty() {
        true => Vec::new(),
        false => together(one.iter().chain(other).cloned()),
    };
    for of in few {
        match by_protocol.iter_mut().find(|other| other.protocol == of.protocol) {
            None => by_protocol.push(of),
            Some(other) => {
                *other = Headers {
                    protocol: of.protocol,
                    from: union(&other.from, &of.from),
                    from_ports: hull(&other.from_ports, &of.from_ports),
                    to: union(&other.to, &of.to),
                    to_ports: hull(&other.to_ports, &of.to_ports),
                }
            }
        }
    }
    by_protocol
}

/// Returns the lanes that send.
pub(in crate::draft) fn senders(roles: &[Roles]) -> Vec<usize> {
    (0..roles.len()).filter(|lane| roles[*lane].tx).collect()
}

/// Returns ranges of addresses, those that meet or lie in each other in one.
fn together(ranges: impl Iterator<Item = AddressRange>) -> Vec<AddressRange> {
    let mut all: Vec<AddressRange> = ranges.collect();
    all.sort_by(|one, other| one.start().cmp(other.start()).then(other.end().cmp(one.end())));
    let mut joined: Vec<AddressRange> = Vec::new();
    for range in all {
        match joined.last() {
            Some(last) if last.start().is_ipv4() == range.start().is_ipv4() && range.end() <= last.end() => {}
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_streams_are_known_together_by_their_protocol() {
        let of = |protocol: u8, host: u8, port: u16| Headers {
            protocol,
            from: vec![ranges::one([10, 0, 0, host].into())],
            from_ports: port..=port,
            to: if protocol == 17 {
                Vec::new()
            } else {
                vec![ranges::one([10, 1, 0, 1].into())]
            },
            to_ports: 0..=u16::MAX,
        };
        assert_eq!(
            few(vec![of(6, 1, 5), of(6, 1, 5), of(17, 1, 5)]),
            [of(6, 1, 5), of(17, 1, 5)]
        );
        let many = (1..=20).flat_map(|host| [of(6, host, 100 - u16::from(host)), of(17, host, 7)]);
        let few = few(many.collect());
        let told: Vec<_> = few
            .iter()
            .map(|of| (of.protocol, of.from.len(), of.to.len(), &of.from_ports))
            .collect();
        assert_eq!(told, [(6, 20, 1, &(80..=99)), (17, 20, 0, &(7..=7))]);
    }
}
