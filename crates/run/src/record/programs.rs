//! Time that the run's programs in the kernel take, on paths where the kernel runs the workload.
//!
//! While the kernel counts this time, each run of any program of the host costs two clock readings, and a program runs
//! for each packet: a cost that shows in the results. So the count is on only with `--trace`, and only now and then if
//! programs run often ([`ProgramSample`]). A thread beside the lanes switches the count on and off for as long as the
//! run lasts, however the run ends.

use crate::privilege;
use mpps_io::kernel::{KernelPort, KernelProgram};
use mpps_stats::Summary;
use mpps_sys::clock::monotonic_ns;
use mpps_trace::{LeftOut, ProgramRow};
use mpps_watch::{ProgramReading, ProgramSample, ProgramSum, ProgramTimes, ProgramTotals};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Numbers that are read within this time count as read at one moment, ns.
const ONE_MOMENT_NS: u64 = 200_000;

/// Progress of the count.
enum State {
    /// The count was not asked for.
    Off,
    Asked,
    Counted(Vec<ProgramRow>),
    /// The count failed: the text is the reason.
    Failed(String),
}

static STATE: Mutex<State> = Mutex::new(State::Off);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks for the time of the programs that are loaded from now on.
pub(super) fn ask() {
    *state() = State::Asked;
}

/// Runs a workload whose programs are loaded, and counts their time meanwhile if that was asked for. Called while the
/// main thread still has its privileges.
pub fn with_programs<T>(ports: &[&dyn KernelPort], run: impl FnOnce() -> T) -> T {
    if !matches!(*state(), State::Asked) {
        return run();
    }
    let failed = |why: String| *state() = State::Failed(why);
    let times = match begin(ports) {
        Ok(times) => times,
        Err(why) => {
            failed(why);
            return run();
        }
    };
    let over = AtomicBool::new(false);
    let (said, ready) = mpsc::channel();
    thread::scope(|scope| {
        let over = &over;
        let body = move || {
            privilege::keep_for_programs();
            // Counts from here on, even if this thread loses its core before it goes on.
            let first = reading(ports, &times);
            let _ = said.send(());
            count(ports, times, first?, over)
        };
        // docs/security.md uses this thread name.
        let counting = mpps_sys::thread::spawn_scoped(scope, "mpps-programs", body);
        let counting = match counting {
            Ok(counting) => counting,
            Err(e) => {
                failed(format!("start the thread that counts programs: {e}"));
                return run();
            }
        };
        // Waits until the thread has given up its privileges: a check for threads with too many must find the final
        // state.
        let _ = ready.recv();
        let ends = Ends(over, counting.thread().clone());
        let done = run();
        drop(ends);
        // The programs are still loaded.
        *state() = match counting.join() {
            Ok(Ok(sums)) => State::Counted(rows(all(ports), sums)),
            Ok(Err(e)) => State::Failed(format!("read the times of programs: {e}")),
            Err(_) => State::Failed("the thread that counts programs has panicked".to_owned()),
        };
        done
    })
}

/// Signals the counting thread on drop that the run is over, so a panic ends the thread as well.
struct Ends<'o>(&'o AtomicBool, Thread);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        self.1.unpark();
    }
}

fn begin(ports: &[&dyn KernelPort]) -> Result<ProgramTimes, String> {
    // Privileges that the program's file lends must not let its user slow down other users' programs.
    if privilege::lent() {
        return Err("the program's file lends its privileges to every user".to_owned());
    }
    let programs = all(ports);
    let descriptors: Vec<_> = programs.iter().map(|program| program.descriptor.as_fd()).collect();
    ProgramTimes::of(&descriptors).map_err(|lack| lack.to_string())
}

/// Counts until the run is over: all the time if that costs little, else now and then.
fn count(
    ports: &[&dyn KernelPort],
    mut times: ProgramTimes,
    first: ProgramReading,
    over: &AtomicBool,
) -> io::Result<Vec<ProgramSum>> {
    let mut sample = ProgramSample::new(first);
    let mut stretch = ProgramSample::SHORTEST;
    loop {
        let ends = wait(stretch, over);
        let rest = sample.counted(reading(ports, &times)?);
        if ends {
            break;
        }
        if rest.is_zero() || !times.pause() {
            stretch = (stretch * 2).min(ProgramSample::LONGEST);
            continue;
        }
        let mut ends = wait(rest, over);
        if !ends && times.resume().is_err() {
            // The count is no longer allowed: the rest is estimated from the times measured so far.
            ends = wait(Duration::MAX, over);
        }
        sample.passed(reading(ports, &times)?);
        if ends {
            break;
        }
        stretch = ProgramSample::SHORTEST;
    }
    Ok(sample.end())
}

/// Waits for `long`, or until the run is over. Returns whether the run is over.
fn wait(long: Duration, over: &AtomicBool) -> bool {
    let until = Instant::now().checked_add(long);
    loop {
        if over.load(Ordering::Acquire) {
            return true;
        }
        match until.map(|until| until.saturating_duration_since(Instant::now())) {
            None => thread::park(),
            Some(Duration::ZERO) => return false,
            Some(left) => thread::park_timeout(left),
        }
    }
}

/// Reads the packet counts of all programs and the kernel's times of them, at one moment. Reads again if this thread
/// lost its core in between.
fn reading(ports: &[&dyn KernelPort], times: &ProgramTimes) -> io::Result<ProgramReading> {
    const TRIES: u32 = 4;
    let mut tries = 0;
    loop {
        let ns = monotonic_ns();
        let (packets, times) = (all(ports), times.read()?);
        if packets.len() != times.len() {
            // Times would be matched to the wrong programs.
            return Err(io::Error::other("one of them can no longer be read"));
        }
        let packets = packets.into_iter().map(|program| program.packets);
        let programs = times.into_iter().zip(packets);
        let totals = programs.map(|(time, packets)| ProgramTotals {
            packets,
            runs: time.runs,
            ns: time.total_ns,
        });
        let programs = totals.collect();
        tries += 1;
        if tries == TRIES || monotonic_ns() - ns < ONE_MOMENT_NS {
            return Ok(ProgramReading { ns, programs });
        }
    }
}

fn all(ports: &[&dyn KernelPort]) -> Vec<KernelProgram> {
    // Excludes the program that resolves a neighbour's address before the run: it has no part in the run.
    let programs = ports.iter().flat_map(|port| port.programs());
    programs.filter(|program| program.name != "inject").collect()
}

fn rows(programs: Vec<KernelProgram>, sums: Vec<ProgramSum>) -> Vec<ProgramRow> {
    let row = |(program, sum): (KernelProgram, ProgramSum)| {
        // A program run handles one packet at the most, and packets are counted one by one.
        let runs = sum.runs.max(program.packets);
        let total_ns = u128::from(sum.total_ns) * u128::from(runs) / u128::from(sum.runs.max(1));
        ProgramRow {
            program: program.name,
            device: program.device,
            runs,
            timed: sum.timed,
            packets: program.packets,
            total_ns: u64::try_from(total_ns).unwrap_or(u64::MAX),
            share: 0.0,
        }
    };
    let rows = programs.into_iter().zip(sums).map(row);
    rows.filter(|row| row.runs > 0).collect()
}

/// Returns the times of a run's programs, longest first, and the reason if they are missing.
pub fn programs(summary: &Summary) -> (Vec<ProgramRow>, Option<LeftOut>) {
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
        // No program was loaded.
        State::Off | State::Asked => (Vec::new(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_its_time_or_with_the_run() {
        let over = AtomicBool::new(false);
        assert!(!wait(Duration::from_millis(1), &over));
        thread::scope(|scope| {
            let over = &over;
            let waits = scope.spawn(move || wait(Duration::MAX, over));
            drop(Ends(over, waits.thread().clone()));
            assert!(waits.join().expect("it ends"));
        });
        assert!(wait(Duration::ZERO, &over));
    }
}
