//! In debug builds, one byte per chunk records its place, and each move is checked as it happens. Release builds
//! contain none of this.

#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU8, Ordering};

/// Place of a chunk, as far as this crate knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Owner {
    /// With no pool.
    Nobody,
    /// In a free list.
    Free,
    /// In a [`crate::Frame`].
    Held,
    /// Given to the kernel to receive into: in the fill ring, the kernel or the RX ring.
    Receiving,
    /// Given to the kernel to send: in the TX ring, the kernel or the completion ring.
    Sending,
}

/// The owner of each chunk.
#[derive(Debug)]
pub(crate) struct Owners {
    #[cfg(debug_assertions)]
    table: Box<[AtomicU8]>,
    #[cfg(debug_assertions)]
    frame_size: u64,
}

#[cfg(debug_assertions)]
impl Owners {
    pub(crate) fn new(frames: u32, frame_size: u32) -> Self {
        Self {
            table: (0..frames).map(|_| AtomicU8::new(Owner::Nobody as u8)).collect(),
            frame_size: frame_size.into(),
        }
    }

    fn of(&self, base: u64) -> &AtomicU8 {
        &self.table[(base / self.frame_size) as usize]
    }

    /// Records a move that this crate makes itself.
    ///
    /// # Panics
    /// When the chunk was not where it must have been: an error in this crate.
    pub(crate) fn moved(&self, base: u64, from: Owner, to: Owner) {
        let was = self.of(base).swap(to as u8, Ordering::Relaxed);
        assert_eq!(
            was, from as u8,
            "chunk {base:#x}: moved from {from:?} to {to:?}, but was in {was}"
        );
    }

    /// Records a move that the kernel reports; false if the chunk was not with the kernel.
    pub(crate) fn arrived(&self, base: u64, from: Owner, to: Owner) -> bool {
        let (from, to) = (from as u8, to as u8);
        let result = self
            .of(base)
            .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
        result.is_ok()
    }

    /// The chunk goes back to the UMEM.
    pub(crate) fn returned(&self, base: u64) {
        self.of(base).store(Owner::Nobody as u8, Ordering::Relaxed);
    }
}

#[cfg(not(debug_assertions))]
impl Owners {
    pub(crate) fn new(_frames: u32, _frame_size: u32) -> Self {
        Self {}
    }

    #[inline(always)]
    pub(crate) fn moved(&self, _base: u64, _from: Owner, _to: Owner) {}

    #[inline(always)]
    pub(crate) fn arrived(&self, _base: u64, _from: Owner, _to: Owner) -> bool {
        true
    }

    pub(crate) fn returned(&self, _base: u64) {}
}
