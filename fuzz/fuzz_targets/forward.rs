#![no_main]

#[path = "../../crates/wire/tests/common/mod.rs"]
mod common;

libfuzzer_sys::fuzz_target!(|frame: &[u8]| common::checks::forward_holds(frame));
