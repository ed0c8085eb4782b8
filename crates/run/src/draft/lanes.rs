//! Number of lanes, their roles, and their cores.

use crate::fail::{Result, usage};
use crate::privilege;
use crate::record;
use crate::request::Run;
use mpps_engine::{Common, LanePlan, Owner, TraceOptions};
use mpps_host::isolate::{Share, Tree, nice_trap};
use mpps_io::Roles;
use mpps_plan::Plain;
use mpps_stats::{HostFact, Remark, RemarkName, RemarkValue};
use mpps_sys::sched::{Priority, allowed_cores, denied_core, may_have};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Least number of cores for separate sending and receiving lanes. With fewer, each lane does both, because separate
/// lanes would take each other's core.
const MANY_CORES: usize = 4;

/// Returns the lanes of a run that sends (and receives, if `receive`).
pub(crate) fn traffic(
    run: &Run,
    tx: Option<usize>,
    rx: Option<usize>,
    receive: bool,
    split: bool,
) -> Result<Vec<Roles>> {
    let both = |n| vec![Roles { rx: receive, tx: true }; n];
    match (tx, rx) {
        (None, None) => {
            if run.plan.lanes.lanes.is_none() && receive && split && allowed_cores().len() >= MANY_CORES {
                return Ok(vec![Roles { rx: false, tx: true }, Roles { rx: true, tx: false }]);
            }
            Ok(both(run.plan.lanes.lanes.unwrap_or(1)))
        }
        (Some(_), None) if receive => Err(usage(
            "--tx-lanes: want --rx-lanes N as well, or --lanes N for lanes that do both",
        )),
        (None, Some(_)) if receive => Err(usage(
            "--rx-lanes: want --tx-lanes N as well, or --lanes N for lanes that do both",
        )),
        (_, Some(_)) if !receive => Err(usage("--rx-lanes: send receives nothing: want --tx-lanes or --lanes")),
        (Some(tx), None) => Ok(both(tx)),
        (Some(_), Some(_)) if !split => Err(usage(
            "--tx-lanes/--rx-lanes: on the loop path a lane receives what it sends itself: want --lanes N, which do \
             both",
        )),
        (tx, rx) => {
            let mut roles = vec![Roles { rx: false, tx: true }; tx.unwrap_or(1)];
            roles.extend(vec![Roles { rx: true, tx: false }; rx.unwrap_or(1)]);
            Ok(roles)
        }
    }
}

/// Returns the options for recording the lanes' rounds, if a trace is asked for.
fn traced(run: &Run) -> Option<TraceOptions> {
    let keep = run.beside.trace.as_ref()?;
    let (on, memory) = (&keep.on, keep.memory as usize);
    Some(TraceOptions {
        stall: on.stall,
        late: on.late,
        loss: on.loss,
        drop: on.drop,
        invalid: on.invalid,
        before: keep.window.before,
        after: keep.window.after,
        all: keep.all,
        memory: memory - memory / record::PART_OF_EVENTS as usize,
        ..TraceOptions::default()
    })
}

/// Returns the lanes of a run that listens, and answers if `tx`.
pub(crate) fn listening(run: &Run, tx: bool) -> Vec<Roles> {
    vec![Roles { rx: true, tx }; run.plan.lanes.lanes.unwrap_or(1)]
}

/// Fills in the plan's lanes and duration.
pub(crate) fn fill(run: &mut Run, roles: &[Roles], default_duration: &str) {
    let alike = roles.windows(2).all(|pair| pair[0] == pair[1]);
    let plan = &mut run.complete;
    plan.fill("times.duration", default_duration);
    match (alike, roles.len()) {
        (_, 0) => {}
        (true, n) => {
            if !plan.has("lanes.tx_lanes") {
                plan.fill("lanes.lanes", n);
            }
        }
        (false, _) => {
            plan.fill("lanes.tx_lanes", roles.iter().filter(|role| role.tx).count());
            plan.fill("lanes.rx_lanes", roles.iter().filter(|role| role.rx).count());
        }
    }
}

/// Returns the core of each of `lanes` lanes, from lane `first` of the run on.
pub(crate) fn cores_of(run: &Run, first: usize, lanes: usize) -> Vec<Option<usize>> {
    let list = run.plan.lanes.cores.as_ref().map(|c| c.0.as_slice());
    let core = |lane: usize| list.map(|cores| cores[lane % cores.len()]);
    (first..first + lanes).map(core).collect()
}

/// Most rows that may be open at once, because of their memory (some 250 bytes per row and lane).
const MAX_OPEN_ROWS: u128 = 1 << 20;

/// Refuses an interval so short for the settle time that too many rows would be open at once.
pub(crate) fn check_open_rows(interval: Duration, settle: Duration) -> Result<()> {
    let rows = settle.as_nanos() / interval.as_nanos().max(1);
    if rows > MAX_OPEN_ROWS {
        let least = settle.as_nanos().div_ceil(MAX_OPEN_ROWS).div_ceil(1000);
        return Err(usage(format!(
            "--interval {interval:?}: with --settle {settle:?} {rows} rows would be open at once: want {least}us at \
             least"
        )));
    }
    Ok(())
}

/// Returns the priority that is asked for the lanes' threads.
pub(crate) fn priority(run: &Run) -> Option<Priority> {
    run.plan
        .lanes
        .fifo
        .map(Priority::Fifo)
        .or(run.plan.lanes.nice.map(Priority::Nice))
}

/// Returns whether lanes can have the priority that is asked for. The run's first call asks the kernel, before
/// privileges are given up; later calls, such as for a method's trials, return the same.
fn can_be_had(run: &Run, priority: Priority) -> bool {
    *run.watchers.priority.get_or_init(|| may_have(priority))
}

/// Returns the option that asks for a priority, with its value.
pub fn asked(priority: Priority) -> String {
    match priority {
        Priority::Nice(nice) => format!("--nice {nice}"),
        Priority::Fifo(rank) => format!("--fifo {rank}"),
    }
}

/// Returns whether a priority is a nice value better than the normal one.
pub fn ranks_first(priority: &Priority) -> bool {
    matches!(priority, Priority::Nice(nice) if *nice < 0)
}

/// Returns the remark on lanes of `SCHED_FIFO`.
///
/// # Errors
/// If such lanes would lose their core for long, or would never leave it to each other.
fn check_fifo(rank: u32, busy_poll: bool, share_cores: bool, (share, off): (Share, Option<&str>)) -> Result<Remark> {
    if share_cores {
        return Err(usage(never_leaves(rank)));
    }
    let remark = |text| Remark::new(RemarkName::FifoLimit, text).with("rank", u64::from(rank));
    let Some(told) = share.told() else {
        return Ok(remark(format!(
            "--fifo {rank}: the limit of real-time threads is switched off: a lane that never sleeps keeps its core \
             from all other threads"
        )));
    };
    if busy_poll {
        let want = match off {
            Some(off) => format!("--busy-poll left out, --nice -20, or that switched off (as root: {off})"),
            None => "--busy-poll left out, or --nice -20".to_owned(),
        };
        return Err(usage(format!(
            "--fifo {rank}: with --busy-poll lanes never sleep, and {told}: want {want}"
        )));
    }
    Ok(remark(format!(
        "--fifo {rank}: {told}: a lane under full load never sleeps"
    )))
}

/// Refuses cores that no thread of this process can be given. A mask that the process was started with (`taskset`,
/// `isolcpus`) is no obstacle: threads can leave it.
///
/// # Errors
/// The core, and the cores that are possible.
fn check_cores(list: &[usize]) -> Result<()> {
    match denied_core(list) {
        None => Ok(()),
        Some((core, possible)) => Err(usage(format!(
            "--cores: core {core}: the kernel gives it to no thread of this program, as this host has no such core, or \
             the control group (cpuset) does not allow it: want some of {possible:?}"
        ))),
    }
}

/// Notes whether the lanes of plans that run beside each other share cores.
///
/// # Errors
/// If lanes of `SCHED_FIFO` do: they never leave a core to each other.
pub(crate) fn share_cores(common: &mut Common) -> Result<()> {
    let pinned: Vec<_> = common.lanes.iter().filter_map(|lane| lane.core).collect();
    let distinct = pinned.iter().collect::<BTreeSet<_>>().len();
    let all_pinned = pinned.len() == common.lanes.len();
    let cores = if all_pinned { distinct } else { allowed_cores().len() };
    if common.lanes.len() <= cores && distinct == pinned.len() {
        return Ok(());
    }
    if let Some(Priority::Fifo(rank)) = common.priority {
        return Err(usage(never_leaves(rank)));
    }
    common.share_cores = true;
    let (lanes, cores) = match common.lanes.len() > cores {
        true => (common.lanes.len(), cores),
        // Lanes of several plans are pinned to one core, others to none.
        false => (pinned.len(), distinct),
    };
    let mut warnings = vec![shared(lanes, cores)];
    warnings.extend(common.busy_poll.then(busy_and_shared));
    warnings.retain(|warning| !common.warnings.contains(warning));
    common.warnings.extend(warnings);
    Ok(())
}

/// Returns the warning on lanes that share cores and never sleep.
fn busy_and_shared() -> Remark {
    let text = "--busy-poll with more lanes than cores: lanes take each other's core while idle";
    Remark::new(RemarkName::BusyPollShared, text)
}

/// Returns the refusal of lanes of `SCHED_FIFO` that share cores.
fn never_leaves(rank: u32) -> String {
    format!(
        "--fifo {rank}: with more lanes than cores the first lane of a core never leaves it to the others: want no \
         more lanes than cores, or --nice"
    )
}

/// Returns the warning that more lanes than cores work slowly.
fn shared(lanes: usize, cores: usize) -> Remark {
    let s = if cores == 1 { "" } else { "s" };
    let text = format!(
        "{lanes} lanes share {cores} core{s}: each waits for the others, so the rate is lower and latency higher"
    );
    Remark::new(RemarkName::LanesShareCores, text)
        .with("lanes", lanes)
        .with("cores", cores)
}

/// Places the lanes on cores, and returns the settings that every run has.
pub(crate) fn common(run: &Run, roles: &[Roles], default_duration: Option<Duration>, burst: usize) -> Result<Common> {
    let allowed = allowed_cores();
    let mut warnings = Vec::new();
    let list = run.plan.lanes.cores.as_ref().map(|c| c.0.as_slice());
    check_cores(list.unwrap_or_default())?;
    if let Some(beyond) = list
        .and_then(|list| list.get(roles.len()..))
        .filter(|beyond| !beyond.is_empty())
    {
        let named: Vec<String> = beyond.iter().map(ToString::to_string).collect();
        let text = format!(
            "--cores: no lane runs on {}: a core is taken for each lane, in their order, and the run has {} of them",
            named.join(","),
            roles.len()
        );
        let remark = Remark::new(RemarkName::CoresUnused, text)
            .with("cores", beyond.iter().copied().collect::<RemarkValue>())
            .with("lanes", roles.len());
        warnings.push(remark);
    }
    // A core named twice is one core; cores beyond the lanes stay unused.
    let distinct = |list: &[usize]| list.iter().take(roles.len()).collect::<BTreeSet<_>>().len();
    let cores = list.map_or(allowed.len(), distinct);
    let share_cores = roles.len() > cores;
    if share_cores {
        warnings.push(shared(roles.len(), cores));
        if run.plan.lanes.busy_poll {
            warnings.push(busy_and_shared());
        }
    }
    let priority = priority(run);
    // Lanes report a priority that the kernel refuses; warnings about it would then be wrong.
    let had = priority.filter(|priority| can_be_had(run, *priority));
    if let Some(Priority::Fifo(rank)) = priority {
        let share = Share::live();
        let told = check_fifo(rank, run.plan.lanes.busy_poll, share_cores, (share, share.off_here()))?;
        warnings.extend(had.map(|_| told));
    }
    if let Some(trap) = had.filter(ranks_first).and_then(|_| nice_trap(&Tree::live())) {
        let text = format!("{}: {trap}", had.map(asked).unwrap_or_default());
        warnings.push(Remark::new(RemarkName::NiceRanksInSession, text));
    }
    let host = privilege::facts(run).into_iter();
    let host = host.chain(had.map(|priority| HostFact::new("lane_priority", priority.to_string())));
    let lanes = roles
        .iter()
        .enumerate()
        .map(|(i, role)| LanePlan {
            rx: role.rx,
            tx: role.tx,
            core: list.map(|cores| cores[i % cores.len()]),
        })
        .collect();
    let duration = match run.plan.times.duration.plain() {
        Some(Duration::ZERO) => None,
        Some(duration) => Some(duration),
        None => default_duration,
    };
    Ok(Common {
        lanes,
        duration,
        start_at: run.start_at,
        count: None,
        streams: None,
        interval: *run.plan.times.interval,
        settle: Duration::ZERO,
        settle_early: false,
        burst: run.plan.lanes.burst.unwrap_or(burst),
        busy_poll: run.plan.lanes.busy_poll,
        priority,
        share_cores,
        seed: run.plan.seed,
        host: host.collect(),
        warnings,
        owner: Arc::clone(&run.watchers) as Arc<dyn Owner>,
        trace: traced(run),
        sample: run.beside.sample.as_ref().map(|sample| sample.options(roles.len())),
        run_id: mpps_sys::random_number(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_time_lanes_that_never_sleep_are_refused_unless_the_limit_is_off() {
        let throttled = Share::Always {
            lost_us: 50_000,
            period_us: 1_000_000,
        };
        let refused = check_fifo(5, true, false, (throttled, throttled.off())).expect_err("a trap");
        for part in [
            "--fifo 5",
            "--busy-poll",
            "50 ms of each 1000 ms",
            "--nice -20",
            "sched_rt_runtime_us=-1",
        ] {
            assert!(refused.line().contains(part), "{part}: {}", refused.line());
        }
        // If even root can't switch the limit off, the error does not advise it.
        let refused = check_fifo(5, true, false, (throttled, None)).expect_err("a trap");
        assert!(
            refused.line().ends_with("--busy-poll left out, or --nice -20"),
            "{}",
            refused.line()
        );
        let told = check_fifo(5, false, false, (throttled, None)).expect("lanes sleep");
        assert!(told.sentence.contains("50 ms of each 1000 ms"), "{told:?}");
        let off = check_fifo(5, true, false, (Share::Nothing, None)).expect("off");
        assert!(off.sentence.contains("switched off"), "{off:?}");
        assert_eq!(off.value("rank"), Some(&5u64.into()));
        assert!(
            check_fifo(5, false, true, (Share::Nothing, None)).is_err(),
            "two lanes on one core"
        );
    }
}
