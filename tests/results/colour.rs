//! Colour: on a terminal, unless `NO_COLOR` says no (no-color.org) or the terminal has none.

use std::process::Command;

use mpps_tests::{Scratch, missing, program, run_command};

/// Runs `mpps` on a terminal of its own; all that appeared there.
fn seen(words: &str, terminal: &str, no_color: Option<&str>) -> String {
    let scratch = Scratch::new();
    let mut command = Command::new("script");
    command.args(["--quiet", "--command"]);
    command.arg(format!("stty cols 100 rows 40; '{}' {words}", program().display()));
    command
        .arg(scratch.file("typescript"))
        .env("TERM", terminal)
        // To clap it is a reason for colours on a terminal that has none.
        .env("CI", "true")
        .env_remove("NO_COLOR");
    if let Some(value) = no_color {
        command.env("NO_COLOR", value);
    }
    run_command(command);
    let bytes = std::fs::read(scratch.file("typescript")).expect("a typescript");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn no_color_leaves_no_escape_sequence_in_what_any_command_prints() {
    if missing("script", "bsdutils or util-linux") {
        return;
    }
    for words in [
        "--help",
        "sendrecv --help",
        "sendrecv loop: --ratte",
        "doctor",
        "sendrecv loop: --rate 5kpps --duration 200ms --settle 50ms --plain",
        "reflect null: --duration 200ms --plain --verbose",
    ] {
        let without = seen(words, "xterm-256color", Some("1"));
        assert!(!without.contains('\x1b') && without.len() > 40, "{words}: {without:?}");
        let dumb = seen(words, "dumb", None);
        assert!(!dumb.contains('\x1b'), "{words}: {dumb:?}");
    }
    // It is no answer where it says nothing.
    for words in ["--help", "doctor"] {
        for value in [None, Some("")] {
            let with = seen(words, "xterm-256color", value);
            assert!(with.contains("\x1b["), "{words}: {with:?}");
        }
    }
}
