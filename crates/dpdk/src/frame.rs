//! A frame of the `dpdk` path: one mbuf.

use crate::DpdkPool;
use dpdk_sys::{self as sys, RX_L4_GOOD, RX_L4_MASK, RX_L4_PARTIAL, RX_UNMARKED, RteMbuf};
use mpps_io::{Frame, RxChecksum};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// One packet: an mbuf that is ours alone. As large as a pointer, so that an array of frames is what DPDK's calls take,
/// and fill.
///
/// Made by [`crate::DpdkQueue`] alone, which writes the pointers: the mbuf is valid for `'p` (its mempool lives until
/// every port is closed), and nobody else has it.
#[repr(transparent)]
pub struct DpdkFrame<'p> {
    mbuf: NonNull<RteMbuf>,
    _pool: PhantomData<&'p DpdkPool>,
}

const _: () = assert!(size_of::<DpdkFrame<'_>>() == size_of::<*mut RteMbuf>());

impl DpdkFrame<'_> {
    #[inline]
    fn head(&self) -> &RteMbuf {
        // SAFETY: the mbuf is valid for 'p and ours alone (the queue's promise).
        unsafe { self.mbuf.as_ref() }
    }

    #[inline]
    fn head_mut(&mut self) -> &mut RteMbuf {
        // SAFETY: as in `head`; `&mut self` makes the borrow exclusive.
        unsafe { self.mbuf.as_mut() }
    }

    /// Leaves the UDP checksum of this frame to the device.
    #[inline]
    pub(crate) fn leave_checksum(&mut self) {
        self.head_mut().ol_flags = sys::TX_UDP_CHECKSUM;
    }
}

impl Drop for DpdkFrame<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the mbuf is ours alone and is not used after; its pool lives for 'p.
        unsafe { sys::mpps_free(self.mbuf.as_ptr()) };
    }
}

impl Frame for DpdkFrame<'_> {
    #[inline]
    fn bytes(&self) -> &[u8] {
        let head = self.head();
        // SAFETY: `data_len` bytes from `data_off` on lie in the buffer (DPDK's invariant for an mbuf; `set_len` keeps
        // it), which is ours while the frame lives. Mempool memory is initialised: mappings come zeroed.
        unsafe {
            let data = head.buf_addr.add(usize::from(head.data_off));
            std::slice::from_raw_parts(data, usize::from(head.data_len))
        }
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        let head = self.head();
        // SAFETY: as in `bytes`; `&mut self` makes the borrow exclusive.
        unsafe {
            let data = head.buf_addr.add(usize::from(head.data_off));
            std::slice::from_raw_parts_mut(data, usize::from(head.data_len))
        }
    }

    #[inline]
    fn capacity(&self) -> usize {
        let head = self.head();
        usize::from(head.buf_len.saturating_sub(head.data_off))
    }

    #[inline]
    fn set_len(&mut self, len: usize) {
        let len = len.min(self.capacity()) as u16;
        let head = self.head_mut();
        head.data_len = len;
        head.pkt_len = u32::from(len);
    }

    #[inline]
    fn rx_checksum(&self) -> RxChecksum {
        match self.head().ol_flags & (RX_L4_MASK | RX_UNMARKED) {
            RX_UNMARKED => RxChecksum::Unmarked,
            RX_L4_GOOD => RxChecksum::Good,
            RX_L4_PARTIAL => RxChecksum::Partial,
            // Bad may be the device's misreading, and is found by software anyway.
            _ => RxChecksum::Unverified,
        }
    }

    #[inline]
    fn is_plain(&self) -> bool {
        let head = self.head();
        // Bit 3 alone says that the device found the checksum wrong: the closer look lets that pass.
        let told = head.ol_flags & (RX_L4_PARTIAL & !RX_L4_GOOD | RX_UNMARKED);
        (told == 0) & (head.pkt_len == u32::from(head.data_len))
    }

    #[inline]
    fn wire_len(&self) -> usize {
        // Several segments that did not fit into one: the frame shows the first.
        self.head().pkt_len as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_frame_is_whole_and_its_checksum_not_unfinished() {
        // SAFETY: an mbuf is numbers and pointers, for all of which zero is a value.
        let mut mbuf: RteMbuf = unsafe { std::mem::zeroed() };
        let mut data = [0u8; 64];
        mbuf.buf_addr = data.as_mut_ptr();
        mbuf.buf_len = 64;
        let mut plain = 0;
        for flags in 0..8u64 {
            for pkt_len in [60, 61] {
                mbuf.ol_flags = (flags & 1) << 3 | (flags >> 1 & 1) << 8 | (flags >> 2) << 63 | 1 << 7;
                (mbuf.pkt_len, mbuf.data_len) = (pkt_len, 60);
                // The frame belongs to no pool: it must not be dropped.
                let frame = std::mem::ManuallyDrop::new(DpdkFrame {
                    mbuf: NonNull::from(&mut mbuf),
                    _pool: PhantomData,
                });
                let open = matches!(frame.rx_checksum(), RxChecksum::Partial | RxChecksum::Unmarked);
                let whole = frame.wire_len() == frame.bytes().len();
                assert!(!frame.is_plain() || whole && !open, "{flags:b} {pkt_len}");
                plain += u32::from(frame.is_plain());
            }
        }
        // Two frames are plain: one without a flag, and one whose checksum the device found good.
        assert_eq!(plain, 2);
    }
}
