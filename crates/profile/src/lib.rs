//! Samples of where the lanes of a run spend their time. Some hundred times per second of its running each lane is
//! interrupted, and the kernel notes the functions that the lane is in. Names are found after the run.
//!
//! [`Profile::open`] is called by the main thread while it has its privileges: it opens one event per lane, and reads
//! what later only these privileges could read (the kernel's symbols, what is mapped where). [`Profile::poll`] is
//! called by any thread, without privileges, before the rings lap. [`Profile::finish`] returns samples and frames for a
//! recording.
//!
//! The kernel follows frame pointers. If the build has none, a sample has the function in which the lane was and no
//! callers. If the build has no tables of lines, an inlined function counts as part of the function that contains it.
//! `make build PROFILED=1` makes a build with both. Other builds have neither: frame pointers cost some percent of a
//! packet of 10 ns, and the tables make the program four times as large.

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

/// Whether this build has tables of lines.
pub const LINE_TABLES: bool = cfg!(line_tables);

/// Samples per second that may be asked for: `kernel.perf_event_max_sample_rate` is usually at most 100000, and each
/// sample costs 1 to 18 µs.
pub const HZ: std::ops::RangeInclusive<u32> = 1..=20_000;

/// Most samples that are kept. If there are more, every other one is left out, evenly over the run.
const MOST: usize = 1 << 18;

/// A sample without names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawSample {
    /// Time of the sample, ns of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Number of the lane.
    pub lane: u32,
    /// Core of the lane at that time.
    pub cpu: u32,
    /// Addresses, the innermost first.
    pub stack: Box<[u64]>,
    /// Number of addresses that are in the kernel, from the first on.
    pub kernel: usize,
}

/// Samples of lanes, from [`open`](Self::open) to [`finish`](Self::finish).
#[derive(Debug)]
pub struct Profile {
    samplers: Vec<(u32, Sampler)>,
    kallsyms: Kallsyms,
    maps: Maps,
    bytes: Vec<u8>,
    /// Records lost because a ring had no room, or because its cursors made no sense.
    lost: u64,
    throttled: u64,
    /// One of this many samples is kept.
    every: u64,
    seen: u64,
}

/// Result of a profile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profiled {
    /// Samples of the lanes, by time.
    pub samples: Vec<Sample>,
    /// Places that samples refer to.
    pub frames: Vec<Frame>,
    /// Missing parts of the profile, and why they are missing.
    pub left_out: Vec<LeftOut>,
}

/// Returns an entry for something that is missing, and why.
fn lack(what: impl Into<String>, count: u64, why: impl Into<String>) -> LeftOut {
    LeftOut {
        what: what.into(),
        count,
        why: why.into(),
    }
}

impl Profile {
    /// Samples these threads, `(lane, thread)`, `hz` times per second of their running. With `kernel` it samples in the
    /// kernel as well, if the host allows that. Returns the profile, and a list of what is missing.
    ///
    /// # Errors
    /// When nothing can be sampled: the reason, and what would help.
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

    /// Adds the samples since the last call. Call about every 20 ms: a ring holds 0.1 s at 5000 samples per second.
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
                    // Without frame pointers the addresses beyond the first are arbitrary.
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

    /// Finds the names, as the last step. Takes some milliseconds for each file that contains code.
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

/// Returns a text on the present value of `perf_event_paranoid` and the value needed.
fn needs(paranoid: i32) -> String {
    let is = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let is = is.trim();
    format!("kernel.perf_event_paranoid is {is}: want CAP_PERFMON, or sysctl kernel.perf_event_paranoid={paranoid}")
}

/// Returns the reason why nothing can be sampled.
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

    /// Runs a loop that the test finds by the function's name.
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
