//! Reasons why there is no result, each in one line, and lines on standard error.

use crate::draft::holders::held;
use mpps_netdev::NetDev;
use mpps_sys::probe::bpf_forbidden;
use mpps_sys::text::spoken;
use std::fmt::Display;
use std::io::{self, Write};
use std::net::SocketAddr;

/// Prints a line on standard error. Text from others in it is made [`printable`](crate::fail::printable).
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {
        $crate::fail::to_stderr(&format!("mpps: {}", $crate::fail::printable(&format!($($words)*))))
    };
}
pub use crate::say;

/// A failure.
#[derive(Debug)]
pub enum Failure {
    /// Wrong arguments. Names the option, the value and what would be right.
    Usage(String),
    /// Anything else.
    Failed(String),
}

/// Result of planning and running.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// Returns the line that is printed.
    pub fn line(&self) -> &str {
        let (Self::Usage(line) | Self::Failed(line)) = self;
        line
    }

    /// Puts the name of a part in front of the line, if the line does not name it.
    pub fn of(self, part: impl Display) -> Self {
        match self {
            Self::Usage(line) => Self::Usage(format!("{part}: {line}")),
            Self::Failed(line) => Self::Failed(format!("{part}: {line}")),
        }
    }
}

/// Writes a line to standard error. A closed reader (`2>&1 | head`) does not end the run, whereas `eprintln!` would
/// panic.
pub fn to_stderr(line: &str) {
    let _ = writeln!(io::stderr(), "{}", spoken(line));
}

/// Escapes control characters in a text that may quote anything, as `\u{1b}`: a terminal would obey them.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match mpps_sys::text::is_hidden(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    shown
}

/// Returns the failure for a wrong argument.
pub fn usage(line: impl Display) -> Failure {
    Failure::Usage(line.to_string())
}

/// Returns the failure of a step that was tried.
pub fn failed(line: impl Display) -> Failure {
    Failure::Failed(line.to_string())
}

impl From<mpps_io::SpecError> for Failure {
    fn from(error: mpps_io::SpecError) -> Self {
        usage(error)
    }
}

impl From<mpps_engine::RunError> for Failure {
    fn from(error: mpps_engine::RunError) -> Self {
        failed(error)
    }
}

impl From<mpps_report::ReportError> for Failure {
    fn from(error: mpps_report::ReportError) -> Self {
        match error {
            mpps_report::ReportError::Format { .. } => usage(format!("-o {error}")),
            _ => failed(error),
        }
    }
}

impl From<mpps_host::lab::LabError> for Failure {
    fn from(error: mpps_host::lab::LabError) -> Self {
        failed(error)
    }
}

/// Converts the error of a port that could not be opened. It is a wrong argument if the port names a device or address
/// that does not exist, or asks for a feature that the device lacks.
pub fn unopened(spec: &mpps_io::PortSpec) -> impl Fn(mpps_io::Error) -> Failure + '_ {
    move |error| {
        use mpps_io::ErrorKind::{InUse, NotFound, Unsupported};
        if let (InUse, Ok(address)) = (error.kind, error.object.parse::<SocketAddr>()) {
            return failed(format!(
                "port '{spec}': {address}: UDP port {} is held by another program: stop that, or give another port",
                held(&[address.port()])
            ));
        }
        if let Some(why) = without_bpf(spec, &error) {
            return failed(format!("port '{spec}': {why}"));
        }
        match error.kind {
            // The kernel reports this in many ways, and some of them blame an argument.
            kind if kind != NotFound && went(spec) => failed(format!(
                "port '{spec}': interface {} went while it was opened ({error})",
                spec.device
            )),
            NotFound | Unsupported => usage(format!("port '{spec}': {error}")),
            _ => failed(error),
        }
    }
}

/// Returns the explanation for a port that could not be opened because BPF is forbidden here; `None`: that is not the
/// reason.
fn without_bpf(spec: &mpps_io::PortSpec, error: &mpps_io::Error) -> Option<String> {
    use mpps_io::ErrorKind::{Other, Permission, Unsupported};
    if !matches!(error.kind, Permission | Unsupported | Other) {
        return None;
    }
    let guard = error.op.contains("guard");
    if !guard && !crate::paths::needs_bpf(spec) {
        return None;
    }
    let why = bpf_forbidden()?;
    Some(match guard {
        true => format!("{why}: want guard=off, with a firewall rule that drops this host's answers, or the path udp"),
        false => format!("{why}: want the path udp, which needs no BPF"),
    })
}

/// Returns whether the interface of a port has disappeared since the plan was checked.
pub fn went(spec: &mpps_io::PortSpec) -> bool {
    crate::paths::drives_interface(spec)
        && matches!(NetDev::by_name(&spec.device), Err(e) if e.kind() == io::ErrorKind::NotFound)
}

/// Converts the error of a file that an option names and that can't be written.
pub fn unwritable(option: &str, error: &mpps_report::ReportError) -> Failure {
    let source = match error {
        mpps_report::ReportError::Io { source, .. } => Some(source),
        _ => None,
    };
    let denied = source.is_some_and(|source| source.kind() == io::ErrorKind::PermissionDenied);
    let number = source.and_then(io::Error::raw_os_error);
    if number == Some(rustix::io::Errno::MFILE.raw_os_error()) {
        return failed(format!(
            "{option}: {error}: want a higher limit of open files (ulimit -n)"
        ));
    }
    // Somebody else may have put the file there: the error already says what is wanted instead.
    let told = error.to_string();
    if told.contains(": want ") {
        return usage(format!("{option}: {told}"));
    }
    let user = crate::privilege::caller().filter(|_| denied);
    let whose = user.map_or_else(String::new, |user| {
        format!(" by user {}, who called sudo (--keep-privileges: by root)", user.uid())
    });
    usage(format!(
        "{option}: {error}: want a file that can be written{whose}, and that no other run writes"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpps_io::{Error, ErrorKind, PortSpec};

    #[test]
    fn an_interface_that_went_while_it_was_opened_is_named_and_no_wrong_argument() {
        let error = |kind| Error::new("attach the program to", "nonesuch9", "Invalid argument", kind);
        for path in ["af_packet", "af_xdp", "xdp"] {
            let spec: PortSpec = format!("{path}:nonesuch9").parse().expect("a port");
            let Failure::Failed(told) = unopened(&spec)(error(ErrorKind::Unsupported)) else {
                panic!("{path}: a wrong argument");
            };
            assert!(told.contains("interface nonesuch9 went while it was opened"), "{told}");
            // An interface that never existed.
            assert!(matches!(unopened(&spec)(error(ErrorKind::NotFound)), Failure::Usage(_)));
        }
        let there: PortSpec = "xdp:lo".parse().expect("a port");
        let refused = unopened(&there)(error(ErrorKind::Unsupported));
        assert!(matches!(refused, Failure::Usage(_)), "{refused:?}");
    }
}
