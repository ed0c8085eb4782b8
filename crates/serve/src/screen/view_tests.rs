//! Reactions of the view to keys and sizes at given times, and how the view ends; no terminal is taken.

use super::draw::Tab;
use super::*;
use std::sync::mpsc::channel;

fn view() -> View {
    let shared = Arc::new(Shared {
        wake: Wake::new().expect("a descriptor"),
        ended: AtomicBool::new(false),
        held: Held(Arc::new(Mutex::new(Some(Vec::new())))),
    });
    View::new(Board::default(), Look { colour: true }, shared)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_q_that_is_held_down_asks_for_one_end_and_one_after_a_pause_for_another() {
    let (mut view, begin) = (view(), Instant::now());
    let mut press = |at| view.typed(b"q", begin + ms(at)).1;
    assert!(press(0));
    // The first repeat comes later than the others.
    assert!((660..10_000).step_by(30).all(|at| !press(at)));
    assert!(press(12_000));
    // Twice in one read.
    assert_eq!(view.typed(b"qq", begin + ms(14_000)), (true, true));
}

#[test]
fn a_sequence_that_comes_in_two_reads_is_one_key() {
    let begin = Instant::now();
    for (first, rest) in [("\x1b[", "1~"), ("\x1b", "[1~"), ("\x1b[1", "~")] {
        let mut view = view();
        view.typed(b"3", begin);
        view.choice.scrolled = 7;
        view.typed(first.as_bytes(), begin);
        // A look for another reason than a key.
        assert_eq!(view.typed(b"", begin + ms(10)), (false, false));
        view.typed(rest.as_bytes(), begin + ms(20));
        // Home; a digit would have shown another tab.
        assert_eq!((view.choice.tab, view.choice.scrolled), (Tab::Lanes, 0), "{first:?}");
    }
}

#[test]
fn an_escape_is_a_key_once_nothing_has_followed_it_for_a_while() {
    let (mut view, begin) = (view(), Instant::now());
    view.typed(b"?", begin);
    view.typed(b"\x1b", begin + ms(100));
    assert_eq!((view.typed(b"", begin + ms(140)).0, view.choice.help), (false, true));
    assert_eq!((view.typed(b"", begin + ms(150)).0, view.choice.help), (true, false));
}

#[test]
fn a_size_is_believed_as_far_as_it_can_be_drawn() {
    assert_eq!(drawable((65_535, 65_535)), Some((1000, 500)));
    assert_eq!(drawable((100, 30)), Some((100, 30)));
    assert_eq!(drawable((0, 30)), None);
}

#[test]
fn the_end_wakes_a_thread_that_still_waits_for_the_run_to_begin() {
    let (begin, begun) = channel();
    let (returned, heard) = channel();
    let ready = move || {
        let begins = begun.recv().unwrap_or(false);
        let _ = returned.send(begins);
        begins
    };
    let screen = Screen::start(Board::default(), true, ready, {
        let begin = begin.clone();
        move || _ = begin.send(false)
    });
    assert!(screen.expect("a thread").finish(false).is_empty());
    assert_eq!(heard.try_recv(), Ok(false));
    drop(begin);
}
