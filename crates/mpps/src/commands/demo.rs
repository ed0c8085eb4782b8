//! `demo`.
use crate::cli::Demo;
use crate::fail::Result;
use std::process::ExitCode;
pub(crate) fn run(_args: &Demo) -> Result<ExitCode> { Ok(ExitCode::SUCCESS) }
