//! Kernel counters of packets that an interface received and dropped.

use crate::IFINFOMSG;
use crate::netlink::{Request, attributes};
use std::io;

/// Packets that an interface received, and packets that it dropped, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Packets that it received (`rx_packets`).
    pub arrived: u64,
    /// Incoming packets that it dropped (`rx_dropped`).
    pub received: u64,
    /// Outgoing packets that it dropped (`tx_dropped`).
    pub transmitted: u64,
}

/// Packets that an interface was to send and did not (`tx_dropped` of its statistics), since it was made.
///
/// # Errors
/// As [`drops`].
pub fn transmit_drops(ifindex: u32) -> io::Result<u64> {
    drops(ifindex).map(|drops| drops.transmitted)
}

/// Reads the drop counters of an interface.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] when there is none of this index.
pub fn drops(ifindex: u32) -> io::Result<Drops> {
    /// Places of the counters in `struct rtnl_link_stats64`.
    const RX_PACKETS: usize = 0;
    const RX_DROPPED: usize = 6 * 8;
    const TX_DROPPED: usize = 7 * 8;
    let mut head = [0; IFINFOMSG];
    head[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    let mut drops = None;
    Request::new(libc::RTM_GETLINK, 0, &head).run(|_, body| {
        let mut all = attributes(body, IFINFOMSG);
        let stats = all
            .find(|(kind, _)| *kind == libc::IFLA_STATS64)
            .map(|(_, value)| value);
        drops = stats.and_then(|stats| {
            let counter = |at: usize| Some(u64::from_ne_bytes(*stats.get(at..)?.first_chunk()?));
            Some(Drops {
                arrived: counter(RX_PACKETS)?,
                received: counter(RX_DROPPED)?,
                transmitted: counter(TX_DROPPED)?,
            })
        });
    })?;
    drops.ok_or_else(|| io::ErrorKind::NotFound.into())
}
