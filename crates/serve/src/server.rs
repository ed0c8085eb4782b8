//! One thread that serves all connections.
//!
//! The thread never waits for a connection: sockets don't block, each has a deadline for the next byte in or out, and
//! the memory of a connection is bounded. A stream gets new data only when it has taken the data before. So a slow
//! reader gets less, and a reader that takes nothing is closed.
//!
//! Streams stay for as long as the run, so there may be fewer streams than connections: the rest is for requests that
//! are answered and gone. One stream too many replaces another, and is not refused: a browser reopens a stream that has
//! ended, but not one that was refused.

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

/// Limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most connections of a listener at a time.
    pub connections: usize,
    /// Most streams among them.
    pub streams: usize,
    /// Time for the whole request.
    pub request: Duration,
    /// Time in which a client must have taken some of its data.
    pub write: Duration,
    /// Time for a whole answer that is not a stream.
    pub answer: Duration,
}

/// Limits in use.
pub const LIMITS: Limits = Limits {
    connections: 16,
    streams: 12,
    request: Duration::from_secs(2),
    write: Duration::from_secs(2),
    answer: Duration::from_secs(10),
};

/// Interval at which streams get new data.
const TICK: Duration = Duration::from_millis(250);
/// Time for which the rest of a refused request is read and dropped, so that the answer arrives.
const DRAIN: Duration = Duration::from_millis(300);
/// Most bytes of that rest.
const MOST_DRAINED: usize = 64 << 10;
/// Longest wait at the end for clients to take their data.
const LAST: Duration = Duration::from_secs(1);
/// Bytes that the kernel keeps for a client that does not read.
const UNREAD: usize = 64 << 10;
/// Time without new connections after there was no room for one.
const FULL: Duration = Duration::from_millis(500);

/// A listening socket, and its site.
pub struct Listener {
    socket: TcpListener,
    site: Box<dyn Site>,
    allowed: Vec<HostName>,
}

impl Listener {
    /// Returns a listener for this socket with its site, and the names that it accepts besides its own.
    ///
    /// # Errors
    /// When the socket can't be made non-blocking.
    pub fn new(socket: TcpListener, site: impl Site + 'static, allowed: Vec<HostName>) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            site: Box::new(site),
            allowed,
        })
    }
}

/// Handle of the thread, which serves until [`Server::finish`].
#[derive(Debug)]
pub struct Server {
    wake: UnixStream,
    ended: Receiver<()>,
}

impl Server {
    /// Starts the thread. It calls `ready` first and serves when that has returned; if that fails, it never serves.
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

    /// Ends the thread. Streams get their remaining data, for a second at most.
    pub fn finish(self) {
        // The thread notices that the other end is closed.
        drop(self.wake);
        let _ = self.ended.recv_timeout(LAST + TICK);
    }
}

enum State {
    /// The request is being read.
    Reading(Vec<u8>),
    /// The answer is being written.
    Writing,
    /// The connection is a stream of events.
    Streaming(Box<Feed>),
    /// The answer was sent; further bytes of the client are dropped.
    Draining(usize),
    /// To be closed.
    Over,
}

struct Connection {
    socket: TcpStream,
    /// Index of its listener.
    listener: usize,
    state: State,
    /// Bytes to write, and (`at`) the number already written.
    out: Vec<u8>,
    at: usize,
    /// Deadline for the next byte in or out.
    deadline: Instant,
    /// Deadline for the whole connection; `None`: none.
    last: Option<Instant>,
    /// Time when the client last took some of its data.
    taken: Instant,
}

struct Serving {
    listeners: Vec<Listener>,
    limits: Limits,
    connections: Vec<Connection>,
    woken: UnixStream,
    /// Time until which no connection is accepted, because there was no room, such as for a descriptor. Waiting
    /// connections would otherwise wake the thread at once.
    full_until: Option<Instant>,
    /// Deadline for the end, once the server is ending.
    last: Option<Instant>,
}

/// Answers that there is no room, if the client can still receive that.
fn turn_away(mut socket: &TcpStream) {
    let _ = socket.write(&response::busy());
    let _ = socket.shutdown(Shutdown::Write);
}

/// Returns the result of a read or write; `None` if it has to be tried again.
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
                // Connections that have arrived by now are still served.
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

    /// Sleeps until something can be done. Returns which of all descriptors are ready.
    fn wait(&self, now: Instant) -> Vec<bool> {
        let mut fds = vec![PollFd::new(&self.woken, PollFlags::IN)];
        // While the server ends, no new connections are served.
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

    /// Accepts waiting connections of a listener.
    fn accept(&mut self, listener: usize, now: Instant) {
        // A crowd of new connections must not keep accepted ones from being served.
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
            // The kernel keeps what a client leaves unread, and doubles this number.
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

    /// Closes the connection that has been open longest without a complete request, or else one that was answered and
    /// stays open: neither crowd keeps others out. Returns false if all connections are being answered.
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

    /// Ends a stream if the one that has just begun is one too many. The one that has taken nothing for longest is
    /// ended, and of several equal ones the oldest. So unread streams give way in time to streams that are read. A page
    /// whose stream ends comes back a second later, and goes on where it was.
    fn limit_streams(&mut self, newest: usize) {
        let listener = self.connections[newest].listener;
        let same = |of: &&mut Connection| of.listener == listener && of.is_stream();
        if self.connections.iter_mut().filter(same).count() <= self.limits.streams {
            return;
        }
        let others = self.connections.iter_mut().enumerate().filter(|(at, _)| *at != newest);
        // Of equal ones the first is taken: connections are in the order of arrival.
        if let Some(stale) = others.map(|(_, of)| of).filter(same).min_by_key(|of| of.taken) {
            stale.state = State::Over;
        }
    }

    /// Advances each connection as far as possible without waiting.
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
            // A reader of a stream sends nothing more: any input means that it has gone, or misbehaves.
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
        // Parsed only when it may be complete, not for each byte.
        let tail = &request[before.saturating_sub(3)..];
        let end = tail.windows(2).any(|two| two == b"\n\n") || tail.windows(3).any(|three| three == b"\n\r\n");
        if !end && !ended && request.len() < LONGEST {
            return;
        }
        let local = self
            .socket
            .local_addr()
            .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |at| at.ip());
        // An IPv4 client of an IPv6 socket connects to an IPv4 address.
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
            // The client has everything.
            self.deadline = now + Duration::from_secs(3600);
        }
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
