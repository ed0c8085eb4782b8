//! Headers in their places: the constants that they have, the fields that vary, lengths, checksums and flows.

use super::{
    Check, EXPERIMENT, EXPERIMENTAL, HASHED, Laid, Length, MOST_802_3, Of, Pseudo, Shown, Vary, get_bits, set_bits,
};
use crate::grammar::{Given, Header, Packet, Place, Value};
use crate::headers::{Cover, Field, HeaderKind, Kind, Role, Space};
use crate::parts::{Carries, bits};
use crate::stream::{Step, Stream};
use crate::text::{Read, Wrong};
use crate::value::{Source, ones};
use mpps_wire::{TAG_FLOWS, random};
use std::ops::Range;

/// Headers in their places, while the form is worked out.
pub(super) struct Layout {
    pub(super) image: Vec<u8>,
    pub(super) headers: Vec<Laid>,
    pub(super) varies: Vec<Vary>,
    pub(super) lengths: Vec<Length>,
    pub(super) checks: Vec<Check>,
    seed: u64,
}

impl Layout {
    /// Lays the headers out, with the constants that were given.
    pub(super) fn of(packet: &Packet, seed: u64) -> Read<Self> {
        let mut layout = Self {
            image: Vec::new(),
            headers: Vec::new(),
            varies: Vec::new(),
            lengths: Vec::new(),
            checks: Vec::new(),
            seed,
        };
        for (at, header) in packet.headers.iter().enumerate() {
            layout.lay(packet, at, header)?;
        }
        Ok(layout)
    }

    /// Appends a header.
    fn lay(&mut self, packet: &Packet, at: usize, header: &Header) -> Read<()> {
        let start = self.image.len();
        self.image.extend_from_slice(header.kind.info().bytes);
        let optional = self.optional(header, start);
        self.append_options(header)?;
        let end = self.image.len();
        let mut taken: Vec<(Range<usize>, bool, &Given)> = Vec::new();
        for given in &header.given {
            let bits_of = |field: &Field| match given.place {
                Place::Field(other, _) => other.name == field.name,
                Place::Bytes(..) => false,
            };
            let (bit, width, masked) = match given.place {
                Place::Field(field, _) if field.role == Role::Option => continue,
                Place::Field(field, mask) => {
                    let bit = match field.role {
                        Role::Optional => match optional.iter().find(|(name, _)| *name == field.name) {
                            Some((_, bit)) => *bit,
                            None => continue,
                        },
                        _ => start * 8 + field.bit,
                    };
                    let (first, width) = bits(field, mask);
                    (bit + first - field.bit, width, mask.is_some())
                }
                Place::Bytes(offset, len) if header.kind == HeaderKind::Payload => (offset * 8, len as u32 * 8, false),
                Place::Bytes(offset, len) => {
                    if start + offset + len > end {
                        let line = format!("@{offset}:{len}: the raw header has {} bytes", end - start);
                        return Err(Wrong::new(given.at.clone(), line));
                    }
                    ((start + offset) * 8, len as u32 * 8, false)
                }
            };
            let bits = bit..bit + width as usize;
            // A constant may stand beside values of some of its bits.
            let constant = |given: &Given| matches!(given.value, Value::Numbers(Source::Constant(_)));
            let beside = |other: &Given, of_mask: bool| match (other.place, of_mask, masked) {
                (Place::Field(field, _), false, true) => bits_of(field) && constant(other),
                (Place::Field(field, _), true, false) => bits_of(field) && constant(given),
                _ => false,
            };
            let meets = |(other, of_mask, of): &&(Range<usize>, bool, &Given)| {
                other.start < bits.end && bits.start < other.end && !beside(of, *of_mask)
            };
            if let Some((_, _, other)) = taken.iter().find(meets) {
                let line = format!(
                    "{} {}: its bits are those of {}",
                    header.kind.name(),
                    given.name(),
                    other.name()
                );
                return Err(Wrong::new(given.at.clone(), line));
            }
            taken.push((bits, masked, given));
            self.put(packet, at, given, (bit, width))?;
        }
        let shown = |(bits, masked, given): &(Range<usize>, bool, &Given)| {
            let kind = match given.place {
                Place::Field(field, _) => field.kind,
                Place::Bytes(..) => Kind::Decimal,
            };
            (!masked).then(|| Shown::Bits(given.name(), bits.start, bits.len() as u32, kind))
        };
        let text = |given: &&Given| matches!(given.place, Place::Field(field, _) if field.role == Role::Option);
        let texts = header
            .given
            .iter()
            .filter(text)
            .map(|given| Shown::Text(given.said.clone()));
        self.headers.push(Laid {
            kind: header.kind,
            bytes: start..end,
            given: texts.chain(taken.iter().filter_map(shown)).collect(),
        });
        self.after(header, start, end);
        Ok(())
    }

    /// Writes a constant, or notes what varies.
    fn put(&mut self, packet: &Packet, at: usize, given: &Given, (bit, width): (usize, u32)) -> Read<()> {
        let header = &packet.headers[at];
        let in_payload = header.kind == HeaderKind::Payload;
        match &given.value {
            Value::Numbers(Source::Constant(value)) if !in_payload => {
                set_bits(&mut self.image, bit, width, *value);
            }
            Value::Numbers(Source::Bad) => {}
            Value::Numbers(source) => {
                let kinds: Vec<_> = packet.headers.iter().map(|header| header.kind).collect();
                let name = format!("{}.{}", named(&kinds, at), given.name());
                let name = if matches!(given.place, Place::Bytes(..)) {
                    name.replace(".@", "@")
                } else {
                    name
                };
                if in_payload && matches!(source, Source::Same { .. } | Source::InnerHash) {
                    let line = format!("{name}: want numbers of its own");
                    return Err(Wrong::new(given.at.clone(), line));
                }
                self.varies.push(Vary {
                    seed: random(self.seed, self.varies.len() as u64),
                    name,
                    source: source.clone(),
                    bit,
                    width,
                    in_payload,
                    header: at,
                    of: None,
                    hashed: matches!(given.place, Place::Field(field, _) if HASHED.contains(&field.name)),
                    at: given.at.clone(),
                    every: 1,
                });
            }
            Value::Bytes(_) | Value::Segments(_) | Value::Bare => {}
        }
        Ok(())
    }

    /// Appends the words of GRE and GTP-U that are there only if they are written; the first bit of each.
    fn optional(&mut self, header: &Header, start: usize) -> Vec<(&'static str, usize)> {
        let has = |name: &str| header.given.iter().any(|given| given.is(name));
        let mut places = Vec::new();
        match header.kind {
            HeaderKind::Gre => {
                for (name, flag) in [("cksum", 0x80), ("key", 0x20), ("seq", 0x10)] {
                    if has(name) {
                        self.image[start] |= flag;
                        places.push((name, self.image.len() * 8));
                        self.image.extend_from_slice(&[0; 4]);
                    }
                }
            }
            HeaderKind::Gtpu if has("qfi") => {
                // Sequence number, N-PDU number and next extension; a container of 4 bytes (3GPP TS 38.415).
                self.image[start] |= 4;
                self.image.extend_from_slice(&[0, 0, 0, 0x85, 1, 0, 0, 0]);
                places.push(("qfi", (self.image.len() - 2) * 8 + 2));
            }
            _ => {}
        }
        places
    }

    /// Appends options, and what makes them a whole number of words.
    fn append_options(&mut self, header: &Header) -> Read<()> {
        let start = self.image.len();
        let mut tcp = Vec::new();
        for given in &header.given {
            let Place::Field(field, _) = given.place else { continue };
            match (field.name, &given.value) {
                (_, Value::Bytes(bytes)) => self.image.extend_from_slice(bytes),
                (_, Value::Segments(segments)) => {
                    // The first of the list is the last on the way.
                    for segment in segments.iter().rev() {
                        self.image.extend_from_slice(&segment.to_be_bytes());
                    }
                    let last = (segments.len() - 1) as u8;
                    self.image[start - 5] = last;
                    self.image[start - 4] = last;
                }
                ("mss", Value::Numbers(Source::Constant(mss))) => {
                    tcp.extend_from_slice(&[2, 4]);
                    tcp.extend_from_slice(&(*mss as u16).to_be_bytes());
                }
                ("wscale", Value::Numbers(Source::Constant(shift))) => tcp.extend_from_slice(&[3, 3, *shift as u8]),
                ("sackok", Value::Bare) => tcp.extend_from_slice(&[4, 2]),
                _ => {}
            }
        }
        self.image.extend_from_slice(&tcp);
        let added = self.image.len() - start;
        let (unit, most) = match header.kind {
            HeaderKind::Ipv4 | HeaderKind::Tcp => (4, 40),
            HeaderKind::Geneve => (4, 128),
            HeaderKind::HopOpts | HeaderKind::DstOpts => {
                pad_options(&mut self.image, start);
                (1, 128)
            }
            _ => return Ok(()),
        };
        if added > most {
            let line = format!("{}: {added} bytes of options: want {most} at most", header.kind.name());
            return Err(Wrong::new(header.at.clone(), line));
        }
        if header.kind == HeaderKind::Geneve && !added.is_multiple_of(4) {
            let line = format!("geneve: {added} bytes of options: want a multiple of 4");
            return Err(Wrong::new(header.at.clone(), line));
        }
        while !(self.image.len() - start).is_multiple_of(unit) {
            // "No operation" of TCP, "end of options" of IPv4.
            self.image.push(u8::from(header.kind == HeaderKind::Tcp));
        }
        Ok(())
    }

    /// Notes lengths and own lengths of a header.
    fn after(&mut self, header: &Header, start: usize, end: usize) {
        let given = |field: &Field| header.given.iter().any(|given| given.is(field.name));
        for field in header.kind.info().fields.iter().filter(|field| !given(field)) {
            match field.role {
                Role::Length { from } => self.lengths.push(Length {
                    at: start + field.bit / 8,
                    from: start + from,
                    most: usize::from(u16::MAX),
                }),
                Role::Own { unit, less } => {
                    let words = (end - start) / unit - less;
                    set_bits(&mut self.image, start * 8 + field.bit, field.width, words as u128);
                }
                _ => {}
            }
        }
    }

    /// Checks that each header may follow the one before, and writes the numbers of the next ones.
    pub(super) fn number_next(&mut self, packet: &Packet) -> Read<()> {
        let headers = &packet.headers;
        let payload = headers.iter().position(|header| header.kind == HeaderKind::Payload);
        if let Some(behind) = payload.and_then(|at| headers.get(at + 1)) {
            return Err(Wrong::new(behind.at.clone(), "want payload as the last header"));
        }
        for (at, header) in headers.iter().enumerate() {
            let next = headers.get(at + 1).map(|next| next.kind);
            let start = self.headers[at].bytes.start;
            let given = |name: &str| header.given.iter().any(|given| given.is(name));
            let name = header.kind.name();
            self.presume(packet, at)?;
            let whole = |line: String| {
                let at = headers.get(at + 1).map_or(header.at.clone(), |next| next.at.clone());
                Err(Wrong::new(at, line))
            };
            if let Some(next) = next {
                let after = next.info().after;
                if !after.is_empty() && !after.contains(&header.kind) && header.kind != HeaderKind::Raw {
                    let names: Vec<_> = after.iter().map(|kind| kind.name()).collect();
                    // The same protocol over the other family.
                    let other = match (next, header.kind) {
                        (HeaderKind::Icmp, HeaderKind::Ipv6) => ", or icmp6",
                        (HeaderKind::Icmp6, HeaderKind::Ipv4) => ", or icmp",
                        _ => "",
                    };
                    return whole(format!(
                        "{} behind {name}: want it behind {}{other}",
                        next.name(),
                        names.join(" or ")
                    ));
                }
            }
            let opaque = matches!(next, None | Some(HeaderKind::Payload));
            match header.kind.next() {
                Some((field, space)) => {
                    if given(field.name) {
                        continue;
                    }
                    if next == Some(HeaderKind::Llc) {
                        self.lengths.push(Length {
                            at: start + field.bit / 8,
                            from: start + (field.bit + field.width as usize) / 8,
                            most: MOST_802_3,
                        });
                        continue;
                    }
                    let number = match next {
                        _ if opaque => match space {
                            Space::Ether => Some(EXPERIMENTAL),
                            Space::Ip => Some(EXPERIMENT),
                            Space::Ppp => None,
                        },
                        Some(next) => next.number(space),
                        None => None,
                    };
                    let Some(number) = number else {
                        let next = next.map_or("a payload", HeaderKind::name);
                        return whole(format!(
                            "{name} has no number for {next}: want {}=NUMBER in {name}",
                            field.name
                        ));
                    };
                    set_bits(&mut self.image, start * 8 + field.bit, field.width, number.into());
                }
                None => {
                    let carries = next.map_or(Carries::Anything, |next| header.kind.carries(next));
                    if let Carries::Port(port) = carries
                        && !given("dst")
                    {
                        set_bits(&mut self.image, start * 8 + 16, 16, port.into());
                    }
                    if carries == Carries::Not {
                        let next = next.map_or("", HeaderKind::name);
                        return whole(format!("{next} behind {name}: {name} does not carry it"));
                    }
                    let last = header.kind.info().fields.iter().find(|field| field.role == Role::Last);
                    if let Some(field) = last.filter(|field| !given(field.name)) {
                        let bottom = next != Some(header.kind);
                        set_bits(&mut self.image, start * 8 + field.bit, 1, bottom.into());
                    }
                }
            }
        }
        match headers.first().map(|header| header.kind) {
            Some(HeaderKind::Eth) => {}
            _ => return Err(Wrong::new(headers[0].at.clone(), "want eth as the first header")),
        }
        Ok(())
    }

    /// Gives fields that were not written the values that the headers around them ask for.
    fn presume(&mut self, packet: &Packet, at: usize) -> Read<()> {
        let (headers, header) = (&packet.headers, &packet.headers[at]);
        let given = |name: &str| header.given.iter().any(|given| given.is(name));
        let start = self.headers[at].bytes.start;
        let next = headers.get(at + 1).map(|next| next.kind);
        match header.kind {
            HeaderKind::Srh if !given("segs") => {
                let line = "srh: want segs={ADDRESS,…}, the next segment first";
                return Err(Wrong::new(header.at.clone(), line));
            }
            // The packet is on its way to the next segment.
            HeaderKind::Srh => {
                let ipv6 = (0..at).rev().find(|at| headers[*at].kind == HeaderKind::Ipv6);
                if let Some(ipv6) = ipv6.filter(|ipv6| !headers[*ipv6].given.iter().any(|given| given.is("dst"))) {
                    let end = self.headers[at].bytes.end;
                    let to = self.headers[ipv6].bytes.start + 24;
                    self.image.copy_within(end - 16..end, to);
                }
            }
            HeaderKind::Ipv4 => {
                // Fragments may be fragmented.
                if (given("mf") || given("frag")) && !given("df") {
                    set_bits(&mut self.image, start * 8 + 49, 1, 0);
                }
                if next == Some(HeaderKind::Igmp) && !given("ttl") {
                    self.image[start + 8] = 1;
                }
            }
            _ => {}
        }
        self.map_multicast(packet, at);
        Ok(())
    }

    /// Writes the MAC address of a multicast group into the Ethernet header that carries it (RFC 1112, RFC 2464).
    fn map_multicast(&mut self, packet: &Packet, at: usize) {
        let eth = (0..at).rev().find(|at| packet.headers[*at].kind == HeaderKind::Eth);
        let free = |at: &usize| !packet.headers[*at].given.iter().any(|given| given.is("dst"));
        let Some(eth) = eth.filter(free) else { return };
        let start = self.headers[at].bytes.start;
        let ip = &self.image[start..];
        let mac = match packet.headers[at].kind {
            HeaderKind::Ipv4 if ip[16] >> 4 == 14 => [1, 0, 0x5e, ip[17] & 0x7f, ip[18], ip[19]],
            HeaderKind::Ipv6 if ip[24] == 0xff => [0x33, 0x33, ip[36], ip[37], ip[38], ip[39]],
            _ => return,
        };
        let constant = |given: &Given| !given.is("dst") || matches!(given.value, Value::Numbers(Source::Constant(_)));
        if packet.headers[at].given.iter().all(constant) {
            let to = self.headers[eth].bytes.start;
            self.image[to..to + 6].copy_from_slice(&mac);
        }
    }

    /// Notes the checksums, innermost first.
    pub(super) fn sum_up(&mut self, packet: &Packet) -> Read<()> {
        for (at, header) in packet.headers.iter().enumerate().rev() {
            let Range { start, end } = self.headers[at].bytes;
            for field in header.kind.info().fields {
                let written = header.given.iter().find(|given| given.is(field.name));
                let wrong = written.is_some_and(|given| given.value == Value::Numbers(Source::Bad));
                let gre = header.kind == HeaderKind::Gre && field.name == "cksum";
                let cover = match field.role {
                    Role::Sum(cover) => cover,
                    Role::Optional if gre && wrong_or_zero(written) => Cover::Rest,
                    _ => continue,
                };
                if written.is_some() && !wrong && !gre {
                    continue;
                }
                let pseudo = match cover {
                    Cover::Pseudo { .. } => Some(self.pseudo(packet, at)?),
                    _ => None,
                };
                let field_at = if gre { start + 4 } else { start + field.bit / 8 };
                self.checks.push(Check {
                    at: field_at,
                    covers: start..end,
                    rest: cover != Cover::Header,
                    pseudo,
                    kind: cover,
                    wrong,
                });
            }
        }
        Ok(())
    }

    /// Returns the pseudo-header of the IP header that a header is in.
    fn pseudo(&self, packet: &Packet, at: usize) -> Read<Pseudo> {
        let header = &packet.headers[at];
        let proto = header.kind.info().ip.unwrap_or_default();
        let mut dst = None;
        for laid in self.headers[..at].iter().rev() {
            let start = laid.bytes.start;
            match laid.kind {
                HeaderKind::Ipv4 => {
                    let of = |from: usize| start + from..start + from + 4;
                    return Ok(Pseudo {
                        src: of(12),
                        dst: of(16),
                        proto,
                    });
                }
                HeaderKind::Ipv6 => {
                    let of = |from: usize| start + from..start + from + 16;
                    return Ok(Pseudo {
                        src: of(8),
                        dst: dst.unwrap_or(of(24)),
                        proto,
                    });
                }
                // While segments are left, the sum is for the last one (RFC 8200, section 8.1).
                HeaderKind::Srh if self.image[start + 3] > 0 && laid.bytes.len() >= 24 => {
                    dst = Some(start + 8..start + 24);
                }
                HeaderKind::Srh | HeaderKind::HopOpts | HeaderKind::DstOpts | HeaderKind::Frag | HeaderKind::Raw => {}
                _ => break,
            }
        }
        let name = header.kind.name();
        let line = format!("{name}: its checksum needs ipv4 or ipv6 before it: want that, or cksum=NUMBER");
        Err(Wrong::new(header.at.clone(), line))
    }

    /// Finds the fields whose values others take.
    pub(super) fn follow(&mut self, packet: &Packet) -> Read<()> {
        for at in 0..self.varies.len() {
            let Source::Same { of, .. } = &self.varies[at].source else {
                continue;
            };
            let vary = &self.varies[at];
            let place = vary.at.clone();
            let wrong = |line: String| Err(Wrong::new(place.clone(), line));
            let (header, field) = match of.rsplit_once('.') {
                Some((header, field)) => (packet.header_named(header), field),
                None => (Some(vary.header), of.as_str()),
            };
            let Some(header) = header else {
                return wrong(format!(
                    "{}={of}: want one header of that name, or NAME[N] of several",
                    vary.name
                ));
            };
            let known = packet.headers[header]
                .kind
                .info()
                .fields
                .iter()
                .find(|known| known.name == field);
            let Some(known) = known.filter(|known| !matches!(known.role, Role::Option | Role::Optional)) else {
                return wrong(format!(
                    "{}={of}: {} has no such field",
                    vary.name,
                    packet.headers[header].kind.name()
                ));
            };
            if matches!(known.role, Role::Length { .. } | Role::Sum(_)) {
                return wrong(format!(
                    "{}={of}: it is worked out last: want a field with a value",
                    vary.name
                ));
            }
            let bit = self.headers[header].bytes.start * 8 + known.bit;
            let meets = |other: &Vary| {
                let end = other.bit + other.width as usize;
                !other.in_payload && other.bit < bit + known.width as usize && bit < end
            };
            let other = self.varies.iter().position(meets);
            let (found, bounds) = match other {
                Some(other) => {
                    let source = &self.varies[other];
                    let whole = source.bit == bit && source.width == known.width;
                    let Some(bounds) = source
                        .source
                        .bounds()
                        .filter(|_| whole && source.source != Source::InnerHash)
                    else {
                        let line = format!("{}={of}: want a field with values of its own, as a whole", vary.name);
                        return wrong(line);
                    };
                    (Of::Vary(other), bounds)
                }
                None => {
                    let value = get_bits(&self.image, bit, known.width);
                    (Of::Constant(value), (value, value))
                }
            };
            let Source::Same { plus, .. } = vary.source else {
                continue;
            };
            let inside = |value: u128| {
                value
                    .checked_add_signed(plus)
                    .is_some_and(|sum| sum <= ones(vary.width))
            };
            if !inside(bounds.0) || !inside(bounds.1) {
                return wrong(format!(
                    "{}={}: it leaves the field of {} bits",
                    vary.name, vary.source, vary.width
                ));
            }
            self.varies[at].of = Some(found);
        }
        Ok(())
    }

    /// Returns the number of flows, and has each field stay for as many flows as it is to.
    pub(super) fn flows(&mut self, stream: &Stream) -> Read<u32> {
        let periodic = |vary: &Vary| !vary.in_payload && vary.source.period().is_some_and(|period| period > 1);
        let mut flows: u128 = 1;
        for vary in self.varies.iter_mut().rev().filter(|vary| periodic(vary)) {
            let period = u128::from(vary.source.period().unwrap_or(1));
            match stream.step {
                Step::Together => flows = least_common_multiple(flows, period),
                Step::Combine => {
                    vary.every = u64::try_from(flows).unwrap_or(u64::MAX);
                    flows = flows.saturating_mul(period);
                }
            }
            // More are refused below, unless only the first are wanted.
            flows = flows.min(u128::from(u64::MAX));
        }
        let most = u128::from(TAG_FLOWS);
        let wanted = stream.flows.map_or(flows, u128::from);
        if wanted > flows || wanted > most {
            let line = match stream.flows {
                Some(wanted) if u128::from(wanted) > flows => {
                    format!("flows = {wanted}: the fields that vary make {flows}")
                }
                Some(wanted) => format!("flows = {wanted}: want {most} at most"),
                None => format!("{flows} flows: want {most} at most, or flows = N for the first N"),
            };
            return Err(Wrong::new(0..stream.packet.text.len(), line));
        }
        Ok(wanted as u32)
    }
}

/// Returns whether a checksum is to be worked out though it is written: `bad`, or 0.
fn wrong_or_zero(written: Option<&Given>) -> bool {
    written.is_some_and(|given| matches!(given.value, Value::Numbers(Source::Bad | Source::Constant(0))))
}

fn least_common_multiple(a: u128, b: u128) -> u128 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}

/// Pads the options of IPv6 that begin at `start`, behind two bytes, to a multiple of 8 bytes (RFC 8200, section 4.2).
fn pad_options(image: &mut Vec<u8>, start: usize) {
    match (8 - (image.len() - start + 2) % 8) % 8 {
        0 => {}
        1 => image.push(0),
        n => {
            image.extend_from_slice(&[1, (n - 2) as u8]);
            image.resize(image.len() + n - 2, 0);
        }
    }
}

/// Returns the name of header `at` among those of a packet, with its number if there are several of its kind.
pub(super) fn named(kinds: &[HeaderKind], at: usize) -> String {
    let kind = kinds[at];
    let of_kind = |kinds: &[HeaderKind]| kinds.iter().filter(|other| **other == kind).count();
    match of_kind(kinds) {
        0 | 1 => kind.name().to_owned(),
        _ => format!("{}[{}]", kind.name(), of_kind(&kinds[..=at])),
    }
}
