//! The lab's access to the kernel: `ip`, the directory of named namespaces, sysctls inside one, and the lock.
//!
//! One lock serves all labs of a host, so that two commands never work on the same thing at once. It is a `flock`,
//! which the kernel drops when its holder dies; each `ip` inherits it as its standard input, so that it is held until
//! the last step of a killed run has ended too.

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use mpps_sys::privilege::lacks;
use rustix::thread::LinkNameSpaceType;

use super::device::{self, Device};
use super::error::{LabError, Result};
use super::lock;
use crate::tool;

/// Directory where iproute2 keeps named namespaces.
const NETNS_DIR: &str = "/run/netns";
/// Directory of the lock.
const RUN_DIR: &str = "/run/mpps";
/// `NSFS_MAGIC` of `linux/magic.h`: file system type of a mounted namespace. Wide enough
/// for `f_type` on every architecture.
const NSFS_MAGIC: i128 = 0x6e73_6673;
/// Longest wait for another lab command to end.
const LOCK_LIMIT: Duration = Duration::from_secs(60);

/// The right to change labs, and the means to do it.
pub(crate) struct Kernel {
    lock: File,
}

/// Kind of an entry in the directory of namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// There is no such entry.
    Absent,
    /// A file on which no namespace is mounted: its program died between making and mounting it.
    Dead,
    /// A namespace.
    Live,
}

impl Kernel {
    /// Checks the privilege and the tool, then waits for the lock.
    pub(crate) fn open(op: &'static str) -> Result<Self> {
        if lacks(tool::CAP_SYS_ADMIN) || lacks(tool::CAP_NET_ADMIN) {
            return Err(LabError::NeedsRoot { op });
        }
        find_ip()?;
        Ok(Self {
            lock: lock::take(Path::new(RUN_DIR), LOCK_LIMIT)?,
        })
    }

    /// Runs `ip` with the given words; `object` is for the error. Returns its standard output.
    pub(crate) fn ip(&self, object: &str, words: &[&str]) -> Result<String> {
        let failed = |stderr: String| LabError::Command {
            op: format!("ip {}", tool::line(words)),
            object: format!("({object})"),
            stderr,
        };
        let stdin = self
            .lock
            .try_clone()
            .map_err(|e| LabError::io("share", "the lock", e))?;
        let output = Command::new(find_ip()?)
            .args(words)
            .env("LC_ALL", "C")
            .stdin(Stdio::from(stdin))
            .output()
            .map_err(|e| LabError::io("start", "ip", e))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let text = text
                .lines()
                .map(str::trim)
                .filter(|l| !l.is_empty())
                .collect::<Vec<_>>()
                .join("; ");
            return Err(failed(if text.is_empty() {
                output.status.to_string()
            } else {
                text
            }));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns the interfaces of a namespace.
    pub(crate) fn devices(&self, namespace: &str) -> Result<Vec<Device>> {
        let json = self.ip(namespace, &["-n", namespace, "-details", "-json", "address", "show"])?;
        device::parse(&json).ok_or_else(|| LabError::Command {
            op: "ip -details -json address show".into(),
            object: format!("({namespace})"),
            stderr: "printed no JSON: iproute2 4.18 or later is needed".into(),
        })
    }

    /// Gives the namespace known as `from` the further name `to`, which must be free.
    pub(crate) fn link_name(&self, from: &str, to: &str) -> Result<()> {
        // A thread of this process enters the namespace, and `ip netns attach` mounts that thread's namespace. That is
        // one step, and iproute2 refuses if the name exists.
        inside(from, || {
            let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
            self.ip(to, &["netns", "attach", to, &thread]).map(drop)
        })?
    }

    /// Returns the numbers of the processes inside the namespace.
    pub(crate) fn processes(&self, namespace: &str) -> Result<Vec<u32>> {
        let text = self.ip(namespace, &["netns", "pids", namespace])?;
        Ok(text.split_whitespace().filter_map(|word| word.parse().ok()).collect())
    }

    /// Kills every process inside the namespace.
    pub(crate) fn kill_processes(&self, namespace: &str) -> Result<()> {
        let ids = self.processes(namespace)?.into_iter();
        for pid in ids.filter_map(|id| rustix::process::Pid::from_raw(id.try_into().ok()?)) {
            // A process that has already gone is fine.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        Ok(())
    }
}

/// Returns device and inode by which the kernel knows the namespace.
pub(crate) fn identity(namespace: &str) -> Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let path = format!("{NETNS_DIR}/{namespace}");
    let meta = std::fs::metadata(&path).map_err(|e| LabError::io("look at", path, e))?;
    Ok((meta.dev(), meta.ino()))
}

/// Returns the path of `ip`.
pub(crate) fn find_ip() -> Result<std::path::PathBuf> {
    tool::find("ip").ok_or(LabError::Missing {
        tool: "ip",
        package: "iproute2",
    })
}

/// Returns the names in the directory of namespaces, dead ones included.
pub(crate) fn names() -> Vec<String> {
    let Ok(dir) = std::fs::read_dir(NETNS_DIR) else {
        return Vec::new();
    };
    let mut names: Vec<_> = dir.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Returns the kind of entry of a name.
pub(crate) fn entry(namespace: &str) -> Result<Entry> {
    let path = format!("{NETNS_DIR}/{namespace}");
    match rustix::fs::statfs(&path) {
        Ok(fs) if i128::from(fs.f_type) == NSFS_MAGIC => Ok(Entry::Live),
        Ok(_) => Ok(Entry::Dead),
        Err(rustix::io::Errno::NOENT) => Ok(Entry::Absent),
        Err(e) => Err(LabError::io("look at", path, e)),
    }
}

/// Runs `work` on a thread that has entered the namespace.
pub(crate) fn inside<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> Result<T> {
    let path = format!("{NETNS_DIR}/{namespace}");
    let file = File::open(&path).map_err(|e| LabError::io("open", &path, e))?;
    let inside = || {
        use std::os::fd::AsFd;
        rustix::thread::move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|e| LabError::io("enter", &path, e))?;
        Ok(work())
    };
    mpps_sys::thread::apart(inside).map_err(|e| LabError::io("start a thread for", &path, e))?
}

/// Sets the IPv6 sysctls of `device` (or `default`) that differ; must run [`inside`] the namespace. Returns how many
/// were changed. A kernel without IPv6 has none.
pub(crate) fn quiet_ipv6(device: &str) -> Result<usize> {
    // No router solicitations, no autoconfiguration, no duplicate address detection: the kernel itself sends nothing on
    // the link except multicast listener reports.
    const SETTINGS: [(&str, &str); 6] = [
        ("disable_ipv6", "0"),
        ("accept_ra", "0"),
        ("autoconf", "0"),
        ("accept_dad", "0"),
        ("dad_transmits", "0"),
        ("router_solicitations", "0"),
    ];
    let dir = format!("/proc/sys/net/ipv6/conf/{device}");
    if !Path::new(&dir).exists() {
        return Ok(0);
    }
    let mut changed = 0;
    for (key, value) in SETTINGS {
        let path = format!("{dir}/{key}");
        let now = std::fs::read_to_string(&path).map_err(|e| LabError::io("read", &path, e))?;
        if now.trim() != value {
            std::fs::write(&path, value).map_err(|e| LabError::io("write", &path, e))?;
            changed += 1;
        }
    }
    Ok(changed)
}

/// Switches GRO of `device` on; must run [`inside`] the namespace. Returns true if it was off.
pub(crate) fn switch_gro_on(device: &str) -> Result<bool> {
    mpps_netdev::switch_gro_on(device).map_err(|e| LabError::io("set GRO on", device, e))
}

/// Returns whether the kernel has IPv6.
pub(crate) fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

/// Returns a command that runs `argv` inside the namespace. `ip netns exec` shows it the namespace's own `/sys`, then
/// becomes the program, so signals sent to the child reach the program.
pub(crate) fn command<S: AsRef<OsStr>>(namespace: &str, argv: &[S]) -> Result<Command> {
    let mut command = Command::new(find_ip()?);
    command.args(["netns", "exec", namespace]).args(argv);
    Ok(command)
}
