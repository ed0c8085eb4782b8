//! Where a run's results go: files checked before the first packet, written whatever happens after.

use crate::cli::Run;
use crate::fail::{Failure, Result, failed, usage};
use crate::plan::value::Plan;
use crate::privilege::{Clerk, caller};
use mpps_report::{
    AtBegin, Colour, CsvSink, Detail, HdrSink, JsonTarget, LiveSink, LiveStyle, Notes, OfWay, ReportError, Sinks, WAYS,
    columns_of, of_way, print_summary,
};
use mpps_stats::{Sink, Summary};
use mpps_sys::sched;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Sinks and targets of one run.
pub(crate) struct Output {
    pub(crate) sinks: Vec<Box<dyn Sink>>,
    /// What is told of the files.
    boards: Vec<Notes>,
    json: Option<JsonTarget>,
    /// The run, as the summary holds it.
    plan: Plan,
    quiet: bool,
    detail: Detail,
    /// Standard output belongs to the CSV or JSON: the summary goes to standard error.
    stdout_taken: bool,
    /// Who opens and writes files.
    pub(crate) clerk: Clerk,
    /// This thread, and those that it has started, stay off the cores that lanes were given.
    _beside_lanes: sched::KeptOff,
}

impl Output {
    /// Opens the files that the user asked for.
    pub(crate) fn open(run: &Run) -> Result<Self> {
        Self::open_all(run, None, false)
    }

    /// As [`Output::open`], beside a file of the workload's own: its option, its path, and what is told about it.
    pub(crate) fn open_beside(run: &Run, own: Option<(&'static str, &Path, Notes)>) -> Result<Self> {
        Self::open_all(run, own, false)
    }

    /// As [`Output::open`], and for each of two ways files of its own, beside those of both.
    pub(crate) fn open_both_ways(run: &Run) -> Result<Self> {
        Self::open_all(run, None, true)
    }

    fn open_all(run: &Run, own: Option<(&'static str, &Path, Notes)>, both_ways: bool) -> Result<Self> {
        let of_ways = if both_ways { files_of_ways(run) } else { Vec::new() };
        let files: Vec<_> = own
            .iter()
            .map(|(option, path, _)| (*option, Some(*path)))
            .chain([
                ("--csv", run.tell.csv.as_deref()),
                ("--json", run.tell.json.as_deref()),
                ("--hdr", run.tell.hdr.as_deref()),
            ])
            .chain(of_ways.iter().map(|file| (file.option, Some(file.path.as_path()))))
            .collect();
        let stdout = files.iter().filter(|(_, f)| *f == Some(Path::new("-"))).count();
        if stdout > 1 {
            let options: Vec<_> = files.iter().map(|(option, _)| *option).collect();
            return Err(usage(format!(
                "{}: '-' for more than one: want standard output for one at the most",
                options.join(", ")
            )));
        }
        for (i, (a, first)) in files.iter().enumerate() {
            for (b, second) in &files[i + 1..] {
                if let (Some(first), Some(second)) = (first, second)
                    && mpps_report::same_file(first, second)
                {
                    let name = second.display();
                    return Err(usage(format!(
                        "{a} and {b}: both '{name}': want a file of its own for each"
                    )));
                }
            }
        }
        let of_workload = own.iter().map(|(_, path, _)| *path);
        let more: Vec<&Path> = of_workload
            .chain(of_ways.iter().map(|file| file.path.as_path()))
            .collect();
        // The threads that write files inherit it.
        let beside_lanes = sched::keep_off(run.cores.as_ref().map_or(&[], |cores| &cores.0));
        let clerk = Clerk::hire(run, &more)?;
        let (run, notes) = (run.clone(), own.map(|(_, _, notes)| notes));
        let quiet = run.tell.quiet;
        let plan = run.plan.clone();
        let detail = if run.tell.verbose { Detail::Full } else { Detail::Brief };
        let (sinks, boards, json) = clerk.does(move || files_of(&run, notes, &of_ways))??;
        Ok(Self {
            sinks: vec![Box::new(sinks)],
            boards,
            json,
            plan,
            quiet,
            detail,
            stdout_taken: stdout > 0,
            clerk,
            _beside_lanes: beside_lanes,
        })
    }

    /// Says at the start, when every lane receives, that it is so: whoever starts the sender may go on.
    pub(crate) fn when_ready(&mut self, run: &Run, line: String) {
        if !run.tell.quiet {
            self.sinks.push(Box::new(AtBegin(move || eprintln!("mpps: {line}"))));
        }
    }

    /// Writes the summary, and gives the exit code that goes with it.
    pub(crate) fn finish(self, summary: &Summary) -> Result<ExitCode> {
        let summary = &Summary {
            command: std::env::args_os()
                .map(|word| mpps_io::hide_secrets(&word.to_string_lossy()))
                .collect(),
            plan: self.plan.for_summary(),
            ..summary.clone()
        };
        if !self.quiet {
            let (out, err) = (std::io::stdout(), std::io::stderr());
            let printed = match self.stdout_taken {
                true => print_summary(
                    summary,
                    self.detail,
                    Colour::for_stream(&err),
                    columns_of(&err),
                    &mut err.lock(),
                ),
                false => print_summary(
                    summary,
                    self.detail,
                    Colour::for_stream(&out),
                    columns_of(&out),
                    &mut out.lock(),
                ),
            };
            // A reader that has gone is no reason to fail: the files still get everything.
            if let Err(error) = printed
                && error.kind() != std::io::ErrorKind::BrokenPipe
            {
                let _ = writeln!(err.lock(), "mpps: write the summary: {error}");
            }
        } else {
            // What became of the files has been told nowhere else.
            for note in self.boards.iter().flat_map(Notes::all) {
                eprintln!("mpps: {note}");
            }
            if !summary.valid {
                eprintln!("mpps: not valid: {}", summary.invalid_reasons.join("; "));
            }
        }
        if let Some(json) = self.json {
            let summary = summary.clone();
            let (overtaken, written) = self.clerk.does(move || (json.overtaken(), json.write(&summary)))?;
            if overtaken {
                eprintln!("mpps: json: another program has written this file since the run began: it is replaced");
            }
            written.map_err(failed)?;
        }
        Ok(if summary.valid {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(3)
        })
    }
}

/// A file of one of two ways.
struct FileOfWay {
    option: &'static str,
    path: PathBuf,
    way: usize,
}

/// The files of each way that there are beside those of both.
fn files_of_ways(run: &Run) -> Vec<FileOfWay> {
    let of_both = [("--csv", &run.tell.csv), ("--hdr", &run.tell.hdr)];
    let files = of_both
        .into_iter()
        .filter_map(|(option, path)| Some((option, path.as_deref()?)));
    let of_ways = files.flat_map(|(option, both)| {
        let file = move |(way, name): (usize, &&str)| {
            let path = of_way(both, name)?;
            Some(FileOfWay { option, path, way })
        };
        WAYS.iter().enumerate().filter_map(file)
    });
    of_ways.collect()
}

/// Opens the files of a run, and starts what writes them.
fn files_of(run: &Run, own: Option<Notes>, of_ways: &[FileOfWay]) -> Result<(Sinks, Vec<Notes>, Option<JsonTarget>)> {
    let mut sinks = Sinks::new();
    let style = match (run.tell.quiet, run.tell.plain) {
        (true, _) => LiveStyle::Quiet,
        (_, true) => LiveStyle::Plain,
        _ => LiveStyle::Auto,
    };
    sinks.add(LiveSink::new(style));
    let mut boards = Vec::from_iter(own);
    if let Some(path) = &run.tell.csv {
        let csv = CsvSink::create(path).map_err(|e| unwritable("--csv", &e))?;
        boards.push(csv.notes());
        sinks.add(csv);
    }
    if let Some(path) = &run.tell.hdr {
        let hdr = HdrSink::create(path).map_err(|e| unwritable("--hdr", &e))?;
        boards.push(hdr.notes());
        sinks.add(hdr);
    }
    for FileOfWay { option, path, way } in of_ways {
        let (way, failed) = (*way, |e| unwritable(option, &e));
        if *option == "--csv" {
            let sink = CsvSink::create(path).map_err(failed)?;
            boards.push(sink.notes());
            sinks.add(OfWay { way, sink });
        } else {
            let sink = HdrSink::create(path).map_err(failed)?;
            boards.push(sink.notes());
            sinks.add(OfWay { way, sink });
        }
    }
    boards.iter().for_each(|board| sinks.watch(board.clone()));
    let json = run.tell.json.as_deref().map(JsonTarget::prepare).transpose();
    Ok((sinks, boards, json.map_err(|e| unwritable("--json", &e))?))
}

/// A file that can't be written.
pub(super) fn unwritable(option: &str, error: &ReportError) -> Failure {
    let denied =
        matches!(error, ReportError::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied);
    let user = caller().filter(|_| denied);
    let whose = user.map_or_else(String::new, |user| {
        format!(" by user {}, who called sudo (--keep-privileges: by root)", user.uid())
    });
    usage(format!(
        "{option}: {error}: want a file that can be written{whose}, and that no other run writes"
    ))
}
