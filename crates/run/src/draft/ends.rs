//! Finds the source and destination addresses of a run that sends: given, looked up by name, or the interface's own.

use super::traffic::One;
use super::{family, reach};
use crate::fail::{Result, usage};
use crate::paths::Checked;
use crate::request::Run;
use mpps_io::{AddressRange, addresses as ranges};
use mpps_netdev::{self as netdev, NetDev};
use mpps_plan::Plain;
use mpps_plan::values::{Host, Target, is_link_local, is_one_host};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs, UdpSocket};
use std::ops::RangeInclusive;

/// Destination of the packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// First address. `count` is the number of addresses.
    pub ip: IpAddr,
    pub(crate) count: u32,
    pub(crate) ports: RangeInclusive<u16>,
    /// Name that was given for the address.
    pub name: Option<String>,
    /// Index of the interface that a link-local address is on, if it was named; else 0.
    pub(crate) scope: u32,
}

/// Default addresses of a test between two ports of mpps: source and destination.
const TEST_V4: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2)];
const TEST_V6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2),
];

/// Default addresses on paths where nobody is asked.
const NOBODY_V4: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 99, 0, 1), Ipv4Addr::new(10, 99, 0, 2)];
const NOBODY_V6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 2),
];

impl Destination {
    /// Returns a destination of one address, without a name.
    fn one(ip: IpAddr, ports: RangeInclusive<u16>) -> Self {
        Self {
            ip,
            count: 1,
            ports,
            name: None,
            scope: 0,
        }
    }

    /// Returns the addresses.
    pub(super) fn ips(&self) -> AddressRange {
        ranges::from(self.ip, self.count)
    }
}

/// Returns the sources and destinations of a run. The name of a destination that is `known` is not looked up again.
pub(super) fn addresses(
    args: &Run,
    port: &Checked,
    (device, far): (Option<&NetDev>, Option<&NetDev>),
    known: Option<&Destination>,
) -> Result<(AddressRange, Destination)> {
    let srcs = given_sources(args, port)?;
    let given = srcs.as_ref().map(|srcs| *srcs.start());
    let mut dest = destination(args, port, given, device, known)?;
    apply_zone(args, device, &mut dest)?;
    reach::check(args, port, (device, far), &dest)?;
    let src = match given {
        Some(src) => src,
        None => default_source(args, port, device, &dest)?,
    };
    let srcs = srcs.unwrap_or(ranges::one(src));
    if src.is_ipv4() != dest.ip.is_ipv4() {
        return Err(usage(format!(
            "--dest {}: {} to a source that is {} ({}): want both of one family",
            ranges::text(&dest.ips()),
            family(dest.ip),
            family(src),
            ranges::text(&srcs)
        )));
    }
    check_gateways(args, &srcs, &dest)?;
    if port.traits.socket.is_some() && ranges::only(&srcs).is_none() {
        all_own(&srcs, args.plan.traffic.flows)?;
    }
    Ok((srcs, dest))
}

/// Returns the first source and destination address of a stream, given in its packet or by default; unspecified ones
/// without an IP header.
pub(super) fn of_stream(
    args: &Run,
    port: &Checked,
    (device, far): (Option<&NetDev>, Option<&NetDev>),
    stream: &One,
) -> Result<(AddressRange, Destination)> {
    let quiet = is_apart(args) || port.nobody_answers() || stream.dest_mac().is_some();
    if !stream.has_ip() {
        if !quiet {
            return Err(
                stream.wrong("without an IP header there is no next hop that could be asked for: want dst=MAC in eth")
            );
        }
        let any: IpAddr = Ipv4Addr::UNSPECIFIED.into();
        return Ok((ranges::one(any), Destination::one(any, 0..=0)));
    }
    if !quiet {
        stream.check_tags()?;
    }
    let default = |v4: [Ipv4Addr; 2], v6: [Ipv6Addr; 2]| match stream.is_v6() {
        true => v6.map(IpAddr::from),
        false => v4.map(IpAddr::from),
    };
    let ends = match is_apart(args) {
        true => default(TEST_V4, TEST_V6),
        false => default(NOBODY_V4, NOBODY_V6),
    };
    let dst = match stream.first_dst() {
        Some(dst) => dst,
        None if quiet => ends[1],
        None => {
            let kind = if stream.is_v6() { "ipv6" } else { "ipv4" };
            return Err(stream.wrong(format!("{kind}: want dst=ADDRESS, the peer's")));
        }
    };
    let dest = Destination::one(dst, 0..=0);
    if stream.dest_mac().is_none() {
        let all = stream.destinations();
        let all = if all.is_empty() { vec![ranges::one(dst)] } else { all };
        for range in all {
            let dest = Destination {
                count: ranges::count(&range),
                ..Destination::one(*range.start(), 0..=0)
            };
            reach::check(args, port, (device, far), &dest)?;
        }
    }
    let of_port = port.traits.socket.and_then(|socket| socket.address);
    if port.traits.socket.is_some() && is_link_local(dst) {
        return Err(stream.wrong(format!(
            "dst {dst}: a link-local address is known on one link only, which a packet's text does not name: want \
             another address, or --dest [ADDRESS%INTERFACE]:PORT"
        )));
    }
    let src = match stream.first_src().or(of_port) {
        Some(src) => src,
        None => default_source(args, port, device, &dest)?,
    };
    check_gateways(args, &ranges::one(src), &dest)?;
    // Sockets are apart by their ports.
    if stream.dest_mac().is_none() && port.traits.socket.is_none() {
        for (srcs, dests) in stream.sources().iter().flat_map(|srcs| {
            stream
                .destinations()
                .into_iter()
                .map(move |dests| (srcs.clone(), dests))
        }) {
            let first = *srcs.start().max(dests.start());
            if first <= *srcs.end().min(dests.end()) {
                return Err(stream.wrong(format!(
                    "{first} is among its source addresses and among its destination addresses: want addresses that \
                     are not"
                )));
            }
        }
    }
    Ok((ranges::one(src), dest))
}

/// Returns whether both ends are mpps's: then addresses are used that no host has, reserved for tests (RFC 2544,
/// RFC 5180).
fn is_apart(args: &Run) -> bool {
    args.plan.far().is_some()
}

/// Returns the source addresses that were given, by `--src` or by the port.
fn given_sources(args: &Run, port: &Checked) -> Result<Option<AddressRange>> {
    let of_port = port.traits.socket.and_then(|socket| socket.address);
    let from = args.plan.traffic.src.as_ref().map(|src| &src.ips);
    if let (Some(src), Some(address)) = (from, of_port)
        && ranges::only(src) != Some(address)
    {
        return Err(usage(format!(
            "--src {}: the port's address is {address}: want the same, or one of them only",
            ranges::text(src)
        )));
    }
    Ok(from.cloned().or(of_port.map(ranges::one)))
}

/// Returns the destination: that of `--dest`, or a default one if no other host has to answer.
fn destination(
    args: &Run,
    port: &Checked,
    src: Option<IpAddr>,
    device: Option<&NetDev>,
    known: Option<&Destination>,
) -> Result<Destination> {
    match &args.plan.traffic.dest {
        Some(target) => resolved(target, src, device, known),
        None if is_apart(args) => {
            let ip = match src {
                Some(IpAddr::V6(_)) => TEST_V6[1].into(),
                _ => TEST_V4[1].into(),
            };
            Ok(Destination::one(ip, 9000..=9000))
        }
        None if port.nobody_answers() => Ok(Destination::one(NOBODY_V4[1].into(), 9000..=9000)),
        None => Err(usage(
            "--dest: missing: want --dest IP:PORT, such as 10.99.0.2:9000, or several \
                              addresses as 10.99.0.2-10.99.0.9:9000 or 10.99.0.0/24:9000",
        )),
    }
}

/// Gives the destination the interface that is named with the source address, if one is.
fn apply_zone(args: &Run, device: Option<&NetDev>, dest: &mut Destination) -> Result<()> {
    let src = args.plan.traffic.src.as_ref();
    let Some((zone, ips)) = src.and_then(|src| Some((src.zone.as_ref()?, &src.ips))) else {
        return Ok(());
    };
    let scope = scope("--src", zone, ips, device)?;
    if ![0, scope].contains(&dest.scope) {
        return Err(usage(format!(
            "--src {}%{zone}: --dest names another interface, and no packet leaves its link: want both of one",
            ranges::text(ips)
        )));
    }
    dest.scope = scope;
    Ok(())
}

/// Returns the source address if none was given.
fn default_source(args: &Run, port: &Checked, device: Option<&NetDev>, dest: &Destination) -> Result<IpAddr> {
    Ok(match dest.ip {
        IpAddr::V4(_) if is_apart(args) => TEST_V4[0].into(),
        IpAddr::V6(_) if is_apart(args) => TEST_V6[0].into(),
        IpAddr::V4(_) if port.nobody_answers() => NOBODY_V4[0].into(),
        IpAddr::V6(_) if port.nobody_answers() => NOBODY_V6[0].into(),
        ip if port.traits.socket.is_some() => routed_address(ip, *dest.ports.start(), dest.scope)?,
        ip => own_address(ip, port, device)?,
    })
}

/// Refuses gateways of the other family, and those that are addresses of mpps itself.
fn check_gateways(args: &Run, srcs: &AddressRange, dest: &Destination) -> Result<()> {
    let gateways = [
        ("--gateway", args.plan.traffic.gateway.plain(), srcs.clone(), "--src"),
        (
            "--back-gateway",
            args.plan.traffic.back_gateway.plain(),
            dest.ips(),
            "--dest",
        ),
    ];
    for (option, gateway, ours, of) in gateways {
        if let Some(hop) = gateway.filter(|hop| hop.is_ipv4() != srcs.start().is_ipv4()) {
            return Err(usage(format!(
                "{option} {hop}: {} between addresses that are {}: want a router's of one family with them",
                family(hop),
                family(*srcs.start())
            )));
        }
        if let Some(hop) = gateway.filter(|hop| ours.contains(hop)) {
            return Err(usage(format!(
                "{option} {hop}: it is among the addresses of {of} ({}), which mpps has itself: want a \
                 router's address",
                ranges::text(&ours)
            )));
        }
    }
    Ok(())
}

/// Refuses a source range and a destination range that share an address, even if they step together and no flow has the
/// same address at both ends. mpps answers for its source addresses, so it would answer for the peer's.
pub(super) fn of_two(srcs: &AddressRange, dests: &AddressRange) -> Result<()> {
    let several = [srcs, dests].iter().any(|range| ranges::only(range).is_none());
    let first = *srcs.start().max(dests.start());
    match several && first <= *srcs.end().min(dests.end()) {
        false => Ok(()),
        true => Err(usage(format!(
            "--dest {}: {first} is among the source addresses, too ({}): want addresses that are not",
            ranges::text(dests),
            ranges::text(srcs)
        ))),
    }
}

/// Most addresses that are tried: no port has as many sockets.
const MOST_TRIED: u32 = 1 << 16;

/// Refuses source addresses that the host lacks: a socket is bound to each.
fn all_own(srcs: &AddressRange, flows: Option<u32>) -> Result<()> {
    let used = ranges::count(srcs).min(flows.unwrap_or(u32::MAX)).min(MOST_TRIED);
    for place in 0..used {
        let ip = ranges::at(*srcs.start(), place);
        if let Err(error) = UdpSocket::bind((ip, 0))
            && error.kind() == std::io::ErrorKind::AddrNotAvailable
        {
            return Err(usage(format!(
                "--src {}: this host does not have {ip}, and a socket is bound to each address: want addresses of its \
                 own, or the path af_packet",
                ranges::text(srcs)
            )));
        }
    }
    Ok(())
}

const WANT: &str = "want --src IP, the address that packets are sent from";

/// Returns the address that the host would send datagrams from. It is read from a connected socket that sends none.
fn routed_address(to: IpAddr, port: u16, scope: u32) -> Result<IpAddr> {
    if is_link_local(to) && scope == 0 {
        let name = netdev::interface_names().into_iter().rfind(|name| name != "lo");
        let name = name.unwrap_or_else(|| "eth0".to_owned());
        return Err(usage(format!(
            "--dest {to}: a link-local address is known on one link only: want its interface with it, such as \
             [{to}%{name}]:{port}, or --src IP"
        )));
    }
    let any: IpAddr = match to {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let at = match to {
        IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, scope).into(),
        IpAddr::V4(_) => SocketAddr::new(to, port),
    };
    let socket = UdpSocket::bind((any, 0)).and_then(|socket| socket.connect(at).map(|()| socket));
    let own = socket.and_then(|socket| socket.local_addr());
    own.map(|own| own.ip()).map_err(|e| {
        let missing = format!("--src: missing, and this host has no address to send to {to} from ({e}");
        usage(match switched_off(to) {
            Some(name) => format!("{missing}; {name} is switched off): want ip link set {name} up, or --src IP"),
            None => format!("{missing}): {WANT}"),
        })
    })
}

/// Returns an interface that is switched off and would lead to an address. IPv6 addresses disappear with the link, so
/// for IPv6 an interface is returned only if there is no other.
fn switched_off(to: IpAddr) -> Option<String> {
    let all = netdev::interface_names()
        .into_iter()
        .filter_map(|name| NetDev::by_name(&name).ok());
    let all: Vec<NetDev> = all.filter(|device| device.name != "lo").collect();
    let alone = all.len() == 1;
    let mut off = all.into_iter().filter(|device| !device.up);
    let leads_to = |device: &NetDev| match to {
        IpAddr::V4(to) => device.addresses.iter().any(|(ip, prefix)| match ip {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(*prefix).min(32)).unwrap_or(0);
                ip.to_bits() & mask == to.to_bits() & mask
            }
            IpAddr::V6(_) => false,
        }),
        IpAddr::V6(_) => alone,
    };
    off.find(leads_to).map(|device| device.name)
}

/// Returns the address that the host itself would send from by this interface.
fn own_address(to: IpAddr, port: &Checked, device: Option<&NetDev>) -> Result<IpAddr> {
    let Some(device) = device else {
        return Err(match &port.traits.interface {
            Some(name) => usage(format!(
                "port '{}': no such interface '{name}'; there are: {}",
                port.spec,
                netdev::interface_names().join(", ")
            )),
            None => usage(format!("--src: missing: {WANT}")),
        });
    };
    let routed = netdev::route_lookup(to, device.ifindex).ok().and_then(|r| r.source);
    let own = |ip: &IpAddr| device.addresses.iter().any(|(own, _)| own == ip);
    routed
        .filter(own)
        .or_else(|| of_family(device, to.is_ipv4()).next())
        .ok_or_else(|| {
            let (name, family) = (&device.name, family(to));
            usage(match device.up {
                true => format!("--src: missing, and {name} has no {family} address to send from: {WANT}"),
                false => format!(
                    "--src: missing, and {name} is switched off and has no {family} address: want ip link set {name} \
                     up, or --src IP"
                ),
            })
        })
}

/// Returns the addresses of the interface in one family, link-local ones last.
fn of_family(device: &NetDev, v4: bool) -> impl Iterator<Item = IpAddr> {
    let all = || {
        device
            .addresses
            .iter()
            .map(|(ip, _)| *ip)
            .filter(move |ip| ip.is_ipv4() == v4)
    };
    let local = |ip: &IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
    all().filter(move |ip| !local(ip)).chain(all().filter(local))
}

/// Returns the destination. Its address is of the source's family if a source is given, else of a family that the
/// interface has.
fn resolved(
    target: &Target,
    src: Option<IpAddr>,
    device: Option<&NetDev>,
    known: Option<&Destination>,
) -> Result<Destination> {
    let ports = target.ports.clone();
    let name = match &target.host {
        Host::Ips(range) => {
            return Ok(Destination {
                count: ranges::count(range),
                scope: match &target.zone {
                    Some(zone) => scope("--dest", zone, range, device)?,
                    None => 0,
                },
                ..Destination::one(*range.start(), ports)
            });
        }
        Host::Name(name) => name,
    };
    if let Some(known) = known.filter(|known| known.name.as_ref() == Some(name)) {
        return Ok(Destination { ports, ..known.clone() });
    }
    let found = (name.as_str(), *ports.start()).to_socket_addrs().map_err(|e| {
        // The library's message begins with a sentence on the function that it called: keep only the cause.
        let cause = e.to_string();
        let cause = cause.rsplit(": ").next().unwrap_or(&cause);
        usage(format!(
            "--dest: '{name}' can't be resolved ({cause}): want a name that this host can look up, or IP:PORT, such as \
             10.99.0.2:9000"
        ))
    })?;
    let found: Vec<IpAddr> = found
        .map(|address| address.ip())
        .filter(|ip| is_one_host(*ip))
        .collect();
    let ip = choose(&found, src, device).ok_or_else(|| {
        let all: Vec<_> = found.iter().map(IpAddr::to_string).collect();
        let want = match src {
            Some(src) => format!("{} address, as --src {src} is", family(src)),
            None => "address that this interface can send to".to_owned(),
        };
        usage(format!(
            "--dest: '{name}' is {}: want a name with an {want}",
            all.join(" ")
        ))
    })?;
    Ok(Destination {
        name: Some(name.clone()),
        ..Destination::one(ip, ports)
    })
}

/// Returns the index of the interface `zone`, which was named with addresses of `option`.
fn scope(option: &str, zone: &str, ips: &AddressRange, device: Option<&NetDev>) -> Result<u32> {
    let ip = ips.start();
    let named = NetDev::by_name(zone).map_err(|_| {
        usage(format!(
            "{option} {ip}%{zone}: no such interface '{zone}'; there are: {}",
            netdev::interface_names().join(", ")
        ))
    })?;
    match device.filter(|device| device.ifindex != named.ifindex) {
        Some(device) => Err(usage(format!(
            "{option} {ip}%{zone}: packets leave by {}, and the address is one of the link of {zone}: want both of one \
             interface",
            device.name
        ))),
        None => Ok(named.ifindex),
    }
}

/// Returns the first address that can be used: the resolver sorts by RFC 6724, so it is the best.
fn choose(found: &[IpAddr], src: Option<IpAddr>, device: Option<&NetDev>) -> Option<IpAddr> {
    let usable = |ip: &&IpAddr| match (src, device) {
        (Some(src), _) => src.is_ipv4() == ip.is_ipv4(),
        (None, Some(device)) => of_family(device, ip.is_ipv4()).next().is_some(),
        (None, None) => true,
    };
    found.iter().find(usable).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(addresses: &[&str]) -> NetDev {
        let mut device = NetDev::by_name("lo").expect("every namespace has it");
        device.addresses = addresses.iter().map(|a| (a.parse().expect("an address"), 64)).collect();
        device
    }

    #[test]
    fn a_name_s_address_is_of_the_source_s_family_or_of_one_that_the_interface_has() {
        let found: Vec<IpAddr> = ["fd99::2", "10.99.0.2"].map(|a| a.parse().expect("an address")).into();
        let chosen = |src: Option<&str>, device: Option<NetDev>| {
            let src = src.map(|src| src.parse().expect("an address"));
            choose(&found, src, device.as_ref()).map(|ip| ip.to_string())
        };
        assert_eq!(chosen(Some("10.99.0.1"), None).as_deref(), Some("10.99.0.2"));
        assert_eq!(chosen(Some("fd99::1"), None).as_deref(), Some("fd99::2"));
        assert_eq!(chosen(None, None).as_deref(), Some("fd99::2"));
        assert_eq!(chosen(None, Some(device(&["10.99.0.1"]))).as_deref(), Some("10.99.0.2"));
        assert_eq!(chosen(None, Some(device(&[]))), None);
    }

    #[test]
    fn an_address_that_only_the_link_knows_is_the_last_to_be_taken() {
        let first = |all: &[&str], v4| of_family(&device(all), v4).next().map(|ip| ip.to_string());
        assert_eq!(
            first(&["fe80::1", "fd99::1", "10.99.0.1"], false).as_deref(),
            Some("fd99::1")
        );
        assert_eq!(first(&["fe80::1", "10.99.0.1"], true).as_deref(), Some("10.99.0.1"));
        assert_eq!(first(&["fe80::1"], false).as_deref(), Some("fe80::1"));
        assert_eq!(first(&["fe80::1"], true), None);
    }
}
