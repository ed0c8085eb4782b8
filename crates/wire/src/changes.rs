//! Changes that a device has made to the headers of test packets.
//!
//! Each packet that arrives is compared with the bytes that all packets of its stream have ([`Headers::are_in`]). One
//! that differs is compared field by field with the headers that were sent ([`Changes::note`]). A reflector's work is
//! no change: it exchanges the ends, and lowers the time to live by one. Checksums follow from the rest, and are left
//! out. In front of the outermost IP header there may be more or less than was sent; all behind it is compared by its
//! distance from there, as far as the protocol is the same.

use crate::bytes::be16;
use crate::image::{ImageSpec, SumKind};
use crate::tagged::outer_ip;
use crate::{MacAddr, bits, eth};
use core::fmt::Write;
use core::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Most bytes of headers that are compared.
pub const MOST_HEADERS: usize = 256;
/// Most pairs of values that are kept of a field.
pub const MOST_PAIRS: usize = 16;
/// Most VLAN tags that are looked at.
const MOST_TAGS: usize = 4;

/// Way to write a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Decimal number.
    Decimal,
    /// Hexadecimal number.
    Hex,
    /// MAC address.
    Mac,
    /// IPv4 address.
    Ipv4,
    /// IPv6 address.
    Ipv6,
    /// Identifiers of VLAN tags, from the outermost on.
    Tags,
}

impl FieldKind {
    /// Returns a value as text.
    pub fn text(self, value: u128) -> String {
        match self {
            Self::Decimal => value.to_string(),
            Self::Hex => format!("{value:#x}"),
            Self::Mac => {
                let mut mac = [0; 6];
                mac.copy_from_slice(&value.to_be_bytes()[10..]);
                MacAddr(mac).to_string()
            }
            Self::Ipv4 => Ipv4Addr::from_bits(value as u32).to_string(),
            Self::Ipv6 => Ipv6Addr::from_bits(value).to_string(),
            Self::Tags => {
                let mut text = String::new();
                for tag in (0..MOST_TAGS)
                    .map(|at| (value >> (16 * at)) as u16)
                    .filter(|tag| *tag != 0)
                {
                    let slash = if text.is_empty() { "" } else { "/" };
                    let _ = write!(text, "{slash}{}", tag & 0xfff);
                }
                if text.is_empty() { "none".to_owned() } else { text }
            }
        }
    }
}

/// Field of the headers that were sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldAt {
    /// Name, such as `ipv4.src`.
    pub name: String,
    /// First bit in the frame.
    pub bit: usize,
    /// Bits, 1 to 128.
    pub width: u32,
    /// Way to write its values.
    pub kind: FieldKind,
}

/// Headers of a stream's packets as they should arrive.
#[derive(Clone, Debug)]
pub struct Headers {
    /// Bytes that all packets have, and which bits these are.
    bytes: [u8; MOST_HEADERS],
    mask: [u8; MOST_HEADERS],
    len: usize,
    turned: bool,
    /// The device that receives may have taken the outermost VLAN tag off.
    stripped: bool,
    fields: Arc<[FieldAt]>,
    /// Checksums: first and last byte.
    sums: Vec<(usize, usize)>,
}

impl Headers {
    /// Works out what arrives. `turned`: a reflector returns the packets.
    pub fn new(spec: &ImageSpec, fields: impl Into<Arc<[FieldAt]>>, turned: bool) -> Self {
        let len = spec.headers.len().min(MOST_HEADERS);
        let (mut bytes, mut mask) = ([0; MOST_HEADERS], [0; MOST_HEADERS]);
        bytes[..len].copy_from_slice(&spec.headers[..len]);
        mask[..len].fill(0xff);
        for field in &spec.fields {
            for bit in field.bit..field.bit + field.width as usize {
                if let Some(byte) = mask.get_mut(bit / 8) {
                    *byte &= !(0x80 >> (bit % 8));
                }
            }
        }
        let sums: Vec<_> = spec
            .sums
            .iter()
            .map(|sum| (sum.at, sum.at + if sum.kind == SumKind::Crc32c { 4 } else { 2 }))
            .collect();
        for &(from, to) in &sums {
            if let Some(sum) = mask.get_mut(from..to.min(MOST_HEADERS)) {
                sum.fill(0);
            }
        }
        if turned {
            // The places in which ends are exchanged are those of the headers, with and without the mask.
            let places = Ends::of(&bytes[..len]);
            places.exchange(&mut bytes);
            places.exchange(&mut mask);
            places.lower_ttl(&mut bytes);
        }
        Self {
            bytes,
            mask,
            len,
            turned,
            stripped: false,
            fields: fields.into(),
            sums,
        }
    }

    /// Returns the same headers for a device that takes the outermost VLAN tag off the frames that it receives.
    #[must_use]
    pub fn stripped(self) -> Self {
        Self { stripped: true, ..self }
    }

    /// Returns whether a frame has the bytes that all packets have.
    #[inline]
    pub fn are_in(&self, frame: &[u8]) -> bool {
        // The tag is behind the headers, so that whole words are in the frame; no bit behind the headers counts.
        let len = self.len.next_multiple_of(8);
        let Some(frame) = frame.get(..len) else {
            return false;
        };
        let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        let own = self.bytes.as_chunks().0.iter().zip(self.mask.as_chunks().0);
        let same = |(bytes, (own, mask))| (word(bytes) ^ word(own)) & word(mask);
        frame
            .as_chunks()
            .0
            .iter()
            .zip(own)
            .map(same)
            .fold(0, |all, word| all | word)
            == 0
    }
}

/// Returns the offset of the ports of UDP or TCP behind the outermost IP header.
pub fn ports_at(frame: &[u8]) -> Option<usize> {
    Ends::of(frame).ports
}

/// Places of the ends that a reflector exchanges.
#[derive(Clone, Copy, Debug)]
struct Ends {
    /// Offset of the outermost IP header, and whether it is of IPv6.
    ip: Option<(usize, bool)>,
    /// Offset of the ports of UDP or TCP.
    ports: Option<usize>,
}

impl Ends {
    fn of(frame: &[u8]) -> Self {
        let version = |at: usize| frame.get(at).map(|byte| byte >> 4);
        let ip = outer_ip(frame).and_then(|at| match version(at)? {
            4 => Some((at, false)),
            6 => Some((at, true)),
            _ => None,
        });
        let ports = ip.and_then(|(at, v6)| {
            let (protocol, behind, whole) = match v6 {
                true => behind_extensions(frame, at)?,
                false => {
                    let whole = be16(frame, at + 6)? & 0x3fff == 0;
                    (*frame.get(at + 9)?, at + usize::from(frame.get(at)? & 15) * 4, whole)
                }
            };
            (whole && matches!(protocol, 6 | 17)).then_some(behind)
        });
        Self { ip, ports }
    }

    fn exchange(&self, bytes: &mut [u8]) {
        swap(bytes, 0, 6);
        match self.ip {
            Some((at, false)) => swap(bytes, at + 12, 4),
            Some((at, true)) => swap(bytes, at + 8, 16),
            None => {}
        }
        if let Some(at) = self.ports {
            swap(bytes, at, 2);
        }
    }

    /// Returns the offset of the time to live.
    fn ttl(&self) -> Option<usize> {
        self.ip.map(|(at, v6)| at + if v6 { 7 } else { 8 })
    }

    fn lower_ttl(&self, bytes: &mut [u8]) {
        if let Some(ttl) = self.ttl().and_then(|at| bytes.get_mut(at)) {
            *ttl = ttl.saturating_sub(1);
        }
    }
}

/// Returns the protocol behind an IPv6 header at `at` and its extension headers, its place, and whether the packet is
/// whole.
fn behind_extensions(frame: &[u8], at: usize) -> Option<(u8, usize, bool)> {
    const MOST: usize = 8;
    let (mut protocol, mut behind) = (*frame.get(at + 6)?, at + 40);
    for _ in 0..MOST {
        match protocol {
            0 | 43 | 60 => {
                let len = 8 * (usize::from(*frame.get(behind + 1)?) + 1);
                (protocol, behind) = (*frame.get(behind)?, behind + len);
            }
            44 => return Some((protocol, behind, false)),
            _ => break,
        }
    }
    Some((protocol, behind, true))
}

fn swap(bytes: &mut [u8], at: usize, len: usize) {
    if let Some(both) = bytes.get_mut(at..at + 2 * len) {
        let (one, other) = both.split_at_mut(len);
        one.swap_with_slice(other);
    }
}

/// Field that arrived other than it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Name.
    pub name: String,
    /// Way to write its values.
    pub kind: FieldKind,
    /// Packets.
    pub packets: u64,
    /// Values as sent and as received, with the packets that had them: the first [`MOST_PAIRS`].
    pub pairs: Vec<(u128, u128, u64)>,
}

impl Changed {
    fn none(name: &str, kind: FieldKind) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            packets: 0,
            pairs: Vec::with_capacity(MOST_PAIRS),
        }
    }

    fn add(&mut self, sent: u128, received: u128, packets: u64) {
        self.packets += packets;
        let room = self.pairs.len() < MOST_PAIRS;
        match self.pairs.iter_mut().find(|(s, r, _)| (*s, *r) == (sent, received)) {
            Some((.., n)) => *n += packets,
            None if room => self.pairs.push((sent, received, packets)),
            None => {}
        }
    }
}

/// Changes of all packets that came to a lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Packets in which something was changed.
    pub packets: u64,
    /// VLAN tags, length of what is in front of the outermost IP header, then the fields of [`Headers::new`].
    pub fields: Vec<Changed>,
}

impl Changes {
    /// Makes room for the changes of these headers.
    pub fn new(headers: &Headers) -> Self {
        let before = [
            Changed::none("vlan tags", FieldKind::Tags),
            Changed::none("bytes before ip", FieldKind::Decimal),
        ];
        let fields = headers
            .fields
            .iter()
            .map(|field| Changed::none(&field.name, field.kind));
        Self {
            packets: 0,
            fields: before.into_iter().chain(fields).collect(),
        }
    }

    /// Compares a packet field by field: its headers as they were sent, and the frame that arrived.
    #[cold]
    pub fn note(&mut self, headers: &Headers, sent: &[u8], frame: &[u8]) {
        let mut due = [0; MOST_HEADERS];
        let due = &mut due[..headers.len];
        let ([of_tags, of_before, of_fields @ ..], true) = (&mut self.fields[..], sent.len() >= due.len()) else {
            return;
        };
        due.copy_from_slice(&sent[..due.len()]);
        let ends = Ends::of(due);
        let ttl = ends.ttl().filter(|_| headers.turned);
        if headers.turned {
            ends.exchange(due);
        }
        let mut changed = false;
        let (tags, came) = (tags_of(due), tags_of(frame));
        if tags != came && !(headers.stripped && came == tags >> 16) {
            of_tags.add(tags, came, 1);
            changed = true;
        }
        let (l3, came_l3) = (outer_ip(due), outer_ip(frame));
        let link = |frame: &[u8]| eth::HEADER_LEN + 4 * tag_count(frame);
        // Behind the tags, and behind the start of IP, all is compared by its distance.
        let (from, came_from) = (link(due), link(frame));
        let before = (l3.unwrap_or(from) - from, came_l3.unwrap_or(came_from) - came_from);
        if before.0 != before.1 || l3.is_some() != came_l3.is_some() {
            let len = |at: Option<usize>| at.unwrap_or(0) as u128;
            of_before.add(len(l3), len(came_l3), 1);
            changed = true;
        }
        let same_ip = l3.zip(came_l3).filter(|(at, came)| {
            let kind = |frame: &[u8], at: usize| {
                let first = *frame.get(at)?;
                Some((first, *frame.get(at + if first >> 4 == 6 { 6 } else { 9 })?))
            };
            kind(due, *at) == kind(frame, *came)
        });
        let header_end = |at: usize| {
            at + if due.get(at).is_some_and(|first| first >> 4 == 6) {
                40
            } else {
                20
            }
        };
        // Most packets have all in its place, and few bytes that differ.
        let aligned = (tags, l3) == (came, came_l3);
        let mut differ = [0u64; MOST_HEADERS / 64];
        for (at, (due, came)) in due.iter().zip(frame).enumerate().filter(|_| aligned) {
            differ[at / 64] |= u64::from(due != came) << (at % 64);
        }
        let differs = |at: usize| differ[at / 64 % differ.len()] >> (at % 64) & 1 == 1;
        for (field, changes) in headers.fields.iter().zip(of_fields) {
            let byte = field.bit / 8;
            let last = (field.bit + field.width as usize - 1) / 8;
            if aligned && !(byte..=last).any(differs) {
                continue;
            }
            if headers.sums.iter().any(|(from, to)| (*from..*to).contains(&byte)) {
                continue;
            }
            let came_bit = match (l3, came_l3) {
                _ if byte < 12 => field.bit,
                (Some(at), Some(came)) if byte >= at => {
                    if byte >= header_end(at) && same_ip.is_none() {
                        continue;
                    }
                    field.bit - at * 8 + came * 8
                }
                (Some(at), None) if byte >= at => continue,
                // In front of IP: the same only if as long as it was.
                _ if before.0 == before.1 && tags == came => field.bit + (came_from - from) * 8,
                _ => continue,
            };
            if came_bit / 8 + field.width.div_ceil(8) as usize > frame.len() {
                continue;
            }
            let (due_value, value) = (
                bits::get(due, field.bit, field.width),
                bits::get(frame, came_bit, field.width),
            );
            let lowered = ttl == Some(byte) && value + 1 == due_value;
            if due_value != value && !lowered {
                changes.add(due_value, value, 1);
                changed = true;
            }
        }
        self.packets += u64::from(changed);
    }

    /// Adds the changes that came to another lane, or those of another stream: fields are the same by name.
    pub fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        for other in &other.fields {
            let own = self
                .fields
                .iter()
                .position(|own| own.name == other.name && own.kind == other.kind);
            let Some(own) = own.and_then(|at| self.fields.get_mut(at)) else {
                self.fields.push(other.clone());
                continue;
            };
            let pairs: u64 = other.pairs.iter().map(|(.., packets)| packets).sum();
            for (sent, received, packets) in &other.pairs {
                own.add(*sent, *received, *packets);
            }
            own.packets += other.packets - pairs;
        }
    }
}

fn tag_count(frame: &[u8]) -> usize {
    let tag = |at: usize| matches!(be16(frame, 12 + 4 * at), Some(eth::TYPE_CTAG | eth::TYPE_STAG));
    (0..MOST_TAGS).take_while(|at| tag(*at)).count()
}

/// Returns the identifiers of VLAN tags, 16 bits each, as [`FieldKind::Tags`] writes them; 0 where there is no tag.
fn tags_of(frame: &[u8]) -> u128 {
    (0..tag_count(frame)).fold(0, |tags, at| {
        let vid = be16(frame, 14 + 4 * at).unwrap_or(0) & 0xfff;
        tags | u128::from(vid | 0x8000) << (16 * at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Data;
    use proptest::prelude::*;

    /// Ethernet, IPv4, UDP.
    fn sent() -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        frame[22..24].copy_from_slice(&[64, 17]);
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        frame[34..38].copy_from_slice(&[4, 0, 0, 80]);
        frame
    }

    fn headers(turned: bool) -> Headers {
        let field = |name: &str, bit, width, kind| FieldAt {
            name: name.to_owned(),
            bit,
            width,
            kind,
        };
        let fields = vec![
            field("eth.dst", 0, 48, FieldKind::Mac),
            field("eth.src", 48, 48, FieldKind::Mac),
            field("ipv4.dscp", 15 * 8, 6, FieldKind::Decimal),
            field("ipv4.ttl", 22 * 8, 8, FieldKind::Decimal),
            field("ipv4.src", 26 * 8, 32, FieldKind::Ipv4),
            field("ipv4.dst", 30 * 8, 32, FieldKind::Ipv4),
            field("udp.src", 34 * 8, 16, FieldKind::Decimal),
        ];
        let spec = ImageSpec {
            headers: sent()[..42].to_vec(),
            varied: 0,
            frame_len: 60,
            fields: vec![],
            sums: vec![],
            data: Data::Verified,
            tagged: true,
            seed: 1,
            run: 0,
            flows: 1,
            first_flow: 0,
        };
        Headers::new(&spec, fields, turned)
    }

    /// Returns the names of changed fields with their first pair, after one packet.
    fn changed(headers: &Headers, came: &[u8]) -> Vec<String> {
        let mut changes = Changes::new(headers);
        changes.note(headers, &sent(), came);
        let found = changes.fields.iter().filter(|of| of.packets > 0);
        found
            .map(|of| {
                let (sent, received, packets) = of.pairs[0];
                assert_eq!((packets, of.packets, changes.packets), (1, 1, 1));
                format!("{} {} {}", of.name, of.kind.text(sent), of.kind.text(received))
            })
            .collect()
    }

    #[test]
    fn what_arrives_as_it_was_sent_is_not_changed() {
        let headers = headers(false);
        assert!(headers.are_in(&sent()));
        assert_eq!(changed(&headers, &sent()), Vec::<String>::new());
    }

    #[test]
    fn what_a_reflector_does_is_no_change() {
        let headers = headers(true);
        let mut came = sent();
        let ends = Ends::of(&came);
        ends.exchange(&mut came);
        assert!(!headers.are_in(&came), "the time to live was not lowered");
        assert_eq!(changed(&headers, &came), Vec::<String>::new());
        ends.lower_ttl(&mut came);
        assert!(headers.are_in(&came));
        assert_eq!(changed(&headers, &came), Vec::<String>::new());
        ends.lower_ttl(&mut came);
        assert_eq!(changed(&headers, &came), ["ipv4.ttl 64 62"]);
    }

    #[test]
    fn ports_behind_extension_headers_are_found() {
        let mut frame = vec![0; 14 + 40 + 8 + 8 + 20];
        frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        (frame[20], frame[54], frame[62]) = (0, 60, 17);
        assert_eq!(ports_at(&frame), Some(70));
        frame[54] = 44;
        assert_eq!(ports_at(&frame), None, "a fragment");
    }

    #[test]
    fn each_changed_field_is_named_with_its_values() {
        let headers = headers(false);
        let mut came = sent();
        came[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
        came[15] = 46 << 2;
        came[22] = 63;
        came[26..30].copy_from_slice(&[198, 18, 0, 1]);
        came[34..36].copy_from_slice(&[0x10, 0]);
        assert!(!headers.are_in(&came));
        assert_eq!(
            changed(&headers, &came),
            [
                "eth.src 02:00:00:00:00:01 02:00:00:00:00:09",
                "ipv4.dscp 0 46",
                "ipv4.ttl 64 63",
                "ipv4.src 10.0.0.1 198.18.0.1",
                "udp.src 1024 4096",
            ]
        );
    }

    #[test]
    fn tags_that_were_put_on_are_named_and_all_else_is_compared_behind_them() {
        let mut came = sent();
        came.splice(12..12, [0x81, 0, 0, 7]);
        came[22 + 4] = 63;
        let found = changed(&headers(false), &came);
        assert_eq!(found, ["vlan tags none 7", "ipv4.ttl 64 63"]);
    }

    #[test]
    fn a_tag_that_the_own_device_takes_off_is_no_change() {
        let mut spec_of = headers(false).stripped();
        spec_of.fields = spec_of.fields.iter().filter(|field| field.bit < 96).cloned().collect();
        let mut tagged = sent();
        tagged.splice(12..12, [0x81, 0, 0, 7]);
        let mut changes = Changes::new(&spec_of);
        changes.note(&spec_of, &tagged, &sent());
        assert_eq!(changes.packets, 0, "{changes:?}");
        changes.note(&spec_of, &sent(), &tagged);
        assert_eq!(changes.packets, 1, "a tag that was put on");
    }

    #[test]
    fn behind_another_protocol_nothing_is_compared() {
        let mut came = sent();
        came[23] = 47;
        came[34..36].copy_from_slice(&[0, 0]);
        assert_eq!(changed(&headers(false), &came), Vec::<String>::new());
    }

    #[test]
    fn the_first_pairs_are_kept_and_all_packets_counted() {
        let headers = headers(false);
        let mut changes = Changes::new(&headers);
        for ttl in 0..40 {
            let mut came = sent();
            came[22] = ttl;
            changes.note(&headers, &sent(), &came);
        }
        let mut both = Changes::default();
        both.add(&changes);
        both.add(&changes);
        let ttl = &both.fields[5];
        assert_eq!((both.packets, ttl.packets, ttl.pairs.len()), (80, 80, MOST_PAIRS));
        assert_eq!(ttl.pairs[0], (64, 0, 2));
    }

    proptest! {
        #[test]
        fn no_frame_is_too_odd(came in prop::collection::vec(any::<u8>(), 0..80), turned: bool) {
            let headers = headers(turned);
            let _ = headers.are_in(&came);
            let mut changes = Changes::new(&headers);
            changes.note(&headers, &sent(), &came);
        }
    }
}
