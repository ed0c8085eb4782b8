//! `sendrecv` over two ports: the second port, and the roles of its lanes.

use super::listen::unanswered;
use super::neighbor::{Asked, not_asked_in_vlan};
use super::{kernel, traffic};
use crate::fail::{Result, usage};
use crate::paths::{Checked, Neighbors};
use crate::request::Run;
use mpps_engine::{Link, TrafficPlan};
use mpps_io::{AddressRange, Layer, PortSpec, Roles, Task};
use mpps_netdev::NetDev;
use mpps_plan::Plain;
use mpps_stats::HostFact;
use mpps_wire::MacAddr;

/// Refuses options of two ports if there is only one, or if packets do not go both ways.
pub(super) fn check_options(args: &Run, receive: bool) -> Result<()> {
    check_ways(args)?;
    if !args.plan.traffic.goes_back() {
        let back = [
            (args.plan.traffic.back_dest_mac.is_some(), "--back-dest-mac"),
            (args.plan.traffic.back_gateway.is_some(), "--back-gateway"),
        ];
        return match back.iter().find(|(given, _)| *given) {
            Some((_, option)) => Err(usage(format!(
                "{option}: nothing is sent back: want --both-ways as well, or it left out"
            ))),
            None => Ok(()),
        };
    }
    if !receive {
        return Err(usage(
            "--both-ways: send receives nothing: want it left out, or sendrecv",
        ));
    }
    if args.plan.far().is_none() {
        return Err(usage(
            "--both-ways: there is one port, by which packets come back: want a second port after it",
        ));
    }
    let lanes = [
        (args.plan.lanes.tx_lanes, "--tx-lanes"),
        (args.plan.lanes.rx_lanes, "--rx-lanes"),
    ];
    if let Some((Some(n), option)) = lanes.iter().find(|(given, _)| given.is_some()) {
        return Err(usage(format!(
            "{option} {n}: with --both-ways each lane sends and receives: want --lanes N, which are N of each port"
        )));
    }
    let there = (
        args.plan.traffic.dest_mac.is_some(),
        args.plan.traffic.gateway.is_some(),
    );
    let back = (
        args.plan.traffic.back_dest_mac.is_some(),
        args.plan.traffic.back_gateway.is_some(),
    );
    let missing = match (there, back) {
        ((true, _), (false, false)) => "--back-dest-mac: missing beside --dest-mac",
        ((false, true), (false, false)) => "--back-gateway: missing beside --gateway",
        ((false, false), (true, _)) => "--dest-mac: missing beside --back-dest-mac",
        ((false, false), (false, true)) => "--gateway: missing beside --back-gateway",
        _ => return Ok(()),
    };
    Err(usage(format!(
        "{missing}: what takes packets of one way only loses those of the other: want it as well"
    )))
}

/// Refuses ports of streams that the run does not have, and streams that arrive where they leave.
fn check_ways(args: &Run) -> Result<()> {
    let Some(streams) = &args.plan.traffic.streams else {
        return Ok(());
    };
    let ports = if args.plan.far().is_some() { 2 } else { 1 };
    let mut ways = [false; 2];
    for stream in &streams.streams {
        let from = stream.from.unwrap_or(0);
        let to = stream.to.unwrap_or(if from == 0 { ports - 1 } else { 0 });
        let name = &stream.name;
        for (key, port) in [("from", from), ("to", to)] {
            if port >= ports {
                let want = if ports == 1 {
                    "0, or a second port after the first"
                } else {
                    "0 or 1"
                };
                return Err(usage(format!("--traffic: stream {name}: {key} = {port}: want {want}")));
            }
        }
        if ports == 2 && from == to {
            return Err(usage(format!(
                "--traffic: stream {name}: from = {from}, to = {to}: its packets would arrive where they leave: want \
                 different ports"
            )));
        }
        if stream.pcap.is_some() && args.plan.traffic.goes_back() {
            return Err(usage(format!(
                "--traffic: stream {name}: pcap: packets of captures go one way: want a run for each way"
            )));
        }
        ways[from.min(1)] = true;
    }
    match (ways, args.plan.traffic.both_ways) {
        ([false, true], false) => Err(usage(
            "--traffic: from = 1 in all streams: no packet leaves by the first port: want the ports exchanged",
        )),
        _ => Ok(()),
    }
}

/// Returns the task of the first port.
pub(super) fn task(args: &Run, receive: bool) -> Task {
    match (receive, args.plan.traffic.goes_back()) {
        (false, _) => Task::Send,
        (true, false) => Task::SendReceive,
        (true, true) => Task::Exchange,
    }
}

/// Refuses ports that spread one flow over several lanes. Each lane counts duplicates and reordering of the packets
/// that reach it, so all packets of a flow must reach the same lane.
pub(super) fn one_lane_a_flow(near: &Checked, far: Option<&Far>, roles: &[Roles]) -> Result<()> {
    let Some(far) = far else {
        return traffic::one_lane_a_flow(near, roles);
    };
    if far.both {
        traffic::one_lane_a_flow(near, &far.sends)?;
    }
    traffic::one_lane_a_flow(&far.port, &far.roles)
}

/// Port at which packets arrive, in a run that sends by another port.
#[derive(Debug)]
pub(crate) struct Far {
    pub(crate) port: Checked,
    /// True if packets also go from this port to the other.
    pub(crate) both: bool,
    /// Roles of the lanes that receive at this port, which also answer. In the kernel: roles of the lanes that send
    /// from this port.
    pub(crate) roles: Vec<Roles>,
    /// Roles of the lanes that send by the other port. They listen for answers, except in the kernel.
    pub(super) sends: Vec<Roles>,
    pub(super) device: Option<NetDev>,
}

impl Far {
    pub(super) fn new(spec: &PortSpec, near: &Checked, args: &Run, receive: bool) -> Result<Self> {
        if !receive {
            return Err(usage(format!(
                "port '{spec}': send receives nothing: want it left out, or sendrecv"
            )));
        }
        let both = args.plan.traffic.goes_back();
        let port = Checked::new(spec, if both { Task::Exchange } else { Task::Collect })?;
        for port in [near, &port] {
            let spec = &port.spec;
            if port.traits.layer == Layer::Payload {
                return Err(usage(format!(
                    "port '{spec}': it carries payloads, and what lies between two ports passes frames on: want an \
                     Ethernet path, such as af_packet:eth1"
                )));
            }
            if port.nobody_answers() {
                return Err(usage(format!(
                    "port '{spec}': nothing can lie between it and another port: want the ports that the device under \
                     test is joined to"
                )));
            }
        }
        let pair = [near, &port];
        if let Some(kernel) = pair.iter().find(|port| port.traits.in_kernel)
            && let Some(other) = pair.iter().find(|port| !port.traits.in_kernel)
        {
            let (spec, other, path) = (&kernel.spec, &other.spec, &kernel.spec.path);
            return Err(usage(format!(
                "port '{spec}': its packets never come to user space, where those of '{other}' are counted: want \
                 {path}:{}, too, or af_xdp:{1} or af_packet:{1} in its place",
                other.device, spec.device
            )));
        }
        if near.spec.path == spec.path && near.spec.device == spec.device {
            return Err(usage(format!(
                "port '{spec}': packets leave by it, too: want another, or none where they come back by the same port"
            )));
        }
        let lanes = args.plan.lanes.lanes.unwrap_or(1);
        let each = |n| vec![Roles { rx: true, tx: true }; n];
        if port.traits.in_kernel {
            kernel::check_traffic(args)?;
            let senders = kernel::senders(args);
            return Ok(Self {
                device: port.interface(),
                port,
                both,
                roles: if both { senders.clone() } else { Vec::new() },
                sends: senders,
            });
        }
        Ok(Self {
            device: port.interface(),
            port,
            both,
            roles: each(args.plan.lanes.rx_lanes.unwrap_or(lanes)),
            sends: each(args.plan.lanes.tx_lanes.unwrap_or(lanes)),
        })
    }

    /// Returns the destination addresses, unless the host answers for all of them at this port.
    pub(super) fn answers(&self, dests: &[AddressRange]) -> Vec<AddressRange> {
        let own = self
            .device
            .as_ref()
            .is_some_and(|device| dests.iter().all(|ips| traffic::has_all(device, ips)));
        if own { Vec::new() } else { dests.to_vec() }
    }

    /// Returns the roles of the run's lanes: those of the first port, then those of the second.
    pub(super) fn lanes(&self) -> Vec<Roles> {
        let only = |roles: &[Roles], send: bool| vec![Roles { rx: !send, tx: send }; roles.len()];
        match self.both {
            true => [&self.sends[..], &self.roles[..]].concat(),
            false => [only(&self.sends, true), only(&self.roles, false)].concat(),
        }
    }

    /// Returns the settings of layer 2 at this port, which has MAC address `mac`; `near` is the other port's link.
    pub(super) fn link(
        &self,
        (mac, near): (MacAddr, Option<&Link>),
        args: &Run,
        dests: &[AddressRange],
        asked: &Asked<'_>,
    ) -> Result<Link> {
        let answer_for = self.answers(dests);
        let link = Link {
            mac,
            vlan: near.and_then(|near| near.vlan),
            unanswered: self.device.as_ref().map(unanswered).unwrap_or_default(),
            dest_mac: None,
            next_hop: None,
            hint: " (--back-dest-mac MAC skips the question)".to_owned(),
            answer_for,
        };
        if !self.both {
            return Ok(link);
        }
        let host_asks = self.port.traits.neighbors == Neighbors::Host && link.answer_for.is_empty();
        let of = &args.plan.traffic;
        let dest_mac = match (of.back_dest_mac.plain(), of.back_gateway.plain(), &self.device) {
            (Some(mac), ..) => Some(mac),
            (None, Some(hop), Some(device)) if host_asks => match of.vlan {
                Some(id) => return Err(not_asked_in_vlan(id, hop, None)),
                None => Some(asked.resolve(hop, device, "--back-dest-mac MAC")?),
            },
            (None, Some(_), _) => None,
            // Without a router, the device between the ports forwards frames by the MAC address of the destination
            // port.
            (None, None, _) => near.map(|near| near.mac),
        };
        Ok(Link {
            dest_mac,
            next_hop: of.back_gateway.plain(),
            ..link
        })
    }

    /// Returns the facts of the run (`host`) for the way back; `plan` is the plan of the way there.
    pub(crate) fn facts_back(&self, host: &[HostFact], near: &PortSpec, plan: &TrafficPlan) -> Vec<HostFact> {
        let of = |name: &str| {
            host.iter()
                .find(|fact| fact.name == name)
                .map(|fact| fact.value.clone())
        };
        let hop = plan.far.as_ref().and_then(|link| link.next_hop);
        let own = plan.far.as_ref().is_some_and(|link| link.answer_for.is_empty());
        let exchanged = host.iter().filter_map(|fact| {
            let value = match fact.name.as_str() {
                "port" => Some(self.port.spec.to_string()),
                "arrives_at" => Some(near.to_string()),
                "source" => of("destination"),
                "destination" => of("source"),
                "destination_name" => None,
                "next_hop" => hop.map(|hop| hop.to_string()),
                "source_address" => hop.map(|_| traffic::whose(own).to_owned()),
                _ => Some(fact.value.clone()),
            };
            Some(HostFact {
                value: value?,
                ..fact.clone()
            })
        });
        exchanged.collect()
    }
}
