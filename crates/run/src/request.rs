//! Request for a run: the plan, and settings that are not part of a plan.

use crate::draft::name_by_kernel;
use crate::fail::{Result, usage};
use crate::paths::has_sockets;
use crate::sample::SamplePcap;
use crate::watchers::Watchers;
use mpps_plan::values::keep::{Triggers, Window};
use mpps_plan::values::start::StartAt;
use mpps_plan::{DEFAULT_SRC_PORTS, Plain, Plan};
use mpps_sys::clock::{ClockTime, monotonic_ns, realtime_ns};
use std::sync::Arc;

/// Request for a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Plan as given.
    pub plan: Plan,
    /// Plan with open fields filled in. Equal to `plan` until the run was checked.
    pub complete: Plan,
    /// Settings that are not part of the plan.
    pub beside: Beside,
    /// Instant of the start, if the plan has one.
    pub start_at: Option<ClockTime>,
    /// State of the run beside its packets; requests for trials of one run share it.
    pub watchers: Arc<Watchers>,
}

/// Settings of a run that are not part of its plan. The default asks for nothing.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// Settings of a trace.
    pub trace: Option<Trace>,
    /// File for a sample of the frames.
    pub sample: Option<SamplePcap>,
    /// Writes rows per lane.
    pub lanes_csv: bool,
    /// Rate of stack samples per lane, Hz.
    pub profile_hz: Option<u32>,
    /// Keeps all privileges.
    pub keep_privileges: bool,
}

/// Contents of a trace.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Events whose time is kept.
    pub on: Triggers,
    /// Time around an event.
    pub window: Window,
    /// Keeps all rounds instead of windows.
    pub all: bool,
    /// Memory limit in bytes.
    pub memory: u64,
}

impl Run {
    /// Returns the complete plan as a result holds it: without the instant of the start, so that it can be repeated.
    pub fn recorded(&self) -> Plan {
        let mut plan = self.complete.clone();
        plan.times.start_at = None;
        plan
    }

    /// Creates a request from a plan. The plan may be complete: default source ports can still move.
    pub fn of(mut plan: Plan) -> Self {
        open_default_ports(&mut plan);
        Self::as_given(plan, Beside::default())
    }

    /// Creates a request from a plan whose fields were all given by the user.
    pub fn as_given(mut plan: Plan, beside: Beside) -> Self {
        plan.ports.iter_mut().for_each(|port| name_by_kernel(port.value_mut()));
        let start_at = plan.times.start_at.plain().map(|start| match start {
            StartAt::In(time) => ClockTime::Monotonic(monotonic_ns().saturating_add(time.as_nanos() as u64)),
            StartAt::At(utc_ns) => ClockTime::Utc(utc_ns),
        });
        Self {
            complete: plan.clone(),
            plan,
            beside,
            start_at,
            watchers: Arc::default(),
        }
    }
}

/// Refuses a start that is past when the run is checked, and what would look at the time before it.
pub(crate) fn check_start(run: &Run) -> Result<()> {
    let (Some(start), Some(text)) = (run.start_at, &run.plan.times.start_at) else {
        return Ok(());
    };
    let looks = [
        ("--trace", run.beside.trace.is_some()),
        ("--profile", run.beside.profile_hz.is_some()),
    ];
    if let Some((option, _)) = looks.into_iter().find(|(_, given)| *given) {
        return Err(usage(format!(
            "--start-at {}: {option} looks at the run from when its ports are open, and would blame it for what the \
             host did while it waited: want one of them left out",
            text.text()
        )));
    }
    let ClockTime::Utc(at_ns) = start else { return Ok(()) };
    match realtime_ns().checked_sub(at_ns) {
        None => Ok(()),
        Some(past_ns) => Err(usage(format!(
            "--start-at '{}': that was {} ago: want a time to come",
            text.text(),
            mpps_trace::time(past_ns as f64)
        ))),
    }
}

/// Removes the default source ports from a plan. A run may move default ports if another run uses them.
pub fn open_default_ports(plan: &mut Plan) {
    if plan.ports.first().is_some_and(|port| !has_sockets(port)) {
        plan.traffic.src_ports.take_if(|ports| **ports == DEFAULT_SRC_PORTS);
    }
}

/// Reads a run from the words of a command line, as far as they are a plan.
#[cfg(test)]
pub(crate) fn run_of(line: &str) -> Run {
    use mpps_plan::fields::{FIELDS, Kind};
    let mut words = line.split_whitespace();
    let workload = words.next().and_then(mpps_plan::Workload::named).expect("a workload");
    let mut plan = Plan::new(workload);
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix("--") else {
            plan.ports.push(mpps_plan::json::port(word).expect("a port"));
            continue;
        };
        let (name, value) = option
            .split_once('=')
            .map_or((option, None), |(name, value)| (name, Some(value)));
        let field = FIELDS
            .iter()
            .find(|field| field.is_of(workload) && field.option == name);
        let field = field.unwrap_or_else(|| panic!("--{name}: no field"));
        let value = match field.kind {
            Kind::Flag => "true",
            _ => value.or_else(|| words.next()).expect("a value"),
        };
        (field.access.read)(&mut plan, value).unwrap_or_else(|why| panic!("--{name} {value}: {why}"));
    }
    Run::as_given(plan, Beside::default())
}
