//! `sendrecv` over two ports: what the second one is, and what its lanes do.

use super::listen::unanswered;
use crate::cli::Traffic;
use crate::fail::{Result, usage};
use crate::paths::Checked;
use mpps_engine::Link;
use mpps_io::{Layer, PortSpec, Roles, Task};
use mpps_netdev::NetDev;
use mpps_wire::MacAddr;
use std::net::IpAddr;

/// The port at which packets arrive, of a run that sends by another.
#[derive(Debug)]
pub(crate) struct Far {
    pub(crate) port: Checked,
    /// What the lanes do that receive there: they answer, too.
    pub(crate) roles: Vec<Roles>,
    /// What the lanes do that send by the other port: they listen for answers.
    pub(super) sends: Vec<Roles>,
    device: Option<NetDev>,
}

impl Far {
    pub(super) fn new(spec: &PortSpec, near: &Checked, args: &Traffic, receive: bool) -> Result<Self> {
        if !receive {
            return Err(usage(format!(
                "port '{spec}': send receives nothing: want it left out, or sendrecv"
            )));
        }
        let port = Checked::new(spec, Task::Collect)?;
        for port in [near, &port] {
            let spec = &port.spec;
            if port.traits.layer == Layer::Payload {
                return Err(usage(format!(
                    "port '{spec}': it carries payloads, and what lies between two ports passes frames on: want an Ethernet \
                     path, such as af_packet:eth1"
                )));
            }
            if port.traits.in_kernel {
                return Err(usage(format!(
                    "port '{spec}': its packets never come to user space, so two ports can't have lanes in common: want \
                     af_xdp:{0} or af_packet:{0}",
                    spec.device
                )));
            }
            if port.nobody_answers() {
                return Err(usage(format!(
                    "port '{spec}': nothing can lie between it and another port: want the ports that the device under \
                     test is joined to"
                )));
            }
        }
        if near.spec.path == spec.path && near.spec.device == spec.device {
            return Err(usage(format!(
                "port '{spec}': packets leave by it, too: want another, or none where they come back by the same port"
            )));
        }
        let lanes = args.run.lanes.unwrap_or(1);
        let both = |n| vec![Roles { rx: true, tx: true }; n];
        Ok(Self {
            device: port.interface(),
            port,
            roles: both(args.rx_lanes.unwrap_or(lanes)),
            sends: both(args.tx_lanes.unwrap_or(lanes)),
        })
    }

    /// The address that packets are for, where the host does not answer for it there.
    pub(super) fn answers(&self, dest: IpAddr) -> Vec<IpAddr> {
        let own = self
            .device
            .iter()
            .flat_map(|device| &device.addresses)
            .any(|(ip, _)| *ip == dest);
        if own { Vec::new() } else { vec![dest] }
    }

    /// Layer 2 of the port.
    pub(super) fn link(&self, mac: MacAddr, vlan: Option<u16>, dest: IpAddr) -> Link {
        Link {
            mac,
            vlan,
            answer_for: self.answers(dest),
            unanswered: self.device.as_ref().map(unanswered).unwrap_or_default(),
            dest_mac: None,
            next_hop: None,
        }
    }
}

/// Lanes of the run for the queues of a port: they only send test packets, or only receive them.
pub(super) fn lanes_of(roles: &[Roles], send: bool) -> Vec<Roles> {
    vec![Roles { rx: !send, tx: send }; roles.len()]
}
