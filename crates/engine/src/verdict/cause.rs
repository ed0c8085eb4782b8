//! Causes of missed departures or dropped packets. Pure: from measurements to a sentence.
//!
//! A cause is named if it has a quantity, was at work at the time of its effect and in the lanes concerned, and
//! explains at least half of it. If none does, a host that kept the lanes from their cores for half of the sending time
//! is named: their work in the other half says little about what they could have done. Else the sentence says that the
//! cause is not known, and gives the measurements.

use super::{Evidence, whose};
use crate::verdict::meanwhile::LaneTime;
use mpps_io::Obstacle;
use mpps_stats::{
    Gap, KeptOff, KeptOffBy, Known, KnownKind, LaneSummary, Shortfall, Stretch, Withheld, Workload, count,
};
use std::cell::{Cell, RefCell};

/// Share of its time that a lane must work to count as fully busy.
const BUSY: f64 = 0.9;
/// Share of the time that counts as most of it.
const MOST: f64 = 0.5;
/// Least share of a run's time that is worth a note.
const NOTABLE: f64 = 0.01;

pub(super) struct Causes<'e> {
    workload: Workload,
    e: &'e Evidence,
    lanes: &'e [LaneSummary],
    /// Times when all of mpps stood still for no known reason.
    others: Vec<Gap>,
    known: &'e [Known],
    /// Already named as a cause, so it is not reported again.
    told_stops: Cell<bool>,
    told_others: Cell<bool>,
    /// Reason that kept the lanes from their cores, once a sentence has named it.
    host: RefCell<Option<KeptOff>>,
    told_links: Cell<bool>,
    /// Reason why departures are missing, if it is one of these.
    shortfall: Cell<Option<Shortfall>>,
}

impl<'e> Causes<'e> {
    pub(super) fn new(workload: Workload, e: &'e Evidence, lanes: &'e [LaneSummary]) -> Self {
        // A quota that is used up stops all threads at once, too.
        let unknown = |gap: &&Gap| {
            let withheld = e.withheld.as_ref();
            withheld.is_none_or(|withheld| {
                let ns = withheld.within(gap.from_ns, gap.to_ns);
                // Every lane stood still for all of that time.
                withheld.from_lanes(ns, 1) * 2 < gap.ns()
            })
        };
        Self {
            workload,
            e,
            lanes,
            others: e.still.others.iter().filter(unknown).copied().collect(),
            known: &[],
            told_stops: Cell::new(false),
            told_others: Cell::new(false),
            host: RefCell::new(None),
            told_links: Cell::new(false),
            shortfall: Cell::new(None),
        }
    }

    /// Adds the evidence on the surroundings.
    pub(super) fn knowing(self, known: &'e [Known]) -> Self {
        Self { known, ..self }
    }

    /// Returns why departures are missing, if [`Self::of_missing`] has found that this is not the host's fault.
    pub(super) fn shortfall(&self) -> Option<Shortfall> {
        self.shortfall.get()
    }

    /// Returns the reason that kept the lanes from their cores, if a sentence so far has named one.
    pub(super) fn kept_off(&self) -> Option<KeptOff> {
        self.host.borrow().clone()
    }

    /// Remembers the reason that kept the lanes from their cores: the first sentence on it.
    fn remember(&self, by: KeptOffBy, sentence: &str, named: bool) {
        let sentence = sentence.to_owned();
        self.host.borrow_mut().get_or_insert(KeptOff { by, sentence, named });
    }

    /// Returns why departures of `scheduled` are missing. An outage in which nothing could leave is the cause if half
    /// of the missing ones were due then. Another thing that took a share of the sending time is the cause if half of
    /// them would have left without it, at the pace of the rest of the time.
    pub(super) fn of_missing(&self, scheduled: u64) -> String {
        let (sent, scheduled) = (self.e.tx as f64, scheduled as f64);
        let explains = |share: f64| {
            let all = (sent / (1.0 - share.clamp(0.0, 0.999_999))).min(scheduled);
            share > 0.0 && all - sent >= (scheduled - sent) / 2.0
        };
        let time = &Shares::of(&self.e.sending);
        let whole = Gap {
            from_ns: 0,
            to_ns: self.e.duration_ns,
        };
        let lasted = |gaps: &[Gap]| {
            let ns: u64 = gaps.iter().map(|gap| gap.common_ns(&whole)).sum();
            ns as f64 / self.e.duration_ns.max(1) as f64
        };
        // Nothing at all could be sent then: departures due in that time are missing because of it.
        let due_then = |share: f64| share > 0.0 && sent < scheduled && share * scheduled >= (scheduled - sent) / 2.0;
        let still = &self.e.still;
        if due_then(lasted(&still.stops)) {
            return self.stopped(&still.stops);
        }
        if due_then(lasted(&self.others)) {
            return self.stood_still(&self.others);
        }
        let no_way_ns: u64 = self.e.no_way_ns.iter().sum();
        if (no_way_ns > 0 || self.missed_while_down())
            && due_then((self.e.link_down_ns + no_way_ns) as f64 / self.e.duration_ns.max(1) as f64)
        {
            return self.could_not_leave();
        }
        let off = time.waited.max(time.away);
        if explains(off) && self.quota_took(&[whole], self.e.sending.len(), sum(&self.e.sending, off_ns)) {
            let why = self.withheld(off, "the sending time", &[whole]);
            self.remember(KeptOffBy::CpuQuota, &why, true);
            return format!("the host interfered: {why}");
        }
        let stolen = self.stolen();
        let host = |enough: &dyn Fn(f64) -> bool| {
            let mut parts = Vec::new();
            if time.waited > stolen || enough(time.waited) {
                parts.push(self.by_threads(time.waited, "the sending time"));
            }
            if stolen >= time.waited || enough(stolen) || !enough(time.waited) {
                parts.push((KeptOffBy::Hypervisor, hypervisor(stolen)));
            }
            format!("the host interfered: {}", self.in_one(parts, true))
        };
        if explains(time.waited + stolen) {
            return host(&explains);
        }
        if explains(time.held()) {
            return format!(
                "lanes were away from their clocks {}, for {} of the sending time, without waiting for a core: the \
                 reason is not known (a call into the kernel, interrupts, or a host that does not say)",
                times(time.away_times),
                percent(time.held())
            );
        }
        if explains(time.blocked) || time.busy + time.blocked >= BUSY && time.blocked > time.busy {
            self.shortfall.set(Some(Shortfall::Refused));
            let dropped = self.known.iter().filter(|of| of.kind == KnownKind::DeviceDropped);
            let dropped: Vec<&str> = dropped.map(|of| of.sentence.as_str()).collect();
            // A few dropped packets of other programs are not the cause: then the queue in front of the device has
            // dropped more.
            let of_device: u64 = self.e.around.iter().filter_map(|seen| seen.device_dropped).sum();
            let queues = self.e.around.iter().flat_map(|seen| seen.queues.iter().flatten());
            let of_queues: u64 = queues.map(|queue| queue.packets).sum();
            if !dropped.is_empty() && of_device > of_queues {
                return format!(
                    "the path took nothing for {} of the sending time: {}. A queue behind it was full, which a lower \
                     rate mends, or its other end takes no packets of this length (MTU), which --frame-size does",
                    percent(time.blocked),
                    dropped.join("; ")
                );
            }
            let queues = self.known.iter().filter(|of| of.kind == KnownKind::QueueDropped);
            let queues: Vec<&str> = queues.map(|of| of.sentence.as_str()).collect();
            let which = match queues.is_empty() {
                true => String::new(),
                false => format!(" ({})", queues.join("; ")),
            };
            return format!(
                "the path took nothing for {} of the sending time, because a ring, buffer or queue was full{which}: \
                 lower the rate, enlarge it or use a faster path",
                percent(time.blocked)
            );
        }
        if time.busy + time.blocked >= BUSY {
            self.shortfall.set(Some(Shortfall::Outpaced));
            return format!(
                "the generator could not keep up: its lanes were busy for {} of the sending time; lower the rate, add \
                 lanes or use a faster path",
                percent(time.busy)
            );
        }
        // Lanes that lack their cores for most of the time, and yet are not busy, don't send on as in the rest of it:
        // they come back to more than they may catch up with.
        let most = |share: f64| share >= MOST;
        if most(time.waited + stolen) {
            return host(&most);
        }
        format!(
            "the cause is not known: {}",
            time.measured("of the sending time the lanes")
        )
    }

    /// Returns why this host dropped packets before mpps took them. Only lanes that should have taken them count, and
    /// only the time in which they were dropped. While a lane took nothing, packets are assumed to come at the same
    /// rate as in the rest of that time.
    pub(super) fn of_drops(&self) -> String {
        let still = &self.e.still;
        if self.fell_in(&still.stops) {
            return self.stopped(&still.stops);
        }
        if self.fell_in(&self.others) {
            return self.stood_still(&self.others);
        }
        let lanes = &self.e.dropping;
        let dropped: u64 = lanes.iter().map(|lane| lane.dropped).sum();
        let most = |packets: f64| dropped > 0 && packets * 2.0 >= dropped as f64;
        let explained = |ns: fn(&LaneTime) -> u64| -> f64 {
            let lane = |lane: &LaneTime| {
                let came = (lane.dropped + lane.taken) as f64;
                (came * ns(lane) as f64 / lane.ns.max(1) as f64).min(lane.dropped as f64)
            };
            lanes.iter().map(lane).sum()
        };
        let time = &Shares::of(lanes);
        let of = &format!("the {} in which it happened", span(time.longest_ns));
        let waited = explained(|lane| lane.waited_ns.unwrap_or(0));
        let held = explained(held_ns);
        let blocked = explained(|lane| lane.blocked_ns);
        let stretches: Vec<Gap> = self.e.drops.largest.iter().map(gap_of).collect();
        if most(explained(off_ns)) && self.quota_took(&stretches, lanes.len(), sum(lanes, off_ns)) {
            let why = self.withheld(time.waited.max(time.away), of, &stretches);
            self.remember(KeptOffBy::CpuQuota, &why, true);
            return format!("lanes were kept from their cores: {why}. A larger buffer or ring bridges this");
        }
        if most(blocked) && blocked >= waited.max(held) {
            return format!(
                "lanes waited for room to send for {} of {of}, and could take nothing meanwhile: a ring, buffer or \
                 queue of the port that they send by was full. Lower the rate, enlarge it, or see what its other end \
                 is slow at",
                percent(time.blocked)
            );
        }
        if most(waited) && waited >= held {
            let (by, why) = self.by_threads(time.waited, of);
            self.remember(by, &why, true);
            return format!("lanes were kept from their cores: {why}");
        }
        if most(held) {
            let stolen = self.stolen();
            let away: u64 = self
                .lanes
                .iter()
                .filter_map(|lane| lane.away)
                .map(|away| away.total_ns)
                .sum();
            // Over the whole run, as far as that can be compared.
            let by_host = stolen * self.e.looked_ns as f64 >= away as f64 / 2.0 && stolen > NOTABLE;
            let what = match by_host {
                true => {
                    let why = hypervisor(stolen);
                    self.remember(KeptOffBy::Hypervisor, &why, true);
                    why
                }
                false => {
                    "the reason is not known (a call into the kernel, interrupts, or a host that does not say)".into()
                }
            };
            return format!(
                "lanes were away from their clocks for {} of {of}, without waiting for a core: {what}. A larger buffer \
                 or ring bridges this",
                percent(time.held())
            );
        }
        let without_rest = lanes.iter().filter(|lane| busy(lane) >= BUSY);
        if most(without_rest.map(|lane| lane.dropped as f64).sum()) {
            let (done, remedy) = match self.workload {
                Workload::Reflect => ("turned round", "lower the rate or add lanes"),
                Workload::Forward => ("forwarded", "lower the rate or add lanes"),
                Workload::Capture => ("taken", "add lanes or enlarge the ring"),
                _ => ("taken", "lower the rate, add receive lanes or enlarge the buffer"),
            };
            return format!(
                "they came faster than they could be {done}, with lanes busy for {} of {of}: {remedy}",
                percent(lanes.iter().map(busy).fold(0.0, f64::max))
            );
        }
        format!(
            "a socket buffer or ring was full, and the cause is not known: {}. A larger buffer or ring may help",
            time.measured(&format!("of {of} the lanes concerned"))
        )
    }

    /// Returns why nothing could leave, part by part: a link that was down is not an address that was missing
    /// afterwards.
    pub(super) fn could_not_leave(&self) -> String {
        self.told_links.set(true);
        let mut parts = Vec::new();
        if self.e.link_down_ns > 0 {
            let links = self.known.iter().filter(|of| is_link(of.kind));
            let links: Vec<&str> = links.map(|of| of.sentence.as_str()).collect();
            let details = match links.is_empty() {
                true => String::new(),
                false => format!(" ({})", links.join("; ")),
            };
            parts.push(format!("the link was down for {}{details}", span(self.e.link_down_ns)));
        }
        let others = self
            .known
            .iter()
            .filter(|of| !is_link(of.kind) && self.kept_here(of.kind));
        parts.extend(others.map(|of| of.sentence.clone()));
        parts.join("; ")
    }

    /// Returns whether half of the missed departures are in stretches that an outage of the link reaches into, as far
    /// as both have times.
    fn missed_while_down(&self) -> bool {
        let down: Vec<_> = self.known.iter().filter(|of| is_link(of.kind)).collect();
        let misses = &self.e.misses;
        let at = |of: &&Stretch| down.iter().any(|known| known.within(of.from_ns, of.to_ns) > 0);
        let then: u64 = misses.largest.iter().filter(at).map(|of| of.packets).sum();
        down.is_empty() || then * 2 >= misses.packets()
    }

    /// Returns whether this may be why packets could not leave. An MTU is a cause only if packets were longer.
    fn kept_here(&self, kind: KnownKind) -> bool {
        match kind {
            KnownKind::LinkOff | KnownKind::NoCarrier => self.e.link_down_ns > 0,
            KnownKind::NoWay | KnownKind::AddressMissing => true,
            KnownKind::MtuChanged => self.e.no_way_ns[Obstacle::TooLong as usize] > 0,
            _ => false,
        }
    }

    /// Returns a sentence on links, addresses and MTUs, unless a reason has named them.
    pub(super) fn of_links(&self) -> Option<String> {
        let worth = |of: &&Known| {
            is_link(of.kind)
                || matches!(
                    of.kind,
                    KnownKind::AddressMissing | KnownKind::MtuChanged | KnownKind::NoWay
                )
        };
        let named = |of: &&Known| self.told_links.get() && self.kept_here(of.kind);
        let rest = self.known.iter().filter(worth).filter(|of| !named(of));
        let rest: Vec<&str> = rest.map(|of| of.sentence.as_str()).collect();
        (!rest.is_empty()).then(|| rest.join("; "))
    }

    /// Returns notes on the host that the user should see even if it did no harm. Call it after the causes: what they
    /// have named is left out.
    pub(super) fn notes(&self) -> Vec<String> {
        let still = &self.e.still;
        let stops = !still.stops.is_empty() && !self.told_stops.get();
        let others = !self.others.is_empty() && !self.told_others.get();
        let stops = stops.then(|| self.stopped(&still.stops));
        let others = others.then(|| self.stood_still(&self.others));
        let named = self.host.borrow().is_some();
        let host = (!named).then(|| self.host()).flatten();
        stops.into_iter().chain(others).chain(host).collect()
    }

    /// Returns a sentence if the host took more than 1 % of the time from the lanes.
    fn host(&self) -> Option<String> {
        let (waited, measured) = self.waited();
        let (kept_off, stolen) = (waited as f64 / measured.max(1) as f64, self.stolen());
        let mut parts = Vec::new();
        let all = [Gap {
            from_ns: 0,
            to_ns: u64::MAX,
        }];
        if kept_off > NOTABLE {
            parts.push(match self.quota_took(&all, self.lanes.len(), waited) {
                true => (KeptOffBy::CpuQuota, self.withheld(kept_off, "the time", &all)),
                false => self.by_threads(kept_off, "the time"),
            });
        }
        if stolen > NOTABLE {
            parts.push((KeptOffBy::Hypervisor, hypervisor(stolen)));
        }
        (!parts.is_empty()).then(|| format!("the host interfered: {}", self.in_one(parts, false)))
    }

    /// Joins the reasons that kept the lanes from their cores and remembers them, by the first kind.
    fn in_one(&self, parts: Vec<(KeptOffBy, String)>, named: bool) -> String {
        let by = parts.first().map(|(by, _)| *by);
        let sentences: Vec<String> = parts.into_iter().map(|(_, sentence)| sentence).collect();
        let sentence = sentences.join("; ");
        if let Some(by) = by {
            self.remember(by, &sentence, named);
        }
        sentence
    }

    /// Returns how long the lanes of the whole run waited for their cores, and over how long that was measured, ns.
    fn waited(&self) -> (u64, u64) {
        // Only lanes that a thread runs can be kept from running.
        let lanes = self
            .lanes
            .iter()
            .filter_map(|lane| Some((lane.run_delay_ns?, lane.measured_ns)));
        lanes.fold((0, 0), |sum, lane| (sum.0 + lane.0, sum.1 + lane.1))
    }

    /// Returns the share of the cores' time that the hypervisor took.
    fn stolen(&self) -> f64 {
        self.e.steal_ns as f64 / (self.e.looked_ns.max(1) * self.e.cores.max(1)) as f64
    }

    /// Returns whether a quota can have withheld half of `off_ns`, for which so many lanes did not run, in these
    /// stretches of the run.
    fn quota_took(&self, stretches: &[Gap], lanes: usize, off_ns: u64) -> bool {
        let ns = self.withheld_ns(stretches);
        let from_lanes = |withheld: &Withheld| withheld.from_lanes(ns, lanes) * 2 >= off_ns;
        off_ns > 0 && self.e.withheld.as_ref().is_some_and(from_lanes)
    }

    fn withheld_ns(&self, stretches: &[Gap]) -> u64 {
        let within = |withheld: &Withheld| {
            stretches
                .iter()
                .map(|gap| withheld.within(gap.from_ns, gap.to_ns))
                .sum()
        };
        self.e.withheld.as_ref().map_or(0, within)
    }

    /// Names the quota that kept lanes off their cores for a share of a time. Programs that ran there meanwhile took
    /// nothing from them.
    fn withheld(&self, share: f64, of: &str, stretches: &[Gap]) -> String {
        let ns = self.withheld_ns(stretches);
        let sentence = |withheld| super::withheld::sentence(withheld, share, of, ns);
        self.e.withheld.as_ref().map_or_else(String::new, sentence)
    }

    /// Names the threads that kept the lanes off their cores for a share of a time.
    fn by_threads(&self, share: f64, of: &str) -> (KeptOffBy, String) {
        // Threads of normal priority take no core from real-time ones, except a twentieth that the kernel keeps for
        // them. If lanes lost more, the limit or other real-time threads took it.
        let limit = self.e.real_time.as_ref().filter(|limit| limit.share() <= 0.9);
        if let Some(limit) = limit.filter(|limit| share >= (1.0 - limit.share()) / 2.0) {
            let sentence = format!(
                "the limit of real-time threads, or other such threads, kept the lanes from running for {} of {of}: \
                 control group {} grants them {} of each {} on a core (cpu.rt_runtime_us), and nothing counts what it \
                 withholds. Want a higher limit, or lanes without --fifo",
                percent(share),
                limit.group,
                span(limit.granted_us * 1000),
                span(limit.period_us * 1000)
            );
            return (KeptOffBy::RealTime, sentence);
        }
        let waited = self.waited().0;
        let worth = |withheld: &&Withheld| withheld.from_lanes(withheld.ns, self.lanes.len()) >= waited / 10;
        let part = self.e.withheld.as_ref().filter(worth);
        let quota = part.map(|withheld| {
            let (name, ns) = (withheld.name(), span(withheld.ns));
            format!("; {name} withheld {ns} as well (the sum over cores)")
        });
        let (by, whose) = whose::threads(self.e, self.lanes, waited);
        let what = match by {
            KeptOffBy::NotKnown => "other threads or a CPU quota",
            _ => "other threads",
        };
        let sentence = format!(
            "{what} kept the lanes from running for {} of {of}{whose}{}",
            percent(share),
            quota.unwrap_or_default()
        );
        (by, sentence)
    }

    /// Returns whether half of the packets that this host dropped came during one of `gaps`: by stretch of time, and no
    /// more than came in the length of the gap.
    fn fell_in(&self, gaps: &[Gap]) -> bool {
        let drops = &self.e.drops;
        let lanes = &self.e.dropping;
        let came: u64 = lanes.iter().map(|lane| lane.dropped + lane.taken).sum();
        let ns = lanes.iter().map(|lane| lane.ns).max().unwrap_or(0);
        let per_ns = came as f64 / ns.max(1) as f64;
        let during = drops.largest.iter().map(|stretch| {
            let span = Gap {
                from_ns: stretch.from_ns,
                to_ns: stretch.to_ns,
            };
            let common: u64 = gaps.iter().map(|gap| gap.common_ns(&span)).sum();
            (common as f64 * per_ns).min(stretch.packets as f64)
        });
        let during: f64 = during.sum();
        during > 0.0 && during * 2.0 >= drops.packets() as f64
    }

    fn stopped(&self, stops: &[Gap]) -> String {
        self.told_stops.set(true);
        format!(
            "the process was stopped {} (Ctrl-Z, SIGSTOP or a debugger)",
            spans(stops)
        )
    }

    fn stood_still(&self, gaps: &[Gap]) -> String {
        self.told_others.set(true);
        format!(
            "all of mpps stood still {}, and no signal explains it: the process was frozen, or the whole machine was \
             (a virtual machine that is paused or moved)",
            spans(gaps)
        )
    }
}

fn sum(lanes: &[LaneTime], of: fn(&LaneTime) -> u64) -> u64 {
    lanes.iter().map(of).sum()
}

fn gap_of(stretch: &Stretch) -> Gap {
    Gap {
        from_ns: stretch.from_ns,
        to_ns: stretch.to_ns,
    }
}

/// Returns how long the lane did not run though it was to, ns: it waited for its core, or was away from its clock.
fn off_ns(lane: &LaneTime) -> u64 {
    lane.away_ns.max(lane.waited_ns.unwrap_or(0))
}

/// Returns how long something held the lane other than waiting for its core, ns.
fn held_ns(lane: &LaneTime) -> u64 {
    lane.away_ns.saturating_sub(lane.waited_ns.unwrap_or(0))
}

/// Returns the share of its loops' time in which a lane moved something.
fn busy(lane: &LaneTime) -> f64 {
    (lane.busy_ns as f64 / lane.loop_ns.max(1) as f64).min(1.0)
}

/// Lanes' time by use, as shares of it.
#[derive(Default)]
struct Shares {
    longest_ns: u64,
    busy: f64,
    blocked: f64,
    waited: f64,
    away: f64,
    away_times: u64,
    down: f64,
    /// Whether the lanes loop, and whether it is measured how long they wait for a core.
    loops: bool,
    waits: bool,
}

impl Shares {
    fn of(lanes: &[LaneTime]) -> Self {
        let all: u64 = lanes.iter().map(|lane| lane.ns).sum();
        let sum = |of: fn(&LaneTime) -> u64| lanes.iter().map(of).sum::<u64>();
        let share = |of: fn(&LaneTime) -> u64| (sum(of) as f64 / all.max(1) as f64).min(1.0);
        Self {
            longest_ns: lanes.iter().map(|lane| lane.ns).max().unwrap_or(0),
            busy: sum(|lane| lane.busy_ns) as f64 / sum(|lane| lane.loop_ns).max(1) as f64,
            blocked: share(|lane| lane.blocked_ns),
            waited: share(|lane| lane.waited_ns.unwrap_or(0)),
            away: share(|lane| lane.away_ns),
            away_times: sum(|lane| lane.away),
            down: share(|lane| lane.down_ns),
            loops: lanes.iter().any(|lane| lane.loop_ns > 0),
            waits: lanes.iter().any(|lane| lane.waited_ns.is_some()),
        }
    }

    fn held(&self) -> f64 {
        (self.away - self.waited).max(0.0)
    }

    /// Returns the measurements, for a sentence without a cause.
    fn measured(&self, whose: &str) -> String {
        let mut parts = Vec::new();
        if self.loops {
            parts.push(format!("worked for {}", percent(self.busy)));
        }
        if self.waits {
            parts.push(format!("waited for their cores for {}", percent(self.waited)));
        }
        for (share, text) in [
            (self.blocked, "for room to send"),
            (self.down, "for a link that was down"),
        ] {
            if share > 0.0 {
                parts.push(format!("waited {text} for {}", percent(share)));
            }
        }
        if self.loops {
            parts.push(match self.away_times {
                0 if self.away == 0.0 => "were never away from their clocks for more than 1 ms".to_owned(),
                n => format!(
                    "were away from their clocks {}, for {}",
                    times(n.max(1)),
                    percent(self.away)
                ),
            });
        }
        match parts.as_slice() {
            [] => "nothing was measured of the lanes".to_owned(),
            [all @ .., last] if !all.is_empty() => format!("{whose} {} and {last}", all.join(", ")),
            [one, ..] => format!("{whose} {one}"),
        }
    }
}

pub(super) fn is_link(kind: KnownKind) -> bool {
    matches!(kind, KnownKind::LinkOff | KnownKind::NoCarrier)
}

fn hypervisor(share: f64) -> String {
    format!("the hypervisor took {} of the time (steal)", percent(share))
}

/// Returns `for 1.500 s, from 2.000 to 3.500 s`.
fn spans(gaps: &[Gap]) -> String {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let Some(longest) = gaps.iter().max_by_key(|gap| gap.ns()) else {
        return String::new();
    };
    let when = format!(
        "from {:.3} to {:.3} s",
        seconds(longest.from_ns),
        seconds(longest.to_ns)
    );
    match gaps.len() {
        1 => format!("for {}, {when}", span(longest.ns())),
        n => format!(
            "{n} times, for {} in all, the longest {when}",
            span(gaps.iter().map(Gap::ns).sum())
        ),
    }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

pub(super) fn span(ns: u64) -> String {
    match ns {
        1_000_000_000.. => format!("{:.3} s", ns as f64 / 1e9),
        _ => format!("{:.1} ms", ns as f64 / 1e6),
    }
}

fn times(n: u64) -> String {
    match n {
        1 => "once".to_owned(),
        n => format!("{} times", count(n)),
    }
}

#[cfg(test)]
#[path = "cause_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "quota_tests.rs"]
mod quota_tests;
