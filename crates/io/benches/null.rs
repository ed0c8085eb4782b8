//! What the null path costs: nothing else is on the lane, so the engine's own cost is what a run over it measures.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mpps_io::null::{NoSource, NullConfig, NullPort, Source};
use mpps_io::{Burst, Frame, Port, Queue};
use std::hint::black_box;

const BURST: usize = 32;
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// Gives packets without writing them: what is left is the path's own cost.
struct Blank;

impl Source for Blank {
    fn fill(&mut self, _frame: &mut [u8]) -> usize {
        60
    }
}

fn null(c: &mut Criterion) {
    let mut group = c.benchmark_group("null");
    group.throughput(Throughput::Elements(BURST as u64));

    let port = NullPort::new(NullConfig::default(), 1, MAC, NoSource);
    let pool = port.pool(0).expect("a pool");
    let mut queue = port.queue(0, &pool).expect("a queue");
    let mut burst = Burst::new(BURST);
    group.bench_function("allocate, transmit", |b| {
        b.iter(|| {
            let _ = queue.allocate(black_box(&mut burst), BURST);
            queue.transmit(black_box(&mut burst))
        })
    });
    group.bench_function("allocate, set length, touch 60 bytes, transmit", |b| {
        b.iter(|| {
            let _ = queue.allocate(&mut burst, BURST);
            for frame in burst.as_mut_slice() {
                frame.set_len(60);
                frame.bytes_mut().fill(7);
            }
            queue.transmit(black_box(&mut burst))
        })
    });

    let port = NullPort::new(NullConfig::default(), 1, MAC, |_| Blank);
    let pool = port.pool(0).expect("a pool");
    let mut queue = port.queue(0, &pool).expect("a queue");
    let mut burst = Burst::new(BURST);
    group.bench_function("receive, drop", |b| {
        b.iter(|| {
            let n = queue.receive(black_box(&mut burst));
            burst.clear();
            n
        })
    });
    group.bench_function("receive, transmit", |b| {
        b.iter(|| {
            let _ = queue.receive(black_box(&mut burst));
            queue.transmit(black_box(&mut burst))
        })
    });
    group.finish();
}

criterion_group!(benches, null);
criterion_main!(benches);
