//! Options of the loop path.

use crate::null::NullConfig;
use crate::null::no_device;
use crate::{Fact, Layer, PortSpec, SpecError};

/// Packets or bits that the device in the loop serves per second, over all lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// Packets, of any size.
    Packets(u64),
    /// Bits on layer 1: FCS, preamble and gap count, and so does what pads a frame to 64 bytes.
    Bits(u64),
}

impl Capacity {
    /// Units: name, scale, and whether it counts bits on layer 1.
    const UNITS: [(&'static str, u32, bool); 8] = [
        ("Gpps", 9, false),
        ("Mpps", 6, false),
        ("kpps", 3, false),
        ("pps", 0, false),
        ("Gbps", 9, true),
        ("Mbps", 6, true),
        ("kbps", 3, true),
        ("bps", 0, true),
    ];
    /// Most in a second.
    const MOST: u64 = 1_000_000_000_000;

    /// A whole number of packets or bits a second, written as `--rate` is.
    fn parse(text: &str) -> Option<Self> {
        // Units with a prefix come first: they end in the others.
        let (number, (_, digits, bits)) = Self::UNITS
            .iter()
            .find_map(|unit| text.strip_suffix(unit.0).map(|number| (number.trim_end(), unit)))?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let fraction = fraction.trim_end_matches('0');
        let digits = *digits as usize;
        if fraction.len() > digits {
            return None;
        }
        let plain = format!("{whole}{fraction:0<digits$}");
        if !plain.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let rate = plain.parse().ok().filter(|rate| (1..=Self::MOST).contains(rate))?;
        Some(if *bits { Self::Bits(rate) } else { Self::Packets(rate) })
    }
}

/// How jitter is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// From 0 to the time, each as likely.
    Uniform,
    /// Exponentially, with the time as its mean.
    Exponential,
}

/// A random delay of each frame, in addition to the delay of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jitter {
    /// Longest delay, or mean delay, by the spread; ns. 0: none.
    pub time_ns: u64,
    /// How it is spread.
    pub spread: Spread,
    /// Frames with less jitter overtake others. Refused with [`LoopConfig::reorder`]: the loop knows which frames are
    /// reordered by either option, not by both.
    pub overtake: bool,
}

/// Settings of the loop path. The ratios are probabilities that a departing frame meets the fault. A frame meets at
/// most one, so their sum is at most 1.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopConfig {
    /// Buffers a queue (in flight, held back and in the engine's hands), MTU and layer.
    pub buffers: NullConfig,
    /// Capacity of the device; `None`: everything is served at once. The lanes share it.
    pub capacity: Option<Capacity>,
    /// Packets that the device holds at the most, the one being served among them; what comes then is dropped. The
    /// lanes share it, and each has room for one at least.
    pub queue: usize,
    /// Time from departure to arrival, ns, beside what the device takes.
    pub delay_ns: u64,
    /// Random delays.
    pub jitter: Jitter,
    /// Ratio of frames lost in bursts, to 0.5.
    pub burst_loss: f64,
    /// Mean length of such bursts; at least 1.
    pub burst_length: u32,
    /// Ratio of frames lost.
    pub loss: f64,
    /// Outage: all frames that depart between these two times are lost; ns after the first departure of the port.
    pub outage: Option<(u64, u64)>,
    /// Ratio of frames that arrive twice.
    pub duplicate: f64,
    /// Ratio of frames held back behind later ones of their flow.
    pub reorder: f64,
    /// Later frames of the same flow that overtake a frame held back; at least 1.
    pub reorder_distance: u32,
    /// Ratio of frames of which one payload bit is flipped.
    pub corrupt: f64,
    /// Test packets end with a tag; else they are UDP.
    pub tagged: bool,
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
            capacity: None,
            queue: 1000,
            delay_ns: 0,
            jitter: Jitter {
                time_ns: 0,
                spread: Spread::Uniform,
                overtake: false,
            },
            burst_loss: 0.0,
            burst_length: 1,
            loss: 0.0,
            outage: None,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_distance: 1,
            corrupt: 0.0,
            tagged: false,
            seed: 1,
            reflect: true,
        }
    }
}

impl LoopConfig {
    /// The share of the queue that lane `lane` of `lanes` has.
    pub(super) fn queue_of(&self, lane: usize, lanes: usize) -> usize {
        (self.queue / lanes + usize::from(lane < self.queue % lanes)).max(1)
    }

    /// Refuses a queue that so many lanes can't share.
    ///
    /// # Errors
    /// When there are more lanes than packets in the queue.
    pub fn check_lanes(&self, lanes: usize) -> Result<(), SpecError> {
        if self.capacity.is_none() || self.queue >= lanes {
            return Ok(());
        }
        Err(SpecError(format!(
            "loop: queue={}: want {lanes} at least, for {lanes} lanes share it",
            self.queue
        )))
    }

    /// Whether frames take time, so that each has a time of arrival.
    pub fn takes_time(&self) -> bool {
        self.delay_ns > 0 || self.capacity.is_some() || self.jitter.time_ns > 0
    }

    /// The settings, for the report.
    pub(super) fn facts(&self) -> Vec<Fact> {
        let mut facts = self.buffers.facts();
        let mut tell = |name, value| facts.push(Fact::new(name, value));
        if let Some(capacity) = self.capacity {
            match capacity {
                Capacity::Packets(rate) => tell("capacity_pps", rate.to_string()),
                Capacity::Bits(rate) => tell("capacity_bps", rate.to_string()),
            }
            tell("queue", self.queue.to_string());
        }
        if self.jitter.time_ns > 0 {
            let spread = match self.jitter.spread {
                Spread::Uniform => "uniform",
                Spread::Exponential => "exp",
            };
            tell("jitter_ns", self.jitter.time_ns.to_string());
            tell("jitter_spread", spread.to_owned());
            tell("jitter_reorder", on_off(self.jitter.overtake));
        }
        if self.burst_loss > 0.0 {
            tell("burst_loss_ratio", self.burst_loss.to_string());
            tell("burst_loss_length", self.burst_length.to_string());
        }
        if let Some((from_ns, to_ns)) = self.outage {
            facts.push(Fact::new("outage_ns", format!("{from_ns}-{to_ns}")));
        }
        facts.extend([
            Fact::new("delay_ns", self.delay_ns.to_string()),
            Fact::new("loss_ratio", self.loss.to_string()),
            Fact::new("duplicate_ratio", self.duplicate.to_string()),
            Fact::new("reorder_ratio", self.reorder.to_string()),
            Fact::new("reorder_distance", self.reorder_distance.to_string()),
            Fact::new("corrupt_ratio", self.corrupt.to_string()),
            Fact::new("fault_seed", self.seed.to_string()),
            Fact::new("reflect", on_off(self.reflect)),
        ]);
        facts
    }
}

fn on_off(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

/// Longest delay, ns: one minute.
const MAX_DELAY_NS: f64 = 60e9;

/// Longest queue.
const MAX_QUEUE: u64 = 1_000_000;
/// Buffers beside those in the queue, if the number of them is not given.
const SPARE: usize = 16384;

/// Reads the options of `loop:[capacity=RATE[,queue=N]][,delay=DURATION][,jitter=DURATION[:uniform|exp]]
/// [,jitter_reorder=on|off][,burst_loss=P:N][,outage=TIME-TIME][,loss=P][,duplicate=P][,reorder=P]
/// [,reorder_distance=N][,corrupt=P][,seed=N][,frames=N][,mtu=BYTES][,layer=ethernet|payload][,reflect=on|off]`, each
/// `P` a ratio (`0.01`) or a percentage (`1%`).
///
/// # Errors
/// When a device is named, an option is unknown, out of its range or without effect, or options contradict each other.
pub fn check(spec: &PortSpec) -> Result<LoopConfig, SpecError> {
    no_device(spec, "loop:[key=value…], such as loop:delay=1ms,loss=0.01")?;
    let default = LoopConfig::default();
    let mut options = spec.take_options();
    let capacity = options.get(
        "capacity",
        "a whole number of packets or layer-1 bits a second, 1pps to 1000Gbps, such as 1.5Mpps or 10Gbps",
        Capacity::parse,
    )?;
    let queue = options.number("queue", 1..=MAX_QUEUE)?.map(|n| n as usize);
    let delay = options.get("delay", "a time from 0 to 60s, such as 50us, 1.5ms or 2s", nanoseconds)?;
    let (time_ns, spread) = options
        .get(
            "jitter",
            "a time from 0 to 60s, and how it is spread: uniform or exp, such as 50us or 1ms:exp",
            parse_jitter,
        )?
        .unwrap_or((default.jitter.time_ns, default.jitter.spread));
    let overtake = options.switch("jitter_reorder")?.unwrap_or(default.jitter.overtake);
    let (burst_loss, burst_length) = options
        .get(
            "burst_loss",
            "a ratio from 0 to 0.5 or a percentage, and the mean length of a burst, 1 to 65536, such as 0.01:8 or 1%:8",
            parse_bursts,
        )?
        .unwrap_or((default.burst_loss, default.burst_length));
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
    let outage = options.get(
        "outage",
        "two times from 0 to 60s after the first packet, from which and until which all are lost, such as 2s-2.5s",
        parse_outage,
    )?;
    let mut buffers = default.buffers;
    if capacity.is_some() {
        // Each packet in the queue has its buffer, and there must be others left to send.
        buffers.frames = buffers.frames.max(queue.unwrap_or(default.queue) + SPARE);
    }
    let config = LoopConfig {
        capacity,
        queue: queue.unwrap_or(default.queue),
        delay_ns: delay.unwrap_or(default.delay_ns),
        jitter: Jitter {
            time_ns,
            spread,
            overtake,
        },
        burst_loss,
        burst_length,
        loss,
        outage,
        duplicate,
        reorder,
        reorder_distance: options
            .number("reorder_distance", 1..=65536)?
            .map_or(default.reorder_distance, |n| n as u32),
        corrupt,
        tagged: false,
        seed: options.number("seed", 0..=u64::MAX)?.unwrap_or(default.seed),
        reflect: options.switch("reflect")?.unwrap_or(default.reflect),
        buffers: NullConfig::take(&mut options, buffers)?,
    };
    options.finish()?;
    check_together(spec, &config, queue)?;
    Ok(config)
}

/// Refuses options that contradict each other or have no effect. `queue`: the length that the user gave.
fn check_together(spec: &PortSpec, config: &LoopConfig, queue: Option<usize>) -> Result<(), SpecError> {
    let refuse = |line: String| Err(SpecError(format!("port '{spec}': {line}")));
    let sum = config.loss + config.duplicate + config.reorder + config.corrupt;
    // Ten decimal ratios that a user takes to sum to 1 may miss it by a rounding.
    if sum > 1.0 + 1e-9 {
        return refuse(format!(
            "loss, duplicate, reorder and corrupt sum to {sum}: want 1 at the most, for a frame meets one of them"
        ));
    }
    if let (Some(queue), None) = (queue, config.capacity) {
        return refuse(format!(
            "queue={queue}: want capacity= beside it: without one nothing waits"
        ));
    }
    if config.capacity.is_some() && config.buffers.frames <= config.queue {
        let (frames, queue) = (config.buffers.frames, config.queue);
        return refuse(format!(
            "frames={frames}: want more than queue={queue}: each packet in the queue has its buffer"
        ));
    }
    if matches!(config.capacity, Some(Capacity::Bits(_))) && config.buffers.layer == Layer::Payload {
        return refuse("layer=payload: want capacity= in packets: a payload has no size on layer 1".to_owned());
    }
    if config.jitter.overtake && config.jitter.time_ns == 0 {
        return refuse("jitter_reorder=on: want jitter= beside it: without it nothing overtakes".to_owned());
    }
    if config.jitter.overtake && config.reorder > 0.0 {
        return refuse("jitter_reorder=on: want no reorder= beside it: each reorders in its own way".to_owned());
    }
    Ok(())
}

/// A time, and how jitter of that time is spread.
fn parse_jitter(text: &str) -> Option<(u64, Spread)> {
    let (time, spread) = text.split_once(':').unwrap_or((text, "uniform"));
    let spread = match spread {
        "uniform" => Spread::Uniform,
        "exp" => Spread::Exponential,
        _ => return None,
    };
    Some((nanoseconds(time)?, spread))
}

/// Two times, the first before the second.
fn parse_outage(text: &str) -> Option<(u64, u64)> {
    let (from, to) = text.split_once('-')?;
    let (from, to) = (nanoseconds(from)?, nanoseconds(to)?);
    (from < to).then_some((from, to))
}

/// A ratio and the mean length of bursts.
fn parse_bursts(text: &str) -> Option<(f64, u32)> {
    let (ratio, length) = text.split_once(':')?;
    let ratio = parse_ratio(ratio).filter(|ratio| *ratio <= 0.5)?;
    let length = length.parse().ok().filter(|length| (1..=65536).contains(length))?;
    Some((ratio, length))
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
