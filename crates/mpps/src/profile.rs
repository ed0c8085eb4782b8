//! `--profile`: samples of the lanes of a run.
//!
//! The engine tells each thread of a run when it has opened all that it needs, so that it gives up its privileges
//! ([`mpps_engine::GiveUp`]). This is where a lane's thread is known, and where the main thread still may open events
//! of the kernel's. From then on a thread of its own, without any privilege, reads what has come, beside the lanes'
//! cores. There is one run a process.

use crate::plan::run::Run;
use crate::privilege;
use mpps_engine::Opened;
use mpps_profile::{Profile, Profiled, RawSample};
use mpps_sys::privilege::Keep;
use mpps_sys::sched;
use mpps_trace::{Caption, Frame, Sample, Sampling, flame_svg, folded};
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
    Open(Box<Profile>, Sampling),
    /// Samples are read.
    Running(Reader, Sampling),
    /// There are none.
    Failed(Sampling),
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
pub(crate) fn ask(run: &Run) {
    let Some(hz) = run.beside.profile_hz else { return };
    *state() = State::Asked { hz, lanes: Vec::new() };
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
            let mut sampling = Sampling {
                hz: *hz,
                lanes: lanes.len() as u32,
                ..Sampling::default()
            };
            // What the program's file lends is not for its user to see the kernel with.
            *state = match Profile::open(lanes, *hz, !privilege::lent()) {
                Ok((profile, lacks)) => {
                    sampling.left_out = lacks;
                    State::Open(Box::new(profile), sampling)
                }
                Err(why) => {
                    sampling.failed = Some(why);
                    State::Failed(sampling)
                }
            };
        }
    }
}

/// The main thread has given up its privileges: from here on samples are read.
pub(crate) fn begin() {
    let mut state = state();
    match std::mem::replace(&mut *state, State::Off) {
        State::Open(profile, mut sampling) => match Reader::start(*profile) {
            Ok(reader) => *state = State::Running(reader, sampling),
            Err(e) => {
                sampling.failed = Some(format!("start the thread that reads samples: {e}"));
                *state = State::Failed(sampling);
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
        let thread = mpps_sys::thread::spawn("mpps-profile", body)?;
        Ok(Self { thread, over })
    }
}

/// What came of the samples of a run.
pub(crate) struct Samples {
    pub(crate) samples: Vec<Sample>,
    pub(crate) frames: Vec<Frame>,
    pub(crate) sampling: Sampling,
    /// Which part of the run they are of, in words; `None`: all of it.
    pub(crate) stretch: Option<String>,
}

/// Ends the sampling and finds the names; `None`: nobody asked for it.
pub(crate) fn finish() -> Option<Samples> {
    let (profiled, mut sampling) = match std::mem::replace(&mut *state(), State::Off) {
        State::Off => return None,
        // The run ended before it began.
        State::Asked { hz, .. } => (
            Profiled::default(),
            Sampling {
                hz,
                ..Sampling::default()
            },
        ),
        State::Open(_, sampling) | State::Failed(sampling) => (Profiled::default(), sampling),
        State::Running(reader, mut sampling) => {
            reader.over.store(true, Ordering::Release);
            reader.thread.thread().unpark();
            match reader.thread.join() {
                Ok((profile, raw)) => (profile.finish(raw), sampling),
                Err(_) => {
                    sampling.failed = Some("the thread that reads samples has panicked".to_owned());
                    (Profiled::default(), sampling)
                }
            }
        }
    };
    sampling.left_out.extend(profiled.left_out);
    Some(Samples {
        samples: profiled.samples,
        frames: profiled.frames,
        sampling,
        stretch: None,
    })
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
    /// The same samples make the same bytes, at the end of the run or from its trace later.
    pub(crate) fn of(self, samples: &Samples, command: &str) -> String {
        let Samples {
            samples,
            frames,
            sampling,
            stretch,
        } = samples;
        let mut caption = Caption::of_run(command, samples, sampling);
        caption.notes.splice(1..1, stretch.clone());
        match self {
            Self::Folded => folded(samples, frames),
            Self::Flame => flame_svg(samples, frames, &caption),
        }
    }
}

impl Samples {
    /// What is said of them; `quiet`: only what is missing.
    pub(crate) fn told(&self, quiet: bool) -> Vec<String> {
        let all = (!quiet && self.sampling.failed.is_none()).then(|| self.sampling.told(self.samples.len()));
        all.into_iter().chain(self.sampling.missing()).collect()
    }
}
