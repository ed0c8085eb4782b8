//! What the arguments say of the `dpdk` path.

use super::path::PathConfig;
use crate::cli::Run;
use crate::fail::{Result, usage};
use crate::privilege;
use mpps_dpdk::EalArgs;

/// Reads `--eal`.
pub(crate) fn eal_args(run: &Run) -> Result<EalArgs> {
    match &run.eal {
        Some(text) => {
            privilege::check_eal(text)?;
            mpps_dpdk::check_eal(text).map_err(|e| usage(format!("--eal '{text}': {e}")))
        }
        None => Ok(EalArgs::default()),
    }
}

/// Checks `--eal`, and that there is a port that it means something for.
pub(crate) fn check_eal<'p>(run: &Run, paths: impl IntoIterator<Item = &'p PathConfig>) -> Result<()> {
    eal_args(run)?;
    match &run.eal {
        Some(text) if !paths.into_iter().any(|path| matches!(path, PathConfig::Dpdk(_))) => Err(usage(format!(
            "--eal '{text}': no port is one of dpdk: want it left out, or a port such as dpdk:net_memif0"
        ))),
        _ => Ok(()),
    }
}

/// Core of each of `lanes` lanes.
pub(crate) fn core_list(run: &Run, lanes: usize) -> Vec<Option<usize>> {
    let list = run.cores.as_ref().map(|c| c.0.as_slice());
    (0..lanes).map(|i| list.map(|cores| cores[i % cores.len()])).collect()
}
