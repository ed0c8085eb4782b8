//! A stream on a lane with several: its share of the packets, its schedule, and how far it has come.

use crate::codec::mix::MixCodec;
use crate::plan::{KnownBy, Packets, StreamLoad, TrafficPlan};
use crate::send::ahead::Ahead;
use crate::send::pacing::Pacer;
use crate::send::replayed::Replayed;
use crate::send::sent::SentLog;
use crate::send::slip::Slips;
use mpps_io::{Pacing, Rate, Rates};
use mpps_replay::{Place, Rings};
use mpps_wire::image::{Place as InFlow, Sizes};

/// Shares of a stream that lanes have in common, for one lane.
#[derive(Debug)]
pub(crate) struct MixShare<'r> {
    /// Number of the stream.
    pub(crate) stream: usize,
    /// Place of this lane among the lanes that send the stream, and their number.
    pub(crate) seat: (u32, u32),
    pub(crate) slips: Option<&'r Slips>,
    pub(crate) log: Option<&'r SentLog>,
    /// Frames that are read while they are sent.
    pub(crate) rings: Option<&'r Rings>,
}

/// Schedule of a stream on this lane.
#[derive(Debug)]
pub(super) enum Clock<'r> {
    Even(Pacer),
    Replayed(Replayed),
    Ahead(Ahead<'r>),
}

impl Clock<'_> {
    #[inline]
    pub(super) fn due(&self, now_ns: u64, most: usize) -> usize {
        match self {
            Self::Even(pacer) => pacer.due(now_ns, most),
            Self::Replayed(replayed) => replayed.due(now_ns, most),
            Self::Ahead(ahead) => ahead.due(now_ns, most),
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<u64> {
        match self {
            Self::Even(pacer) => Some(pacer.pop()),
            Self::Replayed(replayed) => Some(replayed.pop()),
            Self::Ahead(ahead) => ahead.pop(),
        }
    }

    #[inline]
    pub(super) fn next_due(&self) -> Option<u64> {
        match self {
            Self::Even(pacer) => pacer.next_due(),
            Self::Replayed(replayed) => replayed.next_due(),
            Self::Ahead(ahead) => ahead.next_due(),
        }
    }

    #[cold]
    pub(super) fn skip_before(&mut self, before_ns: u64) -> u64 {
        match self {
            Self::Even(pacer) => pacer.skip_before(before_ns),
            Self::Replayed(replayed) => replayed.skip_before(before_ns),
            Self::Ahead(ahead) => ahead.skip_before(before_ns),
        }
    }
}

/// A stream on this lane.
#[derive(Debug)]
pub(super) struct Part<'r> {
    pub(super) stream: usize,
    pub(super) course: Course,
    /// Number of its first flow among those of all streams.
    pub(super) first_flow: u32,
    /// It sends frames of a capture, which have the images of their lengths. Place of the next, if the lane sends
    /// nothing else.
    pub(super) captured: bool,
    pub(super) place: Place,
    /// Nobody knows whether its packets come.
    pub(super) untagged: bool,
    /// Order of the stream's sizes, and the number of the image of the first.
    sizes: Sizes,
    /// All packets have one size.
    is_of_one: bool,
    pub(super) first_image: u32,
    /// Packets written so far, and those of them that the log has.
    pub(super) written: u64,
    pub(super) noted: u64,
    /// Beside the others, which a turn needs.
    pub(super) clock: Option<Box<Clock<'r>>>,
    /// Without a schedule: packets in all, and the time of the first, ns.
    count: u64,
    pub(super) start_ns: u64,
    pub(super) weight: u32,
    pub(super) slips: Option<&'r Slips>,
    pub(super) log: Option<&'r SentLog>,
}

/// Flow and number of a stream's next packet on this lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    /// Flow of the first packet, distance to the next flow of the lane, and number of the stream's flows.
    first: u32,
    step: u32,
    flows: u32,
    /// Flow of the next packet, and the packet's number in it.
    flow: u32,
    number: u64,
}

impl Course {
    /// Takes the next packet; returns its flow and number.
    #[inline(always)]
    pub(super) fn next(&mut self) -> (u32, u64) {
        let next = (self.flow, self.number);
        self.flow += self.step;
        if self.flow >= self.flows {
            self.flow = self.first;
            self.number += 1;
        }
        next
    }

    /// Takes the next frame of a capture; returns its number.
    #[inline(always)]
    pub(super) fn next_frame(&mut self) -> u64 {
        self.number += 1;
        self.number - 1
    }
}

impl<'r> Part<'r> {
    pub(super) fn new(
        plan: &TrafficPlan,
        packets: &Packets,
        share: MixShare<'r>,
        (first_image, start_ns): (u32, u64),
    ) -> Self {
        let MixShare {
            stream,
            seat: (lane, lanes),
            slips,
            log,
            rings,
        } = share;
        let of = &packets.streams[stream];
        let load = of.load.unwrap_or_else(|| plan.load());
        let packets = load.packets.or(plan.common.count);
        let replay = of.replay.as_ref();
        let count = packets.map_or(u64::MAX, |packets| match replay {
            Some(replay) => replay.frames.of_lane(lane as usize, packets),
            None => {
                let (lane, lanes) = (u64::from(lane), u64::from(lanes.max(1)));
                packets / lanes + u64::from(packets % lanes > lane)
            }
        });
        let end_ns = plan
            .common
            .duration
            .map_or(u64::MAX, |duration| start_ns.saturating_add(duration.as_nanos() as u64));
        let catch_up_ns = plan.catch_up.as_nanos() as u64;
        let ring = rings.and_then(|rings| Some((rings, rings.of(lane as usize)?)));
        let replayed = replay.filter(|_| ring.is_none());
        let replayed = replayed.and_then(|replay| Replayed::new(replay, &load, lane, (start_ns, end_ns), catch_up_ns));
        let even = |rate: Rate| match replay {
            // Lanes have different numbers of the frames.
            Some(replay) => {
                let share = replay.frames.of_lane(lane as usize, replay.frames.len() as u64);
                let rate = rate.times(share, replay.frames.len() as u64)?;
                let load = StreamLoad {
                    packets: packets.map(|_| count),
                    ..load
                };
                Some(pacer(plan, &load, rate, stream, (0, 1), start_ns))
            }
            None => Some(pacer(plan, &load, rate, stream, (lane, lanes), start_ns)),
        };
        let evenly = load.rate.filter(|_| replayed.is_none()).and_then(even);
        let clock = match (ring, replay, replayed) {
            (Some(ring), Some(replay), _) => {
                let ahead = Ahead::new((replay, &load), ring, evenly, count, (start_ns, end_ns), catch_up_ns);
                Some(Clock::Ahead(ahead))
            }
            (.., Some(replayed)) => Some(Clock::Replayed(replayed)),
            _ => evenly.map(Clock::Even),
        };
        Self {
            stream,
            course: Course {
                first: lane,
                step: lanes,
                flows: of.specs.first().map_or(1, |spec| spec.flows),
                flow: lane,
                number: 0,
            },
            first_flow: of.specs.first().map_or(0, |spec| spec.first_flow),
            captured: replay.is_some(),
            place: Place::default(),
            untagged: of.known_by == KnownBy::Headers,
            is_of_one: of.sizes == Sizes::One,
            sizes: of.sizes.clone(),
            first_image,
            written: 0,
            noted: 0,
            clock: clock.map(Box::new),
            count: if load.rate.is_none() { count } else { 0 },
            start_ns: start_ns.saturating_add(load.start_ns),
            weight: load.weight,
            slips,
            log,
        }
    }

    /// Returns its frames that are read while they are sent.
    pub(super) fn ahead(&self) -> Option<&Ahead<'r>> {
        match self.clock.as_deref() {
            Some(Clock::Ahead(ahead)) => Some(ahead),
            _ => None,
        }
    }

    /// Returns whether it has a schedule.
    pub(super) fn is_timed(&self) -> bool {
        self.clock.is_some() && self.ahead().is_none_or(Ahead::is_timed)
    }

    /// Returns its place among the lanes that send a capture.
    pub(super) fn lane(&self) -> u32 {
        self.course.first
    }

    /// Returns the time of the next departure, ns; `u64::MAX`: there is none.
    pub(super) fn due(&self) -> u64 {
        self.clock
            .as_ref()
            .and_then(|clock| clock.next_due())
            .unwrap_or(u64::MAX)
    }

    /// Returns the packets that are left, if it has no schedule.
    #[inline(always)]
    pub(super) fn left(&self) -> u64 {
        let taken = if self.captured {
            self.course.number
        } else {
            self.written
        };
        self.count.saturating_sub(taken)
    }

    /// Returns flow and number of the next packet, and the number of its image.
    #[inline(always)]
    pub(super) fn next(&mut self) -> (InFlow, u32) {
        let (flow, number) = self.course.next();
        self.written += 1;
        let size = match self.is_of_one {
            true => 0,
            false => self.sizes.at(flow, number as u32, self.course.flows) as u32,
        };
        (InFlow { flow, number }, self.first_image + size)
    }

    /// Notes the packets that were written since the last time in the log, if there is one.
    #[inline(always)]
    pub(super) fn note(&mut self, now: u64) {
        if let Some(log) = self.log.filter(|_| self.noted != self.written) {
            log.note(0, self.noted..self.written, now);
            self.noted = self.written;
        }
    }

    /// Returns lane and number of the next frame of a capture, and the number of its image. It leaves `slip` ns late.
    #[inline(never)]
    pub(super) fn next_captured(&mut self, codec: &MixCodec, slip: u64) -> (InFlow, u32) {
        let (lane, next) = (self.course.first, self.course.next_frame());
        let n = self.ahead().map_or(next, |ahead| ahead.taken(self.written));
        let (image, number) = codec.image_and_number(self.stream, lane, n);
        if let Some(number) = number {
            self.written += 1;
            if let Some(slips) = self.slips {
                slips.note(lane, number, slip);
            }
        }
        let place = InFlow { flow: lane, number: n };
        (place, image as u32)
    }
}

/// Returns when a stream begins, ns after the start of the run, how long its schedule lasts, ns (`None`: for ever), and
/// the seed of its gaps.
pub(crate) fn span(plan: &TrafficPlan, load: &StreamLoad, rate: Rate, stream: usize) -> (u64, Option<u64>, u64) {
    let runs = plan.common.duration;
    let runs = runs.map(|duration| (duration.as_nanos() as u64).saturating_sub(load.start_ns));
    let rates = Rates {
        first: rate,
        then: None,
    };
    // A burst that begins before the end is whole.
    let runs = runs.map(|runs| match load.pacing {
        Pacing::Bursts(unit) => {
            let unit = u64::from(unit.max(1));
            let whole = rate.packets_in(runs).div_ceil(unit).saturating_mul(unit);
            if whole > 0 { rates.time_for(whole).max(runs) } else { 0 }
        }
        _ => runs,
    });
    let takes = load.packets.map(|packets| rates.time_for(packets));
    let lasts = match (runs, takes) {
        (Some(runs), Some(takes)) => Some(runs.min(takes)),
        (one, other) => one.or(other),
    };
    // Streams with random gaps have different ones.
    let seed = mpps_wire::random(plan.common.seed, stream as u64 + 1);
    let phase_ns = match load.pacing {
        Pacing::Constant if load.start_ns == 0 => phase_ns(rate, lasts, stream),
        _ => 0,
    };
    (load.start_ns.saturating_add(phase_ns), lasts, seed)
}

/// Returns the schedule of a lane's part in a stream.
fn pacer(plan: &TrafficPlan, load: &StreamLoad, rate: Rate, stream: usize, lane: (u32, u32), start_ns: u64) -> Pacer {
    let (begins_ns, lasts, seed) = span(plan, load, rate, stream);
    Pacer::new(start_ns.saturating_add(begins_ns), lasts, rate, load.pacing, lane, seed)
}

/// Returns the time by which a stream begins after the run, ns, so that streams of one rate do not leave together. It
/// is less than the time between two packets, and leaves their number as it is: the last is due before the end.
fn phase_ns(rate: Rate, lasts: Option<u64>, stream: usize) -> u64 {
    /// 2^64 divided by the golden ratio: its multiples spread evenly, whatever their number.
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    let step_ns = (rate.time_of(1) >> 64) as u64;
    let room_ns = match lasts {
        None => step_ns,
        Some(lasts) => {
            let last_ns = (rate.time_of(rate.packets_in(lasts).saturating_sub(1)) >> 64) as u64;
            lasts.saturating_sub(last_ns).min(step_ns)
        }
    };
    let part = u128::from(GOLDEN.wrapping_mul(stream as u64));
    ((u128::from(room_ns.saturating_sub(1)) * part) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn streams_begin_apart_and_send_as_many_as_without(
            num in 1u64..3_000_000, den in 1u64..1_000, ms in 1u64..5_000, stream in 0usize..5_000,
        ) {
            let rate = Rate::new(num, den);
            prop_assume!(rate.is_some());
            let rate = rate.expect("a rate");
            let lasts = ms * 1_000_000;
            let phase = phase_ns(rate, Some(lasts), stream);
            let last = rate.time_of(rate.packets_in(lasts).saturating_sub(1)) >> 64;
            prop_assert!(u128::from(phase) + last < u128::from(lasts), "the last leaves before the end");
            prop_assert!(u128::from(phase_ns(rate, None, stream)) < (rate.time_of(1) >> 64).max(1));
        }
    }

    #[test]
    fn streams_of_one_rate_spread_over_the_time_between_two_packets() {
        let rate = Rate::new(50, 1).expect("a rate");
        let mut phases: Vec<u64> = (0..100)
            .map(|stream| phase_ns(rate, Some(1_000_000_000), stream))
            .collect();
        phases.sort_unstable();
        let widest = phases.windows(2).map(|two| two[1] - two[0]).max();
        assert!(phases.first() == Some(&0) && widest < Some(600_000), "{widest:?}");
    }
}
