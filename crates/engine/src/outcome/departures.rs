//! Departure times of the packets of one send lane: a point every so often, between which packets left evenly.
//!
//! A burst costs one comparison, and a point is written a few times per millisecond at the most, so packets pay
//! nothing. A lane sends its flows in turn, so a packet's flow and sequence number give its number among the lane's
//! packets.

/// Number of points of a lane.
const POINTS: usize = 1 << 15;
/// Least distance of two points, ns.
const LEAST_NS: u64 = 50_000;
/// Distance of two points if the length of the run is not known, ns: there is room for 54 minutes.
const OPEN_NS: u64 = 100_000_000;

/// Packets of a lane, and their departure times.
#[derive(Debug)]
pub(crate) struct Departures {
    /// Number of a packet among those of the lane, and its departure, ns; in ascending order.
    points: Vec<(u64, u64)>,
    every_ns: u64,
    /// Time in ns when the next point is due.
    due_ns: u64,
    /// Packets written so far.
    written: u64,
    flows: u64,
}

impl Departures {
    /// Makes room for a lane with `flows` flows in a run of `duration_ns`; `None`: not known.
    pub(crate) fn new(flows: usize, duration_ns: Option<u64>) -> Self {
        // Each stall is two points.
        let every_ns = duration_ns.map_or(OPEN_NS, |ns| ns / (POINTS as u64 / 2));
        let mut points = vec![(u64::MAX, 0); POINTS];
        points.clear();
        Self {
            points,
            every_ns: every_ns.max(LEAST_NS),
            due_ns: 0,
            written: 0,
            flows: flows as u64,
        }
    }

    /// Notes that `n` packets are written that leave at `now_ns`; earlier packets left by `before_ns`.
    #[inline]
    pub(crate) fn wrote(&mut self, n: usize, now_ns: u64, before_ns: u64) {
        if now_ns >= self.due_ns {
            self.point(now_ns, before_ns);
        }
        self.written += n as u64;
    }

    #[cold]
    fn point(&mut self, now_ns: u64, before_ns: u64) {
        if self.points.len() + 2 > self.points.capacity() {
            // From here on no time is recorded.
            self.due_ns = u64::MAX;
            return;
        }
        // Across a stall, packets did not leave evenly.
        if self.written > 0 && now_ns.saturating_sub(before_ns) >= self.every_ns {
            self.points.push((self.written - 1, before_ns));
        }
        self.points.push((self.written, now_ns));
        self.due_ns = now_ns + self.every_ns;
    }

    /// Notes that the rate changes: the next burst is a point.
    #[cold]
    pub(crate) fn turns(&mut self, before_ns: u64) {
        if self.due_ns != u64::MAX && self.written > 0 && self.points.len() + 2 < self.points.capacity() {
            self.points.push((self.written - 1, before_ns));
            self.due_ns = 0;
        }
    }

    /// Ends the record with the lane. The last `unsent` packets written did not leave, and the last one that left did
    /// so at `last_ns`.
    pub(crate) fn end(&mut self, unsent: usize, last_ns: u64) {
        self.written -= (unsent as u64).min(self.written);
        let full = self.due_ns == u64::MAX;
        self.points.retain(|&(number, _)| number < self.written);
        if self.written > 0 && !full {
            self.points.push((self.written - 1, last_ns));
        }
    }

    /// Returns how many of the packets belong to the lane's flow at `place`.
    pub(crate) fn sent_of(&self, place: u64) -> u64 {
        self.written.saturating_sub(place).div_ceil(self.flows)
    }

    /// Returns the number among the lane's packets of packet `seq` of the flow at `place`.
    pub(crate) fn number(&self, place: u64, seq: u64) -> u64 {
        seq * self.flows + place
    }

    /// Returns when packet `number` left, ns; `None`: not recorded.
    pub(crate) fn time_of(&self, number: u64) -> Option<u64> {
        let after = self.points.partition_point(|&(n, _)| n < number);
        let &(next, to_ns) = self.points.get(after)?;
        if next == number {
            return Some(to_ns);
        }
        let &(last, from_ns) = self.points.get(after.checked_sub(1)?)?;
        let part = u128::from(to_ns.saturating_sub(from_ns)) * u128::from(number - last) / u128::from(next - last);
        Some(from_ns + part as u64)
    }

    /// Returns how many packets had left before `at_ns`; `None`: not recorded.
    pub(crate) fn sent_before(&self, at_ns: u64) -> Option<u64> {
        let after = self.points.partition_point(|&(_, ns)| ns < at_ns);
        let Some(&(next, to_ns)) = self.points.get(after) else {
            return (self.points.last()?.0 + 1 == self.written).then_some(self.written);
        };
        let Some(&(last, from_ns)) = after.checked_sub(1).and_then(|before| self.points.get(before)) else {
            return Some(next);
        };
        let part = u128::from(next - last) * u128::from(at_ns - from_ns);
        Some(last + part.div_ceil(u128::from(to_ns - from_ns)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_between_points_left_evenly_and_a_stall_is_none_of_them() {
        let mut departures = Departures::new(4, Some(1_000_000_000));
        // 1 Mpps in bursts of 10, a stall of 1 ms after 10 ms, and no more from 20 ms on.
        let (mut at, mut before) = (5_000_000, 0);
        for burst in 0..1_900 {
            if burst == 1_000 {
                at += 1_000_000;
            }
            departures.wrote(10, at, before);
            before = at;
            at += 10_000;
        }
        departures.end(5, before);
        assert_eq!(
            (departures.written, departures.sent_of(0), departures.sent_of(3)),
            (18_995, 4_749, 4_748)
        );
        assert_eq!(departures.number(3, 7), 31);
        let time = |number| departures.time_of(number).unwrap();
        assert_eq!(time(0), 5_000_000);
        for number in [1, 4_321, 9_990, 9_999] {
            assert!(time(number).abs_diff(5_000_000 + number * 1_000) < 20_000, "{number}");
        }
        assert!(time(9_999) <= 15_000_000 && time(10_000) == 16_000_000);
        for number in [10_001, 15_000, 18_994] {
            assert!(time(number).abs_diff(6_000_000 + number * 1_000) < 20_000, "{number}");
            assert!(
                departures.sent_before(time(number)).unwrap().abs_diff(number) <= 20,
                "{number}"
            );
        }
        assert_eq!(departures.time_of(18_995), None);
        assert_eq!(departures.sent_before(u64::MAX), Some(18_995));
        assert_eq!(departures.sent_before(15_900_000), Some(10_000));
    }

    #[test]
    fn what_was_not_written_down_is_not_known() {
        let mut departures = Departures::new(1, Some(0));
        for i in 0..POINTS as u64 * 2 {
            departures.wrote(1, i * LEAST_NS * 2, i * LEAST_NS * 2);
        }
        departures.end(0, 1 << 60);
        assert_eq!(departures.time_of(100), Some(100 * LEAST_NS * 2));
        assert_eq!(
            (departures.time_of(POINTS as u64 + 1), departures.sent_before(1 << 61)),
            (None, None)
        );
        let mut none = Departures::new(1, None);
        none.end(0, 0);
        assert_eq!((none.time_of(0), none.sent_before(7)), (None, None));
    }
}
