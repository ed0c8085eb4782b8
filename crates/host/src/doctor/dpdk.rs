//! Findings on the `dpdk` path other than devices: the build, DPDK's drivers, memory, and the requirements of its
//! virtual devices. Devices are in [`super::bind`].

use super::finding::{Area, Report, Status};
use super::kernel::{Kernel, Presence};
use super::machine::{Machine, NoOutput};
use super::parse;
use super::pci::{self, Device};
use crate::tool;

/// Directories in which DPDK's shared libraries look for drivers, as distributions and `ninja install` place them. Each
/// contains `pmds-ABI` directories.
const LIBRARIES: [&str; 4] = ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64"];

/// Drivers of virtual devices, by the name of their library.
const VIRTUAL: [&str; 8] = ["memif", "af_packet", "af_xdp", "tap", "ring", "null", "pcap", "virtio"];

/// Kernel parts that make flow rules of `net_tap`: option and module.
const TRAFFIC_CONTROL: [(&str, &str); 5] = [
    ("CONFIG_NET_CLS_FLOWER", "cls_flower"),
    ("CONFIG_NET_SCH_MULTIQ", "sch_multiq"),
    ("CONFIG_NET_SCH_INGRESS", "sch_ingress"),
    ("CONFIG_NET_ACT_GACT", "act_gact"),
    ("CONFIG_NET_ACT_SKBEDIT", "act_skbedit"),
];

/// Size of huge pages for a first run, bytes.
const FIRST_RUN: u64 = 1 << 30;

/// Memory for a run with one lane and usual rings, bytes, rounded up. With less the path takes normal pages.
pub(super) const ONE_LANE: u64 = 128 << 20;

/// Facts that the findings on DPDK need, read once.
pub(super) struct Facts<'m> {
    pub(super) machine: &'m Machine,
    pub(super) kernel: Kernel<'m>,
    /// Libraries of drivers by name (`mlx5`); `None`: no directory of them was found.
    pub(super) drivers: Option<Vec<String>>,
    /// Bytes of free huge pages.
    pub(super) huge: u64,
    /// The command that makes huge pages for a first run.
    pub(super) make_huge: String,
    pub(super) devices: Vec<Device>,
    /// Interfaces with a default route.
    pub(super) default_routes: Vec<String>,
    /// Directory of the drivers.
    directory: Option<String>,
    /// Version of the DPDK that this build was made with.
    build: Option<&'m str>,
}

impl<'m> Facts<'m> {
    pub(super) fn of(machine: &'m Machine, build: Option<&'m str>) -> Self {
        let directory = driver_directory(machine, build);
        Self {
            machine,
            kernel: Kernel::of(machine),
            drivers: directory.as_ref().map(|dir| drivers_in(machine, dir)),
            huge: free_huge_pages(machine),
            make_huge: make_huge_pages(machine),
            devices: Device::all(machine),
            default_routes: pci::default_routes(machine),
            directory,
            build,
        }
    }

    /// Returns whether the library of a driver is missing, if that can be seen.
    pub(super) fn lacks_driver(&self, name: &str) -> bool {
        self.drivers.as_ref().is_some_and(|all| !all.iter().any(|d| d == name))
    }
}

/// Returns the directory of the drivers: `pmds-23.0` for 22.11. The ABI is that of the last November release, named
/// after the year to come.
fn driver_directory(machine: &Machine, build: Option<&str>) -> Option<String> {
    let abi = build.and_then(parse::kernel_version).map(|(year, month)| {
        let abi = if month >= 11 { year + 1 } else { year };
        format!("pmds-{abi}.")
    });
    let mut roots = Vec::new();
    for library in LIBRARIES {
        roots.push(format!("{library}/dpdk"));
        roots.extend(
            machine
                .list(library)
                .iter()
                .filter(|n| n.contains("-linux-"))
                .map(|n| format!("{library}/{n}/dpdk")),
        );
    }
    let found = roots.iter().flat_map(|root| {
        let names = machine.list(root).into_iter().filter(|n| n.starts_with("pmds-"));
        names.map(move |n| (root.clone(), n))
    });
    found
        .filter(|(_, name)| abi.as_ref().is_none_or(|abi| name.starts_with(abi)))
        .map(|(root, name)| format!("{root}/{name}"))
        .next_back()
}

/// Returns the names of network drivers: `mlx5` for `librte_net_mlx5.so.23.0`.
fn drivers_in(machine: &Machine, dir: &str) -> Vec<String> {
    let mut names: Vec<String> = machine
        .list(dir)
        .iter()
        .filter_map(|file| Some(file.strip_prefix("librte_net_")?.split_once(".so")?.0.to_owned()))
        .collect();
    names.dedup();
    names
}

fn free_huge_pages(machine: &Machine) -> u64 {
    const DIR: &str = "/sys/kernel/mm/hugepages";
    let bytes = |dir: &String| {
        let size = dir
            .strip_prefix("hugepages-")?
            .strip_suffix("kB")?
            .parse::<u64>()
            .ok()?;
        Some(machine.number(&format!("{DIR}/{dir}/free_hugepages"))? * (size << 10))
    };
    machine.list(DIR).iter().filter_map(bytes).sum()
}

/// Adds the finding among the paths: whether this build has the path.
pub(super) fn path(facts: &Facts<'_>, area: &mut Area<'_>) {
    let why = "a path that does not work here can't be measured here";
    if let Some(version) = facts.build {
        let finding = format!("works: DPDK {version}; virtual devices need no NIC: dpdk:net_memif0, dpdk:net_ring0");
        area.add(Status::Ok, "dpdk", finding, why, "");
        return;
    }
    let (host, command) = match facts.machine.run(&["pkg-config", "--modversion", "libdpdk"]) {
        Ok(version) => (format!("the host has libdpdk {}", version.trim()), "make build"),
        Err(NoOutput::Missing) => (
            "pkg-config, which finds libdpdk, is not installed".to_owned(),
            "apt-get install -y libdpdk-dev pkg-config && make build",
        ),
        Err(NoOutput::Failed) => (
            "libdpdk is not installed".to_owned(),
            "apt-get install -y libdpdk-dev && make build",
        ),
    };
    let finding = format!("not in this build of mpps, which was made without libdpdk; {host}");
    area.add(Status::Info, "dpdk", finding, why, command);
}

/// Adds the area `dpdk`.
pub(super) fn examine(facts: &Facts<'_>, report: &mut Report) {
    let mut area = report.area("dpdk");
    drivers(facts, &mut area);
    memory(facts, &mut area);
    tap(facts, &mut area);
    flow_rules(facts, &mut area);
    vhost(facts, &mut area);
    bpf_file_system(facts, &mut area);
    vfio(facts, &mut area);
}

fn drivers(facts: &Facts<'_>, area: &mut Area<'_>) {
    let why = "DPDK loads its drivers from there when it starts";
    let (Some(dir), Some(names)) = (&facts.directory, &facts.drivers) else {
        // A build without DPDK does not use the drivers.
        let (status, command) = match facts.build {
            Some(_) => (Status::Warn, "apt-get install -y librte-meta-net"),
            None => (Status::Info, ""),
        };
        let finding = format!("none found in {}/[…/]dpdk/pmds-*", LIBRARIES.join(", "));
        area.add(status, "drivers", finding, why, command);
        return;
    };
    let missing: Vec<_> = VIRTUAL.iter().filter(|v| !names.iter().any(|n| n == *v)).collect();
    if missing.is_empty() {
        let finding = format!(
            "{} for network devices in {dir}, all of mpps's recipes among them",
            names.len()
        );
        area.add(Status::Ok, "drivers", finding, why, "");
    } else {
        let missing = missing
            .iter()
            .map(|m| format!("net_{m}"))
            .collect::<Vec<_>>()
            .join(", ");
        let finding = format!("{} in {dir}; not among them: {missing}", names.len());
        area.add(
            Status::Warn,
            "drivers",
            finding,
            why,
            "apt-get install -y librte-meta-net",
        );
    }
}

/// Returns the command that makes huge pages. Their default size differs: 2 MiB with pages of 4 KiB, 512 MiB with pages
/// of 64 KiB.
fn make_huge_pages(machine: &Machine) -> String {
    let all = machine.read("/proc/meminfo").unwrap_or_default();
    let size = all.lines().find_map(|line| {
        let kib = line.strip_prefix("Hugepagesize:")?.trim().strip_suffix(" kB")?;
        kib.parse::<u64>().ok().filter(|&kib| kib > 0)
    });
    let pages = FIRST_RUN.div_ceil(size.unwrap_or(2048) << 10);
    format!("sysctl -w vm.nr_hugepages={pages}")
}

fn memory(facts: &Facts<'_>, area: &mut Area<'_>) {
    let why = "packet buffers lie in huge pages where enough are free, else in normal ones, which costs TLB misses";
    let (free, wanted) = (parse::bytes(facts.huge), parse::bytes(ONE_LANE));
    if facts.huge >= ONE_LANE {
        let finding = format!("{free} of huge pages free, no mount needed");
        area.add(Status::Ok, "memory", finding, why, "");
        return;
    }
    let finding = match facts.huge {
        0 => "no huge page is free".to_owned(),
        _ => format!("{free} of huge pages free, and a lane takes up to {wanted}"),
    };
    let finding = format!("{finding}: normal pages are used, slower; a NIC without an IOMMU can't use those");
    area.add(Status::Info, "memory", finding, why, &facts.make_huge);
}

fn tap(facts: &Facts<'_>, area: &mut Area<'_>) {
    let why = "net_tap, and net_virtio_user with vhost-net, need it to make an interface of the host";
    if !facts.machine.exists("/dev/net/tun") {
        let command = match facts.kernel.has("CONFIG_TUN", "tun") {
            Presence::Absent => "",
            _ => "modprobe tun; mkdir -p /dev/net; [ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200",
        };
        area.add(Status::Info, "net_tap", "there is no /dev/net/tun", why, command);
    } else if !facts.machine.has_capability(tool::CAP_NET_ADMIN) {
        area.add(
            Status::Info,
            "net_tap",
            "/dev/net/tun exists, CAP_NET_ADMIN is missing",
            why,
            "",
        );
    } else {
        area.add(Status::Ok, "net_tap", "/dev/net/tun and CAP_NET_ADMIN", why, "");
    }
}

fn flow_rules(facts: &Facts<'_>, area: &mut Area<'_>) {
    let why =
        "net_tap makes tc rules of --flow: classifier flower, qdiscs multiq and ingress, actions gact and skbedit";
    let all = TRAFFIC_CONTROL.map(|(option, module)| (module, facts.kernel.has(option, module)));
    let of = |wanted: Presence| -> Vec<&str> {
        all.iter()
            .filter(|(_, p)| *p == wanted)
            .map(|(module, _)| *module)
            .collect()
    };
    let (absent, loadable, unknown) = (of(Presence::Absent), of(Presence::Loadable), of(Presence::Unknown));
    if !absent.is_empty() {
        let finding = format!("this kernel lacks {}: --flow is refused on net_tap", absent.join(", "));
        area.add(Status::Info, "net_tap flow", finding, why, "");
    } else if !unknown.is_empty() {
        let check =
            "tc qdisc add dev lo ingress; tc filter add dev lo ingress flower action pass; tc qdisc del dev lo ingress";
        area.add(
            Status::Info,
            "net_tap flow",
            "the kernel's configuration can't be read",
            why,
            check,
        );
    } else if loadable.is_empty() {
        area.add(Status::Ok, "net_tap flow", "tc flower is there", why, "");
    } else {
        let finding = format!("modules the kernel loads on demand: {}", loadable.join(", "));
        area.add(Status::Ok, "net_tap flow", finding, why, "");
    }
}

fn vhost(facts: &Facts<'_>, area: &mut Area<'_>) {
    let why = "net_virtio_user needs it to reach the host's stack";
    if facts.machine.exists("/dev/vhost-net") {
        area.add(Status::Ok, "net_virtio_user", "/dev/vhost-net is there", why, "");
        return;
    }
    let (finding, command) = match facts.kernel.has("CONFIG_VHOST_NET", "vhost_net") {
        Presence::Absent => (
            "this kernel has no vhost-net: a vhost-user socket (path=/…) works, net_tap too",
            "",
        ),
        _ => ("there is no /dev/vhost-net", "modprobe vhost_net"),
    };
    area.add(Status::Info, "net_virtio_user", finding, why, command);
}

fn bpf_file_system(facts: &Facts<'_>, area: &mut Area<'_>) {
    let why = "the driver loads its program with libxdp, which puts a dispatcher in front of it and pins that there";
    let mounts = facts.machine.read("/proc/mounts").unwrap_or_default();
    let mounted = mounts.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        (words.next(), words.next()) == (Some("/sys/fs/bpf"), Some("bpf"))
    });
    if mounted {
        area.add(Status::Ok, "net_af_xdp", "/sys/fs/bpf is mounted", why, "");
    } else {
        // `ip netns exec` mounts a new /sys, which lacks everything that was mounted below the old one.
        let finding = "/sys/fs/bpf is not mounted (nor is it at first in a namespace): the program is loaded alone";
        area.add(Status::Info, "net_af_xdp", finding, why, "mount -t bpf bpf /sys/fs/bpf");
    }
}

fn vfio(facts: &Facts<'_>, area: &mut Area<'_>) {
    let why = "PCI devices are handed to user space by vfio-pci, and kept to their memory by the IOMMU";
    let groups = facts.machine.list("/sys/kernel/iommu_groups").len();
    let iommu = match groups {
        0 => "no IOMMU".to_owned(),
        n => format!("IOMMU with {n} groups"),
    };
    let (status, module) = match facts.kernel.has("CONFIG_VFIO_PCI", "vfio-pci") {
        Presence::Ready => (Status::Ok, "vfio-pci is there"),
        Presence::Loadable => (Status::Ok, "vfio-pci can be loaded"),
        Presence::Absent => (Status::Info, "this kernel has no vfio-pci"),
        Presence::Unknown => (Status::Info, "mpps can't find out whether the kernel has vfio-pci"),
    };
    area.add(status, "vfio", format!("{module}, {iommu}"), why, "");
}
