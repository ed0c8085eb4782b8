//! Within scopes, a frame of another pool is of another type.
use xsk::{Pool, RxHalf, TxHalf};

fn forward(a: &Pool, b: &Pool, rx: RxHalf, tx: TxHalf) {
    a.scope(|a| {
        b.scope(|b| {
            let mut rx = rx.over(a).unwrap();
            let mut tx = tx.over(b).unwrap();
            rx.receive(1, |frame| {
                tx.send([frame]);
            });
        })
    });
}

fn main() {}
