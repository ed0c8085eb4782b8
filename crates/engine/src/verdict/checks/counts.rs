//! Checks of counts: whether they agree, and what they don't show.

use crate::verdict::{Case, Finding};
use mpps_stats::{Remark, RemarkName, Workload, count};

impl Case<'_> {
    /// Warns if nearly every packet came back more than once.
    pub(super) fn came_back_twice(&self) -> Option<Finding> {
        let e = self.e;
        let most = self.workload == Workload::SendRecv && e.rx > 1 && e.duplicates * 10 >= e.rx * 9;
        most.then(|| {
            let times = 1 + (e.duplicates + e.rx / 2) / e.rx;
            let (came, question) = match e.across {
                true => ("arrived", "does something between the ports copy packets?"),
                false => (
                    "came back",
                    "does a second reflector answer, or something on the way copy packets?",
                ),
            };
            let text = format!(
                "packets {came} {times} times each ({} duplicates of {}): {question}",
                count(e.duplicates),
                count(e.rx)
            );
            let remark = Remark::new(RemarkName::CameBackTwice, text)
                .with("times", times)
                .with("duplicate_packets", e.duplicates)
                .with("rx_packets", e.rx);
            Finding::Warning(remark)
        })
    }

    pub(super) fn rows_and_lanes_agree(&self) -> Option<Finding> {
        let by_lane = self.sum(|lane| lane.tx_packets);
        let off = self.workload.generates() && by_lane != self.e.tx;
        off.then(|| {
            let text = format!(
                "internal: the lanes sent {} packets, the rows hold {}",
                count(by_lane),
                count(self.e.tx)
            );
            let remark = Remark::new(RemarkName::RowsAndLanesDiffer, text)
                .with("lane_packets", by_lane)
                .with("row_packets", self.e.tx);
            Finding::Invalid(remark)
        })
    }

    pub(super) fn more_than_sent(&self) -> Option<Finding> {
        let more = self.e.lost.unsigned_abs();
        let text = || format!("internal: {} packets more came back than were sent", count(more));
        (self.e.lost < 0).then(|| Finding::Invalid(Remark::new(RemarkName::MoreThanSent, text()).with("packets", more)))
    }

    pub(super) fn beyond_window(&self) -> Option<Finding> {
        let far = self.e.beyond_window;
        (far > 0).then(|| {
            let text = format!(
                "{} packets came back so far out of order that they can't be told from duplicates; they count as lost",
                count(far)
            );
            Finding::Invalid(Remark::new(RemarkName::BeyondWindow, text).with("packets", far))
        })
    }

    pub(super) fn flow_contended(&self) -> Option<Finding> {
        let times = self.e.flow_contended;
        (times > 0).then(|| {
            let text = format!(
                "{} times a flow moved to another queue or CPU while the one before was in the middle of a packet of \
                 it and did not come to its end: its duplicates and order may be miscounted",
                count(times)
            );
            Finding::Invalid(Remark::new(RemarkName::FlowContended, text).with("times", times))
        })
    }

    pub(super) fn flow_moved(&self) -> Option<Finding> {
        let e = self.e;
        (e.flow_moved > 0 && e.reordered > 0).then(|| {
            let text = format!(
                "packets of one flow moved between queues or CPUs {} times: all are counted, but of those that this \
                 host handled at the same time some may be among the {} reordered",
                count(e.flow_moved),
                count(e.reordered)
            );
            let remark = Remark::new(RemarkName::FlowMoved, text)
                .with("times", e.flow_moved)
                .with("reordered_packets", e.reordered);
            Finding::Warning(remark)
        })
    }

    pub(super) fn untracked(&self) -> Option<Finding> {
        let e = self.e;
        (e.untracked > 0 && self.workload == Workload::Drop).then(|| {
            let text = format!(
                "{} packets were of flows beyond the {} that are tracked (--max-flows): they count as received, \
                 unchecked for loss, order and copies",
                count(e.untracked),
                count(e.flows)
            );
            let remark = Remark::new(RemarkName::Untracked, text)
                .with("packets", e.untracked)
                .with("flows", e.flows);
            Finding::Warning(remark)
        })
    }

    pub(super) fn late(&self) -> Option<Finding> {
        let e = self.e;
        (e.late > 0).then(|| {
            let text = format!(
                "{} packets came back later than the settle time of {} ms; with a longer --settle they would count as \
                 received, and stand as lost in no row",
                count(e.late),
                e.settle_ms
            );
            let remark = Remark::new(RemarkName::Late, text)
                .with("packets", e.late)
                .with("settle_ns", (e.settle_ms * 1e6).round() as u64);
            Finding::Warning(remark)
        })
    }

    pub(super) fn collector_late(&self) -> Option<Finding> {
        let text = "the collector was kept from running for seconds: some counts are in a later row than they should \
                    be (the totals are exact)";
        let [unranked, all] = self.e.unranked;
        let ranked = match unranked {
            0 => String::new(),
            _ => format!(
                ", and latency percentiles rest on {} of {} packets",
                count(all.saturating_sub(unranked)),
                count(all)
            ),
        };
        (self.e.overflowed + unranked > 0).then(|| {
            let remark = Remark::new(RemarkName::CollectorLate, format!("{text}{ranked}"));
            Finding::Warning(match unranked {
                0 => remark,
                _ => remark
                    .with("ranked_packets", all.saturating_sub(unranked))
                    .with("measured_packets", all),
            })
        })
    }
}
