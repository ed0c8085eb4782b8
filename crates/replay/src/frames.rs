//! Frames of a capture as they are sent: changed, filled up, tagged, in an order for each lane.
//!
//! A tag takes the last 16 bytes of the innermost payload, and the two bytes before it make up for it: with them each
//! Internet checksum that covers the payload, inner or outer, is what it was. So nothing has to be known of headers,
//! and checksums that were wrong are wrong.

use crate::ahead::{Ahead, NotRead, Opened};
use crate::capture::Capture;
use crate::reader::{Facts, LARGEST, Packet, Reader};
use crate::rewrite::{NotRewritten, Rewrite};
use crate::selection::Selection;
use mpps_wire::tagged::{has_crc, icmp_error, outer_ip, packet_end, payload_start};
use mpps_wire::{TAG_LEN, eth, headers, random};
use std::collections::BTreeSet;

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

/// Place of a frame among those of a lane, over all laps. The default is that of the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    of_lane: usize,
    lap: u64,
}

/// Frames of a lane from a place on, lap after lap: all that is looked up for each of them is at hand.
#[derive(Clone, Debug)]
pub struct Walk<'f> {
    bytes: &'f [u8],
    index: &'f [Entry],
    all: &'f [u32],
    tags_of_lap: u64,
    place: Place,
}

impl<'f> Walk<'f> {
    /// Returns the next frame.
    #[inline(always)]
    #[allow(clippy::should_implement_trait, reason = "there is always one more")]
    pub fn next(&mut self) -> Next<'f> {
        let sent = self.place.step(self.all);
        let entry = &self.index[sent.at as usize];
        Next {
            sent,
            stored: entry.of(self.bytes),
            size: entry.size.into(),
            tag: entry.tag(sent.lap, self.tags_of_lap),
        }
    }

    /// Returns the place of the next frame.
    pub fn place(&self) -> Place {
        self.place
    }
}

impl Place {
    /// Returns the frame at this place among those of a lane, and moves on: no number is divided for that.
    #[inline(always)]
    fn step(&mut self, all: &[u32]) -> Sent {
        let sent = Sent {
            at: all[self.of_lane],
            lap: self.lap,
        };
        self.of_lane += 1;
        if self.of_lane == all.len() {
            (self.of_lane, self.lap) = (0, self.lap + 1);
        }
        sent
    }
}

impl Entry {
    /// Returns the frame's bytes among those of all.
    #[inline(always)]
    fn of<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let start = self.start as usize;
        &bytes[start..start + self.len as usize]
    }

    /// Returns number and end of the frame's tag, if a lap of its lane has so many; `None`: it has none.
    #[inline(always)]
    fn tag(&self, lap: u64, tags_of_lap: u64) -> Option<(u64, usize)> {
        (self.tag_end > 0).then(|| (lap * tags_of_lap + u64::from(self.tags_before), self.tag_end as usize))
    }
}

/// Frame of a lane that is sent next.
#[derive(Clone, Copy, Debug)]
pub struct Next<'f> {
    /// Frame.
    pub sent: Sent,
    /// Its bytes, whose fields are as captured if they change with each lap.
    stored: &'f [u8],
    /// Number of its length among [`Frames::lens`].
    pub size: usize,
    /// Number and end of its tag; `None`: it has none.
    pub tag: Option<(u64, usize)>,
}

/// Frames of a lane, in the order of the capture.
#[derive(Debug, Default)]
struct OfLane {
    /// Number of all.
    count: u64,
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
    count: u64,
    sum_of_lens: u64,
    longest_untagged: usize,
    /// They are read while they are sent: none is here.
    ahead: Option<Ahead>,
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
        let growth = how.rewrite.growth() as u64;
        let lens = capture.packets().map(|packet| u64::from(packet.original_len) + growth);
        let takes: u64 = lens.sum();
        if takes > how.most {
            return Err(NotSent::Memory(takes, how.most));
        }
        let mut maker = Maker::new(how);
        let mut frames = Self::none(maker.fields.changes_by_lap().then(|| maker.fields.clone()));
        let (mut bytes, mut index, mut all) = (Vec::new(), Vec::with_capacity(capture.len()), Vec::new());
        let mut lanes = Vec::new();
        lanes.resize_with(how.lanes.max(1), OfLane::default);
        for (at, packet) in capture.packets().enumerate() {
            let len = maker.tags(&packet, at + 1)?;
            let start = bytes.len();
            bytes.extend_from_slice(maker.frame(len));
            let made = maker.change(len, at + 1, 0)?;
            let sent = maker.frame(len);
            if frames.by_lap.is_none() {
                bytes[start..].copy_from_slice(sent);
            }
            let (tag_end, payload) = made.tag.unwrap_or_default();
            frames.note(len, &made);
            let lane = &mut lanes[maker.lane(len)];
            let tags_before = lane.tagged.len() as u32;
            lane.count += 1;
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
        maker.check_reached(all.len())?;
        let mut lens = all.clone();
        lens.sort_unstable();
        lens.dedup();
        frames.lens = numbered(lens)?;
        for (entry, len) in index.iter_mut().zip(&all) {
            entry.size = frames.lens.binary_search(len).unwrap_or_default() as u16;
        }
        // Fewer flows than lanes leave some lanes without.
        lanes.retain(|lane| lane.count > 0);
        (frames.bytes, frames.index, frames.lanes) = (bytes.into(), index.into(), lanes.into());
        Ok(frames)
    }

    /// Reads a capture without keeping its packets: they are read again while they are sent, into rings of `how.most`
    /// bytes. Returns the frames, which have no bytes and no index, and the figures of the file.
    ///
    /// # Errors
    /// [`NotRead`].
    pub fn ahead(file: Box<dyn Opened>, selection: &Selection, how: &Preparation) -> Result<(Self, Facts), NotRead> {
        let mut maker = Maker::new(how);
        let mut frames = Self::none(None);
        let mut lens = BTreeSet::new();
        let mut by_flow = vec![0u64; how.lanes.max(1)];
        let mut reader = Reader::new(file.open()?, selection.clone())?;
        while let Some(packet) = reader.next_packet()? {
            let number = frames.count as usize + 1;
            let len = maker.tags(&packet, number)?;
            by_flow[maker.lane(len)] += 1;
            let made = maker.change(len, number, 0)?;
            frames.note(len, &made);
            lens.insert(len);
        }
        let facts = reader.facts();
        drop(reader);
        if facts.packets == 0 {
            return Err(NotSent::Empty.into());
        }
        maker.check_reached(frames.count as usize)?;
        frames.lens = numbered(lens.into_iter().collect())?;
        let used = |count: &&u64| **count > 0;
        let of_lane = |count: &u64| OfLane {
            count: *count,
            ..OfLane::default()
        };
        frames.lanes = by_flow.iter().filter(used).map(of_lane).collect();
        let mut next = 0..;
        let lanes = by_flow.iter().map(|count| if *count > 0 { next.next() } else { None });
        frames.ahead = Some(Ahead {
            lanes: lanes.collect(),
            file,
            selection: selection.clone(),
            how: how.clone(),
            facts,
            bytes: how.most,
        });
        Ok((frames, facts))
    }

    /// Returns frames without any.
    fn none(by_lap: Option<Rewrite>) -> Self {
        Self {
            bytes: Box::default(),
            index: Box::default(),
            lens: Box::default(),
            lanes: Box::default(),
            by_lap,
            tagged: 0,
            count: 0,
            sum_of_lens: 0,
            longest_untagged: 0,
            ahead: None,
        }
    }

    /// Counts a frame of this length.
    fn note(&mut self, len: usize, made: &Made) {
        self.count += 1;
        self.tagged += u64::from(made.tag.is_some());
        self.sum_of_lens += len as u64;
        self.longest_untagged = self.longest_untagged.max(made.untagged_len);
    }

    /// Returns the capture, if it is read while it is sent: only counts and lengths of its frames are known.
    pub fn read_ahead(&self) -> Option<&Ahead> {
        self.ahead.as_ref()
    }

    /// Returns the number of frames.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns whether there is no frame, which is never so.
    pub fn is_empty(&self) -> bool {
        self.count == 0
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

    /// Returns how many of the first `packets` packets of the replay leave by a lane, lap after lap. Of a capture that
    /// is read ahead, only whole laps count.
    pub fn of_lane(&self, lane: usize, packets: u64) -> u64 {
        let Some(own) = self.lanes.get(lane) else { return 0 };
        let (laps, rest) = (packets / self.count, packets % self.count);
        let of_rest = own.all.partition_point(|at| u64::from(*at) < rest);
        laps.saturating_mul(own.count).saturating_add(of_rest as u64)
    }

    /// Returns frame `n` of a lane, from 0 on, over all laps.
    #[inline]
    pub fn sent(&self, lane: usize, n: u64) -> Sent {
        nth(&self.lanes[lane].all, n)
    }

    /// Returns the place of frame `n` of a lane.
    pub fn place(&self, lane: usize, n: u64) -> Place {
        let own = self.lanes[lane].all.len() as u64;
        Place {
            of_lane: (n % own) as usize,
            lap: n / own,
        }
    }

    /// Returns the frame at a place of a lane, and moves the place on: no number is divided for that.
    #[inline(always)]
    pub fn step(&self, lane: usize, place: &mut Place) -> Sent {
        place.step(&self.lanes[lane].all)
    }

    /// Returns the frames of a lane from a place on.
    #[inline(always)]
    pub fn walk(&self, lane: usize, place: Place) -> Walk<'_> {
        let own = &self.lanes[lane];
        Walk {
            bytes: &self.bytes,
            index: &self.index,
            all: &own.all,
            tags_of_lap: own.tagged.len() as u64,
            place,
        }
    }

    /// Writes a frame without its tag to `buffer`, which has its length.
    #[inline(always)]
    pub fn write_next(&self, next: &Next<'_>, buffer: &mut [u8]) {
        self.write_stored(next.stored, next.sent.lap, buffer);
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
        let tag = entry.tag(of.lap, self.lanes[lane].tagged.len() as u64);
        tag.map(|(number, _)| number)
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
        entry.of(&self.bytes)
    }

    /// Writes a frame without its tag to the beginning of `buffer`, which has room for the longest, and returns its
    /// length.
    #[inline]
    pub fn write(&self, of: Sent, buffer: &mut [u8]) -> usize {
        let stored = self.stored(&self.index[of.at as usize]);
        self.write_stored(stored, of.lap, &mut buffer[..stored.len()]);
        stored.len()
    }

    #[inline(always)]
    fn write_stored(&self, stored: &[u8], lap: u64, buffer: &mut [u8]) {
        copy(buffer, stored);
        if let Some(rewrite) = &self.by_lap {
            // All frames were changed once. Lengths are the same in each lap.
            let _ = rewrite.apply(buffer, stored.len(), lap);
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

/// Copies a frame to `to`, which is as long. Most frames are short: two blocks of a known size, which may overlap, take
/// less time than a call.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8]) {
    match from.len() {
        32..=64 => copy_ends::<32>(to, from),
        65..=128 => copy_ends::<64>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// Copies the first and the last `N` bytes.
#[inline(always)]
fn copy_ends<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let Some((to, from)) = to.first_chunk_mut::<N>().zip(from.first_chunk()) {
        *to = *from;
    }
    if let Some((to, from)) = to.last_chunk_mut::<N>().zip(from.last_chunk()) {
        *to = *from;
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

/// Returns lengths that can be numbered.
fn numbered(lens: Vec<usize>) -> Result<Box<[usize]>, NotSent> {
    match lens.len() > usize::from(u16::MAX) {
        true => Err(NotSent::Lengths),
        false => Ok(lens.into()),
    }
}

/// Frames that are made of packets, one after the other.
pub(crate) struct Maker<'h> {
    how: &'h Preparation,
    /// Changes but for those to VLAN tags.
    fields: Rewrite,
    room: Vec<u8>,
    /// Fields that a frame had, each as a bit.
    reached: u32,
}

/// Frame that was made.
pub(crate) struct Made {
    /// End of its tag in the frame as it is sent, and bytes of the payload before [`TAGGED`]; `None`: it has no tag.
    pub(crate) tag: Option<(usize, usize)>,
    /// Bytes without its VLAN tag.
    untagged_len: usize,
}

impl<'h> Maker<'h> {
    pub(crate) fn new(how: &'h Preparation) -> Self {
        Self {
            how,
            fields: how.rewrite.without_tags(),
            room: Vec::new(),
            reached: 0,
        }
    }

    /// Refuses a field to be changed that none of the frames had; `frames`: their number.
    pub(crate) fn check_reached(&self, frames: usize) -> Result<(), NotSent> {
        match self.fields.unreached(self.reached) {
            Some(name) => Err(NotSent::Unchanged(name.to_owned(), frames)),
            None => Ok(()),
        }
    }

    /// Fills up a packet and treats its VLAN tags, which is the same in each lap; returns the length of the frame.
    pub(crate) fn tags(&mut self, packet: &Packet<'_>, number: usize) -> Result<usize, NotSent> {
        let stored = padded(packet, number, self.how.pad)?;
        self.room.clear();
        self.room.extend_from_slice(&stored);
        self.room.resize(stored.len() + self.how.rewrite.growth(), 0);
        let applied = self.how.rewrite.apply_tags(&mut self.room, stored.len());
        applied.map_err(|why| NotSent::Headers(number, why))
    }

    /// Changes the other headers of a frame as they are in a lap.
    pub(crate) fn change(&mut self, len: usize, number: usize, lap: u64) -> Result<Made, NotSent> {
        if lap == 0 {
            self.reached |= self.fields.reaches(&self.room[..len]);
        }
        let applied = self.fields.apply(&mut self.room, len, lap);
        applied.map_err(|why| NotSent::Headers(number, why))?;
        let sent = &self.room[..len];
        let has_tag = matches!(sent.get(12..14), Some([0x81, 0] | [0x88, 0xa8]));
        Ok(Made {
            tag: if self.how.tag { place_of_tag(sent) } else { None },
            untagged_len: len - if has_tag { eth::TAG_LEN } else { 0 },
        })
    }

    /// Returns the frame at hand.
    pub(crate) fn frame(&self, len: usize) -> &[u8] {
        &self.room[..len]
    }

    /// Returns the lane of the frame at hand: the same for both directions of a flow.
    pub(crate) fn lane(&self, len: usize) -> usize {
        lane_of(&self.room[..len], self.how.lanes.max(1))
    }
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
