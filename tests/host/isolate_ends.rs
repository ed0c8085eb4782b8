//! However a run of `mpps isolate` ends, and however many are started, the host is as it was: a host made of files.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

use mpps_tests::{Background, HostOfFiles as Host, last_core, run_command, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Processes that a process has started.
fn children(process: u32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn lives(process: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Z: it has ended, and nobody has asked how.
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[test]
fn signals_reach_the_command_which_says_how_the_run_ends() {
    let host = Host::new();
    let ready = host.path("ready");
    for (signal, code) in [(Signal::USR1, 7), (Signal::TERM, 8), (Signal::INT, 9)] {
        let script = format!(
            "trap 'exit 7' USR1; trap 'exit 8' TERM; trap 'exit 9' INT; : > {}; while :; do sleep 0.02; done",
            ready.display()
        );
        let running = Background::start(host.isolate("--quiet", &["sh", "-c", &script]));
        wait_until("the command", || ready.exists());
        assert!(host.changed());
        let finished = running.end(signal);
        assert_eq!(finished.code, Some(code), "{}", finished.stderr);
        fs::remove_file(&ready).expect("a file");
        host.is_as_it_was();
    }
}

#[test]
fn nothing_is_left_of_a_run_that_is_killed() {
    let host = Host::new();
    let running = Background::start(host.isolate("--quiet", &["sleep", "1000"]));
    wait_until("the command", || host.changed() && children(running.id()).len() == 2);
    let started = children(running.id());
    let _ = running.end(Signal::KILL);
    wait_until("the end of the command and of the guardian", || {
        !started.iter().any(|&process| lives(process))
    });
    host.is_as_it_was();
}

#[test]
fn what_a_killed_run_and_guardian_leave_the_next_start_undoes() {
    let host = Host::new();
    for mends in [&["isolate", "--undo"][..], &["isolate"]] {
        let running = Background::start(host.isolate("--quiet", &["sleep", "1000"]));
        wait_until("the command", || host.changed() && children(running.id()).len() == 2);
        let started = children(running.id());
        for &process in &started {
            // The guardian first, or it would do its work.
            let _ = Pid::from_raw(process).map(|pid| kill_process(pid, Signal::STOP));
        }
        running.signal(Signal::KILL);
        for &process in &started {
            let _ = Pid::from_raw(process).map(|pid| kill_process(pid, Signal::KILL));
        }
        let _ = running.finish();
        wait_until("the end of both", || !started.iter().any(|&process| lives(process)));
        assert!(host.changed() && host.journals() == 1);
        let finished = match mends {
            [_, _] => run_command(host.undo()),
            _ => run_command(host.isolate("", &["true"])),
        };
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        assert!(
            finished.stderr.contains("of a run that was killed are undone"),
            "{}",
            finished.stderr
        );
        host.is_as_it_was();
    }
}

#[test]
fn a_second_run_at_the_same_time_is_refused_and_harms_nothing() {
    let host = Host::new();
    let running = Background::start(host.isolate("--quiet", &["sleep", "1000"]));
    wait_until("the command", || host.changed());
    let second = run_command(host.isolate("", &["true"]));
    assert_eq!(second.code, Some(1), "{}", second.stderr);
    assert!(
        second.stderr.contains("another `mpps isolate` runs"),
        "{}",
        second.stderr
    );
    assert!(host.changed());
    let _ = running.end(Signal::TERM);
    host.is_as_it_was();
}

#[test]
fn a_run_has_its_turn_from_the_measurement_before_it_on() {
    let host = Host::new();
    let first = Background::start(host.isolate_and_measure("1h", "", &["true"])).wait_to_hear("measuring the noise");
    let second = run_command(host.isolate("", &["true"]));
    assert_eq!(second.code, Some(1), "{}", second.stderr);
    let told = format!("another `mpps isolate` runs on this host (process {})", first.id());
    assert!(second.stderr.contains(&told), "{}", second.stderr);
    assert_eq!(first.end(Signal::TERM).code, Some(128 + 15));
    host.is_as_it_was();
    assert_eq!(
        run_command(host.isolate("--quiet", &["true"])).code,
        Some(0),
        "it has ended"
    );
}

#[test]
fn of_runs_that_are_started_at_once_one_is_done() {
    let host = Host::new();
    let (count, end) = (4, host.path("end"));
    let wait = format!("while ! [ -e {} ]; do sleep 0.02; done", end.display());
    let mut all: Vec<_> = (0..count)
        .map(|_| Background::start(host.isolate("--quiet", &["sh", "-c", &wait])))
        .collect();
    wait_until("the end of all but one", || {
        all.iter_mut().filter_map(|run| run.running().then_some(())).count() == 1
    });
    wait_until("the one", || host.changed());
    fs::write(&end, "").expect("a file");
    let mut codes: Vec<_> = all.into_iter().map(|run| run.finish().code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(1), Some(1), Some(1)]);
    host.is_as_it_was();
}

#[test]
fn what_can_not_be_undone_stays_noted_and_no_run_begins_until_it_is() {
    let host = Host::new();
    let answers = host.path("proc/sys/vm/stat_interval.answers");
    // EROFS from now on.
    let script = format!("echo '1=!30' > {}; exit 6", answers.display());
    let finished = run_command(host.isolate("--quiet", &["sh", "-c", &script]));
    assert_eq!(finished.code, Some(6), "{}", finished.stderr);
    let has = |text: &str, parts: &[&str]| {
        let missing = parts.iter().find(|part| !text.contains(**part));
        assert_eq!(missing, None, "{text}");
    };
    has(
        &finished.stderr,
        &["stat_interval: mounted read-only", "still noted: 1"],
    );
    for (command, parts) in [
        (host.undo(), &["stat_interval: mounted read-only", "still noted: 1"][..]),
        (
            host.isolate("", &["true"]),
            &["an earlier run has left what can't be undone"],
        ),
    ] {
        let finished = run_command(command);
        assert_eq!(finished.code, Some(1), "{}", finished.stderr);
        has(&finished.stderr, parts);
        assert_eq!(host.journals(), 1);
    }
    fs::remove_file(&answers).expect("a file");
    let finished = run_command(host.undo());
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    has(
        &finished.stderr,
        &["1 changes that an earlier run could not undo are undone"],
    );
    host.is_as_it_was();
}

#[test]
fn a_group_that_somebody_else_has_made_is_left_to_them() {
    let host = Host::new();
    host.put("cg/mpps-isolate/cgroup.procs", "77");
    let finished = run_command(host.isolate("", &["true"]));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let told = "cpuset       not applied  /cg/mpps-isolate is there already";
    assert!(finished.stderr.contains(told), "{}", finished.stderr);
    assert_eq!(host.get("cg/mpps-isolate/cgroup.procs"), "77");
}

#[test]
fn what_is_no_journal_is_told_and_neither_followed_nor_waited_for() {
    let host = Host::new();
    let forged = "{\"do\":\"boot\",\"id\":\"one\"}\n\
                  {\"do\":\"write\",\"path\":\"proc/sys/vm/stat_interval\",\"before\":\"777\"}";
    host.put("elsewhere", forged);
    fs::create_dir(host.path("run/mpps")).expect("a folder");
    let journal = |name: &str| host.path(&format!("run/mpps/isolate-{name}"));
    std::os::unix::fs::symlink(host.path("elsewhere"), journal("1-0")).expect("a link");
    fs::create_dir(journal("2-0")).expect("a folder");
    let mut strange = vec!["1-0", "2-0"];
    if rustix::process::geteuid().is_root() {
        host.put("run/mpps/isolate-3-0", forged);
        std::os::unix::fs::chown(journal("3-0"), Some(65_534), Some(65_534)).expect("root may");
        strange.push("3-0");
    }
    let finished = run_command(host.isolate("", &["true"]));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    for name in strange {
        let told = format!("{}: it ", journal(name).display());
        assert!(finished.stderr.contains(&told), "{name}: {}", finished.stderr);
    }
    assert_eq!(host.get("proc/sys/vm/stat_interval"), "1");
    // A line that was changed: those from there on are not done, and that is said.
    host.put("run/mpps/isolate-4-0", &forged.replace("\"write\"", "\"wrote\""));
    let finished = run_command(host.undo());
    assert!(
        finished.stderr.contains("isolate-4-0: 1 lines of it can't be read"),
        "{}",
        finished.stderr
    );
    assert!(!journal("4-0").exists());
}

#[test]
fn a_guardian_has_a_session_of_its_own_and_ends_with_its_run_only() {
    let host = Host::new();
    let running = Background::start(host.isolate("--quiet", &["sleep", "1000"]));
    wait_until("the command", || host.changed() && children(running.id()).len() == 2);
    let words = |process: &i32| fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let started = children(running.id());
    let guardian = *started
        .iter()
        .find(|process| words(process).contains("--guard"))
        .expect("a guardian");
    let stat = fs::read_to_string(format!("/proc/{guardian}/stat")).expect("it lives");
    let fields = stat.rsplit_once(')').expect("a name").1.split_whitespace();
    let session = fields.map(str::to_owned).nth(3).expect("a session");
    assert_eq!(session, guardian.to_string(), "{stat}");
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let _ = Pid::from_raw(guardian).map(|pid| kill_process(pid, signal));
    }
    let _ = running.end(Signal::KILL);
    wait_until("the end of both", || !started.iter().any(|&process| lives(process)));
    host.is_as_it_was();
}

/// A terminal that a test types on, and the command that runs there.
fn on_a_terminal(command: &Command) -> (OwnedFd, Command) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("our own");
    let name = ptsname(&terminal, Vec::new()).expect("a name");
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec setsid --ctty \"$@\" < \"$0\""]);
    shell.arg(name.to_str().expect("text"));
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    (terminal, shell)
}

fn press_ctrl_c(terminal: &OwnedFd) {
    rustix::io::write(terminal, b"\x03").expect("a key");
}

#[test]
fn ctrl_c_while_the_host_is_being_changed_ends_the_run_without_the_command() {
    let host = Host::new();
    let (answers, ran) = (host.path("proc/sys/vm/stat_interval.answers"), host.path("ran"));
    // The kernel takes until the test says so to write this value.
    rustix::fs::mkfifoat(rustix::fs::CWD, &answers, rustix::fs::Mode::from_raw_mode(0o600)).expect("a FIFO");
    let script = format!(": > {}", ran.display());
    let (terminal, command) = on_a_terminal(&host.isolate("--quiet", &["sh", "-c", &script]));
    let running = Background::start(command);
    let mut open: Option<File> = None;
    wait_until("the change", || {
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        open = File::options().write(true).custom_flags(flags).open(&answers).ok();
        open.is_some()
    });
    fs::remove_file(&answers).expect("a file");
    press_ctrl_c(&terminal);
    let status = format!("/proc/{}/status", running.id());
    wait_until("the signal", || {
        let text = fs::read_to_string(&status).expect("it lives");
        let pending = text.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
        let pending = pending.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        pending.is_some_and(|mask| mask & 1 << (Signal::INT.as_raw() - 1) != 0)
    });
    open.expect("open").write_all(b"*=*\n").expect("a reader");
    let finished = running.finish();
    assert_eq!(
        (finished.code, ran.exists()),
        (Some(128 + 2), false),
        "{}",
        finished.stderr
    );
    host.is_as_it_was();
}

#[test]
fn the_noise_is_measured_before_during_and_after_however_the_command_ends() {
    let (core, ready) = (last_core(), "ready");
    for (script, code, key) in [
        ("exit 0", 0, false),
        ("exit 3", 3, false),
        ("kill -9 $$", 137, false),
        ("trap 'exit 4' INT; : > ready; while :; do sleep 0.02; done", 4, true),
    ] {
        let host = Host::new();
        let (json, ready) = (host.path("result.json"), host.path(ready));
        let script = script.replace("ready", &ready.display().to_string());
        let words = format!("--json {}", json.display());
        let isolate = host.isolate_and_measure("20ms", &words, &["sh", "-c", &script]);
        let (terminal, command) = on_a_terminal(&isolate);
        let running = Background::start(command);
        if key {
            wait_until("the command", || ready.exists());
            press_ctrl_c(&terminal);
        }
        let finished = running.finish();
        assert_eq!(finished.code, Some(code), "{}", finished.stderr);
        let (_, end) = finished
            .stderr
            .split_once("changes are undone")
            .expect("undone before the last");
        for state in ["before", "isolated", "after"] {
            let begins = format!("{core}  {state} ");
            let is_row = |line: &str| line.trim_start().starts_with(&begins);
            assert!(end.lines().any(is_row), "{state}: {}", finished.stderr);
        }
        let result: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&json).expect("a file")).expect("JSON");
        for state in ["before", "isolated", "after"] {
            assert_eq!(result[state][0]["cpu"].as_u64(), Some(core as u64), "{result:#}");
        }
        assert_eq!(result["exit_code"].as_i64(), Some(i64::from(code)));
        host.is_as_it_was();
    }
}

#[test]
fn a_dry_run_measures_nothing_that_a_file_could_hold() {
    let host = Host::new();
    let finished = run_command(host.isolate("--dry-run --json out.json", &["true"]));
    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
    assert!(finished.stderr.contains("--dry-run"), "{}", finished.stderr);
}
