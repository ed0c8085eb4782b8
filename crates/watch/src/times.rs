//! Time that programs in the kernel take, by its own count (`BPF_ENABLE_STATS`, Linux 5.8).
//!
//! The count is usually off, since it costs two readings of the clock per run, for every program of the host. It is on
//! while a [`ProgramTimes`] exists and is not [paused](ProgramTimes::pause). The numbers are read in
//! `/proc/self/fdinfo`, from files that stay open, which needs no privileges.

use crate::lack::Lack;
use aya::programs::loaded_programs;
use aya::sys::{Stats, enable_stats};
use mpps_sys::privilege::{CapabilitySet, with_reserve};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Time and runs of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramTime {
    /// Number of the program in the kernel.
    pub id: u32,
    /// Number of runs.
    pub runs: u64,
    /// Total time, ns.
    pub total_ns: u64,
}

#[derive(Debug)]
struct Program {
    /// Handle that is held so that the file with the numbers stays that of the same program.
    _program: OwnedFd,
    info: File,
    before: ProgramTime,
}

/// Programs whose time is counted.
#[derive(Debug)]
pub struct ProgramTimes {
    programs: Vec<Program>,
    counting: Counting,
}

/// State of the kernel's count: on, paused, or on for other reasons.
#[derive(Debug)]
enum Counting {
    /// This object has switched the count on, as long as the handle is open.
    Ours { _open: OwnedFd },
    /// The count is paused here; another program may have switched it on.
    Paused,
    /// The count is on in any case, by a setting of the host.
    Anyhow,
}

impl ProgramTimes {
    /// Counts for the programs with these ids from now on. Needs `CAP_SYS_ADMIN`, unless the kernel counts in any case
    /// (`kernel.bpf_stats_enabled`).
    ///
    /// # Errors
    /// Without the privilege, or before Linux 5.8. Programs that do not exist are passed over.
    pub fn of_ids(ids: &[u32]) -> Result<Self, Lack> {
        let counting = counting()?;
        let all = loaded_programs()
            .flatten()
            .filter(|program| ids.contains(&program.id()));
        let programs = all.filter_map(|program| Program::new(program.fd().ok()?.as_fd()).ok());
        Ok(Self {
            programs: programs.collect(),
            counting,
        })
    }

    /// As [`of_ids`](Self::of_ids), for programs that the caller holds.
    ///
    /// # Errors
    /// As [`of_ids`](Self::of_ids), and if `/proc` can't be read.
    pub fn of(programs: &[BorrowedFd<'_>]) -> Result<Self, Lack> {
        let counting = counting()?;
        let programs: io::Result<Vec<_>> = programs.iter().map(|&program| Program::new(program)).collect();
        Ok(Self {
            programs: programs.map_err(|e| Lack::os("read the numbers of BPF programs", &e))?,
            counting,
        })
    }

    /// Stops counting until [`resume`](Self::resume). If the kernel counts in any case, returns false and changes
    /// nothing.
    pub fn pause(&mut self) -> bool {
        let counts = !matches!(self.counting, Counting::Anyhow);
        if counts {
            self.counting = Counting::Paused;
        }
        counts
    }

    /// Counts again. The calling thread may have `CAP_SYS_ADMIN` in reserve.
    ///
    /// # Errors
    /// As [`of_ids`](Self::of_ids).
    pub fn resume(&mut self) -> Result<(), Lack> {
        if matches!(self.counting, Counting::Paused) {
            self.counting = counting()?;
        }
        Ok(())
    }

    /// Returns the runs and the time of each program since the count began, without pauses.
    ///
    /// # Errors
    /// If `/proc` can't be read.
    pub fn read(&self) -> io::Result<Vec<ProgramTime>> {
        let times = self.programs.iter().map(|program| {
            let now = numbers(&program.info)?;
            Ok(ProgramTime {
                id: now.id,
                runs: now.runs.saturating_sub(program.before.runs),
                total_ns: now.total_ns.saturating_sub(program.before.total_ns),
            })
        });
        times.collect()
    }
}

fn counting() -> Result<Counting, Lack> {
    if counts_anyhow() {
        return Ok(Counting::Anyhow);
    }
    match with_reserve(CapabilitySet::SYS_ADMIN, || enable_stats(Stats::RunTime)) {
        Ok(counting) => Ok(Counting::Ours { _open: counting }),
        Err(e) => Err(match e.io_error.raw_os_error() {
            Some(libc::EPERM) => Lack::Privileges("CAP_SYS_ADMIN, or kernel.bpf_stats_enabled".to_owned()),
            _ => Lack::Kernel(format!("count the time of BPF programs: {}", e.io_error)),
        }),
    }
}

/// Whether a setting of the host makes the kernel count all programs.
fn counts_anyhow() -> bool {
    let text = std::fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled");
    text.is_ok_and(|text| text.trim() == "1")
}

impl Program {
    fn new(program: BorrowedFd<'_>) -> io::Result<Self> {
        let program = program.try_clone_to_owned()?;
        let info = File::open(format!("/proc/self/fdinfo/{}", program.as_raw_fd()))?;
        Ok(Self {
            before: numbers(&info)?,
            _program: program,
            info,
        })
    }
}

fn numbers(info: &File) -> io::Result<ProgramTime> {
    let mut text = [0; 1024];
    let length = info.read_at(&mut text, 0)?;
    Ok(parse(&String::from_utf8_lossy(&text[..length])))
}

fn parse(text: &str) -> ProgramTime {
    let field = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse::<u64>().ok())
    };
    ProgramTime {
        id: field("prog_id").and_then(|id| u32::try_from(id).ok()).unwrap_or(0),
        runs: field("run_cnt").unwrap_or(0),
        total_ns: field("run_time_ns").unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_program_are_read() {
        let text = "pos:\t0\nprog_type:\t6\nprog_id:\t53\nrun_time_ns:\t2097\nrun_cnt:\t7\nrecursion_misses:\t0\n";
        let time = ProgramTime {
            id: 53,
            runs: 7,
            total_ns: 2097,
        };
        assert_eq!(parse(text), time);
        assert_eq!(parse("pos:\t0\n"), ProgramTime::default());
    }
}
