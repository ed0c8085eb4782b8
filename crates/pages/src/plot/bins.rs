//! The data that a picture keeps of a run: as many bins as the picture has columns of pixels.

/// Range and mean of the values that fell into one bin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Band {
    pub(crate) low: f64,
    pub(crate) high: f64,
    sum: f64,
    n: u64,
}

impl Default for Band {
    fn default() -> Self {
        Self {
            low: f64::INFINITY,
            high: f64::NEG_INFINITY,
            sum: 0.0,
            n: 0,
        }
    }
}

impl Band {
    pub(super) fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.low = self.low.min(value);
            self.high = self.high.max(value);
            self.sum += value;
            self.n += 1;
        }
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum / self.n as f64)
    }

    pub(crate) fn lowest(&self) -> Option<f64> {
        (self.n > 0).then_some(self.low)
    }

    pub(crate) fn highest(&self) -> Option<f64> {
        (self.n > 0).then_some(self.high)
    }
}

/// Latency columns, in the order of [`Bin::latency`].
pub(super) const LATENCY: [&str; 7] = [
    "latency_min_us",
    "latency_avg_us",
    "latency_p50_us",
    "latency_p90_us",
    "latency_p99_us",
    "latency_p999_us",
    "latency_max_us",
];
pub(crate) const MIN: usize = 0;
pub(crate) const MEAN: usize = 1;
pub(crate) const P50: usize = 2;
pub(crate) const P90: usize = 3;
pub(crate) const P99: usize = 4;
pub(crate) const P999: usize = 5;
pub(crate) const MAX: usize = 6;

/// Data of one column of the picture.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bin {
    /// Start and end, s.
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) rows: u64,
    pub(crate) tx: f64,
    pub(crate) rx: f64,
    pub(crate) lost: f64,
    pub(crate) late: f64,
    /// Rates, packets/s.
    pub(crate) tx_rate: Band,
    pub(crate) rx_rate: Band,
    /// Rate of received packets by time of arrival, packets/s.
    pub(crate) arrival_rate: Band,
    /// Lost and late packets as shares of those sent, per row.
    pub(crate) loss_ratio: Band,
    pub(crate) late_ratio: Band,
    /// Share of the packets that reached this host and were dropped by it.
    pub(crate) drop_ratio: Band,
    /// Latencies, ns, in the order of [`LATENCY`].
    pub(crate) latency: [Band; 7],
}

/// The data of a run that the picture needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub(crate) bins: Vec<Bin>,
    pub(crate) rows: u64,
    /// Whether the last row has no end of line, and is left out.
    pub(crate) torn: bool,
    /// Whether several rows share a bin.
    pub(crate) folded: bool,
    pub(crate) percentiles: bool,
    /// Whether rows have arrivals, and their number differs from that of received packets by the time of sending.
    pub(crate) arrivals: bool,
    /// Start of the first row and end of the last, s.
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) tx: f64,
    pub(crate) rx: f64,
    pub(crate) lost: f64,
    pub(crate) late: f64,
    pub(crate) duplicates: f64,
    pub(crate) reordered: f64,
    pub(crate) corrupt: f64,
    pub(crate) host_dropped: f64,
}

impl Run {
    /// Returns whether rows contain arrival times; a CSV of an earlier version does not.
    pub(crate) fn tells_arrivals(&self) -> bool {
        self.bins.iter().any(|bin| bin.arrival_rate.mean().is_some())
    }

    /// Returns whether the run only sent, without waiting for packets: its loss is not known. A run that waited in vain
    /// has lost all packets.
    pub(crate) fn only_sends(&self) -> bool {
        self.tx > 0.0 && self.rx + self.lost + self.late + self.host_dropped == 0.0
    }
}
