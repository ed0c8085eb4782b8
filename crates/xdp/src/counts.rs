//! Reading what the programs count, out of the memory that they write it to.
//!
//! Memory that the programs may still write is only read. Rows and histograms are taken, and zeroed, once no program
//! writes them any more: the callers keep to that ([`mpps_io::kernel::KernelPort`]).

use crate::abi::{Lane, Moments, OCTAVES, take};
use crate::load::Which;
use crate::port::XdpPort;
use mpps_io::kernel::{KernelLatency, KernelMoments, KernelRow, KernelTrack, SourceTotals};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Packets that a lane has sent. The program moves them from one count to the other: seen in between, they would be
/// missing, or there twice.
pub(crate) fn sent(lane: &Lane) -> u64 {
    let mut booked = lane.packets.load(Acquire);
    for _ in 0..8 {
        let pending = lane.pending.load(Acquire);
        let now = lane.packets.load(Acquire);
        if now == booked {
            return booked + pending;
        }
        booked = now;
    }
    booked
}

fn moments(from: &Moments) -> KernelMoments {
    let count = take(&from.count);
    let (sum, complement, max) = (take(&from.sum), take(&from.min_complement), take(&from.max));
    KernelMoments {
        count,
        sum,
        min: if count == 0 { 0 } else { !complement },
        max,
    }
}

impl XdpPort {
    /// See [`mpps_io::kernel::KernelPort::gaps`].
    pub(crate) fn lane_gaps(&self, lane: usize, bucket: &mut dyn FnMut(usize, u64)) -> KernelMoments {
        let (Some(sending), Some(own)) = (&self.sending, self.lane(lane)) else {
            return KernelMoments::default();
        };
        let octaves = sending.gaps.iter().skip(lane * OCTAVES).take(OCTAVES);
        for (place, counter) in octaves.flat_map(|octave| &octave.bucket).enumerate() {
            match counter.load(Relaxed) {
                0 => {}
                n => bucket(place, n),
            }
        }
        // The histogram lacks the gaps of 0: packets that left at one reading of the clock.
        let back_to_back = own.packets.load(Relaxed).saturating_sub(own.bursts.load(Relaxed));
        let mut all = moments(&own.gaps);
        if back_to_back > 0 {
            bucket(0, back_to_back);
            all.count += back_to_back;
            all.min = 0;
        }
        all
    }

    /// See [`mpps_io::kernel::KernelPort::source_totals`].
    pub(crate) fn totals_of(&self, source: usize) -> SourceTotals {
        let Some(s) = self.sources.get(source) else {
            return SourceTotals::default();
        };
        let test = s.test.load(Relaxed);
        // A reflector sends back every packet that it counts. A forwarder counts by itself the frames that it sends.
        let tx = match self.which {
            Which::Reflect => test,
            _ => s.tx.load(Relaxed),
        };
        SourceTotals {
            // This source may have counted packets that another one held, so `others` alone may be below 0.
            packets: test
                .wrapping_add(s.others.load(Relaxed))
                .cast_signed()
                .max(0)
                .cast_unsigned(),
            passed: s.passed.load(Relaxed),
            polls: s.polls.load(Relaxed),
            test,
            tx,
            bytes: s.bytes.load(Relaxed),
            late: s.late.load(Relaxed),
            distance_max: s.distance_max.load(Relaxed),
            first_ns: s.first_ns.load(Relaxed),
            last_ns: s.last_ns.load(Relaxed),
        }
    }

    /// See [`mpps_io::kernel::KernelPort::track_totals`].
    pub(crate) fn totals_of_track(&self, track: KernelTrack) -> (u64, u64) {
        let place = match track {
            KernelTrack::Run => return (0, 0),
            KernelTrack::Stream(stream) => stream,
            KernelTrack::Size(size) => self.plan.streams as usize + size,
        };
        let late = self.sources.iter().map(|s| s.late_of[place].load(Relaxed));
        let distance = self.sources.iter().map(|s| s.distance_of[place].load(Relaxed));
        (late.sum(), distance.max().unwrap_or(0))
    }

    /// Returns the track that a writer of rows counts for.
    fn track_of(&self, writer: usize) -> KernelTrack {
        let (streams, places) = (self.plan.streams as usize, self.plan.places as usize);
        if streams == 0 {
            return KernelTrack::Run;
        }
        let place = match writer.checked_sub(self.plan.sources as usize * places) {
            None => writer % places,
            Some(of_lanes) => 1 + of_lanes % (places - 1),
        };
        match place {
            0 => KernelTrack::Run,
            place if place <= streams => KernelTrack::Stream(place - 1),
            place => KernelTrack::Size(place - 1 - streams),
        }
    }

    /// See [`mpps_io::kernel::KernelPort::take_rows`].
    pub(crate) fn rows_between(&self, from: u64, to: u64, give: &mut dyn FnMut(u64, KernelTrack, &KernelRow)) {
        let ring = u64::from(self.plan.rows);
        let writers = self.rows.len() / self.plan.rows as usize;
        for number in from..to {
            for writer in 0..writers {
                let row = &self.rows[writer * ring as usize + (number % ring) as usize];
                let latency = moments(&row.latency);
                // A sender measures every packet that it counts.
                let rx = match self.which {
                    Which::Traffic => latency.count,
                    _ => take(&row.rx),
                };
                let taken = KernelRow {
                    // A reflector sends back every packet that it takes.
                    tx: match self.which {
                        Which::Reflect => rx,
                        _ => take(&row.tx),
                    },
                    missed: take(&row.missed),
                    rx,
                    duplicates: take(&row.duplicates),
                    reordered: take(&row.reordered),
                    distance_sum: take(&row.distance_sum),
                    corrupt: take(&row.corrupt),
                    foreign: take(&row.foreign),
                    expected: take(&row.expected).cast_signed(),
                    latency,
                    scheduled: moments(&row.scheduled),
                };
                if taken != KernelRow::default() {
                    give(number, self.track_of(writer), &taken);
                }
            }
        }
    }

    /// See [`mpps_io::kernel::KernelPort::take_histograms`].
    pub(crate) fn histograms_of(&self, row: u64, give: &mut dyn FnMut(KernelLatency, KernelTrack, usize, u64)) {
        let Some(histograms) = &self.histograms else { return };
        let period = (row / u64::from(self.plan.rows_per_period) % u64::from(self.plan.periods)) as usize;
        let periods = self.plan.periods as usize;
        let rings = histograms.len() / (periods * OCTAVES);
        let places = self.plan.places as usize;
        let writers = self.plan.sources as usize * places;
        for ring in 0..rings {
            let kind = if ring < writers {
                KernelLatency::Actual
            } else {
                KernelLatency::Scheduled
            };
            // A device may have many queues, and few that packets come to.
            if self.sources[ring % writers / places].test.load(Relaxed) == 0 {
                continue;
            }
            let begin = (ring * periods + period) * OCTAVES;
            let buckets = histograms[begin..begin + OCTAVES].iter().flat_map(|o| &o.bucket);
            for (place, counter) in buckets.enumerate() {
                let n = counter.load(Relaxed);
                if n != 0 {
                    counter.store(0, Relaxed);
                    give(kind, self.track_of(ring % writers), place, u64::from(n));
                }
            }
        }
    }
}
