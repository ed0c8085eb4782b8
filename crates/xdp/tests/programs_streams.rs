//! What `drop` makes of sequence numbers is what `mpps_stats::Streams` makes of them: every count, after every packet,
//! of streams with losses, copies, reordering, restarts and forged numbers; by one source, and by several in turn.

#[path = "programs/mod.rs"]
mod programs;
#[allow(dead_code, unreachable_pub, reason = "a part is used")]
#[path = "../src/sys.rs"]
mod sys;

use mpps_stats::{Counted, Delay, Outcome, SequenceWindows, Streams};
use programs::abi::{self, Plan, flag};
use programs::{Constant, OWN_MAC, Object, Program, Random, bytes_of, frames};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

static DROP: Object<{ include_bytes!("../bpf/drop.bpf.o").len() }> = Object(*include_bytes!("../bpf/drop.bpf.o"));

const WINDOW_WORDS: u32 = 16;
/// `enum xdp_action`.
const XDP_DROP: u32 = 1;

/// Everything that is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    rx: u64,
    expected: i64,
    duplicates: u64,
    reordered: u64,
    distance: u64,
    latency: u64,
    implausible: u64,
    open_gap: u64,
    contested_gap: u64,
    after_first: u64,
    beyond_window: u64,
    restarts: u64,
}

/// The program, which has one flow.
struct Kernel {
    program: Program,
    /// Of CPUs, as sources.
    cpus: usize,
}

impl Kernel {
    fn new(cpus: usize) -> Self {
        let mut plan: Plan = programs::plan();
        plan.flags = flag::STAMPED;
        if cpus > 1 {
            plan.flags |= flag::BY_CPU | flag::SEVERAL;
        }
        plan.sources = cpus as u32;
        plan.window_words = WINDOW_WORDS;
        plan.max_flows = 1;
        plan.table = 2;
        let (all, none) = (programs::port_bits(|_| true), programs::port_bits(|_| false));
        let constants = [
            Constant("PORTS", bytes_of(&all)),
            Constant("HOST_PORTS", bytes_of(&none)),
        ];
        let entries = [
            ("POLLS", plan.sources),
            ("WINDOWS", WINDOW_WORDS),
            ("HISTOGRAMS", plan.sources * abi::OCTAVES as u32),
            ("TABLE", 2),
            ("FLOWS", 1),
            ("DOUBTS", 1),
        ];
        let program = programs::load_sized(&DROP.0, &plan, &constants, "drop", &entries);
        Self { program, cpus }
    }

    /// Forgets all that came, as if it had just been loaded.
    fn forget(&self) {
        let sizes = [
            ("FLOWS", 8),
            ("DOUBTS", 18),
            ("WINDOWS", 2 * WINDOW_WORDS as usize),
            ("ROWS", self.cpus * size_of::<abi::Row>() / 8),
        ];
        for (name, words) in sizes {
            let words = self.program.map::<AtomicU64>(name, words);
            words.iter().for_each(|word| word.store(0, Relaxed));
        }
        for reason in self.program.sources().iter().flat_map(|source| &source.reasons) {
            reason.store(0, Relaxed);
        }
    }

    /// A packet comes to a CPU; when it was taken, ns.
    fn hear(&self, cpu: usize, seq: u64, sent: u64) -> u64 {
        if self.cpus > 1 {
            pin(cpu);
        }
        let mut payload = [seq.to_le_bytes(), sent.to_le_bytes()].concat();
        payload.extend([0; 8]);
        let mut frame = frames::udp_v4(&[], &[], &payload);
        frame[40..42].fill(0);
        frame[..6].copy_from_slice(&OWN_MAC);
        assert_eq!(self.program.run_often(&frame, 1), XDP_DROP);
        self.program.sources()[cpu].now_ns.load(Relaxed)
    }

    fn counts(&self) -> Counts {
        let reason = |place: usize| {
            let all = self.program.sources().iter();
            all.fold(0, |sum: u64, source| {
                sum.wrapping_add(source.reasons[place].load(Relaxed))
            })
        };
        let sum = |of: fn(&abi::Row) -> &AtomicU64| {
            let all = self.program.rows().iter();
            all.fold(0, |sum: u64, row| sum.wrapping_add(of(row).load(Relaxed)))
        };
        Counts {
            rx: sum(|row| &row.rx),
            expected: sum(|row| &row.expected).cast_signed(),
            duplicates: sum(|row| &row.duplicates),
            reordered: sum(|row| &row.reordered),
            distance: sum(|row| &row.distance_sum),
            latency: sum(|row| &row.latency.sum),
            beyond_window: reason(21),
            restarts: reason(24),
            implausible: reason(27),
            open_gap: reason(28),
            after_first: reason(29),
            contested_gap: reason(30),
        }
    }
}

/// The same in this process.
struct User {
    streams: Streams,
    counts: Counts,
}

impl User {
    fn new() -> Self {
        let span = u64::from(WINDOW_WORDS) * 64 - 128;
        let streams = Streams::new(SequenceWindows::new(1, span, 1 << 20));
        Self {
            streams,
            counts: Counts::default(),
        }
    }

    fn book(&mut self, one: Counted) {
        let counts = &mut self.counts;
        counts.rx += 1;
        counts.expected += one.expected;
        counts.reordered += u64::from(one.distance > 0);
        counts.distance += one.distance;
        counts.latency += one.delay.expect("given").latency_ns;
    }

    fn hear(&mut self, seq: u64, sent: u64, now_ns: u64) -> Counts {
        match self
            .streams
            .record(0, seq, sent, now_ns, Some(Delay::of(sent, None, now_ns)))
        {
            Outcome::Counted(one) => self.book(one),
            Outcome::Duplicate => self.counts.duplicates += 1,
            Outcome::Aside => {}
            Outcome::Believed(all) => all.into_iter().for_each(|one| self.book(one)),
        }
        let doubts = self.streams.doubts();
        Counts {
            implausible: doubts.implausible(),
            open_gap: doubts.open_gap,
            contested_gap: doubts.contested_gap,
            after_first: doubts.after_first,
            beyond_window: doubts.beyond_window,
            restarts: doubts.restarts,
            ..self.counts
        }
    }
}

fn now_ns() -> u64 {
    // SAFETY: the structure is ours.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time);
        time
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
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

/// CPUs from 0 on that this thread may run on.
fn cpus() -> usize {
    // SAFETY: zeros are an empty set, and the kernel writes no more than its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        set
    };
    // SAFETY: places within the set.
    (0..4).take_while(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).count()
}

/// Numbers and times, ns, of a stream with everything that may happen to one.
fn sequence(random: &mut Random) -> Vec<(u64, u64)> {
    const STEP: u64 = 1000;
    let mut all = Vec::new();
    let (mut next, mut time) = ([0, 5, 70, 1 << 40][random.below(4)], 1_000_000);
    let hostile = random.below(4);
    for _ in 0..random.below(40) + 5 {
        // What the way does.
        match random.below(8) {
            0 => next += random.below(4) as u64,
            1 => next += random.below(130) as u64,
            2 => next += random.below(2000) as u64,
            3 if random.below(3) == 0 => (next, time) = (random.below(300) as u64, time + 50_000_000),
            _ => {}
        }
        for _ in 0..random.below(12) {
            all.push((next, time));
            (next, time) = (next + 1 + (random.below(9) == 0) as u64, time + STEP);
        }
        if random.below(3) == 0 && all.len() > 4 {
            // One comes late, or again.
            let (from, to) = (all.len() - 1 - random.below(all.len().min(80) - 1), all.len() - 1);
            let packet = all[from];
            if random.below(2) == 0 {
                all.remove(from);
                all.push(packet);
            } else {
                all.insert(to, packet);
            }
        }
        // What others do.
        for _ in 0..if hostile > 0 { random.below(3 * hostile) } else { 0 } {
            let ahead = [1, 62, 63, 64, 65, 300, 900, 5000, 3_000_000, u64::MAX / 2][random.below(10)];
            let seq = match random.below(4) {
                0 => next.saturating_sub(ahead),
                1 => next + random.below(70) as u64,
                _ => next.saturating_add(ahead),
            };
            let late = [0, 1, 500, 2500, 900_000_000][random.below(5)];
            let packet = (seq.min(u64::MAX - 1), time - STEP + late);
            all.push(packet);
            if random.below(3) == 0 {
                all.push((packet.0 + 1, packet.1 + 1));
                all.extend((random.below(2) == 0).then_some((packet.0 + 2, packet.1 + 2)));
            }
        }
    }
    all.retain(|(seq, _)| *seq < u64::MAX);
    all
}

/// Holds the two against each other; returns what was counted.
fn compare(kernel: &Kernel, packets: &[(u64, u64)], random: &mut Random) -> Counts {
    kernel.forget();
    let mut user = User::new();
    let mut cpu = 0;
    let mut counts = Counts::default();
    // In the past of every arrival, but not so far that it would be another clock's.
    let begun_ns = now_ns() - 30_000_000_000;
    for (place, (seq, time)) in packets.iter().enumerate() {
        if random.below(5) == 0 {
            cpu = random.below(kernel.cpus);
        }
        let sent = begun_ns + time;
        let taken_ns = kernel.hear(cpu, *seq, sent);
        counts = user.hear(*seq, sent, taken_ns);
        assert_eq!(kernel.counts(), counts, "after packet {place} of {packets:?}");
    }
    counts
}

#[test]
fn the_program_counts_what_user_space_counts_after_every_packet() {
    if !programs::can_load() {
        return;
    }
    let (kernel, mut random) = (Kernel::new(1), Random(17));
    let mut sums = [0; 8];
    for _ in 0..400 {
        let packets = sequence(&mut random);
        let counts = compare(&kernel, &packets, &mut random);
        let seen = [
            counts.rx,
            counts.duplicates,
            counts.reordered,
            counts.implausible,
            counts.open_gap,
            counts.contested_gap,
            counts.beyond_window,
            counts.restarts,
        ];
        sums.iter_mut().zip(seen).for_each(|(sum, n)| *sum += n);
    }
    // All of it was tried.
    assert!(sums.iter().all(|sum| *sum > 20), "{sums:?}");
}

#[test]
fn a_doubted_flow_that_moves_between_cpus_is_counted_as_one_that_stays() {
    if !programs::can_load() {
        return;
    }
    let cpus = cpus();
    if cpus < 2 {
        println!("SKIPPED: needs CPUs 0 and 1");
        return;
    }
    let (kernel, mut random) = (Kernel::new(cpus), Random(99));
    for _ in 0..150 {
        let packets = sequence(&mut random);
        compare(&kernel, &packets, &mut random);
    }
}
