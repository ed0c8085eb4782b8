//! The account of a UMEM's chunks at teardown.

use std::fmt;

/// Last known place of each chunk of a UMEM: [`crate::Umem::audit`].
///
/// A chunk is in exactly one place at a time. The account is drawn from what pools and rings held when they were
/// dropped, and from how far the kernel had come with each ring. With nothing left open, every chunk is in one of the
/// places below, and [`Audit::is_exact`] says that none was lost or seen twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// All chunks of the UMEM.
    pub frames: u64,
    /// Never given to a pool.
    pub unused: u64,
    /// In the free list of a pool.
    pub free: u64,
    /// In a fill ring: not yet taken by the kernel.
    pub fill: u64,
    /// In an RX ring: received by the kernel and not by us.
    pub rx: u64,
    /// In a TX ring: not yet taken by the kernel.
    pub tx: u64,
    /// In a completion ring: sent by the kernel and not taken back by us.
    pub completion: u64,
    /// Within the kernel or the device, between two rings, or refused by the kernel, which then gives no word of it.
    pub kernel: u64,
    /// With pools and sockets that are still open; 0 when there are none.
    pub in_use: u64,
    /// Nowhere, with nothing left open: frames that were leaked (`std::mem::forget`).
    pub lost: u64,
    /// Seen in two places.
    pub duplicated: u64,
    /// Descriptors from the kernel that named no chunk of this UMEM.
    pub bad_descriptors: u64,
}

impl Audit {
    /// True when nothing is open and every chunk was found in one place, and in no more than one.
    pub fn is_exact(&self) -> bool {
        self.in_use == 0 && self.lost == 0 && self.duplicated == 0 && self.bad_descriptors == 0
    }
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            frames,
            unused,
            free,
            fill,
            rx,
            tx,
            completion,
            kernel,
            in_use,
            lost,
            duplicated,
            bad_descriptors,
        } = self;
        write!(
            f,
            "{frames} frames: {unused} unused, {free} free, {fill} fill, {rx} RX, {tx} TX, {completion} completion, \
             {kernel} kernel, {in_use} in use, {lost} lost, {duplicated} duplicated; {bad_descriptors} bad descriptors"
        )
    }
}
