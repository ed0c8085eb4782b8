//! Privileges that a device's driver needs once its port is open: while packets move, and to undo what it did.
//!
//! Found by reading the drivers of DPDK 22.11, and for virtual devices by running them without. A driver that is not
//! named here keeps what drivers of interfaces commonly need.

use crate::{Config, Device};
use rustix::thread::CapabilitySet;

/// The privileges that have to stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privileges {
    /// With the thread that opens and closes the port, and with DPDK's own threads.
    pub held: CapabilitySet,
    /// With each lane.
    pub lanes: CapabilitySet,
    /// Root stays root: files or devices of root's are removed or given back at the end.
    pub root: bool,
}

impl Config {
    /// Returns the privileges that must stay after the port was opened.
    pub fn privileges(&self) -> Privileges {
        let interface = CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
        let none = CapabilitySet::empty();
        let of = |held, root| Privileges {
            held,
            lanes: none,
            root,
        };
        match (&self.device, self.driver()) {
            (Device::Vdev(_), "net_null" | "net_ring" | "net_pcap") => of(none, false),
            // A server's socket is removed at the end.
            (Device::Vdev(_), "net_memif" | "net_vhost") => {
                of(none, self.makes_socket_file() || self.is_vhost_server())
            }
            // The interface's MTU is set back.
            (Device::Vdev(_), "net_af_packet") if self.mtu.is_some() => of(CapabilitySet::NET_ADMIN, true),
            (Device::Vdev(_), "net_af_packet") => of(none, false),
            // The interface is set down, and rules of tc are removed.
            (Device::Vdev(_), "net_tap") => of(CapabilitySet::NET_ADMIN, false),
            // libxdp asks for its program by number, detaches it, and removes its files from bpffs.
            (Device::Vdev(_), "net_af_xdp") => {
                let bpf = CapabilitySet::BPF | CapabilitySet::PERFMON | CapabilitySet::SYS_ADMIN;
                of(interface | bpf, true)
            }
            (Device::Vdev(_), _) => of(interface, true),
            // Memory may be registered with the device by the lane that first sends from it (mlx5).
            (Device::Pci(_) | Device::Mac(_), _) => Privileges {
                held: interface | CapabilitySet::IPC_LOCK | CapabilitySet::SYS_RAWIO,
                lanes: CapabilitySet::IPC_LOCK,
                root: true,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Privileges {
        crate::check(&text.parse().expect("a port"))
            .expect("valid")
            .privileges()
    }

    #[test]
    fn devices_that_only_move_memory_keep_nothing() {
        for text in [
            "dpdk:net_null0",
            "dpdk:net_ring0",
            "dpdk:net_memif0,role=client",
            "dpdk:net_vhost0,iface=/run/x,client=1",
            "dpdk:net_af_packet0,iface=eth1",
        ] {
            let kept = of(text);
            assert!(
                kept.held.is_empty() && kept.lanes.is_empty() && !kept.root,
                "{text}: {kept:?}"
            );
        }
    }

    #[test]
    fn what_is_undone_at_the_end_can_be_undone() {
        assert_eq!(
            of("dpdk:net_af_packet0,iface=eth1,mtu=9000").held,
            CapabilitySet::NET_ADMIN
        );
        assert_eq!(of("dpdk:net_tap0,iface=tap0").held, CapabilitySet::NET_ADMIN);
        assert!(of("dpdk:net_memif0,role=server,socket=/run/x,socket-abstract=no").root);
        let vhost = of("dpdk:net_vhost0,iface=/run/x");
        assert!(vhost.root && vhost.held.is_empty());
        assert!(
            of("dpdk:net_af_xdp0,iface=eth1")
                .held
                .contains(CapabilitySet::SYS_ADMIN)
        );
        assert!(of("dpdk:0000:03:00.0").root);
    }
}
