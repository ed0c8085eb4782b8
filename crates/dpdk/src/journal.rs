//! Changes that a run makes on an interface that stays, and how they are undone, by a later run if need be.
//!
//! Before each change a file is written ([`mpps_sys::journal`]). If a run was killed, the next one restores the
//! interface, unless somebody has changed it since.

use mpps_netdev::{NetDev, netns_cookie, set_mtu};
use mpps_sys::journal::{Entry, abandoned, files};
use mpps_sys::private;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

/// How the names of such files begin.
const PREFIX: &str = "undo-";

/// An MTU that was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    /// The network namespace in which the index means something: its cookie, which no other ever has. (The number of
    /// its inode goes to the next that is made.)
    namespace: u64,
    ifindex: u32,
    before: u32,
    set: u32,
    name: String,
}

impl Change {
    fn line(&self) -> String {
        let Self {
            namespace,
            ifindex,
            before,
            set,
            name,
        } = self;
        format!("mtu {namespace} {ifindex} {before} {set} {name}\n")
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_once('\n')?.0.strip_prefix("mtu ")?.split(' ');
        Some(Self {
            namespace: words.next()?.parse().ok()?,
            ifindex: words.next()?.parse().ok()?,
            before: words.next()?.parse().ok()?,
            set: words.next()?.parse().ok()?,
            name: words.next()?.to_owned(),
        })
    }

    /// Puts the MTU back. Returns false if the interface has another MTU than the one set here, or is gone. Then
    /// another run is made to restore the MTU: one whose file lies in `folder`, and which found the interface as this
    /// run had set it.
    fn end(&self, folder: &Path) -> io::Result<bool> {
        let undone = self.undo()?;
        if !undone {
            self.hand_over(folder);
        }
        Ok(undone)
    }

    /// Another change of the same interface may be waiting to restore the value that this one had set. It shall restore
    /// the value from before both.
    fn hand_over(&self, folder: &Path) {
        for entry in files(folder, PREFIX) {
            let Ok(mut file) = File::options().read(true).write(true).open(entry) else {
                continue;
            };
            if let Some(mut other) = read(&mut file)
                && (other.namespace, other.ifindex, other.before) == (self.namespace, self.ifindex, self.set)
            {
                other.before = self.before;
                // In one write; what a longer line leaves behind it is read by nobody.
                let line = other.line();
                let written = file.rewind().and_then(|()| file.write_all(line.as_bytes()));
                let _ = written.and_then(|()| file.set_len(line.len() as u64));
            }
        }
    }

    /// Puts the MTU back. Returns false if the interface has another MTU than the one set here, or is gone.
    fn undo(&self) -> io::Result<bool> {
        match NetDev::by_index(self.ifindex) {
            Ok(device) if device.mtu == self.set as usize => set_mtu(self.ifindex, self.before).map(|()| true),
            Ok(_) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Reads the change that a file records; `None`: half a line, or nothing.
fn read(file: &mut File) -> Option<Change> {
    let mut line = String::new();
    file.rewind().and_then(|()| file.read_to_string(&mut line)).ok()?;
    Change::parse(&line)
}

/// An MTU that is put back when this is dropped, or by a later run.
#[derive(Debug)]
pub(crate) struct MtuChange {
    change: Change,
    /// `None`: it was put back.
    entry: Option<Entry>,
}

impl MtuChange {
    /// Remembers the MTU of an interface, which is about to become `set`.
    ///
    /// # Errors
    /// When the file can't be written.
    pub(crate) fn remember(device: &NetDev, set: u16) -> io::Result<Self> {
        let change = Change {
            // A kernel without cookies (before 5.14): no later run can find the namespace, so none puts the MTU back.
            namespace: netns_cookie().unwrap_or(0),
            ifindex: device.ifindex,
            before: device.mtu as u32,
            set: u32::from(set),
            name: device.name.clone(),
        };
        let folder = private::runtime_folder()?;
        let entry = Some(Entry::create(&folder, PREFIX, &change.line())?);
        Ok(Self { change, entry })
    }
}

impl Drop for MtuChange {
    fn drop(&mut self) {
        // An MTU that can't be put back now is left to a later run. Another run that has ended may have written into
        // this file the MTU from before both.
        let Some(mut entry) = self.entry.take() else { return };
        let told = entry.text().ok().and_then(|text| Change::parse(&text));
        let change = told.unwrap_or_else(|| self.change.clone());
        if change.end(entry.folder()).is_ok() {
            entry.done();
        }
    }
}

/// Puts back what runs that were killed have left changed on interfaces of this network namespace. A line for each.
pub fn mend() -> Vec<String> {
    let folder = private::runtime_path();
    match netns_cookie() {
        Ok(here) if private::is_own_folder(&folder) => mend_in(&folder, here),
        _ => Vec::new(),
    }
}

fn mend_in(folder: &Path, here: u64) -> Vec<String> {
    let mut told = Vec::new();
    for mut entry in abandoned(folder, PREFIX) {
        // Half a line, or nothing.
        let Some(change) = entry.text().ok().and_then(|text| Change::parse(&text)) else {
            entry.done();
            continue;
        };
        // Another namespace's, whose turn comes when a run is started there.
        if change.namespace != here {
            continue;
        }
        let Change { name, before, set, .. } = &change;
        match change.end(folder) {
            Ok(undone) => {
                entry.done();
                if undone {
                    told.push(format!(
                        "{name}: MTU set back to {before}: a run that was killed left it at {set}"
                    ));
                }
            }
            Err(error) => told.push(format!(
                "{name}: a run that was killed left its MTU at {set}; set it back to {before}: {error}: want \
                 `ip link set {name} mtu {before}` as root"
            )),
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FlockOperation, flock};

    #[test]
    fn a_change_is_read_as_it_was_written_and_half_a_line_is_none() {
        let change = Change {
            namespace: 4_026_531_840,
            ifindex: 7,
            before: 1500,
            set: 1400,
            name: "eth1".to_owned(),
        };
        assert_eq!(Change::parse(&change.line()), Some(change.clone()));
        assert_eq!(Change::parse(change.line().trim_end()), None);
    }

    #[test]
    fn a_change_over_another_ones_is_put_back_to_what_was_before_both_whoever_ends_first() {
        let folder = std::env::temp_dir().join(format!("mpps-journal-over-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        // No interface has these indices.
        let change = |ifindex, before, set| Change {
            namespace: 5,
            ifindex,
            before,
            set,
            name: "none".to_owned(),
        };
        let (first, second) = (change(u32::MAX >> 1, 1500, 900), change(u32::MAX >> 1, 900, 1300));
        let stranger = change(u32::MAX >> 2, 900, 1300);
        for (name, change) in [("undo-1", &first), ("undo-2", &second), ("undo-3", &stranger)] {
            std::fs::write(folder.join(name), change.line()).expect("a file");
        }
        // The first one was killed, the others go on.
        let lock = |name: &str| {
            let living = File::open(folder.join(name)).expect("a file");
            flock(&living, FlockOperation::NonBlockingLockExclusive).expect("free");
            living
        };
        let living = ["undo-2", "undo-3"].map(lock);
        assert_eq!(mend_in(&folder, 5), Vec::<String>::new());
        assert!(!folder.join("undo-1").exists());
        let told = living.map(|mut file| read(&mut file).expect("a change").before);
        assert_eq!(told, [1500, 900]);
        let _ = std::fs::remove_dir_all(&folder);
    }

    #[test]
    fn what_belongs_to_a_living_run_or_another_namespace_stays() {
        let folder = std::env::temp_dir().join(format!("mpps-journal-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let change = |namespace, ifindex| Change {
            namespace,
            ifindex,
            before: 1,
            set: 2,
            name: "none".to_owned(),
        };
        // No interface has this index.
        for (name, change) in [
            ("undo-1", change(5, u32::MAX >> 1)),
            ("undo-2", change(6, 1)),
            ("undo-3", change(5, 1)),
        ] {
            std::fs::write(folder.join(name), change.line()).expect("a file");
        }
        std::fs::write(folder.join("other"), "").expect("a file");
        let living = File::open(folder.join("undo-3")).expect("a file");
        flock(&living, FlockOperation::NonBlockingLockExclusive).expect("free");
        assert_eq!(mend_in(&folder, 5), Vec::<String>::new());
        let there = |name: &str| folder.join(name).exists();
        assert_eq!(
            ["undo-1", "undo-2", "undo-3", "other"].map(there),
            [false, true, true, true]
        );
        let _ = std::fs::remove_dir_all(&folder);
    }
}
