//! Packets that this host drops before mpps sees them, read while the run goes on.
//!
//! Reading the drops means system calls, so they are read once per row, at the row's end, and not more often than every
//! 100 ms. Drops in a reading came since the reading before, and the collector books them so. The lanes' time since
//! then is kept, too, as a cause must have been at the time of its effect.

use crate::lane::control::Control;
use crate::outcome::LaneOutcome;
use crate::plan::{LanePlan, MOST_BESIDE};
use crate::run::job::Job;
use crate::verdict::meanwhile::{LaneTime, Lookout};
use mpps_io::QueueCounters;
use mpps_stats::{Collector, LiveLane};

/// Reads the drops of all lanes as rows end, for one track.
pub(crate) struct HostDrops<'r> {
    /// Number of the track, if there are several.
    track: Option<usize>,
    /// Drops before the run; `None`: the path does not know them.
    before: Option<Drops>,
    /// Drops since then. Each reading fills this and the next two fields again, so a look allocates nothing.
    since: Drops,
    by_lane: Vec<u64>,
    takers: Vec<usize>,
    /// Roles of the lanes in that track.
    plans: Vec<LanePlan>,
    control: &'r Control,
    lookout: Lookout<'r>,
    next_ns: u64,
    /// The end of sending was seen.
    ended: bool,
}

impl<'r> HostDrops<'r> {
    /// Begins before the start, for one track, with the counters of that time: by lane, then by port.
    pub(crate) fn new(
        job: &dyn Job,
        (track, counters): (usize, &[Vec<QueueCounters>]),
        plans: Vec<LanePlan>,
        control: &'r Control,
        lookout: Lookout<'r>,
    ) -> Self {
        let mut since = Drops::of(counters);
        let before = since.clone();
        let track = (!job.tracks().is_empty()).then_some(track);
        let known = since.read(job, track);
        Self {
            track,
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

    /// Returns the drops among the packets that each lane was to take, as last read; `None`: the path does not know
    /// them.
    fn by_lane(&self) -> Option<&[u64]> {
        self.before.is_some().then_some(&self.by_lane[..])
    }

    /// Reads the drops if a row has ended since the last reading, or the sending has. Returns how many packets were
    /// dropped since the start, if this is to be noted.
    fn look(&mut self, now_ns: u64, job: &dyn Job, collector: &Collector<'_>) -> Option<u64> {
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
            && self.since.read(job, self.track)
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

    /// Returns the lanes' time until the sending ended, and their time during the drops.
    fn end(
        mut self,
        now_ns: u64,
        job: &dyn Job,
        (path, outcomes): (&[Vec<QueueCounters>], &[LaneOutcome]),
    ) -> [Vec<LaneTime>; 2] {
        self.since = Drops::of(path);
        self.attribute(job);
        self.lookout.end(now_ns, &self.by_lane, outcomes);
        self.lookout.times()
    }

    /// Finds the drops among the packets that each lane was to take.
    fn attribute(&mut self, job: &dyn Job) {
        let plans = &self.plans;
        let takes = |lane: usize, place| plans[lane].rx && job.takes(lane, place);
        let by_queue = |place| job.drops_by_queue(place);
        attribute(&self.since, takes, by_queue, (&mut self.by_lane, &mut self.takers));
    }
}

/// Reads and notes the drops of each track if that is due.
pub(crate) fn look(tracks: &mut [HostDrops<'_>], now_ns: u64, job: &dyn Job, collector: &mut Collector<'_>) {
    // On the stack: this is done each time that the collector wakes.
    let mut totals = [None; MOST_BESIDE];
    for (track, total) in tracks.iter_mut().zip(&mut totals) {
        *total = track.look(now_ns, job, collector);
    }
    collector.note_host_drops(now_ns, &totals[..tracks.len()]);
}

/// Writes down for each lane how many packets that it was to take were dropped, as last read.
pub(crate) fn note_by_lane(tracks: &[HostDrops<'_>], lanes: &mut [LiveLane]) {
    for (lane, live) in lanes.iter_mut().enumerate() {
        live.rx_dropped = tracks.iter().map(|track| track.by_lane()?.get(lane).copied()).sum();
    }
}

/// Notes the counters of the whole run, which the summary also has: the sum of the rows. Returns, by track, the lanes'
/// time until the sending ended, and their time during the drops.
pub(crate) fn end(
    tracks: Vec<HostDrops<'_>>,
    now_ns: u64,
    job: &dyn Job,
    (path, outcomes): (&[Vec<Vec<QueueCounters>>], &[LaneOutcome]),
    collector: &mut Collector<'_>,
) -> Vec<[Vec<LaneTime>; 2]> {
    let total = |(track, path): (&HostDrops<'_>, &Vec<_>)| track.before.as_ref().map(|_| Drops::of(path).all());
    let totals: Vec<_> = tracks.iter().zip(path).map(total).collect();
    collector.note_host_drops(now_ns, &totals);
    let tracks = tracks.into_iter().zip(path);
    tracks
        .map(|(track, path)| track.end(now_ns, job, (path, outcomes)))
        .collect()
}

/// Assigns drops by lane and port to lanes. Drops at a queue whose lane takes its packets belong to that lane. The
/// others could belong to any lane that takes from that port, and are spread over these lanes.
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

    /// Replaces the last reading by a new one. Returns false if the path does not know its drops.
    fn read(&mut self, job: &dyn Job, track: Option<usize>) -> bool {
        let places = self.places;
        self.counts.iter_mut().enumerate().all(|(i, count)| {
            let now = job.rx_dropped(i / places, i % places, track);
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
        let one_track = |lane: usize, place: usize| lane == place;
        assert_eq!(attribute(&[&[7, 0], &[0, 5]], one_track, |_| true), [7, 5]);
        // All of a port's drops stand at its first queue.
        assert_eq!(attribute(&[&[7, 5], &[0, 0]], one_track, |_| false), [7, 5]);
        assert_eq!(attribute(&[&[7, 5], &[0, 0]], |_, _| true, |_| false), [5, 7]);
        // A lane that only sends has a queue of the port, too.
        assert_eq!(attribute(&[&[9], &[1]], |lane, _| lane == 1, |_| true), [0, 10]);
        assert_eq!(attribute(&[&[], &[]], one_track, |_| true), [0, 0]);
    }
}
