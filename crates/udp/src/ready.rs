//! Which of many sockets have something to receive, without one empty system call for each.
//!
//! Edge-triggered epoll: the kernel names a socket when something arrives, we keep it in a list until a receive call
//! finds it empty. One system call asks for all sockets at once.

use mpps_sockets::raw::RawArray;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

const EVENTS: usize = 64;
/// Receive calls after which epoll is asked again though listed sockets still have data, so that no socket starves.
const ASK_EVERY: u32 = 16;

pub(crate) struct Ready {
    epoll: OwnedFd,
    events: RawArray<libc::epoll_event>,
    /// Sockets believed to have data; room for all, so that it never grows.
    list: VecDeque<u32>,
    listed: Box<[bool]>,
    since_asked: u32,
}

impl Ready {
    /// Watches `sockets`; they are named by their place in the slice from here on.
    pub(crate) fn new(sockets: &[RawFd]) -> io::Result<Self> {
        // SAFETY: epoll_create1 takes an integer; its result, when not negative, is a descriptor that nobody else owns.
        let epoll = unsafe {
            let fd = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        for (i, &fd) in sockets.iter().enumerate() {
            let mut event = libc::epoll_event {
                events: (libc::EPOLLIN | libc::EPOLLET) as u32,
                u64: i as u64,
            };
            // SAFETY: the kernel reads `event`, which outlives the call.
            if unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self {
            epoll,
            events: RawArray::new(EVENTS, libc::epoll_event { events: 0, u64: 0 }),
            list: VecDeque::with_capacity(sockets.len() + 1),
            listed: vec![false; sockets.len()].into_boxed_slice(),
            since_asked: 0,
        })
    }

    /// Asks the kernel, unless sockets are still listed and it was asked a short while ago. Call once a receive.
    pub(crate) fn ask(&mut self) {
        self.since_asked += 1;
        if !self.list.is_empty() && self.since_asked < ASK_EVERY {
            return;
        }
        self.since_asked = 0;
        // SAFETY: the kernel writes at most EVENTS events to the array, which has that many.
        let n = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), self.events.at(0), EVENTS as libc::c_int, 0) };
        for i in 0..usize::try_from(n).unwrap_or(0) {
            // SAFETY: the kernel has written the first `n` events; the struct is packed, hence the copy.
            let name = unsafe { self.events.at(i).read_unaligned() }.u64;
            self.push(name as u32);
        }
    }

    /// Takes the socket whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        let socket = self.list.pop_front()?;
        self.listed[socket as usize] = false;
        Some(socket)
    }

    /// Lists a socket that may have more.
    pub(crate) fn push(&mut self, socket: u32) {
        if let Some(listed @ false) = self.listed.get_mut(socket as usize) {
            *listed = true;
            self.list.push_back(socket);
        }
    }

    /// Whether a socket is listed: then there is no need to sleep.
    pub(crate) fn any(&self) -> bool {
        !self.list.is_empty()
    }

    /// Readable when any socket is.
    pub(crate) fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}
