//! Numbers of any width at any bit of a frame. Bit 0 is the top bit of byte 0.

/// Returns bits of a frame, `width` from 1 to 128; bits behind its end are 0.
pub fn get(frame: &[u8], bit: usize, width: u32) -> u128 {
    let (first, last) = (bit / 8, (bit + width as usize).div_ceil(8));
    let mut value = 0u128;
    // The last bits of a wide field that begins within a byte are put on apart.
    for at in first..last {
        let byte = frame.get(at).copied().unwrap_or(0);
        let (from, to) = ((at * 8).max(bit), (at * 8 + 8).min(bit + width as usize));
        let part = u128::from(byte >> (at * 8 + 8 - to)) & ((1 << (to - from)) - 1);
        value = value << (to - from) | part;
    }
    value
}

/// Sets bits of a frame to those of `value`, `width` from 1 to 128; bits behind its end are left out.
pub fn set(frame: &mut [u8], bit: usize, width: u32, mut value: u128) {
    let (first, last) = (bit / 8, (bit + width as usize).div_ceil(8));
    for at in (first..last).rev() {
        let (from, to) = ((at * 8).max(bit), (at * 8 + 8).min(bit + width as usize));
        let mask = ((1u16 << (to - from)) - 1) as u8;
        let shift = at * 8 + 8 - to;
        if let Some(byte) = frame.get_mut(at) {
            *byte = *byte & !(mask << shift) | (value as u8 & mask) << shift;
        }
        value >>= to - from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_are_those_of_the_number(value: u128, bit in 0usize..20, width in 1u32..=128, around: [u8; 24]) {
            let value = value & (u128::MAX >> (128 - width));
            let mut frame = around;
            for at in 0..width as usize {
                let (byte, mask) = ((bit + at) / 8, 0x80 >> ((bit + at) % 8));
                match value >> (width as usize - 1 - at) & 1 {
                    1 => frame[byte] |= mask,
                    _ => frame[byte] &= !mask,
                }
            }
            prop_assert_eq!(get(&frame, bit, width), value);
            let mut mine = around;
            set(&mut mine, bit, width, value);
            prop_assert_eq!(mine, frame);
        }

        #[test]
        fn bits_behind_the_end_are_zero_and_left_out(len in 0usize..20, bit in 0usize..200, width in 1u32..=128) {
            let mut whole = [0xff; 64];
            whole[len..].fill(0);
            prop_assert_eq!(get(&whole[..len], bit, width), get(&whole, bit, width));
            let mut cut = vec![0xff; len];
            set(&mut cut, bit, width, 0);
            let mut full = [0xff; 64];
            set(&mut full, bit, width, 0);
            prop_assert_eq!(&cut[..], &full[..len]);
        }
    }
}
