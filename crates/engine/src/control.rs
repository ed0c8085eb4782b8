//! What the threads of a run share beside the statistics: the end, and notes. Nothing here is on the packet path but
//! one load.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Shared by the lanes and the collector of one run.
#[derive(Debug)]
pub struct Control {
    /// End of sending, ns on the lanes' clock.
    end_ns: AtomicU64,
    /// End of settling, where it is to be earlier than planned, ns.
    settle_end_ns: AtomicU64,
    gone: AtomicBool,
    down: AtomicBool,
    notes: Mutex<Vec<String>>,
}

impl Default for Control {
    fn default() -> Self {
        Self {
            end_ns: AtomicU64::new(u64::MAX),
            settle_end_ns: AtomicU64::new(u64::MAX),
            gone: AtomicBool::new(false),
            down: AtomicBool::new(false),
            notes: Mutex::new(Vec::new()),
        }
    }
}

impl Control {
    /// End of sending (or, on a receiver, of receiving), ns; `u64::MAX`: not yet known.
    #[inline]
    pub fn end_ns(&self) -> u64 {
        self.end_ns.load(Ordering::Relaxed)
    }

    /// Ends the run at `at_ns`, or earlier where that was set before.
    pub fn end_at(&self, at_ns: u64) {
        self.end_ns.fetch_min(at_ns, Ordering::Relaxed);
    }

    /// When settling ends before its time, ns; `u64::MAX`: it does not.
    #[inline]
    pub fn settle_end_ns(&self) -> u64 {
        self.settle_end_ns.load(Ordering::Relaxed)
    }

    /// Ends settling at `at_ns`.
    pub fn settle_end_at(&self, at_ns: u64) {
        self.settle_end_ns.fetch_min(at_ns, Ordering::Relaxed);
    }

    /// Notes that the device has vanished, and ends the run.
    pub fn device_gone(&self, at_ns: u64, why: &str) {
        if !self.gone.swap(true, Ordering::Relaxed) {
            self.note(format!("{why}: the run ended early"));
        }
        self.end_at(at_ns);
    }

    /// Notes that the device is down.
    pub fn device_down(&self, why: String) {
        self.down.store(true, Ordering::Relaxed);
        self.note(why);
    }

    /// Whether the device was down at some time.
    pub fn was_down(&self) -> bool {
        self.down.load(Ordering::Relaxed)
    }

    /// Whether the device has vanished.
    pub fn gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Adds a note for the live view and the summary, once. Not for the packet path.
    pub fn note(&self, text: String) {
        let mut notes = self.notes.lock().unwrap_or_else(|e| e.into_inner());
        if !notes.contains(&text) && notes.len() < 64 {
            notes.push(text);
        }
    }

    /// The notes so far.
    pub fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
}
