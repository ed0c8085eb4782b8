//! The files of a host under a root directory, and the affinity of its threads.
//!
//! The live host's root is `/`. Tests build a tree of files in its place; there the affinity of thread N is the file
//! `affinity/N`, and files that stand for the kernel's answers are described at [`Tree::fake`].

use super::cpus::Cpus;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Files of one host; paths are relative to its root.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
    live: bool,
}

impl Tree {
    /// This host.
    pub fn live() -> Self {
        Self {
            root: PathBuf::from("/"),
            live: true,
        }
    }

    /// Returns a host made of files. A file `NAME.answers` beside `NAME` lists the kernel's answers to values written
    /// to it: lines `WRITTEN=READ BACK`, or `WRITTEN=!ERRNO`; `*` stands for all other values, and `*` in what is read
    /// back for the written value. `mkdir` makes the files that the folder `NAME.new` beside the place holds. A number
    /// in `NAME.closed` is the error of opening the file for writing, and of making a folder in the one of this name; a
    /// number in `NAME.stays` is that of removing the folder.
    pub fn fake(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            live: false,
        }
    }

    /// Returns whether this is the host that the process runs on.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// The root directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the full path of a file.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The file's text without white space at its ends.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn read(&self, path: &str) -> io::Result<String> {
        let bytes = fs::read(self.path(path))?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Returns whether the path exists.
    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Returns the names in a directory, sorted; none if it can't be read.
    pub fn list(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Returns the names of folders in a directory, sorted.
    pub(super) fn folders(&self, path: &str) -> Vec<String> {
        let is_folder = |name: &String| self.path(&format!("{path}/{name}")).is_dir();
        self.list(path).into_iter().filter(is_folder).collect()
    }

    /// Writes a value to an existing file, in one call: files of the kernel take a value, not bytes.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn write(&self, path: &str, value: &str) -> io::Result<()> {
        if !self.live {
            return self.answer(path, value);
        }
        fs::OpenOptions::new()
            .write(true)
            .open(self.path(path))?
            .write_all(value.as_bytes())
    }

    /// Checks whether this process may write to a file, or make a folder in one; nothing is written.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub(super) fn may_write(&self, path: &str) -> io::Result<()> {
        let is_folder = self.path(path).is_dir();
        match (self.live, is_folder) {
            (false, _) => self.refusal(path, "closed"),
            (true, true) => Ok(rustix::fs::access(self.path(path), rustix::fs::Access::WRITE_OK)?),
            (true, false) => fs::OpenOptions::new().write(true).open(self.path(path)).map(drop),
        }
    }

    /// On a host made of files: returns the error that a file beside this one requests.
    fn refusal(&self, path: &str, ending: &str) -> io::Result<()> {
        let wanted = self.read(&format!("{path}.{ending}")).unwrap_or_default();
        wanted.parse().map_or(Ok(()), |n| Err(io::Error::from_raw_os_error(n)))
    }

    fn answer(&self, path: &str, value: &str) -> io::Result<()> {
        let file = self.path(path);
        if !file.is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.refusal(path, "closed")?;
        fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.root.join("log"))?
            .write_all(format!("write {} {value}\n", path.trim_start_matches('/')).as_bytes())?;
        let answers = fs::read_to_string(self.path(&format!("{path}.answers"))).unwrap_or_default();
        let of = |wanted: &str| {
            let line = answers
                .lines()
                .find_map(|line| line.strip_prefix(wanted)?.strip_prefix('='));
            line.map(str::to_owned)
        };
        let answer = of(value).or_else(|| of("*")).unwrap_or_else(|| "*".to_owned());
        if let Some(errno) = answer.strip_prefix('!').and_then(|n| n.parse().ok()) {
            return Err(io::Error::from_raw_os_error(errno));
        }
        // On Linux, writing a process to `cgroup.procs` also removes it from the other groups: no test needs that.
        fs::write(file, answer.replace('*', value) + "\n")
    }

    /// Makes a folder.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn make_folder(&self, path: &str) -> io::Result<()> {
        if let (false, Some((above, _))) = (self.live, path.rsplit_once('/')) {
            self.refusal(above, "closed")?;
        }
        fs::create_dir(self.path(path))?;
        let files = format!("{path}.new");
        for name in if self.live { Vec::new() } else { self.list(&files) } {
            fs::copy(
                self.path(&format!("{files}/{name}")),
                self.path(&format!("{path}/{name}")),
            )?;
        }
        Ok(())
    }

    /// Removes a folder that the kernel takes for empty: a folder of cgroups has files that go with it.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn remove_folder(&self, path: &str) -> io::Result<()> {
        match self.live {
            true => fs::remove_dir(self.path(path)),
            false => self
                .refusal(path, "stays")
                .and_then(|()| fs::remove_dir_all(self.path(path))),
        }
    }

    /// Returns the ticks since boot, in the scale in which `/proc` reports the start of threads. `/proc/uptime` is no
    /// source on a live host: containers have their own uptime there, but not in the `stat` of threads.
    pub(super) fn ticks(&self) -> Option<u64> {
        let hertz = rustix::param::clock_ticks_per_second();
        if !self.live {
            let text = self.read("proc/uptime").ok()?;
            return Some(text.split(['.', ' ']).next()?.parse::<u64>().ok()? * hertz);
        }
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).ok()?;
        Some(seconds * hertz + u64::try_from(now.tv_nsec).ok()? * hertz / 1_000_000_000)
    }

    /// Returns the cores that a thread may run on.
    ///
    /// # Errors
    /// `ESRCH` if there is no such thread, or no longer.
    pub(super) fn affinity(&self, thread: i32) -> io::Result<Cpus> {
        if !self.live {
            let text = self.read(&format!("affinity/{thread}"))?;
            return Cpus::of_list(&text).ok_or_else(|| io::ErrorKind::InvalidData.into());
        }
        let thread = rustix::thread::Pid::from_raw(thread).ok_or(io::ErrorKind::InvalidInput)?;
        let set = rustix::thread::sched_getaffinity(Some(thread))?;
        let most = rustix::thread::CpuSet::MAX_CPU;
        Ok((0..most).filter(|&core| set.is_set(core)).collect())
    }

    /// Restricts a thread to these cores.
    ///
    /// # Errors
    /// Errors of the kernel: `EINVAL` for its own threads that belong to a core.
    pub(super) fn set_affinity(&self, thread: i32, cores: &Cpus) -> io::Result<()> {
        if !self.live {
            return self.answer(&format!("affinity/{thread}"), &cores.list());
        }
        let thread = rustix::thread::Pid::from_raw(thread).ok_or(io::ErrorKind::InvalidInput)?;
        let mut set = rustix::thread::CpuSet::new();
        cores.iter().for_each(|core| set.set(core));
        Ok(rustix::thread::sched_setaffinity(Some(thread), &set)?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::started;
    use super::*;

    #[test]
    fn ticks_are_those_that_the_kernel_tells_when_a_process_was_started_in() {
        let tree = Tree::live();
        let before = tree.ticks().expect("a clock");
        let mut child = std::process::Command::new("sleep").arg("100").spawn().expect("sleep");
        let stat = tree.read(&format!("proc/{}/stat", child.id())).expect("it lives");
        let after = tree.ticks().expect("a clock");
        child.kill().and_then(|()| child.wait()).expect("our own");
        let began = started(&stat).expect("a number");
        assert!((before..=after).contains(&began), "{before} {began} {after}: {stat}");
    }
}
