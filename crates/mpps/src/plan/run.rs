//! Request for a run: the plan, and settings that are not part of a plan.

use super::model::Plan;
use super::values::keep::{Triggers, Window};
use crate::sample::SamplePcap;

/// Request for a run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Plan as given.
    pub(crate) plan: Plan,
    /// Plan with open fields filled in. Equal to `plan` until the run was checked.
    pub(crate) complete: Plan,
    /// Settings that are not part of the plan.
    pub(crate) beside: Beside,
}

/// Settings of a run that are not part of its plan. The default asks for nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beside {
    /// Settings of a trace.
    pub(crate) trace: Option<Trace>,
    /// File for a sample of the frames.
    pub(crate) sample: Option<SamplePcap>,
    /// Writes rows per lane.
    pub(crate) lanes_csv: bool,
    /// Rate of stack samples per lane, Hz.
    pub(crate) profile_hz: Option<u32>,
    /// Keeps all privileges.
    pub(crate) keep_privileges: bool,
}

/// Contents of a trace.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) on: Triggers,
    pub(crate) window: Window,
    /// Keeps all rounds instead of windows.
    pub(crate) all: bool,
    /// Memory limit in bytes.
    pub(crate) memory: u64,
}

impl Run {
    /// Creates a request from a plan. The plan may be complete: default source ports can still move.
    pub(crate) fn of(mut plan: Plan) -> Self {
        plan.open_default_ports();
        Self {
            complete: plan.clone(),
            plan,
            beside: Beside::default(),
        }
    }
}
