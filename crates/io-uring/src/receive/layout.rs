//! How packets lie in the buffers that the kernel fills.

use mpps_sockets::message::Kind;

/// Header that the kernel writes in front of a packet of multishot `recvmsg`: `struct io_uring_recvmsg_out`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct MessageOut {
    pub(super) namelen: u32,
    pub(super) controllen: u32,
    pub(super) payloadlen: u32,
    flags: u32,
}

const _: () = assert!(size_of::<MessageOut>() == 16 && std::mem::offset_of!(MessageOut, payloadlen) == 8);

/// Room for a sender's address in front of a packet: a multiple of 8, so that control messages are aligned.
const NAME: usize = 32;
/// How packets lie in the buffers that the kernel fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// From the start: connected sockets, nothing comes beside the packet.
    Plain,
    /// Behind a header, the sender's address (`name` bytes) and control messages (`control` bytes).
    Message { name: usize, control: usize },
    /// From the start; address and control messages lie in memory of their own.
    Apart,
}

impl Layout {
    pub(crate) fn new(kind: Kind, multishot: bool) -> Self {
        match (kind.listening || kind.needs_control(), multishot) {
            (false, _) => Self::Plain,
            (true, true) => Self::Message {
                name: if kind.listening { NAME } else { 0 },
                control: kind.control_len(),
            },
            (true, false) => Self::Apart,
        }
    }

    /// Bytes in front of a packet.
    pub(crate) fn headroom(self) -> usize {
        match self {
            Self::Message { name, control } => size_of::<MessageOut>() + name + control,
            Self::Plain | Self::Apart => 0,
        }
    }
}
