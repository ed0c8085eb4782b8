//! Codec of several streams, or of several sizes: an image for each size of each stream.

use super::captured::{Came, Captured, Flown};
use super::tagged::{Known, headers_of, of_trial, whole};
use super::{Class, Compared, Foreign, Reader};
use crate::headers::Seen;
use crate::headers::numbered::Segment;
use crate::plan::{KnownBy, Packets};
use mpps_io::Frame;
use mpps_replay::content_of;
use mpps_wire::changes::{Changes, Headers};
use mpps_wire::image::{Place, Sizes};
use mpps_wire::tagged::{Outline, icmp_error, tag_of};
use mpps_wire::{Checker, IcmpError, Image, MacAddr, SlowPath, Stamp, TAG_LEN, Tag, parse_slow_path};
use std::sync::Arc;

/// Codec of packets with a tag, of any streams and sizes: whole frames, or payloads whose headers are the kernel's.
#[derive(Debug)]
pub(crate) struct MixCodec {
    streams: Vec<Stream>,
    /// Images of all streams, those of one stream beside each other. Lengths of captures have the numbers that follow.
    images: Vec<Image>,
    /// Headers as they should arrive, by image; none: they are not compared.
    headers: Vec<Option<Headers>>,
    seed: u64,
    run: u8,
    /// Flows of all streams, and the first of each, apart from all else: a search reads them alone.
    flows: u32,
    firsts: Vec<u32>,
    /// Frames are payloads.
    payloads: bool,
    /// Packets come back with their ends exchanged.
    turned: bool,
    /// Some streams have no tag.
    untagged: bool,
}

#[derive(Debug)]
struct Stream {
    known: Known,
    known_by: KnownBy,
    /// It leaves by the port of the lane, and so does not arrive there.
    leaves: bool,
    sizes: Sizes,
    /// Number of its first image, or of its first length.
    first_image: usize,
    /// In place of images.
    captured: Option<Captured>,
}

impl MixCodec {
    /// Makes the codec of a trial. `hops`: MAC addresses of the next hops; `own`: that of the port; `peer`: that of the
    /// other port, whose streams arrive. `turned`: packets come back with their addresses exchanged. `flown`: by
    /// stream, what lanes know of the frames of a capture together.
    pub(crate) fn new(
        packets: &Packets,
        run: u8,
        (hops, own, peer): (&[MacAddr], MacAddr, Option<MacAddr>),
        turned: bool,
        flown: &[Option<Arc<Flown>>],
    ) -> Self {
        let mut codec = Self {
            streams: Vec::new(),
            images: Vec::new(),
            headers: Vec::new(),
            seed: 0,
            run,
            flows: 0,
            firsts: Vec::new(),
            payloads: false,
            turned,
            untagged: packets.streams.iter().any(|stream| stream.known_by != KnownBy::Tag),
        };
        let both = packets.go_back();
        let images: usize = packets.streams.iter().map(|stream| stream.specs.len()).sum();
        let mut lens = images;
        for (number, stream) in packets.streams.iter().enumerate() {
            if let Some(replay) = &stream.replay {
                codec.seed = replay.seed;
                codec.flows = codec.flows.max(replay.first_flow + stream.flows());
                codec.streams.push(Stream {
                    known: Known::of_capture(replay, stream.flows(), run),
                    known_by: KnownBy::Tag,
                    leaves: false,
                    sizes: stream.sizes.clone(),
                    first_image: lens,
                    captured: Some(Captured::new(replay, flown.get(number).cloned().flatten(), run)),
                });
                lens += replay.frames.lens().len();
                continue;
            }
            let to = stream.to_next_hop.and_then(|hop| hops.get(hop)).copied();
            let macs = match (packets.sends(stream), peer) {
                (false, Some(peer)) => [own, peer],
                _ => [to.unwrap_or(MacAddr::BROADCAST), own],
            };
            let stripped = packets.stripped[usize::from(stream.back)];
            let first_image = codec.images.len();
            let mut known = None;
            for spec in &stream.specs {
                let spec = of_trial(stream, spec, run, macs);
                codec.seed = spec.seed;
                codec.headers.push(headers_of(stream, &spec, (turned, stripped)));
                known.get_or_insert_with(|| Known::new(stream, &spec, turned));
                // The plan was validated; packets that can't be made are a defect.
                codec.images.push(Image::new(spec).expect("validated plan"));
            }
            let known = known.expect("a stream has a size");
            codec.flows = codec.flows.max(known.first_flow + known.flows);
            codec.streams.push(Stream {
                known,
                known_by: stream.known_by.clone(),
                leaves: both && packets.sends(stream),
                sizes: stream.sizes.clone(),
                first_image,
                captured: None,
            });
        }
        codec.firsts = codec.streams.iter().map(|of| of.known.first_flow).collect();
        codec
    }

    /// Returns the codec for frames that are payloads.
    pub(crate) fn of_payloads(self) -> Self {
        Self { payloads: true, ..self }
    }

    /// Makes room for changes of the headers.
    pub(crate) fn compared(&self) -> Compared {
        let longest = self.images.iter().map(Image::frame_len).max();
        let of = |stream: &Stream| {
            self.headers
                .get(stream.first_image)
                .and_then(Option::as_ref)
                .map(Changes::new)
                .unwrap_or_default()
        };
        Compared {
            changes: self.streams.iter().map(of).collect(),
            sent: vec![0; longest.unwrap_or(0)],
        }
    }

    /// Returns the number of the image of the packet that a stream sends after `n` others of the flow, and the packet's
    /// number in the flow; `None`: it has none, as it has no tag.
    #[inline]
    pub(crate) fn image_and_number(&self, stream: usize, flow: u32, n: u64) -> (usize, Option<u64>) {
        let of = &self.streams[stream];
        match &of.captured {
            None => (of.first_image + of.sizes.at(flow, n as u32, of.known.flows), Some(n)),
            Some(captured) => {
                let (size, number) = captured.size_and_tag(flow, n);
                (of.first_image + size, number)
            }
        }
    }

    /// Returns the capture of a stream, if it sends one.
    #[inline]
    pub(crate) fn captured(&self, stream: usize) -> Option<&Captured> {
        self.streams[stream].captured.as_ref()
    }

    /// Returns the number of the image of a stream's smallest frame.
    #[inline]
    pub(crate) fn first_image(&self, stream: usize) -> usize {
        self.streams[stream].first_image
    }

    /// Returns the bytes of a frame by the number of its image.
    #[inline]
    pub(crate) fn frame_len(&self, stream: usize, image: usize) -> usize {
        match &self.streams[stream].captured {
            None => self.images[image].frame_len(),
            Some(captured) => captured.len(image - self.streams[stream].first_image),
        }
    }

    /// Returns an image.
    #[inline]
    pub(crate) fn image(&self, number: usize) -> &Image {
        &self.images[number]
    }

    /// Returns the number of a stream by that of a flow among those of all streams.
    #[inline]
    fn stream_at(&self, flow: u32) -> usize {
        self.firsts.partition_point(|first| *first <= flow).saturating_sub(1)
    }

    /// Classifies a frame without a right tag.
    #[cold]
    #[inline(never)]
    fn untagged(&self, frame: &[u8]) -> Class {
        if let Some(content) = self.by_content(frame) {
            return content;
        }
        let slow_path = parse_slow_path(frame);
        // A ping may be a packet of a stream that came back.
        let asks = slow_path.is_some_and(|question| !matches!(question, SlowPath::EchoRequest { .. }));
        if self.untagged
            && !asks
            && let Some(class) = self.by_headers(frame)
        {
            return class;
        }
        if slow_path.is_some() {
            return Class::SlowPath;
        }
        match self.by_ends(frame) {
            Some(_) => Class::Corrupt,
            None => Class::Foreign(Foreign::NotStamped),
        }
    }

    /// Returns the class of a frame of a capture that has no tag of this run.
    fn by_content(&self, frame: &[u8]) -> Option<Class> {
        let (mut found, mut key) = (None, None);
        for (stream, of) in self.streams.iter().enumerate() {
            let Some(captured) = of.captured.as_ref().filter(|of| of.has_contents()) else {
                continue;
            };
            // One reading of the frame is enough for all of them.
            let Some(content) = captured.content(*key.get_or_insert_with(|| content_of(frame))) else {
                continue;
            };
            // Streams may have the same content: one that waits for it comes first.
            if captured.is_awaited(content) {
                return Some(Class::Content { stream, content });
            }
            found.get_or_insert(Class::Content { stream, content });
        }
        found
    }

    /// Classifies a payload. The kernel has checked its ends and its checksum, so without a right tag it is one of the
    /// test's that was damaged.
    fn of_payload<F: Frame>(&self, frame: &F) -> Class {
        let bytes = frame.bytes();
        // Longer than the buffer: cut, so its bytes alone would look right.
        let tag = Tag::read(bytes, self.seed).filter(|_| frame.wire_len() == bytes.len());
        let Some(tag) = tag else { return Class::Corrupt };
        if tag.run != self.run || tag.flow >= self.flows {
            return Class::Foreign(Foreign::OtherRun);
        }
        let (stream, flow) = self.stream_of(tag.flow);
        let image = &self.images[self.image_of(stream, flow, tag.number.into())];
        let before = &bytes[..bytes.len() - TAG_LEN];
        match bytes.len() == image.frame_len() && image.verify_payload(before, tag.flow, tag.number) {
            true => Class::Test {
                flow: tag.flow,
                stamp: Stamp {
                    seq: tag.number.into(),
                    time_ns: tag.time_ns,
                },
            },
            false => Class::Corrupt,
        }
    }

    /// Returns whether a packet of a stream is no answer to one.
    #[cold]
    fn is_as_sent(&self, stream: usize, frame: &[u8]) -> bool {
        let KnownBy::Number(numbered) = &self.streams[stream].known_by else {
            return true;
        };
        let segment = Seen::of(frame).and_then(|seen| numbered.read(frame, &seen, self.turned));
        !matches!(segment, Some(Segment::Answer { .. }))
    }

    /// Returns the class of a frame with the headers of a stream without a tag.
    fn by_headers(&self, frame: &[u8]) -> Option<Class> {
        let seen = Seen::of(frame)?;
        let mut found = None;
        for (stream, of) in self.streams.iter().enumerate() {
            let segment = match &of.known_by {
                _ if of.leaves => continue,
                KnownBy::Tag => continue,
                KnownBy::Headers if !of.known.fits(&seen) => continue,
                KnownBy::Headers => None,
                KnownBy::Number(numbered) => match numbered.read(frame, &seen, self.turned) {
                    Some(segment) => Some(segment),
                    None => continue,
                },
            };
            match segment {
                Some(Segment::Sent { flow, number }) => {
                    let image = self.image_of(stream, flow, number.into());
                    let flow = of.known.first_flow + flow;
                    let packet = &frame[..Outline::of(frame).end];
                    let image = &self.images[image];
                    match image.verify_payload(packet, flow, number) {
                        true => return Some(numbered(flow, number)),
                        // A host's own segment may have the same flags.
                        false if packet.len() < image.frame_len() => {
                            _ = found.get_or_insert(Class::Untagged { stream })
                        }
                        false => return Some(Class::Corrupt),
                    }
                }
                Some(Segment::Answer { flow, number }) => return Some(numbered(of.known.first_flow + flow, number)),
                // A stream that is numbered knows more of it.
                Some(Segment::Other) | None => _ = found.get_or_insert(Class::Untagged { stream }),
            }
        }
        found
    }

    /// Returns the first stream whose packets have the ends of a frame.
    fn by_ends(&self, frame: &[u8]) -> Option<usize> {
        let seen = Seen::of(frame)?;
        self.streams.iter().position(|of| !of.leaves && of.known.fits(&seen))
    }
}

/// Returns the class of a segment with this number. Its send time is in the sender's log.
fn numbered(flow: u32, number: u32) -> Class {
    let stamp = Stamp {
        seq: number.into(),
        time_ns: 0,
    };
    Class::Test { flow, stamp }
}

impl Reader for MixCodec {
    const MIXED: bool = true;

    #[cold]
    fn quoted(&self, frame: &[u8]) -> Option<IcmpError> {
        let (tag, _) = tag_of(frame, self.seed)?;
        let reports = self.streams[self.stream_at(tag.flow)].known.reports;
        icmp_error(frame).filter(|_| tag.run == self.run && !reports)
    }

    #[inline(always)]
    fn whole(&self, stamp: Stamp, next: impl FnOnce() -> u64, now_ns: u64) -> Stamp {
        whole(stamp, next, now_ns)
    }

    #[inline]
    fn is_timed(&self, stream: usize) -> bool {
        !self.untagged || self.streams[stream].known_by == KnownBy::Tag
    }

    #[inline]
    fn stream_of(&self, flow: u32) -> (usize, u32) {
        let stream = self.stream_at(flow);
        (stream, flow - self.firsts[stream])
    }

    #[inline]
    fn image_of(&self, stream: usize, flow: u32, seq: u64) -> usize {
        let of = &self.streams[stream];
        let size = match &of.captured {
            None => of.sizes.at(flow, seq as u32, of.known.flows),
            Some(captured) => captured.size_of_tagged(flow, seq),
        };
        of.first_image + size
    }

    #[cold]
    fn damaged<F: Frame>(&self, frame: &F) -> Option<usize> {
        if self.payloads {
            return frame.flow().map(|flow| self.stream_at(flow));
        }
        let frame = frame.bytes();
        match tag_of(frame, self.seed) {
            Some((tag, _)) => Some(self.stream_at(tag.flow)),
            None => self.by_ends(frame),
        }
    }

    fn came(&self, stream: usize, content: u32) -> Option<Came> {
        let of = &self.streams[stream];
        let came = of.captured.as_ref()?.came(content)?;
        Some(Came {
            image: of.first_image + came.image,
            ..came
        })
    }

    #[inline]
    fn compare<F: Frame>(&self, frame: &F, (stream, flow): (usize, u32), stamp: Stamp, compared: &mut Compared) {
        let image = self.image_of(stream, flow, stamp.seq);
        let Some(Some(headers)) = self.headers.get(image) else {
            return;
        };
        if headers.are_in(frame.bytes()) || !self.is_as_sent(stream, frame.bytes()) {
            return;
        }
        let place = Place {
            flow,
            number: stamp.seq,
        };
        let image = &self.images[image];
        let sent = &mut compared.sent[..image.frame_len()];
        image.write(sent, place, stamp.time_ns);
        compared.changes[stream].note(headers, sent, frame.bytes());
    }

    #[inline]
    fn classify<F: Frame>(&self, frame: &F, _known: &mut Checker) -> Class {
        if self.payloads {
            return self.of_payload(frame);
        }
        let bytes = frame.bytes();
        let outline = Outline::of(bytes);
        let Some(tag) = outline.tag(bytes, self.seed) else {
            return self.untagged(bytes);
        };
        if tag.run != self.run || tag.flow >= self.flows {
            // A capture of test packets.
            return self.by_content(bytes).unwrap_or(Class::Foreign(Foreign::OtherRun));
        }
        let (stream, flow) = self.stream_of(tag.flow);
        let known = &self.streams[stream].known;
        if !known.reports && outline.icmp_error(bytes).is_some() {
            return Class::SlowPath;
        }
        if self.streams[stream].leaves || known.own.is_some_and(|own| bytes.get(6..12) == Some(&own)) {
            return Class::Foreign(Foreign::Looped);
        }
        let is_intact = match &self.streams[stream].captured {
            Some(captured) => captured.is_intact(&bytes[..outline.end], flow, tag.number),
            None => {
                let image = self.image_of(stream, flow, tag.number.into());
                self.images[image].verify_payload(&bytes[..outline.end - TAG_LEN], tag.flow, tag.number)
            }
        };
        match is_intact {
            true => Class::Test {
                flow: tag.flow,
                stamp: Stamp {
                    seq: tag.number.into(),
                    time_ns: tag.time_ns,
                },
            },
            // A capture of test packets may have tags of a run of the same number.
            false => self.by_content(bytes).unwrap_or(Class::Corrupt),
        }
    }
}

#[cfg(test)]
#[path = "mix_tests.rs"]
mod tests;
