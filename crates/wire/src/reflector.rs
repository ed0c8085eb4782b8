//! A reflector that is quick with what nearly every packet is.
//!
//! The packets of one flow differ in ports, stamp and data, and hardly in what lies before. So the headers of two packets
//! are kept as they came, and as they left: a packet whose Ethernet and IPv4 headers are the same 34 bytes needs no
//! header checksum and no look at the addresses; its new headers are there to be copied. Packets of other flows, and of
//! senders that number their packets, are looked through in one go as long as they are plain: untagged, IPv4 without
//! options, UDP. Everything else, and everything that is wrong, goes the long way, [`reflect_in_place`].

use crate::bytes::{same_headers, swap_macs, swap_neighbours};
use crate::headers::PLAIN_HEADERS as HEADERS;
use crate::{Left, ReflectFilter, eth, ipv4, reflect_in_place, udp};
use core::net::IpAddr;

/// Plain packets to one whose headers are kept: where each has others, keeping them is for nothing.
const KEEP_EVERY: u32 = 64;

/// Turns packets round as [`reflect_in_place`] does, with the same result for every frame.
#[derive(Debug)]
pub struct Reflector<'f> {
    filter: &'f ReflectFilter,
    wanted: Wanted,
    /// Those of the last packet, if they are kept.
    known: Headers,
    before: Headers,
    /// Plain packets until headers are kept again.
    until_kept: u32,
}

/// Headers of a packet that was turned.
#[derive(Clone, Copy, Debug)]
struct Headers {
    /// As they came, and what they were turned into.
    came: [u8; HEADERS],
    leaves: [u8; HEADERS],
    /// Length of a frame that holds the packet of these headers; `usize::MAX`: none is known.
    least_len: usize,
    /// Largest UDP payload within that packet.
    most_payload: u16,
}

const NONE: Headers = Headers {
    came: [0; HEADERS],
    leaves: [0; HEADERS],
    least_len: usize::MAX,
    most_payload: 0,
};

/// A filter as a plain packet is compared with it, as numbers as they lie in memory: each of what it wants, and the bits
/// that it looks at.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    mac: (u64, u64),
    ip: (u32, u32),
    /// The first of its ports, and how many follow it.
    ports: (u16, u16),
    /// It wants an IPv6 address: no plain packet.
    v6: bool,
}

impl Wanted {
    fn of(filter: &ReflectFilter) -> Self {
        let ports = filter.ports.as_ref();
        let mac = filter.mac.map(|mac| {
            let [a, b, c, d, e, f] = mac.0;
            (u64::from_le_bytes([a, b, c, d, e, f, 0, 0]), (1 << 48) - 1)
        });
        let ip = match filter.ip {
            Some(IpAddr::V4(ip)) => (u32::from_le_bytes(ip.octets()), u32::MAX),
            _ => (0, 0),
        };
        Self {
            mac: mac.unwrap_or((0, 0)),
            ip,
            ports: ports.map_or((0, u16::MAX), |ports| {
                (*ports.start(), ports.end().saturating_sub(*ports.start()))
            }),
            v6: matches!(filter.ip, Some(IpAddr::V6(_))),
        }
    }
}

/// The eight bytes of a UDP header, as read in one go.
#[derive(Clone, Copy)]
struct UdpWord(u64);

impl UdpWord {
    #[inline(always)]
    const fn src_port(self) -> u16 {
        (self.0 as u16).swap_bytes()
    }

    #[inline(always)]
    const fn dst_port(self) -> u16 {
        ((self.0 >> 16) as u16).swap_bytes()
    }

    #[inline(always)]
    const fn len(self) -> u16 {
        ((self.0 >> 32) as u16).swap_bytes()
    }

    /// With its ports exchanged.
    #[inline(always)]
    const fn turned(self) -> [u8; udp::HEADER_LEN] {
        let ports = (self.0 as u32).rotate_left(16);
        (self.0 >> 32 << 32 | ports as u64).to_le_bytes()
    }
}

impl<'f> Reflector<'f> {
    /// A reflector of what `filter` takes.
    pub fn new(filter: &'f ReflectFilter) -> Self {
        Self {
            filter,
            wanted: Wanted::of(filter),
            known: NONE,
            before: NONE,
            until_kept: 1,
        }
    }

    /// Sends `frame` back where it came from. `complete_checksum`: its UDP checksum was left to a device.
    ///
    /// # Errors
    /// Why the frame was left; it is then unchanged.
    #[inline]
    pub fn turn(&mut self, frame: &mut [u8], complete_checksum: bool) -> Result<(), Left> {
        if !complete_checksum && (self.turn_alike(frame) || self.turn_plain(frame)) {
            return Ok(());
        }
        reflect_in_place(frame, self.filter, complete_checksum)
    }

    /// As [`Reflector::turn`] with a finished checksum, but only for a packet with the headers of the last: false, with
    /// nothing changed, for anything else.
    #[inline(always)]
    pub fn turn_alike(&self, frame: &mut [u8]) -> bool {
        self.turn_known(&self.known, frame)
    }

    #[inline(always)]
    fn turn_known(&self, known: &Headers, frame: &mut [u8]) -> bool {
        let len = frame.len();
        let Some((headers, rest)) = frame.split_first_chunk_mut::<HEADERS>() else {
            return false;
        };
        let Some(bytes) = rest.first_chunk_mut::<{ udp::HEADER_LEN }>() else {
            return false;
        };
        let udp = UdpWord(u64::from_le_bytes(*bytes));
        let same = same_headers(headers, &known.came) && len >= known.least_len;
        // What is less than the first wraps to a large number.
        let fits = udp.len().wrapping_sub(udp::HEADER_LEN as u16) <= known.most_payload;
        if !(same & fits & self.takes_ports(udp)) {
            return false;
        }
        *headers = known.leaves;
        *bytes = udp.turned();
        true
    }

    /// Likewise for any plain packet. Apart, so that the loop over packets alike stays short.
    #[inline(never)]
    pub fn turn_plain(&mut self, frame: &mut [u8]) -> bool {
        if self.turn_known(&self.before, frame) {
            core::mem::swap(&mut self.known, &mut self.before);
            return true;
        }
        self.look_through(frame)
    }

    #[inline(always)]
    fn look_through(&mut self, frame: &mut [u8]) -> bool {
        const L3: usize = eth::HEADER_LEN;
        let room = frame.len().wrapping_sub(L3);
        let Some((headers, rest)) = frame.split_first_chunk_mut::<HEADERS>() else {
            return false;
        };
        let Some(bytes) = rest.first_chunk_mut::<{ udp::HEADER_LEN }>() else {
            return false;
        };
        let udp = UdpWord(u64::from_le_bytes(*bytes));
        let (_, ip) = headers.split_at(L3);
        let Some(ip) = ip.first_chunk::<{ ipv4::MIN_HEADER_LEN }>() else {
            return false;
        };
        let total_len = u16::from_be_bytes([ip[2], ip[3]]);
        let plain = ([headers[12], headers[13], ip[0]] == [0x08, 0x00, 0x45])
            & (ip[9] == ipv4::PROTOCOL_UDP)
            & (u16::from_be_bytes([ip[6], ip[7]]) & ipv4::FRAGMENT_BITS == 0)
            & ipv4::sum_of_fixed_part(ip).is_valid();
        let lengths = (usize::from(total_len) <= room)
            & (udp.len() >= udp::HEADER_LEN as u16)
            & (usize::from(udp.len()) + ipv4::MIN_HEADER_LEN <= usize::from(total_len));
        let src = u32::from_be_bytes([ip[12], ip[13], ip[14], ip[15]]);
        let dst = u32::from_be_bytes([ip[16], ip[17], ip[18], ip[19]]);
        // Neither MAC address is a group's, and each IP address is one that a host can have.
        let hosts = ((headers[0] | headers[6]) & 1 == 0) & (src != 0) & !is_group(src) & !is_group(dst);
        let taken = self.takes_addresses(headers, dst) & self.takes_ports(udp);
        if !(plain & lengths & hosts & taken) {
            return false;
        }
        turn_headers(headers);
        *bytes = udp.turned();
        self.until_kept -= 1;
        if self.until_kept == 0 {
            self.keep(headers, total_len);
        }
        true
    }

    /// Whether the filter takes these addresses.
    #[inline(always)]
    fn takes_addresses(&self, headers: &[u8; HEADERS], dst: u32) -> bool {
        let [a, b, c, d, e, f, g, h, ..] = *headers;
        let (mac, ip) = (u64::from_le_bytes([a, b, c, d, e, f, g, h]), dst.swap_bytes());
        let wanted = &self.wanted;
        ((mac ^ wanted.mac.0) & wanted.mac.1 == 0) & ((ip ^ wanted.ip.0) & wanted.ip.1 == 0) & !wanted.v6
    }

    /// Whether it takes these ports, and there is one to answer to.
    #[inline(always)]
    fn takes_ports(&self, udp: UdpWord) -> bool {
        let (first, more) = self.wanted.ports;
        let within = udp.dst_port().wrapping_sub(first) <= more;
        let list = &self.filter.excluded_ports;
        let excluded = !list.is_empty() && list.binary_search(&udp.dst_port()).is_ok();
        (udp.src_port() != 0) & within & !excluded
    }

    /// Keeps the headers of a plain packet that was turned.
    #[cold]
    fn keep(&mut self, leaves: &[u8; HEADERS], total_len: u16) {
        let mut came = *leaves;
        turn_headers(&mut came);
        self.before = self.known;
        self.known = Headers {
            came,
            leaves: *leaves,
            least_len: eth::HEADER_LEN + usize::from(total_len),
            // What is plain holds its own UDP header.
            most_payload: total_len - (ipv4::MIN_HEADER_LEN + udp::HEADER_LEN) as u16,
        };
        self.until_kept = KEEP_EVERY;
    }
}

/// Exchanges the addresses.
#[inline(always)]
fn turn_headers(headers: &mut [u8; HEADERS]) {
    swap_macs(headers);
    swap_neighbours::<4>(headers, eth::HEADER_LEN + 12);
}

/// Whether this IPv4 address is of a group, or of all.
#[inline(always)]
const fn is_group(ip: u32) -> bool {
    (ip >> 28 == 0xe) | (ip == u32::MAX)
}
