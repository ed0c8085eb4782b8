//! Huge pages, NUMA and the limits of this process.

use super::finding::{Report, Status};
use super::machine::Machine;
use super::parse;

pub(super) fn examine(machine: &Machine, report: &mut Report) {
    hugepages(machine, report);
    let mut area = report.area("memory");

    let why = "khugepaged moves pages under a running lane";
    match machine.read("/sys/kernel/mm/transparent_hugepage/enabled") {
        Some(text) => {
            let chosen = parse::chosen(&text).unwrap_or("unknown").to_owned();
            let (status, command) = match chosen.as_str() {
                "always" => (
                    Status::Info,
                    "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
                ),
                _ => (Status::Ok, ""),
            };
            area.add(status, "transparent", chosen, why, command);
        }
        None => area.add(Status::Info, "transparent", "not in this kernel", why, ""),
    }

    let why = "memory on another node than the NIC or the lane costs a hop per cache line";
    let nodes = nodes(machine);
    match nodes.len() {
        0 | 1 => area.add(Status::Ok, "NUMA", "one node", why, ""),
        n => {
            let cores = |node: &usize| match machine.read(&format!("{NODES}/node{node}/cpulist")) {
                Some(list) if !list.is_empty() => format!("{node}: cores {list}"),
                _ => format!("{node}: no cores"),
            };
            let cores: Vec<String> = nodes.iter().map(cores).collect();
            let finding = format!("{n} nodes ({}): pin lanes to the NIC's node", cores.join("; "));
            area.add(Status::Info, "NUMA", finding, why, "lscpu --extended");
        }
    }

    let limits = machine.read("/proc/self/limits").unwrap_or_default();
    let why = "rings and packet pools are locked in memory";
    let unlimited = u64::MAX;
    match parse::soft_limit(&limits, "Max locked memory") {
        Some(n) if n >= 64 << 20 => area.add(Status::Ok, "memlock", parse::bytes(n), why, ""),
        Some(n) => area.add(Status::Info, "memlock", parse::bytes(n), why, "ulimit -l unlimited"),
        None => area.add(Status::Info, "memlock", "could not be read", why, ""),
    }
    let why = "each flow group of the udp path has a socket of its own";
    match parse::soft_limit(&limits, "Max open files") {
        Some(n) if n >= 4096 => {
            let text = if n == unlimited {
                "unlimited".into()
            } else {
                n.to_string()
            };
            area.add(Status::Ok, "nofile", text, why, "");
        }
        Some(n) => area.add(Status::Warn, "nofile", n.to_string(), why, "ulimit -n 65536"),
        None => area.add(Status::Info, "nofile", "could not be read", why, ""),
    }
}

const NODES: &str = "/sys/devices/system/node";

/// Returns the NUMA nodes that are online.
fn nodes(machine: &Machine) -> Vec<usize> {
    let online = machine.read(&format!("{NODES}/online"));
    online.and_then(|text| parse::list(&text)).unwrap_or_default()
}

fn hugepages(machine: &Machine, report: &mut Report) {
    const DIR: &str = "/sys/kernel/mm/hugepages";
    let mut area = report.area("hugepages");
    let why = "dpdk is faster in them, and af_xdp with pages=huge needs them; they spare the TLB";
    let sizes = machine.list(DIR);
    if sizes.is_empty() {
        area.add(Status::Info, "sizes", "none: not in this kernel", why, "");
        return;
    }
    let nodes = nodes(machine);
    let mut any = false;
    for dir in &sizes {
        let size = dir
            .trim_start_matches("hugepages-")
            .trim_end_matches("kB")
            .parse::<u64>()
            .unwrap_or(0)
            << 10;
        let count = |key: &str| machine.number(&format!("{DIR}/{dir}/{key}")).unwrap_or(0);
        let (total, free) = (count("nr_hugepages"), count("free_hugepages"));
        any |= total > 0;
        let status = if total > 0 { Status::Ok } else { Status::Info };
        let command = match size {
            0x20_0000 if total == 0 => "echo 512 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
            _ => "",
        };
        // A lane takes huge pages of its own node first.
        let on = |node: &usize| {
            let free = machine.number(&format!("{NODES}/node{node}/hugepages/{dir}/free_hugepages"));
            format!("{} on node {node}", free.unwrap_or(0))
        };
        let by_node = match total > 0 && nodes.len() > 1 {
            true => format!(": {}", nodes.iter().map(on).collect::<Vec<_>>().join(", ")),
            false => String::new(),
        };
        let finding = format!("{total} reserved, {free} free{by_node}");
        area.add(status, &parse::bytes(size), finding, why, command);
    }
    let mounts = machine.read("/proc/mounts").unwrap_or_default();
    let mount = mounts.lines().find_map(|l| {
        let mut words = l.split_whitespace().skip(1);
        let dir = words.next()?;
        (words.next()? == "hugetlbfs").then(|| dir.to_owned())
    });
    let why = "mpps maps them without it; other DPDK programs map them through this file system";
    let command = match mount {
        None if any => "mkdir -p /dev/hugepages && mount -t hugetlbfs nodev /dev/hugepages",
        _ => "",
    };
    area.add(
        Status::Info,
        "mount",
        mount.unwrap_or_else(|| "none".into()),
        why,
        command,
    );
}
