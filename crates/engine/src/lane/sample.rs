//! One of every so many frames, copied for a thread that writes them to a file while the run goes on.
//!
//! All that a lane receives and sends goes through [`Lane::receive`] and [`Lane::transmit`]. Without a sample they are
//! the queue's own calls behind one branch per burst. With one the frames whose turn it is are copied into a ring: sent
//! ones before the path takes them, since it may free them at once; what it did not take is taken back, so a frame that
//! is offered twice is counted once. The lane never waits: what finds the ring full is dropped and counted.

use crate::lane::Lane;
use crate::outcome::SampleCounts;
use crate::plan::SampleOptions;
use mpps_io::packet_ring::{Direction, PacketProducer, RingPacket, tag};
use mpps_io::{Burst, Frame, Queue, Result};
use std::cell::RefCell;

/// A lane's way to the writer, and the turns of its frames.
#[derive(Debug)]
pub(crate) struct Sampler {
    every: usize,
    snap_len: usize,
    ring: PacketProducer,
    /// Frames that go by before the next is copied.
    until_received: usize,
    until_sent: usize,
    counts: SampleCounts,
}

impl Sampler {
    /// Makes the sampler of a lane; `None` if its ring is taken.
    pub(crate) fn of_lane(options: &SampleOptions, lane: usize) -> Option<Self> {
        let ring = options.rings.get(lane)?.lock().ok()?.take()?;
        Some(Self::new(options.every, options.snap_len, ring))
    }

    /// `every`: 1 or more. The first frame is copied, and then each `every`-th.
    pub(crate) fn new(every: u64, snap_len: usize, ring: PacketProducer) -> Self {
        Self {
            every: usize::try_from(every).unwrap_or(usize::MAX).max(1),
            snap_len,
            ring,
            until_received: 0,
            until_sent: 0,
            counts: SampleCounts::default(),
        }
    }

    /// Copies a frame into the ring; false where there is no room.
    fn copy<F: Frame>(&mut self, frame: &F, time_ns: u64, tag: u16) -> bool {
        let bytes = frame.bytes();
        let packet = RingPacket {
            time_ns,
            wire_len: frame.wire_len().try_into().unwrap_or(u32::MAX),
            tag,
        };
        self.ring.push(packet, &bytes[..bytes.len().min(self.snap_len)])
    }

    /// Looks through frames that were just received at the port of this place.
    fn received<F: Frame>(&mut self, frames: &[F], place: usize, now_ns: u64) {
        let mut at = self.until_received;
        while let Some(frame) = frames.get(at) {
            // By the lane's clock, as for sent frames: the file is in order of time.
            let stored = self.copy(frame, now_ns, tag(place, Direction::Received));
            self.counts.received += 1;
            self.counts.ring_full += u64::from(!stored);
            at = at.saturating_add(self.every);
        }
        self.until_received = at - frames.len();
        self.publish(now_ns);
    }

    /// Copies those of the frames at hand whose turn it is; returns how many found room. The first frame without room
    /// ends the copying, so the copied ones are the first of those whose turn it is.
    fn offer<F: Frame>(&mut self, frames: &[F], place: usize, now_ns: u64) -> usize {
        let (mut at, mut stored) = (self.until_sent, 0);
        while let Some(frame) = frames.get(at) {
            if !self.copy(frame, now_ns, tag(place, Direction::Sent)) {
                break;
            }
            stored += 1;
            at = at.saturating_add(self.every);
        }
        stored
    }

    /// Counts the frames that the path took of those that were offered, and removes copies of the others from the ring.
    fn sent(&mut self, taken: usize, stored: usize, now_ns: u64) {
        // Frames at the places until_sent, until_sent + every, … below `taken`.
        let due = taken.saturating_sub(self.until_sent).div_ceil(self.every);
        let kept = stored.min(due);
        if kept < stored {
            self.ring.take_back_after(kept);
        }
        self.counts.sent += due as u64;
        self.counts.ring_full += (due - kept) as u64;
        self.until_sent = self.until_sent.saturating_add(due.saturating_mul(self.every)) - taken;
        self.publish(now_ns);
    }

    /// Shows the writer the copied frames, and that no frame earlier than this time will follow.
    pub(crate) fn publish(&mut self, now_ns: u64) {
        self.ring.publish(now_ns);
    }

    /// Returns the counts of the whole run.
    pub(crate) fn counts(&self) -> SampleCounts {
        self.counts
    }
}

impl Lane<'_> {
    /// Receives a burst by a queue of the port of this place; frames whose turn it is are copied for the sample.
    ///
    /// # Errors
    /// Returns the errors of [`Queue::receive`].
    #[inline(always)]
    pub(crate) fn receive<Q: Queue>(&self, place: usize, queue: &mut Q, burst: &mut Burst<Q::Frame>) -> Result<usize> {
        match &self.sampler {
            None => queue.receive(burst),
            Some(sampler) => self.receive_sampled(sampler, place, queue, burst),
        }
    }

    #[cold]
    #[inline(never)]
    fn receive_sampled<Q: Queue>(
        &self,
        sampler: &RefCell<Sampler>,
        place: usize,
        queue: &mut Q,
        burst: &mut Burst<Q::Frame>,
    ) -> Result<usize> {
        let came = queue.receive(burst);
        if came.as_ref().is_ok_and(|frames| *frames > 0) {
            let now_ns = self.clock.now_ns();
            sampler.borrow_mut().received(burst.as_slice(), place, now_ns);
        }
        came
    }

    /// Sends a burst by a queue of the port of this place; frames whose turn it is, and that the path takes, are copied
    /// for the sample.
    ///
    /// # Errors
    /// Returns the errors of [`Queue::transmit`].
    #[inline(always)]
    pub(crate) fn transmit<Q: Queue>(&self, place: usize, queue: &mut Q, burst: &mut Burst<Q::Frame>) -> Result<usize> {
        match &self.sampler {
            None => queue.transmit(burst),
            Some(sampler) => self.transmit_sampled(sampler, place, queue, burst),
        }
    }

    #[cold]
    #[inline(never)]
    fn transmit_sampled<Q: Queue>(
        &self,
        sampler: &RefCell<Sampler>,
        place: usize,
        queue: &mut Q,
        burst: &mut Burst<Q::Frame>,
    ) -> Result<usize> {
        let (offered, now_ns) = (burst.len(), self.clock.now_ns());
        let stored = sampler.borrow_mut().offer(burst.as_slice(), place, now_ns);
        let result = queue.transmit(burst);
        sampler.borrow_mut().sent(offered - burst.len(), stored, now_ns);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_io::packet_ring::{MIN_PACKET_RING, PacketConsumer, packet_ring};
    use proptest::prelude::*;

    /// A frame of two bytes: its number.
    #[derive(Debug)]
    struct Numbered([u8; 2]);

    impl Frame for Numbered {
        fn bytes(&self) -> &[u8] {
            &self.0
        }
        fn bytes_mut(&mut self) -> &mut [u8] {
            &mut self.0
        }
        fn capacity(&self) -> usize {
            2
        }
        fn set_len(&mut self, _len: usize) {}
    }

    fn frames(numbers: std::ops::Range<u64>) -> Vec<Numbered> {
        numbers.map(|n| Numbered((n as u16).to_le_bytes())).collect()
    }

    /// Numbers of the frames in a ring, with their tags.
    fn drained(ring: &mut PacketConsumer) -> Vec<(u64, u16)> {
        let mut bytes = Vec::new();
        let next = || {
            let packet = ring.pop(&mut bytes)?;
            Some((u64::from(u16::from_le_bytes([bytes[0], bytes[1]])), packet.tag))
        };
        std::iter::from_fn(next).collect()
    }

    proptest! {
        #[test]
        fn every_nth_frame_is_kept_whatever_bursts_they_come_in_and_however_often_they_are_offered(
            every in 1u64..40, bursts in prop::collection::vec((1u64..64, 0u64..64), 1..60),
        ) {
            let (producer, mut consumer) = packet_ring(1 << 20);
            let mut sampler = Sampler::new(every, 64, producer);
            let (mut received, mut sent) = (0, 0);
            for (burst, taken) in bursts {
                sampler.received(&frames(received..received + burst), 1, received);
                received += burst;
                let (offered, taken) = (frames(sent..sent + burst), taken.min(burst));
                let stored = sampler.offer(&offered, 0, received);
                sampler.sent(taken as usize, stored, received);
                sent += taken;
            }
            let want = |all: u64| (0..all).step_by(every as usize).collect::<Vec<_>>();
            let got = drained(&mut consumer);
            let of = |way: u16| got.iter().filter(|(_, tag)| *tag == way).map(|(n, _)| *n).collect::<Vec<_>>();
            prop_assert_eq!(of(tag(1, Direction::Received)), want(received));
            prop_assert_eq!(of(tag(0, Direction::Sent)), want(sent));
            let counts = SampleCounts {
                received: want(received).len() as u64,
                sent: want(sent).len() as u64,
                ring_full: 0,
            };
            prop_assert_eq!(sampler.counts(), counts);
        }

        #[test]
        fn what_finds_the_ring_full_is_counted_and_the_rest_is_in_it(
            bursts in prop::collection::vec((1u64..250, 0u64..250, any::<bool>()), 1..60),
        ) {
            let (producer, mut consumer) = packet_ring(MIN_PACKET_RING);
            let mut sampler = Sampler::new(1, 64, producer);
            let (mut frame, mut written) = (0, 0);
            for (burst, taken, drain) in bursts {
                sampler.received(&frames(frame..frame + burst), 0, 0);
                let stored = sampler.offer(&frames(frame..frame + burst), 0, 0);
                sampler.sent(taken.min(burst) as usize, stored, 0);
                frame += burst;
                if drain {
                    written += drained(&mut consumer).len() as u64;
                }
            }
            written += drained(&mut consumer).len() as u64;
            let counts = sampler.counts();
            prop_assert_eq!(counts.received + counts.sent, written + counts.ring_full);
        }
    }
}
