//! One thread that serves all connections.
//!
//! It never waits for one of them: sockets don't block, each has a time by which something must have come or gone, and
//! what a connection may hold is bounded. A stream is given something new only when it has taken what it was given, so
//! a reader that is slow gets less, and one that takes nothing is let go.
//!
//! Streams stay for as long as the run, so there may be fewer of them than connections: what is left is for requests
//! that are answered and gone. One stream too many takes the place of another, and is not refused: a browser takes up
//! again a stream that has ended, but none that was refused.

use crate::page::Feed;
use crate::request::{HostName, LONGEST, Names, Parsed, Refusal, parse};
use crate::response;
use crate::site::{Answer, Site, answer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// What a connection may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections of a listener at a time.
    pub connections: usize,
    /// Streams among them.
    pub streams: usize,
    /// Time for the whole request.
    pub request: Duration,
    /// Time in which a client must have taken something of what is for it.
    pub write: Duration,
    /// Time for a whole answer that is no stream.
    pub answer: Duration,
}

/// What is used.
pub const LIMITS: Limits = Limits {
    connections: 16,
    streams: 12,
    request: Duration::from_secs(2),
    write: Duration::from_secs(2),
    answer: Duration::from_secs(10),
};

/// How often streams are given what is new.
const TICK: Duration = Duration::from_millis(250);
/// How long the rest of a request that was refused is read and forgotten, so that the answer arrives.
const DRAIN: Duration = Duration::from_millis(300);
/// Bytes of it.
const MOST_DRAINED: usize = 64 << 10;
/// How long the end waits for clients to take what is for them.
const LAST: Duration = Duration::from_secs(1);
/// Bytes of a client's that the kernel keeps for it.
const UNREAD: usize = 64 << 10;
/// How long nobody is let in where there was no room.
const FULL: Duration = Duration::from_millis(500);

/// A socket that listens, and what is there.
pub struct Listener {
    socket: TcpListener,
    site: Box<dyn Site>,
    allowed: Vec<HostName>,
}

impl Listener {
    /// What is at this socket, and by which names it may be asked for beside its own.
    ///
    /// # Errors
    /// When it can't be made one that does not block.
    pub fn new(socket: TcpListener, site: impl Site + 'static, allowed: Vec<HostName>) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            site: Box::new(site),
            allowed,
        })
    }
}

/// The thread, which serves until [`Server::finish`].
#[derive(Debug)]
pub struct Server {
    wake: UnixStream,
    ended: Receiver<()>,
}

impl Server {
    /// Starts the thread. It calls `ready` first and serves when that has returned; where that fails, never.
    ///
    /// # Errors
    /// When the thread can't be started.
    pub fn start(
        listeners: Vec<Listener>,
        limits: Limits,
        ready: impl FnOnce() -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let (wake, woken) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let (end, ended) = channel();
        let body = move || {
            if ready() {
                Serving {
                    listeners,
                    limits,
                    connections: Vec::new(),
                    woken,
                    full_until: None,
                    last: None,
                }
                .run();
            }
            drop(end);
        };
        mpps_sys::thread::spawn("mpps-serve", body)?;
        Ok(Self { wake, ended })
    }

    /// Ends it: streams are given what is left, for a second at the most.
    pub fn finish(self) {
        // The thread hears that the other end has gone.
        drop(self.wake);
        let _ = self.ended.recv_timeout(LAST + TICK);
    }
}

enum State {
    /// The request comes.
    Reading(Vec<u8>),
    /// The answer goes.
    Writing,
    /// A stream of events.
    Streaming(Box<Feed>),
    /// The answer has gone; what still comes is forgotten.
    Draining(usize),
    /// To be closed.
    Over,
}

struct Connection {
    socket: TcpStream,
    /// The number of its listener.
    listener: usize,
    state: State,
    /// What is to be written, and how much of it has been.
    out: Vec<u8>,
    at: usize,
    /// By when something must have come or gone.
    deadline: Instant,
    /// By when all must be over; `None`: never.
    last: Option<Instant>,
    /// When it last took something of what is for it.
    taken: Instant,
}

struct Serving {
    listeners: Vec<Listener>,
    limits: Limits,
    connections: Vec<Connection>,
    woken: UnixStream,
    /// Nobody is let in until then: there was no room, such as for a descriptor, and who waits would wake it at once.
    full_until: Option<Instant>,
    /// It is ending, by then.
    last: Option<Instant>,
}

/// Says that there is no room, where the client can still hear it.
fn turn_away(mut socket: &TcpStream) {
    let _ = socket.write(&response::busy());
    let _ = socket.shutdown(Shutdown::Write);
}

/// What became of a read or write.
fn done(result: io::Result<usize>) -> Option<io::Result<usize>> {
    match result {
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => None,
        other => Some(other),
    }
}

impl Serving {
    fn run(&mut self) {
        loop {
            let now = Instant::now();
            if self.last.is_some_and(|last| now >= last || self.connections.is_empty()) {
                return;
            }
            let ready = self.wait(now);
            let now = Instant::now();
            if ready[0] && self.last.is_none() && matches!((&self.woken).read(&mut [0; 8]), Ok(0)) {
                // Who has come by now is served.
                self.accept_all(now);
                self.last = Some(now + LAST);
            }
            for (listener, _) in ready[1..=self.listeners.len()]
                .iter()
                .enumerate()
                .filter(|(_, ready)| **ready)
            {
                self.accept(listener, now);
            }
            self.serve(now);
        }
    }

    /// Sleeps until something can be done; which of all descriptors are ready.
    fn wait(&self, now: Instant) -> Vec<bool> {
        let mut fds = vec![PollFd::new(&self.woken, PollFlags::IN)];
        // While it ends nobody new is served.
        let full_until = self.full_until.filter(|until| now < *until);
        let more = match self.last.or(full_until) {
            None => PollFlags::IN,
            Some(_) => PollFlags::empty(),
        };
        fds.extend(self.listeners.iter().map(|of| PollFd::new(&of.socket, more)));
        let mut until = self.last.into_iter().chain(full_until).min();
        for connection in &self.connections {
            let wants = match connection.state {
                _ if connection.at < connection.out.len() => PollFlags::OUT,
                _ => PollFlags::IN,
            };
            fds.push(PollFd::new(&connection.socket, wants));
            let tick = matches!(connection.state, State::Streaming(_)).then(|| now + TICK);
            let own = [Some(connection.deadline), connection.last, tick];
            until = own.into_iter().flatten().chain(until).min();
        }
        if self.last.is_some() {
            fds.remove(0);
        }
        let timeout = until.map(|until| until.saturating_duration_since(now).min(Duration::from_secs(3600)));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let asked = poll(&mut fds, timeout.as_ref());
        let mut ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if self.last.is_some() {
            ready.insert(0, false);
        }
        if asked.is_err() {
            ready.fill(false);
        }
        ready
    }

    fn accept_all(&mut self, now: Instant) {
        (0..self.listeners.len()).for_each(|listener| self.accept(listener, now));
    }

    /// Takes in who waits at a listener.
    fn accept(&mut self, listener: usize, now: Instant) {
        // A crowd does not keep those from being served who are in.
        for _ in 0..self.limits.connections {
            let socket = match self.listeners[listener].socket.accept() {
                Ok((socket, _)) => socket,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => continue,
                Err(_) => {
                    self.full_until = Some(now + FULL);
                    return;
                }
            };
            let in_use = self.connections.iter().filter(|of| of.listener == listener).count();
            if socket.set_nonblocking(true).is_err() {
                continue;
            }
            if in_use >= self.limits.connections && !self.makes_room(listener) {
                turn_away(&socket);
                continue;
            }
            // What a client may leave unread is held by us, and the kernel doubles this.
            let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, UNREAD);
            self.connections.push(Connection {
                socket,
                listener,
                state: State::Reading(Vec::new()),
                out: Vec::new(),
                at: 0,
                deadline: now + self.limits.request,
                last: None,
                taken: now,
            });
        }
    }

    /// Turns away who has been in longest without having said what it wants, or else who has been answered and stays:
    /// neither crowd keeps anybody out. False: all who are in are being answered.
    fn makes_room(&mut self, listener: usize) -> bool {
        let first = |is: fn(&State) -> bool| {
            let mut all = self.connections.iter();
            all.position(|of| of.listener == listener && is(&of.state))
        };
        let silent = first(|state| matches!(state, State::Reading(_)));
        let Some(at) = silent.or_else(|| first(|state| matches!(state, State::Draining(_)))) else {
            return false;
        };
        let gone = self.connections.remove(at);
        if silent.is_some() {
            turn_away(&gone.socket);
        }
        true
    }

    /// Ends a stream where the one that has just begun is one too many: that which has taken nothing for longest, of
    /// several the oldest. Streams that nobody reads give way in time to those that are read; a page whose stream ends
    /// comes back a second later, and goes on where it was.
    fn limit_streams(&mut self, newest: usize) {
        let listener = self.connections[newest].listener;
        let same = |of: &&mut Connection| of.listener == listener && of.is_stream();
        if self.connections.iter_mut().filter(same).count() <= self.limits.streams {
            return;
        }
        let others = self.connections.iter_mut().enumerate().filter(|(at, _)| *at != newest);
        // The first of several that are equal: connections are in the order in which they came.
        if let Some(stale) = others.map(|(_, of)| of).filter(same).min_by_key(|of| of.taken) {
            stale.state = State::Over;
        }
    }

    /// Goes on with each connection as far as that goes without waiting.
    fn serve(&mut self, now: Instant) {
        let ending = self.last.is_some();
        for at in 0..self.connections.len() {
            let connection = &mut self.connections[at];
            let listener = &self.listeners[connection.listener];
            let before = connection.is_stream();
            connection.go_on(listener, &self.limits, now, ending);
            if connection.is_stream() && !before {
                self.limit_streams(at);
            }
        }
        self.connections
            .retain(|connection| !matches!(connection.state, State::Over));
    }
}

impl Connection {
    fn is_stream(&self) -> bool {
        matches!(self.state, State::Streaming(_))
    }

    fn go_on(&mut self, listener: &Listener, limits: &Limits, now: Instant, ending: bool) {
        if matches!(self.state, State::Reading(_)) {
            self.read(listener, limits, now);
        }
        if let State::Streaming(feed) = &mut self.state {
            // Whoever reads a stream has nothing more to say: it has gone, or is up to something.
            if done(self.socket.read(&mut [0; 1])).is_some() {
                self.state = State::Over;
                return;
            }
            if self.at == self.out.len() {
                (self.at, self.deadline) = (0, now + limits.write);
                self.out.clear();
                let over = feed.put(&mut self.out);
                if over || (ending && self.out.is_empty()) {
                    self.state = State::Writing;
                    self.last = Some(now + limits.answer);
                }
            }
        }
        if matches!(self.state, State::Writing | State::Streaming(_)) {
            self.write(limits, now);
        }
        if let State::Draining(drained) = &mut self.state {
            let mut bytes = [0; 4096];
            match done(self.socket.read(&mut bytes)) {
                None => {}
                Some(Ok(n)) if n > 0 && *drained < MOST_DRAINED => *drained += n,
                Some(_) => self.state = State::Over,
            }
        }
        if now >= self.deadline || self.last.is_some_and(|last| now >= last) {
            match self.state {
                State::Reading(_) => {
                    self.answer(response::refused(&Refusal::TooSlow), limits, now);
                    self.write(limits, now);
                }
                _ => self.state = State::Over,
            }
        }
    }

    /// Reads on, up to the end of the request.
    fn read(&mut self, listener: &Listener, limits: &Limits, now: Instant) {
        let State::Reading(request) = &mut self.state else {
            return;
        };
        let before = request.len();
        let mut bytes = [0; LONGEST];
        let ended = match done(self.socket.read(&mut bytes[..LONGEST - before])) {
            None => return,
            Some(Ok(n)) => {
                request.extend_from_slice(&bytes[..n]);
                n == 0
            }
            Some(Err(_)) => {
                self.state = State::Over;
                return;
            }
        };
        // It is looked at when it may be whole, not byte by byte.
        let tail = &request[before.saturating_sub(3)..];
        let end = tail.windows(2).any(|two| two == b"\n\n") || tail.windows(3).any(|three| three == b"\n\r\n");
        if !end && !ended && request.len() < LONGEST {
            return;
        }
        let local = self
            .socket
            .local_addr()
            .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |at| at.ip());
        // An IPv4 client of an IPv6 socket came to an IPv4 address.
        let names = Names {
            local: local.to_canonical(),
            allowed: &listener.allowed,
        };
        match parse(request, names) {
            Parsed::Partial => self.state = State::Over,
            Parsed::Refused(refusal) => self.answer(response::refused(&refusal), limits, now),
            Parsed::Whole(request) => match answer(listener.site.as_ref(), &request) {
                Answer::Whole(bytes) => self.answer(bytes, limits, now),
                Answer::Stream(feed) => {
                    self.state = State::Streaming(feed);
                    self.out = response::stream();
                    self.deadline = now + limits.write;
                }
            },
        }
    }

    fn answer(&mut self, bytes: Vec<u8>, limits: &Limits, now: Instant) {
        (self.state, self.out, self.at) = (State::Writing, bytes, 0);
        self.deadline = now + limits.write;
        self.last = Some(now + limits.answer);
    }

    fn write(&mut self, limits: &Limits, now: Instant) {
        while self.at < self.out.len() {
            match done(self.socket.write(&self.out[self.at..])) {
                None => return,
                Some(Ok(n)) if n > 0 => {
                    self.at += n;
                    self.deadline = now + limits.write;
                    self.taken = now;
                }
                Some(_) => {
                    self.state = State::Over;
                    return;
                }
            }
        }
        if matches!(self.state, State::Writing) {
            let _ = self.socket.shutdown(Shutdown::Write);
            self.state = State::Draining(0);
            self.deadline = now + DRAIN;
        } else {
            // It has all that there is.
            self.deadline = now + Duration::from_secs(3600);
        }
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
