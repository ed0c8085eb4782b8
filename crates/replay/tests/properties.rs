//! Properties of what is read: any bytes, any cut, any file that another writer made.

mod common;

use common::checks::{capture_holds, frames_hold, read};
use common::files::{MICROS, MODIFIED, NANOS, Order, Pcap, Pcapng, frame};
use mpps_replay::Selection;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::{DataLink, Endianness, TsResolution};
use proptest::prelude::*;
use std::borrow::Cow;
use std::io::Write;
use std::time::Duration;

/// Packets: length, time after the one before (ns), bytes that were cut off.
type Sketch = Vec<(usize, u32, u32)>;

fn sketch() -> impl Strategy<Value = Sketch> {
    prop::collection::vec((0usize..300, 0u32..2_000_000_000, 0u32..3), 1..40)
}

fn pcap_of(sketch: &Sketch, order: Order, magic: u32) -> Vec<u8> {
    let mut file = Pcap::new(order, magic);
    let (mut ns, unit) = (0, if magic == NANOS { 1 } else { 1000 });
    for (i, (len, gap, cut)) in sketch.iter().enumerate() {
        ns += u64::from(*gap);
        let part = ns % 1_000_000_000 / unit;
        let bytes = frame(*len, i as u8);
        file.packet((ns / 1_000_000_000) as u32, part as u32, &bytes, *len as u32 + cut);
    }
    file.bytes
}

fn pcapng_of(sketch: &Sketch, order: Order) -> Vec<u8> {
    let mut file = Pcapng::new(order);
    file.interface(1, 0, &[(9, &[9])]).interface(1, 0, &[]);
    let mut ns = 0;
    for (i, (len, gap, cut)) in sketch.iter().enumerate() {
        ns += u64::from(*gap);
        let bytes = frame(*len, i as u8);
        let original = *len as u32 + cut;
        match i % 5 {
            0 => file.packet(false, 0, ns, &bytes, original),
            1 => file.packet(true, 1, ns / 1000, &bytes, original),
            2 => file.simple(&bytes, *len as u32),
            3 => file.packet(true, 0, ns, &bytes, original),
            _ => file
                .block(0x4000_0000, &bytes)
                .packet(false, 1, ns / 1000, &bytes, original),
        };
        if i == 20 {
            file.section(order).interface(1, 0, &[(9, &[9])]).interface(1, 0, &[]);
        }
    }
    file.bytes
}

/// Reads what a cut leaves: packets are the first of all, and nothing but the cut is at fault.
fn cut_holds(bytes: &[u8], cut: usize) {
    let (all, ..) = read(bytes, &Selection::default());
    let cut = &bytes[..cut % (bytes.len() + 1)];
    capture_holds(cut);
    let (kept, _, error) = read(cut, &Selection::default());
    assert!(all.starts_with(&kept));
    let line = error.map_or_else(String::new, |error| error.to_string());
    let short = cut.len() < 4 && (line.contains("empty") || line.contains("no capture file"));
    assert!(
        line.is_empty() || line.ends_with("the file ends within it") || short,
        "{line}"
    );
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        capture_holds(&bytes);
    }

    #[test]
    fn any_bytes_behind_a_good_beginning(
        sketch in sketch(), bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..4, big: bool,
    ) {
        let order = if big { Order::Big } else { Order::Little };
        let good = match kind {
            0 => pcap_of(&sketch, order, MICROS),
            1 => pcap_of(&sketch, order, MODIFIED),
            _ => pcapng_of(&sketch, order),
        };
        let whole = [&good[..], &bytes].concat();
        capture_holds(&whole);
        prop_assert!(read(&whole[..], &Selection::default()).0.starts_with(&read(&good[..], &Selection::default()).0));
    }

    #[test]
    fn some_bytes_changed(sketch in sketch(), changes in prop::collection::vec((any::<u16>(), any::<u8>()), 1..8)) {
        for mut file in [pcap_of(&sketch, Order::Little, NANOS), pcapng_of(&sketch, Order::Little)] {
            for (at, byte) in &changes {
                let at = usize::from(*at) % file.len();
                file[at] = *byte;
            }
            capture_holds(&file);
            frames_hold(&file);
        }
    }

    #[test]
    fn any_cut_leaves_the_first_packets(sketch in sketch(), cut: u16, big: bool) {
        let order = if big { Order::Big } else { Order::Little };
        cut_holds(&pcap_of(&sketch, order, NANOS), cut.into());
        cut_holds(&pcapng_of(&sketch, order), cut.into());
    }

    #[test]
    fn any_cut_of_a_gzipped_file_leaves_the_first_packets(sketch in sketch(), cut: u16, level in 0u32..10) {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(level));
        packed.write_all(&pcapng_of(&sketch, Order::Little)).unwrap();
        cut_holds(&packed.finish().unwrap(), cut.into());
    }

    #[test]
    fn a_selection_has_the_packets_at_their_numbers(sketch in sketch(), first in 0u64..45, last in 0u64..45) {
        let file = pcapng_of(&sketch, Order::Little);
        let all = read(&file[..], &Selection::default()).0;
        let some = read(&file[..], &Selection { numbers: first..=last, ..Selection::default() }).0;
        let numbered = all.iter().zip(1..).filter(|(_, number)| (first..=last).contains(number));
        prop_assert!(some.iter().map(|packet| &packet.0).eq(numbered.map(|(packet, _)| &packet.0)));
        prop_assert_eq!(some.first().map_or(0, |packet| packet.2), 0);
    }

    #[test]
    fn pcap_of_another_writer_is_read_as_it_was_written(sketch in sketch(), big: bool, nanos: bool) {
        let header = PcapHeader {
            endianness: if big { Endianness::Big } else { Endianness::Little },
            ts_resolution: if nanos { TsResolution::NanoSecond } else { TsResolution::MicroSecond },
            ..PcapHeader::default()
        };
        let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
        let (mut at, mut want) = (Duration::from_secs(1_700_000_000), Vec::new());
        let first = at + Duration::from_nanos(sketch[0].1.into());
        let round = |at: Duration| if nanos { at.as_nanos() } else { at.as_nanos() / 1000 * 1000 };
        for (i, (len, gap, cut)) in sketch.iter().enumerate() {
            at += Duration::from_nanos((*gap).into());
            let (bytes, original) = (frame(*len, i as u8), *len as u32 + cut);
            writer.write_packet(&PcapPacket::new(at, original, &bytes)).unwrap();
            want.push((bytes, original, (round(at) - round(first)) as u64));
        }
        let file = writer.into_writer();
        capture_holds(&file);
        prop_assert_eq!(read(&file[..], &Selection::default()).0, want);
    }

    #[test]
    fn pcapng_of_another_writer_is_read_as_it_was_written(sketch in sketch(), big: bool) {
        let order = if big { Endianness::Big } else { Endianness::Little };
        let mut writer = PcapNgWriter::with_endianness(Vec::new(), order).unwrap();
        let interface = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: 0,
            options: vec![InterfaceDescriptionOption::IfTsResol(9)],
        };
        writer.write_pcapng_block(interface).unwrap();
        let (mut at, mut want) = (Duration::from_secs(1_700_000_000), Vec::new());
        let first = at + Duration::from_nanos(sketch[0].1.into());
        for (i, (len, gap, cut)) in sketch.iter().enumerate() {
            at += Duration::from_nanos((*gap).into());
            let (bytes, original_len) = (frame(*len, i as u8), *len as u32 + cut);
            let data = Cow::Borrowed(&bytes[..]);
            let block = EnhancedPacketBlock { interface_id: 0, timestamp: at, original_len, data, options: vec![] };
            writer.write_pcapng_block(block).unwrap();
            want.push((bytes, original_len, (at - first).as_nanos() as u64));
        }
        let file = writer.into_inner();
        capture_holds(&file);
        prop_assert_eq!(read(&file[..], &Selection::default()).0, want);
    }
}

/// A source that gives a few bytes at a time.
struct Drops<'b>(&'b [u8], usize);

impl std::io::Read for Drops<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = self.1.min(buffer.len());
        self.0.read(&mut buffer[..len])
    }
}

#[test]
fn packets_larger_than_what_is_read_at_once_and_files_larger_than_the_buffer() {
    let lens = [262_144, 1, 262_143, 262_144, 60, 200_000, 0, 262_144, 100_000];
    let (mut pcap, mut pcapng) = (Pcap::new(Order::Little, NANOS), Pcapng::new(Order::Big));
    pcapng.interface(1, 0, &[]);
    for (i, len) in lens.into_iter().enumerate() {
        let bytes = frame(len, i as u8);
        pcap.packet(1, i as u32, &bytes, len as u32);
        pcapng
            .block(0x4000_0000, &frame(i * 150_000, 1))
            .packet(false, 0, 7, &bytes, len as u32);
    }
    for file in [pcap.bytes, pcapng.bytes] {
        for at_once in [7, 4096, 100_000, usize::MAX] {
            let (kept, _, error) = read(Drops(&file, at_once), &Selection::default());
            assert!(error.is_none(), "{error:?}");
            let whole = |(i, packet): (usize, &common::checks::Kept)| packet.0 == frame(lens[i], i as u8);
            assert!(kept.len() == lens.len() && kept.iter().enumerate().all(whole));
        }
    }
}
