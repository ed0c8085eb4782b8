//! Evidence of a run, by which it is judged.

use super::Measured;
use super::counts::since_start;
use crate::lane::away::{Signals, Standstills, standstills};
use crate::verdict::meanwhile::LaneTime;
use crate::verdict::{Evidence, Icmp};
use mpps_io::Reason;
use mpps_io::around::Outage;
use mpps_stats::{Gap, LaneCounters, LaneSummary};
use mpps_sys::evidence::{OthersRan, Rival};
use mpps_sys::signal;

/// Returns the evidence that a run is judged by. `lanes` and `reasons` are those of its summary.
pub(super) fn evidence(
    m: &Measured<'_>,
    lanes: &[LaneSummary],
    reasons: &[(String, u64)],
    kernel: KernelDrops,
) -> Evidence {
    let (run_ns, tally) = (m.run_ns(), m.totals.tally);
    let reason = |reason: Reason| reason.of(reasons);
    Evidence {
        tx: tally.tx,
        untagged: tally.untagged,
        rx: tally.rx,
        duplicates: tally.duplicates,
        late: tally.late,
        lost: if m.workload.generates() { m.totals.lost } else { 0 },
        missed: tally.missed,
        misses: m.totals.missed.clone(),
        scheduled: m.due(),
        kept_silent: !m.was_to_send(),
        tolerance: m.work.tolerance,
        device_gone: m.control.gone(),
        link_down_ns: link_down_ns(m),
        no_way_ns: std::array::from_fn(|of| longest(own_counters(m).map(|lane| lane.no_way_ns[of].get()))),
        around: m.around.clone(),
        icmp: Icmp {
            port_unreachable: reason(Reason::IcmpPortUnreachable),
            unreachable: reason(Reason::IcmpUnreachable),
            time_exceeded: reason(Reason::IcmpTimeExceeded),
            too_long: reason(Reason::IcmpTooLong),
        },
        packet_len: m.work.packet_len,
        coalesced: m.coalesces,
        settle_ms: m.common.settle.as_secs_f64() * 1e3,
        duration_ns: run_ns,
        interrupted: m.interrupted,
        own_ns: m.housekeeping.as_ref().map_or(0, |own| own.cpu_ns),
        steal_ns: m.steal_ns.unwrap_or(0),
        cores: mpps_sys::sched::allowed_cores().len() as u64,
        looked_ns: m.looked_ns,
        still: still(m),
        sending: senders(m, lanes),
        dropping: droppers(m),
        drops: m.totals.host_drops.clone(),
        losses: m.totals.loss.clone(),
        host_drops_known: m.totals.host_dropped.is_some(),
        real_time: m.real_time.cloned(),
        unread_quota: m.unread_quota.map(str::to_owned),
        withheld: m.withheld.cloned(),
        kernel_drops: kernel.lost,
        kernel_perhaps: kernel.perhaps,
        kernel_unseen: kernel.unseen,
        traced: m.common.trace.is_some(),
        rivals: rivals(lanes, m.rivals, run_ns),
        overflowed: m.totals.overflowed,
        unranked: [m.totals.unranked, m.totals.latency.count],
        beyond_window: reason(Reason::BeyondWindow),
        flow_moved: reason(Reason::FlowMoved),
        flow_contended: reason(Reason::FlowContended),
        reordered: tally.reordered,
        across: m.work.across,
        flows: reason(Reason::Flows),
        untracked: reason(Reason::Untracked),
    }
}

/// Packets by the reason for which the kernel dropped them.
type Drops = Vec<(String, u64)>;

/// Packets that the kernel dropped, as a trace has seen them.
#[derive(Clone, Debug, Default)]
pub(super) struct KernelDrops {
    /// Lost packets; `None`: not known.
    pub(super) lost: Option<Drops>,
    /// Other drops of the time of the losses, which may or may not be of lost packets.
    perhaps: Drops,
    /// Parts of the kernel whose drops the trace does not see.
    unseen: Vec<String>,
}

impl KernelDrops {
    /// Reads the drops. They are not known for one of several tracks.
    pub(super) fn of(m: &Measured<'_>) -> Self {
        let looked = m.common.trace.is_some() && !m.one_track && m.workload.generates();
        let Some(drops) = looked.then(|| m.common.owner.kernel_drops()).flatten() else {
            return Self::default();
        };
        let lost = m.totals.loss.lost_times(m.started.monotonic_ns, m.run_ns());
        Self {
            lost: Some(drops.losses(&lost)),
            perhaps: drops.perhaps(&lost),
            unseen: drops.unseen.iter().map(|(part, _)| part.clone()).collect(),
        }
    }
}

/// Returns how long the link was down, as far as lanes could not send because of it, ns. A lane that sends rarely looks
/// rarely: then the time of the link itself counts.
fn link_down_ns(m: &Measured<'_>) -> u64 {
    let by_lanes = longest(own_counters(m).map(|lane| lane.down_ns.get()));
    let run_ns = m.end_ns.saturating_sub(m.started.monotonic_ns);
    let ns = |of: &Outage| of.to_ns.min(run_ns).saturating_sub(of.from_ns);
    let by_links = m.around.iter().map(|seen| {
        let outages = seen.off.iter().chain(&seen.no_carrier);
        outages.map(ns).sum::<u64>()
    });
    match by_lanes {
        0 => 0,
        ns => ns.max(longest(by_links)),
    }
}

/// Returns the counters of the lanes that do something in the track.
fn own_counters<'m>(m: &'m Measured<'_>) -> impl Iterator<Item = &'m LaneCounters> {
    let lanes = m.common.lanes.iter().zip(m.counters);
    let own = lanes.filter(|(role, _)| !m.one_track || role.rx || role.tx);
    own.map(|(_, counters)| counters)
}

fn longest(all: impl Iterator<Item = u64>) -> u64 {
    all.max().unwrap_or(0)
}

/// Returns the time of the sending lanes until the sending ended.
fn senders(m: &Measured<'_>, lanes: &[LaneSummary]) -> Vec<LaneTime> {
    let all = m.common.lanes.iter().zip(&m.sending).enumerate();
    let senders = all.filter(|(_, (plan, _))| plan.tx);
    let sender = |(i, (_, time)): (usize, (_, &LaneTime))| {
        let mut time = *time;
        // A lane in the kernel does not loop: its looks count instead, and those that found something due are busy.
        if let Some(line) = lanes.get(i).filter(|_| m.outcomes[i].sent.is_some()) {
            (time.busy_ns, time.loop_ns) = (line.tx_bursts, line.tx_bursts + line.waits);
        }
        time
    };
    senders.map(sender).collect()
}

/// Returns the lanes' time while packets were dropped that they were to take.
fn droppers(m: &Measured<'_>) -> Vec<LaneTime> {
    let stretches = m.totals.host_drops.largest.iter().map(|stretch| Gap {
        from_ns: stretch.from_ns,
        to_ns: stretch.to_ns,
    });
    let stretches: Vec<Gap> = stretches.collect();
    let lane = |(time, counters): (&LaneTime, &LaneCounters)| {
        let gaps = counters.away.longest();
        let gaps = gaps.iter().map(|gap| since_start(gap, m.started.monotonic_ns));
        let common = |gap: Gap| stretches.iter().map(|stretch| stretch.common_ns(&gap)).sum::<u64>();
        LaneTime {
            // A gap that ended after the stretch is noted only then.
            away_ns: time.away_ns.max(gaps.map(common).sum::<u64>().min(time.ns)),
            ..*time
        }
    };
    let lanes = m.dropping.iter().zip(m.counters).map(lane);
    lanes.filter(|time| time.dropped > 0).collect()
}

/// Returns the longest gaps of each lane that looks at a clock.
fn lane_gaps(m: &Measured<'_>) -> Vec<Vec<Gap>> {
    let looks = m.counters.iter().filter(|c| c.loop_ns.get() > 0);
    looks.map(|c| c.away.longest()).collect()
}

fn still(m: &Measured<'_>) -> Standstills {
    let waited_ns = m.outcomes.iter().filter_map(|o| o.run_delay_ns).max().unwrap_or(0);
    let signals = Signals {
        continued: mpps_sys::evidence::continues(),
        ended: signal::interrupted_at(),
    };
    let found = standstills(&lane_gaps(m), &m.collector_gaps, &signals, waited_ns);
    let since = |gaps: Vec<Gap>| {
        gaps.iter()
            .map(|gap| since_start(gap, m.started.monotonic_ns))
            .collect()
    };
    Standstills {
        stops: since(found.stops),
        others: since(found.others),
    }
}

/// Returns threads of other processes that last ran on the cores of our lanes, if lanes waited for their cores at all.
fn rivals(lanes: &[LaneSummary], before: &OthersRan, run_ns: u64) -> Vec<Rival> {
    let waited: u64 = lanes.iter().filter_map(|l| l.run_delay_ns).sum();
    if waited < run_ns / 200 {
        return Vec::new();
    }
    let pinned: Vec<usize> = lanes.iter().filter_map(|l| l.core).collect();
    let cores = if pinned.is_empty() {
        mpps_sys::sched::allowed_cores()
    } else {
        pinned
    };
    let mut rivals = before.since(0);
    rivals.retain(|rival| cores.contains(&rival.core));
    rivals
}
