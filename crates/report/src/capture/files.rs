//! Files of a capture: one file, or several in turn, each complete. They contain whole blocks only, whatever happens.

use super::pcapng::{CaptureHeader, Counts, Encoder, STATISTICS_BYTES, packet_block_bytes};
use super::wall::Wall;
use crate::ReportError;
use crate::output::{Output, Progress, Waiting};
use mpps_io::packet_ring::RingPacket;
use mpps_sys::private;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Encoded bytes gathered before they are written.
const BATCH_BYTES: usize = 256 << 10;
/// Longest wait of a write for a reader before it checks whether the run has ended.
const TICK: Duration = Duration::from_millis(50);

/// When to begin another file, and how many to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Largest size of a file in bytes. A file has at least one packet, even if that packet is larger.
    pub bytes: u64,
    /// Number of newest files to keep; `None`: all.
    pub keep: Option<u64>,
}

/// The file written to, and those before it.
pub(super) struct Files {
    interfaces: Vec<CaptureHeader>,
    path: PathBuf,
    rotation: Option<Rotation>,
    patience: Duration,
    output: Output,
    /// Whether the contents from an earlier run have been removed.
    emptied: bool,
    encoder: Encoder,
    /// End of each block in the encoder's bytes, and whether the block is a packet.
    ends: Vec<(usize, bool)>,
    /// Bytes of this file that are written.
    file_bytes: u64,
    /// Packets of this file, written or encoded.
    file_packets: u64,
    next_number: u64,
    start_ns: u64,
    /// Existing files, oldest first.
    pub(super) paths: VecDeque<PathBuf>,
    /// Files removed because there were more than the number to keep.
    pub(super) removed: u64,
    /// Packets written, in all files.
    pub(super) written: u64,
    /// Bytes written, in all files.
    pub(super) bytes: u64,
}

/// A write that failed, and the number of packets that were not written because of the failure.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: io::Error,
    pub(super) path: String,
    pub(super) lost: u64,
}

impl Files {
    /// Opens the first file. Its old contents stay until something is written. A FIFO is written once somebody reads
    /// it.
    pub(super) fn create(
        path: &Path,
        interfaces: Vec<CaptureHeader>,
        rotation: Option<Rotation>,
        patience: Duration,
    ) -> Result<Self, ReportError> {
        let output = Output::open(path)?;
        if rotation.is_some() && !output.is_regular() {
            let error = io::Error::other("only a file can be followed by another");
            return Err(ReportError::io("rotate", path, error));
        }
        let encoder = Encoder::new(&interfaces);
        Ok(Self {
            path: path.to_owned(),
            ends: vec![(encoder.bytes().len(), false)],
            interfaces,
            rotation,
            patience,
            output,
            emptied: false,
            encoder,
            file_bytes: 0,
            file_packets: 0,
            next_number: 1,
            start_ns: Wall::now_ns(),
            paths: VecDeque::from([path.to_owned()]),
            removed: 0,
            written: 0,
            bytes: 0,
        })
    }

    /// Name of the file written to, for notes.
    pub(super) fn name(&self) -> String {
        self.output.name()
    }

    /// Appends a packet received or sent at `real_ns` since 1970. While a reader takes nothing, `ending` is called to
    /// find out whether the run has ended.
    pub(super) fn packet(
        &mut self,
        real_ns: u64,
        packet: RingPacket,
        bytes: &[u8],
        ending: &dyn Fn() -> bool,
    ) -> Result<(), Failure> {
        if let Some(rotation) = self.rotation {
            let after = self.file_bytes as usize + self.encoder.bytes().len() + packet_block_bytes(bytes.len());
            if self.file_packets > 0 && (after + STATISTICS_BYTES) as u64 > rotation.bytes {
                // If the next file can't be opened, this packet is lost together with those in the buffer.
                self.rotate(rotation, real_ns, ending).map_err(|failure| Failure {
                    lost: failure.lost + 1,
                    ..failure
                })?;
            }
        }
        self.encoder.packet(real_ns, packet, bytes);
        self.file_packets += 1;
        self.ends.push((self.encoder.bytes().len(), true));
        if self.encoder.bytes().len() >= BATCH_BYTES {
            self.flush(ending)?;
        }
        Ok(())
    }

    /// Writes all that is encoded.
    pub(super) fn flush(&mut self, ending: &dyn Fn() -> bool) -> Result<(), Failure> {
        // Time is counted from the end of the run: until then a reader may sleep. An interruption before that is the
        // end.
        let (mut taken, mut waiting) = (0, None);
        let result = loop {
            if !self.emptied {
                match self.output.empty() {
                    Ok(()) => self.emptied = true,
                    Err(error) => break Err(error),
                }
            }
            let rest = &self.encoder.bytes()[taken..];
            if rest.is_empty() {
                break Ok(());
            }
            match self.output.write(rest, TICK) {
                Ok(Progress::Took(bytes)) => {
                    taken += bytes;
                    waiting.iter_mut().for_each(Waiting::progress);
                }
                Ok(Progress::NotReady) => {
                    if !ending() {
                        continue;
                    }
                    let waiting = waiting.get_or_insert_with(|| Waiting::begin(self.patience));
                    if let Some(waited) = waiting.over(self.output.unread()) {
                        let waited = waited.as_secs_f64();
                        break Err(io::Error::other(format!("gave up after nobody read for {waited:.0} s")));
                    }
                }
                Err(error) => break Err(error),
            }
        };
        let whole = self.ends.partition_point(|(end, _)| *end <= taken);
        let packets = self.ends[..whole].iter().filter(|(_, packet)| *packet).count() as u64;
        let lost = self.ends[whole..].iter().filter(|(_, packet)| *packet).count() as u64;
        let kept = self.ends[..whole].last().map_or(0, |(end, _)| *end);
        self.output.take_back((taken - kept) as u64);
        self.written += packets;
        self.file_bytes += kept as u64;
        self.bytes += kept as u64;
        self.encoder.clear();
        self.ends.clear();
        result.map_err(|error| Failure {
            error,
            path: self.name(),
            lost,
        })
    }

    /// Closes the file and begins the next.
    fn rotate(&mut self, rotation: Rotation, now_ns: u64, ending: &dyn Fn() -> bool) -> Result<(), Failure> {
        let written = self.written + self.ends.iter().filter(|(_, packet)| *packet).count() as u64;
        self.close(
            Counts {
                end_ns: now_ns,
                written,
                ..Counts::default()
            },
            ending,
        )?;
        let path = numbered(&self.path, self.next_number);
        self.output = Output::open(&path).map_err(|error| Failure {
            path: path.display().to_string(),
            error: match error {
                ReportError::Io { source, .. } => source,
                other => io::Error::other(other),
            },
            lost: 0,
        })?;
        self.emptied = false;
        self.next_number += 1;
        self.paths.push_back(path);
        while rotation.keep.is_some_and(|keep| self.paths.len() as u64 > keep) {
            if let Some(oldest) = self.paths.pop_front() {
                // A file that somebody else removed needs nothing more. If its name now leads elsewhere, the file there
                // stays.
                let _ = private::remove(&oldest);
                self.removed += 1;
            }
        }
        self.encoder = Encoder::new(&self.interfaces);
        self.ends.push((self.encoder.bytes().len(), false));
        (self.file_bytes, self.file_packets) = (0, 0);
        Ok(())
    }

    /// Removes a file that was made for a run that has not begun.
    pub(super) fn withdraw(&mut self) {
        self.output.withdraw();
    }

    /// Ends the file with its counts.
    pub(super) fn close(&mut self, counts: Counts, ending: &dyn Fn() -> bool) -> Result<(), Failure> {
        self.encoder.statistics(&Counts {
            start_ns: self.start_ns,
            ..counts
        });
        self.ends.push((self.encoder.bytes().len(), false));
        self.flush(ending)
    }

    /// Checks that the last written file still has its name.
    pub(super) fn check_name(&self) -> io::Result<()> {
        self.output.check_name()
    }

    /// Whether the file has a head, so that more may be appended after a failure.
    pub(super) fn can_go_on(&self) -> bool {
        self.output.is_regular() && self.file_bytes > 0
    }
}

/// `trace.pcapng` → `trace.1.pcapng`.
fn numbered(path: &Path, number: u64) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
