//! A panic while the view has the terminal: it is given back first, so that the panic's own words stay to be read.

use super::*;
use crate::state::State;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use std::process::{Command, Stdio};

const WORDS: &str = "this is why";
const PATIENCE: Duration = Duration::from_secs(120);

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The program on the terminal, of the test below.
#[test]
#[ignore = "it takes the terminal, and panics: a test starts it on a terminal of its own"]
fn a_program_that_panics() {
    let board = Board::default();
    board.publish(&State {
        phase: Phase::Running,
        elapsed_ns: 1,
        ..State::default()
    });
    let _screen = Screen::start(board, true, || true, || ()).expect("a thread");
    until("the terminal", terminal::taken);
    // Long enough for a picture; whether it has come is told by the terminal.
    std::io::stdin().read_line(&mut String::new()).expect("a line");
    panic!("{WORDS}");
}

#[test]
fn a_panic_gives_the_terminal_back_before_it_tells_why() {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("our own");
    let name = ptsname(&terminal, Vec::new()).expect("a name");
    let mut child = Command::new("sh")
        .args(["-c", "exec \"$@\" < \"$0\" 2> \"$0\""])
        .arg(name.to_str().expect("text"))
        .arg(std::env::current_exe().expect("this test"))
        .args(["--ignored", "--exact", "--nocapture", "--test-threads=1"])
        .arg("screen::panic_tests::a_program_that_panics")
        .stdout(Stdio::null())
        .spawn()
        .expect("a shell");
    let (mut seen, mut asked) = (String::new(), false);
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
        if !asked && seen.contains("Overview") {
            asked = true;
            rustix::io::write(&terminal, b"\n").expect("a key");
        }
        child.try_wait().expect("a child").is_some()
    });
    until("its words", || {
        read(&mut seen);
        seen.contains(WORDS)
    });
    let at = |what: &str| seen.find(what).unwrap_or_else(|| panic!("no {what:?}: {seen:?}"));
    assert!(
        at("\x1b[?1049h") < at("\x1b[?1049l") && at("\x1b[?1049l") < at(WORDS),
        "{seen:?}"
    );
    assert!(
        at("\x1b[?25l") < at("\x1b[?25h") && !seen[at(WORDS)..].contains("\x1b[?1049h"),
        "{seen:?}"
    );
    let modes = tcgetattr(&terminal).expect("modes").local_modes;
    assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO), "{modes:?}");
}
