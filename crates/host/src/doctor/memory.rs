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
    let nodes = machine
        .read("/sys/devices/system/node/online")
        .and_then(|t| parse::list(&t))
        .unwrap_or_default();
    match nodes.len() {
        0 | 1 => area.add(Status::Ok, "NUMA", "one node", why, ""),
        n => area.add(
            Status::Info,
            "NUMA",
            format!("{n} nodes: pin lanes to the NIC's node"),
            why,
            "lscpu --extended",
        ),
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

fn hugepages(machine: &Machine, report: &mut Report) {
    const DIR: &str = "/sys/kernel/mm/hugepages";
    let mut area = report.area("hugepages");
    let why = "dpdk is faster in them, and af_xdp with pages=huge needs them; they spare the TLB";
    let sizes = machine.list(DIR);
    if sizes.is_empty() {
        area.add(Status::Info, "sizes", "none: not in this kernel", why, "");
        return;
    }
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
            0x20_0000 if total == 0 => "echo 1024 > /proc/sys/vm/nr_hugepages",
            _ => "",
        };
        area.add(
            status,
            &parse::bytes(size),
            format!("{total} reserved, {free} free"),
            why,
            command,
        );
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
