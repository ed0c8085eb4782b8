//! x
use crate::cli::Rfc2544;
use crate::fail::Result;
use std::process::ExitCode;
pub(crate) fn run(_a: &Rfc2544) -> Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
