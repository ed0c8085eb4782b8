//! What the arguments say of the `dpdk` path.

use crate::cli::Run;
use crate::fail::{Result, usage};
use mpps_dpdk::EalArgs;
use mpps_flow::Rule;

/// Flow rules of a run, checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules(Vec<Rule>);

impl Rules {
    /// Reads `--flow`.
    pub(crate) fn of(run: &Run) -> Result<Self> {
        let rules = run
            .flow
            .iter()
            .map(|text| text.parse().map_err(|e| usage(format!("--flow '{text}': {e}"))));
        Ok(Self(rules.collect::<Result<_>>()?))
    }

    pub(crate) fn as_slice(&self) -> &[Rule] {
        &self.0
    }
}

/// Reads `--eal`.
pub(crate) fn eal_args(run: &Run) -> Result<EalArgs> {
    match &run.eal {
        Some(text) => mpps_dpdk::check_eal(text).map_err(|e| usage(format!("--eal '{text}': {e}"))),
        None => Ok(EalArgs::default()),
    }
}

/// Core of each of `lanes` lanes.
pub(crate) fn core_list(run: &Run, lanes: usize) -> Vec<Option<usize>> {
    let list = run.cores.as_ref().map(|c| c.0.as_slice());
    (0..lanes).map(|i| list.map(|cores| cores[i % cores.len()])).collect()
}
