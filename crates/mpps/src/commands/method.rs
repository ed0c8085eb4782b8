//! Methods: their settings from the arguments, and what is shown while they run.

use super::output::Program;
use super::serving::{Serving, Shown};
use super::state_files::state_is_told;
use crate::cli::{Method, Ndr, Overload, RunArgs, recorded_command, version};
use crate::fail::{Result, failed, print_words, say, usage};
use mpps_methods::search::{Bounds, Goal};
use mpps_methods::{Ask, Common, Teller, View, ndr, overload};
use mpps_pages::document::Document;
use mpps_run::Host;
use mpps_run::privilege::Clerk;
use mpps_serve::TrialAbout;
use mpps_stats::Sink;
use mpps_sys::signal;
use mpps_sys::text::{Harmless, Spoken};
use std::cell::RefCell;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

pub(super) fn ndr(args: &Ndr) -> Result<ExitCode> {
    no_tolerance(&args.method)?;
    let settings = ndr::Ndr::new(&args.goal, args.quick, args.search_time);
    run(&args.method, |common, caller| ndr::run(common, &settings, caller))
}

pub(super) fn overload(args: &Overload) -> Result<ExitCode> {
    let usual = overload::Overload::new(args.quick);
    let settings = overload::Overload {
        reference: args.reference.clone(),
        trial: args.trial.unwrap_or(usual.trial),
        rounds: args.rounds.unwrap_or(usual.rounds),
        device: args.device.clone(),
        ..usual
    };
    run(&args.method, |common, caller| overload::run(common, &settings, caller))
}

/// Runs a method with the program's signals, files and views.
pub(super) fn run(
    args: &Method,
    method: impl FnOnce(&Common, (&Host<'_>, &dyn View)) -> Result<u8>,
) -> Result<ExitCode> {
    chosen_by_method(args)?;
    let of_run = &args.traffic.args;
    let tell = &of_run.tell;
    let common = Common {
        run: of_run.run.clone(),
        min_rate: args.min_rate.clone(),
        max_rate: args.max_rate.clone(),
        pause: args.pause,
        settle: args.settle_given.then(|| *of_run.run.plan.times.settle),
        folder: tell.out.clone(),
        resume: args.resume,
        junit: tell.junit.clone(),
        files: tell.files(),
        device_note: args.dut_note.clone(),
        expect: tell.expect.clone(),
        command: recorded_command(),
        version: version::short(),
    };
    let program = Program::new(of_run);
    let host = Host {
        interruptions: &signal::interruptions,
        steps: &program,
    };
    let views = Views {
        args: Some(of_run),
        ..Views::lines(tell.quiet)
    };
    method(&common, (&host, &views)).map(ExitCode::from)
}

/// Views of a method: lines on standard error, servers, the full-screen view, and the result on standard output.
pub(super) struct Views<'a> {
    /// Arguments with servers and screen, if there are any.
    args: Option<&'a RunArgs>,
    quiet: bool,
    serving: RefCell<Option<Serving>>,
}

impl Views<'_> {
    /// Creates views that are lines alone.
    pub(super) fn lines(quiet: bool) -> Self {
        Self {
            args: None,
            quiet,
            serving: RefCell::default(),
        }
    }
}

impl View for Views<'_> {
    fn start(&self, test: &'static str, clerk: Option<&Clerk>) -> Result<()> {
        if let Some(args) = self.args {
            *self.serving.borrow_mut() = Serving::start(args, Some(test), clerk, Shown::of(args, false))?;
        }
        Ok(())
    }

    fn teller(&self) -> Teller {
        let (serving, quiet) = (self.serving.borrow().as_ref().map(Serving::teller), self.quiet);
        Arc::new(move |line| {
            let shown = serving.as_ref().is_some_and(|tell| tell(line));
            if !shown && !quiet {
                say!("{line}");
            }
        })
    }

    fn trial(&self, ask: &Ask) -> Option<Box<dyn Sink>> {
        let serving = self.serving.borrow();
        let serving = serving.as_ref()?;
        serving.trial(TrialAbout {
            phase: ask.phase.name().to_owned(),
            frame_size: ask.frame_size,
            load_pps: ask.load,
        });
        Some(Box::new(serving.sink()))
    }

    fn search(&self, frame_size: usize, goals: &[Goal], bounds: &[Bounds]) {
        if let Some(serving) = &*self.serving.borrow() {
            let known = goals.iter().zip(bounds).map(|(goal, bounds)| mpps_serve::Goal {
                name: goal.name(),
                frame_size,
                lower: bounds.lower,
                upper: bounds.upper,
            });
            serving.search(known.collect());
        }
    }

    fn result(&self, lines: &[String], document: &Document) -> Result<()> {
        let serving = self.serving.borrow();
        serving.iter().for_each(Serving::leave_screen);
        let write = |out: &mut dyn Write| lines.iter().try_for_each(|line| writeln!(out, "{line}"));
        let printed = print_words(write);
        if printed.is_err() {
            // There is no stream left to report it on.
            let _ = write(&mut Spoken(Harmless(io::stderr().lock())));
        }
        serving.iter().for_each(|serving| serving.done(document));
        printed
    }

    fn end(&self, unwritten: &[String]) -> Result<()> {
        state_is_told();
        unwritten.iter().for_each(|line| say!("{line}"));
        match self.serving.take().and_then(Serving::finish) {
            Some(unwritten) => Err(failed(unwritten)),
            None => Ok(()),
        }
    }
}

/// Errors: a method takes no option for rows, and none for one file of results.
const NO_ROWS: &str = "a method has trials, not rows: want --out DIR in its place";
const A_FOLDER: &str = "a method has a folder of results: want --out DIR in its place";

/// Refuses options on output that a method does not have.
fn chosen_by_method(args: &Method) -> Result<()> {
    let RunArgs { tell, print_plan, .. } = &args.traffic.args;
    let given = [
        ("--csv", tell.csv.is_some(), NO_ROWS),
        ("--lanes-csv", tell.lanes_csv.is_some(), NO_ROWS),
        ("--streams-csv", tell.streams_csv.is_some(), NO_ROWS),
        ("--json", tell.json.is_some(), A_FOLDER),
        (
            "--json-lines",
            tell.json_lines.is_some(),
            "a method writes a line of trials.jsonl in the folder of --out for each trial: want --out DIR in its place",
        ),
        (
            "--junit",
            tell.junit.as_deref() == Some(Path::new("-")),
            "standard output has the lines of the method: want a file",
        ),
        ("--markdown", tell.markdown.is_some(), A_FOLDER),
        ("--hdr", tell.hdr.is_some(), NO_ROWS),
        (
            "--profile",
            tell.profile.is_some(),
            "a method has many trials: want sendrecv … --profile HZ",
        ),
        (
            "--trace",
            tell.keep.trace.is_some(),
            "a method has many trials: want sendrecv … --trace FILE",
        ),
        (
            "--sample-pcap",
            tell.sample_pcap.is_some(),
            "a method has many trials: want sendrecv … --sample-pcap FILE",
        ),
        (
            "--print-plan",
            *print_plan,
            "a method varies a plan: want sendrecv … --print-plan",
        ),
    ];
    match given.into_iter().find(|(_, given, _)| *given) {
        Some((option, _, why)) => Err(usage(format!("{option}: {why}"))),
        None => Ok(()),
    }
}

/// Refuses to search among trials that were not sent as asked: what was never sent is not lost, and passes.
pub(super) fn no_tolerance(args: &Method) -> Result<()> {
    match args.tolerance_given {
        true => Err(usage(
            "--tolerance: a trial that is not sent as asked decides nothing: want it left out",
        )),
        false => Ok(()),
    }
}
