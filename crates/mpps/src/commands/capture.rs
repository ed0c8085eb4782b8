//! `capture`.

use super::output::{Output, unwritable};
use super::steps::{prepare, printed};
use crate::cli::Capture;
use crate::fail::{Result, usage};
use crate::paths::{KernelDevices, Kind, Opening, Use, Work, with_alike};
use crate::plan::capture::Draft;
use mpps_engine::run_capture;
use mpps_io::Port;
use mpps_report::{AtBegin, CaptureTotals, CaptureWriter, Notes};
use mpps_stats::{CaptureSummary, Summary};
use mpps_sys::signal;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

pub(crate) fn run(args: Capture) -> Result<ExitCode> {
    let draft = Draft::new(args)?;
    if let Some(code) = printed(&draft.args.run)? {
        return Ok(code);
    }
    let run = &draft.args.run;
    let _prepared = prepare(run, &[&draft.port], &draft.rules, Work::Ends)?;
    let port = vec![(&draft.port, draft.request())];
    with_alike(
        port,
        &Opening {
            run,
            rules: &draft.rules,
        },
        Capturing(&draft),
    )
}

struct Capturing<'a>(&'a Draft);

impl Use for Capturing<'_> {
    const KINDS: &'static [Kind] = &[Kind::Synthetic, Kind::Device];
    type Out = ExitCode;

    fn frames<P: Port>(self, ports: &[P]) -> Result<ExitCode> {
        let (draft, port) = (self.0, &ports[0]);
        let args = &draft.args;
        let (plan, rings) = draft.plan(port.capabilities())?;
        let notes = Notes::new();
        let mut output = Output::open_beside(&args.run, Some(("-o", &args.output, notes.clone())))?;
        let (path, options) = (args.output.clone(), draft.options(port.capabilities()));
        let writer = output
            .clerk
            .does(move || CaptureWriter::create(&path, options, rings, notes))?;
        let writer = writer.map_err(|e| unwritable("-o", &e))?;
        output.sinks.push(Box::new(AtBegin(writer.begin())));
        output.when_ready(&args.run, format!("capture is ready on {}", args.port));
        // A reader that has gone will not come back: the capture ends as if by Ctrl-C.
        let reader_gone = writer.reader_gone();
        let interruptions = || signal::interruptions() + u32::from(reader_gone.load(Ordering::Relaxed));
        let finish = |summary: &Summary, capture: &mut CaptureSummary| end(writer, summary, capture);
        let summary = run_capture(port, &plan, &mut output.sinks, &interruptions, finish)?;
        output.finish(&summary)
    }

    fn in_kernel<D: KernelDevices>(self, _devices: D) -> Result<ExitCode> {
        // The path has refused it.
        Err(usage(format!(
            "port '{}': its packets never come to user space, so none can be written",
            self.0.args.port
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
