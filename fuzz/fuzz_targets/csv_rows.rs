#![no_main]

use mpps_pages::document::{files, runs};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(rows) = mpps_pages::rows_of(bytes) {
        let run = runs::Run::new("run.json", serde_json::Value::Null).with_rows(rows);
        files(&runs::document(&[run])).expect("plain names");
    }
});
