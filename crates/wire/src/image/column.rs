//! Fields of an image that vary.
//!
//! A field is written with the bytes behind it, eight in all, which is one store without a load, whatever the field's
//! width. So fields are written from the first to the last: what one writes over the next is written again. Counters
//! go before all others, and those that come again before the rest, if none of these is written over them, because a
//! loop over counters alone holds no choice.

use super::parts::{PartSource, PartWriter};
use super::region::Region;
use super::value::{Random, Range, Value};
use super::wide::Wide;
use super::{Field, ImageSpec, MOST_SUMS, SumOf, ones};
use crate::checksum::Sum;
use crate::template::Blank;
use crate::vary::Divisor;

/// Most flows whose values are computed once and kept. 4096 values lie in the L1 cache.
const MOST_KEPT: u32 = 4096;

/// Eight bytes that are written with a field, and all that is constant about them.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// Bits of the field in the big-endian word at `at`.
    mask: u64,
    /// The other bytes, as a little-endian word.
    constant: u64,
    /// First byte; of 32 bits, so that no sum with it overflows.
    at: u32,
    /// Weights in the checksums, as factors.
    factors: [u64; MOST_SUMS],
}

/// Field whose values are the same distance apart, by flow. Start and step are in the word at the field's place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counter {
    start: u64,
    step: u64,
    window: Window,
}

/// Counter that comes again: it goes on with the flow divided by the first, modulo the second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cycle {
    counter: Counter,
    every: Divisor,
    period: Divisor,
}

/// Random field by packet, and the number of places to the field's place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draw {
    random: Random,
    shift: u32,
    window: Window,
}

/// Field with a word for each flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table<'c> {
    words: &'c [u64],
    window: Window,
}

/// Any field of a window.
#[derive(Clone, Debug)]
pub(super) struct Column {
    source: Source,
    window: Window,
}

/// Origin of a field's values, in the word at the field's place. It has a number of its own, which is compared once:
/// numbers hidden in other values take six instructions.
#[derive(Clone, Debug)]
#[repr(u8)]
pub(super) enum Source {
    /// Values that are the same distance apart, by flow.
    Counter { start: u64, step: u64 },
    /// Values that are the same distance apart and come again: by the flow divided by the first, modulo the second.
    Cycle {
        start: u64,
        step: u64,
        every: Divisor,
        period: Divisor,
    },
    /// Values by flow.
    Table(Vec<u64>),
    /// Random values by packet, and the number of places to the field's place.
    Random(Random, u32),
    /// Any other values, and the number of places to the field's place.
    Any(Box<Value>, u32),
}

/// Field as it is written.
pub(super) enum Written {
    /// The same in all packets: these bits are a part of the headers.
    Constant(u128),
    /// The low 64 bits vary; the others are a part of the headers.
    Column(Column, u128),
    /// Fields of which no column can be made.
    Wide(Wide),
}

impl Column {
    /// Works out how field `at` of an image is written. `ranges` are those of the fields up to it, `after` is the
    /// end of the field before it in the frame, in bits.
    pub(super) fn of(spec: &ImageSpec, at: usize, ranges: &[Range], after: usize) -> Written {
        let field = &spec.fields[at];
        let (low, high) = ranges[at];
        if low == high {
            return Written::Constant(low);
        }
        let column = Value::of(spec, at, ranges).and_then(|value| Self::made(spec, field, value, after));
        match column {
            Some(column) => Written::Column(column, low >> 64 << 64),
            None => Written::Wide(Wide::of(spec, at)),
        }
    }

    fn made(spec: &ImageSpec, field: &Field, value: Value, after: usize) -> Option<Self> {
        // The upper bits of more than 64 are constant.
        let width = field.width.min(64);
        let end = field.bit + field.width as usize;
        let at = (end - width as usize) / 8;
        let fits = end <= at * 8 + 64 && at + 8 <= spec.frame_len && at < 1 << 31;
        // Bits of eight bytes at an odd place overflow when they are turned.
        let turned = |sum: &SumOf| end > (at + 7) * 8 && sum.weight(at, field.bytes()).factor() > 1;
        // A byte of two fields would be written twice.
        if !fits || spec.sums.iter().any(turned) || after.div_ceil(8) > field.bit / 8 {
            return None;
        }
        let shift = (at * 8 + 64 - end) as u32;
        Some(Self {
            source: Source::of(value, spec.flows, shift),
            window: Window {
                mask: (ones(width) as u64) << shift,
                constant: 0,
                at: at as u32,
                factors: [0; MOST_SUMS],
            },
        })
    }

    /// Sets the constant bytes that are written with the field, and the checksums that it counts in.
    pub(super) fn complete(&mut self, field: &Field, bytes: &[u8], regions: &[Region]) {
        let window = &mut self.window;
        let at = window.at as usize;
        let mut constant = [0; 8];
        for (to, from) in constant.iter_mut().zip(&bytes[at.min(bytes.len())..]) {
            *to = *from;
        }
        window.constant = u64::from_le_bytes(constant);
        for (factor, region) in window.factors.iter_mut().zip(regions) {
            *factor = region.of.weight(at, field.bytes()).factor();
        }
    }

    /// Takes those from `columns`, which are in their order in the frame, that `made` makes something of and no other
    /// column is written over.
    pub(super) fn take<T>(columns: &mut Vec<Column>, made: impl Fn(&Column) -> Option<T>) -> Vec<T> {
        let (mut taken, mut written) = (Vec::new(), 0);
        columns.retain(|column| match made(column).filter(|_| column.window.at >= written) {
            Some(made) => {
                taken.push(made);
                false
            }
            None => {
                written = column.window.at + 8;
                true
            }
        });
        taken
    }

    /// Returns the field as a counter that goes on with each flow.
    pub(super) fn counter(&self) -> Option<Counter> {
        let window = self.window;
        match self.source {
            Source::Counter { start, step } => Some(Counter { start, step, window }),
            _ => None,
        }
    }

    /// Returns the field as a counter that comes again.
    pub(super) fn cycle(&self) -> Option<Cycle> {
        let window = self.window;
        match self.source {
            Source::Cycle {
                start,
                step,
                every,
                period,
            } => Some(Cycle {
                counter: Counter { start, step, window },
                every,
                period,
            }),
            _ => None,
        }
    }

    /// Returns the field as a random one by packet.
    #[inline(always)]
    pub(super) fn draw(&self) -> Option<Draw> {
        let window = self.window;
        match self.source {
            Source::Random(random, shift) => Some(Draw { random, shift, window }),
            _ => None,
        }
    }

    /// Returns the field as one with a word for each flow.
    #[inline(always)]
    pub(super) fn table(&self) -> Option<Table<'_>> {
        let window = self.window;
        match &self.source {
            Source::Table(words) => Some(Table { words, window }),
            _ => None,
        }
    }

    /// Returns the field as plain numbers, if it is plain.
    pub(super) fn part(&self, flows: u32) -> Option<PartWriter> {
        Some(self.window.part(self.source.part(flows)?))
    }

    /// Writes the field of a packet, and adds it to the sums.
    #[inline(always)]
    pub(super) fn write<const SUMS: usize>(&self, blank: &mut Blank<'_>, flows: u64, sums: &mut [Sum; SUMS]) {
        let (flow, number) = (u64::from(blank.flow), blank.seq);
        let word = match &self.source {
            Source::Counter { start, step } => start.wrapping_add(step.wrapping_mul(flow)),
            Source::Cycle {
                start,
                step,
                every,
                period,
            } => start.wrapping_add(step.wrapping_mul(place(flow, *every, *period))),
            Source::Table(words) => word_of(words, blank.flow),
            Source::Random(random, shift) => random.number(number.wrapping_mul(flows).wrapping_add(flow)) << shift,
            Source::Any(value, shift) => value.of_packet(flow, number, flows) << shift,
        };
        self.window.write(blank.bytes, word, sums);
    }
}

impl Counter {
    /// Returns the field as plain numbers.
    pub(super) fn part(&self) -> PartWriter {
        let (start, step) = (self.start, self.step);
        self.window.part(PartSource::Counter { start, step })
    }

    /// Writes the field of a packet, and adds it to the sums.
    #[inline(always)]
    pub(super) fn write<const SUMS: usize>(&self, blank: &mut Blank<'_>, sums: &mut [Sum; SUMS]) {
        self.write_at(blank.bytes, blank.flow.into(), sums);
    }

    #[inline(always)]
    fn write_at<const SUMS: usize>(&self, frame: &mut [u8], place: u64, sums: &mut [Sum; SUMS]) {
        let word = self.start.wrapping_add(self.step.wrapping_mul(place));
        self.window.write(frame, word, sums);
    }
}

impl Table<'_> {
    /// Writes the field of a packet, and adds it to the sums.
    #[inline(always)]
    pub(super) fn write<const SUMS: usize>(&self, blank: &mut Blank<'_>, sums: &mut [Sum; SUMS]) {
        self.window.write(blank.bytes, word_of(self.words, blank.flow), sums);
    }
}

/// Returns the word of a flow.
#[inline(always)]
fn word_of(words: &[u64], flow: u32) -> u64 {
    words.get(flow as usize).copied().unwrap_or_default()
}

impl Draw {
    /// Writes the field of a packet, and adds it to the sums.
    #[inline(always)]
    pub(super) fn write<const SUMS: usize>(&self, blank: &mut Blank<'_>, flows: u64, sums: &mut [Sum; SUMS]) {
        let i = blank.seq.wrapping_mul(flows).wrapping_add(blank.flow.into());
        self.window.write(blank.bytes, self.random.at(i) << self.shift, sums);
    }
}

impl Cycle {
    /// Returns the field as plain numbers, a word for each of so many flows.
    pub(super) fn part(&self, flows: u32) -> PartWriter {
        let Counter { start, step, window } = self.counter;
        let word = |flow: u32| start.wrapping_add(step.wrapping_mul(place(flow.into(), self.every, self.period)));
        window.part(PartSource::Table((0..flows).map(word).collect()))
    }

    /// Writes the field of a packet, and adds it to the sums.
    #[inline(always)]
    pub(super) fn write<const SUMS: usize>(&self, blank: &mut Blank<'_>, sums: &mut [Sum; SUMS]) {
        let place = place(blank.flow.into(), self.every, self.period);
        self.counter.write_at(blank.bytes, place, sums);
    }
}

/// Returns the place of a flow's value among those that come again.
#[inline(always)]
pub(super) fn place(flow: u64, every: Divisor, period: Divisor) -> u64 {
    period.remainder(every.quotient(flow))
}

impl Window {
    fn part(&self, source: PartSource) -> PartWriter {
        PartWriter {
            at: self.at,
            mask: self.mask,
            constant: self.constant,
            factors: self.factors,
            source,
        }
    }

    #[inline(always)]
    fn write<const SUMS: usize>(&self, frame: &mut [u8], word: u64, sums: &mut [Sum; SUMS]) {
        let bits = (word & self.mask).swap_bytes();
        let at = self.at as usize;
        if let Some(bytes) = frame.get_mut(at..at + 8) {
            bytes.copy_from_slice(&(self.constant | bits).to_le_bytes());
        }
        for (sum, factor) in sums.iter_mut().zip(self.factors) {
            *sum = sum.word(bits.wrapping_mul(factor));
        }
    }
}

impl Source {
    fn of(value: Value, flows: u32, shift: u32) -> Self {
        if let Some((start, step)) = value.counter() {
            return Self::Counter {
                start: start << shift,
                step: step << shift,
            };
        }
        if let Some((start, step, every, period)) = value.cycle() {
            return Self::Cycle {
                start: start << shift,
                step: step << shift,
                every,
                period,
            };
        }
        if let Some(random) = value.random() {
            return Self::Random(random, shift);
        }
        if value.is_by_flow() && flows <= MOST_KEPT {
            let word = |flow: u32| value.of_packet(flow.into(), 0, 0) << shift;
            return Self::Table((0..flows.max(1)).map(word).collect());
        }
        Self::Any(Box::new(value), shift)
    }
}
