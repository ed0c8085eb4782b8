//! Sizes of the maps that depend on a run, and whether there is memory for them.

use crate::abi::{OCTAVES, Octave, Row};
use crate::spec::Series;
use mpps_io::{Error, ErrorKind, Result};

/// Time for which rows stay open beyond the settle time, and for which the reader may be kept from reading them, ns.
const GRACE_NS: u64 = 50_000_000;
const ROW_SLACK_NS: u64 = 1_000_000_000;
/// The same for histograms, of which each takes 115 kB per source.
const PERIOD_SLACK_NS: u64 = 300_000_000;
/// Least length of a histogram period, as in the statistics of other paths, ns.
const MIN_PERIOD_NS: u64 = 100_000_000;
/// Memory for sequence windows, bytes, and of one word of 64 sequence numbers.
pub(super) const WINDOW_BYTES: u64 = 16 << 20;
pub(super) const WORD_BYTES: u64 = 16;
/// The same for `drop`, and the most words that a flow gets: a million packets.
const DROP_WINDOW_BYTES: u64 = 64 << 20;
const MAX_DROP_WORDS: u64 = 1 << 14;
/// Words that a flow of `drop` gets at the least.
const MIN_DROP_WORDS: u64 = 4;
/// A flow of `drop` with what is doubted of it, and a place in their table, bytes.
const DROP_FLOW_BYTES: u64 = 64 + 144;
const PLACE_BYTES: u64 = 24;
/// Most memory for rows and histograms, bytes: those of 128 queues at the default interval and settle time take half.
const SERIES_BYTES: u64 = 1 << 30;

/// Sizes that depend on the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) rows: u32,
    pub(crate) periods: u32,
    pub(crate) rows_per_period: u32,
}

impl Sizes {
    /// Returns the sizes for rows of this length that stay open for the settle time.
    pub(crate) fn of(series: Series) -> Self {
        let rows_per_period = MIN_PERIOD_NS.div_ceil(series.interval_ns).max(1);
        let open = |slack: u64, length: u64| (series.settle_ns + GRACE_NS + slack) / length + 2;
        let rows = open(ROW_SLACK_NS, series.interval_ns).next_power_of_two();
        let periods = open(PERIOD_SLACK_NS, rows_per_period * series.interval_ns).next_power_of_two();
        Self {
            rows: rows as u32,
            periods: periods as u32,
            rows_per_period: rows_per_period as u32,
        }
    }

    /// Refuses more rows and histograms than is fair: their memory is the kernel's, and is never swapped.
    /// `places`: writers that each source is.
    pub(crate) fn check(&self, device: &str, kinds: u32, (sources, lanes): (u32, usize), places: u32) -> Result<()> {
        let (receive, send) = writers(sources, lanes, places);
        let histograms = u64::from(kinds) * u64::from(receive) * u64::from(self.periods) * OCTAVES as u64;
        let rows = u64::from(receive + send) * u64::from(self.rows);
        let bytes = histograms * size_of::<Octave>() as u64 + rows * size_of::<Row>() as u64;
        if bytes <= SERIES_BYTES {
            return Ok(());
        }
        let cause = format!(
            "{} MiB for what {sources} receive queues or CPUs count until it is settled: want {} MiB at the most: a \
             shorter --settle, a longer --interval, or fewer queues (ethtool -L)",
            bytes >> 20,
            SERIES_BYTES >> 20
        );
        Err(Error::new("set up", device, cause, ErrorKind::Other))
    }

    /// Octaves of `kinds` histograms of `writers` writers.
    pub(crate) fn octaves(&self, kinds: u32, writers: u32) -> u32 {
        kinds * writers * self.periods * OCTAVES as u32
    }
}

/// Returns how many write rows: sources, each at `places` places; lanes, each at all of these but that for what is of
/// no stream.
pub(crate) fn writers(sources: u32, lanes: usize, places: u32) -> (u32, u32) {
    (sources * places, lanes as u32 * (places - 1).max(1))
}

/// Sizes of what `drop` keeps for its flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowSizes {
    pub(crate) flows: u64,
    /// Places of their table: half empty at the least, so that a search is short.
    pub(crate) table: u64,
    /// Words of a window.
    pub(crate) words: u64,
}

impl FlowSizes {
    pub(crate) fn of(max_flows: u32) -> Self {
        let flows = u64::from(max_flows.max(1));
        let share = (DROP_WINDOW_BYTES / WORD_BYTES / flows).max(1);
        Self {
            flows,
            table: (flows * 2).next_power_of_two(),
            words: (1 << (63 - share.leading_zeros())).clamp(MIN_DROP_WORDS, MAX_DROP_WORDS),
        }
    }

    /// The kernel's memory that they take: all of it from the first packet on.
    pub(crate) fn bytes(&self) -> u64 {
        self.table * PLACE_BYTES + self.flows * (DROP_FLOW_BYTES + self.words * WORD_BYTES)
    }

    /// Refuses what there is no memory for. `available`: bytes, if that is known.
    pub(crate) fn check(&self, device: &str, available: Option<u64>) -> Result<()> {
        let most = u64::from(u32::MAX);
        let fits = self.table <= most && self.flows * self.words <= most;
        if fits && available.is_none_or(|available| self.bytes() <= available) {
            return Ok(());
        }
        let have = available.map_or_else(String::new, |bytes| format!(" of {} MiB that are free", bytes >> 20));
        let cause = format!(
            "--max-flows {}: it takes {} MiB of the kernel's memory{have}: want fewer flows, of some 320 bytes each",
            self.flows,
            self.bytes() >> 20
        );
        Err(Error::new("set up", device, cause, ErrorKind::Other))
    }
}

/// Memory that the kernel could give, bytes.
pub(crate) fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()
        .map(|kb| kb << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_hold_what_stays_open() {
        for (interval_ns, settle_ns) in [
            (100_000, 1_000_000_000),
            (100_000_000, 0),
            (1_000_000_000, 5_000_000_000),
        ] {
            let sizes = Sizes::of(Series { interval_ns, settle_ns });
            assert!(u64::from(sizes.rows) * interval_ns >= settle_ns + GRACE_NS + ROW_SLACK_NS);
            let period = u64::from(sizes.rows_per_period) * interval_ns;
            assert!(period >= MIN_PERIOD_NS);
            assert!(u64::from(sizes.periods) * period >= settle_ns + GRACE_NS + PERIOD_SLACK_NS);
            assert!(sizes.rows.is_power_of_two() && sizes.periods.is_power_of_two());
        }
    }

    #[test]
    fn memory_for_many_queues_is_bounded() {
        let sizes = |settle_ns| {
            Sizes::of(Series {
                interval_ns: 100_000_000,
                settle_ns,
            })
        };
        assert!(sizes(1_000_000_000).check("eth1", 2, (128, 64), 1).is_ok());
        let error = sizes(60_000_000_000)
            .check("eth1", 2, (128, 64), 1)
            .expect_err("gigabytes");
        assert!(
            error.cause.contains("--settle") && error.cause.contains("128"),
            "{}",
            error.cause
        );
    }

    #[test]
    fn flows_that_there_is_no_memory_for_are_refused_by_name() {
        let sizes = FlowSizes::of(1_000_000);
        assert_eq!((sizes.flows, sizes.table, sizes.words), (1_000_000, 1 << 21, 4));
        // Places, flows, words.
        assert_eq!(sizes.bytes(), (24 << 21) + 208_000_000 + 64_000_000);
        assert!(sizes.check("eth1", None).is_ok() && sizes.check("eth1", Some(sizes.bytes())).is_ok());
        let error = sizes.check("eth1", Some(100 << 20)).expect_err("too little");
        for part in ["--max-flows 1000000", "307 MiB", "100 MiB"] {
            assert!(error.cause.contains(part), "{}", error.cause);
        }
        assert!(FlowSizes::of(u32::MAX).check("eth1", None).is_err());
        assert_eq!(FlowSizes::of(0).flows, 1);
    }
}
