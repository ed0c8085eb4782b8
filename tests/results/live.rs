//! What the user sees while a run goes on, and the picture afterwards.

use mpps_tests::{Scratch, missing, mpps, program, run, run_command};
use std::process::Command;

const RUN: &str = "sendrecv loop:delay=1ms,loss=0.01 --rate 10kpps --duration 1200ms --settle 100ms";

/// Runs `mpps` on a terminal of its own; all that appeared there.
fn on_a_terminal(words: &str) -> Option<String> {
    typed(&format!("'{}' {words}", program().display()))
}

/// Runs a shell's words on a terminal of its own; all that appeared there.
fn typed(words: &str) -> Option<String> {
    if missing("script", "bsdutils or util-linux") {
        return None;
    }
    let scratch = Scratch::new();
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command"]);
    command.arg(format!("stty cols 100 rows 40; {words}"));
    command.arg(scratch.file("typescript")).env("TERM", "xterm-256color");
    let finished = run_command(command);
    assert!(matches!(finished.code, Some(0 | 3)), "{finished:?}");
    Some(String::from_utf8_lossy(&std::fs::read(scratch.file("typescript")).expect("a typescript")).into_owned())
}

#[test]
fn on_a_terminal_the_live_view_is_drawn_again_in_place_and_the_cursor_comes_back() {
    let Some(seen) = on_a_terminal(RUN) else { return };
    assert!(seen.contains("\x1b["), "no cursor movement: {seen:?}");
    let hidden = seen.rfind("\x1b[?25l").expect("a view that was drawn");
    assert!(
        seen.rfind("\x1b[?25h").is_some_and(|shown| shown > hidden),
        "the cursor stays hidden: {seen:?}"
    );
    // No flicker: what is there is written over, never blanked as a whole first.
    assert!(!seen.contains("\x1b[2J"), "the screen was cleared: {seen:?}");
    assert!(
        seen.contains("intended") && seen.contains("p99"),
        "no summary: {seen:?}"
    );
    assert!(
        !seen.contains("\x1b[?1049h") || seen.contains("\x1b[?1049l"),
        "the screen was not given back: {seen:?}"
    );
}

#[test]
fn plain_lines_are_had_on_a_terminal_when_asked_for() {
    let Some(seen) = on_a_terminal(&format!("{RUN} --plain")) else {
        return;
    };
    assert!(!seen.contains("\x1b[?25l") && !seen.contains("\x1b[1A"), "{seen:?}");
}

#[test]
fn what_is_no_terminal_gets_plain_lines_only() {
    let finished = run(RUN);
    for text in [&finished.stdout, &finished.stderr] {
        assert!(!text.contains('\x1b') && !text.contains('\r'), "{text:?}");
    }
    assert!(
        finished.stdout.contains("intended") && finished.stdout.contains("lost"),
        "{}",
        finished.stdout
    );
}

#[test]
fn the_summary_ends_with_the_verdict_and_tells_of_each_lane_only_when_asked() {
    for (more, tables) in [("", false), ("--verbose", true)] {
        let finished = run(&format!("{RUN} {more}"));
        let verdict = finished.stdout.lines().rev().find(|line| !line.starts_with(['-', ' ']));
        let verdict = verdict.expect("a verdict");
        assert!(
            verdict.starts_with("VALID") || verdict.starts_with("NOT VALID"),
            "{}",
            finished.stdout
        );
        for part in ["preempted", "mpps_version", "latency: "] {
            assert_eq!(finished.stdout.contains(part), tables, "{part}: {}", finished.stdout);
        }
        assert!(finished.stdout.contains(" lost between "), "{}", finished.stdout);
    }
}

#[test]
fn plain_lines_cover_the_whole_run_and_say_when_loss_is_not_known_yet() {
    let finished = run("sendrecv loop:delay=1ms,loss=0.01 --rate 10kpps --duration 2500ms --settle 1500ms");
    let lines: Vec<_> = finished.stderr.lines().map(str::trim_start).collect();
    let known: Vec<_> = lines
        .iter()
        .filter(|line| line.contains(" s  sent ") && !line.starts_with("by "))
        .collect();
    let spans: Vec<_> = known
        .iter()
        .filter_map(|line| line.split_once(" s  sent "))
        .map(|(span, _)| span)
        .collect();
    assert_eq!(spans, ["0-1", "1-2", "2.0-2.5"], "{}", finished.stderr);
    for line in lines.iter().filter(|line| line.starts_with("by ")) {
        assert!(line.contains("lost: not known yet"), "{line}");
    }
    assert!(
        lines.iter().any(|line| line.starts_with("by 1.")),
        "{}",
        finished.stderr
    );
}

#[test]
fn ctrl_c_on_a_terminal_restores_the_cursor_and_shows_the_summary() {
    // What the terminal would send, once the run is under way.
    let csv = Scratch::new();
    let file = csv.file("run.csv").display().to_string();
    let run = RUN.replace("1200ms", "1h");
    let wait = format!("until [ \"$(wc -l < {file})\" -gt 5 ]; do sleep 0.05; done");
    let words = format!("{run} --csv {file} </dev/tty & pid=$!; {wait}; kill -INT $pid; wait $pid");
    let Some(seen) = on_a_terminal(&words) else { return };
    if let Some(hidden) = seen.rfind("\x1b[?25l") {
        assert!(
            seen.rfind("\x1b[?25h").is_some_and(|shown| shown > hidden),
            "the cursor stays hidden: {seen:?}"
        );
    }
    assert!(seen.contains("latency"), "no summary: {seen:?}");
}

#[test]
fn the_demo_shows_its_measurement_as_it_goes() {
    let scratch = Scratch::new();
    let folder = scratch.file("results");
    let folder = folder.display();
    let rows = format!("[ \"$(cat {folder}/run.csv 2>/dev/null | wc -l)\" -gt 5 ]");
    let words = format!(
        "demo --path udp --rate 5kpps --duration 1h --out {folder} </dev/tty & pid=$!; \
         until {rows} || ! kill -0 $pid; do sleep 0.05; done; kill -INT $pid; wait $pid"
    );
    let Some(seen) = on_a_terminal(&words) else { return };
    let hidden = seen.find("\x1b[?25l").unwrap_or_else(|| panic!("no live view: {seen}"));
    assert!(
        seen[hidden..].contains("latency") && seen[hidden..].contains("\x1b[?25h"),
        "{seen}"
    );
}

#[test]
fn what_stops_or_ends_a_run_at_once_leaves_no_cursor_hidden() {
    let scratch = Scratch::new();
    let (rows, pid) = (scratch.file("run.csv"), scratch.file("pid"));
    let (rows, pid) = (rows.display(), pid.display());
    let run = RUN.replace("1200ms", "1h");
    // Keys go to the job in the foreground, which `set -m` makes a group of its own, as an interactive shell does: the
    // kernel stops no other. Signals stand in for them, each once further rows are there.
    let key = |signals: &str| {
        let wait = format!("until [ \"$(wc -l < {rows})\" -gt $((n + 5)) ]; do sleep 0.05; done");
        format!("n=$(cat {rows} | wc -l); {{ {wait}; {signals}; }} & ")
    };
    let kill = |signal: &str| format!("kill -{signal} $(cat {pid})");
    let program = program();
    let start = format!(
        "sh -c 'echo $$ > {pid}; exec \"$0\" {run} --csv {rows}' '{}'",
        program.display()
    );
    for (last, signals) in [("QUIT", kill("QUIT")), ("INT", format!("{0}; {0}; {0}", kill("INT")))] {
        let words = format!(
            "ulimit -c 0; set -m; : > {rows}; {}{start}; echo STOP''PED; {}fg; echo STOP''PED; {}fg; echo EN''DED",
            key(&kill("TSTP")),
            key(&kill("TSTP")),
            key(&signals),
        );
        let Some(seen) = typed(&words) else { return };
        assert!(
            seen.contains("ENDED") && seen.matches("STOPPED").count() == 2,
            "{last}: {seen:?}"
        );
        for so_far in ["STOPPED", "ENDED"].iter().flat_map(|word| seen.match_indices(word)) {
            let before = &seen[..so_far.0];
            if let Some(hidden) = before.rfind("\x1b[?25l") {
                assert!(
                    before.rfind("\x1b[?25h").is_some_and(|shown| shown > hidden),
                    "{last}: the cursor stays hidden: {before:?}"
                );
            }
        }
    }
}

#[test]
fn a_run_s_csv_becomes_a_picture_of_either_kind() {
    let scratch = Scratch::new();
    let report = scratch.measure(mpps(&format!("{RUN} --quiet")));
    report.assert_accounted();
    for kind in ["svg", "png"] {
        let picture = scratch.file(&format!("run.{kind}"));
        let mut command = mpps("plot");
        command.arg(scratch.file("run.csv")).arg("-o").arg(&picture);
        let finished = run_command(command);
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        let bytes = std::fs::read(&picture).expect("a picture");
        let magic: &[u8] = if kind == "svg" { b"<svg" } else { b"\x89PNG\r\n\x1a\n" };
        assert!(
            bytes.windows(magic.len()).take(200).any(|start| start == magic),
            "{kind}"
        );
        assert!(bytes.len() > 2000, "{kind}: {} bytes", bytes.len());
    }
    let svg = std::fs::read_to_string(scratch.file("run.svg")).expect("text");
    for word in ["sent", "received", "loss", "p99"] {
        assert!(svg.to_lowercase().contains(word), "{word} is not in the picture");
    }
}
