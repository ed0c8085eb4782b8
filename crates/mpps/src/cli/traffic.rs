//! The arguments of `sendrecv` and `send`, and of methods, whose trials are the same.

use super::Run;
use super::rate::{self, RateParser, RateText, StepText};
use super::values::{self, Sources, Target};
use crate::paths;
use clap::{Arg, Args};
use mpps_engine::{Pacing, Step};
use mpps_io::PortSpec;
use mpps_wire::MacAddr;
use std::ffi::OsString;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Hides from the help of `send` what means nothing where nothing is received.
pub(super) fn only_sends(arg: Arg) -> Arg {
    let hidden = [
        "far",
        "lab",
        "both_ways",
        "back_dest_mac",
        "back_gateway",
        "settle",
        "settle_early",
        "rx_lanes",
        "rx_burst",
    ];
    let (id, hide) = (arg.get_id().clone(), hidden.contains(&arg.get_id().as_str()));
    match id.as_str() {
        "tx_lanes" => arg.help("Lanes, as --lanes"),
        _ => arg.hide(hide),
    }
}

/// `sendrecv` and `send`.
#[derive(Args, Debug, Clone)]
pub(crate) struct Traffic {
    #[arg(value_name = "PORT", help = paths::port_help(), value_parser = values::port)]
    pub(crate) port: PortSpec,
    /// Port to receive at, where packets are not sent back: what forwards them is between the two (sendrecv)
    #[arg(value_name = "PORT", id = "far", value_parser = values::port)]
    pub(crate) far: Option<PortSpec>,
    /// Make a lab for this command alone, run a reflector on its host b and the command on its host a, and remove it at
    /// the end (root): PORT is the name of a path (udp, io_uring, af_packet, af_xdp or xdp), with options behind a
    /// colon if any
    #[arg(long)]
    pub(crate) lab: bool,
    /// The command line.
    #[arg(skip)]
    pub(crate) words: Vec<OsString>,
    /// Send from the second port to the first as well, at the same time: each way has the rate, the sizes and the flows
    /// given here, and rows, loss, latency and a verdict of its own
    #[arg(long)]
    pub(crate) both_ways: bool,
    /// Source address of the packets, or several: from A to B (10.99.0.1-10.99.3.254), or those that hosts of a network
    /// have (10.99.0.0/22, fd99::/120); need not be the host's own on af_packet, af_xdp and xdp [default: udp: the
    /// port's address, else the one that the host's routes choose; af_packet, af_xdp and xdp: the interface's; dpdk:
    /// none]
    #[arg(long, value_name = "IP|A-B|NET/BITS", value_parser = values::sources)]
    pub(crate) src: Option<Sources>,
    /// Source ports; each with each destination port is a flow [default: 10000-10063; udp: one port per lane]
    #[arg(long, value_name = "A-B", value_parser = values::ports)]
    pub(crate) src_port_range: Option<RangeInclusive<u16>>,
    /// Destination: IP:PORT, [IPv6]:PORT or NAME:PORT, or a range of ports, IP:PORT-PORT; in place of the address
    /// several, as of --src: A-B:PORT, NET/BITS:PORT, [fd99::/120]:PORT. A name is resolved at the start, to the first
    /// of its addresses that is of the source's family
    #[arg(long, value_name = "HOST:PORT", value_parser = values::target)]
    pub(crate) dest: Option<Target>,
    /// MAC address to send to; found by ARP or neighbour discovery if not given
    #[arg(long, value_name = "MAC", value_parser = values::mac)]
    pub(crate) dest_mac: Option<MacAddr>,
    /// Router to send to, if not the one that the host's routing table names
    #[arg(long, value_name = "IP", value_parser = values::ip)]
    pub(crate) gateway: Option<IpAddr>,
    /// --dest-mac of the way back (--both-ways)
    #[arg(long, value_name = "MAC", value_parser = values::mac)]
    pub(crate) back_dest_mac: Option<MacAddr>,
    /// --gateway of the way back (--both-ways): the router's address at the second port
    #[arg(long, value_name = "IP", value_parser = values::ip)]
    pub(crate) back_gateway: Option<IpAddr>,
    /// VLAN tag of the packets, 1 to 4094
    #[arg(long, value_name = "ID", value_parser = values::vlan, allow_hyphen_values = true)]
    pub(crate) vlan: Option<u16>,
    /// How ranges of addresses and ports make flows: combine (each value with each of all others; source ports change
    /// first, then destination ports, source addresses, destination addresses), or together (all step at once, the
    /// shorter ranges over again)
    #[arg(long, value_name = "HOW", default_value = "combine", value_parser = values::step)]
    pub(crate) step: Step,
    /// Use only the first N flows of the ranges
    #[arg(long, value_name = "N", value_parser = values::flows, allow_hyphen_values = true)]
    pub(crate) flows: Option<u32>,
    /// Packets or layer-1 bits a second over all lanes: 3.5Mpps, 250kpps, 1Gbps, 10% (of the link); bps, kbps, Mbps
    /// and Gbps count preamble and inter-frame gap (20 bytes a frame) [default: as fast as the path takes packets]
    #[arg(long, value_name = "RATE", value_parser = RateParser, allow_hyphen_values = true)]
    pub(crate) rate: Option<RateText>,
    /// Another rate from TIME after the start to the end, in one run with --rate: 500kpps@60s; not on xdp
    #[arg(long, value_name = "RATE@TIME", value_parser = rate::step, allow_hyphen_values = true)]
    pub(crate) then: Option<StepText>,
    /// Send N packets in all, over all lanes, and end; both ways: N each way. With --rate N departures are due,
    /// and those missed are among them. A --duration that is over first ends the run [default: as many packets as the
    /// duration allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), allow_hyphen_values = true)]
    pub(crate) count: Option<u64>,
    /// How departures are spread: constant, poisson, or burst=N (N packets back to back)
    #[arg(long, value_name = "HOW", default_value = "constant", value_parser = values::pacing)]
    pub(crate) pacing: Pacing,
    /// UDP payload, bytes: 16 up to the MTU [default: 18: a frame of 64 bytes over IPv4, 84 over IPv6]
    #[arg(
        long, value_name = "BYTES", conflicts_with = "frame_size", value_parser = values::payload_size,
        allow_hyphen_values = true
    )]
    pub(crate) payload_size: Option<usize>,
    /// Frame with FCS, bytes, as RFC 2544 counts it
    #[arg(long, value_name = "BYTES", value_parser = values::frame_size, allow_hyphen_values = true)]
    pub(crate) frame_size: Option<usize>,
    /// How long a packet may take to come back; receiving goes on for this long at the end
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::settle, allow_hyphen_values = true)]
    pub(crate) settle: Duration,
    /// End receiving before --settle is over, once every packet is back and nothing has come for 50 ms
    #[arg(long)]
    pub(crate) settle_early: bool,
    /// Lanes that only send; needs --rx-lanes, except with send
    #[arg(long, value_name = "N", conflicts_with = "lanes", value_parser = values::lanes, allow_hyphen_values = true)]
    pub(crate) tx_lanes: Option<usize>,
    /// Lanes that only receive; needs --tx-lanes
    #[arg(long, value_name = "N", conflicts_with = "lanes", value_parser = values::lanes, allow_hyphen_values = true)]
    pub(crate) rx_lanes: Option<usize>,
    /// Most packets sent in one call, 1 to 256; not on xdp [default: --burst]
    #[arg(long, value_name = "N", value_parser = values::burst, allow_hyphen_values = true)]
    pub(crate) tx_burst: Option<usize>,
    /// Most frames received in one call, 1 to 256; sendrecv only, not on xdp [default: --burst]
    #[arg(long, value_name = "N", value_parser = values::burst, allow_hyphen_values = true)]
    pub(crate) rx_burst: Option<usize>,
    /// How far a lane may fall behind its schedule and catch up; what is older counts as missed
    #[arg(
        long, value_name = "TIME", default_value = "5ms", value_parser = values::catch_up, allow_hyphen_values = true
    )]
    pub(crate) catch_up: Duration,
    /// How far the offered rate of a valid trial may differ from the intended one: 0.1% or 0.001
    #[arg(long, value_name = "RATIO", default_value = "0.1%", value_parser = values::ratio, allow_hyphen_values = true)]
    pub(crate) tolerance: f64,
    /// TTL or hop limit (Ethernet paths)
    #[arg(
        long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u8).range(1..),
        allow_hyphen_values = true
    )]
    pub(crate) ttl: u8,
    /// DSCP: 0 to 63, or the name of a class, such as EF, AF41 or CS6 (Ethernet paths)
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = values::dscp, allow_hyphen_values = true)]
    pub(crate) dscp: u8,
    #[command(flatten)]
    pub(crate) run: Run,
}
