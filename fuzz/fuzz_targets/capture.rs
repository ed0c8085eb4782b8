#![no_main]

#[path = "../../crates/replay/tests/common/mod.rs"]
mod common;

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    common::checks::capture_holds(file);
    common::checks::frames_hold(file);
});
