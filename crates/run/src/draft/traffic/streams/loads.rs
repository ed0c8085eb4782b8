//! Loads of streams: rates, weights, bursts, starts and ends, worked out for a run.

use super::super::load::no_rate;
use super::{One, Streamed};
use crate::fail::{Result, usage};
use crate::replay::Replayed;
use crate::request::Run;
use mpps_engine::{Pacing, Rate, Rates, StreamLoad};
use mpps_traffic::{Load, RateText, Speed, Stream, Traffic};
use std::time::Duration;

/// Loads of the streams of a run.
#[derive(Clone, Debug)]
pub(in crate::draft) struct Loads {
    /// By stream; `None`: it is the only one, and leaves as [`Loads::total`], [`Loads::pacing`] and [`Loads::packets`]
    /// say.
    pub(in crate::draft) of: Vec<Option<StreamLoad>>,
    /// Rate of all streams together, while all send; `None`: as fast as the path takes packets, or the link's speed is
    /// not known yet.
    pub(in crate::draft) total: Option<Rate>,
    /// Spacing of the packets of a run with one stream.
    pub(in crate::draft) pacing: Pacing,
    /// Number of packets of a run with one stream.
    pub(in crate::draft) packets: Option<u64>,
    /// Time after which all streams have ended; `None`: one has no end, or the end depends on how fast the path takes
    /// packets.
    pub(in crate::draft) ends: Option<Duration>,
    /// All streams have a number of packets.
    pub(in crate::draft) finite: bool,
}

/// Returns the sum of the frames' bytes with FCS, and their number, of a mix by weight: their mean is exact, unless the
/// streams have too many sizes of their own.
fn mix(all: &[One]) -> (u64, u64) {
    const PARTS: u64 = 1 << 20;
    let sum = |one: &One| {
        let (bytes, frames) = one.size_sum();
        (bytes, frames, u64::from(weight_of(&one.stream)))
    };
    // Beside streams that share a rate, those with a rate of their own have no part in it.
    let shares = all.iter().any(|one| !has_rate(&one.stream));
    let sharing = all.iter().filter(|one| !shares || !has_rate(&one.stream));
    let sums: Vec<_> = sharing.map(sum).collect();
    // A common number of frames for all streams.
    let common = sums.iter().try_fold(1u64, |common, (_, frames, _)| {
        (common / gcd(common, *frames))
            .checked_mul(*frames)
            .filter(|common| *common <= PARTS)
    });
    let parts = |bytes: u64, frames: u64| match common {
        Some(common) => (bytes * (common / frames), common),
        None => (bytes * PARTS / frames, PARTS),
    };
    let add = |(all_bytes, all_frames): (u64, u64), (bytes, frames, weight): &(u64, u64, u64)| {
        let (bytes, frames) = parts(*bytes, *frames);
        (all_bytes + bytes * weight, all_frames + frames * weight)
    };
    sums.iter().fold((0, 0), add)
}

/// Speed of a link that shares of it are compared by.
const ANY_LINK: Option<u64> = Some(100_000_000_000);
/// Largest weight of a stream.
const MOST_WEIGHT: u64 = 1_000_000;

/// Returns the greatest common divisor; of 0 and another, the other.
fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn weight_of(stream: &Stream) -> u32 {
    match stream.load {
        Load::Weight(weight) => weight,
        Load::Most | Load::Rate(_) => 1,
    }
}

/// Returns the mean length of a frame over all streams, bytes with FCS: by their rates, or by their weights.
pub(super) fn mean_size(all: &[One]) -> f64 {
    let rates = all
        .iter()
        .map(|one| rate_of(one, ANY_LINK).ok().flatten().map(|rate| rate.pps()));
    let rates: Option<Vec<f64>> = rates.collect();
    match rates.filter(|rates| rates.iter().sum::<f64>() > 0.0) {
        Some(rates) => {
            let bytes = all.iter().zip(&rates).map(|(one, pps)| one.mean_size() * pps);
            bytes.sum::<f64>() / rates.iter().sum::<f64>()
        }
        None => {
            let (bytes, frames) = mix(all);
            bytes as f64 / frames.max(1) as f64
        }
    }
}

/// Returns the rate of a stream by itself; `None`: it has none, or it is a share of a link whose speed is not known.
fn rate_of(one: &One, link_bps: Option<u64>) -> Result<Option<Rate>> {
    let stream = &one.stream;
    if let Some(burst) = stream.burst.filter(|_| has_rate(stream)) {
        let rate = u64::from(burst.packets)
            .checked_mul(1_000_000_000)
            .and_then(|num| Rate::new(num, burst.gap.as_nanos() as u64));
        let rate =
            rate.ok_or_else(|| one.wrong("burst: want packets and a gap that are a rate from 0.001 pps to 10 Gpps"));
        return rate.map(Some);
    }
    let Load::Rate(text) = &stream.load else {
        return Ok(one.capture().filter(|_| has_rate(stream)).and_then(Replayed::rate));
    };
    let text = RateText::parse(text).map_err(|want| one.wrong(format!("rate: want {want}")))?;
    if text.is_share() && link_bps.is_none() {
        return Ok(None);
    }
    let rate = text.resolve_mix(one.size_sum(), link_bps);
    rate.map(Some)
        .map_err(|want| one.wrong(format!("rate {text}: want {want}")))
}

/// Returns whether a stream says its rate itself. One with a weight and bursts is a method's, which sets the rate.
fn has_rate(stream: &Stream) -> bool {
    match stream.load {
        Load::Rate(_) => true,
        Load::Most => stream.burst.is_some() || stream.is_timed(),
        Load::Weight(_) => false,
    }
}

/// Returns the number of a stream's packets; `None`: it has no end.
fn packets_of(one: &One) -> Option<u64> {
    let stream = &one.stream;
    if let Some(replayed) = one.capture() {
        let all = [stream.packets, replayed.packets()];
        return all.into_iter().flatten().min();
    }
    let bursts = stream
        .burst
        .and_then(|burst| Some(u64::from(burst.count?) * u64::from(burst.packets)));
    let once = match (stream.packets, bursts) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    once.map(|packets| packets.saturating_mul(stream.repeat.into()))
}

impl Streamed {
    /// Returns the loads; without `link_bps`, rates that are a share of the link's speed are not known yet. `opened`:
    /// the port is open, and a speed that is not known never will be.
    pub(in crate::draft) fn loads(&self, args: &Run, link_bps: Option<u64>, opened: bool) -> Result<Loads> {
        let all = &self.all;
        let rated = all.iter().filter(|one| has_rate(&one.stream)).count();
        let load = &args.plan.load;
        // A method gives weights to the streams whose rate it searches.
        let shares = load.rate.is_some() && all.iter().any(|one| matches!(one.stream.load, Load::Weight(_)));
        if let Some(one) = all.iter().find(|one| rated > 0 && !shares && !has_rate(&one.stream)) {
            return Err(one.wrong("other streams have a rate: want a rate in each stream, or a weight in each"));
        }
        if let Some(rate) = load.rate.as_ref().filter(|_| rated > 0 && !shares) {
            return Err(usage(format!(
                "--rate '{rate}': beside {}, whose streams have a rate: want weights in the streams, or it left out",
                self.option
            )));
        }
        let is_open = |text: &RateText| text.is_share() && link_bps.is_none() && !opened;
        let total = match load.rate.as_ref().filter(|text| !is_open(text)) {
            None => None,
            Some(text) => Some(
                text.resolve_mix(mix(all), link_bps)
                    .map_err(|want| no_rate(text, &want))?,
            ),
        };
        // Each way has the rate, as without streams.
        let weights = [false, true].map(|back| {
            let sharing = all
                .iter()
                .filter(|one| !has_rate(&one.stream) && one.goes_back() == back);
            sharing.map(|one| u64::from(weight_of(&one.stream))).sum::<u64>()
        });
        let (mut of, mut sum) = (Vec::new(), None);
        for one in all {
            let (share, weights) = (weight_of(&one.stream), weights[usize::from(one.goes_back())]);
            let shared = total.filter(|_| !has_rate(&one.stream));
            if let Some(total) = shared.filter(|total| total.times(share.into(), weights).is_none()) {
                return Err(one.wrong(format!(
                    "{share} of {weights} parts of {} pps: want 0.001 pps or more",
                    total.pps()
                )));
            }
            let own = match total {
                Some(total) if !has_rate(&one.stream) => total.times(share.into(), weights),
                _ => rate_of(one, link_bps)?,
            };
            let own =
                match (own, load.scale.as_deref().filter(|_| one.stream.scale)) {
                    (Some(own), Some(factor)) => Some(factor.of(own).ok_or_else(|| {
                        one.wrong(format!("{} pps by --scale: want 0.001 pps to 10 Gpps", own.pps()))
                    })?),
                    (own, _) => own,
                };
            if one.stream.is_timed() && !has_rate(&one.stream) && load.rate.is_none() {
                return Err(one.wrong("pacing captured: want a rate, or --rate, for packets in their own spacing"));
            }
            if own.is_none() && opened && (has_rate(&one.stream) || load.rate.is_some()) {
                return Err(one.wrong("rate: want one in pps or bps: the device does not tell its link speed"));
            }
            sum = match (sum, own) {
                (Some(sum), Some(own)) => Rate::plus(&sum, &own),
                (sum, own) => sum.or(own),
            };
            of.push(StreamLoad {
                rate: own,
                pacing: pacing_of(one, args)?,
                weight: share,
                start_ns: one.stream.start.as_nanos() as u64,
                packets: packets_of(one),
            });
        }
        // There is one stream then, and perhaps its way back.
        if let Some(count) = args.plan.traffic.count {
            for load in &mut of {
                load.packets = Some(load.packets.map_or(count, |packets| packets.min(count)));
            }
        }
        self.chain(&mut of, opened)?;
        let (ends, finite) = (ends(all, &of), of.iter().all(|load| load.packets.is_some()));
        let (first, only) = (&all[0], of[0]);
        // Streams of sockets are all sent as those of a mix.
        let plain = all.len() == 1
            && !first.of_sockets
            && only.start_ns == 0
            && first.stream.burst.is_none()
            && first.stream.lanes.is_empty()
            && first.form().is_some_and(|form| form.size_order().0.len() == 1);
        Ok(match plain {
            true => Loads {
                total: only.rate,
                pacing: only.pacing,
                packets: only.packets,
                of: vec![None],
                ends,
                finite,
            },
            false => Loads {
                of: of.into_iter().map(Some).collect(),
                total: sum,
                pacing: *load.pacing,
                packets: None,
                ends,
                finite,
            },
        })
    }

    /// Checks rates and pacing. Returns the highest rate, packets/s: 0 if it is not known yet, `None` without a rate.
    pub(in crate::draft) fn highest_pps(&self, args: &Run) -> Result<Option<f64>> {
        let loads = self.loads(args, None, false)?;
        let rated = args.plan.load.rate.is_some() || self.all.iter().any(|one| has_rate(&one.stream));
        let evenly = |one: &One| has_rate(&one.stream) && !one.stream.is_timed();
        let paced = args.plan.load.rate.is_some() || self.all.iter().any(evenly);
        let unpaced = |one: &&One| one.capture().is_some() && !paced && one.stream.pacing.is_some();
        if let Some(one) = self.all.iter().find(|one| unpaced(one) && !one.stream.is_timed()) {
            return Err(one.wrong("pacing: without a rate there is nothing to pace: want a rate as well"));
        }
        if !paced && *args.plan.load.pacing != Pacing::Constant {
            return Err(usage(
                "--pacing: without --rate there is nothing to pace: want --rate RATE as well",
            ));
        }
        if let Some(scale) = args.plan.load.scale.as_ref().filter(|_| !rated) {
            return Err(usage(format!(
                "--scale {scale}: there is no rate: want a rate in the streams, or --rate"
            )));
        }
        Ok(rated.then(|| loads.total.map_or(0.0, |total| total.pps())))
    }

    /// Returns the streams as a method has them, which sets their rate together: with weights in place of rates, of the
    /// streams that may be scaled, or (`all`) of all of them. `None`: no stream has a rate.
    pub(in crate::draft) fn weighted(&self, all: bool, link_bps: Option<u64>) -> Option<Traffic> {
        // Shares of a link are in the same proportion whatever its speed.
        let rate = |one: &One| {
            rate_of(one, link_bps.or(ANY_LINK))
                .ok()
                .flatten()
                .map(|rate| rate.pps())
        };
        let rates: Vec<Option<f64>> = self.all.iter().map(rate).collect();
        rates.iter().any(Option::is_some).then_some(())?;
        // Those that have a weight already, beside others, keep it.
        let changes = |one: &One| (all || one.stream.scale) && !matches!(one.stream.load, Load::Weight(_));
        // Thousandths of a packet per second, without what all have in common.
        let parts: Vec<u64> = rates
            .iter()
            .map(|pps| (pps.unwrap_or(0.0) * 1e3).round() as u64)
            .collect();
        let of_changed = || {
            parts
                .iter()
                .zip(&self.all)
                .filter(|(_, one)| changes(one))
                .map(|(part, _)| *part)
        };
        let common = of_changed().fold(0, gcd).max(1);
        let most = of_changed().max().unwrap_or(1) / common;
        let weight = |part: u64| match most > MOST_WEIGHT {
            true => (part / common) as f64 * MOST_WEIGHT as f64 / most as f64,
            false => (part / common) as f64,
        };
        let stream = |(one, part): (&One, &u64)| {
            let mut stream = one.stream.clone();
            if changes(one) {
                let timed = stream.is_timed();
                if let Some(pcap) = &mut stream.pcap {
                    (pcap.speed, pcap.flat_out) = (Speed::ONE, timed && all);
                }
                stream.pacing = match timed {
                    // As fast as the path takes them.
                    true => (!all).then(|| "captured".to_owned()),
                    false => stream.pacing,
                };
                stream.load = Load::Weight((weight(*part).round() as u32).max(1));
            }
            if all {
                // Without a rate nothing has a known end.
                (stream.after, stream.start) = (None, Duration::ZERO);
            }
            stream
        };
        Some(Traffic {
            streams: self
                .all
                .iter()
                .zip(&parts)
                .filter(|(one, _)| one.mirror.is_none())
                .map(stream)
                .collect(),
        })
    }

    /// Puts streams behind those that they begin after. `opened`: all rates are known that ever will be.
    fn chain(&self, of: &mut [StreamLoad], opened: bool) -> Result<()> {
        let mut placed: Vec<bool> = self.before.iter().map(Option::is_none).collect();
        for first in 0..of.len() {
            // The reader has refused circles.
            let mut path = Vec::new();
            let mut at = Some(first);
            while let Some(here) = at.filter(|here| !placed[*here]) {
                path.push(here);
                placed[here] = true;
                at = self.before[here];
            }
            for here in path.into_iter().rev() {
                let Some(before) = self.before[here] else { continue };
                match end_of(&self.all[before], &of[before]) {
                    Some(end) => of[here].start_ns = of[here].start_ns.saturating_add(end),
                    None if opened => {
                        let name = &self.all[before].stream.name;
                        return Err(self.all[here].wrong(format!(
                            "after {name}: want a rate there, or --rate, which says when it ends"
                        )));
                    }
                    None => {}
                }
            }
        }
        Ok(())
    }
}

/// Returns how the packets of a stream are spread.
fn pacing_of(one: &One, args: &Run) -> Result<Pacing> {
    if let Some(burst) = one.stream.burst {
        return Ok(Pacing::Bursts(burst.packets));
    }
    match one.stream.pacing.as_deref() {
        None => Ok(*args.plan.load.pacing),
        Some("poisson") => Ok(Pacing::Poisson),
        // Its own schedule has them.
        Some("captured") => Ok(Pacing::Constant),
        Some("burst") => Err(one.wrong("pacing burst: want burst = { packets = N, gap = TIME } in its place")),
        Some(_) => Ok(Pacing::Constant),
    }
}

/// Returns the time after the start of the run at which a stream has ended, ns; `None`: it has no end, or the end
/// depends on how fast the path takes packets.
fn end_of(one: &One, load: &StreamLoad) -> Option<u64> {
    if let Some(replayed) = one.capture().filter(|_| one.stream.is_timed()) {
        let (num, den) = load.rate?.parts();
        return Some(
            load.start_ns
                .saturating_add(replayed.ends_ns(load.packets?, (num, den))),
        );
    }
    let rates = Rates {
        first: load.rate?,
        then: None,
    };
    Some(load.start_ns.saturating_add(rates.time_for(load.packets?)))
}

/// Returns the time after which all streams have ended. Without rates it is not known, but the packets say it.
fn ends(all: &[One], of: &[StreamLoad]) -> Option<Duration> {
    let ends: Option<Vec<u64>> = all.iter().zip(of).map(|(one, load)| end_of(one, load)).collect();
    ends?.into_iter().max().map(Duration::from_nanos)
}
