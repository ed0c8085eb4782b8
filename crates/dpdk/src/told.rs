//! What is told of a port: facts of one that is open, hints where one can't be made.

use crate::{Config, memory};
use dpdk_sys as sys;
use mpps_io::Fact;

/// How a virtual device gets more queues.
pub(crate) fn more_queues(config: &Config) -> &'static str {
    match config.driver() {
        "net_af_packet" => ", or qpairs=N in the port",
        "net_af_xdp" => ", or queue_count=N in the port",
        "net_virtio_user" => ", or queues=N in the port",
        _ => "",
    }
}

/// What most often is missing where a virtual device can't be made.
pub(crate) fn hint(config: &Config, cause: String) -> String {
    let missing = |path: &str| !std::path::Path::new(path).exists();
    let no_interface = |name: &str| missing(&format!("/sys/class/net/{name}"));
    // Numbers of `<linux/capability.h>`.
    let (admin, raw, bpf) = (lacks(12), lacks(13), lacks(39));
    let hint = match config.driver() {
        _ if cause.contains("failed to parse device") => {
            "DPDK has no driver of this name: is it spelled right, and installed? (`mpps doctor` says where the drivers are)"
        }
        "net_af_packet" | "net_af_xdp" if config.interface().is_none() => {
            "want iface=NAME, such as net_af_packet0,iface=eth1"
        }
        "net_af_packet" | "net_af_xdp" if config.interface().is_some_and(no_interface) => "there is no such interface",
        "net_tap" | "net_virtio_user" if missing("/dev/net/tun") => "there is no /dev/net/tun: `modprobe tun`",
        "net_af_packet" if raw => "it needs CAP_NET_RAW: run as root, or setcap cap_net_raw+ep the program",
        "net_tap" | "net_virtio_user" if admin => {
            "it needs CAP_NET_ADMIN: run as root, or setcap cap_net_admin+ep the program"
        }
        "net_af_xdp" if admin || raw || bpf => "it needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF: run as root",
        "net_memif" if cause.contains("in use") => "another process listens there: want another socket=PATH",
        _ => "are the driver's options right, and is it installed? (`mpps doctor` says where the drivers are)",
    };
    format!("{hint} ({cause})")
}

pub(crate) fn facts(
    config: &Config,
    driver: &str,
    info: &sys::PortInfo,
    conf: &sys::PortConf,
    state: &sys::PortState,
    (up, promisc): (bool, bool),
    lanes: usize,
) -> Vec<Fact> {
    let on = |on: bool| if on { "on" } else { "off" }.to_owned();
    let by = |device: u8| if device != 0 { "device" } else { "software" }.to_owned();
    let mac: Vec<String> = info.mac.iter().map(|byte| format!("{byte:02x}")).collect();
    let list = [
        ("dpdk_version", crate::VERSION.unwrap_or_default().to_owned()),
        ("driver", driver.to_owned()),
        ("mac", mac.join(":")),
        ("mtu_bytes", state.mtu.to_string()),
        ("link", if up { "up" } else { "down at the start" }.to_owned()),
        ("rx_queues", conf.rx_queues.to_string()),
        ("tx_queues", conf.tx_queues.to_string()),
        ("rx_ring_descriptors", state.rx_ring.to_string()),
        ("tx_ring_descriptors", state.tx_ring.to_string()),
        (
            "mbufs_a_lane",
            memory::mbufs(config, conf.rx_ring, conf.tx_ring).to_string(),
        ),
        ("numa_node", info.socket.to_string()),
        ("checksums_by", by(conf.tx_checksum)),
        ("rx_checksums_by", by(conf.rx_checksum)),
        ("fast_free", on(conf.fast_free != 0)),
        ("promiscuous", on(promisc)),
        (
            "rss",
            if state.rss == 0 {
                "none".to_owned()
            } else {
                format!("{:#x}", state.rss)
            },
        ),
        ("lanes", lanes.to_string()),
    ];
    list.into_iter().map(|(name, value)| Fact { name, value }).collect()
}

/// Whether this process lacks capability `number`. Source: `/proc/self/status`; false where that can't be read.
fn lacks(number: u32) -> bool {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = text.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> number & 1 == 0)
}
