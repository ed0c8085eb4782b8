use super::*;
use crate::plan::{PacketStream, Replay};
use mpps_replay::{Capture, Frames, Preparation, Selection};
use mpps_wire::{Mark, Tag};
use std::io::Cursor;

const SEED: u64 = 7;

/// Frame of UDP with 26 bytes of payload, which ends with a tag of a run.
fn tagged(run: u8) -> [u8; 68] {
    let mut frame = [0; 68];
    frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    (frame[17], frame[22], frame[23]) = (54, 64, 17);
    (frame[35], frame[37], frame[39]) = (8, 9, 34);
    let tag = Tag {
        number: run.into(),
        run,
        flow: 0,
        time_ns: 0,
        mark: Mark::Sent,
    };
    Frames::write_tag(&mut frame, 68, &tag.bytes(SEED));
    frame
}

struct Bytes([u8; 68]);

impl Frame for Bytes {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    fn capacity(&self) -> usize {
        self.0.len()
    }

    fn set_len(&mut self, _: usize) {}
}

#[test]
fn a_capture_of_test_packets_is_known_by_content_whatever_runs_their_tags_have() {
    let frames: Vec<_> = (0..=255).map(tagged).collect();
    let mut file = vec![0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0];
    file.extend([0; 8]);
    file.extend([0, 0, 4, 0, 1, 0, 0, 0]);
    for frame in &frames {
        for number in [0u32, 0, 68, 68] {
            file.extend(number.to_le_bytes());
        }
        file.extend(frame);
    }
    let capture = Capture::read(&mut Cursor::new(file), &Selection::default(), 1 << 20).expect("a capture");
    let replayed = Arc::new(Frames::new(&capture, &Preparation::default()).expect("frames"));
    let stream = PacketStream {
        name: "office".to_owned(),
        back: false,
        group: None,
        tracked: false,
        specs: Vec::new(),
        replay: Some(Replay {
            frames: Arc::clone(&replayed),
            schedule: None,
            peak: 1.0,
            first_flow: 0,
            seed: SEED,
        }),
        sizes: Sizes::One,
        mean_size: 72.0,
        to_next_hop: None,
        from_port: false,
        packet_len: 54,
        ends: Default::default(),
        known_by: KnownBy::Tag,
        fields: Arc::default(),
        load: None,
        lanes: Vec::new(),
    };
    let packets = Packets {
        streams: vec![stream],
        stripped: [false; 2],
        turned: false,
        hops: Vec::new(),
    };
    let flown = [Some(Arc::new(Flown::new(&replayed)))];
    let codec = MixCodec::new(&packets, 9, (&[], MacAddr::BROADCAST, None), false, &flown);
    let sends = codec.captured(0).expect("a capture");
    for (n, frame) in frames.iter().enumerate() {
        let mut sent = [0; 68];
        sends.write(&mut sent, 0, n as u64, 0);
        assert_eq!(sent, *frame);
        let class = codec.classify(&Bytes(sent), &mut Checker::default());
        assert!(matches!(class, Class::Content { stream: 0, .. }), "run {n}: {class:?}");
    }
    // One that was not sent has the run of this test.
    let mut other = tagged(9);
    other[45] ^= 1;
    assert!(matches!(
        codec.classify(&Bytes(other), &mut Checker::default()),
        Class::Corrupt
    ));
}
