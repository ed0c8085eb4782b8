//! Samples of a thread's position in the code, taken by the kernel some hundred times per second of its running time
//! (`perf_event_open(2)`, event `cpu-clock`).
//!
//! The event is opened by another thread than the sampled one, which notices nothing but the interrupt. Records go into
//! a ring that both sides map; [`record`] decodes them.

pub(crate) mod event;
pub mod record;

use event::{Attr, EXCLUDE_HV, EXCLUDE_KERNEL, Ring, TYPE_SOFTWARE, USE_CLOCKID, open};
use rustix::fd::OwnedFd;
use std::io;

/// `PERF_COUNT_SW_CPU_CLOCK`.
const CPU_CLOCK: u64 = 0;
/// `PERF_SAMPLE_IP | TID | TIME | CALLCHAIN | CPU`.
const SAMPLE_TYPE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 5 | 1 << 7;
/// A bit of the word of flags.
const FREQ: u64 = 1 << 10;
/// Most addresses of a sample, `kernel.perf_event_max_stack` unless somebody has made that less.
const MAX_STACK: u16 = 127;

/// A thread that is being sampled, until dropped.
#[derive(Debug)]
pub struct Sampler {
    ring: Ring,
    /// The ring lives as long as it is mapped, the event as long as this is open.
    _event: OwnedFd,
}

impl Sampler {
    /// Samples thread `tid`, `hz` times a second of its running; `kernel`: also while it is in the kernel.
    ///
    /// # Errors
    /// `EACCES` or `EPERM` if that is not allowed (`kernel.perf_event_paranoid`, CAP_PERFMON), or the ring is more
    /// than the user may lock; `EINVAL` if `hz` is more than `kernel.perf_event_max_sample_rate`; `ESRCH` where
    /// there is no such thread; `ENOENT` or `ENOSYS` if the kernel has none of this.
    pub fn open(tid: i32, hz: u32, kernel: bool) -> io::Result<Self> {
        let mut attr = Attr {
            kind: TYPE_SOFTWARE,
            size: size_of::<Attr>() as u32,
            config: CPU_CLOCK,
            sample_freq: u64::from(hz),
            sample_type: SAMPLE_TYPE,
            flags: FREQ | USE_CLOCKID | EXCLUDE_HV | if kernel { 0 } else { EXCLUDE_KERNEL },
            clockid: libc::CLOCK_MONOTONIC,
            sample_max_stack: MAX_STACK,
            ..Attr::default()
        };
        let event = match open(&attr, tid) {
            // Somebody has set `perf_event_max_stack` below its default.
            Err(e) if e.raw_os_error() == Some(libc::EOVERFLOW) => {
                attr.sample_max_stack = 0;
                open(&attr, tid)?
            }
            other => other?,
        };
        Ok(Self {
            ring: Ring::map(&event)?,
            _event: event,
        })
    }

    /// Puts what has come since the last call at the end of `into`: whole records, for [`Records`](record::Records).
    /// Returns false if the cursors made no sense: then what lay between them is left out.
    pub fn read(&mut self, into: &mut Vec<u8>) -> bool {
        self.ring.read(into)
    }
}

#[cfg(test)]
mod tests {
    use super::record::{Record, Records};
    use super::*;
    use crate::sched::thread_id;
    use std::hint::black_box;
    use std::time::{Duration, Instant};

    #[test]
    fn a_thread_that_works_is_seen_at_work() {
        let tid = thread_id();
        let mut sampler = match Sampler::open(tid, 997, false) {
            Ok(sampler) => sampler,
            Err(e) => return println!("SKIPPED: perf_event_open: {e}"),
        };
        let (mut bytes, deadline) = (Vec::new(), Instant::now() + Duration::from_secs(60));
        while bytes.len() < 1000 && Instant::now() < deadline {
            for n in 0..100_000_u64 {
                black_box(n);
            }
            assert!(sampler.read(&mut bytes));
        }
        let places: Vec<_> = Records(&bytes)
            .filter_map(|record| match record {
                Record::Place(place) => Some(place),
                _ => None,
            })
            .collect();
        assert!(places.len() > 1, "{} bytes", bytes.len());
        for place in &places {
            assert_eq!((place.tid, place.kernel), (tid as u32, 0), "{place:?}");
        }
        assert!(places.is_sorted_by_key(|place| place.at_ns));
    }
}
