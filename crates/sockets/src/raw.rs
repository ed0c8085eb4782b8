//! A fixed array reached through raw pointers only: message headers and addresses that the kernel reads and writes
//! while no Rust reference to them exists.

use std::ptr::NonNull;

/// `len` values of plain data on the heap. Its elements never move, so headers may point at one another.
pub struct RawArray<T: Copy> {
    base: NonNull<T>,
    len: usize,
}

impl<T: Copy> RawArray<T> {
    /// `len` copies of `value`.
    pub fn new(len: usize, value: T) -> Self {
        let boxed = vec![value; len].into_boxed_slice();
        let base = Box::into_raw(boxed).cast::<T>();
        // SAFETY: `Box::into_raw` never returns null.
        let base = unsafe { NonNull::new_unchecked(base) };
        Self { base, len }
    }

    /// Pointer to element `i`, valid for reads and writes while `self` lives. Panics when there is no such element.
    #[inline]
    pub fn at(&self, i: usize) -> *mut T {
        assert!(i < self.len);
        // SAFETY: `i` is within the allocation, by the assertion.
        unsafe { self.base.as_ptr().add(i) }
    }
}

impl<T: Copy> Drop for RawArray<T> {
    fn drop(&mut self) {
        let slice = std::ptr::slice_from_raw_parts_mut(self.base.as_ptr(), self.len);
        // SAFETY: `base` and `len` came from `Box::into_raw` of a boxed slice in `new`, and are freed only here.
        drop(unsafe { Box::from_raw(slice) });
    }
}

/// Control messages of one datagram: room for a segment size (24 bytes), an IPv6 packet-info (40 bytes) and a time to
/// live (24 bytes), with a time of arrival (64 bytes) in front, aligned as `cmsghdr` must be.
pub type Control = [u64; 20];

/// No control messages.
pub const EMPTY_CONTROL: Control = [0; 20];

/// A message header that names no buffers yet.
pub const EMPTY_MESSAGE: libc::mmsghdr = libc::mmsghdr {
    // SAFETY: `msghdr` consists of integers and pointers; zero is a valid value of each.
    msg_hdr: unsafe { std::mem::zeroed() },
    msg_len: 0,
};

/// An I/O vector that names no memory yet.
pub const EMPTY_VECTOR: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};
