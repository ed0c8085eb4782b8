//! Refuses a run that takes more memory than is available, before anything is opened. The error names the option that
//! takes most.

use crate::fail::{Result, usage};
use crate::paths::{Buffers, Checked};
use crate::record;
use crate::request::Run;
use crate::sample::RING_BYTES;
use mpps_engine::TraceOptions;
use mpps_engine::footprint::{self, LaneCount};
use mpps_io::Roles;
use mpps_sys::memory::{Available, available};
use std::time::Duration;

/// Part of a run's memory.
pub(crate) struct Part {
    /// Option with its value, and its effect: "--lanes 9: 9 lanes take".
    says: String,
    bytes: u64,
    /// Returns the remedy, given the bytes that this part may have.
    want: Box<dyn Fn(u64) -> String>,
}

impl Part {
    pub(crate) fn new(says: String, bytes: u64, want: impl Fn(u64) -> String + 'static) -> Self {
        Self {
            says,
            bytes,
            want: Box::new(want),
        }
    }
}

/// Returns the number of lanes, and whether a port of theirs notes when packets arrive.
pub(crate) fn lane_count<'p>(roles: &[Roles], ports: impl IntoIterator<Item = &'p Checked>) -> LaneCount {
    LaneCount {
        receiving: roles.iter().filter(|role| role.rx).count(),
        all: roles.len(),
        timed: ports.into_iter().any(|port| port.traits.times_arrivals),
    }
}

/// Returns the memory that every run takes: for lanes, rows, histograms, the buffers of its ports, its trace and its
/// sampled frames.
pub(crate) fn of_run<'p>(
    run: &Run,
    settle: Duration,
    (roles, lanes): (&[Roles], LaneCount),
    ports: impl IntoIterator<Item = &'p Checked>,
) -> Vec<Part> {
    let (interval, n) = (*run.plan.times.interval, lanes.all);
    let mut parts = vec![Part::new(
        format!("--interval {interval:?} and settle time {settle:?} with --lanes {n}: rows and histograms take"),
        footprint::rows(interval, settle, lanes) + footprint::lanes(lanes),
        move |_| match n {
            0 | 1 => "a longer --interval or a shorter --settle".to_owned(),
            _ => "a longer --interval, a shorter --settle or fewer --lanes".to_owned(),
        },
    )];
    for port in ports {
        parts.extend(of_port(port, roles, n));
    }
    parts.extend(of_trace(run));
    parts.extend(run.beside.sample.as_ref().map(|_| {
        let bytes = n as u64 * RING_BYTES as u64;
        Part::new(format!("--sample-pcap with --lanes {n}: it takes"), bytes, |_| {
            "no --sample-pcap".to_owned()
        })
    }));
    parts
}

/// Returns the memory that a trace takes: the lanes' rings, and the events that are kept. Windows are usually few.
/// Events of the kernel fill their part of the memory, and with `--trace-all` rounds fill all of it.
fn of_trace(run: &Run) -> Option<Part> {
    let keep = run.beside.trace.as_ref()?;
    let rings = TraceOptions::default().ring_bytes as u64;
    let kept = |memory: u64| match keep.all {
        true => memory,
        false => memory / record::PART_OF_EVENTS,
    };
    let says = format!("--trace with --trace-memory {}: it takes", size(keep.memory));
    let most = keep.memory;
    let all = keep.all;
    Some(Part::new(says, rings + kept(most), move |left| {
        let part = if all { 1 } else { record::PART_OF_EVENTS };
        match left.saturating_sub(rings).saturating_mul(part) / 1_000_000 {
            0 => "no --trace".to_owned(),
            megabytes => format!("--trace-memory {megabytes}MB at most"),
        }
    }))
}

/// Returns the memory that the buffers of a port take, with these lanes on it; `n`: lanes of the whole run.
pub(crate) fn of_port(port: &Checked, roles: &[Roles], n: usize) -> Vec<Part> {
    let mut parts = Vec::new();
    // One option may set the size of several rings.
    let mut each: Vec<(Buffers, u64, u64)> = Vec::new();
    for buffers in &port.traits.buffers {
        let lanes = match roles.iter().filter(|&&roles| (buffers.lanes)(roles)).count() as u64 {
            0 => 0,
            lanes => lanes.max(buffers.queues as u64),
        };
        let one = buffers.bytes as u64 * lanes;
        let all = one * buffers.count as u64;
        match each.iter_mut().find(|(of, ..)| of.option == buffers.option) {
            _ if all == 0 => {}
            Some((of, ones, sum)) => {
                of.count = of.count.max(buffers.count);
                (*ones, *sum) = (*ones + one, *sum + all);
            }
            None => each.push((*buffers, one, all)),
        }
    }
    for (buffers, one, all) in each {
        let Buffers {
            option, count, least, ..
        } = buffers;
        parts.push(Part::new(
            format!("port option {option}={count} with --lanes {n}: they take"),
            all,
            move |bytes| match bytes / one {
                most if most < least as u64 => "a higher limit of memory".to_owned(),
                most => format!("{option}={most} at most"),
            },
        ));
    }
    parts
}

/// Returns the remedy for a part that all lanes have: `most`, the value that fits, or fewer lanes if there are several.
pub(crate) fn advice(most: Option<String>, lanes: usize) -> String {
    match (most, lanes > 1) {
        (Some(most), true) => format!("{most} at most, or fewer --lanes"),
        (Some(most), false) => format!("{most} at most"),
        (None, true) => "fewer --lanes, or a higher limit of memory".to_owned(),
        (None, false) => "a higher limit of memory".to_owned(),
    }
}

/// Returns the largest count, up to `most`, that takes no more than `bytes`.
pub(crate) fn most(most: u64, bytes: u64, of: impl Fn(u64) -> u64) -> u64 {
    let (mut fits, mut beyond) = (0, most + 1);
    while beyond - fits > 1 {
        let middle = fits + (beyond - fits) / 2;
        match of(middle) <= bytes {
            true => fits = middle,
            false => beyond = middle,
        }
    }
    fits
}

/// Returns the bytes of all parts.
pub(crate) fn total(parts: &[Part]) -> u64 {
    parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.bytes))
}

/// Refuses runs beside each other that take more memory together than is available; `bytes`: of each.
pub(crate) fn check_beside(bytes: impl Iterator<Item = u64>) -> Result<()> {
    let all = bytes.fold(0u64, u64::saturating_add);
    match available() {
        Some(available) if all > available.bytes => Err(usage(format!(
            "plans beside each other take {} of memory, and {} {} available: want fewer of them, fewer flows or a \
             longer --interval",
            size(all),
            available.who,
            size(available.bytes)
        ))),
        _ => Ok(()),
    }
}

/// Refuses parts that take more memory than is available.
pub(crate) fn check(parts: &[Part]) -> Result<()> {
    available().map_or(Ok(()), |available| check_against(parts, available))
}

fn check_against(parts: &[Part], available: Available) -> Result<()> {
    let total = total(parts);
    if total <= available.bytes {
        return Ok(());
    }
    // Name the largest part, and as many more as are needed for the rest to fit.
    let mut order: Vec<&Part> = parts.iter().collect();
    order.sort_by_key(|part| std::cmp::Reverse(part.bytes));
    let mut rest = total;
    let fits = |part: &&Part| {
        rest = rest.saturating_sub(part.bytes);
        rest <= available.bytes
    };
    let named = order.iter().position(fits).map_or(order.len(), |place| place + 1);
    let Some(named) = order.get(..named).filter(|named| !named.is_empty()) else {
        return Ok(());
    };
    // Advise 2 % less than is available, because other programs take and release memory, and the advised value should
    // still fit.
    let advised = available.bytes - available.bytes / 50;
    let each = advised.saturating_sub(rest) / named.len() as u64;
    let says = named
        .iter()
        .map(|part| format!("{} {} of memory", part.says, size(part.bytes)));
    let want = named.iter().map(|part| (part.want)(each));
    let with_all_else = match total - rest <= available.bytes {
        true => format!(" ({} with all else)", size(total)),
        false => String::new(),
    };
    Err(usage(format!(
        "{}{with_all_else}, and {} {} available: want {}",
        says.collect::<Vec<_>>().join(", "),
        available.who,
        size(available.bytes),
        want.collect::<Vec<_>>().join(", and ")
    )))
}

/// Formats bytes for people.
fn size(bytes: u64) -> String {
    match bytes {
        b if b >= 10_000_000_000 => format!("{} GB", b / 1_000_000_000),
        b if b >= 1_000_000_000 => format!("{:.1} GB", b as f64 / 1e9),
        b => format!("{} MB", b.div_ceil(1_000_000)),
    }
}

/// Formats a count with its thousands apart.
pub(crate) fn count(n: u64) -> String {
    mpps_report::units::count(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fail::Failure;

    #[test]
    fn the_part_that_asks_for_most_is_named_with_what_would_fit() {
        let parts = [
            Part::new("--a: it takes".to_owned(), 100_000_000, |_| "no a".to_owned()),
            Part::new("--flows 9: they take".to_owned(), 20_000_000_000, |bytes| {
                format!("{} at most", most(1000, bytes, |n| n * 20_000_000))
            }),
        ];
        let has = |bytes| Available {
            bytes,
            who: "this host has".to_owned(),
        };
        assert!(check_against(&parts, has(30_000_000_000)).is_ok());
        match check_against(&parts, has(2_100_000_000)) {
            Err(Failure::Usage(text)) => assert_eq!(
                text,
                "--flows 9: they take 20 GB of memory, and this host has 2.1 GB available: want 97 at most"
            ),
            other => panic!("{other:?}"),
        }
        match check_against(&parts[..1], has(99_000_000)) {
            Err(Failure::Usage(text)) => assert!(!text.contains("all else"), "{text}"),
            other => panic!("{other:?}"),
        }
        match check_against(&parts, has(20_050_000_000)) {
            Err(Failure::Usage(text)) => assert!(
                text.contains("take 20 GB of memory (20 GB with all else), and"),
                "{text}"
            ),
            other => panic!("{other:?}"),
        }
        // With 90 MB available, fewer flows would not be enough.
        match check_against(&parts, has(90_000_000)) {
            Err(Failure::Usage(text)) => assert_eq!(
                text,
                "--flows 9: they take 20 GB of memory, --a: it takes 100 MB of memory, and this host has 90 MB \
                 available: want 2 at most, and no a"
            ),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_most_that_fits_is_found() {
        assert_eq!(most(1 << 32, 1000, |n| n * 10), 100);
        assert_eq!(most(50, 1000, |n| n * 10), 50);
        assert_eq!(most(50, 5, |n| n * 10), 0);
    }
}
