//! A watch over the cores of lanes.

use crate::abi::{CPUS, Core, DEVICES, LANES, PROBES, Plan, RANGES, REASONS, Row, SLOTS, STAMPS, STAMPS_AT, kind};
use crate::btf::Types;
use crate::lack::Lack;
use crate::load::{DROPPED, Loaded, NOT_REDIRECTED, TYPES};
use crate::names::{self, Names};
use crate::record;
use mpps_sys::clock::monotonic_ns;
use mpps_sys::map::Mapping;
use mpps_sys::sched::allowed_cores;
use mpps_trace::{KernelEvent, Taker, TakerKind};
use std::fmt;
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

/// Most records of drops from one [`Watch::poll`] to the next; the sums include all drops.
const DROP_RECORDS: i64 = 256;
/// Room for records, bytes per core: a tenth of a second of 100,000 switches per second, with the wake-ups of the
/// threads.
const RING: u32 = 1 << 20;

/// Number of soft interrupts within the lanes' own calls, per second on one core, above which the programs stop looking
/// at them. Each look costs the lane about a third of a microsecond, and shows that nothing was taken from the lane.
const MOST_SOFT: u64 = 20_000;
/// The programs go on looking if at least one in this many soft interrupts is not of the lanes' own calls.
const OTHERS_SOFT: u64 = 8;
/// Time over which soft interrupts are counted for that decision, ns.
const LOOK_NS: u64 = 5_000_000;

/// A lane's thread, and the core that it is bound to. Only the first 64 lanes are distinguished; later ones count as
/// other threads of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Number of the lane.
    pub lane: u32,
    /// Thread of the lane, as `gettid` numbers it.
    pub tid: i32,
    /// Core of the lane; `None` if it may run on all cores of the process, which are watched then. Cores from 1024 on
    /// are not watched.
    pub cpu: Option<u32>,
}

/// Settings of a watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Lanes that exist already; [`Watch::lanes`] can name others later.
    pub lanes: Vec<Lane>,
    /// Most cores that will be watched at once, which decides the room for records. The cores of `lanes` are the
    /// minimum.
    pub cores: u32,
    /// UDP ports of the test's packets, as source or destination: drops of these packets are counted. If the lanes note
    /// the times with which they stamp packets ([`Watch::stamps`]), packets with such a stamp count, in any network
    /// namespace of the host. Otherwise all packets in the process's own namespace count. At most 8 ranges; others are
    /// left out.
    pub ports: Vec<RangeInclusive<u16>>,
    /// Interfaces by index in the process's network namespace: drops of any packets there are counted. At most 8.
    pub devices: Vec<u32>,
    /// Whether events are recorded, in addition to the sums.
    pub records: bool,
    /// Whether the kernel's polls of devices are counted ([`Watch::polls`]), and recorded if events are. On a path with
    /// a poll per burst that is the most expensive part of a watch.
    pub polls: bool,
}

/// Packets that were dropped for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Name of the reason in the kernel: `SOCKET_RCVBUFF`, `NO_SOCKET`, …; `NOT_SPECIFIED` before Linux 5.17.
    pub reason: String,
    /// Packets of the test's ports.
    pub ours: u64,
    /// Other packets on the run's devices; for [`XDP_REDIRECT`](crate::XDP_REDIRECT) all packets on other devices of
    /// the host.
    pub others: u64,
}

/// Polls of a device by the kernel on a lane's core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Polls {
    /// Core of the polls.
    pub cpu: u32,
    /// Name of the device; empty for packets of the host's own (the backlog).
    pub device: String,
    /// Number of polls.
    pub polls: u64,
    /// Packets taken in these polls.
    pub packets: u64,
    /// Polls without any packet.
    pub empty: u64,
    /// Polls that took as many packets as they may.
    pub full: u64,
}

/// Memory in which a lane notes the times with which it stamps packets, so that its packets are recognized wherever
/// they are dropped. Only that lane writes here. It writes a time, later than those before, to the place that the first
/// word counts (modulo the number of places, from [`PLACES_AT`](Self::PLACES_AT) on), and then the count.
#[derive(Clone, Debug)]
pub struct Stamps {
    words: Arc<Mapping<AtomicU64>>,
    lane: usize,
}

impl Stamps {
    /// Index of the first place: the count has a cache line of its own.
    pub const PLACES_AT: usize = STAMPS_AT;
}

impl std::ops::Deref for Stamps {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        const WORDS: usize = STAMPS_AT + STAMPS;
        self.words.get(self.lane * WORDS..).map_or(&[], |words| &words[..WORDS])
    }
}

/// A watch over the cores of lanes. It ends when it is dropped, or with the process.
pub struct Watch {
    loaded: Loaded,
    names: Names,
    lanes: Vec<Lane>,
    /// Number of lanes that may note stamps.
    stamping: usize,
    soft: Soft,
}

/// State of the decision whether to go on looking at soft interrupts.
#[derive(Debug, Default)]
struct Soft {
    began_ns: u64,
    looked_ns: u64,
    /// Counts of each watched core at the last look: soft interrupts within lanes' own calls, and others.
    before: Vec<(u32, [u64; 2])>,
    /// Time after the start of the watch at which the programs stopped looking.
    left: Option<Duration>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("lanes", &self.lanes)
            .finish_non_exhaustive()
    }
}

impl Watch {
    /// Begins to watch. Privileges are not needed afterwards.
    ///
    /// Takes some tenths of a second: the kernel's types and the names of its functions are read.
    ///
    /// # Errors
    /// The reason why the cores can't be watched. Tracepoints that the kernel lacks are no error: see
    /// [`without`](Self::without).
    pub fn start(options: &Options) -> Result<Self, Lack> {
        let types = std::fs::read(TYPES).map_err(|e| Lack::Kernel(format!("{TYPES}: {e}")))?;
        let types = Types::new(&types).ok_or_else(|| Lack::Kernel(format!("{TYPES} can't be read")))?;
        let plan = plan(options, &types);
        let cores = options.cores.max(watched(&options.lanes).len() as u32).clamp(1, 64);
        let ring = if options.records {
            (RING * cores).next_power_of_two()
        } else {
            1 << 16
        };
        let loaded = Loaded::new(&plan, ring, options.polls)?;
        let mut watch = Self {
            loaded,
            names: Names::new(&types, options.records && plan.ranges + plan.devices != 0),
            lanes: Vec::new(),
            stamping: plan.lanes as usize,
            soft: Soft {
                began_ns: monotonic_ns(),
                ..Soft::default()
            },
        };
        watch.allow_drops();
        watch.lanes(&options.lanes);
        Ok(watch)
    }

    /// Lets the programs record [`DROP_RECORDS`] drops from now on.
    fn allow_drops(&self) {
        for settings in self.loaded.settings.iter() {
            settings.drops.store(DROP_RECORDS, Relaxed);
        }
    }

    /// Names the lanes, in place of the previous ones. Their cores are watched from now on.
    pub fn lanes(&mut self, lanes: &[Lane]) {
        let cores = &self.loaded.cores;
        for core in cores.iter().filter(|core| core.watched.load(Relaxed) != 0) {
            core.watched.store(0, Release);
        }
        for place in self.loaded.lanes.iter() {
            place.tid.store(0, Relaxed);
            place.waits.store(0, Relaxed);
            place.stopped.store(0, Relaxed);
            place.resumed.store(0, Relaxed);
        }
        for (number, lane) in lanes.iter().take(LANES).enumerate() {
            let first = lane.tid as usize % SLOTS;
            let mut places = (first..first + PROBES).filter_map(|place| self.loaded.lanes.get(place % SLOTS));
            if let Some(free) = places.find(|place| [0, lane.tid].contains(&place.tid.load(Relaxed))) {
                free.number.store(number as u32, Relaxed);
                free.tid.store(lane.tid, Release);
            }
        }
        let watched = watched(lanes);
        let watched = || watched.iter().filter_map(|&cpu| cores.get(cpu as usize));
        watched().for_each(forget);
        watched().for_each(|core| core.watched.store(1, Release));
        self.lanes = lanes.to_vec();
        self.soft.before.clear();
    }

    /// Stops looking at soft interrupts if nearly all of them are the lanes' own calls, and if there are many.
    fn mind_soft(&mut self) {
        let now_ns = monotonic_ns();
        if !self.loaded.soft() || now_ns - self.soft.looked_ns < LOOK_NS {
            return;
        }
        let cores = &self.loaded.cores;
        let counted = watched(&self.lanes).into_iter().filter_map(|cpu| {
            let core = cores.get(cpu as usize)?;
            let counts = [&core.soft_called, &core.soft_others];
            Some((cpu, counts.map(|count| count.load(Relaxed))))
        });
        let counted: Vec<(u32, [u64; 2])> = counted.collect();
        let took_ns = now_ns - std::mem::replace(&mut self.soft.looked_ns, now_ns);
        let before = std::mem::replace(&mut self.soft.before, counted);
        let dear = before.iter().zip(&self.soft.before).any(|((_, before), (_, now))| {
            let [called, others] = [0, 1].map(|which| now[which].saturating_sub(before[which]));
            called * 1_000_000_000 / took_ns > MOST_SOFT && called > others * OTHERS_SOFT
        });
        if dear {
            self.loaded.leave_soft();
            // No program will report any more that a soft interrupt has ended.
            for core in self.loaded.cores.iter() {
                core.soft.store(0, Relaxed);
            }
            self.soft.left = Some(Duration::from_nanos(now_ns - self.soft.began_ns));
        }
    }

    /// Returns the time after the start of the watch at which the programs stopped looking at soft interrupts; `None`
    /// if they still look. On a path whose calls handle packets in soft interrupts of their own that happens soon: each
    /// look would slow the lane down, and shows that nothing was taken from it. Time taken by other soft interrupts is
    /// unexplained from then on.
    pub fn soft_left(&self) -> Option<Duration> {
        self.soft.left
    }

    /// Returns the memory in which the lane with this place in [`Options::lanes`] notes its stamps; `None` if there is
    /// no such lane, or if no packets are looked for. Without stamps, all packets of the run's ports in its network
    /// namespace count as its own.
    pub fn stamps(&self, lane: usize) -> Option<Stamps> {
        let words = Arc::clone(&self.loaded.stamped);
        (lane < self.stamping).then_some(Stamps { words, lane })
    }

    /// Sets all sums to zero. Events in that instant count before or after.
    pub fn clear(&mut self) {
        let zero = |word: &AtomicU64| word.store(0, Relaxed);
        for row in self.loaded.table.iter().filter(|row| row.key.load(Relaxed) != 0) {
            [&row.count, &row.total, &row.longest, &row.longest_at]
                .into_iter()
                .for_each(zero);
        }
        for drops in self.loaded.drops.iter() {
            [&drops.ours, &drops.others].into_iter().for_each(zero);
        }
        self.loaded.settings.iter().for_each(|settings| zero(&settings.lost));
    }

    /// Adds the events since the last call, nearly in the order of time: events of one core may be out of order by an
    /// interrupt, those of several cores by a few microseconds. Call about every 20 ms; allocates only for the events
    /// that came.
    pub fn poll(&mut self, events: &mut Vec<KernelEvent>) {
        self.allow_drops();
        self.mind_soft();
        while let Some(record) = self.loaded.ring.next() {
            events.extend(record::event(&record, &mut self.names));
        }
    }

    /// Returns the threads and interrupts that took the lanes' cores, the longest total first.
    pub fn takers(&self) -> Vec<Taker> {
        let mut takers: Vec<Taker> = self.loaded.table.iter().filter_map(|row| self.taker(row)).collect();
        takers.sort_by(|a, b| {
            b.total_ns
                .cmp(&a.total_ns)
                .then_with(|| (a.cpu, a.tid).cmp(&(b.cpu, b.tid)))
        });
        takers
    }

    fn taker(&self, row: &Row) -> Option<Taker> {
        let (number, cpu, of, id) = parts(row)?;
        let kind = match of {
            kind::THREAD => TakerKind::Thread,
            kind::OWN => TakerKind::Own,
            kind::IRQ => TakerKind::Irq,
            kind::SOFTIRQ => TakerKind::Softirq,
            kind::VECTOR => TakerKind::Vector,
            kind::STOPPED => TakerKind::Stopped,
            kind::UNSEEN => TakerKind::Unexplained,
            _ => return None,
        };
        let thread = matches!(of, kind::THREAD | kind::OWN | kind::STOPPED);
        let others = id == u32::MAX;
        let name = match of {
            _ if others => "others".to_owned(),
            kind::SOFTIRQ => names::softirq(id),
            kind::VECTOR => names::vector(id),
            kind::STOPPED => "stopped by a signal".to_owned(),
            kind::UNSEEN => "threads that the kernel does not show".to_owned(),
            kind::IRQ if name(row).is_empty() => format!("irq {id}"),
            _ => name(row),
        };
        Some(Taker {
            cpu,
            lane: self.lanes.get(number).map_or(0, |lane| lane.lane),
            kind,
            name,
            tid: if thread && !others { id.cast_signed() } else { 0 },
            count: row.count.load(Relaxed),
            total_ns: row.total.load(Relaxed),
            max_ns: row.longest.load(Relaxed),
            max_at_ns: row.longest_at.load(Relaxed),
        })
        .filter(|taker| taker.count != 0)
    }

    /// Returns the kernel's polls of devices on the lanes' cores; empty unless [`Options::polls`] is set.
    pub fn polls(&self) -> Vec<Polls> {
        let polls = self.loaded.table.iter().filter_map(|row| {
            let (_, cpu, of, _) = parts(row)?;
            (of == kind::POLL && row.count.load(Relaxed) != 0).then(|| Polls {
                cpu,
                device: name(row),
                polls: row.count.load(Relaxed),
                packets: row.total.load(Relaxed),
                empty: row.longest.load(Relaxed),
                full: row.longest_at.load(Relaxed),
            })
        });
        polls.collect()
    }

    /// Returns the packets that the kernel dropped, by reason, the most first.
    pub fn drops(&self) -> Vec<Dropped> {
        let all = self.loaded.drops.iter().enumerate().filter_map(|(reason, drops)| {
            let (ours, others) = (drops.ours.load(Relaxed), drops.others.load(Relaxed));
            let reason = || match reason + 1 {
                REASONS => "others".to_owned(),
                _ => self.names.reason(reason as u32),
            };
            (ours + others != 0).then(|| Dropped {
                reason: reason(),
                ours,
                others,
            })
        });
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|drops| std::cmp::Reverse((drops.ours, drops.others)));
        all
    }

    /// Returns the number of records for which there was no room.
    pub fn lost(&self) -> u64 {
        self.loaded
            .settings
            .iter()
            .map(|settings| settings.lost.load(Relaxed))
            .sum()
    }

    /// Returns the parts of the kernel whose drops of packets are not seen, and why.
    pub fn unseen_drops(&self) -> Vec<(&'static str, &'static str)> {
        let redirects = self.without().contains(&NOT_REDIRECTED);
        let redirects = redirects.then_some(("XDP programs", "this kernel has no such tracepoint"));
        let drops = self.without().contains(&DROPPED);
        let drops = drops.then_some(("the kernel", "it has no tracepoint for drops"));
        redirects.into_iter().chain(drops).collect()
    }

    /// Returns the tracepoints that this kernel lacks: time spent there can't be separated from the rest.
    pub fn without(&self) -> &[&'static str] {
        &self.loaded.without
    }
}

/// Returns lane number, core, kind and id of a row; `None` if the row is free.
fn parts(row: &Row) -> Option<(usize, u32, u8, u32)> {
    let key = row.key.load(Acquire);
    let lane = (key >> 56) as usize % LANES;
    (key != 0).then_some((lane, (key >> 40) as u32 & 0xffff, (key >> 32) as u8, key as u32))
}

fn name(row: &Row) -> String {
    let words = row.name.each_ref().map(|word| word.load(Relaxed).to_le_bytes());
    names::text(words.as_flattened())
}

/// Clears the state of a core, which is that of another run.
fn forget(core: &Core) {
    for word in [
        &core.waiting,
        &core.wanted,
        &core.since,
        &core.nested,
        &core.irq_at,
        &core.vector_at,
    ] {
        word.store(0, Relaxed);
    }
    for word in [&core.busy, &core.soft] {
        word.store(0, Relaxed);
    }
}

/// Returns the cores of lanes, each once.
fn watched(lanes: &[Lane]) -> Vec<u32> {
    let mut cores: Vec<u32> = lanes.iter().filter_map(|lane| lane.cpu).collect();
    if lanes.iter().any(|lane| lane.cpu.is_none()) {
        cores.extend(allowed_cores().into_iter().map(|cpu| cpu as u32));
    }
    cores.sort_unstable();
    cores.dedup();
    cores
}

fn plan(options: &Options, types: &Types<'_>) -> Plan {
    let mut plan = Plan {
        records: options.records.into(),
        ..Plan::default()
    };
    for (place, ports) in options.ports.iter().take(RANGES).enumerate() {
        (plan.from[place], plan.to[place]) = (*ports.start(), *ports.end());
        plan.ranges += 1;
    }
    if let Ok(namespace) = std::fs::metadata("/proc/self/ns/net") {
        plan.namespace = namespace.ino() as u32;
        for (place, &device) in options.devices.iter().take(DEVICES).enumerate() {
            plan.device[place] = device;
            plan.devices += 1;
        }
    }
    // If the fourth argument is not a pointer, it is the state.
    let switch = types.tracepoint("sched_switch").unwrap_or_default();
    plan.tells_state = (switch.get(3) == Some(&false) && switch.get(2) == Some(&true)).into();
    let drop = types.tracepoint("kfree_skb").unwrap_or_default();
    plan.tells_reason = (drop.get(2) == Some(&false)).into();
    if plan.ranges > 0 {
        plan.lanes = options.lanes.len().min(LANES) as u32;
    }
    let reasons = types.enumeration("skb_drop_reason");
    let filtered = reasons.iter().find(|(_, name)| *name == "SKB_DROP_REASON_TC_INGRESS");
    plan.filtered = filtered.map_or(0, |(&number, _)| number);
    plan
}

const _: () = assert!(CPUS <= 1 << 16 && LANES <= 64);
