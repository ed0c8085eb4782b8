//! Findings that `doctor` can't make when `/proc` or `/sys` is hidden, as in some sandboxes. On a host that shows its
//! files a missing file means "no"; on a host that hides them it means nothing.

use super::finding::{Report, Status};
use super::machine::Machine;

/// Findings, by area and item, that depend on a file *not* being in a file system or folder.
const OF_PROC: [(&str, &str); 7] = [
    ("hypervisor", "virtual"),
    ("isolation", "interrupts"),
    ("isolation", "sysctls"),
    ("isolation", "cpuset"),
    ("isolation", "boot"),
    ("isolation", "--fifo"),
    ("network stack", "irqbalance"),
];
/// Findings on `/sys`, besides those on its two folders below.
const OF_SYS: [(&str, &str); 2] = [("isolation", "workqueues"), ("dpdk", "vfio")];
const OF_SYSTEM: [(&str, &str); 9] = [
    ("cores", "SMT"),
    ("cores", "isolated"),
    ("cores", "nohz_full"),
    ("frequency", "governor"),
    ("frequency", "turbo"),
    ("frequency", "idle states"),
    ("hypervisor", "mitigations"),
    ("isolation", "boot"),
    ("memory", "NUMA"),
];
const OF_KERNEL: [(&str, &str); 3] = [("hugepages", "sizes"), ("memory", "transparent"), ("dpdk", "memory")];

/// Changes findings that depend on a hidden file system, or a hidden folder of one, to "not known".
pub(super) fn examine(machine: &Machine, report: &mut Report) {
    let sys = machine.hides("/sys");
    for (root, folder, items) in [
        ("/proc", "/proc", &OF_PROC[..]),
        ("/sys", "/sys", &OF_SYS),
        ("/sys", "/sys/devices/system", &OF_SYSTEM),
        ("/sys", "/sys/kernel", &OF_KERNEL),
    ] {
        if !machine.hides(folder) {
            continue;
        }
        let hidden = if sys { root } else { folder };
        let concerned = |area: &str, item: &str| items.contains(&(area, item));
        for finding in report.findings.iter_mut().filter(|f| concerned(&f.area, &f.item)) {
            finding.status = Status::Info;
            finding.finding = format!("not known: {hidden} is hidden here");
            finding.command = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{find, sample};
    use super::*;

    #[test]
    fn what_rests_on_a_file_that_is_not_there_is_not_known_where_all_are_hidden() {
        let found = |files: &[(&str, &str)]| {
            let folder = sample(files);
            let mut report = Report::default();
            report
                .area("network stack")
                .add(Status::Ok, "irqbalance", "not running", "", "");
            report
                .area("cores")
                .add(Status::Ok, "SMT", "no sibling threads visible", "", "");
            report.area("cores").add(Status::Ok, "online", "2 cores", "", "");
            examine(&Machine::sample(folder.path()), &mut report);
            let of = |area, item| find(&report, area, item).finding.clone();
            [
                of("network stack", "irqbalance"),
                of("cores", "SMT"),
                of("cores", "online"),
            ]
        };
        assert_eq!(found(&[("run/empty", "")])[0], "not running");
        let in_part = found(&[("hidden/sys/devices/system", "")]);
        assert_eq!(in_part[1], "not known: /sys/devices/system is hidden here");
        let [balance, threads, online] = found(&[("hidden/proc", ""), ("hidden/sys", "")]);
        assert_eq!(balance, "not known: /proc is hidden here");
        assert_eq!(
            (threads.as_str(), online.as_str()),
            ("not known: /sys is hidden here", "2 cores")
        );
    }
}
