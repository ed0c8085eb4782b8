//! A flow whose packets come by several sources is counted as exactly as one that comes by one: in turn, and at the
//! same time. Sources are CPUs here (as on socket buffers), so a pinned thread is one.

#[path = "programs/mod.rs"]
mod programs;
#[allow(dead_code, unreachable_pub, reason = "a part is used")]
#[path = "../src/sys.rs"]
mod sys;

use programs::abi::{Lane, Plan, flag};
use programs::{Constant, OWN_MAC, Object, Program, Random, bytes_of, frames};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

static DROP: Object<{ include_bytes!("../bpf/drop.bpf.o").len() }> = Object(*include_bytes!("../bpf/drop.bpf.o"));
static TRAFFIC: Object<{ include_bytes!("../bpf/traffic.bpf.o").len() }> =
    Object(*include_bytes!("../bpf/traffic.bpf.o"));

const BEYOND_WINDOW: usize = 21;
const FLOW_MOVED: usize = 22;
const UNTRACKED_FLOW: usize = 23;
const FLOW_CONTENDED: usize = 26;
/// What a verdict that takes a packet out of the way is.
const XDP_DROP: u32 = 1;
const WINDOW_WORDS: u32 = 16;

/// CPUs that this test may run on, at most four; `None`: they are too few, which was said.
fn cpus() -> Option<Vec<usize>> {
    if !programs::can_load() {
        return None;
    }
    // SAFETY: zeros are an empty set, and the kernel writes no more than its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        set
    };
    // SAFETY: places within the set.
    let mut all: Vec<_> = (0..libc::CPU_SETSIZE as usize)
        .filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) })
        .collect();
    all.truncate(4);
    if all.len() < 2 {
        println!("SKIPPED: needs two CPUs");
        return None;
    }
    Some(all)
}

/// Runs the calling thread on this CPU only.
fn pin(cpu: usize) {
    // SAFETY: zeros are an empty set, which is ours.
    let done = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// Which program counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Drop,
    Receive,
}

/// What was counted, over all sources.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    rx: u64,
    duplicates: u64,
    reordered: u64,
    distance: u64,
    foreign: u64,
    /// `drop` only.
    expected: u64,
    beyond_window: u64,
    /// `drop` only: packets whose flow found no place in the table.
    untracked: u64,
}

struct Bench {
    which: Which,
    flows: u32,
    program: Program,
    /// Tells the end of a poll loop, where bursts last longer than a packet.
    poll: Option<OwnedFd>,
    begun_ns: u64,
}

impl Bench {
    /// `clock_every`: packets of a burst; 0: each is one.
    fn new(which: Which, cpus: &[usize], flows: u32, clock_every: u32) -> Self {
        let mut plan: Plan = programs::plan();
        plan.flags = flag::BY_CPU | flag::SEVERAL | flag::STAMPED | flag::RECEIVE;
        plan.sources = cpus.iter().max().map_or(1, |most| *most as u32 + 1);
        plan.clock_every = clock_every;
        plan.settle_ns = 1 << 62;
        plan.window_words = WINDOW_WORDS;
        plan.key = 0x0123_4567_89ab_cdef;
        // `drop` finds its flows by their ports; here all have another source port and, beyond 1000, destination port.
        plan.max_flows = flows;
        plan.table = (2 * flows).next_power_of_two();
        plan.flows = flows;
        plan.src_first = 1000;
        plan.src_count = flows.min(1000);
        plan.dst_first = 9000;
        let frame = frame(0, 0, 0);
        plan.l3 = 14;
        plan.l4 = 34;
        plan.payload_len = (frame.len() - 42) as u32;
        plan.frame_len = frame.len() as u32;
        plan.lanes = 1;
        for (word, bytes) in plan.back.iter_mut().zip(frame[14..34].chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
        let (object, name) = match which {
            Which::Drop => (&DROP.0[..], "drop"),
            Which::Receive => (&TRAFFIC.0[..], "receive"),
        };
        let (all, none) = (programs::port_bits(|_| true), programs::port_bits(|_| false));
        let constants = [
            Constant("PORTS", bytes_of(&all)),
            Constant("HOST_PORTS", bytes_of(&none)),
        ];
        let windows = flows * WINDOW_WORDS;
        // As `Sizes` has them: one period of both histograms per source.
        let octaves = 2 * plan.sources * abi::OCTAVES as u32;
        let mut entries = vec![
            ("POLLS", plan.sources),
            ("WINDOWS", windows),
            ("HISTOGRAMS", octaves),
            ("REFUSED", plan.sources),
        ];
        entries.extend(match which {
            Which::Drop => vec![("TABLE", plan.table), ("FLOWS", flows), ("DOUBTS", flows)],
            Which::Receive => vec![("FLOW_WINDOWS", flows), ("LANES_BY_CPU", plan.sources)],
        });
        let constants = match which {
            Which::Drop => &constants[..],
            Which::Receive => &[],
        };
        let mut program = programs::load_sized(object, &plan, constants, name, &entries);
        if which == Which::Receive {
            // Every number has been sent.
            program.map::<Lane>("LANES_BY_CPU", plan.sources as usize)[0]
                .limit
                .store(u64::MAX, Relaxed);
        }
        let poll = (clock_every > 0).then(|| program.tap("poll"));
        Self {
            which,
            flows,
            program,
            poll,
            begun_ns: now_ns(),
        }
    }

    /// A packet comes to this CPU, so often.
    fn feed(&self, flow: u32, seq: u64, times: u32) {
        // Times rise with numbers, and lie in the past.
        let frame = frame(flow, seq, self.begun_ns - (1 << 30) + seq);
        assert_eq!(self.program.run_often(&frame, times), XDP_DROP);
    }

    /// This CPU's poll loop ends.
    fn end_poll(&self) {
        if let Some(poll) = &self.poll {
            sys::run_tap(poll.as_fd()).expect("run the program at napi_poll");
        }
    }

    fn reason(&self, place: usize) -> u64 {
        let sources = self.program.sources().iter();
        sources.map(|source| source.reasons[place].load(Relaxed)).sum()
    }

    fn flows_found(&self) -> u64 {
        self.program.map::<AtomicU64>("FLOW_COUNT", 1)[0].load(Relaxed)
    }

    fn counted(&self) -> Counted {
        let rows = self.program.rows();
        let sum = |of: fn(&abi::Row) -> &AtomicU64| rows.iter().map(|row| of(row).load(Relaxed)).sum();
        Counted {
            rx: match self.which {
                Which::Drop => sum(|row| &row.rx),
                Which::Receive => sum(|row| &row.latency.count),
            },
            duplicates: sum(|row| &row.duplicates),
            reordered: sum(|row| &row.reordered),
            distance: sum(|row| &row.distance_sum),
            foreign: sum(|row| &row.foreign),
            expected: sum(|row| &row.expected),
            beyond_window: self.reason(BEYOND_WINDOW),
            untracked: self.reason(UNTRACKED_FLOW),
        }
    }

    /// What must be counted of so many packets of each flow, and copies of them, in whatever order they were handled.
    fn assert_exact(&self, packets: u64, copies: u64) {
        let counted = self.counted();
        let flows = u64::from(self.flows);
        let exact = Counted {
            rx: packets * flows,
            duplicates: copies * flows,
            expected: match self.which {
                Which::Drop => packets * flows,
                Which::Receive => 0,
            },
            // Who was first, of those that two CPUs handle at the same time, nobody knows.
            reordered: counted.reordered,
            distance: counted.distance,
            ..Counted::default()
        };
        let contended = self.reason(FLOW_CONTENDED);
        assert_eq!(counted, exact, "{:?}, {contended} contended", self.which);
        if self.which == Which::Drop {
            assert_eq!(self.flows_found(), flows);
        }
    }
}

use programs::abi;

fn now_ns() -> u64 {
    // SAFETY: the structure is ours.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time);
        time
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A packet of a flow with a stamp, on its way back, without a UDP checksum.
fn frame(flow: u32, seq: u64, sent: u64) -> Vec<u8> {
    let mut payload = [seq.to_le_bytes(), sent.to_le_bytes()].concat();
    payload.extend([0; 8]);
    let mut frame = frames::udp_v4(&[], &[], &payload);
    let ports = [9000 + (flow / 1000) as u16, 1000 + (flow % 1000) as u16];
    frame[34..36].copy_from_slice(&ports[0].to_be_bytes());
    frame[36..38].copy_from_slice(&ports[1].to_be_bytes());
    frame[40..42].fill(0);
    frame[..6].copy_from_slice(&OWN_MAC);
    frame
}

/// Where workers wait for each other: nobody waits for one that has failed.
struct Meeting {
    workers: usize,
    here: AtomicUsize,
    failed: AtomicBool,
}

impl Meeting {
    fn wait(&self) {
        let all = (self.here.fetch_add(1, SeqCst) / self.workers + 1) * self.workers;
        while self.here.load(SeqCst) < all {
            assert!(!self.failed.load(SeqCst), "another worker has failed");
            std::thread::yield_now();
        }
    }
}

struct Watch<'a>(&'a Meeting);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.failed.fetch_or(std::thread::panicking(), SeqCst);
    }
}

/// Runs `body` on each CPU at once.
fn at_once(cpus: &[usize], body: impl Fn(usize, &Meeting) + Sync) {
    let meeting = Meeting {
        workers: cpus.len(),
        here: AtomicUsize::new(0),
        failed: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        for (worker, &cpu) in cpus.iter().enumerate() {
            let (body, meeting) = (&body, &meeting);
            scope.spawn(move || {
                let _watch = Watch(meeting);
                pin(cpu);
                body(worker, meeting);
            });
        }
    });
}

const BOTH: [Which; 2] = [Which::Drop, Which::Receive];

#[test]
fn a_flow_that_moves_in_turn_is_counted_as_one_that_stays() {
    let Some(cpus) = cpus() else { return };
    for (which, clock_every) in BOTH.into_iter().flat_map(|which| [(which, 0), (which, 16)]) {
        let mut told = Vec::new();
        for moves in [false, true] {
            let bench = Bench::new(which, &cpus, 1, clock_every);
            let mut random = Random(7);
            let (mut next, mut cpu) = (0u64, cpus[0]);
            pin(cpu);
            // Losses, copies, packets that come late, and some that come too late to be told from copies.
            for _ in 0..20_000 {
                if random.below(20) == 0 {
                    bench.end_poll();
                    cpu = cpus[random.below(cpus.len())];
                    if moves {
                        pin(cpu);
                    }
                }
                let seq = match random.below(100) {
                    0..=79 => next,
                    80..=84 => next + random.below(150) as u64,
                    85..=98 => next.saturating_sub(random.below(200) as u64),
                    _ => next.saturating_sub(random.below(1200) as u64),
                };
                next = next.max(seq + 1);
                bench.feed(0, seq, 1);
            }
            let moved = bench.reason(FLOW_MOVED);
            assert!(if moves { moved > 100 } else { moved == 0 }, "{moved}");
            // Nobody was running when somebody else came.
            assert_eq!(bench.reason(FLOW_CONTENDED), 0, "{which:?} {clock_every}");
            told.push(bench.counted());
        }
        let seen = &told[0];
        assert!(
            seen.duplicates > 500 && seen.reordered > 100 && seen.beyond_window > 10,
            "{seen:?}"
        );
        assert_eq!(told[0], told[1], "{which:?} {clock_every}");
    }
}

#[test]
fn a_flow_that_several_handle_at_the_same_time_loses_no_count() {
    let Some(cpus) = cpus() else { return };
    // Many packets from here, and few that the kernel repeats: then the CPUs do nothing else, but a call takes long.
    for (packets, times) in [(10_000, 1), (30, 5000)] {
        for (which, clock_every) in BOTH.into_iter().flat_map(|which| [(which, 0), (which, 16)]) {
            let bench = Bench::new(which, &cpus, 1, clock_every);
            at_once(&cpus, |_, meeting| {
                for seq in 0..packets {
                    // Nobody is ever so far behind that his packets can't be told from copies.
                    if seq % 200 == 0 {
                        bench.end_poll();
                        meeting.wait();
                    }
                    bench.feed(0, seq, times);
                }
            });
            let all = u64::from(times) * cpus.len() as u64;
            bench.assert_exact(packets, packets * (all - 1));
            assert!(bench.reason(FLOW_MOVED) > 0);
        }
    }
}

#[test]
fn flows_that_several_find_at_the_same_time_are_found_once_and_shared_without_a_miscount() {
    const FLOWS: u32 = 3000;
    const PACKETS: u64 = 6;
    let Some(cpus) = cpus() else { return };
    for (which, clock_every) in BOTH.into_iter().flat_map(|which| [(which, 0), (which, 16)]) {
        let bench = Bench::new(which, &cpus, FLOWS, clock_every);
        at_once(&cpus, |worker, meeting| {
            for group in 0..FLOWS / 50 {
                bench.end_poll();
                meeting.wait();
                for flow in group * 50..(group + 1) * 50 {
                    for seq in 0..PACKETS {
                        bench.feed(flow, seq, 1);
                        if (seq + worker as u64).is_multiple_of(3) {
                            bench.end_poll();
                        }
                    }
                }
            }
            bench.end_poll();
        });
        bench.assert_exact(PACKETS, PACKETS * (cpus.len() as u64 - 1));
    }
}

#[test]
fn who_does_not_let_go_of_a_window_in_time_is_not_waited_for_for_ever_and_told() {
    let Some(cpus) = cpus() else { return };
    for which in BOTH {
        let bench = Bench::new(which, &cpus, 1, 16);
        pin(cpus[0]);
        bench.feed(0, 0, 1);
        // Its poll loop has no end.
        pin(cpus[1]);
        bench.feed(0, 1, 1);
        assert_eq!(bench.reason(FLOW_CONTENDED), 1);
        bench.feed(0, 2, 1);
        pin(cpus[0]);
        bench.feed(0, 3, 1);
        assert_eq!((bench.reason(FLOW_CONTENDED), bench.reason(FLOW_MOVED)), (1, 2));
        bench.assert_exact(4, 0);
    }
}

#[test]
fn a_flow_that_comes_by_one_source_stays_its_own_whoever_else_receives() {
    let Some(cpus) = cpus() else { return };
    for which in BOTH {
        let flows = cpus.len() as u32;
        let bench = Bench::new(which, &cpus, flows, 16);
        at_once(&cpus, |worker, _| {
            for seq in 0..5000 {
                bench.feed(worker as u32, seq, 1);
            }
        });
        bench.assert_exact(5000, 0);
        let counted = bench.counted();
        assert_eq!((counted.reordered, bench.reason(FLOW_MOVED)), (0, 0));
    }
}

#[test]
fn the_last_flow_that_the_table_holds_is_found_by_all_who_look_for_it_at_the_same_time() {
    let Some(cpus) = cpus() else { return };
    let bench = Bench::new(Which::Drop, &cpus, 1, 0);
    // Two places of three words: of none is more known than that zeros are a free one.
    let table = bench.program.map::<AtomicU64>("TABLE", 2 * 3);
    let count = bench.program.map::<AtomicU64>("FLOW_COUNT", 1);
    // Where others have the CPUs each meeting takes milliseconds.
    let (begun, rounds) = (Instant::now(), AtomicU64::new(0));
    at_once(&cpus, |worker, meeting| {
        for seq in 0.. {
            if worker == 0 && (seq == 0 || seq < 150_000 && begun.elapsed() < Duration::from_secs(2)) {
                // Nobody has found it yet, once more.
                for word in table.iter().chain(&*count) {
                    word.store(0, SeqCst);
                }
                rounds.store(seq + 1, SeqCst);
            }
            meeting.wait();
            if rounds.load(SeqCst) == seq {
                break;
            }
            bench.feed(0, seq, 1);
            meeting.wait();
        }
    });
    let rounds = rounds.into_inner();
    bench.assert_exact(rounds, rounds * (cpus.len() as u64 - 1));
}

#[test]
fn the_table_of_drop_holds_as_many_flows_as_were_asked_for() {
    const FLOWS: u32 = 300_000;
    let Some(cpus) = cpus() else { return };
    let bench = Bench::new(Which::Drop, &cpus[..1], FLOWS, 0);
    pin(cpus[0]);
    for flow in 0..FLOWS {
        bench.feed(flow, 0, 1);
    }
    bench.assert_exact(1, 0);
    // One more is told.
    bench.feed(FLOWS, 0, 1);
    assert_eq!(
        (bench.flows_found(), bench.reason(UNTRACKED_FLOW)),
        (u64::from(FLOWS), 1)
    );
    assert_eq!(bench.counted().rx, u64::from(FLOWS) + 1);
}
