//! The departure schedule of one lane: per packet, on its own clock, exact in total.
//!
//! The schedule of a run is one sequence of departures; with `n` lanes, lane `i` takes units `i`, `i + n`, `i + 2n`, …
//! of it (a unit is one packet, or one burst), so the lanes' departures interleave evenly and add up to exactly
//! rate × duration. Times are kept with 64 bits of fraction, so no rounding accumulates.

use mpps_io::kernel::LaneSchedule;
use mpps_io::{Pacing, Rate, Rates};

/// A lane's departures still to come.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    /// Time of the next unit, ns with 64 bits of fraction.
    next: u128,
    /// Time between this lane's units.
    step: u128,
    /// Packets of the current unit still due.
    in_unit: u32,
    unit: u32,
    /// Packets still to come, over all units.
    remaining: u64,
    of: Part,
    poisson: Option<Poisson>,
    /// Pacer that follows once no packet remains: a schedule of its own, from the step on.
    later: Option<Box<Pacer>>,
}

/// A schedule of one rate, as it was asked for, and the lane's packets in it.
#[derive(Clone, Copy, Debug)]
struct Part {
    start_ns: u64,
    rate: Rate,
    pacing: Pacing,
    lane: (u32, u32),
    seed: u64,
    packets: u64,
}

#[derive(Clone, Debug)]
struct Poisson {
    state: u64,
    /// End of the schedule, ns; `None` when it has none.
    end_ns: Option<u64>,
    mean_ns: f64,
}

/// Returns the part of lane `lane` of `lanes` in a schedule that lasts `duration_ns` (`None`: for ever), as numbers
/// that other code can follow. A random schedule begins at 0, and the first departure is a gap later.
pub(crate) fn schedule(
    duration_ns: Option<u64>,
    rate: Rate,
    pacing: Pacing,
    (lane, lanes): (u32, u32),
    seed: u64,
) -> LaneSchedule {
    let unit = if let Pacing::Bursts(n) = pacing { n.max(1) } else { 1 };
    let (lane, lanes, unit64) = (u64::from(lane), u64::from(lanes), u64::from(unit));
    let packets = match duration_ns {
        None => u64::MAX,
        Some(d) => {
            // Packets in the units that are this lane's: whole units, and the last one perhaps in part.
            let total = rate.packets_in(d);
            let (whole, part) = (total / unit64, total % unit64);
            let mine = whole / lanes + u64::from(whole % lanes > lane);
            mine * unit64 + if whole % lanes == lane { part } else { 0 }
        }
    };
    let random = (pacing == Pacing::Poisson).then(|| seed ^ (lane + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    LaneSchedule {
        first: if random.is_some() {
            0
        } else {
            rate.time_of(lane * unit64)
        },
        step: rate.time_of(unit64 * lanes),
        unit,
        packets,
        random,
        until_ns: None,
    }
}

impl Pacer {
    /// Makes the part of lane `lane` of `lanes` in a schedule that begins at `start_ns` and lasts `duration_ns`
    /// (`None`: for ever). A step cuts it in two: each part is a schedule of its own, exact in total, and the second
    /// begins at the step.
    pub(crate) fn new(
        start_ns: u64,
        duration_ns: Option<u64>,
        rates: impl Into<Rates>,
        pacing: Pacing,
        lane: (u32, u32),
        seed: u64,
    ) -> Self {
        let Rates { first, then } = rates.into();
        let then = then.filter(|step| duration_ns.is_none_or(|duration| step.after_ns < duration));
        let Some(step) = then else {
            return Self::even(start_ns, duration_ns, first, pacing, lane, seed);
        };
        let left = duration_ns.map(|duration| duration - step.after_ns);
        let later = Self::even(
            start_ns.saturating_add(step.after_ns),
            left,
            step.rate,
            pacing,
            lane,
            // The second part does not repeat the gaps of the first.
            seed ^ 0xD1B5_4A32_D192_ED03,
        );
        let mut pacer = Self::even(start_ns, Some(step.after_ns), first, pacing, lane, seed);
        pacer.later = Some(Box::new(later));
        pacer.turn();
        pacer
    }

    /// Makes a schedule of one rate.
    fn even(start_ns: u64, duration_ns: Option<u64>, rate: Rate, pacing: Pacing, lane: (u32, u32), seed: u64) -> Self {
        let LaneSchedule {
            first,
            step,
            unit,
            packets,
            random,
            ..
        } = schedule(duration_ns, rate, pacing, lane, seed);
        let mut pacer = Self {
            next: (u128::from(start_ns) << 64) + first,
            step,
            in_unit: unit,
            unit,
            remaining: packets,
            of: Part {
                start_ns,
                rate,
                pacing,
                lane,
                seed,
                packets,
            },
            poisson: random.map(|state| Poisson {
                state,
                end_ns: duration_ns.map(|d| start_ns + d),
                mean_ns: 1e9 / rate.pps() * f64::from(lane.1),
            }),
            later: None,
        };
        pacer.draw();
        pacer
    }

    /// Gives up the departures from `at_ns` on. Over all lanes, those that are left are exactly rate × time; a burst
    /// that is due before is whole.
    /// Returns the number of departures that were taken beyond it.
    #[cold]
    pub(crate) fn cut(&mut self, at_ns: u64) -> u64 {
        if let Some(later) = &mut self.later {
            if later.of.start_ns < at_ns {
                return later.cut(at_ns);
            }
            self.later = None;
        }
        if self.poisson.is_some() {
            // As many as would have come before.
            let mut ahead = self.clone();
            let mut left = 0;
            while ahead.next_due().is_some_and(|due| due < at_ns) {
                ahead.pop();
                left += 1;
            }
            self.remaining = left;
            if let Some(poisson) = &mut self.poisson {
                poisson.end_ns = Some(at_ns);
            }
            return 0;
        }
        let Part {
            start_ns,
            rate,
            packets,
            ..
        } = self.of;
        let (lane, lanes) = (u64::from(self.of.lane.0), u64::from(self.of.lane.1));
        let unit = u64::from(self.unit);
        let units = rate.packets_in(at_ns.saturating_sub(start_ns)).div_ceil(unit);
        let mine = units / lanes + u64::from(units % lanes > lane);
        let left = mine.saturating_mul(unit).min(packets);
        let taken = packets - self.remaining;
        self.remaining = left.saturating_sub(taken);
        self.of.packets = left.max(taken);
        taken.saturating_sub(left)
    }

    /// Adds a schedule of its own, exact in total, which begins at `start_ns` and ends at `end_ns` (`None`: never).
    /// The departures so far end before it: see [`Pacer::cut`].
    #[cold]
    pub(crate) fn then(&mut self, start_ns: u64, end_ns: Option<u64>, rate: Rate) {
        let Part { pacing, lane, seed, .. } = self.of;
        let left = end_ns.map(|end| end.saturating_sub(start_ns));
        // Random gaps are not those of another part.
        let later = Self::even(start_ns, left, rate, pacing, lane, seed ^ start_ns);
        let mut last = self;
        while last.later.is_some() {
            last = last.later.as_mut().expect("there is one");
        }
        last.later = Some(Box::new(later));
    }

    /// Returns the start of the part at hand, ns.
    pub(crate) fn part_ns(&self) -> u64 {
        self.of.start_ns
    }

    /// Goes on with the next part, once no packet remains of this one; returns whether it did. Called once per burst,
    /// not for each packet: a burst ends with its part.
    #[inline]
    pub(crate) fn turn(&mut self) -> bool {
        let turns = self.remaining == 0 && self.later.is_some();
        if turns {
            self.turn_over();
        }
        turns
    }

    #[cold]
    fn turn_over(&mut self) {
        while let Some(later) = self.later.take_if(|_| self.remaining == 0) {
            *self = *later;
        }
    }

    /// Returns the time of the next departure, ns; `None` when none is to come.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<u64> {
        (self.remaining > 0).then_some((self.next >> 64) as u64)
    }

    /// Returns how many departures, up to `max`, are due at `now_ns`.
    #[inline]
    pub(crate) fn due(&self, now_ns: u64, max: usize) -> usize {
        let Some(next) = self.next_due() else { return 0 };
        if next > now_ns || max == 0 {
            return 0;
        }
        if self.poisson.is_some() {
            // Random gaps are not known before they are drawn: draw ahead on a copy.
            let mut ahead = self.clone();
            let due = (0..max).take_while(|_| ahead.next_due().is_some_and(|at| at <= now_ns) && ahead.pop() <= now_ns);
            return due.count();
        }
        let behind = (u128::from(now_ns) << 64).saturating_sub(self.next);
        let most = (max as u64).min(self.remaining);
        // Usually the lane is on time: one subtraction decides, no division.
        let packets = if behind < self.step {
            u64::from(self.in_unit)
        } else {
            let units = u64::try_from(behind / self.step).unwrap_or(u64::MAX);
            units
                .saturating_mul(u64::from(self.unit))
                .saturating_add(u64::from(self.in_unit))
        };
        packets.min(most) as usize
    }

    /// Takes the next departure; returns its scheduled time, ns.
    #[inline]
    pub(crate) fn pop(&mut self) -> u64 {
        let at = (self.next >> 64) as u64;
        self.remaining = self.remaining.saturating_sub(1);
        self.in_unit -= 1;
        if self.in_unit == 0 {
            self.in_unit = self.unit;
            if self.poisson.is_some() {
                self.draw();
            } else {
                self.next += self.step;
            }
        }
        at
    }

    /// Gives up departures that were due before `before_ns`; returns how many.
    #[inline]
    pub(crate) fn skip_before(&mut self, before_ns: u64) -> u64 {
        match self.next_due() {
            Some(next) if next < before_ns => self.skip(before_ns),
            _ => 0,
        }
    }

    #[cold]
    fn skip(&mut self, before_ns: u64) -> u64 {
        let mut skipped = 0;
        while self.next_due().is_some_and(|next| next < before_ns) {
            if self.poisson.is_some() || self.in_unit != self.unit {
                self.pop();
                self.turn();
                skipped += 1;
                continue;
            }
            let behind = (u128::from(before_ns) << 64) - self.next;
            let units = u64::try_from(behind.div_ceil(self.step)).unwrap_or(u64::MAX).max(1);
            let packets = units.saturating_mul(u64::from(self.unit)).min(self.remaining);
            self.next += self.step * u128::from(units);
            self.remaining -= packets;
            skipped += packets;
            self.turn();
        }
        skipped
    }

    /// Gives up all departures to come.
    pub(crate) fn stop(&mut self) {
        self.remaining = 0;
        self.later = None;
    }

    /// Draws the time of the next departure.
    fn draw(&mut self) {
        let Some(p) = &mut self.poisson else { return };
        // splitmix64 (Steele, Lea, Flood 2014): one state word, good enough for gaps.
        p.state = p.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = p.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        let uniform = ((z >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let gap_ns = match p.end_ns {
            // The least of n independent uniform times in the rest of the run.
            Some(end) => {
                let left = end as f64 - (self.next as f64 / 18_446_744_073_709_551_616.0);
                left.max(0.0) * -(uniform.ln() / self.remaining.max(1) as f64).exp_m1()
            }
            None => -uniform.ln() * p.mean_ns,
        };
        self.next += ((gap_ns * 4_294_967_296.0) as u128) << 32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_io::RateStep;
    use proptest::prelude::*;

    fn all(mut pacer: Pacer) -> Vec<u64> {
        let mut times = Vec::new();
        while pacer.next_due().is_some() {
            times.push(pacer.pop());
            pacer.turn();
        }
        times
    }

    fn pacing() -> impl Strategy<Value = Pacing> {
        prop_oneof![
            Just(Pacing::Constant),
            Just(Pacing::Poisson),
            (1u32..50).prop_map(Pacing::Bursts)
        ]
    }

    proptest! {
        #[test]
        fn lanes_together_send_exactly_rate_times_duration(
            pps in 1u64..200_000, lanes in 1u32..6, ms in 1u64..40, pacing in pacing(), seed in any::<u64>(),
        ) {
            let rate = Rate::new(pps, 1).unwrap();
            let (start, duration) = (5_000_000_000, ms * 1_000_000);
            let mut times: Vec<u64> = (0..lanes)
                .flat_map(|l| {
                    let t = all(Pacer::new(start, Some(duration), rate, pacing, (l, lanes), seed));
                    assert!(t.is_sorted());
                    t
                })
                .collect();
            times.sort_unstable();
            prop_assert_eq!(times.len() as u64, rate.packets_in(duration));
            prop_assert!(times.iter().all(|&t| t >= start && t <= start + duration));
            if pacing == Pacing::Constant {
                for (k, t) in times.iter().enumerate() {
                    let exact = start + (k as u128 * 1_000_000_000 / u128::from(pps)) as u64;
                    prop_assert!(t.abs_diff(exact) <= 1, "{k}: {t} {exact}");
                }
            }
        }

        #[test]
        fn a_schedule_told_to_somebody_else_has_the_same_departures(
            pps in 1u64..200_000, lanes in 1u32..6, ms in 1u64..40, burst in 0u32..50, seed in any::<u64>(),
        ) {
            let rate = Rate::new(pps, 1).unwrap();
            let (start, duration) = (5_000_000_000, ms * 1_000_000);
            let pacing = if burst == 0 { Pacing::Constant } else { Pacing::Bursts(burst) };
            for lane in 0..lanes {
                let told = schedule(Some(duration), rate, pacing, (lane, lanes), seed);
                prop_assert!(told.random.is_none());
                let at = |k: u64| {
                    let units = u128::from(k / u64::from(told.unit));
                    start + ((told.first + told.step * units) >> 64) as u64
                };
                let expanded: Vec<u64> = (0..told.packets).map(at).collect();
                prop_assert_eq!(expanded, all(Pacer::new(start, Some(duration), rate, pacing, (lane, lanes), seed)));
            }
        }

        #[test]
        fn due_and_skip_count_what_pop_would_give(
            pps in 1_000u64..200_000, pacing in pacing(), at_us in 0u64..20_000, popped in 0usize..200,
        ) {
            let rate = Rate::new(pps, 1).unwrap();
            let make = || {
                let mut p = Pacer::new(0, Some(10_000_000), rate, pacing, (0, 1), 7);
                for _ in 0..popped.min(rate.packets_in(10_000_000) as usize) { p.pop(); p.turn(); }
                p
            };
            let at = at_us * 1_000;
            let rest = all(make());
            let before = rest.iter().filter(|&&t| t < at).count() as u64;
            let due = rest.iter().filter(|&&t| t <= at).count();
            let mut p = make();
            prop_assert_eq!(p.skip_before(at), before);
            prop_assert_eq!(all(p).len() as u64, rest.len() as u64 - before);
            let told = make().due(at, 64);
            if pacing == Pacing::Poisson { prop_assert_eq!(told, due.min(64)); }
            else {
                prop_assert!(told.abs_diff(due.min(64)) <= 1, "{told} {due}");
                prop_assert_eq!(told == 0, due == 0);
            }
        }
    }

    proptest! {
        #[test]
        fn a_step_cuts_the_schedule_in_two_that_are_each_exact(
            (pps, then) in (1u64..200_000, 1u64..200_000), lanes in 1u32..6, ms in 2u64..40, cut_us in 0u64..50_000,
            pacing in pacing(), seed in any::<u64>(),
        ) {
            let rate = |pps| Rate::new(pps, 1).unwrap();
            let (start, duration, cut) = (5_000_000_000, ms * 1_000_000, cut_us * 1_000);
            let step = RateStep { after_ns: cut, rate: rate(then) };
            let rates = Rates { first: rate(pps), then: Some(step) };
            let pacer = |lane| Pacer::new(start, Some(duration), rates, pacing, (lane, lanes), seed);
            let mut times = Vec::new();
            for lane in 0..lanes {
                let of_lane = all(pacer(lane));
                prop_assert!(of_lane.is_sorted());
                // What is skipped is what would have left.
                let middle = start + duration / 2;
                let mut skips = pacer(lane);
                let before = of_lane.iter().filter(|&&at| at < middle).count() as u64;
                prop_assert_eq!(skips.skip_before(middle), before);
                prop_assert_eq!(pacer(lane).skip_before(start + duration + 1), of_lane.len() as u64);
                times.extend(of_lane);
            }
            prop_assert_eq!(times.len() as u64, rates.packets_in(duration));
            // A departure at random may round up to the cut.
            let first = times.iter().filter(|&&at| at < start + cut.min(duration)).count() as u64;
            let exact = rate(pps).packets_in(cut.min(duration));
            prop_assert!(first == exact || pacing == Pacing::Poisson && first <= exact, "{} {}", first, exact);
            if pacing == Pacing::Constant {
                times.sort_unstable();
                for (k, &at) in times.iter().enumerate() {
                    let (k, first) = (k as u64, exact);
                    let due = match k < first {
                        true => start + (rate(pps).time_of(k) >> 64) as u64,
                        false => start + cut + (rate(then).time_of(k - first) >> 64) as u64,
                    };
                    prop_assert!(at.abs_diff(due) <= 1, "{}: {} {}", k, at, due);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_schedule_that_is_cut_and_goes_on_later_is_exact_in_both_parts(
            (pps, then) in (1u64..200_000, 1u64..200_000), lanes in 1u32..6,
            (cut_us, pause_us) in (0u64..30_000, 0u64..9_000),
            popped in 0usize..50, pacing in pacing(), seed in any::<u64>(),
        ) {
            let rate = |pps| Rate::new(pps, 1).unwrap();
            let (start, end) = (5_000_000_000, 5_040_000_000);
            let cut = start + cut_us * 1_000;
            let again = cut + pause_us * 1_000;
            let (mut before, mut after) = (0, 0);
            for lane in 0..lanes {
                let mut pacer = Pacer::new(start, Some(end - start), rate(pps), pacing, (lane, lanes), seed);
                // A lane is cut at the earliest once it has sent what was due.
                let mut times = Vec::new();
                while times.len() < popped && pacer.next_due().is_some_and(|due| due < cut) {
                    times.push(pacer.pop());
                }
                pacer.cut(cut);
                // A departure at random may round up to the cut.
                let rounds_up = u64::from(pacing == Pacing::Poisson);
                pacer.then(again, Some(end), rate(then));
                let rest = pacer.later.as_ref().map_or(0, |later| later.remaining);
                pacer.turn();
                times.extend(all(pacer));
                prop_assert!(times.is_sorted());
                let first = times.len() as u64 - rest;
                prop_assert!(times[..first as usize].iter().all(|&at| at < cut + rounds_up));
                prop_assert!(times[first as usize..].iter().all(|&at| at >= again));
                (before, after) = (before + first, after + rest);
            }
            let (all_before, all_after) = (rate(pps).packets_in(cut - start), rate(then).packets_in(end - again));
            prop_assert_eq!(after, all_after);
            match pacing {
                // As many departures as come before the cut: random gaps settle the number.
                Pacing::Poisson => prop_assert!(before <= rate(pps).packets_in(end - start)),
                Pacing::Bursts(unit) => {
                    let whole = all_before.next_multiple_of(u64::from(unit));
                    prop_assert_eq!(before, whole.min(rate(pps).packets_in(end - start)));
                }
                Pacing::Constant => prop_assert_eq!(before, all_before),
            }
        }
    }

    #[test]
    fn a_burst_ends_where_the_rate_steps() {
        let rate = |pps| Rate::new(pps, 1).unwrap();
        let step = RateStep {
            after_ns: 10_000,
            rate: rate(1_000_000),
        };
        let rates = Rates {
            first: rate(1_000_000_000),
            then: Some(step),
        };
        let mut pacer = Pacer::new(0, None, rates, Pacing::Constant, (0, 1), 0);
        assert_eq!(pacer.due(9_990, 256), 256);
        assert_eq!((0..9_990).map(|_| pacer.pop()).last(), Some(9_989));
        assert_eq!((pacer.due(50_000, 256), pacer.next_due()), (10, Some(9_990)));
        assert_eq!((0..10).map(|_| pacer.pop()).last(), Some(9_999));
        pacer.turn();
        assert_eq!((pacer.next_due(), pacer.due(12_000, 256)), (Some(10_000), 3));
        assert_eq!(
            (rates.packets_in(20_000), rates.mean_pps(20_000)),
            (10_010, 500_500_000.0)
        );
        assert_eq!(rates.highest_pps(), 1e9);
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let rate = Rate::new(100_000, 1).unwrap();
        let times = all(Pacer::new(0, Some(1_000_000_000), rate, Pacing::Poisson, (0, 1), 42));
        let gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // For an exponential distribution the standard deviation equals the mean.
        assert!((mean / 10_000.0 - 1.0).abs() < 0.02, "{mean}");
        assert!(
            (variance.sqrt() / mean - 1.0).abs() < 0.03,
            "{}",
            variance.sqrt() / mean
        );
    }

    #[test]
    fn a_schedule_without_end_keeps_its_rate() {
        let rate = Rate::new(1_000_000, 3).unwrap();
        let mut pacer = Pacer::new(0, None, rate, Pacing::Constant, (0, 1), 0);
        let last = (0..1_000_001).map(|_| pacer.pop()).last();
        assert_eq!(last, Some(3_000_000_000));
    }
}
