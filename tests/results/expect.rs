//! Gates: `--expect`, its exit code, and the forms that CI systems and tickets take.

use mpps_tests::{Scratch, assert_refused, mpps, run_command};
use serde_json::Value;

/// A run over `loop:`, and what it was to reach. Departures are never missed, so that it is valid on a busy host.
const RUN: &str = "sendrecv loop:loss=10% --rate 5kpps --duration 400ms --settle 100ms --catch-up 5s";

fn json(scratch: &Scratch) -> Value {
    let text = std::fs::read_to_string(scratch.file("run.json")).expect("the summary");
    serde_json::from_str(&text).expect("JSON")
}

fn run(scratch: &Scratch, words: &[&str]) -> mpps_tests::Finished {
    let mut command = mpps(RUN);
    command.arg("--json").arg(scratch.file("run.json"));
    command.arg("--junit").arg(scratch.file("run.xml"));
    command.arg("--markdown").arg(scratch.file("run.md"));
    words.iter().for_each(|word| {
        command.args(["--expect", word]);
    });
    run_command(command)
}

#[test]
fn what_is_reached_is_exit_code_0_and_what_is_not_is_4_with_the_files_written_before() {
    for (words, code, met) in [
        (["loss<50%", "received>1000"], 0, [true, true]),
        (["loss<0.1%", "received>1000"], 4, [false, true]),
        (["p50>1s", "loss<50%"], 4, [false, true]),
    ] {
        let scratch = Scratch::new();
        let finished = run(&scratch, &words);
        let json = json(&scratch);
        assert_eq!(json["valid"], true, "{json:#}");
        assert_eq!(finished.code, Some(code), "{words:?}: {}", finished.stderr);
        let expectations = json["expectations"].as_array().expect("a list");
        let found: Vec<bool> = expectations.iter().map(|of| of["met"] == true).collect();
        assert_eq!(found, met, "{expectations:?}");
        let xml = std::fs::read_to_string(scratch.file("run.xml")).expect("JUnit");
        let failures = met.iter().filter(|met| !**met).count();
        assert!(xml.contains(&format!("tests=\"3\" failures=\"{failures}\"")), "{xml}");
        let markdown = std::fs::read_to_string(scratch.file("run.md")).expect("Markdown");
        let demand = words[0].replace('<', "\\<");
        assert!(markdown.contains(words[0]) || markdown.contains(&demand), "{markdown}");
        let not_met = finished.stdout.contains("NOT met");
        assert_eq!(not_met, code == 4, "{}", finished.stdout);
    }
}

#[test]
fn a_run_that_is_not_valid_is_3_whatever_it_was_to_reach() {
    let scratch = Scratch::new();
    // No host sends as fast.
    let mut command = mpps("sendrecv loop: --rate 1Gpps --duration 200ms --settle 50ms");
    command.args(["--expect", "loss<0.1%", "--expect", "sent>1Gpps"]);
    command.arg("--junit").arg(scratch.file("run.xml"));
    let finished = run_command(command);
    let xml = std::fs::read_to_string(scratch.file("run.xml")).expect("JUnit");
    assert_eq!(finished.code, Some(3), "{}", finished.stderr);
    assert!(xml.contains("errors=\"1\" skipped=\"2\""), "{xml}");
}

#[test]
fn a_run_too_short_for_its_bound_says_so() {
    let words = "sendrecv loop: --rate 1kpps --duration 200ms --settle 50ms --catch-up 5s --expect loss<0.001%";
    let finished = run_command(mpps(words));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let told = finished.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        told.contains("none lost of 200 packets only shows less than 1.500 %"),
        "{told}"
    );
}

#[test]
fn demands_that_nothing_measures_are_refused_before_anything_is_opened() {
    for (demand, part) in [
        ("speed>1", "'speed' is not measured"),
        ("loss<1ms", "want a ratio"),
        ("loss<0.1", "loss<0.1%, or loss<10% where 0.1 is a part of one"),
        ("loss", "want NAME"),
    ] {
        let mut command = mpps("sendrecv af_packet:mpps-none --dest 10.0.0.2:9000");
        command.args(["--expect", demand]);
        assert_refused(command, 2, &["--expect", part]);
    }
    assert_refused(
        mpps("ndr loop: --expect loss<1%"),
        2,
        &["--expect", "a demand on ndr, pdr"],
    );
    assert_refused(
        mpps("sendrecv loop: --expect ndr>1kpps"),
        2,
        &["--expect", "a run finds no ndr", "rfc2544"],
    );
}

#[test]
fn of_packets_none_of_which_came_back_nothing_is_known_but_that_they_are_lost() {
    for (words, code, unknown) in [
        (
            "sendrecv null:",
            4,
            &[
                "duplicates==0",
                "reordered==0",
                "corrupt==0",
                "late==0",
                "foreign==0",
                "p99<1s",
            ][..],
        ),
        (
            "sendrecv loop:loss=100%",
            4,
            &["duplicates<1", "reordered<=3", "corrupt==0"],
        ),
        ("sendrecv loop:", 0, &[]),
    ] {
        let scratch = Scratch::new();
        let mut command = mpps(&format!(
            "{words} --rate 1kpps --duration 100ms --settle 50ms --catch-up 5s --quiet"
        ));
        command.arg("--json").arg(scratch.file("run.json"));
        for demand in unknown.iter().chain(&["lost>=0", "missed==0", "received<1Mpps"]) {
            command.args(["--expect", demand]);
        }
        if unknown.is_empty() {
            command.args([
                "--expect",
                "duplicates==0",
                "--expect",
                "reordered==0",
                "--expect",
                "corrupt==0",
            ]);
        }
        let finished = run_command(command);
        assert_eq!(finished.code, Some(code), "{words}: {}", finished.stderr);
        let json = json(&scratch);
        for of in json["expectations"].as_array().expect("a list") {
            let is_unknown = unknown.iter().any(|demand| of["expected"] == *demand);
            assert_eq!(of["told"] == "not measured", is_unknown, "{words}: {of:#}");
            assert_eq!(of["met"] == true, !is_unknown, "{words}: {of:#}");
        }
    }
    // Counted, and not looked at.
    let scratch = Scratch::new();
    let mut command = mpps("drop null: --no-verify --duration 100ms --quiet --expect corrupt==0 --expect received>0");
    command.arg("--json").arg(scratch.file("run.json"));
    assert_eq!(run_command(command).code, Some(4));
    let met: Vec<bool> = json(&scratch)["expectations"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|of| of["met"] == true)
        .collect();
    assert_eq!(met, [false, true]);
}

#[test]
fn the_share_that_was_offered_is_what_was_sent_of_what_was_due() {
    for (words, due) in [
        ("sendrecv loop: --rate 0.1pps --duration 1200ms --settle 50ms", 1),
        ("sendrecv loop: --rate 0.7pps --duration 1700ms --settle 50ms", 2),
        ("send null: --rate 1pps --duration 1ms", 1),
        ("sendrecv loop: --rate 1kpps --duration 100ms --settle 50ms", 100),
    ] {
        let scratch = Scratch::new();
        let mut command = mpps(&format!("{words} --catch-up 5s --plain"));
        command
            .arg("--json")
            .arg(scratch.file("run.json"))
            .args(["--expect", "sent>=100%", "--expect", "sent<=100%"]);
        let finished = run_command(command);
        assert_eq!(
            finished.code,
            Some(0),
            "{words}: {} {}",
            finished.stdout,
            finished.stderr
        );
        let json = json(&scratch);
        assert_eq!(json["due_packets"], due, "{json:#}");
        assert_eq!(json["tx_packets"], due, "{json:#}");
        let offered = finished
            .stdout
            .lines()
            .find(|line| line.starts_with("offered"))
            .expect("a line");
        assert!(offered.contains("  100.000 %  "), "{offered}");
        let intended = finished
            .stdout
            .lines()
            .find(|line| line.starts_with("intended"))
            .expect("a line");
        assert!(intended.ends_with(&format!(" {due} packets")), "{intended}");
    }
}

#[test]
fn a_receiver_of_one_packet_or_of_one_burst_tells_no_rate() {
    for count in [1, 3] {
        let scratch = Scratch::new();
        let port = mpps_tests::free_port();
        let mut command = mpps(&format!("reflect udp:127.0.0.1:{port} --interval 20ms --plain"));
        command
            .arg("--csv")
            .arg(scratch.file("run.csv"))
            .arg("--json")
            .arg(scratch.file("run.json"));
        let reflector = mpps_tests::Background::start(command);
        mpps_tests::wait_until("a row", || scratch.rows_so_far() > 0);
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for _ in 0..count {
            socket.send_to(&[0; 64], ("127.0.0.1", port)).expect("sent");
        }
        mpps_tests::wait_until("what was sent", || scratch.received_so_far() == count);
        let finished = reflector.end(rustix::process::Signal::INT);
        let json = json(&scratch);
        // Three that a busy host took one by one may have taken a while.
        if json["duration_s"].as_f64() < Some(0.001) {
            assert!(
                json["received_pps"].is_null() && json["offered_pps"].is_null(),
                "{json:#}"
            );
            // A warning may name the program.
            let rate = |word: &str| ["pps", "kpps", "Mpps"].contains(&word);
            assert!(!finished.stdout.split_whitespace().any(rate), "{}", finished.stdout);
        }
        let told = format!("{count} packets");
        assert!(
            finished
                .stdout
                .lines()
                .any(|l| l.starts_with("received") && l.ends_with(&told)),
            "{}",
            finished.stdout
        );
        assert!(count > 1 || json["received_pps"].is_null(), "{json:#}");
    }
}
