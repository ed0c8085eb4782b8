//! Limits of the host: of files, CPU time, threads and memory, a quota of CPU time, users that are not there. A run is
//! refused in one line, or ends with its results, and its report names the limit.

use mpps_tests::{
    Answer, Background, Call, Finished, Group, Hierarchy, Scratch, Traced, answered, missing, mpps, program,
    run_command, skip, skip_disturbed, wait_until,
};
use rustix::process::Signal;
use std::process::Command;

const NOWHERE: &str = "--src 10.0.0.1 --dest 10.0.0.2:9000";

/// The same command with limits of `prlimit`.
fn limited(limits: &str, command: &Command) -> Command {
    let mut limited = Command::new("prlimit");
    limited.args(limits.split(' ')).arg("--");
    limited.arg(command.get_program()).args(command.get_args());
    limited
}

/// One line of this program's, and no panic.
fn assert_one_line(finished: &Finished, parts: &[&str]) {
    let said = &finished.stderr;
    assert!(!said.contains("panicked"), "{said}");
    let lines: Vec<_> = said.lines().filter(|line| line.starts_with("mpps: ")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    for part in parts {
        assert!(lines[0].contains(part), "{part}: {said}");
    }
}

fn json(scratch: &Scratch, name: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(scratch.file(name)).expect("a summary");
    serde_json::from_str(&text).expect("JSON")
}

/// Sentences of a run: reasons and warnings.
fn told(json: &serde_json::Value) -> Vec<String> {
    let of = |key: &str| json[key].as_array().cloned().unwrap_or_default();
    let all = of("invalid_reasons").into_iter().chain(of("warnings"));
    all.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

#[test]
fn a_file_that_reaches_the_size_limit_is_reported_as_one_on_a_full_disk_and_counting_goes_on() {
    if missing("prlimit", "util-linux") {
        return;
    }
    for (option, file, most) in [
        ("--csv", "x.csv", 4000),
        ("--json-lines", "x.jsonl", 4000),
        ("--hdr", "x.hlog", 1500),
    ] {
        let scratch = Scratch::new();
        let words = format!("sendrecv loop: {NOWHERE} --rate 2kpps --duration 1s --interval 2ms --json -");
        let mut command = mpps(&words);
        command.arg(option).arg(scratch.file(file));
        let finished = run_command(limited(&format!("--fsize={most}"), &command));
        let json: serde_json::Value = serde_json::from_str(&finished.stdout).expect("the summary, which had room");
        let count = |key: &str| json[key].as_u64().expect("a count");
        assert!(finished.code.is_some(), "{option}: ended by a signal");
        assert_eq!(count("tx_packets") + count("missed"), 2000, "{option}: {json:#}");
        let all = format!("{:?}{}", told(&json), finished.stderr);
        assert!(all.contains(file) && all.contains("File too large"), "{option}: {all}");
        let size = std::fs::metadata(scratch.file(file)).expect("what fitted").len();
        assert!(size <= most, "{option}: {size}");
    }
}

#[test]
fn a_summary_or_trace_beyond_the_size_limit_fails_in_one_line_and_ends_by_no_signal() {
    if missing("prlimit", "util-linux") {
        return;
    }
    for option in ["--json", "--trace", "--markdown"] {
        let scratch = Scratch::new();
        let mut command = mpps(&format!("send null: {NOWHERE} --rate 2kpps --duration 300ms --quiet"));
        command.arg(option).arg(scratch.file("x"));
        let finished = run_command(limited("--fsize=200", &command));
        assert_eq!(finished.code, Some(1), "{option}: {}", finished.stderr);
        assert!(
            finished.stderr.contains("File too large"),
            "{option}: {}",
            finished.stderr
        );
    }
}

#[test]
fn a_run_whose_cpu_time_is_spent_ends_early_with_its_results() {
    if missing("prlimit", "util-linux") {
        return;
    }
    for (limit, words) in [
        ("--cpu=1:20", "send null:"),
        ("--cpu=2:30", "sendrecv loop: --settle 50ms --busy-poll"),
    ] {
        let scratch = Scratch::new();
        let mut command = mpps(&format!("{words} {NOWHERE} --duration 10m"));
        command.arg("--json").arg(scratch.file("run.json"));
        let finished = run_command(limited(limit, &command));
        assert!(
            finished.code.is_some(),
            "{limit}: ended by a signal: {}",
            finished.stderr
        );
        let json = json(&scratch, "run.json");
        assert_eq!(json["interrupted"], true, "{json:#}");
        assert!(json["tx_packets"].as_u64().is_some_and(|n| n > 0), "{json:#}");
        assert!(told(&json).iter().any(|text| text.contains("ulimit -t")), "{json:#}");
    }
}

#[test]
fn a_limit_of_cpu_time_that_kills_is_said_at_the_start() {
    if missing("prlimit", "util-linux") {
        return;
    }
    let words = format!("send null: {NOWHERE} --rate 1kpps --duration 200ms");
    let finished = run_command(limited("--cpu=600", &mpps(&words)));
    assert!(
        finished.stderr.contains("CPU time is limited to 600 s"),
        "{}",
        finished.stderr
    );
    let finished = run_command(limited("--cpu=600:700", &mpps(&words)));
    assert!(!finished.stderr.contains("CPU time is limited"), "{}", finished.stderr);
}

#[test]
fn a_hang_up_that_is_ignored_ends_no_run_and_ctrl_c_does_all_the_same() {
    let scratch = Scratch::new();
    let ignoring = |signals: &str, command: Command| {
        let mut ignoring = Command::new("sh");
        ignoring.args(["-c", &format!("trap '' {signals}; exec \"$@\""), "sh"]);
        ignoring.arg(command.get_program()).args(command.get_args());
        ignoring
    };
    let words = "sendrecv loop: --rate 2kpps --duration 1h --settle 50ms --interval 10ms";
    // As nohup, and as `command &` of a script, which begins with SIGINT ignored.
    let mut run = Background::start(ignoring("HUP INT", scratch.results(mpps(words))));
    wait_until("rows", || scratch.busy_rows() >= 2);
    run.signal(Signal::HUP);
    let rows = scratch.busy_rows();
    wait_until("more rows", || scratch.busy_rows() >= rows + 20);
    assert!(run.running());
    let report = scratch.read(run.end(Signal::INT));
    assert_eq!(report.json["interrupted"], true);
    // Where it is not ignored it ends the run, with its results.
    let scratch = Scratch::new();
    let run = Background::start(scratch.results(mpps(words)));
    wait_until("rows", || scratch.busy_rows() >= 2);
    assert_eq!(scratch.read(run.end(Signal::HUP)).json["interrupted"], true);
}

#[test]
fn a_command_under_isolate_or_trace_peer_keeps_a_hang_up_ignored() {
    let mut command = Command::new("sh");
    let script = r#"
        trap '' HUP
        without=interrupts,workqueues,sysctls,idle-states,cpuset
        exec "$0" isolate 0 --measure 0 --without $without -- sh -c 'trap; trap "" HUP; kill -HUP $PPID; echo on'
    "#;
    command.args(["-c", script]).arg(program());
    let finished = run_command(command);
    assert!(finished.stdout.contains("on"), "{}{}", finished.stdout, finished.stderr);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
}

#[test]
fn where_no_thread_can_be_started_one_line_says_why() {
    // The control group: of the first thread, and of a later one.
    if let Some(group) = Group::new("pids", "threads") {
        for most in ["1", "2"] {
            if !group.put("pids.max", most) {
                return;
            }
            let words = format!("sendrecv loop: {NOWHERE} --rate 1kpps --duration 200ms --quiet");
            let finished = run_command(group.hold(&mpps(&words)));
            assert_eq!(finished.code, Some(1), "{}", finished.stderr);
            assert_one_line(&finished, &[&group.name(), "pids.max", most]);
        }
        assert!(group.put("pids.max", "1"));
        // It says what it could find out.
        let finished = run_command(group.hold(&mpps("doctor")));
        assert!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
        assert!(
            finished.stdout.contains("findings"),
            "{}{}",
            finished.stdout,
            finished.stderr
        );
    }
    // A limit of the user's.
    if rustix::process::geteuid().is_root() && !missing("setpriv", "util-linux") {
        for words in [
            "sendrecv udp:127.0.0.1:0 --dest 127.0.0.1:9 --duration 100ms",
            "plot x.csv -o x.svg",
        ] {
            let mut command = Command::new("setpriv");
            command.args([
                "--reuid",
                "65533",
                "--regid",
                "65533",
                "--clear-groups",
                "prlimit",
                "--nproc=1",
                "--",
            ]);
            let run = mpps(words);
            command.arg(run.get_program()).args(run.get_args());
            let finished = run_command(command);
            assert_ne!(finished.code, Some(101), "{}", finished.stderr);
            assert!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
        }
    }
}

#[test]
fn a_sandbox_that_refuses_to_start_threads_is_named() {
    for words in [
        "sendrecv loop: --duration 100ms --quiet",
        "send null: --duration 100ms --quiet",
        "drop null:",
    ] {
        let Some(command) = answered(Call::Clone3, Answer::NotPermitted, &mpps(words)) else {
            return;
        };
        let finished = run_command(command);
        assert_eq!(finished.code, Some(1), "{words}: {}", finished.stderr);
        assert_one_line(&finished, &["sandbox", "clone3"]);
    }
    // Where it answers as an old kernel does there is another way.
    let words = "sendrecv loop: --rate 1kpps --duration 100ms --quiet";
    let Some(command) = answered(Call::Clone3, Answer::NoSuchCall, &mpps(words)) else {
        return;
    };
    let finished = run_command(command);
    assert!(matches!(finished.code, Some(0 | 3)), "{}", finished.stderr);
}

#[test]
fn a_user_of_sudo_that_the_user_namespace_does_not_have_is_nobody_to_become() {
    if missing("unshare", "util-linux") {
        return;
    }
    let scratch = Scratch::new();
    for (uid, gid) in [("1000", "1000"), ("70000", "0"), ("1", "5")] {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user"]).arg(program());
        command.args(["send", "null:", "--rate", "1kpps", "--duration", "100ms", "--json"]);
        command.arg(scratch.file("run.json"));
        command
            .env("SUDO_UID", uid)
            .env("SUDO_GID", gid)
            .env("SUDO_USER", "nobody");
        let finished = run_command(command);
        if finished.stderr.contains("unshare") {
            return skip("no user namespace can be made here");
        }
        assert!(matches!(finished.code, Some(0 | 3)), "{uid}: {}", finished.stderr);
        assert!(json(&scratch, "run.json")["tx_packets"].as_u64() > Some(0));
    }
}

#[test]
fn what_a_control_group_has_no_memory_for_is_refused_with_what_fits() {
    let Some(group) = Group::new("memory", "memory") else {
        return;
    };
    let file = match group.hierarchy {
        Hierarchy::One => "memory.limit_in_bytes",
        Hierarchy::Two => "memory.max",
    };
    if !group.put(file, "100000000") {
        return;
    }
    let wide = "--src 10.1.0.1-10.1.255.254 --src-port-range 1000-1999 --dest 10.0.0.2:9000";
    for (words, fits) in [
        (
            format!("sendrecv loop: {wide} --flows 1000000 --duration 100ms"),
            "at most",
        ),
        ("drop null: --max-flows 1000000 --duration 100ms".to_owned(), "at most"),
        (
            format!("send null: {NOWHERE} --trace x --trace-memory 1GB --duration 100ms"),
            "at most",
        ),
    ] {
        let finished = run_command(group.hold(&mpps(&words)));
        assert_eq!(finished.code, Some(2), "{words}: {}", finished.stderr);
        assert_one_line(&finished, &[fits, file, &group.name()]);
    }
    // The rings that a port has by default count, too; and the size that is offered is one that runs.
    if !group.put(file, "150000000") {
        return;
    }
    let scratch = Scratch::new();
    let capture = |buffer: &str| {
        let words = format!("capture af_packet:lo --buffer {buffer} --duration 100ms --quiet");
        let mut command = mpps(&words);
        command.arg("-o").arg(scratch.file("x.pcapng"));
        run_command(group.hold(&command))
    };
    let refused = capture("300MiB");
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    let offered = refused
        .stderr
        .split("want ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let offered = offered.unwrap_or_else(|| panic!("a size: {}", refused.stderr));
    let finished = capture(offered);
    assert_eq!(finished.code, Some(0), "{offered}: {}", finished.stderr);
}

/// Sentences with the CPU quota, of a run that was held in a group with one.
fn assert_names_quota(json: &serde_json::Value, group: &Group) {
    let all = told(json);
    let quota = format!("the CPU quota of control group {}", group.name());
    let named: Vec<_> = all.iter().filter(|text| text.contains(&quota)).collect();
    assert!(!named.is_empty(), "{all:#?}");
    assert!(named[0].contains("it withheld"), "{named:?}");
    // Nobody else took what the quota withheld.
    assert!(all.iter().all(|text| !text.contains("ran for")), "{all:#?}");
    assert!(all.iter().all(|text| !text.contains("cores were taken by")), "{all:#?}");
    assert!(all.iter().all(|text| !text.contains("was frozen")), "{all:#?}");
    assert!(
        json["cpu_quota"]["withheld_ns"].as_u64() > Some(0),
        "{:#}",
        json["cpu_quota"]
    );
}

/// The result of a run in a group with a quota. Where other programs took more of its time than the quota withheld it
/// is run again; `None`: they do not stop.
fn held(group: &Group, command: impl Fn(&Scratch) -> std::process::Command) -> Option<serde_json::Value> {
    for _ in 0..5 {
        let scratch = Scratch::new();
        run_command(group.hold(&command(&scratch)));
        let json = json(&scratch, "run.json");
        let others = json["kept_off"]["by"] != "cpu_quota";
        if !(others
            && told(&json)
                .iter()
                .any(|text| text.contains(" as well (the sum over cores)")))
        {
            return Some(json);
        }
    }
    skip_disturbed("other programs take more of the cores than the quota withholds");
    None
}

fn with_quota(group: &Group, quota_us: u32, period_us: u32) -> bool {
    match group.hierarchy {
        Hierarchy::One => {
            group.put("cpu.cfs_period_us", &period_us.to_string())
                && group.put("cpu.cfs_quota_us", &quota_us.to_string())
        }
        Hierarchy::Two => group.put("cpu.max", &format!("{quota_us} {period_us}")),
    }
}

#[test]
fn a_cpu_quota_that_keeps_lanes_from_running_is_named_and_no_program_that_ran_meanwhile() {
    let Some(group) = Group::new("cpu", "quota") else {
        return;
    };
    let _rival = mpps_tests::rival();
    for (quota_us, period_us, words) in [
        // So little that it is used up soon, on a busy host, too.
        (10_000, 100_000, "send null: --rate 2Mpps"),
        (
            10_000,
            200_000,
            "sendrecv loop: --rate 200kpps --busy-poll --settle 50ms",
        ),
    ] {
        if !with_quota(&group, quota_us, period_us) {
            return;
        }
        let words = format!("{words} {NOWHERE} --duration 2s");
        let Some(json) = held(&group, |scratch| scratch.results(mpps(&words))) else {
            return;
        };
        assert_eq!(json["valid"], false, "{json:#}");
        assert_names_quota(&json, &group);
        assert_eq!(json["cpu_quota"]["quota_us"], quota_us);
    }
}

#[test]
fn a_cpu_quota_is_named_where_ip_netns_exec_hides_the_control_groups() {
    let Some(group) = Group::new("cpu", "hidden") else {
        return;
    };
    let Some(net) = mpps_tests::net_of(1) else { return };
    if !with_quota(&group, 10_000, 100_000) {
        return;
    }
    let words = format!("send null: --rate 2Mpps {NOWHERE} --duration 2s");
    if let Some(json) = held(&group, |scratch| scratch.results(net.a(&words))) {
        assert_names_quota(&json, &group);
    }
}

#[test]
fn a_trace_names_the_quota_too() {
    let Some(group) = Group::new("cpu", "traced") else {
        return;
    };
    if !with_quota(&group, 10_000, 100_000) {
        return;
    }
    let _rival = mpps_tests::rival();
    let folder = Scratch::new();
    let words = format!("send null: --rate 2Mpps {NOWHERE} --duration 2s");
    let done = run_command(group.hold(&folder.traced(mpps(&words))));
    let traced = Traced::of(folder, &done);
    // On a busy host the rival can take more than the quota withholds: the verdict then names both.
    let all = told(&traced.json);
    let quota = format!("the CPU quota of control group {}", group.name());
    assert!(all.iter().any(|text| text.contains(&quota)), "{all:#?}");
    let why = traced.why();
    let first = why
        .iter()
        .find(|text| text.contains("departures were missed"))
        .expect("missed");
    assert!(first.contains(&quota), "{first}");
    let table = traced.told("table");
    assert!(table.contains("CPU quota"), "{table}");
}

#[test]
fn a_limit_of_real_time_threads_is_named_and_no_program_that_ran_meanwhile() {
    let Some(group) = Group::new("cpu", "fifo") else { return };
    if !group.has("cpu.rt_runtime_us") {
        return mpps_tests::skip("this kernel has no real-time limit of control groups");
    }
    let _rival = mpps_tests::rival();
    for (granted_us, words) in [(200_000, "send null:"), (100_000, "send null: --rate 2Mpps")] {
        if !group.put("cpu.rt_runtime_us", &granted_us.to_string()) {
            return;
        }
        let scratch = Scratch::new();
        let words = format!("{words} {NOWHERE} --duration 2s --fifo 5");
        run_command(group.hold(&scratch.results(mpps(&words))));
        let json = json(&scratch, "run.json");
        assert_eq!(json["kept_off"]["by"], "real_time", "{json:#}");
        let told = told(&json).join("\n");
        let granted = format!("grants them {granted_us}.0 ms").replace("000.0", ".0");
        assert!(told.contains(&group.name()) && told.contains(&granted), "{told}");
        assert!(!told.contains("meanwhile"), "{told}");
    }
}

#[test]
fn without_a_quota_none_is_named() {
    let Some(group) = Group::new("cpu", "free") else { return };
    let scratch = Scratch::new();
    let words = format!("send null: --rate 100kpps {NOWHERE} --duration 300ms");
    run_command(group.hold(&scratch.results(mpps(&words))));
    let json = json(&scratch, "run.json");
    assert!(json["cpu_quota"].is_null(), "{:#}", json["cpu_quota"]);
    assert!(told(&json).iter().all(|text| !text.contains("quota")), "{json:#}");
}
