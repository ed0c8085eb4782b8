//! Packets of any headers (`--packet`, `--traffic`), worked out for the ports of a run.

mod loads;
mod one;
mod refused;
mod untagged;

use super::super::kernel;
use crate::fail::{Result, usage};
use crate::paths::{self, Checked};
use crate::replay::LastRead;
use crate::request::Run;
use mpps_engine::{FlowSet, Packets};
use mpps_io::{AddressRange, Capabilities, PortSpec, Roles, SocketFlow};
use mpps_netdev::NetDev;
use mpps_plan::values::is_one_host;
use mpps_traffic::{Pcap, Stream, Tag, Traffic};
use mpps_wire::tagged::icmp_error;
use mpps_wire::{FrameSize, Image, ImageSpec};

pub(in crate::draft) use one::One;
pub(super) use refused::options;
pub(crate) use refused::{Taken, of_listener};
pub(crate) use untagged::few;

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
        if let Some(group) = one.first_dst().filter(|ip| !is_one_host(*ip)) {
            return Err(one.wrong(format!(
                "dst {group}: beside --both-ways, a group sends nothing back: want the address of a host"
            )));
        }
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
        if let Some(back) = self.all.iter().find(|one| one.goes_back()) {
            return Err(back.wrong(format!(
                "on port '{port}' the programs make packets of any headers for one way alone: want neither --both-ways \
                 nor from, or af_xdp:{}",
                port.device
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
