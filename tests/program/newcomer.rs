//! What somebody sees who starts, interrupts and repeats runs without having read the manual.

use std::net::UdpSocket;
use std::process::Command;

use mpps_tests::{Scratch, missing, mpps, program, run, run_command};

/// Runs a shell line on a terminal of its own; all that appeared there.
fn on_a_terminal(line: &str) -> Option<String> {
    if missing("script", "bsdutils or util-linux") {
        return None;
    }
    let scratch = Scratch::new();
    let mut command = Command::new("script");
    // The terminal is as wide as this one, which has no columns if it is none.
    let line = &format!("stty cols 120 rows 40; {line}");
    command.args(["--quiet", "--return", "--command", line]);
    command.arg(scratch.file("typescript")).env("TERM", "xterm-256color");
    run_command(command);
    Some(String::from_utf8_lossy(&std::fs::read(scratch.file("typescript")).expect("a typescript")).into_owned())
}

#[test]
fn a_job_in_the_background_draws_nothing_over_the_foreground() {
    let run = format!(
        "'{}' sendrecv loop:delay=1ms --rate 1kpps --duration 2s --settle 10ms",
        program().display()
    );
    // A cursor that is hidden tells of a view that is drawn.
    let hidden = "\x1b[?25l";
    for (line, drawn) in [
        (run.clone(), true),
        // With job control: a group of its own, which the terminal does not belong to.
        (format!("bash -mc \"{run} & wait\""), false),
        // Without: the foreground's group, and /dev/null to read.
        (format!("sh -c \"{run} & wait\""), false),
    ] {
        let Some(seen) = on_a_terminal(&line) else { return };
        assert!(seen.contains("VALID"), "{line}: no summary: {seen:?}");
        assert_eq!(seen.contains(hidden), drawn, "{line}: {seen:?}");
    }
}

#[test]
fn a_run_that_never_begins_leaves_earlier_results_as_they_are() {
    let scratch = Scratch::new();
    let files = ["--csv", "--json", "--hdr"].map(|option| (option, scratch.file(&option[2..])));
    let capture = scratch.file("earlier.pcapng");
    for file in files.iter().map(|(_, file)| file).chain([&capture]) {
        std::fs::write(file, "earlier").expect("ours");
    }
    // A lane that may not have a socket: found when the lanes open their queues, or before.
    for words in ["reflect udp:127.0.0.1:9 --cores 100000", "drop null: --cores 100000"] {
        let mut command = mpps(words);
        for (option, file) in &files {
            command.arg(option).arg(file);
        }
        let finished = run_command(command);
        assert!(matches!(finished.code, Some(1 | 2)), "{finished:?}");
        assert!(!finished.stderr.contains("is ready on"), "{}", finished.stderr);
    }
    let mut command = mpps("capture null: --cores 100000 -o");
    command.arg(&capture);
    assert!(matches!(run_command(command).code, Some(1 | 2)));
    for file in files.iter().map(|(_, file)| file).chain([&capture]) {
        assert_eq!(
            std::fs::read_to_string(file).expect("still there"),
            "earlier",
            "{}",
            file.display()
        );
    }
}

#[test]
fn a_udp_port_that_another_program_holds_is_told_with_that_program() {
    let holder = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let port = holder.local_addr().expect("bound").port();
    let refused = run(&format!("reflect udp:127.0.0.1:{port} --duration 100ms"));
    drop(holder);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    let pid = format!("pid {})", std::process::id());
    for part in [
        format!("UDP port {port} ("),
        pid,
        "is held by another program".to_owned(),
    ] {
        assert!(refused.stderr.contains(&part), "{part}: {}", refused.stderr);
    }
    assert_eq!(refused.stderr.trim_end().lines().count(), 1, "{}", refused.stderr);
}

#[test]
fn a_rate_that_is_none_is_answered_with_what_would_be_right() {
    for (rate, part) in [
        ("0", "without --rate as fast as the path takes packets"),
        ("-5kpps", "did you mean 5kpps?"),
        ("5Kpps", "did you mean 5kpps?"),
    ] {
        let refused = run(&format!("send null: --rate {rate} --duration 10ms"));
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
        assert_eq!(refused.stderr.trim_end().lines().count(), 1, "{}", refused.stderr);
    }
}

#[test]
fn doctor_sees_the_interfaces_of_the_network_namespace_it_is_in() {
    // Without a mount of its own: /sys shows the interfaces of the namespace left behind.
    if missing("unshare", "util-linux") || missing("ip", "iproute2") || missing("sh", "dash") {
        return;
    }
    let mut command = Command::new("unshare");
    let script = "ip link add nc0 type dummy && ip link set nc0 up mtu 1400 || exit 77; exec \"$0\" doctor nc0";
    command.args(["--net", "sh", "-c", script]).arg(program());
    let finished = run_command(command);
    if !matches!(finished.code, Some(0..=2)) || finished.stderr.contains("unshare failed") {
        return mpps_tests::skip(&format!("no namespace can be made here: {}", finished.stderr));
    }
    assert_ne!(finished.code, Some(2), "{}", finished.stderr);
    assert!(finished.stdout.contains("1400 bytes"), "{}", finished.stdout);
    assert!(
        finished.stdout.contains("another network namespace"),
        "{}",
        finished.stdout
    );
}

#[test]
fn doctor_draws_the_host_as_a_file_that_other_programs_read_whatever_its_interfaces_are_named() {
    if missing("unshare", "util-linux") || missing("ip", "iproute2") || missing("python3", "python3") {
        return;
    }
    let scratch = Scratch::new();
    let mut command = Command::new("unshare");
    let script = "ip link add '<b>&\"0' type veth || exit 77; exec \"$0\" doctor --svg \"$1\"";
    command.args(["--net", "sh", "-c", script]);
    command.arg(program()).arg(scratch.file("host.svg"));
    let finished = run_command(command);
    if !matches!(finished.code, Some(0 | 1)) || finished.stderr.contains("unshare failed") {
        return mpps_tests::skip(&format!("no namespace can be made here: {}", finished.stderr));
    }
    // The findings are there as well.
    assert!(finished.stdout.contains("frequency"), "{}", finished.stdout);
    let parse = "import sys, xml.dom.minidom as m\nd = m.parse(sys.argv[1])\n\
                 print([t.firstChild.data for t in d.getElementsByTagName('title')])";
    let mut command = Command::new("python3");
    command.args(["-c", parse]).arg(scratch.file("host.svg"));
    let parsed = run_command(command);
    assert_eq!(parsed.code, Some(0), "{}", parsed.stderr);
    assert!(parsed.stdout.contains("core 0"), "{}", parsed.stdout);
    assert!(parsed.stdout.contains("<b>&\"0 (veth)"), "{}", parsed.stdout);
    let alone = run("doctor --svg -");
    assert!(
        alone.stdout.starts_with("<svg ") && alone.stdout.trim_end().ends_with("</svg>"),
        "{}",
        alone.stdout
    );
    let refused = run("doctor --svg /nonexistent/x.svg");
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("--svg") && refused.stderr.contains("/nonexistent"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_length_that_the_demo_does_not_have_is_refused_with_those_that_it_has() {
    for length in ["1", "500ms", "0", "2h"] {
        let finished = run(&format!("demo --duration {length}"));
        let told = finished.stderr.trim_end();
        assert_eq!(finished.code, Some(2), "{told}");
        assert!(told.lines().count() == 1 && told.starts_with("mpps: "), "{told}");
        assert!(told.contains("from 1s to 1h") && !told.contains("1000h"), "{told}");
    }
}

#[test]
fn a_program_that_can_not_be_started_in_the_lab_is_named_by_mpps() {
    let Some(lab) = mpps_tests::lab(1) else { return };
    for (words, why) in [
        ("no-such-program-anywhere", "no such program in PATH"),
        ("/nonexistent/program", "no such file"),
        ("/etc/passwd", "not an executable file"),
    ] {
        let finished = run(&format!("lab exec --name {} a -- {words}", lab.name()));
        // Another test may hold the lab's lock just then, which is told while it is waited for.
        let told = finished
            .stderr
            .trim_end()
            .lines()
            .filter(|line| !line.starts_with("mpps: waiting for process "));
        let told = told.collect::<Vec<_>>().join("\n");
        assert_eq!(finished.code, Some(1), "{told}");
        assert!(told.lines().count() == 1 && told.starts_with("mpps: "), "{told}");
        assert!(
            told.contains(words) && told.contains("on host a") && told.contains(why),
            "{told}"
        );
    }
    let finished = run(&format!("lab exec --name {} a -- false", lab.name()));
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(1), ""));
}

#[test]
fn words_of_other_tools_lead_to_the_command_and_what_is_not_near_is_not_offered() {
    for (words, part) in [
        ("recv udp:", "'recv'; tip: there is 'drop' (Receive"),
        ("server udp:", "tip: there is 'reflect' ("),
        ("sedrecv loop:", "tip: there is 'sendrecv' ("),
        ("xyzzy", "tip: `mpps help` lists the commands"),
        ("sendrecv loop: --time 3s", "exists: '--duration'"),
        ("sendrecv loop: --size 64", "exists: '--frame-size', '--payload-size'"),
        ("sendrecv loop: --dst 10.0.0.1:9", "exists: '--dest'"),
        ("help recv", "tip: there is 'drop' (Receive"),
    ] {
        let refused = run(words);
        assert_eq!(refused.code, Some(2), "{words}: {}", refused.stderr);
        assert!(refused.stderr.contains(part), "{words}: {}", refused.stderr);
    }
    for words in [
        "drop null: --count 3",
        "reflect null: --foobar",
        "capture null: -o x --zzz 1",
    ] {
        let refused = run(words);
        assert_eq!(refused.code, Some(2), "{words}: {}", refused.stderr);
        assert!(!refused.stderr.contains("tip:"), "{words}: {}", refused.stderr);
    }
}

#[test]
fn help_on_an_option_prints_it_with_the_commands_that_have_it() {
    for (name, head, of) in [
        ("rate", "--rate <RATE>", "Option of sendrecv, send."),
        ("--settle", "--settle <TIME>", "sendrecv"),
        ("mode", "--mode <MODE>", "Option of forward."),
        ("sizes", "--frame-sizes <BYTES,…>", "Option of rfc2544."),
        ("count", "--count <N>", "Option of capture."),
    ] {
        let help = run(&format!("help {name}"));
        assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""), "{name}");
        assert!(
            help.stdout.starts_with(head) && help.stdout.contains(of),
            "{name}: {}",
            help.stdout
        );
    }
    assert!(run("help sendrecv").stdout.contains("Usage: mpps sendrecv"));
}

#[test]
fn a_class_of_service_is_taken_by_its_name_and_recorded_by_its_number() {
    for (class, number) in [("EF", 46), ("af41", 34), ("CS6", 48), ("46", 46), ("LE", 1)] {
        let plan = run(&format!(
            "send af_packet:lo --dest 10.99.0.2:9000 --dscp {class} --print-plan"
        ));
        // A plan needs a route on some hosts: the option itself is what counts.
        if plan.code == Some(0) {
            assert!(
                plan.stdout.contains(&format!("\"dscp\": {number}")),
                "{class}: {}",
                plan.stdout
            );
        }
        assert!(!plan.stderr.contains("--dscp"), "{class}: {}", plan.stderr);
    }
    for class in ["AF14", "64", "gold"] {
        let refused = run(&format!("send null: --dscp {class}"));
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(
            refused.stderr.contains(class) && refused.stderr.contains("EF, AF11 to AF43"),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn a_folder_of_results_is_reported_as_its_files_are() {
    let scratch = Scratch::new();
    let out = scratch.file("results");
    let mut measure = mpps("sendrecv loop: --rate 5kpps --duration 300ms --settle 100ms --catch-up 5s --quiet --out");
    measure.arg(&out);
    run_command(measure);
    let report = |inputs: &[&std::path::Path], page: &str| {
        let mut command = mpps("report");
        command.args(inputs).arg("-o").arg(scratch.file(page));
        let done = run_command(command);
        assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{inputs:?}");
        std::fs::read_to_string(scratch.file(page)).expect("a page")
    };
    let of_folder = report(&[&out], "folder.md");
    let of_files = report(&[&out.join("result.json"), &out.join("rows.csv")], "files.md");
    assert_eq!(of_folder, of_files);
    // The terminal's words.
    for word in ["| min |", "| p50 |", "| max |"] {
        assert!(of_folder.contains(word), "{word}: {of_folder}");
    }
    let mut empty = mpps("report");
    empty.arg(scratch.path()).arg("-o").arg(scratch.file("x.md"));
    let refused = run_command(empty);
    assert_ne!(refused.code, Some(0));
    assert!(
        refused.stderr.contains("no result.json is in this folder"),
        "{}",
        refused.stderr
    );
}
