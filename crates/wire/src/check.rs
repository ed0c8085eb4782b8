//! All that a receiver checks in a frame, in one call: is the frame UDP, which stamp does it carry, and is it as it was
//! sent?
//!
//! [`check_udp`] gives the same results as [`parse_udp`](crate::parse_udp), [`udp_checksum_ok`], [`Stamp::read`] and
//! [`verify_data`], called one by one. One call is faster: for the frame that rates are quoted for (64 bytes with FCS,
//! IPv4, untagged) all offsets and lengths are constant, and no bound is checked twice.

use crate::data::verify_and_sum;
use crate::packet::{parse_any, parse_plain};
use crate::udp::sum_before_payload;
use crate::{Reject, STAMP_LEN, Stamp, UdpPacket, udp_checksum_ok, verify_data};

/// A UDP packet, examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Positions of the packet's parts in the frame.
    pub packet: UdpPacket,
    /// Stamp of the packet; `None` if the payload is too short for one.
    pub stamp: Option<Stamp>,
    /// The UDP checksum is right, or was not to be verified.
    pub checksum_ok: bool,
    /// The data behind the stamp is that of the seed and the stamp's number; false without a stamp.
    pub data_ok: bool,
}

/// Payload of the smallest frame, and the bytes of the frame up to its end.
const SMALLEST_PAYLOAD: u16 = 18;
const SMALLEST: usize = 60;

/// Finds the UDP packet in a frame and verifies it. With `verify_checksum` false the UDP checksum is not looked at: for
/// frames whose checksum the device has verified or has yet to complete.
///
/// # Errors
/// Why the frame holds no UDP packet, as [`parse_udp`](crate::parse_udp) says.
#[inline]
pub fn check_udp(frame: &[u8], seed: u64, verify_checksum: bool) -> Result<Checked, Reject> {
    match parse_plain(frame) {
        Some(p) => match frame.first_chunk::<SMALLEST>() {
            Some(smallest) if p.payload_len == SMALLEST_PAYLOAD => {
                let p = UdpPacket {
                    payload_len: SMALLEST_PAYLOAD,
                    ..p
                };
                Ok(examine(smallest, p, seed, verify_checksum))
            }
            _ => Ok(examine_any(frame, p, seed, verify_checksum)),
        },
        None => parse_any(frame).map(|p| examine_any(frame, p, seed, verify_checksum)),
    }
}

#[inline(never)]
fn examine_any(frame: &[u8], packet: UdpPacket, seed: u64, verify_checksum: bool) -> Checked {
    let payload = packet.payload(frame);
    if verify_checksum
        && let Some(stamp) = Stamp::read(payload)
        && let Some(before) = sum_before_payload(frame, &packet)
    {
        let (data_ok, data_sum) = verify_and_sum(seed, stamp.seq, payload);
        let sum = before.word(stamp.seq).word(stamp.time_ns).plus(data_sum);
        return Checked {
            packet,
            stamp: Some(stamp),
            checksum_ok: sum.is_valid(),
            data_ok,
        };
    }
    examine(frame, packet, seed, verify_checksum)
}

#[inline(always)]
fn examine(frame: &[u8], packet: UdpPacket, seed: u64, verify_checksum: bool) -> Checked {
    let payload = packet.payload(frame);
    let stamp = Stamp::read(payload);
    let data = payload.get(STAMP_LEN..);
    Checked {
        packet,
        stamp,
        checksum_ok: !verify_checksum || udp_checksum_ok(frame, &packet),
        data_ok: stamp
            .zip(data)
            .is_some_and(|(stamp, data)| verify_data(seed, stamp.seq, data)),
    }
}
