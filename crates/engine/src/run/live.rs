//! Reports of the collector while the run goes on: snapshots for the live view, and how the host treats the lanes.

use crate::run::job::Job;
use mpps_stats::{Collector, LaneCounters, LiveLane, Snapshot, TrackSnapshot};
use mpps_sys::proc_stat::{self, Steal, ThreadStat};
use mpps_trace::Stage;
use std::time::Duration;

/// Time between two snapshots for the live view, ns.
const SNAPSHOT_NS: u64 = 250_000_000;
/// Number of snapshots in a second.
const RECENT: usize = 4;

/// Samples how long the scheduler and the hypervisor kept lanes from running, and the CPU time of the program's own
/// threads. All files are opened beforehand.
#[derive(Debug, Default)]
pub(crate) struct HostWait {
    /// Times of each lane's thread; `None`: the host does not report them.
    lanes: Vec<Option<ThreadStat>>,
    /// Time that each lane had waited by the last reading, and when counting began, ns.
    waited: Vec<Option<[u64; 2]>>,
    own: OwnThreads,
    steal: Option<Steal>,
    /// Time that the hypervisor had taken by the last reading, and when counting began, ns.
    stolen: [u64; 2],
    /// Wait of the lanes and CPU time of own threads at the last sample, ns.
    last: (u64, u64),
}

impl HostWait {
    /// Samples the threads of lanes; the program's others are its own. Opens the files; counting begins with
    /// [`HostWait::restart`].
    pub(crate) fn begin(tids: &[i32]) -> Self {
        let mut this = Self {
            lanes: tids.iter().map(|tid| ThreadStat::open(*tid)).collect(),
            waited: vec![None; tids.len()],
            own: OwnThreads::beside(tids),
            steal: Steal::open(),
            stolen: [0; 2],
            last: (0, 0),
        };
        this.restart();
        this
    }

    /// Begins counting: making a run ready (its rings, its files) takes nothing from lanes that do not work yet.
    pub(crate) fn restart(&mut self) {
        self.own.restart();
        self.look();
        for [now, first] in self.waited.iter_mut().flatten().chain([&mut self.stolen]) {
            *first = *now;
        }
        self.last = (0, self.own.cpu_ns());
    }

    /// Returns how long each lane has waited for its core since [`HostWait::restart`], as last sampled, ns.
    pub(crate) fn waited_by_lane(&self) -> Vec<Option<u64>> {
        let since = |waited: &Option<[u64; 2]>| waited.map(|[now, first]| now.saturating_sub(first));
        self.waited.iter().map(since).collect()
    }

    /// Returns the time since [`HostWait::restart`] that lanes waited for their cores or the hypervisor took, as last
    /// read, ns.
    pub(crate) fn waited_ns(&self) -> u64 {
        let [stolen, first] = self.stolen;
        self.waited_by_lane().into_iter().flatten().sum::<u64>() + stolen.saturating_sub(first)
    }

    /// Reads the time that lanes have waited and the hypervisor has taken. A lane that has ended keeps its last value.
    pub(crate) fn look(&mut self) {
        for (lane, seen) in self.lanes.iter().zip(&mut self.waited) {
            if let Some(now) = lane.as_ref().and_then(|lane| Some(lane.read()?.waited_ns)) {
                *seen = Some([now, seen.map_or(now, |[_, first]| first)]);
            }
        }
        self.stolen[0] = self.steal_ns().unwrap_or(self.stolen[0]);
    }

    /// Returns the wait over all lanes and the CPU time of own threads since the last sample, ns.
    pub(crate) fn sample(&mut self) -> (u64, u64) {
        self.look();
        let now = (self.waited_ns(), self.own.cpu_ns());
        let then = std::mem::replace(&mut self.last, now);
        (now.0.saturating_sub(then.0), now.1.saturating_sub(then.1))
    }

    /// Returns the time that the hypervisor has taken since boot, ns.
    pub(crate) fn steal_ns(&self) -> Option<u64> {
        self.steal.as_ref()?.read_ns()
    }

    /// Returns the own threads, with their CPU time since [`HostWait::restart`].
    pub(crate) fn own(&mut self) -> &mut OwnThreads {
        &mut self.own
    }
}

/// The program's threads beside the lanes.
#[derive(Debug, Default)]
pub(crate) struct OwnThreads {
    /// Name, times, and CPU time when counting began and when last read, ns.
    threads: Vec<(String, ThreadStat, u64, u64)>,
}

impl OwnThreads {
    fn beside(lanes: &[i32]) -> Self {
        let others = proc_stat::threads().into_iter().filter(|(tid, _)| !lanes.contains(tid));
        let open = |(tid, name)| {
            let stat = ThreadStat::open(tid)?;
            let ran = stat.read()?.ran_ns;
            Some((name, stat, ran, ran))
        };
        Self {
            threads: others.filter_map(open).collect(),
        }
    }

    fn restart(&mut self) {
        self.cpu_ns();
        for (_, _, first, last) in &mut self.threads {
            *first = *last;
        }
    }

    /// Returns the CPU time so far, ns.
    fn cpu_ns(&mut self) -> u64 {
        for (_, stat, _, last) in &mut self.threads {
            *last = stat.read().map_or(*last, |times| times.ran_ns);
        }
        self.threads.iter().map(|(_, _, first, last)| last - first).sum()
    }

    /// Returns the CPU time by thread, ns; threads that did nothing are left out.
    pub(crate) fn by_thread(&mut self) -> Vec<(String, u64)> {
        self.cpu_ns();
        let busy = self
            .threads
            .iter()
            .map(|(name, _, first, last)| (name.clone(), last - first));
        busy.filter(|(_, ns)| *ns > 0).collect()
    }
}

/// Makes snapshots from the lanes' own totals and the rows closed so far.
#[derive(Debug)]
pub(crate) struct Live {
    start_ns: u64,
    next_ns: u64,
    last: (u64, u64, u64),
    closed: (u64, i64),
    tracks: Vec<TrackOf>,
    /// Time of each stage over all lanes at the last snapshots, the oldest first.
    stages: [[f64; Stage::COUNT]; RECENT],
}

/// One of several tracks: its lanes, and its counts at the last snapshot.
#[derive(Debug)]
pub(crate) struct TrackOf {
    name: &'static str,
    /// By lane: whether it sends and whether it receives in this track.
    lanes: Vec<[bool; 2]>,
    last: [u64; 2],
}

/// Returns the tracks of a job, if there are several.
pub(crate) fn tracks_of(job: &dyn Job, lanes: usize) -> Vec<TrackOf> {
    let track = |(track, name): (usize, &&'static str)| {
        let role = |lane| job.tracks_of(lane);
        TrackOf {
            name,
            lanes: (0..lanes)
                .map(|lane| [role(lane).sends == track, role(lane).takes == track])
                .collect(),
            last: [0; 2],
        }
    };
    job.tracks().iter().enumerate().map(track).collect()
}

impl TrackOf {
    fn snapshot(
        &mut self,
        lanes: &[LaneCounters],
        seconds: f64,
        (closed_tx, closed_lost): (u64, i64),
    ) -> TrackSnapshot {
        let all = || self.lanes.iter().zip(lanes);
        let tx = all()
            .filter(|(of, _)| of[0])
            .map(|(_, lane)| lane.tx_packets.get())
            .sum::<u64>();
        let rx = all()
            .filter(|(of, _)| of[1])
            .map(|(_, lane)| lane.rx_test.get())
            .sum::<u64>();
        let [tx_then, rx_then] = std::mem::replace(&mut self.last, [tx, rx]);
        TrackSnapshot {
            name: self.name,
            tx,
            rx,
            tx_pps: tx.saturating_sub(tx_then) as f64 / seconds,
            rx_pps: rx.saturating_sub(rx_then) as f64 / seconds,
            closed_tx,
            closed_lost,
        }
    }
}

impl Live {
    pub(crate) fn new(start_ns: u64, tracks: Vec<TrackOf>) -> Self {
        Self {
            start_ns,
            tracks,
            next_ns: start_ns + SNAPSHOT_NS,
            last: (start_ns, 0, 0),
            closed: (0, 0),
            stages: [[0.0; Stage::COUNT]; RECENT],
        }
    }

    /// Returns whether a snapshot is due by a look at `now_ns`. The next one is then due by the look that is nearest to
    /// its time, so that no wake-up is for the view alone.
    pub(crate) fn is_due(&mut self, now_ns: u64, tick_ns: u64) -> bool {
        let due = now_ns + tick_ns / 2 >= self.next_ns;
        if due {
            self.next_ns = now_ns.max(self.start_ns) + SNAPSHOT_NS;
        }
        due
    }

    /// Returns the share of each stage in the time of the last second.
    fn stage_shares(&mut self, lanes: &[LaneCounters]) -> [f64; Stage::COUNT] {
        let mut now = [0.0; Stage::COUNT];
        for lane in lanes {
            let times = lane.stages.times_ns();
            now.iter_mut().zip(times).for_each(|(sum, ns)| *sum += ns);
        }
        let then = self.stages[0];
        self.stages.rotate_left(1);
        self.stages[RECENT - 1] = now;
        // Newer measurements may divide earlier time between stages a little differently.
        let mut shares: [f64; Stage::COUNT] = std::array::from_fn(|at| (now[at] - then[at]).max(0.0));
        let all: f64 = shares.iter().sum();
        if all > 0.0 {
            shares.iter_mut().for_each(|share| *share /= all);
        }
        shares
    }

    pub(crate) fn snapshot(
        &mut self,
        now_ns: u64,
        end_ns: u64,
        planned: Option<Duration>,
        lanes: &[LaneCounters],
        collector: &Collector<'_>,
    ) -> Snapshot {
        let tx = lanes.iter().map(|l| l.tx_packets.get()).sum();
        let rx = lanes.iter().map(|l| l.rx_test.get()).sum();
        let (then, tx_then, rx_then) = std::mem::replace(&mut self.last, (now_ns, tx, rx));
        let seconds = (now_ns - then).max(1) as f64 / 1e9;
        let closed = collector.so_far();
        let (sent, lost) = (closed.0 - self.closed.0, closed.1 - self.closed.1);
        self.closed = closed;
        let stage_shares = self.stage_shares(lanes);
        let tracks = self.tracks.iter_mut().zip(collector.so_far_of_tracks());
        Snapshot {
            stage_shares,
            tracks: tracks
                .map(|(track, closed)| track.snapshot(lanes, seconds, closed))
                .collect(),
            elapsed_ns: now_ns.saturating_sub(self.start_ns),
            planned_ns: planned.map(|d| d.as_nanos() as u64),
            settling: now_ns >= end_ns,
            tx,
            rx,
            tx_pps: tx.saturating_sub(tx_then) as f64 / seconds,
            rx_pps: rx.saturating_sub(rx_then) as f64 / seconds,
            closed_ns: collector.closed_ns(),
            closed_tx: closed.0,
            closed_lost: closed.1,
            recent_loss_ratio: if sent == 0 {
                0.0
            } else {
                (lost.max(0) as f64 / sent as f64).min(1.0)
            },
            host_dropped: collector.host_dropped(),
            recent_latency: collector.recent_latency(),
            lanes: lanes.iter().map(LiveLane::from).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_stats::{LaneSeries, Timing, Workload};

    #[test]
    fn rates_of_sending_and_receiving_are_of_the_same_stretch() {
        let timing = Timing {
            start_ns: 1_000,
            interval_ns: 10_000_000,
            settle_ns: 0,
        };
        let series = LaneSeries::new(timing, true);
        let collector = Collector::new(vec![&series], Workload::SendRecv, true);
        let counters = [LaneCounters::default(), LaneCounters::default()];
        let mut live = Live::new(timing.start_ns, Vec::new());
        for (at_ms, packets, pps) in [(250, 1_000, 8_000.0), (750, 1_000, 4_000.0)] {
            for lane in &counters {
                lane.tx_packets.add(packets);
                lane.rx_test.add(packets);
            }
            let now_ns = timing.start_ns + at_ms * 1_000_000;
            let told = live.snapshot(now_ns, u64::MAX, None, &counters, &collector);
            assert_eq!((told.tx_pps, told.rx_pps), (pps, pps));
        }
    }
}
