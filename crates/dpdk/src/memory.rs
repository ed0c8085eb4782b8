//! How much packet memory a run needs, and where it comes from.

use crate::Config;
use mpps_io::MAX_BURST;

/// Descriptors of a ring whose driver has no preference.
pub(crate) const RING: u16 = 1024;
/// Bytes of a buffer that hold a packet, at the least: drivers with a page of several buffers want this size.
const ROOM: usize = 2048;
/// Ethernet header and two tags beyond the MTU.
pub(crate) const L2_BYTES: usize = 14 + 4 + 4;
/// Header that virtio's driver counts with a packet (`virtio_net_hdr_mrg_rxbuf`), bytes.
const VIRTIO_HEADER: usize = 12;
/// Objects that a mempool's cache may hold (512 and half as many again), twice: the lane's and the main thread's.
const CACHED: usize = 2 * 768;
/// Head of an mbuf, of its mempool object, and its headroom, bytes.
const OVERHEAD: usize = 128 + 64 + 128;
/// Memory that DPDK itself needs, bytes: rings, queues, devices. Measured: 20 to 40 MiB with one to four ports.
const SLACK: usize = 96 << 20;

/// Buffers of one lane: both rings full (the transmit ring may be the other port's), the bursts that the lane holds,
/// and the caches.
pub(crate) fn mbufs(config: &Config, rx_ring: u16, tx_ring: u16) -> u32 {
    config.mbufs.unwrap_or_else(|| {
        let least =
            usize::from(rx_ring) + usize::from(tx_ring.max(crate::eal::longest_tx_ring())) + 4 * MAX_BURST + CACHED;
        // A mempool is cheapest at a power of two less one.
        (least.next_power_of_two() - 1) as u32
    })
}

/// Bytes of a buffer for packets over `mtu`.
pub(crate) fn room(mtu: u16) -> u16 {
    ROOM.max((usize::from(mtu) + L2_BYTES + VIRTIO_HEADER).next_multiple_of(64))
        .min(65_000) as u16
}

/// Memory for all lanes of the run, bytes, as far as it is known before a device is open.
pub(crate) fn needed(configs: &[&Config], lanes: usize) -> usize {
    let most = |ring: Option<u16>| ring.unwrap_or(2 * RING);
    let each = configs.iter().map(|config| {
        let mtu = config.mtu.or_else(|| interface_mtu(config)).unwrap_or(1500);
        let buffers = mbufs(config, most(config.rx_ring), most(config.tx_ring)) as usize;
        buffers * (usize::from(room(mtu)) + OVERHEAD)
    });
    each.max().unwrap_or(0) * lanes.max(1) + SLACK
}

/// MTU of the kernel's interface beneath the device.
pub(crate) fn interface_mtu(config: &Config) -> Option<u16> {
    let device = mpps_netdev::NetDev::by_name(config.interface()?).ok()?;
    u16::try_from(device.mtu).ok()
}

/// Bytes of free huge pages that a run with lanes on these cores can use. DPDK takes a lane's memory from the lane's
/// node, and its own from the node of the main thread if that has one; never from another. So of several nodes the one
/// with the fewest decides. Source: sysfs.
pub(crate) fn free_hugepages(cores: &[Option<usize>]) -> usize {
    let mut main: Vec<i32> = mpps_sys::sched::allowed_cores().into_iter().map(node_of_core).collect();
    main.dedup();
    let mut nodes: Vec<i32> = cores.iter().flatten().copied().map(node_of_core).collect();
    // DPDK takes a thread that may run on several nodes to be on none.
    nodes.extend(main.first().filter(|_| main.len() == 1));
    nodes.sort_unstable();
    nodes.dedup();
    nodes.retain(|node| *node >= 0);
    match nodes.len() {
        0 => free_below("/sys/kernel/mm/hugepages"),
        n => {
            let free = nodes
                .iter()
                .map(|node| free_below(&format!("/sys/devices/system/node/node{node}/hugepages")));
            free.min().unwrap_or(0) * n
        }
    }
}

/// Bytes of free huge pages of all sizes, by a folder that has one for each size.
fn free_below(folder: &str) -> usize {
    let sizes = std::fs::read_dir(folder).into_iter().flatten().flatten();
    sizes
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let kib: usize = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let free: usize = std::fs::read_to_string(entry.path().join("free_hugepages"))
                .ok()?
                .trim()
                .parse()
                .ok()?;
            Some((free * kib) << 10)
        })
        .sum()
}

/// Returns the bytes that this process may still take, by the host and by its control groups; `None` if not known.
pub(crate) fn available() -> Option<usize> {
    mpps_sys::memory::available().map(|available| available.bytes as usize)
}

/// NUMA node of a core; -1 (any) if it is not known. Source: sysfs.
pub(crate) fn node_of_core(core: usize) -> i32 {
    let entries = std::fs::read_dir(format!("/sys/devices/system/cpu/cpu{core}"))
        .into_iter()
        .flatten()
        .flatten();
    let mut nodes = entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("node")?.parse().ok());
    nodes.next().unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        crate::check(&text.parse().expect("a port")).expect("valid")
    }

    #[test]
    fn a_lanes_buffers_outnumber_what_rings_bursts_and_caches_can_hold() {
        for ring in [32, 1024, 4096, 32_768] {
            let n = mbufs(&config("dpdk:net_null0"), ring, ring);
            assert!(
                n as usize >= 2 * usize::from(ring) + 4 * MAX_BURST + CACHED,
                "{ring}: {n}"
            );
            assert!((n + 1).is_power_of_two(), "{ring}: {n}");
        }
        assert_eq!(mbufs(&config("dpdk:net_null0,mbufs=5000"), 1024, 1024), 5000);
    }

    #[test]
    fn a_buffer_holds_the_mtu_with_two_tags() {
        assert_eq!(room(1500), 2048);
        for mtu in [2026, 2027, 9000, 65_000] {
            assert!(
                usize::from(room(mtu)) >= (usize::from(mtu) + L2_BYTES + VIRTIO_HEADER).min(65_000),
                "{mtu}"
            );
        }
    }

    #[test]
    fn more_lanes_and_longer_frames_need_more_memory() {
        let small = config("dpdk:net_null0");
        let large = config("dpdk:net_null0,mtu=9000");
        assert!(needed(&[&small], 4) > needed(&[&small], 1));
        assert!(needed(&[&large], 1) > needed(&[&small], 1));
    }
}
