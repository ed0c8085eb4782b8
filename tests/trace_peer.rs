//! `mpps trace peer`: what testpmd's threads did, as it counts itself; its terminal, its signals, its exit code.

use std::path::PathBuf;
use std::process::Command;

use mpps_tests::{Background, Finished, Scratch, TESTPMD, Testpmd, mpps, no_testpmd, run_command, skip, wait_until};
use rustix::process::Signal;
use serde_json::Value;

/// `trace peer` of a shell's command.
fn of_shell(script: &str) -> Finished {
    let mut command = mpps("trace peer --");
    command.args(["sh", "-c", script, "{plugin}"]);
    run_command(command)
}

/// True, and said, where there is no plug-in.
fn no_plugin() -> bool {
    let built_without = of_shell("true").stderr.contains("built without DPDK");
    if built_without {
        skip("a build with DPDK");
    }
    built_without
}

/// testpmd on a port that gives as many packets as it is asked for, traced.
fn traced(scratch: &Scratch) -> Command {
    let mut command = mpps("trace peer --json");
    command.arg(scratch.file("peer.json")).arg("--");
    let mut words = TESTPMD.split_whitespace();
    let front: Vec<_> = words.by_ref().take_while(|word| *word != "dpdk-testpmd").collect();
    command.args(front).args(["dpdk-testpmd", "-d", "{plugin}"]).args(words);
    command.arg("--vdev=net_null0");
    command
}

fn told(scratch: &Scratch) -> Value {
    let text = std::fs::read_to_string(scratch.file("peer.json")).expect("the figures");
    serde_json::from_str(&text).expect("JSON")
}

/// A number of every lane, added up.
fn sum(told: &Value, of: impl Fn(&Value) -> &Value) -> u64 {
    let lanes = told["lanes"].as_array().expect("lanes");
    lanes.iter().map(|lane| of(lane).as_u64().expect("a number")).sum()
}

#[test]
fn every_packet_that_testpmd_counts_is_counted_once_its_port_is_found() {
    if no_testpmd() || no_plugin() {
        return;
    }
    let scratch = Scratch::new();
    let mut testpmd = Testpmd::start(traced(&scratch), "io");
    wait_until("a lane that is counted", || counting(testpmd.id()));
    let (received_before, sent_before) = testpmd.stop();
    // From here on the plug-in is in place.
    testpmd.ask("start", "packet forwarding packets/burst");
    let first = testpmd.counts().0;
    wait_until("packets", || testpmd.counts().0 > first + 10_000);
    let (received, sent) = testpmd.stop();
    let (code, said) = testpmd.quit();
    assert_eq!(code, Some(0), "{said}");
    let told = told(&scratch);
    // What passed before the plug-in had found the port is in none of its counts.
    let counted = sum(&told, |lane| &lane["receive"]["packets"]);
    assert!(
        (received..=received + received_before).contains(&counted),
        "{received_before} + {received}: {told:#}"
    );
    let counted = sum(&told, |lane| &lane["transmit"]["packets"]);
    assert!(
        (sent..=sent + sent_before).contains(&counted),
        "{sent_before} + {sent}: {told:#}"
    );
    let lane = &told["lanes"][0];
    assert_eq!(lane["offered"], lane["transmit"]["packets"], "it takes all: {told:#}");
    assert_eq!(told["exit_code"], 0);
    for lane in told["lanes"].as_array().expect("lanes") {
        assert_eq!(lane["device"], "net_null0");
        let shares = lane["stages"].as_array().expect("rows").iter();
        let shares: f64 = shares.map(|row| row["share"].as_f64().expect("a share")).sum();
        assert!((shares - 1.0).abs() < 1e-6, "{lane:#}");
        let by_packets = lane["polls_by_packets"].as_array().expect("a histogram");
        let polls: u64 = by_packets.iter().map(|count| count.as_u64().expect("a count")).sum();
        assert_eq!(
            polls + lane["empty_polls"].as_u64().expect("a count"),
            lane["polls"],
            "{lane:#}"
        );
    }
    for text in [
        "stage",
        "receive",
        "empty polls",
        "transmit",
        "rest",
        "polls were empty",
        "the plug-in read the clock",
    ] {
        assert!(said.contains(text), "{text}: {said}");
    }
}

#[test]
fn a_signal_reaches_the_program_and_its_figures_are_told() {
    if no_testpmd() || no_plugin() {
        return;
    }
    let scratch = Scratch::new();
    let mut command = traced(&scratch);
    // It forwards until it is told to end.
    command.args("-- --no-mlockall --total-num-mbufs=8192 --auto-start --stats-period 1".split(' '));
    let mut running = Background::start(command);
    wait_until("a lane that is counted", || {
        assert!(running.running(), "{}", running.stderr());
        counting(running.id())
    });
    let finished = running.end(Signal::TERM);
    let told = told(&scratch);
    assert!(sum(&told, |lane| &lane["polls"]) > 0, "{told:#}\n{}", finished.stderr);
    assert_eq!(
        told["exit_code"].as_i64(),
        finished.code.map(i64::from),
        "{}",
        finished.stderr
    );
}

/// The folder of a running command.
fn folder(pid: u32) -> Option<PathBuf> {
    let home = std::env::var("HOME").unwrap_or_default();
    let places = [
        "/run/mpps".to_owned(),
        std::env::var("XDG_RUNTIME_DIR").map_or_else(|_| String::new(), |dir| format!("{dir}/mpps")),
        std::env::var("XDG_CACHE_HOME").map_or_else(|_| format!("{home}/.cache/mpps"), |dir| format!("{dir}/mpps")),
        "/var/cache/mpps".to_owned(),
    ];
    let found = places
        .iter()
        .map(|place| PathBuf::from(place).join(format!("peer-{pid}")));
    found.into_iter().find(|path| path.is_dir())
}

/// Whether a lane is counted already.
fn counting(pid: u32) -> bool {
    use std::os::unix::fs::FileExt;
    let mut claimed = [0; 4];
    let file = folder(pid).and_then(|folder| std::fs::File::open(folder.join("counts")).ok());
    file.is_some_and(|file| file.read_exact_at(&mut claimed, 24).is_ok()) && u32::from_ne_bytes(claimed) > 0
}

#[test]
fn a_killed_command_ends_the_program_and_leaves_a_folder_that_the_next_one_clears() {
    if no_plugin() {
        return;
    }
    let mut command = mpps("trace peer --");
    command.args(["sh", "-c", "echo $$ >&2; exec sleep 1000", "{plugin}"]);
    let running = Background::start(command).wait_to_hear("\n");
    let child: u32 = running.stderr().trim().parse().expect("a number");
    let folder = folder(running.id()).expect("a folder");
    let ended = running.end(Signal::KILL);
    assert_eq!(ended.code, None);
    wait_until("the end of the program", || {
        let comm = std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
        comm.trim() != "sleep"
    });
    // Another test's command may have removed it already.
    of_shell("true");
    assert!(!folder.exists(), "{}", folder.display());
}

#[test]
fn the_exit_code_is_the_programs_and_what_was_wrong_is_told() {
    if no_plugin() {
        return;
    }
    for (script, code) in [("exit 7", 7), ("exit 0", 1), ("kill -9 $$", 137)] {
        let finished = of_shell(script);
        assert_eq!(finished.code, Some(code), "{script}: {}", finished.stderr);
        assert!(
            finished.stderr.contains("has not loaded the plug-in"),
            "{}",
            finished.stderr
        );
    }
    let mut command = mpps("trace peer -- nonesuch-program -l 0");
    command.arg("x");
    let finished = run_command(command);
    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
    assert!(
        finished.stderr.contains("'nonesuch-program': no such program"),
        "{}",
        finished.stderr
    );
}
