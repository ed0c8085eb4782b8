//! Values of header fields as plain numbers, whatever the rule keeps them in: so that words, masks and ranges are
//! handled once and not for each width.

use crate::Masked;

/// A field's value: an unsigned number of at most 128 bits, first byte the most significant.
pub trait Bits: Copy + Eq {
    /// Bits of the field, 8 to 128.
    const WIDTH: u32;
    /// The value as a number.
    fn to_bits(self) -> u128;
    /// The lowest [`Bits::WIDTH`] bits of a number; higher ones are cut off.
    fn of_bits(bits: u128) -> Self;
}

impl Bits for u8 {
    const WIDTH: u32 = 8;
    fn to_bits(self) -> u128 {
        self.into()
    }
    fn of_bits(bits: u128) -> Self {
        bits as Self
    }
}

impl Bits for u16 {
    const WIDTH: u32 = 16;
    fn to_bits(self) -> u128 {
        self.into()
    }
    fn of_bits(bits: u128) -> Self {
        bits as Self
    }
}

impl<const N: usize> Bits for [u8; N] {
    const WIDTH: u32 = {
        assert!(N >= 1 && N <= 16);
        N as u32 * 8
    };
    fn to_bits(self) -> u128 {
        self.iter().fold(0, |all, byte| all << 8 | u128::from(*byte))
    }
    fn of_bits(bits: u128) -> Self {
        std::array::from_fn(|i| (bits >> (8 * (N - 1 - i))) as u8)
    }
}

/// The `width` lowest bits, 0 to 128.
pub(crate) const fn ones(width: u32) -> u128 {
    match width {
        0 => 0,
        _ => u128::MAX >> (128 - width),
    }
}

impl<T: Bits> Masked<T> {
    /// Exactly `value`.
    pub fn exact(value: T) -> Self {
        Self {
            spec: value,
            last: value,
            mask: T::of_bits(u128::MAX),
        }
    }

    /// Whether all bits count and the value is one, not a range.
    pub fn is_exact(&self) -> bool {
        self.mask == T::of_bits(u128::MAX) && !self.is_range()
    }

    /// Whether more than one value of the bits that count is meant.
    pub fn is_range(&self) -> bool {
        let mask = self.mask.to_bits();
        self.spec.to_bits() & mask != self.last.to_bits() & mask
    }

    pub(crate) fn widen(self) -> Masked<u128> {
        Masked {
            spec: self.spec.to_bits(),
            last: self.last.to_bits(),
            mask: self.mask.to_bits(),
        }
    }

    pub(crate) fn narrow(wide: Masked<u128>) -> Self {
        Self {
            spec: T::of_bits(wide.spec),
            last: T::of_bits(wide.last),
            mask: T::of_bits(wide.mask),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_numbers_with_the_first_byte_on_top() {
        assert_eq!([10, 0, 0, 1].to_bits(), 0x0a00_0001);
        assert_eq!(<[u8; 6]>::of_bits(0x0200_0000_0001), [2, 0, 0, 0, 0, 1]);
        assert_eq!(<[u8; 16]>::of_bits(u128::MAX), [255; 16]);
        assert_eq!((ones(0), ones(12), ones(128)), (0, 0xfff, u128::MAX));
    }

    #[test]
    fn a_range_is_one_only_in_the_bits_that_count() {
        let ports = Masked {
            spec: 0x1200_u16,
            last: 0x1234,
            mask: 0xff00,
        };
        assert!(!ports.is_range() && !ports.is_exact());
        assert!(Masked { mask: 0xffff, ..ports }.is_range());
        assert!(Masked::exact(9000_u16).is_exact());
    }
}
