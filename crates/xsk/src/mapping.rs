//! Memory obtained by `mmap`: the area that holds the packets, and the rings that the kernel lays out.

use crate::{Error, Result};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// Kind of pages that the packet memory consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pages {
    /// The system's normal pages. Needs nothing.
    #[default]
    Normal,
    /// Normal pages on a 2 MiB boundary, with the advice to use transparent huge pages. Needs nothing; what comes of it
    /// is the kernel's choice.
    Transparent,
    /// Reserved huge pages of 2 MiB. They must have been reserved.
    Huge2M,
    /// Reserved huge pages of 1 GiB. They must have been reserved.
    Huge1G,
}

impl Pages {
    /// Length of one page in bytes, which the length of the mapping is rounded up to.
    pub fn size(self) -> usize {
        match self {
            Self::Normal => page_size(),
            Self::Transparent | Self::Huge2M => 2 << 20,
            Self::Huge1G => 1 << 30,
        }
    }
}

/// The system's page size in bytes.
pub(crate) fn page_size() -> usize {
    if cfg!(miri) {
        return 4096;
    }
    // SAFETY: sysconf reads a constant of the system and touches no memory of ours.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// A range of memory of our own, given back when dropped. Readable, writable and zeroed at first; reached through the
/// raw pointer only.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// `mmap`.
    Mapped,
    /// The heap, which Miri understands.
    #[cfg(any(test, feature = "fake"))]
    Heap(std::alloc::Layout),
}

// SAFETY: the mapping owns its memory; the pointer to it is good on every thread.
unsafe impl Send for Mapping {}
// SAFETY: sharing the mapping shares an address and a length; the code that uses the memory answers for what it does.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `len` bytes of anonymous memory, rounded up to whole pages.
    pub(crate) fn anonymous(len: usize, pages: Pages) -> Result<Self> {
        let page = pages.size();
        let too_large = || {
            Error::os(
                "map",
                format!("{len} bytes"),
                io::Error::from_raw_os_error(libc::ENOMEM),
            )
        };
        let whole = len.max(1).checked_next_multiple_of(page).ok_or_else(too_large)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let anonymous = |len: usize, flags: i32| Self::map(None, 0, len, flags);
        let result = match pages {
            Pages::Normal => anonymous(whole, flags),
            Pages::Transparent => anonymous(whole + page, flags).map(|mapping| mapping.aligned(page, whole)),
            Pages::Huge2M => anonymous(whole, flags | libc::MAP_HUGETLB | libc::MAP_HUGE_2MB),
            Pages::Huge1G => anonymous(whole, flags | libc::MAP_HUGETLB | libc::MAP_HUGE_1GB),
        };
        result.map_err(|e| match pages {
            Pages::Huge2M | Pages::Huge1G => Error::NoHugePages {
                len: whole,
                page,
                count: whole / page,
                kib: page >> 10,
            },
            _ => Error::os("map", format!("{whole} bytes"), e),
        })
    }

    /// `len` bytes of a socket's rings, from `offset` (one of the `PGOFF` constants), shared with the kernel and
    /// present at once.
    pub(crate) fn ring(fd: BorrowedFd<'_>, offset: i64, len: usize) -> io::Result<Self> {
        Self::map(Some(fd), offset, len, libc::MAP_SHARED | libc::MAP_POPULATE)
    }

    /// `len` bytes of the heap on a page boundary, for a UMEM that no kernel but the fake will see.
    #[cfg(any(test, feature = "fake"))]
    pub(crate) fn heap(len: usize) -> Result<Self> {
        let layout = std::alloc::Layout::from_size_align(len.max(1), 4096).map_err(|_| Error::Invalid {
            what: "length in bytes",
            value: len as u64,
            want: "less than the address space".into(),
        })?;
        // SAFETY: the layout's size is not 0.
        let start = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
            .ok_or_else(|| Error::os("allocate", format!("{len} bytes"), io::ErrorKind::OutOfMemory.into()))?;
        Ok(Self {
            start,
            len,
            source: Source::Heap(layout),
        })
    }

    fn map(fd: Option<BorrowedFd<'_>>, offset: i64, len: usize, flags: i32) -> io::Result<Self> {
        // SAFETY: without MAP_FIXED the kernel chooses an address range that nothing of ours lies in.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                fd.map_or(-1, |fd| fd.as_raw_fd()),
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            start,
            len,
            source: Source::Mapped,
        })
    }

    /// Cuts a mapping of `len + align` bytes down to `len` bytes on a boundary of `align`, and advises huge pages.
    fn aligned(self, align: usize, len: usize) -> Self {
        let front = self.start.addr().get().next_multiple_of(align) - self.start.addr().get();
        let back = self.len - front - len;
        let whole = std::mem::ManuallyDrop::new(self);
        // SAFETY: all three ranges lie within the mapping, which is ours alone and has not been handed out; each starts
        // and ends on a page boundary, since `len`, `align` and the start of the mapping do. A failed unmapping leaves
        // the pages with us, unused; the advice is advice.
        unsafe {
            let start = whole.start.add(front);
            if front > 0 {
                libc::munmap(whole.start.as_ptr().cast(), front);
            }
            if back > 0 {
                libc::munmap(start.add(len).as_ptr().cast(), back);
            }
            libc::madvise(start.as_ptr().cast(), len, libc::MADV_HUGEPAGE);
            Self {
                start,
                len,
                source: Source::Mapped,
            }
        }
    }

    /// The first byte. Valid for reads and writes of [`Mapping::len`] bytes for as long as the mapping lives.
    #[inline]
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Length in bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        match self.source {
            // SAFETY: the range was mapped by us and is ours; each holder of pointers into it holds the mapping, too.
            Source::Mapped => unsafe {
                libc::munmap(self.start.as_ptr().cast(), self.len);
            },
            #[cfg(any(test, feature = "fake"))]
            // SAFETY: allocated by us with this layout; each holder of pointers into it holds the mapping, too.
            Source::Heap(layout) => unsafe { std::alloc::dealloc(self.start.as_ptr(), layout) },
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_writable_and_on_the_boundary_asked_for() {
        for pages in [Pages::Normal, Pages::Transparent] {
            let mapping = Mapping::anonymous(3 << 20, pages).expect("3 MiB");
            assert!(mapping.len() >= 3 << 20);
            assert_eq!(mapping.start().addr().get() % pages.size(), 0);
            // SAFETY: within the mapping, which nobody else knows.
            unsafe {
                assert_eq!(mapping.start().read(), 0);
                mapping.start().add(mapping.len() - 1).write(1);
            }
        }
    }

    #[test]
    fn huge_pages_that_are_not_there_are_refused_with_the_number_to_reserve() {
        // More than any host that runs this test has reserved.
        match Mapping::anonymous(1 << 45, Pages::Huge1G) {
            Err(e @ Error::NoHugePages { count, .. }) => {
                assert_eq!(count, 1 << 15);
                assert!(e.to_string().contains("hugepages-1048576kB"), "{e}");
            }
            other => panic!("{other:?}"),
        }
    }
}
