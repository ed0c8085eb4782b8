//! Engine's plan of a run that sends, once its ports are open and their capabilities known.

use super::super::listen::unanswered;
use super::super::neighbor::{Asked, advice, not_asked_in_vlan, skipped};
use super::super::{kernel, lanes};
use super::load::{lasts, no_rate, no_step};
use super::{Draft, One, Streamed};
use super::{dashed, limit_of};
use crate::fail::{Result, usage};
use crate::paths::Neighbors;
use mpps_engine::{Common, Hop, Link, Packets, RateStep, Rates, TrafficPlan};
use mpps_io::{Capabilities, Layer, PortSpec, addresses as ranges};
use mpps_netdev::{self as netdev, NetDev};
use mpps_plan::Plain;
use mpps_plan::values::rate::StepText;
use mpps_stats::HostFact;
use mpps_wire::{FrameSize, MacAddr};
use std::net::IpAddr;
use std::time::Duration;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// MAC address that packets on paths without a wire are sent to.
const NOBODY: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

impl Draft {
    /// Returns the plan of a run over two ports, once they are open. See [`Draft::plan`].
    pub(crate) fn plan_across(&self, from: &Capabilities, to: &Capabilities, asked: &Asked<'_>) -> Result<TrafficPlan> {
        let mut plan = self.plan(from, asked)?;
        let mac = MacAddr(to.mac.unwrap_or([2, 0, 0, 0, 0, 2]));
        if let Some(far) = &self.far {
            let arrives = HostFact::shown("arrives_at", far.port.spec.to_string());
            plan.common.host.push(arrives);
            self.check_size(to, far.device.as_ref(), &far.port.spec)?;
            plan.far = Some(far.link((mac, plan.link.as_ref()), &self.args, &self.all_destinations(), asked)?);
        }
        // Without a router, the device between the ports forwards frames by the MAC address of the destination port.
        if self.args.plan.traffic.gateway.is_none() {
            let hops = plan.packets.iter_mut().flat_map(|packets| &mut packets.hops);
            let links = plan.link.iter_mut().chain(hops.map(|hop| &mut hop.link));
            links.for_each(|link| _ = link.dest_mac.get_or_insert(mac));
        }
        if let Some(far) = self.far.as_ref().filter(|far| far.both) {
            plan.back = Some(far.facts_back(&plan.common.host, self.args.plan.port(), &plan));
        }
        Ok(plan)
    }

    /// Returns the plan, once the port is open and its capabilities are known. If the host has to ask for the next hop,
    /// `asked` does that.
    pub(crate) fn plan(&self, capabilities: &Capabilities, asked: &Asked<'_>) -> Result<TrafficPlan> {
        let args = &self.args;
        self.check_size(capabilities, self.device.as_ref(), args.plan.port())?;
        let burst = capabilities.preferred_burst;
        let finite = match &self.stream {
            Some(streams) => streams.loads(args, capabilities.link_bps, true)?.finite,
            None => false,
        };
        let mut common = if self.port.traits.in_kernel {
            let readers = if self.far.as_ref().is_some_and(|far| far.both) {
                2
            } else {
                1
            };
            kernel::common(args, &self.roles, readers, lasts(args, finite), capabilities.path)?
        } else {
            lanes::common(args, &self.roles, lasts(args, finite), burst)?
        };
        let tx_burst = args.plan.lanes.tx_burst.unwrap_or(common.burst);
        common.burst = args.plan.lanes.rx_burst.unwrap_or(common.burst);
        if tx_burst != common.burst {
            common.host.push(HostFact::new("tx_burst", tx_burst.to_string()));
        }
        common.settle = *args.plan.times.settle;
        common.settle_early = args.plan.times.settle_early;
        common.run_id = self.run_id;
        common.warnings.extend(self.warnings.iter().chain(&self.notes).cloned());
        let (link, packets) = match &self.stream {
            None => (self.link(capabilities, asked)?, None),
            Some(streams) if capabilities.layer == Layer::Payload => {
                (None, streams.packets([false; 2], &vec![0; streams.all.len()]))
            }
            Some(streams) => {
                let (link, hops, numbers) = self.links(streams, capabilities, asked)?;
                let arrives = self.far.as_ref().map_or(&self.port, |far| &far.port);
                let strips = [arrives, &self.port].map(|port| port.traits.strips_tags);
                let packets = streams.packets(strips, &numbers);
                (Some(link), packets.map(|packets| Packets { hops, ..packets }))
            }
        };
        common.host.extend(self.facts(link.as_ref(), packets.as_ref()));
        common.host.extend(
            capabilities
                .link_bps
                .map(|bps| HostFact::new("link_bps", bps.to_string())),
        );
        common.host.extend(self.rules.facts());
        if let (Some(streams), Some(packets)) = (&self.stream, packets) {
            return self.plan_of(streams, packets, link, common, (capabilities, tx_burst));
        }
        let rate = args
            .plan
            .load
            .rate
            .as_ref()
            .map(|rate| {
                rate.resolve(self.frame_size, capabilities.link_bps)
                    .map_err(|want| no_rate(rate, &want))
            })
            .transpose()?;
        let step = |step: &StepText| -> Result<RateStep> {
            let rate = step.rate.resolve(self.frame_size, capabilities.link_bps);
            Ok(RateStep {
                after_ns: step.after.as_nanos() as u64,
                rate: rate.map_err(|want| no_step(step, &want))?,
            })
        };
        let then = args.plan.load.then.as_deref().map(step).transpose()?;
        common.count = args.plan.traffic.count;
        if let (Some(count), Some(first)) = (args.plan.traffic.count, rate) {
            // With a rate, a number of packets sets the time that they take.
            let takes = Duration::from_nanos(Rates { first, then }.time_for(count));
            common.duration = Some(common.duration.map_or(takes, |duration| duration.min(takes)));
        }
        Ok(TrafficPlan {
            rate,
            then,
            link,
            ..self.base(common, tx_burst)
        })
    }

    /// Returns the plan without rate, packets and layer 2.
    fn base(&self, common: Common, tx_burst: usize) -> TrafficPlan {
        let plan = &self.args.plan;
        TrafficPlan {
            common,
            receive: self.receive,
            src: self.src,
            dst: self.dest.ip,
            flows: self.flows.clone(),
            packets: None,
            payload_len: self.payload_len,
            frame_size: self.frame_size,
            rate: None,
            then: None,
            pacing: *plan.load.pacing,
            tx_burst,
            catch_up: *plan.load.catch_up,
            tolerance: *plan.checks.tolerance,
            ttl: plan.traffic.ttl,
            dscp: plan.traffic.dscp,
            link: None,
            far: None,
            back: None,
            beside: Vec::new(),
        }
    }

    /// Returns the plan of streams. With rates, numbers of packets set the time that they take.
    fn plan_of(
        &self,
        streams: &Streamed,
        mut packets: Packets,
        link: Option<Link>,
        mut common: Common,
        (capabilities, tx_burst): (&Capabilities, usize),
    ) -> Result<TrafficPlan> {
        let loads = streams.loads(&self.args, capabilities.link_bps, true)?;
        let senders = streams.senders(&self.roles);
        for ((stream, load), one) in packets.streams.iter_mut().zip(loads.of).zip(&streams.all) {
            stream.load = load;
            if let Some((replay, replayed)) = stream.replay.as_mut().zip(one.capture()) {
                replay.peak = replayed.peak(*self.args.plan.times.settle);
            }
            stream.lanes = one.lanes(&senders)?;
        }
        common.count = self.args.plan.traffic.count.or(loads.packets);
        let takes = match (
            common
                .count
                .filter(|_| !streams.has_schedules() && !streams.goes_back()),
            loads.total,
        ) {
            (Some(count), Some(first)) => Some(Duration::from_nanos(Rates { first, then: None }.time_for(count))),
            _ => loads.ends,
        };
        if let Some(takes) = takes {
            common.duration = Some(common.duration.map_or(takes, |duration| duration.min(takes)));
        }
        Ok(TrafficPlan {
            packets: Some(packets),
            rate: loads.total,
            pacing: loads.pacing,
            link,
            ..self.base(common, tx_burst)
        })
    }

    /// Returns layer 2 of the port for packets to the destination; `None`: the kernel writes the headers.
    fn link(&self, capabilities: &Capabilities, asked: &Asked<'_>) -> Result<Option<Link>> {
        if capabilities.layer == Layer::Payload {
            return Ok(None);
        }
        let of = &self.args.plan.traffic;
        let way = (of.vlan, of.dest_mac.plain());
        self.link_to(self.dest.ip, way, None, capabilities, asked).map(Some)
    }

    /// Returns layer 2 of the port for the packets of each stream: all different ones, the first first, and the number
    /// of each stream's.
    fn links(
        &self,
        streams: &Streamed,
        capabilities: &Capabilities,
        asked: &Asked<'_>,
    ) -> Result<(Link, Vec<Hop>, Vec<usize>)> {
        let mut hops: Vec<Hop> = Vec::new();
        let mut numbers = Vec::new();
        for one in &streams.all {
            if one.goes_back() {
                // The link of the second port has its next hop.
                numbers.push(0);
                continue;
            }
            let dst = one.first_dst().unwrap_or(self.dest.ip);
            let link = self.link_to(dst, (one.vlan(), one.dest_mac()), Some(one), capabilities, asked)?;
            let same = |hop: &Hop| {
                let of = |link: &Link| {
                    (
                        link.vlan,
                        link.dest_mac,
                        link.dest_mac.is_none().then_some(link.next_hop),
                    )
                };
                of(&hop.link) == of(&link)
            };
            numbers.push(match hops.iter().position(same) {
                Some(number) => number,
                None => {
                    let src = one.first_src().unwrap_or(self.src);
                    hops.push(Hop { link, src });
                    hops.len() - 1
                }
            });
        }
        let first = hops.remove(0);
        Ok((first.link, hops, numbers))
    }

    /// Returns layer 2 of the port for packets to `dst`, of stream `of`; the way there: VLAN, and MAC address if it was
    /// given.
    fn link_to(
        &self,
        dst: IpAddr,
        (vlan, given_mac): (Option<u16>, Option<MacAddr>),
        of: Option<&One>,
        capabilities: &Capabilities,
        asked: &Asked<'_>,
    ) -> Result<Link> {
        let mac = MacAddr(capabilities.mac.unwrap_or([2, 0, 0, 0, 0, 1]));
        let skip = match of {
            Some(one) if self.stream.as_ref().is_some_and(|streams| streams.all.len() > 1) => {
                &format!("dst=MAC in eth of stream {}", one.stream.name)
            }
            Some(_) => "dst=MAC in eth",
            None => "--dest-mac MAC",
        };
        let Some(device) = &self.device else {
            // mpps answers for its own address and asks for the peer's.
            if self.port.traits.neighbors == Neighbors::LanesAlone {
                return Ok(Link {
                    mac,
                    vlan,
                    answer_for: self.all_sources(),
                    unanswered: Vec::new(),
                    dest_mac: given_mac,
                    next_hop: Some(self.args.plan.traffic.gateway.plain().unwrap_or(dst)),
                    hint: format!(
                        "{}; on {} a peer has an address only if its program answers for it, as mpps reflect --ip \
                         {dst} does",
                        skipped(skip),
                        self.port.spec.path
                    ),
                });
            }
            let dest_mac = Some(given_mac.unwrap_or(NOBODY));
            return Ok(Link {
                mac,
                vlan,
                answer_for: Vec::new(),
                unanswered: Vec::new(),
                dest_mac,
                next_hop: None,
                hint: String::new(),
            });
        };
        let routed = || {
            netdev::route_lookup(dst, device.ifindex)
                .ok()
                .map(|route| route.next_hop)
        };
        let next_hop = self.args.plan.traffic.gateway.plain().or_else(routed).unwrap_or(dst);
        let answer_for = self.answers();
        let dest_mac = match (given_mac, self.port.traits.neighbors) {
            // The source is the host's own address, so answers go to the host: ask the host instead.
            (None, Neighbors::Host)
                if self.own_address() && (self.far.is_none() || self.args.plan.traffic.gateway.is_some()) =>
            {
                if let Some(id) = vlan {
                    return Err(not_asked_in_vlan(id, next_hop, of));
                }
                Some(asked.resolve(next_hop, device, skip)?)
            }
            (given, _) => given,
        };
        Ok(Link {
            mac,
            vlan,
            answer_for,
            unanswered: unanswered(device),
            dest_mac,
            next_hop: Some(next_hop),
            hint: advice(next_hop, device, skip),
        })
    }

    /// Refuses payloads that a port can't send.
    fn check_size(&self, capabilities: &Capabilities, device: Option<&NetDev>, spec: &PortSpec) -> Result<()> {
        let args = &self.args;
        if let Some(stream) = &self.stream {
            return stream.check_size(capabilities, device, spec, self.path_mtu(capabilities).as_deref());
        }
        let headers = match capabilities.layer {
            Layer::Ethernet => FrameSize::header_len(self.src.is_ipv6(), args.plan.traffic.vlan.is_some()),
            Layer::Payload => 0,
        };
        // The path's largest frame may be smaller than the device's.
        let limited = device.is_some_and(|d| capabilities.max_frame < d.mtu + ETHERNET);
        // A VLAN tag does not count towards the MTU.
        let has_tag = args.plan.traffic.vlan.is_some() && capabilities.layer == Layer::Ethernet;
        let tag = if has_tag && device.is_some() && !limited { 4 } else { 0 };
        let most = (capabilities.max_frame + tag).saturating_sub(headers);
        if self.payload_len > most {
            let (option, given, limit) = match args.plan.traffic.frame_size {
                Some(size) => ("--frame-size", size, size - self.payload_len + most),
                None => ("--payload-size", self.payload_len, most),
            };
            let what = self.path_mtu(capabilities).unwrap_or_else(|| limit_of(spec, limited));
            return Err(usage(format!(
                "{option} {given}: above {what}: want {limit} at the most"
            )));
        }
        Ok(())
    }

    /// Returns a text on the MTU that limits sockets, if it is not the interface's.
    fn path_mtu(&self, capabilities: &Capabilities) -> Option<String> {
        if capabilities.layer != Layer::Payload {
            return None;
        }
        let (dst, owner) = (self.dest.ip, netdev::owner(self.src)?);
        let netdev::Way::Out {
            mtu: Some(mtu),
            learned,
            ..
        } = netdev::way(self.src, dst, owner.ifindex).ok()?
        else {
            return None;
        };
        let whose = match learned {
            true => "which this host has learned from a router on the way (ICMP) and keeps for some minutes",
            false => "which its route sets",
        };
        ((mtu as usize) < owner.mtu).then(|| {
            format!(
                "the MTU of {mtu} bytes of the path to {dst}, {whose} ({} itself has {})",
                owner.name, owner.mtu
            )
        })
    }

    fn facts(&self, link: Option<&Link>, packets: Option<&Packets>) -> Vec<HostFact> {
        if let (Some(streams), Some(packets)) = (&self.stream, packets) {
            return self.facts_of(streams, link, packets);
        }
        let end = |ips, ports| format!("{} ports {}", ranges::text(&ips), dashed(ports));
        let mut facts = vec![
            HostFact::shown("port", self.args.plan.port().to_string()),
            HostFact::new("source", end(self.sources(), &self.flows.src_ports())),
            HostFact::new("destination", end(self.destinations(), &self.flows.dst_ports())),
            HostFact::shown("flows", self.flows.count().to_string()),
            HostFact::new("flow_memory_bytes", self.flow_bytes.to_string()),
            HostFact::shown("payload_bytes", self.payload_len.to_string()),
            HostFact::new("frame_bytes", self.frame_size.to_string()),
            HostFact::new("pacing", format!("{:?}", self.args.plan.load.pacing).to_lowercase()),
        ];
        if let Some(name) = &self.dest.name {
            facts.push(HostFact::new("destination_name", name.clone()));
        }
        if let Some(hop) = link.and_then(|l| l.next_hop) {
            // Only one MAC address is asked for: all destinations behind the next hop share it.
            let for_all = link.is_some_and(|link| link.dest_mac.is_none()) && self.flows.address_counts().1 > 1;
            let all = if for_all {
                ", whose MAC address stands for all destinations"
            } else {
                ""
            };
            facts.push(HostFact::new("next_hop", format!("{hop}{all}")));
            facts.push(HostFact::shown("source_address", whose(self.own_address())));
        }
        facts
    }
}

impl Draft {
    /// Returns the facts of a run of streams.
    fn facts_of(&self, streams: &Streamed, link: Option<&Link>, packets: &Packets) -> Vec<HostFact> {
        let what = if streams.all.len() == 1 { "packet" } else { "streams" };
        let mut facts = vec![
            HostFact::shown("port", self.args.plan.port().to_string()),
            HostFact::shown(what, streams.text()),
            HostFact::shown("flows", self.flows.count().to_string()),
            HostFact::new("flow_memory_bytes", self.flow_bytes.to_string()),
            HostFact::shown("frame_bytes", self.frame_size.to_string()),
            HostFact::new("pacing", format!("{:?}", self.args.plan.load.pacing).to_lowercase()),
        ];
        let hops = link.into_iter().chain(packets.hops.iter().map(|hop| &hop.link));
        let mut hops: Vec<String> = hops
            .enumerate()
            .filter_map(|(number, link)| {
                let hop = link.next_hop?;
                let own = packets.streams.iter().zip(&streams.all);
                let one = own
                    .filter(|(made, _)| made.to_next_hop == Some(number))
                    .map(|(_, one)| one);
                let stands = one.map(|one| one.stands_for(link)).find(|text| !text.is_empty());
                Some(format!("{hop}{}", stands.unwrap_or_default()))
            })
            .collect();
        const MOST: usize = 8;
        if hops.len() > MOST {
            let more = hops.len() - MOST;
            hops.truncate(MOST);
            hops.push(format!("{more} more"));
        }
        if !hops.is_empty() {
            facts.push(HostFact::new("next_hop", hops.join(", ")));
            facts.push(HostFact::shown("source_address", whose(self.own_address())));
        }
        facts
    }
}

/// Returns a text on who answers for the source address.
pub(in crate::draft) fn whose(own: bool) -> &'static str {
    if own { "the host's own" } else { "answered by mpps" }
}
