//! `doctor`.

use crate::cli::Doctor;
use crate::fail::{Result, failed};
use crate::plan::path::PATHS;
use mpps_host::doctor::{Options, examine};
use std::io::IsTerminal;
use std::process::ExitCode;

pub(crate) fn run(args: &Doctor) -> Result<ExitCode> {
    let built_paths = PATHS.iter().map(|p| (*p).to_owned()).collect();
    let report = examine(&Options {
        interfaces: args.interfaces.clone(),
        built_paths,
        dpdk: mpps_dpdk::VERSION.map(str::to_owned),
    });
    let mut out = std::io::stdout();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &report).map_err(failed)?;
        println!();
    } else {
        let colour = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
        report.render(&mut out, colour).map_err(failed)?;
    }
    Ok(ExitCode::SUCCESS)
}
