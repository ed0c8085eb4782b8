//! Fields that a [`Column`](super::column::Column) can not write: values that take more than 64 bits to compute, bits
//! of more than eight bytes, and fields that share a byte with another. They are written last, over zeros.

use super::region::Region;
use super::{Field, ImageSpec, MOST_SUMS, Values, ones};
use crate::checksum::Sum;
use crate::data::base;
use crate::vary::{Divisor, scaled, shuffled};

/// Field that is computed in 128 bits.
#[derive(Clone, Debug)]
pub(super) struct Wide {
    /// First byte of the field.
    at: usize,
    bit: usize,
    width: u32,
    value: Value,
    flows: u64,
    /// Weights in the checksums, as factors.
    factors: [u64; MOST_SUMS],
}

/// Value of a field, and those that it is made of.
#[derive(Clone, Debug)]
pub(super) struct Value {
    width: u32,
    every: Divisor,
    period: Divisor,
    /// Number of values, if it is beyond what a divisor takes: by packet alone.
    long: Option<u64>,
    values: Values,
    others: Vec<Value>,
}

impl Wide {
    pub(super) fn of(spec: &ImageSpec, at: usize) -> Self {
        let field = &spec.fields[at];
        Self {
            at: field.bit / 8,
            bit: field.bit,
            width: field.width,
            value: Value::of(&spec.fields, at),
            flows: spec.flows.max(1).into(),
            factors: [0; MOST_SUMS],
        }
    }

    /// Sets the checksums that the field counts in.
    pub(super) fn complete(&mut self, field: &Field, regions: &[Region]) {
        for (factor, region) in self.factors.iter_mut().zip(regions) {
            *factor = region.of.weight(self.at, field.bytes()).factor();
        }
    }

    /// Writes the field of a packet over zeros, and adds it to the sums.
    #[inline(never)]
    pub(super) fn write(&self, frame: &mut [u8], flow: u64, number: u64, sums: &mut [Sum]) {
        // The value at the end of 17 bytes, whose first are those of the field.
        let (bytes, unused) = (
            (self.bit % 8 + self.width as usize).div_ceil(8),
            7 & !(self.bit + self.width as usize - 1),
        );
        let value = self.value.of_packet(flow, number, self.flows);
        let mut whole = [0; 18];
        let (carried, shifted) = (((value >> 64) >> (64 - unused)) as u8, value << unused);
        whole[1] = carried;
        whole[2..].copy_from_slice(&shifted.to_be_bytes());
        let field = &whole[18 - bytes..];
        for (byte, value) in frame[self.at..].iter_mut().zip(field) {
            *byte |= value;
        }
        let part = u64::from(Sum::ZERO.bytes(field).fold());
        for (sum, factor) in sums.iter_mut().zip(self.factors) {
            *sum = sum.word(part * factor);
        }
    }
}

impl Value {
    pub(super) fn of(fields: &[Field], at: usize) -> Self {
        let field = &fields[at];
        let of = |other: &usize| Self::of(fields, *other);
        let others = match &field.values {
            Values::Same { field, .. } => vec![of(field)],
            Values::Hash { fields, .. } => fields.iter().map(of).collect(),
            Values::ByPacket(values) => vec![Self {
                width: field.width,
                every: Divisor::new(1),
                period: Divisor::new(values.period().unwrap_or(1)),
                long: values.period().filter(|period| *period > 1 << 31),
                values: Values::clone(values),
                others: Vec::new(),
            }],
            _ => Vec::new(),
        };
        Self {
            width: field.width,
            every: Divisor::new(field.every),
            period: Divisor::new(field.values.period().unwrap_or(1)),
            // Flows are fewer.
            long: None,
            values: field.values.clone(),
            others,
        }
    }

    pub(super) fn of_packet(&self, flow: u64, number: u64, flows: u64) -> u128 {
        if let (Values::ByPacket(values), [of]) = (&self.values, &self.others[..]) {
            // A tag, and so a receiver, has the lowest bits.
            let number = number & u64::from(u32::MAX);
            return match values.period() {
                Some(_) => of.of_packet(flow + number, 0, flows),
                None => of.of_packet(flow, number, flows),
            };
        }
        let by_flow = || match self.long {
            Some(period) => self.every.quotient(flow) % period,
            None => self.period.remainder(self.every.quotient(flow)),
        };
        let mut others = self.others.iter().map(|other| other.of_packet(flow, number, flows));
        let value = match &self.values {
            Values::Counter { start, step, .. } => start.wrapping_add_signed(step.wrapping_mul(by_flow().into())),
            Values::Table(values) => values.get(by_flow() as usize).copied().unwrap_or_default(),
            Values::Random {
                low,
                high,
                period,
                seed,
            } => {
                let i = match period {
                    Some(_) => by_flow(),
                    None => number.wrapping_mul(flows).wrapping_add(flow),
                };
                low.wrapping_add(scaled(i, *seed, high.wrapping_sub(*low)))
            }
            Values::Shuffle { low, count, seed } => low.wrapping_add(shuffled(by_flow(), *count, *seed).into()),
            Values::Same { plus, .. } => others.next().unwrap_or_default().wrapping_add_signed(*plus),
            Values::Hash { seed, .. } => {
                let hash = others.fold(*seed, |hash, value| base(hash, (value ^ value >> 64) as u64));
                0xc000 | u128::from(hash & 0x3fff)
            }
            Values::Number => number.into(),
            Values::ByPacket(_) => 0,
        };
        value & ones(self.width)
    }
}
