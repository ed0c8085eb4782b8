//! Values of the options of `capture`.

use mpps_wire::CaptureProtocol;
use std::ops::RangeInclusive;

/// Largest snap length of tcpdump and Wireshark, bytes.
const MAX_SNAP_LEN: usize = 262_144;

/// Parses the most bytes kept of a packet; 0: all.
pub fn snap_len(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (1..=MAX_SNAP_LEN).contains(&n) => Ok(n),
        _ => Err(format!("want bytes of each packet to keep, 1 to {MAX_SNAP_LEN}")),
    }
}

/// Parses the name of a protocol.
pub fn protocol(text: &str) -> Result<CaptureProtocol, String> {
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

/// Parses a number of bytes: a whole number with or without a unit.
pub fn bytes(text: &str) -> Option<u64> {
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

/// Parses the size at which the next file begins, bytes.
pub fn rotate_size(text: &str) -> Result<u64, String> {
    within(text, 1_000..=1 << 50, "from 1kB to 1PiB")
}

/// Parses the memory of a lane for packets, bytes.
pub fn buffer(text: &str) -> Result<u64, String> {
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
