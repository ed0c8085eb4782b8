//! What the threads of a process may do.

use crate::Background;

/// Bits of `linux/capability.h`.
pub const NET_ADMIN: u64 = 1 << 12;

/// Credentials of one thread.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Its name; `main` for the first.
    pub name: String,
    /// Real, effective, saved and file system user.
    pub uids: Vec<u32>,
    /// The same for groups.
    pub gids: Vec<u32>,
    /// Capabilities that it can make use of.
    pub permitted: u64,
    /// Those in force.
    pub effective: u64,
    /// Those that programs started by it could keep: inheritable and ambient.
    pub handed_down: u64,
    /// Nothing that it starts gains any.
    pub no_new_privs: bool,
}

/// The threads of a program. Source: `/proc/PID/task/*/status`.
///
/// # Panics
/// When it has ended.
pub fn threads_of(process: &Background) -> Vec<Thread> {
    threads_of_id(process.id())
}

/// As [`threads_of`], by its number.
///
/// # Panics
/// When it has ended.
pub fn threads_of_id(process: u32) -> Vec<Thread> {
    let folder = format!("/proc/{process}/task");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{folder}: {e}"));
    // One that has ended meanwhile is passed over.
    let texts = entries
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("status")).ok());
    texts.map(|text| thread(&text, process)).collect()
}

fn thread(status: &str, process: u32) -> Thread {
    let field = |name: &str| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {name} in {status}")).trim()
    };
    let set = |name: &str| u64::from_str_radix(field(name), 16).expect("a set of capabilities");
    let ids = |name: &str| {
        field(name)
            .split_ascii_whitespace()
            .map(|n| n.parse().expect("a number"))
            .collect()
    };
    let main = field("Pid") == process.to_string();
    Thread {
        name: if main { "main" } else { field("Name") }.to_owned(),
        uids: ids("Uid"),
        gids: ids("Gid"),
        permitted: set("CapPrm"),
        effective: set("CapEff"),
        handed_down: set("CapInh") | set("CapAmb"),
        no_new_privs: field("NoNewPrivs") == "1",
    }
}
