//! Rounds of a lane's loop per millisecond. There are few or none while the lane did not have its core, or while one
//! round took long.

use crate::{Did, LaneTrace, Recording, time};
use std::fmt::Write as _;

/// A millisecond, ns.
const MS: u64 = 1_000_000;
/// Least time of a millisecond that must be recorded so that the millisecond counts, ns.
const KEPT: u64 = 950_000;
/// Columns of a chart.
const COLUMNS: f64 = 64.0;

/// Milliseconds in a row with the same values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stretch {
    /// First millisecond, ms since [`Meta::start_ns`](crate::Meta::start_ns).
    pub from_ms: u64,
    /// Number of milliseconds.
    pub length_ms: u64,
    /// Rounds in each millisecond.
    pub rounds: f64,
    /// Whether the lane was asleep most of the time.
    pub asleep: bool,
}

impl Stretch {
    fn end_ms(&self) -> u64 {
        self.from_ms.saturating_add(self.length_ms)
    }
}

/// Returns the rounds of a lane in each millisecond that is recorded whole, by time. A burst counts at its start. The
/// empty polls of a record, which covers at most 10 ms, are spread over it evenly.
pub fn rounds_over_time(recording: &Recording, lane: &LaneTrace) -> Vec<Stretch> {
    let mut sums = Sums::default();
    let mut ended_ns = 0;
    for round in &lane.rounds {
        let since = |ns: u64| ns.saturating_sub(recording.meta.start_ns);
        let (from, to) = (since(round.at_ns).max(ended_ns), since(round.end_ns()));
        // Time that no record covers lies between two windows. If all records were kept, no round was made in that
        // time.
        if recording.meta.whole && ended_ns > 0 {
            sums.add(ended_ns, from, 0.0, false);
        }
        let rounds = if round.did == Did::Slept { 0 } else { round.polls };
        if round.moved() {
            sums.count(from);
        }
        sums.add(from, to, f64::from(rounds), round.did == Did::Slept);
        ended_ns = to.max(ended_ns);
    }
    sums.close();
    sums.stretches
}

/// Sums of the current millisecond, and the stretches before it.
#[derive(Default)]
struct Sums {
    at_ms: u64,
    kept_ns: u64,
    asleep_ns: u64,
    rounds: f64,
    stretches: Vec<Stretch>,
}

impl Sums {
    /// Counts a round that began at `at_ns`.
    fn count(&mut self, at_ns: u64) {
        self.go_to(at_ns / MS);
        self.rounds += 1.0;
    }

    /// Adds `rounds` rounds, spread evenly from one time to the other.
    fn add(&mut self, from: u64, to: u64, rounds: f64, asleep: bool) {
        let Some(length) = to.checked_sub(from).filter(|length| *length > 0) else {
            return;
        };
        let per_ns = rounds / length as f64;
        let mut at = from;
        while at < to {
            self.go_to(at / MS);
            if at.is_multiple_of(MS) && to - at >= MS && self.kept_ns == 0 {
                let length_ms = (to - at) / MS;
                // A round may have begun at this very instant: it belongs to the first millisecond.
                let first = std::mem::take(&mut self.rounds);
                let alike = per_ns * MS as f64;
                self.push(1, first + alike, asleep);
                self.push(length_ms - 1, alike, asleep);
                at += length_ms * MS;
                self.at_ms = at / MS;
                continue;
            }
            let end = to.min((at / MS + 1).saturating_mul(MS));
            self.kept_ns += end - at;
            self.asleep_ns += if asleep { end - at } else { 0 };
            self.rounds += per_ns * (end - at) as f64;
            at = end;
        }
    }

    fn go_to(&mut self, ms: u64) {
        if ms != self.at_ms {
            self.close();
            self.at_ms = ms;
        }
    }

    fn close(&mut self) {
        let (kept, asleep) = (self.kept_ns, self.asleep_ns);
        (self.kept_ns, self.asleep_ns) = (0, 0);
        let rounds = std::mem::take(&mut self.rounds);
        if kept >= KEPT {
            self.push(1, rounds, asleep > MS / 2);
        }
    }

    /// Adds a stretch that starts at [`at_ms`](Self::at_ms), and moves `at_ms` to its end.
    fn push(&mut self, length_ms: u64, rounds: f64, asleep: bool) {
        let from_ms = self.at_ms;
        self.at_ms += length_ms;
        match self.stretches.last_mut() {
            _ if length_ms == 0 => {}
            Some(last) if last.end_ms() == from_ms && last.rounds == rounds && last.asleep == asleep => {
                last.length_ms += length_ms;
            }
            _ => self.stretches.push(Stretch {
                from_ms,
                length_ms,
                rounds,
                asleep,
            }),
        }
    }
}

/// Returns for each lane a line on its milliseconds and a chart over the run; empty if no millisecond was kept.
pub fn text(recording: &Recording) -> String {
    let lanes = recording.lanes.iter();
    let lanes = lanes.map(|lane| (lane, rounds_over_time(recording, lane)));
    let kept: Vec<_> = lanes.filter(|(_, stretches)| !stretches.is_empty()).collect();
    let ends = kept.iter().flat_map(|(_, all)| [all.first(), all.last()]).flatten();
    let (Some(from), Some(to)) = (
        ends.clone().map(|end| end.from_ms).min(),
        ends.map(Stretch::end_ms).max(),
    ) else {
        return String::new();
    };
    let second = |ms: u64| format!("{}.{:03} s", ms / 1000, ms % 1000);
    let width = ((to - from) as f64 / COLUMNS).max(1.0);
    let mut text = format!(
        "Rounds per ms from {} to {} of the run, {} a column, '.' where nothing was kept:\n",
        second(from),
        second(to),
        time(width * MS as f64)
    );
    for (lane, stretches) in kept {
        let columns = columns(&stretches, (from, to), width);
        let most = columns.iter().flatten().fold(0.0, |most: f64, of| most.max(*of));
        let _ = writeln!(text, "lane {}: {}", lane.lane, in_words(&stretches, second));
        let _ = writeln!(
            text,
            "  |{}|",
            columns.iter().map(|of| bar(*of, most)).collect::<String>()
        );
    }
    text
}

/// Returns a text with the number of milliseconds, their rounds, and how long there were none.
fn in_words(stretches: &[Stretch], second: impl Fn(u64) -> String) -> String {
    let mut sorted: Vec<&Stretch> = stretches.iter().collect();
    sorted.sort_by(|a, b| a.rounds.total_cmp(&b.rounds));
    let all: u64 = stretches.iter().map(|of| of.length_ms).sum();
    let mut below = 0;
    let half = sorted.iter().find(|of| {
        below += of.length_ms;
        below >= all.div_ceil(2)
    });
    let rounds = |of: Option<&&Stretch>| of.map_or(0.0, |of| of.rounds);
    let mut words = format!(
        "{all} ms: least {:.0}, median {:.0}, most {:.0}",
        rounds(sorted.first()),
        rounds(half),
        rounds(sorted.last())
    );
    let none = stretches.iter().filter(|of| of.rounds == 0.0 && !of.asleep);
    let total: u64 = none.clone().map(|of| of.length_ms).sum();
    if let Some(longest) = none.max_by_key(|of| of.length_ms) {
        let at = second(longest.from_ms);
        let _ = write!(
            words,
            "; none began in {total} ms, the longest stretch {} ms at {at}",
            longest.length_ms
        );
    }
    let asleep: u64 = stretches.iter().filter(|of| of.asleep).map(|of| of.length_ms).sum();
    if asleep > 0 {
        let _ = write!(words, "; mostly asleep in {asleep} ms");
    }
    words
}

/// Returns the mean rounds per ms of each column; `None` if nothing was kept of it.
fn columns(stretches: &[Stretch], (from, to): (u64, u64), width: f64) -> Vec<Option<f64>> {
    let count = ((to - from) as f64 / width).ceil() as u64;
    let column = |place: u64| {
        let (left, right) = (
            from as f64 + place as f64 * width,
            from as f64 + (place + 1) as f64 * width,
        );
        let within = stretches.iter().map(|of| {
            let ms = (of.end_ms() as f64).min(right) - (of.from_ms as f64).max(left);
            (ms.max(0.0), of.rounds)
        });
        let (ms, rounds) = within.fold((0.0, 0.0), |(all, sum), (ms, rounds)| (all + ms, sum + ms * rounds));
        (ms > 0.0).then(|| rounds / ms)
    };
    (0..count).map(column).collect()
}

/// Returns the character of a column: eighths of the highest column; a blank for no round.
fn bar(rounds: Option<f64>, most: f64) -> char {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    match rounds {
        None => '.',
        Some(rounds) if rounds > 0.0 => BARS[((rounds / most * 8.0).ceil() as usize).clamp(1, 8) - 1],
        Some(_) => ' ',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Meta, Round};
    use proptest::prelude::*;

    fn round(at_ns: u64, took_ns: u32, did: Did, polls: u32) -> Round {
        let mut parts = [0; 7];
        parts[0] = took_ns;
        Round {
            at_ns,
            parts,
            polls,
            did,
            ..Round::default()
        }
    }

    fn recording(rounds: Vec<Round>, whole: bool) -> Recording {
        let lane = LaneTrace {
            rounds,
            ..LaneTrace::default()
        };
        Recording {
            meta: Meta {
                whole,
                ..Meta::default()
            },
            lanes: vec![lane],
            ..Recording::default()
        }
    }

    fn stretches(rounds: Vec<Round>, whole: bool) -> Vec<(u64, u64, f64, bool)> {
        let recording = recording(rounds, whole);
        let told = rounds_over_time(&recording, &recording.lanes[0]);
        told.iter()
            .map(|of| (of.from_ms, of.length_ms, of.rounds, of.asleep))
            .collect()
    }

    #[test]
    fn a_burst_counts_where_it_began_and_polls_are_spread() {
        let ms = MS as u32;
        // Ten bursts of 0.1 ms; one that took 3 ms; 200 polls in 2 ms; asleep for 4 ms.
        let mut rounds: Vec<_> = (0..10).map(|n| round(n * MS / 10, ms / 10, Did::Burst, 0)).collect();
        rounds.push(round(MS, 3 * ms, Did::Burst, 0));
        rounds.push(round(4 * MS, 2 * ms, Did::Polled, 200));
        rounds.push(round(6 * MS, 4 * ms, Did::Slept, 0));
        let told = [
            (0, 1, 10.0, false),
            (1, 1, 1.0, false),
            (2, 2, 0.0, false),
            (4, 2, 100.0, false),
            (6, 4, 0.0, true),
        ];
        assert_eq!(stretches(rounds.clone(), false), told);
        let text = text(&recording(rounds, true));
        assert!(
            text.contains(
                "10 ms: least 0, median 0, most 100; none began in 2 ms, the longest stretch 2 ms at 0.002 s; \
                           mostly asleep in 4 ms\n"
            ),
            "{text}"
        );
        assert!(text.contains("|▁▁  ██    |"), "{text}");
    }

    #[test]
    fn where_no_record_is_the_loop_stood_still_only_if_all_were_kept() {
        let ms = MS as u32;
        let rounds = vec![round(0, ms, Did::Burst, 0), round(5 * MS, ms, Did::Burst, 0)];
        assert_eq!(
            stretches(rounds.clone(), false),
            [(0, 1, 1.0, false), (5, 1, 1.0, false)]
        );
        assert!(text(&recording(rounds.clone(), false)).contains("|█....█|"));
        let told = [(0, 1, 1.0, false), (1, 4, 0.0, false), (5, 1, 1.0, false)];
        assert_eq!(stretches(rounds, true), told);
        assert_eq!(text(&recording(vec![], true)), "");
    }

    proptest! {
        #[test]
        fn no_round_is_counted_twice(gaps in proptest::collection::vec((0..3 * MS, 1..3 * MS as u32), 0..50)) {
            let mut at = 0;
            let rounds: Vec<_> = gaps.into_iter().map(|(gap, took)| {
                let round = round(at + gap, took, Did::Burst, 0);
                at = round.end_ns();
                round
            }).collect();
            let count = rounds.len() as f64;
            let told = stretches(rounds, true);
            let sum: f64 = told.iter().map(|(_, length, rounds, _)| *length as f64 * rounds).sum();
            // The milliseconds at both ends are not whole.
            prop_assert!(sum <= count + 1e-6, "{sum} of {count}");
            prop_assert!(told.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{told:?}");
        }
    }
}
