//! Names the programs that used the lanes' cores, in one sentence beside the verdict.

use super::watched::Watched;
use mpps_stats::{Remark, RemarkName, RemarkValue, Summary};
use mpps_trace::{Taker, TakerKind, thread_number, time};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Most culprits that are named.
const NAMED: usize = 3;
/// Least share of all the time taken that a culprit must have taken to be named.
const SHARE: f64 = 0.05;
/// Share of the lanes' time above which culprits are named. If the run is not valid, one visit of at least
/// `LONG_VISIT_NS` is enough, ns.
const NOTABLE: f64 = 0.01;
const LONG_VISIT_NS: u64 = 1_000_000;

/// Returns a remark with the programs that took the lanes' cores, if they took a notable part. `None`: they did not,
/// or there is no trace. The verdict then says how much of the waiting time is accounted for.
pub fn culprits(summary: &Summary, watched: Option<&Watched>) -> Option<Remark> {
    let lanes = || {
        summary
            .lanes
            .iter()
            .filter_map(|lane| Some((lane.run_delay_ns?, lane.measured_ns)))
    };
    let measured: u64 = lanes().map(|(_, measured)| measured).sum();
    let notable = |taken: u64| measured > 0 && taken as f64 > NOTABLE * measured as f64;
    // A quota kept the lanes off their cores: programs that ran meanwhile took nothing from them, and the verdict names
    // the quota.
    let by_quota = |taken: u64| {
        summary
            .withheld
            .as_ref()
            .is_some_and(|withheld| withheld.from_lanes(withheld.ns, summary.lanes.len()) * 2 >= taken)
    };
    let watched = watched?;
    let somebodys = || watched.takers.iter().filter(|taker| is_somebody(taker));
    let taken: u64 = somebodys().map(|taker| taker.total_ns).sum();
    let long = somebodys().any(|taker| taker.max_ns >= LONG_VISIT_NS);
    if by_quota(taken) {
        return None;
    }
    if notable(taken) || !summary.valid && long {
        named(&watched.takers)
    } else {
        None
    }
}

/// Takers with the same kind and name, on one or more cores.
struct Culprit<'t> {
    first: &'t Taker,
    threads: BTreeSet<i32>,
    cores: BTreeSet<u32>,
    total_ns: u64,
}

/// Returns whether a taker has a name: it is a thread or an interrupt. Not if the lane was stopped, asleep or withheld,
/// or the time is unexplained.
fn is_somebody(taker: &Taker) -> bool {
    !matches!(
        taker.kind,
        TakerKind::Stopped | TakerKind::Asleep | TakerKind::Withheld | TakerKind::Unexplained
    )
}

/// Names the takers of most of the time. Takers of the same name are added up, because the work of one program is often
/// many short threads.
fn named(takers: &[Taker]) -> Option<Remark> {
    let all: u64 = takers.iter().map(|taker| taker.total_ns).sum();
    let mut culprits: Vec<Culprit<'_>> = Vec::new();
    for taker in takers.iter().filter(|taker| is_somebody(taker)) {
        let same = |culprit: &&mut Culprit<'_>| (culprit.first.kind, &culprit.first.name) == (taker.kind, &taker.name);
        match culprits.iter_mut().find(same) {
            Some(culprit) => {
                culprit.threads.insert(taker.tid);
                culprit.cores.insert(taker.cpu);
                culprit.total_ns += taker.total_ns;
            }
            None => culprits.push(Culprit {
                first: taker,
                threads: BTreeSet::from([taker.tid]),
                cores: BTreeSet::from([taker.cpu]),
                total_ns: taker.total_ns,
            }),
        }
    }
    culprits.retain(|culprit| culprit.total_ns as f64 > SHARE * all as f64);
    culprits.sort_by_key(|culprit| Reverse(culprit.total_ns));
    culprits.truncate(NAMED);
    let sentences: Vec<String> = culprits.iter().map(Culprit::sentence).collect();
    let takers: RemarkValue = culprits.iter().map(|culprit| culprit.first.name.as_str()).collect();
    let taken_ns: RemarkValue = culprits.iter().map(|culprit| culprit.total_ns).collect();
    (!culprits.is_empty()).then(|| {
        let text = format!("the lanes' cores were taken by {}", sentences.join(", "));
        Remark::new(RemarkName::CoresTaken, text)
            .with("takers", takers)
            .with("taken_ns", taken_ns)
    })
}

impl Culprit<'_> {
    fn sentence(&self) -> String {
        let Taker { name, tid, .. } = self.first;
        let several = self.threads.len() > 1;
        let who = match self.first.kind {
            TakerKind::Thread if several => format!("{name} ({} threads)", self.threads.len()),
            TakerKind::Thread if *tid == 0 => name.clone(),
            TakerKind::Thread => format!("{name} (thread {})", thread_number(*tid)),
            TakerKind::Own if several => format!("mpps's own {name} ({} threads)", self.threads.len()),
            TakerKind::Own => format!("mpps's own {name} (thread {tid})"),
            TakerKind::Irq => format!("interrupt {name}"),
            TakerKind::Softirq => format!("soft interrupt {name}"),
            _ => format!("{name} interrupt"),
        };
        let cores: Vec<String> = self.cores.iter().map(u32::to_string).collect();
        let s = if cores.len() > 1 { "s" } else { "" };
        format!(
            "{who} on core{s} {} for {}",
            cores.join(", "),
            time(self.total_ns as f64)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taker(kind: TakerKind, name: &str, tid: i32, cpu: u32, total_ms: u64) -> Taker {
        Taker {
            cpu,
            lane: 0,
            kind,
            name: name.to_owned(),
            tid,
            count: 1,
            total_ns: total_ms * 1_000_000,
            max_ns: 1,
            max_at_ns: 0,
        }
    }

    #[test]
    fn the_three_that_took_most_are_named_if_they_took_a_twentieth() {
        let takers = [
            taker(TakerKind::Thread, "cc1", 7, 0, 200),
            taker(TakerKind::Thread, "cc1", 8, 1, 200),
            taker(TakerKind::Thread, "sh", 9, 1, 300),
            taker(TakerKind::Own, "mpps-watch", 5, 1, 100),
            taker(TakerKind::Vector, "local_timer", 0, 1, 90),
            taker(TakerKind::Unexplained, "unexplained", 0, 0, 500),
        ];
        let said = "the lanes' cores were taken by cc1 (2 threads) on cores 0, 1 for 400.0 ms, sh (thread 9) on core 1 \
                    for 300.0 ms, mpps's own mpps-watch (thread 5) on core 1 for 100.0 ms";
        let remark = named(&takers).expect("three");
        assert_eq!(remark.sentence, said);
        let names: RemarkValue = ["cc1", "sh", "mpps-watch"].into_iter().collect();
        assert_eq!(remark.value("takers"), Some(&names));
        let sentence = named(&takers[4..]).map(|remark| remark.sentence);
        assert_eq!(
            sentence.as_deref(),
            Some("the lanes' cores were taken by local_timer interrupt on core 1 for 90.00 ms")
        );
        assert_eq!(named(&takers[5..]), None);
    }

    #[test]
    fn a_quota_that_stopped_other_cores_hides_no_thread_that_took_the_lanes() {
        let lane = mpps_stats::LaneSummary {
            run_delay_ns: Some(500_000_000),
            measured_ns: 1_000_000_000,
            ..Default::default()
        };
        // Withheld from 16 threads: of each of 10 periods, 6.25 ms can be the lane's.
        let withheld = mpps_stats::Withheld {
            granted_us: Some((1_500_000, 100_000)),
            throttled: 10,
            ns: 1_000_000_000,
            cores: Some(16),
            ..Default::default()
        };
        let mut summary = Summary {
            lanes: vec![lane],
            withheld: Some(withheld),
            valid: false,
            ..Summary::default()
        };
        let watched = Watched {
            takers: vec![taker(TakerKind::Thread, "cc1", 7, 1, 500)],
            ..Watched::default()
        };
        assert!(culprits(&summary, Some(&watched)).is_some_and(|said| said.sentence.contains("cc1")));
        // A smaller quota: if it is used up at once, the rest of each period is withheld from the lane.
        summary.withheld.as_mut().expect("withheld").granted_us = Some((20_000, 100_000));
        assert_eq!(culprits(&summary, Some(&watched)), None);
    }

    #[test]
    fn where_nothing_was_taken_or_nothing_was_seen_nobody_is_named() {
        let lane = mpps_stats::LaneSummary {
            run_delay_ns: Some(500_000_000),
            measured_ns: 1_000_000_000,
            ..Default::default()
        };
        let summary = Summary {
            lanes: vec![lane],
            valid: false,
            ..Summary::default()
        };
        assert_eq!(culprits(&summary, None), None);
        let watched = Watched {
            takers: vec![taker(TakerKind::Vector, "local_timer", 0, 1, 9)],
            ..Watched::default()
        };
        assert_eq!(culprits(&summary, Some(&watched)), None);
    }
}
