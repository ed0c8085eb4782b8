//! The arguments of test methods.

use super::rate::RateParser;
use super::values::{self, Parsed};
use super::{RateText, Traffic};
use clap::{Arg, Args};
use mpps_method::{Goal, Ratio};
use std::path::PathBuf;
use std::time::Duration;

/// `ndr`.
#[derive(Args, Debug, Clone)]
pub(crate) struct Ndr {
    #[command(flatten)]
    pub(crate) traffic: Traffic,
    /// What to search for; may be given more than once, and all are found in one search: loss=0.5%, or a preset
    /// (rfc2544, tst009, csit), and after a comma what differs from it: exceed=50%, width=0.5%, initial=1s, final=1s,
    /// sum=21s [default: csit,loss=0 and csit,loss=0.5%]
    #[arg(long, value_name = "GOAL", value_parser = goal)]
    pub(crate) goal: Vec<Goal>,
    /// Duration sums of 5 s at the most, and bounds 2 % apart: an estimate within a minute
    #[arg(long)]
    pub(crate) quick: bool,
    /// Lowest rate to try [default: a thousandth of the highest]
    #[arg(long, value_name = "RATE", value_parser = RateParser, allow_hyphen_values = true)]
    pub(crate) min_rate: Option<RateText>,
    /// Highest rate to try [default: what this host can send on the port, measured first, or 99.98 % of the link's]
    #[arg(long, value_name = "RATE", value_parser = RateParser, allow_hyphen_values = true)]
    pub(crate) max_rate: Option<RateText>,
    /// How long all trials together may take, without settling and pauses
    #[arg(
        long, value_name = "TIME", default_value = "20m", value_parser = values::duration, allow_hyphen_values = true
    )]
    pub(crate) search_time: Duration,
    /// Pause between two trials, beside the settle time
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = values::duration, allow_hyphen_values = true)]
    pub(crate) pause: Duration,
    /// Folder for the record of trials (trials.jsonl, a line when each ends), result.json and report.md
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Go on with the search whose record is in the folder of --out
    #[arg(long)]
    pub(crate) resume: bool,
}

/// Hides from the help of a method what it chooses itself, and what it has no rows for.
pub(super) fn chosen_by_method(arg: Arg) -> Arg {
    let hidden = [
        "rate",
        "then",
        "duration",
        "interval",
        "csv",
        "json",
        "hdr",
        "verbose",
        "plain",
        "print_plan",
        "tolerance",
    ];
    let hide = hidden.contains(&arg.get_id().as_str());
    match arg.get_id().as_str() {
        "settle" => arg.default_value("200ms"),
        // What a lane makes up for at once is a burst, which a device with a short queue loses.
        "catch_up" => arg.default_value("1ms"),
        _ => arg.hide(hide),
    }
}

/// Reads `loss=0.5%,width=1%` or `rfc2544,final=10s,sum=10s`.
fn goal(text: &str) -> Parsed<Goal> {
    let mut goal = Goal::csit(Ratio::ZERO);
    for (place, word) in text.split(',').enumerate() {
        let Some((key, value)) = word.split_once('=') else {
            goal = match word {
                "rfc2544" if place == 0 => Goal::RFC2544,
                "tst009" if place == 0 => Goal::TST009,
                "csit" if place == 0 => Goal::csit(Ratio::ZERO),
                _ => {
                    return Err(format!(
                        "'{word}': want rfc2544, tst009 or csit first, or KEY=VALUE with loss, exceed, width, initial, \
                         final or sum"
                    ));
                }
            };
            continue;
        };
        let share = || -> Parsed<Ratio> {
            let share = values::ratio(value).map_err(|want| format!("{key}={value}: {want}"))?;
            Ratio::of_share(share).ok_or_else(|| format!("{key}={value}: want a share from 0 to below 1, such as 0.5%"))
        };
        let time = || -> Parsed<u64> {
            let time = values::duration(value).map_err(|want| format!("{key}={value}: {want}"))?;
            match time.as_nanos() as u64 {
                0 => Err(format!("{key}={value}: want a time above 0")),
                ns => Ok(ns),
            }
        };
        match key {
            "loss" => {
                goal.loss = share()?;
                if goal.loss.share() > 0.1 && !value.ends_with('%') {
                    return Err(format!(
                        "loss={value}: that is {}: want {value}% or {}",
                        goal.loss, goal.loss
                    ));
                }
            }
            "exceed" => goal.exceed = share()?,
            "width" => goal.width = share()?.share(),
            "initial" => goal.initial_ns = time()?,
            "final" => {
                goal.final_ns = time()?;
                // Unless said otherwise, no trial is longer than a full one.
                goal.initial_ns = goal.initial_ns.min(goal.final_ns);
                goal.sum_ns = goal.sum_ns.max(goal.final_ns);
            }
            "sum" => goal.sum_ns = time()?,
            _ => return Err(format!("{key}=: want loss, exceed, width, initial, final or sum")),
        }
    }
    goal.check()
        .map_err(|why| format!("{why}: want initial <= final <= sum, and a width above 0"))?;
    Ok(goal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_read_with_what_they_leave_open() {
        let half = Ratio::of_share(0.005).unwrap();
        assert_eq!(goal("loss=0").unwrap(), Goal::csit(Ratio::ZERO));
        assert_eq!(goal("loss=0.5%").unwrap(), Goal::csit(half));
        assert_eq!(goal("csit,loss=0.005").unwrap(), Goal::csit(half));
        assert_eq!(goal("tst009").unwrap(), Goal::TST009);
        let short = goal("rfc2544,final=10s,sum=10s,width=1%").unwrap();
        assert_eq!((short.final_ns, short.initial_ns), (10_000_000_000, 10_000_000_000));
        assert_eq!((short.exceed, short.width), (Ratio::ZERO, 0.01));
    }

    #[test]
    fn goals_that_can_t_be_are_refused_by_name() {
        for (text, part) in [
            ("loss", "'loss': want rfc2544"),
            ("loss=100%", "loss=100%: want"),
            ("loss=-1", "loss=-1: "),
            ("loss=0.5", "that is 50 %: want 0.5%"),
            ("loss=0,csit", "'csit': want"),
            ("speed=1", "speed=: want"),
            ("final=0s", "final=0s: want a time above 0"),
            ("csit,sum=500ms", "the duration sum is below"),
            ("width=0", "the width must be above 0"),
            ("", "'': want"),
        ] {
            let refused = goal(text).unwrap_err();
            assert!(refused.contains(part), "{text}: {refused}");
        }
    }
}
