//! Buffers and queue ownership, shared by the paths without a kernel.

use crate::{Error, ErrorKind, Result};
use std::cell::{RefCell, RefMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// A lane's free buffers, reused last-in first-out. Made once; never grows after.
pub(crate) struct Buffers {
    free: RefCell<Vec<Box<[u8]>>>,
}

impl Buffers {
    /// `count` buffers of `size` bytes (at least 1), all of their memory touched.
    pub(crate) fn new(count: usize, size: usize) -> Self {
        // Not zero, or the allocator would leave the pages to be faulted in by the first packets.
        let free = (0..count).map(|_| vec![0xa5; size.max(1)].into_boxed_slice()).collect();
        Self {
            free: RefCell::new(free),
        }
    }

    /// The free list, for the length of one burst. No frame may be dropped meanwhile.
    #[inline]
    pub(crate) fn borrow(&self) -> RefMut<'_, Vec<Box<[u8]>>> {
        self.free.borrow_mut()
    }

    /// Takes one buffer.
    #[inline]
    pub(crate) fn take(&self) -> Option<Box<[u8]>> {
        self.free.borrow_mut().pop()
    }

    /// Gives one buffer back.
    #[inline]
    pub(crate) fn put(&self, buffer: Box<[u8]>) {
        self.free.borrow_mut().push(buffer);
    }

    /// Number of free buffers.
    #[inline]
    pub(crate) fn available(&self) -> usize {
        self.free.borrow().len()
    }
}

/// Which queues of a port are in use.
pub(crate) struct Claims {
    taken: Box<[AtomicBool]>,
}

impl Claims {
    /// For `queues` queues, at least one.
    pub(crate) fn new(queues: usize) -> Self {
        Self {
            taken: (0..queues.max(1)).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// Number of queues.
    pub(crate) fn len(&self) -> usize {
        self.taken.len()
    }

    /// Refuses a queue that the port doesn't have.
    pub(crate) fn exists(&self, op: &'static str, path: &'static str, queue: usize) -> Result<()> {
        if queue < self.len() {
            return Ok(());
        }
        let cause = format!("the port has {} queues, numbered from 0", self.len());
        Err(Error::new(
            op,
            format!("{path} queue {queue}"),
            cause,
            ErrorKind::NotFound,
        ))
    }

    /// Takes queue `queue` into use until the claim is dropped.
    pub(crate) fn claim(&self, path: &'static str, queue: usize) -> Result<Claim<'_>> {
        self.exists("open", path, queue)?;
        let taken = &self.taken[queue];
        if taken.swap(true, Ordering::Acquire) {
            let cause = "already in use by another lane";
            return Err(Error::new(
                "open",
                format!("{path} queue {queue}"),
                cause,
                ErrorKind::InUse,
            ));
        }
        Ok(Claim { taken })
    }
}

/// The right to use one queue; ends when dropped.
pub(crate) struct Claim<'p> {
    taken: &'p AtomicBool,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.taken.store(false, Ordering::Release);
    }
}
