//! Time that a core spends on other work, measured by a thread that does nothing but read its clock.
//!
//! The columns are those of the kernel's osnoise tracer, which distributions seldom build in. The change of the
//! kernel's own counts over the same time shows what took the core: the counts name interrupts and softirqs, but not
//! which gap belongs to which. The rest is due to the hypervisor (see `steal`), the firmware or a page fault.

use super::cpus::Cpus;
use super::tree::Tree;
use mpps_sys::clock::Clock;
use mpps_sys::sched;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Shortest pause between two readings of the clock that counts, ns.
pub const THRESHOLD_NS: u64 = 1_000;
/// Length of the periods over which noise is added up for [`Noise::max_noise_us`], ns.
const PERIOD_NS: u64 = 1_000_000_000;

/// Time taken from one core.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// The core.
    pub cpu: usize,
    /// Length of the measurement, µs.
    pub period_us: f64,
    /// Sum of all pauses over 1 µs, µs.
    pub noise_us: f64,
    /// Share of the core that was left, percent.
    pub available_percent: f64,
    /// The largest sum of pauses in one second, µs.
    pub max_noise_us: f64,
    /// The longest pause, µs.
    pub max_single_us: f64,
    /// Number of pauses over 1 µs.
    pub count: u64,
    /// Time that the measuring thread was ready while another ran (run delay of `schedstat`), µs; `None`: not known.
    pub waited_us: Option<f64>,
    /// Time that the hypervisor gave to others, µs, in steps of the kernel's tick (mostly 10 ms); `None`: not known.
    pub steal_us: Option<f64>,
    /// Interrupts on the core, by name, most frequent first.
    pub interrupts: Vec<Count>,
    /// Softirqs on the core, by name, most frequent first.
    pub softirqs: Vec<Count>,
}

/// Number of occurrences of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Name of the event.
    pub name: String,
    /// Number of occurrences.
    pub count: u64,
}

/// Pauses of a thread, as its own readings of the clock show them; no clock of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Gaps {
    sum_ns: u64,
    longest_ns: u64,
    count: u64,
    period_ns: u64,
    longest_period_ns: u64,
}

impl Gaps {
    fn add(&mut self, gap_ns: u64) {
        self.sum_ns += gap_ns;
        self.period_ns += gap_ns;
        self.longest_ns = self.longest_ns.max(gap_ns);
        self.count += 1;
    }

    fn end_period(&mut self) {
        self.longest_period_ns = self.longest_period_ns.max(std::mem::take(&mut self.period_ns));
    }
}

/// Measures all cores at once, each by a thread of its own, for `length`.
///
/// # Errors
/// One line: a core that this process may not use.
pub fn measure(tree: &Tree, cores: &Cpus, length: Duration) -> Result<Vec<Noise>, String> {
    let source = mpps_sys::clock::ClockSource::new();
    let clock = source.clock();
    std::thread::scope(|scope| {
        let start = |core| {
            let clock = clock.clone();
            let work = move || one(tree, core, &clock, length);
            let unable = |e| format!("core {core}: start a thread: {e}");
            mpps_sys::thread::spawn_scoped(scope, "mpps-noise", work).map_err(unable)
        };
        let threads: Vec<_> = cores.iter().map(start).collect();
        let all = threads
            .into_iter()
            .map(|thread| thread?.join().unwrap_or_else(|_| Err("a thread failed".to_owned())));
        all.collect()
    })
}

fn one(tree: &Tree, core: usize, clock: &Clock, length: Duration) -> Result<Noise, String> {
    sched::pin(core).map_err(|e| format!("core {core}: {e}: want one that this process may use"))?;
    let thread = sched::thread_id();
    let before = Counts::of(tree, core, thread);
    let begin_ns = clock.now_ns();
    let end_ns = begin_ns + length.as_nanos() as u64;
    let (gaps, ended_ns) = spin(|| clock.now_ns(), begin_ns, end_ns);
    let after = Counts::of(tree, core, thread);
    Ok(noise(core, gaps, ended_ns - begin_ns, &before, &after))
}

/// Reads the clock until `end_ns`. Returns the pauses, and the last reading.
fn spin(mut now: impl FnMut() -> u64, begin_ns: u64, end_ns: u64) -> (Gaps, u64) {
    let (mut gaps, mut last_ns) = (Gaps::default(), begin_ns);
    let mut period_end_ns = begin_ns + PERIOD_NS;
    while last_ns < end_ns {
        let now_ns = now();
        let gap_ns = now_ns.saturating_sub(last_ns);
        if gap_ns > THRESHOLD_NS {
            gaps.add(gap_ns);
        }
        if now_ns >= period_end_ns {
            gaps.end_period();
            period_end_ns = now_ns + PERIOD_NS;
        }
        last_ns = now_ns;
    }
    gaps.end_period();
    (gaps, last_ns)
}

fn noise(cpu: usize, gaps: Gaps, length_ns: u64, before: &Counts, after: &Counts) -> Noise {
    let us = |ns: u64| ns as f64 / 1e3;
    let since = |now: Option<u64>, then: Option<u64>| now.zip(then).map(|(now, then)| us(now.saturating_sub(then)));
    Noise {
        cpu,
        period_us: us(length_ns),
        noise_us: us(gaps.sum_ns),
        available_percent: 100.0 - 100.0 * gaps.sum_ns as f64 / length_ns.max(1) as f64,
        max_noise_us: us(gaps.longest_period_ns),
        max_single_us: us(gaps.longest_ns),
        count: gaps.count,
        waited_us: since(after.waited_ns, before.waited_ns),
        steal_us: since(after.steal_ns, before.steal_ns),
        interrupts: grown(&before.interrupts, &after.interrupts),
        softirqs: grown(&before.softirqs, &after.softirqs),
    }
}

/// Counts of the kernel for one core so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counts {
    waited_ns: Option<u64>,
    steal_ns: Option<u64>,
    interrupts: BTreeMap<String, u64>,
    softirqs: BTreeMap<String, u64>,
}

impl Counts {
    fn of(tree: &Tree, core: usize, thread: i32) -> Self {
        let text = |path: &str| tree.read(path).unwrap_or_default();
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        Self {
            interrupts: by_core(&text("proc/interrupts"), core),
            softirqs: by_core(&text("proc/softirqs"), core),
            steal_ns: steal(&text("proc/stat"), core).map(|ticks| ticks * tick_ns),
            waited_ns: text(&format!("proc/self/task/{thread}/schedstat"))
                .split_whitespace()
                .nth(1)
                .and_then(|word| word.parse().ok()),
        }
    }
}

/// Returns a core's column of `/proc/interrupts` or `/proc/softirqs`, by name. The heading names the core of each
/// column: cores that are off have no column.
fn by_core(text: &str, core: usize) -> BTreeMap<String, u64> {
    let mut lines = text.lines();
    let heading: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let Some(column) = heading.iter().position(|word| *word == format!("CPU{core}")) else {
        return BTreeMap::new();
    };
    let line = |line: &str| {
        let (label, rest) = line.split_once(':')?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let count = words.get(column)?.parse().ok()?;
        // A numbered interrupt ends with the device's name; the others have a name of their own, and a description.
        let label = label.trim();
        let behind = words.get(heading.len()..).unwrap_or_default();
        let name = match label.parse::<u32>() {
            Ok(_) => format!("{label} {}", behind.last().unwrap_or(&"")).trim().to_owned(),
            Err(_) => format!("{label} {}", behind.join(" ")).trim().to_owned(),
        };
        Some((name, count))
    };
    lines.filter_map(line).collect()
}

/// Returns the ticks that the hypervisor has given to others, for one core.
fn steal(stat: &str, core: usize) -> Option<u64> {
    let name = format!("cpu{core}");
    let line = stat
        .lines()
        .find(|line| line.split_whitespace().next() == Some(name.as_str()))?;
    line.split_whitespace().nth(8)?.parse().ok()
}

/// Returns the counts that have grown, and by how much; most first.
fn grown(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> Vec<Count> {
    let one = |(name, now): (&String, &u64)| {
        let count = now.saturating_sub(before.get(name).copied().unwrap_or(0));
        (count > 0).then(|| Count {
            name: name.clone(),
            count,
        })
    };
    let mut all: Vec<Count> = after.iter().filter_map(one).collect();
    all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INTERRUPTS: &str = "           CPU0       CPU2       \n 24:          1          5  IO-APIC   5-edge      \
                              ACPI:Ged\n LOC:     152182     175028   Local timer interrupts\n ERR:          0\n";

    #[test]
    fn interrupts_have_the_names_and_the_column_of_the_core() {
        let found = by_core(INTERRUPTS, 2);
        let expected = [("24 ACPI:Ged", 5), ("LOC Local timer interrupts", 175_028)];
        assert_eq!(found, expected.map(|(name, n)| (name.to_owned(), n)).into());
        assert_eq!(by_core(INTERRUPTS, 1), BTreeMap::new(), "a core that is off");
        let softirqs = "          CPU0     CPU1\n     HI:        0        0\n  TIMER:    22422    18502\n";
        assert_eq!(by_core(softirqs, 1)["TIMER"], 18_502);
    }

    #[test]
    fn steal_is_that_of_the_core() {
        let stat = "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 80 9 10\ncpu1 1 2 3 4 5 6 7 81 9 10\n";
        assert_eq!((steal(stat, 1), steal(stat, 2)), (Some(81), None));
    }

    proptest! {
        #[test]
        fn pauses_add_up_and_short_ones_do_not_count(steps in prop::collection::vec(1u64..3_000, 1..500)) {
            let (mut at, mut next) = (1_000_000u64, steps.iter());
            let end = at + steps.iter().sum::<u64>();
            let (gaps, last) = spin(|| { at += next.next().copied().unwrap_or(u64::MAX >> 8); at }, 1_000_000, end);
            let long: Vec<u64> = steps.iter().copied().filter(|&step| step > THRESHOLD_NS).collect();
            prop_assert_eq!(last, end);
            prop_assert_eq!(gaps.sum_ns, long.iter().sum::<u64>());
            prop_assert_eq!(gaps.count, long.len() as u64);
            prop_assert_eq!(gaps.longest_ns, long.iter().copied().max().unwrap_or(0));
            prop_assert!(gaps.longest_period_ns <= gaps.sum_ns);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[ -~\n]{0,300}", core in 0usize..4) {
            let _ = (by_core(&text, core), steal(&text, core));
        }
    }
}
