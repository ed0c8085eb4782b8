//! `demo`: the whole program in one command, for somebody who has just built it.
//!
//! It runs what a user would type, and prints each command line before it does, so that the demo teaches the program
//! instead of hiding it: the two ends are processes of their own, as in real use. Whatever happens (Ctrl-C, an error,
//! a panic), the processes are ended and the lab is removed by the values that own them going out of scope; after a
//! `kill -9` the reflectors end with the demo, and the next demo removes the lab.

pub(super) mod child;
mod figures;
mod folder;
pub(super) mod stage;
mod tell;
mod throughput;

use crate::cli::Demo;
use crate::fail::{Failure, Result, failed, usage};
use child::{Reflector, interrupted, measure, show};
use figures::{Figures, Runs, half, rate_text, table};
use folder::Folder;
use mpps_host::lab::{Host, ScratchLab};
use mpps_run::paths::shown;
use mpps_run::privilege::as_user;
use mpps_sys::signal;
use stage::{Shown, Stage, words};
use std::process::ExitCode;
use std::time::Duration;
use tell::{Teller, say};

/// Bytes of the frames of `sendrecv` as it is called here.
const FRAME: usize = 64;
/// Length of the run that finds the rate.
const CALIBRATION: Duration = Duration::from_secs(2);
/// Length of each run of the comparison, and how many there are of each path: a single run says little on a host that
/// does other things, too.
const COMPARISON: Duration = Duration::from_millis(700);
const RUNS: usize = 3;
/// Time for which a comparison waits for packets under way.
const SETTLE: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &Demo) -> Result<ExitCode> {
    check(args)?;
    signal::catch_interrupts();
    let mut tell = Teller::new();
    // Processes that a killed demo left behind may still write into the folder. Where labs can't be made there is none
    // to remove.
    let _ = ScratchLab::remove_stale();
    let folder = as_user(|| Folder::take(&args.out))?;
    let stage = Stage::set(&mut tell, args.path.as_deref())?;
    let code = play(args, &mut tell, &folder, &stage);
    if stage.has_lab() {
        drop(stage);
        if code.is_ok() {
            say("The lab of the demo is removed.");
        }
    }
    code
}

/// Refuses what can't be meant before anything is made.
fn check(args: &Demo) -> Result<()> {
    let paths: Vec<_> = shown().map(|(path, _)| path).collect();
    if let Some(path) = args.path.as_deref().filter(|p| !paths.contains(p)) {
        return Err(usage(format!("--path '{path}': want one of {}", paths.join(", "))));
    }
    if let Some(rate) = &args.rate {
        rate.known(FRAME)
            .map_err(|want| usage(format!("--rate '{rate}': want {want}")))?;
    }
    Ok(())
}

fn play(args: &Demo, tell: &mut Teller, folder: &Folder, stage: &Stage) -> Result<ExitCode> {
    let path = stage.path();
    let ends = stage.ends(path)?;
    tell.step("Start a reflector: it sends every UDP packet back where it came from");
    let limit = args.duration + Duration::from_secs(30);
    let reflect = words(["reflect", &ends.reflect, "--duration", &seconds(limit)])
        + ends.core(stage, Host::B)
        + words(["--json", &folder.file("reflect.json")]);
    let reflector = Reflector::start(tell, stage, &reflect)?;

    let mut fastest = None::<Figures>;
    let rate = match &args.rate {
        Some(rate) => rate.to_string(),
        None => {
            let title = format!(
                "Find what this host can turn round: {} as fast as it goes",
                seconds(CALIBRATION)
            );
            tell.step(&title);
            let found = measure(
                tell,
                stage,
                &ends,
                None,
                (CALIBRATION, None),
                &folder.file("calibration.json"),
            )?;
            say(&format!("   {}", found.in_words()));
            let rate = half(found.received_pps)
                .ok_or_else(|| failed("demo: no packet came back from the reflector: nothing to measure"))?;
            fastest = Some(found);
            rate_text(rate)
        }
    };

    tell.step(&format!("Measure for {} at {rate}", seconds(args.duration)));
    if fastest.is_some() {
        say("   (half of what this host can turn round, so that the generator has headroom)");
    }
    let send = ends.sendrecv(stage, Some(&rate), args.duration)
        + words(["--csv", &folder.file("run.csv"), "--json", &folder.file("run.json")])
        + words(["--hdr", &folder.file("run.hdr")]);
    tell.command(&stage.typed(Host::A, &send));
    say("");
    let code = show(stage, &send)?;
    let main = Figures::read(&folder.file("run.json"))?;
    if let Some(why) = reflector.stop() {
        say(&format!("\nnote: the reflector ended before its time: {why}"));
    }

    tell.step("Draw it");
    draw(tell, stage, folder)?;
    if stage.has_lab() && !interrupted() {
        let paced = args.rate.is_some().then_some(rate.as_str());
        compare(tell, stage, folder, paced)?;
    }
    if !interrupted() {
        let flat_out = fastest.as_ref().map(|found| found.received_pps);
        throughput::search(tell, stage, folder, flat_out)?;
    }
    what_to_look_at(tell, folder, stage);
    if !main.valid {
        say("The measurement is not valid, for the reasons above: its numbers are not to be");
        say("trusted. A quieter host, a lower --rate or a longer --duration may help.\n");
    }
    Ok(code)
}

fn draw(tell: &mut Teller, stage: &Stage, folder: &Folder) -> Result<()> {
    for picture in ["run.svg", "run.png"] {
        let (csv, output) = (folder.file("run.csv"), folder.file(picture));
        tell.command(&stage.typed_here(&words(["plot", &csv, "-o", &output])));
        match as_user(|| Ok(mpps_pages::plot(csv.as_ref(), output.as_ref())?)) {
            // A run that was ended at once may have nothing to draw.
            Err(Failure::Failed(error)) if interrupted() => say(&format!("   {error}")),
            result => result?,
        }
    }
    Ok(())
}

/// Short runs on each path in turns, so that what the host does meanwhile meets all of them alike.
fn compare(tell: &mut Teller, stage: &Stage, folder: &Folder, rate: Option<&str>) -> Result<()> {
    let pace = rate.map_or_else(|| "as fast as it goes".to_owned(), |rate| format!("at {rate}"));
    tell.step(&format!(
        "For comparison each path {pace}: {RUNS} runs of {} in turns",
        seconds(COMPARISON)
    ));
    for (path, demo) in shown() {
        say(&format!("   {path:<9}  {}", demo.about));
    }
    let mut paths: Vec<_> = shown().map(|path| (path, Runs::new(path.0))).collect();
    let mut not_here = Vec::new();
    for round in 0..RUNS {
        for (path, of) in paths.iter_mut().filter(|(_, of)| round == 0 || !of.runs.is_empty()) {
            match one_run(tell, stage, folder, *path, rate, round) {
                Ok(found) => of.runs.push(found),
                // The measurement is done; what is missing is beside it.
                Err(_) if interrupted() => return Ok(()),
                // Not every kernel has it; doctor says what it lacks.
                Err(Failure::Usage(line) | Failure::Failed(line)) if path.1.optional => {
                    not_here.push(format!("   {}: not here: {line}", of.path));
                }
                Err(error) => return Err(error),
            }
        }
    }
    let paths = paths.into_iter().map(|(_, of)| of).filter(|of| !of.runs.is_empty());
    let paths: Vec<_> = paths.collect();
    say("");
    say("   of the valid runs: the median, how far they lie apart, and the highest loss");
    table(&paths, rate.is_some())
        .iter()
        .chain(&not_here)
        .for_each(|line| say(line));
    Ok(())
}

/// One run of a comparison; the commands are shown in the first round.
fn one_run(
    tell: &mut Teller,
    stage: &Stage,
    folder: &Folder,
    path: Shown,
    rate: Option<&str>,
    round: usize,
) -> Result<Figures> {
    tell.hush(round > 0);
    let ends = stage.ends(path)?;
    let path = path.0;
    let reflect = words(["reflect", &ends.reflect, "--duration", "30s"])
        + ends.core(stage, Host::B)
        + words(["--json", &folder.file(&format!("{path}-reflect.json"))]);
    let reflector = Reflector::start(tell, stage, &reflect);
    let file = folder.file(&format!("{path}-{}.json", round + 1));
    let found = reflector.and_then(|_reflector| measure(tell, stage, &ends, rate, (COMPARISON, Some(SETTLE)), &file));
    tell.hush(false);
    found
}

fn what_to_look_at(tell: &mut Teller, folder: &Folder, stage: &Stage) {
    tell.heading("What to look at");
    for (file, what) in [
        ("run.png", "rate, loss and latency over time (also .svg)"),
        ("run.csv", "the same as numbers, a row each 100 ms"),
        ("run.json", "the summary, for programs"),
        ("run.hdr", "the latency, for any HdrHistogram tool"),
        ("reflect.json", "what the reflector saw"),
        ("report.html", "the search for the highest rate, as a page"),
        ("report.md", "the same as text"),
    ] {
        let file = folder.file(file);
        if std::path::Path::new(&file).exists() {
            say(&format!("   {:<width$}  {what}", file, width = folder.width()));
        }
    }
    tell.heading("What to try next");
    let program = stage.program();
    let commands = [
        (format!("{program} doctor"), "what limits this host, and what helps"),
        (format!("{program} lab up"), "a lab that stays, for the commands above"),
        (
            format!("{program} sendrecv --help"),
            "sizes, flows, lanes, pacing and the rest",
        ),
    ];
    let width = commands.iter().map(|(c, _)| c.chars().count()).max().unwrap_or(0);
    for (command, what) in commands {
        say(&format!("   {command:<width$}  {what}"));
    }
    say("");
}

/// A time as the command line takes it.
fn seconds(time: Duration) -> String {
    format!("{}s", time.as_secs_f64())
}
