//! Files of tcpdump: a header, then packets, each behind a header of its own (draft-ietf-opsawg-pcap).
//!
//! Nothing marks where a packet begins, so the first wrong length makes all that follows unreadable: lengths and parts
//! of a second are checked, that garbage is not taken for packets.

use crate::error::Fault;
use crate::link::ETHERNET;
use crate::reader::{Lengths, Record};
use crate::time::Clock;
use crate::window::Window;
use std::io::Read;

/// Bytes of the file's header.
const HEADER: usize = 24;
/// First numbers of a file: times in µs, in ns, and in µs with 8 more bytes in front of each packet ("modified",
/// of the time of Linux 2.2).
const MICROS: u32 = 0xa1b2_c3d4;
const NANOS: u32 = 0xa1b2_3c4d;
const MODIFIED: u32 = 0xa1b2_cd34;

/// Format of one file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pcap {
    big: bool,
    clock: Clock,
    /// Parts of a second.
    parts: u32,
    /// Bytes in front of each packet.
    header: usize,
    /// Bytes of the frame check sequence at the end of each packet.
    fcs: u32,
}

impl Pcap {
    /// Returns whether a file begins as these do.
    pub(crate) fn begins(head: [u8; 4]) -> bool {
        let magic = u32::from_be_bytes(head);
        [MICROS, NANOS, MODIFIED]
            .iter()
            .any(|known| magic == *known || magic == known.swap_bytes())
    }

    /// Reads the header of a file.
    ///
    /// # Errors
    /// Names another version or link type, and what the window fails with.
    pub(crate) fn open<S: Read>(window: &mut Window<S>) -> Result<Self, Fault> {
        window.mark();
        window.want(HEADER)?;
        let head = window.bytes();
        let big = head[0] == 0xa1;
        let magic = number(head, 0, big);
        let [major, minor] = [short(head, 4, big), short(head, 6, big)];
        if (major, minor) != (2, 4) {
            return Err(Fault::Version("pcap", major, minor, "2.4"));
        }
        let kind = number(head, 20, big);
        let (link, given, words) = (kind & 0xffff, kind >> 26 & 1, kind >> 28);
        if link != ETHERNET {
            return Err(Fault::Link { interface: 0, link });
        }
        window.pass(HEADER);
        let (resolution, parts) = match magic {
            NANOS => (9, 1_000_000_000),
            _ => (6, 1_000_000),
        };
        Ok(Self {
            big,
            clock: Clock::new(resolution, 0),
            parts,
            header: if magic == MODIFIED { 24 } else { 16 },
            fcs: given * words * 2,
        })
    }

    /// Returns the next packet; `None` at the end of the file.
    ///
    /// # Errors
    /// Names what is wrong with it.
    #[inline]
    pub(crate) fn next<S: Read>(&self, window: &mut Window<S>) -> Result<Option<Record>, Fault> {
        window.mark();
        if !window.have(self.header)? {
            return match window.bytes().is_empty() {
                true => Ok(None),
                false => Err(Fault::Truncated),
            };
        }
        let Some(head) = window.bytes().first_chunk::<16>() else {
            return Err(Fault::Truncated);
        };
        let (seconds, part) = (number(head, 0, self.big), number(head, 4, self.big));
        let (captured, original) = (number(head, 8, self.big), number(head, 12, self.big));
        let lengths = Lengths::new(captured, original)?;
        if part >= self.parts {
            return Err(Fault::Fraction(part, self.parts));
        }
        let there = captured as usize;
        window.want(self.header + there)?;
        window.pass(self.header + there);
        let units = u64::from(seconds) * u64::from(self.parts) + u64::from(part);
        Ok(Some(lengths.record(there, self.fcs, Some(self.clock.ns(units)))))
    }
}

/// Reads a number of 4 bytes, which are there.
#[inline]
pub(crate) fn number(bytes: &[u8], at: usize, big: bool) -> u32 {
    let four = bytes.get(at..).and_then(|bytes| bytes.first_chunk()).unwrap_or(&[0; 4]);
    match big {
        true => u32::from_be_bytes(*four),
        false => u32::from_le_bytes(*four),
    }
}

/// Reads a number of 2 bytes, which are there.
#[inline]
pub(crate) fn short(bytes: &[u8], at: usize, big: bool) -> u16 {
    let two = bytes.get(at..).and_then(|bytes| bytes.first_chunk()).unwrap_or(&[0; 2]);
    match big {
        true => u16::from_be_bytes(*two),
        false => u16::from_le_bytes(*two),
    }
}
