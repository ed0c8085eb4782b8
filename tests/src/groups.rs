//! Control groups that a test makes, and that go with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Version of a hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hierarchy {
    /// Version 1.
    One,
    /// Version 2.
    Two,
}

/// A control group, removed when dropped.
#[derive(Debug)]
pub struct Group {
    folder: PathBuf,
    /// Version of its hierarchy.
    pub hierarchy: Hierarchy,
}

/// Where the hierarchy with this controller is mounted. Version 2 counts if groups of the root may have the controller.
fn mounted(controller: &str) -> Option<(PathBuf, Hierarchy)> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let fields: Vec<_> = fields.filter(|fields| fields.len() > 3).collect();
    let one = fields
        .iter()
        .find(|fields| fields[2] == "cgroup" && fields[3].split(',').any(|option| option == controller));
    if let Some(fields) = one {
        return Some((fields[1].into(), Hierarchy::One));
    }
    let two = fields.iter().find(|fields| fields[2] == "cgroup2")?;
    let offered = fs::read_to_string(Path::new(two[1]).join("cgroup.subtree_control")).ok()?;
    let offers = offered.split_whitespace().any(|one| one == controller);
    offers.then(|| (two[1].into(), Hierarchy::Two))
}

impl Group {
    /// A group of the root of the hierarchy that has this controller. `None`, and said, where none can be made.
    pub fn new(controller: &str, name: &str) -> Option<Self> {
        let made = mounted(controller).and_then(|(root, hierarchy)| {
            let folder = root.join(format!("mpps-test-{name}-{}", std::process::id()));
            fs::create_dir(&folder).ok()?;
            Some(Self { folder, hierarchy })
        });
        if made.is_none() {
            crate::skip(&format!("no control group with {controller} can be made here"));
        }
        made
    }

    /// Writes a value; false, and said, where the kernel refuses it.
    pub fn put(&self, file: &str, value: &str) -> bool {
        let written = fs::write(self.folder.join(file), value);
        if let Err(e) = &written {
            crate::skip(&format!("{file} of a control group takes no {value}: {e}"));
        }
        written.is_ok()
    }

    /// Bytes of memory that are in use, without files that the kernel drops when memory is wanted.
    ///
    /// # Panics
    /// When they can't be read.
    pub fn memory_used(&self) -> u64 {
        let [file, cached] = match self.hierarchy {
            Hierarchy::One => ["memory.usage_in_bytes", "total_inactive_file "],
            Hierarchy::Two => ["memory.current", "inactive_file "],
        };
        let text = |file: &str| fs::read_to_string(self.folder.join(file)).expect("a file of the group");
        let used: u64 = text(file).trim().parse().expect("a number");
        let stat = text("memory.stat");
        let cached = stat
            .lines()
            .find_map(|line| line.strip_prefix(cached)?.parse::<u64>().ok());
        used.saturating_sub(cached.expect("a number"))
    }

    /// Whether the kernel has this file for it.
    pub fn has(&self, file: &str) -> bool {
        self.folder.join(file).exists()
    }

    /// Its name, as `/proc/self/cgroup` has it.
    pub fn name(&self) -> String {
        let name = self
            .folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        format!("/{name}")
    }

    /// The same command in this group.
    pub fn hold(&self, command: &Command) -> Command {
        let mut held = Command::new("sh");
        held.args(["-c", "echo $$ >\"$0\"/cgroup.procs && exec \"$@\""])
            .arg(&self.folder);
        held.arg(command.get_program()).args(command.get_args());
        crate::without_sudo(&mut held);
        held
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Of a process that has ended the kernel may still have something to undo.
        for _ in 0..200 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}
