//! Destinations of a run's results: files checked before the first packet, written whatever happens after.

use super::run_folder::{self as folder, Sources};
use super::serving::{Serving, Shown};
use super::state_files::{last_line, lines_are_open, state_is_told};
use super::steps;
use crate::cli::{RunArgs, read_by_program, recorded_command};
use crate::fail::{Result, failed, say, tell_at_end, unwritable, usage};
use mpps_pages::document::{Document, runs};
use mpps_pages::{junit, page};
use mpps_report::{
    AtBegin, Colour, CsvSink, Detail, Expect, HdrSink, JsonLines, JsonSink, JsonTarget, JsonWritten, LanesCsvSink,
    LiveSink, LiveStyle, Notes, OfWay, ReportError, Sinks, WAYS, columns_of, json_value, of_way, print_summary,
    write_trace,
};
use mpps_run::Run;
use mpps_run::host::{Opens, Steps};
use mpps_run::paths::{Checked, Rules, Work};
use mpps_run::privilege::Clerk;
use mpps_run::profile::{self, Picture};
use mpps_run::record::{self, Rows, RowsSink};
use mpps_run::sample::Sampling;
use mpps_stats::{Event, Sink, Summary};
use mpps_sys::sched;
use mpps_sys::stdio::stdout_is_closed;
use mpps_sys::text::Spoken;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

/// The program as the caller of a run.
pub(super) struct Program<'a> {
    args: &'a RunArgs,
    output: RefCell<Option<Output>>,
}

impl<'a> Program<'a> {
    pub(super) fn new(args: &'a RunArgs) -> Self {
        Self {
            args,
            output: RefCell::new(None),
        }
    }

    /// Returns the files and views of a run that took place.
    pub(super) fn into_output(self) -> Result<Output> {
        self.output
            .into_inner()
            .ok_or_else(|| failed("the ports were not opened"))
    }
}

impl Steps for Program<'_> {
    fn prepare(&self, ports: &[&Checked], rules: &Rules, work: Work) -> Result<()> {
        steps::prepare(self.args, ports, rules, work)
    }

    fn open(&self, opens: Opens<'_>) -> Result<Vec<Box<dyn Sink>>> {
        let of_method = |expect: &Expect| Some((expect.clone(), expect.found()?));
        if let Some((expect, found)) = self.args.tell.expect.iter().find_map(of_method) {
            return Err(usage(format!(
                "--expect '{expect}': a run finds no {}: want a method (ndr, rfc2544, overload), or a demand on loss, \
                 received, p99 and the like",
                found.name()
            )));
        }
        let Opens { remark, ready, .. } = &opens;
        let (remark, ready) = (remark.clone(), ready.clone());
        let (sinks, output) = Output::open(self.args, opens)?;
        let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(sinks)];
        if !output.quiet {
            remark.iter().for_each(|line| say!("{line}"));
            // The sender may now start.
            sinks.extend(ready.map(|line| Box::new(AtBegin(move || say!("{line}"))) as Box<dyn Sink>));
        }
        *self.output.borrow_mut() = Some(output);
        Ok(sinks)
    }

    fn on_writer(&self, what: Box<dyn FnOnce() + Send>) -> Result<()> {
        match &*self.output.borrow() {
            Some(output) => output.clerk.does(what),
            None => Err(failed("no file is open")),
        }
    }
}

/// Files and views of one run.
pub(super) struct Output {
    /// The run; the summary holds its complete plan.
    run: Run,
    /// Nothing is printed.
    quiet: bool,
    /// Notes on the files that are written.
    boards: Vec<Notes>,
    json: Option<JsonWritten>,
    /// File of the trace.
    trace: Option<JsonTarget>,
    /// Counts of each row, for the trace.
    rows: Arc<Mutex<Rows>>,
    /// Files of the samples, each with its form.
    pictures: Vec<(Picture, JsonTarget)>,
    /// Frames of the run.
    sample: Option<Sampling>,
    /// Other forms of the result, each with its file.
    forms: Vec<(Form, JsonTarget)>,
    /// Servers and views that show the run while it goes on.
    serving: Option<Serving>,
    /// Conditions of `--expect`.
    expect: Vec<Expect>,
    detail: Detail,
    /// Standard output belongs to the CSV or JSON: the summary goes to standard error.
    stdout_taken: bool,
    /// The thread that opens and writes files.
    clerk: Clerk,
    /// This thread, and those that it has started, stay off the cores that lanes were given.
    _beside_lanes: sched::KeptOff,
}

/// A form of the result, beside the JSON.
#[derive(Clone, Debug)]
enum Form {
    Junit,
    Markdown,
    /// HTML, with charts if the run's rows are in a file.
    Html(Sources),
}

impl Form {
    /// `unwritten`: errors of files that could not be written.
    fn of(&self, summary: &Summary, unwritten: &[String]) -> std::result::Result<String, ReportError> {
        Ok(match self {
            Self::Junit => junit(summary, unwritten),
            Self::Html(of) => runs::html(summary, of.json.as_deref(), of.rows.as_deref())?,
            Self::Markdown => {
                let run = runs::Run::new("this one", json_value(summary));
                let document = Document {
                    // There is one file, and no pictures beside it.
                    charts: Vec::new(),
                    ..runs::document(&[run])
                };
                page::markdown(&document, &[])
            }
        })
    }
}

impl Output {
    /// Prints the result, ends the stream of events with it, and gives the exit code that goes with it.
    pub(super) fn finish(mut self, mut summary: Summary, mut sinks: Vec<Box<dyn Sink>>) -> Result<ExitCode> {
        let sample = self.sample.take();
        let unsampled = sample.and_then(|sample| sample.end(&mut summary));
        // The terminal is the user's again, whatever comes.
        if let Some(serving) = &self.serving {
            serving.leave_screen();
        }
        // Millions of records: there is no second copy of them.
        let kept = summary.kept.take();
        let (programs, lack) = record::programs(&self.run, &summary);
        let mut warnings = std::mem::take(&mut summary.warnings);
        warnings.extend(
            lack.as_ref()
                .map(|lack| format!("{} is not known: {}", lack.what, lack.why)),
        );
        let summary = Summary {
            programs,
            warnings,
            command: recorded_command(),
            plan: Some(self.run.recorded().json().to_string()),
            ..summary
        };
        let (profiled, watched) = (profile::finish(&self.run), record::finish(&self.run));
        let valid = summary.valid;
        // Sinks take the rows' lock when they hear of the end: it is given back before.
        let (summary, recording) = {
            let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = record::with_threads(kept.unwrap_or_default(), &summary, watched.as_ref());
            let causes = record::causes(&summary, &kept.lanes, watched.as_ref(), &rows);
            let mut summary = Summary { causes, ..summary };
            summary.warnings.extend(record::culprits(&summary, watched.as_ref()));
            let recording =
                watched.map(|watched| record::recording(&summary, kept, watched, &rows, profiled.as_ref(), lack));
            (summary, recording)
        };
        let expectations: Vec<_> = self.expect.iter().map(|expect| expect.judge(&summary)).collect();
        let met = expectations.iter().all(|of| of.met);
        let summary = Summary {
            expectations,
            ..summary
        };
        let unprinted = self.print(&summary);
        let command = summary.command.join(" ");
        // The measured numbers come first. A file that can't be written takes no other with it.
        let mut unwritten: Vec<ReportError> = Vec::from_iter(unprinted);
        let summary = Arc::new(summary);
        let (last, forms): (Vec<_>, Vec<_>) = self
            .forms
            .into_iter()
            .partition(|(form, _)| matches!(form, Form::Junit));
        let of = Arc::clone(&summary);
        let ended = move || {
            sinks.iter_mut().for_each(|sink| sink.event(&Event::End(&of)));
            let unwritten = write_forms(&forms, &of, &[]);
            last_line(&of);
            unwritten
        };
        unwritten.extend(self.clerk.does(ended)?);
        if let (Some(target), Some(recording)) = (self.trace, recording) {
            unwritten.extend(self.clerk.does(move || write_trace(&target, &recording).err())?);
        }
        if let Some(profiled) = profiled {
            profiled.told(self.quiet).iter().for_each(|line| tell_at_end(line));
            let pictures = self.pictures;
            let write = move || {
                let files = pictures.iter();
                let written = files.map(|(picture, target)| target.write_text(&picture.of(&profiled, &command)));
                written.filter_map(|written| written.err()).collect::<Vec<_>>()
            };
            unwritten.extend(self.clerk.does(write)?);
        }
        if let Some(json) = self.json {
            if json.overtaken() {
                tell_at_end("json: another program has written this file since the run began: it is replaced");
            }
            unwritten.extend(json.written().err());
        }
        unwritten.extend(self.serving.and_then(Serving::finish));
        let incomplete = self.boards.iter().flat_map(Notes::unwritten);
        let incomplete = incomplete.chain(unsampled);
        let mut unwritten: Vec<_> = incomplete
            .chain(unwritten.into_iter().map(|error| error.to_string()))
            .collect();
        // A form that is read as a state lists the errors of every other file.
        let known = unwritten.clone();
        let state = self.clerk.does(move || write_forms(&last, &summary, &known))?;
        state_is_told();
        unwritten.extend(state.into_iter().map(|error| error.to_string()));
        let mut unwritten = unwritten.into_iter();
        let Some(first) = unwritten.next() else {
            return Ok(code(valid, met));
        };
        unwritten.for_each(|error| tell_at_end(&error));
        Err(failed(first))
    }
}

/// Writes the result in other forms; what could not be written. `known`: errors of other files.
fn write_forms(forms: &[(Form, JsonTarget)], summary: &Summary, known: &[String]) -> Vec<ReportError> {
    let written = forms.iter().map(|(form, target)| {
        let text = form.of(summary, known)?;
        match form {
            Form::Junit => target.write_state(&text),
            _ => target.write_text(&text),
        }
    });
    written.filter_map(|written| written.err()).collect()
}

/// The exit code of a run that took place. One that is not valid proves nothing, whatever it was to reach.
fn code(valid: bool, met: bool) -> ExitCode {
    match (valid, met) {
        (true, true) => ExitCode::SUCCESS,
        (true, false) => ExitCode::from(4),
        (false, _) => ExitCode::from(3),
    }
}

impl Output {
    fn open(args: &RunArgs, opens: Opens<'_>) -> Result<(Sinks, Self)> {
        let own = opens.file;
        let mut args = args.clone();
        args.tell = folder::placed(&args, opens.lanes);
        let args = &args;
        let of_ways = if opens.both_ways {
            files_of_ways(args)
        } else {
            Vec::new()
        };
        let files: Vec<_> = own
            .iter()
            .map(|(option, path, _)| (*option, Some(*path)))
            .chain([
                ("--csv", args.tell.csv.as_deref()),
                ("--lanes-csv", args.tell.lanes_csv.as_deref()),
                ("--json", args.tell.json.as_deref()),
                ("--json-lines", args.tell.json_lines.as_deref()),
                ("--junit", args.tell.junit.as_deref()),
                ("--markdown", args.tell.markdown.as_deref()),
                ("--hdr", args.tell.hdr.as_deref()),
                (
                    "--sample-pcap",
                    args.tell.sample_pcap.as_ref().map(|of| of.file.as_path()),
                ),
                ("--trace", args.tell.keep.trace.as_deref()),
                ("--flame", args.tell.flame.as_deref()),
                ("--folded", args.tell.folded.as_deref()),
                ("--prom", args.tell.serve.prom.as_deref()),
            ])
            .chain(of_ways.iter().map(|file| (file.option, Some(file.path.as_path()))))
            .collect();
        let stdout = files.iter().filter(|(_, f)| *f == Some(Path::new("-"))).count();
        if stdout > 1 {
            let to_stdout = files.iter().filter(|(_, file)| *file == Some(Path::new("-")));
            let options: Vec<_> = to_stdout.map(|(option, _)| *option).collect();
            return Err(usage(format!(
                "{}: '-' for more than one: want standard output for one at the most",
                options.join(", ")
            )));
        }
        let read = read_by_program();
        let read: Vec<_> = read.iter().map(|(name, file)| (*name, Some(file.as_path()))).collect();
        for (i, (a, first)) in files.iter().enumerate() {
            for (b, second) in files[i + 1..].iter().chain(&read) {
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
        let more = of_workload.chain(of_ways.iter().map(|file| file.path.as_path()));
        let mut more: Vec<PathBuf> = more.map(Path::to_path_buf).collect();
        more.extend(args.tell.files());
        // The threads that write files inherit it.
        let beside_lanes = sched::keep_off(args.run.plan.lanes.cores.as_ref().map_or(&[], |cores| &cores.0));
        let clerk = Clerk::hire(&args.run, &more)?;
        let opened: Vec<PathBuf> = files.iter().filter_map(|(_, file)| Some((*file)?.to_owned())).collect();
        let made = match args.tell.out.clone() {
            Some(folder) => Some(clerk.does(move || folder::make(&folder, &opened))??),
            None => None,
        };
        let (args, notes) = (args.clone(), own.map(|(_, _, notes)| notes));
        let detail = if args.tell.verbose { Detail::Full } else { Detail::Brief };
        let all = args.clone();
        let rows = Arc::new(Mutex::new(Rows::default()));
        let keep = args.tell.keep.trace.clone();
        let shown = Shown::of(&args, stdout > 0);
        let style = shown.style();
        let (mut sinks, mut boards, json) = clerk.does(move || files_of(&args, style, notes, &of_ways))??;
        let trace = clerk.does(move || keep.as_deref().map(JsonTarget::prepare).transpose())?;
        let trace = trace.map_err(|e| unwritable("--trace", &e))?;
        if trace.is_some() {
            sinks.add(RowsSink(Arc::clone(&rows)));
        }
        let sample = match all.tell.sample_pcap.clone() {
            Some(sample) => {
                let opened = clerk.does(move || sample.open())?;
                Some(opened.map_err(|e| unwritable("--sample-pcap", &e))?)
            }
            None => None,
        };
        if let Some(sample) = &sample {
            sinks.add(sample.begins());
            sinks.watch(sample.notes.clone());
            boards.push(sample.notes.clone());
        }
        let samples = all.clone();
        let pictures = clerk.does(move || pictures_of(&samples))??;
        let given = all.clone();
        let forms = clerk.does(move || forms_of(&given))??;
        let serving = Serving::start(&all, None, Some(&clerk), shown)?;
        if let Some(serving) = &serving {
            sinks.add(serving.sink());
            if let Some(notes) = serving.notes() {
                sinks.watch(notes.clone());
                boards.push(notes);
            }
        }
        // The last to be dropped: what writes the files has ended.
        if let Some(made) = made {
            sinks.add(made);
        }
        let output = Self {
            run: all.run,
            quiet: all.tell.quiet,
            boards,
            json,
            trace,
            rows,
            pictures,
            sample,
            forms,
            serving,
            expect: all.tell.expect,
            detail,
            stdout_taken: stdout > 0,
            clerk,
            _beside_lanes: beside_lanes,
        };
        Ok((sinks, output))
    }

    /// Prints the summary; if quiet, only notes that are printed nowhere else. A summary that standard output does
    /// not take goes to standard error; the reason is returned.
    fn print(&self, summary: &Summary) -> Option<ReportError> {
        if self.quiet {
            // Files that could not be written are reported last, with the exit code.
            let unwritten: Vec<_> = self.boards.iter().flat_map(Notes::unwritten).collect();
            let notes = self.boards.iter().flat_map(Notes::all);
            for note in notes.filter(|note| !unwritten.contains(note)) {
                say!("{note}");
            }
            if !summary.valid {
                say!("not valid: {}", summary.invalid_reasons.join("; "));
            }
            let missed = summary.expectations.iter().filter(|of| !of.met);
            missed.for_each(|of| say!("expected {}: {}: not met", of.expected, of.told));
            return None;
        }
        let err = std::io::stderr();
        let on_stderr = || {
            let (colour, columns) = (Colour::for_stream(&err), columns_of(&err));
            print_summary(summary, self.detail, colour, columns, &mut Spoken(err.lock()))
        };
        if self.stdout_taken {
            // There is no stream left to report it on.
            let _ = on_stderr();
            return None;
        }
        let out = std::io::stdout();
        let (colour, columns) = (Colour::for_stream(&out), columns_of(&out));
        let printed = match stdout_is_closed() {
            true => Err(std::io::Error::other("it is closed")),
            false => print_summary(summary, self.detail, colour, columns, &mut Spoken(out.lock())),
        };
        // A reader that has gone (`| head`) had all that it wanted.
        let error = printed
            .and_then(|()| out.lock().flush())
            .err()
            .filter(|error| error.kind() != std::io::ErrorKind::BrokenPipe)?;
        let _ = on_stderr();
        Some(ReportError::io(
            "write the summary to",
            Path::new("standard output"),
            error,
        ))
    }
}

/// A file of one of two ways.
struct FileOfWay {
    option: &'static str,
    path: PathBuf,
    way: usize,
}

/// Files of each way, beside the files of both ways.
fn files_of_ways(args: &RunArgs) -> Vec<FileOfWay> {
    let of_both = [("--csv", &args.tell.csv), ("--hdr", &args.tell.hdr)];
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
fn files_of(
    args: &RunArgs,
    style: LiveStyle,
    own: Option<Notes>,
    of_ways: &[FileOfWay],
) -> Result<(Sinks, Vec<Notes>, Option<JsonWritten>)> {
    let mut sinks = Sinks::new();
    sinks.add(LiveSink::new(style));
    let mut boards = Vec::from_iter(own);
    if let Some(path) = &args.tell.csv {
        let csv = CsvSink::create(path).map_err(|e| unwritable("--csv", &e))?;
        boards.push(csv.notes());
        sinks.add(csv);
    }
    if let Some(path) = &args.tell.hdr {
        let hdr = HdrSink::create(path).map_err(|e| unwritable("--hdr", &e))?;
        boards.push(hdr.notes());
        sinks.add(hdr);
    }
    if let Some(path) = &args.tell.lanes_csv {
        let lanes = LanesCsvSink::create(path).map_err(|e| unwritable("--lanes-csv", &e))?;
        boards.push(lanes.notes());
        sinks.add(lanes);
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
    if let Some(path) = &args.tell.json_lines {
        let lines = JsonLines::create(path, head(args)).map_err(|e| unwritable("--json-lines", &e))?;
        boards.push(lines.notes());
        sinks.add(lines.sink());
        lines_are_open(lines);
    }
    boards.iter().for_each(|board| sinks.watch(board.clone()));
    let json = args.tell.json.as_deref().map(JsonSink::create).transpose();
    let written = json.map_err(|e| unwritable("--json", &e))?.map(|json| {
        let written = json.written();
        sinks.add(json);
        written
    });
    Ok((sinks, boards, written))
}

/// Returns the first of the JSON Lines, which describes the run.
fn head(args: &RunArgs) -> Map<String, Value> {
    Map::from_iter([
        ("version".to_owned(), env!("CARGO_PKG_VERSION").into()),
        ("command".to_owned(), recorded_command().into()),
        ("plan".to_owned(), args.run.recorded().json()),
    ])
}

/// Checks the files that the result goes to in other forms.
fn forms_of(args: &RunArgs) -> Result<Vec<(Form, JsonTarget)>> {
    let all = [
        (Form::Junit, "--junit", &args.tell.junit),
        (Form::Markdown, "--markdown", &args.tell.markdown),
    ];
    let given = all
        .into_iter()
        .filter_map(|(form, option, path)| Some((form, option, path.as_deref()?)));
    let page = folder::page(args).map(|(path, of)| (Form::Html(of), "--out", path));
    let page = page
        .as_ref()
        .map(|(form, option, path)| (form.clone(), *option, path.as_path()));
    let prepared = given
        .chain(page)
        .map(|(form, option, path)| match JsonTarget::prepare(path) {
            Ok(target) => Ok((form, target)),
            Err(e) => Err(unwritable(option, &e)),
        });
    prepared.collect()
}

/// Checks the files that samples go to.
fn pictures_of(args: &RunArgs) -> Result<Vec<(Picture, JsonTarget)>> {
    let all = [
        (Picture::Flame, "--flame", &args.tell.flame),
        (Picture::Folded, "--folded", &args.tell.folded),
    ];
    let mut targets = Vec::new();
    for (picture, option, path) in all {
        if let Some(path) = path {
            targets.push((picture, JsonTarget::prepare(path).map_err(|e| unwritable(option, &e))?));
        }
    }
    Ok(targets)
}
