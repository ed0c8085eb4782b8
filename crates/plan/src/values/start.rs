//! Instant at which a run starts, as it is written.

use super::{Parsed, since_start};
use std::time::Duration;

/// Start of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartAt {
    /// So long after the plan is read.
    In(Duration),
    /// Time of day, ns since 1970 (UTC).
    At(u64),
}

/// Parses the start of a run: `+5s`, a time of day by RFC 3339, or ns since 1970 after an `@`.
pub fn start_at(text: &str) -> Parsed<StartAt> {
    let instant = match text.as_bytes().first() {
        Some(b'+') => since_start(&text[1..]).ok().map(StartAt::In),
        Some(b'@') => digits(&text[1..]).map(StartAt::At),
        _ => rfc3339(text).map(StartAt::At),
    };
    instant.ok_or_else(|| {
        "want a time from now, such as +5s, a time of day with its zone, such as 2026-11-29T18:00:00.25Z, or ns since \
         1970, such as @1795975200000000000"
            .to_owned()
    })
}

/// Parses a number of digits alone.
fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// Parses a time of day from 1970 to 2554 by RFC 3339, to ns since 1970. A leap second is refused.
fn rfc3339(text: &str) -> Option<u64> {
    let (date, rest) = text.split_at_checked(10)?;
    let (time, rest) = rest.strip_prefix(['T', 't', ' '])?.split_at_checked(8)?;
    let [year, month, day] = three(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = three(time, ':', [2, 2, 2])?;
    let (ns, zone) = match rest.strip_prefix('.') {
        None => (0, rest),
        Some(rest) => {
            let end = rest.find(|c: char| !c.is_ascii_digit())?;
            let (fraction, zone) = rest.split_at(end);
            // Digits beyond the ninth are less than a ns.
            let nine: String = fraction.chars().chain("000000000".chars()).take(9).collect();
            (digits(fraction).and(digits(&nine))?, zone)
        }
    };
    let ahead = match zone {
        "Z" | "z" => 0,
        _ => {
            let (sign, zone) = zone.split_at_checked(1)?;
            let (hours, minutes) = zone.split_once(':')?;
            let two = |text: &str| (text.len() == 2).then(|| digits(text)).flatten();
            let (hours, minutes) = (two(hours)?, two(minutes)?);
            let seconds = (hours < 24 && minutes < 60).then_some((hours * 3600 + minutes * 60) as i64)?;
            match sign {
                "+" => seconds,
                "-" => -seconds,
                _ => return None,
            }
        }
    };
    let days_of = [
        31,
        if is_leap(year) { 29 } else { 28 },
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let month = usize::try_from(month).ok()?.checked_sub(1)?;
    let in_range = year >= 1970 && (1..=*days_of.get(month)?).contains(&day);
    if !(in_range && hour < 24 && minute < 60 && second < 60) {
        return None;
    }
    let before = year - 1;
    // Days from the first day of the year 1 to 1970-01-01.
    let days = before * 365 + before / 4 - before / 100 + before / 400 - 719_162;
    let days = days + days_of[..month].iter().sum::<u64>() + day - 1;
    let seconds = (days * 86_400 + hour * 3600 + minute * 60 + second).checked_add_signed(-ahead)?;
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// Parses three numbers of these lengths.
fn three(text: &str, between: char, lengths: [usize; 3]) -> Option<[u64; 3]> {
    let mut parts = text.split(between);
    let mut numbers = [0; 3];
    for (number, length) in numbers.iter_mut().zip(lengths) {
        *number = digits(parts.next().filter(|part| part.len() == length)?)?;
    }
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_start_is_a_time_from_now_a_time_of_day_or_ns() {
        let s = 1_000_000_000;
        for (text, want) in [
            ("+5s", StartAt::In(Duration::from_secs(5))),
            ("+1.5m", StartAt::In(Duration::from_secs(90))),
            ("@1795975200000000001", StartAt::At(1_795_975_200_000_000_001)),
            ("1970-01-01T00:00:00Z", StartAt::At(0)),
            ("2000-02-29T12:00:01.5z", StartAt::At(951_825_601 * s + 500_000_000)),
            ("2026-11-29t18:00:00.000000001Z", StartAt::At(1_795_975_200 * s + 1)),
            ("2026-11-29 19:30:00+01:30", StartAt::At(1_795_975_200 * s)),
            ("2026-11-29T17:00:00-01:00", StartAt::At(1_795_975_200 * s)),
            (
                "2026-11-29T18:00:00.1234567899Z",
                StartAt::At(1_795_975_200 * s + 123_456_789),
            ),
        ] {
            assert_eq!(start_at(text), Ok(want), "{text}");
        }
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        for text in [
            "",
            "+",
            "+5",
            "5s",
            "now",
            "@",
            "@-1",
            "@1.5",
            "@+1",
            "18:00:00",
            "2026-11-29",
            "2026-11-29T18:00:00",
            "2026-11-29T18:00Z",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-11-29T24:00:00Z",
            "2026-11-29T18:00:60Z",
            "2026-11-29T18:00:00.Z",
            "2026-11-29T18:00:00+1:00",
            "2026-11-29T18:00:00+24:00",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+00:01",
            "2555-01-01T00:00:00Z",
            "+1001h",
            "２026-11-29T18:00:00Z",
            "@99999999999999999999",
        ] {
            assert!(start_at(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = start_at(&text);
        }

        #[test]
        fn every_day_is_a_day_later_than_the_one_before(days in 0u64..200_000) {
            // Counted from day to day, by the calendar.
            let (mut year, mut day) = (1970u64, days);
            let length = |year: u64| if is_leap(year) { 366 } else { 365 };
            while day >= length(year) {
                day -= length(year);
                year += 1;
            }
            let first = rfc3339(&format!("{year:04}-01-01T00:00:00Z"));
            prop_assert_eq!(first, Some((days - day) * 86_400_000_000_000));
        }
    }
}
