//! Warnings of a summary, beside those of the verdict.

use super::Measured;
use crate::run::summary::remarks::{Heard, remarks};
use mpps_io::Reason;
use mpps_stats::{LaneSummary, Remark, RemarkName, RemarkValue, Workload};
use mpps_sys::signal::{self, CpuLimit};

/// Returns all warnings of a run, in the order of the report: `of_verdict` are those of the verdict.
pub(super) fn warnings(
    m: &Measured<'_>,
    of_verdict: Vec<Remark>,
    reasons: &[(String, u64)],
    lanes: &[LaneSummary],
) -> Vec<Remark> {
    let mut warnings = m.common.warnings.clone();
    warnings.extend(of_verdict);
    warnings.extend(remarks(&Heard::of(m, reasons, lanes)));
    if m.workload == Workload::Reflect {
        let reason = |reason: Reason| reason.of(reasons);
        warnings.extend(crate::workload::loop_guard::warnings(reason));
    }
    warnings.extend(moved_lanes(m));
    let of_device = |note| Remark::new(RemarkName::DeviceError, note);
    warnings.extend(m.control.notes().into_iter().map(of_device));
    warnings.extend(cpu_time_spent());
    warnings.extend(m.notes.iter().cloned());
    warnings
}

/// Returns warnings on lanes whose thread was moved off its core during the run.
fn moved_lanes(m: &Measured<'_>) -> impl Iterator<Item = Remark> {
    let lanes = m.common.lanes.iter().zip(m.outcomes).enumerate();
    lanes.filter_map(|(lane, (plan, outcome))| {
        let (core, now) = (plan.core?, outcome.moved_to.as_ref()?);
        let allowed: RemarkValue = now.iter().copied().collect();
        let now: Vec<_> = now.iter().map(usize::to_string).collect();
        let text = format!(
            "lane {lane} was moved off core {core} during the run (its cpuset or affinity was changed from outside): \
             in the end it could run on core{} {}",
            if now.len() == 1 { "" } else { "s" },
            now.join(", ")
        );
        let remark = Remark::new(RemarkName::LaneMoved, text)
            .with("lane", lane)
            .with("core", core);
        Some(remark.with("allowed_cores", allowed))
    })
}

/// Returns a warning if a limit of CPU time ended the run, and names the limit.
fn cpu_time_spent() -> Option<Remark> {
    if !signal::cpu_time_is_spent() {
        return None;
    }
    let (cpu, real_time) = (CpuLimit::of_process(), CpuLimit::of_real_time());
    // The kernel counts CPU time by ticks, so that its count and this one differ, and raises the soft limit by a second
    // as it sends the signal.
    let reached = |limit: &CpuLimit| real_time.is_none() || signal::cpu_time_s() + 2 >= limit.soft;
    let (limit, text) = match (cpu.filter(reached), real_time) {
        (Some(_), _) => (
            "cpu",
            "the run ended early: the program reached its limit of CPU time (ulimit -t): want a higher limit, or a \
             shorter run",
        ),
        (None, Some(_)) => (
            "real_time",
            "the run ended early: a real-time thread ran for longer than it may without sleeping (RLIMIT_RTTIME)",
        ),
        (None, None) => (
            "none",
            "the run ended early: SIGXCPU came, and this process has no limit of CPU time",
        ),
    };
    Some(Remark::new(RemarkName::CpuTimeSpent, text).with("limit", limit))
}
