//! The kernel's interface beneath a virtual device. The driver reports neither what the interface drops nor that it
//! vanishes.

use crate::Config;
use mpps_io::{QueueCounters, counter};
use mpps_netdev::{Drops, NetDev, PacketSockets, Promiscuous, drops};
use std::io;

/// Which side of the interface the driver sits on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// The driver receives what the interface receives, by packet sockets of this process (`net_af_packet`).
    Sockets,
    /// The driver receives what the interface receives, by AF_XDP (`net_af_xdp`): it counts frames that found no room.
    Xdp,
    /// The driver is the wire: the interface sends what the driver receives (`net_tap`).
    Wire,
}

/// The interface, and how the driver has it.
#[derive(Debug)]
pub(crate) struct Beneath {
    ifindex: u32,
    /// Its name.
    pub(crate) name: String,
    side: Side,
    sockets: Option<PacketSockets>,
    /// Frames may come from a sender on this host that left their checksums to a device they never pass, and the driver
    /// does not mark these frames.
    pub(crate) unmarked: bool,
}

impl Beneath {
    /// The interface of index `ifindex` beneath a port; `None` if there is none, or it is not the kernel's to use.
    pub(crate) fn of(config: &Config, ifindex: u32) -> Option<Self> {
        let side = match config.driver() {
            "net_af_packet" => Side::Sockets,
            "net_af_xdp" => Side::Xdp,
            "net_tap" => Side::Wire,
            _ => return None,
        };
        let device = NetDev::by_index(ifindex).ok()?;
        Some(Self {
            ifindex,
            name: device.name,
            side,
            sockets: None,
            unmarked: side != Side::Wire && device.is_virtual,
        })
    }

    /// The driver has opened its sockets: finds them.
    pub(crate) fn find_sockets(&mut self) {
        if self.side == Side::Sockets {
            self.sockets = PacketSockets::of_this_process(self.ifindex).ok();
        }
    }

    /// Makes the interface receive frames for other MAC addresses, for as long as what is returned lives. `None`: it is
    /// asked for everything that its peer sends anyway.
    pub(crate) fn hold_promiscuous(&self) -> io::Result<Option<Promiscuous>> {
        match self.side {
            Side::Wire => Ok(None),
            Side::Sockets | Side::Xdp => Promiscuous::hold(self.ifindex).map(Some),
        }
    }

    /// Whether it has vanished.
    pub(crate) fn gone(&self) -> bool {
        const ENXIO: i32 = 6;
        const ENODEV: i32 = 19;
        drops(self.ifindex).is_err_and(|error| {
            error.kind() == io::ErrorKind::NotFound || matches!(error.raw_os_error(), Some(ENXIO | ENODEV))
        })
    }

    /// Packets dropped on the way to the driver, beside the `missed` ones that the driver counts itself:
    /// [`Beneath::add`] adds them to `rx_dropped`.
    pub(crate) fn rx_dropped(&self, missed: u64) -> u64 {
        let sockets = self.sockets.as_ref().map_or(0, PacketSockets::drops);
        sockets + drops(self.ifindex).map_or(0, |drops| self.received_less(&drops, missed + sockets))
    }

    /// The interface's drops on the way to the driver, without those that are already in `counted`.
    fn received_less(&self, drops: &Drops, counted: u64) -> u64 {
        match self.side {
            Side::Sockets => drops.received,
            // The interface also counts as dropped what found no room in the ring, and the driver has counted that
            // already.
            Side::Xdp => drops.received.saturating_sub(counted),
            Side::Wire => drops.transmitted,
        }
    }

    /// Adds packets that were dropped on the way to the driver or from it. The interface does not show whose packets it
    /// dropped on the way from the driver: the host sends by it, too. Packet sockets and a tap try a refused packet
    /// again, so one packet may be dropped many times and arrive all the same.
    pub(crate) fn add(&self, counters: &mut QueueCounters) {
        if let Some(sockets) = &self.sockets {
            let dropped = sockets.drops();
            counters.rx_dropped += dropped;
            counters.other.push(("socket_drops", dropped));
        }
        let Ok(drops) = drops(self.ifindex) else { return };
        counters.rx_dropped += self.received_less(&drops, counters.rx_dropped);
        let tx = match self.side {
            Side::Sockets | Side::Xdp => drops.transmitted,
            Side::Wire => drops.received,
        };
        counters.other.extend([
            (counter::DROPPED_SENT, tx),
            ("interface_rx_dropped", drops.received),
            ("interface_tx_dropped", drops.transmitted),
        ]);
    }
}
