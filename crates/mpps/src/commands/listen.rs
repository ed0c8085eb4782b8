//! `drop` and `reflect`.

use super::output::{Output, remark};
use super::{dpdk, xdp};
use crate::cli::{Drop, Reflect, Run};
use crate::fail::{Result, unopened, usage};
use crate::plan::listen::Listener;
use crate::plan::path::PathConfig;
use crate::privilege::{Work, plan};
use mpps_af_packet::AfPacketPort;
use mpps_engine::source::{SourceTemplate, TestSource};
use mpps_engine::{run_drop, run_reflect};
use mpps_io::loopback::LoopPort;
use mpps_io::null::{NullConfig, NullPort};
use mpps_io::{Layer, Port};
use mpps_stats::Summary;
use mpps_sys::clock::ClockSource;
use mpps_sys::signal;
use mpps_wire::{ChecksumMode, MacAddr, PayloadTemplate, Stamp, Template, TemplateSpec};
use std::process::ExitCode;

/// Payload of the packets that the null path produces: frames of 64 bytes.
const NULL_PAYLOAD: usize = 18;

/// A workload that listens, run on whatever port.
trait Workload {
    const KIND: Work;
    fn run<P: Port>(&self, port: &P, output: &mut Output) -> Result<Summary>;
}

struct DropRun<'a>(&'a Drop, &'a Listener);

impl Workload for DropRun<'_> {
    const KIND: Work = Work::Ends;

    fn run<P: Port>(&self, port: &P, output: &mut Output) -> Result<Summary> {
        let plan = self.1.drop_plan(self.0, port.capabilities())?;
        remark_left(&self.0.run, self.1);
        output.when_ready(&self.0.run, format!("drop is ready on {}", self.0.port));
        Ok(run_drop(port, &plan, &mut output.sinks, &signal::interruptions)?)
    }
}

struct ReflectRun<'a>(&'a Reflect, &'a Listener);

impl Workload for ReflectRun<'_> {
    const KIND: Work = Work::SendsBack;

    fn run<P: Port>(&self, port: &P, output: &mut Output) -> Result<Summary> {
        let plan = self.1.reflect_plan(self.0, port.capabilities())?;
        remark_left(&self.0.run, self.1);
        output.when_ready(&self.0.run, format!("reflect is ready on {}", self.0.port));
        Ok(run_reflect(port, &plan, &mut output.sinks, &signal::interruptions)?)
    }
}

/// Says which ports are left to the host.
pub(super) fn remark_left(run: &Run, listener: &Listener) {
    if !run.quiet
        && let Some(note) = listener.left_ports()
    {
        eprintln!("mpps: {note}");
    }
}

pub(crate) fn drop(args: Drop) -> Result<ExitCode> {
    let listener = Listener::of_drop(&args)?;
    if let PathConfig::Xdp(config) = &listener.path {
        return xdp::drop(config, &args, &listener);
    }
    execute(&listener, &args.run, &DropRun(&args, &listener))
}

pub(crate) fn reflect(args: Reflect) -> Result<ExitCode> {
    let listener = Listener::of_reflect(&args)?;
    if let PathConfig::Xdp(config) = &listener.path {
        return xdp::reflect(config, &args, &listener);
    }
    execute(&listener, &args.run, &ReflectRun(&args, &listener))
}

fn execute<W: Workload>(listener: &Listener, run: &Run, workload: &W) -> Result<ExitCode> {
    signal::catch_interrupts();
    plan(run, [&listener.path], !listener.rules.is_empty(), W::KIND)?;
    let _filters = listener.rules.apply(&listener.path)?;
    let queues = listener.roles.len();
    match &listener.path {
        // These packets never come to user space: both workloads turn off before they get here.
        PathConfig::Xdp(_) => Err(usage(format!(
            "port '{}': its packets are handled by the kernel",
            listener.spec
        ))),
        PathConfig::Udp(config) => {
            let port = mpps_udp::open(config.clone(), mpps_udp::Mode::Listening, &listener.roles)
                .map_err(unopened(&listener.spec))?;
            on(&port, run, workload)
        }
        PathConfig::AfPacket(config) => on(
            &AfPacketPort::open(config, &listener.roles, listener.guard()).map_err(unopened(&listener.spec))?,
            run,
            workload,
        ),
        PathConfig::AfXdp(config) => {
            let port =
                mpps_af_xdp::open(config, &listener.roles, &listener.taken()).map_err(unopened(&listener.spec))?;
            remark(port.remarks());
            on(&port, run, workload)
        }
        PathConfig::Dpdk(config) => {
            dpdk::start([(&listener.path, &listener.spec, queues)], run)?;
            let need = dpdk::Need {
                roles: &listener.roles,
                promisc: false,
                link: false,
            };
            on(
                &dpdk::open(config, &listener.spec, run, &listener.rules, need)?,
                run,
                workload,
            )
        }
        PathConfig::Null(config) => on(&null_port(config, queues, run.seed), run, workload),
        PathConfig::Loop(config) => {
            let port = LoopPort::new(
                config.clone(),
                queues,
                mpps_sys::clock::monotonic_ns,
                |_: &mut [u8]| true,
            );
            on(&port, run, workload)
        }
    }
}

/// A port of the null path whose queues produce test packets for ever.
pub(super) fn null_port(config: &NullConfig, queues: usize, seed: u64) -> NullPort<impl Fn(usize) -> TestSource> {
    let layer = config.layer;
    let clocks = ClockSource::new();
    // Readers of the clock belong to one thread each: they are made for the lanes beforehand.
    let clocks: Vec<_> = (0..queues)
        .map(|_| std::sync::Mutex::new(Some(clocks.clock())))
        .collect();
    let source = move |queue: usize| {
        let clock = clocks[queue].lock().ok().and_then(|mut c| c.take());
        let clock = clock.unwrap_or_else(|| ClockSource::new().clock());
        // A payload does not tell its flow: there is one.
        let flows = if layer == Layer::Payload { 1 } else { 64 };
        TestSource::new(template(layer, seed), clock, 10_000 + queue as u16 * 64, flows)
    };
    NullPort::new(config.clone(), queues, [2, 0, 0, 0, 0, 1], source)
}

/// A test packet for ports whose buffers come back as they are.
pub(super) fn test_packet() -> Vec<u8> {
    let template = frame_template(1);
    let mut frame = vec![0; template.frame_len()];
    template.write(&mut frame, 10_000, 9000, Stamp { seq: 0, time_ns: 0 });
    frame
}

fn template(layer: Layer, seed: u64) -> SourceTemplate {
    if layer == Layer::Payload {
        return SourceTemplate::Payload(PayloadTemplate::new(NULL_PAYLOAD, seed).expect("18 bytes hold a stamp"));
    }
    SourceTemplate::Frame(Box::new(frame_template(seed)))
}

fn frame_template(seed: u64) -> Template {
    let spec = TemplateSpec {
        src_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        dst_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        vlan: None,
        src: [10, 99, 0, 2].into(),
        dst: [10, 99, 0, 1].into(),
        payload_len: NULL_PAYLOAD,
        ttl: 64,
        dscp: 0,
        seed,
        checksum: ChecksumMode::Software,
    };
    Template::new(&spec).expect("constant addresses of one family")
}

fn on<P: Port, W: Workload>(port: &P, run: &Run, workload: &W) -> Result<ExitCode> {
    let mut output = Output::open(run)?;
    let summary = workload.run(port, &mut output)?;
    output.finish(&summary)
}
