//! The options of a `dpdk` port, parsed before anything is opened.
//!
//! DPDK's devargs are written as the port itself: `dpdk:net_memif0,role=client`. Options that mpps knows
//! ([`OWN`]) are its own; all others go to the driver as they are.

mod drivers;

use mpps_io::{PortSpec, SpecError};
use std::ops::RangeInclusive;
use std::time::Duration;

/// The options that mpps takes; the driver gets the others.
pub const OWN: [&str; 8] = ["rxd", "txd", "mbufs", "mtu", "rss", "csum", "promisc", "link_wait"];

/// How long senders wait for the link, if not said otherwise.
pub const LINK_WAIT: Duration = Duration::from_secs(10);

/// Which device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// A virtual device by the name of its driver and a number: `net_memif0`.
    Vdev(String),
    /// A PCI device by its address, in full: `0000:03:00.0`.
    Pci(String),
    /// Whichever device has this MAC address: on buses without addresses of their own (VMBus).
    Mac([u8; 6]),
}

/// Which fields of a packet the device hashes to choose the receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rss {
    /// Addresses and UDP ports, or what the device offers of it; nothing if it offers nothing.
    Auto,
    /// Addresses and UDP ports, or refuse to open.
    Udp,
    /// Addresses only, or refuse to open.
    Ip,
    /// No RSS: the device's own choice of queue.
    Off,
}

/// Choice of who computes checksums of generated packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// The device if it is hardware that offers it, else mpps.
    Auto,
    /// mpps.
    Software,
    /// The device, or refuse to open.
    Device,
}

/// A parsed `dpdk:DEVARGS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Name of the port, as the user wrote it.
    pub name: String,
    /// The device.
    pub device: Device,
    /// Options for the driver, in the order written.
    pub driver_args: Vec<(String, String)>,
    /// `rxd=`: descriptors of a receive ring; `None`: what the driver prefers, else 1024.
    pub rx_ring: Option<u16>,
    /// `txd=`: descriptors of a transmit ring; `None`: what the driver prefers, else 1024.
    pub tx_ring: Option<u16>,
    /// `mbufs=`: packet buffers per lane; `None`: from rings and bursts.
    pub mbufs: Option<u32>,
    /// `mtu=`; `None`: the device's own.
    pub mtu: Option<u16>,
    /// `rss=`.
    pub rss: Rss,
    /// `csum=`.
    pub checksum: Checksum,
    /// `promisc=`; `None`: as the workload needs.
    pub promisc: Option<bool>,
    /// `link_wait=`: how long senders wait for the link, s.
    pub link_wait: Duration,
}

impl Config {
    /// The driver's name: `net_memif` of `net_memif0`; empty if only the device itself knows.
    pub fn driver(&self) -> &str {
        driver(&self.device)
    }

    /// Whether it is a virtual device: on no bus that is scanned, and no hardware.
    pub fn is_virtual(&self) -> bool {
        matches!(self.device, Device::Vdev(_))
    }

    /// The device with its options, as DPDK wants them.
    pub fn devargs(&self) -> String {
        let mut text = match &self.device {
            Device::Vdev(name) => name.clone(),
            Device::Pci(address) => address.clone(),
            Device::Mac(_) => String::new(),
        };
        for (key, value) in &self.driver_args {
            text += &format!(",{key}={value}");
        }
        text
    }

    /// Whether it is the end of a memif that connects to the other (`role=`, a client if it is not given).
    pub fn is_memif_client(&self) -> bool {
        let role = self.driver_arg("role");
        self.driver() == "net_memif" && role.is_none_or(|role| role != "server" && role != "master")
    }

    /// Returns whether the port is a memif's server whose socket is a file, which it removes at its end: always, unless
    /// the user asked for a name without a file.
    pub(crate) fn makes_socket_file(&self) -> bool {
        let kind = self.driver_arg("socket-abstract");
        let ours = self.driver_arg("socket").is_none() && kind != Some("yes");
        self.driver() == "net_memif" && !self.is_memif_client() && (ours || kind == Some("no"))
    }

    /// Whether it is a `net_vhost` that makes its socket and removes it at its end, rather than a client of one.
    pub(crate) fn is_vhost_server(&self) -> bool {
        self.driver() == "net_vhost" && self.driver_arg("client").is_none_or(|client| client == "0")
    }

    /// A driver's option, as it was written.
    pub(crate) fn driver_arg(&self, name: &str) -> Option<&str> {
        let found = self.driver_args.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The kernel's interface under the device, if there is one: `iface=` of `net_af_packet` and `net_af_xdp`.
    pub fn interface(&self) -> Option<&str> {
        let under = matches!(self.driver(), "net_af_packet" | "net_af_xdp");
        self.driver_arg("iface").filter(|_| under)
    }
}

/// Parses the specification; opens nothing.
///
/// # Errors
/// When the device is none that DPDK could have, or an option's value is wrong.
pub fn check(spec: &PortSpec) -> Result<Config, SpecError> {
    let device = device(spec)?;
    let driver = driver(&device);
    drivers::check_names(spec, driver)?;
    let mut options = spec.take_options();
    let rx_ring = options.number("rxd", 32..=32_768)?.map(|n| n as u16);
    let tx_ring = options.number("txd", 32..=32_768)?.map(|n| n as u16);
    drivers::check_rings(spec, driver)?;
    let mbufs = options.number("mbufs", 1_024..=16_777_216)?.map(|n| n as u32);
    let mtu = options.number("mtu", 68..=65_000)?.map(|n| n as u16);
    let rss = options.get("rss", "auto, udp, ip or off", |v| match v {
        "auto" => Some(Rss::Auto),
        "udp" => Some(Rss::Udp),
        "ip" => Some(Rss::Ip),
        "off" => Some(Rss::Off),
        _ => None,
    })?;
    let checksum = options.get("csum", "auto, software or device", |v| match v {
        "auto" => Some(Checksum::Auto),
        "software" => Some(Checksum::Software),
        "device" => Some(Checksum::Device),
        _ => None,
    })?;
    let promisc = options.switch("promisc")?;
    let link_wait = options.number("link_wait", 0..=3_600)?;
    let driver_args = drivers::arguments(spec, &device, driver)?;
    Ok(Config {
        name: spec.to_string(),
        device,
        driver_args,
        rx_ring,
        tx_ring,
        mbufs,
        mtu,
        rss: rss.unwrap_or(Rss::Auto),
        checksum: checksum.unwrap_or(Checksum::Auto),
        promisc,
        link_wait: link_wait.map_or(LINK_WAIT, Duration::from_secs),
    })
}

/// Drivers of virtual devices. A device belongs to the driver whose name its own begins with.
/// Source: `vdev_parse` of DPDK's bus driver.
const VIRTUAL: [&str; 14] = [
    "net_af_packet",
    "net_af_xdp",
    "net_bonding",
    "net_failsafe",
    "net_memif",
    "net_null",
    "net_pcap",
    "net_ring",
    "net_softnic",
    "net_tap",
    "net_tun",
    "net_vdev_netvsc",
    "net_vhost",
    "net_virtio_user",
];

fn driver(device: &Device) -> &str {
    match device {
        Device::Vdev(name) => match VIRTUAL.into_iter().find(|driver| name.starts_with(driver)) {
            Some(driver) => driver,
            None => name.trim_end_matches(|c: char| c.is_ascii_digit()),
        },
        Device::Pci(_) | Device::Mac(_) => "",
    }
}

fn device(spec: &PortSpec) -> Result<Device, SpecError> {
    let text = spec.device.as_str();
    if text.is_empty()
        && let Some((_, mac)) = spec.options.iter().find(|(key, _)| key == "mac")
    {
        let found = mac_address(mac);
        return found.map(Device::Mac).ok_or_else(|| {
            SpecError(format!(
                "port '{spec}': mac={mac}: want six pairs of hexadecimal digits, 02:00:00:00:00:01"
            ))
        });
    }
    if let Some(address) = pci_address(text) {
        return Ok(Device::Pci(address));
    }
    let vdev = text.strip_prefix("net_");
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if vdev.is_some_and(|rest| !rest.is_empty() && rest.chars().all(plain)) && text.len() < 64 {
        return Ok(Device::Vdev(text.to_owned()));
    }
    Err(SpecError(format!(
        "port '{spec}': device '{text}': want a virtual device (net_memif0, net_af_packet0,iface=eth1), a PCI address \
         (0000:03:00.0) or mac=MAC"
    )))
}

/// `03:00.0` or `0000:03:00.0`, completed and in small letters.
fn pci_address(text: &str) -> Option<String> {
    let (head, function) = text.rsplit_once('.')?;
    let parts: Vec<&str> = head.split(':').collect();
    let (domain, bus, device) = match parts[..] {
        [bus, device] => ("0000", bus, device),
        [domain, bus, device] => (domain, bus, device),
        _ => return None,
    };
    let hex = |part: &str, digits: RangeInclusive<usize>| {
        digits.contains(&part.len()) && part.chars().all(|c| c.is_ascii_hexdigit())
    };
    let whole = hex(domain, 4..=8)
        && hex(bus, 2..=2)
        && hex(device, 2..=2)
        && matches!(function, "0" | "1" | "2" | "3" | "4" | "5" | "6" | "7");
    whole.then(|| format!("{domain}:{bus}:{device}.{function}").to_ascii_lowercase())
}

fn mac_address(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, SpecError> {
        check(&text.parse()?)
    }

    #[test]
    fn values_that_a_driver_does_not_take_are_refused_with_those_that_it_does() {
        for (option, wanted) in [
            ("role=foo", "server or client"),
            ("zero-copy=on", "yes or no"),
            ("socket-abstract=1", "yes or no"),
            ("id=-1", "4294967295"),
            ("rsize=15", "1 to 14"),
            ("rsize=0", "1 to 14"),
            ("bsize=65536", "65535"),
            ("bsize=0", "1 to 65535"),
        ] {
            let error = parse(&format!("dpdk:net_memif0,{option}"))
                .expect_err(option)
                .to_string();
            assert!(error.contains(option) && error.contains(wanted), "{error}");
        }
        let right = "dpdk:net_memif0,role=slave,id=7,rsize=14,bsize=2048,zero-copy=no,socket-abstract=no,socket=/run/x";
        assert!(parse(right).is_ok());
    }

    #[test]
    fn the_value_of_an_option_that_memif_lacks_is_in_no_line() {
        for options in [
            "Secret=swordfish",
            "sekrit=swordfish,role=foo",
            "role=foo,key=swordfish",
            "key=swordfish,rxd=1",
        ] {
            let error = parse(&format!("dpdk:net_memif0,{options}"))
                .expect_err(options)
                .to_string();
            assert!(!error.contains("swordfish"), "{error}");
            assert!(error.contains("no such option") && error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn whatever_follows_a_drivers_name_is_a_device_of_that_driver() {
        for (device, driver) in [
            ("net_memif0", "net_memif"),
            ("net_memiff0", "net_memif"),
            ("net_memif_a-b", "net_memif"),
            ("net_af_packet-x", "net_af_packet"),
            ("net_virtio_user7", "net_virtio_user"),
            ("net_other12", "net_other"),
        ] {
            assert_eq!(parse(&format!("dpdk:{device}")).expect(device).driver(), driver);
        }
    }

    #[test]
    fn devices_are_told_apart_and_the_drivers_options_kept_in_order() {
        let memif = parse("dpdk:net_ring0,role=client,rxd=512,socket=/tmp/s").expect("valid");
        assert_eq!(memif.device, Device::Vdev("net_ring0".into()));
        assert_eq!((memif.driver(), memif.rx_ring), ("net_ring", Some(512)));
        assert_eq!(memif.devargs(), "net_ring0,role=client,socket=/tmp/s");
        let pci = parse("dpdk:03:00.1").expect("valid");
        assert_eq!(pci.device, Device::Pci("0000:03:00.1".into()));
        let long = parse("dpdk:0000:AF:00.0,mprq_en=1").expect("valid");
        assert_eq!(long.devargs(), "0000:af:00.0,mprq_en=1");
        let mac = parse("dpdk:mac=02:00:00:00:00:0a,csum=software").expect("valid");
        assert_eq!(
            (mac.device, mac.checksum),
            (Device::Mac([2, 0, 0, 0, 0, 10]), Checksum::Software)
        );
    }

    #[test]
    fn a_mac_option_of_a_virtual_device_is_its_drivers() {
        let tap = parse("dpdk:net_tap0,iface=tap0,mac=fixed").expect("valid");
        assert_eq!(tap.devargs(), "net_tap0,iface=tap0,mac=fixed");
        assert_eq!(tap.interface(), None);
        let packet = parse("dpdk:net_af_packet0,iface=eth1").expect("valid");
        assert_eq!(packet.interface(), Some("eth1"));
        assert_eq!(packet.devargs(), "net_af_packet0,iface=eth1,framecnt=4096");
        for own in ["framecnt=64", "framesz=16384,blocksz=16384"] {
            let packet = parse(&format!("dpdk:net_af_packet0,{own},iface=eth1")).expect("valid");
            assert_eq!(packet.devargs(), format!("net_af_packet0,{own},iface=eth1"));
        }
    }

    #[test]
    fn refusals_name_the_option_the_value_and_what_would_be_right() {
        for (text, parts) in [
            ("dpdk:", ["device ''", "net_memif0"]),
            ("dpdk:eth1", ["device 'eth1'", "PCI address"]),
            ("dpdk:net_", ["device 'net_'", "mac=MAC"]),
            ("dpdk:mac=02:00", ["mac=02:00", "six pairs"]),
            ("dpdk:mac=02:00:00:00:00:01,iface=x", ["'iface'", "rxd"]),
            ("dpdk:net_null0,rxd=1", ["rxd=1", "from 32 to 32768"]),
            ("dpdk:net_memif0,rxd=512", ["rxd=512", "rsize=N"]),
            ("dpdk:net_memif0,rolle=server", ["rolle=…", "role, id"]),
            ("dpdk:net_null0,sizee=60", ["sizee=60", "size, copy"]),
            ("dpdk:net_null0,size=99999", ["size=99999", "1 to 65535"]),
            ("dpdk:net_null0,size=abc", ["size=abc", "1 to 65535"]),
            ("dpdk:net_null0,rss=on", ["rss=on", "auto, udp, ip or off"]),
            ("dpdk:net_null0,csum=hw", ["csum=hw", "software"]),
            ("dpdk:net_null0,link_wait=x", ["link_wait=x", "3600"]),
            ("dpdk:0000:03:00.9", ["device '0000:03:00.9'", "PCI address"]),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(
                parts.iter().all(|p| error.contains(p)) && !error.contains('\n'),
                "{text}: {error}"
            );
        }
    }
}
