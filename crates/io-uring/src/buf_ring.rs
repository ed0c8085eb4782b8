//! The ring of provided buffers (`IORING_REGISTER_PBUF_RING`): memory in which the kernel reads which buffers it may
//! fill. We write entries and then the tail; only completions show how far the kernel has come.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

/// One entry: `struct io_uring_buf` (linux/io_uring.h). The tail of the ring lies in `tail` of the first.
#[repr(C)]
struct Entry {
    addr: u64,
    len: u32,
    bid: u16,
    tail: AtomicU16,
}

const _: () = {
    assert!(size_of::<Entry>() == 16);
    assert!(std::mem::offset_of!(Entry, len) == 8);
    assert!(std::mem::offset_of!(Entry, bid) == 12);
    assert!(std::mem::offset_of!(Entry, tail) == 14);
};

/// Our side of the ring.
pub(crate) struct BufRing {
    base: NonNull<Entry>,
    bytes: usize,
    mask: u16,
    tail: u16,
}

impl BufRing {
    /// Memory for a ring of `entries`, a power of two up to 32,768. Nothing is registered.
    pub(crate) fn new(entries: u16) -> io::Result<Self> {
        assert!(entries.is_power_of_two());
        let bytes = usize::from(entries) * size_of::<Entry>();
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing memory.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(map.cast::<Entry>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            base,
            bytes,
            mask: entries - 1,
            tail: 0,
        })
    }

    /// Address of the ring, for registration.
    pub(crate) fn address(&self) -> u64 {
        self.base.as_ptr() as u64
    }

    /// Most buffers that it holds.
    pub(crate) fn entries(&self) -> u16 {
        self.mask + 1
    }

    /// Writes an entry behind those that are provided. The kernel does not see it before [`BufRing::publish`]. The
    /// caller provides no more than [`BufRing::entries`] at a time, and keeps the buffer until it comes back.
    #[inline]
    pub(crate) fn push(&mut self, address: *mut u8, len: u32, buffer: u16) {
        let at = usize::from(self.tail & self.mask);
        // SAFETY: `at` is below the number of entries, all within the mapping. The kernel reads entries in front of the
        // tail only, of which this is none; `tail` of the first entry is not touched here.
        unsafe {
            let entry = self.base.as_ptr().add(at);
            (&raw mut (*entry).addr).write(address as u64);
            (&raw mut (*entry).len).write(len);
            (&raw mut (*entry).bid).write(buffer);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// Shows the kernel all entries written so far.
    #[inline]
    pub(crate) fn publish(&mut self) {
        // SAFETY: the tail lies in the first entry, within the mapping; both sides reach it as an atomic. Release: the
        // kernel reads the tail with acquire (io_ring_buffer_select, io_uring/kbuf.c), and then the entries.
        unsafe { (*self.base.as_ptr()).tail.store(self.tail, Ordering::Release) };
    }
}

impl Drop for BufRing {
    /// The ring is unregistered, or the io_uring that it was registered with is closed: either was done by the owner,
    /// and the kernel holds its pages itself until then.
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length, and nothing of ours points into it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the entry that the kernel would read.
    fn entry(ring: &BufRing, at: usize) -> (u64, u32, u16) {
        // SAFETY: within the mapping, which nobody else uses in this test.
        unsafe {
            let entry = &*ring.base.as_ptr().add(at);
            (entry.addr, entry.len, entry.bid)
        }
    }

    fn tail(ring: &BufRing) -> u16 {
        // SAFETY: as above.
        unsafe { (*ring.base.as_ptr()).tail.load(Ordering::Acquire) }
    }

    #[test]
    fn entries_follow_one_another_round_the_ring_and_the_tail_past_its_end() {
        let mut ring = BufRing::new(4).expect("memory");
        for round in 0u32..40_000 {
            let mut byte = 0u8;
            ring.push(&raw mut byte, round, (round % 7) as u16);
            assert_eq!(tail(&ring), round as u16, "not seen before it is published");
            ring.publish();
            assert_eq!(tail(&ring), (round + 1) as u16);
            let at = round as usize % 4;
            assert_eq!(entry(&ring, at), (&raw mut byte as u64, round, (round % 7) as u16));
        }
    }
}
