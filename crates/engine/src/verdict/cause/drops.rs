//! Causes of packets that this host dropped.

use super::shares::{Shares, busy, held_ns, off_ns, sum};
use super::{BUSY, Cause, Causes, NOTABLE, hypervisor, percent, span};
use crate::verdict::meanwhile::LaneTime;
use mpps_stats::{Gap, KeptOffBy, Stretch, Workload};

impl Causes<'_> {
    /// Returns why this host dropped packets before mpps took them. Only lanes that should have taken them count, and
    /// only the time in which they were dropped. While a lane took nothing, packets are assumed to come at the same
    /// rate as in the rest of that time.
    pub(in crate::verdict) fn of_drops(&self) -> (Cause, String) {
        let still = &self.e.still;
        if self.fell_in(&still.stops) {
            return self.stopped(&still.stops);
        }
        if self.fell_in(&self.others) {
            return self.stood_still(&self.others);
        }
        let lanes = &self.e.dropping;
        let dropped: u64 = lanes.iter().map(|lane| lane.dropped).sum();
        let most = |packets: f64| dropped > 0 && packets * 2.0 >= dropped as f64;
        let explained = |ns: fn(&LaneTime) -> u64| -> f64 {
            let lane = |lane: &LaneTime| {
                let came = (lane.dropped + lane.taken) as f64;
                (came * ns(lane) as f64 / lane.ns.max(1) as f64).min(lane.dropped as f64)
            };
            lanes.iter().map(lane).sum()
        };
        let time = &Shares::of(lanes);
        let of = &format!("the {} in which it happened", span(time.longest_ns));
        let waited = explained(|lane| lane.waited_ns.unwrap_or(0));
        let held = explained(held_ns);
        let blocked = explained(|lane| lane.blocked_ns);
        let stretches: Vec<Gap> = self.e.drops.largest.iter().map(gap_of).collect();
        if most(explained(off_ns)) && self.quota_took(&stretches, lanes.len(), sum(lanes, off_ns)) {
            let why = self.withheld(time.waited.max(time.away), of, &stretches);
            self.remember(KeptOffBy::CpuQuota, &why, true);
            let text = format!("lanes were kept from their cores: {why}. A larger buffer or ring bridges this");
            return (Cause::KeptOff(KeptOffBy::CpuQuota), text);
        }
        if most(blocked) && blocked >= waited.max(held) {
            let text = format!(
                "lanes waited for room to send for {} of {of}, and could take nothing meanwhile: a ring, buffer or \
                 queue of the port that they send by was full. Lower the rate, enlarge it, or see what its other end \
                 is slow at",
                percent(time.blocked)
            );
            return (Cause::NoRoomToSend, text);
        }
        if most(waited) && waited >= held {
            let (by, why) = self.by_threads(time.waited, of);
            self.remember(by, &why, true);
            return (Cause::KeptOff(by), format!("lanes were kept from their cores: {why}"));
        }
        if most(held) {
            return self.away_from_clocks(time.held(), of);
        }
        let without_rest = lanes.iter().filter(|lane| busy(lane) >= BUSY);
        if most(without_rest.map(|lane| lane.dropped as f64).sum()) {
            return (Cause::LanesBusy, self.outpaced(of));
        }
        let text = format!(
            "a socket buffer or ring was full, and the cause is not known: {}. A larger buffer or ring may help",
            time.measured(&format!("of {of} the lanes concerned"))
        );
        (Cause::NotKnown, text)
    }

    /// Returns why lanes were away from their clocks for a share of a time, other than waiting for their cores.
    fn away_from_clocks(&self, share: f64, of: &str) -> (Cause, String) {
        let stolen = self.stolen();
        let away: u64 = self
            .lanes
            .iter()
            .filter_map(|lane| lane.away)
            .map(|away| away.total_ns)
            .sum();
        // Over the whole run, as far as that can be compared.
        let by_host = stolen * self.e.looked_ns as f64 >= away as f64 / 2.0 && stolen > NOTABLE;
        let (cause, what) = match by_host {
            true => {
                let why = hypervisor(stolen);
                self.remember(KeptOffBy::Hypervisor, &why, true);
                (Cause::KeptOff(KeptOffBy::Hypervisor), why)
            }
            false => {
                let why = "the reason is not known (a call into the kernel, interrupts, or a host that does not say)";
                (Cause::AwayFromClock, why.to_owned())
            }
        };
        let text = format!(
            "lanes were away from their clocks for {} of {of}, without waiting for a core: {what}. A larger buffer \
             or ring bridges this",
            percent(share)
        );
        (cause, text)
    }

    /// Returns a sentence on packets that came faster than lanes could take them, which were busy then.
    fn outpaced(&self, of: &str) -> String {
        let (done, remedy) = match self.workload {
            Workload::Reflect => ("turned round", "lower the rate or add lanes"),
            Workload::Forward => ("forwarded", "lower the rate or add lanes"),
            Workload::Capture => ("taken", "add lanes or enlarge the ring"),
            _ => ("taken", "lower the rate, add receive lanes or enlarge the buffer"),
        };
        format!(
            "they came faster than they could be {done}, with lanes busy for {} of {of}: {remedy}",
            percent(self.e.dropping.iter().map(busy).fold(0.0, f64::max))
        )
    }

    /// Returns whether half of the packets that this host dropped came during one of `gaps`: by stretch of time, and no
    /// more than came in the length of the gap.
    fn fell_in(&self, gaps: &[Gap]) -> bool {
        let drops = &self.e.drops;
        let lanes = &self.e.dropping;
        let came: u64 = lanes.iter().map(|lane| lane.dropped + lane.taken).sum();
        let ns = lanes.iter().map(|lane| lane.ns).max().unwrap_or(0);
        let per_ns = came as f64 / ns.max(1) as f64;
        let during = drops.largest.iter().map(|stretch| {
            let span = gap_of(stretch);
            let common: u64 = gaps.iter().map(|gap| gap.common_ns(&span)).sum();
            (common as f64 * per_ns).min(stretch.packets as f64)
        });
        let during: f64 = during.sum();
        during > 0.0 && during * 2.0 >= drops.packets() as f64
    }
}

fn gap_of(stretch: &Stretch) -> Gap {
    Gap {
        from_ns: stretch.from_ns,
        to_ns: stretch.to_ns,
    }
}
