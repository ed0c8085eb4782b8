//! A kernel in memory, for tests without root, interfaces or a kernel that knows AF_XDP; Miri can follow all of it.
//!
//! The fake keeps its side of the four rings as the kernel does. It takes chunks from the fill ring, writes packets
//! into them, and puts descriptors into the RX ring. It takes descriptors from the TX ring and gives the chunks back
//! through the completion ring. A test steps it, and can make it fail.

mod rings;

use crate::abi::{Desc, XDP_PACKET_HEADROOM, XDP_PKT_CONTD, XDP_RING_NEED_WAKEUP, XDP_TX_METADATA};
use crate::handle::{Handle, Kernel, Ready, Traits};
use crate::{RxHalf, Socket, TxHalf, Umem};
use rings::{Kernels, Memory};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Shape of a [`FakeQueue`]. Ring sizes are powers of two.
#[derive(Clone, Debug)]
pub struct FakeConfig {
    /// Entries of the RX ring.
    pub rx_ring: u32,
    /// Entries of the TX ring.
    pub tx_ring: u32,
    /// Entries of the fill ring.
    pub fill_ring: u32,
    /// Entries of the completion ring.
    pub completion_ring: u32,
    /// Initial value of the indices of all rings: near `u32::MAX`, they soon wrap.
    pub start: u32,
    /// Ask for wake-ups by the rings' flags (which the test sets), rather than always.
    pub need_wakeup: bool,
    /// Spread packets that are larger than a chunk over several descriptors.
    pub multi_buffer: bool,
    /// Behave as a device does that works on the memory itself.
    pub zero_copy: bool,
}

impl Default for FakeConfig {
    /// Rings of 64 entries, indices from 0, wake-ups always.
    fn default() -> Self {
        Self {
            rx_ring: 64,
            tx_ring: 64,
            fill_ring: 64,
            completion_ring: 64,
            start: 0,
            need_wakeup: false,
            multi_buffer: false,
            zero_copy: false,
        }
    }
}

/// Counters of a fake kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FakeCounters {
    /// Packets dropped because the fill ring was empty, or for their size.
    pub rx_dropped: u64,
    /// Packets dropped because the RX ring was full.
    pub rx_ring_full: u64,
    /// TX descriptors refused.
    pub tx_invalid: u64,
}

/// A packet that the fake kernel took from the TX ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Bytes of the packet.
    pub bytes: Vec<u8>,
    /// Options of the packet's descriptor.
    pub options: u32,
    /// TX metadata, if the options say that there is some.
    pub metadata: Vec<u8>,
}

/// The kernel's end of a fake socket's four rings.
#[derive(Debug)]
pub struct FakeQueue {
    kernel: Mutex<State>,
    memory: Memory,
    umem: Arc<Umem>,
    multi_buffer: bool,
    closed: AtomicBool,
    wake_tx_error: AtomicI32,
    wake_rx_error: AtomicI32,
    wakes: AtomicU64,
}

#[derive(Debug)]
struct State {
    rings: Kernels,
    /// Taken from the TX ring and not completed yet.
    sent: VecDeque<u64>,
    counters: FakeCounters,
    /// Receiver of the packets that a wake-up finds in the TX ring.
    peer: Option<Weak<FakeQueue>>,
}

impl Socket {
    /// A socket over a fake kernel, and that kernel.
    ///
    /// # Panics
    /// When a ring's size is not a power of two.
    pub fn fake(umem: &Arc<Umem>, config: &FakeConfig) -> (Self, Arc<FakeQueue>) {
        let (handle, queue) = FakeQueue::open(umem, config);
        (Self { handle }, queue)
    }
}

impl FakeQueue {
    /// Both halves of a socket over a fake kernel, and that kernel.
    ///
    /// # Panics
    /// When a ring's size is not a power of two.
    pub fn halves(umem: &Arc<Umem>, config: &FakeConfig) -> (RxHalf, TxHalf, Arc<Self>) {
        let (handle, queue) = Self::open(umem, config);
        let (rx, tx) = handle.split().expect("the halves of a new socket");
        (rx, tx, queue)
    }

    fn open(umem: &Arc<Umem>, config: &FakeConfig) -> (Arc<Handle>, Arc<Self>) {
        let memory = Memory::new(config);
        let queue = Arc::new(Self {
            kernel: Mutex::new(State {
                rings: memory.kernel(),
                sent: VecDeque::new(),
                counters: FakeCounters::default(),
                peer: None,
            }),
            umem: umem.clone(),
            multi_buffer: config.multi_buffer,
            closed: AtomicBool::new(false),
            wake_tx_error: AtomicI32::new(0),
            wake_rx_error: AtomicI32::new(0),
            wakes: AtomicU64::new(0),
            memory,
        });
        let traits = Traits {
            zero_copy: config.zero_copy,
            need_wakeup: config.need_wakeup,
            multi_buffer: config.multi_buffer,
        };
        let kernel = Kernel::Fake(queue.clone());
        // SAFETY: the queue, which the kernel holds, keeps the rings' memory; it uses the kernel's sides only.
        let handle = unsafe {
            Handle::new(
                umem.clone(),
                queue.memory.rings(),
                kernel,
                traits,
                "fake queue 0".into(),
            )
        };
        (handle, queue)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.kernel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives a packet: takes chunks from the fill ring, writes the packet into them, puts descriptors into the RX
    /// ring. False when it was dropped: see [`FakeQueue::counters`].
    pub fn deliver(&self, packet: &[u8]) -> bool {
        self.deliver_with(packet, &[])
    }

    /// The same, with `metadata` in front of the data, as an XDP program writes it.
    pub fn deliver_with(&self, packet: &[u8], metadata: &[u8]) -> bool {
        let mut state = self.state();
        if self.closed.load(Ordering::Acquire) {
            return false;
        }
        let config = self.umem.config();
        let offset = XDP_PACKET_HEADROOM + config.headroom;
        let space = (config.frame_size - offset) as usize;
        let pieces = packet.len().div_ceil(space).max(1);
        let State { rings, counters, .. } = &mut *state;
        if pieces > 1 && !self.multi_buffer || rings.fill.available(pieces as u32) < pieces as u32 {
            counters.rx_dropped += 1;
            return false;
        }
        if rings.rx.room(pieces as u32) < pieces as u32 {
            counters.rx_ring_full += 1;
            return false;
        }
        let mut rest = packet;
        for piece in 1..=pieces {
            let (data, others) = rest.split_at(rest.len().min(space));
            rest = others;
            let mut chunk = None;
            rings.fill.consume(1, |addr| chunk = Some(addr));
            let Some((base, _)) = chunk.and_then(|addr| self.umem.layout().decode(addr, 0)) else {
                counters.rx_dropped += 1;
                return false;
            };
            let at = base as usize + offset as usize;
            // SAFETY: the range lies in the chunk at `base` (decode; the piece fits behind the offset, and metadata is
            // cut to what is in front), which is the kernel's since it was taken from the fill ring.
            unsafe {
                let to = self.umem.area().0.add(at).as_ptr();
                data.as_ptr().copy_to_nonoverlapping(to, data.len());
                let metadata = &metadata[..metadata.len().min(offset as usize)];
                metadata
                    .as_ptr()
                    .copy_to_nonoverlapping(to.sub(metadata.len()), metadata.len());
            }
            let mut desc = Some(Desc {
                addr: self.umem.layout().encode(base, offset),
                len: data.len() as u32,
                options: if piece < pieces { XDP_PKT_CONTD } else { 0 },
            });
            rings.rx.produce(1, || desc.take());
        }
        true
    }

    /// Puts any descriptor into the RX ring, as a kernel that errs would. False when the ring is full.
    pub fn deliver_raw(&self, desc: Desc) -> bool {
        let mut desc = Some(desc);
        !self.closed.load(Ordering::Acquire) && self.state().rings.rx.produce(1, || desc.take()) == 1
    }

    /// Puts any address into the completion ring, as a kernel that errs would. False when the ring is full.
    pub fn complete_raw(&self, addr: u64) -> bool {
        let mut addr = Some(addr);
        !self.closed.load(Ordering::Acquire) && self.state().rings.completion.produce(1, || addr.take()) == 1
    }

    /// Takes all that is in the TX ring. The chunks are the kernel's until [`FakeQueue::complete`].
    pub fn take_tx(&self) -> Vec<Sent> {
        let mut state = self.state();
        if self.closed.load(Ordering::Acquire) {
            return Vec::new();
        }
        let State {
            rings, sent, counters, ..
        } = &mut *state;
        let mut packets = Vec::new();
        rings.tx.consume(u32::MAX, |desc| {
            let known = if self.multi_buffer { XDP_PKT_CONTD } else { 0 } | XDP_TX_METADATA;
            let decoded = self.umem.layout().decode(desc.addr, desc.len);
            let Some((base, offset)) = decoded.filter(|_| desc.len > 0 && desc.options & !known == 0) else {
                // Like the real kernel: refused without a completion.
                counters.tx_invalid += 1;
                return;
            };
            let metadata = if desc.options & XDP_TX_METADATA != 0 {
                self.umem.config().tx_metadata_len
            } else {
                0
            };
            let at = base as usize + offset as usize;
            // SAFETY: the ranges lie in the chunk (decode; the metadata is within the headroom), which is the kernel's
            // since it was taken from the TX ring.
            let read = |from: usize, len: u32| unsafe {
                let start = self.umem.area().0.add(from).as_ptr();
                std::slice::from_raw_parts(start, len as usize).to_vec()
            };
            let metadata = metadata.min(offset as u32);
            packets.push(Sent {
                bytes: read(at, desc.len),
                options: desc.options,
                metadata: read(at - metadata as usize, metadata),
            });
            sent.push_back(desc.addr);
        });
        packets
    }

    /// Gives up to `max` sent chunks back through the completion ring; returns how many.
    pub fn complete(&self, max: usize) -> usize {
        let mut state = self.state();
        if self.closed.load(Ordering::Acquire) {
            return 0;
        }
        let State { rings, sent, .. } = &mut *state;
        rings
            .completion
            .produce(max.min(sent.len()) as u32, || sent.pop_front()) as usize
    }

    /// From now on a wake-up for TX delivers what it finds in the TX ring to `peer` (which may be this queue), and
    /// completes it.
    pub fn connect(&self, peer: &Arc<Self>) {
        self.state().peer = Some(Arc::downgrade(peer));
    }

    /// From now on wake-ups for TX fail with this error number; 0 ends it.
    pub fn fail_wake_tx(&self, errno: i32) {
        self.wake_tx_error.store(errno, Ordering::Relaxed);
    }

    /// From now on wake-ups for RX fail with this error number; 0 ends it.
    pub fn fail_wake_rx(&self, errno: i32) {
        self.wake_rx_error.store(errno, Ordering::Relaxed);
    }

    /// Sets or clears the need-wakeup flags of the fill and TX rings.
    pub fn set_need_wakeup(&self, rx: bool, tx: bool) {
        let word = |on: bool| if on { XDP_RING_NEED_WAKEUP } else { 0 };
        self.memory.set_flags(word(rx), word(tx));
    }

    /// Wake-ups so far, of both kinds.
    pub fn wakes(&self) -> u64 {
        self.wakes.load(Ordering::Relaxed)
    }

    /// Returns the counters.
    pub fn counters(&self) -> FakeCounters {
        self.state().counters
    }

    pub(crate) fn wake_tx(&self) -> io::Result<()> {
        self.wakes.fetch_add(1, Ordering::Relaxed);
        failure(&self.wake_tx_error)?;
        let peer = self.state().peer.as_ref().and_then(Weak::upgrade);
        if let Some(peer) = peer {
            for packet in self.take_tx() {
                peer.deliver(&packet.bytes);
            }
            self.complete(usize::MAX);
        }
        Ok(())
    }

    pub(crate) fn wake_rx(&self) -> io::Result<()> {
        self.wakes.fetch_add(1, Ordering::Relaxed);
        failure(&self.wake_rx_error)
    }

    /// Never sleeps: only the test makes a difference.
    pub(crate) fn poll(&self, want: Ready, _timeout: Duration) -> io::Result<Ready> {
        let rings = &mut self.state().rings;
        Ok(Ready {
            rx: want.rx && rings.rx.pending() > 0,
            tx: want.tx && rings.tx.available(u32::MAX) < rings.tx.size(),
        })
    }

    /// The socket is closed: the chunks are others' from now on.
    pub(crate) fn close(&self) {
        // Under the lock, so that nothing is under way when this returns.
        let _state = self.state();
        self.closed.store(true, Ordering::Release);
    }
}

fn failure(errno: &AtomicI32) -> io::Result<()> {
    match errno.load(Ordering::Relaxed) {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}
