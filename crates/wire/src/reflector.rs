//! A reflector with a memory of one header.
//!
//! The packets of a test differ in ports, stamp and data, and hardly in what lies before. So the headers of the last
//! packet that was turned are kept as they came, and as they left: a packet whose Ethernet and IPv4 headers are the same
//! 34 bytes needs no parsing, no header checksum and no look at the addresses; its new headers are there to be copied.
//! What differs from packet to packet (length of the frame, ports, UDP length) is checked each time. Everything else goes
//! the long way, [`reflect_in_place`].

use crate::bytes::{chunk, chunk_mut};
use crate::packet::parse_plain;
use crate::{Left, ReflectFilter, eth, ipv4, reflect_in_place, udp};

/// Ethernet header and IPv4 header without options.
const HEADERS: usize = eth::HEADER_LEN + ipv4::MIN_HEADER_LEN;

/// Turns packets round as [`reflect_in_place`] does, with the same result for every frame.
#[derive(Debug)]
pub struct Reflector<'f> {
    filter: &'f ReflectFilter,
    /// Headers of a packet that was turned, and what they were turned into.
    came: [u8; HEADERS],
    leaves: [u8; HEADERS],
    /// Length of a frame that holds the packet of these headers; `usize::MAX`: none is known.
    least_len: usize,
    /// Largest UDP length within that packet.
    most_udp: u16,
    /// The filter's ports, both included.
    ports: (u16, u16),
}

impl<'f> Reflector<'f> {
    /// A reflector of what `filter` takes.
    pub fn new(filter: &'f ReflectFilter) -> Self {
        let ports = filter.ports.as_ref();
        Self {
            filter,
            came: [0; HEADERS],
            leaves: [0; HEADERS],
            least_len: usize::MAX,
            most_udp: 0,
            ports: ports.map_or((0, u16::MAX), |ports| (*ports.start(), *ports.end())),
        }
    }

    /// Sends `frame` back where it came from. `complete_checksum`: its UDP checksum was left to a device.
    ///
    /// # Errors
    /// Why the frame was left; it is then unchanged.
    #[inline]
    pub fn turn(&mut self, frame: &mut [u8], complete_checksum: bool) -> Result<(), Left> {
        if !complete_checksum && self.turn_known(frame) {
            return Ok(());
        }
        self.turn_other(frame, complete_checksum)
    }

    /// True when the headers are known, and the packet is turned.
    #[inline(always)]
    fn turn_known(&self, frame: &mut [u8]) -> bool {
        let len = frame.len();
        let Some((headers, rest)) = frame.split_first_chunk_mut::<HEADERS>() else {
            return false;
        };
        let Some(udp) = rest.first_chunk_mut::<{ udp::HEADER_LEN }>() else {
            return false;
        };
        let word = u64::from_le_bytes(*udp);
        let (src_port, dst_port) = ((word as u16).swap_bytes(), ((word >> 16) as u16).swap_bytes());
        let udp_len = ((word >> 32) as u16).swap_bytes();
        let same = differs(headers, &self.came) == 0 && len >= self.least_len;
        let fits = udp_len >= udp::HEADER_LEN as u16 && udp_len <= self.most_udp;
        let taken = src_port != 0 && dst_port >= self.ports.0 && dst_port <= self.ports.1;
        if !(same & fits & taken) || self.excludes(dst_port) {
            return false;
        }
        *headers = self.leaves;
        let ports = (word as u32).rotate_left(16);
        *udp = (word >> 32 << 32 | u64::from(ports)).to_le_bytes();
        true
    }

    #[inline(always)]
    fn excludes(&self, port: u16) -> bool {
        let list = &self.filter.excluded_ports;
        !list.is_empty() && list.binary_search(&port).is_ok()
    }

    /// The long way; remembers the headers where they are of the plain kind.
    #[inline(never)]
    fn turn_other(&mut self, frame: &mut [u8], complete_checksum: bool) -> Result<(), Left> {
        let plain = parse_plain(frame).is_some();
        let came = chunk::<HEADERS>(frame, 0).copied();
        reflect_in_place(frame, self.filter, complete_checksum)?;
        if let (true, Some(came), Some(leaves)) = (plain, came, chunk_mut::<HEADERS>(frame, 0)) {
            let total_len = u16::from_be_bytes([came[eth::HEADER_LEN + 2], came[eth::HEADER_LEN + 3]]);
            (self.came, self.leaves) = (came, *leaves);
            self.least_len = eth::HEADER_LEN + usize::from(total_len);
            // What is plain holds its own UDP header.
            self.most_udp = total_len - ipv4::MIN_HEADER_LEN as u16;
        }
        Ok(())
    }
}

/// Not 0 where the two differ. By words: for this many bytes `==` is a call of `memcmp`.
#[inline(always)]
fn differs(a: &[u8; HEADERS], b: &[u8; HEADERS]) -> u64 {
    let word = |bytes: &[u8; HEADERS], at: usize| chunk::<8>(bytes, at).map_or(0, |word| u64::from_le_bytes(*word));
    // The last word overlaps the one before.
    [0, 8, 16, 24, HEADERS - 8]
        .iter()
        .fold(0, |any, &at| any | (word(a, at) ^ word(b, at)))
}
