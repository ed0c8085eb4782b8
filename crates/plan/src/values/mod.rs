//! Parses values of options. Errors are one line on what would be right.

mod address;
pub mod capture;
pub mod forward;
pub mod keep;
pub mod rate;
mod scale;
pub mod start;
#[cfg(test)]
mod tests;
mod time;

pub use address::{Host, Sources, Target, addresses, ip, is_link_local, is_one_host, ports, sources, target};
pub use scale::{Factor, scale};
pub use time::{catch_up, demo_duration, drain, duration, interval, measure, settle, since_start, time_ns};

use crate::Written;
use mpps_io::{OnFull, Pacing, Step};
use mpps_traffic::{Packet, Traffic, Wrong};
use mpps_wire::MacAddr;
use std::ops::RangeInclusive;

/// Value of a text, or one line on what would be right.
pub type Parsed<T> = Result<T, String>;

/// List of cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores(pub Vec<usize>);

/// Parses a whole number within a range.
pub fn whole<T: std::str::FromStr + PartialOrd + std::fmt::Display>(text: &str, range: RangeInclusive<T>) -> Parsed<T> {
    match text.parse::<T>() {
        Ok(n) if range.contains(&n) => Ok(n),
        _ => Err(format!("want a whole number from {} to {}", range.start(), range.end())),
    }
}

/// Parses a number of 1 or more.
pub fn count(text: &str) -> Parsed<u64> {
    let n = text.parse().ok().filter(|n| *n > 0);
    n.ok_or_else(|| "want a whole number from 1 on".to_owned())
}

/// Parses a seed.
pub fn seed(text: &str) -> Parsed<u64> {
    text.parse()
        .map_err(|_| format!("want a whole number from 0 to {}", u64::MAX))
}

/// Parses a number of lanes.
pub fn lanes(text: &str) -> Parsed<usize> {
    whole(text, 1..=128)
}

/// Parses the most frames of a burst.
pub fn burst(text: &str) -> Parsed<usize> {
    whole(text, 1..=mpps_io::MAX_BURST)
}

/// Parses a packet, or streams as JSON if the text begins with `[`.
pub fn streams(text: &str) -> Parsed<Written<Traffic>> {
    let traffic = match text.trim_start().starts_with('[') {
        true => Traffic::parse(&format!("{{\"stream\":{text}}}"), &[]).map_err(|wrong| wrong.line)?,
        false => {
            let located = |wrong: Wrong| format!("column {}: {}", wrong.position(text).1, wrong.line);
            let traffic = Traffic::of_packet(Packet::parse(text).map_err(located)?);
            traffic.forms(0).map_err(located)?;
            traffic
        }
    };
    traffic.forms(0).map_err(|wrong| wrong.line)?;
    Ok(Written::new(traffic.json().to_string(), traffic))
}

/// Parses a VLAN identifier.
pub fn vlan(text: &str) -> Parsed<u16> {
    whole(text, 1..=4094)
}

/// Parses a number of flows.
pub fn flows(text: &str) -> Parsed<u32> {
    whole(text, 1..=u32::MAX)
}

/// Parses the length of a UDP payload, bytes.
pub fn payload_size(text: &str) -> Parsed<usize> {
    whole(text, 16..=65_507).map_err(|want| format!("{want}: a payload holds a stamp of 16 bytes at least"))
}

/// Parses the length of a frame with FCS, bytes.
pub fn frame_size(text: &str) -> Parsed<usize> {
    whole(text, 64..=65_553)
}

/// Parses a ratio: 0.001 or 0.1%.
pub fn ratio(text: &str) -> Parsed<f64> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |n| (n, 0.01));
    match number.trim().parse::<f64>() {
        Ok(n) if (0.0..=1.0).contains(&(n * scale)) => Ok(n * scale),
        _ => Err("want a ratio from 0 to 1, such as 0.001 or 0.1%".to_owned()),
    }
}

/// Names of DSCP classes, and their code points (RFC 2474, RFC 2597, RFC 3246, RFC 5865, RFC 8622).
pub const CLASSES: [(&str, u8); 26] = [
    ("BE", 0),
    ("DF", 0),
    ("LE", 1),
    ("CS0", 0),
    ("CS1", 8),
    ("CS2", 16),
    ("CS3", 24),
    ("CS4", 32),
    ("CS5", 40),
    ("CS6", 48),
    ("CS7", 56),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("VA", 44),
    ("EF", 46),
    ("VOICE-ADMIT", 44),
];

/// Parses a DSCP: a number or the name of a class.
pub fn dscp(text: &str) -> Parsed<u8> {
    let class = CLASSES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    let number = || text.parse().ok().filter(|dscp| *dscp < 64);
    class.map(|(_, dscp)| *dscp).or_else(number).ok_or_else(|| {
        "want a DSCP from 0 to 63, or the name of a class: EF, AF11 to AF43, CS0 to CS7, VA, LE, BE".to_owned()
    })
}

/// Parses a share with its unit, as `--expect` requires it: 0.1%. Only 0 needs no unit: 0.1 may be meant as 0.1 % or as
/// 10 %.
pub fn share(text: &str) -> Parsed<f64> {
    let share = ratio(text).map_err(|_| "want a share from 0 to 100%, such as 0.1%".to_owned())?;
    if share == 0.0 || text.ends_with('%') {
        return Ok(share);
    }
    // Rounded: a hundred times 0.07 is 7, not 7.000000000000001.
    let percent = (share * 1e11).round() / 1e9;
    Err(format!(
        "want its unit: {text}%, or {percent}% if {text} is a part of one"
    ))
}

/// Parses the way in which addresses and ports are stepped.
pub fn step(text: &str) -> Parsed<Step> {
    match text {
        "combine" => Ok(Step::Combine),
        "together" => Ok(Step::Together),
        _ => Err("want combine or together".to_owned()),
    }
}

/// Parses the treatment of packets that the path does not take at once.
pub fn on_full(text: &str) -> Parsed<OnFull> {
    match text {
        "wait" => Ok(OnFull::Wait),
        "drop" => Ok(OnFull::Drop),
        _ => Err("want wait or drop".to_owned()),
    }
}

/// Returns the name that [`on_full`] parses.
pub fn on_full_name(what: OnFull) -> &'static str {
    match what {
        OnFull::Wait => "wait",
        OnFull::Drop => "drop",
    }
}

/// Parses a MAC address.
pub fn mac(text: &str) -> Parsed<MacAddr> {
    match text.parse::<MacAddr>() {
        Ok(mac) if mac.is_unicast() => Ok(mac),
        _ => Err("want the MAC address of one station, such as 02:00:00:00:00:01".to_owned()),
    }
}

/// Parses a list of cores, such as `0,2-3`.
pub fn cores(text: &str) -> Parsed<Cores> {
    let want = || "want cores by number, such as 0,2-3".to_owned();
    let mut list = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.parse::<usize>(), last.parse::<usize>()) {
            (Ok(first), Ok(last)) if first <= last && last < 1024 => list.extend(first..=last),
            _ => return Err(want()),
        }
        if list.len() > 1024 {
            return Err("want 1024 cores at the most".to_owned());
        }
    }
    Ok(Cores(list))
}

/// Parses a nice value.
pub fn nice(text: &str) -> Parsed<i32> {
    let nice = text.parse().ok().filter(|nice| (-20..=19).contains(nice));
    nice.ok_or_else(|| "want a nice value from -20 (first) to 19 (last)".to_owned())
}

/// Parses a real-time priority.
pub fn fifo(text: &str) -> Parsed<u32> {
    let fifo = text.parse().ok().filter(|fifo| (1..=99).contains(fifo));
    fifo.ok_or_else(|| "want a real-time priority from 1 to 99".to_owned())
}

/// Parses the spread of departures.
pub fn pacing(text: &str) -> Parsed<Pacing> {
    match text {
        "constant" => Ok(Pacing::Constant),
        "poisson" => Ok(Pacing::Poisson),
        _ => text
            .strip_prefix("burst=")
            .and_then(|n| n.parse().ok())
            .filter(|n| (1..=1_000_000).contains(n))
            .map(Pacing::Bursts)
            .ok_or_else(|| "want constant, poisson or burst=N (N from 1 to 1000000)".to_owned()),
    }
}

/// Parses a number of frames that are sent back to back.
pub fn burst_frames(text: &str) -> Parsed<u32> {
    let frames = text.parse().ok().filter(|n| (2..=1_000_000).contains(n));
    frames.ok_or_else(|| "want frames, 2 to 1000000, such as 16,64,256,1024".to_owned())
}
