//! Frames that a template or an image is to write.

use crate::Stamp;

/// Frame that a template or an image is to write, and the values that are this frame's own.
#[derive(Debug)]
pub struct Blank<'f> {
    /// Bytes to be written: as many as its frames have.
    pub bytes: &'f mut [u8],
    /// Flow of the frame. A template writes nothing of it.
    pub flow: u32,
    /// Source and destination port; an image does not use them.
    pub ports: (u16, u16),
    /// Sequence number in the stamp, or number in the tag.
    pub seq: u64,
}

impl Blank<'_> {
    /// Returns the frame's stamp, with this time.
    #[inline(always)]
    pub fn stamp(&self, time_ns: u64) -> Stamp {
        Stamp { seq: self.seq, time_ns }
    }
}
