//! `capture`.

use super::dpdk;
use super::listen::null_port;
use super::output::{Output, remark, unwritable};
use crate::cli::Capture;
use crate::fail::{Result, unopened, usage};
use crate::plan::capture::Draft;
use crate::plan::path::PathConfig;
use crate::plan::xdp::no_capture;
use crate::privilege::{self, Work};
use mpps_af_packet::AfPacketPort;
use mpps_engine::run_capture;
use mpps_io::Port;
use mpps_io::loopback::LoopPort;
use mpps_report::{AtBegin, CaptureTotals, CaptureWriter, Notes};
use mpps_stats::{CaptureSummary, Summary};
use mpps_sys::signal;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

pub(crate) fn run(args: Capture) -> Result<ExitCode> {
    let draft = Draft::new(args)?;
    signal::catch_interrupts();
    privilege::plan(&draft.args.run, [&draft.path], !draft.rules.is_empty(), Work::Ends)?;
    let _filters = draft.rules.apply(&draft.path)?;
    let (queues, spec) = (draft.roles.len(), &draft.args.port);
    match &draft.path {
        // Refused by the plan: a payload is no frame.
        PathConfig::Udp(_) => Err(usage(format!("port '{spec}': want an Ethernet path"))),
        PathConfig::Xdp(_) => Err(no_capture(spec)),
        PathConfig::AfPacket(config) => on(
            &AfPacketPort::open(config, &draft.roles, None).map_err(unopened(spec))?,
            &draft,
        ),
        PathConfig::AfXdp(config) => {
            let port = mpps_af_xdp::open(config, &draft.roles, &draft.taken()).map_err(unopened(spec))?;
            remark(port.remarks());
            on(&port, &draft)
        }
        PathConfig::Dpdk(config) => {
            dpdk::start([(&draft.path, spec, queues)], &draft.args.run)?;
            let need = dpdk::Need {
                roles: &draft.roles,
                promisc: true,
                link: false,
            };
            on(&dpdk::open(config, spec, &draft.args.run, &draft.rules, need)?, &draft)
        }
        PathConfig::Null(config) => on(&null_port(config, queues, draft.args.run.seed), &draft),
        PathConfig::Loop(config) => on(
            &LoopPort::new(
                config.clone(),
                queues,
                mpps_sys::clock::monotonic_ns,
                |_: &mut [u8]| true,
            ),
            &draft,
        ),
    }
}

/// Captures on whatever port.
fn on<P: Port>(port: &P, draft: &Draft) -> Result<ExitCode> {
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
