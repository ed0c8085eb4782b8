//! Privileges that a run keeps while packets move, and the reasons.

use super::finding::{Report, Status};
use super::machine::{Machine, Probe};

/// Reason why privileges are given up at all.
const WHY: &str = "hostile packets can't abuse privileges that a run does not hold";

pub(super) fn examine(machine: &Machine, built: &[String], report: &mut Report) {
    let mut area = report.area("privileges");
    if let Err(given) = machine.probe(Probe::Lent) {
        let finding = format!(
            "{given}: its users run no code of theirs with them, so dpdk, --eal, lab and --keep-privileges are refused"
        );
        area.add(Status::Info, "program", finding, WHY, "");
    }
    let none = || "nothing stays after the start".to_owned();
    let bpf = match machine.probe(Probe::BpfUnprivileged) {
        Ok(()) => None,
        Err(_) => Some(
            "CAP_BPF stays: this kernel (before Linux 5.19, with kernel.unprivileged_bpf_disabled) runs no program and \
             reads no map without it",
        ),
    };
    let xdp = "CAP_NET_ADMIN stays in reserve with the reading thread of reflect and one-port forward on a veth, as it \
               looks whether the other end, in another namespace, has a program; nothing else";
    for (path, stays) in [
        ("udp", none()),
        ("io_uring", none()),
        ("af_packet", none()),
        ("af_xdp", bpf.map_or_else(none, |bpf| format!("{bpf} (main thread)"))),
        ("xdp", bpf.map_or_else(|| xdp.to_owned(), |bpf| format!("{bpf}; {xdp}"))),
        (
            "dpdk",
            "nothing on net_null, net_ring, net_memif, net_pcap and net_af_packet; CAP_NET_ADMIN on net_tap, and for \
             mtu= on net_af_packet, to set the interface back; with it CAP_NET_RAW, CAP_BPF, CAP_PERFMON and \
             CAP_SYS_ADMIN on net_af_xdp, to detach libxdp's program; on NICs CAP_NET_ADMIN, CAP_NET_RAW, \
             CAP_SYS_RAWIO and CAP_IPC_LOCK, to stop the device, the last for lanes too, to register memory"
                .to_owned(),
        ),
        (
            "--flow",
            "CAP_NET_ADMIN stays in reserve with the main thread, to take ntuple filters back".to_owned(),
        ),
    ] {
        if path == "--flow" || built.iter().any(|built| built == path) {
            area.add(Status::Info, path, stays, WHY, "");
        }
    }
    let finding = "under sudo those of the user who called, in whose folders they must lie; root's rights over files \
                   stay with the threads that write them only where root writes into another's folder without sudo";
    area.add(Status::Info, "files", finding, WHY, "");
}
