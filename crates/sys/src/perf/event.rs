//! An event of the kernel's on a thread (`perf_event_open(2)`), and the ring of records that both sides map.

use rustix::fd::{AsFd, FromRawFd, OwnedFd};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// `PERF_TYPE_SOFTWARE`.
pub(crate) const TYPE_SOFTWARE: u32 = 1;
/// Bits of the word of flags.
pub(crate) const EXCLUDE_KERNEL: u64 = 1 << 5;
pub(crate) const EXCLUDE_HV: u64 = 1 << 6;
pub(crate) const USE_CLOCKID: u64 = 1 << 25;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOEXEC: libc::c_ulong = 8;
/// Pages of a ring beside the first: 128 KiB of 4 KiB pages, which is 0.6 s of 997 samples a second of 200 bytes, or
/// 20 ms of 200,000 switches a second. What a user may lock without privileges (`kernel.perf_event_mlock_kb`, 516 KiB a
/// core) holds three of them.
const PAGES: usize = 32;
/// Offsets of the two cursors in the first page (`struct perf_event_mmap_page`).
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

/// `struct perf_event_attr` as of `PERF_ATTR_SIZE_VER5` (Linux 4.1); the kernel takes what follows as nought.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Attr {
    pub(crate) kind: u32,
    pub(crate) size: u32,
    pub(crate) config: u64,
    /// Or the period.
    pub(crate) sample_freq: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) flags: u64,
    pub(crate) wakeup_events: u32,
    pub(crate) bp_type: u32,
    pub(crate) config1: u64,
    pub(crate) config2: u64,
    pub(crate) branch_sample_type: u64,
    pub(crate) sample_regs_user: u64,
    pub(crate) sample_stack_user: u32,
    pub(crate) clockid: i32,
    pub(crate) sample_regs_intr: u64,
    pub(crate) aux_watermark: u32,
    pub(crate) sample_max_stack: u16,
    pub(crate) reserved_2: u16,
}

const _: () = assert!(size_of::<Attr>() == 112);
const _: () = assert!(std::mem::offset_of!(Attr, flags) == 40);
const _: () = assert!(std::mem::offset_of!(Attr, clockid) == 92);
const _: () = assert!(std::mem::offset_of!(Attr, sample_max_stack) == 108);

/// Opens an event on thread `tid`, on whatever core that is.
pub(crate) fn open(attr: &Attr, tid: i32) -> io::Result<OwnedFd> {
    let (any_cpu, no_group): (libc::c_int, libc::c_int) = (-1, -1);
    // SAFETY: `attr` is a live struct of the size that it names, which the kernel only reads (it writes `size` alone,
    // and that only with E2BIG, which a size that every kernel since 4.1 knows never gives); all else is numbers.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, attr, tid, any_cpu, no_group, CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The ring that the kernel writes records to: a first page with the cursors, then the records.
#[derive(Debug)]
pub(crate) struct Ring {
    base: NonNull<u8>,
    page: usize,
}

// SAFETY: the mapping belongs to this value alone, whichever thread has it; the kernel is its only other user.
unsafe impl Send for Ring {}

impl Ring {
    pub(crate) fn map(event: &OwnedFd) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let len = (PAGES + 1) * page;
        // SAFETY: a new mapping, at a place of the kernel's choice, of memory that nothing in the program refers to.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                protection,
                MapFlags::SHARED,
                event.as_fd(),
                0,
            )?
        };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, page })
    }

    fn cursor(&self, at: usize) -> &AtomicU64 {
        // SAFETY: `at` is one of the two constants: inside the first page, aligned to 8, mapped as long as `self`, and
        // used by both sides as an atomic only.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    /// Puts what has come since the last call at the end of `into`. Returns false if the cursors made no sense: then
    /// what lay between them is left out.
    pub(crate) fn read(&mut self, into: &mut Vec<u8>) -> bool {
        let size = PAGES * self.page;
        let tail = self.cursor(DATA_TAIL).load(Ordering::Relaxed);
        // The kernel publishes records by it: `perf_output_put_handle`.
        let head = self.cursor(DATA_HEAD).load(Ordering::Acquire);
        let parts = parts(tail, head, size);
        for (start, len) in parts.into_iter().flatten() {
            into.reserve(len);
            // SAFETY: `parts` gives stretches within `size`, which is mapped behind the first page. The kernel writes
            // no byte between tail and head until the tail has moved. `into` has room for `len` more, and lies apart.
            unsafe {
                let from = self.base.as_ptr().add(self.page + start);
                std::ptr::copy_nonoverlapping(from, into.as_mut_ptr().add(into.len()), len);
                into.set_len(into.len() + len);
            }
        }
        // The bytes are copied before the kernel may write over them.
        self.cursor(DATA_TAIL).store(head, Ordering::Release);
        parts.is_some()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and no reference into it outlives `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), (PAGES + 1) * self.page) };
    }
}

/// Returns offset and length of the bytes from `tail` to `head` in a ring of `size` bytes: the part up to the ring's
/// end, and the part from its start. `None` if the ring can't hold as many.
fn parts(tail: u64, head: u64, size: usize) -> Option<[(usize, usize); 2]> {
    let len = usize::try_from(head.wrapping_sub(tail))
        .ok()
        .filter(|len| *len <= size)?;
    let start = (tail % size as u64) as usize;
    let first = len.min(size - start);
    Some([(start, first), (0, len - first)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_byte_between_the_cursors_is_read_once_and_none_outside(
            tail in any::<u64>(), len in 0_usize..10_000, pages in 1_usize..4,
        ) {
            let size = pages * 4096;
            match parts(tail, tail.wrapping_add(len as u64), size) {
                None => prop_assert!(len > size),
                Some([(start, first), (again, second)]) => {
                    prop_assert_eq!(first + second, len);
                    prop_assert_eq!(start as u64, tail % size as u64);
                    prop_assert!(start + first <= size && again == 0 && second <= start);
                }
            }
        }
    }
}
