//! The arguments of commands that draw results: `plot` and `report`.

use clap::Args;
use std::path::PathBuf;

/// `plot`.
#[derive(Args, Debug)]
pub(crate) struct Plot {
    /// The run's CSV, or result.json of a test, or the folder of either (--out DIR); several runs, or several results
    /// of one test, are drawn over one another
    #[arg(value_name = "FILE|DIR", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Picture to write: .svg or .png
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

/// `report`.
#[derive(Args, Debug)]
pub(crate) struct Report {
    /// result.json of a test, or the folder of a test or a run (--out DIR), whose result.json and rows.csv are read; or
    /// JSON summaries of runs (--json), with the CSVs of these runs if there are any. Several runs, or several results
    /// of one test, stand beside each other
    #[arg(value_name = "FILE|DIR", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// File to write: .html, .md, or .json (the result as a test writes it); a name without an ending is that of a
    /// folder to make for all of these, a CSV per table and an SVG per chart
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Hide names of hosts and users, IP and MAC addresses: host-1, ip-2, mac-1 instead, the same ones everywhere
    #[arg(long)]
    pub(crate) redact: bool,
}
