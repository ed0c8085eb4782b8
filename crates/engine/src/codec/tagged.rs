//! Codec of packets of any headers, each known by the tag at its end.

use super::{Class, Compared, Foreign, Reader, Writer};
use crate::headers::{Seen, Shape};
use crate::plan::{PacketStream, Replay};
use mpps_io::Frame;
use mpps_sys::clock::SPREAD_NS;
use mpps_wire::changes::{Changes, Headers};
use mpps_wire::image::Place;
use mpps_wire::tagged::{Outline, icmp_error, tag_of};
use mpps_wire::{Blank, Checker, IcmpError, Image, ImageSpec, MacAddr, Stamp, TAG_LEN, parse_slow_path};
use std::sync::Arc;

/// Bits of the time in a tag.
const TIME_BITS: u32 = 36;

/// Returns the run of the tags of trial number `trial` of a run. Trials that follow each other have different ones.
pub(crate) fn run_of(run_id: u64, trial: u32) -> u8 {
    (mpps_wire::random(run_id, 0) as u8).wrapping_add(trial as u8)
}

/// Codec of whole frames with a tag.
#[derive(Debug)]
pub(crate) struct TaggedCodec {
    image: Image,
    known: Known,
    /// Headers as they should arrive; `None`: they are not compared.
    headers: Option<Headers>,
}

/// Packets of a stream that come back, as far as they are known.
#[derive(Debug)]
pub(super) struct Known {
    seed: u64,
    run: u8,
    pub(super) first_flow: u32,
    pub(super) flows: u32,
    /// Test packets are reports of ICMP themselves.
    pub(super) reports: bool,
    /// MAC address that packets are sent from, if they come back by the same port: what comes from it is a packet as it
    /// was sent.
    pub(super) own: Option<[u8; 6]>,
    shape: Option<Shape>,
}

/// Returns what the packets of a stream are made of in a trial. `macs`: those of the next hop and of the port.
pub(super) fn of_trial(stream: &PacketStream, spec: &ImageSpec, run: u8, macs: [MacAddr; 2]) -> ImageSpec {
    let mut spec = ImageSpec { run, ..spec.clone() };
    let takes = [stream.to_next_hop.is_some(), stream.from_port];
    for (at, (mac, takes)) in macs.iter().zip(takes).enumerate() {
        if let Some(place) = spec.headers.get_mut(at * 6..at * 6 + 6).filter(|_| takes) {
            place.copy_from_slice(&mac.0);
        }
    }
    spec
}

impl Known {
    /// `turned`: packets come back with their addresses exchanged.
    pub(super) fn new(stream: &PacketStream, spec: &ImageSpec, turned: bool) -> Self {
        Self {
            seed: spec.seed,
            run: spec.run,
            first_flow: spec.first_flow,
            flows: spec.flows,
            reports: icmp_error(&spec.headers).is_some(),
            own: turned
                .then(|| spec.headers.get(6..12)?.first_chunk().copied())
                .flatten()
                .filter(|_| !spec.fields.iter().any(|field| (48..96).contains(&field.bit))),
            shape: Shape::of(&stream.ends, spec, turned),
        }
    }

    /// Returns what is known of the frames of a capture: which are damaged is not seen without a right tag.
    pub(super) fn of_capture(replay: &Replay, flows: u32, run: u8) -> Self {
        Self {
            seed: replay.seed,
            run,
            first_flow: replay.first_flow,
            flows,
            // Reports in a capture have no tag.
            reports: false,
            own: None,
            shape: None,
        }
    }

    /// Returns whether a frame without a right tag has the ends of the stream's packets.
    pub(super) fn fits(&self, seen: &Seen) -> bool {
        self.shape.as_ref().is_some_and(|shape| shape.fits(seen))
    }
}

/// Returns what packets are made of, without the bytes of the payload that vary.
fn without_payload(spec: &ImageSpec) -> ImageSpec {
    let len = spec.headers.len() - spec.varied;
    let mut spec = spec.clone();
    spec.headers.truncate(len);
    spec.fields.retain(|field| field.bit < len * 8);
    ImageSpec { varied: 0, ..spec }
}

/// Returns the headers of packets as they should arrive; `None`: they are not compared.
pub(super) fn headers_of(stream: &PacketStream, spec: &ImageSpec, (turned, stripped): (bool, bool)) -> Option<Headers> {
    (!stream.fields.is_empty()).then(|| {
        let headers = Headers::new(&without_payload(spec), Arc::clone(&stream.fields), turned);
        if stripped { headers.stripped() } else { headers }
    })
}

impl TaggedCodec {
    /// Makes the codec of a trial with one stream of one size. `macs`: those of the next hop and of the port. `turned`:
    /// packets come back with their addresses exchanged. `stripped`: the port at which they arrive takes the outermost
    /// VLAN tag off.
    pub(crate) fn new(stream: &PacketStream, run: u8, macs: [MacAddr; 2], (turned, stripped): (bool, bool)) -> Self {
        let spec = of_trial(stream, &stream.specs[0], run, macs);
        Self {
            headers: headers_of(stream, &spec, (turned, stripped)),
            known: Known::new(stream, &spec, turned),
            // The plan was validated; packets that can't be made are a defect.
            image: Image::new(spec).expect("validated plan"),
        }
    }

    /// Makes room for changes of the headers.
    pub(crate) fn compared(&self) -> Compared {
        let changes = self.headers.iter().map(Changes::new).collect();
        let sent = vec![0; self.image.frame_len()];
        Compared { changes, sent }
    }

    /// Classifies a frame without a right tag.
    #[cold]
    #[inline(never)]
    fn untagged(&self, frame: &[u8]) -> Class {
        if parse_slow_path(frame).is_some() {
            return Class::SlowPath;
        }
        match Seen::of(frame).is_some_and(|seen| self.known.fits(&seen)) {
            true => Class::Corrupt,
            false => Class::Foreign(Foreign::NotStamped),
        }
    }
}

/// Returns a stamp that is whole. A tag has the lowest bits of number and time: the whole number is the one next to the
/// number that is due in the flow, and the whole time the latest that is not after now.
#[inline(always)]
pub(super) fn whole(stamp: Stamp, next: impl FnOnce() -> u64, now_ns: u64) -> Stamp {
    let next = next();
    // The sender's lane may be ahead by its reading of the clock.
    let now_ns = now_ns + SPREAD_NS;
    let ahead = (stamp.seq as u32).wrapping_sub(next as u32) as i32;
    let past = now_ns.wrapping_sub(stamp.time_ns) & ((1 << TIME_BITS) - 1);
    Stamp {
        seq: next.wrapping_add_signed(i64::from(ahead)),
        time_ns: now_ns.wrapping_sub(past),
    }
}

impl Writer for TaggedCodec {
    #[inline]
    fn frame_len(&self) -> usize {
        self.image.frame_len()
    }

    #[inline(always)]
    fn write(&self, frame: Blank<'_>, time_ns: u64) {
        let place = Place {
            flow: frame.flow,
            number: frame.seq,
        };
        self.image.write(frame.bytes, place, time_ns);
    }

    #[inline(always)]
    fn write_all<'f>(&self, frames: impl Iterator<Item = Blank<'f>>, time_ns: u64) {
        self.image.write_all(frames, time_ns);
    }

    #[inline]
    fn restamp(&self, bytes: &mut [u8], time_ns: u64) {
        self.image.restamp(bytes, time_ns);
    }
}

impl Reader for TaggedCodec {
    #[cold]
    fn quoted(&self, frame: &[u8]) -> Option<IcmpError> {
        let (tag, _) = tag_of(frame, self.known.seed)?;
        icmp_error(frame).filter(|_| tag.run == self.known.run && !self.known.reports)
    }

    #[inline(always)]
    fn whole(&self, stamp: Stamp, next: impl FnOnce() -> u64, now_ns: u64) -> Stamp {
        whole(stamp, next, now_ns)
    }

    #[inline(always)]
    fn compare<F: Frame>(&self, frame: &F, (_, flow): (usize, u32), stamp: Stamp, compared: &mut Compared) {
        let Some(headers) = &self.headers else { return };
        if headers.are_in(frame.bytes()) {
            return;
        }
        let place = Place {
            flow,
            number: stamp.seq,
        };
        self.image.write(&mut compared.sent, place, stamp.time_ns);
        if let Some(changes) = compared.changes.first_mut() {
            changes.note(headers, &compared.sent, frame.bytes());
        }
    }

    #[inline]
    fn classify<F: Frame>(&self, frame: &F, _known: &mut Checker) -> Class {
        let (bytes, known) = (frame.bytes(), &self.known);
        let outline = Outline::of(bytes);
        let Some(tag) = outline.tag(bytes, known.seed) else {
            return self.untagged(bytes);
        };
        let flow = tag.flow.wrapping_sub(known.first_flow);
        if tag.run != known.run || flow >= known.flows {
            return Class::Foreign(Foreign::OtherRun);
        }
        if !known.reports && outline.icmp_error(bytes).is_some() {
            return Class::SlowPath;
        }
        if known.own.is_some_and(|own| bytes.get(6..12) == Some(&own)) {
            return Class::Foreign(Foreign::Looped);
        }
        match self
            .image
            .verify_payload(&bytes[..outline.end - TAG_LEN], tag.flow, tag.number)
        {
            true => Class::Test {
                flow,
                stamp: Stamp {
                    seq: tag.number.into(),
                    time_ns: tag.time_ns,
                },
            },
            false => Class::Corrupt,
        }
    }
}
