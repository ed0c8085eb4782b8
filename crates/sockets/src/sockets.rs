//! Opened sockets, and which lane serves which.

use crate::config::Config;
use crate::counters::LaneCounters;
use crate::failure::{no_flow, no_receiver};
use crate::message::{Gso, Kind, has_receiver};
use crate::pool::{NO_FLOW, SocketFrame};
use crate::socket::Socket;
use mpps_io::around::Watch;
use mpps_io::{Capabilities, Error, ErrorKind, Fact, Obstacle, QueueCounters, Result, counter};
use mpps_netdev::{DeviceWatch, NetDev, WatchOptions, Way, interface_names, way, way_out};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Sockets whose drops are asked for at one reading: each is a system call, and a lane may have thousands.
const SOCKETS_A_READING: usize = 64;

/// How long an answer of the kernel's tables is used for errors that follow.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long after an answer an error may still have the cause that the answer named.
const LATE: Duration = Duration::from_millis(100);

/// Result of the last look for an obstacle to sending.
pub(crate) struct Seen {
    socket: u32,
    by_number: Obstacle,
    at: Instant,
    kind: ErrorKind,
    cause: Arc<str>,
}

/// Sockets and counters of one lane.
pub struct Lane {
    /// Sockets that the lane sends by, as indices into the port's.
    pub tx: Box<[u32]>,
    /// Sockets that the lane receives from.
    pub rx: Box<[u32]>,
    /// Counters that the lane keeps itself.
    pub counters: LaneCounters,
    pub(crate) taken: AtomicBool,
    /// Index of the receiving socket whose drop counter is read next.
    pub(crate) next_asked: AtomicUsize,
}

impl Lane {
    /// Gives the lane back, so that another queue may take it ([`Sockets::take_lane`]).
    pub fn give_back(&self) {
        self.taken.store(false, Ordering::Release);
    }
}

/// One socket of the port.
pub struct Endpoint {
    pub(crate) socket: Socket,
    pub(crate) local: SocketAddr,
    /// Address that a connected socket sends to.
    pub(crate) peer: Option<SocketAddr>,
}

/// Buffer sizes that the kernel granted, and the interface that the sockets use; for the report.
pub(crate) struct Got {
    pub(crate) rcvbuf: usize,
    pub(crate) sndbuf: usize,
    pub(crate) interface: Option<String>,
    /// Index of the interface; 0: not known.
    pub(crate) ifindex: u32,
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
    pub(crate) obstacle: Mutex<Option<Seen>>,
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

    /// Returns the capabilities of a path over these sockets.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Returns the same capabilities for changes: a path over these sockets may be able to do more or less.
    pub fn capabilities_mut(&mut self) -> &mut Capabilities {
        &mut self.capabilities
    }

    /// The descriptor of a socket.
    #[inline]
    pub fn fd(&self, socket: u32) -> RawFd {
        self.endpoints[socket as usize].socket.fd()
    }

    /// Bytes that datagrams in the receive buffer of a socket take, and how many they may take; `None` if the kernel
    /// does not report it.
    pub fn filled(&self, socket: u32) -> Option<(u64, u64)> {
        self.endpoints[socket as usize].socket.filled()
    }

    /// Returns the flow that frames received from this socket carry.
    #[inline]
    pub fn flow_of(&self, socket: u32) -> u32 {
        if self.kind.listening { NO_FLOW } else { socket }
    }

    /// Returns the properties of the sockets.
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
    /// When no socket can send the frame: its flow is not there, or (listening) it has no receiver.
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

    /// Adds to an error of sending on `socket` the addresses, and the obstacle between them by the kernel's tables: an
    /// error's number does not distinguish a route from an address. The tables are read again after [`LOOK_AGAIN`].
    #[cold]
    pub fn explain(&self, socket: u32, mut error: Error) -> Error {
        let endpoint = &self.endpoints[socket as usize];
        error.object = match endpoint.peer {
            Some(peer) => format!("{} from {} to {peer}", error.object, endpoint.local),
            None => format!("{} from {}", error.object, endpoint.local),
        }
        .into();
        let (ErrorKind::NoWay(by_number), Some(peer)) = (error.kind, endpoint.peer) else {
            return error;
        };
        let mut last = self.obstacle.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh =
            |seen: &&Seen| (seen.socket, seen.by_number) == (socket, by_number) && seen.at.elapsed() < LOOK_AGAIN;
        if last.as_ref().filter(fresh).is_none() {
            let (kind, cause) = self.obstacle(endpoint.local.ip(), peer.ip(), by_number, &error.cause);
            // io_uring reports an error after its cause: if the way is there by now, the obstacle of the look before is
            // named.
            let before = last
                .as_ref()
                .filter(|seen| (seen.socket, seen.by_number) == (socket, by_number) && seen.at.elapsed() < LATE)
                .filter(|_| kind == ErrorKind::NoWay(Obstacle::Unknown));
            if let Some(seen) = before {
                (error.kind, error.cause) = (seen.kind, seen.cause.clone());
                return error;
            }
            *last = Some(Seen {
                socket,
                by_number,
                at: Instant::now(),
                kind,
                cause: cause.into(),
            });
        }
        if let Some(seen) = &*last {
            (error.kind, error.cause) = (seen.kind, seen.cause.clone());
        }
        error
    }

    /// Looks up the obstacle between `src` and `dst` after the kernel has refused with an error of this meaning.
    fn obstacle(&self, src: IpAddr, dst: IpAddr, by_number: Obstacle, cause: &str) -> (ErrorKind, String) {
        let device = NetDev::by_index(self.got.ifindex).ok();
        let name = self.got.interface.as_deref().unwrap_or("the interface");
        if let Some(device) = device.as_ref().filter(|device| !device.up) {
            return (ErrorKind::LinkDown, format!("{} is switched off", device.name));
        }
        let no_way = |obstacle: Obstacle, what: String| (ErrorKind::NoWay(obstacle), what);
        let mtu_fell = device
            .as_ref()
            .is_some_and(|device| self.got.mtu.is_some_and(|mtu| device.mtu < mtu));
        // With segmentation, a datagram that is too long is EINVAL.
        if by_number == Obstacle::TooLong || by_number == Obstacle::Unknown && self.gso.is_some() && mtu_fell {
            let now = match (&device, way(src, dst, self.got.ifindex)) {
                (Some(device), _) if mtu_fell => {
                    format!("the MTU of {name} is {} bytes now", device.mtu)
                }
                (_, Ok(Way::Out { mtu: Some(mtu), .. })) => format!("the route to {dst} has an MTU of {mtu} bytes"),
                (Some(device), _) => format!("the MTU of {name} is {} bytes", device.mtu),
                _ => cause.to_owned(),
            };
            return no_way(
                Obstacle::TooLong,
                format!("longer than the MTU less IP and UDP header: {now}"),
            );
        }
        match way(src, dst, self.got.ifindex) {
            Ok(Way::None(obstacle)) => {
                let what = match obstacle {
                    Obstacle::TooLong | Obstacle::Unknown => cause.to_owned(),
                    obstacle => obstacle.cause(src, dst),
                };
                no_way(obstacle, what)
            }
            _ if by_number == Obstacle::Unknown && self.gso.is_some() => {
                let cause = format!("{cause}: with gso=on a datagram must fit the MTU: try gso=off");
                (ErrorKind::Unsupported, cause)
            }
            // The way is there by now, or the tables don't show the obstacle.
            _ => no_way(by_number, cause.to_owned()),
        }
    }

    fn queue_name(&self, queue: usize) -> String {
        format!("{} queue {queue}", self.capabilities.path)
    }

    /// Returns the lane of queue `queue`.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]: no such queue.
    pub fn lane(&self, queue: usize) -> Result<&Lane> {
        self.lanes.get(queue).ok_or_else(|| {
            let cause = format!("the port was opened with {} queues", self.lanes.len());
            Error::new("use", self.queue_name(queue), cause, ErrorKind::NotFound)
        })
    }

    /// Does the same as [`Sockets::lane`], for one queue at a time, until [`Lane::give_back`].
    ///
    /// # Errors
    /// The same as for [`Sockets::lane`], and [`ErrorKind::InUse`].
    pub fn take_lane(&self, queue: usize) -> Result<&Lane> {
        let lane = self.lane(queue)?;
        if lane.taken.swap(true, Ordering::Acquire) {
            let cause = "taken by another lane";
            return Err(Error::new("use", self.queue_name(queue), cause, ErrorKind::InUse));
        }
        Ok(lane)
    }

    /// Reads the drop counter of a socket; returns all of its drops so far.
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
                (counter::TRUNCATED, c.rx_truncated.get()),
                (counter::TIMED_BY_LANE, c.rx_timed_by_lane.get()),
            ],
        }
    }

    /// Returns the number of datagrams of queue `queue` that the kernel dropped. If a lane has many sockets, each call
    /// asks a few of them, in turn.
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

    /// Returns watches of the interfaces that the sockets send by: those on the routes of their flows and that of their
    /// own address, or, if they listen on all addresses, all interfaces.
    pub fn watches(&self) -> Vec<Box<dyn Watch>> {
        /// Most interfaces that are watched, and most flows whose routes are looked up.
        const MOST: usize = 8;
        const MOST_FLOWS: usize = 64;
        let mut devices: Vec<NetDev> = Vec::new();
        let mut add = |device: Option<NetDev>| {
            let new = device.filter(|of| devices.iter().all(|known| known.ifindex != of.ifindex));
            devices.extend(new.filter(|_| devices.len() < MOST));
        };
        let mut path = None;
        for endpoint in self.endpoints.iter().take(MOST_FLOWS) {
            let local = endpoint.local.ip();
            if let Some(peer) = endpoint.peer {
                path = path.or(Some((local, peer.ip(), self.got.ifindex)));
                add(way_out(local, peer.ip(), self.got.ifindex));
            }
        }
        if !self.kind.wildcard {
            // Packets come back to the address that they were sent from; without a route this address is all that is
            // known.
            add(NetDev::by_index(self.got.ifindex).ok());
        } else {
            interface_names()
                .iter()
                .for_each(|name| add(NetDev::by_name(name).ok().filter(|of| of.up)));
        }
        let mut addresses: Vec<IpAddr> = self.endpoints.iter().map(|of| of.local.ip()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let watch = |(place, device): (usize, &NetDev)| {
            let options = WatchOptions {
                queues: true,
                device: !self.kind.wildcard,
                arrivals: false,
                kernel: place == 0,
                addresses: addresses.clone(),
                // If the routes use several interfaces, the lost carrier of one does not concern all flows.
                blind: !self.kind.listening && devices.len() == 1,
                only_queues: self.kind.wildcard,
                path: path.filter(|_| place == 0),
            };
            Box::new(DeviceWatch::new(device, options)) as Box<dyn Watch>
        };
        devices.iter().enumerate().map(watch).collect()
    }

    /// Returns the facts on the sockets, for the report.
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
            Fact::new("rx_time", self.config.rx_time.name()),
        ];
        if let Some(gso) = self.gso {
            facts.push(Fact::new("gso_max_segments", gso.segments.to_string()));
        }
        facts.extend(self.got.interface.clone().map(|name| Fact::new("interface", name)));
        facts.extend(self.got.mtu.map(|mtu| Fact::new("mtu_bytes", mtu.to_string())));
        facts
    }
}
