//! Sums of counts by name, and times since the start.

use mpps_io::{QueueCounters, Reason};
use mpps_stats::{Gap, LaneSummary};

/// Returns a count with the reason's name in the summary.
pub(super) fn named(&(reason, count): &(Reason, u64)) -> (&'static str, u64) {
    (reason.as_str(), count)
}

/// Adds up counts of the same name.
pub(super) fn merge(counts: impl Iterator<Item = (&'static str, u64)>) -> Vec<(String, u64)> {
    let mut merged = Vec::new();
    add_counts(&mut merged, counts);
    merged
}

pub(super) fn add_counts(merged: &mut Vec<(String, u64)>, counts: impl Iterator<Item = (&'static str, u64)>) {
    for (name, count) in counts {
        match merged.iter_mut().find(|(n, _)| n == name) {
            Some((_, total)) => *total += count,
            None => merged.push((name.to_owned(), count)),
        }
    }
}

pub(super) fn add_counters(line: &mut LaneSummary, counters: &QueueCounters) {
    line.rx_dropped += counters.rx_dropped;
    line.tx_failed += counters.tx_failed;
    add_counts(&mut line.path_counters, counters.other.iter().copied());
}

pub(super) fn count_of(reason: Reason, counts: &[(Reason, u64)]) -> u64 {
    let of = counts.iter().filter(|(of, _)| *of == reason);
    of.map(|(_, count)| count).sum()
}

pub(super) fn since_start(gap: &Gap, start_ns: u64) -> Gap {
    Gap {
        from_ns: gap.from_ns.saturating_sub(start_ns),
        to_ns: gap.to_ns.saturating_sub(start_ns),
    }
}
