//! What the arguments say of the `dpdk` path.

use crate::cli::Run;
use crate::fail::{Result, usage};
use mpps_dpdk::EalArgs;

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
