//! Texts of `--version`.

use mpps_run::paths::{all_names, dpdk_version};
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
        let built = |name: &&str| *name != "dpdk" || dpdk_version().is_some();
        let paths: Vec<_> = all_names().into_iter().filter(built).collect();
        format!(
            "{}\npaths: {}\nDPDK: {}",
            short(),
            paths.join(", "),
            dpdk_version().unwrap_or("not built in")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_built_in_is_named() {
        let paths = long().lines().nth(1).expect("the second line");
        assert!(paths.starts_with("paths: udp, "), "{paths}");
        assert_eq!(paths.contains("dpdk"), dpdk_version().is_some(), "{}", long());
    }
}
