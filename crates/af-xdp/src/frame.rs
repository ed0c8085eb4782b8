//! A frame: an AF_XDP chunk, and the queue it came in on.

use mpps_io::{Frame, RxChecksum};

/// One packet buffer of the af_xdp path: a chunk of the packet memory, received or allocated.
pub struct AfXdpFrame<'p> {
    pub(crate) inner: xsk::Frame<'p>,
    /// Position of the queue that it was received on in the lane's list; 0 when it was allocated.
    pub(crate) queue: u32,
    /// The XDP program has put the time of arrival in front of the packet.
    pub(crate) timed: bool,
    /// No hardware stands behind the device: packets may come from a host's stack with their checksums left to it.
    pub(crate) is_virtual: bool,
}

impl Frame for AfXdpFrame<'_> {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.inner.bytes()
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.inner.bytes_mut()
    }

    #[inline]
    fn capacity(&self) -> usize {
        self.inner.capacity()
    }

    #[inline]
    fn set_len(&mut self, len: usize) {
        self.inner.set_len(len);
    }

    #[inline]
    fn rx_time_ns(&self) -> Option<u64> {
        if self.timed { self.inner.metadata_u64() } else { None }
    }

    #[inline]
    fn rx_checksum(&self) -> RxChecksum {
        if self.is_virtual {
            RxChecksum::Unmarked
        } else {
            RxChecksum::Unverified
        }
    }
}
