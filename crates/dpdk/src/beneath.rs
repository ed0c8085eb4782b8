//! The kernel's interface beneath a virtual device: what it drops, the driver does not see.

use crate::Config;
use mpps_io::QueueCounters;
use mpps_netdev::{NetDev, drops};

/// Which interface it is, and on which side of it the driver sits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Beneath {
    /// The driver receives what the interface receives: `net_af_packet`, `net_af_xdp`.
    Same(u32),
    /// The driver is the wire of the interface: what it receives, the interface sends (`net_tap`).
    Wire(u32),
}

impl Beneath {
    /// The interface of a port that is open.
    pub(crate) fn of(config: &Config) -> Option<Self> {
        let index = |name: &str| NetDev::by_name(name).ok().map(|device| device.ifindex);
        match config.driver() {
            "net_tap" => {
                let given = config.driver_args.iter().find(|(key, _)| key == "iface");
                // What the driver calls its first interface.
                index(given.map_or("dtap0", |(_, name)| name.as_str())).map(Self::Wire)
            }
            _ => config.interface().and_then(index).map(Self::Same),
        }
    }

    /// Adds what the interface dropped.
    pub(crate) fn add(self, counters: &mut QueueCounters) {
        let (Self::Same(index) | Self::Wire(index)) = self;
        let Ok(drops) = drops(index) else { return };
        let (rx, tx) = match self {
            Self::Same(_) => (drops.received, drops.transmitted),
            Self::Wire(_) => (drops.transmitted, drops.received),
        };
        counters.rx_dropped += rx;
        counters.tx_failed += tx;
        counters.other.extend([
            ("interface_rx_dropped", drops.received),
            ("interface_tx_dropped", drops.transmitted),
        ]);
    }
}
