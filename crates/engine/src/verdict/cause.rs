//! Why departures were missed or packets dropped. A cause is named where what was measured tells it from the others; else
//! the sentence says that it is not known, and what was measured.

use super::Evidence;
use mpps_stats::{Gap, LaneSummary, Workload};

/// A lane that works for this share of its time has none left.
const BUSY: f64 = 0.9;
/// The least share of a run's time that is worth a note.
const NOTABLE: f64 = 0.01;

pub(super) struct Causes<'e> {
    workload: Workload,
    e: &'e Evidence,
    lanes: &'e [LaneSummary],
    duration_ns: f64,
    /// Shares of the lanes' time that other threads, and of the cores' time that the hypervisor took.
    kept_off: f64,
    stolen: f64,
}

impl<'e> Causes<'e> {
    pub(super) fn new(workload: Workload, e: &'e Evidence, lanes: &'e [LaneSummary]) -> Self {
        let duration_ns = e.duration_ns.max(1) as f64;
        // Only lanes that a thread runs can be kept from running.
        let delays: Vec<u64> = lanes.iter().filter_map(|l| l.run_delay_ns).collect();
        Self {
            workload,
            e,
            lanes,
            duration_ns,
            kept_off: delays.iter().sum::<u64>() as f64 / (duration_ns * delays.len().max(1) as f64),
            stolen: e.steal_ns as f64 / (duration_ns * e.cores.max(1) as f64),
        }
    }

    /// Why departures of `scheduled` are missing. Something that took a share of the time is the cause if, sending on as in
    /// the rest of the time, half of them would have left.
    pub(super) fn of_missing(&self, scheduled: u64) -> String {
        let (sent, scheduled) = (self.e.tx as f64, scheduled as f64);
        let explains = |share: f64| {
            let all = (sent / (1.0 - share.clamp(0.0, 0.999_999))).min(scheduled);
            share > 0.0 && all - sent >= (scheduled - sent) / 2.0
        };
        let lasted = |gaps: &[Gap]| gaps.iter().map(Gap::ns).sum::<u64>() as f64 / self.duration_ns;
        let still = &self.e.still;
        if self.e.link_down {
            return "the link was down for a part of the run".to_owned();
        }
        if explains(lasted(&still.stops)) {
            return stopped(&still.stops);
        }
        if explains(lasted(&still.others)) {
            return stood_still(&still.others);
        }
        if let Some(host) = self.host().filter(|_| explains(self.kept_off + self.stolen)) {
            return host;
        }
        let away = self.lanes.iter().filter(|l| l.tx_role).filter_map(|l| l.away);
        if let Some(away) = away.max_by_key(|away| away.total_ns)
            && explains(away.total_ns as f64 / self.duration_ns)
        {
            return format!(
                "a lane was away from its clock {}, for {} in all, {} at the longest, without waiting for a core: what held \
                 it is not known (a call into the kernel, interrupts, or a host that does not tell)",
                times(away.count),
                time(away.total_ns),
                time(away.longest_ns)
            );
        }
        if self.busy().is_some_and(|busy| busy >= BUSY) {
            return format!(
                "the generator could not keep up: its lanes were busy for {} of the time; lower the rate, add lanes or use \
                 a faster path",
                percent(self.busy().unwrap_or(1.0))
            );
        }
        match self.lanes.iter().map(|l| l.tx_full).sum::<u64>() {
            0 => format!("the cause is not known: {}", self.measured()),
            refusals => format!(
                "the path took nothing {refusals} times, because a ring, buffer or queue was full: lower the rate, \
                 enlarge it or use a faster path"
            ),
        }
    }

    /// Why this host dropped packets before mpps took them. Those are in some stretches of time, and so many take some
    /// time to come: what is to explain them must have been at that time, and have lasted for so long.
    pub(super) fn of_drops(&self, dropped: u64) -> String {
        let still = &self.e.still;
        if self.mostly_during(&still.stops) {
            return stopped(&still.stops);
        }
        if self.mostly_during(&still.others) {
            return stood_still(&still.others);
        }
        let took: u64 = self.lanes.iter().map(|l| l.rx_packets).sum();
        let needed_ns = dropped as f64 / (took + dropped).max(1) as f64 * self.duration_ns;
        let (count, total_ns, longest_ns) = self.away();
        if self.mostly_during(&self.e.away) && total_ns as f64 >= needed_ns / 2.0 {
            let away = format!("{}, for {} at the longest", times(count), time(longest_ns));
            let waited: u64 = self.lanes.iter().filter_map(|l| l.run_delay_ns).sum();
            return match self.host() {
                Some(host) if waited >= total_ns / 2 || self.stolen > NOTABLE => {
                    format!("lanes were kept from their cores {away}; {host}")
                }
                _ if waited >= total_ns / 2 => {
                    format!(
                        "lanes were kept from their cores {away}, by other threads{}",
                        self.by_whose_threads()
                    )
                }
                _ => format!(
                    "lanes were away from their clocks {away}, without waiting for a core: what held them is not known (a \
                     call into the kernel, interrupts, or a host that does not tell). A larger buffer or ring bridges this"
                ),
            };
        }
        if let Some(busy) = self.busy().filter(|busy| *busy >= BUSY) {
            let (done, remedy) = match self.workload {
                Workload::Reflect => ("turned round", "lower the rate or add lanes"),
                Workload::Forward => ("forwarded", "lower the rate or add lanes"),
                Workload::Capture => ("taken", "add lanes or enlarge the ring"),
                _ => ("taken", "lower the rate, add receive lanes or enlarge the buffer"),
            };
            return format!(
                "they came faster than they could be {done}, with lanes busy for {} of the time: {remedy}",
                percent(busy)
            );
        }
        format!(
            "a socket buffer or ring was full, and the cause is not known: {}. A larger buffer or ring may help",
            self.measured()
        )
    }

    /// What the reader should know of the host, though it may have done no harm.
    pub(super) fn notes(&self) -> Vec<String> {
        let still = &self.e.still;
        let stops = (!still.stops.is_empty()).then(|| stopped(&still.stops));
        let others = (!still.others.is_empty()).then(|| stood_still(&still.others));
        stops.into_iter().chain(others).chain(self.host()).collect()
    }

    /// A sentence where the host took more than 1 % of the time from the lanes.
    fn host(&self) -> Option<String> {
        let mut parts = Vec::new();
        if self.kept_off > NOTABLE {
            parts.push(format!(
                "other threads kept the lanes from running for {} of the time{}",
                percent(self.kept_off),
                self.by_whose_threads()
            ));
        }
        if self.stolen > NOTABLE {
            parts.push(format!(
                "the hypervisor took {} of the time (steal)",
                percent(self.stolen)
            ));
        }
        (!parts.is_empty()).then(|| format!("the host interfered: {}", parts.join("; ")))
    }

    /// Whose threads had the cores, as far as is known.
    fn by_whose_threads(&self) -> String {
        let waited: u64 = self.lanes.iter().filter_map(|l| l.run_delay_ns).sum();
        let mut cores: Vec<_> = self.lanes.iter().filter_map(|l| l.core).collect();
        let pinned = cores.len();
        cores.sort_unstable();
        cores.dedup();
        let mut whose = Vec::new();
        if cores.len() < pinned {
            whose.push("lanes of this run share a core (--cores)".to_owned());
        }
        let threads = self.lanes.iter().filter(|l| l.run_delay_ns.is_some()).count() as u64;
        if self.e.cores > 0 && threads > self.e.cores {
            whose.push(format!("this run has {threads} lanes on {} cores", self.e.cores));
        }
        // Another end that has hardly run meanwhile kept nobody waiting.
        let rivals: Vec<_> = self
            .e
            .rivals
            .iter()
            .filter(|rival| rival.ran_ns >= (waited / 50).max(self.e.duration_ns / 100))
            .collect();
        if let Some(rival) = rivals.first() {
            whose.push(format!(
                "another mpps (process {}) has a lane on core {}, too, which ran for {} meanwhile: give each end cores of its \
                 own (--cores)",
                rival.process,
                rival.core,
                time(rival.ran_ns)
            ));
        }
        if self.e.own_ns >= waited / 2 && waited > 0 {
            whose.push(format!(
                "mpps's own threads beside the lanes (the collector, files) ran for {}",
                time(self.e.own_ns)
            ));
        }
        match whose.is_empty() {
            true => String::new(),
            false => format!(" ({})", whose.join("; ")),
        }
    }

    /// Whether half of what this host dropped was dropped in stretches of time that share some with `gaps`.
    fn mostly_during(&self, gaps: &[Gap]) -> bool {
        let drops = &self.e.drops;
        let during = drops.largest.iter().filter(|stretch| {
            let stretch = Gap {
                from_ns: stretch.from_ns,
                to_ns: stretch.to_ns,
            };
            gaps.iter().any(|gap| gap.common_ns(&stretch) > 0)
        });
        let during: u64 = during.map(|stretch| stretch.packets).sum();
        during > 0 && during * 2 >= drops.packets()
    }

    /// How often lanes were away, for how long in all, and at the longest, ns.
    fn away(&self) -> (u64, u64, u64) {
        let away = || self.lanes.iter().filter_map(|l| l.away);
        (
            away().map(|a| a.count).sum(),
            away().map(|a| a.total_ns).sum(),
            away().map(|a| a.longest_ns).max().unwrap_or(0),
        )
    }

    /// The share of time for which the busiest lane worked; of one that runs in the kernel, of its looks those that found
    /// something due.
    fn busy(&self) -> Option<f64> {
        let busy = |l: &LaneSummary| {
            let looks = l.tx_bursts + l.waits;
            l.busy_ratio
                .or_else(|| (l.run_delay_ns.is_some() && looks > 0).then(|| l.tx_bursts as f64 / looks as f64))
        };
        self.lanes.iter().filter_map(busy).reduce(f64::max)
    }

    /// What is known where no cause is.
    fn measured(&self) -> String {
        let mut parts = Vec::new();
        if let Some(busy) = self.busy() {
            parts.push(format!("the busiest lane worked for {} of the time", percent(busy)));
        }
        if self.lanes.iter().any(|l| l.away.is_some()) {
            parts.push(match self.away() {
                (0, ..) => "no lane was away from its clock for more than 1 ms".to_owned(),
                (count, total, longest) => format!(
                    "lanes were away from their clocks {}, for {} in all, {} at the longest",
                    times(count),
                    time(total),
                    time(longest)
                ),
            });
        }
        if self.lanes.iter().any(|l| l.run_delay_ns.is_some()) {
            parts.push(format!(
                "other threads had their cores for {} of it",
                percent(self.kept_off)
            ));
        }
        match parts.is_empty() {
            true => "nothing was measured of the lanes".to_owned(),
            false => parts.join("; "),
        }
    }
}

fn stopped(stops: &[Gap]) -> String {
    format!(
        "the process was stopped {} (Ctrl-Z, SIGSTOP or a debugger)",
        spans(stops)
    )
}

fn stood_still(gaps: &[Gap]) -> String {
    format!(
        "all of mpps stood still {}, and no signal told of it: the process was frozen, or the whole machine was (a virtual \
         machine that is paused or moved)",
        spans(gaps)
    )
}

/// `for 1.500 s, from 2.000 to 3.500 s`.
fn spans(gaps: &[Gap]) -> String {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let Some(longest) = gaps.iter().max_by_key(|gap| gap.ns()) else {
        return String::new();
    };
    let span = format!(
        "from {:.3} to {:.3} s",
        seconds(longest.from_ns),
        seconds(longest.to_ns)
    );
    match gaps.len() {
        1 => format!("for {}, {span}", time(longest.ns())),
        n => format!(
            "{n} times, for {} in all, the longest {span}",
            time(gaps.iter().map(Gap::ns).sum())
        ),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn time(ns: u64) -> String {
    match ns {
        1_000_000_000.. => format!("{:.3} s", ns as f64 / 1e9),
        _ => format!("{:.1} ms", ns as f64 / 1e6),
    }
}

fn times(n: u64) -> String {
    match n {
        1 => "once".to_owned(),
        n => format!("{n} times"),
    }
}
