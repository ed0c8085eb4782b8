//! Images: packets of any headers, whose constant parts are worked out once.
//!
//! A packet is a copy of the image, a store for each field that varies, the payload, the tag, and the checksums from
//! the innermost to the outermost. The sum of all constant words of each checksum is kept, so that only what varies is
//! summed. Each value is a pure function of flow and number: nothing is kept from one packet to the next.

use crate::checksum::Sum;
use crate::data::{base, fill_back_and_sum};
use crate::tag::{Mark, TAG_FLOWS, TAG_LEN, Tag};
use crate::vary::{Divisor, scaled, shuffled};

/// Most checksums of an image.
pub const MOST_SUMS: usize = 4;

/// Values of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// `start + step * i` for `i` below `count`, by flow.
    Counter {
        /// First value.
        start: u128,
        /// Difference from one value to the next.
        step: i128,
        /// Number of values.
        count: u64,
    },
    /// The values in this order, by flow.
    Table(Vec<u128>),
    /// Random values from `low` to `high`: by flow if they have a period, else by packet.
    Random {
        /// Lowest value.
        low: u128,
        /// Highest value.
        high: u128,
        /// Number of values after which they come again.
        period: Option<u64>,
        /// Beginning of the sequence.
        seed: u64,
    },
    /// Each value from `low` on once, in a random order, by flow.
    Shuffle {
        /// Lowest value.
        low: u128,
        /// Number of values.
        count: u64,
        /// Beginning of the order.
        seed: u64,
    },
    /// Value of a field that is written before, plus a number.
    Same {
        /// Number of that field.
        field: usize,
        /// Number to add.
        plus: i128,
    },
    /// Number from 49152 to 65535 made of the values of other fields.
    Hash {
        /// Numbers of those fields.
        fields: Vec<usize>,
        /// Beginning of the hash.
        seed: u64,
    },
    /// Number of the packet in its flow.
    Number,
}

/// Field that varies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// First bit in the frame.
    pub bit: usize,
    /// Bits, 1 to 128.
    pub width: u32,
    /// Flows for which a value stays.
    pub every: u64,
    /// Values.
    pub values: Values,
}

/// Sum of a checksum field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumKind {
    /// Internet checksum.
    Internet,
    /// Internet checksum whose 0 is sent as 0xffff.
    Udp,
    /// CRC32c of SCTP, four bytes.
    Crc32c,
}

/// Checksum of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SumOf {
    /// Byte of the field.
    pub at: usize,
    /// Bytes of headers that it covers, the field included.
    pub covers: core::ops::Range<usize>,
    /// Whether it covers all that follows the headers, too.
    pub rest: bool,
    /// Places of the source and destination address in the pseudo-header, and its protocol.
    pub pseudo: Option<(core::ops::Range<usize>, core::ops::Range<usize>, u8)>,
    /// Kind.
    pub kind: SumKind,
    /// Whether the checksum is to be wrong.
    pub wrong: bool,
}

/// Bytes of the payload before the tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// Function of seed, flow and number ([`fill_back`](crate::fill_back)).
    Verified,
    /// These bytes again and again.
    Pattern(Vec<u8>),
}

/// All that an image is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSpec {
    /// Headers, with 0 where fields vary and in checksum fields; lengths are those of the frame.
    pub headers: Vec<u8>,
    /// Bytes of a frame, without FCS.
    pub frame_len: usize,
    /// Fields of the headers that vary; one takes the value of those before it only.
    pub fields: Vec<Field>,
    /// Checksums, innermost first, [`MOST_SUMS`] at most.
    pub sums: Vec<SumOf>,
    /// Payload.
    pub data: Data,
    /// Whether packets end with a tag.
    pub tagged: bool,
    /// Seed of tags and data.
    pub seed: u64,
    /// Run of the tags.
    pub run: u8,
    /// Number of flows.
    pub flows: u32,
    /// Number of the first flow in tags.
    pub first_flow: u32,
}

/// Number of a packet: its flow, counted from 0 in the stream, and its place in the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Flow.
    pub flow: u32,
    /// Number in the flow.
    pub number: u64,
}

/// Bytes around a field that are read and written at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Window {
    Two,
    Four,
    Eight,
    Sixteen,
    /// One byte at an odd place, or bits of more bytes than a window.
    Bits,
}

/// Field of which all is worked out.
#[derive(Clone, Debug)]
struct Writer {
    at: usize,
    window: Window,
    shift: u32,
    mask: u128,
    width: u32,
    bit: usize,
    every: Divisor,
    /// Period in flows.
    period: Divisor,
    values: Values,
    /// Checksums that have the window at an even place, and those that have it at an odd one.
    even: u8,
    odd: u8,
}

/// Checksum of which all is worked out.
#[derive(Clone, Debug)]
struct Region {
    of: SumOf,
    /// Sum of the constant words.
    constant: Sum,
    /// Inner checksums that it covers, at an even and at an odd place.
    even: u8,
    odd: u8,
    /// Whether the end of the frame is at an odd place.
    odd_end: bool,
}

/// Packets of one stream and one size, ready to be written.
#[derive(Clone, Debug)]
pub struct Image {
    headers: Vec<u8>,
    frame_len: usize,
    writers: Vec<Writer>,
    regions: Vec<Region>,
    data: Data,
    tagged: bool,
    seed: u64,
    run: u8,
    flows: u64,
    first_flow: u32,
}

impl Image {
    /// Works out all that is constant; `None` if the parts do not fit together: a field or checksum outside of the
    /// headers, more than [`MOST_SUMS`] checksums, no room for the tag.
    pub fn new(spec: ImageSpec) -> Option<Self> {
        let len = spec.headers.len();
        let tag = if spec.tagged { TAG_LEN } else { 0 };
        let fits = |sum: &SumOf| sum.covers.start <= sum.at && sum.at + 2 <= sum.covers.end && sum.covers.end <= len;
        let inside = |field: &Field| (1..=128).contains(&field.width) && field.bit + field.width as usize <= len * 8;
        let before = |(at, field): (usize, &Field)| match &field.values {
            Values::Same { field, .. } => *field < at,
            Values::Hash { fields, .. } => fields.iter().all(|field| *field < at),
            Values::Table(values) => !values.is_empty(),
            _ => true,
        };
        let whole = spec.sums.len() <= MOST_SUMS
            && spec.sums.iter().all(fits)
            && spec.fields.iter().all(inside)
            && spec.fields.iter().enumerate().all(before)
            && spec.frame_len >= len + tag
            && spec.flows <= TAG_FLOWS;
        whole.then(|| {
            let writers = spec.fields.iter().map(|field| Writer::of(field, &spec)).collect();
            let regions = (0..spec.sums.len()).map(|at| Region::of(&spec, at)).collect();
            Self {
                writers,
                regions,
                headers: spec.headers,
                frame_len: spec.frame_len,
                data: spec.data,
                tagged: spec.tagged,
                seed: spec.seed,
                run: spec.run,
                flows: u64::from(spec.flows.max(1)),
                first_flow: spec.first_flow,
            }
        })
    }

    /// Returns the bytes of a frame, without FCS.
    #[inline]
    pub fn frame_len(&self) -> usize {
        self.frame_len
    }

    /// Writes a packet.
    ///
    /// # Panics
    /// When `frame` is not [`Image::frame_len`] bytes long.
    #[inline]
    pub fn write(&self, frame: &mut [u8], place: Place, time_ns: u64) {
        assert_eq!(frame.len(), self.frame_len);
        let (headers, payload) = frame.split_at_mut(self.headers.len());
        headers.copy_from_slice(&self.headers);
        let end = self.write_payload(payload, place, time_ns);
        let (even, odd) = self.write_fields(headers, place);
        self.write_sums(frame, even, odd, end);
    }

    /// Writes the payload; its sum, as if its end were at an even place.
    #[inline]
    fn write_payload(&self, payload: &mut [u8], place: Place, time_ns: u64) -> Sum {
        let tag = if self.tagged { TAG_LEN } else { 0 };
        let (data, end) = payload.split_at_mut(payload.len() - tag);
        let flow = self.first_flow + place.flow;
        let sum = match &self.data {
            Data::Verified => {
                let key = u64::from(flow) << 32 | place.number & u64::from(u32::MAX);
                fill_back_and_sum(base(self.seed, key), data)
            }
            Data::Pattern(pattern) => {
                for (byte, pattern) in data.iter_mut().zip(pattern.iter().cycle()) {
                    *byte = *pattern;
                }
                sum_to_end(data)
            }
        };
        if !self.tagged {
            return sum;
        }
        let tag = Tag {
            number: place.number as u32,
            run: self.run,
            flow,
            time_ns,
            mark: Mark::Sent,
        };
        let bytes = tag.bytes(self.seed);
        end.copy_from_slice(&bytes);
        let both = u128::from_le_bytes(bytes);
        sum.word(both as u64).word((both >> 64) as u64)
    }

    /// Writes the fields that vary; the sums of what was written, by checksum.
    #[inline]
    fn write_fields(&self, headers: &mut [u8], place: Place) -> ([Sum; MOST_SUMS], [Sum; MOST_SUMS]) {
        const MOST: usize = 16;
        let mut values = [0u128; MOST];
        let (mut even, mut odd) = ([Sum::ZERO; MOST_SUMS], [Sum::ZERO; MOST_SUMS]);
        for (at, writer) in self.writers.iter().enumerate() {
            let value = writer.value(place, self.flows, &values) & ones(writer.width);
            if let Some(slot) = values.get_mut(at) {
                *slot = value;
            }
            let sum = writer.store(headers, value);
            for (region, (even, odd)) in even.iter_mut().zip(&mut odd).enumerate() {
                if writer.even >> region & 1 == 1 {
                    *even = even.plus(sum);
                }
                if writer.odd >> region & 1 == 1 {
                    *odd = odd.plus(sum);
                }
            }
        }
        (even, odd)
    }

    /// Writes the checksums, innermost first.
    #[inline]
    fn write_sums(&self, frame: &mut [u8], mut even: [Sum; MOST_SUMS], mut odd: [Sum; MOST_SUMS], end: Sum) {
        for (at, region) in self.regions.iter().enumerate() {
            let of = &region.of;
            if of.kind == SumKind::Crc32c {
                let mut crc = crc32c(&frame[of.covers.start..]);
                crc[0] ^= u8::from(of.wrong);
                frame[of.at..of.at + 4].copy_from_slice(&crc);
                self.pass_on(at, u64::from(u32::from_le_bytes(crc)), &mut even, &mut odd);
                continue;
            }
            let mut sum = region.constant.plus(even[at]).plus(turned(odd[at]));
            if of.rest {
                sum = sum.plus(if region.odd_end { turned(end) } else { end });
            }
            let mut field = match of.kind {
                SumKind::Udp => sum.finish_udp(),
                _ => sum.finish(),
            };
            if of.wrong {
                // Another number, and neither "none" nor the other form of zero.
                field[1] ^= if of.kind == SumKind::Udp && field == [0, 1] {
                    2
                } else {
                    1
                };
            }
            frame[of.at..of.at + 2].copy_from_slice(&field);
            self.pass_on(at, u64::from(u16::from_le_bytes(field)), &mut even, &mut odd);
        }
    }

    /// Adds a checksum to the sums of those around it.
    #[inline]
    fn pass_on(&self, at: usize, field: u64, even: &mut [Sum; MOST_SUMS], odd: &mut [Sum; MOST_SUMS]) {
        for (outer, region) in self.regions.iter().enumerate().skip(at + 1) {
            if region.even >> at & 1 == 1 {
                even[outer] = even[outer].word(field);
            }
            if region.odd >> at & 1 == 1 {
                odd[outer] = odd[outer].word(field);
            }
        }
    }
}

impl Writer {
    fn of(field: &Field, spec: &ImageSpec) -> Self {
        let (first, last) = (field.bit / 8, (field.bit + field.width as usize - 1) / 8);
        // Windows begin at even places of the frame, so that those of one header are all at even places of it or at odd
        // ones.
        let window = |bytes: usize, window: Window| {
            let at = first.min(spec.headers.len().saturating_sub(bytes));
            (at <= first && last < at + bytes).then_some((at, bytes, window))
        };
        let found = window(2, Window::Two)
            .or_else(|| window(4, Window::Four))
            .or_else(|| window(8, Window::Eight))
            .or_else(|| window(16, Window::Sixteen));
        let (at, bytes, window) = found.unwrap_or((first, 17, Window::Bits));
        let shift = ((at + bytes) * 8).saturating_sub(field.bit + field.width as usize) as u32;
        let period = match &field.values {
            Values::Counter { count, .. } | Values::Shuffle { count, .. } => *count,
            Values::Table(values) => values.len() as u64,
            Values::Random { period, .. } => period.unwrap_or(1),
            Values::Same { .. } | Values::Hash { .. } | Values::Number => 1,
        };
        let (mut even, mut odd) = (0, 0);
        for (region, sum) in spec
            .sums
            .iter()
            .enumerate()
            .filter(|(_, sum)| sum.kind != SumKind::Crc32c)
        {
            let within = |bytes: &core::ops::Range<usize>| bytes.start <= first && last < bytes.end;
            let pseudo = sum.pseudo.as_ref().filter(|(src, dst, _)| within(src) || within(dst));
            let inside = sum.covers.start <= first && (sum.rest || last < sum.covers.end);
            let from = match pseudo {
                Some((src, _, _)) => Some(src.start),
                None => inside.then_some(sum.covers.start),
            };
            match from.map(|from| at.abs_diff(from) % 2) {
                Some(0) => even |= 1 << region,
                Some(_) => odd |= 1 << region,
                None => {}
            }
        }
        Self {
            at,
            window,
            shift,
            mask: match window {
                Window::Bits => 0,
                _ => ones(field.width) << shift,
            },
            width: field.width,
            bit: field.bit,
            every: Divisor::new(field.every),
            period: Divisor::new(period),
            values: field.values.clone(),
            even,
            odd,
        }
    }

    /// Returns the value of a packet.
    #[inline]
    fn value(&self, place: Place, flows: u64, before: &[u128]) -> u128 {
        let by_flow = || self.period.remainder(self.every.quotient(place.flow.into()));
        match &self.values {
            Values::Counter { start, step, .. } => start.wrapping_add_signed(step.wrapping_mul(i128::from(by_flow()))),
            Values::Table(values) => values.get(by_flow() as usize).copied().unwrap_or_default(),
            Values::Random {
                low,
                high,
                period,
                seed,
            } => {
                let i = match period {
                    Some(_) => by_flow(),
                    None => place.number * flows + u64::from(place.flow),
                };
                low + scaled(i, *seed, high - low)
            }
            Values::Shuffle { low, count, seed } => low + u128::from(shuffled(by_flow(), *count, *seed)),
            Values::Same { field, plus } => before
                .get(*field)
                .copied()
                .unwrap_or_default()
                .wrapping_add_signed(*plus),
            Values::Hash { fields, seed } => {
                let values = fields
                    .iter()
                    .map(|field| before.get(*field).copied().unwrap_or_default());
                let hash = values.fold(*seed, |hash, value| base(hash, (value ^ value >> 64) as u64));
                0xc000 | u128::from(hash & 0x3fff)
            }
            Values::Number => place.number.into(),
        }
    }

    /// Writes the value, and returns the sum of its bits, as if the window were at an even place.
    #[inline]
    fn store(&self, headers: &mut [u8], value: u128) -> Sum {
        macro_rules! window {
            ($number:ty, $bytes:literal) => {
                if let Some(bytes) = headers
                    .get_mut(self.at..)
                    .and_then(|rest| rest.first_chunk_mut::<$bytes>())
                {
                    let bits = (value << self.shift) as $number;
                    let old = <$number>::from_be_bytes(*bytes) & !(self.mask as $number);
                    *bytes = (old | bits).to_be_bytes();
                    return Sum::ZERO.word(u64::from(bits.swap_bytes()));
                }
            };
        }
        match self.window {
            Window::Two => window!(u16, 2),
            Window::Four => window!(u32, 4),
            Window::Eight => window!(u64, 8),
            Window::Sixteen => {
                if let Some(bytes) = headers.get_mut(self.at..).and_then(|rest| rest.first_chunk_mut::<16>()) {
                    let bits = value << self.shift;
                    let old = u128::from_be_bytes(*bytes) & !self.mask;
                    *bytes = (old | bits).to_be_bytes();
                    let bits = bits.swap_bytes();
                    return Sum::ZERO.word(bits as u64).word((bits >> 64) as u64);
                }
            }
            Window::Bits => return self.store_bits(headers, value),
        }
        Sum::ZERO
    }

    #[cold]
    fn store_bits(&self, headers: &mut [u8], value: u128) -> Sum {
        let mut bytes = [0; 18];
        for i in 0..self.width as usize {
            let (set, bit) = (value >> (self.width as usize - 1 - i) & 1 == 1, self.bit + i);
            let mask = 0x80 >> (bit % 8);
            if set && let Some(byte) = bytes.get_mut(bit / 8 - self.at) {
                *byte |= mask;
            }
            if let Some(byte) = headers.get_mut(bit / 8) {
                *byte = if set { *byte | mask } else { *byte & !mask };
            }
        }
        Sum::ZERO.bytes(&bytes)
    }
}

impl Region {
    fn of(spec: &ImageSpec, at: usize) -> Self {
        let of = spec.sums[at].clone();
        let covered = &spec.headers[of.covers.start..if of.rest { spec.headers.len() } else { of.covers.end }];
        let mut constant = Sum::ZERO.bytes(covered);
        if let Some((src, dst, proto)) = &of.pseudo {
            let len = (spec.frame_len - of.covers.start) as u32;
            constant = constant
                .bytes(&spec.headers[src.clone()])
                .bytes(&spec.headers[dst.clone()]);
            constant = constant
                .number((len >> 16) as u16)
                .number(len as u16)
                .number(u16::from(*proto));
        }
        let (mut even, mut odd) = (0, 0);
        for (inner, sum) in spec.sums[..at].iter().enumerate() {
            if of.rest && of.covers.start <= sum.at {
                match (sum.at - of.covers.start) % 2 {
                    0 => even |= 1 << inner,
                    _ => odd |= 1 << inner,
                }
            }
        }
        let odd_end = (spec.frame_len - of.covers.start) % 2 == 1;
        Self {
            of,
            constant,
            even,
            odd,
            odd_end,
        }
    }
}

/// Returns a sum of bytes at odd places as one of bytes at even places (RFC 1071, section 2 (B)).
#[inline]
fn turned(sum: Sum) -> Sum {
    Sum::ZERO.word(u64::from(sum.fold().swap_bytes()))
}

/// Returns the sum of bytes whose end is at an even place.
fn sum_to_end(bytes: &[u8]) -> Sum {
    match bytes.len() % 2 {
        0 => Sum::ZERO.bytes(bytes),
        _ => turned(Sum::ZERO.bytes(bytes)),
    }
}

#[inline]
const fn ones(width: u32) -> u128 {
    u128::MAX >> (128 - width)
}

/// Returns the CRC32c (RFC 9260, appendix A) in the order of transmission.
fn crc32c(bytes: &[u8]) -> [u8; 4] {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut at = 0;
        while at < 256 {
            let (mut crc, mut bit) = (at as u32, 0);
            while bit < 8 {
                crc = crc >> 1 ^ (0x82f6_3b78 * (crc & 1));
                bit += 1;
            }
            table[at] = crc;
            at += 1;
        }
        table
    };
    let crc = bytes
        .iter()
        .fold(!0u32, |crc, byte| crc >> 8 ^ TABLE[usize::from(crc as u8 ^ byte)]);
    (!crc).to_le_bytes()
}
