//! Facts of the host that a run was on.

use super::Measured;
use mpps_stats::HostFact;
use std::time::Duration;

/// Returns how the clocks of a time namespace were related to the host's; `None` outside of one.
fn time_namespace() -> Option<String> {
    match mpps_sys::clock::namespace::offsets() {
        Ok(offsets) if offsets.monotonic_ns == 0 => None,
        Ok(offsets) => {
            let seconds = offsets.monotonic_ns as f64 / 1e9;
            Some(format!(
                "its clock is {seconds} s ahead of the host's: times here are the host's"
            ))
        }
        Err(why) => Some(format!("not known whether in one ({why})")),
    }
}

pub(super) fn host_facts(m: &Measured<'_>) -> Vec<HostFact> {
    let mut facts = vec![HostFact::shown("mpps_version", env!("CARGO_PKG_VERSION"))];
    facts.push(HostFact::shown("kernel", mpps_sys::probe::kernel_release()));
    facts.extend(mpps_sys::processor::name().map(|cpu| HostFact::shown("cpu", cpu)));
    let cores = mpps_sys::sched::allowed_cores().len();
    facts.extend([
        HostFact::shown("cores_allowed", cores.to_string()),
        HostFact::shown("clock", m.clock),
        HostFact::new("path", m.path_name.as_str()),
    ]);
    facts.extend(mpps_sys::clock::tick_ns().map(|ns| HostFact::shown("clock_tick_ns", format!("{ns:.3}"))));
    facts.extend(time_namespace().map(|relation| HostFact::shown("time_namespace", relation)));
    facts.extend_from_slice(&m.common.host);
    facts.extend_from_slice(&m.port_facts);
    let ms = |time: Duration| format!("{}", time.as_secs_f64() * 1e3);
    facts.extend([
        HostFact::new("run_s", format!("{:.6}", m.run_ns() as f64 / 1e9)),
        HostFact::new("interval_ms", ms(m.common.interval)),
        HostFact::new("settle_ms", ms(m.common.settle)),
        HostFact::new("burst", m.common.burst.to_string()),
        HostFact::new("seed", m.common.seed.to_string()),
    ]);
    facts.extend(
        m.steal_ns
            .map(|ns| HostFact::new("steal_ms", (ns / 1_000_000).to_string())),
    );
    facts
}
