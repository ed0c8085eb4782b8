//! Headers of packets as they are sent and as they come: their ends, and by these the packets of streams.

pub(crate) mod numbered;

use mpps_io::{AddressRange, selection};
use mpps_wire::ImageSpec;
use mpps_wire::changes::ports_at;
use mpps_wire::image::Field;
use mpps_wire::tagged::outer_ip;
use std::net::IpAddr;
use std::ops::{Range, RangeInclusive};

/// Ends of the packets, of the outermost IP header or, without one, of Ethernet: a frame without a right tag that has
/// them is one of the test's that was damaged.
#[derive(Debug)]
pub(crate) struct Shape {
    /// Type of the frame, or protocol of IP.
    kind: u16,
    /// Source and destination addresses of IP; none without an IP header.
    ips: [Vec<AddressRange>; 2],
    /// MAC addresses without an IP header, or ports of UDP or TCP; `None`: they vary.
    ends: [Option<u64>; 2],
    /// Source and destination change places on the way.
    turned: bool,
}

/// Returns the outermost IP header of packets, as a guard knows it; `None`: they have none.
pub(crate) fn without_tag(ends: &[Vec<AddressRange>; 2], spec: &ImageSpec) -> Option<selection::Headers> {
    let seen = Seen::of(&spec.headers)?;
    outer_ip(&spec.headers)?;
    let shape = Shape::of(ends, spec, false)?;
    let [from_ports, to_ports] = seen.ends.map(|end| match end {
        Some((place, port)) if place.len() == 2 => ports_of(spec, place.start * 8, port as u16),
        _ => 0..=u16::MAX,
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

/// Returns the ports that packets have at a bit: `port`, or from the lowest to the highest of those that vary.
fn ports_of(spec: &ImageSpec, bit: usize, port: u16) -> RangeInclusive<u16> {
    let has = |field: &&Field| field.bit < bit + 16 && bit < field.bit + field.width as usize;
    let mut fields = spec.fields.iter().filter(has);
    let bounds = match (fields.next(), fields.next()) {
        (None, _) => return port..=port,
        (Some(field), None) if (field.bit, field.width) == (bit, 16) => field.values.bounds(),
        _ => None,
    };
    let range = bounds.and_then(|(low, high)| Some(u16::try_from(low).ok()?..=u16::try_from(high).ok()?));
    range.unwrap_or(0..=u16::MAX)
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

impl Shape {
    /// Returns the ends of packets; `ends`: addresses of the outermost IP header, source first. `turned`: they come
    /// back with these exchanged.
    pub(crate) fn of(ends: &[Vec<AddressRange>; 2], spec: &ImageSpec, turned: bool) -> Option<Self> {
        let seen = Seen::of(&spec.headers)?;
        let constant = |(place, value): (Range<usize>, u64)| {
            let bits = place.start * 8..place.end * 8;
            let varies = |field: &Field| field.bit < bits.end && bits.start < field.bit + field.width as usize;
            (!spec.fields.iter().any(varies)).then_some(value)
        };
        Some(Self {
            kind: seen.kind,
            ips: ends.clone(),
            ends: seen.ends.map(|end| end.and_then(constant)),
            turned,
        })
    }

    /// Returns whether a frame has the kind and the ends.
    pub(crate) fn fits(&self, seen: &Seen) -> bool {
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
pub(crate) struct Seen {
    /// Type of the frame, or protocol of IP.
    pub(crate) kind: u16,
    pub(crate) ips: [Option<IpAddr>; 2],
    /// Places and values: ports of UDP or TCP, source first, or MAC addresses without an IP header.
    pub(crate) ends: [Option<(Range<usize>, u64)>; 2],
}

impl Seen {
    pub(crate) fn of(frame: &[u8]) -> Option<Self> {
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
    use mpps_wire::Image;
    use mpps_wire::image::Place;

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

    #[test]
    fn a_guard_knows_the_ports_of_packets_from_the_lowest_to_the_highest() {
        let ports = |packet: &str| {
            let text = format!("[[stream]]\npacket = 'eth / ipv4 / {packet}'\n");
            let traffic = mpps_traffic::Traffic::parse(&text, &[]).expect("a stream");
            let forms = traffic.forms(7).expect("a form");
            let spec = forms[0].spec(forms[0].sizes().0).expect("a spec");
            let of = without_tag(&[Vec::new(), Vec::new()], &spec).expect("headers of IP");
            (of.from_ports, of.to_ports)
        };
        assert_eq!(ports("tcp src=1024..1030 dst=80"), (1024..=1030, 80..=80));
        assert_eq!(ports("udp src=9..5 dst={80, 443, 7}"), (5..=9, 7..=443));
        assert_eq!(ports("udp src=random(5..9) dst=src+1"), (5..=9, 0..=u16::MAX));
        assert_eq!(ports("icmp"), (0..=u16::MAX, 0..=u16::MAX));
    }
}
