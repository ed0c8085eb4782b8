//! `trace`: what a run has kept, read again.

use crate::cli::{Show, Trace};
use crate::fail::unwritable;
use crate::fail::{Result, failed, print_words, usage};
use clap::ValueEnum;
use mpps_report::{JsonTarget, ReportError, read_trace, same_file, write_ctf};
use mpps_run::privilege::as_user;
use mpps_run::profile::{Picture, Samples};
use mpps_sys::text::Spoken;
use mpps_trace::{Cause, Recording, Subject, count, over_time, table, time, tree};
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Number of causes of each kind that are printed by default: the worst ones.
const WORST: usize = 3;

/// Runs the command.
pub(crate) fn run(args: &Trace) -> Result<ExitCode> {
    let other = match (args.show, &args.other) {
        (Some(Show::Compare), Some(other)) => Some(other),
        (Some(Show::Compare), None) => return Err(usage("compare: want a second trace: FILE compare FILE")),
        (_, Some(other)) => {
            return Err(usage(format!(
                "{}: a second trace goes with compare only",
                other.display()
            )));
        }
        (_, None) => None,
    };
    let read = |path: &Path| as_user(|| read_trace(path).map_err(|e| usage(e.to_string())));
    let Some(file) = &args.file else {
        return Err(usage("trace: want a file, as --trace has written it"));
    };
    let recording = read(file)?;
    let other = other.map(|path| read(path)).transpose()?;
    let pictures = pictures(args, file)?;
    let stretch = stretch(args)?;
    let samples = match !pictures.is_empty() || stretch.is_some() {
        true => Some(samples(file, &recording, stretch.as_ref())?),
        false => None,
    };
    if let Some(samples) = &samples {
        for (picture, target) in &pictures {
            let text = picture.of(samples, &recording.meta.command);
            as_user(|| target.write_text(&text).map_err(failed))?;
        }
    }
    // Text for flamegraph.pl and the like is alone on standard output.
    let taken = [&args.folded, &args.svg].map(|out| out.as_deref() == Some(Path::new("-")));
    let print = |write: &dyn Fn(&mut dyn Write) -> io::Result<()>| {
        let mut text = Vec::new();
        write(&mut text).map_err(|e| failed(format!("make the tables: {e}")))?;
        let text = harmless(&String::from_utf8_lossy(&text));
        match taken.contains(&true) {
            true => Spoken(io::stderr().lock()).write_all(text.as_bytes()).map_err(failed),
            false => print_words(|out| out.write_all(text.as_bytes())),
        }
    };
    if let Some(folder) = &args.ctf {
        let counts = as_user(|| {
            write_ctf(folder, &recording).map_err(|e| match e {
                // The folder was right, and is full now.
                ReportError::Io { op: "write", .. } => failed(e),
                _ => usage(e.to_string()),
            })
        })?;
        let written = counts
            .by_trace()
            .map(|(name, n)| format!("{} events in {name}", count(n)));
        print(&|out| writeln!(out, "{}: {}", folder.display(), written.join(", ")))?;
    }
    print(&|out| match (args.show, &other) {
        (None, _) if args.ctf.is_some() || !pictures.is_empty() => Ok(()),
        (Some(Show::Compare), Some(other)) => {
            writeln!(out, "A: {}\nB: {}\n", recording.meta.command, other.meta.command)?;
            write!(out, "{}", table::compare(&recording, other))
        }
        (Some(Show::Table), _) => tables(&recording, out),
        (Some(Show::Why), _) => why(&recording, usize::MAX, file, out),
        (Some(Show::Tree), _) => tree(&recording, samples.as_ref(), out),
        _ => {
            writeln!(out, "{}\n", recording.meta.command)?;
            tables(&recording, out)?;
            writeln!(out)?;
            why(&recording, WORST, file, out)
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Replaces all that would act on a terminal: the file may be a stranger's, and anybody chooses the names of threads.
fn harmless(text: &str) -> String {
    let shown = |c: char| {
        if mpps_sys::text::is_hidden(c) && c != '\n' {
            '\u{fffd}'
        } else {
            c
        }
    };
    text.chars().map(shown).collect()
}

/// Prepares the files of the samples: whether they can be written is known before anything is.
fn pictures(args: &Trace, file: &Path) -> Result<Vec<(Picture, JsonTarget)>> {
    let all = [
        (Picture::Folded, "--folded", &args.folded),
        (Picture::Flame, "--svg", &args.svg),
    ];
    if let (Some(folded), Some(svg)) = (&args.folded, &args.svg)
        && same_file(folded, svg)
    {
        let name = folded.display();
        return Err(usage(format!(
            "--folded and --svg: both '{name}': want a file of its own for each"
        )));
    }
    let mut targets = Vec::new();
    for (picture, option, out) in all {
        let Some(out) = out else { continue };
        let name = out.display();
        if same_file(out, file) {
            return Err(usage(format!("{option} {name}: that is the trace: want another file")));
        }
        // `--folded table`: the word that says what to print is taken for the file.
        if out.to_str().is_some_and(|word| Show::from_str(word, false).is_ok()) {
            return Err(usage(format!(
                "{option} {name}: want '{name} {option}' to print that as well, or ./{name} for a file of this name"
            )));
        }
        let target = as_user(|| JsonTarget::prepare(out).map_err(|e| unwritable(option, &e)))?;
        targets.push((picture, target));
    }
    Ok(targets)
}

/// Returns the time range of the samples that are used, ns since the start of the run; `None`: all samples.
fn stretch(args: &Trace) -> Result<Option<Range<u64>>> {
    let (option, time) = match (args.from, args.to) {
        (Some(from), _) => ("--from", from),
        (None, Some(to)) => ("--to", to),
        (None, None) => return Ok(None),
    };
    if args.folded.is_none() && args.svg.is_none() && args.show != Some(Show::Tree) {
        return Err(usage(format!(
            "{option} {time:?}: want --svg, --folded or tree as well: tables and causes are of the whole run"
        )));
    }
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let stretch = args.from.map_or(0, ns)..args.to.map_or(u64::MAX, ns);
    if stretch.is_empty() {
        let (from, to) = (args.from.unwrap_or_default(), args.to.unwrap_or_default());
        return Err(usage(format!("--to {to:?}: want a time after --from {from:?}")));
    }
    Ok(Some(stretch))
}

/// The samples in a trace, or those of a stretch of its run.
fn samples(file: &Path, recording: &Recording, stretch: Option<&Range<u64>>) -> Result<Samples> {
    let sampling = recording.meta.sampling.clone().unwrap_or_default();
    if recording.samples.is_empty() {
        let name = file.display();
        return Err(usage(match sampling.failed {
            Some(why) => format!("{name}: there are no samples in it (--profile {}): {why}", sampling.hz),
            None => format!("{name}: there are no samples in it: want a run with --profile 997 beside --trace"),
        }));
    }
    let meta = &recording.meta;
    let since = |at_ns: u64| at_ns.saturating_sub(meta.start_ns);
    let of = |stretch: &Range<u64>, at_ns| stretch.contains(&since(at_ns));
    let samples = recording.samples.iter();
    let samples: Vec<_> = samples
        .filter(|sample| stretch.is_none_or(|s| of(s, sample.at_ns)))
        .cloned()
        .collect();
    let second = |ns: u64| format!("{:.6} s", ns as f64 / 1e9);
    // Samples are taken until the settle time is over.
    let over = recording.samples.last().map_or(0, |sample| since(sample.at_ns));
    let over = over.max(since(meta.end_ns));
    let ends = stretch.map(|s| (second(s.start), second(s.end.min(over.max(s.start)))));
    let words = ends.map(|(from, to)| format!("from {from} to {to} of the run"));
    if let (true, Some(words)) = (samples.is_empty(), &words) {
        let [first, last] = [recording.samples.first(), recording.samples.last()];
        let [first, last] = [first, last].map(|of| second(of.map_or(0, |of| since(of.at_ns))));
        return Err(usage(format!(
            "{}: no samples in it are {words}: want a time between {first} and {last}",
            file.display()
        )));
    }
    Ok(Samples {
        samples,
        frames: recording.frames.clone(),
        sampling,
        stretch: words,
    })
}

fn tables(recording: &Recording, out: &mut dyn Write) -> io::Result<()> {
    if recording.stages.is_empty() {
        writeln!(out, "No stages: this run had no lanes of its own that could be timed.")?;
    } else {
        write!(out, "{}", table::stages(&recording.stages))?;
    }
    if !recording.programs.is_empty() {
        writeln!(out, "\nPrograms in the kernel, by its own count:")?;
        write!(out, "{}", table::programs(&recording.programs))?;
    }
    if !recording.meta.cost.is_empty() {
        writeln!(out, "{}", recording.meta.cost)?;
    }
    let rounds = over_time::text(recording);
    if !rounds.is_empty() {
        write!(out, "\n{rounds}")?;
    }
    writeln!(out)?;
    if recording.takers.iter().any(|taker| taker.total_ns > 0) {
        writeln!(out, "What took the cores:")?;
        write!(out, "{}", table::takers(&recording.takers))?;
        if let Some(ns) = recording.meta.steal_ns {
            writeln!(
                out,
                "The hypervisor took {} from all cores of this host together (steal).",
                time(ns as f64)
            )?;
        }
    } else {
        writeln!(out, "What took the cores: nothing is known to have done so.")?;
    }
    for left_out in &recording.meta.left_out {
        match left_out.count {
            0 => writeln!(out, "Not in the trace: {}: {}", left_out.what, left_out.why)?,
            n => writeln!(
                out,
                "Not in the trace: {} {}: {}",
                count(n),
                left_out.what,
                left_out.why
            )?,
        }
    }
    Ok(())
}

/// Threads with their lanes and stages, and with functions where there are samples; of a stretch of the run with
/// functions alone.
fn tree(recording: &Recording, of_stretch: Option<&Samples>, out: &mut dyn Write) -> io::Result<()> {
    let stretch = of_stretch.and_then(|samples| samples.stretch.as_ref());
    if stretch.is_none() {
        writeln!(
            out,
            "Threads, lanes and stages (a lane's self time is its stage 'rest'):"
        )?;
        write!(out, "{}", tree::stages(recording))?;
    }
    match stretch {
        Some(words) => writeln!(out, "Functions, by samples (--profile) {words}:")?,
        None if recording.samples.is_empty() => {
            let what = "No functions are in the trace: a run of mpps has them by --profile 997 beside --trace";
            return writeln!(out, "\n{what}.");
        }
        None => writeln!(out, "\nFunctions, by samples (--profile):")?,
    }
    let samples = of_stretch.map_or(&recording.samples, |of| &of.samples);
    write!(out, "{}", tree::calls(recording, samples))
}

/// Prints the worst causes of each kind, at most `most`, and where the others are.
fn why(recording: &Recording, most: usize, file: &Path, out: &mut dyn Write) -> io::Result<()> {
    let subjects = [
        (Subject::Loss, "Lost", "packets"),
        (Subject::Missed, "Missed", "packets"),
        (Subject::Late, "Late", "ns"),
        (Subject::Slow, "Slow", "ns"),
    ];
    let (mut any, mut more) = (false, 0);
    for (subject, title, unit) in subjects {
        let causes: Vec<&Cause> = recording
            .causes
            .iter()
            .filter(|cause| cause.subject == subject)
            .collect();
        if causes.is_empty() {
            continue;
        }
        any = true;
        writeln!(out, "{title}:")?;
        more += causes.len().saturating_sub(most);
        for cause in causes.into_iter().take(most) {
            writeln!(out, "- {}", cause.sentence)?;
            for part in cause.parts.iter().filter(|_| cause.parts.len() > 1) {
                match unit {
                    "ns" => writeln!(out, "    {:>10}  {}", time(part.amount as f64), part.what)?,
                    _ => writeln!(out, "    {:>10}  {}", count(part.amount), part.what)?,
                }
            }
        }
    }
    if more > 0 {
        let name = file.display();
        writeln!(out, "{} more, less bad: mpps trace {name} why", count(more as u64))?;
    }
    if !any {
        writeln!(out, "Nothing was lost, missed, late or slow that the trace has kept.")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{WORST, harmless, why};
    use mpps_trace::{Cause, Part, Recording, Subject};
    use std::path::Path;

    #[test]
    fn the_worst_of_each_kind_are_told_and_where_the_others_are() {
        let cause = |subject, number: u64| Cause {
            subject,
            at_ns: number,
            took_ns: 9,
            lane: None,
            packets: 9,
            sentence: format!("{subject:?} {number}."),
            parts: vec![
                Part {
                    what: "path".to_owned(),
                    amount: 5
                };
                2
            ],
        };
        let subjects = [Subject::Loss, Subject::Late, Subject::Slow, Subject::Missed];
        let causes = subjects
            .into_iter()
            .flat_map(|subject| (1..=5).map(move |number| cause(subject, number)));
        let recording = Recording {
            causes: causes.collect(),
            ..Recording::default()
        };
        let told = |most: usize| {
            let mut text = Vec::new();
            why(&recording, most, Path::new("t.gz"), &mut text).expect("memory");
            String::from_utf8(text).expect("text")
        };
        let short = told(WORST);
        assert_eq!(
            short.lines().filter(|line| line.starts_with("- ")).count(),
            12,
            "{short}"
        );
        assert!(short.contains("- Slow 3.") && !short.contains("Slow 4."), "{short}");
        assert!(short.ends_with("8 more, less bad: mpps trace t.gz why\n"), "{short}");
        let all = told(usize::MAX);
        assert_eq!(all.lines().filter(|line| line.starts_with("- ")).count(), 20, "{all}");
        assert!(!all.contains("less bad"), "{all}");
    }

    #[test]
    fn names_in_a_trace_do_nothing_to_the_terminal() {
        assert_eq!(
            harmless("core 1\n\x1b]0;x\x07 µs\u{9b}2J"),
            "core 1\n\u{fffd}]0;x\u{fffd} µs\u{fffd}2J"
        );
    }
}
