//! Log-linear histograms of nanoseconds: exact below 2048 ns, within 0.05 % above.
//!
//! The layout is that of HdrHistogram with three significant digits: each power of two is cut into 1024 equal
//! buckets. Lanes write [`SharedHistogram`]s (single writer, no lock); the collector drains them into [`Histogram`]s,
//! which it merges and asks for percentiles.

use crate::counter::{Counter, Counter32};
use crate::{Latency, Percentiles};

/// Values below this have a bucket each.
const LINEAR: u64 = 2048;
/// Buckets per power of two above that.
const SUB: u64 = 1024;
/// Largest value with a bucket of its own, ns (about 137 s); larger values count in the last bucket.
const MAX_VALUE: u64 = (1 << 37) - 1;
/// Buckets looked at together.
const STRIDE: usize = 16;
/// Number of buckets.
pub const BUCKETS: usize = (LINEAR + (37 - 11) * SUB) as usize;

/// Returns the bucket of `value` ns.
#[inline]
pub fn bucket_of(value: u64) -> usize {
    let v = value.min(MAX_VALUE);
    if v < LINEAR {
        return v as usize;
    }
    let exponent = u64::from(63 - v.leading_zeros());
    (LINEAR + (exponent - 11) * SUB + ((v >> (exponent - 10)) - SUB)) as usize
}

/// Returns the middle of bucket `index`, ns.
pub fn value_of(index: usize) -> u64 {
    let i = index as u64;
    if i < LINEAR {
        return i;
    }
    let octave = (i - LINEAR) / SUB;
    let sub = (i - LINEAR) % SUB;
    let width = 1u64 << (octave + 1);
    (SUB + sub) * width + width / 2
}

/// A histogram that one lane writes. The collector drains it once the lane has gone on to a later period.
#[derive(Debug)]
pub(crate) struct SharedHistogram {
    buckets: Box<[Counter32]>,
    /// Lowest bucket used, complemented so that zeroed memory means "none".
    lowest_complement: Counter,
    highest_plus_one: Counter,
}

impl SharedHistogram {
    pub(crate) fn new() -> Self {
        let mut buckets = Vec::new();
        buckets.resize_with(BUCKETS, Counter32::default);
        Self {
            buckets: buckets.into_boxed_slice(),
            lowest_complement: Counter::default(),
            highest_plus_one: Counter::default(),
        }
    }

    #[inline]
    pub(crate) fn record(&self, value: u64, n: u32) {
        self.add_bucket(bucket_of(value), n);
    }

    /// Counts `values`, whose moments are `moments`: they give the lowest and the highest bucket at once.
    #[inline]
    pub(crate) fn record_each(&self, values: impl Iterator<Item = u64>, moments: &Moments) {
        for value in values {
            self.buckets[bucket_of(value).min(BUCKETS - 1)].add(1);
        }
        if moments.count > 0 {
            let [low, high] = [moments.min(), moments.max].map(|end| bucket_of(end).min(BUCKETS - 1) as u64);
            self.lowest_complement.raise(u64::MAX - low);
            self.highest_plus_one.raise(high + 1);
        }
    }

    /// Adds `n` to a bucket; an index beyond the last bucket counts in the last.
    #[inline]
    pub(crate) fn add_bucket(&self, index: usize, n: u32) {
        let index = index.min(BUCKETS - 1);
        self.buckets[index].add(n);
        self.lowest_complement.raise(u64::MAX - index as u64);
        self.highest_plus_one.raise(index as u64 + 1);
    }

    /// Moves the counts into `into` and leaves zeros. Only while the writer is elsewhere.
    pub(crate) fn drain_into(&self, into: &mut Histogram) {
        let high = self.highest_plus_one.get() as usize;
        if high == 0 {
            return;
        }
        let low = (u64::MAX - self.lowest_complement.get()) as usize;
        // Latencies lie close together: most of the span is empty, and is skipped in strides.
        for (stride, counters) in self.buckets[low..high].chunks(STRIDE).enumerate() {
            if counters.iter().fold(0, |any, counter| any | counter.get()) == 0 {
                continue;
            }
            for (index, counter) in counters.iter().enumerate() {
                let n = counter.take();
                if n != 0 {
                    into.add_bucket(low + stride * STRIDE + index, u64::from(n));
                }
            }
        }
        self.lowest_complement.set(0);
        self.highest_plus_one.set(0);
    }
}

/// A histogram of nanoseconds with a single owner.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Box<[u64]>,
    total: u64,
    low: usize,
    high: usize,
}

impl Default for Histogram {
    fn default() -> Self {
        let mut counts = Vec::with_capacity(BUCKETS);
        // Zeros that the compiler does not recognize. Otherwise it would request memory that is zero already, and the
        // pages would be touched one by one as the values come in, in the middle of a run.
        counts.resize_with(BUCKETS, || std::hint::black_box(0));
        Self {
            counts: counts.into_boxed_slice(),
            total: 0,
            low: BUCKETS,
            high: 0,
        }
    }
}

impl Histogram {
    /// Returns a histogram that keeps nothing, and takes no memory.
    pub(crate) fn none() -> Self {
        Self {
            counts: Box::default(),
            total: 0,
            low: BUCKETS,
            high: 0,
        }
    }

    /// Counts `value` ns once.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.add_bucket(bucket_of(value), 1);
    }

    /// Counts `value` ns `n` times.
    #[inline]
    pub fn record_n(&mut self, value: u64, n: u64) {
        if n != 0 {
            self.add_bucket(bucket_of(value), n);
        }
    }

    /// Adds `n` to bucket `index` (of [`bucket_of`]); an index beyond the last bucket counts in the last.
    #[inline]
    pub fn add_bucket(&mut self, index: usize, n: u64) {
        if n == 0 {
            return;
        }
        let index = index.min(BUCKETS - 1);
        let Some(count) = self.counts.get_mut(index) else {
            return;
        };
        *count += n;
        self.total += n;
        self.low = self.low.min(index);
        self.high = self.high.max(index + 1);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for index in other.low..other.high {
            let n = other.counts[index];
            if n != 0 {
                self.add_bucket(index, n);
            }
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        if self.high > 0 {
            self.counts[self.low..self.high].fill(0);
        }
        (self.total, self.low, self.high) = (0, BUCKETS, 0);
    }

    /// Returns the number of values counted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Returns the non-empty buckets, ascending: middle of the bucket in ns, and count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        (self.low..self.high)
            .map(|i| (value_of(i), self.counts[i]))
            .filter(|&(_, n)| n != 0)
    }

    /// Returns the value below or at which `ratio` (0 to 1) of all values lie, ns: that of the smallest bucket that
    /// reaches the rank `ceil(ratio · count)`. 0 when empty.
    pub fn value_at(&self, ratio: f64) -> u64 {
        self.values_at([ratio])[0]
    }

    /// As [`Histogram::value_at`] for ascending ratios, in one pass.
    fn values_at<const N: usize>(&self, ratios: [f64; N]) -> [u64; N] {
        let mut values = [0; N];
        let rank = |ratio: f64| ((ratio * self.total as f64).ceil() as u64).clamp(1, self.total.max(1));
        let (mut seen, mut found) = (0, 0);
        for (stride, counts) in self.counts[self.low.min(self.high)..self.high]
            .chunks(STRIDE)
            .enumerate()
        {
            let sum: u64 = counts.iter().sum();
            while found < N && seen + sum >= rank(ratios[found]) && sum > 0 {
                let mut reached = seen;
                let within = counts.iter().position(|n| {
                    reached += n;
                    reached >= rank(ratios[found])
                });
                values[found] = value_of(self.low + stride * STRIDE + within.unwrap_or(0));
                found += 1;
            }
            seen += sum;
        }
        values
    }

    /// Returns the 50th, 90th, 99th and 99.9th percentile; `None` when empty.
    pub fn percentiles(&self) -> Option<Percentiles> {
        if self.total == 0 {
            return None;
        }
        let [p50, p90, p99, p999] = self.values_at([0.5, 0.9, 0.99, 0.999]);
        Some(Percentiles { p50, p90, p99, p999 })
    }
}

/// Count, sum, smallest and largest of a set of latencies: exact, cheap to merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    /// Number of values.
    pub count: u64,
    /// Sum, ns.
    pub sum: u64,
    /// Smallest value, complemented, so that all zeros means "none".
    pub(crate) min_complement: u64,
    /// Largest value, ns.
    pub max: u64,
}

impl Moments {
    /// Creates the moments of `count` values that another program has counted; `min` and `max` mean nothing if `count`
    /// is 0.
    pub fn new(count: u64, sum: u64, min: u64, max: u64) -> Self {
        match count {
            0 => Self::default(),
            _ => Self {
                count,
                sum,
                min_complement: u64::MAX - min,
                max,
            },
        }
    }

    /// Counts `value` ns once.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts `value` ns `n` times.
    #[inline]
    pub fn record_n(&mut self, value: u64, n: u64) {
        self.count += n;
        self.sum = self.sum.wrapping_add(value.wrapping_mul(n));
        self.min_complement = self.min_complement.max(u64::MAX - value);
        self.max = self.max.max(value);
    }

    /// Returns the moments of `values`, ns.
    #[inline]
    pub(crate) fn of(values: impl Iterator<Item = u64>) -> Self {
        let mut moments = Self::default();
        values.for_each(|value| moments.record(value));
        moments
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.min_complement = self.min_complement.max(other.min_complement);
        self.max = self.max.max(other.max);
    }

    /// Returns the smallest value, ns; 0 if nothing was counted.
    pub fn min(&self) -> u64 {
        if self.count == 0 {
            0
        } else {
            u64::MAX - self.min_complement
        }
    }

    /// Returns the latency as the report needs it. Percentiles come from `histogram`, limited to the exact smallest and
    /// largest value.
    pub fn latency(&self, histogram: Option<&Histogram>) -> Latency {
        let hold = |v: u64| v.clamp(self.min(), self.max);
        let percentiles = histogram.and_then(Histogram::percentiles).map(|p| Percentiles {
            p50: hold(p.p50),
            p90: hold(p.p90),
            p99: hold(p.p99),
            p999: hold(p.p999),
        });
        let mean = if self.count == 0 {
            0.0
        } else {
            self.sum as f64 / self.count as f64
        };
        Latency {
            count: self.count,
            min: self.min(),
            mean,
            percentiles,
            max: self.max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bucket_value_is_within_a_twentieth_of_a_percent(value in 0u64..MAX_VALUE) {
            let back = value_of(bucket_of(value));
            prop_assert!(back.abs_diff(value) as f64 <= (value as f64 * 0.0005).max(0.0), "{value} → {back}");
        }

        #[test]
        fn buckets_ascend_with_values(a in 0u64..1 << 40, b in 0u64..1 << 40) {
            prop_assert!((a <= b) <= (bucket_of(a) <= bucket_of(b)));
            prop_assert!(bucket_of(a) < BUCKETS);
        }

        #[test]
        fn percentiles_agree_with_sorting(mut values in proptest::collection::vec(0u64..50_000_000, 1..400)) {
            let mut histogram = Histogram::default();
            let mut moments = Moments::default();
            for &v in &values {
                histogram.record(v);
                moments.record(v);
            }
            values.sort_unstable();
            for ratio in [0.5, 0.9, 0.99, 0.999] {
                let rank = ((ratio * values.len() as f64).ceil() as usize).max(1);
                let exact = values[rank - 1];
                prop_assert!(histogram.value_at(ratio).abs_diff(exact) as f64 <= exact as f64 * 0.0005);
            }
            let latency = moments.latency(Some(&histogram));
            prop_assert_eq!(latency.min, values[0]);
            prop_assert_eq!(latency.max, *values.last().unwrap());
            prop_assert_eq!(latency.count, values.len() as u64);
        }

        #[test]
        fn draining_moves_every_count_once(values in proptest::collection::vec(any::<u64>(), 0..200)) {
            let shared = SharedHistogram::new();
            for &v in &values {
                shared.record(v, 1);
            }
            let mut drained = Histogram::default();
            shared.drain_into(&mut drained);
            prop_assert_eq!(drained.count(), values.len() as u64);
            let mut direct = Histogram::default();
            values.iter().for_each(|&v| direct.record(v));
            prop_assert!(drained.buckets().eq(direct.buckets()));
            shared.drain_into(&mut drained);
            prop_assert_eq!(drained.count(), values.len() as u64);
        }
    }
}
