//! Back-to-back frames (RFC 2544, 26.4, as RFC 9004 has it): the longest burst at the highest rate that is forwarded
//! without loss, and the buffer size that follows from its length.

use super::choice::Choice;
use super::{OfSize, by_size};
use crate::bench::Bench;
use crate::document::column;
use crate::measure::{Ask, Phase};
use crate::search::{Burst, BurstSearch, Input, Longest, NextBurst};
use crate::setup::{Step, Stop};
use mpps_pages::document::{Axis, Chart, Kind, Series, Table, Unit};
use mpps_report::units;
use mpps_stats::count;
use serde_json::{Value, json};
use std::time::Duration;

/// Frames of the shortest burst.
const SHORTEST: u64 = 64;
/// The shortest burst lasts at least this fraction of a second: 1 s / 100,000 = 10 µs.
const SHORTEST_TIME: u64 = 100_000;
/// Relative distance of the two ends at which a search is done.
const WIDTH: f64 = 0.01;
/// Attempts that a burst has: loss verification.
const ATTEMPTS: u32 = 2;
/// Bursts that were not sent whole, after which this host is given up.
const MOST_CUT: u32 = 3;

/// Results of the burst searches at one size.
#[derive(Default)]
pub(super) struct Bursts {
    /// Rate at which the bursts were sent, packets per second.
    max: u64,
    throughput: u64,
    /// The longest burst of each search, frames.
    found: Vec<u64>,
    /// Searches in which the longest burst that was allowed came through.
    at_limit: u32,
    /// Searches in which the shortest one did not.
    none: u32,
    /// Frames of the shortest one.
    shortest: u64,
}

impl Bursts {
    fn mean(&self) -> Option<f64> {
        // RFC 9004 has a search that reached its limit repeated with a higher one.
        let all = self.found.len() as f64;
        let whole = self.at_limit == 0 && self.none == 0;
        (whole && all > 0.0).then(|| self.found.iter().sum::<u64>() as f64 / all)
    }

    fn deviation(&self) -> Option<f64> {
        let mean = self.mean()?;
        let squares = self.found.iter().map(|frames| (*frames as f64 - mean).powi(2));
        let rest = self.found.len().checked_sub(1).filter(|rest| *rest > 0)?;
        Some((squares.sum::<f64>() / rest as f64).sqrt())
    }

    /// The buffer, as the time that its frames take at the highest rate: as it seems, and without those frames that
    /// left it meanwhile, s.
    fn buffer(&self) -> Option<[f64; 2]> {
        let implied = self.mean()? / self.max as f64;
        Some([implied, implied * (1.0 - self.throughput as f64 / self.max as f64)])
    }

    fn note(&self) -> String {
        let mut notes = Vec::new();
        if self.at_limit > 0 {
            notes.push(format!("{} searches reached --longest-burst", self.at_limit));
        }
        if self.none > 0 {
            notes.push(format!(
                "in {} searches a burst of {} frames lost some",
                self.none, self.shortest
            ));
        }
        notes.join("; ")
    }
}

/// Measures it; what is found is in `of`, however it ends.
pub(super) fn measure(choice: &Choice, bench: &mut Bench<'_, '_>, of: &mut OfSize) -> Step<()> {
    let Some(throughput) = of.throughput() else {
        of.skipped("back-to-back", "no throughput is known");
        return Ok(());
    };
    let max = of.limits(bench)?.0.max;
    if of
        .found
        .as_ref()
        .is_some_and(|found| found.outcomes().iter().any(|outcome| outcome.at_max))
    {
        of.skipped(
            "back-to-back",
            "frames at the highest rate are all forwarded, so no buffer fills (RFC 9004, 5.2)",
        );
        return Ok(());
    }
    let shortest = SHORTEST.max(max / SHORTEST_TIME);
    let search = BurstSearch {
        min: shortest,
        max: ((max as f64 * choice.longest_burst_ns as f64 / 1e9) as u64).max(2 * shortest),
        width: WIDTH,
        attempts: ATTEMPTS,
    };
    of.bursts = Some(Bursts {
        max,
        throughput,
        shortest,
        ..Bursts::default()
    });
    for number in 1..=choice.burst_searches {
        let mut bursts = Vec::new();
        let longest = loop {
            match search.next(&bursts) {
                NextBurst::Done(longest) => break longest,
                NextBurst::Try(frames) => bursts.push(burst(choice, bench, of.frame_size, (max, throughput), frames)?),
            }
        };
        let line = format!(
            "{} bytes: back-to-back: search {number} of {}: {}",
            of.frame_size,
            choice.burst_searches,
            match longest {
                Longest::Frames(frames) => format!("{} frames", count(frames)),
                Longest::AtLimit => format!("{} frames or more", count(search.max)),
                Longest::None => format!("below {shortest} frames"),
            }
        );
        let each = choice.burst_ns(bench.between());
        bench.say_left(&line, u64::from(choice.burst_searches - number) * each);
        if let Some(told) = &mut of.bursts {
            match longest {
                Longest::Frames(frames) => told.found.push(frames),
                Longest::AtLimit => told.at_limit += 1,
                Longest::None => told.none += 1,
            }
        }
    }
    Ok(())
}

/// Sends a burst, and waits until a device that forwards at its throughput must have sent it on.
fn burst(
    choice: &Choice,
    bench: &mut Bench<'_, '_>,
    frame_size: usize,
    (max, throughput): (u64, u64),
    frames: u64,
) -> Step<Burst> {
    // A little less than a whole number of gaps, so that the frame after the last is not due.
    let duration_ns = ((frames as f64 - 0.5) * 1e9 / max as f64) as u64;
    let drain = frames as f64 / throughput.max(1) as f64;
    let input = Input {
        load: max,
        duration_ns: duration_ns.max(1000),
    };
    let ask = Ask {
        settle: Some(choice.settle + Duration::from_secs_f64(drain.min(600.0))),
        ..Ask::of(Phase::Burst, frame_size, input)
    };
    for _ in 0..MOST_CUT {
        let told = bench.counted(&ask)?;
        // One frame more or less is a matter of rounding.
        if told.loss().1 > 0 || told.loss().0 + bench.ways() >= frames * bench.ways() {
            return Ok(Burst {
                frames,
                passed: told.loss().1 == 0,
            });
        }
    }
    Err(Stop::Void(format!("bursts of {frames} frames were not sent whole")))
}

/// One sentence.
pub(super) fn verdict(of: &OfSize) -> Option<String> {
    let told = of.bursts.as_ref()?;
    let note = told.note();
    let Some((mean, [_, buffer])) = told.mean().zip(told.buffer()) else {
        return (!note.is_empty()).then(|| format!("{} bytes: back-to-back: {note}", of.frame_size));
    };
    Some(format!(
        "{} bytes: back-to-back: {} frames at {} pps on average of {} searches; buffer for {}{}",
        of.frame_size,
        count(mean.round() as u64),
        count(told.max),
        told.found.len(),
        units::time(buffer * 1e9),
        if note.is_empty() { note } else { format!("; {note}") }
    ))
}

/// For programs.
pub(super) fn json(of: &OfSize) -> Value {
    let Some(told) = &of.bursts else { return Value::Null };
    json!({
        "load_pps": told.max,
        "throughput_pps": told.throughput,
        "searches_frames": told.found,
        "searches_at_limit": told.at_limit,
        "searches_without_pass": told.none,
        "mean_frames": told.mean(),
        "deviation_frames": told.deviation(),
        "implied_buffer_s": told.buffer().map(|buffer| buffer[0]),
        "corrected_buffer_s": told.buffer().map(|buffer| buffer[1]),
    })
}

/// Bursts as a table, as RFC 9004 (5.6) has it.
pub(super) fn table(sizes: &[OfSize]) -> Table {
    let row = |of: &OfSize| -> Option<Vec<Value>> {
        let told = of.bursts.as_ref()?;
        Some(vec![
            of.frame_size.into(),
            told.max.into(),
            told.found.len().into(),
            told.mean().into(),
            told.found.iter().min().copied().into(),
            told.found.iter().max().copied().into(),
            told.deviation().into(),
            told.buffer().map(|buffer| buffer[0]).into(),
            told.buffer().map(|buffer| buffer[1]).into(),
            told.note().into(),
        ])
    };
    Table {
        name: "back-to-back".to_owned(),
        caption: format!(
            "Back-to-back frames: longest bursts without loss, by binary search with loss verification ({ATTEMPTS} \
             attempts, ends {} % apart)",
            WIDTH * 100.0
        ),
        columns: vec![
            column("frame_size_bytes", "frame", Unit::Bytes),
            column("load_pps", "rate in bursts", Unit::Pps),
            column("searches", "searches", Unit::Count),
            column("mean_frames", "mean burst", Unit::Count),
            column("min_frames", "min", Unit::Count),
            column("max_frames", "max", Unit::Count),
            column("deviation_frames", "deviation", Unit::Count),
            column("implied_buffer_s", "implied buffer", Unit::S),
            column("corrected_buffer_s", "corrected buffer", Unit::S),
            column("note", "remark", Unit::Plain),
        ],
        rows: sizes.iter().filter_map(row).collect(),
    }
}

/// Frame size to the right, mean burst upwards.
pub(super) fn chart(sizes: &[OfSize]) -> Chart {
    let point = |of: &OfSize| Some((of.frame_size as f64, Some(of.bursts.as_ref()?.mean()?)));
    Chart {
        name: "back-to-back".to_owned(),
        title: "Mean longest burst by frame size".to_owned(),
        x: by_size(),
        y: Axis {
            label: "burst, frames".to_owned(),
            unit: Unit::Count,
            min: Some(0.0),
            ..Axis::default()
        },
        series: vec![Series {
            name: "mean burst".to_owned(),
            kind: Kind::Line,
            points: sizes.iter().filter_map(point).collect(),
        }],
    }
}
