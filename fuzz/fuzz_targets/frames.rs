#![no_main]

#[path = "../../crates/replay/tests/common/mod.rs"]
mod common;

use common::files::{MICROS, Order, Pcap};
use mpps_replay::{Capture, Preparation, Rewrite, Selection};
use mpps_traffic::{Packet, Vlans};
use std::io::Cursor;

// A byte of choices, the lanes, by how much ports are shifted, a line with the text of changes, and frames, each behind
// its length and the number of bytes that it lacks.
libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some(([choices, lanes, shift], rest)) = input.split_first_chunk() else {
        return;
    };
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let (text, mut rest) = rest.split_at(end);
    let text = std::str::from_utf8(text).ok().and_then(|text| Packet::parse(text).ok());
    let rewrite = text.and_then(|text| Rewrite::of(&text, 7).ok()).unwrap_or_default();
    rest = rest.get(1..).unwrap_or_default();
    let mut file = Pcap::new(Order::Little, MICROS);
    let mut number = 0;
    while let Some(([low, high, lacks], behind)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes([*low, *high]) % 2048).min(behind.len());
        let (frame, behind) = behind.split_at(len);
        file.packet(0, number, frame, len as u32 + u32::from(*lacks));
        (rest, number) = (behind, number + 1);
    }
    let capture = Capture::read(
        &mut Cursor::new(file.bytes),
        &Selection::default(),
        common::checks::ROOM,
    );
    let how = Preparation {
        rewrite: rewrite
            .tagging([Vlans::Set, Vlans::Push, Vlans::Replace, Vlans::Set][usize::from(choices & 3)])
            .shift_ports((*shift).into()),
        tag: choices & 4 > 0,
        pad: choices & 8 > 0,
        lanes: usize::from(lanes % 9),
    };
    common::checks::sent_hold(&capture.expect("a capture"), &how);
});
