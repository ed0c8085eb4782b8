//! What the loop path costs a round trip: without delay, with one, with every kind of fault, and behind
//! a device that has the most to do.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mpps_io::loopback::{Capacity, Jitter, LoopConfig, LoopPort, Spread};
use mpps_io::{Burst, Frame, Layer, Port, Queue};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

const BURST: usize = 32;

fn loopback(c: &mut Criterion) {
    let mut group = c.benchmark_group("loop");
    group.throughput(Throughput::Elements(BURST as u64));
    let mut plain = LoopConfig::default();
    plain.buffers.layer = Layer::Payload;
    let delayed = LoopConfig {
        delay_ns: 100_000,
        ..plain.clone()
    };
    let faults = LoopConfig {
        loss: 0.01,
        duplicate: 0.01,
        reorder: 0.01,
        corrupt: 0.01,
        ..delayed.clone()
    };
    let device = LoopConfig {
        capacity: Some(Capacity::Packets(40_000_000)),
        jitter: Jitter {
            time_ns: 10_000,
            spread: Spread::Uniform,
            overtake: false,
        },
        burst_loss: 0.01,
        burst_length: 8,
        ..plain.clone()
    };
    for (name, config) in [
        ("plain", plain),
        ("delay", delayed),
        ("delay and 1 % of each fault", faults),
        ("device", device),
    ] {
        // A burst a microsecond, by a clock that costs nothing.
        let time = AtomicU64::new(0);
        let port = LoopPort::new(
            config,
            1,
            || time.fetch_add(500, Ordering::Relaxed),
            |_: &mut [u8]| true,
        );
        let pool = port.pool(0).expect("a pool");
        let mut queue = port.queue(0, &pool).expect("a queue");
        let mut sending = Burst::new(BURST);
        let mut receiving = Burst::new(2 * BURST);
        let mut flow = 0;
        group.bench_function(name, |b| {
            b.iter(|| {
                let _ = queue.allocate(&mut sending, BURST);
                for frame in sending.as_mut_slice() {
                    frame.set_len(64);
                    flow = (flow + 1) % 1000;
                    frame.set_flow(flow);
                }
                let _ = queue.transmit(black_box(&mut sending));
                let n = queue.receive(black_box(&mut receiving));
                receiving.clear();
                n
            })
        });
    }
    group.finish();
}

criterion_group!(benches, loopback);
criterion_main!(benches);
