//! Files of blocks (draft-ietf-opsawg-pcapng): sections, the interfaces of each, and their packets.
//!
//! Blocks of other kinds are passed over. Each block has its length at both ends, which are compared, so that garbage
//! between blocks is found where it begins.

use crate::error::Fault;
use crate::link::ETHERNET;
use crate::pcap::{number, short};
use crate::reader::{Lengths, Record};
use crate::time::Clock;
use crate::window::{WINDOW, Window};
use std::io::Read;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
/// Packet block, which the enhanced one replaces.
const PACKET: u32 = 2;
const SIMPLE: u32 = 3;
const ENHANCED: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// Most interfaces of a section.
const MOST_INTERFACES: usize = 65_536;
/// Bytes of a block without a body.
const LEAST: u32 = 12;
/// Bytes of a section header, and of an interface, in front of their options.
const SECTION_HEAD: usize = 24;
const INTERFACE_HEAD: usize = 16;

/// Options of an interface: resolution and offset of its times, and frame check sequence of its packets.
const RESOLUTION: u16 = 9;
const CHECK: u16 = 13;
const OFFSET: u16 = 14;

/// Interface of a section.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: u32,
    /// Most bytes captured of a packet; 0: all.
    snap: u32,
    clock: Clock,
    /// Bytes of the frame check sequence at the end of each packet.
    fcs: u32,
}

/// State of a file: the section that is read.
#[derive(Debug, Default)]
pub(crate) struct Pcapng {
    big: bool,
    interfaces: Vec<Interface>,
}

/// Packet in a block: its interface, its time in that one's units, the offset of its bytes in the block.
struct Head {
    interface: u32,
    time: Option<u64>,
    captured: u32,
    original: u32,
    at: usize,
}

impl Pcapng {
    /// Returns whether a file begins as these do.
    pub(crate) fn begins(head: [u8; 4]) -> bool {
        u32::from_be_bytes(head) == SECTION
    }

    /// Returns the next packet; `None` at the end of the file.
    ///
    /// # Errors
    /// Names what is wrong with it, or with a block in front of it.
    #[inline]
    pub(crate) fn next<S: Read>(&mut self, window: &mut Window<S>) -> Result<Option<Record>, Fault> {
        loop {
            window.mark();
            if !window.have(LEAST as usize)? {
                return match window.bytes().is_empty() {
                    true => Ok(None),
                    false => Err(Fault::Truncated),
                };
            }
            let head = window.bytes();
            let kind = number(head, 0, self.big);
            if kind == SECTION {
                self.section(window)?;
                continue;
            }
            let len = number(head, 4, self.big);
            match kind {
                ENHANCED | SIMPLE | PACKET => return self.packet(window, kind, len).map(Some),
                INTERFACE => self.interface(window, len)?,
                _ => {
                    bounded(len, LEAST, u32::MAX)?;
                    self.end(window, len, 0)?;
                }
            }
        }
    }

    /// Reads a packet.
    #[inline]
    fn packet<S: Read>(&self, window: &mut Window<S>, kind: u32, len: u32) -> Result<Record, Fault> {
        let least = if kind == SIMPLE { 16 } else { 32 };
        bounded(len, least, WINDOW as u32)?;
        let whole = len as usize;
        window.want(whole)?;
        let block = window.bytes();
        let end = number(block, whole - 4, self.big);
        if end != len {
            return Err(Fault::BlockEnd(len, end));
        }
        let head = self.head(block, kind, len)?;
        let Some(interface) = self.interfaces.get(head.interface as usize) else {
            return Err(Fault::Interface(head.interface));
        };
        if interface.link != ETHERNET {
            return Err(Fault::Link {
                interface: head.interface,
                link: interface.link,
            });
        }
        let lengths = Lengths::new(head.captured, head.original)?;
        if head.captured > len - least {
            return Err(Fault::PastBlock(head.captured));
        }
        window.pass(whole);
        let time = head.time.map(|units| interface.clock.ns(units));
        Ok(lengths.record(whole - head.at, interface.fcs, time))
    }

    /// Reads the fields in front of a packet's bytes.
    #[inline]
    fn head(&self, block: &[u8], kind: u32, len: u32) -> Result<Head, Fault> {
        let big = self.big;
        if kind == SIMPLE {
            let original = number(block, 8, big);
            let snap = match self.interfaces.first() {
                None => return Err(Fault::Interface(0)),
                Some(interface) if interface.snap == 0 => u32::MAX,
                Some(interface) => interface.snap,
            };
            // Without a snap length the block says how much it is, but for up to 3 bytes of padding.
            let captured = match snap {
                u32::MAX => original.min(len - 16),
                snap => original.min(snap),
            };
            return Ok(Head {
                interface: 0,
                time: None,
                captured,
                original,
                at: 12,
            });
        }
        let interface = match kind {
            PACKET => u32::from(short(block, 8, big)),
            _ => number(block, 8, big),
        };
        let time = u64::from(number(block, 12, big)) << 32 | u64::from(number(block, 16, big));
        Ok(Head {
            interface,
            time: Some(time),
            captured: number(block, 20, big),
            original: number(block, 24, big),
            at: 28,
        })
    }

    /// Begins a section, whose interfaces are numbered from 0.
    #[inline(never)]
    fn section<S: Read>(&mut self, window: &mut Window<S>) -> Result<(), Fault> {
        window.want(SECTION_HEAD)?;
        let head = window.bytes();
        let order = number(head, 8, false);
        self.big = match order {
            BYTE_ORDER => false,
            order if order.swap_bytes() == BYTE_ORDER => true,
            order => return Err(Fault::ByteOrder(order)),
        };
        let [major, minor] = [12, 14].map(|at| short(head, at, self.big));
        // Version 1.2 is the same as 1.0: it was written by mistake.
        if major != 1 || !matches!(minor, 0 | 2) {
            return Err(Fault::Version("pcapng", major, minor, "1.0"));
        }
        let len = number(head, 4, self.big);
        bounded(len, SECTION_HEAD as u32 + 4, u32::MAX)?;
        self.interfaces.clear();
        self.end(window, len, 0)
    }

    /// Reads an interface. Its link type matters with the first packet that came by it.
    #[inline(never)]
    fn interface<S: Read>(&mut self, window: &mut Window<S>, len: u32) -> Result<(), Fault> {
        bounded(len, INTERFACE_HEAD as u32 + 4, u32::MAX)?;
        if self.interfaces.len() == MOST_INTERFACES {
            return Err(Fault::Interfaces(MOST_INTERFACES));
        }
        window.want(INTERFACE_HEAD)?;
        let head = window.bytes();
        let (link, snap) = (short(head, 8, self.big), number(head, 12, self.big));
        window.pass(INTERFACE_HEAD);
        let (mut resolution, mut offset_s, mut fcs) = (6, 0, 0);
        let mut left = len as usize - INTERFACE_HEAD - 4;
        while left >= 4 {
            window.want(4)?;
            let [code, bytes] = [0, 2].map(|at| short(window.bytes(), at, self.big));
            let whole = 4 + usize::from(bytes).next_multiple_of(4);
            if whole > left {
                return Err(Fault::Option(code, bytes));
            }
            window.want(whole)?;
            let value = &window.bytes()[4..];
            match (code, bytes) {
                (0, _) => break,
                (RESOLUTION, 1) => resolution = value[0],
                (OFFSET, 8) => {
                    let [one, two] = [0, 4].map(|at| number(value, at, self.big));
                    let (high, low) = if self.big { (one, two) } else { (two, one) };
                    offset_s = (u64::from(high) << 32 | u64::from(low)).cast_signed();
                }
                // Bytes as programs write it, bits as the draft has it.
                (CHECK, 1) if matches!(value[0], 4 | 32) => fcs = 4,
                (RESOLUTION | OFFSET, _) => return Err(Fault::Option(code, bytes)),
                _ => {}
            }
            window.pass(whole);
            left -= whole;
        }
        self.interfaces.push(Interface {
            link: link.into(),
            snap,
            clock: Clock::new(resolution, offset_s),
            fcs,
        });
        self.end(window, len, len as usize - 4 - left)
    }

    /// Passes what is left of a block of which `passed` bytes were passed, and compares the length at its end.
    fn end<S: Read>(&self, window: &mut Window<S>, len: u32, passed: usize) -> Result<(), Fault> {
        window.skip(u64::from(len) - 4 - passed as u64)?;
        window.want(4)?;
        let end = number(window.bytes(), 0, self.big);
        window.pass(4);
        match end == len {
            true => Ok(()),
            false => Err(Fault::BlockEnd(len, end)),
        }
    }
}

/// Checks the length of a block.
#[inline]
fn bounded(len: u32, least: u32, most: u32) -> Result<(), Fault> {
    match (least..=most).contains(&len) && len.is_multiple_of(4) {
        true => Ok(()),
        false => Err(Fault::Block { len, least, most }),
    }
}
