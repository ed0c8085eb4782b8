//! What collectors and CI read as the state of a run stands for this run, however it ends, and for none before it.

use mpps_tests::{Background, Scratch, mpps, mpps_with_files, run_by_shell, run_command, skip, text_of, wait_until};
use rustix::process::Signal;
use std::path::PathBuf;
use std::process::Command;

const PACED: &str = "sendrecv loop: --rate 2kpps --settle 100ms --duration";

/// Files that a run has left that was valid.
fn of_yesterday(scratch: &Scratch) -> [PathBuf; 2] {
    let files = ["s.xml", "s.prom"].map(|name| scratch.file(name));
    let [junit, prom] = &files;
    let done = run_command(mpps_with_files(
        &format!("{PACED} 300ms --quiet --tolerance 100%"),
        &[("--junit", junit), ("--prom", prom)],
    ));
    assert!(matches!(done.code, Some(0 | 3)), "{}", done.stderr);
    assert!(text_of(junit).contains("<testsuite name=\"mpps sendrecv\""));
    assert!(text_of(prom).contains("mpps_run_valid{"));
    files
}

#[test]
fn a_run_that_fails_leaves_no_result_of_an_earlier_one_as_its_state() {
    for (words, code, told) in [
        ("sendrecv loop: --rate nonsense", 2, "nonsense"),
        (
            "sendrecv udp:192.0.2.77 --dest 192.0.2.78:9 --rate 1kpps --duration 1s",
            2,
            "192.0.2.77",
        ),
        ("ndr loop: --goal loss=7", 2, "--goal"),
        (
            "sendrecv loop: --rate 1kpps --duration 1s --json /nonexistent/x.json",
            2,
            "/nonexistent/x.json",
        ),
    ] {
        let scratch = Scratch::new();
        let [junit, prom] = of_yesterday(&scratch);
        let done = run_command(mpps_with_files(words, &[("--junit", &junit), ("--prom", &prom)]));
        assert!(matches!(done.code, Some(1 | 2)), "{words}: {code}: {}", done.stderr);
        let (junit, prom) = (text_of(&junit), text_of(&prom));
        let command = words.split(' ').next().unwrap_or_default();
        assert!(
            junit.contains(&format!("<testsuite name=\"mpps {command}\"")),
            "{words}: {junit}"
        );
        assert!(
            junit.contains("errors=\"1\"") && junit.contains("<error"),
            "{words}: {junit}"
        );
        assert!(junit.contains(told), "{words}: {junit}");
        let valid = prom.lines().find(|line| line.starts_with("mpps_run_valid{"));
        assert!(valid.is_some_and(|line| line.ends_with("} 0")), "{words}: {prom}");
        assert!(!prom.contains("mpps_received_packets_total"), "{words}: {prom}");
    }
}

/// A file of options with a word too many, or no TOML at all, names the files all the same.
#[test]
fn a_wrong_file_of_options_leaves_no_result_of_an_earlier_run_as_the_state() {
    for wrong in ["ratte = 1\n", "rate = \n", "[x\n"] {
        let scratch = Scratch::new();
        let [junit, prom] = of_yesterday(&scratch);
        let text = format!("junit = \"s.xml\"\nprom = \"s.prom\"\n{wrong}");
        std::fs::write(scratch.file("o.toml"), text).expect("a file");
        let mut command = mpps("sendrecv loop: --config o.toml");
        command.current_dir(scratch.path());
        let done = run_command(command);
        assert_eq!(done.code, Some(2), "{}", done.stderr);
        assert!(done.stderr.contains("o.toml:3: "), "{}", done.stderr);
        let (junit, prom) = (text_of(&junit), text_of(&prom));
        assert!(junit.contains("<error") && junit.contains("o.toml:3: "), "{junit}");
        let valid = prom.lines().find(|line| line.starts_with("mpps_run_valid{"));
        assert!(valid.is_some_and(|line| line.ends_with("} 0")), "{prom}");
    }
}

#[test]
fn files_that_a_command_does_not_write_keep_what_is_in_them() {
    let scratch = Scratch::new();
    let kept = |name: &str, text: &str| {
        let path = scratch.file(name);
        std::fs::write(&path, text).expect("a file");
        path
    };
    let in_place = |words: &str| {
        let mut command = mpps(words);
        command.current_dir(scratch.path());
        run_command(command)
    };
    // Options that the command has not, or that another program's.
    let rows = kept("rows.jsonl", "rows of a run\n");
    for words in [
        "plot --json-lines rows.jsonl -o x.png",
        "report a.json --json-lines=rows.jsonl -o x.html",
        "compare --json-lines=rows.jsonl",
        "doctor --junit rows.jsonl",
        "nosuch --prom rows.jsonl",
        "help sendrecv --junit rows.jsonl",
        "isolate 1 pytest --junit=rows.jsonl",
        "sendrecv loop: --print-plan --junit rows.jsonl --rate x",
        "sendrecv loop: --rate 1kpps --csv rows.jsonl --json-lines rows.jsonl --flows x",
        "sendrecv loop:tx_pcap=rows.jsonl --junit rows.jsonl --rate x",
        "sendrecv --junit rows.jsonl --rate x -- loop:tx_pcap=rows.jsonl",
    ] {
        let done = in_place(words);
        assert_ne!(done.code, Some(0), "{words}");
        assert_eq!(text_of(&rows), "rows of a run\n", "{words}: {}", done.stderr);
    }
    // What has been read is written over by no result.
    let options = kept("o.toml", "duration = \"100ms\"\n");
    let plan = run_command(mpps(&format!("{PACED} 100ms --print-plan"))).stdout;
    let of_plan = kept("plan.json", &plan);
    for (words, option) in [
        ("sendrecv loop: --config o.toml --rate 1kpps --csv o.toml", "--csv"),
        ("sendrecv loop: --config o.toml --rate x --junit o.toml", "--rate"),
        ("run plan.json --json-lines plan.json", "--json-lines"),
        ("run plan.json --junit plan.json --rate 5", "--rate"),
        ("run --junit plan.json --rate 5 -- plan.json", "--rate"),
        ("run --quiet --json plan.json -- plan.json", "--json"),
        ("run --web 127.0.0.1:0 plan.json --json plan.json", "--json"),
    ] {
        let done = in_place(words);
        assert_eq!(done.code, Some(2), "{words}");
        assert!(done.stderr.contains(option), "{words}: {}", done.stderr);
        assert_eq!(
            (text_of(&options), text_of(&of_plan)),
            ("duration = \"100ms\"\n".to_owned(), plan.clone()),
            "{words}"
        );
    }
}

/// A disk that is full keeps nothing of an earlier run that is read as the state of this one.
#[test]
fn a_full_disk_leaves_no_result_of_an_earlier_run_as_the_state() {
    let [scratch, disk] = [Scratch::new(), Scratch::new()];
    let words = format!("{PACED} 200ms --quiet --tolerance 100%");
    for option in ["--junit", "--prom"] {
        let script = "mount -t tmpfs -o size=64k none \"$1\" || exit 77; disk=$1; copy=$2; option=$3; shift 3; \
                      \"$@\" \"$option\" \"$disk/state\" || exit 78; cat \"$disk/state\" >\"$copy.before\"; \
                      cat /dev/zero >\"$disk/full\" 2>/dev/null; \
                      \"$@\" \"$option\" \"$disk/state\"; code=$?; \
                      cat \"$disk/state\" >\"$copy\" 2>/dev/null; exit $code";
        let command = mpps(&words);
        let mut shell = Command::new("unshare");
        shell
            .args(["--mount", "sh", "-c", script, "sh"])
            .arg(disk.path())
            .arg(scratch.file("copy"))
            .arg(option);
        shell.arg(command.get_program()).args(command.get_args());
        let done = run_command(shell);
        if done.code == Some(77) || done.stderr.contains("unshare") {
            return skip("nothing can be mounted here");
        }
        let before = text_of(&scratch.file("copy.before"));
        assert!(
            before.contains("errors=\"0\"") || before.contains("mpps_run_valid"),
            "{before}"
        );
        let after = text_of(&scratch.file("copy"));
        assert_ne!(after, before, "{option}: {:?}", done.code);
    }
}

/// What was measured stands in the file, and what is missing beside it.
#[test]
fn a_file_without_room_is_an_error_of_the_state_beside_the_result() {
    let scratch = Scratch::new();
    let junit = scratch.file("s.xml");
    let command = mpps_with_files(
        &format!("{PACED} 300ms --quiet --tolerance 100% --expect loss<1% --csv /dev/full"),
        &[("--junit", &junit)],
    );
    let done = run_command(command);
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    let told = text_of(&junit);
    assert!(
        told.contains("tests=\"3\"") && told.contains("name=\"loss&lt;1%\""),
        "{told}"
    );
    let error = "name=\"files\"><error type=\"not written\" message=\"csv: /dev/full: ";
    assert!(told.contains(error), "{told}");

    let command = mpps_with_files(
        "ndr loop: --max-rate 2kpps --quick --search-time 1s",
        &[("--junit", &junit), ("--out", &scratch.file("found"))],
    );
    let done = run_by_shell("exec >/dev/full", &command);
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(done.stderr.contains("highest rate without loss"), "{}", done.stderr);
    assert!(text_of(&junit).contains("message=\"write to standard output: "));
    for name in ["result.json", "report.html", "junit.xml"] {
        assert!(scratch.file("found").join(name).exists(), "{name}");
    }
}

#[test]
fn what_can_not_be_its_own_file_is_left_alone_by_a_run_that_fails() {
    let scratch = Scratch::new();
    let both = scratch.file("both");
    std::fs::write(&both, "mine").expect("a file");
    let done = run_command(mpps_with_files(
        &format!("{PACED} 100ms"),
        &[("--junit", &both), ("--json", &both)],
    ));
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert_eq!(text_of(&both), "mine");
}

#[test]
fn a_run_that_is_killed_leaves_no_result_of_an_earlier_one_as_its_state() {
    let scratch = Scratch::new();
    let [junit, prom] = of_yesterday(&scratch);
    let command = mpps_with_files(
        &format!("{PACED} 1h --json-lines -"),
        &[("--junit", &junit), ("--prom", &prom)],
    );
    let run = Background::start(command);
    wait_until("its files", || {
        text_of(&junit).contains("it has not ended") && !text_of(&prom).contains("mpps_run_valid")
    });
    run.end(Signal::KILL);
    assert!(text_of(&junit).contains("errors=\"1\""));
    assert!(!text_of(&prom).contains("mpps_run_valid"));
}
