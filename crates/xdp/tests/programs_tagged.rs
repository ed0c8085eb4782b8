//! The XDP programs that take frames by their tags, and the guard, find tags as mpps-wire does.

use aya::maps::PerCpuArray;
use aya::programs::{SchedClassifier, TestRun, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader};
use mpps_wire::tagged::{packet_end, tag_of};
use mpps_wire::{Mark, TAG_LEN, Tag};

/// The loader reads ELF structures in place.
#[repr(align(8))]
struct Object<const N: usize>([u8; N]);

static REDIRECT: Object<{ include_bytes!("../bpf/redirect.bpf.o").len() }> =
    Object(*include_bytes!("../bpf/redirect.bpf.o"));
static GUARD: Object<{ include_bytes!("../bpf/guard.bpf.o").len() }> = Object(*include_bytes!("../bpf/guard.bpf.o"));

const SEED: u64 = 0x0123_4567_89ab_cdef;
const MUTATIONS: usize = 5000;
const TCX_DROP: u32 = 2;
const TCX_NEXT: u32 = u32::MAX;
/// Length of a frame that needs several buffers.
const LONG: usize = 9000;

/// `struct counters` in `redirect.bpf.c`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Counters {
    taken: u64,
    passed: u64,
    no_socket: u64,
    no_metadata: u64,
}

// SAFETY: `repr(C)`, integers without padding.
unsafe impl aya::Pod for Counters {}

/// Programs in the kernel.
struct Programs {
    redirect: Vec<Ebpf>,
    guard: Ebpf,
}

const REDIRECTS: [&str; 2] = ["redirect_tagged", "redirect_tagged_frags"];

impl Programs {
    /// `None`, after printing why, if programs can't be loaded.
    fn load() -> Option<Self> {
        // SAFETY: no arguments.
        if unsafe { libc::geteuid() } != 0 {
            println!("SKIPPED: loading BPF programs needs root");
            return None;
        }
        let load = |object: &[u8], name: &str| {
            let mut loader = EbpfLoader::new();
            loader.btf(None).override_global("SEED", &SEED, true);
            let mut loaded = loader.load(object).unwrap_or_else(|e| panic!("maps of {name}: {e}"));
            let program = loaded.program_mut(name).expect("in the object");
            if REDIRECTS.contains(&name) {
                let program: &mut Xdp = program.try_into().expect("an XDP program");
                program.load().unwrap_or_else(|e| panic!("load {name}: {e:?}"));
            } else {
                let program: &mut SchedClassifier = program.try_into().expect("a classifier");
                program.load().unwrap_or_else(|e| panic!("load {name}: {e:?}"));
            }
            loaded
        };
        Some(Self {
            redirect: REDIRECTS.map(|name| load(&REDIRECT.0, name)).into(),
            guard: load(&GUARD.0, "mpps_guard"),
        })
    }

    /// Asserts that all programs find a tag of the seed if mpps-wire does, and returns whether it does.
    fn agree(&self, frame: &[u8]) -> bool {
        let tagged = tag_of(frame, SEED).is_some();
        for (loaded, name) in self.redirect.iter().zip(REDIRECTS) {
            if frame.len() == LONG && name == REDIRECTS[0] {
                continue;
            }
            let before = counters(loaded);
            let program: &Xdp = loaded.program(name).expect("loaded").try_into().expect("XDP");
            run(program, frame);
            let now = counters(loaded);
            // There is no socket: a frame that the program takes goes to the host as well, and is counted.
            let counted = (now.no_socket - before.no_socket, now.passed - before.passed);
            assert_eq!(counted, (tagged.into(), (!tagged).into()), "{name}: {frame:02x?}");
        }
        // The kernel tests no such program with a frame that ends within its IP header, or one in several buffers.
        if (54..LONG).contains(&frame.len()) {
            let program: &SchedClassifier = self
                .guard
                .program("mpps_guard")
                .expect("loaded")
                .try_into()
                .expect("tc");
            let verdict = run(program, frame);
            assert_eq!(verdict, if tagged { TCX_DROP } else { TCX_NEXT }, "guard: {frame:02x?}");
        }
        tagged
    }
}

fn counters(loaded: &Ebpf) -> Counters {
    let map = loaded.map("COUNTERS").expect("in the object");
    let map: PerCpuArray<_, Counters> = map.try_into().expect("counters");
    let mut sum = Counters::default();
    for cpu in map.get(&0, 0).expect("an entry").iter() {
        sum.passed += cpu.passed;
        sum.no_socket += cpu.no_socket;
    }
    sum
}

fn run<P>(program: &P, frame: &[u8]) -> u32
where
    P: for<'a> TestRun<Opts<'a> = TestRunOptions<'a>, Result = aya::programs::TestRunResult>,
{
    let options = TestRunOptions {
        data_in: Some(frame),
        ..TestRunOptions::new()
    };
    let result = program.test_run(options);
    result
        .unwrap_or_else(|e| panic!("run over {} bytes: {e:?}", frame.len()))
        .return_value
}

/// Pseudo-random numbers (xorshift64*), the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }
}

/// Returns a tag of random content.
fn tag(random: &mut Random, seed: u64) -> [u8; TAG_LEN] {
    let mut word = || random.below(1 << 31) as u64;
    let tag = Tag {
        number: word() as u32,
        run: word() as u8,
        flow: word() as u32 & 0x3f_ffff,
        time_ns: word() << 5,
        mark: [Mark::Sent, Mark::Returned][word() as usize & 1],
    };
    tag.bytes(seed)
}

/// Puts a tag at the end of the packet in a frame, if there is room behind the MAC addresses.
fn put(frame: &mut [u8], tag: [u8; TAG_LEN]) {
    let end = packet_end(frame);
    if let Some(at) = end.checked_sub(TAG_LEN).filter(|at| *at >= 14) {
        frame[at..end].copy_from_slice(&tag);
    }
}

/// Returns frames with everything that may precede IP, and without IP.
fn shapes() -> Vec<Vec<u8>> {
    let vlan = |count| [0x81, 0x00, 0, 5].repeat(count);
    let mpls = |count: usize| {
        let labels = (1..=count).flat_map(|n| [0, 0, 0x10 | u8::from(n == count), 9]);
        [0x88, 0x47].into_iter().chain(labels).collect::<Vec<u8>>()
    };
    let (v4, v6) = (vec![0x08, 0x00], vec![0x86, 0xdd]);
    let mut heads = vec![
        v4.clone(),
        v6.clone(),
        [&[0x88, 0xa8, 0, 5], &vlan(1)[..], &v6].concat(),
        vec![0x88, 0x48, 0, 0, 0x11, 9],
        vec![0x88, 0x64, 0x11, 0, 0, 1, 0, 40, 0x00, 0x21],
        vec![0x88, 0x64, 0x11, 0, 0, 1, 0, 40, 0x00, 0x57],
        vec![0x88, 0x64, 0x11, 0, 0, 1, 0, 40, 0xc0, 0x21],
        [&vlan(2)[..], &[0x88, 0x64, 0x11, 0, 0, 1, 0, 40, 0x00, 0x21]].concat(),
        vec![0x88, 0xb5],
    ];
    heads.extend([1, 2, 18, 19, 20, 21].map(|count| [&vlan(count)[..], &v4].concat()));
    heads.extend([1, 2, 3, 19, 20, 21].map(mpls));
    heads.extend([1, 17, 18, 19].map(|count| [&vlan(count)[..], &mpls(1)[..]].concat()));
    let packets = |payload: usize| {
        let behind = (payload + TAG_LEN) as u16;
        let mut v4 = vec![0; 20];
        v4[0] = 0x45;
        v4[2..4].copy_from_slice(&(20 + behind).to_be_bytes());
        let mut v6 = vec![0; 40];
        v6[0] = 0x60;
        v6[4..6].copy_from_slice(&behind.to_be_bytes());
        [v4, v6].map(|header| [header, vec![9; usize::from(behind)]].concat())
    };
    let mut frames = Vec::new();
    for head in &heads {
        for payload in [0, 1, 30, 1200] {
            for packet in packets(payload) {
                for padding in [0, 1, 4, 300] {
                    frames.push([&[2; 12][..], head, &packet, &vec![0; padding]].concat());
                }
            }
        }
    }
    frames
}

#[test]
fn a_tag_is_found_where_mpps_wire_finds_it() {
    let Some(programs) = Programs::load() else { return };
    let mut random = Random(0x5eed);
    for mut frame in shapes() {
        assert!(!programs.agree(&frame), "no tag");
        let bytes = tag(&mut random, SEED);
        put(&mut frame, bytes);
        assert!(programs.agree(&frame), "{frame:02x?}");
        let other = tag(&mut random, SEED + 1);
        put(&mut frame, other);
        assert!(!programs.agree(&frame), "another seed");
    }
}

#[test]
fn frames_of_any_bytes_are_judged_as_mpps_wire_judges_them() {
    let Some(programs) = Programs::load() else { return };
    let (mut random, shapes) = (Random(0xb17e5), shapes());
    let mut found = [0; 2];
    for _ in 0..MUTATIONS {
        let mut frame = shapes[random.below(shapes.len())].clone();
        for _ in 0..random.below(4) {
            let at = 12 + random.below(60).min(frame.len() - 13);
            frame[at] = random.below(256) as u8;
        }
        frame.truncate(20 + random.below(frame.len()));
        let bytes = tag(&mut random, SEED);
        put(&mut frame, bytes);
        if random.below(3) == 0 {
            let at = random.below(frame.len());
            frame[at] ^= 1 << random.below(8);
        }
        found[usize::from(programs.agree(&frame))] += 1;
    }
    assert!(found.iter().all(|count| *count > MUTATIONS / 10), "{found:?}");
}

#[test]
fn a_tag_is_found_in_several_buffers() {
    let Some(programs) = Programs::load() else { return };
    let mut random = Random(0xf4a65);
    for (ethertype, header, at) in [(0x0800, 0x45, 2), (0x86dd, 0x60, 4), (0x88b5, 0, 2)] {
        for padding in [0, 1, 4000, 8900] {
            let mut frame = vec![0; LONG];
            frame[12..14].copy_from_slice(&u16::to_be_bytes(ethertype));
            frame[14] = header;
            let counted = LONG - 14 - padding - if header == 0x60 { 40 } else { 0 };
            frame[14 + at..16 + at].copy_from_slice(&(counted as u16).to_be_bytes());
            let bytes = tag(&mut random, SEED);
            put(&mut frame, bytes);
            assert!(programs.agree(&frame), "{ethertype:04x} {padding}");
            let last = packet_end(&frame) - 1;
            frame[last] ^= 1;
            assert!(!programs.agree(&frame), "{ethertype:04x} {padding}");
        }
    }
}
