//! The packet paths that work here, and reasons why others do not.

use super::dpdk;
use super::finding::{Area, Report, Status};
use super::machine::{Machine, Probe};
use super::parse;
use crate::privilege::Way;
use crate::tool;

/// Result for one path, before it is known whether this build has the path.
struct Verdict {
    works: bool,
    finding: String,
    command: String,
}

impl Verdict {
    fn works(finding: impl Into<String>) -> Self {
        Self {
            works: true,
            finding: finding.into(),
            command: String::new(),
        }
    }

    fn not(finding: impl Into<String>, command: &str) -> Self {
        Self {
            works: false,
            finding: finding.into(),
            command: command.to_owned(),
        }
    }

    /// Returns the verdict that the kernel refused because a capability is missing, with a way to get it.
    fn denied(machine: &Machine, finding: &str, remedy: &str) -> Self {
        let status = machine.read("/proc/self/status").unwrap_or_default();
        let way = Way::of(&status, machine.is_container());
        let program = std::env::current_exe().map_or_else(|_| "mpps".into(), |p| p.display().to_string());
        let command = way.command(&program);
        let finding = match way.why_not_setcap() {
            why if why.is_empty() => format!("{finding} ({remedy})"),
            why if command.is_empty() => format!("{finding}: {why}: {}", way.remedy()),
            why => format!("{finding}: {why}"),
        };
        Self::not(finding, &command)
    }
}

pub(super) fn examine(machine: &Machine, built: &[String], facts: &dpdk::Facts<'_>, report: &mut Report) {
    let release = machine.kernel_release();
    let version = parse::kernel_version(&release).unwrap_or((0, 0));
    let mut area = report.area("paths");
    area.add(
        Status::Info,
        "kernel",
        release,
        "newer kernels have more and faster paths",
        "",
    );
    let paths = [
        ("udp", udp(machine, version)),
        ("io_uring", io_uring(machine)),
        ("af_packet", af_packet(machine)),
        ("af_xdp", af_xdp(machine, version)),
        ("xdp", xdp(machine, version)),
    ];
    for (name, verdict) in paths {
        add(&mut area, name, built.iter().any(|b| b == name), verdict);
    }
    dpdk::path(facts, &mut area);
}

fn add(area: &mut Area<'_>, name: &str, built: bool, verdict: Verdict) {
    let why = "a path that does not work here can't be measured here";
    match (built, verdict.works) {
        (true, true) => area.add(Status::Ok, name, format!("works: {}", verdict.finding), why, ""),
        (true, false) => {
            area.add(
                Status::Fail,
                name,
                format!("does not work: {}", verdict.finding),
                why,
                &verdict.command,
            );
        }
        (false, true) => {
            let finding = format!("the host can; not in this version of mpps: {}", verdict.finding);
            area.add(Status::Info, name, finding, why, "");
        }
        (false, false) => {
            let finding = format!(
                "not in this version of mpps, and the host can't yet: {}",
                verdict.finding
            );
            area.add(Status::Info, name, finding, why, &verdict.command);
        }
    }
}

fn udp(machine: &Machine, version: (u32, u32)) -> Verdict {
    match machine.probe(Probe::Udp) {
        Ok(()) => {
            // UDP_SEGMENT came with 4.18, UDP_GRO with 5.0.
            let offload = match version {
                v if v >= (5, 0) => "with GSO and GRO",
                v if v >= (4, 18) => "with GSO, without GRO (Linux 5.0)",
                _ => "without GSO (Linux 4.18) and GRO (Linux 5.0)",
            };
            Verdict::works(format!("kernel sockets, {offload}; needs no privilege"))
        }
        Err(e) => Verdict::not(format!("a socket on 127.0.0.1: {e}"), ""),
    }
}

fn io_uring(machine: &Machine) -> Verdict {
    let disabled = machine.number("/proc/sys/kernel/io_uring_disabled");
    match (machine.io_uring(), disabled) {
        (Ok(features), _) => {
            let (has, lacks) = features.told();
            let without = match lacks[..] {
                [] => String::new(),
                _ => format!("; without {}", lacks.join(", ")),
            };
            match features.suffices() {
                true => Verdict::works(format!("{}{without}; needs no privilege", has.join(", "))),
                // A kernel may refuse features that its release has.
                false => Verdict::not(
                    format!("rings can be made; this kernel lacks or refuses {}", lacks.join(", ")),
                    "",
                ),
            }
        }
        (Err(e), Some(1 | 2)) => Verdict::not(
            format!("{e}: kernel.io_uring_disabled forbids it"),
            "sysctl -w kernel.io_uring_disabled=0",
        ),
        (Err(e), disabled) => {
            // The feature is known not to be disabled only if the setting could be read.
            let why = match disabled {
                Some(_) => "not in this kernel, or a seccomp filter",
                None => "not in this kernel, a seccomp filter, or kernel.io_uring_disabled, which can't be read",
            };
            Verdict::not(format!("{e} ({why}): the path udp needs none"), "")
        }
    }
}

fn af_packet(machine: &Machine) -> Verdict {
    if let Err(e) = machine.probe(Probe::AfPacket) {
        return Verdict::denied(machine, &format!("an AF_PACKET socket: {e}"), "needs CAP_NET_RAW: sudo");
    }
    match machine.probe(Probe::QdiscBypass) {
        Ok(()) => Verdict::works("sockets with PACKET_QDISC_BYPASS"),
        Err(e) => Verdict::works(format!(
            "sockets, but no PACKET_QDISC_BYPASS ({e}): packets pass the qdisc"
        )),
    }
}

fn af_xdp(machine: &Machine, version: (u32, u32)) -> Verdict {
    if let Err(e) = machine.probe(Probe::AfXdp) {
        let what = format!("an AF_XDP socket: {e}");
        return Verdict::denied(machine, &what, "Linux 4.18 with CONFIG_XDP_SOCKETS, CAP_NET_RAW");
    }
    if version < (5, 9) {
        return Verdict::not(
            "sockets can be made, but XDP programs can't be attached by a link (Linux 5.9)",
            "",
        );
    }
    // A BPF program brings packets to the sockets.
    match bpf_programs(machine) {
        Ok(_) => {
            let budget = match version {
                v if v >= (6, 17) => "a whole ring sent by one system call",
                _ => "32 packets sent by one system call (more with Linux 6.17) where the driver has no zero-copy",
            };
            Verdict::works(format!("AF_XDP sockets and XDP programs; {budget}"))
        }
        Err(not) => not,
    }
}

/// Checks whether BPF programs can be loaded and attached; the error is the verdict if they can't.
fn bpf_programs(machine: &Machine) -> Result<(), Verdict> {
    if let Some(why) = machine.bpf_forbidden() {
        return Err(Verdict::not(format!("{why}: the path udp needs none"), ""));
    }
    if let Err(e) = machine.probe(Probe::Bpf) {
        let what = format!("making a BPF map: {e}");
        return Err(Verdict::denied(machine, &what, "needs CAP_BPF and CAP_NET_ADMIN: sudo"));
    }
    if !machine.has_capability(tool::CAP_NET_ADMIN) {
        let what = "BPF maps can be made, but attaching a program needs CAP_NET_ADMIN";
        return Err(Verdict::denied(machine, what, "sudo"));
    }
    // CAP_SYS_ADMIN is the older capability that comprises CAP_PERFMON (Linux 5.8).
    if ![tool::CAP_PERFMON, tool::CAP_SYS_ADMIN]
        .iter()
        .any(|&cap| machine.has_capability(cap))
    {
        let what = "BPF maps can be made, but programs that compare pointers or watch the kernel need CAP_PERFMON";
        return Err(Verdict::denied(machine, what, "sudo"));
    }
    Ok(())
}

/// Tracepoints that the xdp path reads: the start of a poll loop, and frames that another device refused.
const TRACEPOINTS: [(&str, &str); 3] = [
    ("napi:napi_poll", "__traceiter_napi_poll"),
    ("xdp:xdp_devmap_xmit", "__traceiter_xdp_devmap_xmit"),
    ("xdp:xdp_redirect_err", "__traceiter_xdp_redirect_err"),
];

fn xdp(machine: &Machine, version: (u32, u32)) -> Verdict {
    if let Err(not) = bpf_programs(machine) {
        return not;
    }
    // The kernel's symbols contain their functions; the file of tracepoints is often not mounted.
    let symbols = machine.read("/proc/kallsyms").unwrap_or_default();
    let absent = |function: &str| {
        !symbols
            .lines()
            .any(|line| line.split_whitespace().nth(2) == Some(function))
    };
    let absent: Vec<_> = TRACEPOINTS
        .iter()
        .filter(|(_, function)| absent(function))
        .map(|(name, _)| *name)
        .collect();
    if version < (5, 18) {
        return Verdict::not(
            "no live frames and no helpers for frames in several buffers (Linux 5.18)",
            "",
        );
    }
    let sending = "live frames for sendrecv and send";
    let btf = match (machine.exists("/sys/kernel/btf/vmlinux"), machine.hides("/sys/kernel")) {
        (true, _) => "BTF",
        (false, false) => "no BTF (CONFIG_DEBUG_INFO_BTF), so refused frames can't be counted",
        (false, true) => "BTF unknown (/sys/kernel is hidden)",
    };
    let tcx = if version >= (6, 6) { "TCX" } else { "no TCX (Linux 6.6)" };
    let jit = match machine.number("/proc/sys/net/core/bpf_jit_enable") {
        Some(0) => "JIT off",
        Some(_) => "JIT on",
        None => "JIT unknown",
    };
    let traced = if symbols.is_empty() {
        "tracepoints unseen (/proc/kallsyms)".to_owned()
    } else if absent.is_empty() {
        "tracepoints".to_owned()
    } else {
        format!("no tracepoint {}", absent.join(", "))
    };
    Verdict::works(format!(
        "BPF programs can be loaded, native and skb (not offloaded: such programs have no shared maps, clock or live \
         frames); {sending}, {btf}, {traced}, {tcx}, {jit}"
    ))
}
