//! `capture`.

use super::output::{Output, unwritable};
use super::steps::{self, printed};
use crate::cli::RunArgs;
use crate::fail::{Result, usage};
use crate::paths::{Checked, KernelDevices, Kind, Opening, Rules, Use, Work, with_alike};
use crate::plan::capture::Draft;
use crate::run::Host;
use mpps_engine::run_capture;
use mpps_io::Port;
use mpps_report::{AtBegin, CaptureTotals, CaptureWriter, Notes};
use mpps_stats::{CaptureSummary, Summary};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

pub(crate) fn run(mut args: RunArgs) -> Result<ExitCode> {
    let draft = Draft::new(args.run.clone())?;
    args.run.clone_from(&draft.args);
    if let Some(code) = printed(&args)? {
        return Ok(code);
    }
    let prepare = |ports: &[&Checked], rules: &Rules, work| steps::prepare(&args, ports, rules, work);
    let (summary, output) = measure(&args, &draft, &Host::program(&prepare))?;
    output.finish(summary)
}

pub(super) fn measure(args: &RunArgs, draft: &Draft, host: &Host<'_>) -> Result<(Summary, Output)> {
    let run = &draft.args;
    let _prepared = host.prepare(&[&draft.port], &draft.rules, Work::Ends)?;
    let port = vec![(&draft.port, draft.request())];
    let opening = Opening {
        run,
        rules: &draft.rules,
        interruptions: host.interruptions,
    };
    with_alike(port, &opening, Capturing { args, draft, host })
}

struct Capturing<'a> {
    args: &'a RunArgs,
    draft: &'a Draft,
    host: &'a Host<'a>,
}

impl Use for Capturing<'_> {
    const KINDS: &'static [Kind] = &[Kind::Synthetic, Kind::Device];
    type Out = (Summary, Output);

    fn frames<P: Port>(self, ports: &[P]) -> Result<Self::Out> {
        let (draft, host, port) = (self.draft, self.host, &ports[0]);
        let (plan, rings) = draft.plan(port.capabilities())?;
        let notes = Notes::new();
        let mut output = Output::open_beside(self.args, host, Some(("-o", draft.output(), notes.clone())))?;
        let (path, options) = (draft.output().to_owned(), draft.options(port.capabilities()));
        let writer = output.does(move || CaptureWriter::create(&path, options, rings, notes))?;
        let writer = writer.map_err(|e| unwritable("-o", &e))?;
        output.sinks.push(Box::new(AtBegin(writer.begin())));
        output.when_ready(format!("capture is ready on {}", draft.args.plan.port()));
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
