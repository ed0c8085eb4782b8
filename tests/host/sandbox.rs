//! Hosts that hide or forbid something: `/proc`, `/sys`, io_uring, BPF, cores, real-time priority. What can't be read
//! is reported as not known, and a remedy is offered only where it is possible.

use mpps_tests::{
    Answer, Background, Call, Finished, Group, Hierarchy, Scratch, answered, free_port, missing, mpps, net_of, program,
    run_command, skip,
};
use std::process::Command;

const NOWHERE: &str = "--src 10.0.0.1 --dest 10.0.0.2:9000";

/// One line of this program's, with these parts.
fn assert_one_line(finished: &Finished, parts: &[&str]) {
    let lines: Vec<_> = finished
        .stderr
        .lines()
        .filter(|line| line.starts_with("mpps: "))
        .collect();
    assert_eq!(lines.len(), 1, "{}", finished.stderr);
    for part in parts {
        assert!(lines[0].contains(part), "{part}: {}", lines[0]);
    }
}

/// `mpps` where an empty file system hides these folders. `None`, and said, where none can be mounted.
fn hidden(folders: &str, words: &str) -> Option<Finished> {
    let script = r#"for folder in $0; do mount -t tmpfs none "$folder" || exit 99; done; exec "$@""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, folders]).arg(program());
    command.args(words.split_whitespace());
    for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
        command.env_remove(name);
    }
    let finished = run_command(command);
    if finished.code == Some(99) || finished.stderr.contains("unshare") {
        skip("nothing can be mounted here");
        return None;
    }
    Some(finished)
}

#[test]
fn runs_go_on_where_proc_or_sys_is_hidden_and_name_the_kernel() {
    let release = run_command({
        let mut uname = Command::new("uname");
        uname.arg("-r");
        uname
    });
    for folders in ["/proc", "/sys", "/proc /sys"] {
        let words = format!("sendrecv loop: --rate 5kpps {NOWHERE} --duration 200ms --settle 50ms --quiet --json -");
        let Some(finished) = hidden(folders, &words) else {
            return;
        };
        assert!(matches!(finished.code, Some(0 | 3)), "{folders}: {}", finished.stderr);
        let json: serde_json::Value = serde_json::from_str(&finished.stdout).expect("JSON");
        assert_eq!(json["host"]["kernel"], release.stdout.trim(), "{folders}: {json:#}");
        let count = |key: &str| json[key].as_u64().expect("a count");
        assert_eq!(count("tx_packets"), count("rx_packets") + count("lost") + count("late"));
    }
}

#[test]
fn doctor_fails_no_path_that_works_where_proc_or_sys_is_hidden() {
    let paths = |finished: &Finished| -> Vec<(String, String)> {
        let json: serde_json::Value = serde_json::from_str(&finished.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}{}", finished.stdout, finished.stderr));
        let findings = json["findings"].as_array().expect("findings");
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let of_paths = findings
            .iter()
            .filter(|finding| finding["area"] == "paths" && finding["item"] != "kernel");
        of_paths
            .map(|finding| (text(&finding["item"]), text(&finding["status"])))
            .collect()
    };
    let all = paths(&run_command(mpps("doctor --json")));
    for folders in ["/proc", "/sys", "/proc /sys"] {
        let Some(finished) = hidden(folders, "doctor --json") else {
            return;
        };
        let now = paths(&finished);
        for path in ["udp", "io_uring", "af_packet", "af_xdp", "xdp"] {
            let of = |list: &[(String, String)]| list.iter().find(|(name, _)| name == path).cloned();
            assert_eq!(of(&all), of(&now), "{folders}");
        }
        assert!(
            finished.stdout.contains("could not be read"),
            "{folders}: {}",
            finished.stdout
        );
    }
}

#[test]
fn what_is_not_known_of_the_cores_is_not_judged_where_their_folder_is_hidden() {
    let Some(finished) = hidden("/sys/devices/system", "doctor --json") else {
        return;
    };
    let json: serde_json::Value = serde_json::from_str(&finished.stdout).expect("JSON");
    let findings = json["findings"].as_array().expect("findings");
    for item in ["online", "SMT", "isolated", "nohz_full"] {
        let of = findings.iter().find(|of| of["area"] == "cores" && of["item"] == item);
        let of = of.unwrap_or_else(|| panic!("no {item}: {json:#}"));
        let told = of["finding"].as_str().expect("words");
        assert!(
            told.contains("could not be read") || told.starts_with("not known"),
            "{told}"
        );
        assert_eq!(of["status"], "info", "{told}");
    }
    let Some(isolate) = hidden("/sys/devices/system", "isolate 1 -- true") else {
        return;
    };
    assert_eq!(isolate.code, Some(2), "{}", isolate.stderr);
    assert!(
        isolate.stderr.contains("which cores this host has is not known"),
        "{}",
        isolate.stderr
    );
}

#[test]
fn ports_of_the_hosts_own_programs_are_not_guessed_where_proc_is_hidden() {
    let Some(net) = net_of(1) else { return };
    let script = r#"mount -t tmpfs none /proc && exec "$@""#;
    let on_b = |words: &str| {
        let run = net.b(words);
        let mut command = Command::new("unshare");
        // Behind `ip netns exec`, which needs /proc itself.
        let arguments: Vec<_> = run.get_args().collect();
        let place = arguments
            .iter()
            .position(|word| *word == program().as_os_str())
            .unwrap_or(0);
        command = {
            let mut inner = Command::new(run.get_program());
            inner.args(&arguments[..place]);
            inner.arg(command.get_program());
            inner.args(["--mount", "sh", "-c", script, "sh"]);
            inner.args(&arguments[place..]);
            inner
        };
        run_command(command)
    };
    for workload in ["reflect", "drop"] {
        let finished = on_b(&format!("{workload} af_packet:eth1 --duration 200ms"));
        assert_eq!(
            finished.code,
            Some(2),
            "{workload}: {}{}",
            finished.stdout,
            finished.stderr
        );
        assert_one_line(&finished, &["ip_local_port_range", "--port A-B"]);
        let finished = on_b(&format!(
            "{workload} af_packet:eth1 --port 9000-9999 --duration 200ms --quiet --json -"
        ));
        assert_eq!(finished.code, Some(0), "{workload}: {}", finished.stderr);
        let json: serde_json::Value = serde_json::from_str(&finished.stdout).expect("JSON");
        assert_eq!(json["host"]["takes_ports"], "9000-9999", "{json:#}");
    }
}

#[test]
fn where_a_sandbox_forbids_io_uring_one_line_says_so_and_names_udp() {
    let port = free_port();
    let words = &format!("sendrecv io_uring:127.0.0.1 --dest 127.0.0.1:{port} --duration 100ms");
    for (answer, why) in [
        (Answer::NotPermitted, "sandbox"),
        (Answer::NoSuchCall, "a sandbox (seccomp) hides it"),
        (Answer::NotSupported, "a sandbox (seccomp) hides it"),
    ] {
        let Some(command) = answered(Call::IoUringSetup, answer, &mpps(words)) else {
            return;
        };
        let finished = run_command(command);
        assert_eq!(finished.code, Some(1), "{answer:?}: {}", finished.stderr);
        assert_one_line(&finished, &["io_uring", why, "want the path udp"]);
    }
    for (call, name) in [
        (Call::IoUringEnter, "io_uring_enter(2)"),
        (Call::IoUringRegister, "io_uring_register(2)"),
    ] {
        let Some(command) = answered(call, Answer::NotPermitted, &mpps(words)) else {
            return;
        };
        assert_one_line(&run_command(command), &[name, "sandbox", "want the path udp"]);
        let hidden = answered(call, Answer::NoSuchCall, &mpps(words)).expect("as before");
        let hidden = run_command(hidden);
        assert_one_line(&hidden, &[name, "a sandbox (seccomp) hides it"]);
        assert!(!hidden.stderr.contains("no io_uring,"), "{}", hidden.stderr);
        let doctor = answered(call, Answer::NotPermitted, &mpps("doctor io_uring --json")).expect("as before");
        let doctor = run_command(doctor);
        let named = doctor.stdout.contains(name.trim_end_matches("(2)"));
        assert!(named && doctor.code == Some(1), "{doctor:?}");
    }
    for words in ["reflect io_uring:127.0.0.1", "drop io_uring:[::1]"] {
        let words = format!("{words}:{port} --duration 100ms");
        let Some(command) = answered(Call::IoUringSetup, Answer::NotPermitted, &mpps(&words)) else {
            return;
        };
        assert_one_line(&run_command(command), &["sandbox", "want the path udp"]);
    }
}

#[test]
fn where_a_sandbox_forbids_bpf_one_line_says_so_and_names_udp() {
    let Some(net) = net_of(1) else { return };
    for answer in [Answer::NotPermitted, Answer::NoSuchCall, Answer::NotSupported] {
        for words in ["drop xdp:eth1", "drop af_xdp:eth1", "reflect af_xdp:eth1,mode=skb"] {
            let Some(command) = answered(Call::Bpf, answer, &net.b(&format!("{words} --duration 200ms"))) else {
                return;
            };
            let finished = run_command(command);
            assert_eq!(finished.code, Some(1), "{answer:?} {words}: {}", finished.stderr);
            assert_one_line(&finished, &["bpf", "sandbox", "want the path udp"]);
        }
    }
    let Some(command) = answered(Call::Bpf, Answer::NotPermitted, &mpps("doctor xdp")) else {
        return;
    };
    let finished = run_command(command);
    assert_eq!(finished.code, Some(1), "{}", finished.stdout);
    // It is folded to the width of the terminal.
    let text = finished.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("a sandbox (seccomp) forbids it"), "{text}");
    // Root has all that it could be given.
    assert!(!text.contains("setcap"), "{text}");
}

#[test]
fn a_priority_that_the_control_group_refuses_asks_root_for_no_root() {
    let Some(group) = Group::new("cpu", "realtime") else {
        return;
    };
    if group.hierarchy == Hierarchy::Two || !group.has("cpu.rt_runtime_us") {
        return skip("this kernel has no real-time limit of control groups");
    }
    if !group.put("cpu.rt_runtime_us", "0") {
        return;
    }
    let words = format!("send null: --rate 1kpps {NOWHERE} --duration 200ms --fifo 3 --quiet --json -");
    let finished = run_command(group.hold(&mpps(&words)));
    let json: serde_json::Value = serde_json::from_str(&finished.stdout).expect("JSON");
    let told = format!("{:#}", json["warnings"]);
    assert!(
        told.contains("normal priority") && told.contains("cpu.rt_runtime_us is 0"),
        "{told}"
    );
    assert!(told.contains(&group.name()) && !told.contains("want root"), "{told}");
}

#[test]
fn a_priority_that_a_user_lacks_the_right_to_names_the_right() {
    if !rustix::process::geteuid().is_root() {
        return skip("becoming another user needs root");
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", "65533", "--regid", "65533", "--clear-groups"])
        .arg(program());
    let words = format!("send null: --rate 1kpps {NOWHERE} --duration 200ms --nice -5 --quiet --json -");
    command.args(words.split_whitespace());
    let finished = run_command(command);
    if finished.code.is_none_or(|code| code > 3) {
        return skip(&format!(
            "the program is where another user can't start it: {}",
            finished.stderr
        ));
    }
    let json: serde_json::Value = serde_json::from_str(&finished.stdout).expect("JSON");
    assert!(
        format!("{:#}", json["warnings"]).contains("want root, or CAP_SYS_NICE"),
        "{:#}",
        json["warnings"]
    );
}

#[test]
fn doctor_offers_no_cores_that_a_cpuset_refuses() {
    let Some(group) = Group::new("cpuset", "cores") else {
        return;
    };
    let memory = group.hierarchy == Hierarchy::Two || group.put("cpuset.mems", "0");
    if !memory || !group.put("cpuset.cpus", "0") {
        return;
    }
    let finished = run_command(group.hold(&mpps("doctor")));
    let all = &finished.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    if !all.contains("this process may use 1 of") {
        return skip("this host has one core");
    }
    assert!(all.contains("(cpuset) allows no others"), "{all}");
    assert!(!all.contains("taskset -c") && !all.contains("mpps isolate"), "{all}");
    let refused = run_command(group.hold(&mpps("isolate 1 --measure 10ms -- true")));
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert_one_line(
        &refused,
        &["CORES 1", "(cpuset) does not allow core 1", "want some of [0]"],
    );
    // What taskset has narrowed it widens.
    let run = mpps("doctor");
    let mut narrowed = Command::new("taskset");
    narrowed.args(["-c", "0"]).arg(run.get_program()).args(run.get_args());
    let finished = run_command(narrowed);
    let text = finished.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("taskset -c 0-"), "{text}");
}

#[test]
fn a_guard_that_bpf_can_not_make_is_left_out_by_name() {
    let Some(net) = net_of(1) else { return };
    let reflect = net.b("reflect af_packet:eth1,guard=on --duration 200ms");
    let Some(command) = answered(Call::Bpf, Answer::NotPermitted, &reflect) else {
        return;
    };
    let finished = run_command(command);
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    assert_one_line(&finished, &["bpf", "sandbox", "guard=off"]);
    // And that does it.
    let reflect = net.b("reflect af_packet:eth1,guard=off --duration 200ms");
    let Some(command) = answered(Call::Bpf, Answer::NotPermitted, &reflect) else {
        return;
    };
    assert_eq!(run_command(command).code, Some(0));
}

#[test]
fn doctor_says_yes_or_no_to_nothing_that_is_hidden_and_offers_no_setting_that_is_read_only() {
    let findings = |finished: &Finished| -> Vec<serde_json::Value> {
        let json: serde_json::Value = serde_json::from_str(&finished.stdout).expect("JSON");
        json["findings"].as_array().expect("findings").clone()
    };
    for (folders, area, item) in [
        ("/proc", "network stack", "irqbalance"),
        ("/proc", "hypervisor", "virtual"),
        ("/sys", "cores", "SMT"),
        ("/sys", "memory", "NUMA"),
    ] {
        let Some(finished) = hidden(folders, "doctor --json") else {
            return;
        };
        let all = findings(&finished);
        let found = all
            .iter()
            .find(|finding| finding["area"] == area && finding["item"] == item);
        let found = found.unwrap_or_else(|| panic!("no {area}/{item}"));
        assert_eq!(found["finding"], format!("not known: {folders} is hidden here"));
    }
    let script = r#"mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys || exit 99; exec "$@""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(program());
    command.args(["doctor", "--json"]);
    let finished = run_command(command);
    if finished.code == Some(99) {
        return skip("nothing can be mounted here");
    }
    for finding in findings(&finished) {
        let command = finding["command"].as_str().unwrap_or_default();
        assert!(
            !command.starts_with("sysctl -w") && !command.contains("> /proc/sys/"),
            "{finding:#}"
        );
    }
}

/// `mpps` as in a container with `--read-only` and a user without rights: libraries, /proc, /sys and a few devices, all
/// read-only. No /tmp, no home, no environment. `None`, and said, where such a root can't be made.
fn contained(scratch: &Scratch, words: &str) -> Option<Finished> {
    if missing("setpriv", "util-linux") || missing("chroot", "coreutils") {
        return None;
    }
    let script = r#"
        root=$0/root; mkdir -p "$root" && mount -t tmpfs none "$root" && cd "$root" || exit 99
        mkdir -p proc sys dev bin etc && touch dev/null dev/urandom bin/mpps bin/setpriv || exit 99
        for folder in /lib /lib64 /usr/lib /usr/lib64; do
            [ ! -d "$folder" ] || { mkdir -p ".$folder" && mount --bind "$folder" ".$folder" &&
                mount -o remount,bind,ro ".$folder"; } || exit 99
        done
        mount --bind "$1" bin/mpps && mount --bind "$(command -v setpriv)" bin/setpriv || exit 99
        mount --bind /dev/null dev/null && mount --bind /dev/urandom dev/urandom || exit 99
        mount -t proc -o ro none proc && mount -t sysfs -o ro none sys && mount -o remount,ro "$root" || exit 99
        shift
        exec env -i PATH=/bin "$(command -v chroot)" "$root" setpriv --reuid 65534 --regid 65534 --clear-groups \
            --inh-caps=-all --bounding-set=-all --no-new-privs mpps "$@""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(scratch.path());
    command.arg(program()).args(words.split_whitespace());
    let finished = run_command(command);
    if finished.code == Some(99) || finished.stderr.contains("unshare") {
        skip("no root of its own can be made here");
        return None;
    }
    Some(finished)
}

#[test]
fn a_user_without_rights_on_a_read_only_root_without_tmp_or_home_measures_and_looks_at_the_host() {
    let scratch = Scratch::new();
    let port = free_port();
    let reflector = Background::ready(mpps(&format!("reflect udp:127.0.0.1:{port}")));
    let udp = format!("sendrecv udp:127.0.0.1 --dest 127.0.0.1:{port}");
    for workload in ["sendrecv loop:", &udp] {
        for output in ["--json -", "--json-lines -", "--csv -"] {
            let words =
                format!("{workload} --rate 2kpps --duration 300ms --settle 100ms --catch-up 1s --quiet {output}");
            let Some(finished) = contained(&scratch, &words) else {
                return;
            };
            let context = format!("{words}: {}{}", finished.stdout, finished.stderr);
            assert!(matches!(finished.code, Some(0 | 3)), "{context}");
            assert!(!finished.stderr.contains("mpps: "), "{context}");
            if output == "--json -" {
                let json: serde_json::Value = serde_json::from_str(&finished.stdout).expect("JSON");
                assert_eq!(json["tx_packets"], 600, "{context}");
                assert!(json["rx_packets"].as_u64().is_some_and(|count| count > 0), "{context}");
            } else {
                assert!(finished.stdout.lines().count() > 1, "{context}");
            }
        }
    }
    let doctor = contained(&scratch, "doctor --json").expect("as before");
    assert!(matches!(doctor.code, Some(0 | 1)), "{}", doctor.stderr);
    let json: serde_json::Value = serde_json::from_str(&doctor.stdout).expect("JSON");
    let findings = json["findings"].as_array().expect("findings");
    let udp = findings.iter().find(|of| of["area"] == "paths" && of["item"] == "udp");
    assert_eq!(udp.expect("a path")["status"], "ok", "{json:#}");
    // Files are refused before a packet is sent.
    let words = "sendrecv loop: --rate 2kpps --duration 1h --quiet";
    for (output, name) in [("--csv /run.csv", "/run.csv"), ("--out results", "results")] {
        let finished = contained(&scratch, &format!("{words} {output}")).expect("as before");
        assert_eq!(finished.code, Some(2), "{output}: {}", finished.stderr);
        assert_one_line(&finished, &[name, "Read-only file system"]);
    }
    reflector.end(rustix::process::Signal::INT);
}
