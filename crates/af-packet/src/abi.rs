//! Layouts that the kernel's headers define, as the `libc` crate and this module have them: checked here at compile
//! time.
//!
//! Source: `include/uapi/linux/if_packet.h`, `include/uapi/linux/virtio_net.h`.

use std::mem::{offset_of, size_of};

const _: () = {
    assert!(size_of::<libc::tpacket2_hdr>() == 32);
    assert!(offset_of!(libc::tpacket2_hdr, tp_status) == 0);
    assert!(offset_of!(libc::tpacket2_hdr, tp_len) == 4);
    assert!(offset_of!(libc::tpacket2_hdr, tp_snaplen) == 8);
    assert!(offset_of!(libc::tpacket2_hdr, tp_mac) == 12);
    assert!(offset_of!(libc::tpacket2_hdr, tp_sec) == 16);
    assert!(offset_of!(libc::tpacket2_hdr, tp_nsec) == 20);
    assert!(offset_of!(libc::tpacket2_hdr, tp_vlan_tci) == 24);
    assert!(offset_of!(libc::tpacket2_hdr, tp_vlan_tpid) == 26);
    assert!(size_of::<libc::sockaddr_ll>() == 20);
    assert!(size_of::<libc::tpacket_req>() == 16);
    assert!(size_of::<libc::tpacket_stats>() == 8);
    assert!(size_of::<libc::packet_mreq>() == 16);
    assert!(size_of::<libc::sock_filter>() == 8);
    assert!(size_of::<VirtioNetHdr>() == 10);
};

/// `TPACKET2_HDRLEN`: the header and the link-layer address in front of a received packet.
pub(crate) const TPACKET2_HDRLEN: usize = size_of::<libc::tpacket2_hdr>() + size_of::<libc::sockaddr_ll>();

/// Offset of the data in a slot to send (`TPACKET2_HDRLEN - sizeof(struct sockaddr_ll)`, packet_mmap.rst).
pub(crate) const TX_DATA: usize = size_of::<libc::tpacket2_hdr>();

/// Offset of the Ethernet header in the slot of a received packet: `tpacket_rcv` puts the network header at
/// `TPACKET_ALIGN(TPACKET2_HDRLEN + 16)`. No `PACKET_RESERVE`: the gap in front already holds a stripped VLAN tag, and
/// a 60-byte frame from here ends in the same cache line that it starts in, which is one less to pass between cores.
pub(crate) const RX_DATA: usize = (TPACKET2_HDRLEN + 16).next_multiple_of(16) - ETH_HLEN;

const _: () = assert!(RX_DATA >= TPACKET2_HDRLEN + VLAN_HLEN && RX_DATA / 64 == (RX_DATA + 59) / 64);

/// Length of an Ethernet header without tags.
pub(crate) const ETH_HLEN: usize = 14;

/// Length of one VLAN tag.
pub(crate) const VLAN_HLEN: usize = 4;

/// A slot that was handed out as a frame. Ours alone: to the kernel any value but `TP_STATUS_KERNEL` means "not
/// free" (`packet_lookup_frame` compares for equality), and it is none of the bits that the kernel sets.
pub(crate) const TP_STATUS_TAKEN: u32 = 1 << 24;

/// `struct virtio_net_hdr`, which precedes each packet of a socket with `PACKET_VNET_HDR`; native byte order.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct VirtioNetHdr {
    pub(crate) flags: u8,
    pub(crate) gso_type: u8,
    pub(crate) hdr_len: u16,
    pub(crate) gso_size: u16,
    pub(crate) csum_start: u16,
    pub(crate) csum_offset: u16,
}

impl VirtioNetHdr {
    /// Whether the packet is a merged one: `VIRTIO_NET_HDR_GSO_NONE` is 0.
    #[inline]
    pub(crate) fn is_merged(&self) -> bool {
        self.gso_type != 0
    }

    /// Whether the packet is UDP datagrams in one (`VIRTIO_NET_HDR_GSO_UDP_L4`, Linux 6.2).
    pub(crate) fn is_merged_udp(&self) -> bool {
        self.gso_type == 5
    }

    /// Returns the offset of the header whose checksum is unfinished, if there is one.
    pub(crate) fn open_checksum(&self) -> Option<usize> {
        (self.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM != 0).then_some(self.csum_start.into())
    }
}

/// Bytes of [`VirtioNetHdr`].
pub(crate) const VNET_LEN: usize = size_of::<VirtioNetHdr>();

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the checksum from `csum_start` on is to be completed by the device.
pub(crate) const VIRTIO_NET_HDR_F_NEEDS_CSUM: u8 = 1;
