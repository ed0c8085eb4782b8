//! Searches simulated devices for their highest rates, as `bench/peers/mlrsearch` does with another program.
//!
//! `simulate DEVICE SEEDS` prints a line per seed: trials, their duration in s, and for each goal (no loss, 0.5 %) the
//! lower and the upper bound.

mod device;

use device::{DEVICES, Random, measure};
use mpps_methods::search::{Goal, Limits, Next, Ratio, Search};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [name, seeds] = &words[..] else {
        return Err("want: simulate DEVICE SEEDS".into());
    };
    let (_, device) = DEVICES
        .into_iter()
        .find(|(known, _)| known == name)
        .ok_or("no such device")?;
    let goals = [Ratio::ZERO, Ratio::of_share(0.005).ok_or("no share")?].map(Goal::csit);
    let limits = Limits {
        min: 1_000,
        max: 10_000_000,
    };
    let search = Search::new(goals.to_vec(), limits, u64::MAX)?;
    for seed in 0..seeds.parse()? {
        let (mut random, mut trials) = (Random(seed), Vec::new());
        while let Next::Trial(input) = search.next(&trials) {
            trials.push(measure(device, input, &mut random));
        }
        let took: u64 = trials.iter().map(|trial| trial.effective_ns).sum();
        print!("{} {:.3}", trials.len(), took as f64 / 1e9);
        for outcome in search.results(&trials) {
            let [lower, upper] = [outcome.bounds.lower, outcome.bounds.upper].map(Option::unwrap_or_default);
            print!(" {lower} {upper}");
        }
        println!();
    }
    Ok(())
}
