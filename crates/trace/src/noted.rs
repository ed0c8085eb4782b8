//! Times without a core, as lanes note them: by what the kernel reports to each lane about its own thread, and by the
//! lane's clock. No culprit is known. A run without a trace has only this.

use crate::{Did, Gap, LaneTrace, Part, Round, SlowBurst};

/// Times of lanes without their cores, as noted by the lanes.
#[derive(Clone, Debug, Default)]
pub struct Noted<'n> {
    bursts: &'n [SlowBurst],
    /// Times when lanes were away from their clocks.
    gaps: &'n [Gap],
}

impl<'n> Noted<'n> {
    /// Name of time without the core, as the kernel reports it to the lane.
    pub const NO_CORE: &'static str = "the lane did not have its core";
    /// Name of time away by the lane's clock: it is not known whether the lane had its core.
    pub const AWAY: &'static str = "the lane was away from its clock";

    /// Creates this view from the slowest bursts and the longest times away.
    pub fn new(bursts: &'n [SlowBurst], gaps: &'n [Gap]) -> Self {
        Self { bursts, gaps }
    }

    /// Returns what a lane's time between two points went to beside its own work, less the time of the `named` parts.
    /// Time away within a burst counts for the burst, if the kernel reported nothing.
    pub fn parts(&self, lane: u32, (from_ns, to_ns): (u64, u64), named: &[Part]) -> Vec<Part> {
        let named: u64 = named.iter().map(|part| part.amount).sum();
        let bursts = || self.bursts.iter().filter(|burst| burst.lane == lane);
        let without: u64 = bursts().map(|burst| without_core_ns(burst, from_ns, to_ns)).sum();
        let gaps = self.gaps.iter().filter(|gap| gap.lane == lane);
        let away = gaps.map(|gap| {
            let (from, to) = (gap.from_ns.max(from_ns), gap.to_ns.min(to_ns));
            let within = bursts().map(|burst| common_ns((burst.round.at_ns, burst.round.end_ns()), (from, to)));
            to.saturating_sub(from).saturating_sub(within.sum())
        });
        let away: u64 = away.sum();
        // A nanosecond that has a name is taken off once.
        let away = away.saturating_sub(named.saturating_sub(without));
        let without = without.saturating_sub(named);
        let parts = [(Self::NO_CORE, without), (Self::AWAY, away)];
        let parts = parts.into_iter().filter(|(_, amount)| *amount > 0);
        parts
            .map(|(what, amount)| Part {
                what: what.to_owned(),
                amount,
            })
            .collect()
    }

    /// Returns a lane whose records are its slowest bursts, if it has no records.
    pub fn recorded(&self, lane: &LaneTrace) -> LaneTrace {
        let mut lane = lane.clone();
        if lane.rounds.is_empty() {
            let own = self.bursts.iter().filter(|burst| burst.lane == lane.lane);
            lane.rounds = own.map(|burst| burst.round).collect();
            lane.rounds.sort_by_key(|round| round.at_ns);
        }
        lane
    }
}

/// Returns how long both last at the same time, ns.
fn common_ns(a: (u64, u64), b: (u64, u64)) -> u64 {
    a.1.min(b.1).saturating_sub(a.0.max(b.0))
}

/// Returns the time within a stretch for which the lane of a burst did not have its core, ns. When within a part is not
/// known, so the time is spread over the part.
fn without_core_ns(burst: &SlowBurst, from_ns: u64, to_ns: u64) -> u64 {
    let Round { at_ns, parts, did, .. } = burst.round;
    let mut begin = at_ns;
    let mut sum = 0;
    for (took, away) in parts.into_iter().zip(burst.away) {
        let took = u64::from(took);
        let end = begin.saturating_add(took);
        let share = common_ns((begin, end), (from_ns, to_ns));
        if share > 0 && did == Did::Burst {
            sum += (u128::from(share) * u128::from(away) / u128::from(took)) as u64;
        }
        begin = end;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u32 = 1_000_000;

    fn burst(at_ns: u64, parts: [u32; 7], away: [u32; 7]) -> SlowBurst {
        let round = Round {
            at_ns,
            parts,
            ..Round::default()
        };
        SlowBurst { lane: 0, round, away }
    }

    fn told(parts: &[Part]) -> Vec<(&str, u64)> {
        parts.iter().map(|part| (part.what.as_str(), part.amount)).collect()
    }

    #[test]
    fn what_the_kernel_told_of_a_part_is_spread_over_it_and_not_told_twice() {
        let bursts = [burst(1_000, [0, 0, 0, 0, 4 * MS, MS, 0], [0, 0, 0, 0, 3 * MS, 0, 0])];
        let gaps = [Gap {
            from_ns: 1_000,
            to_ns: 7_001_000,
            ..Gap::default()
        }];
        let noted = Noted::new(&bursts, &gaps);
        let all = noted.parts(0, (0, 10_000_000), &[]);
        assert_eq!(told(&all), [(Noted::NO_CORE, 3_000_000), (Noted::AWAY, 2_000_000)]);
        // Half of the part.
        let half = noted.parts(0, (1_000, 2_001_000), &[]);
        assert_eq!(told(&half), [(Noted::NO_CORE, 1_500_000)]);
        let named = [Part {
            what: "cc1 (thread 7) had the core".to_owned(),
            amount: 2_900_000,
        }];
        assert_eq!(
            told(&noted.parts(0, (1_000, 5_001_000), &named)),
            [(Noted::NO_CORE, 100_000)]
        );
        // Over the whole time there is 3 ms without a core and 2 ms away: 4 ms of it with a name leave 1 ms away.
        let named = [Part {
            amount: 4_000_000,
            ..named[0].clone()
        }];
        let rest = noted.parts(0, (0, 10_000_000), &named);
        assert_eq!(told(&rest), [(Noted::AWAY, 1_000_000)]);
        assert_eq!(noted.parts(1, (0, 10_000_000), &[]), []);
    }
}
