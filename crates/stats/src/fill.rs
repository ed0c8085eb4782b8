//! How full a lane's receive rings are, as looked at now and then.

use crate::counter::Counter;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// A whole ring in the unit of shares: parts per million.
pub const WHOLE_PPM: u64 = 1_000_000;

/// What is counted in rings and sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FillUnit {
    /// Packets: places of a ring.
    #[default]
    Packets,
    /// Bytes of the kernel's memory, its own overhead for each packet counted.
    Bytes,
}

impl FillUnit {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Bytes => "bytes",
        }
    }
}

/// The looks at one receive ring, or at the buffer of a socket, of a lane; the lane writes, anyone reads.
#[derive(Debug, Default)]
pub struct FillGauge {
    /// What it holds at most; 0: it can't be told how full it is.
    pub size: Counter,
    /// How many there are of that size: then each look is at the fullest.
    pub rings: Counter,
    /// That is bytes (1), not packets (0).
    pub in_bytes: Counter,
    /// Looks.
    pub looks: Counter,
    /// Sum of what was found.
    pub sum: Counter,
    /// The most that was found.
    pub highest: Counter,
    /// Sum of the shares found, ppm.
    pub sum_ppm: Counter,
    /// The highest share since somebody last asked, ppm.
    recent_ppm: AtomicU64,
    /// What packets took, where a look found some and all of them were received right after it; and how many that were.
    pub taken: Counter,
    /// As [`taken`](Self::taken).
    pub taken_by: Counter,
}

impl FillGauge {
    /// A look found so much; returns its share of the whole, ppm. For the single writer only.
    pub fn look(&self, fill: u64) -> u64 {
        let ppm = share_ppm(fill, self.size.get());
        self.looks.add(1);
        self.sum.add(fill);
        self.highest.raise(fill);
        self.sum_ppm.add(ppm);
        // Beside a reader that has just asked it stands in that one's time or in the next.
        if ppm > self.recent_ppm.load(Ordering::Relaxed) {
            self.recent_ppm.store(ppm, Ordering::Relaxed);
        }
        ppm
    }

    /// The highest share since this was last asked, ppm. For one reader.
    pub fn take_recent_ppm(&self) -> u64 {
        self.recent_ppm.swap(0, Ordering::Relaxed)
    }

    /// What was found; `None` where nobody looked. `rate` is that of the packets which came, a second: to each ring its
    /// part.
    pub fn told(&self, port: Option<String>, rate: f64) -> Option<RingFill> {
        let (looks, size) = (self.looks.get(), self.size.get());
        if looks == 0 || size == 0 {
            return None;
        }
        let unit = match self.in_bytes.get() {
            0 => FillUnit::Packets,
            _ => FillUnit::Bytes,
        };
        let of_packet = match (unit, self.taken_by.get()) {
            (FillUnit::Packets, _) => Some(1.0),
            (FillUnit::Bytes, 0) => None,
            (FillUnit::Bytes, packets) => Some(self.taken.get() as f64 / packets as f64),
        };
        let rings = self.rings.get().max(1);
        let packets = of_packet.map(|of| (size * rings) as f64 / of).filter(|n| n.is_finite());
        Some(RingFill {
            port,
            size,
            rings,
            unit,
            looks,
            highest: self.highest.get(),
            mean: self.sum.get() as f64 / looks as f64,
            of_packet,
            lasts_ns: packets.filter(|_| rate > 0.0).map(|n| (n / rate * 1e9) as u64),
        })
    }
}

/// So much of a whole, ppm, no more than all of it: a socket takes the packet with which it exceeds its limit.
pub fn share_ppm(fill: u64, size: u64) -> u64 {
    (u128::from(fill) * u128::from(WHOLE_PPM) / u128::from(size.max(1))).min(u128::from(WHOLE_PPM)) as u64
}

/// How full a receive ring was over a run, or the buffer of a socket; of several that a lane has of one port, the
/// fullest at each look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RingFill {
    /// The port that it is of, where the report tells ports apart.
    pub port: Option<String>,
    /// What it holds at most.
    pub size: u64,
    /// How many there are of that size.
    pub rings: u64,
    /// What that is counted in.
    pub unit: FillUnit,
    /// Looks.
    pub looks: u64,
    /// The most that a look found.
    pub highest: u64,
    /// Mean over the looks.
    pub mean: f64,
    /// What a packet takes, on average; `None` where that was not seen.
    pub of_packet: Option<f64>,
    /// For how long packets could come, at the mean rate at which they were received, until an empty one was full, ns;
    /// `None` where none came, or it is not known what a packet takes.
    pub lasts_ns: Option<u64>,
}

impl RingFill {
    /// The most that a look found, as a share of the whole.
    pub fn highest_ratio(&self) -> f64 {
        share_ppm(self.highest, self.size) as f64 / WHOLE_PPM as f64
    }

    /// The mean, as a share of the whole.
    pub fn mean_ratio(&self) -> f64 {
        (self.mean / self.size.max(1) as f64).min(1.0)
    }
}

/// How full receive rings were in a row, over all lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowFill {
    /// The highest share that a look found, ppm.
    pub highest_ppm: u64,
    /// Mean share over the looks, ppm.
    pub mean_ppm: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_lasts_for_as_many_packets_as_it_holds() {
        let gauge = FillGauge::default();
        assert_eq!(gauge.told(None, 1e6), None);
        gauge.size.set(2048);
        assert_eq!(gauge.told(None, 1e6), None, "nobody looked");
        assert_eq!([0, 1024, 512].map(|fill| gauge.look(fill)), [0, 500_000, 250_000]);
        let told = gauge.told(None, 1e6).expect("there were looks");
        assert_eq!((told.looks, told.highest, told.mean), (3, 1024, 512.0));
        assert_eq!((told.highest_ratio(), told.mean_ratio()), (0.5, 0.25));
        assert_eq!((told.of_packet, told.lasts_ns), (Some(1.0), Some(2_048_000)));
        assert_eq!(gauge.told(None, 0.0).and_then(|told| told.lasts_ns), None);
        gauge.rings.set(2);
        let told = gauge.told(None, 1e6).expect("as before");
        assert_eq!(
            (told.rings, told.lasts_ns),
            (2, Some(4_096_000)),
            "each has half of the packets"
        );
        assert_eq!([gauge.take_recent_ppm(), gauge.take_recent_ppm()], [500_000, 0]);
    }

    #[test]
    fn a_buffer_in_bytes_lasts_only_where_it_was_seen_what_a_packet_takes() {
        let gauge = FillGauge::default();
        gauge.size.set(212_992);
        gauge.in_bytes.set(1);
        assert_eq!(gauge.look(300_000), WHOLE_PPM, "one packet beyond the limit is taken");
        let told = gauge.told(None, 1e3).expect("there was a look");
        assert_eq!((told.unit, told.highest_ratio()), (FillUnit::Bytes, 1.0));
        assert_eq!((told.of_packet, told.lasts_ns), (None, None));
        gauge.taken.add(7680);
        gauge.taken_by.add(10);
        let told = gauge.told(None, 1e3).expect("as before");
        assert_eq!((told.of_packet, told.lasts_ns), (Some(768.0), Some(277_333_333)));
    }
}
