//! What lanes themselves note of times without their cores: by what the kernel tells each of its own thread, and by its
//! clock. It names nobody, and is all that a run without a trace has.

use crate::{Did, Gap, LaneTrace, Part, Round, SlowBurst};

/// Times of lanes without their cores, as lanes have noted them.
#[derive(Clone, Debug, Default)]
pub struct Noted<'n> {
    bursts: &'n [SlowBurst],
    /// When they were away from their clocks.
    gaps: &'n [Gap],
}

impl<'n> Noted<'n> {
    /// What the kernel told the lane.
    pub const NO_CORE: &'static str = "the lane did not have its core";
    /// What the lane's clock told: whether it had its core is not known.
    pub const AWAY: &'static str = "the lane was away from its clock";

    /// Of the slowest bursts, and the longest times away.
    pub fn new(bursts: &'n [SlowBurst], gaps: &'n [Gap]) -> Self {
        Self { bursts, gaps }
    }

    /// What a lane's time between two points went to beside its own work, as far as `named` parts do not tell it
    /// already. Time away within a burst is the burst's own, where the kernel told nothing.
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
        let without = without.saturating_sub(named);
        let away = away.saturating_sub(named);
        let parts = [(Self::NO_CORE, without), (Self::AWAY, away)];
        let parts = parts.into_iter().filter(|(_, amount)| *amount > 0);
        parts
            .map(|(what, amount)| Part {
                what: what.to_owned(),
                amount,
            })
            .collect()
    }

    /// A lane with its slowest bursts for records, where it has none.
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

/// How long both last at the same time, ns.
fn common_ns(a: (u64, u64), b: (u64, u64)) -> u64 {
    a.1.min(b.1).saturating_sub(a.0.max(b.0))
}

/// For how long of a stretch the lane of a burst did not have its core, ns: when within a part is not known, so it is
/// spread over the part.
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
        assert_eq!(noted.parts(1, (0, 10_000_000), &[]), []);
    }
}
