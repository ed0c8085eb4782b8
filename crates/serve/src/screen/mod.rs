//! The full-screen view of a run, on the terminal of standard input and standard error.
//!
//! A thread of its own draws it, from the newest state published on the [`Board`]: the collector never waits for the
//! thread, and the thread never waits for a lane. A terminal that takes nothing (Ctrl-S, a slow line) costs pictures,
//! not time: the rest of one frame is kept, and the next frame shows the newest state.
//!
//! Keys come one by one and without echo. Ctrl-C, Ctrl-Z and Ctrl-\ stay signals, so they work as without a view.
//! [`mpps_sys::terminal`] restores the terminal before the program stops or ends, by whatever key or signal.

mod draw;
mod frame;
mod keys;
mod lanes;
mod latency;
mod look;
mod notes;
mod overview;
#[cfg(test)]
mod panic_tests;
mod streams;
mod table;
#[cfg(test)]
mod tests;
mod time;
mod tty;
#[cfg(test)]
mod view_tests;

use crate::board::Board;
use crate::history::History;
use crate::state::{Phase, State};
use draw::{Asked, Choice};
use keys::Keys;
use look::Look;
use mpps_sys::evidence::continued;
use mpps_sys::signal::interrupt;
use mpps_sys::terminal;
use mpps_sys::text::spoken;
use mpps_sys::wake::Wake;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tty::Tty;

/// Interval at which the thread looks for news: a new state, another size, the program continued.
const TICK: Duration = Duration::from_millis(100);
/// Time in which a held key requests only one end, not three: the third request is the end without results.
const ONCE: Duration = Duration::from_secs(1);
/// Time without a byte after which an escape is the key Escape: a slow line may cut a sequence in two.
const PAUSE: Duration = Duration::from_millis(50);
/// Time after Ctrl-Z after which a program that still runs was not stopped, and takes the terminal again. The signal's
/// handler needs up to 0.1 s if the terminal takes nothing.
const NOT_STOPPED: Duration = Duration::from_millis(500);

/// Fewest columns and rows with which the view begins.
pub const SMALLEST: (u16, u16) = (30, 8);

/// Most columns and rows that are drawn. A terminal may report 65535 of each, which would be 4 billion cells.
const LARGEST: (u16, u16) = (1000, 500);

/// Returns columns and rows of the terminal on standard error, if it reports them.
pub fn terminal_size() -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok()?;
    drawable((size.ws_col, size.ws_row))
}

/// Returns the size to draw for a terminal that reports this one; `None` if it does not know its own.
fn drawable((columns, rows): (u16, u16)) -> Option<(u16, u16)> {
    (columns > 0 && rows > 0).then(|| (columns.min(LARGEST.0), rows.min(LARGEST.1)))
}

struct Shared {
    wake: Wake,
    ended: AtomicBool,
    held: Held,
}

/// Lines that are printed once the terminal is restored; clones share them.
#[derive(Clone)]
pub struct Held(Arc<Mutex<Option<Vec<String>>>>);

impl Held {
    /// Keeps a line; returns false if the terminal is already restored.
    pub fn hold(&self, line: &str) -> bool {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter_mut().for_each(|lines| lines.push(line.to_owned()));
        held.is_some()
    }

    /// Returns the kept lines, once.
    fn take(&self) -> Vec<String> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        held.unwrap_or_default()
    }
}

/// The view; the terminal is restored when it ends, however that happens.
pub struct Screen {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Ends the thread's call of `ready`.
    unready: Option<Box<dyn FnOnce() + Send>>,
}

impl Screen {
    /// Starts the thread that draws the state on the board. The thread takes the terminal once a trial has begun and
    /// something was measured. It calls `ready` first, which may forbid it to continue. The end of the view calls
    /// `unready`, which makes a `ready` that still waits return false. `colour`: false for `NO_COLOR`.
    ///
    /// # Errors
    /// When the thread can't be started, or no descriptor is left.
    pub fn start(
        board: Board,
        colour: bool,
        ready: impl FnOnce() -> bool + Send + 'static,
        unready: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            wake: Wake::new()?,
            ended: AtomicBool::new(false),
            held: Held(Arc::new(Mutex::new(Some(Vec::new())))),
        });
        // A panic reports its reason on the normal screen, not on the view's.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            terminal::close();
            before(panic);
        }));
        let of_thread = Arc::clone(&shared);
        let body = move || {
            terminal::deaf();
            if ready() {
                View::new(board, Look { colour }, of_thread).run();
            }
        };
        let thread = mpps_sys::thread::spawn("mpps-screen", body)?;
        Ok(Self {
            shared,
            thread: Some(thread),
            unready: Some(Box::new(unready)),
        })
    }

    /// Returns the place where lines are kept until the end of the view.
    pub fn held(&self) -> Held {
        self.shared.held.clone()
    }

    /// Ends the view, and restores the terminal. A terminal that takes nothing is waited for only if later output would
    /// wait for it as well (`patient`). Returns the kept lines.
    pub fn finish(mut self, patient: bool) -> Vec<String> {
        self.end(patient);
        self.shared.held.take()
    }

    fn end(&mut self, patient: bool) {
        let Some(thread) = self.thread.take() else { return };
        self.shared.ended.store(true, Ordering::Release);
        self.shared.wake.wake();
        if let Some(unready) = self.unready.take() {
            unready();
        }
        let begun = Instant::now();
        while !thread.is_finished() && begun.elapsed() < ONCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        if thread.is_finished() {
            let _ = thread.join();
        }
        terminal::close();
        while patient && !terminal::leave() {}
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.end(false);
        // An error is being reported, and must not wait for a terminal that takes nothing.
        let lines = self.shared.held.take();
        let taken = lines.iter().take_while(|_| terminal::takes());
        // A closed reader is no reason to panic.
        taken.for_each(|line| drop(writeln!(io::stderr(), "{}", spoken(line))));
    }
}

/// State of the view's thread.
struct View {
    board: Board,
    look: Look,
    shared: Arc<Shared>,
    tty: Tty,
    keys: Keys,
    choice: Choice,
    history: History,
    last_row: Option<u64>,
    /// Picture on the screen; `None` if the contents are not known.
    shown: Option<Buffer>,
    /// Version of the board in that picture.
    version: u64,
    continued: usize,
    /// Time when the terminal was first seen to be taken away.
    away: Option<Instant>,
    /// Time when a byte was last read.
    read_at: Option<Instant>,
    /// Time when the end was last requested.
    ended_at: Option<Instant>,
}

impl View {
    fn new(board: Board, look: Look, shared: Arc<Shared>) -> Self {
        Self {
            board,
            look,
            shared,
            tty: Tty::open(),
            keys: Keys::default(),
            choice: Choice::default(),
            history: History::default(),
            last_row: None,
            shown: None,
            version: 0,
            continued: continued(),
            away: None,
            read_at: None,
            ended_at: None,
        }
    }

    fn run(mut self) {
        let mut entered = false;
        loop {
            let there = self.tty.wait(&self.shared.wake, TICK, terminal::taken());
            if !there || self.shared.ended.load(Ordering::Acquire) {
                break;
            }
            let state = self.board.newest();
            if !entered && !begun(&state) {
                continue;
            }
            match self.holds(entered) {
                Ok(true) => entered = true,
                Ok(false) => {
                    // The rest of a frame is for a screen that is gone. Waiting for room for it would not sleep.
                    self.tty.forget();
                    continue;
                }
                // The terminal is gone.
                Err(_) => break,
            }
            let pressed = self.press();
            let size = terminal_size().unwrap_or((80, 24));
            let shown = self.shown.as_ref();
            let other = shown.is_none_or(|shown| (shown.area().width, shown.area().height) != size);
            // One picture at a time: the rest of the last one comes first.
            if self.tty.flush().is_ok() && (pressed || other || self.board.version() != self.version) {
                self.show(&state, size);
            }
        }
        terminal::leave();
    }

    /// Returns whether the screen belongs to this program; takes the screen if possible.
    fn holds(&mut self, entered: bool) -> io::Result<bool> {
        let continued = continued();
        let went_on = std::mem::replace(&mut self.continued, continued) != continued;
        if !self.tty.ours() {
            // The shell has the terminal, with modes of its own.
            if terminal::taken() {
                terminal::leave();
            }
            (self.shown, self.away) = (None, None);
            return Ok(false);
        }
        if terminal::taken() && !went_on {
            return Ok(true);
        }
        // Ctrl-Z has taken the terminal away, and the program is about to stop. Without a shell that could continue it,
        // it does not stop.
        if entered && !went_on && !terminal::taken() {
            if self.away.get_or_insert_with(Instant::now).elapsed() < NOT_STOPPED {
                return Ok(false);
            }
            terminal::not_stopped();
        }
        (self.shown, self.away) = (None, None);
        terminal::leave();
        if !terminal::take()? {
            return Ok(false);
        }
        self.tty.restart(frame::ENTER);
        Ok(true)
    }

    /// Reads the typed keys. Returns whether there was one.
    fn press(&mut self) -> bool {
        let bytes = self.tty.read().unwrap_or_default();
        let (any, end) = self.typed(&bytes, Instant::now());
        if end {
            // The same as Ctrl-C.
            interrupt();
        }
        any
    }

    /// Processes bytes that were just read. Returns whether there was a key, and whether the run should end.
    fn typed(&mut self, bytes: &[u8], now: Instant) -> (bool, bool) {
        let mut keys = self.keys.read(bytes);
        if !bytes.is_empty() {
            self.read_at = Some(now);
        } else if self.read_at.is_some_and(|at| now.duration_since(at) >= PAUSE) {
            keys.extend(self.keys.pause());
        }
        let mut end = false;
        for key in &keys {
            if self.choice.press(*key) == Asked::End {
                // A held key repeats: only a key after a pause is a new request.
                let before = self.ended_at.replace(now);
                end |= before.is_none_or(|at| now.duration_since(at) >= ONCE);
            }
        }
        (!keys.is_empty(), end)
    }

    fn show(&mut self, state: &State, (width, height): (u16, u16)) {
        self.version = self.board.version();
        for point in self.board.points_after(self.last_row) {
            self.last_row = Some(point.last);
            self.history.push(point);
        }
        let mut next = Buffer::empty(Rect::new(0, 0, width, height));
        draw::draw(&mut next, state, self.history.points(), &mut self.choice, self.look);
        self.tty.put(&frame::frame(self.shown.as_ref(), &next));
        self.shown = Some(next);
        let _ = self.tty.flush();
    }
}

/// Returns whether there is something to show. Before that, the first lines of a run go to the normal screen.
fn begun(state: &State) -> bool {
    match state.phase {
        Phase::Waiting => false,
        Phase::Running | Phase::Settling => state.elapsed_ns > 0 || state.trial > 1,
        Phase::Between => true,
        Phase::Ended => false,
    }
}
