//! Counters of a veth's driver, read by ioctl `SIOCETHTOOL` like `ethtool -S`.

use crate::ethtool::{ETHTOOL_GSTATS, ETHTOOL_GSTRINGS, with_driver};
use crate::{NetDev, text};
use std::io;

/// `ETH_SS_STATS` of `<linux/ethtool.h>`.
const ETH_SS_STATS: u32 = 1;
/// `ETH_GSTRING_LEN`, in words of eight bytes.
const NAME_WORDS: usize = 4;

/// Room for the statistics of a queue, of which the driver has ten, and of the device, of which it has a dozen.
const OF_QUEUE: usize = 32;
const OF_DEVICE: usize = 256;

/// Frames that the XDP program at a veth sent back (`XDP_TX`) and the other end did not take, since the veth was made.
/// Nobody but that program sends so. `None`: the driver does not report them (before Linux 5.7), or the device is no
/// veth.
///
/// # Errors
/// When the interface is gone.
pub fn veth_transmit_errors(device: &NetDev) -> io::Result<Option<u64>> {
    if device.driver != "veth" {
        return Ok(None);
    }
    // The kernel fills in as many as there are, whatever the room: enough for the most queues that the device can have.
    let most = device.queues.max(1) * OF_QUEUE + OF_DEVICE;
    // `struct ethtool_gstrings`: command, set, number, and then the names, 12 bytes from the beginning.
    let mut names = vec![0u64; 2 + most * NAME_WORDS];
    names[0] = pair(ETHTOOL_GSTRINGS, ETH_SS_STATS);
    // SAFETY: there is room for the statistics of a veth, see above.
    unsafe { with_driver(&device.name, names.as_mut_ptr().cast()) }?;
    let bytes: Vec<u8> = names.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let count = u32::from_ne_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    // `struct ethtool_stats`: command, number, and then the values.
    let mut values = vec![0u64; 1 + most];
    values[0] = pair(ETHTOOL_GSTATS, count);
    // SAFETY: as above.
    unsafe { with_driver(&device.name, values.as_mut_ptr().cast()) }?;
    let names = bytes[12..].chunks(8 * NAME_WORDS).take(count as usize).map(text);
    let ours = names
        .zip(&values[1..])
        .filter(|(name, _)| name.starts_with("rx_queue_") && name.ends_with("_xdp_tx_errors"));
    Ok(ours.map(|(_, value)| *value).reduce(|sum, one| sum + one))
}

/// Two numbers of 32 bits as they lie one after the other.
fn pair(first: u32, second: u32) -> u64 {
    let [[a, b, c, d], [e, f, g, h]] = [first.to_ne_bytes(), second.to_ne_bytes()];
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}
