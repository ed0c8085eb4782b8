//! Loads that a search tries.

use super::Limits;

/// Loads between two limits, evenly spaced by ratio: two neighbours are just as far apart as the narrowest goal allows.
/// Place 0 is the lowest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    limits: Limits,
    /// Natural logarithm of the ratio of two neighbours.
    step: f64,
    top: u32,
}

impl Grid {
    pub(crate) fn new(limits: Limits, width: f64) -> Self {
        // Neighbours must not be further apart for being rounded.
        let step = -(1.0 - width).ln() * (1.0 - 1e-6);
        let span = (limits.max as f64 / limits.min as f64).ln();
        let top = (span / step).ceil().max(1.0) as u32;
        Self { limits, step, top }
    }

    /// Returns the place of the highest load.
    pub(crate) fn top(&self) -> u32 {
        self.top
    }

    /// Returns how many places apart bounds may be for a goal of width `width`: at least 1.
    pub(crate) fn width(&self, width: f64) -> u32 {
        ((-(1.0 - width).ln() / self.step) as u32).max(1)
    }

    /// Returns the load at a place, packets per second.
    pub(crate) fn load(&self, place: u32) -> u64 {
        if place == 0 {
            return self.limits.min;
        }
        let below = f64::from(self.top.saturating_sub(place));
        let load = self.limits.max as f64 * (-self.step * below).exp();
        (load.round() as u64).clamp(self.limits.min, self.limits.max)
    }

    /// Returns the highest place whose load is not above `load`; 0 if `load` is below the lowest.
    pub(crate) fn at_most(&self, load: f64) -> u32 {
        let near = self.near(load);
        let fits = |place: &u32| self.load(*place) as f64 <= load;
        [near + 1, near, near.saturating_sub(1)]
            .into_iter()
            .filter(|place| *place <= self.top)
            .find(fits)
            .unwrap_or(near.saturating_sub(1))
    }

    /// Returns the lowest place whose load is not below `load`; the top if `load` is above the highest.
    pub(crate) fn at_least(&self, load: f64) -> u32 {
        let near = self.near(load);
        let fits = |place: &u32| self.load(*place) as f64 >= load;
        [near.saturating_sub(1), near, near + 1]
            .into_iter()
            .filter(|place| *place <= self.top)
            .find(fits)
            .unwrap_or(self.top)
    }

    /// Returns a place that is off by at most one.
    fn near(&self, load: f64) -> u32 {
        let below = (self.limits.max as f64 / load.max(1.0)).ln() / self.step;
        (f64::from(self.top) - below).round().clamp(0.0, f64::from(self.top)) as u32
    }
}
