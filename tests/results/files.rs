//! The files a run writes, when the disk fills up or the reader is slow: told once, and no row missing.

use std::fs::File;
use std::io::Read;
use std::time::Duration;

use mpps_tests::{Background, Finished, Scratch, missing, mpps, program, run_command, skip, wait_until};
use std::path::Path;
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
    // The results are there, and not all that was asked for: the last line says what is missing.
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    assert!(finished.stdout.contains("VALID"), "{}", finished.stdout);
    let last = finished.stderr.trim_end().lines().last().unwrap_or_default();
    assert!(last.contains("rows are not in the file"), "{last}");
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

/// A short run, valid on a busy host, too.
const SHORT: &str = "sendrecv loop:delay=1ms --rate 5kpps --duration 300ms --settle 50ms --interval 1ms --catch-up 5s";

/// The results were printed, and the last line says what is not written; exit code 1.
fn assert_told(finished: &Finished, on_stdout: bool, part: &str, context: &str) {
    let context = format!(
        "{context}: {:?}\n{}\n{}",
        finished.code, finished.stdout, finished.stderr
    );
    assert_eq!(finished.code, Some(1), "{context}");
    let summary = if on_stdout { &finished.stdout } else { &finished.stderr };
    assert!(summary.contains("VALID  sendrecv"), "{context}");
    let last = finished.stderr.trim_end().lines().last().unwrap_or_default();
    assert!(last.starts_with("mpps: ") && last.contains(part), "{context}");
}

#[test]
fn what_a_full_disk_does_not_take_is_an_error_in_every_kind_of_file() {
    if missing("unshare", "util-linux") {
        return;
    }
    let small = Scratch::new();
    // The little that a short run writes finds no room from the start.
    let script = "mount -t tmpfs -o size=4k none \"$0\" || exit 77; head -c 4096 /dev/zero > \"$0\"/full; exec \"$@\"";
    for (option, noun) in [
        ("csv", "rows are not in the file"),
        ("json-lines", "lines are not in the file"),
        ("hdr", "histograms are not in the file"),
        ("lanes-csv", "rows are not in the file"),
        ("sample-pcap", "frames are not in the file"),
    ] {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", script])
            .arg(small.path())
            .arg(program());
        command.args(SHORT.split(' '));
        command.arg(format!("--{option}")).arg(small.file("results"));
        let finished = run_command(command);
        if finished.code == Some(77) {
            return skip("a file system that is full is mounted, which needs root");
        }
        assert_told(&finished, true, noun, option);
    }
}

#[test]
fn a_file_that_is_removed_or_replaced_during_the_run_is_not_written() {
    type Change = fn(&Path);
    let change: [(&str, Change, &str); 3] = [
        (
            "removed",
            |file| std::fs::remove_file(file).expect("ours"),
            "it was removed during the run",
        ),
        (
            "renamed",
            |file| std::fs::rename(file, file.with_extension("old")).expect("ours"),
            "it was removed during the run",
        ),
        (
            "replaced",
            |file| {
                std::fs::write(file.with_extension("new"), "another's").expect("ours");
                std::fs::rename(file.with_extension("new"), file).expect("ours");
            },
            "another file was put in its place during the run",
        ),
    ];
    for (option, what) in [
        ("csv", 0),
        ("lanes-csv", 0),
        ("json-lines", 0),
        ("csv", 1),
        ("sample-pcap", 0),
        ("sample-pcap", 2),
        ("hdr", 2),
        ("lanes-csv", 2),
    ] {
        let (what, change, part) = change[what];
        let scratch = Scratch::new();
        let file = scratch.file("results");
        let mut command = mpps(&SHORT.replace("--duration 300ms", "--duration 1h"));
        command.arg(format!("--{option}")).arg(&file);
        let run = Background::start(command);
        wait_until("something in the file", || {
            std::fs::metadata(&file).is_ok_and(|meta| meta.len() > 0)
        });
        change(&file);
        let finished = run.end(rustix::process::Signal::INT);
        assert_told(&finished, true, part, &format!("{option} {what}"));
        if what == "replaced" {
            assert_eq!(std::fs::read_to_string(&file).expect("there"), "another's");
        }
    }
}

/// Runs a program whose standard output is what a shell makes of `redirection`.
fn with_stdout(redirection: &str, words: &str) -> Finished {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec \"$0\" \"$@\" {redirection}")]);
    command.arg(program()).args(words.split(' '));
    run_command(command)
}

#[test]
fn a_standard_output_that_takes_nothing_is_an_error_and_the_results_are_on_standard_error() {
    for (redirection, why) in [(">/dev/full", "No space left on device"), (">&-", "it is closed")] {
        for option in ["", " --json -", " --junit -", " --markdown -"] {
            let finished = with_stdout(redirection, &format!("{SHORT}{option}"));
            assert_told(&finished, false, why, &format!("{redirection} {option}"));
        }
        for (option, noun) in [
            ("csv", "rows"),
            ("lanes-csv", "rows"),
            ("hdr", "histograms"),
            ("json-lines", "lines"),
            ("sample-pcap", "frames"),
        ] {
            let finished = with_stdout(redirection, &format!("{SHORT} --{option} -"));
            let context = format!("{redirection} {option}");
            assert_told(&finished, false, &format!("{noun} are not in the file"), &context);
            assert!(finished.stderr.contains(why), "{context}: {}", finished.stderr);
        }
        // With nothing to print there is nothing amiss.
        let finished = with_stdout(redirection, &format!("{SHORT} --quiet"));
        assert!(matches!(finished.code, Some(0 | 3)), "{}", finished.stderr);
        for words in ["doctor lo udp", "--help", "lab status --name none-such"] {
            let finished = with_stdout(redirection, words);
            assert_eq!(finished.code, Some(1), "{words} {redirection}: {}", finished.stderr);
            assert!(
                finished.stderr.contains(why),
                "{words} {redirection}: {}",
                finished.stderr
            );
        }
    }
    // Whoever throws it away has it so.
    assert!(matches!(with_stdout(">/dev/null", SHORT).code, Some(0 | 3)));
}

#[test]
fn the_histogram_log_begins_when_the_run_did_however_long_packets_are_waited_for() {
    for settle in ["10ms", "1s"] {
        let scratch = Scratch::new();
        let mut command = mpps(&format!(
            "sendrecv loop: --rate 2kpps --duration 200ms --settle {settle} --quiet"
        ));
        command.arg("--hdr").arg(scratch.file("run.hdr"));
        command.arg("--json-lines").arg(scratch.file("run.jsonl"));
        run_command(command);
        let log = std::fs::read_to_string(scratch.file("run.hdr")).expect("a log");
        let start = log
            .split("#[StartTime: ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        let lines = std::fs::read_to_string(scratch.file("run.jsonl")).expect("lines");
        let first: serde_json::Value = serde_json::from_str(lines.lines().next().expect("a line")).expect("JSON");
        let began_ms = first["start_utc_ns"].as_u64().expect("a time") as f64 / 1e6;
        let start_ms = start.and_then(|text| text.parse::<f64>().ok()).expect("a time") * 1e3;
        assert!((start_ms - began_ms).abs() <= 1.0, "{settle}: {start_ms} {began_ms}");
    }
}

#[test]
fn a_reader_of_standard_error_that_has_gone_ends_no_run() {
    for words in [
        "sendrecv loop: --rate 2kpps --duration 300ms --settle 50ms --interval 20ms",
        "ndr loop: --goal loss=0,initial=100ms,final=100ms,sum=100ms,width=50% --max-rate 4kpps --search-time 20s",
        // A line at the end.
        "send null: --duration 20ms --json /nonesuch/x",
    ] {
        let scratch = Scratch::new();
        let mut command = Command::new("sh");
        // The reader ends at once, and the writer goes on when it has.
        let script = r#"("$@" --csv "$0" 2>&1 >/dev/null; echo "$?" >"$0.code") | true"#;
        command
            .args(["-c", script])
            .arg(scratch.file("run.csv"))
            .arg(mpps_tests::program())
            .args(words.split(' '));
        run_command(command);
        let code = std::fs::read_to_string(scratch.file("run.csv.code")).expect("a code");
        assert!(matches!(code.trim(), "0" | "1" | "2" | "3"), "{words}: {code}");
    }
}
