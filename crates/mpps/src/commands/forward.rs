//! `forward`.
//!
//! Ports of one path, however many, have an arm for it, as two of them may share packet memory; two ports of two paths
//! never do, and any path goes with any other through [`with_port`].

use super::listen::null_port;
use super::output::{Output, remark};
use super::{dpdk, xdp};
use crate::cli::Forward;
use crate::fail::{Failure, Result, unopened, usage};
use crate::plan::forward::{Draft, DraftPort};
use crate::plan::path::PathConfig;
use crate::privilege::{self, Work};
use mpps_af_packet::AfPacketPort;
use mpps_af_xdp::AfXdpPort;
use mpps_dpdk::DpdkPort;
use mpps_engine::{ForwardPlan, RunError, run_forward, run_forward_pair};
use mpps_io::loopback::{LoopPort, Now};
use mpps_io::null::{NullPort, Sources};
use mpps_io::{Capabilities, Port};
use mpps_stats::{Sink, Summary};
use mpps_sys::clock::monotonic_ns;
use mpps_sys::signal::{self, interruptions};
use std::process::ExitCode;

pub(crate) fn run(args: Forward) -> Result<ExitCode> {
    let draft = Draft::new(args)?;
    signal::catch_interrupts();
    let work = match draft.ports.len() {
        1 => Work::SendsBack,
        _ => Work::Forwards,
    };
    let paths = draft.ports.iter().map(|port| &port.path);
    privilege::plan(&draft.args.run, paths, !draft.rules.is_empty(), work)?;
    let applied = |port: &DraftPort| draft.rules.apply(&port.path);
    let _filters = draft.ports.iter().map(applied).collect::<Result<Vec<_>>>()?;
    let in_kernel = draft.ports.iter().filter_map(|port| match &port.path {
        PathConfig::Xdp(config) => Some(config),
        _ => None,
    });
    let in_kernel: Vec<_> = in_kernel.collect();
    if in_kernel.len() == draft.ports.len() {
        return xdp::forward(&in_kernel, &draft);
    }
    let ports = draft.ports.iter();
    dpdk::start(
        ports.map(|port| (&port.path, &port.spec, port.roles.len())),
        &draft.args.run,
    )?;
    let path = |port: &DraftPort| std::mem::discriminant(&port.path);
    if let [a, b] = &draft.ports[..]
        && path(a) != path(b)
    {
        return with_port(a, &draft, First(&draft));
    }
    let first = &draft.ports[0];
    match &first.path {
        PathConfig::Udp(_) | PathConfig::Xdp(_) => Err(no_such(first)),
        PathConfig::AfPacket(_) => alike(&draft, &each(&draft, af_packet)?),
        PathConfig::AfXdp(_) => alike(&draft, &af_xdp(&draft)?),
        PathConfig::Dpdk(_) => alike(&draft, &each(&draft, |port| dpdk_port(port, &draft))?),
        PathConfig::Null(_) => alike(&draft, &each(&draft, |port| null(port, &draft))?),
        PathConfig::Loop(_) => alike(&draft, &each(&draft, loop_port)?),
    }
}

/// Opens all ports, one by one.
fn each<'d, P>(draft: &'d Draft, open: impl Fn(&'d DraftPort) -> Result<P>) -> Result<Vec<P>> {
    draft.ports.iter().map(open).collect()
}

/// A port that can't be here: the plan has refused payloads, which are no frames, and ports of the xdp path beside others,
/// as the kernel forwards to such a port from its like only.
fn no_such(port: &DraftPort) -> Failure {
    usage(format!("port '{}': want ports of one Ethernet path", port.spec))
}

/// What is to be done with an open port of whatever path.
trait Use {
    fn on<P: Port>(self, port: &P) -> Result<ExitCode>;
}

/// Opens a port for whoever wants to use it.
fn with_port<U: Use>(port: &DraftPort, draft: &Draft, user: U) -> Result<ExitCode> {
    match &port.path {
        PathConfig::Udp(_) | PathConfig::Xdp(_) => Err(no_such(port)),
        PathConfig::AfPacket(_) => user.on(&af_packet(port)?),
        PathConfig::AfXdp(_) => user.on(&af_xdp_alone(port, draft)?),
        PathConfig::Dpdk(_) => user.on(&dpdk_port(port, draft)?),
        PathConfig::Null(_) => user.on(&null(port, draft)?),
        PathConfig::Loop(_) => user.on(&loop_port(port)?),
    }
}

fn af_packet(port: &DraftPort) -> Result<AfPacketPort> {
    let PathConfig::AfPacket(config) = &port.path else {
        return Err(no_such(port));
    };
    AfPacketPort::open(config, &port.roles, None).map_err(unopened(&port.spec))
}

/// All ports: the two of a pair share packet memory.
fn af_xdp(draft: &Draft) -> Result<Vec<AfXdpPort>> {
    let taken = draft.taken();
    let mut opened = Vec::new();
    for ports in draft.ports.chunks(2) {
        let [a, b] = ports else {
            opened.push(af_xdp_alone(&ports[0], draft)?);
            continue;
        };
        let (PathConfig::AfXdp(first), PathConfig::AfXdp(second)) = (&a.path, &b.path) else {
            return Err(no_such(b));
        };
        let pair = mpps_af_xdp::open_pair((first, &a.roles, &taken), (second, &b.roles, &taken));
        // Which of the two it is, the error itself says.
        let pair: [AfXdpPort; 2] = pair.map_err(unopened(&a.spec))?.into();
        pair.iter().for_each(|port| remark(port.remarks()));
        opened.extend(pair);
    }
    Ok(opened)
}

fn af_xdp_alone(port: &DraftPort, draft: &Draft) -> Result<AfXdpPort> {
    let PathConfig::AfXdp(config) = &port.path else {
        return Err(no_such(port));
    };
    let opened = mpps_af_xdp::open(config, &port.roles, &draft.taken()).map_err(unopened(&port.spec))?;
    remark(opened.remarks());
    Ok(opened)
}

fn dpdk_port(port: &DraftPort, draft: &Draft) -> Result<DpdkPort> {
    let PathConfig::Dpdk(config) = &port.path else {
        return Err(no_such(port));
    };
    let need = dpdk::Need {
        roles: &port.roles,
        promisc: true,
        link: false,
    };
    let run = &draft.args.run;
    dpdk::open_for(config, &port.spec, run, &draft.rules, need, port.first_lane)
}

fn null<'d>(port: &'d DraftPort, draft: &Draft) -> Result<NullPort<impl Sources + use<'d>>> {
    let PathConfig::Null(config) = &port.path else {
        return Err(no_such(port));
    };
    Ok(null_port(config, port.roles.len(), draft.args.run.seed))
}

/// A loop whose far end sends everything back as it is.
fn loop_port(port: &DraftPort) -> Result<LoopPort<impl Now + use<>, impl Fn(&mut [u8]) -> bool + Sync + use<>>> {
    let PathConfig::Loop(config) = &port.path else {
        return Err(no_such(port));
    };
    Ok(LoopPort::new(
        config.clone(),
        port.roles.len(),
        monotonic_ns,
        |_: &mut [u8]| true,
    ))
}

/// The first of two: the second is still to be opened.
struct First<'d>(&'d Draft);

impl Use for First<'_> {
    fn on<P: Port>(self, port: &P) -> Result<ExitCode> {
        with_port(&self.0.ports[1], self.0, Second { draft: self.0, a: port })
    }
}

struct Second<'d, A> {
    draft: &'d Draft,
    a: &'d A,
}

impl<A: Port> Use for Second<'_, A> {
    fn on<P: Port>(self, b: &P) -> Result<ExitCode> {
        execute(self.draft, &[self.a.capabilities(), b.capabilities()], |plan, sinks| {
            run_forward_pair(self.a, b, plan, sinks, &interruptions)
        })
    }
}

/// Ports of one path.
fn alike<P: Port>(draft: &Draft, ports: &[P]) -> Result<ExitCode> {
    let capabilities: Vec<_> = ports.iter().map(P::capabilities).collect();
    execute(draft, &capabilities, |plan, sinks| {
        run_forward(ports, plan, sinks, &interruptions)
    })
}

/// What is said once it is ready.
pub(super) fn ready(plan: &ForwardPlan) -> String {
    let names: Vec<_> = plan.ports.iter().map(|port| port.name.as_str()).collect();
    let (last, others) = names.split_last().unwrap_or((&"", &[]));
    match others {
        [] => format!("forward is ready on {last}"),
        others => format!("forward is ready on {} and {last}", others.join(", ")),
    }
}

fn execute(
    draft: &Draft,
    capabilities: &[&Capabilities],
    start: impl FnOnce(&ForwardPlan, &mut [Box<dyn Sink>]) -> std::result::Result<Summary, RunError>,
) -> Result<ExitCode> {
    let run = &draft.args.run;
    let mut output = Output::open(run)?;
    let plan = draft.plan(capabilities)?;
    output.when_ready(run, ready(&plan));
    let summary = start(&plan, &mut output.sinks)?;
    output.finish(&summary)
}
