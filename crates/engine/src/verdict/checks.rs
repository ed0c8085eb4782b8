//! The checks that a verdict is made of, each on one thing.

mod counts;
mod host;
mod loss;

use super::cause::{Cause, is_link, span};
use super::{Case, Finding};
use mpps_io::counter;
use mpps_stats::{Known, KnownKind, LEAST_NS, Remark, RemarkName, count};

/// One check, which may find something.
pub(super) type Check = fn(&Case<'_>) -> Option<Finding>;

/// All checks, in the order in which their findings are shown.
pub(super) const CHECKS: &[Check] = &[
    |c| c.device_gone(),
    |c| c.nothing_sent(),
    |c| c.too_short(),
    |c| c.missed_departures(),
    |c| c.link_down(),
    |c| c.around(),
    |c| c.no_neighbor(),
    |c| c.filtered(),
    |c| c.refused_afterwards(),
    |c| c.interface_dropped(),
    |c| c.own_queues(),
    |c| c.own_devices(),
    |c| c.queues_added(),
    |c| {
        let why = "they came in on queues of the device that the run does not use (queues=, first=, or queues made \
                   after it began)";
        c.went_to_host(counter::NO_SOCKET, why)
    },
    |c| {
        let why = "the driver has no room for the time of arrival (rx_time=kernel)";
        c.went_to_host(counter::NO_ROOM_FOR_RX_TIME, why)
    },
    |c| c.more_left_than_taken(),
    |c| c.dropped_by_this_host(),
    |c| c.unsplit(),
    |c| c.cut(),
    |c| c.truncated(),
    |c| c.rows_and_lanes_agree(),
    |c| c.more_than_sent(),
    |c| c.came_back_twice(),
    |c| c.beyond_window(),
    |c| c.flow_contended(),
    |c| c.flow_moved(),
    |c| c.untracked(),
    |c| c.nothing_came_back(),
    |c| c.late(),
    |c| c.where_lost(),
    |c| c.collector_late(),
];

impl Case<'_> {
    fn device_gone(&self) -> Option<Finding> {
        let text = "the device failed or vanished during the run: the report ends there";
        self.e
            .device_gone
            .then(|| Finding::Invalid(Remark::new(RemarkName::DeviceGone, text)))
    }

    fn nothing_sent(&self) -> Option<Finding> {
        let nothing = self.workload.generates() && self.e.tx == 0 && !self.e.kept_silent;
        nothing.then(|| {
            let (cause, why) = match self.causes.could_not_leave() {
                (_, why) if why.is_empty() => self.dropped_on_the_way_out(),
                (cause, why) => (Some(cause), why),
            };
            let colon = if why.is_empty() { "" } else { ": " };
            let remark = Remark::new(RemarkName::NothingSent, format!("nothing was sent{colon}{why}"));
            Finding::Invalid(remark.with_some("cause", cause.map(Cause::as_str)))
        })
    }

    /// Returns what dropped packets on the way out of this host, with all sentences on such drops.
    fn dropped_on_the_way_out(&self) -> (Option<Cause>, String) {
        let known = |kind| self.known.iter().any(|known| known.kind == kind);
        let cause = match (known(KnownKind::DeviceDropped), known(KnownKind::QueueDropped)) {
            (true, _) => Some(Cause::DeviceDropped),
            (false, true) => Some(Cause::QueueDropped),
            (false, false) => None,
        };
        let here = |kind| matches!(kind, KnownKind::DeviceDropped | KnownKind::QueueDropped);
        (cause, self.known_of(here).0.join("; "))
    }

    fn too_short(&self) -> Option<Finding> {
        let e = self.e;
        let short = self.workload.generates() && e.interrupted && e.tx > 0 && e.duration_ns < LEAST_NS;
        short.then(|| {
            let text = format!(
                "interrupted after {:.1} ms: too short to tell a rate (want {} ms at least)",
                e.duration_ns as f64 / 1e6,
                LEAST_NS / 1_000_000
            );
            let remark = Remark::new(RemarkName::TooShort, text);
            Finding::Invalid(remark.with("duration_ns", e.duration_ns).with("least_ns", LEAST_NS))
        })
    }

    fn missed_departures(&self) -> Option<Finding> {
        let e = self.e;
        let scheduled = e
            .scheduled
            .filter(|&n| n > 0 && self.workload.generates() && e.tx > 0)?;
        let missing = e.tx.abs_diff(scheduled);
        let off = missing as f64 / scheduled as f64;
        let senders = self.lanes.iter().filter(|lane| lane.tx_role).count().max(1) as u64;
        let remark = |text| {
            Remark::new(RemarkName::MissedDepartures, text)
                .with("missed_packets", e.missed)
                .with("due_packets", scheduled)
                .with("allowed_ratio", e.tolerance)
        };
        if off > e.tolerance && missing > senders {
            let (cause, why) = self.causes.of_missing(scheduled);
            let text = format!(
                "the offered rate is {:.3} % off the intended one ({} of {} departures missed; {:.3} % are allowed): \
                 {why}",
                off * 100.0,
                count(e.missed),
                count(scheduled),
                e.tolerance * 100.0,
            );
            let remark = remark(text).with("off_ratio", off).with("cause", cause.as_str());
            return Some(Finding::Invalid(remark));
        }
        (e.missed > 0).then(|| {
            let missed = e.missed as f64 / scheduled as f64;
            let text = format!(
                "{} of {} departures were missed ({:.4} %; {:.3} % are allowed)",
                count(e.missed),
                count(scheduled),
                missed * 100.0,
                e.tolerance * 100.0
            );
            Finding::Warning(remark(text).with("missed_ratio", missed))
        })
    }

    /// Judges a link that was down. A paced run is judged by its missed departures instead.
    fn link_down(&self) -> Option<Finding> {
        let e = self.e;
        // One of both ports is down: packets lost meanwhile were lost here, and not between the ports.
        let ports = self.known.iter().filter(|of| is_link(of.kind) && self.at_some_loss(of));
        let ports: Vec<&str> = ports.map(|of| of.sentence.as_str()).collect();
        if e.across && e.lost > 0 && !e.device_gone && (e.link_down_ns > 0 || !ports.is_empty()) {
            let which = match ports.is_empty() {
                true => format!("for {}", span(e.link_down_ns)),
                false => format!("({})", ports.join("; ")),
            };
            let text = format!(
                "a port of this host was down {which}: packets lost meanwhile were not lost by what lies between the \
                 ports"
            );
            let remark = Remark::new(RemarkName::PortDown, text);
            return Some(Finding::Invalid(remark.with("down_ns", e.link_down_ns)));
        }
        let no_way_ns: u64 = e.no_way_ns.iter().sum();
        let down = e.link_down_ns + no_way_ns > 0;
        let told = self.workload.generates() && down && !e.device_gone && e.scheduled.is_none();
        told.then(|| {
            let down_ns = e.link_down_ns + no_way_ns;
            let much = down_ns as f64 > e.tolerance * e.duration_ns as f64;
            let (cause, why) = self.causes.could_not_leave();
            let text = format!("{why}: rates are means over a time that includes it");
            let remark = Remark::new(RemarkName::CouldNotLeave, text)
                .with("down_ns", down_ns)
                .with("allowed_ratio", e.tolerance)
                .with("cause", cause.as_str());
            Finding::by(much, remark)
        })
    }

    /// Warns of links and addresses that changed during the run.
    fn around(&self) -> Option<Finding> {
        self.causes.of_links().map(Finding::Warning)
    }

    /// Returns sentences on evidence of a kind, with its packets.
    fn known_of(&self, of: impl Fn(KnownKind) -> bool) -> (Vec<&str>, u64) {
        let known = || self.known.iter().filter(|known| of(known.kind));
        let sentences = known().map(|known| known.sentence.as_str()).collect();
        (sentences, known().filter_map(|known| known.packets).sum())
    }

    /// Packets that the kernel took while no neighbour answered. It keeps a few of them until the next host answers.
    fn no_neighbor(&self) -> Option<Finding> {
        let watched = |known: &&Known| known.kind == KnownKind::NoNeighbor && !known.when_ns.is_empty();
        let silent = self.known.iter().find(watched)?;
        let silent_ns = silent.within(0, self.e.duration_ns);
        let share = silent_ns as f64 / self.e.duration_ns.max(1) as f64;
        let text = format!(
            "{}: packets to or by it that were counted as sent meanwhile did not leave this host, but for the few that \
             the kernel keeps for such a time",
            silent.sentence
        );
        let remark = Remark::new(RemarkName::NoNeighbor, text)
            .with("unanswered_ns", silent_ns)
            .with("unanswered_ratio", share)
            .with("allowed_ratio", self.e.tolerance);
        Some(Finding::by(share > self.e.tolerance && self.e.tx > 0, remark))
    }
}
