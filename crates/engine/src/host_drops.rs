//! What this host drops before mpps sees it, while the run goes on.
//!
//! Reading it means system calls, so it is read once a row, at the row's end, and not more often than every 100 ms. What a
//! reading finds came since the one before: the collector books it by that.

use crate::job::Job;
use mpps_io::QueueCounters;
use mpps_stats::Collector;

/// Reads the drops of all lanes as rows end.
pub(crate) struct HostDrops {
    /// What was dropped before the run; `None` where the path can't tell.
    before: Option<u64>,
    lanes: usize,
    next_ns: u64,
}

impl HostDrops {
    /// Before the start, from the counters of that time: by lane, then by port.
    pub(crate) fn new<J: Job>(job: &J, counters: &[Vec<QueueCounters>]) -> Self {
        let known = read(job, counters.len()).is_some();
        Self {
            before: known.then(|| sum(counters)),
            lanes: counters.len(),
            next_ns: 0,
        }
    }

    /// Reads them if a row has ended since they were read last.
    pub(crate) fn look<J: Job>(&mut self, now_ns: u64, job: &J, collector: &mut Collector<'_>) {
        if now_ns < self.next_ns {
            return;
        }
        let first = self.next_ns == 0;
        self.next_ns = collector.next_reading_ns(now_ns);
        if !first
            && let Some(before) = self.before
            && let Some(now) = read(job, self.lanes)
        {
            collector.note_host_drops(now_ns, now.saturating_sub(before));
        }
    }

    /// Notes the counters of the whole run, those that the summary has: what the rows add up to.
    pub(crate) fn end(&self, now_ns: u64, path: &[Vec<QueueCounters>], collector: &mut Collector<'_>) {
        if self.before.is_some() {
            collector.note_host_drops(now_ns, sum(path));
        }
    }
}

fn sum(counters: &[Vec<QueueCounters>]) -> u64 {
    counters.iter().flatten().map(|port| port.rx_dropped).sum()
}

fn read<J: Job>(job: &J, lanes: usize) -> Option<u64> {
    (0..lanes).map(|lane| job.rx_dropped(lane)).sum()
}
