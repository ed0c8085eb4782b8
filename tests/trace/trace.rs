//! `--trace`: what a run keeps is what it measured, and viewers read it. What it names is in `trace_causes.rs`.

use mpps_tests::{Background, Scratch, Traced, all_back, assert_refused, mpps, net_of, processor, run_command, sql};
use rustix::process::Signal;
use serde_json::Value;
use std::process::Command;

/// A run over the `loop` device.
const LOOP: &str = "sendrecv loop: --rate 20kpps --duration 300ms --settle 200ms";

#[test]
fn perfetto_imports_a_trace_without_error_and_its_sums_are_those_of_the_run() {
    let Some(module) = processor() else { return };
    let traced = Traced::run(&format!("{LOOP} --trace-all"));
    let answers = sql(
        &module,
        &traced.file(),
        &[
            "select name, value from stats where severity = 'error' and value > 0",
            "select sum(extract_arg(arg_set_id, 'debug.tx')) as tx, sum(extract_arg(arg_set_id, 'debug.rx')) as rx, \
             count(*) as n from slice where name = 'burst'",
            "select count(*) as n from slice where dur < 0",
            "select sum(c.dur) as inside, (select sum(dur) from slice where name = 'burst') as whole from slice c join \
             slice p on c.parent_id = p.id where p.name = 'burst'",
            "select count(*) as n from counter",
        ],
    );
    assert!(answers[0].is_empty(), "errors of the import: {:?}", answers[0]);
    let burst = &answers[1][0];
    let lane = &traced.json["lanes"][0];
    assert_eq!(burst["tx"], lane["tx_packets"], "{burst} {lane}");
    assert_eq!(burst["rx"], lane["rx_packets"], "{burst} {lane}");
    assert_eq!(answers[2][0]["n"], 0, "slices without an end");
    let of_bursts = &answers[3][0];
    assert!(
        of_bursts["inside"].as_u64() <= of_bursts["whole"].as_u64(),
        "{of_bursts}"
    );
    assert!(answers[4][0]["n"].as_u64() > Some(0), "no counters");
}

#[test]
fn babeltrace_reads_every_event_that_was_written() {
    if mpps_tests::missing("babeltrace2", "babeltrace2") {
        return;
    }
    // Between two departures it sleeps: of polls without number some would be left out, which the reader warns of.
    let traced = Traced::run("sendrecv loop: --rate 1kpps --duration 300ms --settle 200ms --trace-all");
    let folder = traced.folder.file("ctf");
    let told = traced.told(&format!("--ctf {}", folder.display()));
    for kind in ["ust", "kernel", "dpdk"] {
        let written = told
            .split(", ")
            .find(|part| part.trim_end().ends_with(kind))
            .expect("a count");
        let number = written
            .rsplit(": ")
            .next()
            .and_then(|text| text.split(' ').next())
            .expect("a number");
        let written: usize = number.replace(',', "").parse().expect("a number");
        if written == 0 {
            assert_eq!(kind, "kernel", "no events: {told}");
            continue;
        }
        let mut command = Command::new("babeltrace2");
        command.arg(folder.join(kind));
        let done = run_command(command);
        assert_eq!(done.code, Some(0), "{kind}: {}", done.stderr);
        assert_eq!(done.stderr, "", "{kind}");
        assert_eq!(done.stdout.lines().count(), written, "{kind}");
    }
    // A folder that holds something is left alone.
    let again = format!("trace {} --ctf {}", traced.file().display(), folder.display());
    assert_refused(mpps(&again), 2, &["want a folder that is new or empty"]);
}

#[test]
fn dpdk_writes_its_own_trace_by_options_of_its_eal() {
    if mpps_tests::no_dpdk() || mpps_tests::missing("babeltrace2", "babeltrace2") {
        return;
    }
    let folder = Scratch::new();
    let mut drop = mpps("drop dpdk:net_null0 --duration 10ms --quiet --eal");
    drop.arg(format!("--trace=lib.ethdev.* --trace-dir={}", folder.path().display()));
    let done = run_command(drop);
    assert!(matches!(done.code, Some(0 | 3)), "{}", done.stderr);
    let mut read = Command::new("babeltrace2");
    read.arg(folder.path());
    let events = run_command(read).stdout;
    for point in ["configure", "rxq.setup", "start", "stop"] {
        assert!(events.contains(&format!("lib.ethdev.{point}: ")), "{point}: {events}");
    }
}

#[test]
fn a_trace_tells_what_its_run_told_and_compares_with_another() {
    let traced = Traced::run(LOOP);
    traced.assert_adds_up();
    let without = format!("trace {} --svg", traced.file().display());
    assert_refused(mpps(&without), 2, &["no samples in it", "--profile"]);
    let table = traced.told("table");
    for row in traced.json["stages"].as_array().expect("stages") {
        let stage = row["stage"].as_str().expect("a stage").replace('_', " ");
        assert!(table.contains(&stage), "{stage} in {table}");
    }
    assert!(table.contains("What took the cores"), "{table}");
    assert!(table.contains("     sd  "), "{table}");
    let tree = traced.told("tree");
    assert!(tree.contains("100.00 %") && tree.contains(": lane 0"), "{tree}");
    assert!(
        tree.contains("No functions are in the trace: a run of mpps has them by --profile"),
        "{tree}"
    );
    let why = traced.told("why");
    assert!(traced.why().iter().all(|sentence| why.contains(sentence)), "{why}");
    let other = Traced::run(LOOP);
    let compared = traced.told(&format!("compare {}", other.file().display()));
    assert!(compared.contains("transmit") && compared.contains("B/A"), "{compared}");
}

/// A traced run by a user without privileges; `None`, and said, where there can be none.
fn by_nobody(words: &str) -> Option<Traced> {
    if !rustix::process::geteuid().is_root() || mpps_tests::missing("setpriv", "util-linux") {
        mpps_tests::skip("only root can become nobody");
        return None;
    }
    let folder = Scratch::new();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("ours");
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--bounding-set=-all",
        "--inh-caps=-all",
    ]);
    command.arg(mpps_tests::program()).args(words.split_whitespace());
    let done = run_command(folder.traced(command));
    if done.code == Some(126) || done.stderr.contains("Permission denied") {
        mpps_tests::skip("the program lies where nobody may start it");
        return None;
    }
    Some(Traced::of(folder, &done))
}

/// The user may note when own threads leave their cores.
fn own_switches() -> bool {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    text.is_ok_and(|text| text.trim().parse::<i32>().is_ok_and(|level| level <= 2))
}

#[test]
fn without_privileges_the_trace_says_what_is_missing() {
    let Some(traced) = by_nobody(LOOP) else { return };
    let told = traced.told("table");
    assert!(told.contains("Not in the trace: what took the cores"), "{told}");
    assert_eq!(
        told.matches("Not in the trace: what took the cores").count(),
        1,
        "{told}"
    );
}

#[test]
fn without_privileges_a_lane_that_was_displaced_is_told_where_the_kernel_notes_switches() {
    if !own_switches() {
        return mpps_tests::skip("kernel.perf_event_paranoid is more than 2");
    }
    // Three are named, and other tests have such programs on core 0.
    let core = mpps_tests::last_core();
    let spinner = mpps_tests::spinner(core);
    let words = format!("sendrecv loop: --rate 5kpps --duration 1s --settle 200ms --cores {core} --busy-poll");
    let Some(traced) = by_nobody(&words) else { return };
    let tid = spinner.id();
    drop(spinner);
    traced.assert_adds_up();
    let told = traced.told("table");
    assert!(told.contains("own threads apart"), "the rings could not be had: {told}");
    assert!(
        told.contains("another thread") && told.contains("What took the cores:"),
        "{told}"
    );
    assert!(told.contains(&format!("sh (thread {tid}) for ")), "{told}");
    traced.assert_says(&["another thread had the core"]);
}

#[test]
fn two_lanes_on_one_core_are_each_other_s_culprits_without_privileges() {
    if !own_switches() {
        return mpps_tests::skip("kernel.perf_event_paranoid is more than 2");
    }
    let words = "sendrecv loop: --rate 5kpps --duration 500ms --settle 200ms --cores 0,0 --lanes 2 --busy-poll";
    let Some(traced) = by_nobody(words) else { return };
    let told = traced.told("table");
    assert!(told.contains("own thread") && told.contains("lane"), "{told}");
}

#[test]
fn what_programs_in_the_kernel_take_is_told_by_packet() {
    let Some(net) = net_of(1) else { return };
    let (folder, there) = (Scratch::new(), Scratch::new());
    let mut reflector = Background::start(there.traced(net.b("reflect xdp:eth1")));
    reflector = reflector.wait_to_hear("ready");
    let send = "sendrecv xdp:eth1 --src 10.99.0.1 --dest 10.99.0.2:9000 --rate 20kpps --duration 500ms --settle 500ms";
    let done = run_command(folder.traced(net.a(send)));
    assert!(matches!(done.code, Some(0 | 3)), "{}{}", done.stdout, done.stderr);
    let ended = reflector.end(Signal::INT);
    assert!(done.stdout.contains("program receive of eth1: "), "{}", done.stdout);
    assert!(ended.stdout.contains("program reflect of eth1: "), "{}", ended.stdout);
    for (traced, wanted) in [
        (Traced::of(folder, &done), &["send", "receive"][..]),
        (Traced::of(there, &ended), &["reflect"]),
    ] {
        let programs = traced.json["programs"].as_array().expect("programs");
        for name in wanted {
            let row = programs.iter().find(|row| row["program"] == *name);
            let row = row.unwrap_or_else(|| panic!("{name} of {programs:?}"));
            let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} of {row}"));
            // Its own, and what else has come in. However few those are on a busy host: that is another test's.
            let own = traced.json[if *name == "send" { "tx_packets" } else { "rx_packets" }].as_f64();
            let packets = number("packets");
            assert!(
                own > Some(0.0) && Some(packets) >= own && number("runs") >= packets,
                "{row}"
            );
            assert!(*name != "send" || Some(packets) == own, "{own:?} {row}");
            assert!(
                (1.0..1e6).contains(&number("ns_per_packet")) && number("share") > 0.0,
                "{row}"
            );
            assert!((1.0..=number("runs")).contains(&number("timed")), "{row}");
            assert_eq!(row["device"], "eth1", "{row}");
            assert!(traced.told("table").contains(name));
        }
    }
}

#[test]
fn programs_in_the_kernel_are_not_counted_without_a_trace() {
    let Some(net) = net_of(1) else { return };
    let folder = Scratch::new();
    let mut drop = net.b("drop xdp:eth1 --duration 200ms --quiet --json");
    drop.arg(folder.file("r.json"));
    assert_eq!(run_command(drop).code, Some(0));
    let json: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.file("r.json")).expect("a summary")).expect("JSON");
    assert!(
        json["programs"].as_array().is_some_and(Vec::is_empty),
        "{}",
        json["programs"]
    );
}

#[test]
fn what_is_no_trace_and_what_does_not_go_together_is_refused() {
    let folder = Scratch::new();
    let path = folder.file("x");
    std::fs::write(&path, "{}").expect("written");
    let path = path.display();
    assert_refused(mpps(&format!("trace {path}")), 2, &["no trace of mpps"]);
    assert_refused(mpps(&format!("trace {path} compare")), 2, &["compare"]);
    assert_refused(mpps(&format!("trace {path} table {path}")), 2, &["compare only"]);
    assert_refused(mpps("trace"), 2, &["FILE"]);
    assert_refused(mpps("sendrecv loop: --trace-on loss"), 2, &["--trace"]);
    assert_refused(
        mpps("sendrecv loop: --trace x --trace-on lost"),
        2,
        &["--trace-on", "stall=TIME"],
    );
    assert_refused(
        mpps("sendrecv loop: --trace x --trace-window 5"),
        2,
        &["--trace-window", "5ms:1ms"],
    );
    assert_refused(mpps("ndr loop: --trace x"), 2, &["--trace"]);
}

/// The program with these words, by a shell that sets limits first.
fn limited(limits: &str, words: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{limits}; exec \"$0\" \"$@\"")]);
    command.arg(mpps_tests::program()).args(words.split_whitespace());
    command
}

#[test]
fn a_strangers_file_takes_no_memory_whatever_its_length() {
    let folder = Scratch::new();
    let (sparse, bomb) = (folder.file("sparse"), folder.file("bomb.gz"));
    std::fs::File::create(&sparse)
        .and_then(|file| file.set_len(10 << 30))
        .expect("a sparse file");
    // A packet with a field of 3,000,000,000 bytes, which gzip makes 13 MB of.
    let head = r"\012\206\274\301\226\013\052\200\274\301\226\013";
    let pack = format!("{{ printf '{head}'; head -c 3000000000 /dev/zero; }} | gzip -1");
    let script = format!("{pack} >{}", bomb.display());
    let mut make = Command::new("sh");
    make.args(["-c", &script]);
    assert_eq!(run_command(make).code, Some(0));
    for file in [sparse, bomb] {
        let read = limited("ulimit -v 1000000", &format!("trace {}", file.display()));
        assert_refused(read, 2, &["no trace of mpps"]);
    }
}

#[test]
fn a_folder_that_gets_full_is_a_failure_and_holds_no_half_of_a_trace() {
    let traced = Traced::run(LOOP);
    let folder = traced.folder.file("ctf");
    let words = format!("trace {} --ctf {}", traced.file().display(), folder.display());
    let full = limited("trap '' XFSZ; ulimit -f 1", &words);
    assert_refused(full, 1, &["write", "ctf"]);
    assert!(!folder.exists(), "a folder of its own goes with what was in it");
    // One that was there stays.
    std::fs::create_dir(&folder).expect("a folder");
    assert_refused(limited("trap '' XFSZ; ulimit -f 1", &words), 1, &["write", "ctf"]);
    assert_eq!(std::fs::read_dir(&folder).expect("it is there").count(), 0);
    assert_eq!(run_command(mpps(&words)).code, Some(0), "the next try");
}

#[test]
fn both_ends_of_a_run_keep_traces() {
    let Some(net) = net_of(1) else { return };
    let folder = Scratch::new();
    let [a, b] = ["a.gz", "b.gz"].map(|name| folder.file(name));
    let sender = format!(
        "sendrecv af_packet:eth1 --dest 10.99.0.2:9000 --rate 5kpps --duration 300ms --settle 500ms --trace {}",
        a.display()
    );
    all_back(
        &net,
        &format!("reflect af_packet:eth1 --trace {}", b.display()),
        &[&sender],
    );
    for (trace, word) in [(a, "sendrecv"), (b, "reflect")] {
        let told = run_command(mpps(&format!("trace {}", trace.display())));
        assert_eq!(told.code, Some(0), "{}", told.stderr);
        assert!(
            told.stdout.contains(word) && told.stdout.contains("transmit"),
            "{}",
            told.stdout
        );
    }
}
