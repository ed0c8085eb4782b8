//! `af_xdp`: memory shared with the kernel, an XDP program in front.

use super::help::{Help, PROMISC, SWITCH, option, rx_time};
use super::rules::Steering;
use super::{Buffers, Demo, Kept, Neighbors, Opened, Opening, Path, Traits, Work, remark};
use crate::fail::{Result, unopened, usage};
use mpps_af_xdp::{AfXdpPort, Config};
use mpps_engine::FrameLoops;
use mpps_io::{PortSpec, Request, RxTime, Task};
use mpps_sys::privilege::{CapabilitySet, bpf_needs_none};
use mpps_sys::sched::keep_on;

pub(super) struct AfXdp;

impl Path for AfXdp {
    const NAME: &'static str = "af_xdp";
    const HELP: Help = Help {
        device: "INTERFACE",
        examples: &["af_xdp:eth1,mode=skb"],
        options: &[
            option(
                "mode",
                "auto|zerocopy|copy|skb",
                "auto",
                "how the kernel hands packets over",
            ),
            option(
                "queues",
                "1 to 64",
                "all; send: one per lane",
                "queues used, from `first` on",
            ),
            option("first", "0 to 63", "0", "the first queue used"),
            option(
                "ring",
                "64 to 65536, a power of two",
                "2048",
                "descriptors of each ring of a queue",
            ),
            option(
                "fill",
                "64 to 131072",
                "2048",
                "buffers that wait for packets, per queue",
            ),
            option("frames", "128 to 1048576", "what the rings hold", "buffers per queue"),
            option(
                "chunk",
                "2048 to 65536, a power of two",
                "what takes the MTU",
                "bytes of a buffer",
            ),
            option("headroom", "0 to 1024", "0", "bytes in front of each packet"),
            option("unaligned", SWITCH, "off", "buffers at any address"),
            option("pages", "normal|huge|huge-1g", "normal", "pages of the packet memory"),
            option("need_wakeup", SWITCH, "on", "the kernel says when it must be called"),
            option(
                "busy_budget",
                "1 to 65535",
                "no busy polling",
                "packets of one busy poll",
            ),
            option(
                "tx_budget",
                "1 to 65536",
                "ring",
                "packets sent by one system call in copy mode",
            ),
            PROMISC,
            rx_time(RxTime::Lane, "who takes times of arrival: the lane, or the XDP program"),
        ],
        note: "",
    };
    const DEMO: Option<Demo> = Some(Demo {
        about: "memory shared with the kernel, an XDP program in front",
        by_address: false,
        pinned: true,
        optional: true,
    });
    const DRIVES_INTERFACE: bool = true;
    const NEEDS_BPF: bool = true;
    const STEERS: bool = true;

    type Config = Config;

    fn check(spec: &PortSpec, task: Task) -> Result<Config> {
        let mut config = mpps_af_xdp::check(spec)?;
        config.promisc = Some(task.promiscuous(config.promisc));
        Ok(config)
    }

    fn traits(config: &Config) -> Traits {
        let first = u64::from(config.first);
        let memory = mpps_af_xdp::frames(config);
        let frames = |count, queues, lanes| Buffers {
            least: memory.least,
            queues,
            lanes,
            ..Buffers::frames(count, memory.chunk_bytes)
        };
        let [rx, tx, both] = memory.of;
        Traits {
            interface: Some(config.device.clone()),
            neighbors: Neighbors::Host,
            takes_from_host: true,
            strips_tags: true,
            times_arrivals: config.timed(),
            buffers: vec![
                frames(rx, memory.queues, |roles| roles.rx && !roles.tx),
                // Each lane that only sends has a queue of its own.
                frames(tx, config.queues.unwrap_or(1) as usize, |roles| roles.tx && !roles.rx),
                frames(both, memory.queues, |roles| roles.rx && roles.tx),
            ],
            steering: Steering::Ntuple {
                queues: Some((first, config.queues.map(|n| first + u64::from(n)))),
                otherwise: NO_RULES,
            },
            ..Traits::default()
        }
    }

    fn keeps(_config: &Config, _work: Work) -> Kept {
        // The number of packets that the program left to the host is read from a map.
        let in_force = match bpf_needs_none() {
            Ok(true) => CapabilitySet::empty(),
            Ok(false) | Err(_) => CapabilitySet::BPF,
        };
        Kept {
            in_force,
            ..Kept::default()
        }
    }

    fn open<'r>(ports: Vec<(&'r Config, Request<'r>)>, _opening: &Opening<'_>) -> Result<Opened<'r>> {
        let asked: Vec<_> = ports.iter().map(|(config, request)| (*config, request)).collect();
        let Some((_, first)) = ports.first() else {
            return Err(usage("af_xdp: no port"));
        };
        // All lanes share one packet memory, which is allocated when it is registered: on the memory node of the first
        // lane.
        let _kept = keep_on(first.cores.first().copied().flatten());
        // The error itself names the port.
        let opened = mpps_af_xdp::open(&asked).map_err(unopened(first.spec))?;
        opened.iter().map(AfXdpPort::remarks).for_each(remark);
        Ok(Opened::lanes::<FrameLoops, _>(opened))
    }
}

/// Reason why flow rules can't be applied in another way.
pub(super) const NO_RULES: &str = ", and the XDP program is made from the command's options, not from rules";
