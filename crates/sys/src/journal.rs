//! Files that say what a process has changed on the host, so that a later one puts it back if this one was killed.
//!
//! Each is written before the change and locked for as long as its process lives: the kernel drops the lock however the
//! process ends. A file that is there and not locked belongs to a process that was killed.

use rustix::fs::{FlockOperation, OFlags, flock};
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A file that this process has locked.
#[derive(Debug)]
pub struct Entry {
    path: PathBuf,
    file: File,
}

impl Entry {
    /// Makes a file whose name begins with `prefix`. It is locked before it has a name that others look for.
    ///
    /// # Errors
    /// When it can't be made or written.
    pub fn create(folder: &Path, prefix: &str, text: &str) -> io::Result<Self> {
        let own = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = folder.join(format!("{prefix}{own}"));
        let file = put(folder, &own, text, &path)?;
        Ok(Self { path, file })
    }

    /// Replaces the text in one step: after a kill the file has either the old text or the new.
    ///
    /// # Errors
    /// When it can't be written: the old text stays.
    pub fn replace(&mut self, text: &str) -> io::Result<()> {
        let own = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        self.file = put(self.folder(), &own, text, &self.path)?;
        Ok(())
    }

    /// Takes over a file; `None`: it is held by its process, or gone, or [no journal](foreign).
    fn take(path: PathBuf) -> Option<Self> {
        // Neither a FIFO nor a link may have come in its place.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let mut options = File::options();
        let file = options.read(true).write(true).custom_flags(flags).open(&path).ok()?;
        if stranger(&file.metadata().ok()?).is_some() {
            return None;
        }
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        // Somebody else may have dealt with it between the two.
        (file.metadata().ok()?.nlink() > 0).then_some(Self { path, file })
    }

    /// Returns the text of the file. A character that a kill has cut in two is replaced by U+FFFD.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn text(&mut self) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.file.rewind()?;
        self.file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Adds text to the end of the file, in one write.
    ///
    /// # Errors
    /// When it can't be written: the old text stays, so that a later addition stands on a line of its own.
    pub fn append(&mut self, text: &str) -> io::Result<()> {
        let end = self.file.seek(io::SeekFrom::End(0))?;
        self.file.write_all(text.as_bytes()).inspect_err(|_| {
            let _ = self.file.set_len(end);
        })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the folder of the file.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// Everything is as it was: removes it.
    pub fn done(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Makes a file with this text, which is locked before it has the name that others look for.
fn put(folder: &Path, own: &str, text: &str, path: &Path) -> io::Result<File> {
    let draft = folder.join(format!("new-{own}"));
    let _ = std::fs::remove_file(&draft);
    let mut file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)?;
    let done = flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(io::Error::from)
        .and_then(|()| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&draft, path));
    done.inspect_err(|_| {
        let _ = std::fs::remove_file(&draft);
    })?;
    Ok(file)
}

/// Returns why this program can't have written a file for this user; `None`: it may have. Whatever the file says is
/// done with all rights of the process that reads it.
fn stranger(file: &Metadata) -> Option<String> {
    let me = rustix::process::geteuid().as_raw();
    match file {
        _ if file.is_symlink() => Some("it is a link".to_owned()),
        _ if !file.is_file() => Some("it is no file".to_owned()),
        _ if file.uid() != me => Some(format!("it belongs to user {}", file.uid())),
        _ if file.nlink() > 1 => Some("it has a second name".to_owned()),
        _ => None,
    }
}

fn named(folder: &Path, prefix: &str) -> impl Iterator<Item = (PathBuf, Metadata)> {
    let all = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named = all.filter(move |entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix)));
    named.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
}

/// Files whose names begin with `prefix`, of living processes and others.
pub fn files(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let own = named(folder, prefix).filter(|(_, file)| stranger(file).is_none());
    own.map(|(path, _)| path).collect()
}

/// Returns files of such a name that are no journal, each with the reason. Nothing is undone by them.
pub fn foreign(folder: &Path, prefix: &str) -> Vec<(PathBuf, String)> {
    named(folder, prefix)
        .filter_map(|(path, file)| Some((path, stranger(&file)?)))
        .collect()
}

/// Takes over the files of processes that were killed; they are this process's from now on.
pub fn abandoned(folder: &Path, prefix: &str) -> Vec<Entry> {
    files(folder, prefix).into_iter().filter_map(Entry::take).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Resource, Rlimit};

    /// A folder that goes with the test.
    struct Own(PathBuf);

    impl Own {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("mpps-sys-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).expect("a folder");
            Self(path)
        }

        fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Own {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_is_its_process_s_while_that_lives_and_anybody_s_afterwards() {
        let folder = std::env::temp_dir().join(format!("mpps-sys-journal-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut own = Entry::create(&folder, "undo-", "one\n").expect("a file");
        assert_eq!(files(&folder, "undo-").len(), 1);
        assert!(abandoned(&folder, "undo-").is_empty());
        own.append("two\n").expect("room");
        assert_eq!(own.text().expect("text"), "one\ntwo\n");
        own.replace("three\n").expect("room");
        assert!(abandoned(&folder, "undo-").is_empty(), "it is locked all the time");
        own.file.write_all(b"fo\xc3").expect("room");
        drop(own);
        let mut left = abandoned(&folder, "undo-");
        assert_eq!(left[0].text().expect("half a character"), "three\nfo\u{fffd}");
        assert!(abandoned(&folder, "undo-").is_empty(), "two menders");
        left.remove(0).done();
        assert!(files(&folder, "undo-").is_empty());
        let _ = std::fs::remove_dir_all(&folder);
    }

    #[test]
    fn what_is_no_file_of_this_user_s_is_no_journal() {
        let folder = Own::new("strangers");
        let path = |name: &str| folder.path().join(name);
        let own = Entry::create(folder.path(), "undo-", "one\n").expect("a file");
        drop(own);
        std::fs::write(path("plain"), "one\n").expect("a file");
        std::os::unix::fs::symlink(path("plain"), path("undo-link")).expect("a link");
        std::os::unix::fs::symlink("/nowhere", path("undo-dangling")).expect("a link");
        std::fs::create_dir(path("undo-folder")).expect("a folder");
        std::fs::hard_link(path("plain"), path("undo-second")).expect("a name");
        rustix::fs::mkfifoat(rustix::fs::CWD, path("undo-fifo"), rustix::fs::Mode::RUSR).expect("a FIFO");
        let mut none = vec!["undo-dangling", "undo-fifo", "undo-folder", "undo-link", "undo-second"];
        if rustix::process::geteuid().is_root() {
            std::fs::write(path("undo-theirs"), "one\n").expect("a file");
            std::os::unix::fs::chown(path("undo-theirs"), Some(65_534), None).expect("root may");
            none.push("undo-theirs");
        }
        let mut told: Vec<_> = foreign(folder.path(), "undo-")
            .into_iter()
            .map(|(path, _)| path)
            .collect();
        told.sort();
        assert_eq!(told, none.iter().map(|name| path(name)).collect::<Vec<_>>());
        assert_eq!(files(folder.path(), "undo-").len(), 1);
        assert!(none.iter().all(|name| Entry::take(path(name)).is_none()));
        assert_eq!(abandoned(folder.path(), "undo-").len(), 1);
    }

    #[test]
    fn what_could_be_added_in_part_only_is_not_there() {
        const ROOM: u64 = 1 << 20;
        let folder = Own::new("full");
        let mut own = Entry::create(folder.path(), "undo-", "one\n").expect("a file");
        own.file.set_len(ROOM - 2).expect("room");
        // The kernel writes as much as may be, and refuses the rest.
        let before = rustix::process::getrlimit(Resource::Fsize);
        // SAFETY: no memory is passed; the signal's action is set before anything can raise it.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        let limit = |current| Rlimit { current, ..before };
        rustix::process::setrlimit(Resource::Fsize, limit(Some(ROOM))).expect("less");
        let refused = own.append("two\n");
        rustix::process::setrlimit(Resource::Fsize, limit(before.current)).expect("as it was");
        assert!(refused.is_err());
        assert_eq!(own.file.metadata().expect("a file").len(), ROOM - 2);
        own.append("three\n").expect("room");
        assert!(own.text().expect("text").ends_with("\0three\n"));
    }
}
