//! The user's settings, checked: address and the options that all paths over sockets have. Opens nothing.

use mpps_io::{PortSpec, Roles, RxTime, SpecError, SpecOptions};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// UDP port that a listener takes when none is given.
pub const DEFAULT_PORT: u16 = 9000;

/// File descriptors left to the rest of the program when the number of sockets is capped.
const SPARE_DESCRIPTORS: usize = 64;

/// Settings of a port over sockets, checked and ready to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Local address; `None` when none was given: loopback for listeners, the source address for senders.
    pub address: Option<IpAddr>,
    /// Interface that a link-local address is on, if it was written: `fe80::1%eth1`.
    pub zone: Option<String>,
    /// UDP port to listen on, 1 to 65535; `None` when none was given ([`DEFAULT_PORT`]).
    pub port: Option<u16>,
    /// Receive buffer a socket, bytes of payload and overhead; `None`: chosen by the number of sockets.
    pub rcvbuf: Option<usize>,
    /// Send buffer a socket, bytes; `None`: chosen.
    pub sndbuf: Option<usize>,
    /// `SO_BUSY_POLL` in µs; `None`: the system's setting.
    pub busy_poll: Option<u32>,
    /// Send runs of equal datagrams as one segmented packet (`UDP_SEGMENT`).
    pub gso: bool,
    /// Receive coalesced packets and split them (`UDP_GRO`).
    pub gro: bool,
    /// Most sockets (flows) of one lane.
    pub sockets: usize,
    /// `rx_time=`.
    pub rx_time: RxTime,
}

impl Config {
    /// Whether the kernel takes times of arrival.
    pub fn timed(&self) -> bool {
        self.rx_time == RxTime::Kernel
    }

    /// Reads `[ADDR[:PORT]]` and the options that every path over sockets has, and leaves the others in `options`:
    /// `rcvbuf=BYTES` and `sndbuf=BYTES` (suffix K or M; default by need), `gso=on|off`, `gro=on|off` (default off),
    /// `sockets=N` (most flows a lane; default 256), `rx_time=lane|kernel` (default lane).
    ///
    /// # Errors
    /// One line that names what was wrong and what would be right.
    pub fn read(spec: &PortSpec, options: &mut SpecOptions<'_>) -> Result<Self, SpecError> {
        let (device, zone) = split_zone(&spec.device);
        let (address, port) = parse_device(&device).map_err(|want| SpecError(format!("port '{spec}': {want}")))?;
        if zone.is_some() && !address.is_some_and(is_link_local) {
            return Err(SpecError(format!(
                "port '{spec}': only link-local addresses (fe80::) are of one interface: want it without %"
            )));
        }
        let size = "a size from 2K to 1024M, such as 4M, 512K or 65536";
        Ok(Self {
            address,
            zone,
            port,
            rcvbuf: options.get("rcvbuf", size, parse_size)?,
            sndbuf: options.get("sndbuf", size, parse_size)?,
            busy_poll: None,
            gso: options.switch("gso")?.unwrap_or(false),
            gro: options.switch("gro")?.unwrap_or(false),
            sockets: options.number("sockets", 1..=65_536)?.unwrap_or(256) as usize,
            rx_time: options.rx_time()?.unwrap_or_default(),
        })
    }

    /// Most flows that [`crate::Mode::Connected`] can have with these lanes: `sockets` for each lane that transmits
    /// (or receives, if those are fewer), and no more than `RLIMIT_NOFILE` leaves room for. At least 1.
    pub fn max_flows(&self, roles: &[Roles]) -> usize {
        let lanes = |role: fn(&Roles) -> bool| Some(roles.iter().filter(|r| role(r)).count()).filter(|&n| n > 0);
        let (tx, rx) = (lanes(|r| r.tx), lanes(|r| r.rx));
        let lanes = tx.unwrap_or(usize::MAX).min(rx.unwrap_or(usize::MAX));
        let lanes = if lanes == usize::MAX { 1 } else { lanes };
        let descriptors = crate::descriptor_limit().saturating_sub(SPARE_DESCRIPTORS);
        self.sockets.saturating_mul(lanes).min(descriptors).max(1)
    }
}

/// An address without the interface behind its `%`, and that interface.
fn split_zone(device: &str) -> (String, Option<String>) {
    let Some((address, rest)) = device.split_once('%') else {
        return (device.to_owned(), None);
    };
    let (zone, port) = rest.split_at(rest.find(']').unwrap_or(rest.len()));
    (format!("{address}{port}"), Some(zone.to_owned()))
}

/// Whether an address is known on one link only.
pub fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// `""`, `ADDR`, `ADDR:PORT`, `[V6]`, `[V6]:PORT`. The error says what would be right.
fn parse_device(device: &str) -> Result<(Option<IpAddr>, Option<u16>), String> {
    if device.is_empty() {
        return Ok((None, None));
    }
    let (address, port) = if let Ok(ip) = device.parse::<IpAddr>() {
        (ip, None)
    } else if let Ok(address) = device.parse::<SocketAddr>() {
        if matches!(address, SocketAddr::V6(a) if a != SocketAddrV6::new(*a.ip(), a.port(), 0, 0)) {
            return Err(format!("address '{device}': want it without a scope"));
        }
        (address.ip(), Some(address.port()))
    } else if let Some(ip) = device
        .strip_prefix('[')
        .and_then(|d| d.strip_suffix(']')?.parse::<Ipv6Addr>().ok())
    {
        (IpAddr::V6(ip), None)
    } else {
        let port = device.strip_prefix("*:").or(device.strip_prefix(':')).unwrap_or(device);
        let port = port.parse::<u16>().unwrap_or(DEFAULT_PORT);
        return Err(format!(
            "address '{device}': want an IP address, with or without a port, such as 10.99.0.1, 10.99.0.1:{port} or \
             [fd00::1]:{port}; 0.0.0.0:{port} is all IPv4 addresses of this host, [::]:{port} all addresses"
        ));
    };
    // An IPv4 address that is written as an IPv6 one is IPv4, as in the packets.
    let address = address.to_canonical();
    if port == Some(0) {
        return Err(format!("address '{device}': port 0: want 1 to 65535"));
    }
    if address.is_multicast() || address == IpAddr::from([255; 4]) {
        return Err(format!(
            "address '{device}': want an address of this host, not multicast or broadcast"
        ));
    }
    Ok((Some(address), port))
}

/// Bytes with an optional suffix K or M (1024, 1024²); `None` when it is none or out of range.
fn parse_size(text: &str) -> Option<usize> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1usize << 10),
        b'm' | b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let bytes = digits.parse::<usize>().ok()?.checked_mul(unit)?;
    (2048..=1 << 30).contains(&bytes).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Config, String> {
        let spec: PortSpec = text.parse().expect("spec");
        let mut options = spec.take_options();
        let config = Config::read(&spec, &mut options).map_err(|e| e.0)?;
        options.finish().map_err(|e| e.0)?;
        Ok(config)
    }

    #[test]
    fn every_form_of_address_is_understood() {
        let of = |text| {
            parse(text)
                .map(|c| (c.address.map(|a| a.to_string()), c.port))
                .expect(text)
        };
        assert_eq!(of("udp:"), (None, None));
        assert_eq!(of("udp:gso=on"), (None, None));
        assert_eq!(of("udp:10.0.0.1"), (Some("10.0.0.1".into()), None));
        assert_eq!(of("udp:10.0.0.1:9001,gro=on"), (Some("10.0.0.1".into()), Some(9001)));
        assert_eq!(of("udp:fd00::1"), (Some("fd00::1".into()), None));
        assert_eq!(of("udp:[fd00::1]"), (Some("fd00::1".into()), None));
        assert_eq!(of("udp:[fd00::1]:9000"), (Some("fd00::1".into()), Some(9000)));
        assert_eq!(of("udp:[::ffff:10.0.0.1]:9000"), (Some("10.0.0.1".into()), Some(9000)));
        assert_eq!(of("udp:[fe80::1%eth1]:9000"), (Some("fe80::1".into()), Some(9000)));
        assert_eq!(of("udp:fe80::1%eth1"), (Some("fe80::1".into()), None));
        assert_eq!(
            parse("udp:[fe80::1%eth1.5]").expect("valid").zone.as_deref(),
            Some("eth1.5")
        );
    }

    #[test]
    fn options_are_taken() {
        let c = parse("udp:127.0.0.1,rcvbuf=4M,sndbuf=512K,gso=on,gro=off,sockets=7").expect("valid");
        assert_eq!(
            (c.rcvbuf, c.sndbuf, c.busy_poll),
            (Some(4 << 20), Some(512 << 10), None)
        );
        assert_eq!((c.gso, c.gro, c.sockets), (true, false, 7));
        for (words, taken_by) in [
            ("sndbuf=4M", RxTime::Lane),
            ("rx_time=lane", RxTime::Lane),
            ("rx_time=off", RxTime::Lane),
            ("rx_time=kernel", RxTime::Kernel),
            ("rx_time=on", RxTime::Kernel),
        ] {
            assert_eq!(
                parse(&format!("udp:{words}")).expect(words).rx_time,
                taken_by,
                "{words}"
            );
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            ("udp:eth1", "want an IP address"),
            ("udp:9001", "0.0.0.0:9001"),
            ("udp:[fd00::1%eth1]:9000", "only link-local addresses"),
            ("udp:10.0.0.1:0", "port 0"),
            ("udp:10.0.0.1:70000", "want an IP address"),
            ("udp:224.0.0.1", "multicast"),
            ("udp:10.0.0.1,rcvbuf=1", "rcvbuf=1: want a size"),
            ("udp:10.0.0.1,rcvbuf=+4096", "want a size"),
            ("udp:10.0.0.1,sndbuf=4G", "want a size"),
            ("udp:10.0.0.1,gso=maybe", "gso=maybe: want on or off"),
            ("udp:10.0.0.1,sockets=0", "sockets=0"),
            ("udp:10.0.0.1,queues=2", "unknown option 'queues'"),
            ("udp:10.0.0.1,rx_time=now", "rx_time=now: want lane or kernel"),
            (
                "udp:10.0.0.1,rx_time=hardware",
                "rx_time=hardware: no clock of a card is read by this path yet: want kernel or lane",
            ),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(named), "{text}: {error}");
            assert!(!error.contains('\n'));
        }
    }

    #[test]
    fn flows_are_capped_by_the_sockets_of_the_lanes_that_share_them() {
        let mut c = parse("udp:127.0.0.1,sockets=3").expect("valid");
        let both = Roles { rx: true, tx: true };
        let (rx, tx) = (Roles { rx: true, tx: false }, Roles { rx: false, tx: true });
        assert_eq!(c.max_flows(&[both, both]), 6);
        assert_eq!(c.max_flows(&[tx, rx, rx]), 3);
        assert_eq!(c.max_flows(&[tx, tx]), 6);
        c.sockets = 1 << 40;
        assert!(c.max_flows(&[both]) < 1 << 40);
    }

    proptest! {
        #[test]
        fn no_device_makes_the_parser_panic(device in ".*") {
            let _ = parse_device(&split_zone(&device).0);
            let _ = parse_size(&device);
        }

        #[test]
        fn every_socket_address_is_taken_back(v4: [u8; 4], v6: [u8; 16], port in 1u16..) {
            for ip in [IpAddr::from(v4), IpAddr::from(v6)] {
                prop_assume!(!ip.is_multicast() && ip != IpAddr::from([255; 4]));
                prop_assert_eq!(parse_device(&SocketAddr::new(ip, port).to_string()), Ok((Some(ip), Some(port))));
                prop_assert_eq!(parse_device(&ip.to_string()), Ok((Some(ip), None)));
            }
        }
    }
}
