//! Form of a stream's packets: the bytes that all have, and what is written into them for each.

use crate::grammar::{Given, Header, Packet, Place, Value};
use crate::headers::{Cover, Field, HeaderKind, Kind, Role, Space};
use crate::oracle;
use crate::size::{SMALLEST, Size};
use crate::stream::{Fill, Step, Stream, Tag};
use crate::text::{Read, Span, Wrong};
use crate::value::{MOST_FIELDS, Source, ones};
use mpps_wire::image::{self, Image, ImageSpec};
use mpps_wire::{Mark, TAG_FLOWS, TAG_LEN, Tag as TagBytes, fill_back, random};
use std::ops::Range;

/// Bytes of the frame check sequence.
const FCS: usize = 4;
/// Most bytes of headers.
const MOST_BYTES: usize = 256;
/// Most checksums of a packet.
const MOST_SUMS: usize = 4;
/// Fields that make an inner flow.
const HASHED: [&str; 8] = ["src", "dst", "vid", "vni", "teid", "label", "flow", "proto"];
/// Most bytes behind an EtherType field that holds a length (IEEE 802.3).
const MOST_802_3: usize = 1500;
/// EtherType of packets without a protocol (IEEE 802, local experimental).
const EXPERIMENTAL: u16 = 0x88b5;
/// Protocol of IP packets without one (RFC 3692).
const EXPERIMENT: u16 = 253;

/// Field, or bytes, that vary from packet to packet.
#[derive(Clone, Debug)]
pub struct Vary {
    /// Name: `ipv4.dst`, `ipv4[2].dst`, `payload@4:2`.
    pub name: String,
    /// Values.
    pub source: Source,
    /// First bit, from the start of the frame or, in the payload, from the start of the payload.
    bit: usize,
    width: u32,
    in_payload: bool,
    /// Header that it is in.
    header: usize,
    /// Field whose value it takes.
    of: Option<Of>,
    /// Part of what a hash of the inner flow is made of.
    hashed: bool,
    /// Place in the packet's text.
    at: Span,
    /// Flows for which a value stays.
    every: u64,
    seed: u64,
}

/// Value of another field.
#[derive(Clone, Copy, Debug)]
enum Of {
    Vary(usize),
    Constant(u128),
}

#[derive(Clone, Debug)]
struct Length {
    /// Byte of the field.
    at: usize,
    /// Byte from which is counted.
    from: usize,
    /// Largest length.
    most: usize,
}

#[derive(Clone, Debug)]
struct Check {
    /// Byte of the field.
    at: usize,
    /// Bytes of headers that it covers.
    covers: Range<usize>,
    /// Covers all that follows, too.
    rest: bool,
    pseudo: Option<Pseudo>,
    kind: Cover,
    wrong: bool,
}

/// Pseudo-header of IP.
#[derive(Clone, Debug)]
struct Pseudo {
    src: Range<usize>,
    dst: Range<usize>,
    proto: u8,
}

/// Header in the frame.
#[derive(Clone, Debug)]
pub(crate) struct Laid {
    pub(crate) kind: HeaderKind,
    /// Its bytes.
    pub(crate) bytes: Range<usize>,
    /// Parts that were written.
    pub(crate) given: Vec<Shown>,
}

/// Part of a header that was written.
#[derive(Clone, Debug)]
pub(crate) enum Shown {
    /// Text, which is the same in each packet.
    Text(String),
    /// Name, first bit in the frame (or in the payload), bits and kind of a number.
    Bits(String, usize, u32, Kind),
}

/// Form of a stream's packets.
#[derive(Clone, Debug)]
pub struct Form {
    image: Vec<u8>,
    headers: Vec<Laid>,
    varies: Vec<Vary>,
    lengths: Vec<Length>,
    /// Innermost first.
    checks: Vec<Check>,
    size: Size,
    fill: Fill,
    tag: Tag,
    flows: u32,
    /// Number of the first flow among those of all streams.
    first_flow: u32,
    /// Seed of tags and data.
    seed: u64,
    /// Seed of the stream's random values.
    own: u64,
    tags: u64,
}

/// When and of which run a packet is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Run.
    pub run: u8,
    /// Send time, ns.
    pub time_ns: u64,
}

impl Form {
    /// Works out the form of a stream's packets. Tags and data are keyed by `seed`, from which random values come, too.
    /// The stream's flows have the numbers from `first_flow` on.
    ///
    /// # Errors
    /// Names the fault of the packet, at its place in the packet's text.
    pub fn of(stream: &Stream, seed: u64, first_flow: u32) -> Result<Self, Wrong> {
        let own = stream.name.bytes().fold(seed, |seed, byte| random(seed, byte.into()));
        let mut layout = Layout::of(&stream.packet, own)?;
        layout.number_next(&stream.packet)?;
        layout.follow(&stream.packet)?;
        layout.sum_up(&stream.packet)?;
        let flows = layout.flows(stream)?;
        let end = stream.packet.text.len();
        let whole = || 0..end;
        if layout.image.len() > MOST_BYTES {
            let line = format!("{} bytes of headers: want {MOST_BYTES} at most", layout.image.len());
            return Err(Wrong::new(whole(), line));
        }
        if layout.varies.len() > MOST_FIELDS {
            let line = format!("{} fields vary: want {MOST_FIELDS} at most", layout.varies.len());
            return Err(Wrong::new(whole(), line));
        }
        if layout.checks.len() > MOST_SUMS {
            let line = format!("{} checksums: want {MOST_SUMS} at most", layout.checks.len());
            return Err(Wrong::new(whole(), line));
        }
        let tcp = stream
            .packet
            .headers
            .iter()
            .rfind(|header| header.kind != HeaderKind::Payload);
        let numbered =
            |header: &Header| header.kind == HeaderKind::Tcp && !header.given.iter().any(|given| given.is("seq"));
        if stream.tag == Tag::Tcp && !tcp.is_some_and(numbered) {
            return Err(Wrong::new(
                whole(),
                "tag \"tcp\": want tcp as the innermost header, without seq",
            ));
        }
        let outer = layout.headers.iter().skip(1);
        let tags = outer.take_while(|laid| matches!(laid.kind, HeaderKind::Vlan | HeaderKind::Qinq));
        let tags = tags.count() as u64 * 4;
        let form = Self {
            image: layout.image,
            headers: layout.headers,
            varies: layout.varies,
            lengths: layout.lengths,
            checks: layout.checks,
            size: Size::one(SMALLEST),
            fill: stream.fill.clone(),
            tag: stream.tag,
            flows,
            first_flow,
            seed,
            own,
            tags,
        };
        form.sized(stream)
    }

    /// Takes the stream's size, or the smallest that is enough.
    fn sized(mut self, stream: &Stream) -> Read<Self> {
        let least = self.least_size();
        let whole = || 0..stream.packet.text.len();
        self.size = match &stream.size {
            None => Size::one(least),
            Some(size) => size.clone(),
        };
        let (smallest, largest) = self.size.bounds(self.tags);
        if smallest < least {
            let tag = match self.tag {
                Tag::Tail => format!(" and the tag of {TAG_LEN}"),
                Tag::Tcp | Tag::None => String::new(),
            };
            let line = format!(
                "size {}: frames of {smallest} bytes have no room for {} bytes of headers{tag}: want sizes of {least} \
                 or more",
                self.size.text,
                self.image.len() + self.payload_least()
            );
            return Err(Wrong::new(whole(), line));
        }
        let most = self.lengths.iter().map(|length| length.from + length.most + FCS).min();
        if let Some(most) = most.filter(|most| largest > *most as u64) {
            let line = format!(
                "size {}: its length field goes to frames of {most} bytes",
                self.size.text
            );
            return Err(Wrong::new(whole(), line));
        }
        let sctp = self.checks.iter().any(|check| check.kind == Cover::Crc32c);
        let odd = |size: u64| !(size as usize - FCS - self.image.len()).is_multiple_of(4);
        let all = self.size.values().unwrap_or_else(|| vec![smallest, smallest + 1]);
        if let Some(size) = all
            .into_iter()
            .map(|size| size.max(smallest))
            .find(|size| sctp && odd(*size))
        {
            let line = format!(
                "size {}: sctp: data of a chunk is a multiple of 4 bytes: frames of {size} bytes have another",
                self.size.text
            );
            return Err(Wrong::new(whole(), line));
        }
        Ok(self)
    }

    /// Returns the bytes of payload that the varying bytes in it need.
    fn payload_least(&self) -> usize {
        let ends = self
            .varies
            .iter()
            .filter(|vary| vary.in_payload)
            .map(|vary| (vary.bit + vary.width as usize) / 8);
        ends.max().unwrap_or(0)
    }

    /// Returns the smallest frame with room for headers, payload and tag, bytes with FCS.
    pub fn least_size(&self) -> u64 {
        let tag = if self.tag == Tag::Tail { TAG_LEN } else { 0 };
        let sctp = self.checks.iter().any(|check| check.kind == Cover::Crc32c);
        let least = (self.payload_least() + tag).max(SMALLEST as usize - FCS - self.image.len().min(60));
        // Data of a chunk is a multiple of 4 bytes.
        let payload = if sctp { least.next_multiple_of(4) } else { least };
        (self.image.len() + payload + FCS) as u64
    }

    /// Returns the number of flows: combinations of the fields that come again.
    pub fn flows(&self) -> u32 {
        self.flows
    }

    /// Returns the sizes of the frames.
    pub fn size(&self) -> &Size {
        &self.size
    }

    /// Returns the mean size of the frames, bytes with FCS.
    pub fn mean_size(&self) -> f64 {
        self.size.mean(self.tags)
    }

    /// Returns the smallest and the largest frame, bytes with FCS.
    pub fn sizes(&self) -> (u64, u64) {
        self.size.bounds(self.tags)
    }

    /// Returns the fields that vary.
    pub fn varies(&self) -> &[Vary] {
        &self.varies
    }

    /// Returns the bytes of headers.
    pub fn header_len(&self) -> usize {
        self.image.len()
    }

    pub(crate) fn headers(&self) -> &[Laid] {
        &self.headers
    }

    /// Returns the flow of packet `n`, and its number in the flow.
    pub fn flow_of(&self, n: u64) -> (u32, u64) {
        let flows = u64::from(self.flows.max(1));
        ((n % flows) as u32, n / flows)
    }

    /// Returns packet `n`, without FCS.
    pub fn packet(&self, n: u64, moment: Moment) -> Vec<u8> {
        let (flow, number) = self.flow_of(n);
        let size = self.size.at(turn(flow, number), n, self.own, self.tags) as usize - FCS;
        let mut frame = vec![0; size.max(self.image.len())];
        frame[..self.image.len()].copy_from_slice(&self.image);
        let payload = self.image.len();
        self.fill_payload(&mut frame[payload..], n, flow, number, moment);
        self.write_fields(&mut frame, n, flow);
        for length in &self.lengths {
            let bytes = (frame.len() - length.from) as u16;
            frame[length.at..length.at + 2].copy_from_slice(&bytes.to_be_bytes());
        }
        if self.tag == Tag::Tcp {
            self.write_number(&mut frame, number);
        }
        for check in &self.checks {
            check.write(&mut frame, payload);
        }
        frame
    }

    /// Returns what writes the packets of one size, bytes with FCS, fast; `None` if bytes of the payload vary.
    pub fn image(&self, size: u64, run: u8) -> Option<Image> {
        let frame_len = usize::try_from(size).ok()?.checked_sub(FCS)?;
        if self.varies.iter().any(|vary| vary.in_payload) {
            return None;
        }
        let mut headers = self.image.clone();
        for vary in &self.varies {
            set_bits(&mut headers, vary.bit, vary.width, 0);
        }
        for length in &self.lengths {
            let bytes = frame_len.checked_sub(length.from)? as u16;
            headers[length.at..length.at + 2].copy_from_slice(&bytes.to_be_bytes());
        }
        for check in &self.checks {
            let width = if check.kind == Cover::Crc32c { 4 } else { 2 };
            headers[check.at..check.at + width].fill(0);
        }
        let mut fields = self.fields();
        if self.tag == Tag::Tcp
            && let Some(tcp) = self.headers.iter().rfind(|laid| laid.kind == HeaderKind::Tcp)
        {
            let bit = (tcp.bytes.start + 4) * 8;
            set_bits(&mut headers, bit, 32, 0);
            fields.push(image::Field {
                bit,
                width: 32,
                every: 1,
                values: image::Values::Number,
            });
        }
        Image::new(ImageSpec {
            headers,
            frame_len,
            fields,
            sums: self.checks.iter().map(Check::sum).collect(),
            data: match &self.fill {
                Fill::Data => image::Data::Verified,
                Fill::Pattern(pattern) => image::Data::Pattern(pattern.clone()),
            },
            tagged: self.tag == Tag::Tail,
            seed: self.seed,
            run,
            flows: self.flows,
            first_flow: self.first_flow,
        })
    }

    /// Returns the fields that vary, those that take values of others last.
    fn fields(&self) -> Vec<image::Field> {
        let own = |vary: &Vary| !matches!(vary.source, Source::Same { .. } | Source::InnerHash);
        let mut order: Vec<usize> = (0..self.varies.len()).filter(|at| own(&self.varies[*at])).collect();
        // A hash is made of values that are taken from others, too.
        order.extend((0..self.varies.len()).filter(|at| matches!(self.varies[*at].source, Source::Same { .. })));
        order.extend((0..self.varies.len()).filter(|at| self.varies[*at].source == Source::InnerHash));
        let place = |of: usize| order.iter().position(|at| *at == of).unwrap_or_default();
        let field = |at: &usize| {
            let vary = &self.varies[*at];
            let seed = vary.seed;
            let values = match (&vary.source, vary.of) {
                (Source::Constant(value), _) => image::Values::Table(vec![*value]),
                (Source::Counter { start, step, count }, _) => image::Values::Counter {
                    start: *start,
                    step: *step,
                    count: *count,
                },
                (Source::Table(values), _) => image::Values::Table(values.clone()),
                (Source::Random { low, high, period }, _) => image::Values::Random {
                    low: *low,
                    high: *high,
                    period: *period,
                    seed,
                },
                (Source::Shuffle { low, count }, _) => image::Values::Shuffle {
                    low: *low,
                    count: *count,
                    seed,
                },
                (Source::Same { plus, .. }, Some(Of::Vary(other))) => image::Values::Same {
                    field: place(other),
                    plus: *plus,
                },
                (Source::Same { plus, .. }, Some(Of::Constant(value))) => {
                    image::Values::Table(vec![value.wrapping_add_signed(*plus)])
                }
                (Source::InnerHash, _) => image::Values::Hash {
                    fields: (0..self.varies.len())
                        .filter(|other| self.varies[*other].header > vary.header && self.varies[*other].hashed)
                        .map(place)
                        .collect(),
                    seed: self.own,
                },
                (Source::Same { .. } | Source::Bad, _) => image::Values::Table(vec![0]),
            };
            image::Field {
                bit: vary.bit,
                width: vary.width,
                every: vary.every,
                values,
            }
        };
        order.iter().map(field).collect()
    }

    /// Fills the payload and writes the tag at its end.
    fn fill_payload(&self, payload: &mut [u8], n: u64, flow: u32, number: u64, moment: Moment) {
        let tag = if self.tag == Tag::Tail { TAG_LEN } else { 0 };
        let (data, end) = payload.split_at_mut(payload.len().saturating_sub(tag));
        let tag_flow = self.first_flow + flow;
        match &self.fill {
            Fill::Data => fill_back(
                self.seed,
                u64::from(tag_flow) << 32 | number & u64::from(u32::MAX),
                data,
            ),
            Fill::Pattern(pattern) => {
                for (byte, pattern) in data.iter_mut().zip(pattern.iter().cycle()) {
                    *byte = *pattern;
                }
            }
        }
        for vary in self.varies.iter().filter(|vary| vary.in_payload) {
            let i = if vary.source.period().is_some() {
                turn(flow, number)
            } else {
                n
            };
            if let Some(value) = vary.source.at(i, vary.seed) {
                set_bits(data, vary.bit, vary.width, value);
            }
        }
        if self.tag == Tag::Tail {
            let tag = TagBytes {
                number: number as u32,
                run: moment.run,
                flow: tag_flow,
                time_ns: moment.time_ns,
                mark: Mark::Sent,
            };
            end.copy_from_slice(&tag.bytes(self.seed));
        }
    }

    /// Writes the fields of the headers that vary.
    fn write_fields(&self, frame: &mut [u8], n: u64, flow: u32) {
        let mut values = vec![0; self.varies.len()];
        let own = |vary: &Vary| {
            let i = match vary.source.period() {
                Some(_) => u64::from(flow) / vary.every,
                None => n,
            };
            vary.source.at(i, vary.seed)
        };
        for (value, vary) in values.iter_mut().zip(&self.varies) {
            *value = own(vary).unwrap_or(0);
        }
        for (at, vary) in self.varies.iter().enumerate() {
            if let (Source::Same { plus, .. }, Some(of)) = (&vary.source, vary.of) {
                let value = match of {
                    Of::Vary(other) => values[other],
                    Of::Constant(value) => value,
                };
                values[at] = value.wrapping_add_signed(*plus) & ones(vary.width);
            }
        }
        for (at, vary) in self
            .varies
            .iter()
            .enumerate()
            .filter(|(_, vary)| vary.source == Source::InnerHash)
        {
            let inner = self
                .varies
                .iter()
                .zip(&values)
                .filter(|(other, _)| other.header > vary.header && other.hashed);
            let hash = inner.fold(self.own, |hash, (_, value)| random(hash, (value ^ value >> 64) as u64));
            values[at] = 0xc000 | u128::from(hash & 0x3fff);
        }
        for (vary, value) in self.varies.iter().zip(&values).filter(|(vary, _)| !vary.in_payload) {
            set_bits(frame, vary.bit, vary.width, *value);
        }
    }

    /// Writes the number of a packet into the sequence number of the innermost TCP header.
    fn write_number(&self, frame: &mut [u8], number: u64) {
        if let Some(tcp) = self.headers.iter().rfind(|laid| laid.kind == HeaderKind::Tcp) {
            let at = tcp.bytes.start + 4;
            frame[at..at + 4].copy_from_slice(&(number as u32).to_be_bytes());
        }
    }
}

impl Check {
    fn sum(&self) -> image::SumOf {
        image::SumOf {
            at: self.at,
            covers: self.covers.clone(),
            rest: self.rest,
            pseudo: self
                .pseudo
                .as_ref()
                .map(|pseudo| (pseudo.src.clone(), pseudo.dst.clone(), pseudo.proto)),
            kind: match self.kind {
                Cover::Crc32c => image::SumKind::Crc32c,
                Cover::Pseudo { zero_is_none: true } => image::SumKind::Udp,
                _ => image::SumKind::Internet,
            },
            wrong: self.wrong,
        }
    }

    /// Writes the checksum of a frame in which everything inside is right.
    fn write(&self, frame: &mut [u8], payload: usize) {
        let width = if self.kind == Cover::Crc32c { 4 } else { 2 };
        frame[self.at..self.at + width].fill(0);
        let end = if self.rest {
            frame.len()
        } else {
            self.covers.end.min(payload)
        };
        let covered = &frame[self.covers.start..end];
        if self.kind == Cover::Crc32c {
            let mut sum = oracle::crc32c(covered);
            sum[0] ^= u8::from(self.wrong);
            frame[self.at..self.at + 4].copy_from_slice(&sum);
            return;
        }
        let mut sum = match &self.pseudo {
            None => oracle::internet(&[covered]),
            Some(pseudo) => {
                let len = (covered.len() as u32).to_be_bytes();
                let proto = [0, 0, 0, pseudo.proto];
                oracle::internet(&[
                    &frame[pseudo.src.clone()],
                    &frame[pseudo.dst.clone()],
                    &len,
                    &proto,
                    covered,
                ])
            }
        };
        let zero_is_none = matches!(self.kind, Cover::Pseudo { zero_is_none: true });
        if zero_is_none && sum == 0 {
            sum = 0xffff;
        }
        if self.wrong {
            // Another number, and neither "none" nor the other form of zero.
            sum ^= if zero_is_none && sum ^ 1 == 0 { 2 } else { 1 };
        }
        frame[self.at..self.at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Returns the turn of a packet among sizes and values of the payload that come again. They go on with each packet of a
/// flow and from one flow to the next, so that each flow has all of them.
fn turn(flow: u32, number: u64) -> u64 {
    u64::from(flow) + number
}

/// Sets bits of a frame, the first being the top bit of byte 0. Bits past the end are left out.
fn set_bits(frame: &mut [u8], bit: usize, width: u32, value: u128) {
    for i in 0..width as usize {
        let set = value >> (width as usize - 1 - i) & 1 == 1;
        let at = bit + i;
        let Some(byte) = frame.get_mut(at / 8) else { return };
        let mask = 0x80 >> (at % 8);
        *byte = if set { *byte | mask } else { *byte & !mask };
    }
}

/// Returns bits of a frame.
pub(crate) fn get_bits(frame: &[u8], bit: usize, width: u32) -> u128 {
    (0..width as usize).fold(0, |value, i| {
        let at = bit + i;
        let set = frame.get(at / 8).is_some_and(|byte| byte & 0x80 >> (at % 8) != 0);
        value << 1 | u128::from(set)
    })
}

/// Returns the name of a header in a packet, with its number if there are several of its kind.
fn named(headers: &[Header], at: usize) -> String {
    let kind = headers[at].kind;
    let of_kind = |headers: &[Header]| headers.iter().filter(|header| header.kind == kind).count();
    match of_kind(headers) {
        0 | 1 => kind.name().to_owned(),
        _ => format!("{}[{}]", kind.name(), of_kind(&headers[..=at])),
    }
}

/// Headers in their places, while the form is worked out.
struct Layout {
    image: Vec<u8>,
    headers: Vec<Laid>,
    varies: Vec<Vary>,
    lengths: Vec<Length>,
    checks: Vec<Check>,
    seed: u64,
}

impl Layout {
    /// Lays the headers out, with the constants that were given.
    fn of(packet: &Packet, seed: u64) -> Read<Self> {
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
                    match mask {
                        None => (bit, field.width, false),
                        Some(mask) => {
                            let above = field.width - mask.trailing_zeros() - mask.count_ones();
                            (bit + above as usize, mask.count_ones(), true)
                        }
                    }
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
                let name = format!("{}.{}", named(&packet.headers, at), given.name());
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
    fn number_next(&mut self, packet: &Packet) -> Read<()> {
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
                    return whole(format!(
                        "{} behind {name}: want it behind {}",
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
                    let may = match (header.kind, next) {
                        (_, None | Some(HeaderKind::Payload | HeaderKind::Raw)) => true,
                        (HeaderKind::Raw, _) => true,
                        (HeaderKind::Udp, Some(next)) => match next.info().udp {
                            Some(port) => {
                                if !given("dst") {
                                    set_bits(&mut self.image, start * 8 + 16, 16, port.into());
                                }
                                true
                            }
                            None => false,
                        },
                        (HeaderKind::Vxlan, Some(HeaderKind::Eth)) => true,
                        (HeaderKind::Gtpu, Some(HeaderKind::Ipv4 | HeaderKind::Ipv6)) => true,
                        (HeaderKind::Llc, Some(HeaderKind::Snap)) => true,
                        // Errors quote the packet that they are about.
                        (HeaderKind::Icmp, Some(HeaderKind::Ipv4)) | (HeaderKind::Icmp6, Some(HeaderKind::Ipv6)) => {
                            true
                        }
                        (HeaderKind::Mpls, Some(next)) => {
                            matches!(
                                next,
                                HeaderKind::Mpls | HeaderKind::Ipv4 | HeaderKind::Ipv6 | HeaderKind::Eth
                            )
                        }
                        _ => false,
                    };
                    if !may {
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
    fn sum_up(&mut self, packet: &Packet) -> Read<()> {
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
    fn follow(&mut self, packet: &Packet) -> Read<()> {
        for at in 0..self.varies.len() {
            let Source::Same { of, .. } = &self.varies[at].source else {
                continue;
            };
            let vary = &self.varies[at];
            let place = vary.at.clone();
            let wrong = |line: String| Err(Wrong::new(place.clone(), line));
            let (header, field) = match of.rsplit_once('.') {
                Some((header, field)) => (self.header_named(packet, header), field),
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

    /// Returns the one header of a name, or number N of `NAME[N]`.
    fn header_named(&self, packet: &Packet, name: &str) -> Option<usize> {
        let (name, number) = match name.split_once('[') {
            Some((name, rest)) => (name, Some(rest.strip_suffix(']')?.parse::<usize>().ok()?)),
            None => (name, None),
        };
        let kind = HeaderKind::named(name)?;
        let mut of_kind = (0..packet.headers.len()).filter(|at| packet.headers[*at].kind == kind);
        match number {
            Some(number) => of_kind.nth(number.checked_sub(1)?),
            None => of_kind.next().filter(|_| of_kind.next().is_none()),
        }
    }

    /// Returns the number of flows, and has each field stay for as many flows as it is to.
    fn flows(&mut self, stream: &Stream) -> Read<u32> {
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

impl Vary {
    /// Returns the name, and of fields that make flows how many of their values the first `flows` flows have; `None` of
    /// a constant.
    pub fn told(&self, flows: u32) -> Option<String> {
        let name = &self.name;
        Some(match self.source.period() {
            Some(1) => return None,
            Some(period) if !self.in_payload => {
                let used = u64::from(flows).div_ceil(self.every.max(1)).min(period);
                match used == period {
                    true => format!("{name} ({period} values)"),
                    false => format!("{name} ({used} of {period} values)"),
                }
            }
            _ => name.clone(),
        })
    }

    /// Returns the place of the field in the frame or, in the payload, in the payload: first bit, and bits.
    pub fn place(&self) -> (usize, u32) {
        (self.bit, self.width)
    }
}

#[cfg(test)]
#[path = "form_tests.rs"]
mod tests;
