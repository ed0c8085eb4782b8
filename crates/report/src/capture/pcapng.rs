//! The blocks of a capture file (draft-ietf-opsawg-pcapng): section header, interface description, enhanced packets,
//! interface statistics.

use mpps_io::packet_ring::{DIRECTION_BITS, RingPacket};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::interface_statistics::{InterfaceStatisticsBlock, InterfaceStatisticsOption};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness};
use std::borrow::Cow;
use std::time::Duration;

/// An interface as the head of each file describes it.
#[derive(Clone, Debug, Default)]
pub struct CaptureHeader {
    /// The interface: `eth1`.
    pub interface: String,
    /// Opened port as the user wrote it: `af_packet:eth1`.
    pub description: String,
    /// The interface's MAC address.
    pub mac: Option<[u8; 6]>,
    /// The link's speed, bit/s.
    pub link_bps: Option<u64>,
    /// Most bytes kept of each packet.
    pub snap_len: u32,
    /// Filter of the packets kept, as text for people; empty: all packets.
    pub filter: String,
    /// Whether packets are UDP payloads, without any known header.
    pub payload: bool,
    /// The program and its version.
    pub application: String,
}

/// Counts of an interface statistics block, since the start of the capture.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    /// Packets received by the capture; `None` until the end of the run, like the system's drops.
    pub(super) received: Option<u64>,
    pub(super) accepted: Option<u64>,
    /// Dropped by the kernel, or by the capture itself.
    pub(super) dropped: Option<u64>,
    pub(super) written: u64,
}

/// Link type of packets without headers (`LINKTYPE_WIRESHARK_UPPER_PDU`): each begins with tags that name its protocol.
const UPPER_PDU: DataLink = DataLink::WIRESHARK_UPPER_PDU;
/// Tag 12, the name of the dissector, of 4 bytes: `data`; then the end of tags.
const DATA: &[u8] = b"\x00\x0c\x00\x04data\x00\x00\x00\x00";

/// Most bytes of a statistics block. This room is kept free at the end of a file.
pub(super) const STATISTICS_BYTES: usize = 12 + 12 + 6 * 12 + 4;

/// Bytes of the block of a packet of a capture, which has neither direction nor tags.
pub(super) fn packet_block_bytes(len: usize) -> usize {
    32 + len.next_multiple_of(4)
}

/// Encodes blocks into memory.
pub(super) struct Encoder {
    writer: PcapNgWriter<Vec<u8>>,
    /// Whether the packets of each interface are payloads.
    payload: Vec<bool>,
    /// Buffer for a payload with its tags in front.
    tagged: Vec<u8>,
}

/// Writing to memory fails only for a block that contradicts what was written before, which ours don't.
const WHOLE: &str = "blocks of one section and interface";

impl Encoder {
    /// Begins a file: the blocks of its head. The first interface names the program.
    pub(super) fn new(interfaces: &[CaptureHeader]) -> Self {
        let os = format!("Linux {}", mpps_sys::probe::kernel_release());
        let section = SectionHeaderBlock {
            endianness: Endianness::Little,
            options: vec![
                SectionHeaderOption::Hardware(Cow::Borrowed(std::env::consts::ARCH)),
                SectionHeaderOption::OS(Cow::Owned(os.clone())),
                SectionHeaderOption::UserApplication(Cow::Owned(
                    interfaces
                        .first()
                        .map(|one| one.application.clone())
                        .unwrap_or_default(),
                )),
            ],
            ..SectionHeaderBlock::default()
        };
        let mut writer = PcapNgWriter::with_section_header(Vec::new(), section).expect(WHOLE);
        for header in interfaces {
            writer.write_pcapng_block(Self::interface(header, &os)).expect(WHOLE);
        }
        Self {
            writer,
            payload: interfaces.iter().map(|one| one.payload).collect(),
            tagged: Vec::new(),
        }
    }

    /// The block that describes an interface.
    fn interface<'h>(header: &'h CaptureHeader, os: &'h str) -> InterfaceDescriptionBlock<'h> {
        let mut options = vec![
            InterfaceDescriptionOption::IfName(Cow::Owned(header.interface.clone())),
            InterfaceDescriptionOption::IfDescription(Cow::Owned(header.description.clone())),
            // Powers of ten: 10^-9 s.
            InterfaceDescriptionOption::IfTsResol(9),
            InterfaceDescriptionOption::IfOs(Cow::Borrowed(os)),
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
        let (linktype, tags) = match header.payload {
            true => (UPPER_PDU, DATA.len() as u32),
            false => (DataLink::ETHERNET, 0),
        };
        InterfaceDescriptionBlock {
            linktype,
            snaplen: header.snap_len.saturating_add(tags),
            options,
        }
    }

    /// Appends a packet received or sent at `real_ns` since 1970.
    pub(super) fn packet(&mut self, real_ns: u64, packet: RingPacket, bytes: &[u8]) {
        let interface_id = u32::from(packet.tag >> DIRECTION_BITS);
        let direction = u32::from(packet.tag) & ((1 << DIRECTION_BITS) - 1);
        let (mut data, mut original_len) = (bytes, packet.wire_len);
        if self.payload.get(interface_id as usize).is_some_and(|payload| *payload) {
            self.tagged.clear();
            self.tagged.extend_from_slice(DATA);
            self.tagged.extend_from_slice(bytes);
            data = &self.tagged;
            original_len += DATA.len() as u32;
        }
        let block = EnhancedPacketBlock {
            interface_id,
            timestamp: Duration::from_nanos(real_ns),
            original_len,
            data: Cow::Borrowed(data),
            options: Vec::from_iter((direction > 0).then_some(EnhancedPacketOption::Flags(direction))),
        };
        self.writer.write_pcapng_block(block).expect(WHOLE);
    }

    /// Appends the counts if there is exactly one interface, to which they belong.
    pub(super) fn statistics(&mut self, counts: &Counts) {
        if self.payload.len() != 1 {
            return;
        }
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

    /// Returns the bytes encoded since the last [`clear`](Self::clear).
    pub(super) fn bytes(&self) -> &[u8] {
        self.writer.get_ref()
    }

    /// Discards the encoded bytes; the file continues.
    pub(super) fn clear(&mut self) {
        self.writer.get_mut().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_io::packet_ring::{Direction, tag};
    use pcap_file::pcapng::{Block, PcapNgReader};

    fn packet(wire_len: u32, tag: u16) -> RingPacket {
        RingPacket {
            time_ns: 0,
            wire_len,
            tag,
        }
    }

    #[test]
    fn packets_of_several_interfaces_say_which_and_which_way_and_payloads_say_that_they_are() {
        let headers = [false, true].map(|payload| CaptureHeader {
            payload,
            snap_len: 100,
            ..CaptureHeader::default()
        });
        let mut encoder = Encoder::new(&headers);
        encoder.packet(1, packet(60, tag(0, Direction::Sent)), &[7; 60]);
        encoder.packet(2, packet(18, tag(1, Direction::Received)), &[8; 18]);
        encoder.statistics(&Counts::default());
        let bytes = encoder.bytes().to_vec();
        let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
        let mut got = Vec::new();
        while let Some(block) = reader.next_block() {
            match block.unwrap() {
                Block::InterfaceDescription(one) => {
                    assert_eq!(one.snaplen, [100, 112][usize::from(one.linktype == UPPER_PDU)])
                }
                Block::EnhancedPacket(one) => {
                    let EnhancedPacketOption::Flags(flags) = one.options[0] else {
                        panic!("flags: {one:?}");
                    };
                    got.push((one.interface_id, flags, one.original_len, one.data.to_vec()));
                }
                other => panic!("no counts of several interfaces: {other:?}"),
            }
        }
        let tagged = [DATA, &[8; 18]].concat();
        assert_eq!(got, [(0, 2, 60, vec![7; 60]), (1, 1, 30, tagged)]);
    }

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
        let mut encoder = Encoder::new(std::slice::from_ref(&header));
        let head = encoder.bytes().len();
        let at = 1_700_000_000_123_456_789;
        encoder.packet(at, packet(1514, 0), &[7; 61]);
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
