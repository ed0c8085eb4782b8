//! What this host drops before mpps sees it, while the run goes on.
//!
//! Reading it means system calls, so it is read once per row, at the row's end, and not more often than every 100 ms.
//! What a reading finds came since the one before: the collector books it by that, and what the lanes did meanwhile is
//! kept, for a cause must have been at the time of its effect.

use crate::plan::LanePlan;
use crate::run::control::Control;
use crate::run::job::Desk;
use crate::run::outcome::LaneOutcome;
use crate::verdict::meanwhile::{LaneTime, Lookout};
use mpps_io::QueueCounters;
use mpps_stats::{Collector, LiveLane};

/// Reads the drops of all lanes as rows end: those that concern one way.
pub(crate) struct HostDrops<'r> {
    /// Which way, where there are several.
    way: Option<usize>,
    /// What was dropped before the run; `None` where the path can't tell.
    before: Option<Drops>,
    /// Since then. Filled anew by each reading, as the next two are: a look allocates nothing.
    since: Drops,
    by_lane: Vec<u64>,
    takers: Vec<usize>,
    /// What the lanes do in that way.
    plans: Vec<LanePlan>,
    control: &'r Control,
    lookout: Lookout<'r>,
    next_ns: u64,
    /// The end of sending was seen.
    ended: bool,
}

impl<'r> HostDrops<'r> {
    /// Before the start, of one way, from the counters of that time: by lane, then by port.
    pub(crate) fn new(
        job: &dyn Desk,
        (way, counters): (usize, &[Vec<QueueCounters>]),
        plans: Vec<LanePlan>,
        control: &'r Control,
        lookout: Lookout<'r>,
    ) -> Self {
        let mut since = Drops::of(counters);
        let before = since.clone();
        let way = (!job.ways().is_empty()).then_some(way);
        let known = since.read(job, way);
        Self {
            way,
            before: known.then_some(before),
            since,
            by_lane: vec![0; counters.len()],
            takers: Vec::with_capacity(counters.len()),
            plans,
            control,
            lookout,
            next_ns: 0,
            ended: false,
        }
    }

    /// Those of what each lane was to take, as last read; `None` where the path can't tell.
    fn by_lane(&self) -> Option<&[u64]> {
        self.before.is_some().then_some(&self.by_lane[..])
    }

    /// Reads them if a row has ended since they were read last, or the sending has. Returns how many were dropped since
    /// the start, where that is to be noted.
    fn look(&mut self, now_ns: u64, job: &dyn Desk, collector: &Collector<'_>) -> Option<u64> {
        if self.next_ns == 0 {
            self.lookout.begin(collector.start_ns());
            self.next_ns = collector.next_reading_ns(now_ns);
        }
        let ends = !self.ended && now_ns >= self.control.end_ns();
        if now_ns < self.next_ns && !ends {
            return None;
        }
        let mut noted = None;
        self.next_ns = collector.next_reading_ns(now_ns);
        if let Some(before) = &self.before
            && self.since.read(job, self.way)
        {
            self.since.subtract(before);
            noted = (!ends).then(|| self.since.all());
            self.attribute(job);
            self.lookout.look(now_ns, &self.by_lane);
        } else if ends {
            self.lookout.look(now_ns, &[]);
        }
        if ends {
            self.ended = true;
            self.lookout.sending_ended();
        }
        noted
    }

    /// What the lanes did in the time of sending, and in the time of the drops.
    fn end(
        mut self,
        now_ns: u64,
        job: &dyn Desk,
        (path, outcomes): (&[Vec<QueueCounters>], &[LaneOutcome]),
    ) -> [Vec<LaneTime>; 2] {
        self.since = Drops::of(path);
        self.attribute(job);
        self.lookout.end(now_ns, &self.by_lane, outcomes);
        self.lookout.times()
    }

    /// Finds what was dropped of what each lane was to take.
    fn attribute(&mut self, job: &dyn Desk) {
        let plans = &self.plans;
        let takes = |lane: usize, place| plans[lane].rx && job.takes(lane, place);
        let by_queue = |place| job.drops_by_queue(place);
        attribute(&self.since, takes, by_queue, (&mut self.by_lane, &mut self.takers));
    }
}

/// Most ways in which packets go at the same time.
const WAYS: usize = 2;

/// Has the drops of each way read and noted where that is due.
pub(crate) fn look(ways: &mut [HostDrops<'_>], now_ns: u64, job: &dyn Desk, collector: &mut Collector<'_>) {
    let mut totals = [None; WAYS];
    for (way, total) in ways.iter_mut().zip(&mut totals) {
        *total = way.look(now_ns, job, collector);
    }
    collector.note_host_drops(now_ns, &totals[..ways.len().min(WAYS)]);
}

/// Writes down for each lane how many were dropped of what it was to take, as last read.
pub(crate) fn note_by_lane(ways: &[HostDrops<'_>], lanes: &mut [LiveLane]) {
    for (lane, live) in lanes.iter_mut().enumerate() {
        live.rx_dropped = ways.iter().map(|way| way.by_lane()?.get(lane).copied()).sum();
    }
}

/// Notes the counters of the whole run, those that the summary has: what the rows add up to. Returns, by way, what the
/// lanes did in the time of sending, and in the time of the drops.
pub(crate) fn end(
    ways: Vec<HostDrops<'_>>,
    now_ns: u64,
    job: &dyn Desk,
    (path, outcomes): (&[Vec<Vec<QueueCounters>>], &[LaneOutcome]),
    collector: &mut Collector<'_>,
) -> Vec<[Vec<LaneTime>; 2]> {
    let total = |(way, path): (&HostDrops<'_>, &Vec<_>)| way.before.as_ref().map(|_| Drops::of(path).all());
    let totals: Vec<_> = ways.iter().zip(path).map(total).collect();
    collector.note_host_drops(now_ns, &totals);
    let ways = ways.into_iter().zip(path);
    ways.map(|(way, path)| way.end(now_ns, job, (path, outcomes))).collect()
}

/// Of drops by lane and port: those at a queue of a lane that takes what comes in by it are that lane's; the others
/// could be of any lane that takes from that port, and count as spread over them.
fn attribute(
    dropped: &Drops,
    takes: impl Fn(usize, usize) -> bool,
    by_queue: impl Fn(usize) -> bool,
    (lanes, takers): (&mut [u64], &mut Vec<usize>),
) {
    lanes.fill(0);
    for place in 0..dropped.places {
        takers.clear();
        takers.extend((0..dropped.lanes()).filter(|&lane| takes(lane, place)));
        let mut any = 0;
        for (lane, n) in (0..dropped.lanes()).map(|lane| (lane, dropped.at(lane, place))) {
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
}

/// Packets that were dropped, by lane, then by port.
#[derive(Clone, Debug, Default)]
struct Drops {
    places: usize,
    counts: Vec<u64>,
}

impl Drops {
    fn of(counters: &[Vec<QueueCounters>]) -> Self {
        let places = counters.iter().map(Vec::len).max().unwrap_or(0);
        let mut counts = vec![0; places * counters.len()];
        for (lane, ports) in counters.iter().enumerate() {
            for (place, port) in ports.iter().enumerate() {
                counts[lane * places + place] = port.rx_dropped;
            }
        }
        Self { places, counts }
    }

    fn lanes(&self) -> usize {
        self.counts.len().checked_div(self.places).unwrap_or(0)
    }

    fn at(&self, lane: usize, place: usize) -> u64 {
        self.counts[lane * self.places + place]
    }

    fn all(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Takes the place of what was read before. False: the path can't tell.
    fn read(&mut self, job: &dyn Desk, way: Option<usize>) -> bool {
        let places = self.places;
        self.counts.iter_mut().enumerate().all(|(i, count)| {
            let now = job.rx_dropped(i / places, i % places, way);
            *count = now.unwrap_or(0);
            now.is_some()
        })
    }

    fn subtract(&mut self, before: &Self) {
        for (now, before) in self.counts.iter_mut().zip(&before.counts) {
            *now = now.saturating_sub(*before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Drops;

    fn attribute(
        dropped: &[&[u64]],
        takes: impl Fn(usize, usize) -> bool,
        by_queue: impl Fn(usize) -> bool,
    ) -> Vec<u64> {
        let drops = Drops {
            places: dropped[0].len(),
            counts: dropped.concat(),
        };
        let mut lanes = vec![77; dropped.len()];
        super::attribute(&drops, takes, by_queue, (&mut lanes, &mut Vec::new()));
        lanes
    }

    #[test]
    fn drops_are_those_of_the_lane_that_takes_what_comes_in_there() {
        // Two lanes, two ports; each lane takes from one of them.
        let one_way = |lane: usize, place: usize| lane == place;
        assert_eq!(attribute(&[&[7, 0], &[0, 5]], one_way, |_| true), [7, 5]);
        // All of a port's drops stand at its first queue.
        assert_eq!(attribute(&[&[7, 5], &[0, 0]], one_way, |_| false), [7, 5]);
        assert_eq!(attribute(&[&[7, 5], &[0, 0]], |_, _| true, |_| false), [5, 7]);
        // A lane that only sends has a queue of the port, too.
        assert_eq!(attribute(&[&[9], &[1]], |lane, _| lane == 1, |_| true), [0, 10]);
        assert_eq!(attribute(&[&[], &[]], one_way, |_| true), [0, 0]);
    }
}
