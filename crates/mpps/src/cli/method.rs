//! The arguments of test methods.

use super::rate::RateParser;
use super::values::{self, Parsed};
use super::{RateText, Traffic};
use clap::{Arg, Args};
use mpps_methods::search::{Goal, Ratio};
use mpps_report::name_of_stream;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of all methods.
#[derive(Args, Debug, Clone)]
pub(crate) struct Method {
    /// Lowest rate to try [default: a thousandth of the highest]
    #[arg(long, value_name = "RATE", value_parser = RateParser, allow_hyphen_values = true)]
    pub(crate) min_rate: Option<RateText>,
    /// Highest rate to try [default: what this host can send on the port, measured first, or 99.98 % of the link's]
    #[arg(long, value_name = "RATE", value_parser = RateParser, allow_hyphen_values = true)]
    pub(crate) max_rate: Option<RateText>,
    /// Pause between two trials, beside the settle time [default: ndr: 0s; rfc2544: 1s, 5s with --strict, 0s with
    /// --quick; overload: 1s, 0s with --quick]
    #[arg(long, value_name = "TIME", value_parser = values::duration, allow_hyphen_values = true)]
    pub(crate) pause: Option<Duration>,
    /// Go on with the test whose record is in the folder of --out
    #[arg(long)]
    pub(crate) resume: bool,
    /// Text file about the device under test, for the report: its name, version and configuration (RFC 2544, 7)
    #[arg(long, value_name = "FILE")]
    pub(crate) dut_note: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) traffic: Traffic,
    /// --settle is on the command line, and no default.
    #[arg(skip)]
    pub(crate) settle_given: bool,
    /// So is --tolerance.
    #[arg(skip)]
    pub(crate) tolerance_given: bool,
}

/// `ndr`.
#[derive(Args, Debug, Clone)]
pub(crate) struct Ndr {
    /// Goal of the search; may be given more than once, and all are found in one search: loss=0.5%, or a preset
    /// (rfc2544, tst009, csit), and after a comma what differs from it: exceed=50%, width=0.5%, initial=1s, final=1s,
    /// sum=21s; loss(gold)=0 is the loss of the stream or group gold [default: csit,loss=0 and csit,loss=0.5%]
    #[arg(long, value_name = "GOAL", value_parser = goal)]
    pub(crate) goal: Vec<Goal>,
    /// Duration sums of 5 s at the most, and bounds 2 % apart: an estimate within a minute
    #[arg(long)]
    pub(crate) quick: bool,
    /// Longest time of all trials together, void ones and the waits after those too, without settling and pauses
    #[arg(
        long, value_name = "TIME", default_value = "20m", value_parser = values::duration, allow_hyphen_values = true
    )]
    pub(crate) search_time: Duration,
    #[command(flatten)]
    pub(crate) method: Method,
}

/// `overload`.
#[derive(Args, Debug, Clone)]
pub(crate) struct Overload {
    /// The load that 100 % is [default: the highest rate without loss, searched for first]
    #[arg(long, value_name = "RATE", value_parser = RateParser, allow_hyphen_values = true)]
    pub(crate) reference: Option<RateText>,
    /// Length of a trial, 100ms to 1h [default: 30s; --quick: 1s]
    #[arg(long, value_name = "TIME", value_parser = values::duration, allow_hyphen_values = true)]
    pub(crate) trial: Option<Duration>,
    /// Number of passes through all loads, rising and falling [default: 3; --quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100), allow_hyphen_values = true)]
    pub(crate) rounds: Option<u32>,
    /// Short trials, one round: a minute or two
    #[arg(long)]
    pub(crate) quick: bool,
    /// Lanes of the device: the file that mpps forward or mpps reflect on this host writes meanwhile, started with
    /// --lanes-csv FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) device: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) method: Method,
}

/// The tests of RFC 2544.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Rfc2544Test {
    /// Highest rate without loss, by frame size (26.1)
    Throughput,
    /// Latency at that rate (26.2)
    Latency,
    /// Loss by load (26.3)
    Loss,
    /// Longest burst at the highest rate without loss (26.4, RFC 9004)
    BackToBack,
    /// Time until nothing is lost after an overload (26.5)
    Recovery,
    /// Time without traffic at a reset of the device (26.6, RFC 6201)
    Reset,
    /// All of them; reset only with --reset-cmd
    All,
}

/// Which trials find the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SearchBy {
    /// MLRsearch (RFC 9971)
    Mlrsearch,
    /// Halving between 0 and the highest rate, as other tools do
    Binary,
}

/// `rfc2544`.
#[derive(Args, Debug, Clone)]
pub(crate) struct Rfc2544 {
    /// Which test
    #[arg(value_enum, value_name = "TEST")]
    pub(crate) test: Rfc2544Test,
    /// Frame sizes with FCS, bytes [default: 64,128,256,512,1024,1280,1518; --quick: 64,512,1518]
    #[arg(
        long = "frame-sizes", visible_alias = "sizes", value_name = "BYTES,…", value_delimiter = ',',
        value_parser = values::frame_size
    )]
    pub(crate) sizes: Vec<usize>,
    /// The RFC's times: hours for all tests of all sizes
    #[arg(long, conflicts_with = "quick")]
    pub(crate) strict: bool,
    /// Short trials and three sizes: minutes, and not RFC 2544
    #[arg(long)]
    pub(crate) quick: bool,
    /// Length of full trials [default: throughput and recovery 60s, latency 10s, loss 10s; --strict: 60s, latency 120s;
    /// --quick: 1s, throughput, latency and recovery 2s]
    #[arg(long, value_name = "TIME", value_parser = values::duration, allow_hyphen_values = true)]
    pub(crate) trial: Option<Duration>,
    /// Length of the first trials of a search [default: 5s, at most a full one; --strict: 60s; --quick: 1s]
    #[arg(long, value_name = "TIME", value_parser = values::duration, allow_hyphen_values = true)]
    pub(crate) first_trial: Option<Duration>,
    /// Largest distance of the two ends of a throughput, as a share of it [default: 0.5%; --strict: 0.1%; --quick: 1%]
    #[arg(long, value_name = "RATIO", value_parser = values::ratio, allow_hyphen_values = true)]
    pub(crate) resolution: Option<f64>,
    /// Share of the packets that may be lost: above 0 the result is no throughput by RFC 1242, and is named otherwise
    #[arg(long, value_name = "RATIO", default_value = "0", value_parser = loss, allow_hyphen_values = true)]
    pub(crate) loss: Ratio,
    /// throughput: a search more for each of these, of the shortest pause between bursts of so many frames back to back
    /// (RFC 2544, 21: 16,64,256,1024)
    #[arg(long, value_name = "FRAMES,…", value_delimiter = ',', value_parser = values::burst_frames)]
    pub(crate) bursts: Vec<u32>,
    /// Which trials find the throughput
    #[arg(long, value_enum, value_name = "HOW", default_value = "mlrsearch")]
    pub(crate) search: SearchBy,
    /// Longest time of the trials of one search together, void ones and the waits after those too, without settling and
    /// pauses
    #[arg(
        long, value_name = "TIME", default_value = "2h", value_parser = values::duration, allow_hyphen_values = true
    )]
    pub(crate) search_time: Duration,
    /// loss: how far apart loads are, of the highest: 10 % at the most
    #[arg(long, value_name = "RATIO", default_value = "10%", value_parser = step, allow_hyphen_values = true)]
    pub(crate) step_by: f64,
    /// latency: at which share of the throughput
    #[arg(long, value_name = "RATIO", default_value = "100%", value_parser = share, allow_hyphen_values = true)]
    pub(crate) at: f64,
    /// Number of measurements of latency, back-to-back, recovery and reset [default: 20, recovery and reset 3;
    /// --strict: 20, back-to-back 50; --quick: 3, recovery and reset 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), allow_hyphen_values = true)]
    pub(crate) repeats: Option<u32>,
    /// back-to-back: longest burst, as the time that sending it takes
    #[arg(
        long, value_name = "TIME", default_value = "30s", value_parser = values::duration, allow_hyphen_values = true
    )]
    pub(crate) longest_burst: Duration,
    /// reset: command that resets the device, run by the shell 3 s after the start of a trial, with the rights that
    /// mpps was started with (under sudo root's)
    #[arg(long, value_name = "COMMAND")]
    pub(crate) reset_cmd: Option<String>,
    #[command(flatten)]
    pub(crate) method: Method,
}

/// A share that may be lost.
fn loss(text: &str) -> Parsed<Ratio> {
    Ratio::of_share(values::share(text)?)
        .filter(|share| share.share() <= 0.1)
        .ok_or_else(|| "want a share from 0 to 10%, such as 0.5%".to_owned())
}

/// The distance of two loads.
fn step(text: &str) -> Parsed<f64> {
    Some(values::ratio(text)?)
        .filter(|share| (0.001..=0.1).contains(share))
        .ok_or_else(|| "want a share from 0.1% to 10%".to_owned())
}

/// A share of a rate.
fn share(text: &str) -> Parsed<f64> {
    Some(values::ratio(text)?)
        .filter(|share| (0.001..=1.0).contains(share))
        .ok_or_else(|| "want a share from 0.1% to 100%".to_owned())
}

/// Help text of `--out` in a method.
const OUT: &str = "Folder for the record of trials (trials.jsonl, a line when each ends), result.json, report.html, \
                   report.md, junit.xml, and tables (CSV) and charts (SVG)";

/// `--expect` in a method.
const EXPECT: &str = "Demand on what the method finds, such as 'ndr>1Mpps': ndr, pdr (ndr); throughput, latency, \
                      loss, back_to_back, recovery, reset (rfc2544); mfr, frmol (overload); several may be given. \
                      Exit code 4: done and valid, but not reached";

/// Hides from the help of a method what it chooses itself, and what it has no rows for.
pub(super) fn chosen_by_method(arg: Arg) -> Arg {
    let hidden = [
        "rate",
        "scale",
        "then",
        "count",
        "duration",
        "interval",
        "csv",
        "lanes_csv",
        "streams_csv",
        "json",
        "json_lines",
        "markdown",
        "hdr",
        "sample_pcap",
        "trace",
        "trace_on",
        "trace_window",
        "trace_all",
        "trace_memory",
        "profile",
        "flame",
        "folded",
        "verbose",
        "print_plan",
        "tolerance",
        "settle-early",
    ];
    let hide = hidden.contains(&arg.get_id().as_str());
    match arg.get_id().as_str() {
        "out" => arg.help(OUT),
        "expect" => arg.help(EXPECT),
        "settle" => arg.default_value("200ms"),
        // What a lane makes up for at once is a burst, which a device with a short queue loses.
        "catch-up" => arg.default_value("1ms"),
        _ => arg.hide(hide),
    }
}

/// As [`chosen_by_method`], where a queue that is full takes a while to empty.
pub(super) fn chosen_by_overload(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "settle" => arg.hide_default_value(true).help(
            "How long a packet may take to come back; receiving goes on for this long at the end [default: 2s; \
             --quick: 200ms]",
        ),
        _ => chosen_by_method(arg),
    }
}

/// As [`chosen_by_method`], where there are several frame sizes and times to choose from.
pub(super) fn chosen_by_rfc2544(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "frame-size" | "payload-size" => arg.hide(true),
        "settle" => arg.hide_default_value(true).help(
            "How long a packet may take to come back; receiving goes on for this long at the end [default: 2s; \
             --quick: 200ms]",
        ),
        _ => chosen_by_method(arg),
    }
}

/// Reads `loss=0.5%,width=1%` or `rfc2544,final=10s,sum=10s`.
fn goal(text: &str) -> Parsed<Goal> {
    let mut goal = Goal::csit(Ratio::ZERO);
    let mut losses = 0;
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
            let share = values::share(value).map_err(|want| format!("{key}={value}: {want}"))?;
            Ratio::of_share(share).ok_or_else(|| format!("{key}={value}: want a share from 0 to below 1, such as 0.5%"))
        };
        let time = || -> Parsed<u64> {
            let time = values::duration(value).map_err(|want| format!("{key}={value}: {want}"))?;
            match time.as_nanos() as u64 {
                0 => Err(format!("{key}={value}: want a time above 0")),
                ns => Ok(ns),
            }
        };
        let (key, stream) = name_of_stream(key)?;
        if stream.is_some() && key != "loss" {
            return Err(format!(
                "{key}({}): want loss({0})=…: the rest is of the goal",
                stream.unwrap_or_default()
            ));
        }
        match key {
            "loss" => {
                losses += 1;
                if losses > 1 {
                    return Err(format!(
                        "{word}: a second loss: want one in each --goal, and --goal again"
                    ));
                }
                goal.loss = share()?;
                goal.stream = stream.map(str::to_owned);
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
        assert_eq!(goal("csit,loss=0.50%").unwrap(), Goal::csit(half));
        assert_eq!(goal("loss=0.0,exceed=0").unwrap().exceed, Ratio::ZERO);
        assert_eq!(goal("tst009").unwrap(), Goal::TST009);
        let gold = goal("tst009,loss(gold)=0.5%").unwrap();
        assert_eq!((gold.stream.as_deref(), gold.loss), (Some("gold"), half));
        let short = goal("rfc2544,final=10s,sum=10s,width=1%").unwrap();
        assert_eq!((short.final_ns, short.initial_ns), (10_000_000_000, 10_000_000_000));
        assert_eq!((short.exceed, short.width), (Ratio::ZERO, 0.01));
    }

    #[test]
    fn goals_that_can_t_be_are_refused_by_name() {
        for (text, part) in [
            ("loss", "'loss': want rfc2544"),
            ("loss(a)=0,loss(b)=0", "loss(b)=0: a second loss"),
            ("loss()=0", "want a stream or a group, such as loss(gold)"),
            ("width(gold)=1%", "width(gold): want loss(gold)="),
            ("loss=100%", "loss=100%: want"),
            ("loss=-1", "loss=-1: "),
            ("loss=0.5", "want its unit: 0.5%, or 50% if 0.5 is a part of one"),
            ("loss=0.1", "loss=0.1: want its unit: 0.1%, or 10% if"),
            ("csit,loss=0.005", "0.005%, or 0.5% if"),
            ("loss=0,exceed=0.07", "exceed=0.07: want its unit: 0.07%, or 7% if"),
            ("width=0.02", "width=0.02: want its unit"),
            ("loss=1", "loss=1: want its unit: 1%, or 100% if"),
            ("loss=5", "loss=5: want a share from 0 to 100%"),
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
