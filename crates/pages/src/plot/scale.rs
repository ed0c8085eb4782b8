//! Axes: conversion from values to pixels, and positions of ticks.

/// A mark on an axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tick {
    /// Position on the axis: 0 (start) to 1 (end).
    pub(crate) at: f64,
    /// Label; empty for a grid line without text.
    pub(crate) label: String,
}

/// An axis.
#[derive(Debug, Clone)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    log: bool,
    /// Part at the start of a logarithmic axis that stands for 0.
    zero: f64,
    pub(crate) ticks: Vec<Tick>,
}

/// Largest end of an axis, and (`LEAST`) shortest step. No run needs more, and nothing overflows within these.
const MOST: f64 = 1e30;
const LEAST: f64 = 1e-30;

/// Limits `value` to the range from `least` to [`MOST`]; NaN becomes `least`.
fn bounded(value: f64, least: f64) -> f64 {
    if value.is_nan() {
        least
    } else {
        value.clamp(least, MOST)
    }
}

impl Scale {
    /// Returns an axis from `low` to `high`, with about `n` ticks. Values are divided by `unit` for the labels.
    /// `round`: the end of the axis moves out to a tick.
    pub(crate) fn linear(low: f64, high: f64, n: usize, unit: f64, round: bool) -> Self {
        let [low, high] = [low, high].map(|end| bounded(end, -MOST));
        let far = low.abs().max(high.abs());
        // On a shorter axis a step would hardly change a number (precision of f64).
        let shortest = (far * 1e-12).max(LEAST);
        let span = if high - low >= shortest {
            high - low
        } else if far > 0.0 {
            // If there is only one number, the length of the axis depends on its size.
            (far * 0.1).clamp(shortest, shortest.max(1.0))
        } else {
            1.0
        };
        let step = nice(span / n as f64);
        let high = if round {
            low + (span / step - 1e-9).ceil().max(1.0) * step
        } else {
            low + span
        };
        let decimals = (-(step / unit).log10().floor()).clamp(0.0, 9.0) as usize;
        let first = (low / step - 1e-9).ceil() as i64;
        let last = (high / step + 1e-9).floor() as i64;
        let tick = |i: i64| {
            let value = i as f64 * step;
            Tick {
                at: (value - low) / (high - low),
                label: format!("{:.decimals$}", value / unit),
            }
        };
        Self {
            low,
            high,
            log: false,
            zero: 0.0,
            ticks: (first..=last).map(tick).collect(),
        }
    }

    /// Returns a logarithmic axis over positive values; `zero` is the part at its start that is kept for 0.
    pub(crate) fn log(low: f64, high: f64, zero: f64, label: impl Fn(f64) -> String) -> Self {
        let [low, high] = [low, high].map(|end| bounded(end, LEAST));
        let low = step_125(low * (1.0 + 1e-9), false);
        let mut high = step_125(high * (1.0 - 1e-9), true);
        if high < low * 9.0 {
            high = low * 10.0;
        }
        let mut scale = Self {
            low,
            high,
            log: true,
            zero,
            ticks: Vec::new(),
        };
        let decades = (high / low).log10();
        if zero > 0.0 {
            scale.ticks.push(Tick {
                at: 0.0,
                label: "0".to_owned(),
            });
        }
        // With many decades, label every second or third.
        let every = (decades / 5.0).ceil().max(1.0) as i64;
        for exponent in low.log10().floor() as i64..=high.log10().ceil() as i64 {
            for digit in [1.0, 2.0, 5.0] {
                let value = digit * 10f64.powi(exponent as i32);
                if value < low * 0.999 || value > high * 1.001 || (decades > 3.5 && digit != 1.0) {
                    continue;
                }
                let named = if digit == 1.0 {
                    exponent.rem_euclid(every) == 0
                } else {
                    decades <= 2.2
                };
                let label = if named { label(value) } else { String::new() };
                scale.ticks.push(Tick {
                    at: scale.at(value),
                    label,
                });
            }
        }
        scale
    }

    /// Returns the first and the last value.
    pub(crate) fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Returns the position of a value: 0 to 1, clamped.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let at = if !self.log {
            (value - self.low) / (self.high - self.low)
        } else if value <= 0.0 {
            0.0
        } else {
            self.zero + (1.0 - self.zero) * (value / self.low).ln() / (self.high / self.low).ln()
        };
        if at.is_nan() { 0.0 } else { at.clamp(0.0, 1.0) }
    }
}

/// Returns the smallest of 1, 2, 5 times a power of ten that is not below `value`.
pub(crate) fn nice(value: f64) -> f64 {
    step_125(value * (1.0 - 1e-9), true)
}

fn step_125(value: f64, up: bool) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let digit = value / power;
    let steps = [1.0, 2.0, 5.0, 10.0];
    let found = if up {
        steps.into_iter().find(|step| *step >= digit * (1.0 - 1e-12))
    } else {
        steps.into_iter().rev().find(|step| *step <= digit * (1.0 + 1e-12))
    };
    found.unwrap_or(if up { 10.0 } else { 1.0 }) * power
}

/// Returns unit and name of the largest SI prefix that keeps `top` at 1 or above.
pub(crate) fn prefix(top: f64) -> (f64, &'static str) {
    [(1e9, "G"), (1e6, "M"), (1e3, "k")]
        .into_iter()
        .find(|(unit, _)| top >= *unit)
        .unwrap_or((1.0, ""))
}

/// Returns the unit of a time axis of `seconds`.
pub(crate) fn time_unit(seconds: f64) -> (f64, &'static str) {
    let units = [
        (3600.0, 3.0 * 3600.0, "h"),
        (60.0, 20.0 * 60.0, "min"),
        (1.0, 1.0, "s"),
        (1e-3, 1e-3, "ms"),
    ];
    units
        .into_iter()
        .find(|(_, from, _)| seconds >= *from)
        .map_or((1e-6, "µs"), |(unit, _, name)| (unit, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn linear_ticks_are_few_in_order_and_inside(low in 0.0..1e3f64, span in 1e-6..1e9f64, round: bool) {
            let scale = Scale::linear(low, low + span, 5, 1.0, round);
            prop_assert!((1..=8).contains(&scale.ticks.len()), "{:?}", scale.ticks);
            prop_assert!(scale.ticks.iter().all(|t| (-1e-6..=1.0 + 1e-6).contains(&t.at)));
            prop_assert!(scale.ticks.windows(2).all(|w| w[0].at < w[1].at));
            prop_assert!(scale.at(low) == 0.0 && scale.at(low + span) > 0.4);
        }

        #[test]
        fn axes_of_any_numbers_have_few_ticks_all_on_them(
            low in prop::num::f64::ANY, other in prop::num::f64::ANY, close in prop::option::of(1e-17..1e-6f64),
            round: bool,
        ) {
            let high = close.map_or(other, |share| low * (1.0 + share));
            let label = |v: f64| v.to_string();
            for scale in [Scale::linear(low, high, 5, 1.0, round), Scale::log(low, high, 0.1, label)] {
                prop_assert!(scale.ticks.len() <= 200, "{}", scale.ticks.len());
                prop_assert!(scale.ticks.iter().all(|t| (-1e-3..=1.001).contains(&t.at)), "{:?}", scale.ticks);
                prop_assert!([low, high, f64::NAN].into_iter().all(|v| (0.0..=1.0).contains(&scale.at(v))));
            }
        }

        #[test]
        fn logarithmic_axes_hold_their_values(low in 1e-9..1e6f64, factor in 1.0..1e9f64) {
            let scale = Scale::log(low, low * factor, 0.1, |v| v.to_string());
            prop_assert!(scale.at(low) >= 0.1 - 1e-9 && scale.at(low * factor) <= 1.0);
            prop_assert!(scale.at(low) < scale.at(low * factor * 1.01) || factor < 1.1);
            prop_assert!(scale.ticks.iter().filter(|t| !t.label.is_empty()).count() >= 2);
            prop_assert_eq!(scale.at(0.0), 0.0);
        }
    }
}
