//! Capture in memory: the bytes of its packets in one piece, and an index of 16 bytes a packet.

use crate::error::{Error, Fault};
use crate::reader::{Facts, Packet, Reader};
use crate::selection::Selection;
use std::io::Read;

/// Bits of an original length in an entry of the index.
const ORIGINAL_BITS: u32 = 24;
/// Most bytes of packets, for whose offsets an entry has room.
const MOST_BYTES: u64 = 1 << (64 - ORIGINAL_BITS);

/// Returns the bytes of memory that a capture takes.
pub const fn footprint(packets: u64, bytes: u64) -> u64 {
    bytes.saturating_add(packets.saturating_mul(size_of::<Entry>() as u64))
}

/// Packet in the index. Its captured length is known by the offset of the next one.
#[derive(Clone, Copy, Debug)]
struct Entry {
    due_ns: u64,
    /// Offset in the bytes, and below it the original length.
    place: u64,
}

const _: () = assert!(size_of::<Entry>() == 16);

/// Capture in memory.
#[derive(Debug)]
pub struct Capture {
    bytes: Vec<u8>,
    index: Vec<Entry>,
    facts: Facts,
    fault: Option<Error>,
}

impl Capture {
    /// Reads the packets that `selection` takes, which may take `most` bytes of memory. The file is read once: memory
    /// grows with it, and is no more than the packets take in the end.
    ///
    /// # Errors
    /// As [`Reader::new`], and of packets that take more memory. A fault behind packets that could be read is
    /// [`Capture::fault`].
    pub fn read<R: Read>(file: R, selection: &Selection, most: u64) -> Result<Self, Error> {
        let mut reader = Reader::new(file, selection.clone())?;
        let (mut index, mut bytes) = (Vec::new(), Vec::new());
        let fault = loop {
            match reader.next_packet() {
                Ok(Some(packet)) => {
                    let place = (bytes.len() as u64) << ORIGINAL_BITS | u64::from(packet.original_len);
                    let due_ns = packet.due_ns;
                    let room = index
                        .try_reserve(1)
                        .and_then(|()| bytes.try_reserve(packet.bytes.len()));
                    room.map_err(|_| no_memory(footprint(index.len() as u64, bytes.len() as u64)))?;
                    bytes.extend_from_slice(packet.bytes);
                    index.push(Entry { due_ns, place });
                }
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
            within(reader.facts(), most)?;
        };
        bytes.shrink_to_fit();
        index.shrink_to_fit();
        Ok(Self {
            bytes,
            index,
            facts: reader.facts(),
            fault,
        })
    }

    /// Returns the number of packets.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns whether there is no packet.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Returns packet `i`, from 0, of those that were taken.
    #[inline]
    pub fn get(&self, i: usize) -> Option<Packet<'_>> {
        let entry = self.index.get(i)?;
        let offset = |entry: &Entry| (entry.place >> ORIGINAL_BITS) as usize;
        let end = self.index.get(i + 1).map_or(self.bytes.len(), offset);
        Some(Packet {
            bytes: self.bytes.get(offset(entry)..end)?,
            original_len: (entry.place & ((1 << ORIGINAL_BITS) - 1)) as u32,
            due_ns: entry.due_ns,
        })
    }

    /// Returns the packets in order.
    pub fn packets(&self) -> impl Iterator<Item = Packet<'_>> {
        (0..self.len()).filter_map(|i| self.get(i))
    }

    /// Returns figures of the packets.
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// Returns the fault of the file behind the last packet, if it has one.
    pub fn fault(&self) -> Option<&Error> {
        self.fault.as_ref()
    }
}

/// Checks the memory of the packets so far.
#[inline]
fn within(facts: Facts, most: u64) -> Result<(), Error> {
    let bytes = footprint(facts.packets, facts.bytes);
    match bytes <= most && facts.bytes < MOST_BYTES {
        true => Ok(()),
        false => Err(of_the_file(Fault::Memory(bytes, most.min(MOST_BYTES)))),
    }
}

fn no_memory(bytes: u64) -> Error {
    of_the_file(Fault::NoMemory(bytes))
}

fn of_the_file(fault: Fault) -> Error {
    Error {
        packet: 1,
        offset: 0,
        fault,
    }
}
