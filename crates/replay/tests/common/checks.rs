//! Checks that hold for any bytes.

use mpps_replay::{Capture, Error, Facts, LARGEST, Reader, Selection, footprint};
use std::io::{Cursor, Read};

/// Packet as it was read: its bytes, its original length, its due time.
pub type Kept = (Vec<u8>, u32, u64);

/// Room for what tests read, bytes.
pub const ROOM: u64 = 1 << 30;

/// Reads all that can be read.
pub fn read(file: impl Read, selection: &Selection) -> (Vec<Kept>, Facts, Option<Error>) {
    let mut kept = Vec::new();
    let mut reader = match Reader::new(file, selection.clone()) {
        Ok(reader) => reader,
        Err(error) => return (kept, Facts::default(), Some(error)),
    };
    let error = loop {
        match reader.next_packet() {
            Ok(Some(packet)) => kept.push((packet.bytes.to_vec(), packet.original_len, packet.due_ns)),
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    assert!(matches!(reader.next_packet(), Ok(None)), "nothing follows the end");
    (kept, reader.facts(), error)
}

/// Any bytes are read without a panic; packets are within their bounds and in order; the capture in memory has the same
/// packets and the same fault, however it was read; what was found says so.
pub fn capture_holds(bytes: &[u8]) {
    let all = Selection::default();
    let (kept, facts, error) = read(bytes, &all);
    assert_eq!(facts.packets, kept.len() as u64);
    assert_eq!(facts.read, facts.packets);
    assert_eq!(
        facts.bytes,
        kept.iter().map(|packet| packet.0.len() as u64).sum::<u64>()
    );
    let snapped = |packet: &&Kept| packet.0.len() < packet.1 as usize;
    assert_eq!(facts.snapped, kept.iter().filter(snapped).count() as u64);
    let first = kept.iter().position(|packet| snapped(&packet)).map(|at| at as u64 + 1);
    assert_eq!(facts.first_snapped, first);
    assert!(kept.is_sorted_by_key(|packet| packet.2));
    assert!(
        kept.iter()
            .all(|packet| packet.0.len() <= LARGEST as usize && packet.0.len() <= packet.1 as usize)
    );
    assert_eq!(facts.span_ns, kept.last().map_or(0, |packet| packet.2));
    if let Some(error) = &error {
        assert_eq!(error.packet, kept.len() as u64 + 1);
        let line = error.to_string();
        assert!(!line.is_empty() && !line.contains('\n'), "{line}");
    }
    for capture in [
        Capture::read(&mut Cursor::new(bytes), &all, ROOM),
        Capture::read_once(bytes, &all, ROOM),
    ] {
        let Ok(capture) = capture else {
            assert!(error.is_some() && kept.is_empty());
            continue;
        };
        let same = capture
            .packets()
            .map(|packet| (packet.bytes, packet.original_len, packet.due_ns));
        let want = kept.iter().map(|packet| (&packet.0[..], packet.1, packet.2));
        assert!(same.eq(want));
        assert_eq!(capture.facts(), facts);
        assert_eq!(
            capture.fault().map(Error::to_string),
            error.as_ref().map(Error::to_string)
        );
        assert_eq!(footprint(facts.packets, facts.bytes), facts.bytes + 16 * facts.packets);
    }
}
