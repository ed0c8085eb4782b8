//! The times of lost packets, in words.

use crate::units::{count, time};
use mpps_stats::{Stretch, Stretches, Summary};

/// Returns `33,144 lost between 2.6 and 3.0 s`, and the other stretches, of which `most` with their time; `None` if
/// there are none.
pub(super) fn when(stretches: &Stretches, what: &str, most: usize) -> Option<Vec<String>> {
    if stretches.packets() == 0 {
        return None;
    }
    let stretches = &stretches.named();
    let mut named: Vec<_> = stretches.largest.iter().collect();
    named.sort_by_key(|s| std::cmp::Reverse(s.packets));
    let others = named.split_off(named.len().min(most));
    named.sort_by_key(|s| s.from_ns);
    let (first, rest) = named.split_first()?;
    let mut parts = vec![format!("  {} {what} {}", count(first.packets), between(first))];
    parts.extend(rest.iter().map(|s| format!("{} {}", count(s.packets), between(s))));
    let more = stretches.more + others.len() as u64;
    if more > 0 {
        let packets = stretches.more_packets + others.iter().map(|s| s.packets).sum::<u64>();
        let times = if more == 1 {
            "another stretch of time"
        } else {
            "other stretches of time"
        };
        let number = if more == 1 { String::new() } else { count(more) + " " };
        parts.push(format!("{} in {number}{times}", count(packets)));
    }
    if stretches.found_later > 0 {
        parts.push(format!("of which {} came after all", count(stretches.found_later)));
    }
    Some(parts)
}

/// Returns when packets of a run were lost, and which outage lost most of them.
pub(super) fn lost(s: &Summary, most: usize) -> Option<Vec<String>> {
    let mut parts = when(&s.loss_stretches, "lost", most)?;
    parts.extend(s.outage_of_loss().map(|(outage, lost)| {
        let which = if lost >= s.lost { "all".to_owned() } else { count(lost) };
        let second = |ns: u64| ns as f64 / 1e9;
        format!(
            "{which} of them in the longest outage: {} from {:.4} to {:.4} s",
            time(outage.to_ns.saturating_sub(outage.from_ns) as f64),
            second(outage.from_ns),
            second(outage.to_ns)
        )
    }));
    Some(parts)
}

fn between(s: &Stretch) -> String {
    let decimals = (1..4usize)
        .find(|&d| {
            [s.from_ns, s.to_ns]
                .iter()
                .all(|ns| ns.is_multiple_of(10u64.pow(9 - d as u32)))
        })
        .unwrap_or(if s.to_ns - s.from_ns < 2_000_000 { 4 } else { 3 });
    let seconds = |ns: u64| format!("{:.decimals$}", ns as f64 / 1e9);
    format!("between {} and {} s", seconds(s.from_ns), seconds(s.to_ns))
}
