//! Lanes' use of a stretch of time: while packets were dropped, or until the sending ended.
//!
//! A lane's sums over the whole run say little about the time in which something went wrong, which may be a small part
//! of it. The settle time belongs to no departure. So the lanes' counters are read whenever drops are, and the times
//! with drops are added up. All files are opened beforehand.

use crate::outcome::LaneOutcome;
use mpps_stats::LaneCounters;
use mpps_sys::proc_stat::ThreadStat;

/// Use of a stretch of time by one lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaneTime {
    /// Length of the stretch, ns.
    pub(crate) ns: u64,
    /// Time in loops, ns; 0: the lane does not loop, or ran in none.
    pub(crate) loop_ns: u64,
    /// Time in loops that moved something, ns.
    pub(crate) busy_ns: u64,
    /// Time in which the lane had packets to send and the path took none, ns.
    pub(crate) blocked_ns: u64,
    /// Time ready to run and not running, ns; `None`: the kernel does not report it.
    pub(crate) waited_ns: Option<u64>,
    /// Number of times that the lane was away from its clock, waiting for its core or held by something else, and their
    /// sum, ns.
    pub(crate) away: u64,
    pub(crate) away_ns: u64,
    /// Time in which the lane's device was down, ns.
    pub(crate) down_ns: u64,
    /// Packets that the lane took.
    pub(crate) taken: u64,
    /// Packets that this host dropped before the lane could take them.
    pub(crate) dropped: u64,
}

impl LaneTime {
    fn since(&self, before: &Self) -> Self {
        let waited = self.waited_ns.zip(before.waited_ns);
        Self {
            ns: self.ns.saturating_sub(before.ns),
            loop_ns: self.loop_ns.saturating_sub(before.loop_ns),
            busy_ns: self.busy_ns.saturating_sub(before.busy_ns),
            blocked_ns: self.blocked_ns.saturating_sub(before.blocked_ns),
            waited_ns: waited.map(|(now, then)| now.saturating_sub(then)),
            away: self.away.saturating_sub(before.away),
            away_ns: self.away_ns.saturating_sub(before.away_ns),
            down_ns: self.down_ns.saturating_sub(before.down_ns),
            taken: self.taken.saturating_sub(before.taken),
            dropped: self.dropped.saturating_sub(before.dropped),
        }
    }

    fn add(&mut self, more: &Self) {
        self.ns += more.ns;
        self.loop_ns += more.loop_ns;
        self.busy_ns += more.busy_ns;
        self.blocked_ns += more.blocked_ns;
        self.waited_ns = more
            .waited_ns
            .map(|ns| self.waited_ns.unwrap_or(0) + ns)
            .or(self.waited_ns);
        self.away += more.away;
        self.away_ns += more.away_ns;
        self.down_ns += more.down_ns;
        self.taken += more.taken;
        self.dropped += more.dropped;
    }
}

/// Opens the files of lanes' threads, once each runs; 0: the thread is no lane's.
pub(crate) fn open(threads: &[i32]) -> Vec<Option<ThreadStat>> {
    let open = |&thread: &i32| (thread != 0).then(|| ThreadStat::open(thread)).flatten();
    threads.iter().map(open).collect()
}

/// Reads the counters of all lanes of a run at each look.
pub(crate) struct Lookout<'r> {
    lanes: &'r [LaneCounters],
    stats: Vec<Option<&'r ThreadStat>>,
    /// Counts before the start, and at the last look.
    first: Vec<LaneTime>,
    last: Vec<LaneTime>,
    /// Room for the look at hand: none allocates.
    now: Vec<LaneTime>,
    start_ns: u64,
    sending: Option<Vec<LaneTime>>,
    dropping: Vec<LaneTime>,
}

impl<'r> Lookout<'r> {
    /// Begins before the start, with the lanes' counters and the files of the threads ([`open`]) that are to be looked
    /// at.
    pub(crate) fn new(lanes: &'r [LaneCounters], stats: Vec<Option<&'r ThreadStat>>) -> Self {
        let mut this = Self {
            lanes,
            stats,
            first: Vec::new(),
            last: Vec::new(),
            now: vec![LaneTime::default(); lanes.len()],
            start_ns: 0,
            sending: None,
            dropping: vec![LaneTime::default(); lanes.len()],
        };
        this.read(0, &[]);
        this.first = this.now.clone();
        this.last = this.now.clone();
        this
    }

    /// Sets the start of the run.
    pub(crate) fn begin(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
    }

    fn read(&mut self, now_ns: u64, dropped: &[u64]) {
        let lanes = self.lanes.iter().zip(&self.stats).enumerate();
        for (now, (i, (lane, stat))) in self.now.iter_mut().zip(lanes) {
            *now = LaneTime {
                ns: now_ns.saturating_sub(self.start_ns),
                loop_ns: lane.loop_ns.get(),
                busy_ns: lane.busy_ns.get(),
                blocked_ns: lane.blocked_ns.get(),
                waited_ns: stat.and_then(ThreadStat::read).map(|times| times.waited_ns),
                away: lane.away.count(),
                away_ns: lane.away.total_ns(),
                down_ns: lane.down_ns.get(),
                taken: lane.rx_packets.get(),
                dropped: dropped.get(i).copied().unwrap_or(0),
            };
        }
    }

    /// Notes, at `now_ns`, how many packets were dropped so far that each lane was to take; `dropped` is empty if not
    /// known.
    pub(crate) fn look(&mut self, now_ns: u64, dropped: &[u64]) {
        self.read(now_ns, dropped);
        self.step();
    }

    fn step(&mut self) {
        for (now, last) in self.now.iter_mut().zip(&self.last) {
            // The times of a thread that has ended can't be read any more.
            now.waited_ns = now.waited_ns.or(last.waited_ns);
        }
        for ((sum, now), last) in self.dropping.iter_mut().zip(&self.now).zip(&self.last) {
            let meanwhile = now.since(last);
            if meanwhile.dropped > 0 {
                sum.add(&meanwhile);
            }
        }
        self.last.copy_from_slice(&self.now);
    }

    /// Notes that the last look was at the end of sending.
    pub(crate) fn sending_ended(&mut self) {
        self.sending = Some(self.so_far());
    }

    fn so_far(&self) -> Vec<LaneTime> {
        let lanes = self.last.iter().zip(&self.first);
        lanes.map(|(now, first)| now.since(first)).collect()
    }

    /// Looks a last time, as [`Lookout::look`] does, once the lanes have ended. Their outcomes contain how long they
    /// waited in all.
    pub(crate) fn end(&mut self, now_ns: u64, dropped: &[u64], outcomes: &[LaneOutcome]) {
        self.read(now_ns, dropped);
        for ((now, first), outcome) in self.now.iter_mut().zip(&self.first).zip(outcomes) {
            now.waited_ns = outcome.run_delay_ns.zip(first.waited_ns).map(|(ns, first)| first + ns);
        }
        self.step();
    }

    /// Returns each lane's time until the sending ended, and its time while packets that it was to take were dropped.
    pub(crate) fn times(self) -> [Vec<LaneTime>; 2] {
        let so_far = self.so_far();
        [self.sending.unwrap_or(so_far), self.dropping]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_with_drops_are_added_up_by_lane_and_the_sending_ends_before_the_settle_time() {
        let lanes = [LaneCounters::default(), LaneCounters::default()];
        let stats = open(&[0, 0]);
        let mut lookout = Lookout::new(&lanes, stats.iter().map(Option::as_ref).collect());
        lookout.begin(1_000);
        let steps: [(u64, [u64; 2]); 4] = [(1_100, [0, 0]), (1_200, [5, 0]), (1_300, [5, 7]), (1_400, [6, 7])];
        for (now, dropped) in steps {
            lanes[0].blocked_ns.add(10);
            lanes[0].loop_ns.add(100);
            lanes[1].rx_packets.add(3);
            lookout.look(now, &dropped);
        }
        lookout.sending_ended();
        lanes[0].blocked_ns.add(500);
        lookout.end(2_000, &[6, 7], &[]);
        let [sending, dropping] = lookout.times();
        assert_eq!((sending[0].ns, sending[0].blocked_ns, sending[1].taken), (400, 40, 12));
        let at = |lane: usize| {
            (
                dropping[lane].ns,
                dropping[lane].blocked_ns,
                dropping[lane].taken,
                dropping[lane].dropped,
            )
        };
        assert_eq!(at(0), (200, 20, 0, 6));
        assert_eq!(at(1), (100, 0, 3, 7));
    }
}
