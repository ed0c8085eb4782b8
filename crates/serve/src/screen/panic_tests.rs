//! A panic, or a fault, while the view has the terminal: it is given back first, so that the words of it stay to be
//! read.

use super::*;
use crate::state::State;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use std::process::{Command, Stdio};

const WORDS: &str = "this is why";
const PATIENCE: Duration = Duration::from_secs(120);
const ASK_EVERY: Duration = Duration::from_millis(100);

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Has the view take the terminal, and waits for a line: the reader of the terminal knows whether a picture has come.
fn shown() -> Screen {
    mpps_sys::signal::catch_interrupts();
    let board = Board::default();
    board.publish(&State {
        phase: Phase::Running,
        elapsed_ns: 1,
        ..State::default()
    });
    let screen = Screen::start(board, true, || true, || ()).expect("a thread");
    until("the terminal", terminal::taken);
    std::io::stdin().read_line(&mut String::new()).expect("a line");
    screen
}

/// A program on the terminal, of a test below.
#[test]
#[ignore = "it takes the terminal, and panics: a test starts it on a terminal of its own"]
fn a_program_that_panics() {
    let _screen = shown();
    panic!("{WORDS}");
}

/// A program on the terminal, of the test of full stacks.
#[test]
#[ignore = "it takes the terminal, and fills its stack: a test starts it on a terminal of its own"]
fn a_program_that_fills_its_stack() {
    fn deeper(depth: u64) -> u64 {
        let here = std::hint::black_box([depth; 32]);
        match depth {
            u64::MAX => 0,
            _ => deeper(depth + 1).wrapping_add(here[0]),
        }
    }
    let _screen = shown();
    let full = std::thread::spawn(|| deeper(0));
    drop(full.join());
}

#[test]
fn a_panic_gives_the_terminal_back_before_it_tells_why() {
    given_back_before("a_program_that_panics", WORDS);
}

#[test]
fn a_full_stack_gives_the_terminal_back_before_it_tells_why() {
    // Rust's own words.
    given_back_before("a_program_that_fills_its_stack", "has overflowed its stack");
}

/// Checks that the terminal is restored before a program of these tests prints its last words there.
fn given_back_before(program: &str, words: &str) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("our own");
    let name = ptsname(&terminal, Vec::new()).expect("a name");
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -c 0; exec \"$@\" < \"$0\" 2> \"$0\""])
        .arg(name.to_str().expect("text"))
        .arg(std::env::current_exe().expect("this test"))
        .args(["--ignored", "--exact", "--nocapture", "--test-threads=1"])
        .arg(format!("screen::panic_tests::{program}"))
        .stdout(Stdio::null())
        .spawn()
        .expect("a shell");
    let (mut seen, mut asked) = (String::new(), None::<Instant>);
    let read = |seen: &mut String| {
        let mut polled = [PollFd::new(&terminal, PollFlags::IN)];
        let mut bytes = [0; 4096];
        if poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
            && let Ok(read) = rustix::io::read(&terminal, &mut bytes)
        {
            seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    };
    until("the end", || {
        read(&mut seen);
        let ended = child.try_wait().expect("a child").is_some();
        // The view reads the same terminal, and may have taken the line for a key.
        if !ended && seen.contains("Overview") && asked.is_none_or(|asked| asked.elapsed() > ASK_EVERY) {
            asked = Some(Instant::now());
            rustix::io::write(&terminal, b"\n").expect("a key");
        }
        ended
    });
    until("its words", || {
        read(&mut seen);
        seen.contains(words)
    });
    let at = |what: &str| seen.find(what).unwrap_or_else(|| panic!("no {what:?}: {seen:?}"));
    assert!(
        at("\x1b[?1049h") < at("\x1b[?1049l") && at("\x1b[?1049l") < at(words),
        "{seen:?}"
    );
    assert!(
        at("\x1b[?25l") < at("\x1b[?25h") && !seen[at(words)..].contains("\x1b[?1049h"),
        "{seen:?}"
    );
    let modes = tcgetattr(&terminal).expect("modes").local_modes;
    assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO), "{modes:?}");
}
