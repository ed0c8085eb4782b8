//! Time of programs in the kernel, if their runs are counted only now and then.
//!
//! The kernel's count ([`ProgramTimes`](crate::ProgramTimes)) costs some 50 ns per run: on a path whose programs run
//! several times for each packet, as much as the packet. So the count stays on only while its cost is small; otherwise
//! it is on for [`ProgramSample::SHORTEST`] now and then. While it is off, the programs still count their packets. From
//! these the number of runs and their time are estimated, at what a packet took in the stretches before and after.
//!
//! A stretch is the time between two readings of all totals. Differences are taken only within stretches, so it does
//! not matter what the kernel counts while the count is switched.

use std::time::Duration;

/// Cost of counting a run, ns: two readings of the clock, on a virtual machine.
const RUN_NS: u64 = 50;
/// Counting may take one part in this many of one core's time.
const PARTS: u64 = 200;
/// Shortest pause, ns; a shorter one is left out, since switching stops all cores for a moment.
const SHORTEST_REST_NS: u64 = 10_000_000;
/// Longest pause, ns, so that no part of a run passes unseen.
const LONGEST_REST_NS: u64 = 250_000_000;
/// Fewest packets by which another stretch is estimated; with fewer packets the time is a better measure.
const ENOUGH: u64 = 16;

/// Running totals of a program, or their increase in a stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramTotals {
    /// Packets that the program handled, by its own count, which is always on; 0 if the program handles no packets
    /// itself.
    pub packets: u64,
    /// Runs that the kernel has counted.
    pub runs: u64,
    /// Time of these runs, ns.
    pub ns: u64,
}

/// Totals of all programs, always in the same order, and the time of the reading. Or the increase of these totals, and
/// the length of the stretch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramReading {
    /// Time of the reading, or length of the stretch, ns.
    pub ns: u64,
    /// Totals of each program.
    pub programs: Vec<ProgramTotals>,
}

impl ProgramReading {
    fn packets(&self) -> u64 {
        self.programs.iter().map(|program| program.packets).sum()
    }

    fn with(&self, other: &Self, join: fn(u64, u64) -> u64) -> Self {
        let both = self.programs.iter().zip(&other.programs);
        let each = |(a, b): (&ProgramTotals, &ProgramTotals)| ProgramTotals {
            packets: join(a.packets, b.packets),
            runs: join(a.runs, b.runs),
            ns: join(a.ns, b.ns),
        };
        Self {
            ns: join(self.ns, other.ns),
            programs: both.map(each).collect(),
        }
    }

    fn since(&self, before: &Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    fn and(&self, other: &Self) -> Self {
        self.with(other, u64::saturating_add)
    }
}

/// Runs and time of a program over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramSum {
    /// Runs: counted, and estimated for the time in between.
    pub runs: u64,
    /// Runs that were counted. Equal to [`runs`](Self::runs) if all were counted: then nothing is estimated.
    pub timed: u64,
    /// Time of all runs, ns.
    pub total_ns: u64,
}

/// Sums of all programs of a run, stretch by stretch.
#[derive(Clone, Debug)]
pub struct ProgramSample {
    last: ProgramReading,
    sums: Vec<ProgramSum>,
    /// The last stretch that was counted.
    seen: ProgramReading,
    /// Totals of the time since then, in which the count was off.
    unseen: Option<ProgramReading>,
}

impl ProgramSample {
    /// Time to count after a pause. Without a pause each stretch is twice as long as the one before, up to
    /// [`LONGEST`](Self::LONGEST).
    pub const SHORTEST: Duration = Duration::from_millis(2);
    /// Longest time for which programs that begin to run often may be slowed down before that is detected.
    pub const LONGEST: Duration = Duration::from_millis(10);

    /// Creates the sums from a first reading.
    pub fn new(first: ProgramReading) -> Self {
        let nothing = first.since(&first);
        Self {
            sums: vec![ProgramSum::default(); first.programs.len()],
            last: first,
            seen: nothing,
            unseen: None,
        }
    }

    /// Notes a stretch in which the kernel has counted. Returns the time for which it should not count next; zero if it
    /// may go on.
    pub fn counted(&mut self, now: ProgramReading) -> Duration {
        let stretch = now.since(&self.last);
        if let Some(unseen) = self.unseen.take() {
            let near = self.seen.and(&stretch);
            self.reckon(&unseen, &near);
        }
        for (sum, program) in self.sums.iter_mut().zip(&stretch.programs) {
            sum.runs += program.runs;
            sum.timed += program.runs;
            sum.total_ns += program.ns;
        }
        let runs = stretch.programs.iter().map(|program| program.runs).sum();
        let rest_ns = rest_ns(stretch.ns, runs);
        (self.last, self.seen) = (now, stretch);
        Duration::from_nanos(rest_ns)
    }

    /// Notes a stretch in which the kernel has not counted.
    pub fn passed(&mut self, now: ProgramReading) {
        let stretch = now.since(&self.last);
        self.unseen = Some(match self.unseen.take() {
            Some(unseen) => unseen.and(&stretch),
            None => stretch,
        });
        self.last = now;
    }

    /// Returns the sums of each program, in the order of the readings.
    pub fn end(mut self) -> Vec<ProgramSum> {
        if let Some(unseen) = self.unseen.take() {
            let near = std::mem::take(&mut self.seen);
            self.reckon(&unseen, &near);
        }
        self.sums
    }

    /// Adds an estimate for the time without a count, at the rates of the stretches near it.
    fn reckon(&mut self, unseen: &ProgramReading, near: &ProgramReading) {
        for (place, sum) in self.sums.iter_mut().enumerate() {
            let own = |of: &ProgramReading| of.programs[place].packets;
            // A program that handles no packets itself runs for the packets of the others.
            let (part, whole) = if own(near) >= ENOUGH {
                (own(unseen), own(near))
            } else if near.packets() >= ENOUGH {
                (unseen.packets(), near.packets())
            } else {
                (unseen.ns, near.ns)
            };
            let scaled = |of: u64| {
                let whole = u128::from(whole.max(1));
                let scaled = (u128::from(of) * u128::from(part) + whole / 2) / whole;
                u64::try_from(scaled).unwrap_or(u64::MAX)
            };
            let near = near.programs[place];
            sum.runs = sum.runs.saturating_add(scaled(near.runs));
            sum.total_ns = sum.total_ns.saturating_add(scaled(near.ns));
        }
    }
}

/// Returns the time for which not to count after a stretch of `stretch_ns` with so many runs, ns.
fn rest_ns(stretch_ns: u64, runs: u64) -> u64 {
    let cost_ns = runs.saturating_mul(RUN_NS);
    let rest_ns = cost_ns.saturating_mul(PARTS).saturating_sub(stretch_ns);
    match rest_ns {
        0..SHORTEST_REST_NS => 0,
        _ => rest_ns.min(LONGEST_REST_NS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A program that handles packets and one that does not.
    fn reading(ns: u64, packets: u64, runs: [u64; 2], times: [u64; 2]) -> ProgramReading {
        let totals = |which: usize, packets| ProgramTotals {
            packets,
            runs: runs[which],
            ns: times[which],
        };
        ProgramReading {
            ns,
            programs: vec![totals(0, packets), totals(1, 0)],
        }
    }

    #[test]
    fn what_was_counted_all_the_time_is_exact() {
        let mut sample = ProgramSample::new(reading(1_000, 5, [7, 1], [70, 20]));
        assert_eq!(
            sample.counted(reading(10_000_000, 105, [207, 11], [2070, 220])),
            Duration::ZERO
        );
        assert_eq!(
            sample.counted(reading(20_000_000, 106, [208, 11], [2080, 220])),
            Duration::ZERO
        );
        let sum = |runs, total_ns| ProgramSum {
            runs,
            timed: runs,
            total_ns,
        };
        assert_eq!(sample.end(), [sum(201, 2010), sum(10, 200)]);
    }

    #[test]
    fn what_went_by_uncounted_is_reckoned_by_its_packets() {
        let mut sample = ProgramSample::new(reading(0, 0, [0, 0], [0, 0]));
        sample.counted(reading(2_000_000, 100, [200, 50], [20_000, 5_000]));
        // The numbers of the kernel are ignored here.
        sample.passed(reading(200_000_000, 1_100, [230, 55], [23_000, 5_500]));
        sample.counted(reading(202_000_000, 1_200, [430, 105], [63_000, 10_500]));
        // The time after the last counted stretch is estimated from that stretch.
        sample.passed(reading(400_000_000, 1_300, [430, 105], [63_000, 10_500]));
        let sums = sample.end();
        // 400 runs of 100 + 100 packets, with 60 µs: 1000 packets between them; and 100 at the last one's.
        let first = ProgramSum {
            runs: 400 + 2_000 + 200,
            timed: 400,
            total_ns: 60_000 + 300_000 + 40_000,
        };
        let second = ProgramSum {
            runs: 100 + 500 + 50,
            timed: 100,
            total_ns: 10_000 + 50_000 + 5_000,
        };
        assert_eq!(sums, [first, second]);
    }

    #[test]
    fn where_few_packets_were_seen_the_time_tells() {
        let mut sample = ProgramSample::new(reading(0, 0, [0, 0], [0, 0]));
        sample.counted(reading(2_000_000, 1, [10_000, 0], [400_000, 0]));
        sample.passed(reading(22_000_000, 400, [10_000, 0], [400_000, 0]));
        sample.counted(reading(24_000_000, 401, [20_000, 0], [800_000, 0]));
        let sums = sample.end();
        assert_eq!((sums[0].runs, sums[0].timed), (120_000, 20_000));
        assert_eq!((sums[0].total_ns, sums[1].runs), (4_800_000, 0));
        // No run was counted near it, and no time passed: nothing is estimated.
        let mut sample = ProgramSample::new(reading(5, 0, [0, 0], [0, 0]));
        sample.passed(reading(900, 400, [0, 0], [0, 0]));
        assert!(sample.end().iter().all(|sum| *sum == ProgramSum::default()));
    }

    #[test]
    fn a_rest_is_as_long_as_counting_was_dear() {
        // 80 runs a millisecond are counted all the time.
        assert_eq!(rest_ns(10_000_000, 800), 0);
        // 2 ms at 2 runs a microsecond: 0.2 ms, half a percent of 40.
        assert_eq!(rest_ns(2_000_000, 4_000), 38_000_000);
        assert_eq!(rest_ns(2_000_000, 40_000), LONGEST_REST_NS);
        assert_eq!(rest_ns(u64::MAX, u64::MAX), 0);
        assert_eq!(rest_ns(0, u64::MAX), LONGEST_REST_NS);
    }

    proptest! {
        /// A program that runs `runs` times for each packet, and equally long each time, is reported exactly, whichever
        /// stretches are seen and however many packets are in each.
        #[test]
        fn steady_programs_are_told_as_they_are(
            stretches in prop::collection::vec((any::<bool>(), 16u64..100_000, 1u64..1_000_000_000), 1..40),
            runs in 1u64..5,
            run_ns in 1u64..2_000,
        ) {
            let (mut at_ns, mut packets, mut counted) = (0, 0, 0);
            let now = |at_ns, packets, counted| reading(at_ns, packets, [counted, counted], [counted * run_ns; 2]);
            let mut sample = ProgramSample::new(now(0, 0, 0));
            for (place, &(count, more, ns)) in stretches.iter().enumerate() {
                at_ns += ns;
                packets += more;
                if count || place == 0 {
                    counted += more * runs;
                    sample.counted(now(at_ns, packets, counted));
                } else {
                    sample.passed(now(at_ns, packets, counted));
                }
            }
            for sum in sample.end() {
                prop_assert_eq!(sum, ProgramSum {
                    runs: packets * runs,
                    timed: counted,
                    total_ns: packets * runs * run_ns,
                });
            }
        }

        #[test]
        fn counting_takes_no_more_than_its_part(stretch_ns in 1u64..100_000_000, runs in 0u64..2_000_000) {
            let (rest, cost_ns) = (rest_ns(stretch_ns, runs), runs * RUN_NS);
            let fits = |rest: u64| cost_ns <= (stretch_ns + rest) / PARTS + 1;
            prop_assert!(rest == LONGEST_REST_NS || fits(rest) || (rest == 0 && fits(SHORTEST_REST_NS)));
        }
    }
}
