//! Changes that `mpps isolate` would make here, for the cores that a user would give to lanes first.

use super::finding::{Report, Status};
use super::machine::Machine;
use crate::isolate::{Boot, Cpus, Kind, Options, Part, Share, Tree, check, journals, plan};

/// Returns what `isolate` would report about a part, as far as that is known without changing anything.
fn finding(tree: &Tree, part: &Part) -> String {
    let refused = part.refused(tree);
    let count = part.steps.len() - refused.len();
    match (refused.first(), count) {
        (None, 0) => part.why_not.clone(),
        (Some(first), n) if n == 0 || part.whole => format!("{}: {}", first.name, first.why),
        (_, 1) => format!("1 change: {}", part.what),
        (_, n) => format!("{n} changes: {}", part.what),
    }
}

pub(super) fn examine(machine: &Machine, report: &mut Report) {
    let tree = machine.tree();
    let online = machine
        .read("/sys/devices/system/cpu/online")
        .and_then(|text| Cpus::of_list(&text));
    // All cores that this process can be given, except the first, where most other programs run.
    let online: Vec<usize> = online.iter().flat_map(Cpus::iter).collect();
    // If the host was started with isolated cores, only these.
    let isolated = machine.read("/sys/devices/system/cpu/isolated");
    let isolated = isolated.and_then(|text| Cpus::of_list(&text)).unwrap_or_default();
    let possible = machine.possible_cores(&online).unwrap_or_else(|| online.clone());
    let cores: Cpus = online
        .iter()
        .copied()
        .skip(1)
        .filter(|core| possible.contains(core) && (isolated.is_empty() || isolated.contains(*core)))
        .collect();
    let mut area = report.area("isolation");
    if check(&tree, &cores).is_err() {
        let finding = match online.len() {
            0 => "which cores are online could not be read",
            1 => "one core: none can be kept for lanes alone",
            _ => "none can be kept for lanes alone: this process can be given one core (cpuset)",
        };
        return area.add(Status::Info, "cores", finding, "", "");
    }
    let plan = plan(
        &tree,
        &Options {
            cores: cores.clone(),
            without: Vec::new(),
            // Looking at all threads takes a while on a large host.
            move_threads: false,
        },
    );
    let why = "what else runs on a lane's core shows as gaps, loss and latency that are not the network's";
    for part in plan.parts.iter().filter(|part| part.kind != Kind::Threads) {
        area.add(Status::Info, part.kind.name(), finding(&tree, part), why, "");
    }
    if journals(&tree).held > 0 {
        let finding = "another `mpps isolate` has changed this host and runs: no other can begin, and the above is \
                       what it has left to do";
        area.add(Status::Info, "turn", finding, why, "");
    }
    let boot = Boot::of(&tree, &plan);
    let state = |parameter: &crate::isolate::Parameter| match (&parameter.now, parameter.why_not.as_str()) {
        (_, why) if !why.is_empty() => format!("{} ({why})", parameter.name),
        (Some(now), _) => format!("{}={now}", parameter.name),
        (None, _) => format!("{} not set", parameter.name),
    };
    let states: Vec<String> = boot.parameters.iter().map(state).collect();
    area.add(Status::Info, "boot", states.join("; "), why, "");
    let fifo = Share::of(&tree)
        .told()
        .unwrap_or_else(|| "real-time threads have no limit".to_owned());
    area.add(
        Status::Info,
        "--fifo",
        fifo,
        "a gap of tens of ms each second in a lane that never sleeps",
        "",
    );
    let command = format!("mpps isolate {} -- COMMAND", cores.list());
    let finding = "measures the noise of the cores, does the above for one command, and undoes it";
    area.add(Status::Info, "command", finding, why, &command);
}

#[cfg(test)]
mod tests {
    use super::super::tests::{find, sample};
    use super::*;
    use crate::isolate::apply;

    const HOST: &[(&str, &str)] = &[
        ("run/empty", ""),
        ("sys/devices/system/cpu/online", "0-1"),
        ("proc/self/mountinfo", "30 20 0:26 / /cg rw - cgroup2 cgroup2 rw"),
        ("cg/cgroup.controllers", "cpuset"),
        ("cg/cgroup.subtree_control", ""),
        ("cg/cgroup.procs", ""),
        ("cg/mpps-isolate.new/cpuset.cpus", ""),
        ("cg/mpps-isolate.new/cpuset.cpus.partition", ""),
        ("proc/irq/1/smp_affinity_list", "0-1"),
        ("proc/irq/1/nic/empty", ""),
        ("proc/irq/2/smp_affinity_list", "0-1"),
        ("proc/irq/default_smp_affinity", "1"),
        ("sys/devices/virtual/workqueue/cpumask", "3"),
        ("proc/sys/vm/stat_interval", "1"),
        ("proc/sys/kernel/timer_migration", "1"),
        ("dev/cpu_dma_latency", ""),
    ];
    const READ_ONLY: &[(&str, &str)] = &[
        ("cg.closed", "30"),
        ("proc/irq/1/smp_affinity_list.closed", "30"),
        ("proc/irq/2/smp_affinity_list.closed", "30"),
        ("proc/sys/vm/stat_interval.closed", "30"),
        ("proc/sys/kernel/timer_migration.closed", "30"),
    ];
    const NOT_ROOT: &[(&str, &str)] = &[
        ("cg/cgroup.subtree_control.closed", "13"),
        ("proc/irq/1/smp_affinity_list.closed", "13"),
        ("sys/devices/virtual/workqueue/cpumask.closed", "13"),
    ];

    #[test]
    fn what_it_says_of_each_part_is_what_isolate_does() {
        for in_the_way in [&[][..], READ_ONLY, NOT_ROOT] {
            let files = [HOST, in_the_way].concat();
            let folder = sample(&files);
            let mut report = Report::default();
            examine(&Machine::sample(folder.path()), &mut report);
            let tree = Tree::fake(folder.path());
            let options = Options {
                cores: [1].into_iter().collect(),
                without: Vec::new(),
                move_threads: false,
            };
            let applied = apply(&tree, &plan(&tree, &options)).expect("a journal");
            for outcome in applied.outcomes.iter().filter(|outcome| outcome.part != Kind::Threads) {
                let wanted = match (outcome.applied, outcome.changes) {
                    (false, _) => outcome.told.clone(),
                    (true, 1) => format!("1 change: {}", outcome.told),
                    (true, n) => format!("{n} changes: {}", outcome.told),
                };
                let said = find(&report, "isolation", outcome.part.name());
                assert_eq!(said.finding, wanted, "{in_the_way:?}: {outcome:?}");
            }
            assert!(report.findings.iter().all(|finding| finding.item != "turn"));
            let mut meanwhile = Report::default();
            examine(&Machine::sample(folder.path()), &mut meanwhile);
            assert!(
                find(&meanwhile, "isolation", "turn")
                    .finding
                    .contains("no other can begin")
            );
        }
    }
}
