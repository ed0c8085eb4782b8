//! Whether this process is in a network namespace of its own, and how somebody outside gets in: an address of such a
//! namespace is not one of the host's.

use mpps_host::lab;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Folder in which `ip netns` keeps the namespaces that have names.
const NAMED: &str = "/run/netns";

/// Returns the name of the namespace for people, and the words in front of a command that is to run in it. `None`: it
/// is the namespace of the system's first process, or that is not known.
pub(crate) fn way_in() -> Option<(String, String)> {
    let own = identity(Path::new("/proc/self/ns/net"))?;
    let first = identity(Path::new("/proc/1/ns/net"));
    let name = name_of(own);
    let id = std::process::id();
    match first {
        Some(first) if first == own => None,
        // A process that may not ask the first one can know by a name alone.
        None if name.is_none() => None,
        _ => Some(words(name, lab::of_this_namespace(), id)),
    }
}

/// Returns the words of [`way_in`] for a namespace with this name in this lab.
fn words(name: Option<String>, lab: Option<(String, lab::Host)>, id: u32) -> (String, String) {
    let way = match (&name, lab) {
        (_, Some((lab, host))) if lab == lab::DEFAULT_NAME => format!("mpps lab exec {host} --"),
        (_, Some((lab, host))) => format!("mpps lab --name {lab} exec {host} --"),
        (Some(name), None) => format!("ip netns exec {name}"),
        (None, None) => format!("nsenter --net=/proc/{id}/ns/net"),
    };
    let called = match name {
        Some(name) => format!("network namespace {name}"),
        None => format!("the network namespace of process {id}"),
    };
    (called, way)
}

fn name_of(own: (u64, u64)) -> Option<String> {
    let all = fs::read_dir(NAMED).ok()?.flatten();
    let mut same = all.filter(|entry| identity(&entry.path()) == Some(own));
    // The creator of the namespace chose the name; a shell is only given plain names.
    let name = same.next()?.file_name().into_string().ok()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    name.chars().all(plain).then_some(name)
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|of| (of.dev(), of.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_is_entered_by_its_own_command_and_others_by_those_of_the_system() {
        let told = |name: Option<&str>, lab: Option<(&str, lab::Host)>| {
            let lab = lab.map(|(lab, host)| (lab.to_owned(), host));
            words(name.map(str::to_owned), lab, 7)
        };
        let of = |called: &str, way: &str| (called.to_owned(), way.to_owned());
        assert_eq!(
            told(Some("mpps-lab-a"), Some(("mpps-lab", lab::Host::A))),
            of("network namespace mpps-lab-a", "mpps lab exec a --")
        );
        assert_eq!(
            told(Some("two-b"), Some(("two", lab::Host::B))),
            of("network namespace two-b", "mpps lab --name two exec b --")
        );
        assert_eq!(
            told(Some("blue"), None),
            of("network namespace blue", "ip netns exec blue")
        );
        assert_eq!(
            told(None, None),
            of("the network namespace of process 7", "nsenter --net=/proc/7/ns/net")
        );
    }
}
