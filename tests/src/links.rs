//! Frames between two links of two hosts, for forwarders.

use crate::{End, Net, Way};
use mpps_host::lab::Host;

/// MAC addresses that no device has.
pub const STRANGER: [u8; 6] = [2, 0, 0, 0, 0, 8];
/// See [`STRANGER`].
pub const NOBODY: [u8; 6] = [2, 0, 0, 0, 0, 7];

/// The MAC address of a device.
///
/// # Panics
/// When there is no such device.
pub fn mac_of(net: &Net, host: Host, device: &str) -> [u8; 6] {
    let text = net.on(host, &format!("cat /sys/class/net/{device}/address")).stdout;
    let bytes = text.trim().split(':').map(|b| u8::from_str_radix(b, 16).expect("hex"));
    bytes.collect::<Vec<u8>>().try_into().expect("six bytes")
}

/// The first bytes of a frame.
pub fn macs(destination: [u8; 6], source: [u8; 6]) -> [u8; 12] {
    let mut both = [0; 12];
    both[..6].copy_from_slice(&destination);
    both[6..].copy_from_slice(&source);
    both
}

/// From queue `queue` of one device to the same queue of another, unchanged.
pub fn way(from: &'static str, to: &'static str, queue: u32) -> Way {
    let end = |device| End { device, queue };
    let sent = macs(NOBODY, STRANGER);
    Way {
        from: end(from),
        to: Some(end(to)),
        sent,
        arrives: sent,
    }
}
