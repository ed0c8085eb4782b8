//! A burst: the unit in which frames move between a queue and the engine.

use arrayvec::ArrayVec;

/// Largest number of frames in one burst. Large enough for one UDP GRO super-packet (128 segments) with room to spare.
pub const MAX_BURST: usize = 256;

/// A small, fixed-capacity array of frames moved in one call. Allocates when made and never after, so two bursts can
/// change places for the price of two pointers.
///
/// Dropping a burst drops its frames, which gives each back to its pool.
pub struct Burst<F> {
    frames: Box<ArrayVec<F, MAX_BURST>>,
    limit: usize,
}

impl<F> Burst<F> {
    /// An empty burst that queues fill up to `limit` frames (1 to [`MAX_BURST`]; clamped).
    pub fn new(limit: usize) -> Self {
        Self {
            frames: Box::new(ArrayVec::new()),
            limit: limit.clamp(1, MAX_BURST),
        }
    }

    /// Number of frames held.
    #[inline]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// True when no frame is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// How many more frames fit below the limit.
    #[inline]
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.frames.len())
    }

    /// The most frames that this burst holds.
    #[inline]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Appends a frame; hands it back when the burst is full.
    #[inline]
    pub fn push(&mut self, frame: F) -> core::result::Result<(), F> {
        if self.room() == 0 {
            return Err(frame);
        }
        self.frames.try_push(frame).map_err(|e| e.element())
    }

    /// The array itself, for paths whose calls fill and empty it in place. Code that appends keeps to [`Burst::room`].
    #[inline]
    pub fn array_mut(&mut self) -> &mut ArrayVec<F, MAX_BURST> {
        &mut self.frames
    }

    /// Removes and yields the first `n` frames (all of them when fewer are held); the rest move to the front.
    #[inline]
    pub fn drain(&mut self, n: usize) -> impl Iterator<Item = F> + '_ {
        let n = n.min(self.frames.len());
        self.frames.drain(..n)
    }

    /// Drops every frame, which gives them back to their pools.
    #[inline]
    pub fn clear(&mut self) {
        self.frames.clear();
    }

    /// The frames, in order.
    #[inline]
    pub fn as_slice(&self) -> &[F] {
        &self.frames
    }

    /// The frames, in order, writable.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [F] {
        &mut self.frames
    }

    /// Keeps only the frames for which `keep` is true, in order; drops the others.
    #[inline]
    pub fn retain(&mut self, keep: impl FnMut(&mut F) -> bool) {
        self.frames.retain(keep);
    }

    /// Exchanges the frames of two bursts; each keeps its limit. Only for bursts of one limit: a burst never holds more
    /// than it may.
    ///
    /// # Panics
    /// When either would then hold more frames than its limit.
    #[inline]
    pub fn swap(&mut self, other: &mut Self) {
        assert!(
            self.len() <= other.limit && other.len() <= self.limit,
            "bursts of different limits"
        );
        std::mem::swap(&mut self.frames, &mut other.frames);
    }

    /// Removes the last frame.
    #[inline]
    pub fn pop(&mut self) -> Option<F> {
        self.frames.pop()
    }
}
