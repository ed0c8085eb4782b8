//! Views of a run while it goes on: metrics, the live page, the full-screen view.
//!
//! Sockets are bound before anything else is opened, with the rights that the program was started with. The threads
//! that serve and write have none of them from their first step on, and serve nobody before the run has begun: by then
//! no thread has any that it needs no more.

use crate::cli::{Listen, RunArgs};
use crate::commands::elsewhere::way_in;
use crate::fail::unwritable;
use crate::fail::{Result, failed, printable, say, to_stderr, usage};
use mpps_netdev::{NetDev, owner};
use mpps_pages::document::Document;
use mpps_report::{Colour, LiveStyle, Notes, ReportError, whole_terminal};
use mpps_run::paths::Checked;
use mpps_run::privilege::{Clerk, caller};
use mpps_serve::{
    About, Board, Goal, HostName, LIMITS, Listener, MetricsSite, PageSite, PromFile, SMALLEST, Screen, Server,
};
use mpps_serve::{Token, TrialAbout, Watcher, WatcherSink, terminal_size};
use mpps_sys::privilege::Keep;
use mpps_sys::sched::{Heirs, Priority, keep_off, set_priority};
use mpps_sys::terminal;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io::{self, IsTerminal};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

/// Nice value of the threads: what they do can wait.
const NICE: i32 = 10;

/// Names the network namespace in which the addresses are: that of the user, where the command itself is in a lab.
pub(crate) const NAMESPACE: &str = "MPPS_SERVE_NAMESPACE";

/// A socket, and the names by which it may be asked for beside its own.
type Bound = Option<(TcpListener, Vec<HostName>)>;

/// Sockets that [`bind`] has bound, of `--metrics` and `--web`.
static BOUND: Mutex<[Bound; 2]> = Mutex::new([None, None]);

/// Binds what the run is to listen at.
///
/// # Errors
/// When that can't be done, or the address is one of an interface that is tested.
pub(crate) fn bind(args: &RunArgs, ports: &[&Checked]) -> Result<()> {
    let namespace = std::env::var_os(NAMESPACE);
    let mut sockets = [None, None];
    let serve = &args.tell.serve;
    // A file of options is for runs with and without.
    let typed = std::env::args_os().any(|word| word.as_encoded_bytes().starts_with(b"--allow-host"));
    if typed && serve.addresses().iter().all(|(_, listens)| listens.is_none()) {
        return Err(usage("--allow-host: nobody listens: want --metrics or --web as well"));
    }
    for (socket, (option, listens)) in sockets.iter_mut().zip(serve.addresses()) {
        let Some(Listen { at: address, hosts }) = listens else {
            continue;
        };
        let address = *address;
        let ip = address.ip().to_canonical();
        if ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) {
            return Err(usage(format!(
                "{option} {address}: this is no host's address: want one of this host, and a port"
            )));
        }
        if namespace.is_none() {
            check(option, address, ports)?;
        }
        let bound = listen(address, namespace.as_deref()).map_err(|e| {
            let told = e.to_string();
            let why = told.split(" (os error").next().unwrap_or_default();
            usage(format!(
                "{option} {address}: {why}: want an address of this host, and a port that is free"
            ))
        })?;
        if !ip.is_loopback() {
            say!("{option} {address}: whoever reaches this address can read what the run tells");
        }
        *socket = Some((bound, [hosts.as_slice(), &serve.allow_host].concat()));
    }
    *BOUND.lock().unwrap_or_else(PoisonError::into_inner) = sockets;
    Ok(())
}

/// Refuses an address of an interface under test: what is asked there would be part of what is measured.
fn check(option: &str, address: SocketAddr, ports: &[&Checked]) -> Result<()> {
    let ip = address.ip().to_canonical();
    if ip.is_loopback() {
        return Ok(());
    }
    for port in ports {
        let of_socket = || {
            let device = &port.spec.device;
            let ip = device.parse::<SocketAddr>().map(|at| at.ip());
            let ip = ip.or_else(|_| device.parse::<IpAddr>()).ok()?;
            owner(ip).filter(|_| !ip.is_loopback())
        };
        let Some(device) = port.interface().or_else(of_socket) else {
            continue;
        };
        let NetDev { name, addresses, .. } = &device;
        if addresses.iter().any(|(of, _)| *of == ip || ip.is_unspecified()) {
            return Err(usage(format!(
                "{option} {address}: this is an address of {name}, which is tested: want 127.0.0.1, or an address of \
                 another interface"
            )));
        }
    }
    Ok(())
}

fn listen(address: SocketAddr, namespace: Option<&OsStr>) -> io::Result<TcpListener> {
    let Some(namespace) = namespace else {
        return TcpListener::bind(address);
    };
    // A thread of its own goes there, and ends with it.
    mpps_sys::thread::apart(|| {
        let there = std::fs::File::open(namespace)?;
        move_into_link_name_space(there.as_fd(), Some(LinkNameSpaceType::Network))?;
        TcpListener::bind(address)
    })?
}

/// View of a run on the terminal while it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The full-screen view.
    Screen,
    /// Lines, or nothing.
    Live(LiveStyle),
}

impl Shown {
    /// Chooses the view from the options and the terminal. `rows`: the rows go to standard output.
    pub(crate) fn of(args: &RunArgs, rows: bool) -> Self {
        if args.tell.quiet {
            return Self::Live(LiveStyle::Quiet);
        }
        if !args.tell.plain && !whole_terminal() {
            return Self::Live(LiveStyle::Auto);
        }
        // A terminal that does not know its size has no room to draw in.
        let small = terminal_size().is_none_or(|size| size.0 < SMALLEST.0 || size.1 < SMALLEST.1);
        if args.tell.plain || small || rows && io::stdout().is_terminal() {
            return Self::Live(LiveStyle::Plain);
        }
        Self::Screen
    }

    /// Style of the live view beside the full-screen one.
    pub(crate) fn style(self) -> LiveStyle {
        match self {
            Self::Screen => LiveStyle::Quiet,
            Self::Live(style) => style,
        }
    }
}

/// Servers, files and the screen that show a run while it goes on.
pub(crate) struct Serving {
    watcher: Watcher,
    server: Option<Server>,
    prom: Option<PromFile>,
    screen: RefCell<Option<Screen>>,
    /// Lines that the terminal did not take when the screen was given back.
    untold: RefCell<Vec<String>>,
    /// Notes are those of one run.
    single: bool,
}

impl Serving {
    /// Starts what the options ask for; `None` if they ask for nothing. `test`: name of the method, for a method.
    pub(crate) fn start(
        args: &RunArgs,
        test: Option<&str>,
        clerk: Option<&Clerk>,
        shown: Shown,
    ) -> Result<Option<Self>> {
        let bound = std::mem::take(&mut *BOUND.lock().unwrap_or_else(PoisonError::into_inner));
        let prom = args.tell.serve.prom.clone();
        if bound.iter().all(Option::is_none) && prom.is_none() && shown != Shown::Screen {
            return Ok(None);
        }
        let board = Board::default();
        let watcher = Watcher::new(about(args, test), board.clone());
        let cores = args
            .run
            .plan
            .lanes
            .cores
            .as_ref()
            .map_or_else(Vec::new, |cores| cores.0.clone());
        let prom = match (prom, clerk) {
            (Some(path), Some(clerk)) => {
                let (board, cores) = (board.clone(), cores.clone());
                let made = clerk.does(move || PromFile::create(&path, board, move || stand_back(&cores)))?;
                Some(made.map_err(|e| unwritable("--prom", &e))?)
            }
            _ => None,
        };
        let server = serve(bound, &watcher, board.clone(), cores.clone())?;
        let screen = match shown {
            Shown::Screen => Some(view(&watcher, board, cores)?),
            Shown::Live(_) => None,
        };
        Ok(Some(Self {
            watcher,
            server,
            prom,
            screen: RefCell::new(screen),
            untold: RefCell::default(),
            single: test.is_none(),
        }))
    }

    /// Gives the terminal back, and prints the messages that came meanwhile there, before anything else is printed.
    pub(crate) fn leave_screen(&self) {
        let Some(screen) = self.screen.borrow_mut().take() else {
            return;
        };
        // The next output would wait for the terminal, too.
        let patient = io::stdout().is_terminal();
        let mut lines = screen.finish(patient);
        if self.single {
            let notes = self.watcher.notes();
            lines.extend(notes.iter().map(|note| format!("note: {}", printable(note))));
        }
        *self.untold.borrow_mut() = lines;
        self.tell(patient);
    }

    /// Prints the lines that the terminal has not taken yet. One that takes nothing (Ctrl-S) is waited for only if
    /// `patient`: the files of the run are not written yet.
    fn tell(&self, patient: bool) {
        let mut lines = self.untold.borrow_mut();
        let taken = lines.iter().take_while(|_| patient || terminal::takes());
        let taken = taken.map(|line| to_stderr(line)).count();
        lines.drain(..taken);
    }

    /// A reader of one trial's events.
    pub(crate) fn sink(&self) -> WatcherSink {
        self.watcher.sink()
    }

    /// Errors of the `--prom` file.
    pub(crate) fn notes(&self) -> Option<Notes> {
        self.prom.as_ref().map(PromFile::notes)
    }

    /// A method begins a trial.
    pub(crate) fn trial(&self, about: TrialAbout) {
        self.watcher.trial(about);
    }

    /// Publishes the state of a search so far.
    pub(crate) fn search(&self, goals: Vec<Goal>) {
        self.watcher.search(goals);
    }

    /// Returns a function that shows the user a line on every view. It returns true if the line needs no print of its
    /// own: the full-screen view shows it, and leaves it on the screen afterwards.
    pub(crate) fn teller(&self) -> impl Fn(&str) -> bool + Send + Sync + 'static {
        let watcher = self.watcher.clone();
        let held = self.screen.borrow().as_ref().map(Screen::held);
        move |line| {
            watcher.note(line);
            held.as_ref()
                .is_some_and(|held| held.hold(&printable(&format!("mpps: {line}"))))
        }
    }

    /// A method is over.
    pub(crate) fn done(&self, document: &Document) {
        self.watcher.done(document);
    }

    /// Ends serving: the file is written for the last time, and readers of the page get the result, for a second at
    /// most. Returns the error of the file that could not be written.
    pub(crate) fn finish(mut self) -> Option<ReportError> {
        self.leave_screen();
        let unwritten = self.prom.take().and_then(|prom| prom.finish().err());
        if let Some(server) = self.server.take() {
            server.finish();
        }
        // All files are written. A terminal that takes nothing even now does not hold up the end.
        terminal::leave();
        self.tell(false);
        unwritten
    }
}

/// Starts the thread that serves, and says where.
fn serve(bound: [Bound; 2], watcher: &Watcher, board: Board, cores: Vec<usize>) -> Result<Option<Server>> {
    if bound.iter().all(Option::is_none) {
        return Ok(None);
    }
    let unstarted = |e: io::Error| failed(format!("start the thread that serves: {e}"));
    let [metrics, web] = bound;
    let (mut listeners, mut told) = (Vec::new(), None);
    if let Some((socket, hosts)) = metrics {
        let url = url(&socket).map_err(unstarted)?;
        say!("metrics: {url}metrics");
        told.get_or_insert(format!("{url}metrics"));
        listeners.push(Listener::new(socket, MetricsSite::new(board.clone()), hosts).map_err(unstarted)?);
    }
    if let Some((socket, hosts)) = web {
        let token = Token::new().map_err(unstarted)?;
        let path = token.path();
        let url = format!("{}{}", url(&socket).map_err(unstarted)?, path.trim_start_matches('/'));
        say!("live page: {url}");
        told.get_or_insert(url);
        listeners.push(Listener::new(socket, PageSite::new(board, token), hosts).map_err(unstarted)?);
    }
    // In a command with a lab of its own, the addresses are the user's.
    let elsewhere = || std::env::var_os(NAMESPACE).is_none().then(way_in).flatten();
    if let Some((url, (namespace, way))) = told.and_then(|url| Some((url, elsewhere()?))) {
        say!("this is inside {namespace}; from outside: {way} curl {url}");
    }
    let (ready, heard, _) = once_begun(watcher, cores);
    let server = Server::start(listeners, LIMITS, ready).map_err(unstarted)?;
    heard.recv().map_err(failed)?.map_err(unstarted)?;
    Ok(Some(server))
}

/// Starts the thread that draws the full-screen view.
fn view(watcher: &Watcher, board: Board, cores: Vec<usize>) -> Result<Screen> {
    let unstarted = |e: io::Error| failed(format!("start the thread that draws: {e}"));
    let colour = Colour::for_stream(&io::stderr()) == Colour::Always;
    let (ready, heard, begin) = once_begun(watcher, cores);
    let never = move || _ = begin.send(false);
    let screen = Screen::start(board, colour, ready, never).map_err(unstarted)?;
    heard.recv().map_err(failed)?.map_err(unstarted)?;
    Ok(screen)
}

/// Returns the first step of a thread beside the run: it gives up every privilege, reports that, and waits for the run
/// to begin. The step returns false if the thread may not go on. The sender ends the wait earlier: with false, so that
/// the thread ends.
fn once_begun(
    watcher: &Watcher,
    cores: Vec<usize>,
) -> (
    impl FnOnce() -> bool + Send + 'static,
    Receiver<io::Result<()>>,
    Sender<bool>,
) {
    let (begin, begun) = channel();
    let begins = begin.clone();
    watcher.when_begun(move || {
        let _ = begins.send(true);
    });
    let (said, heard) = channel();
    let ready = move || {
        stand_back(&cores);
        let keep = Keep {
            user: caller().cloned(),
            ..Keep::NOTHING
        };
        let bare = keep.apply();
        let may = bare.is_ok();
        let _ = said.send(bare);
        may && begun.recv().unwrap_or(false)
    };
    (ready, heard, begin)
}

/// Keeps the calling thread out of the lanes' way, for good.
fn stand_back(cores: &[usize]) {
    std::mem::forget(keep_off(cores));
    // If this fails it is not needed either: the lanes are no nicer.
    let _ = set_priority(Priority::Nice(NICE), Heirs::Same);
}

fn url(socket: &TcpListener) -> io::Result<String> {
    let mut at = socket.local_addr()?;
    match at.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => at.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => at.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    Ok(format!("http://{at}/"))
}

fn about(args: &RunArgs, test: Option<&str>) -> About {
    let plan = args.run.recorded().json();
    let ports = plan["ports"].as_array().cloned().unwrap_or_default();
    let ports: Vec<(&str, &str)> = ports
        .iter()
        .filter_map(|port| port.as_str()?.split_once(':'))
        .map(|(path, rest)| {
            // Options may stand alone: loop:loss=1%.
            let device = rest.split(',').next().filter(|word| !word.contains('='));
            (path, device.unwrap_or_default())
        })
        .collect();
    let mut paths: Vec<&str> = ports.iter().map(|(path, _)| *path).collect();
    paths.dedup();
    let devices: Vec<&str> = ports.iter().map(|(_, device)| *device).collect();
    // The page, the screen and the metrics show them as they are.
    let shown = |text: &str| mpps_sys::text::plain(text, '\u{fffd}');
    About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        workload: test.or(plan["workload"].as_str()).unwrap_or_default().to_owned(),
        path: paths.join(","),
        device: shown(&devices.join(",")),
        command: crate::cli::recorded_command().iter().map(|word| shown(word)).collect(),
        single: test.is_none(),
    }
}
