//! Ports that stay open for any number of trials.

use crate::draft::neighbor::Asked;
use crate::draft::reserve::reserve;
use crate::draft::traffic::Draft;
use crate::draft::{lanes, memory};
use crate::fail::{Failure, Result, failed, usage, went};
use crate::host::{Host, Library};
use crate::paths::{self, KernelDevices, KernelPlan, Opened, Opening, Work, open};
use crate::record;
use crate::{Error, Plan, with_results};
use mpps_engine::{MOST_BESIDE, RunError, Streams, TrafficPlan, Trials, run_traffic_in_kernel, session as on_lanes};
use mpps_io::Capabilities;
use mpps_plan::Workload;
use mpps_stats::{HostFact, Sink, Summary};
use mpps_wire::MacAddr;
use std::collections::BTreeSet;
use std::sync::Arc;
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
    session_beside(std::slice::from_ref(plan), interruptions, body)
}

/// Like [`session_until`], for ports that run beside each other: each plan has a port of its own, where its packets
/// come back, and is a stream with its own load, counts and verdict ([`Summary::directions`]). Stream 0 is that of the
/// first plan. Every trial has a start and an end for all ([`Session::directed`]).
///
/// # Errors
/// Like [`session`], and for plans that can't be in one run: they have the same workload, times, device options and
/// kind of lanes, and one port each, on a path whose lanes send.
pub fn session_beside<R>(
    plans: &[Plan],
    interruptions: &dyn Fn() -> u32,
    body: impl FnOnce(&mut Session<'_>) -> std::result::Result<R, Error>,
) -> std::result::Result<R, Error> {
    check_beside(plans)?;
    let mut drafts = Vec::new();
    for plan in plans {
        drafts.push(draft_of(plan, drafts.first(), None)?);
    }
    check_together(&drafts)?;
    let (drafts, plans): (Vec<_>, Vec<_>) = drafts.iter().zip(plans).unzip();
    let library = Library::new(Vec::new());
    let host = Host {
        interruptions,
        steps: &library,
    };
    let (mut body, mut result) = (Some(body), None);
    on_sessions((&drafts, &plans), &host, &mut || Ok(()), &mut |session| {
        result = body.take().map(|body| body(session));
        Ok(())
    })?;
    result.unwrap_or_else(|| Err(Error::Failed("the ports were not opened".to_owned())))
}

/// Fields and sections that plans which run beside each other have in common.
const IN_COMMON: [&str; 6] = [
    "workload",
    "times",
    "device",
    "lanes.busy_poll",
    "lanes.nice",
    "lanes.fifo",
];

/// Refuses plans that can't run beside each other.
fn check_beside(plans: &[Plan]) -> Result<()> {
    let [first, others @ ..] = plans else {
        return Err(usage("no plan: want one at least"));
    };
    if others.is_empty() {
        return Ok(());
    }
    if plans.len() > MOST_BESIDE {
        let (given, most) = (plans.len(), MOST_BESIDE);
        return Err(usage(format!(
            "{given} plans beside each other: want {most} at the most"
        )));
    }
    for field in IN_COMMON {
        let want = first.get(field);
        if let Some(other) = others.iter().find(|plan| plan.get(field) != want) {
            let text = |plan: &Plan| plan.get(field).cloned().unwrap_or_default();
            return Err(usage(format!(
                "{field}: {}: plans that run beside each other have it in common: want {}",
                text(other),
                text(first)
            )));
        }
    }
    if let Some(plan) = plans.iter().find(|plan| plan.fields().ports.len() > 1) {
        return Err(usage(format!(
            "ports: {}: want one port in each of the plans that run beside each other",
            plan.get("ports").cloned().unwrap_or_default()
        )));
    }
    let mut seeds = BTreeSet::new();
    let tagged = |plan: &&Plan| plan.fields().traffic.streams.is_some();
    if let Some(plan) = plans
        .iter()
        .filter(tagged)
        .find(|plan| !seeds.insert(plan.fields().seed))
    {
        return Err(usage(format!(
            "seed: {}: packets are known by it (--packet): want another in each of the plans beside each other",
            plan.fields().seed
        )));
    }
    if let Some(count) = plans.iter().find_map(|plan| plan.get("traffic.count")) {
        return Err(usage(format!(
            "traffic.count: {count}: plans that run beside each other end together: want a duration"
        )));
    }
    Ok(())
}

/// Refuses runs that can't be beside each other on this host.
fn check_together(drafts: &[Draft]) -> Result<()> {
    if drafts.len() < 2 {
        return Ok(());
    }
    if let Some(draft) = drafts.iter().find(|draft| draft.port.traits.in_kernel) {
        let spec = &draft.port.spec;
        return Err(usage(format!(
            "port '{spec}': no other port runs beside it: want one plan"
        )));
    }
    let specs: Vec<_> = drafts.iter().map(|draft| draft.port.spec.clone()).collect();
    paths::check_together(&specs)?;
    memory::check_beside(drafts.iter().map(|draft| draft.memory_bytes))
}

/// Like [`session`], for any host: `opened` is called when the ports are open, before privileges are given up.
pub fn on_session(
    draft: &Draft,
    plan: &Plan,
    host: &Host<'_>,
    opened: &mut dyn FnMut() -> Result<()>,
    body: &mut dyn FnMut(&mut Session<'_>) -> Result<()>,
) -> Result<()> {
    on_sessions((&[draft], &[plan]), host, opened, body)
}

fn on_sessions(
    (drafts, plans): (&[&Draft], &[&Plan]),
    host: &Host<'_>,
    opened: &mut dyn FnMut() -> Result<()>,
    body: &mut dyn FnMut(&mut Session<'_>) -> Result<()>,
) -> Result<()> {
    on_ports(drafts, host, opened, &mut |ports, drafts| {
        body(&mut Session {
            ports,
            plans,
            interruptions: host.interruptions,
            seeds: BTreeSet::new(),
            opened_for: drafts,
        })
    })
}

/// Checks the plan of a trial. `beside`: another one of its run. `known`: the run that the trial belongs to, `None` for
/// its first trial.
fn draft_of(plan: &Plan, beside: Option<&Draft>, known: Option<&Draft>) -> Result<Draft> {
    match plan.workload() {
        Workload::Sendrecv | Workload::Send => {
            let mut run = plan.run();
            if let Some(beside) = beside {
                run.watchers = Arc::clone(&beside.args.watchers);
            }
            Draft::knowing(known, run)
        }
        other => Err(usage(format!(
            "workload: \"{}\": it has no trials: want sendrecv or send",
            other.name()
        ))),
    }
}

/// Returns the memory, bytes, that a trial of a plan takes: of its flows, and in all. Nothing is opened.
///
/// # Errors
/// If the plan is refused, as when it takes more memory than there is.
pub fn memory_of(plan: &Plan) -> std::result::Result<(u64, u64), Error> {
    let draft = draft_of(plan, None, None)?;
    Ok((draft.flow_bytes, draft.memory_bytes))
}

/// Open ports on which one trial after another is run: see [`session`].
pub struct Session<'s> {
    ports: &'s mut dyn Ports,
    plans: &'s [&'s Plan],
    interruptions: &'s dyn Fn() -> u32,
    /// Seeds of the trials so far.
    seeds: BTreeSet<u64>,
    /// The runs for which the ports were opened: names are resolved and flows reserved only once.
    opened_for: &'s [&'s Draft],
}

/// Fields and sections that are the same for all trials of a session.
const OF_ALL: [&str; 12] = [
    "workload",
    "ports",
    "lanes",
    "device",
    "traffic.streams",
    "traffic.src",
    "traffic.vlan",
    "traffic.dest_mac",
    "traffic.gateway",
    "traffic.both_ways",
    "traffic.back_dest_mac",
    "traffic.back_gateway",
];

/// Returns streams without what may differ from trial to trial: how fast they are, and when they begin.
fn without_loads(streams: Option<&serde_json::Value>) -> Option<serde_json::Value> {
    let mut streams = streams?.clone();
    for stream in streams
        .as_array_mut()?
        .iter_mut()
        .filter_map(serde_json::Value::as_object_mut)
    {
        for key in ["rate", "weight", "start", "after", "pacing", "speed"] {
            stream.remove(key);
        }
    }
    Some(streams)
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("plans", &self.plans)
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
        let [opened_for] = self.opened_for else {
            return Err(usage("a session of several plans checks a trial as it begins"));
        };
        self.ports.check(&draft_of(plan, None, Some(opened_for))?)
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
        self.run(std::slice::from_ref(plan), None, sinks)
    }

    /// Like [`Session::trial`], with streams that the caller starts, pauses and stops meanwhile, from another thread. A
    /// trial needs new `streams`. There is a plan for each of the session's, in their order, and each is a stream. The
    /// seeds of plans beside each other differ. When it returns, the streams are over ([`Streams::is_over`]), even if
    /// there was no trial.
    ///
    /// # Errors
    /// Like [`Session::trial`], and for an early order that can't be followed. The path `xdp` follows no orders.
    pub fn directed(
        &mut self,
        plans: &[Plan],
        streams: &Streams,
        sinks: &mut [Box<dyn Sink>],
    ) -> std::result::Result<Summary, Error> {
        let told = self.run(plans, Some(streams), sinks);
        // Also if there was no trial: another thread may wait for its counts.
        streams.end();
        told
    }

    fn run(
        &mut self,
        plans: &[Plan],
        streams: Option<&Streams>,
        sinks: &mut [Box<dyn Sink>],
    ) -> std::result::Result<Summary, Error> {
        if plans.len() != self.plans.len() {
            let (given, want) = (plans.len(), self.plans.len());
            return Err(Error::Usage(format!(
                "plans for a trial: {given}: the session was opened with {want}"
            )));
        }
        check_beside(plans)?;
        let mut drafts = Vec::new();
        let mut seeds = Vec::new();
        for (place, plan) in plans.iter().enumerate() {
            let draft = self.draft(place, plan, &seeds)?;
            seeds.push(draft.args.plan.seed);
            drafts.push(draft);
        }
        if drafts.len() > 1 {
            memory::check_beside(drafts.iter().map(|draft| draft.memory_bytes))?;
        }
        let drafts: Vec<_> = drafts.iter().collect();
        let told = self.ports.trial(&drafts, streams, false, sinks, self.interruptions);
        let summary = told.map_err(|e| self.explained(e))?;
        self.seeds.extend(seeds);
        let runs = drafts.iter().map(|draft| &draft.args);
        Ok(with_results(summary, runs, sinks))
    }

    /// Checks the plan at `place` of a trial in which plans before it have these seeds.
    fn draft(&self, place: usize, plan: &Plan, seeds: &[u64]) -> std::result::Result<Draft, Error> {
        let (opening, opened_for) = (self.plans[place], self.opened_for[place]);
        for field in OF_ALL {
            let (given, want) = (plan.get(field), opening.get(field));
            let same = match field {
                "traffic.streams" => without_loads(given) == without_loads(want),
                _ => given == want,
            };
            if !same {
                return Err(Error::Usage(format!(
                    "{field}: {}: the session was opened with {}",
                    given.cloned().unwrap_or_default(),
                    want.cloned().unwrap_or_default()
                )));
            }
        }
        let mut plan = plan.clone();
        let seed = plan.fields().seed;
        let opened = opening.fields().seed;
        if opened_for.packet().is_some() && seed != opened {
            return Err(Error::Usage(format!(
                "seed: {seed}: the session was opened with {opened}, by which its ports know its packets"
            )));
        }
        let mut other = seed;
        // Packets in the other direction use the next seed, so seeds are stepped by two.
        // Tags have the number of their trial, and are keyed by the seed that the ports know.
        let by_seed = self.ports.tells_trials_by_seed() && opened_for.packet().is_none();
        while by_seed && (self.seeds.contains(&other) || seeds.contains(&other)) {
            other = other.wrapping_add(2);
        }
        if other != seed {
            plan.fields_mut().seed = other;
        }
        let mut draft = draft_of(&plan, None, Some(opened_for)).map_err(|e| self.explained(e))?;
        // The session's start is that of its first trial; a trial may have one of its own.
        if plan.get("times.start_at") == opening.get("times.start_at") {
            draft.args.start_at = opened_for.args.start_at.filter(|_| self.seeds.is_empty());
        }
        let (given, want) = (draft.dest.ip, opened_for.dest.ip);
        if given != want {
            return Err(Error::Usage(format!(
                "traffic.dest: {given}: the session was opened with {want}"
            )));
        }
        Ok(draft)
    }

    /// Returns the reason why there was no trial. If the interface of a port has disappeared, every plan fails, so the
    /// plan is not blamed.
    fn explained(&self, error: Failure) -> Failure {
        let ports = self.opened_for.iter().flat_map(|draft| draft.requests());
        let gone = ports.map(|(port, _)| &port.spec).find(|spec| went(spec));
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
    /// Runs a trial, on ports that run beside each other if there are several drafts. No trial follows the `last` one,
    /// and lanes have released their queues when it returns.
    fn trial(
        &mut self,
        drafts: &[&Draft],
        streams: Option<&Streams>,
        last: bool,
        sinks: &mut [Box<dyn Sink>],
        interruptions: &dyn Fn() -> u32,
    ) -> Result<Summary>;

    /// Refuses a trial that the ports can't run.
    fn check(&self, draft: &Draft) -> Result<()>;

    /// Returns whether late packets are recognised by their trial's seed, so that each trial needs another seed.
    fn tells_trials_by_seed(&self) -> bool;
}

/// Body of a session: it gets the open ports, and the final runs, whose source ports may have been moved because of
/// other runs.
type Body<'b> = &'b mut dyn FnMut(&mut dyn Ports, &[&Draft]) -> Result<()>;

/// Opens the ports of `sendrecv` or `send`, which run beside each other if there are several drafts. `opened` is called
/// when they are open, before lanes ask for a neighbour and give up their privileges. `body` is called when all is
/// ready.
pub(crate) fn on_ports(
    drafts: &[&Draft],
    host: &Host<'_>,
    opened: &mut dyn FnMut() -> Result<()>,
    body: Body<'_>,
) -> Result<()> {
    let reserved = drafts.iter().map(|draft| reserve(draft)).collect::<Result<Vec<_>>>()?;
    let drafts: Vec<_> = reserved
        .iter()
        .zip(drafts)
        .map(|(held, draft)| held.draft(draft))
        .collect();
    let mut prepared = Vec::new();
    for draft in &drafts {
        let requests = draft.requests();
        let ports: Vec<_> = requests.iter().map(|(port, _)| *port).collect();
        prepared.push(host.prepare(&ports, &draft.rules, Work::Ends)?);
    }
    // Runs beside each other have the same device options.
    let opening = Opening {
        run: &drafts[0].args,
        rules: &drafts[0].rules,
        interruptions: host.interruptions,
    };
    let asked = &Asked::new(host.interruptions);
    let ports = open(drafts.iter().flat_map(|draft| draft.requests()).collect(), &opening)?;
    // A plan that can't be run is refused before the files are opened.
    let plan = plan_of(&drafts, &ports.capabilities(), asked)?;
    opened()?;
    match ports {
        Opened::Kernel(devices) => body(&mut InKernel::new(devices, &plan, asked)?, &drafts),
        Opened::Lanes(ports) => {
            let ports: Vec<_> = ports.iter().map(|port| &**port).collect();
            let capabilities = &ports.iter().map(|port| port.port().capabilities()).collect::<Vec<_>>();
            on_lanes(&ports, &plan, host.interruptions, |trials| {
                let mut lanes = Lanes {
                    trials,
                    capabilities,
                    asked,
                };
                body(&mut lanes, &drafts)
            })?
        }
    }
}

/// Returns the plan of a trial on ports with these capabilities: one, two, or one for each of several drafts.
fn plan_of(drafts: &[&Draft], capabilities: &[&Capabilities], asked: &Asked<'_>) -> Result<TrafficPlan> {
    match (drafts, capabilities) {
        ([draft], [from, to]) => draft.plan_across(from, to, asked),
        ([draft], [port]) => draft.plan(port, asked),
        (drafts, ports) => {
            let each = drafts.iter().zip(ports).map(|(draft, port)| draft.plan(port, asked));
            let mut plan = TrafficPlan::with_beside(each.collect::<Result<_>>()?);
            lanes::share_cores(&mut plan.common)?;
            Ok(plan)
        }
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
        drafts: &[&Draft],
        streams: Option<&Streams>,
        last: bool,
        sinks: &mut [Box<dyn Sink>],
        interruptions: &dyn Fn() -> u32,
    ) -> Result<Summary> {
        let mut plan = plan_of(drafts, self.capabilities, self.asked)?;
        plan.common.streams = streams.cloned();
        let told = match last {
            true => self.trials.last(plan, sinks, interruptions),
            false => self.trials.trial(plan, sinks, interruptions),
        };
        told.map_err(of_trial)
    }

    fn check(&self, draft: &Draft) -> Result<()> {
        plan_of(&[draft], self.capabilities, self.asked).map(drop)
    }

    fn tells_trials_by_seed(&self) -> bool {
        true
    }
}

/// Converts the reason why a trial did not take place.
fn of_trial(error: RunError) -> Failure {
    match error {
        RunError::Unfit(_) | RunError::Order(_) => usage(error),
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
        drafts: &[&Draft],
        streams: Option<&Streams>,
        _last: bool,
        sinks: &mut [Box<dyn Sink>],
        interruptions: &dyn Fn() -> u32,
    ) -> Result<Summary> {
        let draft = drafts[0];
        if streams.is_some() {
            let spec = &draft.port.spec;
            return Err(usage(format!(
                "port '{spec}': the kernel sends, and follows no orders: want another path"
            )));
        }
        // No trial follows an interrupted one.
        if self.begun && interruptions() > 0 {
            return Err(failed(RunError::Interrupted));
        }
        self.begun = true;
        let mut plan = plan_of(&[draft], &self.devices.capabilities(), self.asked)?;
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
        plan_of(&[draft], &self.devices.capabilities(), self.asked).map(drop)
    }

    fn tells_trials_by_seed(&self) -> bool {
        false
    }
}
