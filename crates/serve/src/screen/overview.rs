//! The first tab: packets sent, received and lost, the latency, and all of these over time.

use super::look::{Look, Pane, plain, strip, styled};
use super::time::{Column, columns};
use crate::history::Point;
use crate::state::State;
use mpps_report::units::{count, elapsed, percent, pps, time};
use mpps_stats::fields::FAULTS;
use mpps_stats::{Latency, Workload};
use ratatui_core::layout::Rect;
use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};

/// Columns for the names beside the strips.
const NAMES: u16 = 12;
/// Most rows of a strip.
const HIGHEST: usize = 9;

pub(crate) fn draw(pane: &mut Pane<'_>, state: &State, points: &[Point], scale: isize, look: Look) {
    let mut numbers = numbers(state, look);
    numbers.extend(goals(state));
    // A method writes a note on the result of each trial, and on what its user should do.
    if let (false, Some(note)) = (state.about.single, state.notes.last()) {
        numbers.push(styled(note.to_string(), look.head()));
    }
    let wanted = strips(state, points, pane.area.width, scale, look);
    // The numbers come first; strips have the remaining rows, at least one row each.
    let for_strips = pane.rows().saturating_sub(numbers.len());
    if for_strips > wanted.0.len() * 2 {
        numbers.push(Line::default());
    }
    pane.lines(&numbers, 0);
    draw_strips(pane, &wanted, look);
}

fn number(name: &str, rate: String, total: String, more: String) -> Line<'static> {
    Line::from(vec![
        Span::raw(format!("{name:<9} {rate:>11}  {total:>15}")),
        Span::raw(match more.is_empty() {
            true => more,
            false => format!("   {more}"),
        }),
    ])
}

fn numbers(state: &State, look: Look) -> Vec<Line<'static>> {
    let of = &state.of_trial;
    let workload = state.start.workload;
    let intended = state.start.intended_at(state.elapsed_ns);
    let intended = intended.map_or_else(String::new, |rate| format!("of {} intended", pps(rate)));
    let mut lines = Vec::new();
    if workload.generates() || of.tx > 0 {
        lines.push(number("sent", pps(state.tx_pps), count(of.tx), intended));
    }
    if workload == Workload::Send {
        lines.extend(others(state, look));
        return lines;
    }
    lines.push(number("received", pps(state.rx_pps), count(of.rx), String::new()));
    lines.push(match state.closed_ns {
        0 => plain("lost      not known yet: packets may still come"),
        _ => {
            let lost = of.settled_lost.max(0).cast_unsigned();
            let base = match of.settled_tx {
                0 => of.rx + lost,
                sent => sent,
            };
            let share = if base > 0 { lost as f64 / base as f64 } else { 0.0 };
            let line = number(
                "lost",
                percent(state.recent_loss),
                count(lost),
                format!("{} so far", percent(share)),
            );
            match lost {
                0 => line,
                _ => line.style(look.lost()),
            }
        }
    });
    if let Some(latency) = &state.recent {
        lines.push(plain(format!("latency   {}", latency_of(latency))));
    }
    for way in &state.tracks {
        lines.push(plain(format!(
            "{:<9} {:>11}  received {:>11}  lost {}",
            way.name,
            pps(way.tx_pps),
            pps(way.rx_pps),
            count(way.closed_lost.max(0).cast_unsigned())
        )));
    }
    lines.extend(others(state, look));
    lines
}

fn latency_of(latency: &Latency) -> String {
    let max = time(latency.max as f64);
    match latency.percentiles {
        Some(p) => format!(
            "p50 {:>9}  p99 {:>9}  p99.9 {:>9}  max {max}",
            time(p.p50 as f64),
            time(p.p99 as f64),
            time(p.p999 as f64)
        ),
        None => format!("mean {:>9}  max {max}", time(latency.mean)),
    }
}

/// Returns counts of dropped and faulty packets; `None` if there are none.
fn others(state: &State, look: Look) -> Option<Line<'static>> {
    let of = &state.of_trial;
    let dropped = of.host_dropped.unwrap_or(0);
    let faults = FAULTS
        .iter()
        .zip(of.faults)
        .map(|(fault, packets)| (fault.word(), packets));
    let told: Vec<_> = std::iter::once(("dropped by this host", dropped))
        .chain(faults)
        .filter(|(_, packets)| *packets > 0)
        .map(|(name, packets)| format!("{name} {}", count(packets)))
        .collect();
    (!told.is_empty()).then(|| styled(format!("also      {}", told.join("  ")), look.head()))
}

/// Returns the results so far of a search.
fn goals(state: &State) -> Vec<Line<'static>> {
    let rate = |rate: Option<u64>| rate.map_or_else(|| "none yet".to_owned(), |rate| pps(rate as f64));
    let goals = state.goals.iter().map(|goal| {
        plain(format!(
            "{:<9} {} bytes: passed: {}, did not: {}",
            goal.name,
            goal.frame_size,
            rate(goal.lower),
            rate(goal.upper)
        ))
    });
    goals.collect()
}

/// One series over time.
struct Strip {
    name: &'static str,
    values: Vec<Option<f64>>,
    told: fn(f64) -> String,
    style: Style,
}

/// The strips, the start time of the first column, and the length of a column, ns.
type Strips = (Vec<Strip>, u64);

fn strips(state: &State, points: &[Point], width: u16, scale: isize, look: Look) -> Strips {
    let (columns, step) = columns(points, usize::from(width.saturating_sub(NAMES)), scale);
    let of = |value: fn(&Column) -> Option<f64>| columns.iter().map(value).collect::<Vec<_>>();
    let any = |values: &[Option<f64>]| values.iter().flatten().any(|value| *value > 0.0);
    let mut strips = Vec::new();
    let mut add = |name, values, told, style| {
        strips.push(Strip {
            name,
            values,
            told,
            style,
        });
    };
    let sent = of(Column::tx_pps);
    if state.start.workload.generates() || any(&sent) {
        add("sent", sent, pps as fn(f64) -> String, look.bar());
    }
    if state.start.workload != Workload::Send {
        add("received", of(Column::rx_pps), pps, look.bar());
        add("lost", of(Column::loss), percent, look.lost());
        let p99 = of(|column| column.p99.map(|ns| ns as f64));
        if any(&p99) {
            add("p99", p99, time, look.bar());
        }
    }
    (strips, step)
}

fn draw_strips(pane: &mut Pane<'_>, (strips, step): &Strips, look: Look) {
    let count = strips.len();
    // The time axis is below them, if there is room for it.
    let axis = usize::from(pane.rows() > count);
    let high = ((pane.rows() - axis) / count.max(1)).min(HIGHEST);
    if count == 0 || pane.area.width <= NAMES {
        return;
    }
    for strip_of in strips.iter().take(if high == 0 { pane.rows() } else { count }) {
        let area = pane.take(high.max(1));
        if area.height == 0 {
            return;
        }
        let top = strip_of.values.iter().flatten().copied().fold(0.0, f64::max);
        // Name and scale; with one row only the name fits.
        pane.buf
            .set_stringn(area.x, area.y, strip_of.name, usize::from(NAMES) - 1, look.head());
        if area.height > 1 {
            let told = match strip_of.values.is_empty() {
                true => "-".to_owned(),
                false => (strip_of.told)(top),
            };
            pane.buf
                .set_stringn(area.x, area.y + 1, told, usize::from(NAMES) - 1, look.dim());
        }
        let place = Rect {
            x: area.x + NAMES,
            width: area.width - NAMES,
            ..area
        };
        strip(pane.buf, place, &strip_of.values, top, strip_of.style);
    }
    if axis > 0 {
        let columns = strips[0].values.len();
        let all = elapsed(step * columns as u64);
        let column = match step {
            step if *step < 1_000_000_000 => time(*step as f64),
            step => elapsed(*step),
        };
        pane.line(&styled(
            format!(
                "{:width$}the last {all}; {column} per column",
                "",
                width = usize::from(NAMES)
            ),
            look.dim(),
        ));
    }
}
