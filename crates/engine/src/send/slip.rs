//! How much later than scheduled each packet was sent, kept until it comes back.
//!
//! The stamp carries the actual send time only. The send lane notes the slip (actual less scheduled) under flow and
//! sequence number; the receive lane looks it up. A ring per flow, one writer; an entry carries the low 32 bits of its
//! sequence number, so one that was overwritten is not mistaken for another.

use crate::plan::TrafficPlan;
use crate::send::sent::LATE_NS;
use std::sync::atomic::{AtomicU64, Ordering};

/// Entries over all flows together at the most: 32 MB.
const MAX_ENTRIES: u64 = 1 << 22;

/// The slips of a run. Written by send lanes, each for its own flows; read by receive lanes.
#[derive(Debug)]
pub(crate) struct Slips {
    entries: Box<[AtomicU64]>,
    per_flow: u64,
}

impl Slips {
    /// Makes the slips of a plan; `None` if nothing is scheduled or nothing comes back.
    pub(crate) fn for_plan(plan: &TrafficPlan) -> Option<Self> {
        let rates = plan.rates().filter(|_| plan.receive)?;
        let settle_ns = plan.common.settle.as_nanos() as u64;
        Some(Self::new(plan.flows.count(), rates.highest_pps(), settle_ns + LATE_NS))
    }

    /// Makes room for the packets that `pps` packets per second have in flight over `keep_ns`, if affordable.
    pub(crate) fn new(flows: u32, pps: f64, keep_ns: u64) -> Self {
        let flows = u64::from(flows.max(1));
        let per_flow = Self::per_flow(flows, pps, keep_ns);
        let mut entries = Vec::new();
        // Tag 0 with slip 0 would be mistaken for packet 0 sent on time, so empty entries carry a tag that is far off.
        entries.resize_with((per_flow * flows) as usize, || AtomicU64::new(u64::MAX));
        Self {
            entries: entries.into_boxed_slice(),
            per_flow,
        }
    }

    fn per_flow(flows: u64, pps: f64, keep_ns: u64) -> u64 {
        let in_flight = ((pps * keep_ns as f64 / 1e9) as u64).min(1 << 40) + 256;
        let wanted = (in_flight / flows + 8).next_power_of_two();
        let affordable = (MAX_ENTRIES / flows).max(8).next_power_of_two();
        wanted.min(affordable)
    }

    /// Returns bytes of the slips of such a run.
    pub(crate) fn bytes(flows: u64, pps: f64, keep_ns: u64) -> u64 {
        let flows = flows.max(1);
        flows.saturating_mul(Self::per_flow(flows, pps, keep_ns) * 8)
    }

    #[inline]
    fn entry(&self, flow: u32, seq: u64) -> &AtomicU64 {
        &self.entries[(u64::from(flow) * self.per_flow + (seq & (self.per_flow - 1))) as usize]
    }

    /// Notes the slip of a packet, ns; the longest that is kept is about 4.29 s.
    #[inline]
    pub(crate) fn note(&self, flow: u32, seq: u64, slip_ns: u64) {
        let slip = slip_ns.min(u64::from(u32::MAX - 1));
        self.entry(flow, seq).store((seq << 32) | slip, Ordering::Relaxed);
    }

    /// Returns the slip of a packet, ns; `None` when it is no longer kept.
    #[inline]
    pub(crate) fn of(&self, flow: u32, seq: u64) -> Option<u64> {
        let entry = self.entry(flow, seq).load(Ordering::Relaxed);
        (entry >> 32 == seq & 0xFFFF_FFFF && entry != u64::MAX).then_some(entry & 0xFFFF_FFFF)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_found_until_overwritten_and_never_mistaken() {
        let slips = Slips::new(3, 0.0, 0);
        assert_eq!(slips.of(0, 0), None);
        assert_eq!(slips.of(2, u64::from(u32::MAX)), None);
        for seq in 0..5_000 {
            slips.note(1, seq, seq * 3);
            assert_eq!(slips.of(1, seq), Some(seq * 3));
            assert_eq!(slips.of(0, seq), None);
        }
        assert_eq!(slips.of(1, 0), None);
        slips.note(2, 9, u64::MAX);
        assert_eq!(slips.of(2, 9), Some(u64::from(u32::MAX - 1)));
    }
}
