//! A frame: one packet buffer.

use std::net::SocketAddr;

/// State of the UDP checksum of a received frame, as far as the path knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RxChecksum {
    /// Nobody has looked: software must verify.
    Unverified,
    /// Nobody has looked, and the path can't distinguish a wrong sum from one that the sender left unfinished
    /// ([`RxChecksum::Partial`]): as AF_XDP on virtual links. Software must decide which of the two it is.
    Unmarked,
    /// The device or the kernel has verified it.
    Good,
    /// The bytes hold only the pseudo-header's sum (the sender left the rest to a device that was never passed, as on
    /// veth): it can't be verified, and must be completed before the frame is sent on.
    Partial,
}

/// Taker of a packet's time of arrival: the option `rx_time` of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RxTime {
    /// The lane, once for each burst that the path gives it.
    #[default]
    Lane,
    /// The kernel, when the packet has come to it.
    Kernel,
    /// The card, when the packet has come from the wire.
    Hardware,
}

impl RxTime {
    /// Name as written in the option.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lane => "lane",
            Self::Kernel => "kernel",
            Self::Hardware => "hardware",
        }
    }
}

/// One packet buffer: move-only, bound to its pool by lifetime, writable in place.
///
/// A frame belongs to its holder until it is passed to [`crate::Queue::transmit`] or dropped; dropping gives it back to
/// its pool. On an Ethernet path the bytes start at the destination MAC and end before the FCS; on a payload path they
/// are the UDP payload.
pub trait Frame {
    /// The packet's bytes.
    fn bytes(&self) -> &[u8];

    /// The packet's bytes, writable.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Bytes that the buffer can hold.
    fn capacity(&self) -> usize;

    /// Sets the packet's length in bytes; a length above [`Frame::capacity`] is clamped to it.
    fn set_len(&mut self, len: usize);

    /// The flow that the generator gave (sending) or that the path knows from the socket (receiving, payload paths
    /// with connected sockets). Ethernet paths need not keep it for received frames.
    fn flow(&self) -> Option<u32> {
        None
    }

    /// Sets the flow that this frame belongs to: a payload path chooses its socket by it.
    fn set_flow(&mut self, _flow: u32) {}

    /// When the path itself took the time of reception ([`RxTime`]): ns on the host's `CLOCK_MONOTONIC`. `None` leaves
    /// it to the lane.
    fn rx_time_ns(&self) -> Option<u64> {
        None
    }

    /// Returns the state of the received UDP checksum.
    fn rx_checksum(&self) -> RxChecksum {
        RxChecksum::Unverified
    }

    /// Length in bytes of the packet on the wire when the path had to cut it (snap length); else the same as the
    /// length of [`Frame::bytes`].
    fn wire_len(&self) -> usize {
        self.bytes().len()
    }

    /// Whether a received frame may be sent on, by a forwarder or a reflector, without further checks: nothing of it is
    /// cut ([`Frame::wire_len`]), and its checksum is not known to be unfinished ([`Frame::rx_checksum`]). May be false
    /// for a frame that a closer look finds all right.
    #[inline]
    fn is_plain(&self) -> bool {
        self.wire_len() == self.bytes().len()
            && !matches!(self.rx_checksum(), RxChecksum::Partial | RxChecksum::Unmarked)
    }

    /// Payload paths: where the packet came from, where sending it back will go.
    fn peer(&self) -> Option<SocketAddr> {
        None
    }

    /// Payload paths: time to live (hop limit) that a received packet still had, if the path knows it. A packet that is
    /// sent back has one less; a path that can't lower it returns `None`.
    fn ttl(&self) -> Option<u8> {
        None
    }

    /// Payload paths: the packet was sent to a group or to everybody.
    fn to_group(&self) -> bool {
        false
    }
}
