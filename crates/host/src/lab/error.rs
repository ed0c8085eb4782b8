//! Errors of the lab: each names the operation and the object.

use std::time::Duration;

/// Result of an operation on the lab.
pub type Result<T> = std::result::Result<T, LabError>;

/// A failed operation on the lab.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The operation needs root: namespaces and interfaces belong to root.
    #[error("lab {op}: needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN): run it with sudo")]
    NeedsRoot {
        /// Command that was asked for.
        op: &'static str,
    },
    /// A tool is not installed.
    #[error("{tool} is not installed: apt-get install {package}")]
    Missing {
        /// The tool.
        tool: &'static str,
        /// Package that contains the tool.
        package: &'static str,
    },
    /// The name can't be used.
    #[error("lab name {name:?}: must be 1 to 40 letters, digits, '-' or '_', and begin with a letter or digit")]
    BadName {
        /// The name as given.
        name: String,
    },
    /// An option is out of range.
    #[error("lab --{option} {value}: must be {range}")]
    BadOption {
        /// Name of the option without dashes.
        option: &'static str,
        /// Value as given.
        value: u32,
        /// Valid range.
        range: &'static str,
    },
    /// The host is neither a nor b.
    #[error("lab host {host:?}: must be a or b")]
    BadHost {
        /// Name as given.
        host: String,
    },
    /// Something of the lab's name exists that the lab did not make. Nothing was changed.
    #[error("{object} was not made by mpps lab ({why}): left alone; choose another --name")]
    Foreign {
        /// The namespace or interface.
        object: String,
        /// Reason why the object is known to be foreign.
        why: String,
    },
    /// The lab is not there.
    #[error("lab {name} is not up: run `mpps lab up --name {name}`")]
    NotUp {
        /// Name of the lab.
        name: String,
    },
    /// A tool failed.
    #[error("{op} {object}: {stderr}")]
    Command {
        /// Command line that was tried.
        op: String,
        /// Object of the command.
        object: String,
        /// Standard error of the tool, in one line.
        stderr: String,
    },
    /// The operating system refused an operation.
    #[error("{op} {object}: {source}")]
    Io {
        /// Operation that was tried.
        op: &'static str,
        /// Object of the operation.
        object: String,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// Another command works on labs, and does not end.
    #[error("lock {path}: held by {holder} for {} s: let it end, or end it", limit.as_secs())]
    Locked {
        /// Path of the lock.
        path: String,
        /// Process that holds the lock.
        holder: String,
        /// Longest wait for the lock.
        limit: Duration,
    },
    /// A condition did not come true in time.
    #[error("{object}: {condition} not seen within {} s", limit.as_secs())]
    Timeout {
        /// Object of the wait.
        object: String,
        /// Condition that was waited for.
        condition: &'static str,
        /// Longest wait for the condition.
        limit: Duration,
    },
}

impl LabError {
    /// Returns true when the cause is the missing privilege: tests then skip instead of failing.
    pub fn is_permission(&self) -> bool {
        match self {
            LabError::NeedsRoot { .. } => true,
            LabError::Io { source, .. } => source.kind() == std::io::ErrorKind::PermissionDenied,
            LabError::Command { stderr, .. } => stderr.contains("Operation not permitted"),
            _ => false,
        }
    }

    pub(crate) fn io(op: &'static str, object: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::Io {
            op,
            object: object.into(),
            source: source.into(),
        }
    }
}
