//! The blocks of a capture file (draft-ietf-opsawg-pcapng): section header, interface description, enhanced packets,
//! interface statistics.

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::interface_statistics::{InterfaceStatisticsBlock, InterfaceStatisticsOption};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness};
use std::borrow::Cow;
use std::time::Duration;

/// What the head of each file says.
#[derive(Clone, Debug, Default)]
pub struct CaptureHeader {
    /// The interface: `eth1`.
    pub interface: String,
    /// What was opened, as the user wrote it: `af_packet:eth1`.
    pub description: String,
    /// The interface's MAC address.
    pub mac: Option<[u8; 6]>,
    /// The link's speed, bit/s.
    pub link_bps: Option<u64>,
    /// Most bytes kept of a packet.
    pub snap_len: u32,
    /// Which packets were kept, for people; empty: all.
    pub filter: String,
    /// The program and its version.
    pub application: String,
}

/// Counts of an interface statistics block, since the start of the capture.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// Received by the capture, dropped by the system before; known at the end of the run only.
    pub(super) received: Option<u64>,
    pub(super) accepted: Option<u64>,
    /// Dropped by the kernel, or by the capture itself.
    pub(super) dropped: Option<u64>,
    pub(super) written: u64,
}

/// Bytes of a statistics block at the most, to keep room for one.
pub(super) const STATISTICS_BYTES: usize = 12 + 12 + 6 * 12 + 4;

/// Bytes of the block of a packet.
pub(super) fn packet_block_bytes(len: usize) -> usize {
    32 + len.next_multiple_of(4)
}

/// Encodes blocks into memory.
pub(super) struct Encoder {
    writer: PcapNgWriter<Vec<u8>>,
}

/// Writing to memory fails only for a block that contradicts what was written before, which ours don't.
const WHOLE: &str = "blocks of one section and interface";

impl Encoder {
    /// Begins a file: the blocks of its head.
    pub(super) fn new(header: &CaptureHeader) -> Self {
        let os = format!("Linux {}", mpps_sys::probe::kernel_release());
        let section = SectionHeaderBlock {
            endianness: Endianness::Little,
            options: vec![
                SectionHeaderOption::Hardware(Cow::Borrowed(std::env::consts::ARCH)),
                SectionHeaderOption::OS(Cow::Owned(os.clone())),
                SectionHeaderOption::UserApplication(Cow::Owned(header.application.clone())),
            ],
            ..SectionHeaderBlock::default()
        };
        let mut options = vec![
            InterfaceDescriptionOption::IfName(Cow::Owned(header.interface.clone())),
            InterfaceDescriptionOption::IfDescription(Cow::Owned(header.description.clone())),
            // Powers of ten: 10^-9 s.
            InterfaceDescriptionOption::IfTsResol(9),
            InterfaceDescriptionOption::IfOs(Cow::Owned(os)),
        ];
        if let Some(mac) = header.mac {
            options.push(InterfaceDescriptionOption::IfMacAddr(Cow::Owned(mac.to_vec())));
        }
        if let Some(bps) = header.link_bps {
            options.push(InterfaceDescriptionOption::IfSpeed(bps));
        }
        if !header.filter.is_empty() {
            options.push(InterfaceDescriptionOption::Comment(Cow::Owned(format!(
                "taken: {}",
                header.filter
            ))));
        }
        let interface = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: header.snap_len,
            options,
        };
        let mut writer = PcapNgWriter::with_section_header(Vec::new(), section).expect(WHOLE);
        writer.write_pcapng_block(interface).expect(WHOLE);
        Self { writer }
    }

    /// Appends a packet received at `real_ns` since 1970.
    pub(super) fn packet(&mut self, real_ns: u64, wire_len: u32, bytes: &[u8]) {
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_nanos(real_ns),
            original_len: wire_len,
            data: Cow::Borrowed(bytes),
            options: Vec::new(),
        };
        self.writer.write_pcapng_block(block).expect(WHOLE);
    }

    /// Appends the counts.
    pub(super) fn statistics(&mut self, counts: &Counts) {
        // The upper half of a time comes first (section 4.6); the crate writes these three as one little-endian number.
        let time = |ns: u64| ns.rotate_left(32);
        let mut options = vec![
            InterfaceStatisticsOption::IsbStartTime(time(counts.start_ns)),
            InterfaceStatisticsOption::IsbEndTime(time(counts.end_ns)),
        ];
        options.extend(counts.received.map(InterfaceStatisticsOption::IsbIfRecv));
        options.extend(counts.accepted.map(InterfaceStatisticsOption::IsbFilterAccept));
        options.extend(counts.dropped.map(InterfaceStatisticsOption::IsbOsDrop));
        options.push(InterfaceStatisticsOption::IsbUsrDeliv(counts.written));
        let block = InterfaceStatisticsBlock {
            interface_id: 0,
            timestamp: time(counts.end_ns),
            options,
        };
        self.writer.write_pcapng_block(block).expect(WHOLE);
    }

    /// What was encoded and not cleared.
    pub(super) fn bytes(&self) -> &[u8] {
        self.writer.get_ref()
    }

    /// Forgets what was encoded; the file goes on.
    pub(super) fn clear(&mut self) {
        self.writer.get_mut().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_file::pcapng::{Block, PcapNgReader};

    #[test]
    fn what_is_encoded_reads_back_with_its_lengths_and_times() {
        let header = CaptureHeader {
            interface: "eth1".to_owned(),
            snap_len: 96,
            filter: "--port 53".to_owned(),
            mac: Some([2, 0, 0, 0, 0, 1]),
            link_bps: Some(10_000_000_000),
            ..CaptureHeader::default()
        };
        let mut encoder = Encoder::new(&header);
        let head = encoder.bytes().len();
        let at = 1_700_000_000_123_456_789;
        encoder.packet(at, 1514, &[7; 61]);
        assert_eq!(encoder.bytes().len() - head, packet_block_bytes(61));
        let counts = Counts {
            start_ns: at,
            end_ns: at + 5,
            received: Some(3),
            accepted: Some(2),
            dropped: Some(1),
            written: 1,
        };
        encoder.statistics(&counts);
        assert_eq!(encoder.bytes().len() - head - packet_block_bytes(61), STATISTICS_BYTES);
        // The time's upper half first, each half little-endian, behind type, length and interface.
        let block = &encoder.bytes()[head + packet_block_bytes(61)..];
        let word = |at: usize| u64::from(u32::from_le_bytes(block[at..at + 4].try_into().unwrap()));
        assert_eq!(word(12) << 32 | word(16), at + 5);

        let bytes = encoder.bytes().to_vec();
        let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
        let Block::InterfaceDescription(interface) = reader.next_block().unwrap().unwrap() else {
            panic!("an interface first");
        };
        assert_eq!((interface.linktype, interface.snaplen), (DataLink::ETHERNET, 96));
        assert!(interface.options.contains(&InterfaceDescriptionOption::IfTsResol(9)));
        let Block::EnhancedPacket(packet) = reader.next_block().unwrap().unwrap() else {
            panic!("then a packet");
        };
        assert_eq!(packet.timestamp.as_nanos(), u128::from(at));
        assert_eq!((packet.original_len, &packet.data[..]), (1514, &[7; 61][..]));
        assert!(matches!(reader.next_block(), Some(Ok(Block::InterfaceStatistics(_)))));
        assert!(reader.next_block().is_none());
    }
}
