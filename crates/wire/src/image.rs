//! Images: packets of any headers, whose constant parts are worked out once.
//!
//! A packet is a copy of the image, a store for each field that varies, the payload, the tag, and the checksums from
//! the innermost to the outermost. The sum of all constant words of each checksum is kept, so that only what varies is
//! summed. A checksum that covers only constant bytes is a part of the image. Each image chooses its writer once:
//! copies of the common lengths, payloads and numbers of checksums are compiled apart, so that they need no loops. Each
//! value is a pure function of flow and number: nothing is kept from one packet to the next.

mod column;
mod parts;
mod region;
mod sizes;
mod value;
mod varied;
mod wide;

use crate::checksum::Sum;
use crate::data::{STEP, base, fill_back_and_sum, fill_more_back, head_mask, head_word, verify_back};
use crate::eth;
use crate::tag::{OfRun, TAG_FLOWS, TAG_LEN, Tag};
use crate::template::Blank;
use crate::udp;

use column::{Column, Counter, Cycle, Written};
pub use parts::{PartSource, PartSum, PartWriter, Parts};
use region::{Region, Simple};
pub use sizes::Sizes;
use value::Range;
use varied::Varied;
use wide::Wide;

/// Bytes that are copied at once. A copy of the headers may go over the end of them, into the tag's place.
const BLOCK: usize = 16;

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
    /// These values in turn, by packet: from one of a flow to its next, and from one flow to the next.
    ByPacket(Box<Values>),
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
    /// Bytes at their end that are the beginning of the payload, some of which vary.
    pub varied: usize,
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

impl Place {
    /// Returns a frame as this packet is to be written.
    #[inline(always)]
    fn blank(self, bytes: &mut [u8]) -> Blank<'_> {
        Blank {
            bytes,
            flow: self.flow,
            ports: (0, 0),
            seq: self.number,
        }
    }
}

impl Values {
    /// Returns the number of values by flow after which they come again; `None` if they are not values by flow.
    fn period(&self) -> Option<u64> {
        match self {
            Self::Counter { count, .. } | Self::Shuffle { count, .. } => Some(*count),
            Self::Table(values) => Some(values.len() as u64),
            Self::Random { period, .. } => *period,
            Self::Same { .. } | Self::Hash { .. } | Self::Number | Self::ByPacket(_) => None,
        }
    }

    /// Returns the lowest and the highest value; `None` for values that depend on others or on the packet's number.
    pub fn bounds(&self) -> Option<(u128, u128)> {
        Some(match self {
            Self::Counter { start, step, count } => {
                let last = step.checked_mul(i128::from(count.saturating_sub(1)))?;
                let last = start.checked_add_signed(last)?;
                (*start.min(&last), *start.max(&last))
            }
            Self::Table(values) => (*values.iter().min()?, *values.iter().max()?),
            Self::Random { low, high, .. } => (*low, *high),
            Self::Shuffle { low, count, .. } => (*low, low.checked_add(u128::from(count.saturating_sub(1)))?),
            Self::Same { .. } | Self::Hash { .. } | Self::Number | Self::ByPacket(_) => return None,
        })
    }
}

impl Field {
    /// Returns the first and the last byte that have bits of the field.
    fn bytes(&self) -> (usize, usize) {
        (self.bit / 8, (self.bit + self.width as usize - 1) / 8)
    }
}

/// Packets of one stream and one size, ready to be written.
#[derive(Clone, Debug)]
pub struct Image {
    /// Headers and what is constant of the payload, then zeros up to a whole number of blocks.
    bytes: Vec<u8>,
    /// The first of them, or all: those of [`Payload::Smallest`] lie beside what else is needed.
    first: [u8; UDP.next_multiple_of(BLOCK)],
    /// Bytes of the headers; of 32 bits, so that no sum with it overflows.
    headers_len: u32,
    frame_len: usize,
    data_len: usize,
    /// Beginning of the payload, if bytes of it vary.
    varied: Option<Box<Varied>>,
    /// Fields that vary, as they are written: in four parts, each of which is in its order in the frame.
    counters: Vec<Counter>,
    cycles: Vec<Cycle>,
    columns: Vec<Column>,
    wide: Vec<Wide>,
    regions: Vec<Region>,
    /// The same checksums, if they are simple and not more than two.
    simple: [Simple; 2],
    payload: Payload,
    /// Bits of a word that are in [`Payload::Short`], and the turn that makes its high bytes the low ones.
    head_mask: u64,
    head_turn: u32,
    /// Sum of the payload's constant bytes, as if its end were at an even place.
    constant: Sum,
    tagged: bool,
    seed: u64,
    of_run: OfRun,
    flows: u64,
    first_flow: u32,
    /// Function that writes packets of this image.
    writer: Writer,
    /// Payload and number of checksums of UDP over IPv4, if its checksums are simple.
    inlined: Option<(Payload, usize)>,
    /// It is of [`Payload::Smallest`], with one checksum, and no field varies.
    is_plain: bool,
}

/// Writes a packet.
type Writer = fn(&Image, &mut [u8], Place, u64);

/// Payloads that are written in different ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Payload {
    /// Data and tag of UDP over IPv4, with its checksum, in the frame that rates are quoted for.
    Smallest,
    /// Less than eight bytes of data, and a tag.
    Short,
    /// Data of any length.
    Medium,
    /// Data of 64 bytes and more, which are written by a loop over vectors.
    Long,
    /// A pattern, which is a part of the image.
    Constant,
}

const SHORT: u8 = 0;
const MEDIUM: u8 = 1;
const LONG: u8 = 2;
const CONSTANT: u8 = 3;
const SMALLEST: u8 = 4;
/// Bytes of a frame of [`Payload::Smallest`], and bytes of its data.
const SMALLEST_LEN: usize = eth::MIN_FRAME_LEN;
const SMALLEST_DATA: usize = SMALLEST_LEN - UDP - TAG_LEN;
/// Bytes of headers in place of any number.
const ANY: usize = 0;
/// Ethernet, IPv4 and UDP, and the place of the last.
const UDP: usize = L4 + udp::HEADER_LEN;
const L4: usize = 34;

/// Returns the writer of images with this kind of payload, so many bytes of headers, and so many checksums, which are
/// [`Simple`].
fn writer_of<const PAYLOAD: u8, const SUMS: usize>(headers: usize) -> Writer {
    match headers {
        UDP => Image::write_simple::<PAYLOAD, UDP, SUMS>,
        46 => Image::write_simple::<PAYLOAD, 46, SUMS>,
        54 => Image::write_simple::<PAYLOAD, 54, SUMS>,
        62 => Image::write_simple::<PAYLOAD, 62, SUMS>,
        66 => Image::write_simple::<PAYLOAD, 66, SUMS>,
        92 => Image::write_simple::<PAYLOAD, 92, SUMS>,
        112 => Image::write_simple::<PAYLOAD, 112, SUMS>,
        _ => Image::write_simple::<PAYLOAD, ANY, SUMS>,
    }
}

impl Image {
    /// Works out all that is constant; `None` if the parts do not fit together: a field or checksum outside of the
    /// headers, bits of two fields, more than [`MOST_SUMS`] checksums, no room for the tag.
    pub fn new(spec: ImageSpec) -> Option<Self> {
        let len = spec.headers.len();
        let tag = if spec.tagged { TAG_LEN } else { 0 };
        let fits = |sum: &SumOf| {
            let bytes = if sum.kind == SumKind::Crc32c { 4 } else { 2 };
            sum.covers.start <= sum.at && sum.at + bytes <= sum.covers.end && sum.covers.end <= len
        };
        let inside = |field: &Field| (1..=128).contains(&field.width) && field.bit + field.width as usize <= len * 8;
        let before = |(at, field): (usize, &Field)| match &field.values {
            Values::Same { field, .. } => *field < at,
            Values::Hash { fields, .. } => fields.iter().all(|field| *field < at),
            Values::Table(values) => !values.is_empty(),
            _ => true,
        };
        let mut bits: Vec<_> = spec
            .fields
            .iter()
            .map(|field| (field.bit, field.bit + field.width as usize))
            .collect();
        bits.sort_unstable();
        let apart = bits.iter().zip(bits.iter().skip(1)).all(|(one, next)| one.1 <= next.0);
        let whole = apart
            && spec.sums.len() <= MOST_SUMS
            && spec.sums.iter().all(fits)
            && spec.fields.iter().all(inside)
            && spec.fields.iter().enumerate().all(before)
            && spec.frame_len >= len + tag
            && spec.varied <= len
            && (spec.first_flow.checked_add(spec.flows)).is_some_and(|flows| flows <= TAG_FLOWS);
        whole.then(|| Self::of(&spec))
    }

    fn of(spec: &ImageSpec) -> Self {
        let mut ranges: Vec<Range> = Vec::new();
        for field in &spec.fields {
            ranges.push(value::range(field, spec.flows, &ranges));
        }
        let mut order: Vec<usize> = (0..spec.fields.len()).collect();
        order.sort_by_key(|at| spec.fields[*at].bit);
        let mut headers = spec.headers.clone();
        let (mut columns, mut wide, mut varying, mut after) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for at in order {
            let field = &spec.fields[at];
            let constant = match Column::of(spec, at, &ranges, after) {
                Written::Constant(value) => {
                    set_bits(&mut headers, field, value);
                    continue;
                }
                Written::Column(column, constant) => {
                    columns.push((column, field));
                    constant
                }
                Written::Wide(field_of) => {
                    wide.push((field_of, field));
                    0
                }
            };
            set_bits(&mut headers, field, constant);
            varying.push(field);
            after = field.bit + field.width as usize;
        }
        let mut regions: Vec<Region> = Vec::new();
        for sum in &spec.sums {
            let varies = varying.iter().any(|field| sum.weight(sum.at, field.bytes()).counts());
            let region = Region::of(spec, sum, &headers, &regions);
            match region.is_constant() && !varies {
                true => region.write_constant(&mut headers),
                false => regions.push(region),
            }
        }
        let (headers_len, tag) = (headers.len(), if spec.tagged { TAG_LEN } else { 0 });
        let data_len = spec.frame_len - headers_len - tag;
        let (payload, pattern) = match &spec.data {
            Data::Verified if spec.tagged && (headers_len, spec.frame_len) == (UDP, SMALLEST_LEN) => {
                (Payload::Smallest, Vec::new())
            }
            Data::Verified if spec.tagged && data_len < 8 => (Payload::Short, Vec::new()),
            Data::Verified if data_len < 64 => (Payload::Medium, Vec::new()),
            Data::Verified => (Payload::Long, Vec::new()),
            Data::Pattern(pattern) if pattern.is_empty() => (Payload::Constant, vec![0; data_len]),
            Data::Pattern(pattern) => (
                Payload::Constant,
                pattern.iter().copied().cycle().take(data_len).collect(),
            ),
        };
        let mut bytes = headers;
        bytes.extend_from_slice(&pattern);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        let mut columns = complete(columns, |column: &mut Column, field| {
            column.complete(field, &bytes, &regions)
        });
        let counters = Column::take(&mut columns, Column::counter);
        let cycles = Column::take(&mut columns, Column::cycle);
        let simple: Option<Vec<Simple>> = regions.iter().map(Region::simple).collect();
        let sums = simple.as_ref().filter(|_| wide.is_empty()).map(Vec::len);
        let is_of_udp = simple.iter().flatten().next().is_some_and(|sum| sum.is_of_udp(L4));
        let payload = match payload {
            Payload::Smallest if !is_of_udp => Payload::Short,
            other => other,
        };
        let len = if spec.tagged { headers_len } else { ANY };
        let writer: Writer = match (payload, sums) {
            (Payload::Smallest, Some(1)) => Self::write_simple::<SMALLEST, UDP, 1>,
            (Payload::Smallest, Some(2)) => Self::write_simple::<SMALLEST, UDP, 2>,
            (Payload::Short, Some(1)) => writer_of::<SHORT, 1>(len),
            (Payload::Short, Some(2)) => writer_of::<SHORT, 2>(len),
            (Payload::Medium, Some(1)) => writer_of::<MEDIUM, 1>(len),
            (Payload::Medium, Some(2)) => writer_of::<MEDIUM, 2>(len),
            (Payload::Long, Some(1)) => writer_of::<LONG, 1>(len),
            (Payload::Long, Some(2)) => writer_of::<LONG, 2>(len),
            (Payload::Constant, Some(1)) => Self::write_simple::<CONSTANT, ANY, 1>,
            (Payload::Constant, Some(2)) => Self::write_simple::<CONSTANT, ANY, 2>,
            (Payload::Constant, _) => Self::write_any::<CONSTANT>,
            _ => Self::write_any::<MEDIUM>,
        };
        let inlined = sums.filter(|_| len == UDP).map(|sums| (payload, sums));
        let varies = !(counters.is_empty() && cycles.is_empty() && columns.is_empty());
        let mut simple = simple.into_iter().flatten();
        let simple = core::array::from_fn(|_| simple.next().unwrap_or_default());
        let mut first = [0; UDP.next_multiple_of(BLOCK)];
        first.iter_mut().zip(&bytes).for_each(|(to, from)| *to = *from);
        Self {
            first,
            headers_len: headers_len as u32,
            frame_len: spec.frame_len,
            data_len,
            varied: Varied::of(spec, &bytes).map(Box::new),
            counters,
            cycles,
            columns,
            wide: complete(wide, |wide, field| wide.complete(field, &regions)),
            bytes,
            regions,
            simple,
            payload,
            head_mask: head_mask(data_len % 8),
            head_turn: 8 * (data_len % 8) as u32,
            constant: match pattern.len() % 2 {
                0 => Sum::ZERO.bytes(&pattern),
                _ => Sum::ZERO.word(u64::from(Sum::ZERO.bytes(&pattern).fold().swap_bytes())),
            },
            tagged: spec.tagged,
            seed: spec.seed,
            of_run: OfRun::new(spec.run),
            flows: u64::from(spec.flows.max(1)),
            first_flow: spec.first_flow,
            writer,
            inlined,
            is_plain: inlined == Some((Payload::Smallest, 1)) && !varies,
        }
    }

    /// Returns the bytes of a frame, without FCS.
    #[inline]
    pub fn frame_len(&self) -> usize {
        self.frame_len
    }

    /// Returns the number of flows.
    pub fn flows(&self) -> u64 {
        self.flows
    }

    /// Returns the bytes of the payload before the tag.
    #[inline]
    pub fn data_len(&self) -> usize {
        self.data_len
    }

    /// Writes a packet. Its flow is one of [`ImageSpec::flows`].
    ///
    /// # Panics
    /// When `frame` is not [`Image::frame_len`] bytes long.
    #[inline]
    pub fn write(&self, frame: &mut [u8], place: Place, time_ns: u64) {
        (self.writer)(self, frame, place, time_ns);
    }

    /// Does the same as [`Image::write`] for each of several frames, with one time in all tags. Flow and number are
    /// those of the blanks, whose ports are not used.
    ///
    /// # Panics
    /// When one is not [`Image::frame_len`] bytes long.
    #[inline(always)]
    pub fn write_all<'f>(&self, frames: impl Iterator<Item = Blank<'f>>, time_ns: u64) {
        // The commonest packets are written by a loop without calls.
        match self.inlined {
            Some((Payload::Smallest, 1)) => self.write_each::<SMALLEST, 1>(frames, time_ns),
            Some((Payload::Smallest, 2)) => self.write_each::<SMALLEST, 2>(frames, time_ns),
            Some((Payload::Short, 1)) => self.write_each::<SHORT, 1>(frames, time_ns),
            Some((Payload::Short, 2)) => self.write_each::<SHORT, 2>(frames, time_ns),
            Some((Payload::Medium, 1)) => self.write_each::<MEDIUM, 1>(frames, time_ns),
            Some((Payload::Medium, 2)) => self.write_each::<MEDIUM, 2>(frames, time_ns),
            Some((Payload::Long, 1)) => self.write_each::<LONG, 1>(frames, time_ns),
            Some((Payload::Long, 2)) => self.write_each::<LONG, 2>(frames, time_ns),
            _ => frames.for_each(|Blank { bytes, flow, seq, .. }| {
                (self.writer)(self, bytes, Place { flow, number: seq }, time_ns);
            }),
        }
    }

    /// Does the same as [`Image::write`] for one of several frames, each of which may be of another image. The
    /// commonest packets are written by code in the caller's loop.
    ///
    /// # Panics
    /// When it is not [`Image::frame_len`] bytes long.
    #[inline(always)]
    pub fn write_next(&self, frame: &mut [u8], place: Place, time_ns: u64) {
        match self.is_plain {
            true => self.write_one::<SMALLEST, UDP, 1>(place.blank(frame), &self.simple(), |_, _| (), time_ns),
            false => (self.writer)(self, frame, place, time_ns),
        }
    }

    #[inline(always)]
    fn write_each<'f, const PAYLOAD: u8, const SUMS: usize>(
        &self,
        frames: impl Iterator<Item = Blank<'f>>,
        time_ns: u64,
    ) {
        // The smallest frames have loops apart, if no field varies or one: these hold no other.
        match (&self.counters[..], &self.columns[..]) {
            _ if !self.cycles.is_empty() => self.write_varied::<PAYLOAD, SUMS>(frames, time_ns),
            ([], []) if PAYLOAD == SMALLEST => self.write_with::<PAYLOAD, SUMS>(frames, |_, _| (), time_ns),
            (&[counter], []) if PAYLOAD == SMALLEST => {
                self.write_with::<PAYLOAD, SUMS>(frames, move |blank, sums| counter.write(blank, sums), time_ns);
            }
            ([], [column]) if PAYLOAD == SMALLEST => {
                let flows = self.flows;
                if let Some(draw) = column.draw() {
                    self.write_with::<PAYLOAD, SUMS>(frames, move |blank, sums| draw.write(blank, flows, sums), time_ns)
                } else if let Some(table) = column.table() {
                    self.write_with::<PAYLOAD, SUMS>(frames, move |blank, sums| table.write(blank, sums), time_ns)
                } else {
                    self.write_with::<PAYLOAD, SUMS>(
                        frames,
                        move |blank, sums| column.write(blank, flows, sums),
                        time_ns,
                    )
                }
            }
            _ => self.write_varied::<PAYLOAD, SUMS>(frames, time_ns),
        }
    }

    /// Writes packets with any number of fields that vary.
    #[inline(always)]
    fn write_varied<'f, const PAYLOAD: u8, const SUMS: usize>(
        &self,
        frames: impl Iterator<Item = Blank<'f>>,
        time_ns: u64,
    ) {
        self.write_with::<PAYLOAD, SUMS>(frames, |blank, sums| self.write_fields(blank, sums), time_ns);
    }

    /// Writes packets whose fields that vary are written by `fields`. Out of line: what the loop needs is in registers
    /// there.
    #[inline(never)]
    fn write_with<'f, const PAYLOAD: u8, const SUMS: usize>(
        &self,
        frames: impl Iterator<Item = Blank<'f>>,
        fields: impl Fn(&mut Blank<'_>, &mut [Sum; SUMS]),
        time_ns: u64,
    ) {
        let simple = self.simple::<SUMS>();
        frames.for_each(move |blank| self.write_one::<PAYLOAD, UDP, SUMS>(blank, &simple, &fields, time_ns));
    }

    /// Returns the checksums, all of which are simple and `SUMS` in number.
    #[inline(always)]
    fn simple<const SUMS: usize>(&self) -> [Simple; SUMS] {
        let mut simple = [Simple::default(); SUMS];
        for (to, from) in simple.iter_mut().zip(&self.simple) {
            *to = *from;
        }
        simple
    }

    fn write_simple<const PAYLOAD: u8, const HEADERS: usize, const SUMS: usize>(
        &self,
        frame: &mut [u8],
        place: Place,
        time_ns: u64,
    ) {
        let fields = |blank: &mut Blank<'_>, sums: &mut [Sum; SUMS]| self.write_fields(blank, sums);
        self.write_one::<PAYLOAD, HEADERS, SUMS>(place.blank(frame), &self.simple(), fields, time_ns);
    }

    /// Writes a packet whose checksums are these; `fields` writes the fields that vary.
    #[inline(always)]
    fn write_one<const PAYLOAD: u8, const HEADERS: usize, const SUMS: usize>(
        &self,
        mut blank: Blank<'_>,
        simple: &[Simple; SUMS],
        fields: impl FnOnce(&mut Blank<'_>, &mut [Sum; SUMS]),
        time_ns: u64,
    ) {
        if PAYLOAD == SMALLEST {
            // All places are then constant.
            let len = blank.bytes.len();
            match <&mut [u8; SMALLEST_LEN]>::try_from(blank.bytes) {
                Ok(frame) => blank.bytes = frame,
                Err(_) => wrong_length(len, SMALLEST_LEN),
            }
        }
        self.copy::<PAYLOAD, HEADERS>(blank.bytes);
        let mut sums = simple.map(|sum| sum.constant());
        fields(&mut blank, &mut sums);
        let end = self.write_payload::<PAYLOAD, HEADERS>(&mut blank, time_ns);
        for (at, (simple, sum)) in simple.iter().zip(sums).enumerate() {
            match PAYLOAD == SMALLEST && at == 0 {
                true => Simple::write_udp(blank.bytes, L4, sum, end),
                false => simple.write(blank.bytes, sum, end),
            }
        }
    }

    /// Writes any packet.
    fn write_any<const PAYLOAD: u8>(&self, frame: &mut [u8], place: Place, time_ns: u64) {
        let mut blank = place.blank(frame);
        self.copy::<PAYLOAD, ANY>(blank.bytes);
        let mut sums = [Sum::ZERO; MOST_SUMS];
        for (sum, region) in sums.iter_mut().zip(&self.regions) {
            *sum = region.constant;
        }
        self.write_fields(&mut blank, &mut sums);
        for wide in &self.wide {
            wide.write(blank.bytes, blank.flow.into(), blank.seq, &mut sums);
        }
        let end = self.write_payload::<PAYLOAD, ANY>(&mut blank, time_ns);
        for (region, sum) in self.regions.iter().zip(sums) {
            region.write(&self.regions, blank.bytes, sum, end);
        }
    }

    /// Writes the fields that vary, and adds them to the sums.
    #[inline(always)]
    fn write_fields<const SUMS: usize>(&self, blank: &mut Blank<'_>, sums: &mut [Sum; SUMS]) {
        for counter in &self.counters {
            counter.write(blank, sums);
        }
        for cycle in &self.cycles {
            cycle.write(blank, sums);
        }
        for column in &self.columns {
            column.write(blank, self.flows, sums);
        }
    }

    /// Copies what is constant into a frame.
    #[inline(always)]
    fn copy<const PAYLOAD: u8, const HEADERS: usize>(&self, frame: &mut [u8]) {
        if PAYLOAD != SMALLEST && frame.len() != self.frame_len {
            wrong_length(frame.len(), self.frame_len);
        }
        if HEADERS == ANY {
            let pattern = match self.payload {
                Payload::Constant => self.data_len,
                _ => 0,
            };
            let constant = self.headers_len as usize + pattern;
            frame[..constant].copy_from_slice(&self.bytes[..constant]);
            return;
        }
        let (to, _) = frame.as_chunks_mut::<BLOCK>();
        let (from, _) = match PAYLOAD {
            SMALLEST => self.first.as_chunks::<BLOCK>(),
            _ => self.bytes.as_chunks::<BLOCK>(),
        };
        let blocks = HEADERS.div_ceil(BLOCK);
        if let (Some(to), Some(from)) = (to.get_mut(..blocks), from.get(..blocks)) {
            to.copy_from_slice(from);
        }
    }

    /// Writes what varies of the payload; the sum of the payload, as if its end were at an even place.
    #[inline(always)]
    fn write_payload<const PAYLOAD: u8, const HEADERS: usize>(&self, blank: &mut Blank<'_>, time_ns: u64) -> Sum {
        let (flow, number) = (self.first_flow + blank.flow, blank.seq as u32);
        let at = if HEADERS == ANY {
            self.headers_len as usize
        } else {
            HEADERS
        };
        let base = base(self.seed, u64::from(flow) << 32 | u64::from(number));
        let sum = match PAYLOAD {
            CONSTANT => self.constant,
            SHORT | SMALLEST => {
                // The high bytes of a word, and what they add to the sum. Those of the smallest frame are a word of it.
                let (head, word) = match PAYLOAD {
                    SMALLEST => {
                        let head = head_word(base.wrapping_add(STEP), SMALLEST_DATA);
                        (head, head)
                    }
                    _ => {
                        let word = base.wrapping_add(STEP) & self.head_mask;
                        (word.rotate_left(self.head_turn), word)
                    }
                };
                // The tag is written over what is too much.
                if let Some(out) = blank.bytes.get_mut(at..at + 8) {
                    out.copy_from_slice(&head.to_le_bytes());
                }
                Sum::ZERO.word(word)
            }
            _ => {
                let data = blank.bytes.get_mut(at..at + self.data_len);
                data.map_or(Sum::ZERO, |data| match PAYLOAD {
                    LONG => fill_more_back(base, data),
                    _ => fill_back_and_sum(base, data),
                })
            }
        };
        match blank.bytes.last_chunk_mut::<TAG_LEN>() {
            Some(out) if PAYLOAD == SHORT || PAYLOAD == SMALLEST || self.tagged => {
                let words = self.of_run.words(base, flow, number, time_ns);
                let [first, last] = words.map(u64::swap_bytes);
                out[..8].copy_from_slice(&first.to_le_bytes());
                out[8..].copy_from_slice(&last.to_le_bytes());
                sum.word(first).word(last)
            }
            _ => sum,
        }
    }

    /// Replaces the send time in a frame that the image has written, and updates the checksums (RFC 1624). The frame is
    /// then what [`Image::write`] with the new time would have made it. Does nothing if the frame has another length,
    /// or packets have no tag.
    pub fn restamp(&self, frame: &mut [u8], time_ns: u64) {
        if !self.tagged || frame.len() != self.frame_len {
            return;
        }
        let Some(tag) = frame.last_chunk_mut::<TAG_LEN>() else {
            return;
        };
        let old = u128::from_be_bytes(*tag);
        let new = u128::from_be_bytes(Tag::stamped(*tag, time_ns).bytes(self.seed));
        *tag = new.to_be_bytes();
        let (old, new) = ((old as u64).swap_bytes(), (new as u64).swap_bytes());
        let mut fields = [0; MOST_SUMS];
        for (field, region) in fields.iter_mut().zip(&self.regions) {
            *field = region.read(frame);
        }
        for region in &self.regions {
            region.update(&self.regions, &fields, frame, old, new);
        }
    }

    /// True when the bytes before a tag are those that were sent with it. They are counted from their end, so that
    /// other headers before them do not matter. Flow and number are those of the tag.
    #[inline]
    pub fn verify_payload(&self, before_tag: &[u8], flow: u32, number: u32) -> bool {
        if let Some(varied) = &self.varied {
            let before_data = before_tag.len().checked_sub(self.data_len);
            let before_data = before_data.and_then(|end| before_tag.get(..end));
            let place = (u64::from(flow.wrapping_sub(self.first_flow)), number.into());
            if !before_data.is_some_and(|bytes| varied.is_in(bytes, place, self.flows)) {
                return false;
            }
        }
        match self.payload {
            Payload::Constant => {
                let at = self.headers_len as usize;
                before_tag.ends_with(&self.bytes[at..at + self.data_len])
            }
            // A reader of the tag has worked out the same base: where both are inlined, once is enough.
            _ => verify_back(
                self.seed,
                u64::from(flow) << 32 | u64::from(number),
                before_tag,
                self.data_len,
            ),
        }
    }
}

#[cold]
fn wrong_length(len: usize, wanted: usize) -> ! {
    panic!("frame of {len} bytes: the image's have {wanted}")
}

/// Returns fields with what is known of them last.
fn complete<T>(fields: Vec<(T, &Field)>, with: impl Fn(&mut T, &Field)) -> Vec<T> {
    let complete = |(mut value, field): (T, &Field)| {
        with(&mut value, field);
        value
    };
    fields.into_iter().map(complete).collect()
}

/// Sets the bits of a field.
fn set_bits(headers: &mut [u8], field: &Field, value: u128) {
    for i in 0..field.width as usize {
        let (bit, set) = (field.bit + i, value >> (field.width as usize - 1 - i) & 1 == 1);
        headers[bit / 8] |= u8::from(set) << (7 - bit % 8);
    }
}

#[inline]
const fn ones(width: u32) -> u128 {
    u128::MAX >> (128 - width)
}
