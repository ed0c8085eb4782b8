//! Form of a stream's packets: the bytes that all have, and what is written into them for each.

mod ends;
mod layout;

use crate::grammar::Header;
use crate::headers::{Cover, HeaderKind, Kind};
use crate::oracle;
use crate::size::{SMALLEST, Size};
use crate::stream::{Fill, Stream, Tag};
use crate::text::{Read, Span, Wrong};
use crate::value::{MOST_FIELDS, Source, ones};
pub use ends::{OuterIp, Ranges, VlanTag};
use layout::Layout;
use mpps_wire::image::{self, Image, ImageSpec, Sizes};
use mpps_wire::{Mark, TAG_LEN, Tag as TagBytes, fill_back, random};
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

    /// Returns whether bytes of the payload have values of their own.
    pub fn has_payload(&self) -> bool {
        self.varies.iter().any(|vary| vary.in_payload)
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
        // Tags, and so receivers, have the lowest bits of the number.
        let low = number & u64::from(u32::MAX);
        let n_low = low * u64::from(self.flows.max(1)) + u64::from(flow);
        let size = self.size.at(turn(flow, low), n_low, self.own, self.tags) as usize - FCS;
        let mut frame = vec![0; size.max(self.image.len())];
        frame[..self.image.len()].copy_from_slice(&self.image);
        let payload = self.image.len();
        self.fill_payload(&mut frame[payload..], n_low, flow, number, moment);
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

    /// Returns the different sizes of the frames, bytes with FCS, smallest first, and their order.
    pub fn size_order(&self) -> (Vec<u64>, Sizes) {
        let (smallest, largest) = self.sizes();
        let Some(values) = self.size.values() else {
            let order = Sizes::Random {
                count: largest - smallest + 1,
                seed: self.own,
            };
            return ((smallest..=largest).collect(), order);
        };
        let more = smallest - values.iter().min().copied().unwrap_or(smallest);
        let turns: Vec<u64> = values.iter().map(|size| size + more).collect();
        let mut sizes = turns.clone();
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.len() == 1 {
            return (sizes, Sizes::One);
        }
        let place = |size: &u64| sizes.binary_search(size).unwrap_or_default() as u16;
        let turns = turns.iter().map(place).collect();
        (sizes, Sizes::in_turn(turns))
    }

    /// Returns the sum of the frames' sizes, bytes with FCS, and the number of frames that have them: their mean is
    /// exact.
    pub fn size_sum(&self) -> (u64, u64) {
        match self.size.values() {
            Some(values) => {
                let (smallest, _) = self.sizes();
                let more = smallest - values.iter().min().copied().unwrap_or(smallest);
                (values.iter().map(|size| size + more).sum(), values.len() as u64)
            }
            None => {
                let (smallest, largest) = self.sizes();
                (smallest + largest, 2)
            }
        }
    }

    /// Returns all that packets of one size, bytes with FCS, are made of; `None` if it is less than their headers.
    pub fn spec(&self, size: u64) -> Option<ImageSpec> {
        let frame_len = usize::try_from(size).ok()?.checked_sub(FCS)?;
        let mut headers = self.image.clone();
        for vary in self.varies.iter().filter(|vary| !vary.in_payload) {
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
        let mut sums: Vec<_> = self.checks.iter().map(Check::sum).collect();
        // The payload up to the last byte that varies is written with the headers.
        let varied = self.payload_least();
        for sum in sums.iter_mut().filter(|sum| sum.rest) {
            sum.covers.end += varied;
        }
        let data = match &self.fill {
            Fill::Data => {
                headers.resize(headers.len() + varied, 0);
                image::Data::Verified
            }
            Fill::Pattern(pattern) => {
                let mut bytes = pattern.iter().copied().cycle();
                headers.extend(bytes.by_ref().take(varied));
                image::Data::Pattern(bytes.take(pattern.len()).collect())
            }
        };
        for vary in self.varies.iter().filter(|vary| vary.in_payload) {
            set_bits(&mut headers, self.image.len() * 8 + vary.bit, vary.width, 0);
        }
        Some(ImageSpec {
            headers,
            varied,
            frame_len,
            fields,
            sums,
            data,
            tagged: self.tag == Tag::Tail,
            seed: self.seed,
            run: 0,
            flows: self.flows,
            first_flow: self.first_flow,
        })
    }

    /// Returns what writes the packets of one size and run fast; `None` as of [`Form::spec`].
    pub fn image(&self, size: u64, run: u8) -> Option<Image> {
        Image::new(ImageSpec {
            run,
            ..self.spec(size)?
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
                bit: if vary.in_payload { self.image.len() * 8 } else { 0 } + vary.bit,
                width: vary.width,
                every: vary.every,
                values: match (vary.in_payload, &vary.source) {
                    (false, _) | (true, Source::Constant(_)) => values,
                    (true, _) => image::Values::ByPacket(Box::new(values)),
                },
            }
        };
        order.iter().map(field).collect()
    }

    /// Fills the payload and writes the tag at its end.
    fn fill_payload(&self, payload: &mut [u8], n: u64, flow: u32, number: u64, moment: Moment) {
        let tag = if self.tag == Tag::Tail { TAG_LEN } else { 0 };
        let (data, end) = payload.split_at_mut(payload.len().saturating_sub(tag));
        let (tag_flow, low) = (self.first_flow + flow, number & u64::from(u32::MAX));
        match &self.fill {
            // Those before it are as the others of a packet's text.
            Fill::Data => fill_back(
                self.seed,
                u64::from(tag_flow) << 32 | low,
                &mut data[self.payload_least()..],
            ),
            Fill::Pattern(pattern) => {
                for (byte, pattern) in data.iter_mut().zip(pattern.iter().cycle()) {
                    *byte = *pattern;
                }
            }
        }
        for vary in self.varies.iter().filter(|vary| vary.in_payload) {
            let i = if vary.source.period().is_some() {
                turn(flow, low)
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

impl Vary {
    /// Returns the name, and of fields that make flows how many of their values the first `flows` flows have; `None` of
    /// a constant.
    pub fn described(&self, flows: u32) -> Option<String> {
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

#[cfg(test)]
#[path = "returned_tests.rs"]
mod returned_tests;
