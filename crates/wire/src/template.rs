//! Templates: everything about a test packet that does not change is worked out once.
//!
//! Writing a 64-byte frame is a copy of the headers, three stores and a dozen additions: the sum of all constant words
//! is kept, so only ports, stamp and data are summed. The four header lengths that occur (IPv4 or IPv6, with or without
//! a VLAN tag) are compiled apart, so that no copy has a variable length. Short payloads are compiled apart, too, by
//! their number of words. Each template chooses its writer once. [`Template::write_all`] has loops of
//! the commonest writers, and chooses one for each call.

mod blank;
mod payload;
mod spec;

pub use blank::Blank;
pub use payload::PayloadTemplate;
pub use spec::{ChecksumMode, TemplateError, TemplateSpec};

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bytes::{chunk, chunk_mut};
use crate::checksum::{Sum, udp_field, update_udp};
use crate::ipv4::PROTOCOL_UDP;
use crate::udp::{CHECKSUM_OFFSET, pseudo_header};
use crate::{MacAddr, STAMP_LEN, Stamp, data, eth, ipv4, ipv6, udp};

/// Longest UDP payload over IPv4.
pub const MAX_PAYLOAD_V4: usize = 65_535 - ipv4::MIN_HEADER_LEN - udp::HEADER_LEN;
/// Longest UDP payload over IPv6, without jumbograms.
pub const MAX_PAYLOAD_V6: usize = 65_535 - udp::HEADER_LEN;

const MAX_L3_END: usize = eth::HEADER_LEN + eth::TAG_LEN + ipv6::HEADER_LEN;
const V4: usize = eth::HEADER_LEN + ipv4::MIN_HEADER_LEN;
const V4_TAGGED: usize = V4 + eth::TAG_LEN;
const V6: usize = eth::HEADER_LEN + ipv6::HEADER_LEN;
const V6_TAGGED: usize = V6 + eth::TAG_LEN;

/// The frame that rates are quoted for: 64 bytes with FCS, IPv4, untagged. It has its own path, all lengths constant.
const SMALLEST: usize = eth::MIN_FRAME_LEN;
const SMALLEST_DATA: usize = SMALLEST - V4 - udp::HEADER_LEN - STAMP_LEN;

/// A test packet with everything filled in but ports, stamp and data.
#[derive(Clone, Debug)]
pub struct Template {
    /// Ethernet and IP header; `l4` bytes of it count.
    headers: [u8; MAX_L3_END],
    l4: usize,
    frame_len: usize,
    data_len: usize,
    /// UDP length as it lies in the UDP header, read as little-endian.
    udp_len: u16,
    /// Sum of the pseudo-header and of the UDP header's constant part.
    constant: Sum,
    /// The checksum field if the device completes it.
    partial: u16,
    seed: u64,
    checksum: ChecksumMode,
    /// True if the template makes frames of [`SMALLEST`] bytes, unpadded, with the checksum in software.
    smallest: bool,
    /// Function that writes any frame of this template.
    writer: Writer,
}

/// Writes a template's frame, of the right length, with these ports (source, destination).
type Writer = fn(&Template, &mut [u8], [u16; 2], Stamp);

/// Writers for frames with `L4` bytes before UDP, by the number of whole words of data.
const fn short_writers<const L4: usize>() -> [Writer; SHORT_WORDS] {
    [
        Template::write_short::<L4, 0>,
        Template::write_short::<L4, 1>,
        Template::write_short::<L4, 2>,
        Template::write_short::<L4, 3>,
        Template::write_short::<L4, 4>,
        Template::write_short::<L4, 5>,
        Template::write_short::<L4, 6>,
        Template::write_short::<L4, 7>,
    ]
}

/// Number of words of data from which a loop over vectors is faster than code of constant length.
const SHORT_WORDS: usize = 8;

/// The writer for frames with `L4` bytes before UDP.
fn writer_of<const L4: usize>(data_len: usize, checksum: ChecksumMode) -> Writer {
    match checksum {
        ChecksumMode::Device => Template::write_unsummed::<L4>,
        ChecksumMode::Software => {
            let short = const { short_writers::<L4>() };
            short.get(data_len / 8).copied().unwrap_or(Template::write_long::<L4>)
        }
    }
}

impl Template {
    /// Works out all that is constant. IPv4 packets have identification 0 and "don't fragment" set (RFC 6864).
    ///
    /// # Errors
    /// A [`TemplateError`] that names what is wrong.
    pub fn new(spec: &TemplateSpec) -> Result<Self, TemplateError> {
        let max = if spec.src.is_ipv6() {
            MAX_PAYLOAD_V6
        } else {
            MAX_PAYLOAD_V4
        };
        if !(STAMP_LEN..=max).contains(&spec.payload_len) {
            return Err(TemplateError::PayloadLength {
                len: spec.payload_len,
                max,
            });
        }
        if let Some(vlan) = spec.vlan.filter(|v| *v > 4094) {
            return Err(TemplateError::Vlan(vlan));
        }
        if spec.dscp > 63 {
            return Err(TemplateError::Dscp(spec.dscp));
        }
        if spec.ttl == 0 {
            return Err(TemplateError::Ttl);
        }
        let udp_len = (udp::HEADER_LEN + spec.payload_len) as u16;
        let traffic_class = spec.dscp << 2;
        let mut headers = [0; MAX_L3_END];
        let (l4, pseudo) = match (spec.src, spec.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let l3 = eth::write(&mut headers, spec.dst_mac, spec.src_mac, spec.vlan, eth::TYPE_IPV4);
                let ip = &mut headers[l3..l3 + ipv4::MIN_HEADER_LEN];
                let total_len = ipv4::MIN_HEADER_LEN as u16 + udp_len;
                ip[..2].copy_from_slice(&[0x45, traffic_class]);
                ip[2..4].copy_from_slice(&total_len.to_be_bytes());
                ip[6] = 0x40;
                ip[8..10].copy_from_slice(&[spec.ttl, PROTOCOL_UDP]);
                ip[12..16].copy_from_slice(&src.octets());
                ip[16..20].copy_from_slice(&dst.octets());
                let sum = Sum::ZERO.bytes(ip).finish();
                ip[10..12].copy_from_slice(&sum);
                (
                    l3 + ipv4::MIN_HEADER_LEN,
                    pseudo(&headers[l3 + 12..], udp_len, pseudo_header::<8>),
                )
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let l3 = eth::write(&mut headers, spec.dst_mac, spec.src_mac, spec.vlan, eth::TYPE_IPV6);
                let ip = &mut headers[l3..l3 + ipv6::HEADER_LEN];
                ip[..2].copy_from_slice(&[0x60 | traffic_class >> 4, traffic_class << 4]);
                ip[4..6].copy_from_slice(&udp_len.to_be_bytes());
                ip[6..8].copy_from_slice(&[PROTOCOL_UDP, spec.ttl]);
                ip[8..24].copy_from_slice(&src.octets());
                ip[24..40].copy_from_slice(&dst.octets());
                (
                    l3 + ipv6::HEADER_LEN,
                    pseudo(&headers[l3 + 8..], udp_len, pseudo_header::<32>),
                )
            }
            (src, dst) => return Err(TemplateError::FamilyMismatch { src, dst }),
        };
        let smallest = l4 == V4 && spec.payload_len == STAMP_LEN + SMALLEST_DATA;
        let data_len = spec.payload_len - STAMP_LEN;
        let writer_of = match l4 {
            V4 => writer_of::<V4>,
            V4_TAGGED => writer_of::<V4_TAGGED>,
            V6 => writer_of::<V6>,
            _ => writer_of::<V6_TAGGED>,
        };
        Ok(Self {
            headers,
            l4,
            frame_len: (l4 + usize::from(udp_len)).max(eth::MIN_FRAME_LEN),
            data_len,
            udp_len: udp_len.swap_bytes(),
            constant: pseudo.number(udp_len),
            partial: pseudo.fold(),
            seed: spec.seed,
            checksum: spec.checksum,
            smallest: smallest && spec.checksum == ChecksumMode::Software,
            writer: writer_of(data_len, spec.checksum),
        })
    }

    /// Bytes of a frame without FCS, padded to 60 if it would be shorter.
    #[inline]
    pub fn frame_len(&self) -> usize {
        self.frame_len
    }

    /// Offset of the UDP payload in the frame.
    #[inline]
    pub fn payload_offset(&self) -> usize {
        self.l4 + udp::HEADER_LEN
    }

    /// Bytes of the UDP payload.
    #[inline]
    pub fn payload_len(&self) -> usize {
        self.data_len + STAMP_LEN
    }

    /// Ethernet, VLAN and IP header as every packet carries them, for those who write packets elsewhere.
    pub fn headers(&self) -> &[u8] {
        self.headers.get(..self.l4).unwrap_or_default()
    }

    /// One's complement sum of the pseudo-header and of the length in the UDP header, words read as little-endian. With
    /// the sums of ports, stamp and data it makes the UDP checksum.
    pub fn constant_sum(&self) -> u16 {
        self.constant.fold()
    }

    /// Replaces the destination MAC address, once it is known.
    pub fn set_dst_mac(&mut self, mac: MacAddr) {
        self.headers[..6].copy_from_slice(&mac.0);
    }

    /// Writes the whole frame: headers, ports, stamp, data, checksums, padding.
    ///
    /// # Panics
    /// When `frame` is not [`Template::frame_len`] bytes long.
    #[inline]
    pub fn write(&self, frame: &mut [u8], src_port: u16, dst_port: u16, stamp: Stamp) {
        if self.smallest
            && let Ok(frame) = <&mut [u8; SMALLEST]>::try_from(&mut *frame)
        {
            return self.write_smallest(frame, (src_port, dst_port), stamp);
        }
        (self.writer)(self, frame, [src_port, dst_port], stamp);
    }

    /// Does the same as [`Template::write`] for each of several frames, with one time in all stamps. Over untagged IPv4
    /// with the checksum in software, the loop itself contains the code that writes the data. This code is of constant
    /// length up to 63 bytes of data, and is chosen once. So if nothing else bounds the rate, a frame a little longer
    /// than the one that rates are quoted for costs little more than it, and so on. All other frames are written as
    /// [`Template::write`] does.
    ///
    /// # Panics
    /// When one is not [`Template::frame_len`] bytes long.
    #[inline(always)]
    pub fn write_all<'f>(&self, frames: impl Iterator<Item = Blank<'f>>, time_ns: u64) {
        if self.smallest {
            return self.write_each_smallest(frames, time_ns);
        }
        let inlined = self.l4 == V4 && self.checksum == ChecksumMode::Software;
        match inlined.then_some(self.data_len / 8) {
            Some(0) => self.write_each(frames, data::fill_exactly::<0>, time_ns),
            Some(1) => self.write_each(frames, data::fill_exactly::<1>, time_ns),
            Some(2) => self.write_each(frames, data::fill_exactly::<2>, time_ns),
            Some(3) => self.write_each(frames, data::fill_exactly::<3>, time_ns),
            Some(4) => self.write_each(frames, data::fill_exactly::<4>, time_ns),
            Some(5) => self.write_each(frames, data::fill_exactly::<5>, time_ns),
            Some(6) => self.write_each(frames, data::fill_exactly::<6>, time_ns),
            Some(7) => self.write_each(frames, data::fill_exactly::<7>, time_ns),
            Some(_) => self.write_each(frames, data::fill_more, time_ns),
            _ => {
                for blank in frames {
                    (self.writer)(self, blank.bytes, [blank.ports.0, blank.ports.1], blank.stamp(time_ns));
                }
            }
        }
    }

    /// Out of line: what the loop needs is in registers there.
    #[inline(never)]
    fn write_each_smallest<'f>(&self, frames: impl Iterator<Item = Blank<'f>>, time_ns: u64) {
        for blank in frames {
            let (stamp, len) = (blank.stamp(time_ns), blank.bytes.len());
            match <&mut [u8; SMALLEST]>::try_from(blank.bytes) {
                Ok(frame) => self.write_smallest(frame, blank.ports, stamp),
                Err(_) => wrong_length(len, SMALLEST),
            }
        }
    }

    #[inline(always)]
    fn write_each<'f>(
        &self,
        frames: impl Iterator<Item = Blank<'f>>,
        fill: impl Fn(u64, &mut [u8]) -> Sum,
        time_ns: u64,
    ) {
        for blank in frames {
            self.check_length(blank.bytes);
            let (ports, stamp) = ([blank.ports.0, blank.ports.1], blank.stamp(time_ns));
            self.write_constant::<V4>(blank.bytes, self.data_len, &fill, ports, stamp);
        }
    }

    /// The frame that rates are quoted for.
    #[inline(always)]
    fn write_smallest(&self, frame: &mut [u8; SMALLEST], ports: (u16, u16), stamp: Stamp) {
        let fill = data::fill_exactly::<0>;
        self.write_constant::<V4>(frame, SMALLEST_DATA, fill, [ports.0, ports.1], stamp);
    }

    /// Does the same as [`Template::write`], but from `src` to `dst`, which are of the template's family. The change of
    /// the checksums by these addresses is computed for each frame.
    ///
    /// # Panics
    /// When `frame` is not [`Template::frame_len`] bytes long, or an address is of the other family.
    pub fn write_between(&self, frame: &mut [u8], (src, dst): (IpAddr, IpAddr), ports: (u16, u16), stamp: Stamp) {
        let ports = [ports.0, ports.1];
        self.check_length(frame);
        match (src, dst, self.l4) {
            (IpAddr::V4(src), IpAddr::V4(dst), V4) => self.write_v4::<V4>(frame, src, dst, ports, stamp),
            (IpAddr::V4(src), IpAddr::V4(dst), V4_TAGGED) => self.write_v4::<V4_TAGGED>(frame, src, dst, ports, stamp),
            (IpAddr::V6(src), IpAddr::V6(dst), V6) => self.write_v6::<V6>(frame, src, dst, ports, stamp),
            (IpAddr::V6(src), IpAddr::V6(dst), V6_TAGGED) => self.write_v6::<V6_TAGGED>(frame, src, dst, ports, stamp),
            _ => panic!("{src} to {dst}: of another family than the template's"),
        }
    }

    #[inline(always)]
    fn write_v4<const L4: usize>(&self, frame: &mut [u8], src: Ipv4Addr, dst: Ipv4Addr, ports: [u16; 2], stamp: Stamp) {
        let Some(mut headers) = self.headers.first_chunk::<L4>().copied() else {
            return;
        };
        let ip = &mut headers[L4 - ipv4::MIN_HEADER_LEN..];
        ip[10..12].fill(0);
        ip[12..16].copy_from_slice(&src.octets());
        ip[16..20].copy_from_slice(&dst.octets());
        let check = Sum::ZERO.bytes(ip).finish();
        ip[10..12].copy_from_slice(&check);
        let sum = pseudo(&ip[12..], self.udp_len.swap_bytes(), pseudo_header::<8>);
        self.write_with(frame, &headers, sum, ports, stamp);
    }

    #[inline(always)]
    fn write_v6<const L4: usize>(&self, frame: &mut [u8], src: Ipv6Addr, dst: Ipv6Addr, ports: [u16; 2], stamp: Stamp) {
        let Some(mut headers) = self.headers.first_chunk::<L4>().copied() else {
            return;
        };
        let ip = &mut headers[L4 - ipv6::HEADER_LEN..];
        ip[8..24].copy_from_slice(&src.octets());
        ip[24..40].copy_from_slice(&dst.octets());
        let sum = pseudo(&ip[8..], self.udp_len.swap_bytes(), pseudo_header::<32>);
        self.write_with(frame, &headers, sum, ports, stamp);
    }

    /// Writes a frame with these headers, whose pseudo-header has this sum.
    #[inline(always)]
    fn write_with<const L4: usize>(
        &self,
        frame: &mut [u8],
        headers: &[u8; L4],
        pseudo: Sum,
        ports: [u16; 2],
        stamp: Stamp,
    ) {
        let constant = pseudo.number(self.udp_len.swap_bytes());
        let (data, len) = (data::fill_and_sum, self.data_len);
        match self.checksum {
            ChecksumMode::Software => {
                self.write_behind(frame, headers, Field::Sum(constant), (len, data), ports, stamp)
            }
            ChecksumMode::Device => {
                self.write_behind(frame, headers, Field::Partial(pseudo.fold()), (len, data), ports, stamp);
            }
        }
    }

    /// Panics if a frame does not have the template's length. Every writer calls this first.
    #[inline(always)]
    fn check_length(&self, frame: &[u8]) {
        if frame.len() != self.frame_len {
            wrong_length(frame.len(), self.frame_len);
        }
    }

    /// Writes a frame whose data has `WORDS` whole words, and perhaps a part of one.
    fn write_short<const L4: usize, const WORDS: usize>(&self, frame: &mut [u8], ports: [u16; 2], stamp: Stamp) {
        self.check_length(frame);
        self.write_constant::<L4>(frame, self.data_len, data::fill_exactly::<WORDS>, ports, stamp);
    }

    /// Writes a frame whose data has eight bytes or more.
    fn write_long<const L4: usize>(&self, frame: &mut [u8], ports: [u16; 2], stamp: Stamp) {
        self.check_length(frame);
        self.write_constant::<L4>(frame, self.data_len, data::fill_more, ports, stamp);
    }

    /// Writes a frame whose checksum the device completes.
    fn write_unsummed<const L4: usize>(&self, frame: &mut [u8], ports: [u16; 2], stamp: Stamp) {
        self.check_length(frame);
        if let Some(headers) = self.headers.first_chunk::<L4>() {
            let data = (self.data_len, data::fill_and_sum);
            self.write_behind(frame, headers, Field::Partial(self.partial), data, ports, stamp);
        }
    }

    /// Writes a frame with the template's own addresses and the checksum in software.
    #[inline(always)]
    fn write_constant<const L4: usize>(
        &self,
        frame: &mut [u8],
        data_len: usize,
        fill: impl FnOnce(u64, &mut [u8]) -> Sum,
        ports: [u16; 2],
        stamp: Stamp,
    ) {
        if let Some(headers) = self.headers.first_chunk::<L4>() {
            self.write_behind(
                frame,
                headers,
                Field::Sum(self.constant),
                (data_len, fill),
                ports,
                stamp,
            );
        }
    }

    /// Writes a frame: the given headers, then UDP header, stamp, `data_len` bytes of data that `fill` writes and sums,
    /// and padding.
    #[inline(always)]
    fn write_behind<const L4: usize>(
        &self,
        frame: &mut [u8],
        constant: &[u8; L4],
        field: Field,
        (data_len, fill): (usize, impl FnOnce(u64, &mut [u8]) -> Sum),
        [src_port, dst_port]: [u16; 2],
        stamp: Stamp,
    ) {
        let Some((headers, rest)) = frame.split_first_chunk_mut::<L4>() else {
            return;
        };
        let Some((udp, rest)) = rest.split_first_chunk_mut::<{ udp::HEADER_LEN }>() else {
            return;
        };
        let Some((stamp_out, rest)) = rest.split_first_chunk_mut::<STAMP_LEN>() else {
            return;
        };
        let Some((data_out, padding)) = rest.split_at_mut_checked(data_len) else {
            return;
        };
        *headers = *constant;
        *stamp_out = stamp.to_bytes();
        let ports = u64::from(src_port.swap_bytes()) | u64::from(dst_port.swap_bytes()) << 16;
        let data = fill(data::base(self.seed, stamp.seq), data_out);
        let field = match field {
            Field::Sum(constant) => udp_field(
                constant
                    .word(ports)
                    .word(stamp.seq)
                    .word(stamp.time_ns)
                    .plus(data)
                    .fold(),
            ),
            Field::Partial(sum) => sum,
        };
        *udp = (ports | u64::from(self.udp_len) << 32 | u64::from(field) << 48).to_le_bytes();
        // Only a payload of 16 or 17 bytes over untagged IPv4 is padded: at most two bytes.
        if let [byte, rest @ ..] = padding {
            *byte = 0;
            if let [byte, ..] = rest {
                *byte = 0;
            }
        }
    }

    /// Replaces the send time in a frame that [`Template::write`] has written, and updates the checksum (RFC 1624).
    /// The frame is then what `write` with the new time would have made it. Does nothing if `frame` is shorter.
    #[inline]
    pub fn restamp(&self, frame: &mut [u8], time_ns: u64) {
        let at = self.l4 + udp::HEADER_LEN + 8;
        let Some(time) = chunk_mut::<8>(frame, at) else { return };
        let old = u64::from_le_bytes(*time);
        *time = time_ns.to_le_bytes();
        if self.checksum == ChecksumMode::Device {
            return;
        }
        if let Some(field) = chunk_mut::<2>(frame, self.l4 + CHECKSUM_OFFSET) {
            *field = update_udp(u16::from_le_bytes(*field), old, time_ns).to_le_bytes();
        }
    }
}

#[cold]
fn wrong_length(len: usize, wanted: usize) -> ! {
    panic!("frame of {len} bytes: the template's have {wanted}")
}

/// Content of the checksum field.
enum Field {
    /// The checksum; this is the sum of all constant words that it covers.
    Sum(Sum),
    /// The sum of the pseudo-header, which the device completes.
    Partial(u16),
}

fn pseudo<const N: usize>(from: &[u8], udp_len: u16, sum: fn(&[u8; N], u8, u16) -> Sum) -> Sum {
    chunk(from, 0).map_or(Sum::ZERO, |addresses| sum(addresses, PROTOCOL_UDP, udp_len))
}
