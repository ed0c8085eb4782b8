#![no_main]

use mpps_report::document::{files, runs};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(rows) = mpps_report::rows_of(bytes) {
        let run = runs::Run::new("run.json", serde_json::Value::Null).with_rows(rows);
        files(&runs::document(&[run])).expect("plain names");
    }
});
