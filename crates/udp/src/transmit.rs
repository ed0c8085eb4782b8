//! Transmitting: `sendmmsg`, with runs of equal datagrams packed into segmented packets (`UDP_SEGMENT`).

use mpps_io::{Error, MAX_BURST};
use mpps_sockets::SocketFrame;
use mpps_sockets::counters::LaneCounters;
use mpps_sockets::failure::{Unsent, send_error, unsent};
use mpps_sockets::message::{self, COPY_UP_TO, Gso, LINE, Place, SocketTtl};
use mpps_sockets::raw::{Control, EMPTY_CONTROL, EMPTY_MESSAGE, EMPTY_VECTOR, RawArray};
use std::io;
use std::os::fd::RawFd;

/// How often a send is tried again at once after a pending ICMP error.
const RETRIES: u32 = 4;

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// All was sent.
    Done,
    /// The socket buffer is full: wait until the socket is writable.
    Full,
    /// A queue below the socket is full: wait a little.
    Busy,
}

/// One lane's transmitting half.
pub(crate) struct Transmitter {
    headers: RawArray<libc::mmsghdr>,
    vectors: RawArray<libc::iovec>,
    control: RawArray<Control>,
    /// Frames in each message.
    frames: Box<[u16]>,
    gso: Option<Gso>,
    /// Memory in which small datagrams are put side by side; room for a whole burst of them. Empty without
    /// segmentation.
    staging: RawArray<[u8; LINE]>,
    listening: bool,
    ttl: SocketTtl,
}

impl Transmitter {
    pub(crate) fn new(gso: Option<Gso>, listening: bool) -> Self {
        let lines = if gso.is_some() {
            MAX_BURST * COPY_UP_TO / LINE
        } else {
            0
        };
        Self {
            headers: RawArray::new(MAX_BURST, EMPTY_MESSAGE),
            vectors: RawArray::new(MAX_BURST, EMPTY_VECTOR),
            control: RawArray::new(MAX_BURST, EMPTY_CONTROL),
            frames: vec![0; MAX_BURST].into_boxed_slice(),
            gso,
            staging: RawArray::new(lines, [0; LINE]),
            listening,
            ttl: SocketTtl::default(),
        }
    }

    /// Sends `frames` (one flow's, when connected; at most [`MAX_BURST`]) on `fd`. Returns how many were taken, and
    /// why no more.
    pub(crate) fn send(
        &mut self,
        fd: RawFd,
        frames: &[SocketFrame<'_>],
        counters: &LaneCounters,
    ) -> (usize, Result<Stop, Error>) {
        let frames = &frames[..frames.len().min(MAX_BURST)];
        if self.listening {
            self.ttl.follow(fd, frames);
        }
        let messages = self.build(frames);
        let (mut sent, mut taken, mut retries) = (0, 0, 0);
        while sent < messages {
            let left = (messages - sent) as u32;
            // SAFETY: the headers from `sent` on were built above from `frames`, whose buffers and meta data live
            // until this function returns; the kernel only reads them, and writes `msg_len`.
            let n = unsafe { libc::sendmmsg(fd, self.headers.at(sent), left, libc::MSG_DONTWAIT as _) };
            if let Ok(n) = usize::try_from(n) {
                taken += self.frames[sent..sent + n]
                    .iter()
                    .map(|&f| usize::from(f))
                    .sum::<usize>();
                sent += n;
                continue;
            }
            let error = io::Error::last_os_error();
            let head = usize::from(self.frames[sent]);
            // The error concerns the first message that was not sent.
            match unsent(&error, self.listening, head as u64, counters) {
                Unsent::Again => {}
                Unsent::Pending | Unsent::Route if retries < RETRIES => retries += 1,
                Unsent::Refused => {
                    counters.tx_failed.add(head as u64);
                    taken += head;
                    sent += 1;
                }
                full @ (Unsent::Full | Unsent::Busy | Unsent::Pending) => {
                    counters.tx_again.add(1);
                    let stop = if full == Unsent::Full { Stop::Full } else { Stop::Busy };
                    return (taken, Ok(stop));
                }
                Unsent::Route | Unsent::Fatal => {
                    let len = frames.get(taken).map_or(0, SocketFrame::len);
                    return (taken, Err(send_error(&error, len)));
                }
            }
        }
        (taken, Ok(Stop::Done))
    }

    /// Builds the messages; returns how many.
    fn build(&mut self, frames: &[SocketFrame<'_>]) -> usize {
        let (mut first, mut message, mut vector, mut line) = (0, 0, 0, 0);
        while first < frames.len() {
            let n = self
                .gso
                .map_or(1, |gso| message::run_length(&frames[first..], gso, self.listening));
            // SAFETY: header, vectors and control area of this message are ours alone outside of the system call. A
            // burst has at most MAX_BURST frames and a message one vector or less a frame, so `vector` stays below
            // their number; each packet put side by side fills no more than COPY_UP_TO bytes (a multiple of LINE) a
            // frame, so all fit the staging memory. The buffers pointed at are held by `frames` while the caller keeps
            // them.
            let filled = unsafe {
                let place = Place {
                    header: &raw mut (*self.headers.at(message)).msg_hdr,
                    vectors: self.vectors.at(vector),
                    control: self.control.at(message),
                    staging: if n > 1 {
                        self.staging.at(line).cast()
                    } else {
                        std::ptr::null_mut()
                    },
                };
                message::write(place, &frames[first..first + n], self.listening, self.ttl.given())
            };
            vector += filled.vectors;
            line += filled.lines;
            self.frames[message] = n as u16;
            message += 1;
            first += n;
        }
        message
    }
}
