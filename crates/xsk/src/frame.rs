//! A frame: one packet in one chunk, ours until it is sent or dropped.

use crate::abi::{
    Desc, TxMetadata, XDP_PKT_CONTD, XDP_TX_METADATA, XDP_TXMD_FLAGS_CHECKSUM, XDP_TXMD_FLAGS_LAUNCH_TIME,
    XDP_TXMD_FLAGS_TIMESTAMP,
};
use crate::owner::Owner;
use crate::pool::{Brand, PoolInner};
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, size_of};
use std::ptr::NonNull;

/// One packet buffer: a chunk of the UMEM that is in no other place. Move-only; bound by lifetime to the pool that it
/// came from; goes back to the pool's free list when dropped.
///
/// In the chunk lie, in this order: headroom, the data ([`Frame::bytes`]), and what is left up to
/// [`Frame::capacity`].
pub struct Frame<'p> {
    pool: &'p PoolInner,
    /// First byte of the data.
    data: NonNull<u8>,
    len: u32,
    /// From the start of the chunk to the data.
    offset: u16,
    /// `XDP_PKT_CONTD`, `XDP_TX_METADATA`.
    flags: u16,
    brand: Brand<'p>,
}

const _: () = assert!(size_of::<Frame<'_>>() == 24 && size_of::<Option<Frame<'_>>>() == 24);

/// Actions that the device shall take when it sends a frame: [`Frame::request`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxRequest {
    /// Compute the internet checksum from byte `.0` of the data to its end and store it `.1` bytes after `.0`, where
    /// the pseudo-header's sum must be already.
    pub checksum: Option<(u16, u16)>,
    /// Store the time of transmission; [`Frame::tx_timestamp`] returns it after completion.
    pub timestamp: bool,
    /// Send at this time, in ns of the device's clock (Linux 6.14; a driver that can).
    pub launch_time: Option<u64>,
}

impl<'p> Frame<'p> {
    /// # Safety
    /// The chunk at `base` is one of the pool's UMEM, and in no other place than this frame; `offset` plus `len` is at
    /// most the chunk's size.
    #[inline(always)]
    pub(crate) unsafe fn new(pool: &'p PoolInner, base: u64, offset: u64, len: u32, flags: u16) -> Self {
        Self {
            pool,
            // SAFETY: base plus offset lies within the UMEM (caller), which is one allocation.
            data: unsafe { pool.area.add((base + offset) as usize) },
            len,
            offset: offset as u16,
            flags,
            brand: PhantomData,
        }
    }

    /// Has the cache line that the data begins in fetched while the rest of the burst is read from the ring: another
    /// core has just written it, so the first look at it would wait for that core.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a hint, which reads nothing and faults for no address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(self.data.as_ptr().cast());
        }
        #[cfg(all(target_arch = "aarch64", not(miri)))]
        // SAFETY: as above.
        unsafe {
            let at = self.data.as_ptr();
            std::arch::asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, readonly, preserves_flags));
        }
    }

    /// The packet's bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: data and length lie within the chunk (new, set_len, grow_front, trim_front), which is this frame's
        // alone; the UMEM lives as long as the pool, that is 'p; it was zeroed when mapped, so all bytes are
        // initialised.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len as usize) }
    }

    /// The packet's bytes, writable.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`; `&mut self` makes it the only access.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len as usize) }
    }

    /// Length of the packet in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// True when the length is 0.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes from the start of the data to the end of the chunk.
    #[inline]
    pub fn capacity(&self) -> usize {
        (self.pool.layout.frame_size - u32::from(self.offset)) as usize
    }

    /// Sets the packet's length in bytes; one above [`Frame::capacity`] is clamped to it. Bytes that come in are
    /// whatever was there.
    #[inline]
    pub fn set_len(&mut self, len: usize) {
        self.len = len.min(self.capacity()) as u32;
    }

    /// Bytes in front of the data.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.offset.into()
    }

    /// Lets the data begin `n` bytes earlier; false, and nothing changed, when there are not as many.
    #[inline]
    pub fn grow_front(&mut self, n: usize) -> bool {
        if n > self.headroom() {
            return false;
        }
        self.offset -= n as u16;
        self.len += n as u32;
        // SAFETY: not before the start of the chunk.
        self.data = unsafe { self.data.sub(n) };
        true
    }

    /// Lets the data begin `n` bytes later; false, and nothing changed, when the packet is shorter.
    #[inline]
    pub fn trim_front(&mut self, n: usize) -> bool {
        if n > self.len() {
            return false;
        }
        self.offset += n as u16;
        self.len -= n as u32;
        // SAFETY: not behind the end of the data.
        self.data = unsafe { self.data.add(n) };
        true
    }

    /// The `n` bytes in front of the data: what an XDP program wrote there after `bpf_xdp_adjust_meta(-n)`. How many
    /// that are, the program's author knows; the kernel doesn't say. `None` when there are not as many.
    #[inline]
    pub fn metadata(&self, n: usize) -> Option<&[u8]> {
        if n > self.headroom() {
            return None;
        }
        // SAFETY: the range lies in the chunk, in front of the data; for the rest see `bytes`.
        Some(unsafe { std::slice::from_raw_parts(self.data.as_ptr().sub(n), n) })
    }

    /// The eight bytes in front of the data as a number: the time of reception, with a program that writes one.
    #[inline]
    pub fn metadata_u64(&self) -> Option<u64> {
        let bytes = self.metadata(8)?.first_chunk()?;
        Some(u64::from_ne_bytes(*bytes))
    }

    /// True when the packet goes on in the next frame (multi-buffer).
    #[inline]
    pub fn is_continued(&self) -> bool {
        u32::from(self.flags) & XDP_PKT_CONTD != 0
    }

    /// Says whether the packet goes on in the next frame. Such frames can be sent only through a socket that was made
    /// for multi-buffer.
    #[inline]
    pub fn set_continued(&mut self, continued: bool) {
        let others = u32::from(self.flags) & !XDP_PKT_CONTD;
        self.flags = (others | (u32::from(continued) * XDP_PKT_CONTD)) as u16;
    }

    /// Writes TX metadata in front of the data: what the device shall do as it sends the frame. The default request
    /// takes an earlier one back. False, and nothing done, when the UMEM was made without `tx_metadata_len`, or the
    /// headroom is too small for it.
    pub fn request(&mut self, request: &TxRequest) -> bool {
        let flag = |set: bool, flag: u64| if set { flag } else { 0 };
        let flags = flag(request.checksum.is_some(), XDP_TXMD_FLAGS_CHECKSUM)
            | flag(request.timestamp, XDP_TXMD_FLAGS_TIMESTAMP)
            | flag(request.launch_time.is_some(), XDP_TXMD_FLAGS_LAUNCH_TIME);
        let (csum_start, csum_offset) = request.checksum.unwrap_or_default();
        let metadata = TxMetadata {
            flags,
            csum_start,
            csum_offset,
            reserved: 0,
            launch_time: request.launch_time.unwrap_or_default(),
        };
        let Some(place) = self.tx_metadata() else { return false };
        // SAFETY: the place is within the chunk, which is ours (tx_metadata); it need not be aligned.
        unsafe { place.write_unaligned(metadata) };
        let others = u32::from(self.flags) & !XDP_TX_METADATA;
        self.flags = (others | if flags == 0 { 0 } else { XDP_TX_METADATA }) as u16;
        true
    }

    /// When the device sent the frame, in ns of its clock (the kernel's `CLOCK_TAI`-like clock in copy mode): of a
    /// frame that [`crate::Tx::reclaim_frames`] gave and for which it had been requested. Zero when the driver didn't
    /// say.
    pub fn tx_timestamp(&self) -> Option<u64> {
        let place = self.tx_metadata()?;
        // SAFETY: the place is within the chunk, which is ours (tx_metadata); any bytes are a valid value; it need not
        // be aligned. The completion's half of the union begins where the request's does, behind the flags.
        let (flags, time) = unsafe {
            let flags = place.cast::<u64>().read_unaligned();
            (flags, place.cast::<u64>().add(1).read_unaligned())
        };
        (flags & XDP_TXMD_FLAGS_TIMESTAMP != 0).then_some(time)
    }

    /// Returns the place of the TX metadata: `tx_metadata_len` bytes in front of the data.
    #[inline(always)]
    fn tx_metadata(&self) -> Option<*mut TxMetadata> {
        let len = self.pool.tx_metadata_len as usize;
        if len == 0 || len > self.headroom() {
            return None;
        }
        // SAFETY: not before the start of the chunk; at least 24 bytes lie between there and the data.
        Some(unsafe { self.data.as_ptr().sub(len) }.cast())
    }

    /// True when the frame is one of `pool`.
    #[inline(always)]
    pub(crate) fn is_of(&self, pool: &PoolInner) -> bool {
        std::ptr::eq(self.pool, pool)
    }

    /// `XDP_PKT_CONTD`, `XDP_TX_METADATA`.
    #[inline(always)]
    pub(crate) fn flags(&self) -> u16 {
        self.flags
    }

    /// Start of the chunk, relative to the start of the UMEM.
    #[inline(always)]
    fn base(&self) -> u64 {
        (self.data.addr().get() - self.pool.area.addr().get() - usize::from(self.offset)) as u64
    }

    /// Gives the frame up for a descriptor of the TX ring: the chunk is the kernel's from here on. `area` is the start
    /// of the UMEM, in a register; `PLAIN` says that the pool is ([`PoolInner::is_plain`]), and the frame has no flags.
    #[inline(always)]
    pub(crate) fn into_desc<const PLAIN: bool>(self, area: NonNull<u8>) -> Desc {
        let frame = ManuallyDrop::new(self);
        let flags = if PLAIN { 0 } else { u32::from(frame.flags) };
        if cfg!(debug_assertions) {
            frame.pool.umem.owners.moved(frame.base(), Owner::Held, Owner::Sending);
        }
        let addr = if PLAIN {
            // The sum of the chunk's start and the offset.
            (frame.data.addr().get() - area.addr().get()) as u64
        } else {
            frame.withdraw_old_request();
            frame.pool.layout.encode(frame.base(), frame.offset.into())
        };
        Desc {
            addr,
            len: frame.len,
            options: flags,
        }
    }

    /// Clears the place of the TX metadata: what an earlier use of the chunk left there must not look like a request of
    /// this one.
    #[inline(always)]
    fn withdraw_old_request(&self) {
        if u32::from(self.flags) & XDP_TX_METADATA == 0
            && let Some(place) = self.tx_metadata()
        {
            // SAFETY: the place is within the chunk, which is ours; it need not be aligned.
            unsafe { place.cast::<u64>().write_unaligned(0) };
        }
    }
}

impl Drop for Frame<'_> {
    #[inline]
    fn drop(&mut self) {
        let base = self.base();
        self.pool.umem.owners.moved(base, Owner::Held, Owner::Free);
        self.pool.give(base);
    }
}

impl fmt::Debug for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame")
            .field("chunk", &self.base())
            .field("offset", &self.offset)
            .field("len", &self.len)
            .field("continued", &self.is_continued())
            .finish()
    }
}
