//! A file that rows are streamed to: a regular file, standard output, a FIFO, a device.
//!
//! Writes never wait longer than requested. A descriptor that could block is polled first, and then gets no more bytes
//! than a pipe takes at once (`pipe(7)`: a writable pipe has room for `PIPE_BUF` bytes). So the writing thread can look
//! after its backlog while a reader sleeps.

use crate::{ReportError, lock};
use mpps_sys::private;
use mpps_sys::signal::interruptions;
use mpps_sys::stdio::stdout_is_closed;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Access, OFlags};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// `PIPE_BUF` of `linux/limits.h`.
const PIPE_BUF: usize = 4096;

/// Longest wait at the end of an interrupted run for the first reader of a FIFO.
const FIRST_READER: Duration = Duration::from_secs(1);

/// Wait of a run's end for readers.
pub(crate) struct Waiting {
    since: Instant,
    patience: Duration,
    /// Number of interruptions before the wait began.
    asked: u32,
}

impl Waiting {
    /// Begins the wait now.
    pub(crate) fn begin(patience: Duration) -> Self {
        Self {
            since: Instant::now(),
            patience,
            asked: interruptions(),
        }
    }

    /// Begins the wait again: a reader has taken something.
    pub(crate) fn progress(&mut self) {
        self.since = Instant::now();
    }

    /// Returns the time since anybody read, if that is long enough to give up. `unread` stands for a FIFO that nobody
    /// has opened. Another interruption ends the wait at once.
    pub(crate) fn over(&self, unread: bool) -> Option<Duration> {
        let now = interruptions();
        let patience = match unread && now > 0 {
            true => self.patience.min(FIRST_READER),
            false => self.patience,
        };
        let waited = self.since.elapsed();
        (waited >= patience || now > self.asked).then_some(waited)
    }
}

/// Result of an attempt to write.
pub(crate) enum Progress {
    /// Number of bytes taken.
    Took(usize),
    /// The reader is not ready.
    NotReady,
}

/// Most attempts to open a file that another run has removed in the meantime.
const MOST_TRIES: u32 = 8;

/// An open output, or a FIFO that waits for its reader.
pub(crate) struct Output {
    path: PathBuf,
    file: Option<File>,
    regular: bool,
    /// Whether this is standard output and the program was started without it.
    closed: bool,
    /// Place of a file that was made by opening it.
    made: Option<private::Place>,
    /// Bytes written.
    written: u64,
}

impl Output {
    /// Opens `path`; `-` is standard output. A FIFO is opened once somebody reads it. The contents of a file stay until
    /// [`Output::empty`]: a run that never begins leaves an earlier run's results alone.
    ///
    /// # Errors
    /// When the file can't be written, somebody else may have put it there ([`private::create`]), or another run writes
    /// it. In the last case the other run's rows stay as they are.
    pub(crate) fn open(path: &Path) -> Result<Self, ReportError> {
        let error = |e: io::Error| ReportError::io("open for writing", path, e);
        let output = |file, regular| Self {
            path: path.to_owned(),
            file,
            regular,
            closed: false,
            made: None,
            written: 0,
        };
        if path == Path::new("-") {
            let stdout = io::stdout().as_fd().try_clone_to_owned().map_err(error)?;
            return Ok(Self {
                closed: stdout_is_closed(),
                ..output(Some(File::from(stdout)), false)
            });
        }
        if std::fs::metadata(path).is_ok_and(|m| m.file_type().is_fifo()) {
            rustix::fs::access(path, Access::WRITE_OK).map_err(|e| error(e.into()))?;
            private::check(path).map_err(error)?;
            return Ok(output(None, false));
        }
        let mut tries = 0..MOST_TRIES;
        loop {
            let place = private::Place::find(path).map_err(error)?;
            let (file, made) = match &place {
                Some(place) => place.open_or_make(OFlags::APPEND),
                None => private::open(path, OFlags::APPEND).map(|file| (file, false)),
            }
            .map_err(error)?;
            let regular = file.metadata().map_err(error)?.is_file();
            if regular {
                lock::take(&file, path).map_err(error)?;
            }
            // Another run that never began may have removed the file that it had made, before the file was locked here.
            // On some file systems the link count is always 0.
            let gone = regular && place.is_some() && file.metadata().map_err(error)?.nlink() == 0;
            if gone && tries.next().is_some() {
                continue;
            }
            return Ok(Self {
                made: place.filter(|_| made),
                ..output(Some(file), regular)
            });
        }
    }

    /// Removes a file that was made by opening it, if it is empty: a run that has not begun leaves no files. A file
    /// that existed before, or has been written since, stays.
    pub(crate) fn withdraw(&mut self) {
        let (Some(place), Some(file)) = (self.made.take(), &self.file) else {
            return;
        };
        let ours = file.metadata().map(|meta| (meta.len(), (meta.dev(), meta.ino())));
        if let (Ok((0, id)), Ok(Some(there))) = (ours, place.look())
            && there.id == id
        {
            // If the empty file can't be removed, it stays.
            let _ = place.remove();
        }
    }

    /// Empties the file of an earlier run's contents.
    pub(crate) fn empty(&mut self) -> io::Result<()> {
        match &self.file {
            Some(file) if self.regular => file.set_len(0),
            _ => Ok(()),
        }
    }

    /// Opens the file again if its name now leads elsewhere, so that further output is found there. Returns false if
    /// the name still leads to the open file, or if this is not a regular file.
    ///
    /// # Errors
    /// Same as [`Output::open`], and when the name belongs to something else than a file. The open file then stays
    /// open.
    pub(crate) fn reopen(&mut self) -> Result<bool, ReportError> {
        if !self.regular || self.check_name().is_ok() {
            return Ok(false);
        }
        let again = Self::open(&self.path)?;
        if !again.regular {
            let error = io::Error::other("it is no file any more");
            return Err(ReportError::io("open for writing", &self.path, error));
        }
        *self = Self { made: None, ..again };
        Ok(true)
    }

    /// Returns whether somebody has emptied the file since it was last written.
    pub(crate) fn was_emptied(&self) -> bool {
        let file = self.file.as_ref().filter(|_| self.regular && self.written > 0);
        file.and_then(|file| file.metadata().ok())
            .is_some_and(|meta| meta.len() == 0)
    }

    /// Returns whether the output is a FIFO that nobody has opened for reading.
    pub(crate) fn unread(&self) -> bool {
        self.file.is_none()
    }

    /// Returns whether the output is standard output.
    pub(crate) fn is_stdout(&self) -> bool {
        self.path == Path::new("-")
    }

    /// Checks at the end that the file still has its name.
    ///
    /// # Errors
    /// When the file was removed or renamed, or another has its name.
    pub(crate) fn check_name(&self) -> io::Result<()> {
        let (true, Some(file)) = (self.regular, &self.file) else {
            return Ok(());
        };
        let id = |meta: &std::fs::Metadata| (meta.dev(), meta.ino());
        match std::fs::metadata(&self.path) {
            Ok(there) if id(&there) == id(&file.metadata()?) => Ok(()),
            Ok(_) => Err(io::Error::other("another file was put in its place during the run")),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(io::Error::other("it was removed during the run")),
            // If the folder can't be read any more, nothing is known about the file.
            Err(_) => Ok(()),
        }
    }

    /// Returns the name of the output, for notes.
    pub(crate) fn name(&self) -> String {
        if self.is_stdout() {
            "standard output".to_owned()
        } else {
            self.path.display().to_string()
        }
    }

    /// Returns whether the output is a regular file, which can be cut and followed by another.
    pub(crate) fn is_regular(&self) -> bool {
        self.regular
    }

    /// Writes some of `bytes`, waiting at most `patience` for the reader.
    pub(crate) fn write(&mut self, bytes: &[u8], patience: Duration) -> io::Result<Progress> {
        if self.closed {
            return Err(io::Error::other("it is closed"));
        }
        let Some(file) = self.file.as_mut() else {
            return self.open_fifo(patience);
        };
        let chunk = if self.regular {
            bytes
        } else {
            if !writable(file, patience)? {
                return Ok(Progress::NotReady);
            }
            &bytes[..bytes.len().min(PIPE_BUF)]
        };
        match file.write(chunk) {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                self.written += n as u64;
                Ok(Progress::Took(n))
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {
                Ok(Progress::NotReady)
            }
            Err(e) => Err(e),
        }
    }

    /// A FIFO can be opened without waiting only once it has a reader (`fifo(7)`: ENXIO until then).
    fn open_fifo(&mut self, patience: Duration) -> io::Result<Progress> {
        match private::create(&self.path, OFlags::NONBLOCK) {
            Ok(file) => self.file = Some(file),
            Err(e) if e.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
                std::thread::sleep(patience.min(Duration::from_millis(20)));
            }
            Err(e) => return Err(e),
        }
        Ok(Progress::NotReady)
    }

    /// Cuts the last `bytes` written off the file, if the output is a regular file of this run.
    pub(crate) fn take_back(&mut self, bytes: u64) {
        if self.regular
            && let Some(file) = &self.file
        {
            self.written -= bytes.min(self.written);
            // Somebody may have emptied the file meanwhile. A disk that refuses even this leaves a torn last row; the
            // note about the disk says enough.
            let _ = file
                .metadata()
                .and_then(|meta| file.set_len(meta.len().saturating_sub(bytes)));
        }
    }
}

/// Returns whether `fd` takes bytes within `patience`. An error or a closed reader counts as well: the write then
/// fails.
pub(crate) fn writable(fd: &impl AsFd, patience: Duration) -> io::Result<bool> {
    let timeout = Timespec {
        tv_sec: patience.as_secs() as i64,
        tv_nsec: i64::from(patience.subsec_nanos()),
    };
    let mut fds = [PollFd::new(fd, PollFlags::OUT)];
    match rustix::event::poll(&mut fds, Some(&timeout)) {
        Ok(n) => Ok(n > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
