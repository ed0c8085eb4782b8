//! Causes of missed departures or dropped packets. Pure: from measurements to a sentence.
//!
//! A cause is named if it has a quantity, was at work at the time of its effect and in the lanes concerned, and
//! explains at least half of it. If none does, a host that kept the lanes from their cores for half of the sending time
//! is named: their work in the other half says little about what they could have done. Else the sentence says that the
//! cause is not known, and gives the measurements.

mod drops;
mod missing;
mod named;
mod shares;

use super::{Evidence, whose};
use mpps_io::Obstacle;
use mpps_stats::{
    Gap, KeptOff, KeptOffBy, Known, KnownKind, LaneSummary, Remark, RemarkName, RemarkValue, Shortfall, Withheld,
    Workload, count,
};
use std::cell::{Cell, RefCell};

pub(super) use named::Cause;

/// Share of its time that a lane must work to count as fully busy.
const BUSY: f64 = 0.9;
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

    /// Returns why nothing could leave, part by part: a link that was down is not an address that was missing
    /// afterwards. The sentence is empty if nothing shows that something could not.
    pub(super) fn could_not_leave(&self) -> (Cause, String) {
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
        let cause = match self.e.link_down_ns {
            0 => Cause::NoWay,
            _ => Cause::LinkDown,
        };
        (cause, parts.join("; "))
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

    /// Returns a remark on links, addresses and MTUs, unless a reason has named them.
    pub(super) fn of_links(&self) -> Option<Remark> {
        let worth = |of: &&Known| {
            is_link(of.kind)
                || matches!(
                    of.kind,
                    KnownKind::AddressMissing | KnownKind::MtuChanged | KnownKind::NoWay
                )
        };
        let named = |of: &&Known| self.told_links.get() && self.kept_here(of.kind);
        let rest: Vec<&Known> = self.known.iter().filter(worth).filter(|of| !named(of)).collect();
        let sentences: Vec<&str> = rest.iter().map(|of| of.sentence.as_str()).collect();
        let remark = || Remark::new(RemarkName::SurroundingsChanged, sentences.join("; "));
        (!rest.is_empty()).then(|| remark().with("known", kinds(rest)))
    }

    /// Returns notes on the host that the user should see even if it did no harm. Call it after the causes: what they
    /// have named is left out.
    pub(super) fn notes(&self) -> Vec<Remark> {
        let still = &self.e.still;
        let stops = !still.stops.is_empty() && !self.told_stops.get();
        let others = !self.others.is_empty() && !self.told_others.get();
        let lasted = |gaps: &[Gap]| gaps.iter().map(Gap::ns).sum::<u64>();
        let stops = stops.then(|| {
            Remark::new(RemarkName::Stopped, self.stopped(&still.stops).1)
                .with("times", still.stops.len())
                .with("stopped_ns", lasted(&still.stops))
        });
        let others = others.then(|| {
            Remark::new(RemarkName::StoodStill, self.stood_still(&self.others).1)
                .with("times", self.others.len())
                .with("still_ns", lasted(&self.others))
        });
        let named = self.host.borrow().is_some();
        let host = (!named).then(|| self.host()).flatten();
        stops.into_iter().chain(others).chain(host).collect()
    }

    /// Returns a remark if the host took more than 1 % of the time from the lanes.
    fn host(&self) -> Option<Remark> {
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
        let (by, sentence) = self.in_one(parts, false)?;
        let remark = Remark::new(RemarkName::HostInterfered, format!("the host interfered: {sentence}"));
        Some(
            remark
                .with("cause", Cause::KeptOff(by).as_str())
                .with("waited_ratio", kept_off)
                .with("stolen_ratio", stolen),
        )
    }

    /// Joins the reasons that kept the lanes from their cores and remembers them, by the first kind; `None`: no parts.
    fn in_one(&self, parts: Vec<(KeptOffBy, String)>, named: bool) -> Option<(KeptOffBy, String)> {
        let by = parts.first()?.0;
        let sentences: Vec<String> = parts.into_iter().map(|(_, sentence)| sentence).collect();
        let sentence = sentences.join("; ");
        self.remember(by, &sentence, named);
        Some((by, sentence))
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

    fn stopped(&self, stops: &[Gap]) -> (Cause, String) {
        self.told_stops.set(true);
        let sentence = format!(
            "the process was stopped {} (Ctrl-Z, SIGSTOP or a debugger)",
            spans(stops)
        );
        (Cause::Stopped, sentence)
    }

    fn stood_still(&self, gaps: &[Gap]) -> (Cause, String) {
        self.told_others.set(true);
        let sentence = format!(
            "all of mpps stood still {}, and no signal explains it: the process was frozen, or the whole machine was \
             (a virtual machine that is paused or moved)",
            spans(gaps)
        );
        (Cause::StoodStill, sentence)
    }
}

/// Returns the kinds of evidence, each once.
pub(super) fn kinds<'k>(all: impl IntoIterator<Item = &'k Known>) -> RemarkValue {
    let mut kinds = Vec::new();
    for kind in all.into_iter().map(|known| known.kind.as_str()) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.into_iter().collect()
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

pub(super) fn times(n: u64) -> String {
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
