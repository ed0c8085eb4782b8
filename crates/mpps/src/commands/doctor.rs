//! `doctor`.

use crate::cli::Doctor;
use crate::fail::unwritable;
use crate::fail::{Result, failed, print, print_words, usage};
use mpps_host::doctor::{Options, draw, examine};
use mpps_host::isolate::Tree;
use mpps_io::PortSpec;
use mpps_netdev::NetDev;
use mpps_report::{Colour, JsonTarget, columns_of};
use mpps_run::paths::{all_names, dpdk_version, drives_interface};
use mpps_run::privilege::as_user;
use std::path::Path;
use std::process::ExitCode;

/// Exit codes: 0 nothing failed; 1 a check failed, of what was asked about or of anything at all; 2 a device that was
/// asked about does not exist.
pub(crate) fn run(args: &Doctor) -> Result<ExitCode> {
    let paths = all_names();
    let about: Vec<String> = args.about.iter().flat_map(|name| named(name, &paths)).collect();
    let is_path = |name: &&String| paths.contains(&name.as_str()) && NetDev::by_name(name).is_err();
    let built_paths = paths.iter().map(|p| (*p).to_owned()).collect();
    let left = mpps_host::left::remove();
    let mut report = examine(&Options {
        interfaces: about.iter().filter(|name| !is_path(name)).cloned().collect(),
        built_paths,
        dpdk: dpdk_version().map(str::to_owned),
    });
    report.removed(&left);
    if let Some(absent) = report.absent() {
        return Err(usage(format!(
            "doctor: {absent}: want an interface, the address of a device for DPDK, or one of {}",
            paths.join(", ")
        )));
    }
    if let Some(path) = &args.svg {
        let drawing = draw(&args.root.as_deref().map_or_else(Tree::live, Tree::fake));
        let target = as_user(|| JsonTarget::prepare(path).map_err(|e| unwritable("--svg", &e)))?;
        as_user(|| target.write_text(&drawing).map_err(failed))?;
    }
    if args.svg.as_deref() == Some(Path::new("-")) {
        // The drawing is alone there.
    } else if args.json {
        let text = serde_json::to_string_pretty(&report).map_err(failed)?;
        print(|out| writeln!(out, "{text}"))?;
    } else {
        let out = std::io::stdout();
        let colour = Colour::for_stream(&out) == Colour::Always;
        let columns = columns_of(&out);
        print_words(|out| report.render(out, colour, Some(columns)))?;
    }
    Ok(ExitCode::from(u8::from(report.failed(&about))))
}

/// Returns the names that a word asks about. A port (`af_xdp:eth1`) stands for its path and, if it names a device of
/// the host, for its device.
fn named(word: &str, paths: &[&str]) -> Vec<String> {
    let port = word.parse::<PortSpec>().ok();
    let Some(port) = port.filter(|port| paths.contains(&port.path.as_str())) else {
        return vec![word.to_owned()];
    };
    let mut all = vec![port.path.clone()];
    if drives_interface(&port) || is_bus_address(&port.device) {
        all.push(port.device);
    }
    all
}

/// Whether it is written as the address of a PCI function: 0000:03:00.0.
fn is_bus_address(device: &str) -> bool {
    let parts: Vec<_> = device.split([':', '.']).collect();
    parts.len() == 4
        && parts
            .iter()
            .zip([4, 2, 2, 1])
            .all(|(part, digits)| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_asked_about_by_its_path_and_device() {
        let paths = ["udp", "af_packet", "af_xdp", "dpdk"];
        for (word, all) in [
            ("eth1", &["eth1"][..]),
            ("af_xdp", &["af_xdp"]),
            ("af_xdp:eth1", &["af_xdp", "eth1"]),
            ("af_packet:eth1,ring=64", &["af_packet", "eth1"]),
            ("udp:10.99.0.1:9000", &["udp"]),
            ("dpdk:0000:03:00.0", &["dpdk", "0000:03:00.0"]),
            ("dpdk:net_null0", &["dpdk"]),
            ("0000:03:00.0", &["0000:03:00.0"]),
            ("nonesuch:eth1", &["nonesuch:eth1"]),
        ] {
            assert_eq!(named(word, &paths), all, "{word}");
        }
    }
}
