//! `trace`: what a run has kept, read again.

use crate::cli::{Show, Trace};
use crate::fail::{Result, print, usage};
use crate::privilege::as_user;
use mpps_report::{read_trace, write_ctf};
use mpps_trace::{Cause, Recording, Subject, count, table, time};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

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
    if let Some(folder) = &args.ctf {
        let counts = as_user(|| write_ctf(folder, &recording).map_err(|e| usage(e.to_string())))?;
        let written = counts
            .by_trace()
            .map(|(name, n)| format!("{} events in {name}", count(n)));
        print(|out| writeln!(out, "{}: {}", folder.display(), written.join(", ")))?;
    }
    print(|out| match (args.show, &other) {
        (None, _) if args.ctf.is_some() => Ok(()),
        (Some(Show::Compare), Some(other)) => {
            writeln!(out, "A: {}\nB: {}\n", recording.meta.command, other.meta.command)?;
            write!(out, "{}", table::compare(&recording, other))
        }
        (Some(Show::Table), _) => tables(&recording, out),
        (Some(Show::Why), _) => why(&recording, out),
        _ => {
            writeln!(out, "{}\n", recording.meta.command)?;
            tables(&recording, out)?;
            writeln!(out)?;
            why(&recording, out)
        }
    })?;
    Ok(ExitCode::SUCCESS)
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

fn why(recording: &Recording, out: &mut dyn Write) -> io::Result<()> {
    let subjects = [
        (Subject::Loss, "Lost", "packets"),
        (Subject::Late, "Late", "ns"),
        (Subject::Slow, "Slow", "ns"),
    ];
    let mut any = false;
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
        for cause in causes {
            writeln!(out, "- {}", cause.sentence)?;
            for part in cause.parts.iter().filter(|_| cause.parts.len() > 1) {
                match unit {
                    "ns" => writeln!(out, "    {:>10}  {}", time(part.amount as f64), part.what)?,
                    _ => writeln!(out, "    {:>10}  {}", count(part.amount), part.what)?,
                }
            }
        }
    }
    if !any {
        writeln!(out, "Nothing was lost, late or slow that the trace has kept.")?;
    }
    Ok(())
}
