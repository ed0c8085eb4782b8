//! The other end of a memif, in the hands of a test: the control protocol spoken by hand, and every byte of the shared
//! memory written as the test likes.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketType, accept, bind, connect, listen, recvmsg, sendmsg, socket,
};

/// Kinds of control messages (libmemif's `memif.h`, version 2.0).
pub mod message {
    /// Answers each message of a client.
    pub const ACK: u16 = 1;
    /// A server's first.
    pub const HELLO: u16 = 2;
    /// A client's first.
    pub const INIT: u16 = 3;
    /// A client's memory.
    pub const ADD_REGION: u16 = 4;
    /// A ring in it.
    pub const ADD_RING: u16 = 5;
    /// A client's last.
    pub const CONNECT: u16 = 6;
    /// A server's last.
    pub const CONNECTED: u16 = 7;
}

/// Most descriptors that one message can pass (`SCM_MAX_FD`).
pub const PASSED: usize = 253;
const BYTES: usize = 128;
const COOKIE: u32 = 0x03e3_1f20;
/// Descriptors of a ring that a client makes, as a power of two.
const LOG2: u8 = 10;
/// Bytes of the memory that a client makes.
pub const REGION: u64 = 1 << 20;
/// Where a client's two rings lie.
const RINGS: [u32; 2] = [0, 0x8000];
/// Where its buffers begin: 2048 bytes each, all of one ring after the other's; as many as there is room for.
const BUFFERS: u32 = 0x10000;
/// Where a ring has its parts.
const HEAD: u64 = 6;
const TAIL: u64 = 64;
const DESC: u64 = 128;

/// One end of a memif.
pub struct MemifPeer {
    socket: OwnedFd,
    /// The shared memory.
    pub memory: File,
    /// Where the rings are: from client to server, and back.
    pub rings: [u64; 2],
    /// As a client, what wakes the reader of each ring.
    pub events: Vec<OwnedFd>,
}

/// A message of this kind with these bytes at these places.
pub fn packed(kind: u16, fields: &[(usize, &[u8])]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..2].copy_from_slice(&kind.to_le_bytes());
    for (at, field) in fields {
        bytes[*at..*at + field.len()].copy_from_slice(field);
    }
    bytes
}

/// `ADD_REGION`.
pub fn add_region(index: u16, size: u64) -> [u8; BYTES] {
    packed(
        message::ADD_REGION,
        &[(2, &index.to_le_bytes()), (4, &size.to_le_bytes())],
    )
}

/// `ADD_RING`; `kind` is 0 for the ring from client to server.
pub fn add_ring(kind: u16, index: u16, region: u16, offset: u32, log2: u8) -> [u8; BYTES] {
    let fields: [(usize, &[u8]); 5] = [
        (2, &(1 - kind).to_le_bytes()),
        (4, &index.to_le_bytes()),
        (6, &region.to_le_bytes()),
        (8, &offset.to_le_bytes()),
        (12, &[log2]),
    ];
    packed(message::ADD_RING, &fields)
}

/// `INIT` for interface 0.
pub fn init() -> [u8; BYTES] {
    packed(message::INIT, &[(2, &0x0200_u16.to_le_bytes())])
}

fn unix() -> OwnedFd {
    socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket")
}

impl MemifPeer {
    /// A client that has connected to the socket `path`, a file, and said nothing. `None`: nobody listens there yet.
    ///
    /// # Panics
    /// When it can't have memory.
    pub fn connect(path: &Path) -> Option<Self> {
        let socket = unix();
        connect(&socket, &SocketAddrUnix::new(path).expect("a path")).ok()?;
        let memory = File::from(memfd_create("hostile", MemfdFlags::CLOEXEC).expect("memory"));
        memory.set_len(REGION).expect("memory");
        let mut peer = Self {
            socket,
            memory,
            rings: RINGS.map(u64::from),
            events: Vec::new(),
        };
        peer.fill();
        assert_eq!(peer.receive().0, message::HELLO);
        Some(peer)
    }

    /// Connects to the socket `path` and goes; false: nobody listens there.
    ///
    /// # Panics
    /// When it can't have a socket.
    #[must_use]
    pub fn come_and_go(path: &Path) -> bool {
        connect(unix(), &SocketAddrUnix::new(path).expect("a path")).is_ok()
    }

    /// Rings as a good client makes them.
    fn fill(&mut self) {
        for (kind, ring) in self.rings.into_iter().enumerate() {
            self.write(ring, &COOKIE.to_le_bytes());
            for slot in 0..1u32 << LOG2 {
                // The memory has room for 480 buffers: those of a ring share them.
                let offset = BUFFERS + ((slot % 240) + 240 * kind as u32) * 2048;
                self.describe(kind, slot as u16, (0, 0, 2048, offset));
            }
        }
    }

    /// Says all that a good client says; true: the server has connected.
    pub fn introduce(&mut self) -> bool {
        self.ask(&init(), None) && self.introduce_further()
    }

    /// Says all that a good client says after the first message; true: the server has connected.
    ///
    /// # Panics
    /// When it can't have descriptors.
    pub fn introduce_further(&mut self) -> bool {
        let memory = self.memory.try_clone().expect("a descriptor");
        self.events.clear();
        let mut good = self.ask(&add_region(0, REGION), Some(memory.as_fd()));
        for kind in [0, 1] {
            let event = eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd");
            good = good
                && self.ask(
                    &add_ring(kind, 0, 0, RINGS[usize::from(kind)], LOG2),
                    Some(event.as_fd()),
                );
            self.events.push(event);
        }
        good && self.say(&packed(message::CONNECT, &[]), None) && self.receive().0 == message::CONNECTED
    }

    /// A server that takes the first client to come to the socket `path`, which it makes, as far as to its `CONNECT`.
    ///
    /// # Panics
    /// When it says something else than a client of one lane does.
    pub fn serve(path: &Path) -> Self {
        let listener = unix();
        bind(&listener, &SocketAddrUnix::new(path).expect("a path")).expect("a free name");
        listen(&listener, 1).expect("a listener");
        let socket = accept(&listener).expect("a client");
        let mut peer = Self {
            socket,
            memory: File::open("/dev/null").expect("a file"),
            rings: [0, 0],
            events: Vec::new(),
        };
        let version = 0x0200_u16.to_le_bytes();
        let fields: [(usize, &[u8]); 6] = [
            (34, &version),
            (36, &version),
            (38, &[255, 0]),
            (40, &[0, 1]),
            (42, &[0, 1]),
            (44, &[14]),
        ];
        assert!(peer.say(&packed(message::HELLO, &fields), None));
        loop {
            let (kind, bytes, passed) = peer.receive_all();
            match (kind, passed) {
                (message::INIT, _) => {}
                (message::ADD_REGION, Some(fd)) => peer.memory = File::from(fd),
                (message::ADD_RING, _) => {
                    let kind = usize::from(1 - (bytes[2] & 1));
                    peer.rings[kind] = u64::from(u32::from_le_bytes(bytes[8..12].try_into().expect("four bytes")));
                }
                (message::CONNECT, _) => return peer,
                (kind, _) => panic!("message {kind}"),
            }
            assert!(peer.say(&packed(message::ACK, &[]), None));
        }
    }

    /// Sends a message; false: the other end has gone.
    pub fn say(&mut self, bytes: &[u8], passed: Option<BorrowedFd<'_>>) -> bool {
        let fds: Vec<_> = passed.into_iter().collect();
        self.say_with(bytes, &fds)
    }

    /// Sends a message with descriptors, of which there may be at most [`PASSED`]; false: the other end has gone.
    pub fn say_with(&mut self, bytes: &[u8], passed: &[BorrowedFd<'_>]) -> bool {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !passed.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(passed)));
        }
        sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).is_ok()
    }

    /// Sends a message; true: the other end has answered it.
    pub fn ask(&mut self, bytes: &[u8], passed: Option<BorrowedFd<'_>>) -> bool {
        self.say(bytes, passed) && self.receive().0 == message::ACK
    }

    /// The kind of the next message; 0: the other end has gone.
    pub fn receive(&mut self) -> (u16, [u8; BYTES]) {
        let (kind, bytes, _) = self.receive_all();
        (kind, bytes)
    }

    fn receive_all(&mut self) -> (u16, [u8; BYTES], Option<OwnedFd>) {
        let mut bytes = [0; BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1), ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let got = recvmsg(&self.socket, &mut parts, &mut control, RecvFlags::empty());
        let mut passed = None;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                passed = fds.last();
            }
        }
        let kind = match got {
            Ok(got) if got.bytes == BYTES => u16::from_le_bytes([bytes[0], bytes[1]]),
            _ => 0,
        };
        (kind, bytes, passed)
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).expect("shared memory");
    }

    /// Writes a descriptor: flags, region, length, offset.
    pub fn describe(&self, ring: usize, slot: u16, (flags, region, length, offset): (u16, u16, u32, u32)) {
        let at = self.rings[ring] + DESC + 16 * u64::from(slot);
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&flags.to_le_bytes());
        bytes[2..4].copy_from_slice(&region.to_le_bytes());
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        bytes[8..12].copy_from_slice(&offset.to_le_bytes());
        self.write(at, &bytes);
    }

    /// Writes the same descriptor all over a ring.
    pub fn describe_all(&self, ring: usize, what: (u16, u16, u32, u32)) {
        for slot in 0..1u16 << LOG2 {
            self.describe(ring, slot, what);
        }
    }

    /// Moves the head of a ring.
    pub fn set_head(&self, ring: usize, to: u16) {
        self.write(self.rings[ring] + HEAD, &to.to_le_bytes());
    }

    /// The head of a ring.
    ///
    /// # Panics
    /// When the memory is too short.
    pub fn head(&self, ring: usize) -> u16 {
        self.read(self.rings[ring] + HEAD)
    }

    fn read(&self, at: u64) -> u16 {
        let mut bytes = [0; 2];
        self.memory.read_exact_at(&mut bytes, at).expect("shared memory");
        u16::from_le_bytes(bytes)
    }

    /// Moves the tail of a ring.
    pub fn set_tail(&self, ring: usize, to: u16) {
        self.write(self.rings[ring] + TAIL, &to.to_le_bytes());
    }

    /// The tail of a ring.
    ///
    /// # Panics
    /// When the memory is too short.
    pub fn tail(&self, ring: usize) -> u16 {
        self.read(self.rings[ring] + TAIL)
    }

    /// As a client, puts a frame into the first buffer from client to server.
    pub fn put(&self, frame: &[u8]) {
        self.write(u64::from(BUFFERS), frame);
        self.describe(0, 0, (0, 0, frame.len() as u32, BUFFERS));
    }
}
