//! The arguments of `compare`.

use super::values::{self, Parsed};
use clap::Args;
use mpps_methods::compare::{Metric, Setting};
use mpps_methods::statistics::MOST_ROUNDS;
use std::path::PathBuf;
use std::time::Duration;

/// `compare`.
#[derive(Args, Debug, Clone)]
pub(crate) struct Compare {
    /// Each in one word: a run as it is typed, quoted ('sendrecv udp:10.99.0.1 --dest …'), or a file with a plan
    /// (--print-plan); or else results of earlier runs (--json): a file, several with commas between, or a folder of
    /// them. All but the first are compared with the first
    #[arg(value_name = "RUN|FILE", required = true)]
    pub(crate) operands: Vec<String>,
    /// Number of runs of each, in turns: 1 to 200; fewer than 6 give values without a verdict [default: 8]
    #[arg(long, value_name = "N", value_parser = rounds, allow_hyphen_values = true)]
    pub(crate) rounds: Option<usize>,
    /// Pause between two runs [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = values::duration, allow_hyphen_values = true)]
    pub(crate) pause: Option<Duration>,
    /// Quantity to compare: received_pps, offered_pps, loss, mean, p50, p90, p99, p999 or max (latency), of a stream or
    /// group p99(gold); may be given more than once, the first decides which setting is best [default: received_pps,
    /// and p99 where all runs have a --rate; send, reflect and forward: offered_pps]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = Metric::parse)]
    pub(crate) metric: Vec<Metric>,
    /// Difference that does not matter
    #[arg(long, value_name = "RATIO", default_value = "2%", value_parser = margin, allow_hyphen_values = true)]
    pub(crate) margin: f64,
    /// Number of times that a run that is not valid is repeated, 0 to 10 [default: 2]
    #[arg(long, value_name = "N", value_parser = retries, allow_hyphen_values = true)]
    pub(crate) retries: Option<usize>,
    /// Values of an option of the command, or else of its port, KEY=VALUE|VALUE…, quoted: one run is then run with
    /// each; given more than once, with each combination
    #[arg(long, value_name = "SETTING", value_parser = Setting::parse)]
    pub(crate) settings: Vec<Setting>,
    /// Compare what differs in more than it should: results of other hosts, kernels, versions or paths, and other frame
    /// sizes or workloads
    #[arg(long)]
    pub(crate) force: bool,
    /// Seed of the interval of earlier results (bootstrap)
    #[arg(long, value_name = "N", default_value_t = 1, allow_hyphen_values = true)]
    pub(crate) seed: u64,
    /// Folder for the record of runs (trials.jsonl, a line when each ends) and result.json
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Go on with the comparison whose record is in the folder of --out; with more --rounds than before, too
    #[arg(long)]
    pub(crate) resume: bool,
    /// No line per run
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// A whole number from `least` to `most`.
fn count(text: &str, least: usize, most: usize) -> Parsed<usize> {
    match text.parse() {
        Ok(n) if (least..=most).contains(&n) => Ok(n),
        _ => Err(format!("want a whole number from {least} to {most}")),
    }
}

fn rounds(text: &str) -> Parsed<usize> {
    count(text, 1, MOST_ROUNDS)
}

fn retries(text: &str) -> Parsed<usize> {
    count(text, 0, 10)
}

fn margin(text: &str) -> Parsed<f64> {
    match values::ratio(text) {
        Ok(margin) if margin > 0.0 && margin < 1.0 => Ok(margin),
        _ => Err("want a ratio above 0 and below 1, such as 2% or 0.02".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_margin_is_a_part_of_one() {
        assert_eq!(margin("2%"), Ok(0.02));
        for text in ["0", "2", "100%", "-1", ""] {
            assert!(margin(text).is_err(), "{text}");
        }
    }
}
