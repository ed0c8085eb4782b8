//! Gaps in a thread's readings of the clock, and what they say about the process.
//!
//! A lane looks at its clock in each loop, and wakes from a sleep that it has chosen. If it is back a millisecond late,
//! something held it: another thread, an interrupt, a call into the kernel, or the process did not run at all. When the
//! *whole* process stood still, every thread is away at the same time, and none waited for a core meanwhile. A stop by
//! signal shows at its end: the process gets SIGCONT. It may get one without having been stopped, so there must be a
//! long gap as well.

use mpps_stats::{Gap, GapLog};
use std::cell::Cell;

/// Shortest gap that counts as absence of a thread, ns.
const AWAY_NS: u64 = 1_000_000;
/// Longest time from the return of a process's threads to the note of its SIGCONT, ns: a thread makes the note, too.
const NOTE_LATE_NS: u64 = 50_000_000;
/// Shortest gap that counts as a standstill of the process, ns: threads that share a core may be away together for
/// less.
const STANDSTILL_NS: u64 = 50_000_000;

/// Detects when a thread is away.
#[derive(Debug)]
pub(crate) struct Away<'r> {
    log: &'r GapLog,
    /// Time in ns when the thread should be back; 0: it has not begun.
    back_by: Cell<u64>,
}

impl<'r> Away<'r> {
    pub(crate) fn new(log: &'r GapLog) -> Self {
        Self {
            log,
            back_by: Cell::new(0),
        }
    }

    /// Notes that the thread reads its clock at `now_ns`, and logs a gap if it is late.
    #[inline]
    pub(crate) fn look(&self, now_ns: u64) {
        let by = self.back_by.replace(now_ns);
        if now_ns.saturating_sub(by) > AWAY_NS && by != 0 {
            self.log.note(Gap {
                from_ns: by,
                to_ns: now_ns,
            });
        }
    }

    /// Notes that the thread sleeps until `at_ns` at the latest.
    #[inline]
    pub(crate) fn sleeps_until(&self, at_ns: u64) {
        self.back_by.set(at_ns);
    }
}

/// Times when the whole process stood still, ns on the lanes' clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standstills {
    /// Stops by a signal, after which the process was continued.
    pub(crate) stops: Vec<Gap>,
    /// Standstills without a known reason.
    pub(crate) others: Vec<Gap>,
}

/// Times of signals to continue and to end the process, ns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signals {
    pub(crate) continued: Vec<u64>,
    /// `timeout` and shells send a signal to continue after one to end, whether the process was stopped or not.
    pub(crate) ended: Vec<u64>,
}

/// Finds standstills from the gaps of each lane and of the collector, and from the times when the process was
/// continued. If no lane looks at a clock, the collector's gaps count for all. `waited_ns` is the longest time that a
/// lane waited for its core in the whole run: threads that all wait are away together, too.
pub(crate) fn standstills(lanes: &[Vec<Gap>], collector: &[Gap], signals: &Signals, waited_ns: u64) -> Standstills {
    let witnesses: Vec<&[Gap]> = match lanes {
        [] => vec![collector],
        lanes => lanes.iter().map(Vec::as_slice).collect(),
    };
    let shares = |gaps: &[Gap], with: &Gap| gaps.iter().map(|gap| gap.common_ns(with)).sum::<u64>() * 2 >= with.ns();
    let mut found = Standstills::default();
    let mut continued = signals.continued.clone();
    let mut candidates: Vec<Gap> = witnesses.concat();
    candidates.retain(|gap| gap.ns() >= STANDSTILL_NS);
    candidates.sort_by_key(|gap| std::cmp::Reverse(gap.ns()));
    for gap in candidates {
        let known = found
            .stops
            .iter()
            .chain(&found.others)
            .any(|other| other.common_ns(&gap) > 0);
        if known || !witnesses.iter().all(|gaps| shares(gaps, &gap)) {
            continue;
        }
        let alone = gap.ns() >= 2 * waited_ns && (lanes.is_empty() || shares(collector, &gap));
        // Each signal accounts for one stop.
        let told = continued
            .iter()
            .position(|&at| gap.from_ns < at && at <= gap.to_ns + NOTE_LATE_NS);
        if let Some(place) = told {
            let at = continued[place];
            // A collector that slept through it saw nothing; that the process was continued needs no second witness,
            // unless it was ended at the same time.
            if alone || !signals.ended.iter().any(|end| end.abs_diff(at) <= NOTE_LATE_NS) {
                continued.swap_remove(place);
                found.stops.push(gap);
            }
        } else if alone && !lanes.is_empty() {
            found.others.push(gap);
        }
    }
    found.stops.sort_by_key(|gap| gap.from_ns);
    found.others.sort_by_key(|gap| gap.from_ns);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn gap(from_ms: u64, to_ms: u64) -> Gap {
        Gap {
            from_ns: from_ms * MS,
            to_ns: to_ms * MS,
        }
    }

    /// Times of signals to continue, ns.
    fn continued(at: &[u64]) -> Signals {
        Signals {
            continued: at.to_vec(),
            ..Signals::default()
        }
    }

    #[test]
    fn a_thread_is_away_when_it_is_back_late_from_work_or_sleep() {
        let log = GapLog::default();
        let away = Away::new(&log);
        away.look(7_000 * MS);
        away.look(7_001 * MS);
        away.sleeps_until(7_020 * MS);
        away.look(7_020 * MS + MS / 2);
        assert_eq!(log.count(), 0);
        away.look(7_025 * MS + MS / 2);
        away.sleeps_until(7_040 * MS);
        away.look(7_440 * MS);
        // The thread was woken early.
        away.sleeps_until(7_460 * MS);
        away.look(7_441 * MS);
        assert_eq!((log.count(), log.total_ns()), (2, 405 * MS));
        assert_eq!(log.longest()[0], gap(7_040, 7_440));
    }

    #[test]
    fn a_stop_is_told_by_the_process_going_on_and_every_lane_away() {
        let lanes = [vec![gap(1000, 1400), gap(2000, 2003)], vec![gap(1010, 1401)]];
        let found = standstills(&lanes, &[], &continued(&[1402 * MS]), 500 * MS);
        assert_eq!((found.stops, found.others), (vec![gap(1000, 1400)], vec![]));
        // One lane worked on: no stop, though a signal came.
        let found = standstills(
            &[lanes[0].clone(), vec![]],
            &[gap(1000, 1400)],
            &continued(&[1402 * MS]),
            0,
        );
        assert_eq!(found, Standstills::default());
        // The signal came at another time.
        let found = standstills(&lanes, &[], &continued(&[3000 * MS]), 0);
        assert_eq!(found, Standstills::default());
    }

    #[test]
    fn without_a_signal_all_threads_and_the_collector_away_together_are_a_standstill() {
        let lanes = [vec![gap(1000, 1400)], vec![gap(990, 1400)]];
        let found = standstills(&lanes, &[gap(1000, 1399)], &continued(&[]), 100 * MS);
        assert_eq!((found.stops, found.others), (vec![], vec![gap(990, 1400)]));
        assert_eq!(standstills(&lanes, &[], &continued(&[]), 0), Standstills::default());
        // They may have waited for their cores.
        let found = standstills(&lanes, &[gap(1000, 1399)], &continued(&[]), 300 * MS);
        assert_eq!(found, Standstills::default());
        // Too short to be distinguished from threads that share a core.
        let lanes = [vec![gap(1000, 1010)]];
        assert_eq!(
            standstills(&lanes, &[gap(1000, 1010)], &continued(&[]), 0),
            Standstills::default()
        );
    }

    #[test]
    fn a_signal_to_go_on_with_one_to_end_is_no_stop_unless_the_process_stood_still() {
        // `timeout`: both signals, to a process that runs. Its threads wait for their cores now and then.
        let signals = Signals {
            continued: vec![1000 * MS + 1],
            ended: vec![1000 * MS],
        };
        let lanes = [vec![gap(830, 833), gap(930, 990), gap(996, 999)]];
        let found = standstills(&lanes, &[gap(930, 990)], &signals, 66 * MS);
        assert_eq!(found, Standstills::default());
        // A shell that ends a job that was stopped.
        let lanes = [vec![gap(600, 1000)]];
        let found = standstills(&lanes, &[gap(610, 1001)], &signals, 66 * MS);
        assert_eq!(found.stops, [gap(600, 1000)]);
    }

    #[test]
    fn a_signal_to_go_on_tells_of_one_stop_and_of_none_where_nothing_stood_still() {
        let lanes = [vec![gap(500, 900), gap(905, 965), gap(966, 969)]];
        let found = standstills(&lanes, &[], &continued(&[901 * MS]), 0);
        assert_eq!(found.stops, [gap(500, 900)]);
        let lanes = [vec![gap(890, 897)]];
        let found = standstills(&lanes, &[gap(890, 897)], &continued(&[900 * MS]), 0);
        assert_eq!(found, Standstills::default());
    }

    #[test]
    fn a_run_without_lanes_of_its_own_has_the_collector_s_word_for_a_stop() {
        let found = standstills(&[], &[gap(1000, 1400)], &continued(&[1401 * MS]), 0);
        assert_eq!(found.stops, [gap(1000, 1400)]);
    }
}
