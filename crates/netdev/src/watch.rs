//! Watches an interface while a run uses it: link, addresses and MTU as they change, queues and counters before and
//! after.
//!
//! The kernel announces changes at once, but may hold back a lost carrier for up to a second after another link has
//! changed (linkwatch). So the carrier is also read, every [`READ_EVERY_NS`].

use crate::netlink::{News, Request, attributes, u32_at};
use crate::{
    Drops, IFADDRMSG, IFINFOMSG, IFLA_CARRIER, KernelCounts, NetDev, Qdisc, Way, address, assigned, dropped_between,
    drops, family, octets, qdiscs, text, way,
};
use mpps_io::around::{MtuChange, Outage, Outages, QueueDrops, Surroundings, Watch};
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    up: bool,
    carrier: bool,
    mtu: u32,
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

/// A change of the interface that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Link(Link),
    Address(IpAddr, bool),
    Neighbor(IpAddr, Neighbor),
}

/// State of a neighbour in the kernel's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Neighbor {
    /// MAC address of the neighbour is known, or need not be.
    Answers,
    /// The neighbour has been asked and has not answered.
    Silent,
    /// Nobody has asked, or the table can't be read.
    Unknown,
}

impl Change {
    fn of(kind: u16, body: &[u8], ifindex: u32) -> Option<Self> {
        if u32_at(body, 4)? != ifindex {
            return None;
        }
        match kind {
            libc::RTM_NEWLINK => link_of(body).map(Self::Link),
            libc::RTM_NEWADDR => assigned(body).map(|ip| Self::Address(ip, true)),
            libc::RTM_DELADDR => assigned(body).map(|ip| Self::Address(ip, false)),
            libc::RTM_NEWNEIGH => neighbor_of(body).map(|(ip, state)| Self::Neighbor(ip, state)),
            // Happens when the carrier is lost, for instance. The next packet asks again, unannounced: the entry is
            // read.
            libc::RTM_DELNEIGH => neighbor_of(body).map(|(ip, _)| Self::Neighbor(ip, Neighbor::Unknown)),
            _ => None,
        }
    }
}

fn link_of(body: &[u8]) -> Option<Link> {
    // Messages about a port of a bridge (AF_BRIDGE) lack the half of it.
    if libc::c_int::from(*body.first()?) != libc::AF_UNSPEC {
        return None;
    }
    let find = |kind| attributes(body, IFINFOMSG).find(|(k, _)| *k == kind).map(|(_, v)| v);
    let flags = u32_at(body, 8)? as libc::c_int;
    let carrier = find(IFLA_CARRIER).and_then(|value| value.first()).copied();
    Some(Link {
        up: flags & libc::IFF_UP != 0,
        carrier: carrier.map_or(flags & libc::IFF_RUNNING != 0, |carrier| carrier != 0),
        mtu: u32_at(find(libc::IFLA_MTU)?, 0)?,
    })
}

/// Length of `struct ndmsg`.
const NDMSG: usize = 12;

fn neighbor_of(body: &[u8]) -> Option<(IpAddr, Neighbor)> {
    const NDA_DST: u16 = 1;
    const NUD_INCOMPLETE: u8 = 0x01;
    const NUD_FAILED: u8 = 0x20;
    // Entries of a bridge's table (AF_BRIDGE) have no address.
    let ip = attributes(body, NDMSG).find(|(kind, _)| *kind == NDA_DST)?.1;
    // The state has 16 bits; these two are in the lower half.
    let state = u16::from_ne_bytes([*body.get(8)?, *body.get(9)?]) as u8;
    let state = match state {
        0 => Neighbor::Unknown,
        state if state & (NUD_INCOMPLETE | NUD_FAILED) != 0 => Neighbor::Silent,
        _ => Neighbor::Answers,
    };
    Some((address(ip)?, state))
}

/// Asks for one entry, which the kernel answers since Linux 5.0.
fn read_neighbor(ifindex: u32, ip: IpAddr) -> Neighbor {
    const NDA_DST: u16 = 1;
    let mut head = [0; NDMSG];
    head[0] = family(ip).0;
    head[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    let mut found = Neighbor::Unknown;
    let request = Request::new(libc::RTM_GETNEIGH, 0, &head).attribute(NDA_DST, &octets(ip));
    // A failure leaves it unknown: most often there is no entry.
    let _ = request.run(|_, body| {
        if let Some((_, state)) = neighbor_of(body) {
            found = state;
        }
    });
    found
}

/// Hosts on a link that do not answer though packets were for them in the last `within_ns`, a few at the most.
fn silent_neighbors(ifindex: u32, within_ns: u64) -> Vec<IpAddr> {
    const MOST_NAMED: usize = 4;
    let mut silent = Vec::new();
    // If the dump fails, they stay unknown.
    let _ = Request::new(libc::RTM_GETNEIGH, libc::NLM_F_DUMP, &[0; NDMSG]).run(|_, body| {
        if u32_at(body, 4) == Some(ifindex)
            && let Some((ip, Neighbor::Silent)) = neighbor_of(body)
            && unused_ns(body).is_some_and(|ns| ns < within_ns)
            && silent.len() < MOST_NAMED
        {
            silent.push(ip);
        }
    });
    silent
}

/// Time since the kernel last had a packet for a neighbour, ns, to 10 ms.
fn unused_ns(body: &[u8]) -> Option<u64> {
    const NDA_CACHEINFO: u16 = 3;
    // `struct nda_cacheinfo` has `ndm_confirmed` first, then `ndm_used`: clock ticks of user space, 100 a second.
    let info = attributes(body, NDMSG).find(|(kind, _)| *kind == NDA_CACHEINFO)?.1;
    Some(u64::from(u32_at(info, 4)?) * 10_000_000)
}

fn read_link(ifindex: u32) -> Option<Link> {
    const RTEXT_FILTER_SKIP_STATS: u32 = 1 << 3;
    let mut link = None;
    ask(ifindex, RTEXT_FILTER_SKIP_STATS, &mut |body| link = link_of(body));
    link
}

/// Returns the kind of a virtual interface, such as `veth`; `None` if it is not virtual, or the kernel does not report
/// it.
fn kind(ifindex: u32) -> Option<String> {
    const IFLA_INFO_KIND: u16 = 1;
    let mut kind = None;
    ask(ifindex, 0, &mut |body| {
        let info = attributes(body, IFINFOMSG).find(|(k, _)| *k == libc::IFLA_LINKINFO);
        let mut info = info.into_iter().flat_map(|(_, nested)| attributes(nested, 0));
        kind = info.find(|(k, _)| *k == IFLA_INFO_KIND).map(|(_, value)| text(value));
    });
    kind
}

fn ask(ifindex: u32, mask: u32, each: &mut dyn FnMut(&[u8])) {
    let mut head = [0; IFINFOMSG];
    head[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    let request = Request::new(libc::RTM_GETLINK, 0, &head);
    // A failure leaves it unknown.
    let _ = request
        .attribute(libc::IFLA_EXT_MASK, &mask.to_ne_bytes())
        .run(|_, body| each(body));
}

const _: () = assert!(IFADDRMSG == 8, "the index of an interface is at 4 in all headers");

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
