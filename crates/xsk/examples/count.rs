//! Our own instructions per packet, over the fake kernel: what is left when the kernel's work is taken away.
//!
//! ```text
//! cargo build --release -p xsk --example count
//! valgrind --tool=callgrind --toggle-collect='*measured*' --callgrind-out-file=/dev/null \
//!     target/release/examples/count forward
//! ```
//!
//! callgrind counts the functions named `measured` and all that they call, and nothing of the fake kernel. Divide its
//! sum by the number of packets, which the program prints.

use std::hint::black_box;
use std::process::ExitCode;
use xsk::fake::{FakeConfig, FakeQueue};
use xsk::{Frame, Pool, Rx, Tx, Umem, UmemConfig};

const BURST: usize = 64;
const ROUNDS: usize = 200;

/// Receives a burst, swaps the MAC addresses, sends it back; takes completions and refills by the way.
#[inline(never)]
fn measured_forward<'p>(rx: &mut Rx<'p>, tx: &mut Tx<'p>, burst: &mut Vec<Frame<'p>>) -> usize {
    rx.receive(BURST, |frame| push(burst, frame));
    tx.send(burst.drain(..))
}

/// The same, with the addresses swapped in each frame.
#[inline(never)]
fn measured_macswap<'p>(rx: &mut Rx<'p>, tx: &mut Tx<'p>, burst: &mut Vec<Frame<'p>>) -> usize {
    rx.receive(BURST, |mut frame| {
        if let Some(addresses) = frame.bytes_mut().first_chunk_mut::<12>() {
            let (to, from) = addresses.split_at_mut(6);
            to.swap_with_slice(from);
        }
        push(burst, frame);
    });
    tx.send(burst.drain(..))
}

/// Receives a burst and drops it.
#[inline(never)]
fn measured_drop(rx: &mut Rx<'_>) -> usize {
    rx.receive(BURST, |frame| {
        black_box(frame.len());
    })
}

/// Allocates a burst, sets its length and sends it; takes completions by the way.
#[inline(never)]
fn measured_send<'p>(pool: &'p Pool, tx: &mut Tx<'p>, burst: &mut Vec<Frame<'p>>) -> usize {
    pool.allocate(BURST, |mut frame| {
        frame.set_len(60);
        push(burst, frame);
    });
    tx.send(burst.drain(..))
}

/// Without the reallocation that `Vec::push` has: a burst never holds more than it was made for.
#[inline(always)]
fn push<'p>(burst: &mut Vec<Frame<'p>>, frame: Frame<'p>) {
    if burst.len() < burst.capacity() {
        burst.push(frame);
    }
}

fn main() -> ExitCode {
    let work = std::env::args().nth(1).unwrap_or_default();
    let umem = Umem::fake(&UmemConfig::default()).expect("a UMEM");
    let pool = Pool::new(&umem, 4096).expect("a pool");
    let ring = 1024;
    let config = FakeConfig {
        rx_ring: ring,
        tx_ring: ring,
        fill_ring: ring,
        completion_ring: ring,
        ..FakeConfig::default()
    };
    let (rx, tx, queue) = FakeQueue::halves(&umem, &config);
    let (mut rx, mut tx) = (rx.over(&pool).expect("RX"), tx.over(&pool).expect("TX"));
    let mut burst = Vec::with_capacity(BURST);
    let mut packets = 0;
    for _ in 0..ROUNDS {
        if work != "send" {
            (0..BURST).for_each(|_| assert!(queue.deliver(&[0x55; 60])));
        }
        packets += match work.as_str() {
            "forward" => measured_forward(&mut rx, &mut tx, &mut burst),
            "macswap" => measured_macswap(&mut rx, &mut tx, &mut burst),
            "drop" => measured_drop(&mut rx),
            "send" => measured_send(&pool, &mut tx, &mut burst),
            _ => {
                eprintln!("count: want forward, macswap, drop or send");
                return ExitCode::from(2);
            }
        };
        queue.take_tx();
        queue.complete(usize::MAX);
    }
    println!("{work}: {packets} packets in bursts of {BURST}");
    ExitCode::SUCCESS
}
