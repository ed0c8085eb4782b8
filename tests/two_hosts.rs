//! `scripts/two-hosts.sh` between the two namespaces of a lab, reached by `ip netns exec` where others are by ssh.

use std::path::PathBuf;
use std::process::Command;

use mpps_host::lab::Host;
use mpps_tests::{Background, Net, Scratch, assert_refused, missing, net_of, program, run_command, wait_until};
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
