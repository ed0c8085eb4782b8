//! Table of the numbers in a row: name, unit, meaning and source. CSV, JSON Lines, their schema, metrics, live views,
//! Python's `Row` and the table in `docs/use/files.md` are made from it.

use crate::row::{Latency, Percentiles, Row};
use crate::summary::Summary;

/// Unit of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// No unit: a share of one, or a plain number.
    One,
    /// Packets.
    Packets,
    /// Seconds.
    Seconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
    /// Time of day in UTC, written as RFC 3339; the value is in ns since 1970.
    Utc,
}

impl Unit {
    /// Symbol in the documentation; empty if there is none.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::One | Self::Utc => "",
            Self::Packets => "packets",
            Self::Seconds => "s",
            Self::Microseconds => "µs",
            Self::Nanoseconds => "ns",
        }
    }
}

/// Number that is written for each `T`.
#[derive(Clone, Copy, Debug)]
pub struct Field<T> {
    /// Name: the column of the CSV, the key of JSON Lines, the attribute in Python.
    pub name: &'static str,
    /// Unit.
    pub unit: Unit,
    /// Number of decimals in the output. The value counts units of 10^-`decimals`.
    pub decimals: u8,
    /// Meaning, as Markdown without a full stop.
    pub about: &'static str,
    /// Returns the value; `None` if it was not measured. The second argument is the start of the run in ns since 1970,
    /// or 0 if that is not known.
    pub of: fn(&T, u64) -> Option<i64>,
}

impl<T> Field<T> {
    /// Creates a field.
    pub const fn new(
        name: &'static str,
        unit: Unit,
        decimals: u8,
        about: &'static str,
        of: fn(&T, u64) -> Option<i64>,
    ) -> Self {
        Self {
            name,
            unit,
            decimals,
            about,
            of,
        }
    }

    /// Creates a field that counts packets.
    pub const fn packets(name: &'static str, about: &'static str, of: fn(&T, u64) -> Option<i64>) -> Self {
        Self::new(name, Unit::Packets, 0, about, of)
    }

    /// Creates a field for a time in ns that is written in µs.
    pub const fn us(name: &'static str, about: &'static str, of: fn(&T, u64) -> Option<i64>) -> Self {
        Self::new(name, Unit::Microseconds, 3, about, of)
    }
}

/// Converts a count to a value. Counts above `i64::MAX` become `i64::MAX`.
pub fn whole(n: u64) -> Option<i64> {
    Some(i64::try_from(n).unwrap_or(i64::MAX))
}

/// Returns the time of day `ns` after the start of the run; `None` if the start is not known.
pub fn time_of_day(zero_ns: u64, ns: u64) -> Option<i64> {
    if zero_ns > 0 { whole(zero_ns + ns) } else { None }
}

fn latency(of: &Latency, ns: fn(&Latency) -> u64) -> Option<i64> {
    if of.count > 0 { whole(ns(of)) } else { None }
}

fn mean(of: &Latency) -> Option<i64> {
    (of.count > 0 && of.mean.is_finite()).then(|| of.mean.round() as i64)
}

fn percentile(of: &Latency, ns: fn(&Percentiles) -> u64) -> Option<i64> {
    of.percentiles.filter(|_| of.count > 0).and_then(|p| whole(ns(&p)))
}

fn scheduled(row: &Row) -> Latency {
    row.latency_scheduled.unwrap_or_default()
}

fn arrival(row: &Row) -> Latency {
    row.latency_arrival.unwrap_or_default()
}

fn wake_up(row: &Row) -> Latency {
    row.wake_up.unwrap_or_default()
}

fn loss_ratio(row: &Row) -> Option<i64> {
    let ratio = match row.tx.saturating_sub(row.untagged) {
        0 => 0.0,
        known => row.lost.max(0) as f64 / known as f64,
    };
    Some((ratio * 1e9).round() as i64)
}

/// Fields of a row, in the order of the CSV. New fields are added at the end.
pub const ROW: [Field<Row>; 50] = [
    Field::new(
        "time_s",
        Unit::Seconds,
        6,
        "start of the row since the start of the run",
        |row, _| whole(row.start_ns / 1000),
    ),
    Field::packets("tx_packets", "packets sent ([Packets](counts.md#packets))", |row, _| {
        whole(row.tx)
    }),
    Field::packets(
        "rx_packets",
        "packets received: each once, intact, within the settle time",
        |row, _| whole(row.rx),
    ),
    Field::new(
        "loss_ratio",
        Unit::One,
        9,
        "`lost_packets ÷ (tx_packets − untagged_packets)`, not below 0; 0 where nothing else was sent",
        |row, _| loss_ratio(row),
    ),
    Field::us("latency_avg_us", "mean latency from the send time", |row, _| {
        mean(&row.latency)
    }),
    Field::new("interval_s", Unit::Seconds, 9, "length of the row", |row, _| {
        whole(row.length_ns)
    }),
    Field::packets(
        "lost_packets",
        "packets lost; can be negative, see [Rows](counts.md#rows)",
        |row, _| Some(row.lost),
    ),
    Field::packets("late_packets", "packets that came after the settle time", |row, _| {
        whole(row.late)
    }),
    Field::packets("duplicate_packets", "further copies of packets", |row, _| {
        whole(row.duplicates)
    }),
    Field::packets(
        "reordered_packets",
        "packets that came after a later one of their flow",
        |row, _| whole(row.reordered),
    ),
    Field::packets(
        "corrupt_packets",
        "packets whose checksum, length or data was wrong",
        |row, _| whole(row.corrupt),
    ),
    Field::packets("foreign_packets", "packets that are none of this test's", |row, _| {
        whole(row.foreign)
    }),
    Field::packets("missed_packets", "departures that were due and not sent", |row, _| {
        whole(row.missed)
    }),
    Field::us("latency_min_us", "smallest latency from the send time", |row, _| {
        latency(&row.latency, |l| l.min)
    }),
    Field::us(
        "latency_p50_us",
        "its median; percentiles in rows of 100 ms or longer",
        |row, _| percentile(&row.latency, |p| p.p50),
    ),
    Field::us("latency_p90_us", "its 90th percentile", |row, _| {
        percentile(&row.latency, |p| p.p90)
    }),
    Field::us("latency_p99_us", "its 99th percentile", |row, _| {
        percentile(&row.latency, |p| p.p99)
    }),
    Field::us("latency_p999_us", "its 99.9th percentile", |row, _| {
        percentile(&row.latency, |p| p.p999)
    }),
    Field::us("latency_max_us", "largest latency from the send time", |row, _| {
        latency(&row.latency, |l| l.max)
    }),
    Field::us(
        "latency_scheduled_avg_us",
        "mean latency from the scheduled time, with `--rate`",
        |row, _| mean(&scheduled(row)),
    ),
    Field::us(
        "latency_scheduled_min_us",
        "smallest latency from the scheduled time",
        |row, _| latency(&scheduled(row), |l| l.min),
    ),
    Field::us("latency_scheduled_p50_us", "its median", |row, _| {
        percentile(&scheduled(row), |p| p.p50)
    }),
    Field::us("latency_scheduled_p90_us", "its 90th percentile", |row, _| {
        percentile(&scheduled(row), |p| p.p90)
    }),
    Field::us("latency_scheduled_p99_us", "its 99th percentile", |row, _| {
        percentile(&scheduled(row), |p| p.p99)
    }),
    Field::us("latency_scheduled_p999_us", "its 99.9th percentile", |row, _| {
        percentile(&scheduled(row), |p| p.p999)
    }),
    Field::us(
        "latency_scheduled_max_us",
        "largest latency from the scheduled time",
        |row, _| latency(&scheduled(row), |l| l.max),
    ),
    Field::us(
        "host_wait_us",
        "time in this row for which other threads or the hypervisor kept lanes from running, over all lanes and \
         cores; in rows of 100 ms or longer. Sampled as the row ends, steal at the resolution of the kernel's tick: \
         an indication where a dip may come from",
        |row, _| row.host_wait_ns.and_then(whole),
    ),
    Field::packets(
        "host_dropped_packets",
        "[dropped by this host](counts.md#packets-that-this-host-dropped) since the cell before; empty where nothing \
         was read",
        |row, _| row.host_dropped.and_then(whole),
    ),
    Field::us(
        "own_threads_us",
        "processor time in this row of this program's own threads beside the lanes, as `host_wait_us`. At most so \
         much of the host wait is theirs, not the host's; on cores without lanes they take nothing from any lane",
        |row, _| row.own_threads_ns.and_then(whole),
    ),
    Field::new(
        "start_utc_ns",
        Unit::Nanoseconds,
        0,
        "time of day (UTC) at the start of the row, ns since 1970: the run's start by `CLOCK_REALTIME`, as it was set \
         then, and `time_s`. Rows of two hosts whose clocks agree (NTP, PTP) line up by it",
        |row, zero| time_of_day(zero, row.start_ns),
    ),
    Field::us(
        "blocked_us",
        "time in this row for which lanes had packets to send and the path took none, over all lanes; empty on `xdp`, \
         where the kernel sends",
        |row, _| row.blocked_ns.and_then(whole),
    ),
    Field::new(
        "rx_fill_highest_ratio",
        Unit::One,
        6,
        "[fill of receive rings](times.md#fill-of-receive-rings), 0 to 1: the highest share that a look in this row \
         found taken, over all lanes; by the time of the look",
        |row, _| row.rx_fill.and_then(|fill| whole(fill.highest_ppm)),
    ),
    Field::new("rx_fill_mean_ratio", Unit::One, 6, "the mean of the same", |row, _| {
        row.rx_fill.and_then(|fill| whole(fill.mean_ppm))
    }),
    Field::packets(
        "rx_by_arrival_packets",
        "packets received in this row, whenever they were sent ([Rows](counts.md#rows)); empty for `send`",
        |row, _| row.rx_by_arrival.and_then(whole),
    ),
    Field::new(
        "start_utc",
        Unit::Utc,
        0,
        "`start_utc_ns` as a text (RFC 3339, 9 decimals). Times in ns since 1970 are larger than 2^53: jq 1.6, \
         JavaScript and columns of floating-point numbers round them to some 200 ns. Where a program does that, use \
         the text",
        |row, zero| time_of_day(zero, row.start_ns),
    ),
    Field::packets(
        "untagged_packets",
        "packets sent [without a tag](traffic.md#without-a-tag), of which nobody knows whether they came; in \
         `tx_packets`, and in no other count",
        |row, _| whole(row.untagged),
    ),
    Field::us(
        "latency_arrival_avg_us",
        "mean latency from the send time to the [arrival](times.md#arrival) that kernel or card have noted; empty if \
         only the lane takes times",
        |row, _| mean(&arrival(row)),
    ),
    Field::us("latency_arrival_min_us", "smallest latency to the arrival", |row, _| {
        latency(&arrival(row), |l| l.min)
    }),
    Field::us("latency_arrival_p50_us", "its median", |row, _| {
        percentile(&arrival(row), |p| p.p50)
    }),
    Field::us("latency_arrival_p90_us", "its 90th percentile", |row, _| {
        percentile(&arrival(row), |p| p.p90)
    }),
    Field::us("latency_arrival_p99_us", "its 99th percentile", |row, _| {
        percentile(&arrival(row), |p| p.p99)
    }),
    Field::us("latency_arrival_p999_us", "its 99.9th percentile", |row, _| {
        percentile(&arrival(row), |p| p.p999)
    }),
    Field::us("latency_arrival_max_us", "largest latency to the arrival", |row, _| {
        latency(&arrival(row), |l| l.max)
    }),
    Field::us(
        "wake_up_avg_us",
        "mean time from the arrival to the lane's reading; empty if only one of the two is known",
        |row, _| mean(&wake_up(row)),
    ),
    Field::us(
        "wake_up_min_us",
        "smallest time from the arrival to the reading",
        |row, _| latency(&wake_up(row), |l| l.min),
    ),
    Field::us("wake_up_p50_us", "its median", |row, _| {
        percentile(&wake_up(row), |p| p.p50)
    }),
    Field::us("wake_up_p90_us", "its 90th percentile", |row, _| {
        percentile(&wake_up(row), |p| p.p90)
    }),
    Field::us("wake_up_p99_us", "its 99th percentile", |row, _| {
        percentile(&wake_up(row), |p| p.p99)
    }),
    Field::us("wake_up_p999_us", "its 99.9th percentile", |row, _| {
        percentile(&wake_up(row), |p| p.p999)
    }),
    Field::us(
        "wake_up_max_us",
        "largest time from the arrival to the reading",
        |row, _| latency(&wake_up(row), |l| l.max),
    ),
];

/// Count of packets or departures with one kind of fault.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Key in the JSON summary.
    pub key: &'static str,
    /// Name of the field in [`ROW`].
    pub column: &'static str,
    /// Returns the count of a row.
    pub of_row: fn(&Row) -> u64,
    /// Returns the count of a run.
    pub of_run: fn(&Summary) -> u64,
}

impl Fault {
    /// Word in a list of counts, such as `duplicate`.
    pub fn word(&self) -> &'static str {
        self.column.strip_suffix("_packets").unwrap_or(self.column)
    }

    /// Meaning, as Markdown without a full stop.
    pub fn about(&self) -> &'static str {
        ROW.iter()
            .find(|field| field.name == self.column)
            .map_or("", |field| field.about)
    }
}

/// All kinds of faults except loss, in the order of the output.
pub const FAULTS: [Fault; 6] = [
    Fault {
        key: "late",
        column: "late_packets",
        of_row: |row| row.late,
        of_run: |run| run.late,
    },
    Fault {
        key: "duplicates",
        column: "duplicate_packets",
        of_row: |row| row.duplicates,
        of_run: |run| run.duplicates,
    },
    Fault {
        key: "reordered",
        column: "reordered_packets",
        of_row: |row| row.reordered,
        of_run: |run| run.reordered,
    },
    Fault {
        key: "corrupt",
        column: "corrupt_packets",
        of_row: |row| row.corrupt,
        of_run: |run| run.corrupt,
    },
    Fault {
        key: "foreign",
        column: "foreign_packets",
        of_row: |row| row.foreign,
        of_run: |run| run.foreign,
    },
    Fault {
        key: "missed",
        column: "missed_packets",
        of_row: |row| row.missed,
        of_run: |run| run.missed,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_fields_of_a_row_have_one_name() {
        for (at, field) in ROW.iter().enumerate() {
            assert!(ROW[..at].iter().all(|other| other.name != field.name), "{}", field.name);
        }
    }

    #[test]
    fn each_fault_is_the_column_that_it_names() {
        let row = Row {
            late: 1,
            duplicates: 2,
            reordered: 3,
            corrupt: 4,
            foreign: 5,
            missed: 6,
            ..Row::default()
        };
        for (fault, packets) in FAULTS.iter().zip(1..) {
            let column = ROW.iter().find(|field| field.name == fault.column).expect(fault.column);
            assert_eq!((column.of)(&row, 0), whole(packets), "{}", fault.key);
            assert_eq!((fault.of_row)(&row), packets, "{}", fault.key);
        }
    }
}
