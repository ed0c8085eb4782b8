//! Opened sockets, and which lane serves which.

use crate::config::Config;
use crate::counters::LaneCounters;
use crate::failure::{no_flow, no_receiver};
use crate::message::{Gso, Kind, has_receiver};
use crate::pool::{NO_FLOW, SocketFrame};
use crate::socket::Socket;
use mpps_io::{Capabilities, Error, ErrorKind, Fact, QueueCounters, Result, counter};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Sockets whose drops are asked for at one reading: each is a system call, and a lane may have thousands.
const SOCKETS_A_READING: usize = 64;

/// What one lane serves.
pub struct Lane {
    /// Sockets that it sends by, as indices into the port's.
    pub tx: Box<[u32]>,
    /// Sockets that it receives from.
    pub rx: Box<[u32]>,
    /// What it counts itself.
    pub counters: LaneCounters,
    pub(crate) taken: AtomicBool,
    /// Of its receiving sockets the one whose drops are asked for next.
    pub(crate) next_asked: AtomicUsize,
}

impl Lane {
    /// Another queue may have the lane now ([`Sockets::take_lane`]).
    pub fn give_back(&self) {
        self.taken.store(false, Ordering::Release);
    }
}

/// One socket of the port.
pub struct Endpoint {
    pub(crate) socket: Socket,
    pub(crate) local: SocketAddr,
    /// Where a connected socket sends.
    pub(crate) peer: Option<SocketAddr>,
}

/// What the kernel granted, for the report.
pub(crate) struct Got {
    pub(crate) rcvbuf: usize,
    pub(crate) sndbuf: usize,
    pub(crate) interface: Option<String>,
    pub(crate) mtu: Option<usize>,
}

/// UDP sockets opened for a set of lanes; made by [`crate::open`].
pub struct Sockets {
    pub(crate) config: Config,
    pub(crate) capabilities: Capabilities,
    pub(crate) kind: Kind,
    pub(crate) gso: Option<Gso>,
    pub(crate) endpoints: Box<[Endpoint]>,
    pub(crate) lanes: Box<[Lane]>,
    pub(crate) got: Got,
    /// Drops of each socket so far: the kernel's 32-bit count, extended.
    pub(crate) drops: Mutex<Box<[u64]>>,
}

impl Sockets {
    /// Number of flows (connected) or listening sockets.
    pub fn count(&self) -> usize {
        self.endpoints.len()
    }

    /// The address that the listening sockets are bound to, or that of the first flow.
    pub fn local_address(&self) -> SocketAddr {
        self.endpoints[0].local
    }

    /// The options that they were opened with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What a path over these sockets can do.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// As [`Sockets::capabilities`], for a path that can do more or less.
    pub fn capabilities_mut(&mut self) -> &mut Capabilities {
        &mut self.capabilities
    }

    /// The descriptor of a socket.
    #[inline]
    pub fn fd(&self, socket: u32) -> RawFd {
        self.endpoints[socket as usize].socket.fd()
    }

    /// Bytes that datagrams in the receive buffer of a socket take, and how many they may; `None` where the kernel does
    /// not tell.
    pub fn filled(&self, socket: u32) -> Option<(u64, u64)> {
        self.endpoints[socket as usize].socket.filled()
    }

    /// What frames received from this socket say their flow is.
    #[inline]
    pub fn flow_of(&self, socket: u32) -> u32 {
        if self.kind.listening { NO_FLOW } else { socket }
    }

    /// What the sockets are like.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Limits of segmentation; `None`: each datagram is sent by itself.
    #[inline]
    pub fn gso(&self) -> Option<Gso> {
        self.gso
    }

    /// The socket that a frame of `lane` goes out by, as an index into the port's sockets.
    ///
    /// # Errors
    /// A frame that no socket can send: of a flow that is not there, or (listening) to nobody.
    #[inline]
    pub fn socket_of(&self, lane: &Lane, frame: &SocketFrame<'_>) -> Result<u32> {
        if self.kind.listening {
            return match lane.tx.first() {
                Some(&socket) if has_receiver(frame) => Ok(socket),
                _ => Err(no_receiver(self.capabilities.path)),
            };
        }
        let flows = self.count();
        if (frame.flow as usize) < flows {
            return Ok(frame.flow);
        }
        if flows == 1 {
            return Ok(0);
        }
        Err(no_flow(frame, flows))
    }

    /// Adds to an error of sending on `socket` between which addresses it was.
    #[cold]
    pub fn explain(&self, socket: u32, mut error: Error) -> Error {
        let endpoint = &self.endpoints[socket as usize];
        error.object = match endpoint.peer {
            Some(peer) => format!("{} from {} to {peer}", error.object, endpoint.local),
            None => format!("{} from {}", error.object, endpoint.local),
        }
        .into();
        error
    }

    fn queue_name(&self, queue: usize) -> String {
        format!("{} queue {queue}", self.capabilities.path)
    }

    /// What the lane of queue `queue` serves.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]: no such queue.
    pub fn lane(&self, queue: usize) -> Result<&Lane> {
        self.lanes.get(queue).ok_or_else(|| {
            let cause = format!("the port was opened with {} queues", self.lanes.len());
            Error::new("use", self.queue_name(queue), cause, ErrorKind::NotFound)
        })
    }

    /// As [`Sockets::lane`], for one queue at a time, until [`Lane::give_back`].
    ///
    /// # Errors
    /// As there, and [`ErrorKind::InUse`].
    pub fn take_lane(&self, queue: usize) -> Result<&Lane> {
        let lane = self.lane(queue)?;
        if lane.taken.swap(true, Ordering::Acquire) {
            let cause = "taken by another lane";
            return Err(Error::new("use", self.queue_name(queue), cause, ErrorKind::InUse));
        }
        Ok(lane)
    }

    /// Asks a socket for its drops; returns all of it so far.
    fn drops_of(&self, socket: u32, drops: &mut [u64]) -> u64 {
        let total = &mut drops[socket as usize];
        let now = self.endpoints[socket as usize].socket.drops();
        *total += u64::from(now.wrapping_sub(*total as u32));
        *total
    }

    /// The counters of queue `queue`.
    pub fn counters(&self, queue: usize) -> QueueCounters {
        let Some(lane) = self.lanes.get(queue) else {
            return QueueCounters::default();
        };
        let mut drops = self.drops.lock().unwrap_or_else(PoisonError::into_inner);
        let rx_dropped = lane.rx.iter().map(|&socket| self.drops_of(socket, &mut drops)).sum();
        let c = &lane.counters;
        QueueCounters {
            rx_dropped,
            tx_failed: c.tx_failed.get(),
            other: vec![
                (counter::REFUSED, c.refused.get()),
                ("icmp_errors", c.icmp_errors.get()),
                ("tx_again", c.tx_again.get()),
                ("blocked", c.blocked.get()),
                ("unreachable", c.unreachable.get()),
                ("rx_truncated", c.rx_truncated.get()),
            ],
        }
    }

    /// Of the counters of queue `queue` what the kernel dropped. Of many sockets a few are asked at a time, in turn.
    pub fn rx_dropped(&self, queue: usize) -> Option<u64> {
        let lane = self.lanes.get(queue)?;
        let mut drops = self.drops.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = lane.rx.len().min(SOCKETS_A_READING);
        let first = lane.next_asked.fetch_add(asked, Ordering::Relaxed);
        for i in first..first + asked {
            self.drops_of(lane.rx[i % lane.rx.len()], &mut drops);
        }
        Some(lane.rx.iter().map(|&socket| drops[socket as usize]).sum())
    }

    /// What is to be reported of the sockets.
    pub fn facts(&self) -> Vec<Fact> {
        let switch = |on: bool| if on { "on" } else { "off" }.to_owned();
        let mode = if self.kind.listening { "listening" } else { "connected" };
        let mut facts = vec![
            Fact::shown("mode", mode.to_owned()),
            Fact::new("local_address", self.local_address().to_string()),
            Fact::new("sockets", self.endpoints.len().to_string()),
            Fact::shown("rcvbuf_bytes", self.got.rcvbuf.to_string()),
            Fact::new("sndbuf_bytes", self.got.sndbuf.to_string()),
            Fact::shown("gso", switch(self.gso.is_some())),
            Fact::shown("gro", switch(self.kind.gro)),
        ];
        if let Some(gso) = self.gso {
            facts.push(Fact::new("gso_max_segments", gso.segments.to_string()));
        }
        facts.extend(self.got.interface.clone().map(|name| Fact::new("interface", name)));
        facts.extend(self.got.mtu.map(|mtu| Fact::new("mtu_bytes", mtu.to_string())));
        facts
    }
}
