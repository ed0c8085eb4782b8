//! The full-screen view on a terminal: what it takes it gives back, however the run ends or stops, and it holds up
//! nobody.

use mpps_tests::{OnTerminal, Scratch, missing, mpps, program, run_command, skip, threads_of_id, wait_until};
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
const SIZE: (u16, u16) = (100, 30);

/// A run that goes on until it is ended.
fn run(more: &str) -> Command {
    mpps(&format!(
        "sendrecv loop:delay=1ms,loss=0.01 --rate 5kpps --duration 1h {more}"
    ))
}

/// A run whose view is there.
fn shown(more: &str) -> OnTerminal {
    let mut terminal = OnTerminal::start(&run(more), SIZE, None);
    terminal.wait_for("VALID SO FAR", 0);
    assert!(!terminal.is_as_it_was(), "keys come as lines");
    terminal
}

/// The screen was given back for good, with the cursor, and what follows is what stays: a summary with its verdict
/// last.
fn assert_given_back(seen: &str) {
    let (entered, left) = (seen.rfind(ENTER), seen.rfind(LEAVE));
    assert!(
        entered.is_some() && entered < left,
        "the screen was not given back: {seen:?}"
    );
    let after = &seen[left.expect("left")..];
    assert!(
        after.contains("\x1b[?25h") && !after.contains("\x1b[?25l"),
        "the cursor stays hidden: {after:?}"
    );
    assert!(
        after.contains("offered") && after.contains("lost"),
        "no summary: {after:?}"
    );
    let verdict = after
        .lines()
        .rev()
        .find(|line| line.contains("VALID"))
        .expect("a verdict");
    assert!(!verdict.contains("SO FAR"), "{after:?}");
}

fn rows(file: &Path) -> usize {
    std::fs::read_to_string(file).unwrap_or_default().lines().count()
}

#[test]
fn however_a_run_ends_the_terminal_is_as_it_was_and_the_summary_is_on_the_screen_that_stays() {
    type End = fn(&mut OnTerminal);
    let ends: [(&str, End); 4] = [
        ("q", |terminal| terminal.press(b"q")),
        ("Ctrl-C", |terminal| terminal.press(b"\x03")),
        ("SIGTERM", |terminal| terminal.signal(Signal::TERM)),
        ("SIGHUP", |terminal| terminal.signal(Signal::HUP)),
    ];
    for (name, end) in ends {
        let mut terminal = shown("--settle 100ms");
        end(&mut terminal);
        terminal.wait_for(LEAVE, 0);
        wait_until(&format!("the modes after {name}"), || terminal.is_as_it_was());
        let (code, seen) = terminal.finish();
        assert!(matches!(code, Some(0 | 3)), "{name}: {code:?} {seen:?}");
        assert_given_back(&seen);
    }
}

#[test]
fn what_ends_a_run_at_once_leaves_the_terminal_as_it_was() {
    for (name, key) in [("Ctrl-\\", b"\x1c"), ("Ctrl-C, again and again", b"\x03")] {
        let mut terminal = shown("--settle 60s");
        terminal.press(key);
        wait_until(name, || {
            // Such a key takes away what the terminal has not shown yet: none is pressed once the screen is given back.
            if key == b"\x03" && !terminal.is_as_it_was() {
                terminal.press(key);
            }
            terminal.seen();
            terminal.ended().is_some()
        });
        assert!(terminal.is_as_it_was(), "{name}: keys come one by one");
        let (_, seen) = terminal.finish();
        let after = |one: &str, other: &str| seen.rfind(one) > seen.rfind(other);
        assert!(
            after(LEAVE, ENTER) && after("\x1b[?25h", "\x1b[?25l"),
            "{name}: {seen:?}"
        );
    }
}

#[test]
fn a_signal_that_nobody_catches_ends_the_run_and_leaves_the_terminal_as_it_was() {
    for signal in [
        Signal::USR1,
        Signal::ABORT,
        Signal::SEGV,
        Signal::BUS,
        Signal::FPE,
        Signal::ILL,
        Signal::QUIT,
        Signal::ALARM,
        Signal::TRAP,
    ] {
        let mut terminal = shown("--settle 60s");
        terminal.signal(signal);
        let mut status = None;
        wait_until(&format!("the end by {signal:?}"), || {
            terminal.seen();
            status = terminal.ended();
            status.is_some()
        });
        let by = status.and_then(|status| status.signal());
        assert_eq!(by, Some(signal.as_raw()), "{signal:?}: {status:?}");
        assert!(terminal.is_as_it_was(), "{signal:?}: keys come one by one");
        let (_, seen) = terminal.finish();
        let after = |one: &str, other: &str| seen.rfind(one) > seen.rfind(other);
        assert!(
            after(LEAVE, ENTER) && after("\x1b[?25h", "\x1b[?25l"),
            "{signal:?}: {seen:?}"
        );
    }
}

#[test]
fn keys_show_the_other_tabs_and_help() {
    let mut terminal = shown("--settle 100ms");
    for (key, words) in [
        ("2", "from sending"),
        ("3", "what lanes did in the last second"),
        ("\t", "notes"),
        ("\x1b[D", "rx rings"),
        ("?", "end the run, with its results"),
        ("1", "received"),
    ] {
        let after = terminal.seen().len();
        terminal.press(key.as_bytes());
        terminal.wait_for(words, after);
    }
    terminal.press(b"q");
    assert_given_back(&terminal.finish().1);
}

#[test]
fn another_size_is_drawn_at_once_and_a_narrow_terminal_shows_what_matters() {
    let mut terminal = shown("--settle 100ms");
    let after = terminal.seen().len();
    terminal.resize((40, 12));
    terminal.wait_for("q end  1-4 tabs  ? help", after);
    let seen = terminal.seen();
    let narrow = &seen[after..];
    assert!(
        narrow.contains("\x1b[12;1H") && narrow.contains("VALID SO FAR"),
        "{narrow:?}"
    );
    terminal.press(b"q");
    assert_given_back(&terminal.finish().1);
}

/// A run in a shell with jobs, which waits for a line when it has stopped, and then does `more` and has it go on.
fn in_a_shell(before: &str, more: &str) -> OnTerminal {
    let run = "sendrecv loop:delay=1ms --rate 5kpps --duration 1h --settle 100ms";
    let script = format!(
        "{before} set -m; '{}' {run}; echo STOP''PED; read line; {more} fg; echo EN''DED",
        program().display()
    );
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]);
    let mut terminal = OnTerminal::start(&shell, SIZE, None);
    terminal.wait_for("VALID SO FAR", 0);
    terminal
}

#[test]
fn ctrl_z_gives_the_terminal_back_and_going_on_takes_and_draws_it_again() {
    let mut terminal = in_a_shell("", "");
    terminal.press(b"\x1a");
    let stopped = terminal.wait_for("STOPPED", 0);
    assert!(terminal.is_as_it_was(), "the shell has no whole lines");
    let seen = terminal.seen();
    assert!(
        seen.rfind(LEAVE) > seen.rfind(ENTER) && seen.rfind("\x1b[?25h") > seen.rfind("\x1b[?25l"),
        "{seen:?}"
    );
    terminal.press(b"\n");
    terminal.wait_for(ENTER, stopped);
    // All of it, not what has changed.
    terminal.wait_for("mpps sendrecv", stopped);
    terminal.wait_for("SO FAR", stopped);
    terminal.press(b"q");
    terminal.wait_for("ENDED", stopped);
    assert!(terminal.is_as_it_was());
    assert_given_back(&terminal.finish().1);
}

/// The number in a line of a process's, or of a thread's, `status`.
fn status(path: &Path, name: &str) -> String {
    let text = std::fs::read_to_string(path.join("status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_default().trim().to_owned()
}

/// The run that a shell has started, in /proc, and the thread of it that draws.
fn run_of(shell: u32) -> (PathBuf, PathBuf) {
    let children = format!("/proc/{shell}/task/{shell}/children");
    let children = std::fs::read_to_string(children).expect("a shell");
    let run = PathBuf::from(format!("/proc/{}", children.trim()));
    let threads = std::fs::read_dir(run.join("task")).expect("one child");
    let threads = threads.map(|thread| thread.expect("a thread").path());
    let drawing = threads.into_iter().find(|path| status(path, "Name:") == "mpps-screen");
    (run, drawing.expect("a thread that draws"))
}

#[test]
fn ctrl_z_in_the_middle_of_a_frame_stops_the_run_and_the_view_sleeps_until_it_goes_on() {
    // With noflsh what was not read stays there, and the frame is half written when there is room again.
    for modes in ["", "stty noflsh;"] {
        let mut terminal = in_a_shell(modes, "bg; echo BEHI''ND; read line;");
        let (run, drawing) = run_of(terminal.id());
        let mut larger = false;
        wait_until("a full terminal", || {
            larger = !larger;
            terminal.resize(if larger { (250, 80) } else { (249, 80) });
            !terminal.has_room()
        });
        terminal.press(b"\x1a");
        wait_until("the stop", || status(&run, "State:").starts_with('T'));
        assert!(terminal.is_as_it_was(), "{modes}: the shell has no whole lines");
        terminal.wait_for("STOPPED", 0);
        terminal.press(b"\n");
        let behind = terminal.wait_for("BEHIND", 0);
        // A thread that finds something to do at each look never sleeps.
        let sleeps = || {
            status(&drawing, "voluntary_ctxt_switches:")
                .parse::<u64>()
                .expect("a number")
        };
        let before = sleeps();
        wait_until("looks in the background", || {
            terminal.seen();
            sleeps() > before + 10
        });
        terminal.press(b"\n");
        terminal.wait_for(ENTER, behind);
        terminal.wait_for("SO FAR", behind);
        terminal.press(b"q");
        terminal.wait_for("ENDED", behind);
        assert_given_back(&terminal.finish().1);
    }
}

#[test]
fn where_ctrl_z_stops_nobody_the_view_comes_back() {
    // The leader of a session has no shell to continue it: the kernel does not stop it.
    let mut terminal = shown("--settle 100ms");
    for _ in 0..2 {
        let after = terminal.seen().len();
        terminal.press(b"\x1a");
        let left = terminal.wait_for(LEAVE, after);
        terminal.wait_for(ENTER, left.min(after + LEAVE.len()));
        terminal.wait_for("mpps sendrecv", after + LEAVE.len());
    }
    terminal.press(b"q");
    assert_given_back(&terminal.finish().1);
}

#[test]
fn a_terminal_that_takes_nothing_holds_up_neither_the_run_nor_its_end() {
    let scratch = Scratch::new();
    let (csv, json, out) = (scratch.file("run.csv"), scratch.file("run.json"), scratch.file("out"));
    let metrics = scratch.file("mpps.prom");
    let command = run(&format!(
        "--settle 100ms --csv {} --json {} --prom {}",
        csv.display(),
        json.display(),
        metrics.display()
    ));
    let mut terminal = OnTerminal::start(&command, SIZE, Some(out.to_str().expect("text")));
    terminal.wait_for("VALID SO FAR", 0);
    // A note, which the end prints: for a while the metrics could not be written.
    wait_until("a folder in their place", || {
        let _ = std::fs::remove_file(&metrics);
        std::fs::create_dir(&metrics).is_ok()
    });
    // Only cells that change are written: the word is there already.
    terminal.wait_for("(1)", 0);
    std::fs::remove_dir(&metrics).expect("ours");
    // Ctrl-S: from now on a write to the terminal waits.
    terminal.press(b"\x13");
    let before = rows(&csv);
    wait_until("rows", || rows(&csv) > before + 20);
    terminal.signal(Signal::TERM);
    wait_until("the end", || terminal.ended().is_some());
    assert!(matches!(terminal.ended().and_then(|status| status.code()), Some(0 | 3)));
    assert!(terminal.is_as_it_was());
    let told = std::fs::read_to_string(&json).expect("a result");
    assert!(told.contains("\"valid\""), "{told}");
    assert!(std::fs::read_to_string(&out).expect("a summary").contains("VALID"));
}

#[test]
fn an_error_for_a_terminal_that_takes_nothing_holds_up_no_end_and_the_exit_code_tells_of_it() {
    let scratch = Scratch::new();
    let (csv, json, out) = (scratch.file("run.csv"), scratch.file("run.json"), scratch.file("out"));
    let command = run(&format!(
        "--settle 100ms --csv {} --json {} --junit /dev/full --markdown /dev/full",
        csv.display(),
        json.display()
    ));
    let mut terminal = OnTerminal::start(&command, SIZE, Some(out.to_str().expect("text")));
    terminal.wait_for("VALID SO FAR", 0);
    // Ctrl-S.
    terminal.press(b"\x13");
    let before = rows(&csv);
    wait_until("rows", || rows(&csv) > before + 20);
    terminal.signal(Signal::TERM);
    wait_until("the end", || terminal.ended().is_some());
    assert_eq!(terminal.ended().and_then(|status| status.code()), Some(1));
    assert!(terminal.is_as_it_was());
    assert!(std::fs::read_to_string(&json).expect("a result").contains("\"valid\""));
    // One that takes it is told, both files.
    let mut terminal = OnTerminal::start(&command, SIZE, Some(out.to_str().expect("text")));
    terminal.wait_for("VALID SO FAR", 0);
    terminal.signal(Signal::TERM);
    let (code, seen) = terminal.finish();
    assert_eq!(code, Some(1), "{seen:?}");
    assert_eq!(seen.matches("write /dev/full").count(), 2, "{seen:?}");
}

#[test]
fn a_summary_for_a_terminal_that_takes_nothing_comes_once_it_does_on_the_screen_that_stays() {
    let scratch = Scratch::new();
    let csv = scratch.file("run.csv");
    let terminal = shown(&format!("--csv {} --settle 100ms", csv.display()));
    terminal.press(b"\x13");
    let before = rows(&csv);
    wait_until("rows", || rows(&csv) > before + 20);
    terminal.signal(Signal::TERM);
    wait_until("the modes", || terminal.is_as_it_was());
    // Ctrl-Q.
    terminal.press(b"\x11");
    assert_given_back(&terminal.finish().1);
}

#[test]
fn where_there_is_no_room_no_terminal_or_no_wish_for_it_lines_are_plain() {
    let short = |more: &str| {
        mpps(&format!(
            "sendrecv loop:delay=1ms --rate 5kpps --duration 1500ms --settle 100ms {more}"
        ))
    };
    let as_told = |name: &str, value: &str| {
        let mut command = short("");
        command.env(name, value);
        command
    };
    for (command, size) in [
        (short("--plain"), SIZE),
        (as_told("TERM", "dumb"), SIZE),
        (as_told("TERM", ""), SIZE),
        // A cell of a notebook.
        (as_told("JPY_PARENT_PID", "1"), SIZE),
        (short(""), (24, 6)),
        // One that does not know its size.
        (short(""), (0, 0)),
        (short(""), (0, 24)),
        (short("--flows 8"), (132, 0)),
        (short("--csv -"), SIZE),
    ] {
        let (code, seen) = OnTerminal::start(&command, size, None).finish();
        assert!(matches!(code, Some(0 | 3)), "{seen:?}");
        assert!(
            !seen.contains(ENTER) && !seen.contains("\x1b[?25l"),
            "{command:?}: {seen:?}"
        );
        assert!(seen.contains("0-1 s  sent"), "{command:?}: {seen:?}");
    }
}

#[test]
fn no_color_means_none() {
    for (no_color, coloured) in [(None, true), (Some("1"), false)] {
        let mut command = run("--settle 100ms");
        if let Some(value) = no_color {
            command.env("NO_COLOR", value);
        }
        let mut terminal = OnTerminal::start(&command, SIZE, None);
        terminal.wait_for("VALID SO FAR", 0);
        terminal.press(b"q");
        let (_, seen) = terminal.finish();
        let codes = ["\x1b[0;1;32m", "\x1b[0;36m"].iter().any(|code| seen.contains(code));
        assert_eq!(codes, coloured, "{seen:?}");
    }
}

#[test]
fn the_other_workloads_have_the_view_too() {
    for words in ["send null:", "reflect null:", "drop null:", "forward null: null:"] {
        let command = mpps(&format!("{words} --duration 1h"));
        let mut terminal = OnTerminal::start(&command, SIZE, None);
        terminal.wait_for(&format!("mpps {}", words.split(' ').next().expect("one")), 0);
        terminal.press(b"q");
        let (code, seen) = terminal.finish();
        assert!(matches!(code, Some(0 | 3)), "{words}: {seen:?}");
        assert!(seen.rfind(ENTER) < seen.rfind(LEAVE), "{words}: {seen:?}");
    }
}

#[test]
fn the_thread_that_draws_holds_no_privilege() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root has any to hold");
    }
    let terminal = shown("--settle 100ms");
    let threads = threads_of_id(terminal.id());
    let drawing = threads
        .iter()
        .find(|thread| thread.name == "mpps-screen")
        .expect("a thread");
    assert_eq!(
        (drawing.permitted, drawing.effective, drawing.handed_down),
        (0, 0, 0),
        "{drawing:?}"
    );
    assert!(drawing.no_new_privs, "{drawing:?}");
    terminal.press(b"q");
    assert_given_back(&terminal.finish().1);
}

/// A server of `tmux` of the test's own, with one session; ended when dropped.
struct Tmux(Scratch);

impl Tmux {
    fn start((columns, rows): (u16, u16)) -> Self {
        let tmux = Self(Scratch::new());
        let (columns, rows) = (columns.to_string(), rows.to_string());
        tmux.ask(&[
            "new-session",
            "-d",
            "-x",
            &columns,
            "-y",
            &rows,
            "env",
            "PS1=READY>",
            "sh",
        ]);
        tmux.ask(&["set-option", "-g", "status", "off"]);
        tmux
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.0.file("socket"));
        command.args(["-u", "-f", "/dev/null"]).args(words);
        command.env_remove("TMUX").env_remove("NO_COLOR");
        command
    }

    fn ask(&self, words: &[&str]) -> String {
        let done = run_command(self.command(words));
        assert_eq!(done.code, Some(0), "{words:?}: {}", done.stderr);
        done.stdout
    }

    /// The lines of its screen.
    fn screen(&self) -> Vec<String> {
        self.ask(&["capture-pane", "-p"]).lines().map(str::to_owned).collect()
    }

    fn wait_for(&self, what: &str, holds: impl Fn(&[String]) -> bool) -> Vec<String> {
        let mut last = Vec::new();
        wait_until(what, || {
            last = self.screen();
            holds(&last)
        });
        last
    }

    /// Waits until the view fills a screen of so many columns and rows: its keys are in the last line.
    fn wait_for_view(&self, (columns, rows): (usize, usize)) {
        self.wait_for(&format!("the view at {columns}x{rows}"), |lines| {
            let fits = lines.iter().all(|line| line.chars().count() <= columns);
            let keys = lines.get(rows - 1).is_some_and(|line| line.starts_with("q end"));
            fits && keys && lines.len() == rows && lines[0].starts_with("mpps sendrecv")
        });
    }

    /// Packets sent, as the first tab shows them.
    fn sent(&self) -> Option<u64> {
        let lines = self.screen();
        let line = lines.iter().find(|line| line.starts_with("sent  "))?;
        line.split_whitespace().nth(3)?.replace(',', "").parse().ok()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.command(&["kill-server"]).output();
    }
}

#[test]
fn in_tmux_the_view_lives_through_detaching_attaching_and_sizes_and_the_screen_is_given_back() {
    if missing("tmux", "tmux") {
        return;
    }
    let tmux = Tmux::start((100, 30));
    tmux.wait_for("a shell", |lines| lines.iter().any(|line| line.starts_with("READY>")));
    let keys = |words: &[&str]| {
        tmux.ask(&[&["send-keys"], words].concat());
    };
    let words = "sendrecv loop:delay=1ms,loss=0.01 --rate 5kpps --duration 1h --settle 100ms";
    keys(&["-l", &format!("echo BEF''ORE; {} {words}", program().display())]);
    keys(&["Enter"]);
    // Nobody looks.
    tmux.wait_for_view((100, 30));
    let lines = tmux.wait_for("a state", |lines| {
        lines.iter().any(|line| line.contains("VALID SO FAR"))
    });
    assert!(!lines.iter().any(|line| line.contains("BEFORE")), "{lines:#?}");
    tmux.ask(&["resize-window", "-x", "60", "-y", "20"]);
    tmux.wait_for_view((60, 20));
    tmux.ask(&["set-option", "-w", "window-size", "latest"]);
    for size in [(90, 25), (120, 40)] {
        // Somebody attaches, by a terminal of another size, presses a key and goes.
        let attach = tmux.command(&["attach-session"]);
        let mut shell = Command::new("sh");
        // tmux writes to its standard input, too.
        shell
            .args(["-c", "exec \"$@\" <>\"$(tty)\"", "sh"])
            .arg(attach.get_program());
        shell.args(attach.get_args()).env_remove("TMUX");
        let mut terminal = OnTerminal::start(&shell, size, None);
        terminal.wait_for(ENTER, 0);
        // Only cells that change are written.
        terminal.wait_for("kpps", 0);
        tmux.wait_for_view((size.0.into(), size.1.into()));
        terminal.resize((80, 24));
        tmux.wait_for_view((80, 24));
        terminal.press(b"2");
        tmux.wait_for("the second tab", |lines| {
            lines.iter().any(|line| line.contains("from sending"))
        });
        terminal.press(b"1");
        tmux.wait_for("the first tab", |lines| {
            lines.iter().any(|line| line.contains("intended"))
        });
        terminal.press(b"\x02d");
        let (code, seen) = terminal.finish();
        assert_eq!(code, Some(0), "{seen:?}");
        let mut before = None;
        wait_until("packets", || {
            before = before.or(tmux.sent());
            tmux.sent() > before && before.is_some()
        });
    }
    keys(&["q"]);
    tmux.wait_for("the shell", |lines| {
        lines.last().is_some_and(|line| line.starts_with("READY>"))
    });
    let state = tmux.ask(&[
        "display-message",
        "-p",
        "#{alternate_on} #{cursor_flag} #{mouse_any_flag}",
    ]);
    assert_eq!(state.trim(), "0 1 0");
    let kept = tmux.ask(&["capture-pane", "-p", "-S", "-"]);
    // When a window shrinks, tmux itself moves lines of the view to the history, above.
    let (_, kept) = kept.split_once("BEFORE").expect("the line before");
    let place = |word: &str| kept.find(word).unwrap_or_else(|| panic!("no {word}: {kept}"));
    assert!(place("offered") < place("VALID"), "{kept}");
    assert!(!kept.contains("SO FAR") && !kept.contains("q end"), "{kept}");
    // Keys come as lines, and are shown.
    keys(&["-l", "echo AFT''ER"]);
    keys(&["Enter"]);
    tmux.wait_for("a line", |lines| lines.iter().any(|line| line == "AFTER"));
}
