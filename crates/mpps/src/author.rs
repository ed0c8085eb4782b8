//! Trust in files of plans, traffic and options. Such a file can name code to run, files to write and captures to send,
//! with all rights that `mpps` has. If another user may have written the file, such names are refused.

use crate::fail::{Result, usage};
use mpps_sys::private;
use serde_json::{Map, Value};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Component, Path};

/// Description of another user who may have written a file; `None` if only root and the user can.
#[derive(Debug, Default)]
pub(crate) struct Author(Option<String>);

impl Author {
    /// Finds the author of an open file and of the path that led to it.
    pub(crate) fn of(file: &File, path: &Path) -> io::Result<Self> {
        Ok(Self(private::other_author(file, path)?))
    }

    /// Finds the author of standard input. A pipe belongs to the command line; a file may have another author.
    pub(crate) fn of_stdin() -> io::Result<Self> {
        let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        match file.metadata()?.is_file() {
            true => Self::of(&file, Path::new("/dev/stdin")),
            false => Ok(Self::default()),
        }
    }

    /// Returns the refusal of `what`, with what to do; `None` if the file is trusted.
    pub(crate) fn refuses(&self, what: &str) -> Option<String> {
        let who = self.0.as_ref()?;
        Some(format!(
            "{what}, and {who}: want it read through, then copied to where only you and root can write"
        ))
    }

    /// Checks a plan before its fields are read.
    ///
    /// # Errors
    /// When the file may be another's, and names code to run or a file elsewhere.
    pub(crate) fn check(&self, plan: &Map<String, Value>) -> Result<()> {
        match self.0.as_ref().and_then(|_| self.refuses(&decisive(plan)?)) {
            Some(line) => Err(usage(line)),
            None => Ok(()),
        }
    }
}

/// Returns whether a path leads out of the current folder, by its parts or by a link.
pub(crate) fn leads_away(path: &Path) -> bool {
    let folder = path.parent().unwrap_or(path);
    let by_link = |way: &Path| match (Path::new(".").canonicalize(), Path::new(".").join(way).canonicalize()) {
        (Ok(here), Ok(there)) => !there.starts_with(here),
        // A link to what is not there makes it there.
        _ => way.is_symlink(),
    };
    let typed = path.is_absolute() || path.components().any(|part| part == Component::ParentDir);
    typed || by_link(folder) || by_link(path)
}

/// Describes the first field that runs code, or writes or sends a file outside of the current folder. Devices of DPDK
/// have options for programs (`net_failsafe`), scripts and files.
fn decisive(plan: &Map<String, Value>) -> Option<String> {
    let field = |section: &str, key: &str| plan.get(section)?.get(key).filter(|value| !value.is_null());
    if field("device", "eal").is_some() {
        return Some("device.eal (--eal) decides which code runs".to_owned());
    }
    let output = field("capture", "output").and_then(Value::as_str);
    if let Some(file) = output.filter(|file| leads_away(Path::new(file))) {
        let file = crate::fail::printable(file);
        return Some(format!("capture.output (--output) '{file}' is outside of this folder"));
    }
    let streams = field("traffic", "streams").and_then(Value::as_array);
    let captures = streams
        .into_iter()
        .flatten()
        .filter_map(|stream| stream.get("pcap")?.as_str());
    if let Some(file) = captures.into_iter().find(|file| leads_away(Path::new(file))) {
        let file = crate::fail::printable(file);
        return Some(format!("traffic.streams (pcap) '{file}' is outside of this folder"));
    }
    let ports = plan.get("ports").and_then(Value::as_array)?;
    let port = ports
        .iter()
        .filter_map(Value::as_str)
        .find(|port| written(port).starts_with("dpdk:"))?;
    let port = mpps_io::hide_secrets(port);
    Some(format!(
        "ports: '{port}' loads and runs what DPDK's drivers are told to"
    ))
}

/// Returns the port with the usual name of its path.
fn written(port: &str) -> String {
    let (path, device) = port.split_once(':').unwrap_or((port, ""));
    format!("{}:{device}", mpps_io::path_name(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(field: &str) -> Map<String, Value> {
        serde_json::from_str(&format!("{{{field}}}")).unwrap_or_else(|e| panic!("{field}: {e}"))
    }

    #[test]
    fn code_and_files_elsewhere_are_found_in_a_plan() {
        for (field, part) in [
            (r#""ports": ["loop:"], "load": {"rate": "5kpps"}"#, ""),
            (
                r#""capture": {"output": "out/x.pcapng"}, "ports": ["af_packet:lo"]"#,
                "",
            ),
            (r#""capture": {"output": "-"}, "device": {"eal": null}"#, ""),
            (r#""ports": ["udp:dpdk:"]"#, ""),
            (
                r#""device": {"eal": "-d/tmp/x.so"}"#,
                "device.eal (--eal) decides which code runs",
            ),
            (
                r#""capture": {"output": "/etc/x"}"#,
                "capture.output (--output) '/etc/x' is outside",
            ),
            (r#""traffic": {"streams": [{"packet": "eth"}, {"pcap": "a.pcap"}]}"#, ""),
            (
                r#""traffic": {"streams": [{"packet": "eth"}, {"pcap": "/etc/x"}]}"#,
                "traffic.streams (pcap) '/etc/x' is outside",
            ),
            (
                r#""capture": {"output": "a/../../x"}"#,
                "capture.output (--output) 'a/../../x'",
            ),
            (
                r#""ports": ["null:", "dpdk:net_failsafe0,exec(x)"]"#,
                "ports: 'dpdk:net_failsafe0,exec(x)'",
            ),
            (
                r#""ports": ["DPDK:net_failsafe0,exec(x)"]"#,
                "ports: 'DPDK:net_failsafe0,exec(x)'",
            ),
            (
                r#""ports": ["dpdk:net_memif0,secret=swordfish"]"#,
                "ports: 'dpdk:net_memif0,secret=…'",
            ),
        ] {
            let told = decisive(&plan(field)).unwrap_or_default();
            assert!(
                told.starts_with(part) && told.is_empty() == part.is_empty(),
                "{field}: {told}"
            );
        }
    }

    #[test]
    fn a_file_of_nobody_elses_may_say_anything() {
        let plan = plan(r#""device": {"eal": "-d/x.so"}"#);
        assert!(Author::default().check(&plan).is_ok());
        let told = Author(Some("user 7 owns this file".to_owned()))
            .check(&plan)
            .unwrap_err();
        let want = "device.eal (--eal) decides which code runs, and user 7 owns this file: want it read through";
        assert!(told.line().starts_with(want), "{}", told.line());
    }
}
