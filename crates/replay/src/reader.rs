//! Reader of capture files of any size.

use crate::due::Dues;
use crate::error::{Error, Fault};
use crate::packed::Source;
use crate::pcap::Pcap;
use crate::pcapng::Pcapng;
use crate::selection::Selection;
use crate::window::Window;
use std::io::Read;

/// Most bytes captured of a packet.
pub const LARGEST: u32 = 262_144;
/// Most bytes that a packet had: the largest number that an index has room for.
pub(crate) const LARGEST_ORIGINAL: u32 = (1 << 24) - 1;

/// Packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'b> {
    /// Bytes captured, without frame check sequence, [`LARGEST`] at most.
    pub bytes: &'b [u8],
    /// Bytes that the packet had, without frame check sequence; more than were captured if it was cut.
    pub original_len: u32,
    /// Time at which it is due, ns after the first packet that was taken: its time in the capture, but not before that
    /// of the packet before it.
    pub due_ns: u64,
}

/// Figures of the packets that were taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Number of packets.
    pub packets: u64,
    /// Bytes captured of them.
    pub bytes: u64,
    /// Bytes of the shortest; 0 without packets.
    pub shortest: u32,
    /// Bytes of the longest.
    pub longest: u32,
    /// Time at which the last is due, ns after the first.
    pub span_ns: u64,
    /// Packets whose time is earlier than that of one before them.
    pub backwards: u64,
    /// Largest time by which one of these is earlier, ns.
    pub step_back_ns: u64,
    /// Packets without a time, which are due with the packet before them.
    pub untimed: u64,
    /// Packets of which not all bytes were captured.
    pub snapped: u64,
    /// Number in the file of the first of these, from 1.
    pub first_snapped: Option<u64>,
    /// Packets of the file that were read, taken or not.
    pub read: u64,
}

/// Lengths of a packet that may be right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lengths {
    captured: u32,
    original: u32,
}

impl Lengths {
    #[inline]
    pub(crate) fn new(captured: u32, original: u32) -> Result<Self, Fault> {
        if captured > LARGEST {
            return Err(Fault::Captured(captured));
        }
        if original < captured || original > LARGEST_ORIGINAL {
            return Err(Fault::Original { captured, original });
        }
        Ok(Self { captured, original })
    }

    /// Returns the packet that begins `back` bytes before the window, and ends with `fcs` bytes that are none of it.
    #[inline]
    pub(crate) fn record(self, back: usize, fcs: u32, time: Option<i128>) -> Record {
        let original = self.original.saturating_sub(fcs);
        Record {
            back,
            captured: self.captured.min(original),
            original,
            time,
        }
    }
}

/// Packet in a window that has passed it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    back: usize,
    captured: u32,
    original: u32,
    /// ns since 1970.
    time: Option<i128>,
}

#[derive(Debug)]
enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

/// Reader of a capture file, from any source of bytes, with a buffer of half a megabyte.
#[derive(Debug)]
pub struct Reader<R> {
    window: Window<Source<R>>,
    format: Format,
    selection: Selection,
    dues: Dues,
    facts: Facts,
    /// The end was reached, or a fault.
    over: bool,
}

impl<R: Read> Reader<R> {
    /// Begins to read the packets that `selection` takes.
    ///
    /// # Errors
    /// Names what is no capture file, a version of its format that is not known, and a pcap file of another link type
    /// than Ethernet.
    pub fn new(file: R, selection: Selection) -> Result<Self, Error> {
        Self::open(file, selection).map_err(|fault| Error {
            packet: 1,
            offset: 0,
            fault,
        })
    }

    fn open(file: R, selection: Selection) -> Result<Self, Fault> {
        let mut window = Window::new(Source::new(file)?);
        window.have(4)?;
        let head = window.bytes();
        let format = match head.first_chunk() {
            Some(head) if Pcap::begins(*head) => Format::Pcap(Pcap::open(&mut window)?),
            Some(head) if Pcapng::begins(*head) => Format::Pcapng(Pcapng::default()),
            _ => return Err(Fault::NoCapture(head.iter().take(4).copied().collect())),
        };
        Ok(Self {
            window,
            format,
            selection,
            dues: Dues::default(),
            facts: Facts::default(),
            over: false,
        })
    }

    /// Returns the next packet that is taken; `None` behind the last, and behind a fault.
    ///
    /// # Errors
    /// Names what is wrong with the packet, or with the file in front of it.
    #[inline]
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>, Error> {
        loop {
            if self.over || self.facts.read >= *self.selection.numbers.end() {
                return Ok(None);
            }
            let record = match &mut self.format {
                Format::Pcap(format) => format.next(&mut self.window),
                Format::Pcapng(format) => format.next(&mut self.window),
            };
            let record = match record {
                Ok(Some(record)) => record,
                Ok(None) => {
                    self.over = true;
                    return Ok(None);
                }
                Err(fault) => return Err(self.fault(fault)),
            };
            let number = self.facts.read + 1;
            let frame = self.window.passed(record.back, record.captured as usize);
            if !self.selection.takes(number, frame) {
                self.facts.read = number;
                continue;
            }
            let due_ns = match self.dues.next(record.time) {
                Ok(due_ns) => due_ns,
                Err(fault) => return Err(self.fault(fault)),
            };
            self.facts.note(number, &record, &self.dues);
            return Ok(Some(Packet {
                bytes: self.window.passed(record.back, record.captured as usize),
                original_len: record.original,
                due_ns,
            }));
        }
    }

    #[cold]
    fn fault(&mut self, fault: Fault) -> Error {
        self.over = true;
        Error {
            packet: self.facts.read + 1,
            offset: self.window.marked(),
            fault,
        }
    }

    /// Returns figures of the packets taken so far.
    pub fn facts(&self) -> Facts {
        self.facts
    }
}

impl Facts {
    /// Notes a packet that was taken.
    #[inline]
    fn note(&mut self, number: u64, record: &Record, dues: &Dues) {
        self.shortest = match self.packets {
            0 => record.captured,
            _ => self.shortest.min(record.captured),
        };
        self.longest = self.longest.max(record.captured);
        self.read = number;
        self.packets += 1;
        self.bytes += u64::from(record.captured);
        self.span_ns = dues.latest_ns;
        self.backwards = dues.backwards;
        self.step_back_ns = dues.step_back_ns;
        self.untimed += u64::from(record.time.is_none());
        if record.captured < record.original {
            self.snapped += 1;
            self.first_snapped.get_or_insert(number);
        }
    }
}
