//! Manual pages and completions, as the tools that read them see them, and where `make install` puts them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use mpps_tests::{Scratch, assert_refused, has, missing, mpps, program, run, run_command, skip};

/// The names of the files in a folder.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect()
}

fn pages(scratch: &Scratch) -> PathBuf {
    let folder = scratch.file("man1");
    let mut command = mpps("man --out");
    command.arg(&folder);
    let finished = run_command(command);
    assert_eq!(
        (finished.code, finished.stdout.as_str()),
        (Some(0), ""),
        "{}",
        finished.stderr
    );
    folder
}

#[test]
fn each_command_has_a_page_and_the_page_its_parts() {
    let scratch = Scratch::new();
    let folder = pages(&scratch);
    let names = names(&folder);
    for name in [
        "mpps.1",
        "mpps-sendrecv.1",
        "mpps-lab.1",
        "mpps-lab-up.1",
        "mpps-trace-peer.1",
        "mpps-man.1",
    ] {
        assert!(names.contains(name), "{name}: {names:?}");
    }
    assert!(names.iter().all(|name| !name.contains("help")), "{names:?}");
    let text = std::fs::read_to_string(folder.join("mpps-sendrecv.1")).expect("a page");
    assert_eq!(text, run("man sendrecv").stdout);
    for part in [
        ".TH",
        "SYNOPSIS",
        "LANES AND CORES",
        "GATES",
        "EXAMPLES",
        "SEE ALSO",
        "\\-\\-busy\\-poll",
    ] {
        assert!(text.to_uppercase().contains(&part.to_uppercase()), "{part}: {text}");
    }
    assert_eq!(run("man lab up").code, Some(0));
    assert_refused(mpps("man nonesuch"), 2, &["nonesuch", "sendrecv"]);
    assert_refused(mpps("completions tcsh"), 2, &["tcsh", "bash, zsh, fish"]);
}

#[test]
fn a_page_goes_through_no_link_and_replaces_what_was_there() {
    let scratch = Scratch::new();
    let folder = pages(&scratch);
    let (page, victim) = (folder.join("mpps-sendrecv.1"), scratch.file("victim"));
    let again = || mpps(&format!("man --out {}", folder.display()));
    std::fs::write(&page, "old").expect("ours");
    assert_eq!(run_command(again()).code, Some(0));
    assert!(std::fs::read_to_string(&page).expect("a page").contains(".TH"));
    for target in ["../victim", "../none"] {
        std::fs::write(&victim, "kept").expect("ours");
        std::fs::remove_file(&page).expect("ours");
        std::os::unix::fs::symlink(target, &page).expect("a link");
        assert_refused(again(), 2, &["--out", "mpps-sendrecv.1: it is a link", "want"]);
        assert_eq!(std::fs::read(&victim).expect("a file"), b"kept");
        assert!(!scratch.file("none").exists());
        assert!(page.symlink_metadata().expect("a link").is_symlink());
    }
}

#[test]
fn mandoc_has_nothing_to_say_about_the_pages() {
    if missing("mandoc", "mandoc") {
        return;
    }
    let scratch = Scratch::new();
    let folder = pages(&scratch);
    for name in names(&folder) {
        let output = Command::new("mandoc")
            .arg("-Tlint")
            .arg(folder.join(&name))
            .output()
            .expect("mandoc");
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        // Outside of a clone there is no date.
        let told: Vec<_> = told.lines().filter(|line| !line.contains("missing date")).collect();
        assert!(told.is_empty(), "{name}: {told:#?}");
    }
}

#[test]
fn shells_read_their_completions() {
    let scratch = Scratch::new();
    let mut read = 0;
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&format!("completions {shell}"));
        assert_eq!((script.code, script.stderr.as_str()), (Some(0), ""));
        assert!(script.stdout.contains("sendrecv"), "{shell}");
        if !has(shell) {
            continue;
        }
        let file = scratch.file(shell);
        std::fs::write(&file, &script.stdout).expect("written");
        let output = Command::new(shell).arg("-n").arg(&file).output().expect("a shell");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && told.is_empty(), "{shell}: {told}");
        read += 1;
    }
    if has("bash") {
        let line = "source \"$1\"; COMP_WORDS=(mpps sendrecv --busy); COMP_CWORD=2; _mpps mpps --busy sendrecv; \
                    echo \"${COMPREPLY[@]}\"";
        let output = Command::new("bash")
            .args(["-c", line, "bash"])
            .arg(scratch.file("bash"))
            .output()
            .expect("bash");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "--busy-poll");
        // Values of options that have a few, and the names of paths.
        for (words, value) in [
            ("sendrecv --pacing", "constant poisson burst=32"),
            ("send --dscp", "EF"),
            ("forward --mode", "io macswap 5tswap l2fwd"),
            ("reflect --on-full", "wait drop"),
            ("compare --metric", "p99"),
            ("demo --path", "af_xdp"),
            ("ndr --goal", "rfc2544"),
            ("rfc2544", "throughput"),
        ] {
            let (sub, before) = words.split_once(' ').unwrap_or((words, words));
            let line = format!(
                "source \"$1\"; COMP_WORDS=(mpps {words} ''); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _mpps mpps '' \
                 {before}; echo \"${{COMPREPLY[@]}}\""
            );
            let output = Command::new("bash")
                .args(["-c", &line, "bash"])
                .arg(scratch.file("bash"))
                .output()
                .expect("bash");
            let offered = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(offered.contains(value), "{sub}: {words}: {offered}");
        }
        let script = std::fs::read_to_string(scratch.file("bash")).expect("a script");
        assert!(script.contains("af_packet:"), "names of paths");
    }
    if read < 3 {
        skip("completions are read by those of bash, zsh and fish that are there");
    }
}

#[test]
fn make_install_puts_program_pages_and_completions_below_destdir_and_prefix_and_uninstall_removes_them() {
    let scratch = Scratch::new();
    let destdir = scratch.file("root");
    let top = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let make = |task: &str| {
        let mut make = Command::new("make");
        make.args(["-C", top, task, "PREFIX=/opt/x"]);
        make.arg(format!("PROGRAM={}", program().display()));
        make.arg(format!("DESTDIR={}", destdir.display()));
        let output = make.output().expect("make");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    make("install");
    let share = destdir.join("opt/x/share");
    for file in [
        "../bin/mpps",
        "man/man1/mpps.1",
        "man/man1/mpps-rfc2544.1",
        "bash-completion/completions/mpps",
        "zsh/site-functions/_mpps",
        "fish/vendor_completions.d/mpps.fish",
    ] {
        assert!(share.join(file).is_file(), "{file}");
    }
    assert_eq!(names(&destdir), BTreeSet::from(["opt".to_owned()]));
    // Another program's page stays.
    let other = share.join("man/man1/mppstat.1");
    std::fs::write(&other, "").expect("a file");
    make("uninstall");
    assert!(!share.join("../bin/mpps").exists() && other.is_file());
    assert_eq!(names(&share.join("man/man1")), BTreeSet::from(["mppstat.1".to_owned()]));
    for folder in [
        "bash-completion/completions",
        "zsh/site-functions",
        "fish/vendor_completions.d",
    ] {
        assert_eq!(names(&share.join(folder)), BTreeSet::new(), "{folder}");
    }
}
