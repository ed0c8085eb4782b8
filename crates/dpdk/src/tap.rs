//! Peculiarities of `net_tap`: its interface has an address of its own, and the kernel's `tc flower` applies its flow
//! rules.

use crate::Config;
use dpdk_sys as sys;
use mpps_netdev::{NetDev, set_mac};
use std::io::{self, Read};

/// Gives the interface of a tap another MAC address than the port's, once the driver has set both the same, for the
/// last time as it starts. A bridge keeps frames to an address of its own interfaces, so the port would get none. An
/// address that somebody gave the interface stays, and so does that of a tap which stands for another interface
/// (`remote=`).
pub(crate) fn own_address(config: &Config, info: &sys::PortInfo) -> io::Result<()> {
    if config.driver() != "net_tap" || config.driver_arg("remote").is_some() {
        return Ok(());
    }
    let device = NetDev::by_index(info.interface)?;
    match device.mac == info.mac {
        true => set_mac(device.ifindex, another(info.mac)),
        false => Ok(()),
    }
}

/// A MAC address beside this one: locally administered, and no neighbour of it, which another port may have.
fn another(mac: [u8; 6]) -> [u8; 6] {
    let [first, b, c, d, e, last] = mac;
    [first & !1 | 2, b, c, d ^ 0x5a, e ^ 0xa5, last]
}

/// Rules that the driver takes, for the end of its own refusal. Source: `tap_flow_items` and `priv_flow_process` in
/// `drivers/net/tap/tap_flow.c` of DPDK 22.11.
pub(crate) const RULES: &str = "net_tap takes the actions drop, passthru and queue, and in headers dst, src, type, \
                                vid, pcp, proto and ports with all their bits, without ranges";

/// Whether this kernel has the classifier that `net_tap` needs, in words for the end of a refusal.
pub(crate) fn flower() -> String {
    let what = "net_tap applies flow rules by the kernel's tc flower";
    match configured() {
        Some(false) => format!("{what}, which this kernel lacks (CONFIG_NET_CLS_FLOWER is not set)"),
        Some(true) => format!("{what}, which this kernel has: is the rule one that it can apply?"),
        None => format!("{what}: does `tc filter add dev IFACE ingress flower` work on this host?"),
    }
}

/// Whether the kernel was configured with it. Source: `/proc/config.gz` or `/boot/config-RELEASE`; `None` if neither
/// can be read.
fn configured() -> Option<bool> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let boot = std::fs::read_to_string(format!("/boot/config-{}", release.trim())).ok();
    let text = boot.or_else(|| {
        // The kernel's copy is compressed; zcat is on every system that has it.
        let mut child = std::process::Command::new("zcat")
            .arg("/proc/config.gz")
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .ok()?;
        let mut text = String::new();
        child.stdout.take()?.read_to_string(&mut text).ok()?;
        child.wait().ok().filter(std::process::ExitStatus::success)?;
        Some(text)
    })?;
    Some(has_flower(&text))
}

fn has_flower(config: &str) -> bool {
    config
        .lines()
        .any(|line| matches!(line, "CONFIG_NET_CLS_FLOWER=y" | "CONFIG_NET_CLS_FLOWER=m"))
}

#[cfg(test)]
mod tests {
    use super::{another, has_flower};

    #[test]
    fn another_address_is_one_host_s_and_never_the_same() {
        for mac in [[0; 6], [2, 0, 0, 0, 0, 0xa0], [0xff; 6], [0, 0x64, 0x74, 0x61, 0x70, 0]] {
            let other = another(mac);
            assert!(other != mac && other[0] & 3 == 2 && other[5] == mac[5], "{other:x?}");
        }
    }

    #[test]
    fn a_kernel_has_flower_if_it_was_built_in_or_as_a_module() {
        assert!(has_flower("CONFIG_NET_CLS=y\nCONFIG_NET_CLS_FLOWER=m\n"));
        assert!(!has_flower("# CONFIG_NET_CLS_FLOWER is not set\n"));
    }
}
