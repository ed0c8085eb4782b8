//! Where the lanes of a run are, by samples: some hundred times a second of its running each lane is interrupted, and
//! the kernel notes the functions that it is in. Names are found after the run.
//!
//! [`Profile::open`] is called by the main thread while it has its privileges: it opens one event a lane, and reads
//! what later only these privileges could (the kernel's symbols, what is mapped where). [`Profile::poll`] is called by
//! any thread, without privileges, before the rings lap; [`Profile::finish`] gives samples and frames as a recording
//! has them.
//!
//! The kernel follows frame pointers. Where the build has none, a sample has the function in which the lane was and no
//! callers; where it has no tables of lines, functions that were inlined are part of the one that they are in. A build
//! has both by `make build PROFILED=1`, and neither as a rule: frame pointers cost some percent of a packet of 10 ns,
//! and the tables make the program four times as large.

#![forbid(unsafe_code)]

mod kallsyms;
mod maps;
mod names;

use kallsyms::Kallsyms;
use maps::Maps;
use mpps_sys::perf::Sampler;
use mpps_sys::perf::record::{Record, Records};
use mpps_trace::{Frame, LeftOut, Sample};
use std::io;

/// Whether this build keeps frame pointers.
pub const FRAME_POINTERS: bool = cfg!(frame_pointers);

/// Whether it has tables of lines.
pub const LINE_TABLES: bool = cfg!(line_tables);

/// How many samples a second there may be: `kernel.perf_event_max_sample_rate` is 100000 at most as a rule, and each
/// costs 1 to 18 µs.
pub const HZ: std::ops::RangeInclusive<u32> = 1..=20_000;

/// Most samples that are kept. Where there are more, every other one is left out, evenly over the run.
const MOST: usize = 1 << 18;

/// A sample without names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawSample {
    /// When, ns of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// The lane's number.
    pub lane: u32,
    /// On which core.
    pub cpu: u32,
    /// Addresses, the innermost first.
    pub stack: Box<[u64]>,
    /// How many of them, from the first on, are the kernel's.
    pub kernel: usize,
}

/// Samples of lanes, from [`open`](Self::open) to [`finish`](Self::finish).
#[derive(Debug)]
pub struct Profile {
    samplers: Vec<(u32, Sampler)>,
    kallsyms: Kallsyms,
    maps: Maps,
    bytes: Vec<u8>,
    /// Records that a ring had no room for, or whose cursors made no sense.
    lost: u64,
    throttled: u64,
    /// One of so many samples is kept.
    every: u64,
    seen: u64,
}

/// What came of a profile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profiled {
    /// Where the lanes were, by time.
    pub samples: Vec<Sample>,
    /// The places that samples name.
    pub frames: Vec<Frame>,
    /// What it does not have, and why.
    pub left_out: Vec<LeftOut>,
}

/// Something that is missing, and why.
fn lack(what: impl Into<String>, count: u64, why: impl Into<String>) -> LeftOut {
    LeftOut {
        what: what.into(),
        count,
        why: why.into(),
    }
}

impl Profile {
    /// Samples these threads, `(lane, thread)`, `hz` times a second of their running; `kernel`: in the kernel as well,
    /// where that is allowed. What is missing is told beside it.
    ///
    /// # Errors
    /// When nothing can be sampled: the reason, and what would be right.
    pub fn open(lanes: &[(u32, i32)], hz: u32, kernel: bool) -> Result<(Self, Vec<LeftOut>), String> {
        let mut lacks = Vec::new();
        let maps = Maps::of(&std::fs::read_to_string("/proc/self/maps").unwrap_or_default());
        let kallsyms = match kernel {
            true => std::fs::read_to_string("/proc/kallsyms").unwrap_or_default(),
            false => String::new(),
        };
        let kallsyms = Kallsyms::of(&kallsyms);
        let mut samplers = Vec::new();
        let mut with_kernel = kernel;
        for &(lane, tid) in lanes {
            let mut opened = Sampler::open(tid, hz, with_kernel);
            if with_kernel && matches!(&opened, Err(e) if e.kind() == io::ErrorKind::PermissionDenied) {
                with_kernel = false;
                lacks.push(lack("samples in the kernel", 0, needs(1)));
                opened = Sampler::open(tid, hz, false);
            }
            let sampler = opened.map_err(|error| refused(&error, hz))?;
            samplers.push((lane, sampler));
        }
        if with_kernel && kallsyms.is_empty() {
            let why = "/proc/kallsyms shows no addresses: want CAP_SYSLOG, or sysctl kernel.kptr_restrict=0";
            lacks.push(lack("names of kernel functions", 0, why));
        }
        let (what, without) = match (FRAME_POINTERS, LINE_TABLES) {
            (true, true) => ("", ""),
            (true, false) => ("inlined functions", "tables of lines"),
            (false, true) => ("callers of the program's functions", "frame pointers"),
            (false, false) => (
                "callers of the program's functions, and inlined ones",
                "frame pointers and tables of lines",
            ),
        };
        if !what.is_empty() {
            let why = format!("this program was built without {without}: want one of `make build PROFILED=1`");
            lacks.push(lack(what, 0, why));
        }
        let profile = Self {
            samplers,
            kallsyms,
            maps,
            bytes: Vec::new(),
            lost: 0,
            throttled: 0,
            every: 1,
            seen: 0,
        };
        Ok((profile, lacks))
    }

    /// Adds what has come since the last call. To be called every 20 ms or so: a ring holds 0.1 s at 5000 samples a
    /// second.
    pub fn poll(&mut self, into: &mut Vec<RawSample>) {
        for (lane, sampler) in &mut self.samplers {
            self.bytes.clear();
            if !sampler.read(&mut self.bytes) {
                self.lost += 1;
            }
            for record in Records(&self.bytes) {
                let place = match record {
                    Record::Place(place) => place,
                    Record::Lost(count) => {
                        self.lost = self.lost.saturating_add(count);
                        continue;
                    }
                    Record::Throttled => {
                        self.throttled += 1;
                        continue;
                    }
                    Record::Other(_) => continue,
                };
                self.seen += 1;
                if !self.seen.is_multiple_of(self.every) {
                    continue;
                }
                let mut stack = place.stack;
                if !FRAME_POINTERS {
                    // What stands where a frame pointer would be is anything.
                    stack.truncate(place.kernel + 1);
                }
                into.push(RawSample {
                    at_ns: place.at_ns,
                    lane: *lane,
                    cpu: place.cpu,
                    stack: stack.into_boxed_slice(),
                    kernel: place.kernel,
                });
            }
        }
        if into.len() >= MOST {
            let mut place = 0;
            into.retain(|_| {
                place += 1;
                place % 2 == 0
            });
            self.every *= 2;
        }
    }

    /// Finds the names, as the last step: takes some milliseconds for each file that holds code.
    pub fn finish(self, mut raw: Vec<RawSample>) -> Profiled {
        raw.sort_by_key(|sample| (sample.at_ns, sample.lane));
        let mut left_out = Vec::new();
        if self.lost > 0 {
            left_out.push(lack("samples", self.lost, "they came faster than they were read"));
        }
        if self.throttled > 0 {
            let why = "they took more of the processor than kernel.perf_cpu_time_max_percent allows";
            left_out.push(lack("samples of some stretches", self.throttled, why));
        }
        if self.every > 1 {
            let why = format!("one of {} is kept, evenly over the run", self.every);
            left_out.push(lack("samples", self.seen - raw.len() as u64, why));
        }
        let (samples, frames) = names::resolve(&raw, &self.kallsyms, &self.maps);
        Profiled {
            samples,
            frames,
            left_out,
        }
    }
}

/// What `perf_event_paranoid` is, and should be.
fn needs(paranoid: i32) -> String {
    let is = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let is = is.trim();
    format!("kernel.perf_event_paranoid is {is}: want CAP_PERFMON, or sysctl kernel.perf_event_paranoid={paranoid}")
}

/// Why nothing can be sampled.
fn refused(error: &io::Error, hz: u32) -> String {
    use rustix_errno::{EINVAL, ENOENT, ENOSYS};
    match error.raw_os_error() {
        _ if error.kind() == io::ErrorKind::PermissionDenied => needs(2),
        Some(EINVAL) => {
            let most = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").unwrap_or_default();
            format!(
                "{hz} samples a second: want kernel.perf_event_max_sample_rate ({}) at most",
                most.trim()
            )
        }
        Some(ENOENT | ENOSYS) => "this kernel has no performance events (CONFIG_PERF_EVENTS)".to_owned(),
        _ => format!("perf_event_open: {error}"),
    }
}

/// Numbers of errors, the same on every architecture that Linux runs on.
mod rustix_errno {
    pub(super) const ENOENT: i32 = 2;
    pub(super) const EINVAL: i32 = 22;
    pub(super) const ENOSYS: i32 = 38;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::time::{Duration, Instant};

    /// Found again by its name.
    #[inline(never)]
    fn a_loop_to_be_found(mut x: u64) -> u64 {
        let mut n = 0;
        while n < 10_000_000 {
            // No calls, in a build without optimisation either.
            x ^= x << 3 ^ n;
            n += 1;
        }
        x
    }

    #[test]
    fn a_thread_that_works_is_found_by_the_name_of_its_function() {
        let (tid, mut raw) = (mpps_sys::sched::thread_id(), Vec::new());
        let mut profile = match Profile::open(&[(3, tid)], 997, true) {
            Ok((profile, _)) => profile,
            Err(why) => return println!("SKIPPED: {why}"),
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        while raw.len() < 200 && Instant::now() < deadline {
            black_box(a_loop_to_be_found(black_box(1)));
            profile.poll(&mut raw);
        }
        let told = profile.finish(raw);
        assert!(!told.samples.is_empty() && told.samples.iter().all(|sample| sample.lane == 3));
        let found = told.samples.iter().filter(|sample| {
            let mut names = sample.stack.iter().map(|place| &told.frames[*place as usize].name);
            names.any(|name| name.contains("a_loop_to_be_found"))
        });
        assert!(found.count() > 0, "{:?}", told.frames);
    }
}
