//! Which programs are in the kernel, and at which interface.
//!
//! Programs are told apart by their numbers, which the kernel never uses twice: others on this machine may run the same
//! programs at the same time.

use std::collections::BTreeSet;
use std::fs;

use mpps_host::lab::Host;
use serde_json::Value;

use crate::{Background, Net};

/// Numbers of the programs that a process has loaded or attached.
///
/// # Panics
/// When the process has ended.
pub fn programs_of(process: &Background) -> BTreeSet<u32> {
    let folder = format!("/proc/{}/fdinfo", process.id());
    let files = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{folder}: {e}"));
    let mut all = BTreeSet::new();
    // One that was closed meanwhile is no program's any more.
    for text in files.flatten().filter_map(|file| fs::read_to_string(file.path()).ok()) {
        let numbers = text.lines().filter_map(|line| line.strip_prefix("prog_id:"));
        all.extend(numbers.filter_map(|n| n.trim().parse::<u32>().ok()));
    }
    all
}

/// Which of these are in the kernel still.
pub fn still_loaded(programs: &BTreeSet<u32>) -> BTreeSet<u32> {
    let loaded = aya::programs::loaded_programs().flatten().map(|program| program.id());
    loaded.filter(|id| programs.contains(id)).collect()
}

impl Net {
    /// The XDP program at a host's interface; `None` where there is none.
    ///
    /// # Panics
    /// When `ip` can't say.
    pub fn xdp_program(&self, host: Host, device: &str) -> Option<u64> {
        let shown = self.on(host, &format!("ip -j -d link show {device}")).stdout;
        let links: Value = serde_json::from_str(&shown).expect("JSON of ip");
        links[0]["xdp"]["prog"]["id"].as_u64()
    }
}
