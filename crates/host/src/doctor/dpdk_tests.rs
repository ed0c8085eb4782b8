//! Findings of the doctor on the `dpdk` path, on sample machines.

use super::tests::{examine_sample, find};
use super::*;

/// A build with DPDK 22.11.
fn built() -> Options {
    Options {
        dpdk: Some("22.11.4".into()),
        ..Options::default()
    }
}

const DRIVERS: &[(&str, &str)] = &[
    ("usr/lib/x86_64-linux-gnu/dpdk/pmds-24.0/librte_net_memif.so.24.0", ""),
    ("usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_net_memif.so.23", ""),
    ("usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_net_memif.so.23.0", ""),
    ("usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_net_ixgbe.so.23.0", ""),
    ("usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_net_mlx5.so.23.0", ""),
    ("usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_bus_pci.so.23.0", ""),
];

const KERNEL: &[(&str, &str)] = &[
    ("proc/sys/kernel/osrelease", "6.1.0-18-amd64"),
    (
        "boot/config-6.1.0-18-amd64",
        "CONFIG_VFIO_PCI=m\nCONFIG_VFIO_NOIOMMU=y\nCONFIG_UIO_HV_GENERIC=m\nCONFIG_VHOST_NET=m\n# \
         CONFIG_NET_CLS_FLOWER is not \
         set\nCONFIG_NET_SCH_MULTIQ=y\nCONFIG_NET_SCH_INGRESS=m\nCONFIG_NET_ACT_GACT=m\nCONFIG_NET_ACT_SKBEDIT=m\n",
    ),
    ("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "512\n"),
];

/// An ixgbe NIC behind an IOMMU, with a bridge in its group.
const IXGBE: &[(&str, &str)] = &[
    ("sys/class/net/eth1/mtu", "1500"),
    ("sys/bus/pci/devices/0000:03:00.0/class", "0x020000"),
    ("sys/bus/pci/devices/0000:03:00.0/vendor", "0x8086"),
    ("sys/bus/pci/devices/0000:03:00.0/device", "0x10fb"),
    (
        "sys/bus/pci/devices/0000:03:00.0/driver",
        "->../../../bus/pci/drivers/ixgbe",
    ),
    ("sys/bus/pci/devices/0000:03:00.0/net/eth1/mtu", "1500"),
    (
        "sys/bus/pci/devices/0000:03:00.0/iommu_group/devices/0000:03:00.0/x",
        "",
    ),
    (
        "sys/bus/pci/devices/0000:03:00.0/iommu_group/devices/0000:00:1c.0/x",
        "",
    ),
    ("sys/bus/pci/devices/0000:00:1c.0/class", "0x060400"),
    (
        "sys/bus/pci/devices/0000:00:1c.0/driver",
        "->../../../bus/pci/drivers/pcieport",
    ),
];

fn on(parts: &[&[(&str, &str)]], options: &Options) -> Report {
    examine_sample(&parts.concat(), options)
}

#[test]
fn the_build_and_the_host_are_told_apart() {
    let version = [("tool/pkg-config_--modversion_libdpdk", "22.11.4\n")];
    let with = on(&[&version], &built());
    let f = find(&with, "paths", "dpdk");
    assert!(f.status == Status::Ok && f.finding.contains("DPDK 22.11.4"), "{f:?}");
    let without = on(&[&version], &Options::default());
    let f = find(&without, "paths", "dpdk");
    assert!(
        f.status == Status::Info && f.finding.contains("the host has libdpdk 22.11.4"),
        "{f:?}"
    );
    assert_eq!(f.command.as_deref(), Some("make build"));
    let bare = on(&[], &Options::default());
    let f = find(&bare, "paths", "dpdk");
    let command = f.command.as_deref().unwrap();
    assert!(
        command.contains("libdpdk-dev pkg-config") && command.contains("make build"),
        "{f:?}"
    );
}

#[test]
fn drivers_are_those_of_the_builds_own_version_and_missing_ones_are_named() {
    let f = find(&on(&[DRIVERS], &built()), "dpdk", "drivers").clone();
    assert!(f.status == Status::Warn && f.finding.contains("pmds-23.0"), "{f:?}");
    assert!(
        f.finding.contains("net_tap") && !f.finding.contains("net_memif"),
        "{f:?}"
    );
    let f = find(&on(&[], &built()), "dpdk", "drivers").clone();
    assert_eq!(f.command.as_deref(), Some("apt-get install -y librte-meta-net"));
    assert_eq!(
        find(&on(&[], &Options::default()), "dpdk", "drivers").status,
        Status::Info
    );
}

#[test]
fn what_virtual_devices_stand_on_is_looked_for() {
    let report = on(&[KERNEL], &built());
    let flow = find(&report, "dpdk", "net_tap flow");
    assert!(flow.finding.contains("lacks cls_flower: --flow is refused"), "{flow:?}");
    let vhost = find(&report, "dpdk", "net_virtio_user");
    assert_eq!(vhost.command.as_deref(), Some("modprobe vhost_net"));
    let xdp = find(&report, "dpdk", "net_af_xdp");
    assert_eq!(xdp.command.as_deref(), Some("mount -t bpf bpf /sys/fs/bpf"));
    assert!(find(&report, "dpdk", "memory").finding.starts_with("1 GiB"));
    assert_eq!(
        find(&report, "dpdk", "vfio").finding,
        "vfio-pci can be loaded, no IOMMU"
    );

    let whole = [
        ("proc/mounts", "bpf /sys/fs/bpf bpf rw 0 0\n"),
        ("proc/self/status", "CapEff:\t000001ffffffffff\n"),
        ("dev/net/tun", ""),
        ("dev/vhost-net", ""),
        ("sys/module/vfio_pci/x", ""),
        ("sys/kernel/iommu_groups/0/x", ""),
    ];
    let report = on(&[&whole], &built());
    for item in ["net_tap", "net_virtio_user", "net_af_xdp", "vfio"] {
        assert_eq!(find(&report, "dpdk", item).status, Status::Ok, "{item}");
    }
    let unknown = find(&report, "dpdk", "net_tap flow");
    assert!(
        unknown.command.as_deref().unwrap().contains("flower"),
        "says how to check: {unknown:?}"
    );
    let memory = find(&report, "dpdk", "memory");
    assert_eq!(memory.command.as_deref(), Some("sysctl -w vm.nr_hugepages=512"));
    // Number of pages that makes 1 GiB: arm64 with pages of 64 KiB has large ones of 512 MiB.
    let large = [("proc/meminfo", "Hugepagesize:     524288 kB\n")];
    let memory = find(&on(&[&large], &built()), "dpdk", "memory").clone();
    assert_eq!(memory.command.as_deref(), Some("sysctl -w vm.nr_hugepages=2"));
    let few = [("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "63\n")];
    let memory = find(&on(&[&few], &built()), "dpdk", "memory").clone();
    assert!(
        memory.status == Status::Info && memory.finding.starts_with("126 MiB"),
        "{memory:?}"
    );
}

#[test]
fn a_module_that_the_image_does_not_have_can_not_be_loaded() {
    let trimmed = [(
        "lib/modules/6.1.0-18-amd64/modules.dep",
        "kernel/net/sched/sch_ingress.ko:\n",
    )];
    let f = find(&on(&[KERNEL, &trimmed], &built()), "dpdk", "vfio").clone();
    assert!(f.finding.contains("no vfio-pci"), "{f:?}");
}

#[test]
fn a_nic_of_the_kernels_gets_the_command_that_hands_it_over_and_a_warning() {
    let f = find(&on(&[KERNEL, DRIVERS, IXGBE], &built()), "nic eth1", "dpdk").clone();
    assert!(
        f.finding.contains("net_ixgbe drives it") && f.finding.contains("eth1 vanishes"),
        "{f:?}"
    );
    assert!(
        !f.finding.contains("DEFAULT ROUTE") && !f.finding.contains("IOMMU group"),
        "{f:?}"
    );
    let dir = "/sys/bus/pci/devices/0000:03:00.0";
    let by_hand = format!(
        "modprobe vfio-pci && echo vfio-pci > {dir}/driver_override && echo 0000:03:00.0 > {dir}/driver/unbind && echo \
         0000:03:00.0 > /sys/bus/pci/drivers_probe"
    );
    assert_eq!(f.command.as_deref(), Some(by_hand.as_str()));

    let devbind = [("tool/dpdk-devbind.py", "")];
    let f = find(&on(&[KERNEL, IXGBE, &devbind], &built()), "nic eth1", "dpdk").clone();
    let command = "modprobe vfio-pci && ip link set dev eth1 down && dpdk-devbind.py -b vfio-pci 0000:03:00.0";
    assert_eq!(f.command.as_deref(), Some(command));

    let more = [
        ("tool/driverctl", ""),
        ("sys/bus/pci/drivers/vfio-pci/x", ""),
        (
            "proc/net/route",
            "Iface Destination\neth1\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n",
        ),
        (
            "sys/bus/pci/devices/0000:03:00.0/iommu_group/devices/0000:03:00.1/x",
            "",
        ),
        (
            "sys/bus/pci/devices/0000:03:00.1/driver",
            "->../../../bus/pci/drivers/ixgbe",
        ),
    ];
    let f = find(&on(&[KERNEL, IXGBE, &more], &built()), "nic eth1", "dpdk").clone();
    assert_eq!(
        f.command.as_deref(),
        Some("driverctl set-override 0000:03:00.0 vfio-pci")
    );
    assert!(f.finding.contains("THE DEFAULT ROUTE LEAVES BY eth1"), "{f:?}");
    assert!(f.finding.contains("group 0000:03:00.1 must be handed over"), "{f:?}");
}

#[test]
fn without_an_iommu_vfio_is_told_to_do_without_and_huge_pages_are_made() {
    let virtio = [
        ("proc/sys/kernel/osrelease", "6.1.0-18-amd64"),
        KERNEL[1],
        ("tool/driverctl", ""),
        ("sys/class/net/eth0/mtu", "1500"),
        ("sys/bus/pci/devices/0000:00:03.0/class", "0x020000"),
        (
            "sys/bus/pci/devices/0000:00:03.0/driver",
            "->../../../bus/pci/drivers/virtio-pci",
        ),
        ("sys/bus/pci/devices/0000:00:03.0/virtio2/net/eth0/mtu", "1500"),
    ];
    let f = find(&on(&[&virtio], &built()), "nic eth0", "dpdk").clone();
    let command = "modprobe vfio enable_unsafe_noiommu_mode=1 && sysctl -w vm.nr_hugepages=512 && modprobe vfio-pci && \
                   driverctl set-override 0000:00:03.0 vfio-pci";
    assert_eq!(f.command.as_deref(), Some(command));
    // The same, asked for by its address.
    let by_address = Options {
        interfaces: vec!["0000:00:03.0".into()],
        ..built()
    };
    let report = on(&[&virtio], &by_address);
    let f = find(&report, "pci 0000:00:03.0", "dpdk");
    assert_eq!(f.command.as_deref(), Some(command));
    assert_eq!(report.absent(), None);

    let loaded = [("sys/module/vfio/srcversion", "7")];
    let f = find(&on(&[&virtio, &loaded], &built()), "nic eth0", "dpdk").clone();
    assert!(
        f.command.is_none() && f.finding.contains("can't be handed over"),
        "VFIO without that parameter: {f:?}"
    );

    let neither = [
        ("proc/sys/kernel/osrelease", "7"),
        ("boot/config-7", "# CONFIG_VFIO is not set\n"),
    ];
    let f = find(&on(&[&virtio[3..], &neither], &built()), "nic eth0", "dpdk").clone();
    assert!(
        f.command.is_none() && f.finding.contains("net_af_packet0,iface=eth0"),
        "{f:?}"
    );
}

#[test]
fn devices_that_user_space_has_are_found_though_they_have_no_interface() {
    let bound = [
        ("sys/bus/pci/devices/0000:04:00.0/class", "0x020000"),
        ("sys/bus/pci/devices/0000:04:00.0/vendor", "0x8086"),
        ("sys/bus/pci/devices/0000:04:00.0/device", "0x1572"),
        (
            "sys/bus/pci/devices/0000:04:00.0/driver",
            "->../../../bus/pci/drivers/vfio-pci",
        ),
        ("sys/bus/pci/devices/0000:05:00.0/class", "0x010802"),
    ];
    let report = on(&[&bound], &built());
    let f = find(&report, "pci 0000:04:00.0", "dpdk");
    assert_eq!(f.status, Status::Warn, "no IOMMU, and VFIO not told: {f:?}");
    assert_eq!(f.command.as_deref(), Some("modprobe vfio enable_unsafe_noiommu_mode=1"));
    assert!(
        !report.findings.iter().any(|f| f.area.contains("05:00.0")),
        "a disk is no NIC"
    );

    let told = [("sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "Y\n")];
    let f = find(&on(&[&bound, &told], &built()), "pci 0000:04:00.0", "dpdk").clone();
    assert_eq!(f.command.as_deref(), Some("sysctl -w vm.nr_hugepages=512"), "{f:?}");
    let by_name = Options {
        interfaces: vec!["0000:04:00.0".into()],
        ..built()
    };
    let report = on(&[&bound, &told, KERNEL], &by_name);
    let f = find(&report, "pci 0000:04:00.0", "dpdk");
    assert!(
        f.status == Status::Ok && f.finding.contains("dpdk:0000:04:00.0") && f.finding.contains("8086:1572"),
        "{f:?}"
    );
    assert!(
        !report.findings.iter().any(|f| f.area.starts_with("nic ")),
        "{report:?}"
    );
    // A group that VFIO made up is no IOMMU.
    let made_up = [("sys/bus/pci/devices/0000:04:00.0/iommu_group/name", "vfio-noiommu\n")];
    let f = find(&on(&[&bound, &made_up], &built()), "pci 0000:04:00.0", "dpdk").clone();
    assert_eq!(f.status, Status::Warn, "{f:?}");
}

#[test]
fn a_bifurcated_nic_stays_with_the_kernel_and_needs_verbs() {
    let mlx5 = [
        ("sys/class/net/eth2/mtu", "1500"),
        ("sys/bus/pci/devices/0001:00:02.0/class", "0x020000"),
        (
            "sys/bus/pci/devices/0001:00:02.0/driver",
            "->../../../bus/pci/drivers/mlx5_core",
        ),
        ("sys/bus/pci/devices/0001:00:02.0/net/eth2/mtu", "1500"),
    ];
    let f = find(&on(&[DRIVERS, &mlx5], &built()), "nic eth2", "dpdk").clone();
    assert_eq!(f.command.as_deref(), Some("modprobe -a mlx5_ib ib_uverbs"), "{f:?}");
    let verbs = [
        ("sys/bus/pci/devices/0001:00:02.0/infiniband/mlx5_0/x", ""),
        ("dev/infiniband/uverbs0", ""),
    ];
    let f = find(&on(&[DRIVERS, &mlx5, &verbs], &built()), "nic eth2", "dpdk").clone();
    assert!(
        f.status == Status::Ok && f.finding.contains("dpdk:0001:00:02.0") && f.command.is_none(),
        "{f:?}"
    );
    let other = [("usr/lib64/dpdk/pmds-23.0/librte_net_null.so.23.0", "")];
    let f = find(&on(&[&other, &mlx5, &verbs], &built()), "nic eth2", "dpdk").clone();
    assert!(f.finding.contains("net_mlx5 is not installed"), "{f:?}");
}

#[test]
fn a_vmbus_device_is_named_by_its_mac_address() {
    const UUID: &str = "000d3a6e-5f1c-000d-3a6e-5f1c000d3a6e";
    let dir = format!("sys/bus/vmbus/devices/{UUID}");
    let (class, driver, net) = (
        format!("{dir}/class_id"),
        format!("{dir}/driver"),
        format!("{dir}/net/eth0/mtu"),
    );
    let files = |bound: &'static str, interface: bool| {
        let mut files = vec![
            (class.as_str(), "{f8615163-df3e-46c5-913f-f2d2f965ed0e}\n"),
            (driver.as_str(), bound),
            ("tool/driverctl", ""),
        ];
        if interface {
            files.extend([
                (net.as_str(), ""),
                ("sys/class/net/eth0/address", "00:0d:3a:6e:5f:1c\n"),
            ]);
        }
        [files.as_slice(), KERNEL].concat()
    };
    let f = find(
        &on(&[&files("->../../drivers/hv_netvsc", true)], &built()),
        "nic eth0",
        "dpdk",
    )
    .clone();
    assert!(f.finding.starts_with("dpdk:mac=00:0d:3a:6e:5f:1c once"), "{f:?}");
    let command = format!("modprobe uio_hv_generic && driverctl -b vmbus set-override {UUID} uio_hv_generic");
    assert_eq!(f.command, Some(command));
    let report = on(&[&files("->../../drivers/uio_hv_generic", false)], &built());
    let f = find(&report, &format!("vmbus {UUID}"), "dpdk");
    assert!(f.status == Status::Ok && f.finding.contains("dpdk:mac=MAC"), "{f:?}");
}

#[test]
fn an_interface_without_a_device_is_used_over_the_kernel() {
    let veth = [("sys/class/net/veth0/mtu", "1500")];
    let f = find(&on(&[&veth], &built()), "nic veth0", "dpdk").clone();
    assert!(f.finding.contains("dpdk:net_af_packet0,iface=veth0"), "{f:?}");
}
