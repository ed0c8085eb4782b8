//! Time of a lane by [`Stage`]: the counters behind the stage table.
//!
//! The loop reads the clock anyway, so the lane's time divides exactly into rounds that moved packets, rounds that
//! found nothing, and sleep. How the first two divide into stages is measured in the rounds that are timed, and scaled
//! to these sums. So the shares of a lane add up to 1, however few rounds are timed.

use crate::LaneCounters;
use crate::counter::{Counter, Counter32};
use mpps_trace::{Stage, StageRow, standard_deviation};

/// Buckets per power of two; times below this have a bucket each.
const SUB: u64 = 16;
/// Powers of two above that: up to 2^34 ns, some 17 s.
const OCTAVES: u64 = 30;
/// Buckets per stage.
const BUCKETS: usize = (SUB + OCTAVES * SUB) as usize;

/// Stage table of a lane; the lane writes, any thread reads.
#[derive(Debug)]
pub struct StageTable {
    /// Time of the stages in the timed rounds that moved something: ns times the number of rounds that each stands for.
    busy: [Counter; Stage::COUNT],
    /// The same for the timed rounds that moved nothing.
    idle: [Counter; Stage::COUNT],
    timed: [Counter; Stage::COUNT],
    max_ns: [Counter; Stage::COUNT],
    histogram: Box<[Counter32]>,
    /// Time in rounds that moved something, ns, without the time away.
    pub busy_ns: Counter,
    /// Time awake in rounds that moved nothing, ns, without the time away.
    pub idle_ns: Counter,
    /// Time asleep, ns, without the time away.
    pub asleep_ns: Counter,
    /// Time away whose place is known, ns: the times above do not include it.
    pub away_ns: Counter,
    /// Time away whose place is not known, ns: one of the other times still includes it.
    pub unplaced_ns: Counter,
    /// Rounds that moved something.
    pub rounds: Counter,
    /// Rounds that moved nothing and did not end in sleep.
    pub spins: Counter,
    /// Sleeps in rounds that moved something: the lane waited for room.
    pub naps: Counter,
    /// Bursts that the lane wrote.
    pub written_bursts: Counter,
    /// Packets of these bursts.
    pub written_packets: Counter,
    /// Clock readings made only for the table.
    pub readings: Counter,
    /// Time that a clock reading takes, ps.
    pub reading_ps: Counter,
    /// Time that a clock reading takes with all that is booked for it, ps.
    pub mark_ps: Counter,
}

impl Default for StageTable {
    fn default() -> Self {
        let mut histogram = Vec::new();
        histogram.resize_with(BUCKETS * Stage::COUNT, Counter32::default);
        Self {
            busy: Default::default(),
            idle: Default::default(),
            timed: Default::default(),
            max_ns: Default::default(),
            histogram: histogram.into_boxed_slice(),
            busy_ns: Counter::default(),
            idle_ns: Counter::default(),
            asleep_ns: Counter::default(),
            away_ns: Counter::default(),
            unplaced_ns: Counter::default(),
            rounds: Counter::default(),
            spins: Counter::default(),
            naps: Counter::default(),
            written_bursts: Counter::default(),
            written_packets: Counter::default(),
            readings: Counter::default(),
            reading_ps: Counter::default(),
            mark_ps: Counter::default(),
        }
    }
}

impl StageTable {
    /// Counts a call of a stage that took `ns`. For the single writer only, as is [`StageTable::part`].
    #[inline]
    pub fn call(&self, stage: Stage, ns: u64) {
        let at = stage.index();
        self.timed[at].add(1);
        self.max_ns[at].raise(ns);
        self.histogram[at * BUCKETS + bucket_of(ns)].add(1);
    }

    /// Adds the time of a stage in a timed round that stands for `weight` rounds.
    #[inline]
    pub fn part(&self, stage: Stage, ns: u64, weight: u64, busy: bool) {
        let sums = if busy { &self.busy } else { &self.idle };
        sums[stage.index()].add(ns.wrapping_mul(weight));
    }

    /// Returns the lane's time so far, ns.
    pub fn wall_ns(&self) -> u64 {
        let all = [&self.busy_ns, &self.idle_ns, &self.asleep_ns, &self.away_ns];
        all.iter().map(|time| time.get()).sum()
    }

    /// Returns the time of each stage so far, ns, in the order of [`Stage::ALL`]; the sum is [`StageTable::wall_ns`].
    pub fn times_ns(&self) -> [f64; Stage::COUNT] {
        let mut times = [0.0; Stage::COUNT];
        times[Stage::Asleep.index()] = self.asleep_ns.get() as f64;
        times[Stage::Away.index()] = self.away_ns.get() as f64;
        let classes = [
            (&self.busy, self.busy_ns.get(), Stage::Rest),
            (&self.idle, self.idle_ns.get(), Stage::Spinning),
        ];
        for (sums, ns, otherwise) in classes {
            let timed: f64 = sums.iter().map(|sum| sum.get() as f64).sum();
            if timed == 0.0 {
                times[otherwise.index()] += ns as f64;
                continue;
            }
            for (time, sum) in times.iter_mut().zip(sums) {
                *time += ns as f64 * sum.get() as f64 / timed;
            }
        }
        self.place_the_rest(&mut times);
        times
    }

    /// Moves the time away that belongs to no known place to [`Stage::Away`]. It is taken from the stages in which a
    /// lane most often gives up its core or waits for it; if they have less, from all stages.
    fn place_the_rest(&self, times: &mut [f64; Stage::COUNT]) {
        let away = Stage::Away.index();
        let mut left = self.unplaced_ns.get() as f64;
        let idle = [Stage::Asleep, Stage::Spinning, Stage::EmptyPolls].map(Stage::index);
        let all = Stage::ALL.map(Stage::index);
        for from in [&idle[..], &all[..]] {
            let from = || from.iter().copied().filter(|&at| at != away);
            let there: f64 = from().map(|at| times[at]).sum();
            let taken = left.min(there);
            if taken > 0.0 {
                from().for_each(|at| times[at] -= times[at] / there * taken);
                times[away] += taken;
                left -= taken;
            }
        }
    }

    /// Returns the standard deviation of the timed calls, ns. Each call counts as the middle of its bucket.
    fn sd_ns(&self, stage: Stage) -> Option<u64> {
        let buckets = self.histogram[stage.index() * BUCKETS..][..BUCKETS].iter().enumerate();
        let most = self.max_ns[stage.index()].get();
        let called = buckets.map(|(at, bucket)| (value_of(at).min(most) as f64, u64::from(bucket.get())));
        standard_deviation(called).map(|ns| ns.round() as u64)
    }

    /// Returns the time that the share `of` (0 to 1) of the calls did not exceed, ns, within 4 %.
    fn percentile_ns(&self, stage: Stage, of: f64) -> u64 {
        let buckets = &self.histogram[stage.index() * BUCKETS..][..BUCKETS];
        let all: u64 = buckets.iter().map(|bucket| u64::from(bucket.get())).sum();
        let rank = ((all as f64 * of).ceil() as u64).max(1);
        let mut below = 0;
        for (at, bucket) in buckets.iter().enumerate() {
            below += u64::from(bucket.get());
            if below >= rank {
                return value_of(at).min(self.max_ns[stage.index()].get());
            }
        }
        0
    }
}

impl LaneCounters {
    /// Returns the stage table of lane number `lane`: one row per stage that took time or was called. Empty if no
    /// thread of this process runs a loop.
    pub fn stage_rows(&self, lane: u32) -> Vec<StageRow> {
        let times = self.stages.times_ns();
        let wall: f64 = times.iter().sum();
        if wall <= 0.0 {
            return Vec::new();
        }
        let row = |stage: Stage| {
            let at = stage.index();
            let (calls, packets) = self.calls_of(stage);
            StageRow {
                lane,
                stage,
                calls,
                packets,
                total_ns: times[at].round() as u64,
                timed: self.stages.timed[at].get(),
                sd_ns: self.stages.sd_ns(stage),
                p50_ns: self.stages.percentile_ns(stage, 0.5),
                p99_ns: self.stages.percentile_ns(stage, 0.99),
                max_ns: self.stages.max_ns[at].get(),
                share: times[at] / wall,
            }
        };
        let rows = Stage::ALL.into_iter().map(row);
        rows.filter(|row| row.calls > 0 || row.total_ns > 0).collect()
    }

    /// Returns the calls of a stage and their packets.
    fn calls_of(&self, stage: Stage) -> (u64, u64) {
        let table = &self.stages;
        let received = (self.rx_bursts.get(), self.rx_packets.get());
        let written = (table.written_bursts.get(), table.written_packets.get());
        match stage {
            Stage::Receive | Stage::Classify => received,
            Stage::EmptyPolls => (self.rx_empty_polls.get(), 0),
            Stage::Allocate | Stage::Write => written,
            Stage::Transmit => (self.tx_bursts.get(), self.tx_packets.get()),
            Stage::Asleep => (self.waits.get() + table.naps.get(), 0),
            Stage::Spinning => (table.spins.get(), 0),
            Stage::Rest => (table.rounds.get(), 0),
            // Number of times that the stage was seen.
            Stage::Flush | Stage::Away => (table.timed[stage.index()].get(), 0),
        }
    }
}

fn bucket_of(ns: u64) -> usize {
    if ns < SUB {
        return ns as usize;
    }
    let exponent = u64::from(63 - ns.leading_zeros());
    let at = SUB + (exponent - 4) * SUB + ((ns >> (exponent - 4)) - SUB);
    (at as usize).min(BUCKETS - 1)
}

/// Returns the middle of a bucket, ns.
fn value_of(bucket: usize) -> u64 {
    let at = bucket as u64;
    if at < SUB {
        return at;
    }
    let width = 1 << ((at - SUB) / SUB);
    (SUB + (at - SUB) % SUB) * width + width / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_within_four_per_cent_of_its_times() {
        for ns in (0..100_000).chain([1_000_000, 123_456_789, 4_000_000_000]) {
            let middle = value_of(bucket_of(ns));
            assert!(
                middle.abs_diff(ns) as f64 <= ns as f64 * 0.04,
                "{ns} ns is told as {middle}"
            );
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn shares_add_up_to_one_however_few_rounds_were_timed() {
        let lane = LaneCounters::default();
        assert!(lane.stage_rows(0).is_empty());
        let table = &lane.stages;
        table.busy_ns.add(700);
        table.idle_ns.add(200);
        table.asleep_ns.add(80);
        table.away_ns.add(20);
        let sum = |rows: &[StageRow]| rows.iter().map(|row| row.share).sum::<f64>();
        // Nothing was timed.
        assert!((sum(&lane.stage_rows(0)) - 1.0).abs() < 1e-9);
        table.part(Stage::Transmit, 3, 16, true);
        table.part(Stage::Write, 1, 16, true);
        table.part(Stage::EmptyPolls, 5, 1, false);
        let share = |stage: Stage| {
            let rows = lane.stage_rows(0);
            assert!((sum(&rows) - 1.0).abs() < 1e-9);
            rows.iter().find(|row| row.stage == stage).map_or(0.0, |row| row.share)
        };
        assert!((share(Stage::Transmit) - 0.525).abs() < 1e-9);
        assert!((share(Stage::EmptyPolls) - 0.2).abs() < 1e-9);
        // The time away comes from stages where the lane was idle first, and only then from the others.
        table.unplaced_ns.add(380);
        assert!((share(Stage::Away) - 0.4).abs() < 1e-9);
        assert!((share(Stage::Asleep) + share(Stage::EmptyPolls)).abs() < 1e-9);
        assert!((share(Stage::Transmit) - 0.45).abs() < 1e-9);
    }

    #[test]
    fn percentiles_are_of_the_timed_calls() {
        let lane = LaneCounters::default();
        (1..=1000).for_each(|us| lane.stages.call(Stage::Receive, us * 1000));
        lane.stages.busy_ns.add(1);
        let rows = lane.stage_rows(3);
        let row = rows
            .iter()
            .find(|row| row.stage == Stage::Rest)
            .expect("all time is there");
        assert_eq!((row.lane, row.total_ns), (3, 1));
        let near = |of: f64, us: f64| {
            let ns = lane.stages.percentile_ns(Stage::Receive, of) as f64;
            assert!((ns / 1e3 / us - 1.0).abs() < 0.04, "{ns} ns, not {us} µs");
        };
        near(0.5, 500.0);
        near(0.99, 990.0);
        near(1.0, 1000.0);
        // Values from 1 to 1000 have this root mean square distance from their mean.
        let sd = lane.stages.sd_ns(Stage::Receive).expect("timed calls") as f64;
        assert!((sd / 288_675.0 - 1.0).abs() < 0.01, "{sd} ns");
        assert_eq!(lane.stages.sd_ns(Stage::Write), None);
    }
}
