//! Codec of several streams, or of several sizes: an image for each size of each stream.

use super::captured::{Came, Captured, Flown};
use super::tagged::{Known, Seen, headers_of, of_trial, whole};
use super::{Class, Compared, Foreign, Reader};
use crate::plan::Packets;
use mpps_io::Frame;
use mpps_wire::changes::{Changes, Headers};
use mpps_wire::image::{Place, Sizes};
use mpps_wire::tagged::{Outline, icmp_error, tag_of};
use mpps_wire::{Checker, IcmpError, Image, MacAddr, Stamp, TAG_LEN, parse_slow_path};
use std::sync::Arc;

/// Codec of whole frames with a tag, of any streams and sizes.
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
}

#[derive(Debug)]
struct Stream {
    known: Known,
    sizes: Sizes,
    /// Number of its first image, or of its first length.
    first_image: usize,
    /// In place of images.
    captured: Option<Captured>,
}

impl MixCodec {
    /// Makes the codec of a trial. `hops`: MAC addresses of the next hops; `own`: that of the port. `turned`: packets
    /// come back with their addresses exchanged. `flown`: by stream, what lanes know of the frames of a capture
    /// together.
    pub(crate) fn new(
        packets: &Packets,
        run: u8,
        (hops, own): (&[MacAddr], MacAddr),
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
        };
        let images: usize = packets.streams.iter().map(|stream| stream.specs.len()).sum();
        let mut lens = images;
        for (number, stream) in packets.streams.iter().enumerate() {
            if let Some(replay) = &stream.replay {
                codec.seed = replay.seed;
                codec.flows = codec.flows.max(replay.first_flow + stream.flows());
                codec.streams.push(Stream {
                    known: Known::of_capture(replay, stream.flows(), run),
                    sizes: stream.sizes.clone(),
                    first_image: lens,
                    captured: Some(Captured::new(replay, flown.get(number).cloned().flatten(), run)),
                });
                lens += replay.frames.lens().len();
                continue;
            }
            let to = stream.to_next_hop.and_then(|hop| hops.get(hop)).copied();
            let macs = [to.unwrap_or(MacAddr::BROADCAST), own];
            let first_image = codec.images.len();
            let mut known = None;
            for spec in &stream.specs {
                let spec = of_trial(stream, spec, run, macs);
                codec.seed = spec.seed;
                codec
                    .headers
                    .push(headers_of(stream, &spec, (turned, packets.stripped)));
                known.get_or_insert_with(|| Known::new(stream, &spec, turned));
                // The plan was validated; packets that can't be made are a defect.
                codec.images.push(Image::new(spec).expect("validated plan"));
            }
            let known = known.expect("a stream has a size");
            codec.flows = codec.flows.max(known.first_flow + known.flows);
            codec.streams.push(Stream {
                known,
                sizes: stream.sizes.clone(),
                first_image,
                captured: None,
            });
        }
        codec.firsts = codec.streams.iter().map(|of| of.known.first_flow).collect();
        codec
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
        if parse_slow_path(frame).is_some() {
            return Class::SlowPath;
        }
        match self.by_ends(frame) {
            Some(_) => Class::Corrupt,
            None => Class::Foreign(Foreign::NotStamped),
        }
    }

    /// Returns the class of a frame of a capture that has no tag of this run.
    fn by_content(&self, frame: &[u8]) -> Option<Class> {
        let mut found = None;
        for (stream, of) in self.streams.iter().enumerate() {
            let Some(captured) = &of.captured else { continue };
            let Some(content) = captured.content_of(frame) else {
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

    /// Returns the first stream whose packets have the ends of a frame.
    fn by_ends(&self, frame: &[u8]) -> Option<usize> {
        let seen = Seen::of(frame)?;
        self.streams.iter().position(|of| of.known.fits(&seen))
    }
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
    fn damaged(&self, frame: &[u8]) -> Option<usize> {
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
        if headers.are_in(frame.bytes()) {
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
        if known.own.is_some_and(|own| bytes.get(6..12) == Some(&own)) {
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
