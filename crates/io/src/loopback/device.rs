//! The device between departure and arrival: a server with a queue, losses in bursts, and jitter.
//!
//! All of it follows from the times at which frames depart and from the seed. When a frame has been served is known as
//! soon as it departs (the queue is first come, first served), so nothing depends on when the receiver looks.

use super::config::{Capacity, Jitter, LoopConfig, Spread};
use super::fault::Random;
use std::collections::VecDeque;

/// Bytes of the shortest Ethernet frame, without FCS.
const SHORTEST: u64 = 60;
/// Bytes that a frame takes on layer 1 beyond those of its buffer: FCS, preamble, start delimiter, gap (IEEE 802.3).
const BEYOND: u64 = 4 + 20;

/// Streams of random numbers beside the one of the faults, so that one option does not change what another does.
const BURSTS: u64 = 1;
const JITTER: u64 = 2;

/// Fate of a frame at the device: it arrives, or is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passage {
    /// The frame arrives at this time, ns.
    Until(u64),
    /// The frame found the queue full.
    Full,
    /// The frame was lost in a burst.
    Burst,
}

/// One lane's share of the device.
pub(super) struct Device {
    server: Option<Server>,
    bursts: Option<Bursts>,
    jitter: Option<Delays>,
}

impl Device {
    /// The share of lane `lane` of `lanes`; `None` when nothing is asked for that a device does.
    pub(super) fn new(config: &LoopConfig, lane: usize, lanes: usize) -> Option<Self> {
        let device = Self {
            server: config.capacity.map(|capacity| {
                let queue = config.queue_of(lane, lanes);
                Server::new(capacity, lanes as u64, queue)
            }),
            bursts: Bursts::new(config, Random::new(config.seed, lane, BURSTS)),
            jitter: (config.jitter.time_ns > 0).then(|| Delays {
                jitter: config.jitter,
                random: Random::new(config.seed, lane, JITTER),
                latest_ns: 0,
            }),
        };
        let any = device.server.is_some() || device.bursts.is_some() || device.jitter.is_some();
        any.then_some(device)
    }

    /// A frame of `bytes` bytes comes at `now_ns`, which never decreases.
    #[inline]
    pub(super) fn pass(&mut self, now_ns: u64, bytes: usize) -> Passage {
        // Both are drawn for every frame: what chance does to the others must not depend on the queue.
        let burst = self.bursts.as_mut().is_some_and(Bursts::step);
        let extra_ns = self.jitter.as_mut().map_or(0, Delays::draw);
        let served_ns = match &mut self.server {
            None => now_ns,
            Some(server) => match server.serve(now_ns, bytes) {
                None => return Passage::Full,
                Some(served_ns) => served_ns,
            },
        };
        if burst {
            return Passage::Burst;
        }
        let due_ns = served_ns.saturating_add(extra_ns);
        Passage::Until(match &mut self.jitter {
            Some(delays) => delays.in_order(due_ns),
            None => due_ns,
        })
    }
}

/// Serves one frame after another, each for a time that is known beforehand.
///
/// Times are whole ns and a fraction of one with the rate as its denominator: no service is rounded, and after any
/// number of frames the rate is the one asked for.
struct Server {
    /// Work per packet or bit: 10^9, so that work divided by the rate is ns, times the number of lanes, of which each
    /// has its share of the rate.
    unit: u64,
    bits: bool,
    rate: u64,
    queue: usize,
    /// Time when all frames taken so far will have been served, ns and fraction.
    free_ns: u64,
    part: u64,
    /// Time in ns when each frame in the device will have been served; frames that have left are not in it.
    ends: VecDeque<u64>,
}

impl Server {
    fn new(capacity: Capacity, lanes: u64, queue: usize) -> Self {
        let (bits, rate) = match capacity {
            Capacity::Packets(rate) => (false, rate),
            Capacity::Bits(rate) => (true, rate),
        };
        Self {
            unit: lanes * 1_000_000_000,
            bits,
            rate,
            queue,
            free_ns: 0,
            part: 0,
            ends: VecDeque::with_capacity(queue),
        }
    }

    /// When a frame that comes now will have been served, rounded up to a ns; `None` when it does not fit.
    fn serve(&mut self, now_ns: u64, bytes: usize) -> Option<u64> {
        while self.ends.front().is_some_and(|end| *end <= now_ns) {
            self.ends.pop_front();
        }
        if self.ends.len() >= self.queue {
            return None;
        }
        if self.free_ns < now_ns {
            (self.free_ns, self.part) = (now_ns, 0);
        }
        let size = if self.bits {
            (SHORTEST.max(bytes as u64) + BEYOND) * 8
        } else {
            1
        };
        let work = size * self.unit;
        self.part += work % self.rate;
        let carry = self.part >= self.rate;
        if carry {
            self.part -= self.rate;
        }
        self.free_ns = self.free_ns.saturating_add(work / self.rate + u64::from(carry));
        let end = self.free_ns.saturating_add(u64::from(self.part > 0));
        self.ends.push_back(end);
        Some(end)
    }
}

/// Loses frames in bursts of random length: the chain of two states of Gilbert (1960), one step per frame.
struct Bursts {
    random: Random,
    /// Probabilities times 2^63: that a burst begins when there is none, and that a burst goes on.
    begins: u64,
    goes_on: u64,
    inside: bool,
}

impl Bursts {
    fn new(config: &LoopConfig, random: Random) -> Option<Self> {
        let (ratio, mean) = (config.burst_loss, f64::from(config.burst_length.max(1)));
        let of = |p: f64| (p.clamp(0.0, 1.0) * (1_u64 << 63) as f64) as u64;
        // In the long run as many bursts begin as end: (1 − ratio) · begins = ratio ÷ mean.
        (ratio > 0.0).then(|| Self {
            random,
            begins: of(ratio / (mean * (1.0 - ratio))),
            goes_on: of(1.0 - 1.0 / mean),
            inside: false,
        })
    }

    /// The next frame: true when it is lost.
    fn step(&mut self) -> bool {
        let bound = if self.inside { self.goes_on } else { self.begins };
        self.inside = self.random.next() >> 1 < bound;
        self.inside
    }
}

/// Delays that differ from frame to frame.
struct Delays {
    jitter: Jitter,
    random: Random,
    /// The latest arrival so far.
    latest_ns: u64,
}

impl Delays {
    fn draw(&mut self) -> u64 {
        let random = self.random.next();
        let time_ns = self.jitter.time_ns;
        match self.jitter.spread {
            // All of 0 to the time: the high half of a product with one of 2^64.
            Spread::Uniform => ((u128::from(random) * (u128::from(time_ns) + 1)) >> 64) as u64,
            Spread::Exponential => {
                // Above 0 and 1 at the most: 53 bits, as many as a float has.
                let u = ((random >> 11) + 1) as f64 / (1_u64 << 53) as f64;
                (-u.ln() * time_ns as f64) as u64
            }
        }
    }

    /// Returns the time of arrival that keeps frames in order, unless frames may overtake.
    fn in_order(&mut self, due_ns: u64) -> u64 {
        if self.jitter.overtake {
            return due_ns;
        }
        self.latest_ns = self.latest_ns.max(due_ns);
        self.latest_ns
    }
}
