//! `af_packet`: rings shared with the kernel.

use super::help::{Help, PROMISC, option, rx_time};
use super::rules::Steering;
use super::{Buffers, Demo, Opened, Opening, Path, Traits};
use crate::fail::{Result, unopened, usage};
use mpps_af_packet::{AfPacketPort, Checksum, Config, Fanout, GuardFilter, MergedFrames, RingSize};
use mpps_engine::FrameLoops;
use mpps_io::{PortSpec, Request, Task};
use mpps_sys::sched::keep_on;

pub(super) struct AfPacket;

impl Path for AfPacket {
    const NAME: &'static str = "af_packet";
    const HELP: Help = Help {
        device: "INTERFACE",
        examples: &["af_packet:eth1,ring=8192"],
        options: &[
            option(
                "ring",
                "64 to 1048576",
                "8192 to receive, 512 to send",
                "slots of each ring of each lane",
            ),
            option(
                "qdisc",
                "bypass|kernel",
                "bypass",
                "straight to the driver, or through traffic control",
            ),
            option(
                "fanout",
                "hash|cpu|lb|qm|rnd",
                "hash",
                "how packets are spread over receiving lanes",
            ),
            option("csum", "auto|software|device", "auto", "who computes UDP checksums"),
            PROMISC,
            option(
                "guard",
                "auto|on|off",
                "auto",
                "keep test packets from the host's stack",
            ),
            rx_time(
                mpps_af_packet::DEFAULT_RX_TIME,
                "who takes times of arrival: the lane, or the kernel",
            ),
        ],
        note: "",
    };
    const DEMO: Option<Demo> = Some(Demo {
        about: "rings shared with the kernel",
        by_address: false,
        pinned: true,
        optional: false,
    });
    const DRIVES_INTERFACE: bool = true;
    const STEERS: bool = true;

    type Config = Config;

    fn check(spec: &PortSpec, task: Task) -> Result<Config> {
        let mut config = mpps_af_packet::check(spec)?;
        config.promisc = Some(task.promiscuous(config.promisc));
        if task == Task::Capture {
            config.merged = MergedFrames::Whole;
        }
        if task == Task::Forward {
            // Forwarded frames have their checksums already. A device would take these for the sum of the
            // pseudo-header.
            if config.checksum == Checksum::Device {
                return Err(usage(format!(
                    "port '{spec}': csum=device: forwarded frames have their checksums already: want csum left out"
                )));
            }
            config.checksum = Checksum::Software;
        }
        Ok(config)
    }

    fn traits(config: &Config) -> Traits {
        let whole = matches!(config.fanout, Fanout::Hash | Fanout::QueueMapping);
        Traits {
            interface: Some(config.device.clone()),
            buffers: rings(config),
            times_arrivals: config.timed(),
            spreads_flows: (!whole).then(|| format!("fanout={}", config.fanout.name())),
            steering: Steering::Ntuple {
                queues: None,
                otherwise: "",
            },
            ..Traits::default()
        }
    }

    fn open<'r>(ports: Vec<(&'r Config, Request<'r>)>, _opening: &Opening<'_>) -> Result<Opened<'r>> {
        let open = |(config, request): &(&Config, Request<'_>)| {
            let guards = GuardFilter::all(&request.selection);
            // The kernel allocates the rings at once, so this thread runs on the first lane's core to place them on its
            // memory node.
            let _kept = keep_on(request.cores.first().copied().flatten());
            AfPacketPort::open(config, request.roles, &guards).map_err(unopened(request.spec))
        };
        let ports = ports.iter().map(open).collect::<Result<_>>()?;
        Ok(Opened::lanes::<FrameLoops, AfPacketPort>(ports))
    }
}

/// Returns the buffers of the rings, by `ring=` or by default. A slot holds the largest frame of the interface. The
/// list is empty if the interface does not exist, which the run reports later.
fn rings(config: &Config) -> Vec<Buffers> {
    let Some([rx, tx]) = mpps_af_packet::ring_sizes(config) else {
        return Vec::new();
    };
    let ring = |of: RingSize, lanes| Buffers {
        option: "ring",
        count: of.slots,
        bytes: of.slot_bytes,
        lanes,
        least: 1,
        queues: 1,
    };
    vec![ring(rx, |roles| roles.rx), ring(tx, |roles| roles.tx)]
}
