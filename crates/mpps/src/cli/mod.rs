//! The arguments, as the user writes them. What they mean is in [`crate::plan`].

mod capture;
mod compare;
mod forward;
mod isolate;
mod keep;
pub(crate) mod lab;
mod method;
mod rate;
mod trace;
pub(crate) mod values;

pub(crate) use capture::Capture;
pub(crate) use compare::{Compare, Metric, Setting};
pub(crate) use forward::{Forward, MOST_PORTS, Mode as ForwardMode, Take};
pub(crate) use isolate::Isolate;
pub(crate) use keep::Keep;
pub(crate) use method::{Method, Ndr, Overload, Rfc2544, Rfc2544Test, SearchBy};
pub(crate) use rate::{RateText, StepText};
pub(crate) use trace::{Peer, Show, Trace, TraceAction};

use crate::paths;
use crate::plan::value::Plan;
use clap::parser::ValueSource;
use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use mpps_engine::{OnFull, Pacing, Step};
use mpps_io::{AddressRange, PortSpec};
use mpps_wire::MacAddr;
use rate::RateParser;
use std::ffi::OsString;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;
use values::{Cores, Target};

/// Generates, reflects and measures packets, with numbers that can be trusted.
#[derive(Parser, Debug)]
#[command(name = "mpps", version, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Reads a command line; a run is given its plan.
    pub(crate) fn of(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let command = Self::command();
        let words = lab::named(&command, words.into_iter().collect());
        let matches = command.clone().try_get_matches_from(&words)?;
        let mut cli = Self::from_arg_matches(&matches)?;
        if let Some(run) = cli.command.run_mut() {
            run.plan = Plan::written(&command, &matches);
        }
        if let (Some(method), Some((_, given))) = (cli.command.method_mut(), matches.subcommand()) {
            let is_given = |id: &str| given.value_source(id) == Some(ValueSource::CommandLine);
            method.settle_given = is_given("settle");
            method.tolerance_given = is_given("tolerance");
        }
        if let Some(traffic) = cli.command.traffic_mut() {
            traffic.words = words;
        }
        Ok(cli)
    }
}

impl Command {
    /// What every run takes, of a command that is one.
    pub(crate) fn run_mut(&mut self) -> Option<&mut Run> {
        match self {
            Self::Sendrecv(args) | Self::Send(args) => Some(&mut args.run),
            Self::Drop(args) => Some(&mut args.run),
            Self::Reflect(args) => Some(&mut args.run),
            Self::Forward(args) => Some(&mut args.run),
            Self::Capture(args) => Some(&mut args.run),
            Self::Ndr(args) => Some(&mut args.method.traffic.run),
            Self::Rfc2544(args) => Some(&mut args.method.traffic.run),
            Self::Overload(args) => Some(&mut args.method.traffic.run),
            _ => None,
        }
    }

    /// What every method takes, of a command that is one.
    fn method_mut(&mut self) -> Option<&mut Method> {
        match self {
            Self::Ndr(args) => Some(&mut args.method),
            Self::Rfc2544(args) => Some(&mut args.method),
            Self::Overload(args) => Some(&mut args.method),
            _ => None,
        }
    }

    /// What a command that sends test traffic sends.
    fn traffic_mut(&mut self) -> Option<&mut Traffic> {
        match self {
            Self::Sendrecv(args) | Self::Send(args) => Some(args),
            _ => self.method_mut().map(|method| &mut method.traffic),
        }
    }

    /// The same, where a lab is to be made for it.
    pub(crate) fn in_lab(&self) -> Option<&Traffic> {
        let traffic = match self {
            Self::Sendrecv(args) | Self::Send(args) => args,
            Self::Ndr(args) => &args.method.traffic,
            Self::Rfc2544(args) => &args.method.traffic,
            Self::Overload(args) => &args.method.traffic,
            _ => return None,
        };
        traffic.lab.then_some(traffic)
    }
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Send stamped UDP packets, receive them back from a reflector, and measure rate, loss and latency
    #[command(after_help = paths::summary())]
    Sendrecv(Traffic),
    /// Send stamped UDP packets one way
    #[command(after_help = paths::summary(), mut_args(only_sends))]
    Send(Traffic),
    /// Receive, verify and count stamped packets: the other end of `send`
    #[command(after_help = paths::summary())]
    Drop(Drop),
    /// Send every UDP packet back where it came from, addresses and ports swapped
    #[command(after_help = paths::summary())]
    Reflect(Reflect),
    /// Forward frames from one port to another, or back out of the same port
    #[command(after_help = paths::summary())]
    Forward(Forward),
    /// Keep the packets that arrive in a pcapng file, for Wireshark and the like
    #[command(after_help = paths::summary())]
    Capture(Capture),
    /// Find the highest rates at which no more than so many packets are lost (MLRsearch, RFC 9971)
    #[command(after_help = paths::summary(), mut_args(method::chosen_by_method))]
    Ndr(Box<Ndr>),
    /// Test a device by RFC 2544 and RFC 9004: throughput, latency, loss, back-to-back frames, recovery, reset
    #[command(after_help = paths::summary(), mut_args(method::chosen_by_rfc2544))]
    Rfc2544(Box<Rfc2544>),
    /// Show what a device does with 10 to 200 % of the load that it forwards without loss (in the words of RFC 2889)
    #[command(after_help = paths::summary(), mut_args(method::chosen_by_overload))]
    Overload(Box<Overload>),
    /// Say which of several runs is better, and by how much: they are run in turns, or their results are read
    Compare(Compare),
    /// Repeat a run from its plan (--print-plan) or from its result (--json)
    Run(Again),
    /// Say which paths work on this host, what limits them, and the command that improves it
    Doctor(Doctor),
    /// Make, use and remove a lab: two hosts (network namespaces) joined by a veth pair
    Lab(Lab),
    /// Run a command on cores that nothing else uses, and say how much of them was taken before and then
    Isolate(Isolate),
    /// Show a whole measurement: a lab, a reflector, a run, and its CSV, JSON and plot
    Demo(Demo),
    /// Draw a run's CSV as SVG or PNG, or those of several over one another: rates, loss and latency over time
    Plot(Plot),
    /// Make a page of a test's result or of plain runs: one HTML file, or Markdown
    Report(Report),
    /// Read a trace that a run has kept (--trace): where its time went, and why packets were late or lost; or count
    /// what another DPDK program does with its time
    Trace(Trace),
    /// List the options of each path's ports
    #[command(after_help = paths::text())]
    Ports,
}

/// Hides from the help of `send` what means nothing where nothing is received.
fn only_sends(arg: Arg) -> Arg {
    let hidden = [
        "far",
        "lab",
        "both_ways",
        "back_dest_mac",
        "back_gateway",
        "settle",
        "rx_lanes",
    ];
    let (id, hide) = (arg.get_id().clone(), hidden.contains(&arg.get_id().as_str()));
    match id.as_str() {
        "tx_lanes" => arg.help("Lanes, as --lanes"),
        _ => arg.hide(hide),
    }
}

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
    /// Write an HdrHistogram log of the latency to FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) hdr: Option<PathBuf>,
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
    /// Plain lines even on a terminal
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

/// `sendrecv` and `send`.
#[derive(Args, Debug, Clone)]
pub(crate) struct Traffic {
    #[arg(value_name = "PORT", help = paths::port_help())]
    pub(crate) port: PortSpec,
    /// Port to receive at, where packets are not sent back: what forwards them is between the two (sendrecv)
    #[arg(value_name = "PORT", id = "far")]
    pub(crate) far: Option<PortSpec>,
    /// Make a lab for this command alone, run a reflector on its host b and the command on its host a, and remove it at
    /// the end (root): PORT is the name of a path, af_packet, af_xdp, xdp or udp, with options behind a colon if any
    #[arg(long)]
    pub(crate) lab: bool,
    /// The command line.
    #[arg(skip)]
    pub(crate) words: Vec<OsString>,
    /// Send from the second port to the first as well, at the same time: each way has the rate, the sizes and the flows
    /// given here, and rows, loss, latency and a verdict of its own
    #[arg(long)]
    pub(crate) both_ways: bool,
    /// Source address of the packets, or several: from A to B (10.99.0.1-10.99.3.254), or those that hosts of a network
    /// have (10.99.0.0/22, fd99::/120); need not be the host's own on af_packet, af_xdp and xdp [default: udp: the
    /// port's address, else the one that the host's routes choose; af_packet, af_xdp and xdp: the interface's; dpdk:
    /// none]
    #[arg(long, value_name = "IP|A-B|NET/BITS", value_parser = values::addresses)]
    pub(crate) src: Option<AddressRange>,
    /// Source ports; each with each destination port is a flow [default: 10000-10063; udp: one port per lane]
    #[arg(long, value_name = "A-B", value_parser = values::ports)]
    pub(crate) src_port_range: Option<RangeInclusive<u16>>,
    /// Destination: IP:PORT, [IPv6]:PORT or NAME:PORT, or a range of ports, IP:PORT-PORT; in place of the address
    /// several, as of --src: A-B:PORT, NET/BITS:PORT, [fd99::/120]:PORT. A name is resolved at the start, to the first
    /// of its addresses that is of the source's family
    #[arg(long, value_name = "HOST:PORT", value_parser = values::target)]
    pub(crate) dest: Option<Target>,
    /// MAC address to send to; found by ARP or neighbour discovery if not given
    #[arg(long, value_name = "MAC", value_parser = values::mac)]
    pub(crate) dest_mac: Option<MacAddr>,
    /// Router to send to, if not the one that the host's routing table names
    #[arg(long, value_name = "IP", value_parser = values::ip)]
    pub(crate) gateway: Option<IpAddr>,
    /// --dest-mac of the way back (--both-ways)
    #[arg(long, value_name = "MAC", value_parser = values::mac)]
    pub(crate) back_dest_mac: Option<MacAddr>,
    /// --gateway of the way back (--both-ways): the router's address at the second port
    #[arg(long, value_name = "IP", value_parser = values::ip)]
    pub(crate) back_gateway: Option<IpAddr>,
    /// VLAN tag of the packets, 1 to 4094
    #[arg(long, value_name = "ID", value_parser = values::vlan, allow_hyphen_values = true)]
    pub(crate) vlan: Option<u16>,
    /// How ranges of addresses and ports make flows: combine (each value with each of all others; source ports change
    /// first, then destination ports, source addresses, destination addresses), or together (all step at once, the
    /// shorter ranges over again)
    #[arg(long, value_name = "HOW", default_value = "combine", value_parser = values::step)]
    pub(crate) step: Step,
    /// Use only the first N flows of the ranges
    #[arg(long, value_name = "N", value_parser = values::flows, allow_hyphen_values = true)]
    pub(crate) flows: Option<u32>,
    /// Packets or layer-1 bits a second over all lanes: 3.5Mpps, 250kpps, 1Gbps, 10% (of the link); bps, kbps, Mbps
    /// and Gbps count preamble and inter-frame gap (20 bytes a frame) [default: as fast as the path takes packets]
    #[arg(long, value_name = "RATE", value_parser = RateParser, allow_hyphen_values = true)]
    pub(crate) rate: Option<RateText>,
    /// Another rate from TIME after the start to the end, in one run with --rate: 500kpps@60s; not on xdp
    #[arg(long, value_name = "RATE@TIME", value_parser = rate::step, allow_hyphen_values = true)]
    pub(crate) then: Option<StepText>,
    /// How departures are spread: constant, poisson, or burst=N (N packets back to back)
    #[arg(long, value_name = "HOW", default_value = "constant", value_parser = values::pacing)]
    pub(crate) pacing: Pacing,
    /// UDP payload, bytes: 16 up to the MTU [default: 18: a frame of 64 bytes over IPv4, 84 over IPv6]
    #[arg(
        long, value_name = "BYTES", conflicts_with = "frame_size", value_parser = values::payload_size,
        allow_hyphen_values = true
    )]
    pub(crate) payload_size: Option<usize>,
    /// Frame with FCS, bytes, as RFC 2544 counts it
    #[arg(long, value_name = "BYTES", value_parser = values::frame_size, allow_hyphen_values = true)]
    pub(crate) frame_size: Option<usize>,
    /// How long a packet may take to come back; receiving goes on for this long at the end
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::settle, allow_hyphen_values = true)]
    pub(crate) settle: Duration,
    /// Lanes that only send; needs --rx-lanes, except with send
    #[arg(long, value_name = "N", conflicts_with = "lanes", value_parser = values::lanes, allow_hyphen_values = true)]
    pub(crate) tx_lanes: Option<usize>,
    /// Lanes that only receive; needs --tx-lanes
    #[arg(long, value_name = "N", conflicts_with = "lanes", value_parser = values::lanes, allow_hyphen_values = true)]
    pub(crate) rx_lanes: Option<usize>,
    /// How far a lane may fall behind its schedule and catch up; what is older counts as missed
    #[arg(
        long, value_name = "TIME", default_value = "5ms", value_parser = values::catch_up, allow_hyphen_values = true
    )]
    pub(crate) catch_up: Duration,
    /// How far the offered rate of a valid trial may differ from the intended one: 0.1% or 0.001
    #[arg(long, value_name = "RATIO", default_value = "0.1%", value_parser = values::ratio, allow_hyphen_values = true)]
    pub(crate) tolerance: f64,
    /// TTL or hop limit (Ethernet paths)
    #[arg(
        long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u8).range(1..),
        allow_hyphen_values = true
    )]
    pub(crate) ttl: u8,
    /// DSCP, 0 to 63 (Ethernet paths)
    #[arg(
        long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..64),
        allow_hyphen_values = true
    )]
    pub(crate) dscp: u8,
    #[command(flatten)]
    pub(crate) run: Run,
}

/// `drop`.
#[derive(Args, Debug, Clone)]
pub(crate) struct Drop {
    #[arg(value_name = "PORT", help = paths::port_help())]
    pub(crate) port: PortSpec,
    /// Take only packets to this address, or to several (A-B, NET/BITS); mpps answers ARP and neighbour solicitation
    /// for them if the host does not (Ethernet paths)
    #[arg(long, value_name = "IP", value_parser = values::addresses)]
    pub(crate) ip: Option<AddressRange>,
    /// Take only packets to these UDP ports (Ethernet paths) [default: as for reflect]
    #[arg(long = "port", id = "udp_ports", value_name = "A-B", value_parser = values::ports)]
    pub(crate) ports: Option<RangeInclusive<u16>>,
    /// Count every UDP packet as received, stamped or not
    #[arg(long)]
    pub(crate) no_verify: bool,
    /// Number of flows to follow by sequence number
    #[arg(long, value_name = "N", default_value = "4096", value_parser = values::flows, allow_hyphen_values = true)]
    pub(crate) max_flows: u32,
    #[command(flatten)]
    pub(crate) run: Run,
}

/// `reflect`.
#[derive(Args, Debug, Clone)]
pub(crate) struct Reflect {
    #[arg(value_name = "PORT", help = paths::port_help())]
    pub(crate) port: PortSpec,
    /// Take only packets to this address, or to several (A-B, NET/BITS); mpps answers ARP and neighbour solicitation
    /// for them if the host does not (Ethernet paths) [default: the interface's own]
    #[arg(long, value_name = "IP", value_parser = values::addresses)]
    pub(crate) ip: Option<AddressRange>,
    /// Take only packets to these UDP ports (Ethernet paths) [default: all; on one of the host's own addresses, those
    /// below the ephemeral ports (net.ipv4.ip_local_port_range) that no program has open]
    #[arg(long = "port", id = "udp_ports", value_name = "A-B", value_parser = values::ports)]
    pub(crate) ports: Option<RangeInclusive<u16>>,
    /// When the port does not take packets at once: wait (for room, up to 10 ms, receiving nothing meanwhile), or drop
    /// (count them and receive on) [default: wait; xdp: drop]
    #[arg(long, value_name = "HOW", value_parser = values::on_full)]
    pub(crate) on_full: Option<OnFull>,
    #[command(flatten)]
    pub(crate) run: Run,
}

/// `doctor`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0: no check failed; 1: a check failed, of those named or, if none is named, of all; 2: a \
                  named device does not exist"
)]
pub(crate) struct Doctor {
    /// Interfaces, addresses of DPDK devices, and paths to check [default: all but loopback]
    #[arg(value_name = "DEVICE|PATH")]
    pub(crate) about: Vec<String>,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `lab`.
#[derive(Args, Debug)]
pub(crate) struct Lab {
    /// Name of the lab
    #[arg(long, default_value = mpps_host::lab::DEFAULT_NAME, global = true)]
    pub(crate) name: String,
    #[command(subcommand)]
    pub(crate) action: LabAction,
}

#[derive(Subcommand, Debug)]
pub(crate) enum LabAction {
    /// Make the lab, or those parts of it that are missing
    Up {
        /// Queues of each interface [default: 1]
        #[arg(long, value_name = "N")]
        queues: Option<u32>,
        /// MTU, bytes [default: 1500]
        #[arg(long, value_name = "BYTES")]
        mtu: Option<u32>,
    },
    /// Stop the programs in the lab, and remove it
    Down,
    /// Show the lab. Exit codes: 0: it is complete; 1: it is missing or incomplete
    Status,
    /// Run a program on a host of the lab: mpps lab exec a -- ping 10.99.0.2
    Exec {
        /// a (10.99.0.1, fd99::1) or b (10.99.0.2, fd99::2)
        host: mpps_host::lab::Host,
        /// The program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        argv: Vec<std::ffi::OsString>,
    },
}

/// `demo`.
#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// How long to measure, 1s to 1h
    #[arg(
        long, value_name = "TIME", default_value = "10s", value_parser = values::demo_duration,
        allow_hyphen_values = true
    )]
    pub(crate) duration: Duration,
    /// Rate [default: half of the rate that comes back in a short first run]
    #[arg(long, value_name = "RATE", value_parser = RateParser, allow_hyphen_values = true)]
    pub(crate) rate: Option<RateText>,
    /// Path to show: udp, io_uring, af_packet, af_xdp or xdp [default: af_packet in a lab; udp where none can be made]
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "demo-results")]
    pub(crate) out: PathBuf,
}

/// `plot`.
#[derive(Args, Debug)]
pub(crate) struct Plot {
    /// The run's CSV; several runs are drawn over one another
    #[arg(required = true)]
    pub(crate) csv: Vec<PathBuf>,
    /// Picture to write: .svg or .png
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

/// `report`.
#[derive(Args, Debug)]
pub(crate) struct Report {
    /// result.json of a test; or JSON summaries of runs (--json), with the CSVs of these runs if there are any
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// File to write: .html, .md, or .json (the result as a test writes it)
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Hide names of hosts and users, IP and MAC addresses: host-1, ip-2, mac-1 instead, the same ones everywhere
    #[arg(long)]
    pub(crate) redact: bool,
}
