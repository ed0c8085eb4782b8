//! What a picture keeps of a run: as many bins as it has columns of pixels.

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

/// What happened in one column of the picture.
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
    /// Packets/s.
    pub(crate) tx_rate: Band,
    pub(crate) rx_rate: Band,
    /// By time of arrival.
    pub(crate) arrival_rate: Band,
    /// Of single rows.
    pub(crate) loss_ratio: Band,
    pub(crate) late_ratio: Band,
    /// Of the packets that reached this host, those that it dropped.
    pub(crate) drop_ratio: Band,
    /// ns.
    pub(crate) latency: [Band; 7],
}

/// A run as the picture needs it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub(crate) bins: Vec<Bin>,
    pub(crate) rows: u64,
    /// The last row has no end, and is left out.
    pub(crate) torn: bool,
    /// Several rows share a bin.
    pub(crate) folded: bool,
    pub(crate) percentiles: bool,
    /// Rows have arrivals, and another number of them than packets sent then that were received.
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
    /// Rows say when packets arrived; a CSV of an earlier version does not.
    pub(crate) fn tells_arrivals(&self) -> bool {
        self.bins.iter().any(|bin| bin.arrival_rate.mean().is_some())
    }

    /// Nothing came back, and nothing was waited for: its loss is not known. Where it was, all is lost.
    pub(crate) fn only_sends(&self) -> bool {
        self.tx > 0.0 && self.rx + self.lost + self.late + self.host_dropped == 0.0
    }
}
