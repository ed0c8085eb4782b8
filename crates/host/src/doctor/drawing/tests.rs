//! Hosts made of files, drawn.

use super::super::tests::sample;
use super::sheet::escaped;
use super::*;

/// Two nodes of 16 cores with two threads each; node 1 is isolated. A NIC at each node, the first with 16
/// interrupts on cores 0 to 15; a third handed to DPDK; a veth and a bridge.
fn server(name_of_veth: &str) -> tempfile::TempDir {
    let mut files = vec![
        ("proc/cpuinfo".to_owned(), "model name\t: Fast & Wide <CPU>".to_owned()),
        ("proc/sys/kernel/osrelease".to_owned(), "6.12.1".to_owned()),
        (format!("{CPU}/online"), "0-63".to_owned()),
        (format!("{CPU}/isolated"), "16-31,48-63".to_owned()),
    ];
    let mut file = |path: String, text: &str| files.push((path, text.to_owned()));
    for node in 0..2 {
        let (first, second) = (node * 16, node * 16 + 32);
        let cores = format!("{first}-{},{second}-{}", first + 15, second + 15);
        file(format!("{NODES}/node{node}/cpulist"), &cores);
        file(
            format!("{NODES}/node{node}/meminfo"),
            &format!("Node {node} MemTotal:  134217728 kB"),
        );
        for core in (first..first + 16).chain(second..second + 16) {
            let dir = format!("{CPU}/cpu{core}");
            file(
                format!("{dir}/topology/thread_siblings_list"),
                &format!("{},{}", core % 32, core % 32 + 32),
            );
            for (index, level, kind, size, shared) in [
                (0, 1, "Data", "48K", format!("{},{}", core % 32, core % 32 + 32)),
                (2, 2, "Unified", "2048K", format!("{},{}", core % 32, core % 32 + 32)),
                (3, 3, "Unified", "61440K", cores.clone()),
            ] {
                let dir = format!("{dir}/cache/index{index}");
                file(format!("{dir}/level"), &level.to_string());
                file(format!("{dir}/type"), kind);
                file(format!("{dir}/size"), size);
                file(format!("{dir}/shared_cpu_list"), &shared);
            }
        }
    }
    let mut interrupts = String::new();
    for (nic, name) in ["eth0", "eth1"].into_iter().enumerate() {
        let dir = format!("sys/class/net/{name}");
        file(format!("{dir}/device/numa_node"), &nic.to_string());
        file(format!("{dir}/device/driver"), "->../../bus/pci/drivers/ice");
        file(format!("{dir}/operstate"), "up");
        file(format!("{dir}/speed"), "100000");
        for queue in 0..16 {
            let (number, core) = (
                100 * (nic + 1) + queue,
                if nic == 0 { queue.to_string() } else { "0-63".to_owned() },
            );
            file(format!("{dir}/queues/rx-{queue}/rps_cpus"), "0");
            file(format!("{dir}/queues/tx-{queue}/xps_cpus"), "0");
            file(format!("{dir}/device/msi_irqs/{number}"), "msix");
            file(format!("proc/irq/{number}/effective_affinity_list"), &core);
            interrupts += &format!(" {number}: 1 PCI-MSI ice-{name}-TxRx-{queue}\n");
        }
    }
    file("proc/interrupts".to_owned(), &interrupts);
    let dir = "sys/bus/pci/devices/0000:af:00.1";
    file(format!("{dir}/class"), "0x020000");
    file(format!("{dir}/numa_node"), "1");
    file(format!("{dir}/driver"), "->../../../bus/pci/drivers/vfio-pci");
    for name in ["br0", name_of_veth] {
        file(format!("sys/class/net/{name}/operstate"), "up");
    }
    file(
        "tool/ip_-details_-json_address_show_dev_br0".to_owned(),
        r#"[{"linkinfo":{"info_kind":"bridge"}}]"#,
    );
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.trim_start_matches('/'), text.as_str()))
        .collect();
    sample(&files)
}

#[test]
fn every_core_device_and_interface_is_drawn_where_it_belongs() {
    let folder = server("veth0");
    let svg = draw(&Machine::sample(folder.path()));
    let place = |text: &str| svg.find(text).unwrap_or_else(|| panic!("no {text:?} in {svg}"));
    // From the top down.
    for pair in [
        "32 cores with 64 threads (Fast &amp; Wide &lt;CPU&gt;), Linux 6.12.1",
        "each core has L1d 48 KiB, L2 2 MiB of its own",
        "isolated: cores 16-31,48-63",
        "NUMA node 0: 16 cores with 32 threads, 128.0 GiB of memory",
        "<title>core 15, shares its execution units with 47; interrupt 115 (ice-eth0-TxRx-15) of eth0</title>",
        "<title>eth0: ice, up at 100000 Mbit/s, queues: 16 rx, 16 tx</title>",
        "<title>interrupt 103 (ice-eth0-TxRx-3) on core 3</title>",
        "NUMA node 1: 16 cores",
        // Its interrupts may go anywhere.
        "<title>core 16, shares its execution units with 48; isolated</title>",
        "<title>eth1: ice, up at 100000 Mbit/s, queues: 16 rx, 16 tx</title>",
        "<title>0000:af:00.1: vfio-pci, no interface</title>",
        "Interfaces without a device",
        "br0 (bridge)",
        "veth0 (unknown)",
    ]
    .windows(2)
    {
        assert!(place(pair[0]) < place(pair[1]), "{} is below {}", pair[0], pair[1]);
    }
    assert_eq!(svg.matches(">L3 60 MiB<").count(), 2);
    assert!(!svg.contains("of no known node"));
    for core in 0..64 {
        assert!(svg.contains(&format!("class=\"c\">{core}</text>")), "core {core}");
    }
    assert_eq!(svg.matches("<g>").count(), svg.matches("</g>").count());
}

#[test]
fn names_of_others_are_text_and_a_host_that_tells_nothing_is_drawn_too() {
    let folder = server("<b>&\"x");
    let svg = draw(&Machine::sample(folder.path()));
    assert!(
        svg.contains("&lt;b&gt;&amp;&quot;x (unknown)") && !svg.contains("<b>"),
        "{svg}"
    );
    assert_eq!(escaped("a\u{1b}[0m\u{7}"), "a\u{fffd}[0m\u{fffd}");
    let svg = draw(&Machine::sample(sample(&[("x", "")]).path()));
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains("0 cores, of no known node"));
}

#[test]
fn cores_of_several_caches_are_grouped_and_devices_of_no_node_are_apart() {
    let files = [
        ("sys/devices/system/cpu/online", "0-3"),
        ("sys/devices/system/node/node0/cpulist", "0-3"),
        ("sys/devices/system/cpu/cpu0/cache/index3/level", "3"),
        ("sys/devices/system/cpu/cpu0/cache/index3/size", "16384K"),
        ("sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list", "0-1"),
        ("sys/devices/system/cpu/cpu1/cache/index3/level", "3"),
        ("sys/devices/system/cpu/cpu1/cache/index3/size", "16384K"),
        ("sys/devices/system/cpu/cpu1/cache/index3/shared_cpu_list", "0-1"),
        ("sys/devices/system/cpu/cpu2/cache/index3/level", "3"),
        ("sys/devices/system/cpu/cpu2/cache/index3/size", "16384K"),
        ("sys/devices/system/cpu/cpu2/cache/index3/shared_cpu_list", "2-3"),
        ("sys/devices/system/cpu/cpu3/cache/index3/level", "3"),
        ("sys/devices/system/cpu/cpu3/cache/index3/size", "16384K"),
        ("sys/devices/system/cpu/cpu3/cache/index3/shared_cpu_list", "2-3"),
        ("sys/class/net/eth0/device/numa_node", "-1"),
        (
            "sys/class/net/eth0/device/driver",
            "->../../bus/virtio/drivers/virtio_net",
        ),
    ];
    let svg = draw(&Machine::sample(sample(&files).path()));
    assert_eq!(svg.matches(">L3 16 MiB<").count(), 2, "{svg}");
    assert!(
        svg.find("Devices of no known node") < svg.find("eth0: virtio_net"),
        "{svg}"
    );
}
