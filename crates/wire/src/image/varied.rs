//! Bytes at the beginning of a payload that vary: they are written as headers are, and verified as data are.

use super::wide::Value;
use super::{Field, ImageSpec};

/// Beginning of the payload.
#[derive(Clone, Debug)]
pub(super) struct Varied {
    /// Bytes that are the same in all packets, with 0 where others vary, and the bits that are the same.
    constant: Vec<u8>,
    mask: Vec<u8>,
    /// Fields: the first bit, bits, and values.
    fields: Vec<(usize, usize, Value)>,
}

/// Bits of some bytes.
fn bits(bytes: &[u8], first: usize, width: usize) -> u128 {
    (first..first + width).fold(0, |value, bit| {
        let set = bytes.get(bit / 8).is_some_and(|byte| byte >> (7 - bit % 8) & 1 == 1);
        value << 1 | u128::from(set)
    })
}

impl Varied {
    /// Returns the beginning of the payload of these packets; `None`: none of it varies. `bytes`: what is constant.
    pub(super) fn of(spec: &ImageSpec, bytes: &[u8]) -> Option<Self> {
        let start = spec
            .headers
            .len()
            .checked_sub(spec.varied)
            .filter(|_| spec.varied > 0)?;
        let inside = |(_, field): &(usize, &Field)| field.bit >= start * 8;
        let all = spec.fields.iter().enumerate().filter(inside);
        let fields = all.map(|(at, field)| (field.bit - start * 8, field.width as usize, Value::of(&spec.fields, at)));
        let fields: Vec<_> = fields.collect();
        let (mut constant, mut mask) = (bytes.get(start..start + spec.varied)?.to_vec(), vec![0xff; spec.varied]);
        for bit in fields.iter().flat_map(|(first, width, _)| *first..first + width) {
            mask[bit / 8] &= !(0x80 >> (bit % 8));
            constant[bit / 8] &= !(0x80 >> (bit % 8));
        }
        Some(Self { constant, mask, fields })
    }

    /// Returns whether bytes end with those of a packet of this flow and number.
    #[inline(never)]
    pub(super) fn is_in(&self, bytes: &[u8], (flow, number): (u64, u64), flows: u64) -> bool {
        let Some(start) = bytes.len().checked_sub(self.constant.len()) else {
            return false;
        };
        let own = &bytes[start..];
        let constant = own.iter().zip(&self.mask).map(|(byte, mask)| byte & mask);
        constant.eq(self.constant.iter().copied())
            && self
                .fields
                .iter()
                .all(|(first, width, value)| bits(own, *first, *width) == value.of_packet(flow, number, flows))
    }
}
