//! What CPU quotas of the control groups withheld while a trial went on: looked at as rows end.
//!
//! A thread that its quota keeps off its core waits as one that another thread keeps off does, and others run there
//! meanwhile. The kernel's count of the time withheld tells both apart.

use super::cause::{percent, span};
use mpps_stats::{Withheld, WithheldTime, count};
use mpps_sys::cgroup::{Quota, Throttled};

/// Times that are remembered of a quota. Beyond that each two neighbours become one.
const REMEMBERED: usize = 1024;

/// Looks at all quotas that may concern this process.
pub(crate) struct Quotas<'q> {
    of: Vec<Log<'q>>,
    start_ns: u64,
    looked_ns: u64,
}

struct Log<'q> {
    quota: &'q Quota,
    first: Throttled,
    last: Throttled,
    times: Vec<WithheldTime>,
}

impl<'q> Quotas<'q> {
    /// Before the start.
    pub(crate) fn new(quotas: &'q [Quota], start_ns: u64) -> Self {
        let log = |quota: &'q Quota| {
            let first = quota.read()?;
            Some(Log {
                quota,
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

    /// Reads what was withheld since the last look. Allocates nothing.
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

    /// That of the quota which withheld most; `None`: none withheld anything.
    pub(crate) fn end(self) -> Option<Withheld> {
        let most = self.of.into_iter().max_by_key(|log| log.last.since(&log.first).ns)?;
        let all = most.last.since(&most.first);
        (all.ns > 0).then(|| Withheld {
            group: most.quota.group().to_owned(),
            granted_us: most.quota.granted_us(),
            periods: all.periods,
            throttled: all.throttled,
            ns: all.ns,
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

/// Makes one of each two neighbours.
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
