//! What a shell sees: exit codes that a script can go by, and pipes whose reader has had enough.

use std::process::{Command, Stdio};

use mpps_host::lab::Host;
use mpps_tests::{Scratch, inside, missing, mpps, net_of, program, run, run_command, skip};

/// Runs `mpps` with a reader that closes its end of the pipe before the first byte; its exit code and what it said.
fn into_a_closed_pipe(words: &str) -> (Option<i32>, String) {
    let mut reader = Command::new("true").stdin(Stdio::piped()).spawn().expect("coreutils");
    let pipe = reader.stdin.take().expect("piped");
    // When it has ended nobody can read.
    reader.wait().expect("a child of ours");
    let output = mpps(words)
        .stdin(Stdio::null())
        .stdout(pipe)
        .stderr(Stdio::piped())
        .output()
        .expect("mpps starts");
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn a_reader_that_has_had_enough_ends_no_command_in_an_error() {
    let code = |words: &str| run(words).code;
    for words in [
        "--help",
        "--version",
        "help sendrecv",
        "help ports",
        "ports",
        "sendrecv --help",
        "doctor",
        "doctor --json",
    ] {
        assert_eq!(into_a_closed_pipe(words), (code(words), String::new()), "{words}");
    }
    let (code, said) =
        into_a_closed_pipe("sendrecv loop: --rate 10kpps --duration 50ms --settle 10ms --json - --quiet");
    assert!(matches!(code, Some(0 | 3)), "{said}");
    assert!(!said.contains("roken pipe"), "{said}");
}

#[test]
fn doctor_s_exit_code_is_about_what_was_asked() {
    let found = run("doctor --json");
    let json: serde_json::Value = serde_json::from_str(&found.stdout).expect("JSON");
    let failed = |f: &serde_json::Value| f["status"] == "fail";
    let any = json["findings"].as_array().expect("findings").iter().any(failed);
    assert_eq!(found.code, Some(i32::from(any)), "{json:#}");
    let absent = run("doctor nonesuch9");
    assert_eq!((absent.code, absent.stdout.as_str()), (Some(2), ""));
    assert_eq!(absent.stderr.trim_end().lines().count(), 1, "{}", absent.stderr);
    assert!(
        ["nonesuch9", "lo"].iter().all(|part| absent.stderr.contains(part)),
        "{}",
        absent.stderr
    );
    assert_eq!(run("doctor udp lo").code, Some(0));
}

#[test]
fn doctor_is_folded_as_everything_whatever_the_terminal_says_of_itself() {
    let fits = |text: &str, columns: usize| {
        let text = text.replace('\r', "");
        let mut lines = text.lines().filter(|line| !line.contains('→'));
        // A word, or what is looked at, can be longer than there is room for.
        let cut = |line: &str| {
            line.trim_start()
                .split("  ")
                .last()
                .is_some_and(|last| !last.contains(' '))
        };
        let wide = lines.find(|line| line.chars().count() > columns && !cut(line));
        assert_eq!(wide, None, "{text}");
    };
    fits(&run("doctor").stdout, 80);
    for (size, columns) in [((0, 0), 80), ((100, 30), 80), ((72, 20), 72)] {
        let mut command = mpps_tests::mpps("doctor");
        command.env("NO_COLOR", "1");
        let (_, seen) = mpps_tests::OnTerminal::start(&command, size, None).finish();
        assert!(seen.contains("findings:"), "{seen}");
        fits(&seen, columns);
    }
}

#[test]
fn doctor_without_a_bounding_set_fails_and_does_not_advise_what_can_not_start() {
    if missing("setpriv", "util-linux") {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return skip("only root can give up its bounding set");
    }
    let without = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command
            .args(["--bounding-set=-all", "--inh-caps=-all"])
            .arg(program())
            .args(words);
        run_command(command)
    };
    let found = without(&["doctor"]);
    assert_eq!(found.code, Some(1), "{}", found.stdout);
    assert!(!found.stdout.contains("setcap cap"), "{}", found.stdout);
    assert!(found.stdout.contains("bounding set"), "{}", found.stdout);
    assert_eq!(without(&["doctor", "af_packet"]).code, Some(1));
    assert_eq!(without(&["doctor", "udp"]).code, Some(0));
    let refused = without(&["reflect", "af_packet:lo", "--duration", "50ms"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("setcap does not help here") && refused.stderr.trim_end().lines().count() == 1,
        "{}",
        refused.stderr
    );
}

#[test]
fn lab_status_tells_a_whole_lab_from_a_part_of_one() {
    let Some(net) = net_of(1) else { return };
    let name = net.lab.name().to_owned();
    let status = || run(&format!("lab --name {name} status"));
    assert_eq!(status().code, Some(0));
    net.on(Host::A, "ip link delete eth1");
    let partial = status();
    assert_eq!(partial.code, Some(1), "{}", partial.stdout);
    assert!(
        partial.stdout.contains(&format!("mpps lab --name {name} up")),
        "{}",
        partial.stdout
    );
    assert_eq!(run("lab --name mpps-nobody-has-this status").code, Some(1));
}

#[test]
fn lab_down_lets_a_reflector_end_with_its_results() {
    let Some(net) = net_of(1) else { return };
    let scratch = Scratch::new();
    let reflector = mpps_tests::listen(&net, &scratch, "reflect af_xdp:eth1");
    let down = run(&format!("lab --name {} down", net.lab.name()));
    assert_eq!(down.code, Some(0), "{}", down.stderr);
    assert!(down.stdout.contains("ended mpps (process "), "{}", down.stdout);
    let report = scratch.read(reflector.finish());
    assert_eq!(report.json["valid"], true, "{:#}", report.json);
}

#[test]
fn the_source_is_the_interfaces_own_address_where_none_is_given() {
    let Some(net) = net_of(1) else { return };
    for (dest, own) in [("10.99.0.2", "10.99.0.1"), ("[fd99::2]", "fd99::1")] {
        let words = format!("send af_packet:eth1 --dest {dest}:9000 --rate 1kpps --duration 50ms --quiet");
        let report = Scratch::new().measure(net.a(&words));
        let source = report.json["host"]["source"].as_str().expect("a source");
        assert!(source.starts_with(&format!("{own} ")), "{source}");
    }
    net.on(Host::A, "ip address flush dev eth1 scope global");
    let words = "send af_packet:eth1 --dest 10.99.0.2:9000 --duration 50ms";
    mpps_tests::assert_refused(net.a(words), 2, &["--src", "eth1", "IPv4"]);
}

#[test]
fn a_destination_may_be_a_name_and_what_it_is_is_told() {
    if missing("unshare", "util-linux") {
        return;
    }
    let Some(net) = net_of(1) else { return };
    // A mount namespace with names of its own, and no server to ask.
    let names = Scratch::new();
    std::fs::write(names.file("hosts"), "fd99::2 peer six\n10.99.0.2 peer four\n").expect("a file");
    let script = "mount --bind \"$0\" /etc/hosts || exit 77; exec \"$@\"";
    let with_names = |words: &str| {
        let mut command = inside(&net.lab, Host::A, "unshare --mount sh -c");
        command.arg(script).arg(names.file("hosts")).arg(program());
        command.args(words.split_whitespace());
        command.args(["--rate", "1kpps", "--duration", "50ms"]);
        command
    };
    let probe = run_command(with_names("send udp:10.99.0.1 --dest four:9000"));
    if probe.code == Some(77) {
        return skip(&format!("nothing can be mounted here: {}", probe.stderr));
    }
    for (port, dest, is) in [
        // Of the source's family, though the other comes first.
        ("udp:10.99.0.1", "peer", "10.99.0.2"),
        ("udp:[fd99::1]", "peer", "fd99::2"),
        ("af_packet:eth1 --src 10.99.0.1", "peer", "10.99.0.2"),
        ("af_packet:eth1", "four", "10.99.0.2"),
        ("af_packet:eth1", "six", "fd99::2"),
    ] {
        let scratch = Scratch::new();
        let words = format!("send {port} --dest {dest}:9000");
        let report = scratch.measure(with_names(&words));
        let host = &report.json["host"];
        assert!(
            host["destination"]
                .as_str()
                .is_some_and(|d| d.starts_with(&format!("{is} "))),
            "{words}: {host:#}"
        );
        assert_eq!(host["destination_name"], dest, "{words}");
        let told = format!("--dest {dest} is {is}");
        assert!(
            report.finished.stderr.contains(&told),
            "{words}: {}",
            report.finished.stderr
        );
    }
    for (words, parts) in [
        ("send udp:10.99.0.1 --dest six:9000", &["'six'", "fd99::2", "IPv4"][..]),
        (
            "send udp:10.99.0.1 --dest nosuch.invalid:9000",
            &["nosuch.invalid", "can't be resolved"],
        ),
    ] {
        mpps_tests::assert_refused(with_names(words), 2, parts);
    }
}
