//! Names of the lab's objects: pure, so that one place decides which objects are the lab's.
//!
//! A namespace is the lab's when its loopback device carries the lab's mark as its alias. Making a namespace and
//! marking it are two steps, so it is made and marked under a working name that nobody else uses, and only then
//! given its final name: a namespace of the final name is marked from its first moment, and what a killed run leaves
//! under a working name is known to be ours by that name alone.

use super::error::{LabError, Result};

/// Prefix of the alias that marks objects of the lab.
pub(crate) const MARK: &str = "mpps-lab";
/// Text between a final name and a random token in working names. Lab names contain no dot, so nothing else matches.
const WORKING: &str = ".mpps-";
/// Prefix of the labs that tests and the demo make for themselves.
pub(crate) const SCRATCH: &str = "mpps-scratch-";

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Host {
    /// Host a: 10.99.0.1, fd99::1.
    A,
    /// Host b: 10.99.0.2, fd99::2.
    B,
}

impl Host {
    /// Both hosts, in order.
    pub const ALL: [Host; 2] = [Host::A, Host::B];

    /// Returns `a` or `b`.
    pub fn letter(self) -> char {
        match self {
            Host::A => 'a',
            Host::B => 'b',
        }
    }

    /// Returns the host's IPv4 address on `eth1`.
    pub fn ipv4(self) -> &'static str {
        match self {
            Host::A => "10.99.0.1",
            Host::B => "10.99.0.2",
        }
    }

    /// Returns the host's IPv6 address on `eth1`.
    pub fn ipv6(self) -> &'static str {
        match self {
            Host::A => "fd99::1",
            Host::B => "fd99::2",
        }
    }

    /// Returns the MAC address of the host's `eth1`: locally administered, the same in every lab.
    pub fn mac(self) -> &'static str {
        match self {
            Host::A => "02:6d:70:70:73:01",
            Host::B => "02:6d:70:70:73:02",
        }
    }
}

impl std::str::FromStr for Host {
    type Err = LabError;

    fn from_str(s: &str) -> Result<Self> {
        match s {
            "a" => Ok(Host::A),
            "b" => Ok(Host::B),
            _ => Err(LabError::BadHost { host: s.to_owned() }),
        }
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.letter())
    }
}

/// Refuses names that would not be safe as part of a file name or could be taken for a working name.
pub(crate) fn check(name: &str) -> Result<()> {
    let ok = (1..=40).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if ok {
        Ok(())
    } else {
        Err(LabError::BadName { name: name.to_owned() })
    }
}

/// Returns the namespace of one host of the lab.
pub(crate) fn namespace(name: &str, host: Host) -> String {
    format!("{name}-{}", host.letter())
}

/// Returns the alias that marks the namespace's loopback device, and the interface.
pub(crate) fn mark(name: &str, host: Host) -> String {
    format!("{MARK} {}", namespace(name, host))
}

/// Returns the lab and the host of a namespace with this mark.
pub(crate) fn of_mark(mark: &str) -> Option<(String, Host)> {
    let namespace = mark.trim_end().strip_prefix(MARK)?.strip_prefix(' ')?;
    let host = Host::ALL
        .into_iter()
        .find(|host| namespace.ends_with(&format!("-{host}")))?;
    let name = lab_of_namespace(namespace)?;
    check(name).is_ok().then(|| (name.to_owned(), host))
}

/// Returns a working name for the namespace of one host.
pub(crate) fn working(name: &str, host: Host, token: u64) -> String {
    format!("{}{WORKING}{token:016x}", namespace(name, host))
}

/// Returns whether `candidate` is a working name of the lab `name`.
pub(crate) fn is_working(name: &str, candidate: &str) -> bool {
    lab_of_working(candidate) == Some(name)
}

/// Returns the lab to which a working name belongs.
fn lab_of_working(candidate: &str) -> Option<&str> {
    let (namespace, token) = candidate.split_once(WORKING)?;
    let hex = token.len() == 16 && token.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if hex { lab_of_namespace(namespace) } else { None }
}

fn lab_of_namespace(namespace: &str) -> Option<&str> {
    namespace.strip_suffix("-a").or_else(|| namespace.strip_suffix("-b"))
}

/// Process that owns a scratch lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The PID namespace in which the process id holds: its inode number. Network namespaces lie in a folder that
    /// containers may share, and elsewhere the id is another process's or nobody's.
    pub(crate) pid_namespace: u32,
    pub(crate) pid: u32,
    /// Start of the process, ticks since boot: process ids are used again.
    pub(crate) started: u64,
}

/// Inode number of the host's own PID namespace; others have numbers that follow. Source: `include/uapi/linux/nsfs.h`
/// (`PID_NS_INIT_INO`).
pub(crate) const HOSTS_PID_NAMESPACE: u32 = 0xeffffffc;

/// Returns the name of a scratch lab: its owner, and a number. Numbers are in hexadecimal, and the namespace as a
/// distance, so that the name stays below the longest name that a lab can have.
pub(crate) fn scratch(owner: Owner, number: u32) -> String {
    let namespace = owner.pid_namespace.wrapping_sub(HOSTS_PID_NAMESPACE);
    format!("{SCRATCH}{namespace:x}-{:x}-{:x}-{number}", owner.pid, owner.started)
}

/// Returns the scratch lab to which a namespace (under its final or a working name) belongs: its name, and its owner.
pub(crate) fn scratch_owner(candidate: &str) -> Option<(&str, Owner)> {
    let name = lab_of_working(candidate).or_else(|| lab_of_namespace(candidate))?;
    let mut parts = name.strip_prefix(SCRATCH)?.split('-');
    let owner = Owner {
        pid_namespace: u32::from_str_radix(parts.next()?, 16)
            .ok()?
            .wrapping_add(HOSTS_PID_NAMESPACE),
        pid: u32::from_str_radix(parts.next()?, 16).ok()?,
        started: u64::from_str_radix(parts.next()?, 16).ok()?,
    };
    let _number: u32 = parts.next()?.parse().ok()?;
    match parts.next() {
        Some(_) => None,
        None => Some((name, owner)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_the_directory_or_pass_for_an_option_are_refused() {
        for bad in ["", "-x", "..", "a/b", "a.b", "a b", "ä", &"x".repeat(41)] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
        for good in ["mpps-lab", "x", "Lab_2", &"x".repeat(40)] {
            assert!(check(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn a_working_name_belongs_to_its_lab_and_to_no_other() {
        let w = working("lab", Host::A, 0xabc);
        assert!(is_working("lab", &w));
        assert!(!is_working("la", &w));
        assert!(!is_working("lab-a", &w));
        assert!(!is_working("lab", "lab-a"));
        assert!(!is_working("lab", "lab-a.mpps-12"));
        assert!(!is_working("lab", "lab-c.mpps-0000000000000abc"));
    }

    #[test]
    fn a_scratch_lab_names_its_owner_under_every_name_it_can_have() {
        let owner = Owner {
            pid_namespace: HOSTS_PID_NAMESPACE + 700,
            pid: 17,
            started: 4242,
        };
        let name = scratch(owner, 3);
        assert!(check(&name).is_ok());
        let longest = Owner {
            pid_namespace: HOSTS_PID_NAMESPACE.wrapping_add(0xff_ffff),
            pid: 4_194_304,
            started: 9_999_999_999,
        };
        assert!(
            check(&scratch(longest, 999)).is_ok(),
            "largest process id, three years of ticks"
        );
        assert_eq!(scratch_owner(&namespace(&name, Host::B)), Some((name.as_str(), owner)));
        assert_eq!(scratch_owner(&working(&name, Host::A, 9)), Some((name.as_str(), owner)));
        assert_eq!(scratch_owner("mpps-lab-a"), None);
        assert_eq!(scratch_owner("mpps-scratch-17-a"), None);
    }
}
