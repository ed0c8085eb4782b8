//! Runs that the kernel executes itself: options with another meaning, and the lanes of a run without queues.

use super::lanes;
use crate::fail::{Result, usage};
use crate::request::Run;
use mpps_engine::{Common, LanePlan, OnFull};
use mpps_io::{PortSpec, Roles};
use mpps_plan::Written;
use mpps_plan::values::Cores;
use mpps_stats::{Remark, RemarkName};
use mpps_sys::sched::allowed_cores;
use std::collections::BTreeSet;
use std::time::Duration;

/// Streams that the programs in the kernel count each by itself, at the most.
const MOST_STREAMS: usize = 8;

/// Refuses options of every run that have no meaning in the kernel.
fn check_run(run: &Run, port: &PortSpec) -> Result<()> {
    check_burst("--burst", run.plan.lanes.burst, port)?;
    if run.beside.lanes_csv {
        return Err(usage(format!(
            "--lanes-csv: on '{port}' programs in the kernel move the packets, not lanes: want it left out"
        )));
    }
    if let Some(sample) = &run.beside.sample {
        return Err(usage(format!(
            "--sample-pcap {sample}: on '{port}' frames stay in the kernel, and none comes to user space: want it left \
             out, or mpps capture af_packet:INTERFACE at the other end"
        )));
    }
    if run.plan.lanes.busy_poll {
        return Err(usage(format!(
            "--busy-poll: on '{port}' programs in the kernel run as packets come, and nothing polls: want it left out"
        )));
    }
    Ok(())
}

fn check_burst(option: &str, frames: Option<usize>, port: &PortSpec) -> Result<()> {
    match frames {
        None => Ok(()),
        Some(frames) => Err(usage(format!(
            "{option} {frames}: on '{port}' frames stay in the kernel: want the port's option batch=N, the frames \
             that the kernel makes in one go"
        ))),
    }
}

/// Refuses more streams than the programs in the kernel have room for.
pub(super) fn check_streams(streams: usize, port: &PortSpec) -> Result<()> {
    if streams <= MOST_STREAMS {
        return Ok(());
    }
    Err(usage(format!(
        "--traffic: on port '{port}' the programs have room for {MOST_STREAMS} streams, not {streams}: want fewer, or \
         af_xdp:{}",
        port.device
    )))
}

/// Refuses options of `sendrecv` and `send` that the kernel can't do.
pub(super) fn check_traffic(args: &Run) -> Result<()> {
    check_burst("--tx-burst", args.plan.lanes.tx_burst, args.plan.port())?;
    check_burst("--rx-burst", args.plan.lanes.rx_burst, args.plan.port())?;
    if let Some(n) = args.plan.lanes.rx_lanes {
        return Err(usage(format!(
            "--rx-lanes {n}: on '{}' programs in the kernel receive, not lanes: want it left out (--tx-lanes or \
             --lanes N: lanes that send)",
            args.plan.port()
        )));
    }
    if let Some(step) = &args.plan.load.then {
        return Err(usage(format!(
            "--then {step}: on '{}' programs in the kernel send, at one rate: want it left out, or another path",
            args.plan.port()
        )));
    }
    check_run(args, args.plan.port())
}

/// Returns the treatment of packets that a port does not take at once. Lanes or, if `in_kernel`, programs forward them.
pub(super) fn on_full(given: Option<OnFull>, port: &PortSpec, in_kernel: bool) -> Result<OnFull> {
    match given {
        Some(OnFull::Wait) if in_kernel => Err(usage(format!(
            "--on-full wait: on '{port}' the kernel drops what the device's queue has no room for: want drop, or the \
             option left out"
        ))),
        None if in_kernel => Ok(OnFull::Drop),
        given => Ok(given.unwrap_or_default()),
    }
}

/// Refuses options of listeners and forwarders that the kernel can't do: their programs run where the device's queues
/// are served.
pub(super) fn check_served(run: &Run, port: &PortSpec) -> Result<()> {
    let list = |cores: &Cores| cores.0.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let given = [
        ("--lanes", run.plan.lanes.lanes.map(|n| n.to_string())),
        ("--cores", run.plan.lanes.cores.as_deref().map(list)),
    ];
    if let Some((option, Some(value))) = given.into_iter().find(|(_, value)| value.is_some()) {
        return Err(usage(format!(
            "{option} {value}: on '{port}' a program in the kernel runs on the cores that serve the device's queues \
             (ethtool -L, the interrupts' affinity): want it left out"
        )));
    }
    if let Some(start) = &run.plan.times.start_at {
        return Err(usage(format!(
            "--start-at {}: on '{port}' a program in the kernel works from when it is loaded on: want it left out",
            start.text()
        )));
    }
    if let Some(priority) = lanes::priority(run) {
        return Err(usage(format!(
            "{}: on '{port}' a program in the kernel moves the packets, and no lane does: want it left out",
            lanes::asked(priority)
        )));
    }
    check_run(run, port)
}

/// Refuses options of a forwarder that the kernel can't do.
pub(super) fn check_forward(args: &Run, port: &PortSpec) -> Result<()> {
    if args.plan.forward.split_directions {
        return Err(usage(format!(
            "--split-directions: on '{port}' programs in the kernel move the frames, not lanes: want it left out"
        )));
    }
    if !args.plan.forward.drain.is_zero() {
        return Err(usage(format!(
            "--drain {:?}: on '{port}' the driver sends whenever the kernel has polled the device: want it left out",
            args.plan.forward.drain
        )));
    }
    if args.plan.forward.work.is_some() {
        return Err(usage(format!(
            "--work: on '{port}' programs in the kernel move the frames, not lanes: want it left out"
        )));
    }
    check_served(args, port)
}

/// Returns the sending lanes of `sendrecv` and `send`. [`common`] adds the lane that reads the counters.
pub(super) fn senders(args: &Run) -> Vec<Roles> {
    let lanes = args.plan.lanes.lanes.or(args.plan.lanes.tx_lanes).unwrap_or(1);
    vec![Roles { rx: false, tx: true }; lanes]
}

/// Returns the settings that every run has, with a separate core for each lane that sends. The lanes that read rows
/// follow: one for each direction of packets.
///
/// A sending lane is inside the kernel for the whole run and keeps its core busy, so two can't share one. The last
/// cores are taken first, because most other threads of a host run on the first, and the reading lane as well.
pub(super) fn common(
    run: &Run,
    senders: &[Roles],
    readers: usize,
    default_duration: Option<Duration>,
    path: &str,
) -> Result<Common> {
    let mut run = run.clone();
    if !senders.is_empty() {
        let cores = cores(&run, senders.len(), path)?;
        run.plan.lanes.cores = Some(Written::new("", cores));
    }
    let mut common = lanes::common(&run, senders, default_duration, 1)?;
    if !senders.is_empty() && senders.len() == allowed_cores().len() {
        let text = format!(
            "{} sending lane{} on as many cores: the live view and whatever else runs here take their time from them",
            senders.len(),
            if senders.len() == 1 { "" } else { "s" }
        );
        let remark = Remark::new(RemarkName::LanesFillCores, text);
        common.warnings.push(remark.with("lanes", senders.len()));
    }
    let reader = LanePlan {
        rx: true,
        tx: false,
        core: None,
    };
    common.lanes.extend(vec![reader; readers]);
    Ok(common)
}

/// Returns a core for each of `lanes` sending lanes on `path`.
fn cores(run: &Run, lanes: usize, path: &str) -> Result<Cores> {
    let Some(Cores(list)) = run.plan.lanes.cores.as_deref() else {
        let allowed = allowed_cores();
        let Some(first) = allowed.len().checked_sub(lanes) else {
            return Err(usage(format!(
                "--lanes {lanes}: on {path} each lane that sends keeps one core busy: want {} at the most",
                allowed.len()
            )));
        };
        return Ok(Cores(allowed[first..].to_vec()));
    };
    let mut seen = BTreeSet::new();
    let distinct: Vec<usize> = list.iter().copied().filter(|core| seen.insert(*core)).collect();
    if distinct.len() < lanes {
        return Err(usage(format!(
            "--cores: {} core{} for {lanes} sending lanes: on {path} each of them keeps one core busy: want {lanes} \
             different cores",
            distinct.len(),
            if distinct.len() == 1 { "" } else { "s" }
        )));
    }
    Ok(Cores(distinct))
}
