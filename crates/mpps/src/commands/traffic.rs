//! `sendrecv` and `send`.

use super::output::{Output, remark};
use super::{dpdk, xdp};
use crate::cli::Traffic;
use crate::fail::{Result, unopened};
use crate::plan::path::PathConfig;
use crate::plan::traffic::Draft;
use crate::privilege::{Work, plan};
use mpps_af_packet::AfPacketPort;
use mpps_engine::run_traffic;
use mpps_io::Port;
use mpps_io::loopback::{LoopPort, Turn};
use mpps_io::null::{NoSource, NullPort};
use mpps_stats::Summary;
use mpps_sys::signal;
use mpps_wire::{ReflectFilter, Reflector};
use std::process::ExitCode;

pub(crate) fn run(args: Traffic, receive: bool) -> Result<ExitCode> {
    let draft = Draft::new(args, receive)?;
    let (summary, output) = execute(&draft)?;
    output.finish(&summary)
}

/// Opens the port and the files, and runs.
pub(crate) fn execute(draft: &Draft) -> Result<(Summary, Output)> {
    signal::catch_interrupts();
    plan(&draft.args.run, [&draft.path], !draft.rules.is_empty(), Work::Ends)?;
    let _filters = draft.rules.apply(&draft.path)?;
    let queues = draft.roles.len();
    match &draft.path {
        PathConfig::Udp(config) => {
            let mode = mpps_udp::Mode::Connected {
                src: draft.src,
                dst: draft.dest.ip,
                flows: draft.flow_ports(),
            };
            on(
                &mpps_udp::open(config.clone(), mode, &draft.roles).map_err(unopened(&draft.args.port))?,
                draft,
            )
        }
        PathConfig::AfPacket(config) => {
            let guard = draft.receive.then(|| draft.guard());
            on(
                &AfPacketPort::open(config, &draft.roles, guard).map_err(unopened(&draft.args.port))?,
                draft,
            )
        }
        PathConfig::AfXdp(config) => {
            let port = mpps_af_xdp::open(config, &draft.roles, &draft.taken()).map_err(unopened(&draft.args.port))?;
            remark(port.remarks());
            on(&port, draft)
        }
        PathConfig::Xdp(config) => xdp::traffic(config, draft),
        PathConfig::Dpdk(config) => {
            let (spec, run) = (&draft.args.port, &draft.args.run);
            dpdk::start([(&draft.path, spec, queues)], run)?;
            let need = dpdk::Need {
                roles: &draft.roles,
                promisc: false,
                link: true,
            };
            on(&dpdk::open(config, spec, run, &draft.rules, need)?, draft)
        }
        PathConfig::Null(config) => on(
            &NullPort::new(config.clone(), queues, [2, 0, 0, 0, 0, 1], NoSource),
            draft,
        ),
        PathConfig::Loop(config) => {
            let end = Reflecting(ReflectFilter::default());
            on(
                &LoopPort::new(config.clone(), queues, mpps_sys::clock::monotonic_ns, end),
                draft,
            )
        }
    }
}

/// The far end of `loop:`, which is as fast as a reflector. It answers no other and so needs no secret.
struct Reflecting(ReflectFilter);

impl Turn for Reflecting {
    type Memory<'p> = Reflector<'p>;

    fn memory(&self) -> Reflector<'_> {
        Reflector::new(&self.0, [0; 2])
    }

    #[inline]
    fn turn<'p>(reflector: &mut Reflector<'p>, frame: &mut [u8]) -> bool
    where
        Self: 'p,
    {
        reflector.turn(frame, false).is_ok()
    }
}

fn on<P: Port>(port: &P, draft: &Draft) -> Result<(Summary, Output)> {
    let plan = draft.plan(port.capabilities())?;
    let mut output = Output::open(&draft.args.run)?;
    let summary = run_traffic(port, &plan, &mut output.sinks, &signal::interruptions)?;
    Ok((summary, output))
}
