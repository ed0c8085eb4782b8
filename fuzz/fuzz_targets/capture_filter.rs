#![no_main]

#[path = "../../crates/wire/tests/common/mod.rs"]
mod common;

use mpps_wire::{CaptureFilter, CaptureProtocol};

libfuzzer_sys::fuzz_target!(|frame: &[u8]| {
    for protocol in [CaptureProtocol::Arp, CaptureProtocol::Icmp, CaptureProtocol::Ip(17)] {
        let filter = CaptureFilter {
            ip: Some(common::frames::DST_V4.into()),
            ports: Some(1..=20_000),
            protocol: Some(protocol),
        };
        common::checks::capture_filter_holds(frame, &filter);
    }
});
