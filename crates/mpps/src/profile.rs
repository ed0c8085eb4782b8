//! `--profile`: samples of the lanes of a run.
//!
//! The engine tells each thread of a run when it has opened all that it needs, so that it gives up its privileges
//! ([`mpps_engine::GiveUp`]). This is where a lane's thread is known, and where the main thread still may open events
//! of the kernel's. From then on a thread of its own, without any privilege, reads what has come, beside the lanes'
//! cores. There is one run a process.

use crate::cli::Run;
use crate::fail::{Result, usage};
use crate::privilege;
use mpps_engine::Opened;
use mpps_profile::{Profile, Profiled, RawSample};
use mpps_sys::privilege::Keep;
use mpps_sys::sched;
use mpps_trace::{Caption, LeftOut, flame_svg, folded};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often samples are read: a ring holds 0.1 s of them, and more.
const EVERY: Duration = Duration::from_millis(20);

/// How far it is.
enum State {
    /// Nobody has asked for it.
    Off,
    /// Lanes are made ready.
    Asked { hz: u32, lanes: Vec<(u32, i32)> },
    /// Events are open.
    Open(Box<Profile>, Told),
    /// Samples are read.
    Running(Reader, Told),
    /// There are none.
    Failed(Told),
}

/// What is known from the start.
#[derive(Clone, Debug, Default)]
struct Told {
    hz: u32,
    lanes: usize,
    lacks: Vec<LeftOut>,
    failed: Option<String>,
}

struct Reader {
    thread: JoinHandle<(Profile, Vec<RawSample>)>,
    over: Arc<AtomicBool>,
}

static STATE: Mutex<State> = Mutex::new(State::Off);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Before anything is opened: has the lanes of this run sampled, where that is asked for.
pub(crate) fn ask(run: &Run) -> Result<()> {
    let Some(hz) = run.tell.profile else { return Ok(()) };
    if run.tell.flame.is_none() && run.tell.folded.is_none() && run.tell.keep.trace.is_none() {
        return Err(usage(format!(
            "--profile {hz}: nothing is to be made of the samples: want --flame FILE, --folded FILE or --trace FILE as \
             well"
        )));
    }
    *state() = State::Asked { hz, lanes: Vec::new() };
    Ok(())
}

/// A thread of the run has opened all that it needs, and has its privileges yet.
pub(crate) fn opened(opened: Opened) {
    let mut state = state();
    let State::Asked { hz, lanes } = &mut *state else {
        return;
    };
    match opened {
        Opened::Lane(number) => lanes.push((number as u32, sched::thread_id())),
        Opened::Main => {
            lanes.sort_unstable();
            let mut told = Told {
                hz: *hz,
                lanes: lanes.len(),
                ..Told::default()
            };
            // What the program's file lends is not for its user to see the kernel with.
            *state = match Profile::open(lanes, *hz, !privilege::lent()) {
                Ok((profile, lacks)) => {
                    told.lacks = lacks;
                    State::Open(Box::new(profile), told)
                }
                Err(why) => {
                    told.failed = Some(why);
                    State::Failed(told)
                }
            };
        }
    }
}

/// The main thread has given up its privileges: from here on samples are read.
pub(crate) fn begin() {
    let mut state = state();
    match std::mem::replace(&mut *state, State::Off) {
        State::Open(profile, mut told) => match Reader::start(*profile) {
            Ok(reader) => *state = State::Running(reader, told),
            Err(e) => {
                told.failed = Some(format!("start the thread that reads samples: {e}"));
                *state = State::Failed(told);
            }
        },
        other => *state = other,
    }
}

impl Reader {
    fn start(mut profile: Profile) -> std::io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let body = move || {
            // It reads memory that is mapped already.
            let _ = Keep::NOTHING.apply();
            let mut raw = Vec::new();
            loop {
                let over = ends.load(Ordering::Acquire);
                profile.poll(&mut raw);
                if over {
                    return (profile, raw);
                }
                thread::park_timeout(EVERY);
            }
        };
        let thread = thread::Builder::new().name("mpps-profile".to_owned()).spawn(body)?;
        Ok(Self { thread, over })
    }
}

/// What came of the samples of a run.
pub(crate) struct Samples {
    pub(crate) profiled: Profiled,
    told: Told,
}

/// Ends the sampling and finds the names; `None`: nobody asked for it.
pub(crate) fn finish() -> Option<Samples> {
    let (profiled, told) = match std::mem::replace(&mut *state(), State::Off) {
        State::Off => return None,
        // The run ended before it began.
        State::Asked { .. } | State::Open(..) => (Profiled::default(), Told::default()),
        State::Failed(told) => (Profiled::default(), told),
        State::Running(reader, mut told) => {
            reader.over.store(true, Ordering::Release);
            reader.thread.thread().unpark();
            match reader.thread.join() {
                Ok((profile, raw)) => (profile.finish(raw), told),
                Err(_) => {
                    told.failed = Some("the thread that reads samples has panicked".to_owned());
                    (Profiled::default(), told)
                }
            }
        }
    };
    Some(Samples { profiled, told })
}

/// What is made of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Picture {
    /// A flame graph.
    Flame,
    /// Folded stacks.
    Folded,
}

impl Picture {
    pub(crate) fn of(self, samples: &Samples, command: &str) -> String {
        let Profiled {
            samples: all, frames, ..
        } = &samples.profiled;
        match self {
            Self::Folded => folded(all, frames),
            Self::Flame => {
                let caption = Caption {
                    title: "Where the lanes were".to_owned(),
                    notes: std::iter::once(command.to_owned()).chain(samples.told(false)).collect(),
                };
                flame_svg(all, frames, &caption)
            }
        }
    }
}

impl Samples {
    /// What is said of them; `quiet`: only what is missing.
    pub(crate) fn told(&self, quiet: bool) -> Vec<String> {
        let Told {
            hz,
            lanes,
            lacks,
            failed,
        } = &self.told;
        if let Some(why) = failed {
            return vec![format!("--profile {hz}: no samples: {why}")];
        }
        let count = self.profiled.samples.len();
        let plural = if *lanes == 1 { "" } else { "s" };
        let all = format!("profile: {count} samples of {lanes} lane{plural}, {hz} a second of running");
        let lacks = lacks.iter().chain(&self.profiled.left_out).map(|lack| {
            let count = if lack.count > 0 {
                format!("{} ", lack.count)
            } else {
                String::new()
            };
            format!("profile: without {count}{}: {}", lack.what, lack.why)
        });
        (!quiet).then_some(all).into_iter().chain(lacks).collect()
    }
}
