//! Axes of charts: positions of values, and labels of ticks.

use crate::document::show::{Shown, headed};
use crate::document::{Axis, Scale as Layout, Unit};
use crate::plot::panels::percent_label;
use crate::plot::scale::{Scale, Tick, nice, time_unit};
use mpps_report::units::time;

/// Largest and smallest number on an axis. No test has numbers beyond these; such a value is drawn at the edge.
const LARGEST: f64 = 1e30;
const SMALLEST: f64 = 1e-30;
/// Part of a logarithmic axis that is kept for 0, if a value is 0.
const ZERO: f64 = 0.07;
/// Most nines that an axis distinguishes: 1 - 10^-9.
const MOST_NINES: f64 = 9.0;

/// An axis and the position of each value on it.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    by: By,
    pub(crate) ticks: Vec<Tick>,
    /// Name of the quantity and its unit.
    pub(crate) label: String,
    /// Unit of the axis's numbers.
    pub(crate) shown: Shown,
}

#[derive(Debug, Clone)]
enum By {
    Scale(Scale),
    /// The categories in their order.
    Category(Vec<f64>),
    /// Number of nines at the end of the axis.
    Nines(f64),
}

impl Placed {
    /// Returns the axis of these values, with about `n` ticks.
    pub(crate) fn new(axis: &Axis, values: impl Iterator<Item = f64>, n: usize) -> Self {
        let mut values: Vec<f64> = values.filter(|v| v.is_finite()).map(clamped).collect();
        values.sort_by(f64::total_cmp);
        match axis.scale {
            Layout::Category => Self::categories(axis, values),
            Layout::Nines => Self::nines(axis, &values),
            Layout::Log => Self::log(axis, &values),
            Layout::Linear => Self::linear(axis, &values, n),
        }
    }

    /// Returns the position of a value: 0 to 1.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let value = clamped(value);
        let at = match &self.by {
            By::Scale(scale) => scale.at(value),
            By::Category(all) => {
                let place = all.partition_point(|v| *v < value).min(all.len().saturating_sub(1));
                (place as f64 + 0.5) / all.len().max(1) as f64
            }
            By::Nines(top) => nines(value) / top,
        };
        if at.is_finite() { at.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Returns a value in the scripts' coordinates: the number of its category, its nines, or the value itself.
    pub(crate) fn coordinate(&self, value: f64) -> f64 {
        match &self.by {
            By::Scale(_) => value,
            By::Category(all) => all.partition_point(|v| *v < value) as f64,
            By::Nines(_) => nines(value),
        }
    }

    /// Returns the first and last coordinate.
    pub(crate) fn range(&self) -> (f64, f64) {
        match &self.by {
            By::Scale(scale) => scale.ends(),
            By::Category(all) => (-0.5, all.len() as f64 - 0.5),
            By::Nines(top) => (0.0, *top),
        }
    }

    fn linear(axis: &Axis, values: &[f64], n: usize) -> Self {
        let (least, most) = ends(axis, values, 0.0, 1.0);
        // Begins at 0, unless all values would then be pressed together at the far end.
        let mut low = match axis.min {
            Some(_) => least,
            None if least >= 0.0 && least <= 0.7 * most => 0.0,
            None => least,
        };
        let mut high = most;
        if high <= low {
            high = low + if low == 0.0 { 1.0 } else { low.abs() * 0.1 };
        }
        // Packets and trials are whole: no tick is at one half.
        let whole = [Unit::Plain, Unit::Count, Unit::Bytes].contains(&axis.unit);
        let n = match whole && high - low >= 1.0 && values.iter().all(|v| v.fract() == 0.0) {
            true => n.min((high - low) as usize).max(1),
            false => n,
        };
        let step = nice((high - low) / n as f64);
        if axis.min.is_none() {
            low = (low / step + 1e-9).floor() * step;
        }
        let shown = match axis.unit {
            Unit::S if high > 0.0 => seconds(high),
            unit => Shown::of(unit, low.abs().max(high.abs())),
        };
        let large = axis.unit == Unit::Count && high.abs() >= 1e5;
        let shown = if large { Shown::of(Unit::Pps, high) } else { shown };
        let name = if large {
            shown.name.trim_end_matches("pps")
        } else {
            shown.name
        };
        let scale = Scale::linear(low, high, n, shown.divide, axis.max.is_none());
        Self {
            ticks: scale.ticks.clone(),
            label: labelled(&axis.label, name),
            shown: if large { Shown::of(Unit::Count, high) } else { shown },
            by: By::Scale(scale),
        }
    }

    fn log(axis: &Axis, values: &[f64]) -> Self {
        let zero = if values.first().is_some_and(|v| *v <= 0.0) {
            ZERO
        } else {
            0.0
        };
        let positive: Vec<f64> = values.iter().copied().filter(|v| *v > 0.0).collect();
        let (low, high) = ends(axis, &positive, 1.0, 10.0);
        let low = low.max(SMALLEST);
        let high = high.max(low);
        let (unit, name) = (
            axis.unit,
            match axis.unit {
                Unit::Pps => "pps",
                Unit::Bps => "bps",
                Unit::Bytes => "bytes",
                _ => "",
            },
        );
        let scale = Scale::log(low, high, zero, |v| tick(unit, v));
        Self {
            ticks: scale.ticks.clone(),
            label: labelled(&axis.label, name),
            shown: Shown::of(unit, positive.get(positive.len() / 2).copied().unwrap_or(1.0)),
            by: By::Scale(scale),
        }
    }

    fn categories(axis: &Axis, mut values: Vec<f64>) -> Self {
        values.dedup();
        let shown = Shown::of(axis.unit, values.last().copied().unwrap_or(1.0));
        let n = values.len().max(1) as f64;
        // 1518, not 1,518: these are names.
        let label = |v: f64| shown.number(v).replace(',', "");
        let ticks = values.iter().enumerate().map(|(i, v)| Tick {
            at: (i as f64 + 0.5) / n,
            label: label(*v),
        });
        Self {
            ticks: ticks.collect(),
            label: labelled(&axis.label, shown.name),
            shown,
            by: By::Category(values),
        }
    }

    fn nines(axis: &Axis, values: &[f64]) -> Self {
        let most = axis.max.or(values.last().copied()).unwrap_or(0.0);
        let top = nines(most).max(1.0);
        let mut ticks = vec![Tick {
            at: 0.0,
            label: "0".to_owned(),
        }];
        if top < 5.0 {
            ticks.push(Tick {
                at: nines(0.5) / top,
                label: "50".to_owned(),
            });
        }
        for nine in 1..=(top + 1e-9) as usize {
            ticks.push(Tick {
                at: nine as f64 / top,
                label: nines_label(nine),
            });
        }
        Self {
            ticks,
            label: labelled(&axis.label, "%"),
            shown: Shown::of(Unit::Ratio, 1.0),
            by: By::Nines(top),
        }
    }
}

fn clamped(value: f64) -> f64 {
    value.clamp(-LARGEST, LARGEST)
}

/// Returns the number of nines of a part of one: 0.99 has two.
fn nines(part: f64) -> f64 {
    (-(1.0 - part.clamp(0.0, 1.0)).max(10f64.powf(-MOST_NINES)).log10()).clamp(0.0, MOST_NINES)
}

/// Returns a number of nines as a percentage: 90, 99, 99.9.
fn nines_label(nine: usize) -> String {
    match nine {
        1 => "90".to_owned(),
        2 => "99".to_owned(),
        more => format!("99.{}", "9".repeat(more - 2)),
    }
}

/// Returns the ends of the axis: the requested ones, or else those of the values.
fn ends(axis: &Axis, values: &[f64], low: f64, high: f64) -> (f64, f64) {
    let own = |end: Option<f64>| end.filter(|v| v.is_finite()).map(clamped);
    let low = own(axis.min).or(values.first().copied()).unwrap_or(low);
    let high = own(axis.max).or(values.last().copied()).unwrap_or(high);
    (low.min(high), high.max(low))
}

fn seconds(span: f64) -> Shown {
    let (_, name) = time_unit(span);
    match name {
        "h" => Shown {
            divide: 3600.0,
            name: "h",
            ..Shown::of(Unit::S, 1.0)
        },
        "min" => Shown {
            divide: 60.0,
            name: "min",
            ..Shown::of(Unit::S, 1.0)
        },
        _ => Shown::of(Unit::S, span),
    }
}

fn labelled(label: &str, unit: &str) -> String {
    match unit {
        "" => headed(label),
        unit => format!("{} ({unit})", headed(label)),
    }
}

/// The label of a tick on a logarithmic axis.
fn tick(unit: Unit, value: f64) -> String {
    let short = |text: String| match text.split_once(' ') {
        // 10 µs, not 10.00 µs.
        Some((number, unit)) => format!("{} {unit}", number.parse::<f64>().unwrap_or_default())
            .trim_end()
            .to_owned(),
        None => text,
    };
    match unit {
        Unit::Ns => short(time(value)),
        Unit::S => short(time(value * 1e9)),
        Unit::Ratio => percent_label(value),
        _ if value < 1.0 => Shown::of(Unit::Plain, value).number(value),
        _ => short(mpps_report::units::si(value, "")),
    }
}
