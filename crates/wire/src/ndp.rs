//! Neighbour discovery: solicitations and advertisements (RFC 4861), as much as resolving and answering needs.

use core::net::Ipv6Addr;

use crate::bytes::chunk;
use crate::checksum::Sum;
use crate::ipv6::{HEADER_LEN, NEXT_ICMPV6};
use crate::udp::pseudo_header;
use crate::{MAX_SLOW_PATH_LEN, MacAddr, SlowPath, eth};

/// Bytes of the longest IPv6 packet that is built: fixed header, message, one link-layer address option.
pub const PACKET_LEN: usize = HEADER_LEN + MESSAGE_LEN + OPTION_LEN;

const MESSAGE_LEN: usize = 24;
const OPTION_LEN: usize = 8;
const SOLICIT: u8 = 135;
const ADVERT: u8 = 136;
const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;
const FLAG_SOLICITED: u8 = 0x40;
const FLAG_OVERRIDE: u8 = 0x20;
/// A neighbour's packet has crossed no router (RFC 4861, section 3.1).
const HOP_LIMIT: u8 = 255;

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The group that hosts with this address listen to (RFC 4291, section 2.7.1), and its MAC address (RFC 2464).
pub fn solicited_node_multicast(ip: Ipv6Addr) -> (Ipv6Addr, MacAddr) {
    let [.., a, b, c] = ip.octets();
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]));
    (group, group_mac(group))
}

/// RFC 2464, section 7.
fn group_mac(group: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = group.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

/// The sum over an ICMPv6 message and its pseudo-header. `packet` starts with the fixed header; the message is at
/// `header_len` and goes to the packet's end.
pub(crate) fn icmpv6_sum(packet: &[u8], header_len: usize) -> Option<Sum> {
    let message = packet.get(header_len..)?;
    let len = u16::try_from(message.len()).ok()?;
    Some(pseudo_header::<32>(chunk(packet, 8)?, NEXT_ICMPV6, len).bytes(message))
}

/// Reads a solicitation or advertisement and validates it by RFC 4861, sections 7.1.1 and 7.1.2.
pub(crate) fn parse(frame: &[u8], l3: usize, vlan: Option<u16>) -> Option<SlowPath> {
    let packet = frame.get(l3..)?;
    let head: &[u8; HEADER_LEN] = packet.first_chunk()?;
    if head[0] >> 4 != 6 || head[6] != NEXT_ICMPV6 || head[7] != HOP_LIMIT {
        return None;
    }
    let len = usize::from(u16::from_be_bytes([head[4], head[5]]));
    let packet = packet.get(..HEADER_LEN + len)?;
    let (message, options) = packet.get(HEADER_LEN..)?.split_first_chunk::<MESSAGE_LEN>()?;
    let (kind, code) = (message[0], message[1]);
    if !matches!(kind, SOLICIT | ADVERT) || code != 0 || !icmpv6_sum(packet, HEADER_LEN)?.is_valid() {
        return None;
    }
    let src = Ipv6Addr::from(*chunk::<16>(head, 8)?);
    let dst = Ipv6Addr::from(*chunk::<16>(head, 24)?);
    let target = Ipv6Addr::from(*chunk::<16>(message, 8)?);
    if src.is_multicast() || target.is_multicast() || target.is_unspecified() {
        return None;
    }
    let wanted = if kind == SOLICIT {
        SOURCE_LINK_LAYER
    } else {
        TARGET_LINK_LAYER
    };
    let option = link_layer_option(options, wanted)?;
    if kind == SOLICIT {
        let src_ip = (!src.is_unspecified()).then_some(src);
        if src_ip.is_none() && (option.is_some() || dst != solicited_node_multicast(target).0) {
            return None;
        }
        let src_mac = option.unwrap_or_else(|| eth::source(frame));
        src_mac.is_unicast().then_some(SlowPath::NeighborSolicit {
            src_mac,
            src_ip,
            target,
            named: option.is_some() || dst.is_multicast(),
            vlan,
        })
    } else {
        if src.is_unspecified() || dst.is_multicast() && message[4] & FLAG_SOLICITED != 0 {
            return None;
        }
        // An advertisement without the option carries no new address (section 7.2.5).
        let mac = option.filter(MacAddr::is_unicast)?;
        Some(SlowPath::NeighborAdvert { target, mac, vlan })
    }
}

/// Walks all options. `None` if one is malformed, `Some(None)` if none is of the wanted kind.
fn link_layer_option(options: &[u8], wanted: u8) -> Option<Option<MacAddr>> {
    let mut found = None;
    let mut rest = options;
    while !rest.is_empty() {
        let (kind, len) = (*rest.first()?, usize::from(*rest.get(1)?) * 8);
        if len == 0 {
            return None;
        }
        let (option, after) = rest.split_at_checked(len)?;
        // On Ethernet the option is eight bytes long (RFC 2464, section 6).
        if kind == wanted && len == OPTION_LEN && found.is_none() {
            found = Some(MacAddr(*chunk(option, 2)?));
        }
        rest = after;
    }
    Some(found)
}

/// Writes a solicitation for `target` to its solicited-node group and returns the frame's length, or 0 if `out` is
/// shorter.
pub fn build_neighbor_solicit(
    out: &mut [u8],
    src_mac: MacAddr,
    src_ip: Ipv6Addr,
    target: Ipv6Addr,
    vlan: Option<u16>,
) -> usize {
    let (group, mac) = solicited_node_multicast(target);
    build(out, (src_mac, src_ip), (mac, group), (SOLICIT, 0), target, true, vlan)
}

/// Writes the advertisement that `target` is at `src_mac` and returns the frame's length, or 0 if `out` is shorter.
/// `reply_to` is the host that asked; `None` sends the advertisement to all nodes, as the answer to a host that has no
/// address yet. `named`: with the link-layer address as an option, see [`SlowPath::NeighborSolicit`].
pub fn build_neighbor_advert(
    out: &mut [u8],
    src_mac: MacAddr,
    target: Ipv6Addr,
    reply_to: Option<(MacAddr, Ipv6Addr)>,
    named: bool,
    vlan: Option<u16>,
) -> usize {
    let (to, flags) = match reply_to {
        Some(to) => (to, FLAG_SOLICITED | FLAG_OVERRIDE),
        None => ((group_mac(ALL_NODES), ALL_NODES), FLAG_OVERRIDE),
    };
    build(out, (src_mac, target), to, (ADVERT, flags), target, named, vlan)
}

fn build(
    out: &mut [u8],
    from: (MacAddr, Ipv6Addr),
    to: (MacAddr, Ipv6Addr),
    (kind, flags): (u8, u8),
    target: Ipv6Addr,
    named: bool,
    vlan: Option<u16>,
) -> usize {
    let mut frame = [0; MAX_SLOW_PATH_LEN];
    let l3 = eth::write(&mut frame, to.0, from.0, vlan, eth::TYPE_IPV6);
    let message_len = MESSAGE_LEN + if named { OPTION_LEN } else { 0 };
    let end = l3 + HEADER_LEN + message_len;
    let packet = &mut frame[l3..end];
    packet[0] = 0x60;
    packet[4..6].copy_from_slice(&(message_len as u16).to_be_bytes());
    packet[6..8].copy_from_slice(&[NEXT_ICMPV6, HOP_LIMIT]);
    packet[8..24].copy_from_slice(&from.1.octets());
    packet[24..40].copy_from_slice(&to.1.octets());
    packet[40] = kind;
    packet[44] = flags;
    packet[48..64].copy_from_slice(&target.octets());
    if let Some(option) = packet.get_mut(HEADER_LEN + MESSAGE_LEN..).filter(|_| named) {
        let kind = if kind == SOLICIT {
            SOURCE_LINK_LAYER
        } else {
            TARGET_LINK_LAYER
        };
        option[..2].copy_from_slice(&[kind, 1]);
        option[2..].copy_from_slice(&from.0.0);
    }
    if let Some(sum) = icmpv6_sum(packet, HEADER_LEN) {
        packet[42..44].copy_from_slice(&sum.finish());
    }
    let Some(out) = out.get_mut(..end) else { return 0 };
    out.copy_from_slice(&frame[..end]);
    end
}
