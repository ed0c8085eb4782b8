//! The null path: no kernel, no device. It discards what is sent and produces what a [`Source`] gives.
//!
//! The null path measures the ceiling of the engine: the rate that is left when I/O costs next to nothing. For that its
//! own cost must be small and known, so buffers are reused last-in first-out (the same few stay in the first-level
//! cache), the free list is borrowed once per burst, and the source is a type parameter, inlined into the receive loop.

mod config;
mod pool;

pub(crate) use config::no_device;
pub use config::{NullConfig, check};
pub(crate) use pool::{Buffers, Claim, Claims};

use crate::{Burst, Capabilities, Fact, Frame, Layer, MAX_BURST, Port, Queue, QueueCounters, Result, Wait};
use std::num::NonZeroU32;
use std::time::Duration;

/// Makes the packets that one queue of the null path receives.
pub trait Source {
    /// A burst begins: how many packets, at most `room`, may be asked for now. Called once a receive call, so that a
    /// source can read its clock once for all of them.
    #[inline]
    fn begin(&mut self, room: usize) -> usize {
        room
    }

    /// Writes the next packet into `frame` (whole capacity, stale contents) and returns its length in bytes; 0 when
    /// there is nothing now, which ends the burst.
    fn fill(&mut self, frame: &mut [u8]) -> usize;
}

/// Makes each queue's [`Source`]: any `Fn(queue) -> impl Source` that threads may share, or [`NoSource`].
pub trait Sources: Sync {
    /// The source of one queue.
    type Source: Source;

    /// The source of queue `queue`; called on the lane's own thread.
    fn source(&self, queue: usize) -> Self::Source;
}

impl<S: Source, F: Fn(usize) -> S + Sync> Sources for F {
    type Source = S;

    fn source(&self, queue: usize) -> S {
        self(queue)
    }
}

/// No packets: nothing is ever received.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSource;

impl Source for NoSource {
    #[inline]
    fn begin(&mut self, _room: usize) -> usize {
        0
    }

    #[inline]
    fn fill(&mut self, _frame: &mut [u8]) -> usize {
        0
    }
}

impl Sources for NoSource {
    type Source = NoSource;

    fn source(&self, _queue: usize) -> NoSource {
        NoSource
    }
}

/// The null device.
pub struct NullPort<S: Sources = NoSource> {
    config: NullConfig,
    capabilities: Capabilities,
    claims: Claims,
    sources: S,
}

impl<S: Sources> NullPort<S> {
    /// A null device with `queues` queues (0 counts as 1) and, on Ethernet, the address `mac`.
    pub fn new(config: NullConfig, queues: usize, mac: [u8; 6], sources: S) -> Self {
        let capabilities = Capabilities {
            path: "null",
            layer: config.layer,
            max_frame: config.max_frame(),
            mac: (config.layer == Layer::Ethernet).then_some(mac),
            tx_checksum: false,
            one_flow_per_burst: false,
            link_bps: None,
            preferred_burst: 32,
        };
        Self {
            config,
            capabilities,
            claims: Claims::new(queues),
            sources,
        }
    }
}

impl<S: Sources> Port for NullPort<S> {
    type Pool = NullPool;
    type Queue<'p>
        = NullQueue<'p, S::Source>
    where
        Self: 'p;

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn pool(&self, queue: usize) -> Result<NullPool> {
        self.claims.exists("make the pool of", "null", queue)?;
        Ok(NullPool {
            buffers: Buffers::new(self.config.frames, self.config.max_frame()),
        })
    }

    fn queue<'p>(&'p self, queue: usize, pool: &'p NullPool) -> Result<NullQueue<'p, S::Source>> {
        let claim = self.claims.claim("null", queue)?;
        Ok(NullQueue {
            pool,
            stock: Burst::new(MAX_BURST),
            source: self.sources.source(queue),
            _claim: claim,
        })
    }

    fn shares_pools_with(&self, _other: &Self) -> bool {
        true
    }

    fn counters(&self, _queue: usize) -> QueueCounters {
        QueueCounters::default()
    }

    fn facts(&self) -> Vec<Fact> {
        self.config.facts()
    }
}

/// Packet memory of one queue of the null path.
pub struct NullPool {
    buffers: Buffers,
}

/// One packet buffer of the null path.
pub struct NullFrame<'p> {
    /// Empty once the buffer has gone back to the pool.
    data: Box<[u8]>,
    pool: &'p NullPool,
    len: u32,
    /// Flow plus one, so that the frame stays within 32 bytes.
    flow: Option<NonZeroU32>,
}

impl<'p> NullFrame<'p> {
    #[inline]
    fn new(data: Box<[u8]>, pool: &'p NullPool) -> Self {
        let len = data.len() as u32;
        Self {
            data,
            pool,
            len,
            flow: None,
        }
    }
}

impl Drop for NullFrame<'_> {
    #[inline]
    fn drop(&mut self) {
        let data = std::mem::take(&mut self.data);
        if !data.is_empty() {
            self.pool.buffers.put(data);
        }
    }
}

impl Frame for NullFrame<'_> {
    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.data[..self.len as usize]
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.data[..self.len as usize]
    }

    #[inline]
    fn capacity(&self) -> usize {
        self.data.len()
    }

    #[inline]
    fn set_len(&mut self, len: usize) {
        self.len = len.min(self.data.len()) as u32;
    }

    #[inline]
    fn flow(&self) -> Option<u32> {
        self.flow.map(|flow| flow.get() - 1)
    }

    #[inline]
    fn set_flow(&mut self, flow: u32) {
        self.flow = NonZeroU32::new(flow.wrapping_add(1));
    }
}

/// One queue of the null path.
pub struct NullQueue<'p, S: Source = NoSource> {
    pool: &'p NullPool,
    /// The frames of the last burst sent: the next to be allocated, all at once if the number fits.
    stock: Burst<NullFrame<'p>>,
    source: S,
    _claim: Claim<'p>,
}

impl<'p, S: Source> Queue for NullQueue<'p, S> {
    type Frame = NullFrame<'p>;

    #[inline]
    fn receive(&mut self, burst: &mut Burst<NullFrame<'p>>) -> Result<usize> {
        let want = self.source.begin(burst.room());
        if want == 0 {
            return Ok(0);
        }
        self.stock.clear();
        let before = burst.len();
        let mut free = self.pool.buffers.borrow();
        for _ in 0..want.min(burst.room()) {
            let Some(mut data) = free.pop() else { break };
            let len = self.source.fill(&mut data);
            if len == 0 {
                free.push(data);
                break;
            }
            let mut frame = NullFrame::new(data, self.pool);
            frame.set_len(len);
            // There is room: the loop's bound says so.
            let _ = burst.push(frame);
        }
        Ok(burst.len() - before)
    }

    #[inline]
    fn allocate(&mut self, burst: &mut Burst<NullFrame<'p>>, n: usize) -> Result<usize> {
        if burst.is_empty() && self.stock.len() == n && n <= burst.limit() {
            burst.swap(&mut self.stock);
            return Ok(n);
        }
        self.stock.clear();
        let mut free = self.pool.buffers.borrow();
        let n = n.min(burst.room()).min(free.len());
        let keep = free.len() - n;
        for data in free.drain(keep..).rev() {
            let _ = burst.push(NullFrame::new(data, self.pool));
        }
        Ok(n)
    }

    #[inline]
    fn transmit(&mut self, burst: &mut Burst<NullFrame<'p>>) -> Result<usize> {
        let n = burst.len();
        self.stock.clear();
        if burst.as_slice().iter().all(|frame| std::ptr::eq(frame.pool, self.pool)) {
            // Kept whole for the next allocation.
            self.stock.swap(burst);
        } else {
            burst.clear();
        }
        Ok(n)
    }

    fn wait(&mut self, what: Wait, timeout: Duration) -> Result<()> {
        // There is always room to transmit. When a source will give its next packet isn't known: look again soon.
        if !what.tx {
            std::thread::sleep(timeout.min(Duration::from_micros(100)));
        }
        Ok(())
    }
}
