//! Runs of `forward` on ports whose types a test knows.

use mpps_engine::{AnyPort, ForwardPlan, RunError, pair};
use mpps_io::Port;
use mpps_stats::{Sink, Summary};

/// Forwards between ports of one type.
pub(crate) fn run_forward<P: Port + 'static>(
    ports: &[P],
    plan: &ForwardPlan,
    sinks: &mut [Box<dyn Sink>],
) -> Result<Summary, RunError> {
    let ports: Vec<&dyn AnyPort> = ports.iter().map(|port| port as _).collect();
    mpps_engine::run_forward(&ports, &|_, _| None, plan, sinks, &|| 0)
}

/// Forwards between two ports with a copy, as between two paths.
pub(crate) fn run_forward_pair<A: Port + 'static, B: Port + 'static>(
    (a, b): (&A, &B),
    plan: &ForwardPlan,
    sinks: &mut [Box<dyn Sink>],
) -> Result<Summary, RunError> {
    mpps_engine::run_forward(&[a, b], &|_, _| Some(pair(a, b)), plan, sinks, &|| 0)
}
