#![no_main]

use mpps_pages::document::{Found, files, find, runs};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(Found::Run(summary)) = find(bytes) {
        let document = runs::document(&[runs::Run::new("run.json", summary)]);
        files(&document).expect("plain names");
    }
});
