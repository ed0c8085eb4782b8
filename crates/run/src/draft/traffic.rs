//! The plan of `sendrecv` and `send`.

use super::across::{self, Far};
use super::ends::{Destination, addresses, of_two};
use super::listen::unanswered;
use super::neighbor::{Asked, no_route};
use super::reach::sockets_apart;
use super::{kernel, lanes, memory};
use crate::fail::{Failure, Result, usage};
use crate::paths::{self, Checked, Neighbors, Rules};
use crate::request::Run;
use mpps_engine::footprint;
use mpps_engine::{FlowSet, Link, Pacing, RateStep, Rates, TrafficPlan};
use mpps_io::selection::From;
use mpps_io::{
    AddressRange, Capabilities, Ends, Layer, PortSpec, Request, Roles, Selection, Task, To, addresses as ranges,
};
use mpps_netdev::{self as netdev, NetDev};
use mpps_plan::values::rate::{RateText, StepText};
use mpps_plan::{DEFAULT_SRC_PORTS, Plain, Workload};
use mpps_stats::HostFact;
use mpps_wire::{FrameSize, MacAddr};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// Payload bytes of a frame of 64 bytes over IPv4.
const DEFAULT_PAYLOAD: usize = 18;
/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
const DEFAULT_DURATION: Duration = Duration::from_secs(10);
/// MAC address that packets on paths without a wire are sent to.
const NOBODY: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

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
    pub(crate) payload_len: usize,
    /// Length of a frame with FCS, bytes.
    pub frame_size: usize,
    pub(crate) receive: bool,
    pub(crate) rules: Rules,
    /// Port at which packets arrive, if they do not arrive where they leave.
    pub(crate) far: Option<Far>,
    warnings: Vec<String>,
    device: Option<NetDev>,
    /// Memory that the flows take, bytes.
    flow_bytes: u64,
    /// Random number of the run.
    pub(crate) run_id: u64,
    /// Source ports in place of the default ones.
    moved: Option<RangeInclusive<u16>>,
    /// Notes from the reservation of the flows.
    notes: Vec<String>,
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
        let device = port.interface();
        let far = args
            .plan
            .far()
            .map(|spec| Far::new(spec, &port, &args, receive))
            .transpose()?;
        let far_device = far.as_ref().and_then(|far| far.device.as_ref());
        let found = known.map(|known| &known.dest);
        let (srcs, dest) = addresses(&args, &port, (device.as_ref(), far_device), found)?;
        let src = *srcs.start();
        let (payload_len, frame_size) = sizes(&args, src.is_ipv6())?;
        let roles = if let Some(far) = &far {
            far.lanes()
        } else if port.traits.in_kernel {
            kernel::check_traffic(&args)?;
            kernel::senders(&args)
        } else {
            lanes::traffic(
                &args,
                args.plan.lanes.tx_lanes,
                args.plan.lanes.rx_lanes,
                receive,
                port.traits.split_lanes,
            )?
        };
        payload_path_options(&args, &port)?;
        let ports: Vec<_> = [&port].into_iter().chain(far.as_ref().map(|far| &far.port)).collect();
        paths::check_run(&args, &ports)?;
        let rules = match &far {
            None => Rules::of(&args, [(&port, &roles[..])])?,
            Some(far) => Rules::of(&args, [(&port, &far.sends[..]), (&far.port, &far.roles[..])])?,
        };
        // A share of the link becomes a rate once the port is open and reports its speed.
        let asked = args.plan.load.rate.as_ref();
        let rate = asked.map(|rate| rate.known(frame_size).map_err(|want| no_rate(rate, &want)));
        let pps = rate.transpose()?.map(|rate| rate.map_or(0.0, |rate| rate.pps()));
        let pps = match (&args.plan.load.then, pps) {
            (Some(step), pps) => Some(check_step(&args, step, pps, frame_size)?),
            (None, pps) => pps,
        };
        if args.plan.load.rate.is_none() && *args.plan.load.pacing != Pacing::Constant {
            return Err(usage(
                "--pacing: without --rate there is nothing to pace: want --rate RATE as well",
            ));
        }
        lanes::check_open_rows(*args.plan.times.interval, *args.plan.times.settle)?;
        across::one_lane_a_flow(&port, far.as_ref(), &roles)?;
        let mut warnings = Vec::new();
        let moved = known.and_then(|known| known.moved.clone());
        let flows = flows(&args, &port, &roles, (&srcs, &dest), moved.as_ref(), &mut warnings)?;
        // Ranges may have more addresses than there are flows.
        let (used_srcs, used_dests) = flows.address_counts();
        let used = (ranges::from(src, used_srcs), ranges::from(dest.ip, used_dests));
        of_two(&used.0, &used.1)?;
        if port.traits.socket.is_some() {
            sockets_apart(&port.spec, (&used.0, &used.1), &flows)?;
        }
        // Lanes that send in one direction.
        let senders = far.as_ref().map_or(&roles[..], |far| &far.sends);
        let tx_lanes = senders.iter().filter(|r| r.tx).count();
        if (flows.count() as usize) < tx_lanes {
            return Err(usage(format!(
                "{}: {} flow{} for {tx_lanes} sending lanes: want one flow per lane at least",
                makers_of_flows(&args, &port, (&srcs, &dest)),
                flows.count(),
                if flows.count() == 1 { "" } else { "s" },
            )));
        }
        let flow_bytes = check_memory(
            &args,
            (&port, far.as_ref()),
            &roles,
            (&srcs, &dest),
            &flows,
            (pps, receive),
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
            payload_len,
            frame_size,
            receive,
            rules,
            far,
            warnings,
            device,
            flow_bytes,
            run_id: known.map_or_else(mpps_sys::random_number, |known| known.run_id),
            moved,
            notes: known.map(|known| known.notes.clone()).unwrap_or_default(),
        })
    }

    /// Returns whether the program may choose the source ports.
    pub(super) fn has_default_ports(&self) -> bool {
        let named = self.port.traits.socket.and_then(|socket| socket.port);
        self.args.plan.traffic.src_ports.is_none() && named.is_none()
    }

    /// Returns the indices of the interfaces whose packets other programs of this host could mistake for their own: the
    /// interface that packets leave by (0: none), and the one that they arrive at if that is another.
    pub(super) fn shared_interfaces(&self) -> Option<(u32, Option<u32>)> {
        let near = self.port.shared_interface();
        let far = self.far.as_ref().and_then(|far| far.port.shared_interface());
        (near.is_some() || far.is_some()).then(|| (near.unwrap_or(0), far))
    }

    /// Returns the same run with these source ports, if they were moved, and with these notes.
    pub(super) fn reserved(&self, moved: Option<RangeInclusive<u16>>, notes: Vec<String>) -> Result<Self> {
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

    /// Returns the source addresses in use.
    pub(super) fn sources(&self) -> AddressRange {
        ranges::from(self.src, self.flows.address_counts().0)
    }

    /// Returns the destination addresses in use.
    pub(super) fn destinations(&self) -> AddressRange {
        ranges::from(self.dest.ip, self.flows.address_counts().1)
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
            selection: Selection::Udp {
                to: To::Only(self.destinations()),
                ports: Some(self.flows.dst_ports()),
                excluded: Vec::new(),
                from: Some(From {
                    ips: self.sources(),
                    ports: self.flows.src_ports(),
                }),
            },
            answer: far.answers(&self.destinations()),
            ends: None,
            seed: self.args.plan.seed,
        };
        vec![(&self.port, near), (&far.port, arrives)]
    }

    fn request(&self) -> Request<'_> {
        let selection = match self.receive {
            true => Selection::Udp {
                to: To::Only(self.sources()),
                ports: Some(self.flows.src_ports()),
                excluded: Vec::new(),
                from: Some(From {
                    ips: self.destinations(),
                    ports: self.flows.dst_ports(),
                }),
            },
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
            ends: self.port.traits.socket.map(|_| Ends {
                src: self.src,
                dst: self.dest.ip,
                flows: self.flows.clone(),
                scope: self.dest.scope,
            }),
            seed: self.args.plan.seed,
        }
    }

    /// Returns whether all source addresses are assigned to the device, so that the host answers for them.
    fn own_address(&self) -> bool {
        self.device
            .as_ref()
            .is_some_and(|device| has_all(device, &self.sources()))
    }

    /// Returns the source addresses, unless the host answers for all of them.
    fn answers(&self) -> Vec<AddressRange> {
        match self.own_address() {
            true => Vec::new(),
            false => vec![self.sources()],
        }
    }

    fn link(&self, capabilities: &Capabilities, asked: &Asked<'_>) -> Result<Option<Link>> {
        if capabilities.layer == Layer::Payload {
            return Ok(None);
        }
        let mac = MacAddr(capabilities.mac.unwrap_or([2, 0, 0, 0, 0, 1]));
        let Some(device) = &self.device else {
            // mpps answers for its own address and asks for the peer's.
            if self.port.traits.neighbors == Neighbors::LanesAlone {
                return Ok(Some(Link {
                    mac,
                    vlan: self.args.plan.traffic.vlan,
                    answer_for: vec![self.sources()],
                    unanswered: Vec::new(),
                    dest_mac: self.args.plan.traffic.dest_mac.plain(),
                    next_hop: Some(self.args.plan.traffic.gateway.plain().unwrap_or(self.dest.ip)),
                    hint: format!(
                        "; on {} a peer has an address only if its program answers for it, as mpps reflect --ip \
                         {} does",
                        self.port.spec.path, self.dest.ip
                    ),
                }));
            }
            let dest_mac = Some(self.args.plan.traffic.dest_mac.plain().unwrap_or(NOBODY));
            return Ok(Some(Link {
                mac,
                vlan: self.args.plan.traffic.vlan,
                answer_for: Vec::new(),
                unanswered: Vec::new(),
                dest_mac,
                next_hop: None,
                hint: String::new(),
            }));
        };
        let routed = || {
            netdev::route_lookup(self.dest.ip, device.ifindex)
                .ok()
                .map(|route| route.next_hop)
        };
        let next_hop = self
            .args
            .plan
            .traffic
            .gateway
            .plain()
            .or_else(routed)
            .unwrap_or(self.dest.ip);
        let answer_for = self.answers();
        let dest_mac = match (self.args.plan.traffic.dest_mac.plain(), self.port.traits.neighbors) {
            // The source is the host's own address, so answers go to the host: ask the host instead.
            (None, Neighbors::Host)
                if self.own_address() && (self.far.is_none() || self.args.plan.traffic.gateway.is_some()) =>
            {
                Some(asked.resolve(next_hop, device, self.args.plan.traffic.vlan)?)
            }
            (given, _) => given,
        };
        Ok(Some(Link {
            mac,
            vlan: self.args.plan.traffic.vlan,
            answer_for,
            unanswered: unanswered(device),
            dest_mac,
            next_hop: Some(next_hop),
            hint: no_route(next_hop, device),
        }))
    }

    /// Returns the plan of a run over two ports, once they are open. See [`Draft::plan`].
    pub(crate) fn plan_across(&self, from: &Capabilities, to: &Capabilities, asked: &Asked<'_>) -> Result<TrafficPlan> {
        let mut plan = self.plan(from, asked)?;
        let mac = MacAddr(to.mac.unwrap_or([2, 0, 0, 0, 0, 2]));
        if let Some(far) = &self.far {
            let arrives = HostFact::shown("arrives_at", far.port.spec.to_string());
            plan.common.host.push(arrives);
            self.check_size(to, far.device.as_ref(), &far.port.spec)?;
            plan.far = Some(far.link((mac, plan.link.as_ref()), &self.args, &self.destinations(), asked)?);
        }
        // Without a router, the device between the ports forwards frames by the MAC address of the destination port.
        if let Some(link) = plan.link.as_mut().filter(|_| self.args.plan.traffic.gateway.is_none()) {
            link.dest_mac.get_or_insert(mac);
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
        let mut common = if self.port.traits.in_kernel {
            let readers = if self.far.as_ref().is_some_and(|far| far.both) {
                2
            } else {
                1
            };
            kernel::common(args, &self.roles, readers, lasts(args), capabilities.path)?
        } else {
            lanes::common(args, &self.roles, lasts(args), burst)?
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
        let link = self.link(capabilities, asked)?;
        common.host.extend(self.facts(link.as_ref()));
        common.host.extend(
            capabilities
                .link_bps
                .map(|bps| HostFact::new("link_bps", bps.to_string())),
        );
        common.host.extend(self.rules.facts());
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
            common,
            receive: self.receive,
            src: self.src,
            dst: self.dest.ip,
            flows: self.flows.clone(),
            payload_len: self.payload_len,
            frame_size: self.frame_size,
            rate,
            then,
            pacing: *args.plan.load.pacing,
            tx_burst,
            catch_up: *args.plan.load.catch_up,
            tolerance: *args.plan.checks.tolerance,
            ttl: args.plan.traffic.ttl,
            dscp: args.plan.traffic.dscp,
            link,
            far: None,
            back: None,
        })
    }
    /// Refuses payloads that a port can't send.
    fn check_size(&self, capabilities: &Capabilities, device: Option<&NetDev>, spec: &PortSpec) -> Result<()> {
        let args = &self.args;
        let headers = match capabilities.layer {
            Layer::Ethernet => FrameSize::header_len(self.src.is_ipv6(), args.plan.traffic.vlan.is_some()),
            Layer::Payload => 0,
        };
        // The path's largest frame may be smaller than the device's.
        let limited = device.is_some_and(|d| capabilities.max_frame < d.mtu + ETHERNET);
        // A VLAN tag does not count towards the MTU.
        let tag = if args.plan.traffic.vlan.is_some() && capabilities.layer == Layer::Ethernet && !limited {
            4
        } else {
            0
        };
        let most = (capabilities.max_frame + tag).saturating_sub(headers);
        if self.payload_len > most {
            let (option, given, limit) = match args.plan.traffic.frame_size {
                Some(size) => ("--frame-size", size, size - self.payload_len + most),
                None => ("--payload-size", self.payload_len, most),
            };
            let what = match (self.path_mtu(capabilities), limited) {
                (Some(text), _) => text,
                (None, true) => format!("what the path can send on {spec}"),
                (None, false) => format!("the MTU of {spec}"),
            };
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

    fn facts(&self, link: Option<&Link>) -> Vec<HostFact> {
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

/// Returns a text on who answers for the source address.
pub(super) fn whose(own: bool) -> &'static str {
    if own { "the host's own" } else { "answered by mpps" }
}

/// Returns whether an interface has each of these addresses.
pub(super) fn has_all(device: &NetDev, ips: &AddressRange) -> bool {
    let own: BTreeSet<_> = device.addresses.iter().map(|(ip, _)| *ip).collect();
    own.range(ips.clone()).count() as u64 == u64::from(ranges::count(ips))
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

/// Formats a range of ports as it is written on the command line.
pub(crate) fn dashed(ports: &RangeInclusive<u16>) -> String {
    if ports.start() == ports.end() {
        ports.start().to_string()
    } else {
        format!("{}-{}", ports.start(), ports.end())
    }
}

/// Returns the length of a run. By default, a run with a number of packets lasts until they are sent.
fn lasts(args: &Run) -> Option<Duration> {
    let default = args.plan.traffic.count.is_none().then_some(DEFAULT_DURATION);
    args.plan.times.duration.plain().or(default)
}

/// Checks a step of the rate. Returns the higher of the two rates, as far as they are known.
fn check_step(args: &Run, step: &StepText, pps: Option<f64>, frame_size: usize) -> Result<f64> {
    let Some(pps) = pps else {
        return Err(usage(format!(
            "--then {step}: without --rate there is no rate before it: want --rate RATE as well"
        )));
    };
    let lasts = lasts(args).unwrap_or_default();
    if !lasts.is_zero() && step.after >= lasts {
        return Err(usage(format!(
            "--then {step}: the run ends before, after {lasts:?} (--duration): want an earlier time"
        )));
    }
    let then = step.rate.known(frame_size).map_err(|want| no_step(step, &want))?;
    Ok(then.map_or(0.0, |rate| rate.pps()).max(pps))
}

fn no_step(step: &StepText, want: &str) -> Failure {
    usage(format!("--then {step}: want {want}"))
}

fn no_rate(rate: &RateText, want: &str) -> Failure {
    usage(format!("--rate '{rate}': want {want}"))
}

/// Returns the bytes of a packet's payload, and of its frame with FCS.
pub fn sizes(args: &Run, v6: bool) -> Result<(usize, usize)> {
    let vlan = args.plan.traffic.vlan.is_some();
    let headers = FrameSize::header_len(v6, vlan);
    if let Some(size) = args.plan.traffic.frame_size {
        let least = headers + 16 + FrameSize::FCS_LEN;
        let payload = size.checked_sub(headers + FrameSize::FCS_LEN).filter(|&p| p >= 16);
        let payload = payload.ok_or_else(|| {
            usage(format!(
                "--frame-size {size}: no room for the stamp of 16 bytes: want {} at least",
                least.max(64)
            ))
        })?;
        return Ok((payload, size));
    }
    let payload = args.plan.traffic.payload_size.unwrap_or(DEFAULT_PAYLOAD);
    Ok((payload, FrameSize::from_payload(payload, v6, vlan).with_fcs()))
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
        (args.plan.traffic.ttl != 64, "--ttl"),
        (args.plan.traffic.dscp != 0, "--dscp"),
    ];
    match given.iter().find(|(given, _)| *given) {
        Some((_, option)) => Err(usage(format!(
            "{option}: on {} the kernel writes the headers: want it left out, or the path af_packet",
            args.plan.port()
        ))),
        None => Ok(()),
    }
}

/// Refuses a port that spreads one flow over several lanes. Each lane counts duplicates and reordering of the packets
/// that reach it, so all packets of a flow must reach the same lane.
pub(super) fn one_lane_a_flow(port: &Checked, roles: &[Roles]) -> Result<()> {
    let receivers = roles.iter().filter(|r| r.rx).count();
    match &port.traits.spreads_flows {
        Some(option) if receivers > 1 => Err(usage(format!(
            "port '{}': {option} spreads one flow over {receivers} lanes, so its loss can't be counted: want \
             fanout=hash",
            port.spec
        ))),
        _ => Ok(()),
    }
}

/// Bytes that the kernel's maps take per flow: its window, its slips and its ports. Addresses take more if they vary.
const KERNEL_FLOW: u64 = 32 + 4 * 16 + 8 * 16 + 8;
const KERNEL_ADDRESSES: u64 = 32;

/// Refuses flows, rows and lanes that have no room in memory. Returns the bytes that the flows take.
fn check_memory(
    args: &Run,
    (port, far): (&Checked, Option<&Far>),
    roles: &[Roles],
    (srcs, dest): (&AddressRange, &Destination),
    flows: &FlowSet,
    // For a share of the link's speed, which is not known yet, `pps` is 0: then the least number of slips per flow is
    // assumed.
    (pps, receive): (Option<f64>, bool),
) -> Result<u64> {
    let (count, settle, lanes) = (
        u64::from(flows.count()),
        *args.plan.times.settle,
        memory::lane_count(roles),
    );
    let of_kernel = match (port.traits.in_kernel, flows.is_plain()) {
        (false, _) => 0,
        (true, true) => KERNEL_FLOW,
        (true, false) => KERNEL_FLOW + KERNEL_ADDRESSES,
    };
    let ways = if args.plan.traffic.both_ways { 2 } else { 1 };
    let bytes = move |n: u64| {
        let of_way = footprint::flows_of_traffic(n, pps, settle, receive, lanes);
        of_way.saturating_add(n.saturating_mul(of_kernel)).saturating_mul(ways)
    };
    let ports = (args.plan.traffic.src_ports.as_ref(), args.plan.traffic.flows);
    let several = [srcs, &dest.ips()].iter().any(|ips| ranges::only(ips).is_none());
    let says = match ports {
        (_, None) if several => format!("{}: {} flows take", of_ranges(srcs, dest), memory::count(count)),
        (Some(src), None) => format!(
            "--src-port-range {} by --dest ports {}: {} flows take",
            dashed(src),
            dashed(&dest.ports),
            memory::count(src.len() as u64 * dest.ports.len() as u64)
        ),
        _ => format!("--flows {count}: they take"),
    };
    let mut parts = match far {
        None => memory::of_run(args, settle, roles, [port]),
        // Each port has buffers for its own lanes.
        Some(far) => {
            let mut parts = memory::of_run(args, settle, roles, []);
            parts.extend(memory::of_port(port, &far.sends, lanes.all));
            parts.extend(memory::of_port(&far.port, &far.roles, lanes.all));
            parts
        }
    };
    parts.push(memory::Part::new(says, bytes(count), move |left| {
        match memory::most(count, left, bytes) {
            0 => "a higher limit of memory".to_owned(),
            most => format!("--flows N, {} at most", memory::count(most)),
        }
    }));
    memory::check(&parts)?;
    Ok(bytes(count))
}

/// Formats ranges of addresses as options.
fn of_ranges(srcs: &AddressRange, dest: &Destination) -> String {
    format!("--src {} by --dest {}", ranges::text(srcs), bracketed(&dest.ips()))
}

/// Returns the options that limit the number of flows.
fn makers_of_flows(args: &Run, port: &Checked, (srcs, dest): (&AddressRange, &Destination)) -> String {
    if let Some(n) = args.plan.traffic.flows {
        return format!("--flows {n}");
    }
    let several = |ips: &AddressRange| ranges::only(ips).is_none();
    let (ips, ports) = (dest.ips(), dashed(&dest.ports));
    let mut given = Vec::new();
    if several(srcs) {
        given.push(format!("--src {}", ranges::text(srcs)));
    }
    if let Some(src) = &args.plan.traffic.src_ports {
        given.push(format!("--src-port-range {}", dashed(src)));
    }
    if several(&ips) || dest.ports.start() != dest.ports.end() {
        given.push(format!("--dest {}:{ports}", bracketed(&ips)));
    }
    match port.traits.socket.and_then(|socket| socket.port) {
        Some(_) => given.insert(0, format!("port '{}'", port.spec)),
        None if given.is_empty() => given.push("--src-port-range".to_owned()),
        None => {}
    }
    given.join(" by ")
}

fn flows(
    args: &Run,
    port: &Checked,
    roles: &[Roles],
    (srcs, dest): (&AddressRange, &Destination),
    moved: Option<&RangeInclusive<u16>>,
    warnings: &mut Vec<String>,
) -> Result<FlowSet> {
    let counts = (ranges::count(srcs), dest.count);
    let set = |src_ports: RangeInclusive<u16>| {
        let dst_ports = dest.ports.clone();
        let lengths = [src_ports.len() as u32, dst_ports.len() as u32, counts.0, counts.1];
        let wanted = FlowSet::wanted(lengths, *args.plan.traffic.step);
        if args.plan.traffic.flows.is_none() && wanted > u128::from(u32::MAX) {
            return Err(usage(format!(
                "{}, --step combine: {wanted} flows: want {} at the most, such as the first of them by --flows N, or \
                 --step together",
                of_ranges(srcs, dest),
                u32::MAX
            )));
        }
        Ok(FlowSet::of(
            src_ports,
            dst_ports,
            counts,
            *args.plan.traffic.step,
            args.plan.traffic.flows,
        ))
    };
    let Some(socket) = port.traits.socket else {
        let given = args.plan.traffic.src_ports.as_deref().or(moved);
        return set(given.cloned().unwrap_or(DEFAULT_SRC_PORTS));
    };
    if dest.ports.start() != dest.ports.end() {
        return Err(usage(format!(
            "--dest {}: {} sends each source port to one destination port: want one port",
            dashed(&dest.ports),
            port.spec.path
        )));
    }
    let lanes = roles
        .iter()
        .filter(|r| r.tx)
        .count()
        .max(roles.iter().filter(|r| r.rx).count()) as u16;
    if let (Some(named), Some(_)) = (socket.port, &args.plan.traffic.src_ports) {
        return Err(usage(format!(
            "--src-port-range: the port {} names source port {named}: want one of the two left out",
            args.plan.port()
        )));
    }
    let first = socket.port.unwrap_or(*DEFAULT_SRC_PORTS.start());
    let given = args.plan.traffic.src_ports.as_deref().or(moved);
    let src = given.cloned().unwrap_or(first..=first.saturating_add(lanes - 1));
    let most = port.most_flows(roles).unwrap_or(usize::MAX).min(u32::MAX as usize) as u32;
    let all = set(src)?;
    if all.count() <= most {
        return Ok(all);
    }
    warnings.push(format!(
        "{}: {most} of {} flows are used, because each takes a socket (more with the port's option sockets=N)",
        port.spec.path,
        all.count()
    ));
    Ok(all.first(most))
}
