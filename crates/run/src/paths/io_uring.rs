//! `io_uring`: the kernel's sockets, driven by rings.

use super::help::{Help, SWITCH, option};
use super::udp::{self, GRO, GSO, RCVBUF, RX_TIME, SNDBUF, SOCKETS};
use super::{Demo, Opened, Opening, Path, Traits};
use crate::fail::{Result, unopened};
use mpps_engine::PayloadLoops;
use mpps_io::{PortSpec, Request, Roles, Task};
use mpps_io_uring::{Config, UringPort};

pub(super) struct Uring;

impl Path for Uring {
    const NAME: &'static str = "io_uring";
    const HELP: Help = Help {
        device: "[ADDRESS[:PORT]]",
        examples: &["io_uring:10.99.0.1"],
        options: &[
            RCVBUF,
            SNDBUF,
            GSO,
            GRO,
            SOCKETS,
            RX_TIME,
            option(
                "buffers",
                "16 to 32768, a power of two",
                "512; 64 with gro=on",
                "buffers that the kernel has for receiving, each lane",
            ),
            option(
                "sends",
                "1 to 4096",
                "256; 64 with gso=on",
                "most sends of a lane under way",
            ),
            option("cq", "16 to 65536", "room for all", "entries of the completion queue"),
            option(
                "multishot",
                SWITCH,
                "where the kernel has it: on",
                "one request receives packet after packet",
            ),
            option("direct", SWITCH, "on", "sockets are registered with the ring"),
            option(
                "taskrun",
                "defer|coop|interrupt",
                "the first that the kernel has",
                "when the kernel works for a lane",
            ),
            option(
                "sqpoll",
                "0 to 60000",
                "0: none",
                "a kernel thread takes submissions; ms until it sleeps",
            ),
            option("sqpoll_cpu", "0 to 4095", "any", "with sqpoll: the CPU of that thread"),
            option(
                "zerocopy",
                "0 to 65507",
                "0: never",
                "send by zero copy from this many bytes on",
            ),
            option(
                "zerocopy_rx",
                SWITCH,
                "off",
                "receive by zero copy: no kernel has that for datagrams",
            ),
        ],
        note: "",
    };
    const DEMO: Option<Demo> = Some(Demo {
        about: "the kernel's sockets, by rings",
        by_address: true,
        pinned: true,
        optional: true,
    });

    const SOCKETS: bool = true;

    type Config = Config;

    fn check(spec: &PortSpec, _task: Task) -> Result<Config> {
        Ok(mpps_io_uring::check(spec)?)
    }

    fn traits(config: &Config) -> Traits {
        udp::socket_traits(&config.sockets, "on io_uring the kernel chooses the socket of a packet")
    }

    fn most_flows(config: &Config, roles: &[Roles]) -> Option<usize> {
        Some(config.sockets.max_flows(roles))
    }

    fn open<'r>(ports: Vec<(&'r Config, Request<'r>)>, _opening: &Opening<'_>) -> Result<Opened<'r>> {
        let open = |(config, request): &(&Config, Request<'_>)| {
            mpps_io_uring::open((*config).clone(), udp::mode(request), request.roles).map_err(unopened(request.spec))
        };
        let ports = ports.iter().map(open).collect::<Result<_>>()?;
        Ok(Opened::lanes::<PayloadLoops, UringPort>(ports))
    }
}
