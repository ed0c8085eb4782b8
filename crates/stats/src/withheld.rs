//! CPU time that a quota of the process's control groups withheld, with the times when.

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

/// CPU time that the quota of a control group withheld from its processes during a run, this one among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Withheld {
    /// Path of the group.
    pub group: String,
    /// CPU time granted per period, and the period, µs; `None`: they could not be read.
    pub granted_us: Option<(u64, u64)>,
    /// Periods in which the group's threads ran.
    pub periods: u64,
    /// Of these, periods in which the quota was used up.
    pub throttled: u64,
    /// Time withheld, ns: the sum over cores.
    pub ns: u64,
    /// When, by looks at the counters.
    pub times: Vec<WithheldTime>,
}

impl Withheld {
    /// Time withheld in a stretch of the run, ns. Of looks that lie partly in it as much as of their length.
    pub fn within(&self, from_ns: u64, to_ns: u64) -> u64 {
        let part = |time: &WithheldTime| {
            let common = time.to_ns.min(to_ns).saturating_sub(time.from_ns.max(from_ns));
            let length = time.to_ns.saturating_sub(time.from_ns).max(1);
            (u128::from(time.ns) * u128::from(common) / u128::from(length)) as u64
        };
        self.times.iter().map(part).sum()
    }

    /// The quota in words: `the CPU quota of control group /x (20 ms of CPU time per 100 ms)`.
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
            of.name(),
            "the CPU quota of control group /x (20 ms of CPU time per 100 ms)"
        );
    }
}
