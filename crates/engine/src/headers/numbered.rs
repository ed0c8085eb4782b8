//! Streams that are numbered by TCP (`tag = "tcp"`): a packet is known by addresses, ports and sequence number.
//!
//! The addresses and ports say which flow a segment is of, by the bits that are the same in all packets of a flow. A
//! segment as it was sent has its number in the sequence number. A host's own answer acknowledges it: SYN-ACK the
//! number and the SYN, RST all that the segment took.

use super::Seen;
use mpps_wire::image::{Field, Place, Values};
use mpps_wire::tagged::outer_ip;
use mpps_wire::{Image, ImageSpec, random};
use std::net::IpAddr;
use std::sync::Arc;

/// Protocol number of TCP.
const TCP: u16 = 6;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
/// Flags by which segments differ.
const KIND: u8 = FIN | SYN | RST | ACK;

/// Addresses and ports of a segment: source, destination, and both ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tuple {
    ips: [u128; 2],
    ports: [u16; 2],
}

impl Tuple {
    fn of(seen: &Seen) -> Option<Self> {
        let bits = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => ip.to_bits().into(),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        let [Some(src), Some(dst)] = seen.ips else { return None };
        let [Some((_, from)), Some((_, to))] = &seen.ends else {
            return None;
        };
        Some(Self {
            ips: [bits(src), bits(dst)],
            ports: [*from as u16, *to as u16],
        })
    }

    fn turned(self) -> Self {
        let ([src, dst], [from, to]) = (self.ips, self.ports);
        Self {
            ips: [dst, src],
            ports: [to, from],
        }
    }

    fn and(self, mask: Self) -> Self {
        Self {
            ips: [self.ips[0] & mask.ips[0], self.ips[1] & mask.ips[1]],
            ports: [self.ports[0] & mask.ports[0], self.ports[1] & mask.ports[1]],
        }
    }

    /// Returns a hash, which no two flows of a stream share ([`Numbered::new`]).
    fn hash(self) -> u64 {
        let fold = |hash, bits: u128| random(random(hash, bits as u64), (bits >> 64) as u64);
        let ports = u64::from(self.ports[0]) << 16 | u64::from(self.ports[1]);
        random(self.ips.into_iter().fold(0, fold), ports)
    }
}

/// Segments of a stream, as far as a receiver knows them.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbered {
    /// Bits that are the same in all packets of a flow.
    mask: Tuple,
    v6: bool,
    /// Hashes of the flows' own bits, ascending, each with its flow.
    flows: Box<[(u64, u32)]>,
    spec: Arc<ImageSpec>,
    /// Flags as sent, and those of them that all packets have.
    flags: u8,
    constant: u8,
    /// Bytes behind the headers, which a RST acknowledges; `None`: frames have several sizes.
    payload: Option<u32>,
}

/// Segment that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// As it was sent.
    Sent { flow: u32, number: u32 },
    /// Answer of a host to that one.
    Answer { flow: u32, number: u32 },
    /// It does not say to which of the flow it belongs.
    Other,
}

/// Returns whether the value of a field is the same in all packets of a flow.
fn is_of_flow(fields: &[Field], field: &Field) -> bool {
    match &field.values {
        Values::Counter { .. } | Values::Table(_) | Values::Shuffle { .. } => true,
        Values::Random { period, .. } => period.is_some(),
        Values::Same { field, .. } => fields.get(*field).is_some_and(|of| is_of_flow(fields, of)),
        Values::Hash { fields: of, .. } => of
            .iter()
            .all(|of| fields.get(*of).is_some_and(|of| is_of_flow(fields, of))),
        Values::Number | Values::ByPacket(_) => false,
    }
}

/// Returns the addresses and ports of each flow, and the offset of TCP; `None`: TCP is not right behind the outermost
/// IP header.
fn tuples(spec: &ImageSpec) -> Option<(Vec<Tuple>, Seen, usize)> {
    let image = Image::new(spec.clone())?;
    let mut frame = vec![0; image.frame_len()];
    let mut of_flow = |flow: u32| {
        image.write(&mut frame, Place { flow, number: 0 }, 0);
        Seen::of(&frame).filter(|seen| seen.kind == TCP)
    };
    let first = of_flow(0)?;
    let at = first.ends[0].as_ref()?.0.start;
    let all = (0..spec.flows.max(1)).map(|flow| Tuple::of(&of_flow(flow)?));
    Some((all.collect::<Option<_>>()?, first, at))
}

impl Numbered {
    /// Works out the flows of a stream by the headers of its frames, of one size each.
    ///
    /// # Errors
    /// Says why packets can't be known.
    pub fn new(specs: &[Arc<ImageSpec>]) -> Result<Self, String> {
        let elsewhere = || "a receiver knows TCP right behind the outermost IP header alone: want tail".to_owned();
        let spec = specs.first().ok_or_else(elsewhere)?;
        let (all, first, at) = tuples(spec).ok_or_else(elsewhere)?;
        let ip = outer_ip(&spec.headers).ok_or_else(elsewhere)?;
        let v6 = first.ips[0].is_some_and(|ip| ip.is_ipv6());
        let (ips, len) = match v6 {
            true => ([ip + 8, ip + 24], 16),
            false => ([ip + 12, ip + 16], 4),
        };
        let varies = |at: usize, len: usize| {
            let bits = at * 8..(at + len) * 8;
            let others = spec.fields.iter().filter(|field| !is_of_flow(&spec.fields, field));
            others.fold(0u128, |varies, field| {
                let within = field.bit.max(bits.start)..(field.bit + field.width as usize).min(bits.end);
                within.fold(varies, |varies, bit| varies | 1 << (bits.end - 1 - bit))
            })
        };
        let mask = Tuple {
            ips: ips.map(|at| !varies(at, len)),
            ports: [at, at + 2].map(|at| !(varies(at, 2) as u16)),
        };
        let mut flows: Vec<(u64, u32)> = all.iter().map(|tuple| tuple.and(mask).hash()).zip(0..).collect();
        flows.sort_unstable();
        if let Some(two) = flows.windows(2).find(|two| two[0].0 == two[1].0) {
            return Err(format!(
                "flows {} and {} have the same addresses and ports, by which a receiver knows them: want fields that \
                 vary in these, or tail",
                two[0].1, two[1].1
            ));
        }
        let varying = spec.fields.iter().filter(|field| field.bit / 8 == at + 13);
        let varying = varying.flat_map(|field| field.bit % 8..field.bit % 8 + field.width as usize);
        Ok(Self {
            mask,
            v6,
            flows: flows.into(),
            flags: spec.headers[at + 13],
            constant: varying
                .filter(|bit| *bit < 8)
                .fold(KIND, |mask, bit| mask & !(0x80 >> bit)),
            payload: (specs.len() == 1).then(|| (spec.frame_len + spec.varied - spec.headers.len()) as u32),
            spec: Arc::clone(spec),
        })
    }

    /// Returns whether a packet of this stream and one of the other can have the same addresses and ports. Values
    /// without a period may be any.
    pub fn meets(&self, other: &Self) -> bool {
        if self.v6 != other.v6 {
            return false;
        }
        let mask = self.mask.and(other.mask);
        let hashes = |of: &Self| -> Vec<u64> {
            // Those of its own mask are known.
            if mask == of.mask {
                return of.flows.iter().map(|(hash, _)| *hash).collect();
            }
            let all = tuples(&of.spec).map(|(all, ..)| all).unwrap_or_default();
            all.into_iter().map(|tuple| tuple.and(mask).hash()).collect()
        };
        let mut own = hashes(self);
        own.sort_unstable();
        hashes(other).iter().any(|hash| own.binary_search(hash).is_ok())
    }

    /// Reads a frame that came; `None`: it is none of this stream. `turned`: its ends are exchanged.
    pub(crate) fn read(&self, frame: &[u8], seen: &Seen, turned: bool) -> Option<Segment> {
        if seen.kind != TCP || seen.ips[0]?.is_ipv6() != self.v6 {
            return None;
        }
        let tuple = Tuple::of(seen)?;
        let tuple = if turned { tuple.turned() } else { tuple };
        let hash = tuple.and(self.mask).hash();
        let at = self.flows.binary_search_by_key(&hash, |(hash, _)| *hash).ok()?;
        let flow = self.flows[at].1;
        let tcp: &[u8; 14] = frame.get(seen.ends[0].as_ref()?.0.start..)?.first_chunk()?;
        let word = |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
        let (number, acknowledged, flags) = (word(4), word(8), tcp[13]);
        if (flags ^ self.flags) & self.constant == 0 {
            return Some(Segment::Sent { flow, number });
        }
        let took = |flag: u8| u32::from(self.flags & self.constant & flag != 0);
        Some(match flags & KIND {
            of if of == SYN | ACK && took(SYN) == 1 => Segment::Answer {
                flow,
                number: acknowledged.wrapping_sub(1),
            },
            of if of == RST | ACK && self.payload.is_some() => Segment::Answer {
                flow,
                number: acknowledged
                    .wrapping_sub(took(SYN) + took(FIN))
                    .wrapping_sub(self.payload.unwrap_or(0)),
            },
            _ => Segment::Other,
        })
    }

    /// Returns bytes that a stream of so many flows takes.
    pub fn bytes(flows: u32) -> u64 {
        u64::from(flows) * size_of::<(u64, u32)>() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_traffic::Traffic;

    /// Returns what is known of the packets of a text, and the image that writes them.
    fn numbered(packet: &str, size: &str) -> (Result<Numbered, String>, Image) {
        let text = format!("[[stream]]\npacket = '{packet}'\ntag = 'tcp'\nsize = '{size}'\n");
        let forms = Traffic::parse(&text, &[])
            .and_then(|traffic| traffic.forms(7))
            .expect("a form");
        let specs: Vec<_> = forms[0]
            .size_order()
            .0
            .iter()
            .map(|size| Arc::new(forms[0].spec(*size).unwrap()))
            .collect();
        let image = Image::new(ImageSpec::clone(&specs[0])).expect("an image");
        (Numbered::new(&specs), image)
    }

    /// Returns the frame of a flow and number, as it is changed on the way.
    fn frame(image: &Image, flow: u32, number: u64, change: impl Fn(&mut [u8])) -> Vec<u8> {
        let mut frame = vec![0; image.frame_len()];
        image.write(&mut frame, Place { flow, number }, 0);
        change(&mut frame);
        frame
    }

    fn read(numbered: &Numbered, frame: &[u8], turned: bool) -> Option<Segment> {
        numbered.read(frame, &Seen::of(frame)?, turned)
    }

    /// Exchanges the ends of a frame of IPv4.
    fn turn(frame: &mut [u8]) {
        frame[26..34].rotate_left(4);
        frame[34..38].rotate_left(2);
    }

    #[test]
    fn a_segment_is_known_as_it_was_sent_and_by_what_an_answer_acknowledges() {
        let text = "eth / ipv4 src=10.0.0.1*2 dst=10.1.0.1 / tcp src=1..3 dst=80 flags=syn";
        let (known, image) = numbered(text, "64");
        let known = known.expect("a stream");
        let sent = frame(&image, 4, 9, |_| ());
        assert_eq!(read(&known, &sent, false), Some(Segment::Sent { flow: 4, number: 9 }));
        assert_eq!(read(&known, &sent, true), None);
        let answer = |flags: u8, acknowledges: u32| {
            let frame = frame(&image, 4, 9, |frame| {
                turn(frame);
                frame[38..42].fill(0xee);
                frame[42..46].copy_from_slice(&acknowledges.to_be_bytes());
                frame[47] = flags;
            });
            read(&known, &frame, true)
        };
        let nine = Some(Segment::Answer { flow: 4, number: 9 });
        assert_eq!(answer(SYN | ACK, 10), nine);
        assert_eq!(answer(RST | ACK, 16), nine, "the SYN and the six bytes behind it");
        assert_eq!(answer(ACK, 10), Some(Segment::Other));
        assert_eq!(answer(RST, 0), Some(Segment::Other));
        let strange = frame(&image, 4, 9, |frame| frame[37] = 81);
        assert_eq!(read(&known, &strange, false), None, "another port");
    }

    #[test]
    fn a_rst_says_nothing_where_frames_have_several_sizes() {
        let (known, image) = numbered("eth / ipv4 / tcp dst=80 flags=syn", "64 128");
        let known = known.expect("a stream");
        let answer = frame(&image, 0, 9, |frame| {
            turn(frame);
            frame[42..46].copy_from_slice(&16u32.to_be_bytes());
            frame[47] = RST | ACK;
        });
        assert_eq!(read(&known, &answer, true), Some(Segment::Other));
    }

    #[test]
    fn values_without_a_period_are_any_and_may_be_those_of_another_stream() {
        let of = |packet: &str| numbered(packet, "80");
        let (random, image) = of("eth / ipv4 src=random(10.0.0.0/24) dst=10.1.0.1 / tcp dst=80");
        let random = random.expect("a stream");
        for number in [0, 1, 77] {
            let sent = frame(&image, 0, number, |_| ());
            let number = number as u32;
            assert_eq!(read(&random, &sent, false), Some(Segment::Sent { flow: 0, number }));
        }
        let meets = |packet: &str| random.meets(&of(packet).0.expect("a stream"));
        assert!(meets("eth / ipv4 src=10.0.0.9 dst=10.1.0.1 / tcp dst=80"));
        assert!(!meets("eth / ipv4 src=10.0.0.9 dst=10.1.0.1 / tcp dst=81"));
        assert!(!meets("eth / ipv6 / tcp dst=80"));
        let twice = of("eth / ipv4 / tcp dst=80 win=1..2").0.expect_err("two flows");
        assert!(twice.starts_with("flows 0 and 1 have the same addresses"), "{twice}");
        let deep = of("eth / ipv4 / ipv4 / tcp dst=80").0.expect_err("a tunnel");
        assert!(deep.contains("right behind the outermost IP header"), "{deep}");
    }
}
