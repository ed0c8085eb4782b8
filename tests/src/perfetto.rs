//! Perfetto's own trace processor, asked in SQL.

use crate::{missing, run_command, skip};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The query for what went wrong when a trace was read: no row where all is well.
pub const IMPORT_ERRORS: &str = "select name, value from stats where severity = 'error' and value > 0";

/// The trace processor of Perfetto, and node to run it in; `None`, and said, where they are missing.
pub fn processor() -> Option<PathBuf> {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/perfetto/trace_processor.wasm");
    if missing("node", "nodejs") {
        return None;
    }
    if !module.is_file() {
        skip("Perfetto's trace processor is missing: scripts/perfetto.sh fetches it");
        return None;
    }
    Some(module)
}

/// Rows that Perfetto answers each query with.
///
/// # Panics
/// When it can't read the trace, or does not understand a query.
pub fn sql(module: &Path, trace: &Path, queries: &[&str]) -> Vec<Vec<Value>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("perfetto/query.mjs");
    let mut command = Command::new("node");
    command.arg(script).arg(module).arg(trace).args(queries);
    let done = run_command(command);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let rows = done
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    rows.collect()
}
