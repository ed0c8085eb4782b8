//! A file that rows are streamed to: a regular file, standard output, a FIFO, a device.
//!
//! Writes never wait longer than asked: what could block is polled first and then given no more than a pipe takes at
//! once (`pipe(7)`: a writable pipe has room for `PIPE_BUF` bytes), so the writing thread can look after its backlog
//! while a reader sleeps.

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

/// How long the end of an interrupted run waits for the first reader of a FIFO.
const FIRST_READER: Duration = Duration::from_secs(1);

/// How long a run's end waits for readers.
pub(crate) struct Waiting {
    since: Instant,
    patience: Duration,
    /// Interruptions before.
    asked: u32,
}

impl Waiting {
    /// From now on.
    pub(crate) fn begin(patience: Duration) -> Self {
        Self {
            since: Instant::now(),
            patience,
            asked: interruptions(),
        }
    }

    /// A reader has taken something.
    pub(crate) fn progress(&mut self) {
        self.since = Instant::now();
    }

    /// How long nobody has read anything, once that was long enough; `unread`: a FIFO that nobody has opened. Whoever
    /// interrupts again wants out at once.
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

/// What a try to write came to.
pub(crate) enum Progress {
    /// So many bytes were taken.
    Took(usize),
    /// The reader is not ready.
    NotReady,
}

/// How often a file is opened again that another run has taken back meanwhile.
const MOST_TRIES: u32 = 8;

/// An open output, or a FIFO that waits for its reader.
pub(crate) struct Output {
    path: PathBuf,
    file: Option<File>,
    regular: bool,
    /// Standard output, which the program was started without.
    closed: bool,
    /// Where a file is that was made by opening it.
    made: Option<private::Place>,
    /// Bytes written.
    written: u64,
}

impl Output {
    /// Opens `path`; `-` is standard output. A FIFO is opened once somebody reads it. What is in a file stays until
    /// [`Output::empty`]: a run that never begins leaves an earlier one's results alone.
    ///
    /// # Errors
    /// When it can't be written, somebody else may have put it there ([`private::create`]), or another run writes it:
    /// that one's rows stay as they are.
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
            // Another run that never began has taken back the file that it had made, before it was locked here.
            // Some file systems tell of no links at all.
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

    /// Removes a file that was made by opening it and is empty: the run has not begun, and is to leave nothing.
    /// Whatever was there before, or has been written since, stays.
    pub(crate) fn withdraw(&mut self) {
        let (Some(place), Some(file)) = (self.made.take(), &self.file) else {
            return;
        };
        let ours = file.metadata().map(|meta| (meta.len(), (meta.dev(), meta.ino())));
        if let (Ok((0, id)), Ok(Some(there))) = (ours, place.look())
            && there.id == id
        {
            // One that can't be removed stays, empty.
            let _ = place.remove();
        }
    }

    /// Forgets what an earlier run has left in the file.
    pub(crate) fn empty(&mut self) -> io::Result<()> {
        match &self.file {
            Some(file) if self.regular => file.set_len(0),
            _ => Ok(()),
        }
    }

    /// Opens a file again whose name leads elsewhere by now, so that what is written from now on is found there; false:
    /// it leads where it did, or this is no file.
    ///
    /// # Errors
    /// As [`Output::open`], and when something else than a file has the name; what was open stays so.
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

    /// Whether somebody has emptied the file since something was written to it.
    pub(crate) fn was_emptied(&self) -> bool {
        let file = self.file.as_ref().filter(|_| self.regular && self.written > 0);
        file.and_then(|file| file.metadata().ok())
            .is_some_and(|meta| meta.len() == 0)
    }

    /// Whether it is a FIFO that nobody has read so far.
    pub(crate) fn unread(&self) -> bool {
        self.file.is_none()
    }

    /// Whether it is standard output.
    pub(crate) fn is_stdout(&self) -> bool {
        self.path == Path::new("-")
    }

    /// Checks at the end that what was written has its name still.
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
            // A folder that can't be read any more says nothing of the file.
            Err(_) => Ok(()),
        }
    }

    /// Where it writes to, for notes.
    pub(crate) fn name(&self) -> String {
        if self.is_stdout() {
            "standard output".to_owned()
        } else {
            self.path.display().to_string()
        }
    }

    /// Whether it is a file that can be cut and followed by another.
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

    /// Takes back the last `bytes` written, where the output is a file of ours.
    pub(crate) fn take_back(&mut self, bytes: u64) {
        if self.regular
            && let Some(file) = &self.file
        {
            self.written -= bytes.min(self.written);
            // Somebody may have emptied it meanwhile. A disk that refuses even this leaves a torn last row; the note
            // about the disk says enough.
            let _ = file
                .metadata()
                .and_then(|meta| file.set_len(meta.len().saturating_sub(bytes)));
        }
    }
}

/// Whether `fd` takes bytes within `patience`; an error or a gone reader counts, the write then tells.
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
