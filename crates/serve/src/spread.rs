//! Latencies of a run in buckets fine enough for percentiles. Each is 1/32 of a power of two wide, so a value read from
//! them is within 1.6 % of the exact value. One spread is 8 KiB; a state has two, which are copied four times a second.

/// Buckets of each power of two: 2^5.
const BITS: u32 = 5;
const PARTS: u64 = 1 << BITS;
/// Power of two above which all latencies share one bucket: 2^36 ns, 69 s.
const POWERS: u32 = 36;
const COUNT: usize = ((POWERS - BITS + 1) as usize) << BITS;

/// Number of packets per range of latency.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spread {
    /// Counts per bucket; empty until there is a packet.
    counts: Vec<u64>,
    /// Number of all packets.
    pub(crate) count: u64,
    /// Largest latency, ns.
    pub(crate) max: u64,
}

fn place(ns: u64) -> usize {
    if ns < PARTS {
        return ns as usize;
    }
    let shift = ns.ilog2() - BITS;
    let part = (ns >> shift) - PARTS;
    ((u64::from(shift + 1) * PARTS + part) as usize).min(COUNT - 1)
}

/// Returns the first value of a bucket, ns.
fn first(place: usize) -> u64 {
    let (shift, part) = (place as u64 >> BITS, place as u64 & (PARTS - 1));
    match shift {
        0 => part,
        _ => (PARTS + part) << (shift - 1),
    }
}

fn middle(place: usize) -> u64 {
    (first(place) + first(place + 1)) / 2
}

impl Spread {
    /// Adds latencies, ns, each with its number of packets.
    pub(crate) fn add(&mut self, buckets: &[(u64, u64)]) {
        if buckets.is_empty() {
            return;
        }
        self.counts.resize(COUNT, 0);
        for (ns, packets) in buckets {
            self.counts[place(*ns)] += packets;
            self.count += packets;
            self.max = self.max.max(*ns);
        }
    }

    /// Returns the latency that this part of the packets did not exceed, ns; `None` if there are no packets.
    pub(crate) fn at(&self, part: f64) -> Option<u64> {
        let rank = ((part * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        let place = self.counts.iter().position(|packets| {
            seen += packets;
            seen >= rank
        })?;
        Some(middle(place).min(self.max))
    }

    /// Returns the whole spread in at most `most` parts: upper end, ns, and packets. The first and the last part are
    /// not empty. Ends are 1, 1.5, 2, 3, 5 and 7 of each power of ten, or fewer of these if so many do not fit. For
    /// latencies that lie close together, the ends are those of buckets.
    pub(crate) fn parts(&self, most: usize) -> Vec<(u64, u64)> {
        const STEPS: [&[u64]; 3] = [&[10, 15, 20, 30, 50, 70], &[10, 20, 50], &[10]];
        if self.count == 0 || most == 0 {
            return Vec::new();
        }
        let mut parts = Vec::new();
        for steps in STEPS {
            // From 10 ns on, because 1.5 ns can't be an end.
            let ends = (0..=9).flat_map(|power| steps.iter().map(move |step| step * 10u64.pow(power)));
            parts = self.parts_by(ends);
            if parts.len() * 2 <= most {
                // Otherwise half of the room would stay empty.
                let close =
                    (0..BITS).map(|merged| self.parts_by((1..=COUNT >> merged).map(|at| first(at << merged) - 1)));
                return close.into_iter().find(|close| close.len() <= most).unwrap_or(parts);
            }
            if parts.len() <= most {
                return parts;
            }
        }
        // The lowest parts share one row if there are too many powers of ten.
        let over = parts.len() - most;
        let low: u64 = parts.drain(..over).map(|(_, packets)| packets).sum();
        parts[0].1 += low;
        parts
    }

    /// Returns the parts with these upper ends, ns.
    fn parts_by(&self, mut ends: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
        let mut parts: Vec<(u64, u64)> = Vec::new();
        let mut end = ends.next().unwrap_or(u64::MAX);
        let mut packets = 0;
        for (place, count) in self.counts.iter().enumerate() {
            while middle(place) > end {
                parts.push((end, std::mem::take(&mut packets)));
                end = ends.next().unwrap_or(u64::MAX);
            }
            packets += count;
        }
        parts.push((end, packets));
        let some = |(_, packets): &(u64, u64)| *packets > 0;
        let from = parts.iter().position(some).unwrap_or(0);
        let to = parts.iter().rposition(some).map_or(0, |at| at + 1);
        parts[from..to].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_value_is_in_its_bucket_which_is_a_32nd_of_it_wide(ns in 0..1u64 << POWERS) {
            let (low, high) = (first(place(ns)), first(place(ns) + 1));
            prop_assert!((low..high).contains(&ns), "{ns}: {low} to {high}");
            prop_assert!(high - low <= (low / PARTS).max(1), "{ns}: {low} to {high}");
        }

        #[test]
        fn percentiles_are_within_two_percent_and_parts_hold_every_packet(
            values in proptest::collection::vec((1..1u64 << 40, 1..1000u64), 1..50),
            part in 0.0..=1.0f64,
            most in 1..20usize,
        ) {
            let mut spread = Spread::default();
            spread.add(&values);
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let all: u64 = sorted.iter().map(|(_, packets)| packets).sum();
            let rank = ((part * all as f64).ceil() as u64).max(1);
            let mut seen = 0;
            let exact = sorted.iter().find(|(_, packets)| { seen += packets; seen >= rank }).expect("one").0;
            let told = spread.at(part).expect("one");
            if exact < 1 << POWERS {
                prop_assert!((told as f64 - exact as f64).abs() <= exact as f64 * 0.017 + 1.0, "{told} for {exact}");
            }
            let parts = spread.parts(most);
            prop_assert!(parts.len() <= most, "{parts:?}");
            prop_assert_eq!(parts.iter().map(|(_, packets)| packets).sum::<u64>(), all);
            prop_assert!(parts.is_sorted_by(|a, b| a.0 < b.0));
        }
    }

    #[test]
    fn latencies_that_lie_close_together_are_told_apart() {
        let mut spread = Spread::default();
        spread.add(&[(1_001_000, 5), (1_040_000, 90), (1_100_000, 1)]);
        let packets: Vec<_> = spread.parts(10).iter().map(|(_, packets)| *packets).collect();
        assert_eq!(packets, [5, 0, 90, 0, 1]);
    }

    #[test]
    fn parts_begin_and_end_where_packets_are() {
        let mut spread = Spread::default();
        assert_eq!((spread.parts(10), spread.at(0.5)), (Vec::new(), None));
        spread.add(&[(12_000, 5), (45_000, 90), (480_000, 1)]);
        let parts = spread.parts(16);
        assert_eq!((parts[0], parts[parts.len() - 1]), ((15_000, 5), (500_000, 1)));
        let coarse = spread.parts(6);
        assert_eq!(
            coarse.iter().map(|(end, _)| *end).collect::<Vec<_>>(),
            [20_000, 50_000, 100_000, 200_000, 500_000]
        );
    }
}
