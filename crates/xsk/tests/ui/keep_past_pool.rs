//! A frame can't outlive its pool.
use xsk::{Pool, Umem, UmemConfig};

fn main() {
    let umem = Umem::new(&UmemConfig::default()).unwrap();
    let kept = {
        let pool = Pool::new(&umem, 64).unwrap();
        pool.allocate_one()
    };
    drop(kept);
}
