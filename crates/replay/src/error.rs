//! Faults of capture files, each with its place.

use crate::link::link_name;
use crate::reader::LARGEST;
use std::fmt;
use std::io;

/// Fault of a capture file, and its place.
#[derive(Debug)]
pub struct Error {
    /// Number of the packet that could not be read, from 1, as Wireshark counts.
    pub packet: u64,
    /// Byte at which its record or block begins, or the block before it that is at fault, from 0. Of a compressed file
    /// these are the bytes that it unpacks to.
    pub offset: u64,
    /// Fault.
    pub fault: Fault,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fault.is_of_the_file() {
            true => write!(f, "{}", self.fault),
            false => write!(f, "packet {} at byte {}: {}", self.packet, self.offset, self.fault),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.fault)
    }
}

/// Fault of a capture file.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Error of the system, or of what unpacks the file.
    #[error("it cannot be read: {0}")]
    Read(#[source] io::Error),
    /// File without a byte.
    #[error("the file is empty: want pcap or pcapng")]
    Empty,
    /// File that begins with other bytes than a capture file does.
    #[error("no capture file, it begins with {}: want pcap or pcapng, plain or gzipped", hex(.0))]
    NoCapture(Vec<u8>),
    /// File of another kind, by its name, and a command that makes it one of the right kind.
    #[error("{0}: want pcap or pcapng, plain or gzipped: {1}")]
    OtherKind(&'static str, &'static str),
    /// Version of the format: its name, and the two numbers.
    #[error("{0} of version {1}.{2}: want {3}")]
    Version(&'static str, u16, u16, &'static str),
    /// End of the file within a record or a block.
    #[error("the file ends within it")]
    Truncated,
    /// Captured bytes that no packet has.
    #[error("a length of {0} bytes: want {LARGEST} at most")]
    Captured(u32),
    /// Original bytes: fewer than the captured ones, or more than a packet has.
    #[error("{captured} bytes captured of {original}: want no more than there were, and no more than 16777215")]
    Original {
        /// Bytes captured.
        captured: u32,
        /// Bytes that the packet had.
        original: u32,
    },
    /// Captured bytes that go past the end of the packet's block.
    #[error("its {0} bytes go past the end of its block")]
    PastBlock(u32),
    /// Part of a second, and parts that a second has.
    #[error("part {0} of a second of {1} parts: want a smaller one")]
    Fraction(u32, u32),
    /// Block of a length that none has: its length, and the least and the most bytes of its kind.
    #[error("a block of {len} bytes: want a multiple of 4 from {least} to {most}")]
    Block {
        /// Length that the block gives itself, bytes.
        len: u32,
        /// Least bytes of a block of this kind.
        least: u32,
        /// Most bytes of a block of this kind.
        most: u32,
    },
    /// Lengths at beginning and end of a block, bytes.
    #[error("a block says that it has {0} bytes at its beginning, and {1} at its end")]
    BlockEnd(u32, u32),
    /// Bytes that tell the order of bytes in a section.
    #[error("a section with the byte order {0:#010x}: want 0x1a2b3c4d")]
    ByteOrder(u32),
    /// Option of an interface: its code and its length in bytes.
    #[error("option {0} of an interface has {1} bytes: want another length")]
    Option(u16, u16),
    /// Interface that its section does not describe.
    #[error("it came by interface {0}, which the file does not describe")]
    Interface(u32),
    /// More interfaces than a section may have.
    #[error("more than {0} interfaces in a section")]
    Interfaces(usize),
    /// Interface with another link type than Ethernet.
    #[error("interface {interface} has link type {link} ({}): want Ethernet", link_name(*.link))]
    Link {
        /// Number of the interface, from 0.
        interface: u32,
        /// Number of its link type.
        link: u32,
    },
    /// Time that is too late.
    #[error("its time is more than 584 years after the first: want 2^64 ns at most")]
    Time,
    /// Memory: bytes wanted, and bytes there.
    #[error("its packets take {0} bytes of memory, and {1} may be used: want fewer packets")]
    Memory(u64, u64),
    /// Memory that the system has not got, bytes.
    #[error("its packets take {0} bytes of memory or more, which the system has not got: want fewer packets")]
    NoMemory(u64),
}

impl Fault {
    /// Returns whether the whole file is at fault, and not one packet.
    fn is_of_the_file(&self) -> bool {
        matches!(
            self,
            Self::Empty
                | Self::NoCapture(_)
                | Self::OtherKind(..)
                | Self::Version(..)
                | Self::Memory(..)
                | Self::NoMemory(_)
        )
    }
}

impl From<io::Error> for Fault {
    /// A packed file that is cut off is one that ends too early.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Truncated,
            _ => Self::Read(error),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(" ")
}
