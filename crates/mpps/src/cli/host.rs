//! The arguments of commands about this host: `doctor`, `lab`, `demo`.

use super::RateText;
use super::rate::RateParser;
use super::values;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// `doctor`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0: no check failed; 1: a check failed, of those named or, if none is named, of all; 2: a \
                  named device does not exist"
)]
pub(crate) struct Doctor {
    /// Interfaces, addresses of DPDK devices, paths, and ports (af_xdp:eth1) to check [default: all but loopback]
    #[arg(value_name = "DEVICE|PATH|PORT")]
    pub(crate) about: Vec<String>,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Draw memory nodes, cores, caches, network devices and the cores of their interrupts as SVG into FILE ('-':
    /// standard output, in place of the findings)
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// A host made of files, in place of this one, to be drawn: for tests.
    #[arg(long, hide = true, value_name = "DIR", requires = "svg")]
    pub(crate) root: Option<PathBuf>,
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
    /// Length of the measurement, 1s to 1h
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
