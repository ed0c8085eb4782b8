//! What programs in the kernel take, by its own count (`BPF_ENABLE_STATS`, Linux 5.8).
//!
//! The count is off as a rule, since it costs two readings of the clock a run, of every program of the host: it is on
//! while a [`ProgramTimes`] lives and is not [paused](ProgramTimes::pause). The numbers are read in
//! `/proc/self/fdinfo`, from files that stay open, which needs no privileges.

use crate::lack::Lack;
use aya::programs::loaded_programs;
use aya::sys::{Stats, enable_stats};
use mpps_sys::privilege::{CapabilitySet, with_reserve};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// How long a program ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramTime {
    /// The kernel's number for the program.
    pub id: u32,
    /// Runs.
    pub runs: u64,
    /// For how long in all, ns.
    pub total_ns: u64,
}

#[derive(Debug)]
struct Program {
    /// Held, so that the file of its numbers stays that program's.
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

/// Who has the kernel count.
#[derive(Debug)]
enum Counting {
    /// This one, as long as it is open.
    Ours { _open: OwnedFd },
    /// Nobody, as far as is known here.
    Paused,
    /// The host, whatever happens here.
    Anyhow,
}

impl ProgramTimes {
    /// Counts for the programs of these ids from now on. Needs `CAP_SYS_ADMIN`, unless the kernel counts anyhow
    /// (`kernel.bpf_stats_enabled`).
    ///
    /// # Errors
    /// Without the privilege, or before Linux 5.8. Programs that there are not are passed over.
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

    /// As [`of_ids`](Self::of_ids), for programs that the caller has.
    ///
    /// # Errors
    /// As there, and where `/proc` can't be read.
    pub fn of(programs: &[BorrowedFd<'_>]) -> Result<Self, Lack> {
        let counting = counting()?;
        let programs: io::Result<Vec<_>> = programs.iter().map(|&program| Program::new(program)).collect();
        Ok(Self {
            programs: programs.map_err(|e| Lack::os("read the numbers of BPF programs", &e))?,
            counting,
        })
    }

    /// Counts no more until [`resume`](Self::resume). False, and nothing is changed, where the kernel counts anyhow.
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

    /// What each has taken since the count began, pauses apart.
    ///
    /// # Errors
    /// Where `/proc` can't be read.
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

/// Whether somebody has had the kernel count all programs.
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
