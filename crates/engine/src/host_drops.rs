//! What this host drops before mpps sees it, while the run goes on.
//!
//! Reading it means system calls, so it is read once a row, at the row's end, and not more often than every 100 ms. What a
//! reading finds came since the one before: the collector books it by that, and what the lanes did meanwhile is kept, for a
//! cause must have been at the time of its effect.

use crate::control::Control;
use crate::job::Job;
use crate::meanwhile::{LaneTime, Lookout};
use crate::outcome::LaneOutcome;
use crate::plan::LanePlan;
use mpps_io::QueueCounters;
use mpps_stats::Collector;

/// Reads the drops of all lanes as rows end.
pub(crate) struct HostDrops<'r> {
    /// What was dropped before the run, by lane, then by port; `None` where the path can't tell.
    before: Option<Vec<Vec<u64>>>,
    plans: &'r [LanePlan],
    control: &'r Control,
    lookout: Lookout<'r>,
    next_ns: u64,
    /// The end of sending was seen.
    ended: bool,
}

impl<'r> HostDrops<'r> {
    /// Before the start, from the counters of that time: by lane, then by port.
    pub(crate) fn new<J: Job>(
        job: &J,
        counters: &[Vec<QueueCounters>],
        plans: &'r [LanePlan],
        control: &'r Control,
        lookout: Lookout<'r>,
    ) -> Self {
        let known = read(job, counters.len()).is_some();
        Self {
            before: known.then(|| dropped(counters)),
            plans,
            control,
            lookout,
            next_ns: 0,
            ended: false,
        }
    }

    /// Reads them if a row has ended since they were read last, or the sending has.
    pub(crate) fn look<J: Job>(&mut self, now_ns: u64, job: &J, collector: &mut Collector<'_>) {
        if self.next_ns == 0 {
            self.lookout.begin(collector.start_ns());
            self.next_ns = collector.next_reading_ns(now_ns);
        }
        let ends = !self.ended && now_ns >= self.control.end_ns();
        if now_ns < self.next_ns && !ends {
            return;
        }
        self.next_ns = collector.next_reading_ns(now_ns);
        let now = self.before.as_ref().and_then(|_| read(job, self.plans.len()));
        if let Some(now) = now {
            let since = self.since(&now);
            if !ends {
                collector.note_host_drops(now_ns, since.iter().flatten().sum());
            }
            self.lookout.look(now_ns, &self.by_lane(job, &since));
        } else if ends {
            self.lookout.look(now_ns, &[]);
        }
        if ends {
            self.ended = true;
            self.lookout.sending_ended();
        }
    }

    /// Notes the counters of the whole run, those that the summary has: what the rows add up to. Returns what the lanes
    /// did in the time of sending, and in the time of the drops.
    pub(crate) fn end<J: Job>(
        mut self,
        now_ns: u64,
        job: &J,
        (path, outcomes): (&[Vec<QueueCounters>], &[LaneOutcome]),
        collector: &mut Collector<'_>,
    ) -> [Vec<LaneTime>; 2] {
        let dropped = dropped(path);
        if self.before.is_some() {
            collector.note_host_drops(now_ns, dropped.iter().flatten().sum());
        }
        let by_lane = self.by_lane(job, &dropped);
        self.lookout.end(now_ns, &by_lane, outcomes);
        self.lookout.times()
    }

    fn since(&self, now: &[Vec<u64>]) -> Vec<Vec<u64>> {
        let before = self.before.iter().flatten();
        let lanes = now.iter().zip(before);
        lanes
            .map(|(now, before)| {
                now.iter()
                    .zip(before)
                    .map(|(now, then)| now.saturating_sub(*then))
                    .collect()
            })
            .collect()
    }

    /// What was dropped of what each lane was to take.
    fn by_lane<J: Job>(&self, job: &J, dropped: &[Vec<u64>]) -> Vec<u64> {
        let takes = |lane: usize, place| self.plans[lane].rx && job.takes(lane, place);
        attribute(dropped, takes, |place| job.drops_by_queue(place))
    }
}

/// Of drops by lane and port: those at a queue of a lane that takes what comes in by it are that lane's; the others could
/// be of any lane that takes from that port, and count as spread over them.
fn attribute(dropped: &[Vec<u64>], takes: impl Fn(usize, usize) -> bool, by_queue: impl Fn(usize) -> bool) -> Vec<u64> {
    let mut lanes = vec![0; dropped.len()];
    for place in 0..dropped.first().map_or(0, Vec::len) {
        let takers: Vec<usize> = (0..dropped.len()).filter(|&lane| takes(lane, place)).collect();
        let mut any = 0;
        for (lane, n) in dropped.iter().enumerate().map(|(lane, places)| (lane, places[place])) {
            if takers.is_empty() || by_queue(place) && takers.contains(&lane) {
                lanes[lane] += n;
            } else {
                any += n;
            }
        }
        for (i, &lane) in takers.iter().enumerate() {
            let (all, i) = (takers.len() as u64, i as u64);
            lanes[lane] += any * (i + 1) / all - any * i / all;
        }
    }
    lanes
}

fn dropped(counters: &[Vec<QueueCounters>]) -> Vec<Vec<u64>> {
    let places = counters.iter().map(Vec::len).max().unwrap_or(0);
    let lane = |lane: &Vec<QueueCounters>| {
        let mut dropped: Vec<u64> = lane.iter().map(|port| port.rx_dropped).collect();
        dropped.resize(places, 0);
        dropped
    };
    counters.iter().map(lane).collect()
}

fn read<J: Job>(job: &J, lanes: usize) -> Option<Vec<Vec<u64>>> {
    let places = job.places();
    let lane = |lane| (0..places).map(|place| job.rx_dropped(lane, place)).collect();
    (0..lanes).map(lane).collect()
}

#[cfg(test)]
mod tests {
    use super::attribute;

    #[test]
    fn drops_are_those_of_the_lane_that_takes_what_comes_in_there() {
        // Two lanes, two ports; each lane takes from one of them.
        let one_way = |lane: usize, place: usize| lane == place;
        assert_eq!(attribute(&[vec![7, 0], vec![0, 5]], one_way, |_| true), [7, 5]);
        // All of a port's drops stand at its first queue.
        assert_eq!(attribute(&[vec![7, 5], vec![0, 0]], one_way, |_| false), [7, 5]);
        assert_eq!(attribute(&[vec![7, 5], vec![0, 0]], |_, _| true, |_| false), [5, 7]);
        // A lane that only sends has a queue of the port, too.
        assert_eq!(attribute(&[vec![9], vec![1]], |lane, _| lane == 1, |_| true), [0, 10]);
        assert_eq!(attribute(&[vec![], vec![]], one_way, |_| true), [0, 0]);
    }
}
