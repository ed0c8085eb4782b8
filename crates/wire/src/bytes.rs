//! Bounds-checked reads of fixed width: the one way in which parsers of this crate touch a frame.

use crate::headers::PLAIN_HEADERS;

/// The `N` bytes at `at`, or `None` if the slice ends before.
#[inline(always)]
pub(crate) fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

/// The `N` bytes at `at`, writable, or `None` if the slice ends before.
#[inline(always)]
pub(crate) fn chunk_mut<const N: usize>(bytes: &mut [u8], at: usize) -> Option<&mut [u8; N]> {
    bytes.get_mut(at..)?.first_chunk_mut()
}

/// Whether two pairs of Ethernet and IPv4 headers are the same. In pieces of a vector's size, the last of which
/// overlaps the one before: for all of it `==` is a call of `memcmp`.
#[inline(always)]
pub(crate) fn same_headers(a: &[u8; PLAIN_HEADERS], b: &[u8; PLAIN_HEADERS]) -> bool {
    let piece =
        |bytes: &[u8; PLAIN_HEADERS], at: usize| chunk::<16>(bytes, at).map_or(0, |piece| u128::from_le_bytes(*piece));
    let differ = [0, 16, 18]
        .iter()
        .fold(0, |any, &at| any | (piece(a, at) ^ piece(b, at)));
    differ == 0
}

/// The big-endian 16-bit number at `at`.
#[inline(always)]
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    chunk(bytes, at).map(|b| u16::from_be_bytes(*b))
}

/// Exchanges the `N` bytes at `at` with the `N` bytes that follow them; false, with nothing changed, if the slice
/// ends before.
#[inline(always)]
pub(crate) fn swap_neighbours<const N: usize>(bytes: &mut [u8], at: usize) -> bool {
    let Some((first, rest)) = bytes.get_mut(at..).and_then(|b| b.split_first_chunk_mut::<N>()) else {
        return false;
    };
    let Some(second) = rest.first_chunk_mut::<N>() else {
        return false;
    };
    core::mem::swap(first, second);
    true
}

/// Exchanges the two MAC addresses at the start of a frame; nothing if it is shorter than both. As two words that
/// don't overlap, each read and written whole: forwarders do this to every packet, and a read that spans two writes
/// waits for both.
#[inline(always)]
pub(crate) fn swap_macs(frame: &mut [u8]) {
    let Some((first, rest)) = frame.split_first_chunk_mut::<8>() else {
        return;
    };
    let Some(second) = rest.first_chunk_mut::<4>() else {
        return;
    };
    let (front, back) = (u64::from_le_bytes(*first), u32::from_le_bytes(*second));
    *first = (front >> 48 | u64::from(back) << 16 | front << 48).to_le_bytes();
    *second = ((front >> 16) as u32).to_le_bytes();
}

/// Up to seven bytes as the low bytes of a little-endian word. A chain of fixed widths: a copy of variable length
/// would be a call to `memcpy`.
#[inline(always)]
pub(crate) fn tail_word(tail: &[u8]) -> u64 {
    debug_assert!(tail.len() < 8);
    let mut word = 0;
    let mut shift = 0;
    let mut rest = tail;
    if let Some((four, after)) = rest.split_first_chunk::<4>() {
        word = u64::from(u32::from_le_bytes(*four));
        shift = 32;
        rest = after;
    }
    if let Some((two, after)) = rest.split_first_chunk::<2>() {
        word |= u64::from(u16::from_le_bytes(*two)) << shift;
        shift += 16;
        rest = after;
    }
    if let Some(one) = rest.first() {
        word |= u64::from(*one) << shift;
    }
    word
}

/// Writes the low bytes of `word`, as many as `tail` holds (at most seven), little-endian.
#[inline(always)]
pub(crate) fn write_tail_word(word: u64, tail: &mut [u8]) {
    debug_assert!(tail.len() < 8);
    let mut word = word;
    let mut rest = tail;
    if rest.len() >= 4 {
        let (four, after) = rest.split_at_mut(4);
        four.copy_from_slice(&(word as u32).to_le_bytes());
        word >>= 32;
        rest = after;
    }
    if rest.len() >= 2 {
        let (two, after) = rest.split_at_mut(2);
        two.copy_from_slice(&(word as u16).to_le_bytes());
        word >>= 16;
        rest = after;
    }
    if let Some(one) = rest.first_mut() {
        *one = word as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swapping_mac_addresses_exchanges_six_bytes_with_six_and_leaves_the_rest() {
        for len in 0..20usize {
            let mut frame: Vec<u8> = (0..len as u8).collect();
            let mut expected = frame.clone();
            swap_neighbours::<6>(&mut expected, 0);
            swap_macs(&mut frame);
            assert_eq!(frame, expected, "{len}");
        }
    }
}
