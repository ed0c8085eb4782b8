//! `--out DIR` of runs: all results in one folder, by the rules of all other files.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use mpps_tests::{Finished, Scratch, assert_refused, mpps, run_command};
use serde_json::Value;

/// Departures are never missed, so that it is valid on a busy host.
const RUN: &str = "sendrecv loop:delay=1ms --rate 5kpps --duration 400ms --settle 100ms --catch-up 5s";

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect()
}

fn into(folder: &Path, words: &str) -> Finished {
    let mut command = mpps(words);
    command.arg("--out").arg(folder);
    run_command(command)
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

#[test]
fn a_run_leaves_all_its_results_and_its_folder_can_be_read_again() {
    let scratch = Scratch::new();
    // With one above it that is missing.
    let folder = scratch.file("a").join("results");
    let finished = into(&folder, RUN);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let all = set([
        "events.jsonl",
        "junit.xml",
        "lanes.csv",
        "latency.hlog",
        "report.html",
        "report.md",
        "result.json",
        "rows.csv",
    ]);
    assert_eq!(names(&folder), all);
    let text = std::fs::read_to_string(folder.join("result.json")).expect("a result");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["workload"], "sendrecv");
    let page = std::fs::read_to_string(folder.join("report.html")).expect("a page");
    for part in ["rows.csv", "<svg", "id=\"charts\""] {
        assert!(page.contains(part), "{part}");
    }
    let hash = Command::new("sha256sum")
        .arg(folder.join("result.json"))
        .output()
        .expect("coreutils");
    let hash = String::from_utf8_lossy(&hash.stdout)[..64].to_owned();
    assert!(page.contains(&hash), "the page is of the file beside it");
    let mut report = mpps("report -o");
    report
        .arg(folder.join("again.html"))
        .args([folder.join("result.json"), folder.join("rows.csv")]);
    assert_eq!(run_command(report).code, Some(0));
    let lines = std::fs::read_to_string(folder.join("events.jsonl")).expect("lines");
    assert!(
        lines
            .trim_end()
            .lines()
            .last()
            .expect("a line")
            .contains("\"event\":\"end\""),
        "{lines}"
    );
}

#[test]
fn other_workloads_leave_what_they_have() {
    let scratch = Scratch::new();
    let packets = scratch.file("packets.pcapng");
    let capture = format!("capture null: -o {}", packets.display());
    for (name, words) in [
        ("send", "send null: --rate 5kpps"),
        ("drop", "drop null: --no-verify"),
        ("reflect", "reflect null:"),
        ("forward", "forward null:"),
        ("capture", capture.as_str()),
    ] {
        let folder = scratch.file(name);
        let finished = into(&folder, &format!("{words} --duration 200ms"));
        assert!(matches!(finished.code, Some(0 | 3)), "{name}: {}", finished.stderr);
        let all = names(&folder);
        for file in [
            "result.json",
            "report.html",
            "report.md",
            "rows.csv",
            "lanes.csv",
            "events.jsonl",
        ] {
            assert!(all.contains(file), "{name}: {file}: {all:?}");
        }
        assert!(!all.contains("latency.hlog"), "{name}");
    }
}

#[test]
fn a_folder_that_is_there_is_refused_and_left_as_it_is() {
    let scratch = Scratch::new();
    let (folder, link) = (scratch.file("there"), scratch.file("link"));
    std::fs::create_dir(&folder).expect("made");
    std::os::unix::fs::symlink(scratch.file("elsewhere"), &link).expect("a link");
    let refused = |path: &Path, parts: &[&str]| {
        let mut command = mpps(RUN);
        command.arg("--out").arg(path);
        assert_refused(command, 2, parts);
    };
    refused(
        &folder,
        &["--out", "it is there already: want a folder that is not there yet"],
    );
    assert!(names(&folder).is_empty());
    let file = scratch.file("file");
    std::fs::write(&file, "mine").expect("written");
    refused(&file, &["--out", "it is there already"]);
    assert_eq!(std::fs::read_to_string(&file).expect("read"), "mine");
    refused(&folder.join(".."), &["--out", "it is there already"]);
    refused(
        &scratch.file("none/../new"),
        &["--out", "there is no ", "none/..: want a path without .."],
    );
    assert!(!scratch.file("none").exists());
    // What is refused before makes none.
    let mut command = mpps("sendrecv loop: --rate 1x");
    command.arg("--out").arg(scratch.file("new"));
    assert_refused(command, 2, &["--rate"]);
    assert!(!scratch.file("new").exists());
}

#[test]
fn a_run_that_is_refused_leaves_no_folder() {
    let scratch = Scratch::new();
    let folder = scratch.file("results");
    // Known to be wrong only when the files are open.
    let mut command = mpps("drop null: --cores 77");
    command.arg("--out").arg(&folder);
    assert_refused(command, 2, &["--cores"]);
    assert!(!folder.exists(), "{:?}", names(&folder));
    // Nor those above it that were made for it, but those that were there.
    let (above, deep) = (scratch.file("above"), scratch.file("above/new/results"));
    std::fs::create_dir(&above).expect("made");
    let mut command = mpps("drop null: --cores 77");
    command.arg("--out").arg(&deep);
    assert_refused(command, 2, &["--cores"]);
    assert!(names(&above).is_empty(), "{:?}", names(&above));
    // One line says what is wrong, and none that a file in it could not be opened.
    let mut command = mpps("drop af_packet:none9");
    command
        .arg("--out")
        .arg(&folder)
        .arg("--json-lines")
        .arg(folder.join("x.jsonl"));
    assert_refused(command, 2, &["none9"]);
    // One that takes place has it.
    let finished = into(&folder, RUN);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert!(names(&folder).contains("result.json"));
}

#[test]
fn the_page_names_the_json_where_it_is() {
    let scratch = Scratch::new();
    let page = |name: &str, words: &str| {
        let folder = scratch.file(name);
        let finished = into(&folder, &format!("{RUN} {words}"));
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        std::fs::read_to_string(folder.join("report.html")).expect("a page")
    };
    assert!(page("a", "").contains("result.json"));
    // The command line is in the page, too, so only what it must not name is told apart.
    let elsewhere = page("b", &format!("--json {}", scratch.file("x.json").display()));
    assert!(elsewhere.contains("x.json") && !elsewhere.contains("result.json"));
    assert!(!page("c", "--json -").contains("result.json"));
}

#[test]
fn an_option_of_its_own_says_where_else_a_file_goes() {
    let scratch = Scratch::new();
    let folder = scratch.file("results");
    let finished = into(
        &folder,
        &format!("{RUN} --csv - --markdown {}", scratch.file("x.md").display()),
    );
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert!(finished.stdout.starts_with("time_s,"), "{}", finished.stdout);
    let all = names(&folder);
    assert!(
        !all.contains("rows.csv") && !all.contains("report.md") && all.contains("report.html"),
        "{all:?}"
    );
    assert!(scratch.file("x.md").exists());
}

#[test]
fn a_disk_that_fills_is_told_and_the_summary_is_printed() {
    if !rustix::process::geteuid().is_root() || mpps_tests::missing("unshare", "util-linux") {
        return mpps_tests::skip("a file system of one's own needs root");
    }
    let scratch = Scratch::new();
    let place = scratch.file("small");
    std::fs::create_dir(&place).expect("made");
    // Room for the folder, not for its files.
    let script = "mount --make-rprivate / && mount -t tmpfs -o size=8k none \"$0\" || exit 77; shift 0; exec \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", script])
        .arg(&place)
        .arg(mpps_tests::program());
    command.args(RUN.split(' ')).arg("--out").arg(place.join("results"));
    let finished = run_command(command);
    if finished.code == Some(77) {
        return mpps_tests::skip("no file system can be mounted here");
    }
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    assert!(
        finished.stderr.contains("No space left on device"),
        "{}",
        finished.stderr
    );
    assert!(finished.stdout.contains("VALID"), "{}", finished.stdout);
}
