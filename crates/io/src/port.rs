//! A port: a device opened through a path.

use crate::around::Watch;
use crate::{Capabilities, Queue, Result};

/// Roles of a lane's queue: paths open only what is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles {
    /// The lane receives.
    pub rx: bool,
    /// The lane transmits test traffic.
    pub tx: bool,
}

/// A fact about an opened port, for the report: what was asked for and what was got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Short snake_case name, unit in the name (`rcvbuf_bytes`).
    pub name: &'static str,
    /// Value, as text.
    pub value: String,
    /// The screen shows this fact, too, in a full summary; the JSON has every fact.
    pub shown: bool,
}

impl Fact {
    /// A fact for the JSON.
    pub fn new(name: &'static str, value: impl Into<String>) -> Self {
        Self {
            name,
            value: value.into(),
            shown: false,
        }
    }

    /// A fact for the screen, too: one of the few that explain a result.
    pub fn shown(name: &'static str, value: impl Into<String>) -> Self {
        Self {
            shown: true,
            ..Self::new(name, value)
        }
    }
}

/// Counters that the kernel or device keeps for one queue; totals since the port was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Packets that this host received and dropped before mpps could take them: socket buffer or ring full.
    pub rx_dropped: u64,
    /// Packets accepted by [`Queue::transmit`] that the kernel or device then refused: packets of this port only.
    pub tx_failed: u64,
    /// Further counters: snake_case name and total. The verdict judges those that [`crate::counter`] names.
    pub other: Vec<(&'static str, u64)>,
}

/// A device opened through a path, with its queues and capabilities. Shared by all lanes and the collector.
///
/// The collector knows ports as `dyn Port`. Lanes know their types: memory and queues are of types of the path's own.
pub trait Port: Sync {
    /// Packet memory of one lane. Need not be `Sync` or `Send`: a lane makes it on its own thread.
    type Pool
    where
        Self: Sized;
    /// One lane's queue over its pool.
    type Queue<'p>: Queue
    where
        Self: Sized + 'p;

    /// Returns the capabilities of the path on this device.
    fn capabilities(&self) -> &Capabilities;

    /// Makes the packet memory of queue `queue`. Called once per queue, on the lane's thread, before any packet moves.
    ///
    /// # Errors
    /// When memory or rings are not available.
    fn pool(&self, queue: usize) -> Result<Self::Pool>
    where
        Self: Sized;

    /// Takes queue `queue` into use. The lane calls this once, after [`Port::pool`].
    ///
    /// # Errors
    /// When the queue does not exist or is taken.
    fn queue<'p>(&'p self, queue: usize, pool: &'p Self::Pool) -> Result<Self::Queue<'p>>
    where
        Self: Sized;

    /// Whether queues of this port and of `other` can be over one pool: the pool of either, given to [`Port::queue`] of
    /// both. A frame received on one may then be transmitted on the other without a copy.
    fn shares_pools_with(&self, _other: &Self) -> bool
    where
        Self: Sized,
    {
        false
    }

    /// Reads the kernel's counters of queue `queue`. Off the packet path: called by the collector from time to time
    /// and once more after the lanes have ended.
    fn counters(&self, queue: usize) -> QueueCounters;

    /// Returns the number of packets of queue `queue` that this host dropped ([`QueueCounters::rx_dropped`]); `None` if
    /// the path does not know. The collector calls it for each row, some ten times a second: it must need few system
    /// calls and no allocation. The number may lag behind, except in [`Port::counters`] after the lanes have ended.
    fn rx_dropped(&self, queue: usize) -> Option<u64> {
        Some(self.counters(queue).rx_dropped)
    }

    /// Whether [`Port::rx_dropped`] counts the drops of each queue; if not, its first queue has the drops of the whole
    /// port.
    fn drops_by_queue(&self) -> bool {
        true
    }

    /// Whether frames that are received carry the time of their arrival ([`crate::Frame::rx_time_ns`]).
    fn times_arrivals(&self) -> bool {
        false
    }

    /// Whether a drop that [`QueueCounters::rx_dropped`] counts may be one of many packets, which came as one.
    fn coalesces(&self) -> bool {
        false
    }

    /// Watches of the interfaces that the port's packets leave by; none if it has none. Made once per trial, before
    /// its start.
    fn watches(&self) -> Vec<Box<dyn Watch>> {
        Vec::new()
    }

    /// Facts for the report (real buffer sizes, ring sizes, mode, driver).
    fn facts(&self) -> Vec<Fact>;
}
