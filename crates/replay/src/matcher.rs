//! Choice of frames by a packet's text: `eth / ipv4 dst=10.0.0.0/24 / udp dst=53`.
//!
//! The text means what it means where packets are made of it, turned round: a frame matches if it begins with these
//! headers, in this order and with none between, and if each field that is written has one of the values that packets
//! of the text may have. What is behind the last header may be anything. Three things differ, because a capture has
//! what a text does not make: a network means all its addresses, not its hosts alone; fragments other than the first
//! have no headers behind that of IP; and what is behind the end of an IP packet is padding, and no header.

mod values;
mod walk;

use mpps_traffic::{Carries, Header, HeaderKind, Packet, Part, PartPlace, PartValues, Source, Wrong};
use mpps_wire::bits;
use values::Values;

/// Most headers of a text, as the grammar has it.
const MOST_HEADERS: usize = 32;

/// Test of frames against a packet's text.
#[derive(Clone, Debug)]
pub struct Matcher {
    steps: Vec<Step>,
    /// Fields that have the value of another one, which are compared when all headers are found.
    same: Vec<Same>,
}

/// Header to be found.
#[derive(Clone, Debug)]
struct Step {
    kind: HeaderKind,
    /// Bytes of a raw header.
    raw: usize,
    tests: Vec<Test>,
    next: Next,
    /// Version that is wanted, and the place of its bits.
    version: Option<(u128, usize, u32)>,
    /// Whether the packet ends where this header says.
    ends: bool,
    /// Whether what follows is none of the next header in fragments but the first.
    cut: bool,
}

/// Continuation behind a header.
#[derive(Clone, Debug)]
enum Next {
    /// Anything.
    Anything,
    /// The next header, if these bits have this number.
    Number(usize, u32, u16),
    /// The next header, if these bits have a length.
    Length(usize, u32),
    /// The next header, if one of these numbers stands in the first byte.
    First(&'static [u8]),
    /// The next header, if this is the last label of a stack, or not; and if it is IP or not, where that matters.
    Label(bool, Option<bool>),
}

/// Test of one part of a header.
#[derive(Clone, Debug)]
enum Test {
    /// A number has one of these values.
    Number(Look, Values),
    /// At this offset bytes begin that have these bits: each byte, and those of its bits that count.
    Bytes(usize, Box<[(u8, u8)]>),
    /// An option of TCP is there.
    Present(u8),
}

/// Place of a number in a header.
#[derive(Clone, Copy, Debug)]
enum Look {
    Bits(usize, u32),
    /// Word of GRE that is there if this bit of the first byte is set; its first bits.
    Gre(u8, u32),
    /// Container of a PDU session behind GTP-U.
    Qfi,
    /// Option of TCP: kind and bits.
    Tcp(u8, u32),
}

/// Field whose value is that of another one.
#[derive(Clone, Debug)]
struct Same {
    header: usize,
    look: Look,
    /// Header, first bit and bits of the other one.
    of: (usize, usize, u32),
    plus: i128,
}

impl Matcher {
    /// Makes a test of a packet's text.
    ///
    /// # Errors
    /// Names a header that the one before it does not carry, and values that are none to be looked for: `inner-hash`
    /// and `bad`.
    pub fn of(packet: &Packet) -> Result<Self, Wrong> {
        let headers = &packet.headers;
        let wrong = |at: usize, line: &str| Wrong {
            at: headers.get(at).map_or(0..packet.text.len(), Header::at),
            line: line.to_owned(),
        };
        match headers.first().map(|header| header.kind) {
            Some(HeaderKind::Eth) if headers.len() <= MOST_HEADERS => {}
            Some(HeaderKind::Eth) => return Err(wrong(MOST_HEADERS, "want 32 headers at most")),
            _ => return Err(wrong(0, "want eth as the first header")),
        }
        let mut matcher = Self {
            steps: Vec::new(),
            same: Vec::new(),
        };
        for at in 0..headers.len() {
            let step = matcher.step(packet, at)?;
            matcher.steps.push(step);
        }
        Ok(matcher)
    }

    fn step(&mut self, packet: &Packet, at: usize) -> Result<Step, Wrong> {
        let header = &packet.headers[at];
        let gives = |name: &str| header.parts().any(|part| part.field == name);
        let next = next(header, packet.headers.get(at + 1), &gives)?;
        let headers_follow = packet
            .headers
            .get(at + 1)
            .is_some_and(|next| next.kind != HeaderKind::Payload);
        let version = match header.kind {
            HeaderKind::Ipv4 => Some((4, 0, 4)),
            HeaderKind::Ipv6 => Some((6, 0, 4)),
            HeaderKind::Gre => Some((0, 13, 3)),
            _ => None,
        };
        let mut step = Step {
            kind: header.kind,
            raw: 0,
            tests: Vec::new(),
            next,
            version: version.filter(|_| !gives("version")),
            ends: !gives("length"),
            cut: headers_follow && !gives("frag") && !gives("offset"),
        };
        for part in header.parts() {
            self.test(packet, at, &part, &mut step)?;
        }
        Ok(step)
    }

    /// Adds the tests of a part.
    fn test(&mut self, packet: &Packet, at: usize, part: &Part<'_>, step: &mut Step) -> Result<(), Wrong> {
        let kind = step.kind;
        let bytes_at = if kind == HeaderKind::Raw {
            0
        } else {
            walk::options_at(kind)
        };
        let look = match (part.place, part.field) {
            (PartPlace::Bits { bit, width }, _) => Look::Bits(bit, width),
            (PartPlace::Bytes { offset, len }, _) => Look::Bits(offset * 8, len as u32 * 8),
            (PartPlace::Named(_), "cksum") => Look::Gre(0x80, 16),
            (PartPlace::Named(_), "key") => Look::Gre(0x20, 32),
            (PartPlace::Named(_), "seq") => Look::Gre(0x10, 32),
            (PartPlace::Named(_), "qfi") => Look::Qfi,
            (PartPlace::Named(_), "wscale") => Look::Tcp(3, 8),
            (PartPlace::Named(_), _) => Look::Tcp(2, 16),
        };
        match part.values {
            PartValues::Bytes(bytes) => {
                step.raw = bytes.len();
                let mut bytes: Vec<(u8, u8)> = bytes.iter().map(|byte| (*byte, 0xff)).collect();
                // Bytes with values of their own.
                for part in packet.headers[at].parts() {
                    if let PartPlace::Bytes { offset, len } = part.place {
                        bytes.iter_mut().skip(offset).take(len).for_each(|byte| *byte = (0, 0));
                    }
                }
                step.tests.push(Test::Bytes(bytes_at, bytes.into()));
            }
            PartValues::Segments(segments) => {
                // The first of the list is the last on the way.
                let bytes = segments.iter().rev().flat_map(|segment| segment.to_be_bytes());
                step.tests
                    .push(Test::Bytes(bytes_at, bytes.map(|byte| (byte, 0xff)).collect()));
                let last = segments.len().saturating_sub(1) as u128;
                step.tests
                    .push(Test::Number(Look::Bits(32, 8), Values::bits(last, u128::MAX)));
            }
            PartValues::Bare => step.tests.push(Test::Present(4)),
            PartValues::Network(first, bits) => {
                let values = Values::network(first, bits, look.width());
                step.tests.push(Test::Number(look, values));
            }
            // The word is there, and has a checksum that is worked out.
            PartValues::Numbers(Source::Constant(0)) if matches!(look, Look::Gre(0x80, _)) => {
                step.tests.push(Test::Number(look, Values::Range(0, u128::MAX)));
            }
            PartValues::Numbers(Source::Same { of, plus }) => {
                let Some(of) = packet.field_named(at, of) else {
                    return Err(refused(part, &format!("{of}: want one field of that name")));
                };
                let (header, plus) = (at, *plus);
                self.same.push(Same { header, look, of, plus });
            }
            PartValues::Numbers(Source::Constant(value)) => {
                let mask = own_bits(&packet.headers[at], part, look);
                step.tests.push(Test::Number(look, Values::bits(*value, mask)));
            }
            PartValues::Numbers(source) => {
                let Some(values) = Values::of(source) else {
                    let line = "it is worked out where packets are made: want a value to look for";
                    return Err(refused(part, line));
                };
                step.tests.push(Test::Number(look, values));
            }
        }
        Ok(())
    }

    /// Returns whether a frame, from its Ethernet header on, is one of the text's.
    pub fn matches(&self, frame: &[u8]) -> bool {
        self.find(frame).is_some()
    }

    fn find(&self, mut frame: &[u8]) -> Option<()> {
        let mut places = [0; MOST_HEADERS];
        let mut at = 0;
        for (step, place) in self.steps.iter().zip(&mut places) {
            *place = at;
            let header = frame.get(at..)?;
            let len = walk::len(step.kind, header, step.raw)?;
            if let Some((version, bit, width)) = step.version
                && bits::get(header, bit, width) != version
            {
                return None;
            }
            if step.ends
                && let Some(end) = walk::packet_len(step.kind, header, len)
            {
                frame = frame.get(..at + end).unwrap_or(frame);
            }
            let header = frame.get(at..)?;
            if !step.tests.iter().all(|test| test.holds(header, len)) {
                return None;
            }
            let first = !step.cut || walk::is_first(step.kind, header);
            (first && step.next.holds(header, len)).then_some(())?;
            at += len;
        }
        let same = |same: &Same| {
            let value = same.look.number(frame.get(places[same.header]..)?)?;
            let (header, bit, width) = same.of;
            let other = Look::Bits(bit, width).number(frame.get(places[header]..)?)?;
            (Some(value) == other.checked_add_signed(same.plus)).then_some(())
        };
        self.same.iter().try_for_each(same)
    }
}

/// Returns the bits of a constant that have no values of their own, as those of a mask have.
fn own_bits(header: &Header, part: &Part<'_>, look: Look) -> u128 {
    let mut mask = u128::MAX;
    let Look::Bits(bit, width) = look else { return mask };
    let end = bit + width as usize;
    for other in header.parts().filter(|other| other.field == part.field) {
        if let PartPlace::Bits { bit: from, width: few } = other.place
            && few < width
            && from >= bit
            && let Some(below) = end.checked_sub(from + few as usize)
        {
            mask &= !(((1 << few) - 1) << below);
        }
    }
    mask
}

fn refused(part: &Part<'_>, line: &str) -> Wrong {
    Wrong {
        at: part.at.clone(),
        line: format!("{}: {line}", part.field),
    }
}

/// Returns how a header shows that the next one follows it.
fn next(header: &Header, next: Option<&Header>, gives: &impl Fn(&str) -> bool) -> Result<Next, Wrong> {
    let Some(next) = next.filter(|next| next.kind != HeaderKind::Payload) else {
        return Ok(Next::Anything);
    };
    // A number that is written is compared as any field is.
    if header.kind.next_field().is_some_and(gives) {
        return Ok(Next::Anything);
    }
    Ok(match (header.kind.carries(next.kind), header.kind) {
        (Carries::Not, _) => {
            let (name, next_name) = (header.kind.name(), next.kind.name());
            let number = match header.kind.next_field() {
                Some(field) => format!(": want {field}=NUMBER in {name}"),
                None => String::new(),
            };
            return Err(Wrong {
                at: next.at(),
                line: format!("{next_name} behind {name}: {name} does not carry it{number}"),
            });
        }
        (Carries::Number(_, bit, width, number), _) => Next::Number(bit, width, number),
        (Carries::Length(_, bit, width), _) => Next::Length(bit, width),
        (Carries::Port(port), _) if !gives("dst") => Next::Number(16, 16, port),
        (_, HeaderKind::Gtpu) if !gives("msg_type") => Next::Number(8, 8, 255),
        (_, HeaderKind::Icmp) if next.kind == HeaderKind::Ipv4 && !gives("type") => Next::First(&[3, 4, 5, 11, 12]),
        (_, HeaderKind::Icmp6) if next.kind == HeaderKind::Ipv6 && !gives("type") => Next::First(&[1, 2, 3, 4]),
        (_, HeaderKind::Mpls) if !gives("s") => match next.kind {
            HeaderKind::Mpls => Next::Label(false, None),
            HeaderKind::Eth => Next::Label(true, Some(false)),
            HeaderKind::Ipv4 | HeaderKind::Ipv6 => Next::Label(true, Some(true)),
            _ => Next::Anything,
        },
        _ => Next::Anything,
    })
}

impl Next {
    /// Returns whether the next header follows this one of `len` bytes.
    fn holds(&self, header: &[u8], len: usize) -> bool {
        match *self {
            Self::Anything => true,
            Self::Number(bit, width, number) => bits::get(header, bit, width) == number.into(),
            Self::Length(bit, width) => bits::get(header, bit, width) <= 1500,
            Self::First(numbers) => header.first().is_some_and(|first| numbers.contains(first)),
            Self::Label(last, ip) => {
                let is_last = header.get(2).is_some_and(|byte| byte & 1 == 1);
                // What follows a label has no type: IP shows its version (RFC 4928).
                let is_ip = || header.get(len).is_some_and(|byte| matches!(byte >> 4, 4 | 6));
                is_last == last && ip.is_none_or(|ip| ip == is_ip())
            }
        }
    }
}

impl Test {
    /// Returns whether a header has what is wanted. What is behind it may be padding or another header.
    fn holds(&self, header: &[u8], len: usize) -> bool {
        match self {
            Self::Number(look, values) => look.number(header).is_some_and(|number| values.has(number)),
            Self::Bytes(at, bytes) => {
                let there = header.get(..len).and_then(|header| header.get(*at..));
                let same = |((byte, mask), there): (&(u8, u8), &u8)| (byte ^ there) & mask == 0;
                there.is_some_and(|there| there.len() >= bytes.len() && bytes.iter().zip(there).all(same))
            }
            Self::Present(kind) => walk::tcp_option(header, *kind).is_some(),
        }
    }
}

impl Look {
    fn width(self) -> u32 {
        match self {
            Self::Bits(_, width) | Self::Gre(_, width) | Self::Tcp(_, width) => width,
            Self::Qfi => 6,
        }
    }

    /// Returns the number; `None` if it is not there.
    fn number(self, header: &[u8]) -> Option<u128> {
        let (bytes, bit, width) = match self {
            Self::Bits(bit, width) => (header, bit, width),
            Self::Gre(flag, width) => {
                let flags = header.first()? & 0xb0;
                (flags & flag != 0).then_some(())?;
                let before = (flags & !(flag | (flag - 1))).count_ones() as usize;
                (header, (4 + 4 * before) * 8, width)
            }
            Self::Qfi => (walk::pdu_session(header)?, 2, self.width()),
            Self::Tcp(kind, width) => (walk::tcp_option(header, kind)?, 0, width),
        };
        (bit + width as usize <= bytes.len() * 8).then(|| bits::get(bytes, bit, width))
    }
}
