//! Parses times.

use super::Parsed;
use mpps_traffic::no_time;
pub use mpps_traffic::time_ns;
use std::ops::RangeInclusive;
use std::time::Duration;

fn time_within(text: &str, range: RangeInclusive<u64>, want: &str) -> Parsed<Duration> {
    match time_ns(text) {
        Some(ns) if range.contains(&ns) => Ok(Duration::from_nanos(ns)),
        _ => Err(no_time(text, want)),
    }
}

const HOUR: u64 = 3_600_000_000_000;

/// Parses a run's length; 0, with or without a unit, is "until interrupted".
pub fn duration(text: &str) -> Parsed<Duration> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    match time_ns(text) {
        Some(0) => Ok(Duration::ZERO),
        Some(ns) if (1_000..=1000 * HOUR).contains(&ns) => Ok(Duration::from_nanos(ns)),
        _ => Err(no_time(
            text,
            "a time from 1us to 1000h with its unit (us, ms, s, m, h), such as 10s, or 0",
        )),
    }
}

/// Parses a time since the start of a run.
pub fn since_start(text: &str) -> Parsed<Duration> {
    match text {
        "0" => Ok(Duration::ZERO),
        _ => time_within(
            text,
            0..=1000 * HOUR,
            "a time since the start of the run with its unit (us, ms, s, m, h), such as 1.25s, or 0",
        ),
    }
}

/// Parses the time for which the noise of cores is measured; 0: not at all.
pub fn measure(text: &str) -> Parsed<Duration> {
    match text {
        "0" | "0s" => Ok(Duration::ZERO),
        _ => time_within(
            text,
            10_000_000..=HOUR,
            "a time from 10ms to 1h with its unit (ms, s, m, h), such as 3s, or 0",
        ),
    }
}

/// Parses the length of the demo's run.
pub fn demo_duration(text: &str) -> Parsed<Duration> {
    time_within(
        text,
        1_000_000_000..=HOUR,
        "a time from 1s to 1h with its unit (s, m, h), such as 10s",
    )
}

/// Parses a row's length.
pub fn interval(text: &str) -> Parsed<Duration> {
    time_within(
        text,
        100_000..=HOUR,
        "a time from 100us to 1h with its unit (us, ms, s, m, h), such as 100ms",
    )
}

/// Parses the settle time.
pub fn settle(text: &str) -> Parsed<Duration> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    time_within(
        text,
        0..=60_000_000_000,
        "a time from 0 to 60s with its unit (us, ms, s, m), such as 1s",
    )
}

/// Parses the time for which forwarded frames are held.
pub fn drain(text: &str) -> Parsed<Duration> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    time_within(
        text,
        0..=10_000_000,
        "a time from 0 to 10ms with its unit (us, ms), such as 100us",
    )
}

/// Parses the catch-up limit.
pub fn catch_up(text: &str) -> Parsed<Duration> {
    time_within(
        text,
        1_000..=10_000_000_000,
        "a time from 1us to 10s with its unit (us, ms, s), such as 1ms",
    )
}
