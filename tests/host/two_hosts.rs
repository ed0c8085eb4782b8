//! `scripts/two-hosts.sh` between the two namespaces of a lab, reached by `ip netns exec` where others are by ssh.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use mpps_host::lab::Host;
use mpps_tests::{Background, Net, Scratch, assert_refused, missing, net_of, program, run_command, skip, wait_until};
use rustix::process::Signal;

fn script() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/two-hosts.sh"))
}

/// The script with its settings as they are said here, whatever the environment has.
fn with(settings: &[(&str, &str)], words: &[&str]) -> Command {
    let mut command = Command::new(script());
    for name in ["TESTS", "ROUNDS", "SUDO", "A_ARGS", "B_ARGS", "RESULTS", "SRC", "REACH"] {
        command.env_remove(name);
    }
    command
        .env("MPPS", program())
        .env("PORT_A", "af_packet:eth1")
        .env("PORT_B", "af_packet:eth1");
    command
        .env("DEST", "10.99.0.2:9000")
        .envs(settings.iter().copied())
        .args(words);
    command
}

/// A lab whose hosts the script can reach, and its hosts' names.
fn hosts() -> Option<(Net, [String; 2])> {
    if missing("python3", "python3") {
        return None;
    }
    let net = net_of(1)?;
    let names = [Host::A, Host::B].map(|host| net.lab.namespace(host));
    Some((net, names))
}

const REACH: (&str, &str) = ("REACH", "ip netns exec HOST sh -c");

/// Processes of both hosts.
fn left(names: &[String; 2]) -> String {
    let pids = |name: &String| {
        let mut command = Command::new("ip");
        command.args(["netns", "pids", name]);
        run_command(command).stdout
    };
    names.iter().map(pids).collect()
}

/// As left, once what was ended had its time to go.
fn assert_nothing_is_left(names: &[String; 2]) {
    wait_until("both hosts are empty", || left(names).trim().is_empty());
}

/// A script that sends until it is ended, as soon as packets pass.
fn busy(names: &[String; 2], out: &Scratch) -> (Background, PathBuf) {
    let folder = out.path().join("out");
    let settings = [REACH, ("SRC", "10.99.0.1"), ("TESTS", "flat"), ("RUN_TIME", "10m")];
    let running = Background::start(with(&settings, &[&names[0], &names[1], &folder.to_string_lossy()]));
    let running = running.wait_to_hear("flat on");
    // The reflector has its packets: both ends run.
    wait_until("the reflector received", || {
        let said = std::fs::read_to_string(folder.join("reflect.log")).unwrap_or_default();
        said.lines()
            .any(|line| line.contains("received") && !line.contains("received       0 pps"))
    });
    (running, folder)
}

#[test]
fn a_section_is_written_from_all_runs_and_nothing_goes_on() {
    let Some((net, names)) = hosts() else { return };
    let scratch = Scratch::new();
    let (folder, results) = (scratch.path().join("out"), scratch.path().join("RESULTS.md"));
    let of_another = "# Head\n\n## Targets\n\n\n<!-- part udp -->\n## Mine\n<!-- end udp -->\n";
    std::fs::write(&results, of_another).expect("a file");
    // What is found does not matter, and a host that others use may not find anything: the searches are cut short.
    let settings = [
        REACH,
        ("SRC", "10.99.0.1"),
        ("ROUNDS", "2"),
        ("RUN_TIME", "300ms"),
        ("HALF_TIME", "300ms"),
        ("A_ARGS", "--settle 100ms"),
        (
            "NDR_ARGS",
            "--goal loss=50%,initial=100ms,final=100ms,sum=100ms,width=50% --max-rate 1kpps --search-time 1s",
        ),
        (
            "RFC2544_ARGS",
            "--quick --sizes 64 --trial 100ms --first-trial 100ms --max-rate 1kpps --resolution 50%",
        ),
        ("RESULTS", &results.to_string_lossy()),
    ];
    let finished = run_command(with(&settings, &[&names[0], &names[1], &folder.to_string_lossy()]));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let section = std::fs::read_to_string(folder.join("section.md")).expect("a section");
    for part in [
        "| kernel | ",
        "| device | eth1 | eth1 |",
        "| driver | veth | veth |",
        "flat out, run 2",
        "half of that",
    ] {
        assert!(section.contains(part), "{part}: {section}");
    }
    for part in [
        "Highest rates, by `ndr`",
        "Throughput by frame size",
        "share of line rate",
        "mpps sendrecv",
    ] {
        assert!(section.contains(part), "{part}: {section}");
    }
    let commands = section.split("```").nth(1).expect("commands");
    let programs = ["reflect", "sendrecv", "sendrecv", "sendrecv", "ndr", "rfc2544"];
    assert_eq!(commands.lines().skip(1).count(), programs.len(), "{commands}");
    for (line, program) in commands.lines().skip(1).zip(programs) {
        assert!(line.contains(&format!("mpps {program} ")), "{commands}");
    }
    let whole = std::fs::read_to_string(&results).expect("results");
    assert!(whole.starts_with("# Head\n"), "{whole}");
    assert!(
        whole.contains("## Mine") && whole.contains("<!-- part two_hosts -->"),
        "{whole}"
    );
    assert_eq!(left(&names).trim(), "");
    drop(net);
}

#[test]
fn ctrl_c_ends_the_programs_of_both_hosts() {
    let Some((_net, names)) = hosts() else { return };
    let scratch = Scratch::new();
    let (running, _) = busy(&names, &scratch);
    let finished = running.end(Signal::INT);
    assert_eq!(finished.code, Some(130), "{}", finished.stderr);
    // It waits for the programs itself; of the shells around them one may be asleep for a moment yet.
    assert_nothing_is_left(&names);
}

#[test]
fn a_script_that_is_killed_leaves_nothing_running_on_either_host() {
    let Some((_net, names)) = hosts() else { return };
    let scratch = Scratch::new();
    let (running, _) = busy(&names, &scratch);
    running.signal(Signal::KILL);
    assert_nothing_is_left(&names);
}

#[test]
fn when_one_host_s_end_dies_the_other_is_ended_and_named() {
    let Some((_net, names)) = hosts() else { return };
    for (victim, at) in [("reflect", 1), ("sendrecv", 0)] {
        let scratch = Scratch::new();
        let (running, _) = busy(&names, &scratch);
        let mut kill = Command::new("sh");
        kill.args([
            "-c",
            "for p in $(ip netns pids $0); do grep -q \"^$1\\$\" /proc/$p/comm && kill -9 $p; done; true",
        ]);
        kill.args([&names[at], "mpps"]);
        assert_eq!(run_command(kill).code, Some(0));
        let finished = running.finish();
        assert_eq!(finished.code, Some(1), "{victim}: {}", finished.stderr);
        let last = finished.stderr.trim_end().lines().last().unwrap_or_default().to_owned();
        assert!(last.contains(&names[at]), "{victim}: {last}");
        assert_nothing_is_left(&names);
    }
}

/// Settings, arguments, and what the line has of them.
type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], &'a str);

#[test]
fn wrong_settings_are_one_line_before_any_host_is_asked() {
    let scratch = Scratch::new();
    let folder = scratch.path().join("out");
    let out = folder.to_string_lossy().into_owned();
    // A host that is asked would be one more line.
    let reach = ("REACH", "echo HOST");
    let cases: [Case; 12] = [
        (&[reach], &["a"], "1 arguments"),
        (&[reach], &["-oProxyCommand=x", "b", &out], "host '-oProxyCommand=x'"),
        (&[reach], &["a", "b c", &out], "host 'b c'"),
        (&[reach, ("PORT_A", "eth1")], &["a", "b", &out], "PORT_A='eth1'"),
        (&[reach, ("PORT_B", "")], &["a", "b", &out], "PORT_B=''"),
        (&[reach, ("DEST", "10.99.0.2")], &["a", "b", &out], "DEST='10.99.0.2'"),
        (&[reach, ("ROUNDS", "0")], &["a", "b", &out], "ROUNDS='0'"),
        (&[reach, ("RUN_TIME", "3")], &["a", "b", &out], "RUN_TIME='3'"),
        (&[reach, ("TESTS", "half")], &["a", "b", &out], "want flat before half"),
        (&[reach, ("TESTS", "flat rest")], &["a", "b", &out], "TESTS='flat rest'"),
        (&[("REACH", "ssh")], &["a", "b", &out], "REACH='ssh'"),
        (&[reach], &["a", "b", "/proc"], "'/proc': want a new or an empty folder"),
    ];
    for (settings, words, part) in cases {
        assert_refused(with(settings, words), 2, &["two-hosts: ", part]);
        assert!(!folder.exists(), "{words:?}");
    }
}

#[test]
fn a_host_that_can_not_be_reached_is_named_in_the_last_line() {
    let scratch = Scratch::new();
    let folder = scratch.path().join("out");
    let settings = [("REACH", "ip netns exec mpps-no-such-HOST sh -c HOST")];
    let finished = run_command(with(&settings, &["a", "b", &folder.to_string_lossy()]));
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    let last = finished.stderr.trim_end().lines().last().unwrap_or_default().to_owned();
    assert!(last.starts_with("two-hosts: a: can't be asked"), "{}", finished.stderr);
}

/// Runs Python with the modules of `bench/`; what it prints.
fn of_bench(code: &str, words: &[&str]) -> String {
    let mut command = Command::new("python3");
    command
        .args(["-c", code])
        .args(words)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../bench"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let finished = run_command(command);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    finished.stdout
}

#[test]
fn a_row_of_nothing_or_refused_work_fails_its_section() {
    if missing("python3", "python3") {
        return;
    }
    const SECTION: &str = r#"
import sys
from harness import context, mpps
from harness.report import Results, Section
from harness.stat import Samples, rate

class Bench(context.Context):
    def __init__(self):
        self.rounds, self.section = 2, Section("udp", "Sockets", "2026-11-28, on a host", "/none")

def reflector(taken, **reasons):
    return lambda: {"rate": mpps.worked({"rx_packets": taken, "reasons": reasons})["rx_packets"]}

ctx = Bench()
samples = ctx.compare({"good": reflector(1000, ttl_expired=3), "idle": reflector(0),
                       "at last": reflector(0, ttl_expired=9), "own": reflector(10, own_source=30)})
ctx.section.programs(samples)
ctx.section.target("x another", 1.0, samples.ratio("idle", "good"), samples.why_not("idle", "good"))
results = Results(sys.argv[1], "Head")
results.put(ctx.section)
other = Section("dpdk", "Rows by hand", "2026-11-28, on a host", "/none")
other.table(["program", "rate"], [["one", rate(5e6)], ["two", rate(0)]])
results.put(other)
print(ctx.section.failures, other.failures)
"#;
    let scratch = Scratch::new();
    let path = scratch.path().join("RESULTS.md");
    let failures = of_bench(SECTION, &[&path.to_string_lossy()]);
    for part in [
        "idle: did nothing: its rate is 0",
        "at last: it refused packets (ttl_expired 9) and took 0",
        "own: it refused packets (own_source 30) and took 10",
        "two: rate is 0",
    ] {
        assert!(failures.contains(part), "{part}: {failures}");
    }
    assert!(!failures.contains("good"), "{failures}");
    let page = std::fs::read_to_string(&path).expect("a page");
    // At the head of the section, and in the list of targets.
    assert_eq!(page.matches("**Failed**: idle: did nothing").count(), 2, "{page}");
    assert!(page.contains("target ≥ 1 x another: not measured"), "{page}");
    assert!(page.contains("| good | 1 kpps |"), "{page}");
}

#[test]
fn the_articles_baseline_program_is_that_of_bench_neuring() {
    if missing("python3", "python3") {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        skip("a lab needs root");
        return;
    }
    const STUB: &str = r#"#!/usr/bin/env python3
import socket, sys
host, port = sys.argv[2].split(":")
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if sys.argv[1] == "syscall-echo":
    sock.bind((host, int(port)))
    while True:
        sock.sendto(*sock.recvfrom(2048))
assert sys.argv[1] == "syscall-send" and sys.argv[3] == "--packet-size", sys.argv
while True:
    sock.sendto(bytes(int(sys.argv[4])), (host, int(port)))
"#;
    const PAIRS: &str = r#"
import os, sys
from harness import context, peers
from harness.proc import BenchError, kill_all
from harness.report import ROOT, Section
from sections import pairs

os.environ |= {"BENCH_SECONDS": "0.3", "BENCH_NEURING": sys.argv[2] + "/none"}
ctx = context.Context(ROOT, sys.argv[1], sys.argv[2], None)
ctx.section = Section("pairs", "Pairs", "2026-11-28, on a host", sys.argv[2])
try:
    print(peers.build_neuring(ctx, ctx.section))
except BenchError as error:
    print(error)
os.environ["BENCH_NEURING"] = sys.argv[2] + "/neuring"
try:
    program = peers.build_neuring(ctx, ctx.section)
    for sender in (pairs.NEURING, "udp"):
        # In so short a time a busy host may give a program no turn.
        for _ in range(50):
            try:
                found = pairs.flat_out(ctx, (sender, pairs.NEURING), program)
            except BenchError:
                continue
            if found["rate"] > 0:
                break
        print(sender, found["sent"] > 0, 0 < found["rate"])
finally:
    kill_all()
    ctx.lab.down()
print(ctx.section.lines)
"#;
    let scratch = Scratch::new();
    let stub = scratch.path().join("neuring");
    std::fs::write(&stub, STUB).expect("a file");
    std::fs::set_permissions(&stub, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let folder = scratch.path().to_string_lossy().into_owned();
    let said = of_bench(PAIRS, &[&program().to_string_lossy(), &folder]);
    for part in [
        &format!("BENCH_NEURING={folder}/none: no program there\n"),
        "neuring True True\n",
        "udp True True\n",
        "is the program that BENCH_NEURING names, neuring.",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_section_older_than_the_code_that_it_measures_says_so() {
    if missing("python3", "python3") || missing("git", "git") {
        return;
    }
    let scratch = Scratch::new();
    let root = scratch.path().join("tree");
    std::fs::create_dir_all(root.join("crates/udp/src")).expect("folders");
    std::fs::create_dir_all(root.join("docs")).expect("folders");
    let git = |words: &str| {
        let mut command = Command::new("git");
        let name = [
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b.invalid",
            "-c",
            "commit.gpgsign=false",
        ];
        command.arg("-C").arg(&root).args(name).args(words.split(' '));
        let finished = run_command(command);
        assert_eq!(finished.code, Some(0), "git {words}: {}", finished.stderr);
        finished.stdout.trim().to_owned()
    };
    let change = |file: &str| {
        std::fs::write(root.join(file), format!("{file} {}", git_time())).expect("a file");
        git("add -A");
        git("commit -q -m change");
        git("rev-parse --short=12 HEAD")
    };
    git("init -q");
    let first = change("crates/udp/src/lib.rs");
    let page = |commit: &str| format!("## T\n\n*2026-11-28, mpps 0.1.0, commit {commit}; on a host*\n\nText.\n");
    let said = |name: &str, text: &str| {
        const MARK: &str = "import sys\nfrom harness import age\nprint(age.mark(*sys.argv[1:]), end='')";
        of_bench(MARK, &[&root.to_string_lossy(), name, text])
    };
    let text = page(&first);
    assert_eq!(said("udp", &text), text);
    // Neither documents, nor other paths, nor tests are what it measures.
    for file in ["docs/a.md", "crates/dpdk.rs", "crates/udp/tests.md"] {
        change(file);
    }
    assert_eq!(said("udp", &text), text);
    let last = change("crates/udp/src/lib.rs");
    let marked = said("udp", &text);
    assert!(
        marked.contains(&format!(
            "\n\n*Older than the code that it measures: changed since, first by {}",
            &last[..7]
        )),
        "{marked}"
    );
    // Said once, and no more when it was measured again.
    assert_eq!(said("udp", &marked), marked);
    assert_eq!(said("udp", &marked.replace(&first, &last)), page(&last));
    assert!(said("udp", &page(&format!("{last}+"))).contains("*Age unknown: it was measured with changes"));
    assert!(said("udp", &page("0123456789ab")).contains("*Age unknown: the history here has no commit"));
}

fn git_time() -> u128 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("a time after 1970").as_nanos()
}

#[test]
fn each_section_of_the_results_names_commit_and_host() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../bench/RESULTS.md")).expect("the page");
    let mut sections = 0;
    for section in page.split("<!-- part ").skip(1) {
        let (name, text) = section.split_once(" -->").expect("a name");
        let facts = text.lines().find(|line| line.starts_with("*20")).unwrap_or_default();
        assert!(
            facts.contains(", commit ") && facts.contains("; on ") && facts.contains(", Linux "),
            "{name}: {facts:?}"
        );
        sections += 1;
    }
    assert!(sections > 10, "{sections}");
}
