//! Causes of missed departures.

use super::shares::{Shares, off_ns, sum};
use super::{BUSY, Cause, Causes, hypervisor, is_link, percent, times};
use mpps_stats::{Gap, KeptOffBy, KnownKind, Shortfall, Stretch};

/// Share of the time that counts as most of it.
const MOST: f64 = 0.5;

impl Causes<'_> {
    /// Returns why departures of `scheduled` are missing. An outage in which nothing could leave is the cause if half
    /// of the missing ones were due then. Another thing that took a share of the sending time is the cause if half of
    /// them would have left without it, at the pace of the rest of the time.
    pub(in crate::verdict) fn of_missing(&self, scheduled: u64) -> (Cause, String) {
        let (sent, scheduled) = (self.e.tx as f64, scheduled as f64);
        let explains = |share: f64| {
            let all = (sent / (1.0 - share.clamp(0.0, 0.999_999))).min(scheduled);
            share > 0.0 && all - sent >= (scheduled - sent) / 2.0
        };
        // Nothing at all could be sent then: departures due in that time are missing because of it.
        let due_then = |share: f64| share > 0.0 && sent < scheduled && share * scheduled >= (scheduled - sent) / 2.0;
        if let Some(outage) = self.outage(&due_then) {
            return outage;
        }
        let time = &Shares::of(&self.e.sending);
        let off = time.waited.max(time.away);
        let whole = [self.whole()];
        if explains(off) && self.quota_took(&whole, self.e.sending.len(), sum(&self.e.sending, off_ns)) {
            let why = self.withheld(off, "the sending time", &whole);
            self.remember(KeptOffBy::CpuQuota, &why, true);
            return (
                Cause::KeptOff(KeptOffBy::CpuQuota),
                format!("the host interfered: {why}"),
            );
        }
        if explains(time.waited + self.stolen()) {
            return self.interfered(time.waited, &explains);
        }
        if explains(time.held()) {
            let text = format!(
                "lanes were away from their clocks {}, for {} of the sending time, without waiting for a core: the \
                 reason is not known (a call into the kernel, interrupts, or a host that does not say)",
                times(time.away_times),
                percent(time.held())
            );
            return (Cause::AwayFromClock, text);
        }
        if explains(time.blocked) || time.busy + time.blocked >= BUSY && time.blocked > time.busy {
            self.shortfall.set(Some(Shortfall::Refused));
            return self.took_nothing(time.blocked);
        }
        if time.busy + time.blocked >= BUSY {
            self.shortfall.set(Some(Shortfall::Outpaced));
            let text = format!(
                "the generator could not keep up: its lanes were busy for {} of the sending time; lower the rate, add \
                 lanes or use a faster path",
                percent(time.busy)
            );
            return (Cause::LanesBusy, text);
        }
        // Lanes that lack their cores for most of the time, and yet are not busy, don't send on as in the rest of it:
        // they come back to more than they may catch up with.
        let most = |share: f64| share >= MOST;
        if most(time.waited + self.stolen()) {
            return self.interfered(time.waited, &most);
        }
        let measured = time.measured("of the sending time the lanes");
        (Cause::NotKnown, format!("the cause is not known: {measured}"))
    }

    /// Returns the whole run as a stretch.
    fn whole(&self) -> Gap {
        Gap {
            from_ns: 0,
            to_ns: self.e.duration_ns,
        }
    }

    /// Returns the outage in which nothing could leave and that explains the missing departures, by its share of the
    /// run.
    fn outage(&self, due_then: &dyn Fn(f64) -> bool) -> Option<(Cause, String)> {
        let whole = self.whole();
        let share = |ns: u64| ns as f64 / self.e.duration_ns.max(1) as f64;
        let lasted = |gaps: &[Gap]| share(gaps.iter().map(|gap| gap.common_ns(&whole)).sum());
        let stops = &self.e.still.stops;
        if due_then(lasted(stops)) {
            return Some(self.stopped(stops));
        }
        if due_then(lasted(&self.others)) {
            return Some(self.stood_still(&self.others));
        }
        let no_way_ns: u64 = self.e.no_way_ns.iter().sum();
        let down = (no_way_ns > 0 || self.missed_while_down()) && due_then(share(self.e.link_down_ns + no_way_ns));
        down.then(|| self.could_not_leave())
    }

    /// Names threads, the hypervisor or both as what kept the lanes from their cores: each that is `enough` alone, else
    /// the larger share or both.
    fn interfered(&self, waited: f64, enough: &dyn Fn(f64) -> bool) -> (Cause, String) {
        let stolen = self.stolen();
        let mut parts = Vec::new();
        if waited > stolen || enough(waited) {
            parts.push(self.by_threads(waited, "the sending time"));
        }
        if stolen >= waited || enough(stolen) || !enough(waited) {
            parts.push((KeptOffBy::Hypervisor, hypervisor(stolen)));
        }
        // One of the two is always there.
        let (by, why) = self.in_one(parts, true).unwrap_or((KeptOffBy::NotKnown, String::new()));
        (Cause::KeptOff(by), format!("the host interfered: {why}"))
    }

    /// Names what was full while the path took nothing, for a share of the sending time.
    fn took_nothing(&self, share: f64) -> (Cause, String) {
        let known = |kind: KnownKind| {
            let known = self.known.iter().filter(|of| of.kind == kind);
            known.map(|of| of.sentence.as_str()).collect::<Vec<&str>>()
        };
        let dropped = known(KnownKind::DeviceDropped);
        // A few dropped packets of other programs are not the cause: then the queue in front of the device has
        // dropped more.
        let of_device: u64 = self.e.around.iter().filter_map(|seen| seen.device_dropped).sum();
        let queues = self.e.around.iter().flat_map(|seen| seen.queues.iter().flatten());
        let of_queues: u64 = queues.map(|queue| queue.packets).sum();
        if !dropped.is_empty() && of_device > of_queues {
            let text = format!(
                "the path took nothing for {} of the sending time: {}. A queue behind it was full, which a lower \
                 rate mends, or its other end takes no packets of this length (MTU), which --frame-size does",
                percent(share),
                dropped.join("; ")
            );
            return (Cause::DeviceDropped, text);
        }
        let queues = known(KnownKind::QueueDropped);
        let which = match queues.is_empty() {
            true => String::new(),
            false => format!(" ({})", queues.join("; ")),
        };
        let text = format!(
            "the path took nothing for {} of the sending time, because a ring, buffer or queue was full{which}: \
             lower the rate, enlarge it or use a faster path",
            percent(share)
        );
        (Cause::PathTookNothing, text)
    }

    /// Returns whether half of the missed departures are in stretches that an outage of the link reaches into, as far
    /// as both have times.
    fn missed_while_down(&self) -> bool {
        let down: Vec<_> = self.known.iter().filter(|of| is_link(of.kind)).collect();
        let misses = &self.e.misses;
        let at = |of: &&Stretch| down.iter().any(|known| known.within(of.from_ns, of.to_ns) > 0);
        let then: u64 = misses.largest.iter().filter(at).map(|of| of.packets).sum();
        down.is_empty() || then * 2 >= misses.packets()
    }
}
