#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(document) = mpps_pages::document::read(bytes) else {
        return;
    };
    let document = mpps_pages::document::redact::document(&document);
    let files = mpps_pages::document::files(&document).expect("names were checked");
    assert!(files.iter().all(|(name, _)| !name.contains('/')));
    assert!(files[1].1.len() <= 500_000, "a page of {} bytes", files[1].1.len());
});
