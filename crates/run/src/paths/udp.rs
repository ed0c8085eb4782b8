//! `udp`: the kernel's sockets.

use super::help::{Help, PortOption, SWITCH, option, rx_time};
use super::rules::Steering;
use super::{Demo, Opened, Opening, Path, Socket, Traits};
use crate::fail::{Result, unopened};
use mpps_engine::PayloadLoops;
use mpps_io::{Layer, PortSpec, Request, Roles, RxTime, Task};
use mpps_sockets::Mode;
use mpps_udp::{Config, UdpPort};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

pub(super) struct Udp;

// Options of all paths over sockets.
pub(super) const RCVBUF: PortOption = option(
    "rcvbuf",
    "2K to 1024M",
    "4M, less with many sockets",
    "receive buffer of a socket",
);
pub(super) const SNDBUF: PortOption = option(
    "sndbuf",
    "2K to 1024M",
    "256K; 4M with gso=on",
    "send buffer of a socket",
);
pub(super) const GSO: PortOption = option(
    "gso",
    SWITCH,
    "off",
    "send runs of equal datagrams as one (UDP_SEGMENT)",
);
pub(super) const GRO: PortOption = option("gro", SWITCH, "off", "receive coalesced datagrams (UDP_GRO)");
pub(super) const SOCKETS: PortOption = option("sockets", "1 to 65536", "256", "most flows of each lane");
pub(super) const RX_TIME: PortOption = rx_time(
    RxTime::Lane,
    "who takes times of arrival: the lane, or the kernel (SO_TIMESTAMPING)",
);

/// Returns the traits of a port over sockets, known before it is open.
pub(super) fn socket_traits(config: &mpps_sockets::Config, steering: &'static str) -> Traits {
    let address = config.address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    Traits {
        layer: Layer::Payload,
        times_arrivals: config.timed(),
        socket: Some(Socket {
            address: config.address,
            port: config.port,
            listens: SocketAddr::new(address, config.port.unwrap_or(mpps_sockets::DEFAULT_PORT)),
        }),
        steering: Steering::Not(steering),
        ..Traits::default()
    }
}

/// Returns the kind of sockets that a run needs.
pub(super) fn mode(request: &Request<'_>) -> Mode {
    match &request.flows {
        Some(flows) => Mode::Connected(flows.clone()),
        None => Mode::Listening,
    }
}

impl Path for Udp {
    const NAME: &'static str = "udp";
    const HELP: Help = Help {
        device: "[ADDRESS[:PORT]]",
        examples: &["udp:10.99.0.1", "udp:10.99.0.1:9000,gro=on"],
        options: &[
            RCVBUF,
            SNDBUF,
            option("busy_poll", "0 to 1000000", "the system's", "SO_BUSY_POLL, µs"),
            GSO,
            GRO,
            SOCKETS,
            RX_TIME,
        ],
        note: "",
    };
    const DEMO: Option<Demo> = Some(Demo {
        about: "the kernel's sockets",
        by_address: true,
        pinned: true,
        optional: false,
    });

    const SOCKETS: bool = true;

    type Config = Config;

    fn check(spec: &PortSpec, _task: Task) -> Result<Config> {
        Ok(mpps_udp::check(spec)?)
    }

    fn traits(config: &Config) -> Traits {
        socket_traits(config, "on udp the kernel chooses the socket of a packet")
    }

    fn most_flows(config: &Config, roles: &[Roles]) -> Option<usize> {
        Some(config.max_flows(roles))
    }

    fn open<'r>(ports: Vec<(&'r Config, Request<'r>)>, _opening: &Opening<'_>) -> Result<Opened<'r>> {
        let open = |(config, request): &(&Config, Request<'_>)| {
            mpps_udp::open((*config).clone(), mode(request), request.roles).map_err(unopened(request.spec))
        };
        let ports = ports.iter().map(open).collect::<Result<_>>()?;
        Ok(Opened::lanes::<PayloadLoops, UdpPort>(ports))
    }
}
