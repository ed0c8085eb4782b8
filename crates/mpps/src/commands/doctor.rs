//! `doctor`.

use crate::cli::Doctor;
use crate::fail::{Result, failed, print, usage};
use crate::paths::{all_names, dpdk_version};
use mpps_host::doctor::{Options, examine};
use mpps_netdev::NetDev;
use std::io::IsTerminal;
use std::process::ExitCode;

/// Exit codes: 0 nothing failed; 1 a check failed, of what was asked about or of anything at all; 2 a device that was
/// asked about does not exist.
pub(crate) fn run(args: &Doctor) -> Result<ExitCode> {
    let paths = all_names();
    let is_path = |name: &&String| paths.contains(&name.as_str()) && NetDev::by_name(name).is_err();
    let built_paths = paths.iter().map(|p| (*p).to_owned()).collect();
    let report = examine(&Options {
        interfaces: args.about.iter().filter(|name| !is_path(name)).cloned().collect(),
        built_paths,
        dpdk: dpdk_version().map(str::to_owned),
    });
    if let Some(absent) = report.absent() {
        return Err(usage(format!(
            "doctor: {absent}: want an interface, the address of a device for DPDK, or one of {}",
            paths.join(", ")
        )));
    }
    if args.json {
        let text = serde_json::to_string_pretty(&report).map_err(failed)?;
        print(|out| writeln!(out, "{text}"))?;
    } else {
        let out = std::io::stdout();
        let colour = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let size = out
            .is_terminal()
            .then(|| rustix::termios::tcgetwinsize(&out).ok())
            .flatten();
        let columns = size.map(|size| usize::from(size.ws_col)).filter(|&columns| columns > 0);
        print(|out| report.render(out, colour, columns))?;
    }
    Ok(ExitCode::from(u8::from(report.failed(&args.about))))
}
