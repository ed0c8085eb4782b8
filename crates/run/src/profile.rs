//! `--profile`: samples of a run's lanes.
//!
//! Each thread of a run calls [`opened`] when it has opened all that it needs, just before it gives up its privileges
//! ([`mpps_engine::Owner`]). At this moment a lane's thread is known, and the main thread may still open the kernel's
//! events. From then on a separate thread without privileges reads the samples. It keeps off the lanes' cores if it
//! can.

use crate::privilege;
use crate::request::Run;
use crate::watchers::Watchers;
use mpps_engine::Opened;
use mpps_profile::{Profile, Profiled, RawSample};
use mpps_sys::privilege::Keep;
use mpps_sys::sched;
use mpps_trace::{Caption, Frame, Sample, Sampling, flame_svg, folded};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Pause between readings of samples. A ring holds at least 0.1 s of samples.
const EVERY: Duration = Duration::from_millis(20);

/// Progress of the sampling.
#[derive(Default)]
pub(crate) enum State {
    /// Sampling was not asked for.
    #[default]
    Off,
    /// Lanes are being opened.
    Asked { hz: u32, lanes: Vec<(u32, i32)> },
    /// Events are open.
    Open(Box<Profile>, Sampling),
    /// A thread reads samples.
    Running(Reader, Sampling),
    /// There are no samples: `Sampling::failed` is the reason.
    Failed(Sampling),
}

/// Thread that reads samples.
pub(crate) struct Reader {
    thread: JoinHandle<(Profile, Vec<RawSample>)>,
    over: Arc<AtomicBool>,
}

/// Asks for samples of the lanes if the run has `--profile`. Called before anything is opened.
pub fn ask(run: &Run) {
    let Some(hz) = run.beside.profile_hz else { return };
    *run.watchers.profile() = State::Asked { hz, lanes: Vec::new() };
}

/// Records a lane's thread, or (main thread) opens the sampling. Called when that thread has opened all that it needs
/// and still has its privileges.
pub(crate) fn opened(watchers: &Watchers, opened: Opened) {
    let mut state = watchers.profile();
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
            // Privileges that the program's file lends must not show its user the kernel.
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

/// Starts the thread that reads samples. Called when the main thread has given up its privileges.
pub(crate) fn begin(watchers: &Watchers) {
    let mut state = watchers.profile();
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
            // The thread needs no privileges: it only reads memory that is mapped already.
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

/// Samples of a run, with names.
pub struct Samples {
    /// Samples, in order of time.
    pub samples: Vec<Sample>,
    /// Functions that samples name by their place here.
    pub frames: Vec<Frame>,
    /// Settings of the sampling, and what is missing.
    pub sampling: Sampling,
    /// Part of the run that the samples are of, in words; `None`: the whole run.
    pub stretch: Option<String>,
}

/// Ends the sampling and looks up the names; `None`: sampling was not asked for.
pub fn finish(run: &Run) -> Option<Samples> {
    let (profiled, mut sampling) = match std::mem::take(&mut *run.watchers.profile()) {
        State::Off => return None,
        // The run ended before the sampling began.
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

/// Form in which samples are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picture {
    /// A flame graph.
    Flame,
    /// Folded stacks.
    Folded,
}

impl Picture {
    /// Returns the content of the file. The same samples make the same bytes, at the end of the run or later from its
    /// trace.
    pub fn of(self, samples: &Samples, command: &str) -> String {
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
    /// Returns lines about the samples for the user; `quiet`: only about missing samples.
    pub fn told(&self, quiet: bool) -> Vec<String> {
        let all = (!quiet && self.sampling.failed.is_none()).then(|| self.sampling.told(self.samples.len()));
        all.into_iter().chain(self.sampling.missing()).collect()
    }
}
