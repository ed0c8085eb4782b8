//! Frames of a capture as they are sent: changed, filled up, tagged, in an order for each lane.
//!
//! A tag takes the last 16 bytes of the innermost payload, and the two bytes before it make up for it: with them each
//! Internet checksum that covers the payload, inner or outer, is what it was. So nothing has to be known of headers,
//! and checksums that were wrong are wrong.

use crate::capture::Capture;
use crate::reader::{LARGEST, Packet};
use crate::rewrite::{NotRewritten, Rewrite};
use mpps_wire::tagged::{has_crc, icmp_error, outer_ip, packet_end, payload_start};
use mpps_wire::{TAG_LEN, eth, headers, random};

/// Bytes at the end of a payload that a tag changes.
pub const TAGGED: usize = TAG_LEN + 2;

/// Frame in the index.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Offset of its bytes, whose fields are as captured if they change with each lap.
    start: u64,
    due_ns: u64,
    /// Bytes stored.
    len: u32,
    /// Number of its length among all.
    size: u16,
    /// End of its tag in the frame as it is sent, and bytes of the payload before [`TAGGED`]; 0: it has no tag.
    tag_end: u32,
    payload: u32,
    /// Frames with a tag before it in its lane and lap.
    tags_before: u32,
}

/// Frame that is sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Place in the capture, from 0, among the packets that were taken.
    pub at: u32,
    /// Lap, from 0.
    pub lap: u64,
}

/// Frames of a lane, in the order of the capture.
#[derive(Debug, Default)]
struct OfLane {
    all: Vec<u32>,
    tagged: Vec<u32>,
}

/// Frames of a capture.
#[derive(Debug)]
pub struct Frames {
    bytes: Box<[u8]>,
    index: Box<[Entry]>,
    /// Lengths, ascending, bytes without frame check sequence.
    lens: Box<[usize]>,
    lanes: Box<[OfLane]>,
    /// Changes that differ from lap to lap.
    by_lap: Option<Rewrite>,
    /// Frames that have a tag.
    tagged: u64,
    sum_of_lens: u64,
    longest_untagged: usize,
}

/// Preparation of frames.
#[derive(Clone, Debug)]
pub struct Preparation {
    /// Changes to headers.
    pub rewrite: Rewrite,
    /// Frames get tags, where they have room.
    pub tag: bool,
    /// Packets that were not captured whole are filled up with zeros.
    pub pad: bool,
    /// Lanes that send; packets of one flow leave by one.
    pub lanes: usize,
    /// Most bytes of frames.
    pub most: u64,
}

impl Default for Preparation {
    /// Changes nothing, for one lane, whatever memory it takes.
    fn default() -> Self {
        Self {
            rewrite: Rewrite::default(),
            tag: false,
            pad: false,
            lanes: 1,
            most: u64::MAX,
        }
    }
}

/// Packet that can't be sent. Its number counts those that were taken of the file, from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// File of which no packet was taken.
    #[error("none of its packets is sent")]
    Empty,
    /// Packet that was not captured whole.
    #[error("packet {number} has {captured} of {original} bytes: want a whole capture, or pad = true")]
    Cut {
        /// Number.
        number: usize,
        /// Bytes captured.
        captured: usize,
        /// Bytes that it had.
        original: u32,
    },
    /// Packet whose headers can't be changed, or that has none.
    #[error("packet {0}: {1}")]
    Headers(usize, NotRewritten),
    /// Field that is to be changed, which none of so many packets has.
    #[error("rewrite: none of its {1} packets has {0}: want fields that they have")]
    Unchanged(String, usize),
    /// Packet that is longer, filled up, than packets are.
    #[error("packet {0} has {1} bytes, filled up: want {LARGEST} at most")]
    Long(usize, u32),
    /// Frames that take more memory than there is: bytes, and those that may be used.
    #[error("its packets take {0} bytes of memory, filled up, and {1} may be used: want fewer packets")]
    Memory(u64, u64),
    /// More lengths than there are numbers for.
    #[error("its packets have more than 65,535 different lengths")]
    Lengths,
}

impl Frames {
    /// Makes frames of a capture's packets.
    ///
    /// # Errors
    /// [`NotSent`].
    pub fn new(capture: &Capture, how: &Preparation) -> Result<Self, NotSent> {
        if capture.is_empty() {
            return Err(NotSent::Empty);
        }
        let fields = how.rewrite.without_tags();
        let growth = how.rewrite.growth() as u64;
        let lens = capture.packets().map(|packet| u64::from(packet.original_len) + growth);
        let takes: u64 = lens.sum();
        if takes > how.most {
            return Err(NotSent::Memory(takes, how.most));
        }
        let by_lap = fields.changes_by_lap().then(|| fields.clone());
        let mut frames = Self {
            bytes: Box::default(),
            index: Box::default(),
            lens: Box::default(),
            lanes: Box::default(),
            by_lap,
            tagged: 0,
            sum_of_lens: 0,
            longest_untagged: 0,
        };
        let (mut bytes, mut index, mut all) = (Vec::new(), Vec::with_capacity(capture.len()), Vec::new());
        let mut lanes = Vec::new();
        lanes.resize_with(how.lanes.max(1), OfLane::default);
        let (mut room, mut reached) = (Vec::new(), 0);
        for (at, packet) in capture.packets().enumerate() {
            let stored = padded(&packet, at + 1, how.pad)?;
            room.clear();
            room.extend_from_slice(&stored);
            room.resize(stored.len() + how.rewrite.growth(), 0);
            let refused = |why| NotSent::Headers(at + 1, why);
            let len = how.rewrite.apply_tags(&mut room, stored.len()).map_err(refused)?;
            let start = bytes.len();
            bytes.extend_from_slice(&room[..len]);
            reached |= fields.reaches(&room[..len]);
            fields.apply(&mut room, len, 0).map_err(refused)?;
            let sent = &room[..len];
            if frames.by_lap.is_none() {
                bytes[start..].copy_from_slice(sent);
            }
            let (tag_end, payload) = if how.tag { place_of_tag(sent) } else { None }.unwrap_or_default();
            frames.tagged += u64::from(tag_end > 0);
            frames.sum_of_lens += len as u64;
            let has_tag = matches!(sent.get(12..14), Some([0x81, 0] | [0x88, 0xa8]));
            frames.longest_untagged = frames
                .longest_untagged
                .max(len - if has_tag { eth::TAG_LEN } else { 0 });
            let lane = lane_of(sent, lanes.len());
            let lane = &mut lanes[lane];
            let tags_before = lane.tagged.len() as u32;
            lane.all.push(at as u32);
            if tag_end > 0 {
                lane.tagged.push(at as u32);
            }
            all.push(len);
            index.push(Entry {
                start: start as u64,
                due_ns: packet.due_ns,
                len: len as u32,
                size: 0,
                tag_end: tag_end as u32,
                payload: payload as u32,
                tags_before,
            });
        }
        if let Some(name) = fields.unreached(reached) {
            return Err(NotSent::Unchanged(name.to_owned(), all.len()));
        }
        let mut lens = all.clone();
        lens.sort_unstable();
        lens.dedup();
        if lens.len() > usize::from(u16::MAX) {
            return Err(NotSent::Lengths);
        }
        for (entry, len) in index.iter_mut().zip(&all) {
            entry.size = lens.binary_search(len).unwrap_or_default() as u16;
        }
        // Fewer flows than lanes leave some lanes without.
        lanes.retain(|lane| !lane.all.is_empty());
        (frames.bytes, frames.index, frames.lens) = (bytes.into(), index.into(), lens.into());
        frames.lanes = lanes.into();
        Ok(frames)
    }

    /// Returns the number of frames.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns whether there is no frame, which is never so.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Returns the number of frames that have a tag.
    pub fn tagged(&self) -> u64 {
        self.tagged
    }

    /// Returns the mean length, bytes without frame check sequence.
    pub fn mean_len(&self) -> f64 {
        self.sum_of_lens as f64 / self.len().max(1) as f64
    }

    /// Returns the different lengths, ascending, bytes without frame check sequence.
    pub fn lens(&self) -> &[usize] {
        &self.lens
    }

    /// Returns the bytes of the longest frame, one VLAN tag of each left out.
    pub fn longest_untagged(&self) -> usize {
        self.longest_untagged
    }

    /// Returns the number of lanes that have frames.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Returns how many of the first `packets` packets of the replay leave by a lane, lap after lap.
    pub fn of_lane(&self, lane: usize, packets: u64) -> u64 {
        let Some(own) = self.lanes.get(lane) else { return 0 };
        let all = self.index.len() as u64;
        let (laps, rest) = (packets / all, packets % all);
        let of_rest = own.all.partition_point(|at| u64::from(*at) < rest);
        laps.saturating_mul(own.all.len() as u64).saturating_add(of_rest as u64)
    }

    /// Returns frame `n` of a lane, from 0 on, over all laps.
    #[inline]
    pub fn sent(&self, lane: usize, n: u64) -> Sent {
        nth(&self.lanes[lane].all, n)
    }

    /// Returns the frame of a lane that has tag `n`, from 0 on, over all laps; `None`: there is none.
    #[inline]
    pub fn with_tag(&self, lane: usize, n: u64) -> Option<Sent> {
        let own = &self.lanes.get(lane)?.tagged;
        (!own.is_empty()).then(|| nth(own, n))
    }

    /// Returns the number of a frame's tag among those of its lane; `None`: it has none.
    #[inline]
    pub fn tag_number(&self, lane: usize, of: Sent) -> Option<u64> {
        let entry = &self.index[of.at as usize];
        let of_lap = self.lanes[lane].tagged.len() as u64;
        (entry.tag_end > 0).then(|| of.lap * of_lap + u64::from(entry.tags_before))
    }

    /// Returns a frame as it is sent in the first lap, without its tag.
    pub fn first_lap(&self, at: usize) -> Vec<u8> {
        let mut frame = vec![0; self.lens[usize::from(self.index[at].size)]];
        self.write(Sent { at: at as u32, lap: 0 }, &mut frame);
        frame
    }

    /// Returns the lap of a frame, and when it is due in it, ns after the first of the lap.
    #[inline]
    pub fn due(&self, of: Sent) -> (u64, u64) {
        (of.lap, self.index[of.at as usize].due_ns)
    }

    /// Returns the number of a frame's length among [`Frames::lens`].
    #[inline]
    pub fn size(&self, of: Sent) -> usize {
        self.index[of.at as usize].size.into()
    }

    /// Returns the end of a frame's tag; `None`: it has none.
    #[inline]
    pub fn tag_end(&self, of: Sent) -> Option<usize> {
        Some(self.index[of.at as usize].tag_end as usize).filter(|end| *end > 0)
    }

    #[inline]
    fn stored(&self, entry: &Entry) -> &[u8] {
        let start = entry.start as usize;
        &self.bytes[start..start + entry.len as usize]
    }

    /// Writes a frame without its tag to the beginning of `buffer`, which has room for the longest, and returns its
    /// length.
    #[inline]
    pub fn write(&self, of: Sent, buffer: &mut [u8]) -> usize {
        let entry = &self.index[of.at as usize];
        let stored = self.stored(entry);
        buffer[..stored.len()].copy_from_slice(stored);
        match &self.by_lap {
            None => stored.len(),
            // All frames were changed once. Lengths are the same in each lap.
            Some(rewrite) => rewrite.apply(buffer, stored.len(), of.lap).unwrap_or(stored.len()),
        }
    }

    /// Writes a tag that ends at `end`, and makes up for it in the two bytes before.
    #[inline]
    pub fn write_tag(frame: &mut [u8], end: usize, tag: &[u8; TAG_LEN]) {
        let Some(place) = end.checked_sub(TAGGED).and_then(|start| frame.get_mut(start..end)) else {
            return;
        };
        let [sum, new] = [sum(place), sum(tag)];
        place[..2].copy_from_slice(&without(sum, new).to_be_bytes());
        place[2..].copy_from_slice(tag);
    }

    /// Returns whether the bytes in front of a tag are those of the frame's payload. `before`: all of a packet before
    /// its tag, whatever headers it has; `tag`: the tag.
    #[inline]
    pub fn has_payload(&self, of: Sent, before: &[u8], tag: &[u8; TAG_LEN]) -> bool {
        let entry = &self.index[of.at as usize];
        let stored = self.stored(entry);
        let end = entry.tag_end as usize;
        let payload = &stored[end - TAGGED - entry.payload as usize..end];
        let (own, place) = payload.split_at(entry.payload as usize);
        let Some((rest, made_up)) = before.split_last_chunk::<2>() else {
            return false;
        };
        // The marks that a reflector exchanges change no sum.
        rest.ends_with(own) && u16::from_be_bytes(*made_up) == without(sum(place), sum(tag))
    }
}

/// Returns frame `n` of frames that are sent lap after lap.
#[inline]
fn nth(own: &[u32], n: u64) -> Sent {
    let all = own.len() as u64;
    Sent {
        at: own[(n % all) as usize],
        lap: n / all,
    }
}

/// Returns a number that packets of the same content have, whatever routers and address translation changed in them: of
/// IP the protocol, the identification and the payload, without ports and checksum; of other frames all behind MAC
/// addresses and VLAN tags.
pub fn content_of(frame: &[u8]) -> u64 {
    let Some(ip) = outer_ip(frame).and_then(|at| headers::at(frame, at)) else {
        let tags = (0..4).take_while(|tag| {
            let kind = frame.get(12 + tag * 4..14 + tag * 4);
            matches!(kind, Some([0x81, 0] | [0x88, 0xa8]))
        });
        let behind = frame.get(12 + tags.count() * 4..).unwrap_or_default();
        // Devices fill up short frames.
        let end = behind.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        return hash(&behind[..end], 0);
    };
    let id = if ip.v6 {
        &[][..]
    } else {
        frame.get(ip.l3 + 4..ip.l3 + 6).unwrap_or_default()
    };
    let end = packet_end(frame);
    let start = ip.l4.unwrap_or(ip.l3 + if ip.v6 { 40 } else { 20 });
    let payload = frame.get(start..end.max(start)).unwrap_or_default();
    // What is left out: ports, or the number of a query, and the checksum.
    let (parts, rest): (&[std::ops::Range<usize>], usize) = match (ip.protocol, ip.l4.is_some()) {
        (6, true) => (&[4..16, 18..20], 20),
        (17, true) => (&[4..6, 8..8], 8),
        (1 | 58, true) => (&[0..2, 6..8], 8),
        _ => (&[], 0),
    };
    let mut content = hash(id, u64::from(ip.protocol));
    for part in parts {
        content = hash(payload.get(part.clone()).unwrap_or_default(), content);
    }
    hash(payload.get(rest..).unwrap_or_default(), content)
}

fn hash(bytes: &[u8], seed: u64) -> u64 {
    // Four sums that do not wait for each other.
    const ODD: [u64; 4] = [
        0x9E37_79B9_7F4A_7C15,
        0xBF58_476D_1CE4_E5B9,
        0x94D0_49BB_1331_11EB,
        0xD6E8_FEB8_6659_FD93,
    ];
    let (blocks, rest) = bytes.as_chunks::<32>();
    let mut sums = ODD;
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for ((sum, word), odd) in sums.iter_mut().zip(words).zip(ODD) {
            let product = u128::from(*sum ^ u64::from_le_bytes(*word)) * u128::from(odd);
            *sum = (product as u64) ^ (product >> 64) as u64;
        }
    }
    let first = random(seed, bytes.len() as u64);
    let all = sums.iter().fold(first, |hash, sum| random(hash ^ sum, 1));
    let (words, rest) = rest.as_chunks::<8>();
    let all = words
        .iter()
        .fold(all, |hash, word| random(hash ^ u64::from_le_bytes(*word), 2));
    rest.iter().fold(all, |hash, byte| random(hash ^ u64::from(*byte), 3))
}

/// Returns the bytes of a packet, filled up to its length.
fn padded<'p>(packet: &Packet<'p>, number: usize, pad: bool) -> Result<std::borrow::Cow<'p, [u8]>, NotSent> {
    let original = packet.original_len as usize;
    match (packet.bytes.len() >= original, pad) {
        (true, _) => Ok(packet.bytes.into()),
        (false, true) if packet.original_len > LARGEST => Err(NotSent::Long(number, packet.original_len)),
        (false, true) => {
            let mut bytes = packet.bytes.to_vec();
            bytes.resize(original, 0);
            Ok(bytes.into())
        }
        (false, false) => Err(NotSent::Cut {
            number,
            captured: packet.bytes.len(),
            original: packet.original_len,
        }),
    }
}

/// Returns the end of a tag, and the bytes of payload before [`TAGGED`]; `None` without room, where a checksum is none
/// of the Internet's, and in reports of ICMP: one that ends with a tag quotes a test packet.
fn place_of_tag(frame: &[u8]) -> Option<(usize, usize)> {
    let (start, end) = (payload_start(frame)?, packet_end(frame));
    let payload = end.checked_sub(start)?.checked_sub(TAGGED)?;
    (!has_crc(frame) && icmp_error(frame).is_none()).then_some((end, payload))
}

/// Returns the lane of a frame: the same for both directions of a flow.
fn lane_of(frame: &[u8], lanes: usize) -> usize {
    if lanes == 1 {
        return 0;
    }
    let mut flow = 0u64;
    let mut mix = |a: &[u8], b: &[u8]| {
        let number = |bytes: &[u8]| {
            bytes.chunks(8).fold(1, |hash, chunk| {
                random(chunk.iter().fold(0, |n, b| n << 8 | u64::from(*b)), hash)
            })
        };
        // A sum does not depend on the order of the two.
        flow = random(number(a).wrapping_add(number(b)), flow);
    };
    match outer_ip(frame).and_then(|at| headers::at(frame, at)) {
        Some(ip) => {
            let ends = if ip.v6 { (8, 16) } else { (12, 4) };
            let end = |at: usize| frame.get(ip.l3 + at..ip.l3 + at + ends.1).unwrap_or_default();
            mix(end(ends.0), end(ends.0 + ends.1));
            mix(&[ip.protocol], &[]);
            if let Some(ports) = ip.l4.filter(|_| matches!(ip.protocol, 6 | 17 | 132) && !ip.fragment) {
                let port = |at: usize| frame.get(ports + at..ports + at + 2).unwrap_or_default();
                mix(port(0), port(2));
            }
        }
        None => mix(
            frame.get(..6).unwrap_or_default(),
            frame.get(6..eth::HEADER_LEN - 2).unwrap_or_default(),
        ),
    }
    (flow % lanes as u64) as usize
}

/// Returns the sum of 16-bit words, in one's complement. An odd byte is the upper one of its word.
#[inline]
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| {
        let low = word.get(1).copied().unwrap_or(0);
        u32::from(word[0]) << 8 | u32::from(low)
    });
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// Returns the word that, added to `part`, has the sum `all`.
#[inline]
fn without(all: u16, part: u16) -> u16 {
    let sum = u32::from(all) + u32::from(!part);
    ((sum & 0xffff) + (sum >> 16)) as u16
}
