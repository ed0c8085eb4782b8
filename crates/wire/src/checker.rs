//! A checker with a memory of one header.
//!
//! The packets of a test differ in ports, stamp and data only, as for the [`Reflector`](crate::Reflector). A packet
//! whose Ethernet and IPv4 headers are the same 34 bytes as those of a packet examined before needs no parsing, no
//! header checksum and no look at its addresses: only its UDP part is checked. Every other packet goes the long way,
//! [`check_udp`](crate::check_udp).

use crate::bytes::{chunk, same_headers};
use crate::checksum::Sum;
use crate::data::{verify_and_sum, verify_data};
use crate::headers::PLAIN_HEADERS as HEADERS;
use crate::udp::{self, pseudo_header};
use crate::{STAMP_LEN, Stamp, UdpPacket, eth, ipv4};

const PAYLOAD: usize = HEADERS + udp::HEADER_LEN;
/// The frame that rates are quoted for: without its FCS it has 60 bytes, 18 of them payload.
const SMALLEST: usize = eth::MIN_FRAME_LEN;

/// The UDP part of a packet whose headers were known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// UDP source port.
    pub src_port: u16,
    /// UDP destination port.
    pub dst_port: u16,
    /// Stamp of the packet.
    pub stamp: Stamp,
    /// The UDP checksum is right, or was not to be verified.
    pub checksum_ok: bool,
    /// The data behind the stamp is that of the seed and the stamp's number.
    pub data_ok: bool,
}

/// Recognises packets with the headers of one that it was given.
#[derive(Clone, Debug)]
pub struct Checker {
    headers: [u8; HEADERS],
    /// Length of a frame that holds the packet; `usize::MAX`: none is known.
    least_len: usize,
    /// UDP length, as it is read in little-endian order.
    udp_len: u16,
    /// Sum of the pseudo-header.
    pseudo: Sum,
}

impl Default for Checker {
    fn default() -> Self {
        Self {
            headers: [0; HEADERS],
            least_len: usize::MAX,
            udp_len: 0,
            pseudo: Sum::ZERO,
        }
    }
}

impl Checker {
    /// Examines a packet with the headers and the UDP length of the one remembered, as [`check_udp`](crate::check_udp)
    /// does. `None`: it has others.
    #[inline(always)]
    pub fn check(&self, frame: &[u8], seed: u64, verify_checksum: bool) -> Option<Known> {
        let headers = frame.first_chunk::<HEADERS>()?;
        if same_headers(headers, &self.headers) && frame.len() >= self.least_len {
            match frame.first_chunk::<SMALLEST>() {
                // All offsets and lengths are constant.
                Some(smallest) if self.udp_len == ((SMALLEST - HEADERS) as u16).to_be() => {
                    return self.examine(&smallest[HEADERS..], seed, verify_checksum);
                }
                _ => {
                    let (checksum_ok, data_ok) = self.examine_any(frame, seed, verify_checksum)?;
                    let read: &[u8; HEADERS + udp::HEADER_LEN + STAMP_LEN] = frame.first_chunk()?;
                    let header = u64::from_le_bytes(*read[HEADERS..].first_chunk()?);
                    let stamp = Stamp::read(&read[HEADERS + udp::HEADER_LEN..])?;
                    return Some(known(header, stamp, checksum_ok, data_ok));
                }
            }
        }
        None
    }

    /// Returns whether the checksum and the data are right. Both take one pass; for data as short as that of the
    /// smallest frame two passes are faster. The caller reads ports and stamp itself: with them the result would be
    /// returned through memory.
    #[inline(never)]
    fn examine_any(&self, frame: &[u8], seed: u64, verify_checksum: bool) -> Option<(bool, bool)> {
        let end = HEADERS + usize::from(u16::from_be(self.udp_len));
        let datagram = frame.get(HEADERS..end)?;
        let (header, stamp, data) = self.parts(datagram)?;
        if !(verify_checksum && has_checksum(header)) {
            return Some((true, verify_data(seed, stamp.seq, data)));
        }
        let (data_ok, data_sum) = verify_and_sum(seed, stamp.seq, &datagram[udp::HEADER_LEN..]);
        let before = self.pseudo.word(header).word(stamp.seq).word(stamp.time_ns);
        Some((before.plus(data_sum).is_valid(), data_ok))
    }

    #[inline(always)]
    fn examine(&self, datagram: &[u8], seed: u64, verify_checksum: bool) -> Option<Known> {
        let (header, stamp, data) = self.parts(datagram)?;
        let checksum_ok = !verify_checksum || !has_checksum(header) || self.pseudo.bytes(datagram).is_valid();
        Some(known(header, stamp, checksum_ok, verify_data(seed, stamp.seq, data)))
    }

    /// UDP header, stamp and data of a datagram that has the length that is remembered.
    #[inline(always)]
    fn parts<'d>(&self, datagram: &'d [u8]) -> Option<(u64, Stamp, &'d [u8])> {
        let header = u64::from_le_bytes(*datagram.first_chunk()?);
        if (header >> 32) as u16 != self.udp_len {
            return None;
        }
        let payload = &datagram[udp::HEADER_LEN..];
        Some((header, Stamp::read(payload)?, &payload[STAMP_LEN..]))
    }

    /// Remembers the headers of a frame and the length of its packet, if they are of the plain kind: untagged IPv4
    /// without options, and with room for a stamp.
    #[cold]
    pub fn remember(&mut self, frame: &[u8], packet: &UdpPacket) {
        let plain =
            !packet.v6 && usize::from(packet.payload) == PAYLOAD && usize::from(packet.payload_len) >= STAMP_LEN;
        let (Some(headers), Some(addresses), true) = (chunk(frame, 0), chunk(frame, HEADERS - 8), plain) else {
            return;
        };
        let udp_len = packet.payload_len + udp::HEADER_LEN as u16;
        let total_len = u16::from_be_bytes([frame[eth::HEADER_LEN + 2], frame[eth::HEADER_LEN + 3]]);
        self.headers = *headers;
        self.least_len = eth::HEADER_LEN + usize::from(total_len);
        self.udp_len = udp_len.to_be();
        self.pseudo = pseudo_header::<8>(addresses, ipv4::PROTOCOL_UDP, udp_len);
    }
}

/// Whether there is a checksum: a field of zeros says that there is none (RFC 768).
#[inline(always)]
const fn has_checksum(udp_header: u64) -> bool {
    udp_header >> 48 != 0
}

#[inline(always)]
fn known(header: u64, stamp: Stamp, checksum_ok: bool, data_ok: bool) -> Known {
    Known {
        src_port: (header as u16).swap_bytes(),
        dst_port: ((header >> 16) as u16).swap_bytes(),
        stamp,
        checksum_ok,
        data_ok,
    }
}
