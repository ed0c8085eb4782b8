//! CPU time that a quota of the process's control groups withheld, and the times when.

/// Time withheld between two looks at the kernel's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WithheldTime {
    /// The earlier look, ns since the start of the run.
    pub from_ns: u64,
    /// The later look.
    pub to_ns: u64,
    /// Time withheld between them, ns: the sum over cores.
    pub ns: u64,
}

/// CPU time that the quota of a control group withheld during a run from its processes. This process is among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Withheld {
    /// Path of the group.
    pub group: String,
    /// CPU time granted per period, and the period, µs; `None`: they could not be read.
    pub granted_us: Option<(u64, u64)>,
    /// Periods in which the group's threads ran.
    pub periods: u64,
    /// Periods in which the quota was used up; part of `periods`.
    pub throttled: u64,
    /// Time withheld, ns: the sum over cores.
    pub ns: u64,
    /// Cores of the host that are online; `None`: not known.
    pub cores: Option<u64>,
    /// Times when time was withheld, by looks at the counters.
    pub times: Vec<WithheldTime>,
}

impl Withheld {
    /// Returns the time withheld in a stretch of the run, ns. If only part of the time between two looks lies in the
    /// stretch, the same part of the time withheld counts.
    pub fn within(&self, from_ns: u64, to_ns: u64) -> u64 {
        let part = |time: &WithheldTime| {
            let common = time.to_ns.min(to_ns).saturating_sub(time.from_ns.max(from_ns));
            let length = time.to_ns.saturating_sub(time.from_ns).max(1);
            (u128::from(time.ns) * u128::from(common) / u128::from(length)) as u64
        };
        self.times.iter().map(part).sum()
    }

    /// Returns the most of `ns`, a part of the time withheld, that the quota can have withheld from `lanes` threads.
    /// The kernel's count is the sum over all cores and all threads of the group. One thread lost no more than the rest
    /// of each period in which the quota was used up. The quota is used up at the soonest when all cores use it
    /// together.
    pub fn from_lanes(&self, ns: u64, lanes: usize) -> u64 {
        let Some((quota_us, period_us)) = self.granted_us else {
            return ns;
        };
        let soonest_us = self.cores.map_or(0, |cores| quota_us / cores.max(1));
        let rest_ns = u128::from(period_us.saturating_sub(soonest_us)) * 1000;
        let most = rest_ns * u128::from(self.throttled) * lanes as u128;
        match u128::from(self.ns) {
            all if all > most => (u128::from(ns) * most / all) as u64,
            _ => ns,
        }
    }

    /// Returns the quota in words: `the CPU quota of control group /x (20 ms of CPU time per 100 ms)`.
    pub fn name(&self) -> String {
        let ms = |us: u64| us as f64 / 1e3;
        let granted = self
            .granted_us
            .map(|(quota, period)| format!(" ({} ms of CPU time per {} ms)", ms(quota), ms(period)));
        format!(
            "the CPU quota of control group {}{}",
            self.group,
            granted.unwrap_or_default()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_withheld_in_a_stretch_is_that_of_the_looks_in_it() {
        let time = |from_ns, to_ns, ns| WithheldTime { from_ns, to_ns, ns };
        let of = Withheld {
            group: "/x".to_owned(),
            granted_us: Some((20_000, 100_000)),
            times: vec![time(0, 100, 80), time(100, 200, 40), time(500, 600, 10)],
            ..Withheld::default()
        };
        assert_eq!(
            (of.within(0, 1000), of.within(50, 150), of.within(200, 500)),
            (130, 60, 0)
        );
        assert_eq!(
            of.from_lanes(80, 1),
            80,
            "no more was counted than one lane can have lost"
        );
        assert_eq!(
            of.name(),
            "the CPU quota of control group /x (20 ms of CPU time per 100 ms)"
        );
    }
    #[test]
    fn lanes_lost_no_more_than_the_rest_of_each_period_and_each_stretch_its_share() {
        const S: u64 = 1_000_000_000;
        // 15 of 16 cores' time: used up after 93.75 of 100 ms at the soonest, in each of 10 periods.
        let of = Withheld {
            granted_us: Some((1_500_000, 100_000)),
            throttled: 10,
            ns: S,
            cores: Some(16),
            ..Withheld::default()
        };
        assert_eq!((of.from_lanes(S, 1), of.from_lanes(S, 4)), (62_500_000, 250_000_000));
        assert_eq!(of.from_lanes(S / 5, 1), 12_500_000);
        assert_eq!(of.from_lanes(S, 16), S);
        // Without the number of cores or the quota, the limit is weaker.
        let unread = Withheld {
            cores: None,
            ..of.clone()
        };
        assert_eq!(unread.from_lanes(S, 1), S);
        let unread = Withheld { ns: 4 * S, ..unread };
        assert_eq!(unread.from_lanes(4 * S, 1), S);
        let unread = Withheld {
            granted_us: None,
            ..unread
        };
        assert_eq!(unread.from_lanes(4 * S, 1), 4 * S);
        // The quota is more than all cores can use: nothing is left of a period.
        let more = Withheld {
            granted_us: Some((1_700_000, 100_000)),
            ..of
        };
        assert_eq!(more.from_lanes(S, 16), 0);
    }
}
