//! Options of the loop path.

use crate::null::NullConfig;
use crate::null::no_device;
use crate::{Fact, PortSpec, SpecError};

/// Settings of the loop path. The ratios are probabilities that a departing frame meets the fault; a frame meets one
/// at the most, so their sum is 1 at the most.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopConfig {
    /// Buffers a queue (in flight, held back and in the engine's hands), MTU and layer.
    pub buffers: NullConfig,
    /// Time from departure to arrival, ns.
    pub delay_ns: u64,
    /// Ratio of frames lost.
    pub loss: f64,
    /// Ratio of frames that arrive twice.
    pub duplicate: f64,
    /// Ratio of frames held back behind later ones of their flow.
    pub reorder: f64,
    /// Later frames of the same flow that overtake a frame held back; at least 1.
    pub reorder_distance: u32,
    /// Ratio of frames of which one payload bit is flipped.
    pub corrupt: f64,
    /// Seed of the choice of frames; the same seed and frames give the same faults.
    pub seed: u64,
    /// Ethernet frames come back turned round, as from a reflector.
    pub reflect: bool,
}

impl Default for LoopConfig {
    fn default() -> Self {
        Self {
            buffers: NullConfig {
                frames: 16384,
                ..NullConfig::default()
            },
            delay_ns: 0,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_distance: 1,
            corrupt: 0.0,
            seed: 1,
            reflect: true,
        }
    }
}

impl LoopConfig {
    /// The settings, for the report.
    pub(super) fn facts(&self) -> Vec<Fact> {
        let mut facts = self.buffers.facts();
        facts.extend([
            Fact::new("delay_ns", self.delay_ns.to_string()),
            Fact::new("loss_ratio", self.loss.to_string()),
            Fact::new("duplicate_ratio", self.duplicate.to_string()),
            Fact::new("reorder_ratio", self.reorder.to_string()),
            Fact::new("reorder_distance", self.reorder_distance.to_string()),
            Fact::new("corrupt_ratio", self.corrupt.to_string()),
            Fact::new("fault_seed", self.seed.to_string()),
            Fact::new("reflect", if self.reflect { "on" } else { "off" }.to_owned()),
        ]);
        facts
    }
}

/// Longest delay, ns: one minute.
const MAX_DELAY_NS: f64 = 60e9;

/// Reads the options of `loop:[delay=DURATION][,loss=P][,duplicate=P][,reorder=P][,reorder_distance=N][,corrupt=P]
/// [,seed=N][,frames=N][,mtu=BYTES][,layer=ethernet|payload][,reflect=on|off]`, each `P` a ratio (`0.01`) or a
/// percentage (`1%`).
///
/// # Errors
/// When a device is named, an option is unknown or out of its range, or the ratios sum to more than 1.
pub fn check(spec: &PortSpec) -> Result<LoopConfig, SpecError> {
    no_device(spec, "loop:[key=value…], such as loop:delay=1ms,loss=0.01")?;
    let default = LoopConfig::default();
    let mut options = spec.take_options();
    let delay = options.get("delay", "a time from 0 to 60s, such as 50us, 1.5ms or 2s", nanoseconds)?;
    let mut ratio = |key| {
        options.get(
            key,
            "a ratio from 0 to 1 or a percentage, such as 0.01 or 1%",
            parse_ratio,
        )
    };
    let loss = ratio("loss")?.unwrap_or(default.loss);
    let duplicate = ratio("duplicate")?.unwrap_or(default.duplicate);
    let reorder = ratio("reorder")?.unwrap_or(default.reorder);
    let corrupt = ratio("corrupt")?.unwrap_or(default.corrupt);
    let config = LoopConfig {
        delay_ns: delay.unwrap_or(default.delay_ns),
        loss,
        duplicate,
        reorder,
        reorder_distance: options
            .number("reorder_distance", 1..=65536)?
            .map_or(default.reorder_distance, |n| n as u32),
        corrupt,
        seed: options.number("seed", 0..=u64::MAX)?.unwrap_or(default.seed),
        reflect: options.switch("reflect")?.unwrap_or(default.reflect),
        buffers: NullConfig::take(&mut options, default.buffers)?,
    };
    options.finish()?;
    let sum = loss + duplicate + reorder + corrupt;
    // Ten decimal ratios that a user takes to sum to 1 may miss it by a rounding.
    if sum > 1.0 + 1e-9 {
        return Err(SpecError(format!(
            "port '{spec}': loss, duplicate, reorder and corrupt sum to {sum}: want 1 at the most, for a frame meets one of them"
        )));
    }
    Ok(config)
}

/// A number of `us`, `ms` or `s`, or plain 0, in ns.
fn nanoseconds(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    // `s` last: the others end in it, too.
    let (number, unit) = [("us", 1e3), ("ms", 1e6), ("s", 1e9)]
        .iter()
        .find_map(|(suffix, unit)| text.strip_suffix(suffix).map(|number| (number, unit)))?;
    let ns = decimal(number)? * unit;
    (ns <= MAX_DELAY_NS).then(|| ns.round() as u64)
}

fn parse_ratio(text: &str) -> Option<f64> {
    let ratio = match text.strip_suffix('%') {
        Some(percent) => decimal(percent)? / 100.0,
        None => decimal(text)?,
    };
    (ratio <= 1.0).then_some(ratio)
}

/// A number of plain digits with at most one point: not NaN, not infinite, not negative.
fn decimal(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if plain { text.parse().ok() } else { None }
}
