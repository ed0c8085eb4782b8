//! Latencies in buckets of 1, 2 and 5, as in Prometheus' histograms.

/// Upper ends of the buckets, ns: 1 µs to 10 s.
pub(crate) const ENDS: [u64; 22] = {
    let mut ends = [0; 22];
    let (mut at, mut decade) = (0, 1_000);
    while at < ends.len() {
        ends[at] = decade * [1, 2, 5][at % 3];
        at += 1;
        if at % 3 == 0 {
            decade *= 10;
        }
    }
    ends
};

/// Number of packets per range of latency.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Buckets {
    /// Packets above the previous end, up to this end.
    counts: [u64; ENDS.len()],
    /// All packets, those above the last end included.
    pub(crate) count: u64,
    /// Sum of all latencies, ns.
    pub(crate) sum_ns: f64,
}

impl Buckets {
    pub(crate) fn add(&mut self, buckets: &[(u64, u64)]) {
        for (ns, packets) in buckets {
            let at = ENDS.partition_point(|end| end < ns);
            if let Some(count) = self.counts.get_mut(at) {
                *count += packets;
            }
            self.count += packets;
            self.sum_ns += *ns as f64 * *packets as f64;
        }
    }

    /// Returns each end, ns, with the number of packets up to it.
    pub(crate) fn up_to(&self) -> impl Iterator<Item = (u64, u64)> {
        let sums = self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        ENDS.into_iter().zip(sums.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_go_from_a_microsecond_to_ten_seconds_and_count_each_packet_once() {
        assert_eq!((ENDS[0], ENDS[1], ENDS[2], ENDS[3]), (1_000, 2_000, 5_000, 10_000));
        assert_eq!(ENDS[ENDS.len() - 1], 10_000_000_000);
        let mut buckets = Buckets::default();
        buckets.add(&[
            (1, 2),
            (1_000, 3),
            (1_001, 5),
            (10_000_000_000, 7),
            (20_000_000_000, 11),
        ]);
        let all: Vec<_> = buckets.up_to().collect();
        assert_eq!(
            (all[0], all[1], all[21]),
            ((1_000, 5), (2_000, 10), (10_000_000_000, 17))
        );
        assert_eq!(buckets.count, 28);
    }
}
