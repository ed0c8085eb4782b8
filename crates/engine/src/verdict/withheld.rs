//! CPU time that quotas of the control groups withheld while a trial went on, read as rows end.
//!
//! A thread that its quota keeps off its core waits like a thread that another one keeps off, and others run there
//! meanwhile. The kernel's count of the time withheld distinguishes the two.

use super::cause::{percent, span};
use mpps_stats::{Withheld, WithheldTime, count};
use mpps_sys::cgroup::{Quota, Throttled};
use mpps_sys::sched;

/// Number of times that are remembered of a quota. Beyond this, each two neighbours become one.
const REMEMBERED: usize = 1024;

/// Returns whether CPU quotas can hold one of these lanes, each a thread (0: none of its own) and whether that has a
/// real-time class: a quota holds threads of the normal classes only.
pub(crate) fn may_hold(lanes: &[(i32, bool)]) -> bool {
    let mut threads = lanes.iter().filter(|(tid, _)| *tid != 0).peekable();
    threads.peek().is_none() || threads.any(|(_, real_time)| !real_time)
}

/// Reads all quotas that may concern this process at each look.
pub(crate) struct Quotas<'q> {
    of: Vec<Log<'q>>,
    start_ns: u64,
    looked_ns: u64,
}

struct Log<'q> {
    quota: &'q Quota,
    /// CPU time granted per period, and the period, µs, at the start.
    granted_us: (u64, u64),
    first: Throttled,
    last: Throttled,
    times: Vec<WithheldTime>,
}

impl<'q> Quotas<'q> {
    /// Begins before the start, with the groups that have a quota then: each look costs the kernel a sum over all
    /// cores per group. A quota that is set later in the trial is not seen.
    pub(crate) fn new(quotas: &'q [Quota], start_ns: u64) -> Self {
        let log = |quota: &'q Quota| {
            let granted_us = quota.granted_us()?;
            let first = quota.read()?;
            Some(Log {
                quota,
                granted_us,
                first,
                last: first,
                times: Vec::with_capacity(REMEMBERED),
            })
        };
        Self {
            of: quotas.iter().filter_map(log).collect(),
            start_ns,
            looked_ns: 0,
        }
    }

    /// Reads the time withheld since the last look. Allocates nothing.
    pub(crate) fn look(&mut self, now_ns: u64) {
        let to_ns = now_ns.saturating_sub(self.start_ns);
        for log in &mut self.of {
            let Some(now) = log.quota.read() else { continue };
            let ns = now.since(&log.last).ns;
            log.last = now;
            if ns == 0 {
                continue;
            }
            if log.times.len() == REMEMBERED {
                halve(&mut log.times);
            }
            log.times.push(WithheldTime {
                from_ns: self.looked_ns,
                to_ns,
                ns,
            });
        }
        self.looked_ns = to_ns;
    }

    /// Returns the time withheld by the quota which withheld most; `None`: none withheld anything.
    pub(crate) fn end(self) -> Option<Withheld> {
        let most = self.of.into_iter().max_by_key(|log| log.last.since(&log.first).ns)?;
        let all = most.last.since(&most.first);
        (all.ns > 0).then(|| Withheld {
            group: most.quota.group().to_owned(),
            granted_us: most.quota.granted_us().or(Some(most.granted_us)),
            periods: all.periods,
            throttled: all.throttled,
            ns: all.ns,
            cores: sched::online_cores(),
            times: most.times,
        })
    }
}

/// Names a quota that kept lanes off their cores for a share `of` a time, in which it withheld `ns`.
pub(super) fn sentence(withheld: &Withheld, share: f64, of: &str, ns: u64) -> String {
    format!(
        "{} kept the lanes from running for {} of {of}: it withheld {} (the sum over cores), and was used up in {} of \
         the run's {} periods. Want a higher quota, or a lower rate",
        withheld.name(),
        percent(share),
        span(ns),
        count(withheld.throttled),
        count(withheld.periods)
    )
}

/// Merges each two neighbours into one.
fn halve(times: &mut Vec<WithheldTime>) {
    for place in 0..times.len() / 2 {
        let (a, b) = (times[2 * place], times[2 * place + 1]);
        times[place] = WithheldTime {
            from_ns: a.from_ns,
            to_ns: b.to_ns,
            ns: a.ns + b.ns,
        };
    }
    times.truncate(times.len() / 2);
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_sys::cgroup::Groups;
    use std::fs;

    #[test]
    fn only_groups_that_have_a_quota_at_the_start_are_looked_at() {
        let root = std::env::temp_dir().join(format!("mpps-quotas-{}", std::process::id()));
        let put = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, format!("{text}\n")).expect("a file");
        };
        put("proc/self/mountinfo", "33 24 0:29 / /cg rw - cgroup2 cgroup2 rw");
        put("proc/self/cgroup", "0::/pod/one");
        for group in ["pod", "pod/one"] {
            put(
                &format!("cg/{group}/cpu.stat"),
                "nr_periods 0\nnr_throttled 0\nthrottled_usec 0",
            );
            put(&format!("cg/{group}/cpu.max"), "max 100000");
        }
        let quotas = Groups::of(&root).quotas();
        assert_eq!(quotas.len(), 2);
        assert_eq!(Quotas::new(&quotas, 0).of.len(), 0);
        // Before a later trial: its start counts, and that a quota goes in the end loses nothing.
        put("cg/pod/cpu.max", "50000 100000");
        let mut second = Quotas::new(&quotas, 0);
        assert_eq!(second.of.len(), 1);
        put("cg/pod/cpu.stat", "nr_periods 9\nnr_throttled 7\nthrottled_usec 120");
        put("cg/pod/cpu.max", "max 100000");
        second.look(1_000);
        let withheld = second.end().expect("withheld");
        let _ = fs::remove_dir_all(&root);
        assert_eq!(
            (withheld.group.as_str(), withheld.granted_us, withheld.ns),
            ("/pod", Some((50_000, 100_000)), 120_000)
        );
    }

    #[test]
    fn a_quota_may_hold_lanes_unless_all_threads_of_lanes_are_real_time() {
        assert!(may_hold(&[(7, false)]) && may_hold(&[(7, true), (8, false)]));
        assert!(!may_hold(&[(7, true), (8, true)]));
        // A reader is one of the program's own threads.
        assert!(!may_hold(&[(7, true), (0, false)]));
        assert!(may_hold(&[(0, false)]) && may_hold(&[]));
    }

    #[test]
    fn neighbours_become_one_and_nothing_is_lost() {
        let mut times: Vec<WithheldTime> = (0..10)
            .map(|n| WithheldTime {
                from_ns: n * 10,
                to_ns: n * 10 + 10,
                ns: n,
            })
            .collect();
        halve(&mut times);
        assert_eq!(times.len(), 5);
        assert_eq!((times[1].from_ns, times[1].to_ns, times[1].ns), (20, 40, 5));
        assert_eq!(times.iter().map(|time| time.ns).sum::<u64>(), 45);
    }
}
