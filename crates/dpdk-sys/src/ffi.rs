//! The shim's functions and structures: `shim/mpps_dpdk.h` in Rust. Failures are negative errno values.

use crate::RteMbuf;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::{offset_of, size_of};

/// DPDK's packet memory; only ever behind a pointer.
#[repr(C)]
pub struct RteMempool {
    _private: [u8; 0],
}

/// `struct mpps_entry`: where a port's burst function and its queues are found. Both are read for each burst, as DPDK's
/// own inline calls do: the port changes them when it is stopped.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    function: *const unsafe extern "C" fn(*mut c_void, *mut *mut RteMbuf, u16) -> u16,
    queues: *const *const *mut c_void,
}

impl Entry {
    /// Receives or sends a burst with no more ado than the driver's.
    ///
    /// # Safety
    /// The port is open, the queue is set up and this thread's alone; room for `n` pointers at `mbufs`, or as many
    /// mbufs.
    #[inline(always)]
    pub unsafe fn burst(&self, queue: u16, mbufs: *mut *mut RteMbuf, n: u16) -> u16 {
        // SAFETY: both lie in DPDK's table of ports, which is never freed; the queue is one of the port's (the caller).
        unsafe {
            let queue = (*self.queues).add(usize::from(queue)).read();
            (*self.function)(queue, mbufs, n)
        }
    }
}

/// `struct mpps_port_info`: what a device is and offers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PortInfo {
    /// The driver's name, ended by a zero.
    pub driver: [c_char; 64],
    /// MAC address.
    pub mac: [u8; 6],
    /// Offers UDP checksums on transmit.
    pub tx_checksum: u8,
    /// Offers fast free: buffers of one pool, one owner each.
    pub fast_free: u8,
    /// Verifies UDP checksums.
    pub rx_checksum: u8,
    /// Can hash addresses (1), or addresses and UDP ports (2); 0: neither.
    pub rss: u8,
    /// MTU, bytes.
    pub mtu: u16,
    /// Most receive queues.
    pub max_rx_queues: u16,
    /// Most transmit queues.
    pub max_tx_queues: u16,
    /// Descriptors of a receive ring that the driver prefers; 0: no preference.
    pub rx_ring: u16,
    /// Descriptors of a transmit ring that the driver prefers; 0: no preference.
    pub tx_ring: u16,
    /// NUMA node; -1: not known.
    pub socket: i32,
    /// Index of the kernel's interface beneath; 0: none.
    pub interface: u32,
}

/// `struct mpps_port_conf`: how a device is to be set up.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct PortConf {
    /// Receive queues.
    pub rx_queues: u16,
    /// Transmit queues.
    pub tx_queues: u16,
    /// Descriptors of a receive ring.
    pub rx_ring: u16,
    /// Descriptors of a transmit ring.
    pub tx_ring: u16,
    /// MTU, bytes.
    pub mtu: u16,
    /// 0: no RSS; 1: over addresses; 2: over addresses and ports.
    pub rss: u8,
    /// The device computes UDP checksums.
    pub tx_checksum: u8,
    /// All buffers of a transmit queue are of one pool.
    pub fast_free: u8,
    /// The device verifies UDP checksums.
    pub rx_checksum: u8,
    /// `mtu` is to be set on the device; else it is what the device has.
    pub set_mtu: u8,
    /// Frames for other MAC addresses, too: 1, not: 0; 2 leaves it as it is.
    pub promisc: u8,
}

/// `struct mpps_memif_conf`: settings of a memif, as the driver gets them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemifConf {
    /// The socket's path, ended by a zero, without the zero before a name that is no file.
    pub path: *const c_char,
    /// Bytes that the memory limit of this process leaves; the largest number where none is known. Any thread may ask.
    pub memory_left: extern "C" fn() -> u64,
    /// `id=`.
    pub id: u32,
    /// `bsize=`.
    pub buffer: u16,
    /// Receive queues.
    pub rx_queues: u16,
    /// Transmit queues.
    pub tx_queues: u16,
    /// This end listens.
    pub server: u8,
}

/// `struct mpps_port_state`: what came of it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PortState {
    /// Descriptors of a receive ring.
    pub rx_ring: u16,
    /// Descriptors of a transmit ring.
    pub tx_ring: u16,
    /// MTU, bytes.
    pub mtu: u16,
    /// Frames for other MAC addresses are received.
    pub promisc: u8,
    /// All multicast frames are received.
    pub allmulticast: u8,
    /// Fields that the RSS hash uses: `RTE_ETH_RSS_*` bits; 0: none.
    pub rss: u64,
    /// On failure, the call that failed: a constant string.
    pub step: *const c_char,
}

/// `struct mpps_port_stats`: totals since the port was started.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets received.
    pub ipackets: u64,
    /// Packets sent.
    pub opackets: u64,
    /// Packets that found no free descriptor.
    pub imissed: u64,
    /// Packets received wrong.
    pub ierrors: u64,
    /// Packets that could not be sent.
    pub oerrors: u64,
    /// Packets that found no free buffer.
    pub rx_nombuf: u64,
}

/// `struct mpps_xstat`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Xstat {
    /// Ended by a zero.
    pub name: [c_char; 64],
    /// Total.
    pub value: u64,
}

/// Most items of a flow rule.
pub const FLOW_ITEMS: usize = 8;
/// Most actions of a flow rule.
pub const FLOW_ACTIONS: usize = 8;
/// Most queues of an RSS action.
pub const FLOW_QUEUES: usize = 128;
/// Longest header of an item, bytes.
pub const FLOW_BYTES: usize = 40;

/// `struct mpps_flow_item`: a header as on the wire.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FlowItem {
    /// `MPPS_FLOW_ETH` …
    pub kind: u32,
    /// No field is compared.
    pub any: u8,
    /// `last` is given.
    pub range: u8,
    /// Header bytes that a packet is compared with.
    pub spec: [u8; FLOW_BYTES],
    /// End of a range.
    pub last: [u8; FLOW_BYTES],
    /// The bits that count.
    pub mask: [u8; FLOW_BYTES],
}

/// `struct mpps_flow_action`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct FlowAction {
    /// `MPPS_FLOW_QUEUE` …
    pub kind: u32,
    /// Queue or mark.
    pub value: u32,
}

/// `struct mpps_flow_rule`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FlowRule {
    /// Group.
    pub group: u32,
    /// Priority, 0 is the highest.
    pub priority: u32,
    /// On packets that come in.
    pub ingress: u8,
    /// On packets that go out.
    pub egress: u8,
    /// Between ports of a switch.
    pub transfer: u8,
    /// Items in use.
    pub items: u8,
    /// Actions in use.
    pub actions: u8,
    /// Queues in use.
    pub rss_queues: u16,
    /// Pattern.
    pub item: [FlowItem; FLOW_ITEMS],
    /// Actions.
    pub action: [FlowAction; FLOW_ACTIONS],
    /// Queues of an RSS action.
    pub rss_queue: [u16; FLOW_QUEUES],
}

const _: () = {
    assert!(offset_of!(PortInfo, mac) == 64 && offset_of!(PortInfo, mtu) == 74 && offset_of!(PortInfo, socket) == 84);
    assert!(offset_of!(PortInfo, interface) == 88 && size_of::<PortInfo>() == 92);
    assert!(offset_of!(PortConf, rss) == 10 && size_of::<PortConf>() == 16);
    assert!(offset_of!(MemifConf, server) == 26 && size_of::<MemifConf>() == 32);
    assert!(offset_of!(PortState, rss) == 8 && offset_of!(PortState, step) == 16 && size_of::<PortState>() == 24);
    assert!(offset_of!(Entry, queues) == size_of::<usize>() && size_of::<Entry>() == 2 * size_of::<usize>());
    assert!(size_of::<PortStats>() == 48 && size_of::<Xstat>() == 72);
    assert!(offset_of!(FlowItem, spec) == 6 && size_of::<FlowItem>() == 128);
    assert!(offset_of!(FlowRule, rss_queues) == 14 && offset_of!(FlowRule, item) == 16);
    assert!(size_of::<FlowRule>() == 16 + 8 * 128 + 8 * 8 + 256);
};

unsafe extern "C" {
    /// `rte_eth_rx_burst`; packets of several segments are made one where they fit.
    pub fn mpps_rx_burst(port: u16, queue: u16, mbufs: *mut *mut RteMbuf, n: u16) -> u16;
    /// Where the port's receive function and queues are found; the port must have been set up.
    pub fn mpps_rx_entry(port: u16) -> Entry;
    /// Likewise for transmit.
    pub fn mpps_tx_entry(port: u16) -> Entry;
    /// `rte_eth_rx_queue_count`: packets that wait in a receive queue; negative where the driver does not count them.
    pub fn mpps_rx_fill(port: u16, queue: u16) -> c_int;
    /// `rte_eth_rx_burst`, with [`crate::RX_UNMARKED`] set on each: their checksums may be unfinished.
    pub fn mpps_rx_burst_unmarked(port: u16, queue: u16, mbufs: *mut *mut RteMbuf, n: u16) -> u16;
    /// Prepares for the two below: once a process.
    pub fn mpps_guard_install() -> c_int;
    /// Receives like `mpps_rx_burst`; 0 if the other end has taken the rings away meanwhile.
    pub fn mpps_rx_burst_guarded(port: u16, queue: u16, mbufs: *mut *mut RteMbuf, n: u16) -> u16;
    /// `rte_eth_tx_burst`; where the other end has taken the rings away, all are taken, and added to `refused`.
    pub fn mpps_tx_burst_guarded(port: u16, queue: u16, mbufs: *mut *mut RteMbuf, n: u16, refused: *mut u64) -> u16;
    /// `rte_eth_tx_burst`, with checksums left to the device; adds to `refused` what it will never take (taken, freed).
    pub fn mpps_tx_burst_offload(port: u16, queue: u16, mbufs: *mut *mut RteMbuf, n: u16, refused: *mut u64) -> u16;
    /// Makes this port's bursts use the two functions below; before it is started. `rx_pools`: one for each receive
    /// queue.
    pub fn mpps_memif_open(port: u16, conf: *const MemifConf, rx_pools: *const *mut RteMempool) -> c_int;
    /// Receives over a memif; believes nothing of what the other end wrote.
    pub fn mpps_memif_rx(port: u16, queue: u16, mbufs: *mut *mut RteMbuf, n: u16) -> u16;
    /// Sends over a memif; adds to `refused` what will never fit (taken, freed).
    pub fn mpps_memif_tx(port: u16, queue: u16, mbufs: *mut *mut RteMbuf, n: u16, refused: *mut u64) -> u16;
    /// Event at the other end that ended the traffic: a constant string; null: none.
    pub fn mpps_memif_fault(port: u16) -> *const c_char;
    /// Connections that were refused; `why` is a constant string where there was one.
    pub fn mpps_memif_refused(port: u16, why: *mut *const c_char) -> u64;
    /// Takes `n` buffers, or fewer; their lengths are whatever was there.
    pub fn mpps_alloc_bulk(pool: *mut RteMempool, mbufs: *mut *mut RteMbuf, n: u16) -> u16;
    /// `rte_pktmbuf_free_bulk`, at once where all are plain buffers of `pool`.
    pub fn mpps_free_bulk(pool: *mut RteMempool, mbufs: *mut *mut RteMbuf, n: u16);
    /// `rte_pktmbuf_free`.
    pub fn mpps_free(mbuf: *mut RteMbuf);

    /// `rte_eal_init`. `keep_log`: what DPDK logs is kept for [`mpps_log_take`], not printed.
    pub fn mpps_eal_init(argc: c_int, argv: *mut *mut c_char, keep_log: c_int) -> c_int;
    /// `rte_eal_cleanup`; not while its interrupt thread can't be put aside.
    pub fn mpps_eal_cleanup() -> c_int;
    /// Takes what was logged since the last call: its end, as far as it fits. Returns bytes; no zero at the end.
    pub fn mpps_log_take(text: *mut c_char, size: usize) -> usize;
    /// `rte_dev_probe`.
    pub fn mpps_probe(devargs: *const c_char) -> c_int;
    /// `rte_eal_hotplug_remove` of a virtual device.
    pub fn mpps_unplug(name: *const c_char) -> c_int;
    /// `rte_thread_register`; 1: now registered, 0: was already.
    pub fn mpps_thread_register() -> c_int;
    /// `rte_thread_unregister`.
    pub fn mpps_thread_unregister();
    /// `rte_pktmbuf_pool_create`; null on failure, with the reason in `error`.
    pub fn mpps_pool_create(
        name: *const c_char,
        mbufs: u32,
        data_room: u16,
        socket: c_int,
        error: *mut c_int,
    ) -> *mut RteMempool;
    /// Writes the same packet into every buffer.
    pub fn mpps_pool_fill(pool: *mut RteMempool, bytes: *const u8, len: u16);
    /// `rte_mempool_free`.
    pub fn mpps_pool_free(pool: *mut RteMempool);

    /// Finds a port by its device's name.
    pub fn mpps_port_by_name(name: *const c_char, port: *mut u16) -> c_int;
    /// Finds a port by its MAC address (six bytes).
    pub fn mpps_port_by_mac(mac: *const u8, port: *mut u16) -> c_int;
    /// The MAC addresses that there are, as text ended by a zero.
    pub fn mpps_port_macs(text: *mut c_char, size: usize) -> c_int;
    /// Describes a port.
    pub fn mpps_port_info(port: u16, info: *mut PortInfo) -> c_int;
    /// Configures and starts a port; one pool a receive queue.
    pub fn mpps_port_start(
        port: u16,
        conf: *const PortConf,
        rx_pools: *const *mut RteMempool,
        socket: c_int,
        state: *mut PortState,
    ) -> c_int;
    /// `rte_eth_dev_stop`.
    pub fn mpps_port_stop(port: u16);
    /// `rte_eth_dev_close`; ends what `mpps_memif_open` began, too: no lane uses the port any more.
    pub fn mpps_port_close(port: u16);
    /// 1: the link is up, 0: it is down. Speed in Mbit/s, 0: not known.
    pub fn mpps_link(port: u16, mbps: *mut u32) -> c_int;
    /// Has removals of the port's device noted, for as long as the EAL runs.
    pub fn mpps_watch_removal(port: u16);
    /// Whether the port's device is to be removed.
    pub fn mpps_wanted_back(port: u16) -> bool;

    /// `rte_eth_stats_get`.
    pub fn mpps_port_stats(port: u16, stats: *mut PortStats) -> c_int;
    /// `rte_eth_xstats_get` with names; returns how many were written.
    pub fn mpps_port_xstats(port: u16, out: *mut Xstat, max: c_uint) -> c_int;

    /// `rte_flow_validate`; the driver's reason goes to `why`, ended by a zero.
    pub fn mpps_flow_validate(port: u16, rule: *const FlowRule, why: *mut c_char, size: usize) -> c_int;
    /// `rte_flow_create`; null on failure.
    pub fn mpps_flow_create(
        port: u16,
        rule: *const FlowRule,
        error: *mut c_int,
        why: *mut c_char,
        size: usize,
    ) -> *mut c_void;
    /// `rte_flow_query` of a count action.
    pub fn mpps_flow_count(port: u16, flow: *mut c_void, packets: *mut u64) -> c_int;
    /// `rte_flow_destroy`.
    pub fn mpps_flow_destroy(port: u16, flow: *mut c_void) -> c_int;
}
