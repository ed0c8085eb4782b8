//! `capture`.

use crate::draft::capture::Draft;
use crate::fail::{Result, failed, unwritable, usage};
use crate::host::{Host, Opens, Sinks};
use crate::paths::{Opened, Opening, Work, open};
use mpps_engine::run_capture;
use mpps_report::{AtBegin, CaptureTotals, CaptureWriter, Notes};
use mpps_stats::{CaptureSummary, Summary};
use std::sync::atomic::Ordering;
use std::sync::mpsc;

/// Opens the port, and runs.
pub(super) fn measure(draft: &Draft, host: &Host<'_>) -> Result<(Summary, Sinks)> {
    let _prepared = host.prepare(&[&draft.port], &draft.rules, Work::Ends)?;
    let port = vec![(&draft.port, draft.request())];
    let opening = Opening {
        run: &draft.args,
        rules: &draft.rules,
        interruptions: host.interruptions,
    };
    let Opened::Lanes(ports) = open(port, &opening)? else {
        // The path has refused it.
        return Err(usage(format!(
            "port '{}': its packets never come to user space, so none can be written",
            draft.args.plan.port()
        )));
    };
    let (port, capabilities) = (&*ports[0], ports[0].port().capabilities());
    let (plan, rings) = draft.plan(capabilities)?;
    let notes = Notes::new();
    let mut sinks = host.steps.open(Opens {
        file: Some(("-o", draft.output(), notes.clone())),
        ready: Some(format!("capture is ready on {}", draft.args.plan.port())),
        ..Opens::PLAIN
    })?;
    let (path, options) = (draft.output().to_owned(), draft.options(capabilities));
    let (made, is_made) = mpsc::channel();
    host.steps.on_writer(Box::new(move || {
        let _ = made.send(CaptureWriter::create(&path, options, rings, notes));
    }))?;
    let writer = is_made
        .recv()
        .map_err(|_| failed("the thread that writes files is gone"))?;
    let writer = writer.map_err(|e| unwritable("-o", &e))?;
    sinks.push(Box::new(AtBegin(writer.begin())));
    // A reader that has gone will not come back: the capture ends as if by Ctrl-C.
    let reader_gone = writer.reader_gone();
    let interruptions = || (host.interruptions)() + u32::from(reader_gone.load(Ordering::Relaxed));
    let finish = |summary: &Summary, capture: &mut CaptureSummary| end(writer, summary, capture);
    let summary = run_capture(port, &plan, &mut sinks, &interruptions, finish)?;
    Ok((summary, sinks))
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
