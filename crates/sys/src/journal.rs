//! Files that say what a process has changed on the host, so that a later one puts it back where this one was killed.
//!
//! Each is written before the change and locked for as long as its process lives: the kernel drops the lock however the
//! process ends. A file that is there and not locked belongs to a process that was killed.

use rustix::fs::{FlockOperation, flock};
use std::fs::File;
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

    /// Has it say something else, in one step: after a kill it says the one or the other.
    ///
    /// # Errors
    /// When it can't be written: it says what it said.
    pub fn replace(&mut self, text: &str) -> io::Result<()> {
        let own = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        self.file = put(self.folder(), &own, text, &self.path)?;
        Ok(())
    }

    /// Takes over a file; `None`: it is held by its process, or gone.
    fn take(path: PathBuf) -> Option<Self> {
        let file = File::options().read(true).write(true).open(&path).ok()?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        // Somebody else may have dealt with it between the two.
        (file.metadata().ok()?.nlink() > 0).then_some(Self { path, file })
    }

    /// What it says now. A kill may have cut its end off within a character, which is then none.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn text(&mut self) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.file.rewind()?;
        self.file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Adds to its end, in one write.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn append(&mut self, text: &str) -> io::Result<()> {
        self.file.seek(io::SeekFrom::End(0))?;
        self.file.write_all(text.as_bytes())
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder that it lies in.
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

/// Files whose names begin with `prefix`, of living processes and others.
pub fn files(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let all = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named = all.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix)));
    named.map(|entry| entry.path()).collect()
}

/// Those of processes that were killed; they are this process's from now on.
pub fn abandoned(folder: &Path, prefix: &str) -> Vec<Entry> {
    files(folder, prefix).into_iter().filter_map(Entry::take).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
