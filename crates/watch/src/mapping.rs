//! Maps of the kernel's in our memory.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// A type that may lie in memory that programs in the kernel write to while we read.
///
/// # Safety
/// All fields are atomics (or arrays of such) without padding between them, so that any byte pattern is a value and no
/// access races. `repr(C)`.
pub(crate) unsafe trait Shared {}

/// The elements of an array map, in our memory.
#[derive(Debug)]
pub(crate) struct Mapping<T: Shared> {
    at: NonNull<T>,
    count: usize,
    bytes: usize,
}

// SAFETY: it owns its mapping, and `Shared` types are read and written through atomics only.
unsafe impl<T: Shared> Send for Mapping<T> {}
// SAFETY: as above.
unsafe impl<T: Shared> Sync for Mapping<T> {}

impl<T: Shared> Mapping<T> {
    /// Maps an array map made with `BPF_F_MMAPABLE` whose elements are of this type.
    pub(crate) fn new(map: BorrowedFd<'_>, count: usize) -> io::Result<Mapping<T>> {
        // The kernel rounds the size of an element up to 8 bytes.
        const { assert!(size_of::<T>().is_multiple_of(8) && align_of::<T>() <= 64) };
        // SAFETY: no arguments beyond a constant.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let bytes = (count * size_of::<T>()).next_multiple_of(page);
        // SAFETY: a new mapping at an address of the kernel's choice. The kernel refuses a size beyond the map's.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(at.cast::<T>()).filter(|_| at != libc::MAP_FAILED) {
            Some(at) => Ok(Mapping { at, count, bytes }),
            None => Err(io::Error::last_os_error()),
        }
    }
}

impl<T: Shared> std::ops::Deref for Mapping<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds `count` elements until it is dropped, begins at a page, and any bytes are a value
        // of a `Shared` type, whoever changes them.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.count) }
    }
}

impl<T: Shared> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: our own mapping, of this length, to which no reference is left.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}
