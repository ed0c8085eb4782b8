//! Parses addresses, ports and hosts.

use super::Parsed;
use mpps_io::{AddressRange, addresses as ranges};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// Host and port, or a range of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Host, or hosts.
    pub host: Host,
    /// UDP ports.
    pub ports: RangeInclusive<u16>,
    /// Interface that a link-local address is on: `[fe80::2%eth1]:9000`.
    pub zone: Option<String>,
}

/// Addresses that packets are sent from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// Addresses.
    pub ips: AddressRange,
    /// Interface that link-local addresses are on: `fe80::1%eth1`.
    pub zone: Option<String>,
}

/// One or more hosts, as the user wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// Addresses.
    Ips(AddressRange),
    /// Name that is resolved when the run is planned, once its address family is known.
    Name(String),
}

/// Parses an address. An IPv4 address that is written as an IPv6 one (::ffff:10.99.0.1) becomes IPv4, as in the
/// packets.
pub fn ip(text: &str) -> Parsed<IpAddr> {
    text.parse()
        .map(|ip: IpAddr| ip.to_canonical())
        .map_err(|_| "want an IP address, such as 10.99.0.1 or fd99::1".to_owned())
}

/// Parses addresses like [`addresses`], with or without brackets. The interface of link-local addresses follows after
/// `%`.
pub fn sources(text: &str) -> Parsed<Sources> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let (ips, zone) = match bare.unwrap_or(text).split_once('%') {
        Some((ips, zone)) => (addresses(ips)?, Some(zone.to_owned())),
        None => (addresses(bare.unwrap_or(text))?, None),
    };
    if zone.is_some() {
        of_one_interface(*ips.start())?;
    }
    Ok(Sources { ips, zone })
}

/// Refuses an interface with an address that is not link-local.
fn of_one_interface(ip: IpAddr) -> Parsed<()> {
    match is_link_local(ip) {
        true => Ok(()),
        false => Err("only link-local addresses (fe80::) are of one interface: want it without %".to_owned()),
    }
}

const WANT_ADDRESSES: &str = "want an IP address, or several as FIRST-LAST or NETWORK/BITS, such as 10.99.0.1, \
                              10.99.0.1-10.99.3.254 or fd99::/120";

/// Parses an address, a range of addresses, or the addresses of a prefix that hosts can have. In IPv4 these are all but
/// the network and the broadcast address (all of /31 and /32, RFC 3021). In IPv6 they are all but the routers' anycast
/// address (RFC 4291, section 2.6.1; all of /127 and /128, RFC 6164).
pub fn addresses(text: &str) -> Parsed<AddressRange> {
    let ip = |text: &str| ip(text).map_err(|_| WANT_ADDRESSES.to_owned());
    let range = if let Some((network, bits)) = text.split_once('/') {
        let (first, bits) = (ip(network)?, bits.parse::<u32>().map_err(|_| WANT_ADDRESSES)?);
        // The prefix of an IPv4 address that is written as an IPv6 one has 96 bits more.
        let more = if first.is_ipv4() && network.contains(':') {
            96
        } else {
            0
        };
        prefix(first, bits.checked_sub(more).ok_or(WANT_ADDRESSES)?)?
    } else if let Some((first, last)) = text.split_once('-') {
        ip(first)?..=ip(last)?
    } else {
        ranges::one(ip(text)?)
    };
    let (first, last) = (*range.start(), *range.end());
    if first.is_ipv4() != last.is_ipv4() {
        return Err("one end is IPv4, the other IPv6: want both of one family".to_owned());
    }
    if first > last {
        return Err(format!("the range is reversed: want {last}-{first}"));
    }
    // Addresses that are no host's are at the ends of the address space, or in a block that starts with one of these.
    let groups: [IpAddr; 2] = [[224, 0, 0, 0].into(), Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0).into()];
    if ![first, last].into_iter().all(is_one_host) || groups.iter().any(|group| range.contains(group)) {
        return Err(match ranges::only(&range) {
            Some(_) => "want the address of one host".to_owned(),
            None => "multicast, broadcast or unspecified addresses are among them: want addresses of hosts".to_owned(),
        });
    }
    if ranges::place(first, last).is_none_or(|last| last == u32::MAX) {
        return Err(format!(
            "more addresses than there are numbers for flows: want {} at most",
            u32::MAX
        ));
    }
    Ok(range)
}

/// Returns the addresses of a prefix that hosts can have.
fn prefix(ip: IpAddr, bits: u32) -> Parsed<AddressRange> {
    let (size, number): (u32, u128) = match ip {
        IpAddr::V4(ip) => (32, ip.to_bits().into()),
        IpAddr::V6(ip) => (128, ip.to_bits()),
    };
    let host = size
        .checked_sub(bits)
        .ok_or_else(|| format!("want a prefix of {size} bits at most"))?;
    let mask = 1u128.checked_shl(host).map_or(u128::MAX, |span| span - 1);
    let end = |number: u128| -> IpAddr {
        match ip {
            IpAddr::V4(_) => Ipv4Addr::from_bits(number as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(number).into(),
        }
    };
    if number & mask != 0 && host > 0 {
        return Err(format!(
            "bits behind the prefix are set: want {}/{bits}",
            end(number & !mask)
        ));
    }
    let (first, last) = (number, number | mask);
    Ok(match (host, ip) {
        (0 | 1, _) => end(first)..=end(last),
        (_, IpAddr::V4(_)) => end(first + 1)..=end(last - 1),
        (_, IpAddr::V6(_)) => end(first + 1)..=end(last),
    })
}

/// Parses one port, or two with a dash.
pub fn ports(text: &str) -> Parsed<RangeInclusive<u16>> {
    const WANT: &str = "want a port or a range of ports from 1 to 65535, such as 9000 or 10000-30000";
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse::<u16>(), last.parse::<u16>()) {
        (Ok(0), _) | (_, Ok(0)) | (Err(_), _) | (_, Err(_)) => Err(WANT.to_owned()),
        (Ok(first), Ok(last)) if first > last => Err(format!("the range is reversed: want {last}-{first}")),
        (Ok(first), Ok(last)) => Ok(first..=last),
    }
}

/// Parses HOST:PORT, IPS:PORT or [IPv6s]:PORT, each with a range of ports; IPS is an address, a range of addresses or a
/// prefix.
pub fn target(text: &str) -> Parsed<Target> {
    const WANT: &str = "want IP:PORT or NAME:PORT, such as 10.99.0.2:9000, [fd99::2]:9000 or server:9000, or several \
                        addresses or ports, such as 10.99.0.2-10.99.0.9:9000, 10.99.0.0/24:9000 or \
                        [fd99::/120]:9000-9003";
    let (host, port_text) = text
        .rsplit_once(':')
        .ok_or_else(|| without_port(text).unwrap_or_else(|| WANT.to_owned()))?;
    // Each end of a range may have brackets of its own.
    let bare = host
        .strip_prefix('[')
        .and_then(|t| t.strip_suffix(']'))
        .map(|t| t.replacen("]-[", "-", 1));
    let several = |text: &str| text.contains('/') || text.split('-').all(|ip| ip.parse::<IpAddr>().is_ok());
    let (bare, zone) = match bare.as_ref().and_then(|bare| bare.split_once('%')) {
        Some((address, zone)) => (Some(address.to_owned()), Some(zone.to_owned())),
        None => (bare, None),
    };
    let host = if let Some(v6) = bare {
        let range = addresses(&v6).map_err(|told| if several(&v6) { told } else { WANT.to_owned() })?;
        if range.start().is_ipv4() && !v6.contains(':') {
            return Err(WANT.to_owned());
        }
        if zone.is_some() {
            of_one_interface(*range.start())?;
        }
        Host::Ips(range)
    } else if text.contains("::") || host.contains(':') {
        let meant = without_brackets(host, port_text).or_else(|| without_port(text));
        return Err(meant.unwrap_or_else(|| WANT.to_owned()));
    } else if several(host) {
        Host::Ips(addresses(host)?)
    } else if is_host_name(host) {
        Host::Name(host.to_owned())
    } else {
        return Err(WANT.to_owned());
    };
    Ok(Target {
        host,
        ports: ports(port_text)?,
        zone,
    })
}

/// Returns a hint for IPv6 addresses without brackets in front of a port.
fn without_brackets(host: &str, port: &str) -> Option<String> {
    let v6 = |text: &str| text.split('%').next().is_some_and(|ip| ip.parse::<Ipv6Addr>().is_ok());
    let whole = host.split('-').all(v6) || host.split_once('/').is_some_and(|(network, _)| v6(network));
    let known = whole && ports(port).is_ok();
    known.then(|| format!("an IPv6 address stands in brackets in front of a port: want [{host}]:{port}"))
}

/// Returns a hint for an address or a name without a port.
fn without_port(text: &str) -> Option<String> {
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    match bare.parse::<IpAddr>() {
        Ok(IpAddr::V6(_)) => Some(format!("the port is missing: want [IP]:PORT, such as [{bare}]:9000")),
        Ok(IpAddr::V4(_)) => Some(format!("the port is missing: want IP:PORT, such as {bare}:9000")),
        Err(_) if is_host_name(text) => Some(format!("the port is missing: want NAME:PORT, such as {text}:9000")),
        Err(_) => None,
    }
}

/// Returns whether an address is known on one link only.
pub fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// Returns whether an address can belong to one host.
pub fn is_one_host(ip: IpAddr) -> bool {
    !(ip.is_multicast() || ip.is_unspecified() || ip == IpAddr::V4(std::net::Ipv4Addr::BROADCAST))
}

/// Returns whether a text can be the name of a host (RFC 1123, section 2.1; underscores are allowed, because some names
/// have them). A name whose last part is a number is a mistyped address.
fn is_host_name(text: &str) -> bool {
    let name = text.strip_suffix('.').unwrap_or(text);
    let label = |label: &str| {
        let inside = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        !label.is_empty() && label.len() <= 63 && label.chars().all(inside) && !label.starts_with('-')
    };
    let last = name.rsplit('.').next().unwrap_or(name);
    name.len() <= 253 && name.split('.').all(label) && !last.chars().all(|c| c.is_ascii_digit())
}
