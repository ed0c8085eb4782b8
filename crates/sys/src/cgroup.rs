//! Control groups of this process: what they limit, and what a limit has cost. Version 1 and 2, at every level of the
//! tree that this process sees: a limit of a group above counts as much as one of its own.
//!
//! Sources: `/proc/self/mountinfo` and `/proc/self/cgroup` (`proc_pid_mountinfo(5)`, `cgroups(7)`), and the kernel's
//! `admin-guide/cgroup-v2.rst`, `cgroup-v1/memory.rst`, `scheduler/sched-bwc.rst`. What can't be read is not known, and
//! nothing stands for it.

use rustix::fs::{CWD, Mode, OFlags, fstatfs, openat};
use std::fs::{File, metadata, read_to_string};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::parent_id;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

/// Types of file systems of `linux/magic.h`: `CGROUP_SUPER_MAGIC`, `CGROUP2_SUPER_MAGIC`.
const CGROUP_FILES: [u64; 2] = [0x0027_e0eb, 0x6367_7270];

/// Mounts of control groups that another process has: their lines of its `mountinfo`, and the open folders.
static ELSEWHERE: OnceLock<Vec<(String, OwnedFd)>> = OnceLock::new();

/// Finds control groups that this process does not have mounted. `ip netns exec` mounts a `/sys` without them; the
/// parent process, if it is of the same user, or process 1 has them. To be called as the program begins: it takes the
/// right to look into that process (`PTRACE_MODE_READ`), which programs without capabilities in force often lack.
pub fn look_elsewhere() {
    ELSEWHERE.get_or_init(|| {
        let is_mounted = |text: &str| text.lines().filter_map(Mount::of).any(|mount| mount.has_groups());
        if is_mounted(&read_to_string("/proc/self/mountinfo").unwrap_or_default()) {
            return Vec::new();
        }
        let user = |process: u32| metadata(format!("/proc/{process}")).ok().map(|folder| folder.uid());
        let parent = Some(parent_id()).filter(|parent| user(*parent) == user(std::process::id()));
        let found = parent.into_iter().chain([1]).map(mounts_of);
        found.into_iter().find(|mounts| !mounts.is_empty()).unwrap_or_default()
    });
}

/// Mounts of control groups that a process has and this one may open.
fn mounts_of(process: u32) -> Vec<(String, OwnedFd)> {
    let text = read_to_string(format!("/proc/{process}/mountinfo")).unwrap_or_default();
    let open = |line: &str| {
        let mount = Mount::of(line).filter(Mount::has_groups)?;
        let place = format!("/proc/{process}/root{}", mount.place);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(CWD, place, flags, Mode::empty()).ok()?;
        let kind = fstatfs(&folder).ok()?.f_type;
        CGROUP_FILES.contains(&(kind as u64)).then(|| (line.to_owned(), folder))
    };
    text.lines().filter_map(open).collect()
}

/// Version of the hierarchy that a group is of: their files differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A group, or one above it.
#[derive(Clone, Debug)]
struct Level {
    version: Version,
    /// Its path in the hierarchy, as `/proc/self/cgroup` has it.
    name: String,
    folder: PathBuf,
}

impl Level {
    fn text(&self, file: &str) -> Option<String> {
        read_to_string(self.folder.join(file)).ok()
    }

    /// A number in a file of its own. `max` is none.
    fn number(&self, file: &str) -> Option<u64> {
        self.text(file)?.trim().parse().ok()
    }

    /// Returns quota and period, µs, as [`Quota::granted_us`] does.
    fn granted_us(&self) -> Option<(u64, u64)> {
        match self.version {
            // -1 is no quota, and no number of this type.
            Version::One => Some((self.number("cpu.cfs_quota_us")?, self.number("cpu.cfs_period_us")?)),
            Version::Two => {
                let text = self.text("cpu.max")?;
                let (quota, period) = text.trim().split_once(' ')?;
                Some((quota.parse().ok()?, period.parse().ok()?))
            }
        }
    }
}

/// Control groups of this process.
#[derive(Clone, Debug)]
pub struct Groups {
    root: PathBuf,
    mountinfo: String,
    groups: String,
}

/// Memory that a group leaves to this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The group whose limit it is.
    pub group: String,
    /// The file that has the limit.
    pub file: &'static str,
    /// Bytes up to the limit.
    pub left: u64,
}

/// A limit of processes and threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pids {
    /// The group whose limit it is.
    pub group: String,
    /// Most that it may have.
    pub most: u64,
    /// Number that it has.
    pub current: u64,
}

impl Groups {
    /// Returns the groups of this process on this host.
    pub fn live() -> Self {
        Self::of(Path::new("/"))
    }

    /// Returns the groups of this process on a host whose files lie under `root`.
    pub fn of(root: &Path) -> Self {
        let text = |file: &str| read_to_string(root.join(file)).unwrap_or_default();
        Self {
            root: root.to_owned(),
            mountinfo: text("proc/self/mountinfo"),
            groups: text("proc/self/cgroup"),
        }
    }

    /// The group of this process that `controller` sees: a controller is in one hierarchy, in one of version 1, or else
    /// in that of version 2.
    fn path_of(&self, controller: &str) -> Option<(Version, &str)> {
        let lines = || {
            self.groups
                .lines()
                .filter_map(|line| line.split(':').nth(1).zip(line.splitn(3, ':').nth(2)))
        };
        let one = lines().find(|(list, _)| list.split(',').any(|one| one == controller));
        let two = || lines().find(|(list, _)| list.is_empty());
        let of = |version| move |(_, path)| (version, path);
        one.map(of(Version::One)).or_else(|| two().map(of(Version::Two)))
    }

    /// The group of this process that `controller` sees, then the groups above it.
    fn levels(&self, controller: &str) -> Vec<Level> {
        let has = |list: &str| list.split(',').any(|one| one == controller);
        let Some((version, path)) = self.path_of(controller) else {
            return Vec::new();
        };
        let own = self.mountinfo.lines().map(|line| (line, None));
        let elsewhere = ELSEWHERE.get().filter(|_| self.root == Path::new("/"));
        let elsewhere = elsewhere.into_iter().flatten();
        for (line, folder) in own.chain(elsewhere.map(|(line, folder)| (line.as_str(), Some(folder)))) {
            let Some(mount) = Mount::of(line) else { continue };
            let is = match version {
                Version::One => mount.kind == "cgroup" && has(mount.options),
                Version::Two => mount.kind == "cgroup2",
            };
            // A group outside of the mount has no files in it. A control group namespace names such a group with `..`
            // (`/../x`), and below the mount that path leads to somebody else's files.
            let leads_up = |path: &Path| path.components().any(|part| part == Component::ParentDir);
            let (group, root) = (Path::new(path), Path::new(&mount.root));
            let is = is && !leads_up(group) && !leads_up(root);
            let Some(below) = group.strip_prefix(root).ok().filter(|_| is) else {
                continue;
            };
            let top = match folder {
                None => self.root.join(mount.place.trim_start_matches('/')),
                Some(folder) => PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())),
            };
            let own = top.join(below);
            let folders = own.ancestors().take_while(|folder| folder.starts_with(&top));
            let names = Path::new(path).ancestors();
            return folders
                .zip(names)
                .map(|(folder, name)| Level {
                    version,
                    name: name.display().to_string(),
                    folder: folder.to_owned(),
                })
                .collect();
        }
        Vec::new()
    }

    /// Returns the memory left by the group that leaves the least; `None`: no limit is known.
    pub fn memory(&self) -> Option<Memory> {
        let of = |level: Level| {
            let [file, used, cached] = match level.version {
                Version::One => ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "],
                Version::Two => ["memory.max", "memory.current", "inactive_file "],
            };
            let most = level.number(file)?;
            let stat = level.text("memory.stat").unwrap_or_default();
            let used = in_use(level.number(used).unwrap_or(0), &stat, cached);
            Some(Memory {
                group: level.name,
                file,
                left: most.saturating_sub(used),
            })
        };
        let levels = self.levels("memory").into_iter();
        levels.filter_map(of).min_by_key(|memory| memory.left)
    }

    /// Limits of processes and threads.
    pub fn pids(&self) -> Vec<Pids> {
        let of = |level: Level| {
            Some(Pids {
                most: level.number("pids.max")?,
                current: level.number("pids.current")?,
                group: level.name,
            })
        };
        self.levels("pids").into_iter().filter_map(of).collect()
    }

    /// Opens the groups' counts of CPU time that was withheld.
    pub fn quotas(&self) -> Vec<Quota> {
        self.levels("cpu").into_iter().filter_map(Quota::of).collect()
    }

    /// The group whose CPU quota can't be read, if there is one: the process is in a group, and has no such files.
    pub fn unread_quota(&self) -> Option<String> {
        let (_, path) = self.path_of("cpu")?;
        (path != "/" && self.levels("cpu").is_empty()).then(|| path.to_owned())
    }

    /// Least CPU time that the groups grant, in cores; the file that says so, and the text in it that lifts the quota.
    /// `None`: no quota is known.
    pub fn cores(&self) -> Option<(f64, PathBuf, &'static str)> {
        let of = |level: Level| {
            let (quota, period) = level.granted_us().filter(|&(_, period)| period > 0)?;
            let (file, lifted) = match level.version {
                Version::One => ("cpu.cfs_quota_us", "-1"),
                Version::Two => ("cpu.max", "max"),
            };
            Some((quota as f64 / period as f64, level.folder.join(file), lifted))
        };
        let levels = self.levels("cpu").into_iter();
        levels.filter_map(of).min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// The least time that a group grants threads of real-time priority, if the kernel has such a limit per group
    /// (version 1, `CONFIG_RT_GROUP_SCHED`).
    pub fn real_time(&self) -> Option<RealTimeLimit> {
        let of = |level: Level| {
            Some(RealTimeLimit {
                // -1 is no limit.
                granted_us: level.number("cpu.rt_runtime_us")?,
                period_us: level.number("cpu.rt_period_us")?,
                group: level.name,
            })
        };
        let levels = self.levels("cpu").into_iter();
        levels.filter_map(of).min_by(|a, b| a.share().total_cmp(&b.share()))
    }
}

/// Time that a control group grants its threads of real-time priority on each core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealTimeLimit {
    /// Path of the group.
    pub group: String,
    /// Time per period, µs.
    pub granted_us: u64,
    /// Length of a period, µs.
    pub period_us: u64,
}

impl RealTimeLimit {
    /// Part of each period that is granted, 0 to 1.
    pub fn share(&self) -> f64 {
        (self.granted_us as f64 / self.period_us.max(1) as f64).min(1.0)
    }
}

/// Bytes of a group that are not given back on demand: the count includes files that were read or written once, which
/// the kernel drops when memory is wanted.
fn in_use(current: u64, stat: &str, cached: &str) -> u64 {
    let cached = stat.lines().find_map(|line| line.strip_prefix(cached));
    current.saturating_sub(cached.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0))
}

/// A line of `mountinfo`.
struct Mount<'l> {
    /// The group that is mounted.
    root: String,
    place: String,
    kind: &'l str,
    options: &'l str,
}

impl<'l> Mount<'l> {
    fn of(line: &'l str) -> Option<Self> {
        let (head, tail) = line.split_once(" - ")?;
        let mut head = head.split(' ').skip(3);
        let (root, place) = (plain(head.next()?), plain(head.next()?));
        let mut tail = tail.split(' ');
        Some(Self {
            root,
            place,
            kind: tail.next()?,
            options: tail.nth(1)?,
        })
    }

    /// Whether it is of control groups with limits that are read here.
    fn has_groups(&self) -> bool {
        let known = |option: &str| ["cpu", "memory", "pids"].contains(&option);
        self.kind == "cgroup2" || self.kind == "cgroup" && self.options.split(',').any(known)
    }
}

/// A path of `mountinfo`, which has blanks and line ends as octal numbers.
fn plain(path: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(path.to_owned(), |path, (code, is)| path.replace(code, is))
}

/// A group's count of the time for which its CPU quota kept its threads from running. The file stays open.
#[derive(Debug)]
pub struct Quota {
    level: Level,
    stat: File,
}

/// CPU time that a group withheld, since the group was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttled {
    /// Periods in which its threads ran.
    pub periods: u64,
    /// Number of those periods in which the quota was used up.
    pub throttled: u64,
    /// Time withheld, ns: the sum over cores.
    pub ns: u64,
}

impl Throttled {
    /// Returns the increase since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            periods: self.periods.saturating_sub(before.periods),
            throttled: self.throttled.saturating_sub(before.throttled),
            ns: self.ns.saturating_sub(before.ns),
        }
    }
}

impl Quota {
    fn of(level: Level) -> Option<Self> {
        let stat = File::open(level.folder.join("cpu.stat")).ok()?;
        let this = Self { level, stat };
        this.read().map(|_| this)
    }

    /// Reads the counters; `None`: the kernel does not report them (of the topmost group, for one).
    pub fn read(&self) -> Option<Throttled> {
        let mut text = [0; 1024];
        let length = self.stat.read_at(&mut text, 0).ok()?;
        throttled(std::str::from_utf8(&text[..length]).ok()?)
    }

    /// The group's path.
    pub fn group(&self) -> &str {
        &self.level.name
    }

    /// CPU time granted per period, and the period, µs; `None`: no quota is set, or none can be read.
    pub fn granted_us(&self) -> Option<(u64, u64)> {
        self.level.granted_us()
    }
}

fn throttled(stat: &str) -> Option<Throttled> {
    let field = |name: &str| {
        let line = stat
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.trim().parse::<u64>().ok()
    };
    // In ns in version 1.
    let ns = field("throttled_time").or_else(|| Some(field("throttled_usec")? * 1000))?;
    Some(Throttled {
        periods: field("nr_periods")?,
        throttled: field("nr_throttled")?,
        ns,
    })
}

#[cfg(test)]
#[path = "cgroup_tests.rs"]
mod tests;
