//! XDP features of an interface's driver, which the kernel reports since Linux 6.3: generic netlink, family `netdev`
//! (Documentation/netlink/specs/netdev.yaml).

use crate::netlink::{Request, attributes, u16_at, u32_at};
use std::io;

/// `struct genlmsghdr`.
const GENLMSGHDR: usize = 4;

// include/uapi/linux/genetlink.h
const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

// include/uapi/linux/netdev.h
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;

/// XDP features of a driver (`enum netdev_xdp_act`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpFeatures {
    /// Programs run in the driver, and may pass, drop and send back.
    pub basic: bool,
    /// Programs may send out of another interface.
    pub redirect: bool,
    /// Other interfaces' programs, and live frames, may be sent out of this one (`ndo_xdp_xmit`). On veth: whether the
    /// peer takes them.
    pub transmit: bool,
    /// AF_XDP without copying.
    pub zero_copy: bool,
    /// Programs may run on the device itself.
    pub offload: bool,
}

impl XdpFeatures {
    /// From the bits of `NETDEV_A_DEV_XDP_FEATURES`.
    pub fn from_bits(bits: u64) -> Self {
        let has = |bit: u32| bits >> bit & 1 == 1;
        Self {
            basic: has(0),
            redirect: has(1),
            transmit: has(2),
            zero_copy: has(3),
            offload: has(4),
        }
    }
}

/// Asks the kernel for the XDP features of the driver of interface `ifindex`. `None` if the kernel does not report them
/// (before Linux 6.3).
///
/// # Errors
/// When the interface has vanished.
pub fn xdp_features(ifindex: u32) -> io::Result<Option<XdpFeatures>> {
    let mut family = None;
    let asked = Request::generic(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 1)
        .attribute(CTRL_ATTR_FAMILY_NAME, b"netdev\0")
        .run(|_, body| family = find(body, CTRL_ATTR_FAMILY_ID).and_then(|value| u16_at(value, 0)));
    let (Ok(()), Some(family)) = (asked, family) else {
        return Ok(None);
    };
    let mut features = None;
    Request::generic(family, NETDEV_CMD_DEV_GET, 1)
        .attribute(NETDEV_A_DEV_IFINDEX, &ifindex.to_ne_bytes())
        .run(|_, body| features = find(body, NETDEV_A_DEV_XDP_FEATURES).and_then(number))?;
    Ok(features.map(XdpFeatures::from_bits))
}

fn find(body: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(body, GENLMSGHDR)
        .find(|(k, _)| *k == kind)
        .map(|(_, value)| value)
}

/// A 64-bit number; the kernel aligns it to four bytes only.
fn number(value: &[u8]) -> Option<u64> {
    let [a, b] = [u32_at(value, 0)?, u32_at(value, 4)?].map(u32::to_ne_bytes);
    Some(u64::from_ne_bytes([a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_features_that_tell_of_no_native_program_where_the_kernel_tells_at_all() {
        match xdp_features(1) {
            Ok(Some(features)) => assert!(!features.basic && !features.zero_copy, "{features:?}"),
            other => println!("SKIPPED: this kernel does not tell XDP features: {other:?}"),
        }
    }

    #[test]
    fn each_bit_is_its_feature() {
        let of = |bit: u32| {
            let f = XdpFeatures::from_bits(1 << bit);
            [f.basic, f.redirect, f.transmit, f.zero_copy, f.offload].map(u8::from)
        };
        assert_eq!(of(0), [1, 0, 0, 0, 0]);
        assert_eq!(of(2), [0, 0, 1, 0, 0]);
        assert_eq!(of(4), [0, 0, 0, 0, 1]);
        assert_eq!(of(5), [0; 5]);
    }
}
