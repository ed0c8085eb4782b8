//! What programs in the kernel take, where the kernel runs the workload.
//!
//! The kernel's count of it costs two readings of the clock for each run of any program of the host, and a program runs
//! for each packet: that is no share of a run that could go unnoticed. So it is on with `--trace` alone.

use crate::privilege;
use mpps_io::kernel::{KernelPort, KernelProgram};
use mpps_stats::Summary;
use mpps_trace::{LeftOut, ProgramRow};
use mpps_watch::ProgramTimes;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How far it is.
enum State {
    /// Nobody has asked for it.
    Off,
    Asked,
    /// The kernel counts for these programs, in their order.
    Counting(ProgramTimes),
    Counted(Vec<ProgramRow>),
    /// It does not: why.
    Failed(String),
}

static STATE: Mutex<State> = Mutex::new(State::Off);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has programs counted that are loaded from now on.
pub(super) fn ask() {
    *state() = State::Asked;
}

/// The programs are loaded, and the main thread has its privileges yet.
pub(crate) fn programs_loaded<P: KernelPort>(ports: &[P]) {
    let mut state = state();
    if !matches!(*state, State::Asked) {
        return;
    }
    let programs = all(ports);
    let descriptors: Vec<_> = programs.iter().map(|program| program.descriptor.as_fd()).collect();
    // What the program's file lends is not for its user to have others' programs slowed down with.
    let times = match privilege::lent() {
        true => Err("the program's file lends its privileges to every user".to_owned()),
        false => ProgramTimes::of(&descriptors).map_err(|lack| lack.to_string()),
    };
    *state = times.map_or_else(State::Failed, State::Counting);
}

/// The run is over, and the programs are there yet.
pub(crate) fn programs_ran<P: KernelPort>(ports: &[P]) {
    let mut state = state();
    if let State::Counting(times) = &*state {
        let counted = times.read().map_err(|e| format!("read the times of programs: {e}"));
        *state = match counted {
            Err(why) => State::Failed(why),
            Ok(times) => {
                let row = |(program, time): (KernelProgram, mpps_watch::ProgramTime)| ProgramRow {
                    program: program.name,
                    device: program.device,
                    runs: time.runs,
                    packets: program.packets,
                    total_ns: time.total_ns,
                    share: 0.0,
                };
                let rows = all(ports).into_iter().zip(times).map(row);
                State::Counted(rows.filter(|row| row.runs > 0).collect())
            }
        };
    }
}

fn all<P: KernelPort>(ports: &[P]) -> Vec<KernelProgram> {
    // It finds who owns an address before the run, and has no part in it.
    let programs = ports.iter().flat_map(P::programs);
    programs.filter(|program| program.name != "inject").collect()
}

/// What was counted of a run, and what is missing. The program that took most comes first.
pub(crate) fn programs(summary: &Summary) -> (Vec<ProgramRow>, Option<LeftOut>) {
    match std::mem::replace(&mut *state(), State::Off) {
        State::Counted(mut rows) => {
            for row in &mut rows {
                row.share = row.total_ns as f64 / summary.duration_ns.max(1) as f64;
            }
            rows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.program.cmp(&b.program)));
            (rows, None)
        }
        State::Failed(why) => {
            let what = "the time of programs in the kernel".to_owned();
            (Vec::new(), Some(LeftOut { what, count: 0, why }))
        }
        // No program was loaded, or the run has not come to its end.
        State::Off | State::Asked | State::Counting(_) => (Vec::new(), None),
    }
}
