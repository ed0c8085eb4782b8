//! The arguments that every run takes, and those of one that is repeated.

use super::values::{self, Cores};
use super::{Keep, Serve};
use crate::plan::value::Plan;
use crate::sample::SamplePcap;
use clap::Args;
use mpps_report::Expect;
use std::path::PathBuf;
use std::time::Duration;

/// What every run takes.
#[derive(Args, Debug, Clone)]
pub(crate) struct Run {
    /// How long to run: a number with us, ms, s, m or h; 0: until interrupted [default: 10s; drop, reflect,
    /// forward and capture: until interrupted]
    #[arg(long, value_name = "TIME", value_parser = values::duration, allow_hyphen_values = true)]
    pub(crate) duration: Option<Duration>,
    /// Length of one row of the time series, 100us to 1h
    #[arg(
        long, value_name = "TIME", default_value = "100ms", value_parser = values::interval,
        allow_hyphen_values = true
    )]
    pub(crate) interval: Duration,
    /// Lanes: threads, each with its own queue; on xdp, sending threads, each with its own core [default: 1]
    #[arg(long, value_name = "N", value_parser = values::lanes, allow_hyphen_values = true)]
    pub(crate) lanes: Option<usize>,
    /// Cores to pin the lanes to, in order: 0,2-3 [default: not pinned; xdp: the last ones]
    #[arg(long, value_name = "LIST", value_parser = values::cores)]
    pub(crate) cores: Option<Cores>,
    /// Most frames moved in one call, 1 to 256; not on xdp [default: by path]
    #[arg(long, value_name = "N", value_parser = values::burst, allow_hyphen_values = true)]
    pub(crate) burst: Option<usize>,
    /// Never sleep, even when idle: for cores that nothing else uses; not on xdp
    #[arg(long)]
    pub(crate) busy_poll: bool,
    /// Nice value of the lanes' threads, -20 to 19: below 0 the scheduler takes the core from others for them (root)
    #[arg(
        long, value_name = "N", conflicts_with = "fifo", value_parser = values::nice, allow_hyphen_values = true
    )]
    pub(crate) nice: Option<i32>,
    /// Real-time priority of the lanes' threads, 1 to 99 (SCHED_FIFO; root): no other thread takes the core, but where
    /// one waits the kernel takes it for 50 ms of each second; not with --busy-poll, unless that is switched off
    #[arg(long, value_name = "PRIO", value_parser = values::fifo, allow_hyphen_values = true)]
    pub(crate) fifo: Option<u32>,
    /// Arguments for DPDK's environment abstraction layer, quoted as one: "--no-huge -m 512" (dpdk)
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub(crate) eal: Option<String>,
    /// Flow rule in testpmd's syntax, set on each port for the length of the run: "ingress pattern eth / ipv4 / udp /
    /// end actions queue index 0 / end"; may be given more than once (dpdk; ntuple filters on af_packet, af_xdp, xdp)
    #[arg(long, value_name = "RULE")]
    pub(crate) flow: Vec<String>,
    /// Seed of the payload data (both ends must agree) and of random gaps
    #[arg(long, value_name = "N", default_value_t = 1, allow_hyphen_values = true)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) tell: Tell,
    /// Take options from a TOML file, each a line KEY = VALUE whose key is the long option without its hyphens: rate =
    /// "1Mpps", expect = ["loss<0.01%"], busy-poll = true; an option that is typed wins
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print the plan of the run as JSON, with every default filled in, and exit; `mpps run FILE` repeats it
    #[arg(long)]
    pub(crate) print_plan: bool,
    /// The run as a value.
    #[arg(skip)]
    pub(crate) plan: Plan,
}

/// What becomes of the results of a run.
#[derive(Args, Debug, Clone)]
pub(crate) struct Tell {
    /// Folder to make for all results: result.json (as of --json), report.html, report.md, rows.csv (--csv), lanes.csv,
    /// events.jsonl (--json-lines), junit.xml, and of sendrecv latency.hlog (--hdr); what an option of its own names
    /// goes there instead
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write one row per interval to FILE ('-': standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write one row per lane and interval (of 100 ms, or of --interval where that is longer) to FILE ('-': standard
    /// output): packets, receive calls, busy time; not on xdp
    #[arg(long, value_name = "FILE")]
    pub(crate) lanes_csv: Option<PathBuf>,
    /// Write the summary to FILE ('-': standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write what happens, as it happens, to FILE ('-': standard output), a JSON object a line: start, row (as in the
    /// CSV), note, and last end (the summary) or error
    #[arg(long, value_name = "FILE")]
    pub(crate) json_lines: Option<PathBuf>,
    /// What the run must reach, such as 'loss<0.01%', 'p99<200us', 'received>=1Mpps'; several may be given. Exit code
    /// 4: done and valid, but not reached
    #[arg(long, value_name = "NAME OP VALUE", value_parser = Expect::parse)]
    pub(crate) expect: Vec<Expect>,
    /// Write the verdict, and each --expect, to FILE ('-': standard output) as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Write the result as Markdown to FILE ('-': standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Write an HdrHistogram log of the latency to FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) hdr: Option<PathBuf>,
    /// Keep one of every N frames (1000 by default) that each lane receives, and of those that it sends, with times and
    /// directions, in FILE as pcapng, which may be read meanwhile ('-': standard output, for a pipe: | tcpdump -r -);
    /// ,snap=BYTES keeps at most so much of each; not on xdp
    #[arg(long, value_name = "FILE[,n=N]", value_parser = SamplePcap::parse, allow_hyphen_values = true)]
    pub(crate) sample_pcap: Option<SamplePcap>,
    #[command(flatten)]
    pub(crate) serve: Serve,
    #[command(flatten)]
    pub(crate) keep: Keep,
    /// Sample where the lanes are, HZ times a second of their running, 1 to 20000 (997 costs 1 to 2 %), with the names
    /// of functions, for --flame or --folded
    #[arg(long, value_name = "HZ", value_parser = values::hz, allow_hyphen_values = true)]
    pub(crate) profile: Option<u32>,
    /// Draw the samples as a flame graph (SVG) into FILE ('-': standard output)
    #[arg(long, value_name = "FILE", requires = "profile")]
    pub(crate) flame: Option<PathBuf>,
    /// Write the samples as folded stacks, a line each, to FILE ('-': standard output)
    #[arg(long, value_name = "FILE", requires = "profile")]
    pub(crate) folded: Option<PathBuf>,
    /// No live view and no summary
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Add to the summary each lane, where times were taken, and host and device (the JSON has all of it)
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// Lines instead of the full-screen view, on a terminal too
    #[arg(long)]
    pub(crate) plain: bool,
    /// Keep all privileges for the whole run; under sudo stay root, for files too [default: give up what is no longer
    /// needed before the first packet; `mpps doctor` says what stays]
    #[arg(long)]
    pub(crate) keep_privileges: bool,
}

/// `run`.
#[derive(Args, Debug, Clone)]
pub(crate) struct Again {
    /// The plan, or a result that holds it ('-': standard input)
    #[arg(value_name = "PLAN", required_unless_present = "schema")]
    pub(crate) file: Option<PathBuf>,
    /// Print the JSON Schema of plans, and exit
    #[arg(long)]
    pub(crate) schema: bool,
    #[command(flatten)]
    pub(crate) tell: Tell,
    /// Print the plan, with every default filled in, and exit
    #[arg(long)]
    pub(crate) print_plan: bool,
}
