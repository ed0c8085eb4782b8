//! State that the threads of a run share beside the statistics: the end, and notes. Only one load of it is on the
//! packet path.

use mpps_sys::clock::Clock;
use mpps_sys::wake::Wake;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// State shared by the lanes and the collector of one run.
#[derive(Debug)]
pub struct Control {
    /// End of sending, ns on the lanes' clock.
    end_ns: AtomicU64,
    /// End of settling, ns, if it is earlier than planned.
    settle_end_ns: AtomicU64,
    /// Number of lanes that have not sent the last packet of a count, or of a stream that is stopped, and the time in
    /// ns when the last packet of one left.
    still_sending: AtomicUsize,
    last_sent_ns: AtomicU64,
    gone: AtomicBool,
    down: AtomicBool,
    /// A bit per port: packets that its path takes would be lost without an error.
    no_carrier: AtomicU64,
    /// Interfaces of those ports.
    closed_by: Mutex<Vec<(usize, String)>>,
    notes: Mutex<Vec<String>>,
    /// Lanes that have ended, and whether one of them panicked.
    ended: AtomicUsize,
    panicked: AtomicBool,
    /// The collector sleeps on this.
    waker: Wake,
    /// Number of times that an end was moved; the reader sleeps on it.
    moved: Mutex<u64>,
    has_moved: Condvar,
}

impl Control {
    /// # Errors
    /// When the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            end_ns: AtomicU64::new(u64::MAX),
            settle_end_ns: AtomicU64::new(u64::MAX),
            still_sending: AtomicUsize::new(0),
            last_sent_ns: AtomicU64::new(0),
            gone: AtomicBool::new(false),
            down: AtomicBool::new(false),
            no_carrier: AtomicU64::new(0),
            closed_by: Mutex::new(Vec::new()),
            notes: Mutex::new(Vec::new()),
            ended: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
            waker: Wake::new()?,
            moved: Mutex::new(0),
            has_moved: Condvar::new(),
        })
    }

    /// Ends the collector's sleep.
    pub(crate) fn waker(&self) -> &Wake {
        &self.waker
    }

    /// Notes that a lane has ended, or, if the thread is panicking, broken down.
    pub(crate) fn lane_ends(&self) {
        if std::thread::panicking() {
            self.panicked.store(true, Ordering::Relaxed);
        }
        self.ended.fetch_add(1, Ordering::Release);
        self.waker.wake();
    }

    /// Returns the number of lanes that have ended.
    pub(crate) fn ended(&self) -> usize {
        self.ended.load(Ordering::Acquire)
    }

    /// Returns whether a lane has panicked.
    pub(crate) fn panicked(&self) -> bool {
        self.panicked.load(Ordering::Relaxed)
    }

    /// Sleeps for `timeout`, or until an end is moved that the caller has not seen; `seen` is the number of moves that
    /// it knows.
    pub(crate) fn sleep_until_moved(&self, timeout: Duration, seen: &mut u64) {
        let moved = self.moved.lock().unwrap_or_else(|e| e.into_inner());
        let still = |moved: &mut u64| *moved == *seen;
        let waited = self.has_moved.wait_timeout_while(moved, timeout, still);
        *seen = *waited.unwrap_or_else(|e| e.into_inner()).0;
    }

    fn tell_moved(&self) {
        *self.moved.lock().unwrap_or_else(|e| e.into_inner()) += 1;
        self.has_moved.notify_all();
    }

    /// Returns the end of sending (or, on a receiver, of receiving), ns; `u64::MAX`: not yet known.
    #[inline]
    pub fn end_ns(&self) -> u64 {
        self.end_ns.load(Ordering::Relaxed)
    }

    /// Ends the run at `at_ns`, or earlier if an earlier end was set before.
    pub fn end_at(&self, at_ns: u64) {
        if self.end_ns.fetch_min(at_ns, Ordering::Relaxed) > at_ns {
            self.tell_moved();
        }
    }

    /// Returns at this time, ns, or at once if it is past or the end has come. Sleeps for as long as that is exact
    /// enough, then spins.
    pub(crate) fn wait_until(&self, clock: &Clock, at_ns: u64) {
        /// Longest sleep, ns: a user who wants the end does not wait for the start.
        const SLICE_NS: u64 = 50_000_000;
        loop {
            let now_ns = clock.now_ns();
            if now_ns >= at_ns || self.end_ns() <= now_ns {
                return;
            }
            match at_ns - now_ns {
                0..200_000 => std::hint::spin_loop(),
                far => thread::sleep(Duration::from_nanos((far - 150_000).min(SLICE_NS))),
            }
        }
    }

    /// Sets the number of lanes whose last packet ends the sending: they send a number of packets, or a stream until it
    /// is stopped. Called before any lane runs.
    pub(crate) fn count_senders(&self, lanes: usize) {
        self.still_sending.store(lanes, Ordering::Relaxed);
    }

    /// Notes that a lane has sent all its packets, the last at `last_ns`. Sending ends with the last packet of the last
    /// lane.
    #[cold]
    pub(crate) fn sent_all(&self, last_ns: u64) {
        self.last_sent_ns.fetch_max(last_ns, Ordering::Relaxed);
        if self.still_sending.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.end_at(self.last_sent_ns.load(Ordering::Relaxed) + 1);
        }
    }

    /// Returns when settling ends before its time, ns; `u64::MAX`: it does not.
    #[inline]
    pub fn settle_end_ns(&self) -> u64 {
        self.settle_end_ns.load(Ordering::Relaxed)
    }

    /// Ends settling at `at_ns`.
    pub fn settle_end_at(&self, at_ns: u64) {
        if self.settle_end_ns.fetch_min(at_ns, Ordering::Relaxed) > at_ns {
            self.tell_moved();
        }
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

    /// Returns whether packets may be sent by this port: false while its link is down and its path would not notice.
    #[inline]
    pub(crate) fn may_send(&self, port: usize) -> bool {
        self.no_carrier.load(Ordering::Relaxed) & bit_of(port) == 0
    }

    /// Sets the ports by which nothing may be sent, and the interface of each; see [`Control::may_send`].
    pub(crate) fn set_closed(&self, ports: impl IntoIterator<Item = (usize, String)>) {
        let mut closed_by = self.closed_by.lock().unwrap_or_else(|e| e.into_inner());
        closed_by.clear();
        closed_by.extend(ports);
        let bits = closed_by.iter().fold(0, |bits, (port, _)| bits | bit_of(*port));
        self.no_carrier.store(bits, Ordering::Relaxed);
    }

    /// Returns the interface whose link keeps a port closed; empty if the port is open by now. Not for the packet path.
    #[cold]
    pub(crate) fn closed_by(&self, port: usize) -> String {
        let closed_by = self.closed_by.lock().unwrap_or_else(|e| e.into_inner());
        let of = closed_by.iter().find(|(of, _)| *of == port);
        of.map_or_else(String::new, |(_, interface)| interface.clone())
    }

    /// Returns whether the device was down at some time.
    pub fn was_down(&self) -> bool {
        self.down.load(Ordering::Relaxed)
    }

    /// Returns whether the device has vanished.
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

    /// Returns the notes after the first `known` ones, and raises `known` to the number of all.
    pub(crate) fn notes_from(&self, known: &mut usize) -> Vec<String> {
        let notes = self.notes.lock().unwrap_or_else(|e| e.into_inner());
        let new = notes[(*known).min(notes.len())..].to_vec();
        *known = notes.len();
        new
    }

    /// Returns the notes so far.
    pub fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
}

/// Returns the bit of a port. No run has more ports than bits.
fn bit_of(port: usize) -> u64 {
    1 << (port as u64 % u64::from(u64::BITS))
}
