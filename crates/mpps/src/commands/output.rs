//! Where a run's results go: files checked before the first packet, written whatever happens after.

use crate::cli::Run;
use crate::fail::{Result, failed, usage};
use mpps_report::{Colour, CsvSink, HdrSink, JsonTarget, LiveSink, LiveStyle, Notes, Sinks, print_summary};
use mpps_stats::{Sink, Summary};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Sinks and targets of one run.
pub(crate) struct Output {
    pub(crate) sinks: Vec<Box<dyn Sink>>,
    /// What is told of the files.
    boards: Vec<Notes>,
    json: Option<JsonTarget>,
    quiet: bool,
    /// Standard output belongs to the CSV or JSON: the summary goes to standard error.
    stdout_taken: bool,
}

impl Output {
    /// Opens the files that the user asked for.
    pub(crate) fn open(run: &Run) -> Result<Self> {
        Self::open_beside(run, None)
    }

    /// As [`Output::open`], beside a file of the workload's own: its option, its path, and what is told about it.
    pub(crate) fn open_beside(run: &Run, own: Option<(&'static str, &Path, Notes)>) -> Result<Self> {
        let files: Vec<_> = own
            .iter()
            .map(|(option, path, _)| (*option, Some(*path)))
            .chain([
                ("--csv", run.csv.as_deref()),
                ("--json", run.json.as_deref()),
                ("--hdr", run.hdr.as_deref()),
            ])
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
                    && first == second
                {
                    let name = first.display();
                    return Err(usage(format!(
                        "{a} and {b}: both '{name}': want a file of its own for each"
                    )));
                }
            }
        }
        let mut sinks = Sinks::new();
        let style = match (run.quiet, run.plain) {
            (true, _) => LiveStyle::Quiet,
            (_, true) => LiveStyle::Plain,
            _ => LiveStyle::Auto,
        };
        sinks.add(LiveSink::new(style));
        let mut boards = Vec::new();
        if let Some((_, _, notes)) = own {
            boards.push(notes);
        }
        let unwritable = |option: &str, e: mpps_report::ReportError| {
            usage(format!("{option}: {e}: want a file that can be written"))
        };
        if let Some(path) = &run.csv {
            let csv = CsvSink::create(path).map_err(|e| unwritable("--csv", e))?;
            boards.push(csv.notes());
            sinks.add(csv);
        }
        if let Some(path) = &run.hdr {
            let hdr = HdrSink::create(path).map_err(|e| unwritable("--hdr", e))?;
            boards.push(hdr.notes());
            sinks.add(hdr);
        }
        boards.iter().for_each(|board| sinks.watch(board.clone()));
        let json = run
            .json
            .as_deref()
            .map(JsonTarget::prepare)
            .transpose()
            .map_err(|e| unwritable("--json", e))?;
        Ok(Self {
            sinks: vec![Box::new(sinks)],
            boards,
            json,
            quiet: run.quiet,
            stdout_taken: stdout > 0,
        })
    }

    /// Writes the summary, and gives the exit code that goes with it.
    pub(crate) fn finish(self, summary: &Summary) -> Result<ExitCode> {
        let summary = &Summary {
            command: std::env::args_os()
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            ..summary.clone()
        };
        if !self.quiet {
            let (out, err) = (std::io::stdout(), std::io::stderr());
            let printed = match self.stdout_taken {
                true => print_summary(summary, Colour::for_stream(&err), &mut err.lock()),
                false => print_summary(summary, Colour::for_stream(&out), &mut out.lock()),
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
        if let Some(json) = &self.json {
            json.write(summary).map_err(failed)?;
        }
        Ok(if summary.valid {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(3)
        })
    }
}

/// Tells what a port could not do as asked for or as is best.
pub(crate) fn remark(remarks: &[String]) {
    for line in remarks {
        eprintln!("mpps: {line}");
    }
}
