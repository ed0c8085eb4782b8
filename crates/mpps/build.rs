//! Tells the program which commit it is built from, where that can be told: a clone has a commit, a tarball has none.
//!
//! The date, which manual pages have, is that of the commit, or the one that SOURCE_DATE_EPOCH gives: two builds of one
//! commit are the same to the byte. This runs again when HEAD moves, and when a source of the program changes. The
//! latter rebuilds the program anyway, and keeps `-dirty` from telling of an earlier state.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What of the repository ends up in the program.
const SOURCES: [&str; 4] = ["Cargo.toml", "Cargo.lock", "crates", "xdp"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    let given = std::env::var("SOURCE_DATE_EPOCH")
        .ok()
        .and_then(|seconds| seconds.parse().ok());
    let top = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../..");
    let commit = commit(&top);
    let committed = || git(&top, &["log", "-1", "--format=%ct"])?.parse().ok();
    if let Some(seconds) = given.or_else(|| commit.as_ref().and_then(|_| committed())) {
        println!("cargo::rustc-env=MPPS_DATE={}", date(seconds));
    }
    let Some(commit) = commit else { return };
    println!("cargo::rustc-env=MPPS_COMMIT={commit}");
    // The log grows whenever HEAD moves: by a commit, a checkout, a reset. A file that is missing is not named: with it
    // this would run each time.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&top, &["rev-parse", "--git-path", name]).map(|path| top.join(path))
            && path.exists()
        {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    for name in &SOURCES[..2] {
        println!("cargo::rerun-if-changed={}", top.join(name).display());
    }
    // Tests of the crates do not end up in the program: only `src`.
    let crates = std::fs::read_dir(top.join("crates")).into_iter().flatten().flatten();
    let sources = crates.map(|entry| entry.path().join("src")).chain([top.join("xdp")]);
    for folder in sources.filter(|folder| folder.exists()) {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
}

/// The commit, with `-dirty` where a source differs from it; `None` outside of this project's own repository.
fn commit(top: &Path) -> Option<String> {
    // A tarball that lies in somebody's repository is not of that.
    let of = PathBuf::from(git(top, &["rev-parse", "--show-toplevel"])?);
    if of.canonicalize().ok()? != top.canonicalize().ok()? {
        return None;
    }
    let commit = git(top, &["rev-parse", "--short=12", "HEAD"]).filter(|commit| !commit.is_empty())?;
    let changed = git(top, &[&["status", "--porcelain", "--"], &SOURCES[..]].concat())?;
    let dirty = if changed.is_empty() { "" } else { "-dirty" };
    Some(format!("{commit}{dirty}"))
}

/// The day of a time in seconds since 1970, UTC, as YYYY-MM-DD: years are counted from March, so that a leap day is the
/// last of its year.
fn date(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (
        day - (153 * month + 2) / 5 + 1,
        if month < 10 { month + 3 } else { month - 9 },
    );
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// What git prints, without the end of the line; `None` where it fails, or there is none.
fn git(top: &Path, words: &[&str]) -> Option<String> {
    // Reading must not write: `status` refreshes the index else.
    let mut git = Command::new("git");
    let output = git
        .arg("--no-optional-locks")
        .arg("-C")
        .arg(top)
        .args(words)
        .output()
        .ok()?;
    let text = output
        .status
        .success()
        .then(|| String::from_utf8(output.stdout))?
        .ok()?;
    Some(text.trim_end().to_owned())
}
