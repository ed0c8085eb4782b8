//! Finds the times in which a CPU quota kept a lane off its core.
//!
//! The kernel's events show which threads ran on the core meanwhile, but not that the lane was not allowed to run. The
//! kernel's count of the time withheld shows how much time that was between two looks. So the longest stretches between
//! two looks in which a lane did not run are blamed on the quota, until they add up to that count.

use mpps_stats::{Summary, WithheldTime};
use mpps_trace::{Event, Explained, Gap, KernelEvent, LaneTrace, Part, Taker, TakerKind};

/// Shortest stretch that is blamed on the quota, ns: the kernel grants time in units of some milliseconds.
const LEAST_NS: u64 = 1_000_000;
/// Period of a quota, unless the group names another, ns.
const PERIOD_NS: u64 = 100_000_000;

/// Stretches in which a quota kept lanes off their cores.
#[derive(Clone, Debug, Default)]
pub(super) struct Spans {
    gaps: Vec<Gap>,
    what: String,
}

impl Spans {
    /// Finds these stretches among two kinds of gaps: times in which lanes were away by their own clocks, and times in
    /// which lanes were ready to run and did not, by the kernel's events.
    pub(super) fn of(summary: &Summary, away: &[Gap], lanes: &[LaneTrace], events: &[KernelEvent]) -> Self {
        let Some(withheld) = &summary.withheld else {
            return Self::default();
        };
        let start_ns = summary.started.monotonic_ns;
        let period_ns = withheld.granted_us.map_or(PERIOD_NS, |(_, period)| period * 1000);
        let mut gaps = away.to_vec();
        gaps.extend(lanes.iter().flat_map(|lane| displaced(lane, events)));
        // Time withheld from other threads explains no gap of a lane.
        let times = withheld.times.iter().map(|time| WithheldTime {
            ns: withheld.from_lanes(time.ns, summary.lanes.len()),
            ..*time
        });
        let times: Vec<_> = times.collect();
        Self {
            gaps: spans(gaps, &times, (start_ns, period_ns)),
            what: format!("{} kept the lane off its core", withheld.name()),
        }
    }

    /// Returns the parts of a gap. The quota replaces the threads that ran while it kept the lane off its core.
    pub(super) fn name_in(&self, gap: &Gap, mut parts: Vec<Part>) -> Vec<Part> {
        let of_lane = self.gaps.iter().filter(|span| span.lane == gap.lane);
        let withheld: u64 = of_lane.map(|span| common(span, gap.from_ns, gap.to_ns)).sum();
        if withheld == 0 {
            return parts;
        }
        let all: u64 = parts.iter().map(|part| part.amount).sum();
        let room = gap.to_ns.saturating_sub(gap.from_ns).saturating_sub(withheld);
        let mut taken = all.saturating_sub(room);
        for part in &mut parts {
            let less = part.amount.min(taken);
            part.amount -= less;
            taken -= less;
        }
        parts.retain(|part| part.amount > 0);
        let amount = withheld;
        let what = self.what.clone();
        parts.insert(0, Part { what, amount });
        parts
    }

    /// Subtracts the quota's stretches from the threads that ran in them, and adds the quota to the takers.
    pub(super) fn name_among(&self, mut takers: Vec<Taker>, explained: &Explained) -> Vec<Taker> {
        for ran in explained.takers(&self.gaps) {
            let same = |taker: &&mut Taker| {
                (taker.cpu, taker.lane, taker.kind, &taker.name, taker.tid)
                    == (ran.cpu, ran.lane, ran.kind, &ran.name, ran.tid)
            };
            if let Some(taker) = takers.iter_mut().find(same) {
                taker.total_ns = taker.total_ns.saturating_sub(ran.total_ns);
                taker.count = taker.count.saturating_sub(ran.count).max(1);
                // The longest of the remaining visits is not known: it is at most the remaining total.
                taker.max_ns = taker.max_ns.min(taker.total_ns);
            }
        }
        takers.retain(|taker| taker.total_ns > 0);
        for span in &self.gaps {
            let ns = span.to_ns - span.from_ns;
            let cpu = span.cpu.unwrap_or(0);
            let same =
                |taker: &&mut Taker| (taker.cpu, taker.lane, taker.kind) == (cpu, span.lane, TakerKind::Withheld);
            let longest = (ns, span.from_ns);
            match takers.iter_mut().find(same) {
                Some(taker) => {
                    taker.count += 1;
                    taker.total_ns += ns;
                    (taker.max_ns, taker.max_at_ns) = (taker.max_ns, taker.max_at_ns).max(longest);
                }
                None => takers.push(Taker {
                    cpu,
                    lane: span.lane,
                    kind: TakerKind::Withheld,
                    name: "CPU quota".to_owned(),
                    tid: 0,
                    count: 1,
                    total_ns: ns,
                    max_ns: ns,
                    max_at_ns: span.from_ns,
                }),
            }
        }
        takers.sort_by_key(|taker| std::cmp::Reverse(taker.total_ns));
        takers
    }
}

fn common(gap: &Gap, from_ns: u64, to_ns: u64) -> u64 {
    gap.to_ns.min(to_ns).saturating_sub(gap.from_ns.max(from_ns))
}

/// Returns the times when a lane was ready to run and did not.
fn displaced(lane: &LaneTrace, events: &[KernelEvent]) -> Vec<Gap> {
    let mut since = None;
    let mut gaps = Vec::new();
    for event in events.iter().filter(|_| lane.tid != 0) {
        let (out, back) = match event.event {
            Event::Switch {
                prev_tid,
                prev_state,
                next_tid,
                ..
            } => (prev_tid == lane.tid && prev_state == 0, next_tid == lane.tid),
            Event::SwitchedOut { tid, preempted } => (tid == lane.tid && preempted, false),
            Event::SwitchedIn { tid } => (false, tid == lane.tid),
            _ => continue,
        };
        if back {
            gaps.extend(since.take().map(|from_ns| Gap {
                lane: lane.lane,
                tid: lane.tid,
                cpu: lane.cpu,
                from_ns,
                to_ns: event.at_ns,
            }));
        }
        if out {
            since = Some(event.at_ns);
        }
    }
    gaps
}

/// Returns the longest gaps, until they add up to the time withheld. A look may come up to one period after the kernel
/// began to withhold the time that the look finds.
fn spans(gaps: Vec<Gap>, times: &[WithheldTime], (start_ns, period_ns): (u64, u64)) -> Vec<Gap> {
    let mut gaps = apart(gaps);
    gaps.retain(|gap| gap.to_ns.saturating_sub(gap.from_ns) >= LEAST_NS);
    gaps.sort_by_key(|gap| std::cmp::Reverse(gap.to_ns - gap.from_ns));
    let mut left: Vec<u64> = times.iter().map(|time| time.ns).collect();
    let mut found = Vec::new();
    for gap in gaps {
        let mut from_ns = gap.from_ns;
        for (time, left) in times.iter().zip(&mut left) {
            let begin_ns = (start_ns + time.from_ns).saturating_sub(period_ns);
            let begin_ns = begin_ns.max(from_ns);
            let end_ns = (start_ns + time.to_ns).min(gap.to_ns);
            let ns = end_ns.saturating_sub(begin_ns);
            // The withheld time is less than half of the gap: something else kept the lane off its core.
            if ns > 0 && *left >= ns / 2 {
                *left -= ns.min(*left);
                from_ns = end_ns;
                found.push(Gap {
                    from_ns: begin_ns,
                    to_ns: end_ns,
                    ..gap
                });
            }
        }
    }
    found.sort_by_key(|gap| (gap.lane, gap.from_ns));
    found
}

/// Merges gaps of the same lane that overlap.
fn apart(mut gaps: Vec<Gap>) -> Vec<Gap> {
    gaps.sort_by_key(|gap| (gap.lane, gap.from_ns));
    let mut all: Vec<Gap> = Vec::new();
    for gap in gaps {
        match all
            .last_mut()
            .filter(|last| last.lane == gap.lane && last.to_ns >= gap.from_ns)
        {
            Some(last) => last.to_ns = last.to_ns.max(gap.to_ns),
            None => all.push(gap),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_stats::Withheld;

    const MS: u64 = 1_000_000;

    fn gap(from_ms: u64, to_ms: u64) -> Gap {
        Gap {
            lane: 0,
            tid: 7,
            cpu: Some(1),
            from_ns: from_ms * MS,
            to_ns: to_ms * MS,
        }
    }

    fn spans_of(gaps: &[Gap], ms: u64) -> Spans {
        let summary = Summary {
            withheld: Some(Withheld {
                group: "/x".to_owned(),
                granted_us: Some((20_000, 100_000)),
                times: vec![WithheldTime {
                    from_ns: 40 * MS,
                    to_ns: 120 * MS,
                    ns: ms * MS,
                }],
                ..Withheld::default()
            }),
            ..Summary::default()
        };
        Spans::of(&summary, gaps, &[], &[])
    }

    #[test]
    fn the_longest_gap_is_the_quotas_and_a_short_one_stays_with_who_ran() {
        let spans = spans_of(&[gap(20, 100), gap(105, 108), gap(30, 50)], 80);
        let ran = |amount: u64| Part {
            what: "cc1 (thread 9) had the core".to_owned(),
            amount: amount * MS,
        };
        let parts = spans.name_in(&gap(10, 110), vec![ran(83)]);
        assert_eq!(parts.len(), 2, "{parts:?}");
        assert!(
            parts[0].what.starts_with("the CPU quota of control group /x"),
            "{parts:?}"
        );
        assert_eq!((parts[0].amount, parts[1].amount), (80 * MS, 20 * MS));
        assert_eq!(spans.name_in(&gap(104, 109), vec![ran(3)]), vec![ran(3)]);
        // Another lane is not affected.
        let other = Gap {
            lane: 1,
            ..gap(20, 100)
        };
        assert_eq!(spans.name_in(&other, vec![ran(80)]), vec![ran(80)]);
    }

    #[test]
    fn little_withheld_time_explains_no_long_gap() {
        assert!(spans_of(&[gap(20, 100)], 10).gaps.is_empty());
        assert!(spans_of(&[], 10).gaps.is_empty());
    }

    #[test]
    fn time_withheld_from_threads_on_other_cores_explains_no_gap() {
        let summary = |quota_us| Summary {
            lanes: vec![mpps_stats::LaneSummary::default()],
            withheld: Some(Withheld {
                granted_us: Some((quota_us, 100_000)),
                throttled: 1,
                ns: 200 * MS,
                cores: Some(16),
                times: vec![WithheldTime {
                    from_ns: 0,
                    to_ns: 100 * MS,
                    ns: 200 * MS,
                }],
                ..Withheld::default()
            }),
            ..Summary::default()
        };
        let found = |quota_us| Spans::of(&summary(quota_us), &[gap(20, 80)], &[], &[]).gaps.len();
        assert_eq!((found(1_500_000), found(20_000)), (0, 1));
    }

    #[test]
    fn who_ran_meanwhile_is_no_taker() {
        let switch = |at_ms: u64, prev_tid, next_tid| KernelEvent {
            at_ns: at_ms * MS,
            cpu: 1,
            event: Event::Switch {
                prev_tid,
                prev_comm: "a".to_owned(),
                prev_state: 0,
                prev_prio: 120,
                next_tid,
                next_comm: "b".to_owned(),
                next_prio: 120,
            },
        };
        let events = [switch(20, 7, 9), switch(100, 9, 7)];
        let explained = Explained::new(&events, &[7]);
        let takers = explained.takers(&[gap(20, 100)]);
        assert_eq!((takers.len(), takers[0].tid), (1, 9));
        let told = spans_of(&[gap(20, 100)], 80).name_among(takers, &explained);
        assert_eq!(
            (told.len(), told[0].kind, told[0].total_ns),
            (1, TakerKind::Withheld, 80 * MS)
        );
    }
}
