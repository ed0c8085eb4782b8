//! The doctor on sample machines, and once on the live one.

use std::fs;
use std::path::Path;

use super::*;

/// Writes sample files; a content that begins with `->` makes a symbolic link.
pub(super) fn sample(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match content.strip_prefix("->") {
            Some(target) => std::os::unix::fs::symlink(target, &path).unwrap(),
            None => fs::write(&path, content).unwrap(),
        }
    }
    dir
}

pub(super) fn examine_sample(files: &[(&str, &str)], options: &Options) -> Report {
    examine_machine(&Machine::sample(sample(files).path()), options)
}

#[track_caller]
pub(super) fn find<'a>(report: &'a Report, area: &str, item: &str) -> &'a Finding {
    let found = report.findings.iter().find(|f| f.area == area && f.item == item);
    found.unwrap_or_else(|| panic!("no {area}/{item} in {report:#?}"))
}

const SERVER: &[(&str, &str)] = &[
    ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
    (
        "proc/self/status",
        "CapEff:\t000001ffffffffff\nCpus_allowed_list:\t0-3\n",
    ),
    ("proc/self/cgroup", "0::/user.slice/x\n"),
    (
        "proc/self/mountinfo",
        "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    ),
    ("sys/fs/cgroup/user.slice/cpu.max", "150000 100000"),
    ("sys/fs/cgroup/user.slice/x/cpu.max", "max 100000"),
    (
        "proc/self/limits",
        "Max open files            1024                 4096                 files\n",
    ),
    (
        "proc/cpuinfo",
        "model name\t: Fast CPU\nflags\t\t: fpu constant_tsc nonstop_tsc\n",
    ),
    ("proc/stat", "cpu  90 0 0 800 0 0 0 110 0 0\n"),
    ("proc/77/comm", "irqbalance\n"),
    ("sys/devices/system/cpu/online", "0-7\n"),
    ("cores/possible", "0-7\n"),
    ("sys/devices/system/cpu/isolated", "2-3\n"),
    ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,4\n"),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "2\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "0\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state3/latency", "133\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state3/disable", "0\n"),
    ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
    (
        "sys/devices/system/clocksource/clocksource0/current_clocksource",
        "hpet\n",
    ),
    (
        "sys/devices/system/clocksource/clocksource0/available_clocksource",
        "tsc hpet acpi_pm\n",
    ),
    ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
    ("proc/sys/net/core/rmem_max", "212992\n"),
    ("proc/sys/net/core/wmem_max", "67108864\n"),
    ("probe/AfXdp", "Address family not supported by protocol (os error 97)"),
    ("probe/IoUring", "Operation not permitted (os error 1)"),
    ("proc/sys/kernel/io_uring_disabled", "2\n"),
    ("sys/class/net/lo/mtu", "65536\n"),
    ("sys/class/net/eth0/device/driver", "->../../bus/pci/drivers/ixgbe"),
    ("sys/class/net/eth0/flags", "0x1003\n"),
    ("sys/class/net/eth0/carrier", "1\n"),
    ("sys/class/net/eth0/operstate", "up\n"),
    ("sys/class/net/eth0/mtu", "1500\n"),
    ("sys/class/net/eth0/speed", "10000\n"),
    ("sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000,0000000f\n"),
    ("sys/class/net/eth0/queues/tx-0/xps_cpus", "0\n"),
    ("sys/class/net/eth0/device/msi_irqs/40", "msix\n"),
    ("sys/class/net/eth0/device/msi_irqs/41", "msix\n"),
    ("sys/class/net/eth0/device/msi_irqs/42", "msix\n"),
    (
        "proc/interrupts",
        " 40: 1 PCI eth0-TxRx-0\n 41: 1 PCI eth0-TxRx-1\n 42: 1 PCI eth0-TxRx-2\n 43: 1 PCI other\n",
    ),
    ("proc/irq/40/smp_affinity_list", "0\n"),
    ("proc/irq/41/smp_affinity_list", "0\n"),
    ("proc/irq/42/effective_affinity_list", "0\n"),
    (
        "tool/ethtool_-l_eth0",
        "Pre-set maximums:\nCombined:\t63\nCurrent hardware settings:\nCombined:\t1\n",
    ),
    (
        "tool/ethtool_-g_eth0",
        "Pre-set maximums:\nRX:\t4096\nTX:\t4096\nCurrent hardware settings:\nRX:\t512\nTX:\t4096\n",
    ),
    (
        "tool/ethtool_-k_eth0",
        "rx-checksumming: on\nlarge-receive-offload: on\n",
    ),
    (
        "tool/ip_-details_-json_address_show_dev_eth0",
        r#"[{"ifname":"eth0","qdisc":"fq_codel","xdp":{"mode":1,"prog":{"id":33}},
            "addr_info":[{"local":"192.0.2.1","prefixlen":24}]}]"#,
    ),
    ("tool/pkg-config_--modversion_libdpdk", "22.11.4\n"),
];

#[test]
fn a_server_of_arm64_has_a_name_a_tick_and_a_maker() {
    let files = |product: &'static str| {
        [
            (
                "proc/cpuinfo",
                "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n",
            ),
            ("sys/devices/system/cpu/online", "0-63\n"),
            ("sys/class/dmi/id/sys_vendor", "Amazon EC2\n"),
            ("sys/class/dmi/id/product_name", product),
            (
                "sys/devices/system/clocksource/clocksource0/current_clocksource",
                "arch_sys_counter\n",
            ),
            ("cntfrq", "121875000\n"),
        ]
    };
    let report = examine_sample(&files("c6g.16xlarge\n"), &Options::default());
    assert_eq!(
        find(&report, "cores", "online").finding,
        "64 cores (Graviton2 (Neoverse-N1))"
    );
    assert_eq!(find(&report, "clock", "source").status, Status::Ok);
    assert_eq!(find(&report, "clock", "tick").finding, "8.2 ns (121.875 MHz)");
    assert_eq!(
        find(&report, "hypervisor", "virtual").finding,
        "yes: Amazon EC2, c6g.16xlarge"
    );
    assert!(!report.findings.iter().any(|f| f.item == "TSC"), "{report:#?}");
    let report = examine_sample(&files("c6g.metal\n"), &Options::default());
    assert_eq!(find(&report, "hypervisor", "virtual").finding, "no hypervisor visible");
}

#[test]
fn a_server_out_of_the_box_gets_the_command_for_each_thing_that_costs_it() {
    let report = examine_sample(SERVER, &Options::default());
    let commands = [
        ("cores", "cgroup quota", "echo max > /sys/fs/cgroup/user.slice/cpu.max"),
        ("frequency", "governor", "cpupower frequency-set -g performance"),
        (
            "frequency",
            "turbo",
            "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo",
        ),
        ("frequency", "idle states", "cpupower idle-set -D 10"),
        (
            "clock",
            "source",
            "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource",
        ),
        (
            "hugepages",
            "2 MiB",
            "echo 512 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
        ),
        (
            "memory",
            "transparent",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        ),
        ("memory", "nofile", "ulimit -n 65536"),
        ("network stack", "rmem_max", "sysctl -w net.core.rmem_max=67108864"),
        ("network stack", "irqbalance", "systemctl stop irqbalance"),
        ("nic eth0", "queues", "ethtool -L eth0 combined 8"),
        ("nic eth0", "rings", "ethtool -G eth0 rx 4096"),
        ("nic eth0", "LRO", "ethtool -K eth0 lro off"),
        ("nic eth0", "qdisc", "tc qdisc replace dev eth0 root pfifo limit 10000"),
        (
            "nic eth0",
            "interrupts",
            "i=0; for q in 40 41 42; do echo $((i++ % 8)) > /proc/irq/$q/smp_affinity_list; done",
        ),
        ("nic eth0", "XDP", "ip link set dev eth0 xdp off"),
    ];
    for (area, item, command) in commands {
        assert_eq!(
            find(&report, area, item).command.as_deref(),
            Some(command),
            "{area}/{item}"
        );
    }
    let findings = [
        ("cores", "cgroup quota", "limited to 1.50 cores' time"),
        ("cores", "affinity", "this process may use 4 of 8 cores"),
        ("cores", "isolated", "cores 2-3: pin lanes there with --cores"),
        ("hypervisor", "virtual", "no hypervisor visible"),
        ("hypervisor", "steal", "11.00 % of the time since boot"),
        ("nic eth0", "driver", "ixgbe: native XDP, zero-copy AF_XDP"),
        ("nic eth0", "speed", "10000 Mbit/s"),
        ("nic eth0", "interrupts", "all 3 on core 0 of eth0"),
        ("nic eth0", "RPS, XPS", "RPS on (rx-0), XPS off"),
        ("nic eth0", "addresses", "192.0.2.1/24"),
    ];
    for (area, item, finding) in findings {
        assert_eq!(find(&report, area, item).finding, finding, "{area}/{item}");
    }
    assert!(
        !report.findings.iter().any(|f| f.area == "nic lo"),
        "loopback is not asked for"
    );
}

#[test]
fn a_quota_of_version_1_is_found_wherever_it_is_mounted() {
    let files = [
        ("sys/devices/system/cpu/online", "0-3"),
        ("proc/self/cgroup", "5:cpuacct,cpu:/jobs/x\n0::/\n"),
        (
            "proc/self/mountinfo",
            "31 20 0:27 /jobs /groups/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n",
        ),
        ("groups/cpu,cpuacct/cpu.cfs_quota_us", "50000\n"),
        ("groups/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ("groups/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n"),
        ("groups/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n"),
    ];
    let report = examine_sample(&files, &Options::default());
    let found = find(&report, "cores", "cgroup quota");
    assert_eq!(found.finding, "limited to 0.50 cores' time");
    assert_eq!(
        found.command.as_deref(),
        Some("echo -1 > /groups/cpu,cpuacct/cpu.cfs_quota_us")
    );
    let report = examine_sample(&files[..2], &Options::default());
    assert!(
        find(&report, "cores", "cgroup quota")
            .finding
            .contains("could not be read")
    );
}

#[test]
fn a_host_with_less_than_a_core_to_spare_is_told_before_the_run_is() {
    let on = |online: &'static str, load: &'static str| {
        let files = [("sys/devices/system/cpu/online", online), ("proc/loadavg", load)];
        let report = examine_sample(&files, &Options::default());
        let found = find(&report, "cores", "load").clone();
        (found.status, found.command.is_some(), found.finding)
    };
    let (calm, busy) = (on("0-1", "0.98 2.0 2.0 1/99 7\n"), on("0-1", "1.02 0.1 0.1 1/99 7\n"));
    assert_eq!((calm.0, calm.1), (Status::Ok, false), "{}", calm.2);
    assert_eq!((busy.0, busy.1), (Status::Warn, true), "{}", busy.2);
    assert!(busy.2.starts_with("1.02 threads") && busy.2.ends_with("less than a core is free"));
    assert_eq!(on("0-15", "14.9 0 0 1/99 7").0, Status::Ok);
    // One core has none to spare in any case: that is said elsewhere.
    assert_eq!(on("0", "0.9 0 0 1/99 7").0, Status::Ok);
}

#[test]
fn a_path_is_called_working_only_when_this_version_has_it() {
    let report = examine_sample(SERVER, &Options::default());
    assert_eq!(find(&report, "paths", "udp").status, Status::Ok);
    assert_eq!(find(&report, "paths", "af_packet").status, Status::Ok);
    assert!(find(&report, "paths", "af_xdp").finding.contains("the host can't yet"));
    assert!(find(&report, "paths", "xdp").finding.contains("no TCX (Linux 6.6)"));
    let io_uring = find(&report, "paths", "io_uring");
    assert_eq!(
        io_uring.command.as_deref(),
        Some("sysctl -w kernel.io_uring_disabled=0")
    );

    let built = Options {
        built_paths: vec!["io_uring".into()],
        ..Options::default()
    };
    let report = examine_sample(SERVER, &built);
    assert_eq!(find(&report, "paths", "io_uring").status, Status::Fail);
    assert_eq!(report.worst(), Status::Fail);
}

#[test]
fn the_features_of_io_uring_are_told_in_one_line_and_those_that_lack_by_name() {
    let built = Options {
        built_paths: vec!["io_uring".into()],
        ..Options::default()
    };
    let with = |lacks| {
        find(
            &examine_sample(&[("io_uring/lacks", lacks)], &built),
            "paths",
            "io_uring",
        )
        .clone()
    };
    let whole = with("");
    assert_eq!(whole.status, Status::Ok);
    assert!(
        whole.finding.contains("multishot receive") && !whole.finding.contains("without"),
        "{}",
        whole.finding
    );
    let old = with("multishot_receive defer_taskrun send_zc");
    assert_eq!(old.status, Status::Ok);
    for lack in [
        "multishot receive (Linux 6.0)",
        "deferred task work (Linux 6.1)",
        "zero-copy sends (Linux 6.1)",
    ] {
        let (has, lacks) = old.finding.split_once("; without ").expect("something lacks");
        assert!(lacks.contains(lack) && !has.contains(lack), "{}", old.finding);
    }
    let older = with("buffer_rings");
    assert_eq!(older.status, Status::Fail);
    assert!(
        older.finding.contains("provided buffer rings (Linux 5.19)"),
        "{}",
        older.finding
    );
    assert!(!whole.finding.contains('\n') && !older.finding.contains('\n'));
}

#[test]
fn the_xdp_path_names_the_kernel_that_live_frames_need_and_what_else_is_missing() {
    let built = Options {
        built_paths: vec!["xdp".into(), "af_xdp".into()],
        ..Options::default()
    };
    let on = |release, more: &[(&'static str, &'static str)]| {
        let mut files = vec![("proc/sys/kernel/osrelease", release)];
        files.extend(more);
        find(&examine_sample(&files, &built), "paths", "xdp").clone()
    };
    const ROOT: (&str, &str) = ("proc/self/status", "CapEff:\t000001ffffffffff\n");
    let whole = [
        ROOT,
        ("sys/kernel/btf/vmlinux", ""),
        ("proc/sys/net/core/bpf_jit_enable", "1"),
        (
            "proc/kallsyms",
            "0 T __traceiter_napi_poll\n0 T __traceiter_xdp_devmap_xmit\n0 T __traceiter_xdp_redirect_err\n",
        ),
    ];
    let f = on("6.18.0", &whole);
    assert_eq!(f.status, Status::Ok);
    for part in [
        "live frames for sendrecv and send, BTF, tracepoints, TCX, JIT on",
        "not offloaded",
    ] {
        assert!(f.finding.contains(part), "{}", f.finding);
    }
    let f = on("5.18.0", &[ROOT, ("proc/kallsyms", "0 T __traceiter_napi_poll\n")]);
    assert_eq!(f.status, Status::Ok);
    for part in ["no BTF", "no tracepoint xdp:xdp_devmap_xmit, xdp:xdp_redirect_err"] {
        assert!(f.finding.contains(part), "{}", f.finding);
    }
    let f = on("5.18.0", &[ROOT, ("hidden/sys", "")]);
    assert!(
        f.finding.contains("BTF unknown (/sys/kernel is hidden)"),
        "{}",
        f.finding
    );
    let f = on("5.15.0", &[ROOT]);
    assert!(
        f.status == Status::Fail && f.finding.contains("Linux 5.18"),
        "{}",
        f.finding
    );
    // CAP_NET_ADMIN and CAP_BPF alone.
    let f = on("6.18.0", &[("proc/self/status", "CapEff:\t0000008000001000\n")]);
    assert!(
        f.status == Status::Fail && f.finding.contains("CAP_PERFMON"),
        "{}",
        f.finding
    );
    assert!(f.command.as_deref().unwrap().contains("cap_perfmon"));
}

#[test]
fn all_that_zero_copy_wants_of_a_virtio_device_is_named_at_once() {
    for (access_platform, ring_reset, wanted) in [
        ('1', '1', "zero-copy AF_XDP"),
        (
            '0',
            '1',
            "VIRTIO_F_ACCESS_PLATFORM, in QEMU iommu_platform=on,disable-legacy=on)",
        ),
        ('1', '0', "VIRTIO_F_RING_RESET, in QEMU queue_reset=on)"),
        (
            '0',
            '0',
            "VIRTIO_F_ACCESS_PLATFORM and VIRTIO_F_RING_RESET, in QEMU \
             iommu_platform=on,disable-legacy=on,queue_reset=on)",
        ),
    ] {
        let bit = |at| match at {
            33 => access_platform,
            40 => ring_reset,
            _ => '0',
        };
        let features: String = (0..64).map(bit).collect();
        let report = examine_sample(
            &[
                ("sys/class/net/eth0/mtu", "1500\n"),
                ("sys/class/net/eth0/device/features", &features),
                ("tool/ethtool_-i_eth0", "driver: virtio_net\n"),
                // Basic, redirect, transmit, zero-copy.
                ("xdp-features/eth0", "15"),
            ],
            &Options::default(),
        );
        let finding = &find(&report, "nic eth0", "driver").finding;
        assert!(finding.ends_with(wanted), "{finding}");
    }
}

#[test]
fn a_veth_that_frames_of_programs_would_not_reach_gets_the_command_that_helps() {
    let report = examine_sample(
        &[
            ("sys/class/net/eth1/mtu", "1500\n"),
            ("tool/ethtool_-i_eth1", "driver: veth\n"),
            ("tool/ethtool_-k_eth1", "generic-receive-offload: off\n"),
            // Basic and redirect, and the device itself.
            ("xdp-features/eth1", "19"),
            ("proc/sys/net/core/bpf_jit_enable", "0"),
        ],
        &Options::default(),
    );
    assert_eq!(
        find(&report, "nic eth1", "driver").finding,
        "veth: native XDP, AF_XDP by copy"
    );
    let f = find(&report, "nic eth1", "XDP receive");
    assert_eq!(f.command.as_deref(), Some("ethtool -K eth1 gro on"));
    assert!(
        find(&report, "nic eth1", "XDP transmit")
            .finding
            .contains("do not arrive")
    );
    assert!(
        find(&report, "nic eth1", "XDP offload")
            .finding
            .contains("does not use it")
    );
    let f = find(&report, "network stack", "bpf_jit_enable");
    assert_eq!(f.command.as_deref(), Some("sysctl -w net.core.bpf_jit_enable=1"));
}

#[test]
fn without_privilege_the_path_says_what_is_missing() {
    let report = examine_sample(&[("probe/AfPacket", "Operation not permitted")], &Options::default());
    let f = find(&report, "paths", "af_packet");
    assert_eq!(f.status, Status::Fail);
    assert!(f.finding.contains("CAP_NET_RAW") && f.command.as_deref().unwrap().contains("setcap"));
}

#[test]
fn where_the_bounding_set_lacks_capabilities_setcap_is_not_advised() {
    let denied = ("probe/AfPacket", "Operation not permitted");
    let bounded = (
        "proc/self/status",
        "CapEff:\t0000000000000000\nCapBnd:\t00000000a80425fb\n",
    );
    let f = |files: &[(&str, &str)]| find(&examine_sample(files, &Options::default()), "paths", "af_packet").clone();
    let container = f(&[denied, bounded, (".dockerenv", "")]);
    let command = container.command.as_deref().expect("a command");
    for option in ["NET_RAW", "NET_ADMIN", "BPF", "PERFMON", "IPC_LOCK"] {
        assert!(command.contains(&format!("--cap-add {option}")), "{command}");
    }
    assert!(
        !command.contains("setcap") && container.finding.contains("CAP_NET_ADMIN"),
        "{container:?}"
    );
    let session = f(&[denied, bounded]);
    assert!(
        session.command.is_none() && session.finding.contains("bounding set"),
        "{session:?}"
    );
}

#[test]
fn the_boot_loader_that_is_there_is_the_one_advised_and_none_in_a_container() {
    let cores = ("sys/devices/system/cpu/online", "0-3\n");
    let f = |files: &[(&str, &str)]| find(&examine_sample(files, &Options::default()), "cores", "isolated").clone();
    let grub = ("etc/default/grub", "GRUB_CMDLINE_LINUX=\"\"\n");
    let debian = f(&[cores, grub, ("tool/update-grub", "")]);
    let command = debian.command.expect("a command");
    assert!(
        command.contains("isolcpus=1-3") && command.contains("&& update-grub && reboot"),
        "{command}"
    );
    let fedora = f(&[cores, grub, ("tool/grubby", "")]);
    assert!(fedora.command.expect("a command").starts_with("grubby "));
    let other = f(&[cores]);
    assert!(
        other.command.is_none() && other.finding.contains("isolcpus=1-3"),
        "{other:?}"
    );
    let container = f(&[cores, grub, ("tool/update-grub", ""), (".dockerenv", "")]);
    assert!(
        container.command.is_none() && container.finding.contains("host"),
        "{container:?}"
    );
}

#[test]
fn a_machine_started_with_isolated_cores_and_two_nodes_is_described_as_it_is() {
    let files = [
        (
            "proc/cmdline",
            "quiet mitigations=off skew_tick=1 isolcpus=managed_irq,domain,2-3\n",
        ),
        (
            "proc/self/status",
            "CapEff:\t000001ffffffffff\nCpus_allowed_list:\t0-1\n",
        ),
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("cores/possible", "0-3\n"),
        ("sys/devices/system/cpu/isolated", "2-3\n"),
        ("sys/devices/system/node/online", "0-1\n"),
        ("sys/devices/system/node/node0/cpulist", "0-1\n"),
        ("sys/devices/system/node/node1/cpulist", "2-3\n"),
        ("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "2\n"),
        ("sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "1\n"),
        (
            "sys/devices/system/node/node0/hugepages/hugepages-1048576kB/free_hugepages",
            "0\n",
        ),
        (
            "sys/devices/system/node/node1/hugepages/hugepages-1048576kB/free_hugepages",
            "1\n",
        ),
    ];
    let report = examine_sample(&files, &Options::default());
    let said = |area: &str, item: &str| find(&report, area, item).finding.clone();
    assert_eq!(find(&report, "cores", "affinity").status, Status::Ok);
    assert_eq!(
        said("cores", "affinity"),
        "cores 0-1 without --cores; with it the isolated ones too"
    );
    assert_eq!(said("cores", "isolated"), "cores 2-3: pin lanes there with --cores");
    assert_eq!(said("hypervisor", "mitigations"), "none active (mitigations=off)");
    assert_eq!(
        said("hugepages", "1 GiB"),
        "2 reserved, 1 free: 0 on node 0, 1 on node 1"
    );
    assert_eq!(
        said("memory", "NUMA"),
        "2 nodes (0: cores 0-1; 1: cores 2-3): pin lanes to the NIC's node"
    );
    assert!(
        said("isolation", "boot").contains("isolcpus=managed_irq,domain,2-3; "),
        "{report:?}"
    );
    assert!(said("isolation", "boot").ends_with("; skew_tick=1"), "{report:?}");
    let command = find(&report, "isolation", "command").command.clone();
    assert_eq!(command.as_deref(), Some("mpps isolate 2-3 -- COMMAND"));
}

#[test]
fn a_machine_of_which_nothing_can_be_read_still_gets_a_report() {
    let report = examine_sample(
        &[],
        &Options {
            interfaces: vec!["eth9".into()],
            ..Options::default()
        },
    );
    assert!(
        find(&report, "nic eth9", "interface")
            .finding
            .contains("there is no eth9 here")
    );
    assert!(report.findings.len() > 20);
    let empty = examine_sample(&[], &Options::default());
    assert_eq!(
        find(&empty, "nic", "interfaces").command.as_deref(),
        Some("mpps lab up")
    );
}

#[test]
fn the_live_machine_is_examined_without_changing_it() {
    // What a doctor that meddles would most likely touch.
    let watched = [
        "/proc/sys/net/core/rmem_max",
        "/proc/sys/vm/nr_hugepages",
        "/proc/self/limits",
    ];
    let look = || watched.map(|f| fs::read_to_string(Path::new(f)).unwrap_or_default());
    let before = look();
    let report = examine(&Options::default());
    assert_eq!(look(), before);
    assert_ne!(
        find(&report, "paths", "udp").status,
        Status::Info,
        "udp is in every version"
    );
    let mut text = Vec::new();
    report.render(&mut text, false, None).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.lines().last().unwrap().contains(" findings: "), "{text}");
}

#[test]
fn what_a_run_keeps_is_said_of_each_path_that_there_is_and_of_old_kernels() {
    let options = Options {
        built_paths: ["udp", "af_xdp", "xdp"].map(str::to_owned).to_vec(),
        ..Options::default()
    };
    let report = examine_sample(SERVER, &options);
    assert!(find(&report, "privileges", "udp").finding.contains("nothing stays"));
    assert!(find(&report, "privileges", "af_xdp").finding.contains("nothing stays"));
    assert!(find(&report, "privileges", "--flow").finding.contains("CAP_NET_ADMIN"));
    let there = |item: &str| report.findings.iter().any(|f| f.area == "privileges" && f.item == item);
    assert!(!there("dpdk") && !there("program"));
    let mut old = SERVER.to_vec();
    old.push(("probe/BpfUnprivileged", "Operation not permitted"));
    old.push(("probe/Lent", "the program's file has capabilities"));
    let report = examine_sample(&old, &options);
    for path in ["af_xdp", "xdp"] {
        assert!(
            find(&report, "privileges", path).finding.contains("CAP_BPF stays"),
            "{path}"
        );
    }
    assert!(find(&report, "privileges", "program").finding.contains("dpdk"));
}
