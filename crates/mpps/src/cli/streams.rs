//! The arguments of `traffic`, which looks at traffic without sending it.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `traffic`.
#[derive(Args, Debug)]
pub(crate) struct TrafficFiles {
    /// Action
    #[command(subcommand)]
    pub(crate) action: TrafficAction,
}

/// Action of `traffic`.
#[derive(Subcommand, Debug)]
pub(crate) enum TrafficAction {
    /// Check a traffic file or a packet, and list its streams
    Check(Looked),
    /// Show the first packets in the order in which they are due, a line each, in the words of --packet
    Show {
        #[command(flatten)]
        of: Looked,
        /// Number of packets
        #[arg(short = 'n', value_name = "N", default_value_t = 20)]
        #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
        packets: u32,
    },
    /// Write the first packets to a pcapng file, for Wireshark and the like
    Pcap {
        #[command(flatten)]
        of: Looked,
        /// Number of packets
        #[arg(short = 'n', value_name = "N", default_value_t = 100)]
        #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
        packets: u32,
        /// File to write; -: standard output
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Print the JSON Schema of a traffic file
    Schema,
}

/// Traffic to look at.
#[derive(Args, Debug)]
pub(crate) struct Looked {
    /// Traffic file, TOML or JSON; -: standard input
    #[arg(value_name = "FILE", required_unless_present = "packet")]
    pub(crate) file: Option<PathBuf>,
    /// Packet in place of a file, such as 'eth / ipv4 dst=10.0.0.0/24 / udp dst=9000'
    #[arg(long, value_name = "PACKET", conflicts_with = "file")]
    pub(crate) packet: Option<String>,
    /// Size of the packet's frames, bytes with FCS: 512, 64..1518 step 64, random(64..1518), imix, 64*7 594*4 1518*1
    #[arg(long, value_name = "SIZE", requires = "packet", conflicts_with = "file")]
    pub(crate) frame_size: Option<String>,
    /// Value of a variable of the file; repeatable
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "packet")]
    pub(crate) set: Vec<String>,
    /// Seed of random values and of the payload
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}
