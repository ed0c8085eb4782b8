#![no_main]

use mpps_sys::perf::record::{Record, Records};

// The records of a sampled thread's ring, whatever is in it: no panic, no more addresses than bytes.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for record in Records(bytes) {
        if let Record::Place(place) = record {
            assert!(place.kernel <= place.stack.len() && place.stack.len() <= bytes.len() / 8);
        }
    }
});
