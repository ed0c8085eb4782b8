//! The capture file: a thread that may wait moves packets from the lanes' rings to disk or into a pipe.
//!
//! The thread drains the rings in order of time, encodes, and writes in batches; when the rings are empty it writes
//! what it has, so that a reader of a pipe sees packets as they come and a program that is killed leaves all but the
//! last 20 ms. When a write fails it says so once, leaves the file at its last whole block, and goes on counting, so
//! that every packet is in exactly one count.

mod files;
mod pcapng;
mod wall;
mod writer;

pub use files::Rotation;
pub use pcapng::CaptureHeader;

use crate::{Notes, ReportError};
use files::Files;
use mpps_io::packet_ring::{PacketConsumer, RingPacket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use writer::Writer;

/// Longest wait at the end of a run for a reader that takes nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// Options of a capture file: interfaces and rotation.
#[derive(Clone, Debug, Default)]
pub struct CaptureOptions {
    /// The interfaces that the head of each file names, in the order of their ports.
    pub interfaces: Vec<CaptureHeader>,
    /// Size at which the next file begins, and number of files to keep; `None`: one file.
    pub rotation: Option<Rotation>,
}

/// Returns a capture file of these packets, each with its time in ns since 1970.
pub fn pcapng_of(header: CaptureHeader, packets: impl Iterator<Item = (u64, Vec<u8>)>) -> Vec<u8> {
    let mut encoder = pcapng::Encoder::new(&[header]);
    for (time_ns, bytes) in packets {
        let packet = RingPacket {
            time_ns,
            wire_len: bytes.len() as u32,
            tag: 0,
        };
        encoder.packet(time_ns, packet, &bytes);
    }
    encoder.bytes().to_vec()
}

/// Counts of the lanes, for the file's statistics block; a file of several interfaces has no such block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureTotals {
    /// Packets received.
    pub received: u64,
    /// Packets that the filter took.
    pub taken: u64,
    /// Packets that the kernel or device dropped before they were received, and those that found the ring full.
    pub dropped: u64,
}

/// Results of the writer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureEnd {
    /// Packets written, whole.
    pub written: u64,
    /// Packets taken from the rings and not written, because a write had failed.
    pub dropped: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Existing files, oldest first.
    pub files: Vec<PathBuf>,
    /// Files removed because there were more than the number to keep.
    pub removed: u64,
    /// Reason why writing ended early.
    pub failure: Option<String>,
}

/// The writing thread.
#[derive(Debug)]
pub struct CaptureWriter {
    /// `None` after the end was requested.
    thread: Option<(JoinHandle<CaptureEnd>, mpsc::Sender<CaptureTotals>)>,
    reader_gone: Arc<AtomicBool>,
    begun: Arc<AtomicBool>,
}

impl CaptureWriter {
    /// Opens `path`, and empties it when the run begins ([`CaptureWriter::begin`]) or a packet is written; `-` is
    /// standard output; a FIFO is written once somebody reads it. Packets are taken from `rings` until all producers
    /// are gone. A write error is reported in `notes`, once.
    ///
    /// # Errors
    /// When the file can't be opened, or the thread not be started.
    pub fn create(
        path: &Path,
        options: CaptureOptions,
        rings: Vec<PacketConsumer>,
        notes: Notes,
    ) -> Result<Self, ReportError> {
        let files = Files::create(path, options.interfaces, options.rotation, PATIENCE)?;
        let reader_gone = Arc::new(AtomicBool::new(false));
        let (totals, told) = mpsc::channel();
        let begun = Arc::new(AtomicBool::new(false));
        let writer = Writer::new(files, rings, notes, Arc::clone(&reader_gone), Arc::clone(&begun));
        let thread = mpps_sys::thread::spawn("capture", move || writer.run(&told))
            .map_err(|e| ReportError::io("start the thread that writes", path, e))?;
        Ok(Self {
            thread: Some((thread, totals)),
            reader_gone,
            begun,
        })
    }

    /// Returns a function that signals the start of the run to the writer: the file then gets its head.
    pub fn begin(&self) -> impl Fn() + Send + use<> {
        let begun = Arc::clone(&self.begun);
        move || begun.store(true, Ordering::Relaxed)
    }

    /// Set once the pipe's reader has gone: nobody will ever read what is captured from then on.
    pub fn reader_gone(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.reader_gone)
    }

    /// Writes what is left, once all producers are gone, and ends the file with its counts. Waits for as long as there
    /// is progress.
    pub fn finish(mut self, totals: CaptureTotals) -> CaptureEnd {
        let ended = self.thread.take().and_then(|(thread, told)| {
            // A thread that has panicked receives nothing.
            let _ = told.send(totals);
            thread.join().ok()
        });
        ended.unwrap_or_else(|| CaptureEnd {
            failure: Some("the writing thread failed".to_owned()),
            ..CaptureEnd::default()
        })
    }
}

impl Drop for CaptureWriter {
    /// Waits for the thread, which removes the file of a run that never began. The thread then writes nothing, so it
    /// does not wait for a reader.
    fn drop(&mut self) {
        if let Some((thread, totals)) = self.thread.take() {
            drop(totals);
            if !self.begun.load(Ordering::Relaxed) {
                let _ = thread.join();
            }
        }
    }
}
