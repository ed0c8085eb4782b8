//! ns per packet for writing, verifying and reflecting frames of ten sizes (FCS counted).

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use mpps_wire::{
    ChecksumMode, FrameSize, MacAddr, ReflectFilter, Stamp, Template, TemplateSpec, check_udp, reflect_in_place,
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
}

criterion_group! {
    name = wire;
    config = Criterion::default().without_plots().sample_size(30)
        .warm_up_time(std::time::Duration::from_millis(200))
        .measurement_time(std::time::Duration::from_millis(600));
    targets = benches
}
criterion_main!(wire);
