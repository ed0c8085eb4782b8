//! The UMEM: the memory that packets lie in, divided into chunks of one size.

use crate::abi::{XDP_PACKET_HEADROOM, XDP_UMEM_MIN_CHUNK_SIZE, XSK_UNALIGNED_BUF_OFFSET_SHIFT};
use crate::handle::Handle;
use crate::ledger::Ledger;
use crate::mapping::{Mapping, Pages, page_size};
use crate::owner::Owners;
use crate::{Audit, Error, Result};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Shape of a [`Umem`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UmemConfig {
    /// Number of chunks, at least 1. Each holds one frame.
    pub frames: u32,
    /// Bytes of a chunk, from 2048 to the page size. A power of two, unless `unaligned`. The kernel keeps the first 256
    /// for the XDP program and `headroom` after these; the rest is for the packet.
    pub frame_size: u32,
    /// Bytes kept free in front of the data, beside the kernel's own 256 in received frames.
    pub headroom: u32,
    /// Chunks of any size, addresses with their offset in the upper 16 bits (`XDP_UMEM_UNALIGNED_CHUNK_FLAG`).
    /// Zero-copy drivers take such chunks only in huge pages.
    pub unaligned: bool,
    /// Bytes of TX metadata in front of the data of frames to be sent: 0 (none) or a multiple of 8 from 24 to 248.
    pub tx_metadata_len: u32,
    /// In copy mode the kernel computes requested TX checksums in software (`XDP_UMEM_TX_SW_CSUM`; for tests).
    pub tx_software_checksum: bool,
    /// Kind of pages that the memory consists of.
    pub pages: Pages,
}

impl Default for UmemConfig {
    /// 8192 chunks of 2048 bytes in normal pages: 16 MiB.
    fn default() -> Self {
        Self {
            frames: 8192,
            frame_size: 2048,
            headroom: 0,
            unaligned: false,
            tx_metadata_len: 0,
            tx_software_checksum: false,
            pages: Pages::Normal,
        }
    }
}

impl UmemConfig {
    fn check(&self) -> Result<()> {
        let invalid = |what, value: u32, want: String| {
            Err(Error::Invalid {
                what,
                value: value.into(),
                want,
            })
        };
        let (min, max) = (XDP_UMEM_MIN_CHUNK_SIZE, page_size().min(1 << 15) as u32);
        if self.frames == 0 {
            return invalid("UMEM frames", self.frames, "at least 1".into());
        }
        if !(min..=max).contains(&self.frame_size) {
            return invalid("UMEM frame size", self.frame_size, format!("{min} to {max} bytes"));
        }
        if !self.unaligned && !self.frame_size.is_power_of_two() {
            let want = "a power of two, or unaligned chunks".into();
            return invalid("UMEM frame size", self.frame_size, want);
        }
        let most = self.frame_size - XDP_PACKET_HEADROOM - 1;
        if self.headroom > most {
            return invalid("UMEM headroom", self.headroom, format!("at most {most} bytes"));
        }
        let metadata = self.tx_metadata_len;
        if metadata != 0 && (!(24..256).contains(&metadata) || !metadata.is_multiple_of(8)) {
            let want = "0 or a multiple of 8 from 24 to 248 bytes".into();
            return invalid("TX metadata length", metadata, want);
        }
        Ok(())
    }

    /// Bytes of all chunks together.
    fn len(&self) -> usize {
        self.frames as usize * self.frame_size as usize
    }
}

/// Memory for packets, divided into chunks; shared by pools and sockets, which each hold it.
#[derive(Debug)]
pub struct Umem {
    config: UmemConfig,
    area: Mapping,
    layout: Layout,
    /// Last known place of each chunk that is in no open pool or ring.
    ledger: Mutex<Ledger>,
    /// In debug builds: the place of each chunk, checked with every move.
    pub(crate) owners: Owners,
    /// The sockets over this memory that are still open.
    registration: Mutex<Vec<Weak<Handle>>>,
}

impl Umem {
    /// Maps memory for `config.frames` chunks. No socket knows of it yet: the first one that is bound over it registers
    /// it with the kernel, further ones share it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a shape that no kernel takes, [`Error::NoHugePages`], or what `mmap` refuses.
    pub fn new(config: &UmemConfig) -> Result<Arc<Self>> {
        config.check()?;
        Ok(Self::over(config, Mapping::anonymous(config.len(), config.pages)?))
    }

    /// The same on the heap, for sockets over the fake kernel only; Miri can follow it.
    ///
    /// # Errors
    /// As [`Umem::new`].
    #[cfg(any(test, feature = "fake"))]
    pub fn fake(config: &UmemConfig) -> Result<Arc<Self>> {
        config.check()?;
        Ok(Self::over(config, Mapping::heap(config.len())?))
    }

    fn over(config: &UmemConfig, area: Mapping) -> Arc<Self> {
        Arc::new(Self {
            layout: Layout::new(config),
            ledger: Mutex::new(Ledger::new(config.frames)),
            owners: Owners::new(config.frames, config.frame_size),
            registration: Mutex::default(),
            config: config.clone(),
            area,
        })
    }

    /// The shape.
    pub fn config(&self) -> &UmemConfig {
        &self.config
    }

    /// Length of the memory that holds the chunks, in bytes.
    pub fn size(&self) -> usize {
        self.config.len()
    }

    /// Returns the place where every chunk was last seen. Complete once all pools and sockets over this memory have
    /// been dropped, in any order. Until then, the chunks that they hold are counted in [`Audit::in_use`].
    pub fn audit(&self) -> Audit {
        self.ledger().audit()
    }

    /// Start and length of the memory to be registered with the kernel. Valid for as long as the UMEM lives.
    pub(crate) fn area(&self) -> (NonNull<u8>, usize) {
        debug_assert!(self.config.len() <= self.area.len());
        (self.area.start(), self.config.len())
    }

    /// How addresses are made.
    #[inline]
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // The ledger's methods leave it whole at every point where they might panic.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// List of the open sockets over this memory. A thread that binds a socket holds the lock meanwhile. If no socket
    /// in the list is alive, the thread registers the memory, else it shares the registration of one that is. Then it
    /// adds its own socket.
    #[allow(dead_code, reason = "used by the Linux half")]
    pub(crate) fn registration(&self) -> &Mutex<Vec<Weak<Handle>>> {
        &self.registration
    }
}

/// How the address in a descriptor is put together from the start of a chunk and the offset of the data in it, and
/// taken apart.
///
/// Aligned chunks: the sum of both, chunk sizes being powers of two. Unaligned: the offset lies in the upper 16 bits
/// (`Documentation/networking/af_xdp.rst`, `XDP_UMEM_UNALIGNED_CHUNK_FLAG`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Bytes of a chunk.
    pub(crate) frame_size: u32,
    /// Bytes of all chunks.
    size: u64,
    /// Any size, and addresses with their offset apart.
    unaligned: bool,
    frames: u64,
    /// Exponent of the largest power of two that divides the chunk's size.
    shift: u32,
    /// Inverse, modulo 2^64, of the odd rest of the chunk's size.
    inverse: u64,
}

impl Layout {
    fn new(config: &UmemConfig) -> Self {
        let shift = config.frame_size.trailing_zeros();
        let odd = u64::from(config.frame_size >> shift);
        // Newton's iteration; an odd number is its own inverse modulo 8, and each round doubles the bits: 3 to 96.
        let inverse = (0..5).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))));
        Self {
            frame_size: config.frame_size,
            size: config.len() as u64,
            unaligned: config.unaligned,
            frames: config.frames.into(),
            shift,
            inverse,
        }
    }

    /// The address of data at `offset` in the chunk at `base`.
    #[inline(always)]
    pub(crate) fn encode(&self, base: u64, offset: u32) -> u64 {
        let shift = if self.unaligned {
            XSK_UNALIGNED_BUF_OFFSET_SHIFT
        } else {
            0
        };
        base | u64::from(offset) << shift
    }

    /// Start of the chunk and offset of the data in it; `None` unless `len` bytes of data lie within one chunk of the
    /// UMEM.
    #[inline(always)]
    pub(crate) fn decode(&self, addr: u64, len: u32) -> Option<(u64, u64)> {
        if self.unaligned {
            self.decode_in::<true>(addr, len)
        } else {
            self.decode_in::<false>(addr, len)
        }
    }

    /// The same for a loop that has asked [`Layout::is_unaligned`] before it began.
    #[inline(always)]
    pub(crate) fn decode_in<const UNALIGNED: bool>(&self, addr: u64, len: u32) -> Option<(u64, u64)> {
        let (base, offset) = self.split::<UNALIGNED>(addr);
        // Either all addresses of an aligned chunk are below the end, or none is; an unaligned address is two numbers.
        let known = if UNALIGNED {
            self.number(base) < self.frames
        } else {
            addr < self.size
        };
        // The offset is below 2^16: the rest by a power of two that is at most 2^15, or the upper 16 bits of 64.
        (known && offset + u64::from(len) <= u64::from(self.frame_size)).then_some((base, offset))
    }

    /// Start of the chunk, if there is one, and offset in it.
    #[inline(always)]
    pub(crate) fn split<const UNALIGNED: bool>(&self, addr: u64) -> (u64, u64) {
        if UNALIGNED {
            let base = addr & ((1 << XSK_UNALIGNED_BUF_OFFSET_SHIFT) - 1);
            (base, addr >> XSK_UNALIGNED_BUF_OFFSET_SHIFT)
        } else {
            let mask = u64::from(self.frame_size.wrapping_sub(1));
            (addr & !mask, addr & mask)
        }
    }

    /// Below 2^63 when a chunk starts at `base`, which [`Layout::split`] gave; else not. The results for many chunks
    /// can be joined by `|`, and need no branch.
    #[inline(always)]
    pub(crate) fn stray<const UNALIGNED: bool>(&self, base: u64) -> u64 {
        let (place, end) = if UNALIGNED {
            (self.number(base), self.frames)
        } else {
            // A multiple of the chunk's size already.
            (base, self.size)
        };
        // The subtraction borrows when the place is at the end or behind it, unless it is 2^63 and more.
        place | (end - 1).wrapping_sub(place)
    }

    /// The number of the chunk that starts at `base`; some number that no chunk has when none does.
    ///
    /// Without a division: multiplying by an odd number and rotating, modulo 2^64, give each number for one other, and
    /// they give `n` for the `n`-th multiple of the size. No other address, then, has the number of a chunk.
    #[inline(always)]
    fn number(&self, base: u64) -> u64 {
        base.wrapping_mul(self.inverse).rotate_right(self.shift)
    }

    /// Chunks need not start at multiples of a power of two.
    #[inline(always)]
    pub(crate) fn is_unaligned(&self) -> bool {
        self.unaligned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(frame_size: u32, frames: u32) -> Layout {
        Layout::new(&UmemConfig {
            frames,
            frame_size,
            unaligned: true,
            ..UmemConfig::default()
        })
    }

    #[test]
    fn only_starts_of_chunks_have_the_number_of_a_chunk() {
        for (size, frames) in [(2048, 7), (2304, 7), (3000, 5), (3001, 5), (4095, 3), (1 << 15, 4)] {
            let layout = layout(size, frames);
            for addr in 0..u64::from(size) * u64::from(frames + 2) {
                let chunk = addr.is_multiple_of(size.into()).then(|| addr / u64::from(size));
                let number = Some(layout.number(addr)).filter(|&n| n < frames.into());
                assert_eq!(number, chunk.filter(|&n| n < frames.into()), "{addr} by {size}");
            }
        }
    }

    #[test]
    fn the_last_of_very_many_chunks_is_known_and_nothing_behind_it() {
        for size in [2048, 2052, 3001, 1 << 15] {
            let layout = layout(size, u32::MAX);
            let last = u64::from(u32::MAX - 1) * u64::from(size);
            assert_eq!(layout.number(last), u64::from(u32::MAX - 1));
            let known = |base| layout.stray::<true>(base) < 1 << 63;
            assert!(known(last) && !known(last + u64::from(size)));
            assert!(!known(last + 1) && !known((1 << 48) - 1));
            assert_eq!(layout.decode(last, size), Some((last, 0)));
            assert_eq!(layout.decode(last | 9 << 48, size - 9), Some((last, 9)));
            assert_eq!(layout.decode(last | 9 << 48, size - 8), None);
        }
    }
}
