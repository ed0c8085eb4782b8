//! The folder of `--out` of a run: all results, each under a name of its own.

use crate::cli::{RunArgs, Tell};
use crate::fail::{Result, usage};
use mpps_plan::Workload;
use mpps_stats::{Event, Sink, Wants};
use mpps_sys::private::{self, NewFolder};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Returns the run's output options; files without an option of their own go to the folder of `--out`. `lanes`: the run
/// has lanes to report on. Without `--out` the options are returned unchanged.
pub(super) fn placed(args: &RunArgs, lanes: bool) -> Tell {
    let mut tell = args.tell.clone();
    let Some(folder) = args.tell.out.clone() else {
        return tell;
    };
    let streams = args.has_streams();
    let latency = args.run.plan.workload == Workload::Sendrecv;
    for (file, name, there) in [
        (&mut tell.json, "result.json", true),
        (&mut tell.csv, "rows.csv", true),
        (&mut tell.lanes_csv, "lanes.csv", lanes),
        (&mut tell.streams_csv, "streams.csv", streams),
        (&mut tell.json_lines, "events.jsonl", true),
        (&mut tell.junit, "junit.xml", true),
        (&mut tell.markdown, "report.md", true),
        (&mut tell.hdr, "latency.hlog", latency),
    ] {
        if there && file.is_none() {
            *file = Some(folder.join(name));
        }
    }
    tell
}

/// Files that a page is made from.
#[derive(Clone, Debug)]
pub(super) struct Sources {
    /// The JSON as the page names it; none on standard output.
    pub(super) json: Option<PathBuf>,
    /// The rows that it draws.
    pub(super) rows: Option<PathBuf>,
}

/// The page in the folder of a run that is [`placed`].
pub(super) fn page(args: &RunArgs) -> Option<(PathBuf, Sources)> {
    let folder = args.tell.out.as_ref()?;
    // Elsewhere they may be in a pipe, which gives them once.
    let rows = args.tell.csv.clone().filter(|file| *file == folder.join("rows.csv"));
    let json = args.tell.json.as_deref().filter(|file| *file != Path::new("-"));
    // A folder with all of its files may be moved.
    let json = json.map(|file| file.strip_prefix(folder).unwrap_or(file).to_owned());
    Some((folder.join("report.html"), Sources { json, rows }))
}

/// A folder that was made for a run which has not begun. Dropped before it does, it is taken back with the files that
/// were opened in it: a command that is refused leaves nothing.
pub(super) struct Made {
    /// `None` once the run has begun.
    folder: Option<NewFolder>,
    files: Vec<OsString>,
}

impl Sink for Made {
    fn wants(&self) -> Wants {
        Wants::default()
    }

    fn event(&mut self, event: &Event<'_>) {
        if !matches!(event, Event::Note(_)) {
            self.folder = None;
        }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            folder.remove(&self.files);
        }
    }
}

/// Makes the folder, for a run that has these files. One that is there may hold the results of another run.
pub(super) fn make(folder: &Path, files: &[PathBuf]) -> Result<Made> {
    let back = |path: &&Path| path.ends_with("..") && !path.exists();
    if let Some(back) = folder.ancestors().find(back) {
        return Err(usage(format!(
            "--out {}: there is no {}: want a path without .., or folders that are there before it",
            folder.display(),
            back.display()
        )));
    }
    let inside = files.iter().filter(|file| file.parent() == Some(folder));
    let files = inside.filter_map(|file| Some(file.file_name()?.to_owned())).collect();
    let made = private::new_folder(folder).map(|folder| Made {
        folder: Some(folder),
        files,
    });
    made.map_err(|error| {
        let why = match error.kind() {
            ErrorKind::AlreadyExists | ErrorKind::IsADirectory => "it is there already".to_owned(),
            _ => error.to_string(),
        };
        usage(format!(
            "--out {}: {why}: want a folder that is not there yet, and that can be made",
            folder.display()
        ))
    })
}
