//! Simulated devices of known truth; `bench/peers/mlrsearch/peer.py` has the same.

use mpps_methods::search::{Input, Trial, Verdict};

/// What the devices forward, packets per second.
pub(crate) const TRUTH: f64 = 1e6;

/// Numbers that a seed determines (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// At least 0, below 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A device, by what it forwards in a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Device {
    /// Always the same rate.
    Hard,
    /// From trial to trial up to 1 % less or more.
    Jittered,
    /// As hard, but in some seconds (this share of them) it loses 50 packets, whatever the load.
    Bursty(f64),
    /// In one trial of five 5 % less.
    Bimodal,
}

/// Each kind, by name.
pub(crate) const DEVICES: [(&str, Device); 4] = [
    ("hard", Device::Hard),
    ("jittered", Device::Jittered),
    ("bursty", Device::Bursty(0.02)),
    ("bimodal", Device::Bimodal),
];

/// Runs a trial.
pub(crate) fn measure(device: Device, input: Input, random: &mut Random) -> Trial {
    let seconds = input.duration_ns as f64 / 1e9;
    let due = (input.load as f64 * seconds).ceil() as u64;
    let (rate, burst) = match device {
        Device::Hard => (TRUTH, 0),
        Device::Jittered => (TRUTH * (0.99 + 0.02 * random.share()), 0),
        Device::Bursty(odds) => {
            let bursts = (0..seconds.ceil() as u64).filter(|_| random.share() < odds).count();
            (TRUTH, 50 * bursts as u64)
        }
        Device::Bimodal => (TRUTH * if random.share() < 0.2 { 0.95 } else { 1.0 }, 0),
    };
    let forwarded = due.saturating_sub(burst).min((rate * seconds) as u64);
    Trial {
        input,
        effective_ns: input.duration_ns,
        verdict: Verdict::Counted {
            due,
            missing: due - forwarded,
        },
        streams: Vec::new(),
    }
}
