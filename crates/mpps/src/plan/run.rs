//! A run that is asked for: its plan, and what is asked beside it.

use super::model::Plan;
use super::values::keep::{Triggers, Window};
use crate::sample::SamplePcap;

/// A run that is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// As it was given.
    pub(crate) plan: Plan,
    /// The same with each field filled in, once it was checked.
    pub(crate) complete: Plan,
    pub(crate) beside: Beside,
}

/// What is asked of a run beside its plan; by default nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beside {
    /// What lanes did is kept.
    pub(crate) trace: Option<Trace>,
    /// Some of its frames are kept.
    pub(crate) sample: Option<SamplePcap>,
    /// Rows of lanes are written.
    pub(crate) lanes_csv: bool,
    /// Lanes are sampled so often a second.
    pub(crate) profile_hz: Option<u32>,
    /// It keeps its privileges.
    pub(crate) keep_privileges: bool,
}

/// What a trace keeps.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) on: Triggers,
    pub(crate) window: Window,
    /// All rounds, not windows.
    pub(crate) all: bool,
    /// Bytes.
    pub(crate) memory: u64,
}

impl Run {
    /// A run of a plan that may be complete, with nothing beside it.
    pub(crate) fn of(mut plan: Plan) -> Self {
        plan.open_default_ports();
        Self {
            complete: plan.clone(),
            plan,
            beside: Beside::default(),
        }
    }
}
