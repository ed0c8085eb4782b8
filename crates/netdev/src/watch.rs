//! Watches an interface while a run uses it: link, addresses and MTU as they change, queues and counters before and
//! after.
//!
//! The kernel announces changes at once, but may hold back a lost carrier for up to a second after another link has
//! changed (linkwatch). So the carrier is also read, every [`READ_EVERY_NS`].

mod news;

use crate::netlink::News;
use crate::{Drops, KernelCounts, NetDev, Qdisc, Way, dropped_between, drops, qdiscs, way};
use mpps_io::around::{MtuChange, Outage, Outages, QueueDrops, Surroundings, Watch};
use news::{Change, Link, Neighbor, kind, read_link, read_neighbor, silent_neighbors};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

const READ_EVERY_NS: u64 = 50_000_000;
/// Changes that are kept of each kind, at the most.
const MOST: usize = 64;
/// Times that news end the collector's sleep: at once, and per second. A host whose links come and go without end must
/// not keep it busy.
const WAKES: u64 = 50;
const WAKE_NS: u64 = 10_000_000;

/// Choice of what is watched beside link, addresses and MTU.
#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    /// Packets go through the interface's queueing disciplines.
    pub queues: bool,
    /// The device's own drops are read.
    pub device: bool,
    /// Packets reach the path past the kernel's stack: those that the device counts are read, in case none does.
    pub arrivals: bool,
    /// Packets, or the ICMP errors about them, go through the kernel's stack: its counters are read.
    pub kernel: bool,
    /// Addresses that packets of the run are from, which the kernel takes only while they are there.
    pub addresses: Vec<IpAddr>,
    /// The path does not notice that the carrier is lost.
    pub blind: bool,
    /// The interface may have nothing to do with the run: only its queues are looked at.
    pub only_queues: bool,
    /// Source and destination of a packet, and the interface of link-local ones (or 0): what was learned of the path
    /// between them is read.
    pub path: Option<(IpAddr, IpAddr, u32)>,
}

/// Watches one interface.
pub struct DeviceWatch {
    options: WatchOptions,
    ifindex: u32,
    news: Option<News>,
    now: Link,
    off: Outages,
    no_carrier: Outages,
    /// Addresses at the start, and since when each is gone.
    addresses: Vec<(IpAddr, Option<u64>)>,
    /// The next host on the way of packets.
    next: Option<Next>,
    seen: Surroundings,
    before: Before,
    /// Time of the first look.
    begun_ns: Option<u64>,
    read_ns: u64,
    /// When the budget of wakes is used up, ns.
    wakes_to_ns: u64,
    looked_ns: u64,
}

/// Counters as they were before the run.
struct Before {
    qdiscs: Option<Vec<Qdisc>>,
    drops: Option<Drops>,
    kernel: Option<KernelCounts>,
}

/// The next host on the way, and since when it is silent.
struct Next {
    ip: IpAddr,
    /// The host has answered, as far as is known. If it stops answering, the kernel announces that.
    answers: bool,
    /// The host has answered at some time.
    has_answered: bool,
    silent: Outages,
}

impl DeviceWatch {
    /// Begins to watch an interface.
    pub fn new(device: &NetDev, options: WatchOptions) -> Self {
        const GROUPS: libc::c_int = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
        let next = options.path.and_then(|(src, dst, scope)| match way(src, dst, scope) {
            Ok(Way::Out { ifindex, router, .. }) if ifindex == device.ifindex => Some(Next {
                ip: router.unwrap_or(dst),
                answers: false,
                has_answered: false,
                silent: Outages::default(),
            }),
            _ => None,
        });
        let groups = if next.is_some() {
            GROUPS | libc::RTMGRP_NEIGH
        } else {
            GROUPS
        };
        // Before the state is read: what changes in between is announced.
        let news = News::of(groups as u32).ok();
        let now = read_link(device.ifindex).unwrap_or(Link {
            up: device.up,
            carrier: device.running,
            mtu: device.mtu as u32,
        });
        Self {
            ifindex: device.ifindex,
            news,
            now,
            off: Outages::default(),
            no_carrier: Outages::default(),
            addresses: used(device.addresses.iter().map(|(ip, _)| *ip), &options.addresses),
            next,
            seen: Surroundings {
                interface: device.name.clone(),
                ..Surroundings::default()
            },
            before: Before {
                qdiscs: options.queues.then(|| qdiscs(device.ifindex).ok()).flatten(),
                drops: (options.device || options.arrivals)
                    .then(|| drops(device.ifindex).ok())
                    .flatten(),
                kernel: options.kernel.then(KernelCounts::now),
            },
            begun_ns: None,
            read_ns: 0,
            wakes_to_ns: 0,
            looked_ns: 0,
            options,
        }
    }

    fn is_open(&self) -> bool {
        self.now.up && self.now.carrier
    }

    fn link(&mut self, link: Link, now_ns: u64) {
        if self.now.mtu != link.mtu && self.seen.mtu.len() < MOST {
            self.seen.mtu.push(MtuChange {
                at_ns: now_ns,
                from: self.now.mtu,
                to: link.mtu,
            });
        }
        self.now = link;
        self.off.follow(!link.up, now_ns);
        self.no_carrier.follow(link.up && !link.carrier, now_ns);
    }

    fn address(&mut self, ip: IpAddr, there: bool, now_ns: u64) {
        let Some((_, gone)) = self.addresses.iter_mut().find(|(of, _)| *of == ip) else {
            return;
        };
        match (*gone, there) {
            (None, false) => *gone = Some(now_ns),
            (Some(since), true) => {
                *gone = None;
                if self.seen.addresses.len() < MOST {
                    self.seen.addresses.push((ip, missing(since, now_ns, false)));
                }
            }
            _ => {}
        }
    }

    fn neighbor(&mut self, ip: IpAddr, state: Neighbor, now_ns: u64) {
        let Some(next) = self.next.as_mut().filter(|next| next.ip == ip) else {
            return;
        };
        next.answers = state == Neighbor::Answers;
        next.has_answered |= next.answers;
        // A host that the first looks find silent was silent from the start, if packets could leave by then.
        let open = self.now.up && self.now.carrier;
        let first = self.begun_ns.filter(|begun| now_ns <= begun + 3 * READ_EVERY_NS);
        if let Some(begun_ns) = first.filter(|_| open && !next.has_answered)
            && state == Neighbor::Silent
            && !next.silent.lasts()
        {
            next.silent.from_start(begun_ns);
        }
        // A host whose entry is gone has not answered yet.
        let silent = state == Neighbor::Silent || state == Neighbor::Unknown && next.silent.lasts();
        next.silent.follow(silent, now_ns);
    }

    /// Reads all that is announced; what may be missing is read from the tables.
    fn read_news(&mut self, now_ns: u64) {
        let Some(news) = &mut self.news else { return };
        let ifindex = self.ifindex;
        let mut changes = Vec::new();
        let mut came = false;
        let complete = news.read(|kind, body| {
            came = true;
            changes.extend(Change::of(kind, body, ifindex));
        });
        // News of other interfaces end the sleep as well.
        if came || !complete {
            self.wakes_to_ns = self.wakes_to_ns.max(now_ns.saturating_sub(WAKES * WAKE_NS)) + WAKE_NS;
        }
        for change in changes {
            match change {
                Change::Link(link) => self.link(link, now_ns),
                Change::Address(ip, there) => self.address(ip, there, now_ns),
                Change::Neighbor(ip, state) => self.neighbor(ip, state, now_ns),
            }
        }
        if !complete {
            self.read_ns = 0;
            if let Some(next) = &mut self.next {
                next.answers = false;
            }
            if let Ok(device) = NetDev::by_index(self.ifindex) {
                let has = |ip: &IpAddr| device.addresses.iter().any(|(of, _)| of == ip);
                let all: Vec<_> = self.addresses.iter().map(|(ip, _)| (*ip, has(ip))).collect();
                all.into_iter().for_each(|(ip, there)| self.address(ip, there, now_ns));
            }
        }
    }
}

impl Watch for DeviceWatch {
    fn interface(&self) -> &str {
        &self.seen.interface
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let news = self.news.as_ref().filter(|_| self.wakes_to_ns <= self.looked_ns);
        news.filter(|_| !self.options.only_queues).map(News::descriptor)
    }

    fn look(&mut self, now_ns: u64) -> bool {
        self.looked_ns = now_ns;
        if self.options.only_queues {
            return true;
        }
        if self.begun_ns.is_none() {
            self.begun_ns = Some(now_ns);
            if !self.now.up {
                self.off.from_start(now_ns);
            } else if !self.now.carrier {
                self.no_carrier.from_start(now_ns);
            }
        }
        self.read_news(now_ns);
        if now_ns >= self.read_ns + READ_EVERY_NS {
            self.read_ns = now_ns;
            if let Some(link) = read_link(self.ifindex) {
                self.link(link, now_ns);
            }
            if let Some(ip) = self.next.as_ref().filter(|next| !next.answers).map(|next| next.ip) {
                self.neighbor(ip, read_neighbor(self.ifindex, ip), now_ns);
            }
        }
        !self.options.blind || self.is_open()
    }

    fn end(mut self: Box<Self>, now_ns: u64) -> Surroundings {
        self.read_ns = 0;
        self.look(now_ns);
        let mut seen = std::mem::take(&mut self.seen);
        (seen.off, seen.no_carrier) = (self.off.end(now_ns), self.no_carrier.end(now_ns));
        let gone = self.addresses.iter().filter_map(|(ip, gone)| Some((*ip, (*gone)?)));
        seen.addresses
            .extend(gone.map(|(ip, since)| (ip, missing(since, now_ns, true))));
        if let (Some(next), Some(begun_ns)) = (&self.next, self.begun_ns) {
            seen.unanswered = silent_neighbors(self.ifindex, now_ns.saturating_sub(begun_ns));
            seen.unanswered.retain(|ip| *ip != next.ip);
        }
        seen.no_neighbor = self.next.take().map(|mut next| (next.ip, next.silent.end(now_ns)));
        let queues = self.before.qdiscs.as_ref().zip(qdiscs(self.ifindex).ok());
        seen.queues = queues.map(|(before, now)| {
            let dropped = dropped_between(before, &now).into_iter();
            let told = dropped.map(|(qdisc, packets)| QueueDrops {
                name: qdisc.name(),
                packets,
                imitates: qdisc.kind == "netem",
            });
            told.collect()
        });
        let device = self.before.drops.zip(drops(self.ifindex).ok());
        seen.arrived = device
            .filter(|_| self.options.arrivals)
            .map(|(before, now)| now.arrived.saturating_sub(before.arrived));
        seen.device_dropped = device.filter(|_| self.options.device).map(|(before, now)| {
            let transmitted = now.transmitted.saturating_sub(before.transmitted);
            // An ifb drops packets that were not redirected to it, and counts them as received ones.
            match kind(self.ifindex).as_deref() {
                Some("ifb") => transmitted + now.received.saturating_sub(before.received),
                _ => transmitted,
            }
        });
        let kernel = self.before.kernel.as_ref();
        seen.kernel = kernel.map_or_else(Vec::new, |before| KernelCounts::now().since(before));
        seen.path_mtu = self
            .options
            .path
            .and_then(|(src, dst, scope)| match way(src, dst, scope) {
                Ok(Way::Out {
                    mtu: Some(mtu),
                    learned: true,
                    ..
                }) => Some((dst, mtu)),
                _ => None,
            });
        seen
    }
}

/// Returns the addresses of an interface that the run uses, none of them missing yet.
fn used(there: impl Iterator<Item = IpAddr>, by_run: &[IpAddr]) -> Vec<(IpAddr, Option<u64>)> {
    there.filter(|ip| by_run.contains(ip)).map(|ip| (ip, None)).collect()
}

/// The time in which an address that was there at the start was missing.
fn missing(from_ns: u64, to_ns: u64, to_end: bool) -> Outage {
    Outage {
        from_ns,
        to_ns,
        from_start: false,
        to_end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_addresses_that_the_run_uses_are_watched() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let there = ["10.99.0.1", "10.99.0.7", "fd99::1", "fe80::1"].map(ip);
        let watched = |by_run: &[&str]| {
            let by_run: Vec<IpAddr> = by_run.iter().copied().map(ip).collect();
            used(there.into_iter(), &by_run)
        };
        assert_eq!(watched(&["10.99.0.1"]), [(ip("10.99.0.1"), None)]);
        assert_eq!(watched(&["fe80::1", "fd77::1"]), [(ip("fe80::1"), None)]);
        assert_eq!(watched(&[]), []);
    }

    proptest! {
        #[test]
        fn any_news_are_survived(kind in 0u16..40, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Change::of(kind, &bytes, 0);
        }
    }
}
