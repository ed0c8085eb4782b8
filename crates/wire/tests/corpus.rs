//! Replays the fuzz corpus on the stable toolchain, and mutates it: a fuzzer without coverage, the same every time.

use std::fs;
use std::path::{Path, PathBuf};

mod common;
use common::checks;

const MUTATIONS: usize = 200_000;

type Check = fn(&[u8]);
/// Corpus, and what is held against it.
const TARGETS: [(&str, Check); 5] = [
    ("parse_udp", checks::parse_udp_holds),
    ("reflect", checks::reflect_holds),
    ("slow_path", checks::slow_path_holds),
    ("reflect", checks::forward_holds),
    ("slow_path", checks::forward_holds),
];

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let entries = fs::read_dir(&dir).unwrap_or_else(|e| panic!("read {}: {e}", dir.display()));
    let mut files: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
    files.sort();
    assert!(
        !files.is_empty(),
        "{} is empty: run the example make_corpus",
        dir.display()
    );
    files
        .into_iter()
        .map(|path| (path.clone(), fs::read(&path).unwrap()))
        .collect()
}

#[test]
fn every_corpus_file_keeps_the_promises() {
    for (target, check) in TARGETS {
        for (path, frame) in corpus(target) {
            println!("{}", path.display());
            check(&frame);
        }
    }
}

#[test]
fn every_truncation_of_the_corpus_keeps_the_promises() {
    for (target, check) in TARGETS {
        for (_, frame) in corpus(target) {
            for len in 0..frame.len() {
                check(&frame[..len]);
            }
        }
    }
}

/// SplitMix64: the same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

fn mutate(random: &mut Random, frame: &mut Vec<u8>, other: &[u8]) {
    const INTERESTING: [u8; 12] = [0, 1, 2, 4, 6, 17, 43, 44, 60, 0x7f, 0x80, 0xff];
    for _ in 0..=random.below(4) {
        let at = random.below(frame.len());
        match random.below(7) {
            0 if !frame.is_empty() => frame[at] ^= 1 << random.below(8),
            1 if !frame.is_empty() => frame[at] = random.next() as u8,
            2 if !frame.is_empty() => frame[at] = INTERESTING[random.below(INTERESTING.len())],
            3 => frame.truncate(at),
            4 => {
                let from = random.below(other.len());
                frame.truncate(at);
                frame.extend(&other[from..]);
            }
            5 => {
                let len = random.below(8);
                frame.splice(at..at, (0..len).map(|i| i as u8));
            }
            _ => frame.extend([0; 5]),
        }
    }
    // Most mutations of an IPv4 header are caught by its checksum: repair it half of the time to get past.
    if random.below(2) == 0 && frame.len() >= 34 && frame[12..14] == [8, 0] {
        let end = (14 + usize::from(frame[14] & 0xf) * 4).clamp(34, frame.len());
        frame[24..26].fill(0);
        let sum = common::frames::naive_checksum(&[&frame[14..end]]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
}

#[test]
fn mutated_corpus_keeps_the_promises() {
    for (target, check) in TARGETS {
        let corpus = corpus(target);
        let mut random = Random(1);
        for _ in 0..MUTATIONS {
            let mut frame = corpus[random.below(corpus.len())].1.clone();
            let other = &corpus[random.below(corpus.len())].1;
            mutate(&mut random, &mut frame, other);
            check(&frame);
        }
    }
}
