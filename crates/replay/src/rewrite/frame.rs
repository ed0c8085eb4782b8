//! Headers of a frame that is changed, and the checksums that cover them.

use mpps_wire::headers::{self, Headers};
use mpps_wire::tagged::outer_ip;
use mpps_wire::{checksum, eth, ipv4, ipv6};

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
const DCCP: u8 = 33;
const UDP_LITE: u8 = 136;

/// Protocols whose checksum covers the addresses: number, offset of the checksum, and whether it does so over IPv6
/// alone (ICMPv6, OSPF, PIM).
const SUMS: [(u8, usize, bool); 7] = [
    (TCP, 16, false),
    (UDP, 6, false),
    (DCCP, 6, false),
    (UDP_LITE, 6, false),
    (58, 2, true),
    (89, 12, true),
    (103, 2, true),
];
/// Offsets of an IPv4 header's checksum and addresses, and of an IPv6 header's addresses.
const SUM_V4: usize = 10;
const ADDRESSES_V4: usize = 12;
const ADDRESSES_V6: usize = 8;

/// Header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    Eth,
    /// VLAN tag, by its number from the outermost.
    Tag(usize),
    Ip {
        v6: bool,
    },
    /// Header with ports, of this protocol.
    Ports {
        v6: bool,
        protocol: u8,
    },
}

/// Headers of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    ip: Option<Headers>,
    /// End of the packet in the frame.
    end: usize,
}

/// Bytes of headers before they change.
pub(super) struct Snapshot {
    ip: [u8; ipv6::HEADER_LEN],
    ports: Option<[u8; 4]>,
}

impl Found {
    pub(super) fn of(frame: &[u8]) -> Self {
        let ip = outer_ip(frame).and_then(|at| headers::at(frame, at));
        // Without a length, that of a packet that a device was to divide or of a jumbogram, it is the frame's.
        let end = ip.filter(|ip| match ip.v6 {
            true => ip.end > ip.l3 + ipv6::HEADER_LEN,
            false => ip.end >= ip.l3 + ipv4::MIN_HEADER_LEN,
        });
        let end = end.map_or(frame.len(), |ip| ip.end.min(frame.len()));
        Self { ip, end }
    }

    /// Returns the first bit of a field in the frame; `None` if the frame has not got it.
    pub(super) fn bit(&self, header: Where, bit: usize, width: u32) -> Option<usize> {
        let start = match (header, self.ip) {
            (Where::Eth, _) => 0,
            // Behind the type by which it is known.
            (Where::Tag(number), _) => eth::HEADER_LEN + number * eth::TAG_LEN,
            (Where::Ip { v6 }, Some(ip)) if ip.v6 == v6 => ip.l3,
            (Where::Ports { v6, protocol }, Some(ip)) if ip.v6 == v6 && ip.protocol == protocol => ip.l4?,
            _ => return None,
        };
        let bit = start * 8 + bit;
        (bit + width as usize <= self.end * 8).then_some(bit)
    }

    /// Returns source and destination port.
    pub(super) fn ports<'f>(&self, frame: &'f mut [u8]) -> Option<&'f mut [u8; 4]> {
        let ip = self
            .ip
            .filter(|ip| matches!(ip.protocol, TCP | UDP | DCCP | UDP_LITE))?;
        frame.get_mut(ip.l4?..self.end)?.first_chunk_mut()
    }

    /// Returns the bytes that checksums cover and that may change.
    pub(super) fn snapshot(&self, frame: &mut [u8]) -> Snapshot {
        let mut ip = [0; ipv6::HEADER_LEN];
        if let Some(found) = self.ip {
            let len = header_len(&found);
            let there = frame.get(found.l3..found.l3 + len).unwrap_or_default();
            for (byte, there) in ip.iter_mut().zip(there) {
                *byte = *there;
            }
        }
        let ports = self.ports(frame).copied();
        Snapshot { ip, ports }
    }

    /// Updates the checksums for what changed since.
    pub(super) fn update_sums(&self, frame: &mut [u8], before: &Snapshot) {
        let Some(ip) = self.ip else { return };
        let mut now = [0; ipv6::HEADER_LEN];
        let len = header_len(&ip);
        let Some(header) = frame.get_mut(ip.l3..ip.l3 + len) else {
            return;
        };
        now[..len].copy_from_slice(header);
        if !ip.v6
            && let Some(field) = header.get_mut(SUM_V4..).and_then(|header| header.first_chunk_mut())
        {
            *field = checksum::updated(*field, &before.ip, &now);
        }
        let sum = SUMS.iter().find(|(protocol, ..)| *protocol == ip.protocol);
        let Some((_, offset, v6_alone)) = sum else { return };
        let addresses = match (ip.v6, ip.routed) {
            (false, _) if *v6_alone => return,
            (false, _) => ADDRESSES_V4..ipv4::MIN_HEADER_LEN,
            (true, false) => ADDRESSES_V6..ipv6::HEADER_LEN,
            // The sum is for another destination.
            (true, true) => ADDRESSES_V6..ADDRESSES_V6 + 16,
        };
        let ports = self.ports(frame).copied();
        let Some(field) = ip
            .l4
            .and_then(|l4| frame.get_mut(l4 + offset..self.end)?.first_chunk_mut())
        else {
            return;
        };
        let updated = match ip.protocol {
            UDP => checksum::updated_udp,
            _ => checksum::updated,
        };
        *field = updated(*field, &before.ip[addresses.clone()], &now[addresses]);
        if let Some((before, now)) = before.ports.zip(ports) {
            *field = updated(*field, &before, &now);
        }
    }
}

/// Returns the bytes of the fixed part of an IP header.
fn header_len(ip: &Headers) -> usize {
    match ip.v6 {
        true => ipv6::HEADER_LEN,
        false => ipv4::MIN_HEADER_LEN,
    }
}
