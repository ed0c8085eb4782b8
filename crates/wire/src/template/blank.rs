//! Frames that a template is to write.

use crate::Stamp;

/// A frame that a template is to write, and the values that are this frame's own.
#[derive(Debug)]
pub struct Blank<'f> {
    /// Bytes to be written: as many as the template's frames have.
    pub bytes: &'f mut [u8],
    /// Flow of the frame, for the caller's own use; nothing of it is written.
    pub flow: u32,
    /// Source and destination port.
    pub ports: (u16, u16),
    /// Sequence number in the stamp.
    pub seq: u64,
}

impl Blank<'_> {
    /// Returns the frame's stamp, with this time.
    #[inline(always)]
    pub fn stamp(&self, time_ns: u64) -> Stamp {
        Stamp { seq: self.seq, time_ns }
    }
}
