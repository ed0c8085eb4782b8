#![no_main]

use mpps_serve::request::{Names, Parsed, parse};
use std::net::{IpAddr, Ipv4Addr};

// What a client sends to the metrics and the live page: no panic, and what is answered names this host.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let local = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
    let allowed = ["bench1.lab"].map(|name| name.parse().expect("a name"));
    let names = Names {
        local,
        allowed: &allowed,
    };
    let Parsed::Whole(request) = parse(bytes, names) else { return };
    assert!(request.path.starts_with('/') && !request.path.contains(['?', '#', ' ', '\r', '\n']));
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let ours = ["localhost", "127.", "::", "192.0.2.7", "bench1.lab"];
    assert!(text.contains("host:") && ours.iter().any(|name| text.contains(name)));
});
