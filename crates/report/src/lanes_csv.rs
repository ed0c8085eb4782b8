//! The CSV of lanes: one row per lane and reading, written as it is read.

use crate::csv_sink::{line, names};
use crate::spill::Record;
use crate::spool::{Format, Limits, Spool};
use crate::{Notes, ReportError};
use mpps_stats::fields::{Field, Unit, time_of_day, whole};
use mpps_stats::{Event, LiveLane, Sink, Wants};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

/// Fields of a reading of a lane, in the order of the file. New fields are added at the end.
pub(crate) const LANE: [Field<LaneRow>; 31] = [
    Field::new(
        "start_utc_ns",
        Unit::Nanoseconds,
        0,
        "start of the time that the row is of, as a time of day (UTC), ns since 1970: rows of several programs on one \
         host can be joined by it",
        |row, zero| time_of_day(zero, row.from_ns),
    ),
    Field::new(
        "time_s",
        Unit::Seconds,
        9,
        "start, since the start of the run",
        |row, _| whole(row.from_ns),
    ),
    Field::new("interval_s", Unit::Seconds, 9, "length of that time", |row, _| {
        whole(row.length_ns)
    }),
    Field::new("lane", Unit::One, 0, "number of the lane", |row, _| {
        whole(row.lane as u64)
    }),
    Field::packets("rx_packets", "frames received, the test's or not", |row, _| {
        whole(row.counted.rx_packets)
    }),
    count("rx_bursts", "receive calls that gave any", |row, _| {
        whole(row.counted.rx_bursts)
    }),
    count("empty_polls", "receive calls that gave none", |row, _| {
        whole(row.counted.rx_empty_polls)
    }),
    Field::packets(
        "taken_packets",
        "frames received that are the workload's: to be reflected, to be forwarded, of the test",
        |row, _| whole(row.counted.rx_test),
    ),
    Field::packets("tx_packets", "packets sent", |row, _| whole(row.counted.tx_packets)),
    count("tx_bursts", "transmit calls that took any", |row, _| {
        whole(row.counted.tx_bursts)
    }),
    count(
        "tx_full",
        "transmit calls that took nothing, and times that no buffer was free",
        |row, _| whole(row.counted.tx_full),
    ),
    Field::packets(
        "tx_full_packets",
        "(`reflect`, `forward`) packets dropped as [`tx_full`](counts.md#reasons)",
        |row, _| whole(row.counted.tx_given_up),
    ),
    Field::us("busy_us", "time in loops that moved something", |row, _| {
        whole(row.counted.busy_ns)
    }),
    Field::us(
        "loop_us",
        "time in all loops; `busy_us ÷ loop_us` is the lane's `busy_ratio`",
        |row, _| whole(row.counted.loop_ns),
    ),
    Field::us(
        "blocked_us",
        "time in which it had packets to send and the path took none",
        |row, _| whole(row.counted.blocked_ns),
    ),
    Field::us(
        "link_down_us",
        "time in which it could do nothing because the device was down",
        |row, _| whole(row.counted.down_ns),
    ),
    count("waits", "times that it went to sleep", |row, _| {
        whole(row.counted.waits)
    }),
    Field::packets(
        "rx_dropped_packets",
        "packets that this host dropped before the lane could take them, [as last \
         read](counts.md#packets-that-this-host-dropped): what came after the last reading is in the JSON alone; \
         empty where the path can't tell",
        |row, _| row.counted.rx_dropped.and_then(whole),
    ),
    count(
        "rx_fill_looks",
        "[looks at its receive rings](times.md#fill-of-receive-rings)",
        |row, _| whole(row.counted.rx_fill_looks),
    ),
    Field::new(
        "rx_fill_highest_ratio",
        Unit::One,
        6,
        "the highest share that they found taken, 0 to 1; empty where there was none",
        |row, _| row.looked().and_then(|_| whole(row.counted.rx_fill_highest_ppm)),
    ),
    Field::new("rx_fill_mean_ratio", Unit::One, 6, "the mean of the same", |row, _| {
        row.looked()
            .and_then(|looks| whole(row.counted.rx_fill_sum_ppm / looks))
    }),
    count("rx_bursts_of_1", "the `rx_bursts` that gave one frame", |row, _| {
        row.bursts(0)
    }),
    count("rx_bursts_of_2_to_3", "those that gave so many", |row, _| row.bursts(1)),
    count("rx_bursts_of_4_to_7", "those that gave so many", |row, _| row.bursts(2)),
    count("rx_bursts_of_8_to_15", "those that gave so many", |row, _| {
        row.bursts(3)
    }),
    count("rx_bursts_of_16_to_31", "those that gave so many", |row, _| {
        row.bursts(4)
    }),
    count("rx_bursts_of_32_to_63", "those that gave so many", |row, _| {
        row.bursts(5)
    }),
    count("rx_bursts_of_64_to_127", "those that gave so many", |row, _| {
        row.bursts(6)
    }),
    count("rx_bursts_of_128_to_255", "those that gave so many", |row, _| {
        row.bursts(7)
    }),
    count("rx_bursts_of_256", "those that gave 256 or more", |row, _| {
        row.bursts(8)
    }),
    Field::new(
        "start_utc",
        Unit::Utc,
        0,
        "`start_utc_ns` as a text (RFC 3339)",
        |row, zero| time_of_day(zero, row.from_ns),
    ),
];

const fn count(name: &'static str, about: &'static str, of: fn(&LaneRow, u64) -> Option<i64>) -> Field<LaneRow> {
    Field::new(name, Unit::One, 0, about, of)
}

/// Returns the names of the columns, separated by commas. `docs/use/files.md` explains each.
pub fn lanes_csv_header() -> &'static str {
    static HEADER: LazyLock<String> = LazyLock::new(|| names(&LANE));
    &HEADER
}

/// Writes what lanes did to a CSV file, never holding up the caller.
pub struct LanesCsvSink {
    spool: Spool<LaneRow>,
    /// Time of day of the start of the run, ns since 1970; 0 until it is known. Shared with the thread that writes.
    zero: Arc<AtomicU64>,
    /// Time of the last reading, ns since the start of the run, and (`before`) the counts of the lanes then.
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
        let zero = Arc::new(AtomicU64::new(0));
        let format = LanesFormat(Arc::clone(&zero));
        Ok(Self {
            spool: Spool::create("csv of lanes", path, format, Limits::ROWS)?,
            zero,
            at_ns: 0,
            before: Vec::new(),
        })
    }

    /// Returns the board of notes about write errors. Each error appears there when it happens.
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
                self.zero.store(start.started.utc_ns, Ordering::Relaxed);
                self.spool.begin();
            }
            Event::Lanes(so_far) if so_far.at_ns > self.at_ns => {
                self.before.resize(so_far.lanes.len(), LiveLane::default());
                let from_ns = std::mem::replace(&mut self.at_ns, so_far.at_ns);
                for (lane, (now, before)) in so_far.lanes.iter().zip(&mut self.before).enumerate() {
                    let before = std::mem::replace(before, *now);
                    self.spool.push(LaneRow {
                        lane,
                        from_ns,
                        length_ns: so_far.at_ns - from_ns,
                        counted: now.since(&before),
                    });
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self) -> Vec<String> {
        self.spool.finish()
    }
}

/// Counts of a lane between two readings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaneRow {
    lane: usize,
    /// Start of the interval, ns since the start of the run.
    from_ns: u64,
    length_ns: u64,
    counted: LiveLane,
}

impl Record for LaneRow {}

impl LaneRow {
    /// Returns the number of looks at receive rings; `None` if there were none.
    fn looked(&self) -> Option<u64> {
        Some(self.counted.rx_fill_looks).filter(|looks| *looks > 0)
    }

    /// Returns the number of receive calls in one range of burst sizes.
    fn bursts(&self, power: usize) -> Option<i64> {
        whole(self.counted.rx_bursts_by_power[power])
    }
}

/// Writer of rows. Holds the start of the run, ns since 1970.
struct LanesFormat(Arc<AtomicU64>);

impl Format<LaneRow> for LanesFormat {
    const HEADER_ALONE: bool = true;

    fn header(&mut self, _: Option<&LaneRow>, out: &mut Vec<u8>) {
        out.extend_from_slice(lanes_csv_header().as_bytes());
        out.push(b'\n');
    }

    fn record(&mut self, row: &LaneRow, out: &mut Vec<u8>) {
        // Rows are handed over after the start, by a lock that orders the two.
        line(&LANE, row, self.0.load(Ordering::Relaxed), out);
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
        let row = LaneRow {
            lane: 3,
            from_ns: 5,
            length_ns: 100_000_000,
            counted: now.since(&before),
        };
        let bytes = serde_json::to_vec(&row).unwrap();
        assert_eq!(serde_json::from_slice::<LaneRow>(&bytes).unwrap(), row);
        let mut text = Vec::new();
        let mut format = LanesFormat(Arc::new(AtomicU64::new(1_000_000_000_000)));
        format.header(None, &mut text);
        format.record(&row, &mut text);
        let text = String::from_utf8(text).unwrap();
        let (names, values) = text.split_once('\n').unwrap();
        assert_eq!(names.split(',').count(), LANE.len());
        let want = "1000000000005,0.000000005,0.100000000,3,32,1,3,40,30,2,1,10,1.000,2000.000,0.000,0.000,0,,4,\
                    0.750000,0.250000,0,0,0,0,0,1,0,0,0,1970-01-01T00:16:40.000000005Z\n";
        assert_eq!(values, want);
        // No look at rings since the reading before, and no known time of day.
        let mut text = Vec::new();
        let counted = now.since(&now);
        LanesFormat(Arc::default()).record(&LaneRow { counted, ..row }, &mut text);
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with(",0.000000005,") && text.contains(",,0,,,0,"), "{text}");
    }
}
