//! The arguments of `capture`.

use super::{Run, values};
use clap::Args;
use mpps_io::PortSpec;
use mpps_wire::CaptureProtocol;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// `capture`.
#[derive(Args, Debug, Clone)]
pub(crate) struct Capture {
    #[arg(value_name = "PORT", help = crate::paths::port_help(), value_parser = values::port)]
    pub(crate) port: PortSpec,
    /// Write the packets to FILE as pcapng ('-': standard output, for a pipe: | tshark -r -)
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Keep at most this many bytes of each packet, 1 to 262144
    #[arg(long, value_name = "BYTES", default_value = "262144", value_parser = snap_len, allow_hyphen_values = true)]
    pub(crate) snap_len: usize,
    /// Keep only packets from or to this address
    #[arg(long, value_name = "IP", value_parser = values::ip)]
    pub(crate) ip: Option<IpAddr>,
    /// Keep only UDP and TCP packets from or to these ports
    #[arg(long = "port", id = "ports", value_name = "A-B", value_parser = values::ports)]
    pub(crate) ports: Option<RangeInclusive<u16>>,
    /// Keep only packets of this protocol: udp, tcp, icmp (ICMPv6 too), arp, or an IP protocol's number
    #[arg(long, value_name = "PROTO", value_parser = protocol, allow_hyphen_values = true)]
    pub(crate) proto: Option<CaptureProtocol>,
    /// Which frames to take from the host (af_xdp): foreign (all but those for the host's own addresses), udp, all
    /// [default: those asked for by --ip, --port and --proto; else foreign]
    #[arg(long, value_name = "WHICH", value_parser = super::forward::take)]
    pub(crate) take: Option<super::Take>,
    /// Start a new file (FILE.1.pcapng, FILE.2.pcapng, …) before one grows larger than this: 100MB, 1GiB
    #[arg(long, value_name = "SIZE", value_parser = rotate_size, allow_hyphen_values = true)]
    pub(crate) rotate_size: Option<u64>,
    /// Keep the newest N files and remove older ones; needs --rotate-size
    #[arg(
        long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000),
        requires = "rotate_size", allow_hyphen_values = true
    )]
    pub(crate) max_files: Option<u64>,
    /// Stop after N packets
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), allow_hyphen_values = true)]
    pub(crate) count: Option<u64>,
    /// Memory per lane for packets not yet written, 1MiB to 16GiB: it bridges the pauses of a slow disk or reader
    #[arg(long, value_name = "SIZE", default_value = "32MiB", value_parser = buffer, allow_hyphen_values = true)]
    pub(crate) buffer: u64,
    #[command(flatten)]
    pub(crate) run: Run,
}

/// tcpdump's and Wireshark's largest.
const MAX_SNAP_LEN: usize = 262_144;

fn snap_len(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (1..=MAX_SNAP_LEN).contains(&n) => Ok(n),
        _ => Err(format!("want bytes of each packet to keep, 1 to {MAX_SNAP_LEN}")),
    }
}

fn protocol(text: &str) -> Result<CaptureProtocol, String> {
    match text {
        "udp" => Ok(CaptureProtocol::Ip(17)),
        "tcp" => Ok(CaptureProtocol::Ip(6)),
        "icmp" => Ok(CaptureProtocol::Icmp),
        "arp" => Ok(CaptureProtocol::Arp),
        _ => text
            .parse()
            .map(CaptureProtocol::Ip)
            .map_err(|_| "want udp, tcp, icmp, arp, or an IP protocol's number from 0 to 255".to_owned()),
    }
}

/// Bytes: a whole number with or without a unit.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale: u64 = match unit {
        "" | "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(scale)
}

fn within(text: &str, range: RangeInclusive<u64>, want: &str) -> Result<u64, String> {
    bytes(text)
        .filter(|n| range.contains(n))
        .ok_or_else(|| format!("want a size {want} (bytes, kB, MB, GB, KiB, MiB or GiB), such as 100MB"))
}

fn rotate_size(text: &str) -> Result<u64, String> {
    within(text, 1_000..=1 << 50, "from 1kB to 1PiB")
}

pub(super) fn buffer(text: &str) -> Result<u64, String> {
    within(text, 1 << 20..=16 << 30, "from 1MiB to 16GiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_decimal_and_binary_units_and_refused_otherwise() {
        assert_eq!(rotate_size("100MB"), Ok(100_000_000));
        assert_eq!(rotate_size("5000"), Ok(5000));
        assert_eq!(buffer("2MiB"), Ok(2 << 20));
        for bad in ["", "MB", "1.5MB", "-1", "10mb", "1e6", "999", "99999999999GiB"] {
            assert!(rotate_size(bad).is_err(), "{bad}");
        }
        assert!(buffer("1MB").is_err() && buffer("17GiB").is_err());
    }

    #[test]
    fn protocols_are_read_by_name_and_number() {
        assert_eq!(protocol("udp"), Ok(CaptureProtocol::Ip(17)));
        assert_eq!(protocol("89"), Ok(CaptureProtocol::Ip(89)));
        assert!(protocol("256").is_err() && protocol("UDP").is_err() && protocol("").is_err());
        assert!(snap_len("0").is_err() && snap_len("262145").is_err());
    }
}
