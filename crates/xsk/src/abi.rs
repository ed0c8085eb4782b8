//! Numbers and structures of `include/uapi/linux/if_xdp.h` (Linux 6.18), with sizes and offsets checked when the crate
//! is compiled. Written out because distributions' headers and `libc` lag behind the kernel.

use core::mem::{offset_of, size_of};

/// `sxdp_flags`: use the UMEM of the socket `sxdp_shared_umem_fd`.
pub const XDP_SHARED_UMEM: u16 = 1 << 0;
/// `sxdp_flags`: force copy mode.
pub const XDP_COPY: u16 = 1 << 1;
/// `sxdp_flags`: force zero-copy mode.
pub const XDP_ZEROCOPY: u16 = 1 << 2;
/// `sxdp_flags`: the rings' flags say when a system call is needed (Linux 5.4).
pub const XDP_USE_NEED_WAKEUP: u16 = 1 << 3;
/// `sxdp_flags`: packets may span several descriptors (Linux 6.6).
pub const XDP_USE_SG: u16 = 1 << 4;

/// UMEM flag: chunks may lie anywhere (Linux 5.4).
pub const XDP_UMEM_UNALIGNED_CHUNK_FLAG: u32 = 1 << 0;
/// UMEM flag: the kernel computes requested TX checksums in software in copy mode (Linux 6.8).
pub const XDP_UMEM_TX_SW_CSUM: u32 = 1 << 1;
/// UMEM flag: `tx_metadata_len` is meant (Linux 6.11 asks for it).
pub const XDP_UMEM_TX_METADATA_LEN: u32 = 1 << 2;

/// Ring flag: the kernel wants a system call.
pub const XDP_RING_NEED_WAKEUP: u32 = 1 << 0;

/// Socket option: offsets of the rings within their mappings ([`MmapOffsets`]).
pub const XDP_MMAP_OFFSETS: i32 = 1;
/// Socket option: entries of the RX ring.
pub const XDP_RX_RING: i32 = 2;
/// Socket option: entries of the TX ring.
pub const XDP_TX_RING: i32 = 3;
/// Socket option: registers the UMEM ([`UmemReg`]).
pub const XDP_UMEM_REG: i32 = 4;
/// Socket option: entries of the fill ring.
pub const XDP_UMEM_FILL_RING: i32 = 5;
/// Socket option: entries of the completion ring.
pub const XDP_UMEM_COMPLETION_RING: i32 = 6;
/// Socket option: counters ([`RawStatistics`]).
pub const XDP_STATISTICS: i32 = 7;
/// Socket option: the options in force ([`RawOptions`]).
pub const XDP_OPTIONS: i32 = 8;
/// Socket option: packets sent in one system call in copy mode (Linux 6.17).
pub const XDP_MAX_TX_SKB_BUDGET: i32 = 9;

/// [`RawOptions::flags`]: the socket is in zero-copy mode.
pub const XDP_OPTIONS_ZEROCOPY: u32 = 1 << 0;

/// Offset for `mmap` of the RX ring.
pub const XDP_PGOFF_RX_RING: i64 = 0;
/// Offset for `mmap` of the TX ring.
pub const XDP_PGOFF_TX_RING: i64 = 0x8000_0000;
/// Offset for `mmap` of the fill ring.
pub const XDP_UMEM_PGOFF_FILL_RING: i64 = 0x1_0000_0000;
/// Offset for `mmap` of the completion ring.
pub const XDP_UMEM_PGOFF_COMPLETION_RING: i64 = 0x1_8000_0000;

/// In unaligned mode the upper 16 bits of an address are an offset to be added to the lower 48.
pub const XSK_UNALIGNED_BUF_OFFSET_SHIFT: u32 = 48;

/// Descriptor option: the packet goes on in the next descriptor.
pub const XDP_PKT_CONTD: u32 = 1 << 0;
/// Descriptor option: TX metadata lies in front of the data.
pub const XDP_TX_METADATA: u32 = 1 << 1;

/// TX metadata: asks for the time of transmission.
pub const XDP_TXMD_FLAGS_TIMESTAMP: u64 = 1 << 0;
/// TX metadata: asks for a checksum.
pub const XDP_TXMD_FLAGS_CHECKSUM: u64 = 1 << 1;
/// TX metadata: asks for transmission at a time (Linux 6.14).
pub const XDP_TXMD_FLAGS_LAUNCH_TIME: u64 = 1 << 2;

/// Bytes that the kernel keeps in front of a received packet, beside the UMEM's own headroom.
pub const XDP_PACKET_HEADROOM: u32 = 256;
/// The smallest chunk that the kernel takes.
pub const XDP_UMEM_MIN_CHUNK_SIZE: u32 = 2048;

/// `struct sockaddr_xdp`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SockaddrXdp {
    /// `AF_XDP`.
    pub family: u16,
    /// `XDP_SHARED_UMEM` and its like.
    pub flags: u16,
    /// Index of the interface.
    pub ifindex: u32,
    /// Queue of the interface.
    pub queue_id: u32,
    /// The socket whose UMEM is shared, with `XDP_SHARED_UMEM`.
    pub shared_umem_fd: u32,
}
const _: () = assert!(size_of::<SockaddrXdp>() == 16 && offset_of!(SockaddrXdp, shared_umem_fd) == 12);

/// `struct xdp_ring_offset`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RingOffset {
    /// The producer's index.
    pub producer: u64,
    /// The consumer's index.
    pub consumer: u64,
    /// The first entry.
    pub desc: u64,
    /// The flags.
    pub flags: u64,
}
const _: () = assert!(size_of::<RingOffset>() == 32 && offset_of!(RingOffset, flags) == 24);

/// `struct xdp_mmap_offsets`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MmapOffsets {
    /// RX ring.
    pub rx: RingOffset,
    /// TX ring.
    pub tx: RingOffset,
    /// Fill ring.
    pub fr: RingOffset,
    /// Completion ring.
    pub cr: RingOffset,
}
const _: () = assert!(size_of::<MmapOffsets>() == 128 && offset_of!(MmapOffsets, cr) == 96);

/// `struct xdp_umem_reg`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct UmemReg {
    /// Start of the area; on a page boundary.
    pub addr: u64,
    /// Length of the area, bytes.
    pub len: u64,
    /// Length of a chunk, bytes.
    pub chunk_size: u32,
    /// Bytes kept free in front of a received packet, beside the kernel's own 256.
    pub headroom: u32,
    /// `XDP_UMEM_UNALIGNED_CHUNK_FLAG` and its like (Linux 5.4).
    pub flags: u32,
    /// Bytes of TX metadata in front of the data (Linux 6.8).
    pub tx_metadata_len: u32,
}
const _: () = assert!(size_of::<UmemReg>() == 32 && offset_of!(UmemReg, tx_metadata_len) == 28);

/// `struct xdp_statistics`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawStatistics {
    /// Packets dropped for other reasons than a full ring.
    pub rx_dropped: u64,
    /// Fill entries that the kernel refused.
    pub rx_invalid_descs: u64,
    /// TX descriptors that the kernel refused.
    pub tx_invalid_descs: u64,
    /// Packets dropped because the RX ring was full (Linux 5.9).
    pub rx_ring_full: u64,
    /// Times the fill ring was found empty (Linux 5.9).
    pub rx_fill_ring_empty_descs: u64,
    /// Times the TX ring was found empty (Linux 5.9).
    pub tx_ring_empty_descs: u64,
}
const _: () = assert!(size_of::<RawStatistics>() == 48 && offset_of!(RawStatistics, tx_ring_empty_descs) == 40);

/// `struct xdp_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawOptions {
    /// `XDP_OPTIONS_ZEROCOPY`.
    pub flags: u32,
}
const _: () = assert!(size_of::<RawOptions>() == 4);

/// `struct xdp_desc`: an entry of the RX and TX rings.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Desc {
    /// Start of the packet, bytes from the start of the UMEM.
    pub addr: u64,
    /// Length of the packet, bytes.
    pub len: u32,
    /// `XDP_PKT_CONTD`, `XDP_TX_METADATA`.
    pub options: u32,
}
const _: () = assert!(size_of::<Desc>() == 16 && offset_of!(Desc, len) == 8 && offset_of!(Desc, options) == 12);

/// `struct xsk_tx_metadata` with the request's half of its union.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxMetadata {
    /// `XDP_TXMD_FLAGS_TIMESTAMP` and its like.
    pub flags: u64,
    /// First byte of the checksummed range, counted from the start of the data; on completion the low half of a `u64`,
    /// the time of transmission in ns.
    pub csum_start: u16,
    /// Place where the checksum is stored, bytes from `csum_start`.
    pub csum_offset: u16,
    /// Zero.
    pub reserved: u32,
    /// Time at which the device shall send, ns of the device's clock.
    pub launch_time: u64,
}
const _: () = assert!(size_of::<TxMetadata>() == 24 && offset_of!(TxMetadata, csum_start) == 8);
const _: () = assert!(offset_of!(TxMetadata, csum_offset) == 10 && offset_of!(TxMetadata, launch_time) == 16);
