//! The plans of `drop` and `reflect`.

use super::holders::{held, open_udp_ports};
use super::traffic::{Taken, dashed, has_all, of_listener, one_lane_a_flow};
use super::{first_ephemeral_port, kernel, lanes, memory};
use crate::fail::{Result, usage};
use crate::paths::{self, Checked, Rules, Socket};
use crate::request::Run;
use mpps_engine::footprint;
use mpps_engine::{Common, DropPlan, LEFT_TO_HOST_PORTS, Link, OnFull, ReflectPlan};
use mpps_io::selection::Headers;
use mpps_io::{AddressRange, Capabilities, Layer, PortSpec, Request, Roles, Selection, Task, To, addresses as ranges};
use mpps_netdev::NetDev;
use mpps_plan::values::on_full_name;
use mpps_plan::{Plain, Workload};
use mpps_stats::HostFact;
use mpps_wire::{MacAddr, ReflectFilter};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Returns the filter for a socket, which is bound to its port, and to one address or to all addresses of the host.
fn of_socket(socket: Socket, filter: ReflectFilter) -> ReflectFilter {
    let (address, port) = (socket.listens.ip(), socket.listens.port());
    let assigned = mpps_netdev::assigned_addresses();
    let (own, loopback) = match address.is_unspecified() {
        true => (assigned.iter().map(|(ip, _)| *ip).collect(), true),
        false => (Box::from([address]), false),
    };
    ReflectFilter {
        ports: Some(port..=port),
        own,
        broadcasts: nobodys(&assigned).into(),
        loopback,
        ..filter
    }
}

/// Returns the highest and the lowest address of each subnet (broadcast and network), unless they are assigned: no host
/// has them. Subnets of one or two addresses have none (RFC 3021).
fn nobodys(assigned: &[(IpAddr, u8)]) -> Vec<Ipv4Addr> {
    let subnets = assigned.iter().filter_map(|(ip, bits)| match ip {
        IpAddr::V4(ip) if *bits <= 30 => Some((u32::from(*ip), u32::MAX >> bits)),
        _ => None,
    });
    // Broadcast addresses come first, in case a list has room for only some.
    let highest = subnets.clone().map(|(ip, host)| ip | host);
    let lowest = subnets.map(|(ip, host)| ip & !host);
    let mut all: Vec<Ipv4Addr> = Vec::new();
    for ip in highest.chain(lowest).map(Ipv4Addr::from) {
        if !all.contains(&ip) && !assigned.iter().any(|(own, _)| *own == ip) {
            all.push(ip);
        }
    }
    all
}

/// Returns the addresses whose pings are not answered on a device, beside the addresses that mpps answers for.
pub(crate) fn unanswered(device: &NetDev) -> Vec<IpAddr> {
    let own = device.addresses.iter().map(|(ip, _)| *ip);
    own.chain(nobodys(&device.addresses).into_iter().map(IpAddr::V4))
        .collect()
}

/// Plan of a listener, and the packets that it takes.
#[derive(Debug)]
pub struct Listener {
    pub(crate) port: Checked,
    pub(crate) roles: Vec<Roles>,
    task: Task,
    seed: u64,
    cores: Vec<Option<usize>>,
    ip: Option<AddressRange>,
    ports: Option<RangeInclusive<u16>>,
    excluded: Vec<u16>,
    /// Packets are known by their tags, whatever their headers.
    tagged: Option<Taken>,
    device: Option<NetDev>,
    pub(crate) rules: Rules,
}

impl Listener {
    /// Checks a run of `drop` or `reflect`, and fills in fields that were not given.
    pub(crate) fn new(run: &mut Run) -> Result<Self> {
        match run.plan.workload {
            Workload::Drop => Self::of_drop(run),
            _ => Self::of_reflect(run),
        }
    }

    fn of_drop(args: &mut Run) -> Result<Self> {
        let listener = Self::of(args, Task::Drop)?;
        listener.check_flows(args)?;
        if !args.plan.checks.no_verify {
            one_lane_a_flow(&listener.port, &listener.roles)?;
        }
        listener.fill(args);
        Ok(listener)
    }

    fn of_reflect(args: &mut Run) -> Result<Self> {
        let listener = Self::of(args, Task::Reflect)?;
        let lanes = (&*listener.roles, memory::lane_count(&listener.roles, []));
        memory::check(&memory::of_run(args, Duration::ZERO, lanes, [&listener.port]))?;
        let on_full = listener.on_full(args)?;
        listener.fill(args);
        args.complete.fill("lanes.on_full", on_full_name(on_full));
        Ok(listener)
    }

    /// Returns the treatment of packets that the port does not take at once.
    fn on_full(&self, args: &Run) -> Result<OnFull> {
        kernel::on_full(
            args.plan.lanes.on_full.plain(),
            &self.port.spec,
            self.port.traits.in_kernel,
        )
    }

    fn of(run: &Run, task: Task) -> Result<Self> {
        let (spec, of) = (run.plan.port(), &run.plan.selection);
        let (ip, ports) = (of.ip.plain(), of.ports.plain());
        let port = Checked::new(spec, task)?;
        let tagged = of.streams.as_ref().map(|streams| of_listener(run, streams));
        let tagged = tagged.transpose()?;
        if tagged.is_some() {
            match (port.traits.socket, task) {
                (None, _) => paths::check_headers(&port, "--packet")?,
                (Some(_), Task::Reflect) => {
                    return Err(usage(format!(
                        "--packet: on port '{spec}': a socket returns all that comes to it: want it left out"
                    )));
                }
                (Some(_), _) => {}
            }
            if port.traits.in_kernel
                && let Some(streams) = tagged.as_ref().and_then(|of| of.streams.as_ref())
            {
                kernel::check_streams(streams.streams.len(), spec)?;
            }
            if ports.is_some() {
                return Err(usage(
                    "--port: beside --packet, packets are known by their tags: want it left out",
                ));
            }
        }
        if port.traits.layer == Layer::Payload {
            for (given, option) in [(ip.is_some(), "--ip"), (ports.is_some(), "--port")] {
                if given {
                    return Err(usage(format!(
                        "{option}: {spec} takes packets to the address of its socket: want address and port in the \
                         port, such as udp:10.99.0.2:9000"
                    )));
                }
            }
        }
        let roles = if port.traits.in_kernel {
            kernel::check_served(run, spec)?;
            Vec::new()
        } else {
            lanes::listening(run, task == Task::Reflect)
        };
        if port.traits.takes_from_host && tagged.as_ref().is_some_and(|taken: &Taken| !taken.untagged.is_empty()) {
            return Err(usage(format!(
                "--traffic: streams have no tag, by which a program takes packets on {spec}: want tag = tail, or the \
                 path af_packet"
            )));
        }
        paths::check_run(run, &[&port])?;
        let rules = Rules::of(run, [(&port, &roles[..])])?;
        let device = port.interface();
        // On the host's own addresses, ports of its programs stay theirs, unless the user has named ports. These are
        // ports that are open now, and those from which programs will ask others (DNS, NTP, QUIC).
        let own = |d: &NetDev| {
            d.addresses
                .iter()
                .any(|(a, _)| ip.as_ref().is_none_or(|ips| ips.contains(a)))
        };
        let (ports, excluded) = match (ports, &device) {
            (None, Some(device)) if own(device) && tagged.is_none() => {
                let known = first_ephemeral_port().zip(open_udp_ports());
                let (first, open) = known.ok_or_else(|| unknown_ports(spec))?;
                (Some(1..=first - 1), open)
            }
            (ports, _) => (ports, Vec::new()),
        };
        Ok(Self {
            port,
            task,
            seed: run.plan.seed,
            cores: lanes::cores_of(run, 0, roles.len()),
            roles,
            ip,
            ports,
            excluded,
            tagged,
            device,
            rules,
        })
    }

    /// Fills in the plan's fields that were not given on the command line.
    fn fill(&self, run: &mut Run) {
        lanes::fill(run, &self.roles, "0");
    }

    /// Returns the note at the start on ports that are left to programs of the host; `None` if there are none.
    pub(crate) fn left_ports(&self) -> Option<String> {
        (!self.excluded.is_empty()).then(|| {
            format!(
                "UDP ports that programs of this host have open are left to them: {}. To take one, stop its program, \
                 name it with --port, or use --ip with an address that is not the host's",
                held(&self.excluded)
            )
        })
    }

    /// Returns the address and port that the port's socket listens on, unless both are written in the port.
    pub(crate) fn hears(&self) -> String {
        let Some(socket) = self
            .port
            .traits
            .socket
            .filter(|s| s.address.is_none() || s.port.is_none())
        else {
            return String::new();
        };
        let at = socket.listens;
        match (socket.address, at.ip().is_loopback()) {
            (None, _) => format!(" ({at}: this host only; {}:0.0.0.0 hears others)", self.port.spec.path),
            (Some(_), true) => format!(" ({at}: this host only)"),
            (Some(_), false) => format!(" ({at})"),
        }
    }

    /// Refuses more flows than memory has room for.
    fn check_flows(&self, args: &Run) -> Result<()> {
        /// Bytes that the kernel's maps take per flow: its table entry (twice), its state and its window.
        const KERNEL_FLOW: u64 = 2 * 32 + 256 + 64;
        let (lanes, kernel, flows) = (
            memory::lane_count(&self.roles, [&self.port]),
            self.port.traits.in_kernel,
            args.plan.checks.max_flows,
        );
        let bytes = move |n: u64| match kernel {
            true => n * KERNEL_FLOW,
            false => footprint::flows_of_drop(n as u32, lanes),
        };
        let mut parts = memory::of_run(args, Duration::ZERO, (&self.roles, lanes), [&self.port]);
        let says = format!("--max-flows {flows} with --lanes {}: they take", lanes.all.max(1));
        parts.push(memory::Part::new(says, bytes(flows.into()), move |left| {
            let most = memory::most(flows.into(), left, bytes);
            memory::advice((most > 0).then(|| format!("--max-flows {most}")), lanes.all)
        }));
        let streams = self.tagged.as_ref().and_then(|of| of.streams.as_deref());
        parts.extend(streams.map(|packets| {
            let says = format!(
                "--traffic: rows and histograms of {} streams take",
                packets.streams.len()
            );
            let bytes = footprint::streams_of_drop(packets, *args.plan.times.interval, lanes);
            memory::Part::new(says, bytes, |_| "fewer streams, or a longer --interval".to_owned())
        }));
        memory::check(&parts)
    }

    /// Returns the addresses of the interface.
    fn assigned(&self) -> impl Iterator<Item = IpAddr> {
        self.device.iter().flat_map(|d| d.addresses.iter().map(|(ip, _)| *ip))
    }

    /// Returns addresses that no packet from elsewhere has as its source. Addresses of a named range are left out: the
    /// filter knows them as the addresses that it takes packets for.
    fn own(&self) -> Vec<IpAddr> {
        let named = self.ip.as_ref().and_then(ranges::only);
        named.into_iter().chain(self.assigned()).collect()
    }

    /// Returns addresses of the device's subnets that no host has.
    fn broadcasts(&self) -> Vec<Ipv4Addr> {
        let all = self.device.as_ref().map(|d| nobodys(&d.addresses));
        let mut all = all.unwrap_or_default();
        let named = |ip: Ipv4Addr| self.ip.as_ref().is_some_and(|ips| ips.contains(&IpAddr::V4(ip)));
        all.retain(|ip| !named(*ip));
        all
    }

    /// Returns whether the device is the host's way to itself (loopback).
    fn within_host(&self) -> bool {
        self.device
            .as_ref()
            .is_some_and(|d| d.addresses.iter().any(|(ip, _)| ip.is_loopback()))
    }

    /// Returns the packets of streams without a tag, to the port's own addresses where the packets' text has none.
    fn untagged(&self) -> Vec<Headers> {
        let taken = self.tagged.iter().flat_map(|taken| &taken.untagged).cloned();
        let own = match &self.ip {
            Some(ips) => vec![ips.clone()],
            None => self.assigned().map(ranges::one).collect(),
        };
        let to = |headers: Headers| match headers.to.is_empty() {
            true => Headers {
                to: own.clone(),
                ..headers
            },
            false => headers,
        };
        taken.map(to).collect()
    }

    /// Returns the selection of the test's packets: by their tags, or UDP to these addresses and ports.
    fn selection(&self) -> Selection {
        if self.tagged.is_some() {
            return Selection::Tagged {
                seed: self.seed,
                headers: self.untagged(),
            };
        }
        let to = match &self.ip {
            Some(ips) => To::Only(ips.clone()),
            None if self.assigned().next().is_none() => To::Any,
            None => To::Own(self.assigned().collect()),
        };
        Selection::Udp {
            to,
            ports: self.ports.clone(),
            excluded: self.excluded.clone(),
            from: None,
        }
    }

    /// Returns the run's request to its port.
    pub(crate) fn request(&self) -> Request<'_> {
        Request {
            spec: &self.port.spec,
            task: self.task,
            roles: &self.roles,
            cores: self.cores.clone(),
            selection: self.selection(),
            answer: self.answer_for(),
            flows: None,
            seed: self.seed,
        }
    }

    /// Returns the given addresses, unless the host answers for all of them.
    fn answer_for(&self) -> Vec<AddressRange> {
        let own = |ips: &AddressRange| self.device.as_ref().is_some_and(|device| has_all(device, ips));
        self.ip.iter().filter(|ips| !own(ips)).cloned().collect()
    }

    fn link(&self, capabilities: &Capabilities) -> Option<Link> {
        (capabilities.layer == Layer::Ethernet).then(|| {
            let mac = MacAddr(capabilities.mac.unwrap_or([2, 0, 0, 0, 0, 1]));
            Link {
                mac,
                vlan: None,
                answer_for: self.answer_for(),
                unanswered: self.device.as_ref().map(unanswered).unwrap_or_default(),
                dest_mac: None,
                next_hop: None,
                hint: String::new(),
            }
        })
    }

    fn common(&self, run: &Run, capabilities: &Capabilities) -> Result<Common> {
        let mut common = if self.port.traits.in_kernel {
            kernel::common(run, &self.roles, 1, None, capabilities.path)?
        } else {
            lanes::common(run, &self.roles, None, capabilities.preferred_burst)?
        };
        common.host.push(HostFact::shown("port", self.port.spec.to_string()));
        if self.tagged.is_some() {
            common.host.push(HostFact::shown("takes", "frames that end with a tag"));
        } else if capabilities.layer == Layer::Ethernet {
            let own = self.port.traits.takes_from_host
                && matches!(&self.selection(), Selection::Udp { to, .. } if !to.with_room().is_empty());
            let any = if own { "the interface's own" } else { "any" };
            let ip = self.ip.as_ref().map_or_else(|| any.to_owned(), ranges::text);
            common.host.push(HostFact::shown("takes_address", ip));
            let ports = self.ports.as_ref().map_or_else(|| "any".to_owned(), dashed);
            common.host.push(HostFact::shown("takes_ports", ports));
            if !self.excluded.is_empty() {
                let list: Vec<String> = self.excluded.iter().map(u16::to_string).collect();
                common.host.push(HostFact::new(LEFT_TO_HOST_PORTS, list.join(" ")));
            }
        }
        common.host.extend(self.rules.facts());
        Ok(common)
    }

    pub(crate) fn drop_plan(&self, args: &Run, capabilities: &Capabilities) -> Result<DropPlan> {
        Ok(DropPlan {
            common: self.common(args, capabilities)?,
            ip: self.ip.clone(),
            ports: self.ports.clone(),
            excluded_ports: self.excluded.clone().into(),
            verify: !args.plan.checks.no_verify,
            tagged: self.tagged.as_ref().map(|of| of.header_len),
            streams: self.tagged.as_ref().and_then(|of| of.streams.clone()),
            max_flows: args.plan.checks.max_flows,
            link: self.link(capabilities),
        })
    }

    pub(crate) fn reflect_plan(&self, args: &Run, capabilities: &Capabilities) -> Result<ReflectPlan> {
        let filter = ReflectFilter {
            ip: self.ip.clone(),
            ports: self.ports.clone(),
            mac: self.device.as_ref().and(capabilities.mac).map(MacAddr),
            excluded_ports: self.excluded.clone().into_boxed_slice(),
            own: self.own().into(),
            broadcasts: self.broadcasts().into(),
            loopback: self.within_host(),
            keep_ttl: self.port.traits.repeats_frames,
            tagged: self.tagged.as_ref().map(|_| self.seed),
            untagged: paths::untagged(self.untagged().into_iter()),
        };
        let filter = match self.port.traits.socket {
            Some(socket) => of_socket(socket, filter),
            None => filter,
        };
        let on_full = self.on_full(args)?;
        let mut common = self.common(args, capabilities)?;
        common.host.push(HostFact::new("on_full", on_full_name(on_full)));
        Ok(ReflectPlan {
            common,
            filter,
            link: self.link(capabilities),
            on_full,
        })
    }
}

/// Returns the error if the ports of the host's own programs can't be read.
fn unknown_ports(spec: &PortSpec) -> crate::fail::Failure {
    usage(format!(
        "port '{spec}': /proc/sys/net/ipv4/ip_local_port_range or /proc/net/udp can't be read here, so the ports of \
         this host's own programs are not known: want --port A-B, or --ip with an address that is not the host's"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_host_has_the_highest_and_the_lowest_address_of_a_subnet() {
        let subnets = |all: &[(&str, u8)]| {
            let all: Vec<(IpAddr, u8)> = all.iter().map(|(ip, bits)| (ip.parse().unwrap(), *bits)).collect();
            nobodys(&all).iter().map(Ipv4Addr::to_string).collect::<Vec<_>>()
        };
        let two = [("10.99.0.2", 24), ("fd00::2", 64), ("10.1.2.2", 30), ("10.99.0.3", 24)];
        assert_eq!(subnets(&two), ["10.99.0.255", "10.1.2.3", "10.99.0.0", "10.1.2.0"]);
        assert!(subnets(&[("10.99.0.2", 31), ("10.99.0.2", 32)]).is_empty());
        // A lowest address that is assigned to the host is a real address.
        assert_eq!(subnets(&[("10.99.0.0", 24)]), ["10.99.0.255"]);
    }
}
