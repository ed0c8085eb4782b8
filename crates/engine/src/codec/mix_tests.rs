use super::*;
use crate::plan::{PacketStream, Replay};
use mpps_replay::{Capture, Frames, Preparation, Selection};
use mpps_wire::image::Data;
use mpps_wire::{ImageSpec, Mark, Tag};
use std::io::Cursor;

const SEED: u64 = 7;

/// Bytes that came, and their flow.
struct Came(Vec<u8>, u32);

impl Frame for Came {
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

    fn flow(&self) -> Option<u32> {
        Some(self.1)
    }
}

#[test]
fn payloads_of_sockets_are_known_by_their_tags_and_damaged_ones_by_their_socket() {
    let stream = |first_flow: u32, frame_len: usize| PacketStream {
        kernel_headers: 42,
        name: first_flow.to_string(),
        back: false,
        group: None,
        tracked: false,
        specs: vec![Arc::new(ImageSpec {
            headers: Vec::new(),
            frame_len,
            fields: Vec::new(),
            sums: Vec::new(),
            data: Data::Verified,
            tagged: true,
            varied: 0,
            seed: SEED,
            run: 0,
            flows: 2,
            first_flow,
        })],
        replay: None,
        sizes: Sizes::One,
        mean_size: 64.0,
        to_next_hop: None,
        from_port: false,
        packet_len: 46,
        ends: Default::default(),
        known_by: KnownBy::Tag,
        fields: Arc::default(),
        load: None,
        lanes: Vec::new(),
    };
    let packets = Packets {
        streams: vec![stream(0, 18), stream(2, 200)],
        stripped: [false; 2],
        turned: false,
        hops: Vec::new(),
    };
    let codec = |run| MixCodec::new(&packets, run, (&[], MacAddr::BROADCAST, None), false, &[]).of_payloads();
    let own = codec(3);
    let payload = |run, image: usize, flow| {
        let codec = codec(run);
        let mut bytes = vec![0; codec.image(image).frame_len()];
        codec.image(image).write(&mut bytes, Place { flow, number: 5 }, 77);
        bytes
    };
    let class = |bytes: Vec<u8>| own.classify(&Came(bytes, 0), &mut Checker::default());
    for (image, flow, number) in [(0, 1, 1), (1, 0, 2), (1, 1, 3)] {
        let found = class(payload(3, image, flow));
        assert!(
            matches!(found, Class::Test { flow, stamp } if flow == number && (stamp.seq, stamp.time_ns) == (5, 77)),
            "{found:?}"
        );
    }
    assert!(matches!(class(payload(4, 0, 0)), Class::Foreign(Foreign::OtherRun)));
    let mut wrong_data = payload(3, 1, 0);
    wrong_data[100] ^= 1;
    let longer = [&[0; 2], &payload(3, 0, 0)[..]].concat();
    for bytes in [
        wrong_data,
        longer,
        payload(3, 1, 0)[..199].to_vec(),
        vec![0; 18],
        Vec::new(),
    ] {
        assert!(matches!(class(bytes), Class::Corrupt));
    }
    let damaged = [0, 1, 2, 3].map(|flow| own.damaged(&Came(Vec::new(), flow)));
    assert_eq!(damaged, [0, 0, 1, 1].map(Some));
}

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
        kernel_headers: 0,
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
        let class = codec.classify(&Came(sent.to_vec(), 0), &mut Checker::default());
        assert!(matches!(class, Class::Content { stream: 0, .. }), "run {n}: {class:?}");
    }
    // One that was not sent has the run of this test.
    let mut other = tagged(9);
    other[45] ^= 1;
    assert!(matches!(
        codec.classify(&Came(other.to_vec(), 0), &mut Checker::default()),
        Class::Corrupt
    ));
}
