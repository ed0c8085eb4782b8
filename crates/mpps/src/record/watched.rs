//! The watch over the lanes' cores during a run.

use super::thin::thin;
use crate::cli::Run;
use crate::paths::Checked;
use crate::privilege;
use mpps_engine::{Opened, StampMemory};
use mpps_sys::clock::monotonic_ns;
use mpps_sys::privilege::Keep;
use mpps_sys::sched;
use mpps_trace::{KernelEvent, LeftOut, Taker};
use mpps_watch::{Lane, Options, Stamps, Watch};
use serde_json::Value;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often events are read.
const EVERY: Duration = Duration::from_millis(20);
/// What an event takes in memory with its names, bytes, rounded up.
const EVENT_BYTES: u64 = 192;
/// Of the memory for what is kept, one part of so many is for events, the rest for what lanes did.
pub(crate) const PART_OF_EVENTS: u64 = 4;
/// Looks at the counts of drops that are kept one by one.
const MOST_LOOKS: usize = 100_000;

/// How far it is.
enum State {
    /// Nobody has asked for it.
    Off,
    /// Lanes are made ready.
    Asked {
        options: Options,
        lanes: Vec<LaneThread>,
        most: usize,
    },
    /// The kernel's tracepoints are open.
    Open(Box<Watch>, Vec<LaneThread>, usize),
    /// Events are read.
    Running(Reader, Vec<LaneThread>),
    /// There are none.
    Failed(Vec<LaneThread>, String),
}

/// The thread of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneThread {
    pub(crate) lane: u32,
    pub(crate) tid: i32,
    /// The one core that it may run on; `None`: there are several.
    pub(crate) cpu: Option<u32>,
}

struct Reader {
    thread: JoinHandle<Read>,
    over: Arc<AtomicBool>,
    /// Of each lane.
    stamps: Vec<Stamps>,
}

/// What was read.
struct Read {
    watch: Box<Watch>,
    events: Vec<KernelEvent>,
    /// Events for which there was no room.
    left_out: u64,
    drops: Drops,
}

/// Packets of the test that the kernel dropped for one reason between two looks at its count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dropping {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    pub(crate) reason: String,
    pub(crate) packets: u64,
}

/// What the kernel dropped, as its counts grew.
#[derive(Debug, Default)]
struct Drops {
    looked_ns: u64,
    so_far: Vec<(String, u64)>,
    grew: Vec<Dropping>,
}

impl Drops {
    fn look(&mut self, watch: &Watch) {
        let from_ns = std::mem::replace(&mut self.looked_ns, monotonic_ns());
        for dropped in watch.drops() {
            let known = self.so_far.iter().position(|(reason, _)| *reason == dropped.reason);
            let known = known.unwrap_or_else(|| {
                self.so_far.push((dropped.reason.clone(), 0));
                self.so_far.len() - 1
            });
            let before = std::mem::replace(&mut self.so_far[known].1, dropped.ours);
            if dropped.ours > before {
                self.grew.push(Dropping {
                    from_ns,
                    to_ns: self.looked_ns,
                    reason: dropped.reason,
                    packets: dropped.ours - before,
                });
            }
        }
        // A run of days: what came in two looks becomes what came in one.
        if self.grew.len() > MOST_LOOKS {
            let mut kept: Vec<Dropping> = Vec::with_capacity(MOST_LOOKS);
            for next in self.grew.drain(..) {
                match kept
                    .last_mut()
                    .filter(|last| last.reason == next.reason && last.to_ns == next.from_ns)
                {
                    Some(last) => (last.to_ns, last.packets) = (next.to_ns, last.packets + next.packets),
                    None => kept.push(next),
                }
            }
            kept.truncate(MOST_LOOKS);
            self.grew = kept;
        }
    }
}

/// What was seen of a run.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    pub(crate) lanes: Vec<LaneThread>,
    /// By time.
    pub(crate) events: Vec<KernelEvent>,
    pub(crate) takers: Vec<Taker>,
    pub(crate) drops: Vec<Dropping>,
    /// Threads of this process.
    pub(crate) own: Vec<i32>,
    pub(crate) left_out: Vec<LeftOut>,
}

static STATE: Mutex<State> = Mutex::new(State::Off);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Before anything is opened: has the lanes' cores watched, where a trace is asked for, and what the kernel drops of
/// packets that go through it.
pub(crate) fn ask(run: &Run, ports: &[&Checked]) {
    if run.tell.keep.trace.is_none() {
        return;
    }
    let plan = serde_json::from_str(&run.plan.text()).unwrap_or_default();
    // Drops of others' packets to the same ports would be taken for this run's where the kernel has none of them.
    let through_kernel = |port: &&Checked| port.traits.interface.is_some() || port.traits.socket.is_some();
    let devices = ports
        .iter()
        .filter_map(|port| port.interface())
        .map(|device| device.ifindex);
    let options = Options {
        ports: if ports.iter().any(through_kernel) {
            ports_of(&plan)
        } else {
            Vec::new()
        },
        devices: devices.collect(),
        records: true,
        ..Options::default()
    };
    *state() = State::Asked {
        options,
        lanes: Vec::new(),
        most: (run.tell.keep.trace_memory / PART_OF_EVENTS / EVENT_BYTES) as usize,
    };
}

/// A thread of the run has opened all that it needs, and has its privileges yet.
pub(crate) fn opened(opened: Opened) {
    let mut state = state();
    let State::Asked { options, lanes, most } = &mut *state else {
        return;
    };
    match opened {
        Opened::Lane(number) => {
            let cores = sched::allowed_cores();
            lanes.push(LaneThread {
                lane: number as u32,
                tid: sched::thread_id(),
                cpu: <[usize; 1]>::try_from(cores).ok().map(|[core]| core as u32),
            });
        }
        Opened::Main => {
            lanes.sort_unstable_by_key(|lane| lane.lane);
            let (lanes, most) = (std::mem::take(lanes), *most);
            options.lanes = lanes.iter().map(watched).collect();
            // What the program's file lends is not for its user to see the host with.
            let watch = match privilege::lent() {
                true => Err("the program's file lends its privileges to every user".to_owned()),
                false => Watch::start(options).map_err(|lack| lack.to_string()),
            };
            *state = match watch {
                Ok(watch) => State::Open(Box::new(watch), lanes, most),
                Err(why) => State::Failed(lanes, why),
            };
        }
    }
}

fn watched(&LaneThread { lane, tid, cpu }: &LaneThread) -> Lane {
    Lane { lane, tid, cpu }
}

/// The main thread has given up its privileges: from here on events are read.
pub(crate) fn begin() {
    let mut state = state();
    match std::mem::replace(&mut *state, State::Off) {
        State::Open(watch, lanes, most) => {
            *state = match Reader::start(watch, &lanes, most) {
                Ok(reader) => State::Running(reader, lanes),
                Err(e) => State::Failed(lanes, format!("start the thread that reads the kernel's events: {e}")),
            };
        }
        other => *state = other,
    }
}

impl Reader {
    fn start(mut watch: Box<Watch>, lanes: &[LaneThread], most: usize) -> std::io::Result<Self> {
        let lanes: Vec<i32> = lanes.iter().map(|lane| lane.tid).collect();
        let over = Arc::new(AtomicBool::new(false));
        let stamps = (0..).map_while(|lane| watch.stamps(lane)).collect();
        let ends = Arc::clone(&over);
        let body = move || {
            // It reads memory that is mapped already.
            let _ = Keep::NOTHING.apply();
            let (mut events, mut left_out) = (Vec::new(), 0);
            let mut drops = Drops {
                looked_ns: monotonic_ns(),
                ..Drops::default()
            };
            let mut new = Vec::new();
            loop {
                let over = ends.load(Ordering::Acquire);
                watch.poll(&mut new);
                drops.look(&watch);
                if events.len() + new.len() > most {
                    events.append(&mut new);
                    left_out += thin(&mut events, &lanes, most);
                } else {
                    events.append(&mut new);
                }
                if over {
                    return Read {
                        watch,
                        events,
                        left_out,
                        drops,
                    };
                }
                thread::park_timeout(EVERY);
            }
        };
        let thread = thread::Builder::new().name("mpps-watch".to_owned()).spawn(body)?;
        Ok(Self { thread, over, stamps })
    }
}

/// Where a lane notes its stamps, by its number: the kernel's programs know the run's packets by them.
pub(crate) fn stamps(number: usize) -> Option<StampMemory> {
    match &*state() {
        State::Running(reader, lanes) => {
            let place = lanes.iter().position(|lane| lane.lane as usize == number)?;
            reader.stamps.get(place).cloned().map(StampMemory::new)
        }
        _ => None,
    }
}

const _: () = assert!(StampMemory::PLACES_AT == Stamps::PLACES_AT);

/// Ends the watch; `None`: nobody asked for it.
pub(crate) fn finish() -> Option<Watched> {
    let without = |why: String| LeftOut {
        what: "what took the cores, and the kernel's reasons for drops".to_owned(),
        count: 0,
        why,
    };
    match std::mem::replace(&mut *state(), State::Off) {
        State::Off => None,
        // The run ended before it began.
        State::Asked { lanes, .. } | State::Open(_, lanes, _) => Some(Watched {
            lanes,
            ..Watched::default()
        }),
        State::Failed(lanes, why) => Some(Watched {
            lanes,
            left_out: vec![without(why)],
            ..Watched::default()
        }),
        State::Running(reader, lanes) => {
            let own = threads();
            reader.over.store(true, Ordering::Release);
            reader.thread.thread().unpark();
            let Ok(Read {
                watch,
                mut events,
                left_out: beyond,
                drops,
            }) = reader.thread.join()
            else {
                return Some(Watched {
                    lanes,
                    left_out: vec![without(
                        "the thread that reads the kernel's events has panicked".to_owned(),
                    )],
                    ..Watched::default()
                });
            };
            events.sort_by_key(|event| event.at_ns);
            let lost = |count: u64, why: &str| {
                (count > 0).then(|| LeftOut {
                    what: "events of the kernel".to_owned(),
                    count,
                    why: why.to_owned(),
                })
            };
            let beyond = lost(
                beyond,
                "the memory for them was full: kept are those near long waits of lanes for their cores",
            );
            let lost = lost(watch.lost(), "they came faster than they could be read");
            let missing = watch.without().iter().map(|what| LeftOut {
                what: (*what).to_owned(),
                count: 0,
                why: "this kernel has no such tracepoint".to_owned(),
            });
            Some(Watched {
                takers: watch.takers(),
                drops: drops.grew,
                own: own.into_iter().chain(lanes.iter().map(|lane| lane.tid)).collect(),
                left_out: beyond.into_iter().chain(lost).chain(missing).collect(),
                events,
                lanes,
            })
        }
    }
}

/// The threads of this process.
fn threads() -> Vec<i32> {
    let all = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// UDP ports of the test's packets, as far as the plan names them.
fn ports_of(plan: &Value) -> Vec<RangeInclusive<u16>> {
    let text = |pointer: &str| plan.pointer(pointer).and_then(Value::as_str);
    let specs = plan.get("ports").and_then(Value::as_array).into_iter().flatten();
    let sockets = specs.filter_map(Value::as_str).filter(|spec| spec.starts_with("udp:"));
    let behind_colon = sockets
        .chain(text("/traffic/dest"))
        .filter_map(|text| text.rsplit_once(':'));
    let ranges = behind_colon
        .map(|(_, ports)| ports)
        .chain(text("/traffic/src_ports"))
        .chain(text("/selection/ports"));
    ranges.filter_map(range).collect()
}

/// `A` or `A-B`; behind a socket's port its options may follow.
fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let ports = text.split(',').next()?;
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_ports_of_a_test_are_those_that_its_plan_names() {
        let plan = json!({
            "ports": ["udp:10.99.0.1:9000,gso=1", "af_packet:eth1"],
            "traffic": { "dest": "[fd99::2]:9000-9003", "src_ports": "10000-10063" },
        });
        assert_eq!(ports_of(&plan), [9000..=9000, 9000..=9003, 10_000..=10_063]);
        assert_eq!(ports_of(&json!({ "selection": { "ports": "7" } })), [7..=7]);
        assert!(ports_of(&json!({ "traffic": { "dest": "host" }, "ports": 3 })).is_empty());
    }
}
