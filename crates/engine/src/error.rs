//! Reasons why a run may not take place.

use crate::streams::OrderError;
use mpps_io::Error;

/// Reason why a run could not take place, or has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A port, pool or queue could not be opened.
    #[error(transparent)]
    Path(#[from] Error),
    /// Nobody answered for the peer's address.
    #[error("{0}")]
    Unresolved(String),
    /// Interrupted before the first packet.
    #[error("interrupted before the first packet")]
    Interrupted,
    /// The instant of the start was too near, or past, when all was ready.
    #[error("{0}")]
    TooLate(String),
    /// The session's ports were not opened for such a trial.
    #[error("the session was opened for other trials: {0}")]
    Unfit(String),
    /// An order to a stream, given before the trial, can't be followed.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// Two paths that `forward` has no lanes between: a defect of mpps.
    #[error("no lanes were compiled between {} and {}", .0[0], .0[1])]
    Unpaired([&'static str; 2]),
    /// A lane's thread has panicked: a defect of mpps.
    #[error("lane {0} has panicked; this is a defect, please report it")]
    Panicked(usize),
}
