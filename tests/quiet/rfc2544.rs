//! `rfc2544`: each test on a device of known rate and queue, sizes that can't be, resumption, and refusals.

use mpps_host::lab::Host;
use mpps_tests::{
    Background, Finished, Scratch, assert_refused, bridge, joined_twice, mpps, mpps_first, run_command, skip_disturbed,
    wait_until,
};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the device forwards, packets per second, and what it can hold back.
const TRUTH: f64 = 20_000.0;
const QUEUE: f64 = 200.0;
/// The queue has room for what a lane on a busy host makes up for at once: 5 ms at 40 kpps.
const DEVICE: &str = "loop:capacity=20kpps,queue=200 --max-rate 40kpps --catch-up 5ms --settle 300ms --pause 0 \
                      --trial 300ms";
/// How close the throughput is found.
const CLOSE: &str = "--first-trial 300ms --resolution 4%";

/// Devices of one test at a time: each keeps a core busy, and what is measured beside another is void.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Runs a test to its end, with its results in `out`.
fn tested(test: &str, out: &Path, more: &str) -> Finished {
    let done = ended(test, out, more);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    done
}

fn ended(test: &str, out: &Path, more: &str) -> Finished {
    let line = format!("rfc2544 {test} {DEVICE} {more} --out {}", out.display());
    let mut done = run_command(mpps_first(&line));
    // A host that others use may void three trials in a row: it is asked again.
    for _ in 0..20 {
        if done.code != Some(3) || !done.stdout.contains("this host could not") {
            break;
        }
        let again = if more.contains("--resume") { "" } else { "--resume" };
        done = run_command(mpps_first(&format!("{line} {again}")));
    }
    done
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number: {value}"))
}

/// Every packet of every trial is accounted for.
fn assert_accounted(result: &Value) {
    for trial in result["trials"].as_array().expect("trials") {
        let of = |key: &str| trial[key].as_u64().unwrap_or_else(|| panic!("{key}: {trial:#}"));
        assert_eq!(of("sent"), of("received") + of("lost") + of("late"), "{trial:#}");
        if trial["outcome"] == "counted" {
            assert_eq!(of("due"), of("sent") + of("refused"), "{trial:#}");
            assert_eq!(of("missing"), of("lost") + of("late") + of("refused"), "{trial:#}");
        }
    }
}

fn assert_throughput(of: &Value) {
    let (lower, upper) = (
        number(&of["throughput"]["lower_pps"]),
        number(&of["throughput"]["upper_pps"]),
    );
    // In 300 ms the queue takes 200 packets more than the device forwards.
    let most = TRUTH + QUEUE / 0.3;
    assert!(lower <= most && TRUTH <= upper, "{lower} to {upper}: {of:#}");
    assert!((upper - lower) / upper <= 0.0401, "{lower} to {upper}");
}

#[test]
fn all_tests_tell_what_the_device_is() {
    let (_alone, scratch) = (alone(), Scratch::new());
    let out = scratch.file("results");
    let done = tested(
        "all",
        &out,
        &format!("--sizes 64 {CLOSE} --repeats 1 --longest-burst 100ms"),
    );
    let result = json(&out.join("result.json"));
    assert_eq!(mpps_tests::unheaded(&result), Vec::<String>::new());
    assert_eq!(result["complete"], true, "{result:#}");
    assert_accounted(&result);
    // RFC 2544, 26.1.
    assert_eq!(result["params"]["protocol"], "UDP over IPv4", "{:#}", result["params"]);
    let report = std::fs::read_to_string(out.join("report.md")).expect("a report");
    for part in [
        "UDP over IPv4 on not known: the path loop names no interface; in each UDP payload 16 bytes",
        "by seed 1",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    let of = &result["results"][0];
    assert_eq!(of["frame_size_bytes"], 64);
    assert_throughput(of);
    let latency = &of["latency"];
    assert_eq!(latency["runs"], 1);
    assert!(
        number(&latency["min_ns"]) <= number(&latency["typical_ns"]["median"]),
        "{latency:#}"
    );
    let losses = of["loss"].as_array().expect("loads");
    // All that is offered above the device's rate, but for its queue, is lost.
    for load in losses {
        let (rate, loss) = (number(&load["load_pps"]), number(&load["loss_ratio"]));
        let (least, most) = (1.0 - (TRUTH + QUEUE / 0.3) / rate, 1.0 - TRUTH / rate);
        assert!(loss >= least - 0.02 && loss <= most.max(0.0) + 0.02, "{load:#}");
    }
    let clean = losses
        .iter()
        .rev()
        .take_while(|load| number(&load["loss_ratio"]) == 0.0);
    assert!(clean.count() >= 2, "two loads without loss end it: {of:#}");
    let bursts = &of["back_to_back"];
    let (mean, buffer) = (number(&bursts["mean_frames"]), number(&bursts["corrected_buffer_s"]));
    // Of a burst at twice its rate the device forwards half meanwhile.
    assert!(mean > QUEUE && mean < 3.0 * QUEUE, "{bursts:#}");
    assert!(buffer > 0.002 && buffer < 0.010, "{bursts:#}");
    let recovery = &of["recovery"];
    assert_eq!(
        recovery["then_pps"],
        number(&recovery["overload_pps"]) as u64 / 2,
        "{recovery:#}"
    );
    // At half the load the queue runs empty, and nothing is lost: the last lost packet left in the overload.
    let told = recovery["recovery_ns"].as_array().expect("times");
    assert!(told.iter().all(|ns| number(ns) <= 20e6), "{recovery:#}");
    assert!(done.stdout.contains("64 bytes: throughput"), "{}", done.stdout);
    for file in [
        "report.html",
        "report.md",
        "throughput.csv",
        "throughput.svg",
        "throughput-bits.svg",
        "latency-by-size.svg",
        "jitter-by-size.svg",
        "at-throughput.csv",
        "loss.svg",
        "latency.svg",
        "back-to-back.csv",
        "trials.csv",
    ] {
        let text = std::fs::read_to_string(out.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(!text.is_empty(), "{file}");
    }
    let trial = table(&result, "at-throughput");
    let sent = number(&trial["sent"]);
    assert_eq!(
        (&trial["wire_size_bytes"], &trial["missing"]),
        (&84.into(), &0.into()),
        "{trial:#}"
    );
    assert_eq!(number(&trial["received"]), sent, "{trial:#}");
    assert_eq!(number(&trial["sent_bytes"]), 64.0 * sent, "{trial:#}");
    assert_eq!(
        number(&trial["received_bps"]),
        672.0 * number(&trial["received_pps"]),
        "{trial:#}"
    );
    assert!(
        number(&trial["pdv_ns"]) <= number(&trial["latency_max_ns"]),
        "{trial:#}"
    );

    let both = scratch.file("both");
    let words = format!("report {0} {0} -o {1}", out.display(), both.display());
    let done = run_command(mpps(&words));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let of_both = table(&json(&both.join("result.json")), "throughput");
    assert_eq!(of_both["throughput_pps_by_first"], 1.0, "{of_both:#}");
    let words = format!("plot {0} {0} -o {1}", out.display(), scratch.file("both.png").display());
    assert_eq!(run_command(mpps(&words)).code, Some(0), "{words}");
}

/// The last row of a table, by its keys.
fn table(result: &Value, name: &str) -> Value {
    let tables = result["tables"].as_array().expect("tables");
    let table = tables
        .iter()
        .find(|table| table["name"] == name)
        .unwrap_or_else(|| panic!("no {name}"));
    let keys = table["columns"].as_array().expect("columns").iter();
    let keys = keys.map(|column| column["key"].as_str().expect("a key").to_owned());
    let row = table["rows"].as_array().and_then(|rows| rows.last()).expect("a row");
    keys.zip(row.as_array().expect("cells").iter().cloned()).collect()
}

#[test]
fn a_reset_of_a_bridge_is_asked_for_and_timed() {
    let _alone = alone();
    let Some(net) = joined_twice() else { return };
    bridge(&net);
    let scratch = Scratch::new();
    let out = scratch.file("results");
    let line = "rfc2544 reset af_packet:eth1 af_packet:eth2 --src 10.99.0.1 --dest 10.99.0.2:9000 --min-rate 1kpps \
                --max-rate 3kpps --catch-up 50ms --settle 300ms --pause 0 --sizes 64 --trial 2s --first-trial 200ms \
                --resolution 50% --repeats 1 --loss 10%";
    let b = net.lab.namespace(Host::B);
    let reset = format!("ip -n {b} link set br0 down; sleep 0.3; ip -n {b} link set br0 up");
    let run = |more: &str| {
        let mut command = net.a(&format!("{line} --out {} {more}", out.display()));
        command.args(["--reset-cmd", &reset]);
        run_command(command)
    };
    let mut done = run("");
    for _ in 0..20 {
        if done.code != Some(3) {
            break;
        }
        done = run("--resume");
    }
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let result = json(&out.join("result.json"));
    assert_accounted(&result);
    let told = &result["results"][0]["reset"];
    let (loss, stamps) = (number(&told["by_loss_ns"][0]), number(&told["by_stamps_ns"][0]));
    // However long the command took on this host, nothing came in the 0.3 s that it slept.
    assert!(loss >= 0.25e9 && stamps >= 0.25e9, "{told:#}");
    assert!((loss - stamps).abs() <= 0.2 * loss.max(stamps), "{told:#}");
}

/// Under sudo the test runs as the user who called, and may signal no process of root's.
#[test]
fn a_reset_command_that_hangs_ends_with_the_test() {
    let (_alone, scratch) = (alone(), Scratch::new());
    for user in [None, Some("65534")] {
        if user.is_some() && !rustix::process::geteuid().is_root() {
            println!("SKIPPED: only root can be another user");
            continue;
        }
        let began = scratch.file("began");
        let hangs = format!("echo $$ > {}; exec sleep 600", began.display());
        let mut command = mpps(
            "rfc2544 reset loop: --max-rate 3kpps --catch-up 50ms --settle 300ms --pause 0 --sizes 64 --trial 2s \
             --first-trial 200ms --resolution 50% --repeats 1 --loss 10%",
        );
        command.args(["--reset-cmd", &hangs]);
        if let Some(user) = user {
            command.env("SUDO_UID", user).env("SUDO_GID", user);
        }
        let done = run_command(command);
        if done.code == Some(3) {
            return skip_disturbed("3 kpps did not leave at their times");
        }
        assert_eq!(done.code, Some(1), "{}{}", done.stdout, done.stderr);
        let said = [done.stdout, done.stderr].concat();
        assert!(said.contains("--reset-cmd: it had not ended"), "{said}");
        let id = std::fs::read_to_string(&began).expect("it began");
        let status = format!("/proc/{}/stat", id.trim());
        wait_until("the command to end", || {
            std::fs::read_to_string(&status).map_or(true, |stat| stat.contains(") Z "))
        });
        std::fs::remove_file(&began).expect("a file");
    }
}

/// The queue takes a burst whole, so that a pause is all that bursts need.
#[test]
fn the_throughput_of_bursts_is_found_with_the_pause_between_them() {
    let (_alone, scratch) = (alone(), Scratch::new());
    let out = scratch.file("results");
    tested("throughput", &out, &format!("--frame-sizes 64 {CLOSE} --bursts 16"));
    let result = json(&out.join("result.json"));
    assert_accounted(&result);
    let burst = &result["results"][0]["bursts"][0];
    assert_eq!(burst["burst_frames"], 16, "{burst:#}");
    let (lower, pause) = (number(&burst["lower_pps"]), number(&burst["pause_ns"]));
    assert!(pause > 0.0 && lower < 1.2 * TRUTH, "{burst:#}");
    // All trials of that search, and of no other.
    let trials = result["trials"].as_array().expect("trials");
    let sent = |frames: &Value| trials.iter().filter(|trial| trial["burst_frames"] == *frames).count();
    assert!(sent(&16.into()) > 0 && sent(&Value::Null) > 0, "{trials:#?}");
    assert!(out.join("bursts.csv").exists());
}

#[test]
fn a_demand_on_throughput_that_one_size_does_not_meet_is_exit_code_4() {
    let (_alone, scratch) = (alone(), Scratch::new());
    let (out, junit) = (scratch.file("results"), scratch.file("junit.xml"));
    // The device passes as many packets of each size: of the larger more bits.
    let more = format!(
        "--frame-sizes 64,512 {CLOSE} --expect throughput>=50Mbps --junit {}",
        junit.display()
    );
    let done = ended("throughput", &out, &more);
    assert_eq!(done.code, Some(4), "{}{}", done.stdout, done.stderr);
    for line in [
        "expected, NOT met: 64 bytes: throughput>=50Mbps: ",
        "expected, met: 512 bytes: throughput>=50Mbps: ",
    ] {
        assert!(done.stdout.contains(line), "{}", done.stdout);
    }
    for chart in [
        "throughput.svg",
        "throughput-bits.svg",
        "latency-by-size.svg",
        "jitter-by-size.svg",
    ] {
        let drawn = std::fs::read_to_string(out.join(chart)).unwrap_or_else(|e| panic!("{chart}: {e}"));
        assert!(
            drawn.contains(">64</text>") && drawn.contains(">512</text>"),
            "{chart}: {drawn}"
        );
    }
    let junit = std::fs::read_to_string(&junit).expect("a file of --junit");
    assert!(
        junit.contains("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"0\""),
        "{junit}"
    );
}

#[test]
fn a_binary_search_finds_the_same() {
    let (_alone, scratch) = (alone(), Scratch::new());
    let out = scratch.file("results");
    tested("throughput", &out, &format!("--sizes 64 {CLOSE} --search binary"));
    let result = json(&out.join("result.json"));
    assert_throughput(&result["results"][0]);
    assert_accounted(&result);
    assert_eq!(result["params"]["search"], "binary");
}

#[test]
fn a_size_above_the_mtu_has_a_throughput_of_0() {
    let (_alone, scratch) = (alone(), Scratch::new());
    let out = scratch.file("results");
    let device = DEVICE.replace("queue=200", "queue=200,mtu=600");
    let line = format!(
        "rfc2544 throughput {device} {CLOSE} --frame-sizes 512,1518 --out {}",
        out.display()
    );
    let mut done = run_command(mpps_first(&line));
    for _ in 0..20 {
        if done.code != Some(3) {
            break;
        }
        done = run_command(mpps_first(&format!("{line} --resume")));
    }
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let result = json(&out.join("result.json"));
    assert_throughput(&result["results"][0]);
    assert_eq!(result["results"][1]["throughput"]["lower_pps"], 0, "{result:#}");
    assert!(done.stdout.contains("1518 bytes: 0 pps"), "{}", done.stdout);
}

#[test]
fn a_test_that_was_killed_goes_on_after_its_last_trial() {
    let (_alone, scratch) = (alone(), Scratch::new());
    let out = scratch.file("results");
    let line = format!("rfc2544 loss {DEVICE} --sizes 64 --out {}", out.display());
    let running = Background::start(mpps_first(&line));
    let record = out.join("trials.jsonl");
    let trials = || {
        let text = std::fs::read_to_string(&record).unwrap_or_default();
        text.lines().filter(|line| line.starts_with("{\"trial\"")).count()
    };
    wait_until("three trials", || trials() >= 3);
    running.end(Signal::KILL);
    let before = trials();
    let done = tested("loss", &out, "--sizes 64 --resume");
    let told = format!("going on after {before} trials");
    assert!(done.stderr.contains(&told), "{}", done.stderr);
    let result = json(&out.join("result.json"));
    assert_accounted(&result);
    assert_eq!(
        result["trials"].as_array().map(Vec::len),
        Some(trials()),
        "each trial once"
    );
    assert!(result["tester"]["mpps_version"].is_string(), "{:#}", result["tester"]);
}

#[test]
fn a_test_that_is_interrupted_says_what_it_knows() {
    let (_alone, scratch) = (alone(), Scratch::new());
    let out = scratch.file("results");
    let running = Background::start(mpps_first(&format!(
        "rfc2544 all {DEVICE} {CLOSE} --out {}",
        out.display()
    )));
    let record = out.join("trials.jsonl");
    wait_until("a trial", || {
        std::fs::read_to_string(&record).is_ok_and(|text| text.lines().count() > 3)
    });
    let done = running.end(Signal::INT);
    assert_eq!(done.code, Some(3), "{}{}", done.stdout, done.stderr);
    assert!(
        done.stdout.contains("not complete: it was interrupted"),
        "{}",
        done.stdout
    );
    assert_eq!(json(&out.join("result.json"))["complete"], false);
}

#[test]
fn what_can_t_be_tested_is_refused() {
    for (words, parts) in [
        (
            "throughput loop: --rate 1kpps",
            &["--rate", "the method chooses it"][..],
        ),
        ("throughput loop: --frame-size 64", &["--frame-size", "--frame-sizes"]),
        ("throughput loop: --frame-sizes 20", &["--frame-sizes", "20"]),
        ("throughput loop: --sizes 20", &["--frame-sizes", "20"]),
        (
            "throughput loop: --loss 0.05",
            &["--loss", "want its unit: 0.05%, or 5%"],
        ),
        ("throughput loop: --strict --quick", &["--strict", "--quick"]),
        ("throughput loop: --resolution 0", &["--resolution", "0.001%"]),
        ("throughput loop: --loss 50%", &["--loss", "10%"]),
        ("loss loop: --step-by 20%", &["--step-by", "10%"]),
        ("latency loop: --at 200%", &["--at", "200%"]),
        ("throughput loop: --first-trial 2m", &["--first-trial", "60 s"]),
        ("throughput loop: --reset-cmd x", &["--reset-cmd", "reset or all"]),
        ("back-to-back loop: --longest-burst 0", &["--longest-burst", "above 0"]),
        ("back-to-back loop: --repeats 0", &["--repeats", "0"]),
        (
            "throughput loop: --dut-note /nonexistent",
            &["--dut-note", "/nonexistent"],
        ),
        ("loss loop: --at 50%", &["--at", "latency"]),
        ("throughput loop: --repeats 5", &["--repeats", "does not use it"]),
        ("throughput loop: --tolerance 50%", &["--tolerance", "decides nothing"]),
        ("recovery loop: --both-ways", &["--both-ways"]),
        ("throughput loop: --bursts 1", &["--bursts", "2 to 1000000"]),
        (
            "throughput loop: --bursts 16 --pacing poisson",
            &["--pacing", "--bursts"],
        ),
        ("loss loop: --bursts 16", &["--bursts", "does not use it"]),
        ("reset loop: --quiet", &["--quiet", "--reset-cmd"]),
        ("speed loop:", &["speed", "throughput"]),
        (
            "loss loop: --expect throughput>1kpps",
            &["--expect 'throughput>1kpps'", "a demand on loss"],
        ),
        (
            "throughput loop: --expect p99<1ms",
            &["--expect 'p99<1ms'", "a demand on throughput"],
        ),
    ] {
        assert_refused(mpps(&format!("rfc2544 {words}")), 2, parts);
    }
}
