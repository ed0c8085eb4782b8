//! The `send_tagged` program makes the packets that mpps-wire's images make, byte for byte.

#[path = "../src/encode/image.rs"]
mod image;
#[path = "programs/mod.rs"]
mod programs;
#[path = "../../wire/tests/common/specs.rs"]
mod specs;
#[allow(dead_code, unreachable_pub, reason = "a part is used")]
#[path = "../src/sys.rs"]
mod sys;

use programs::abi;

use mpps_sys::map::Mapping;
use mpps_wire::image::{PartSource, PartWriter, Place};
use mpps_wire::{Image, ImageSpec};
use programs::abi::{Lane, flag};
use programs::{Constant, Object, Program, bytes_of};
use specs::{Draw, any_spec};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

static TRAFFIC: Object<{ include_bytes!("../bpf/traffic.bpf.o").len() }> =
    Object(*include_bytes!("../bpf/traffic.bpf.o"));

const PACKETS: u64 = 20;

/// Runs this thread on one CPU from now on, and returns its number.
fn pin() -> usize {
    // SAFETY: zeros are an empty set, which is ours.
    unsafe {
        let cpu = libc::sched_getcpu() as usize;
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set),
            0
        );
        cpu
    }
}

/// Loads the program for an image, on a lane of this CPU that sends all flows from one on.
fn load(cpu: usize, spec: &ImageSpec, parts: &mpps_wire::image::Parts, first: u32) -> Option<(Program, Mapping<Lane>)> {
    let (image, tables) = image::image(parts)?;
    let mut plan = programs::plan();
    plan.flags = flag::TAGGED;
    plan.seed = spec.seed;
    plan.frame_len = spec.frame_len as u32;
    plan.flows = spec.flows;
    plan.lanes = 1;
    plan.rows = 1;
    let entries = [
        ("LANES_BY_CPU", cpu as u32 + 1),
        ("GAPS", abi::OCTAVES as u32),
        ("TABLES", tables.len().max(1) as u32),
        ("POLLS", cpu as u32 + 1),
    ];
    let program = programs::load_sized(
        &TRAFFIC.0,
        &plan,
        &[Constant("IMAGE", bytes_of(&image))],
        "send_tagged",
        &entries,
    );
    let words: Mapping<AtomicU64> = program.map("TABLES", tables.len().max(1));
    words
        .iter()
        .zip(&tables)
        .for_each(|(place, word)| place.store(*word, Relaxed));
    let lanes: Mapping<Lane> = program.map("LANES_BY_CPU", cpu + 1);
    let lane = &lanes[cpu];
    lane.first_flow.store(first, Relaxed);
    lane.flow_step.store(1, Relaxed);
    lane.flows.store(spec.flows - first, Relaxed);
    lane.run.store(spec.run.into(), Relaxed);
    for (to, word) in lane.headers.iter().zip(image.word) {
        to.store(word, Relaxed);
    }
    Some((program, lanes))
}

#[test]
fn packets_are_those_of_images_byte_for_byte() {
    if !programs::can_load() {
        return;
    }
    let cpu = pin();
    let (mut made, mut kinds, mut sums) = (0, [0; 3], [0; 5]);
    for seed in 0.. {
        let mut draw = Draw { seed, drawn: 0 };
        let spec = ImageSpec {
            first_flow: 0,
            ..any_spec(&mut draw)
        };
        let image = Image::new(spec.clone()).expect("an image");
        let Some(parts) = image.parts() else { continue };
        // Most have neither: an image of each kind is to be among few.
        let rare = |writer: &PartWriter| !matches!(writer.source, PartSource::Table(_));
        if spec.frame_len < 14 || !(parts.sums.len() > 1 || parts.writers.iter().any(rare)) {
            continue;
        }
        let first = draw.below(spec.flows as usize) as u32;
        let Some((program, lanes)) = load(cpu, &spec, &parts, first) else {
            continue;
        };
        let number = draw.word() >> 24;
        lanes[cpu].seq.store(number, Relaxed);
        let flows = u64::from(spec.flows - first);
        let mut wanted = vec![0; spec.frame_len];
        for i in 0..PACKETS {
            let (verdict, frame) = program.run(&vec![0xee; spec.frame_len]);
            let place = Place {
                flow: first + (i % flows) as u32,
                number: number + i / flows,
            };
            image.write(&mut wanted, place, lanes[cpu].now_ns.load(Relaxed));
            assert_eq!(
                (verdict, &frame),
                (programs::TX, &wanted),
                "{i} of seed {seed}: {spec:?} {parts:?}"
            );
        }
        for writer in &parts.writers {
            kinds[match writer.source {
                PartSource::Counter { .. } => 0,
                PartSource::Table(_) => 1,
                PartSource::Random { .. } => 2,
            }] += 1;
        }
        sums[parts.sums.len()] += 1;
        made += PACKETS;
        if made >= 1000 {
            break;
        }
    }
    println!("{kinds:?} {sums:?}");
    assert!(
        kinds.iter().all(|count| *count > 5) && sums[..3].iter().all(|count| *count > 5),
        "{kinds:?} {sums:?}"
    );
}
