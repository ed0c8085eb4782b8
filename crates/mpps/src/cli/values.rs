//! Values of options: from text to type, with one line on what would be right.

use mpps_engine::Pacing;
use mpps_wire::MacAddr;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::time::Duration;

type Parsed<T> = Result<T, String>;

/// A list of cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cores(pub(crate) Vec<usize>);

/// A host and a port, or a range of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: Host,
    pub(crate) ports: RangeInclusive<u16>,
}

/// A host as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Ip(IpAddr),
    /// Resolved when the run is planned, once it is known which family it must be of.
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

/// What is wrong with a time, with a question where its unit is written in another case.
fn no_time(text: &str, want: &str) -> String {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(0);
    let (number, unit) = text.split_at(split);
    let like = TIME_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    match like.filter(|(name, _)| *name != unit && !number.is_empty()) {
        Some((name, _)) => format!("want {want}: did you mean {number}{name}?"),
        None => format!("want {want}"),
    }
}

/// A time in ns: a decimal number and a unit.
fn time_ns(text: &str) -> Option<u64> {
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

/// A run's length; 0 with or without unit is "until interrupted".
pub(crate) fn duration(text: &str) -> Parsed<Duration> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    match time_ns(text) {
        Some(0) => Ok(Duration::ZERO),
        Some(ns) if (1_000_000..=1000 * HOUR).contains(&ns) => Ok(Duration::from_nanos(ns)),
        _ => Err(no_time(
            text,
            "a time from 1ms to 1000h with its unit (us, ms, s, m, h), such as 10s, or 0",
        )),
    }
}

/// The length of the demo's run.
pub(crate) fn demo_duration(text: &str) -> Parsed<Duration> {
    time_within(
        text,
        1_000_000_000..=HOUR,
        "a time from 1s to 1h with its unit (s, m, h), such as 10s",
    )
}

/// A row's length.
pub(crate) fn interval(text: &str) -> Parsed<Duration> {
    time_within(
        text,
        100_000..=HOUR,
        "a time from 100us to 1h with its unit (us, ms, s, m, h), such as 100ms",
    )
}

/// The settle time.
pub(crate) fn settle(text: &str) -> Parsed<Duration> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    time_within(
        text,
        0..=60_000_000_000,
        "a time from 0 to 60s with its unit (us, ms, s, m), such as 1s",
    )
}

/// How long forwarded frames are held.
pub(crate) fn drain(text: &str) -> Parsed<Duration> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    time_within(
        text,
        0..=10_000_000,
        "a time from 0 to 10ms with its unit (us, ms), such as 100us",
    )
}

/// The catch-up limit.
pub(crate) fn catch_up(text: &str) -> Parsed<Duration> {
    time_within(
        text,
        1_000..=10_000_000_000,
        "a time from 1us to 10s with its unit (us, ms, s), such as 1ms",
    )
}

fn whole<T: std::str::FromStr + PartialOrd + std::fmt::Display>(text: &str, range: RangeInclusive<T>) -> Parsed<T> {
    match text.parse::<T>() {
        Ok(n) if range.contains(&n) => Ok(n),
        _ => Err(format!("want a whole number from {} to {}", range.start(), range.end())),
    }
}

pub(crate) fn lanes(text: &str) -> Parsed<usize> {
    whole(text, 1..=128)
}

pub(crate) fn burst(text: &str) -> Parsed<usize> {
    whole(text, 1..=mpps_io::MAX_BURST)
}

pub(crate) fn vlan(text: &str) -> Parsed<u16> {
    whole(text, 1..=4094)
}

pub(crate) fn flows(text: &str) -> Parsed<u32> {
    whole(text, 1..=4_000_000)
}

pub(crate) fn payload_size(text: &str) -> Parsed<usize> {
    whole(text, 16..=65_507).map_err(|want| format!("{want}: a payload holds a stamp of 16 bytes at least"))
}

pub(crate) fn frame_size(text: &str) -> Parsed<usize> {
    whole(text, 64..=65_553)
}

/// 0.001 or 0.1%.
pub(crate) fn ratio(text: &str) -> Parsed<f64> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |n| (n, 0.01));
    match number.trim().parse::<f64>() {
        Ok(n) if (0.0..=1.0).contains(&(n * scale)) => Ok(n * scale),
        _ => Err("want a ratio from 0 to 1, such as 0.001 or 0.1%".to_owned()),
    }
}

pub(crate) fn ip(text: &str) -> Parsed<IpAddr> {
    text.parse()
        .map_err(|_| "want an IP address, such as 10.99.0.1 or fd99::1".to_owned())
}

pub(crate) fn mac(text: &str) -> Parsed<MacAddr> {
    match text.parse::<MacAddr>() {
        Ok(mac) if mac.is_unicast() => Ok(mac),
        _ => Err("want the MAC address of one station, such as 02:00:00:00:00:01".to_owned()),
    }
}

/// One port, or two with a dash.
pub(crate) fn ports(text: &str) -> Parsed<RangeInclusive<u16>> {
    const WANT: &str = "want a port or a range of ports from 1 to 65535, such as 9000 or 10000-30000";
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse::<u16>(), last.parse::<u16>()) {
        (Ok(0), _) | (_, Ok(0)) | (Err(_), _) | (_, Err(_)) => Err(WANT.to_owned()),
        (Ok(first), Ok(last)) if first > last => Err(format!("the range is reversed: want {last}-{first}")),
        (Ok(first), Ok(last)) => Ok(first..=last),
    }
}

/// HOST:PORT, IP:PORT, [IPv6]:PORT, each with a range of ports.
pub(crate) fn target(text: &str) -> Parsed<Target> {
    const WANT: &str = "want IP:PORT or NAME:PORT, such as 10.99.0.2:9000, [fd99::2]:9000 or server:9000";
    let (host, port_text) = text.rsplit_once(':').ok_or(WANT)?;
    let host = if let Some(v6) = host.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        Host::Ip(v6.parse::<Ipv6Addr>().map(IpAddr::V6).map_err(|_| WANT)?)
    } else if let Ok(v4) = host.parse::<std::net::Ipv4Addr>() {
        Host::Ip(v4.into())
    } else if is_host_name(host) {
        Host::Name(host.to_owned())
    } else {
        return Err(WANT.to_owned());
    };
    if matches!(host, Host::Ip(ip) if !is_one_host(ip)) {
        return Err("want the address of one host".to_owned());
    }
    Ok(Target {
        host,
        ports: ports(port_text)?,
    })
}

/// Whether an address can be one host's.
pub(crate) fn is_one_host(ip: IpAddr) -> bool {
    !(ip.is_multicast() || ip.is_unspecified() || ip == IpAddr::V4(std::net::Ipv4Addr::BROADCAST))
}

/// Whether a text can be the name of a host (RFC 1123, section 2.1; underscores, which some have, too). A name whose last
/// part is a number is a mistyped address.
fn is_host_name(text: &str) -> bool {
    let name = text.strip_suffix('.').unwrap_or(text);
    let label = |label: &str| {
        let inside = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        !label.is_empty() && label.len() <= 63 && label.chars().all(inside) && !label.starts_with('-')
    };
    let last = name.rsplit('.').next().unwrap_or(name);
    name.len() <= 253 && name.split('.').all(label) && !last.chars().all(|c| c.is_ascii_digit())
}

pub(crate) fn cores(text: &str) -> Parsed<Cores> {
    let want = || "want cores by number, such as 0,2-3".to_owned();
    let mut list = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.parse::<usize>(), last.parse::<usize>()) {
            (Ok(first), Ok(last)) if first <= last && last < 1024 => list.extend(first..=last),
            _ => return Err(want()),
        }
    }
    Ok(Cores(list))
}

pub(crate) fn pacing(text: &str) -> Parsed<Pacing> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_units_and_refused_without() {
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(interval("100us"), Ok(Duration::from_micros(100)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for bad in ["10", "s", "", "-1s", "1x", "NaNs", "infs", ".5s", "1e3s", "1us"] {
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
            Host::Ip("fd99::2".parse().unwrap())
        );
        assert_eq!(target("10.0.0.1:9000-9004").unwrap().ports, 9000..=9004);
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
        ] {
            assert!(target(bad).is_err(), "{bad}");
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
