//! `--trace`: what a run keeps is what it measured, viewers read it, and what was injected is what it names.
//!
//! Causes are injected with certainty and named by whoever saw them: what a busy host adds beside is named as well, so
//! a test asks for its sentence among all.

use mpps_tests::{
    Background, Scratch, all_back, assert_refused, free_port, mpps, net_of, processor, run_command, sql, wait_until,
};
use rustix::process::Signal;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// A run over the `loop` device.
const LOOP: &str = "sendrecv loop: --rate 20kpps --duration 300ms --settle 200ms";

/// A traced run and what it kept.
struct Traced {
    folder: Scratch,
    json: Value,
}

impl Traced {
    /// Runs `words` with a trace.
    fn run(words: &str) -> Self {
        let folder = Scratch::new();
        let (trace, json) = (folder.file("t.pftrace.gz"), folder.file("r.json"));
        let done = run_command(mpps(&format!(
            "{words} --trace {} --json {}",
            trace.display(),
            json.display()
        )));
        assert!(
            matches!(done.code, Some(0 | 3)),
            "{words}: {}{}",
            done.stdout,
            done.stderr
        );
        Self::of(folder)
    }

    fn of(folder: Scratch) -> Self {
        let text = std::fs::read_to_string(folder.file("r.json")).expect("a summary");
        let json = serde_json::from_str(&text).expect("JSON");
        Self { folder, json }
    }

    fn file(&self) -> PathBuf {
        self.folder.file("t.pftrace.gz")
    }

    /// What `mpps trace FILE …` prints.
    fn told(&self, more: &str) -> String {
        let done = run_command(mpps(&format!("trace {} {more}", self.file().display())));
        assert_eq!(done.code, Some(0), "{more}: {}", done.stderr);
        done.stdout
    }

    /// The sentences of the summary.
    fn why(&self) -> Vec<String> {
        let why = self.json["why"].as_array().expect("why");
        why.iter()
            .map(|cause| cause["sentence"].as_str().expect("a sentence").to_owned())
            .collect()
    }

    /// Some sentence has all of these.
    fn assert_says(&self, parts: &[&str]) {
        let why = self.why();
        assert!(
            why.iter()
                .any(|sentence| parts.iter().all(|part| sentence.contains(part))),
            "{parts:?} in no sentence of {why:#?}; loss {}",
            self.json["lost"]
        );
    }
}

/// Parts of each sentence add up: to the time that it is about, or to the packets.
fn assert_adds_up(json: &Value) {
    for cause in json["why"].as_array().expect("why") {
        let parts = cause["parts"].as_array().expect("parts");
        let sum: u64 = parts
            .iter()
            .map(|part| part["amount"].as_u64().expect("an amount"))
            .sum();
        let whole = if cause["subject"] == "loss" {
            "packets"
        } else {
            "took_ns"
        };
        assert_eq!(Some(sum), cause[whole].as_u64(), "{cause:#}");
    }
}

/// True, and said, where the kernel's tracepoints are out of reach.
fn no_root() -> bool {
    let absent = !rustix::process::geteuid().is_root();
    if absent {
        mpps_tests::skip("the kernel's tracepoints need root");
    }
    absent
}

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
    let traced = Traced::run(&format!("{LOOP} --trace-all"));
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
fn a_trace_tells_what_its_run_told_and_compares_with_another() {
    let traced = Traced::run(LOOP);
    assert_adds_up(&traced.json);
    let without = format!("trace {} --svg", traced.file().display());
    assert_refused(mpps(&without), 2, &["no samples in it", "--profile"]);
    let table = traced.told("table");
    for row in traced.json["stages"].as_array().expect("stages") {
        let stage = row["stage"].as_str().expect("a stage").replace('_', " ");
        assert!(table.contains(&stage), "{stage} in {table}");
    }
    assert!(table.contains("What took the cores"), "{table}");
    let why = traced.told("why");
    assert!(traced.why().iter().all(|sentence| why.contains(sentence)), "{why}");
    let other = Traced::run(LOOP);
    let compared = traced.told(&format!("compare {}", other.file().display()));
    assert!(compared.contains("transmit") && compared.contains("B/A"), "{compared}");
}

#[test]
fn loss_on_the_path_is_told_as_such() {
    let traced = Traced::run("sendrecv loop:loss=1% --rate 20kpps --duration 300ms --settle 200ms");
    assert!(traced.json["lost"].as_u64() > Some(0));
    assert_adds_up(&traced.json);
    traced.assert_says(&["packets were lost between", "on the path or beyond it"]);
}

#[test]
fn a_port_that_nobody_listens_on_is_named_by_the_kernel_s_reason() {
    if no_root() {
        return;
    }
    let port = free_port();
    let traced = Traced::run(&format!(
        "sendrecv udp:127.0.0.1 --dest 127.0.0.1:{port} --rate 2kpps --duration 300ms --settle 200ms"
    ));
    assert_eq!(traced.json["rx_packets"], 0);
    assert_adds_up(&traced.json);
    traced.assert_says(&["NO_SOCKET"]);
}

#[test]
fn a_program_that_was_stopped_is_named() {
    if no_root() {
        return;
    }
    let folder = Scratch::new();
    let (trace, json) = (folder.file("t.pftrace.gz"), folder.file("r.json"));
    let csv = folder.file("r.csv");
    let words = format!(
        "sendrecv loop: --rate 5kpps --duration 2s --settle 200ms --trace {} --json {} --csv {}",
        trace.display(),
        json.display(),
        csv.display()
    );
    let run = Background::start(mpps(&words));
    wait_until("rows", || {
        std::fs::read_to_string(&csv).is_ok_and(|text| text.lines().count() > 3)
    });
    run.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(30));
    run.signal(Signal::CONT);
    let done = run.finish();
    assert!(matches!(done.code, Some(0 | 3)), "{}", done.stderr);
    let traced = Traced::of(folder);
    assert_adds_up(&traced.json);
    traced.assert_says(&["stopped"]);
}

#[test]
fn a_thread_that_has_the_lane_s_core_is_named_with_its_id() {
    if no_root() {
        return;
    }
    let mut spinner = Command::new("taskset");
    spinner.args(["-c", "0", "sh", "-c", "while :; do :; done"]);
    let spinner = Background::start(spinner);
    let traced = Traced::run("sendrecv loop: --rate 5kpps --duration 1s --settle 200ms --cores 0 --busy-poll");
    let tid = spinner.id();
    drop(spinner);
    assert_adds_up(&traced.json);
    traced.assert_says(&[&format!("sh (thread {tid}) had the core")]);
    assert!(
        traced.told("table").contains(&format!("sh ({tid})")),
        "{}",
        traced.told("table")
    );
}

#[test]
fn without_privileges_the_trace_says_what_is_missing() {
    let nobody = |words: &str| {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--bounding-set=-all",
            "--inh-caps=-all",
        ]);
        command.arg(mpps_tests::program()).args(words.split_whitespace());
        command
    };
    if !rustix::process::geteuid().is_root() || mpps_tests::missing("setpriv", "util-linux") {
        return;
    }
    let folder = Scratch::new();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("ours");
    let trace = folder.file("t.gz");
    let done = run_command(nobody(&format!("{LOOP} --trace {}", trace.display())));
    if done.code == Some(126) || done.stderr.contains("Permission denied") {
        mpps_tests::skip("the program lies where nobody may start it");
        return;
    }
    assert!(matches!(done.code, Some(0 | 3)), "{}", done.stderr);
    let told = run_command(mpps(&format!("trace {} table", trace.display())));
    assert!(
        told.stdout.contains("Not in the trace: what took the cores"),
        "{}",
        told.stdout
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
