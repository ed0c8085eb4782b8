//! Checks of packets that this host dropped, refused, cut or left to other programs.

use crate::verdict::{Case, Finding};
use mpps_io::counter;
use mpps_stats::{KnownKind, Remark, RemarkName, Workload, count};

impl Case<'_> {
    pub(super) fn refused_afterwards(&self) -> Option<Finding> {
        let (e, failed) = (self.e, self.sum(|lane| lane.tx_failed));
        let many = count(failed);
        let remark = |text| Remark::new(RemarkName::RefusedAfterwards, text).with("packets", failed);
        match failed {
            0 => None,
            // As with packets that they could not take: loss to the sender, shown by port or lane.
            _ if self.workload.passes_on() => Some(Finding::Warning(remark(format!(
                "{many} of the packets counted as sent were refused by the kernel or device afterwards (a full queue, \
                 a link without carrier and packets that are too long for it are not distinguished)"
            )))),
            _ => {
                let much = failed as f64 > e.tolerance * e.tx as f64;
                let allowed = match much {
                    true => String::new(),
                    false => format!(": no more than the {:.3} % that are allowed", e.tolerance * 100.0),
                };
                let text =
                    format!("{many} packets counted as sent were refused by the kernel or device afterwards{allowed}");
                Some(Finding::by(much, remark(text).with("allowed_ratio", e.tolerance)))
            }
        }
    }

    pub(super) fn interface_dropped(&self) -> Option<Finding> {
        let dropped = self.counter(counter::DROPPED_SENT);
        let whose = match self.workload {
            Workload::Drop | Workload::Capture => "none was the test's, which sends nothing here",
            Workload::SendRecv if self.e.lost <= 0 => "all of the test's came back",
            _ => "packets of the test may be among them",
        };
        (dropped > 0).then(|| {
            let text = format!(
                "the interface dropped {} packets that it should have sent, of the test or of others: {whose}",
                count(dropped)
            );
            Finding::Warning(Remark::new(RemarkName::InterfaceDropped, text).with("packets", dropped))
        })
    }

    /// Returns the number of packets among `dropped` on the way out that may be of the test.
    fn of_the_test(&self, dropped: u64) -> u64 {
        match self.workload {
            Workload::SendRecv => dropped.min(self.e.lost.max(0).unsigned_abs()),
            Workload::Send => dropped.min(self.e.tx),
            _ => 0,
        }
    }

    /// Judges packets that queues of this host dropped after they were counted as sent.
    pub(super) fn own_queues(&self) -> Option<Finding> {
        let (told, dropped) = self.known_of(|kind| kind == KnownKind::QueueDropped);
        let told = told.join("; ");
        if dropped == 0 {
            return None;
        }
        let remark = |text| Remark::new(RemarkName::OwnQueuesDropped, text).with("packets", dropped);
        if self.workload.passes_on() {
            return Some(Finding::Warning(remark(format!(
                "{told}: packets counted as passed on may be among them, and are lost to their sender"
            ))));
        }
        let ours = self.of_the_test(dropped);
        (ours > 0).then(|| {
            // The queue's counter does not show whose packets they were.
            let text = format!(
                "{told}, of the test or of others: up to {} that were counted as sent may be among them and not have \
                 left this host, so loss may not be the path's alone",
                count(ours)
            );
            let remark = remark(text)
                .with("test_packets", ours)
                .with("allowed_ratio", self.e.tolerance);
            Finding::by(ours as f64 > self.e.tolerance * self.e.tx as f64, remark)
        })
    }

    /// Packets that a device of this host dropped instead of sending them. If these are nearly all, nothing was sent.
    pub(super) fn own_devices(&self) -> Option<Finding> {
        const NEARLY_ALL: f64 = 0.99;
        let (told, dropped) = self.known_of(|kind| kind == KnownKind::DeviceDropped);
        let ours = self.of_the_test(dropped);
        (ours > 0).then(|| {
            let all = self.e.rx == 0 && ours as f64 >= NEARLY_ALL * self.e.tx as f64;
            let text = match all {
                true => format!("{}: nothing was sent", told.join("; ")),
                false => format!("{}: packets of the test may be among them", told.join("; ")),
            };
            let remark = Remark::new(RemarkName::OwnDeviceDropped, text)
                .with("packets", dropped)
                .with("test_packets", ours);
            Finding::by(all, remark)
        })
    }

    /// Warns of packets that the kernel of a receiver refused. For a sender, the sentences on loss name them.
    pub(super) fn filtered(&self) -> Option<Finding> {
        let (told, dropped) = self.known_of(|kind| kind == KnownKind::ReversePathFilter);
        let receives = matches!(self.workload, Workload::Drop | Workload::Reflect);
        (dropped > 0 && receives).then(|| {
            let text = format!("{}: packets of the test may be among them", told.join("; "));
            Finding::Warning(Remark::new(RemarkName::ReversePathFilter, text).with("packets", dropped))
        })
    }

    /// Datagrams longer than a frame.
    pub(super) fn truncated(&self) -> Option<Finding> {
        let cut = self.counter(counter::TRUNCATED);
        let back = if self.workload == Workload::Reflect {
            " and went back so"
        } else {
            ""
        };
        (cut > 0).then(|| {
            let text = format!(
                "{} longer than the largest frame here, and cut to it{back}",
                match cut {
                    1 => "1 datagram was".to_owned(),
                    n => format!("{} datagrams were", count(n)),
                }
            );
            Finding::Warning(Remark::new(RemarkName::Truncated, text).with("packets", cut))
        })
    }

    pub(super) fn queues_added(&self) -> Option<Finding> {
        let added = self.counter(counter::QUEUES_ADDED);
        (added > 0).then(|| {
            let text = format!(
                "the interface has {added} more queue{} than when the run began: what came in there was left to the \
                 host",
                if added == 1 { "" } else { "s" }
            );
            Finding::Warning(Remark::new(RemarkName::QueuesAdded, text).with("queues", added))
        })
    }

    /// Judges packets that mpps should have received, by a counter of the path, and why it did not.
    pub(super) fn went_to_host(&self, name: &str, why: &str) -> Option<Finding> {
        let left = self.counter(name);
        (left > 0).then(|| {
            let many = count(left);
            let text = format!("{many} packets of the test went to the host instead of mpps, because {why}");
            let remark = Remark::new(RemarkName::WentToHost, text)
                .with("packets", left)
                .with("counter", name);
            Finding::by(!self.workload.passes_on(), remark)
        })
    }

    pub(super) fn more_left_than_taken(&self) -> Option<Finding> {
        let passed = self.counter(counter::LEFT_TO_HOST);
        let taken = self.sum(|lane| lane.rx_packets);
        let more = self.workload == Workload::Forward && passed > taken && passed > 100;
        more.then(|| {
            let text = format!(
                "{} frames went to the host, more than were taken: --take foreign leaves it what is for its own \
                 addresses; --port A-B or --take all takes them",
                count(passed)
            );
            let remark = Remark::new(RemarkName::MoreLeftThanTaken, text)
                .with("left_packets", passed)
                .with("taken_packets", taken);
            Finding::Warning(remark)
        })
    }

    pub(super) fn dropped_by_this_host(&self) -> Option<Finding> {
        let dropped = self.sum(|lane| lane.rx_dropped);
        if dropped == 0 {
            return None;
        }
        let (named, cause) = self.causes.of_drops();
        let many = count(dropped);
        let text = match self.workload {
            // Their own counts are right all the same. To the sender, the dropped packets are loss.
            Workload::Reflect | Workload::Forward => {
                format!("{many} packets were dropped by this host before mpps saw them: {cause}")
            }
            Workload::Capture => format!(
                "this host itself dropped {many} packets before mpps could take them, so they are not in the file: \
                 {cause}"
            ),
            _ => {
                let coalesced = match self.e.coalesced {
                    true => " (merged ones, of up to 128 packets each, count as one)",
                    false => "",
                };
                format!(
                    "this host itself dropped {many} packets{coalesced} before mpps could take them, so loss is not \
                     the path's alone: {cause}"
                )
            }
        };
        let remark = Remark::new(RemarkName::DroppedByHost, text)
            .with("packets", dropped)
            .with("cause", named.as_str());
        Some(Finding::by(!self.workload.passes_on(), remark))
    }

    /// Merged frames that a path could not split. Those of the test are counted as dropped, too.
    pub(super) fn unsplit(&self) -> Option<Finding> {
        let (unsplit, dropped) = (self.counter(counter::UNSPLIT), self.sum(|lane| lane.rx_dropped));
        let tells = unsplit > 0 && (dropped > 0 || self.workload == Workload::Forward);
        tells.then(|| {
            let text = format!(
                "{} merged frames (GSO, TSO, GRO) are no plain UDP or hold packets above the MTU, and could not be \
                 split: ethtool -K INTERFACE gro off here, and tso off gso off at their sender, keep packets apart",
                count(unsplit)
            );
            Finding::Warning(Remark::new(RemarkName::Unsplit, text).with("frames", unsplit))
        })
    }

    /// Frames without their ends; a capture's lack of them is judged with its file.
    pub(super) fn cut(&self) -> Option<Finding> {
        let cut = self.counter(counter::CUT);
        (cut > 0 && self.workload != Workload::Capture).then(|| {
            let text = format!(
                "{} frames came without their ends, which found no room in this host's memory for long frames",
                count(cut)
            );
            Finding::Warning(Remark::new(RemarkName::CutFrames, text).with("frames", cut))
        })
    }
}
