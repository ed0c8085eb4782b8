//! Codec of several streams, or of several sizes: an image for each size of each stream.

use super::tagged::{Known, Seen, headers_of, of_trial, whole};
use super::{Class, Compared, Foreign, Reader};
use crate::plan::Packets;
use mpps_io::Frame;
use mpps_wire::changes::{Changes, Headers};
use mpps_wire::image::{Place, Sizes};
use mpps_wire::tagged::{Outline, icmp_error, tag_of};
use mpps_wire::{Checker, IcmpError, Image, MacAddr, Stamp, TAG_LEN, parse_slow_path};

/// Codec of whole frames with a tag, of any streams and sizes.
#[derive(Debug)]
pub(crate) struct MixCodec {
    streams: Vec<Stream>,
    /// Images of all streams, those of one stream beside each other.
    images: Vec<Image>,
    /// Headers as they should arrive, by image; none: they are not compared.
    headers: Vec<Option<Headers>>,
    seed: u64,
    run: u8,
    /// Flows of all streams.
    flows: u32,
}

#[derive(Debug)]
struct Stream {
    known: Known,
    sizes: Sizes,
    /// Number of its first image.
    first_image: usize,
}

impl MixCodec {
    /// Makes the codec of a trial. `hops`: MAC addresses of the next hops; `own`: that of the port. `turned`: packets
    /// come back with their addresses exchanged.
    pub(crate) fn new(packets: &Packets, run: u8, (hops, own): (&[MacAddr], MacAddr), turned: bool) -> Self {
        let mut codec = Self {
            streams: Vec::new(),
            images: Vec::new(),
            headers: Vec::new(),
            seed: 0,
            run,
            flows: 0,
        };
        for stream in &packets.streams {
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
            });
        }
        codec
    }

    /// Makes room for changes of the headers.
    pub(crate) fn compared(&self) -> Compared {
        let longest = self.images.iter().map(Image::frame_len).max();
        let of = |stream: &Stream| {
            self.headers[stream.first_image]
                .as_ref()
                .map(Changes::new)
                .unwrap_or_default()
        };
        Compared {
            changes: self.streams.iter().map(of).collect(),
            sent: vec![0; longest.unwrap_or(0)],
        }
    }

    /// Returns the size of a packet of a stream, and the number of its image.
    #[inline]
    pub(crate) fn size_and_image(&self, stream: usize, flow: u32, seq: u64) -> (usize, usize) {
        let of = &self.streams[stream];
        let size = of.sizes.at(flow, seq as u32, of.known.flows);
        (size, of.first_image + size)
    }

    /// Returns an image.
    #[inline]
    pub(crate) fn image(&self, number: usize) -> &Image {
        &self.images[number]
    }

    /// Returns the number of a stream by that of a flow among those of all streams.
    #[inline]
    fn stream_at(&self, flow: u32) -> usize {
        self.streams
            .partition_point(|of| of.known.first_flow <= flow)
            .saturating_sub(1)
    }

    /// Classifies a frame without a right tag.
    #[cold]
    #[inline(never)]
    fn untagged(&self, frame: &[u8]) -> Class {
        if parse_slow_path(frame).is_some() {
            return Class::SlowPath;
        }
        match self.by_ends(frame) {
            Some(_) => Class::Corrupt,
            None => Class::Foreign(Foreign::NotStamped),
        }
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
        (stream, flow - self.streams[stream].known.first_flow)
    }

    #[inline]
    fn image_of(&self, stream: usize, flow: u32, seq: u64) -> usize {
        self.size_and_image(stream, flow, seq).1
    }

    #[cold]
    fn damaged(&self, frame: &[u8]) -> Option<usize> {
        match tag_of(frame, self.seed) {
            Some((tag, _)) => Some(self.stream_at(tag.flow)),
            None => self.by_ends(frame),
        }
    }

    #[inline]
    fn compare<F: Frame>(&self, frame: &F, (stream, flow): (usize, u32), stamp: Stamp, compared: &mut Compared) {
        let (_, image) = self.size_and_image(stream, flow, stamp.seq);
        let Some(headers) = &self.headers[image] else { return };
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
            return Class::Foreign(Foreign::OtherRun);
        }
        let (stream, flow) = self.stream_of(tag.flow);
        let known = &self.streams[stream].known;
        if !known.reports && outline.icmp_error(bytes).is_some() {
            return Class::SlowPath;
        }
        if known.own.is_some_and(|own| bytes.get(6..12) == Some(&own)) {
            return Class::Foreign(Foreign::Looped);
        }
        let (_, image) = self.size_and_image(stream, flow, tag.number.into());
        match self.images[image].verify_payload(&bytes[..outline.end - TAG_LEN], tag.flow, tag.number) {
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
}
