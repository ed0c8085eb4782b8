//! The folder of `--out` of a run: all results, each under a name of its own.

use crate::cli::{Run, Tell};
use crate::fail::{Result, usage};
use mpps_sys::private;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What a run tells, with the files that no option of their own names in the folder of `--out`; `lanes`: it has any
/// that could be told of. Of a run without such a folder, as it is.
pub(super) fn placed(run: &Run, lanes: bool) -> Tell {
    let mut tell = run.tell.clone();
    let Some(folder) = run.tell.out.clone() else {
        return tell;
    };
    let latency = run.plan.get("", "workload").is_some_and(|name| name == "sendrecv");
    for (file, name, there) in [
        (&mut tell.json, "result.json", true),
        (&mut tell.csv, "rows.csv", true),
        (&mut tell.lanes_csv, "lanes.csv", lanes),
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

/// The page in the folder of a run that is [`placed`], and the rows that it draws.
pub(super) fn page(run: &Run) -> Option<(PathBuf, Option<PathBuf>)> {
    let folder = run.tell.out.as_ref()?;
    // Elsewhere they may be in a pipe, which gives them once.
    let rows = run.tell.csv.clone().filter(|file| *file == folder.join("rows.csv"));
    Some((folder.join("report.html"), rows))
}

/// Makes the folder. One that is there may hold the results of another run.
pub(super) fn make(folder: &Path) -> Result<()> {
    private::new_folder(folder).map_err(|error| {
        let why = match error.kind() {
            ErrorKind::AlreadyExists => "it is there already".to_owned(),
            _ => error.to_string(),
        };
        usage(format!(
            "--out {}: {why}: want a folder that is not there yet, and that can be made",
            folder.display()
        ))
    })
}
