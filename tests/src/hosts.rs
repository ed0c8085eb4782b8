//! Two hosts that a test makes for itself, and the reasons why it can't.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use mpps_host::lab::{Host, LabError, LabOptions, ScratchLab};

use crate::{Finished, program, run_command};

/// Says that a test could not run, and why.
pub fn skip(why: &str) {
    // In front of everything, so that a reader of a long log finds it.
    println!("SKIPPED: {why}");
}

/// Says that other programs of this machine disturbed every try of what only a quiet run shows, and how.
pub fn skip_disturbed(how: &str) {
    skip(&format!("a busy host: {how}"));
}

/// A lab of its own for one test, with `queues` queues an interface. `None`, and said, without the right to make one.
///
/// # Panics
/// When making it fails for another reason.
pub fn lab(queues: u32) -> Option<ScratchLab> {
    match ScratchLab::new(LabOptions {
        queues: Some(queues),
        mtu: None,
    }) {
        Ok(lab) => Some(lab),
        Err(e) if e.is_permission() => {
            skip(&format!("network namespaces need root ({e})"));
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// `program` with the given words, separated by white space, on one host.
///
/// # Panics
/// When the lab is not up.
pub fn inside(lab: &ScratchLab, host: Host, words: &str) -> Command {
    let argv: Vec<&str> = words.split_whitespace().collect();
    // Other tests make and remove labs of their own, and on a busy host one that does can keep its turn for long.
    let mut turns = 0;
    let mut command = loop {
        match lab.command(host, &argv) {
            Err(LabError::Locked { .. }) if turns < 3 => turns += 1,
            command => break command.expect("the lab is up"),
        }
    };
    crate::without_sudo(&mut command);
    command
}

/// Whether a program is installed.
pub fn has(name: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
    // Where administrators' programs lie, for those whose PATH lacks them.
    folders.extend(["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from));
    folders.iter().any(|folder| folder.join(name).is_file())
}

/// True, and said, when a program is not installed or does not start.
pub fn missing(name: &str, package: &str) -> bool {
    let absent = !has(name);
    if absent {
        skip(&format!("{name} is not installed (package {package})"));
    }
    absent
}

/// Both hosts of a lab with `mpps` on them.
pub struct Net {
    /// The lab.
    pub lab: ScratchLab,
}

/// A lab with `queues` queues an interface, ready to run `mpps` on. `None`, and said, where that is impossible.
pub fn net_of(queues: u32) -> Option<Net> {
    lab(queues).map(|lab| Net { lab })
}

impl Net {
    /// `mpps` with the given words on host a, which sends by habit.
    pub fn a(&self, words: &str) -> Command {
        self.mpps(Host::A, words)
    }

    /// `mpps` with the given words on host b, which reflects or drops by habit.
    pub fn b(&self, words: &str) -> Command {
        self.mpps(Host::B, words)
    }

    fn mpps(&self, host: Host, words: &str) -> Command {
        let mut command = inside(&self.lab, host, &program().to_string_lossy());
        command.args(words.split_whitespace());
        command
    }

    /// Runs a program that must succeed on one host.
    ///
    /// # Panics
    /// When it does not.
    pub fn on(&self, host: Host, words: &str) -> Finished {
        let finished = run_command(inside(&self.lab, host, words));
        assert_eq!(finished.code, Some(0), "{words}: {}", finished.stderr);
        finished
    }

    /// A counter of a host's `/proc/net/snmp`, such as `Icmp` `OutDestUnreachs`.
    ///
    /// # Panics
    /// When there is none of the name.
    pub fn snmp(&self, host: Host, protocol: &str, counter: &str) -> u64 {
        let text = self.on(host, "cat /proc/net/snmp").stdout;
        let mut lines = text
            .lines()
            .filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(": "));
        let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
        let mut pairs = names.split(' ').zip(values.split(' '));
        let value = pairs
            .find(|(name, _)| *name == counter)
            .expect("a counter of the kernel's")
            .1;
        value.parse().expect("a number")
    }

    /// Runs a Python script on one host; its words come as `sys.argv`. False, and said, without Python.
    ///
    /// # Panics
    /// When it fails.
    pub fn python(&self, host: Host, script: &str, words: &[&str]) -> bool {
        if missing("python3", "python3") {
            return false;
        }
        let mut command = inside(&self.lab, host, "python3 -c");
        command.arg(script).args(words).stdin(Stdio::null());
        let finished = run_command(command);
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        true
    }
}
