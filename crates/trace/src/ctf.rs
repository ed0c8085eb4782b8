//! Writes a [`Recording`] in the Common Trace Format 1.8, as three traces that Trace Compass opens with the views it
//! has for them, and babeltrace2 reads as text:
//!
//! - `ust`: the stages of each lane as calls of functions (`lttng_ust_cyg_profile_fast:func_entry`), for Flame Chart,
//!   Function Durations and the like. A stage's address stands for its name; `functions.nm` tells which.
//! - `kernel`: what happened on the lanes' cores, under the names of LTTng's kernel tracer, for Control Flow and
//!   Resources.
//! - `dpdk`: each poll of a receive queue and each burst sent, under the names of DPDK's own trace points.
//!
//! Each trace has an id of its own (readers merge those of one id). Times are `CLOCK_MONOTONIC`, ns.

mod events;
mod metadata;

use crate::Recording;
use events::{calls, kernel_events, polls};
use metadata::{functions, metadata};

/// A file of the three traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// `ust/metadata` and so on.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// Events of the three traces: what a reader has to find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Of `ust`.
    pub ust: u64,
    /// Of `kernel`.
    pub kernel: u64,
    /// Of `dpdk`.
    pub dpdk: u64,
}

impl Counts {
    /// Of each trace, by the name of its folder.
    pub fn by_trace(&self) -> [(&'static str, u64); 3] {
        [
            (Kind::Ust.folder(), self.ust),
            (Kind::Kernel.folder(), self.kernel),
            (Kind::Dpdk.folder(), self.dpdk),
        ]
    }
}

const MAGIC: u32 = 0xc1fc_1fc1;
/// A packet is closed when it is longer, bytes.
const PACKET: usize = 1 << 20;

/// All files of the three traces.
pub fn files(recording: &Recording) -> (Vec<File>, Counts) {
    let pid = recording.meta.pid;
    let (mut ust, mut dpdk) = (Trace::new(Kind::Ust, recording), Trace::new(Kind::Dpdk, recording));
    for lane in &recording.lanes {
        calls(&mut ust, lane, pid);
        polls(&mut dpdk, lane, recording.lanes.len());
    }
    let mut kernel = Trace::new(Kind::Kernel, recording);
    kernel_events(&mut kernel, recording);
    let counts = Counts {
        ust: ust.events,
        kernel: kernel.events,
        dpdk: dpdk.events,
    };
    let mut files: Vec<File> = [ust, kernel, dpdk].into_iter().flat_map(Trace::files).collect();
    files.push(File {
        path: "functions.nm".to_owned(),
        bytes: functions().into_bytes(),
    });
    (files, counts)
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

    /// An id of its own within one recording, the same each time.
    fn uuid(self, recording: &Recording) -> [u8; 16] {
        uuid(self as u8, recording)
    }
}

fn uuid(of: u8, recording: &Recording) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&recording.meta.start_ns.to_be_bytes());
    bytes[8..].copy_from_slice(&recording.meta.utc_offset_ns.to_be_bytes());
    // Version 4, variant 1, and which of the three.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes[15] = bytes[15] & 0xfc | of;
    bytes
}

/// A trace under construction: its streams are one a lane, or one a core.
struct Trace {
    kind: Kind,
    uuid: [u8; 16],
    metadata: String,
    streams: Vec<(String, Vec<u8>)>,
    events: u64,
}

impl Trace {
    fn new(kind: Kind, recording: &Recording) -> Self {
        let uuid = kind.uuid(recording);
        Self {
            kind,
            uuid,
            metadata: metadata(kind, &uuid, recording),
            streams: Vec::new(),
            events: 0,
        }
    }

    /// Adds a stream of events in the order of their times.
    fn stream(&mut self, name: String, cpu: u32, lost: u64, events: impl Iterator<Item = (u64, Vec<u8>)>) {
        let mut stream = Vec::new();
        let mut packet = Packet::default();
        let mut last = 0;
        for (at, event) in events {
            // A reader refuses a clock that goes back.
            let at = at.max(last);
            last = at;
            if packet.events.len() > PACKET {
                packet.close(self.uuid, cpu, lost, &mut stream);
            }
            packet.add(at, &event);
            self.events += 1;
        }
        if !packet.events.is_empty() {
            packet.close(self.uuid, cpu, lost, &mut stream);
        }
        if !stream.is_empty() {
            self.streams.push((name, stream));
        }
    }

    fn files(self) -> Vec<File> {
        // A folder without a stream is no trace to some readers.
        if self.streams.is_empty() {
            return Vec::new();
        }
        let folder = self.kind.folder();
        let file = |(name, bytes): (String, Vec<u8>)| File {
            path: format!("{folder}/{name}"),
            bytes,
        };
        let metadata = ("metadata".to_owned(), self.metadata.into_bytes());
        [metadata].into_iter().chain(self.streams).map(file).collect()
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

    fn close(&mut self, uuid: [u8; 16], cpu: u32, lost: u64, stream: &mut Vec<u8>) {
        const HEADER: usize = 4 + 16 + 4 + 5 * 8 + 4;
        let bits = ((HEADER + self.events.len()) * 8) as u64;
        stream.extend_from_slice(&MAGIC.to_le_bytes());
        stream.extend_from_slice(&uuid);
        stream.extend_from_slice(&0_u32.to_le_bytes());
        for value in [self.begin_ns, self.end_ns, bits, bits, lost] {
            stream.extend_from_slice(&value.to_le_bytes());
        }
        stream.extend_from_slice(&cpu.to_le_bytes());
        stream.append(&mut self.events);
    }
}

#[cfg(test)]
mod tests;
