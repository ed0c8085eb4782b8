//! Capabilities: those that the paths need, and the way in which a process gets them here.
//!
//! `setcap` can't give a capability that the bounding set lacks: if a file's capabilities go beyond the bounding set,
//! the kernel refuses to start the file at all (capabilities(7), "Safety checking for capability-dumb binaries"). Other
//! advice is then needed.

use std::path::Path;

/// Capabilities that the paths need beyond sockets, in the order of the advice: name without `CAP_`, number of
/// `linux/capability.h`.
const NEEDED: [(&str, u32); 5] = [
    ("NET_RAW", 13),
    ("NET_ADMIN", 12),
    ("BPF", 39),
    ("PERFMON", 38),
    ("IPC_LOCK", 14),
];

/// Way to get the capabilities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// `setcap` on the program.
    SetCap,
    /// Start the container with the capabilities.
    Container {
        /// Capabilities that its bounding set lacks.
        lacks: String,
    },
    /// Start the session or service with the capabilities.
    Session {
        /// Capabilities that its bounding set lacks.
        lacks: String,
    },
}

impl Way {
    /// Finds the way, from `/proc/self/status` and whether this is a container.
    pub(crate) fn of(status: &str, container: bool) -> Self {
        let Some(bounding) = set(status, "CapBnd:") else {
            return Self::SetCap;
        };
        let lacks: Vec<_> = NEEDED
            .iter()
            .filter(|(_, number)| bounding >> number & 1 == 0)
            .collect();
        if lacks.is_empty() {
            return Self::SetCap;
        }
        let lacks = lacks
            .iter()
            .map(|(name, _)| format!("CAP_{name}"))
            .collect::<Vec<_>>()
            .join(", ");
        match container {
            true => Self::Container { lacks },
            false => Self::Session { lacks },
        }
    }

    /// Returns the command for a root shell; for a container, the command on its host. Empty if there is none. With
    /// `setcap` only the members of a group may run the program. It comes last, because a change of the group removes
    /// capabilities.
    pub(crate) fn command(&self, program: &str) -> String {
        match self {
            Self::SetCap => {
                let names: Vec<_> = NEEDED
                    .iter()
                    .map(|(name, _)| format!("cap_{}", name.to_lowercase()))
                    .collect();
                format!(
                    "groupadd -f mpps && chgrp mpps {program} && chmod 0750 {program} && setcap {}+ep {program}",
                    names.join(",")
                )
            }
            Self::Container { .. } => format!("docker run {} …", add_options()),
            Self::Session { .. } => String::new(),
        }
    }

    /// Returns the reason why `setcap` does not help; empty if it does.
    pub(crate) fn why_not_setcap(&self) -> String {
        let (what, lacks) = match self {
            Self::SetCap => return String::new(),
            Self::Container { lacks } => ("container", lacks),
            Self::Session { lacks } => ("session", lacks),
        };
        format!("the bounding set of this {what} lacks {lacks}, so that no program in it can have them")
    }

    /// Returns what to start instead; empty if `setcap` helps.
    pub(crate) fn remedy(&self) -> String {
        match self {
            Self::SetCap => String::new(),
            Self::Container { .. } => format!("start the container with {}", add_options()),
            Self::Session { .. } => {
                "start mpps from a session or service that has them (systemd: CapabilityBoundingSet=)".to_owned()
            }
        }
    }
}

/// Returns the options of `docker run` and `podman run`.
fn add_options() -> String {
    let options: Vec<_> = NEEDED.iter().map(|(name, _)| format!("--cap-add {name}")).collect();
    options.join(" ")
}

/// Returns a set of capabilities in `/proc/PID/status`, by its key with the colon.
fn set(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Returns whether a tree of files is that of a container, by the files that runtimes leave in it. `cgroup` is
/// `/proc/1/cgroup`.
pub(crate) fn is_container(exists: impl Fn(&str) -> bool, cgroup: &str) -> bool {
    const MARKS: [&str; 5] = ["docker", "kubepods", "containerd", "/lxc", "libpod"];
    exists("/.dockerenv") || exists("/run/.containerenv") || MARKS.iter().any(|mark| cgroup.contains(mark))
}

/// Returns the reason why the advice to use `setcap`, which errors of the paths give, would not help this process, and
/// other advice that would. `None`: `setcap` helps.
pub fn why_not_setcap() -> Option<String> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let container = is_container(|path| Path::new(path).exists(), &read("/proc/1/cgroup"));
    match Way::of(&read("/proc/self/status"), container) {
        Way::SetCap => None,
        way => Some(format!("{}: {}", way.why_not_setcap(), way.remedy())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setcap_is_advised_only_where_the_bounding_set_has_all_of_it() {
        let all = "CapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\n";
        let way = Way::of(all, true);
        assert_eq!(way, Way::SetCap);
        assert_eq!(
            way.command("mpps"),
            "groupadd -f mpps && chgrp mpps mpps && chmod 0750 mpps && \
             setcap cap_net_raw,cap_net_admin,cap_bpf,cap_perfmon,cap_ipc_lock+ep mpps"
        );
        assert_eq!(way.why_not_setcap(), "");
        // What Docker gives: NET_RAW, but none of the others.
        let docker = "CapBnd:\t00000000a80425fb\n";
        let Way::Container { lacks } = Way::of(docker, true) else {
            panic!("a container")
        };
        assert_eq!(lacks, "CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON, CAP_IPC_LOCK");
        let way = Way::of("CapBnd:\t0000000000000000\n", false);
        assert!(matches!(&way, Way::Session { lacks } if lacks.starts_with("CAP_NET_RAW, ")));
        assert_eq!(way.command("mpps"), "");
        assert_eq!(Way::of("", true), Way::SetCap);
    }

    #[test]
    fn a_container_is_known_by_what_its_runtime_leaves() {
        let none = |_: &str| false;
        assert!(is_container(|path| path == "/.dockerenv", ""));
        assert!(is_container(|path| path == "/run/.containerenv", ""));
        assert!(is_container(none, "0::/kubepods.slice/pod1"));
        assert!(!is_container(none, "0::/init.scope"));
    }
}
