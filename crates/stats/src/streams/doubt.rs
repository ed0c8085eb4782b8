//! State of a flow: its stream, and what of it is in doubt.

use super::{NEAR, PROOF};
use crate::times::Delay;

/// Parts of a [`Doubt`] that are in use: packets held aside, an open gap, a leap.
pub(super) const HELD: u8 = 1;
pub(super) const GAP: u8 = 2;
pub(super) const LEAP: u8 = 4;

/// The current stream of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stream {
    /// Lowest sequence number of the stream.
    pub(super) base: u64,
    /// Send time of the highest sequence number.
    pub(super) newest_ns: u64,
    /// Time when a packet of the stream was last received.
    pub(super) heard_ns: u64,
    /// Whether a packet was received.
    pub(super) known: bool,
    /// Parts of [`Doubt`] that are in use: [`HELD`], [`GAP`] and [`LEAP`].
    pub(super) doubt: u8,
}

/// A packet, as it came or as it is held aside.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    pub(super) seq: u64,
    pub(super) time_ns: u64,
    pub(super) delay: Option<Delay>,
    /// Whether the packet counts in [`Doubts::beyond_window`](super::Doubts::beyond_window) instead of
    /// [`Doubts::aside`](super::Doubts::aside).
    pub(super) too_old: bool,
}

/// Gaps that were counted as lost, while no two packets in a row have followed above them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Leap {
    /// Number that was expected before the first of these gaps.
    pub(super) first: u64,
    /// Send time of the highest number before the leap.
    pub(super) time_ns: u64,
    /// Number with which the stream would go on if it had not leapt.
    pub(super) low: u64,
    /// Numbers from `first` on that are counted as lost and have not come.
    pub(super) lost: u64,
    pub(super) gaps: u32,
    /// Packets in order since the last gap.
    pub(super) run: u8,
    /// Packets that went on from `low`.
    pub(super) fills: u8,
}

impl Leap {
    /// Whether a packet continues the stream that began at `base` from where it was before the leap. One or two of the
    /// numbers below may have been forged. A packet that begins at the base again is a sender that was started again.
    pub(super) fn goes_on(&self, base: u64, packet: &Held) -> bool {
        let low = self.low.saturating_sub(PROOF as u64 - 1).max(base + 1);
        packet.time_ns >= self.time_ns && (low..=self.low.saturating_add(NEAR)).contains(&packet.seq)
    }
}

/// An open gap, a leap and packets held aside: one of each per flow, so memory is bounded whatever is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Doubt {
    pub(super) held: [Held; PROOF - 1],
    pub(super) count: u8,
    /// Whether the gap lies below the stream's first packet, not above its highest.
    pub(super) below: bool,
    /// Number of packets that confirm the gap so far.
    pub(super) support: u8,
    /// Packets above the gap that [`Doubts::jumps`](super::Doubts::jumps) counts.
    pub(super) jumps: u32,
    /// Start and end of the gap's numbers, of which `open` have not come.
    pub(super) low: u64,
    pub(super) high: u64,
    pub(super) open: u64,
    /// Number that was expected next in the flow's stream before the current one was believed; 0 if the current one is
    /// the first.
    pub(super) former: u64,
    pub(super) leap: Leap,
}

impl Doubt {
    /// Whether number `seq` continues the earlier stream.
    pub(super) fn goes_back(&self, seq: u64) -> bool {
        self.former != 0 && (self.former..=self.former.saturating_add(NEAR)).contains(&seq)
    }
}
