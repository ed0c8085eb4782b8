//! Converts errors of the loader and of the system into errors of the path.

use mpps_io::{Error, ErrorKind};

/// Returns the path's error for an error of `xsk`, the crate that attaches programs.
#[cold]
pub(crate) fn of(error: xsk::Error) -> Error {
    let (kind, op, object) = match &error {
        xsk::Error::ProgramAttached { device, .. } => (ErrorKind::InUse, "attach to", device.clone()),
        xsk::Error::Unsupported { object, .. } => (ErrorKind::Unsupported, "set up", object.clone()),
        xsk::Error::Permission { op, object, .. } => (ErrorKind::Permission, *op, object.clone()),
        xsk::Error::NotFound { object, .. } => (ErrorKind::NotFound, "open", object.clone()),
        xsk::Error::Gone { object } => (ErrorKind::Gone, "reach", object.clone()),
        xsk::Error::Os { op, object, source } => (Error::os("", "", source).kind, *op, object.clone()),
        xsk::Error::Program { op, object, .. } => (ErrorKind::Other, *op, object.clone()),
        _ => (ErrorKind::Unsupported, "set up", "xdp".into()),
    };
    let cause = match error {
        xsk::Error::ProgramAttached { by, .. } => format!("another XDP program is attached: {by}"),
        xsk::Error::Gone { .. } => "the interface has been removed".to_owned(),
        xsk::Error::Os { source, .. } => source.to_string(),
        xsk::Error::Program { why, .. } | xsk::Error::NotFound { why, .. } => why,
        xsk::Error::Permission { need, .. } => format!(
            "not permitted: it needs {need}: run as root, or give the program capabilities with the command that `mpps \
             doctor` prints"
        ),
        xsk::Error::Unsupported { what, why, .. } => format!("{what}: {why}"),
        other => other.to_string(),
    };
    Error::new(op, object, cause, kind)
}
