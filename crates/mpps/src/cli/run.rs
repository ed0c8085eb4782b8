//! The arguments that every run takes, and those of one that is repeated.

use super::fields::PlanArgs;
use super::traffic_file::TrafficFile;
use super::values;
use super::{Keep, Serve};
use clap::Args;
use mpps_plan::{Plan, Workload};
use mpps_report::Expect;
use mpps_run::sample::SamplePcap;
use mpps_run::{Beside, Run};
use std::path::PathBuf;

/// Arguments of every run: the plan, and the destinations of results.
#[derive(Args, Debug, Clone)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    fields: PlanArgs,
    #[command(flatten)]
    pub(crate) tell: Tell,
    /// Take options from a TOML file, each a line KEY = VALUE whose key is the long option without its hyphens: rate =
    /// "1Mpps", expect = ["loss<0.01%"], busy-poll = true; an option that is typed wins
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print the plan of the run as JSON, with every default filled in, and exit; `mpps run FILE` repeats it
    #[arg(long)]
    pub(crate) print_plan: bool,
    /// Request that these arguments make.
    #[arg(skip = Run::of(Plan::new(Workload::Sendrecv)))]
    pub(crate) run: Run,
}

impl RunArgs {
    /// Creates the arguments for a plan from a file.
    pub(crate) fn of(plan: Plan, tell: Tell, print_plan: bool) -> Self {
        let mut args = Self {
            fields: PlanArgs::default(),
            tell,
            config: None,
            print_plan,
            run: Run::of(plan),
        };
        args.run.beside = args.tell.beside();
        args
    }

    /// Returns whether the run has results of streams.
    pub(crate) fn has_streams(&self) -> bool {
        let plan = &self.run.plan;
        let taken = plan.selection.streams.as_ref();
        plan.traffic.streams.is_some()
            || plan.workload == Workload::Drop && taken.is_some_and(|streams| !streams.is_one_packet())
    }

    /// Returns the traffic file that the plan's streams are from, if they are from one.
    pub(crate) fn traffic_file(&self) -> Option<&TrafficFile> {
        self.fields.traffic.as_ref()
    }
}

/// Destinations of results; none by default.
#[derive(Args, Debug, Default, Clone)]
pub(crate) struct Tell {
    /// Folder to make for all results: result.json (as of --json), report.html, report.md, rows.csv (--csv), lanes.csv,
    /// streams.csv of a run with streams, events.jsonl (--json-lines), junit.xml, and of sendrecv latency.hlog (--hdr);
    /// what an option of its own names goes there instead
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write one row per interval to FILE ('-': standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write one row per lane and interval (of 100 ms, or of --interval where that is longer) to FILE ('-': standard
    /// output): packets, receive calls, busy time; not on xdp
    #[arg(long, value_name = "FILE")]
    pub(crate) lanes_csv: Option<PathBuf>,
    /// Write one row per stream, group and size and interval (of 100 ms, or of --interval where that is longer) to FILE
    /// ('-': standard output), of a run with --traffic (not reflect), of sendrecv and send with --packet as well
    #[arg(long, value_name = "FILE")]
    pub(crate) streams_csv: Option<PathBuf>,
    /// Write the summary to FILE ('-': standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write what happens, as it happens, to FILE ('-': standard output), a JSON object a line: start, row (as in the
    /// CSV), note, and last end (the summary) or error
    #[arg(long, value_name = "FILE")]
    pub(crate) json_lines: Option<PathBuf>,
    /// Demand on the run, such as 'loss<0.01%', 'p99<200us', 'received>=1Mpps'; several may be given. Exit code
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
    #[arg(long, value_name = "HZ", value_parser = hz, allow_hyphen_values = true)]
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

impl Tell {
    /// Returns the settings that the run itself needs.
    pub(crate) fn beside(&self) -> Beside {
        Beside {
            trace: self.keep.trace(),
            sample: self.sample_pcap.clone(),
            lanes_csv: self.lanes_csv.is_some(),
            profile_hz: self.profile,
            keep_privileges: self.keep_privileges,
        }
    }

    /// Returns all files to write.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let given = [
            &self.out,
            &self.csv,
            &self.lanes_csv,
            &self.streams_csv,
            &self.json,
            &self.json_lines,
            &self.junit,
            &self.markdown,
            &self.hdr,
            &self.flame,
            &self.folded,
            &self.keep.trace,
            &self.serve.prom,
        ];
        let sample = self.sample_pcap.iter().map(|sample| &sample.file);
        given.into_iter().flatten().chain(sample).cloned().collect()
    }
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

/// Parses a number of samples per second.
fn hz(text: &str) -> values::Parsed<u32> {
    values::whole(text, mpps_profile::HZ)
}
