//! Flows: which ports a test's packets carry, and which lane sends which flow.

use std::ops::RangeInclusive;

/// The flows of a test: every source port with every destination port. Flow `f` has source port `f mod n_src` and
/// destination port `f div n_src` of their ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSet {
    src_first: u16,
    src_count: u32,
    dst_first: u16,
    count: u32,
}

impl FlowSet {
    /// All flows between two port ranges, or the first `limit` of them.
    ///
    /// # Panics
    /// When a range is empty or `limit` is 0.
    pub fn new(src: RangeInclusive<u16>, dst: RangeInclusive<u16>, limit: Option<u32>) -> Self {
        assert!(
            !src.is_empty() && !dst.is_empty() && limit != Some(0),
            "a test has at least one flow"
        );
        let src_count = u32::from(*src.end()) - u32::from(*src.start()) + 1;
        let dst_count = u64::from(*dst.end()) - u64::from(*dst.start()) + 1;
        let all = u64::from(src_count) * dst_count;
        let count = all.min(u64::from(limit.unwrap_or(u32::MAX))) as u32;
        Self {
            src_first: *src.start(),
            src_count: src_count.min(count),
            dst_first: *dst.start(),
            count,
        }
    }

    /// Number of flows.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Source and destination port of flow `flow`.
    pub fn ports(&self, flow: u32) -> (u16, u16) {
        let (dst, src) = (flow / self.src_count, flow % self.src_count);
        (self.src_first + src as u16, self.dst_first + dst as u16)
    }

    /// Whether each of these flows is one of `all`, by its ports.
    pub(crate) fn is_within(&self, all: &Self) -> bool {
        // Rows (all source ports of one destination port) are full but for the last, here and there: it is enough to
        // look at the first flow, and at the ends of the last full row and of the last.
        let last_full = self.count / self.src_count * self.src_count - 1;
        let of_all = |flow| {
            let (src, dst) = self.ports(flow);
            all.flow_of(src, dst).is_some()
        };
        [0, last_full, self.count - 1].into_iter().all(of_all)
    }

    /// Whether these flows are the first ones of `all`, by the same numbers.
    pub(crate) fn is_start_of(&self, all: &Self) -> bool {
        (self.src_first, self.dst_first) == (all.src_first, all.dst_first)
            && self.count <= all.count
            && (self.src_count == all.src_count || self.count == self.src_count && self.count <= all.src_count)
    }

    /// The flow with these ports, if it is one of the test's.
    #[inline]
    pub fn flow_of(&self, src_port: u16, dst_port: u16) -> Option<u32> {
        let src = u32::from(src_port.wrapping_sub(self.src_first));
        let dst = u32::from(dst_port.wrapping_sub(self.dst_first));
        if src >= self.src_count || src_port < self.src_first || dst_port < self.dst_first {
            return None;
        }
        let flow = dst * self.src_count + src;
        (flow < self.count).then_some(flow)
    }

    /// The source ports in use.
    pub fn src_ports(&self) -> RangeInclusive<u16> {
        self.src_first..=self.src_first + (self.src_count - 1) as u16
    }

    /// The destination ports in use.
    pub fn dst_ports(&self) -> RangeInclusive<u16> {
        self.dst_first..=self.dst_first + ((self.count - 1) / self.src_count) as u16
    }

    /// How many of the flows lane `lane` of `lanes` sends: those with `flow mod lanes = lane`.
    pub fn count_of_lane(&self, lane: u32, lanes: u32) -> u32 {
        if lane >= self.count {
            0
        } else {
            (self.count - lane - 1) / lanes + 1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_within_others_are_told_as_one_by_one() {
        let sets = || {
            let ranges = [(10u16, 10u16), (10, 12), (11, 12), (11, 14), (9, 11)];
            let pairs = ranges.into_iter().flat_map(move |src| ranges.map(|dst| (src, dst)));
            pairs.flat_map(|((a, b), (c, d))| {
                [None, Some(1), Some(2), Some(4), Some(5), Some(7)].map(|limit| FlowSet::new(a..=b, c..=d, limit))
            })
        };
        for (some, all) in sets().flat_map(|some| sets().map(move |all| (some.clone(), all))) {
            let of_all = |flow| {
                let (src, dst) = some.ports(flow);
                all.flow_of(src, dst)
            };
            let within = (0..some.count()).all(|flow| of_all(flow).is_some());
            assert_eq!(some.is_within(&all), within, "{some:?} {all:?}");
            let start = (0..some.count()).all(|flow| of_all(flow) == Some(flow));
            assert_eq!(some.is_start_of(&all), start, "{some:?} {all:?}");
        }
    }
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_flow_has_its_own_ports_and_is_found_by_them(
            s in any::<u16>(), sn in 0u16..40, d in any::<u16>(), dn in 0u16..40, limit in proptest::option::of(1u32..2000),
        ) {
            let flows = FlowSet::new(s..=s.saturating_add(sn), d..=d.saturating_add(dn), limit);
            let mut seen = std::collections::HashSet::new();
            for f in 0..flows.count() {
                let (a, b) = flows.ports(f);
                prop_assert_eq!(flows.flow_of(a, b), Some(f));
                prop_assert!(flows.src_ports().contains(&a) && flows.dst_ports().contains(&b));
                prop_assert!(seen.insert((a, b)));
            }
            prop_assert_eq!(flows.flow_of(s.wrapping_sub(1), d), None);
            prop_assert_eq!(flows.flow_of(flows.src_ports().end().wrapping_add(1), d).filter(|_| *flows.src_ports().end() != u16::MAX), None);
        }

        #[test]
        fn lanes_share_out_every_flow(count in 1u32..500, lanes in 1u32..9) {
            let flows = FlowSet::new(1..=500, 9..=9, Some(count));
            prop_assert_eq!((0..lanes).map(|l| flows.count_of_lane(l, lanes)).sum::<u32>(), count);
        }
    }
}
