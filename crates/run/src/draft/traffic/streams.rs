//! Packets of any headers (`--packet`), worked out for the ports of a run.

use crate::fail::{Failure, Result, usage};
use crate::paths::{self, Checked};
use crate::request::Run;
use mpps_engine::{FlowSet, Packets};
use mpps_io::{AddressRange, Capabilities, PortSpec, Roles, Step, addresses as ranges};
use mpps_netdev::NetDev;
use mpps_traffic::{Fill, Form, Load, Ranges, Size, Source, Stream, Tag, Traffic, Vary};
use mpps_wire::{FrameSize, MacAddr};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Bytes of a VLAN tag.
const TAG: usize = 4;

/// Stream of a run.
#[derive(Clone, Debug)]
pub(crate) struct Streamed {
    form: Form,
    /// Length of a frame with FCS, bytes.
    pub(crate) frame_size: usize,
    /// Packet, as it was written.
    pub(crate) text: String,
    /// Source and destination addresses of the outermost IP header; `None`: the packet's text has none.
    ends: Option<[Option<Ranges>; 2]>,
    v6: bool,
}

/// Refuses options that say what a packet's own fields say.
fn refuse_options(args: &Run) -> Result<()> {
    let of = &args.plan.traffic;
    let fields = [
        (of.src.is_some(), "--src", "src= in the packet"),
        (of.dest.is_some(), "--dest", "dst= in the packet"),
        (of.src_ports.is_some(), "--src-port-range", "src= in udp or tcp"),
        (of.vlan.is_some(), "--vlan", "vlan vid= in the packet"),
        (of.ttl != 64, "--ttl", "ttl= in ipv4, hop= in ipv6"),
        (of.dscp != 0, "--dscp", "dscp= in ipv4 or ipv6"),
        (*of.step != Step::Combine, "--step", "it left out"),
        (of.flows.is_some(), "--flows", "ranges of as many values in the packet"),
        (of.payload_size.is_some(), "--payload-size", "--frame-size"),
        (of.dest_mac.is_some(), "--dest-mac", "eth dst= in the packet"),
        (of.both_ways, "--both-ways", "a run for each way"),
        (args.plan.load.then.is_some(), "--then", "it left out"),
    ];
    match fields.iter().find(|(given, ..)| *given) {
        Some((_, option, want)) => Err(usage(format!("{option}: beside --packet: want {want}"))),
        None => Ok(()),
    }
}

/// Refuses keys of a stream that runs do not follow.
fn refuse_keys(stream: &Stream) -> Result<()> {
    let name = &stream.name;
    let keys = [
        (stream.tag != Tag::Tail, "tag", "tail"),
        (stream.load != Load::Most, "rate, weight", "--rate"),
        (stream.packets.is_some(), "packets", "--count"),
        (
            !stream.start.is_zero() || stream.after.is_some(),
            "start, after",
            "it left out",
        ),
        (
            stream.burst.is_some() || stream.pacing.is_some(),
            "burst, pacing",
            "--pacing",
        ),
        (stream.repeat != 1, "repeat", "it left out"),
        (!stream.lanes.is_empty(), "lanes", "--lanes"),
        (stream.from.is_some() || stream.to.is_some(), "from, to", "it left out"),
        (stream.group.is_some(), "group", "it left out"),
        (stream.track, "track", "it left out"),
        (!stream.scale, "scale", "it left out"),
    ];
    match keys.iter().find(|(given, ..)| *given) {
        Some((_, key, want)) => Err(usage(format!("--packet: stream {name}: {key}: want {want}"))),
        None => Ok(()),
    }
}

/// Returns the one stream of a run, whose keys runs follow.
fn only(streams: &Traffic) -> Result<&Stream> {
    let [stream] = &streams.streams[..] else {
        return Err(wrong(format!("{} streams: want one", streams.streams.len())));
    };
    refuse_keys(stream)?;
    Ok(stream)
}

/// Returns whether these are several addresses.
fn are_several(ips: &[AddressRange]) -> bool {
    ips.len() > 1 || ips.iter().any(|range| range.start() != range.end())
}

/// Checks the packet of a listener. Returns the bytes of its headers.
pub(crate) fn of_listener(streams: &Traffic, seed: u64) -> Result<usize> {
    let stream = only(streams)?;
    if stream.fill != Fill::Data {
        return Err(wrong("fill: the data of a sender are verified: want data"));
    }
    Ok(Form::of(stream, seed, 0).map_err(|why| wrong(why.line))?.header_len())
}

fn wrong(why: impl std::fmt::Display) -> Failure {
    usage(format!("--packet: {why}"))
}

impl Streamed {
    /// Works out the stream of a run; `None`: its packets are UDP between two ends.
    pub(in crate::draft) fn of(args: &Run, port: &Checked, far: Option<&Checked>) -> Result<Option<Self>> {
        let Some(streams) = &args.plan.traffic.streams else {
            return Ok(None);
        };
        for port in std::iter::once(port).chain(far) {
            paths::check_headers(port)?;
        }
        refuse_options(args)?;
        let mut stream = only(streams)?.clone();
        if let Some(size) = args.plan.traffic.frame_size {
            if stream.size.is_some() {
                return Err(usage(format!(
                    "--frame-size {size}: the stream has a size: want one of the two"
                )));
            }
            stream.size =
                Some(Size::parse(&size.to_string()).map_err(|why| usage(format!("--frame-size {}", why.line)))?);
        }
        let form = Form::of(&stream, args.plan.seed, 0).map_err(|why| wrong(why.line))?;
        let (smallest, largest) = form.sizes();
        if smallest != largest {
            return Err(wrong(format!("frames of {smallest} to {largest} bytes: want one size")));
        }
        if form.spec(smallest).is_none() {
            return Err(wrong("bytes of the payload have values: want fields of headers alone"));
        }
        let outer = form.outer_ip().map_err(wrong)?;
        if let Some(hop) = args.plan.traffic.gateway.as_ref().filter(|_| form.macs()[0].is_some()) {
            return Err(usage(format!(
                "--gateway {hop}: nobody is asked beside dst= in eth: want one of the two"
            )));
        }
        let groups = |ips: &Ranges| {
            let group = |range: &AddressRange| range.start().is_multicast() || range.end().is_multicast();
            are_several(ips) && ips.iter().any(group)
        };
        let dests = outer.as_ref().and_then(|outer| outer.dst.as_ref());
        if dests.is_some_and(groups) && form.macs()[0].is_none() {
            return Err(wrong(
                "each of several groups has a MAC address of its own: want dst=MAC in eth, or one group",
            ));
        }
        Ok(Some(Self {
            frame_size: smallest as usize,
            text: stream.packet.text.clone(),
            v6: outer.as_ref().is_some_and(|outer| outer.v6),
            ends: outer.map(|outer| [outer.src, outer.dst]),
            form,
        }))
    }

    /// Returns the first destination address; `None` without an IP header, or if the packet's text has none.
    pub(in crate::draft) fn first_dst(&self) -> Option<IpAddr> {
        let [_, dst] = self.ends.as_ref()?;
        dst.as_ref()?.first().map(|range| *range.start())
    }

    /// Returns the first source address, as [`Streamed::first_dst`].
    pub(in crate::draft) fn first_src(&self) -> Option<IpAddr> {
        let [src, _] = self.ends.as_ref()?;
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

    /// Gives the packets these addresses where their text has none.
    pub(in crate::draft) fn set_addresses(&mut self, src: IpAddr, dst: IpAddr) {
        self.form.set_addresses(src, dst);
        if let Some([of_src, of_dst]) = &mut self.ends {
            of_src.get_or_insert_with(|| vec![ranges::one(src)]);
            of_dst.get_or_insert_with(|| vec![ranges::one(dst)]);
        }
    }

    /// Returns the source addresses.
    pub(in crate::draft) fn sources(&self) -> Vec<AddressRange> {
        self.ends.as_ref().and_then(|[src, _]| src.clone()).unwrap_or_default()
    }

    /// Returns the destination addresses.
    pub(in crate::draft) fn destinations(&self) -> Vec<AddressRange> {
        self.ends.as_ref().and_then(|[_, dst]| dst.clone()).unwrap_or_default()
    }

    /// Returns whether there are several destination addresses.
    pub(in crate::draft) fn has_destinations(&self) -> bool {
        are_several(&self.destinations())
    }

    /// Refuses several receive lanes for values at random, which have no period and so make no flows: packets of one
    /// flow would come to several lanes.
    pub(in crate::draft) fn check_receivers(&self, roles: &[Roles]) -> Result<()> {
        let lanes = roles.iter().filter(|role| role.rx).count();
        let random = |vary: &&Vary| matches!(vary.source, Source::Random { period: None, .. });
        match self.form.varies().iter().find(random) {
            Some(vary) if lanes > 1 => Err(wrong(format!(
                "{}: its values have no period and make no flows, which {lanes} receive lanes need: want one lane, or \
                 a period, such as random(1..9)*1000",
                vary.name
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the flows.
    pub(in crate::draft) fn flows(&self) -> FlowSet {
        FlowSet::numbered(self.form.flows().max(1))
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
        self.form.macs()[0].or_else(group)
    }

    /// Returns the VLAN in which neighbours are asked; `None`: without a tag, or nobody is asked.
    pub(in crate::draft) fn vlan(&self) -> Option<u16> {
        match self.form.vlans()[..] {
            [one] if !one.service => Some(one.vid),
            _ => None,
        }
    }

    /// Returns whether the tag in which neighbours are asked is one of several.
    pub(in crate::draft) fn has_vlans(&self) -> bool {
        self.form.vlans().iter().any(|tag| tag.varies)
    }

    /// Refuses tags in which nobody can be asked for the next hop.
    ///
    /// # Errors
    /// Says that a MAC address is wanted.
    pub(in crate::draft) fn check_tags(&self) -> Result<()> {
        match self.form.vlans().is_empty() || self.vlan().is_some() {
            true => Ok(()),
            false => Err(wrong(
                "the next hop is asked for with one 802.1Q tag at most, and the packet has others: want dst=MAC in eth",
            )),
        }
    }

    /// Returns the packets for the engine. `stripped`: the port at which they arrive takes the outermost VLAN tag off.
    pub(in crate::draft) fn packets(&self, stripped: bool) -> Option<Packets> {
        let [dst, src] = self.form.macs();
        let spec = self.form.spec(self.frame_size as u64)?;
        Some(Packets {
            to_next_hop: dst.is_none(),
            from_port: src.is_none(),
            packet_len: spec.frame_len - self.form.link_len(),
            ends: [self.sources(), self.destinations()],
            fields: self.form.fields_at(),
            stripped,
            spec: Arc::new(spec),
        })
    }

    /// Returns the bytes behind the headers.
    pub(in crate::draft) fn payload_len(&self) -> usize {
        self.frame_size - FrameSize::FCS_LEN - self.form.header_len()
    }

    /// Refuses frames that a port can't send.
    pub(in crate::draft) fn check_size(
        &self,
        capabilities: &Capabilities,
        device: Option<&NetDev>,
        spec: &PortSpec,
    ) -> Result<()> {
        // The path's largest frame may be smaller than the device's. One VLAN tag does not count towards the MTU.
        let limited = device.is_some_and(|d| capabilities.max_frame < d.mtu + ETHERNET);
        let tags = match device.is_some() && !limited {
            true => (self.form.link_len() - ETHERNET).min(TAG),
            false => 0,
        };
        let most = capabilities.max_frame + tags + FrameSize::FCS_LEN;
        if self.frame_size <= most {
            return Ok(());
        }
        let what = match limited {
            true => format!("what the path can send on {spec}"),
            false => format!("the MTU of {spec}"),
        };
        Err(usage(format!(
            "--frame-size {}: above {what}: want {most} at the most",
            self.frame_size
        )))
    }
}
