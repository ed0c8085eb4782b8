//! Array maps of BPF programs, mapped into our memory: counters of the programs in the kernel are read, and settings
//! for them written, without a system call.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// A type that may lie in memory that programs in the kernel write to while we read.
///
/// # Safety
/// All fields are atomics (or arrays of such, or of types with this property) without padding between them, so that any
/// byte pattern is a value and no access races. `repr(C)`, at most 8-byte aligned fields.
pub unsafe trait Shared {}

// SAFETY: an atomic.
unsafe impl Shared for AtomicU64 {}

/// The elements of an array map, in our memory.
#[derive(Debug)]
pub struct Mapping<T: Shared> {
    at: NonNull<T>,
    count: usize,
    bytes: usize,
}

// SAFETY: it owns its mapping, and `Shared` types are read and written through atomics only.
unsafe impl<T: Shared> Send for Mapping<T> {}
// SAFETY: as above.
unsafe impl<T: Shared> Sync for Mapping<T> {}

impl<T: Shared> Mapping<T> {
    /// Maps an array map made with `BPF_F_MMAPABLE` whose elements are of this type; `count` of them.
    ///
    /// # Errors
    /// When the kernel refuses: the map is shorter, or was not made to be mapped.
    pub fn new(map: BorrowedFd<'_>, count: usize) -> io::Result<Mapping<T>> {
        // The kernel rounds the size of an element up to 8 bytes.
        const { assert!(size_of::<T>().is_multiple_of(8) && align_of::<T>() <= 64) };
        let bytes = count
            .checked_mul(size_of::<T>())
            .and_then(|bytes| bytes.checked_next_multiple_of(page_size()));
        let bytes = bytes.ok_or(io::ErrorKind::OutOfMemory)?;
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

    /// Makes every element as it was when the map was made. What a program writes meanwhile is lost or left.
    ///
    /// # Safety
    /// No thread of this process reads or writes an element meanwhile: it does so in words, whatever the fields are.
    pub unsafe fn clear(&self) {
        let words = self.count * size_of::<T>() / size_of::<AtomicU64>();
        // SAFETY: the caller has it to itself in this process. The mapping begins at a page and holds that many words
        // until it is dropped; the kernel changes them as `Shared` allows.
        let words = unsafe { std::slice::from_raw_parts(self.at.as_ptr().cast::<AtomicU64>(), words) };
        // A page that nobody has written stays untouched.
        words
            .iter()
            .filter(|word| word.load(Relaxed) != 0)
            .for_each(|word| word.store(0, Relaxed));
    }
}

impl<T: Shared> std::ops::Deref for Mapping<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds `count` elements until it is dropped, begins at a page, and any bytes are a value
        // of a `Shared` type, no matter who changes them.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.count) }
    }
}

impl<T: Shared> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: our own mapping, of this length, to which no reference is left.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

fn page_size() -> usize {
    // SAFETY: no arguments beyond a constant.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn what_was_written_is_there_until_it_is_cleared_and_a_second_mapping_sees_the_same() {
        // Memory with a file descriptor, in place of a map, which takes a privilege to make.
        let file = rustix::fs::memfd_create("map", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
        rustix::fs::ftruncate(&file, 2 * page_size() as u64).expect("its size");
        let words = page_size() / 8 + 1;
        let map = Mapping::<AtomicU64>::new(file.as_fd(), words).expect("a mapping");
        let other = Mapping::<AtomicU64>::new(file.as_fd(), words).expect("a mapping");
        assert_eq!(map.len(), words);
        map[words - 1].store(7, Relaxed);
        assert_eq!((other[words - 1].load(Relaxed), other[0].load(Relaxed)), (7, 0));
        // SAFETY: there is no other thread.
        unsafe { map.clear() };
        assert!(other.iter().all(|word| word.load(Relaxed) == 0));
        drop(map);
        other[0].store(1, Relaxed);
    }

    #[test]
    fn what_no_memory_holds_is_refused() {
        let file = rustix::fs::memfd_create("map", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
        assert!(Mapping::<AtomicU64>::new(file.as_fd(), usize::MAX).is_err());
        assert!(Mapping::<AtomicU64>::new(file.as_fd(), usize::MAX / 8).is_err());
    }
}
