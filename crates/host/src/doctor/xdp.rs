//! Abilities of XDP programs on an interface: as the kernel reports them (Linux 6.3), else from what is known of the
//! driver.

use super::ethtool;
use super::finding::{Area, Status};
use super::machine::Machine;

/// Drivers with native XDP in Linux's tree.
const NATIVE_XDP: [&str; 26] = [
    "atlantic",
    "bnxt_en",
    "ena",
    "fec",
    "gve",
    "hv_netvsc",
    "i40e",
    "ice",
    "igb",
    "igc",
    "ixgbe",
    "ixgbevf",
    "mana",
    "mlx4_en",
    "mlx5_core",
    "mvneta",
    "mvpp2",
    "nfp",
    "qede",
    "sfc",
    "st_gmac",
    "stmmac",
    "tun",
    "veth",
    "virtio_net",
    "vmxnet3",
];
/// Drivers that have had zero-copy AF_XDP for long enough to be relied on.
const ZERO_COPY: [&str; 8] = ["i40e", "ice", "igb", "igc", "ixgbe", "mlx5_core", "st_gmac", "stmmac"];

/// Returns the mode of XDP programs on the interface, and the way in which AF_XDP's frames get there, in words.
pub(super) fn modes(machine: &Machine, name: &str, driver: &str) -> (&'static str, &'static str) {
    let told = machine.xdp_features(name);
    let native = told.map_or(NATIVE_XDP.contains(&driver), |features| features.basic);
    let zero_copy = told.map_or(ZERO_COPY.contains(&driver), |features| features.zero_copy);
    // virtio_net reports zero-copy whatever its device has, and refuses it if either feature is missing.
    const ACCESS_PLATFORM: usize = 33;
    const RING_RESET: usize = 40;
    let virtio = (driver == "virtio_net").then(|| machine.read(&format!("/sys/class/net/{name}/device/features")));
    let virtio = virtio.flatten().unwrap_or_default();
    let lacks = |bit: usize| virtio.as_bytes().get(bit) == Some(&b'0');
    let xdp = match (native, told.is_some()) {
        (true, _) => "native XDP",
        (false, true) => "generic XDP only",
        (false, false) => "generic XDP only, as far as is known",
    };
    (
        xdp,
        match zero_copy {
            true if lacks(ACCESS_PLATFORM) && lacks(RING_RESET) => {
                "AF_XDP by copy (zero-copy wants VIRTIO_F_ACCESS_PLATFORM and VIRTIO_F_RING_RESET, in QEMU \
                 iommu_platform=on,disable-legacy=on,queue_reset=on)"
            }
            true if lacks(ACCESS_PLATFORM) => {
                "AF_XDP by copy (zero-copy wants VIRTIO_F_ACCESS_PLATFORM, in QEMU iommu_platform=on,disable-legacy=on)"
            }
            true if lacks(RING_RESET) => "AF_XDP by copy (zero-copy wants VIRTIO_F_RING_RESET, in QEMU queue_reset=on)",
            true => "zero-copy AF_XDP",
            false => "AF_XDP by copy",
        },
    )
}

/// Adds findings on whether frames that programs send leave by the interface, and whether such frames would arrive at
/// it.
pub(super) fn examine(machine: &Machine, name: &str, driver: &str, area: &mut Area<'_>) {
    let told = machine.xdp_features(name);
    let why = "the xdp path needs it to send and to forward (ndo_xdp_xmit)";
    match told {
        Some(features) if features.transmit => {
            area.add(Status::Ok, "XDP transmit", "the driver sends programs' frames", why, "");
        }
        Some(_) if driver == "veth" => area.add(
            Status::Info,
            "XDP transmit",
            "frames that XDP programs send through it do not arrive: its peer has neither GRO on nor an XDP program \
             attached: on the peer, ethtool -K IFACE gro on",
            why,
            "",
        ),
        Some(features) => {
            let finding = if features.basic {
                "not now: some drivers need an XDP program attached first, or more queues"
            } else {
                "not by this driver"
            };
            area.add(Status::Info, "XDP transmit", finding, why, "");
        }
        None if driver == "veth" => area.add(Status::Info, "XDP transmit", "veth can", why, ""),
        None => area.add(
            Status::Info,
            "XDP transmit",
            "this kernel does not report it (Linux 6.3 does)",
            why,
            "",
        ),
    }
    let gro = machine
        .run(&["ethtool", "-k", name])
        .ok()
        .and_then(|text| ethtool::feature(&text, "generic-receive-offload"));
    if driver == "veth" && gro.is_some_and(|gro| !gro.on) {
        area.add(
            Status::Info,
            "XDP receive",
            "frames that XDP programs send to it do not arrive unless an XDP program is attached to it or GRO is on",
            "without either, veth keeps no ring for them and the sender's kernel drops them",
            &format!("ethtool -K {name} gro on"),
        );
    }
    if told.is_some_and(|features| features.offload) {
        area.add(
            Status::Info,
            "XDP offload",
            "the device could run programs itself; mpps does not use it",
            "offloaded maps can't be mapped into memory, and such programs have no clock and no live frames",
            "",
        );
    }
}
