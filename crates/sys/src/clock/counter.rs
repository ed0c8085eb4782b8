//! The processor's own counter of time: TSC on x86-64, the generic timer's virtual count (`cntvct_el0`) on arm64.

use std::fs::read_to_string;

/// Name of the counter in results.
pub(super) const NAME: &str = if cfg!(target_arch = "aarch64") { "cntvct" } else { "tsc" };

/// The kernel's name for it as a clock source.
const SOURCE: &str = if cfg!(target_arch = "aarch64") {
    "arch_sys_counter"
} else {
    "tsc"
};

/// Counters that tick more rarely are left to the kernel, Hz: a pair of readings would be off by more than the line
/// may be (`AGREE_NS`).
#[cfg(target_arch = "aarch64")]
const SLOWEST: u64 = 10_000_000;

#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn ticks() -> u64 {
    // SAFETY: RDTSC reads a register; it is present on every x86-64 processor and Linux leaves it open to user space
    // (where it does not, `is_sound` has already said so and this is never called).
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Reads the counter as the kernel does: behind ISB, since a reading may else be taken before the instructions in front
/// of it are done, and a packet would have a time before its arrival.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(super) fn ticks() -> u64 {
    let ticks;
    // SAFETY: it reads a register, and changes neither memory nor flags. Linux leaves the register open to user space,
    // or answers the trap itself where the processor has an erratum.
    unsafe { core::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags)) };
    ticks
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline]
pub(super) fn ticks() -> u64 {
    0
}

/// Ticks a second, if the processor says so.
#[cfg(target_arch = "aarch64")]
fn frequency() -> Option<u64> {
    let hz: u64;
    // SAFETY: as for `ticks`; `cntfrq_el0` is a register that user space may read wherever it may read the counter.
    unsafe { core::arch::asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags)) };
    (hz > 0).then_some(hz)
}

#[cfg(not(target_arch = "aarch64"))]
fn frequency() -> Option<u64> {
    None
}

/// Time between two ticks, ns, if the processor says how many there are in a second (arm64). The kernel's
/// `CLOCK_MONOTONIC` counts the same ticks, so it is no finer.
pub fn tick_ns() -> Option<f64> {
    frequency().map(|hz| 1e9 / hz as f64)
}

/// Whether the kernel itself trusts the counter as its clock source; if it does, it is constant, non-stop and
/// synchronised over cores.
pub(super) fn is_sound() -> bool {
    #[cfg(target_arch = "aarch64")]
    let known = frequency().is_some_and(|hz| hz >= SLOWEST);
    #[cfg(not(target_arch = "aarch64"))]
    let known = cfg!(target_arch = "x86_64");
    known
        && read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .is_ok_and(|s| s.trim() == SOURCE)
}
