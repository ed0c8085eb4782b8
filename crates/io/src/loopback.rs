//! The loop path: no kernel, no device. What is sent comes back, after a settable delay and with settable faults.
//!
//! The loop path proves that the statistics are exact: a run over it must report what was injected, packet for packet.
//! So the loop counts what an observer on its receiving side saw, when he saw it, and not what chance asked for: a copy
//! that found no free buffer is no duplicate, and a packet held back that nothing overtook was not reordered.
//!
//! Each queue is a loop of its own. Frames move through it and are never copied, but to duplicate them. The fate of a
//! frame is decided when it departs (a place in the device's queue, its losses and its jitter; then the faults). Only
//! `reorder` is decided when the frame would arrive.

mod config;
mod device;
mod fault;
mod frame;
mod held;
mod queue;

pub use config::{Capacity, Jitter, LoopConfig, Spread, check};
pub use fault::udp_payload;
pub use frame::{LoopFrame, LoopPool};
pub use queue::LoopQueue;

use crate::null::Claims;
use crate::{Capabilities, Fact, Layer, Port, QueueCounters, Result};
use fault::Counts;
use std::sync::atomic::AtomicU64;

/// Clock of the loop: the engine's, or a test's.
pub trait Now: Sync {
    /// Now, ns on the clock that the engine measures with; never goes back.
    fn now_ns(&self) -> u64;
}

impl<F: Fn() -> u64 + Sync> Now for F {
    #[inline]
    fn now_ns(&self) -> u64 {
        self()
    }
}

/// The loop's far end.
pub trait Turn: Sync {
    /// Memory that the far end keeps of one queue's packets.
    type Memory<'p>
    where
        Self: 'p;

    /// Memory of a queue that has sent nothing yet.
    fn memory(&self) -> Self::Memory<'_>;

    /// Turns a departing packet round as a reflector would (addresses and ports swapped); false for what a reflector
    /// would not send back.
    fn turn<'p>(memory: &mut Self::Memory<'p>, frame: &mut [u8]) -> bool
    where
        Self: 'p;
}

/// A far end that keeps nothing.
impl<F: Fn(&mut [u8]) -> bool + Sync> Turn for F {
    type Memory<'p>
        = &'p F
    where
        F: 'p;

    #[inline]
    fn memory(&self) -> &F {
        self
    }

    #[inline]
    fn turn<'p>(memory: &mut &'p F, frame: &mut [u8]) -> bool
    where
        F: 'p,
    {
        memory(frame)
    }
}

/// The device of the loop path. `N` is its clock.
pub struct LoopPort<N: Now, T: Turn> {
    config: LoopConfig,
    capabilities: Capabilities,
    claims: Claims,
    counts: Box<[Counts]>,
    /// When the first frame departed, ns; 0: none has. Outages are counted from it.
    first_ns: AtomicU64,
    clock: N,
    turn: T,
}

impl<N: Now, T: Turn> LoopPort<N, T> {
    /// A loop with `queues` queues (0 counts as 1). `turn` is applied to each Ethernet frame that departs, unless
    /// [`LoopConfig::reflect`] is off; frames for which it returns false are dropped and counted as `not_reflected`.
    pub fn new(config: LoopConfig, queues: usize, clock: N, turn: T) -> Self {
        let ethernet = config.buffers.layer == Layer::Ethernet;
        let capabilities = Capabilities {
            path: "loop",
            layer: config.buffers.layer,
            max_frame: config.buffers.max_frame(),
            mac: ethernet.then_some([2, 0, 0, 0, 0, 1]),
            tx_checksum: false,
            one_flow_per_burst: false,
            link_bps: None,
            preferred_burst: 32,
        };
        let claims = Claims::new(queues);
        let counts = (0..claims.len()).map(|_| Counts::default()).collect();
        Self {
            config,
            capabilities,
            claims,
            counts,
            first_ns: AtomicU64::new(0),
            clock,
            turn,
        }
    }
}

impl<N: Now, T: Turn> Port for LoopPort<N, T> {
    type Pool = LoopPool;
    type Queue<'p>
        = LoopQueue<'p, N, T>
    where
        Self: 'p;

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn pool(&self, queue: usize) -> Result<LoopPool> {
        self.claims.exists("make the pool of", "loop", queue)?;
        Ok(LoopPool::new(&self.config.buffers))
    }

    fn queue<'p>(&'p self, queue: usize, pool: &'p LoopPool) -> Result<LoopQueue<'p, N, T>> {
        let claim = self.claims.claim("loop", queue)?;
        let reflects = self.config.reflect && self.config.buffers.layer == Layer::Ethernet;
        Ok(LoopQueue::new(
            &self.config,
            (queue, self.claims.len()),
            pool,
            &self.clock,
            reflects.then(|| self.turn.memory()),
            (&self.counts[queue], &self.first_ns),
            claim,
        ))
    }

    fn counters(&self, queue: usize) -> QueueCounters {
        self.counts.get(queue).map(Counts::read).unwrap_or_default()
    }

    fn times_arrivals(&self) -> bool {
        self.config.takes_time()
    }

    fn facts(&self) -> Vec<Fact> {
        self.config.facts()
    }
}
