//! `--lab`: a lab for one command, which is gone at its end, whatever that is.

use mpps_tests::{Background, Scratch, assert_refused, cases, missing, mpps, program, run_command, skip, wait_until};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Whether a lab can be made here; else that is said.
fn possible() -> bool {
    if !geteuid().is_root() {
        skip("a lab needs root");
    }
    geteuid().is_root() && mpps_tests::lab(1).is_some()
}

/// The name of the lab that a command has told of.
fn lab_of(told: &str) -> String {
    let after = told
        .split("mpps: lab ")
        .nth(1)
        .unwrap_or_else(|| panic!("no lab: {told}"));
    after.split(',').next().expect("a name").to_owned()
}

/// Namespaces of a lab that are there.
fn left_of(lab: &str) -> usize {
    let there = |host: &str| Path::new(&format!("/run/netns/{lab}-{host}")).exists();
    ["a", "b"].into_iter().filter(|host| there(host)).count()
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// A run until it is interrupted, that has begun; and its lab.
fn begun(scratch: &Scratch) -> (Background, String) {
    let mut command = mpps("sendrecv af_packet --lab --rate 1kpps --duration 1h --settle 200ms --plain --csv");
    command
        .arg(scratch.file("run.csv"))
        .arg("--json")
        .arg(scratch.file("run.json"));
    let run = Background::start(command).wait_to_hear("removed at the end");
    wait_until("packets that came back", || scratch.received_so_far() > 0);
    let lab = lab_of(&run.stderr());
    assert_eq!(left_of(&lab), 2);
    (run, lab)
}

#[test]
fn a_path_is_measured_in_a_lab_that_is_gone_afterwards() {
    if !possible() {
        return;
    }
    for (port, full) in [
        ("af_packet", "af_packet:eth1"),
        ("udp", "udp:10.99.0.1"),
        ("io_uring:buffers=64", "io_uring:10.99.0.1,buffers=64"),
        ("af_packet:mode=none", "none"),
    ] {
        let scratch = Scratch::new();
        let mut command = mpps(&format!(
            "sendrecv --rate 2kpps {port} --lab --duration 500ms --settle 500ms --catch-up 2s --json"
        ));
        command.arg(scratch.file("run.json"));
        let finished = run_command(command);
        if full == "none" {
            // What the path does not know is told by the reflector, and the lab is gone as well.
            assert_eq!(finished.code, Some(1), "{finished:?}");
            assert!(finished.stderr.contains("unknown option 'mode'"), "{}", finished.stderr);
        } else {
            // A host that others use may have made it invalid.
            assert!(matches!(finished.code, Some(0 | 3)), "{finished:?}");
            let json = json(&scratch.file("run.json"));
            assert_eq!(json["plan"]["ports"][0], full);
            assert_eq!(json["plan"]["traffic"]["dest"], "10.99.0.2:9000");
            assert_eq!(
                json["tx_packets"]
                    .as_u64()
                    .zip(json["missed"].as_u64())
                    .map(|(tx, missed)| tx + missed),
                Some(1000)
            );
            assert!(json["rx_packets"].as_u64() > Some(0), "{json:#}");
        }
        assert_eq!(left_of(&lab_of(&finished.stderr)), 0, "{}", finished.stderr);
    }
}

#[test]
fn a_search_takes_place_in_a_lab() {
    if !possible() {
        return;
    }
    let scratch = Scratch::new();
    let mut command = mpps(
        "ndr udp --lab --min-rate 100pps --max-rate 1kpps --goal loss=0,initial=100ms,final=100ms,sum=200ms,width=20% \
         --search-time 20s --out",
    );
    command.arg(scratch.path().join("out"));
    let finished = run_command(command);
    assert!(matches!(finished.code, Some(0 | 3)), "{finished:?}");
    let result = json(&scratch.path().join("out/result.json"));
    assert_eq!(result["plan"]["ports"][0], "udp:10.99.0.1");
    assert_eq!(left_of(&lab_of(&finished.stderr)), 0);
}

#[test]
fn runs_of_labs_are_compared_and_their_settings_too() {
    if !possible() {
        return;
    }
    let scratch = Scratch::new();
    let times = "--lab --rate 1kpps --duration 100ms --settle 100ms --tolerance 100% --catch-up 2s";
    let compare = |operands: &[&str], more: &str, out: &str| {
        let mut command = mpps("compare");
        command.args(operands.iter().map(|port| format!("sendrecv {port} {times}")));
        command
            .args(more.split_whitespace())
            .arg("--out")
            .arg(scratch.path().join(out));
        let done = run_command(command);
        // One round gives values and no verdict.
        assert!(matches!(done.code, Some(0 | 3)), "{}{}", done.stdout, done.stderr);
        let result = json(&scratch.path().join(out).join("result.json"));
        assert_eq!(mpps_tests::unheaded(&result), Vec::<String>::new());
        result
    };
    let result = compare(&["udp", "af_packet"], "--rounds 1 --pause 0", "paths");
    let ran = result["trials"].as_array().map_or(0, Vec::len);
    assert!(ran >= 2, "{:#}", result["trials"]);
    let ports = &result["params"]["differ_in"]["ports"];
    assert_eq!(*ports, serde_json::json!(["udp:10.99.0.1", "af_packet:eth1"]));
    assert_eq!(result["plan"]["traffic"]["dest"], "10.99.0.2:9000");
    let result = compare(
        &["af_packet"],
        "--settings ring=512|1024 --rounds 1 --pause 0",
        "settings",
    );
    let ports = &result["params"]["differ_in"]["ports"];
    let whole = ["af_packet:eth1,ring=512", "af_packet:eth1,ring=1024"];
    assert_eq!(*ports, serde_json::json!(whole));
    // Frames of another size are another measurement, in a lab, too.
    let other = format!("sendrecv udp {times}");
    let mut command = mpps("compare");
    command.arg(&other).arg(format!("{other} --frame-size 128"));
    assert_refused(command, 2, &["frame size", "64 bytes, 128 bytes"]);
    let mut command = mpps("compare");
    command.arg(&other).arg(format!("{other} --src 192.0.2.1"));
    assert_refused(command, 2, &["--src", "a network of its own"]);
}

#[test]
fn an_interrupt_ends_the_run_with_its_results_and_removes_the_lab() {
    if !possible() {
        return;
    }
    let scratch = Scratch::new();
    let (run, lab) = begun(&scratch);
    let finished = run.end(Signal::INT);
    assert!(matches!(finished.code, Some(0 | 3)), "{finished:?}");
    assert_eq!(json(&scratch.file("run.json"))["interrupted"], true);
    assert_eq!(left_of(&lab), 0);
}

#[test]
fn a_reflector_that_dies_ends_the_run_with_one_line_and_the_lab_is_removed() {
    if !possible() {
        return;
    }
    let scratch = Scratch::new();
    let (run, lab) = begun(&scratch);
    let inside = run_command({
        let mut ip = Command::new("ip");
        ip.args(["netns", "pids", &format!("{lab}-b")]);
        ip
    });
    let reflector = inside.stdout.split_whitespace().next().and_then(|pid| pid.parse().ok());
    let reflector = reflector.and_then(Pid::from_raw).expect("a reflector");
    kill_process(reflector, Signal::KILL).expect("it runs");
    let finished = run.finish();
    assert_eq!(finished.code, Some(1), "{finished:?}");
    let last = finished.stderr.trim_end().lines().last().unwrap_or_default();
    assert!(
        last.starts_with("mpps: --lab: the reflector ended before its time"),
        "{last}"
    );
    assert_eq!(left_of(&lab), 0);
}

#[test]
fn what_a_killed_command_has_left_is_removed_by_the_next_one() {
    if !possible() {
        return;
    }
    let scratch = Scratch::new();
    let (mut run, lab) = begun(&scratch);
    run.signal(Signal::KILL);
    wait_until("the end of the command", || !run.running());
    assert_eq!(left_of(&lab), 2);
    let next = run_command(mpps(
        "sendrecv udp --lab --rate 1kpps --duration 100ms --settle 100ms --quiet",
    ));
    assert!(matches!(next.code, Some(0 | 3)), "{next:?}");
    assert_eq!(left_of(&lab), 0);
    run.finish();
}

/// The number of a process that was there and is not any more.
fn dead() -> u32 {
    let mut child = Command::new("true").spawn().expect("a process");
    let id = child.id();
    child.wait().expect("its end");
    id
}

/// Kills a command and runs another one, which removes the remains. Returns the output of that one.
fn removed_by(words: &str) -> String {
    let scratch = Scratch::new();
    let (mut run, lab) = begun(&scratch);
    run.signal(Signal::KILL);
    wait_until("the end of the command", || !run.running());
    // What DPDK and `trace peer` make for a process, and somebody else's beside it.
    let folder = |name: String| {
        let path = Path::new(&name).to_owned();
        std::fs::create_dir_all(&path).expect("a folder");
        std::fs::write(path.join("config"), "left").expect("a file");
        path
    };
    let me = std::process::id();
    let gone = [
        folder(format!("/var/run/dpdk/mpps{}", dead())),
        folder(format!("/run/mpps/peer-{}", dead())),
        folder(format!("/run/mpps/new-{}", dead())),
    ];
    let stay = [
        folder(format!("/var/run/dpdk/mpps{me}")),
        folder(format!("/run/mpps/new-{me}")),
    ];
    let finished = run_command(mpps(words));
    assert_eq!(left_of(&lab), 0, "{finished:?}");
    assert!(gone.iter().all(|path| !path.exists()), "{finished:?}");
    assert!(stay.iter().all(|path| path.exists()), "{finished:?}");
    for path in stay {
        std::fs::remove_dir_all(path).expect("ours");
    }
    run.finish();
    let again = run_command(mpps(words));
    assert!(!again.stdout.contains(&lab), "{again:?}");
    finished.stdout
}

fn what_killed_commands_have_left_is_removed((words, want): (&str, &str)) {
    if !possible() {
        return;
    }
    // Another test's command may be the one that removes it.
    let said: Vec<_> = (0..5)
        .map(|_| removed_by(words))
        .take_while(|said| !said.contains(want))
        .collect();
    assert!(said.len() < 5, "{said:?}");
}

cases!(
    what_killed_commands_have_left_is_removed:
    by_doctor = ("doctor lo", "left over"),
    by_lab_down = ("lab down --name mpps-none-such", "removed the lab"),
);

#[test]
fn while_the_run_goes_on_its_parent_has_no_rights_in_force() {
    if !possible() {
        return;
    }
    for user in [None, Some(65_534)] {
        let mut command = mpps("sendrecv af_packet --lab --rate 1kpps --duration 1h --settle 200ms --plain --csv -");
        command.env_remove("SUDO_UID");
        if let Some(user) = user {
            command
                .env("SUDO_UID", user.to_string())
                .env("SUDO_GID", user.to_string());
        }
        // Once it counts, its processes end in good order when they are asked to.
        let run = Background::start(command).wait_to_hear("1 s  sent");
        let lab = lab_of(&run.stderr());
        assert_bare(&run, user, 2, "--lab");
        let finished = run.end(Signal::INT);
        assert!(matches!(finished.code, Some(0 | 3)), "{finished:?}");
        assert_eq!(left_of(&lab), 0, "it had its rights again: {finished:?}");
    }
    let compare = "send null: --duration 1h";
    let mut command = mpps("compare --rounds 1 --pause 0s");
    command.args([compare, &format!("{compare} --burst 8")]);
    command.env("SUDO_UID", "65534").env("SUDO_GID", "65534");
    let run = Background::start(command);
    assert_bare(&run, Some(65_534), 1, "compare");
    run.end(Signal::INT);
}

/// Waits until so many runs of this process go on, and it has nothing in force.
fn assert_bare(parent: &Background, user: Option<u32>, runs: usize, context: &str) {
    let id = parent.id();
    let children = || {
        let text = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        text.split_whitespace().count()
    };
    let mut threads = Vec::new();
    let bare = |thread: &mpps_tests::Thread| {
        let [_, effective, _, files] = thread.uids[..] else {
            panic!("{thread:?}")
        };
        thread.effective == 0 && user.is_none_or(|user| [effective, files] == [user; 2])
    };
    wait_until(&format!("a parent without rights: {context}"), || {
        threads = mpps_tests::threads_of(parent);
        children() >= runs && threads.iter().all(bare)
    });
    // All but the one that starts processes have nothing at all.
    assert!(
        threads
            .iter()
            .all(|thread| thread.name == "main" || thread.permitted == 0),
        "{context}: {threads:x?}"
    );
}

#[test]
fn what_contradicts_a_lab_is_refused_before_one_is_made() {
    for (words, parts) in [
        (
            "sendrecv af_packet:eth0 --lab",
            ["af_packet:eth0", "want the name of a path"],
        ),
        ("ndr loop: --lab", ["loop:", "one of"]),
        (
            "sendrecv udp --lab --dest 192.0.2.1:9",
            ["--dest", "a network of its own"],
        ),
        ("sendrecv udp --lab --src 192.0.2.1", ["--src", "a network of its own"]),
        (
            "sendrecv af_packet af_packet:eth2 --lab",
            ["af_packet:eth2", "want one port"],
        ),
        ("sendrecv udp --lab --print-plan", ["--print-plan", "--lab left out"]),
        ("send udp --lab", ["--lab", "want sendrecv"]),
    ] {
        assert_refused(mpps(words), 2, &parts);
    }
    if missing("setpriv", "util-linux") || !geteuid().is_root() {
        return;
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--bounding-set=-all", "--inh-caps=-all", "--"])
        .arg(program());
    command.args(["sendrecv", "udp", "--lab"]);
    assert_refused(command, 1, &["--lab", "needs root"]);
}
