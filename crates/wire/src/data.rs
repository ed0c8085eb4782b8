//! The data after the stamp: a function of seed and sequence number, so that the receiver can detect any change.
//!
//! Word `i` (eight bytes, little-endian) is `base + (i + 1) * STEP` modulo 2^64, where `base` is number `seq` of the
//! SplitMix64 sequence that starts at `seed`; a last partial word is its low bytes. One addition makes a word, each
//! word depends on its place (a swapped or shifted word shows), and all lanes of a vector are independent.

use crate::bytes::{tail_word, write_tail_word};
use crate::checksum::Sum;
use crate::stamp::STAMP_LEN;

/// Difference between neighbouring words; odd, so that no two words of a packet are equal, with bits all over.
pub const STEP: u64 = 0xd134_2543_de82_ef95;

/// Increment of SplitMix64: 2^64 divided by the golden ratio.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Number `seq` (from 0) of the SplitMix64 sequence that starts at `seed`.
#[inline(always)]
pub const fn base(seed: u64, seq: u64) -> u64 {
    // The first sum is the same for all packets of a seed.
    let z = seed.wrapping_add(GAMMA).wrapping_add(seq.wrapping_mul(GAMMA));
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Fills `out`, the payload from byte 16 on, for packet `seq`.
#[inline]
pub fn fill_data(seed: u64, seq: u64, out: &mut [u8]) {
    fill(base(seed, seq), out);
}

/// True when `data`, the payload from byte 16 on, is what [`fill_data`] writes.
#[inline(always)]
pub fn verify_data(seed: u64, seq: u64, data: &[u8]) -> bool {
    compare::<false>(base(seed, seq), data).0 == 0
}

/// Does the same as [`verify_data`] for the data in `payload`, which has a stamp, and sums the data in the same pass.
#[inline(always)]
pub(crate) fn verify_and_sum(seed: u64, seq: u64, payload: &[u8]) -> (bool, Sum) {
    let Some(data) = payload.get(STAMP_LEN..) else {
        return (false, Sum::ZERO);
    };
    let (difference, sum) = compare_in::<true>(base(seed, seq), data, payload);
    (difference == 0, sum)
}

/// The bits in which `data` differs from the words that follow `base` and, with `SUM`, its sum.
#[inline(always)]
fn compare<const SUM: bool>(base: u64, data: &[u8]) -> (u64, Sum) {
    if data.len() >= 8 {
        return compare_words::<SUM>(base, data);
    }
    if data.is_empty() {
        return (0, Sum::ZERO);
    }
    let word = tail_word(data);
    (word ^ partial_word(base, data.len()), Sum::ZERO.word(word))
}

/// Out of line: inlined, it would cost the shortest packets more than their whole check.
#[inline(never)]
fn compare_words<const SUM: bool>(base: u64, data: &[u8]) -> (u64, Sum) {
    compare_in::<SUM>(base, data, data)
}

/// Does the same as [`compare`] for `data`, which is the end of `whole`, a slice of at least eight bytes.
#[inline(always)]
fn compare_in<const SUM: bool>(base: u64, data: &[u8], whole: &[u8]) -> (u64, Sum) {
    let (words, tail) = data.as_chunks::<8>();
    let (difference, sum) = match words.len() {
        0 => (0, Sum::ZERO),
        1 => compare_few::<SUM, 1>(base, words),
        2 => compare_few::<SUM, 2>(base, words),
        3 => compare_few::<SUM, 3>(base, words),
        4 => compare_few::<SUM, 4>(base, words),
        5 => compare_few::<SUM, 5>(base, words),
        6 => compare_few::<SUM, 6>(base, words),
        7 => compare_few::<SUM, 7>(base, words),
        _ => compare_many::<SUM>(base, words),
    };
    let (Some(end), 1..8) = (whole.last_chunk::<8>(), tail.len()) else {
        return (difference, sum);
    };
    // One read of the last eight bytes, the first of which were compared already: reads of four, two and one would be
    // three.
    let word = u64::from_le_bytes(*end) >> (64 - 8 * tail.len());
    let right = partial_word(word_of(base, words.len()), tail.len());
    (difference | (word ^ right), sum.word(word))
}

/// Word `n` of those that follow `base`, counted from 1.
#[inline(always)]
const fn word_of(base: u64, n: usize) -> u64 {
    base.wrapping_add(STEP.wrapping_mul(n as u64))
}

/// Out of line: the vector loop would cost shorter packets their registers.
#[inline(never)]
fn compare_many<const SUM: bool>(base: u64, words: &[[u8; 8]]) -> (u64, Sum) {
    let mut next = base;
    let (mut difference, mut high) = (0, 0);
    for word in words {
        let word = u64::from_le_bytes(*word);
        next = next.wrapping_add(STEP);
        difference |= next ^ word;
        high += word >> 32;
    }
    let sum = match (SUM, difference) {
        (false, _) => Sum::ZERO,
        (true, 0) => sum_of_series(base, words.len(), high),
        // The sum matters for a packet of somebody else, whose checksum may be right.
        (true, _) => Sum::ZERO.bytes(words.as_flattened()),
    };
    (difference, sum)
}

/// Does the same as [`compare_many`], for so few words that a loop over vectors costs more to set up than to run.
#[inline(always)]
fn compare_few<const SUM: bool, const N: usize>(base: u64, words: &[[u8; 8]]) -> (u64, Sum) {
    let Some(words) = words.first_chunk::<N>() else {
        return (0, Sum::ZERO);
    };
    let (mut difference, mut sum) = (0, Sum::ZERO);
    for (n, word) in (1..).zip(words) {
        let word = u64::from_le_bytes(*word);
        difference |= word ^ word_of(base, n);
        if SUM {
            sum = sum.word(word);
        }
    }
    (difference, sum)
}

/// The word after `last`, cut to `len` bytes (1 to 7).
#[inline(always)]
fn partial_word(last: u64, len: usize) -> u64 {
    last.wrapping_add(STEP) & !(u64::MAX << (8 * len))
}

/// Fills `out`, which ends where a tag begins, for packet `seq`: its words count backwards from the end, so that they
/// can be verified wherever the payload begins. Word `i` is word `i` of [`fill_data`]; a first partial word is its high
/// bytes.
pub fn fill_back(seed: u64, seq: u64, out: &mut [u8]) {
    fill_back_and_sum(base(seed, seq), out);
}

/// Fills `out` as [`fill_back`] does, and returns its sum, as if its end were at an even place. Out of line, because it
/// is long.
#[inline(never)]
pub(crate) fn fill_back_and_sum(base: u64, out: &mut [u8]) -> Sum {
    match out.len() / 8 {
        0 => {
            let (word, len) = (word_of(base, 1), out.len());
            for (byte, value) in out.iter_mut().zip(head_word(word, len).to_le_bytes()) {
                *byte = value;
            }
            Sum::ZERO.word(word & head_mask(len))
        }
        1 => fill_words_back(base, out, fill_few_back::<1>),
        2 => fill_words_back(base, out, fill_few_back::<2>),
        3 => fill_words_back(base, out, fill_few_back::<3>),
        4 => fill_words_back(base, out, fill_few_back::<4>),
        5 => fill_words_back(base, out, fill_few_back::<5>),
        6 => fill_words_back(base, out, fill_few_back::<6>),
        7 => fill_words_back(base, out, fill_few_back::<7>),
        _ => fill_more_back(base, out),
    }
}

/// Does the same as [`fill_back_and_sum`], for any length of at least eight bytes.
#[inline(always)]
pub(crate) fn fill_more_back(base: u64, out: &mut [u8]) -> Sum {
    fill_words_back(base, out, fill_many_back)
}

#[inline(always)]
fn fill_words_back(base: u64, out: &mut [u8], fill: impl FnOnce(u64, &mut [[u8; 8]]) -> Sum) -> Sum {
    let (words, head) = (out.len() / 8, out.len() % 8);
    let last = word_of(base, words + 1);
    // One store for all bytes of the partial word: the word behind it is written over the rest.
    if let Some(first) = out.first_chunk_mut::<8>() {
        *first = head_word(last, head).to_le_bytes();
    }
    let (_, chunks) = out.as_rchunks_mut::<8>();
    fill(base, chunks).word(last & head_mask(head))
}

/// Returns the high bytes of `word`, `head` (0 to 7) of them, as the low bytes of a word.
#[inline(always)]
pub(crate) const fn head_word(word: u64, head: usize) -> u64 {
    word >> 8 >> (56 - 8 * head)
}

/// Returns a mask of the high bytes of a word, `head` (0 to 7) of them.
#[inline(always)]
pub(crate) const fn head_mask(head: usize) -> u64 {
    !(u64::MAX >> (8 * head))
}

#[inline(always)]
fn fill_few_back<const N: usize>(base: u64, words: &mut [[u8; 8]]) -> Sum {
    let mut sum = Sum::ZERO;
    if let Some(words) = words.first_chunk_mut::<N>() {
        for (n, out) in (1..).zip(words.iter_mut().rev()) {
            let word = word_of(base, n);
            *out = word.to_le_bytes();
            sum = sum.word(word);
        }
    }
    sum
}

#[inline(always)]
fn fill_many_back(base: u64, words: &mut [[u8; 8]]) -> Sum {
    let mut next = word_of(base, words.len());
    let mut high = 0;
    for word in words.iter_mut() {
        *word = next.to_le_bytes();
        high += next >> 32;
        next = next.wrapping_sub(STEP);
    }
    sum_of_series(base, words.len(), high)
}

/// True when the last `len` bytes of `before`, which ends where a tag begins, are what [`fill_back`] writes; false if
/// it has fewer.
#[inline(always)]
pub fn verify_back(seed: u64, seq: u64, before: &[u8], len: usize) -> bool {
    let base = base(seed, seq);
    match before.last_chunk::<8>() {
        // One read of the last eight bytes, the first of which are headers.
        Some(last) if len < 8 => (u64::from_le_bytes(*last) ^ word_of(base, 1)) & head_mask(len) == 0,
        _ => verify_any_back(base, before, len),
    }
}

/// Out of line for the same reason as [`compare_words`].
#[inline(never)]
fn verify_any_back(base: u64, before: &[u8], len: usize) -> bool {
    let Some(data) = before.len().checked_sub(len).and_then(|start| before.get(start..)) else {
        return false;
    };
    let (head, words) = data.as_rchunks::<8>();
    let mut next = word_of(base, words.len());
    let mut difference = tail_word(head) ^ head_word(next.wrapping_add(STEP), head.len());
    for word in words {
        difference |= u64::from_le_bytes(*word) ^ next;
        next = next.wrapping_sub(STEP);
    }
    difference == 0
}

/// Fills `out` with the words that follow `base`.
#[inline(always)]
pub(crate) fn fill(base: u64, out: &mut [u8]) {
    fill_and_sum(base, out);
}

/// Fills `out` with the words that follow `base` and sums what it wrote, in one pass.
#[inline(always)]
pub(crate) fn fill_and_sum(base: u64, out: &mut [u8]) -> Sum {
    if out.len() < 8 {
        fill_tail(base, out)
    } else {
        fill_words(base, out)
    }
}

/// Out of line for the same reason as [`compare_words`].
#[inline(never)]
fn fill_words(base: u64, out: &mut [u8]) -> Sum {
    match out.len() / 8 {
        1 => fill_exactly::<1>(base, out),
        2 => fill_exactly::<2>(base, out),
        3 => fill_exactly::<3>(base, out),
        4 => fill_exactly::<4>(base, out),
        5 => fill_exactly::<5>(base, out),
        6 => fill_exactly::<6>(base, out),
        7 => fill_exactly::<7>(base, out),
        _ => fill_more(base, out),
    }
}

/// Does the same as [`fill_and_sum`] if `out` holds `N` whole words and perhaps a part of another. Other lengths are
/// not filled.
#[inline(always)]
pub(crate) fn fill_exactly<const N: usize>(base: u64, out: &mut [u8]) -> Sum {
    if N == 0 {
        return fill_tail(base, out);
    }
    let (words, tail) = out.as_chunks_mut::<8>();
    let tail = tail.len();
    fill_few::<N>(base, words).plus(fill_end(word_of(base, N), tail, out))
}

/// Does the same as [`fill_and_sum`], for any length of at least eight bytes.
#[inline(always)]
pub(crate) fn fill_more(base: u64, out: &mut [u8]) -> Sum {
    let (words, tail) = out.as_chunks_mut::<8>();
    let (n, tail) = (words.len(), tail.len());
    fill_many(base, words).plus(fill_end(word_of(base, n), tail, out))
}

/// Fills the last `tail` bytes (0 to 7) of `out`, whose word before them is `last`: one store of eight bytes, the first
/// of which are there already. Pieces of four, two and one byte cost three branches.
#[inline(always)]
fn fill_end(last: u64, tail: usize, out: &mut [u8]) -> Sum {
    let (Some(end), 1..8) = (out.last_chunk_mut::<8>(), tail) else {
        return Sum::ZERO;
    };
    let next = last.wrapping_add(STEP);
    *end = (last >> (8 * tail) | next << (64 - 8 * tail)).to_le_bytes();
    Sum::ZERO.word(next & !(u64::MAX << (8 * tail)))
}

#[inline(always)]
fn fill_many(base: u64, words: &mut [[u8; 8]]) -> Sum {
    let mut next = base;
    let mut high = 0;
    for word in words.iter_mut() {
        next = next.wrapping_add(STEP);
        *word = next.to_le_bytes();
        high += next >> 32;
    }
    sum_of_series(base, words.len(), high)
}

/// The sum of the `n` words that follow `base`, given the sum of their high halves. They are an arithmetic series, so
/// that their sum modulo 2^64 needs no loop; that of the high halves does.
#[inline(always)]
fn sum_of_series(base: u64, n: usize, high: u64) -> Sum {
    let n = n as u64;
    let wrapped = n.wrapping_mul(base).wrapping_add(STEP.wrapping_mul(n * (n + 1) / 2));
    Sum::ZERO.halves(wrapped, high)
}

/// Does the same as [`fill_many`], for so few words that a loop over vectors costs more to set up than to run.
#[inline(always)]
fn fill_few<const N: usize>(base: u64, words: &mut [[u8; 8]]) -> Sum {
    let mut sum = Sum::ZERO;
    if let Some(words) = words.first_chunk_mut::<N>() {
        for (n, out) in (1..).zip(words) {
            let word = word_of(base, n);
            *out = word.to_le_bytes();
            sum = sum.word(word);
        }
    }
    sum
}

#[inline(always)]
fn fill_tail(last: u64, tail: &mut [u8]) -> Sum {
    if tail.is_empty() {
        return Sum::ZERO;
    }
    let word = partial_word(last, tail.len());
    write_tail_word(word, tail);
    Sum::ZERO.word(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, a byte at a time.
    fn naive(seed: u64, seq: u64, len: usize) -> Vec<u8> {
        let byte = |i: usize| {
            let word = base(seed, seq).wrapping_add((i as u64 / 8 + 1).wrapping_mul(STEP));
            word.to_le_bytes()[i % 8]
        };
        (0..len).map(byte).collect()
    }

    #[test]
    fn base_is_splitmix64() {
        // The first outputs for seed 1234567, as published with the generator's reference implementation.
        let published = [
            6457827717110365317,
            3203168211198807973,
            9817491932198370423,
            4593380528125082431,
        ];
        for (seq, want) in published.into_iter().enumerate() {
            assert_eq!(base(1234567, seq as u64), want);
        }
    }

    proptest! {
        #[test]
        fn fill_equals_the_definition_and_verifies(seed: u64, seq: u64, len in 0usize..1600) {
            let mut out = vec![0; len];
            fill_data(seed, seq, &mut out);
            prop_assert_eq!(&out, &naive(seed, seq, len));
            prop_assert!(verify_data(seed, seq, &out));
        }

        #[test]
        fn words_count_backwards_from_a_tag(seed: u64, seq: u64, len in 0usize..400, odd: bool, flip in 1u8..) {
            let len = if odd { len } else { len / 4 };
            let mut out = vec![0xee; len];
            let sum = fill_back_and_sum(base(seed, seq), &mut out);
            let whole = naive(seed, seq, len + 8);
            let words = whole.chunks_exact(8);
            let back: Vec<u8> = words.rev().flatten().copied().collect();
            let want = &back[back.len() - len..];
            prop_assert_eq!(&out[..], want);
            let even = if len % 2 == 0 { want.to_vec() } else { [&[0], want].concat() };
            prop_assert_eq!(sum.fold(), Sum::ZERO.bytes(&even).fold());
            let before = |out: &[u8]| [&[0xdd; 9][..], out].concat();
            prop_assert!(verify_back(seed, seq, &out, len));
            prop_assert!(verify_back(seed, seq, &before(&out), len));
            prop_assert!(!verify_back(seed, seq, &out, len + 1));
            if let Some(byte) = out.get_mut(usize::from(flip) % len.max(1)) {
                *byte ^= flip;
                prop_assert!(!verify_back(seed, seq, &out, len));
                prop_assert!(!verify_back(seed, seq, &before(&out), len));
            }
        }

        #[test]
        fn verifying_sums_whatever_it_reads(
            seed: u64, seq: u64, len in prop_oneof![0usize..80, 0usize..1600],
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
            stamp: [u8; STAMP_LEN],
        ) {
            let mut out = vec![0; len];
            fill_data(seed, seq, &mut out);
            for (at, byte) in changes {
                if let Some(place) = out.get_mut(at.index(len.max(1))) {
                    *place = byte;
                }
            }
            let payload = [&stamp[..], &out].concat();
            let (right, sum) = verify_and_sum(seed, seq, &payload);
            prop_assert_eq!(right, out == naive(seed, seq, len));
            prop_assert_eq!(right, verify_data(seed, seq, &out));
            prop_assert_eq!(sum.fold(), Sum::ZERO.bytes(&out).fold());
        }

        #[test]
        fn fused_sum_equals_a_sum_afterwards(base: u64, len in 0usize..1600) {
            let mut out = vec![0; len];
            let sum = fill_and_sum(base, &mut out);
            prop_assert_eq!(sum.fold(), Sum::ZERO.bytes(&out).fold());
        }

        #[test]
        fn any_changed_byte_shows(seed: u64, seq: u64, len in 1usize..400, at: prop::sample::Index, flip in 1u8..) {
            let mut out = vec![0; len];
            fill_data(seed, seq, &mut out);
            out[at.index(len)] ^= flip;
            prop_assert!(!verify_data(seed, seq, &out));
        }

        #[test]
        fn swapped_and_shifted_words_show(
            seed: u64,
            seq: u64,
            words in 2usize..100,
            a: prop::sample::Index,
            b: prop::sample::Index,
        ) {
            let mut out = vec![0; words * 8];
            fill_data(seed, seq, &mut out);
            let (a, b) = (a.index(words), b.index(words));
            let mut swapped = out.clone();
            for i in 0..8 {
                swapped.swap(a * 8 + i, b * 8 + i);
            }
            prop_assert_eq!(verify_data(seed, seq, &swapped), a == b);
            out.rotate_left(8);
            prop_assert!(!verify_data(seed, seq, &out));
        }

        #[test]
        fn other_seeds_and_numbers_show(seed: u64, seq: u64, other: u64, len in 8usize..64) {
            let mut out = vec![0; len];
            fill_data(seed, seq, &mut out);
            prop_assert_eq!(verify_data(seed, other, &out), seq == other);
            prop_assert_eq!(verify_data(other, seq, &out), seed == other);
        }
    }

    #[test]
    fn largest_payload_sums_right() {
        let mut out = vec![0; 65527 - 16];
        for base in [0, u64::MAX, 0xffff_ffff_0000_0000] {
            let sum = fill_and_sum(base, &mut out);
            assert_eq!(sum.fold(), Sum::ZERO.bytes(&out).fold());
        }
    }
}
