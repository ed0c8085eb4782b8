//! For each network device: how the `dpdk` path can use it, and the command that is still needed.

use super::dpdk::{Facts, ONE_LANE};
use super::finding::{Area, Report, Status};
use super::kernel::Presence;
use super::pci::{Bus, Device};

/// Kernel drivers that share their device with DPDK, the library of DPDK's driver, and the module for RDMA verbs.
const BIFURCATED: [(&str, &str, &str); 3] = [
    ("mlx4_core", "mlx4", "mlx4_ib"),
    ("mlx5_core", "mlx5", "mlx5_ib"),
    ("mana", "mana", "mana_ib"),
];

/// Kernel drivers of devices that DPDK wants for itself, and the library of its driver for them.
const HANDED_OVER: [(&str, &str); 28] = [
    ("amd-xgbe", "axgbe"),
    ("atlantic", "atlantic"),
    ("bnx2x", "bnx2x"),
    ("bnxt_en", "bnxt"),
    ("cxgb4", "cxgbe"),
    ("e1000", "e1000"),
    ("e1000e", "e1000"),
    ("ena", "ena"),
    ("enic", "enic"),
    ("fm10k", "fm10k"),
    ("gve", "gve"),
    ("hinic", "hinic"),
    ("hns3", "hns3"),
    ("i40e", "i40e"),
    ("iavf", "iavf"),
    ("ice", "ice"),
    ("igb", "e1000"),
    ("igbvf", "e1000"),
    ("igc", "igc"),
    ("ionic", "ionic"),
    ("ixgbe", "ixgbe"),
    ("ixgbevf", "ixgbe"),
    ("nfp", "nfp"),
    ("ngbe", "ngbe"),
    ("sfc", "sfc"),
    ("txgbe", "txgbe"),
    ("virtio-pci", "virtio"),
    ("vmxnet3", "vmxnet3"),
];

/// Drivers that hand a PCI device to user space.
const USER_SPACE: [&str; 3] = ["vfio-pci", "igb_uio", "uio_pci_generic"];

/// Whether VFIO does without an IOMMU.
const NO_IOMMU: &str = "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode";

const WHY: &str = "DPDK's own drivers replace the kernel's; its virtual devices work on top of the kernel's";

/// Adds the finding for an interface.
pub(super) fn interface(facts: &Facts<'_>, name: &str, area: &mut Area<'_>) {
    let has = |d: &&Device| d.interfaces.iter().any(|i| i == name);
    match facts.devices.iter().find(has) {
        Some(device) => add(facts, device, Some(name), area),
        None => {
            let finding = format!("no device of its own; dpdk:{}", over_kernel(name));
            area.add(Status::Info, "dpdk", finding, WHY, "");
        }
    }
}

/// Adds findings for the devices wanted by address, or for all devices without an interface.
pub(super) fn by_address(facts: &Facts<'_>, wanted: &[String], report: &mut Report) {
    let asked = |d: &&Device| match wanted {
        [] => d.interfaces.is_empty(),
        wanted => wanted.contains(&d.address),
    };
    for device in facts.devices.iter().filter(asked) {
        let mut area = report.area(format!("{} {}", device.bus.name(), device.address));
        add(facts, device, device.interfaces.first().map(String::as_str), &mut area);
    }
}

/// Returns whether `name` is the address of a device, which [`by_address`] reports on.
pub(super) fn is_address(facts: &Facts<'_>, name: &str) -> bool {
    facts.devices.iter().any(|d| d.address == name)
}

fn over_kernel(name: &str) -> String {
    format!("net_af_packet0,iface={name} and dpdk:net_af_xdp0,iface={name} go over the kernel's driver")
}

fn add(facts: &Facts<'_>, device: &Device, name: Option<&str>, area: &mut Area<'_>) {
    let driver = device.driver.as_deref().unwrap_or_default();
    let (status, finding, command) = if device.bus == Bus::Vmbus {
        vmbus(facts, device, name)
    } else if USER_SPACE.contains(&driver) {
        handed_over(facts, device, driver)
    } else if let Some((_, library, module)) = BIFURCATED.iter().find(|(d, ..)| *d == driver) {
        bifurcated(facts, device, library, module)
    } else {
        with_kernel(facts, device, driver, name)
    };
    area.add(status, "dpdk", finding, WHY, &command);
}

/// Returns the finding for a device that VFIO or UIO drives.
fn handed_over(facts: &Facts<'_>, device: &Device, driver: &str) -> (Status, String, String) {
    let Device { address, id, .. } = device;
    let usable = format!("{driver} has it: dpdk:{address}, given that DPDK has a driver for {id}");
    if device.iommu {
        return (Status::Ok, usable, String::new());
    }
    if driver == "vfio-pci" && !no_iommu_allowed(facts) {
        let finding = format!("{driver} has it, but there is no IOMMU, and VFIO is not told to do without");
        return (Status::Warn, finding, allow_no_iommu(facts).into());
    }
    if facts.huge < ONE_LANE {
        let finding = format!("{driver} has it; without an IOMMU it needs huge pages, and not enough are free");
        return (Status::Warn, finding, facts.make_huge.clone());
    }
    (Status::Ok, format!("{usable}; no IOMMU: root only"), String::new())
}

/// Returns the finding for a device whose kernel driver stays: DPDK asks that driver for queues by RDMA verbs.
fn bifurcated(facts: &Facts<'_>, device: &Device, library: &str, module: &str) -> (Status, String, String) {
    let address = &device.address;
    let stays = "it stays with the kernel's driver";
    if facts.lacks_driver(library) {
        let finding = format!("{stays}, but DPDK's net_{library} is not installed (its package may lack it)");
        return (Status::Info, finding, "apt-get install -y librte-meta-net".into());
    }
    if !device.verbs {
        let finding = format!("{stays}, by RDMA verbs, which {module} would provide");
        return (Status::Info, finding, format!("modprobe -a {module} ib_uverbs"));
    }
    if facts.machine.list("/dev/infiniband").is_empty() {
        let finding = format!("{stays}, by RDMA verbs; there is no /dev/infiniband");
        return (Status::Info, finding, "modprobe ib_uverbs".into());
    }
    (
        Status::Ok,
        format!("dpdk:{address}; {stays}, which keeps the interface"),
        String::new(),
    )
}

/// Returns the finding for a device with a kernel driver, or with none.
fn with_kernel(facts: &Facts<'_>, device: &Device, driver: &str, name: Option<&str>) -> (Status, String, String) {
    let known = HANDED_OVER
        .iter()
        .find(|(d, _)| *d == driver)
        .map(|(_, library)| *library);
    let mut finding = match (known, driver) {
        (Some(library), _) if facts.lacks_driver(library) => {
            format!("DPDK's net_{library} is not installed, which could drive it")
        }
        (Some(library), _) => format!("DPDK's net_{library} drives it, once it is taken from {driver}"),
        (None, "") => format!("no driver has it; DPDK can, if it has one for {}", device.id),
        (None, _) => format!(
            "{driver}: mpps does not know whether DPDK has a driver for {}",
            device.id
        ),
    };
    let to = match handler(facts, device) {
        Some(to) => to,
        None => {
            finding += "; this kernel has neither vfio-pci with what it needs here nor uio_pci_generic, so it can't be \
                        handed over";
            if let Some(name) = name {
                finding += &format!("; dpdk:{}", over_kernel(name));
            }
            return (Status::Info, finding, String::new());
        }
    };
    if !device.group.is_empty() && to == "vfio-pci" {
        finding += &format!(
            "; of its IOMMU group {} must be handed over, too",
            device.group.join(", ")
        );
    }
    finding += &loss(facts, &device.interfaces);
    let mut steps = prepare(facts, device, to);
    steps.extend(bind(facts, device, to));
    (Status::Info, finding, steps.join(" && "))
}

/// Returns the consequence of losing the interfaces.
fn loss(facts: &Facts<'_>, interfaces: &[String]) -> String {
    if interfaces.is_empty() {
        return String::new();
    }
    let names = interfaces.join(", ");
    match interfaces.iter().any(|i| facts.default_routes.contains(i)) {
        true => format!("; THE DEFAULT ROUTE LEAVES BY {names}, which vanishes then, with every shell that came by it"),
        false => format!("; {names} vanishes then, with its addresses and any shell that came by it"),
    }
}

/// Returns the driver that can hand the device over.
fn handler(facts: &Facts<'_>, device: &Device) -> Option<&'static str> {
    let usable = |option, module| facts.kernel.has(option, module) != Presence::Absent;
    // The parameter is there if the kernel was built with it.
    let without_iommu = match facts.machine.exists("/sys/module/vfio") {
        true => facts.machine.exists(NO_IOMMU),
        false => facts.kernel.is_set("CONFIG_VFIO_NOIOMMU") != Some(false),
    };
    if usable("CONFIG_VFIO_PCI", "vfio-pci") && (device.iommu || without_iommu) {
        Some("vfio-pci")
    } else if usable("CONFIG_UIO_PCI_GENERIC", "uio_pci_generic") {
        Some("uio_pci_generic")
    } else {
        None
    }
}

fn no_iommu_allowed(facts: &Facts<'_>) -> bool {
    let set = facts.machine.read(NO_IOMMU);
    matches!(set.as_deref(), Some("Y" | "1"))
}

fn allow_no_iommu(facts: &Facts<'_>) -> &'static str {
    if facts.machine.exists("/sys/module/vfio") {
        "echo 1 > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode"
    } else {
        "modprobe vfio enable_unsafe_noiommu_mode=1"
    }
}

/// Returns the steps before the binding.
fn prepare(facts: &Facts<'_>, device: &Device, to: &str) -> Vec<String> {
    let mut steps = Vec::new();
    if !device.iommu {
        if to == "vfio-pci" && !no_iommu_allowed(facts) {
            steps.push(allow_no_iommu(facts).to_owned());
        }
        if facts.huge < ONE_LANE {
            steps.push(facts.make_huge.clone());
        }
    }
    if !facts.machine.exists(&format!("/sys/bus/pci/drivers/{to}")) {
        steps.push(format!("modprobe {to}"));
    }
    steps
}

fn bind(facts: &Facts<'_>, device: &Device, to: &str) -> Vec<String> {
    let (address, bus) = (&device.address, device.bus.name());
    if facts.machine.has_tool("driverctl") {
        let other = if device.bus == Bus::Pci { "" } else { "-b vmbus " };
        return vec![format!("driverctl {other}set-override {address} {to}")];
    }
    if device.bus == Bus::Pci && facts.machine.has_tool("dpdk-devbind.py") {
        // `dpdk-devbind.py` refuses an interface that a route uses.
        let down = device.interfaces.iter().map(|i| format!("ip link set dev {i} down"));
        return down.chain([format!("dpdk-devbind.py -b {to} {address}")]).collect();
    }
    let dir = format!("/sys/bus/{bus}/devices/{address}");
    let mut steps = vec![format!("echo {to} > {dir}/driver_override")];
    if device.driver.is_some() {
        steps.push(format!("echo {address} > {dir}/driver/unbind"));
    }
    steps.push(format!("echo {address} > /sys/bus/{bus}/drivers_probe"));
    steps
}

/// Returns the finding for a network device of Hyper-V and Azure, which DPDK finds by its MAC address.
fn vmbus(facts: &Facts<'_>, device: &Device, name: Option<&str>) -> (Status, String, String) {
    let mac = name.and_then(|n| facts.machine.read(&format!("/sys/class/net/{n}/address")));
    let port = format!("dpdk:mac={}", mac.as_deref().unwrap_or("MAC"));
    if facts.lacks_driver("netvsc") {
        let finding = "DPDK's net_netvsc is not installed, which could drive it";
        return (
            Status::Info,
            finding.into(),
            "apt-get install -y librte-meta-net".into(),
        );
    }
    if device.driver.as_deref() == Some("uio_hv_generic") {
        let finding = format!("uio_hv_generic has it: {port}, the address that the cloud's portal shows");
        return (Status::Ok, finding, String::new());
    }
    if facts.kernel.has("CONFIG_UIO_HV_GENERIC", "uio_hv_generic") == Presence::Absent {
        let mut finding = "this kernel has no uio_hv_generic, so it can't be handed over".to_owned();
        if let Some(name) = name {
            finding += &format!("; dpdk:{}", over_kernel(name));
        }
        return (Status::Info, finding, String::new());
    }
    let mut steps = Vec::new();
    if !facts.machine.exists("/sys/bus/vmbus/drivers/uio_hv_generic") {
        steps.push("modprobe uio_hv_generic".to_owned());
    }
    if facts.huge < ONE_LANE {
        steps.push(facts.make_huge.clone());
    }
    steps.extend(bind(facts, device, "uio_hv_generic"));
    let lost = loss(facts, &device.interfaces);
    let finding =
        format!("{port} once uio_hv_generic has it; a virtual function beside it is found by the address{lost}");
    (Status::Info, finding, steps.join(" && "))
}
