//! Formats, made by hand: each gives the packets that are in it.

mod common;

use common::checks::{ROOM, capture_holds, read};
use common::files::{MICROS, MODIFIED, NANOS, Order, Pcap, Pcapng, frame};
use flate2::Compression;
use flate2::write::GzEncoder;
use mpps_replay::{Capture, Selection};
use std::io::Write;

const ORDERS: [Order; 2] = [Order::Big, Order::Little];

/// Due times of the packets, all of which can be read.
fn dues(bytes: &[u8]) -> Vec<u64> {
    capture_holds(bytes);
    let (kept, _, error) = read(bytes, &Selection::default());
    assert!(error.is_none(), "{error:?}");
    kept.iter().map(|packet| packet.2).collect()
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

#[test]
fn pcap_of_either_order_and_resolution() {
    for order in ORDERS {
        for (magic, unit) in [(MICROS, 1000), (NANOS, 1), (MODIFIED, 1000)] {
            let mut file = Pcap::new(order, magic);
            file.packet(1_700_000_000, 999_999, &frame(60, 1), 60);
            file.packet(1_700_000_001, 1, &frame(96, 2), 1514);
            file.packet(1_700_000_001, 2, &[], 0);
            capture_holds(&file.bytes);
            let (kept, facts, error) = read(&file.bytes[..], &Selection::default());
            assert!(error.is_none(), "{error:?}");
            let second = 1_000_000_000 - 999_999 * unit;
            assert_eq!(kept[0], (frame(60, 1), 60, 0));
            assert_eq!(kept[1], (frame(96, 2), 1514, second + unit));
            assert_eq!(kept[2], (vec![], 0, second + 2 * unit));
            assert_eq!((facts.snapped, facts.first_snapped), (1, Some(2)));
            assert_eq!((facts.shortest, facts.longest, facts.bytes), (0, 96, 156));
        }
    }
}

#[test]
fn pcapng_of_several_sections_and_interfaces() {
    for order in ORDERS {
        let mut file = Pcapng::new(order);
        let offset: i64 = -10;
        let offset = match order {
            Order::Big => offset.to_be_bytes(),
            Order::Little => offset.to_le_bytes(),
        };
        file.interface(1, 0, &[(2, b"eth0"), (0, &[])]);
        file.interface(1, 0, &[(9, &[9]), (14, &offset)]);
        // 2^-20 s.
        file.interface(1, 0, &[(9, &[0x80 | 20]), (1, b"behind")]);
        file.block(5, &[0; 20]);
        file.packet(false, 0, 100_000_000, &frame(61, 1), 61);
        file.packet(true, 1, 110_000_000_500, &frame(62, 2), 62);
        file.block(0x0bad, b"a custom block");
        file.packet(false, 2, (100 << 20) + (1 << 19), &frame(63, 3), 63);
        // Another order, and an interface that is another one.
        let other = if order == Order::Big { Order::Little } else { Order::Big };
        file.section(other).interface(1, 0, &[(9, &[3])]);
        file.packet(false, 0, 101_000, &frame(64, 4), 64);
        capture_holds(&file.bytes);
        let (kept, ..) = read(&file.bytes[..], &Selection::default());
        let lens: Vec<usize> = kept.iter().map(|packet| packet.0.len()).collect();
        assert_eq!(lens, [61, 62, 63, 64]);
        assert!(
            kept.iter()
                .zip(1..)
                .all(|(packet, seed)| packet.0 == frame(packet.0.len(), seed))
        );
        assert_eq!(dues(&file.bytes), [0, 500, 500_000_000, 1_000_000_000]);
    }
}

#[test]
fn simple_packets_are_due_with_the_packet_before_them_and_end_where_the_snap_length_says() {
    let mut file = Pcapng::new(Order::Little);
    file.interface(1, 10, &[]);
    file.simple(&frame(7, 1), 7);
    file.packet(false, 0, 5_000_000, &frame(6, 2), 6);
    file.packet(false, 0, 5_000_003, &frame(6, 3), 6);
    file.simple(&frame(10, 4), 1000);
    file.section(Order::Big).interface(1, 0, &[]);
    file.simple(&frame(13, 5), 13);
    file.simple(&frame(16, 6), 17);
    capture_holds(&file.bytes);
    let (kept, facts, error) = read(&file.bytes[..], &Selection::default());
    assert!(error.is_none(), "{error:?}");
    assert_eq!(facts.untimed, 4);
    assert_eq!(kept[0], (frame(7, 1), 7, 0));
    assert_eq!(kept[3], (frame(10, 4), 1000, 3000));
    assert_eq!(kept[4], (frame(13, 5), 13, 3000));
    assert_eq!(kept[5], (frame(16, 6), 17, 3000));
    assert_eq!((facts.snapped, facts.first_snapped), (2, Some(4)));
}

#[test]
fn frame_check_sequences_are_no_bytes_of_a_packet() {
    // Bit 26: their length is given; from bit 28 on: in words of 2 bytes.
    let mut file = Pcap::of_link(Order::Little, MICROS, 1 | 1 << 26 | 2 << 28);
    file.packet(0, 0, &frame(64, 1), 64)
        .packet(0, 0, &frame(62, 2), 64)
        .packet(0, 0, &frame(50, 3), 64);
    let mut ng = Pcapng::new(Order::Big);
    ng.interface(1, 0, &[(13, &[4])]);
    ng.packet(false, 0, 0, &frame(64, 1), 64)
        .packet(false, 0, 0, &frame(62, 2), 64);
    ng.packet(false, 0, 0, &frame(50, 3), 64);
    for bytes in [file.bytes, ng.bytes] {
        capture_holds(&bytes);
        let (kept, facts, _) = read(&bytes[..], &Selection::default());
        assert_eq!(kept[0], (frame(60, 1), 60, 0));
        assert_eq!(kept[1], (frame(60, 2), 60, 0));
        assert_eq!(kept[2], (frame(50, 3), 60, 0));
        assert_eq!(facts.snapped, 1);
    }
}

#[test]
fn gzipped_files_in_one_piece_or_several() {
    let mut file = Pcap::new(Order::Little, NANOS);
    for i in 0..500 {
        file.packet(7, i, &frame(i as usize % 1500, i as u8), 1500);
    }
    let want = read(&file.bytes[..], &Selection::default()).0;
    let (front, back) = file.bytes.split_at(file.bytes.len() / 3);
    for packed in [gzipped(&file.bytes), [gzipped(front), gzipped(back)].concat()] {
        capture_holds(&packed);
        let (kept, _, error) = read(&packed[..], &Selection::default());
        assert!(error.is_none(), "{error:?}");
        assert_eq!(kept, want);
    }
}

#[test]
fn times_that_go_backwards_are_due_with_the_latest_before_them_and_counted() {
    let mut file = Pcap::new(Order::Little, NANOS);
    for ns in [500, 700, 650, 690, 400, 700, 800] {
        file.packet(1, ns, &[0; 60], 60);
    }
    assert_eq!(dues(&file.bytes), [0, 200, 200, 200, 200, 200, 300]);
    let facts = read(&file.bytes[..], &Selection::default()).1;
    assert_eq!((facts.backwards, facts.step_back_ns, facts.span_ns), (3, 300, 300));
}

#[test]
fn a_selection_counts_packets_of_the_file_and_begins_with_its_first() {
    let mut file = Pcap::new(Order::Little, NANOS);
    for i in 0..10 {
        file.packet(1, i * 100, &frame(60, i as u8), if i == 4 { 61 } else { 60 });
    }
    file.bytes.extend([0xff; 16]);
    let some = Selection {
        numbers: 4..=6,
        ..Selection::default()
    };
    let (kept, facts, error) = read(&file.bytes[..], &some);
    assert!(error.is_none(), "nothing behind the last is read: {error:?}");
    let got: Vec<_> = kept.iter().map(|packet| (packet.0[0], packet.2)).collect();
    assert_eq!(got, [(3, 0), (4, 100), (5, 200)]);
    assert_eq!((facts.packets, facts.read, facts.first_snapped), (3, 6, Some(5)));
    let capture = Capture::read(&file.bytes[..], &some, ROOM).unwrap();
    assert_eq!((capture.len(), capture.get(2).unwrap().due_ns), (3, 200));
    assert_eq!(capture.get(3), None);
}

#[test]
fn packets_take_no_more_memory_than_they_may() {
    let mut file = Pcap::new(Order::Little, NANOS);
    for i in 0..10 {
        file.packet(1, i, &[0; 60], 60);
    }
    let all = Selection::default();
    assert_eq!(Capture::read(&file.bytes[..], &all, 760).unwrap().len(), 10);
    let refused = Capture::read(&file.bytes[..], &all, 759).unwrap_err().to_string();
    assert!(
        refused.starts_with("its packets take 760 bytes of memory, and 759 may be used"),
        "{refused}"
    );
}
