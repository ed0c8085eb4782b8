//! ICMP and ICMPv6 echo (RFC 792, RFC 4443), so that test addresses answer a ping.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bytes::{chunk, chunk_mut, swap_neighbours};
use crate::checksum::Sum;
use crate::eth::Ethernet;
use crate::ndp::icmpv6_sum;
use crate::{SlowPath, eth, ipv4, ipv6};

const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST: u8 = 8;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;

/// Bytes of an echo message without data.
const HEADER_LEN: usize = 8;

/// A valid echo request: where it lies and who sent it.
struct Echo {
    l3: usize,
    l4: usize,
    end: usize,
    src: IpAddr,
    dst: IpAddr,
}

fn find(frame: &[u8], ethernet: &Ethernet) -> Option<Echo> {
    let l3 = ethernet.l3;
    let packet = frame.get(l3..)?;
    let (header_len, total_len, src, dst) = match ethernet.ethertype {
        eth::TYPE_IPV4 => {
            let ip = ipv4::parse(packet)
                .ok()
                .filter(|ip| ip.protocol == ipv4::PROTOCOL_ICMP)?;
            let message = packet.get(ip.header_len..ip.total_len)?;
            let is_request = message.len() >= HEADER_LEN && message[0] == ECHO_REQUEST && message[1] == 0;
            if !is_request || !Sum::ZERO.bytes(message).is_valid() {
                return None;
            }
            let src = Ipv4Addr::from(*chunk::<4>(packet, 12)?);
            let dst = Ipv4Addr::from(*chunk::<4>(packet, 16)?);
            if !ipv4::is_one_host(src) || dst.is_broadcast() || src.is_loopback() || src == dst {
                return None;
            }
            (ip.header_len, ip.total_len, IpAddr::V4(src), IpAddr::V4(dst))
        }
        eth::TYPE_IPV6 => {
            let ip = ipv6::parse(packet).ok().filter(|ip| ip.protocol == ipv6::NEXT_ICMPV6)?;
            let packet = packet.get(..ip.total_len)?;
            let message = packet.get(ip.header_len..)?;
            let is_request = message.len() >= HEADER_LEN && message[0] == ECHO_REQUEST_V6 && message[1] == 0;
            if !is_request || !icmpv6_sum(packet, ip.header_len)?.is_valid() {
                return None;
            }
            let src = Ipv6Addr::from(*chunk::<16>(packet, 8)?);
            let dst = Ipv6Addr::from(*chunk::<16>(packet, 24)?);
            if src.is_loopback() || src == dst {
                return None;
            }
            (ip.header_len, ip.total_len, IpAddr::V6(src), IpAddr::V6(dst))
        }
        _ => return None,
    };
    let group = eth::destination(frame).is_multicast() || eth::source(frame).is_multicast();
    if group || src.is_multicast() || src.is_unspecified() || dst.is_multicast() {
        return None;
    }
    Some(Echo {
        l3,
        l4: l3 + header_len,
        end: l3 + total_len,
        src,
        dst,
    })
}

/// Reads an echo request sent to one host, with right checksums.
pub(crate) fn parse_echo_request(frame: &[u8], ethernet: &Ethernet, vlan: Option<u16>) -> Option<SlowPath> {
    find(frame, ethernet).map(|echo| SlowPath::EchoRequest {
        src_ip: echo.src,
        dst_ip: echo.dst,
        vlan,
    })
}

/// Turns an echo request into its reply and returns the reply's length (padding, if any, included); `None`, with the
/// frame unchanged, if it is no valid echo request. VLAN tags are kept.
pub fn answer_echo_in_place(frame: &mut [u8]) -> Option<usize> {
    let ethernet = eth::parse(frame)?;
    let echo = find(frame, &ethernet)?;
    swap_neighbours::<6>(frame, 0);
    let reply = if echo.src.is_ipv6() {
        swap_neighbours::<16>(frame, echo.l3 + 8);
        ECHO_REPLY_V6
    } else {
        swap_neighbours::<4>(frame, echo.l3 + 12);
        ECHO_REPLY
    };
    frame[echo.l4] = reply;
    frame[echo.l4 + 2..echo.l4 + 4].fill(0);
    let sum = match ethernet.ethertype {
        eth::TYPE_IPV6 => icmpv6_sum(frame.get(echo.l3..echo.end)?, echo.l4 - echo.l3)?,
        _ => Sum::ZERO.bytes(frame.get(echo.l4..echo.end)?),
    };
    *chunk_mut(frame, echo.l4 + 2)? = sum.finish();
    Some(frame.len())
}
