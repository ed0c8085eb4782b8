//! ARP for IPv4 over Ethernet (RFC 826).

use core::net::Ipv4Addr;

use crate::bytes::chunk;
use crate::eth::{self, MIN_FRAME_LEN};
use crate::{MAX_SLOW_PATH_LEN, MacAddr, SlowPath};

/// Bytes of an ARP packet for IPv4 over Ethernet.
pub const PACKET_LEN: usize = 28;

/// Hardware type Ethernet, protocol type IPv4, address lengths 6 and 4.
const KIND: [u8; 6] = [0, 1, 8, 0, 6, 4];
const REQUEST: [u8; 2] = [0, 1];
const REPLY: [u8; 2] = [0, 2];

/// Reads the packet behind the Ethernet header. A sender that no station can be is refused.
pub(crate) fn parse(packet: &[u8], vlan: Option<u16>) -> Option<SlowPath> {
    let packet: &[u8; PACKET_LEN] = packet.first_chunk()?;
    let sender_mac = MacAddr(*chunk(packet, 8)?);
    if packet[..6] != KIND || !sender_mac.is_unicast() {
        return None;
    }
    let sender_ip = Ipv4Addr::from(*chunk::<4>(packet, 14)?);
    if sender_ip.is_multicast() || sender_ip.is_broadcast() {
        return None;
    }
    match [packet[6], packet[7]] {
        REQUEST => {
            let target_ip = Ipv4Addr::from(*chunk::<4>(packet, 24)?);
            Some(SlowPath::ArpRequest {
                sender_mac,
                sender_ip,
                target_ip,
                vlan,
            })
        }
        REPLY if !sender_ip.is_unspecified() => Some(SlowPath::ArpReply {
            sender_ip,
            sender_mac,
            vlan,
        }),
        _ => None,
    }
}

/// Writes a broadcast request for `target_ip` and returns the frame's length, or 0 if `out` is shorter.
pub fn build_arp_request(
    out: &mut [u8],
    src_mac: MacAddr,
    src_ip: Ipv4Addr,
    target_ip: Ipv4Addr,
    vlan: Option<u16>,
) -> usize {
    build(
        out,
        MacAddr::BROADCAST,
        REQUEST,
        (src_mac, src_ip),
        (MacAddr::ZERO, target_ip),
        vlan,
    )
}

/// Writes the reply to `dst_mac` that `src_ip` is at `src_mac` and returns the frame's length, or 0 if `out` is
/// shorter.
pub fn build_arp_reply(
    out: &mut [u8],
    src_mac: MacAddr,
    src_ip: Ipv4Addr,
    dst_mac: MacAddr,
    dst_ip: Ipv4Addr,
    vlan: Option<u16>,
) -> usize {
    build(out, dst_mac, REPLY, (src_mac, src_ip), (dst_mac, dst_ip), vlan)
}

fn build(
    out: &mut [u8],
    eth_dst: MacAddr,
    operation: [u8; 2],
    sender: (MacAddr, Ipv4Addr),
    target: (MacAddr, Ipv4Addr),
    vlan: Option<u16>,
) -> usize {
    let mut frame = [0; MAX_SLOW_PATH_LEN];
    let l3 = eth::write(&mut frame, eth_dst, sender.0, vlan, eth::TYPE_ARP);
    let packet = &mut frame[l3..l3 + PACKET_LEN];
    packet[..6].copy_from_slice(&KIND);
    packet[6..8].copy_from_slice(&operation);
    packet[8..14].copy_from_slice(&sender.0.0);
    packet[14..18].copy_from_slice(&sender.1.octets());
    packet[18..24].copy_from_slice(&target.0.0);
    packet[24..28].copy_from_slice(&target.1.octets());
    let Some(out) = out.get_mut(..MIN_FRAME_LEN) else {
        return 0;
    };
    out.copy_from_slice(&frame[..MIN_FRAME_LEN]);
    MIN_FRAME_LEN
}
