//! `sendrecv` and `send`.

use super::output::Output;
use super::steps::{prepare, printed};
use crate::cli::Traffic;
use crate::fail::{Result, usage};
use crate::paths::{KernelDevices, Kind, Opening, Use, UseTwo, Work, with_alike, with_ports};
use crate::plan::traffic::Draft;
use mpps_engine::{run_traffic, run_traffic_across, run_traffic_both_ways, run_traffic_in_kernel};
use mpps_io::Port;
use mpps_stats::Summary;
use mpps_sys::signal::interruptions;
use std::process::ExitCode;

pub(crate) fn run(args: Traffic, receive: bool) -> Result<ExitCode> {
    let draft = Draft::new(args, receive)?;
    if let Some(code) = printed(&draft.args.run)? {
        return Ok(code);
    }
    let (summary, output) = execute(&draft)?;
    output.finish(&summary)
}

/// Opens the port and the files, and runs.
fn execute(draft: &Draft) -> Result<(Summary, Output)> {
    let run = &draft.args.run;
    let requests = draft.requests();
    let ports: Vec<_> = requests.iter().map(|(port, _)| *port).collect();
    let _prepared = prepare(run, &ports, &draft.rules, Work::Ends)?;
    match ports.len() {
        1 => with_alike(
            requests,
            &Opening {
                run,
                rules: &draft.rules,
            },
            Generate(draft),
        ),
        _ => with_ports(
            requests,
            &Opening {
                run,
                rules: &draft.rules,
            },
            Across(draft),
        ),
    }
}

struct Generate<'a>(&'a Draft);

impl Use for Generate<'_> {
    const GENERATES: bool = true;
    type Out = (Summary, Output);

    fn frames<P: Port>(self, ports: &[P]) -> Result<(Summary, Output)> {
        let plan = self.0.plan(ports[0].capabilities())?;
        let mut output = Output::open(&self.0.args.run)?;
        let summary = run_traffic(&ports[0], &plan, &mut output.sinks, &interruptions)?;
        Ok((summary, output))
    }

    fn in_kernel<D: KernelDevices>(self, devices: D) -> Result<(Summary, Output)> {
        let plan = self.0.plan(devices.capabilities()[0])?;
        let mut output = Output::open(&self.0.args.run)?;
        let port = devices.traffic(&plan)?;
        let summary = run_traffic_in_kernel(&port, &plan, &mut output.sinks, &interruptions)?;
        Ok((summary, output))
    }
}

/// From one port to another, or both ways.
struct Across<'a>(&'a Draft);

impl Use for Across<'_> {
    const KINDS: &'static [Kind] = &[Kind::Device];
    const GENERATES: bool = true;
    type Out = (Summary, Output);

    fn frames<P: Port>(self, ports: &[P]) -> Result<(Summary, Output)> {
        self.two(&ports[0], &ports[1])
    }

    fn in_kernel<D: KernelDevices>(self, _devices: D) -> Result<(Summary, Output)> {
        // The plan has refused it.
        Err(usage(format!(
            "port '{}': its packets never come to user space",
            self.0.args.port
        )))
    }
}

impl UseTwo for Across<'_> {
    fn two<A: Port, B: Port>(self, a: &A, b: &B) -> Result<(Summary, Output)> {
        let plan = self.0.plan_across(a.capabilities(), b.capabilities())?;
        let run = &self.0.args.run;
        if let Some(far) = self.0.far.as_ref().filter(|far| far.both) {
            let back = far.facts_back(&plan.common.host, &self.0.args.port, &plan);
            let mut output = Output::open_both_ways(run)?;
            let summary = run_traffic_both_ways(a, b, &plan, &back, &mut output.sinks, &interruptions)?;
            return Ok((summary, output));
        }
        let mut output = Output::open(run)?;
        let summary = run_traffic_across(a, b, &plan, &mut output.sinks, &interruptions)?;
        Ok((summary, output))
    }
}
