//! Packets of earlier trials of a session: each is known by when it was sent, and is in no count of a later one.
//!
//! A packet of one trial may come back when the next has begun: its settle time was too short, or something on the way
//! held it up. Such a packet has a stamp from before the start, so it is never taken for a packet of the trial at hand.
//! But it may have another length, other data or another flow, and would look corrupt or foreign. The check runs only
//! for a packet that is none of the trial's own. The trial's own packets cost nothing extra.

use crate::FlowSet;
use crate::codec::tagged::run_of;
use crate::codec::{Ends, left_open, verify_checksum};
use crate::lane::neighbor::Neighbor;
use mpps_io::{Burst, Frame, Layer, MAX_BURST, Queue};
use mpps_sys::clock::monotonic_ns;
use mpps_wire::tagged::tag_of;
use mpps_wire::{STAMP_LEN, Stamp, Tag, check_udp, verify_data};
use std::net::IpAddr;

/// Longest time for emptying a queue between two trials, ns: other hosts may send to it without end.
const LONGEST_NS: u64 = 5_000_000;

/// Number of seeds that are remembered: one per trial, if each trial has another.
const SEEDS: usize = 16;

/// Most trials ago that a tag is known of.
const OLDEST: u32 = 128;

/// Data by which packets of the trials so far are recognised.
#[derive(Clone, Debug)]
pub(crate) struct Traces {
    /// Time before which no trial sent anything, ns.
    pub(crate) since_ns: u64,
    /// Trials so far, the one at hand among them.
    pub(crate) trials: u32,
    /// Number of the run, if its packets end with a tag.
    tags_of: Option<u64>,
    /// Seeds of the trials, newest first.
    seeds: Vec<u64>,
    /// Addresses, and all flows that any trial may use.
    pub(crate) ends: Ends,
    pub(crate) layer: Layer,
}

impl Traces {
    /// Makes traces without a trial.
    pub(crate) fn new(
        since_ns: u64,
        flows: FlowSet,
        (src, dst): (IpAddr, IpAddr),
        layer: Layer,
        as_sent: bool,
    ) -> Self {
        Self {
            since_ns,
            trials: 0,
            tags_of: None,
            seeds: Vec::new(),
            ends: Ends {
                flows,
                src,
                dst,
                as_sent,
            },
            layer,
        }
    }

    /// Returns traces of packets with tags; `run_id`: number of the run.
    pub(crate) fn of_tags(self, run_id: u64) -> Self {
        Self {
            tags_of: Some(run_id),
            ..self
        }
    }

    /// Returns traces of the way back, for trials that go both ways: their seeds are the next ones, and their packets
    /// arrive with addresses and ports exchanged.
    pub(crate) fn back(&self) -> Self {
        Self {
            seeds: self.seeds.iter().map(|seed| seed.wrapping_add(1)).collect(),
            ends: Ends {
                as_sent: false,
                ..self.ends.clone()
            },
            ..self.clone()
        }
    }

    /// Adds the seed of the next trial.
    pub(crate) fn add(&mut self, seed: u64) {
        self.trials += 1;
        self.seeds.retain(|known| *known != seed);
        self.seeds.insert(0, seed);
        self.seeds.truncate(SEEDS);
    }

    /// Returns whether a trial before the one that began at `start_ns` sent this packet.
    #[cold]
    pub(crate) fn are_earlier<F: Frame>(&self, frame: &F, start_ns: u64) -> bool {
        match self.tags_of {
            Some(run_id) => self.has_tag_of(frame, run_id, 1),
            None => self.trials > 1 && self.fit(frame, start_ns),
        }
    }

    /// Returns whether a frame has a tag of this trial or one before it, the youngest being `youngest` trials old. Tags
    /// have too little of the time to tell when they were sent, and too few numbers for trials of long ago.
    fn has_tag_of<F: Frame>(&self, frame: &F, run_id: u64, youngest: u32) -> bool {
        let age = |run: u8| u32::from(run_of(run_id, self.trials).wrapping_sub(run));
        let oldest = self.trials.saturating_sub(1).min(OLDEST);
        let tag = |seed: &u64| match self.layer {
            Layer::Ethernet => tag_of(frame.bytes(), *seed).map(|(tag, _)| tag),
            Layer::Payload => Tag::read(frame.bytes(), *seed),
        };
        let mut tags = self.seeds.iter().filter_map(tag);
        tags.any(|tag| (youngest..=oldest).contains(&age(tag.run)))
    }

    /// Returns whether a trial sent this packet before `before_ns`: it is intact, and its stamp shows the time.
    #[cold]
    pub(crate) fn fit<F: Frame>(&self, frame: &F, before_ns: u64) -> bool {
        if let Some(run_id) = self.tags_of {
            return self.has_tag_of(frame, run_id, 0);
        }
        self.stamp(frame)
            .is_some_and(|stamp| (self.since_ns..before_ns).contains(&stamp.time_ns))
    }

    /// Returns the stamp of a packet if it is intact and of any trial.
    fn stamp<F: Frame>(&self, frame: &F) -> Option<Stamp> {
        let bytes = frame.bytes();
        if self.layer == Layer::Payload {
            let stamp = Stamp::read(bytes).filter(|_| frame.flow().is_some() && frame.wire_len() == bytes.len())?;
            return self.seeded(stamp.seq, &bytes[STAMP_LEN..]).then_some(stamp);
        }
        let (&seed, _) = self.seeds.split_first()?;
        let checked = check_udp(bytes, seed, verify_checksum(frame)).ok()?;
        let packet = &checked.packet;
        let stamp = checked.stamp?;
        let ours = self.ends.flow(bytes, packet).is_ok()
            && (checked.checksum_ok || left_open(frame, packet))
            && (checked.data_ok || self.seeded(stamp.seq, packet.payload(bytes).get(STAMP_LEN..)?));
        ours.then_some(stamp)
    }

    fn seeded(&self, seq: u64, data: &[u8]) -> bool {
        self.seeds.iter().any(|&seed| verify_data(seed, seq, data))
    }
}

/// Empties a queue between two trials, and answers questions for our addresses. Returns the number of packets of
/// earlier trials.
pub(crate) fn attend<Q: Queue>(queue: &mut Q, neighbor: Option<&Neighbor<'_>>, traces: Option<&Traces>) -> u64 {
    let (mut incoming, mut answers) = (Burst::new(MAX_BURST), Burst::new(MAX_BURST));
    let began_ns = monotonic_ns();
    let mut strays = 0;
    // A path in trouble reports it again once the next trial has begun.
    while let Ok(frames @ 1..) = queue.receive(&mut incoming) {
        for mut frame in incoming.drain(frames) {
            if traces.is_some_and(|traces| traces.fit(&frame, u64::MAX)) {
                strays += 1;
            } else if neighbor.and_then(|n| n.attend(&mut frame)) == Some(true) {
                let _ = answers.push(frame);
            }
        }
        if !answers.is_empty() {
            let _ = queue.transmit(&mut answers).and_then(|_| queue.flush());
            answers.clear();
        }
        if monotonic_ns() - began_ns > LONGEST_NS {
            break;
        }
    }
    strays
}
