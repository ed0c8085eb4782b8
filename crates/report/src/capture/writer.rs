//! The writing thread's loop.

use super::files::{Failure, Files};
use super::pcapng::Counts;
use super::wall::Wall;
use super::{CaptureEnd, CaptureTotals};
use crate::error::reason;
use crate::{Notes, units};
use mpps_io::packet_ring::PacketConsumer;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Shortest and longest sleep while the rings are empty. Each sleep is longer than the one before.
const NAP: Duration = Duration::from_millis(1);
const LONG_NAP: Duration = Duration::from_millis(20);
/// Most packets moved before the thread checks everything else.
const ROUND: usize = 16_384;
/// Interval at which the thread checks whether the time of day was set.
const WALL_EVERY: Duration = Duration::from_millis(100);

pub(super) struct Writer {
    rings: Vec<PacketConsumer>,
    wall: Wall,
    sink: Sink,
    /// Whether the run has begun: only then may an earlier run's file be emptied.
    begun: Arc<AtomicBool>,
    /// A packet's bytes, from ring to file.
    packet: Vec<u8>,
}

/// The files until a write fails, and the number of packets lost after that.
struct Sink {
    files: Files,
    notes: Notes,
    reader_gone: Arc<AtomicBool>,
    failure: Option<String>,
    dropped: u64,
}

impl Sink {
    /// Runs `work` on the files. After a failure it does nothing, and `packets` count as lost.
    fn attempt(&mut self, packets: u64, work: impl FnOnce(&mut Files) -> Result<(), Failure>) {
        if self.failure.is_some() {
            self.dropped += packets;
        } else if let Err(failure) = work(&mut self.files) {
            self.fail(&failure);
        }
    }

    /// Records an error if the packets are no longer in a file of the requested name.
    fn check_name(&mut self) {
        if let (None, Err(error)) = (&self.failure, self.files.check_name()) {
            let written = units::count(self.files.written);
            let text = format!("{}: {error}: {written} packets were written to it", self.files.name());
            self.notes.tell(text.clone());
            self.failure = Some(text);
        }
    }

    #[cold]
    fn fail(&mut self, failure: &Failure) {
        self.dropped += failure.lost;
        let gone = failure.error.kind() == io::ErrorKind::BrokenPipe;
        self.reader_gone.store(gone, Ordering::Relaxed);
        let what = if gone {
            "the reader has gone".to_owned()
        } else {
            reason(&failure.error)
        };
        let written = units::count(self.files.written);
        let text = format!("{}: {what} after {written} packets", failure.path);
        self.notes.tell(format!("{text}; nothing more is written"));
        self.failure = Some(text);
    }
}

impl Writer {
    pub(super) fn new(
        files: Files,
        rings: Vec<PacketConsumer>,
        notes: Notes,
        reader_gone: Arc<AtomicBool>,
        begun: Arc<AtomicBool>,
    ) -> Self {
        Self {
            rings,
            wall: Wall::new(),
            sink: Sink {
                files,
                notes,
                reader_gone,
                failure: None,
                dropped: 0,
            },
            begun,
            packet: Vec::new(),
        }
    }

    /// Writes until every ring is closed and empty.
    pub(super) fn run(mut self, totals: &mpsc::Receiver<CaptureTotals>) -> CaptureEnd {
        let (mut nap, mut looked) = (NAP, Instant::now());
        let mut told = None;
        loop {
            // A run that has not begun never requests the end: old contents stay, and a file that was made for it is
            // removed.
            if told.is_none() && !self.begun.load(Ordering::Relaxed) && self.sink.files.written == 0 {
                match totals.try_recv() {
                    Ok(totals) => told = Some(totals),
                    Err(mpsc::TryRecvError::Disconnected) => {
                        self.sink.files.withdraw();
                        return CaptureEnd::default();
                    }
                    Err(mpsc::TryRecvError::Empty) => {}
                }
            }
            // Checked before the rings are read: all packets that a producer has pushed are visible once it is gone.
            let closed = self.rings.iter().all(PacketConsumer::closed);
            let moved = self.drain();
            if moved < ROUND {
                let rings = &self.rings;
                let ending = || rings.iter().all(PacketConsumer::closed);
                if self.begun.load(Ordering::Relaxed) {
                    self.sink.attempt(0, |files| files.flush(&ending));
                }
                if closed {
                    break;
                }
                nap = if moved > 0 { NAP } else { (nap * 2).min(LONG_NAP) };
                std::thread::sleep(nap);
            }
            if looked.elapsed() >= WALL_EVERY {
                self.wall.refresh();
                looked = Instant::now();
            }
        }
        match told.map_or_else(|| totals.recv(), Ok) {
            // A run that has not begun never requests the end: old contents stay.
            Err(_) if !self.begun.load(Ordering::Relaxed) && self.sink.files.written == 0 => {
                self.sink.files.withdraw();
                CaptureEnd::default()
            }
            totals => self.end(totals.ok()),
        }
    }

    /// Moves packets from the rings to the files, oldest first; returns how many, [`ROUND`] at the most.
    fn drain(&mut self) -> usize {
        for moved in 0..ROUND {
            let Some(ring) = next_ring(&mut self.rings) else {
                return moved;
            };
            let Some(packet) = self.rings[ring].pop(&mut self.packet) else {
                return moved;
            };
            let (rings, bytes) = (&self.rings, &self.packet);
            let ending = || rings.iter().all(PacketConsumer::closed);
            let real_ns = self.wall.real_ns(packet.time_ns);
            self.sink
                .attempt(1, |files| files.packet(real_ns, packet, bytes, &ending));
        }
        ROUND
    }

    /// Writes the counts at the end of the file, if there is room even after a failure.
    fn end(mut self, totals: Option<CaptureTotals>) -> CaptureEnd {
        let sink = &mut self.sink;
        let counts = Counts {
            end_ns: Wall::now_ns(),
            received: totals.map(|t| t.received),
            accepted: totals.map(|t| t.taken),
            dropped: totals.map(|t| t.dropped + sink.dropped),
            written: sink.files.written,
            ..Counts::default()
        };
        if sink.failure.is_none() {
            sink.attempt(0, |files| files.close(counts, &|| true));
            sink.check_name();
        } else if sink.files.can_go_on() {
            // A full disk may or may not have room for the last block.
            let _ = sink.files.close(counts, &|| true);
        }
        CaptureEnd {
            written: sink.files.written,
            dropped: sink.dropped,
            bytes: sink.files.bytes,
            files: sink.files.paths.iter().cloned().collect(),
            removed: sink.files.removed,
            failure: sink.failure.take(),
        }
    }
}

/// Returns the ring with the oldest packet. `None` if there is none, or if another lane may be about to push an earlier
/// packet. A ring that fills up does not wait for that.
fn next_ring(rings: &mut [PacketConsumer]) -> Option<usize> {
    if let [ring] = rings {
        return ring.next_time().map(|_| 0);
    }
    let (mut oldest, mut certain_until) = (None, u64::MAX);
    for (i, ring) in rings.iter_mut().enumerate() {
        let seen_ns = ring.seen_ns();
        match ring.next_time() {
            Some(time) if oldest.is_none_or(|(_, least)| time < least) => oldest = Some((i, time)),
            Some(_) => {}
            None => certain_until = certain_until.min(seen_ns),
        }
    }
    let (i, time) = oldest?;
    (time <= certain_until || rings[i].half_full()).then_some(i)
}

#[cfg(test)]
mod tests {
    use super::super::pcapng::CaptureHeader;
    use super::super::{CaptureOptions, CaptureWriter};
    use super::*;
    use mpps_io::packet_ring::{RingPacket, packet_ring};
    use pcap_file::pcapng::{Block, PcapNgReader};

    fn at(time_ns: u64) -> RingPacket {
        RingPacket {
            time_ns,
            wire_len: 64,
            tag: 0,
        }
    }

    #[test]
    fn a_capture_that_never_begins_leaves_no_new_file_though_its_lanes_are_still_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcapng");
        let (_producer, consumer) = packet_ring(1 << 20);
        let writer = CaptureWriter::create(&path, CaptureOptions::default(), vec![consumer], Notes::new()).unwrap();
        assert!(path.exists());
        drop(writer);
        assert!(!path.exists());
    }

    #[test]
    fn packets_of_several_rings_are_written_in_order_of_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcapng");
        let (mut producers, consumers): (Vec<_>, Vec<_>) = (0..3).map(|_| packet_ring(1 << 20)).unzip();
        let options = CaptureOptions {
            interfaces: vec![CaptureHeader::default()],
            rotation: None,
        };
        let writer = CaptureWriter::create(&path, options, consumers, Notes::new()).unwrap();
        for i in 0..3000u64 {
            let producer = &mut producers[(i * i % 3) as usize];
            assert!(producer.push(at(i * 1000), &i.to_le_bytes()));
            if i % 5 == 0 {
                // As a lane does: what it takes from now on is not earlier.
                producers.iter_mut().for_each(|p| p.publish(i * 1000));
            }
            if i % 500 == 0 {
                std::thread::yield_now();
            }
        }
        drop(producers);
        let totals = CaptureTotals {
            received: 4000,
            taken: 3000,
            dropped: 0,
        };
        let end = writer.finish(totals);
        assert_eq!((end.written, end.dropped, end.failure), (3000, 0, None));
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len() as u64, end.bytes);
        let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
        let mut next = 0u64;
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(packet) = block.unwrap() {
                assert_eq!(packet.data[..], next.to_le_bytes());
                next += 1;
            }
        }
        assert_eq!(next, 3000);
    }

    #[test]
    fn a_ring_waits_for_a_slower_one_but_not_when_it_fills_up() {
        let (mut a, ring_a) = packet_ring(4096);
        let (b, ring_b) = packet_ring(4096);
        let mut rings = [ring_a, ring_b];
        assert!(a.push(at(10), &[0; 8]));
        a.publish(10);
        assert_eq!(next_ring(&mut rings), None);
        while a.push(at(11), &[0; 64]) {}
        a.publish(11);
        assert_eq!(next_ring(&mut rings), Some(0));
        drop(b);
        while rings[0].pop(&mut Vec::new()).is_some() {
            assert_eq!(next_ring(&mut rings).unwrap_or(0), 0);
        }
    }
}
