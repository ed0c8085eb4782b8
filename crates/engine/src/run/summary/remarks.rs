//! Remarks: the meaning of a receiver's counts by reason for the user. They are shown beside the verdict as warnings,
//! and are pure, as the verdict is.

use crate::plan::LEFT_TO_HOST_PORTS;
use crate::run::summary::Measured;
use mpps_io::around::Surroundings;
use mpps_io::{Reason, counter};
use mpps_stats::{LaneSummary, Remark, RemarkName, Workload, count};

/// Counts of a receiver that remarks are based on.
pub(crate) struct Heard<'m> {
    workload: Workload,
    rx: u64,
    reasons: &'m [(String, u64)],
    /// Packets left to programs of this host, by UDP port, if known.
    host_ports: Vec<(u16, u64)>,
    /// UDP ports that programs of this host have open, and that are therefore left to it, as the report lists them.
    left_ports: Option<&'m str>,
    /// Frames of any kind that a program in the kernel let pass to the host; `None` without such a program.
    left_to_host: Option<u64>,
    /// Frames that reached a socket and found no room.
    dropped: u64,
    around: &'m [Surroundings],
}

impl<'m> Heard<'m> {
    pub(crate) fn of(m: &'m Measured<'_>, reasons: &'m [(String, u64)], lanes: &[LaneSummary]) -> Self {
        let mut host_ports: Vec<(u16, u64)> = Vec::new();
        for &(port, n) in m.outcomes.iter().flat_map(|o| &o.host_ports) {
            match host_ports.iter_mut().find(|(p, _)| *p == port) {
                Some((_, counted)) => *counted += n,
                None => host_ports.push((port, n)),
            }
        }
        host_ports.sort_by_key(|(port, n)| (u64::MAX - n, *port));
        let left_ports = m.common.host.iter().find(|fact| fact.name == LEFT_TO_HOST_PORTS);
        let counters = lanes.iter().flat_map(|l| &l.path_counters);
        let passed = counters.filter(|(n, _)| n == counter::LEFT_TO_HOST || n == counter::NO_SOCKET);
        Self {
            workload: m.workload,
            rx: m.totals.tally.rx,
            reasons,
            host_ports,
            left_ports: left_ports.map(|fact| fact.value.as_str()),
            left_to_host: passed.map(|(_, n)| *n).reduce(|sum, n| sum + n),
            dropped: lanes.iter().map(|lane| lane.rx_dropped).sum(),
            around: &m.around,
        }
    }

    fn reason(&self, reason: Reason) -> u64 {
        reason.of(self.reasons)
    }
}

/// Returns remarks for the report, each with its number.
pub(crate) fn remarks(h: &Heard<'_>) -> Vec<Remark> {
    let mut remarks = Vec::new();
    left_to_host(h, &mut remarks);
    if remarks.is_empty() {
        nothing_arrived(h, &mut remarks);
    }
    if h.workload == Workload::Drop {
        numbers(h, &mut remarks);
    }
    let others = h.reason(Reason::ForeignOtherRun);
    if others > 0 {
        let text = format!(
            "{} had addresses, ports and data of this run, but a number that it had not sent in that flow, or not at \
             that time: they come from another run, or are forged, and are counted as foreign_other_run alone",
            packets(others)
        );
        remarks.push(Remark::new(RemarkName::OtherRun, text).with("packets", others));
    }
    let odd = h.reason(Reason::ImplausibleRxTime);
    if odd > 0 {
        let text = format!(
            "{} had a noted time of arrival before they were sent or after they were read: the lane's own time was \
             taken, and they are in latency alone",
            packets(odd)
        );
        remarks.push(Remark::new(RemarkName::ImplausibleRxTime, text).with("packets", odd));
    }
    let late = h.reason(Reason::LateOfAnEarlierTrial);
    if late > 0 {
        let text = format!(
            "{} of an earlier trial arrived during this one, and are not in its counts: a longer settle time waits for \
             them",
            packets(late)
        );
        remarks.push(Remark::new(RemarkName::LateOfAnEarlierTrial, text).with("packets", late));
    }
    remarks
}

/// Returns "1 packet", "2 packets", ….
fn packets(n: u64) -> String {
    format!("{} packet{}", count(n), if n == 1 { "" } else { "s" })
}

fn left_to_host(h: &Heard<'_>, remarks: &mut Vec<Remark>) {
    if !matches!(h.workload, Workload::Reflect | Workload::Drop) {
        return;
    }
    let remedy = "stop that program, name the port with --port to take it, or use --ip with an address that is not the \
                  host's";
    let left = h.reason(Reason::HostPort);
    for (port, n) in &h.host_ports {
        let text = format!(
            "{} for UDP port {port} were left to the host, because another program on it has that port open: {remedy}",
            packets(*n)
        );
        let remark = Remark::new(RemarkName::LeftToHost, text);
        remarks.push(remark.with("packets", *n).with("port", u64::from(*port)));
    }
    let Some(ports) = h.left_ports else { return };
    if left > 0 && h.host_ports.is_empty() {
        let text = format!(
            "{} for UDP ports that other programs of this host have open were left to it ({ports}): {remedy}",
            packets(left)
        );
        remarks.push(Remark::new(RemarkName::LeftToHost, text).with("packets", left));
    } else if left == 0
        && h.rx == 0
        && let Some(passed) = h.left_to_host.filter(|n| *n > 0)
    {
        let text = format!(
            "nothing was received, and {} went to the host: other programs there have UDP ports open, which are left \
             to it ({ports}): {remedy}",
            packets(passed)
        );
        remarks.push(Remark::new(RemarkName::NothingReceived, text).with("left_packets", passed));
    }
}

/// Adds how far packets came on a path past the host's stack that received none.
fn nothing_arrived(h: &Heard<'_>, remarks: &mut Vec<Remark>) {
    let judged = h.reasons.iter().any(|(_, n)| *n > 0);
    if h.workload == Workload::Send || h.rx > 0 || h.dropped > 0 || judged {
        return;
    }
    let counted: Vec<_> = h
        .around
        .iter()
        .filter_map(|seen| Some((&seen.interface, seen.arrived?)))
        .collect();
    if counted.is_empty() {
        return;
    }
    let each = counted
        .iter()
        .map(|(name, n)| format!("{name} counted {}", packets(*n)));
    let each = each.collect::<Vec<_>>().join(", ");
    let arrived: u64 = counted.iter().map(|(_, n)| n).sum();
    let program = match h.left_to_host {
        Some(0) if arrived > 0 => {
            ", and the XDP program left none to the host: its driver gave it none, or the kernel refused what it \
             redirected; another mode= may take them"
                .to_owned()
        }
        Some(passed) if arrived > 0 => format!(", of which the XDP program left {} to the host", count(passed)),
        _ => String::new(),
    };
    let text = format!("nothing was received: meanwhile {each}, of the test or of others{program}");
    let remark = Remark::new(RemarkName::NothingReceived, text).with("arrived_packets", arrived);
    remarks.push(remark.with_some("left_packets", h.left_to_host));
}

/// Adds remarks on sequence numbers that were not believed, or that had to be.
fn numbers(h: &Heard<'_>, remarks: &mut Vec<Remark>) {
    let [aside, gap, contested, first, restarts] = [
        Reason::ImplausibleSequence,
        Reason::UnconfirmedGap,
        Reason::ContestedGap,
        Reason::GapAfterFirst,
        Reason::SenderRestarts,
    ]
    .map(|reason| h.reason(reason));
    if aside > 0 {
        let skipped = match gap {
            0 => String::new(),
            n => format!("; the {} numbers that they skip are not counted as lost", count(n)),
        };
        let text = format!(
            "{} came with sequence numbers far from their flow's, and no later packets confirmed them: they are \
             forged, or the last of a flow after a loss{skipped}",
            packets(aside)
        );
        let remark = Remark::new(RemarkName::ImplausibleSequence, text);
        remarks.push(remark.with("packets", aside).with("skipped_numbers", gap));
    }
    if contested > 0 {
        let text = format!(
            "{contested} numbers that packets skipped are not counted as lost: the flow then went on where it had been \
             before, so those packets were forged, or its sender was restarted"
        );
        remarks.push(Remark::new(RemarkName::ContestedGap, text).with("skipped_numbers", contested));
    }
    if first > 0 {
        let text = format!(
            "{} of the lost packets lie between the first packet or two of a flow and the next: if those first ones \
             were forged, nothing was lost there",
            count(first)
        );
        remarks.push(Remark::new(RemarkName::GapAfterFirst, text).with("packets", first));
    }
    if restarts > 0 {
        let text = format!(
            "{} time{} the numbers of a flow began again: its sender was restarted, or three packets in a row were \
             forged; loss in between can't be seen",
            count(restarts),
            if restarts == 1 { "" } else { "s" }
        );
        remarks.push(Remark::new(RemarkName::SenderRestarts, text).with("times", restarts));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_stats::sentences;
    use mpps_wire::Left;

    fn heard(reasons: &[(String, u64)]) -> Heard<'_> {
        Heard {
            workload: Workload::Drop,
            rx: 5,
            reasons,
            host_ports: Vec::new(),
            left_ports: None,
            left_to_host: None,
            dropped: 0,
            around: &[],
        }
    }

    #[test]
    fn how_far_packets_came_is_said_if_none_was_received() {
        let around = |arrived| {
            [Surroundings {
                interface: "eth1".to_owned(),
                arrived,
                ..Surroundings::default()
            }]
        };
        let said = |arrived, left_to_host, rx, dropped| {
            let around = around(arrived);
            let h = Heard {
                rx,
                left_to_host,
                dropped,
                around: &around,
                ..heard(&[])
            };
            sentences(&remarks(&h)).concat()
        };
        let none = "nothing was received: meanwhile eth1 counted 0 packets, of the test or of others";
        assert_eq!(said(Some(0), Some(0), 0, 0), none);
        assert!(
            said(Some(600), Some(0), 0, 0)
                .contains("600 packets, of the test or of others, and the XDP program left none")
        );
        assert!(said(Some(600), Some(598), 0, 0).ends_with("the XDP program left 598 to the host"));
        for (arrived, rx, dropped) in [(None, 0, 0), (Some(600), 1, 0), (Some(600), 0, 600)] {
            assert_eq!(said(arrived, Some(0), rx, dropped), "");
        }
    }

    #[test]
    fn a_run_without_doubts_has_no_remarks() {
        let reasons = [("neighbor_service".to_owned(), 3), ("flows".to_owned(), 7)];
        assert_eq!(remarks(&heard(&reasons)), []);
    }

    #[test]
    fn numbers_that_were_not_believed_are_named_with_what_they_skip() {
        let reasons = [
            ("implausible_sequence".to_owned(), 1),
            ("unconfirmed_gap".to_owned(), 299),
        ];
        let found = remarks(&heard(&reasons));
        let sentence = &found[0].sentence;
        assert!(found.len() == 1 && sentence.starts_with("1 packet came"), "{found:?}");
        assert!(
            sentence.contains("299 numbers that they skip are not counted as lost"),
            "{found:?}"
        );
        assert_eq!(found[0].name, RemarkName::ImplausibleSequence);
        assert_eq!(found[0].value("skipped_numbers"), Some(&299u64.into()));
        let reasons = ["sender_restarts", "gap_after_first", "contested_gap"].map(|name| (name.to_owned(), 9));
        let names: Vec<_> = remarks(&heard(&reasons)).iter().map(|remark| remark.name).collect();
        let expected = [
            RemarkName::ContestedGap,
            RemarkName::GapAfterFirst,
            RemarkName::SenderRestarts,
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_port_that_another_program_has_is_named_with_the_count_and_the_remedy() {
        let reasons = [("host_port".to_owned(), 999)];
        let mut h = heard(&reasons);
        h.workload = Workload::Reflect;
        h.left_ports = Some("68 9000");
        let found = remarks(&h);
        let sentence = &found[0].sentence;
        assert!(
            found.len() == 1 && sentence.contains("999") && sentence.contains("68 9000"),
            "{found:?}"
        );
        h.host_ports = vec![(9000, 999)];
        let found = remarks(&h);
        let sentence = &found[0].sentence;
        assert!(
            found.len() == 1 && sentence.contains("999 packets for UDP port 9000") && sentence.contains("--port"),
            "{found:?}"
        );
        assert_eq!(
            (found[0].name, found[0].value("port")),
            (RemarkName::LeftToHost, Some(&9000u64.into()))
        );
        h = heard(&[]);
        (h.workload, h.rx, h.left_ports, h.left_to_host) = (Workload::Reflect, 0, Some("9000"), Some(50));
        let found = remarks(&h);
        assert!(
            found.len() == 1 && found[0].sentence.contains("nothing was received"),
            "{found:?}"
        );
        assert_eq!(found[0].name, RemarkName::NothingReceived);
    }

    #[test]
    fn a_reflector_counts_by_the_names_that_its_frames_are_left_for() {
        for &left in Left::ALL {
            assert_eq!(crate::workload::reflect::reason(left).as_str(), left.as_str());
        }
    }
}
