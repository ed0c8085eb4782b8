//! Window on a stream of bytes: the only memory of a reader, of a size that does not depend on the file.

use crate::error::Fault;
use std::io::{self, Read};

/// Bytes of the window: the largest packet, and as much again for the options of its block.
pub(crate) const WINDOW: usize = 512 * 1024;

/// Window on a stream of bytes.
#[derive(Debug)]
pub(crate) struct Window<S> {
    source: S,
    buffer: Box<[u8]>,
    /// First byte that was not passed, and the end of what was read.
    start: usize,
    end: usize,
    /// Offset of `start` in the stream.
    offset: u64,
    /// Offset of the record or block that is looked at.
    mark: u64,
}

impl<S: Read> Window<S> {
    pub(crate) fn new(source: S) -> Self {
        Self {
            source,
            buffer: vec![0; WINDOW].into(),
            start: 0,
            end: 0,
            offset: 0,
            mark: 0,
        }
    }

    /// Marks the place as that of the record or block that begins here.
    #[inline]
    pub(crate) fn mark(&mut self) {
        self.mark = self.offset;
    }

    /// Returns the place that was marked last.
    pub(crate) fn marked(&self) -> u64 {
        self.mark
    }

    /// Reads until `len` bytes are there, [`WINDOW`] at most. False: the stream ends before.
    #[inline]
    pub(crate) fn have(&mut self, len: usize) -> Result<bool, Fault> {
        if self.end - self.start >= len {
            return Ok(true);
        }
        self.fill(len)
    }

    /// Reads until `len` bytes are there.
    ///
    /// # Errors
    /// [`Fault::Truncated`] if the stream ends before, and what the stream fails with.
    #[inline]
    pub(crate) fn want(&mut self, len: usize) -> Result<(), Fault> {
        match self.have(len)? {
            true => Ok(()),
            false => Err(Fault::Truncated),
        }
    }

    #[inline(never)]
    fn fill(&mut self, len: usize) -> Result<bool, Fault> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < len {
            let room = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.source.read(room) {
                Ok(0) => return Ok(false),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Returns the bytes that were read and not passed.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Passes bytes that are there. They stay where they are until more is read: [`Window::passed`] has them.
    #[inline]
    pub(crate) fn pass(&mut self, len: usize) {
        let len = len.min(self.end - self.start);
        self.start += len;
        self.offset += len as u64;
    }

    /// Returns `len` bytes that begin `back` bytes before the first that was not passed.
    #[inline]
    pub(crate) fn passed(&self, back: usize, len: usize) -> &[u8] {
        let from = self.start.saturating_sub(back);
        self.buffer.get(from..from + len).unwrap_or_default()
    }

    /// Passes bytes that may not be there yet.
    ///
    /// # Errors
    /// As [`Window::want`].
    pub(crate) fn skip(&mut self, mut len: u64) -> Result<(), Fault> {
        while len > 0 {
            let now = len.min(WINDOW as u64) as usize;
            self.want(now)?;
            self.pass(now);
            len -= now as u64;
        }
        Ok(())
    }
}
