//! Records on their way to a file, from the collector, which must never wait, to a reader, which may.
//!
//! The collector puts records into a bounded inbox under a lock that is held for a few instructions only. A thread
//! empties the inbox every [`TICK`] (not record by record: waking a thread 10,000 times a second would take the core
//! from a lane) into a backlog that spills to disk, and writes from there. Should the thread itself be stuck in a
//! write to a slow disk and the inbox full, the collector moves the inbox to the backlog.

use crate::error::reason;
use crate::output::{Output, Progress, Waiting};
use crate::spill::{self, Record, SpillQueue};
use crate::{Notes, ReportError, units};
use mpps_sys::signal::reopenings;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Longest time that a record stays in the inbox of an idle output.
const TICK: Duration = Duration::from_millis(100);
/// Bytes formatted at a time.
const BATCH_BYTES: usize = 64 * 1024;

/// Turns records into the bytes of the file.
pub(crate) trait Format<T>: Send + 'static {
    /// Whether the header needs no record, and so is written as the run begins.
    const HEADER_ALONE: bool = false;

    /// Appends the header of a file. `first` is the first record, if there is one.
    fn header(&mut self, first: Option<&T>, out: &mut Vec<u8>);
    /// Appends one record.
    fn record(&mut self, record: &T, out: &mut Vec<u8>);
}

/// Sizes and patience of a spool.
pub(crate) struct Limits {
    /// Records of weight 1 kept in memory, in the inbox and again in the backlog.
    pub(crate) records: usize,
    /// Longest wait of [`Spool::finish`] for a reader that takes nothing.
    pub(crate) patience: Duration,
    /// Name of a record in notes.
    pub(crate) noun: &'static str,
    /// Whether a reader needs the last record too. A reader that goes away before has then not had all that it wanted.
    pub(crate) to_the_end: bool,
}

impl Limits {
    /// Limits of a file of rows: in memory are some 400 ms of the shortest interval, about 1.2 MB.
    pub(crate) const ROWS: Self = Self {
        records: 4096,
        patience: Duration::from_secs(10),
        noun: "rows",
        to_the_end: false,
    };
}

struct Inbox<T> {
    records: Vec<T>,
    /// Sum of their weights.
    weight: usize,
    accepted: u64,
    /// Whether an earlier run's file may be emptied: the run has begun, or has failed before that.
    begun: bool,
    /// Whether the run has begun, so that its file must exist at the end. A refused run removes its new files.
    stays: bool,
    closing: bool,
    abandoned: bool,
    /// Whether the output has failed: records are then only counted.
    failed: bool,
    done: bool,
    /// Whether the output is a FIFO that nobody has opened.
    unread: bool,
    written: u64,
    progress: u64,
}

struct Shared<T> {
    inbox: Mutex<Inbox<T>>,
    /// The thread waits here for work, `finish` for progress.
    wake: Condvar,
    /// Locked before the inbox if both are locked.
    backlog: Mutex<SpillQueue<T>>,
    capacity: usize,
}

/// Reason why the thread stopped early.
struct Stopped {
    told: String,
    /// Whether the reader has gone after it had all that it wanted (`| head`).
    wanted: bool,
}

/// A file being written by a thread of its own.
pub(crate) struct Spool<T> {
    shared: Arc<Shared<T>>,
    thread: Option<thread::JoinHandle<Option<Stopped>>>,
    notes: Notes,
    label: String,
    limits: Limits,
}

impl<T: Record> Spool<T> {
    /// Opens `path` at once and starts the thread. `kind` ("csv") starts every note.
    ///
    /// # Errors
    /// When the file can't be written or the thread can't be started.
    pub(crate) fn create(kind: &str, path: &Path, format: impl Format<T>, limits: Limits) -> Result<Self, ReportError> {
        let output = Output::open(path)?;
        let label = format!("{kind}: {}", output.name());
        let notes = Notes::new();
        let shared = Arc::new(Shared {
            inbox: Mutex::new(Inbox {
                records: Vec::with_capacity(limits.records),
                weight: 0,
                accepted: 0,
                begun: false,
                stays: false,
                closing: false,
                abandoned: false,
                failed: false,
                done: false,
                unread: false,
                written: 0,
                progress: 0,
            }),
            wake: Condvar::new(),
            backlog: Mutex::new(SpillQueue::new(limits.records, spill::directory())),
            capacity: limits.records,
        });
        let mut writer = Writer {
            shared: Arc::clone(&shared),
            output,
            format,
            notes: notes.clone(),
            label: label.clone(),
            noun: limits.noun,
            to_the_end: limits.to_the_end,
            buffer: Vec::new(),
            taken: 0,
            ends: Vec::new(),
            started: false,
            reopened: reopenings(),
            fresh: Vec::with_capacity(limits.records),
        };
        let thread = mpps_sys::thread::spawn(&format!("mpps-{kind}"), move || writer.run())
            .map_err(|e| ReportError::io("start the writing thread for", path, e))?;
        Ok(Self {
            shared,
            thread: Some(thread),
            notes,
            label,
            limits,
        })
    }

    /// Returns the board of notes about write errors. Each error appears there when it happens.
    pub(crate) fn notes(&self) -> Notes {
        self.notes.clone()
    }

    /// Records that the run begins. Only then is the file of an earlier run emptied.
    pub(crate) fn begin(&mut self) {
        let mut inbox = self.shared.inbox();
        (inbox.begun, inbox.stays) = (true, true);
    }

    /// Takes a record; never waits for the output.
    pub(crate) fn push(&mut self, record: T) {
        let mut inbox = self.shared.inbox();
        inbox.begun = true;
        inbox.accepted += 1;
        if inbox.failed {
            return;
        }
        let before = inbox.weight;
        inbox.weight += record.weight();
        inbox.records.push(record);
        let (held, half) = (inbox.weight, self.shared.capacity / 2);
        drop(inbox);
        if held >= self.shared.capacity {
            let mut unused = Vec::with_capacity(self.shared.capacity);
            self.shared.absorb(&mut unused);
        } else if before < half && held >= half {
            self.shared.wake.notify_all();
        }
    }

    /// Waits until everything is written, as long as the reader takes anything. Returns an error for records that were
    /// not written.
    pub(crate) fn finish(&mut self) -> Vec<String> {
        let Some(thread) = self.thread.take() else {
            return Vec::new();
        };
        let mut inbox = self.shared.inbox();
        (inbox.begun, inbox.closing) = (true, true);
        self.shared.wake.notify_all();
        let (mut seen, mut waiting) = (inbox.progress, Waiting::begin(self.limits.patience));
        let mut gave_up = None;
        while !inbox.done && gave_up.is_none() {
            inbox = self
                .shared
                .wake
                .wait_timeout(inbox, TICK)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            if inbox.progress != seen {
                seen = inbox.progress;
                waiting.progress();
            }
            gave_up = waiting.over(inbox.unread);
        }
        let (accepted, noun) = (inbox.accepted, self.limits.noun);
        if !inbox.done {
            // The thread ends at its next check, or with the program if it hangs in the kernel.
            inbox.abandoned = true;
            let left = units::count(accepted - inbox.written);
            let waited = gave_up.unwrap_or(self.limits.patience).as_secs_f64();
            let note = format!(
                "{}: gave up after nobody read for {waited:.0} s; the last {left} {noun} were not written",
                self.label
            );
            // For programs that print no summary.
            self.notes.tell(note.clone());
            self.notes.not_written(note.clone());
            return vec![note];
        }
        let left = accepted - inbox.written;
        drop(inbox);
        let failure = thread
            .join()
            .unwrap_or_else(|_| Some(Stopped::failed("the writing thread failed".to_owned())));
        let (lost, label) = (units::count(left), &self.label);
        let (note, unwritten) = match failure {
            // The file is complete, but not at the requested place.
            Some(Stopped { told, .. }) if left == 0 => {
                let note = format!("{label}: {told}");
                (note.clone(), Some(note))
            }
            Some(Stopped { told, wanted }) => {
                let note = format!("{label}: {told}; the run went on, the remaining {lost} {noun} are not in the file");
                // The reason was reported when it happened.
                let short = format!(
                    "{label}: {lost} of {} {noun} are not in the file",
                    units::count(accepted)
                );
                (note, (!wanted).then_some(short))
            }
            None if left > 0 => {
                let backlog = self.shared.backlog();
                let why = backlog.failure().map_or_else(String::new, reason);
                let note = format!(
                    "{label}: {lost} {noun} were lost: the reader was slow and they could not be kept in a temporary \
                     file ({why})"
                );
                (note.clone(), Some(note))
            }
            None => return Vec::new(),
        };
        if let Some(unwritten) = unwritten {
            self.notes.not_written(unwritten);
        }
        vec![note]
    }
}

impl Stopped {
    fn failed(told: String) -> Self {
        Self { told, wanted: false }
    }
}

impl<T> Drop for Spool<T> {
    fn drop(&mut self) {
        // Without finish (a panic, an early error) the queued records are still written, unless that means to wait for
        // a reader.
        if self.thread.is_some() {
            let mut inbox = self.shared.inbox();
            inbox.closing = true;
            inbox.abandoned = true;
            self.shared.wake.notify_all();
            let wait = self
                .shared
                .wake
                .wait_timeout_while(inbox, Duration::from_secs(1), |inbox| !inbox.done);
            drop(wait.unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl<T> Shared<T> {
    fn inbox(&self) -> MutexGuard<'_, Inbox<T>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn backlog(&self) -> MutexGuard<'_, SpillQueue<T>> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Record> Shared<T> {
    /// Moves the inbox to the backlog. `empty` becomes the new inbox, and the old one is returned in it, emptied.
    fn absorb(&self, empty: &mut Vec<T>) {
        let mut backlog = self.backlog();
        let mut inbox = self.inbox();
        inbox.weight = 0;
        std::mem::swap(&mut inbox.records, empty);
        drop(inbox);
        for record in empty.drain(..) {
            backlog.push(record);
        }
    }
}

struct Writer<T, F> {
    shared: Arc<Shared<T>>,
    output: Output,
    format: F,
    notes: Notes,
    label: String,
    noun: &'static str,
    to_the_end: bool,
    /// Formatted records, of which the first `taken` bytes are written.
    buffer: Vec<u8>,
    taken: usize,
    /// End of each record in the buffer.
    ends: Vec<usize>,
    started: bool,
    /// Number of requests to open the file again that were handled.
    reopened: u32,
    fresh: Vec<T>,
}

impl<T: Record, F: Format<T>> Writer<T, F> {
    /// Writes until the inbox is closed and empty. Returns the reason if it stopped early.
    fn run(&mut self) -> Option<Stopped> {
        let failure = match self.write_all() {
            Ok(()) => self.misplaced(),
            Err(error) => {
                let written = self.shared.inbox().written;
                let told = format!("{} after {} {}", reason(&error), units::count(written), self.noun);
                self.notes
                    .tell(format!("{}: {told}; the run goes on without it", self.label));
                self.discard();
                let wanted = error.kind() == io::ErrorKind::BrokenPipe && !self.to_the_end;
                Some(Stopped { told, wanted })
            }
        };
        self.shared.inbox().done = true;
        self.shared.wake.notify_all();
        failure
    }

    /// Returns the reason why a reader does not find the written file, if there is one.
    fn misplaced(&self) -> Option<Stopped> {
        let inbox = self.shared.inbox();
        if !inbox.stays || inbox.abandoned {
            return None;
        }
        let written = units::count(inbox.written);
        drop(inbox);
        let error = self.output.check_name().err()?;
        let told = format!("{}: its {written} {} are not there", reason(&error), self.noun);
        Some(Stopped::failed(told))
    }

    fn write_all(&mut self) -> io::Result<()> {
        let mut emptied = false;
        loop {
            let (begun, closing) = self.wait_for_work();
            if !begun {
                if closing {
                    self.output.withdraw();
                    return Ok(());
                }
                continue;
            }
            self.follow_name();
            if !std::mem::replace(&mut emptied, true) {
                self.output.empty()?;
            }
            self.shared.absorb(&mut self.fresh);
            self.tell_losses();
            loop {
                self.started &= !self.output.was_emptied();
                self.fill(closing);
                if self.buffer.is_empty() {
                    break;
                }
                if !self.push_out()? {
                    return Ok(());
                }
            }
            if closing && self.shared.backlog().len() == 0 {
                return Ok(());
            }
        }
    }

    /// Continues in another file if that was requested. The file begins like the first one, so that each can be read
    /// alone.
    fn follow_name(&mut self) {
        let asked = reopenings();
        if std::mem::replace(&mut self.reopened, asked) != asked {
            match self.output.reopen() {
                Ok(again) => self.started &= !again,
                Err(error) => {
                    let label = &self.label;
                    self.notes
                        .tell(format!("{label}: {error}: it stays the file that was open"));
                }
            }
        }
    }

    /// Sleeps until the next tick, a half-full inbox or the end; returns whether the run has begun, and whether this is
    /// the end.
    fn wait_for_work(&self) -> (bool, bool) {
        let half = self.shared.capacity / 2;
        let inbox = self.shared.inbox();
        let idle = |inbox: &mut Inbox<T>| !inbox.closing && inbox.weight < half;
        let (inbox, _) = self
            .shared
            .wake
            .wait_timeout_while(inbox, TICK, idle)
            .unwrap_or_else(PoisonError::into_inner);
        (inbox.begun, inbox.closing)
    }

    /// Formats the next records of the backlog.
    fn fill(&mut self, closing: bool) {
        self.buffer.clear();
        self.ends.clear();
        self.taken = 0;
        let mut backlog = self.shared.backlog();
        while self.buffer.len() < BATCH_BYTES {
            let record = backlog.pop();
            if !self.started && (F::HEADER_ALONE || record.is_some() || closing) {
                self.format.header(record.as_ref(), &mut self.buffer);
                self.started = true;
            }
            let Some(record) = record else { break };
            self.format.record(&record, &mut self.buffer);
            self.ends.push(self.buffer.len());
        }
    }

    /// Writes the buffer, and takes records in while the reader sleeps. Returns false when nobody waits for the output
    /// any more.
    fn push_out(&mut self) -> io::Result<bool> {
        while self.taken < self.buffer.len() {
            match self.output.write(&self.buffer[self.taken..], TICK) {
                Ok(Progress::Took(bytes)) => {
                    let whole = |taken| self.ends.partition_point(|&end| end <= taken) as u64;
                    let records = whole(self.taken + bytes) - whole(self.taken);
                    self.taken += bytes;
                    let mut inbox = self.shared.inbox();
                    inbox.written += records;
                    inbox.progress += bytes as u64;
                }
                Ok(Progress::NotReady) => {
                    self.shared.absorb(&mut self.fresh);
                    self.tell_losses();
                    let mut inbox = self.shared.inbox();
                    inbox.unread = self.output.unread();
                    if inbox.abandoned {
                        return Ok(false);
                    }
                }
                Err(error) => {
                    // Only whole rows stay: the torn one is removed.
                    let whole = self
                        .ends
                        .iter()
                        .rev()
                        .find(|&&end| end <= self.taken)
                        .copied()
                        .unwrap_or(0);
                    self.output.take_back((self.taken - whole) as u64);
                    return Err(error);
                }
            }
        }
        Ok(true)
    }

    fn tell_losses(&self) {
        let backlog = self.shared.backlog();
        if let Some(error) = backlog.failure() {
            let (label, noun) = (&self.label, self.noun);
            self.notes.tell(format!(
                "{label}: the reader is slow and there is no place to keep its {noun} ({}): some are lost",
                reason(error)
            ));
        }
    }

    /// Discards all queued records after a failure, on disk too, and waits for the end.
    fn discard(&self) {
        let mut backlog = self.shared.backlog();
        let mut inbox = self.shared.inbox();
        inbox.failed = true;
        (inbox.records, inbox.weight) = (Vec::new(), 0);
        *backlog = SpillQueue::new(1, spill::directory());
        drop(backlog);
        let wait = self.shared.wake.wait_while(inbox, |inbox| !inbox.closing);
        drop(wait.unwrap_or_else(PoisonError::into_inner));
    }
}
