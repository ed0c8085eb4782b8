//! `forward`.
//!
//! Two ports of one path may share packet memory and have an arm of their own; ports of two paths never do, and any
//! path goes with any other through [`with_port`].

use super::listen::null_port;
use super::output::{Output, remark};
use super::{dpdk, xdp};
use crate::cli::{Forward, Run};
use crate::fail::{Result, unopened, usage};
use crate::plan::forward::{Draft, DraftPort};
use crate::plan::path::PathConfig;
use mpps_af_packet::AfPacketPort;
use mpps_dpdk::DpdkPort;
use mpps_engine::{ForwardPlan, RunError, run_forward, run_forward_alike, run_forward_pair};
use mpps_io::loopback::{LoopConfig, LoopPort, Now};
use mpps_io::{Capabilities, Port};
use mpps_stats::{Sink, Summary};
use mpps_sys::clock::monotonic_ns;
use mpps_sys::signal::{self, interruptions};
use std::process::ExitCode;

pub(crate) fn run(args: Forward) -> Result<ExitCode> {
    let draft = Draft::new(args)?;
    signal::catch_interrupts();
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
    let [a, b] = match &draft.ports[..] {
        [a, b] => [a, b],
        ports => return with_port(&ports[0], &draft, Only(&draft)),
    };
    let seed = draft.args.run.seed;
    match (&a.path, &b.path) {
        (PathConfig::AfPacket(_), PathConfig::AfPacket(_)) => alike(&draft, &af_packet(a)?, &af_packet(b)?),
        (PathConfig::AfXdp(first), PathConfig::AfXdp(second)) => {
            let taken = draft.taken();
            let opened = mpps_af_xdp::open_pair((first, &a.roles, &taken), (second, &b.roles, &taken));
            // Which of the two it is, the error itself says.
            let (first, second) = opened.map_err(unopened(&a.spec))?;
            remark(first.remarks());
            remark(second.remarks());
            alike(&draft, &first, &second)
        }
        (PathConfig::Dpdk(first), PathConfig::Dpdk(second)) => {
            alike(&draft, &dpdk_port(first, a, &draft)?, &dpdk_port(second, b, &draft)?)
        }
        (PathConfig::Null(first), PathConfig::Null(second)) => alike(
            &draft,
            &null_port(first, a.roles.len(), seed),
            &null_port(second, b.roles.len(), seed),
        ),
        (PathConfig::Loop(first), PathConfig::Loop(second)) => {
            alike(&draft, &loop_port(first, a), &loop_port(second, b))
        }
        _ => with_port(a, &draft, First(&draft)),
    }
}

/// What is to be done with an open port of whatever path.
trait Use {
    fn on<P: Port>(self, port: &P) -> Result<ExitCode>;
}

/// Opens a port for whoever wants to use it.
fn with_port<U: Use>(port: &DraftPort, draft: &Draft, user: U) -> Result<ExitCode> {
    match &port.path {
        // Refused by the plan: a payload is no frame.
        PathConfig::Udp(_) => Err(usage(format!("port '{}': want an Ethernet path", port.spec))),
        // Refused by the plan: the kernel forwards to such a port from its like only.
        PathConfig::Xdp(_) => Err(usage(format!("port '{}': want both ports on xdp", port.spec))),
        PathConfig::AfPacket(_) => user.on(&af_packet(port)?),
        PathConfig::AfXdp(config) => {
            let opened = mpps_af_xdp::open(config, &port.roles, &draft.taken()).map_err(unopened(&port.spec))?;
            remark(opened.remarks());
            user.on(&opened)
        }
        PathConfig::Dpdk(config) => user.on(&dpdk_port(config, port, draft)?),
        PathConfig::Null(config) => user.on(&null_port(config, port.roles.len(), draft.args.run.seed)),
        PathConfig::Loop(config) => user.on(&loop_port(config, port)),
    }
}

fn af_packet(port: &DraftPort) -> Result<AfPacketPort> {
    let PathConfig::AfPacket(config) = &port.path else {
        return Err(usage(format!("port '{}': want af_packet", port.spec)));
    };
    AfPacketPort::open(config, &port.roles, None).map_err(unopened(&port.spec))
}

fn dpdk_port(config: &mpps_dpdk::Config, port: &DraftPort, draft: &Draft) -> Result<DpdkPort> {
    let need = dpdk::Need {
        roles: &port.roles,
        promisc: true,
        link: false,
    };
    dpdk::open(config, &port.spec, &draft.args.run, &draft.rules, need)
}

/// A loop whose far end sends everything back as it is.
fn loop_port(
    config: &LoopConfig,
    port: &DraftPort,
) -> LoopPort<impl Now + use<>, impl Fn(&mut [u8]) -> bool + Sync + use<>> {
    LoopPort::new(config.clone(), port.roles.len(), monotonic_ns, |_: &mut [u8]| true)
}

/// The one port there is.
struct Only<'d>(&'d Draft);

impl Use for Only<'_> {
    fn on<P: Port>(self, port: &P) -> Result<ExitCode> {
        execute(self.0, &[port.capabilities()], |plan, sinks| {
            run_forward(port, plan, sinks, &interruptions)
        })
    }
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

/// Two ports of one path.
fn alike<P: Port>(draft: &Draft, a: &P, b: &P) -> Result<ExitCode> {
    execute(draft, &[a.capabilities(), b.capabilities()], |plan, sinks| {
        run_forward_alike(a, b, plan, sinks, &interruptions)
    })
}

/// Says that the ports are open: whoever starts the sender may go on.
pub(super) fn announce(run: &Run, plan: &ForwardPlan) {
    if !run.quiet {
        let names: Vec<_> = plan.ports.iter().map(|port| port.name.as_str()).collect();
        eprintln!("mpps: forward is ready on {}", names.join(" and "));
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
    announce(run, &plan);
    let summary = start(&plan, &mut output.sinks)?;
    output.finish(&summary)
}
