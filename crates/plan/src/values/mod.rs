//! Parses values of options. Errors are one line on what would be right.

pub mod capture;
pub mod forward;
pub mod keep;
pub mod rate;
pub mod start;

use mpps_io::{AddressRange, OnFull, Pacing, Step, addresses as ranges};
use mpps_sys::text::comma_in_number;
use mpps_wire::MacAddr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Value of a text, or one line on what would be right.
pub type Parsed<T> = Result<T, String>;

/// List of cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores(pub Vec<usize>);

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

/// Units of a time, in ns.
const TIME_UNITS: [(&str, u64); 7] = [
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Returns the error for a time. If only the case of its unit is wrong, asks whether the right one was meant.
fn no_time(text: &str, want: &str) -> String {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(0);
    let (number, unit) = text.split_at(split);
    let like = TIME_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    match like.filter(|(name, _)| *name != unit && !number.is_empty()) {
        Some((name, _)) => format!("want {want}: did you mean {number}{name}?"),
        None => format!("want {want}{}", comma_in_number(text)),
    }
}

/// Parses a time to ns: a decimal number and a unit.
pub fn time_ns(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let (_, scale) = TIME_UNITS.iter().find(|(name, _)| *name == unit)?;
    if number.is_empty() || number.starts_with('.') {
        return None;
    }
    let value: f64 = number.parse().ok()?;
    let ns = value * *scale as f64;
    (ns <= 1e17).then_some(ns.round() as u64)
}

fn time_within(text: &str, range: RangeInclusive<u64>, want: &str) -> Parsed<Duration> {
    match time_ns(text) {
        Some(ns) if range.contains(&ns) => Ok(Duration::from_nanos(ns)),
        _ => Err(no_time(text, want)),
    }
}

const HOUR: u64 = 3_600_000_000_000;

/// Parses a run's length; 0, with or without a unit, is "until interrupted".
pub fn duration(text: &str) -> Parsed<Duration> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    match time_ns(text) {
        Some(0) => Ok(Duration::ZERO),
        Some(ns) if (1_000..=1000 * HOUR).contains(&ns) => Ok(Duration::from_nanos(ns)),
        _ => Err(no_time(
            text,
            "a time from 1us to 1000h with its unit (us, ms, s, m, h), such as 10s, or 0",
        )),
    }
}

/// Parses a time since the start of a run.
pub fn since_start(text: &str) -> Parsed<Duration> {
    match text {
        "0" => Ok(Duration::ZERO),
        _ => time_within(
            text,
            0..=1000 * HOUR,
            "a time since the start of the run with its unit (us, ms, s, m, h), such as 1.25s, or 0",
        ),
    }
}

/// Parses the time for which the noise of cores is measured; 0: not at all.
pub fn measure(text: &str) -> Parsed<Duration> {
    match text {
        "0" | "0s" => Ok(Duration::ZERO),
        _ => time_within(
            text,
            10_000_000..=HOUR,
            "a time from 10ms to 1h with its unit (ms, s, m, h), such as 3s, or 0",
        ),
    }
}

/// Parses the length of the demo's run.
pub fn demo_duration(text: &str) -> Parsed<Duration> {
    time_within(
        text,
        1_000_000_000..=HOUR,
        "a time from 1s to 1h with its unit (s, m, h), such as 10s",
    )
}

/// Parses a row's length.
pub fn interval(text: &str) -> Parsed<Duration> {
    time_within(
        text,
        100_000..=HOUR,
        "a time from 100us to 1h with its unit (us, ms, s, m, h), such as 100ms",
    )
}

/// Parses the settle time.
pub fn settle(text: &str) -> Parsed<Duration> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    time_within(
        text,
        0..=60_000_000_000,
        "a time from 0 to 60s with its unit (us, ms, s, m), such as 1s",
    )
}

/// Parses the time for which forwarded frames are held.
pub fn drain(text: &str) -> Parsed<Duration> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    time_within(
        text,
        0..=10_000_000,
        "a time from 0 to 10ms with its unit (us, ms), such as 100us",
    )
}

/// Parses the catch-up limit.
pub fn catch_up(text: &str) -> Parsed<Duration> {
    time_within(
        text,
        1_000..=10_000_000_000,
        "a time from 1us to 10s with its unit (us, ms, s), such as 1ms",
    )
}

/// Parses a whole number within a range.
pub fn whole<T: std::str::FromStr + PartialOrd + std::fmt::Display>(text: &str, range: RangeInclusive<T>) -> Parsed<T> {
    match text.parse::<T>() {
        Ok(n) if range.contains(&n) => Ok(n),
        _ => Err(format!("want a whole number from {} to {}", range.start(), range.end())),
    }
}

/// Parses a number of 1 or more.
pub fn count(text: &str) -> Parsed<u64> {
    let n = text.parse().ok().filter(|n| *n > 0);
    n.ok_or_else(|| "want a whole number from 1 on".to_owned())
}

/// Parses a seed.
pub fn seed(text: &str) -> Parsed<u64> {
    text.parse()
        .map_err(|_| format!("want a whole number from 0 to {}", u64::MAX))
}

/// Parses a number of lanes.
pub fn lanes(text: &str) -> Parsed<usize> {
    whole(text, 1..=128)
}

/// Parses the most frames of a burst.
pub fn burst(text: &str) -> Parsed<usize> {
    whole(text, 1..=mpps_io::MAX_BURST)
}

/// Parses a VLAN identifier.
pub fn vlan(text: &str) -> Parsed<u16> {
    whole(text, 1..=4094)
}

/// Parses a number of flows.
pub fn flows(text: &str) -> Parsed<u32> {
    whole(text, 1..=u32::MAX)
}

/// Parses the length of a UDP payload, bytes.
pub fn payload_size(text: &str) -> Parsed<usize> {
    whole(text, 16..=65_507).map_err(|want| format!("{want}: a payload holds a stamp of 16 bytes at least"))
}

/// Parses the length of a frame with FCS, bytes.
pub fn frame_size(text: &str) -> Parsed<usize> {
    whole(text, 64..=65_553)
}

/// Parses a ratio: 0.001 or 0.1%.
pub fn ratio(text: &str) -> Parsed<f64> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |n| (n, 0.01));
    match number.trim().parse::<f64>() {
        Ok(n) if (0.0..=1.0).contains(&(n * scale)) => Ok(n * scale),
        _ => Err("want a ratio from 0 to 1, such as 0.001 or 0.1%".to_owned()),
    }
}

/// Names of DSCP classes, and their code points (RFC 2474, RFC 2597, RFC 3246, RFC 5865, RFC 8622).
pub const CLASSES: [(&str, u8); 26] = [
    ("BE", 0),
    ("DF", 0),
    ("LE", 1),
    ("CS0", 0),
    ("CS1", 8),
    ("CS2", 16),
    ("CS3", 24),
    ("CS4", 32),
    ("CS5", 40),
    ("CS6", 48),
    ("CS7", 56),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("VA", 44),
    ("EF", 46),
    ("VOICE-ADMIT", 44),
];

/// Parses a DSCP: a number or the name of a class.
pub fn dscp(text: &str) -> Parsed<u8> {
    let class = CLASSES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    let number = || text.parse().ok().filter(|dscp| *dscp < 64);
    class.map(|(_, dscp)| *dscp).or_else(number).ok_or_else(|| {
        "want a DSCP from 0 to 63, or the name of a class: EF, AF11 to AF43, CS0 to CS7, VA, LE, BE".to_owned()
    })
}

/// Parses a share with its unit, as `--expect` requires it: 0.1%. Only 0 needs no unit: 0.1 may be meant as 0.1 % or as
/// 10 %.
pub fn share(text: &str) -> Parsed<f64> {
    let share = ratio(text).map_err(|_| "want a share from 0 to 100%, such as 0.1%".to_owned())?;
    if share == 0.0 || text.ends_with('%') {
        return Ok(share);
    }
    // Rounded: a hundred times 0.07 is 7, not 7.000000000000001.
    let percent = (share * 1e11).round() / 1e9;
    Err(format!(
        "want its unit: {text}%, or {percent}% if {text} is a part of one"
    ))
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

/// Parses the way in which addresses and ports are stepped.
pub fn step(text: &str) -> Parsed<Step> {
    match text {
        "combine" => Ok(Step::Combine),
        "together" => Ok(Step::Together),
        _ => Err("want combine or together".to_owned()),
    }
}

/// Parses the treatment of packets that the path does not take at once.
pub fn on_full(text: &str) -> Parsed<OnFull> {
    match text {
        "wait" => Ok(OnFull::Wait),
        "drop" => Ok(OnFull::Drop),
        _ => Err("want wait or drop".to_owned()),
    }
}

/// Returns the name that [`on_full`] parses.
pub fn on_full_name(what: OnFull) -> &'static str {
    match what {
        OnFull::Wait => "wait",
        OnFull::Drop => "drop",
    }
}

/// Parses a MAC address.
pub fn mac(text: &str) -> Parsed<MacAddr> {
    match text.parse::<MacAddr>() {
        Ok(mac) if mac.is_unicast() => Ok(mac),
        _ => Err("want the MAC address of one station, such as 02:00:00:00:00:01".to_owned()),
    }
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

/// Parses a list of cores, such as `0,2-3`.
pub fn cores(text: &str) -> Parsed<Cores> {
    let want = || "want cores by number, such as 0,2-3".to_owned();
    let mut list = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.parse::<usize>(), last.parse::<usize>()) {
            (Ok(first), Ok(last)) if first <= last && last < 1024 => list.extend(first..=last),
            _ => return Err(want()),
        }
        if list.len() > 1024 {
            return Err("want 1024 cores at the most".to_owned());
        }
    }
    Ok(Cores(list))
}

/// Parses a nice value.
pub fn nice(text: &str) -> Parsed<i32> {
    let nice = text.parse().ok().filter(|nice| (-20..=19).contains(nice));
    nice.ok_or_else(|| "want a nice value from -20 (first) to 19 (last)".to_owned())
}

/// Parses a real-time priority.
pub fn fifo(text: &str) -> Parsed<u32> {
    let fifo = text.parse().ok().filter(|fifo| (1..=99).contains(fifo));
    fifo.ok_or_else(|| "want a real-time priority from 1 to 99".to_owned())
}

/// Parses the spread of departures.
pub fn pacing(text: &str) -> Parsed<Pacing> {
    match text {
        "constant" => Ok(Pacing::Constant),
        "poisson" => Ok(Pacing::Poisson),
        _ => text
            .strip_prefix("burst=")
            .and_then(|n| n.parse().ok())
            .filter(|n| (1..=1_000_000).contains(n))
            .map(Pacing::Bursts)
            .ok_or_else(|| "want constant, poisson or burst=N (N from 1 to 1000000)".to_owned()),
    }
}

/// Parses a number of frames that are sent back to back.
pub fn burst_frames(text: &str) -> Parsed<u32> {
    let frames = text.parse().ok().filter(|n| (2..=1_000_000).contains(n));
    frames.ok_or_else(|| "want frames, 2 to 1000000, such as 16,64,256,1024".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ranges::one;

    #[test]
    fn a_code_point_is_read_by_its_number_or_by_its_class() {
        for (text, want) in [
            ("46", 46),
            ("0", 0),
            ("EF", 46),
            ("af21", 18),
            ("AF43", 38),
            ("cs6", 48),
            ("LE", 1),
        ] {
            assert_eq!(dscp(text), Ok(want), "{text}");
        }
        for text in ["64", "-1", "AF14", "AF51", "CS8", "", "E F", "46.0"] {
            assert!(dscp(text).unwrap_err().contains("EF, AF11 to AF43"), "{text}");
        }
        // RFC 2597, section 6, and RFC 2474, section 4.2.2.1.
        for (name, dscp) in CLASSES {
            let digit = |at: usize| name.as_bytes()[at] - b'0';
            match &name[..2] {
                "AF" => assert_eq!(dscp, 8 * digit(2) + 2 * digit(3), "{name}"),
                "CS" => assert_eq!(dscp, 8 * digit(2), "{name}"),
                _ => {}
            }
        }
    }

    #[test]
    fn times_are_read_with_their_units_and_refused_without() {
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(interval("100us"), Ok(Duration::from_micros(100)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for bad in ["10", "s", "", "-1s", "1x", "NaNs", "infs", ".5s", "1e3s", "0.1us"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert!(interval("99us").is_err() && interval("0s").is_err());
        assert!(duration("10S").unwrap_err().contains("did you mean 10s?"));
        assert!(settle("1.5MS").unwrap_err().contains("did you mean 1.5ms?"));
        assert!(!duration("10x").unwrap_err().contains("did you mean"));
        assert!(!interval("2h").unwrap_err().contains("did you mean"));
    }

    #[test]
    fn ports_and_destinations_are_read_and_refused() {
        assert_eq!(ports("10000-30000"), Ok(10000..=30000));
        assert_eq!(ports("9"), Ok(9..=9));
        assert!(ports("30000-10000").unwrap_err().contains("reversed"));
        for bad in ["0", "0-5", "65536", "a", "1-", "-1", ""] {
            assert!(ports(bad).is_err(), "{bad}");
        }
        assert_eq!(
            target("[fd99::2]:9000").unwrap().host,
            Host::Ips(one("fd99::2".parse().unwrap()))
        );
        assert_eq!(target("10.0.0.1:9000-9004").unwrap().ports, 9000..=9004);
        for (text, expected) in [
            ("10.0.0.1-10.0.3.254:9", "10.0.0.1-10.0.3.254"),
            ("10.0.0.0/22:9", "10.0.0.1-10.0.3.254"),
            ("[fd99::1-fd99::ff]:9", "fd99::1-fd99::ff"),
            ("[fd99::1]-[fd99::ff]:9", "fd99::1-fd99::ff"),
            ("[fd99::/124]:9", "fd99::1-fd99::f"),
        ] {
            let Host::Ips(range) = target(text).unwrap().host else {
                panic!("{text}")
            };
            assert_eq!(ranges::text(&range), expected, "{text}");
        }
        for name in ["server", "a-b.example.org", "9.example", "localhost."] {
            let host = target(&format!("{name}:9")).unwrap().host;
            assert_eq!(host, Host::Name(name.to_owned()));
        }
        for bad in [
            "10.0.0.1",
            "10.0.0.1:",
            "fd99::2:9000",
            "10.0.0:9",
            "a..b:9",
            "-a:9",
            "two words:9",
            ":9",
            "224.0.0.1:9",
            "0.0.0.0:9",
            "10.0.0.1:70000",
            "10.0.0.1-10.0.0:9",
            "[10.0.0.1-10.0.0.2]:9",
            "fd99::1-fd99::2:9",
            "10.0.0.9-10.0.0.1:9",
        ] {
            assert!(target(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ranges_of_addresses_are_those_of_hosts() {
        let text = |text: &str| addresses(text).map(|range| ranges::text(&range));
        for (given, range) in [
            ("10.0.0.1", "10.0.0.1"),
            // An address that would be a broadcast address in a smaller subnet is an ordinary one.
            ("10.1.0.1-10.1.63.254", "10.1.0.1-10.1.63.254"),
            ("10.0.0.0/24", "10.0.0.1-10.0.0.254"),
            ("10.0.0.0/31", "10.0.0.0-10.0.0.1"),
            ("10.0.0.7/32", "10.0.0.7"),
            ("fd99::/112", "fd99::1-fd99::ffff"),
            ("fd99::/127", "fd99::-fd99::1"),
            (
                "fd99::ffff:ffff:ffff:ffff-fd99:0:0:1::",
                "fd99::ffff:ffff:ffff:ffff-fd99:0:0:1::",
            ),
        ] {
            assert_eq!(text(given).as_deref(), Ok(range), "{given}");
        }
        for (given, part) in [
            ("10.0.0.2-10.0.0.1", "the range is reversed: want 10.0.0.1-10.0.0.2"),
            ("10.0.0.1-fd99::1", "one family"),
            ("10.0.0.1/24", "want 10.0.0.0/24"),
            ("10.0.0.0/33", "32 bits"),
            ("fd99::/64", "4294967295 at most"),
            ("0.0.0.0/0", "multicast"),
            ("::/0", "multicast"),
            ("223.255.255.0-224.0.0.9", "multicast"),
            ("224.0.0.1", "one host"),
            ("255.255.255.255", "one host"),
            ("0.0.0.0-0.0.0.9", "unspecified"),
            ("fe00::-ff02::1", "multicast"),
            ("10.0.0.1-", "want an IP address, or several"),
            ("10.0.0.0/x", "want an IP address, or several"),
            ("name", "want an IP address, or several"),
        ] {
            let told = text(given).unwrap_err();
            assert!(told.contains(part), "{given}: {told}");
        }
    }

    #[test]
    fn lists_ratios_and_pacing_are_read_and_refused() {
        assert_eq!(cores("0,2-3"), Ok(Cores(vec![0, 2, 3])));
        assert!(cores("3-1").is_err() && cores("").is_err() && cores("a").is_err());
        assert_eq!(ratio("0.1%"), Ok(0.001));
        assert!(ratio("NaN").is_err() && ratio("-1").is_err() && ratio("101%").is_err());
        assert_eq!(pacing("burst=32"), Ok(Pacing::Bursts(32)));
        assert!(pacing("burst=0").is_err() && pacing("x").is_err());
    }
}
