//! `capture`.

use super::output::{Output, unwritable};
use super::steps::{prepare, printed};
use crate::cli::Run;
use crate::fail::{Result, usage};
use crate::paths::{KernelDevices, Kind, Opening, Use, Work, with_alike};
use crate::plan::capture::Draft;
use crate::run::Host;
use mpps_engine::run_capture;
use mpps_io::Port;
use mpps_report::{AtBegin, CaptureTotals, CaptureWriter, Notes};
use mpps_stats::{CaptureSummary, Summary};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

pub(crate) fn run(args: Run) -> Result<ExitCode> {
    let draft = Draft::new(args)?;
    if let Some(code) = printed(&draft.args)? {
        return Ok(code);
    }
    let (summary, output) = measure(&draft, &Host::program())?;
    output.finish(summary)
}

pub(super) fn measure(draft: &Draft, host: &Host<'_>) -> Result<(Summary, Output)> {
    let run = &draft.args;
    let _prepared = prepare(host, run, &[&draft.port], &draft.rules, Work::Ends)?;
    let port = vec![(&draft.port, draft.request())];
    let opening = Opening {
        run,
        rules: &draft.rules,
        interruptions: host.interruptions,
    };
    with_alike(port, &opening, Capturing { draft, host })
}

struct Capturing<'a> {
    draft: &'a Draft,
    host: &'a Host<'a>,
}

impl Use for Capturing<'_> {
    const KINDS: &'static [Kind] = &[Kind::Synthetic, Kind::Device];
    type Out = (Summary, Output);

    fn frames<P: Port>(self, ports: &[P]) -> Result<Self::Out> {
        let (draft, host, port) = (self.draft, self.host, &ports[0]);
        let args = &draft.args;
        let (plan, rings) = draft.plan(port.capabilities())?;
        let notes = Notes::new();
        let mut output = Output::open_beside(args, host, Some(("-o", draft.output(), notes.clone())))?;
        let (path, options) = (draft.output().to_owned(), draft.options(port.capabilities()));
        let writer = output.does(move || CaptureWriter::create(&path, options, rings, notes))?;
        let writer = writer.map_err(|e| unwritable("-o", &e))?;
        output.sinks.push(Box::new(AtBegin(writer.begin())));
        output.when_ready(format!("capture is ready on {}", args.plan.port()));
        // A reader that has gone will not come back: the capture ends as if by Ctrl-C.
        let reader_gone = writer.reader_gone();
        let interruptions = || (host.interruptions)() + u32::from(reader_gone.load(Ordering::Relaxed));
        let finish = |summary: &Summary, capture: &mut CaptureSummary| end(writer, summary, capture);
        let summary = run_capture(port, &plan, &mut output.sinks, &interruptions, finish)?;
        Ok((summary, output))
    }

    fn in_kernel<D: KernelDevices>(self, _devices: D) -> Result<Self::Out> {
        // The path has refused it.
        Err(usage(format!(
            "port '{}': its packets never come to user space, so none can be written",
            self.draft.args.plan.port()
        )))
    }
}

/// Waits for the writer and takes over what it did.
fn end(writer: CaptureWriter, summary: &Summary, capture: &mut CaptureSummary) {
    let before: u64 = summary.lanes.iter().map(|l| l.rx_dropped).sum();
    let end = writer.finish(CaptureTotals {
        received: capture.received,
        taken: capture.taken,
        dropped: before + capture.dropped_ring,
    });
    capture.written = end.written;
    capture.dropped_write = end.dropped;
    capture.bytes = end.bytes;
    capture.files = end.files.iter().map(|path| path.display().to_string()).collect();
    capture.files_removed = end.removed;
    capture.failure = end.failure;
}
