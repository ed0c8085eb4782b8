//! The shape of a packet ring, and the memory behind rings and pools.

use crate::abi::ETH_HLEN;
use crate::{Config, MergedFrames};
use mpps_netdev::NetDev;
use std::io;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

/// Smallest block: 64 KiB is sixteen pages, which the kernel finds even in fragmented memory.
const BLOCK_MIN: usize = 64 << 10;

/// Memory that a ring of default size may take.
const DEFAULT_BYTES_MAX: usize = 64 << 20;

/// How a ring's slots lie in its blocks (`struct tpacket_req`): slots do not cross blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Bytes from one slot to the next within a block.
    pub(crate) slot: usize,
    /// Bytes of a block.
    pub(crate) block: usize,
    per_block: usize,
    blocks: usize,
}

/// One slot of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// Bytes from the start of the ring's memory to the slot.
    pub(crate) offset: usize,
    in_block: usize,
    block: usize,
}

impl Geometry {
    /// A ring of `wanted` slots of at least `slot` bytes; rounded up to whole blocks. Without `wanted`, `default`
    /// slots or as many as 64 MiB hold.
    pub(crate) fn new(slot: usize, wanted: Option<u32>, default: usize) -> Self {
        // An odd number of cache lines: with a power of two, the headers of all slots would share a few cache sets.
        let slot = (slot.div_ceil(64) | 1) * 64;
        let block = slot.next_power_of_two().max(BLOCK_MIN);
        let per_block = block / slot;
        let frames = match wanted {
            Some(wanted) => wanted as usize,
            None => default.min(DEFAULT_BYTES_MAX / block * per_block).max(64),
        };
        Self {
            slot,
            block,
            per_block,
            blocks: frames.div_ceil(per_block),
        }
    }

    /// Number of slots.
    pub(crate) fn frames(&self) -> usize {
        self.per_block * self.blocks
    }

    /// Bytes of the whole ring.
    pub(crate) fn bytes(&self) -> usize {
        self.block * self.blocks
    }

    /// Returns the geometry in the kernel's form.
    pub(crate) fn request(&self) -> libc::tpacket_req {
        libc::tpacket_req {
            tp_block_size: self.block as u32,
            tp_block_nr: self.blocks as u32,
            tp_frame_size: self.slot as u32,
            tp_frame_nr: self.frames() as u32,
        }
    }

    /// The first slot.
    pub(crate) fn start(&self) -> Cursor {
        Cursor {
            offset: 0,
            in_block: 0,
            block: 0,
        }
    }

    /// The slot `n` places after `at`, around the ring.
    pub(crate) fn ahead(&self, at: Cursor, n: usize) -> Cursor {
        let place = (at.block * self.per_block + at.in_block + n) % self.frames();
        let (block, in_block) = (place / self.per_block, place % self.per_block);
        Cursor {
            offset: block * self.block + in_block * self.slot,
            in_block,
            block,
        }
    }

    /// The slot after `at`, around the ring.
    #[inline]
    pub(crate) fn next(&self, at: Cursor) -> Cursor {
        if at.in_block + 1 < self.per_block {
            Cursor {
                offset: at.offset + self.slot,
                in_block: at.in_block + 1,
                block: at.block,
            }
        } else {
            let block = if at.block + 1 == self.blocks { 0 } else { at.block + 1 };
            Cursor {
                offset: block * self.block,
                in_block: 0,
                block,
            }
        }
    }
}

/// Largest frame in bytes of a device with this MTU: Ethernet header and one VLAN tag included, FCS not.
pub(crate) const fn max_frame(mtu: usize) -> usize {
    mtu + ETH_HLEN + crate::abi::VLAN_HLEN
}

/// A ring that a port would have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSize {
    /// Number of slots.
    pub slots: usize,
    /// Bytes of one, with its part of the block.
    pub slot_bytes: usize,
}

/// The rings that a port would have, to receive and to send; `None` when its interface is not there.
pub fn ring_sizes(config: &Config) -> Option<[RingSize; 2]> {
    let frame = max_frame(NetDev::by_name(&config.device).ok()?.mtu);
    let size = |slot, default| {
        let ring = Geometry::new(slot, config.ring, default);
        RingSize {
            slots: config.ring.map_or(ring.frames(), |ring| ring as usize),
            slot_bytes: ring.block.div_ceil(ring.per_block),
        }
    };
    let split = config.merged == MergedFrames::Split;
    Some([
        size(crate::rx::slot_bytes(frame, split), crate::open::RX_FRAMES),
        size(crate::tx::slot_bytes(frame), crate::open::TX_FRAMES),
    ])
}

/// A mapping of memory, shared with the kernel or private; unmapped on drop.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is only an address range; the code that derives pointers from it is responsible for what is done
// with the memory (one queue each, see `rx` and `tx`).
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` gives out nothing but the address.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of the ring of `socket`.
    pub(crate) fn of_ring(socket: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        Self::map(len, libc::MAP_SHARED | libc::MAP_POPULATE, socket.as_raw_fd())
    }

    /// Maps `len` bytes of zeroed private memory.
    pub(crate) fn anonymous(len: usize) -> io::Result<Self> {
        Self::map(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE, -1)
    }

    fn map(len: usize, flags: libc::c_int, fd: libc::c_int) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice; it aliases nothing of ours.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                fd,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(Self { base, len })
    }

    /// The first byte. Valid for [`Mapping::len`] bytes while the mapping lives.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes mapped.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` got; pointers into it borrow the mapping's owner and are gone by now.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn slots_are_disjoint_within_blocks_and_the_cursor_visits_each_once(
            slot in 100usize..70_000,
            wanted in 64u32..2000,
        ) {
            let g = Geometry::new(slot, Some(wanted), 512);
            prop_assert!(g.slot >= slot && g.slot.is_multiple_of(64) && g.block.is_multiple_of(4096));
            prop_assert!(g.frames() >= wanted as usize);
            let mut at = g.start();
            let mut seen = std::collections::BTreeSet::new();
            for _ in 0..g.frames() {
                prop_assert_eq!(at.offset / g.block, (at.offset + g.slot - 1) / g.block);
                prop_assert!(at.offset + g.slot <= g.bytes());
                prop_assert!(seen.insert(at.offset));
                at = g.next(at);
            }
            prop_assert_eq!(at, g.start());
            let starts: Vec<_> = seen.into_iter().collect();
            prop_assert!(starts.windows(2).all(|w| w[1] - w[0] >= g.slot));
        }

        #[test]
        fn default_rings_stay_within_their_memory(mtu in 68usize..65_536) {
            let g = Geometry::new(max_frame(mtu) + 128, None, 8192);
            prop_assert!(g.bytes() <= DEFAULT_BYTES_MAX && g.frames() >= 64);
        }
    }
}
