//! Hosts made of files, whose cores `mpps isolate` isolates in place of those of the host that the tests run on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::mpps;

/// The last core that this test may use.
///
/// # Panics
/// When the kernel does not tell.
pub fn last_core() -> usize {
    let text = fs::read_to_string("/proc/self/status").expect("/proc");
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let last = list.expect("a list").trim().rsplit([',', '-']).next().map(str::parse);
    last.expect("a core").expect("a number")
}

/// A host made of files, with one core more than the last of this one.
pub struct HostOfFiles(TempDir);

impl HostOfFiles {
    /// # Panics
    /// When its files can't be written.
    #[expect(clippy::new_without_default, reason = "a host is made, not assumed")]
    pub fn new() -> Self {
        let host = Self(tempfile::tempdir().expect("a folder"));
        fs::create_dir(host.path("run")).expect("a folder");
        let all = format!("0-{}", last_core() + 1);
        for (path, text) in [
            ("sys/devices/system/cpu/online", all.as_str()),
            ("proc/sys/kernel/random/boot_id", "one"),
            ("proc/irq/1/smp_affinity_list", &all),
            ("proc/sys/vm/stat_interval", "1"),
            ("proc/sys/kernel/timer_migration", "1"),
            ("proc/self/mountinfo", "30 20 0:26 / /cg rw - cgroup2 cgroup2 rw"),
            ("cg/cgroup.controllers", "cpuset"),
            ("cg/cgroup.subtree_control", "cpuset"),
            ("cg/cgroup.procs", ""),
            ("cg/mpps-isolate.new/cpuset.cpus", ""),
            ("cg/mpps-isolate.new/cgroup.procs", ""),
            ("cg/mpps-isolate.new/cpuset.cpus.partition", "member"),
        ] {
            host.put(path, text);
        }
        host
    }

    /// The folder that stands for `/`.
    pub fn root(&self) -> &Path {
        self.0.path()
    }

    /// Where a file lies.
    pub fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Writes a file.
    ///
    /// # Panics
    /// When it can't.
    pub fn put(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, format!("{text}\n")).expect("a file");
    }

    /// What a file says; nothing where there is none.
    pub fn get(&self, path: &str) -> String {
        fs::read_to_string(self.path(path))
            .unwrap_or_default()
            .trim()
            .to_owned()
    }

    /// `isolate` of the last core, without a measurement.
    pub fn isolate(&self, words: &str, command: &[&str]) -> Command {
        self.isolate_and_measure("0", words, command)
    }

    /// `isolate` of the last core, with measurements of this length.
    pub fn isolate_and_measure(&self, length: &str, words: &str, command: &[&str]) -> Command {
        let core = last_core();
        let mut isolate = mpps(&format!("isolate {core} --measure {length} {words} --root"));
        isolate.arg(self.0.path()).arg("--").args(command);
        isolate
    }

    /// `isolate --undo`.
    pub fn undo(&self) -> Command {
        let mut undo = mpps("isolate --undo --root");
        undo.arg(self.0.path());
        undo
    }

    /// How many journals and drafts of them there are.
    pub fn journals(&self) -> usize {
        let entries = fs::read_dir(self.path("run/mpps")).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name() != "isolate.lock").count()
    }

    /// Whether a run has changed it.
    pub fn changed(&self) -> bool {
        self.get("cg/mpps-isolate/cpuset.cpus.partition") == "isolated"
    }

    /// Asserts that nothing of a run is left.
    ///
    /// # Panics
    /// When something is.
    pub fn is_as_it_was(&self) {
        let all = format!("0-{}", last_core() + 1);
        assert_eq!(self.get("proc/irq/1/smp_affinity_list"), all);
        assert_eq!(self.get("proc/sys/vm/stat_interval"), "1");
        assert_eq!(self.get("proc/sys/kernel/timer_migration"), "1");
        assert!(!self.path("cg/mpps-isolate").exists());
        assert_eq!(self.journals(), 0);
    }
}
