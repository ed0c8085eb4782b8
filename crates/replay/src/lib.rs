//! Capture files for replay: pcap and pcapng, plain or gzipped, read within bounds whatever they hold.
//!
//! [`Reader`] goes through a file of any size with a buffer of fixed size; [`Capture`] keeps what it reads in memory,
//! with an index of 16 bytes a packet. Both give packets in the order of the file, each with the time at which it is
//! due after the first. A fault of the file is an error that names packet and byte; all packets before it are whole.
//!
//! [`Matcher`] chooses packets by a packet's text, [`Schedule`] says when each is due at another speed and lap after
//! lap, [`Rewrite`] changes their headers, [`Frames`] are what is sent, [`Ahead`] puts them into [`Rings`] while it
//! reads.
//!
//! Nothing here sends packets, opens files by name, or panics on what a file holds.

#![forbid(unsafe_code)]

mod ahead;
mod capture;
mod due;
mod error;
mod frames;
mod link;
mod matcher;
mod packed;
mod pcap;
mod pcapng;
mod reader;
mod rewrite;
mod schedule;
mod selection;
mod time;
mod window;

pub use ahead::{Ahead, Head, NotRead, Opened, Ring, Rings};
pub use capture::{Capture, footprint};
pub use error::{Error, Fault};
pub use frames::{Frames, Next, NotSent, Place, Preparation, Sent, TAGGED, Walk, content_of};
pub use link::link_name;
pub use matcher::Matcher;
pub use reader::{Facts, LARGEST, Packet, Reader};
pub use rewrite::{NotRewritten, Rewrite};
pub use schedule::Schedule;
pub use selection::Selection;
