//! Reasons why cores can't be watched.

use std::error::Error;
use std::fmt;
use std::io;

/// Reason why there is no [`Watch`](crate::Watch), or no [`ProgramTimes`](crate::ProgramTimes). The run goes on without
/// it, and nothing else is affected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lack {
    /// The process lacks privileges. The text names them, such as `CAP_BPF and CAP_PERFMON`.
    Privileges(String),
    /// The kernel lacks something, or refuses: one line of text.
    Kernel(String),
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Privileges(need) => write!(f, "not permitted: it needs {need}"),
            Self::Kernel(why) => f.write_str(why),
        }
    }
}

impl Error for Lack {}

pub(crate) const NEED: &str = "CAP_BPF and CAP_PERFMON";

impl Lack {
    /// Creates the reason from an error of the loader, with all its causes; the loader's own text has only the first
    /// cause.
    pub(crate) fn of(what: &str, error: &dyn Error) -> Self {
        let mut why = error.to_string();
        let mut cause = error.source();
        let mut denied = false;
        while let Some(error) = cause {
            let io = error.downcast_ref::<io::Error>();
            denied |= io.is_some_and(|io| io.raw_os_error() == Some(libc::EPERM));
            let more = error.to_string();
            if !why.contains(&more) {
                why.push_str(": ");
                why.push_str(&more);
            }
            cause = error.source();
        }
        // Without CAP_PERFMON the verifier takes pointers for secrets, and refuses programs that compare two pointers.
        if denied || why.contains("pointer comparison prohibited") {
            return Self::Privileges(NEED.to_owned());
        }
        // The verifier's log is for the author of the program: its last line is enough here.
        if let Some((head, log)) = why.split_once('\n') {
            let mut lines = log.lines().rev().map(str::trim);
            let last = lines.find(|line| !line.is_empty() && !line.starts_with("processed "));
            why = format!("{}: {}", head.trim_end_matches([':', ' ']), last.unwrap_or_default());
        }
        Self::Kernel(format!("{what}: {why}"))
    }

    pub(crate) fn os(what: &str, error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::Privileges(NEED.to_owned()),
            _ => Self::Kernel(format!("{what}: {error}")),
        }
    }
}
