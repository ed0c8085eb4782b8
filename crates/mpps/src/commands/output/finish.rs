//! The end of a run: its result is completed, printed and written.

use super::super::serving::Serving;
use super::super::state_files::{last_line, state_is_told};
use super::Output;
use super::forms::{Form, write_forms};
use crate::cli::recorded_command;
use crate::fail::{Result, failed, say, tell_at_end};
use mpps_report::{Colour, Notes, ReportError, columns_of, print_summary, write_trace};
use mpps_run::profile::{self, Samples};
use mpps_run::record;
use mpps_stats::{Event, Remark, RemarkName, Sink, Summary, sentences};
use mpps_sys::stdio::stdout_is_closed;
use mpps_sys::text::Spoken;
use mpps_trace::Recording;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, PoisonError};

/// Result of a run, with all that is known of it.
struct Complete {
    summary: Summary,
    recording: Option<Recording>,
    profiled: Option<Samples>,
}

impl Output {
    /// Prints the result, ends the stream of events with it, and gives the exit code that goes with it.
    pub(in crate::commands) fn finish(
        mut self,
        mut summary: Summary,
        mut sinks: Vec<Box<dyn Sink>>,
    ) -> Result<ExitCode> {
        let sample = self.sample.take();
        let unsampled = sample.and_then(|sample| sample.end(&mut summary));
        // The terminal is the user's again, whatever comes.
        if let Some(serving) = &self.serving {
            serving.leave_screen();
        }
        let Complete {
            summary,
            recording,
            profiled,
        } = self.complete(summary);
        let code = code(summary.valid, summary.expectations.iter().all(|of| of.met));
        let unprinted = self.print(&summary);
        let command = summary.command.join(" ");
        // The measured numbers come first. A file that can't be written takes no other with it.
        let mut unwritten: Vec<ReportError> = Vec::from_iter(unprinted);
        let summary = Arc::new(summary);
        let (last, forms): (Vec<_>, Vec<_>) = std::mem::take(&mut self.forms)
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
        if let (Some(target), Some(recording)) = (self.trace.take(), recording) {
            unwritten.extend(self.clerk.does(move || write_trace(&target, &recording).err())?);
        }
        if let Some(profiled) = profiled {
            unwritten.extend(self.write_pictures(profiled, command)?);
        }
        if let Some(json) = self.json.take() {
            if json.overtaken() {
                tell_at_end("json: another program has written this file since the run began: it is replaced");
            }
            unwritten.extend(json.written().err());
        }
        unwritten.extend(self.serving.take().and_then(Serving::finish));
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
            return Ok(code);
        };
        unwritten.for_each(|error| tell_at_end(&error));
        Err(failed(first))
    }

    /// Adds to a summary what only this program knows: its command, causes, and what was expected of the run.
    fn complete(&self, mut summary: Summary) -> Complete {
        // Millions of records: there is no second copy of them.
        let kept = summary.kept.take();
        let (programs, lack) = record::programs(&self.run, &summary);
        let mut warnings = std::mem::take(&mut summary.warnings);
        warnings.extend(lack.as_ref().map(|lack| {
            let text = format!("{} is not known: {}", lack.what, lack.why);
            Remark::new(RemarkName::ProgramsUnknown, text)
        }));
        let summary = Summary {
            programs,
            warnings,
            command: recorded_command(),
            plan: Some(self.run.recorded().json().to_string()),
            ..summary
        };
        let (profiled, watched) = (profile::finish(&self.run), record::finish(&self.run));
        // Sinks take the rows' lock when they hear of the end: it is given back before.
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = record::with_threads(kept.unwrap_or_default(), &summary, watched.as_ref());
        let causes = record::causes(&summary, &kept.lanes, watched.as_ref(), &rows);
        let mut summary = Summary { causes, ..summary };
        summary.warnings.extend(record::culprits(&summary, watched.as_ref()));
        let recording =
            watched.map(|watched| record::recording(&summary, kept, watched, &rows, profiled.as_ref(), lack));
        drop(rows);
        summary.expectations = self.expect.iter().map(|expect| expect.judge(&summary)).collect();
        Complete {
            summary,
            recording,
            profiled,
        }
    }

    /// Prints notes on the samples, and writes their files. Returns the errors of these files.
    fn write_pictures(&mut self, profiled: Samples, command: String) -> Result<Vec<ReportError>> {
        profiled.told(self.quiet).iter().for_each(|line| tell_at_end(line));
        let pictures = std::mem::take(&mut self.pictures);
        self.clerk.does(move || {
            let files = pictures.iter();
            let written = files.map(|(picture, target)| target.write_text(&picture.of(&profiled, &command)));
            written.filter_map(|written| written.err()).collect()
        })
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
                say!("not valid: {}", sentences(&summary.invalid_reasons).join("; "));
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

/// The exit code of a run that took place. One that is not valid proves nothing, whatever it was to reach.
fn code(valid: bool, met: bool) -> ExitCode {
    match (valid, met) {
        (true, true) => ExitCode::SUCCESS,
        (true, false) => ExitCode::from(4),
        (false, _) => ExitCode::from(3),
    }
}
