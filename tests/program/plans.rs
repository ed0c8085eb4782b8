//! A run as a value: what `--print-plan` prints is what `run` does, a result can be repeated from its own file, and
//! what no plan has is refused by its name before anything is opened.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use mpps_tests::{Finished, Scratch, assert_refused, mpps, run};
use serde_json::Value;

/// The plan that a command line prints.
fn printed(words: &str) -> String {
    let Finished { code, stdout, stderr } = run(&format!("{words} --print-plan"));
    assert_eq!(code, Some(0), "{words}: {stderr}");
    assert_eq!(stderr, "", "{words}");
    stdout
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

const WORDS: &str =
    "sendrecv loop:loss=0.01,seed=5 --rate 20kpps --duration 200ms --settle 50ms --frame-size 128 --catch-up 10s";

#[test]
fn a_plan_does_what_its_command_line_does_and_so_does_the_result() {
    let (scratch, first) = (Scratch::new(), Scratch::new());
    let plan = scratch.file("plan.json");
    std::fs::write(&plan, printed(WORDS)).expect("writable");
    let by_words = first.measure(mpps(&format!("{WORDS} --quiet")));
    let by_plan = Scratch::new().measure(mpps(&format!("run {} --quiet", plan.display())));
    let result = scratch.file("result.json");
    std::fs::write(&result, by_plan.json.to_string()).expect("writable");
    let by_result = Scratch::new().measure(mpps(&format!("run {} --quiet", result.display())));
    for report in [&by_words, &by_plan, &by_result] {
        report.assert_accounted();
        let counts = ["tx_packets", "frame_size_bytes"].map(|key| report.count(key));
        assert_eq!(counts, [4000, 128], "{:#}", report.json);
        assert!(report.count("lost") > 0, "{:#}", report.json);
        assert_eq!(report.json["plan"], json(&printed(WORDS)), "{:#}", report.json);
    }
}

#[test]
fn a_printed_plan_has_every_default_that_does_not_depend_on_the_device() {
    let plan = json(&printed(
        "sendrecv af_packet:lo --src 127.0.0.1 --dest 127.0.0.1:9000 --dest-mac 02:00:00:00:00:02",
    ));
    for (section, key, value) in [
        ("traffic", "src_ports", Value::from("10000-10063")),
        ("traffic", "flows", 64.into()),
        ("traffic", "payload_size", 18.into()),
        ("load", "pacing", "constant".into()),
        ("times", "duration", "10s".into()),
        ("times", "settle", "1s".into()),
        ("lanes", "burst", Value::Null),
        ("checks", "tolerance", "0.1%".into()),
    ] {
        assert_eq!(plan[section][key], value, "{section}.{key}: {plan:#}");
    }
    let ports = json(&printed("forward null: loop: --take all"));
    assert_eq!(ports["ports"], json(r#"["null:", "loop:"]"#));
    assert_eq!(
        (&ports["times"]["duration"], &ports["selection"]["take"]),
        (&"0".into(), &"all".into())
    );
}

#[test]
fn the_plan_of_standard_input_is_read_and_printed_again_as_it_was() {
    let (scratch, text) = (Scratch::new(), printed(WORDS));
    let file = scratch.file("plan.json");
    std::fs::write(&file, &text).expect("writable");
    let mut command = mpps("run - --print-plan");
    command.stdin(Stdio::from(std::fs::File::open(&file).expect("there")));
    let again = command.output().expect("the program starts");
    let told = String::from_utf8_lossy(&again.stderr);
    assert_eq!(
        (again.status.code(), again.stdout),
        (Some(0), text.into_bytes()),
        "{told}"
    );
}

#[test]
fn what_no_plan_has_is_refused_by_the_name_of_the_field_before_anything_is_opened() {
    let scratch = Scratch::new();
    let file = scratch.file("plan.json");
    let plan = json(&printed("send af_packet:nosuch --src 10.99.0.1 --dest 10.99.0.2:9000"));
    let cases: [(&[&str], Value, &str); 6] = [
        (
            &["load", "rte"],
            1.into(),
            "load.rte: a send has no such field: want rate, then, pacing, catch_up",
        ),
        (&["capture"], json("{}"), "capture: a send has none: want it left out"),
        (&["load", "rate"], "fast".into(), "load.rate (--rate) 'fast': want"),
        (
            &["load", "pacing"],
            "poisson".into(),
            "load.pacing (--pacing): without load.rate (--rate)",
        ),
        (&["lanes", "lanes"], 1000.into(), "lanes.lanes (--lanes)"),
        (&["traffic", "vlan"], 5000.into(), "traffic.vlan (--vlan)"),
    ];
    for (path, value, part) in cases {
        let mut plan = plan.clone();
        match path {
            [section, key] => plan[*section][*key] = value,
            _ => plan[path[0]] = value,
        }
        std::fs::write(&file, plan.to_string()).expect("writable");
        assert_refused(mpps(&format!("run {}", file.display())), 2, &["plan.json: ", part]);
    }
    assert_refused(mpps("run /nonexistent/plan.json"), 2, &["no such file", "--print-plan"]);
    std::fs::write(&file, [0xff, 0xfe, 0]).expect("writable");
    assert_refused(
        mpps(&format!("run {}", file.display())),
        2,
        &["byte order mark of UTF-16"],
    );
    assert_refused(mpps("run /dev/zero"), 2, &["above 16777216 bytes"]);
}

#[test]
fn what_somebody_else_may_have_written_runs_no_code_and_names_no_file_elsewhere() {
    if !rustix::process::geteuid().is_root() {
        return mpps_tests::skip("only root can make files of somebody else");
    }
    let scratch = Scratch::new();
    let folder = scratch.file("folder");
    let file = folder.join("plan.json");
    // They get as far as here.
    mode(scratch.path(), 0o755);
    std::fs::create_dir(&folder).expect("a folder");
    let change = |words: &str, section: &str, key: &str, value: &str| {
        let mut plan = json(&printed(words));
        match section {
            "" => plan[key] = json(value),
            _ => plan[section][key] = json(value),
        }
        std::fs::write(&file, plan.to_string()).expect("writable");
    };
    let run = || format!("run {} --print-plan", file.display());
    let compared = || format!("compare {0} {0} --rounds 1", file.display());
    type Change = fn(&Path, &Path);
    let hands: [(&str, Change); 4] = [
        ("user 65534 owns this file", |_, file| owned(file, NOBODY)),
        ("others than its owner may write", |_, file| mode(file, 0o666)),
        ("user 65534 owns its folder", |folder, _| owned(folder, NOBODY)),
        ("others may put files into its folder", |folder, _| mode(folder, 0o777)),
    ];
    for (who, change_hands) in hands {
        let again = || {
            owned(&folder, 0);
            mode(&folder, 0o755);
            owned(&file, 0);
            mode(&file, 0o644);
        };
        for (words, section, key, value, told) in [
            (
                "drop null:",
                "device",
                "eal",
                "\"-d /tmp/x.so\"",
                "device.eal (--eal) decides which code runs, and",
            ),
            (
                "drop null:",
                "",
                "ports",
                "[\"dpdk:net_failsafe0,exec(id)\"]",
                "ports: 'dpdk:net_failsafe0,exec(id)'",
            ),
            (
                "capture af_packet:lo -o x",
                "capture",
                "output",
                "\"/etc/x\"",
                "capture.output (--output) '/etc/x'",
            ),
        ] {
            change(words, section, key, value);
            again();
            let finished = mpps_tests::run(&run());
            assert!(!finished.stderr.contains(told), "of root: {}", finished.stderr);
            change_hands(&folder, &file);
            assert_refused(mpps(&run()), 2, &["plan.json: ", told, who, "want it read through"]);
            if section == "device" {
                assert_refused(mpps(&compared()), 2, &["plan.json: ", told, who]);
            }
            // What is typed is believed, whoever the text is of; a file that stands there is not.
            let mut command = mpps("run - --print-plan");
            command.stdin(Stdio::from(std::fs::File::open(&file).expect("there")));
            let by_stdin = command.output().expect("the program starts");
            let stderr = String::from_utf8_lossy(&by_stdin.stderr).into_owned();
            assert!(stderr.contains(told) && stderr.contains(who), "{stderr}");
            // By sudo it is the caller's own.
            let mut command = mpps(&run());
            command
                .env("SUDO_UID", NOBODY.to_string())
                .env("SUDO_GID", NOBODY.to_string());
            if who.starts_with("user") {
                let stderr = mpps_tests::run_command(command).stderr;
                assert!(!stderr.contains(told), "of the caller: {stderr}");
            }
        }
        // Whatever runs no code may be anybody's.
        again();
        change(
            "send null: --src 10.99.0.1 --dest 10.99.0.2:9000",
            "load",
            "rate",
            "\"5kpps\"",
        );
        change_hands(&folder, &file);
        let plain = mpps_tests::run(&run());
        assert_eq!((plain.code, plain.stderr.as_str()), (Some(0), ""), "{who}");
    }
}

const NOBODY: u32 = 65_534;

fn owned(path: &Path, by: u32) {
    std::os::unix::fs::chown(path, Some(by), Some(by)).expect("chown");
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("chmod");
}

#[test]
fn a_secret_is_in_no_result_and_no_plan_runs_without_it() {
    let words = "drop dpdk:net_memif0,role=server,secret=swordfish --print-plan";
    let plan = run(words);
    if plan.code != Some(0) {
        mpps_tests::skip(&format!("a plan of a dpdk port: {}", plan.stderr));
        return;
    }
    assert!(!plan.stdout.contains("swordfish"), "{}", plan.stdout);
    let scratch = Scratch::new();
    let file = scratch.file("plan.json");
    std::fs::write(&file, plan.stdout).expect("writable");
    assert_refused(mpps(&format!("run {}", file.display())), 2, &["no plan holds a secret"]);
}
