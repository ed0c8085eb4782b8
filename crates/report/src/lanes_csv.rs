//! The CSV of lanes: a row per lane and reading, written as it is read.

use crate::csv_sink::{cell, fixed};
use crate::json::rfc3339;
use crate::spill::Record;
use crate::spool::{Format, Limits, Spool};
use crate::{Notes, ReportError};
use mpps_stats::{BurstSizes, Event, LiveLane, Sink, Wants};
use std::path::Path;
use std::time::Duration;

/// Rows kept in memory before the rest goes to disk.
const ROWS: usize = 4096;
/// How long the end of a run waits for a reader that takes nothing.
const PATIENCE: Duration = Duration::from_secs(10);

const HEADER: &str = "start_utc_ns,time_s,interval_s,lane,rx_packets,rx_bursts,empty_polls,taken_packets,tx_packets,\
    tx_bursts,tx_full,tx_full_packets,busy_us,loop_us,blocked_us,link_down_us,waits,\
    rx_dropped_packets,rx_fill_looks,rx_fill_highest_ratio,rx_fill_mean_ratio,rx_bursts_of_1,rx_bursts_of_2_to_3,\
    rx_bursts_of_4_to_7,rx_bursts_of_8_to_15,rx_bursts_of_16_to_31,rx_bursts_of_32_to_63,rx_bursts_of_64_to_127,\
    rx_bursts_of_128_to_255,rx_bursts_of_256,start_utc";

/// The names of the columns, separated by commas. Counts are those of the time from `start_utc_ns` (ns since 1970;
/// `start_utc`: the same as a text, RFC 3339) on, for `interval_s`.
pub fn lanes_csv_header() -> &'static str {
    HEADER
}

/// Writes what lanes did to a CSV file, never holding up the caller.
pub struct LanesCsvSink {
    spool: Spool<LaneRow>,
    /// Time of day of the start of the run, ns since 1970.
    zero: u64,
    /// As of the last reading.
    at_ns: u64,
    before: Vec<LiveLane>,
}

impl LanesCsvSink {
    /// Opens `path` at once, and empties it when the run begins; `-` is standard output; a FIFO is written once
    /// somebody reads it.
    ///
    /// # Errors
    /// When it can't be opened for writing.
    pub fn create(path: &Path) -> Result<Self, ReportError> {
        let limits = Limits {
            records: ROWS,
            patience: PATIENCE,
            noun: "rows",
            to_the_end: false,
        };
        Ok(Self {
            spool: Spool::create("csv of lanes", path, LanesFormat, limits)?,
            zero: 0,
            at_ns: 0,
            before: Vec::new(),
        })
    }

    /// What goes wrong while writing, as it happens.
    pub fn notes(&self) -> Notes {
        self.spool.notes()
    }
}

impl Sink for LanesCsvSink {
    fn wants(&self) -> Wants {
        Wants {
            lanes: true,
            ..Wants::default()
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Start(start) => {
                self.zero = start.started.utc_ns;
                self.spool.begin();
            }
            Event::Lanes(so_far) if so_far.at_ns > self.at_ns => {
                self.before.resize(so_far.lanes.len(), LiveLane::default());
                let (from, zero) = (std::mem::replace(&mut self.at_ns, so_far.at_ns), self.zero);
                for (lane, (now, before)) in so_far.lanes.iter().zip(&mut self.before).enumerate() {
                    let before = std::mem::replace(before, *now);
                    self.spool
                        .push(LaneRow::of(lane, [zero, from, so_far.at_ns], now, &before));
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self) -> Vec<String> {
        self.spool.finish()
    }
}

/// Columns before those of burst sizes, and all.
const FIRST: usize = 21;
const WORDS: usize = FIRST + BurstSizes::POWERS;
/// In a column that has no value.
const NONE: u64 = u64::MAX;

/// A row: its columns in their order, times in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LaneRow([u64; WORDS]);

impl LaneRow {
    fn of(lane: usize, [zero, from, to]: [u64; 3], now: &LiveLane, before: &LiveLane) -> Self {
        let since = |of: fn(&LiveLane) -> u64| of(now).saturating_sub(of(before));
        let start = if zero > 0 { zero + from } else { 0 };
        let looks = since(|l| l.rx_fill_looks);
        let first: [u64; FIRST] = [
            start,
            from,
            to - from,
            lane as u64,
            since(|l| l.rx_packets),
            since(|l| l.rx_bursts),
            since(|l| l.rx_empty_polls),
            since(|l| l.rx_test),
            since(|l| l.tx_packets),
            since(|l| l.tx_bursts),
            since(|l| l.tx_full),
            since(|l| l.tx_given_up),
            since(|l| l.busy_ns),
            since(|l| l.loop_ns),
            since(|l| l.blocked_ns),
            since(|l| l.down_ns),
            since(|l| l.waits),
            now.rx_dropped
                .map_or(NONE, |dropped| dropped.saturating_sub(before.rx_dropped.unwrap_or(0))),
            looks,
            if looks > 0 { now.rx_fill_highest_ppm } else { NONE },
            since(|l| l.rx_fill_sum_ppm).checked_div(looks).unwrap_or(NONE),
        ];
        let mut words = [0; WORDS];
        words[..FIRST].copy_from_slice(&first);
        let sizes = now.rx_bursts_by_power.iter().zip(before.rx_bursts_by_power);
        for (word, (now, before)) in words[FIRST..].iter_mut().zip(sizes) {
            *word = now.saturating_sub(before);
        }
        Self(words)
    }
}

impl Record for LaneRow {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0
            .iter()
            .for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        Some(Self(words.collect::<Vec<_>>().try_into().ok()?))
    }
}

struct LanesFormat;

impl Format<LaneRow> for LanesFormat {
    const HEADER_ALONE: bool = true;

    fn header(&mut self, _: Option<&LaneRow>, out: &mut Vec<u8>) {
        out.extend_from_slice(HEADER.as_bytes());
        out.push(b'\n');
    }

    fn record(&mut self, row: &LaneRow, out: &mut Vec<u8>) {
        for (column, value) in row.0.iter().enumerate() {
            match column {
                0 => {
                    if *value > 0 {
                        fixed(out, *value, 0);
                    }
                }
                1 | 2 => {
                    out.push(b',');
                    fixed(out, *value, 9);
                }
                12..=15 => {
                    out.push(b',');
                    fixed(out, *value, 3);
                }
                _ if *value == NONE => out.push(b','),
                19 | 20 => {
                    out.push(b',');
                    fixed(out, *value, 6);
                }
                _ => cell(out, *value),
            }
        }
        out.push(b',');
        if row.0[0] > 0 {
            out.extend_from_slice(rfc3339(row.0[0]).as_bytes());
        }
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_hold_what_came_since_the_reading_before_and_come_back_from_disk() {
        let before = LiveLane {
            rx_packets: 10,
            busy_ns: 500,
            ..LiveLane::default()
        };
        let now = LiveLane {
            rx_packets: 42,
            rx_bursts: 1,
            rx_bursts_by_power: [0, 0, 0, 0, 0, 1, 0, 0, 0],
            rx_empty_polls: 3,
            rx_test: 40,
            tx_packets: 30,
            tx_bursts: 2,
            tx_full: 1,
            tx_given_up: 10,
            busy_ns: 1_500,
            loop_ns: 2_000_000,
            rx_fill_looks: 4,
            rx_fill_sum_ppm: 1_000_000,
            rx_fill_highest_ppm: 750_000,
            ..LiveLane::default()
        };
        let row = LaneRow::of(3, [1_000_000_000_000, 5, 100_000_005], &now, &before);
        let mut bytes = Vec::new();
        row.encode(&mut bytes);
        assert_eq!(LaneRow::decode(&bytes), Some(row.clone()));
        assert_eq!(LaneRow::decode(&bytes[8..]), None);
        let mut text = Vec::new();
        LanesFormat.header(None, &mut text);
        LanesFormat.record(&row, &mut text);
        let text = String::from_utf8(text).unwrap();
        let (names, values) = text.split_once('\n').unwrap();
        assert_eq!(names.split(',').count(), WORDS + 1);
        let want = "1000000000005,0.000000005,0.100000000,3,32,1,3,40,30,2,1,10,1.000,2000.000,0.000,0.000,0,,4,\
                    0.750000,0.250000,0,0,0,0,0,1,0,0,0,1970-01-01T00:16:40.000000005Z\n";
        assert_eq!(values, want);
        // Nobody has looked since.
        let row = LaneRow::of(3, [0, 5, 6], &now, &now);
        assert_eq!(row.0[18..FIRST], [0, NONE, NONE]);
    }
}
