//! Files on disk, read back block by block.

use super::*;
use pcap_file::pcapng::{Block, PcapNgReader};
use proptest::prelude::*;

const PATIENCE: Duration = Duration::from_millis(100);

fn never() -> bool {
    false
}

/// One interface.
fn one() -> Vec<CaptureHeader> {
    vec![CaptureHeader::default()]
}

fn of_len(wire_len: u32) -> RingPacket {
    RingPacket {
        time_ns: 0,
        wire_len,
        tag: 0,
    }
}

/// Packets of a file that must be whole: times and bytes; and whether it ends with its counts.
fn read(path: &Path) -> (Vec<(u128, Vec<u8>)>, bool) {
    let bytes = std::fs::read(path).unwrap();
    let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
    let (mut packets, mut counted) = (Vec::new(), false);
    while let Some(block) = reader.next_block() {
        match block.expect("a whole block") {
            Block::EnhancedPacket(packet) => packets.push((packet.timestamp.as_nanos(), packet.data.to_vec())),
            Block::InterfaceStatistics(_) => counted = true,
            _ => {}
        }
    }
    (packets, counted)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn rotated_files_are_complete_and_hold_every_packet_in_order(
        lengths in prop::collection::vec(0usize..2000, 1..80), limit in 600u64..6000, keep in prop::option::of(1u64..5),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcapng");
        let rotation = Rotation { bytes: limit, keep };
        let mut files = Files::create(&path, one(), Some(rotation), PATIENCE).unwrap();
        let packet = |i: usize| (i as u128, vec![i as u8; lengths[i]]);
        for i in 0..lengths.len() {
            files.packet(i as u64, of_len(9), &packet(i).1, &never).unwrap();
        }
        files.close(Counts::default(), &never).unwrap();
        prop_assert_eq!(files.written, lengths.len() as u64);
        let kept: Vec<_> = files.paths.iter().collect();
        prop_assert!(keep.is_none_or(|keep| kept.len() as u64 <= keep));
        prop_assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), kept.len());
        let mut all = Vec::new();
        for path in kept {
            let (packets, counted) = read(path);
            prop_assert!(counted && !packets.is_empty());
            let size = std::fs::metadata(path).unwrap().len();
            prop_assert!(size <= limit || packets.len() == 1, "{} bytes of {}", size, limit);
            all.extend(packets);
        }
        let first = lengths.len() - all.len();
        prop_assert!(first == 0 || files.removed > 0);
        prop_assert_eq!(all, (first..lengths.len()).map(packet).collect::<Vec<_>>());
    }
}

#[test]
fn a_full_device_is_an_error_that_counts_what_it_lost() {
    let mut files = Files::create(Path::new("/dev/full"), one(), None, PATIENCE).unwrap();
    files.packet(1, of_len(60), &[0; 60], &never).unwrap();
    let failure = files.flush(&never).unwrap_err();
    assert_eq!((failure.lost, files.written), (1, 0));
    assert_eq!(failure.error.kind(), io::ErrorKind::StorageFull);
    assert!(!files.can_go_on());
}

#[test]
fn a_reader_that_never_comes_is_given_up_once_the_run_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    let mut files = Files::create(&fifo, one(), None, PATIENCE).unwrap();
    files.packet(1, of_len(60), &[0; 60], &never).unwrap();
    let failure = files.flush(&|| true).unwrap_err();
    assert_eq!(failure.lost, 1);
    assert!(failure.error.to_string().contains("nobody read"), "{}", failure.error);
}

#[test]
fn only_a_file_is_rotated() {
    let rotation = Some(Rotation {
        bytes: 1000,
        keep: None,
    });
    let error = Files::create(Path::new("/dev/null"), one(), rotation, PATIENCE).err();
    assert!(error.unwrap().to_string().contains("only a file"));
}

#[test]
fn a_number_goes_in_front_of_the_extension() {
    let cases = [
        ("a/t.pcapng", "a/t.2.pcapng"),
        ("t", "t.2"),
        ("a.b/t.x.pcap", "a.b/t.x.2.pcap"),
    ];
    for (path, want) in cases {
        assert_eq!(numbered(Path::new(path), 2), Path::new(want));
    }
}

#[test]
fn what_somebody_else_has_put_in_place_of_an_old_file_stays() {
    if !rustix::process::geteuid().is_root() {
        return println!("SKIPPED: only root can make files of somebody else");
    }
    let folder = tempfile::tempdir().unwrap();
    // Theirs: they may move each file in it.
    std::os::unix::fs::chown(folder.path(), Some(65_534), None).unwrap();
    let path = folder.path().join("a.pcapng");
    let rotation = Rotation {
        bytes: 600,
        keep: Some(1),
    };
    let mut files = Files::create(&path, one(), Some(rotation), PATIENCE).unwrap();
    let packet = |files: &mut Files| files.packet(0, of_len(9), &[0; 300], &never).unwrap();
    packet(&mut files);
    std::fs::rename(&path, folder.path().join("moved")).unwrap();
    std::fs::write(&path, "theirs").unwrap();
    std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
    packet(&mut files);
    assert_eq!(files.removed, 1);
    assert_eq!(std::fs::read(&path).unwrap(), b"theirs");
}
