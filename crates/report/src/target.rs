//! A file that is written in one piece at the end of a run. The run checks at its start that this is possible.

use crate::error::reason;
use crate::output::{Output, Progress, Waiting};
use crate::{ReportError, lock};
use mpps_sys::private;
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait for a pipe's reader that takes nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// Way to write the file.
#[derive(Debug)]
enum Way {
    /// Writes a new file beside it, then renames that over it: readers see the old contents or the new, never half.
    Rename(private::Place),
    /// Writes over the old contents, because no file can be put beside it, for this reason.
    InPlace(private::Place, io::Error),
    /// Writes to a pipe, a device or standard output.
    Stream,
}

/// A file to be written at the end. The start has checked that it can be written, without touching an earlier file.
#[derive(Debug)]
pub struct JsonTarget {
    path: PathBuf,
    way: Way,
    /// An earlier file, locked against other runs until this run has written.
    locked: Option<File>,
    /// Permissions of the file, whatever the umask and an earlier file's permissions are; `None`: the usual ones.
    mode: Option<u32>,
}

impl JsonTarget {
    /// Checks that `path` (`-`: standard output) can be written. An earlier file keeps its contents until
    /// [`JsonTarget::write`].
    ///
    /// # Errors
    /// When the file or its directory can't be written, or somebody else may have put it there.
    pub fn prepare(path: &Path) -> Result<Self, ReportError> {
        let error = |e: io::Error| ReportError::io("open for writing", path, e);
        let target = |way| Self {
            path: path.to_owned(),
            way,
            locked: None,
            mode: None,
        };
        if path == Path::new("-") {
            return Ok(target(Way::Stream));
        }
        let Some(place) = private::Place::find(path).map_err(error)? else {
            return Ok(target(Way::Stream));
        };
        let locked = match place.look().map_err(error)? {
            Some(there) if there.folder => return Err(error(io::ErrorKind::IsADirectory.into())),
            Some(there) if there.socket => return Err(error(rustix::io::Errno::NXIO.into())),
            Some(there) if !there.regular => {
                rustix::fs::access(path, rustix::fs::Access::WRITE_OK).map_err(|e| error(e.into()))?;
                return Ok(target(Way::Stream));
            }
            Some(_) => {
                let file = place.open(OFlags::empty()).map_err(error)?;
                lock::take(&file, path).map_err(error)?;
                Some(file)
            }
            None => None,
        };
        let way = match place.try_draft() {
            Ok(()) => Way::Rename(place),
            Err(e) if locked.is_some() => Way::InPlace(place, e),
            Err(e) => return Err(error(e)),
        };
        Ok(Self { locked, ..target(way) })
    }

    /// Lets everybody read the file: a collector of another user reads it.
    pub fn for_everybody(self) -> Self {
        Self {
            mode: Some(0o644),
            ..self
        }
    }

    /// Returns whether somebody else has written the file since [`JsonTarget::prepare`]: writing replaces their
    /// contents.
    pub fn overtaken(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        let Way::Rename(place) = &self.way else { return false };
        let ours = self.locked.as_ref().and_then(|f| f.metadata().ok());
        let ours = ours.map(|meta| (meta.dev(), meta.ino()));
        matches!(place.look(), Ok(Some(there)) if ours != Some(there.id))
    }

    /// Returns whether the target is a file: not a pipe, a device, or standard output.
    pub fn is_file(&self) -> bool {
        !matches!(self.way, Way::Stream)
    }

    /// Returns the reason why readers may see half of the file, in place of the old contents or the new; `None`: they
    /// never do.
    pub fn halves(&self) -> Option<String> {
        match &self.way {
            Way::Rename(_) => None,
            Way::InPlace(_, error) => Some(format!("no file can be put beside it: {}", reason(error))),
            Way::Stream => Some("it is no file".to_owned()),
        }
    }

    /// Writes the summary of a run.
    ///
    /// # Errors
    /// When the file can't be written. An earlier file then stays as it was, if its directory allows that.
    pub fn write(&self, summary: &mpps_stats::Summary) -> Result<(), ReportError> {
        self.write_bytes(crate::json_text(summary).as_bytes())
    }

    /// Writes any text.
    ///
    /// # Errors
    /// Same as [`JsonTarget::write`].
    pub fn write_text(&self, text: &str) -> Result<(), ReportError> {
        self.write_bytes(text.as_bytes())
    }

    /// Writes a text that readers take for the state of a run. If there is no room for it, the file is removed: an
    /// earlier run's text would be wrong.
    ///
    /// # Errors
    /// Same as [`JsonTarget::write`].
    pub fn write_state(&self, text: &str) -> Result<(), ReportError> {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let written = self.write_text(text);
        if let Err(ReportError::Io { source, .. }) = &written
            && matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge)
            && let Way::Rename(place) | Way::InPlace(place, _) = &self.way
        {
            // If the file can't be removed, it stays.
            let _ = place.remove();
        }
        written
    }

    /// Writes any bytes.
    ///
    /// # Errors
    /// Same as [`JsonTarget::write`].
    pub fn write_bytes(&self, bytes: &[u8]) -> Result<(), ReportError> {
        let result = match &self.way {
            Way::Rename(place) => place.replace_with_mode(bytes, self.mode),
            Way::InPlace(place, _) => place.open(OFlags::empty()).and_then(|mut file| {
                file.set_len(0)?;
                file.write_all(bytes)
            }),
            Way::Stream => return stream(&self.path, bytes),
        };
        result.map_err(|e| ReportError::io("write", &self.path, e))
    }
}

fn stream(path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    let name = match path == Path::new("-") {
        true => Path::new("standard output"),
        false => path,
    };
    let error = |e: io::Error| ReportError::io("write", name, e);
    let mut output = Output::open(path)?;
    output.empty().map_err(error)?;
    let (mut rest, mut waiting) = (bytes, Waiting::begin(PATIENCE));
    while !rest.is_empty() {
        let progress = match output.write(rest, Duration::from_millis(100)) {
            // With `| head` the reader has had all that it wanted.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe && path == Path::new("-") => return Ok(()),
            other => other.map_err(error)?,
        };
        match progress {
            Progress::Took(n) => {
                rest = &rest[n..];
                waiting.progress();
            }
            Progress::NotReady => {
                if let Some(waited) = waiting.over(output.unread()) {
                    let told = format!("nobody read for {:.0} s", waited.as_secs_f64());
                    return Err(error(io::Error::other(told)));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_never_be_opened_is_refused_before_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(JsonTarget::prepare(&path).is_err());
        assert!(JsonTarget::prepare(folder.path()).is_err());
        JsonTarget::prepare(&folder.path().join("new")).unwrap();
    }
}
