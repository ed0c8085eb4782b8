//! The panels: rates, loss, latency. Colours after Okabe and Ito, which colour-blind readers can distinguish too.

use super::bins::{Band, Bin, MAX, MEAN, MIN, P50, P90, P99, P999, Run};
use super::scale::{Scale, prefix};
use super::svg::Svg;
use mpps_report::units::{percent, time};
use std::fmt::Write;

const BLUE: &str = "#0072b2";
const SKY: &str = "#56b4e9";
const GREEN: &str = "#009e73";
const ORANGE: &str = "#e69f00";
const RED: &str = "#d55e00";
const PINK: &str = "#cc79a7";

/// Name of the curve of packets that this host dropped before mpps could take them.
const DROPPED: &str = "dropped by this host";

/// Names of the curves of received packets: by the time of sending, and by the time of arrival.
const RECEIVED: &str = "received";
const ARRIVED: &str = "received, by arrival";

enum Kind {
    Rates,
    Loss,
    Latency,
}

/// A panel: the text around it, and its data.
pub(super) struct Panel {
    kind: Kind,
    pub(super) title: String,
    pub(super) legend: Vec<(&'static str, &'static str)>,
    pub(super) height: f64,
    pub(super) scale: Scale,
    /// Text of an empty panel.
    pub(super) message: Option<&'static str>,
}

/// Returns the panel of sent and received packets over time.
pub(super) fn rates(run: &Run) -> Panel {
    let top = run
        .bins
        .iter()
        .filter(|b| b.rows > 0)
        .flat_map(|b| [b.tx_rate.high, b.rx_rate.high, b.arrival_rate.high]);
    let top = top.fold(0.0, f64::max);
    let (unit, name) = prefix(top);
    let mut legend = Vec::new();
    if run.tx > 0.0 || run.rx == 0.0 {
        legend.push(("sent", BLUE));
    }
    if run.rx > 0.0 {
        legend.push((RECEIVED, ORANGE));
        if run.arrivals {
            legend.push((ARRIVED, GREEN));
        }
    }
    Panel {
        kind: Kind::Rates,
        title: match run.arrivals {
            true => format!("Rate ({name}pps); received: by time of sending"),
            false => format!("Rate ({name}pps)"),
        },
        legend,
        height: 220.0,
        scale: Scale::linear(0.0, if top > 0.0 { top * 1.02 } else { 1.0 }, 5, unit, true),
        message: (top == 0.0).then_some("no packet"),
    }
}

/// Returns the panel of lost and late packets as parts of those sent, and of packets that this host dropped as parts of
/// those that reached it.
pub(super) fn loss(run: &Run) -> Panel {
    let ratios = || {
        run.bins
            .iter()
            .flat_map(|b| [&b.loss_ratio, &b.late_ratio, &b.drop_ratio].map(Band::highest))
            .flatten()
    };
    let top = ratios().fold(0.0, f64::max);
    let least = ratios().filter(|r| *r > 0.0).fold(f64::INFINITY, f64::min);
    let log = top > 0.0 && top / least > 300.0;
    let scale = if log {
        Scale::log(least, top, 0.12, percent_label)
    } else {
        // The loss can't be more than all packets, however the axis is rounded.
        let top = if top > 0.0 { (top * 1.02).min(1.0) } else { 0.01 };
        let mut scale = Scale::linear(0.0, top, 3, 1.0, true);
        let ticks = scale.ticks.len().max(2) - 1;
        let step = top_of(&scale, top) / ticks as f64;
        for (i, tick) in scale.ticks.iter_mut().enumerate() {
            tick.label = percent_label(step * i as f64);
        }
        scale
    };
    let mut legend = vec![("lost", RED)];
    if run.late > 0.0 {
        legend.push(("late", PINK));
    }
    let mut title = "Loss by time of sending (of packets sent)".to_owned();
    if run.host_dropped > 0.0 {
        legend.push((DROPPED, BLUE));
        title += ", dropped here (of packets that came)";
    }
    Panel {
        kind: Kind::Loss,
        title,
        legend,
        height: 120.0,
        scale,
        message: (top == 0.0 && run.tx + run.rx > 0.0).then_some(if run.only_sends() {
            "not measured: packets were only sent"
        } else {
            "no packet lost"
        }),
    }
}

/// Returns the value at the end of a linear axis that starts at 0.
fn top_of(scale: &Scale, some: f64) -> f64 {
    let at = scale.at(some);
    if at > 0.0 { some / at } else { some }
}

pub(crate) fn percent_label(ratio: f64) -> String {
    let text = percent(ratio);
    match text.strip_suffix(" %").and_then(|number| number.parse::<f64>().ok()) {
        Some(0.0) => "0".to_owned(),
        Some(number) if number >= 1e-4 => format!("{number} %"),
        _ => text,
    }
}

/// Returns the panel of latency on a logarithmic axis: percentiles if the rows have them, else mean, least and largest.
pub(super) fn latency(run: &Run) -> Panel {
    let series = latency_series(run);
    let values = || {
        run.bins
            .iter()
            .flat_map(|b| series.iter().filter_map(|s| (s.value)(&b.latency[s.column])))
            .filter(|v| *v > 0.0)
    };
    let least = values().fold(f64::INFINITY, f64::min);
    let top = values().fold(0.0, f64::max);
    let empty = top == 0.0;
    let (least, top) = if empty { (1e3, 1e6) } else { (least, top) };
    Panel {
        kind: Kind::Latency,
        title: "Latency from sending".to_owned(),
        legend: series.iter().map(|s| (s.name, s.colour)).collect(),
        height: 260.0,
        scale: Scale::log(least, top, 0.0, |ns| {
            // 1.000 ms, but 10 µs.
            let text = time(ns);
            match text.split_once(' ') {
                Some((number, unit)) => format!("{} {unit}", number.parse::<f64>().unwrap_or_default()),
                None => text,
            }
        }),
        message: empty.then_some("no latency measured"),
    }
}

struct Series {
    name: &'static str,
    colour: &'static str,
    column: usize,
    value: fn(&Band) -> Option<f64>,
}

fn latency_series(run: &Run) -> Vec<Series> {
    let series = |name, colour, column, value| Series {
        name,
        colour,
        column,
        value,
    };
    if run.percentiles {
        vec![
            series("p50", SKY, P50, Band::mean as fn(&Band) -> _),
            series("p90", BLUE, P90, Band::mean),
            series("p99", GREEN, P99, Band::highest),
            series("p99.9", ORANGE, P999, Band::highest),
            series("max", RED, MAX, Band::highest),
        ]
    } else {
        vec![
            series("min", SKY, MIN, Band::lowest as fn(&Band) -> _),
            series("mean", BLUE, MEAN, Band::mean),
            series("max", RED, MAX, Band::highest),
        ]
    }
}

/// A value of a bin in the form in which it is drawn.
enum Point {
    Solid(f64),
    /// No packet moved.
    Dashed(f64),
    /// The value is not known: a dashed line leads on to the next value.
    Missing,
}

type RateOf = fn(&Bin) -> &Band;

fn tx_rate(bin: &Bin) -> &Band {
    &bin.tx_rate
}

fn rx_rate(bin: &Bin) -> &Band {
    &bin.rx_rate
}

fn arrival_rate(bin: &Bin) -> &Band {
    &bin.arrival_rate
}

impl Panel {
    /// Draws the data; `x` and `y` place seconds and values, `edges` are the panel's top and bottom.
    pub(super) fn draw(
        &self,
        svg: &mut Svg,
        run: &Run,
        x: &dyn Fn(f64) -> f64,
        y: &dyn Fn(f64) -> f64,
        edges: (f64, f64),
    ) {
        match self.kind {
            Kind::Rates => {
                let colour = |name| self.legend.iter().find(|(n, _)| *n == name).map(|(_, colour)| *colour);
                let series = [
                    (colour("sent"), tx_rate as RateOf, if run.arrivals { 4.2 } else { 3.0 }),
                    (colour(RECEIVED), rx_rate, if run.arrivals { 2.6 } else { 1.4 }),
                    (colour(ARRIVED), arrival_rate, 1.1),
                ];
                // Envelopes first: they would tint the lines.
                for (colour, band, _) in series {
                    if let Some(colour) = colour.filter(|_| run.folded) {
                        svg.area(&envelope(&run.bins, band, x, y), colour, 0.5);
                    }
                }
                for (colour, band, width) in series {
                    let Some(colour) = colour else { continue };
                    steps(svg, &run.bins, x, y, colour, width, |bin| match band(bin).mean() {
                        None => Point::Missing,
                        Some(rate) if bin.tx + bin.rx == 0.0 => Point::Dashed(rate),
                        Some(rate) => Point::Solid(rate),
                    });
                }
            }
            Kind::Loss => {
                bars(svg, &run.bins, x, y, edges.1, RED, |b| b.loss_ratio.highest());
                diamonds(svg, &run.bins, x, y, PINK, |b| b.late_ratio.highest());
                if run.host_dropped > 0.0 {
                    // A logarithmic axis has no 0.
                    let y = |ratio: f64| if ratio > 0.0 { y(ratio) } else { edges.1 };
                    steps(svg, &run.bins, x, &y, BLUE, 1.8, |bin| {
                        bin.drop_ratio.highest().map_or(Point::Missing, Point::Solid)
                    });
                }
            }
            Kind::Latency => {
                for s in latency_series(run) {
                    steps(svg, &run.bins, x, y, s.colour, 1.5, |bin| {
                        match (s.value)(&bin.latency[s.column]) {
                            Some(ns) => Point::Solid(ns),
                            None => Point::Missing,
                        }
                    });
                }
            }
        }
    }
}

/// A line of steps, one for each bin.
fn steps(
    svg: &mut Svg,
    bins: &[Bin],
    x: &dyn Fn(f64) -> f64,
    y: &dyn Fn(f64) -> f64,
    colour: &str,
    width: f64,
    value: impl Fn(&Bin) -> Point,
) {
    let (mut solid, mut dashed) = (String::new(), String::new());
    // End and height of the line so far, and whether its last step was solid.
    let mut last: Option<(f64, f64, bool)> = None;
    for bin in bins {
        let (at, is_solid) = match value(bin) {
            Point::Solid(value) => (y(value), true),
            Point::Dashed(value) => (y(value), false),
            Point::Missing => continue,
        };
        let (from, to) = (x(bin.from), x(bin.to));
        let path = if is_solid { &mut solid } else { &mut dashed };
        // Writing to a String does not fail.
        let _ = match last {
            Some((end, height, _)) if from - end > 0.5 => {
                let _ = write!(dashed, "M{end:.2} {height:.2}L{from:.2} {at:.2}");
                let path = if is_solid { &mut solid } else { &mut dashed };
                write!(path, "M{from:.2} {at:.2}H{to:.2}")
            }
            Some((_, _, before)) if before == is_solid => write!(path, "V{at:.2}H{to:.2}"),
            Some((_, height, _)) => write!(path, "M{from:.2} {height:.2}V{at:.2}H{to:.2}"),
            None => write!(path, "M{from:.2} {at:.2}H{to:.2}"),
        };
        last = Some((to, at, is_solid));
    }
    svg.path(&dashed, colour, 1.2, true);
    svg.path(&solid, colour, width, false);
}

/// Returns the area between least and largest, piece by piece.
fn envelope(bins: &[Bin], band: RateOf, x: &dyn Fn(f64) -> f64, y: &dyn Fn(f64) -> f64) -> String {
    let mut path = String::new();
    for bin in bins {
        if let (Some(low), Some(high)) = (band(bin).lowest(), band(bin).highest()) {
            let (from, to, low, high) = (x(bin.from), x(bin.to), y(low), y(high));
            if low - high >= 0.3 {
                let to = to.max(from + 1.4);
                let _ = write!(path, "M{from:.2} {low:.2}V{high:.2}H{to:.2}V{low:.2}Z");
            }
        }
    }
    path
}

/// Draws bars from the bottom. A bar above 0 is never thinner or lower than a pixel.
fn bars(
    svg: &mut Svg,
    bins: &[Bin],
    x: &dyn Fn(f64) -> f64,
    y: &dyn Fn(f64) -> f64,
    bottom: f64,
    colour: &str,
    value: impl Fn(&Bin) -> Option<f64>,
) {
    let mut path = String::new();
    for bin in bins {
        if let Some(value) = value(bin).filter(|v| *v > 0.0) {
            let (from, to) = (x(bin.from), x(bin.to));
            let to = to.max(from + 1.2);
            let top = y(value).min(bottom - 1.5);
            let _ = write!(path, "M{from:.2} {bottom:.2}V{top:.2}H{to:.2}V{bottom:.2}Z");
        }
    }
    svg.area(&path, colour, 0.85);
}

/// Draws marks above the bars, because a second row of bars would be hidden.
fn diamonds(
    svg: &mut Svg,
    bins: &[Bin],
    x: &dyn Fn(f64) -> f64,
    y: &dyn Fn(f64) -> f64,
    colour: &str,
    value: impl Fn(&Bin) -> Option<f64>,
) {
    let mut path = String::new();
    for bin in bins {
        if let Some(value) = value(bin).filter(|v| *v > 0.0) {
            let (x, y) = ((x(bin.from) + x(bin.to)) / 2.0, y(value));
            let _ = write!(
                path,
                "M{:.2} {y:.2}L{x:.2} {:.2}L{:.2} {y:.2}L{x:.2} {:.2}Z",
                x - 4.0,
                y - 4.0,
                x + 4.0,
                y + 4.0
            );
        }
    }
    svg.area(&path, colour, 1.0);
}
