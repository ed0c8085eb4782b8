//! `dpdk`: poll-mode drivers. DPDK is started once, for all its ports of a run, before any is opened.

use super::help::{Help, PROMISC, option};
use super::null::test_packet;
use super::rules::Steering;
use super::{Kept, Neighbors, Opened, Opening, Path, Traits, Work, remark};
use crate::fail::{Result, failed, unopened, usage};
use crate::privilege::{self, caller};
use crate::request::Run;
use mpps_dpdk::{Config, DpdkPort, EalArgs, Open};
use mpps_engine::FrameLoops;
use mpps_io::{PortSpec, Request, Task};

pub(super) struct Dpdk;

/// Returns the version of libdpdk that this program was built with; `None`: it was built without.
pub fn dpdk_version() -> Option<&'static str> {
    mpps_dpdk::VERSION
}

/// Returns the plug-in that counts the polls of another DPDK program; empty: this program was built without libdpdk.
pub fn peer_plugin() -> &'static [u8] {
    mpps_dpdk::PEER_PLUGIN
}

impl Path for Dpdk {
    const NAME: &'static str = "dpdk";
    const HELP: Help = Help {
        device: "net_DRIVERn | PCI-ADDRESS | mac=MAC",
        examples: &["dpdk:net_memif0,role=client"],
        options: &[
            option(
                "rxd",
                "32 to 32768",
                "what the driver prefers",
                "descriptors of each receive ring",
            ),
            option(
                "txd",
                "32 to 32768",
                "what the driver prefers",
                "descriptors of each transmit ring",
            ),
            option(
                "mbufs",
                "1024 to 16777216",
                "from rings and bursts",
                "packet buffers of each lane",
            ),
            option("mtu", "68 to 65000", "the device's", "largest IP packet, bytes"),
            option(
                "rss",
                "auto|udp|ip|off",
                "auto",
                "what the device hashes to choose the queue",
            ),
            option("csum", "auto|software|device", "auto", "who computes UDP checksums"),
            PROMISC,
            option(
                "link_wait",
                "0 to 3600",
                "10",
                "seconds that a sender waits for the link",
            ),
        ],
        note: "Other options go to DPDK's driver: iface=eth1 (net_af_packet, net_af_xdp, net_tap), role=server \
               (net_memif), …",
    };
    const STEERS: bool = true;

    type Config = Config;

    fn check(spec: &PortSpec, _task: Task) -> Result<Config> {
        privilege::check_dpdk(spec)?;
        Ok(mpps_dpdk::check(spec)?)
    }

    fn traits(config: &Config) -> Traits {
        // The net_null driver delivers its buffers unchanged.
        let null = config.driver() == "net_null";
        Traits {
            neighbors: if null { Neighbors::Nobody } else { Neighbors::LanesAlone },
            repeats_frames: null,
            under: config.interface().map(str::to_owned),
            steering: Steering::Own,
            ..Traits::default()
        }
    }

    fn check_run(run: &Run, ports: usize) -> Result<()> {
        eal_args(run)?;
        match &run.plan.device.eal {
            Some(text) if ports == 0 => Err(usage(format!(
                "--eal '{text}': no port is on the path dpdk: want it left out, or a port such as dpdk:net_memif0"
            ))),
            _ => Ok(()),
        }
    }

    fn keeps(config: &Config, _work: Work) -> Kept {
        let kept = config.privileges();
        Kept {
            lanes: kept.lanes,
            in_force: kept.held,
            root: kept.root,
            ..Kept::default()
        }
    }

    fn mend() -> Vec<String> {
        mpps_dpdk::mend()
    }

    fn open<'r>(ports: Vec<(&'r Config, Request<'r>)>, opening: &Opening<'_>) -> Result<Opened<'r>> {
        let Some((_, first)) = ports.first() else {
            return Err(usage("dpdk: no port"));
        };
        let configs: Vec<_> = ports.iter().map(|(config, _)| *config).collect();
        let cores: Vec<_> = ports
            .iter()
            .flat_map(|(_, request)| request.cores.iter().copied())
            .collect();
        mpps_dpdk::start(&configs, &eal_args(opening.run)?, &cores).map_err(unopened(first.spec))?;
        let open = |(config, request): &(&Config, Request<'_>)| one(config, request, opening);
        let ports = ports.iter().map(open).collect::<Result<_>>()?;
        Ok(Opened::lanes::<FrameLoops, DpdkPort>(ports))
    }
}

/// Reads `--eal`.
fn eal_args(run: &Run) -> Result<EalArgs> {
    match &run.plan.device.eal {
        Some(text) => {
            privilege::check_eal(text)?;
            mpps_dpdk::check_eal(text).map_err(|e| usage(format!("--eal '{text}': {e}")))
        }
        None => Ok(EalArgs::default()),
    }
}

/// Opens one port after DPDK has been started.
fn one(config: &Config, request: &Request<'_>, opening: &Opening<'_>) -> Result<DpdkPort> {
    let prefill = (config.driver() == "net_null").then(test_packet);
    let options = Open {
        roles: request.roles,
        cores: &request.cores,
        promisc: request.task.promiscuous(config.promisc),
        // Only senders wait for the link: listeners are started before them.
        wait_for_link: request.task.generates(),
        prefill: prefill.as_deref(),
        rules: opening.rules.as_slice(),
        interrupted: &|| (opening.interruptions)() > 0,
    };
    // The user names the files of net_pcap, so they are opened and created with the user's rights.
    let port = match caller().filter(|_| config.driver() == "net_pcap" && !opening.run.beside.keep_privileges) {
        Some(user) => user.with_files(|| mpps_dpdk::open(config, &options)).map_err(failed)?,
        None => mpps_dpdk::open(config, &options),
    };
    let port = port.map_err(unopened(request.spec))?;
    remark(port.remarks());
    Ok(port)
}
