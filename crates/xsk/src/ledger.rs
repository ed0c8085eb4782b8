//! Chunks that are available, and where the others were last seen. Off the packet path: consulted when pools and
//! sockets come and go.

use crate::{Audit, Error, Result};

/// Place of a chunk, as far as the ledger knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Never given away.
    Unused,
    /// With an open pool or socket, or lost.
    Out,
    /// Found in a pool's free list when the pool was dropped.
    Free,
    /// Found in a fill ring when the socket was closed.
    Fill,
    /// Found in an RX ring.
    Rx,
    /// Found in a TX ring.
    Tx,
    /// Found in a completion ring.
    Completion,
    /// Found in a fill ring that a device may go on reading from for a while: never used again.
    RetiredFill,
    /// Found in a TX ring that a device may go on reading from for a while: never used again.
    RetiredTx,
}

impl Place {
    /// A new pool may have the chunk.
    fn available(self) -> bool {
        !matches!(self, Self::Out | Self::RetiredFill | Self::RetiredTx)
    }
}

/// Chunks and counts that a closed socket leaves behind.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    /// Numbers of the chunks in its rings.
    pub(crate) chunks: Vec<(u32, Place)>,
    /// Chunks that it brought into the kernel and not out of it; negative when they went in by another socket's ring.
    pub(crate) kernel: i64,
    /// Descriptors that named no chunk.
    pub(crate) bad_descriptors: u64,
}

/// Account of a UMEM's chunks: one entry per chunk, and the sums of what closed sockets left behind.
#[derive(Debug)]
pub(crate) struct Ledger {
    places: Vec<Place>,
    pools: usize,
    sockets: usize,
    kernel: i64,
    duplicated: u64,
    bad_descriptors: u64,
}

impl Ledger {
    pub(crate) fn new(frames: u32) -> Self {
        Self {
            places: vec![Place::Unused; frames as usize],
            pools: 0,
            sockets: 0,
            kernel: 0,
            duplicated: 0,
            bad_descriptors: 0,
        }
    }

    /// Numbers of `n` chunks for a new pool.
    pub(crate) fn open_pool(&mut self, n: u32) -> Result<Vec<u32>> {
        let available = || (0u32..).zip(&self.places).filter(|(_, place)| place.available());
        let chunks: Vec<u32> = available().map(|(chunk, _)| chunk).take(n as usize).collect();
        if chunks.len() < n as usize {
            return Err(Error::TooSmall {
                what: "frames of the UMEM that no pool has",
                have: chunks.len() as u64,
                need: n.into(),
            });
        }
        for &chunk in &chunks {
            self.places[chunk as usize] = Place::Out;
        }
        self.pools += 1;
        Ok(chunks)
    }

    /// A pool is dropped with these chunks in its free list.
    pub(crate) fn close_pool(&mut self, chunks: impl Iterator<Item = u32>) {
        self.pools -= 1;
        for chunk in chunks {
            self.deposit(chunk, Place::Free);
        }
    }

    pub(crate) fn open_socket(&mut self) {
        self.sockets += 1;
    }

    /// A socket has been closed.
    pub(crate) fn close_socket(&mut self, remains: Remains) {
        self.sockets -= 1;
        self.kernel += remains.kernel;
        self.bad_descriptors += remains.bad_descriptors;
        for (chunk, place) in remains.chunks {
            self.deposit(chunk, place);
        }
    }

    fn deposit(&mut self, chunk: u32, place: Place) {
        match self.places.get_mut(chunk as usize) {
            Some(was @ Place::Out) => *was = place,
            _ => self.duplicated += 1,
        }
    }

    pub(crate) fn audit(&self) -> Audit {
        let count = |wanted: &[Place]| self.places.iter().filter(|place| wanted.contains(place)).count() as u64;
        let out = count(&[Place::Out]);
        let idle = self.pools == 0 && self.sockets == 0;
        let kernel = if idle {
            u64::try_from(self.kernel).unwrap_or(0).min(out)
        } else {
            0
        };
        Audit {
            frames: self.places.len() as u64,
            unused: count(&[Place::Unused]),
            free: count(&[Place::Free]),
            fill: count(&[Place::Fill, Place::RetiredFill]),
            rx: count(&[Place::Rx]),
            tx: count(&[Place::Tx, Place::RetiredTx]),
            completion: count(&[Place::Completion]),
            kernel,
            in_use: if idle { 0 } else { out },
            lost: if idle { out - kernel } else { 0 },
            duplicated: self.duplicated,
            bad_descriptors: self.bad_descriptors,
        }
    }
}
