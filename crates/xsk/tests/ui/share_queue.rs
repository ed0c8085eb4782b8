//! A queue is one thread's.
use xsk::{Rx, RxHalf, Tx};

fn both(rx: &mut Rx<'_>) {
    let rx = &*rx;
    std::thread::scope(|s| {
        s.spawn(move || rx.wakeup_needed());
    });
}

fn other(tx: &mut Tx<'_>) {
    std::thread::scope(|s| {
        s.spawn(move || tx.reclaim());
    });
}

fn halves(half: &RxHalf) {
    std::thread::scope(|s| {
        s.spawn(move || half.umem().size());
    });
}

fn main() {}
