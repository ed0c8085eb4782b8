//! Runs on the `xdp` path: the device is looked up, planned for, and only then given its programs, which are made for
//! this one run. Whoever waits for "ready" may send: the programs are loaded and attached by then.

use super::forward::ready;
use super::listen::remark_left;
use super::output::{Output, remark};
use crate::cli::{Drop, Reflect};
use crate::fail::{Result, unopened};
use crate::plan::forward::Draft as ForwardDraft;
use crate::plan::listen::Listener;
use crate::plan::traffic::Draft;
use crate::plan::xdp::{drop_spec, forward_spec, reflect_spec, traffic_spec};
use crate::privilege::{self, Work};
use mpps_engine::{run_drop_in_kernel, run_forward_in_kernel, run_reflect_in_kernel, run_traffic_in_kernel};
use mpps_io::PortSpec;
use mpps_stats::Summary;
use mpps_sys::signal::{self, interruptions};
use mpps_xdp::{Config, XdpDevice, XdpPort};
use std::process::ExitCode;

/// Looks the device up and tells its remarks.
fn open(config: &Config, spec: &PortSpec) -> Result<XdpDevice> {
    let device = mpps_xdp::open(config).map_err(unopened(spec))?;
    remark(device.remarks());
    Ok(device)
}

/// Tells the remarks of loaded programs.
fn loaded(port: XdpPort) -> XdpPort {
    remark(port.remarks());
    port
}

/// `sendrecv` and `send`.
pub(super) fn traffic(config: &Config, draft: &Draft) -> Result<(Summary, Output)> {
    let device = open(config, &draft.args.port)?;
    let plan = draft.plan(device.capabilities())?;
    let mut output = Output::open(&draft.args.run)?;
    let port = loaded(
        device
            .traffic(&traffic_spec(&plan)?)
            .map_err(unopened(&draft.args.port))?,
    );
    let summary = run_traffic_in_kernel(&port, &plan, &mut output.sinks, &interruptions)?;
    Ok((summary, output))
}

/// `reflect`.
pub(super) fn reflect(config: &Config, args: &Reflect, listener: &Listener) -> Result<ExitCode> {
    signal::catch_interrupts();
    privilege::plan(&args.run, [&listener.path], !listener.rules.is_empty(), Work::SendsBack)?;
    let _filters = listener.rules.apply(&listener.path)?;
    let device = open(config, &args.port)?;
    let mut output = Output::open(&args.run)?;
    let plan = listener.reflect_plan(args, device.capabilities())?;
    let spec = reflect_spec(&plan, listener.taken_in_kernel());
    let port = loaded(device.reflect(&spec).map_err(unopened(&args.port))?);
    remark_left(&args.run, listener);
    output.when_ready(&args.run, format!("reflect is ready on {}", args.port));
    let summary = run_reflect_in_kernel(&port, &plan, &mut output.sinks, &interruptions)?;
    output.finish(&summary)
}

/// `drop`.
pub(super) fn drop(config: &Config, args: &Drop, listener: &Listener) -> Result<ExitCode> {
    signal::catch_interrupts();
    privilege::plan(&args.run, [&listener.path], !listener.rules.is_empty(), Work::Ends)?;
    let _filters = listener.rules.apply(&listener.path)?;
    let device = open(config, &args.port)?;
    let mut output = Output::open(&args.run)?;
    let plan = listener.drop_plan(args, device.capabilities())?;
    let spec = drop_spec(&plan, listener.taken_in_kernel());
    let port = loaded(device.drop(&spec).map_err(unopened(&args.port))?);
    remark_left(&args.run, listener);
    output.when_ready(&args.run, format!("drop is ready on {}", args.port));
    let summary = run_drop_in_kernel(&port, &plan, &mut output.sinks, &interruptions)?;
    output.finish(&summary)
}

/// `forward`, on one port or two.
pub(super) fn forward(configs: &[&Config], draft: &ForwardDraft) -> Result<ExitCode> {
    let run = &draft.args.run;
    let devices = configs.iter().zip(&draft.ports);
    let devices: Vec<_> = devices
        .map(|(config, port)| open(config, &port.spec))
        .collect::<Result<_>>()?;
    let mut output = Output::open(run)?;
    let capabilities: Vec<_> = devices.iter().map(XdpDevice::capabilities).collect();
    let plan = draft.plan(&capabilities)?;
    let (takes, remarks) = draft.takes_in_kernel()?;
    remark(&remarks);
    let spec = forward_spec(&plan, takes);
    // Which of two devices it is, the error itself says.
    let port = loaded(mpps_xdp::forward(devices, &spec).map_err(unopened(&draft.ports[0].spec))?);
    output.when_ready(run, ready(&plan));
    let summary = run_forward_in_kernel(&port, &plan, &mut output.sinks, &interruptions)?;
    output.finish(&summary)
}
