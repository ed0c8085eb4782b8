//! `drop` and `reflect`.

use crate::draft::listen::Listener;
use crate::fail::Result;
use crate::host::{Host, Opens, Sinks};
use crate::paths::{KernelDevices, Opening, Use, Work, with_alike};
use crate::record;
use crate::request::Run;
use mpps_engine::{run_drop, run_drop_in_kernel, run_reflect, run_reflect_in_kernel};
use mpps_io::Port;
use mpps_plan::Workload;
use mpps_stats::Summary;

/// Opens the port, and runs.
pub(super) fn measure(run: &Run, listener: &Listener, host: &Host<'_>) -> Result<(Summary, Sinks)> {
    let drops = run.plan.workload == Workload::Drop;
    let work = if drops { Work::Ends } else { Work::SendsBack };
    let _prepared = host.prepare(&[&listener.port], &listener.rules, work)?;
    let port = vec![(&listener.port, listener.request())];
    let opening = Opening {
        run,
        rules: &listener.rules,
        interruptions: host.interruptions,
    };
    let listening = Listening { run, listener, host };
    match drops {
        true => with_alike(port, &opening, Drop(listening)),
        false => with_alike(port, &opening, Reflect(listening)),
    }
}

struct Listening<'a> {
    run: &'a Run,
    listener: &'a Listener,
    host: &'a Host<'a>,
}

impl Listening<'_> {
    /// Opens the readers. A sender may wait for the line that is printed when every lane receives.
    fn open(&self, lanes: bool) -> Result<Sinks> {
        let Listener { port, .. } = self.listener;
        self.host.steps.open(Opens {
            lanes,
            remark: self.listener.left_ports(),
            ready: Some(format!(
                "{} is ready on {}{}",
                self.run.plan.workload.name(),
                port.spec,
                self.listener.hears()
            )),
            ..Opens::PLAIN
        })
    }
}

struct Drop<'a>(Listening<'a>);

impl Use for Drop<'_> {
    type Out = (Summary, Sinks);

    fn frames<P: Port>(self, ports: &[P]) -> Result<Self::Out> {
        let Listening { run, listener, host } = self.0;
        let plan = listener.drop_plan(run, ports[0].capabilities())?;
        let mut sinks = self.0.open(true)?;
        let summary = run_drop(&ports[0], &plan, &mut sinks, host.interruptions)?;
        Ok((summary, sinks))
    }

    fn in_kernel<D: KernelDevices>(self, devices: D) -> Result<Self::Out> {
        let Listening { run, listener, host } = self.0;
        let plan = listener.drop_plan(run, devices.capabilities()[0])?;
        let mut sinks = self.0.open(false)?;
        let port = devices.drop(&plan)?;
        let run = || run_drop_in_kernel(&port, &plan, &mut sinks, host.interruptions);
        let summary = record::with_programs(std::slice::from_ref(&port), run)?;
        Ok((summary, sinks))
    }
}

struct Reflect<'a>(Listening<'a>);

impl Use for Reflect<'_> {
    type Out = (Summary, Sinks);

    fn frames<P: Port>(self, ports: &[P]) -> Result<Self::Out> {
        let Listening { run, listener, host } = self.0;
        let plan = listener.reflect_plan(run, ports[0].capabilities())?;
        let mut sinks = self.0.open(true)?;
        let summary = run_reflect(&ports[0], &plan, &mut sinks, host.interruptions)?;
        Ok((summary, sinks))
    }

    fn in_kernel<D: KernelDevices>(self, devices: D) -> Result<Self::Out> {
        let Listening { run, listener, host } = self.0;
        let plan = listener.reflect_plan(run, devices.capabilities()[0])?;
        let mut sinks = self.0.open(false)?;
        let port = devices.reflect(&plan)?;
        let run = || run_reflect_in_kernel(&port, &plan, &mut sinks, host.interruptions);
        let summary = record::with_programs(std::slice::from_ref(&port), run)?;
        Ok((summary, sinks))
    }
}
