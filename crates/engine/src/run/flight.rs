//! Records kept of the lanes' flight recorders: all of them, or windows around events that are worth one.
//!
//! The collector looks once in each of its rounds. A window and the whole have a cap each, and records left out are
//! counted.

use crate::lane::ring::LaneRing;
use crate::lane::stages::Limits;
use crate::plan::{Common, TraceOptions};
use mpps_stats::LaneCounters;
use mpps_trace::{Kept, LaneTrace, LeftOut, Round};

/// Time after its beginning by which a record of a lane is there for the collector, ns: a sleep is recorded when it is
/// over.
const SLACK_NS: u64 = 25_000_000;

/// Returns the limits beyond which lanes report an event.
pub(crate) fn limits(options: &TraceOptions) -> Limits {
    let ns = |limit: Option<std::time::Duration>| limit.map_or(u64::MAX, |limit| limit.as_nanos() as u64);
    Limits {
        stall_ns: ns(options.stall),
        late_ns: ns(options.late),
    }
}

/// Returns rings for the lanes of a run; none if nothing is recorded.
pub(crate) fn rings(common: &Common) -> Vec<LaneRing> {
    let lanes = common.lanes.len();
    let rings = |options: &TraceOptions| (0..lanes).map(|_| LaneRing::new(options.ring_bytes / lanes)).collect();
    common.trace.as_ref().map_or_else(Vec::new, rings)
}

/// Copies records out of the rings while lanes write them.
pub(crate) struct Keeper<'r> {
    rings: &'r [LaneRing],
    options: Option<&'r TraceOptions>,
    kept: Vec<Vec<Round>>,
    /// By lane: records copied (if all are kept), triggers seen, records lost.
    copied: Vec<u64>,
    seen: Vec<u64>,
    lost: Vec<u64>,
    /// Windows that are not over yet.
    open: Vec<(u64, u64)>,
    windows: usize,
    /// No other window begins before this, ns.
    cool_until_ns: u64,
    /// Triggers that got no window.
    left_out: u64,
    /// Records that there was no memory for.
    no_room: u64,
    /// Time up to which rows have closed, ns since the start, and the packets lost in these rows.
    closed: (u64, i64),
    dropped: u64,
    looked_ns: u64,
    start_ns: u64,
}

impl<'r> Keeper<'r> {
    pub(crate) fn new(rings: &'r [LaneRing], common: &'r Common, start_ns: u64) -> Self {
        Self {
            rings,
            options: common.trace.as_ref(),
            kept: rings.iter().map(|_| Vec::new()).collect(),
            copied: vec![0; rings.len()],
            seen: vec![0; rings.len()],
            lost: vec![0; rings.len()],
            open: Vec::new(),
            windows: 0,
            cool_until_ns: 0,
            left_out: 0,
            no_room: 0,
            closed: (0, 0),
            dropped: 0,
            looked_ns: start_ns,
            start_ns,
        }
    }

    /// Returns the number of records that there is room for.
    fn room(&self, options: &TraceOptions) -> usize {
        let kept: usize = self.kept.iter().map(Vec::len).sum();
        (options.memory / size_of::<Round>()).saturating_sub(kept)
    }

    /// Looks at the rings, once per round of the collector. `closed_ns` is the time since the start up to which rows
    /// have closed, `lost` the packets lost in them; `dropped`: packets that the host dropped so far.
    pub(crate) fn look(&mut self, now_ns: u64, (closed_ns, lost): (u64, i64), dropped: Option<u64>) {
        let Some(options) = self.options else { return };
        if options.all {
            return self.keep_all(options);
        }
        let rings = self.rings;
        for (lane, ring) in rings.iter().enumerate() {
            self.seen[lane] = ring.triggers_from(self.seen[lane], |from, to| self.want(options, from, to));
        }
        if options.loss && lost > self.closed.1 {
            self.want(options, self.start_ns + self.closed.0, self.start_ns + closed_ns);
        }
        self.closed = (closed_ns, lost);
        let dropped = dropped.unwrap_or(0);
        if options.drop && dropped > self.dropped {
            self.want(options, self.looked_ns, now_ns);
        }
        (self.dropped, self.looked_ns) = (dropped, now_ns);
        while let Some(at) = self.open.iter().position(|(_, to)| to + SLACK_NS <= now_ns) {
            let window = self.open.swap_remove(at);
            self.keep(options, window);
        }
    }

    /// Opens a window around an event between these times, if there is to be another window.
    fn want(&mut self, options: &TraceOptions, from_ns: u64, to_ns: u64) {
        if from_ns < self.cool_until_ns && to_ns <= self.cool_until_ns || self.windows == options.windows {
            self.left_out += 1;
            return;
        }
        let (before, after) = (options.before.as_nanos() as u64, options.after.as_nanos() as u64);
        self.windows += 1;
        self.cool_until_ns = to_ns + options.cool_down.as_nanos() as u64;
        self.open.push((from_ns.saturating_sub(before), to_ns + after));
    }

    fn keep(&mut self, options: &TraceOptions, (from_ns, to_ns): (u64, u64)) {
        for (lane, ring) in self.rings.iter().enumerate() {
            let room = self.room(options);
            let (no_room, lost) = ring.window(from_ns, to_ns, room, &mut self.kept[lane]);
            self.no_room += no_room;
            self.lost[lane] += lost;
        }
    }

    fn keep_all(&mut self, options: &TraceOptions) {
        for (lane, ring) in self.rings.iter().enumerate() {
            let room = self.room(options);
            let (next, lost) = ring.since(self.copied[lane], room, &mut self.kept[lane]);
            // Without room records are left out, and counted in the end.
            if room > 0 {
                self.copied[lane] = next;
                self.lost[lane] += lost;
            }
        }
    }

    /// Ends recording, after the lanes have ended at `ended_ns`. `lost` is the number of packets lost in all, `valid`
    /// whether the run is valid. `None`: nothing was recorded.
    pub(crate) fn end(
        mut self,
        common: &Common,
        counters: &[LaneCounters],
        (ended_ns, lost, valid): (u64, i64, bool),
    ) -> Option<Kept> {
        let options = self.options?;
        // Rows that have closed since the last look: all of them, on a host that kept the collector from running.
        if options.loss && !options.all && lost > self.closed.1 {
            self.want(options, self.start_ns + self.closed.0, ended_ns);
        }
        if options.all {
            self.keep_all(options);
            let copied = self.rings.iter().zip(&self.copied);
            self.no_room = copied.map(|(ring, copied)| ring.written() - copied).sum();
        }
        for window in std::mem::take(&mut self.open) {
            self.keep(options, window);
        }
        if options.invalid && !valid && !options.all {
            self.keep(options, (0, u64::MAX));
        }
        let lane = |(number, mut rounds): (usize, Vec<Round>)| {
            // Windows that overlap have the same twice.
            rounds.sort_by_key(|round| (round.at_ns, round.took_ns()));
            rounds.dedup_by_key(|round| (round.at_ns, round.took_ns()));
            let plan = &common.lanes[number];
            let roles = match (plan.tx, plan.rx) {
                (true, true) => "tx, rx",
                (true, false) => "tx",
                (false, _) => "rx",
            };
            LaneTrace {
                lane: number as u32,
                name: format!("lane {number} ({roles})"),
                tid: counters[number].thread.get() as i32,
                cpu: plan.core.map(|core| core as u32),
                rounds,
            }
        };
        let mut left_out = Vec::new();
        let mut leave = |what: String, count: u64, why: &str| {
            left_out.push(LeftOut {
                what,
                count,
                why: why.to_owned(),
            });
        };
        for (number, lost) in self.lost.iter().enumerate().filter(|(_, lost)| **lost > 0) {
            leave(
                format!("rounds of lane {number}"),
                *lost,
                "the recorder's ring had wrapped before they were copied; a larger one lasts longer",
            );
        }
        if self.left_out > 0 {
            leave(
                "windows".to_owned(),
                self.left_out,
                "there were as many as are kept, or one had just been",
            );
        }
        if self.no_room > 0 {
            leave("rounds".to_owned(), self.no_room, "the memory for them was full");
        }
        Some(Kept {
            lanes: self.kept.drain(..).enumerate().map(lane).collect(),
            left_out,
        })
    }

    /// Returns the number of records known to be lost so far.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::LanePlan;
    use std::time::Duration;

    const MS: u64 = 1_000_000;

    fn common(trace: TraceOptions) -> Common {
        Common {
            lanes: vec![
                LanePlan {
                    core: Some(3),
                    ..LanePlan::BOTH
                };
                2
            ],
            trace: Some(trace),
            ..Common::default()
        }
    }

    fn options() -> TraceOptions {
        TraceOptions {
            ring_bytes: 1 << 20,
            before: Duration::from_millis(2),
            after: Duration::from_millis(1),
            cool_down: Duration::from_millis(4),
            windows: 3,
            ..TraceOptions::default()
        }
    }

    /// Two lanes with a round each 0.1 ms, from 0 to 100 ms; the first reports a trigger at these times.
    fn kept(options: TraceOptions, triggers: &[u64], valid: bool) -> Kept {
        let common = common(options);
        let rings = rings(&common);
        let counters = [LaneCounters::default(), LaneCounters::default()];
        let mut keeper = Keeper::new(&rings, &common, 0);
        let mut triggers = triggers.iter().peekable();
        for at in (0..1000).map(|n| n * MS / 10) {
            let round = Round {
                at_ns: at,
                parts: [50_000, 50_000, 0, 0, 0, 0, 0],
                ..Round::default()
            };
            rings.iter().for_each(|ring| ring.push(&round));
            if triggers.next_if(|trigger| **trigger <= at).is_some() {
                rings[0].trigger(at, at);
            }
            if at % (5 * MS) == 0 {
                // Rows of 10 ms close 10 ms later; the third has lost a packet, and at 90 ms the host drops some.
                let closed = at.saturating_sub(10 * MS) / (10 * MS) * 10 * MS;
                let lost = i64::from(closed >= 30 * MS);
                keeper.look(at, (closed, lost), Some(u64::from(at >= 90 * MS) * 7));
            }
        }
        let lost = i64::from(keeper.closed.0 > 0);
        keeper
            .end(&common, &counters, (100 * MS, lost, valid))
            .expect("it was asked for")
    }

    #[test]
    fn loss_that_is_known_at_the_end_only_is_kept_as_well() {
        let common = common(TraceOptions {
            loss: true,
            ..options()
        });
        let rings = rings(&common);
        let round = Round {
            parts: [1_000, 0, 0, 0, 0, 0, 0],
            ..Round::default()
        };
        rings.iter().for_each(|ring| ring.push(&round));
        let rounds = |lost| {
            let counters = [LaneCounters::default(), LaneCounters::default()];
            let kept = Keeper::new(&rings, &common, 0).end(&common, &counters, (MS, lost, true));
            kept.expect("it was asked for").lanes[0].rounds.len()
        };
        assert_eq!((rounds(0), rounds(1)), (0, 1));
    }

    fn spans(kept: &Kept) -> Vec<(u64, u64)> {
        let mut spans: Vec<(u64, u64)> = Vec::new();
        for round in &kept.lanes[1].rounds {
            match spans.last_mut() {
                Some((_, to)) if *to == round.at_ns => *to = round.end_ns(),
                _ => spans.push((round.at_ns, round.end_ns())),
            }
        }
        spans.iter().map(|(from, to)| (from / MS, to / MS)).collect()
    }

    #[test]
    fn windows_are_kept_of_all_lanes_around_what_one_tells_of() {
        let options = options();
        let kept = kept(options, &[20 * MS, 22 * MS, 60 * MS, 70 * MS, 80 * MS], true);
        assert_eq!(spans(&kept), [(18, 21), (58, 61), (68, 71)]);
        assert_eq!(kept.lanes[0].rounds, kept.lanes[1].rounds);
        assert_eq!(
            (kept.lanes[0].name.as_str(), kept.lanes[0].cpu),
            ("lane 0 (tx, rx)", Some(3))
        );
        // One had just been, one was too many.
        assert_eq!((kept.left_out.len(), kept.left_out[0].count), (1, 2));
    }

    #[test]
    fn rows_that_lost_packets_and_times_of_drops_are_kept() {
        let only_loss = TraceOptions {
            loss: true,
            ..options()
        };
        assert_eq!(spans(&kept(only_loss, &[], true)), [(18, 31)]);
        let only_drops = TraceOptions {
            drop: true,
            ..options()
        };
        assert_eq!(spans(&kept(only_drops, &[], true)), [(83, 91)]);
    }

    #[test]
    fn of_a_run_that_is_not_valid_all_that_is_still_there_is_kept() {
        let options = TraceOptions {
            invalid: true,
            ring_bytes: 2 * 100 * size_of::<Round>(),
            ..options()
        };
        assert_eq!(spans(&kept(options.clone(), &[], true)), []);
        assert_eq!(spans(&kept(options, &[], false)), [(90, 100)]);
    }

    #[test]
    fn all_is_kept_up_to_the_memory_for_it() {
        let options = TraceOptions { all: true, ..options() };
        assert_eq!(spans(&kept(options.clone(), &[], true)), [(0, 100)]);
        let options = TraceOptions {
            memory: 600 * size_of::<Round>(),
            ..options
        };
        let kept = kept(options, &[], true);
        assert_eq!(kept.lanes.iter().map(|lane| lane.rounds.len()).sum::<usize>(), 600);
        // Of the thousand of each lane.
        assert_eq!((kept.left_out.len(), kept.left_out[0].count), (1, 2 * 1000 - 600));
    }
}
