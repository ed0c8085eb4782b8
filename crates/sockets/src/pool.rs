//! Packet memory of one lane, and the frames that borrow it.
//!
//! The memory is one anonymous mapping, cut into buffers when it is made; free lists are plain stacks of the lane's
//! own, so the buffer used last, warm in the cache, is used next. With GRO there is a second class of large buffers:
//! the kernel puts a whole super-packet into one, and its datagrams become frames that share it, counted by a number
//! that no other thread sees.

use crate::address::RawAddr;
use crate::raw::RawArray;
use mpps_io::{Frame, RxChecksum};
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::ptr::NonNull;

/// No flow.
pub const NO_FLOW: u32 = u32::MAX;

/// Largest coalesced packet that the kernel delivers: an IP packet's most.
const SUPER_BYTES: usize = 65_536;

/// Address information of one buffer.
#[derive(Clone, Copy)]
pub struct Meta {
    /// Address that the packet came from; the kernel writes it.
    pub peer: RawAddr,
    /// Local address that it was sent to, IPv4 in the first four bytes; used on wildcard sockets only.
    pub local: [u8; 16],
    /// Interface that it came in by (link-local addresses need it on the way back).
    pub interface: u32,
    /// `local` is valid.
    pub has_local: bool,
    /// The packet was sent to a group or to everybody.
    pub to_group: bool,
    /// Time to live, or hop limit, that it came with; 0: not known.
    pub ttl: u8,
    /// Time of arrival for [`Frame::rx_time_ns`], 0: not known; the kernel's own until [`ArrivalTimes::settle`].
    ///
    /// [`ArrivalTimes::settle`]: crate::message::ArrivalTimes::settle
    pub rx_time_ns: u64,
}

const NO_META: Meta = Meta {
    peer: RawAddr::NONE,
    local: [0; 16],
    interface: 0,
    has_local: false,
    to_group: false,
    ttl: 0,
    rx_time_ns: 0,
};

/// Buffers of one size, numbered from `first`.
struct Class {
    base: NonNull<u8>,
    first: u32,
    stride: usize,
    capacity: usize,
    free: Box<[Cell<u32>]>,
    free_len: Cell<usize>,
}

impl Class {
    fn new(base: NonNull<u8>, first: u32, count: u32, stride: usize, capacity: usize) -> Self {
        // The lowest-numbered buffer on top.
        let free = (0..count).rev().map(|i| Cell::new(first + i)).collect::<Box<[_]>>();
        Self {
            base,
            first,
            stride,
            capacity,
            free_len: Cell::new(free.len()),
            free,
        }
    }

    #[inline]
    fn pop(&self) -> Option<u32> {
        let len = self.free_len.get().checked_sub(1)?;
        self.free_len.set(len);
        Some(self.free[len].get())
    }

    #[inline]
    fn push(&self, buffer: u32) {
        let len = self.free_len.get();
        self.free[len].set(buffer);
        self.free_len.set(len + 1);
    }

    #[inline]
    fn data(&self, buffer: u32) -> NonNull<u8> {
        let i = (buffer - self.first) as usize;
        assert!(i < self.free.len());
        // SAFETY: the mapping holds `free.len()` buffers of `stride` bytes from `base`, and `i` is below that number.
        unsafe { self.base.add(i * self.stride) }
    }
}

/// Packet memory of one lane. Neither `Send` nor `Sync`.
pub struct Pool {
    map: NonNull<u8>,
    map_len: usize,
    small: Class,
    large: Option<Class>,
    /// Bytes at the start of each buffer that are not the packet's: what the kernel writes in front of it.
    headroom: usize,
    /// Frames (or the receiver) that hold each buffer.
    holders: Box<[Cell<u32>]>,
    meta: RawArray<Meta>,
}

/// Bytes from one buffer to the next: an odd number of cache lines, so that the heads of consecutive buffers do not
/// fall into the same sets of the cache.
fn stride_of(capacity: usize) -> usize {
    (capacity.max(64).div_ceil(64) | 1) * 64
}

impl Pool {
    /// `small` buffers for packets of `capacity` bytes, and `large` buffers (0: none) for coalesced ones, each with
    /// `headroom` bytes in front, which are the kernel's.
    ///
    /// # Errors
    /// When there is no such memory.
    pub fn new(small: u32, capacity: usize, large: u32, headroom: usize) -> io::Result<Self> {
        let large_capacity = if large > 0 { SUPER_BYTES + headroom } else { 0 };
        Self::of_sizes((small, capacity + headroom), (large, large_capacity), headroom)
    }

    /// Buffers of two classes: how many, and how many bytes each with its headroom.
    fn of_sizes(
        (small, capacity): (u32, usize),
        (large, large_capacity): (u32, usize),
        headroom: usize,
    ) -> io::Result<Self> {
        let (stride, large_stride) = (stride_of(capacity), stride_of(large_capacity));
        let small_len = small as usize * stride;
        let map_len = small_len + large as usize * large_stride;
        // SAFETY: an anonymous private mapping at an address of the kernel's choice touches no existing memory.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                map_len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = NonNull::new(map.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: `small_len` is within the mapping (or its end when there are no large buffers, then never used).
        let large_base = unsafe { map.add(small_len) };
        Ok(Self {
            map,
            map_len,
            small: Class::new(map, 0, small, stride, capacity),
            headroom,
            large: (large > 0).then(|| Class::new(large_base, small, large, large_stride, large_capacity)),
            holders: (0..small + large).map(|_| Cell::new(0)).collect(),
            meta: RawArray::new((small + large) as usize, NO_META),
        })
    }

    fn class_of(&self, buffer: u32) -> &Class {
        match &self.large {
            Some(large) if buffer >= large.first => large,
            _ => &self.small,
        }
    }

    /// Class of the buffers that the kernel fills.
    fn rx_class(&self) -> &Class {
        self.large.as_ref().unwrap_or(&self.small)
    }

    /// Bytes that a buffer for receiving holds, with its headroom.
    pub fn rx_capacity(&self) -> usize {
        self.rx_class().capacity
    }

    /// Takes a buffer for the kernel to fill; the caller holds it, once.
    #[inline]
    pub fn take_rx(&self) -> Option<(u32, NonNull<u8>)> {
        let class = self.rx_class();
        let buffer = class.pop()?;
        self.holders[buffer as usize].set(1);
        Some((buffer, class.data(buffer)))
    }

    /// Takes an empty frame.
    #[inline]
    pub fn take_frame(&self) -> Option<SocketFrame<'_>> {
        let buffer = self.small.pop()?;
        self.holders[buffer as usize].set(1);
        // SAFETY: nobody else holds this buffer, so nobody (the kernel included) reads or writes its meta data.
        unsafe {
            let meta = self.meta.at(buffer as usize);
            (*meta).peer.len = 0;
            (*meta).ttl = 0;
        }
        let capacity = (self.small.capacity - self.headroom) as u32;
        Some(SocketFrame {
            pool: self,
            // SAFETY: the headroom is within the buffer, whose capacity includes it.
            data: unsafe { self.small.data(buffer).add(self.headroom) },
            len: capacity,
            capacity,
            buffer,
            flow: NO_FLOW,
            cut: 0,
        })
    }

    /// Makes the one holder of `buffer` into `n`.
    #[inline]
    pub fn share(&self, buffer: u32, n: u32) {
        debug_assert!(self.holders[buffer as usize].get() == 1 && n >= 1);
        self.holders[buffer as usize].set(n);
    }

    /// Gives up one hold of `buffer`.
    #[inline]
    pub fn release(&self, buffer: u32) {
        let holders = &self.holders[buffer as usize];
        let left = holders.get() - 1;
        holders.set(left);
        if left == 0 {
            self.class_of(buffer).push(buffer);
        }
    }

    /// Address information of `buffer`.
    #[inline]
    pub fn meta(&self, buffer: u32) -> *mut Meta {
        self.meta.at(buffer as usize)
    }

    /// A frame over `len` bytes at `offset` of `buffer`, with room for `capacity`.
    ///
    /// # Safety
    /// The caller passes on one of its holds of `buffer`, and no other frame covers these bytes.
    #[inline]
    pub unsafe fn frame(
        &self,
        buffer: u32,
        offset: usize,
        len: usize,
        capacity: usize,
        flow: u32,
        cut: u32,
    ) -> SocketFrame<'_> {
        let class = self.class_of(buffer);
        assert!(len <= capacity && offset + capacity <= class.capacity);
        // SAFETY: `offset` is within the buffer, by the assertion.
        let data = unsafe { class.data(buffer).add(offset) };
        SocketFrame {
            pool: self,
            data,
            len: len as u32,
            capacity: capacity as u32,
            buffer,
            flow,
            cut,
        }
    }

    /// Start of `buffer`, its headroom included.
    #[inline]
    pub fn data(&self, buffer: u32) -> NonNull<u8> {
        self.class_of(buffer).data(buffer)
    }

    /// Number of buffers.
    pub fn buffers(&self) -> u32 {
        self.holders.len() as u32
    }

    /// Returns how often a buffer is held: by frames, by the kernel, by code that took its number. 0: it is free.
    pub fn holders(&self, buffer: u32) -> u32 {
        self.holders[buffer as usize].get()
    }

    /// The numbers of the free buffers.
    pub fn free_buffers(&self) -> impl Iterator<Item = u32> + '_ {
        let of = |class: &Class| {
            class.free[..class.free_len.get()]
                .iter()
                .map(Cell::get)
                .collect::<Vec<_>>()
        };
        of(&self.small)
            .into_iter()
            .chain(self.large.as_ref().map(of).unwrap_or_default())
    }

    #[cfg(test)]
    fn free(&self) -> (usize, usize) {
        (
            self.small.free_len.get(),
            self.large.as_ref().map_or(0, |c| c.free_len.get()),
        )
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length; frames borrow the pool, so none is left.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.map_len) };
    }
}

/// One UDP payload in a buffer of a [`Pool`]. Move-only, bound to its pool, and to its pool's thread.
pub struct SocketFrame<'p> {
    pool: &'p Pool,
    data: NonNull<u8>,
    len: u32,
    capacity: u32,
    buffer: u32,
    /// The flow that it is of; [`NO_FLOW`]: none.
    pub flow: u32,
    /// Bytes that did not fit on receipt.
    cut: u32,
}

impl SocketFrame<'_> {
    /// Returns the number of the buffer. The caller holds the buffer once, and must release it ([`Pool::release`]).
    #[inline]
    pub fn into_buffer(self) -> u32 {
        let buffer = self.buffer;
        std::mem::forget(self);
        buffer
    }

    /// Start of the packet's bytes.
    #[inline]
    pub fn data(&self) -> *mut u8 {
        self.data.as_ptr()
    }

    /// Number of the packet's bytes.
    #[expect(clippy::len_without_is_empty, reason = "a packet of no bytes is a packet")]
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Address information of the buffer; only the kernel, before this frame was made, writes it.
    #[inline]
    pub fn meta(&self) -> &Meta {
        // SAFETY: `buffer` is held by this frame, so it is not posted to the kernel, and nothing writes its meta data
        // until the last holder gives it back.
        unsafe { &*self.pool.meta(self.buffer) }
    }

    /// Whether both frames lie in the same buffer.
    #[inline]
    pub fn same_buffer(&self, other: &Self) -> bool {
        self.buffer == other.buffer && std::ptr::eq(self.pool, other.pool)
    }
}

impl Frame for SocketFrame<'_> {
    #[inline]
    fn bytes(&self) -> &[u8] {
        // SAFETY: the frame owns `capacity >= len` bytes at `data`, which are initialised (the mapping starts zeroed)
        // and within the mapping, which the pool's lifetime keeps; no other frame covers them.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len as usize) }
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len as usize) }
    }

    #[inline]
    fn capacity(&self) -> usize {
        self.capacity as usize
    }

    #[inline]
    fn set_len(&mut self, len: usize) {
        self.len = len.min(self.capacity as usize) as u32;
        self.cut = 0;
    }

    #[inline]
    fn flow(&self) -> Option<u32> {
        (self.flow != NO_FLOW).then_some(self.flow)
    }

    #[inline]
    fn set_flow(&mut self, flow: u32) {
        self.flow = flow;
    }

    #[inline]
    fn rx_time_ns(&self) -> Option<u64> {
        Some(self.meta().rx_time_ns).filter(|ns| *ns > 0)
    }

    /// The kernel delivers nothing with a wrong checksum.
    fn rx_checksum(&self) -> RxChecksum {
        RxChecksum::Good
    }

    fn wire_len(&self) -> usize {
        self.len as usize + self.cut as usize
    }

    #[inline]
    fn peer(&self) -> Option<SocketAddr> {
        self.meta().peer.get()
    }

    #[inline]
    fn ttl(&self) -> Option<u8> {
        Some(self.meta().ttl).filter(|ttl| *ttl > 0)
    }

    #[inline]
    fn to_group(&self) -> bool {
        self.meta().to_group
    }
}

impl Drop for SocketFrame<'_> {
    #[inline]
    fn drop(&mut self) {
        self.pool.release(self.buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buffers_come_back_and_do_not_overlap() {
        let pool = Pool::of_sizes((8, 100), (2, 1000), 0).expect("pool");
        for _ in 0..3 {
            let mut frames: Vec<_> = std::iter::from_fn(|| pool.take_frame()).collect();
            assert_eq!(frames.len(), 8);
            for (i, f) in frames.iter_mut().enumerate() {
                assert_eq!(f.bytes().len(), 100);
                f.bytes_mut().fill(i as u8);
            }
            assert!(
                frames
                    .iter()
                    .enumerate()
                    .all(|(i, f)| f.bytes().iter().all(|&b| b == i as u8))
            );
            assert_eq!(pool.free(), (0, 2));
            drop(frames);
            assert_eq!(pool.free(), (8, 2));
        }
    }

    #[test]
    fn a_length_above_the_capacity_is_clamped() {
        let pool = Pool::new(1, 100, 0, 0).expect("pool");
        let mut f = pool.take_frame().expect("frame");
        f.set_len(1000);
        assert_eq!((f.bytes().len(), f.wire_len()), (100, 100));
    }

    proptest! {
        #[test]
        fn a_shared_buffer_is_free_again_when_its_last_frame_is_gone(n in 1usize..100, order in any::<u64>()) {
            let pool = Pool::of_sizes((1, 64), (1, 10_000), 0).expect("pool");
            let (buffer, _) = pool.take_rx().expect("buffer");
            pool.share(buffer, n as u32);
            // SAFETY: the one hold was made into `n`, each passed to one frame, over disjoint bytes.
            let mut frames: Vec<_> = (0..n).map(|i| unsafe { pool.frame(buffer, i * 100, 100, 100, 0, 0) }).collect();
            let mut seed = order;
            while !frames.is_empty() {
                prop_assert_eq!(pool.free().1, 0);
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
                frames.swap_remove((seed >> 33) as usize % frames.len());
            }
            prop_assert_eq!(pool.free().1, 1);
        }
    }
}
