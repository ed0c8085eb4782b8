use super::*;

/// All files but those of the latency device, which is not undone but closed.
fn state(fake: &Fake) -> Vec<(String, String)> {
    let all = fake.all().into_iter();
    all.filter(|(name, _)| !name.starts_with("dev/")).collect()
}

#[test]
fn a_turn_is_one_run_s_from_its_start_to_its_end() {
    let fake = host();
    let turn = Turn::take(&fake.tree()).expect("nobody has it");
    let why = Turn::take(&fake.tree()).expect_err("it is taken");
    assert!(why.contains("another `mpps isolate` runs"), "{why}");
    assert_eq!(turn.clear(&fake.tree()), (Vec::new(), Ok(())));
    drop(turn);
    Turn::take(&fake.tree()).expect("it is free again");
}

#[test]
fn what_the_host_refuses_to_undo_stays_noted_until_it_can_be_undone() {
    for killed in [false, true] {
        let fake = host();
        let before = state(&fake);
        let applied = apply(&fake.tree(), &planned(&fake, "2-3")).expect("a journal");
        let (sysctl, erofs) = ("proc/sys/vm/stat_interval.closed", "30");
        fake.put(sysctl, erofs);
        fake.put(&format!("{GROUP}.stays"), erofs);
        // Somebody has set it since: this is no failure.
        fake.put("proc/sys/kernel/watchdog_cpumask", "0");
        let (left, stay) = match killed {
            false => {
                let restored = applied.end();
                (restored.left, restored.stay)
            }
            true => {
                kill(applied);
                let mended = mend(&fake.tree());
                (mended.told, mended.stay)
            }
        };
        assert_eq!(stay, 2, "{left:?}");
        for part in ["stat_interval: mounted read-only", "rmdir /", "left to whoever"] {
            assert!(left.iter().any(|line| line.contains(part)), "{part}: {left:?}");
        }
        fake.put("proc/sys/kernel/watchdog_cpumask", "0-3");
        assert_eq!(journals(&fake.tree()).left.len(), 1);
        let turn = Turn::take(&fake.tree()).expect("nobody has it");
        let (told, ready) = turn.clear(&fake.tree());
        assert!(told.len() == 2 && ready.is_err_and(|why| why.contains("run/mpps/isolate-")));
        // A group that something is in is not waited for at each start.
        fake.put(&format!("{GROUP}.stays"), "16");
        fake.remove(sysctl);
        let (told, ready) = turn.clear(&fake.tree());
        assert!(
            told[0].contains("1 changes that an earlier run could not undo"),
            "{told:?}"
        );
        assert!(told[1].contains("rmdir") && ready.is_err(), "{told:?}");
        fake.remove(&format!("{GROUP}.stays"));
        assert_eq!(turn.clear(&fake.tree()).1, Ok(()));
        assert_eq!(state(&fake), before);
        assert_eq!(journals(&fake.tree()), Journals::default());
    }
}

#[test]
fn a_group_that_was_of_no_use_and_stays_is_tried_again_at_the_end() {
    let fake = host();
    let before = state(&fake);
    fake.put(
        &format!("{GROUP}.new/cpuset.cpus.partition.answers"),
        "isolated=isolated invalid (no such luck)",
    );
    fake.put(&format!("{GROUP}.stays"), "30");
    let applied = apply(&fake.tree(), &planned(&fake, "1")).expect("a journal");
    assert!(!outcome(&applied, Kind::Cpuset).applied && fake.tree().exists(GROUP));
    fake.remove(&format!("{GROUP}.stays"));
    let restored = applied.end();
    assert_eq!((restored.left, restored.stay), (Vec::new(), 0));
    assert!(!fake.tree().exists(GROUP));
    fake.remove(&format!("{GROUP}.new/cpuset.cpus.partition.answers"));
    assert_eq!(state(&fake), before);
}

#[test]
fn cpusets_are_switched_off_whatever_else_was_switched_on_meanwhile() {
    let (control, io) = ("sys/fs/cgroup/cgroup.subtree_control", "cpuset io memory");
    let ended = |meanwhile: &dyn Fn(&Fake)| {
        let fake = host();
        let applied = apply(&fake.tree(), &planned(&fake, "1")).expect("a journal");
        assert_eq!(fake.get(control), "cpuset memory");
        meanwhile(&fake);
        let restored = applied.end();
        assert_eq!(restored.stay, 0);
        (fake.get(control), restored.left)
    };
    let another = |fake: &Fake| {
        fake.put(control, io);
        fake.put(&format!("{control}.answers"), "-cpuset=io memory");
    };
    assert_eq!(ended(&another), ("io memory".to_owned(), Vec::new()));
    let off = |fake: &Fake| fake.put(control, "memory");
    assert_eq!(ended(&off), ("memory".to_owned(), Vec::new()));
    // Others that use it by now keep it.
    let uses = |fake: &Fake| fake.put("sys/fs/cgroup/database/cpuset.cpus", "2");
    let (now, left) = ended(&uses);
    assert!(
        now == "cpuset memory" && left[0].contains("used by /sys/fs/cgroup/database"),
        "{left:?}"
    );
    let hands_on = |fake: &Fake| fake.put(&format!("{control}.answers"), "-cpuset=!16");
    let (now, left) = ended(&hands_on);
    assert!(now == "cpuset memory" && left[0].contains("groups below"), "{left:?}");
}

/// A thread of a process of its own, or of `process`.
fn thread(fake: &Fake, process: u32, thread: u32, parent: u32, started: u64, cores: &str) {
    let stat = format!("{thread} (a) b) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {started} 0 0");
    fake.put(&format!("proc/{process}/task/{thread}/stat"), &stat);
    fake.put(&format!("proc/{process}/task/{thread}/comm"), "work");
    fake.put(&format!("proc/{thread}/stat"), &stat);
    fake.put(&format!("affinity/{thread}"), cores);
}

#[test]
fn threads_that_moved_ones_have_started_meanwhile_are_moved_back_with_them() {
    let fake = host();
    fake.put("proc/uptime", "1000.00 3000.00");
    let hertz = rustix::param::clock_ticks_per_second();
    let (long_ago, since) = (hertz, 1001 * hertz);
    thread(&fake, 1, 1, 0, long_ago, "0-3");
    thread(&fake, 10, 10, 1, long_ago, "0-3");
    // Where it was put is where nothing was left of its own.
    thread(&fake, 20, 20, 1, long_ago, "3");
    // It was there before.
    thread(&fake, 30, 30, 1, long_ago, "0-2");
    let all = Options {
        move_threads: true,
        ..options("3")
    };
    let applied = apply(&fake.tree(), &plan(&fake.tree(), &all)).expect("a journal");
    let cores = |thread: u32| fake.get(&format!("affinity/{thread}"));
    assert_eq!([1, 10, 20, 30].map(cores), ["0-2"; 4]);
    // A shell of 10 and its child, another thread of 10, a child of 20, one whose parents have all ended, and one
    // that has chosen its cores.
    thread(&fake, 11, 11, 10, since, "0-2");
    thread(&fake, 12, 12, 11, since, "0-2");
    thread(&fake, 10, 13, 1, since, "0-2");
    thread(&fake, 21, 21, 20, since, "0-2");
    thread(&fake, 40, 40, 39, since, "0-2");
    thread(&fake, 50, 50, 10, since, "1");
    // The number of one that was moved is another's by now.
    thread(&fake, 20, 22, 20, since, "0-2");
    let journal = applied.journal_text();
    assert!(journal.contains("\"since\":"), "{journal}");
    kill(applied);
    let mended = mend(&fake.tree());
    assert_eq!(mended.stay, 0, "{mended:?}");
    assert_eq!([1, 10, 11, 12, 13, 40].map(cores), ["0-3"; 6]);
    assert_eq!([20, 21, 22].map(cores), ["3"; 3]);
    assert_eq!([30, 50].map(cores), ["0-2", "1"]);
}

#[test]
fn an_heir_that_can_not_be_moved_stays_noted() {
    let fake = host();
    fake.put("proc/uptime", "7.50 1");
    thread(&fake, 10, 10, 1, 1, "0-3");
    let all = Options {
        move_threads: true,
        ..options("3")
    };
    let applied = apply(&fake.tree(), &plan(&fake.tree(), &all)).expect("a journal");
    thread(&fake, 11, 11, 10, 100_000, "0-2");
    fake.put("affinity/11.closed", "1");
    let restored = applied.end();
    assert!(
        restored.stay == 1 && restored.left[0].contains("taskset -pc 0-3 11"),
        "{restored:?}"
    );
    fake.remove("affinity/11.closed");
    assert_eq!(mend(&fake.tree()).stay, 0);
    assert_eq!(fake.get("affinity/11"), "0-3");
}
