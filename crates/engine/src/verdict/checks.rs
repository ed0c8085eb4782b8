//! The checks that a verdict is made of, each on one thing.

mod loss;

use super::cause::{is_link, span};
use super::{Case, Finding};
use mpps_io::counter;
use mpps_stats::{Known, KnownKind, LEAST_NS, Workload, count};

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
        let why = "the driver has no room for the time of arrival (rx_time=on)";
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
        self.e.device_gone.then(|| Finding::Invalid(text.to_owned()))
    }

    fn nothing_sent(&self) -> Option<Finding> {
        let nothing = self.workload.generates() && self.e.tx == 0 && !self.e.kept_silent;
        nothing.then(|| {
            let mut why = self.causes.could_not_leave();
            if why.is_empty() {
                let here = |kind| matches!(kind, KnownKind::DeviceDropped | KnownKind::QueueDropped);
                why = self.known_of(here).0.join("; ");
            }
            let colon = if why.is_empty() { "" } else { ": " };
            Finding::Invalid(format!("nothing was sent{colon}{why}"))
        })
    }

    fn too_short(&self) -> Option<Finding> {
        let e = self.e;
        let short = self.workload.generates() && e.interrupted && e.tx > 0 && e.duration_ns < LEAST_NS;
        short.then(|| {
            Finding::Invalid(format!(
                "interrupted after {:.1} ms: too short to tell a rate (want {} ms at least)",
                e.duration_ns as f64 / 1e6,
                LEAST_NS / 1_000_000
            ))
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
        if off > e.tolerance && missing > senders {
            return Some(Finding::Invalid(format!(
                "the offered rate is {:.3} % off the intended one ({} of {} departures missed; {:.3} % are allowed): \
                 {}",
                off * 100.0,
                count(e.missed),
                count(scheduled),
                e.tolerance * 100.0,
                self.causes.of_missing(scheduled)
            )));
        }
        (e.missed > 0).then(|| {
            Finding::Warning(format!(
                "{} of {} departures were missed ({:.4} %; {:.3} % are allowed)",
                count(e.missed),
                count(scheduled),
                e.missed as f64 / scheduled as f64 * 100.0,
                e.tolerance * 100.0
            ))
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
            return Some(Finding::Invalid(format!(
                "a port of this host was down {which}: packets lost meanwhile were not lost by what lies between the \
                 ports"
            )));
        }
        let no_way_ns: u64 = e.no_way_ns.iter().sum();
        let down = e.link_down_ns + no_way_ns > 0;
        let told = self.workload.generates() && down && !e.device_gone && e.scheduled.is_none();
        told.then(|| {
            let down_ns = e.link_down_ns + no_way_ns;
            let much = down_ns as f64 > e.tolerance * e.duration_ns as f64;
            let text = format!(
                "{}: rates are means over a time that includes it",
                self.causes.could_not_leave()
            );
            Finding::by(much, text)
        })
    }

    fn refused_afterwards(&self) -> Option<Finding> {
        let (e, failed) = (self.e, self.sum(|lane| lane.tx_failed));
        let many = count(failed);
        match failed {
            0 => None,
            // As with packets that they could not take: loss to the sender, shown by port or lane.
            _ if self.workload.passes_on() => Some(Finding::Warning(format!(
                "{many} of the packets counted as sent were refused by the kernel or device afterwards (a full queue, \
                 a link without carrier and packets that are too long for it are not distinguished)"
            ))),
            _ if failed as f64 > e.tolerance * e.tx as f64 => Some(Finding::Invalid(format!(
                "{many} packets counted as sent were refused by the kernel or device afterwards"
            ))),
            _ => Some(Finding::Warning(format!(
                "{many} packets counted as sent were refused by the kernel or device afterwards: no more than the \
                 {:.3} % that are allowed",
                e.tolerance * 100.0
            ))),
        }
    }

    fn interface_dropped(&self) -> Option<Finding> {
        let dropped = self.counter(counter::DROPPED_SENT);
        let whose = match self.workload {
            Workload::Drop | Workload::Capture => "none was the test's, which sends nothing here",
            Workload::SendRecv if self.e.lost <= 0 => "all of the test's came back",
            _ => "packets of the test may be among them",
        };
        (dropped > 0).then(|| {
            Finding::Warning(format!(
                "the interface dropped {} packets that it should have sent, of the test or of others: {whose}",
                count(dropped)
            ))
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

    /// Returns the number of packets among `dropped` on the way out that may be of the test.
    fn of_the_test(&self, dropped: u64) -> u64 {
        match self.workload {
            Workload::SendRecv => dropped.min(self.e.lost.max(0).unsigned_abs()),
            Workload::Send => dropped.min(self.e.tx),
            _ => 0,
        }
    }

    /// Judges packets that queues of this host dropped after they were counted as sent.
    fn own_queues(&self) -> Option<Finding> {
        let (told, dropped) = self.known_of(|kind| kind == KnownKind::QueueDropped);
        let told = told.join("; ");
        if dropped == 0 {
            return None;
        }
        if self.workload.passes_on() {
            return Some(Finding::Warning(format!(
                "{told}: packets counted as passed on may be among them, and are lost to their sender"
            )));
        }
        let ours = self.of_the_test(dropped);
        (ours > 0).then(|| {
            // The queue's counter does not show whose packets they were.
            let text = format!(
                "{told}, of the test or of others: up to {} that were counted as sent may be among them and not have \
                 left this host, so loss may not be the path's alone",
                count(ours)
            );
            Finding::by(ours as f64 > self.e.tolerance * self.e.tx as f64, text)
        })
    }

    /// Packets that a device of this host dropped instead of sending them. If these are nearly all, nothing was sent.
    fn own_devices(&self) -> Option<Finding> {
        const NEARLY_ALL: f64 = 0.99;
        let (told, dropped) = self.known_of(|kind| kind == KnownKind::DeviceDropped);
        let ours = self.of_the_test(dropped);
        (ours > 0).then(|| {
            let all = self.e.rx == 0 && ours as f64 >= NEARLY_ALL * self.e.tx as f64;
            let text = match all {
                true => format!("{}: nothing was sent", told.join("; ")),
                false => format!("{}: packets of the test may be among them", told.join("; ")),
            };
            Finding::by(all, text)
        })
    }

    /// Packets that the kernel took while no neighbour answered. It keeps a few of them until the next host answers.
    fn no_neighbor(&self) -> Option<Finding> {
        let watched = |known: &&Known| known.kind == KnownKind::NoNeighbor && !known.when_ns.is_empty();
        let silent = self.known.iter().find(watched)?;
        let share = silent.within(0, self.e.duration_ns) as f64 / self.e.duration_ns.max(1) as f64;
        let text = format!(
            "{}: packets to or by it that were counted as sent meanwhile did not leave this host, but for the few that \
             the kernel keeps for such a time",
            silent.sentence
        );
        Some(Finding::by(share > self.e.tolerance && self.e.tx > 0, text))
    }

    /// Warns of packets that the kernel of a receiver refused. For a sender, the sentences on loss name them.
    fn filtered(&self) -> Option<Finding> {
        let (told, dropped) = self.known_of(|kind| kind == KnownKind::ReversePathFilter);
        let receives = matches!(self.workload, Workload::Drop | Workload::Reflect);
        (dropped > 0 && receives)
            .then(|| Finding::Warning(format!("{}: packets of the test may be among them", told.join("; "))))
    }

    /// Datagrams longer than a frame.
    fn truncated(&self) -> Option<Finding> {
        let cut = self.counter(counter::TRUNCATED);
        let back = if self.workload == Workload::Reflect {
            " and went back so"
        } else {
            ""
        };
        (cut > 0).then(|| {
            Finding::Warning(format!(
                "{} longer than the largest frame here, and cut to it{back}",
                match cut {
                    1 => "1 datagram was".to_owned(),
                    n => format!("{} datagrams were", count(n)),
                }
            ))
        })
    }

    /// Warns if nearly every packet came back more than once.
    fn came_back_twice(&self) -> Option<Finding> {
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
            Finding::Warning(format!(
                "packets {came} {times} times each ({} duplicates of {}): {question}",
                count(e.duplicates),
                count(e.rx)
            ))
        })
    }

    fn queues_added(&self) -> Option<Finding> {
        let added = self.counter(counter::QUEUES_ADDED);
        (added > 0).then(|| {
            Finding::Warning(format!(
                "the interface has {added} more queue{} than when the run began: what came in there was left to the \
                 host",
                if added == 1 { "" } else { "s" }
            ))
        })
    }

    /// Judges packets that mpps should have received, by a counter of the path, and why it did not.
    fn went_to_host(&self, name: &str, why: &str) -> Option<Finding> {
        let left = self.counter(name);
        (left > 0).then(|| {
            let many = count(left);
            let text = format!("{many} packets of the test went to the host instead of mpps, because {why}");
            Finding::by(!self.workload.passes_on(), text)
        })
    }

    fn more_left_than_taken(&self) -> Option<Finding> {
        let passed = self.counter(counter::LEFT_TO_HOST);
        let more = self.workload == Workload::Forward && passed > self.sum(|lane| lane.rx_packets) && passed > 100;
        more.then(|| {
            Finding::Warning(format!(
                "{} frames went to the host, more than were taken: --take foreign leaves it what is for its own \
                 addresses; --port A-B or --take all takes them",
                count(passed)
            ))
        })
    }

    fn dropped_by_this_host(&self) -> Option<Finding> {
        let dropped = self.sum(|lane| lane.rx_dropped);
        if dropped == 0 {
            return None;
        }
        let (many, cause) = (count(dropped), self.causes.of_drops());
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
        Some(Finding::by(!self.workload.passes_on(), text))
    }

    /// Merged frames that a path could not split. Those of the test are counted as dropped, too.
    fn unsplit(&self) -> Option<Finding> {
        let (unsplit, dropped) = (self.counter(counter::UNSPLIT), self.sum(|lane| lane.rx_dropped));
        let tells = unsplit > 0 && (dropped > 0 || self.workload == Workload::Forward);
        tells.then(|| {
            Finding::Warning(format!(
                "{} merged frames (GSO, TSO, GRO) are no plain UDP or hold packets above the MTU, and could not be \
                 split: ethtool -K INTERFACE gro off here, and tso off gso off at their sender, keep packets apart",
                count(unsplit)
            ))
        })
    }

    /// Frames without their ends; a capture's lack of them is judged with its file.
    fn cut(&self) -> Option<Finding> {
        let cut = self.counter(counter::CUT);
        (cut > 0 && self.workload != Workload::Capture).then(|| {
            Finding::Warning(format!(
                "{} frames came without their ends, which found no room in this host's memory for long frames",
                count(cut)
            ))
        })
    }

    fn rows_and_lanes_agree(&self) -> Option<Finding> {
        let by_lane = self.sum(|lane| lane.tx_packets);
        let off = self.workload.generates() && by_lane != self.e.tx;
        off.then(|| {
            Finding::Invalid(format!(
                "internal: the lanes sent {} packets, the rows hold {}",
                count(by_lane),
                count(self.e.tx)
            ))
        })
    }

    fn more_than_sent(&self) -> Option<Finding> {
        let more = self.e.lost.unsigned_abs();
        let text = || format!("internal: {} packets more came back than were sent", count(more));
        (self.e.lost < 0).then(|| Finding::Invalid(text()))
    }

    fn beyond_window(&self) -> Option<Finding> {
        let far = self.e.beyond_window;
        (far > 0).then(|| {
            Finding::Invalid(format!(
                "{} packets came back so far out of order that they can't be told from duplicates; they count as lost",
                count(far)
            ))
        })
    }

    fn flow_contended(&self) -> Option<Finding> {
        let times = self.e.flow_contended;
        (times > 0).then(|| {
            Finding::Invalid(format!(
                "{} times a flow moved to another queue or CPU while the one before was in the middle of a packet of \
                 it and did not come to its end: its duplicates and order may be miscounted",
                count(times)
            ))
        })
    }

    fn flow_moved(&self) -> Option<Finding> {
        let e = self.e;
        (e.flow_moved > 0 && e.reordered > 0).then(|| {
            Finding::Warning(format!(
                "packets of one flow moved between queues or CPUs {} times: all are counted, but of those that this \
                 host handled at the same time some may be among the {} reordered",
                count(e.flow_moved),
                count(e.reordered)
            ))
        })
    }

    fn untracked(&self) -> Option<Finding> {
        let e = self.e;
        (e.untracked > 0 && self.workload == Workload::Drop).then(|| {
            Finding::Warning(format!(
                "{} packets were of flows beyond the {} that are tracked (--max-flows): they count as received, \
                 unchecked for loss, order and copies",
                count(e.untracked),
                count(e.flows)
            ))
        })
    }

    fn late(&self) -> Option<Finding> {
        let e = self.e;
        (e.late > 0).then(|| {
            Finding::Warning(format!(
                "{} packets came back later than the settle time of {} ms; with a longer --settle they would count as \
                 received, and stand as lost in no row",
                count(e.late),
                e.settle_ms
            ))
        })
    }

    fn collector_late(&self) -> Option<Finding> {
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
        (self.e.overflowed + unranked > 0).then(|| Finding::Warning(format!("{text}{ranked}")))
    }
}
