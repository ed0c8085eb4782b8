//! The files a run writes, when the disk fills up or the reader is slow: told once, and no row missing.

use std::fs::File;
use std::io::Read;
use std::time::Duration;

use mpps_tests::{Background, Scratch, missing, mpps, program, run_command, skip};
use std::process::Command;

#[test]
fn a_full_disk_is_told_once_and_the_run_goes_on() {
    if missing("unshare", "util-linux") {
        return;
    }
    let mut probe = Command::new("unshare");
    probe.args(["--mount", "mount", "-t", "tmpfs", "none", "/mnt"]);
    if run_command(probe).code != Some(0) {
        return skip("a file system that is full is mounted, which needs root");
    }
    let scratch = Scratch::new();
    // A mount namespace of its own: the little file system is gone with the shell.
    let script = r#"
        mount -t tmpfs -o size=64k none "$2" || exit 99
        "$1" sendrecv loop:delay=1ms --rate 20kpps --duration 1500ms --settle 100ms --interval 1ms \
            --csv "$2/run.csv" --json "$3/run.json"
        code=$?
        cat "$2/run.csv" > "$3/run.csv"
        exit $code
    "#;
    let small = Scratch::new();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]);
    command.arg(program()).arg(small.path()).arg(scratch.path());
    let finished = run_command(command);
    let json = std::fs::read_to_string(scratch.file("run.json")).expect("the summary, which had room");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let count = |key: &str| json[key].as_u64().expect("a count");
    assert_eq!(
        finished.code,
        Some(if json["valid"] == true { 0 } else { 3 }),
        "{}",
        finished.stderr
    );
    // The run went on to its end.
    assert_eq!(count("tx_packets") + count("missed"), 30_000, "{json:#}");
    assert_eq!(
        count("tx_packets"),
        count("rx_packets") + count("lost") + count("late"),
        "{json:#}"
    );
    let warnings = json["warnings"].as_array().expect("a list");
    let told: Vec<_> = warnings
        .iter()
        .filter(|w| w.as_str().is_some_and(|w| w.contains("run.csv")))
        .collect();
    assert_eq!(told.len(), 1, "{json:#}");
    let live = finished
        .stderr
        .lines()
        .filter(|line| line.contains("run.csv") && line.contains("space"))
        .count();
    assert!(live <= 1, "told more than once: {}", finished.stderr);
    // What did fit is whole rows, from the first on.
    let csv = std::fs::read_to_string(scratch.file("run.csv")).expect("what fitted");
    let columns = csv.lines().next().expect("a header").split(',').count();
    let whole = &csv[..csv.rfind('\n').expect("rows")];
    assert!(whole.lines().count() > 100, "{csv}");
    assert!(whole.lines().all(|row| row.split(',').count() == columns), "{csv}");
}

#[test]
fn a_slow_reader_of_the_csv_gets_every_row() {
    let scratch = Scratch::new();
    let fifo = scratch.file("run.csv");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).expect("a FIFO");
    let path = fifo.clone();
    let reader = std::thread::spawn(move || {
        // Takes a tenth of what comes, then nothing until long after, then all: a pager in front of a user.
        let mut file = File::open(path).expect("our FIFO");
        let mut text = vec![0; 4096];
        file.read_exact(&mut text).expect("the first rows");
        let mut block = [0; 16384];
        loop {
            match file.read(&mut block).expect("the writer is there") {
                0 => return String::from_utf8(text).expect("text"),
                n => text.extend_from_slice(&block[..n]),
            }
            std::thread::sleep(Duration::from_millis(40));
        }
    });
    let words = "sendrecv loop:delay=1ms,loss=0.01 --rate 20kpps --duration 1s --settle 100ms --interval 500us --quiet";
    let command = scratch.results(mpps(words));
    let finished = Background::start(command).finish();
    let text = reader.join().expect("a reader");
    std::fs::remove_file(&fifo).expect("our FIFO");
    std::fs::write(&fifo, text).expect("a file in its place");
    let report = scratch.read(finished);
    report.assert_accounted();
    report.assert_departures(20_000);
    assert_eq!(report.rows.len(), 2000);
}

#[test]
fn a_reader_that_goes_away_does_not_end_the_run() {
    let scratch = Scratch::new();
    let fifo = scratch.file("gone.csv");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).expect("a FIFO");
    let path = fifo.clone();
    let reader = std::thread::spawn(move || {
        let mut text = [0; 512];
        File::open(path)
            .expect("our FIFO")
            .read_exact(&mut text)
            .expect("the first rows");
    });
    let mut command = mpps("sendrecv loop: --rate 10kpps --duration 500ms --settle 50ms --interval 1ms --quiet");
    command
        .arg("--csv")
        .arg(&fifo)
        .arg("--json")
        .arg(scratch.file("run.json"));
    let finished = run_command(command);
    reader.join().expect("a reader");
    let json = std::fs::read_to_string(scratch.file("run.json")).expect("a summary");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        json["tx_packets"].as_u64().unwrap_or(0) + json["missed"].as_u64().unwrap_or(0),
        5000,
        "{json:#}"
    );
    assert_eq!(
        finished.code,
        Some(if json["valid"] == true { 0 } else { 3 }),
        "{}",
        finished.stderr
    );
    assert!(json["warnings"].to_string().contains("gone.csv"), "{json:#}");
}

#[test]
fn standard_output_can_be_the_csv_or_the_json_and_holds_nothing_else() {
    let finished = mpps_tests::run("sendrecv loop: --rate 10kpps --duration 300ms --settle 50ms --json -");
    let json: serde_json::Value = serde_json::from_str(&finished.stdout).expect("JSON and nothing else");
    assert_eq!(
        json["tx_packets"].as_u64().unwrap_or(0) + json["missed"].as_u64().unwrap_or(0),
        3000,
        "{json:#}"
    );
    let finished = mpps_tests::run("sendrecv loop: --rate 10kpps --duration 300ms --settle 50ms --csv -");
    let mut lines = finished.stdout.lines();
    let header = lines.next().expect("a header");
    assert!(
        header.starts_with("time_s,tx_packets,rx_packets,loss_ratio,latency_avg_us,"),
        "{header}"
    );
    let columns = header.split(',').count();
    assert!(
        lines.all(|row| row.split(',').count() == columns),
        "{}",
        finished.stdout
    );
    assert_eq!(finished.stdout.lines().count(), 4, "{}", finished.stdout);
}

#[test]
fn a_file_that_one_run_writes_is_refused_to_another_which_leaves_it_as_it_is() {
    let scratch = Scratch::new();
    for option in ["--csv", "--hdr"] {
        let file = scratch.file("shared");
        let words = |duration: &str| {
            let mut command = mpps(&format!(
                "sendrecv loop: --rate 1kpps --duration {duration} --settle 10ms --quiet"
            ));
            command.arg(option).arg(&file);
            command
        };
        let first = Background::start(words("1h"));
        mpps_tests::wait_until("what the first run writes", || {
            std::fs::metadata(&file).is_ok_and(|m| m.len() > 0)
        });
        let before = std::fs::read(&file).expect("the file");
        let second = run_command(words("10ms"));
        assert_eq!(second.code, Some(2), "{}", second.stderr);
        let told = ["mpps: ", option, "shared", "another run is writing this file"];
        assert!(
            told.iter().all(|part| second.stderr.contains(part)),
            "{}",
            second.stderr
        );
        assert_eq!(second.stderr.lines().count(), 1, "{}", second.stderr);
        assert!(std::fs::read(&file).expect("the file").starts_with(&before));
        let ended = first.end(rustix::process::Signal::INT);
        // On a busy host it may have missed departures: that is not the question here.
        assert!(matches!(ended.code, Some(0 | 3)), "{}", ended.stderr);
        std::fs::remove_file(&file).expect("ours");
    }
}

#[test]
fn a_fifo_that_nobody_reads_is_told_with_quiet_too() {
    let scratch = Scratch::new();
    let fifo = scratch.file("run.csv");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).expect("a FIFO");
    let mut command = mpps("sendrecv loop: --rate 1kpps --duration 200ms --settle 10ms --quiet");
    command.arg("--csv").arg(&fifo);
    let finished = run_command(command);
    let told: Vec<_> = finished
        .stderr
        .lines()
        .filter(|line| line.contains("run.csv"))
        .collect();
    assert!(
        told.len() == 1 && told[0].contains("nobody read"),
        "{}",
        finished.stderr
    );
}
