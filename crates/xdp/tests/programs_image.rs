//! The programs `send_tagged` and `send_mixed` make the packets that mpps-wire's images make, byte for byte.

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
use mpps_wire::image::{PartSource, PartWriter, Place, Sizes};
use mpps_wire::{Image, ImageSpec};
use programs::abi::{Image as Images, Lane, MOST_SIZES, MOST_STREAMS, Sized as OfSize, Stream, flag};
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

/// A stream of the tests: an image for each size, smallest first, and its flows among those of all streams.
struct Mixed {
    specs: Vec<ImageSpec>,
    images: Vec<Image>,
    first: u32,
    /// Length of the cycle of sizes; 0: they come at random.
    cycle: u32,
}

impl Mixed {
    /// Draws a stream whose packets the programs can make; `None`: none was drawn.
    fn drawn(draw: &mut Draw, first: u32) -> Option<Self> {
        let spec = ImageSpec {
            first_flow: first,
            ..any_spec(draw)
        };
        if spec.flows > 5000 || spec.frame_len < 60 {
            return None;
        }
        let sizes = [1, 2, 3, 8][draw.below(4)];
        let longer = |more: usize| ImageSpec {
            frame_len: spec.frame_len + more,
            ..spec.clone()
        };
        let mut more = 0;
        let specs: Vec<ImageSpec> = (0..sizes)
            .map(|_| {
                let spec = longer(more);
                more += 1 + draw.below(70);
                spec
            })
            .collect();
        let images: Vec<Image> = specs
            .iter()
            .map(|spec| Image::new(spec.clone()).expect("an image"))
            .collect();
        images
            .iter()
            .all(|image| image.parts().is_some_and(|parts| image::image(&parts).is_some()))
            .then_some(())?;
        let cycle = if sizes > 1 && draw.one_in(2) { sizes as u32 } else { 0 };
        Some(Self {
            specs,
            images,
            first,
            cycle,
        })
    }

    fn flows(&self) -> u32 {
        self.specs[0].flows
    }

    /// Order of the sizes.
    fn order(&self) -> Sizes {
        match (self.specs.len(), self.cycle) {
            (1, _) => Sizes::One,
            (sizes, 0) => Sizes::Random {
                count: sizes as u64,
                seed: 77,
            },
            (sizes, _) => Sizes::in_turn((0..sizes as u16).rev().collect()),
        }
    }
}

/// Loads the program for streams, on lanes of this CPU.
fn load_mixed(cpu: usize, all: &[Mixed], seed: u64) -> (Program, Mapping<Lane>) {
    let (mut streams, mut images) = ([Stream::default(); MOST_STREAMS], [Images::default(); MOST_STREAMS]);
    let mut sized = [OfSize::default(); MOST_STREAMS * MOST_SIZES];
    let (mut words, mut turns) = (Vec::new(), Vec::new());
    for (place, of) in all.iter().enumerate() {
        streams[place] = Stream {
            first: of.first,
            end: of.first + of.flows(),
            seats: 1,
            sizes: of.specs.len() as u32,
            cycle: of.cycle,
            turns: turns.len() as u32,
            seed: 77,
            ..Stream::default()
        };
        turns.extend((0..u64::from(of.cycle)).rev());
        for (size, image) in of.images.iter().enumerate() {
            let (mut image, tables) = image::image(&image.parts().expect("parts")).expect("an image");
            sized[place * MOST_SIZES + size] = OfSize {
                word: image.word,
                constant: image.writer.map(|writer| writer.constant),
                sum: image.sum.map(|sum| sum.constant),
                rest: image.sum.map(|sum| sum.rest),
                data: image.data,
                place: 0,
            };
            if size == 0 {
                image
                    .writer
                    .iter_mut()
                    .for_each(|writer| writer.table += words.len() as u32);
                words.extend(tables);
                images[place] = image;
            }
        }
    }
    let mut plan = programs::plan();
    plan.flags = flag::TAGGED | flag::SIZES;
    plan.seed = seed;
    plan.streams = all.len() as u32;
    plan.places = plan.streams + 1;
    plan.frame_len = all
        .iter()
        .flat_map(|of| &of.specs)
        .map(|spec| spec.frame_len)
        .max()
        .unwrap_or(0) as u32;
    plan.flows = all.iter().map(Mixed::flows).sum();
    (plan.lanes, plan.senders) = (1, plan.streams);
    let lanes = (cpu + 1) * (all.len() + 1);
    let entries = [
        ("LANES_BY_CPU", lanes as u32),
        ("GAPS", abi::OCTAVES as u32),
        ("TABLES", words.len().max(1) as u32),
        ("TURNS", turns.len().max(1) as u32),
        ("ROWS", plan.places + plan.streams),
        ("POLLS", cpu as u32 + 1),
    ];
    let constants = [
        Constant("STREAMS", bytes_of(&streams)),
        Constant("IMAGES", bytes_of(&images)),
        Constant("SIZED", bytes_of(&sized)),
    ];
    let program = programs::load_sized(&TRAFFIC.0, &plan, &constants, "send_mixed", &entries);
    for (name, values) in [("TABLES", &words), ("TURNS", &turns)] {
        let places: Mapping<AtomicU64> = program.map(name, values.len().max(1));
        places
            .iter()
            .zip(values)
            .for_each(|(place, value)| place.store(*value, Relaxed));
    }
    let map: Mapping<Lane> = program.map("LANES_BY_CPU", lanes);
    let clock = cpu * (all.len() + 1);
    for (place, of) in all.iter().enumerate() {
        let lane = &map[clock + 1 + place];
        lane.first_flow.store(of.first, Relaxed);
        lane.flows.store(of.flows(), Relaxed);
        lane.run.store(of.specs[0].run.into(), Relaxed);
        // They take turns.
        lane.step_ns.store(1, Relaxed);
        lane.unit.store(1, Relaxed);
        lane.in_unit.store(1, Relaxed);
        lane.remaining.store(u64::MAX, Relaxed);
        for (to, word) in lane.headers.iter().zip(sized[place * MOST_SIZES].word) {
            to.store(word, Relaxed);
        }
    }
    (program, map)
}

#[test]
fn packets_of_streams_and_sizes_are_those_of_images_byte_for_byte() {
    if !programs::can_load() {
        return;
    }
    let cpu = pin();
    let (mut made, mut several) = (0, 0);
    for seed in 0.. {
        let mut draw = Draw { seed, drawn: 0 };
        let count = [1, 2, 8][draw.below(3)];
        let mut all: Vec<Mixed> = Vec::new();
        for _ in 0..40 {
            let first = all.last().map_or(0, |last| last.first + last.flows());
            all.extend(Mixed::drawn(&mut draw, first).filter(|_| all.len() < count));
        }
        // Data and tags of all streams have one seed, and one run.
        let (data_seed, run) = (all[0].specs[0].seed, all[0].specs[0].run);
        for of in &mut all {
            of.specs
                .iter_mut()
                .for_each(|spec| (spec.seed, spec.run) = (data_seed, run));
            of.images = of
                .specs
                .iter()
                .map(|spec| Image::new(spec.clone()).expect("an image"))
                .collect();
        }
        let (program, lanes) = load_mixed(cpu, &all, data_seed);
        let clock = cpu * (all.len() + 1);
        let longest = all
            .iter()
            .flat_map(|of| &of.specs)
            .map(|spec| spec.frame_len)
            .max()
            .unwrap_or(0);
        for i in 0..5 * all.len() as u64 {
            let of = &all[i as usize % all.len()];
            let (n, flows) = (i / all.len() as u64, u64::from(of.flows()));
            let place = Place {
                flow: (n % flows) as u32,
                number: n / flows,
            };
            let (verdict, frame) = program.run(&vec![0xee; longest]);
            let size = of.order().at(place.flow, place.number as u32, of.flows());
            let mut wanted = vec![0; of.specs[size].frame_len];
            of.images[size].write(&mut wanted, place, lanes[clock].now_ns.load(Relaxed));
            assert_eq!(
                (verdict, &frame),
                (programs::TX, &wanted),
                "{i} of seed {seed}: size {size} of {:?}",
                of.specs
            );
            several += u64::from(size > 0);
            made += 1;
        }
        if made >= 500 {
            break;
        }
    }
    assert!(several > 50, "{several}");
}
