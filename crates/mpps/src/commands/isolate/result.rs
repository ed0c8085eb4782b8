//! Document that `--json` writes.

use crate::cli::Isolate;
use crate::fail::{Result, failed, usage};
use mpps_host::isolate::noise::Noise;
use mpps_host::isolate::{Boot, Cpus, Outcome};
use mpps_run::privilege::as_user;
use mpps_sys::private;
use mpps_sys::sched::Priority;
use rustix::fs::OFlags;
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The result as a value; docs/use/isolation.md describes it.
#[derive(Debug, Serialize)]
pub(super) struct Told {
    schema: &'static str,
    cores: String,
    command: Vec<String>,
    pub(super) exit_code: Option<u8>,
    measured_s: f64,
    pub(super) before: Vec<Noise>,
    pub(super) isolated: Vec<Noise>,
    pub(super) after: Vec<Noise>,
    pub(super) parts: Vec<Outcome>,
    priority: Option<String>,
    timer_slack_ns: Option<u64>,
    pub(super) notes: Vec<String>,
    pub(super) boot: Option<Boot>,
    pub(super) undone: usize,
    pub(super) not_undone: Vec<String>,
}

impl Told {
    pub(super) fn of(args: &Isolate, cores: &Cpus) -> Self {
        let word = |word: &std::ffi::OsString| mpps_io::hide_secrets(&word.to_string_lossy());
        Self {
            schema: "mpps.isolate/1",
            cores: cores.list(),
            command: args.command.iter().map(word).collect(),
            exit_code: None,
            measured_s: args.measure.as_secs_f64(),
            before: Vec::new(),
            isolated: Vec::new(),
            after: Vec::new(),
            parts: Vec::new(),
            priority: None,
            timer_slack_ns: None,
            notes: Vec::new(),
            boot: None,
            undone: 0,
            not_undone: Vec::new(),
        }
    }

    pub(super) fn place(&mut self, priority: Option<Priority>, timer_slack_ns: u64) {
        self.priority = priority.map(|priority| priority.to_string());
        self.timer_slack_ns = Some(timer_slack_ns);
    }
}

/// Destination of the result. It can be written there, as far as that is known in advance.
pub(super) enum Outlet {
    Stdout,
    /// A file that is already open, such as `/dev/stdout`, or the place for a new file.
    Path(PathBuf),
}

impl Outlet {
    pub(super) fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        let look = || match private::Place::find(path)? {
            Some(place) if place.look()?.is_some_and(|there| there.folder) => Err(io::ErrorKind::IsADirectory.into()),
            Some(place) if place.look()?.is_none_or(|there| there.regular) => place.try_draft(),
            _ => Ok(()),
        };
        let wrong = |e: io::Error| {
            usage(format!(
                "--json: {}: {e}: want a file that can be written",
                path.display()
            ))
        };
        as_user(|| look().map_err(wrong))?;
        Ok(Self::Path(path.to_owned()))
    }

    pub(super) fn write(self, told: &Told) -> Result<()> {
        let text = mpps_sys::text::json(serde_json::to_string_pretty(told).map_err(failed)? + "\n");
        let path = match self {
            Self::Stdout => return crate::fail::print(|out| out.write_all(text.as_bytes())),
            Self::Path(path) => path,
        };
        let put = || match private::Place::find(&path)? {
            Some(place) if place.look()?.is_none_or(|there| there.regular) => place.replace(text.as_bytes()),
            _ => private::open(&path, OFlags::empty())?.write_all(text.as_bytes()),
        };
        as_user(|| put().map_err(|e| failed(format!("--json: write {}: {e}", path.display()))))
    }
}
