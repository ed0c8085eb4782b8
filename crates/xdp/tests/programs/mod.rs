//! Programs loaded for tests that run them over single frames, and the frames: the fuzz corpus, and mutations of it.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part")]

use aya::programs::{RawTracePoint, Xdp};
use aya::{Btf, Ebpf, EbpfLoader, Pod};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;

#[path = "../../src/abi.rs"]
pub mod abi;
#[path = "../../../wire/tests/common/frames.rs"]
pub mod frames;

use crate::sys::{self, run_once};
use abi::{Plan, Source};
use mpps_sys::map::{Mapping, Shared};

/// `enum xdp_action`.
pub const DROP: u32 = 1;
pub const PASS: u32 = 2;
pub const TX: u32 = 3;

/// Instructions that the verifier may have to follow in a program. Each start waits for it, about 1 µs for each, and
/// the kernel refuses a program at a million; other kernels follow more ways than this one.
pub const MOST_VERIFIED: u32 = 150_000;

pub const OWN_MAC: [u8; 6] = frames::DST_MAC;

/// The loader reads ELF structures in place.
#[repr(align(8))]
pub struct Object<const N: usize>(pub [u8; N]);

/// A program in the kernel, and what it counts.
pub struct Program {
    descriptor: OwnedFd,
    sources: Mapping<Source>,
    rows: Mapping<abi::Row>,
    heard: Mapping<abi::Heard>,
    ebpf: Ebpf,
}

impl Program {
    /// Runs the program over a frame: the verdict, and the frame after it.
    pub fn run(&self, frame: &[u8]) -> (u32, Vec<u8>) {
        run_once(self.descriptor.as_fd(), 0, frame).unwrap_or_else(|e| panic!("run over {} bytes: {e}", frame.len()))
    }

    /// Runs the program over a frame so often, which it does not change.
    pub fn run_often(&self, frame: &[u8], times: u32) -> u32 {
        let result = sys::run_often(self.descriptor.as_fd(), 0, frame, times);
        result
            .unwrap_or_else(|e| panic!("run over {} bytes: {e}", frame.len()))
            .0
    }

    pub fn source(&self) -> &Source {
        &self.sources[0]
    }

    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    pub fn rows(&self) -> &[abi::Row] {
        &self.rows
    }

    /// A map of the object, in our memory.
    pub fn map<T: Shared>(&self, name: &str, entries: usize) -> Mapping<T> {
        mapping(&self.ebpf, name, entries)
    }

    /// Loads another program of the object, which is for a tracepoint.
    pub fn tap(&mut self, name: &str) -> OwnedFd {
        let program = self.ebpf.program_mut(name).expect("in the object");
        let program: &mut RawTracePoint = program.try_into().expect("for a tracepoint");
        program.load().unwrap_or_else(|e| panic!("load {name}: {e:?}"));
        program.fd().unwrap().as_fd().try_clone_to_owned().unwrap()
    }

    pub fn row(&self) -> &abi::Row {
        &self.rows[0]
    }

    /// The address that the next hop told.
    pub fn heard(&self) -> Option<[u8; 6]> {
        let heard = &self.heard[0];
        let known = heard.known.load(Ordering::Acquire) != 0;
        known.then(|| heard.mac.each_ref().map(|byte| byte.load(Ordering::Relaxed)))
    }

    /// The reason that has been counted since the last call; `None`: none was.
    pub fn reason(&self) -> Option<usize> {
        let counted: Vec<_> = (0..abi::REASONS)
            .filter(|i| self.source().reasons[*i].swap(0, Ordering::Relaxed) > 0)
            .collect();
        assert!(counted.len() <= 1, "{counted:?}");
        counted.first().copied()
    }
}

/// Whether programs can be loaded; else says why not.
pub fn can_load() -> bool {
    // SAFETY: no arguments.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        println!("SKIPPED: loading BPF programs needs root");
    }
    root
}

/// A plan of one source whose rows last for ever.
pub fn plan() -> Plan {
    // SAFETY: integers only: zeros are a value.
    let mut plan: Plan = unsafe { std::mem::zeroed() };
    plan.interval_ns = 1 << 62;
    plan.sources = 1;
    plan.rows = 1;
    plan.periods = 1;
    plan.rows_per_period = 1;
    plan.mac = OWN_MAC;
    plan
}

/// A bit for each port.
pub fn port_bits(mut is_in: impl FnMut(u16) -> bool) -> [u64; 1024] {
    let mut bits = [0; 1024];
    for port in 0..=u16::MAX {
        bits[usize::from(port >> 6)] |= u64::from(is_in(port)) << (port & 63);
    }
    bits
}

/// A list in a program, and how much of it is used.
pub type Listed<T, const N: usize> = ([T; N], u32);

/// Addresses by family, as programs hold them, each with its number.
pub fn by_family<const A: usize, const B: usize>(ips: &[IpAddr]) -> (Listed<u32, A>, Listed<[u32; 4], B>) {
    let (mut v4, mut v6) = (([0; A], 0), ([[0; 4]; B], 0));
    for ip in ips {
        match ip {
            IpAddr::V4(ip) => {
                v4.0[v4.1 as usize] = u32::from_ne_bytes(ip.octets());
                v4.1 += 1;
            }
            IpAddr::V6(ip) => {
                for (to, word) in v6.0[v6.1 as usize].iter_mut().zip(ip.octets().as_chunks::<4>().0) {
                    *to = u32::from_ne_bytes(*word);
                }
                v6.1 += 1;
            }
        }
    }
    (v4, v6)
}

/// Constants of a program beside its plan.
pub struct Constant<'a>(pub &'static str, pub &'a [u8]);

/// The bytes of plain data.
pub fn bytes_of<T: Pod>(value: &T) -> &[u8] {
    // SAFETY: `Pod`: no padding, and as many bytes as it is long.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// Loads a program that counts from now on.
pub fn load(object: &[u8], plan: &Plan, constants: &[Constant<'_>], name: &str) -> Program {
    load_sized(object, plan, constants, name, &[])
}

/// The same with maps of so many entries.
pub fn load_sized(
    object: &[u8],
    plan: &Plan,
    constants: &[Constant<'_>],
    name: &str,
    entries: &[(&str, u32)],
) -> Program {
    let btf = Btf::from_sys_fs().ok();
    let mut loader = EbpfLoader::new();
    loader.btf(btf.as_ref()).override_global("PLAN", plan, true);
    for Constant(name, value) in constants {
        loader.override_global(name, *value, true);
    }
    let rows = plan.sources * plan.rows;
    let mut sizes = vec![("SOURCES", plan.sources), ("ROWS", rows)];
    if name.starts_with("reflect") {
        sizes.extend([("SEEN", plan.sources * abi::SETS), ("RETURNED", plan.sources)]);
    }
    for (name, entries) in sizes.iter().chain(entries) {
        loader.map_max_entries(name, *entries);
    }
    let mut ebpf = loader.load(object).unwrap_or_else(|e| panic!("maps of {name}: {e}"));
    let program: &mut Xdp = ebpf
        .program_mut(name)
        .expect("in the object")
        .try_into()
        .expect("an XDP program");
    program.load().unwrap_or_else(|e| panic!("load {name}: {e:?}"));
    let instructions = program.info().unwrap().verified_instruction_count();
    assert!(
        instructions.is_some_and(|n| n < MOST_VERIFIED),
        "{name}: {instructions:?}"
    );
    let descriptor = program.fd().unwrap().as_fd().try_clone_to_owned().unwrap();
    let run: Mapping<abi::Run> = mapping(&ebpf, "RUN", 1);
    run[0].start_ns.store(1, Ordering::Relaxed);
    run[0].end_ns.store(u64::MAX, Ordering::Relaxed);
    let (sources, rows, heard) = (
        mapping(&ebpf, "SOURCES", plan.sources as usize),
        mapping(&ebpf, "ROWS", rows as usize),
        mapping(&ebpf, "HEARD", 1),
    );
    Program {
        descriptor,
        sources,
        rows,
        heard,
        ebpf,
    }
}

fn mapping<T: Shared>(ebpf: &Ebpf, name: &str, entries: usize) -> Mapping<T> {
    let Some(aya::maps::Map::Array(map)) = ebpf.map(name) else {
        panic!("no array {name}");
    };
    Mapping::new(map.fd().as_fd(), entries).unwrap()
}

/// The seeds of all fuzz targets, and the frames that frames.rs can build.
pub fn corpus() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for target in ["parse_udp", "reflect", "slow_path"] {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../fuzz/corpus")
            .join(target);
        let files = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("read {}: {e}", dir.display()));
        let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        files.sort();
        all.extend(files.iter().map(|file| std::fs::read(file).unwrap()));
    }
    for payload in [0, 1, 18, 333, 1472] {
        let payload: Vec<_> = (0..payload).map(|i| (i * 7) as u8).collect();
        all.extend(frames::all_udp(&payload).into_iter().map(|(_, frame)| frame));
    }
    all.retain(|frame| runs(frame));
    all
}

/// The kernel runs programs over frames that have an Ethernet header and fit in a page.
pub fn runs(frame: &[u8]) -> bool {
    (14..=3000).contains(&frame.len())
}

/// SplitMix64: the same numbers in every run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Calls `check` with all of the corpus, its truncations, and mutations of it.
pub fn for_all(mutations: usize, mut check: impl FnMut(&[u8])) {
    let corpus = corpus();
    for frame in &corpus {
        check(frame);
        for len in 14..frame.len().min(140) {
            check(&frame[..len]);
        }
    }
    let mut random = Random(1);
    for _ in 0..mutations {
        let mut frame = corpus[random.below(corpus.len())].clone();
        mutate(&mut random, &mut frame);
        if runs(&frame) {
            check(&frame);
        }
    }
}

fn mutate(random: &mut Random, frame: &mut Vec<u8>) {
    const INTERESTING: [u8; 13] = [0, 1, 2, 4, 6, 17, 43, 44, 51, 60, 0x7f, 0x80, 0xff];
    // Most of what decides lies in the first bytes.
    let reach = if random.below(4) == 0 {
        frame.len()
    } else {
        frame.len().min(90)
    };
    for _ in 0..=random.below(3) {
        let at = random.below(reach).min(frame.len() - 1);
        match random.below(6) {
            0 | 1 => frame[at] ^= 1 << random.below(8),
            2 => frame[at] = random.next() as u8,
            3 => frame[at] = INTERESTING[random.below(INTERESTING.len())],
            4 => frame.truncate(at.max(14)),
            _ => frame.extend([0; 5]),
        }
    }
    // Most mutations of an IPv4 header are caught by its checksum: repair it half of the time to get past.
    if random.below(2) == 0 && frame.len() >= 34 && frame[12..14] == [8, 0] {
        let end = (14 + usize::from(frame[14] & 0xf) * 4).clamp(34, frame.len());
        frame[24..26].fill(0);
        let sum = frames::naive_checksum(&[&frame[14..end]]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
}

/// VLAN tags, as far as they are parsed.
pub fn tags(frame: &[u8]) -> usize {
    let is_tag = |at: usize| matches!(frame.get(at..at + 2), Some([0x81, 0] | [0x88, 0xa8]));
    usize::from(is_tag(12)) + usize::from(is_tag(12) && is_tag(16))
}

/// Loads all programs of an object; how many instructions the verifier followed in each.
pub fn verified(object: &[u8], plan: &Plan, constants: &[Constant<'_>]) -> Vec<(String, u32)> {
    let btf = Btf::from_sys_fs().ok();
    let mut loader = EbpfLoader::new();
    loader.btf(btf.as_ref()).override_global("PLAN", plan, true);
    for Constant(name, value) in constants {
        loader.override_global(name, *value, true);
    }
    let mut ebpf = loader.load(object).unwrap_or_else(|e| panic!("maps: {e}"));
    let mut all = Vec::new();
    for (name, program) in ebpf.programs_mut() {
        let info = match program {
            aya::programs::Program::Xdp(program) => program.load().and_then(|()| program.info()),
            aya::programs::Program::RawTracePoint(program) => program.load().and_then(|()| program.info()),
            _ => panic!("{name}: another kind of program"),
        };
        let info = info.unwrap_or_else(|e| panic!("load {name}: {e:?}"));
        all.push((
            name.to_owned(),
            info.verified_instruction_count().expect("since Linux 5.16"),
        ));
    }
    all
}
