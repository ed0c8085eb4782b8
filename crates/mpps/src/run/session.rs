//! Ports that stay open over any number of trials.

use super::{Error, Host, Plan, with_result};
use crate::fail::{Failure, Result, failed, usage, went};
use crate::paths::{KernelDevices, Kind, Opening, Use, UseTwo, Work, with_alike, with_ports};
use crate::plan::model::Workload;
use crate::plan::neighbor::Asked;
use crate::plan::reserve::reserve;
use crate::plan::traffic::Draft;
use crate::record;
use mpps_engine::{RunError, TrafficPlan, Trials, run_traffic_in_kernel, session as on_port, session_across};
use mpps_io::kernel::KernelPort;
use mpps_io::{Capabilities, Port};
use mpps_stats::{HostFact, Sink, Summary};
use mpps_wire::MacAddr;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Opens the ports of a plan of `sendrecv` or `send` once, and hands `body` a [`Session`] that runs any number of
/// trials on them. Returns what `body` returns, once the ports are closed.
///
/// The plan says what every trial has (ports, addresses, lanes), and what none exceeds: its flows. Whoever owns the
/// peer's MAC address is asked once.
///
/// # Errors
/// When the ports could not be opened, or nobody answers for the peer's address; else what `body` returns.
pub fn session<R>(
    plan: &Plan,
    body: impl FnOnce(&mut Session<'_>) -> std::result::Result<R, Error>,
) -> std::result::Result<R, Error> {
    session_until(plan, &|| 0, body)
}

/// As [`session`], with trials that can be interrupted: `interruptions` is asked every 100 ms or more often how often
/// the end has been asked for. The first time ends the sending of the trial at hand, another time its settling; there
/// is none after it.
///
/// # Errors
/// As [`session`].
pub fn session_until<R>(
    plan: &Plan,
    interruptions: &dyn Fn() -> u32,
    body: impl FnOnce(&mut Session<'_>) -> std::result::Result<R, Error>,
) -> std::result::Result<R, Error> {
    let draft = draft_of(plan, None)?;
    let host = Host::of_library(Vec::new(), interruptions);
    let (mut body, mut result) = (Some(body), None);
    on_session(&draft, plan, &host, &mut || Ok(()), &mut |session| {
        result = body.take().map(|body| body(session));
        Ok(())
    })?;
    result.unwrap_or_else(|| Err(Error::Failed("the ports were not opened".to_owned())))
}

/// As [`session`], for any host: `opened` is called when the ports are open, before privileges are given up.
pub(crate) fn on_session(
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

/// The plan, checked: of a trial of the run that is `known`, or of the first.
fn draft_of(plan: &Plan, known: Option<&Draft>) -> Result<Draft> {
    match plan.workload() {
        Workload::Sendrecv | Workload::Send => Draft::knowing(known, plan.run()),
        other => Err(usage(format!(
            "workload: \"{}\": it has no trials: want sendrecv or send",
            other.name()
        ))),
    }
}

/// Open ports, on which one trial after another is run: see [`session`].
pub struct Session<'s> {
    ports: &'s mut dyn Ports,
    plan: &'s Plan,
    interruptions: &'s dyn Fn() -> u32,
    /// Of the trials so far.
    seeds: BTreeSet<u64>,
    /// Names were looked up once, and flows reserved.
    opened_for: &'s Draft,
}

/// Fields and sections that are one for all trials of a session.
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
    /// Whether the end has been asked for.
    pub(crate) fn interrupted(&self) -> bool {
        (self.interruptions)() > 0
    }

    /// Whether the ports can send what a trial of this plan would.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check(&self, plan: &Plan) -> Result<()> {
        self.ports.check(&draft_of(plan, Some(self.opened_for))?)
    }

    /// Runs one trial, from its first departure to the end of its settle time, with counters, rows and a verdict of its
    /// own. Rate, pacing, times, length of packets, flows and seed may be others than in the session's plan. Sinks read
    /// its events.
    ///
    /// Late packets of an earlier trial are in no count of this one: [`Summary::reasons`] tells it as
    /// `late_of_an_earlier_trial`. To tell them apart a trial of `sendrecv` whose seed an earlier one had is given
    /// another, as [`Summary::plan`] says; where the kernel runs the trial, its packets are known by their time, and
    /// counted as `foreign_other_run`.
    ///
    /// Where the kernel runs the trial, programs that are loaded serve trials which differ in duration and in rate
    /// alone, up to that of the session's plan; others are loaded for any other trial, and the fact `programs_loaded`
    /// tells how long that took.
    ///
    /// # Errors
    /// [`Error::Usage`] for a trial that the ports were not opened for: the session goes on. [`Error::Failed`] where it
    /// could not take place, as after an interruption. One that took place but whose numbers can't be believed is no
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
        // Packets that go the other way at the same time have the next seed.
        while self.ports.tells_trials_by_seed() && self.seeds.contains(&other) {
            other = other.wrapping_add(2);
        }
        if other != seed {
            plan.fields_mut().seed = other;
        }
        let draft = draft_of(&plan, Some(self.opened_for)).map_err(|e| self.explained(e))?;
        let (given, want) = (draft.dest.ip, self.opened_for.dest.ip);
        if given != want {
            return Err(Error::Usage(format!(
                "traffic.dest: {given}: the session was opened with {want}"
            )));
        }
        let told = self.ports.trial(&draft, false, sinks, self.interruptions);
        let summary = told.map_err(|e| self.explained(e))?;
        self.seeds.insert(other);
        Ok(with_result(summary, &draft.args.complete, sinks))
    }

    /// Why there was no trial. Of a port whose interface has gone nothing fits any more, which is no fault of the plan.
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
    /// Runs a trial; after the `last` there is no other, and lanes have let go of their queues when it returns.
    fn trial(
        &mut self,
        draft: &Draft,
        last: bool,
        sinks: &mut [Box<dyn Sink>],
        interruptions: &dyn Fn() -> u32,
    ) -> Result<Summary>;

    /// Refuses a trial that the ports can't run.
    fn check(&self, draft: &Draft) -> Result<()>;

    /// Late packets are told by their trial's seed: each needs another.
    fn tells_trials_by_seed(&self) -> bool;
}

/// Opens the ports of `sendrecv` or `send`. `opened` is called when they are open, before lanes ask for a neighbour and
/// give up their privileges; `body` when all is ready, with the run as it is to be: other runs may have moved its
/// source ports.
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
    let asked = Asked::new(host.interruptions);
    let user = User {
        draft,
        host,
        asked: &asked,
        opened,
        body,
    };
    match requests.len() {
        1 => with_alike(requests, &opening, OnOne(user)),
        _ => with_ports(requests, &opening, Across(user)),
    }
}

/// What is done with open ports.
struct User<'a> {
    draft: &'a Draft,
    host: &'a Host<'a>,
    asked: &'a Asked<'a>,
    opened: &'a mut dyn FnMut() -> Result<()>,
    body: &'a mut dyn FnMut(&mut dyn Ports, &Draft) -> Result<()>,
}

impl User<'_> {
    /// Goes through trials on lanes that are open.
    fn go(&mut self, trials: &mut dyn Trials, capabilities: &[Capabilities]) -> Result<()> {
        let asked = self.asked;
        let mut lanes = Lanes {
            trials,
            capabilities,
            asked,
        };
        (self.body)(&mut lanes, self.draft)
    }

    /// Goes through trials that the kernel runs, on one device or between two.
    fn in_kernel<D: KernelDevices>(self, devices: D) -> Result<()> {
        // What the plan refuses is refused before the files are opened.
        plan_of(self.draft, &devices.capabilities(), self.asked)?;
        (self.opened)()?;
        (self.body)(&mut InKernel::new(devices, self.draft, self.asked)?, self.draft)
    }
}

/// The plan of a trial on ports that can do this: one, or two.
fn plan_of(draft: &Draft, capabilities: &[&Capabilities], asked: &Asked<'_>) -> Result<TrafficPlan> {
    match capabilities {
        [from, to] => draft.plan_across(from, to, asked),
        _ => draft.plan(capabilities[0], asked),
    }
}

/// Packets leave and come back by one port.
struct OnOne<'a>(User<'a>);

impl Use for OnOne<'_> {
    const GENERATES: bool = true;
    type Out = ();

    fn frames<P: Port>(mut self, ports: &[P]) -> Result<()> {
        let (port, user) = (&ports[0], &mut self.0);
        let capabilities = [port.capabilities().clone()];
        let plan = user.draft.plan(&capabilities[0], user.asked)?;
        (user.opened)()?;
        on_port(port, &plan, user.host.interruptions, |trials| {
            user.go(trials, &capabilities)
        })?
    }

    fn in_kernel<D: KernelDevices>(self, devices: D) -> Result<()> {
        self.0.in_kernel(devices)
    }
}

/// They leave by one port and arrive at another.
struct Across<'a>(User<'a>);

impl Use for Across<'_> {
    const KINDS: &'static [Kind] = &[Kind::Device];
    const GENERATES: bool = true;
    type Out = ();

    fn frames<P: Port>(self, ports: &[P]) -> Result<()> {
        self.two(&ports[0], &ports[1])
    }

    fn in_kernel<D: KernelDevices>(self, devices: D) -> Result<()> {
        self.0.in_kernel(devices)
    }
}

impl UseTwo for Across<'_> {
    fn two<A: Port, B: Port>(mut self, a: &A, b: &B) -> Result<()> {
        let user = &mut self.0;
        let capabilities = [a.capabilities().clone(), b.capabilities().clone()];
        let plan = user.draft.plan_across(&capabilities[0], &capabilities[1], user.asked)?;
        (user.opened)()?;
        session_across(a, b, &plan, user.host.interruptions, |trials| {
            user.go(trials, &capabilities)
        })?
    }
}

/// Lanes with their queues.
struct Lanes<'t> {
    trials: &'t mut dyn Trials,
    /// Of the port, or of both.
    capabilities: &'t [Capabilities],
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
        let plan = plan_of(draft, &self.capabilities.iter().collect::<Vec<_>>(), self.asked)?;
        let told = match last {
            true => self.trials.last(plan, sinks, interruptions),
            false => self.trials.trial(plan, sinks, interruptions),
        };
        told.map_err(of_trial)
    }

    fn check(&self, draft: &Draft) -> Result<()> {
        plan_of(draft, &self.capabilities.iter().collect::<Vec<_>>(), self.asked).map(drop)
    }

    fn tells_trials_by_seed(&self) -> bool {
        true
    }
}

/// Why a trial did not take place.
fn of_trial(error: RunError) -> Failure {
    match error {
        RunError::Unfit(_) => usage(error),
        other => failed(other),
    }
}

/// Devices, and the programs that are on them.
struct InKernel<'a, D: KernelDevices> {
    devices: D,
    /// None only while others are loaded: a device has one program.
    programs: Vec<D::Port>,
    /// How long it took to load them, until a trial has told it.
    took: Option<Duration>,
    asked: &'a Asked<'a>,
    /// MAC address of the next hop, once it is known: of packets that leave by the first device, and by the second.
    macs: [Option<MacAddr>; 2],
    /// There was a trial.
    begun: bool,
}

impl<'a, D: KernelDevices> InKernel<'a, D> {
    fn new(devices: D, draft: &Draft, asked: &'a Asked<'a>) -> Result<Self> {
        let plan = plan_of(draft, &devices.capabilities(), asked)?;
        let mut this = Self {
            devices,
            programs: Vec::new(),
            took: None,
            asked,
            macs: [None; 2],
            begun: false,
        };
        this.load(&plan)?;
        Ok(this)
    }

    fn load(&mut self, plan: &TrafficPlan) -> Result<()> {
        self.programs.clear();
        let began = Instant::now();
        self.programs = self.devices.traffic(plan)?;
        self.took = Some(began.elapsed());
        Ok(())
    }
}

impl<D: KernelDevices> Ports for InKernel<'_, D> {
    fn trial(
        &mut self,
        draft: &Draft,
        _last: bool,
        sinks: &mut [Box<dyn Sink>],
        interruptions: &dyn Fn() -> u32,
    ) -> Result<Summary> {
        // There is no trial after one that was interrupted.
        if self.begun && interruptions() > 0 {
            return Err(failed(RunError::Interrupted));
        }
        self.begun = true;
        let mut plan = plan_of(draft, &self.devices.capabilities(), self.asked)?;
        let loaded = !self.programs.is_empty();
        if !loaded || !self.devices.renew(&mut self.programs, &plan)? {
            self.load(&plan)?;
        }
        if let Some(took) = self.took.take() {
            let took = format!("in {:.1} ms", took.as_secs_f64() * 1e3);
            plan.common.host.push(HostFact::new("programs_loaded", took));
        }
        // Whoever owns the address was asked in an earlier trial.
        for (link, mac) in [&mut plan.link, &mut plan.far].into_iter().zip(self.macs) {
            if let Some(link) = link {
                link.dest_mac = link.dest_mac.or(mac);
            }
        }
        let programs = &self.programs;
        let run = || run_traffic_in_kernel(programs, &plan, sinks, interruptions);
        let summary = record::with_programs(programs, run)?;
        // Answers come to the device that packets leave by, where those of the other way are received.
        for (mac, programs) in self.macs.iter_mut().zip(self.programs.iter().rev()) {
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
