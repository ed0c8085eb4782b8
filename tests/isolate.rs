//! `mpps isolate`: its command is alone with its exit code and signals, and a host made of files is as it was
//! afterwards, however the run ended. Nothing here changes the host that the tests run on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mpps_tests::{Background, Finished, mpps, run, run_command, skip, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The last core that this test may use.
fn core() -> usize {
    let text = fs::read_to_string("/proc/self/status").expect("/proc");
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let last = list.expect("a list").trim().rsplit([',', '-']).next().map(str::parse);
    last.expect("a core").expect("a number")
}

/// A host made of files, with one core more than the last of this one.
struct Host(TempDir);

impl Host {
    fn new() -> Self {
        let host = Self(tempfile::tempdir().expect("a folder"));
        fs::create_dir(host.path("run")).expect("a folder");
        let all = format!("0-{}", core() + 1);
        for (path, text) in [
            ("sys/devices/system/cpu/online", all.as_str()),
            ("proc/sys/kernel/random/boot_id", "one"),
            ("proc/irq/1/smp_affinity_list", &all),
            ("proc/sys/vm/stat_interval", "1"),
            ("proc/sys/kernel/timer_migration", "1"),
            ("proc/self/mountinfo", "30 20 0:26 / /cg rw - cgroup2 cgroup2 rw"),
            ("cg/cgroup.controllers", "cpuset"),
            ("cg/cgroup.subtree_control", "cpuset"),
            ("cg/cgroup.procs", ""),
            ("cg/mpps-isolate.new/cpuset.cpus", ""),
            ("cg/mpps-isolate.new/cgroup.procs", ""),
            ("cg/mpps-isolate.new/cpuset.cpus.partition", "member"),
        ] {
            host.put(path, text);
        }
        host
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, format!("{text}\n")).expect("a file");
    }

    fn get(&self, path: &str) -> String {
        fs::read_to_string(self.path(path))
            .unwrap_or_default()
            .trim()
            .to_owned()
    }

    /// `isolate` of the last core, without a measurement.
    fn isolate(&self, words: &str, command: &[&str]) -> Command {
        let mut isolate = mpps(&format!("isolate {} --measure 0 {words} --root", core()));
        isolate.arg(self.0.path()).arg("--").args(command);
        isolate
    }

    fn changed(&self) -> bool {
        self.get("cg/mpps-isolate/cpuset.cpus.partition") == "isolated"
    }

    /// Asserts that nothing of a run is left.
    fn is_as_it_was(&self) {
        let all = format!("0-{}", core() + 1);
        assert_eq!(self.get("proc/irq/1/smp_affinity_list"), all);
        assert_eq!(self.get("proc/sys/vm/stat_interval"), "1");
        assert_eq!(self.get("proc/sys/kernel/timer_migration"), "1");
        assert!(!self.path("cg/mpps-isolate").exists());
        assert_eq!(journals(&self.path("run/mpps")), 0);
    }
}

fn journals(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, |entries| entries.flatten().count())
}

/// Processes that a process has started.
fn children(process: u32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn lives(process: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Z: it has ended, and nobody has asked how.
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

fn refused(finished: &Finished, parts: &[&str]) {
    let told = &finished.stderr;
    assert_eq!((finished.code, told.trim_end().lines().count()), (Some(2), 1), "{told}");
    assert!(parts.iter().all(|part| told.contains(part)), "{parts:?}: {told}");
}

#[test]
fn a_command_has_the_cores_its_exit_code_and_standard_output_to_itself() {
    let words = format!(
        "isolate {} --measure 20ms --without interrupts,workqueues,sysctls,cpuset --",
        core()
    );
    let mut command = mpps(&words);
    command.args(["sh", "-c", "grep Cpus_allowed_list /proc/self/status; exit 5"]);
    let finished = run_command(command);
    assert_eq!(finished.code, Some(5), "{}", finished.stderr);
    assert_eq!(finished.stdout.trim(), format!("Cpus_allowed_list:\t{}", core()));
    for part in [
        "before",
        "isolated",
        "noise us",
        "left out (--without cpuset)",
        "changes are undone",
    ] {
        assert!(finished.stderr.contains(part), "{part}: {}", finished.stderr);
    }
}

#[test]
fn a_command_that_a_signal_ends_is_told_as_a_shell_tells_it() {
    let host = Host::new();
    let finished = run_command(host.isolate("--quiet", &["sh", "-c", "kill -9 $$"]));
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(137), ""));
    assert_eq!(run_command(host.isolate("--quiet", &["true"])).code, Some(0));
    host.is_as_it_was();
}

#[test]
fn the_host_is_changed_while_the_command_runs_and_as_it_was_afterwards() {
    let host = Host::new();
    let file = host.path("cg/mpps-isolate/cpuset.cpus").display().to_string();
    let finished = run_command(host.isolate("", &["cat", &file]));
    assert_eq!(
        (finished.code, finished.stdout.trim()),
        (Some(0), core().to_string().as_str())
    );
    assert!(
        finished.stderr.contains("a partition of its own"),
        "{}",
        finished.stderr
    );
    host.is_as_it_was();
}

#[test]
fn what_the_kernel_refuses_is_told_by_name_and_the_command_runs_all_the_same() {
    let host = Host::new();
    host.put(
        "cg/mpps-isolate.new/cpuset.cpus.partition.answers",
        "isolated=isolated invalid (no such luck)",
    );
    host.put("proc/irq/1/smp_affinity_list.answers", "*=!5");
    let finished = run_command(host.isolate("", &["true"]));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    for part in ["isolated invalid (no such luck)", "places it by itself"] {
        assert!(finished.stderr.contains(part), "{part}: {}", finished.stderr);
    }
    host.is_as_it_was();
}

#[test]
fn signals_reach_the_command_which_says_how_the_run_ends() {
    let host = Host::new();
    let ready = host.path("ready");
    for (signal, code) in [(Signal::USR1, 7), (Signal::TERM, 8), (Signal::INT, 9)] {
        let script = format!(
            "trap 'exit 7' USR1; trap 'exit 8' TERM; trap 'exit 9' INT; : > {}; while :; do sleep 0.02; done",
            ready.display()
        );
        let running = Background::start(host.isolate("--quiet", &["sh", "-c", &script]));
        wait_until("the command", || ready.exists());
        assert!(host.changed());
        let finished = running.end(signal);
        assert_eq!(finished.code, Some(code), "{}", finished.stderr);
        fs::remove_file(&ready).expect("a file");
        host.is_as_it_was();
    }
}

#[test]
fn nothing_is_left_of_a_run_that_is_killed() {
    let host = Host::new();
    let running = Background::start(host.isolate("--quiet", &["sleep", "1000"]));
    wait_until("the command", || host.changed() && children(running.id()).len() == 2);
    let started = children(running.id());
    let _ = running.end(Signal::KILL);
    wait_until("the end of the command and of the guardian", || {
        !started.iter().any(|&process| lives(process))
    });
    host.is_as_it_was();
}

#[test]
fn what_a_killed_run_and_guardian_leave_the_next_start_undoes() {
    let host = Host::new();
    for mends in [&["isolate", "--undo"][..], &["isolate"]] {
        let running = Background::start(host.isolate("--quiet", &["sleep", "1000"]));
        wait_until("the command", || host.changed() && children(running.id()).len() == 2);
        let started = children(running.id());
        for &process in &started {
            // The guardian first, or it would do its work.
            let _ = Pid::from_raw(process).map(|pid| kill_process(pid, Signal::STOP));
        }
        running.signal(Signal::KILL);
        for &process in &started {
            let _ = Pid::from_raw(process).map(|pid| kill_process(pid, Signal::KILL));
        }
        let _ = running.finish();
        wait_until("the end of both", || !started.iter().any(|&process| lives(process)));
        assert!(host.changed() && journals(&host.path("run/mpps")) == 1);
        let finished = match mends {
            [_, undo] => {
                let mut command = mpps(&format!("isolate {undo} --root"));
                command.arg(host.0.path());
                run_command(command)
            }
            _ => run_command(host.isolate("", &["true"])),
        };
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        assert!(
            finished.stderr.contains("of a run that was killed are undone"),
            "{}",
            finished.stderr
        );
        host.is_as_it_was();
    }
}

#[test]
fn a_second_run_at_the_same_time_is_refused_and_harms_nothing() {
    let host = Host::new();
    let running = Background::start(host.isolate("--quiet", &["sleep", "1000"]));
    wait_until("the command", || host.changed());
    let second = run_command(host.isolate("", &["true"]));
    assert_eq!(second.code, Some(1), "{}", second.stderr);
    assert!(
        second.stderr.contains("another `mpps isolate` runs"),
        "{}",
        second.stderr
    );
    assert!(host.changed());
    let _ = running.end(Signal::TERM);
    host.is_as_it_was();
}

#[test]
fn a_dry_run_prints_commands_that_a_shell_can_read_and_changes_nothing() {
    let host = Host::new();
    let finished = run_command(host.isolate("--dry-run", &["echo", "it's"]));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    for part in [
        "echo isolated > /cg/mpps-isolate/cpuset.cpus.partition",
        "isolcpus=",
        "# undo",
        "stat_interval",
    ] {
        assert!(finished.stdout.contains(part), "{part}: {}", finished.stdout);
    }
    host.is_as_it_was();
    let script = host.path("script");
    fs::write(&script, &finished.stdout).expect("a file");
    let mut shell = Command::new("bash");
    shell.arg("-n").arg(&script);
    let read = run_command(shell);
    assert_eq!(read.code, Some(0), "{}{}", read.stderr, finished.stdout);
}

#[test]
fn the_result_is_written_as_json() {
    let host = Host::new();
    let file = host.path("result.json");
    let mut command = mpps(&format!("isolate {} --measure 20ms --quiet --root", core()));
    command
        .arg(host.0.path())
        .arg("--json")
        .arg(&file)
        .args(["--", "sh", "-c", "exit 3"]);
    let finished = run_command(command);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(3), ""));
    let json: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).expect("a file")).expect("JSON");
    assert_eq!(
        (json["schema"].as_str(), json["exit_code"].as_u64()),
        (Some("mpps.isolate/1"), Some(3))
    );
    for state in ["before", "isolated"] {
        let noise = &json[state][0];
        assert_eq!(noise["cpu"].as_u64(), Some(core() as u64), "{json:#}");
        assert!(noise["period_us"].as_f64().is_some_and(|us| us >= 20_000.0), "{json:#}");
    }
    let parts = json["parts"].as_array().expect("parts");
    let applied = |name: &str| parts.iter().any(|part| part["part"] == name && part["applied"] == true);
    assert!(
        applied("cpuset") && applied("interrupts") && applied("sysctls"),
        "{json:#}"
    );
    assert!(json["undone"].as_u64().is_some_and(|n| n >= 4) && json["not_undone"] == serde_json::json!([]));
}

#[test]
fn wrong_arguments_are_refused_before_anything_is_changed() {
    let host = Host::new();
    let last = core() + 1;
    refused(&run("isolate --measure 0 -- true"), &["CORES"]);
    refused(&run("isolate x -- true"), &["CORES", "'x'", "0,2-3"]);
    for (words, parts) in [
        ("isolate 4000 -- true", &["4000"][..]),
        ("isolate 1000 -- true", &["CORES '1000'", "want some of them"]),
        ("isolate 0 --measure 3 -- true", &["--measure", "'3'", "3s"]),
        (
            "isolate 0 --without memory -- true",
            &["--without", "'memory'", "cpuset"],
        ),
        ("isolate 0 --nice 20 -- true", &["--nice", "20", "19"]),
        ("isolate 0 --fifo 0 -- true", &["--fifo", "0", "99"]),
        ("isolate 0 --fifo 5 --nice 5 -- true", &["--fifo", "--nice"]),
    ] {
        refused(&run(words), parts);
    }
    let mut all = mpps(&format!("isolate 0-{last} --root"));
    all.arg(host.0.path()).args(["--", "true"]);
    refused(&run_command(all), &["no core is left"]);
    refused(
        &run_command(host.isolate("", &["/no/such/program"])),
        &["/no/such/program", "no such file"],
    );
    refused(
        &run_command(host.isolate("--json /no/such/folder/x", &["true"])),
        &["--json", "/no/such/folder/x"],
    );
    host.is_as_it_was();
}

#[test]
fn a_priority_is_the_command_s_or_its_lack_is_told() {
    let host = Host::new();
    let finished = run_command(host.isolate("--nice 7", &["nice"]));
    assert_eq!(finished.stdout.trim(), "7", "{}", finished.stderr);
    if !rustix::process::geteuid().is_root() {
        return skip("only root may have a real-time priority");
    }
    let finished = run_command(host.isolate("--fifo 3", &["sh", "-c", "cut -d' ' -f40,41 /proc/$$/stat"]));
    assert_eq!(
        finished.stdout.trim(),
        "3 1",
        "priority and SCHED_FIFO: {}",
        finished.stderr
    );
    assert!(finished.stderr.contains("SCHED_FIFO 3"), "{}", finished.stderr);
}

#[test]
fn lanes_have_the_priority_that_is_asked_for_or_the_summary_says_why_not() {
    let finished = run("sendrecv loop: --rate 1kpps --duration 50ms --settle 10ms --nice 5 --quiet --json -");
    let json: serde_json::Value = serde_json::from_str(&finished.stdout).expect("JSON");
    assert_eq!(json["host"]["lane_priority"], "nice 5", "{json:#}");
    assert_eq!(json["plan"]["lanes"]["nice"], 5);
    refused(
        &run("reflect xdp:none0 --nice 5"),
        &["--nice 5", "xdp:none0", "left out"],
    );
    refused(&run("sendrecv loop: --fifo 100"), &["--fifo", "100", "99"]);
    let fifo = run("sendrecv loop: --rate 1kpps --duration 50ms --settle 10ms --fifo 2 --lanes 1 --quiet --json -");
    let json: serde_json::Value = serde_json::from_str(&fifo.stdout).expect("JSON");
    let warnings = json["warnings"].to_string();
    assert!(warnings.contains("--fifo 2"), "the trap is told: {warnings}");
    assert_eq!(
        warnings.contains("not SCHED_FIFO 2"),
        !rustix::process::geteuid().is_root(),
        "{warnings}"
    );
}
