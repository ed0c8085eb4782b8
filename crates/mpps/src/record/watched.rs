//! The watch over the lanes' cores during a run.

use crate::cli::Run;
use crate::paths::Checked;
use crate::privilege;
use mpps_engine::Opened;
use mpps_sys::privilege::Keep;
use mpps_sys::sched;
use mpps_trace::{KernelEvent, LeftOut, Taker};
use mpps_watch::{Dropped, Lane, Options, Watch};
use serde_json::Value;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often events are read.
const EVERY: Duration = Duration::from_millis(20);
/// Events that are kept, at the most: some 100 bytes each.
const MOST: usize = 1_000_000;

/// How far it is.
enum State {
    /// Nobody has asked for it.
    Off,
    /// Lanes are made ready.
    Asked { options: Options, lanes: Vec<LaneThread> },
    /// The kernel's tracepoints are open.
    Open(Box<Watch>, Vec<LaneThread>),
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
    thread: JoinHandle<(Box<Watch>, Vec<KernelEvent>, u64)>,
    over: Arc<AtomicBool>,
}

/// What was seen of a run.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    pub(crate) lanes: Vec<LaneThread>,
    /// By time.
    pub(crate) events: Vec<KernelEvent>,
    pub(crate) takers: Vec<Taker>,
    pub(crate) drops: Vec<Dropped>,
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
    };
}

/// A thread of the run has opened all that it needs, and has its privileges yet.
pub(crate) fn opened(opened: Opened) {
    let mut state = state();
    let State::Asked { options, lanes } = &mut *state else {
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
            let lanes = std::mem::take(lanes);
            options.lanes = lanes.iter().map(watched).collect();
            // What the program's file lends is not for its user to see the host with.
            let watch = match privilege::lent() {
                true => Err("the program's file lends its privileges to every user".to_owned()),
                false => Watch::start(options).map_err(|lack| lack.to_string()),
            };
            *state = match watch {
                Ok(watch) => State::Open(Box::new(watch), lanes),
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
        State::Open(watch, lanes) => {
            *state = match Reader::start(watch) {
                Ok(reader) => State::Running(reader, lanes),
                Err(e) => State::Failed(lanes, format!("start the thread that reads the kernel's events: {e}")),
            };
        }
        other => *state = other,
    }
}

impl Reader {
    fn start(mut watch: Box<Watch>) -> std::io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let body = move || {
            // It reads memory that is mapped already.
            let _ = Keep::NOTHING.apply();
            let (mut events, mut left_out) = (Vec::new(), 0);
            let mut new = Vec::new();
            loop {
                let over = ends.load(Ordering::Acquire);
                watch.poll(&mut new);
                let room = MOST.saturating_sub(events.len()).min(new.len());
                left_out += (new.len() - room) as u64;
                events.extend(new.drain(..).take(room));
                if over {
                    return (watch, events, left_out);
                }
                thread::park_timeout(EVERY);
            }
        };
        let thread = thread::Builder::new().name("mpps-watch".to_owned()).spawn(body)?;
        Ok(Self { thread, over })
    }
}

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
        State::Asked { lanes, .. } | State::Open(_, lanes) => Some(Watched {
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
            let Ok((watch, mut events, beyond)) = reader.thread.join() else {
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
            let beyond = lost(beyond, "no more are kept");
            let lost = lost(watch.lost(), "they came faster than they could be read");
            let missing = watch.without().iter().map(|what| LeftOut {
                what: (*what).to_owned(),
                count: 0,
                why: "this kernel has no such tracepoint".to_owned(),
            });
            Some(Watched {
                takers: watch.takers(),
                drops: watch.drops(),
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
