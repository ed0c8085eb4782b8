//! The Internet checksum (RFC 1071), summed eight bytes at a time.
//!
//! The one's complement sum does not depend on byte order (RFC 1071, section 2 (B)) nor on the width of the words that
//! are added, as long as carries go round the end. So all sums here are over little-endian 64-bit words, folded to 16
//! bits once, and the result is stored little-endian: no byte is swapped on the hosts that matter.

use crate::bytes::tail_word;

/// A running one's complement sum. Its 16-bit words are in little-endian order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

/// Below this many bytes, words are added one by one with carry: the datagram of a 64-byte frame has 26.
const SHORT: usize = 32;

impl Sum {
    /// The sum of nothing.
    pub const ZERO: Self = Self(0);

    /// Adds eight bytes, read as a little-endian word, that start at an even offset.
    #[inline(always)]
    #[must_use]
    pub const fn word(self, word: u64) -> Self {
        // s + c can't overflow: a carry leaves at most 2^64 - 2 behind.
        let (s, c) = self.0.overflowing_add(word);
        Self(s + c as u64)
    }

    /// Adds a 16-bit number that is in network byte order on the wire.
    #[inline(always)]
    #[must_use]
    pub const fn number(self, number: u16) -> Self {
        self.word(number.swap_bytes() as u64)
    }

    /// Adds another sum.
    #[inline(always)]
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        self.word(other.0)
    }

    /// Returns the running sum as a word, to be kept or added to another.
    #[inline(always)]
    pub(crate) const fn to_word(self) -> u64 {
        self.0
    }

    /// Adds bytes that start at an even offset; an odd last byte counts as if a zero followed.
    #[inline]
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        if bytes.len() >= SHORT {
            return self.plus(sum_words(bytes));
        }
        let (mut sum, mut rest) = (self, bytes);
        if let Some((two, after)) = rest.split_first_chunk::<16>() {
            let two = u128::from_le_bytes(*two);
            (sum, rest) = (sum.word(two as u64).word((two >> 64) as u64), after);
        }
        if let Some((one, after)) = rest.split_first_chunk::<8>() {
            (sum, rest) = (sum.word(u64::from_le_bytes(*one)), after);
        }
        if rest.is_empty() {
            sum
        } else {
            sum.word(tail_word(rest))
        }
    }

    /// Adds fewer than 2^32 words, given their sum modulo 2^64 and the exact sum of their high halves.
    #[inline(always)]
    #[must_use]
    pub(crate) const fn halves(self, wrapped: u64, high: u64) -> Self {
        // sum = high * 2^32 + low, and low < 2^64: so low = (sum - high * 2^32) mod 2^64. And
        // 2^32 is 1 modulo 2^16 - 1.
        let low = wrapped.wrapping_sub(high << 32);
        self.word(low).word(high)
    }

    /// The sum in 16 bits, not complemented. Zero only for the sum of zeros.
    #[inline(always)]
    pub const fn fold(self) -> u16 {
        // Adding a word to itself rotated by half leaves the halves' sum, carry included, in the upper half.
        let x = (self.0.wrapping_add(self.0.rotate_left(32)) >> 32) as u32;
        (x.wrapping_add(x.rotate_left(16)) >> 16) as u16
    }

    /// The checksum field's two bytes in the order of transmission.
    #[inline(always)]
    pub const fn finish(self) -> [u8; 2] {
        (!self.fold()).to_le_bytes()
    }

    /// The UDP checksum field: as [`Sum::finish`], but zero, which means "none", is sent as 0xffff (RFC 768).
    #[inline(always)]
    pub const fn finish_udp(self) -> [u8; 2] {
        udp_field(self.fold()).to_le_bytes()
    }

    /// True when the bytes summed contain a right checksum.
    #[inline(always)]
    pub const fn is_valid(self) -> bool {
        self.fold() == 0xffff
    }
}

/// The sum of many bytes.
///
/// A vector unit has no carry flag. Instead of splitting each word in two halves, this adds the whole words modulo 2^64
/// and the high halves exactly; [`Sum::halves`] gets the low halves from these.
#[inline(never)]
fn sum_words(bytes: &[u8]) -> Sum {
    let (words, tail) = bytes.as_chunks::<8>();
    let (mut wrapped, mut high) = (0u64, 0u64);
    for word in words {
        let word = u64::from_le_bytes(*word);
        wrapped = wrapped.wrapping_add(word);
        high += word >> 32;
    }
    let sum = Sum::ZERO.halves(wrapped, high);
    if tail.is_empty() {
        sum
    } else {
        sum.word(tail_word(tail))
    }
}

/// Complements a folded sum; zero becomes 0xffff.
#[inline(always)]
pub(crate) const fn udp_field(folded: u16) -> u16 {
    let field = !folded;
    if field == 0 { 0xffff } else { field }
}

/// The checksum field after a 64-bit word changed from `old` to `new` (RFC 1624, equation 3). `field` and the result
/// are little-endian; the result is never zero, as UDP wants it.
#[inline(always)]
pub(crate) const fn update_udp(field: u16, old: u64, new: u64) -> u16 {
    udp_field(Sum(!field as u64).word(!old).word(new).fold())
}

/// Returns the checksum field after bytes at an even offset changed from `old` to `new` (RFC 1624, equation 3): a wrong
/// one is as wrong as before. Nothing changes where the bytes are the same.
#[must_use]
pub fn updated(field: [u8; 2], old: &[u8], new: &[u8]) -> [u8; 2] {
    if old == new {
        return field;
    }
    let without = Sum(u64::from(!u16::from_le_bytes(field))).word(u64::from(!Sum::ZERO.bytes(old).fold()));
    without.bytes(new).finish()
}

/// Does the same for UDP: 0, which means "none", stays 0, and no other field becomes 0.
#[must_use]
pub fn updated_udp(field: [u8; 2], old: &[u8], new: &[u8]) -> [u8; 2] {
    match (field, updated(field, old, new)) {
        ([0, 0], _) => field,
        (_, [0, 0]) => [0xff; 2],
        (_, field) => field,
    }
}

/// The checksum of `bytes` (RFC 1071) as it stands on the wire.
pub fn internet_checksum(bytes: &[u8]) -> [u8; 2] {
    Sum::ZERO.bytes(bytes).finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071, section 1, to the letter.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum = 0u64;
        for pair in bytes.chunks(2) {
            sum += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
        }
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn rfc_1071_section_3_example() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::ZERO.bytes(&bytes).fold().to_le_bytes(), [0xdd, 0xf2]);
        assert_eq!(internet_checksum(&bytes), [0x22, 0x0d]);
    }

    #[test]
    fn extreme_words_carry_round_the_end() {
        for byte in [0x00, 0xff, 0x80, 0x7f] {
            for len in [0, 1, 2, 7, 8, 63, 64, 65, 95, 96, 97, 1472, 65535] {
                let bytes = vec![byte; len];
                assert_eq!(
                    u16::from_be_bytes(internet_checksum(&bytes)),
                    naive(&bytes),
                    "{len} bytes of {byte:#x}"
                );
            }
        }
    }

    #[test]
    fn rfc_1624_section_4_example() {
        // The old equation would yield 0xffff.
        let (old, new) = ([0x55, 0x55], [0x32, 0x85]);
        assert_eq!(updated([0xdd, 0x2f], &old, &new), [0, 0]);
        assert_eq!(updated_udp([0xdd, 0x2f], &old, &new), [0xff, 0xff]);
        assert_eq!(updated_udp([0, 0], &old, &new), [0, 0]);
        // Either form of zero stays where nothing changes.
        for field in [[0, 0], [0xff, 0xff]] {
            assert_eq!(updated(field, &old, &old), field);
            assert_eq!(updated_udp(field, &new, &new), field);
        }
        assert_eq!(updated_udp([0xff, 0xff], &[0, 0], &[0xff, 0xff]), [0xff, 0xff]);
    }

    proptest! {
        #[test]
        fn an_updated_field_is_as_wrong_as_it_was(
            rest in proptest::collection::vec(any::<u8>(), 0..40), field: [u8; 2], old: [u8; 16], new: [u8; 16],
            few in 1usize..=8,
        ) {
            let (old, new) = (&old[..few * 2], &new[..few * 2]);
            // What a receiver sums up; both forms of zero are right.
            let seen = |bytes: &[u8], field: [u8; 2]| Sum::ZERO.bytes(bytes).bytes(&field).bytes(&rest).fold() % 0xffff;
            let wrong = seen(old, field);
            prop_assert_eq!(seen(new, updated(field, old, new)), wrong);
            match field {
                [0, 0] => prop_assert_eq!(updated_udp(field, old, new), field),
                _ => {
                    prop_assert_ne!(updated_udp(field, old, new), [0, 0]);
                    prop_assert_eq!(seen(new, updated_udp(field, old, new)), wrong);
                }
            }
        }

        #[test]
        fn a_right_field_is_updated_to_the_one_that_is_worked_out(
            rest in proptest::collection::vec(any::<u8>(), 0..40), old: [u8; 8], new: [u8; 8],
        ) {
            prop_assume!(new.iter().chain(&rest).any(|byte| *byte != 0));
            let whole = |bytes: &[u8]| Sum::ZERO.bytes(bytes).bytes(&rest);
            prop_assert_eq!(updated(whole(&old).finish(), &old, &new), whole(&new).finish());
            prop_assert_eq!(updated_udp(whole(&old).finish_udp(), &old, &new), whole(&new).finish_udp());
        }

        #[test]
        fn sum_equals_the_naive_one(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert_eq!(u16::from_be_bytes(internet_checksum(&bytes)), naive(&bytes));
        }

        #[test]
        fn sum_does_not_depend_on_where_it_is_split(
            bytes in proptest::collection::vec(any::<u8>(), 0..400), cut in 0usize..200,
        ) {
            let (a, b) = bytes.split_at((cut * 2).min(bytes.len() & !1));
            let whole = Sum::ZERO.bytes(&bytes).fold();
            prop_assert_eq!(Sum::ZERO.bytes(a).bytes(b).fold(), whole);
            prop_assert_eq!(Sum::ZERO.bytes(a).plus(Sum::ZERO.bytes(b)).fold(), whole);
        }

        #[test]
        fn incremental_update_equals_a_new_sum(rest in 1u64.., old: u64, new: u64) {
            let sum = Sum::ZERO.word(rest);
            let field = u16::from_le_bytes(sum.word(old).finish_udp());
            prop_assert_eq!(update_udp(field, old, new).to_le_bytes(), sum.word(new).finish_udp());
        }
    }

    #[test]
    fn incremental_update_holds_at_the_corners() {
        let corners = [
            0,
            1,
            0xffff,
            0xfffe,
            0xffff_ffff,
            u64::MAX,
            u64::MAX - 1,
            0xffff_0000_ffff_0000,
            1 << 63,
        ];
        for rest in &corners[1..] {
            for old in corners {
                for new in corners {
                    let sum = Sum::ZERO.word(*rest);
                    let field = u16::from_le_bytes(sum.word(old).finish_udp());
                    assert_eq!(update_udp(field, old, new).to_le_bytes(), sum.word(new).finish_udp());
                }
            }
        }
    }
}
