//! The watch over the lanes' cores during a run.

mod ended;

use super::programs;
use super::thin::thin;
use crate::paths::Checked;
use crate::privilege;
use crate::request::Run;
use crate::watchers::Watchers;
use mpps_engine::{Opened, StampMemory};
use mpps_sys::clock::monotonic_ns;
use mpps_sys::evidence::OthersRan;
use mpps_sys::privilege::Keep;
use mpps_sys::proc_stat::threads;
use mpps_sys::sched;
use mpps_trace::{Dropping, KernelDrops, KernelEvent, LeftOut, Taker};
use mpps_watch::{Lane, Options, OwnSwitches, PACKET_SOCKET_COPY, Stamps, Watch, XDP_REDIRECT};
use serde_json::Value;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Pause between readings of events.
const EVERY: Duration = Duration::from_millis(20);
/// Bytes of memory for an event with its names, rounded up.
const EVENT_BYTES: u64 = 192;
/// One part in this many of the trace's memory is for the kernel's events. The rest is for the lanes' rounds.
pub const PART_OF_EVENTS: u64 = 4;
/// Most growths of drop counts that are kept one by one.
const MOST_LOOKS: usize = 100_000;

/// Most threads beside the lanes whose switches are recorded if the kernel's tracepoints can't be opened. Each takes
/// 132 KiB of the memory that a user may lock.
const OTHERS: usize = 3;

/// Progress of the watch.
#[derive(Default)]
pub(crate) enum State {
    /// The watch was not asked for.
    #[default]
    Off,
    /// Lanes are being opened.
    Asked {
        options: Options,
        lanes: Vec<LaneThread>,
        most: usize,
    },
    /// The kernel writes events.
    Open(Source, Vec<LaneThread>, usize),
    /// A thread reads events.
    Running(Reader, Vec<LaneThread>),
    /// Events could not be opened or read: the text is the reason.
    Failed(Vec<LaneThread>, String),
    /// The run is over.
    Ended(Box<Watched>),
}

/// The thread of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneThread {
    pub(crate) lane: u32,
    pub(crate) tid: i32,
    /// The one core that the thread may run on; `None`: it may run on several.
    pub(crate) cpu: Option<u32>,
}

/// Source of the events on the lanes' cores.
pub(crate) enum Source {
    /// The kernel's tracepoints.
    Kernel(Box<Watch>),
    /// Switch records of this process's own threads, because the tracepoints can't be opened: the reason (text), and
    /// how long other programs' threads had run before.
    Own(OwnSwitches, String, OthersRan),
}

impl Source {
    /// Opens the tracepoints, or else the switch records of this process's own threads.
    fn open(options: &Options) -> Result<Self, String> {
        // Privileges that the program's file lends must not show its user what runs on the host.
        let watch = match privilege::lent() {
            true => Err("the program's file lends its privileges to every user".to_owned()),
            false => Watch::start(options).map_err(|lack| lack.to_string()),
        };
        let why = match watch {
            Ok(watch) => return Ok(Self::Kernel(Box::new(watch))),
            Err(why) => why,
        };
        match OwnSwitches::start(&options.lanes) {
            Ok(mut switches) => {
                let is_lane = |tid: &i32| options.lanes.iter().any(|lane| lane.tid == *tid);
                let others = threads().into_iter().map(|(tid, _)| tid).filter(|tid| !is_lane(tid));
                switches.also(others.take(OTHERS));
                Ok(Self::Own(switches, why, OthersRan::now()))
            }
            Err(lack) => Err(format!("{why}; nor when lanes left their cores: {lack}")),
        }
    }

    fn kernel(&self) -> Option<&Watch> {
        match self {
            Self::Kernel(watch) => Some(watch),
            Self::Own(..) => None,
        }
    }

    fn poll(&mut self, events: &mut Vec<KernelEvent>) {
        match self {
            Self::Kernel(watch) => watch.poll(events),
            Self::Own(switches, ..) => switches.poll(events),
        }
    }

    fn lost(&self) -> u64 {
        match self {
            Self::Kernel(watch) => watch.lost(),
            Self::Own(switches, ..) => switches.lost(),
        }
    }
}

/// Thread that reads events.
pub(crate) struct Reader {
    thread: JoinHandle<Read>,
    over: Arc<AtomicBool>,
    /// One per lane.
    stamps: Vec<Stamps>,
}

/// Result of the thread that reads events.
struct Read {
    source: Source,
    events: Vec<KernelEvent>,
    /// Number of events for which there was no room.
    left_out: u64,
    drops: Drops,
}

/// Packets that the kernel dropped, as growth of its counts over time.
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
            // Packets that an XDP program could not hand on may be anybody's: the owner is not known.
            let (packets, sure) = match dropped.reason.as_str() {
                XDP_REDIRECT => (dropped.others, false),
                PACKET_SOCKET_COPY => (dropped.ours, false),
                _ => (dropped.ours, true),
            };
            let before = std::mem::replace(&mut self.so_far[known].1, packets);
            if packets > before {
                self.grew.push(Dropping {
                    from_ns,
                    to_ns: self.looked_ns,
                    reason: dropped.reason,
                    packets: packets - before,
                    sure,
                });
            }
        }
        // In a run of days the growths of two consecutive looks are merged into one.
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

/// Results of the watch over a run.
#[derive(Debug, Default)]
pub struct Watched {
    pub(crate) lanes: Vec<LaneThread>,
    /// Sorted by time.
    pub(crate) events: Vec<KernelEvent>,
    pub(crate) takers: Vec<Taker>,
    /// Packets that the kernel dropped; `None`: its drops were not looked for.
    pub(crate) drops: Option<KernelDrops>,
    /// Thread IDs of this process.
    pub(crate) own: Vec<i32>,
    /// Names of those threads, by thread ID.
    pub(crate) names: Vec<(i32, String)>,
    pub(crate) left_out: Vec<LeftOut>,
}

/// Asks for the watch if the run has a trace: of the lanes' cores, and of packets that go through the kernel and are
/// dropped there. Called before anything is opened.
pub fn ask(run: &Run, ports: &[&Checked]) {
    let Some(trace) = &run.beside.trace else { return };
    programs::ask(&run.watchers);
    let plan = run.complete.json();
    // If the kernel handles none of this run's packets, drops of other programs' packets to the same ports would be
    // counted as this run's.
    let through_kernel = |port: &&Checked| port.traits.interface.is_some() || port.traits.socket.is_some();
    let devices = ports
        .iter()
        .filter_map(|port| port.interface())
        .map(|device| device.ifindex);
    let options = Options {
        ports: if ports.iter().any(through_kernel) {
            let sockets = ports.iter().filter_map(|port| port.traits.socket.as_ref());
            ports_of(&plan, sockets.map(|socket| socket.listens.port()))
        } else {
            Vec::new()
        },
        devices: devices.collect(),
        records: true,
        ..Options::default()
    };
    *run.watchers.events() = State::Asked {
        options,
        lanes: Vec::new(),
        most: (trace.memory / PART_OF_EVENTS / EVENT_BYTES) as usize,
    };
}

/// Records a lane's thread, or (main thread) opens the events. Called when that thread has opened all that it needs and
/// still has its privileges.
pub(crate) fn opened(watchers: &Watchers, opened: Opened) {
    let mut state = watchers.events();
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
            *state = match Source::open(options) {
                Ok(source) => State::Open(source, lanes, most),
                Err(why) => State::Failed(lanes, why),
            };
        }
    }
}

fn watched(&LaneThread { lane, tid, cpu }: &LaneThread) -> Lane {
    Lane { lane, tid, cpu }
}

/// Starts the thread that reads events. Called when the main thread has given up its privileges.
pub(crate) fn begin(watchers: &Watchers) {
    let mut state = watchers.events();
    match std::mem::replace(&mut *state, State::Off) {
        State::Open(source, lanes, most) => {
            *state = match Reader::start(source, &lanes, most) {
                Ok(reader) => State::Running(reader, lanes),
                Err(e) => State::Failed(lanes, format!("start the thread that reads the kernel's events: {e}")),
            };
        }
        other => *state = other,
    }
}

impl Reader {
    fn start(mut source: Source, lanes: &[LaneThread], most: usize) -> std::io::Result<Self> {
        let lanes: Vec<i32> = lanes.iter().map(|lane| lane.tid).collect();
        let over = Arc::new(AtomicBool::new(false));
        let stamps = (0..).map_while(|lane| source.kernel()?.stamps(lane)).collect();
        let ends = Arc::clone(&over);
        let body = move || {
            // The thread needs no privileges: it only reads memory that is mapped already.
            let _ = Keep::NOTHING.apply();
            let (mut events, mut left_out) = (Vec::new(), 0);
            let mut drops = Drops {
                looked_ns: monotonic_ns(),
                ..Drops::default()
            };
            let mut new = Vec::new();
            loop {
                let over = ends.load(Ordering::Acquire);
                source.poll(&mut new);
                source.kernel().into_iter().for_each(|watch| drops.look(watch));
                if events.len() + new.len() > most {
                    events.append(&mut new);
                    left_out += thin(&mut events, &lanes, most);
                } else {
                    events.append(&mut new);
                }
                if over {
                    return Read {
                        source,
                        events,
                        left_out,
                        drops,
                    };
                }
                thread::park_timeout(EVERY);
            }
        };
        let thread = mpps_sys::thread::spawn("mpps-watch", body)?;
        Ok(Self { thread, over, stamps })
    }
}

/// Returns the memory in which lane `number` notes its stamps. The kernel's programs recognise the run's packets by
/// these stamps.
pub(crate) fn stamps(watchers: &Watchers, number: usize) -> Option<StampMemory> {
    match &*watchers.events() {
        State::Running(reader, lanes) => {
            let place = lanes.iter().position(|lane| lane.lane as usize == number)?;
            reader.stamps.get(place).cloned().map(StampMemory::new)
        }
        _ => None,
    }
}

const _: () = assert!(StampMemory::PLACES_AT == Stamps::PLACES_AT);

/// Ends the watch after the lanes have ended. Returns the packets that the kernel dropped; `None`: its drops were not
/// watched.
pub(crate) fn kernel_drops(watchers: &Watchers) -> Option<KernelDrops> {
    let watched = end(watchers)?;
    let drops = watched.drops.clone();
    *watchers.events() = State::Ended(Box::new(watched));
    drops
}

/// Ends the watch of a run and returns its results; `None`: it was not asked for.
pub fn finish(run: &Run) -> Option<Watched> {
    end(&run.watchers)
}

fn end(watchers: &Watchers) -> Option<Watched> {
    match std::mem::take(&mut *watchers.events()) {
        State::Off => None,
        State::Ended(watched) => Some(*watched),
        // The run ended before the watch began.
        State::Asked { lanes, .. } | State::Open(_, lanes, _) => Some(Watched {
            lanes,
            ..Watched::default()
        }),
        State::Failed(lanes, why) => Some(ended::nothing(lanes, why)),
        State::Running(reader, lanes) => Some(ended::stop(reader, lanes)),
    }
}

/// Returns the UDP ports of the test's packets, as far as the plan names them.
fn ports_of(plan: &Value, sockets: impl IntoIterator<Item = u16>) -> Vec<RangeInclusive<u16>> {
    let text = |pointer: &str| plan.pointer(pointer).and_then(Value::as_str);
    let dest = text("/traffic/dest").and_then(|dest| dest.rsplit_once(':'));
    let named = dest.map(|(_, ports)| ports);
    let named = named
        .into_iter()
        .chain(text("/traffic/src_ports"))
        .chain(text("/selection/ports"));
    let sockets = sockets.into_iter().map(|port| port..=port);
    sockets.chain(named.filter_map(range)).collect()
}

/// Parses `A` or `A-B`.
fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_ports_of_a_test_are_those_that_its_plan_names() {
        let plan = json!({
            "traffic": { "dest": "[fd99::2]:9000-9003", "src_ports": "10000-10063" },
        });
        assert_eq!(ports_of(&plan, [9001]), [9001..=9001, 9000..=9003, 10_000..=10_063]);
        assert_eq!(ports_of(&json!({ "selection": { "ports": "7" } }), []), [7..=7]);
        assert!(ports_of(&json!({ "traffic": { "dest": "host" } }), []).is_empty());
    }
}
