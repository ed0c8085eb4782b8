//! What the whole-program tests share: the program as a user runs it, its results read back, hosts to run it on.
//!
//! The tests know the program by its command line and its files only, so that they hold it to what it promises to
//! users and to other programs. The machine they run on may be busy with anything: no test asserts a time or a rate,
//! and a paced run may end valid (0) or not (3), as long as every packet is accounted for.

#![forbid(unsafe_code)]

mod bystanders;
mod denied;
mod dpdk;
mod ends;
mod exchange;
mod groups;
mod host_of_files;
mod hosts;
mod links;
mod memif_peer;
mod middlebox;
mod perfetto;
mod process;
mod programs;
mod progress;
mod recipes;
mod report;
mod stepped;
mod terminal;
mod testpmd;
#[cfg(test)]
mod text;
mod threads;
mod traced;
mod web;

pub use bystanders::{ECHO, TALK};
pub use denied::{Answer, Call, answered, denied};
pub use dpdk::{Bridge, Memif, Own, no_dpdk};
pub use ends::{
    all_back, all_back_by, all_there, all_there_by, arrived, assert_refused, each_back, listen, listen_by, one_way,
    one_way_by, round_trips, round_trips_by,
};
pub use exchange::{End, Frames, Passed, Way, exchange};
pub use groups::{Group, Hierarchy};
pub use host_of_files::{HostOfFiles, last_core};
pub use hosts::{Net, has, inside, lab, missing, net_of, skip, skip_disturbed};
pub use links::{NOBODY, STRANGER, bridge, joined_twice, mac_of, macs, route, way};
pub use memif_peer::{MemifPeer, PASSED, REGION, add_region, add_ring, init, message, packed};
pub use middlebox::{Middlebox, Treated};
pub use perfetto::{IMPORT_ERRORS, processor, sql};
pub use process::{Background, Finished, run, run_by_shell, run_command, wait_until};
pub use programs::{programs_of, still_loaded};
pub use progress::{assert_only_the_gap_is_lost, returning, silent, under_way, wait_for_more, wait_for_silence};
pub use recipes::{Shown, shown};
pub use report::{COUNTS, Report, Row, Scratch, accounted_by_way, unheaded};
pub use stepped::TimeOfDay;
pub use terminal::OnTerminal;
pub use testpmd::{TESTPMD, Testpmd, no_testpmd};
pub use threads::{NET_ADMIN, Thread, threads_of, threads_of_id};
pub use traced::Traced;
pub use web::{Served, value};

use std::path::{Path, PathBuf};
use std::process::Command;

/// One test for each case of a check, so that each runs, and fails, by itself: `cases!(packets_return:
/// udp = "udp", xdp = "xdp");` for a function `packets_return(path: &str)`.
#[macro_export]
macro_rules! cases {
    ($check:ident: $($name:ident = $value:expr),+ $(,)?) => {
        mod $check {
            $(
                #[test]
                fn $name() {
                    super::$check($value);
                }
            )+
        }
    };
}

/// The program under test: `$MPPS_BIN`, else what was last built in this workspace, the release build first.
///
/// # Panics
/// When there is none.
pub fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("MPPS_BIN") {
        return PathBuf::from(path);
    }
    let target = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target"));
    let built = ["release/mpps", "debug/mpps"].iter().map(|path| target.join(path));
    built
        .into_iter()
        .find(|path| path.is_file())
        .expect("no program to test: run `make build` first")
}

/// `mpps` with the given words, separated by white space.
pub fn mpps(words: &str) -> Command {
    let mut command = Command::new(program());
    command.args(words.split_whitespace());
    without_sudo(&mut command);
    command
}

/// `mpps` with the given words, and options that name a file each.
pub fn mpps_with_files(words: &str, files: &[(&str, &PathBuf)]) -> Command {
    let mut command = mpps(words);
    for (option, file) in files {
        command.arg(option).arg(file);
    }
    command
}

/// The text of a file that is there.
pub fn text_of(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// `mpps` with the given words, before all other programs of a busy host where that may be: for tests of what is
/// measured and not of what keeps it from being measured.
pub fn mpps_first(words: &str) -> Command {
    if !rustix::process::geteuid().is_root() {
        return mpps(words);
    }
    // With autogroups nice values count within a session only, and sessions have one each.
    let first = "echo -20 2>/dev/null >/proc/self/autogroup; exec nice -n -20 \"$@\"";
    let mut command = Command::new("setsid");
    command.args(["sh", "-c", first, "sh"]).arg(program());
    command.args(words.split_whitespace());
    without_sudo(&mut command);
    command
}

/// What keeps a core busy, for `sh -c`; not beyond the test that started it, should that be killed.
const SPIN: &str = "while [ -d /proc/$PPID ]; do :; done";

/// A program that keeps a core busy, and is not easily kept from it. It has a session of its own: with autogroups its
/// nice value would draw the weight of all tests to that core, and those on the others would hardly run.
pub fn spinner(core: usize) -> Background {
    let mut spinner = Command::new("setsid");
    let core = core.to_string();
    spinner.args(["nice", "-n", "-10", "taskset", "-c", &core, "sh", "-c", SPIN]);
    spinning(spinner)
}

/// A program that wants a core, whichever.
pub fn rival() -> Background {
    let mut rival = Command::new("sh");
    rival.args(["-c", SPIN]);
    spinning(rival)
}

/// It is busy by now: on a loaded host a shell may take longer to start than a run takes.
fn spinning(spinner: Command) -> Background {
    let spinner = Background::start(spinner);
    let stat = format!("/proc/{}/stat", spinner.id());
    wait_until("a shell that spins", || {
        let stat = std::fs::read_to_string(&stat).unwrap_or_default();
        let (name, rest) = stat.rsplit_once(") ").unwrap_or_default();
        // Ticks in user space, of 10 ms: field 14 of proc(5), whose third comes after the name.
        let ticks = rest.split(' ').nth(11).and_then(|ticks| ticks.parse().ok());
        name.ends_with("(sh") && ticks.is_some_and(|ticks: u64| ticks > 1)
    });
    spinner
}

/// Tests that root runs by sudo are root's: mpps would become the user who called, in folders that are root's.
pub(crate) fn without_sudo(command: &mut Command) {
    for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
        command.env_remove(name);
    }
}

/// A UDP port of the loopback addresses that nobody has open, IPv4 and IPv6.
///
/// # Panics
/// When there is none.
pub fn free_port() -> u16 {
    free_ports(1)
}

/// The first of `count` consecutive UDP ports of the loopback addresses that nobody has open, IPv4 and IPv6.
///
/// # Panics
/// When there are none.
pub fn free_ports(count: u16) -> u16 {
    use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
    let free = |_| {
        let first = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
            .ok()?
            .local_addr()
            .ok()?
            .port();
        let mut all = first..first.checked_add(count)?;
        let both = |port| {
            UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok() && UdpSocket::bind((Ipv6Addr::LOCALHOST, port)).is_ok()
        };
        all.all(both).then_some(first)
    };
    (0..1000).find_map(free).expect("free ports")
}

/// `--src-port-range` with `count` ports of the loopback addresses that nobody has open.
pub fn source_ports(count: u16) -> String {
    let first = free_ports(count);
    format!("--src-port-range {first}-{}", first + count - 1)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Names of what lies in a folder.
    fn names(folder: &Path) -> Vec<String> {
        let files = std::fs::read_dir(folder).expect("a folder").flatten();
        files
            .map(|file| file.file_name().to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn every_file_of_tests_is_in_a_binary_that_the_manifest_names() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR"));
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let manifest = read(&top.join("Cargo.toml"));
        let (mut binaries, mut forgotten) = (0, Vec::new());
        for name in names(top) {
            let main = top.join(&name).join("main.rs");
            let path = match main.exists() {
                true => format!("{name}/main.rs"),
                false if name.ends_with(".rs") => name.clone(),
                false => continue,
            };
            binaries += 1;
            if !manifest.contains(&format!("path = \"{path}\"")) {
                forgotten.push(path);
            }
            if main.exists() {
                let modules = read(&main);
                let files = names(&top.join(&name)).into_iter().filter(|file| file != "main.rs");
                let of_none = files.filter(|file| !modules.contains(&format!("mod {};", file.trim_end_matches(".rs"))));
                forgotten.extend(of_none.map(|file| format!("{name}/{file}")));
            }
        }
        assert!(binaries >= 10, "{binaries}");
        assert!(
            forgotten.is_empty(),
            "cargo runs none of {forgotten:?}: name them in tests/Cargo.toml or a main.rs"
        );
    }
}
