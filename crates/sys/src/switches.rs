//! Times when a thread left its core and came back, as the kernel records them (`perf_event_open(2)` with
//! `context_switch`).
//!
//! Unlike programs at tracepoints, the event needs no privileges if `kernel.perf_event_paranoid` is 2 or less. It shows
//! no more than the switches: not who had the core meanwhile. The event counts nothing; a ring that both sides map gets
//! 32 bytes per switch.

use crate::perf::event::{self, Attr, EXCLUDE_HV, EXCLUDE_KERNEL, Ring, TYPE_SOFTWARE, USE_CLOCKID};
use rustix::fd::OwnedFd;
use std::io;

/// `PERF_COUNT_SW_DUMMY`.
const DUMMY: u64 = 9;
/// `PERF_SAMPLE_TID | TIME | CPU`: what is at the end of each record.
const SAMPLE_TYPE: u64 = 1 << 1 | 1 << 2 | 1 << 7;
/// Bits of the word of flags.
const SAMPLE_ID_ALL: u64 = 1 << 18;
const CONTEXT_SWITCH: u64 = 1 << 26;
/// `PERF_RECORD_LOST`, `PERF_RECORD_SWITCH`.
const LOST: u32 = 2;
const SWITCH: u32 = 14;
/// `PERF_RECORD_MISC_SWITCH_OUT`, `_OUT_PREEMPT`.
const OUT: u16 = 1 << 13;
const PREEMPTED: u16 = 1 << 14;

/// The thread left its core, or came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    /// When, ns of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// The thread, as this process' namespace numbers it.
    pub tid: i32,
    /// Core that the thread left or came to.
    pub cpu: u32,
    /// True if the thread left its core, false if it came back.
    pub out: bool,
    /// The thread wanted to go on.
    pub preempted: bool,
}

/// Notes of a thread's switches, until dropped.
#[derive(Debug)]
pub struct Switches {
    ring: Ring,
    bytes: Vec<u8>,
    lost: u64,
    /// The ring lives as long as it is mapped, the event as long as this is open.
    _event: OwnedFd,
}

impl Switches {
    /// Records the switches of thread `tid` from now on.
    ///
    /// # Errors
    /// `EACCES` or `EPERM` if that is not allowed (`kernel.perf_event_paranoid` is more than 2 and there is no
    /// CAP_PERFMON), or the ring is more than the user may lock; `ESRCH` if there is no such thread; `ENOENT` or
    /// `ENOSYS` if the kernel has none of this.
    pub fn open(tid: i32) -> io::Result<Self> {
        let attr = Attr {
            kind: TYPE_SOFTWARE,
            size: size_of::<Attr>() as u32,
            config: DUMMY,
            sample_type: SAMPLE_TYPE,
            flags: CONTEXT_SWITCH | SAMPLE_ID_ALL | USE_CLOCKID | EXCLUDE_KERNEL | EXCLUDE_HV,
            clockid: libc::CLOCK_MONOTONIC,
            ..Attr::default()
        };
        let event = event::open(&attr, tid)?;
        Ok(Self {
            ring: Ring::map(&event)?,
            bytes: Vec::new(),
            lost: 0,
            _event: event,
        })
    }

    /// Calls `each` with the switches since the last call, by time.
    pub fn read(&mut self, mut each: impl FnMut(Switch)) {
        self.bytes.clear();
        // If the cursors make no sense, nothing is read.
        let _ = self.ring.read(&mut self.bytes);
        let mut rest = &self.bytes[..];
        while let Some((record, after)) = next(rest) {
            match record {
                Record::Switch(switch) => each(switch),
                Record::Lost(count) => self.lost = self.lost.saturating_add(count),
                Record::Other => {}
            }
            rest = after;
        }
    }

    /// Switches for which there was no room.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// `kernel.perf_event_paranoid`; `None` if the kernel has no such events.
pub fn paranoid() -> Option<i32> {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?;
    text.trim().parse().ok()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Record {
    Switch(Switch),
    Lost(u64),
    Other,
}

/// The first record, and what follows it; `None` at the end, or if a size can't be. The bytes are the kernel's, and
/// are trusted for nothing all the same.
fn next(bytes: &[u8]) -> Option<(Record, &[u8])> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let (kind, misc_and_size) = (word(0)?, word(4)?);
    let (misc, size) = (misc_and_size as u16, (misc_and_size >> 16) as usize);
    let rest = bytes.get(size..).filter(|_| size >= 8)?;
    let record = match kind {
        // Header, process, thread, time, core, unused.
        SWITCH if size >= 32 => Record::Switch(Switch {
            tid: word(12)?.cast_signed(),
            at_ns: long(16)?,
            cpu: word(24)?,
            out: misc & OUT != 0,
            preempted: misc & PREEMPTED != 0,
        }),
        // Header, id, how many.
        LOST if size >= 24 => Record::Lost(long(16)?),
        _ => Record::Other,
    };
    Some((record, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic_ns;
    use crate::sched::thread_id;
    use proptest::prelude::*;
    use std::time::Duration;

    #[test]
    fn a_thread_that_sleeps_is_seen_to_leave_and_to_come_back() {
        let mut switches = match Switches::open(thread_id()) {
            Ok(switches) => switches,
            Err(e) => return println!("SKIPPED: perf_event_open: {e}"),
        };
        let from = monotonic_ns();
        std::thread::sleep(Duration::from_millis(20));
        let to = monotonic_ns();
        let mut all = Vec::new();
        switches.read(|switch| all.push(switch));
        assert_eq!(switches.lost(), 0);
        assert!(all.iter().all(|switch| switch.tid == thread_id()), "{all:?}");
        assert!(all.is_sorted_by_key(|switch| switch.at_ns));
        let slept = all.windows(2).any(|two| {
            let (left, back) = (two[0], two[1]);
            let within = from <= left.at_ns && back.at_ns <= to;
            within && left.out && !left.preempted && !back.out && back.at_ns - left.at_ns > 10_000_000
        });
        assert!(slept, "{from} {to} {all:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_apart_without_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            kind in prop_oneof![Just(LOST), Just(SWITCH)],
            size in 0..64u16,
        ) {
            let mut bytes = bytes;
            if let Some(header) = bytes.get_mut(..8) {
                header[..4].copy_from_slice(&kind.to_le_bytes());
                header[6..].copy_from_slice(&size.to_le_bytes());
            }
            let mut rest = &bytes[..];
            while let Some((_, after)) = next(rest) {
                prop_assert!(after.len() + 8 <= rest.len());
                rest = after;
            }
        }
    }
}
