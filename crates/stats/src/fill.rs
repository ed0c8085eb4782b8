//! Fill of a lane's receive rings, looked at now and then.

use crate::counter::Counter;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// A whole ring in the unit of shares: parts per million.
pub const WHOLE_PPM: u64 = 1_000_000;

/// Unit of a ring's or buffer's fill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FillUnit {
    /// Packets: places of a ring.
    #[default]
    Packets,
    /// Bytes of the kernel's memory, including its overhead for each packet.
    Bytes,
}

impl FillUnit {
    /// Returns the name of the unit.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Bytes => "bytes",
        }
    }
}

/// Looks at one receive ring of a lane, or at the buffer of a socket; the lane writes, any thread reads.
#[derive(Debug, Default)]
pub struct FillGauge {
    /// Capacity of the ring or buffer; 0 if its fill is not known.
    pub size: Counter,
    /// Number of rings of that size. If there are several, each look takes the fullest.
    pub rings: Counter,
    /// Unit of size and fill: 1 for bytes, 0 for packets.
    pub in_bytes: Counter,
    /// Number of looks.
    pub looks: Counter,
    /// Sum of the fills found.
    pub sum: Counter,
    /// Highest fill found.
    pub highest: Counter,
    /// Sum of the shares found, ppm.
    pub sum_ppm: Counter,
    /// Highest share since the last call of [`FillGauge::take_recent_ppm`], ppm.
    recent_ppm: AtomicU64,
    /// Sum of the fills found by looks right after which all packets were received. See [`taken_by`](Self::taken_by).
    pub taken: Counter,
    /// Packets received right after those looks. See [`taken`](Self::taken).
    pub taken_by: Counter,
}

impl FillGauge {
    /// Notes a look that found `fill`; returns its share of the whole, ppm. For the single writer only.
    pub fn look(&self, fill: u64) -> u64 {
        let ppm = share_ppm(fill, self.size.get());
        self.looks.add(1);
        self.sum.add(fill);
        self.highest.raise(fill);
        self.sum_ppm.add(ppm);
        // If a reader takes the value at the same moment, this look counts in that reading or in the next.
        if ppm > self.recent_ppm.load(Ordering::Relaxed) {
            self.recent_ppm.store(ppm, Ordering::Relaxed);
        }
        ppm
    }

    /// Returns the highest share since the last call, ppm. For one reader.
    pub fn take_recent_ppm(&self) -> u64 {
        self.recent_ppm.swap(0, Ordering::Relaxed)
    }

    /// Returns the fill over the run; `None` if nobody looked. `rate` is the rate at which packets came, packets/s,
    /// over all rings: each ring gets an equal part.
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

/// Returns `fill` as a share of `size`, ppm, at most the whole: a socket takes the packet with which it exceeds its
/// limit.
pub fn share_ppm(fill: u64, size: u64) -> u64 {
    (u128::from(fill) * u128::from(WHOLE_PPM) / u128::from(size.max(1))).min(u128::from(WHOLE_PPM)) as u64
}

/// Fill of a receive ring or of a socket's buffer over a run. If a lane has several for one port, each look takes the
/// fullest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RingFill {
    /// Port of the ring, if the report distinguishes ports.
    pub port: Option<String>,
    /// Capacity of the ring.
    pub size: u64,
    /// Number of rings of that size.
    pub rings: u64,
    /// Unit of size and fill.
    pub unit: FillUnit,
    /// Number of looks.
    pub looks: u64,
    /// Highest fill that a look found.
    pub highest: u64,
    /// Mean fill over the looks.
    pub mean: f64,
    /// Mean room that a packet takes; `None` if that was not seen.
    pub of_packet: Option<f64>,
    /// Time for which packets could come, at the mean rate at which they were received, until an empty ring was full,
    /// ns; `None` if no packet came, or if the room that a packet takes is not known.
    pub lasts_ns: Option<u64>,
}

impl RingFill {
    /// Returns the highest fill as a share of the whole.
    pub fn highest_ratio(&self) -> f64 {
        share_ppm(self.highest, self.size) as f64 / WHOLE_PPM as f64
    }

    /// Returns the mean fill as a share of the whole.
    pub fn mean_ratio(&self) -> f64 {
        (self.mean / self.size.max(1) as f64).min(1.0)
    }
}

/// Fill of the receive rings in a row, over all lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowFill {
    /// Highest share that a look found, ppm.
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
