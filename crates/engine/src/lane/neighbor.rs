//! Neighbours on Ethernet paths: answers hosts that ask for our addresses, and finds the peer's MAC address.
//!
//! The test's addresses need not be the host's own, so nobody else would answer for them. Where they are the host's
//! own, its stack answers and mpps only asks.

use crate::plan::{Hop, Link};
use mpps_io::{Burst, Frame, Queue, Result};
use mpps_wire::{
    MAX_SLOW_PATH_LEN, MacAddr, SlowPath, answer_echo_in_place, build_arp_reply, build_arp_request,
    build_neighbor_advert, build_neighbor_solicit, parse_slow_path,
};
use std::net::IpAddr;
use std::sync::OnceLock;

/// The peer's MAC address, once any lane has heard it.
pub(crate) type Found = OnceLock<MacAddr>;

/// Room for a question.
pub(crate) const QUESTION_LEN: usize = if MAX_SLOW_PATH_LEN > 64 { MAX_SLOW_PATH_LEN } else { 64 };

/// Writes a question for the next hop's MAC address, sent from `src`. Returns its length; 0: there is no next hop to
/// ask for.
pub(crate) fn question(link: &Link, src: Option<IpAddr>, frame: &mut [u8]) -> usize {
    match (src, link.next_hop) {
        (Some(IpAddr::V4(src)), Some(IpAddr::V4(hop))) => build_arp_request(frame, link.mac, src, hop, link.vlan),
        (Some(IpAddr::V6(src)), Some(IpAddr::V6(hop))) => build_neighbor_solicit(frame, link.mac, src, hop, link.vlan),
        _ => 0,
    }
}

/// A lane's part in neighbour discovery.
#[derive(Debug)]
pub(crate) struct Neighbor<'r> {
    link: &'r Link,
    src: Option<IpAddr>,
    found: &'r Found,
    /// Further next hops of the first port, and their addresses once a lane has heard them.
    more: (&'r [Hop], &'r [Found]),
    /// The lane's port is the first: they are asked for and heard there.
    asks_more: bool,
}

impl<'r> Neighbor<'r> {
    /// `src` is the address that questions come from. `more`: further next hops, which the lane asks for (`asks_more`).
    pub(crate) fn new(
        link: &'r Link,
        src: Option<IpAddr>,
        found: &'r Found,
        more: (&'r [Hop], &'r [Found]),
        asks_more: bool,
    ) -> Self {
        Self {
            link,
            src,
            found,
            more,
            asks_more,
        }
    }

    /// Returns the links whose next hops are asked for, each with the address that it is asked from and the place of
    /// its MAC address.
    fn asked(&self) -> impl Iterator<Item = (&'r Link, Option<IpAddr>, &'r Found)> {
        let (hops, found) = self.more;
        let hops = hops.iter().zip(found).filter(|_| self.asks_more);
        let more = hops.map(|(hop, found)| (&hop.link, Some(hop.src), found));
        std::iter::once((self.link, self.src, self.found)).chain(more)
    }

    /// Returns the MAC address of a further next hop, once it is known.
    pub(crate) fn more_mac(&self, place: usize) -> Option<MacAddr> {
        self.more.1.get(place)?.get().copied()
    }

    fn ours(&self, ip: IpAddr) -> bool {
        self.link.answer_for.iter().any(|range| range.contains(&ip))
    }

    /// Returns whether an address is ours and was named by itself. Other hosts may have addresses in a named range. If
    /// one looks for duplicates of such an address (RFC 4862, RFC 5227), or says that it has one, it is not
    /// contradicted.
    fn named(&self, ip: IpAddr) -> bool {
        self.link
            .answer_for
            .iter()
            .any(|range| *range.start() == ip && *range.end() == ip)
    }

    /// Deals with a frame that is no test packet. True: the frame now holds an answer, to be sent. False: the frame was
    /// understood and needs no answer. `None`: the frame is not for us.
    pub(crate) fn attend<F: Frame>(&self, frame: &mut F) -> Option<bool> {
        let heard = parse_slow_path(frame.bytes())?;
        let mac = self.link.mac;
        let len = match heard {
            SlowPath::ArpRequest {
                sender_mac,
                sender_ip,
                target_ip,
                vlan,
            } => {
                let claims = sender_ip.is_unspecified() || sender_ip == target_ip;
                if !self.ours(target_ip.into()) || claims && !self.named(target_ip.into()) {
                    return Some(false);
                }
                frame.set_len(frame.capacity());
                build_arp_reply(frame.bytes_mut(), mac, target_ip, sender_mac, sender_ip, vlan)
            }
            SlowPath::NeighborSolicit {
                src_mac,
                src_ip,
                target,
                named,
                vlan,
            } => {
                if !self.ours(target.into()) || src_ip.is_none() && !self.named(target.into()) {
                    return Some(false);
                }
                frame.set_len(frame.capacity());
                build_neighbor_advert(
                    frame.bytes_mut(),
                    mac,
                    target,
                    src_ip.map(|ip| (src_mac, ip)),
                    named,
                    vlan,
                )
            }
            SlowPath::EchoRequest { src_ip, dst_ip, .. } => {
                // A reply to our own address, or to that of a whole subnet, would come back or go to many.
                if !self.ours(dst_ip) || self.ours(src_ip) || self.link.unanswered.contains(&src_ip) {
                    return Some(false);
                }
                answer_echo_in_place(frame.bytes_mut())?
            }
            SlowPath::ArpReply {
                sender_ip,
                sender_mac,
                vlan,
            } => {
                self.heard(sender_ip.into(), sender_mac, vlan);
                return Some(false);
            }
            SlowPath::NeighborAdvert { target, mac, vlan } => {
                self.heard(target.into(), mac, vlan);
                return Some(false);
            }
        };
        if len == 0 {
            return Some(false);
        }
        frame.set_len(len);
        Some(true)
    }

    fn heard(&self, ip: IpAddr, mac: MacAddr, vlan: Option<u16>) {
        // A device may have taken the tag off: that changes nothing if one next hop alone has the address.
        let alone = self.asked().filter(|(link, ..)| link.next_hop == Some(ip)).count() == 1;
        let same_tag = |link: &Link| link.vlan == vlan || alone;
        for (.., found) in self
            .asked()
            .filter(|(link, ..)| link.next_hop == Some(ip) && same_tag(link))
        {
            if mac.is_unicast() {
                // A second answer changes nothing: the run keeps the address that it began with.
                let _ = found.set(mac);
            }
        }
    }

    /// Asks for the MAC addresses of the next hops that are not known. False when no frame could be sent now.
    pub(crate) fn ask<Q: Queue>(&self, queue: &mut Q) -> Result<bool> {
        let mut asked = false;
        for (link, src, _) in self
            .asked()
            .filter(|(link, _, found)| link.is_asked_for() && found.get().is_none())
        {
            asked |= Self::ask_for(link, src, queue)?;
        }
        Ok(asked)
    }

    fn ask_for<Q: Queue>(link: &Link, src: Option<IpAddr>, queue: &mut Q) -> Result<bool> {
        if src.is_none() {
            return Ok(false);
        }
        let mut burst = Burst::new(1);
        if queue.allocate(&mut burst, 1)? == 0 {
            return Ok(false);
        }
        let frame = &mut burst.as_mut_slice()[0];
        frame.set_len(QUESTION_LEN);
        let len = question(link, src, frame.bytes_mut());
        if len == 0 {
            return Ok(false);
        }
        frame.set_len(len);
        let sent = queue.transmit(&mut burst)? == 1;
        queue.flush()?;
        Ok(sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_io::addresses;
    use mpps_wire::checksum::internet_checksum;
    use std::net::Ipv4Addr;

    struct Bytes(Vec<u8>);

    impl Frame for Bytes {
        fn bytes(&self) -> &[u8] {
            &self.0
        }
        fn bytes_mut(&mut self) -> &mut [u8] {
            &mut self.0
        }
        fn capacity(&self) -> usize {
            self.0.len()
        }
        fn set_len(&mut self, len: usize) {
            self.0.truncate(len);
        }
    }

    const OWN: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 88);

    fn ping(from: Ipv4Addr) -> Bytes {
        let mut ip = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0];
        ip.extend(from.octets().into_iter().chain(OWN.octets()));
        let sum = internet_checksum(&ip);
        ip[10..12].copy_from_slice(&sum);
        let macs = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        let echo = [8, 0, 0xf7, 0xff, 0, 0, 0, 0];
        Bytes(macs.into_iter().chain(ip).chain(echo).collect())
    }

    #[test]
    fn a_ping_from_ourselves_or_from_a_whole_subnet_is_not_answered() {
        let other = Ipv4Addr::new(10, 99, 0, 3);
        let subnet = [Ipv4Addr::new(10, 99, 0, 255), Ipv4Addr::new(10, 99, 0, 0)];
        let link = Link {
            mac: MacAddr([2, 0, 0, 0, 0, 2]),
            vlan: None,
            answer_for: vec![addresses::one(OWN.into())],
            unanswered: vec![other.into(), subnet[0].into(), subnet[1].into()],
            dest_mac: None,
            next_hop: None,
            hint: String::new(),
        };
        let found = Found::new();
        let neighbor = Neighbor::new(&link, None, &found, (&[], &[]), false);
        let nobody = [[0, 1, 2, 3], [240, 0, 0, 1]].map(Ipv4Addr::from);
        for from in [OWN, other].into_iter().chain(subnet).chain(nobody) {
            assert_ne!(neighbor.attend(&mut ping(from)), Some(true), "{from}");
        }
        assert_eq!(neighbor.attend(&mut ping(Ipv4Addr::new(10, 99, 0, 4))), Some(true));
    }
}
