//! Which path a port names, and its checked options.

use crate::fail::{Result, usage};
use crate::privilege::check_dpdk;
use mpps_io::{Layer, PortSpec, loopback, null};
use mpps_netdev::NetDev;

/// The paths of this build, for messages and `doctor`.
pub(crate) const PATHS: [&str; 7] = ["udp", "af_packet", "af_xdp", "xdp", "dpdk", "null", "loop"];

/// A port's path with its options, checked; nothing is open.
#[derive(Debug)]
pub(crate) enum PathConfig {
    Udp(mpps_udp::Config),
    AfPacket(mpps_af_packet::Config),
    AfXdp(mpps_af_xdp::Config),
    Xdp(mpps_xdp::Config),
    Dpdk(mpps_dpdk::Config),
    Null(null::NullConfig),
    Loop(loopback::LoopConfig),
}

impl PathConfig {
    /// Checks the specification.
    pub(crate) fn of(spec: &PortSpec) -> Result<Self> {
        Ok(match spec.path.as_str() {
            "udp" => Self::Udp(mpps_udp::check(spec)?),
            "af_packet" => Self::AfPacket(mpps_af_packet::check(spec)?),
            "af_xdp" => Self::AfXdp(mpps_af_xdp::check(spec)?),
            "xdp" => Self::Xdp(mpps_xdp::check(spec)?),
            "dpdk" => {
                check_dpdk(spec)?;
                Self::Dpdk(mpps_dpdk::check(spec)?)
            }
            "null" => Self::Null(null::check(spec)?),
            "loop" => Self::Loop(loopback::check(spec)?),
            planned @ "io_uring" => {
                let have = PATHS.join(", ");
                return Err(usage(format!(
                    "port '{spec}': path '{planned}' is planned, not in this version: want one of {have}"
                )));
            }
            other => {
                let have = PATHS.join(", ");
                return Err(usage(format!(
                    "port '{spec}': unknown path '{other}': want one of {have}"
                )));
            }
        })
    }

    /// Where frames start on this path.
    pub(crate) fn layer(&self) -> Layer {
        match self {
            Self::Udp(_) => Layer::Payload,
            Self::AfPacket(_) | Self::AfXdp(_) | Self::Xdp(_) | Self::Dpdk(_) => Layer::Ethernet,
            Self::Null(config) => config.layer,
            Self::Loop(config) => config.buffers.layer,
        }
    }

    /// The interface that the path opens; `None` where it opens none, and where there is no such interface.
    pub(crate) fn interface(&self) -> Option<NetDev> {
        NetDev::by_name(self.interface_name()?).ok()
    }

    /// Its name.
    pub(crate) fn interface_name(&self) -> Option<&str> {
        match self {
            Self::AfPacket(config) => Some(&config.device),
            Self::AfXdp(config) => Some(&config.device),
            Self::Xdp(config) => Some(&config.device),
            Self::Udp(_) | Self::Dpdk(_) | Self::Null(_) | Self::Loop(_) => None,
        }
    }

    /// Whether listeners take only what is for the interface's own addresses, where nothing else is asked for: an XDP
    /// program leaves all other packets to the host.
    pub(crate) fn takes_own_addresses(&self) -> bool {
        matches!(self, Self::AfXdp(_) | Self::Xdp(_))
    }

    /// Whether there is no other end: nobody whose address could be asked for.
    pub(crate) fn nobody_answers(&self) -> bool {
        match self {
            Self::Null(_) | Self::Loop(_) => true,
            Self::Dpdk(config) => config.driver() == "net_null",
            _ => false,
        }
    }

    /// Whether receiving and sending may be split between lanes.
    pub(crate) fn split_lanes(&self) -> bool {
        !matches!(self, Self::Loop(_))
    }
}
