//! A reflector with a memory of headers.
//!
//! The packets of one flow differ in ports, stamp and data, and hardly in what lies before. So the headers of two
//! packets are kept as they came, and as they left: a packet whose Ethernet and IPv4 headers are the same 34 bytes
//! needs no parsing, no header checksum and no look at the addresses; its new headers are there to be copied. What
//! differs from packet to packet (length of the frame, ports, UDP length) is checked each time. Everything else goes
//! the long way, [`reflect_in_place`](crate::reflect_in_place), which is not that long for a plain packet: keeping
//! headers costs more, so of many flows only one packet in [`KEEP_EVERY`] is kept.

use crate::bytes::{chunk, same_headers};
use crate::headers::PLAIN_HEADERS as HEADERS;
use crate::loops::{Look, Loops, PROBE_LEN, Source, checksum_field};
use crate::packet::parse_plain;
use crate::{Left, ReflectFilter, UdpPacket, eth, ipv4, parse_udp, reflect, udp, udp_checksum_open};
use std::net::Ipv4Addr;

/// Number of packets that go the long way for each one whose headers are kept.
const KEEP_EVERY: u32 = 64;
/// Number of packets with the older of the two kept headers before the two change places.
const EXCHANGE_EVERY: u32 = 4;

/// Turns packets round as [`reflect_in_place`](crate::reflect_in_place) does, with the same result for every frame; but
/// leaves those of a source that returns what it gets ([`Loops`]).
#[derive(Debug)]
pub struct Reflector<'f> {
    filter: &'f ReflectFilter,
    /// Headers that a packet is compared with first.
    known: Headers,
    /// The headers before those: packets of two senders in alternation need no parsing either.
    before: Headers,
    /// First of the filter's ports, and how many follow it.
    ports: (u16, u16),
    /// Packets until headers are kept, and until the two are exchanged.
    until_kept: u32,
    until_exchanged: u32,
    loops: Loops,
}

/// Treatment of a frame's UDP checksum, by what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The checksum stays.
    Keep,
    /// The checksum was left to a device, and is computed.
    Compute,
    /// The checksum is computed if it [looks left open](udp_checksum_open).
    Look,
}

impl Finish {
    /// Returns the treatment of a checksum that was, or was not, left to a device.
    #[inline(always)]
    pub(crate) const fn of(complete_checksum: bool) -> Self {
        match complete_checksum {
            true => Self::Compute,
            false => Self::Keep,
        }
    }
}

/// Headers of a packet that was turned.
#[derive(Clone, Copy, Debug)]
struct Headers {
    /// Headers as they came, and as they leave.
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
    /// A reflector of what `filter` takes. `secret`: see [`Loops::new`].
    pub fn new(filter: &'f ReflectFilter, secret: [u64; 2]) -> Self {
        let ports = filter.ports.as_ref();
        Self {
            filter,
            known: NONE,
            before: NONE,
            ports: ports.map_or((0, u16::MAX), |ports| {
                (*ports.start(), ports.end().saturating_sub(*ports.start()))
            }),
            until_kept: 1,
            until_exchanged: EXCHANGE_EVERY,
            loops: Loops::new(secret),
        }
    }

    /// Notes a frame that was turned, one of `weight` that were: see [`Loops::look`].
    #[inline(never)]
    pub fn look(&mut self, frame: &[u8], weight: u32) -> Look {
        match parse_udp(frame) {
            Ok(p) => {
                let source = Source::of_turned(frame, &p);
                self.loops
                    .look(source, p.payload(frame), checksum_field(frame, &p), weight)
            }
            Err(_) => Look::Ordinary,
        }
    }

    /// Sends `frame` back where it came from. `complete_checksum`: its UDP checksum was left to a device.
    ///
    /// # Errors
    /// Why the frame was left; it is then unchanged.
    #[inline]
    pub fn turn(&mut self, frame: &mut [u8], complete_checksum: bool) -> Result<(), Left> {
        let finish = Finish::of(complete_checksum);
        match !complete_checksum && self.turn_alike(frame) {
            true => Ok(()),
            false => self.turn_any(frame, finish),
        }
    }

    /// Does the same as [`Reflector::turn`] with a finished checksum, but only for a packet with the headers that are
    /// looked at first. Returns false, with nothing changed, for anything else.
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
        let Some(udp) = rest.first_chunk_mut::<{ udp::HEADER_LEN }>() else {
            return false;
        };
        let word = u64::from_le_bytes(*udp);
        let (src_port, dst_port) = ((word as u16).swap_bytes(), ((word >> 16) as u16).swap_bytes());
        let udp_len = ((word >> 32) as u16).swap_bytes();
        let same = same_headers(headers, &known.came) && len >= known.least_len;
        // A length below 8, or a port below the first, wraps to a large number.
        let fits = udp_len.wrapping_sub(udp::HEADER_LEN as u16) <= known.most_payload;
        let taken = src_port != 0 && dst_port.wrapping_sub(self.ports.0) <= self.ports.1;
        if !(same & fits & taken) || self.excludes(dst_port) {
            return false;
        }
        *headers = known.leaves;
        let ports = (word as u32).rotate_left(16);
        *udp = (word >> 32 << 32 | u64::from(ports)).to_le_bytes();
        true
    }

    #[inline(always)]
    fn excludes(&self, port: u16) -> bool {
        let list = &self.filter.excluded_ports;
        !list.is_empty() && list.binary_search(&port).is_ok()
    }

    /// Does the same as [`Reflector::turn`], for any frame.
    ///
    /// # Errors
    /// Why the frame was left; it is then unchanged.
    #[inline(never)]
    pub fn turn_any(&mut self, frame: &mut [u8], finish: Finish) -> Result<(), Left> {
        match self.filter.tagged {
            None => self.turn_other(frame, finish),
            // No headers are kept then, so `turn_alike` takes no packet.
            Some(seed) => reflect::turn_tagged(frame, self.filter, seed, finish),
        }
    }

    /// Does the same as [`Reflector::turn_any`], for a frame that [`Reflector::turn_alike`] did not take. The filter
    /// must not ask for tags ([`ReflectFilter::tagged`]).
    ///
    /// # Errors
    /// Why the frame was left; it is then unchanged.
    #[inline(never)]
    pub fn turn_other(&mut self, frame: &mut [u8], finish: Finish) -> Result<(), Left> {
        debug_assert!(self.filter.tagged.is_none());
        if finish == Finish::Keep && self.turn_known(&self.before, frame) {
            self.until_exchanged -= 1;
            if self.until_exchanged == 0 {
                core::mem::swap(&mut self.known, &mut self.before);
                self.until_exchanged = EXCHANGE_EVERY;
            }
            return Ok(());
        }
        let (loops, mut plain) = (&mut self.loops, true);
        let came = chunk::<HEADERS>(frame, 0).copied();
        let admit = |frame: &[u8], p: &UdpPacket| {
            if usize::from(p.payload_len) != PROBE_LEN && !loops.alert() {
                return Ok(());
            }
            plain = false;
            match loops.admits(Source::of(frame, p), p.payload(frame)) {
                true => Ok(()),
                false => Err(Left::Returned),
            }
        };
        let result = match finish {
            Finish::Keep => reflect::turn(frame, self.filter, admit, |_, _| false),
            Finish::Compute => reflect::turn(frame, self.filter, admit, |_, _| true),
            Finish::Look => reflect::turn(frame, self.filter, admit, udp_checksum_open),
        };
        if self.loops.alert() {
            // Packets of other programs at the same address are equal up to their ports.
            (self.known, self.before) = (NONE, NONE);
        }
        result?;
        self.until_kept -= 1;
        if self.until_kept == 0 {
            self.until_kept = KEEP_EVERY;
            if let Some(came) = came.filter(|_| plain) {
                self.keep(&came, frame);
            }
        }
        Ok(())
    }

    /// Keeps the headers of a packet that came so and was turned, if it is of the plain kind.
    fn keep(&mut self, came: &[u8; HEADERS], turned: &[u8]) {
        // Turning changes nothing that makes a packet plain.
        if parse_plain(turned).is_none() {
            return;
        }
        let Some(leaves) = chunk::<HEADERS>(turned, 0) else {
            return;
        };
        let (addresses, total_len) = (HEADERS - 8, u16::from_be_bytes([came[16], came[17]]));
        let address = |at: usize| chunk::<4>(came, at).map(|bytes| Ipv4Addr::from(*bytes));
        let (from, to) = (address(addresses), address(addresses + 4));
        let Some(from) = from else { return };
        if self.filter.is_taken(from.into(), || Some(from) == to) {
            // Its ports decide whether it is from ourselves.
            return;
        }
        self.before = self.known;
        self.known = Headers {
            came: *came,
            leaves: *leaves,
            least_len: eth::HEADER_LEN + usize::from(total_len),
            // A packet of the plain kind holds its own UDP header.
            most_payload: total_len - (ipv4::MIN_HEADER_LEN + udp::HEADER_LEN) as u16,
        };
    }
}
