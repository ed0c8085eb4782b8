//! Many trials on ports that are opened once: what each found, and what lies between two.
//!
//! ```text
//! cargo run --release --example trials -- 100 sendrecv loop: --src 10.0.0.1 --dest 10.0.0.2:9000 --rate 10kpps \
//!     --duration 20ms --settle 10ms
//! ```
//!
//! The first word is the number of trials, the others are a command line of `mpps`. Prints a line per trial, and at the
//! end one of `key=value` words: the time between two trials beyond the settle time (median and longest, ms), and file
//! descriptors, threads and memory of the process after a tenth of the trials and after the last.

use mpps::{Error, FromArgs, Plan, Summary, session};
use std::fs;
use std::time::Duration;

/// What the process holds.
#[derive(Debug)]
struct Held {
    descriptors: usize,
    threads: usize,
    resident_kb: u64,
}

impl Held {
    /// Without what a thread holds for a moment, such as a file that it reads.
    fn now() -> Self {
        let count = |folder: &str| {
            let looks = (0..10).map(|_| {
                std::thread::sleep(Duration::from_millis(10));
                fs::read_dir(folder).map_or(0, Iterator::count)
            });
            looks.min().unwrap_or(0)
        };
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        Self {
            descriptors: count("/proc/self/fd"),
            threads: count("/proc/self/task"),
            resident_kb: resident
                .and_then(|text| text.split_whitespace().next()?.parse().ok())
                .unwrap_or(0),
        }
    }
}

/// Where a trial ended, settle time and all, on the clock of its start, ns.
fn over(told: &Summary, settle_ns: u64) -> u64 {
    told.started.monotonic_ns + told.duration_ns + settle_ns
}

fn main() -> Result<(), Error> {
    run(std::env::args().skip(1))
}

/// Runs the trials that these words ask for.
pub(crate) fn run(mut words: impl Iterator<Item = String>) -> Result<(), Error> {
    let wrong = || Error::Usage("want the number of trials, and a command line: 10 sendrecv loop: …".to_owned());
    let trials: usize = words.next().and_then(|n| n.parse().ok()).ok_or_else(wrong)?;
    let plan = Plan::from_args(words)?;
    let settle = plan.get("times.settle").and_then(|text| text.as_str()).unwrap_or("1s");
    let settle_ns =
        nanoseconds(settle).ok_or_else(|| Error::Usage(format!("--settle {settle}: want 10ms or the like")))?;
    session(&plan, |session| {
        let (mut gaps, mut before, mut early) = (Vec::new(), None, None);
        for number in 1..=trials {
            let told = session.trial(&plan, &mut [])?;
            if let Some(end) = before {
                gaps.push(told.started.monotonic_ns.saturating_sub(end) as f64 / 1e6);
            }
            before = Some(over(&told, settle_ns));
            let reason = |name: &str| told.reasons.iter().find(|(n, _)| n == name).map_or(0, |(_, n)| *n);
            let loaded = told.host.iter().find(|fact| fact.name == "programs_loaded");
            println!(
                "trial={number} tx={} rx={} lost={} late={} foreign={} other_run={} corrupt={} duplicates={} \
                 earlier={} loaded={} valid={}",
                told.tx,
                told.rx,
                told.lost,
                told.late,
                told.foreign,
                reason("foreign_other_run"),
                told.corrupt,
                told.duplicates,
                reason("late_of_an_earlier_trial"),
                loaded.is_some(),
                told.valid
            );
            if number == trials.div_ceil(10) {
                early = Some(Held::now());
                // That took time of its own.
                before = None;
            }
        }
        gaps.sort_by(f64::total_cmp);
        let (early, last) = (early.unwrap_or_else(Held::now), Held::now());
        println!(
            "trials={trials} gap_ms={:.1} longest_gap_ms={:.1} descriptors={},{} threads={},{} resident_kb={},{}",
            gaps.get(gaps.len() / 2).copied().unwrap_or(0.0),
            gaps.last().copied().unwrap_or(0.0),
            early.descriptors,
            last.descriptors,
            early.threads,
            last.threads,
            early.resident_kb,
            last.resident_kb
        );
        Ok(())
    })
}

/// A time such as the command line takes it, in whole ms or s.
fn nanoseconds(text: &str) -> Option<u64> {
    let unit = |suffix: &str, ns: u64| Some(text.strip_suffix(suffix)?.parse::<u64>().ok()? * ns);
    unit("ms", 1_000_000).or_else(|| unit("s", 1_000_000_000))
}
