//! Loads the object and attaches its programs to the kernel's tracepoints.

use crate::abi::{CPUS, Core, Drops, LanePlace, Plan, REASONS, ROWS, Row, SLOTS, STAMPS, STAMPS_AT, Settings};
use crate::lack::Lack;
use aya::maps::{Map, MapData, RingBuf};
use aya::programs::tp_btf::BtfTracePointLinkId;
use aya::programs::{BtfTracePoint, ProgramError, RawTracePoint, TestRun};
use aya::{Btf, Ebpf, EbpfLoader};
use mpps_sys::map::{Mapping, Shared};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Object file, aligned because the loader reads ELF structures in place.
#[repr(align(8))]
struct Object<T>(T);

/// Object file that `scripts/xdp.sh` builds.
static OBJECT: Object<[u8; include_bytes!("../bpf/watch.bpf.o").len()]> = Object(*include_bytes!("../bpf/watch.bpf.o"));

#[cfg(test)]
pub(crate) fn object() -> &'static [u8] {
    &OBJECT.0
}

/// File in which the kernel describes its types.
pub(crate) const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// A program, its tracepoint, and whether it is used only with records or with a filter for drops.
struct Tap {
    program: &'static str,
    tracepoint: &'static str,
    only: Only,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Only {
    /// The watch can't work without this program.
    Needed,
    Always,
    Records,
    Drops,
    Polls,
}

const fn tap(program: &'static str, tracepoint: &'static str, only: Only) -> Tap {
    Tap {
        program,
        tracepoint,
        only,
    }
}

/// Programs and their tracepoints. The programs of switches are last: until they are attached no time is counted, so
/// all programs count the same time.
const TAPS: [Tap; 21] = [
    tap("irq_begins", "irq_handler_entry", Only::Always),
    tap("irq_ends", "irq_handler_exit", Only::Always),
    tap("soft_begins", "softirq_entry", Only::Always),
    tap("soft_over", "softirq_exit", Only::Always),
    tap("local_timer_begins", "local_timer_entry", Only::Always),
    tap("local_timer_ends", "local_timer_exit", Only::Always),
    tap("reschedule_begins", "reschedule_entry", Only::Always),
    tap("reschedule_ends", "reschedule_exit", Only::Always),
    tap("call_function_begins", "call_function_entry", Only::Always),
    tap("call_function_ends", "call_function_exit", Only::Always),
    tap(
        "call_function_single_begins",
        "call_function_single_entry",
        Only::Always,
    ),
    tap("call_function_single_ends", "call_function_single_exit", Only::Always),
    tap("irq_work_begins", "irq_work_entry", Only::Always),
    tap("irq_work_ends", "irq_work_exit", Only::Always),
    tap("polled", "napi_poll", Only::Polls),
    tap("signal", "signal_deliver", Only::Records),
    tap("dropped", DROPPED, Only::Drops),
    tap("not_redirected", NOT_REDIRECTED, Only::Drops),
    tap("waking", "sched_waking", Only::Records),
    tap("awake", "sched_wakeup", Only::Needed),
    tap("exchange", "sched_switch", Only::Needed),
];

/// Tracepoint at which the kernel reports packets that it drops.
pub(crate) const DROPPED: &str = "kfree_skb";
/// Tracepoint at which the kernel reports that an XDP program could not hand a packet on.
pub(crate) const NOT_REDIRECTED: &str = "xdp_redirect_err";

/// Programs in the kernel, and the maps that they write.
pub(crate) struct Loaded {
    /// Owner of the programs and of their links to the tracepoints.
    ebpf: Ebpf,
    /// Programs that look at soft interrupts; empty once they are detached.
    soft: Vec<(&'static str, BtfTracePointLinkId)>,
    pub(crate) ring: RingBuf<MapData>,
    pub(crate) settings: Mapping<Settings>,
    pub(crate) cores: Mapping<Core>,
    pub(crate) lanes: Mapping<LanePlace>,
    pub(crate) table: Mapping<Row>,
    pub(crate) drops: Mapping<Drops>,
    /// Times with which each lane has stamped packets. Lanes write there for as long as they hold it.
    pub(crate) stamped: Arc<Mapping<AtomicU64>>,
    /// Tracepoints that this kernel lacks.
    pub(crate) without: Vec<&'static str>,
}

const WHAT: &str = "watch the cores";
/// Programs that look at soft interrupts.
const SOFT: [&str; 2] = ["soft_begins", "soft_over"];

impl Loaded {
    /// Loads the programs and attaches them. They do nothing until a core is watched.
    pub(crate) fn new(plan: &Plan, ring_bytes: u32, polls: bool) -> Result<Self, Lack> {
        let stamps = plan.lanes.max(1) as usize * (STAMPS_AT + STAMPS);
        let btf =
            Btf::from_sys_fs().map_err(|e| Lack::Kernel(format!("the kernel does not describe its types: {e}")))?;
        let mut ebpf = EbpfLoader::new()
            .btf(Some(&btf))
            .override_global("PLAN", plan, true)
            .map_max_entries("RECORDS", ring_bytes)
            .map_max_entries("STAMPED", stamps as u32)
            .load(&OBJECT.0)
            .map_err(|e| Lack::of(WHAT, &e))?;
        let missing = |name: &str| Lack::Kernel(format!("{WHAT}: the object has no {name}"));
        let ring = ebpf.take_map("RECORDS").ok_or_else(|| missing("RECORDS"))?;
        let ring = RingBuf::try_from(ring).map_err(|e| Lack::of(WHAT, &e))?;
        let settings = mapping(&ebpf, "SETTINGS", 1)?;
        let cores = mapping(&ebpf, "CORES", CPUS)?;
        let lanes = mapping(&ebpf, "LANES_BY_TID", SLOTS)?;
        let table = mapping(&ebpf, "TABLE", ROWS)?;
        let drops = mapping(&ebpf, "DROPS", REASONS)?;
        let stamped = Arc::new(mapping(&ebpf, "STAMPED", stamps)?);

        let (mut without, mut soft) = (Vec::new(), Vec::new());
        for tap in &TAPS {
            let wanted = match tap.only {
                Only::Needed | Only::Always => true,
                Only::Records => plan.records != 0,
                Only::Polls => polls,
                Only::Drops => plan.ranges + plan.devices != 0,
            };
            if !wanted {
                continue;
            }
            let program = ebpf.program_mut(tap.program).ok_or_else(|| missing(tap.program))?;
            let attached = (|| {
                let program: &mut BtfTracePoint = program.try_into()?;
                program.load(tap.tracepoint, &btf)?;
                program.attach()
            })();
            match attached {
                Ok(link) if SOFT.contains(&tap.program) => soft.push((tap.program, link)),
                Ok(_) => {}
                Err(ProgramError::Btf(_)) if tap.only != Only::Needed => without.push(tap.tracepoint),
                Err(e) => return Err(Lack::of(&format!("{WHAT} at {}", tap.tracepoint), &e)),
            }
        }
        who_am_i(&mut ebpf).map_err(|e| Lack::of(WHAT, &e))?;
        Ok(Self {
            ebpf,
            soft,
            ring,
            settings,
            cores,
            lanes,
            table,
            drops,
            stamped,
            without,
        })
    }
}

impl Loaded {
    /// Whether the programs look at soft interrupts.
    pub(crate) fn soft(&self) -> bool {
        !self.soft.is_empty()
    }

    /// Stops looking at soft interrupts. Closing a program's link to its tracepoint takes no privileges.
    pub(crate) fn leave_soft(&mut self) {
        for (name, link) in self.soft.drain(..) {
            let program = self.ebpf.program_mut(name);
            let program = program.and_then(|program| <&mut BtfTracePoint>::try_from(program).ok());
            // Detaching fails if the program is gone already.
            let _ = program.map(|program| program.detach(link));
        }
    }
}

/// Lets a program note the number that the host has for this process: in a container it differs from the process's own.
fn who_am_i(ebpf: &mut Ebpf) -> Result<(), ProgramError> {
    let Some(program) = ebpf.program_mut("self") else {
        return Ok(());
    };
    let program: &mut RawTracePoint = program.try_into()?;
    program.load()?;
    program.test_run(Default::default())?;
    program.unload()
}

fn mapping<T: Shared>(ebpf: &Ebpf, name: &str, count: usize) -> Result<Mapping<T>, Lack> {
    let map = match ebpf.map(name) {
        Some(Map::Array(map)) => map,
        _ => return Err(Lack::Kernel(format!("{WHAT}: the object has no {name}"))),
    };
    Mapping::new(map.fd().as_fd(), count).map_err(|e| Lack::os(&format!("{WHAT}: map {name}"), &e))
}
