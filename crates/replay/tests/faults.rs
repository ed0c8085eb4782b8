//! Faults of files, made by hand: each is named with its place, and all packets before it are whole.

mod common;

use common::checks::{capture_holds, read};
use common::files::{MICROS, NANOS, Order, Pcap, Pcapng, frame};
use mpps_replay::{Selection, link_name};
use std::io::{self, Read};

/// Reads two whole packets, and returns the line of what follows them.
fn behind_two(bytes: &[u8]) -> String {
    capture_holds(bytes);
    let (kept, _, error) = read(bytes, &Selection::default());
    assert_eq!(kept.len(), 2, "{error:?}");
    assert_eq!((&kept[0].0, &kept[1].0), (&frame(60, 1), &frame(61, 2)));
    error.expect("a fault").to_string()
}

fn line(bytes: &[u8]) -> String {
    capture_holds(bytes);
    let (kept, _, error) = read(bytes, &Selection::default());
    assert!(kept.is_empty());
    error.expect("a fault").to_string()
}

fn pcap() -> Pcap {
    let mut file = Pcap::new(Order::Little, MICROS);
    file.packet(5, 0, &frame(60, 1), 60).packet(5, 1, &frame(61, 2), 61);
    file
}

/// 177 bytes: header, 16 + 60, 16 + 61.
const BEHIND_PCAP: &str = "packet 3 at byte 177: ";

fn pcapng() -> Pcapng {
    let mut file = Pcapng::new(Order::Big);
    file.interface(1, 0, &[]).interface(113, 0, &[]);
    file.packet(false, 0, 5, &frame(60, 1), 60)
        .packet(false, 0, 6, &frame(61, 2), 61);
    file
}

fn behind_pcapng() -> String {
    format!("packet 3 at byte {}: ", pcapng().bytes.len())
}

#[test]
fn what_is_no_capture_file_is_refused_with_what_it_is() {
    assert_eq!(line(b""), "the file is empty: want pcap or pcapng");
    assert_eq!(
        line(b"GIF89a..."),
        "no capture file, it begins with 47 49 46 38: want pcap or pcapng, plain or gzipped"
    );
    assert!(line(b"\xa1\xb2").starts_with("no capture file, it begins with a1 b2:"));
    assert_eq!(
        line(b"\x28\xb5\x2f\xfd...."),
        "compressed by zstd: want pcap or pcapng, plain or gzipped: zstd -d FILE"
    );
    assert!(line(b"snoop\0\0\0").starts_with("a file of snoop"));
    let mut old = pcap().bytes;
    old[6] = 3;
    assert_eq!(line(&old), "pcap of version 2.3: want 2.4");
    let mut new = Pcapng::new(Order::Little).bytes;
    new[12] = 2;
    assert_eq!(line(&new), "pcapng of version 2.0: want 1.0");
    new[8] = 0;
    assert!(line(&new).starts_with("packet 1 at byte 0: a section with the byte order 0x1a2b3c00"));
}

#[test]
fn other_link_types_are_refused_by_name_and_interface() {
    let raw = Pcap::of_link(Order::Big, MICROS, 101).bytes;
    assert_eq!(
        line(&raw),
        "packet 1 at byte 0: interface 0 has link type 101 (raw): want Ethernet"
    );
    let mut file = pcapng();
    file.packet(false, 1, 7, &[0; 60], 60);
    let want = "interface 1 has link type 113 (linux_sll): want Ethernet";
    assert_eq!(behind_two(&file.bytes), behind_pcapng() + want);
    let names = [0, 9, 105, 127, 276, 9999].map(link_name);
    assert_eq!(
        names,
        [
            "null",
            "ppp",
            "ieee802_11",
            "ieee802_11_radiotap",
            "linux_sll2",
            "unknown"
        ]
    );
}

#[test]
fn lying_lengths_of_pcap() {
    let with = |captured, original| {
        let mut file = pcap();
        file.head(5, 2, captured, original);
        file.bytes.extend([0; 100]);
        behind_two(&file.bytes)
    };
    assert_eq!(
        with(262_145, 262_145),
        BEHIND_PCAP.to_owned() + "a length of 262145 bytes: want 262144 at most"
    );
    assert!(with(u32::MAX, u32::MAX).contains("a length of 4294967295 bytes"));
    assert_eq!(
        with(262_144, 262_144),
        BEHIND_PCAP.to_owned() + "the file ends within it"
    );
    assert!(with(60, 59).starts_with(&(BEHIND_PCAP.to_owned() + "60 bytes captured of 59: ")));
    assert!(with(60, 1 << 24).contains("60 bytes captured of 16777216: "));
}

#[test]
fn garbage_in_the_middle_of_pcap() {
    let mut file = pcap();
    file.bytes.extend([0xee; 40]);
    file.packet(5, 2, &[0; 60], 60);
    assert!(behind_two(&file.bytes).starts_with(BEHIND_PCAP));
    let mut file = pcap();
    file.packet(5, 1_000_000, &[0; 60], 60);
    let want = "part 1000000 of a second of 1000000 parts: want a smaller one";
    assert_eq!(behind_two(&file.bytes), BEHIND_PCAP.to_owned() + want);
    let mut file = Pcap::new(Order::Big, NANOS);
    file.packet(5, 999_999_999, &[0; 60], 60);
    assert_eq!(read(&file.bytes[..], &Selection::default()).0.len(), 1);
}

#[test]
fn lying_lengths_of_pcapng() {
    let mut file = pcapng();
    let order = file.order;
    let at = file.bytes.len();
    file.packet(false, 0, 7, &[0; 60], 60);
    let with = |from: usize, number: u32| {
        let mut bytes = file.bytes.clone();
        bytes[at + from..at + from + 4].copy_from_slice(&order.four(number));
        behind_two(&bytes)
    };
    let len = (file.bytes.len() - at) as u32;
    let behind = behind_pcapng();
    assert!(with(4, len + 1).starts_with(&(behind.clone() + "a block of 121 bytes: want a multiple of 4 from 32")));
    assert!(with(4, 28).contains("a block of 28 bytes"));
    assert!(with(4, u32::MAX - 3).contains("a block of 4294967292 bytes"));
    assert_eq!(with(4, len + 4), behind.clone() + "the file ends within it");
    assert!(with(4, len - 4).contains("a block says that it has 116 bytes at its beginning, and "));
    assert!(with(len as usize - 4, 7).contains("120 bytes at its beginning, and 7 at its end"));
    assert!(with(8, 2).ends_with("it came by interface 2, which the file does not describe"));
    assert!(with(20, 300_000).contains("a length of 300000 bytes"));
    assert!(with(20, 61).contains("61 bytes captured of 60"));
    let mut long = pcapng();
    long.packet(false, 0, 7, &[0; 60], 200);
    long.bytes[at + 20..at + 24].copy_from_slice(&order.four(100));
    assert_eq!(
        behind_two(&long.bytes),
        behind + "its 100 bytes go past the end of its block"
    );
}

#[test]
fn garbage_between_blocks() {
    for garbage in [
        &[0xee; 40][..],
        &[0; 3],
        &[0; 40],
        &[0, 0, 0, 9, 0, 0, 0, 16, 1, 2, 3, 4, 0, 0, 0, 20],
    ] {
        let mut file = pcapng();
        file.bytes.extend(garbage);
        file.packet(false, 0, 7, &[0; 60], 60);
        assert!(behind_two(&file.bytes).starts_with(&behind_pcapng()));
    }
}

#[test]
fn faults_of_interfaces() {
    let mut file = pcapng();
    file.interface(1, 0, &[(9, &[6, 0])]);
    assert!(behind_two(&file.bytes).ends_with("option 9 of an interface has 2 bytes: want another length"));
    let mut file = pcapng();
    file.interface(1, 0, &[(2, b"eth0")]);
    let at = file.bytes.len() - 10;
    file.bytes[at..at + 2].copy_from_slice(&[0xff, 0xff]);
    assert!(behind_two(&file.bytes).ends_with("option 2 of an interface has 65535 bytes: want another length"));
    let mut file = pcapng();
    file.section(Order::Little).simple(&[0; 60], 60);
    assert!(behind_two(&file.bytes).ends_with("it came by interface 0, which the file does not describe"));
    let mut many = Pcapng::new(Order::Little);
    (0..65_537).for_each(|_| _ = many.interface(1, 0, &[]));
    assert!(line(&many.bytes).ends_with("more than 65536 interfaces in a section"));
}

#[test]
fn a_time_that_no_run_reaches() {
    let mut file = Pcapng::new(Order::Big);
    file.interface(1, 0, &[(9, &[0])]);
    file.packet(false, 0, 5, &frame(60, 1), 60)
        .packet(false, 0, 6, &frame(61, 2), 61);
    file.packet(false, 0, 18_446_744_078, &[0; 60], 60);
    file.packet(false, 0, 18_446_744_079, &[0; 60], 60);
    let (kept, facts, error) = read(&file.bytes[..], &Selection::default());
    assert_eq!((kept.len(), facts.span_ns), (3, 18_446_744_073_000_000_000));
    assert!(
        error
            .unwrap()
            .to_string()
            .contains("more than 584 years after the first")
    );
    // As far backwards as there is.
    let mut file = Pcapng::new(Order::Little);
    file.interface(1, 0, &[(9, &[0])])
        .packet(false, 0, u64::MAX, &[0; 60], 60)
        .packet(false, 0, 0, &[0; 60], 60);
    capture_holds(&file.bytes);
    assert_eq!(read(&file.bytes[..], &Selection::default()).1.step_back_ns, u64::MAX);
}

#[test]
fn damaged_gzip() {
    use std::io::Write;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    packed.write_all(&pcap().bytes).unwrap();
    let packed = packed.finish().unwrap();
    // Cut in the checksum at its end: all packets are whole.
    assert_eq!(
        behind_two(&packed[..packed.len() - 3]),
        BEHIND_PCAP.to_owned() + "the file ends within it"
    );
    let mut wrong = packed.clone();
    let at = wrong.len() - 8;
    wrong[at] ^= 1;
    assert!(behind_two(&wrong).starts_with(&(BEHIND_PCAP.to_owned() + "it cannot be read: ")));
    capture_holds(&packed[..20]);
}

/// A source that fails.
struct Failing<'b>(&'b [u8]);

impl Read for Failing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.is_empty() {
            true => Err(io::Error::other("no such luck")),
            false => self.0.read(buffer),
        }
    }
}

#[test]
fn what_the_system_says_is_said_with_the_place() {
    let (kept, _, error) = read(Failing(&pcap().bytes), &Selection::default());
    assert_eq!(kept.len(), 2);
    assert_eq!(
        error.unwrap().to_string(),
        BEHIND_PCAP.to_owned() + "it cannot be read: no such luck"
    );
}
