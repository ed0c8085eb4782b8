//! Work of a reflector beside turning: on payload paths, where the kernel turns headers, the rules on which packets are
//! answered; on all paths the probes that distinguish a loop from a sender that repeats itself.

use crate::workload::loop_guard::Sampler;
use crate::workload::reflect::Counts;
use mpps_io::{Burst, Frame};
use mpps_wire::checksum::Sum;
use mpps_wire::{Left, Look, Loops, PROBE_LEN, ReflectFilter, Reflector, Source, make_probe_in_place};
use std::net::SocketAddr;

/// The rules for payloads.
#[derive(Debug)]
pub(crate) struct Echo<'f> {
    filter: &'f ReflectFilter,
    loops: Loops,
    /// Source of the packet before, which can be answered.
    known: Option<SocketAddr>,
}

impl<'f> Echo<'f> {
    pub(crate) fn new(filter: &'f ReflectFilter, secret: [u64; 2]) -> Self {
        Self {
            filter,
            loops: Loops::new(secret),
            known: None,
        }
    }

    /// Takes frames that are not sent back out of the burst.
    #[inline]
    pub(crate) fn turn<F: Frame>(&mut self, burst: &mut Burst<F>, sampler: &mut Sampler, counts: &mut Counts) {
        let (mut next, step) = sampler.of(burst.len());
        let mut any = false;
        for (i, frame) in burst.as_mut_slice().iter_mut().enumerate() {
            let look = i == next;
            if look {
                next += step;
            }
            counts.marks[i] = self.judge(frame, look.then_some(step as u32), &mut counts.left).err();
            any |= counts.marks[i].is_some();
        }
        if any {
            leave(burst, counts);
        }
    }

    /// Checks one frame. `weight`: number of packets that it counts for, if it is looked at.
    #[inline]
    fn judge<F: Frame>(
        &mut self,
        frame: &mut F,
        weight: Option<u32>,
        counts: &mut [u64; Left::COUNT],
    ) -> Result<(), Left> {
        if frame.to_group() {
            return Err(Left::Multicast);
        }
        let Some(peer) = frame.peer() else { return Ok(()) };
        if self.known != Some(peer) {
            let port = self.filter.ports.as_ref().map_or(0, |ports| *ports.start());
            self.filter.check_peer(peer, port)?;
            self.known = Some(peer);
        }
        if frame.ttl().is_some_and(|ttl| ttl <= 1) {
            return Err(Left::TtlExpired);
        }
        if (frame.bytes().len() == PROBE_LEN || self.loops.alert()) && !self.loops.admits(peer.into(), frame.bytes()) {
            return Err(Left::Returned);
        }
        match weight {
            Some(weight) => self.look(frame, peer.into(), weight, counts),
            None => Ok(()),
        }
    }

    #[inline(never)]
    fn look<F: Frame>(
        &mut self,
        frame: &mut F,
        source: Source,
        weight: u32,
        counts: &mut [u64; Left::COUNT],
    ) -> Result<(), Left> {
        let bytes = frame.bytes();
        match self.loops.look(source, bytes, Sum::ZERO.bytes(bytes).fold(), weight) {
            Look::Ordinary => Ok(()),
            Look::Withheld => Err(Left::Probed),
            // Too little room: the next frame has its turn.
            Look::Probe(_) if frame.capacity() < PROBE_LEN => Ok(()),
            Look::Probe(probe) => {
                frame.set_len(PROBE_LEN);
                frame.bytes_mut().copy_from_slice(&probe);
                counts[Left::Probed.index()] += 1;
                Ok(())
            }
        }
    }
}

/// Takes the marked frames out of the burst.
#[cold]
fn leave<F: Frame>(burst: &mut Burst<F>, counts: &mut Counts) {
    let mut i = 0;
    burst.retain(|_| {
        let mark = counts.marks[i].take();
        i += 1;
        if let Some(left) = mark {
            counts.left[left.index()] += 1;
        }
        mark.is_none()
    });
}

/// Looks at some of the frames that were turned, and makes a probe of one if a probe is due.
#[inline]
pub(crate) fn probe_frames<F: Frame>(
    burst: &mut Burst<F>,
    reflector: &mut Reflector<'_>,
    sampler: &mut Sampler,
    counts: &mut Counts,
) {
    let (first, step) = sampler.of(burst.len());
    let mut withheld = false;
    let frames = burst.as_mut_slice();
    for i in (first..frames.len()).step_by(step) {
        match reflector.look(frames[i].bytes(), step as u32) {
            Look::Ordinary => {}
            Look::Withheld => {
                counts.marks[i] = Some(Left::Probed);
                withheld = true;
            }
            Look::Probe(probe) => send_probe(&mut frames[i], probe, counts),
        }
    }
    if withheld {
        leave(burst, counts);
    }
}

#[cold]
fn send_probe<F: Frame>(frame: &mut F, probe: [u8; PROBE_LEN], counts: &mut Counts) {
    let len = frame.bytes().len();
    // A payload of less than a probe's length grows.
    frame.set_len(len + PROBE_LEN);
    match make_probe_in_place(frame.bytes_mut(), len, probe) {
        Some(len) => {
            frame.set_len(len);
            counts.left[Left::Probed.index()] += 1;
        }
        None => frame.set_len(len),
    }
}
