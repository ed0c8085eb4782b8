//! The line that leads from the counter's ticks to ns, and how one thread hands it to the others.

use crate::sync::{AtomicU64, Ordering, fence};

/// Fraction bits of the scale (ns a tick).
pub(crate) const SHIFT: u32 = 32;

/// A line ns = ns0 + (tsc − tsc0) · scale / 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) tsc0: u64,
    pub(crate) ns0: u64,
    pub(crate) scale: u64,
}

impl Line {
    /// Time at a reading of the counter, ns.
    #[inline]
    pub(crate) fn at(&self, tsc: u64) -> u64 {
        // A reading can precede tsc0 by a little (taken on another core just before the line was published).
        let delta = tsc.wrapping_sub(self.tsc0) as i64;
        let ns = (i128::from(delta) * i128::from(self.scale)) >> SHIFT;
        self.ns0.wrapping_add(ns as u64)
    }
}

/// The published line. A sequence lock with one writer.
#[derive(Debug)]
pub(crate) struct Published {
    version: AtomicU64,
    tsc0: AtomicU64,
    ns0: AtomicU64,
    scale: AtomicU64,
}

impl Published {
    pub(crate) fn new(line: Line) -> Self {
        Self {
            version: AtomicU64::new(2),
            tsc0: AtomicU64::new(line.tsc0),
            ns0: AtomicU64::new(line.ns0),
            scale: AtomicU64::new(line.scale),
        }
    }

    /// Changes with each line, and is odd while one is being written.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Replaces the line. For the one writer.
    pub(crate) fn publish(&self, line: Line) {
        let version = self.version();
        self.version.store(version + 1, Ordering::Relaxed);
        // A reader that sees a part of this line also sees that the line was being written.
        fence(Ordering::Release);
        self.tsc0.store(line.tsc0, Ordering::Relaxed);
        self.ns0.store(line.ns0, Ordering::Relaxed);
        self.scale.store(line.scale, Ordering::Relaxed);
        self.version.store(version + 2, Ordering::Release);
    }

    /// The line and its version; `None` if it was being written.
    pub(crate) fn read(&self) -> Option<(u64, Line)> {
        let version = self.version.load(Ordering::Acquire);
        let line = Line {
            tsc0: self.tsc0.load(Ordering::Relaxed),
            ns0: self.ns0.load(Ordering::Relaxed),
            scale: self.scale.load(Ordering::Relaxed),
        };
        fence(Ordering::Acquire);
        (version.is_multiple_of(2) && self.version() == version).then_some((version, line))
    }
}
