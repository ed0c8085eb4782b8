//! A run of any workload, from its checked plan to its summary.

mod capture;
mod forward;
mod listen;

use crate::draft::{self, listen::Listener};
use crate::fail::{Result, failed};
use crate::host::{Host, Opens, Sinks};
use crate::paths::{KernelDevices, KernelPlan};
use crate::record;
use crate::request::{Run, check_start};
use crate::session::on_ports;
use mpps_engine::RunError;
use mpps_io::kernel::KernelPort;
use mpps_plan::Workload;
use mpps_stats::Summary;

/// Run that was checked and can be opened on this host.
pub enum Drafted {
    /// `sendrecv` or `send`.
    Traffic(Box<draft::traffic::Draft>),
    /// `drop` or `reflect`.
    Listen(Box<Run>, Box<Listener>),
    /// `forward`.
    Forward(Box<draft::forward::Draft>),
    /// `capture`.
    Capture(Box<draft::capture::Draft>),
}

impl Drafted {
    /// Checks a run, and fills in what was left open.
    ///
    /// # Errors
    /// If the run can't be opened on this host: one line that names the option and what would be right.
    pub fn new(mut run: Run) -> Result<Self> {
        check_start(&run)?;
        Ok(match run.plan.workload {
            Workload::Sendrecv | Workload::Send => Self::Traffic(Box::new(draft::traffic::Draft::new(run)?)),
            Workload::Drop | Workload::Reflect => {
                let listener = Listener::new(&mut run)?;
                Self::Listen(Box::new(run), Box::new(listener))
            }
            Workload::Forward => Self::Forward(Box::new(draft::forward::Draft::new(run)?)),
            Workload::Capture => Self::Capture(Box::new(draft::capture::Draft::new(run)?)),
        })
    }

    /// Returns the run, with its complete plan.
    pub fn run(&self) -> &Run {
        match self {
            Self::Traffic(draft) => &draft.args,
            Self::Listen(run, _) => run,
            Self::Forward(draft) => &draft.args,
            Self::Capture(draft) => &draft.args,
        }
    }

    /// Opens the ports and the readers, and runs. Returns the readers with the result: they have not had it yet.
    ///
    /// # Errors
    /// If the run could not take place.
    pub fn measure(&self, host: &Host<'_>) -> Result<(Summary, Sinks)> {
        match self {
            Self::Traffic(draft) => traffic(draft, host),
            Self::Listen(run, listener) => listen::measure(run, listener, host),
            Self::Forward(draft) => forward::measure(draft, host),
            Self::Capture(draft) => capture::measure(draft, host),
        }
    }
}

/// Loads the programs of a workload on devices, and runs it.
fn in_kernel(
    run_of: &Run,
    devices: &mut dyn KernelDevices,
    plan: KernelPlan<'_>,
    run: impl FnOnce(&dyn KernelPort) -> std::result::Result<Summary, RunError>,
) -> Result<Summary> {
    devices.load(plan)?;
    let ports = devices.ports();
    Ok(record::with_programs(&run_of.watchers, &ports, || run(ports[0]))?)
}

/// Runs `sendrecv` or `send`: a session of one trial.
fn traffic(draft: &draft::traffic::Draft, host: &Host<'_>) -> Result<(Summary, Sinks)> {
    let sinks = std::cell::RefCell::new(Vec::new());
    let mut summary = None;
    let mut opened = || {
        let both_ways = draft.args.plan.traffic.goes_back();
        *sinks.borrow_mut() = host.steps.open(Opens {
            both_ways,
            lanes: both_ways || !draft.port.traits.in_kernel,
            ..Opens::PLAIN
        })?;
        Ok(())
    };
    on_ports(&[draft], host, &mut opened, &mut |ports, drafts| {
        summary = Some(ports.trial(drafts, None, true, &mut sinks.borrow_mut(), host.interruptions)?);
        Ok(())
    })?;
    let summary = summary.ok_or_else(|| failed("the ports were not opened"))?;
    Ok((summary, sinks.into_inner()))
}
