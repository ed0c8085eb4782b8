//! Writes a [`Recording`] in the Common Trace Format 1.8, as three traces. Trace Compass opens them with its views for
//! them, and babeltrace2 reads them as text:
//!
//! - `ust`: the stages of each lane as calls of functions (`lttng_ust_cyg_profile_fast:func_entry`), for Flame Chart,
//!   Function Durations and the like. A stage's address stands for its name; `functions.nm` lists the names.
//! - `kernel`: events on the lanes' cores, under the names of LTTng's kernel tracer, for Control Flow and Resources.
//! - `dpdk`: each poll of a receive queue and each burst sent, under the names of DPDK's own trace points.
//!
//! Each trace has an id of its own (readers merge those of one id). Times are `CLOCK_MONOTONIC`, ns.

mod events;
mod metadata;

use crate::Recording;
use events::{calls, kernel_events, polls};
use metadata::{functions, metadata};
use std::cell::RefCell;
use std::io::{self, Write};

/// A file of the three traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Path: `ust/metadata` and so on.
    pub path: String,
    /// Content of the file.
    pub bytes: Vec<u8>,
}

/// Numbers of events in the three traces, which a reader must find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events of `ust`.
    pub ust: u64,
    /// Events of `kernel`.
    pub kernel: u64,
    /// Events of `dpdk`.
    pub dpdk: u64,
}

impl Counts {
    /// Returns the number of each trace, by the name of its folder.
    pub fn by_trace(&self) -> [(&'static str, u64); 3] {
        [
            (Kind::Ust.folder(), self.ust),
            (Kind::Kernel.folder(), self.kernel),
            (Kind::Dpdk.folder(), self.dpdk),
        ]
    }
}

const MAGIC: u32 = 0xc1fc_1fc1;
/// Length of a packet, bytes, above which it is closed.
const PACKET: usize = 1 << 20;

/// Writes the three traces, file by file: `open` is called for each file with its path, as in [`File::path`]; the
/// previous files are complete by then. The files are several times as long as the recording, and are never held in
/// memory.
///
/// # Errors
/// Errors of `open`, and of the writers that it returns.
pub fn write<W: Write>(recording: &Recording, open: impl FnMut(&str) -> io::Result<W>) -> io::Result<Counts> {
    let pid = recording.meta.pid;
    let mut out = Out { open };
    let mut ust = Trace::new(Kind::Ust, recording);
    for lane in &recording.lanes {
        calls(&mut ust, &mut out, lane, pid)?;
    }
    let mut kernel = Trace::new(Kind::Kernel, recording);
    kernel_events(&mut kernel, &mut out, recording)?;
    let mut dpdk = Trace::new(Kind::Dpdk, recording);
    for lane in &recording.lanes {
        polls(&mut dpdk, &mut out, lane, recording.lanes.len())?;
    }
    out.whole("functions.nm", functions().as_bytes())?;
    Ok(Counts {
        ust: ust.events,
        kernel: kernel.events,
        dpdk: dpdk.events,
    })
}

/// Returns all files of the three traces, in memory.
pub fn files(recording: &Recording) -> (Vec<File>, Counts) {
    let all: RefCell<Vec<File>> = RefCell::default();
    let open = |path: &str| {
        all.borrow_mut().push(File {
            path: path.to_owned(),
            bytes: Vec::new(),
        });
        Ok(Last(&all))
    };
    // Writing to memory does not fail.
    let counts = write(recording, open).unwrap_or_default();
    (all.into_inner(), counts)
}

/// Writer to the last of these files.
struct Last<'f>(&'f RefCell<Vec<File>>);

impl Write for Last<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = self.0.borrow_mut();
        let into = all.last_mut().map(|file| file.bytes.extend_from_slice(bytes));
        Ok(into.map_or(0, |()| bytes.len()))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Destination of the files.
struct Out<O> {
    open: O,
}

impl<W: Write, O: FnMut(&str) -> io::Result<W>> Out<O> {
    fn whole(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = (self.open)(path)?;
        file.write_all(bytes)?;
        file.flush()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ust,
    Kernel,
    Dpdk,
}

impl Kind {
    fn folder(self) -> &'static str {
        match self {
            Self::Ust => "ust",
            Self::Kernel => "kernel",
            Self::Dpdk => "dpdk",
        }
    }

    /// Returns an id that is unique within one recording, and the same each time.
    fn uuid(self, recording: &Recording) -> [u8; 16] {
        uuid(self as u8, recording)
    }
}

fn uuid(of: u8, recording: &Recording) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&recording.meta.start_ns.to_be_bytes());
    bytes[8..].copy_from_slice(&recording.meta.utc_offset_ns.to_be_bytes());
    // Version 4, variant 1, and the number of the trace.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes[15] = bytes[15] & 0xfc | of;
    bytes
}

/// A trace that is being written: it has a stream per lane, or per core. Some readers do not accept a folder without a
/// stream, so the folder is made with the first stream.
struct Trace {
    kind: Kind,
    uuid: [u8; 16],
    /// Metadata; `None` once they are written.
    metadata: Option<String>,
    events: u64,
}

impl Trace {
    fn new(kind: Kind, recording: &Recording) -> Self {
        let uuid = kind.uuid(recording);
        Self {
            kind,
            uuid,
            metadata: Some(metadata(kind, &uuid, recording)),
            events: 0,
        }
    }

    /// Writes a stream of events in the order of their times.
    fn stream<W: Write, O: FnMut(&str) -> io::Result<W>>(
        &mut self,
        out: &mut Out<O>,
        name: &str,
        (cpu, lost): (u32, u64),
        events: impl Iterator<Item = (u64, Vec<u8>)>,
    ) -> io::Result<()> {
        let mut events = events.peekable();
        if events.peek().is_none() {
            return Ok(());
        }
        let folder = self.kind.folder();
        if let Some(metadata) = self.metadata.take() {
            out.whole(&format!("{folder}/metadata"), metadata.as_bytes())?;
        }
        let mut stream = (out.open)(&format!("{folder}/{name}"))?;
        let mut packet = Packet::default();
        let mut last = 0;
        for (at, event) in events {
            // Readers refuse a clock that goes back.
            let at = at.max(last);
            last = at;
            if packet.events.len() > PACKET {
                packet.close(self.uuid, cpu, lost, &mut stream)?;
            }
            packet.add(at, &event);
            self.events += 1;
        }
        packet.close(self.uuid, cpu, lost, &mut stream)?;
        stream.flush()
    }
}

/// Events that are not yet in the stream.
#[derive(Default)]
struct Packet {
    begin_ns: u64,
    end_ns: u64,
    events: Vec<u8>,
}

impl Packet {
    fn add(&mut self, at: u64, event: &[u8]) {
        if self.events.is_empty() {
            self.begin_ns = at;
        }
        self.end_ns = at;
        let (id, rest) = event.split_at(2);
        self.events.extend_from_slice(id);
        self.events.extend_from_slice(&at.to_le_bytes());
        self.events.extend_from_slice(rest);
    }

    fn close(&mut self, uuid: [u8; 16], cpu: u32, lost: u64, stream: &mut impl Write) -> io::Result<()> {
        const HEADER: usize = 4 + 16 + 4 + 5 * 8 + 4;
        let bits = ((HEADER + self.events.len()) * 8) as u64;
        let mut header = Vec::with_capacity(HEADER);
        header.extend_from_slice(&MAGIC.to_le_bytes());
        header.extend_from_slice(&uuid);
        header.extend_from_slice(&0_u32.to_le_bytes());
        for value in [self.begin_ns, self.end_ns, bits, bits, lost] {
            header.extend_from_slice(&value.to_le_bytes());
        }
        header.extend_from_slice(&cpu.to_le_bytes());
        stream.write_all(&header)?;
        stream.write_all(&self.events)?;
        self.events.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
