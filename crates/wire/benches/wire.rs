//! ns per packet for writing, verifying and reflecting frames of ten sizes (FCS counted). In the group `image`, times
//! are those of 64 packets.

mod image_cases;

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use image_cases::Writer;
use mpps_wire::image::Place;
use mpps_wire::{
    Blank, ChecksumMode, FrameSize, MacAddr, Mark, ReflectFilter, Stamp, TAG_LEN, Tag, Template, TemplateSpec,
    check_udp, reflect_in_place,
};

const SEED: u64 = 1;
const SIZES: [usize; 10] = [64, 65, 72, 96, 120, 128, 136, 144, 256, 1518];

fn template(size: usize, v6: bool) -> Option<Template> {
    let (src, dst) = if v6 {
        ("fd00:99::1", "fd00:99::2")
    } else {
        ("10.99.0.1", "10.99.0.2")
    };
    Template::new(&TemplateSpec {
        src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        dst_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        vlan: None,
        src: src.parse().ok()?,
        dst: dst.parse().ok()?,
        payload_len: FrameSize::from_fcs(size).payload_len(v6, false)?,
        ttl: 64,
        dscp: 0,
        seed: SEED,
        checksum: ChecksumMode::Software,
    })
    .ok()
}

/// Every case that exists: 64 bytes hold no IPv6 stamp.
fn cases() -> impl Iterator<Item = (String, Template)> {
    let all = SIZES.into_iter().flat_map(|size| [(size, false), (size, true)]);
    all.filter_map(|(size, v6)| Some((format!("v{}/{size}", if v6 { 6 } else { 4 }), template(size, v6)?)))
}

fn verify(frame: &[u8]) -> bool {
    check_udp(frame, SEED, true).is_ok_and(|c| c.checksum_ok && c.data_ok)
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("write");
    for (name, template) in cases() {
        let mut frame = vec![0; template.frame_len()];
        let mut seq = 0;
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter(|| {
                seq += 1;
                template.write(
                    black_box(&mut frame),
                    10_000 + (seq & 1023) as u16,
                    9_000,
                    Stamp {
                        seq,
                        time_ns: seq * 100,
                    },
                );
            });
        });
    }
    group.finish();
    let mut group = c.benchmark_group("restamp");
    for (name, template) in cases().take(1) {
        let mut frame = vec![0; template.frame_len()];
        template.write(&mut frame, 10_000, 9_000, Stamp::default());
        let mut time_ns = 0;
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter(|| {
                time_ns += 100;
                template.restamp(black_box(&mut frame), time_ns);
            });
        });
    }
    let is_plain = |case: &image_cases::Case| case.name == "plain/64";
    if let Some(Writer::Image(image)) = image_cases::cases().find(is_plain).map(|case| case.writer) {
        let mut frame = vec![0; image.frame_len()];
        image.write(&mut frame, Place { flow: 3, number: 7 }, 0);
        let mut time_ns = 0;
        group.bench_function(BenchmarkId::from_parameter("image/64"), |b| {
            b.iter(|| {
                time_ns += 100;
                image.restamp(black_box(&mut frame), time_ns);
            });
        });
    }
    group.finish();
    let mut group = c.benchmark_group("verify");
    for (name, template) in cases() {
        let mut frame = vec![0; template.frame_len()];
        template.write(&mut frame, 10_000, 9_000, Stamp { seq: 7, time_ns: 100 });
        assert!(verify(&frame));
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter(|| verify(black_box(&frame)))
        });
    }
    group.finish();
    let mut group = c.benchmark_group("reflect");
    let filter = ReflectFilter {
        ports: Some(1..=65_535),
        ..ReflectFilter::default()
    };
    for (name, template) in cases() {
        let mut frame = vec![0; template.frame_len()];
        template.write(&mut frame, 10_000, 9_000, Stamp { seq: 7, time_ns: 100 });
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            let came = frame.clone();
            b.iter(|| {
                // Its time to live would be used up.
                frame[22..26].copy_from_slice(&came[22..26]);
                reflect_in_place(black_box(&mut frame), &filter, false)
            });
        });
    }
    group.finish();
    let mut group = c.benchmark_group("reflect by tag");
    let filter = ReflectFilter {
        tagged: Some(1),
        ..ReflectFilter::default()
    };
    for (name, template) in cases() {
        let mut frame = vec![0; template.frame_len()];
        template.write(&mut frame, 10_000, 9_000, Stamp { seq: 7, time_ns: 100 });
        let tag = Tag {
            number: 1,
            run: 2,
            flow: 3,
            time_ns: 4,
            mark: Mark::Sent,
        };
        let tag_at = frame.len() - TAG_LEN;
        frame[tag_at..].copy_from_slice(&tag.bytes(1));
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            let came = frame.clone();
            b.iter(|| {
                // Its time to live (hop limit) would be used up, and its tag marked.
                frame[20..26].copy_from_slice(&came[20..26]);
                frame[tag_at + 4..tag_at + 8].copy_from_slice(&came[tag_at + 4..tag_at + 8]);
                reflect_in_place(black_box(&mut frame), &filter, false)
            });
        });
    }
    group.finish();
}

/// Images next to the templates that write the same packets, 64 packets in each call.
fn images(c: &mut Criterion) {
    const BURST: usize = 64;
    let mut group = c.benchmark_group("image");
    group.throughput(Throughput::Elements(BURST as u64));
    for case in image_cases::cases() {
        let mut frames = vec![vec![0; case.len]; BURST];
        let mut seq = 0;
        group.bench_function(BenchmarkId::from_parameter(&case.name), |b| {
            b.iter(|| {
                let blanks = black_box(&mut frames).iter_mut().map(|bytes| {
                    seq += 1;
                    let flow = (seq & 1023) as u32;
                    let ports = (10_000 + flow as u16, 9_000);
                    Blank {
                        bytes,
                        flow,
                        ports,
                        seq,
                    }
                });
                match &case.writer {
                    Writer::Template(template) => template.write_all(blanks, 5),
                    Writer::Image(image) => image.write_all(blanks, 5),
                }
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = wire;
    config = Criterion::default().without_plots().sample_size(30)
        .warm_up_time(std::time::Duration::from_millis(200))
        .measurement_time(std::time::Duration::from_millis(600));
    targets = benches, images
}
criterion_main!(wire);
