//! The clerk: the thread that opens and writes the user's files, with the user's rights and no more.
//!
//! Under sudo it runs as the user who called; otherwise it has no capabilities. It starts the threads that write rows
//! and packets, so these have no more. The one exception is root in a folder of another user (a container's root in a
//! mounted folder): root can write there only by its rights over files, so the clerk keeps these.

use crate::fail::{Result, failed};
use crate::request::Run;
use mpps_sys::privilege::{CapabilitySet, Keep, held};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

/// Rights over files of others.
pub(super) const FILES: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::FOWNER);

type Work = Box<dyn FnOnce() + Send>;

/// The clerk's thread, and the queue of its work.
pub struct Clerk {
    work: Mutex<Sender<Work>>,
}

impl Clerk {
    /// Starts the clerk for the files of a run.
    pub fn hire(run: &Run, files: &[PathBuf]) -> Result<Self> {
        let keep = match run.beside.keep_privileges {
            true => None,
            false => Some(keep_for(files)?),
        };
        let kept = keep.as_ref().map_or(CapabilitySet::all(), |keep| keep.held);
        let _ = run.watchers.clerk.set(kept);
        Self::keeping(keep)
    }

    /// Starts the clerk for a file of a command that is no run.
    pub fn hire_for(file: &Path) -> Result<Self> {
        Self::keeping(Some(keep_for(&[file.to_path_buf()])?))
    }

    /// Starts the clerk with only these rights; `None`: with all.
    fn keeping(keep: Option<Keep>) -> Result<Self> {
        let (work, asked) = channel::<Work>();
        let (said, begun) = channel();
        let body = move || {
            let ready = keep.map_or(Ok(()), |keep| keep.apply());
            let failed = ready.is_err();
            let _ = said.send(ready);
            if !failed {
                asked.into_iter().for_each(|work| work());
            }
        };
        let unhired = |e: std::io::Error| failed(format!("start the thread that writes files: {e}"));
        mpps_sys::thread::spawn("mpps-files", body).map_err(unhired)?;
        begun.recv().map_err(failed)?.map_err(unhired)?;
        Ok(Self { work: Mutex::new(work) })
    }

    /// Runs `what` on the clerk's thread, and waits until it is done.
    pub fn does<T: Send + 'static>(&self, what: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let (give, take) = channel();
        let work: Work = Box::new(move || {
            let _ = give.send(what());
        });
        let gone = || failed("the thread that writes files has failed");
        let sent = self.work.lock().map(|to| to.send(work));
        if !matches!(sent, Ok(Ok(()))) {
            return Err(gone());
        }
        take.recv().map_err(|_| gone())
    }
}

/// Returns the rights that the clerk keeps for these files: those of its user, and root's rights over files only if the
/// user's do not suffice.
fn keep_for(files: &[PathBuf]) -> Result<Keep> {
    let mut keep = Keep {
        user: super::caller().cloned(),
        ..Keep::NOTHING
    };
    let rights = held() & FILES;
    if keep.user.is_none() && !rights.is_empty() && !super::lent() {
        let bare = || Keep::NOTHING.apply().is_ok() && files.iter().all(|file| writable(file));
        if !on_a_thread(bare)? {
            (keep.held, keep.in_force) = (rights, rights);
        }
    }
    Ok(keep)
}

/// Returns whether the calling thread may write a file, and create others beside it. True if that can't be determined:
/// opening the file will then report the error.
fn writable(file: &Path) -> bool {
    let may = |path: &Path, access| {
        let asked = accessat(CWD, path, access, AtFlags::EACCESS);
        !matches!(asked, Err(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM))
    };
    // `--out` creates missing folders: the nearest folder that exists is the one in which the first of them is created.
    let is_there = |path: &Path| {
        let asked = accessat(CWD, path, Access::EXISTS, AtFlags::EACCESS);
        !matches!(asked, Err(rustix::io::Errno::NOENT))
    };
    let mut above = file.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    let folder = above.find(|folder| is_there(folder));
    let device = std::fs::metadata(file).is_ok_and(|meta| !meta.is_file());
    file == Path::new("-")
        || (may(file, Access::WRITE_OK)
            && (device || may(folder.unwrap_or(Path::new(".")), Access::WRITE_OK | Access::EXEC_OK)))
}

fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    mpps_sys::thread::apart(work).map_err(|e| failed(format!("start a thread that has the user's rights alone: {e}")))
}

/// Runs `work` with the rights of the user who called sudo, on a thread that is that user; without sudo, on the calling
/// thread.
pub fn as_user<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let Some(user) = super::caller() else { return work() };
    let keep = Keep {
        user: Some(user.clone()),
        ..Keep::NOTHING
    };
    on_a_thread(|| {
        keep.apply()
            .map_err(|e| failed(format!("become the user who called sudo: {e}")))?;
        work()
    })?
}
