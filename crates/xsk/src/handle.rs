//! State shared by the two halves of a socket: the rings' addresses and the kernel behind them.

use crate::abi::Desc;
use crate::ring::{Consumer, Producer, RingMap};
use crate::socket::LinuxSocket;
use crate::sync::{AtomicU32, Ordering};
use crate::teardown::{Marks, remains};
use crate::{RxHalf, TxHalf, Umem};
use std::io;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

/// The rings of a socket. One that is `None` isn't there: no RX or TX wanted, or (fill, completion) shared with another
/// socket on the same queue, which fills and reclaims for both.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rings {
    /// Chunks for the kernel to receive into.
    pub(crate) fill: Option<RingMap<u64>>,
    /// Chunks that the kernel has sent.
    pub(crate) completion: Option<RingMap<u64>>,
    /// Received packets.
    pub(crate) rx: Option<RingMap<Desc>>,
    /// Packets to be sent.
    pub(crate) tx: Option<RingMap<Desc>>,
}

/// The kernel behind a socket.
#[derive(Debug)]
pub(crate) enum Kernel {
    /// The real one. Owns the descriptor and the mappings of the rings.
    Linux(LinuxSocket),
    /// One in memory.
    #[cfg(any(test, feature = "fake"))]
    Fake(Arc<crate::fake::FakeQueue>),
}

/// Readiness of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// There is something to receive.
    pub rx: bool,
    /// There is room to transmit.
    pub tx: bool,
}

impl Kernel {
    /// Makes the kernel look at the TX ring.
    pub(crate) fn wake_tx(&self) -> io::Result<()> {
        match self {
            Self::Linux(socket) => socket.wake_tx(),
            #[cfg(any(test, feature = "fake"))]
            Self::Fake(queue) => queue.wake_tx(),
        }
    }

    /// Makes the kernel look at the fill ring (and, busy polling, at the device).
    pub(crate) fn wake_rx(&self) -> io::Result<()> {
        match self {
            Self::Linux(socket) => socket.wake_rx(),
            #[cfg(any(test, feature = "fake"))]
            Self::Fake(queue) => queue.wake_rx(),
        }
    }

    /// Sleeps until the socket is ready for what is asked for, or the time is over (then neither is set).
    pub(crate) fn poll(&self, want: Ready, timeout: Duration) -> io::Result<Ready> {
        match self {
            Self::Linux(socket) => socket.poll(want, timeout),
            #[cfg(any(test, feature = "fake"))]
            Self::Fake(queue) => queue.poll(want, timeout),
        }
    }
}

/// Options in force since binding, as far as the rings' users must know.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traits {
    /// The device reads and writes the UMEM itself.
    pub(crate) zero_copy: bool,
    /// The rings' flags say when a wake-up is needed.
    pub(crate) need_wakeup: bool,
    /// Packets may span several descriptors.
    pub(crate) multi_buffer: bool,
}

/// State shared by both halves of a socket. Dropped last: accounts for the chunks in the rings, then closes the
/// descriptor and unmaps the rings.
#[derive(Debug)]
pub(crate) struct Handle {
    /// Dropped by hand, after the rings are read and before the ledger is updated.
    pub(crate) kernel: ManuallyDrop<Kernel>,
    pub(crate) umem: Arc<Umem>,
    pub(crate) rings: Rings,
    /// Indices of the rings when the socket was made.
    pub(crate) start: Marks,
    /// "veth0 queue 0".
    pub(crate) name: Arc<str>,
    pub(crate) traits: Traits,
    /// Descriptors of the RX and completion rings that named no chunk of ours.
    pub(crate) bad_rx: AtomicU64,
    pub(crate) bad_completion: AtomicU64,
    split: AtomicBool,
}

impl Handle {
    /// Puts a socket together from its parts.
    ///
    /// # Safety
    /// `rings` describe rings that `kernel` keeps in memory for as long as it lives, laid out as the fields say (each
    /// index and the flags aligned for `u32`, the entries for their type, `size` entries, a power of two), whose other
    /// side is that kernel; and nobody else uses our side of them.
    pub(crate) unsafe fn new(
        umem: Arc<Umem>,
        rings: Rings,
        kernel: Kernel,
        traits: Traits,
        name: Arc<str>,
    ) -> Arc<Self> {
        // SAFETY: the rings are there (caller).
        let start = unsafe { Marks::read(&rings) };
        umem.ledger().open_socket();
        Arc::new(Self {
            umem,
            rings,
            start,
            name,
            traits,
            bad_rx: AtomicU64::new(0),
            bad_completion: AtomicU64::new(0),
            split: AtomicBool::new(false),
            kernel: ManuallyDrop::new(kernel),
        })
    }

    /// The two halves, which exist once: `None` when they were taken before.
    pub(crate) fn split(self: &Arc<Self>) -> Option<(RxHalf, TxHalf)> {
        if self.split.swap(true, Ordering::AcqRel) {
            return None;
        }
        let Rings {
            fill,
            completion,
            rx,
            tx,
        } = self.rings;
        // SAFETY: the rings' memory lives as long as this handle, which each half holds (new), or forever (absent). The
        // flag just set makes these the only producers and consumers on our side.
        unsafe {
            let rx_side = Consumer::new(rx.unwrap_or_else(absent));
            let fill_side = Producer::new(fill.unwrap_or_else(absent));
            let tx_side = Producer::new(tx.unwrap_or_else(absent));
            let completion_side = Consumer::new(completion.unwrap_or_else(absent));
            Some((
                RxHalf::new(self.clone(), rx_side, fill_side),
                TxHalf::new(self.clone(), tx_side, completion_side),
            ))
        }
    }
}

/// A ring that isn't there: never has an entry, never has room.
fn absent<T>() -> RingMap<T> {
    static WORDS: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];
    RingMap {
        producer: NonNull::from(&WORDS[0]),
        consumer: NonNull::from(&WORDS[1]),
        flags: NonNull::from(&WORDS[2]),
        entries: NonNull::dangling(),
        size: 0,
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let remains = remains(self);
        #[cfg(any(test, feature = "fake"))]
        if let Kernel::Fake(queue) = &*self.kernel {
            queue.close();
        }
        // SAFETY: dropped here and nowhere else, and not used after: only now is the socket closed, and its chunks
        // become available to others.
        unsafe { ManuallyDrop::drop(&mut self.kernel) };
        self.umem.ledger().close_socket(remains);
    }
}
