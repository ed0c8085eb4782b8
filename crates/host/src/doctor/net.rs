//! The network stack's own limits, and programs that move interrupts.

use super::finding::{Report, Status};
use super::machine::Machine;

/// A sysctl under `net.core`, the value from which on it is good enough, the value to set, and the reason.
const SYSCTLS: [(&str, u64, u64, &str); 5] = [
    (
        "rmem_max",
        32 << 20,
        64 << 20,
        "largest receive buffer of a socket: a small one drops when the reader is off its core",
    ),
    ("wmem_max", 4 << 20, 64 << 20, "largest send buffer of a socket"),
    (
        "netdev_max_backlog",
        10_000,
        250_000,
        "queue of packets from veth, loopback and RPS: what does not fit is dropped",
    ),
    (
        "netdev_budget",
        300,
        600,
        "packets that one softirq round may handle before it yields",
    ),
    (
        "optmem_max",
        20_480,
        131_072,
        "ancillary memory of a socket: MSG_ZEROCOPY and control messages",
    ),
];

pub(super) fn examine(machine: &Machine, report: &mut Report) {
    let mut area = report.area("network stack");
    for (name, enough, set, why) in SYSCTLS {
        match machine.number(&format!("/proc/sys/net/core/{name}")) {
            Some(value) if value >= enough => area.add(Status::Ok, name, value.to_string(), why, ""),
            Some(value) => {
                let command = format!("sysctl -w net.core.{name}={set}");
                area.add(Status::Warn, name, value.to_string(), why, &command);
            }
            None => {
                let finding = "not visible (a network namespace or container hides it)";
                area.add(Status::Info, name, finding, why, "");
            }
        }
    }
    let why = "without it the kernel interprets BPF programs, at a fraction of the speed";
    match machine.number("/proc/sys/net/core/bpf_jit_enable") {
        Some(0) => area.add(
            Status::Warn,
            "bpf_jit_enable",
            "0",
            why,
            "sysctl -w net.core.bpf_jit_enable=1",
        ),
        Some(value) => area.add(Status::Ok, "bpf_jit_enable", value.to_string(), why, ""),
        None => {
            let finding = "not visible (a network namespace or container hides it)";
            area.add(Status::Info, "bpf_jit_enable", finding, why, "");
        }
    }
    let why = "it moves interrupts between cores during a run, also to the lanes' cores";
    let is_irqbalance = |pid: &String| {
        pid.bytes().all(|b| b.is_ascii_digit())
            && machine
                .read(&format!("/proc/{pid}/comm"))
                .is_some_and(|comm| comm == "irqbalance")
    };
    if machine.list("/proc").iter().any(is_irqbalance) {
        area.add(Status::Warn, "irqbalance", "running", why, "systemctl stop irqbalance");
    } else {
        area.add(Status::Ok, "irqbalance", "not running", why, "");
    }
}
