//! A half over a pool is used up.
use xsk::{Pool, TxHalf};

fn twice(tx: TxHalf, a: &Pool, b: &Pool) {
    let _first = tx.over(a);
    let _second = tx.over(b);
}

fn main() {}
