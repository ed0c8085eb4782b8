//! Payloads of test packets.

use super::{MAX_PAYLOAD_V6, TemplateError};
use crate::bytes::chunk_mut;
use crate::{STAMP_LEN, Stamp, data};

/// The payload of a test packet, for paths on which the kernel writes the headers.
#[derive(Clone, Debug)]
pub struct PayloadTemplate {
    payload_len: usize,
    seed: u64,
}

impl PayloadTemplate {
    /// For payloads of `payload_len` bytes, stamp included, with data from `seed`.
    ///
    /// # Errors
    /// [`TemplateError::PayloadLength`] outside of 16 to 65527.
    pub fn new(payload_len: usize, seed: u64) -> Result<Self, TemplateError> {
        if !(STAMP_LEN..=MAX_PAYLOAD_V6).contains(&payload_len) {
            return Err(TemplateError::PayloadLength {
                len: payload_len,
                max: MAX_PAYLOAD_V6,
            });
        }
        Ok(Self { payload_len, seed })
    }

    /// Bytes of the payload.
    #[inline]
    pub fn payload_len(&self) -> usize {
        self.payload_len
    }

    /// Writes the whole payload: stamp and data.
    ///
    /// # Panics
    /// When `payload` is not [`PayloadTemplate::payload_len`] bytes long.
    #[inline]
    pub fn write(&self, payload: &mut [u8], stamp: Stamp) {
        assert_eq!(
            payload.len(),
            self.payload_len,
            "payload of another length than the template's"
        );
        let Some((stamp_out, data_out)) = payload.split_first_chunk_mut::<STAMP_LEN>() else {
            return;
        };
        *stamp_out = stamp.to_bytes();
        data::fill(data::base(self.seed, stamp.seq), data_out);
    }

    /// Replaces the send time in a payload; does nothing if `payload` is shorter than a stamp.
    #[inline]
    pub fn restamp(&self, payload: &mut [u8], time_ns: u64) {
        if let Some(time) = chunk_mut::<8>(payload, 8) {
            *time = time_ns.to_le_bytes();
        }
    }
}
