//! The first cache line of `struct rte_mbuf` (`rte_mbuf_core.h`), as far as a frame needs it.

use std::mem::{align_of, offset_of, size_of};

/// `RTE_MBUF_F_RX_L4_CKSUM_MASK`: what the device says of a received UDP or TCP checksum.
pub const RX_L4_MASK: u64 = 1 << 3 | 1 << 8;
/// `RTE_MBUF_F_RX_L4_CKSUM_GOOD`.
pub const RX_L4_GOOD: u64 = 1 << 8;
/// `RTE_MBUF_F_RX_L4_CKSUM_NONE`: not right in the data, though the packet is (a virtual device's partial checksum).
pub const RX_L4_PARTIAL: u64 = 1 << 3 | 1 << 8;
/// Ours, in a bit that DPDK leaves alone: the checksum may be one that the sender left unfinished, and the driver does
/// not say so.
pub const RX_UNMARKED: u64 = 1 << 63;
/// `RTE_MBUF_F_TX_UDP_CKSUM`: the device is to compute it.
pub const TX_UDP_CHECKSUM: u64 = 3 << 52;

/// One packet buffer's head. 128 bytes, of which the first 64 are named here.
#[repr(C, align(64))]
pub struct RteMbuf {
    /// Start of the buffer.
    pub buf_addr: *mut u8,
    /// IOVA of the buffer, or the next segment: which, is for DPDK to know.
    _second: u64,
    /// Offset of the packet in the buffer, bytes.
    pub data_off: u16,
    /// Owners.
    pub refcnt: u16,
    /// Segments of the packet.
    pub nb_segs: u16,
    /// Port that it came in by.
    pub port: u16,
    /// Offload flags.
    pub ol_flags: u64,
    _packet_type: u32,
    /// Bytes of the packet, over its segments.
    pub pkt_len: u32,
    /// Bytes in this segment.
    pub data_len: u16,
    _vlan_and_hash: [u8; 12],
    /// Bytes of the buffer.
    pub buf_len: u16,
    /// The mempool that it goes back to.
    pub pool: *mut u8,
    _second_line: [u64; 8],
}

// The same numbers as in shim/mpps_dpdk.h, where C checks them against DPDK's own header.
const _: () = {
    assert!(offset_of!(RteMbuf, buf_addr) == 0);
    assert!(offset_of!(RteMbuf, data_off) == 16);
    assert!(offset_of!(RteMbuf, refcnt) == 18);
    assert!(offset_of!(RteMbuf, nb_segs) == 20);
    assert!(offset_of!(RteMbuf, port) == 22);
    assert!(offset_of!(RteMbuf, ol_flags) == 24);
    assert!(offset_of!(RteMbuf, pkt_len) == 36);
    assert!(offset_of!(RteMbuf, data_len) == 40);
    assert!(offset_of!(RteMbuf, buf_len) == 54);
    assert!(offset_of!(RteMbuf, pool) == 56);
    assert!(size_of::<RteMbuf>() == 128 && align_of::<RteMbuf>() == 64);
};
