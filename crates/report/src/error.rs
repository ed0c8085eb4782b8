//! Errors of the report: the operation, the file, and why.

use std::io;
use std::path::{Path, PathBuf};

/// A report that could not be written or read. One line; names the operation and the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The operating system refused.
    #[error("{op} {}: {}", path.display(), reason(source))]
    Io {
        /// Operation that failed.
        op: &'static str,
        /// File of the operation.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The file to read is not one of ours.
    #[error("{}: {message}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line, column and reason.
        message: String,
    },
    /// A table's or a chart's name can't be the name of a file, or is there twice.
    #[error("{what} '{}': want letters, digits and hyphens, and each name once", name.escape_debug())]
    Name {
        /// `table` or `chart`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The file's name does not end in a format that can be written.
    #[error("{}: want a name that ends in {want}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Possible endings.
        want: &'static str,
    },
}

impl ReportError {
    /// Returns the failure of an operation on a file.
    pub fn io(op: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            op,
            path: path.to_owned(),
            source,
        }
    }

    /// Returns the error that a file is not one of ours. `message` has the reason and, if known, line and column.
    pub fn malformed(path: &Path, message: impl Into<String>) -> Self {
        Self::Malformed {
            path: path.to_owned(),
            message: message.into(),
        }
    }
}

/// Returns the operating system's words without Rust's "(os error 28)".
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
