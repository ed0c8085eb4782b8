//! A device opened through a poll-mode driver.

use crate::counters::{self, LaneCounts};
use crate::eal;
use crate::flow::Flows;
use crate::journal::MtuChange;
use crate::link::{Link, LinkWatch};
use crate::memif::Served;
use crate::pool::DpdkPool;
use crate::queue::{Calls, DpdkQueue};
use crate::{Config, Device};
use dpdk_sys as sys;
use mpps_io::around::Watch;
use mpps_io::{Capabilities, Error, ErrorKind, Fact, Mailbox, Port, QueueCounters, Result};
use mpps_netdev::Promiscuous;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Parts of the port that one lane uses.
pub(crate) struct Lane {
    pub(crate) counts: LaneCounts,
    pub(crate) rx: Option<u16>,
    pub(crate) tx: Option<u16>,
    pub(crate) mempool: NonNull<sys::RteMempool>,
    pub(crate) taken: AtomicBool,
}

/// A device opened through a poll-mode driver, started; stopped and closed when dropped.
pub struct DpdkPort {
    pub(crate) id: u16,
    pub(crate) name: Arc<str>,
    pub(crate) config: Config,
    pub(crate) driver: String,
    pub(crate) capabilities: Capabilities,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) link: Arc<Link>,
    pub(crate) calls: Calls,
    /// Descriptors of a receive ring.
    pub(crate) rx_ring: u16,
    /// Answers from lanes without a transmit queue, for the first lane that has one.
    pub(crate) mailbox: Mailbox,
    pub(crate) flows: Flows,
    /// Sets the MTU of the interface beneath back once the port is closed.
    pub(crate) _mtu: Option<MtuChange>,
    /// The file of a memif's server, until the port is closed.
    pub(crate) _served: Option<Served>,
    pub(crate) _promiscuous: Option<Promiscuous>,
    pub(crate) facts: Vec<Fact>,
    pub(crate) remarks: Vec<String>,
}

// SAFETY: the mempools are reached by one lane each (`taken`), their own operations are thread-safe, and all other
// state is either constant or atomic. DPDK's control calls (statistics, link) may be made by any thread.
unsafe impl Sync for DpdkPort {}

impl DpdkPort {
    /// Returns notes on the port, shown before the run starts.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    fn lane(&self, queue: usize) -> Result<&Lane> {
        self.lanes.get(queue).ok_or_else(|| {
            let cause = format!("there are {} queues", self.lanes.len());
            Error::new(
                "open",
                format!("{} queue {queue}", self.name),
                cause,
                ErrorKind::NotFound,
            )
        })
    }

    /// How what was received is spread over the receiving queues, percent: `48.9 51.1`; `None` with one or before any.
    fn spread(&self) -> Option<String> {
        let received: Vec<u64> = self
            .lanes
            .iter()
            .filter(|lane| lane.rx.is_some())
            .map(|lane| lane.counts.rx.load(Ordering::Relaxed))
            .collect();
        let all: u64 = received.iter().sum();
        if received.len() < 2 || all == 0 {
            return None;
        }
        let share = received
            .iter()
            .map(|&n| format!("{:.1}", n as f64 * 100.0 / all as f64));
        Some(share.collect::<Vec<_>>().join(" "))
    }
}

impl Port for DpdkPort {
    type Pool = DpdkPool;
    type Queue<'p> = DpdkQueue<'p>;

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn pool(&self, queue: usize) -> Result<DpdkPool> {
        let lane = self.lane(queue)?;
        // SAFETY: mempools are freed when the last port has closed, and this one is open.
        unsafe { DpdkPool::new(lane.mempool, &self.name) }
    }

    fn queue<'p>(&'p self, queue: usize, pool: &'p DpdkPool) -> Result<DpdkQueue<'p>> {
        let lane = self.lane(queue)?;
        if lane.taken.swap(true, Ordering::Acquire) {
            let object = format!("{} queue {queue}", self.name);
            return Err(Error::new("open", object, "it is in use", ErrorKind::InUse));
        }
        Ok(DpdkQueue {
            port: self.id,
            rx: lane.rx,
            tx: lane.tx,
            mailbox: &self.mailbox,
            carries: lane.tx == Some(0) && self.lanes.iter().any(|lane| lane.tx.is_none()),
            idle: 0,
            device_checksum: self.capabilities.tx_checksum,
            pool,
            counts: &lane.counts,
            link: &self.link,
            taken: &lane.taken,
            calls: self.calls,
            rx_ring: self.rx_ring,
            // What lies in a memif's ring is the other end's to take away.
            counts_fill: self.driver != "net_memif",
        })
    }

    fn shares_pools_with(&self, _other: &Self) -> bool {
        true
    }

    fn counters(&self, queue: usize) -> QueueCounters {
        // The device's own counters know no lanes: they are reported once.
        let mut counters = match queue {
            0 => counters::of_device(self.id, &self.driver),
            _ => QueueCounters::default(),
        };
        if let Some(lane) = self.lanes.get(queue) {
            counters.tx_failed += lane.counts.refused.load(Ordering::Relaxed);
        }
        if queue == 0 {
            counters.other.extend(self.flows.counters());
            counters
                .other
                .extend(self.link.refused().map(|(n, _)| ("memif_refused", n)));
            if let Some(beneath) = self.link.beneath() {
                beneath.add(&mut counters);
            }
        }
        counters
    }

    fn rx_dropped(&self, queue: usize) -> Option<u64> {
        if queue != 0 {
            return Some(0);
        }
        let missed = counters::missed(self.id);
        Some(missed + self.link.beneath().map_or(0, |beneath| beneath.rx_dropped(missed)))
    }

    fn drops_by_queue(&self) -> bool {
        false
    }

    fn watches(&self) -> Vec<Box<dyn Watch>> {
        LinkWatch::of(&self.link).into_iter().collect()
    }

    fn facts(&self) -> Vec<Fact> {
        let mut facts = self.facts.clone();
        facts.extend(self.spread().map(|value| Fact::new("rx_spread_percent", value)));
        facts
    }
}

impl Drop for DpdkPort {
    fn drop(&mut self) {
        self.flows.remove();
        // SAFETY: the port is open, and no lane uses it: queues borrow it.
        unsafe {
            sys::mpps_port_stop(self.id);
            sys::mpps_port_close(self.id);
        }
        unplug(&self.config);
        eal::port_closed();
    }
}

/// Removes a virtual device, so that its name and what it holds (a socket, an interface) are free again.
pub(crate) fn unplug(config: &Config) {
    if let Device::Vdev(name) = &config.device {
        let name = eal::c_string(name);
        // SAFETY: a string that ends with a zero; the device's port is closed.
        unsafe { sys::mpps_unplug(name.as_ptr()) };
    }
}
