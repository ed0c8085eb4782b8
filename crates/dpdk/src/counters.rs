//! Counters of lanes and of the device.

use dpdk_sys as sys;
use mpps_io::QueueCounters;
use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};

/// Counters of one lane's queue; each is written by the lane alone.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct LaneCounts {
    /// Packets received, for the spread over queues.
    pub(crate) rx: AtomicU64,
    /// Packets that the driver said it will never send.
    pub(crate) refused: AtomicU64,
}

impl LaneCounts {
    /// Adds to a counter with a single writer.
    #[inline]
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }
}

/// Most extended statistics that are looked at.
const XSTATS: usize = 1024;

/// Drivers that count one packet as an error several times: each time they have no room for it, though the sender keeps
/// it, or (`net_af_packet`) each time the kernel does not take it from the ring, though it stays there until the kernel
/// does.
const COUNTS_RETRIES: [&str; 6] = [
    "net_memif",
    "net_ring",
    "net_tap",
    "net_af_xdp",
    "net_af_packet",
    "net_vhost",
];

/// The device's counters. The device does not count per lane, so the first lane alone reports them.
pub(crate) fn of_device(port: u16, driver: &str) -> QueueCounters {
    let mut stats = sys::PortStats::default();
    // SAFETY: the port is open, and the structure is ours.
    if unsafe { sys::mpps_port_stats(port, &mut stats) } < 0 {
        return QueueCounters::default();
    }
    let retries = COUNTS_RETRIES.iter().any(|name| driver.starts_with(name));
    let mut counters = QueueCounters {
        rx_dropped: stats.imissed,
        tx_failed: if retries { 0 } else { stats.oerrors },
        other: vec![
            ("dpdk_imissed", stats.imissed),
            ("dpdk_ierrors", stats.ierrors),
            ("dpdk_oerrors", stats.oerrors),
            ("dpdk_rx_nombuf", stats.rx_nombuf),
        ],
    };
    // A memif forgets what it counted with its peer.
    if !driver.starts_with("net_memif") {
        let packets = [("dpdk_ipackets", stats.ipackets), ("dpdk_opackets", stats.opackets)];
        counters.other.extend(packets);
    }
    counters.other.extend(troubles(port));
    counters
}

/// Packets that the device had no room for (`imissed`).
pub(crate) fn missed(port: u16) -> u64 {
    let mut stats = sys::PortStats::default();
    // SAFETY: the port is open, and the structure is ours.
    match unsafe { sys::mpps_port_stats(port, &mut stats) } {
        0.. => stats.imissed,
        _ => 0,
    }
}

/// Returns the driver's own statistics that show trouble and are not zero.
fn troubles(port: u16) -> Vec<(&'static str, u64)> {
    let mut found = Vec::with_capacity(XSTATS);
    // SAFETY: at most `capacity` entries are written, and as many as the result says.
    let n = unsafe { sys::mpps_port_xstats(port, found.as_mut_ptr(), XSTATS as u32) };
    // SAFETY: the first `n` entries were written.
    unsafe { found.set_len(usize::try_from(n).unwrap_or(0).min(XSTATS)) };
    found
        .iter()
        .filter(|xstat: &&sys::Xstat| xstat.value > 0)
        .filter_map(|xstat| Some((told(&text(&xstat.name))?, xstat.value)))
        .collect()
}

/// Returns the name under which an extended statistic is reported. `None` if it shows no trouble, or is one of the
/// basic statistics.
fn told(name: &str) -> Option<&'static str> {
    /// How words of such names begin: `rx_q0_errors`, `rx_phy_discard_packets`, `tx_dropped`.
    const TROUBLE: [&str; 9] = [
        "err", "drop", "miss", "discard", "nombuf", "nobuf", "full", "overflow", "bad",
    ];
    const BASIC: [&str; 4] = [
        "rx_missed_errors",
        "rx_errors",
        "tx_errors",
        "rx_mbuf_allocation_errors",
    ];
    let words = || name.split('_');
    let trouble = words().any(|word| TROUBLE.iter().any(|trouble| word.starts_with(trouble))) && !BASIC.contains(&name);
    trouble.then(|| interned(&format!("xstat_{name}")))
}

/// A name that lives for ever. A device has a few hundred statistics at most, and names do not change.
pub(crate) fn interned(name: &str) -> &'static str {
    static NAMES: LazyLock<Mutex<HashMap<String, &'static str>>> = LazyLock::new(Mutex::default);
    let mut names = NAMES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    names
        .entry(name.to_owned())
        .or_insert_with(|| Box::leak(name.to_owned().into_boxed_str()))
}

/// The text of an array that ends with a zero.
pub(crate) fn text(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|&c| c as u8).collect();
    CStr::from_bytes_until_nul(&bytes)
        .map(|text| text.to_string_lossy().into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_statistics_of_trouble_are_told_and_none_twice() {
        assert_eq!(told("rx_q0_errors"), Some("xstat_rx_q0_errors"));
        assert_eq!(told("rx_phy_discard_packets"), Some("xstat_rx_phy_discard_packets"));
        assert_eq!(told("rx_good_packets"), None);
        assert_eq!((told("rx_interrupts"), told("tx_deferred_packets")), (None, None));
        assert_eq!(told("rx_missed_errors"), None);
        assert_eq!(told("a_drop").map(str::as_ptr), told("a_drop").map(str::as_ptr));
    }
}
