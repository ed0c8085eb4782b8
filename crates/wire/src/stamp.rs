//! The stamp: sequence number and send time at the start of every test packet's payload.

/// Bytes that a stamp takes, and so the shortest UDP payload of a test packet.
pub const STAMP_LEN: usize = 16;

/// Numbers that the sender writes into each packet: two little-endian 64-bit values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Number of the packet within its flow, from 0.
    pub seq: u64,
    /// Send time: ns of the sender's `CLOCK_MONOTONIC`.
    pub time_ns: u64,
}

impl Stamp {
    /// Reads the stamp at the start of a UDP payload; `None` if the payload is shorter.
    #[inline]
    pub fn read(payload: &[u8]) -> Option<Self> {
        let (seq, rest) = payload.split_first_chunk()?;
        Some(Self {
            seq: u64::from_le_bytes(*seq),
            time_ns: u64::from_le_bytes(*rest.first_chunk()?),
        })
    }

    /// Writes the stamp to the start of a UDP payload; does nothing if the payload is shorter.
    #[inline]
    pub fn write(&self, payload: &mut [u8]) {
        if let Some(out) = payload.first_chunk_mut::<STAMP_LEN>() {
            *out = self.to_bytes();
        }
    }

    /// The stamp as it stands on the wire.
    #[inline]
    pub fn to_bytes(self) -> [u8; STAMP_LEN] {
        let mut out = [0; STAMP_LEN];
        out[..8].copy_from_slice(&self.seq.to_le_bytes());
        out[8..].copy_from_slice(&self.time_ns.to_le_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn written_stamp_is_read_back(seq: u64, time_ns: u64, len in 0usize..40) {
            let stamp = Stamp { seq, time_ns };
            let mut payload = vec![0xee; len];
            stamp.write(&mut payload);
            prop_assert_eq!(Stamp::read(&payload), (len >= STAMP_LEN).then_some(stamp));
            prop_assert!(payload.iter().skip(STAMP_LEN).all(|b| *b == 0xee));
        }
    }

    #[test]
    fn stamp_is_little_endian() {
        let stamp = Stamp {
            seq: 0x0102_0304_0506_0708,
            time_ns: 0x1112_1314_1516_1718,
        };
        assert_eq!(
            stamp.to_bytes(),
            [8, 7, 6, 5, 4, 3, 2, 1, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11]
        );
    }
}
