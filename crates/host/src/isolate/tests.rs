//! Cores of hosts made of files are isolated, and everything is as it was afterwards.

use super::fake::Fake;
use super::*;

/// Tests of undoing when the host, or another program on it, gets in the way.
mod undoing;

const V2: &str = "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
const V1: &str = "30 20 0:26 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset";
const GROUP: &str = "sys/fs/cgroup/mpps-isolate";

/// Four cores, three interrupts (one that can't be moved), control groups of version 2.
fn host() -> Fake {
    let fake = Fake::new();
    fake.put("sys/devices/system/cpu/online", "0-3");
    fake.put("proc/sys/kernel/random/boot_id", "boot-1");
    fake.put("proc/self/mountinfo", V2);
    fake.put("proc/self/cgroup", "0::/user.slice/shell");
    fake.put("sys/fs/cgroup/cgroup.controllers", "cpu cpuset memory");
    fake.put("sys/fs/cgroup/cgroup.subtree_control", "memory");
    fake.put(
        "sys/fs/cgroup/cgroup.subtree_control.answers",
        "+cpuset=cpuset memory\n-cpuset=memory",
    );
    fake.put("sys/fs/cgroup/user.slice/shell/cgroup.procs", "1");
    for file in ["cgroup.procs", "cpuset.cpus"] {
        fake.put(&format!("{GROUP}.new/{file}"), "");
    }
    fake.put(&format!("{GROUP}.new/cpuset.cpus.partition"), "member");
    for (irq, name) in [(1, "nic-0"), (2, "nic-1"), (3, "timer")] {
        fake.put(&format!("proc/irq/{irq}/smp_affinity_list"), "0-3");
        fake.put(&format!("proc/irq/{irq}/{name}/empty"), "");
    }
    fake.put("proc/irq/2/smp_affinity_list", "0");
    fake.put("proc/irq/3/smp_affinity_list.answers", "*=!5");
    fake.put("proc/irq/default_smp_affinity", "f");
    fake.put("sys/devices/virtual/workqueue/cpumask", "f");
    fake.put("proc/sys/vm/stat_interval", "1");
    fake.put("proc/sys/kernel/nmi_watchdog", "0");
    fake.put("proc/sys/kernel/watchdog_cpumask", "0-3");
    fake.put("dev/cpu_dma_latency", "");
    fake
}

fn options(cores: &str) -> Options {
    Options {
        cores: Cpus::of_list(cores).expect("a list"),
        without: Vec::new(),
        move_threads: false,
    }
}

fn planned(fake: &Fake, cores: &str) -> Plan {
    plan(&fake.tree(), &options(cores))
}

fn outcome(applied: &Applied, kind: Kind) -> Outcome {
    applied
        .outcomes
        .iter()
        .find(|o| o.part == kind)
        .expect("each part")
        .clone()
}

fn part(plan: &Plan, kind: Kind) -> &Part {
    plan.parts.iter().find(|part| part.kind == kind).expect("each part")
}

/// Ends `applied` as a kill would: the lock is released, and nothing is undone.
fn kill(applied: Applied) {
    applied.forget();
}

#[test]
fn everything_is_changed_once_and_as_it_was_at_the_end() {
    let fake = host();
    let before = fake.all();
    let applied = apply(&fake.tree(), &planned(&fake, "2-3")).expect("a journal");
    assert_eq!(fake.get("proc/irq/1/smp_affinity_list"), "0-1");
    assert_eq!(
        fake.get("proc/irq/2/smp_affinity_list"),
        "0",
        "it was elsewhere already"
    );
    assert_eq!(fake.get("proc/irq/default_smp_affinity"), "3");
    assert_eq!(fake.get("sys/devices/virtual/workqueue/cpumask"), "3");
    assert_eq!(fake.get("proc/sys/vm/stat_interval"), "10");
    assert_eq!(fake.get("proc/sys/kernel/watchdog_cpumask"), "0-1");
    assert_eq!(fake.get(&format!("{GROUP}/cpuset.cpus")), "2-3");
    assert_eq!(fake.get(&format!("{GROUP}/cpuset.cpus.partition")), "isolated");
    assert_eq!(applied.joins, [format!("{GROUP}/cgroup.procs")]);
    let interrupts = outcome(&applied, Kind::Interrupts);
    assert!(interrupts.applied && interrupts.changes == 2, "{interrupts:?}");
    assert_eq!(interrupts.refused[0].name, "3 timer");
    assert!(interrupts.refused[0].why.contains("by itself"), "{interrupts:?}");
    // Another one looks and does not touch what belongs to a living one.
    assert_eq!(mend(&fake.tree()), Mended::default());
    assert_eq!((journals(&fake.tree()).held, journals(&fake.tree()).left.len()), (1, 0));
    let restored = applied.end();
    assert_eq!((restored.count > 6, restored.left), (true, Vec::<String>::new()));
    let latency = |all: Vec<(String, String)>| all.into_iter().filter(|(name, _)| !name.starts_with("dev/"));
    assert_eq!(
        latency(fake.all()).collect::<Vec<_>>(),
        latency(before).collect::<Vec<_>>()
    );
    assert_eq!(journals(&fake.tree()), Journals::default());
}

#[test]
fn the_group_is_asked_for_in_order_and_undone_in_reverse() {
    let fake = host();
    let only = Options {
        without: vec![Kind::Interrupts, Kind::Workqueues, Kind::Sysctls, Kind::IdleStates],
        ..options("1")
    };
    let applied = apply(&fake.tree(), &plan(&fake.tree(), &only)).expect("a journal");
    // A process that its parent left behind.
    fake.put(&format!("{GROUP}/cgroup.procs"), "4711");
    drop(applied);
    assert_eq!(
        fake.log(),
        [
            "sys/fs/cgroup/cgroup.subtree_control +cpuset".to_owned(),
            format!("{GROUP}/cpuset.cpus 1"),
            format!("{GROUP}/cpuset.cpus.partition isolated"),
            "sys/fs/cgroup/user.slice/shell/cgroup.procs 4711".to_owned(),
            "sys/fs/cgroup/cgroup.subtree_control -cpuset".to_owned(),
        ]
    );
    assert!(!fake.tree().exists(GROUP));
}

#[test]
fn a_partition_that_the_kernel_takes_for_invalid_is_undone_and_its_reason_told() {
    let fake = host();
    let answer = "isolated invalid (Cpu list in cpuset.cpus not exclusive)";
    // The template's answers come with the folder.
    fake.put(
        &format!("{GROUP}.new/cpuset.cpus.partition.answers"),
        &format!("isolated={answer}"),
    );
    let applied = apply(&fake.tree(), &planned(&fake, "1")).expect("a journal");
    let cpuset = outcome(&applied, Kind::Cpuset);
    assert!(!cpuset.applied && cpuset.told.contains(answer), "{cpuset:?}");
    assert!(applied.joins.is_empty() && !fake.tree().exists(GROUP));
    assert_eq!(fake.get("sys/fs/cgroup/cgroup.subtree_control"), "memory");
    assert!(outcome(&applied, Kind::Interrupts).applied, "the others stay");
    assert!(outcomes(&applied.outcomes).contains(answer));
}

#[test]
fn what_a_killed_run_has_left_is_undone_by_the_next_and_once() {
    let fake = host();
    let before: Vec<_> = fake
        .all()
        .into_iter()
        .filter(|(name, _)| !name.starts_with("dev/"))
        .collect();
    kill(apply(&fake.tree(), &planned(&fake, "2-3")).expect("a journal"));
    assert_eq!(fake.get("proc/sys/vm/stat_interval"), "10");
    // Somebody has set it since: it is theirs.
    fake.put("proc/sys/kernel/watchdog_cpumask", "0");
    let told = mend(&fake.tree()).told;
    assert!(
        told[0].contains("changes of a run that was killed are undone"),
        "{told:?}"
    );
    assert!(
        told[1].contains("watchdog_cpumask") && told[1].contains("left to whoever"),
        "{told:?}"
    );
    fake.put("proc/sys/kernel/watchdog_cpumask", "0-3");
    let after: Vec<_> = fake
        .all()
        .into_iter()
        .filter(|(name, _)| !name.starts_with("dev/"))
        .collect();
    assert_eq!(after, before);
    assert_eq!(
        mend(&fake.tree()),
        Mended::default(),
        "what is theirs is not noted any more"
    );
}

#[test]
fn after_a_restart_nothing_is_undone() {
    let fake = host();
    kill(apply(&fake.tree(), &planned(&fake, "1")).expect("a journal"));
    fake.put("proc/sys/kernel/random/boot_id", "boot-2");
    assert_eq!(mend(&fake.tree()), Mended::default());
    assert_eq!(fake.get("proc/sys/vm/stat_interval"), "10");
    assert_eq!(journals(&fake.tree()), Journals::default());
}

#[test]
fn a_journal_that_is_none_is_told_of_and_goes() {
    for (text, told) in [
        ("garbage\n", 1),
        ("\0\x01\x02 more\nand more\n", 1),
        ("{\"do\":\"set\",\"value\":\"1\"}\ngarbage\n", 1),
        // A run that was killed before its first line was whole.
        ("", 0),
        ("{\"do\":\"bo", 0),
    ] {
        let fake = host();
        kill(apply(&fake.tree(), &planned(&fake, "1")).expect("a journal"));
        let file = journals(&fake.tree()).left.pop().expect("a journal");
        std::fs::write(&file, text).expect("a file");
        let mended = mend(&fake.tree());
        assert_eq!(
            (mended.told.len(), mended.stay),
            (told, 0),
            "{text:?}: {:?}",
            mended.told
        );
        let name = file.display().to_string();
        assert!(mended.told.iter().all(|line| line.contains(&name)), "{:?}", mended.told);
        assert_eq!(journals(&fake.tree()), Journals::default());
    }
}

#[test]
fn a_kill_after_any_change_leaves_nothing_behind() {
    // The journal of each length that a kill can leave, and half a line.
    let whole = {
        let fake = host();
        let applied = apply(&fake.tree(), &planned(&fake, "3")).expect("a journal");
        let text = applied.journal_text();
        kill(applied);
        text
    };
    let lines: Vec<&str> = whole.lines().collect();
    assert!(lines.len() > 8, "{whole}");
    for n in 1..=lines.len() {
        let fake = host();
        let before: Vec<_> = fake
            .all()
            .into_iter()
            .filter(|(name, _)| !name.starts_with("dev/"))
            .collect();
        kill(apply(&fake.tree(), &planned(&fake, "3")).expect("a journal"));
        let folder = fake.tree().path("run/mpps");
        let file = std::fs::read_dir(&folder)
            .expect("a folder")
            .flatten()
            .next()
            .expect("a journal")
            .path();
        std::fs::write(&file, lines[..n].join("\n") + "\n{\"do\":\"wr").expect("a file");
        // A child that another test has just forked holds the lock, too, until it runs its program.
        for _ in 0..1_000 {
            mend(&fake.tree());
            if journals(&fake.tree()).held == 0 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        // Only changes that the shorter journal lists are undone; nothing is made worse, and the journal is removed.
        assert_eq!(journals(&fake.tree()), Journals::default(), "{n} lines");
        if n == lines.len() {
            let after: Vec<_> = fake
                .all()
                .into_iter()
                .filter(|(name, _)| !name.starts_with("dev/"))
                .collect();
            assert_eq!(after, before);
        }
    }
}

#[test]
fn version_1_balances_load_over_the_other_cores_only() {
    let fake = host();
    fake.put("proc/self/mountinfo", V1);
    let root = "sys/fs/cgroup/cpuset";
    fake.put(&format!("{root}/cpuset.sched_load_balance"), "1");
    fake.put(&format!("{root}/cpuset.mems"), "0");
    fake.put(&format!("{root}/cgroup.procs"), "1");
    for group in ["mpps-isolate", "mpps-isolate-rest"] {
        for file in [
            "cgroup.procs",
            "cpuset.cpus",
            "cpuset.mems",
            "cpuset.cpu_exclusive",
            "cpuset.sched_load_balance",
        ] {
            fake.put(&format!("{root}/{group}.new/{file}"), "");
        }
    }
    let only = |fake: &Fake| {
        let mut plan = planned(fake, "2-3");
        plan.parts.retain(|part| part.kind == Kind::Cpuset);
        plan
    };
    let applied = apply(&fake.tree(), &only(&fake)).expect("a journal");
    assert!(applied.outcomes[0].applied, "{:?}", applied.outcomes);
    for (file, value) in [
        ("mpps-isolate/cpuset.cpus", "2-3"),
        ("mpps-isolate/cpuset.cpu_exclusive", "1"),
        ("mpps-isolate/cpuset.sched_load_balance", "0"),
        ("mpps-isolate-rest/cpuset.cpus", "0-1"),
        ("cpuset.sched_load_balance", "0"),
    ] {
        assert_eq!(fake.get(&format!("{root}/{file}")), value, "{file}");
    }
    drop(applied);
    assert_eq!(fake.get(&format!("{root}/cpuset.sched_load_balance")), "1");
    assert!(!fake.tree().exists(&format!("{root}/mpps-isolate-rest")));
    // Another group that balances over them.
    fake.put(&format!("{root}/docker/cpuset.cpus"), "0-3");
    fake.put(&format!("{root}/docker/cpuset.sched_load_balance"), "1");
    let plan = only(&fake);
    assert!(plan.parts[0].why_not.contains("docker"), "{:?}", plan.parts[0]);
}

#[test]
fn a_host_without_any_of_it_says_why_for_each() {
    let fake = Fake::new();
    fake.put("sys/devices/system/cpu/online", "0-1");
    fake.put(
        "proc/self/mountinfo",
        "27 19 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw",
    );
    fake.put("sys/fs/cgroup/unified/cgroup.controllers", "hugetlb");
    let plan = planned(&fake, "1");
    for kind in Kind::ALL {
        assert!(
            part(&plan, kind).steps.is_empty() && !part(&plan, kind).why_not.is_empty(),
            "{kind:?}"
        );
    }
    assert!(part(&plan, Kind::Cpuset).why_not.contains("offers hugetlb, no cpuset"));
    let applied = apply(&fake.tree(), &plan).expect("a journal");
    assert!(applied.outcomes.iter().all(|outcome| !outcome.applied));
    assert_eq!(applied.end(), Restored::default());
    fake.put("proc/self/mountinfo", "nothing");
    fake.remove("sys/fs/cgroup/unified/cgroup.controllers");
    assert!(
        part(&planned(&fake, "1"), Kind::Cpuset)
            .why_not
            .contains("no control groups")
    );
}

#[test]
fn other_threads_are_moved_and_come_back_where_they_are_the_same() {
    let fake = host();
    let stat =
        |flags: u64, started: u64| format!("10 (a) b) S 1 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {started} 0 0");
    for (thread, flags) in [(10, 0), (11, 0), (12, 0x0400_0000)] {
        fake.put(&format!("proc/{thread}/task/{thread}/stat"), &stat(flags, 500));
        fake.put(&format!("proc/{thread}/task/{thread}/comm"), "work");
        fake.put(&format!("proc/{thread}/stat"), &stat(flags, 500));
        fake.put(&format!("affinity/{thread}"), "0-3");
    }
    let all = Options {
        move_threads: true,
        ..options("3")
    };
    let applied = apply(&fake.tree(), &plan(&fake.tree(), &all)).expect("a journal");
    let cores = || [10, 11, 12].map(|thread| fake.get(&format!("affinity/{thread}")));
    assert_eq!(cores(), ["0-2", "0-2", "0-3"], "one of the kernel's own stays");
    // Its number belongs to another by now.
    fake.put("proc/11/stat", &stat(0, 900));
    drop(applied);
    assert_eq!(cores(), ["0-3", "0-2", "0-3"]);
}

#[test]
fn the_script_has_every_change_its_undoing_and_the_parameters() {
    let fake = host();
    fake.put("proc/cmdline", "quiet isolcpus=domain,3 rcu_nocbs=1-3");
    let plan = planned(&fake, "3");
    let boot = Boot::of(&fake.tree(), &plan);
    let text = script(&plan, &boot, &["mpps".to_owned(), "send".to_owned(), "it's".to_owned()]);
    for part in [
        "echo 0-2 > /proc/irq/1/smp_affinity_list  # 1 nic-0, was 0-3",
        "echo 0-3 > /proc/irq/1/smp_affinity_list",
        "echo +cpuset > /sys/fs/cgroup/cgroup.subtree_control",
        "echo isolated > /sys/fs/cgroup/mpps-isolate/cpuset.cpus.partition; [",
        "rmdir /sys/fs/cgroup/mpps-isolate",
        "exec taskset -c 3 mpps send 'it'\\''s')",
        "isolcpus=managed_irq,domain,3  (now domain,3)",
        "nohz_full=3  (not set): no timer tick while one thread runs alone; does nothing here",
        "# threads: not here: left where they are",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let covers = |name: &str| {
        let found = boot.parameters.iter().find(|p| p.name == name).expect("a parameter");
        found.covers(&plan.cores)
    };
    assert_eq!(
        ["isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity", "skew_tick"].map(covers),
        [true, false, true, false, false]
    );
    assert!(text.contains("# (how this host boots is not known here)"), "{text}");
    fake.put("proc/cmdline", "isolcpus=3 rcu_nocbs=all irqaffinity=0-2 skew_tick=1");
    let all = script(&plan, &Boot::of(&fake.tree(), &plan), &[]);
    assert!(all.contains("# (nothing is missing)"), "{all}");
}

#[test]
fn cores_that_are_not_there_and_all_of_them_are_refused() {
    let fake = host();
    let told = |cores: &str| check(&fake.tree(), &Cpus::of_list(cores).expect("a list"));
    assert_eq!(told("1,3"), Ok(()));
    assert!(told("4").expect_err("none").contains("this host has cores 0-3"));
    assert!(told("0-3").expect_err("all").contains("at least one of 0-3"));
    assert!(told("").is_err());
    fake.put("sys/devices/system/cpu/online", "");
    let unread = told("1").expect_err("nobody knows");
    assert!(
        unread.contains("is not known") && !unread.contains("has cores"),
        "{unread}"
    );
}

#[test]
fn the_table_has_a_row_for_each_core_and_state_and_names_what_ran() {
    let noise = |cpu, noise_us| noise::Noise {
        cpu,
        noise_us,
        period_us: 3e6,
        available_percent: 99.5,
        interrupts: vec![noise::Count {
            name: "LOC Local timer interrupts".into(),
            count: 750,
        }],
        ..noise::Noise::default()
    };
    let (before, after) = ([noise(1, 15_000.0), noise(2, 1.0)], [noise(1, 20.0), noise(2, 2.0)]);
    let both = [("before", &before[..]), ("isolated", &after)];
    let text = table(&both);
    let rows: Vec<&str> = text.lines().collect();
    assert!(rows[1].contains("before") && rows[1].contains("15000"), "{text}");
    assert!(rows[2].trim_start().starts_with("1  isolated"), "{text}");
    let names = counted(&both);
    assert!(
        names.starts_with("CPU 1 before: LOC Local timer interrupts 750\n"),
        "{names}"
    );
}
