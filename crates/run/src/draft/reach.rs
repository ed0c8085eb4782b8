//! Refuses, before anything is opened, addresses that no packet of the run can have: broadcast addresses, this host's
//! own, and the run's own sockets.

use super::ends::Destination;
use crate::fail::{Result, usage};
use crate::paths::Checked;
use crate::request::Run;
use mpps_engine::FlowSet;
use mpps_io::{AddressRange, Layer, PortSpec, addresses as ranges};
use mpps_netdev::{self as netdev, NetDev};
use mpps_plan::Plain;
use std::net::IpAddr;

/// Refuses broadcast addresses of subnets that the port is in. If the kernel chooses the interface, refuses those of
/// all subnets of the host.
fn one_by_one(option: &str, ips: &AddressRange, port: &Checked, devices: &[&NetDev]) -> Result<()> {
    let of_sockets = port.traits.socket.is_some();
    let here = |ifindex| of_sockets || devices.iter().any(|device| device.ifindex == ifindex);
    let all = netdev::broadcasts();
    let found = all.iter().find(|b| here(b.ifindex) && ips.contains(&IpAddr::V4(b.ip)));
    let Some(found) = found else { return Ok(()) };
    let name = NetDev::by_index(found.ifindex).map_or_else(|_| "this host".to_owned(), |device| device.name);
    Err(usage(match ranges::only(ips) {
        Some(ip) => format!(
            "{option} {ip}: this is the broadcast address of a subnet of {name}, which no single host has: want the \
             address of one host"
        ),
        None => format!(
            "{option} {}: {} among them is the broadcast address of a subnet of {name}, which no single host has: want \
             ranges without it",
            ranges::text(ips),
            found.ip
        ),
    }))
}

/// Refuses destinations that packets can't reach by the port. Also refuses routers and sources that are broadcast
/// addresses.
pub(super) fn check(
    args: &Run,
    port: &Checked,
    (device, far): (Option<&NetDev>, Option<&NetDev>),
    dest: &Destination,
) -> Result<()> {
    // The kernel's interface beneath a virtual DPDK device is in subnets, too.
    let beneath = port.traits.under.as_deref().and_then(|name| NetDev::by_name(name).ok());
    let devices: Vec<&NetDev> = [device, far, beneath.as_ref()].into_iter().flatten().collect();
    let dests = dest.ips();
    one_by_one(words(args).0, &dests, port, &devices)?;
    if let Some(srcs) = &args.plan.traffic.src {
        one_by_one("--src", &srcs.ips, port, &devices)?;
    }
    if let Some(hop) = args.plan.traffic.gateway.plain() {
        one_by_one("--gateway", &ranges::one(hop), port, &devices)?;
    }
    match device {
        Some(device) if port.traits.layer == Layer::Ethernet && args.plan.far().is_none() => {
            leaves(args, port, device, &dests)
        }
        _ => Ok(()),
    }
}

/// Returns how a run names its destination, and what gives it a MAC address: options, or fields of its streams.
fn words(args: &Run) -> (&'static str, &'static str) {
    match args.plan.traffic.streams {
        Some(_) => ("dst", "dst=MAC in eth"),
        None => ("--dest", "--dest-mac MAC"),
    }
}

/// Refuses destinations whose packets would not leave the host by this interface.
fn leaves(args: &Run, port: &Checked, device: &NetDev, dests: &AddressRange) -> Result<()> {
    let (spec, (to, skip)) = (&port.spec, words(args));
    let within = device.name == "lo" || device.addresses.iter().any(|(ip, _)| ip.is_loopback());
    if within {
        // A user who names a MAC address wants frames on this interface.
        return match args.plan.traffic.dest_mac {
            Some(_) => Ok(()),
            None => Err(usage(format!(
                "port '{spec}': {} is this host's way to itself, where nobody answers for an address: want \
                 udp:127.0.0.1, --lab {} for two hosts of a lab, or {skip} to send frames all the same",
                device.name, spec.path
            ))),
        };
    }
    let text = ranges::text(dests);
    if dests.start().is_loopback() || dests.end().is_loopback() {
        return Err(usage(format!(
            "{to} {text}: loopback addresses are this host's own, and no packet to them leaves by {}: want the \
             peer's address, or the path udp",
            device.name
        )));
    }
    if args.plan.traffic.dest_mac.is_some() || args.plan.traffic.gateway.is_some() {
        return Ok(());
    }
    match device.addresses.iter().find(|(ip, _)| dests.contains(ip)) {
        Some((ip, _)) => Err(usage(format!(
            "{to} {text}: {ip} is the address of {} itself, and nobody on its link answers for it: want the peer's \
             address ({skip} skips the question)",
            device.name
        ))),
        None => Ok(()),
    }
}

/// Refuses flows between sockets of the run itself: its packets would arrive without a reflector.
pub(super) fn sockets_apart(
    spec: &PortSpec,
    (srcs, dests): (&AddressRange, &AddressRange),
    flows: &FlowSet,
) -> Result<()> {
    let (from, to) = (flows.src_ports(), flows.dst_ports());
    let (first, last) = (*from.start().max(to.start()), *from.end().min(to.end()));
    if first > last {
        return Ok(());
    }
    let shared = match ranges::only(srcs) {
        // The sockets are bound to all addresses of the host.
        Some(all) if all.is_unspecified() => {
            let mut own = netdev::assigned_addresses().into_iter().map(|(ip, _)| ip);
            own.find(|ip| dests.contains(ip))
                .or_else(|| Some(*dests.start()).filter(IpAddr::is_loopback))
        }
        _ => Some(*srcs.start().max(dests.start())).filter(|ip| ip <= srcs.end().min(dests.end())),
    };
    let Some(ip) = shared else { return Ok(()) };
    let at = std::net::SocketAddr::new(ip, first);
    let remedy = match spec.device.is_empty() {
        true => format!("--src-port-range {}", first.checked_add(1000).unwrap_or(first - 1000)),
        false => "another port at one of the ends".to_owned(),
    };
    Err(usage(format!(
        "--dest {at}: this run sends from there itself, so its packets would come back without a reflector: want the \
         address and port of a reflector, or {remedy}"
    )))
}
