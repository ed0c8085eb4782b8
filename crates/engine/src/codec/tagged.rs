//! Codec of packets of any headers, each known by the tag at its end.

use super::{Class, Compared, Foreign, Reader, Writer};
use crate::plan::{PacketStream, Replay};
use mpps_io::{AddressRange, Frame, selection};
use mpps_sys::clock::SPREAD_NS;
use mpps_wire::changes::{Changes, Headers, ports_at};
use mpps_wire::image::{Field, Place};
use mpps_wire::tagged::{Outline, icmp_error, outer_ip, tag_of};
use mpps_wire::{Blank, Checker, IcmpError, Image, ImageSpec, MacAddr, Stamp, TAG_LEN, parse_slow_path};
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

/// Bits of the time in a tag.
const TIME_BITS: u32 = 36;

/// Returns the run of the tags of trial number `trial` of a run. Trials that follow each other have different ones.
pub(crate) fn run_of(run_id: u64, trial: u32) -> u8 {
    (mpps_wire::random(run_id, 0) as u8).wrapping_add(trial as u8)
}

/// Codec of whole frames with a tag.
#[derive(Debug)]
pub(crate) struct TaggedCodec {
    image: Image,
    known: Known,
    /// Headers as they should arrive; `None`: they are not compared.
    headers: Option<Headers>,
}

/// Packets of a stream that come back, as far as they are known.
#[derive(Debug)]
pub(super) struct Known {
    seed: u64,
    run: u8,
    pub(super) first_flow: u32,
    pub(super) flows: u32,
    /// Test packets are reports of ICMP themselves.
    pub(super) reports: bool,
    /// MAC address that packets are sent from, if they come back by the same port: what comes from it is a packet as it
    /// was sent.
    pub(super) own: Option<[u8; 6]>,
    shape: Option<Shape>,
}

/// Ends of the packets, of the outermost IP header or, without one, of Ethernet: a frame without a right tag that has
/// them is one of the test's that was damaged.
#[derive(Debug)]
struct Shape {
    /// Type of the frame, or protocol of IP.
    kind: u16,
    /// Source and destination addresses of IP; none without an IP header.
    ips: [Vec<AddressRange>; 2],
    /// MAC addresses without an IP header, or ports of UDP or TCP; `None`: they vary.
    ends: [Option<u64>; 2],
    /// Source and destination change places on the way.
    turned: bool,
}

/// Returns what the packets of a stream are made of in a trial. `macs`: those of the next hop and of the port.
pub(super) fn of_trial(stream: &PacketStream, spec: &ImageSpec, run: u8, macs: [MacAddr; 2]) -> ImageSpec {
    let mut spec = ImageSpec { run, ..spec.clone() };
    let takes = [stream.to_next_hop.is_some(), stream.from_port];
    for (at, (mac, takes)) in macs.iter().zip(takes).enumerate() {
        if let Some(place) = spec.headers.get_mut(at * 6..at * 6 + 6).filter(|_| takes) {
            place.copy_from_slice(&mac.0);
        }
    }
    spec
}

impl Known {
    /// `turned`: packets come back with their addresses exchanged.
    pub(super) fn new(stream: &PacketStream, spec: &ImageSpec, turned: bool) -> Self {
        Self {
            seed: spec.seed,
            run: spec.run,
            first_flow: spec.first_flow,
            flows: spec.flows,
            reports: icmp_error(&spec.headers).is_some(),
            own: turned
                .then(|| spec.headers.get(6..12)?.first_chunk().copied())
                .flatten()
                .filter(|_| !spec.fields.iter().any(|field| (48..96).contains(&field.bit))),
            shape: Shape::of(stream, spec, turned),
        }
    }

    /// Returns what is known of the frames of a capture: which are damaged is not seen without a right tag.
    pub(super) fn of_capture(replay: &Replay, flows: u32, run: u8) -> Self {
        Self {
            seed: replay.seed,
            run,
            first_flow: replay.first_flow,
            flows,
            // Reports in a capture have no tag.
            reports: false,
            own: None,
            shape: None,
        }
    }

    /// Returns whether a frame without a right tag has the ends of the stream's packets.
    pub(super) fn fits(&self, seen: &Seen) -> bool {
        self.shape.as_ref().is_some_and(|shape| shape.fits(seen))
    }
}

/// Returns packets with their ends exchanged: MAC addresses, addresses of the outermost IP header, and ports of UDP and
/// TCP behind it.
pub(crate) fn mirrored(spec: &ImageSpec) -> ImageSpec {
    let mut spec = spec.clone();
    let ip = outer_ip(&spec.headers).map(|at| match spec.headers[at] >> 4 {
        6 => (at + 8, 16),
        _ => (at + 12, 4),
    });
    let ports = ports_at(&spec.headers).map(|at| (at, 2));
    for (at, len) in [Some((0, 6)), ip, ports].into_iter().flatten() {
        let (one, other) = (at..at + len, at + len..at + 2 * len);
        if let Some(both) = spec.headers.get_mut(one.start..other.end) {
            both.rotate_left(len);
        }
        for field in &mut spec.fields {
            match field.bit / 8 {
                byte if one.contains(&byte) => field.bit += len * 8,
                byte if other.contains(&byte) => field.bit -= len * 8,
                _ => {}
            }
        }
    }
    spec
}

/// Returns what packets are made of, without the bytes of the payload that vary.
fn without_payload(spec: &ImageSpec) -> ImageSpec {
    let len = spec.headers.len() - spec.varied;
    let mut spec = spec.clone();
    spec.headers.truncate(len);
    spec.fields.retain(|field| field.bit < len * 8);
    ImageSpec { varied: 0, ..spec }
}

/// Returns the headers of packets as they should arrive; `None`: they are not compared.
pub(super) fn headers_of(stream: &PacketStream, spec: &ImageSpec, (turned, stripped): (bool, bool)) -> Option<Headers> {
    (!stream.fields.is_empty()).then(|| {
        let headers = Headers::new(&without_payload(spec), Arc::clone(&stream.fields), turned);
        if stripped { headers.stripped() } else { headers }
    })
}

impl TaggedCodec {
    /// Makes the codec of a trial with one stream of one size. `macs`: those of the next hop and of the port. `turned`:
    /// packets come back with their addresses exchanged. `stripped`: the port at which they arrive takes the outermost
    /// VLAN tag off.
    pub(crate) fn new(stream: &PacketStream, run: u8, macs: [MacAddr; 2], (turned, stripped): (bool, bool)) -> Self {
        let spec = of_trial(stream, &stream.specs[0], run, macs);
        Self {
            headers: headers_of(stream, &spec, (turned, stripped)),
            known: Known::new(stream, &spec, turned),
            // The plan was validated; packets that can't be made are a defect.
            image: Image::new(spec).expect("validated plan"),
        }
    }

    /// Makes room for changes of the headers.
    pub(crate) fn compared(&self) -> Compared {
        let changes = self.headers.iter().map(Changes::new).collect();
        let sent = vec![0; self.image.frame_len()];
        Compared { changes, sent }
    }

    /// Classifies a frame without a right tag.
    #[cold]
    #[inline(never)]
    fn untagged(&self, frame: &[u8]) -> Class {
        if parse_slow_path(frame).is_some() {
            return Class::SlowPath;
        }
        match Seen::of(frame).is_some_and(|seen| self.known.fits(&seen)) {
            true => Class::Corrupt,
            false => Class::Foreign(Foreign::NotStamped),
        }
    }
}

/// Returns a stamp that is whole. A tag has the lowest bits of number and time: the whole number is the one next to the
/// number that is due in the flow, and the whole time the latest that is not after now.
#[inline(always)]
pub(super) fn whole(stamp: Stamp, next: impl FnOnce() -> u64, now_ns: u64) -> Stamp {
    let next = next();
    // The sender's lane may be ahead by its reading of the clock.
    let now_ns = now_ns + SPREAD_NS;
    let ahead = (stamp.seq as u32).wrapping_sub(next as u32) as i32;
    let past = now_ns.wrapping_sub(stamp.time_ns) & ((1 << TIME_BITS) - 1);
    Stamp {
        seq: next.wrapping_add_signed(i64::from(ahead)),
        time_ns: now_ns.wrapping_sub(past),
    }
}

impl Writer for TaggedCodec {
    #[inline]
    fn frame_len(&self) -> usize {
        self.image.frame_len()
    }

    #[inline(always)]
    fn write(&self, frame: Blank<'_>, time_ns: u64) {
        let place = Place {
            flow: frame.flow,
            number: frame.seq,
        };
        self.image.write(frame.bytes, place, time_ns);
    }

    #[inline(always)]
    fn write_all<'f>(&self, frames: impl Iterator<Item = Blank<'f>>, time_ns: u64) {
        self.image.write_all(frames, time_ns);
    }

    #[inline]
    fn restamp(&self, bytes: &mut [u8], time_ns: u64) {
        self.image.restamp(bytes, time_ns);
    }
}

impl Reader for TaggedCodec {
    #[cold]
    fn quoted(&self, frame: &[u8]) -> Option<IcmpError> {
        let (tag, _) = tag_of(frame, self.known.seed)?;
        icmp_error(frame).filter(|_| tag.run == self.known.run && !self.known.reports)
    }

    #[inline(always)]
    fn whole(&self, stamp: Stamp, next: impl FnOnce() -> u64, now_ns: u64) -> Stamp {
        whole(stamp, next, now_ns)
    }

    #[inline(always)]
    fn compare<F: Frame>(&self, frame: &F, (_, flow): (usize, u32), stamp: Stamp, compared: &mut Compared) {
        let Some(headers) = &self.headers else { return };
        if headers.are_in(frame.bytes()) {
            return;
        }
        let place = Place {
            flow,
            number: stamp.seq,
        };
        self.image.write(&mut compared.sent, place, stamp.time_ns);
        if let Some(changes) = compared.changes.first_mut() {
            changes.note(headers, &compared.sent, frame.bytes());
        }
    }

    #[inline]
    fn classify<F: Frame>(&self, frame: &F, _known: &mut Checker) -> Class {
        let (bytes, known) = (frame.bytes(), &self.known);
        let outline = Outline::of(bytes);
        let Some(tag) = outline.tag(bytes, known.seed) else {
            return self.untagged(bytes);
        };
        let flow = tag.flow.wrapping_sub(known.first_flow);
        if tag.run != known.run || flow >= known.flows {
            return Class::Foreign(Foreign::OtherRun);
        }
        if !known.reports && outline.icmp_error(bytes).is_some() {
            return Class::SlowPath;
        }
        if known.own.is_some_and(|own| bytes.get(6..12) == Some(&own)) {
            return Class::Foreign(Foreign::Looped);
        }
        match self
            .image
            .verify_payload(&bytes[..outline.end - TAG_LEN], tag.flow, tag.number)
        {
            true => Class::Test {
                flow,
                stamp: Stamp {
                    seq: tag.number.into(),
                    time_ns: tag.time_ns,
                },
            },
            false => Class::Corrupt,
        }
    }
}

/// Returns the outermost IP header of packets, as a guard knows it; `None`: they have none.
pub(crate) fn headers_without_tag(stream: &PacketStream, spec: &ImageSpec) -> Option<selection::Headers> {
    let seen = Seen::of(&spec.headers)?;
    outer_ip(&spec.headers)?;
    let shape = Shape::of(stream, spec, false)?;
    let [from_ports, to_ports] = shape.ends.map(|end| match end {
        Some(port) => port as u16..=port as u16,
        None => 0..=u16::MAX,
    });
    let [from, to] = shape.ips;
    Some(selection::Headers {
        protocol: u8::try_from(seen.kind).ok()?,
        from,
        from_ports,
        to,
        to_ports,
    })
}

impl Shape {
    fn of(stream: &PacketStream, spec: &ImageSpec, turned: bool) -> Option<Self> {
        let seen = Seen::of(&spec.headers)?;
        let constant = |(place, value): (Range<usize>, u64)| {
            let bits = place.start * 8..place.end * 8;
            let varies = |field: &Field| field.bit < bits.end && bits.start < field.bit + field.width as usize;
            (!spec.fields.iter().any(varies)).then_some(value)
        };
        Some(Self {
            kind: seen.kind,
            ips: stream.ends.clone(),
            ends: seen.ends.map(|end| end.and_then(constant)),
            turned,
        })
    }

    /// Returns whether a frame has the kind and the ends.
    fn fits(&self, seen: &Seen) -> bool {
        let end = |at: usize| if self.turned { 1 - at } else { at };
        let within = |at: usize| {
            let ranges = &self.ips[at];
            ranges.is_empty() || seen.ips[end(at)].is_some_and(|ip| ranges.iter().any(|range| range.contains(&ip)))
        };
        let same = |at: usize| {
            let came = || seen.ends[end(at)].as_ref().map(|(_, value)| *value);
            self.ends[at].is_none_or(|own| came() == Some(own))
        };
        seen.kind == self.kind && [0, 1].into_iter().all(|at| within(at) && same(at))
    }
}

/// Ends of a frame.
pub(super) struct Seen {
    /// Type of the frame, or protocol of IP.
    pub(super) kind: u16,
    pub(super) ips: [Option<IpAddr>; 2],
    /// Places and values: ports of UDP or TCP, source first, or MAC addresses without an IP header.
    pub(super) ends: [Option<(Range<usize>, u64)>; 2],
}

impl Seen {
    pub(super) fn of(frame: &[u8]) -> Option<Self> {
        let value = |place: Range<usize>| {
            let bytes = frame.get(place.clone())?;
            let value = bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
            Some((place, value))
        };
        let Some(at) = outer_ip(frame) else {
            let behind_tags = |at: &usize| matches!(value(*at..at + 2), Some((_, 0x8100 | 0x88a8)));
            let kind = (12..).step_by(4).find(|at| !behind_tags(at))?;
            return Some(Self {
                kind: value(kind..kind + 2)?.1 as u16,
                ips: [None; 2],
                ends: [value(6..12), value(0..6)],
            });
        };
        let (kind, ips) = match frame.get(at)? >> 4 {
            4 => {
                let ip = |at: usize| Some(IpAddr::from(*frame.get(at..)?.first_chunk::<4>()?));
                (*frame.get(at + 9)?, [ip(at + 12), ip(at + 16)])
            }
            6 => {
                let ip = |at: usize| Some(IpAddr::from(*frame.get(at..)?.first_chunk::<16>()?));
                (*frame.get(at + 6)?, [ip(at + 8), ip(at + 24)])
            }
            _ => return None,
        };
        let ports = ports_at(frame);
        Some(Self {
            kind: kind.into(),
            ips,
            ends: [0, 2].map(|end| ports.and_then(|at| value(at + end..at + end + 2))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_traffic::Traffic;

    fn frame(spec: ImageSpec, flow: u32) -> Vec<u8> {
        let image = Image::new(spec).expect("an image");
        let mut frame = vec![0; image.frame_len()];
        image.write(&mut frame, Place { flow, number: 3 }, 5);
        frame
    }

    #[test]
    fn a_mirrored_packet_has_its_ends_exchanged_and_its_checksums_right() {
        let ends = |there: bool, [eth, net, tcp]: [&str; 3], [one, other]: [[&str; 3]; 2]| {
            let [src, dst] = if there { [one, other] } else { [other, one] };
            let packet = format!(
                "eth src={} dst={} / {eth}{net} src={} dst={} / {tcp} src={} dst={}",
                src[0], dst[0], src[1], dst[1], src[2], dst[2]
            );
            let traffic =
                Traffic::parse(&format!("[[stream]]\npacket = '{packet}'\nsize = 140\n"), &[]).expect(&packet);
            let form = traffic.forms(7).expect("a form").remove(0);
            form.spec(140).expect("a spec")
        };
        let macs = ["02:00:00:00:00:01", "02:00:00:00:00:02"];
        for headers in [["", "ipv4", "udp"], ["vlan vid=5 / ", "ipv6", "tcp"]] {
            let ips = if headers[1] == "ipv4" {
                ["10.0.0.1*3", "10.1.0.1"]
            } else {
                ["2001:db8::1*3", "2001:db8:1::1"]
            };
            let both = [[macs[0], ips[0], "1024..1030"], [macs[1], ips[1], "80"]];
            for flow in 0..9 {
                let back = frame(mirrored(&ends(true, headers, both)), flow);
                assert_eq!(back, frame(ends(false, headers, both), flow), "{headers:?} {flow}");
            }
        }
    }
}
