//! Values of up to 64 bits, and of more bits of which only the low 64 vary: all but random numbers of more bits,
//! and the like.

use super::parts::PartSource;
use super::{Field, ImageSpec, Values, ones};
use crate::data::base;
use crate::vary::{Divisor, shuffled};

/// Lowest and highest value of a field.
pub(super) type Range = (u128, u128);

/// Low 64 bits of a field's values.
#[derive(Clone, Debug)]
pub(super) struct Value {
    low: Low,
    /// Upper 64 bits of all values.
    high: u64,
    /// Bits of the field.
    ones: u64,
    index: Index,
}

/// Place of a flow's value among the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Index {
    /// The flow itself.
    Flow,
    /// The flow divided by the first, modulo the second.
    Divided(Divisor, Divisor),
}

#[derive(Clone, Debug)]
enum Low {
    Counter { start: u64, step: u64 },
    Table(Vec<u64>),
    RandomByFlow(Random),
    RandomByPacket(Random),
    Shuffle { low: u64, count: u64, seed: u64 },
    Same { other: Box<Value>, plus: u64 },
    Hash { others: Vec<Value>, seed: u64 },
    Number,
}

/// Random numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Random {
    low: u64,
    /// Number of values; 0 stands for 2^64.
    count: u64,
    seed: u64,
}

impl Random {
    /// Returns the numbers, moved to the left, as plain numbers.
    pub(super) fn part(self, shift: u32) -> PartSource {
        let Self { low, count, seed } = self;
        PartSource::Random {
            low,
            count,
            seed,
            shift,
        }
    }

    /// Does the same as [`Random::at`]. Out of line: inlined, it would cost the loop over fields its registers.
    #[inline(never)]
    pub(super) fn number(&self, i: u64) -> u64 {
        self.at(i)
    }

    /// Returns number `i` of the sequence.
    #[inline(always)]
    pub(super) fn at(&self, i: u64) -> u64 {
        let random = base(self.seed, i);
        self.low.wrapping_add(match self.count {
            0 => random,
            // The product's upper half: as even as 64 bits allow.
            count => ((u128::from(random) * u128::from(count)) >> 64) as u64,
        })
    }
}

impl Value {
    /// Returns the values of field `at`; `None` if more than 64 bits vary. `ranges` are those of the fields up to it.
    pub(super) fn of(spec: &ImageSpec, at: usize, ranges: &[Range]) -> Option<Self> {
        let field = &spec.fields[at];
        let (lowest, highest) = ranges[at];
        if lowest >> 64 != highest >> 64 {
            return None;
        }
        let other = |field: &usize| Self::of(spec, *field, ranges);
        let low = match &field.values {
            Values::Counter { start, step, .. } => Low::Counter {
                start: *start as u64,
                step: *step as u64,
            },
            Values::Table(values) => Low::Table(values.iter().map(|value| *value as u64).collect()),
            Values::Random {
                low,
                high,
                period,
                seed,
            } => {
                let random = Random {
                    low: *low as u64,
                    count: u64::try_from(high.checked_sub(*low)?).ok()?.wrapping_add(1),
                    seed: *seed,
                };
                match period {
                    Some(_) => Low::RandomByFlow(random),
                    None => Low::RandomByPacket(random),
                }
            }
            Values::Shuffle { low, count, seed } => Low::Shuffle {
                low: *low as u64,
                count: *count,
                seed: *seed,
            },
            Values::Same { field, plus } => Low::Same {
                other: Box::new(other(field)?),
                plus: *plus as u64,
            },
            Values::Hash { fields, seed } => Low::Hash {
                others: fields.iter().map(other).collect::<Option<_>>()?,
                seed: *seed,
            },
            Values::Number => Low::Number,
            Values::ByPacket(_) => return None,
        };
        let index = match field.values.period() {
            Some(period) if field.every > 1 || period < spec.flows.into() => {
                Index::Divided(Divisor::new(field.every), Divisor::new(period))
            }
            _ => Index::Flow,
        };
        Some(Self {
            low,
            high: (lowest >> 64) as u64,
            ones: ones(field.width.min(64)) as u64,
            index,
        })
    }

    /// Returns start and step of a counter that goes on with each flow.
    pub(super) fn counter(&self) -> Option<(u64, u64)> {
        match self.low {
            Low::Counter { start, step } if self.index == Index::Flow => Some((start, step)),
            _ => None,
        }
    }

    /// Returns start and step of a counter that does not, and the divisors that give the place of a flow's value.
    pub(super) fn cycle(&self) -> Option<(u64, u64, Divisor, Divisor)> {
        match (&self.low, self.index) {
            (Low::Counter { start, step }, Index::Divided(every, period)) => Some((*start, *step, every, period)),
            _ => None,
        }
    }

    /// Returns the random numbers that the values are, by packet.
    pub(super) fn random(&self) -> Option<Random> {
        match self.low {
            Low::RandomByPacket(random) => Some(random),
            _ => None,
        }
    }

    /// Returns whether all packets of a flow have the same value.
    pub(super) fn is_by_flow(&self) -> bool {
        match &self.low {
            Low::Counter { .. } | Low::Table(_) | Low::RandomByFlow(_) | Low::Shuffle { .. } => true,
            Low::Same { other, .. } => other.is_by_flow(),
            Low::Hash { others, .. } => others.iter().all(Self::is_by_flow),
            Low::RandomByPacket(_) | Low::Number => false,
        }
    }

    /// Returns the value of a packet.
    #[inline(never)]
    pub(super) fn of_packet(&self, flow: u64, number: u64, flows: u64) -> u64 {
        let index = || match self.index {
            Index::Flow => flow,
            Index::Divided(every, period) => period.remainder(every.quotient(flow)),
        };
        let value = match &self.low {
            Low::Counter { start, step } => start.wrapping_add(step.wrapping_mul(index())),
            Low::Table(values) => values.get(index() as usize).copied().unwrap_or_default(),
            Low::RandomByFlow(random) => random.number(index()),
            Low::RandomByPacket(random) => random.number(number.wrapping_mul(flows).wrapping_add(flow)),
            Low::Shuffle { low, count, seed } => low.wrapping_add(shuffled(index(), *count, *seed)),
            Low::Same { other, plus } => other.of_packet(flow, number, flows).wrapping_add(*plus),
            Low::Hash { others, seed } => {
                let hash = others.iter().fold(*seed, |hash, other| {
                    base(hash, other.of_packet(flow, number, flows) ^ other.high)
                });
                0xc000 | hash & 0x3fff
            }
            Low::Number => number,
        };
        value & self.ones
    }
}

/// Returns the lowest and the highest value of a field, or those of all its bits if they are not known. `before` are
/// those of the fields before it.
pub(super) fn range(field: &Field, flows: u32, before: &[Range]) -> Range {
    let most = ones(field.width);
    let known = match &field.values {
        Values::Counter { start, step, count } => {
            let steps = i128::from((*count).min(flows.into()).max(1) - 1);
            let last = step
                .checked_mul(steps)
                .and_then(|steps| start.checked_add_signed(steps));
            last.map(|last| (*start.min(&last), *start.max(&last)))
        }
        Values::Table(values) => values.iter().min().copied().zip(values.iter().max().copied()),
        Values::Random { low, high, .. } => Some((*low, *high)),
        Values::Shuffle { low, count, .. } => low.checked_add(u128::from(*count).max(1) - 1).map(|high| (*low, high)),
        Values::Same { field, plus } => {
            let (low, high) = before[*field];
            low.checked_add_signed(*plus).zip(high.checked_add_signed(*plus))
        }
        Values::Hash { .. } => Some((0xc000, 0xffff)),
        Values::Number => Some((0, u64::MAX.into())),
        Values::ByPacket(_) => None,
    };
    known
        .filter(|(low, high)| low <= high && *high <= most)
        .unwrap_or((0, most))
}
