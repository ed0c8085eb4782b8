//! `mpps isolate`: its command is alone with its exit code and signals, and what it changes of a host is there
//! while the command runs, and told: hosts made of files. Nothing here changes the host that the tests run on.

use std::fs;
use std::process::Command;

use mpps_tests::{Finished, HostOfFiles as Host, last_core as core, mpps, run, run_command, skip};

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
        .arg(host.root())
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
    all.arg(host.root()).args(["--", "true"]);
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
