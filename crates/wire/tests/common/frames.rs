//! Frames built field by field, independently of the code under test; checksums by RFC 1071 to the letter.

use std::net::{Ipv4Addr, Ipv6Addr};

pub const DST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub const SRC_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const SRC_V4: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
pub const DST_V4: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
pub const SRC_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x99, 0, 0, 0, 0, 0, 1);
pub const DST_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x99, 0, 0, 0, 0, 0, 2);
pub const SRC_PORT: u16 = 10_000;
pub const DST_PORT: u16 = 9_000;

/// VLAN tags: none, one customer tag, a service tag around a customer tag.
pub const TAGS: [&[u16]; 3] = [&[], &[0x8100], &[0x88a8, 0x8100]];
/// IPv4 options: none; router alert; a used-up source route with padding; the most there can be.
pub const OPTIONS: [&[u8]; 4] = [&[], &[148, 4, 0, 0], &[131, 7, 8, 10, 0, 0, 9, 0], &[1; 40]];
/// IPv6 extension headers: type and body, the body without its next-header byte.
pub type Extension = (u8, &'static [u8]);
pub const EXTENSIONS: [&[Extension]; 5] = [
    &[],
    &[(0, &[0, 5, 2, 0, 0, 1, 0])],
    &[(60, &[1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])],
    &[
        (0, &[0, 1, 4, 0, 0, 0, 0]),
        (60, &[0, 1, 4, 0, 0, 0, 0]),
        (43, &[0, 4, 0, 0, 0, 0, 0]),
    ],
    // Authentication of 24 bytes (RFC 4302), which are told as 4: words of four bytes, less two.
    &[
        (
            51,
            &[4, 0, 0, 0, 0, 1, 0, 0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
        ),
        (60, &[0, 1, 4, 0, 0, 0, 0]),
    ],
];

pub fn naive_checksum(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let mut sum = 0u64;
    for pair in bytes.chunks(2) {
        sum += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// A frame with its time to live, and the IPv4 header checksum, as in another of the same headers.
pub fn with_ttl_of(frame: &[u8], other: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let tags = usize::from(matches!(frame[12..14], [0x81, 0] | [0x88, 0xa8]));
    let tags = tags + usize::from(tags == 1 && matches!(frame[16..18], [0x81, 0] | [0x88, 0xa8]));
    let l3 = 14 + 4 * tags;
    let places = if frame[l3] >> 4 == 6 {
        vec![l3 + 7]
    } else {
        vec![l3 + 8, l3 + 10, l3 + 11]
    };
    for at in places {
        frame[at] = other[at];
    }
    frame
}

pub fn ethernet(tags: &[u16], ethertype: u16) -> Vec<u8> {
    let mut frame = [DST_MAC, SRC_MAC].concat();
    for (i, tpid) in tags.iter().enumerate() {
        frame.extend(tpid.to_be_bytes());
        frame.extend((0x6000 | (100 + i as u16)).to_be_bytes());
    }
    frame.extend(ethertype.to_be_bytes());
    frame
}

fn udp(pseudo_addresses: &[u8], payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len()) as u16;
    let mut datagram = [SRC_PORT, DST_PORT, len, 0].map(u16::to_be_bytes).concat();
    datagram.extend(payload);
    let sum = naive_checksum(&[pseudo_addresses, &[0, 17], &len.to_be_bytes(), &datagram]);
    datagram[6..8].copy_from_slice(&if sum == 0 { 0xffff } else { sum }.to_be_bytes());
    datagram
}

pub fn ipv4(tags: &[u16], options: &[u8], protocol: u8, body: &[u8]) -> Vec<u8> {
    let header_len = 20 + options.len();
    let mut head = vec![0x40 | (header_len / 4) as u8, 0];
    head.extend(((header_len + body.len()) as u16).to_be_bytes());
    head.extend([0x12, 0x34, 0x40, 0, 64, protocol, 0, 0]);
    head.extend(SRC_V4.octets());
    head.extend(DST_V4.octets());
    head.extend(options);
    let sum = naive_checksum(&[&head]);
    head[10..12].copy_from_slice(&sum.to_be_bytes());
    [ethernet(tags, 0x0800), head, body.to_vec()].concat()
}

pub fn udp_v4(tags: &[u16], options: &[u8], payload: &[u8]) -> Vec<u8> {
    let datagram = udp(&[SRC_V4.octets(), DST_V4.octets()].concat(), payload);
    ipv4(tags, options, 17, &datagram)
}

pub fn ipv6(tags: &[u16], extensions: &[Extension], protocol: u8, hop_limit: u8, body: &[u8]) -> Vec<u8> {
    let mut upper = Vec::new();
    for (i, (_, rest)) in extensions.iter().enumerate() {
        upper.push(extensions.get(i + 1).map_or(protocol, |e| e.0));
        upper.extend(*rest);
    }
    upper.extend(body);
    let mut head = vec![0x60, 0, 0x12, 0x34];
    head.extend((upper.len() as u16).to_be_bytes());
    head.extend([extensions.first().map_or(protocol, |e| e.0), hop_limit]);
    head.extend(SRC_V6.octets());
    head.extend(DST_V6.octets());
    [ethernet(tags, 0x86dd), head, upper].concat()
}

pub fn udp_v6(tags: &[u16], extensions: &[Extension], payload: &[u8]) -> Vec<u8> {
    let datagram = udp(&[SRC_V6.octets(), DST_V6.octets()].concat(), payload);
    ipv6(tags, extensions, 17, 64, &datagram)
}

/// Echo requests with data, over IPv4 and IPv6.
pub fn echo_v4(tags: &[u16], options: &[u8], data: &[u8]) -> Vec<u8> {
    let mut message = [&[8, 0, 0, 0, 0x12, 0x34, 0, 1][..], data].concat();
    let sum = naive_checksum(&[&message]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ipv4(tags, options, 1, &message)
}

pub fn echo_v6(tags: &[u16], extensions: &[Extension], data: &[u8]) -> Vec<u8> {
    let mut message = [&[128, 0, 0, 0, 0x12, 0x34, 0, 1][..], data].concat();
    let len = (message.len() as u32).to_be_bytes();
    let sum = naive_checksum(&[&SRC_V6.octets(), &DST_V6.octets(), &len, &[0, 0, 0, 58], &message]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ipv6(tags, extensions, 58, 64, &message)
}

/// Every kind of UDP frame that is accepted, one of each.
pub fn all_udp(payload: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for (t, tags) in TAGS.iter().enumerate() {
        for (o, options) in OPTIONS.iter().enumerate() {
            all.push((format!("v4_tags{t}_options{o}"), udp_v4(tags, options, payload)));
        }
        for (e, extensions) in EXTENSIONS.iter().enumerate() {
            all.push((format!("v6_tags{t}_extensions{e}"), udp_v6(tags, extensions, payload)));
        }
    }
    all
}
