//! Whether the numbers of a run can be believed. Pure: from what was measured to a verdict with its reasons.

use crate::away::Standstills;
use crate::meanwhile::LaneTime;
use mpps_io::counter;
use mpps_stats::{LEAST_NS, LaneSummary, Stretches, Workload, count};
use mpps_sys::evidence::Rival;

mod cause;

use cause::{Causes, span};

/// What the verdict rests on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) tx: u64,
    pub(crate) rx: u64,
    /// Packets arrive at another port than they leave by.
    pub(crate) across: bool,
    pub(crate) late: u64,
    pub(crate) lost: i64,
    pub(crate) missed: u64,
    /// Departures that the schedule had; `None` when not paced.
    pub(crate) scheduled: Option<u64>,
    pub(crate) tolerance: f64,
    pub(crate) device_gone: bool,
    /// For how long the device was down, ns.
    pub(crate) link_down_ns: u64,
    /// What the kernel drops may be super-packets of many packets each.
    pub(crate) coalesced: bool,
    pub(crate) settle_ms: f64,
    pub(crate) duration_ns: u64,
    /// The user ended it.
    pub(crate) interrupted: bool,
    /// Processor time of this program's threads beside the lanes, ns.
    pub(crate) own_ns: u64,
    /// Time that the hypervisor took from this host during the run, ns, and how long that was looked at.
    pub(crate) steal_ns: u64,
    pub(crate) looked_ns: u64,
    pub(crate) cores: u64,
    /// When the whole process stood still, ns since the start.
    pub(crate) still: Standstills,
    /// What the lanes that send did until the sending ended.
    pub(crate) sending: Vec<LaneTime>,
    /// What lanes did while packets were dropped that they were to take.
    pub(crate) dropping: Vec<LaneTime>,
    /// When this host dropped packets.
    pub(crate) drops: Stretches,
    /// The path tells what this host drops.
    pub(crate) host_drops_known: bool,
    /// Lanes of other processes on the cores of ours.
    pub(crate) rivals: Vec<Rival>,
    pub(crate) overflowed: u64,
    pub(crate) beyond_window: u64,
    /// Times that a packet of a flow was counted by another source in the kernel than the one before.
    pub(crate) flow_moved: u64,
    /// Times that a source did not let go of a flow in time.
    pub(crate) flow_contended: u64,
    pub(crate) reordered: u64,
    /// `drop`: flows with a sequence window, and packets of others.
    pub(crate) flows: u64,
    pub(crate) untracked: u64,
}

/// Counters of paths for packets that mpps should have had, and why it did not.
const LEFT_TO_HOST: [(&str, &str); 2] = [
    (
        counter::NO_SOCKET,
        "they came in on queues of the device that the run does not use (queues=, first=, or queues made after it \
         began)",
    ),
    (
        counter::NO_ROOM_FOR_RX_TIME,
        "the driver has no room for the time of arrival (rx_time=on)",
    ),
];

/// Reasons why the numbers are not valid, and warnings.
pub(crate) fn judge(workload: Workload, e: &Evidence, lanes: &[LaneSummary]) -> (Vec<String>, Vec<String>) {
    let (mut reasons, mut warnings) = (Vec::new(), Vec::new());
    let sends = matches!(workload, Workload::SendRecv | Workload::Send);
    let sum = |f: fn(&LaneSummary) -> u64| lanes.iter().map(f).sum::<u64>();

    if e.device_gone {
        reasons.push("the device failed or vanished during the run: the report ends there".to_owned());
    }
    if sends && e.tx == 0 {
        reasons.push("nothing was sent".to_owned());
    }
    if sends && e.interrupted && e.tx > 0 && e.duration_ns < LEAST_NS {
        reasons.push(format!(
            "interrupted after {:.1} ms: too short to tell a rate (want {} ms at least)",
            e.duration_ns as f64 / 1e6,
            LEAST_NS / 1_000_000
        ));
    }
    let causes = Causes::new(workload, e, lanes);
    if let Some(scheduled) = e.scheduled.filter(|&n| n > 0 && sends && e.tx > 0) {
        let off = e.tx.abs_diff(scheduled) as f64 / scheduled as f64;
        if off > e.tolerance && e.tx.abs_diff(scheduled) > lanes.iter().filter(|l| l.tx_role).count().max(1) as u64 {
            let cause = causes.of_missing(scheduled);
            reasons.push(format!(
                "the offered rate is {:.3} % off the intended one ({} of {} departures missed; {:.3} % are allowed): \
                 {cause}",
                off * 100.0,
                count(e.missed),
                count(scheduled),
                e.tolerance * 100.0
            ));
        } else if e.missed > 0 {
            warnings.push(format!(
                "{} of {} departures were missed ({:.4} %; {:.3} % are allowed)",
                count(e.missed),
                count(scheduled),
                e.missed as f64 / scheduled as f64 * 100.0,
                e.tolerance * 100.0
            ));
        }
    }
    // A paced run is judged by what it was to send.
    if sends && e.link_down_ns > 0 && !e.device_gone && e.scheduled.is_none() {
        let text = format!(
            "the link was down for {}: rates are means over a time that includes it",
            span(e.link_down_ns)
        );
        let much = e.link_down_ns as f64 > e.tolerance * e.duration_ns as f64;
        if much { &mut reasons } else { &mut warnings }.push(text);
    }
    let failed = sum(|l| l.tx_failed);
    if failed > 0 && matches!(workload, Workload::Reflect | Workload::Forward) {
        // As with what they could not take: loss to the sender, told by port or lane.
        warnings.push(format!(
            "{} of the packets counted as sent were refused by the kernel or device afterwards (its queue was full, or \
             the link has no carrier)",
            count(failed)
        ));
    } else if failed > 0 && failed as f64 > e.tolerance * e.tx as f64 {
        reasons.push(format!(
            "{} packets counted as sent were refused by the kernel or device afterwards",
            count(failed)
        ));
    } else if failed > 0 {
        warnings.push(format!(
            "{} packets counted as sent were refused by the kernel or device afterwards: no more than the {:.3} % that \
             are allowed",
            count(failed),
            e.tolerance * 100.0
        ));
    }
    let counters = lanes.iter().flat_map(|l| &l.path_counters);
    let dropped_sent: u64 = counters
        .filter(|(n, _)| n == counter::DROPPED_SENT)
        .map(|(_, v)| v)
        .sum();
    if dropped_sent > 0 {
        let whose = match workload {
            Workload::Drop | Workload::Capture => "none was the test's, which sends nothing here",
            Workload::SendRecv if e.lost <= 0 => "all of the test's came back",
            _ => "packets of the test may be among them",
        };
        warnings.push(format!(
            "the interface dropped {} packets that it should have sent, of the test or of others: {whose}",
            count(dropped_sent)
        ));
    }
    let counters = lanes.iter().flat_map(|l| &l.path_counters);
    let added: u64 = counters
        .filter(|(n, _)| n == counter::QUEUES_ADDED)
        .map(|(_, v)| v)
        .sum();
    if added > 0 {
        warnings.push(format!(
            "the interface has {added} more queue{} than when the run began: what came in there was left to the host",
            if added == 1 { "" } else { "s" }
        ));
    }
    let judged = !matches!(workload, Workload::Reflect | Workload::Forward);
    for (name, why) in LEFT_TO_HOST {
        let counters = lanes.iter().flat_map(|l| &l.path_counters).filter(|(n, _)| n == name);
        let left: u64 = counters.map(|(_, n)| n).sum();
        if left > 0 {
            let text = format!(
                "{} packets of the test went to the host instead of mpps, because {why}",
                count(left)
            );
            if judged { &mut reasons } else { &mut warnings }.push(text);
        }
    }
    let passed = lanes
        .iter()
        .flat_map(|l| &l.path_counters)
        .filter(|(n, _)| *n == counter::LEFT_TO_HOST);
    let passed: u64 = passed.map(|(_, n)| n).sum();
    if workload == Workload::Forward && passed > sum(|l| l.rx_packets) && passed > 100 {
        warnings.push(format!(
            "{} frames went to the host, more than were taken: --take foreign leaves it what is for its own addresses; \
             --port A-B or --take all takes them",
            count(passed)
        ));
    }
    let dropped = sum(|l| l.rx_dropped);
    if dropped > 0 {
        let cause = causes.of_drops();
        let many = count(dropped);
        let (listens, text) = match workload {
            // Their own counts are right all the same. To the sender, the dropped packets are loss.
            Workload::Reflect | Workload::Forward => (
                true,
                format!("{many} packets were dropped by this host before mpps saw them: {cause}"),
            ),
            Workload::Capture => (
                false,
                format!(
                    "this host itself dropped {many} packets before mpps could take them, so they are not in the file: \
                     {cause}"
                ),
            ),
            _ => (
                false,
                format!(
                    "this host itself dropped {many} packets{} before mpps could take them, so loss is not the path's \
                     alone: {cause}",
                    if e.coalesced {
                        " (with gro=on coalesced ones, of up to 128 packets each)"
                    } else {
                        ""
                    }
                ),
            ),
        };
        if listens { &mut warnings } else { &mut reasons }.push(text);
    }
    if sends && sum(|l| l.tx_packets) != e.tx {
        reasons.push(format!(
            "internal: the lanes sent {} packets, the rows hold {}",
            count(sum(|l| l.tx_packets)),
            count(e.tx)
        ));
    }
    if e.lost < 0 {
        reasons.push(format!(
            "internal: {} packets more came back than were sent",
            count(e.lost.unsigned_abs())
        ));
    }
    if e.beyond_window > 0 {
        reasons.push(format!(
            "{} packets came back so far out of order that they can't be told from duplicates; they count as lost",
            count(e.beyond_window)
        ));
    }
    if e.flow_contended > 0 {
        reasons.push(format!(
            "{} times a flow moved to another queue or CPU while the one before was in the middle of a packet of it \
             and did not come to its end: its duplicates and order may be miscounted",
            count(e.flow_contended)
        ));
    }
    if e.flow_moved > 0 && e.reordered > 0 {
        warnings.push(format!(
            "packets of one flow moved between queues or CPUs {} times: all are counted, but of those that this host \
             handled at the same time some may be among the {} reordered",
            count(e.flow_moved),
            count(e.reordered)
        ));
    }
    if e.untracked > 0 && workload == Workload::Drop {
        warnings.push(format!(
            "{} packets were of flows beyond the {} that are tracked (--max-flows): they count as received, unchecked \
             for loss, order and copies",
            count(e.untracked),
            count(e.flows)
        ));
    }
    if workload == Workload::SendRecv && e.tx > 0 && e.rx == 0 && e.late == 0 {
        let refused: u64 = lanes
            .iter()
            .flat_map(|l| &l.path_counters)
            .filter(|(n, _)| n == counter::REFUSED)
            .map(|(_, v)| v)
            .sum();
        warnings.push(match refused {
            0 if e.across => {
                "nothing arrived at the other port: does what lies between pass these frames on, by their \
                              MAC addresses (--dest-mac) or as a router (--gateway)?"
                    .to_owned()
            }
            0 => {
                "nothing came back: is a reflector running at the destination, and does it take these ports?".to_owned()
            }
            n => format!(
                "nothing came back: nobody listens at the destination ({} times ICMP port unreachable)",
                count(n)
            ),
        });
    }
    if e.late > 0 {
        warnings.push(format!(
            "{} packets came back later than the settle time of {} ms; with a longer --settle they would count as \
             received",
            count(e.late),
            e.settle_ms
        ));
    }
    if workload == Workload::SendRecv && e.lost > 0 && e.rx > 0 {
        warnings.push(where_lost(
            e.lost.unsigned_abs(),
            dropped,
            dropped_sent + failed,
            e.host_drops_known,
        ));
    }
    warnings.extend(causes.notes());
    if e.overflowed > 0 {
        warnings.push(
            "the collector was kept from running for seconds: some counts are in a later row than they should be \
             (the totals are exact)"
                .to_owned(),
        );
    }
    (reasons, warnings)
}

/// Where a sender's loss may have been, as far as this host's counters tell: `here` of them dropped by this host on the
/// way in, and perhaps as many as `refused` on the way out.
fn where_lost(lost: u64, here: u64, refused: u64, known: bool) -> String {
    let lost_text = count(lost);
    match (here, refused) {
        (0, 0) if known => format!(
            "none of the {lost_text} lost packets shows on this host's counters: they were lost on the way, or at the \
             other end (see the counters there)"
        ),
        (0, 0) => format!(
            "where the {lost_text} lost packets were lost is not known: this path does not tell what this host drops"
        ),
        (here, refused) if here + refused >= lost => format!(
            "this host's counters account for all of the {lost_text} lost packets, if what it dropped was of the test"
        ),
        (here, refused) => format!(
            "this host's counters account for {} of the {lost_text} lost packets at the most: the others were lost on \
             the way, or at the other end",
            count(here + refused)
        ),
    }
}

#[cfg(test)]
mod tests;
