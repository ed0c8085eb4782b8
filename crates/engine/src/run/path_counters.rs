//! Counters of the path in a trial: of each track in which packets go, and of all.

use crate::run::job::Job;
use mpps_io::QueueCounters;

/// The path's counters by lane, then by port: of each track and, if there are several, of all.
pub(crate) struct PathCounters {
    pub(crate) tracks: Vec<Vec<Vec<QueueCounters>>>,
    all: Option<Vec<Vec<QueueCounters>>>,
}

impl PathCounters {
    pub(crate) fn read(job: &dyn Job, lanes: usize) -> Self {
        let of = |track| (0..lanes).map(|lane| job.counters(lane, track)).collect();
        match job.tracks().len() {
            0 => Self {
                tracks: vec![of(None)],
                all: None,
            },
            n => Self {
                tracks: (0..n).map(|track| of(Some(track))).collect(),
                all: Some(of(None)),
            },
        }
    }

    pub(crate) fn since(self, then: &Self) -> Self {
        let port = |(now, then): (QueueCounters, &QueueCounters)| since(now, then);
        let lane = |(now, then): (Vec<_>, &Vec<_>)| now.into_iter().zip(then).map(port).collect();
        let track = |(now, then): (Vec<_>, &Vec<_>)| now.into_iter().zip(then).map(lane).collect();
        Self {
            tracks: self.tracks.into_iter().zip(&then.tracks).map(track).collect(),
            all: self.all.zip(then.all.as_ref()).map(track),
        }
    }

    /// Returns the counters of one track, or of all.
    pub(crate) fn of(&self, track: Option<usize>) -> &[Vec<QueueCounters>] {
        match (track, &self.all) {
            (None, Some(all)) => all,
            (track, _) => &self.tracks[track.unwrap_or(0)],
        }
    }
}

/// Returns the counters since a baseline.
fn since(now: QueueCounters, then: &QueueCounters) -> QueueCounters {
    let before = |name| then.other.iter().find(|(n, _)| *n == name).map_or(0, |(_, v)| *v);
    QueueCounters {
        rx_dropped: now.rx_dropped.saturating_sub(then.rx_dropped),
        tx_failed: now.tx_failed.saturating_sub(then.tx_failed),
        other: now
            .other
            .iter()
            .map(|&(name, value)| (name, value.saturating_sub(before(name))))
            .collect(),
    }
}
