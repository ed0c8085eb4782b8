//! Conversion of the AF_XDP crate's errors into errors of a run.

use mpps_io::{Error, ErrorKind};

/// Converts the crate's error into the path's.
#[cold]
pub(crate) fn of(error: xsk::Error) -> Error {
    let (kind, op, object) = match &error {
        xsk::Error::Busy { object } => (ErrorKind::InUse, "bind an AF_XDP socket to", object.clone()),
        xsk::Error::ProgramAttached { device, .. } => (ErrorKind::InUse, "attach to", device.clone()),
        xsk::Error::Unsupported { object, .. } => (ErrorKind::Unsupported, "set up", object.clone()),
        xsk::Error::Permission { op, object, .. } => (ErrorKind::Permission, *op, object.clone()),
        xsk::Error::NotFound { object, .. } => (ErrorKind::NotFound, "open", object.clone()),
        xsk::Error::Down { object } => (ErrorKind::LinkDown, "move packets on", object.clone()),
        xsk::Error::Gone { object } => (ErrorKind::Gone, "move packets on", object.clone()),
        xsk::Error::Os { op, object, source } => (Error::os("", "", source).kind, *op, object.clone()),
        xsk::Error::Program { op, object, .. } => (ErrorKind::Other, *op, object.clone()),
        xsk::Error::Memlock { .. } => (ErrorKind::Permission, "register", "packet memory".into()),
        // The host has no more: nothing is wrong with the argument.
        xsk::Error::NoHugePages { .. } => (ErrorKind::Other, "set up", "af_xdp".into()),
        _ => (ErrorKind::Unsupported, "set up", "af_xdp".into()),
    };
    let cause = match error {
        xsk::Error::Busy { .. } => "another AF_XDP socket has this queue: one program per queue at a time".to_owned(),
        xsk::Error::ProgramAttached { by, .. } => format!("another XDP program is attached: {by}"),
        xsk::Error::Down { .. } => "the interface is down".to_owned(),
        xsk::Error::Gone { .. } => "the interface has been removed".to_owned(),
        xsk::Error::Os { source, .. } => source.to_string(),
        xsk::Error::Program { why, .. } | xsk::Error::NotFound { why, .. } => why,
        xsk::Error::Permission { need, .. } => format!(
            "not permitted: it needs {need}: run as root, or give the program capabilities with the command that `mpps \
             doctor` prints"
        ),
        xsk::Error::Memlock { need, limit, .. } => format!(
            "{need} bytes of locked memory needed, the limit (ulimit -l) is {limit}: raise it, run with CAP_IPC_LOCK, \
             or take fewer chunks (frames=N,fill=N)"
        ),
        xsk::Error::Unsupported { what, why, .. } => format!("{what}: {why}"),
        other => other.to_string(),
    };
    Error::new(op, object, cause, kind)
}
