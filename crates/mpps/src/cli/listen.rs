//! The arguments of `drop` and `reflect`.

use super::Run;
use super::values;
use crate::paths;
use clap::Args;
use mpps_engine::OnFull;
use mpps_io::{AddressRange, PortSpec};
use std::ops::RangeInclusive;

/// `drop`.
#[derive(Args, Debug, Clone)]
pub(crate) struct Drop {
    #[arg(value_name = "PORT", help = paths::port_help(), value_parser = values::port)]
    pub(crate) port: PortSpec,
    /// Take only packets to this address, or to several (A-B, NET/BITS); mpps answers ARP and neighbour solicitation
    /// for them if the host does not (Ethernet paths)
    #[arg(long, value_name = "IP", value_parser = values::addresses)]
    pub(crate) ip: Option<AddressRange>,
    /// Take only packets to these UDP ports (Ethernet paths) [default: as for reflect]
    #[arg(long = "port", id = "udp_ports", value_name = "A-B", value_parser = values::ports)]
    pub(crate) ports: Option<RangeInclusive<u16>>,
    /// Count every UDP packet as received, stamped or not
    #[arg(long)]
    pub(crate) no_verify: bool,
    /// Number of flows to follow by sequence number
    #[arg(long, value_name = "N", default_value = "4096", value_parser = values::flows, allow_hyphen_values = true)]
    pub(crate) max_flows: u32,
    #[command(flatten)]
    pub(crate) run: Run,
}

/// `reflect`.
#[derive(Args, Debug, Clone)]
pub(crate) struct Reflect {
    #[arg(value_name = "PORT", help = paths::port_help(), value_parser = values::port)]
    pub(crate) port: PortSpec,
    /// Take only packets to this address, or to several (A-B, NET/BITS); mpps answers ARP and neighbour solicitation
    /// for them if the host does not (Ethernet paths) [default: the interface's own]
    #[arg(long, value_name = "IP", value_parser = values::addresses)]
    pub(crate) ip: Option<AddressRange>,
    /// Take only packets to these UDP ports (Ethernet paths) [default: all; on one of the host's own addresses, those
    /// below the ephemeral ports (net.ipv4.ip_local_port_range) that no program has open]
    #[arg(long = "port", id = "udp_ports", value_name = "A-B", value_parser = values::ports)]
    pub(crate) ports: Option<RangeInclusive<u16>>,
    /// When the port does not take packets at once: wait (for room, up to 10 ms, receiving nothing meanwhile), or drop
    /// (count them and receive on) [default: wait; xdp: drop]
    #[arg(long, value_name = "HOW", value_parser = values::on_full)]
    pub(crate) on_full: Option<OnFull>,
    #[command(flatten)]
    pub(crate) run: Run,
}
