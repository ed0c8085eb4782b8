//! Flows: which addresses and ports a test's packets carry, and which lane sends which flow.
//!
//! A flow has four coordinates: source port, destination port, source address, destination address. Its number gives
//! them, and they give its number, by arithmetic alone: there is no table, however many flows there are. Addresses are
//! counted from the first of their range, so that a set of flows is small and knows no family.

use std::ops::RangeInclusive;

/// How the ranges of a test make its flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Step {
    /// Each value of a range with each of all others. The source port changes from flow to flow; once it has been
    /// through its range the destination port does, then the source address, then the destination address.
    #[default]
    Combine,
    /// All ranges step at once: flow `f` has the value at place `f mod n` of a range of `n`. There are as many flows as
    /// the longest range has values.
    Together,
}

/// The values of one coordinate that flows have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Number of values.
    pub count: u32,
    /// Flows until the next one: flow `f` has value `f / every mod count`.
    pub every: u32,
}

impl Axis {
    #[inline]
    fn place(self, flow: u32) -> u32 {
        if self.count == 1 {
            0
        } else {
            flow / self.every % self.count
        }
    }
}

/// The places along an axis of every n-th flow, one after the other.
#[derive(Clone, Copy, Debug)]
struct Stepped {
    axis: Axis,
    place: u32,
    /// Flows since the place was reached: below [`Axis::every`].
    within: u32,
    /// Step from one flow to the next: places, and the flows that are left over.
    step: (u32, u32),
}

impl Stepped {
    fn of(axis: Axis, flow: u32, step: u32) -> Self {
        Self {
            axis,
            place: axis.place(flow),
            within: flow % axis.every,
            step: (step / axis.every % axis.count, step % axis.every),
        }
    }

    /// Returns the place of the current flow, and goes on to the next flow.
    #[inline]
    fn next(&mut self) -> u32 {
        let place = self.place;
        let (places, rest) = self.step;
        // Neither sum is to run over: a range may have 2^32 - 1 values.
        let wraps = self.within >= self.axis.every - rest;
        self.within = if wraps {
            self.within - (self.axis.every - rest)
        } else {
            self.within + rest
        };
        for by in [places, u32::from(wraps)] {
            let left = self.axis.count - self.place;
            self.place = if by >= left { by - left } else { self.place + by };
        }
        place
    }
}

/// Places of the coordinates in [`FlowSet::axes`].
const SRC_PORT: usize = 0;
const DST_PORT: usize = 1;
const SRC: usize = 2;
const DST: usize = 3;

/// The flows of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSet {
    src_first: u16,
    dst_first: u16,
    /// Source port, destination port, source address, destination address.
    axes: [Axis; 4],
    step: Step,
    /// Index of the axis with the most values, which [`Step::Together`] needs.
    longest: usize,
    /// No address changes, and ports step by [`Step::Combine`].
    plain: bool,
    count: u32,
}

impl FlowSet {
    /// All flows between two port ranges, or the first `limit` of them: [`Step::Combine`], of one pair of addresses.
    ///
    /// # Panics
    /// When a range is empty or `limit` is 0.
    pub fn new(src: RangeInclusive<u16>, dst: RangeInclusive<u16>, limit: Option<u32>) -> Self {
        Self::of(src, dst, (1, 1), Step::Combine, limit)
    }

    /// Flows that are known by their numbers alone: their packets' headers are not made of ports and addresses here.
    ///
    /// # Panics
    /// When there are none.
    pub fn numbered(count: u32) -> Self {
        Self::new(0..=u16::MAX, 0..=u16::MAX, Some(count))
    }

    /// All flows of so many source and destination addresses and of two port ranges, or the first `limit` of them.
    /// There are at most 2^32 - 1: [`FlowSet::wanted`] returns how many there would be without this limit.
    ///
    /// # Panics
    /// When a range is empty or `limit` is 0.
    pub fn of(
        src: RangeInclusive<u16>,
        dst: RangeInclusive<u16>,
        addresses: (u32, u32),
        step: Step,
        limit: Option<u32>,
    ) -> Self {
        let ports = |range: &RangeInclusive<u16>| (u32::from(*range.end()) + 1).saturating_sub((*range.start()).into());
        let counts = [ports(&src), ports(&dst), addresses.0, addresses.1];
        assert!(!counts.contains(&0) && limit != Some(0), "a test has at least one flow");
        let count = Self::wanted(counts, step).min(limit.unwrap_or(u32::MAX).into()) as u32;
        let mut every = 1u32;
        let axes = counts.map(|n| match step {
            Step::Together => Axis {
                count: n.min(count),
                every,
            },
            Step::Combine => {
                // Values beyond the last flow are not used.
                let axis = Axis {
                    count: n.min(count.div_ceil(every)),
                    every,
                };
                every = every.saturating_mul(axis.count);
                axis
            }
        });
        let longest = (0..axes.len()).fold(0, |best, at| match axes[at].count > axes[best].count {
            true => at,
            false => best,
        });
        Self {
            src_first: *src.start(),
            dst_first: *dst.start(),
            plain: step == Step::Combine && axes[SRC].count == 1 && axes[DST].count == 1,
            axes,
            step,
            longest,
            count,
        }
    }

    /// How many flows ranges of these lengths make, whether or not a set has room for them.
    pub fn wanted(counts: [u32; 4], step: Step) -> u128 {
        let counts = counts.map(u128::from);
        match step {
            Step::Combine => counts.iter().product(),
            Step::Together => counts.into_iter().max().unwrap_or(1),
        }
    }

    /// The first `limit` of these flows.
    #[must_use]
    pub fn first(&self, limit: u32) -> Self {
        let [.., src, dst] = self.axes;
        Self::of(
            self.src_ports(),
            self.dst_ports(),
            (src.count, dst.count),
            self.step,
            Some(limit.min(self.count)),
        )
    }

    /// Number of flows.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// How the ranges step.
    pub fn step(&self) -> Step {
        self.step
    }

    /// The values of source port, destination port, source address and destination address, in this order.
    pub fn axes(&self) -> [Axis; 4] {
        self.axes
    }

    /// Index of the axis with the most values: with [`Step::Together`] a flow's number is its place on this axis.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Whether ports alone identify a flow, with [`FlowSet::flow_of`]: all flows have one pair of addresses, and each
    /// source port goes with each destination port.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// Source and destination port of flow `flow`.
    #[inline]
    pub fn ports(&self, flow: u32) -> (u16, u16) {
        let [src, dst, ..] = self.axes;
        (
            self.src_first + src.place(flow) as u16,
            self.dst_first + dst.place(flow) as u16,
        )
    }

    /// Source and destination ports of the flows that lane `lane` of `lanes` sends, in their order.
    ///
    /// A million flows are computed before the first packet leaves. So they are stepped through by addition: a division
    /// takes as long as all else of a flow.
    pub fn ports_of_lane(&self, lane: u32, lanes: u32) -> impl Iterator<Item = (u16, u16)> {
        let [src, dst, ..] = self.axes;
        let mut places = [Stepped::of(src, lane, lanes), Stepped::of(dst, lane, lanes)];
        let first = [self.src_first, self.dst_first];
        (0..self.count_of_lane(lane, lanes)).map(move |_| {
            let [src, dst] = [0, 1].map(|end| first[end] + places[end].next() as u16);
            (src, dst)
        })
    }

    /// Source and destination address of flow `flow`, counted from the first of their ranges.
    #[inline]
    pub fn addresses(&self, flow: u32) -> (u32, u32) {
        let [.., src, dst] = self.axes;
        (src.place(flow), dst.place(flow))
    }

    /// Whether each of these flows is one of `all`, by its ports and addresses.
    pub fn is_within(&self, all: &Self) -> bool {
        if self == all {
            return true;
        }
        if self.step == Step::Together || all.step == Step::Together {
            return (0..self.count).all(|flow| self.flow_in(flow, all).is_some());
        }
        // The flows are boxes: all values of the faster coordinates below each value of a slower one; the rest of the
        // slowest likewise. In `all` the numbers grow along each coordinate, so it is enough to look at a box's first
        // and last corner.
        let mut from = 0;
        let steps = self.axes.iter().rev().filter(|axis| axis.count > 1 || axis.every == 1);
        let mut steps = steps.map(|axis| axis.every);
        steps.all(|every| {
            let whole = (self.count - from) / every * every;
            let corners = [from, (from + whole).saturating_sub(1).max(from)];
            let within = whole == 0 || corners.into_iter().all(|flow| self.flow_in(flow, all).is_some());
            from += whole;
            within
        })
    }

    /// Whether these flows are the first ones of `all`, by the same numbers.
    pub fn is_start_of(&self, all: &Self) -> bool {
        let alike = || (0..self.count).all(|flow| self.flow_in(flow, all) == Some(flow));
        self == all || self.count <= all.count && alike()
    }

    /// The number of one of these flows in another set.
    fn flow_in(&self, flow: u32, all: &Self) -> Option<u32> {
        let ((src_port, dst_port), addresses) = (self.ports(flow), self.addresses(flow));
        all.flow_at(src_port, dst_port, addresses)
    }

    /// The flow with these ports, if it is one of the test's. Only for sets that are [plain](FlowSet::is_plain).
    #[inline]
    pub fn flow_of(&self, src_port: u16, dst_port: u16) -> Option<u32> {
        let src_count = self.axes[SRC_PORT].count;
        let src = u32::from(src_port.wrapping_sub(self.src_first));
        let dst = u32::from(dst_port.wrapping_sub(self.dst_first));
        if src >= src_count || src_port < self.src_first || dst_port < self.dst_first {
            return None;
        }
        let flow = dst * src_count + src;
        (flow < self.count).then_some(flow)
    }

    /// The flow with these ports, and with these addresses, counted from the first of their ranges; if it is one of the
    /// test's.
    #[inline]
    pub fn flow_at(&self, src_port: u16, dst_port: u16, (src, dst): (u32, u32)) -> Option<u32> {
        let src_port = u32::from(src_port).checked_sub(self.src_first.into())?;
        let dst_port = u32::from(dst_port).checked_sub(self.dst_first.into())?;
        let places = [src_port, dst_port, src, dst];
        let along = || self.axes.iter().zip(places);
        if along().any(|(axis, place)| place >= axis.count) {
            return None;
        }
        let flow = match self.step {
            Step::Combine => along()
                .map(|(axis, place)| u64::from(place) * u64::from(axis.every))
                .sum(),
            Step::Together => u64::from(places[self.longest]),
        };
        let flow = u32::try_from(flow).ok().filter(|flow| *flow < self.count)?;
        let together = self.step == Step::Combine || along().all(|(axis, place)| axis.place(flow) == place);
        together.then_some(flow)
    }

    /// The source ports in use.
    pub fn src_ports(&self) -> RangeInclusive<u16> {
        self.src_first..=self.src_first + (self.axes[SRC_PORT].count - 1) as u16
    }

    /// The destination ports in use.
    pub fn dst_ports(&self) -> RangeInclusive<u16> {
        self.dst_first..=self.dst_first + (self.axes[DST_PORT].count - 1) as u16
    }

    /// How many source and destination addresses are in use.
    pub fn address_counts(&self) -> (u32, u32) {
        (self.axes[SRC].count, self.axes[DST].count)
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
#[path = "flows_tests.rs"]
mod tests;
