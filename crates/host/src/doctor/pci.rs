//! Network devices by their bus, whether or not the kernel drives them: PCI functions, and Hyper-V's VMBus devices.

use super::machine::Machine;

/// The class of network devices on the VMBus.
const VMBUS_NETWORK: &str = "f8615163-df3e-46c5-913f-f2d2f965ed0e";

/// Bus of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bus {
    Pci,
    Vmbus,
}

impl Bus {
    /// Returns the bus's directory below `/sys/bus`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pci => "pci",
            Self::Vmbus => "vmbus",
        }
    }
}

/// An Ethernet device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) bus: Bus,
    /// `0000:03:00.0`, or the UUID of a VMBus device.
    pub(super) address: String,
    /// Vendor and device, `8086:10fb`; empty on the VMBus.
    pub(super) id: String,
    /// Driver of the device; `None`: it has none.
    pub(super) driver: Option<String>,
    /// Interfaces that the kernel's driver made for the device; none if another driver has it.
    pub(super) interfaces: Vec<String>,
    /// Whether an IOMMU limits its DMA to the memory that it is given.
    pub(super) iommu: bool,
    /// Other devices of its IOMMU group that a kernel driver has: VFIO wants the whole group.
    pub(super) group: Vec<String>,
    /// Whether user space can use the device beside its kernel driver (RDMA verbs).
    pub(super) verbs: bool,
}

impl Device {
    /// Returns all devices of this host, in the order of their addresses.
    pub(super) fn all(machine: &Machine) -> Vec<Self> {
        let pci = machine.list("/sys/bus/pci/devices");
        let vmbus = machine.list("/sys/bus/vmbus/devices");
        let pci = pci.into_iter().filter_map(|a| Self::pci(machine, a));
        pci.chain(vmbus.into_iter().filter_map(|a| Self::vmbus(machine, a)))
            .collect()
    }

    fn pci(machine: &Machine, address: String) -> Option<Self> {
        let dir = format!("/sys/bus/pci/devices/{address}");
        // Class 0x0200: network controller, Ethernet.
        if !machine.read(&format!("{dir}/class"))?.starts_with("0x0200") {
            return None;
        }
        let number = |file: &str| {
            let text = machine.read(&format!("{dir}/{file}")).unwrap_or_default();
            text.trim_start_matches("0x").to_owned()
        };
        let mut interfaces = machine.list(&format!("{dir}/net"));
        // A virtio device has its own bus, below the PCI function.
        for below in machine.list(&dir).iter().filter(|name| name.starts_with("virtio")) {
            interfaces.extend(machine.list(&format!("{dir}/{below}/net")));
        }
        let group_dir = format!("{dir}/iommu_group");
        // Without an IOMMU, VFIO makes up a group with this name.
        let made_up = machine.read(&format!("{group_dir}/name")).as_deref() == Some("vfio-noiommu");
        Some(Self {
            bus: Bus::Pci,
            id: format!("{}:{}", number("vendor"), number("device")),
            driver: machine.link_name(&format!("{dir}/driver")),
            interfaces,
            iommu: machine.exists(&group_dir) && !made_up,
            group: group_mates(machine, &group_dir, &address),
            verbs: !machine.list(&format!("{dir}/infiniband")).is_empty(),
            address,
        })
    }

    fn vmbus(machine: &Machine, address: String) -> Option<Self> {
        let dir = format!("/sys/bus/vmbus/devices/{address}");
        let class = machine.read(&format!("{dir}/class_id"))?;
        (class.trim_matches(['{', '}']) == VMBUS_NETWORK).then(|| Self {
            bus: Bus::Vmbus,
            id: String::new(),
            driver: machine.link_name(&format!("{dir}/driver")),
            interfaces: machine.list(&format!("{dir}/net")),
            iommu: false,
            group: Vec::new(),
            verbs: false,
            address,
        })
    }
}

/// Returns devices of the group that would have to be handed to VFIO too: not bridges, and not those without a driver
/// or with VFIO's.
fn group_mates(machine: &Machine, group_dir: &str, address: &str) -> Vec<String> {
    let members = machine.list(&format!("{group_dir}/devices"));
    let kept = |member: &String| {
        let dir = format!("/sys/bus/pci/devices/{member}");
        let bridge = machine
            .read(&format!("{dir}/class"))
            .is_some_and(|class| class.starts_with("0x06"));
        let driver = machine.link_name(&format!("{dir}/driver"));
        member != address && !bridge && driver.is_some_and(|d| d != "vfio-pci")
    };
    members.into_iter().filter(kept).collect()
}

/// Returns the interfaces that have a default route.
pub(super) fn default_routes(machine: &Machine) -> Vec<String> {
    let v4 = machine.read("/proc/net/route").unwrap_or_default();
    let v6 = machine.read("/proc/net/ipv6_route").unwrap_or_default();
    let v4 = v4.lines().filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        (words.get(1) == Some(&"00000000") && words.get(7) == Some(&"00000000")).then(|| words[0].to_owned())
    });
    let v6 = v6.lines().filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let any = words.len() == 10 && words[0].bytes().all(|b| b == b'0') && words[1] == "00";
        (any && words[9] != "lo").then(|| words[9].to_owned())
    });
    v4.chain(v6).collect()
}
