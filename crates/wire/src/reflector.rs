//! A reflector with a memory of headers.
//!
//! The packets of a test differ in ports, stamp and data, and hardly in what lies before. So the headers of packets
//! that were turned are kept as they came, and as they left: a packet whose Ethernet and IPv4 headers are the same
//! 34 bytes needs no parsing, no header checksum and no look at the addresses; its new headers are there to be copied.
//! What differs from packet to packet (length of the frame, ports, UDP length) is checked each time. Everything else goes
//! the long way, [`reflect_in_place`].

use crate::bytes::{chunk, chunk_mut, same_headers};
use crate::headers::PLAIN_HEADERS as HEADERS;
use crate::packet::parse_plain;
use crate::{Left, ReflectFilter, eth, ipv4, reflect_in_place, udp};

/// Turns packets round as [`reflect_in_place`] does, with the same result for every frame.
#[derive(Debug)]
pub struct Reflector<'f> {
    filter: &'f ReflectFilter,
    /// Of the packet that was turned last.
    known: Headers,
    /// Of one before it: two senders whose packets come in turns need no parsing either.
    before: Headers,
    /// First of the filter's ports, and how many follow it.
    ports: (u16, u16),
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

impl<'f> Reflector<'f> {
    /// A reflector of what `filter` takes.
    pub fn new(filter: &'f ReflectFilter) -> Self {
        let ports = filter.ports.as_ref();
        Self {
            filter,
            known: NONE,
            before: NONE,
            ports: ports.map_or((0, u16::MAX), |ports| {
                (*ports.start(), ports.end().saturating_sub(*ports.start()))
            }),
        }
    }

    /// Sends `frame` back where it came from. `complete_checksum`: its UDP checksum was left to a device.
    ///
    /// # Errors
    /// Why the frame was left; it is then unchanged.
    #[inline]
    pub fn turn(&mut self, frame: &mut [u8], complete_checksum: bool) -> Result<(), Left> {
        if !complete_checksum {
            if self.turn_known(frame) {
                return Ok(());
            }
            core::mem::swap(&mut self.known, &mut self.before);
            if self.turn_known(frame) {
                return Ok(());
            }
        }
        self.turn_other(frame, complete_checksum)
    }

    /// As [`Reflector::turn`] with a finished checksum, but only for a packet with the headers of the last: false, with
    /// nothing changed, for anything else.
    #[inline(always)]
    pub fn turn_known(&self, frame: &mut [u8]) -> bool {
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
        let same = same_headers(headers, &self.known.came) && len >= self.known.least_len;
        // What is less than the first wraps to a large number.
        let fits = udp_len.wrapping_sub(udp::HEADER_LEN as u16) <= self.known.most_payload;
        let taken = src_port != 0 && dst_port.wrapping_sub(self.ports.0) <= self.ports.1;
        if !(same & fits & taken) || self.excludes(dst_port) {
            return false;
        }
        *headers = self.known.leaves;
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
            self.known = Headers {
                came,
                leaves: *leaves,
                least_len: eth::HEADER_LEN + usize::from(total_len),
                // What is plain holds its own UDP header.
                most_payload: total_len - (ipv4::MIN_HEADER_LEN + udp::HEADER_LEN) as u16,
            };
        }
        Ok(())
    }
}
