//! Times when packets were lost: neighbouring rows with loss make one stretch of time.
//!
//! A run of hours has many stretches, so only the largest are kept with their times. The others are kept as a number of
//! stretches and of packets. The sum stays exact: it is `largest + more_packets - found_later`.

use mpps_trace::LostTimes;

/// Number of stretches that are kept with their times. Each gets a cause.
const KEPT: usize = 100;
/// Number of stretches that a report names.
const NAMED: usize = 5;
/// Loss after a pause shorter than this extends the stretch before: short rows without loss occur by chance.
const BRIDGE_NS: u64 = 100_000_000;

/// Packets lost within one stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// Start of the stretch, ns since the start of the run.
    pub from_ns: u64,
    /// End of the stretch, ns since the start of the run.
    pub to_ns: u64,
    /// Packets lost in the stretch.
    pub packets: u64,
}

/// Times when packets were lost. The total is the sum of `largest`, plus `more_packets`, less `found_later`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stretches {
    /// Stretches that lost the most, in the order of time.
    pub largest: Vec<Stretch>,
    /// Number of other stretches.
    pub more: u64,
    /// Packets lost in the other stretches.
    pub more_packets: u64,
    /// Packets that counted as lost in a stretch and came after that stretch had ended.
    pub found_later: u64,
}

impl Stretches {
    /// Returns the stretches as a report names them: the largest five in the order of time, and the others together.
    pub fn named(&self) -> Self {
        let mut named = self.clone();
        while named.largest.len() > NAMED {
            let least = take_least(&mut named.largest);
            named.more += 1;
            named.more_packets += least.packets;
        }
        named
    }

    /// Returns the times when these packets may have been dropped, in a run that began at `start_ns` of the host's
    /// clock and sent for `duration_ns`.
    pub fn lost_times(&self, start_ns: u64, duration_ns: u64) -> LostTimes {
        let end_ns = start_ns + duration_ns;
        let stretches = self.largest.iter();
        let stretches = stretches.map(|s| LostTimes::stretch(start_ns + s.from_ns, start_ns + s.to_ns, end_ns));
        LostTimes {
            stretches: stretches.collect(),
            packets: self.packets(),
            more_packets: self.more_packets,
        }
    }

    /// Returns all packets lost, less those found later.
    pub fn packets(&self) -> u64 {
        let largest: u64 = self.largest.iter().map(|stretch| stretch.packets).sum();
        (largest + self.more_packets).saturating_sub(self.found_later)
    }
}

/// Removes and returns the smallest stretch; of equal ones the latest.
fn take_least(stretches: &mut Vec<Stretch>) -> Stretch {
    let least = (0..stretches.len()).rev().min_by_key(|&i| stretches[i].packets);
    stretches.remove(least.unwrap_or(0))
}

/// Makes stretches from counts that come in the order of time.
#[derive(Debug, Default)]
pub(crate) struct Stretching {
    open: Option<Stretch>,
    ended: Stretches,
}

impl Stretching {
    /// Adds `packets` lost between two times, ns since the start. A negative number is packets that came after all.
    pub(crate) fn add(&mut self, from_ns: u64, to_ns: u64, packets: i64) {
        if packets < 0 {
            let mut found = packets.unsigned_abs();
            if let Some(open) = &mut self.open {
                let of_it = found.min(open.packets);
                open.packets -= of_it;
                found -= of_it;
            }
            self.ended.found_later += found;
            return;
        }
        if packets == 0 {
            return;
        }
        let packets = packets.unsigned_abs();
        match &mut self.open {
            Some(open) if from_ns < open.to_ns + BRIDGE_NS => {
                open.to_ns = open.to_ns.max(to_ns);
                open.packets += packets;
            }
            _ => {
                self.close();
                self.open = Some(Stretch {
                    from_ns,
                    to_ns,
                    packets,
                });
            }
        }
    }

    fn close(&mut self) {
        let Some(stretch) = self.open.take().filter(|stretch| stretch.packets > 0) else {
            return;
        };
        let Stretches {
            largest,
            more,
            more_packets,
            ..
        } = &mut self.ended;
        largest.push(stretch);
        if largest.len() > KEPT {
            let stretch = take_least(largest);
            *more += 1;
            *more_packets += stretch.packets;
        }
    }

    /// Returns all stretches.
    pub(crate) fn end(mut self) -> Stretches {
        self.close();
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stretches(rows: &[(u64, i64)], row_ns: u64) -> Stretches {
        let mut all = Stretching::default();
        for &(row, lost) in rows {
            all.add(row * row_ns, (row + 1) * row_ns, lost);
        }
        all.end()
    }

    #[test]
    fn neighbouring_rows_are_one_stretch_and_a_clean_row_of_100_ms_parts_two() {
        let found = stretches(&[(3, 5), (4, 7), (5, 0), (6, 1)], 100_000_000);
        let stretch = |from_ns, to_ns, packets| Stretch {
            from_ns,
            to_ns,
            packets,
        };
        assert_eq!(
            found.largest,
            [
                stretch(300_000_000, 500_000_000, 12),
                stretch(600_000_000, 700_000_000, 1)
            ]
        );
        // Rows of 1 ms: a pause of less than 100 ms does not split a stretch.
        let found = stretches(&[(3, 5), (50, 7), (200, 1)], 1_000_000);
        assert_eq!(
            found.largest,
            [stretch(3_000_000, 51_000_000, 12), stretch(200_000_000, 201_000_000, 1)]
        );
    }

    #[test]
    fn packets_found_later_leave_their_stretch_or_are_counted() {
        let found = stretches(&[(0, 5), (1, -2), (10, 4), (30, -6)], 100_000_000);
        assert_eq!(found.largest.iter().map(|s| s.packets).collect::<Vec<_>>(), [3]);
        assert_eq!((found.found_later, found.packets()), (2, 1));
    }

    proptest! {
        #[test]
        fn a_few_are_kept_in_order_they_are_the_largest_and_the_sum_is_exact(
            losses in proptest::collection::vec(0i64..1000, 0..300),
        ) {
            let rows: Vec<_> = losses.iter().enumerate().map(|(i, &lost)| (i as u64 * 2, lost)).collect();
            let found = stretches(&rows, 200_000_000);
            let mut all: Vec<u64> = losses.iter().filter(|&&n| n > 0).map(|&n| n as u64).collect();
            all.sort_unstable_by(|a, b| b.cmp(a));
            for (found, most) in [(&found, KEPT), (&found.named(), NAMED)] {
                prop_assert_eq!(found.packets(), losses.iter().sum::<i64>() as u64);
                let mut kept: Vec<_> = found.largest.iter().map(|s| s.packets).collect();
                prop_assert!(kept.len() <= most);
                prop_assert!(found.largest.windows(2).all(|pair| pair[0].to_ns <= pair[1].from_ns));
                prop_assert_eq!(found.more as usize, all.len() - kept.len());
                kept.sort_unstable_by(|a, b| b.cmp(a));
                prop_assert_eq!(&all[..kept.len()], &kept[..]);
            }
        }
    }
}
