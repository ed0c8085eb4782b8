//! The arguments of `sendrecv` and `send`, and of methods, whose trials are the same.

use super::RunArgs;
use clap::{Arg, Args};
use std::ffi::OsString;

/// Hides from the help of `send` what means nothing where nothing is received.
pub(super) fn only_sends(arg: Arg) -> Arg {
    let hidden = [
        "far",
        "lab",
        "both-ways",
        "back-dest-mac",
        "back-gateway",
        "settle",
        "settle-early",
        "rx-lanes",
        "rx-burst",
    ];
    let (id, hide) = (arg.get_id().clone(), hidden.contains(&arg.get_id().as_str()));
    match id.as_str() {
        "tx-lanes" => arg.help("Lanes, as --lanes"),
        _ => arg.hide(hide),
    }
}

/// Hides from the help of runs without results of streams what only others have.
pub(super) fn without_streams(arg: Arg) -> Arg {
    match arg.get_id() == "streams_csv" {
        true => arg.hide(true),
        false => arg,
    }
}

/// `sendrecv` and `send`.
#[derive(Args, Debug, Clone)]
pub(crate) struct Traffic {
    /// Make a lab for this command alone, run a reflector on its host b and the command on its host a, and remove it at
    /// the end (root): PORT is the name of a path (udp, io_uring, af_packet, af_xdp or xdp), with options behind a
    /// colon if any
    #[arg(long)]
    pub(crate) lab: bool,
    /// The command line.
    #[arg(skip)]
    pub(crate) words: Vec<OsString>,
    #[command(flatten)]
    pub(crate) args: RunArgs,
}
