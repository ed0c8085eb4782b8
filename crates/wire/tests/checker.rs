//! The checker with a memory says of each frame what the one without says.

use mpps_wire::*;
use proptest::prelude::*;

mod common;
use common::frames::*;

const SEED: u64 = 77;

/// A payload as a sender makes it.
fn payload(seq: u64, data: usize) -> Vec<u8> {
    let mut payload = vec![0; STAMP_LEN + data];
    Stamp { seq, time_ns: seq * 3 }.write(&mut payload);
    fill_data(SEED, seq, &mut payload[STAMP_LEN..]);
    payload
}

proptest! {
    /// Whatever bytes or length are changed of packets whose headers are remembered, or are not.
    #[test]
    fn a_checker_with_a_memory_sees_in_each_frame_what_one_without_sees(
        data in 0usize..160,
        changes in prop::collection::vec((0usize..200, any::<u8>(), 0usize..8, any::<u64>(), any::<bool>()), 1..40),
        no_checksum: bool,
    ) {
        let mut checker = Checker::default();
        let mut known = 0;
        for (at, byte, cut, seq, verify) in changes {
            for (_, mut frame) in all_udp(&payload(seq >> 2, data)) {
                if let (true, Some(checksum)) = (no_checksum, frame.get_mut(40..42)) {
                    // That of the plain kind; somewhere else in the others.
                    checksum.fill(0);
                }
                let mut changed = frame.clone();
                changed.truncate(frame.len() - cut);
                if let Some(place) = changed.get_mut(at) {
                    *place = byte;
                }
                // Right twice before the next change, so that there is something to remember and to know.
                for mine in [changed, frame.clone(), frame] {
                    let checked = check_udp(&mine, SEED, verify);
                    if let Some(seen) = checker.check(&mine, SEED, verify) {
                        known += 1;
                        let checked = checked.unwrap();
                        let ports = (checked.packet.src_port, checked.packet.dst_port);
                        prop_assert_eq!((seen.src_port, seen.dst_port), ports);
                        prop_assert_eq!(Some(seen.stamp), checked.stamp);
                        prop_assert_eq!((seen.checksum_ok, seen.data_ok), (checked.checksum_ok, checked.data_ok));
                    } else if let Ok(checked) = checked {
                        checker.remember(&mine, &checked.packet);
                    }
                }
            }
        }
        prop_assert!(known > 0);
    }

    #[test]
    fn arbitrary_bytes_are_never_known(frame in prop::collection::vec(any::<u8>(), 0..100), packet in 0usize..2) {
        let mut checker = Checker::default();
        prop_assert_eq!(checker.check(&frame, SEED, true), None);
        // Even after a packet that belongs to another frame was remembered with it.
        let other = if packet == 0 { udp_v4(&[], &[], &payload(1, 2)) } else { udp_v6(&[], &[], &payload(1, 2)) };
        checker.remember(&frame, &parse_udp(&other).unwrap());
        let _ = checker.check(&frame, SEED, true);
        checker.remember(&other, &parse_udp(&other).unwrap());
        prop_assert_eq!(checker.check(&frame, SEED, true), None);
    }
}
