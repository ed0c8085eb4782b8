//! Counters of the path in a trial: of each way in which packets go, and of all.

use crate::run::job::Job;
use mpps_io::QueueCounters;

/// The path's counters by lane, then by port: of each way and, if there are several, of all.
pub(crate) struct PathCounters {
    pub(crate) ways: Vec<Vec<Vec<QueueCounters>>>,
    all: Option<Vec<Vec<QueueCounters>>>,
}

impl PathCounters {
    pub(crate) fn read(job: &dyn Job, lanes: usize) -> Self {
        let of = |way| (0..lanes).map(|lane| job.counters(lane, way)).collect();
        match job.ways().len() {
            0 => Self {
                ways: vec![of(None)],
                all: None,
            },
            n => Self {
                ways: (0..n).map(|way| of(Some(way))).collect(),
                all: Some(of(None)),
            },
        }
    }

    pub(crate) fn since(self, then: &Self) -> Self {
        let port = |(now, then): (QueueCounters, &QueueCounters)| since(now, then);
        let lane = |(now, then): (Vec<_>, &Vec<_>)| now.into_iter().zip(then).map(port).collect();
        let way = |(now, then): (Vec<_>, &Vec<_>)| now.into_iter().zip(then).map(lane).collect();
        Self {
            ways: self.ways.into_iter().zip(&then.ways).map(way).collect(),
            all: self.all.zip(then.all.as_ref()).map(way),
        }
    }

    /// Returns the counters of one way, or of all.
    pub(crate) fn of(&self, way: Option<usize>) -> &[Vec<QueueCounters>] {
        match (way, &self.all) {
            (None, Some(all)) => all,
            (way, _) => &self.ways[way.unwrap_or(0)],
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
