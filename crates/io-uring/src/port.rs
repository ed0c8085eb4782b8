//! An opened port: its sockets, and how the lanes' rings are set up.

use crate::config::Config;
use crate::counters::RingCounters;
use crate::queue::{Parts, UringQueue};
use crate::receive::{Layout, Receiver};
use crate::ring::{Ring, Setup};
use crate::transmit::{NOWHERE, Sender, Sizes};
use mpps_io::around::Watch;
use mpps_io::{Capabilities, Error, Fact, MAX_BURST, Port, QueueCounters, Result, Roles};
use mpps_sockets::{Lane, Mode, Pool, Sockets};
use mpps_sys::uring::Features;
use std::net::SocketAddr;
use std::os::fd::RawFd;

/// Buffers that the kernel has for receiving, unless an option says so.
const BUFFERS: u16 = 512;
/// Buffers that the kernel has if each holds a coalesced packet of 64 KiB: they are used in turn, and are to stay in
/// the cache.
const BUFFERS_GRO: u16 = 64;

/// UDP sockets opened for a set of lanes, each of which drives its own by a ring; made by [`open`].
pub struct UringPort {
    sockets: Sockets,
    config: Config,
    setup: Setup,
    sizes: Sizes,
    buffers: u16,
    counters: Box<[RingCounters]>,
}

/// Opens the sockets, and makes sure that the kernel has what the options ask for.
///
/// # Errors
/// The same as for [`mpps_sockets::open`]; [`mpps_io::ErrorKind::Unsupported`] naming the option that this kernel can't
/// have, [`mpps_io::ErrorKind::Permission`] if the kernel grants no io_uring.
pub fn open(config: Config, mode: Mode, roles: &[Roles]) -> Result<UringPort> {
    let features = Features::probe().map_err(|e| crate::ring::explained("set up", &e))?;
    let mut sockets = mpps_sockets::open("io_uring", config.sockets.clone(), mode, roles)?;
    let gso = sockets.gso();
    let sizes = Sizes::new(config.sends, gso, config.zerocopy);
    let gro = sockets.kind().gro;
    let buffers = config.buffers.unwrap_or(if gro { BUFFERS_GRO } else { BUFFERS });
    let most = |lane: usize| sockets.lane(lane).map_or(0, |lane| lane.rx.len());
    let receiving = (0..roles.len()).map(most).max().unwrap_or(0);
    let setup = Setup::new(&config, &features, buffers, sizes.sends, receiving)?;
    // One ring serves all sockets of a lane; but segments of one packet are of one flow.
    let one_flow = gso.is_some() && !sockets.kind().listening;
    sockets.capabilities_mut().one_flow_per_burst = one_flow;
    let port = UringPort {
        counters: roles.iter().map(|_| RingCounters::default()).collect(),
        sockets,
        config,
        setup,
        sizes,
        buffers,
    };
    // If the kernel refuses this trial set-up, the error is reported now, by the main thread.
    drop(Ring::new(&port.setup, &[], 0)?);
    Ok(port)
}

impl UringPort {
    /// Number of flows (connected) or listening sockets.
    pub fn sockets(&self) -> usize {
        self.sockets.count()
    }

    /// The address that the listening sockets are bound to, or that of the first flow.
    pub fn local_address(&self) -> SocketAddr {
        self.sockets.local_address()
    }

    fn layout(&self) -> Layout {
        Layout::new(self.sockets.kind(), self.setup.multishot)
    }

    /// The sockets of a lane in the order of the ring's table, those that it receives from in front, and the place of
    /// each of the port's sockets in it.
    fn table(&self, lane: &Lane) -> (Vec<RawFd>, Box<[u32]>) {
        let mut places = vec![NOWHERE; self.sockets.count()].into_boxed_slice();
        let mut table = Vec::new();
        if self.config.direct {
            for &socket in lane.rx.iter().chain(&lane.tx) {
                if places[socket as usize] == NOWHERE {
                    places[socket as usize] = table.len() as u32;
                    table.push(self.sockets.fd(socket));
                }
            }
        }
        (table, places)
    }
}

impl Port for UringPort {
    type Pool = Pool;
    type Queue<'p> = UringQueue<'p>;

    fn capabilities(&self) -> &Capabilities {
        self.sockets.capabilities()
    }

    /// Room for what the kernel has, what is being sent, and three bursts in the lane's hands.
    fn pool(&self, queue: usize) -> Result<Pool> {
        let lane = self.sockets.lane(queue)?;
        let posted = if lane.rx.is_empty() { 0 } else { u32::from(self.buffers) };
        let hand = (self.sizes.most_frames + 3 * MAX_BURST) as u32;
        let (small, large) = match self.sockets.kind().gro {
            true if posted > 0 => (hand, posted + hand),
            _ => (posted + hand, 0),
        };
        Pool::new(small, self.capabilities().max_frame, large, self.layout().headroom())
            .map_err(|e| Error::os("map the buffers of", format!("io_uring queue {queue}"), &e))
    }

    fn queue<'p>(&'p self, queue: usize, pool: &'p Pool) -> Result<UringQueue<'p>> {
        let lane = self.sockets.take_lane(queue)?;
        let make = || {
            let (table, places) = self.table(lane);
            let buffers = if lane.rx.is_empty() { 0 } else { self.buffers };
            let ring = Ring::new(&self.setup, &table, buffers)?;
            let receive = (self.setup.multishot, self.config.direct, buffers);
            Ok(Parts {
                sockets: &self.sockets,
                pool,
                lane,
                counters: &self.counters[queue],
                ring,
                receiver: Receiver::new(pool, &self.sockets, lane, receive),
                sender: Sender::new(pool, &self.sockets, lane, self.sizes, places),
            })
        };
        let parts = make().inspect_err(|_| lane.give_back())?;
        UringQueue::new(parts)
    }

    fn times_arrivals(&self) -> bool {
        self.config.sockets.timed()
    }

    fn counters(&self, queue: usize) -> QueueCounters {
        let mut counters = self.sockets.counters(queue);
        let Some(own) = self.counters.get(queue) else {
            return counters;
        };
        // Packets that were received and never reported may be among them: a drop of this host.
        counters.rx_dropped += own.completions_lost.get();
        counters.other.extend([
            ("no_buffers", own.no_buffers.get()),
            ("cq_overflows", own.cq_overflows.get()),
            ("completions_lost", own.completions_lost.get()),
            ("rx_unread_at_close", own.unread_at_close.get()),
            ("tx_overtaken", own.overtaken.get()),
            ("tx_zerocopy", own.zerocopied.get()),
            ("tx_zerocopy_copied", own.zerocopy_copied.get()),
            ("unsent_at_close", own.unsent_at_close.get()),
            ("system_calls", own.system_calls.get()),
        ]);
        counters
    }

    fn rx_dropped(&self, queue: usize) -> Option<u64> {
        let lost = self.counters.get(queue)?.completions_lost.get();
        Some(self.sockets.rx_dropped(queue)? + lost)
    }

    fn coalesces(&self) -> bool {
        self.sockets.kind().gro
    }

    fn watches(&self) -> Vec<Box<dyn Watch>> {
        self.sockets.watches()
    }

    fn facts(&self) -> Vec<Fact> {
        let switch = |on: bool| if on { "on" } else { "off" }.to_owned();
        let mut facts = self.sockets.facts();
        let zerocopy = self.config.zerocopy.map_or("off".to_owned(), |bytes| bytes.to_string());
        facts.extend([
            Fact::shown("ring_flags", self.setup.flags()),
            Fact::new("sq_entries", self.setup.sq.to_string()),
            Fact::new("cq_entries", self.setup.completions().to_string()),
            Fact::new("buffers", self.buffers.to_string()),
            Fact::new("sends", self.sizes.sends.to_string()),
            Fact::shown("multishot", switch(self.setup.multishot)),
            Fact::new("direct", switch(self.config.direct)),
            Fact::new("zerocopy_from_bytes", zerocopy),
        ]);
        if let Some((idle, cpu)) = self.setup.sqpoll {
            facts.push(Fact::shown("sqpoll_idle_ms", idle.to_string()));
            facts.extend(cpu.map(|cpu| Fact::new("sqpoll_cpu", cpu.to_string())));
        }
        facts
    }
}
