use super::slot::{BUCKETS, SCHEDULED, most_of};
use super::*;
use crate::Did;
use proptest::prelude::*;

fn put(file: &mut [u8], place: usize, number: u64) {
    file[place..place + 8].copy_from_slice(&number.to_ne_bytes());
}

/// A file as the plug-in leaves it, at 2 clocks a ns, with one lane.
fn file() -> Vec<u8> {
    let mut file = header().to_vec();
    file.resize(HEADER + SLOT, 0);
    for (place, number) in [(24, 1_u32), (64, 4711), (72, 20)] {
        file[place..place + 4].copy_from_slice(&number.to_ne_bytes());
    }
    for (place, number) in [(32, 1000), (40, 5000), (48, 1000 + 2_000_000), (56, 5000 + 1_000_000)] {
        put(&mut file, place, number);
    }
    file[204..211].copy_from_slice(b"DPDK 22");
    let slot = &mut file[HEADER..];
    slot[..4].copy_from_slice(&1_u32.to_ne_bytes());
    slot[4..8].copy_from_slice(&77_i32.to_ne_bytes());
    slot[16..20].copy_from_slice(b"lco\x1b");
    for (place, number) in [
        (96, 1000),
        (104, 1_001_000),
        (112, 100),
        (120, 90),
        (128, 30),
        (136, 200_000),
        (144, 18_000),
        (152, 40_000),
        (160, 3000),
        (184, 10),
        (192, 30),
        (200, 29),
        (208, 100_000),
        (232, 682_000),
        (248, 3),
        (256 + 8 * 3, 10),
        (768 + 8 * 8, 10),
        (SCHEDULED, 2),
        (SCHEDULED + 8, 5),
        (SCHEDULED + 16, 7),
        (SCHEDULED + 40, 6),
        (SCHEDULED + 48, 30),
        (SCHEDULED + 56, 2_000_000),
    ] {
        put(slot, place, number);
    }
    for (place, kind, packets) in [(0, 1, 3_u16), (1, 2, 0), (2, 9, 1)] {
        let at = COUNTS + RECORD * place;
        put(slot, at, 1000 + 200 * place as u64);
        put(slot, at + 8, 100);
        slot[at + 16..at + 20].copy_from_slice(&5_u32.to_ne_bytes());
        slot[at + 20..at + 22].copy_from_slice(&packets.to_ne_bytes());
        slot[at + 24..at + 28].copy_from_slice(&u32::to_ne_bytes(kind));
    }
    file
}

#[test]
fn a_lane_is_read_as_it_was_written() {
    let peer = Peer::read(&file()).expect("a file");
    let lane = &peer.lanes[0];
    assert_eq!((lane.tid, lane.thread.as_str(), lane.polls()), (77, "lco?", 100));
    assert_eq!(
        (lane.receive.calls, lane.receive.packets, lane.receive.total_ns),
        (10, 30, 100_000)
    );
    assert_eq!((lane.first_ns, lane.last_ns), (5000, 5000 + 500_000));
    assert_eq!(lane.receive.p50_ns, 4, "8 clocks");
    // The kind of the third record does not exist.
    assert_eq!(lane.rounds.len(), 2);
    assert_eq!(
        (lane.rounds[0].rx, lane.rounds[0].parts[0], lane.rounds[1].polls),
        (3, 50, 5)
    );
    assert_eq!((lane.rounds[0].at_ns, lane.rounds[1].did), (5000, Did::Polled));
    assert!(
        peer.text()
            .contains("90 of 100 polls were empty (90.00 %), 100 ns each; 3.00 packets")
    );
    assert!(
        peer.text()
            .contains("thread lco? (77): 23 involuntary context switches, 1 voluntary; 2000.0 us on its core"),
        "{}",
        peer.text()
    );
    assert_eq!(peer.json()["threads"][0]["involuntary_switches"], 23);
    assert_eq!(peer.json()["lanes"][0]["packets_per_nonempty_poll"], 3.0);
    assert_eq!(peer.recording().lanes[0].rounds.len(), 2);
}

#[test]
fn what_says_nothing_is_told_apart() {
    let told = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut file = file();
        change(&mut file);
        Peer::read(&file).expect_err("nothing")
    };
    assert_eq!(Peer::read(&[]), Err(PeerError::Foreign));
    assert_eq!(told(&|file| file[8] += 1), PeerError::Foreign);
    assert_eq!(Peer::read(&header()), Err(PeerError::NotLoaded));
    assert_eq!(told(&|file| file[76] = b'x'), PeerError::Refused("x".to_owned()));
    assert_eq!(told(&|file| file.truncate(HEADER)), PeerError::NoPolls);
    assert_eq!(told(&|file| file[HEADER] = 0), PeerError::NoPolls);
}

proptest! {
    #[test]
    fn every_number_is_in_the_bucket_that_it_should_be_in(clocks in any::<u64>()) {
        // As in peer.c.
        let bucket = |clocks: u64| match clocks {
            0..8 => clocks as usize,
            _ => {
                let e = 63 - clocks.leading_zeros() as usize;
                ((e - 2) << 3) | ((clocks >> (e - 3)) & 7) as usize
            }
        };
        let found = bucket(clocks);
        prop_assert!(found < BUCKETS && most_of(found) >= clocks);
        prop_assert!(found == 0 || most_of(found - 1) < clocks);
    }

    #[test]
    fn the_shares_of_a_lane_add_up(parts in prop::array::uniform4(1_u64..1 << 40)) {
        let mut file = file();
        for (place, part) in [136, 144, 208, 232].into_iter().zip(parts) {
            put(&mut file[HEADER..], place, part);
        }
        let rows = Peer::read(&file).expect("a file").stages();
        prop_assert!((rows.iter().map(|row| row.share).sum::<f64>() - 1.0).abs() < 1e-9);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_content_makes_it_panic(
        counts in prop::collection::vec(any::<u8>(), COUNTS),
        header in prop::collection::vec(any::<u8>(), 4080),
        ring in prop::collection::vec(any::<u8>(), 640),
        len in 0_usize..HEADER + 2 * SLOT,
        cut in any::<bool>(),
        known in any::<bool>(),
    ) {
        let mut file = file();
        if known {
            file[24..][..header.len() - 24].copy_from_slice(&header[24..]);
            file[76] = 0;
        }
        file[HEADER + 4..][..counts.len() - 4].copy_from_slice(&counts[4..]);
        // The ring is full of this record.
        file[HEADER + COUNTS..].chunks_mut(ring.len()).for_each(|part| part.copy_from_slice(&ring[..part.len()]));
        if cut {
            file.truncate(len);
        }
        prop_assert!(used(&file) <= FILE);
        if let Ok(peer) = Peer::read(&file) {
            let shares: f64 = peer.stages().iter().map(|row| row.share).sum();
            prop_assert!(shares <= peer.lanes.len() as f64 + 1e-6);
            prop_assert!(peer.recording().lanes.iter().all(|lane| lane.rounds.len() <= RING));
            prop_assert!(!peer.text().chars().any(|c| c.is_control() && c != '\n'));
            prop_assert!(peer.json().is_object());
        }
    }

    #[test]
    fn nor_do_bytes_that_are_no_file(bytes in prop::collection::vec(any::<u8>(), 0..9000)) {
        prop_assert!(Peer::read(&bytes).is_err() || bytes.starts_with(MAGIC));
        let _ = used(&bytes);
    }
}
