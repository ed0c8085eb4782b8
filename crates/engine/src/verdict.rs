//! Whether the numbers of a run can be believed. Pure: from what was measured to a verdict with its reasons.

use mpps_stats::{LaneSummary, Workload};

/// What the verdict rests on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) tx: u64,
    pub(crate) rx: u64,
    pub(crate) late: u64,
    pub(crate) lost: i64,
    pub(crate) missed: u64,
    /// Departures that the schedule had; `None` when not paced.
    pub(crate) scheduled: Option<u64>,
    pub(crate) tolerance: f64,
    pub(crate) device_gone: bool,
    /// The device was down at some time.
    pub(crate) link_down: bool,
    /// What the kernel drops may be super-packets of many packets each.
    pub(crate) coalesced: bool,
    pub(crate) settle_ms: f64,
    pub(crate) duration_ns: u64,
    /// Processor time of this program's threads beside the lanes, ns.
    pub(crate) own_ns: u64,
    /// Time that the hypervisor took from this host during the run, ns.
    pub(crate) steal_ns: u64,
    pub(crate) cores: u64,
    pub(crate) overflowed: u64,
    pub(crate) beyond_window: u64,
    /// Times that packets of one flow were counted by two sources in the kernel.
    pub(crate) flow_moved: u64,
}

/// Counters of paths for packets that mpps should have had, and why it did not.
const LEFT_TO_HOST: [(&str, &str); 2] = [
    (
        "no_socket",
        "they came in on queues of the device that the run does not use (queues=, first=, or made since it began)",
    ),
    (
        "no_room_for_rx_time",
        "the driver has no room for the time of arrival (rx_time=on)",
    ),
];

/// Reasons why the numbers are not valid, and warnings.
pub(crate) fn judge(workload: Workload, e: &Evidence, lanes: &[LaneSummary]) -> (Vec<String>, Vec<String>) {
    let (mut reasons, mut warnings) = (Vec::new(), Vec::new());
    let sends = matches!(workload, Workload::SendRecv | Workload::Send);
    let sum = |f: fn(&LaneSummary) -> u64| lanes.iter().map(f).sum::<u64>();

    if e.device_gone {
        reasons.push("the device failed or vanished during the run: what is reported ends there".to_owned());
    }
    if sends && e.tx == 0 {
        reasons.push("nothing was sent".to_owned());
    }
    let delay_ns = sum(|l| l.run_delay_ns.unwrap_or(0));
    // Only lanes that a thread runs can be kept from running.
    let threads = lanes.iter().filter(|l| l.run_delay_ns.is_some()).count();
    let lane_time = e.duration_ns.max(1) as f64 * threads.max(1) as f64;
    let kept_off = delay_ns as f64 / lane_time;
    let own = (e.own_ns.min(delay_ns)) as f64 / lane_time;
    let stolen = e.steal_ns as f64 / (e.duration_ns.max(1) as f64 * e.cores.max(1) as f64);
    let host = host_cause(kept_off, own, stolen);
    if let Some(scheduled) = e.scheduled.filter(|&n| n > 0 && sends && e.tx > 0) {
        let off = e.tx.abs_diff(scheduled) as f64 / scheduled as f64;
        if off > e.tolerance && e.tx.abs_diff(scheduled) > lanes.iter().filter(|l| l.tx_role).count().max(1) as u64 {
            let refusals = sum(|l| l.tx_full);
            // The host is named as the cause only where what it took can explain what is missing.
            let cause = match host.clone().filter(|_| kept_off + stolen >= off / 2.0) {
                _ if e.link_down => "the link was down for a part of the run".to_owned(),
                Some(host) => host,
                None if refusals > 0 => format!(
                    "the path took nothing {refusals} times, because a ring, buffer or queue was full: lower the rate, \
                     enlarge it or use a faster path"
                ),
                None => "the generator could not keep up: lower the rate, add lanes or use a faster path".to_owned(),
            };
            reasons.push(format!(
                "the offered rate is {:.3} % off the intended one ({} of {scheduled} departures missed; {:.3} % are \
                 allowed): {cause}",
                off * 100.0,
                e.missed,
                e.tolerance * 100.0
            ));
        }
    }
    // A paced run is judged by what it was to send.
    if sends && e.link_down && !e.device_gone && e.scheduled.is_none() {
        reasons
            .push("the link was down for a part of the run: rates are means over a time that includes it".to_owned());
    }
    let failed = sum(|l| l.tx_failed);
    if failed > 0 && matches!(workload, Workload::Reflect | Workload::Forward) {
        // As with what they could not take: loss to the sender, told by port or lane.
        warnings.push(format!(
            "{failed} of the packets counted as sent were refused by the kernel or device afterwards (its queue was full, \
             or the link has no carrier)"
        ));
    } else if failed > 0 && failed as f64 > e.tolerance * e.tx as f64 {
        reasons.push(format!(
            "{failed} packets counted as sent were refused by the kernel or device afterwards"
        ));
    }
    let counters = lanes.iter().flat_map(|l| &l.path_counters);
    let added: u64 = counters.filter(|(n, _)| n == "queues_added").map(|(_, v)| v).sum();
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
            let text = format!("{left} packets of the test went to the host instead of mpps, because {why}");
            if judged { &mut reasons } else { &mut warnings }.push(text);
        }
    }
    let passed = lanes
        .iter()
        .flat_map(|l| &l.path_counters)
        .filter(|(n, _)| *n == "left_to_host");
    let passed: u64 = passed.map(|(_, n)| n).sum();
    if workload == Workload::Forward && passed > sum(|l| l.rx_packets) && passed > 100 {
        warnings.push(format!(
            "{passed} frames went to the host, more than were taken: --take foreign leaves it what is for its own \
             addresses; --port A-B or --take all takes them"
        ));
    }
    let dropped = sum(|l| l.rx_dropped);
    if dropped > 0 && matches!(workload, Workload::Reflect | Workload::Forward) {
        // What these count themselves stands; what they could not take is loss to the sender.
        let what = match workload {
            Workload::Forward => "forwarded",
            _ => "turned round",
        };
        warnings.push(format!(
            "{dropped} packets came faster than they could be {what} and were dropped before mpps saw them"
        ));
    } else if dropped > 0 && workload == Workload::Capture {
        reasons.push(format!(
            "this host itself dropped {dropped} packets before mpps could take them (socket buffer or ring full), so they \
             are not in the file: add lanes or enlarge the ring"
        ));
    } else if dropped > 0 {
        reasons.push(format!(
            "this host itself dropped {dropped} packets{} before mpps could take them (socket buffer or ring full), \
             so loss is not the path's alone: lower the rate, add receive lanes or enlarge the buffer",
            if e.coalesced {
                " (with gro=on coalesced ones, of up to 128 packets each)"
            } else {
                ""
            }
        ));
    }
    if sends && sum(|l| l.tx_packets) != e.tx {
        reasons.push(format!(
            "internal: the lanes sent {} packets, the rows hold {}",
            sum(|l| l.tx_packets),
            e.tx
        ));
    }
    if e.lost < 0 {
        reasons.push(format!("internal: {} packets more came back than were sent", -e.lost));
    }
    if e.beyond_window > 0 {
        reasons.push(format!(
            "{} packets came back so far out of order that they can't be told from duplicates; they count as lost",
            e.beyond_window
        ));
    }
    if e.flow_moved > 0 && matches!(workload, Workload::SendRecv | Workload::Drop) {
        reasons.push(format!(
            "{} times packets of one flow were counted by two queues or CPUs at once or in turn: their duplicates and \
             order may be miscounted",
            e.flow_moved
        ));
    }
    if workload == Workload::SendRecv && e.tx > 0 && e.rx == 0 && e.late == 0 {
        let refused: u64 = lanes
            .iter()
            .flat_map(|l| &l.path_counters)
            .filter(|(n, _)| n == "refused")
            .map(|(_, v)| v)
            .sum();
        warnings.push(match refused {
            0 => {
                "nothing came back: is a reflector running at the destination, and does it take these ports?".to_owned()
            }
            n => format!("nothing came back: nobody listens at the destination ({n} times ICMP port unreachable)"),
        });
    }
    if e.late > 0 {
        warnings.push(format!(
            "{} packets came back later than the settle time of {} ms; with a longer --settle they would count as \
             received",
            e.late, e.settle_ms
        ));
    }
    if let Some(host) = host {
        warnings.push(host);
    }
    if e.overflowed > 0 {
        warnings.push(
            "the collector was kept from running for seconds: some counts stand in a later row than they should \
             (the totals are exact)"
                .to_owned(),
        );
    }
    (reasons, warnings)
}

/// A sentence where the host took more than 1 % of the time from the lanes.
fn host_cause(kept_off: f64, own: f64, stolen: f64) -> Option<String> {
    let mut parts = Vec::new();
    if kept_off > 0.01 {
        // The scheduler does not say for whom a lane waited: this program's threads took at most what they worked.
        let of_own = match own * 100.0 {
            percent if percent >= 0.1 => format!(", {percent:.1} % at most of it threads of this program"),
            _ => String::new(),
        };
        parts.push(format!(
            "other threads kept the lanes from running for {:.1} % of the time{of_own}",
            kept_off * 100.0
        ));
    }
    if stolen > 0.01 {
        parts.push(format!(
            "the hypervisor took {:.1} % of the time (steal)",
            stolen * 100.0
        ));
    }
    (!parts.is_empty()).then(|| format!("the host interfered: {}", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Evidence {
        Evidence {
            tx: 100_000,
            rx: 100_000,
            scheduled: Some(100_000),
            tolerance: 0.001,
            duration_ns: 1_000_000_000,
            cores: 2,
            ..Evidence::default()
        }
    }

    fn lane() -> LaneSummary {
        LaneSummary {
            tx_packets: 100_000,
            ..LaneSummary::default()
        }
    }

    #[test]
    fn a_clean_run_is_valid_without_warnings() {
        let (reasons, warnings) = judge(Workload::SendRecv, &good(), &[lane()]);
        assert!(reasons.is_empty() && warnings.is_empty(), "{reasons:?} {warnings:?}");
    }

    #[test]
    fn loss_on_the_path_is_a_result_not_a_fault() {
        let e = Evidence {
            rx: 50_000,
            lost: 50_000,
            ..good()
        };
        assert!(judge(Workload::SendRecv, &e, &[lane()]).0.is_empty());
    }

    #[test]
    fn each_fault_invalidates_and_names_its_cause() {
        let cases: Vec<(Evidence, LaneSummary, &str)> = vec![
            (
                Evidence {
                    scheduled: Some(100_200),
                    missed: 200,
                    ..good()
                },
                lane(),
                "off the intended",
            ),
            (
                good(),
                LaneSummary {
                    rx_dropped: 1,
                    ..lane()
                },
                "this host itself dropped 1 ",
            ),
            (
                good(),
                LaneSummary {
                    tx_failed: 500,
                    ..lane()
                },
                "refused",
            ),
            (
                good(),
                LaneSummary {
                    path_counters: vec![("no_socket".to_owned(), 7)],
                    ..lane()
                },
                "7 packets of the test went to the host",
            ),
            (
                Evidence {
                    device_gone: true,
                    ..good()
                },
                lane(),
                "vanished",
            ),
            (Evidence { tx: 0, ..good() }, LaneSummary::default(), "nothing was sent"),
            (
                good(),
                LaneSummary {
                    tx_packets: 5,
                    ..lane()
                },
                "internal",
            ),
            (
                Evidence {
                    beyond_window: 3,
                    ..good()
                },
                lane(),
                "out of order",
            ),
            (
                Evidence {
                    flow_moved: 3,
                    ..good()
                },
                lane(),
                "3 times packets of one flow",
            ),
        ];
        for (e, lane, needle) in cases {
            let (reasons, _) = judge(Workload::SendRecv, &e, &[lane]);
            assert_eq!(reasons.len(), 1, "{needle}: {reasons:?}");
            assert!(reasons[0].contains(needle), "{needle}: {reasons:?}");
        }
    }

    #[test]
    fn the_tolerance_is_the_limit() {
        let at = Evidence {
            tx: 99_900,
            scheduled: Some(100_000),
            ..good()
        };
        let lane = LaneSummary {
            tx_packets: 99_900,
            ..LaneSummary::default()
        };
        assert!(judge(Workload::Send, &at, std::slice::from_ref(&lane)).0.is_empty());
        let beyond = Evidence { tx: 99_800, ..at };
        let lane = LaneSummary {
            tx_packets: 99_800,
            ..lane
        };
        assert_eq!(judge(Workload::Send, &beyond, &[lane]).0.len(), 1);
    }

    #[test]
    fn interference_of_the_host_is_named_as_the_cause() {
        let e = Evidence {
            tx: 90_000,
            scheduled: Some(100_000),
            missed: 10_000,
            ..good()
        };
        let lane = LaneSummary {
            tx_packets: 90_000,
            run_delay_ns: Some(100_000_000),
            ..LaneSummary::default()
        };
        let own = Evidence {
            own_ns: 2_000_000,
            ..e.clone()
        };
        let (reasons, _) = judge(Workload::Send, &own, std::slice::from_ref(&lane));
        assert!(
            reasons[0].contains("for 10.0 % of the time, 0.2 % at most of it threads of this program"),
            "{reasons:?}"
        );
        // A line of the report that no thread stands behind has no time to lose.
        let (reasons, warnings) = judge(Workload::Send, &e, &[lane, LaneSummary::default()]);
        assert!(
            reasons[0].contains("kept the lanes from running for 10.0 %"),
            "{reasons:?}"
        );
        assert_eq!(warnings.len(), 1);
    }
}
