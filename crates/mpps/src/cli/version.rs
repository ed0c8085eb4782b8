//! What `--version` says.

use crate::paths::{all_names, dpdk_version};
use std::sync::OnceLock;

/// Version and commit, in one line: `0.1.0 (3a713a7c2f10)`; `-dirty` where the sources differed from the commit.
pub(crate) fn short() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| match option_env!("MPPS_COMMIT") {
        Some(commit) => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
        None => env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// The same, and below it what is built in.
pub(crate) fn long() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        format!(
            "{}\npaths: {}\nDPDK: {}",
            short(),
            all_names().join(", "),
            dpdk_version().unwrap_or("not built in")
        )
    })
}
