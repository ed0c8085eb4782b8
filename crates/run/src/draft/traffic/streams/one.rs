//! One stream of a run: its packets, and what is known of them before they are made.

use super::super::limit_of;
use super::{ETHERNET, Known, VLAN_TAG, named};
use crate::fail::{Failure, Result, usage};
use crate::privilege::as_user;
use crate::replay::{LastRead, Replayed};
use crate::request::Run;
use mpps_engine::{KnownBy, Link, Numbered, PacketStream, Replay};
use mpps_io::{AddressRange, Capabilities, PortSpec, addresses as ranges};
use mpps_netdev::NetDev;
use mpps_plan::Workload;
use mpps_traffic::{Form, Load, Pcap, Ranges, Size, Source, Speed, Stream, Tag, Vary, VlanTag};
use mpps_wire::image::Sizes;
use mpps_wire::{FrameSize, ImageSpec, MacAddr};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// One stream.
#[derive(Clone, Debug)]
pub(in crate::draft) struct One {
    pub(super) content: Content,
    pub(in crate::draft) stream: Stream,
    /// Source and destination addresses of the outermost IP header; `None`: the packet's text has none.
    pub(super) ends: Option<[Option<Ranges>; 2]>,
    pub(super) v6: bool,
    /// The kernel writes its headers, and its flows are sockets.
    pub(super) of_sockets: bool,
    /// Packets of it come back to this run.
    pub(super) receives: bool,
    /// It leaves by the second port as its text says, which then has its source.
    pub(super) from_far: bool,
    /// Number of its first flow, if it is the mirror of another stream that goes the other way.
    pub(super) mirror: Option<u32>,
    /// How a receiver knows its packets.
    pub(super) known_by: KnownBy,
    /// How a message names it: `--packet`, or `--traffic: stream NAME`.
    pub(in crate::draft) named: String,
}

/// Frames of a stream.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Made(Box<Form>),
    /// Frames of a capture, the number of the first flow, and the key of their tags.
    Replayed(Box<Replayed>, u32, u64),
}

/// Returns whether these are several addresses.
fn are_several(ips: &[AddressRange]) -> bool {
    ips.len() > 1 || ips.iter().any(|range| range.start() != range.end())
}

impl One {
    pub(super) fn new(mut stream: Stream, option: &str, args: &Run, first_flow: u32, of_sockets: bool) -> Result<Self> {
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
    pub(super) fn replayed(
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
        let (all, count) = (replayed.facts.packets, args.plan.traffic.count);
        let packets = stream.packets.into_iter().chain(count).min();
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
        let rated = matches!(stream.load, Load::Rate(_)) || args.plan.load.rate.is_some();
        if rated && !stream.is_timed() && replayed.frames.read_ahead().is_some() && replayed.frames.lanes() > 1 {
            return Err(wrong(
                &"its packets are read while they are sent, and lanes of an even rate take them in another order: want \
                  one lane, or the times of the capture",
            ));
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
    pub(in crate::draft::traffic) fn form(&self) -> Option<&Form> {
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
    pub(super) fn flows(&self) -> u32 {
        match &self.content {
            Content::Made(form) => form.flows(),
            Content::Replayed(replayed, ..) => replayed.frames.lanes() as u32,
        }
    }

    /// Returns the number of different sizes of its frames.
    pub(super) fn sizes_in_all(&self) -> usize {
        match &self.content {
            Content::Made(form) => form.size_order().0.len(),
            Content::Replayed(replayed, ..) => replayed.frames.lens().len(),
        }
    }

    /// Returns its smallest and its largest frame, bytes with FCS.
    pub(super) fn sizes(&self) -> (u64, u64) {
        match &self.content {
            Content::Made(form) => form.sizes(),
            Content::Replayed(replayed, ..) => {
                let (smallest, largest) = replayed.sizes();
                (smallest as u64, largest as u64)
            }
        }
    }

    /// Returns the mean size of its frames, bytes with FCS.
    pub(super) fn mean_size(&self) -> f64 {
        match &self.content {
            Content::Made(form) => form.mean_size(),
            Content::Replayed(replayed, ..) => replayed.mean_size(),
        }
    }

    /// Returns the sum of sizes of so many frames, bytes with FCS, and their number, whose ratio is the mean.
    pub(super) fn size_sum(&self) -> (u64, u64) {
        match &self.content {
            Content::Made(form) => form.size_sum(),
            Content::Replayed(replayed, ..) => {
                let frames = replayed.frames.len() as u64;
                ((self.mean_size() * frames as f64).round() as u64, frames)
            }
        }
    }

    /// Returns destination and source MAC address as far as they are given.
    pub(super) fn macs(&self) -> [Option<MacAddr>; 2] {
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
    pub(super) fn check_receivers(&self, lanes: usize) -> Result<()> {
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
    pub(super) fn check_size(
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
        let what = limit.map_or_else(|| limit_of(spec, limited), str::to_owned);
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
    pub(in crate::draft::traffic) fn places(&self, number: usize, senders: &[usize]) -> Result<Vec<usize>> {
        let lanes = self.lanes(senders)?;
        let made = self.made(0).map(|made| PacketStream { lanes, ..made });
        Ok(made.map(|made| made.senders(number, senders.len())).unwrap_or_default())
    }

    /// Returns the bytes of its headers; of captures, those of Ethernet.
    pub(super) fn header_len(&self) -> usize {
        self.form().map_or(ETHERNET, Form::header_len)
    }

    /// Returns the stream for the engine, without its load. `hop`: number of its next hop.
    pub(super) fn made(&self, hop: usize) -> Option<PacketStream> {
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
