//! Messages of the kernel about an interface: links, addresses and neighbours.

use crate::netlink::{Request, attributes, u32_at};
use crate::route::NDMSG;
use crate::{IFADDRMSG, IFINFOMSG, IFLA_CARRIER, address, assigned, family, octets, text};
use std::net::IpAddr;

/// State of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) up: bool,
    pub(super) carrier: bool,
    pub(super) mtu: u32,
}

/// A change of the interface that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Link(Link),
    Address(IpAddr, bool),
    Neighbor(IpAddr, Neighbor),
}

/// State of a neighbour in the kernel's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Neighbor {
    /// MAC address of the neighbour is known, or need not be.
    Answers,
    /// The neighbour has been asked and has not answered.
    Silent,
    /// Nobody has asked, or the table can't be read.
    Unknown,
}

impl Change {
    /// Reads a message; `None` if it is about another interface, or about nothing that is watched.
    pub(super) fn of(kind: u16, body: &[u8], ifindex: u32) -> Option<Self> {
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
pub(super) fn read_neighbor(ifindex: u32, ip: IpAddr) -> Neighbor {
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
pub(super) fn silent_neighbors(ifindex: u32, within_ns: u64) -> Vec<IpAddr> {
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

/// Asks for the state of a link; `None` if the kernel does not report it.
pub(super) fn read_link(ifindex: u32) -> Option<Link> {
    const RTEXT_FILTER_SKIP_STATS: u32 = 1 << 3;
    let mut link = None;
    ask(ifindex, RTEXT_FILTER_SKIP_STATS, &mut |body| link = link_of(body));
    link
}

/// Returns the kind of a virtual interface, such as `veth`; `None` if it is not virtual, or the kernel does not report
/// it.
pub(super) fn kind(ifindex: u32) -> Option<String> {
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
