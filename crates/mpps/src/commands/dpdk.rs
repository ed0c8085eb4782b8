//! What is peculiar to ports of the `dpdk` path: DPDK is started once, for all ports of the run, before any is opened.

use super::output::remark;
use crate::cli::Run;
use crate::fail::{Result, failed, unopened};
use crate::plan::dpdk::{core_list, eal_args};
use crate::plan::flow::Rules;
use crate::plan::path::PathConfig;
use crate::privilege::caller;
use mpps_dpdk::{Config, DpdkPort, Open};
use mpps_io::{PortSpec, Roles};
use mpps_sys::signal::interruptions;

/// What the workload needs of a port.
#[derive(Clone, Copy)]
pub(super) struct Need<'a> {
    pub(super) roles: &'a [Roles],
    /// Frames for other MAC addresses too, unless the port says otherwise.
    pub(super) promisc: bool,
    /// The port is of no use before its link is up.
    pub(super) link: bool,
}

/// Starts DPDK for the ports of a run that are its own; without any it stays asleep.
pub(super) fn start<'p>(
    ports: impl IntoIterator<Item = (&'p PathConfig, &'p PortSpec, usize)>,
    run: &Run,
) -> Result<()> {
    let (mut configs, mut first, mut all_lanes) = (Vec::new(), None, 0);
    for (path, spec, lanes) in ports {
        if let PathConfig::Dpdk(config) = path {
            configs.push(config);
            first = first.or(Some(spec));
            all_lanes += lanes;
        }
    }
    let Some(spec) = first else { return Ok(()) };
    mpps_dpdk::start(&configs, &eal_args(run)?, all_lanes).map_err(unopened(spec))
}

/// Opens a port that is used by all lanes; [`start`] comes first.
pub(super) fn open(config: &Config, spec: &PortSpec, run: &Run, rules: &Rules, need: Need<'_>) -> Result<DpdkPort> {
    open_for(config, spec, run, rules, need, 0)
}

/// Opens a port that is used by the lanes from `first_lane` on; [`start`] comes first.
pub(super) fn open_for(
    config: &Config,
    spec: &PortSpec,
    run: &Run,
    rules: &Rules,
    need: Need<'_>,
    first_lane: usize,
) -> Result<DpdkPort> {
    let prefill = (config.driver() == "net_null").then(super::listen::test_packet);
    let options = Open {
        roles: need.roles,
        cores: &core_list(run, first_lane + need.roles.len())[first_lane..],
        promisc: need.promisc,
        wait_for_link: need.link,
        prefill: prefill.as_deref(),
        rules: rules.as_slice(),
        interrupted: &|| interruptions() > 0,
    };
    // Its files are named by the user, who opens them and has what is made.
    let port = match caller().filter(|_| config.driver() == "net_pcap" && !run.keep_privileges) {
        Some(user) => user.with_files(|| mpps_dpdk::open(config, &options)).map_err(failed)?,
        None => mpps_dpdk::open(config, &options),
    };
    let port = port.map_err(unopened(spec))?;
    remark(port.remarks());
    Ok(port)
}
