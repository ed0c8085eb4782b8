#![no_main]

use mpps_trace::peer::{HEADER, Peer, SLOT, header, used};

// What a traced program has written over the file that the plug-in counts in: no panic, and text without control
// characters.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut file = header().to_vec();
    let (head, slot) = bytes.split_at(bytes.len().min(512));
    for (place, byte) in head.iter().enumerate() {
        file[24 + place] = *byte;
    }
    file.resize(HEADER + SLOT, 0);
    file[HEADER] = 1;
    let room = slot.len().min(SLOT - 4);
    file[HEADER + 4..][..room].copy_from_slice(&slot[..room]);
    let _ = used(&file);
    if let Ok(peer) = Peer::read(&file) {
        assert!(!peer.text().chars().any(|c| c.is_control() && c != '\n'));
        assert_eq!(peer.recording().lanes.len(), peer.lanes.len());
        assert!(peer.json().is_object());
    }
});
