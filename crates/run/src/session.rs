//! Ports that stay open for any number of trials.

use crate::draft::neighbor::Asked;
use crate::draft::reserve::reserve;
use crate::draft::traffic::Draft;
use crate::fail::{Failure, Result, failed, usage, went};
use crate::host::{Host, Library};
use crate::paths::{KernelDevices, KernelPlan, Opened, Opening, Work, open};
use crate::record;
use crate::{Error, Plan, with_result};
use mpps_engine::{RunError, TrafficPlan, Trials, run_traffic_in_kernel, session as on_lanes};
use mpps_io::Capabilities;
use mpps_plan::Workload;
use mpps_stats::{HostFact, Sink, Summary};
use mpps_wire::MacAddr;
use std::collections::BTreeSet;
use std::time::Duration;

/// Opens the ports of a plan of `sendrecv` or `send` once, and hands `body` a [`Session`] that runs any number of
/// trials on them. Returns what `body` returns, once the ports are closed.
///
/// The plan gives what all trials have in common (ports, addresses, lanes), and the most flows of any trial. The owner
/// of the peer's MAC address is asked once.
///
/// # Errors
/// If the ports could not be opened, or nobody answers for the peer's address. Otherwise the error that `body` returns.
pub fn session<R>(
    plan: &Plan,
    body: impl FnOnce(&mut Session<'_>) -> std::result::Result<R, Error>,
) -> std::result::Result<R, Error> {
    session_until(plan, &|| 0, body)
}

/// Like [`session`], with trials that can be interrupted. `interruptions` is called at least every 100 ms and returns
/// how often the end has been requested. The first request ends the sending of the current trial, the second one its
/// settling. No trial can follow.
///
/// # Errors
/// Like [`session`].
pub fn session_until<R>(
    plan: &Plan,
    interruptions: &dyn Fn() -> u32,
    body: impl FnOnce(&mut Session<'_>) -> std::result::Result<R, Error>,
) -> std::result::Result<R, Error> {
    let draft = draft_of(plan, None)?;
    let library = Library::new(Vec::new());
    let host = Host {
        interruptions,
        steps: &library,
    };
    let (mut body, mut result) = (Some(body), None);
    on_session(&draft, plan, &host, &mut || Ok(()), &mut |session| {
        result = body.take().map(|body| body(session));
        Ok(())
    })?;
    result.unwrap_or_else(|| Err(Error::Failed("the ports were not opened".to_owned())))
}

/// Like [`session`], for any host: `opened` is called when the ports are open, before privileges are given up.
pub fn on_session(
    draft: &Draft,
    plan: &Plan,
    host: &Host<'_>,
    opened: &mut dyn FnMut() -> Result<()>,
    body: &mut dyn FnMut(&mut Session<'_>) -> Result<()>,
) -> Result<()> {
    on_ports(draft, host, opened, &mut |ports, draft| {
        body(&mut Session {
            ports,
            plan,
            interruptions: host.interruptions,
            seeds: BTreeSet::new(),
            opened_for: draft,
        })
    })
}

/// Checks the plan of a trial; `known` is the run that the trial belongs to, `None` for its first trial.
fn draft_of(plan: &Plan, known: Option<&Draft>) -> Result<Draft> {
    match plan.workload() {
        Workload::Sendrecv | Workload::Send => Draft::knowing(known, plan.run()),
        other => Err(usage(format!(
            "workload: \"{}\": it has no trials: want sendrecv or send",
            other.name()
        ))),
    }
}

/// Open ports on which one trial after another is run: see [`session`].
pub struct Session<'s> {
    ports: &'s mut dyn Ports,
    plan: &'s Plan,
    interruptions: &'s dyn Fn() -> u32,
    /// Seeds of the trials so far.
    seeds: BTreeSet<u64>,
    /// The run for which the ports were opened: names are resolved and flows reserved only once.
    opened_for: &'s Draft,
}

/// Fields and sections that are the same for all trials of a session.
const OF_ALL: [&str; 11] = [
    "workload",
    "ports",
    "lanes",
    "device",
    "traffic.src",
    "traffic.vlan",
    "traffic.dest_mac",
    "traffic.gateway",
    "traffic.both_ways",
    "traffic.back_dest_mac",
    "traffic.back_gateway",
];

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("plan", self.plan)
            .finish_non_exhaustive()
    }
}

impl Session<'_> {
    /// Returns whether the end has been requested.
    pub fn interrupted(&self) -> bool {
        (self.interruptions)() > 0
    }

    /// Checks whether the ports can run a trial of this plan.
    ///
    /// # Errors
    /// The reason why they can't.
    pub fn check(&self, plan: &Plan) -> Result<()> {
        self.ports.check(&draft_of(plan, Some(self.opened_for))?)
    }

    /// Runs one trial, from its first departure to the end of its settle time, with its own counters, rows and verdict.
    /// Rate, pacing, times, packet length, number of flows and seed may differ from the session's plan. Sinks read its
    /// events.
    ///
    /// Late packets of an earlier trial are in no count of this trial: [`Summary::reasons`] reports them as
    /// `late_of_an_earlier_trial`. To recognise them, a trial of `sendrecv` gets another seed if an earlier trial had
    /// the same one; [`Summary::plan`] contains the seed used. If the kernel runs the trial, packets of earlier trials
    /// are recognised by their time, and counted as `foreign_other_run`.
    ///
    /// If the kernel runs the trial, loaded programs are reused for trials that differ only in duration and in rate.
    /// Their rate may not exceed that of the session's plan. Other trials load new programs, and the fact
    /// `programs_loaded` reports how long that took.
    ///
    /// # Errors
    /// [`Error::Usage`] for a trial that the ports were not opened for: the session goes on. [`Error::Failed`] if the
    /// trial could not take place, for example after an interruption. A trial whose numbers can't be trusted is no
    /// error: see [`Summary::valid`].
    pub fn trial(&mut self, plan: &Plan, sinks: &mut [Box<dyn Sink>]) -> std::result::Result<Summary, Error> {
        for field in OF_ALL {
            let (given, want) = (plan.get(field), self.plan.get(field));
            if given != want {
                return Err(Error::Usage(format!(
                    "{field}: {}: the session was opened with {}",
                    given.cloned().unwrap_or_default(),
                    want.cloned().unwrap_or_default()
                )));
            }
        }
        let mut plan = plan.clone();
        let seed = plan.fields().seed;
        let mut other = seed;
        // Packets in the other direction use the next seed, so seeds are stepped by two.
        while self.ports.tells_trials_by_seed() && self.seeds.contains(&other) {
            other = other.wrapping_add(2);
        }
        if other != seed {
            plan.fields_mut().seed = other;
        }
        let mut draft = draft_of(&plan, Some(self.opened_for)).map_err(|e| self.explained(e))?;
        // The session's start is that of its first trial; a trial may have one of its own.
        if plan.get("times.start_at") == self.plan.get("times.start_at") {
            draft.args.start_at = self.opened_for.args.start_at.filter(|_| self.seeds.is_empty());
        }
        let (given, want) = (draft.dest.ip, self.opened_for.dest.ip);
        if given != want {
            return Err(Error::Usage(format!(
                "traffic.dest: {given}: the session was opened with {want}"
            )));
        }
        let told = self.ports.trial(&draft, false, sinks, self.interruptions);
        let summary = told.map_err(|e| self.explained(e))?;
        self.seeds.insert(other);
        Ok(with_result(summary, &draft.args, sinks))
    }

    /// Returns the reason why there was no trial. If the interface of a port has disappeared, every plan fails, so the
    /// plan is not blamed.
    fn explained(&self, error: Failure) -> Failure {
        let ports = self.opened_for.requests();
        let gone = ports.into_iter().map(|(port, _)| &port.spec).find(|spec| went(spec));
        gone.map_or(error, |spec| {
            failed(format!(
                "port '{spec}': interface {} is not there any more",
                spec.device
            ))
        })
    }
}

/// Open ports, whatever their path.
pub(crate) trait Ports {
    /// Runs a trial. No trial follows the `last` one, and lanes have released their queues when it returns.
    fn trial(
        &mut self,
        draft: &Draft,
        last: bool,
        sinks: &mut [Box<dyn Sink>],
        interruptions: &dyn Fn() -> u32,
    ) -> Result<Summary>;

    /// Refuses a trial that the ports can't run.
    fn check(&self, draft: &Draft) -> Result<()>;

    /// Returns whether late packets are recognised by their trial's seed, so that each trial needs another seed.
    fn tells_trials_by_seed(&self) -> bool;
}

/// Opens the ports of `sendrecv` or `send`. `opened` is called when they are open, before lanes ask for a neighbour and
/// give up their privileges. `body` is called when all is ready, with the final run: its source ports may have been
/// moved because of other runs.
pub(crate) fn on_ports(
    draft: &Draft,
    host: &Host<'_>,
    opened: &mut dyn FnMut() -> Result<()>,
    body: &mut dyn FnMut(&mut dyn Ports, &Draft) -> Result<()>,
) -> Result<()> {
    let reserved = reserve(draft)?;
    let draft = reserved.draft(draft);
    let run = &draft.args;
    let requests = draft.requests();
    let ports: Vec<_> = requests.iter().map(|(port, _)| *port).collect();
    let _prepared = host.prepare(&ports, &draft.rules, Work::Ends)?;
    let opening = Opening {
        run,
        rules: &draft.rules,
        interruptions: host.interruptions,
    };
    let asked = &Asked::new(host.interruptions);
    let ports = open(requests, &opening)?;
    // A plan that can't be run is refused before the files are opened.
    let plan = plan_of(draft, &ports.capabilities(), asked)?;
    opened()?;
    match ports {
        Opened::Kernel(devices) => body(&mut InKernel::new(devices, &plan, asked)?, draft),
        Opened::Lanes(ports) => {
            let ports: Vec<_> = ports.iter().map(|port| &**port).collect();
            let capabilities = &ports.iter().map(|port| port.port().capabilities()).collect::<Vec<_>>();
            on_lanes(&ports, &plan, host.interruptions, |trials| {
                let mut lanes = Lanes {
                    trials,
                    capabilities,
                    asked,
                };
                body(&mut lanes, draft)
            })?
        }
    }
}

/// Returns the plan of a trial on one or two ports with these capabilities.
fn plan_of(draft: &Draft, capabilities: &[&Capabilities], asked: &Asked<'_>) -> Result<TrafficPlan> {
    match capabilities {
        [from, to] => draft.plan_across(from, to, asked),
        _ => draft.plan(capabilities[0], asked),
    }
}

/// Lanes with their queues.
struct Lanes<'t> {
    trials: &'t mut dyn Trials,
    /// Capabilities of the port, or of both ports.
    capabilities: &'t [&'t Capabilities],
    asked: &'t Asked<'t>,
}

impl Ports for Lanes<'_> {
    fn trial(
        &mut self,
        draft: &Draft,
        last: bool,
        sinks: &mut [Box<dyn Sink>],
        interruptions: &dyn Fn() -> u32,
    ) -> Result<Summary> {
        let plan = plan_of(draft, self.capabilities, self.asked)?;
        let told = match last {
            true => self.trials.last(plan, sinks, interruptions),
            false => self.trials.trial(plan, sinks, interruptions),
        };
        told.map_err(of_trial)
    }

    fn check(&self, draft: &Draft) -> Result<()> {
        plan_of(draft, self.capabilities, self.asked).map(drop)
    }

    fn tells_trials_by_seed(&self) -> bool {
        true
    }
}

/// Converts the reason why a trial did not take place.
fn of_trial(error: RunError) -> Failure {
    match error {
        RunError::Unfit(_) => usage(error),
        other => failed(other),
    }
}

/// Devices and their programs.
struct InKernel<'a> {
    devices: Box<dyn KernelDevices + 'a>,
    /// Time that loading took; `None` after a trial has reported it.
    took: Option<Duration>,
    asked: &'a Asked<'a>,
    /// MAC addresses of the next hops, once known: for packets that leave by the first device, and by the second.
    macs: [Option<MacAddr>; 2],
    /// True after the first trial has begun.
    begun: bool,
}

impl<'a> InKernel<'a> {
    fn new(mut devices: Box<dyn KernelDevices + 'a>, plan: &TrafficPlan, asked: &'a Asked<'a>) -> Result<Self> {
        Ok(Self {
            took: devices.load(KernelPlan::Traffic(plan))?,
            devices,
            asked,
            macs: [None; 2],
            begun: false,
        })
    }
}

impl Ports for InKernel<'_> {
    fn trial(
        &mut self,
        draft: &Draft,
        _last: bool,
        sinks: &mut [Box<dyn Sink>],
        interruptions: &dyn Fn() -> u32,
    ) -> Result<Summary> {
        // No trial follows an interrupted one.
        if self.begun && interruptions() > 0 {
            return Err(failed(RunError::Interrupted));
        }
        self.begun = true;
        let mut plan = plan_of(draft, &self.devices.capabilities(), self.asked)?;
        let took = self.devices.load(KernelPlan::Traffic(&plan))?;
        if let Some(took) = took.or(self.took.take()) {
            let took = format!("in {:.1} ms", took.as_secs_f64() * 1e3);
            plan.common.host.push(HostFact::new("programs_loaded", took));
        }
        // The owner of the address was asked in an earlier trial.
        for (link, mac) in [&mut plan.link, &mut plan.far].into_iter().zip(self.macs) {
            if let Some(link) = link {
                link.dest_mac = link.dest_mac.or(mac);
            }
        }
        let programs = self.devices.ports();
        let run = || run_traffic_in_kernel(&programs, &plan, sinks, interruptions);
        let summary = record::with_programs(&draft.args.watchers, &programs, run)?;
        // Answers arrive at the device that packets leave by. The other direction's program receives there.
        for (mac, programs) in self.macs.iter_mut().zip(programs.iter().rev()) {
            *mac = mac.or_else(|| programs.heard().map(MacAddr));
        }
        Ok(summary)
    }

    fn check(&self, draft: &Draft) -> Result<()> {
        plan_of(draft, &self.devices.capabilities(), self.asked).map(drop)
    }

    fn tells_trials_by_seed(&self) -> bool {
        false
    }
}
