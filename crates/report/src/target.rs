//! A file that is written in one piece at the end of a run, though the run must know at its start that it can be.

use crate::output::{Output, Progress};
use crate::{ReportError, lock};
use mpps_sys::private;
use rustix::fs::OFlags;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a pipe's reader may take nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// How to put the bytes there.
#[derive(Debug)]
enum Way {
    /// A new file beside it, then renamed over it: readers see the old contents or the new, never half.
    Rename(PathBuf),
    /// Over what is there: its directory can't be written.
    InPlace,
    /// A pipe, a device, standard output.
    Stream,
}

/// A file to be written at the end; that it can be was checked at the start, without touching an earlier file.
#[derive(Debug)]
pub struct JsonTarget {
    path: PathBuf,
    way: Way,
    /// An earlier file, kept from other runs until this one has written.
    locked: Option<File>,
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
        };
        if path == Path::new("-") {
            return Ok(target(Way::Stream));
        }
        private::check(path).map_err(error)?;
        let (place, locked) = match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => return Err(error(io::ErrorKind::IsADirectory.into())),
            Ok(meta) if !meta.is_file() => {
                rustix::fs::access(path, rustix::fs::Access::WRITE_OK).map_err(|e| error(e.into()))?;
                return Ok(target(Way::Stream));
            }
            Ok(_) => {
                let file = File::options().write(true).open(path).map_err(error)?;
                lock::take(&file, path).map_err(error)?;
                // The file a symbolic link points to is the one to replace, not the link.
                (std::fs::canonicalize(path).map_err(error)?, Some(file))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => (path.to_owned(), None),
            Err(e) => return Err(error(e)),
        };
        match tempfile::tempfile_in(directory(&place)) {
            Ok(_) => Ok(Self {
                locked,
                ..target(Way::Rename(place))
            }),
            Err(_) if locked.is_some() => Ok(Self {
                locked,
                ..target(Way::InPlace)
            }),
            Err(e) => Err(error(e)),
        }
    }

    /// Whether somebody else has written the file since [`JsonTarget::prepare`]: writing replaces that.
    pub fn overtaken(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        let Way::Rename(place) = &self.way else { return false };
        let file = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
        let ours = self.locked.as_ref().and_then(|f| f.metadata().ok()).map(file);
        std::fs::metadata(place)
            .ok()
            .map(file)
            .is_some_and(|now| ours != Some(now))
    }

    /// Writes the summary of a run.
    ///
    /// # Errors
    /// When the file can't be written; an earlier file is then as it was, where its directory allows that.
    pub fn write(&self, summary: &mpps_stats::Summary) -> Result<(), ReportError> {
        self.write_bytes(crate::json::text(summary).as_bytes())
    }

    pub(crate) fn write_bytes(&self, bytes: &[u8]) -> Result<(), ReportError> {
        let result = match &self.way {
            Way::Rename(place) => replace(place, bytes),
            Way::InPlace => private::create(&self.path, OFlags::empty()).and_then(|mut file| file.write_all(bytes)),
            Way::Stream => return stream(&self.path, bytes),
        };
        result.map_err(|e| ReportError::io("write", &self.path, e))
    }
}

fn directory(path: &Path) -> &Path {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

fn replace(place: &Path, bytes: &[u8]) -> io::Result<()> {
    // Somebody may have put a link into the way since the start.
    private::check(place)?;
    // As open(2) would make it: 0666 less the umask, unless a file is there whose permissions stay.
    let new = Permissions::from_mode(0o666);
    let mut file = tempfile::Builder::new()
        .prefix(".mpps-")
        .permissions(new)
        .tempfile_in(directory(place))?;
    file.write_all(bytes)?;
    if let Ok(meta) = std::fs::metadata(place) {
        file.as_file().set_permissions(meta.permissions())?;
    }
    file.persist(place).map(drop).map_err(|e| e.error)
}

fn stream(path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    let error = |e: io::Error| ReportError::io("write", path, e);
    let mut output = Output::open(path)?;
    let (mut rest, mut since) = (bytes, Instant::now());
    while !rest.is_empty() {
        let progress = match output.write(rest, Duration::from_millis(100)) {
            // `| head`: the reader had all that it wanted.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe && path == Path::new("-") => return Ok(()),
            other => other.map_err(error)?,
        };
        match progress {
            Progress::Took(n) => (rest, since) = (&rest[n..], Instant::now()),
            Progress::NotReady if since.elapsed() < PATIENCE => {}
            Progress::NotReady => return Err(error(io::Error::other("nobody read for 10 s"))),
        }
    }
    Ok(())
}
