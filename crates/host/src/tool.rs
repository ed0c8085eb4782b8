//! Runs the system's own tools (`ip`, `ethtool`, …).
//!
//! A tool may lie outside the user's `PATH` (`/usr/sbin` for an ordinary user), which must not be taken for "not
//! installed", so the administrator's directories are searched too.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Directories searched after those of `PATH`.
const ADMIN_DIRS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Returns the tool's full path, or `None` when it is not installed.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    find_in(
        name,
        std::env::split_paths(&path).chain(ADMIN_DIRS.iter().map(PathBuf::from)),
    )
}

fn find_in(name: &str, dirs: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    dirs.map(|dir| dir.join(name)).find(|file| is_executable(file))
}

/// Returns the reason why a user's program can't be started. The program is found as a shell would do it: by its path,
/// else in `PATH`.
pub fn why_not(program: &OsStr) -> Option<&'static str> {
    let path = Path::new(program);
    if path.components().nth(1).is_some() || path.is_absolute() {
        return match is_executable(path) {
            true => None,
            false if path.exists() => Some("not an executable file"),
            false => Some("no such file"),
        };
    }
    let dirs = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&dirs).any(|dir| is_executable(&dir.join(path)));
    (!found).then_some("no such program in PATH")
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Returns whether the effective capabilities of this process include `capability` (a number of `linux/capability.h`).
pub(crate) fn has_capability(proc_self_status: &str, capability: u32) -> bool {
    mpps_netdev::effective(proc_self_status).is_some_and(|all| all >> capability & 1 == 1)
}

/// `CAP_NET_ADMIN` of `linux/capability.h`.
pub(crate) const CAP_NET_ADMIN: u32 = 12;
/// `CAP_SYS_ADMIN`.
pub(crate) const CAP_SYS_ADMIN: u32 = 21;
/// `CAP_PERFMON`.
pub(crate) const CAP_PERFMON: u32 = 38;

/// Joins words to one shell-like line for messages.
pub(crate) fn line<S: AsRef<OsStr>>(words: &[S]) -> String {
    words
        .iter()
        .map(|w| w.as_ref().to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_found_only_where_it_is_an_executable_file() {
        assert!(find("sh").is_some());
        assert_eq!(find("no-such-tool-anywhere"), None);
        assert_eq!(
            find_in("etc", std::iter::once(PathBuf::from("/"))),
            None,
            "a directory is not a tool"
        );
    }

    #[test]
    fn capabilities_are_read_from_the_effective_set() {
        let status = "Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t0000000000003000\n";
        assert!(has_capability(status, CAP_NET_ADMIN));
        assert!(has_capability(status, 13));
        assert!(!has_capability(status, CAP_SYS_ADMIN));
        assert!(!has_capability("", CAP_NET_ADMIN));
    }
}
